"""Checks of the arrays that a run of a model is given."""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple, Tuple, Union

import numpy as np

from . import _native
from ._stored_type import stored_type


class TensorSpec(NamedTuple):
    """An input or output of a model. An extent is a number, the name of a symbol (``"N"``), or None if it is
    neither.
    """

    name: str
    dtype: str
    shape: Tuple[Union[int, str, None], ...]


def shown(names: "Union[str, Iterable[str]]") -> str:
    """Names of a model for a message: a terminal obeys some of what they may hold."""
    return _native.printable(names if isinstance(names, str) else ", ".join(names))


def input_array(spec: TensorSpec, value: Any) -> Any:
    """The value of an input as a C-contiguous array in this machine's byte order; itself where it is one already.
    Elements of stored types are given as their codes, strings as objects."""
    name = spec.name
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"input '{shown(name)}': some elements are masked; give .filled(value) instead")
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        value = _from_dlpack(name, value)
    array = np.asarray(value)
    if spec.dtype == "string":
        return _texts(name, array)
    stored = stored_type(spec.dtype)
    if stored is not None:
        return np.asarray(stored.codes_of(array), order="C")
    if array.dtype == bool and array.size > 0 and array.view(np.uint8).max() > 1:
        return np.asarray(array.view(np.uint8) != 0, order="C")  # NumPy takes any byte but 0 for true, kernels do not
    if array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative:
        return array
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def _texts(name: str, array: np.ndarray) -> np.ndarray:
    """An array of strings as one of objects, in C order; what they are is checked where they are read."""
    if array.dtype.kind not in "OUST":
        raise ValueError(f"input '{shown(name)}': expected strings, found an array of dtype {array.dtype}")
    return np.asarray(array, object, order="C")


def _from_dlpack(name: str, value: Any) -> np.ndarray:
    """A tensor of another library, in place."""
    device = value.__dlpack_device__()[0] if hasattr(value, "__dlpack_device__") else _DLPACK_CPU
    if int(device) != _DLPACK_CPU:
        raise ValueError(
            f"input '{shown(name)}': the tensor is on a device (DLPack type {int(device)}); copy it to the CPU"
        )
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ValueError(f"input '{shown(name)}': NumPy cannot take the tensor by DLPack: {error}") from error


_DLPACK_CPU = 1


def output_array(spec: TensorSpec, array: Any) -> np.ndarray:
    """Checks an array that an output is to be written into; what its memory is like is checked when it is bound."""
    name = spec.name
    if spec.dtype == "string":
        raise ValueError(f"output '{shown(name)}': strings are returned, they cannot be written into an array")
    if not isinstance(array, np.ndarray):
        raise TypeError(f"output '{shown(name)}': a NumPy array is expected, found {type(array).__name__}")
    if isinstance(array, np.ma.MaskedArray):
        raise ValueError(f"output '{shown(name)}': a masked array cannot be written into; give its .data")
    if not array.dtype.isnative:
        raise ValueError(f"output '{shown(name)}': the array is not in this machine's byte order ({array.dtype.str})")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(f"output '{shown(name)}': an aligned, C-contiguous array is expected")
    stored = stored_type(spec.dtype)
    if stored is not None and stored.codes_of(array).dtype != stored.codes:
        raise ValueError(f"output '{shown(name)}': expected {stored.dtype}, found {array.dtype}")
    if stored is not None and not array.flags.writeable:
        raise ValueError(f"output '{shown(name)}': the array is read-only")
    return array
