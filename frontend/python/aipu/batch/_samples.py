"""Inputs that are ready: loaded, preprocessed, and of the form that a model takes."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from .. import _batching
from .._arrays import TensorSpec
from .._stored_type import numpy_dtype
from ._sources import Item


class Sample(NamedTuple):
    """An input that is ready: arrays by name, and how many rows of a batch it is; 0: one row, without its axis."""

    index: int
    name: str
    arrays: Dict[str, np.ndarray]
    rows: int

    @property
    def count(self) -> int:
        """Rows of a batch that it takes."""
        return max(1, self.rows)

    def bucket(self) -> Any:
        """Samples of one bucket can be in one batch."""
        return _batching.bucket(self.arrays, self.rows > 0) if self.rows >= 0 else self.index


def prepare(
    item: Item, preprocess: Optional[Callable[[Any], Any]], specs: Sequence[TensorSpec], is_table: bool
) -> Sample:
    """Loads and preprocesses an item; ValueError if what comes out does not fit the model."""
    value = item.load()
    if preprocess is not None:
        value = preprocess(value)
    if not isinstance(value, Mapping):
        if len(specs) != 1:
            raise ValueError(
                f"expected a mapping with {', '.join(s.name for s in specs)}, found {type(value).__name__}"
            )
        value = {specs[0].name: value}
    arrays: Dict[str, np.ndarray] = {}
    ranks = set()
    rows = set()
    for spec in specs:
        if spec.name not in value:
            raise ValueError(f"no value for input '{spec.name}' (there are: {', '.join(map(str, value))})")
        array = np.asarray(value[spec.name])
        dtype = numpy_dtype(spec.dtype)
        if array.dtype != dtype:
            if not is_table or not np.can_cast(array.dtype, dtype, "same_kind"):
                raise ValueError(f"input '{spec.name}': expected {spec.dtype}, found {array.dtype}")
            array = array.astype(dtype)
        if is_table and array.ndim == 1 and len(spec.shape) > 2:
            known = [extent if isinstance(extent, int) else -1 for extent in spec.shape[1:]]
            if known.count(-1) <= 1:
                array = array.reshape(known)
        ranks.add(len(spec.shape) - array.ndim)
        if array.ndim == len(spec.shape) and array.ndim > 0:
            rows.add(array.shape[0])
        skip = len(spec.shape) - array.ndim
        for axis, extent in enumerate(array.shape):
            known_extent = spec.shape[axis + skip] if 0 <= skip <= 1 else None
            if isinstance(known_extent, int) and extent != known_extent and axis + skip > 0:
                raise ValueError(f"input '{spec.name}': shape {list(array.shape)} for {list(spec.shape)} of the model")
        arrays[spec.name] = np.ascontiguousarray(array) if array.ndim else array
    if ranks == {1}:
        return Sample(item.index, item.name, arrays, 0)
    if ranks != {0}:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise ValueError(f"expected the shapes of the model, or those without the first axis; found {shapes}")
    # Inputs of full rank that do not agree on the first axis are not batched: they are a run of their own.
    return Sample(item.index, item.name, arrays, rows.pop() if len(rows) == 1 else -1)
