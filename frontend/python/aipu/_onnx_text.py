"""What the Python package itself reads of an ONNX file: names, types, metadata, and which files hold its weights.

A reader of protobuf's wire format for a few fields of ``onnx.proto``; the importer reads all of it, in C++.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

Bytes = Union[bytes, memoryview]

# Numbers of fields in onnx.proto.
_MODEL = {"producer_name": 2, "domain": 4, "version": 5, "description": 6}
_MODEL_GRAPH, _MODEL_METADATA = 7, 14
_GRAPH_NODE, _GRAPH_NAME, _GRAPH_INITIALIZER, _GRAPH_DOC, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 2, 5, 10, 11, 12
_NODE_ATTRIBUTE = 5
_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH, _ATTRIBUTE_TENSORS, _ATTRIBUTE_GRAPHS = 5, 6, 10, 11
_TENSOR_NAME, _TENSOR_EXTERNAL = 8, 13


class Value(NamedTuple):
    """An input or output: an extent is a number, the name of a symbol, or None."""

    name: str
    shape: Tuple[Union[int, str, None], ...]


@dataclasses.dataclass
class ModelText:
    """What a model says about itself."""

    producer_name: str = ""
    domain: str = ""
    version: Optional[int] = None  # None: the file does not say
    description: str = ""
    graph_name: str = ""
    graph_description: str = ""
    metadata: Dict[str, str] = dataclasses.field(default_factory=dict)
    inputs: List[Value] = dataclasses.field(default_factory=list)  # initializers are none
    outputs: List[Value] = dataclasses.field(default_factory=list)


def _varint(data: Bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("no protobuf")


def _fields(data: Bytes) -> Iterator[Tuple[int, Union[int, memoryview]]]:
    """Number and value of each field; those of 4 or 8 fixed bytes as bytes. ValueError if it is no protobuf."""
    data, at = memoryview(data), 0
    try:
        while at < len(data):
            tag, at = _varint(data, at)
            kind = tag & 7
            if kind == 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
                continue
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                if kind != 2:
                    raise ValueError("no protobuf")
                size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("no protobuf")
            yield tag >> 3, data[at : at + size]
            at += size
    except IndexError:
        raise ValueError("no protobuf") from None


def _text(value: Union[int, memoryview]) -> str:
    return bytes(value).decode("utf-8", "replace") if isinstance(value, memoryview) else ""


def _parts(data: Union[int, memoryview], number: int) -> Iterator[memoryview]:
    if isinstance(data, memoryview):
        yield from (value for key, value in _fields(data) if key == number and isinstance(value, memoryview))


def _extent(dimension: memoryview) -> Union[int, str, None]:
    extent: Union[int, str, None] = None
    for number, value in _fields(dimension):
        if number == 1 and isinstance(value, int):
            extent = value if value < 1 << 63 else None
        elif number == 2:
            extent = _text(value) or None
    return extent


def _value(data: memoryview) -> Value:
    name, shape = "", []
    for number, value in _fields(data):
        if number == 1:
            name = _text(value)
        elif number == 2:  # type: tensor_type: shape: dim
            for tensor in _parts(value, 1):
                for dimensions in _parts(tensor, 2):
                    shape = [_extent(dimension) for dimension in _parts(dimensions, 1)]
    return Value(name, tuple(shape))


def _entry(data: memoryview) -> Tuple[str, str]:
    """A StringStringEntryProto."""
    found = {number: _text(value) for number, value in _fields(data)}
    return found.get(1, ""), found.get(2, "")


def read(data: Bytes) -> ModelText:
    """What a serialized ModelProto says about itself; ValueError if it is none."""
    result = ModelText()
    texts = {number: name for name, number in _MODEL.items()}
    graphs: List[memoryview] = []  # one; of a message that comes twice, protobuf takes what is in both
    for number, value in _fields(data):
        if number in texts:
            setattr(result, texts[number], value if isinstance(value, int) else _text(value))
        elif number == _MODEL_METADATA and isinstance(value, memoryview):
            key, text = _entry(value)
            result.metadata[key] = text
        elif number == _MODEL_GRAPH and isinstance(value, memoryview):
            graphs.append(value)
    if not graphs:
        raise ValueError("no ONNX model: it has no graph")
    initializers: Set[str] = set()
    for number, value in itertools.chain.from_iterable(map(_fields, graphs)):
        if number == _GRAPH_NAME:
            result.graph_name = _text(value)
        elif number == _GRAPH_DOC:
            result.graph_description = _text(value)
        elif number == _GRAPH_INPUT and isinstance(value, memoryview):
            result.inputs.append(_value(value))
        elif number == _GRAPH_OUTPUT and isinstance(value, memoryview):
            result.outputs.append(_value(value))
        elif number == _GRAPH_INITIALIZER and isinstance(value, memoryview):
            initializers.update(_text(name) for name in _parts(value, _TENSOR_NAME))
    result.inputs = [value for value in result.inputs if value.name not in initializers]
    return result


def external_files(data: Bytes) -> List[str]:
    """Where the weights are that the file does not hold itself: names relative to its folder, sorted."""
    found: Set[str] = set()

    def tensor(value: memoryview) -> None:
        for part in _parts(value, _TENSOR_EXTERNAL):
            key, location = _entry(part)
            if key == "location":
                found.add(location)

    def graph(value: memoryview) -> None:
        for part in _parts(value, _GRAPH_INITIALIZER):
            tensor(part)
        for node in _parts(value, _GRAPH_NODE):
            for attribute in _parts(node, _NODE_ATTRIBUTE):
                for number, part in _fields(attribute):
                    if number in (_ATTRIBUTE_TENSOR, _ATTRIBUTE_TENSORS) and isinstance(part, memoryview):
                        tensor(part)
                    elif number in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS) and isinstance(part, memoryview):
                        graph(part)

    for part in _parts(memoryview(data), _MODEL_GRAPH):
        graph(part)
    return sorted(os.path.normpath(name) for name in found)
