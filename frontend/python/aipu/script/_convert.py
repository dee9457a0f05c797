"""Conversions: ``cast``, ``reinterpret`` and their relatives (intrinsics.md 7)."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from .. import _native
from .._dtype import DataType
from ._core import Value, Vector, call, code_of, convert, part_attribute, resolve_type, wrap
from ._pointer import Pointer, _Memory
from ._pysim import current

_SPECIAL = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}
_INT32_MAX, _UINT32_MAX = (1 << 31) - 1, (1 << 32) - 1
_SATURATE = {None: 0, False: 1, True: 2}


def _merge_or_vector(operands: tuple, dtype: DataType, part: str, saturate: Optional[bool]) -> Any:
    attributes = (("dtype", code_of(dtype)), part_attribute(part, 9), ("saturate", _SATURATE[saturate]))
    return call("cast", operands, attributes=attributes)


def _vector_literal(items: Any, dtype: DataType) -> Any:
    if dtype.is_scalar and len(items) == 1:
        return convert(items[0], dtype)
    if dtype.is_scalar and items:
        dtype = dtype.with_lanes(len(items))
    if dtype.lanes != len(items):
        raise AssertionError(f'The length of the 1st arg expect "{dtype.lanes}", but got: "{len(items)}".')
    code = code_of(dtype)
    return wrap((code, _native.convert_lanes(items, code)))


def cast(x: Any, dtype: Any, part: str = "all", saturate: Optional[bool] = None) -> Any:
    """Converts a value, the lanes of a vector literal, or several vectors that are narrowed into one.

    ``dtype`` may be scalar for a vector or a list ``x``: the lanes follow. ``part`` (``low high even odd``,
    ``ll lh hl hh``) widens a part of a native vector. ``saturate`` clamps integers instead of wrapping. Float to int
    clamps to int32, truncates and wraps.
    """
    target = resolve_type(dtype)
    part_attribute(part, 9)
    if saturate not in _SATURATE:
        raise AssertionError('The arg "saturate" expect one of (None, True, False).')
    if isinstance(x, np.ndarray):
        if x.ndim != 1:
            raise AssertionError("The items of a vector literal must be scalars.")
        x = x.tolist() if x.dtype.kind in "biuf" else [float(item) for item in x]
    if isinstance(x, (tuple, list)):
        if x and isinstance(x[0], Vector):
            if not all(isinstance(item, Vector) for item in x):
                raise AssertionError("The data type of all items must be same and must be vector.")
            return _merge_or_vector(tuple(x), target, part, saturate)
        if saturate is not None:
            raise AssertionError('Currently can\'t set "saturate" when the input is a list or tuple.')
        return _vector_literal(x, target)
    if isinstance(x, str):
        special = _SPECIAL.get(x.lower())
        if special is None:
            raise AssertionError('The 1st arg expect one of ("inf", "-inf", "nan").')
        if not target.is_floating:
            raise AssertionError(f'"{x}" can\'t be represented by "{target}".')
        return convert(special, target)
    if isinstance(x, Vector):
        source = x.dtype
        if source == target or (target.is_scalar and source.element_of == target):
            return wrap((x._code, x._data.copy()))
        if source.is_bool or target.is_bool:
            raise ValueError(f'Unsupported cast directly from "{source}" to "{target}"')
        return _merge_or_vector((x,), target, part, saturate)
    if isinstance(x, _Memory):
        raise AssertionError(f'Unexpect "{x.dtype}*" pointer as argument.')
    if saturate is not None:
        raise AssertionError('Currently can\'t set "saturate" when the input is scalar.')
    return convert(x, target)


def _pointer_type(text: str) -> Pointer:
    """The null pointer of a type such as ``"lsram i8 *"``."""
    words = text[:-1].split()
    scope = words[0] if len(words) == 2 else "global"
    if len(words) not in (1, 2) or scope not in _native.SCOPES:
        raise AssertionError(f'The arg "dtype" expect a data type, but got: "{text}".')
    return Pointer(None, 0, resolve_type(words[-1]), scope)


def reinterpret(x: Any, dtype: Any) -> Any:
    """The bits of ``x`` as another type of the same total bits; a pointer as a 32-bit address and back (``"lsram i8
    *"``).
    """
    if isinstance(dtype, str) and dtype.rstrip().endswith("*"):
        null = _pointer_type(dtype.rstrip())
        if isinstance(x, _Memory):
            return Pointer(x._memory, x._offset, null.dtype, null.scope)
        memory, offset = current().run.pointer_at(int(x) & 0xFFFFFFFF)
        return Pointer(memory, offset, null.dtype, null.scope)
    target = resolve_type(dtype)
    if isinstance(x, _Memory):
        if target not in ("int32", "uint32"):
            raise AssertionError(f'Unsupported reinterpret from "{x.dtype}*" to "{target}".')
        return convert(current().run.integer_of(x._memory, x._offset), target)
    if isinstance(x, int) and _INT32_MAX < x <= _UINT32_MAX:
        x = convert(x, DataType("uint32"))  # 32 bits, though no int32
    return call("reinterpret", (x,), attributes=(("dtype", code_of(target)),))


def _sign_only(name: str, x: Any) -> Any:
    if isinstance(x, (bool, float)) or (isinstance(x, Value) and (x.dtype.is_bool or not x.dtype.is_integer)):
        raise AssertionError("The data type of arg must be integer")
    return call(name, (x,))


def i(x: Any) -> Any:
    """The same bits read as signed; integers only."""
    return _sign_only("i", x)


def u(x: Any) -> Any:
    """The same bits read as unsigned; integers only."""
    return _sign_only("u", x)


def vxtl(x: Vector) -> Vector:
    """The low half of a native 8- or 16-bit integer vector, extended to twice the width."""
    return call("vxtl", (x,))


def vxth(x: Vector) -> Vector:
    """The high half of a native 8- or 16-bit integer vector, extended to twice the width."""
    return call("vxth", (x,))
