"""The turns and the errors of aipu.bench, by themselves: nothing of the package beside them is loaded into the process
that measures.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[3] / "frontend" / "python" / "aipu" / "bench"))
import _difference
import _turns


class Runs(Protocol):
    """What takes turns."""

    def run(self) -> None:
        """One inference."""


def take_turns(sides: Sequence[Runs], rounds: int, seconds: float) -> list[list[list[float]]]:
    """Per turn the times of runs of each side, of about ``seconds``; the order is turned around each time."""
    times = _turns.take_turns([side.run for side in sides], seconds=seconds, fewest_turns=rounds, most_turns=rounds)
    return [list(blocks) for blocks in zip(*(side.turns for side in times), strict=True)]


def relative_error(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """The largest difference over the largest magnitude of an output; infinite for other shapes or NaNs on one side."""

    def numbered(outputs: Sequence[np.ndarray]) -> Mapping[str, np.ndarray]:
        return {str(place): array for place, array in enumerate(outputs)}

    return _difference.relative_error(numbered(ours), numbered(theirs))
