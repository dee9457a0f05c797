"""Test data and comparison."""

from __future__ import annotations

import functools
import os
import traceback
import types
from typing import Any, Callable, Optional, Tuple, Union

import numpy as np

from ._dtype import DataType, get_range, resolve_dtype_alias
from ._settings import random_seed

_generator: Optional[np.random.Generator] = None
_generator_seed: Optional[int] = None


def _rng() -> np.random.Generator:
    global _generator, _generator_seed
    seed = random_seed()
    if _generator is None or seed != _generator_seed:
        _generator, _generator_seed = np.random.default_rng(seed), seed
    return _generator


def _shape_of(shape: Union[int, Tuple[int, ...]]) -> Tuple[int, ...]:
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(extent) for extent in shape)


def rand(
    shape: Union[int, Tuple[int, ...]],
    dtype: Any,
    low: Optional[float] = None,
    high: Optional[float] = None,
    enable_corner_values: bool = True,
    return_python_type: bool = False,
) -> Any:
    """Random values in ``[low, high)``, by default of the whole range of ``dtype``.

    Integers are uniform; floats normal around the middle with a deviation of a sixth of the range (at most 700 for
    float16, 1e6 otherwise), clipped; bools a fair coin. The corner values low, 0 (if inside) and high - 1 are planted
    at random places if there are more elements than corners. ``shape == 1`` gives a scalar. ``return_python_type``
    gives Python numbers (nested lists for arrays).
    """
    element = resolve_dtype_alias(dtype).element_of
    extents = _shape_of(shape)
    count = int(np.prod(extents, dtype=np.int64))
    rng = _rng()
    if element.is_bool:
        values = rng.integers(0, 2, count).astype(bool)
        corners = []
    else:
        smallest, largest = get_range(element)
        low = smallest if low is None else low
        whole_range = high is None
        high = (largest + 1 if element.is_integer else largest) if high is None else high
        if element.is_integer:
            low, high = int(np.ceil(low)), int(np.ceil(high))
            values = rng.integers(low, max(high, low + 1), count, dtype=np.int64)
            corners = [low, high - 1]
        else:
            low, high = float(low), float(high)
            deviation = min(high / 6 - low / 6, 700.0 if element.is_float16 else 1e6)
            values = np.clip(rng.normal(low / 2 + high / 2, deviation, count), low, high)
            corners = [low, high if whole_range else max(low, high - 1)]
        if low < 0 < high - (1 if element.is_integer else 0):
            corners.insert(1, 0)
    if enable_corner_values and count > len(corners):
        values[rng.choice(count, len(corners), replace=False)] = corners
    result = values.astype(np.dtype(str(element)))
    if shape == 1 and isinstance(shape, (int, np.integer)):
        return result[0].item() if return_python_type else result[0]
    result = result.reshape(extents)
    return result.tolist() if return_python_type else result


_ULPS = 2  # floats whose integer views differ by no more are equal


def _ordered(values: np.ndarray) -> np.ndarray:
    """The integer views of floats, in the order of their values."""
    bits = values.view(f"i{values.dtype.itemsize}").astype(np.int64)
    sign = np.int64(1) << np.int64(8 * values.dtype.itemsize - 1)
    return np.where(bits < 0, -(bits + sign), bits)


def assert_allclose(actual: Any, desired: Any, rtol: Optional[float] = None, atol: Optional[float] = None) -> None:
    """Checks that two arrays have the same dtype, shape and, within tolerances, values. AssertionError with an excerpt
    if not.

    Integers have to be equal unless tolerances are given. Floats: ``rtol`` 0 and ``atol`` 1e-6 by default, and any
    finite pair that is within two units in the last place is equal, unless both tolerances are given as 0. NaN equals
    NaN. bfloat16 is compared as float32.
    """
    actual, desired = np.asarray(actual), np.asarray(desired)
    assert actual.dtype == desired.dtype, f'Argument type mismatch: 0-th: "{actual.dtype}" vs. 1-th: "{desired.dtype}".'
    exact = rtol == 0 and atol == 0
    floating = actual.dtype.kind == "f" or str(actual.dtype) == "bfloat16"
    if not floating:
        wide = [a.astype(np.int64) if a.dtype.kind in "iu" and a.dtype.itemsize < 8 else a for a in (actual, desired)]
        np.testing.assert_allclose(*wide, rtol=rtol or 0, atol=atol or 0)
        return
    if str(actual.dtype) == "bfloat16":
        # Its own last place, seen as an integer, before it is widened.
        close_views = [np.ascontiguousarray(a).view(np.uint16).astype(np.uint32) << 16 for a in (actual, desired)]
        views = [_ordered(v.view(np.float32)) >> 16 for v in close_views]
        actual, desired = actual.astype(np.float32), desired.astype(np.float32)
    else:
        views = [_ordered(np.ascontiguousarray(a)) for a in (actual, desired)]
    rtol, atol = 0 if rtol is None else rtol, 1e-6 if atol is None else atol
    if not exact and actual.shape == desired.shape:
        finite = np.isfinite(actual) & np.isfinite(desired)
        near = finite & (np.abs(views[0] - views[1]) <= _ULPS).reshape(actual.shape)
        actual = np.where(near, desired, actual)
    with np.errstate(over="ignore"):  # the largest floats of both signs
        np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol)


def clear_traceback(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a test: errors are shown without the frames inside this package."""
    package = os.path.dirname(__file__) + os.sep

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            outside = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
            chain: Optional[types.TracebackType] = None
            for frame, line in reversed(outside):
                if not frame.f_code.co_filename.startswith(package):
                    chain = types.TracebackType(chain, frame, frame.f_lasti, line)
            raise error.with_traceback(chain)  # noqa: B904 (the same error, seen from the user's frames)

    return call


def run_op_case(*_args: Any, **_kwargs: Any) -> None:
    """Runs a case of the vendor's operator library, which is not part of this package: raises NotImplementedError."""
    raise NotImplementedError("The vendor's operator library is not available.")


__all__ = ["rand", "assert_allclose", "clear_traceback", "run_op_case", "DataType"]
