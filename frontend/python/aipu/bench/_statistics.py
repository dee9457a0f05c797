"""Histograms that add up over repetitions and processes, percentiles, and a test of whether two sides differ."""

from __future__ import annotations

import functools
import math
from typing import Dict, List, NamedTuple, Sequence

import numpy as np

_STEPS = 100  # of a histogram between a value and e times that: 1 % each


def percentile(values: np.ndarray, p: float) -> float:
    """The least value that ``p`` percent of all do not exceed (nearest rank, as MLPerf's); nan of nothing."""
    if not len(values):
        return math.nan
    rank = max(1, math.ceil(p / 100 * len(values) - 1e-9))
    return float(np.partition(values, rank - 1)[rank - 1])


class Histogram:
    """Counts of values above 0 in steps of 1 %; exact counts, values to half a percent. Adds up."""

    def __init__(self, counts: "Dict[int, int] | None" = None, unfinished: int = 0) -> None:
        self.counts: Dict[int, int] = dict(counts or {})
        self.unfinished = unfinished  # longer than anything

    def add(self, values: np.ndarray, unfinished: int = 0) -> None:
        """More values, in seconds."""
        steps, counts = np.unique(
            np.floor(np.log(np.maximum(values, 1e-12)) * _STEPS).astype(np.int64), return_counts=True
        )
        for step, count in zip(steps.tolist(), counts.tolist()):
            self.counts[step] = self.counts.get(step, 0) + count
        self.unfinished += unfinished

    def join(self, other: "Histogram") -> None:
        """The values of another."""
        for step, count in other.counts.items():
            self.counts[step] = self.counts.get(step, 0) + count
        self.unfinished += other.unfinished

    def percentile(self, p: float) -> float:
        """The middle of the step that the value is in (nearest rank); inf where it is among what is unfinished."""
        total = sum(self.counts.values()) + self.unfinished
        rank = max(1, math.ceil(p / 100 * total - 1e-9))
        for step, count in sorted(self.counts.items()):
            rank -= count
            if rank <= 0:
                return math.exp((step + 0.5) / _STEPS)
        return math.inf if total else math.nan

    def told(self) -> Dict[str, object]:
        """For JSON: the lower ends of steps in seconds, and how many values are in each."""
        rows = sorted(self.counts.items())
        return {
            "step": 1 / _STEPS,
            "from_seconds": [float(f"{math.exp(step / _STEPS):.6g}") for step, _ in rows],
            "counts": [count for _, count in rows],
            "unfinished": self.unfinished,
        }

    @staticmethod
    def of(told: "Dict[str, object]") -> "Histogram":
        """What :meth:`told` told."""
        steps = [round(math.log(low) * _STEPS) for low in told["from_seconds"]]  # type: ignore[attr-defined]
        return Histogram(dict(zip(steps, told["counts"])), int(told["unfinished"]))  # type: ignore


@functools.lru_cache(maxsize=None)
def _rank_sum_counts(first: int, second: int) -> "tuple[int, ...]":
    """In how many orders of ``first`` and ``second`` values the first win against 0, 1, 2, ... of the pairs."""
    if first == 0 or second == 0:
        return (1,)
    counts = [0] * (first * second + 1)
    for at, count in enumerate(_rank_sum_counts(first - 1, second)):  # the greatest value is one of the first
        counts[at + second] += count
    for at, count in enumerate(_rank_sum_counts(first, second - 1)):
        counts[at] += count
    return tuple(counts)


def _excluded_pairs(first: int, second: int, alpha: float) -> int:
    """How many of the smallest ratios, and of the largest, are outside the interval; -1: there are too few values."""
    counts = _rank_sum_counts(first, second)
    total, sum_, excluded = math.comb(first + second, first), 0, -1
    for count in counts:
        sum_ += count
        if 2 * sum_ > alpha * total:
            break
        excluded += 1
    return excluded


def fewest_processes(alpha: float) -> int:
    """Values that each side needs for a difference to be found at all."""
    count = 2
    while _excluded_pairs(count, count, alpha) < 0:
        count += 1
    return count


class Shift(NamedTuple):
    """How many times the first side the second is, with its interval."""

    ratio: float
    low: float
    high: float

    @property
    def is_different(self) -> bool:
        """Whether 1 is outside the interval: the rank-sum test says that the sides differ."""
        return self.low > 1 or self.high < 1


def shift(before: Sequence[float], after: Sequence[float], alpha: float = 0.01) -> Shift:
    """Whether ``after`` differs from ``before`` and by how much: Mann and Whitney's exact rank-sum test, turned around.

    The values are independent and positive: one of each process. The ratio is the median of those of all pairs (Hodges
    and Lehmann, on logarithms); values outside the interval are those that the test rejects, so of sides that are the
    same at most ``alpha`` are said to differ, whatever the noise is like. ValueError for too few values.
    """
    few = fewest_processes(alpha)
    excluded = _excluded_pairs(len(before), len(after), alpha)
    if excluded < 0:
        raise ValueError(
            f"{len(before)} and {len(after)} process runs tell nothing at {100 * (1 - alpha):g} %: measure both with "
            f"--processes {few} or more (more find smaller differences)"
        )
    first, second = np.log(np.asarray(before, np.float64)), np.log(np.asarray(after, np.float64))
    pairs = np.sort((second[None, :] - first[:, None]).ravel())
    # The test rejects a shift where at most `excluded` pairs are on the other side of it.
    low, high = pairs[excluded], pairs[len(pairs) - 1 - excluded]
    return Shift(float(np.exp(np.median(pairs))), float(np.exp(low)), float(np.exp(high)))


def sparkline(values: Sequence[float]) -> str:
    """A line of bars from the least to the greatest value."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    least, span = min(finite), (max(finite) - min(finite)) or 1.0
    bars = "▁▂▃▄▅▆▇█"
    marks: List[str] = []
    for value in values:
        marks.append(bars[min(7, int(8 * (value - least) / span))] if math.isfinite(value) else " ")
    return "".join(marks)
