"""The other sides of the comparison behind one interface, and the inputs both get."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

SYMBOLS = {"seq": 128, "frames": 100}


class Side(Protocol):
    """A model made ready to run."""

    def bind(self, inputs: dict[str, np.ndarray]) -> None:
        """Sets the inputs of the runs that follow."""

    def run(self) -> None:
        """One inference."""

    def outputs(self) -> list[np.ndarray]:
        """The outputs of the last run."""

    def close(self) -> None:
        """Frees threads and memory."""


class OnnxRuntimeSide:
    """ONNX Runtime with its defaults: all optimisations, arena, spinning workers; inputs and outputs bound once."""

    def __init__(self, model: Path, threads: int) -> None:
        import onnxruntime

        self._ort = onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._binding = self._session.io_binding()
        self._values: list[object] = []

    def signature(self) -> list[tuple[str, list[object], str]]:
        """Names, extents (numbers or symbols) and NumPy dtype names of the inputs."""
        kinds = {
            "tensor(float)": "float32",
            "tensor(int64)": "int64",
            "tensor(uint8)": "uint8",
            "tensor(int32)": "int32",
            "tensor(bool)": "bool",
        }
        return [(node.name, list(node.shape), kinds[node.type]) for node in self._session.get_inputs()]

    def bind(self, inputs: dict[str, np.ndarray]) -> None:
        """Sets the inputs of the runs that follow."""
        for name, array in inputs.items():
            value = self._ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
            self._values.append(value)
            self._binding.bind_ortvalue_input(name, value)
        for node in self._session.get_outputs():
            self._binding.bind_output(node.name)

    def run(self) -> None:
        """One inference."""
        self._session.run_with_iobinding(self._binding)

    def outputs(self) -> list[np.ndarray]:
        """The outputs of the last run."""
        return self._binding.copy_outputs_to_cpu()

    def close(self) -> None:
        """Frees threads and memory."""
        self._binding = None
        self._values.clear()
        self._session = None


class OpenVinoSide:
    """OpenVINO for latency in one stream; `precision` is its hint, shapes are those of the inputs."""

    def __init__(self, model: Path, threads: int, precision: str) -> None:
        import openvino

        self._openvino = openvino
        self._model = openvino.Core().read_model(str(model))
        self._options = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": precision,
        }
        self._request: Any = None
        self._outputs: list[Any] = []

    def bind(self, inputs: dict[str, np.ndarray]) -> None:
        """Sets the inputs of the runs that follow, and compiles for their shapes."""
        self._model.reshape({name: list(array.shape) for name, array in inputs.items()})
        compiled = self._openvino.Core().compile_model(self._model, "CPU", self._options)
        self._request = compiled.create_infer_request()
        self._outputs = list(compiled.outputs)
        for name, array in inputs.items():
            self._request.set_tensor(name, self._openvino.Tensor(np.ascontiguousarray(array), shared_memory=False))

    def run(self) -> None:
        """One inference."""
        self._request.infer()

    def outputs(self) -> list[np.ndarray]:
        """The outputs of the last run."""
        return [self._request.get_tensor(output).data.copy() for output in self._outputs]

    def close(self) -> None:
        """Frees threads and memory."""
        self._request = None
        self._outputs.clear()


def make_inputs(signature: list[tuple[str, list[object], str]], batch: int) -> dict[str, np.ndarray]:
    """Seeded inputs: smooth images with noise in [-1, 1], token ids below 30000, masks of ones."""
    random = np.random.default_rng(7)
    inputs = {}
    for name, extents, dtype in signature:
        shape = [extent if isinstance(extent, int) else SYMBOLS.get(str(extent), batch) for extent in extents]
        if dtype == "float32" and len(shape) == 4 and shape[2] % 16 == 0:
            coarse = random.uniform(-0.7, 0.7, [shape[0], shape[1], shape[2] // 16, shape[3] // 16])
            values = np.kron(coarse, np.ones((1, 1, 16, 16))) + random.uniform(-0.3, 0.3, shape)
        elif dtype == "float32":
            values = random.uniform(-1, 1, shape)
        elif "mask" in name:
            values = np.ones(shape)
        elif "type" in name:
            values = random.integers(0, 2, shape)
        else:
            values = random.integers(0, 255 if dtype == "uint8" else 30000, shape)
        inputs[name] = values.astype(dtype)
    return inputs
