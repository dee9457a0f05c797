"""Arithmetic, comparisons and mathematics (intrinsics.md 3, 6 and 8)."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ._core import UNDEFINED, Value, Vector, call, literal_as_scalar, out_sign_attribute
from ._pointer import as_pointer

_MASKED_OFF = UNDEFINED["masked_off"]


def _saturate(value: bool) -> tuple:
    return ("saturate", int(bool(value)))


def vadd(
    x: Any, y: Any, mask: Any = None, saturate: bool = False, out_sign: Optional[str] = None, r: Any = None
) -> Vector:
    """``x + y``; integers wrap, or are clamped with ``saturate``.

    Inactive lanes are ``r``; without ``r`` the mask is ignored.
    """
    return call("vadd", (x, y), mask, r, (_saturate(saturate), out_sign_attribute(out_sign)))


def vsub(
    x: Any, y: Any, mask: Any = None, saturate: bool = False, out_sign: Optional[str] = None, r: Any = None
) -> Vector:
    """``x - y``; integers wrap, or are clamped with ``saturate``.

    Inactive lanes are ``r``; without ``r`` the mask is ignored.
    """
    return call("vsub", (x, y), mask, r, (_saturate(saturate), out_sign_attribute(out_sign)))


def vmul(x: Any, y: Any, mask: Any = None, out_sign: Optional[str] = None, r: Any = None) -> Vector:
    """``x * y``, the low bits of integers; no 8-bit elements.

    Inactive lanes are ``r``; without ``r`` the mask is ignored.
    """
    return call("vmul", (x, y), mask, r, (out_sign_attribute(out_sign),))


def vdiv(x: Any, y: Any, mask: Any = None) -> Vector:
    """``x / y`` of integers (truncated; 0 for a divisor 0, MAX for MIN / -1) or float32.

    Inactive lanes are undefined.
    """
    return call("vdiv", (x, y), mask, undefined=_MASKED_OFF)


def vmod(x: Any, y: Any, mask: Any = None) -> Vector:
    """The remainder of ``vdiv``, with the sign of ``x``; 0 for a divisor 0. Inactive lanes are undefined."""
    return call("vmod", (x, y), mask, undefined=_MASKED_OFF)


def abs(x: Any, mask: Any = None, saturate: bool = False) -> Any:
    """The magnitude; of the smallest integer itself, or MAX with ``saturate``. Inactive lanes are undefined."""
    return call("abs", (x,), mask, None, (_saturate(saturate),), _MASKED_OFF)


def clip(x: Any, min_val: Any, max_val: Any, mask: Any = None) -> Any:
    """``x`` limited to ``[min_val, max_val]``; NaN lanes stay NaN. Inactive lanes are ``x``."""
    return call("clip", (literal_as_scalar(x), min_val, max_val), mask)


def fma(acc: Any, x: Any, y: Any, mask: Any = None) -> Any:
    """``acc + x * y`` in float32, rounded once. Inactive lanes are ``acc``."""
    return call("fma", (acc, x, y), mask)


def rint(x: Any, mask: Any = None) -> Any:
    """The nearest integer, ties to even. Inactive lanes are undefined."""
    return call("rint", (x,), mask, undefined=_MASKED_OFF)


def vmull(x: Any, y: Any, mask: Any = None, out_sign: Optional[str] = None, r: Any = None) -> Vector:
    """Exact products of the low half of the lanes, twice as wide; of 32-bit elements pairs of words, low word first."""
    return call("vmull", (x, y), mask, r, (out_sign_attribute(out_sign),))


def vmulh(x: Any, y: Any, mask: Any = None, out_sign: Optional[str] = None, r: Any = None) -> Vector:
    """Exact products of the high half of the lanes, twice as wide; of 32-bit elements as pairs of words, low word
    first.
    """
    return call("vmulh", (x, y), mask, r, (out_sign_attribute(out_sign),))


def vaddh(x: Any, y: Any) -> Vector:
    """Saturated sums of neighbours: those of ``x`` in the low half, those of ``y`` in the high half."""
    return call("vaddh", (x, y))


def vsubh(x: Any, y: Any) -> Vector:
    """Saturated differences of neighbours: those of ``x`` in the low half, those of ``y`` in the high half."""
    return call("vsubh", (x, y))


def vmaxh(x: Any, y: Any) -> Vector:
    """Maxima of neighbours: those of ``x`` in the low half, those of ``y`` in the high half."""
    return call("vmaxh", (x, y))


def vminh(x: Any, y: Any) -> Vector:
    """Minima of neighbours: those of ``x`` in the low half, those of ``y`` in the high half."""
    return call("vminh", (x, y))


def vmml(ptr: Any, x: Vector, y: Vector) -> None:
    """``ptr[0:16] = X * Y`` of 4 x 4 matrices: ``x`` row-major, ``y`` column-major float16 or bfloat16, the result
    float32.
    """
    call("vmml", (as_pointer(ptr, "1st"), x, y))


def vmma(acc_ptr: Any, x: Vector, y: Vector) -> None:
    """``acc_ptr[0:16] += X * Y``, as ``vmml``."""
    call("vmma", (as_pointer(acc_ptr, "1st"), x, y))


def vfmae(acc: Vector, x: Any, y: Any, mask: Any = None) -> Vector:
    """``acc[i] + x[2i] * y[2i]`` in float32. Inactive lanes are ``acc``."""
    return call("vfmae", (acc, x, y), mask)


def vfmao(acc: Vector, x: Any, y: Any, mask: Any = None) -> Vector:
    """``acc[i] + x[2i+1] * y[2i+1]`` in float32. Inactive lanes are ``acc``."""
    return call("vfmao", (acc, x, y), mask)


# --- dot products and reductions ---


def vdot(x: Any, y: Any, mask: Any = None) -> Vector:
    """Saturated sums of two neighbouring products, of 8- or 16-bit integers."""
    return call("vdot", (x, y), mask)


def vqdot(x: Any, y: Any, mask: Any = None) -> Vector:
    """Sums of four neighbouring products: of 8-bit integers saturated, of 16-bit floats in the even float32 lanes."""
    floating = isinstance(x, Value) and x.dtype.is_floating
    return call("vqdot", (x, y), mask, undefined=UNDEFINED["odd"] if floating else 0)


def vdpa(acc: Vector, x: Any, y: Any, mask: Any = None) -> Vector:
    """``acc + vdot(x, y)``, saturated once."""
    return call("vdpa", (acc, x, y), mask)


def vqdpa(acc: Vector, x: Any, y: Any, mask: Any = None) -> Vector:
    """``acc + vqdot(x, y)``, saturated once; of floats the odd lanes keep ``acc``."""
    return call("vqdpa", (acc, x, y), mask)


def vrpadd(x: Vector, mask: Any = None) -> Vector:
    """The sum of the active lanes in lane 0; 16-bit floats are added in float32. The other lanes are undefined."""
    return call("vrpadd", (x,), mask, undefined=UNDEFINED["all_but_first"])


def _extremum_of_lanes(name: str, x: Vector, mask: Any, return_idx: bool) -> Vector:
    undefined = UNDEFINED["all_but_first_two" if return_idx else "all_but_first"]
    return call(name, (x,), mask, None, (("return_idx", int(bool(return_idx))),), undefined)


def vrpmax(x: Vector, mask: Any = None, return_idx: bool = False) -> Vector:
    """The largest active lane in lane 0, with ``return_idx`` its index in lane 1. The other lanes are undefined."""
    return _extremum_of_lanes("vrpmax", x, mask, return_idx)


def vrpmin(x: Vector, mask: Any = None, return_idx: bool = False) -> Vector:
    """The smallest active lane in lane 0, with ``return_idx`` its index in lane 1. The other lanes are undefined."""
    return _extremum_of_lanes("vrpmin", x, mask, return_idx)


# --- comparisons ---


def vceq(x: Any, y: Any, mask: Any = None) -> Vector:
    """The mask ``x == y``. Inactive lanes are off."""
    return call("vceq", (x, y), mask)


def vcneq(x: Any, y: Any, mask: Any = None) -> Vector:
    """The mask ``x != y``. Inactive lanes are off."""
    return call("vcneq", (x, y), mask)


def vcge(x: Any, y: Any, mask: Any = None) -> Vector:
    """The mask ``x >= y``. Inactive lanes are off."""
    return call("vcge", (x, y), mask)


def vcgt(x: Any, y: Any, mask: Any = None) -> Vector:
    """The mask ``x > y``. Inactive lanes are off."""
    return call("vcgt", (x, y), mask)


def vcle(x: Any, y: Any, mask: Any = None) -> Vector:
    """The mask ``x <= y``. Inactive lanes are off."""
    return call("vcle", (x, y), mask)


def vclt(x: Any, y: Any, mask: Any = None) -> Vector:
    """The mask ``x < y``. Inactive lanes are off."""
    return call("vclt", (x, y), mask)


def isnan(x: Any, mask: Any = None) -> Any:
    """Whether lanes (or a scalar) are NaN. Inactive lanes are off."""
    return call("isnan", (literal_as_scalar(x),), mask)


def isinf(x: Any, mask: Any = None) -> Any:
    """Whether lanes (or a scalar) are infinite. Inactive lanes are off."""
    return call("isinf", (literal_as_scalar(x),), mask)


def isfinite(x: Any, mask: Any = None) -> Any:
    """Whether lanes (or a scalar) are neither NaN nor infinite. Inactive lanes are off."""
    return call("isfinite", (literal_as_scalar(x),), mask)


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, np.generic)


def max(x: Any, y: Any, mask: Any = None, r: Any = None) -> Any:
    """The larger of two; of NaN and a number the number.

    Inactive lanes are ``r``; without ``r`` the mask is ignored.
    """
    if _is_number(x) and _is_number(y) and mask is None:
        return x if x >= y else y
    return call("max", (x, y), mask, r)


def min(x: Any, y: Any, mask: Any = None, r: Any = None) -> Any:
    """The smaller of two; of NaN and a number the number.

    Inactive lanes are ``r``; without ``r`` the mask is ignored.
    """
    if _is_number(x) and _is_number(y) and mask is None:
        return x if x <= y else y
    return call("min", (x, y), mask, r)


# --- mathematics ---


def exp(x: Any) -> Any:
    """e to the power of ``x``."""
    return call("exp", (x,))


def exp2(x: Any) -> Any:
    """2 to the power of ``x``."""
    return call("exp2", (x,))


def log(x: Any) -> Any:
    """The natural logarithm; NaN for negative numbers, -inf for zero."""
    return call("log", (x,))


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return call("tanh", (x,))


def sin(x: Any) -> Any:
    """The sine of an angle in radians."""
    return call("sin", (x,))


def cos(x: Any) -> Any:
    """The cosine of an angle in radians."""
    return call("cos", (x,))


def sqrt(x: Any) -> Any:
    """The square root; NaN for negative numbers."""
    return call("sqrt", (x,))


def rsqrt(x: Any) -> Any:
    """The reciprocal of the square root."""
    return call("rsqrt", (x,))


def floor(x: Any) -> Any:
    """The largest integer that is not larger."""
    return call("floor", (x,))


def ceil(x: Any) -> Any:
    """The smallest integer that is not smaller."""
    return call("ceil", (x,))


def erf(x: Any) -> Any:
    """The error function."""
    return call("erf", (x,))


def pow(x: Any, exponent: Any) -> Any:
    """``x`` to the power of ``exponent``, of floats; scalars are matched, or broadcast next to a vector."""
    return call("pow", (x, exponent))


def ceildiv(x: Any, y: Any) -> Any:
    """``(x + y - 1) / y`` truncated, of integer scalars; ZeroDivisionError if ``y`` is 0."""
    if isinstance(x, int) and isinstance(y, int):
        if y == 0:
            raise ZeroDivisionError("The 2nd arg can't be zero.")
        total = x + y - 1
        quotient = total // y
        return quotient + 1 if quotient < 0 and quotient * y != total else quotient
    return call("ceildiv", (x, y))


__all__ = [
    name for name in dir() if not name.startswith("_") and getattr(globals()[name], "__module__", "") == __name__
]
