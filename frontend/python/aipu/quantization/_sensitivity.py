"""How much each layer's integers cost, measured at the outputs, and the cheapest set of layers that stays in float32.

One model is converted, in which every layer is there both ways and flags of a run say which one counts
(:func:`._write.write_switched`): a set of layers is a run, not a conversion.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, List, Sequence, Tuple

import numpy as np

from .._calibration import Run
from ..diff._metrics import Error

Outputs = Dict[str, np.ndarray]


@dataclasses.dataclass
class OutputError:
    """How far outputs are from the reference's, over all runs; the worst of them counts."""

    errors: Dict[str, Error] = dataclasses.field(default_factory=dict)
    rows: int = 0
    changed: int = 0  # of the rows, in which another element of the last axis is the largest

    def add(self, reference: Outputs, outputs: Outputs) -> None:
        """One run."""
        changed, rows = 0, 1
        for name, array in reference.items():
            self.errors.setdefault(name, Error()).add(array, outputs[name], "")
            if array.ndim and array.shape[-1] > 1 and array.size:
                here = np.argmax(array, -1) != np.argmax(outputs[name], -1)
                if here.size and np.mean(here) * rows >= changed:
                    changed, rows = int(here.sum()), int(here.size)
        self.rows += rows
        self.changed += changed

    def _worst(self, of: Callable[[Error], float]) -> float:
        return max((of(error) for error in self.errors.values()), default=0.0)

    def value(self, metric: str) -> float:
        """By name, see :data:`METRICS`; smaller is better for each."""
        if metric == "top1":
            return self.changed / self.rows if self.rows else 0.0
        return self._worst(METRICS[metric])


METRICS: Dict[str, Callable[[Error], float]] = {
    "relative": lambda error: error.relative,  # root of noise by signal
    "max": lambda error: error.largest,
    "mean": lambda error: error.mean,
    "cosine": lambda error: 1 - error.cosine,
    "top1": lambda error: 0.0,  # the share of rows whose largest element is another one; counted in OutputError
}


class Measurement:
    """The switched model on some runs. ``run`` takes inputs and flags; ``reference``: the outputs in float32."""

    def __init__(self, run: Callable[[Run, np.ndarray], Outputs], runs: Sequence[Run], layers: int) -> None:
        self._run, self._runs, self.layers = run, runs, layers
        self._reference = [run(one, np.zeros(layers, bool)) for one in runs]

    def error(self, flags: np.ndarray) -> OutputError:
        """With the layers of the flags in integers."""
        total = OutputError()
        for one, reference in zip(self._runs, self._reference):
            total.add(reference, self._run(one, flags))
        return total

    def sensitivities(self, tell: Callable[[int], None]) -> List[float]:
        """The relative error at the outputs with one layer alone in integers, for each."""
        found = []
        for layer in range(self.layers):
            tell(layer)
            flags = np.zeros(self.layers, bool)
            flags[layer] = True
            found.append(self.error(flags).value("relative"))
        return found


def fewest(count: int, holds: Callable[[int], bool]) -> int:
    """The smallest number up to ``count``, of which it is known, that holds; those above it hold too."""
    if count == 0 or holds(0):
        return 0
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def cheapest(
    measurement: Measurement, sensitivities: Sequence[float], costs: Sequence[int], metric: str, bound: float
) -> Tuple[List[int], List[int]]:
    """The layers that stay in float32 so that the metric keeps the bound, and the order in which more would follow.

    Layers leave the integers in the order of error per cost until the bound holds (found by bisection), then each of
    them comes back, the most expensive one first, if the bound holds without it: none of those left can.
    """
    count = len(sensitivities)
    order = sorted(range(count), key=lambda layer: -(sensitivities[layer] ** 2) / max(1, costs[layer]))

    def holds(kept: Sequence[int]) -> bool:
        flags = np.ones(count, bool)
        flags[list(kept)] = False
        return measurement.error(flags).value(metric) <= bound

    kept = list(order[: fewest(count, lambda number: holds(order[:number]))])  # with all, nothing is quantised
    for layer in sorted(kept, key=lambda layer: -costs[layer]):
        without = [other for other in kept if other != layer]
        if without and holds(without):
            kept = without
    return kept, order
