"""Figures as SVG, of the colours of the pages that :mod:`aipu._html` makes."""

from __future__ import annotations

import math
import xml.etree.ElementTree as xml
from typing import List, Mapping, Optional, Sequence, Tuple

from .._html import COLORS, text

Point = Tuple[float, float, str]  # x, y, what it is

_PICTURE_STYLE = """
text { font: 11px system-ui, sans-serif; fill: var(--soft); } .caption { font-weight: 600; font-size: 13px; }
.axis { stroke: var(--line); } .mark { stroke: var(--warn); stroke-dasharray: 3 3; }
"""

_WIDTH, _HEIGHT = 520, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 10, 40


def short(value: float) -> str:
    """A number on an axis."""
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g}{letter}"
    return f"{value:.4g}"


class Axis:
    """Maps values to places between ``first`` and ``last``; of logarithms with ``log``."""

    def __init__(
        self, values: Sequence[float], first: float, last: float, log: bool = False, zero: bool = False
    ) -> None:
        finite = [value for value in values if math.isfinite(value) and (value > 0 or not log)] or [1.0]
        low, high = min(finite), max(finite)
        if zero and not log:
            low, high = min(0.0, low), max(0.0, high) * 1.05
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - abs(low) / 2 - 0.5, high + abs(high) / 2 + 0.5)
        self._log, self._first, self._last = log, first, last
        self.low, self.high = low, high

    def place(self, value: float) -> float:
        """Where it is."""
        low, high = (math.log(self.low), math.log(self.high)) if self._log else (self.low, self.high)
        at = math.log(max(value, 1e-300)) if self._log else value
        return self._first + (at - low) / (high - low) * (self._last - self._first)

    def ticks(self) -> List[float]:
        """Round values, some five."""
        if self._log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1, 2, 5) if len(decades) <= 3 else (1,)
            found = [step * 10.0**decade for decade in decades for step in steps]
            inside = [value for value in found if self.low * 0.999 <= value <= self.high * 1.001]
            return inside or [self.low, self.high]
        step = 10 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next((k for k in (1, 2, 5, 10) if (self.high - self.low) / (k * step) <= 5.5), 10)
        first = math.ceil(self.low / step)
        return [step * k for k in range(first, math.floor(self.high / step) + 1)]


def _frame(x: Axis, y: Axis, x_label: str, y_label: str, x_ticks: Optional[Sequence[Tuple[float, str]]] = None) -> str:
    parts = []
    bottom = _HEIGHT - _BOTTOM
    for value in y.ticks():
        at = y.place(value)
        parts.append(f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{short(value)}</text>')
    for value, label in x_ticks if x_ticks is not None else [(tick, short(tick)) for tick in x.ticks()]:
        parts.append(f'<text x="{x.place(value):.1f}" y="{bottom + 15}" text-anchor="middle">{text(label)}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{text(x_label)}</text>')
    parts.append(
        f'<text transform="translate(11 {(_TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">{text(y_label)}</text>'
    )
    return "".join(parts)


def _axes(
    xs: Sequence[float], ys: Sequence[float], log_x: bool = False, log_y: bool = False, zero: bool = False
) -> Tuple[Axis, Axis]:
    x = Axis(xs, _LEFT + 8, _WIDTH - _RIGHT - 8, log_x)
    return x, Axis(ys, _HEIGHT - _BOTTOM, _TOP, log_y, zero)


def _svg(inside: str, label: str) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{text(label)}">{inside}</svg>'


def _legend(names: Sequence[str]) -> str:
    parts = []
    for place, name in enumerate(name for name in names if name):
        y = _TOP + 12 + 15 * place
        parts.append(f'<rect x="{_LEFT + 12}" y="{y - 8}" width="9" height="9" fill="var(--c{place % 6})"/>')
        parts.append(f'<text x="{_LEFT + 26}" y="{y}">{text(name)}</text>')
    return "".join(parts)


def figure(caption: str, svg: str, kind: str) -> str:
    """A chart with its caption; ``kind`` tells a test, and a style, which."""
    return f'<figure class="{kind}"><figcaption>{text(caption)}</figcaption>{svg}</figure>'


def picture(figures: Sequence[str], title: str) -> str:
    """Figures side by side, two in a row, as a file of SVG, in light and dark."""
    gap, head = 30, 24
    parts = []
    shown = [xml.fromstring(one) for one in figures if one]
    for place, one in enumerate(shown):
        x, y = place % 2 * (_WIDTH + gap), head + place // 2 * (_HEIGHT + 2 * head)
        caption, chart = one[0].text or "", one[1]
        for element in chart.iter():
            for tip in element.findall("title"):  # nobody can point at a picture's points
                element.remove(tip)
            element.tail = None
        inside = "".join(xml.tostring(element, encoding="unicode") for element in chart)
        parts.append(f'<text class="caption" x="{x}" y="{y - 6}">{text(caption)}</text>')
        parts.append(f'<g transform="translate({x} {y})">{inside}</g>')
    width, height = 2 * _WIDTH + gap + 20, (len(shown) + 1) // 2 * (_HEIGHT + 2 * head) + 20
    paper = f'<rect x="-10" y="-10" width="{width}" height="{height}" fill="var(--paper)"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-10 -10 {width} {height}" role="img">'
        f"<title>{text(title)}</title><style>{COLORS}{_PICTURE_STYLE}</style>{paper}{''.join(parts)}</svg>\n"
    )


def lines(
    series: Mapping[str, Sequence[Point]],
    x_label: str,
    y_label: str,
    *,
    log_x: bool = False,
    x_ticks: Optional[Sequence[Tuple[float, str]]] = None,
) -> str:
    """A line with points for each of the series; y from 0."""
    points = [point for one in series.values() for point in one]
    if not points:
        return ""
    x, y = _axes([p[0] for p in points], [p[1] for p in points], log_x, zero=True)
    parts = [_frame(x, y, x_label, y_label, x_ticks)]
    for place, one in enumerate(series.values()):
        color = f"var(--c{place % 6})"
        path = " ".join(f"{x.place(px):.1f},{y.place(py):.1f}" for px, py, _ in one)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x.place(px):.1f}" cy="{y.place(py):.1f}" r="3.5" fill="{color}"><title>{text(what)}</title>'
            "</circle>"
            for px, py, what in one
        ]
    return _svg("".join(parts) + _legend(list(series)), y_label)


def scatter(points: Sequence[Point], x_label: str, y_label: str) -> str:
    """Points alone, the y axis not from 0: what a figure did from one time to the next."""
    if not points:
        return ""
    x, y = _axes([p[0] for p in points], [p[1] for p in points])
    dots = (
        f'<circle cx="{x.place(px):.1f}" cy="{y.place(py):.1f}" r="3.5" fill="var(--c0)"><title>{text(what)}</title>'
        "</circle>"
        for px, py, what in points
    )
    return _svg(_frame(x, y, x_label, y_label) + "".join(dots), y_label)


def bars(steps: Sequence[Tuple[float, float, int]], marks: Mapping[str, float], x_label: str) -> str:
    """A histogram of (from, to, count) over a logarithmic axis, with marks at values that have names."""
    edges = [edge for low, high, _ in steps for edge in (low, high)] + list(marks.values())
    x, y = _axes(edges, [float(count) for _, _, count in steps], log_x=True, zero=True)
    parts = [_frame(x, y, x_label, "queries")]
    for low, high, count in steps:
        left, right, top = x.place(low), x.place(high), y.place(count)
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(0.8, right - left - 0.4):.1f}" '
            f'height="{y.place(0) - top:.1f}" fill="var(--c0)"><title>{low:.4g}..{high:.4g}: {count:,}</title></rect>'
        )
    for place, (name, value) in enumerate(marks.items()):
        at = x.place(value)
        parts.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>')
        parts.append(f'<text x="{at + 3:.1f}" y="{_TOP + 11 + 12 * (place % 3)}">{text(name)}</text>')
    return _svg("".join(parts), "distribution")


def roofline(points: Sequence[Point], operations: float, bytes_: float) -> str:
    """Operations per second over operations per byte, under what the machine can do."""
    ridge = operations / bytes_
    xs = [p[0] for p in points] + [ridge / 16, ridge * 16]
    x, y = _axes(xs, [p[1] for p in points] + [operations * 1.5, operations / 300], log_x=True, log_y=True)
    roof = [(x.low, min(operations, x.low * bytes_)), (ridge, operations), (x.high, operations)]
    path = " ".join(f"{x.place(px):.1f},{y.place(max(py, y.low)):.1f}" for px, py in roof)
    parts = [
        _frame(x, y, "operations per byte", "operations per second"),
        f'<polyline points="{path}" fill="none" stroke="var(--c1)" stroke-width="2"/>',
        f'<text x="{x.place(ridge) + 4:.1f}" y="{y.place(operations) - 5:.1f}">{short(operations)}op/s, '
        f"{short(bytes_)}B/s</text>",
    ]
    parts += [
        f'<circle cx="{x.place(px):.1f}" cy="{y.place(py):.1f}" r="4" fill="var(--c0)" fill-opacity=".6">'
        f"<title>{text(what)}</title></circle>"
        for px, py, what in points
    ]
    return _svg("".join(parts), "roofline")


def columns(values: Mapping[str, float], y_label: str) -> str:
    """A column per name."""
    names = list(values)
    x = Axis([-0.5, len(names) - 0.5], _LEFT, _WIDTH - _RIGHT)
    y = Axis(list(values.values()), _HEIGHT - _BOTTOM, _TOP, zero=True)
    parts = [_frame(x, y, "", y_label, list(enumerate(names)))]
    for place, (name, value) in enumerate(values.items()):
        top = y.place(value)
        parts.append(
            f'<rect x="{x.place(place - 0.3):.1f}" width="{x.place(0.6) - x.place(0):.1f}" y="{top:.1f}" '
            f'height="{y.place(0) - top:.1f}" fill="var(--c{place % 6})">'
            f"<title>{text(name)}: {value:,.0f}</title></rect>"
        )
    return _svg("".join(parts), y_label)
