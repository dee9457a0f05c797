"""The comparison: all values of both models over the data, then each piece of the second one on the first one's."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .. import _calibration
from .._calibration import Feed
from ._metrics import Error
from ._sides import Runner, Side


@dataclasses.dataclass
class Layer:
    """A value that both models have.

    ``inherited``: how far it is apart when both models run. ``own``: the same when everything that the second model
    computes it from is the first one's; None where that is not known (an aipu.bin, what sub-graphs read).
    """

    name: str
    op: str
    shape: Tuple[int, ...]
    inherited: Error
    own: Optional[Error] = None
    is_output: bool = False


@dataclasses.dataclass
class Difference:
    """``layers`` in the order of the first model. ``skipped``: values that both have, but in other shapes."""

    first: str
    second: str
    runs: int
    layers: List[Layer]
    skipped: List[str]

    def outputs(self) -> List[Layer]:
        """The layers that are outputs of the first model."""
        return [layer for layer in self.layers if layer.is_output]

    def culprits(self, count: int = 5) -> List[Layer]:
        """Where most of the error is made: layers with an error of their own, the largest relative one first."""
        known = [layer for layer in self.layers if layer.own is not None and layer.own.relative > 0]
        return sorted(known, key=lambda layer: -layer.own.relative)[:count]  # type: ignore[union-attr]


def compare(
    first: Any,
    second: Any,
    data: Any,
    *,
    own: bool = True,
    limit: Optional[int] = None,
    constants: Optional[Mapping[str, Any]] = None,
    preprocess: Optional[Callable[[Any], Any]] = None,
    progress: Optional[Callable[[str], None]] = None,
) -> Difference:
    """Compares two models (:class:`Side`, or what is a model) on data, as :func:`aipu.batch.run` takes it.

    Values belong together if both models have a name for them; floating-point ones are compared. ``own``: also run
    each layer of the second model on the first one's values, which tells where error is made from where it is handed
    on; models whose shapes change from run to run are converted once per set of shapes. ``limit``: items to take;
    ``constants``: inputs that all share; ``progress`` gets a line about what is done.

    Nothing of the data is kept: one run's values are in memory at a time. ValueError where the models have no value in
    common, take other inputs, or the data does not fit.
    """
    a, b = (side if isinstance(side, Side) else Side(side) for side in (first, second))
    tell = progress or (lambda _: None)
    common = set(b.values())
    names = [name for name in a.values() if name in common]
    if not names:
        raise ValueError(f"{a.name} and {b.name} have no value of the same name")
    tell(f"preparing {len(names)} values")
    left, right = a.runner(names), b.runner(names)
    _check_inputs(a, b, left, right)
    compared = set(left.float_outputs) & set(right.float_outputs)
    names = [name for name in names if name in compared]
    if not names:
        raise ValueError(f"{a.name} and {b.name} have no floating-point value of the same name")
    found = _Comparison(a, b, names, own and b.graph is not None)
    count = 0
    for run in _calibration.runs(data, left.inputs, limit=limit, constants=constants, preprocess=preprocess):
        tell(f"run {count + 1}: {run.name}")
        found.add(run.name, run.feed, left.run(run.feed), right.run(run.feed))
        count += 1
    return found.result(count)


def _check_inputs(a: Side, b: Side, left: Runner, right: Runner) -> None:
    ours, theirs = ({spec.name: spec.dtype for spec in runner.inputs} for runner in (left, right))
    missing = [name for name, dtype in theirs.items() if ours.get(name) != dtype]
    if missing:
        raise ValueError(f"{b.name} takes the input '{missing[0]}' ({theirs[missing[0]]}), which {a.name} does not")


class _Comparison:
    def __init__(self, a: Side, b: Side, names: Sequence[str], own: bool) -> None:
        self._a, self._b, self._own = a, b, own
        ops = {output: node.op for node in a.graph.nodes for output in node.outputs} if a.graph else {}
        outputs = set(a.graph.output_names() if a.graph else names)
        self._layers = {n: Layer(n, ops.get(n, ""), (), Error(), None, n in outputs) for n in names}
        self._skipped: List[str] = []
        self._isolated: Dict[Tuple[Any, ...], Tuple[Runner, Dict[str, str]]] = {}

    def add(self, name: str, feed: Feed, ours: Dict[str, np.ndarray], theirs: Dict[str, np.ndarray]) -> None:
        for value in list(self._layers):
            if ours[value].shape != theirs[value].shape:
                del self._layers[value]
                self._skipped.append(value)
        for value, layer in self._layers.items():
            layer.shape = ours[value].shape
            layer.inherited.add(ours[value], theirs[value], name)
        if self._own:
            self._add_own(name, feed, ours, theirs)

    def _add_own(self, name: str, feed: Feed, ours: Dict[str, np.ndarray], theirs: Dict[str, np.ndarray]) -> None:
        types = {n: (str(theirs[n].dtype), theirs[n].shape) for n in self._layers if theirs[n].size}
        key = tuple(types.values())
        if key not in self._isolated:
            self._isolated.clear()  # one at a time: data sorted by shape converts once each
            self._isolated[key] = self._b.isolated_runner(types)
        runner, given = self._isolated[key]
        inputs = {given[n]: np.ascontiguousarray(ours[n].astype(theirs[n].dtype, copy=False)) for n in given}
        results = runner.run({**feed, **inputs})
        for value, layer in self._layers.items():
            if value in results and results[value].shape == ours[value].shape:
                layer.own = layer.own or Error()
                layer.own.add(ours[value], results[value], name)

    def result(self, runs: int) -> Difference:
        return Difference(self._a.name, self._b.name, runs, list(self._layers.values()), self._skipped)
