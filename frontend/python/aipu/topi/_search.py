"""Order, Einstein's sums, and elements whose place is data.

Sorting is counting: how many elements come before one is its place. That is quadratic in the extent, and runs on every
target and in parallel.
"""

from __future__ import annotations

import string
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import te
from ..te._expr import TVMError, _select, binary, const, expr
from ..te._expr import cast as _cast
from ..te._functions import all as all_of
from ..te._functions import any as any_of
from ..te._functions import reinterpret as _reinterpret
from ..te._tensor import Tensor, compute, reduce_axis
from ._core import ELEMWISE, INJECTIVE, _axis, _broadcast_shapes, _map, reshape, transpose


def reinterpret(x: Any, dtype: Any) -> Any:
    """The bits of each element as another type of the same size."""
    return _map(x, lambda v: _reinterpret(dtype, v), "reinterpret")


# --- order ------------------------------------------------------------------------------------------------------------


def _comes_before(x: Any, y: Any, ascending: bool) -> Any:
    """Whether x is before y for its value; what is no number is last."""
    first = x < y if ascending else x > y
    if not x.dtype.startswith(("float", "bfloat")):
        return first
    return any_of(first, all_of(te.isnan(y), ~te.isnan(x)))


def _order(data: Any, at: int, ascending: bool, count: Any) -> Any:
    """For each place along an axis the index of the element that comes there; equal elements stay in order."""
    extent = data.shape[at]

    def moved(i: Sequence[Any], index: Any) -> Any:
        return data(*i[:at], index, *i[at + 1 :])

    k = reduce_axis((0, extent), "k")

    def rank(*i: Any) -> Any:
        own, other = data(*i), moved(i, k)
        before = any_of(_comes_before(other, own, ascending), all_of(k < i[at], ~_comes_before(own, other, ascending)))
        return te.sum(_cast("int32", before), axis=k)

    ranks = compute(data.shape, rank, name="T_rank", tag="comm_reduce")
    j = reduce_axis((0, extent), "j")
    shape = list(data.shape)
    shape[at] = expr(count)

    def place(*i: Any) -> Any:
        here = ranks(*i[:at], j, *i[at + 1 :]).equal(i[at])
        return te.sum(_select(here, _cast("int32", j), const(0, "int32")), axis=j)

    return compute(shape, place, name="T_order", tag="comm_reduce")


def _taken(data: Any, order: Any, at: int) -> Any:
    return compute(order.shape, lambda *i: data(*i[:at], order(*i), *i[at + 1 :]), name="T_sorted", tag=INJECTIVE)


def sort(data: Any, axis: int = -1, is_ascend: Any = 1) -> Any:
    """The elements along an axis in order."""
    at = _axis(axis, data.ndim)
    return _taken(data, _order(data, at, bool(is_ascend), data.shape[at]), at)


def argsort(data: Any, valid_count: Any = None, axis: int = -1, is_ascend: Any = 1, dtype: str = "float32") -> Any:
    """The indices along an axis in the order of their elements, equal ones by index."""
    if valid_count is not None:
        raise TVMError("argsort: valid_count is not supported")
    at = _axis(axis, data.ndim)
    order = _order(data, at, bool(is_ascend), data.shape[at])
    return compute(order.shape, lambda *i: _cast(dtype, order(*i)), name="T_argsort", tag=ELEMWISE)


def topk(
    data: Any, k: Any = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False, dtype: str = "int64"
) -> Any:
    """The k largest (smallest) elements along an axis and their indices; k below 1: all. ``ret_type``: ``both`` (a
    list), ``values`` or ``indices``.
    """
    if ret_type not in ("both", "values", "indices"):
        raise ValueError(f"topk: both, values or indices, not {ret_type!r}")
    at = _axis(axis, data.ndim)
    count = data.shape[at] if isinstance(k, int) and k < 1 else k
    order = _order(data, at, bool(is_ascend), count)
    values = _taken(data, order, at)
    indices = compute(order.shape, lambda *i: _cast(dtype, order(*i)), name="T_topk_indices", tag=ELEMWISE)
    return {"both": [values, indices], "values": values, "indices": indices}[ret_type]


# --- sums of products -------------------------------------------------------------------------------------------------


def _labels(subscripts: str, operands: Sequence[Any]) -> Tuple[List[str], str]:
    """One letter per dimension of each operand, and those of the result. ``...`` gets letters of its own."""
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(operands):
        raise ValueError(f"einsum: {len(terms)} terms for {len(operands)} operands")
    free = [c for c in string.ascii_letters if c not in text]
    ranks = [x.ndim - len(t.replace("...", "")) for t, x in zip(terms, operands) if "..." in t]
    rest = "".join(free[: max(ranks, default=0)])
    made = []
    for term, x in zip(terms, operands):
        own = x.ndim - len(term.replace("...", ""))
        term = term.replace("...", rest[len(rest) - own :]) if own > 0 else term.replace("...", "")
        if len(term) != x.ndim or not all(c.isalpha() for c in term):
            raise ValueError(f"einsum: '{term}' for a tensor of {x.ndim} dimensions")
        made.append(term)
    if not arrow:
        every = "".join(made)
        output = rest + "".join(c for c in sorted(set(every) - set(rest)) if every.count(c) == 1)
    output = output.replace("...", rest)
    if len(set(output)) != len(output) or set(output) - set("".join(made)):
        raise ValueError(f"einsum: the result has '{output}'")
    return made, output


def einsum(subscripts: str, *operand: Any) -> Any:
    """Sums of products over the letters that the result does not have: ``einsum("ij,jk->ik", a, b)``."""
    operands = list(operand[0]) if len(operand) == 1 and isinstance(operand[0], (list, tuple)) else list(operand)
    terms, output = _labels(subscripts, operands)
    extents: Dict[str, Any] = {}
    for term, x in zip(terms, operands):
        for letter, extent in zip(term, x.shape):
            known = extents.setdefault(letter, extent)
            if known.node == "IntImm" and int(known) == 1:
                extents[letter] = extent
            elif extent.node == "IntImm" and known.node == "IntImm" and int(extent) not in (1, int(known)):
                raise ValueError(f"einsum: '{letter}' is {int(known)} and {int(extent)}")
    axes = {c: reduce_axis((0, e), c) for c, e in extents.items() if c not in output}

    def element(*i: Any) -> Any:
        at = {**dict(zip(output, i)), **{c: axis.var for c, axis in axes.items()}}
        product: Any = None
        for term, x in zip(terms, operands):
            ones = [e.node == "IntImm" and int(e) == 1 for e in x.shape]
            value = x(*[0 if one else at[c] for c, one in zip(term, ones)])
            product = value if product is None else product * value
        return te.sum(product, axis=list(axes.values())) if axes else product

    return compute([extents[c] for c in output], element, name="T_einsum", tag="einsum")


# --- places that are data ---------------------------------------------------------------------------------------------


def sparse_to_dense(
    sparse_indices: Any, output_shape: Sequence[Any], sparse_values: Any, default_value: Any = 0
) -> Any:
    """A tensor of a default value, with others at the given indices; of those at one place the last."""
    rank = len(output_shape)
    count = sparse_indices.shape[0] if sparse_indices.ndim else expr(1)
    k = reduce_axis((0, count), "k")

    def index(entry: Any, d: int) -> Any:
        if sparse_indices.ndim == 0:
            return sparse_indices()
        return sparse_indices(entry) if sparse_indices.ndim == 1 else sparse_indices(entry, d)

    def last(*i: Any) -> Any:
        here = all_of(*[index(k, d).equal(i[d]) for d in range(rank)])
        return te.max(_select(here, _cast("int32", k.var), const(-1, "int32")), axis=k)

    found = compute(output_shape, last, name="T_found", tag="comm_reduce")
    otherwise = _cast(
        sparse_values.dtype, default_value() if isinstance(default_value, Tensor) else expr(default_value)
    )

    def element(*i: Any) -> Any:
        value = sparse_values(binary("Max", found(*i), 0)) if sparse_values.ndim else sparse_values()
        return te.if_then_else(found(*i) >= 0, value, otherwise)

    return compute(output_shape, element, name="T_sparse_to_dense", tag=INJECTIVE)


def adv_index(data: Any, indices: Sequence[Any]) -> Any:
    """``data[indices[0], indices[1], ...]`` of NumPy: the indices are broadcast, further dimensions follow."""
    if len(indices) > data.ndim:
        raise TVMError(f"adv_index: {len(indices)} indices for {data.ndim} dimensions")
    wide: Any = indices[0]
    for other in indices[1:]:
        wide = compute(_broadcast_shapes(wide, other), lambda *_: const(0), name="T_shape", tag=INJECTIVE)
    rank = wide.ndim

    def element(*i: Any) -> Any:
        place: List[Any] = []
        for d, tensor in enumerate(indices):
            own = i[rank - tensor.ndim : rank]
            index = tensor(*[0 if e.node == "IntImm" and int(e) == 1 else v for e, v in zip(tensor.shape, own)])
            place.append(_select(index < 0, index + _cast(index.dtype, data.shape[d]), index))
        return data(*place, *i[rank:])

    shape = list(wide.shape) + list(data.shape[len(indices) :])
    return compute(shape, element, name="T_adv_index", tag=INJECTIVE)


def strided_set(a: Any, v: Any, begin: Any, end: Any, strides: Optional[Any] = None) -> Any:
    """``a`` with ``a[begin:end:strides] = v``. The three are lists, or tensors of one dimension."""
    given = [strides[d] if not isinstance(strides, Tensor) and strides is not None else 1 for d in range(a.ndim)]

    def number(values: Any, d: int) -> Any:
        return values(d) if isinstance(values, Tensor) else expr(values[d])

    def element(*i: Any) -> Any:
        inside, place = [], []
        for d, extent in enumerate(a.shape):
            step = number(strides, d) if isinstance(strides, Tensor) else expr(given[d])
            backwards = step < 0
            low = _select(backwards, expr(-1), expr(0)) + 0
            high = _select(backwards, extent - 1, extent + 0)

            def bound(value: Any, extent: Any = extent, low: Any = low, high: Any = high) -> Any:
                real = _select(value < 0, value + extent, value + 0)
                return binary("Min", binary("Max", real, low), high)

            first, stop = bound(number(begin, d)), bound(number(end, d))
            distance = _select(backwards, first - i[d], i[d] - first)
            size = _select(backwards, -step, step + 0)
            before_end = any_of(all_of(backwards, i[d] > stop), all_of(~backwards, i[d] < stop))
            inside.append(all_of(distance >= 0, before_end, te.floormod(distance, size).equal(0)))
            place.append(te.floordiv(distance, size))
        return te.if_then_else(all_of(*inside), v(*place), a(*i))

    return compute(a.shape, element, name="T_strided_set", tag=INJECTIVE)


def pixel_shuffle(x: Any, upscale_factor: int) -> Any:
    """Channels become pixels: ``[n, c * r * r, h, w]`` to ``[n, c, h * r, w * r]``."""
    n, channels, height, width = x.shape
    r = int(upscale_factor)
    kept = te.floordiv(channels, r * r)
    parts = transpose(reshape(x, [n, kept, r, r, height, width]), [0, 1, 4, 2, 5, 3])
    return reshape(parts, [n, kept, height * r, width * r])


__all__ = [
    "adv_index",
    "argsort",
    "einsum",
    "pixel_shuffle",
    "reinterpret",
    "sort",
    "sparse_to_dense",
    "strided_set",
    "topk",
]
