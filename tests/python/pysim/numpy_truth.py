"""What the intrinsics of the Compass DSL yield, written from the specification with NumPy alone.

The functions have the names and parameters of ``aipu.script``, so that a test evaluates one expression against either.
Operands are ``Lanes``; a result says which of its lanes the language defines.
"""

from __future__ import annotations

import builtins
import dataclasses
import math
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import numpy as np

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
FLOATS = ("float16", "bfloat16", "float32")


def bits_of(dtype: str) -> int:
    """Bits of an element."""
    return {"bool": 1, "float16": 16, "bfloat16": 16, "float32": 32}.get(dtype) or int(dtype.lstrip("uint"))


def is_int(dtype: str) -> bool:
    """Whether an element type is an integer."""
    return "int" in dtype


def is_float(dtype: str) -> bool:
    """Whether an element type is floating."""
    return "float" in dtype


def is_signed(dtype: str) -> bool:
    """Whether an integer type is signed."""
    return dtype.startswith("int")


def int_range(dtype: str) -> Tuple[int, int]:
    """(smallest, largest) value of an integer type."""
    bits = bits_of(dtype)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed(dtype) else (0, (1 << bits) - 1)


def with_sign(dtype: str, signed: bool) -> str:
    """The integer type of the same width and a given sign."""
    return ("int" if signed else "uint") + str(bits_of(dtype))


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """float32 numbers rounded to bfloat16, ties to even: the bit patterns."""
    single = np.asarray(values, np.float32)
    raw = single.view(np.uint32).astype(np.uint64)
    rounded = (raw + 0x7FFF + ((raw >> 16) & 1)) >> 16
    return np.where(np.isnan(single), (raw >> 16) | 0x40, rounded).astype(np.uint16)


def bfloat16_values(bits: np.ndarray) -> np.ndarray:
    """The float32 numbers behind bfloat16 bit patterns."""
    return (np.asarray(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)


@dataclasses.dataclass(eq=False)
class Lanes:
    """The lanes of a value: ints as int64, bools as bool, floats as float32 numbers that the element type holds
    exactly.
    """

    values: np.ndarray
    dtype: str
    defined: Optional[np.ndarray] = None  # None: all
    scalar: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_defined(self) -> np.ndarray:
        """Which lanes the language defines."""
        return np.ones(len(self.values), bool) if self.defined is None else self.defined

    def to_bytes(self) -> np.ndarray:
        """The lanes as they lie in memory."""
        if self.dtype == "bfloat16":
            return bfloat16_bits(self.values).view(np.uint8)
        return np.ascontiguousarray(self.values.astype(self.dtype)).view(np.uint8)

    # Operators, language.md 6: the operands are matched, then computed in their common type.

    def __add__(self, other: "Operand") -> "Lanes":
        return _operator(self, other, lambda p, q: p + q)

    def __radd__(self, other: "Operand") -> "Lanes":
        return _operator(other, self, lambda p, q: p + q)

    def __sub__(self, other: "Operand") -> "Lanes":
        return _operator(self, other, lambda p, q: p - q)

    def __rsub__(self, other: "Operand") -> "Lanes":
        return _operator(other, self, lambda p, q: p - q)

    def __mul__(self, other: "Operand") -> "Lanes":
        return _operator(self, other, lambda p, q: p * q)

    def __truediv__(self, other: "Operand") -> "Lanes":
        return _quotient(self, other)

    def __floordiv__(self, other: "Operand") -> "Lanes":
        return _quotient(self, other)

    def __mod__(self, other: "Operand") -> "Lanes":
        return _operator(self, other, lambda p, q: 0 if q == 0 else p - _truncated_quotient(p, q) * q)

    def __and__(self, other: "Operand") -> "Lanes":
        return _operator(self, other, lambda p, q: p & q)

    def __or__(self, other: "Operand") -> "Lanes":
        return _operator(self, other, lambda p, q: p | q)

    def __xor__(self, other: "Operand") -> "Lanes":
        return _operator(self, other, lambda p, q: p ^ q)

    def __lshift__(self, other: "Operand") -> "Lanes":
        if self.scalar:
            return _scalar_shift(self, other, lambda p, n: p << n)
        return vsl(self, other)

    def __rshift__(self, other: "Operand") -> "Lanes":
        if self.scalar:
            return _scalar_shift(self, other, lambda p, n: p >> n)
        return vsr(self, other)

    def __neg__(self) -> "Lanes":
        return self * -1

    def __invert__(self) -> "Lanes":
        return dataclasses.replace(vinv(self), scalar=self.scalar)

    def __eq__(self, other: "Operand") -> "Lanes":  # type: ignore[override]
        return _comparison(self, other, lambda p, q: p == q)

    def __ne__(self, other: "Operand") -> "Lanes":  # type: ignore[override]
        return _comparison(self, other, lambda p, q: p != q)

    def __lt__(self, other: "Operand") -> "Lanes":
        return _comparison(self, other, lambda p, q: p < q)

    def __le__(self, other: "Operand") -> "Lanes":
        return _comparison(self, other, lambda p, q: p <= q)

    def __gt__(self, other: "Operand") -> "Lanes":
        return _comparison(self, other, lambda p, q: p > q)

    def __ge__(self, other: "Operand") -> "Lanes":
        return _comparison(self, other, lambda p, q: p >= q)


def from_memory(raw: np.ndarray, dtype: str, scalar: bool = False) -> Lanes:
    """Lanes from bytes of memory."""
    if dtype == "bfloat16":
        return Lanes(bfloat16_values(raw.view(np.uint16)), dtype, scalar=scalar)
    array = raw.view(dtype)
    if is_float(dtype):
        return Lanes(array.astype(np.float32), dtype, scalar=scalar)
    return Lanes(array.astype(np.int64), dtype, scalar=scalar)


# --- rounding and wrapping ---


def wrapped(values: Any, dtype: str) -> np.ndarray:
    """Integers modulo the width of a type."""
    array = np.asarray(values, object)
    low, high = int_range(dtype)
    return np.array([(int(v) - low) % (high - low + 1) + low for v in array.reshape(-1)], np.int64)


def clamped(values: Any, dtype: str) -> np.ndarray:
    """Integers limited to the range of a type."""
    low, high = int_range(dtype)
    return np.array(
        [builtins.min(builtins.max(int(v), low), high) for v in np.asarray(values, object).reshape(-1)], np.int64
    )


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """float32 (or float64) results rounded once to a floating type."""
    with np.errstate(all="ignore"):
        if dtype == "float32":
            return np.asarray(values).astype(np.float32)
        single = np.asarray(values, np.float32)
        if dtype == "bfloat16":
            return bfloat16_values(bfloat16_bits(single))
        return single.astype(np.float16).astype(np.float32)


# --- operands ---

Operand = Union[Lanes, bool, int, float]


def lift(value: Operand, like: Lanes) -> Lanes:
    """A literal or scalar next to a vector."""
    if isinstance(value, Lanes):
        if not value.scalar or like.scalar:
            return value
        number = value.values[0]
    else:
        number = value
    if is_float(like.dtype):
        return Lanes(rounded(np.full(len(like), number, np.float64), like.dtype), like.dtype)
    dtype = like.dtype
    low, high = int_range(dtype)
    if not low <= number <= high:
        dtype = with_sign(dtype, not is_signed(dtype))
    return Lanes(np.full(len(like), int(number), np.int64), dtype)


def _pair(x: Operand, y: Operand) -> Tuple[Lanes, Lanes]:
    vectors = [v for v in (x, y) if isinstance(v, Lanes) and not v.scalar]
    like = vectors[0] if vectors else next(v for v in (x, y) if isinstance(v, Lanes))
    return lift(x, like), lift(y, like)


def mask_of_text(text: str) -> List[bool]:
    """The lanes of a mask string (language.md 7.3)."""
    lanes: List[bool] = []
    position = 0
    while position < len(text):
        if text[position] == "_":
            position += 1
        count = ""
        while text[position].isdigit():
            count += text[position]
            position += 1
        letters = ""
        while position < len(text) and text[position] in "TF":
            letters += text[position]
            position += 1
        lanes += [letter == "T" for letter in letters] * int(count or 1)
    return lanes


def mask_lanes(mask: Any, lanes: int) -> np.ndarray:
    """A mask in any form as bools, padded with off lanes."""
    if mask is None:
        return np.ones(lanes, bool)
    if isinstance(mask, Lanes):
        assert len(mask) == lanes
        return mask.values.astype(bool)
    given = mask_of_text(mask) if isinstance(mask, str) else list(mask)
    assert len(given) <= lanes
    return np.array(given + [False] * (lanes - len(given)), bool)


def _out_dtype(dtype: str, out_sign: Optional[str]) -> str:
    return dtype if out_sign is None or is_float(dtype) else with_sign(dtype, out_sign == "s")


def _finish(values: np.ndarray, dtype: str, mask: Any, off: Any = None, lanes: Optional[int] = None) -> Lanes:
    """Inactive lanes are ``off`` (lanes), or undefined where it is None."""
    active = mask_lanes(mask, len(values) if lanes is None else lanes)
    if off is None:
        return Lanes(values, dtype, active)
    return Lanes(np.where(active, values, off), dtype)


def _with_r(values: np.ndarray, dtype: str, mask: Any, r: Any) -> Lanes:
    """The nine functions that have ``r``: without it the mask is ignored."""
    if r is None or mask is None:
        return Lanes(values, dtype)
    if isinstance(r, Lanes):
        other = cast(r, dtype).values if r.dtype != dtype else r.values
        if r.scalar:
            other = np.full(len(values), other[0])
    elif is_float(dtype):
        other = rounded(np.full(len(values), r, np.float64), dtype)
    else:
        other = wrapped(np.full(len(values), r, object), dtype)
    return _finish(values, dtype, mask, other)


def _arithmetic(x: Lanes, y: Lanes, op: Callable[[Any, Any], Any], dtype: str, saturate: bool = False) -> np.ndarray:
    with np.errstate(all="ignore"):
        if is_float(x.dtype):
            return rounded(op(x.values.astype(np.float32), y.values.astype(np.float32)), dtype)
        exact = [op(int(a), int(b)) for a, b in zip(x.values, y.values)]
        return clamped(exact, dtype) if saturate else wrapped(exact, dtype)


def common_dtype(x: Operand, y: Operand) -> str:
    """The element type that both operands of an operator are converted to (language.md 6.2, rules 2 to 7)."""
    if not isinstance(x, Lanes):
        x, y = y, x
    assert isinstance(x, Lanes)
    if isinstance(y, float):
        y_dtype = "float32"
    elif isinstance(y, int):
        if is_float(x.dtype) or int_range(x.dtype)[0] <= y <= int_range(x.dtype)[1]:
            return x.dtype
        y_dtype = "int32"
    else:
        y_dtype = y.dtype
    if x.dtype == y_dtype:
        return y_dtype
    if is_float(x.dtype) and is_float(y_dtype):
        if "bfloat16" in (x.dtype, y_dtype):
            return x.dtype if y_dtype == "bfloat16" else y_dtype
        return "float32"
    if is_float(x.dtype) or is_float(y_dtype):
        return x.dtype if is_float(x.dtype) else y_dtype
    if bits_of(x.dtype) != bits_of(y_dtype):
        return x.dtype if bits_of(x.dtype) > bits_of(y_dtype) else y_dtype
    return with_sign(y_dtype, False)


def matched(x: Operand, y: Operand) -> Tuple[Lanes, Lanes]:
    """Both operands of an operator in their common type, a scalar broadcast."""
    dtype = common_dtype(x, y)
    lanes = builtins.max(len(v) for v in (x, y) if isinstance(v, Lanes))
    both = []
    for v in (x, y):
        if isinstance(v, Lanes):
            values = v.values if v.dtype == dtype else _converted(v.values, v.dtype, dtype, None)
        else:
            values = rounded(np.array([v], np.float64), dtype) if is_float(dtype) else np.array([v], np.int64)
        both.append(Lanes(np.broadcast_to(values, lanes), dtype))
    return both[0], both[1]


def _scalar(x: Operand, y: Operand) -> bool:
    return all(v.scalar for v in (x, y) if isinstance(v, Lanes))


def _operator(x: Operand, y: Operand, op: Callable[[Any, Any], Any]) -> Lanes:
    a, b = matched(x, y)
    return Lanes(_arithmetic(a, b, op, a.dtype), a.dtype, scalar=_scalar(x, y))


def _quotient(x: Operand, y: Operand) -> Lanes:
    a, b = matched(x, y)
    return dataclasses.replace(vdiv(a, b), scalar=_scalar(x, y))


def _comparison(x: Operand, y: Operand, op: Callable[[Any, Any], Any]) -> Lanes:
    a, b = matched(x, y)
    return Lanes(op(a.values, b.values), "bool", scalar=_scalar(x, y))


# --- arithmetic ---


def vadd(
    x: Operand, y: Operand, mask: Any = None, saturate: bool = False, out_sign: Optional[str] = None, r: Any = None
) -> Lanes:
    a, b = _pair(x, y)
    dtype = _out_dtype(a.dtype, out_sign)
    return _with_r(_arithmetic(a, b, lambda p, q: p + q, dtype, saturate), dtype, mask, r)


def vsub(
    x: Operand, y: Operand, mask: Any = None, saturate: bool = False, out_sign: Optional[str] = None, r: Any = None
) -> Lanes:
    a, b = _pair(x, y)
    dtype = _out_dtype(a.dtype, out_sign)
    return _with_r(_arithmetic(a, b, lambda p, q: p - q, dtype, saturate), dtype, mask, r)


def vmul(x: Operand, y: Operand, mask: Any = None, out_sign: Optional[str] = None, r: Any = None) -> Lanes:
    a, b = _pair(x, y)
    dtype = _out_dtype(a.dtype, out_sign)
    return _with_r(_arithmetic(a, b, lambda p, q: p * q, dtype), dtype, mask, r)


def _truncated_quotient(a: int, b: int) -> int:
    if b == 0:
        return 0
    quotient = builtins.abs(a) // builtins.abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def vdiv(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    a, b = _pair(x, y)
    if is_float(a.dtype):
        with np.errstate(all="ignore"):
            return _finish(rounded(a.values / b.values, a.dtype), a.dtype, mask)
    return _finish(
        clamped([_truncated_quotient(int(p), int(q)) for p, q in zip(a.values, b.values)], a.dtype), a.dtype, mask
    )


def vmod(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    a, b = _pair(x, y)
    rest = [0 if q == 0 else int(p) - _truncated_quotient(int(p), int(q)) * int(q) for p, q in zip(a.values, b.values)]
    return _finish(wrapped(rest, a.dtype), a.dtype, mask)


def abs(x: Lanes, mask: Any = None, saturate: bool = False) -> Lanes:
    if is_float(x.dtype):
        return _finish(np.abs(x.values), x.dtype, mask)
    magnitudes = [builtins.abs(int(v)) for v in x.values]
    return _finish(clamped(magnitudes, x.dtype) if saturate else wrapped(magnitudes, x.dtype), x.dtype, mask)


def clip(x: Lanes, min_val: Operand, max_val: Operand, mask: Any = None) -> Lanes:
    if is_int(x.dtype):
        bounds = [clamped([b], x.dtype)[0] if isinstance(b, int) else lift(b, x).values for b in (min_val, max_val)]
        return _finish(np.maximum(np.minimum(x.values, bounds[1]), bounds[0]), x.dtype, mask, x.values)
    low, high = lift(min_val, x).values, lift(max_val, x).values
    with np.errstate(all="ignore"):
        raised = np.where(x.values < low, low, x.values)
        return _finish(np.where(raised > high, high, raised), x.dtype, mask, x.values)


def fma(acc: Operand, x: Operand, y: Operand, mask: Any = None) -> Lanes:
    like = next(v for v in (acc, x, y) if isinstance(v, Lanes) and not v.scalar)
    c, a, b = (lift(v, like) for v in (acc, x, y))
    return _finish(
        np.array([_fused(p, q, s) for p, q, s in zip(a.values, b.values, c.values)], np.float32),
        "float32",
        mask,
        c.values,
    )


def _fused(x: np.float32, y: np.float32, acc: np.float32) -> np.float32:
    """x * y + acc rounded once, exactly."""
    if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(acc)):
        with np.errstate(all="ignore"):
            return np.float32(np.float64(x) * np.float64(y) + np.float64(acc))
    from fractions import Fraction

    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(acc))
    if exact == 0:
        return np.float32(np.float64(x) * np.float64(y) + np.float64(acc))
    # To odd in double first: then the rounding to float32 is the only one.
    near = np.float64(exact.numerator / exact.denominator)
    difference = exact - Fraction(float(near))
    if difference != 0 and not int(near.view(np.int64)) & 1:
        near = np.nextafter(near, np.float64(math.inf if difference > 0 else -math.inf))
    with np.errstate(over="ignore"):
        return np.float32(near)


def rint(x: Lanes, mask: Any = None) -> Lanes:
    return _finish(np.rint(x.values), x.dtype, mask)


def _widening(x: Operand, y: Operand, high: bool, mask: Any, out_sign: Optional[str], r: Any) -> Lanes:
    a, b = _pair(x, y)
    half = len(a) // 2
    first = half if high else 0
    products = [int(p) * int(q) for p, q in zip(a.values[first : first + half], b.values[first : first + half])]
    active = mask_lanes(mask, len(a))[first : first + half]
    signed = is_signed(_out_dtype(a.dtype, out_sign))
    if bits_of(a.dtype) == 32:
        words = [(p >> shift) & 0xFFFFFFFF for p in products for shift in (0, 32)]
        dtype = with_sign("int32", signed)
        return _with_r(wrapped(words, dtype), dtype, None if mask is None else np.repeat(active, 2), r)
    dtype = with_sign(f"int{2 * bits_of(a.dtype)}", signed)
    return _with_r(wrapped(products, dtype), dtype, None if mask is None else active, r)


def vmull(x: Operand, y: Operand, mask: Any = None, out_sign: Optional[str] = None, r: Any = None) -> Lanes:
    return _widening(x, y, False, mask, out_sign, r)


def vmulh(x: Operand, y: Operand, mask: Any = None, out_sign: Optional[str] = None, r: Any = None) -> Lanes:
    return _widening(x, y, True, mask, out_sign, r)


def _pairwise(x: Operand, y: Operand, op: Callable[[int, int], int]) -> Lanes:
    a, b = _pair(x, y)
    both = [int(v) for v in (*a.values, *b.values)]
    return Lanes(clamped([op(both[i], both[i + 1]) for i in range(0, len(both), 2)], a.dtype), a.dtype)


def vaddh(x: Operand, y: Operand) -> Lanes:
    return _pairwise(x, y, lambda p, q: p + q)


def vsubh(x: Operand, y: Operand) -> Lanes:
    return _pairwise(x, y, lambda p, q: p - q)


def vmaxh(x: Operand, y: Operand) -> Lanes:
    return _pairwise(x, y, lambda p, q: p if p > q else q)


def vminh(x: Operand, y: Operand) -> Lanes:
    return _pairwise(x, y, lambda p, q: p if p < q else q)


def _even_odd(acc: Lanes, x: Lanes, y: Lanes, odd: int, mask: Any) -> Lanes:
    with np.errstate(all="ignore"):
        product = x.values[odd::2].astype(np.float32) * y.values[odd::2].astype(np.float32)
        return _finish((acc.values + product).astype(np.float32), "float32", mask, acc.values)


def vfmae(acc: Lanes, x: Lanes, y: Lanes, mask: Any = None) -> Lanes:
    return _even_odd(acc, x, y, 0, mask)


def vfmao(acc: Lanes, x: Lanes, y: Lanes, mask: Any = None) -> Lanes:
    return _even_odd(acc, x, y, 1, mask)


# --- dot products and reductions ---


def _dot(x: Lanes, y: Lanes, group: int, mask: Any, acc: Optional[Lanes]) -> Lanes:
    active = mask_lanes(mask, len(x))
    grouped = active.reshape(-1, group)
    if is_float(x.dtype):
        with np.errstate(all="ignore"):
            products = np.where(active, x.values.astype(np.float64) * y.values.astype(np.float64), 0.0).reshape(
                -1, group
            )
            start = 0.0 if acc is None else acc.values[::2].astype(np.float64)
            sums = (products.sum(axis=1) + start).astype(np.float32)
        values = np.zeros(2 * len(sums), np.float32) if acc is None else acc.values.copy()
        values[::2] = sums
        defined = np.zeros(len(values), bool) if acc is None else np.ones(len(values), bool)
        defined[::2] = True if acc is not None else grouped.any(axis=1)
        return Lanes(values, "float32", defined)
    bits = 2 * bits_of(x.dtype) if group == 2 else 32
    dtype = acc.dtype if acc is not None else with_sign(f"int{bits}", is_signed(x.dtype) or is_signed(y.dtype))
    products = [int(p) * int(q) if on else 0 for p, q, on in zip(x.values, y.values, active)]
    sums = [sum(products[i : i + group]) for i in range(0, len(products), group)]
    if acc is not None:
        return Lanes(clamped([int(a) + s for a, s in zip(acc.values, sums)], dtype), dtype)
    return Lanes(clamped(sums, dtype), dtype, grouped.any(axis=1))


def vdot(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    return _dot(*_pair(x, y), 2, mask, None)


def vqdot(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    return _dot(*_pair(x, y), 4, mask, None)


def vdpa(acc: Lanes, x: Operand, y: Operand, mask: Any = None) -> Lanes:
    return _dot(*_pair(x, y), 2, mask, acc)


def vqdpa(acc: Lanes, x: Operand, y: Operand, mask: Any = None) -> Lanes:
    return _dot(*_pair(x, y), 4, mask, acc)


def _in_lane_0(value: Any, lanes: int, dtype: str) -> Lanes:
    values = np.zeros(lanes, np.float32 if is_float(dtype) else np.int64)
    values[0] = value
    return Lanes(values, dtype, np.arange(lanes) == 0)


def vrpadd(x: Lanes, mask: Any = None) -> Lanes:
    active = x.values[mask_lanes(mask, len(x))]
    if is_int(x.dtype):
        return _in_lane_0(wrapped([sum(int(v) for v in active)], x.dtype)[0], len(x), x.dtype)
    with np.errstate(all="ignore"):
        total = np.float32(active.astype(np.float64).sum())
    return _in_lane_0(total, len(x) // (1 if x.dtype == "float32" else 2), "float32")


def _extremum(x: Lanes, mask: Any, op: Callable[[np.ndarray], Any]) -> Lanes:
    active = x.values[mask_lanes(mask, len(x))]
    if len(active) == 0:
        return Lanes(x.values, x.dtype, np.zeros(len(x), bool))
    return _in_lane_0(op(active), len(x), x.dtype)


def vrpmax(x: Lanes, mask: Any = None, return_idx: bool = False) -> Lanes:
    return _extremum(x, mask, np.max)


def vrpmin(x: Lanes, mask: Any = None, return_idx: bool = False) -> Lanes:
    return _extremum(x, mask, np.min)


# --- bits ---


def _bitwise(x: Operand, y: Operand, op: Callable[[Any, Any], Any], mask: Any) -> Lanes:
    if isinstance(x, Lanes) and x.dtype == "bool":
        return _finish(op(x.values, y.values).astype(bool), "bool", mask, False)
    a, b = _pair(x, y)
    return _finish(wrapped(op(a.values, b.values), a.dtype), a.dtype, mask)


def vand(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    return _bitwise(x, y, lambda p, q: p & q, mask)


def vor(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    return _bitwise(x, y, lambda p, q: p | q, mask)


def vxor(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    return _bitwise(x, y, lambda p, q: p ^ q, mask)


def vinv(x: Lanes, mask: Any = None) -> Lanes:
    if x.dtype == "bool":
        return _finish(~x.values, "bool", mask, False)
    return _finish(wrapped(~x.values, x.dtype), x.dtype, mask)


def vall(mask: Lanes) -> Lanes:
    return Lanes(np.array([mask.values.all()]), "bool", scalar=True)


def vany(mask: Lanes) -> Lanes:
    return Lanes(np.array([mask.values.any()]), "bool", scalar=True)


def _scalar_shift(x: Lanes, shift: Operand, op: Callable[[int, int], int]) -> Lanes:
    """A scalar of less than 32 bits is shifted as one of 32; the count is taken modulo 32."""
    count = int(shift.values[0] if isinstance(shift, Lanes) else shift) % 32
    return Lanes(wrapped([op(int(x.values[0]), count)], x.dtype), x.dtype, scalar=True)


def _counts(x: Lanes, shift: Operand) -> List[int]:
    """Shift counts, read as unsigned."""
    if isinstance(shift, Lanes) and not shift.scalar:
        values = shift.values
    else:
        number = shift.values[0] if isinstance(shift, Lanes) else shift
        values = np.full(len(x), number)
    return [int(v) % (1 << bits_of(x.dtype)) for v in values]


def _shifted_right(value: int, count: int, with_round: bool) -> int:
    if not with_round:
        return value >> builtins.min(count, 128)
    if count > 128:
        return 0
    from fractions import Fraction

    return round(Fraction(value, 1 << count))  # ties to even


def vsl(x: Lanes, shift: Operand, mask: Any = None, saturate: bool = False, r: Any = None) -> Lanes:
    exact = [int(v) << builtins.min(c, 128) for v, c in zip(x.values, _counts(x, shift))]
    return _with_r(clamped(exact, x.dtype) if saturate else wrapped(exact, x.dtype), x.dtype, mask, r)


def vsr(x: Lanes, shift: Operand, mask: Any = None, with_round: bool = False, r: Any = None) -> Lanes:
    values = [_shifted_right(int(v), c, with_round) for v, c in zip(x.values, _counts(x, shift))]
    return _with_r(wrapped(values, x.dtype), x.dtype, mask, r)


def vror(x: Lanes, shift: Operand, mask: Any = None) -> Lanes:
    bits = bits_of(x.dtype)
    patterns = [int(v) % (1 << bits) for v in x.values]
    turned = [(p >> c % bits) | (p << (bits - c % bits)) for p, c in zip(patterns, _counts(x, shift))]
    return _finish(wrapped(turned, x.dtype), x.dtype, mask)


def vnsr(
    x: Lanes,
    shift: Operand,
    mask: Any = None,
    saturate: bool = False,
    out_sign: Optional[str] = None,
    with_round: bool = False,
    to_h: bool = False,
) -> Lanes:
    dtype = with_sign("int16" if to_h else "int8", is_signed(_out_dtype(x.dtype, out_sign)))
    quotients = [_shifted_right(int(v), c, with_round) for v, c in zip(x.values, _counts(x, shift))]
    narrow = clamped(quotients, dtype) if saturate else wrapped(quotients, dtype)
    step = bits_of(x.dtype) // bits_of(dtype)
    values = np.zeros(len(x) * step, np.int64)
    values[::step] = np.where(mask_lanes(mask, len(x)), narrow, 0)
    return Lanes(values, dtype)


def vnsrsr(x: Lanes, shift: Operand, mask: Any = None, out_sign: Optional[str] = None, to_h: bool = False) -> Lanes:
    return vnsr(x, shift, mask, True, out_sign, True, to_h)


def _leading_zeros(value: int, bits: int) -> int:
    return bits - (value % (1 << bits)).bit_length()


def vcls(x: Lanes, mask: Any = None, out_sign: Optional[str] = None) -> Lanes:
    bits = bits_of(x.dtype)
    values = [_leading_zeros(int(v) if v >= 0 else ~int(v), bits) - 1 for v in x.values]
    return _finish(np.array(values, np.int64), _out_dtype(x.dtype, out_sign), mask)


def clz(x: Lanes, mask: Any = None) -> Lanes:
    return _finish(np.array([_leading_zeros(int(v), bits_of(x.dtype)) for v in x.values], np.int64), x.dtype, mask)


def vbrevs(x: Lanes, mask: Any = None) -> Lanes:
    bits = bits_of(x.dtype)
    turned = [int(format(int(v) % (1 << bits), f"0{bits}b")[::-1], 2) for v in x.values]
    return _finish(wrapped(turned, x.dtype), x.dtype, mask)


def vpcnt(x: Lanes, mask: Any = None, out_sign: Optional[str] = None) -> Lanes:
    bits = bits_of(x.dtype)
    return _finish(
        np.array([bin(int(v) % (1 << bits)).count("1") for v in x.values], np.int64),
        _out_dtype(x.dtype, out_sign),
        mask,
    )


# --- comparisons ---


def _compare(x: Operand, y: Operand, op: Callable[[Any, Any], Any], mask: Any) -> Lanes:
    a, b = _pair(x, y)
    return _finish(op(a.values, b.values), "bool", mask, False)


def vceq(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    return _compare(x, y, lambda p, q: p == q, mask)


def vcneq(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    return _compare(x, y, lambda p, q: p != q, mask)


def vcge(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    return _compare(x, y, lambda p, q: p >= q, mask)


def vcgt(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    return _compare(x, y, lambda p, q: p > q, mask)


def vcle(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    return _compare(x, y, lambda p, q: p <= q, mask)


def vclt(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    return _compare(x, y, lambda p, q: p < q, mask)


def isnan(x: Lanes, mask: Any = None) -> Lanes:
    return _finish(np.isnan(x.values), "bool", mask, False)


def isinf(x: Lanes, mask: Any = None) -> Lanes:
    return _finish(np.isinf(x.values), "bool", mask, False)


def isfinite(x: Lanes, mask: Any = None) -> Lanes:
    return _finish(np.isfinite(x.values), "bool", mask, False)


def max(x: Operand, y: Operand, mask: Any = None, r: Any = None) -> Lanes:
    a, b = _pair(x, y)
    return _with_r(np.fmax(a.values, b.values), a.dtype, mask, r)  # of NaN and a number the number, as on the device


def min(x: Operand, y: Operand, mask: Any = None, r: Any = None) -> Lanes:
    a, b = _pair(x, y)
    return _with_r(np.fmin(a.values, b.values), a.dtype, mask, r)


# --- conversion ---

_PARTS = ("all", "low", "high", "even", "odd")


def _float_to_int(values: np.ndarray, dtype: str) -> np.ndarray:
    exact = np.where(np.isnan(values), 0.0, values.astype(np.float64))
    return wrapped(np.trunc(np.clip(exact, -(2.0**31), 2.0**31 - 1)).astype(np.int64), dtype)


def _converted(values: np.ndarray, source: str, target: str, saturate: Optional[bool]) -> np.ndarray:
    if is_float(target):
        return rounded(values.astype(np.float32) if is_int(source) else values, target)
    if is_float(source):
        return _float_to_int(values, target)
    return clamped(values, target) if saturate else wrapped(values, target)


def cast(x: Any, dtype: str, part: str = "all", saturate: Optional[bool] = None) -> Lanes:
    element, _, given = dtype.partition("x")
    if isinstance(x, (tuple, list)):
        values = np.concatenate([_converted(v.values, v.dtype, element, saturate) for v in x])
        lanes = int(given) if given else len(x[0]) * bits_of(x[0].dtype) // bits_of(element)
        padded = np.zeros(lanes, values.dtype)
        padded[: len(values)] = values
        return Lanes(padded, element, np.arange(lanes) < len(values))
    n = len(x)
    chosen = {
        "all": x.values,
        "low": x.values[: n // 2],
        "high": x.values[n // 2 :],
        "even": x.values[::2],
        "odd": x.values[1::2],
        "ll": x.values[: n // 4],
        "lh": x.values[n // 4 : n // 2],
        "hl": x.values[n // 2 : n // 4 * 3],
        "hh": x.values[n // 4 * 3 :],
    }[part]
    values = _converted(chosen, x.dtype, element, saturate)
    if given and int(given) > len(values):
        padded = np.zeros(int(given), values.dtype)
        padded[: len(values)] = values
        return Lanes(padded, element, np.arange(int(given)) < len(values))
    return Lanes(values, element, scalar=x.scalar)


def i(x: Lanes) -> Lanes:
    return Lanes(wrapped(x.values, with_sign(x.dtype, True)), with_sign(x.dtype, True), scalar=x.scalar)


def u(x: Lanes) -> Lanes:
    return Lanes(wrapped(x.values, with_sign(x.dtype, False)), with_sign(x.dtype, False), scalar=x.scalar)


def reinterpret(x: Lanes, dtype: str) -> Lanes:
    return from_memory(x.to_bytes(), dtype.partition("x")[0], scalar=x.scalar)


def _extended(x: Lanes, values: np.ndarray) -> Lanes:
    return Lanes(values, with_sign(f"int{2 * bits_of(x.dtype)}", is_signed(x.dtype)))


def vxtl(x: Lanes) -> Lanes:
    return _extended(x, x.values[: len(x) // 2])


def vxth(x: Lanes) -> Lanes:
    return _extended(x, x.values[len(x) // 2 :])


# --- permutations and masks ---


def _part(values: np.ndarray, part: str) -> np.ndarray:
    half = len(values) // 2
    return {"all": values, "low": values[:half], "high": values[half:], "even": values[::2], "odd": values[1::2]}[part]


def vconcat(inps: Sequence[Any], part: str = "all") -> Lanes:
    like = next(v for v in inps if isinstance(v, Lanes) and not v.scalar)
    lifted = [lift(v, like) for v in inps]
    return Lanes(np.concatenate([_part(v.values, part) for v in lifted]), like.dtype)


def vzip(x: Operand, y: Operand, part: str = "all") -> Lanes:
    a, b = (x, y) if isinstance(x, Lanes) and x.dtype == "bool" else _pair(x, y)
    return Lanes(np.stack([_part(a.values, part), _part(b.values, part)], axis=1).reshape(-1), a.dtype)


def vsplit(x: Lanes) -> Tuple[Lanes, ...]:
    lanes = 256 // bits_of(x.dtype)
    return tuple(Lanes(x.values[k : k + lanes], x.dtype) for k in range(0, len(x), lanes))


def vcompt(x: Lanes, mask: Any) -> Lanes:
    kept = x.values[mask_lanes(mask, len(x))]
    return Lanes(np.concatenate([kept, np.zeros(len(x) - len(kept), x.values.dtype)]), x.dtype)


def vcompc(x: Operand, y: Operand, mask: Any) -> Lanes:
    a, b = _pair(x, y)
    kept = a.values[mask_lanes(mask, len(a))]
    return Lanes(np.concatenate([kept, b.values[: len(a) - len(kept)]]), a.dtype)


def vrevs(x: Lanes) -> Lanes:
    return Lanes(x.values[::-1].copy(), x.dtype)


def vsel(x: Operand, y: Operand, mask: Any = None) -> Lanes:
    a, b = (x, y) if isinstance(x, Lanes) and x.dtype == "bool" else _pair(x, y)
    return Lanes(np.where(mask_lanes(mask, len(a)), a.values, b.values), a.dtype)


def vshfl(x: Lanes, shift: Operand) -> Lanes:
    count = int(shift.values[0]) if isinstance(shift, Lanes) else shift
    return Lanes(np.roll(x.values, -count), x.dtype)


def vbcast(x: Lanes, mask: Any = None, lanes: Optional[int] = None) -> Lanes:
    return _finish(np.full(lanes or 256 // bits_of(x.dtype), x.values[0]), x.dtype, mask)


def vsldl(x: Operand, y: Operand, shift: int) -> Lanes:
    a, b = _pair(x, y)
    return Lanes(np.concatenate([a.values, b.values])[shift : shift + len(a)], a.dtype)


def vtbl(table: Sequence[Lanes], indices: Lanes) -> Lanes:
    whole = np.concatenate([v.values for v in table])
    return Lanes(
        np.array([whole[k] if 0 <= k < len(whole) else 0 for k in indices.values], whole.dtype), table[0].dtype
    )


def vreplic(x: Lanes, index: Operand = 0) -> Lanes:
    lane = int(index.values[0]) if isinstance(index, Lanes) else index
    return Lanes(np.full(len(x), x.values[lane]), x.dtype)


def const_mask(x: Any) -> Lanes:
    given = mask_of_text(x) if isinstance(x, str) else list(x)
    if isinstance(x, str):
        given += [False] * (len(x) - len(given))
    return Lanes(np.array(given, bool), "bool")


def tail_mask(n: Operand, lanes: int) -> Lanes:
    count = int(n.values[0]) if isinstance(n, Lanes) else n
    return Lanes(np.arange(lanes) < count, "bool")


# --- mathematics, in double and rounded once; compared with a tolerance ---


def _math(x: Lanes, function: Callable[[np.ndarray], np.ndarray]) -> Lanes:
    with np.errstate(all="ignore"):
        return Lanes(rounded(function(x.values.astype(np.float64)), x.dtype), x.dtype, scalar=x.scalar)


def exp(x: Lanes) -> Lanes:
    def function(v: np.ndarray) -> np.ndarray:
        result = np.exp(v)
        result = np.where(v < -87.33654, 0.0, result)
        return np.where(v >= 88.7228390, np.inf, result)

    return _math(x, function)


def exp2(x: Lanes) -> Lanes:
    return _math(x, np.exp2)


def log(x: Lanes) -> Lanes:
    return _math(x, np.log)


def tanh(x: Lanes) -> Lanes:
    return _math(x, np.tanh)


def sin(x: Lanes) -> Lanes:
    return _math(x, np.sin)


def cos(x: Lanes) -> Lanes:
    return _math(x, np.cos)


def sqrt(x: Lanes) -> Lanes:
    return _math(x, np.sqrt)


def rsqrt(x: Lanes) -> Lanes:
    def function(v: np.ndarray) -> np.ndarray:
        return np.where((v == 0) | (v == -np.inf), 1 / np.sqrt(v), np.sqrt(1 / v))

    return _math(x, function)


def floor(x: Lanes) -> Lanes:
    return _math(x, np.floor)


def ceil(x: Lanes) -> Lanes:
    return _math(x, np.ceil)


def erf(x: Lanes) -> Lanes:
    return _math(x, np.vectorize(math.erf, otypes=[np.float64]))


def pow(x: Operand, exponent: Operand) -> Lanes:
    a, b = _pair(x, exponent)
    with np.errstate(all="ignore"):
        return Lanes(
            rounded(np.power(a.values.astype(np.float64), b.values.astype(np.float64)), a.dtype),
            a.dtype,
            scalar=a.scalar,
        )


def ceildiv(x: Lanes, y: Lanes) -> Lanes:
    total = wrapped([int(x.values[0]) + int(y.values[0]) - 1], x.dtype)[0]
    return Lanes(wrapped([_truncated_quotient(int(total), int(y.values[0]))], x.dtype), x.dtype, scalar=True)
