"""Arrays of element types that models store and nobody computes with: floats of 8 bits and less, integers of less,
complex numbers.

NumPy knows them by the package ml_dtypes. Without it such an array holds the codes, a byte for each element: uint8, or
int8 for signed integers. Both are taken where an input is expected, and outputs to write into may be either.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np

from . import _native
from ._dtype import _ml_dtypes


class StoredType(NamedTuple):
    """How arrays of a stored type look: the NumPy type of its codes, and whether models pack them."""

    name: str
    codes: np.dtype
    is_packed: bool
    own: Optional[np.dtype]  # that of ml_dtypes, or NumPy's

    @property
    def dtype(self) -> np.dtype:
        """The type of arrays that are returned."""
        return self.own if self.own is not None else self.codes

    def codes_of(self, array: np.ndarray) -> np.ndarray:
        """The same memory as codes; arrays of other types as they are."""
        return array.view(self.codes) if self.own is not None and array.dtype == self.own else array


# What ml_dtypes calls them, where that is another name.
_NAMES_THERE = {
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
    "float4e2m1": "float4_e2m1fn",
}


def _own(name: str) -> Optional[np.dtype]:
    if name == "complex64":
        return np.dtype(np.complex64)
    found = getattr(_ml_dtypes, _NAMES_THERE.get(name, name), None)  # older versions lack some
    return np.dtype(found) if found is not None else None


def _rows() -> "dict[str, StoredType]":
    return {
        name: StoredType(name, np.dtype(held), bits < 8, _own(name))
        for name, bits, _, held in _native.element_types()
        if held != name
    }


_STORED_TYPES = _rows()


def stored_type(name: str) -> Optional[StoredType]:
    """What is known about the element type ``name`` of a model; None for those that NumPy knows."""
    return _STORED_TYPES.get(name)


def numpy_dtype(name: str) -> np.dtype:
    """The type of arrays that a model returns for its element type ``name``."""
    if name == "string":
        return np.dtype(object)
    stored = stored_type(name)
    return stored.dtype if stored is not None else np.dtype(name)
