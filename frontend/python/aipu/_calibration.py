"""Data for tools that look into a model: whatever :mod:`aipu.batch` takes, as inputs of runs."""

from __future__ import annotations

import itertools
import os
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from . import _batching, _test_data
from ._arrays import TensorSpec
from ._stored_type import numpy_dtype
from .batch import _sources
from .batch._samples import Sample, prepare

Feed = Dict[str, np.ndarray]


class Run(NamedTuple):
    """The inputs of a run, and what its data is called."""

    name: str
    feed: Feed


def _read_test_set(folder: str, specs: Sequence[TensorSpec]) -> Feed:
    feed = {spec.name: array for spec, _, array in _test_data.tensors(folder, "input", specs)}
    for index, spec in enumerate(specs):
        if spec.name not in feed:
            raise ValueError(f"'{folder}' has no input_{index}.pb for input '{spec.name}'")
    return feed


def runs(
    data: Any,
    specs: Sequence[TensorSpec],
    *,
    batch: int = 1,
    limit: Optional[int] = None,
    constants: Optional[Mapping[str, Any]] = None,
    preprocess: Optional[Callable[[Any], Any]] = None,
) -> Iterator[Run]:
    """The runs that a data set is, one after the other; nothing is kept.

    ``data``: what :func:`aipu.batch.run` takes (a folder, list, ``.npz``, table, iterable), or a folder of ONNX's
    backend tests. ``specs``: the model's inputs; ``constants``: inputs that all runs share. ``batch``: so many items
    that come without the first axis make a run, if the model leaves that axis open. ``limit``: items to take.

    ValueError for an item that cannot be loaded or does not fit the model, and where there is none.
    """
    dtypes = {spec.name: spec.dtype for spec in specs}
    shared = {
        # Numbers take the type of the input.
        name: value if isinstance(value, np.ndarray) else np.asarray(value, numpy_dtype(dtypes.get(name, "float32")))
        for name, value in (constants or {}).items()
    }
    unknown = [name for name in shared if name not in dtypes]
    if unknown:
        raise ValueError(f"the model has no input '{unknown[0]}' (there are: {', '.join(s.name for s in specs)})")
    wanted = [spec for spec in specs if spec.name not in shared]
    is_folder = isinstance(data, (str, os.PathLike)) and os.path.isdir(data)
    sets = _test_data.test_sets(os.fspath(data)) if is_folder else []
    found = 0
    for run in _from_sets(sets[:limit], specs) if sets else _batched(data, wanted, batch, limit, preprocess):
        found += 1
        yield Run(run.name, {**run.feed, **shared})
    if found == 0:
        raise ValueError(
            f"there is no data in '{data}'" if isinstance(data, (str, os.PathLike)) else "there is no data"
        )


def _from_sets(sets: Sequence[str], specs: Sequence[TensorSpec]) -> Iterator[Run]:
    for path in sets:
        yield Run(path, _read_test_set(path, specs))


def _batched(
    data: Any, specs: Sequence[TensorSpec], batch: int, limit: Optional[int], preprocess: Optional[Callable[[Any], Any]]
) -> Iterator[Run]:
    source = _sources.source_of(data, [spec.name for spec in specs], preprocess is not None)
    is_open = all(spec.shape and not isinstance(spec.shape[0], int) for spec in specs)
    samples = _samples(source, specs, limit, preprocess)
    # One after the other: what is next to each other and alike runs together.
    for _, alike in itertools.groupby(samples, lambda sample: sample.index if sample.rows else sample.bucket()):
        for part in _batching.batches(alike, lambda sample: sample.count, batch if is_open else 1):
            first, last = part[0], part[-1]
            if first.rows:
                yield Run(first.name, first.arrays)
                continue
            name = first.name if len(part) == 1 else f"{first.name} to {last.name}"
            yield Run(name, _batching.joined([sample.arrays for sample in part], False))


def _samples(
    source: _sources.Source,
    specs: Sequence[TensorSpec],
    limit: Optional[int],
    preprocess: Optional[Callable[[Any], Any]],
) -> Iterator[Sample]:
    for item in source.items(0):
        if limit is not None and item.index >= limit:
            break
        try:
            sample = prepare(item, preprocess, specs, source.is_table)
        except Exception as error:  # of a file, or of the user's function
            raise ValueError(f"data '{item.name}': {error}") from error
        yield sample
