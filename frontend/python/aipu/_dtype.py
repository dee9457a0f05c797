"""Element and vector types by name, and what is known about them."""

from __future__ import annotations

import functools
import re
from typing import Any, Dict, Optional, Tuple, Union

import numpy as np

try:
    import ml_dtypes as _ml_dtypes  # registers "bfloat16" with NumPy
except ImportError:
    _ml_dtypes = None

INT, UINT, FLOAT, HANDLE, BFLOAT = range(5)
_CODE_NAMES = {INT: "int", UINT: "uint", FLOAT: "float", HANDLE: "handle", BFLOAT: "bfloat"}
_PATTERN = re.compile(r"(int|uint|float|bfloat)([1-9][0-9]*)(?:x([1-9][0-9]*))?")
_BOOL_PATTERN = re.compile(r"bool(?:x([1-9][0-9]*))?")
_ALIAS_PATTERN = re.compile(r"\b(?:(i|u)(8|16|32|64)|(fp)(16|32|64)|(bf)(16))(?=x|\b)")
_ALIAS_NAMES = {"i": "int", "u": "uint", "fp": "float", "bf": "bfloat"}

DTypeLike = Union[str, type, np.dtype, Any]


@functools.lru_cache(maxsize=None)
def _parse(text: str) -> Tuple[int, int, int]:
    """(type code, bits of an element, lanes) of a type name; ValueError if it is none."""
    match = _PATTERN.fullmatch(text)
    if match:
        code = {"int": INT, "uint": UINT, "float": FLOAT, "bfloat": BFLOAT}[match[1]]
        return code, int(match[2]), int(match[3] or 1)
    match = _BOOL_PATTERN.fullmatch(text)
    if match:
        return UINT, 1, int(match[1] or 1)
    if text in ("void", ""):
        return HANDLE, 0, 0
    if text == "handle":
        return HANDLE, 64, 1
    raise ValueError(f'Unknown data type "{text}".')


def _name(code: int, bits: int, lanes: int) -> str:
    if code == UINT and bits == 1:
        base = "bool"
    elif code == HANDLE:
        return "void" if bits == 0 else "handle"
    else:
        base = f"{_CODE_NAMES[code]}{bits}"
    return base if lanes <= 1 else f"{base}x{lanes}"


def _text_of(dtype: DTypeLike) -> str:
    if isinstance(dtype, str):
        return str(dtype)
    if isinstance(dtype, type) and issubclass(dtype, (bool, np.bool_)):
        return "bool"
    if isinstance(dtype, (type, np.dtype)):
        return np.dtype(dtype).name
    inner = getattr(dtype, "dtype", None)  # a type object of `script`, an array
    if inner is not None:
        return _text_of(inner)
    raise ValueError(f'Unknown data type "{dtype}".')


class DataType(str):
    """The name of an element, vector or mask type, which is also a ``str``: ``DataType("int8x32") == "int8x32"``.

    Accepts names (``"float16x16"``), NumPy dtypes, and objects with an attribute ``dtype``. ``bits`` and ``bytes`` are
    those of one element; ``total_bits`` and ``total_bytes`` of all lanes. A bool has 1 bit and 1 byte. ValueError for
    anything that names no type. It may be given to NumPy as a dtype (bfloat16 with the package ``ml_dtypes``
    installed).
    """

    type_code: int
    bits: int
    lanes: int

    def __new__(cls, dtype: DTypeLike) -> "DataType":
        if type(dtype) is cls:
            return dtype
        return _make(_text_of(dtype))

    def __reduce__(self) -> Tuple[Any, ...]:
        return DataType, (str(self),)

    # --- sizes --------------------------------------------------------------------------------------------------------

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return (self.bits + 7) // 8

    @property
    def itemsize(self) -> int:
        """Bytes of one value of the type, all lanes included."""
        return self.total_bytes

    @property
    def total_bits(self) -> int:
        """Bits of all lanes."""
        return self.bits * self.lanes

    @property
    def total_bytes(self) -> int:
        """Bytes of all lanes."""
        return self.bytes * self.lanes

    # --- derived types ------------------------------------------------------------------------------------------------

    def _derive(
        self, code: Optional[int] = None, bits: Optional[int] = None, lanes: Optional[int] = None
    ) -> "DataType":
        return _make(
            _name(
                self.type_code if code is None else code,
                self.bits if bits is None else bits,
                self.lanes if lanes is None else lanes,
            )
        )

    @property
    def element_of(self) -> "DataType":
        """The type of one lane."""
        return self._derive(lanes=1) if self.lanes > 1 else self

    def with_lanes(self, lanes: int) -> "DataType":
        """The same element, another number of lanes."""
        return self._derive(lanes=int(lanes))

    def with_bits(self, bits: int) -> "DataType":
        """The same kind and lanes, elements of another width."""
        return self._derive(bits=int(bits))

    def with_int(self) -> "DataType":
        """The signed integer type of the same bits and lanes."""
        return self._derive(code=INT)

    def with_uint(self) -> "DataType":
        """The unsigned integer type of the same bits and lanes."""
        return self._derive(code=UINT)

    def with_type_code(self, type_code: int) -> "DataType":
        """The type of another kind (see ``type_code``) with the same bits and lanes."""
        return self._derive(code=int(type_code))

    # --- kinds --------------------------------------------------------------------------------------------------------

    @property
    def is_int(self) -> bool:
        """Signed integer."""
        return self.type_code == INT

    @property
    def is_uint(self) -> bool:
        """Unsigned integer; bool is one."""
        return self.type_code == UINT

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer or bool."""
        return self.type_code in (INT, UINT)

    @property
    def is_bool(self) -> bool:
        """Bool or mask."""
        return self.type_code == UINT and self.bits == 1

    @property
    def is_void(self) -> bool:
        """No value: the element of a ``void`` pointer."""
        return self.type_code == HANDLE and self.bits == 0

    @property
    def is_float(self) -> bool:
        """float16 or float32 (float64)."""
        return self.type_code == FLOAT

    @property
    def is_bfloat(self) -> bool:
        """bfloat16."""
        return self.type_code == BFLOAT

    @property
    def is_floating(self) -> bool:
        """Any floating type."""
        return self.type_code in (FLOAT, BFLOAT)

    @property
    def is_floating16(self) -> bool:
        """float16 or bfloat16."""
        return self.is_floating and self.bits == 16

    @property
    def is_int8(self) -> bool:
        """Elements are int8."""
        return self.type_code == INT and self.bits == 8

    @property
    def is_uint8(self) -> bool:
        """Elements are uint8."""
        return self.type_code == UINT and self.bits == 8

    @property
    def is_int16(self) -> bool:
        """Elements are int16."""
        return self.type_code == INT and self.bits == 16

    @property
    def is_uint16(self) -> bool:
        """Elements are uint16."""
        return self.type_code == UINT and self.bits == 16

    @property
    def is_int32(self) -> bool:
        """Elements are int32."""
        return self.type_code == INT and self.bits == 32

    @property
    def is_uint32(self) -> bool:
        """Elements are uint32."""
        return self.type_code == UINT and self.bits == 32

    @property
    def is_float16(self) -> bool:
        """Elements are float16."""
        return self.type_code == FLOAT and self.bits == 16

    @property
    def is_float32(self) -> bool:
        """Elements are float32."""
        return self.type_code == FLOAT and self.bits == 32

    @property
    def is_bfloat16(self) -> bool:
        """Elements are bfloat16."""
        return self.type_code == BFLOAT and self.bits == 16

    @property
    def is_scalar(self) -> bool:
        """One lane (or none: void)."""
        return self.lanes <= 1

    @property
    def is_vector(self) -> bool:
        """More than one lane."""
        return self.lanes > 1

    @property
    def is_integer_scalar(self) -> bool:
        """Scalar integer or bool."""
        return self.is_integer and self.is_scalar

    @property
    def is_float_scalar(self) -> bool:
        """Scalar float16 or float32."""
        return self.is_float and self.is_scalar

    @property
    def is_floating_scalar(self) -> bool:
        """Scalar of a floating type."""
        return self.is_floating and self.is_scalar

    @property
    def is_bfloat16_scalar(self) -> bool:
        """Scalar bfloat16."""
        return self.is_bfloat16 and self.is_scalar

    @property
    def is_integer_vector(self) -> bool:
        """Vector of integers (or a mask)."""
        return self.is_integer and self.is_vector

    @property
    def is_float_vector(self) -> bool:
        """Vector of float16 or float32."""
        return self.is_float and self.is_vector

    @property
    def is_floating16_vector(self) -> bool:
        """Vector of float16 or bfloat16."""
        return self.is_floating16 and self.is_vector

    @property
    def is_bool_vector(self) -> bool:
        """Mask."""
        return self.is_bool and self.is_vector


@functools.lru_cache(maxsize=None)
def _make(text: str) -> DataType:
    code, bits, lanes = _parse(text)
    self = str.__new__(DataType, text)
    self.type_code, self.bits, self.lanes = code, bits, lanes
    return self


def resolve_dtype_alias(dtype: DTypeLike) -> DataType:
    """The ``DataType`` of a name in which ``i8 u16 fp32 bf16 ...`` may stand for the element (``"fp16x64"``,
    ``"i32"``).
    """
    if type(dtype) is DataType:
        return dtype
    return _make(_expand(_text_of(dtype)))


@functools.lru_cache(maxsize=None)
def _expand(text: str) -> str:
    return _ALIAS_PATTERN.sub(
        lambda match: _ALIAS_NAMES[match[1] or match[3] or match[5]] + (match[2] or match[4] or match[6]), text
    )


def hw_native_vdtype(dtype: DTypeLike) -> DataType:
    """The 256-bit vector type of the element of ``dtype`` (name, alias, DataType; scalar or vector). Bool is
    refused.
    """
    element = resolve_dtype_alias(dtype).element_of
    if element.is_bool:
        raise ValueError("Does not support boolean data type.")
    if element.is_void or element.bits == 0:
        raise ValueError(f'Does not support the data type "{element}".')
    return element.with_lanes(256 // element.bits)


_FLOAT_RANGES: Dict[str, Tuple[float, float]] = {
    "float16": (-65504.0, 65504.0),
    "float32": (-3.4028234663852886e38, 3.4028234663852886e38),
    "float64": (-1.7976931348623157e308, 1.7976931348623157e308),
    "bfloat16": (-3.38953e38, 3.38953e38),
}


def get_range(dtype: DTypeLike) -> Tuple[Union[int, float], Union[int, float]]:
    """(smallest, largest) finite value of the element of a type."""
    element = resolve_dtype_alias(dtype).element_of
    if element.is_bool:
        return 0, 1
    if element.is_int:
        return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1
    if element.is_uint:
        return 0, (1 << element.bits) - 1
    if str(element) in _FLOAT_RANGES:
        return _FLOAT_RANGES[str(element)]
    raise ValueError(f'The data type "{element}" has no range.')


def double_elem_width(vdtype: DTypeLike, allow_64bit: bool = False) -> DataType:
    """Elements of twice the bits; half the lanes if the result would exceed 256 bits. 32-bit types stay unless
    ``allow_64bit``.
    """
    dtype = resolve_dtype_alias(vdtype)
    if dtype.bits >= 32 and not allow_64bit:
        return dtype
    bits = dtype.bits * 2
    lanes = dtype.lanes
    if lanes > 1 and bits * lanes > 256:
        lanes //= 2
    if dtype.is_bfloat:
        dtype = dtype.with_type_code(FLOAT)  # the only wider floating type
    return dtype._derive(bits=bits, lanes=lanes)


def half_elem_width(vdtype: DTypeLike, double_lanes: bool = True) -> DataType:
    """Elements of half the bits, and twice the lanes unless ``double_lanes`` is False."""
    dtype = resolve_dtype_alias(vdtype)
    return dtype._derive(bits=dtype.bits // 2, lanes=dtype.lanes * 2 if double_lanes else dtype.lanes)


def _operand_type(value: Any) -> Tuple[DataType, bool]:
    """(element type, is an integer literal)."""
    if isinstance(value, bool):
        return _make("bool"), False
    if isinstance(value, int):
        return _make("int32"), True
    if isinstance(value, float):
        return _make("float32"), False
    return resolve_dtype_alias(value).element_of, False


def get_binary_op_result_type(ltype: Any, rtype: Any) -> DataType:
    """The element type that both operands of a binary operator (not a shift) are converted to.

    Operands are types, type names or Python numbers. An integer literal takes the other side's type if it fits its
    range (else int32), a float literal is float32; of one kind the wider wins, floating types win over integers, of
    the same width unsigned wins.
    """
    left, left_literal = _operand_type(ltype)
    right, right_literal = _operand_type(rtype)
    if left_literal != right_literal:
        other, literal = (right, ltype) if left_literal else (left, rtype)
        if other.is_floating:
            return other
        low, high = get_range(other)
        if low <= literal <= high:
            return other
        left, right = _make("int32"), other
        return left
    if left == right:
        return left
    if left.type_code == right.type_code:
        return left if left.bits >= right.bits else right
    if left.is_floating or right.is_floating:
        if left.is_float != right.is_float:
            return left if left.is_float else right
        return left if left.is_floating else right
    if left.bits != right.bits:
        return left if left.bits > right.bits else right
    return left if left.is_uint else right
