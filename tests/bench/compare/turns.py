"""The turns and the errors of aipu.bench, by themselves: nothing of the package beside them is loaded into the process
that measures.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[3] / "frontend" / "python" / "aipu" / "bench"))
import _difference
import _turns


class Runs(Protocol):
    """What takes turns."""

    def run(self) -> None:
        """One inference."""


class Ratio(NamedTuple):
    """How many times as long one side takes as another: the median of the turns, and their quartiles."""

    median: float
    low: float
    high: float


class Taken:
    """What sides took in their turns."""

    def __init__(self, sides: Sequence[Runs], times: Sequence[_turns.Times]) -> None:
        self._times = {id(side): of_side for side, of_side in zip(sides, times, strict=True)}

    def median_ms(self, side: Runs) -> float:
        """Milliseconds of a run."""
        return float(np.median(self._times[id(side)].all())) * 1e3

    def best_ms(self, side: Runs) -> float:
        """Milliseconds of the fastest run."""
        return float(min(self._times[id(side)].all())) * 1e3

    def ratio(self, theirs: Runs, ours: Runs) -> Ratio:
        """Theirs over ours."""
        pairs = zip(self._times[id(theirs)].medians(), self._times[id(ours)].medians(), strict=True)
        ordered = sorted(their / our for their, our in pairs)
        quarter = len(ordered) // 4
        return Ratio(statistics.median(ordered), ordered[quarter], ordered[len(ordered) - 1 - quarter])


def take_turns(sides: Sequence[Runs], rounds: int, seconds: float) -> Taken:
    """Turns of about ``seconds`` of each side; the order is turned around each time."""
    runs = [side.run for side in sides]
    return Taken(sides, _turns.take_turns(runs, seconds=seconds, fewest_turns=rounds, most_turns=rounds))


def relative_error(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """The largest difference over the largest magnitude of an output; infinite for other shapes or NaNs on one side."""

    def numbered(outputs: Sequence[np.ndarray]) -> Mapping[str, np.ndarray]:
        return {str(place): array for place, array in enumerate(outputs)}

    return _difference.relative_error(numbered(ours), numbered(theirs))
