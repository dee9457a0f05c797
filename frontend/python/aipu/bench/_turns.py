"""Measuring in turns, and what can be said of the times. Takes a clock, so that tests know the answer."""

from __future__ import annotations

import dataclasses
import time
from typing import Callable, List, NamedTuple, Sequence

import numpy as np

IDLE_SECONDS = 0.03  # workers of a runtime that spin after a run sleep when the next one's turn begins
_FEWEST_RUNS, _MOST_RUNS = 2, 20_000  # of a turn
_STEADY = 0.05  # two blocks of warm-up that differ by less are steady


class Spread(NamedTuple):
    """An estimate with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Half of the interval as a share of the value."""
        return (self.high - self.low) / 2 / self.value if self.value else 0.0


def bootstrap(values: Sequence[float], repeats: int = 2000, seed: int = 1) -> Spread:
    """The median of the values, and the interval in which it lies in 95 % of samples drawn from them with replacement.

    Values are independent measurements: one of each turn, not the runs within a turn, which share its circumstances.
    """
    data = np.asarray(values, np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(data), (repeats, len(data)))
    medians = np.median(data[drawn], axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return Spread(float(np.median(data)), float(low), float(high))


@dataclasses.dataclass
class Times:
    """Of one side: seconds of each run, by turn; ``warmup_runs`` are not among them."""

    turns: List[List[float]] = dataclasses.field(default_factory=list)
    warmup_runs: int = 0

    def medians(self) -> List[float]:
        """Of each turn."""
        return [float(np.median(turn)) for turn in self.turns]

    def all(self) -> np.ndarray:
        """All runs."""
        return np.concatenate(self.turns)


def _block(run: Callable[[], None], seconds: float, clock: Callable[[], float]) -> List[float]:
    times: List[float] = []
    end = clock() + seconds
    while len(times) < _FEWEST_RUNS or (clock() < end and len(times) < _MOST_RUNS):
        start = clock()
        run()
        times.append(clock() - start)
    return times


def _warm_up(run: Callable[[], None], seconds: float, most_seconds: float, clock: Callable[[], float]) -> int:
    """Runs until two blocks in a row have the same median, or for ``most_seconds``; how many runs that took."""
    end = clock() + most_seconds
    before = _block(run, seconds, clock)
    count = len(before)
    while clock() < end:
        now = _block(run, seconds, clock)
        count += len(now)
        if abs(np.median(now) - np.median(before)) <= _STEADY * np.median(before):
            break
        before = now
    return count


def take_turns(
    runs: Sequence[Callable[[], None]],
    *,
    seconds: float = 0.3,
    fewest_turns: int = 7,
    most_turns: int = 40,
    precision: float = 0.02,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> List[Times]:
    """The times of each of ``runs``, which take turns of about ``seconds`` each, the order turned around every time.

    After a warm-up, turns go on until the interval of each ratio to the first (of the medians, with one side: of the
    time) is no wider than ``precision`` of it, at least ``fewest_turns`` and at most ``most_turns`` of them.
    """
    times = [Times(warmup_runs=_warm_up(run, seconds / 3, 10 * seconds, clock)) for run in runs]
    for turn in range(most_turns):
        order = range(len(runs)) if turn % 2 == 0 else reversed(range(len(runs)))
        for index in order:
            sleep(IDLE_SECONDS)
            runs[index]()  # wakes the workers
            times[index].turns.append(_block(runs[index], seconds, clock))
        if turn + 1 >= fewest_turns and all(s.width <= precision for s in _spreads(times)):
            break
    return times


def _spreads(times: Sequence[Times]) -> List[Spread]:
    if len(times) == 1:
        return [bootstrap(times[0].medians())]
    return [ratio_of(other, times[0]) for other in times[1:]]


def ratio_of(other: Times, first: Times) -> Spread:
    """How many times as long the other takes as the first, by turn."""
    return bootstrap([theirs / ours for theirs, ours in zip(other.medians(), first.medians())])


def outliers(values: np.ndarray) -> int:
    """Runs farther above the median than five times the median distance from it."""
    median = np.median(values)
    distance = np.median(np.abs(values - median))
    return int((values > median + 5 * max(float(distance), 1e-9)).sum())
