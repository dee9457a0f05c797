"""Values of PySim: NumPy lanes with a type, and the road to their C++ definition (``aipu._native``)."""

from __future__ import annotations

import functools
import os
from typing import Any, Iterator, Optional, Tuple, Union

import numpy as np

from .. import _native
from .._dtype import DataType, resolve_dtype_alias

Number = Union[bool, int, float]

_OPERATORS = _native.BINARY_OPERATORS
_ELEMENT_MASK = 0xFF
_BOOL_CODE = _native.type_code("bool") & _ELEMENT_MASK
_LANES_SHIFT = 32

UNDEFINED = _native.UNDEFINED_LANES
# Undefined lanes and fresh memory hold these bytes, the same for the whole process.
FILLER = os.urandom(61)
_native.set_undefined_lanes(FILLER)


@functools.lru_cache(maxsize=None)
def code_of(dtype: DataType) -> int:
    """The number by which C++ knows a value type. ValueError for types that values cannot have."""
    code = _native.type_code(str(dtype))
    if code is None:
        raise ValueError(f'The data type "{dtype}" is not supported.')
    return code


@functools.lru_cache(maxsize=None)
def pointer_code(dtype: DataType, scope: str) -> int:
    """The number by which C++ knows a pointer type."""
    code = _native.type_code(str(dtype), True, _native.SCOPES[scope])
    if code is None:
        raise ValueError(f'The data type "{dtype}" is not supported.')
    return code


@functools.lru_cache(maxsize=None)
def dtype_of(code: int) -> DataType:
    """The type behind a number of ``code_of``."""
    return DataType(_native.type_text(code))


@functools.lru_cache(maxsize=None)
def lane_dtype(element: str) -> np.dtype:
    """The NumPy dtype in which lanes of an element type are held; bfloat16 as its bits."""
    return np.dtype("uint16" if element == "bfloat16" else element)


def resolve_type(dtype: Any) -> DataType:
    """A type from a name with aliases, a ``DataType``, a NumPy dtype or a type object of this module."""
    return resolve_dtype_alias(getattr(dtype, "dtype", dtype) if not isinstance(dtype, (str, np.dtype)) else dtype)


def _float_lanes(dtype: DataType, data: np.ndarray) -> np.ndarray:
    """The lanes as numbers: bfloat16 as float32, everything else unchanged."""
    if not dtype.is_bfloat:
        return data
    return (data.astype(np.uint32) << 16).view(np.float32)


class Value:
    """A scalar or a vector of the Compass DSL while a kernel runs as Python.

    Operators follow the matching rules of the language and wrap like the device does. ``numpy()`` shows the lanes.
    """

    __slots__ = ("_code", "_data")
    __array_ufunc__ = None  # NumPy scalars leave operators to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, code: int, data: np.ndarray) -> None:
        self._code = code
        self._data = data

    @property
    def dtype(self) -> DataType:
        """The type of the value, lanes included."""
        return dtype_of(self._code)

    @property
    def addr(self) -> Any:
        """A private pointer to the variable that holds this value."""
        from ._pointer import Pointer

        return Pointer(self._data.view(np.uint8), 0, self.dtype, "private")

    def numpy(self) -> np.ndarray:
        """A copy of the lanes as NumPy sees them; bfloat16 as float32."""
        return _float_lanes(self.dtype, self._data).copy()

    def __add__(self, other: Any) -> "Value":
        return binary("+", self, other)

    def __radd__(self, other: Any) -> "Value":
        return binary("+", other, self)

    def __sub__(self, other: Any) -> "Value":
        return binary("-", self, other)

    def __rsub__(self, other: Any) -> "Value":
        return binary("-", other, self)

    def __mul__(self, other: Any) -> "Value":
        return binary("*", self, other)

    def __rmul__(self, other: Any) -> "Value":
        return binary("*", other, self)

    def __truediv__(self, other: Any) -> "Value":
        return binary("/", self, other)

    def __rtruediv__(self, other: Any) -> "Value":
        return binary("/", other, self)

    def __floordiv__(self, other: Any) -> "Value":
        return _integer_division(self, other)

    def __rfloordiv__(self, other: Any) -> "Value":
        return _integer_division(other, self)

    def __mod__(self, other: Any) -> "Value":
        return binary("%", self, other)

    def __rmod__(self, other: Any) -> "Value":
        return binary("%", other, self)

    def __pow__(self, other: Any) -> "Value":
        return power(self, other)

    def __rpow__(self, other: Any) -> "Value":
        return power(other, self)

    def __lshift__(self, other: Any) -> "Value":
        return binary("<<", self, other)

    def __rlshift__(self, other: Any) -> "Value":
        return binary("<<", other, self)

    def __rshift__(self, other: Any) -> "Value":
        return binary(">>", self, other)

    def __rrshift__(self, other: Any) -> "Value":
        return binary(">>", other, self)

    def __and__(self, other: Any) -> "Value":
        return binary("&", self, other)

    def __rand__(self, other: Any) -> "Value":
        return binary("&", other, self)

    def __or__(self, other: Any) -> "Value":
        return binary("|", self, other)

    def __ror__(self, other: Any) -> "Value":
        return binary("|", other, self)

    def __xor__(self, other: Any) -> "Value":
        return binary("^", self, other)

    def __rxor__(self, other: Any) -> "Value":
        return binary("^", other, self)

    def __neg__(self) -> "Value":
        return binary("*", self, -1)

    def __pos__(self) -> "Value":
        return self

    def __invert__(self) -> "Value":
        return wrap(_native.invert(self))

    def __eq__(self, other: Any) -> Any:
        return _compare("==", self, other)

    def __ne__(self, other: Any) -> Any:
        return _compare("!=", self, other)

    def __lt__(self, other: Any) -> Any:
        return _compare("<", self, other)

    def __le__(self, other: Any) -> Any:
        return _compare("<=", self, other)

    def __gt__(self, other: Any) -> Any:
        return _compare(">", self, other)

    def __ge__(self, other: Any) -> Any:
        return _compare(">=", self, other)


class Scalar(Value):
    """A scalar number. Bool scalars are Python bools."""

    __slots__ = ()

    def item(self) -> Number:
        """The number as Python's own."""
        return _float_lanes(self.dtype, self._data).item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise TypeError("All indices should be integer type, please convert it explicitly.")
        return self._data.item()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self.item())

    def __repr__(self) -> str:
        return f"{self.dtype}({self.item()})"

    def __str__(self) -> str:
        return str(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec)


class Vector(Value):
    """A vector or, with bool lanes, a mask."""

    __slots__ = ()

    def __len__(self) -> int:
        return self._code >> _LANES_SHIFT

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def _lane(self, index: Any) -> int:
        if isinstance(index, (bool, np.bool_)) or not hasattr(index, "__index__"):
            raise AssertionError("The index value must be a scalar integer.")
        lane = index.__index__()
        if not 0 <= lane < len(self):
            raise IndexError(f"Lane {lane} of a vector of {len(self)} lanes.")
        return lane

    def __getitem__(self, index: Any) -> Any:
        lane = self._lane(index)
        return wrap((self._code & _ELEMENT_MASK | 1 << _LANES_SHIFT, self._data[lane : lane + 1].copy()))

    def __setitem__(self, index: Any, value: Any) -> None:
        lane = self._lane(index)
        if isinstance(value, Vector):
            raise AssertionError("A lane expect a scalar.")
        self._data[lane : lane + 1] = _native.convert(value, self._code & _ELEMENT_MASK | 1 << _LANES_SHIFT)

    def __bool__(self) -> bool:
        raise TypeError("The condition required to be a scalar expression. Between vectors please use & and | instead.")

    def __repr__(self) -> str:
        return f"{self.dtype}({_float_lanes(self.dtype, self._data).tolist()})"


def wrap(result: Tuple[int, np.ndarray]) -> Any:
    """A value from (code, lanes) as C++ gives it. Scalar bools become Python's."""
    code, data = result
    if code >> _LANES_SHIFT != 1:
        return Vector(code, data)
    if code & _ELEMENT_MASK == _BOOL_CODE:
        return bool(data[0])
    return Scalar(code, data)


def binary(op: str, x: Any, y: Any) -> Any:
    """``x op y``, matched and computed in C++; NotImplemented for operands that are no values."""
    if not _is_operand(x) or not _is_operand(y):
        return NotImplemented
    return wrap(_native.binary(_OPERATORS[op], x, y))


def _compare(op: str, x: Any, y: Any) -> Any:
    if not _is_operand(y):
        return NotImplemented
    return wrap(_native.binary(_OPERATORS[op], x, y))


def _integer_division(x: Any, y: Any) -> Any:
    for operand in (x, y):
        if isinstance(operand, float) or (isinstance(operand, Value) and operand.dtype.is_floating):
            raise AssertionError("The operands of '//' must be integers.")
    return binary("/", x, y)


def _is_operand(x: Any) -> bool:
    return isinstance(x, (Value, int, float, np.generic))


def _element(x: Any) -> Any:
    """What the matching rules see of an operand."""
    if isinstance(x, Value):
        return x.dtype.element_of
    return DataType(x.dtype) if isinstance(x, np.generic) else x


def power(x: Any, exponent: Any) -> Any:
    """``x ** exponent`` with the operand matching of operators."""
    from .._dtype import get_binary_op_result_type

    if not _is_operand(x) or not _is_operand(exponent):
        return NotImplemented
    element = get_binary_op_result_type(_element(x), _element(exponent))
    if not element.is_floating:
        raise AssertionError("power only applies to floating")
    lanes = max(operand.dtype.lanes if isinstance(operand, Value) else 1 for operand in (x, exponent))
    code = code_of(element.with_lanes(lanes))
    return call("pow", tuple(Vector(code, _native.convert(v, code)) for v in (x, exponent)))


def convert(value: Any, dtype: DataType) -> Any:
    """A number or value as ``dtype``, as a store converts; scalars are broadcast to vectors."""
    code = code_of(dtype)
    return wrap((code, _native.convert(value, code)))


def call(
    name: str,
    operands: Tuple[Any, ...],
    mask: Any = None,
    r: Any = None,
    attributes: Tuple[Tuple[str, int], ...] = (),
    undefined: int = 0,
) -> Any:
    """Calls a row of the intrinsic table.

    ``undefined`` (see ``UNDEFINED``) names lanes that the language leaves open.
    """
    result = _native.call_intrinsic(name, operands, mask_operand(mask), r, attributes, undefined)
    return None if result is None else wrap(result)


@functools.lru_cache(maxsize=1024)
def _mask_of_text(text: str) -> np.ndarray:
    bits = _native.mask_bits(text)
    if bits is None:
        raise AssertionError(f'The arg "mask" is not a valid mask string: "{text}".')
    return bits


def mask_operand(mask: Any) -> Optional[Any]:
    """A mask in any of its forms (None, bools, string, NumPy array, mask value) as C++ takes it."""
    if mask is None or isinstance(mask, Vector):
        return mask
    if isinstance(mask, str):
        return _mask_of_text(mask)
    if isinstance(mask, (np.ndarray, tuple, list)) and len(mask) == 0:
        return np.zeros(1, dtype=np.bool_)  # what is missing is off
    if isinstance(mask, np.ndarray):
        if mask.ndim != 1 or mask.dtype != np.bool_:
            raise AssertionError('All elements of arg "mask" expect "True" or "False".')
        return mask
    if isinstance(mask, (tuple, list)):
        if not all(isinstance(bit, (bool, np.bool_)) for bit in mask):
            raise AssertionError('All elements of arg "mask" expect "True" or "False".')
        return np.array(mask, dtype=np.bool_)
    shown = mask.dtype if isinstance(mask, Value) else type(mask).__name__
    raise AssertionError(f'The arg "mask" expect a tuple or list, but got: "{shown}".')


_OUT_SIGNS = {None: 0, "u": 1, "s": 2}


def out_sign_attribute(out_sign: Optional[str]) -> Tuple[str, int]:
    """The attribute ``out_sign`` as the table counts it."""
    if out_sign not in _OUT_SIGNS:
        raise AssertionError(f'The arg "out_sign" expect one of (None, "u", "s"), but got: "{out_sign}".')
    return ("out_sign", _OUT_SIGNS[out_sign])


_PARTS = {name: i for i, name in enumerate(("all", "low", "high", "even", "odd", "ll", "lh", "hl", "hh"))}


def part_attribute(part: str, count: int) -> Tuple[str, int]:
    """The attribute ``part``, of which the first ``count`` names are allowed."""
    index = _PARTS.get(part, count) if isinstance(part, str) else count
    if index >= count:
        names = ", ".join(f'"{name}"' for name in list(_PARTS)[:count])
        raise AssertionError(f'The arg "part" expect one of ({names}), but got: "{part}".')
    return ("part", index)


def literal_as_scalar(x: Any) -> Any:
    """A Python number as the typed scalar that the compiled kernel's variable would be; anything else unchanged."""
    if isinstance(x, bool):
        return np.bool_(x)
    if isinstance(x, int):
        return convert(x, DataType("int32"))
    if isinstance(x, float):
        return convert(x, DataType("float32"))
    return x
