"""A comparison as text for a terminal, as JSON, and as a page of HTML that needs nothing else."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import _html, _native
from ._compare import Difference, Layer
from ._metrics import Error, decibels

_FLOOR, _CEILING = 0.0, 140.0  # dB that the plot shows; beyond 140 float32 has no digits

_STYLE = """
tr.bad { background: color-mix(in srgb, var(--c1) 15%, transparent); }
svg .inherited { fill: none; stroke: var(--c0); stroke-width: 2; }
svg .own { fill: var(--c1); }
"""


def _error_json(error: Optional[Error]) -> Optional[Dict[str, Any]]:
    if error is None:
        return None
    return {
        "exact": error.relative == 0,
        "snr_db": error.snr,
        "relative": error.relative,
        "cosine": error.cosine,
        "max": error.largest,
        "mean": error.mean,
        "worst_inputs": [{"input": name, "relative": ratio} for ratio, name in error.worst],
    }


def to_json(difference: Difference) -> Dict[str, Any]:
    """Everything, for ``_files.write_report``: infinite numbers become null there; "exact" tells the kinds apart."""
    return {
        "first": difference.first,
        "second": difference.second,
        "runs": difference.runs,
        "layers": [
            {
                "name": layer.name,
                "op": layer.op,
                "shape": list(layer.shape),
                "is_output": layer.is_output,
                "inherited": _error_json(layer.inherited),
                "own": _error_json(layer.own),
            }
            for layer in difference.layers
        ],
        "most_error_made_by": [layer.name for layer in difference.culprits()],
        "other_shapes": difference.skipped,
    }


_HEAD = ("value", "op", "SNR dB", "own dB", "cosine", "max error", "mean error", "worst input")


def _row(layer: Layer) -> Tuple[str, ...]:
    error = layer.inherited
    return (
        layer.name + (" (output)" if layer.is_output else ""),
        layer.op,
        decibels(error.snr),
        decibels(layer.own.snr if layer.own is not None else None),
        f"{error.cosine:.6f}",
        f"{error.largest:.3g}",
        f"{error.mean:.3g}",
        error.worst[0][1] if error.worst else "-",
    )


def _shown(text: str, width: int) -> str:
    text = _native.printable(text)
    return text if len(text) <= width else "…" + text[-(width - 1) :]


def summary(difference: Difference) -> List[str]:
    """What it comes to, in lines."""
    runs = f"{difference.runs} run{'' if difference.runs == 1 else 's'}"
    lines = [f"{difference.second} against {difference.first}, {runs}, {len(difference.layers)} values"]
    for layer in difference.outputs():
        error = layer.inherited
        lines.append(
            f"output {layer.name}: SNR {decibels(error.snr)} dB, cosine {error.cosine:.6f}, max error "
            f"{error.largest:.3g}, mean {error.mean:.3g}"
        )
    culprits = difference.culprits()
    if culprits:
        made = ", ".join(f"{c.name} ({decibels(c.own.snr)} dB)" for c in culprits if c.own is not None)
        lines.append(f"most error is made by: {made}")
    elif any(layer.own is not None for layer in difference.layers):
        lines.append("no layer makes an error of its own")
    if difference.skipped:
        lines.append(f"not compared, as shapes differ: {', '.join(difference.skipped[:5])}")
    return lines


def table(difference: Difference, every: bool = False) -> List[str]:
    """For a terminal, in lines: all layers, or those that differ; and what it comes to."""
    layers = [layer for layer in difference.layers if every or layer.is_output or layer.inherited.relative > 0]
    rows = [_HEAD] + [tuple(_shown(cell, 44) for cell in _row(layer)) for layer in layers]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = []
    for row in rows:
        cells = [c.ljust(w) if i in (0, 1, 7) else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return [*lines, "", *summary(difference)]


def _plot(layers: Sequence[Layer]) -> str:
    """SNR over layers: a line of what is inherited, dots of what is made."""
    width, height, left, bottom = 1000, 300, 46, 24
    count = max(1, len(layers) - 1)

    def place(index: int, snr: float) -> Tuple[float, float]:
        clipped = min(_CEILING, max(_FLOOR, snr))
        x = left + (width - left - 10) * index / count
        return x, 10 + (height - bottom - 10) * (1 - (clipped - _FLOOR) / (_CEILING - _FLOOR))

    parts = []
    for level in range(0, 141, 20):
        y = place(0, level)[1]
        parts.append(f'<line class="axis" x1="{left}" x2="{width - 10}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{level}</text>')
    points = " ".join("{:.1f},{:.1f}".format(*place(i, layer.inherited.snr)) for i, layer in enumerate(layers))
    parts.append(f'<polyline class="inherited" points="{points}"/>')
    for index, layer in enumerate(layers):
        if layer.own is None:
            continue
        x, y = place(index, layer.own.snr)
        made, whole = decibels(layer.own.snr), decibels(layer.inherited.snr)
        told = f"{layer.name}: made {made} dB, with what is inherited {whole} dB"
        parts.append(
            f'<circle class="own" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{_html.text(told)}</title></circle>'
        )
    parts.append(f'<text x="{left}" y="{height - 4}">first layer</text>')
    parts.append(f'<text x="{width - 10}" y="{height - 4}" text-anchor="end">last layer</text>')
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="signal to noise of each layer">'
    return f"{head}{''.join(parts)}</svg>"


def _bars(culprits: Sequence[Layer]) -> str:
    """The share of noise in the signal of the layers that make most of it."""
    known = [(layer, layer.own.relative) for layer in culprits if layer.own is not None]
    top = max((ratio for _, ratio in known if math.isfinite(ratio)), default=1.0) or 1.0
    parts = []
    for index, (layer, ratio) in enumerate(known):
        y = 6 + 24 * index
        length = 600 * min(1.0, ratio / top)
        label = f"{100 * ratio:.3g} %" if math.isfinite(ratio) else "no signal"
        parts.append(f'<text x="290" y="{y + 13}" text-anchor="end">{_html.text(_shown(layer.name, 44))}</text>')
        parts.append(f'<rect class="own" x="300" y="{y}" width="{max(1.0, length):.1f}" height="18" rx="3"/>')
        parts.append(f'<text x="{306 + length:.1f}" y="{y + 13}">{label}</text>')
    return f'<svg viewBox="0 0 1000 {12 + 24 * len(known)}" role="img" aria-label="noise made">{"".join(parts)}</svg>'


def _html_table(layers: Sequence[Layer], bad: Sequence[str]) -> str:
    rows = [[*_row(layer)[:-1], (None, _html.text(_row(layer)[-1]))] for layer in layers]
    return _html.table(_HEAD, rows, texts=2, kinds=["bad" if layer.name in bad else "" for layer in layers])


def page(difference: Difference) -> str:
    """The page."""
    culprits = difference.culprits(10)
    plot = (
        '<p class="legend"><span><i style="background:var(--c0)"></i>both models run</span>'
        '<span><i style="background:var(--c1)"></i>made by the layer: fed with the first model\'s values</span></p>'
    )
    parts = [_html.section("Signal to noise of each layer, dB", plot + _plot(difference.layers))]
    if culprits:
        parts.append(_html.section("Where the error is made: noise as a share of the signal", _bars(culprits)))
    table = _html_table(difference.layers, [layer.name for layer in culprits[:5]])
    parts.append(_html.section("Layers", table))
    under = "<br>".join(_html.text(line) for line in summary(difference)[1:])
    title = f"{difference.second} against {difference.first}"
    return _html.document(title, "".join(parts), under, _STYLE)
