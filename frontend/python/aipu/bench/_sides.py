"""The runtimes that are compared, behind one interface: inputs are bound once, runs take nothing and give nothing."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Protocol

import numpy as np

from .. import _model_source
from ..model import Model


class Side(Protocol):
    """A model made ready to run on inputs."""

    version: str

    def run(self) -> None:
        """One inference."""

    def outputs(self) -> Dict[str, np.ndarray]:
        """The outputs of the last run by name."""

    def close(self) -> None:
        """Ends its threads and frees its memory."""


class AipuSide:
    """aipu, its memory planned and its outputs bound before."""

    def __init__(self, model: Model, feed: Mapping[str, np.ndarray], threads: int) -> None:
        from .. import __version__

        self.version = __version__
        self._model = model
        self._session = model.session(threads=threads)
        self._native = self._session._native
        self._inputs = model._signature.input_values(feed)
        for index, array in enumerate(self._inputs):
            self._native.bind_input(index, array)
        self._native.prepare()
        self._bound: Dict[int, np.ndarray] = {}
        for index, spec in enumerate(model.outputs):
            shape = self._native.output_shape(index)
            if shape is not None:
                self._bound[index] = np.empty(shape, spec.dtype)
                self._native.bind_output(index, self._bound[index])
        self.run: Callable[[], None] = self._native.run

    def outputs(self) -> Dict[str, np.ndarray]:
        """See :class:`Side`."""
        found = {}
        for index, spec in enumerate(self._model.outputs):
            if index in self._bound:
                found[spec.name] = self._bound[index].copy()
            else:
                data = np.frombuffer(self._native.output_bytes(index), spec.dtype)
                found[spec.name] = data.reshape(self._native.output_shape(index))
        return found

    def close(self) -> None:
        """See :class:`Side`."""
        self._session.close()


class OnnxRuntimeSide:
    """ONNX Runtime's CPU provider with its defaults: all optimisations, arena; inputs and outputs bound once."""

    def __init__(self, source: _model_source.Source, feed: Mapping[str, np.ndarray], threads: int) -> None:
        import onnxruntime

        self.version = onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        model = source.path if source.path is not None else bytes(source.data)
        self._session: Any = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._binding: Any = self._session.io_binding()
        self._values = []
        for name, array in feed.items():
            self._values.append(onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(array, order="C")))
            self._binding.bind_ortvalue_input(name, self._values[-1])
        self._names = [value.name for value in self._session.get_outputs()]
        for name in self._names:
            self._binding.bind_output(name)

    def run(self) -> None:
        """See :class:`Side`."""
        self._session.run_with_iobinding(self._binding)

    def outputs(self) -> Dict[str, np.ndarray]:
        """See :class:`Side`."""
        return dict(zip(self._names, self._binding.copy_outputs_to_cpu()))

    def close(self) -> None:
        """See :class:`Side`."""
        self._values.clear()
        self._binding = self._session = None


class OpenVinoSide:
    """OpenVINO's CPU plugin for latency, in float32: one stream; shapes fixed to those of the inputs."""

    def __init__(self, source: _model_source.Source, feed: Mapping[str, np.ndarray], threads: int) -> None:
        import openvino

        self.version = openvino.__version__.partition("-")[0]
        core = openvino.Core()
        if source.path is not None:
            model = core.read_model(source.path)
        else:
            model = core.read_model(model=bytes(source.data))
        model.reshape({name: list(array.shape) for name, array in feed.items()})
        options = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = core.compile_model(model, "CPU", options)
        self._request: Any = compiled.create_infer_request()
        self._values = []
        for name, array in feed.items():
            self._values.append(openvino.Tensor(np.asarray(array, order="C"), shared_memory=True))
            self._request.set_tensor(name, self._values[-1])
        self._outputs = [(self._name(output), output) for output in compiled.outputs]

    @staticmethod
    def _name(output: Any) -> str:
        """Of the names that a tensor has, the model's own; any of them where OpenVINO does not tell."""
        names: List[str] = sorted(output.get_names())
        friendly = output.node.get_friendly_name().partition("/sink_port")[0]
        return friendly if friendly in names else names[0] if names else friendly

    def run(self) -> None:
        """See :class:`Side`."""
        self._request.infer()

    def outputs(self) -> Dict[str, np.ndarray]:
        """See :class:`Side`."""
        return {name: self._request.get_tensor(output).data.copy() for name, output in self._outputs}

    def close(self) -> None:
        """See :class:`Side`."""
        self._values.clear()
        self._request = None
        self._outputs = []


# What a model can be compared with: the package that it takes is the name.
SIDES: Dict[str, Callable[[_model_source.Source, Mapping[str, np.ndarray], int], Side]] = {
    "onnxruntime": OnnxRuntimeSide,
    "openvino": OpenVinoSide,
}
