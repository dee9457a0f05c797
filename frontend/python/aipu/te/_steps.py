"""Running a function: its kernels one by one, and what is around calls of functions by name."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from .. import _native, nd, tir
from .._errors import TVMError
from .._registry import get_global_func
from ._c_functions import CFunctions, imported_texts
from ._expr import PrimExpr, cast, const

_te = _native.te
_TEC_COUNT = 4  # of the interpreter
_SELECT = ("condition", "true_value", "false_value")
_DEFAULT_TRACE = "tvm.default_trace_action"


class Piece:
    """A kernel and what it needs beside its arguments: sizes, memory."""

    def __init__(self, kernel: Any, tensors: Sequence[Any], target: str, machine_code: bytes = b"") -> None:
        self.kernel, self.tensors = kernel, list(tensors)
        self.executor: Any = None
        if target != "interpreter":
            self._folder = _te.TemporaryFolder("aipu_te")
            manager = tir.BuildManager(target=target, output_dir=self._folder.path)
            module = tir.IRModule.from_text(kernel.text())
            self.executor = manager.load(module, machine_code) if machine_code else manager.build(module)

    def run(self, values: List[Tuple[Any, str]], _: "Environment") -> None:
        """Runs the kernel on completed arguments."""
        if self.executor is None:
            self.kernel.interpret(values, tec_count=_TEC_COUNT)
        else:
            self.executor(*[value for value, _ in values])


def complete(
    kernel: Any, values: List[Tuple[Any, str]], env: "Environment", memory: Any = np.zeros
) -> List[Tuple[Any, str]]:
    """The arguments of a kernel, from those of its function. ``memory`` makes a workspace."""
    values = values + [(env.value(v), v.dtype) for v in kernel.sizes]
    for _, dtype, elements in kernel.workspaces:
        values.append((memory(max(env.evaluate(elements), 1), _numpy_dtype(dtype)), ""))
    # An array without elements has no memory; the kernel gets some that it does not touch.
    return [(np.zeros(1, v.dtype) if kind == "" and v.size == 0 else v, kind) for v, kind in values]


class Environment:
    """The values of variables while a function runs."""

    def __init__(self, values: Dict[str, Tuple[Any, Any]]) -> None:
        self._values = dict(values)

    def set(self, var: Any, value: Any) -> None:
        """Gives a variable its value."""
        self._values[var.key()] = (var, value)

    def value(self, var: Any) -> Any:
        """The value of a variable; TVMError if the arguments do not say it."""
        if var.key() not in self._values:
            raise TVMError(f"the arguments do not determine the variable {var.name}")
        return self._values[var.key()][1]

    def evaluate(self, expression: Any) -> Any:
        """The value of an expression; TVMError if it is not known."""
        if expression.node == "IntImm":
            return expression.value
        pairs = [(v, const(n, v.dtype)) for v, n in self._values.values()]
        result = _te.substitute(expression, pairs)
        if result.node not in ("IntImm", "FloatImm"):
            result = _te.NativeAnalyzer().simplify(result)
        if result.node not in ("IntImm", "FloatImm"):
            raise TVMError(f"the value of {expression} is not known while the function runs")
        return result.value


class Steps:
    """A function that calls others by name: its kernels are run one by one, what is around the calls is run here."""

    def __init__(self, name: str, function: Any, target: str) -> None:
        self._name, self._body, self._target = name, function.body, target
        self._pieces: Dict[str, Piece] = {}
        self._known: Dict[Any, Tuple[Any, List[Any], List[Any]]] = {}
        self._c_functions = CFunctions(imported_texts(self._body))
        self.tensors = function.native.tensors
        tensors = iter(self.tensors)
        for param in function.params:
            if not isinstance(param, PrimExpr):
                self._know(next(tensors), list(getattr(param, "strides", [])), [])
        self._compile(self._body)

    def _know(self, tensor: Any, strides: List[Any], box: List[Any]) -> None:
        self._known[tensor.identity] = (tensor, strides, box)

    def _compile(self, stmt: Any) -> None:
        if not _te.has_packed_call(stmt):
            name = f"{self._name}_{len(self._pieces)}"
            native = _te.outline(name, stmt, list(self._known.values()))
            self._pieces[stmt.address] = Piece(native.to_tir(), native.tensors, self._target)
            return
        if stmt.node == "Realize":
            fields = stmt.fields()
            self._know(fields["producer"], fields["strides"], fields["bounds"])
        for child in stmt.seq if stmt.node == "SeqStmt" else _bodies_of(stmt):
            if child is not None and child.node != "PackedCall":
                self._compile(child)

    @property
    def kernel_text(self) -> str:
        """The kernel IR of all kernels."""
        return "\n".join(piece.kernel.text() for piece in self._pieces.values())

    @property
    def c_code(self) -> str:
        """The C text of all kernels."""
        return "\n".join(p.executor.c_code for p in self._pieces.values() if p.executor is not None)

    def run(self, arrays: Dict[Any, np.ndarray], env: Environment) -> None:
        """Runs the function on its tensors."""
        self._run(self._body, dict(arrays), env)

    def _run(self, stmt: Any, arrays: Dict[Any, np.ndarray], env: Environment) -> None:
        piece = self._pieces.get(stmt.address)
        if piece is not None:
            values = [(span(arrays[t.identity]), "") for t in piece.tensors]
            return piece.run(complete(piece.kernel, values, env), env)
        fields = stmt.fields()
        if stmt.node == "PackedCall":
            return self._call(fields, arrays, env)
        if stmt.node == "SeqStmt":
            for child in fields["seq"]:
                self._run(child, arrays, env)
        elif stmt.node == "For":
            for i in range(env.evaluate(fields["extent"])):
                env.set(fields["loop_var"], i)
                self._run(fields["body"], arrays, env)
        elif stmt.node == "IfThenElse":
            chosen = fields["then_case" if self._value(fields["condition"], arrays, env).value else "else_case"]
            if chosen is not None:
                self._run(chosen, arrays, env)
        elif stmt.node == "While":
            while self._value(fields["condition"], arrays, env).value:
                self._run(fields["body"], arrays, env)
        elif stmt.node == "LetStmt":
            env.set(fields["var"], env.evaluate(fields["value"]))
            self._run(fields["body"], arrays, env)
        elif stmt.node == "Store":
            self._store(fields, arrays, env)
        else:
            if stmt.node == "Realize":
                tensor, box = fields["producer"], fields["bounds"]
                strides = [env.evaluate(s) for s in fields["strides"]]
                arrays[tensor.identity] = _memory(tensor.dtype, [env.evaluate(r.extent) for r in box], strides)
                self._boxes(env)[tensor.identity] = [env.evaluate(r.min) for r in box]
            self._run(fields["body"], arrays, env)
        return None

    def _store(self, fields: Dict[str, Any], arrays: Dict[Any, np.ndarray], env: Environment) -> None:
        place = self._place(fields["producer"], fields["indices"], arrays, env)
        arrays[fields["producer"].identity][place] = self._value(fields["value"], arrays, env).value

    def _place(self, tensor: Any, indices: Any, arrays: Dict[Any, np.ndarray], env: Environment) -> Tuple[int, ...]:
        array = arrays[tensor.identity]
        low = self._boxes(env).get(tensor.identity, [0] * array.ndim)
        place = tuple(int(self._value(i, arrays, env)) - b for i, b in zip(indices, low))
        if not all(0 <= i < extent for i, extent in zip(place, array.shape)):
            raise TVMError(f"{self._name}: element {place} of {tensor.name}, which has the shape {array.shape}")
        return place

    def _value(self, e: PrimExpr, arrays: Dict[Any, np.ndarray], env: Environment) -> PrimExpr:
        """A value that calls functions by name, as a constant."""
        fields = e.fields()
        if e.node in ("IntImm", "FloatImm", "StringImm"):
            return e
        if e.node in ("Var", "SizeVar"):
            return const(env.value(e), e.dtype)
        if e.node == "ProducerLoad":
            place = self._place(fields["producer"], fields["indices"], arrays, env)
            return const(arrays[fields["producer"].identity][place].item(), e.dtype)
        if e.node == "Cast":
            return cast(e.dtype, self._value(fields["value"], arrays, env))
        if e.node == "Select" or (e.node == "Call" and fields["function"] == "if_then_else"):
            condition, a, b = fields["args"] if e.node == "Call" else [fields[k] for k in _SELECT]
            return self._value(a if self._value(condition, arrays, env).value else b, arrays, env)
        if e.node in ("And", "Or"):  # the second where it decides
            first = self._value(fields["a"], arrays, env)
            return first if bool(first.value) == (e.node == "Or") else self._value(fields["b"], arrays, env)
        if e.node == "Call" and fields["function"] == "likely":
            return self._value(fields["args"][0], arrays, env)
        if e.node == "Call":
            args = [self._value(a, arrays, env) for a in fields["args"]]
            if fields["function"] in ("call_packed", "trace"):
                return self._called(e, args)
            result = _te.call(fields["function"], args)
        elif "a" in fields:
            operands = [self._value(fields[k], arrays, env) for k in ("a", "b") if k in fields]
            result = _te.logical_not(*operands) if e.node == "Not" else _te.binary(e.node, *operands)
        else:
            result = e
        if result.node not in ("IntImm", "FloatImm"):
            raise TVMError(f"{self._name}: {e} beside a call of a function by name is not supported")
        return result

    def _called(self, e: PrimExpr, args: List[PrimExpr]) -> PrimExpr:
        """The value of a function of the registry; of one that watches a value, that value if it returns nothing."""
        name, values = args[0].value, [a.value for a in args[1:]]
        function = get_global_func(name, allow_missing=True)
        if function is None and name == _DEFAULT_TRACE:
            function = print
        if function is None:
            raise TVMError(f"{self._name}: there is no registered function {name!r}")
        result = function(*values)
        if result is None and e.fields()["function"] == "trace":
            result = values[-1]
        if not isinstance(result, (int, float, np.number, PrimExpr)):
            raise TVMError(f"{self._name}: {name!r} returns {type(result).__name__}, and its value is used")
        return const(result, e.dtype)

    @staticmethod
    def _boxes(env: Environment) -> Dict[Any, List[int]]:
        return env.__dict__.setdefault("boxes", {})

    def _call(self, fields: Dict[str, Any], arrays: Dict[Any, np.ndarray], env: Environment) -> None:
        function = None if fields["is_c"] else get_global_func(fields["function"], allow_missing=True)
        if function is None and not fields["is_c"]:
            raise TVMError(f"{self._name}: there is no registered function {fields['function']!r}")
        args: List[Any] = []
        for arg in fields["args"]:
            if isinstance(arg, tuple):
                args.append(self._view(*arg, arrays, env))
            else:
                args.append(self._value(arg, arrays, env).value)
        if fields["is_c"]:
            types = ["handle" if isinstance(arg, tuple) else arg.dtype for arg in fields["args"]]
            return self._c_functions.call(fields["function"], list(zip(args, types)))
        function(*args)
        return None

    def _view(self, tensor: Any, region: Any, dropped: Any, pointer: bool, arrays: Any, env: Environment) -> Any:
        array = arrays[tensor.identity]
        low = self._boxes(env).get(tensor.identity, [0] * array.ndim)
        index: List[Any] = []
        for d, part in enumerate(region):
            start, extent = env.evaluate(part.min) - low[d], env.evaluate(part.extent)
            if start < 0 or start + extent > array.shape[d]:
                raise TVMError(
                    f"{self._name}: a call of {tensor.name} sees [{start}, {start + extent}) of {array.shape[d]}"
                )
            index.append(start if dropped and dropped[d] else slice(start, start + extent))
        view = array[(*index, ...)]  # a view, of rank 0 too
        return ctypes.c_void_p(view.ctypes.data) if pointer else nd.NDArray(view, nd.cpu(0))


def _bodies_of(stmt: Any) -> List[Any]:
    fields = stmt.fields()
    return [fields[name] for name in ("body", "then_case", "else_case") if name in fields]


def _memory(dtype: str, shape: List[int], strides: List[int]) -> np.ndarray:
    """New memory for a box, with strides in elements."""
    count = max(strides[0] * shape[0] if shape else 1, 1)
    flat = np.zeros(count, _numpy_dtype(dtype))
    return np.lib.stride_tricks.as_strided(flat, shape, [s * flat.itemsize for s in strides])


def span(array: np.ndarray) -> np.ndarray:
    """All memory between the first and the last element, as what kernels take."""
    if array.flags.c_contiguous or array.size == 0:
        return array
    count = 1 + sum((e - 1) * s for e, s in zip(array.shape, array.strides)) // array.itemsize
    return np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))


def _numpy_dtype(dtype: str) -> Any:
    return "uint16" if dtype == "bfloat16" else dtype
