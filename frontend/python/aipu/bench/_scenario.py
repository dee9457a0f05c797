"""The scenarios of MLPerf Inference (https://github.com/mlcommons/inference_policies): what arrives when, and what the
figure of each is. Declared here and nowhere else.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Callable, Dict, List, NamedTuple, Optional

import numpy as np

from ._play import Player, Record
from ._scheduler import Arrivals, OneAfterTheOther, Scheduler, poisson
from ._statistics import percentile

STREAMS = 8  # samples of a query in MLPerf's multi-stream scenario


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is measured. Times in seconds.

    ``seconds`` of a repetition; ``batch``: samples of a run, in the server scenario at most so many, of which the first
    waits for ``delay`` at most; ``rate`` of queries per second (server); ``bound``: the latency that ``percentile``
    percent of the queries must not exceed (0 means the scenario's own).
    """

    scenario: str = "single-stream"
    seconds: float = 1.0
    batch: int = 1
    delay: float = 0.0
    rate: float = 0.0
    percentile: float = 0.0
    bound: Optional[float] = None
    seed: int = 1
    grace: float = 0.0  # of a server to begin what was due at the end

    def scheduler(self, repetition: int = 0) -> Scheduler:
        """Who decides in a repetition: arrivals of each are others."""
        return SCENARIOS[self.scenario].scheduler(self, repetition)

    @property
    def tail(self) -> float:
        """The percentile that counts."""
        return self.percentile or SCENARIOS[self.scenario].percentile


@dataclasses.dataclass
class Trial:
    """A repetition. ``seconds`` from its start to the last answer; ``runs``: of each batch; ``busy``: the share of the
    time in which sessions ran; ``unfinished``: queries that were due and not begun when it was over.
    """

    seconds: float
    samples: int
    latencies: np.ndarray
    runs: np.ndarray
    busy: float
    unfinished: int = 0

    @staticmethod
    def of(record: Record, sessions: int, unfinished: int) -> "Trial":
        """Of what was recorded."""
        runs = np.frombuffer(record.ends) - np.frombuffer(record.begins) if record.ends else np.zeros(0)
        seconds = max(record.ends) if record.ends else 0.0
        busy = float(runs.sum()) / (seconds * sessions) if seconds else 0.0
        return Trial(seconds, sum(record.samples), record.latencies, runs, busy, unfinished)

    @property
    def samples_per_second(self) -> float:
        """Throughput."""
        return self.samples / self.seconds if self.seconds else 0.0

    def latency(self, p: float) -> float:
        """The latency that ``p`` percent of the queries do not exceed; those that were not begun exceed all: inf."""
        total = len(self.latencies) + self.unfinished
        if math.ceil(p / 100 * total - 1e-9) > len(self.latencies):
            return math.inf
        waiting = np.full(self.unfinished, math.inf)
        return percentile(np.concatenate([self.latencies, waiting]), p)


class Scenario(NamedTuple):
    """``figure``: the one number of a repetition; in ``unit``, and ``higher_is_better`` or not."""

    what: str
    percentile: float
    scheduler: Callable[[Setting, int], Scheduler]
    figure: Callable[[Trial, Setting], float]
    unit: str
    higher_is_better: bool


def _tail_latency(trial: Trial, setting: Setting) -> float:
    return trial.latency(setting.tail)


def _throughput(trial: Trial, setting: Setting) -> float:
    return trial.samples_per_second


def _server(setting: Setting, repetition: int) -> Scheduler:
    times = poisson(setting.rate, setting.seconds, setting.seed + repetition)
    grace = max(setting.grace, 0.05 * setting.seconds)
    return Arrivals(times, setting.seconds + grace, setting.batch, setting.delay)


SCENARIOS: Dict[str, Scenario] = {
    "single-stream": Scenario(
        "a query when the last one is answered: latency",
        90,
        lambda setting, _: OneAfterTheOther(setting.seconds, setting.batch),
        _tail_latency,
        "s",
        False,
    ),
    "multi-stream": Scenario(
        f"the same with queries of {STREAMS} samples (--batch says of how many)",
        99,
        lambda setting, _: OneAfterTheOther(setting.seconds, setting.batch),
        _tail_latency,
        "s",
        False,
    ),
    "offline": Scenario(
        "all samples are there: throughput",
        99,
        lambda setting, _: OneAfterTheOther(setting.seconds, setting.batch),
        _throughput,
        "samples/s",
        True,
    ),
    "server": Scenario(
        "queries arrive at random (Poisson) at --rate: latency from the scheduled arrival",
        99,
        _server,
        _tail_latency,
        "s",
        False,
    ),
}


def play(player: Player, setting: Setting, repetition: int = 0) -> Trial:
    """One repetition."""
    scheduler = setting.scheduler(repetition)
    return Trial.of(player.play(scheduler), player.sessions, scheduler.unfinished())


class Step(NamedTuple):
    """A rate that was tried, the latency at the percentile, and whether it kept the bound."""

    rate: float
    latency: float
    kept: bool


class Peak(NamedTuple):
    """The highest rate that kept the bound, and how it was found."""

    rate: float
    steps: List[Step]


def find_peak(player: Player, setting: Setting, precision: float = 0.02, confirmations: int = 3) -> Peak:
    """The highest rate of the server scenario at which ``setting.tail`` percent of queries keep ``setting.bound``.

    Begins at half of what the sessions do when they are never without work, doubles or halves, then bisects until two
    rates are within ``precision``; the lower one is confirmed with other arrivals, and lowered until they all keep it.
    ValueError where no rate does.
    """
    assert setting.bound is not None
    busy = play(player, dataclasses.replace(setting, scenario="offline"))
    steps: List[Step] = []

    def kept(rate: float, repetition: int) -> bool:
        at = dataclasses.replace(setting, scenario="server", rate=rate)
        latency = play(player, at, repetition).latency(setting.tail)
        steps.append(Step(rate, latency, latency <= float(setting.bound or 0)))
        return steps[-1].kept

    least = 2 / setting.seconds
    low, high = 0.0, math.inf
    rate = max(0.5 * busy.samples_per_second, least)
    while high > (1 + precision) * low:
        if kept(rate, 0):
            low = rate
        else:
            high = rate
        if high <= least:
            break
        rate = 2 * low if math.isinf(high) else (max(high / 2, least) if low == 0 else (low + high) / 2)
    while low > 0 and not all(kept(low, repetition) for repetition in range(1, 1 + confirmations)):
        low = low / (1 + precision) if low / (1 + precision) >= least else 0.0
    if low == 0:
        raise ValueError(
            f"no rate keeps {1e3 * setting.bound:g} ms at {setting.tail:g} %: a run of {setting.batch} takes "
            f"{1e3 * percentile(busy.runs, 50):.4g} ms"
        )
    return Peak(low, steps)
