"""InferenceSession: a model, converted and run behind the calls of onnxruntime."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import enum
import os
import threading
import time
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from .. import _converted, _model_source, _native
from .._arrays import TensorSpec
from .._session import Session, SessionPool
from .._stored_type import numpy_dtype
from ..model import Model
from ._errors import Fail, InvalidArgument, InvalidGraph, InvalidProtobuf, NoSuchFile, NotImplemented, RuntimeException
from ._options import RunOptions, SessionOptions
from ._values import IOBinding, OrtValue, list_type_name, type_name

OWN_PROVIDER = "AipuExecutionProvider"
PROVIDERS = (OWN_PROVIDER, "CPUExecutionProvider")
_BUILD_OPTIONS = (
    "target", "shapes", "sequence_lengths", "precision", "expose", "plugins", "fast_math", "disabled_passes", "jobs",
    "cache_length",
)  # fmt: skip
_LOAD_OPTIONS = ("backend", "entry", "limits", "sandbox", "verify")
_NO_VERSION = (1 << 63) - 1  # what onnxruntime says of a model without one
SessionIOBinding = IOBinding


class OrtMemType(enum.IntEnum):
    """Taken for the script's sake."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtAllocatorType(enum.IntEnum):
    """Taken for the script's sake."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


@dataclasses.dataclass(frozen=True)
class NodeArg:
    """An input or output: ``type`` such as ``"tensor(float)"``; in ``shape`` an int, a symbol's name or None each."""

    name: str
    type: str
    shape: List[Union[int, str, None]]


@dataclasses.dataclass(frozen=True)
class ModelMetadata:
    """What the ONNX file says about itself; of an aipu.bin the graph's name only."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = _NO_VERSION
    custom_metadata_map: Dict[str, str] = dataclasses.field(default_factory=dict)


class _AsTheirs:
    """Within it errors of this package are those that scripts for onnxruntime catch."""

    def __init__(self, of_value_error: type, of_runtime_error: type) -> None:
        self._of_value_error, self._of_runtime_error = of_value_error, of_runtime_error

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        if error is None or isinstance(error, (Fail, InvalidArgument, InvalidProtobuf, NotImplementedError)):
            return
        for own, theirs in (
            (FileNotFoundError, NoSuchFile),
            (ValueError, self._of_value_error),
            (RuntimeError, self._of_runtime_error),
        ):
            if isinstance(error, own):
                raise theirs(str(error)) from error


_RUN_ERRORS = _AsTheirs(InvalidArgument, RuntimeException)


def _provider_options(
    providers: Optional[Sequence[Any]], provider_options: Optional[Sequence[Mapping[str, Any]]]
) -> Tuple[List[str], Dict[str, Any]]:
    """The providers that are there, and the options of aipu's own."""
    if isinstance(providers, str):
        raise TypeError(f"providers: expected a list of names; write providers=[{providers!r}]")
    names: List[str] = []
    options: Dict[str, Any] = {}
    given = list(providers or PROVIDERS[1:])
    if provider_options is not None and len(provider_options) != len(given):
        raise ValueError("provider_options: one mapping for each of the providers is expected")
    for index, entry in enumerate(given):
        name, own = entry if isinstance(entry, tuple) else (entry, {})
        if provider_options is not None:
            own = {**own, **provider_options[index]}
        if name not in PROVIDERS:
            warnings.warn(
                f"provider '{name}' is not there, aipu runs the model (available: {', '.join(PROVIDERS)})",
                UserWarning,
                stacklevel=3,
            )
            continue
        names.append(name)
        if name == OWN_PROVIDER:
            known = (*_BUILD_OPTIONS, *_LOAD_OPTIONS, "cache_dir")
            for option in own:
                if option not in known:
                    raise InvalidArgument(f"{OWN_PROVIDER} has no option '{option}' (there are: {', '.join(known)})")
            options.update(own)
    return names or [PROVIDERS[1]], options


class InferenceSession:
    """A model that runs: ``onnxruntime.InferenceSession`` by aipu.

    ``path_or_bytes``: path or bytes of an ONNX model or of an aipu.bin, or an ``onnx.ModelProto``. ``sess_options``:
    see :class:`SessionOptions`. ``providers``: ``"AipuExecutionProvider"`` and ``"CPUExecutionProvider"`` are the same;
    the former takes options, ``("AipuExecutionProvider", {...})``: ``target``, ``shapes``, ``sequence_lengths``,
    ``precision``, ``expose``, ``plugins``, ``fast_math``, ``disabled_passes``, ``jobs`` and ``cache_length`` as
    :func:`aipu.build` has them, ``backend``, ``entry``, ``limits``, ``sandbox`` and ``verify`` as :func:`aipu.load`,
    and ``cache_dir``. Other providers are left out with a UserWarning. Sequences have as many elements as
    ``sequence_lengths`` says.

    An ONNX model is converted when it is seen for the first time, which takes seconds to minutes; the conversion is
    kept by the hash of the model (with its external data), the options and this package, in ``cache_dir``, by default
    ``models`` in ``$AIPU_CACHE_DIR`` or ``~/.cache/aipu``. The folder may be deleted at any time, and is used only
    while nobody else may write to it. Processes that want the same model at once convert it once.

    NoSuchFile, InvalidProtobuf, and NotImplemented with a line that names the nodes that are not supported. Any number
    of threads may run a session at once.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: Optional[SessionOptions] = None,
        providers: Optional[Sequence[Any]] = None,
        provider_options: Optional[Sequence[Mapping[str, Any]]] = None,
        **kwargs: Any,
    ) -> None:
        for name in kwargs:
            if name not in ("disabled_optimizers", "enable_fallback", "read_config_from_model"):
                warnings.warn(f"InferenceSession has no argument '{name}': it is without effect", stacklevel=2)
        self._options = sess_options if sess_options is not None else SessionOptions()
        if not isinstance(self._options, SessionOptions):
            raise TypeError(
                f"sess_options: expected aipu.onnxruntime.SessionOptions, found {type(sess_options).__module__}."
                f"{type(sess_options).__name__}"
            )
        self._providers, own = _provider_options(providers or self._options._providers, provider_options)
        self._provider_options = own
        with _AsTheirs(InvalidGraph, NotImplemented):
            self._model, self._meta, shapes = self._load(path_or_bytes, own)
        signature = self._model._signature
        self._inputs = [_argument(name, port, shapes) for name, port in signature.ports(of_inputs=True).items()]
        self._outputs = [_argument(name, port, shapes) for name, port in signature.ports(of_inputs=False).items()]
        self._output_names = [value.name for value in self._outputs]
        threads = self._options.intra_op_num_threads or _native.available_cpus()  # type: ignore[attr-defined]
        if own.get("sandbox"):
            threads = 1  # a session in a sandbox is a process, which any call can use
        self._threads = threads
        self._pool = SessionPool(self._model._native, self._model._signature, threads)
        self._profiled = None
        self._one_at_a_time = threading.Lock()
        self._began_ns = time.perf_counter_ns()
        if self._options.enable_profiling:  # type: ignore[attr-defined]
            self._profiled = self._model.session(threads=threads, profile=True)
        self._background: Optional[concurrent.futures.ThreadPoolExecutor] = None

    def _load(
        self, path_or_bytes: Any, own: Mapping[str, Any]
    ) -> Tuple[Model, ModelMetadata, Dict[str, Tuple[Any, ...]]]:
        """The model, what it says about itself, and the shapes of inputs and outputs as it has them."""
        source = _model_source.Source(path_or_bytes)
        build = {name: own[name] for name in _BUILD_OPTIONS if name in own}
        load = {name: own[name] for name in _LOAD_OPTIONS if name in own}
        try:
            text = source.text()
        except ValueError as error:
            raise InvalidProtobuf(f"{source.path or 'the model in memory'}: {error}") from None
        extents: Dict[str, int] = self._options._extents  # type: ignore[attr-defined]
        if text is not None and extents:
            shapes = dict(build.get("shapes", {}))
            for value in text.inputs:
                if any(extent in extents for extent in value.shape if isinstance(extent, str)):
                    fixed = [extents.get(extent, -1) if isinstance(extent, str) else extent for extent in value.shape]
                    shapes.setdefault(value.name, [-1 if extent is None else extent for extent in fixed])
            build["shapes"] = shapes
        model, self._binary = _converted.load_converted(source, build, own.get("cache_dir"), load)
        if text is None:
            return model, ModelMetadata(graph_name=model.name), {}
        told = ModelMetadata(
            text.producer_name,
            text.graph_name,
            text.domain,
            text.description,
            text.graph_description,
            _NO_VERSION if text.version is None else text.version,
            text.metadata,
        )
        return model, told, {value.name: value.shape for value in (*text.inputs, *text.outputs)}

    def get_inputs(self) -> List[NodeArg]:
        """What the model takes."""
        return self._inputs

    def get_outputs(self) -> List[NodeArg]:
        """What it gives."""
        return self._outputs

    def get_overridable_initializers(self) -> List[NodeArg]:
        """None: constants of a converted model are fixed."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says about itself."""
        return self._meta

    def get_providers(self) -> List[str]:
        """The providers that were asked for and are there."""
        return list(self._providers)

    def get_provider_options(self) -> Dict[str, Dict[str, str]]:
        """Their options, as texts."""
        own = {name: str(value) for name, value in self._provider_options.items()}
        return {name: own if name == OWN_PROVIDER else {} for name in self._providers}

    def set_providers(
        self, providers: Optional[Sequence[Any]] = None, provider_options: Optional[Sequence[Any]] = None
    ) -> None:
        """Names of providers that are there change nothing; options need a new session: NotImplementedError."""
        names, own = _provider_options(providers, provider_options)
        if own:
            raise NotImplementedError("aipu.onnxruntime: options of a provider are given when the session is made")
        self._providers = names

    def get_session_options(self) -> SessionOptions:
        """The options that it was made with."""
        return self._options

    def enable_fallback(self) -> None:
        """Without effect: there is nothing to fall back to."""

    def disable_fallback(self) -> None:
        """As :meth:`enable_fallback`."""

    def run(
        self,
        output_names: Optional[Sequence[str]],
        input_feed: Mapping[str, Any],
        run_options: Optional[RunOptions] = None,
    ) -> List[np.ndarray]:
        """Runs the model: ``output_names`` (None or empty: all, in the model's order), arrays or OrtValues by input's
        name; the arrays of the outputs, of sequences a list, of maps a dict. ValueError for inputs that are missing,
        InvalidArgument for names, dtypes and shapes that do not fit, RuntimeException for a run that fails.
        """
        names = list(output_names) if output_names else self._output_names
        if run_options is None and self._profiled is None and names == self._output_names:
            # In as few steps as can be: of a small model they are what takes the time.
            with _RUN_ERRORS:
                session, share = self._pool.take()
                try:
                    results = session._run_plain(input_feed)
                finally:
                    self._pool.give_back(session, share)
                if results is not None:
                    results = session._signature.named(results, None)
                    return [results[name] for name in names]
        results = self._run(input_feed, dict.fromkeys(names), run_options)
        return [results[name] for name in names]

    def _value(self, name: str, value: Any) -> Any:
        """What a feed has under a name; numbers and lists take the dtype of the input."""
        if isinstance(value, OrtValue):
            return value._value
        if isinstance(value, (bool, int, float, list, tuple)) and name not in self._model._signature.input_lists:
            dtype = next((numpy_dtype(spec.dtype) for spec in self._model.inputs if spec.name == name), None)
            return np.asarray(value, dtype)
        return value

    def _run(
        self, feed: Mapping[str, Any], wanted: Mapping[str, Optional[np.ndarray]], run_options: Optional[RunOptions]
    ) -> Dict[str, np.ndarray]:
        if run_options is not None and run_options.terminate:  # type: ignore[attr-defined]
            raise Fail("the run is not begun: RunOptions.terminate is set, and aipu does not end a run from outside")
        missing = [value.name for value in self._inputs if value.name not in feed and _is_required(value)]
        if missing:
            raise ValueError(f"Required inputs ({missing}) are missing from input feed ({list(feed)}).")
        for name in wanted:
            if all(name != value.name for value in self._outputs):
                raise InvalidArgument(f"Invalid output name:{name}")
        with _RUN_ERRORS:
            signature = self._model._signature
            given = {name: array for name, array in wanted.items() if array is not None}
            values = signature.input_values({name: self._value(name, feed[name]) for name in feed})
            checked = signature.wanted_outputs(list(wanted))
            checked.update(signature.wanted_outputs(given))
            results = self._in_session(lambda session: session._run_alone(values, checked))
            return signature.named(results, list(wanted))

    def _in_session(self, call: Callable[[Session], Any]) -> Any:
        """What a call gives that has a session for itself."""
        if self._profiled is not None:
            with self._one_at_a_time:
                return call(self._profiled)
        session, threads = self._pool.take()
        try:
            return call(session)
        finally:
            self._pool.give_back(session, threads)

    def run_with_ort_values(
        self,
        output_names: Optional[Sequence[str]],
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: Optional[RunOptions] = None,
    ) -> List[OrtValue]:
        """:meth:`run` on OrtValues, which gives OrtValues."""
        types = {value.name: value.type for value in self._outputs}
        names = output_names or list(types)
        values = self.run(names, input_dict_ort_values, run_options)
        return [OrtValue(value, types[name]) for name, value in zip(names, values)]

    def run_with_ortvaluevector(self, *arguments: Any) -> None:
        """Refused: NotImplementedError."""
        raise NotImplementedError("aipu.onnxruntime: run_with_ortvaluevector is not supported; use run_with_ort_values")

    def run_async(
        self,
        output_names: Optional[Sequence[str]],
        input_feed: Mapping[str, Any],
        callback: Callable[[List[np.ndarray], Any, str], None],
        user_data: Any,
        run_options: Optional[RunOptions] = None,
    ) -> None:
        """Runs the model in a thread of its own: then ``callback(outputs, user_data, error)``, of which ``error`` is
        "" where all went well. Inputs must not change before. Runs may end in any order.
        """

        def play() -> None:
            results: List[np.ndarray] = []
            problem = ""
            try:
                results = self.run(output_names, input_feed, run_options)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            callback(results, user_data, problem)

        with self._one_at_a_time:
            if self._background is None:
                self._background = concurrent.futures.ThreadPoolExecutor(_native.available_cpus(), "aipu_run_async")
        self._background.submit(play)

    def io_binding(self) -> IOBinding:
        """A binding of arrays for :meth:`run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Optional[RunOptions] = None) -> None:
        """Runs the model on what is bound; an input that is not bound is a ValueError."""
        inputs, outputs = iobinding._arguments()
        iobinding._results = self._run(inputs, outputs, run_options) if outputs else {}

    def get_profiling_start_time_ns(self) -> int:
        """When the session was made, by ``time.perf_counter_ns``."""
        return self._began_ns

    def end_profiling(self) -> str:
        """Writes the profile (``enable_profiling``) in Chrome's trace format: the name of the file. RuntimeError if the
        session keeps none. Later runs are not profiled.
        """
        if self._profiled is None:
            raise RuntimeError("the session keeps no profile; set SessionOptions.enable_profiling")
        prefix = self._options.profile_file_prefix  # type: ignore[attr-defined]
        path = f"{prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S')}_{os.getpid()}.json"
        with self._one_at_a_time:
            self._profiled.write_profile(path)
            self._profiled = None
        return path


def _is_required(value: NodeArg) -> bool:
    return not value.type.startswith("optional(")


def _argument(name: str, port: Any, told: Mapping[str, Tuple[Any, ...]]) -> NodeArg:
    """Extents that stayed open have the names that the model gives them, or none, rather than those of the compiler;
    lists have no shape."""
    if not isinstance(port, TensorSpec):
        return NodeArg(name, list_type_name(port.kind, [spec.dtype for spec in port.tensors]), [])
    shape = list(port.shape)
    names = told.get(name, ())
    if len(names) == len(shape):
        shape = [extent if isinstance(extent, int) or isinstance(n, int) else n for extent, n in zip(shape, names)]
    return NodeArg(name, type_name(port.dtype), shape)
