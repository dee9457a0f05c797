"""Inputs of a measurement: a file's, or seeded random ones of the shapes that the user gave."""

from __future__ import annotations

from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .._arrays import TensorSpec
from .._stored_type import numpy_dtype

_SYMBOLS = {"seq": 128, "sequence": 128, "sequence_length": 128}  # what a line to type suggests; others: 1


def make_inputs(
    specs: Iterable[TensorSpec],
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    ranges: Optional[Mapping[str, Tuple[float, float]]] = None,
    given: Optional[Mapping[str, np.ndarray]] = None,
    seed: int = 7,
) -> Dict[str, np.ndarray]:
    """An array per input: the ``given`` one, or random values of its dtype, uniform over ``ranges[name]`` (by default
    -1 to 1, integers and booleans 0 or 1; the upper end is excluded for integers).

    ValueError for an input with open extents and no shape, with the option to type, and for names that are no inputs.
    """
    specs = list(specs)
    shapes, ranges, given = shapes or {}, ranges or {}, given or {}
    known = [spec.name for spec in specs]
    for name in (*shapes, *ranges, *given):
        if name not in known:
            raise ValueError(f"the model has no input '{name}' (there are: {', '.join(known)})")
    open_ones: List[str] = []
    generator = np.random.default_rng(seed)
    feed: Dict[str, np.ndarray] = {}
    for spec in specs:
        if spec.name in given:
            feed[spec.name] = given[spec.name]
            continue
        shape = shapes.get(spec.name, spec.shape)
        if any(not isinstance(extent, (int, np.integer)) or extent < 0 for extent in shape):
            wanted = [e if isinstance(e, int) else _SYMBOLS.get(str(e).lower(), 1) for e in spec.shape]
            open_ones.append(f"--shape {spec.name}={'x'.join(map(str, wanted))}")
            continue
        feed[spec.name] = _random(numpy_dtype(spec.dtype), tuple(shape), ranges.get(spec.name), generator)
    if open_ones:
        raise ValueError(f"the model leaves shapes open; give {' '.join(open_ones)}, or whichever you mean")
    return feed


def _random(
    dtype: np.dtype, shape: Tuple[int, ...], limits: Optional[Tuple[float, float]], generator: np.random.Generator
) -> np.ndarray:
    if dtype.kind in "iub":
        low, high = limits if limits is not None else (0, 2)
        return generator.integers(int(low), int(high), shape).astype(dtype)
    low, high = limits if limits is not None else (-1, 1)
    return np.asarray(generator.uniform(low, high, shape)).astype(dtype)
