"""Tensors: what computes them, reductions, elements."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, Union

from .. import _native
from ._expr import IterVar, PrimExpr, Range, TVMError, binary, cast, const, dtype_text, expr, install_operators, var
from ._functions import max_value, min_value

_te = _native.te
Tensor = _te.Tensor
Operation = _te.Operation


class _OperationView(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Operation) and value.kind == cls.kind  # type: ignore[attr-defined]


PlaceholderOp = _OperationView("PlaceholderOp", (), {"kind": "placeholder"})
ComputeOp = _OperationView("ComputeOp", (), {"kind": "compute"})


class _CallView(_OperationView):
    def __instancecheck__(cls, value: Any) -> bool:
        return super().__instancecheck__(value) and "schedulable_ndim" in value.parts()


TensorComputeOp = _CallView("TensorComputeOp", (), {"kind": "compute"})
ScanOp = _OperationView("ScanOp", (), {"kind": "scan"})
ExternOp = _OperationView("ExternOp", (), {"kind": "extern"})


# --- elements -------------------------------------------------------------------------------------------------------


class TensorSlice:
    """``T[i]`` of a tensor with more dimensions; an element once all indices are there."""

    def __init__(self, tensor: Any, indices: Tuple[Any, ...]) -> None:
        self.tensor, self.indices = tensor, indices

    def __getitem__(self, indices: Any) -> "TensorSlice":
        return TensorSlice(self.tensor, self.indices + _tuple(indices))

    def asobject(self) -> PrimExpr:
        """The element."""
        return _element(self.tensor, self.indices)

    @property
    def dtype(self) -> str:
        """Of an element."""
        return self.tensor.dtype

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.asobject(), name)

    def __eq__(self, other: Any) -> Any:
        return self.asobject() == other

    def __ne__(self, other: Any) -> Any:
        return self.asobject() != other

    def __hash__(self) -> int:
        return hash(self.asobject())

    def __repr__(self) -> str:
        return f"{self.tensor.name}{list(self.indices)}"


install_operators(TensorSlice)


def _tuple(indices: Any) -> Tuple[Any, ...]:
    return indices if isinstance(indices, tuple) else (indices,)


def _element(tensor: Any, indices: Sequence[Any]) -> PrimExpr:
    if len(indices) != len(tensor.native_shape):
        raise ValueError(f"tensor {tensor.name} has {len(tensor.native_shape)} dimensions, not {len(indices)}")
    nodes = []
    for index in indices:
        if isinstance(index, (float, str, slice)) or index is None:
            raise ValueError(f"an index of {tensor.name} is an integer, not {index!r}")
        nodes.append(expr(index))
    return tensor.element(nodes)


class Shape(tuple):
    """Extents. Equal to tuples of the same expressions."""

    def __eq__(self, other: Any) -> bool:
        return len(self) == len(other) and all(bool(a == b) for a, b in zip(self, other))

    def __ne__(self, other: Any) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


def _tensor_eq(self: Any, other: Any) -> Any:
    if isinstance(other, Tensor):
        if not self.native_shape and not other.native_shape:
            raise ValueError("'==' of two tensors of rank 0: compare their elements, A() == B(), or use same_as")
        return self.same_as(other)
    if isinstance(other, (PrimExpr, TensorSlice, int, float)):
        return expr(self) == other
    return False


Tensor.__getitem__ = lambda self, indices: _element(self, ()) if indices == () else TensorSlice(self, _tuple(indices))
Tensor.__call__ = lambda self, *indices: _element(self, indices)
Tensor.__eq__ = _tensor_eq
Tensor.__ne__ = lambda self, other: not _tensor_eq(self, other)
Tensor.__hash__ = lambda self: hash(self.identity)
Tensor.__repr__ = lambda self: f"Tensor(shape={list(self.native_shape)}, op.name={self.op.name})"
Tensor.shape = property(lambda self: Shape(self.native_shape))
Tensor.ndim = property(lambda self: len(self.native_shape))
Tensor.axis = property(lambda self: self.op.axis)
Operation.__repr__ = lambda self: f"{self.kind}({self.name})"
Operation.attrs = property(lambda self: dict(self.attr_items))


def _operation_part(self: Any, name: str) -> Any:
    parts = {} if name.startswith("_") else self.parts()
    if name not in parts:
        raise AttributeError(f"{self!r} has no attribute '{name}'")
    return parts[name]


Operation.__getattr__ = _operation_part
Operation.shape = property(lambda self: Shape(self.output(0).native_shape))
Operation.dtype = property(lambda self: self.output(0).dtype)


# --- tensors from tensors -------------------------------------------------------------------------------------------


def _broadcast_shapes(a: Any, b: Any) -> List[PrimExpr]:
    shape: List[PrimExpr] = []
    long, short = (a, b) if a.ndim >= b.ndim else (b, a)
    skipped = long.ndim - short.ndim
    for i, extent in enumerate(long.shape):
        other = short.shape[i - skipped] if i >= skipped else const(1)
        if _is_one(extent):
            shape.append(other)
        elif _is_one(other) or bool(extent == other) or _te.NativeAnalyzer().can_prove(binary("EQ", extent, other)):
            shape.append(extent)
        elif extent.node == "IntImm" and other.node == "IntImm":
            raise TVMError(f"shapes {list(a.shape)} and {list(b.shape)} can't be broadcast")
        else:
            shape.append(extent if extent.node != "IntImm" else other)
    return shape


def _is_one(extent: PrimExpr) -> bool:
    return extent.node == "IntImm" and extent.value == 1


def _broadcast_element(tensor: Any, indices: Sequence[Any]) -> PrimExpr:
    own = indices[len(indices) - tensor.ndim :]
    return _element(tensor, [0 if _is_one(e) else i for e, i in zip(tensor.shape, own)])


def _tensor_operator(node: str, reflected: bool = False) -> Any:
    def scalar_of(a: Any, b: Any) -> Any:
        if node == "Div":
            return expr(a) / b if not isinstance(a, (int, float)) else a / expr(b)
        return binary(node, a, b)

    def method(self: Any, other: Any) -> Any:
        if isinstance(other, Tensor):
            shape = _broadcast_shapes(self, other)
            return compute(
                shape,
                lambda *i: scalar_of(_broadcast_element(self, i), _broadcast_element(other, i)),
                name="T_" + node.lower(),
                tag="broadcast",
            )
        if isinstance(other, IterVar) or other is None or isinstance(other, (str, list, tuple)):
            return NotImplemented
        return compute(
            self.shape,
            lambda *i: scalar_of(other, self(*i)) if reflected else scalar_of(self(*i), other),
            name="T_" + node.lower(),
            tag="elemwise",
        )

    return method


for _name, _node in {"add": "Add", "sub": "Sub", "mul": "Mul", "truediv": "Div"}.items():
    setattr(Tensor, f"__{_name}__", _tensor_operator(_node))
    setattr(Tensor, f"__r{_name}__", _tensor_operator(_node, reflected=True))
Tensor.__neg__ = lambda self: compute(self.shape, lambda *i: -self(*i), name="T_negative", tag="elemwise")
Tensor.astype = lambda self, dtype: compute(self.shape, lambda *i: cast(dtype, self(*i)), name="T_cast", tag="elemwise")


# --- making ---------------------------------------------------------------------------------------------------------


def _extents(shape: Any) -> List[PrimExpr]:
    if isinstance(shape, (int, float, PrimExpr, IterVar)):
        shape = (shape,)
    nodes = []
    for extent in shape:
        node = expr(int(extent)) if isinstance(extent, float) else expr(extent)
        if node.dtype in ("int8", "uint8", "int16", "uint16", "uint32"):
            node = cast("int32", node)
        if node.dtype not in ("int32", "int64"):
            raise ValueError(f"an extent is an integer, not {node.dtype}: {node}")
        if node.node == "IntImm" and node.value < 0:
            raise ValueError(f"an extent is at least 0, not {node}")
        nodes.append(node)
    return nodes


def placeholder(shape: Any, dtype: Any = None, name: str = "placeholder") -> Any:
    """A tensor that the caller gives; ``dtype`` None is ``float32``."""
    return _te.placeholder(name, _extents(shape), dtype_text(dtype or "float32"))


_tags: List[str] = []


class tag_scope(contextlib.ContextDecorator):
    """Inside, what is computed gets this tag."""

    def __init__(self, tag: str) -> None:
        self.tag = tag

    def __enter__(self) -> "tag_scope":
        if _tags:
            raise ValueError("tag scopes can't be nested")
        _tags.append(self.tag)
        return self

    def __exit__(self, *_: Any) -> None:
        _tags.pop()


def _current_tag(tag: str) -> str:
    if _tags and tag:
        raise ValueError("a tag inside a tag scope")
    return _tags[-1] if _tags else tag


def _axis_names(fcompute: Callable[..., Any], rank: int, varargs: Optional[Sequence[str]]) -> List[str]:
    spec = inspect.getfullargspec(fcompute)
    arguments = spec.args[1:] if inspect.ismethod(fcompute) else spec.args
    if isinstance(fcompute, functools.partial):
        arguments = arguments[len(fcompute.args) :]
    assert not spec.kwonlyargs and spec.varkw is None and not spec.defaults, (
        "the function of a compute takes positional arguments only, without defaults"
    )
    if spec.varargs is not None:
        rest = rank - len(arguments)
        if varargs is not None and len(varargs) != rest:
            raise RuntimeError(f"varargs_names has {len(varargs)} names for {rest} axes")
        names = list(varargs) if varargs is not None else [f"i{k}" for k in range(len(arguments), rank)]
        return list(arguments) + names
    if not arguments:
        return [f"i{k}" for k in range(rank)]
    if len(arguments) > rank:
        raise ValueError(f"a shape of {rank} dimensions and a function of {len(arguments)} indices")
    return list(arguments)


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Any = None,
    varargs_names: Optional[Sequence[str]] = None,
) -> Any:
    """The tensor whose element ``[i, j, ...]`` is ``fcompute(i, j, ...)``; a tuple of tensors for a list."""
    tag = _current_tag(tag)
    extents = _extents(shape)
    names = _axis_names(fcompute, len(extents), varargs_names)
    takes = bool(inspect.getfullargspec(fcompute).args or inspect.getfullargspec(fcompute).varargs)
    axes = []
    for axis_name, extent in zip(names, extents):
        low = const(0, extent.dtype)
        axes.append(IterVar(var(axis_name, extent.dtype), _te.NativeRange(low, extent), 0))
    value = fcompute(*[axis.var for axis in axes]) if takes else fcompute()
    if hasattr(type(value), "make"):  # the call of an intrinsic, which has the other axes
        op = value.make(name, tag, axes, extents, _attributes(attrs))
        return op.output(0) if op.num_outputs == 1 else tuple(op.output(i) for i in range(op.num_outputs))
    if len(axes) != len(extents):
        raise ValueError(f"a shape of {len(extents)} dimensions and a function of {len(axes)} indices")
    several = isinstance(value, (list, tuple))
    body = [expr(v) for v in (value if several else [value])]
    op = _te.compute(name, tag, axes, body, _attributes(attrs))
    return tuple(op.output(i) for i in range(op.num_outputs)) if several else op.output(0)


def _attributes(attrs: Any) -> List[Any]:
    """Numbers and texts as constants. Others are not kept."""
    items = dict(attrs or {}).items()
    return [(str(k), expr(v)) for k, v in items if isinstance(v, (str, int, float, bool, PrimExpr))]


def scan(
    init: Any,
    update: Any,
    state_placeholder: Any,
    inputs: Any = None,
    name: str = "scan",
    tag: str = "",
    attrs: Any = None,
) -> Any:
    """State over time: ``init`` for the first steps, then ``update``, which reads ``state_placeholder`` at steps
    before.

    What depends on the state, or on ``inputs``, is computed once per step.
    """
    tag = _current_tag(tag)
    lists = [_list(init), _list(update), _list(state_placeholder)]
    if len({len(part) for part in lists}) != 1:
        raise ValueError("scan: init, update and state_placeholder need as many tensors each")
    op = _te.scan(name, tag, *lists, _list(inputs or []), _attributes(attrs))
    outputs = [op.output(i) for i in range(op.num_outputs)]
    return outputs[0] if len(outputs) == 1 else outputs


def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "") -> Any:
    """An axis to reduce over: ``(begin, end)`` or a ``Range``."""
    if not isinstance(dom, Range):
        if not isinstance(dom, (tuple, list)) or len(dom) != 2:
            raise TypeError("the domain of a reduction axis is (begin, end) or a Range")
        dom = Range(dom[0], dom[1])
    native = dom.native()
    return IterVar(var(name, native.extent.dtype), native, 2, thread_tag)


_THREADS = {f"{k}Idx.{d}" for k in ("block", "thread") for d in "xyz"} | {"vthread", "cthread", "tec"}


def thread_axis(dom: Any = None, tag: str = "", name: str = "") -> Any:
    """An axis of threads."""
    if isinstance(dom, str):
        dom, tag = None, dom
    if not tag:
        raise ValueError("a thread axis needs a tag")
    if dom is not None and not isinstance(dom, Range):
        dom = Range(*dom) if isinstance(dom, (tuple, list)) else Range(dom)
    return IterVar(var(name or tag), None if dom is None else dom.native(), 1, tag)


# --- reductions -----------------------------------------------------------------------------------------------------

Values = Union[PrimExpr, Sequence[PrimExpr]]


def _list(value: Any) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def comm_reducer(fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce") -> Any:
    """A function that reduces with ``fcombine(x, y)``, starting from ``fidentity(dtype)``."""

    def make(source: Any, axis: Any, where: Any = None, init: Any = None) -> Any:
        several = isinstance(source, (list, tuple))
        nodes = [expr(e) for e in _list(source)]
        dtypes = [e.dtype for e in nodes]
        lhs = [var(f"x{i}" if several else "x", d) for i, d in enumerate(dtypes)]
        rhs = [var(f"y{i}" if several else "y", d) for i, d in enumerate(dtypes)]
        result = _list(fcombine(lhs, rhs) if several else fcombine(lhs[0], rhs[0]))
        identity = _list(fidentity(*dtypes))
        result = [cast(d, r) for d, r in zip(dtypes, result)]
        identity = [cast(d, i) for d, i in zip(dtypes, identity)]
        combiner = _te.CommReducer(name, lhs, rhs, result, identity)
        axes = _list(axis)
        for one in axes:
            if not isinstance(one, IterVar):
                raise TypeError(f"axis: a reduction axis or a list of them, not {type(one).__name__}")
        starts = [] if init is None else [_init_value(i, d) for i, d in zip(_list(init), dtypes)]
        condition = None if where is None else expr(where)
        values = [_te.reduce(combiner, nodes, axes, condition, starts, i) for i in range(len(nodes))]
        return tuple(values) if several else values[0]

    def reducer(*args: Any, axis: Any = None, where: Any = None, init: Any = None) -> Any:
        if axis is None and len(args) > 1 and _is_axis(args[1]):
            axis, args = args[1], (args[0],) + args[2:]
            if len(args) > 1:
                where = args[1]
            if len(args) > 2:
                init = args[2]
            args = args[:1]
        if axis is None:
            if len(args) < 2:
                raise ValueError(f"{name}: an axis, or at least two expressions to combine")
            return functools.reduce(fcombine, [expr(a) for a in args])
        assert len(args) == 1, f"{name}: one expression to reduce"
        return make(args[0], axis, where, init)

    reducer.__name__ = name
    return reducer


def _is_axis(value: Any) -> bool:
    return isinstance(value, IterVar) or (
        isinstance(value, (list, tuple)) and bool(value) and all(isinstance(v, IterVar) for v in value)
    )


def _init_value(value: Any, dtype: str) -> PrimExpr:
    node = expr(value)
    assert node.node in ("IntImm", "FloatImm", "ProducerLoad"), "init is a constant or an element of a tensor"
    return cast(dtype, node)


sum = comm_reducer(lambda x, y: x + y, lambda t: const(0, t), name="sum")
min = comm_reducer(lambda x, y: binary("Min", x, y), max_value, name="min")
max = comm_reducer(lambda x, y: binary("Max", x, y), min_value, name="max")


def operations(tensors: Any) -> Iterator[Any]:
    """The operations of tensors or operations, in a list or alone."""
    for one in _list(tensors):
        if isinstance(one, Tensor):
            yield one.op
        elif isinstance(one, Operation):
            yield one
        else:
            raise ValueError(f"a tensor or an operation, not {type(one).__name__}")
