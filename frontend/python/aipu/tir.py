"""From a decorated function to something that runs: :class:`BuildManager` and :class:`Executor`."""

from __future__ import annotations

import functools
import os
import subprocess
import types
import uuid
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _native, script
from ._capture import names_visible
from ._dtype import DataType
from ._errors import CompassCodeGenCError, CompassCompileCError, DecorationError, DiagnosticError
from ._info import CompassInfo, building_for, resolve_target
from ._plugin_text import plugin_text
from ._report import write_report
from ._rpc import rpc_session_key
from ._settings import LOGGER, Switches, setup_logger, switches
from .script._record import check_record, leaves
from .te import _buffer, _functor, _tensor
from .te._functions import tir_names

_EXPRESSIONS = {
    **tir_names(),
    **_buffer.tir_names(),
    **{name: getattr(_tensor, name) for name in ("comm_reducer", "max", "min", "sum")},
    "CommReducer": _native.te.CommReducer,
    "stmt_functor": _functor.stmt_functor,
}


def __getattr__(name: str) -> Any:
    """The nodes and functions of tensor expressions; not as globals, since some have names of Python's own."""
    if name in _EXPRESSIONS:
        return _EXPRESSIONS[name]
    if name == "Schedule":
        from .schedule import Schedule

        return Schedule
    if name == "PrimFunc":
        from .te._module import PrimFunc

        return PrimFunc
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class ParamInfo(NamedTuple):
    """What a parameter of an entry is to its caller.

    ``category`` is ``input_tensor``, ``output_tensor``, ``const_tensor``, ``descriptor`` or ``attr``; ``tensor_idx``
    the place of a tensor among its like, from 0, None for others.
    """

    name: str
    dtype: DataType
    category: str
    tensor_idx: Optional[int]

    @property
    def is_input_tensor(self) -> bool:
        """A pointer that the kernel reads."""
        return self.category == "input_tensor"

    @property
    def is_const_tensor(self) -> bool:
        """A pointer of scope ``global.1`` that the kernel reads."""
        return self.category == "const_tensor"

    @property
    def is_output_tensor(self) -> bool:
        """A pointer that the kernel may write."""
        return self.category == "output_tensor"

    @property
    def is_descriptor(self) -> bool:
        """A pointer that reaches an AIFF call."""
        return self.category == "descriptor"

    @property
    def is_attr(self) -> bool:
        """A scalar."""
        return self.category == "attr"

    @property
    def is_tensor(self) -> bool:
        """An input, output or constant."""
        return self.category.endswith("_tensor")


class PrimFuncInfo(NamedTuple):
    """The name of an entry and its parameters, in order."""

    name: str
    param_infos: Tuple[ParamInfo, ...]


class IRModule:
    """A kernel and its sub-functions as typed IR. ``str()`` of it is its text, which :meth:`from_text` reads."""

    def __init__(self, module: Any) -> None:
        self._module = module

    @classmethod
    def from_text(cls, text: str) -> "IRModule":
        """The module of a text; ValueError if there is an error in it."""
        module, error = _native.parse_kernel_text(text)
        if module is None:
            raise ValueError(error)
        return cls(module)

    @staticmethod
    def from_expr(function: Any) -> "IRModule":
        """The module of one lowered function, under its name."""
        from .te._module import LoweredModule, PrimFunc

        if not isinstance(function, PrimFunc):
            raise ValueError(f"from_expr: a lowered PrimFunc, not {type(function).__name__}")
        return LoweredModule({function.name: function})

    @property
    def entry(self) -> str:
        """The name of the entry function."""
        return self._module.name

    @property
    def functions(self) -> List[str]:
        """The names of all functions, the entry first."""
        return self._module.functions

    def script(self) -> str:
        """The text of the module."""
        return self._module.text()

    def __str__(self) -> str:
        return self._module.text()


def prim_func_info(module: IRModule) -> PrimFuncInfo:
    """The categories of the parameters of a module's entry; AssertionError for a descriptor of a wrong type."""
    params, error = module._module.parameters()
    assert params is not None, error
    return PrimFuncInfo(
        module.entry, tuple(ParamInfo(n, DataType(d), c, None if index < 0 else index) for n, d, c, index in params)
    )


class BenchmarkResult(NamedTuple):
    """Seconds per run of each repetition."""

    results: Tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of the repetitions."""
        return sum(self.results) / len(self.results) if self.results else 0.0

    @property
    def median(self) -> float:
        """The median of the repetitions."""
        ordered = sorted(self.results)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

    @property
    def min(self) -> float:
        """The shortest repetition."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The longest repetition."""
        return max(self.results)

    def __str__(self) -> str:
        return f"mean {self.mean * 1e6:.2f} us, min {self.min * 1e6:.2f} us, max {self.max * 1e6:.2f} us"


class Executor:
    """A compiled kernel. Called with the entry's arguments it runs; arrays that the kernel writes are changed in place.

    A pointer parameter takes a NumPy array (None or 0 for a null pointer), a scalar parameter a number. For each kind
    of call (shapes, types, scalars) an aipu.bin is made once and kept ready. AssertionError for arguments that do not
    fit.
    """

    def __init__(
        self,
        compiled: Any,
        c_code: str,
        info: PrimFuncInfo,
        cps_info: CompassInfo,
        output_dir: str,
        active: Switches = Switches(),
        parameters: Optional[Sequence["script.Parameter"]] = None,
        workspaces: Optional[Callable[[Sequence[Any]], List[np.ndarray]]] = None,
    ) -> None:
        self._compiled = compiled
        self._workspaces = workspaces  # what the kernel takes behind the arguments of a call
        self._parameters = None if parameters is None else tuple(parameters)  # as the source has them
        self._switches = active
        self._cps_info = cps_info
        self._timed: Any = None  # the kernel with counters, once profile() has been asked for
        self._c_code = c_code
        self._info = info
        self._folder = output_dir
        self._rpc_session: Any = None
        self.mtriple: Optional[str] = None
        gbuilder = os.path.join(output_dir, "gbuilder")
        # In debug mode the kernel is interpreted: an access outside of an array is an error, not a crash.
        backend = "interp" if active.debug else ""
        self._native = _native.Executor(
            compiled, gbuilder, _warn_dtype, functools.partial(_write_call_files, info, gbuilder), backend
        )

    @property
    def machine_code(self) -> bytes:
        """The object file."""
        return self._compiled.object

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Builds the graph for these arguments if there is none yet, and runs it. Arguments may be given by name."""
        self.run(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> None:
        """The same as calling the executor."""
        if kwargs:
            args = self._in_order(args, kwargs)
        args = self._flat(args)
        if self._switches.profile:
            self._profile(args)
        if self._switches.debug or self._switches.emulator:
            self._run_dumping(args)
        else:
            self._native(*args)

    def _run_dumping(self, args: Tuple[Any, ...]) -> None:
        """Runs with the tensors written to files beside the aipu.bin: what the kernel reads before, the rest after."""
        folder = os.path.join(self._folder, "gbuilder")

        def dump(category: str, name: Callable[[int, int], str]) -> None:
            tensors = [a for p, a in zip(self._info.param_infos, args) if p.category == category]
            tensors = [a for a in tensors if isinstance(a, np.ndarray)]
            for i, tensor in enumerate(tensors):
                _native.write_file(os.path.join(folder, name(i, len(tensors))), tensor.tobytes())

        dump("input_tensor", lambda i, _: f"input{i}.bin")
        dump("const_tensor", lambda i, _: f"weight{i}.bin")
        self._native(*args)
        dump("output_tensor", lambda i, count: "npu_output.bin" if count == 1 else f"npu_output.bin{i}")

    def _in_order(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Any, ...]:
        names = [param.name for param in self._parameters or self._info.param_infos]
        given = dict(zip(names, args))
        for name, value in kwargs.items():
            assert name in names, f'The function "{self._info.name}" got unexpect keyword args: "{name}".'
            assert name not in given, f'The function "{self._info.name}" got multiple values for args: "{name}".'
            given[name] = value
        count = len(args) + len(kwargs)
        assert len(given) == len(names) == count, (
            f'The function "{self._info.name}" expect {len(names)} args, but got: "{count}".'
        )
        return tuple(given[name] for name in names)

    def _flat(self, args: Tuple[Any, ...]) -> Tuple[Any, ...]:
        """The arguments with a record's fields in its place."""
        for i, (param, arg) in enumerate(zip(self._parameters or (), args)):
            check_record(f"{i + 1}-th arg", param.annotation, arg)
        flat = tuple(leaf for arg in args for leaf in leaves(arg))
        return flat if self._workspaces is None else flat + tuple(self._workspaces(flat))

    @property
    def c_code(self) -> str:
        """The generated Compass C."""
        return self._c_code

    @property
    def rpc_sess(self) -> Any:
        """The remote session that runs are meant for; None: this machine."""
        return self._rpc_session

    @rpc_sess.setter
    def rpc_sess(self, session: Any) -> None:
        self._rpc_session = session
        if self.mtriple is None:
            self.mtriple = "aarch64-linux-gnu"

    def benchmark(
        self,
        *args: Any,
        repeat: int = 2,
        number: int = 3,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
    ) -> BenchmarkResult:
        """Runs the kernel ``1 + number * repeat`` times, more if a repetition is shorter than ``min_repeat_ms``;
        transfers excluded.
        """
        return BenchmarkResult(
            tuple(
                self._native.benchmark(
                    *self._flat(args),
                    repeat=repeat,
                    number=number,
                    min_repeat_ms=min_repeat_ms,
                    limit_zero_time_iterations=limit_zero_time_iterations,
                    cooldown_interval_ms=cooldown_interval_ms,
                    repeats_to_cooldown=repeats_to_cooldown,
                )
            )
        )

    def profile(self, *args: Any) -> int:
        """The cycles that the kernel takes on the target by its timing model, for these arguments, which stay as they
        are.

        Writes a report to ``<output_dir>/runtime/profile_output.html``.
        """
        return self._profile(self._flat(args))

    def _profile(self, args: Tuple[Any, ...]) -> int:
        assert len(args) == len(self._info.param_infos), (
            f'The function "{self._info.name}" expect {len(self._info.param_infos)} args, but got: "{len(args)}".'
        )
        folder = os.path.join(self._folder, "runtime")
        if self._timed is None:
            timed, error = _native.time_kernel(self._compiled)
            if timed is None:
                raise CompassCodeGenCError(error)
            self._timed = timed, _native.Executor(timed.compiled, folder, _warn_dtype, lambda *_: None)
        timed, executor = self._timed
        tecs = (
            max(self._cps_info.tec_count, os.cpu_count() or 1) if self._cps_info.is_host else self._cps_info.tec_count
        )
        counters = np.zeros(tecs * timed.counter_count, "int64")
        executor(*[a.copy() if isinstance(a, np.ndarray) else a for a in args], counters)
        _native.write_file(os.path.join(folder, "profile_data.bin"), counters.tobytes())
        estimate = timed.estimate(counters.tobytes())
        write_report(
            estimate, self._info, args, self._cps_info, self._c_code, os.path.join(folder, "profile_output.html")
        )
        return int(round(estimate["cycles"]))


# What the native half calls back. Not methods: an executor that its native half refers to would never go away.


def _warn_dtype(index: int, name: str, expected: str, found: str) -> None:
    LOGGER.warning('The %d-th arg of function "%s" expect a %s NumPy, but got: "%s".', index, name, expected, found)


def _write_call_files(
    info: PrimFuncInfo,
    folder: str,
    ir_text: str,
    weights: bytes,
    attributes: List[Tuple[str, str]],
    constants: List[str],
    offsets: Dict[str, int],
    log: str,
) -> None:
    """The Compass IR of a call and its plugin, of which ``aipugb`` makes the same aipu.bin again."""
    plugin = f"aipubt_gb_{info.name}.py"
    _write(os.path.join(folder, "compass_ir.txt"), ir_text)
    _native.write_file(os.path.join(folder, "compass_ir.bin"), weights)
    _write(os.path.join(folder, plugin), plugin_text(info, {name for name, _ in attributes}, constants, offsets))
    _write(os.path.join(folder, "aipugb.log"), f"aipugb compass_ir.txt --plugin {plugin} -o aipu.bin --verbose\n{log}")


def _write_assembly(object_path: str) -> None:
    """The disassembly of an object file beside it."""
    try:
        command = ["objdump", "-d", "--no-show-raw-insn", object_path]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        LOGGER.warning("The assembly is not written: %s", error)
        return
    _write(os.path.splitext(object_path)[0] + ".s", text)


def _write(path: str, text: str) -> None:
    _native.write_file(path, text.encode())


Function = Union["script.PyPrimFunc", IRModule]


def _of_expressions(inp: Any, name: Optional[str], args: Optional[Sequence[Any]]) -> Any:
    """A schedule or a function of tensor expressions as a module; others as they are."""
    from .te import _module, _schedule

    if isinstance(inp, _schedule.Schedule):
        if args is None:
            raise ValueError("a schedule needs args: its tensors and variables in the order of the parameters")
        inp = _module.lower(inp, args, name or "main")
    elif isinstance(inp, _module.PrimFunc):
        inp = _module.LoweredModule({name or inp.name: inp})
    if isinstance(inp, _module.LoweredModule):
        inp.check_parameters_suffice()
    return inp


class BuildManager:
    """Builds kernels for one target.

    ``target``: a name (``"X2_1204"``, ``"host"``), ``"compass -mcpu=X2_1204"`` or an object with such a name; the
    environment variable
    ``CPS_TVM_GBUILDER_TARGET`` wins. AssertionError for X1 targets, ValueError for unknown ones.
    ``output_dir``: where everything is written; by default ``./compass_dsl_<entry>_<32 hexadecimal digits>``, made by
    the build.
    ``cc_options``: further options of the C compiler. ``disabled_pass``: names of passes to leave out.
    """

    def __init__(
        self,
        target: Any = "X2_1204",
        output_dir: Optional[str] = None,
        cc_options: str = "",
        disabled_pass: Optional[Sequence[str]] = None,
    ) -> None:
        setup_logger()
        self._switches = switches()
        key = rpc_session_key(self._switches)
        if "," in (key or "") and "CPS_TVM_GBUILDER_TARGET" not in os.environ:
            target = str(key).split(",", 1)[1].strip() or target
        self.target = resolve_target(target)
        assert not self.target.startswith("X1"), f'The Compass DSL does not support the target "{self.target}".'
        self.cps_info = CompassInfo.get(self.target)
        self.target = self.cps_info.name
        self.cc_options = cc_options
        self.disabled_pass: Tuple[str, ...] = tuple(disabled_pass or ())
        self._output_dir = output_dir
        self.output_dir: Optional[str] = None if output_dir is None else os.path.abspath(output_dir)
        self.prim_func_info: Optional[PrimFuncInfo] = None

    # --- stages -------------------------------------------------------------------------------------------------------

    def lower(self, inp: Function, name: Optional[str] = None, args: Optional[Sequence[Any]] = None) -> IRModule:
        """The IR of a decorated function or module after the lowering passes. ``name`` renames the entry.

        A schedule of tensor expressions comes with ``args``, its tensors and variables in order.
        """
        inp = _of_expressions(inp, name, args)
        with building_for(self.cps_info):
            module = self._parse(inp, name)
            lowered, error = module.lower(self.target, list(self.disabled_pass))
        if lowered is None:
            raise CompassCodeGenCError(error)
        return IRModule(lowered)

    def build(self, inp: Function, name: Optional[str] = None, args: Optional[Sequence[Any]] = None) -> Executor:
        """Compiles a decorated function (or a module); what comes back runs it. The function can then also be called
        as Python. A schedule of tensor expressions comes with ``args``, its tensors and variables in order.

        Diagnostics of the language are printed to stderr and raised as RuntimeError; ValueError for an object that is
        no kernel.
        """
        inp = _of_expressions(inp, name, args)
        return self._executor(inp, self._compile(inp, name))

    def load(self, inp: "IRModule", machine_code: bytes) -> Executor:
        """What :meth:`build` has made of a module before, from :attr:`Executor.machine_code`: nothing is compiled."""
        return self._executor(inp, self._compile(inp, None, machine_code))

    def _executor(self, inp: Function, made: Tuple[Any, str, PrimFuncInfo, str]) -> Executor:
        compiled, c_code, info, output_dir = made
        if isinstance(inp, script.PyPrimFunc):
            inp.param_infos = list(info.param_infos)
            inp.cps_info = self.cps_info
            inp.output_dir = output_dir
        parameters = inp.params if isinstance(inp, script.PyPrimFunc) else None
        workspaces = getattr(inp, "workspaces", None)
        return Executor(compiled, c_code, info, self.cps_info, output_dir, self._switches, parameters, workspaces)

    def gen_op_lib(
        self, inp: Function, name: Optional[str] = None, output_path: Optional[str] = None, verbose: bool = False
    ) -> str:
        """Compiles up to the object file, by default ``<output_dir>/gbuilder/op_lib/<entry>.o``; returns its path."""
        compiled, _, info, output_dir = self._compile(inp, name)
        path = os.path.join(output_dir, "gbuilder", "op_lib", f"{info.name}.o")
        if output_path is not None:
            path = os.path.abspath(output_path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _native.write_file(path, compiled.object)
        if verbose:
            print(f"The operator library has been generated: {path}")
        return path

    # --- parts --------------------------------------------------------------------------------------------------------

    def _parse(self, inp: Function, name: Optional[str]) -> Any:
        if isinstance(inp, script.PyPrimFunc):
            with names_visible(inp, inp.names):
                module, text = _native.parse_kernel(inp, name or "", self.target)
            if module is None:
                error = DiagnosticError(text).emit()
                if "return a stack pointer" in text.partition("\n")[0]:
                    raise AssertionError(text.partition("\n")[0]) from error
                raise error
            return module
        if isinstance(inp, IRModule):
            return inp._module
        if isinstance(inp, (types.FunctionType, types.MethodType, script.PyMacro)):
            raise DecorationError(f'The function "{inp.__name__}" must be decorated by "S.prim_func".')
        raise ValueError(f'Expected input to be an IRModule or PrimFunc, but got: "{type(inp).__name__}".')

    def _compile(
        self, inp: Function, name: Optional[str], machine_code: bytes = b""
    ) -> Tuple[Any, str, PrimFuncInfo, str]:
        with building_for(self.cps_info):
            module = self._parse(inp, name)
            info = prim_func_info(IRModule(module))
            self.prim_func_info = info
            c_code, error = module.c_text(self.target, list(self.disabled_pass))
            if c_code is None:
                raise CompassCodeGenCError(error)
            output_dir = self._make_output_dir(info.name)
            op_lib = os.path.join(output_dir, "gbuilder", "op_lib")
            _write(os.path.join(op_lib, f"{info.name}.cl"), c_code)
            flags = self.cc_options.split()
            if self._switches.debug:
                flags += ["-O0", "-g"]
            compiled, error = module.compile(self.target, list(self.disabled_pass), flags, machine_code)
            _write(os.path.join(op_lib, f"{info.name}.log"), error)
            if compiled is None:
                if "failed with exit code" in error or "C compiler" in error or "linking the kernels" in error:
                    raise CompassCompileCError(error)
                raise CompassCodeGenCError(error)
            object_path = os.path.join(op_lib, f"{info.name}.o")
            _native.write_file(object_path, compiled.object)
            _write(os.path.join(op_lib, f"{info.name}.tir"), compiled.kernel_file)
            if self._switches.assembly:
                _write_assembly(object_path)
        return compiled, c_code, info, output_dir

    def _make_output_dir(self, entry: str) -> str:
        path = os.path.abspath(self._output_dir or f"compass_dsl_{entry}_{uuid.uuid4().hex}")
        for part in ("gbuilder/op_lib", "runtime"):
            os.makedirs(os.path.join(path, part), exist_ok=True)
        self.output_dir = path
        return path


__all__ = [
    "BenchmarkResult",
    "BuildManager",
    "CompassCodeGenCError",
    "CompassCompileCError",
    "DiagnosticError",
    "Executor",
    "IRModule",
    "ParamInfo",
    "PrimFuncInfo",
]
