"""Whole models: :func:`build` makes an aipu.bin of an ONNX model, :func:`load` and :meth:`Model.run` run it."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _native

PathLike = Union[str, "os.PathLike[str]"]


class TensorSpec(NamedTuple):
    """An input or output of a model. An extent is a number, the name of a symbol (``"N"``), or None if it is
    neither.
    """

    name: str
    dtype: str
    shape: Tuple[Union[int, str, None], ...]


class ProfileRow(NamedTuple):
    """One command of a profiled run; times in seconds."""

    engine: str
    name: str
    origin: str
    threads: int
    start: float
    duration: float


def build(
    model: PathLike,
    output: Optional[PathLike] = None,
    *,
    target: str = "host",
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    plugins: Sequence[PathLike] = (),
    weights: Optional[PathLike] = None,
    disabled_passes: Sequence[str] = (),
    fast_math: bool = False,
    emit_c: Optional[PathLike] = None,
    emit_ir: Optional[PathLike] = None,
    dump_ir: Optional[PathLike] = None,
    jobs: int = 0,
    use_cache: bool = True,
) -> Dict[str, Any]:
    """Converts an ONNX model (or Compass IR text with its ``weights``) to an aipu.bin, as the program ``aipugb`` does.

    ``output``: by default the model's path with ``.aipu.bin`` instead of its extension. ``target``: ``"host"`` or a
    Compass target such as
    ``"X2_1204"``. ``shapes``: fixed shapes of inputs by name; -1 keeps an extent. ``plugins``: files with operators of
    your own. ``fast_math``: trade accuracy for speed, as ``aipugb --fast-math`` does.
    ``emit_c``, ``dump_ir``: folders for the generated C, and for everything in between; ``emit_ir``: prefix for
    Compass IR.

    Returns a report (nodes, kernels, bytes, seconds per stage, warnings, ``"output"``). RuntimeError, ValueError or
    OSError with one line that names the node and what is wrong with it.
    """
    if any(os.fspath(plugin).endswith(".so") for plugin in plugins):
        # A C++ plugin resolves the compiler's symbols in the extension module: it has to see them.
        ctypes.CDLL(_native.__file__, mode=ctypes.RTLD_GLOBAL)
    source = os.fspath(model)
    path = os.fspath(output) if output is not None else os.path.splitext(source)[0] + ".aipu.bin"
    report = _native.build_model(
        source,
        os.fspath(weights) if weights is not None else "",
        path,
        target,
        [f"{name}={'x'.join(str(int(extent)) for extent in extents)}" for name, extents in (shapes or {}).items()],
        [os.fspath(plugin) for plugin in plugins],
        os.fspath(emit_c) if emit_c is not None else "",
        os.fspath(emit_ir) if emit_ir is not None else "",
        os.fspath(dump_ir) if dump_ir is not None else "",
        list(disabled_passes),
        fast_math,
        jobs,
        use_cache,
    )
    report["output"] = path
    return report


def load(path: PathLike, *, backend: Optional[str] = None, verify: bool = False) -> "Model":
    """Loads an aipu.bin.

    ``backend``: ``"native"``, ``"sim"``, ``"interp"`` or the name of a back end library; by default what the model was
    compiled for.
    ``verify``: check the hashes of large constants too. RuntimeError or OSError if the file is damaged or cannot run
    here.
    """
    return Model(_native.Model(os.fspath(path), backend or "", verify))


class Session:
    """Runs a model; holds its memory and threads. One thread at a time may use it. Made by :meth:`Model.session`."""

    def __init__(self, model: "Model", threads: int, profile: bool) -> None:
        self._model = model
        self._native = _native.Session(model._native, threads, profile)
        self._input_index = {spec.name: i for i, spec in enumerate(model.inputs)}
        self._output_index = {spec.name: i for i, spec in enumerate(model.outputs)}
        self._dtypes = [np.dtype(spec.dtype) for spec in model.outputs]

    @property
    def threads(self) -> int:
        """Threads that kernels are spread over."""
        return self._native.threads

    @property
    def arena_bytes(self) -> int:
        """Bytes of memory held for activations."""
        return self._native.arena_bytes

    def run(
        self, inputs: Mapping[str, np.ndarray], outputs: Union[Sequence[str], Mapping[str, np.ndarray], None] = None
    ) -> Dict[str, np.ndarray]:
        """Runs the model on named arrays; returns the outputs by name.

        C-contiguous inputs are read in place. ``outputs``: the names wanted (all by default), or arrays to write into.
        Outputs whose shapes follow from those of the inputs are written where they are returned. ValueError for names,
        dtypes or shapes that do not fit.
        """
        for name, array in inputs.items():
            index = self._input_index.get(name)
            if index is None:
                raise ValueError(f"the model has no input '{name}' (there are: {', '.join(self._input_index)})")
            value = np.asarray(array)
            contiguous = value if value.flags.c_contiguous else np.ascontiguousarray(value)
            self._native.bind_input(index, contiguous)
        given: Mapping[str, np.ndarray] = outputs if isinstance(outputs, Mapping) else {}
        names = list(outputs) if outputs is not None else list(self._output_index)
        for name in names:
            if name not in self._output_index:
                raise ValueError(f"the model has no output '{name}' (there are: {', '.join(self._output_index)})")
        self._native.prepare()
        results: Dict[str, np.ndarray] = {}
        try:
            for name in names:
                index = self._output_index[name]
                shape = self._native.output_shape(index)
                if name in given:
                    if shape is not None and tuple(given[name].shape) != shape:
                        raise ValueError(f"output '{name}': expected shape {shape}, found {given[name].shape}")
                    results[name] = given[name]
                elif shape is not None:
                    results[name] = np.empty(shape, self._dtypes[index])
                else:
                    continue
                self._native.bind_output(index, results[name])
            self._native.run()
            for name in names:
                index = self._output_index[name]
                shape = self._native.output_shape(index)
                if name not in results:
                    data = bytearray(self._native.output_bytes(index))
                    results[name] = np.frombuffer(data, self._dtypes[index]).reshape(shape)
                elif shape is not None and results[name].shape != shape:
                    raise ValueError(f"output '{name}': expected shape {shape}, found {results[name].shape}")
        finally:
            for name in names:  # what the caller got is the caller's
                self._native.bind_output(self._output_index[name], None)
        return {name: results[name] for name in names}

    def profile(self) -> List[ProfileRow]:
        """The commands of all runs so far; needs ``session(profile=True)``."""
        return [ProfileRow(*row) for row in self._native.profile()]

    def write_profile(self, path: PathLike) -> None:
        """Writes the profile in Chrome's trace format, for ui.perfetto.dev."""
        self._native.write_profile(os.fspath(path))


class Model:
    """A loaded aipu.bin: immutable, may be used by several sessions at once. Made by :func:`load`."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self.inputs: Tuple[TensorSpec, ...] = tuple(TensorSpec(*spec) for spec in native.inputs)
        self.outputs: Tuple[TensorSpec, ...] = tuple(TensorSpec(*spec) for spec in native.outputs)
        self._session: Optional[Session] = None

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

    def session(self, threads: int = 0, profile: bool = False) -> Session:
        """A session of its own; ``threads`` 0: as many as there are CPUs."""
        return Session(self, threads, profile)

    def run(
        self, inputs: Mapping[str, np.ndarray], outputs: Union[Sequence[str], Mapping[str, np.ndarray], None] = None
    ) -> Dict[str, np.ndarray]:
        """Runs the model in a session that it keeps; see :meth:`Session.run`."""
        if self._session is None:
            self._session = self.session()
        return self._session.run(inputs, outputs)

    def __repr__(self) -> str:
        def text(specs: Sequence[TensorSpec]) -> str:
            return ", ".join(
                f"{s.name} {s.dtype}[{','.join('?' if e is None else str(e) for e in s.shape)}]" for s in specs
            )

        return f"Model({self.name!r} for {self.target}: {text(self.inputs)} -> {text(self.outputs)})"
