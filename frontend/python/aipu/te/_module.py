"""From a schedule to something that runs: :func:`lower`, :func:`build`, :class:`Module`."""

from __future__ import annotations

import functools
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .. import _native, model, nd, tir
from .._errors import TVMError
from ..target import current_target
from ..transform import PassContext
from ._buffer import Buffer, buffer_of, statement
from ._device import DeviceModule, DevicePiece
from ._expr import PrimExpr, const
from ._functions import variables
from ._json import pickle_by_text
from ._schedule import Schedule, create_schedule
from ._steps import Environment, Piece, Steps, complete, span
from ._tensor import Tensor

_te = _native.te
_HOST = ("host", "llvm", "cpu", "c")
_INTERPRETER = ("interpreter", "stackvm")


class PrimFunc:
    """A lowered function. ``body`` is a tree of statements to look at.

    ``params`` are what its caller gives: tensors, buffers that stand for them, variables.
    """

    definition: Optional[List[Any]] = None  # the tensors of one that has no schedule

    def __init__(
        self, params: Sequence[Any], body: Any, ret_type: Any = None, buffer_map: Any = None, attrs: Any = None
    ) -> None:
        buffers = dict(buffer_map or {})
        given = [buffers.get(p, p) for p in params]
        self.attrs: Dict[str, Any] = {"global_symbol": "main", **dict(attrs or {})}
        name = str(self.attrs["global_symbol"])
        pairs = [(p.tensor, p.strides) if isinstance(p, Buffer) else (p, []) for p in given]
        self._take(_te.function_of(name, pairs, statement(body, "PrimFunc")), given)

    @classmethod
    def of_native(cls, native: Any, params: Sequence[Any]) -> "PrimFunc":
        """What lowering has made."""
        made = cls.__new__(cls)
        made.attrs = {"global_symbol": native.name}
        made._take(native, params)
        return made

    def _take(self, native: Any, params: Sequence[Any]) -> None:
        self.native, self.params = native, list(params)  # native: the compiled half's
        self.name: str = native.name
        self.body: Any = native.body  # the loops

    @property
    def buffer_map(self) -> Dict[Any, Any]:
        """The buffer of each parameter that is an array: its shape, its type."""
        arrays = [p for p in self.params if not isinstance(p, PrimExpr)]
        return {p: p if isinstance(p, Buffer) else buffer_of(p) for p in arrays}

    def with_attr(self, key: Any, value: Any = None) -> "PrimFunc":
        """A copy with an attribute, or with those of a dictionary. ``global_symbol`` is the name it is built under."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.attrs = {**self.attrs, **(key if isinstance(key, dict) else {key: value})}
        made.name = str(made.attrs["global_symbol"])
        return made

    @functools.cached_property
    def kernel(self) -> Any:
        """The kernel IR, and what it needs beside the parameters."""
        return self.native.to_tir()

    def script(self) -> str:
        """The text."""
        return self.native.text()

    __str__ = __repr__ = script


class GlobalVar(str):
    """The name of a function of a module."""

    @property
    def name_hint(self) -> str:
        """The name."""
        return str(self)


class LoweredModule(tir.IRModule):
    """Lowered functions by name. ``BuildManager`` takes it where nothing but the parameters is needed."""

    def __init__(self, functions: Dict[str, PrimFunc]) -> None:
        self._functions = dict(functions)

    @property
    def functions(self) -> Any:
        """The functions by name."""
        return self._functions

    def __getitem__(self, name: Any) -> PrimFunc:
        return self._functions[getattr(name, "name_hint", name)]

    def __contains__(self, name: Any) -> bool:
        return getattr(name, "name_hint", name) in self._functions

    def get_global_vars(self) -> List[GlobalVar]:
        """The names of the functions."""
        return [GlobalVar(name) for name in self._functions]

    def update(self, other: "LoweredModule") -> None:
        """Takes the functions of another module, in place of those of the same names."""
        self._functions.update(other.functions)

    @property
    def _module(self) -> Any:
        module, error = _native.parse_kernel_text(next(iter(self._functions.values())).kernel.text())
        if module is None:
            raise TVMError(error)
        return module

    def check_parameters_suffice(self) -> None:
        """TVMError where the kernel takes sizes beside its parameters, which :func:`build` takes from the arrays."""
        for function in self._functions.values():
            more = [v.name for v in function.kernel.sizes]
            if function.params and more:
                raise TVMError(f"{function.name} takes {', '.join(more)} beside its parameters: use aipu.build")

    def workspaces(self, args: Sequence[Any]) -> List[np.ndarray]:
        """The memory that the kernel takes behind its parameters, for a call with these arguments."""
        function = next(iter(self._functions.values()))
        scalars = [(p, a) for p, a in zip(function.params, args) if isinstance(p, PrimExpr)]
        env = Environment({p.key(): (p, a) for p, a in scalars})
        return [v for v, _ in complete(function.kernel, [], env)]

    def script(self) -> str:
        """The text of all functions."""
        return "\n".join(f.script() for f in self._functions.values())

    __str__ = script


def _check_args(args: Any) -> List[Any]:
    if not isinstance(args, (list, tuple)):
        raise ValueError(f"args: a list of tensors and variables, not {type(args).__name__}")
    for i, arg in enumerate(args):
        if not isinstance(arg, (Tensor, Buffer)) and not (isinstance(arg, PrimExpr) and arg.node in ("Var", "SizeVar")):
            raise ValueError(f"args[{i}]: a tensor, buffer or variable, not {type(arg).__name__}")
    return list(args)


def _laid_out(schedule: Any, arg: Any) -> Any:
    """A tensor as its schedule lays it out."""
    stage = schedule.find(arg.op) if isinstance(arg, Tensor) else None
    if stage is None or stage.op.output(arg.value_index).shape == arg.shape:
        return arg
    return stage.op.output(arg.value_index)


def _bound(args: List[Any], binds: Any) -> Tuple[List[Tuple[Any, List[Any]]], List[Any]]:
    """The tensor of each argument with its strides, and what the caller gives for it."""
    of_tensor = {tensor.identity: buffer for tensor, buffer in (binds or {}).items()}
    of_buffer = {id(buffer): tensor for tensor, buffer in (binds or {}).items()}
    pairs: List[Tuple[Any, List[Any]]] = []
    params: List[Any] = []
    for i, arg in enumerate(args):
        if isinstance(arg, Buffer):
            if id(arg) not in of_buffer:
                raise ValueError(f"args[{i}]: buffer {arg.name} stands for no tensor; say which one in binds")
            buffer, arg = arg, of_buffer[id(arg)]
        else:
            buffer = of_tensor.get(arg.identity) if isinstance(arg, Tensor) else None
        if buffer is not None and (buffer.ndim != arg.ndim or buffer.dtype != arg.dtype):
            raise ValueError(f"args[{i}]: buffer {buffer.name} has another rank or type than tensor {arg.name}")
        pairs.append((arg, buffer.strides if buffer is not None else []))
        params.append(arg if buffer is None else buffer)
    return pairs, params


def lower(
    inp: Any, args: Optional[Sequence[Any]] = None, name: str = "main", binds: Any = None, simple_mode: bool = False
) -> LoweredModule:
    """The loops of a schedule, for the parameters ``args``; of a module the module itself."""
    return _lowered(inp, args, name, binds)


def _lowered(
    inp: Any, args: Optional[Sequence[Any]], name: str, binds: Any, shared_by_threads: bool = False
) -> LoweredModule:
    if isinstance(inp, LoweredModule):
        return inp
    if isinstance(inp, PrimFunc):
        return LoweredModule({inp.name: inp})
    if not isinstance(inp, Schedule):
        raise ValueError(f"lower: a Schedule, PrimFunc or IRModule, not {type(inp).__name__}")
    if args is None:
        raise ValueError("lower: a schedule needs args")
    pairs, params = _bound([_laid_out(inp, arg) for arg in _check_args(args)], binds)
    return LoweredModule({name: PrimFunc.of_native(_te.lower(inp, pairs, name, shared_by_threads), params)})


def create_prim_func(ops: Any, index_dtype_override: Any = None) -> PrimFunc:
    """A function without a schedule: one nest of loops per tensor. ``ops`` are the parameters, inputs and outputs."""
    outputs = [t.op for t in ops if isinstance(t, Tensor) and t.op.kind != "placeholder"]
    if not outputs:
        raise ValueError("create_prim_func: no output among the tensors")
    function = lower(create_schedule(outputs), list(ops))["main"]
    function.definition = list(ops)
    return function


def _target_kind(target: Any) -> str:
    words = str(target or current_target() or "host").split()
    kind = words[0] if words else "host"
    if kind in _INTERPRETER:
        return "interpreter"
    if kind in _HOST:
        return "host" + "".join(w[len("-mcpu=host") :] for w in words[1:] if w.startswith("-mcpu=host"))
    if kind == "cuda":
        return kind
    name = kind if kind != "compass" else next((w[len("-mcpu=") :] for w in words if w.startswith("-mcpu=")), "X2_1204")
    _native.target(name)  # ValueError for what is no target
    return name


def _of_one_target(modules: Dict[Any, Any]) -> Tuple[Any, Any]:
    if len(modules) != 1:
        raise TVMError(f"build: modules for {len(modules)} targets at once are not supported; build each")
    target, module = next(iter(modules.items()))
    return module, target


def build_schedule(
    inputs: Any,
    args: Optional[Sequence[Any]] = None,
    target: Any = None,
    target_host: Any = None,
    name: str = "default_function",
    binds: Any = None,
) -> "Module":
    """Compiles a schedule (with its ``args``) or lowered functions; the result is called with arrays."""
    if isinstance(inputs, dict):
        inputs, target = _of_one_target(inputs)
    if isinstance(inputs, (list, tuple)):
        inputs = LoweredModule({name: f for module in inputs for name, f in module.functions.items()})
    if not isinstance(inputs, (Schedule, PrimFunc, LoweredModule)):
        raise ValueError(f"build: a Schedule, PrimFunc or IRModule, not {type(inputs).__name__}")
    if isinstance(inputs, Schedule) and args is None:
        raise ValueError("build: a schedule needs args")
    kind = _target_kind(target)
    if kind.startswith("host") and PassContext.current().config.get("tir.instrument_bound_checkers"):
        kind = "interpreter"  # which checks every access
    module = _lowered(inputs, args, name, binds, shared_by_threads=kind == "cuda")
    return Module({key: Function.compiled(key, function, kind) for key, function in module.functions.items()}, kind)


class Function:
    """A compiled function. Checks its arguments before anything is done."""

    def __init__(self, name: str, params: Sequence[Any], piece: Any, steps: Any = None) -> None:
        self.name, self.params, self._piece, self._steps = name, list(params), piece, steps
        if piece is not None:
            self._check_variables(piece.kernel)

    @classmethod
    def compiled(cls, name: str, function: PrimFunc, target: str) -> "Function":
        """The function of lowered loops."""
        if target == "cuda":
            if function.native.has_packed_call:
                raise TVMError(f"{name}: a function that calls others by name is not supported on cuda")
            return cls(name, function.params, DevicePiece(function))
        if function.native.has_packed_call:
            return cls(name, function.params, None, Steps(name, function, target))
        return cls(name, function.params, Piece(function.kernel, function.native.tensors, target))

    def _check_variables(self, kernel: Any) -> None:
        known = {p.key() for p in self.params if isinstance(p, PrimExpr)}
        for param in self.params:
            if not isinstance(param, PrimExpr):
                extents = list(param.shape) + list(getattr(param, "strides", []))
                known |= {e.key() for e in extents if e.node in ("Var", "SizeVar")}
        needed = list(kernel.sizes)
        for _, _, elements in kernel.workspaces:
            needed += variables(elements)
        unknown = sorted({v.name for v in needed if v.key() not in known})
        if unknown:
            raise TVMError(f"{self.name}: the arguments do not determine the variables {', '.join(unknown)}")

    @property
    def _on_gpu(self) -> bool:
        return isinstance(self._piece, DevicePiece) and self._piece.on_gpu

    @property
    def piece(self) -> Any:
        """The kernel and what it needs; None where there are several."""
        return self._piece

    @property
    def executor(self) -> Any:
        """What runs the kernel; None where it is interpreted, or one of several."""
        return None if self._piece is None else self._piece.executor

    @property
    def kernel_text(self) -> str:
        """The kernel IR."""
        return self._steps.kernel_text if self._piece is None else self._piece.kernel.text()

    @property
    def c_code(self) -> str:
        """The C text; empty where there is none."""
        if self._piece is None:
            return self._steps.c_code
        return self._piece.executor.c_code if self._piece.executor is not None else ""

    def __call__(self, *args: Any) -> None:
        values, env = self._bind(args)
        if self._on_gpu:
            copies = {i: arg.on_gpu() for i, arg in enumerate(args) if isinstance(arg, nd.NDArray)}
            copies = {i: copy for i, copy in copies.items() if copy is not None}
            # Workspaces are the device's; what there is here only says their size.
            return self._piece.run(complete(self._piece.kernel, values, env, np.empty), env, copies)
        if self._piece is not None:
            return self._piece.run(complete(self._piece.kernel, values, env), env)
        given = [value for value, kind in values if kind == ""]
        return self._steps.run({t.identity: a for t, a in zip(self._steps.tensors, given)}, env)

    def seconds(self, args: Sequence[Any], number: int, repeat: int, min_repeat_ms: int) -> List[float]:
        """What the kernels of a GPU take, on copies of the arrays."""
        values, env = self._bind([arg.on_host() if isinstance(arg, nd.NDArray) else arg for arg in args])
        return self._piece.seconds(
            complete(self._piece.kernel, values, env, np.empty), env, number, repeat, min_repeat_ms
        )

    def bind(self, args: Sequence[Any]) -> List[Tuple[Any, str]]:
        """The kernel's arguments: arrays with the type "", scalars with theirs."""
        values, env = self._bind(args)
        return complete(self._piece.kernel, values, env)

    def _bind(self, args: Sequence[Any]) -> Tuple[List[Tuple[Any, str]], Environment]:
        if len(args) != len(self.params):
            raise TVMError(f"{self.name}: num_args should be {len(self.params)}, not {len(args)}")
        sizes: Dict[str, Tuple[Any, int]] = {}
        scalars: Dict[str, Tuple[Any, Any]] = {}
        values: List[Tuple[Any, str]] = []
        for i, (param, arg) in enumerate(zip(self.params, args)):
            if isinstance(param, PrimExpr):
                values.append((self._scalar(i, param, arg), param.dtype))
                scalars[param.key()] = (param, values[-1][0])
                if param.dtype in ("int32", "int64"):
                    sizes[param.key()] = (param, int(arg))
            else:
                values.append((self._array(i, param, arg), ""))
        arrays = [(p, v) for p, (v, _) in zip(self.params, values) if not isinstance(p, PrimExpr)]
        for param, value in arrays:
            self._bind_sizes(param, value, sizes)
        for param, value in arrays:
            self._check_shape(param, value, sizes)
        for param, value in arrays:
            self._bind_strides(param, value, sizes)
        values = [(v if kind else span(v) if self._piece is not None else v, kind) for v, kind in values]
        return values, Environment({**sizes, **scalars})

    def _array(self, i: int, param: Any, arg: Any) -> np.ndarray:
        where = f"{self.name}.{param.name}"
        array = arg
        if isinstance(arg, nd.NDArray):
            array = arg.on_host(fetch=not self._on_gpu or arg.on_gpu() is None)
        if not isinstance(array, np.ndarray):
            if isinstance(arg, (int, float, np.number, list, tuple)) or arg is None:
                raise TVMError(f"{self.name}: Expect arg[{i}] to be pointer, not {type(arg).__name__}")
            raise TypeError(f"{self.name}: argument {i} of type {type(arg).__name__}")
        if array.ndim != param.ndim:
            raise TVMError(f"{where}.ndim is expected to equal {param.ndim}, not {array.ndim}")
        if array.dtype.name != param.dtype:
            raise TVMError(f"{where}.dtype is expected to be {param.dtype}, not {array.dtype.name}")
        if not array.flags.c_contiguous and not getattr(param, "strides", []):
            raise TVMError(f"{where}.strides: expected to be compact array")
        if any(s < 0 for s in array.strides):
            raise TVMError(f"{where}.strides: an array that runs backwards is not supported")
        return array

    def _scalar(self, i: int, param: Any, arg: Any) -> Any:
        if isinstance(arg, PrimExpr):
            arg = arg.value
        floating = param.dtype.startswith(("float", "bfloat"))
        if isinstance(arg, (nd.NDArray, np.ndarray)) or not isinstance(arg, (int, float, np.number, np.bool_)):
            raise TVMError(f"{self.name}: Expect arg[{i}] to be {'float' if floating else 'int'}")
        if not floating and isinstance(arg, (float, np.floating)):
            raise TVMError(f"{self.name}: Expect arg[{i}] to be int")
        return float(arg) if floating else int(arg)

    @staticmethod
    def _bind_sizes(param: Any, value: np.ndarray, sizes: Dict[str, Tuple[Any, int]]) -> None:
        for extent, size in zip(param.shape, value.shape):
            if extent.node in ("Var", "SizeVar") and extent.key() not in sizes:
                sizes[extent.key()] = (extent, size)

    def _bind_strides(self, param: Any, value: np.ndarray, sizes: Dict[str, Tuple[Any, int]]) -> None:
        broadcast = getattr(param, "buffer_type", "") == "auto_broadcast"
        for d, stride in enumerate(getattr(param, "strides", [])):
            real = value.strides[d] // value.itemsize
            if broadcast and value.shape[d] == 1:
                real = 0
            if stride.node in ("Var", "SizeVar") and stride.key() not in sizes:
                sizes[stride.key()] = (stride, real)
            elif value.shape[d] > 1 and int(self._known(stride, sizes)) != real:
                raise TVMError(
                    f"Argument {self.name}.{param.name}.strides[{d}] has an unsatisfied constraint: "
                    f"({stride} == {int(self._known(stride, sizes))}), it is {real}"
                )

    def _known(self, value: Any, sizes: Dict[str, Tuple[Any, int]]) -> Any:
        known = _te.substitute(value, [(v, const(n, v.dtype)) for v, n in sizes.values()])
        if known.node != "IntImm":
            names = ", ".join(v.name for v in variables(known))
            raise TVMError(f"{self.name}: the arguments do not determine the variables {names}")
        return known

    def _check_shape(self, param: Any, value: np.ndarray, sizes: Dict[str, Tuple[Any, int]]) -> None:
        broadcast = getattr(param, "buffer_type", "") == "auto_broadcast"
        for d, (extent, size) in enumerate(zip(param.shape, value.shape)):
            expected = self._known(extent, sizes)
            if int(expected) != size and not (broadcast and size == 1):
                raise TVMError(
                    f"Argument {self.name}.{param.name}.shape[{d}] has an unsatisfied constraint: "
                    f"({extent} == {int(expected)}), it is {size}"
                )
        narrow = all(e.dtype == "int32" for e in param.shape)
        if narrow and value.size >= 2**31:
            raise TVMError(f"{self.name}.{param.name}: more than 2^31 elements need extents of type int64")


class BenchmarkResult:
    """Seconds per call."""

    def __init__(self, results: Sequence[float]) -> None:
        self.results = tuple(results)
        self.mean, self.median = float(np.mean(results)), float(np.median(results))
        self.min, self.max, self.std = float(np.min(results)), float(np.max(results)), float(np.std(results))

    def __repr__(self) -> str:
        return f"mean {self.mean * 1e6:.2f} us, min {self.min * 1e6:.2f} us, max {self.max * 1e6:.2f} us"


class Module:
    """Compiled functions by name; called it runs the first."""

    def __init__(self, functions: Dict[str, Function], target: str) -> None:
        self._functions, self._target = functions, target
        self.entry_name = next(iter(functions))
        self.imported_modules: List[Any] = [DeviceModule(functions)] if target == "cuda" else []
        self.type_key = target
        self.is_runnable = True
        self.is_binary_serializable = self.is_dso_exportable = target != "interpreter"

    @property
    def entry_func(self) -> Function:
        """The function that a call of the module runs."""
        return self._functions[self.entry_name]

    def __call__(self, *args: Any) -> None:
        self.entry_func(*args)

    def get_function(self, name: str, query_imports: bool = False) -> Function:
        """A function by name; AttributeError if there is none."""
        if name == "__tvm_main__":
            return self.entry_func
        if name not in self._functions:
            raise AttributeError(f"the module has no function {name!r}")
        return self._functions[name]

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether there is a function of that name."""
        return name in self._functions

    def __getitem__(self, name: str) -> Function:
        if not isinstance(name, str):
            raise ValueError("a module is indexed by the name of a function")
        return self.get_function(name)

    def get_source(self, fmt: str = "") -> str:
        """The C text; with ``"tir"`` the kernel IR."""
        function = self.entry_func
        return function.kernel_text if fmt == "tir" or not function.c_code else function.c_code

    def export_library(self, file_name: Any, **_: Any) -> None:
        """Writes the functions to a file that :func:`aipu.runtime.load_module` reads; TVMError for functions that are
        interpreted or call others by name.
        """
        from ._library import library_text

        _native.write_file(str(file_name), library_text(self._functions, self._target).encode())

    def save(self, file_name: Any, fmt: str = "") -> None:
        """:meth:`export_library`."""
        self.export_library(file_name)

    def time_evaluator(
        self, func_name: str, dev: Any = None, number: int = 10, repeat: int = 1, min_repeat_ms: int = 0, **_: Any
    ) -> Any:
        """A function of the arguments that measures: one call to warm up, then ``repeat`` times ``number`` calls.

        On a GPU what the kernels take, without the copies of a call.
        """
        function = self.get_function(func_name)

        def measure(*args: Any) -> BenchmarkResult:
            if isinstance(function.piece, DevicePiece) and function.piece.on_gpu:
                return BenchmarkResult(function.seconds(args, number, repeat, min_repeat_ms))
            if function.executor is not None:
                values = [value for value, _ in function.bind(args)]
                results = function.executor.benchmark(
                    *values, repeat=repeat, number=number, min_repeat_ms=min_repeat_ms
                ).results
                return BenchmarkResult(results)
            function(*args)
            seconds = []
            for _ in range(repeat):
                start = time.perf_counter()
                for _ in range(number):
                    function(*args)
                seconds.append((time.perf_counter() - start) / number)
            return BenchmarkResult(seconds)

        return measure


pickle_by_text(PrimFunc, LoweredModule)


def _is_lowered(inputs: Any) -> bool:
    if isinstance(inputs, dict):
        inputs = list(inputs.values())
    if isinstance(inputs, (list, tuple)):
        return bool(inputs) and all(isinstance(one, LoweredModule) for one in inputs)
    return isinstance(inputs, (Schedule, PrimFunc, LoweredModule))


def build(inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """A schedule or lowered functions: :func:`aipu.te.build`. Anything else is a model: :func:`aipu.model.build`."""
    if _is_lowered(inputs):
        return build_schedule(inputs, *args, **kwargs)
    return model.build(inputs, *args, **kwargs)
