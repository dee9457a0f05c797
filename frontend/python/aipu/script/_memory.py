"""Allocation, loads and stores, DMA (intrinsics.md 2)."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from ._bits import _constant_lanes
from ._core import Value, Vector, call, resolve_type
from ._pointer import Buffer, Pointer, _Memory, as_pointer
from ._pysim import Event, current, fresh_memory

_LOCAL_SCOPES = ("lsram", "shared", "private")
_CAPACITY = {"lsram": 32 * 1024, "shared": 256 * 1024}

Shape = Union[int, Sequence[Any]]


def _extents(shape: Shape, constant: bool) -> Tuple[int, ...]:
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    extents: List[int] = []
    for item in items:
        if isinstance(item, bool) or not (isinstance(item, int) or (not constant and hasattr(item, "__index__"))):
            if constant and isinstance(item, (Value, np.integer)):
                extents.append(item.__index__())  # a variable here, a constant when compiled
                continue
            raise AssertionError("The element of 1st arg expect an integer scalar constant.")
        extents.append(item.__index__())
    if not extents or any(extent <= 0 for extent in extents):
        raise AssertionError(f"The extents of a shape must be positive, but got: {tuple(extents)}.")
    return tuple(extents)


def alloc_buffer(shape: Shape, dtype: Any, scope: str = "private") -> Buffer:
    """A buffer with undefined contents.

    ``scope``: ``lsram`` and ``private`` belong to the TEC, ``shared`` to all TECs of a core.
    """
    extents = _extents(shape, constant=True)
    element = resolve_type(dtype)
    if scope not in _LOCAL_SCOPES:
        raise AssertionError(f'The arg "scope" expect one of ({", ".join(_LOCAL_SCOPES)}), but got: "{scope}".')
    size = int(np.prod(extents)) * element.total_bytes

    def make() -> Buffer:
        return Buffer(fresh_memory(size), 0, element, scope, extents)

    return current().shared(make) if scope == "shared" else make()


def alloc(shape: Shape, dtype: Any, scope: str = "private") -> Pointer:
    """The pointer to the first element of a new buffer."""
    return alloc_buffer(shape, dtype, scope).addr_of(0)


def alloc_const(shape: Shape, dtype: Any, data: Any) -> Buffer:
    """A buffer with constant contents; ``data`` is anything that NumPy reshapes to ``shape``."""
    element = resolve_type(dtype)
    extents = _extents(shape, constant=True)
    array = np.array(data, dtype=np.dtype(str(element)) if not element.is_bfloat else None)
    if element.is_bfloat and str(array.dtype) != "bfloat16":
        from ._convert import cast

        array = cast(array.reshape(-1).astype(np.float32).tolist(), element.with_lanes(array.size))._data
    memory = np.frombuffer(np.ascontiguousarray(array.reshape(extents)).tobytes(), np.uint8)
    return Buffer(memory, 0, element, "constant", extents)


def match_buffer(pointer: Any, shape: Shape) -> Buffer:
    """A view of the memory behind a pointer with several dimensions; extents may be run-time integers."""
    base = as_pointer(pointer, "1st")
    extents = _extents(shape, constant=False)
    memory = base._bytes()
    missing = base._offset + int(np.prod(extents)) * base.dtype.total_bytes - memory.size
    if missing > 0:
        raise AssertionError(f'Need more "{missing}" bytes data to match the buffer')
    return Buffer(memory, base._offset, base.dtype, base.scope, extents)


# --- vectors ---


def _stride(stride: Any) -> int:
    number = int(stride)
    if number < 1:
        raise AssertionError(f'The arg "stride" expect >= 1, but got: "{number}".')
    return number


def vload(ptr: Any, mask: Any = None, lanes: Optional[int] = None, stride: Any = 1) -> Vector:
    """``out[i] = ptr[i * stride]``, counted in scalar elements; inactive lanes are 0 and not touched.

    Lanes: ``lanes``, else those of a vector pointer, else of a native vector.
    """
    attributes = () if lanes is None else (("lanes", _constant_lanes(lanes)),)
    return call("vload", (as_pointer(ptr, "1st"), _stride(stride)), mask, None, attributes)


def vstore(value: Any, ptr: Any, mask: Any = None, stride: Any = 1) -> None:
    """``ptr[i * stride] = value[i]``, counted in scalar elements, for the active lanes."""
    call("vstore", (value, as_pointer(ptr, "2nd"), _stride(stride)), mask)


def vload_gather(ptr: Any, indices: Vector, mask: Any = None, entries: int = 0) -> Vector:
    """``out[i] = ptr[indices[i]]`` with 16-bit indices; inactive lanes are 0.

    With ``entries`` all of ``ptr[0]`` to ``ptr[entries - 1]`` are there, and indices are below it.
    """
    attributes = () if entries == 0 else (("entries", entries),)
    return call("vload_gather", (as_pointer(ptr, "1st"), indices), mask, None, attributes)


def vstore_scatter(value: Any, ptr: Any, indices: Vector, mask: Any = None) -> None:
    """``ptr[indices[i]] = value[i]`` with 16-bit indices, for the active lanes in ascending order."""
    call("vstore_scatter", (value, as_pointer(ptr, "2nd"), indices), mask)


# --- DMA ---


def _limit(value: int, limit: int, what: str) -> None:
    if value > limit:
        raise AssertionError(f'The {what} expect <= "{limit}" bytes, but got: "{value}".')


def _copy_arguments(
    dst: Any, src: Any, width: Any, src_stride: Any, times: Any, dst_stride: Any
) -> Tuple[_Memory, _Memory, int, int, int, int]:
    to, source = as_pointer(dst, "1st"), as_pointer(src, "2nd")
    count, repeats = int(width), int(times)
    from_pitch = count if src_stride is None else int(src_stride)
    to_pitch = count if dst_stride is None else int(dst_stride)
    if count < 0:
        raise AssertionError(f'The arg "width" expect >= 0, but got: "{count}".')
    if repeats < 0:
        raise AssertionError(f'The arg "times" expect >= 0, but got: "{repeats}".')
    if repeats > 1:
        for name, pitch in (("src_stride", from_pitch), ("dst_stride", to_pitch)):
            if pitch < count:
                raise AssertionError(f'The arg "{name}" expect >= "{count}", but got: "{pitch}".')
    return to, source, count, from_pitch, repeats, to_pitch


def dma_copy(dst: Any, src: Any, width: Any, src_stride: Any = None, times: Any = 1, dst_stride: Any = None) -> None:
    """Copies ``times`` rows of ``width`` elements of the pointers' type; strides default to ``width``."""
    to, source, count, from_pitch, repeats, to_pitch = _copy_arguments(dst, src, width, src_stride, times, dst_stride)
    size = to.dtype.total_bytes
    for memory, pitch, name in ((to, to_pitch, "dst_stride"), (source, from_pitch, "src_stride")):
        capacity = _CAPACITY.get(memory.scope)
        if capacity is None:
            continue
        if memory.scope == "lsram":
            _limit(count * size, capacity, "width")
        _limit(pitch * size, capacity, name)
        _limit(count * repeats * size, capacity, "width * times")
    _limit(count * repeats * size, (1 << 32) - 1, "width * times")
    call("dma_copy", (to, source, count, from_pitch, repeats, to_pitch))


def async_dma_copy(
    dst: Any,
    src: Any,
    width: Any,
    src_stride: Any = None,
    times: Any = 1,
    dst_stride: Any = None,
    event: Optional[Event] = None,
) -> None:
    """``dma_copy`` that returns at once; ``event`` says when it is done."""
    if event is None:
        raise AssertionError('The arg "event" must be provided.')
    if not isinstance(event, Event):
        raise AssertionError('The arg "event" expect an event.')
    arguments = _copy_arguments(dst, src, width, src_stride, times, dst_stride)
    to, _, count, from_pitch, repeats, to_pitch = arguments
    size = to.dtype.total_bytes
    _limit(count * size, 0xFFFF, "width")
    _limit(from_pitch * size, 0xFFFFFF, "src_stride")
    _limit(to_pitch * size, 0xFFFFFF, "dst_stride")
    _limit(count * repeats * size, 0xFFFFFF, "width * times")
    # As late as the language allows, so that a missing wait_events shows.
    event.enqueue(lambda: call("dma_copy", arguments))


def dma_transpose2d(dst: Any, src: Any, row: Any, col: Any, dst_stride: Any = None, src_stride: Any = None) -> None:
    """``dst[j * dst_stride + i] = src[i * src_stride + j]`` for ``row`` times ``col`` elements."""
    to, source = as_pointer(dst, "1st"), as_pointer(src, "2nd")
    rows, columns = int(row), int(col)
    size = source.dtype.total_bytes
    for name, extent, stride in (("row", rows, dst_stride), ("col", columns, src_stride)):
        if extent < 0:
            raise AssertionError(f'The arg "{name}" expect >= 0, but got: "{extent}".')
        _limit(extent * size, 0xFFFFFF, name)
        if stride is not None:
            if int(stride) < extent:
                raise AssertionError(f'The arg "{name}" expect <= its stride "{int(stride)}", but got: "{extent}".')
            _limit(extent * size, 0xFFFF, name)
    pitches = (rows if dst_stride is None else int(dst_stride), columns if src_stride is None else int(src_stride))
    call("dma_transpose2d", (to, source, rows, columns, *pitches))


def dma_upsample(
    dst: Any,
    src: Any,
    h_scale: Any,
    w_scale: Any,
    c: Any,
    w: Any,
    src_c_stride: Any = None,
    dst_c_stride: Any = None,
    dst_w_stride: Any = None,
) -> None:
    """Enlarges a row of ``w`` pixels of ``c`` channels by ``w_scale``, ``h_scale`` times; pitches default to dense
    ones.
    """
    numbers = [int(v) for v in (h_scale, w_scale, c, w)]
    channels, width = numbers[2], numbers[3] * numbers[1]
    pitches = [
        channels if src_c_stride is None else int(src_c_stride),
        channels if dst_c_stride is None else int(dst_c_stride),
        width if dst_w_stride is None else int(dst_w_stride),
    ]
    call("dma_upsample", (as_pointer(dst, "1st"), as_pointer(src, "2nd"), *numbers, *pitches))


def dma_memset(ptr: Any, value: Any, num: Any) -> None:
    """Fills ``num`` scalars with ``value``, also through a pointer to vectors."""
    count = int(num)
    if count < 0:
        raise AssertionError(f'The arg "num" expect >= 0, but got: "{count}".')
    call("dma_memset", (as_pointer(ptr, "1st"), value, count))


def flush_cache(invalidate: bool = True) -> None:
    """Writes the data cache back (and invalidates it): nothing to do in PySim."""


__all__ = [
    name for name in dir() if not name.startswith("_") and getattr(globals()[name], "__module__", "") == __name__
]
