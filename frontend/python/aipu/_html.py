"""Pages of HTML that need nothing else: no network, light and dark, on paper. What all pages of the package share: the
style, tables that sort, headings, the document.
"""

from __future__ import annotations

import html
from typing import Dict, Optional, Sequence

COLORS = """
:root { color-scheme: light dark; --ink: #1b1b1f; --soft: #6b6f76; --line: #d9dbe0; --paper: #fff; --panel: #f6f7f9;
  --c0: #3b6fb6; --c1: #d9822b; --c2: #3f9b6c; --c3: #b3559b; --c4: #8a7a2f; --c5: #6a6fd0; --warn: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e8ea; --soft: #9aa0a8; --line: #3a3d43; --paper: #17181b;
  --panel: #1f2125; --c0: #7ba7e6; --c1: #f0a860; --c2: #74c79b; --c3: #dd8cc8; --c4: #c9b866; --c5: #a5a9f5;
  --warn: #f2b8b5; } }
"""

_STYLE = (
    COLORS
    + """
body { font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.45rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .3rem; }
h3 { font-size: .95rem; margin: 1.1rem 0 .2rem; color: var(--soft); font-weight: 600; }
.sub { color: var(--soft); } .warn { color: var(--warn); } .texts { overflow-wrap: anywhere; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: .8rem 0; }
.tile { background: var(--panel); border-radius: .5rem; padding: .5rem .9rem; min-width: 8rem; }
.tile b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(25rem, 1fr)); gap: .5rem 1.5rem; }
figure { margin: 0; break-inside: avoid; } figcaption { font-weight: 600; color: var(--soft); font-size: .9rem; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font-size: 11px; }
svg .axis { stroke: var(--line); } svg .mark { stroke: var(--warn); stroke-dasharray: 3 3; }
.wide { overflow-x: auto; } table { border-collapse: collapse; }
td, th { padding: .12rem .6rem; text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th { border-bottom: 1px solid var(--line); font-weight: 600; } td.t, th.t { text-align: left; }
td.t { white-space: normal; overflow-wrap: anywhere; max-width: 30rem; }
table.sortable th { cursor: pointer; } th[aria-sort=ascending]::after { content: " ▴"; }
th[aria-sort=descending]::after { content: " ▾"; }
tr:target { background: color-mix(in srgb, var(--c1) 25%, transparent); } a { color: var(--c0); }
code, pre { font: 12.5px/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .6rem; background: var(--panel); }
details { margin-top: 1rem; } summary { cursor: pointer; font-weight: 600; }
.legend span { margin-right: 1.2rem; }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .3rem; vertical-align: -1px; }
@media print { body { margin: 0; max-width: none; font-size: 10pt; } a { color: inherit; text-decoration: none; }
  .wide { overflow: visible; } tr { break-inside: avoid; } }
"""
)

# Sorts a table by the column whose head is clicked, or chosen with the keyboard: numbers by data-v, texts as they are.
_SCRIPT = """
document.querySelectorAll("table.sortable").forEach(function (table) {
  var heads = table.tHead.rows[0].cells;
  Array.prototype.forEach.call(heads, function (head, column) {
    function key(row) { var cell = row.cells[column]; return cell.dataset.v === undefined ? cell.textContent
      : Number(cell.dataset.v); }
    function sort() {
      var down = head.getAttribute("aria-sort") !== "descending";
      Array.prototype.forEach.call(heads, function (other) { other.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      var rows = Array.prototype.slice.call(table.tBodies[0].rows);
      rows.sort(function (a, b) { var x = key(a), y = key(b); return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1); });
      rows.forEach(function (row) { table.tBodies[0].appendChild(row); });
    }
    head.tabIndex = 0;
    head.addEventListener("click", sort);
    head.addEventListener("keydown", function (event) { if (event.key === "Enter") sort(); });
  });
});
"""


def text(value: object) -> str:
    """As it stands in HTML."""
    return html.escape(str(value))


Cell = object  # a text, or (number to sort by, HTML)


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    texts: int = 1,
    sortable: bool = False,
    ids: Optional[Sequence[str]] = None,
    kinds: Optional[Sequence[str]] = None,
) -> str:
    """``rows`` of cells: texts, or pairs of a number to sort by (None: a text) and HTML. The first ``texts`` columns,
    and those of texts, are on the left. ``ids`` of rows, to link to; ``kinds``: their classes in a style.
    """

    def cell(place: int, value: Cell) -> str:
        if isinstance(value, tuple):
            number, inside = value
            return f'<td class="t">{inside}</td>' if number is None else f'<td data-v="{number!r}">{inside}</td>'
        return f"<td{' class=t' if place < texts else ''}>{text(value)}</td>"

    head = "".join(f"<th{' class=t' if place < texts else ''}>{text(name)}</th>" for place, name in enumerate(heads))
    body = []
    for number, row in enumerate(rows):
        name = f' id="{text(ids[number])}"' if ids is not None else ""
        name += f' class="{kinds[number]}"' if kinds is not None and kinds[number] else ""
        body.append(f"<tr{name}>{''.join(cell(place, value) for place, value in enumerate(row))}</tr>")
    kind = ' class="sortable"' if sortable else ""
    return f'<div class="wide"><table{kind}><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def section(title: str, inside: str) -> str:
    """A part with a heading."""
    return f"<section><h2>{text(title)}</h2>{inside}</section>"


def document(title: str, inside: str, under: str = "", style: str = "", heading: str = "") -> str:
    """The page, ``under`` its heading (by default the title); ``style``: what it needs beside the common one."""
    script = f"<script>{_SCRIPT}</script>" if 'class="sortable"' in inside else ""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{text(title)}</title><style>{_STYLE}{style}</style><body><h1>{text(heading or title)}</h1>"
        f'<div class="sub">{under}</div>{inside}{script}</body></html>\n'
    )


def tiles(values: Dict[str, str]) -> str:
    """Figures that are seen first."""
    inside = "".join(f"<div class=tile><b>{text(value)}</b>{text(name)}</div>" for name, value in values.items())
    return f'<div class="tiles">{inside}</div>'
