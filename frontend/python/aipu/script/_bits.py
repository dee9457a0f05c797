"""Bitwise operations, shifts, permutations and masks (intrinsics.md 5, 9 and 10)."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np

from .._dtype import DataType, hw_native_vdtype
from ._core import (
    UNDEFINED,
    Value,
    Vector,
    call,
    code_of,
    literal_as_scalar,
    mask_operand,
    out_sign_attribute,
    part_attribute,
    wrap,
)

_MASKED_OFF = UNDEFINED["masked_off"]


def _flag(name: str, value: bool) -> Tuple[str, int]:
    return (name, int(bool(value)))


def _open_lanes(x: Any, y: Any = None) -> int:
    """Masked-off lanes are undefined for integers, off for masks."""
    is_mask = any(isinstance(v, Vector) and v.dtype.is_bool for v in (x, y))
    return 0 if is_mask else _MASKED_OFF


def vand(x: Any, y: Any, mask: Any = None) -> Vector:
    """``x & y`` of integers or masks. Inactive lanes are undefined, of masks off."""
    return call("vand", (x, y), mask, undefined=_open_lanes(x, y))


def vor(x: Any, y: Any, mask: Any = None) -> Vector:
    """``x | y`` of integers or masks. Inactive lanes are undefined, of masks off."""
    return call("vor", (x, y), mask, undefined=_open_lanes(x, y))


def vxor(x: Any, y: Any, mask: Any = None) -> Vector:
    """``x ^ y`` of integers or masks. Inactive lanes are undefined, of masks off."""
    return call("vxor", (x, y), mask, undefined=_open_lanes(x, y))


def vinv(x: Any, mask: Any = None) -> Vector:
    """``~x`` of integers or masks. Inactive lanes are undefined, of masks off."""
    return call("vinv", (x,), mask, undefined=_open_lanes(x))


def vall(mask: Vector) -> bool:
    """Whether all lanes of a mask are on."""
    return call("vall", (_mask_value(mask),))


def vany(mask: Vector) -> bool:
    """Whether some lane of a mask is on."""
    return call("vany", (_mask_value(mask),))


def _mask_value(mask: Any) -> Any:
    if not isinstance(mask, Vector):
        raise AssertionError('The arg "mask" expect a variable.')
    return mask


def vsl(x: Vector, shift: Any, mask: Any = None, saturate: bool = False, r: Any = None) -> Vector:
    """``x << shift``, with ``saturate`` clamped (signed only).

    Inactive lanes are ``r``; without ``r`` the mask is ignored.
    """
    return call("vsl", (x, shift), mask, r, (_flag("saturate", saturate),))


def vsr(x: Vector, shift: Any, mask: Any = None, with_round: bool = False, r: Any = None) -> Vector:
    """``x >> shift``, with ``with_round`` to the nearest, ties to even. Inactive lanes are ``r``."""
    return call("vsr", (x, shift), mask, r, (_flag("with_round", with_round),))


def vror(x: Vector, shift: Any, mask: Any = None) -> Vector:
    """The bits rotated right. Inactive lanes are undefined."""
    return call("vror", (x, shift), mask, undefined=_MASKED_OFF)


def vnsr(
    x: Vector,
    shift: Any,
    mask: Any = None,
    saturate: bool = False,
    out_sign: Optional[str] = None,
    with_round: bool = False,
    to_h: bool = False,
) -> Vector:
    """A shift right into 8-bit elements (16 with ``to_h``): lane ``i`` goes to the start of its old place, the rest is
    0.
    """
    attributes = (
        _flag("saturate", saturate),
        out_sign_attribute(out_sign),
        _flag("with_round", with_round),
        _flag("to_h", to_h),
    )
    return call("vnsr", (x, shift), mask, None, attributes)


def vnsrsr(x: Vector, shift: Any, mask: Any = None, out_sign: Optional[str] = None, to_h: bool = False) -> Vector:
    """``vnsr`` with saturation and rounding."""
    return call("vnsrsr", (x, shift), mask, None, (out_sign_attribute(out_sign), _flag("to_h", to_h)))


def vcls(x: Vector, mask: Any = None, out_sign: Optional[str] = None) -> Vector:
    """The number of bits below the sign bit that equal it. Inactive lanes are undefined."""
    return call("vcls", (x,), mask, None, (out_sign_attribute(out_sign),), _MASKED_OFF)


def clz(x: Any, mask: Any = None) -> Any:
    """The number of leading zero bits. Inactive lanes are undefined."""
    return call("clz", (x,), mask, undefined=_MASKED_OFF)


def vbrevs(x: Vector, mask: Any = None) -> Vector:
    """The bits in reverse order. Inactive lanes are undefined."""
    return call("vbrevs", (x,), mask, undefined=_MASKED_OFF)


def vpcnt(x: Vector, mask: Any = None, out_sign: Optional[str] = None) -> Vector:
    """The number of 1 bits. Inactive lanes are undefined."""
    return call("vpcnt", (x,), mask, None, (out_sign_attribute(out_sign),), _MASKED_OFF)


# --- permutations ---


def vconcat(inps: Sequence[Any], part: str = "all") -> Vector:
    """Vectors one after the other, or a part (``low high even odd``) of each."""
    if not isinstance(inps, (tuple, list)):
        raise AssertionError("The 1st arg expect a tuple or list.")
    return call("vconcat", tuple(inps), attributes=(part_attribute(part, 5),))


def vsplit(x: Vector) -> Tuple[Vector, ...]:
    """The native vectors that a multiple-width vector is made of."""
    if not isinstance(x, Vector):
        raise AssertionError("The 1st arg expect a vector.")
    dtype = x.dtype
    if dtype.is_bool:
        raise AssertionError("Only support integer and floating instruction.")
    native = hw_native_vdtype(dtype)
    if dtype == native:
        raise AssertionError("Redundant useless call.")
    if dtype.lanes % native.lanes != 0:
        raise AssertionError(f'This API does not support the feature Flexible Width Vector, but got: "{dtype}"')
    code = code_of(native)
    starts = range(0, dtype.lanes, native.lanes)
    return tuple(Vector(code, x._data[start : start + native.lanes].copy()) for start in starts)


def vzip(x: Any, y: Any, part: str = "all") -> Vector:
    """The lanes of two vectors (or of one part of both) in turn."""
    return call("vzip", (x, y), attributes=(part_attribute(part, 5),))


def vcompt(x: Vector, mask: Any) -> Vector:
    """The active lanes packed to the front, the rest 0."""
    return call("vcompt", (x,), mask)


def vcompc(x: Any, y: Any, mask: Any) -> Vector:
    """The active lanes of ``x`` packed to the front, then the first lanes of ``y``."""
    return call("vcompc", (x, y), mask)


def vrevs(x: Vector) -> Vector:
    """The lanes in reverse order."""
    return call("vrevs", (x,))


def vsel(x: Any, y: Any, mask: Any = None) -> Vector:
    """Lanes of ``x`` where the mask is on, of ``y`` elsewhere."""
    return call("vsel", (x, y), mask)


def vshfl(x: Vector, shift: Any) -> Vector:
    """The lanes rotated toward lane 0."""
    if isinstance(x, Vector) and hasattr(shift, "__index__") and not 0 <= shift.__index__() < len(x):
        raise AssertionError(f'The arg "shift" expect in range [0, {len(x)}), but got: "{shift.__index__()}".')
    return call("vshfl", (x, shift))


def vbcast(x: Any, mask: Any = None, lanes: Optional[int] = None) -> Vector:
    """A scalar in every lane (by default of a native vector). Inactive lanes are undefined."""
    attributes = () if lanes is None else (("lanes", _constant_lanes(lanes)),)
    return call("vbcast", (literal_as_scalar(x),), mask, None, attributes, _MASKED_OFF)


def vsldl(x: Any, y: Any, shift: int) -> Vector:
    """Lanes ``shift ...`` of ``x`` followed by ``y``."""
    if isinstance(shift, Value):
        shift = shift.__index__()
    return call("vsldl", (x, y, shift))


def vtbl(table: Sequence[Vector], indices: Vector) -> Vector:
    """The lanes of 2 to 4 vectors at ``indices``; 0 for indices outside."""
    if not isinstance(table, (tuple, list)) or not 2 <= len(table) <= 4:
        raise AssertionError('The length of the arg "table" expect in range [2, 4]')
    return call("vtbl", (*table, indices))


def vreplic(x: Vector, index: Any = 0) -> Vector:
    """Lane ``index`` in every lane."""
    return call("vreplic", (x, index))


# --- masks ---


def _constant_lanes(lanes: Any) -> int:
    if isinstance(lanes, bool) or not isinstance(lanes, (int, np.integer)):
        raise AssertionError('The arg "lanes" expect an integer scalar constant.')
    if lanes <= 1:
        raise AssertionError(f'The arg "lanes" expect > 1, but got: "{lanes}".')
    return int(lanes)


def const_mask(x: Union[str, Sequence[bool], np.ndarray]) -> Vector:
    """A constant mask from bools or a mask string; strings that expand to fewer lanes than characters are padded."""
    if isinstance(x, Value) or not hasattr(x, "__len__"):
        raise AssertionError("The 1st arg expect a mask that is known at compile time.")
    if len(x) <= 1:
        raise AssertionError("The length of the 1st arg expect > 1")
    bits = mask_operand(x)
    if isinstance(x, str) and bits.size < len(x):
        bits = np.concatenate([bits, np.zeros(len(x) - bits.size, np.bool_)])
    return wrap((code_of(DataType(f"boolx{bits.size}")), np.array(bits, dtype=np.bool_)))


def tail_mask(n: Any, lanes: int) -> Vector:
    """The mask whose first ``n`` lanes are on."""
    count = _constant_lanes(lanes)
    if isinstance(n, (Value, int)) and not 0 <= int(n) <= count:
        raise AssertionError('The arg "n" expect in range [0, lanes]')
    return call("tail_mask", (n,), attributes=(("lanes", count),))


__all__ = [
    name for name in dir() if not name.startswith("_") and getattr(globals()[name], "__module__", "") == __name__
]
