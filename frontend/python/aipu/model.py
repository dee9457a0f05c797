"""Whole models: :func:`build` makes an aipu.bin of an ONNX model, :func:`load` and :meth:`Model.run` run it."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import threading
import warnings
import weakref
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _conversion, _files, _native
from ._conversion import ModelLike
from ._operator_text import OperatorText, plugin_sources
from ._stored_type import numpy_dtype, stored_type

PathLike = Union[str, "os.PathLike[str]"]


class TensorSpec(NamedTuple):
    """An input or output of a model. An extent is a number, the name of a symbol (``"N"``), or None if it is
    neither.
    """

    name: str
    dtype: str
    shape: Tuple[Union[int, str, None], ...]


class ListSpec(NamedTuple):
    """An input or output of a model that is a sequence or an optional: ``kind`` is ``"sequence"``, ``"optional"`` or
    ``"optional sequence"``. Runs take and give a list of ``length`` arrays for a sequence, an array for an optional
    tensor, and None for an optional without a value (``length`` is None then).
    """

    name: str
    kind: str
    length: Optional[int]


class ProfileRow(NamedTuple):
    """One command of a profiled run; times in seconds, and in cycles of the NPU with ``session(cycles=True)``."""

    engine: str
    name: str
    origin: str
    threads: int
    start: float
    duration: float
    start_cycles: Optional[int] = None
    cycles: Optional[int] = None


def _optional_path(path: Optional[PathLike]) -> str:
    return os.fspath(path) if path is not None else ""


def build(
    model: ModelLike,
    output: Optional[PathLike] = None,
    *,
    target: Optional[str] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    expose: Sequence[str] = (),
    sequence_lengths: Optional[Mapping[str, Optional[int]]] = None,
    constants: Optional[Mapping[str, Any]] = None,
    plugins: Sequence[Any] = (),
    target_plugins: Sequence[PathLike] = (),
    weights: Optional[PathLike] = None,
    disabled_passes: Sequence[str] = (),
    fast_math: bool = False,
    strip: bool = False,
    sign_key: Optional[PathLike] = None,
    emit_c: Optional[PathLike] = None,
    emit_ir: Optional[PathLike] = None,
    dump_ir: Optional[PathLike] = None,
    jobs: int = 0,
    use_cache: bool = True,
) -> Dict[str, Any]:
    """Converts an ONNX model (or Compass IR text with its ``weights``) to an aipu.bin, as the program ``aipugb`` does.

    ``model``: a path, the bytes of an ONNX file, or an ``onnx.ModelProto``; the latter two hold all their weights
    themselves. ``output``: by default the model's path with ``.aipu.bin`` instead of its extension.
    ``target``: ``"host"`` or a Compass target such as ``"X2_1204"``; by default the host, of the Compass IR of a
    kernel's call what the kernel was built for. ``shapes``: fixed shapes of inputs by name; -1 keeps an extent.
    ``expose``: values between the nodes of the outermost graph, by ONNX names (``*`` stands for any text), that become
    further outputs. They are what the graph says: nothing is fused over them.
    ``sequence_lengths``: how many elements an input has that is a sequence; None for an optional without a value. The
    elements of the sequence ``x`` are inputs ``x[0]``, ``x[1]``, ... for ``shapes``. ``constants``: inputs that become
    constants, by name.
    ``plugins``: operators of your own: files, functions declared by :mod:`aipu.op`, or modules that have some.
    ``target_plugins``: targets of your own: shared libraries. They stay known to the process.
    ``fast_math``: trade accuracy for speed, as ``aipugb --fast-math`` does; NaN spread over tiles of 4x4 pixels.
    ``strip``: leave out what only people and the interpreter read (C, TIR, Compass IR, the graph as text).
    ``sign_key``: sign the file with this private Ed25519 key, a PEM file. ``emit_c``, ``dump_ir``: folders for the
    generated C, and for everything in between; ``emit_ir``: prefix for Compass IR.

    Returns a report (nodes, kernels, bytes, seconds per stage, warnings, ``"output"``). RuntimeError, ValueError or
    OSError with one line that names the node and what is wrong with it.
    """
    if isinstance(plugins, (str, bytes, os.PathLike)):
        raise TypeError(f"plugins: expected a list of files, found {plugins!r}; write plugins=[{plugins!r}]")
    if isinstance(expose, str):
        raise TypeError(f"expose: expected a list of names; write expose=[{expose!r}]")
    if isinstance(target_plugins, (str, bytes, os.PathLike)):
        raise TypeError(f"target_plugins: expected a list of files; write target_plugins=[{target_plugins!r}]")
    if isinstance(disabled_passes, str):
        raise TypeError(f"disabled_passes: expected a list of names; write disabled_passes=[{disabled_passes!r}]")
    if not 0 <= int(jobs) <= 1024:
        raise ValueError(f"jobs: expected a number from 0 to 1024, found {jobs}")
    for name, extents in (shapes or {}).items():
        if isinstance(extents, (str, bytes)) or not hasattr(extents, "__iter__"):
            raise TypeError(f"shapes['{name}']: expected a list of extents such as [1, 3, 224, 224], found {extents!r}")
    files, operators = plugin_sources(plugins)
    if any(file.endswith(".so") for file in files):
        _conversion.show_symbols()
    _conversion.load_targets(target_plugins)
    if output is None:
        if _conversion.model_bytes(model) is not None:
            raise TypeError("output: a model in memory has no path to take the name from; say where the aipu.bin goes")
        output = os.path.splitext(os.fspath(model))[0] + ".aipu.bin"
    path = os.fspath(output)
    options = _native.BuildOptions()
    options.weights = _optional_path(weights)
    options.output = path
    options.target = target or ""
    options.shapes = [
        f"{name}={'x'.join(str(int(extent)) for extent in extents)}" for name, extents in (shapes or {}).items()
    ]
    options.exposed = list(expose)
    options.sequence_lengths = [
        f"{name}={'none' if length is None else int(length)}" for name, length in (sequence_lengths or {}).items()
    ]
    for name, value in (constants or {}).items():
        array = np.asarray(value)
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
        options.add_constant(name, array.dtype.name, list(array.shape), array.tobytes())
    options.plugins = files
    options.plugin_texts = [(operator.name, operator.text) for operator in operators]
    options.emit_c = _optional_path(emit_c)
    options.emit_ir = _optional_path(emit_ir)
    options.dump_ir = _optional_path(dump_ir)
    options.disabled_passes = list(disabled_passes)
    options.fast_math = fast_math
    options.strip = strip
    options.jobs = jobs
    options.use_cache = use_cache
    with _located(operators), _conversion.model_path(model) as source:
        options.model = source
        report = _native.build_model(options, _optional_path(sign_key))
    report["output"] = path
    return report


@contextlib.contextmanager
def _located(operators: Sequence[OperatorText]) -> Iterator[None]:
    """Errors about operators that are Python objects name the places of their sources."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        message = str(error)
        for operator in operators:
            message = operator.located(message)
        if message == str(error):
            raise
        raise type(error)(message) from None


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a model may take; what goes beyond is a RuntimeError that names the option. 0 is no limit of one's own.

    Memory is in bytes, beyond the file and the inputs; time in seconds. Native code is not interrupted when its time
    is over, only not gone on with.

    ``safe_backend``: refuse back ends that run native code of the file; ``"interp"`` is the default then.
    """

    load_memory: int = 0
    load_time: float = 0
    plan_memory: int = 0
    plan_time: float = 0
    run_memory: int = 0
    run_time: float = 0
    safe_backend: bool = False

    @staticmethod
    def untrusted() -> "Limits":
        """For files from people one does not trust: interpreted, 1 GiB, 10 s to load and to plan, 60 s to run."""
        return Limits(1 << 30, 10, 1 << 30, 10, 1 << 30, 60, safe_backend=True)

    def _to_native(self) -> _native.Limits:
        limits = _native.Limits()
        for name, value in dataclasses.asdict(self).items():
            if not value >= 0:
                raise ValueError(f"limits: {name} is {value}")
            if name != "safe_backend":
                setattr(limits, name, value)
        return limits


def load(
    path: Union[PathLike, bytes],
    *,
    backend: Optional[str] = None,
    verify: bool = False,
    copy: bool = False,
    limits: Optional[Limits] = None,
    sandbox: bool = False,
    trusted_key: Optional[PathLike] = None,
) -> "Model":
    """Loads an aipu.bin: a path, or its bytes.

    A file is mapped: while the model lives it must be neither cut off (the process would end by SIGBUS) nor written
    over. Replace a file that is in use by renaming a new one to its name (``os.replace``), as :func:`build` does, or
    ``copy`` it into memory.

    ``backend``: ``"native"``, ``"sim"``, ``"interp"`` or the name of a back end library; by default what the model was
    compiled for.
    ``limits``: what loading and running it may take, see :class:`Limits`.
    ``verify``: check the hashes of large constants too. RuntimeError or OSError if the file is damaged or cannot run
    here.
    ``sandbox``: interpret it in a process of its own for each session, which can do nothing but compute and is killed
    when its time is over: for services that run files of people they do not trust. Limits that are not given are those
    of :meth:`Limits.untrusted`; there are no profiles, and what kernels print is lost. The run in which a process dies
    or is killed is a RuntimeError that says how, the next one starts another. RuntimeWarning where the system lets it
    be contained by limits only. Linux.
    ``trusted_key``: refuse a file that is not signed (``aipugb --sign``) with the private half of this public key, the
    path of a PEM file or the text of one. The file is copied then.
    """
    if limits is None:
        limits = Limits()
    if limits.safe_backend:
        backend = backend or "interp"
        copy = True
    options = _native.LoadOptions()
    options.backend = backend or ""
    options.verify = verify
    options.copy = copy
    options.sandbox = sandbox
    if trusted_key is not None:
        options.trusted_key = os.fspath(trusted_key)
        if not options.trusted_key:
            raise ValueError("trusted_key: an empty text is no key; None asks for no signature")
    options.safe_backend = limits.safe_backend
    if isinstance(path, (bytes, bytearray, memoryview)):
        with _files.file_of_bytes(bytes(path), "model.aipu.bin") as name:
            native = _native.Model(name, options, limits._to_native())
    else:
        native = _native.Model(os.fspath(path), options, limits._to_native())
    if native.warning:
        warnings.warn(native.warning, RuntimeWarning, stacklevel=2)
    return Model(native, sandbox)


def enable_crash_reports() -> None:
    """From now on a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL) in native code of a kernel prints one line to stderr that
    names the kernel and what shows the access, before the process ends as it would have.

    For models and for kernels that are called from Python; goes together with ``faulthandler``.
    """
    _native.enable_crash_reports()


def _input_array(spec: TensorSpec, value: Any) -> np.ndarray:
    """The value of an input as a C-contiguous array in this machine's byte order; itself where it is one already.
    Elements of stored types are given as their codes."""
    name = spec.name
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"input '{_shown(name)}': some elements are masked; give .filled(value) instead")
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        value = _from_dlpack(name, value)
    array = np.asarray(value)
    stored = stored_type(spec.dtype)
    if stored is not None:
        return np.asarray(stored.codes_of(array), order="C")
    if array.dtype == bool and array.size > 0 and array.view(np.uint8).max() > 1:
        return np.asarray(array.view(np.uint8) != 0, order="C")  # NumPy takes any byte but 0 for true, kernels do not
    if array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative:
        return array
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def _from_dlpack(name: str, value: Any) -> np.ndarray:
    """A tensor of another library, in place."""
    device = value.__dlpack_device__()[0] if hasattr(value, "__dlpack_device__") else _DLPACK_CPU
    if int(device) != _DLPACK_CPU:
        raise ValueError(
            f"input '{_shown(name)}': the tensor is on a device (DLPack type {int(device)}); copy it to the CPU"
        )
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ValueError(f"input '{_shown(name)}': NumPy cannot take the tensor by DLPack: {error}") from error


_DLPACK_CPU = 1


def _output_array(spec: TensorSpec, array: Any) -> np.ndarray:
    """Checks an array that an output is to be written into; what its memory is like is checked when it is bound."""
    name = spec.name
    if not isinstance(array, np.ndarray):
        raise TypeError(f"output '{_shown(name)}': a NumPy array is expected, found {type(array).__name__}")
    if isinstance(array, np.ma.MaskedArray):
        raise ValueError(f"output '{_shown(name)}': a masked array cannot be written into; give its .data")
    if not array.dtype.isnative:
        raise ValueError(f"output '{_shown(name)}': the array is not in this machine's byte order ({array.dtype.str})")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(f"output '{_shown(name)}': an aligned, C-contiguous array is expected")
    stored = stored_type(spec.dtype)
    if stored is not None and stored.codes_of(array).dtype != stored.codes:
        raise ValueError(f"output '{_shown(name)}': expected {stored.dtype}, found {array.dtype}")
    if stored is not None and not array.flags.writeable:
        raise ValueError(f"output '{_shown(name)}': the array is read-only")
    return array


def _shown(names: "Union[str, Iterable[str]]") -> str:
    """Names of a model for a message: a terminal obeys some of what they may hold."""
    return _native.printable(names if isinstance(names, str) else ", ".join(names))


class _TensorList:
    """A sequence or an optional among the inputs or outputs, and the names of the tensors that it is made of."""

    KINDS = ("sequence", "optional", "optional sequence")

    def __init__(self, kind: int, absent: bool, names: List[str]) -> None:
        self.kind = self.KINDS[kind]
        self.absent = absent
        self.names = names

    def has_to_be_given(self) -> bool:
        return bool(self.names)

    def elements(self, name: str, value: Any) -> Dict[str, Any]:
        """The elements of what is given for it, by name."""
        if self.absent:
            if value is not None:
                raise ValueError(f"input '{_shown(name)}': the model was converted for an optional without a value")
            return {}
        if value is None:
            raise ValueError(f"input '{_shown(name)}': the model was converted for an optional that has a value")
        values = [value] if self.kind == "optional" else value
        if isinstance(values, np.ndarray) or not hasattr(values, "__len__"):
            raise TypeError(f"input '{_shown(name)}': a list of arrays is expected, found {type(values).__name__}")
        if len(values) != len(self.names):
            raise ValueError(
                f"input '{_shown(name)}': the model was converted for {len(self.names)} elements, found {len(values)}"
            )
        return dict(zip(self.names, values))

    def value(self, results: Mapping[str, Any]) -> Any:
        """What a run gives for it."""
        if self.absent:
            return None
        values = [results[name] for name in self.names]
        return values[0] if self.kind == "optional" else values


class _Signature:
    """What a model takes and gives, and the checks of what a run is given."""

    def __init__(self, native: Any) -> None:
        self.inputs: Tuple[TensorSpec, ...] = tuple(TensorSpec(*spec) for spec in native.inputs)
        self.outputs: Tuple[TensorSpec, ...] = tuple(TensorSpec(*spec) for spec in native.outputs)
        self.input_index = {spec.name: i for i, spec in enumerate(self.inputs)}
        self.output_index = {spec.name: i for i, spec in enumerate(self.outputs)}
        self.input_lists: Dict[str, _TensorList] = {}
        self.output_lists: Dict[str, _TensorList] = {}
        for name, is_input, kind, absent, first, count in native.lists:
            tensors = (self.inputs if is_input else self.outputs)[first : first + count]
            found = _TensorList(kind, absent, [spec.name for spec in tensors])
            (self.input_lists if is_input else self.output_lists)[name] = found

    def _flat(self, inputs: Mapping[str, Any]) -> Dict[str, Any]:
        """The arrays by the names of the model's tensors, those of lists too."""
        flat = {name: value for name, value in inputs.items() if name not in self.input_lists}
        for name, found in self.input_lists.items():
            if name in inputs:
                flat.update(found.elements(name, inputs[name]))
            elif found.has_to_be_given() and not all(element in inputs for element in found.names):
                raise ValueError(f"no value for input '{_shown(name)}': every run takes all inputs")
        return flat

    def wanted_tensors(
        self, outputs: Union[Sequence[str], Mapping[str, np.ndarray], None]
    ) -> Union[Sequence[str], Mapping[str, np.ndarray], None]:
        """The tensors of outputs that may be lists."""
        if not self.output_lists or outputs is None or isinstance(outputs, (str, bytes)):
            return outputs
        if isinstance(outputs, Mapping):
            for name in outputs:
                if name in self.output_lists:
                    raise TypeError(f"output '{_shown(name)}' is a list: it cannot be written into an array")
            return outputs
        tensors: List[str] = []
        for name in outputs:
            tensors += self.output_lists[name].names if name in self.output_lists else [name]
        return tensors

    def named(
        self, results: Dict[str, Any], outputs: Union[Sequence[str], Mapping[str, np.ndarray], None]
    ) -> Dict[str, Any]:
        """The results of a run with the elements of lists together."""
        if not self.output_lists:
            return results
        if outputs is not None:
            return {
                name: self.output_lists[name].value(results) if name in self.output_lists else results[name]
                for name in outputs
            }
        first = {found.names[0]: name for name, found in self.output_lists.items() if found.names}
        inner = {element for found in self.output_lists.values() for element in found.names}
        named: Dict[str, Any] = {}
        for name, value in results.items():
            if name in first:
                named[first[name]] = self.output_lists[first[name]].value(results)
            elif name not in inner:
                named[name] = value
        for name, found in self.output_lists.items():
            named.setdefault(name, found.value(results))
        return named

    def input_values(self, inputs: Mapping[str, Any]) -> List[np.ndarray]:
        """An array per input of the model."""
        if not isinstance(inputs, Mapping):
            raise TypeError(f"inputs: a mapping from names to arrays is expected, found {type(inputs).__name__}")
        if self.input_lists:
            inputs = self._flat(inputs)
        for name in inputs:
            if name not in self.input_index:
                raise ValueError(f"the model has no input '{_shown(name)}' (there are: {_shown(self.input_index)})")
        missing = [name for name in self.input_index if inputs.get(name) is None]
        if missing:
            raise ValueError(f"no value for input {', '.join(map(repr, missing))}: every run takes all inputs")
        return [_input_array(spec, inputs[spec.name]) for spec in self.inputs]

    def wanted_outputs(
        self, outputs: Union[Sequence[str], Mapping[str, np.ndarray], None]
    ) -> Dict[str, Optional[np.ndarray]]:
        """The array given for each output that is wanted, or None."""
        if isinstance(outputs, (str, bytes)):
            raise TypeError(f"outputs: a list of names is expected, found {outputs!r}")
        outputs = self.wanted_tensors(outputs)
        names = self.output_index if outputs is None else outputs
        for name in names:
            if name not in self.output_index:
                raise ValueError(f"the model has no output '{_shown(name)}' (there are: {_shown(self.output_index)})")
        if isinstance(outputs, Mapping):
            return {
                name: _output_array(self.outputs[self.output_index[name]], array) for name, array in outputs.items()
            }
        return dict.fromkeys(names)


class Session:
    """Runs a model; holds its memory and threads. Made by :meth:`Model.session`.

    One thread at a time may use it: a call that comes while another thread is in one raises RuntimeError.
    """

    def __init__(
        self,
        model: Any,
        signature: _Signature,
        threads: int,
        profile: bool = False,
        cycles: bool = False,
        overlap: bool = False,
    ) -> None:
        self._native = _native.Session(model, threads, profile, cycles, overlap)
        self._signature = signature
        self._dtypes = [numpy_dtype(spec.dtype) for spec in signature.outputs]
        self._stored = [stored_type(spec.dtype) for spec in signature.outputs]
        self._in_use = threading.Lock()
        self._is_profiled = profile

    def _check_profiled(self) -> None:
        if not self._is_profiled:
            raise ValueError("the session keeps no profile; make it by model.session(profile=True)")

    @property
    def threads(self) -> int:
        """Threads that kernels are spread over."""
        return self._native.threads

    @property
    def cycles(self) -> Optional[int]:
        """What the last run would take on the NPU, whose engines work side by side; needs ``session(cycles=True)``.

        The back end ``x2`` estimates by the sizes of tensors, ``interp`` counts what kernels do. None where nothing has
        run, and for models of the CPU, of whose time there is no model.
        """
        return self._native.cycles

    @property
    def arena_bytes(self) -> int:
        """Bytes of memory held for activations."""
        return self._native.arena_bytes

    def run(
        self, inputs: Mapping[str, Any], outputs: Union[Sequence[str], Mapping[str, np.ndarray], None] = None
    ) -> Dict[str, np.ndarray]:
        """Runs the model on named arrays; returns the outputs by name.

        ``inputs``: a value for every input of the model. C-contiguous arrays in this machine's byte order are read in
        place, others are copied; objects with ``__dlpack__`` on the CPU and whatever ``np.asarray`` takes are fine,
        dtypes are not converted. Masked elements are refused.
        ``outputs``: the names wanted (all by default), or arrays to write into: writable, C-contiguous, in this
        machine's byte order, in memory of their own. Outputs whose shapes follow from those of the inputs are written
        where they are returned.

        ValueError for names, dtypes or shapes that do not fit, for inputs that are missing, and for data without a
        result (an index outside of an axis, an integer divided by zero), with the ONNX node and the value in its text.
        TypeError for objects that are no arrays, RuntimeError if another thread is using the session. After an error,
        given outputs hold anything; the session can be run again.
        """
        results = self._run_alone(self._signature.input_values(inputs), self._signature.wanted_outputs(outputs))
        return self._signature.named(results, outputs)

    def _run_alone(self, values: List[np.ndarray], wanted: Dict[str, Optional[np.ndarray]]) -> Dict[str, np.ndarray]:
        if not self._in_use.acquire(blocking=False):
            raise RuntimeError(
                "the session is in use by another thread (or was when this process was forked); make a session for "
                "each thread, or use Model.run"
            )
        try:
            if not self._native.is_idle:
                raise RuntimeError("submitted runs are in flight in this session; wait for them, or use Session.submit")
            try:
                return self._run(values, wanted)
            finally:
                self._native.release_arrays()
        finally:
            self._in_use.release()

    def submit(
        self, inputs: Mapping[str, Any], outputs: Union[Sequence[str], Mapping[str, np.ndarray], None] = None
    ) -> "concurrent.futures.Future[Dict[str, np.ndarray]]":
        """Runs the model as :meth:`run` does, in the background: returns a future of the outputs.

        Runs of a session follow each other in the order in which they were submitted; any thread may submit. Arrays
        belong to the run until its future is done: inputs must not change, and given outputs hold anything. Names and
        dtypes that do not fit are errors here, all else is the error of the future. A run that is submitted is not
        cancelled. ``asyncio.wrap_future`` makes a future to await of it. Callbacks of the future may submit, but must
        not wait for runs of the session, which their thread plays.

        As long as runs are in flight, :meth:`run` is an error. The session lives until they are done; at the end of the
        program they are waited for. Futures of a process that was forked since are never done.
        """
        values = self._signature.input_values(inputs)
        wanted = self._signature.wanted_outputs(outputs)
        given = [self._memory(index, wanted.get(spec.name)) for index, spec in enumerate(self._signature.outputs)]
        future: concurrent.futures.Future[Dict[str, np.ndarray]] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()

        def done(run: Any) -> None:
            try:
                run.check()
                result = self._signature.named(self._results(run, wanted), outputs)
            except BaseException as error:
                _in_flight.discard(future)
                future.set_exception(error)
            else:
                _in_flight.discard(future)
                future.set_result(result)

        _submitters.add(self)
        _in_flight.add(future)
        try:
            self._native.submit(values, given, done)
        except BaseException:
            _in_flight.discard(future)
            raise
        return future

    def close(self) -> None:
        """Ends the session: submitted runs that have not begun end with ValueError, the one that has is waited for."""
        self._native.close()

    def _results(self, run: Any, wanted: Dict[str, Optional[np.ndarray]]) -> Dict[str, np.ndarray]:
        """What a submitted run has given."""
        results: Dict[str, np.ndarray] = {}
        for name, given in wanted.items():
            index = self._signature.output_index[name]
            shape = run.output_shape(index)
            if given is not None and given.shape != shape:
                raise ValueError(f"output '{_shown(name)}': expected shape {shape}, found {given.shape}")
            if given is None or self._is_packed(index):
                given = self._unpacked(index, given, run.output_bytes(index), shape)
            results[name] = given
        return results

    def _is_packed(self, index: int) -> bool:
        stored = self._stored[index]
        return stored is not None and stored.is_packed

    def _memory(self, index: int, given: Optional[np.ndarray]) -> Optional[np.ndarray]:
        """What is given for an output as the run can write into it; None if it cannot."""
        stored = self._stored[index]
        if given is None or stored is None:
            return given
        return None if stored.is_packed else stored.codes_of(given)

    def _unpacked(self, index: int, given: Optional[np.ndarray], data: bytes, shape: Tuple[int, ...]) -> np.ndarray:
        """A copy of an output, in ``given`` if there is such an array."""
        stored = self._stored[index]
        if stored is None:
            return np.frombuffer(bytearray(data), self._dtypes[index]).reshape(shape)
        codes = np.frombuffer(bytearray(data), stored.codes).reshape(shape)
        if given is None:
            return codes.view(stored.dtype)
        stored.codes_of(given)[...] = codes
        return given

    def _run(self, values: List[np.ndarray], wanted: Dict[str, Optional[np.ndarray]]) -> Dict[str, np.ndarray]:
        for index, value in enumerate(values):
            self._native.bind_input(index, value)
        self._native.prepare()
        results: Dict[str, np.ndarray] = {}
        for name, given in wanted.items():
            index = self._signature.output_index[name]
            shape = self._native.output_shape(index)
            if given is not None:
                if shape is not None and given.shape != shape:
                    raise ValueError(f"output '{_shown(name)}': expected shape {shape}, found {given.shape}")
                results[name] = given
            elif shape is not None and not self._is_packed(index):
                results[name] = np.empty(shape, self._dtypes[index])
            else:
                continue
            self._native.bind_output(index, self._memory(index, results[name]))
        self._native.run()
        for name in wanted:
            index = self._signature.output_index[name]
            shape = self._native.output_shape(index)
            given = results.get(name)
            if given is not None and given.shape != shape:
                raise ValueError(f"output '{_shown(name)}': expected shape {shape}, found {given.shape}")
            if given is None or self._is_packed(index):
                results[name] = self._unpacked(index, given, self._native.output_bytes(index), shape)
        return {name: results[name] for name in wanted}

    def profile(self) -> List[ProfileRow]:
        """The commands of all runs so far; needs ``session(profile=True)``."""
        self._check_profiled()
        return [ProfileRow(*row) for row in self._native.profile()]

    def layers(self) -> List[Dict[str, Any]]:
        """The medians over all runs so far of each command, in the order of execution, as ``aipubench --layers --json``
        has them: engine, kernel, nodes, command, threads, median_us, operations, bytes; needs
        ``session(profile=True)``.
        """
        self._check_profiled()
        return json.loads(self._native.layers())

    def write_profile(self, path: PathLike) -> None:
        """Writes the profile in Chrome's trace format, for ui.perfetto.dev."""
        self._check_profiled()
        self._native.write_profile(os.fspath(path))


# Futures of submitted runs, and the sessions that have such. When the program ends, nobody may call back into it any
# more: the runs are waited for, and then the threads that play them.
_in_flight: "set[concurrent.futures.Future[Dict[str, np.ndarray]]]" = set()
_submitters: "weakref.WeakSet[Session]" = weakref.WeakSet()


@atexit.register
def _end_submitted_runs() -> None:
    concurrent.futures.wait(list(_in_flight))
    for session in list(_submitters):
        session.close()


class _SessionPool:
    """Sessions for the calls of :meth:`Model.run`: each call has one for itself.

    A call that is alone has all CPUs, calls at the same time divide them. There are never more calls in sessions than
    CPUs: the others would only be in the way, and each would hold memory of its own.
    """

    def __init__(self, model: Any, signature: _Signature, most_threads: int) -> None:
        self._model = model
        self._signature = signature
        self._most_threads = most_threads  # of a session
        self._cpus = _native.available_cpus()
        self.forget()
        _pools.add(self)

    def forget(self) -> None:
        """Begins anew: in a process made by fork(), threads of the old one are not there to give sessions back."""
        self._changed = threading.Condition()
        self._running = 0
        self._idle: Dict[int, List[Session]] = {}  # by threads

    def take(self) -> Tuple[Session, int]:
        """A session that nobody else uses until it is given back, and its threads."""
        with self._changed:
            while self._running >= self._cpus:
                self._changed.wait()
            self._running += 1
            threads = min(self._cpus // self._running, self._most_threads)
            idle = self._idle.get(threads)
            if idle:
                return idle.pop(), threads
        try:
            return Session(self._model, self._signature, threads), threads
        except BaseException:
            self.give_back(None, threads)
            raise

    def give_back(self, session: Optional[Session], threads: int) -> None:
        """Ends what take() began."""
        with self._changed:
            self._running -= 1
            if session is not None:
                self._idle.setdefault(threads, []).append(session)
            self._changed.notify()


# In a new process, after fork(), before anything else runs in it.
_pools: "weakref.WeakSet[_SessionPool]" = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: [pool.forget() for pool in _pools])
    os.register_at_fork(after_in_child=_in_flight.clear)


class Model:
    """A loaded aipu.bin: immutable, may be used by any number of threads at once. Made by :func:`load`."""

    def __init__(self, native: Any, sandboxed: bool = False) -> None:
        self._native = native
        self._signature = _Signature(native)
        # A session in a sandbox is a process, which any call can use.
        self._sessions = _SessionPool(native, self._signature, 1 if sandboxed else _native.available_cpus())

    @property
    def inputs(self) -> Tuple[TensorSpec, ...]:
        """What it takes."""
        return self._signature.inputs

    @property
    def outputs(self) -> Tuple[TensorSpec, ...]:
        """What it gives."""
        return self._signature.outputs

    @property
    def lists(self) -> Dict[str, ListSpec]:
        """Its inputs and outputs that are sequences or optionals, by name: runs take and give lists for them, whose
        elements are also tensors of :attr:`inputs` and :attr:`outputs`."""
        both = {**self._signature.input_lists, **self._signature.output_lists}
        return {
            name: ListSpec(name, found.kind, None if found.absent else len(found.names)) for name, found in both.items()
        }

    @property
    def description(self) -> str:
        """What the ONNX model says about itself (``doc_string``)."""
        return self._native.description.decode(errors="replace")

    @property
    def metadata(self) -> Dict[str, str]:
        """``metadata_props`` of the ONNX model."""
        return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in self._native.metadata}

    @property
    def name(self) -> str:
        """What the model is called."""
        return self._native.name

    @property
    def target(self) -> str:
        """What it was compiled for."""
        return self._native.target

    @property
    def backend(self) -> str:
        """The back end that runs it."""
        return self._native.backend

    def session(self, threads: int = 0, profile: bool = False, cycles: bool = False, overlap: bool = False) -> Session:
        """A session of its own; ``threads`` 0: as many as there are CPUs.

        ``profile`` keeps what each command took, ``cycles`` what it would take on the NPU (:attr:`Session.cycles`).
        ``overlap`` plays copies beside the kernels that they do not wait for; not together with ``cycles``.
        """
        if not 0 <= int(threads) <= 1024:
            raise ValueError(f"threads: expected a number from 0 to 1024, found {threads}")
        return Session(self._native, self._signature, threads, profile, cycles, overlap)

    def run(
        self, inputs: Mapping[str, Any], outputs: Union[Sequence[str], Mapping[str, np.ndarray], None] = None
    ) -> Dict[str, np.ndarray]:
        """Runs the model in one of the sessions that it keeps; see :meth:`Session.run`.

        Any number of threads may call it: calls at the same time run side by side, each on its share of the CPUs.
        """
        values = self._signature.input_values(inputs)
        wanted = self._signature.wanted_outputs(outputs)
        session, threads = self._sessions.take()
        try:
            return self._signature.named(session._run_alone(values, wanted), outputs)
        finally:
            self._sessions.give_back(session, threads)

    def __repr__(self) -> str:
        def text(specs: Sequence[TensorSpec]) -> str:
            return ", ".join(
                f"{_shown(s.name)} {s.dtype}[{','.join('?' if e is None else _shown(str(e)) for e in s.shape)}]"
                for s in specs
            )

        return f"Model({self.name!r} for {self.target}: {text(self.inputs)} -> {text(self.outputs)})"
