"""What is compared: a model and what runs it. The values between its nodes are had by exposing them."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .. import _files, _model_source, _native
from .. import model as _model
from .._arrays import TensorSpec
from .._calibration import Feed
from .._onnx_graph import OnnxModel

_LOADED = ("interp",)  # words of a side that are back ends


def _is_float(dtype: str) -> bool:
    return dtype in ("float32", "float64", "float16", "bfloat16")


class Side:
    """A model: a path, bytes, ``onnx.ModelProto`` or aipu.bin, and how it is run.

    ``build``: options of :func:`aipu.build`; ``load``: of :func:`aipu.load`; ``runtime``: ``"aipu"``, or
    ``"onnxruntime"`` with the package of that name, without its optimisations, so that each value is what the graph
    says. An aipu.bin has no values but its outputs (convert it with ``expose``).
    """

    def __init__(
        self,
        model: Any,
        build: Optional[Mapping[str, Any]] = None,
        load: Optional[Mapping[str, Any]] = None,
        runtime: str = "aipu",
        name: str = "",
    ) -> None:
        if runtime not in ("aipu", "onnxruntime"):
            raise ValueError(f"runtime: expected aipu or onnxruntime, found '{runtime}'")
        source = _model_source.Source(model)
        self.name = name or (os.path.basename(source.path) if source.path else "the model in memory")
        self.runtime, self._build, self._load = runtime, dict(build or {}), dict(load or {})
        self.binary = source if source.is_binary else None
        if self.binary is not None and (runtime != "aipu" or self._build):
            raise ValueError(f"{self.name}: an aipu.bin is converted already; it is run by aipu as it is")
        self.graph: Optional[OnnxModel] = None
        self._source = source
        if self.binary is None:
            folder = os.path.dirname(os.path.abspath(source.path)) if source.path else ""
            self.graph = OnnxModel(source.data, folder)

    @classmethod
    def parse(cls, text: str) -> "Side":
        """``MODEL`` or ``MODEL@WORD,...``: a target (``X2_1204``), a precision (``bf16``), ``fast-math``, ``interp`` or
        ``onnxruntime``. ValueError where a word is none of these.
        """
        path, at, words = text.rpartition("@")
        if not at or os.path.exists(text):
            return cls(text)
        build: Dict[str, Any] = {}
        load: Dict[str, Any] = {}
        runtime = "aipu"
        for word in words.split(","):
            if word == "onnxruntime":
                runtime = word
            elif word == "fast-math":
                build["fast_math"] = True
            elif word in _native.precisions():
                build["precision"] = word
            elif word in _LOADED:
                load["backend"] = word
            else:
                _native.target(word)  # ValueError with the names that there are
                build["target"] = word
        if runtime != "aipu" and (build or load):
            raise ValueError(f"'{text}': onnxruntime takes no {words.replace('onnxruntime', '').strip(',')}")
        return cls(path, build, load, runtime, text)

    def values(self) -> List[str]:
        """Names of what can be looked at, in the order of the graph; of an aipu.bin its outputs."""
        if self.graph is None:
            return [spec.name for spec in self._loaded().outputs]
        is_given = {name for node in self.graph.nodes if node.is_op("Constant") for name in node.outputs}
        return [name for node in self.graph.nodes for name in node.outputs if name and name not in is_given]

    def _loaded(self) -> _model.Model:
        path = self._source.path
        return _model.load(path if path is not None else bytes(self._source.data), **self._load)

    def runner(self, exposed: Sequence[str]) -> "Runner":
        """What runs the model and gives its outputs with these values."""
        if self.graph is None:
            return Runner(self._loaded())
        if self.runtime == "onnxruntime":
            return _OrtRunner(self._exposing(exposed), self.name)
        if self._source.path is not None:
            return self._converted(self._source.path, exposed)
        return self._converted(bytes(self._source.data), exposed)

    def isolated_runner(self, values: Mapping[str, Tuple[str, Tuple[int, ...]]]) -> Tuple["Runner", Dict[str, str]]:
        """A runner in which these values (by name: dtype and shape) are inputs for those who read them, and what the
        graph computes in their place are outputs: each piece between them runs on the values that it is given. With
        the names of these inputs, by the values' names.
        """
        assert self.graph is not None
        model = OnnxModel(self.graph.to_bytes(), self.graph.folder)
        taken, given = model.names(), {}
        consumers = model.consumers()
        for name, (dtype, shape) in values.items():
            readers = consumers.get(name, [])
            if not readers or any(index < 0 for _, index in readers):  # who reads inside of a sub-graph keeps its own
                continue
            given[name] = model.fresh(f"{name}/given", taken)
            model.add_input(given[name], dtype, shape)
            for node, index in readers:
                node.inputs[index] = given[name]
        outputs = set(model.output_names())
        for name in values:
            if name not in outputs:
                model.add_output(name)
        data = model.to_bytes()
        return (_OrtRunner(data, self.name) if self.runtime == "onnxruntime" else self._converted(data, ())), given

    def _exposing(self, values: Sequence[str]) -> bytes:
        assert self.graph is not None
        model = OnnxModel(self.graph.to_bytes(), self.graph.folder)
        outputs = set(model.output_names())
        for name in values:
            if name not in outputs:
                model.add_output(name)
        return model.to_bytes()

    def _converted(self, model: Any, exposed: Sequence[str]) -> "Runner":
        with _files.private_folder() as folder:
            path = os.path.join(folder, "model.aipu.bin")
            _model.build(model, path, expose=list(exposed), **self._build)
            return Runner(_model.load(path, **self._load))


class Runner:
    """Runs a model; ``inputs`` and ``outputs`` say what it takes and gives."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.inputs: Tuple[TensorSpec, ...] = tuple(model.inputs) if model is not None else ()
        self.float_outputs = [s.name for s in model.outputs if _is_float(s.dtype)] if model is not None else []

    def run(self, feed: Feed) -> Dict[str, np.ndarray]:
        """The outputs of floating-point types by name."""
        feed = {spec.name: feed[spec.name] for spec in self.inputs}
        return self._model.run(feed, self.float_outputs)


class _OrtRunner(Runner):
    """The same by the package onnxruntime."""

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(None)
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError(f"{name}: the package onnxruntime is not installed") from error
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        with _named(name):
            self._session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        types = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}
        self.inputs = tuple(
            TensorSpec(one.name, types.get(one.type, one.type[7:-1]), tuple(one.shape))
            for one in self._session.get_inputs()
        )
        self.float_outputs = [one.name for one in self._session.get_outputs() if one.type in types]

    def run(self, feed: Feed) -> Dict[str, np.ndarray]:
        feed = {spec.name: feed[spec.name] for spec in self.inputs}
        return dict(zip(self.float_outputs, self._session.run(self.float_outputs, feed)))


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # onnxruntime has exceptions of its own for each status
        raise RuntimeError(f"{name}: onnxruntime: {' '.join(str(error).split())}") from error
