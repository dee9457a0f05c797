"""Expressions: Python's operators and functions on the nodes of ``_native.te``.

A node's class is its ``node``: ``tir.Add``, ``tir.IntImm`` ... are views that ``isinstance`` knows.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

from .. import _native
from .._errors import TVMError

_te = _native.te
_te.set_error_class(TVMError)

PrimExpr = _te.PrimExpr
IterVar = _te.IterVar
Stmt = _te.Stmt


# --- values to expressions ----------------------------------------------------------------------------------------


_SHORT_NAMES = {"uint1": "bool", "float": "float32", "int": "int32", "uint": "uint32"}


def dtype_text(dtype: Any) -> str:
    """The name of a dtype given as text, NumPy dtype, or Python class."""
    if isinstance(dtype, str):
        text = _SHORT_NAMES.get(dtype, dtype)
    elif dtype is float:
        text = "float32"
    elif dtype is int:
        text = "int32"
    elif dtype is bool:
        text = "bool"
    else:
        text = np.dtype(dtype).name
    if not _te.is_dtype(text):
        raise TypeError(f'unknown dtype "{text}"')
    return text


def const(value: Any, dtype: Any = None) -> PrimExpr:
    """A constant; without ``dtype`` of the type that the value says."""
    if isinstance(value, PrimExpr):
        return value if dtype is None else cast(dtype_text(dtype), value)
    if dtype is None:
        dtype = _const_dtype(value)
    dtype = dtype_text(dtype)
    element = dtype.split("x")[0] if "x" in dtype else dtype
    if element.startswith(("float", "bfloat")):
        node = _te.float_imm(float(value), element)
    elif isinstance(value, (float, np.floating)):
        node = cast(element, _te.float_imm(float(value), "float64"))
    else:
        node = _te.int_imm(int(value), element)
    return node if element == dtype else cast(dtype, node)


def _const_dtype(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, np.generic):
        return value.dtype.name
    if isinstance(value, int):
        return "int32" if -(2**31) <= value < 2**31 else "int64"
    if isinstance(value, float):
        finite = value == value and abs(value) != float("inf")
        return "float64" if finite and abs(value) > 3.4028235677973366e38 else "float32"
    raise NotImplementedError(f"no constant can be made of {type(value).__name__}")


def expr(value: Any) -> PrimExpr:
    """Anything that stands for an expression, as one."""
    if isinstance(value, PrimExpr):
        return value
    if isinstance(value, IterVar):
        return value.var
    convert = getattr(value, "asobject", None)
    if convert is not None:
        return convert()
    if isinstance(value, str):
        return _te.string_imm(value)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, int, float, np.generic)):
        return const(value)
    if isinstance(value, _te.Tensor) and not value.native_shape:
        return value.element([])
    if isinstance(value, Stmt) and value.node == "PackedCall":
        fields = value.fields()
        if fields["is_c"] or not all(isinstance(a, PrimExpr) for a in fields["args"]):
            raise TVMError(f"{value.text().strip()} is a statement; values are of calls that take numbers alone")
        return _te.packed_value("call_packed", "int32", [_te.string_imm(fields["function"]), *fields["args"]])
    raise ValueError(f"{type(value).__name__} is no expression: {value!r}")


def _operand(value: Any, other: PrimExpr) -> PrimExpr:
    """A Python int takes the type of the expression beside it where that is wider, or a float."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_, np.generic)):
        element = other.dtype.split("x")[0] if "x" in other.dtype else other.dtype
        if element.startswith(("float", "bfloat")) or element in ("int64", "uint64", "int32", "uint32"):
            return const(value, element)
    return expr(value)


def _pair(a: Any, b: Any) -> Tuple[PrimExpr, PrimExpr]:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return const(a), const(b)
    if isinstance(a, (int, float, np.generic)):
        b = expr(b)
        return _operand(a, b), b
    a = expr(a)
    return a, _operand(b, a)


def binary(node: str, a: Any, b: Any) -> PrimExpr:
    """An operation by the name of its node."""
    return _te.binary(node, *_pair(a, b))


def cast(dtype: Any, value: Any) -> PrimExpr:
    """``value`` as another type."""
    return _te.cast(dtype_text(dtype), expr(value))


# --- nodes ----------------------------------------------------------------------------------------------------------


class Op:
    """What a call calls."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Op) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Op({self.name})"


class EqualOp:
    """``a == b`` before anybody has said whether it is a condition of Python (identity) or an expression."""

    def __init__(self, a: Any, b: Any, node: str = "EQ") -> None:
        self.a, self.b, self._node = a, b, node

    def _same(self) -> bool:
        a, b = self.a, self.b
        if isinstance(a, PrimExpr) and a.node == "IntImm":
            if isinstance(b, (int, np.integer)):
                return int(a.value) == int(b)
            if isinstance(b, PrimExpr) and b.node == "IntImm":
                return a.value == b.value
        if isinstance(b, IterVar):
            b = b.var
        return isinstance(b, PrimExpr) and a.same_as(b)

    def __bool__(self) -> bool:
        return self._same() if self._node == "EQ" else not self._same()

    def asobject(self) -> PrimExpr:
        """The comparison."""
        return binary(self._node, self.a, self.b)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.asobject(), name)

    def astype(self, dtype: Any) -> PrimExpr:
        """The comparison as another type."""
        return cast(dtype, self.asobject())

    def __repr__(self) -> str:
        return self.asobject().text()


# Operations that users know as calls.
_AS_CALLS = {
    "Shl": "shift_left",
    "Shr": "shift_right",
    "BitAnd": "bitwise_and",
    "BitOr": "bitwise_or",
    "BitXor": "bitwise_xor",
}


def _getattr(self: PrimExpr, name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    fields = self.fields()
    if self.node in _AS_CALLS and name in ("op", "args"):
        return Op("tir." + _AS_CALLS[self.node]) if name == "op" else [fields["a"], fields["b"]]
    if name == "buffer":
        name = "producer"
    part = _vector_part(fields, name, self.dtype)
    if part is not None:
        return part
    if name == "op" and "function" in fields:
        return Op("tir." + fields["function"])
    if name in fields:
        value = fields[name]
        return list(value) if isinstance(value, list) else value
    raise AttributeError(f"{self.node} has no attribute '{name}'")


def _divide(a: Any, b: Any) -> PrimExpr:
    a, b = _pair(a, b)
    if not (a.dtype + b.dtype).count("float"):
        raise RuntimeError(
            "'/' of two integers is ambiguous: call div (as in C), indexdiv/indexmod (operands are not negative), "
            "floordiv/floormod or truncdiv/truncmod"
        )
    return _te.binary("Div", a, b)


def _tensor_operand(value: Any) -> bool:
    return isinstance(value, _te.Tensor) and bool(value.native_shape)


def _infix(node: str, reflected: bool = False) -> Any:
    def method(self: Any, other: Any) -> Any:
        if _tensor_operand(other):
            return NotImplemented
        try:
            expr(other)
        except ValueError:
            return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        return _divide(a, b) if node == "Div" else binary(node, a, b)

    return method


def _invert(value: Any) -> PrimExpr:
    value = expr(value)
    if value.dtype.startswith(("float", "bfloat")):
        raise RuntimeError(f"'~' needs integers, not {value.dtype}")
    if value.dtype == "bool":
        return _te.logical_not(value)
    return binary("BitXor", value, const(-1, value.dtype))


def _no_bool(self: Any) -> bool:
    if isinstance(self, PrimExpr) and self.node == "IntImm":
        return self.value != 0
    raise ValueError(
        "an expression has no truth value while it is written: use tir.all / tir.any instead of and / or, "
        "te.if_then_else or tir.Select instead of if"
    )


def _hash(self: PrimExpr) -> int:
    return hash(int(self.value)) if self.node == "IntImm" else hash(self.key())


def _as_int(self: PrimExpr) -> int:
    if self.node != "IntImm":
        raise TypeError(f"{self.text()} is no constant integer")
    return int(self.value)


_INFIX = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "truediv": "Div",
    "floordiv": "FloorDiv",
    "mod": "FloorMod",
    "lshift": "Shl",
    "rshift": "Shr",
    "and": "BitAnd",
    "or": "BitOr",
    "xor": "BitXor",
}
_COMPARE = {"lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}


def install_operators(cls: Any) -> None:
    """Gives a class whose objects are expressions the operators of expressions."""
    for name, node in _INFIX.items():
        setattr(cls, f"__{name}__", _infix(node))
        setattr(cls, f"__r{name}__", _infix(node, reflected=True))
    for name, node in _COMPARE.items():
        setattr(cls, f"__{name}__", _infix(node))
    cls.__neg__ = lambda self: binary("Mul", self, const(-1, expr(self).dtype))
    cls.__invert__ = _invert
    cls.__bool__ = _no_bool
    cls.astype = lambda self, dtype: cast(dtype, self)
    cls.equal = lambda self, other: binary("EQ", self, other)


install_operators(PrimExpr)
PrimExpr.__getattr__ = _getattr
PrimExpr.__eq__ = lambda self, other: EqualOp(self, other)
PrimExpr.__ne__ = lambda self, other: EqualOp(self, other, "NE")
PrimExpr.__hash__ = _hash
PrimExpr.__int__ = _as_int
PrimExpr.__index__ = _as_int
PrimExpr.__float__ = lambda self: float(self.value)
PrimExpr.__str__ = lambda self: self.text()
PrimExpr.__repr__ = lambda self: self.text()
install_operators(EqualOp)
EqualOp.__bool__ = lambda self: self._same() if self._node == "EQ" else not self._same()
EqualOp.__hash__ = lambda self: hash((self._node, self.asobject().key()))

install_operators(IterVar)
IterVar.__eq__ = lambda self, other: self is other
IterVar.__hash__ = object.__hash__
IterVar.__repr__ = lambda self: f"iter_var({self.var.name})"
IterVar.asobject = lambda self: self.var


class Range:
    """``[begin, end)``; with one argument ``[0, end)``."""

    def __init__(self, begin: Any, end: Any = None) -> None:
        begin, end = (0, begin) if end is None else (begin, end)
        self.min = expr(begin)
        self.extent = binary("Sub", end, begin) if not isinstance(begin, int) or begin != 0 else expr(end)

    @classmethod
    def from_min_extent(cls, min_value: Any, extent: Any) -> "Range":
        """``[min, min + extent)``."""
        made = cls.__new__(cls)
        made.min, made.extent = expr(min_value), expr(extent)
        return made

    def native(self) -> Any:
        """For the compiled half."""
        low, extent = self.min, self.extent
        if low.dtype != extent.dtype:
            low, extent = cast("int64", low), cast("int64", extent)
        return _te.NativeRange(low, extent)

    def __repr__(self) -> str:
        return f"range(min={self.min}, ext={self.extent})"


def _dom(self: IterVar) -> Optional[Range]:
    native = self.native_dom
    return None if native is None else Range.from_min_extent(native.min, native.extent)


IterVar.dom = property(_dom)
for _i, _name in enumerate(
    "DataPar ThreadIndex CommReduce Ordered Opaque Unrolled Vectorized Parallelized Tensorized".split()
):
    setattr(IterVar, _name, _i)


class _View(type):
    """``isinstance(e, tir.Add)`` asks for the node."""

    nodes: Tuple[str, ...] = ()
    base: Any = PrimExpr

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.base) and value.node in cls.nodes


def _view(name: str, base: Any, nodes: Sequence[str] = (), make: Any = None) -> Any:
    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if make is None:
            raise TypeError(f"{name} is a view of what lowering makes")
        return make(*args, **kwargs)

    return _View(name, (), {"nodes": tuple(nodes) or (name,), "base": base, "__new__": new})


def _statement_of(value: Any) -> Stmt:
    if not isinstance(value, Stmt):
        raise TypeError(f"a statement, not {type(value).__name__}")
    return value


def _for(
    loop_var: Any, min: Any, extent: Any, kind: Any, body: Any, thread_binding: Any = None, annotations: Any = None
) -> Stmt:
    low, loop = expr(min), expr(loop_var)
    number = kind if isinstance(kind, int) else {"serial": 0, "parallel": 1, "vectorized": 2, "unrolled": 3}.get(kind)
    if number not in (0, 1, 2, 3) or low.node != "IntImm" or int(low) != 0:
        raise TVMError("For: a loop from 0 that is serial, parallel, vectorized or unrolled")
    return _te.stmt_for(loop, cast(loop.dtype, extent), number, _statement_of(body))


def _if_then_else(condition: Any, then_case: Any, else_case: Any = None) -> Stmt:
    otherwise = None if else_case is None else _statement_of(else_case)
    return _te.stmt_if(expr(condition), _statement_of(then_case), otherwise)


def _attribute(node: Any, attr_key: str, value: Any, body: Any) -> Stmt:
    name = str(attr_key)
    name = name[len("pragma_") :] if name.startswith("pragma_") else name
    return _te.stmt_pragma(name, None if value is None else expr(value), _statement_of(body))


def _store(buffer: Any, value: Any, indices: Any) -> Stmt:
    return buffer.vstore(list(indices), value)


def _binary_view(node: str) -> Any:
    return _view(node, PrimExpr, make=lambda a, b: _te.binary(node, *_pair(a, b)))


_BINARY_NODES = "Add Sub Mul Div Mod FloorDiv FloorMod Min Max And Or EQ NE LT LE GT GE".split()
globals().update({node: _binary_view(node) for node in _BINARY_NODES})


def var(name: str = "tindex", dtype: Any = "int32") -> PrimExpr:
    """A variable; the object is its identity."""
    return _te.variable(name, dtype_text(dtype), False)


def size_var(name: str = "size", dtype: Any = "int32") -> PrimExpr:
    """A variable that is at least 0."""
    return _te.variable(name, dtype_text(dtype), True)


Var = _view("Var", PrimExpr, ("Var", "SizeVar"), lambda name="v", dtype="int32": var(name, dtype))
SizeVar = _view("SizeVar", PrimExpr, ("SizeVar",), lambda name="v", dtype="int32": size_var(name, dtype))
IntImm = _view("IntImm", PrimExpr, make=lambda dtype, value: const(value, dtype))
FloatImm = _view("FloatImm", PrimExpr, make=lambda dtype, value: const(float(value), dtype))
StringImm = _view("StringImm", PrimExpr, make=lambda value: _te.string_imm(value))
Not = _view("Not", PrimExpr, make=lambda a: _te.logical_not(expr(a)))
Cast = _view("Cast", PrimExpr, make=lambda dtype, value: cast(dtype, value))
Call = _view("Call", PrimExpr, ("Call", *_AS_CALLS))
Reduce = _view("Reduce", PrimExpr)
ProducerLoad = _view("ProducerLoad", PrimExpr)
BufferLoad = _view("BufferLoad", PrimExpr, ("ProducerLoad",), lambda buffer, indices: buffer[list(indices)])


def _select(condition: Any, true_value: Any, false_value: Any) -> PrimExpr:
    condition = expr(condition)
    if not condition.dtype.startswith("bool"):
        raise TVMError(f"the condition of Select is a bool, not {condition.dtype}")
    a, b = _pair(true_value, false_value)
    if a.dtype != b.dtype:
        raise TVMError(f"Select of {a.dtype} and {b.dtype}: both sides need one type")
    return _te.select(condition, a, b)


Select = _view("Select", PrimExpr, make=_select)


# --- vectors: what is written for several lanes becomes a loop over them where it is stored --------------------------


def element_and_lanes(dtype: str) -> Tuple[str, int]:
    element, _, lanes = dtype.partition("x")
    return element, int(lanes or 1)


class _CallView(_View):
    """A call that users know as a node."""

    function = ""

    def __instancecheck__(cls, value: Any) -> bool:
        return super().__instancecheck__(value) and value.fields()["function"] == cls.function


def _ramp(base: Any, stride: Any, lanes: int) -> PrimExpr:
    a, b = _pair(base, stride)
    if a.dtype not in ("int32", "int64") or a.dtype != b.dtype or int(lanes) < 2:
        raise TVMError(f"Ramp({a}, {b}, {lanes}): indices of one type and at least two lanes")
    return _te.packed_value("ramp", f"{a.dtype}x{int(lanes)}", [a, b])


def _broadcast(value: Any, lanes: int) -> PrimExpr:
    node = expr(value)
    return cast(f"{node.dtype}x{int(lanes)}", node)


Ramp = _CallView(
    "Ramp", (), {"nodes": ("Call",), "base": PrimExpr, "function": "ramp", "__new__": lambda _, *parts: _ramp(*parts)}
)
Broadcast = _CallView(
    "Broadcast",
    (),
    {"nodes": ("Call",), "base": PrimExpr, "function": "broadcast", "__new__": lambda _, *parts: _broadcast(*parts)},
)
_VECTOR_PARTS = {"ramp": ("base", "stride"), "broadcast": ("value",)}  # the names of their arguments


def _vector_part(fields: Dict[str, Any], name: str, dtype: str) -> Any:
    """A part of a vector that is known as a node of its own; None of what has no such part."""
    parts = _VECTOR_PARTS.get(fields.get("function", ""), ())
    if name in parts:
        return fields["args"][parts.index(name)]
    return element_and_lanes(dtype)[1] if parts and name == "lanes" else None


# Statements are views of what lowering made.
For = _view("For", Stmt, make=_for)
IfThenElse = _view("IfThenElse", Stmt, make=_if_then_else)
While = _view("While", Stmt, make=lambda condition, body: _te.stmt_while(expr(condition), _statement_of(body)))
BufferStore = _view("BufferStore", Stmt, ("Store",), make=_store)
ProducerStore = _view("ProducerStore", Stmt, ("Store",))
LetStmt = _view(
    "LetStmt", Stmt, make=lambda var, value, body: _te.stmt_let(var, cast(var.dtype, value), _statement_of(body))
)
BufferRealize = _view("BufferRealize", Stmt, ("Realize",))
ProducerRealize = _view("ProducerRealize", Stmt, ("Realize",))
Allocate = _view("Allocate", Stmt, ("Realize",))
SeqStmt = _view("SeqStmt", Stmt, make=lambda seq: _te.stmt_seq([_statement_of(s) for s in seq]))


class _AttributeView(_View):
    """Loops over threads are known as attributes of what they run, too."""

    def __instancecheck__(cls, value: Any) -> bool:
        return super().__instancecheck__(value) or _thread_of(value) is not None


AttrStmt = _AttributeView(
    "AttrStmt", (), {"nodes": ("AttrStmt",), "base": Stmt, "__new__": lambda _, *parts: _attribute(*parts)}
)


def _thread_of(value: Any) -> Any:
    return value.fields()["thread_binding"] if isinstance(value, Stmt) and value.node == "For" else None


class CallOfStatement:
    """What a statement calls by name."""

    def __init__(self, function: str, args: Sequence[Any]) -> None:
        self.op = Op("tir.tvm_call_packed")
        self.args = [_te.string_imm(function), *args]
        self.dtype = "int32"


# What an allocation and a loop over threads are asked for, from what they have.
_MORE = {
    "Realize": {
        "extents": lambda f: [r.extent for r in f["bounds"]],
        "dtype": lambda f: f["producer"].dtype,
        "condition": lambda f: const(True),
        "buffer_var": lambda f: var(f["producer"].op.name, "handle"),
    },
    "PackedCall": {"value": lambda f: CallOfStatement(f["function"], f["args"])},
    "For": {
        "annotations": lambda f: {},
        "attr_key": lambda f: "virtual_thread" if f["thread_binding"].thread_tag == "vthread" else "thread_extent",
        "value": lambda f: f["extent"],
    },
}


class ForKind:
    """How a loop is run."""

    SERIAL, PARALLEL, VECTORIZED, UNROLLED, THREAD_BINDING = range(5)


def _stmt_getattr(self: Stmt, name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    fields = self.fields()
    more = _MORE.get(self.node, {}).get(name)
    if more is not None and (name not in ("attr_key", "value") or fields.get("thread_binding", True) is not None):
        return more(fields)
    if name == "buffer" and "producer" in fields:
        name = "producer"
    if name in fields:
        return fields[name]
    raise AttributeError(f"{self.node} has no attribute '{name}'")


Stmt.__getattr__ = _stmt_getattr
Stmt.__str__ = lambda self: self.text()
Stmt.__repr__ = lambda self: self.text()
Stmt.__getitem__ = lambda self, i: self.seq[i]
Stmt.__len__ = lambda self: len(self.seq)
