"""A small library of operators, each a line or two of tensor expression, with the meaning and the names of NumPy."""

from __future__ import annotations

import builtins
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from .. import te
from ..te._expr import _select, binary, const, expr
from ..te._expr import cast as _cast
from ..te._functions import FUNCTIONS
from ..te._functions import all as all_of
from ..te._tensor import Tensor, _broadcast_element, _broadcast_shapes, comm_reducer, compute, reduce_axis

ELEMWISE, BROADCAST, INJECTIVE = "elemwise", "broadcast", "injective"
Axes = Union[None, int, Sequence[int]]


# --- elementwise ------------------------------------------------------------------------------------------------------


def _map(x: Any, f: Callable[[Any], Any], name: str) -> Any:
    if isinstance(x, Tensor):
        return compute(x.shape, lambda *i: f(x(*i)), name="T_" + name, tag=ELEMWISE)
    return f(expr(x))


def _unary(name: str) -> Callable[[Any], Any]:
    function = FUNCTIONS[name]

    def operator(x: Any) -> Any:
        return _map(x, function, name)

    operator.__name__, operator.__doc__ = name, f"``{name}`` of each element."
    return operator


_UNARY = (
    "exp log log2 log10 sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf sigmoid "
    "floor ceil trunc round abs isnan isinf isfinite"
).split()
globals().update({name: _unary(name) for name in _UNARY})


def sign(x: Any) -> Any:
    """-1, 0 or 1."""

    def one(v: Any) -> Any:
        zero, plus, minus = (const(k, v.dtype) for k in (0, 1, -1))
        return _select(v < zero, minus, _select(v > zero, plus, zero))

    return _map(x, one, "sign")


def negative(x: Any) -> Any:
    """``-x``."""
    return _map(x, lambda v: -v, "negative")


def identity(x: Any) -> Any:
    """A copy."""
    return _map(x, lambda v: v, "identity")


def clip(x: Any, a_min: Any, a_max: Any) -> Any:
    """Each element within two bounds, which become the type of ``x``."""
    return _map(x, lambda v: binary("Max", binary("Min", v, const(a_max, v.dtype)), const(a_min, v.dtype)), "clip")


def cast(x: Any, dtype: Any) -> Any:
    """Each element as another type."""
    return _map(x, lambda v: _cast(dtype, v), "cast")


def fast_exp(x: Any) -> Any:
    """``exp``, which is as fast as it is exact here."""
    return _map(x, FUNCTIONS["exp"], "fast_exp")


def fast_tanh(x: Any) -> Any:
    """``tanh``, which is as fast as it is exact here."""
    return _map(x, FUNCTIONS["tanh"], "fast_tanh")


def fast_erf(x: Any) -> Any:
    """``erf``, which is as fast as it is exact here."""
    return _map(x, FUNCTIONS["erf"], "fast_erf")


# --- two operands, broadcast ------------------------------------------------------------------------------------------


def _combine(a: Any, b: Any, f: Callable[[Any, Any], Any], name: str) -> Any:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        shape = _broadcast_shapes(a, b)
        return compute(
            shape, lambda *i: f(_broadcast_element(a, i), _broadcast_element(b, i)), name="T_" + name, tag=BROADCAST
        )
    if isinstance(a, Tensor):
        return compute(a.shape, lambda *i: f(a(*i), b), name="T_" + name, tag=ELEMWISE)
    if isinstance(b, Tensor):
        return compute(b.shape, lambda *i: f(a, b(*i)), name="T_" + name, tag=ELEMWISE)
    return f(a, b)


def _two(name: str, f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def operator(lhs: Any, rhs: Any) -> Any:
        return _combine(lhs, rhs, f, name)

    operator.__name__, operator.__doc__ = name, f"``{name}`` of two operands, broadcast."
    return operator


# Quotients and remainders of floats, which the nodes have for integers alone.
_OF_FLOATS: Dict[str, Callable[[Any, Any], Any]] = {
    "FloorDiv": lambda a, b: te.floor(binary("Div", a, b)),
    "FloorMod": lambda a, b: binary("Sub", a, te.floor(binary("Div", a, b)) * b),
    "Mod": lambda a, b: te.fmod(a, b),
}


def _node(node: str) -> Callable[[Any, Any], Any]:
    def combine(a: Any, b: Any) -> Any:
        dtypes = "".join(str(getattr(x, "dtype", type(x).__name__)) for x in (a, b))
        return _OF_FLOATS[node](a, b) if node in _OF_FLOATS and "float" in dtypes else binary(node, a, b)

    return combine


_BINARY = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "floor_divide": "FloorDiv",
    "floor_mod": "FloorMod",
    "mod": "Mod",
    "maximum": "Max",
    "minimum": "Min",
    "left_shift": "Shl",
    "right_shift": "Shr",
    "equal": "EQ",
    "not_equal": "NE",
    "less": "LT",
    "less_equal": "LE",
    "greater": "GT",
    "greater_equal": "GE",
    "logical_and": "And",
    "logical_or": "Or",
    "bitwise_and": "BitAnd",
    "bitwise_or": "BitOr",
    "bitwise_xor": "BitXor",
}
globals().update({name: _two(name, _node(node)) for name, node in _BINARY.items()})
power = _two("power", FUNCTIONS["power"])


def logical_not(x: Any) -> Any:
    """Not, of bools."""
    return _map(x, lambda v: ~v, "logical_not")


def logical_xor(x: Any, y: Any) -> Any:
    """Whether one of two bools is true, not both."""
    return not_equal(x, y)  # noqa: F821  made above


def bitwise_not(x: Any) -> Any:
    """All bits turned over."""
    return _map(x, lambda v: ~v, "bitwise_not")


# --- shapes -----------------------------------------------------------------------------------------------------------


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise te._expr.TVMError(f"axis {axis} of a tensor of {rank} dimensions")
    return axis % rank


def broadcast_to(x: Any, shape: Sequence[Any]) -> Any:
    """The tensor at a larger shape."""
    return compute(shape, lambda *i: _broadcast_element(x, i), name="T_broadcast_to", tag=BROADCAST)


def expand_dims(x: Any, axis: int, num_newaxis: int = 1) -> Any:
    """Dimensions of extent 1, put in at ``axis``."""
    at = _axis(axis, x.ndim + 1)
    shape = list(x.shape[:at]) + [1] * num_newaxis + list(x.shape[at:])
    return compute(shape, lambda *i: x(*i[:at], *i[at + num_newaxis :]), name="T_expand_dims", tag=BROADCAST)


def squeeze(x: Any, axis: Axes = None) -> Any:
    """Without dimensions of extent 1."""
    ones = [d for d, e in enumerate(x.shape) if e.node == "IntImm" and int(e) == 1]
    gone = ones if axis is None else [_axis(a, x.ndim) for a in _list(axis)]
    if builtins.any(d not in ones for d in gone):
        raise te._expr.TVMError(f"squeeze: an extent is not 1 in {list(x.shape)}")
    kept = [d for d in range(x.ndim) if d not in gone]

    def element(*i: Any) -> Any:
        full: List[Any] = [0] * x.ndim
        for d, index in zip(kept, i):
            full[d] = index
        return x(*full)

    return compute([x.shape[d] for d in kept], element, name="T_squeeze", tag=INJECTIVE)


def transpose(x: Any, axes: Optional[Sequence[int]] = None) -> Any:
    """The dimensions in another order, reversed by default."""
    order = [_axis(a, x.ndim) for a in axes] if axes is not None else list(reversed(range(x.ndim)))
    if sorted(order) != list(range(x.ndim)):
        raise te._expr.TVMError(f"transpose: {list(axes or [])} is no order of {x.ndim} axes")
    shape = [x.shape[d] for d in order]
    return compute(shape, lambda *i: x(*[i[order.index(d)] for d in range(x.ndim)]), name="T_transpose", tag=INJECTIVE)


def _flat(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    flat: Any = const(0)
    for index, extent in zip(indices, shape):
        flat = flat * extent + index
    return flat


def _unflat(flat: Any, shape: Sequence[Any]) -> List[Any]:
    indices: List[Any] = []
    for extent in reversed(list(shape)[1:]):
        indices.append(te.floormod(flat, extent))
        flat = te.floordiv(flat, extent)
    return ([flat] + indices[::-1]) if len(shape) else []


def reshape(x: Any, newshape: Sequence[Any]) -> Any:
    """The elements in the same order at another shape."""
    return compute(newshape, lambda *i: x(*_unflat(_flat(i, newshape), x.shape)), name="T_reshape", tag=INJECTIVE)


def flip(x: Any, axis: int = 0) -> Any:
    """One axis backwards."""
    at = _axis(axis, x.ndim)
    return compute(x.shape, lambda *i: x(*i[:at], x.shape[at] - 1 - i[at], *i[at + 1 :]), name="T_flip", tag=INJECTIVE)


def concatenate(tensors: Sequence[Any], axis: int = 0) -> Any:
    """Tensors one behind the other."""
    first = tensors[0]
    at = _axis(axis, first.ndim)
    ends: List[Any] = []
    for x in tensors:
        ends.append(x.shape[at] + (ends[-1] if ends else 0))

    def element(*i: Any) -> Any:
        value = tensors[0](*i)
        for x, start in zip(tensors[1:], ends):
            inside = x(*i[:at], i[at] - start, *i[at + 1 :])
            value = te.if_then_else(i[at] < start, value, inside)
        return value

    shape = list(first.shape)
    shape[at] = ends[-1]
    return compute(shape, element, name="T_concat", tag=INJECTIVE)


def stack(tensors: Sequence[Any], axis: int = 0) -> Any:
    """Tensors along a new axis."""
    return concatenate([expand_dims(x, axis) for x in tensors], axis)


def tile(x: Any, reps: Sequence[int]) -> Any:
    """The tensor repeated along its axes; the shorter of shape and repetitions has ones in front."""
    front = builtins.max(len(reps) - x.ndim, 0)
    extents = [const(1)] * front + list(x.shape)
    counts = [1] * (len(extents) - len(reps)) + list(reps)
    shape = [e * r for e, r in zip(extents, counts)]
    return compute(
        shape, lambda *i: x(*[te.floormod(v, e) for v, e in zip(i[front:], x.shape)]), name="T_tile", tag=BROADCAST
    )


def repeat(x: Any, repeats: int, axis: int) -> Any:
    """Each element so many times along an axis."""
    at = _axis(axis, x.ndim)
    shape = list(x.shape)
    shape[at] = shape[at] * repeats
    return compute(
        shape, lambda *i: x(*i[:at], te.floordiv(i[at], repeats), *i[at + 1 :]), name="T_repeat", tag=BROADCAST
    )


def take(x: Any, indices: Any, axis: Optional[int] = None, mode: str = "clip") -> Any:
    """The elements at ``indices`` along an axis (None: of the flat tensor); ``mode`` is clip, wrap or fast."""
    if mode not in ("clip", "wrap", "fast"):
        raise te._expr.TVMError(f"take: unknown mode {mode!r}")
    if axis is None:
        count: Any = const(1)
        for e in x.shape:
            count = count * e
        return take(reshape(x, [count]), indices, 0, mode)
    at = _axis(axis, x.ndim)
    extent = x.shape[at]

    def place(index: Any) -> Any:
        if mode == "clip":
            return binary("Max", binary("Min", index, extent - 1), 0)
        return te.floormod(index, extent) if mode == "wrap" else index

    shape = list(x.shape[:at]) + list(indices.shape) + list(x.shape[at + 1 :])
    n = indices.ndim
    return compute(
        shape, lambda *i: x(*i[:at], place(indices(*i[at : at + n])), *i[at + n :]), name="T_take", tag=INJECTIVE
    )


def full(shape: Sequence[Any], dtype: Any, fill_value: Any) -> Any:
    """A constant everywhere."""
    return compute(shape, lambda *i: const(fill_value, dtype), name="T_full", tag=ELEMWISE)


def full_like(x: Any, fill_value: Any) -> Any:
    """A constant at the shape and type of a tensor."""
    return full(x.shape, x.dtype, fill_value)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: str = "float32") -> Any:
    """``start, start + step, ...`` before ``stop``."""
    start, stop = (0, start) if stop is None else (start, stop)
    count = builtins.max(0, -int(-(stop - start) // step))
    return compute((count,), lambda i: _cast(dtype, i * step + start), name="T_arange", tag=INJECTIVE)


# --- reductions -------------------------------------------------------------------------------------------------------


def _list(value: Any) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _reduced(x: Any, axis: Axes) -> List[int]:
    if x.ndim == 0:
        raise te._expr.TVMError("a reduction of a tensor of rank 0")
    axes = range(x.ndim) if axis is None else _list(axis)
    return sorted({_axis(a, x.ndim) for a in axes})


def _reduce(
    x: Any, axis: Axes, keepdims: bool, make: Callable[[List[Any], List[Any], List[int]], Any], tag: str
) -> Any:
    gone = _reduced(x, axis)
    axes = {d: reduce_axis((0, x.shape[d]), name=f"k{d}") for d in gone}
    kept = [d for d in range(x.ndim) if d not in gone]
    shape = [1 if d in gone else x.shape[d] for d in range(x.ndim)] if keepdims else [x.shape[d] for d in kept]

    def element(*i: Any) -> Any:
        own = dict(zip(range(x.ndim), i)) if keepdims else dict(zip(kept, i))
        indices = [axes[d].var if d in axes else own[d] for d in range(x.ndim)]
        return make(indices, [axes[d] for d in gone], gone)

    return compute(shape, element, name=f"{x.op.name}_red", tag=tag)


_prod = comm_reducer(lambda a, b: a * b, lambda t: const(1, t), name="prod")
_all = comm_reducer(lambda a, b: binary("And", a, b), lambda t: const(True, t), name="all")
_any = comm_reducer(lambda a, b: binary("Or", a, b), lambda t: const(False, t), name="any")


def _reduction(name: str, reducer: Any) -> Callable[..., Any]:
    def operator(data: Any, axis: Axes = None, keepdims: bool = False) -> Any:
        if axis is not None and _list(axis) == []:
            return identity(data)
        return _reduce(data, axis, keepdims, lambda i, axes, _: reducer(data(*i), axis=axes), "comm_reduce")

    operator.__name__, operator.__doc__ = name, f"``{name}`` over axes, all by default."
    return operator


_sum_of_numbers = _reduction("sum", te.sum)
prod = _reduction("prod", _prod)
max = _reduction("max", te.max)
min = _reduction("min", te.min)
all = _reduction("all", _all)
any = _reduction("any", _any)


def sum(data: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """``sum`` over axes, all by default; of bools whether one of them holds."""
    return (any if data.dtype == "bool" else _sum_of_numbers)(data, axis, keepdims)


def _arg(name: str, better: str, worst: Callable[[Any], Any]) -> Callable[..., Any]:
    def combine(last: bool) -> Callable[[Any, Any], Any]:
        def pick(a: Any, b: Any) -> Any:
            tie = a[0] > b[0] if last else a[0] < b[0]
            # an index of -1 is no element yet
            some = all_of(a[0] >= 0, binary("Or", b[0] < 0, binary(better, a[1], b[1])))
            take_a = binary("Or", some, all_of(a[0] >= 0, binary("EQ", a[1], b[1]), tie))
            return [_select(take_a, a[0], b[0]), _select(take_a, a[1], b[1])]

        return pick

    def operator(data: Any, axis: Axes = None, keepdims: bool = False, select_last_index: bool = False) -> Any:
        reducer = comm_reducer(combine(select_last_index), lambda t0, t1: [const(-1, t0), worst(t1)], name=name)

        def make(indices: List[Any], axes: List[Any], gone: List[int]) -> Any:
            flat = _flat([indices[d] for d in gone], [data.shape[d] for d in gone])
            return list(reducer((_cast("int32", flat), data(*indices)), axis=axes))

        index, _ = _reduce(data, axis, keepdims, make, "comm_reduce_idx")
        return compute(index.shape, lambda *i: index(*i), name=f"{data.op.name}_{name}", tag="comm_reduce_idx")

    operator.__name__, operator.__doc__ = name, f"The index of the {name[3:]}imum, the first of equal ones; int32."
    return operator


argmax = _arg("argmax", "GT", te.min_value)
argmin = _arg("argmin", "LT", te.max_value)
