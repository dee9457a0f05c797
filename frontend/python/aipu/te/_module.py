"""From a schedule to something that runs: :func:`lower`, :func:`build`, :class:`Module`."""

from __future__ import annotations

import functools
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .. import _native, model, nd, tir
from .._errors import TVMError
from ._expr import PrimExpr, const, variables
from ._schedule import Schedule
from ._tensor import Tensor

_te = _native.te
_HOST = ("host", "llvm", "cpu", "c")
_INTERPRETER = ("interpreter", "stackvm")
_TEC_COUNT = 4  # of the interpreter


class PrimFunc:
    """A lowered function. ``body`` is a tree of statements to look at."""

    def __init__(self, native: Any, params: Sequence[Any]) -> None:
        self._native, self.params = native, list(params)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self._native.name

    @property
    def body(self) -> Any:
        """The loops."""
        return self._native.body

    @functools.cached_property
    def kernel(self) -> Any:
        """The kernel IR, and what it needs beside the parameters."""
        return self._native.to_tir()

    def script(self) -> str:
        """The text."""
        return self._native.text()

    __str__ = __repr__ = script


class LoweredModule(tir.IRModule):
    """Lowered functions by name. ``BuildManager`` takes it where nothing but the parameters is needed."""

    def __init__(self, functions: Dict[str, PrimFunc]) -> None:
        self._functions = dict(functions)

    @property
    def functions(self) -> Any:
        """The functions by name."""
        return self._functions

    def __getitem__(self, name: str) -> PrimFunc:
        return self._functions[name]

    @property
    def _module(self) -> Any:
        module, error = _native.parse_kernel_text(next(iter(self._functions.values())).kernel.text())
        if module is None:
            raise TVMError(error)
        return module

    def script(self) -> str:
        """The text of all functions."""
        return "\n".join(f.script() for f in self._functions.values())

    __str__ = script


def _check_args(args: Any) -> List[Any]:
    if not isinstance(args, (list, tuple)):
        raise ValueError(f"args: a list of tensors and variables, not {type(args).__name__}")
    for i, arg in enumerate(args):
        if not isinstance(arg, Tensor) and not (isinstance(arg, PrimExpr) and arg.node in ("Var", "SizeVar")):
            raise ValueError(f"args[{i}]: a tensor or a variable, not {type(arg).__name__}")
    return list(args)


def lower(
    inp: Any, args: Optional[Sequence[Any]] = None, name: str = "main", binds: Any = None, simple_mode: bool = False
) -> LoweredModule:
    """The loops of a schedule, for the parameters ``args``; of a module the module itself."""
    if isinstance(inp, LoweredModule):
        return inp
    if isinstance(inp, PrimFunc):
        return LoweredModule({inp.name: inp})
    if not isinstance(inp, Schedule):
        raise ValueError(f"lower: a Schedule, PrimFunc or IRModule, not {type(inp).__name__}")
    if args is None:
        raise ValueError("lower: a schedule needs args")
    if binds:
        raise TVMError("lower: binds are not supported yet")
    params = _check_args(args)
    return LoweredModule({name: PrimFunc(_te.lower(inp, params, name), params)})


def _target_kind(target: Any) -> str:
    words = str(target or "host").split()
    kind = words[0] if words else "host"
    if kind in _INTERPRETER:
        return "interpreter"
    if kind in _HOST:
        return "host" + "".join(w[len("-mcpu=host") :] for w in words[1:] if w.startswith("-mcpu=host"))
    if kind == "cuda":
        raise TVMError("target cuda is not supported yet")
    _native.target(str(target))  # ValueError for what is no target
    return str(target)


def build_schedule(
    inputs: Any,
    args: Optional[Sequence[Any]] = None,
    target: Any = None,
    target_host: Any = None,
    name: str = "default_function",
    binds: Any = None,
) -> "Module":
    """Compiles a schedule (with its ``args``) or lowered functions; the result is called with arrays."""
    if not isinstance(inputs, (Schedule, PrimFunc, LoweredModule)):
        raise ValueError(f"build: a Schedule, PrimFunc or IRModule, not {type(inputs).__name__}")
    if isinstance(inputs, Schedule) and args is None:
        raise ValueError("build: a schedule needs args")
    module = lower(inputs, args, name, binds)
    kind = _target_kind(target)
    return Module({key: Function(key, function, kind) for key, function in module.functions.items()}, kind)


class Function:
    """A compiled function. Checks its arguments before anything is done."""

    def __init__(self, name: str, function: PrimFunc, target: str) -> None:
        self.name, self._function, self._target = name, function, target
        self._params = function.params
        self._kernel = function.kernel
        self._check_variables()
        self._executor: Any = None
        if target != "interpreter":
            self._folder = _te.TemporaryFolder("aipu_te")
            manager = tir.BuildManager(target=target, output_dir=self._folder.path)
            self._executor = manager.build(LoweredModule({name: function}))

    def _check_variables(self) -> None:
        known = {p.key() for p in self._params if isinstance(p, PrimExpr)}
        known |= {
            e.key() for p in self._params if isinstance(p, Tensor) for e in p.shape if e.node in ("Var", "SizeVar")
        }
        needed = list(self._kernel.sizes)
        for _, _, elements in self._kernel.workspaces:
            needed += variables(elements)
        unknown = sorted({v.name for v in needed if v.key() not in known})
        if unknown:
            raise TVMError(f"{self.name}: the arguments do not determine the variables {', '.join(unknown)}")

    @property
    def executor(self) -> Any:
        """What runs the kernel; None where it is interpreted."""
        return self._executor

    @property
    def kernel_text(self) -> str:
        """The kernel IR."""
        return self._kernel.text()

    def __call__(self, *args: Any) -> None:
        values = self.bind(args)
        if self._executor is None:
            self._kernel.interpret(values, tec_count=_TEC_COUNT)
        else:
            self._executor(*[value for value, _ in values])

    def bind(self, args: Sequence[Any]) -> List[Tuple[Any, str]]:
        """The kernel's arguments: arrays with the type "", scalars with theirs."""
        if len(args) != len(self._params):
            raise TVMError(f"{self.name}: num_args should be {len(self._params)}, not {len(args)}")
        sizes: Dict[str, Tuple[Any, int]] = {}
        values: List[Tuple[Any, str]] = []
        for i, (param, arg) in enumerate(zip(self._params, args)):
            if isinstance(param, Tensor):
                values.append((self._array(i, param, arg), ""))
            else:
                values.append((self._scalar(i, param, arg), param.dtype))
                if param.dtype in ("int32", "int64"):
                    sizes[param.key()] = (param, int(arg))
        for param, (value, _) in zip(self._params, values):
            if isinstance(param, Tensor):
                self._bind_sizes(param, value, sizes)
        for param, (value, _) in zip(self._params, values):
            if isinstance(param, Tensor):
                self._check_shape(param, value, sizes)
        values += [(sizes[v.key()][1], v.dtype) for v in self._kernel.sizes]
        pairs = [(v, const(n, v.dtype)) for v, n in sizes.values()]
        for _, dtype, elements in self._kernel.workspaces:
            count = int(_te.substitute(elements, pairs))
            values.append((np.zeros(max(count, 1), _numpy_dtype(dtype)), ""))
        # An array without elements has no memory; the kernel gets some that it does not touch.
        return [(np.zeros(1, v.dtype) if kind == "" and v.size == 0 else v, kind) for v, kind in values]

    def _array(self, i: int, param: Any, arg: Any) -> np.ndarray:
        where = f"{self.name}.{param.name}"
        array = arg._data if isinstance(arg, nd.NDArray) else arg
        if not isinstance(array, np.ndarray):
            if isinstance(arg, (int, float, np.number, list, tuple)) or arg is None:
                raise TVMError(f"{self.name}: Expect arg[{i}] to be pointer, not {type(arg).__name__}")
            raise TypeError(f"{self.name}: argument {i} of type {type(arg).__name__}")
        if array.ndim != param.ndim:
            raise TVMError(f"{where}.ndim is expected to equal {param.ndim}, not {array.ndim}")
        if array.dtype.name != param.dtype:
            raise TVMError(f"{where}.dtype is expected to be {param.dtype}, not {array.dtype.name}")
        if not array.flags.c_contiguous:
            raise TVMError(f"{where}.strides: expected to be compact array")
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

    def _check_shape(self, param: Any, value: np.ndarray, sizes: Dict[str, Tuple[Any, int]]) -> None:
        pairs = [(v, const(n, v.dtype)) for v, n in sizes.values()]
        for d, (extent, size) in enumerate(zip(param.shape, value.shape)):
            expected = _te.substitute(extent, pairs)
            if expected.node != "IntImm":
                names = ", ".join(v.name for v in variables(expected))
                raise TVMError(f"{self.name}: the arguments do not determine the variables {names}")
            if int(expected) != size:
                raise TVMError(
                    f"Argument {self.name}.{param.name}.shape[{d}] has an unsatisfied constraint: "
                    f"({extent} == {int(expected)}), it is {size}"
                )
        narrow = all(e.dtype == "int32" for e in param.shape)
        if narrow and value.size >= 2**31:
            raise TVMError(f"{self.name}.{param.name}: more than 2^31 elements need extents of type int64")


def _numpy_dtype(dtype: str) -> Any:
    return "uint16" if dtype == "bfloat16" else dtype


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
        self.imported_modules: List[Any] = []
        self.type_key = target
        self.is_runnable = True

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
        return function.kernel_text if fmt == "tir" or function.executor is None else function.executor.c_code

    def time_evaluator(
        self, func_name: str, dev: Any = None, number: int = 10, repeat: int = 1, min_repeat_ms: int = 0, **_: Any
    ) -> Any:
        """A function of the arguments that measures: one call to warm up, then ``repeat`` times ``number`` calls."""
        function = self.get_function(func_name)

        def measure(*args: Any) -> BenchmarkResult:
            values = [value for value, _ in function.bind(args)]
            if function.executor is not None:
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


def build(inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """A schedule or lowered functions: :func:`aipu.te.build`. Anything else is a model: :func:`aipu.model.build`."""
    if isinstance(inputs, (Schedule, PrimFunc, LoweredModule)):
        return build_schedule(inputs, *args, **kwargs)
    return model.build(inputs, *args, **kwargs)
