"""aipu as an ``onnx.backend``: what ONNX's own test runner drives, and scripts that choose among backends::

    import aipu.backend

    prepared = aipu.backend.prepare(onnx.load("model.onnx"))  # device "CPU"
    outputs = prepared.run([image])

A model converts when it is prepared, unless its inputs decide what it is: how many elements there are in a sequence,
whether an optional has a value, or an operand that the compiler has to know. Such a model converts when it is run, for
the inputs at hand, and again for others; sequences are lists of arrays, an optional without a value is None.

Needs the package ``onnx`` (ImportError without it). ``device="X2_1204"``, or another target of :func:`aipu.build`,
converts for it and runs on its model.
"""

from __future__ import annotations

import re
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


# What the compiler says about an operand that decides what the model is.
_MUST_BE_KNOWN = re.compile(r"operand '([^']*)' must be known when compiling")
_DEPENDS = re.compile("depends on whether|in one branch and")  # on what, it does not say
_MOST_CONVERSIONS = 16  # that a prepared model keeps


class _Conversions:
    """A model that is converted for inputs: for the lengths of sequences, for optionals that are there or not, and for
    the values of operands that have to be known."""

    def __init__(self, proto: onnx.ModelProto, target: str, options: Mapping[str, Any]) -> None:
        self._proto = proto
        self._target = target
        self._options = dict(options)
        initial = {tensor.name for tensor in proto.graph.initializer}
        initial.update(tensor.values.name for tensor in proto.graph.sparse_initializer)
        self.inputs = [value for value in proto.graph.input if value.name not in initial]
        self._lists = {value.name: value.type for value in self.inputs if not _is_tensor(value.type)}
        self._operands: List[str] = []  # inputs that have to be known
        self._loaded: Dict[Any, model.Model] = {}

    def plain(self) -> Optional[model.Model]:
        """The model for all inputs, None if there is no such; RuntimeError or ValueError if it does not convert."""
        if self._lists:
            return None
        try:
            return _converted(self._proto, self._target, self._options)
        except RuntimeError as error:
            if not self._lacking(error):
                raise
            return None

    def of(self, feed: Mapping[str, Any]) -> Tuple[model.Model, Dict[str, Any]]:
        """The model for these inputs, and those that it still takes."""
        shapes = dict(self._options.get("shapes") or {})
        lengths = {name: _length(type_, feed[name]) for name, type_ in self._lists.items()}
        for name, type_ in self._lists.items():
            for k, value in enumerate(_elements(type_, feed[name])):
                shapes.setdefault(f"{name}[{k}]", [-1] * np.ndim(value))
        while True:
            constants = {name: np.asarray(feed[name]) for name in self._operands}
            key = (
                tuple(sorted(lengths.items(), key=lambda item: item[0])),
                tuple((name, len(extents)) for name, extents in sorted(shapes.items())),
                tuple((name, value.dtype.str, value.shape, value.tobytes()) for name, value in constants.items()),
            )
            if key not in self._loaded:
                options = {**self._options, "shapes": shapes, "sequence_lengths": lengths, "constants": constants}
                try:
                    loaded = _converted(self._proto, self._target, options)
                except RuntimeError as error:
                    lacking = self._lacking(error)
                    if not lacking:
                        raise
                    self._operands += lacking
                    continue
                if len(self._loaded) >= _MOST_CONVERSIONS:
                    self._loaded.pop(next(iter(self._loaded)))
                self._loaded[key] = loaded
            return self._loaded[key], {name: value for name, value in feed.items() if name not in constants}

    def _lacking(self, error: RuntimeError) -> List[str]:
        """The input that an error asks for; where none has that name, what could be meant. Empty if all are given."""
        found = _MUST_BE_KNOWN.search(str(error)) or _DEPENDS.search(str(error))
        if found is None:
            return []
        open_inputs = [i for i in self.inputs if i.name not in self._lists and i.name not in self._operands]
        named = [value.name for value in open_inputs if found.groups() and value.name == found.group(1)]
        return named or [value.name for value in open_inputs if _is_small_integers(value.type)]


def _is_tensor(type_: onnx.TypeProto) -> bool:
    return type_.WhichOneof("value") not in ("sequence_type", "optional_type")


def _is_small_integers(type_: onnx.TypeProto) -> bool:
    """Whether it may be axes, a count, a position or a condition: what decides about other tensors."""
    kinds = (onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.BOOL)
    tensor = type_.tensor_type
    return tensor.elem_type in kinds and tensor.HasField("shape") and len(tensor.shape.dim) <= 1


def _is_optional_tensor(type_: onnx.TypeProto) -> bool:
    return type_.HasField("optional_type") and not type_.optional_type.elem_type.HasField("sequence_type")


def _length(type_: onnx.TypeProto, value: Any) -> Optional[int]:
    return None if value is None else len(_elements(type_, value))


def _elements(type_: onnx.TypeProto, value: Any) -> Sequence[Any]:
    """The arrays that a list is made of."""
    if value is None:
        return []
    return [value] if _is_optional_tensor(type_) else list(value)


class AipuBackendRep(BackendRep):
    """A model to run; made by :func:`prepare`. ``model`` is what it was converted to, None until its inputs say it."""

    def __init__(self, loaded: Optional[model.Model], conversions: Optional[_Conversions] = None) -> None:
        self.model = loaded
        self._conversions = conversions

    def run(self, inputs: Union[Sequence[Any], Mapping[str, Any], Any], **kwargs: Any) -> Tuple[np.ndarray, ...]:
        """Runs the model on its inputs in order, or by name; one that is no list is the only input.

        The outputs in order, which are also attributes by their names. Errors as of :meth:`aipu.Session.run`; for more
        or fewer inputs than the model has a ValueError; RuntimeError if it does not convert for these inputs.
        """
        if self._conversions is not None:
            names = [value.name for value in self._conversions.inputs]
        else:
            names = [spec.name for spec in self.model.inputs]
        if isinstance(inputs, Mapping):
            feed: Dict[str, Any] = dict(inputs)
        else:
            values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            if len(values) != len(names):
                raise ValueError(f"the model has {len(names)} inputs, found {len(values)}")
            feed = dict(zip(names, values))
        loaded = self.model
        if loaded is None:
            missing = [name for name in names if name not in feed]
            if missing:
                raise ValueError(f"no value for input {', '.join(map(repr, missing))}: every run takes all inputs")
            loaded, feed = self._conversions.of(feed)
        results = loaded.run(feed)
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
        if not isinstance(model, onnx.ModelProto):
            return AipuBackendRep(_converted(model, _target(device), kwargs))
        conversions = _Conversions(model, _target(device), kwargs)
        return AipuBackendRep(conversions.plain(), conversions)

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
        conversions = _Conversions(proto, _target(device), kwargs)  # the checker wants shapes that nobody has said
        return AipuBackendRep(conversions.plain(), conversions).run(list(values.values()))

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
