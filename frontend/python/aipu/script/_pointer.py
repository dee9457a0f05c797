"""Memory of PySim: pointers and buffers over byte arrays."""

from __future__ import annotations

import re
from typing import Any, Optional, Sequence, Tuple

import numpy as np

from .. import _native
from .._dtype import DataType
from ._core import Value, Vector, code_of, lane_dtype, pointer_code, resolve_type, wrap


class OutOfBounds(AssertionError, IndexError):
    """An access outside of the memory behind a pointer."""


def _index(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise AssertionError("All indices should be integer type, please convert it explicitly.")
    return value.__index__()


_STORAGE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32", "bfloat16")


def _resolved(dtype: Any) -> Optional[DataType]:
    try:
        return resolve_type(dtype)
    except (ValueError, TypeError):
        return None


def pointee_type(dtype: Any) -> DataType:
    """What a pointer may point to: a storage type with any number of lanes, or ``"void"``.

    AssertionError for others.
    """
    assert dtype is not None and (not isinstance(dtype, str) or dtype), (
        'Please use "void" to explicitly represent the void pointer.'
    )
    resolved = _resolved(dtype)
    element = resolved.element_of if resolved is not None else None
    if element is None or not (element.is_void or str(element) in _STORAGE):
        shown = element if element is not None else re.sub(r"x\d+$", "", str(dtype))
        raise AssertionError(
            f'The scalar form of arg "dtype" expect one of ({", ".join((*_STORAGE, "void"))}), but got: "{shown}".'
        )
    return resolved


class _Memory:
    """What pointers and buffers share: elements of one type at a byte offset of an array."""

    __slots__ = ("_memory", "_offset", "_code", "_dtype", "_scope")

    def __init__(self, memory: Optional[np.ndarray], offset: int, dtype: DataType, scope: str) -> None:
        self._memory = memory
        self._offset = offset
        self._dtype = dtype
        self._scope = scope
        self._code = pointer_code(dtype, scope)

    @property
    def dtype(self) -> DataType:
        """The type of an element; a vector pointer's is a vector."""
        return self._dtype

    @property
    def scope(self) -> str:
        """``"global"``, ``"lsram"``, ``"shared"``, ``"private"``, ..."""
        return self._scope

    def _bytes(self) -> np.ndarray:
        if self._memory is None:
            raise AssertionError("The null pointer is accessed.")
        if self._dtype.is_void:
            raise AssertionError("Can't access data through void pointer.")
        return self._memory

    def _load(self, index: int) -> Any:
        memory, size = self._bytes(), self._dtype.total_bytes
        start = self._offset + index * size
        if start < 0 or start + size > memory.size:
            raise OutOfBounds(f"Out of bounds: element {index} of a {self._scope} pointer to {self._dtype}.")
        data = np.frombuffer(memory, lane_dtype(self._dtype.element_of), self._dtype.lanes, start).copy()
        return wrap((code_of(self._dtype), data))

    def _store(self, index: int, value: Any) -> None:
        memory, size = self._bytes(), self._dtype.total_bytes
        start = self._offset + index * size
        if start < 0 or start + size > memory.size:
            raise OutOfBounds(f"Out of bounds: element {index} of a {self._scope} pointer to {self._dtype}.")
        memory[start : start + size] = _native.convert(value, code_of(self._dtype)).view(np.uint8)

    def _strided(self, start: int, count: int, step: int) -> np.ndarray:
        """``count`` elements from ``start``, ``step`` apart: an array of shape (count, lanes of an element)."""
        memory, size = self._bytes(), self._dtype.total_bytes
        first = self._offset + start * size
        if first < 0 or first + ((count - 1) * step + 1) * size > memory.size:
            raise OutOfBounds("Out of bounds.")
        element = lane_dtype(self._dtype.element_of)
        return np.ndarray((count, self._dtype.lanes), element, memory, first, (step * size, element.itemsize))

    def _load_slice(self, start: int, count: int, step: int) -> Any:
        data = self._strided(start, count, step).reshape(-1)
        return wrap((code_of(self._dtype.with_lanes(data.size)), data.copy()))

    def _store_slice(self, start: int, count: int, step: int, value: Any) -> None:
        view = self._strided(start, count, step)
        code = code_of(self._dtype.with_lanes(view.size))
        if isinstance(value, Vector) and len(value) != view.size:
            raise AssertionError(f'Incompatible types in BufferStore: "{value.dtype}" vs. {view.size} lanes.')
        view[...] = _native.convert(value, code).reshape(view.shape)


def _slice_extent(key: slice, stop: Optional[int]) -> Tuple[int, int, int]:
    """(start, count, step) of a slice; ``stop`` is the end of the dimension, None for pointers."""
    start = 0 if key.start is None else _index(key.start)
    step = 1 if key.step is None else _index(key.step)
    if key.stop is None and stop is None:
        raise AssertionError("For accessing data through pointer, the stop of the slice must be given.")
    end = stop if key.stop is None else _index(key.stop)
    if step <= 0:
        raise AssertionError("The step of the slice must > 0 when access data through pointer.")
    if start < 0 or end <= start:
        raise AssertionError("The stop of the slice must > the start of the slice >= 0.")
    return start, -(-(end - start) // step), step


class Pointer(_Memory):
    """A typed pointer: moves by whole elements, is indexed and sliced as in the language."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def as_ptr(self, dtype: Any) -> "Pointer":
        """The same address as a pointer to another type."""
        return Pointer(self._memory, self._offset, pointee_type(dtype), self._scope)

    @property
    def is_nullptr(self) -> bool:
        """Whether this is the null pointer."""
        return self._memory is None and self._offset == 0

    def _moved(self, count: Any, sign: int) -> "Pointer":
        if self._dtype.is_void:
            raise AssertionError("The void pointer can't be moved.")
        return Pointer(
            self._memory, self._offset + sign * _index(count) * self._dtype.total_bytes, self._dtype, self._scope
        )

    def __add__(self, count: Any) -> "Pointer":
        return self._moved(count, 1)

    __radd__ = __add__

    def __sub__(self, count: Any) -> "Pointer":
        return self._moved(count, -1)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            raise AssertionError("Pointer only can be used to access 1D data.")
        if isinstance(key, slice):
            return self._load_slice(*_slice_extent(key, None))
        index = _index(key)
        if index < 0:
            raise AssertionError("The index must >= 0 when access data through pointer.")
        return self._load(index)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, tuple):
            raise AssertionError("Pointer only can be used to access 1D data.")
        if isinstance(key, slice):
            self._store_slice(*_slice_extent(key, None), value)
            return
        index = _index(key)
        if index < 0:
            raise AssertionError("The index must >= 0 when access data through pointer.")
        self._store(index, value)

    def _address(self) -> int:
        return address_of(self._memory) + self._offset

    def __eq__(self, other: Any) -> Any:
        return self._address() == other._address() if isinstance(other, Pointer) else NotImplemented

    def __ne__(self, other: Any) -> Any:
        return self._address() != other._address() if isinstance(other, Pointer) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        return self._address() < other._address() if isinstance(other, Pointer) else NotImplemented

    def __le__(self, other: Any) -> Any:
        return self._address() <= other._address() if isinstance(other, Pointer) else NotImplemented

    def __gt__(self, other: Any) -> Any:
        return self._address() > other._address() if isinstance(other, Pointer) else NotImplemented

    def __ge__(self, other: Any) -> Any:
        return self._address() >= other._address() if isinstance(other, Pointer) else NotImplemented

    def __bool__(self) -> bool:
        raise TypeError("Please check whether the pointer is null explicitly.")

    def __repr__(self) -> str:
        where = "null" if self._memory is None else f"byte {self._offset} of {self._memory.size}"
        return f"{self._scope} {self._dtype}* ({where})"


def address_of(memory: Optional[np.ndarray]) -> int:
    """The host's address of a byte array; 0 for none."""
    return 0 if memory is None else memory.__array_interface__["data"][0]


class Buffer(_Memory):
    """A buffer of one or more dimensions; decays to a pointer to its first element where one is expected."""

    __slots__ = ("_shape",)

    def __init__(
        self, memory: Optional[np.ndarray], offset: int, dtype: DataType, scope: str, shape: Sequence[int]
    ) -> None:
        super().__init__(memory, offset, dtype, scope)
        self._shape = tuple(shape)

    @property
    def shape(self) -> Tuple[int, ...]:
        """The extents."""
        return self._shape

    def addr_of(self, indices: Any = 0) -> Pointer:
        """The pointer to an element; missing trailing indices are 0."""
        given = list(indices) if isinstance(indices, (tuple, list)) else [indices]
        if len(given) > len(self._shape):
            raise AssertionError(f"A buffer of {len(self._shape)} dimensions got {len(given)} indices.")
        position = 0
        for axis, extent in enumerate(self._shape):
            position = position * extent + (_index(given[axis]) if axis < len(given) else 0)
        return Pointer(self._memory, self._offset + position * self._dtype.total_bytes, self._dtype, self._scope)

    def _row(self, indices: Tuple[Any, ...]) -> int:
        """The position of the row that all indices but the last select."""
        position = 0
        for axis, (index, extent) in enumerate(zip(indices, self._shape)):
            number = _index(index)
            if not 0 <= number < extent:
                raise IndexError(f"index {number} is out of bounds for axis {axis} with size {extent}")
            position = position * extent + number
        return position * self._shape[-1]

    def _key(self, key: Any) -> Tuple[Any, ...]:
        indices = key if isinstance(key, tuple) else (key,)
        if len(indices) != len(self._shape):
            raise AssertionError(f"A buffer of {len(self._shape)} dimensions got {len(indices)} indices.")
        return indices

    def _last(self, indices: Tuple[Any, ...]) -> int:
        number = _index(indices[-1])
        if not 0 <= number < self._shape[-1]:
            raise IndexError(f"index {number} is out of bounds for axis {len(indices) - 1} with size {self._shape[-1]}")
        return number

    def __getitem__(self, key: Any) -> Any:
        indices = self._key(key)
        row = self._row(indices[:-1])
        if isinstance(indices[-1], slice):
            start, count, step = _slice_extent(indices[-1], self._shape[-1])
            return self._load_slice(row + start, count, step)
        return self._load(row + self._last(indices))

    def __setitem__(self, key: Any, value: Any) -> None:
        indices = self._key(key)
        row = self._row(indices[:-1])
        if isinstance(indices[-1], slice):
            start, count, step = _slice_extent(indices[-1], self._shape[-1])
            self._store_slice(row + start, count, step, value)
            return
        self._store(row + self._last(indices), value)

    def __repr__(self) -> str:
        return f"{self._scope} {self._dtype} buffer of shape {self._shape}"


def as_pointer(value: Any, ordinal: str) -> Any:
    """A pointer or buffer as given; a NumPy array captured by the kernel as a constant buffer."""
    if isinstance(value, _Memory):
        return value
    if isinstance(value, np.ndarray):
        return constant_buffer(value)
    shown = value.dtype if isinstance(value, Value) else type(value).__name__
    raise AssertionError(f'The {ordinal} arg expect a pointer, but got: "{shown}".')


def constant_buffer(data: np.ndarray) -> Buffer:
    """A read-only buffer over a copy of an array."""
    array = np.ascontiguousarray(data)
    memory = np.frombuffer(array.tobytes(), np.uint8)
    return Buffer(memory, 0, DataType(array.dtype), "constant", array.shape or (1,))
