"""Operators that move, choose and place elements."""

from __future__ import annotations

import builtins
import re
from typing import Any, List, Optional, Sequence, Tuple

from .. import te
from ..te._expr import PrimExpr, TVMError, _select, binary, const, expr
from ..te._expr import cast as _cast
from ..te._functions import all as all_of
from ..te._tensor import Tensor, comm_reducer, compute, reduce_axis
from ._core import BROADCAST, ELEMWISE, INJECTIVE, _axis, _list, _unflat, reshape, sum

__all__ = """collapse_sum cumprod cumsum elemwise_sum expand_like gather gather_nd layout_transform matmul
    matrix_set_diag meshgrid ndarray_size one_hot reverse_sequence sequence_mask shape split strided_slice tensordot
    trilu unravel_index where""".split()


def _constant(extent: Any, what: str) -> int:
    node = expr(extent)
    if node.node != "IntImm":
        raise TVMError(f"{what}: the extent {node} is not constant")
    return int(node)


def where(condition: Any, x: Any, y: Any) -> Any:
    """``x`` where the condition holds, ``y`` elsewhere; broadcast as NumPy does it."""
    from ..te._tensor import _broadcast_element, _broadcast_shapes

    tensors = [t for t in (condition, x, y) if isinstance(t, Tensor)]
    largest = tensors[0]
    extents = list(largest.shape)
    for tensor in tensors[1:]:
        shaped = compute(extents, lambda *_: const(0), name="shape")
        extents = _broadcast_shapes(shaped, tensor)

    def at(value: Any, i: Sequence[Any]) -> Any:
        return _broadcast_element(value, i) if isinstance(value, Tensor) else expr(value)

    def element(*i: Any) -> Any:
        return _select(at(condition, i).astype("bool"), at(x, i), at(y, i))

    return compute(extents, element, name="T_where", tag=BROADCAST)


def expand_like(x: Any, shape_like: Any, axis: Any) -> Any:
    """The tensor with new axes, of the extents that another tensor has there."""
    new = sorted(_axis(a, shape_like.ndim) for a in _list(axis))
    if x.ndim + len(new) != shape_like.ndim:
        raise TVMError(f"expand_like: {x.ndim} and {len(new)} dimensions for {shape_like.ndim}")
    kept = [d for d in range(shape_like.ndim) if d not in new]
    return compute(shape_like.shape, lambda *i: x(*[i[d] for d in kept]), name="T_expand_like", tag=BROADCAST)


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> List[Any]:
    """Parts along an axis: so many equal ones, or between the given places."""
    at = _axis(axis, ary.ndim)
    extent = ary.shape[at]
    if isinstance(indices_or_sections, (int, PrimExpr)):
        count = int(indices_or_sections)
        total = _constant(extent, "split")
        if count < 1 or total % count:
            raise TVMError(f"split: {total} elements cannot be split into {count} equal parts")
        places: List[Any] = [total // count * k for k in range(1, count)]
    else:
        places = list(indices_or_sections)
    ends = [*places, extent]
    parts = []
    for low, high in zip([0, *places], ends):
        shape = list(ary.shape)
        shape[at] = high - low

        def element(*i: Any, low: Any = low) -> Any:
            return ary(*i[:at], i[at] + low, *i[at + 1 :])

        parts.append(compute(shape, _only_indices(element), name="T_split", tag=INJECTIVE))
    return parts


def _only_indices(element: Any) -> Any:
    return lambda *i: element(*i)


def _slice_bounds(extent: int, begin: Any, end: Any, stride: int) -> Tuple[int, int]:
    """The first element and how many there are."""
    low, high, step = slice(begin, end, stride).indices(extent)
    return low, len(range(low, high, step))


def strided_slice(
    x: Any,
    begin: Sequence[Any],
    end: Sequence[Any],
    strides: Optional[Sequence[int]] = None,
    axes: Optional[Sequence[int]] = None,
    slice_mode: str = "end",
) -> Any:
    """``x[begin:end:stride]`` of each axis, bounds as Python has them; ``slice_mode="size"``: ``end`` holds sizes, -1
    is all that is left.
    """
    if slice_mode not in ("end", "size"):
        raise TVMError(f"strided_slice: unknown mode {slice_mode!r}")
    dims = [_axis(a, x.ndim) for a in axes] if axes is not None else list(range(len(begin)))
    shape, starts, steps = list(x.shape), [const(0)] * x.ndim, [1] * x.ndim
    for k, d in enumerate(dims):
        total = _constant(x.shape[d], "strided_slice")
        first = begin[k]
        low = None if first is None else int(first)
        last = end[k] if k < len(end) else None
        step = int(strides[k]) if strides is not None and k < len(strides) and slice_mode == "end" else 1
        if step == 0:
            raise TVMError("strided_slice: a stride of 0")
        high = None if last is None else int(last)
        if slice_mode == "size":
            low = low or 0
            high = None if high is None or high < 0 else (low + total if low < 0 else low) + high
        start, count = _slice_bounds(total, low, high, step)
        shape[d], starts[d], steps[d] = expr(count), const(start), step
    return compute(
        shape, lambda *i: x(*[s + v * t for s, v, t in zip(starts, i, steps)]), name="T_strided_slice", tag=INJECTIVE
    )


def gather(data: Any, axis: int, indices: Any) -> Any:
    """``data`` at ``indices`` along an axis, elsewhere at the same place."""
    at = _axis(axis, data.ndim)
    return compute(indices.shape, lambda *i: data(*i[:at], indices(*i), *i[at + 1 :]), name="T_gather", tag=INJECTIVE)


def gather_nd(data: Any, indices: Any, batch_dims: int = 0) -> Any:
    """``data`` at coordinates, which the first dimension of ``indices`` holds; batch dimensions come first in both."""
    rank = _constant(indices.shape[0], "gather_nd")
    inner = list(indices.shape[1:])
    shape = inner + list(data.shape[batch_dims + rank :])
    n = len(inner)

    def element(*i: Any) -> Any:
        place = [indices(k, *i[:n]) for k in range(rank)]
        return data(*i[:batch_dims], *place, *i[n:])

    return compute(shape, element, name="T_gather_nd", tag=INJECTIVE)


def one_hot(indices: Any, on_value: Any, off_value: Any, depth: int, axis: int, dtype: str) -> Any:
    """``on_value`` at the place that an index names on a new axis, ``off_value`` elsewhere."""
    at = indices.ndim if axis == -1 else _axis(axis, indices.ndim + 1)
    shape = list(indices.shape)
    shape.insert(at, expr(depth))

    def element(*i: Any) -> Any:
        own = indices(*i[:at], *i[at + 1 :])
        return _select(own.equal(_cast(own.dtype, i[at])), _value(on_value, dtype), _value(off_value, dtype))

    return compute(shape, element, name="T_one_hot", tag=INJECTIVE)


def _value(value: Any, dtype: str) -> Any:
    return _cast(dtype, expr(value))


def shape(array: Any, dtype: str = "int32") -> Any:
    """The extents as a tensor."""

    def element(i: Any) -> Any:
        value = _cast(dtype, array.shape[-1])
        for d in reversed(range(array.ndim - 1)):
            value = _select(i.equal(d), _cast(dtype, array.shape[d]), value)
        return value

    return compute((array.ndim,), element, name="T_shape", tag=INJECTIVE)


def ndarray_size(array: Any, dtype: str = "int32") -> Any:
    """The number of elements, as a tensor of rank 0."""
    count: Any = const(1)
    for extent in array.shape:
        count = count * extent
    return compute((), lambda: _cast(dtype, count), name="ndarray_size", tag=INJECTIVE)


def elemwise_sum(xs: Sequence[Any]) -> Any:
    """The sum of tensors of one shape."""

    def element(*i: Any) -> Any:
        total = xs[0](*i)
        for x in xs[1:]:
            total = total + x(*i)
        return total

    return compute(xs[0].shape, element, name="T_elemwise_sum", tag=ELEMWISE)


def sequence_mask(data: Any, valid_length: Any, mask_value: Any = 0, axis: int = 0) -> Any:
    """``mask_value`` behind the length of each sequence; time is axis 0 or 1, the batch the other one."""
    if axis not in (0, 1):
        raise TVMError(f"sequence_mask: axis 0 or 1, not {axis}")

    def element(*i: Any) -> Any:
        inside = _cast(valid_length.dtype, i[axis]) < valid_length(i[1 - axis])
        return _select(inside, data(*i), const(mask_value, data.dtype))

    return compute(data.shape, element, name="T_sequence_mask", tag=INJECTIVE)


def reverse_sequence(a: Any, seq_lengths: Any = None, seq_axis: int = 1, batch_axis: int = 0) -> Any:
    """Each sequence backwards for its length; without lengths the whole axis."""
    at, batch = _axis(seq_axis, a.ndim), _axis(batch_axis, a.ndim)

    def element(*i: Any) -> Any:
        length = a.shape[at] if seq_lengths is None else _cast(i[at].dtype, seq_lengths(i[batch]))
        place = _select(binary("LT", i[at], length), length - 1 - i[at], i[at])
        return a(*i[:at], binary("Max", binary("Min", place, a.shape[at] - 1), 0), *i[at + 1 :])

    return compute(a.shape, element, name="T_reverse_sequence", tag=INJECTIVE)


def _layout(text: str) -> List[Tuple[str, int]]:
    """``NCHW16c`` as axes with the factor of those that are parts (lower case), 0 for the others."""
    found = re.findall(r"(\d*)([A-Za-z])", text)
    if "".join(n + c for n, c in found) != text or builtins.any(c.islower() != bool(n) for n, c in found):
        raise TVMError(f"layout_transform: {text!r} is no layout")
    return [(c, int(n) if n else 0) for n, c in found]


def layout_transform(array: Any, src_layout: str, dst_layout: str, **_: Any) -> Any:
    """The tensor in another order of its axes; ``16c`` is the inner part of axis ``C``."""
    source, target = _layout(src_layout), _layout(dst_layout)
    if len(source) != array.ndim or {c.upper() for c, _ in source} != {c.upper() for c, _ in target}:
        raise TVMError(f"layout_transform: {src_layout} to {dst_layout} of {array.ndim} dimensions")
    extent_of = {}
    for (c, factor), extent in zip(source, array.shape):
        name = c.upper()
        extent_of[name] = extent_of.get(name, const(1)) * (factor if factor else extent)
    factor_of = {c.upper(): factor for c, factor in target if factor}
    shape = [expr(f) if f else te.ceildiv(extent_of[c], factor_of.get(c, 1)) for c, f in target]

    def element(*i: Any) -> Any:
        outer = {c: v for (c, f), v in zip(target, i) if not f}
        inner = {c.upper(): v for (c, f), v in zip(target, i) if f}
        place = {c: outer[c] * factor_of[c] + inner[c] if c in inner else outer[c] for c in outer}
        own = {c.upper(): f for c, f in source if f}
        indices = []
        for c, factor in source:
            if factor:
                indices.append(te.floormod(place[c.upper()], factor))
            else:
                indices.append(te.floordiv(place[c], own[c]) if c in own else place[c])
        inside = [place[c] < extent_of[c] for c in factor_of if not _divides(extent_of[c], factor_of[c])]
        value = array(*indices)
        return te.if_then_else(all_of(*inside), value, const(0, array.dtype)) if inside else value

    return compute(shape, element, name="T_layout_trans", tag=INJECTIVE)


def _divides(extent: Any, factor: int) -> bool:
    node = expr(extent)
    return node.node == "IntImm" and int(node) % factor == 0


def matrix_set_diag(data: Any, diagonal: Any, k: Any = 0, align: str = "RIGHT_LEFT") -> Any:
    """The matrices of the last two dimensions with other values on diagonal ``k``."""
    if not isinstance(k, int):
        raise TVMError("matrix_set_diag: several diagonals are not supported")

    def element(*i: Any) -> Any:
        row, col = i[-2], i[-1]
        place = row if k >= 0 else col
        last = diagonal.shape[-1] - 1
        value = diagonal(*i[:-2], binary("Min", place, last))
        return _select((col - row).equal(k), value, data(*i))

    return compute(data.shape, element, name="T_matrix_set_diag", tag=INJECTIVE)


def trilu(data: Any, k: Any, upper: bool) -> Any:
    """The matrices of the last two dimensions, 0 below (``upper``) or above diagonal ``k``."""
    shift = k(*[0] * k.ndim) if isinstance(k, Tensor) else expr(k)

    def element(*i: Any) -> Any:
        distance = i[-1] - i[-2]
        kept = binary("GE", distance, shift) if upper else binary("LE", distance, shift)
        return _select(kept, data(*i), const(0, data.dtype))

    return compute(data.shape, element, name="T_trilu", tag=ELEMWISE)


def unravel_index(x: Any, shape: Any) -> Any:
    """The coordinates of flat indices, along a new first axis."""
    extents = [expr(e) for e in shape]
    shape = [len(extents), *x.shape]

    def element(k: Any, *i: Any) -> Any:
        parts = _unflat(x(*i), extents)
        value = parts[-1]
        for d in reversed(range(len(parts) - 1)):
            value = _select(k.equal(d), parts[d], value)
        return value

    return compute(shape, lambda *i: element(*i), name="T_unravel", tag=INJECTIVE)


def meshgrid(a_tuple: Sequence[Any], indexing: str = "ij") -> List[Any]:
    """The coordinates of a grid, a tensor per axis."""
    if indexing not in ("ij", "xy"):
        raise TVMError(f"meshgrid: unknown indexing {indexing!r}")
    order = list(range(len(a_tuple)))
    if indexing == "xy" and len(order) > 1:
        order[0], order[1] = 1, 0
    extents = [a_tuple[order[d]].shape[0] if a_tuple[order[d]].ndim else const(1) for d in range(len(order))]
    made = []
    for k, x in enumerate(a_tuple):
        at = order.index(k)
        made.append(_mesh(extents, x, at))
    return made


def _mesh(extents: Sequence[Any], x: Any, at: int) -> Any:
    return compute(extents, lambda *i: x(i[at]) if x.ndim else x(), name="T_meshgrid", tag=INJECTIVE)


def _running(name: str, combine: Any, start: int) -> Any:
    def operator(data: Any, axis: Optional[int] = None, dtype: Any = None, exclusive: bool = False) -> Any:
        if axis is None:
            count: Any = const(1)
            for e in data.shape:
                count = count * e
            data, axis = reshape(data, [count]), 0
        at = _axis(axis, data.ndim)
        wide = dtype or ("int32" if data.dtype in ("bool", "int8", "uint8", "int16", "uint16") else data.dtype)
        reducer = comm_reducer(combine, lambda t: const(start, t), name=name)

        def element(*i: Any) -> Any:
            k = reduce_axis((0, i[at] + (0 if exclusive else 1)), name="k")
            return reducer(_cast(wide, data(*i[:at], k, *i[at + 1 :])), axis=k)

        return compute(data.shape, lambda *i: element(*i), name=f"T_{name}")

    operator.__name__, operator.__doc__ = name, f"``{name}`` along an axis (None: of the flat tensor)."
    return operator


cumsum = _running("cumsum", lambda a, b: a + b, 0)
cumprod = _running("cumprod", lambda a, b: a * b, 1)


def collapse_sum(data: Any, target_shape: Sequence[Any]) -> Any:
    """The inverse of broadcasting: sums over what ``target_shape`` does not have."""
    target = [expr(e) for e in target_shape]
    if len(target) > data.ndim:
        raise TVMError(f"collapse_sum: {data.ndim} dimensions to {len(target)}")
    skipped = data.ndim - len(target)
    gone = list(range(skipped))
    for d, extent in enumerate(target):
        own = data.shape[skipped + d]
        if extent.node == "IntImm" and int(extent) == 1 and not (own.node == "IntImm" and int(own) == 1):
            gone.append(skipped + d)
        elif not bool(own == extent):
            raise TVMError(f"collapse_sum: extent {own} cannot become {extent}")
    if not gone:
        return data
    made = sum(data, gone, keepdims=True)
    return reshape(made, target)


def matmul(a: Any, b: Any, transp_a: bool = False, transp_b: bool = False) -> Any:
    """The product of two matrices."""
    from . import nn

    return nn.matmul(a, b, transpose_a=transp_a, transpose_b=transp_b)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sums of products over axes: the last and first so many, or two lists."""
    if isinstance(axes, int):
        first, second = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        first, second = ([_axis(d, t.ndim) for d in _list(x)] for x, t in zip(axes, (a, b)))
    if len(first) != len(second):
        raise TVMError(f"tensordot: {len(first)} and {len(second)} axes")
    reduced = [reduce_axis((0, a.shape[d]), name=f"k{n}") for n, d in enumerate(first)]
    rest_a = [d for d in range(a.ndim) if d not in first]
    rest_b = [d for d in range(b.ndim) if d not in second]

    def place(tensor: Any, own: Sequence[int], rest: Sequence[int], i: Sequence[Any]) -> List[Any]:
        indices: List[Any] = [None] * tensor.ndim
        for axis, d in zip(reduced, own):
            indices[d] = axis.var
        for value, d in zip(i, rest):
            indices[d] = value
        return indices

    def element(*i: Any) -> Any:
        x = a(*place(a, first, rest_a, i[: len(rest_a)]))
        y = b(*place(b, second, rest_b, i[len(rest_a) :]))
        return te.sum(x * y, axis=reduced) if reduced else x * y

    shape = [a.shape[d] for d in rest_a] + [b.shape[d] for d in rest_b]
    return compute(shape, element, name="T_tensordot", tag="matmul")
