"""Whole models: :func:`build` makes an aipu.bin of an ONNX model, :func:`load` and :meth:`Model.run` run it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import warnings
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _entries, _files, _libraries, _model_source, _native
from ._arrays import TensorSpec, shown
from ._entries import Entry
from ._model_source import ModelLike
from ._operator_text import OperatorText, plugin_sources
from ._session import ProfileRow, Session, SessionPool
from ._signature import ListSpec, Signature

__all__ = [
    "Entry",
    "Limits",
    "ListSpec",
    "Model",
    "ProfileRow",
    "Session",
    "TensorSpec",
    "build",
    "enable_crash_reports",
    "load",
]

PathLike = Union[str, "os.PathLike[str]"]


def _optional_path(path: Optional[PathLike]) -> str:
    return os.fspath(path) if path is not None else ""


def build(
    model: Union[ModelLike, Entry, Sequence[Union[ModelLike, Entry]]],
    output: Optional[PathLike] = None,
    *,
    target: Optional[str] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    expose: Sequence[str] = (),
    sequence_lengths: Optional[Mapping[str, Optional[int]]] = None,
    constants: Optional[Mapping[str, Any]] = None,
    preprocess: Sequence[str] = (),
    postprocess: Sequence[str] = (),
    plugins: Sequence[Any] = (),
    target_plugins: Sequence[PathLike] = (),
    weights: Optional[PathLike] = None,
    cache_length: Optional[int] = None,
    disabled_passes: Sequence[str] = (),
    fast_math: bool = False,
    precision: Optional[str] = None,
    precision_file: Optional[PathLike] = None,
    quantize: Any = None,
    max_error: Optional[Tuple[str, float]] = None,
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
    themselves. A list of them, or of :class:`Entry` with options for one alone, makes one file of several models, which
    share constants and kernels: ``aipu.load(output, entry=NAME)``.
    ``output``: by default the model's path with ``.aipu.bin`` instead of its extension.
    ``target``: ``"host"`` or a Compass target such as ``"X2_1204"``; by default the host, of the Compass IR of a
    kernel's call what the kernel was built for. ``shapes``: fixed shapes of inputs by name; -1 keeps an extent.
    ``expose``: values between the nodes of the outermost graph, by ONNX names (``*`` stands for any text), that become
    further outputs. They are what the graph says: nothing is fused over them.
    ``sequence_lengths``: how many elements an input has that is a sequence; None for an optional without a value. The
    elements of the sequence ``x`` are inputs ``x[0]``, ``x[1]``, ... for ``shapes``. ``constants``: inputs that become
    constants, by name.
    ``preprocess``, ``postprocess``: nodes before inputs and behind outputs, as ``aipugb`` takes them:
    ``["image:uint8,nhwc,mean=0.485:0.456:0.406,std=0.229:0.224:0.225,resize=224x224"]``, ``["logits:softmax,topk=5"]``.
    ``cache_length``: caches that would grow by a Concat (``past_key_values``) become buffers of so many rows, in which
    a step may write its own: outputs may be the memory of these inputs. The further input ``past_length`` says how many
    rows there are.
    ``plugins``: operators of your own: files, functions declared by :mod:`aipu.op`, or modules that have some.
    ``target_plugins``: targets of your own: shared libraries. They stay known to the process.
    ``fast_math``: trade accuracy for speed, as ``aipugb --fast-math`` does.
    ``precision``: what products multiply: ``"fp32"``, ``"bf16"`` or ``"fp16"`` (summed in float32), ``"int8"`` (of
    models that are quantised already, or by ``quantize``), ``"mixed"``; ``precision_file``: by name of node, as
    ``aipugb --precision-file`` reads it.
    ``quantize``: typical inputs, as :func:`aipu.quantize` takes data: the model gets 8-bit integers before it is
    converted. ``max_error``: the metric and the bound that this keeps, by leaving layers in a higher precision:
    ``("relative", 0.02)``; with precision ``"mixed"`` that is bfloat16 where it is enough. For other options, and for
    the QDQ model, call :func:`aipu.quantize` and give its result to this function.
    ``strip``: leave out what only people and the interpreter read (C, TIR, Compass IR, the graph as text).
    ``sign_key``: sign the file with this private Ed25519 key, a PEM file. ``emit_c``, ``dump_ir``: folders for the
    generated C, and for everything in between; ``emit_ir``: prefix for Compass IR.

    Returns a report (nodes, kernels, bytes, seconds per stage, warnings, ``"output"``, and what :func:`aipu.quantize`
    returned as ``"quantization"``). RuntimeError, ValueError or
    OSError with one line that names the node and what is wrong with it.
    """
    if isinstance(plugins, (str, bytes, os.PathLike)):
        raise TypeError(f"plugins: expected a list of files, found {plugins!r}; write plugins=[{plugins!r}]")
    if isinstance(target_plugins, (str, bytes, os.PathLike)):
        raise TypeError(f"target_plugins: expected a list of files; write target_plugins=[{target_plugins!r}]")
    if isinstance(disabled_passes, str):
        raise TypeError(f"disabled_passes: expected a list of names; write disabled_passes=[{disabled_passes!r}]")
    if not 0 <= int(jobs) <= 1024:
        raise ValueError(f"jobs: expected a number from 0 to 1024, found {jobs}")
    call = Entry(
        None, None, shapes, expose, sequence_lengths, constants, preprocess, postprocess, weights, cache_length
    )
    entries, several = _entries.entries_of(model, call)
    files, operators = plugin_sources(plugins)
    if any(file.endswith(".so") for file in files):
        _libraries.show_symbols()
    _libraries.load_targets(target_plugins)
    if output is None:
        if several or _model_source.model_bytes(entries[0].model) is not None:
            what = "several models have no one path" if several else "a model in memory has no path"
            raise TypeError(f"output: {what} to take the name from; say where the aipu.bin goes")
        output = os.path.splitext(os.fspath(entries[0].model))[0] + ".aipu.bin"
    path = os.fspath(output)
    quantized = None
    if quantize is None and (max_error is not None or precision == "mixed"):
        raise ValueError("max_error and precision 'mixed' take data to measure: give quantize (some typical inputs)")
    if quantize is not None:
        if several:
            raise ValueError("quantize is for one model at a time: give build() what aipu.quantize makes of each")
        conversion = {"shapes": shapes, "sequence_lengths": sequence_lengths, "plugins": plugins, "jobs": jobs}
        quantized = _quantized(
            entries[0].model, quantize, precision, precision_file, target, max_error, constants, conversion
        )
        entries = [dataclasses.replace(entries[0], model=quantized.data)]
        precision = "" if quantized.precision_rules else "int8"
    options = _native.BuildOptions()
    options.output = path
    options.target = target or ""
    options.plugins = files
    options.plugin_texts = [(operator.name, operator.text) for operator in operators]
    options.emit_c = _optional_path(emit_c)
    options.emit_ir = _optional_path(emit_ir)
    options.dump_ir = _optional_path(dump_ir)
    options.disabled_passes = list(disabled_passes)
    options.fast_math = fast_math
    options.precision = precision or ""
    options.precision_file = _optional_path(precision_file)
    options.strip = strip
    options.jobs = jobs
    options.use_cache = use_cache
    rules = quantized.precision_rules if quantized is not None else ""
    with _located(operators), _entries.told(entries, options), rules_file(rules) as rules_path:
        options.precision_file = rules_path or options.precision_file
        report = _native.build_model(options, _optional_path(sign_key))
    report["output"] = path
    if quantized is not None:
        report["quantization"] = quantized
    return report


def _quantized(
    model: ModelLike,
    data: Any,
    precision: Optional[str],
    precision_file: Optional[PathLike],
    target: Optional[str],
    max_error: Optional[Tuple[str, float]],
    constants: Optional[Mapping[str, Any]],
    conversion: Mapping[str, Any],
) -> Any:
    """What :func:`aipu.quantize` makes of it."""
    from .quantization import quantize

    if precision not in (None, "", "int8", "mixed"):
        raise ValueError(f"quantize makes int8 or mixed, precision is '{precision}'")
    if precision == "mixed" and precision_file is not None:
        raise ValueError("precision 'mixed' chooses the precision of each layer: it takes no precision_file")
    return quantize(
        model,
        data,
        precision=precision or "int8",
        target=target,
        max_error=max_error,
        constants=constants,
        build=conversion,
    )


@contextlib.contextmanager
def rules_file(text: str) -> Iterator[Optional[str]]:
    """The path of a precision file with this text; None for no text."""
    if not text:
        yield None
        return
    with _files.file_of_bytes(text.encode(), "precisions") as path:
        yield path


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
    entry: Optional[str] = None,
    backend: Optional[str] = None,
    verify: bool = False,
    copy: bool = False,
    limits: Optional[Limits] = None,
    sandbox: bool = False,
    trusted_key: Optional[PathLike] = None,
) -> "Model":
    """Loads an aipu.bin: a path, or its bytes. Of a file with several models the first, or the one called ``entry``.

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
    options.entry = entry or ""
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


class Model:
    """A loaded aipu.bin: immutable, may be used by any number of threads at once. Made by :func:`load`."""

    def __init__(self, native: Any, sandboxed: bool = False) -> None:
        self._native = native
        self._sandboxed = sandboxed
        self._signature = Signature(native)
        # A session in a sandbox is a process, which any call can use.
        self._sessions = SessionPool(native, self._signature, 1 if sandboxed else _native.available_cpus())

    @property
    def entries(self) -> Tuple[str, ...]:
        """What the models of the file are asked for by, in its order; of a file with one, what that is called."""
        return tuple(self._native.entries)

    def open(self, entry: str) -> "Model":
        """Another model of the file, on the same mapping; OSError, which lists them, for a name that is none."""
        return Model(self._native.open(entry), self._sandboxed)

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
        """Its inputs and outputs that are sequences, optionals or maps, by name: runs take and give lists and dicts for
        them, whose parts are also tensors of :attr:`inputs` and :attr:`outputs`."""
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
        session, threads = self._sessions.take()
        try:
            return session.run(inputs, outputs)
        finally:
            self._sessions.give_back(session, threads)

    def __repr__(self) -> str:
        def text(specs: Sequence[TensorSpec]) -> str:
            return ", ".join(
                f"{shown(s.name)} {s.dtype}[{','.join('?' if e is None else shown(str(e)) for e in s.shape)}]"
                for s in specs
            )

        return f"Model({self.name!r} for {self.target}: {text(self.inputs)} -> {text(self.outputs)})"
