"""Results as text for a terminal."""

from __future__ import annotations

from typing import List, Optional

from ._benchmark import Benchmark


def number(value: Optional[float], digits: int = 4) -> str:
    """A figure with so many digits, without an exponent where that can be read; what was never answered is told so."""
    if value is None:
        return "never"
    text = f"{value:,.{digits}g}"
    return f"{value:,.0f}" if "e" in text and abs(value) < 1e15 and abs(value) >= 1 else text


def figure_text(result: Benchmark) -> str:
    """ "latency p90 1.234 ms (1.23..1.24)"."""
    factor, unit = (1e3, "ms") if result.unit == "s" else (1.0, result.unit)
    value, low, high = (number(None if one is None else one * factor, 5) for one in result.figure)
    what = f"latency p{result.percentile:g}" if result.unit == "s" else "throughput"
    return f"{what if result.peak is None else 'peak rate'} {value} {unit} ({low}..{high})"


def lines(result: Benchmark) -> List[str]:
    """All that is worth seeing."""
    shapes = ", ".join(f"{name} {dtype}{shape}" for name, dtype, shape in result.inputs)
    repetitions = sum(map(len, result.processes))
    count = len(result.processes)
    over = f"{repetitions} repetitions" if count == 1 else f"{count} processes, {repetitions} repetitions"
    value, low, high = (number(one, 5) for one in result.samples_per_second)
    told = [
        f"{result.title}; {shapes} ({result.data})",
        f"  {figure_text(result)}, {result.interval}; {over}",
        f"  {value} samples/s ({low}..{high}); {result.samples:,} samples, {result.queries:,} queries",
        "  latency ms: " + "  ".join(f"{name} {number(one)}" for name, one in result.latency_ms.items()),
        f"  load {number(result.load_ms)} ms, first run {number(result.first_run_ms)} ms, warm-up "
        f"{result.warm_up['runs']:,} runs; activations {result.memory['arena_bytes'] / 1e6:,.1f} MB, process "
        f"{result.memory['peak_bytes'] / 1e6:,.1f} MB",
    ]
    if result.keeps_bound is not None:
        kept = "is kept" if result.keeps_bound else "is NOT kept"
        told.append(f"  latency bound: {result.bound_ms:g} ms at {result.percentile:g} % {kept}")
    return told + [f"  note: {note}" for note in result.notes]
