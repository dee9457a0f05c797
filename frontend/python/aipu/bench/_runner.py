"""Sessions that run samples of a data set, without copying them: what a player plays with."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..batch._samples import Sample
from ..model import Model
from ._scheduler import Batch


def counts_rows(model: Model) -> bool:
    """Whether the first axis is that of samples: all inputs and outputs have the same there, a symbol or a number."""
    first = {spec.shape[0] if spec.shape else None for spec in (*model.inputs, *model.outputs)}
    return len(first) == 1 and None not in first


class Samples:
    """``count`` samples in memory. Where runs take several, they lie side by side and runs are given views of them."""

    def __init__(self, feeds: Sequence[Mapping[str, np.ndarray]], batch: int, is_random: bool = False) -> None:
        """``feeds``: of runs of one sample each with all axes, of like shapes if ``batch`` is more than 1; or with
        ``is_random`` one feed of ``batch`` samples, which all runs take as many of as they want. ValueError.
        """
        self.count = len(feeds)
        self._batch, self._is_random = batch, is_random
        self._feeds = list(feeds)
        self._rows: Dict[str, np.ndarray] = {}
        if is_random or batch == 1:
            return
        shapes = sorted({str([list(array.shape) for array in feed.values()]) for feed in feeds})
        if len(shapes) > 1 or any(len(array) != 1 for feed in feeds for array in feed.values()):
            raise ValueError(
                f"samples of one shape can be in one batch, found {' and '.join(shapes[:3])}; give --batch 1"
            )
        for name in feeds[0]:
            wrapped = [feeds[place % len(feeds)][name] for place in range(len(feeds) + batch - 1)]
            self._rows[name] = np.concatenate(wrapped)

    def place(self, batch: Batch) -> Tuple[int, int]:
        """Where a batch begins, and its samples; runs of like places have like inputs."""
        if self._is_random:
            return 0, batch.samples
        first = batch.first * batch.samples if len(batch.due) == 1 else batch.first
        return first % self.count, batch.samples

    def feed(self, place: Tuple[int, int]) -> Dict[str, np.ndarray]:
        """The inputs of a run."""
        first, count = place
        if self._is_random:
            if count == self._batch:
                return dict(self._feeds[0])
            return {name: array[:count] for name, array in self._feeds[0].items()}
        if self._batch == 1:
            return dict(self._feeds[first])
        return {name: array[first : first + count] for name, array in self._rows.items()}

    @property
    def shapes(self) -> List[Tuple[str, str, List[int]]]:
        """Name, dtype and shape of each input of a full run; of the first where they differ."""
        return [(name, str(array.dtype), list(array.shape)) for name, array in self.feed((0, self._batch)).items()]


def samples_of(loaded: Sequence[Sample], batch: int) -> Samples:
    """Of a data set's items."""
    feeds: List[Dict[str, np.ndarray]] = []
    for sample in loaded:
        arrays = sample.arrays
        feeds.append(arrays if sample.rows else {name: array[None] for name, array in arrays.items()})
    return Samples(feeds, batch)


class Runner:
    """A session of ``threads`` threads: a call runs a batch. Inputs are bound where they lie, outputs to arrays that
    are kept per number of samples; what was bound for the run before is not bound again.
    """

    def __init__(self, model: Model, samples: Samples, threads: int) -> None:
        self.session = model.session(threads=threads)
        if threads and self.session.threads != threads:
            has = self.session.threads
            self.session.close()
            raise ValueError(f"{threads} threads are asked for, a session has at most {has} here: give --threads {has}")
        self._model, self._samples = model, samples
        self._native = self.session._native
        self._bound: Optional[Tuple[int, int]] = None
        self._outputs: Dict[Tuple[int, ...], Dict[int, np.ndarray]] = {}  # by the extents of inputs
        self._current: Dict[int, np.ndarray] = {}

    def __call__(self, batch: Batch) -> None:
        """Runs it."""
        place = self._samples.place(batch)
        if place != self._bound:
            self._bind(place)
        self._native.run()

    def _bind(self, place: Tuple[int, int]) -> None:
        values = self._model._signature.input_values(self._samples.feed(place))
        for index in self._current:  # of other sizes, perhaps
            self._native.bind_output(index, None)
        for index, array in enumerate(values):
            self._native.bind_input(index, array)
        self._native.prepare()
        key = tuple(extent for array in values for extent in array.shape)
        if key not in self._outputs:
            self._outputs[key] = self._new_outputs()
        self._current = self._outputs[key]
        for index, array in self._current.items():
            self._native.bind_output(index, array)
        self._bound = place

    def _new_outputs(self) -> Dict[int, np.ndarray]:
        """Arrays for the outputs whose shapes are known and whose elements NumPy knows; others stay in the session."""
        found = {}
        for index, stored in enumerate(self.session._stored):
            shape = self._native.output_shape(index)
            if shape is not None and stored is None:
                found[index] = np.empty(shape, self.session._dtypes[index])
        return found

    def outputs(self) -> Dict[str, np.ndarray]:
        """Copies of the outputs of the last run by name."""
        found = {}
        for index, spec in enumerate(self._model.outputs):
            if index in self._current:
                found[spec.name] = self._current[index].copy()
                continue
            shape = self._native.output_shape(index)
            found[spec.name] = self.session._unpacked(index, None, self._native, shape)
        return found

    def close(self) -> None:
        """Ends the session."""
        self.session.close()


def runners(model: Model, samples: Samples, sessions: int, threads: int) -> List[Any]:
    """``sessions`` of them over the one mapped model."""
    made: List[Any] = []
    try:
        for _ in range(sessions):
            made.append(Runner(model, samples, threads))
    except BaseException:
        for one in made:
            one.close()
        raise
    return made
