"""The profile of a kernel as a page of HTML that needs nothing else: totals, TECs, transfers, and the source with the
cycles of each line.
"""

from __future__ import annotations

import linecache
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from . import _html, _native

_COLORS = {
    "scalar": "#4e79a7",
    "vector": "#59a14f",
    "math": "#b6992d",
    "control": "#9c755f",
    "local memory": "#76b7b2",
    "global memory": "#f28e2b",
    "DMA": "#e15759",
    "sync": "#b07aa1",
}

_STYLE = """
.big { font-size: 2rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.bar { display: flex; height: 1rem; width: 28rem; background: var(--panel); }
.bar span { display: block; height: 100%; }
table.code { font: 12.5px/1.45 ui-monospace, monospace; }
table.code td { padding: 0 .6rem; }
table.code td.text { text-align: left; white-space: pre; }
"""

_MODEL = (
    "A TEC issues a scalar and a vector instruction per cycle; an instruction on a native vector takes one cycle, "
    "divisions 12, transcendental functions 16. Caches always hit: lsram 1, shared 2, global 4 cycles per access. "
    "DMA: 140 cycles to start and 16 bytes per cycle and TEC, 32 for all; asynchronous copies run beside the code. "
    "Work is counted by running the kernel on these arguments, so loops and branches are real; the constants are in "
    "codegen/timing/timing_model.cpp."
)


def _number(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\u202f")


def _bar(classes: Dict[str, float], scale: float) -> str:
    parts = []
    for name, cycles in classes.items():
        if cycles > 0 and scale > 0:
            width = 100 * cycles / scale
            parts.append(
                f'<span style="width:{width:.2f}%;background:{_COLORS[name]}" title="{name}: {_number(cycles)}"></span>'
            )
    return f'<div class="bar">{"".join(parts)}</div>'


def _argument_text(value: Any) -> str:
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]" if isinstance(value, np.ndarray) else repr(value)


def _source(lines: List[Tuple[str, int, float, Dict[str, float]]]) -> str:
    """The source text from the first to the last line that costs something, file by file."""
    total = sum(cycles for _, _, cycles, _ in lines) or 1
    hottest = max((cycles for _, _, cycles, _ in lines), default=1)
    parts = []
    for file in dict.fromkeys(name for name, _, _, _ in lines if name):
        costs = {line: (cycles, classes) for name, line, cycles, classes in lines if name == file}
        rows = []
        for number in range(max(1, min(costs) - 2), max(costs) + 2):
            cycles, classes = costs.get(number, (0.0, {}))
            text = _html.text(linecache.getline(file, number).rstrip("\n"))
            shade = f"background:rgba(225,87,89,{0.55 * cycles / hottest:.3f})" if cycles else ""
            detail = ", ".join(f"{name} {_number(value)}" for name, value in classes.items() if value > 0)
            percent = f"{100 * cycles / total:.1f} %" if cycles else ""
            rows.append(
                f'<tr style="{shade}" title="{detail}"><td>{_number(cycles) if cycles else ""}</td><td>{percent}</td>'
                f'<td>{number}</td><td class="text">{text}</td></tr>'
            )
        parts.append(f'<div class="sub">{_html.text(file)}</div><table class="code">{"".join(rows)}</table>')
    return "".join(parts) or "<p>No source lines are known.</p>"


def report_text(estimate: Dict[str, Any], info: Any, args: Sequence[Any], cps_info: Any, c_code: str) -> str:
    """The page for the estimate of a run with ``args``."""
    tecs = estimate["tecs"]
    slowest = max((tec["cycles"] for tec in tecs), default=0.0)
    busy = [max(tec["cycles"], 1.0) for tec in tecs]
    balance = 100 * sum(busy) / (len(busy) * max(busy)) if busy else 100.0
    moved = sum(tec["dma_bytes"] for tec in tecs)
    arguments = [(p.name, p.category.replace("_", " "), _argument_text(a)) for p, a in zip(info.param_infos, args)]
    scale = max((sum(tec["classes"].values()) + tec["dma_cycles"] for tec in tecs), default=1.0)
    tec_rows = []
    for i, tec in enumerate(tecs):
        classes = dict(tec["classes"])
        classes["DMA"] += tec["dma_cycles"]
        tec_rows.append(
            (
                f"TEC {i}",
                _number(tec["cycles"]),
                (sum(classes.values()), _bar(classes, scale)),
                _number(tec["dma_bytes"]),
                _number(tec["async_cycles"]),
            )
        )
    legend = "".join(f'<span><i style="background:{color}"></i>{name}</span>' for name, color in _COLORS.items())
    limit = "the DMA bandwidth that all TECs share" if estimate["bandwidth_bound"] else "the slowest TEC"
    transfers = [
        (
            name,
            str(line),
            "asynchronous" if is_async else "synchronous",
            _number(runs),
            _number(moved_bytes),
            _number(cycles),
        )
        for name, line, is_async, runs, moved_bytes, cycles in estimate["transfers"]
    ]
    cycles = _number(estimate["cycles"])
    parts = [
        f'<p><span class="big">{cycles}</span> cycles, bounded by {limit}. '
        f"The slowest TEC takes {_number(slowest)}; the TECs are busy {balance:.0f} % of that on average. "
        f"DMA moves {_number(moved)} bytes.</p>",
        _html.section("Arguments", _html.table(("parameter", "is", "given"), arguments, texts=3)),
        _html.section(
            "TECs",
            _html.table(("", "cycles", "work", "DMA bytes", "asynchronous DMA cycles"), tec_rows)
            + f'<p class="legend">{legend}</p>',
        ),
    ]
    if transfers:
        heads = ("call", "line", "kind", "runs", "bytes", "cycles")
        parts.append(_html.section("DMA", _html.table(heads, transfers, texts=3)))
    note = '<p class="sub">Cycles of all TECs together; point at a line for what they are.</p>'
    parts.append(_html.section("Source", note + _source(estimate["lines"])))
    parts.append(f"<details><summary>The model</summary><p>{_MODEL}</p></details>")
    parts.append(f"<details><summary>Generated C</summary><pre>{_html.text(c_code)}</pre></details>")
    under = f"{_html.text(cps_info.name)}, estimate of the timing model"
    return _html.document(f"{info.name}: {cycles} cycles", "".join(parts), under, _STYLE, heading=info.name)


def write_report(
    estimate: Dict[str, Any], info: Any, args: Sequence[Any], cps_info: Any, c_code: str, path: str
) -> None:
    """Writes :func:`report_text` to a file."""
    _native.write_file(path, report_text(estimate, info, args, cps_info, c_code).encode())
