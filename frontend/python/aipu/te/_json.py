"""Tensor expressions, schedules and lowered functions as text: ``ir.save_json``, ``ir.load_json``, and pickling by it.

What is shared (variables, axes, operations, combiners) is written once and referred to by number, so that what is read
has the same identities among itself. It is never that of what was written.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List

from .. import _native
from ._buffer import Buffer
from ._expr import PrimExpr, Range, Stmt, TVMError
from ._schedule import Schedule
from ._tensor import Operation, Tensor

_te = _native.te
_FORMAT = "aipu.te 1"
_STAGE_FIELDS = """op origin_op all_iter_vars leaf_iter_vars attach_ivar scope is_output is_group num_child_stages
    double_buffered rolling threads_around store_predicate attach_type""".split()
_LITERALS = (bool, int, float, str, type(None))


class _Writer:
    def __init__(self) -> None:
        self.shared: List[Any] = []
        self._numbers: Dict[Any, int] = {}
        self._kept: List[Any] = []  # what is written stays, so that addresses are not given to others

    def write(self, value: Any) -> Any:
        """Something that JSON has."""
        if isinstance(value, _LITERALS):
            return value if not isinstance(value, float) else {"is": "float", "value": value.hex()}
        if isinstance(value, (list, tuple)):
            return [self.write(v) for v in value]
        for kind, write in _WRITERS:
            if isinstance(value, kind):
                return write(self, value)
        raise TVMError(f"save_json: {type(value).__name__} is not supported")

    def refer(self, key: Any, value: Any, fields: Callable[[], Dict[str, Any]]) -> Dict[str, int]:
        """The number of something that others may refer to; behind all that it needs itself."""
        if key not in self._numbers:
            self._kept.append(value)
            written = fields()
            self._numbers[key] = len(self.shared)
            self.shared.append(written)
        return {"at": self._numbers[key]}

    def parts(self, node: Any, kind: str, **more: Any) -> Dict[str, Any]:
        """A node with its parts."""
        fields = {name: self.write(value) for name, value in node.fields().items()}
        return {"is": kind, "node": node.node, **fields, **more}


def _write_expr(w: _Writer, e: Any) -> Any:
    if e.node in ("Var", "SizeVar"):
        return w.refer(e.key(), e, lambda: {"is": "var", "name": e.name, "dtype": e.dtype, "size": e.node == "SizeVar"})
    return w.parts(e, "expr", dtype=e.dtype)


def _write_axis(w: _Writer, axis: Any) -> Any:
    def fields() -> Dict[str, Any]:
        dom = w.write(axis.native_dom)
        return {"is": "axis", "var": w.write(axis.var), "dom": dom, "kind": axis.iter_type, "tag": axis.thread_tag}

    return w.refer(("axis", id(axis)), axis, fields)


def _write_operation(w: _Writer, op: Any) -> Any:
    def fields() -> Dict[str, Any]:
        made = {"is": op.kind, "name": op.name, "tag": op.tag, "attrs": w.write(op.attr_items)}
        parts = op.parts()
        if op.kind == "placeholder":
            made.update(shape=w.write(op.output(0).native_shape), dtype=op.output(0).dtype)
        elif op.kind == "compute":
            if "native_intrin" in parts:
                raise TVMError(f"save_json: '{op.name}' calls an intrinsic, which is not supported")
            made.update(axis=w.write(op.axis), body=w.write(op.body))
        elif op.kind == "scan":
            names = ("init", "update", "state_placeholder", "inputs")
            made.update({name: w.write(parts[name]) for name in names})
        else:
            names = ("inputs", "input_buffers", "output_buffers", "body")
            made.update({name: w.write(parts[name]) for name in names})
        return made

    number = w.refer(("op", op.output(0).identity[0]), op, fields)
    if op.kind == "scan":  # whose axes are made with it
        for k, axis in enumerate([op.scan_axis, *op.spatial_axis_]):
            w.refer(("axis", id(axis)), axis, lambda k=k: {"is": "axis_of", "op": number, "k": k})
    return number


def _write_combiner(w: _Writer, c: Any) -> Any:
    parts = ("lhs", "rhs", "result", "identity_element")
    return w.refer(
        ("combiner", id(c)), c, lambda: {"is": "combiner", "name": c.name, **{n: w.write(getattr(c, n)) for n in parts}}
    )


def _write_schedule(w: _Writer, schedule: Any) -> Any:
    places = [*schedule.stages, *schedule.groups]

    def place(stage: Any) -> int:
        return -1 if stage is None else places.index(stage)

    rows = []
    for stage in places:
        attributes = stage.attribute_fields()
        if any(row[-1] is not None for row in attributes):
            raise TVMError(f"save_json: stage '{stage.op.name}' is tensorized, which is not supported")
        row = {name: w.write(getattr(stage, name)) for name in _STAGE_FIELDS}
        row["relations"] = [{name: w.write(v) for name, v in r.items()} for r in stage.relation_fields()]
        row["attributes"] = w.write([row[:-1] for row in attributes])
        row.update(attach_stage=place(stage.attach_stage), group=place(stage.group))
        rows.append(row)
    return {"is": "schedule", "outputs": w.write(schedule.outputs), "stages": rows}


def _write_function(w: _Writer, function: Any) -> Any:
    attrs = {name: value for name, value in function.attrs.items() if isinstance(value, _LITERALS)}
    if len(attrs) != len(function.attrs):
        raise TVMError(f"save_json: function {function.name} has attributes that are no numbers or texts")
    if hasattr(function, "blocks"):
        raise TVMError(f"save_json: function {function.name} has blocks, which are not supported")
    lists = {name: w.write(part) for name, part in (("params", function.params), ("tensors", function.native.params))}
    more = {"body": w.write(function.body), "definition": w.write(function.definition), "attrs": attrs}
    return {"is": "function", **lists, **more}


def _write_buffer(w: _Writer, b: Any) -> Any:
    def fields() -> Dict[str, Any]:
        names = "strides elem_offset data_alignment offset_factor buffer_type".split()
        parts = {name: w.write(getattr(b, name)) for name in names}
        return {"is": "buffer", "name": b.name, "tensor": w.write(b.tensor), "scope": b._scope, **parts}

    return w.refer(("buffer", id(b)), b, fields)


def _write_tensor(w: _Writer, t: Any) -> Any:
    return {"is": "tensor", "op": w.write(t.op), "k": t.value_index}


def _write_range(w: _Writer, r: Any) -> Any:
    return {"is": "range", "min": w.write(r.min), "extent": w.write(r.extent), "native": isinstance(r, _te.NativeRange)}


_WRITERS: List[Any] = [
    (PrimExpr, _write_expr),
    (_te.IterVar, _write_axis),
    (Tensor, _write_tensor),
    (Operation, _write_operation),
    (_te.CommReducer, _write_combiner),
    ((_te.NativeRange, Range), _write_range),
    (Stmt, lambda w, s: w.parts(s, "stmt")),
    (Schedule, _write_schedule),
    (Buffer, _write_buffer),
]


# --- reading ----------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, shared: List[Any]) -> None:
        self._rows = shared
        self._made: Dict[int, Any] = {}

    def read(self, value: Any) -> Any:
        """The object of what was written."""
        if isinstance(value, list):
            return [self.read(v) for v in value]
        if not isinstance(value, dict):
            return value
        if "at" in value:
            number = value["at"]
            if number not in self._made:
                self._made[number] = self.read(self._rows[number])
            return self._made[number]
        return _READERS[value["is"]](self, value)

    def fields(self, row: Dict[str, Any]) -> Dict[str, Any]:
        """The parts of a node."""
        return {name: self.read(v) for name, v in row.items() if name not in ("is", "node", "dtype")}


def _read_expr(r: _Reader, row: Dict[str, Any]) -> Any:
    node, dtype, f = row["node"], row["dtype"], r.fields(row)
    if node == "IntImm":
        return _te.int_imm(int(f["value"]), dtype)
    if node == "FloatImm":
        return _te.float_imm(f["value"], dtype)
    if node == "StringImm":
        return _te.string_imm(f["value"])
    if node == "Not":
        return _te.logical_not(f["a"])
    if node == "Select":
        return _te.select(f["condition"], f["true_value"], f["false_value"])
    if node == "Cast":
        return _te.cast(dtype, f["value"])
    if node == "Call":
        return _te.packed_value(f["function"], dtype, f["args"])
    if node == "ProducerLoad":
        return f["producer"].element(f["indices"])
    if node == "Reduce":
        names = ("combiner", "source", "axis", "condition", "init", "value_index")
        return _te.reduce(*[f[name] for name in names])
    return _te.binary(node, f["a"], f["b"])


def _read_stmt(r: _Reader, row: Dict[str, Any]) -> Any:
    node, f = row["node"], r.fields(row)
    if node == "For":
        return _te.stmt_for(f["loop_var"], f["extent"], f["kind"], f["body"], f["thread_binding"], f["shared_out"])
    if node == "IfThenElse":
        return _te.stmt_if(f["condition"], f["then_case"], f["else_case"])
    if node == "Store":
        return _te.stmt_store(f["producer"], f["indices"], f["value"])
    if node == "LetStmt":
        return _te.stmt_let(f["var"], f["value"], f["body"])
    if node == "Realize":
        return _te.stmt_realize(f["producer"], f["scope"], f["body"], f["bounds"], f["alignment"])
    if node == "SeqStmt":
        return _te.stmt_seq(f["seq"])
    if node == "AttrStmt":
        return _te.stmt_pragma(f["attr_key"].replace("pragma_", "", 1), f["value"], f["body"])
    if node == "While":
        return _te.stmt_while(f["condition"], f["body"])
    args = [tuple(arg) if isinstance(arg, list) else arg for arg in f["args"]]
    return _te.stmt_packed(f["function"], args, f["is_c"])


def _read_operation(r: _Reader, row: Dict[str, Any]) -> Any:
    f = r.fields(row)
    attrs = [(name, value) for name, value in f["attrs"]]
    if row["is"] == "placeholder":
        return _te.placeholder(f["name"], f["shape"], row["dtype"]).op
    if row["is"] == "compute":
        return _te.compute(f["name"], f["tag"], f["axis"], f["body"], attrs)
    if row["is"] == "scan":
        names = ("init", "update", "state_placeholder", "inputs")
        return _te.scan(f["name"], f["tag"], *[f[name] for name in names], attrs)
    names = ("inputs", "input_buffers", "output_buffers", "body")
    return _te.extern(f["name"], f["tag"], *[f[name] for name in names], attrs)


def _read_schedule(r: _Reader, row: Dict[str, Any]) -> Any:
    stages = []
    for written in row["stages"]:
        stage = {name: r.read(v) for name, v in written.items() if name not in ("relations", "attributes")}
        stage["relations"] = [{name: r.read(v) for name, v in one.items()} for one in written["relations"]]
        stage["attributes"] = [tuple(one) for one in r.read(written["attributes"])]
        for one in stage["attributes"]:
            one[3][:], one[6][:] = map(tuple, one[3]), map(tuple, one[6])
        stages.append(stage)
    return _te.restored_schedule(r.read(row["outputs"]), stages)


def _read_function(r: _Reader, row: Dict[str, Any]) -> Any:
    from ._module import PrimFunc

    params = r.read(row["params"])
    tensors = r.read(row["tensors"])
    pairs = [(t, p.strides if isinstance(p, Buffer) else []) for t, p in zip(tensors, params)]
    name = str(row["attrs"]["global_symbol"])
    made = PrimFunc.of_native(_te.function_of(name, pairs, r.read(row["body"])), params)
    made.attrs, made.definition = dict(row["attrs"]), r.read(row["definition"])
    return made


def _read_buffer(r: _Reader, row: Dict[str, Any]) -> Any:
    f = r.fields(row)
    tensor = f.pop("tensor")
    made = Buffer(tensor.shape, tensor.dtype, f.pop("name"), **f)
    made.tensor = tensor
    return made


def _read_range(r: _Reader, row: Dict[str, Any]) -> Any:
    low, extent = r.read(row["min"]), r.read(row["extent"])
    return _te.NativeRange(low, extent) if row["native"] else Range.from_min_extent(low, extent)


def _read_axis_of(r: _Reader, row: Dict[str, Any]) -> Any:
    op = r.read(row["op"])
    return [op.scan_axis, *op.spatial_axis_][row["k"]]


def _read_combiner(r: _Reader, row: Dict[str, Any]) -> Any:
    f = r.fields(row)
    return _te.CommReducer(f["name"], f["lhs"], f["rhs"], f["result"], f["identity_element"])


def _read_module(r: _Reader, row: Dict[str, Any]) -> Any:
    from ._module import LoweredModule

    return LoweredModule({name: r.read(f) for name, f in row["functions"].items()})


_READERS: Dict[str, Any] = {
    "float": lambda r, row: float.fromhex(row["value"]),
    "var": lambda r, row: _te.variable(row["name"], row["dtype"], row["size"]),
    "axis": lambda r, row: _te.IterVar(r.read(row["var"]), r.read(row["dom"]), row["kind"], row["tag"]),
    "axis_of": _read_axis_of,
    "tensor": lambda r, row: r.read(row["op"]).output(row["k"]),
    "combiner": _read_combiner,
    "expr": _read_expr,
    "stmt": _read_stmt,
    "range": _read_range,
    "buffer": _read_buffer,
    "schedule": _read_schedule,
    "function": _read_function,
    "module": _read_module,
    **dict.fromkeys(("placeholder", "compute", "scan", "extern"), _read_operation),
}


def save_json(node: Any) -> str:
    """The text of an expression, tensor, operation, schedule, statement, lowered function or module; of lists of these.

    TVMError for intrinsics, which hold functions of Python.
    """
    from ._module import LoweredModule, PrimFunc

    writer = _Writer()
    if isinstance(node, LoweredModule):
        functions = {name: _write_function(writer, f) for name, f in node.functions.items()}
        root: Any = {"is": "module", "functions": functions}
    elif isinstance(node, PrimFunc):
        root = _write_function(writer, node)
    else:
        root = writer.write(node)
    return json.dumps({"format": _FORMAT, "shared": writer.shared, "root": root})


def load_json(text: str) -> Any:
    """What :func:`save_json` has written; ValueError for any other text."""
    try:
        parsed = json.loads(text)
        known = isinstance(parsed, dict) and parsed.get("format") == _FORMAT
    except json.JSONDecodeError as error:
        raise ValueError(f"load_json: {error}") from error
    if not known:
        raise ValueError("load_json: this is not what save_json has written")
    return _Reader(parsed["shared"]).read(parsed["root"])


def _reduce(self: Any) -> Any:
    return load_json, (save_json(self),)


def pickle_by_text(*classes: Any) -> None:
    """Lets ``pickle`` and ``copy`` go by the text."""
    for cls in classes:
        cls.__reduce__ = _reduce


pickle_by_text(PrimExpr, _te.IterVar, Tensor, Operation, Stmt, Schedule)
