"""Element types that models store: conversions against a statement of the specification in NumPy, and how arrays of
them look."""

import itertools

import aipu
import numpy as np
import pytest
from onnx_text import Raw, element_type, node, write_model

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

# Bits of exponent and mantissa, bias, and what is no number: "nan" is the greatest magnitude, "ieee" the greatest
# exponent, "zero" -0.
FLOATS = {
    "float8e4m3fn": (4, 3, 7, "nan"),
    "float8e4m3fnuz": (4, 3, 8, "zero"),
    "float8e5m2": (5, 2, 15, "ieee"),
    "float8e5m2fnuz": (5, 2, 16, "zero"),
    "float6e2m3": (2, 3, 1, ""),
    "float6e3m2": (3, 2, 3, ""),
    "float4e2m1": (2, 1, 1, ""),
}
INTEGERS = {"int4": (4, True), "uint4": (4, False), "int2": (2, True), "uint2": (2, False)}
BITS = {name: 1 + sum(row[:2]) for name, row in FLOATS.items()}
BITS.update({name: bits for name, (bits, _) in INTEGERS.items()}, float8e8m0=8)


def magnitudes(name):
    """The values of all magnitudes as if every code were a number, and how many are."""
    exponent_bits, mantissa_bits, bias, special = FLOATS[name]
    values = []
    for code in range(1 << (exponent_bits + mantissa_bits)):
        exponent, mantissa = divmod(code, 1 << mantissa_bits)
        significand = mantissa / (1 << mantissa_bits) + (exponent > 0)
        values.append(significand * 2.0 ** (max(exponent, 1) - bias))
    numbers = {"nan": len(values) - 1, "ieee": ((1 << exponent_bits) - 1) << mantissa_bits}.get(special, len(values))
    values.append(values[-1] * 2 - values[-2])
    return np.array(values), numbers


def decoded(name):
    """float32 of each code."""
    if name == "float8e8m0":
        return np.append(2.0 ** (np.arange(255) - 127.0), np.nan).astype(np.float32)
    values, numbers = magnitudes(name)
    special = FLOATS[name][3]
    values = values[:-1].astype(np.float32)
    values[numbers:] = np.nan
    if special == "ieee":
        values[numbers] = np.inf
    negative = -values
    if special == "zero":
        negative[0] = np.nan
    return np.concatenate([values, negative])


def encoded(name, x, saturate=True):
    """The codes that ONNX's Cast gives; NaN as one of the type's own."""
    values, numbers = magnitudes(name)
    special = FLOATS[name][3]
    sign = 1 << (BITS[name] - 1)
    size = np.minimum(
        np.abs(np.nan_to_num(x.astype(np.float64), nan=0, posinf=1e300, neginf=1e300)), values[numbers] * 4
    )
    # the last one below, and whether the next one is nearer, or as near and even
    below = np.minimum(np.searchsorted(values[: numbers + 1], size, side="right") - 1, numbers)
    above = np.minimum(below + 1, numbers)
    middle = (values[below] + values[above]) / 2
    code = np.where((size > middle) | ((size == middle) & (below % 2 == 1)), above, below)
    beyond = code >= numbers
    to_greatest = saturate or special == ""
    overflow = {"nan": numbers, "ieee": numbers, "zero": sign}.get(special)
    code = np.where(beyond, numbers - 1 if to_greatest else overflow, code)
    if special == "zero":
        code = np.where(np.signbit(x) & (code > 0), code | sign, code)
    else:
        code = np.where(np.signbit(x), code | sign, code)
    nan = {"nan": numbers, "ieee": numbers + 2, "zero": sign}.get(special, sign)
    return np.where(np.isnan(x), nan, code).astype(np.uint8)


def encoded_power(x, saturate, round_mode):
    """The same for float8e8m0, of the magnitude."""
    size = np.abs(x.astype(np.float64))
    powers = 2.0 ** (np.arange(256) - 127.0)
    up = np.searchsorted(powers, size, side="left")
    down = np.maximum(np.searchsorted(powers, size, side="right") - 1, 0)
    middle = (powers[down] + powers[np.minimum(up, 255)]) / 2
    code = {"up": up, "down": down, "nearest": np.where(size >= middle, up, down)}[round_mode]
    code = np.where(size < powers[0], 0, code)
    code = np.where(np.isinf(x), 255, code)
    if saturate:
        code = np.minimum(code, 254)
    else:
        code = np.where((code > 254) | (size < powers[0]), 255, code)
    return np.where(np.isnan(x), 255, code).astype(np.uint8)


def interesting(values, dtype):
    """Values, the middles between them, the neighbours of both, and what is no number."""
    with np.errstate(over="ignore"):
        points = np.concatenate([values, (values[1:] + values[:-1]) / 2, values[-1:] * [1.5, 2, 1e3]]).astype(dtype)
        points = np.concatenate([points, np.nextafter(points, dtype(np.inf)), np.nextafter(points, dtype(0))])
    tiny = np.finfo(dtype).smallest_subnormal
    points = np.concatenate([points, [0, tiny, np.finfo(dtype).tiny, np.finfo(dtype).max, np.inf]]).astype(dtype)
    return np.concatenate([points, -points, np.array([np.nan], dtype)])


def same_codes(found, expected, name):
    """NaN is NaN, whichever its code."""
    values = decoded(name)
    found, expected = found.view(np.uint8), expected.view(np.uint8)
    nan = np.isnan(values[expected])
    np.testing.assert_array_equal(np.isnan(values[found]), nan)
    np.testing.assert_array_equal(found[~nan], expected[~nan])


def run(tmp_path, nodes, inputs, outputs, constants=None, **options):
    """``inputs``: name to (type, array); ``outputs``: name to (type, shape)."""
    path = tmp_path / "model.onnx"
    ins = [(name, dtype, array.shape) for name, (dtype, array) in inputs.items()]
    write_model(path, nodes, ins, [(name, *rest) for name, rest in outputs.items()], constants, opset=28)
    report = aipu.build(path, tmp_path / "model.aipu.bin", **options)
    return aipu.load(report["output"]).run({name: array for name, (_, array) in inputs.items()})


def cast(name, x, y, **attributes):
    return node("Cast", [x], [y], to=element_type(name), **attributes)


@pytest.mark.parametrize("target", ["host", "X2_1204"])
def test_every_code_and_its_neighbours(tmp_path, target):
    nodes, inputs, outputs, expected = [], {}, {}, {}
    sources = [np.float32, np.float64] if target == "host" else [np.float32]
    for name, source in itertools.product(FLOATS, sources):
        x = f"{name}_{source.__name__}"
        values, numbers = magnitudes(name)
        inputs[x] = (source.__name__, interesting(values[:numbers], source))
        for saturate in (0, 1):
            y = f"{x}_to_{saturate}"
            nodes.append(cast(name, x, y, saturate=saturate))
            outputs[y] = (name, inputs[x][1].shape)
            expected[y] = (name, encoded(name, inputs[x][1], bool(saturate)))
    values = np.append(2.0 ** (np.arange(255) - 127.0), [])
    points = interesting(values, np.float32)
    inputs["powers"] = ("float32", np.concatenate([points, points * np.float32(2.0**-120), points * np.float32(0.75)]))
    for saturate, mode in itertools.product((0, 1), ("up", "down", "nearest")):
        y = f"powers_{saturate}_{mode}"
        nodes.append(cast("float8e8m0", "powers", y, saturate=saturate, round_mode=mode))
        outputs[y] = ("float8e8m0", inputs["powers"][1].shape)
        expected[y] = ("float8e8m0", encoded_power(inputs["powers"][1], saturate, mode))
    back = {}
    for name in [*FLOATS, "float8e8m0"]:
        codes = np.arange(1 << BITS[name], dtype=np.uint8)
        inputs[f"{name}_codes"] = (name, codes)
        nodes.append(cast("float32", f"{name}_codes", f"{name}_back"))
        outputs[f"{name}_back"] = ("float32", codes.shape)
        back[f"{name}_back"] = decoded(name)
    found = run(tmp_path, nodes, inputs, outputs, target=target)
    for y, (name, codes) in expected.items():
        same_codes(found[y], codes, name)
    for y, values in back.items():
        np.testing.assert_array_equal(
            found[y].view(np.uint32)[~np.isnan(values)], values.view(np.uint32)[~np.isnan(values)], err_msg=y
        )
        np.testing.assert_array_equal(np.isnan(found[y]), np.isnan(values), err_msg=y)


def wrapped(values, name):
    bits, signed = INTEGERS[name]
    low = values.astype(np.int64) & ((1 << bits) - 1)
    return np.where(signed & (low >> (bits - 1) > 0), low - (1 << bits), low)


def test_integers_of_few_bits(tmp_path):
    nodes, inputs, outputs, expected = [], {}, {}, {}
    inputs["x"] = ("int8", np.arange(-128, 128).astype(np.int8)[:255])
    inputs["f"] = ("float32", np.arange(-20, 21).astype(np.float32) / 2)
    for name, (_, signed) in INTEGERS.items():
        for x in ("x", "f"):
            y = f"{x}_{name}"
            nodes += [cast(name, x, y), cast("int32", y, f"{y}_back")]
            outputs[y] = (name, inputs[x][1].shape)
            outputs[f"{y}_back"] = ("int32", inputs[x][1].shape)
            expected[y] = expected[f"{y}_back"] = wrapped(np.trunc(inputs[x][1]), name)
        inputs[name] = (name, wrapped(np.arange(35).reshape(5, 7), name).astype(np.int8 if signed else np.uint8))
        nodes += [cast("float16", name, f"{name}_half"), node("Transpose", [name], [f"{name}_turned"], perm=[1, 0])]
        outputs[f"{name}_half"] = ("float16", (5, 7))
        outputs[f"{name}_turned"] = (name, (7, 5))
        expected[f"{name}_half"] = inputs[name][1]
        expected[f"{name}_turned"] = inputs[name][1].T
    found = run(tmp_path, nodes, inputs, outputs)
    for y, values in expected.items():
        np.testing.assert_array_equal(found[y].astype(np.int64), values, err_msg=y)


def test_initializers_as_raw_data_and_as_lists(tmp_path):
    nodes, outputs, constants, expected = [], {}, {}, {}
    random = np.random.default_rng(3)
    for name, bits in BITS.items():
        codes = random.integers(0, 1 << bits, 5).astype(np.uint8)
        stream = "".join(format(code, f"0{bits}b")[::-1] for code in codes)
        packed = bytes(int(stream[k : k + 8].ljust(8, "0")[::-1], 2) for k in range(0, len(stream), 8))
        lists = list(codes) if bits in (6, 8) else list(packed)
        for kind, data in (("raw", packed), ("list", lists)):
            constants[f"{name}_{kind}"] = Raw(name, [5], data)
            nodes.append(cast("float32", f"{name}_{kind}", f"{name}_{kind}_y"))
            outputs[f"{name}_{kind}_y"] = ("float32", (5,))
            values = wrapped(codes, name).astype(np.float32) if name in INTEGERS else decoded(name)[codes]
            expected[f"{name}_{kind}_y"] = values
    found = run(tmp_path, nodes, {}, outputs, constants)
    for y, values in expected.items():
        np.testing.assert_array_equal(found[y], values, err_msg=y)


def test_matmul_of_weights_in_blocks(tmp_path):
    random = np.random.default_rng(5)
    x = random.standard_normal((3, 10)).astype(np.float32)
    weights, zeros = random.integers(0, 16, (10, 6)), random.integers(0, 16, (3, 6))
    scales = random.uniform(0.1, 1, (3, 6)).astype(np.float32)
    pairs = lambda codes: bytes(int(a) | int(b) << 4 for a, b in codes.reshape(-1, 2))
    nodes = [
        node("DequantizeLinear", ["w", "s", "z"], ["real"], axis=0, block_size=4),
        node("MatMul", ["x", "real"], ["y"]),
    ]
    constants = {"w": Raw("uint4", (10, 6), pairs(weights)), "s": scales, "z": Raw("uint4", (3, 6), pairs(zeros))}
    found = run(tmp_path, nodes, {"x": ("float32", x)}, {"y": ("float32", (3, 6))}, constants)["y"]
    blocks = np.arange(10) // 4
    np.testing.assert_allclose(found, x @ ((weights - zeros[blocks]) * scales[blocks]), rtol=1e-5, atol=1e-5)


def test_quantize_and_dequantize(tmp_path):
    random = np.random.default_rng(7)
    x = (random.standard_normal((2, 3, 5)) * 9).astype(np.float32)
    scale = np.array([0.5, 2, 1.5], np.float32)
    wide = scale.reshape(1, 3, 1)
    nodes, outputs, expected, constants = [], {}, {}, {"s": scale}
    for name in [n for n in FLOATS if n.startswith("float8")] + ["float4e2m1"]:
        nodes.append(node("QuantizeLinear", ["x", "s"], [f"{name}_q"], axis=1, output_dtype=element_type(name)))
        nodes.append(node("DequantizeLinear", [f"{name}_q", "s"], [f"{name}_d"], axis=-2))
        codes = encoded(name, x / wide)
        outputs[f"{name}_q"], outputs[f"{name}_d"] = (name, x.shape), ("float32", x.shape)
        expected[f"{name}_q"], expected[f"{name}_d"] = codes, decoded(name)[codes] * wide
    for name, (bits, signed) in INTEGERS.items():
        zero = np.array([1, 0, 1])
        constants[f"{name}_z"] = Raw(name, [3], bytes([0b010001 if bits == 2 else 1, *([1] if bits == 4 else [])]))
        nodes.append(node("QuantizeLinear", ["x", "s", f"{name}_z"], [f"{name}_q"], axis=1))
        nodes.append(node("DequantizeLinear", [f"{name}_q", "s", f"{name}_z"], [f"{name}_d"], axis=1))
        zero = zero.reshape(1, 3, 1)
        least = -(1 << (bits - 1)) if signed else 0
        q = np.clip(np.rint(x / wide) + zero, least, least + (1 << bits) - 1)
        outputs[f"{name}_q"], outputs[f"{name}_d"] = (name, x.shape), ("float32", x.shape)
        expected[f"{name}_q"], expected[f"{name}_d"] = q, ((q - zero) * wide).astype(np.float32)
    found = run(tmp_path, nodes, {"x": ("float32", x)}, outputs, constants)
    for y, values in expected.items():
        codes = found[y].view(np.int8 if y.startswith("int") else np.uint8) if y.endswith("_q") else found[y]
        np.testing.assert_array_equal(codes, values, err_msg=y)


@pytest.mark.parametrize("name", ["float8e5m2", "int4"])
def test_arrays(tmp_path, name):
    codes = np.array([1, 2, 3], np.int8 if name == "int4" else np.uint8)
    path = tmp_path / "model.onnx"
    write_model(path, [node("Identity", ["x"], ["y"])], [("x", name, ("N",))], [("y", name, ("N",))], opset=28)
    model = aipu.load(aipu.build(path, tmp_path / "model.aipu.bin")["output"])
    assert model.inputs[0].dtype == name and model.outputs[0].dtype == name
    np.testing.assert_array_equal(model.run({"x": codes})["y"].view(codes.dtype), codes)
    given = np.zeros(3, codes.dtype)
    assert model.run({"x": codes}, {"y": given})["y"] is given
    np.testing.assert_array_equal(given, codes)
    session = model.session()
    np.testing.assert_array_equal(session.submit({"x": codes}, {"y": given}).result()["y"], codes)
    np.testing.assert_array_equal(session.submit({"x": codes}).result()["y"].view(codes.dtype), codes)
    with pytest.raises(ValueError, match=f"expected {name}"):
        model.run({"x": codes.astype(np.float32)})
    with pytest.raises(ValueError, match="output 'y'"):
        model.run({"x": codes}, {"y": np.zeros(3, np.float32)})
    if ml_dtypes is None:
        pytest.skip("the package ml_dtypes is not there")
    own = codes.view(ml_dtypes.float8_e5m2 if name == "float8e5m2" else ml_dtypes.int4)
    found = model.run({"x": own})["y"]
    assert found.dtype == own.dtype
    np.testing.assert_array_equal(found.view(codes.dtype), codes)


def test_what_cannot_be_computed_is_refused(tmp_path):
    path = tmp_path / "model.onnx"
    write_model(
        path, [node("Add", ["x", "x"], ["y"])], [("x", "float8e5m2", (3,))], [("y", "float8e5m2", (3,))], opset=28
    )
    with pytest.raises(RuntimeError, match="Add.*y_node.*float8e5m2"):
        aipu.build(path, tmp_path / "model.aipu.bin")
