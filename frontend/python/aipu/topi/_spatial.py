"""Operators of neural networks that move elements: enlarging images, blocks of pixels as channels or as a batch."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

from .. import te
from ..te._expr import TVMError, _select, binary, const, expr
from ..te._expr import cast as _cast
from ..te._functions import all as all_of
from ..te._tensor import compute, reduce_axis
from ._core import BROADCAST, ELEMWISE, INJECTIVE, _axis


def _image_axes(layout: str) -> Tuple[int, int, int]:
    if sorted(layout) != sorted("NCHW"):
        raise ValueError(f"unknown layout of images {layout!r}")
    return layout.index("C"), layout.index("H"), layout.index("W")


def _put(indices: Sequence[Any], changes: Any) -> List[Any]:
    made = list(indices)
    for place, index in changes.items():
        made[place] = index
    return made


def upsampling(
    data: Any,
    scale_h: float,
    scale_w: float,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Any = None,
) -> Any:
    """Images as many times as high and wide, by the nearest pixel before (``nearest_neighbor``) or linearly between
    the centres of pixels (``bilinear``; with ``align_corners`` between the corners).
    """
    if method not in ("nearest_neighbor", "bilinear"):
        raise TVMError(f"upsampling: nearest_neighbor or bilinear, not {method!r}")
    _, h, w = _image_axes(layout)
    sizes = [int(data.shape[h]), int(data.shape[w])]
    given = output_shape or [round(n * s) for n, s in zip(sizes, (scale_h, scale_w))]
    results = [int(n) for n in given]
    shape = _put(data.shape, {h: results[0], w: results[1]})
    if method == "nearest_neighbor":
        if align_corners:
            raise TVMError("upsampling: align_corners is of bilinear only")

        def nearest(*i: Any) -> Any:
            places = [te.floordiv(i[d] * n, m) for d, n, m in zip((h, w), sizes, results)]
            return data(*_put(i, {h: places[0], w: places[1]}))

        return compute(shape, nearest, name="upsampling", tag=INJECTIVE)

    def between(index: Any, n: int, m: int) -> Tuple[Any, Any, Any]:
        if align_corners:
            place = _cast("float32", index) * ((n - 1) / max(m - 1, 1))
        else:
            place = (_cast("float32", index) + 0.5) * (n / m) - 0.5
        place = binary("Min", binary("Max", place, const(0.0)), const(float(n - 1)))
        low = _cast("int32", te.floor(place))
        return low, binary("Min", low + 1, n - 1), place - _cast("float32", low)

    def linear(*i: Any) -> Any:
        top, bottom, down = between(i[h], sizes[0], results[0])
        left, right, across = between(i[w], sizes[1], results[1])

        def pixel(row: Any, column: Any) -> Any:
            return _cast("float32", data(*_put(i, {h: row, w: column})))

        upper = pixel(top, left) * (1.0 - across) + pixel(top, right) * across
        lower = pixel(bottom, left) * (1.0 - across) + pixel(bottom, right) * across
        return _cast(data.dtype, upper * (1.0 - down) + lower * down)

    return compute(shape, linear, name="upsampling", tag=INJECTIVE)


def space_to_depth(data: Any, block_size: int, layout: str = "NCHW") -> Any:
    """Blocks of pixels as channels, which count by block first."""
    c, h, w = _image_axes(layout)
    n, channels = block_size, data.shape[c]
    shape = _put(data.shape, {c: channels * n * n, h: te.floordiv(data.shape[h], n), w: te.floordiv(data.shape[w], n)})

    def element(*i: Any) -> Any:
        part = te.floordiv(i[c], channels)
        pixel = {h: i[h] * n + te.floordiv(part, n), w: i[w] * n + te.floormod(part, n)}
        return data(*_put(i, {c: te.floormod(i[c], channels), **pixel}))

    return compute(shape, element, name="space_to_depth", tag=INJECTIVE)


def depth_to_space(data: Any, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Any:
    """Channels as blocks of pixels. ``DCR``: channels count by block first; ``CDR``: by pixel of the block first."""
    if mode not in ("DCR", "CDR"):
        raise TVMError(f"depth_to_space: DCR or CDR, not {mode!r}")
    c, h, w = _image_axes(layout)
    n = block_size
    channels = te.floordiv(data.shape[c], n * n)
    shape = _put(data.shape, {c: channels, h: data.shape[h] * n, w: data.shape[w] * n})

    def element(*i: Any) -> Any:
        part = te.floormod(i[h], n) * n + te.floormod(i[w], n)
        channel = part * channels + i[c] if mode == "DCR" else i[c] * (n * n) + part
        return data(*_put(i, {c: channel, h: te.floordiv(i[h], n), w: te.floordiv(i[w], n)}))

    return compute(shape, element, name="depth_to_space", tag=INJECTIVE)


def space_to_batch_nd(
    data: Any, block_shape: Sequence[int], pad_before: Sequence[int], pad_after: Sequence[int], pad_value: float = 0.0
) -> Any:
    """Blocks of the axes behind the batch as a batch, after padding."""
    count, batch = len(block_shape), data.shape[0]
    if not len(pad_before) == len(pad_after) == count < data.ndim:
        raise ValueError(f"space_to_batch_nd: {count} blocks, {len(pad_before)} and {len(pad_after)} paddings")
    shape = list(data.shape)
    for k, n in enumerate(block_shape):
        padded = data.shape[k + 1] + pad_before[k] + pad_after[k]
        if expr(padded).node == "IntImm" and int(padded) % n:
            raise ValueError(f"space_to_batch_nd: axis {k + 1} of {padded} elements is no multiple of {n}")
        shape[0], shape[k + 1] = shape[0] * n, te.floordiv(padded, n)

    def element(*i: Any) -> Any:
        part = te.floordiv(i[0], batch)
        places, inside = {0: te.floormod(i[0], batch)}, []
        for k in reversed(range(count)):
            place = i[k + 1] * block_shape[k] + te.floormod(part, block_shape[k]) - pad_before[k]
            part = te.floordiv(part, block_shape[k])
            places[k + 1] = place
            if pad_before[k]:
                inside.append(place >= 0)
            if pad_after[k]:
                inside.append(place < data.shape[k + 1])
        value = data(*_put(i, places))
        return te.if_then_else(all_of(*inside), value, const(pad_value, data.dtype)) if inside else value

    return compute(shape, element, name="space_to_batch_nd", tag=INJECTIVE)


def batch_to_space_nd(
    data: Any, block_shape: Sequence[int], crop_begin_list: Sequence[int], crop_end_list: Sequence[int]
) -> Any:
    """The inverse of :func:`space_to_batch_nd`, less what is cropped."""
    count, blocks = len(block_shape), 1
    if not len(crop_begin_list) == len(crop_end_list) == count < data.ndim:
        raise ValueError(f"batch_to_space_nd: {count} blocks, {len(crop_begin_list)} and {len(crop_end_list)} crops")
    for n in block_shape:
        blocks *= n
    batch = te.floordiv(data.shape[0], blocks)
    shape = [batch, *data.shape[1:]]
    for k, n in enumerate(block_shape):
        shape[k + 1] = data.shape[k + 1] * n - crop_begin_list[k] - crop_end_list[k]

    def element(*i: Any) -> Any:
        part, places = const(0), {}
        for k, n in enumerate(block_shape):
            place = i[k + 1] + crop_begin_list[k]
            part = part * n + te.floormod(place, n)
            places[k + 1] = te.floordiv(place, n)
        return data(*_put(i, {0: part * batch + i[0], **places}))

    return compute(shape, element, name="batch_to_space_nd", tag=INJECTIVE)


def _scale_shift(channel: int) -> Any:
    def function(data: Any, scale: Any, shift: Any) -> Any:
        def element(*i: Any) -> Any:
            return data(*i) * scale[i[channel]] + shift[i[channel]]

        return compute(data.shape, element, name="scale_shift", tag=BROADCAST)

    function.__doc__ = "``data * scale + shift``, both per channel."
    return function


scale_shift_nchw, scale_shift_nhwc = _scale_shift(1), _scale_shift(3)


def fifo_buffer(data: Any, buffer: Any, axis: int) -> Any:
    """The buffer without its oldest elements along an axis, then the data."""
    at = _axis(axis, data.ndim)
    kept = buffer.shape[at] - data.shape[at]

    def element(*i: Any) -> Any:
        old = buffer(*_put(i, {at: i[at] + data.shape[at]}))
        return te.if_then_else(i[at] < kept, old, data(*_put(i, {at: i[at] - kept})))

    return compute(buffer.shape, element, name="new_buffer", tag=INJECTIVE)


def binarize_pack(data: Any, axis: int = -1, name: str = "PackedInput") -> Any:
    """Whether elements along an axis are at least 0, as the bits of uint32, the first highest."""
    at = _axis(axis, data.ndim)
    shape = _put(data.shape, {at: te.floordiv(data.shape[at], 32)})

    def element(*i: Any) -> Any:
        bits = const(0, "uint32")
        for k in range(32):
            value = data(*_put(i, {at: i[at] * 32 + k}))
            bits = (bits << const(1, "uint32")) | _cast("uint32", value >= const(0, data.dtype))
        return bits

    return compute(shape, element, name=name, tag="binarize_pack")


def binary_dense(data: Any, weight: Any) -> Any:
    """The product with a transposed matrix of elements that are 1 or -1, packed by :func:`binarize_pack`."""
    k = reduce_axis((0, data.shape[1]), name="k")
    shape = (data.shape[0], weight.shape[0])
    differ = compute(
        shape,
        lambda i, j: te.sum(_cast("int32", te.popcount(data[i, k] ^ weight[j, k])), axis=k),
        name="differ",
        tag="binary_dense",
    )
    bits = _cast("float32", data.shape[1] * 32)
    return compute(shape, lambda i, j: bits - 2.0 * _cast("float32", differ[i, j]), name="binary_dense", tag=ELEMWISE)


def searchsorted(sorted_sequence: Any, values: Any, right: bool = False, dtype: str = "int64") -> Any:
    """Where values would be put into a sorted sequence: before equal elements, or behind them (``right``). Sequences
    of several dimensions are sorted along the last one, and have the other dimensions of the values.
    """
    last = sorted_sequence.ndim - 1
    if last and last != values.ndim - 1:
        raise ValueError(f"searchsorted: sequences of rank {last + 1} and values of rank {values.ndim}")
    k = reduce_axis((0, sorted_sequence.shape[last]), name="k")

    def element(*i: Any) -> Any:
        one = sorted_sequence(*i[:last], k)
        before = one <= values(*i) if right else one < values(*i)
        return te.sum(_cast(dtype, before), axis=k)

    return compute(values.shape, element, name="searchsorted", tag="searchsorted")


def scatter_nd(data: Any, indices: Any, updates: Any, mode: str = "update") -> Any:
    """``data`` with elements in place of others (``update``: the last of several), or added to them (``add``). The
    first dimension of ``indices`` are the coordinates.
    """
    if mode not in ("update", "add"):
        raise TVMError(f"scatter_nd: update or add, not {mode!r}")
    depth, outer = int(indices.shape[0]), indices.ndim - 1

    def steps() -> List[Any]:
        return [reduce_axis((0, e), name=f"k{n}") for n, e in enumerate(indices.shape[1:])]

    def hits(i: Sequence[Any], place: Sequence[Any]) -> Any:
        return all_of(*[i[d] == _cast(i[d].dtype, indices(d, *place)) for d in range(depth)])

    if mode == "add":
        axes = steps()
        added = compute(
            data.shape,
            lambda *i: te.sum(updates(*axes, *i[depth:]), axis=axes, where=hits(i, axes)),
            name="scatter_nd_added",
        )
        return compute(data.shape, lambda *i: data(*i) + added(*i), name="scatter_nd", tag="scatter_nd")
    axes = steps()
    number: Any = const(0)
    for axis, extent in zip(axes, indices.shape[1:]):
        number = number * extent + axis
    last = compute(
        data.shape[:depth],
        lambda *i: te.max(_select(hits(i, axes), number, const(-1)), axis=axes),
        name="scatter_nd_last",
    )

    def element(*i: Any) -> Any:
        rest, place = last(*i[:depth]), []
        for extent in reversed(list(indices.shape[1:])):
            place.insert(0, te.floormod(rest, extent))
            rest = te.floordiv(rest, extent)
        assert len(place) == outer
        return te.if_then_else(last(*i[:depth]) >= 0, updates(*place, *i[depth:]), data(*i))

    return compute(data.shape, element, name="scatter_nd", tag="scatter_nd")
