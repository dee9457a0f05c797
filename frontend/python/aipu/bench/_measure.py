"""Warm-up until it is steady, repetitions until the interval is as tight as asked. Knows no clock: players do."""

from __future__ import annotations

import dataclasses
import math
from typing import Callable, List, NamedTuple, Optional, Sequence

import numpy as np

from ._play import Player
from ._scenario import SCENARIOS, Setting, Trial, play
from ._turns import Spread, bootstrap, outliers

_STEADY = 0.05  # medians of blocks that differ by less are steady
_BLOCKS = 3  # in a row that have to be
_MOST_BLOCKS = 40


class Warm(NamedTuple):
    """The warm-up: runs and seconds that it took, the median of the last block, and whether it became steady."""

    runs: int
    seconds: float
    run_seconds: float
    is_steady: bool


@dataclasses.dataclass
class Measured:
    """The figure of the scenario (see :class:`_scenario.Scenario`) with its 95 % interval over the repetitions."""

    setting: Setting
    figure: Spread
    throughput: Spread
    trials: List[Trial]
    warm: Warm
    notes: List[str]

    @property
    def values(self) -> List[float]:
        """The figure of each repetition."""
        return [SCENARIOS[self.setting.scenario].figure(trial, self.setting) for trial in self.trials]

    @property
    def unfinished(self) -> int:
        """Queries that an overloaded server did not begin in time."""
        return sum(trial.unfinished for trial in self.trials)

    @property
    def keeps_bound(self) -> Optional[bool]:
        """Whether the latency bound was kept in all repetitions together; None where there is none."""
        if self.setting.bound is None:
            return None
        return joined(self.trials).latency(self.setting.tail) <= self.setting.bound


def joined(trials: Sequence[Trial]) -> Trial:
    """All repetitions as one."""
    return Trial(
        sum(trial.seconds for trial in trials),
        sum(trial.samples for trial in trials),
        np.concatenate([trial.latencies for trial in trials]),
        np.concatenate([trial.runs for trial in trials]),
        float(np.mean([trial.busy for trial in trials])),
        sum(trial.unfinished for trial in trials),
    )


def warm_up(player: Player, setting: Setting, block_seconds: float = 0.1) -> Warm:
    """Runs in a closed loop until the medians of three blocks in a row are within 5 %, or for forty blocks."""
    block = dataclasses.replace(setting, scenario="offline", seconds=block_seconds)
    medians: List[float] = []
    runs, seconds = 0, 0.0
    while len(medians) < _MOST_BLOCKS:
        trial = play(player, block)
        medians.append(float(np.median(trial.runs)))
        runs += len(trial.runs)
        seconds += trial.seconds
        last = medians[-_BLOCKS:]
        if len(last) == _BLOCKS and max(last) <= (1 + _STEADY) * min(last):
            return Warm(runs, seconds, medians[-1], True)
    return Warm(runs, seconds, medians[-1], False)


def spread(values: Sequence[float]) -> Spread:
    """The median of repetitions with its interval; where one is infinite (overload), so is the upper end."""
    if all(math.isfinite(value) for value in values):
        return bootstrap(values)
    return Spread(*(float(np.median(values)) for _ in range(2)), math.inf)


def measure(
    player: Player,
    setting: Setting,
    *,
    precision: float = 0.02,
    fewest: int = 5,
    most: int = 30,
    after_each: Callable[[Trial], None] = lambda trial: None,
) -> Measured:
    """Measures: repetitions until the 95 % interval of the figure is no wider than ``precision`` of it (half of it to
    each side), at least ``fewest``, at most ``most``. An overloaded server is not repeated: more of it tells no more.
    """
    warm = warm_up(player, setting)
    setting = dataclasses.replace(setting, grace=3 * warm.run_seconds)
    scenario = SCENARIOS[setting.scenario]
    trials: List[Trial] = []
    while len(trials) < most:
        trials.append(play(player, setting, len(trials)))
        after_each(trials[-1])
        values = [scenario.figure(trial, setting) for trial in trials]
        if trials[-1].unfinished or (len(trials) >= fewest and bootstrap(values).width <= precision):
            break
    figure = spread(values)
    measured = Measured(setting, figure, spread([t.samples_per_second for t in trials]), trials, warm, [])
    measured.notes = _notes(measured, precision)
    return measured


def _notes(measured: Measured, precision: float) -> List[str]:
    notes = []
    if not measured.warm.is_steady:
        notes.append(f"not steady after {measured.warm.runs} runs of warm-up")
    if measured.unfinished:
        all_queries = sum(len(trial.latencies) for trial in measured.trials) + measured.unfinished
        notes.append(
            f"OVERLOADED: {measured.unfinished:,} of {all_queries:,} queries were not begun when the time was over "
            f"({measured.setting.rate:,.6g} per second are asked for, {measured.throughput.value:,.6g} are answered)"
        )
    elif measured.setting.scenario == "server" and max(trial.busy for trial in measured.trials) > 0.99:
        notes.append("the sessions were always busy: the rate is at the limit of what they can do")
    if not measured.unfinished and measured.figure.width > precision:
        notes.append(
            f"the interval is wider than asked for after {len(measured.trials)} repetitions; the machine was noisy, or "
            "give longer --seconds"
        )
    runs = np.concatenate([trial.runs for trial in measured.trials])
    far = outliers(runs)
    if far > max(1, 0.01 * len(runs)):
        notes.append(f"{far:,} of {len(runs):,} runs were far above the median (they are in all figures)")
    return notes
