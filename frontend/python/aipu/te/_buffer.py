"""Buffers, and the statements that are written by hand: bodies of ``te.extern`` and of tensor intrinsics."""

from __future__ import annotations

import weakref
from typing import Any, List, Optional, Sequence, Tuple

from .. import _native
from ._expr import IterVar, PrimExpr, Stmt, TVMError, _View, cast, const, dtype_text, element_and_lanes, expr, var
from ._functions import FUNCTIONS
from ._intrin_call import IntrinCall
from ._tensor import Tensor, TensorSlice, _extents

_te = _native.te

_of_data: Any = weakref.WeakValueDictionary()  # buffers by the variables that stand for their addresses


def lane_of(e: PrimExpr, lane: PrimExpr) -> PrimExpr:
    """A lane of an expression; of one without lanes the expression."""
    element, lanes = element_and_lanes(e.dtype)
    if lanes == 1:
        return e
    f = e.fields()
    if e.node == "Cast":
        return cast(element, lane_of(f["value"], lane))
    if e.node == "Select":
        return _te.select(*[lane_of(f[name], lane) for name in ("condition", "true_value", "false_value")])
    if e.node == "Not":
        return _te.logical_not(lane_of(f["a"], lane))
    if e.node == "Call" and f["function"] == "broadcast":
        return f["args"][0]
    if e.node == "Call" and f["function"] == "ramp":
        return f["args"][0] + f["args"][1] * cast(element, lane)
    if e.node == "Call" and f["function"] == "vload":
        parts = f["args"][0].fields()
        return parts["producer"].element([*parts["indices"][:-1], parts["indices"][-1] + lane])
    if e.node == "Call":
        return _te.call(f["function"], [lane_of(a, lane) for a in f["args"]])
    if "b" in f:
        return _te.binary(e.node, lane_of(f["a"], lane), lane_of(f["b"], lane))
    raise TVMError(f"{e}: a vector of this kind is not supported")


class Buffer:
    """Memory of a tensor: its shape, and the strides in elements, None where it is compact.

    ``buffer_type="auto_broadcast"``: a dimension whose size is 1 when the function is called stands for any extent.
    """

    def __init__(
        self,
        shape: Sequence[Any],
        dtype: str,
        name: str,
        strides: Optional[Sequence[Any]] = None,
        elem_offset: Any = None,
        scope: str = "",
        data_alignment: int = -1,
        offset_factor: int = 0,
        buffer_type: str = "",
    ) -> None:
        self.tensor = _te.placeholder(name, _extents(shape), dtype_text(dtype))
        self.name, self.dtype = name, self.tensor.dtype
        self.data = var(name, "handle")
        _of_data[self.data.key()] = self
        if buffer_type == "auto_broadcast" and not strides:
            strides = [var(f"stride{d}") for d in range(self.tensor.ndim)]
        self.strides: List[PrimExpr] = [expr(s) for s in strides or []]
        if self.strides and len(self.strides) != self.tensor.ndim:
            raise ValueError(f"buffer {name}: {len(self.strides)} strides for {self.tensor.ndim} dimensions")
        self.elem_offset = const(0) if elem_offset is None else expr(elem_offset)
        self.data_alignment, self.offset_factor, self.buffer_type = data_alignment, offset_factor, buffer_type
        self._scope = scope

    @property
    def shape(self) -> Any:
        """The extents."""
        return self.tensor.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.tensor.ndim

    def same_as(self, other: Any) -> bool:
        """Whether it is the same object."""
        return self is other

    def scope(self) -> str:
        """The memory; ``global`` where none is named."""
        return self._scope or "global"

    def access_ptr(self, access_mask: Any, ptr_type: str = "handle", offset: Any = 0, extent: Any = None) -> Any:
        """The address, for functions that are called by name. ``access_mask``: ``"r"``, ``"w"`` or ``"rw"``."""
        if isinstance(access_mask, str) and set(access_mask) - set("rw"):
            raise ValueError(f"access_ptr: a mask of r and w, not {access_mask!r}")
        mask = access_mask if isinstance(access_mask, int) else 1 * ("r" in access_mask) + 2 * ("w" in access_mask)
        return AccessPointer(self, expr(offset), mask, extent)

    def vload(self, begin: Any, dtype: Any = None) -> PrimExpr:
        """The element at ``begin``; with a dtype of several lanes the elements from there on."""
        lanes = self._lanes("vload", dtype)
        return self[begin] if lanes == 1 else _te.packed_value("vload", dtype_text(dtype), [self[begin]])

    def vstore(self, begin: Any, value: Any) -> Any:
        """A statement that stores an element at ``begin``, or several from there on: a vectorized loop."""
        node = expr(value)
        lanes = self._lanes("vstore", node.dtype)
        if lanes == 1:
            return _te.stmt_store(self.tensor, _indices(self, begin), node)
        lane = var("lane")
        given = list(begin) if isinstance(begin, (tuple, list)) else [begin]
        given[-1] = given[-1] + lane
        store = _te.stmt_store(self.tensor, _indices(self, given), lane_of(node, lane))
        return _te.stmt_for(lane, const(lanes), 2, store)

    def _lanes(self, what: str, dtype: Any) -> int:
        element, _, lanes = (self.dtype if dtype is None else dtype_text(dtype)).partition("x")
        if element != self.dtype:
            raise TVMError(f"{what} of buffer {self.name}: elements of type {dtype} are not supported")
        return int(lanes or 1)

    def __getitem__(self, indices: Any) -> PrimExpr:
        return self.tensor.element(_indices(self, indices))

    def __repr__(self) -> str:
        return f"buffer({self.name}, {list(self.shape)}, {self.dtype})"


class AccessPointer:
    """The address of a buffer's memory."""

    def __init__(self, buffer: Buffer, offset: PrimExpr, mask: int, extent: Any) -> None:
        self.buffer, self.offset, self.dtype = buffer, offset, "handle"
        self._mask, self._extent = mask, extent

    @property
    def args(self) -> List[Any]:
        """An element of the type, the buffer's data, the offset, how many elements, 1 (read) + 2 (written)."""
        shape = list(self.buffer.shape)
        extent = self._extent
        if extent is None:
            count = const(1)
            for e in shape if not self.buffer.strides else [self.buffer.strides[0], shape[0]]:
                count = count * e
            extent = count - self.offset
        return [const(0, self.buffer.dtype), self.buffer.data, self.offset, expr(extent), const(self._mask)]


def decl_buffer(
    shape: Any, dtype: Any = None, name: str = "buffer", data: Any = None, *rest: Any, **more: Any
) -> Buffer:
    """A buffer; ``dtype`` None is ``float32``. Strides that are variables take those of the memory it stands for.

    ``rest`` and ``more``: as :class:`Buffer` has them from ``strides`` on; ``data`` is not looked at.
    """
    return Buffer(shape if isinstance(shape, (list, tuple)) else (shape,), dtype or "float32", name, *rest, **more)


def _indices(buffer: Any, indices: Any) -> List[PrimExpr]:
    """A single index counts the elements of a compact buffer."""
    given = [expr(i) for i in (indices if isinstance(indices, (tuple, list)) else (indices,))]
    tensor = buffer.tensor
    if len(given) == tensor.ndim:
        return given
    if len(given) != 1:
        raise ValueError(f"buffer {tensor.name} has {tensor.ndim} dimensions, not {len(given)}")
    flat, result = given[0], []
    for extent in reversed(list(tensor.shape)[1:]):
        result.append(flat % extent)
        flat = flat // extent
    return [flat] + result[::-1] if tensor.ndim else []


# --- statements -------------------------------------------------------------------------------------------------------


def call_packed(name: str, *args: Any) -> Any:
    """A call of the registered function ``name`` when the compiled function runs: buffers arrive as arrays."""
    return _call_by_name(str(name), args, False)


def _call_by_name(name: str, args: Sequence[Any], is_c: bool) -> Any:
    values = []
    for arg in args:
        if isinstance(arg, (Buffer, BufferPointer)):
            values.append((arg.tensor, _whole(arg.tensor), False))
        elif isinstance(arg, AccessPointer):
            values.append(_pointer(arg))
        elif isinstance(arg, PrimExpr) and arg.key() in _of_data:
            values.append((_of_data[arg.key()].tensor, _whole(_of_data[arg.key()].tensor), True))
        else:
            values.append(expr(arg))
    return _te.stmt_packed(name, values, is_c)


# Functions of C's library that expressions have.
_C_FUNCTIONS = {name + end: name for name in FUNCTIONS for end in ("", "f")}
_C_FUNCTIONS.update(
    {f"{name}{end}": of for name, of in (("pow", "power"), ("fabs", "abs"), ("rint", "nearbyint")) for end in ("", "f")}
)


def call_extern(dtype: Any, name: str, *args: Any) -> Any:
    """A call of a C function: with addresses a statement, whose function is one of ``pragma(axis, "import_c", text)``
    or of the process; of numbers alone a value, for functions of C's mathematical library.
    """
    if any(isinstance(arg, (Buffer, BufferPointer, AccessPointer)) for arg in args):
        pointers = [arg.access_ptr("rw") if isinstance(arg, Buffer) else arg for arg in args]
        return _call_by_name(str(name), pointers, True)
    if name not in _C_FUNCTIONS:
        raise TVMError(f"call_extern: '{name}' of numbers is no function of C's mathematical library")
    return cast(dtype, FUNCTIONS[_C_FUNCTIONS[name]](*args))


def trace(args: Any, trace_action: str = "tvm.default_trace_action") -> Any:
    """The last of the values, after a call of the registered function ``trace_action`` with all of them, which prints
    by default. What that returns, if anything, takes the place of the value.
    """
    nodes = [expr(a) for a in args]
    if not nodes:
        raise ValueError("trace: at least one value")
    return _te.packed_value("trace", nodes[-1].dtype, [_te.string_imm(str(trace_action)), *nodes])


def _whole(tensor: Any) -> List[Any]:
    return [_te.NativeRange(const(0, e.dtype), e) for e in tensor.shape]


def _pointer(arg: AccessPointer) -> Tuple[Any, List[Any], bool]:
    tensor = arg.buffer.tensor
    if arg.offset.node == "IntImm" and int(arg.offset) == 0:
        return tensor, _whole(tensor), True
    if tensor.ndim != 1:
        raise TVMError(f"access_ptr of buffer {tensor.name}: an offset into {tensor.ndim} dimensions is not supported")
    return tensor, [_te.NativeRange(arg.offset, tensor.shape[0] - arg.offset)], True


def statement(value: Any, what: str) -> Any:
    """What a function that writes a statement has returned, as one."""
    if isinstance(value, Stmt):
        return value
    if isinstance(value, (PrimExpr, TensorSlice, int)):
        return _te.stmt_seq([])  # a value that nobody uses
    raise ValueError(f"{what}: a statement or an expression, not {type(value).__name__}")


class BufferPointer:
    """What :meth:`IRBuilder.buffer_ptr` and :meth:`IRBuilder.allocate` return: indexed to read and to store."""

    def __init__(self, builder: "IRBuilder", tensor: Any) -> None:
        self._builder, self.tensor, self.dtype = builder, tensor, tensor.dtype

    def __getitem__(self, indices: Any) -> PrimExpr:
        return self.tensor.element(_indices(self, indices))

    def __setitem__(self, indices: Any, value: Any) -> None:
        value = cast(self.dtype, expr(value)) if isinstance(value, (int, float)) else expr(value)
        if value.dtype != self.dtype:
            raise ValueError(f"a {value.dtype} is stored into {self.tensor.name} of {self.dtype}: cast it")
        self._builder.emit(_te.stmt_store(self.tensor, _indices(self, indices), value))


class _Scope:
    def __init__(self, builder: "IRBuilder", make: Any, value: Any = None) -> None:
        self._builder, self._make, self._value = builder, make, value

    def __enter__(self) -> Any:
        self._builder._open.append([])
        return self._value

    def __exit__(self, kind: Any, *_: Any) -> None:
        body = self._builder._close()
        if kind is None:
            self._builder.emit(self._make(body))


class _Rest:
    """What follows in the same scope is the body of this."""

    def __init__(self, make: Any) -> None:
        self.make = make


class IRBuilder:
    """Writes a statement line by line."""

    def __init__(self) -> None:
        self._open: List[List[Any]] = [[]]

    def emit(self, stmt: Any) -> None:
        """Appends a statement."""
        if not isinstance(stmt, _Rest):
            stmt = statement(stmt, "emit")
        self._open[-1].append(stmt)

    def _close(self) -> Any:
        body: List[Any] = []
        for stmt in reversed(self._open.pop()):
            body = [stmt.make(_te.stmt_seq(body))] if isinstance(stmt, _Rest) else [stmt, *body]
        return _te.stmt_seq(body)

    def for_range(self, begin: Any, end: Any, name: str = "i", dtype: str = "int32", kind: Any = "serial") -> _Scope:
        """A loop over ``[begin, end)``: ``with ib.for_range(0, n) as i:``."""
        kinds = {"serial": 0, "parallel": 1, "vectorize": 2, "vectorized": 2, "unroll": 3, "unrolled": 3}
        number = kinds.get(kind, kind)
        if not isinstance(number, int) or not 0 <= number <= 3:
            raise ValueError(f"for_range: unknown kind {kind!r}")
        low, high = expr(begin), expr(end)
        loop = var(name, "int64" if "int64" in (low.dtype, high.dtype) else dtype)
        zero = low.node == "IntImm" and int(low) == 0
        extent = cast(loop.dtype, high if zero else high - low)
        return _Scope(self, lambda body: _te.stmt_for(loop, extent, number, body), loop if zero else loop + low)

    def if_scope(self, condition: Any) -> _Scope:
        """What is run where a condition holds."""
        node = expr(condition)
        return _Scope(self, lambda body: _te.stmt_if(node, body))

    def else_scope(self) -> _Scope:
        """What is run where the condition of the :meth:`if_scope` right before does not hold."""
        before = self._open[-1][-1] if self._open[-1] else None
        if not isinstance(before, Stmt) or before.node != "IfThenElse" or before.else_case is not None:
            raise RuntimeError("else_scope follows an if_scope")

        def make(body: Any) -> Any:
            self._open[-1].pop()
            return _te.stmt_if(before.condition, before.then_case, body)

        return _Scope(self, make)

    def while_loop(self, condition: Any) -> _Scope:
        """What is run as long as a condition holds, which is asked before each time."""
        node = expr(condition)
        return _Scope(self, lambda body: _te.stmt_while(node, body))

    def let(self, name: str, value: Any) -> PrimExpr:
        """A temporary, until the end of the scope."""
        node = expr(value)
        made = var(name, node.dtype)
        self.emit(_Rest(lambda body: _te.stmt_let(made, node, body)))
        return made

    def allocate(self, dtype: Any, shape: Any, name: str = "buf", scope: str = "", **_: Any) -> BufferPointer:
        """Memory until the end of the scope."""
        tensor = _te.placeholder(name, _extents(shape), dtype_text(dtype))
        self.emit(_Rest(lambda body: _te.stmt_realize(tensor, scope, body)))
        return BufferPointer(self, tensor)

    def buffer_ptr(self, buffer: Buffer, shape: Any = None) -> BufferPointer:
        """A buffer, to be indexed."""
        return BufferPointer(self, buffer.tensor)

    def scope_attr(self, node: Any, key: str, value: Any) -> None:
        """``"thread_extent"`` of a thread axis: the rest of the scope is run by each thread. Others are pragmas."""
        extent = None if value is None else expr(value)
        if key in ("thread_extent", "virtual_thread"):
            axis = node.var if isinstance(node, IterVar) else node
            self.emit(_Rest(lambda body: _te.stmt_for(axis, cast(axis.dtype, extent), 0, body)))
        else:
            name = key[len("pragma_") :] if key.startswith("pragma_") else key
            self.emit(_Rest(lambda body: _te.stmt_pragma(name, extent, body)))

    def likely(self, condition: Any) -> PrimExpr:
        """A hint that a condition holds mostly."""
        return _te.likely(expr(condition))

    def get(self) -> Any:
        """The statement."""
        if len(self._open) != 1:
            raise RuntimeError("a scope of the builder is still open")
        body = self._close()
        self._open = [[]]
        return body


class ir_builder:  # a module for its users
    """``tir.ir_builder.create()``."""

    IRBuilder = IRBuilder
    BufferVar = BufferPointer

    @staticmethod
    def create() -> IRBuilder:
        """A builder of a statement."""
        return IRBuilder()


# --- operations -------------------------------------------------------------------------------------------------------


def _list(value: Any) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def buffer_of(tensor: Any) -> Buffer:
    """A compact buffer of a tensor's shape, type and name."""
    return Buffer(tensor.shape, tensor.dtype, tensor.name)


def extern(
    shape: Any,
    inputs: Any,
    fcompute: Any,
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Any = None,
    out_buffers: Any = None,
    tag: str = "",
    attrs: Any = None,
) -> Any:
    """Tensors that a statement computes: ``fcompute(ins, outs)`` gets buffers and returns it."""
    from ._tensor import _attributes, _current_tag

    tag = _current_tag(tag)
    shapes = _list(shape)
    if not shapes or not isinstance(shapes[0], (list, tuple)):
        shapes = [shape if isinstance(shape, (list, tuple)) else (shape,)]
    tensors = _list(inputs)
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise ValueError(f"extern: inputs are tensors, not {type(tensor).__name__}")
    ins = _given("in_buffers", in_buffers, tensors) or [buffer_of(t) for t in tensors]
    outs = _given("out_buffers", out_buffers, shapes)
    if outs is None:
        dtypes = _list(dtype) if dtype is not None else sorted({t.dtype for t in tensors})
        if dtype is None and len(dtypes) != 1:
            raise ValueError(f"extern: the inputs have the types {dtypes}; say the dtype of the outputs")
        if len(dtypes) == 1:
            dtypes = dtypes * len(shapes)
        if len(dtypes) != len(shapes):
            raise ValueError(f"extern: {len(dtypes)} dtypes for {len(shapes)} outputs")
        outs = [
            Buffer(s, d, name if len(shapes) == 1 else f"{name}_{i}") for i, (s, d) in enumerate(zip(shapes, dtypes))
        ]
    body = statement(fcompute(ins, outs), "extern")
    op = _te.extern(name, tag, tensors, [b.tensor for b in ins], [b.tensor for b in outs], body, _attributes(attrs))
    return op.output(0) if len(outs) == 1 else [op.output(i) for i in range(len(outs))]


def _given(what: str, buffers: Any, wanted: Sequence[Any]) -> Optional[List[Any]]:
    if buffers is None:
        return None
    found = _list(buffers)
    if len(found) != len(wanted):
        raise RuntimeError(f"extern: {len(found)} {what} for {len(wanted)} tensors")
    return found


class TensorIntrin:
    """A declared computation with the statements that do it; :func:`decl_tensor_intrin`."""

    def __init__(
        self, op: Any, name: str, buffers: Sequence[Buffer], parts: Sequence[Any], scalar_params: Sequence[Any] = ()
    ) -> None:
        self.op, self.name, self.buffers, self.scalar_params = op, name, list(buffers), list(scalar_params)
        self.inputs = list(op.input_tensors)
        self.body, self.reduce_init, self.reduce_update = parts
        self.native = _te.NativeIntrin(
            name,
            op,
            self.inputs,
            [b.tensor for b in buffers],
            [b.strides for b in buffers],
            self.body,
            self.reduce_init,
            self.reduce_update,
        )
        _natives[id(self.native)] = self

    def __call__(self, *args: Any, reduce_axis: Any = None) -> Any:
        """For regions of tensors (``A[i, 0:16]``) and scalars, inside the function of a ``te.compute``."""
        return IntrinCall(self, args, reduce_axis)


def decl_tensor_intrin(
    op: Any,
    fcompute: Any,
    name: str = "tensor_intrin",
    binds: Any = None,
    scalar_params: Any = None,
    default_buffer_params: Any = None,
) -> TensorIntrin:
    """Declares what a computation over placeholders may be replaced by: ``fcompute(ins, outs)`` gets buffers and
    returns a statement, or ``(body, reduce_init, reduce_update)``.
    """
    if not isinstance(op, _te.Operation):
        raise TypeError(f"decl_tensor_intrin: an operation, not {type(op).__name__}")
    inputs = op.input_tensors
    if not op.is_compute or any(t.op.kind != "placeholder" for t in inputs):
        raise ValueError("decl_tensor_intrin: a compute over placeholders only")
    given = {t.identity: b for t, b in (binds or {}).items()}
    outputs = [op.output(i) for i in range(op.num_outputs)]
    buffers = []
    for tensor in list(inputs) + outputs:
        made = given.get(tensor.identity)
        if made is None:
            params = dict(default_buffer_params or {})
            made = decl_buffer(tensor.shape, tensor.dtype, tensor.name, **params)
        buffers.append(made)
    scalars = list(scalar_params or [])
    body = fcompute(buffers[: len(inputs)], buffers[len(inputs) :], *([scalars] if scalars else []))
    parts = list(body) if isinstance(body, (list, tuple)) else [body, None, None]
    parts += [None] * (3 - len(parts))
    if parts[0] is None or len(parts) != 3:
        raise ValueError("decl_tensor_intrin: a statement, or (body, reduce_init, reduce_update)")
    parts = [None if part is None else statement(part, "decl_tensor_intrin") for part in parts]
    return TensorIntrin(op, name, buffers, parts, scalars)


class _EvaluateView(_View):
    """A call, or a value that nobody uses, which is nothing."""

    def __instancecheck__(cls, value: Any) -> bool:
        return super().__instancecheck__(value) or (
            isinstance(value, Stmt) and value.node == "SeqStmt" and len(value) == 0
        )


Evaluate = _EvaluateView(
    "Evaluate",
    (),
    {"nodes": ("PackedCall",), "base": Stmt, "__new__": lambda _, value, span=None: statement(value, "Evaluate")},
)
_natives: Any = weakref.WeakValueDictionary()  # the intrinsics by their compiled halves


def declared(native: Any) -> Any:
    """The intrinsic of a compiled half; None of None."""
    return None if native is None else _natives.get(id(native))


def tir_names() -> dict:
    """What `aipu.tir` has of buffers and of statements that are written by hand."""

    return {
        "Buffer": Buffer,
        "Evaluate": Evaluate,
        "call_extern": call_extern,
        "call_packed": call_packed,
        "call_pure_extern": call_extern,
        "trace": trace,
        "decl_buffer": decl_buffer,
        "ir_builder": ir_builder,
    }
