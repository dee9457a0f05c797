"""aipu as an ``onnx.backend``: what ONNX's own test runner drives, and scripts that choose among backends::

    import aipu.backend

    prepared = aipu.backend.prepare(onnx.load("model.onnx"))  # device "CPU"
    outputs = prepared.run([image])

Needs the package ``onnx`` (ImportError without it). ``device="X2_1204"``, or another target of :func:`aipu.build`,
converts for it and runs on its model.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

try:
    import onnx
    from onnx.backend.base import Backend, BackendRep, namedtupledict
except ImportError as _error:
    raise ImportError("aipu.backend needs the package onnx: pip install onnx") from _error

from . import _files, _native, model

__all__ = ["AipuBackend", "AipuBackendRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device"]


def _target(device: str) -> str:
    """The target that a device's name means. ``"CPU"`` and ``"CPU:0"`` are this machine; ValueError for no target."""
    if device in ("CPU", "CPU:0"):
        return "host"
    _native.target(device)
    return device


class AipuBackendRep(BackendRep):
    """A model that is converted and loaded; made by :func:`prepare`."""

    def __init__(self, loaded: model.Model) -> None:
        self.model = loaded

    def run(self, inputs: Union[Sequence[Any], Mapping[str, Any], Any], **kwargs: Any) -> Tuple[np.ndarray, ...]:
        """Runs the model on its inputs in order, or by name; one that is no list is the only input.

        The outputs in order, which are also attributes by their names. Errors as of :meth:`aipu.Session.run`; for more
        or fewer inputs than the model has a ValueError.
        """
        names = [spec.name for spec in self.model.inputs]
        if isinstance(inputs, Mapping):
            feed: Dict[str, Any] = dict(inputs)
        else:
            values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            if len(values) != len(names):
                raise ValueError(f"the model has {len(names)} inputs, found {len(values)}")
            feed = dict(zip(names, values))
        results = self.model.run(feed)
        return namedtupledict("Outputs", list(results))(*results.values())


class AipuBackend(Backend):
    """The backend as a class, for ``onnx.backend.test.BackendTest(aipu.backend.AipuBackend, name)``."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether it converts; it is converted to find out."""
        try:
            cls.prepare(model, device, **kwargs)
        except (OSError, RuntimeError, ValueError):
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> AipuBackendRep:
        """Converts a ModelProto (or a path, or bytes); ``kwargs`` are those of :func:`aipu.build`.

        RuntimeError or ValueError with a line that names the node that does not convert. Nothing is kept on disk.
        """
        super().prepare(model if isinstance(model, onnx.ModelProto) else onnx.ModelProto(), device)
        return AipuBackendRep(_converted(model, _target(device), kwargs))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> Tuple[Any, ...]:
        """Prepares a model and runs it."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[Any],
        device: str = "CPU",
        outputs_info: Optional[Sequence[Tuple[np.dtype, Tuple[int, ...]]]] = None,
        **kwargs: Any,
    ) -> Tuple[Any, ...]:
        """Runs one node, on arrays for those of its operands that have a name.

        ``outputs_info``: dtype and shape of each output; without it every output has the dtype of the first input.
        ``opset_version``: of ONNX's own domain, by default the newest that ``onnx`` knows.
        """
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = [name for name in node.input if name]
        arrays = [np.asarray(value) for value in inputs]
        if len(arrays) != len(names):
            raise ValueError(f"{node.op_type}: {len(names)} operands have a name, found {len(arrays)} arrays")
        values = dict(zip(names, arrays))  # an operand that comes twice is one input
        outputs = [name for name in node.output if name]
        kinds: List[Tuple[Any, Optional[Tuple[int, ...]]]] = [(arrays[0].dtype if arrays else np.float32, None)]
        kinds = kinds * len(outputs) if outputs_info is None else [(dtype, shape) for dtype, shape in outputs_info]

        def info(name: str, dtype: Any, shape: Optional[Sequence[int]]) -> onnx.ValueInfoProto:
            kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            return onnx.helper.make_tensor_value_info(name, kind, shape)

        graph = onnx.helper.make_graph(
            [node],
            node.op_type,
            [info(name, array.dtype, array.shape) for name, array in values.items()],
            [info(name, dtype, shape) for name, (dtype, shape) in zip(outputs, kinds)],
        )
        domains = [onnx.helper.make_opsetid("", opset)]
        if node.domain:
            domains.append(onnx.helper.make_opsetid(node.domain, 1))
        proto = onnx.helper.make_model(graph, opset_imports=domains)
        return AipuBackendRep(_converted(proto, _target(device), kwargs)).run(list(values.values()))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """``"CPU"``, and the targets of :func:`aipu.build`."""
        try:
            _target(device)
        except (RuntimeError, ValueError):
            return False
        return True


def _converted(proto: Any, target: str, options: Mapping[str, Any]) -> model.Model:
    with _files.private_folder() as folder:
        path = f"{folder}/model.aipu.bin"
        model.build(proto, path, target=target, **options)
        return model.load(path)


is_compatible = AipuBackend.is_compatible
prepare = AipuBackend.prepare
run_model = AipuBackend.run_model
run_node = AipuBackend.run_node
supports_device = AipuBackend.supports_device
