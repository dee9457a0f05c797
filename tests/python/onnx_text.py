"""ONNX models for tests, written without the package ``onnx``: just what the tests need of the format."""

import struct

import numpy as np

_TYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "object": 8,  # strings
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "complex64": 14,
    "bfloat16": 16,
    "float8e4m3fn": 17,
    "float8e4m3fnuz": 18,
    "float8e5m2": 19,
    "float8e5m2fnuz": 20,
    "uint4": 21,
    "int4": 22,
    "float4e2m1": 23,
    "float8e8m0": 24,
    "uint2": 25,
    "int2": 26,
    "float6e2m3": 27,
    "float6e3m2": 28,
}


def _varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def _field(number, value):
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _attribute(name, value):
    if isinstance(value, (list, tuple)):
        number, code = {int: (8, 7), float: (7, 6), str: (9, 8)}[type(value[0])]
        return _field(1, name) + b"".join(_field(number, v) for v in value) + _field(20, code)
    number, code = {int: (3, 2), float: (2, 1), str: (4, 3)}[type(value)]
    return _field(1, name) + _field(number, value) + _field(20, code)


def node(op, inputs, outputs, domain="", **attributes):
    """A node; an empty name is an operand that is left out."""
    parts = [_field(1, i) for i in inputs] + [_field(2, o) for o in outputs]
    parts += [_field(3, outputs[0] + "_node"), _field(4, op), _field(7, domain)]
    parts += [_field(5, _attribute(name, value)) for name, value in attributes.items()]
    return b"".join(parts)


class MapType:
    """The type of a value that is a map from keys to values of these types, or with ``many`` a sequence of such."""

    def __init__(self, key, value, many=False):
        self.key, self.value, self.many = key, value, many

    def encoded(self):
        value = _field(1, _field(1, _TYPES[self.value]) + _field(2, b""))
        kind = _field(5, _field(1, _TYPES[self.key]) + _field(2, value))
        return _field(4, _field(1, kind)) if self.many else kind


class SequenceType:
    """The type of a value that is a sequence of tensors."""

    def __init__(self, dtype, shape):
        self.dtype, self.shape = dtype, shape

    def encoded(self):
        return _field(4, _field(1, _tensor_type(self.dtype, self.shape)))


def _tensor_type(dtype, shape):
    dims = b"".join(_field(1, _field(1, d) if isinstance(d, int) else _field(2, d)) for d in shape)
    return _field(1, _field(1, _TYPES[dtype]) + _field(2, dims))


def _value(name, dtype, shape):
    if isinstance(dtype, (MapType, SequenceType)):
        return _field(1, name) + _field(2, dtype.encoded())
    return _field(1, name) + _field(2, _tensor_type(dtype, shape))


class Raw:
    """An initializer by its type, its shape, and the bytes of raw_data, or the elements of int32_data."""

    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, shape, data


def element_type(name):
    """ONNX's number of an element type."""
    return _TYPES[name]


def _raw_tensor(name, raw):
    dims = b"".join(_field(1, int(d)) for d in raw.shape)
    is_raw = isinstance(raw.data, bytes)
    data = _field(9, raw.data) if is_raw else b"".join(_field(5, int(element)) for element in raw.data)
    return dims + _field(2, _TYPES[raw.dtype]) + _field(8, name) + data


def _tensor(name, array):
    if isinstance(array, Raw):
        return _raw_tensor(name, array)
    array = np.asarray(array, order="C")
    dims = b"".join(_field(1, int(d)) for d in array.shape)
    if array.dtype == object:
        return dims + _field(2, 8) + b"".join(_field(6, text) for text in array.flat) + _field(8, name)
    return dims + _field(2, _TYPES[str(array.dtype)]) + _field(8, name) + _field(9, array.tobytes())


def write_model(path, nodes, inputs, outputs, constants=None, opset=17, ml_opset=3):
    """``inputs`` and ``outputs``: name, type, shape of each; ``constants``: arrays by name."""
    graph = [_field(1, n) for n in nodes] + [_field(2, "g")]
    graph += [_field(5, _tensor(name, array)) for name, array in (constants or {}).items()]
    graph += [_field(11, _value(*i)) for i in inputs] + [_field(12, _value(*o)) for o in outputs]
    domains = [("", opset), ("ai.onnx.ml", ml_opset)]
    others = ("example", "com.microsoft", "ai.onnx.preview", "ai.onnx.preview.training")
    domains += [(domain, 1) for domain in others]
    opsets = [_field(8, _field(1, domain) + _field(2, version)) for domain, version in domains]
    with open(path, "wb") as file:
        file.write(_field(1, 8) + _field(7, b"".join(graph)) + b"".join(opsets))
