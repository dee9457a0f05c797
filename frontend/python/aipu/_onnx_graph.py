"""ONNX models that are edited: nodes, initializers, inputs and outputs as objects; all else is kept byte for byte.

No package is needed: the wire format of protobuf is small, and the numbers of the fields are those of
``frontend/onnx_proto/onnx.proto``. What a model means is known to the importer alone.
"""

from __future__ import annotations

import dataclasses
import os
import struct
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple, Union

import numpy as np

from . import _native
from ._onnx_text import Bytes, _entry, _fields, _text, _value, _varint
from ._stored_type import numpy_dtype

Field = Tuple[int, int, Any]  # number, kind on the wire, an int or bytes
Extent = Union[int, str, None]

# ONNX's numbers of element types, and those of the types that NumPy has itself.
_TYPE_NAMES = {number: name for name, _, number, _ in _native.element_types()}
_NUMBERS = {name: number for name, _, number, held in _native.element_types() if held == name and name != "bfloat16"}
# Where elements are that are no raw_data: the field, and what it holds.
_TYPED_DATA = {1: (4, "<f4"), 6: (5, None), 7: (7, None), 11: (10, "<f8"), 12: (11, None), 13: (11, None)}
_INT32_DATA = (5, None)


def _encode_varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode(number: int, value: Any) -> bytes:
    """A field: an int, a float, a text or bytes."""
    if isinstance(value, (int, np.integer)):
        return _encode_varint(number << 3) + _encode_varint(int(value))
    if isinstance(value, float):
        return _encode_varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return b"".join((_encode_varint(number << 3 | 2), _encode_varint(len(data)), data))


def _raw_fields(data: Bytes) -> List[Tuple[int, memoryview]]:
    """Number and all bytes of each field, tag included, to be written as they were."""
    view, at, found = memoryview(data), 0, []
    try:
        while at < len(view):
            start = at
            tag, at = _varint(view, at)
            kind = tag & 7
            if kind == 0:
                _, at = _varint(view, at)
            elif kind == 2:
                size, at = _varint(view, at)
                at += size
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            else:
                raise ValueError("no protobuf")
            if at > len(view):
                raise ValueError("no protobuf")
            found.append((tag >> 3, view[start:at]))
    except IndexError:
        raise ValueError("no protobuf") from None
    return found


def _rest(data: Bytes, known: Iterable[int]) -> List[memoryview]:
    skipped = set(known)
    return [raw for number, raw in _raw_fields(data) if number not in skipped]


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _numbers(parts: Sequence[Any]) -> List[int]:
    """A repeated integer field, packed or not."""
    found: List[int] = []
    for part in parts:
        if isinstance(part, int):
            found.append(_signed(part))
            continue
        at = 0
        while at < len(part):
            value, at = _varint(part, at)
            found.append(_signed(value))
    return found


def _all(data: Bytes) -> Dict[int, List[Any]]:
    found: Dict[int, List[Any]] = {}
    for number, value in _fields(data):
        found.setdefault(number, []).append(value)
    return found


def tensor_array(data: Bytes, folder: str = "", stored: bool = False) -> Tuple[str, np.ndarray]:
    """Name and elements of a TensorProto; ``folder``: where external data is. ValueError for what is no tensor, and
    unless ``stored`` for the types that NumPy has not itself, which are as :mod:`aipu._stored_type` has them.
    """
    parts = _all(data)
    name = _text(parts.get(8, [b""])[-1])
    number = parts.get(2, [0])[-1]
    known = _TYPE_NAMES.values() if stored else _NUMBERS
    if _TYPE_NAMES.get(number) not in known:
        raise ValueError(f"tensor '{name}': element type {number} is not one of {', '.join(known)}")
    shape = tuple(_numbers(parts.get(1, [])))
    native = numpy_dtype(_TYPE_NAMES[number])
    dtype = native.newbyteorder("<") if native.kind in "biufc" else native
    count = int(np.prod(shape, dtype=np.int64))
    if parts.get(14, [0])[-1] == 1:
        array = _external(dict(_entry(part) for part in parts.get(13, [])), folder, name, dtype, count)
    elif 9 in parts:
        array = np.frombuffer(b"".join(bytes(part) for part in parts[9]), dtype)
    else:
        field, packed = _TYPED_DATA.get(number, _INT32_DATA)
        if packed is not None:
            array = np.frombuffer(b"".join(bytes(part) for part in parts.get(field, [])), packed)
        else:
            integers = np.array(_numbers(parts.get(field, [])), np.int64)
            # Of floats there are the bits.
            array = (
                integers.astype(dtype) if native.kind in "biu" else integers.astype(f"u{native.itemsize}").view(native)
            )
    if array.size != count:
        raise ValueError(f"tensor '{name}' has {array.size} elements, its shape {list(shape)} says {count}")
    return name, array.reshape(shape).astype(native, copy=False)


def _external(entries: Mapping[str, str], folder: str, name: str, dtype: np.dtype, count: int) -> np.ndarray:
    location = os.path.normpath(entries.get("location", ""))
    if not folder or os.path.isabs(location) or location.startswith(".."):
        raise ValueError(f"tensor '{name}': external data '{location}' is not in the model's folder")
    return np.fromfile(os.path.join(folder, location), dtype, count, offset=int(entries.get("offset", "0") or 0))


def tensor_bytes(name: str, array: np.ndarray) -> bytes:
    """The TensorProto of an array."""
    array = np.asarray(array, order="C")
    number = _NUMBERS.get(str(array.dtype))
    if number is None:
        raise ValueError(f"tensor '{name}': {array.dtype} is not one of {', '.join(_NUMBERS)}")
    dims = b"".join(_encode(1, extent) for extent in array.shape)
    data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return b"".join((dims, _encode(2, number), _encode(8, name), _encode(9, data)))


def _attribute_value(data: Bytes, folder: str) -> Any:
    """A number, text, list of them, or array; None of a graph."""
    parts = _all(data)

    def floats(values: Sequence[Any]) -> List[float]:
        return [float(x) for part in values for x in np.frombuffer(bytes(part), "<f4")]

    kind = parts.get(20, [0])[-1]
    if kind == 1 or (not kind and 2 in parts):
        return floats(parts.get(2, [b"\0\0\0\0"]))[-1]
    if kind == 2 or (not kind and 3 in parts):
        return _signed(parts.get(3, [0])[-1])
    if kind == 3 or (not kind and 4 in parts):
        return _text(parts.get(4, [memoryview(b"")])[-1])
    if kind == 4 or (not kind and 5 in parts):
        return tensor_array(parts[5][-1], folder)[1]
    if kind == 6 or (not kind and 7 in parts):
        return floats(parts.get(7, []))
    if kind == 7 or (not kind and 8 in parts):
        return _numbers(parts.get(8, []))
    if kind == 8 or (not kind and 9 in parts):
        return [_text(part) for part in parts.get(9, [])]
    return None


def _attribute_bytes(name: str, value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        return _encode(1, name) + _encode(5, tensor_bytes("", value)) + _encode(20, 4)
    if isinstance(value, (list, tuple)):
        number, kind = {float: (7, 6), str: (9, 8)}.get(type(value[0]) if value else int, (8, 7))
        return _encode(1, name) + b"".join(_encode(number, one) for one in value) + _encode(20, kind)
    number, kind = {float: (2, 1), str: (4, 3)}.get(type(value), (3, 2))
    return _encode(1, name) + _encode(number, value) + _encode(20, kind)


class Node:
    """A node. ``attributes`` are the bytes of each AttributeProto, by name."""

    def __init__(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        name: str = "",
        domain: str = "",
        **attributes: Any,
    ) -> None:
        self.op, self.domain, self.name = op, domain, name or (outputs[0] if outputs else op)
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.attributes: Dict[str, Bytes] = {key: _attribute_bytes(key, value) for key, value in attributes.items()}
        self._rest: List[memoryview] = []
        self._folder = ""

    @classmethod
    def parse(cls, data: memoryview, folder: str) -> "Node":
        node = cls("", [], [])
        parts = _all(data)
        node.inputs = [_text(part) for part in parts.get(1, [])]
        node.outputs = [_text(part) for part in parts.get(2, [])]
        node.name = _text(parts.get(3, [memoryview(b"")])[-1])
        node.op = _text(parts.get(4, [memoryview(b"")])[-1])
        node.domain = _text(parts.get(7, [memoryview(b"")])[-1])
        for part in parts.get(5, []):
            node.attributes[_text(_all(part).get(1, [memoryview(b"")])[-1])] = part
        node._rest = _rest(data, (1, 2, 3, 4, 5, 7))
        node._folder = folder
        return node

    def is_op(self, *ops: str) -> bool:
        """Whether it is one of ONNX's own operators of these names."""
        return self.op in ops and self.domain in ("", "ai.onnx")

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute's value; ``default`` if it is not there."""
        return _attribute_value(self.attributes[name], self._folder) if name in self.attributes else default

    def set(self, name: str, value: Any) -> None:
        """Sets an attribute to a number, a text, a list of them, or an array."""
        self.attributes[name] = _attribute_bytes(name, value)

    def input(self, index: int) -> str:
        """The name of an operand, "" where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def captured(self) -> Set[str]:
        """Names that sub-graphs of the node read; some may be their own."""
        found: Set[str] = set()

        def graph(data: memoryview) -> None:
            parts = _all(data)
            found.update(_text(_all(output).get(1, [memoryview(b"")])[-1]) for output in parts.get(12, []))
            for part in parts.get(1, []):
                node = Node.parse(part, "")
                found.update(node.inputs)
                found.update(node.captured())

        for attribute in self.attributes.values():
            parts = _all(attribute)
            for part in (*parts.get(6, []), *parts.get(11, [])):
                graph(part)
        return found

    def to_bytes(self) -> bytes:
        fields = [_encode(1, name) for name in self.inputs] + [_encode(2, name) for name in self.outputs]
        fields += [_encode(3, self.name)] if self.name else []
        fields += [_encode(4, self.op)] + [_encode(5, attribute) for attribute in self.attributes.values()]
        fields += [_encode(7, self.domain)] if self.domain else []
        return b"".join([*fields, *self._rest])


def _value_bytes(name: str, dtype: str, shape: Optional[Sequence[Extent]]) -> bytes:
    tensor = _encode(1, _NUMBERS[dtype])
    if shape is not None:
        dims = [b"" if e is None else _encode(1 if isinstance(e, (int, np.integer)) else 2, e) for e in shape]
        tensor += _encode(2, b"".join(_encode(1, dim) for dim in dims))
    return _encode(1, name) + _encode(2, _encode(1, tensor))


@dataclasses.dataclass
class Port:
    """An input or output as the file has it."""

    name: str
    data: Bytes


class OnnxModel:
    """A model of which nodes, initializers, inputs, outputs and opsets can be changed.

    ``source``: a path, or bytes (whose external data is in ``folder``). ValueError if it is no ONNX model.
    """

    def __init__(self, source: Union[str, "os.PathLike[str]", Bytes], folder: str = "") -> None:
        if isinstance(source, (str, os.PathLike)):
            folder = os.path.dirname(os.path.abspath(os.fspath(source)))
            with open(source, "rb") as file:
                source = file.read()
        self.folder = folder
        parts = _all(source)
        if 7 not in parts:
            raise ValueError("no ONNX model: it has no graph")
        self._rest = _rest(source, (1, 7, 8))
        self.ir_version: int = parts.get(1, [3])[-1]
        self.opsets: Dict[str, int] = {}
        for part in parts.get(8, []):
            entry = _all(part)
            domain = _text(entry.get(1, [memoryview(b"")])[-1])
            self.opsets["" if domain == "ai.onnx" else domain] = entry.get(2, [1])[-1]
        graph = b"".join(bytes(part) for part in parts[7]) if len(parts[7]) > 1 else parts[7][0]
        fields = _all(graph)
        self._graph_rest = _rest(graph, (1, 5, 11, 12, 13))  # 13, value_info: what it says may be true no longer
        self.nodes = [Node.parse(part, folder) for part in fields.get(1, [])]
        self._tensors: Dict[str, Bytes] = {}
        self._arrays: Dict[str, np.ndarray] = {}
        for part in fields.get(5, []):
            self._tensors[_text(_all(part).get(8, [memoryview(b"")])[-1])] = part
        self.inputs = [Port(_value(part).name, part) for part in fields.get(11, [])]
        self.outputs = [Port(_value(part).name, part) for part in fields.get(12, [])]

    # ---- looking

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return self.opsets.get("", 1)

    def input_names(self) -> List[str]:
        """Inputs that are no initializers."""
        return [port.name for port in self.inputs if port.name not in self._tensors and port.name not in self._arrays]

    def output_names(self) -> List[str]:
        """Outputs in their order."""
        return [port.name for port in self.outputs]

    def constant(self, name: str) -> Optional[np.ndarray]:
        """The elements of an initializer or of a Constant node's output; None if it is neither."""
        if name in self._arrays:
            return self._arrays[name]
        if name in self._tensors:
            self._arrays[name] = tensor_array(self._tensors[name], self.folder)[1]
            return self._arrays[name]
        node = self.producers().get(name) if name else None
        if node is None or not node.is_op("Constant"):
            return None
        for attribute, dtype in (("value", None), ("value_float", "f4"), ("value_floats", "f4")):
            if attribute in node.attributes:
                return np.asarray(node.get(attribute), dtype)
        for attribute in ("value_int", "value_ints"):
            if attribute in node.attributes:
                return np.asarray(node.get(attribute), np.int64)
        return None

    def producers(self) -> Dict[str, Node]:
        """The node of each value that one computes."""
        return {output: node for node in self.nodes for output in node.outputs if output}

    def consumers(self) -> Dict[str, List[Tuple[Node, int]]]:
        """Who reads a value: nodes of this graph with the number of the operand; -1 for their sub-graphs."""
        found: Dict[str, List[Tuple[Node, int]]] = {}
        for node in self.nodes:
            for index, name in enumerate(node.inputs):
                found.setdefault(name, []).append((node, index))
            for name in node.captured():
                found.setdefault(name, []).append((node, -1))
        return found

    def names(self) -> Set[str]:
        """All names in use, those of sub-graphs too."""
        found = {port.name for port in (*self.inputs, *self.outputs)} | set(self._tensors) | set(self._arrays)
        for node in self.nodes:
            found.update(node.inputs, node.outputs, node.captured())
        return found

    def fresh(self, name: str, taken: Set[str]) -> str:
        """A name like this one that is not taken; it is afterwards."""
        unique, number = name, 1
        while unique in taken:
            number += 1
            unique = f"{name}_{number}"
        taken.add(unique)
        return unique

    # ---- changing

    def set_constant(self, name: str, array: np.ndarray) -> None:
        """Makes an initializer, or gives one other elements."""
        self._tensors.pop(name, None)
        self._arrays[name] = np.asarray(array)

    def add_input(self, name: str, dtype: str, shape: Optional[Sequence[Extent]]) -> None:
        """One more input."""
        self.inputs.append(Port(name, _value_bytes(name, dtype, shape)))

    def add_output(self, name: str, dtype: str = "", shape: Optional[Sequence[Extent]] = None) -> None:
        """One more output; without a type where nobody needs to be told."""
        self.outputs.append(Port(name, _value_bytes(name, dtype, shape) if dtype else _encode(1, name)))

    def sort_nodes(self) -> None:
        """Brings nodes into an order of execution, as ONNX asks; those that may stay where they are do."""
        made = set(self._tensors) | set(self._arrays) | {port.name for port in self.inputs} | {""}
        computed = {output for node in self.nodes for output in node.outputs}
        waiting, ordered = list(self.nodes), []
        while waiting:
            left = []
            for node in waiting:
                needed = {name for name in (*node.inputs, *node.captured()) if name in computed}
                if needed <= made:
                    ordered.append(node)
                    made.update(node.outputs)
                else:
                    left.append(node)
            if len(left) == len(waiting):
                raise ValueError(f"node '{left[0].name}' depends on itself, or on what is not there")
            waiting = left
        self.nodes = ordered

    def remove_unused_constants(self) -> None:
        """Drops initializers, and Constant nodes, that nobody reads."""
        used = {port.name for port in self.outputs}
        for node in self.nodes:
            used.update(node.inputs, node.captured())
        gone = {name for name in (*self._tensors, *self._arrays) if name not in used}
        for name in gone:
            self._tensors.pop(name, None)
            self._arrays.pop(name, None)
        self.inputs = [port for port in self.inputs if port.name not in gone]  # old files list initializers there too
        self.nodes = [node for node in self.nodes if not node.is_op("Constant") or used & set(node.outputs)]

    # ---- writing

    def to_bytes(self) -> bytes:
        """The model as a file; external data is in it. ValueError from 2 GiB on, which protobuf has no room for."""
        constants = {name: self._inlined(name) for name in self._tensors}
        constants.update({n: tensor_bytes(n, array) for n, array in self._arrays.items() if n not in self._tensors})
        graph = [_encode(1, node.to_bytes()) for node in self.nodes]
        graph += list(self._graph_rest)
        graph += [_encode(5, data) for data in constants.values()]
        graph += [_encode(11, port.data) for port in self.inputs] + [_encode(12, port.data) for port in self.outputs]
        opsets = [_encode(8, _encode(1, d) + _encode(2, version)) for d, version in self.opsets.items()]
        whole = b"".join([_encode(1, self.ir_version), *self._rest, _encode(7, b"".join(graph)), *opsets])
        if len(whole) >= 1 << 31:
            raise ValueError("the model has 2 GiB or more: more than an ONNX file holds without external data")
        return whole

    def _inlined(self, name: str) -> Bytes:
        data = self._tensors[name]
        return tensor_bytes(name, tensor_array(data, self.folder)[1]) if _all(data).get(14, [0])[-1] == 1 else data
