"""Resize that keeps the aspect ratio, against ONNX Runtime: extents are rounded, what is sampled by is not."""

import math
from fractions import Fraction

import numpy as np
import pytest
from onnx_family import Family
from other_python import python_with, run_python

SCRIPT = """
import numpy as np, onnx.parser, onnxruntime
import aipu

def model(policy, mode, coordinates, shape, sizes):
    extents = ",".join(map(str, shape))
    return onnx.parser.parse_model(f'''<ir_version: 8, opset_import: ["" : 19]>
g (float[{extents}] x) => (float[a,b,c,d] y) {{
  s = Constant<value_ints = [{sizes[0]},{sizes[1]}]>()
  y = Resize<mode = "{mode}", coordinate_transformation_mode = "{coordinates}",
             keep_aspect_ratio_policy = "{policy}", axes = [2,3]>(x, , , s)
}}''')

rng = np.random.default_rng(1)
for policy in ("not_larger", "not_smaller"):
    for mode, coordinates in (("linear", "half_pixel"), ("cubic", "asymmetric"), ("nearest", "half_pixel")):
        for shape, sizes in (((1, 2, 5, 7), (10, 12)), ((2, 1, 4, 9), (7, 7))):
            made = model(policy, mode, coordinates, shape, sizes)
            x = rng.standard_normal(shape).astype("f")
            session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
            expected = session.run(None, {"x": x})[0]
            aipu.build(made, "m.aipu.bin")
            found = aipu.load("m.aipu.bin").run({"x": x})["y"]
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=f"{policy} {mode} {shape} {sizes}")
"""


def test_aspect_ratio(tmp_path, monkeypatch):
    python = python_with("numpy, onnx.parser, onnxruntime")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    run_python(python, tmp_path / "script.py")


HALF = Fraction(1, 2)
PLACES = {
    "asymmetric": lambda at, size, count, scale: at / scale,
    "half_pixel": lambda at, size, count, scale: (at + HALF) / scale - HALF,
    "half_pixel_symmetric": lambda at, size, count, scale: (
        Fraction(size, 2) * (1 - count / (scale * size)) + (at + HALF) / scale - HALF
    ),
    "pytorch_half_pixel": lambda at, size, count, scale: (at + HALF) / scale - HALF if count > 1 else Fraction(0),
}
PIXELS = {
    "ceil": math.ceil,
    "floor": math.floor,
    "round_prefer_ceil": lambda place: math.floor(place + HALF),
    "round_prefer_floor": lambda place: math.ceil(place - HALF),
}


@pytest.mark.parametrize("coordinates", PLACES)
def test_nearest_pixels_are_those_of_exact_places(tmp_path, coordinates):
    """ONNX Runtime computes places in float32, ONNX's reference in float64: both miss pixels that exact numbers hit."""
    family = Family(opset=21)
    for size in (2, 3, 5, 7):
        for scale in np.array([0.5, 0.6, 0.75, 1.2, 1.5, 2, 3], np.float32):
            count = int(size * float(scale))
            x = np.arange(size, dtype=np.float32).reshape(1, 1, size)
            for nearest, pixel in PIXELS.items() if count else ():
                places = [PLACES[coordinates](Fraction(at), size, count, Fraction(float(scale))) for at in range(count)]
                chosen = [min(max(pixel(place), 0), size - 1) for place in places]
                family.add("Resize", [x, None, np.array([1, 1, scale], np.float32)], x[..., chosen], constants=[2],
                           mode="nearest", nearest_mode=nearest,
                           coordinate_transformation_mode=coordinates)  # fmt: skip
    family.check(tmp_path, backend="interp", target="host-baseline")


def lines(x, count, weights_at):
    """Rows of `x` resized to `count` by the weights of each place, in exact numbers."""
    size = x.shape[-1]
    made = []
    for at in range(count):
        place = (Fraction(at) + HALF) * Fraction(size, count) - HALF
        base = math.floor(place)
        taps = [(min(max(base + k, 0), size - 1), weight) for k, weight in weights_at(place - base)]
        made.append([sum(int(row[tap]) * weight for tap, weight in taps) for row in x.reshape(-1, size)])
    return np.array(made, object).T.reshape(*x.shape[:-1], count)


def keys_weight(distance, a=Fraction(-3, 4)):
    d = abs(distance)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else Fraction(0)


KERNELS = {
    "linear": lambda part: [(0, 1 - part), (1, part)],
    "cubic": lambda part: [(k, keys_weight(part - k)) for k in (-1, 0, 1, 2)],
}


@pytest.mark.parametrize("mode", KERNELS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_between_pixels(tmp_path, mode, dtype):
    """Rounded towards zero; what lies beyond the type, as a cubic curve does beside a step, is its last number."""
    family = Family(opset=19)
    limits = np.iinfo(dtype)
    random = np.random.default_rng(11)
    least, most = (limits.min, limits.max) if limits.bits < 64 else (-(2**31) * (limits.min < 0), 2**31)
    for count in (3, 7, 10, 14):
        x = random.integers(least, most, (1, 3, 7), dtype=dtype, endpoint=True)
        x[0, 0] = [most, most, least, least, most, least, most]
        x[0, 1] = 7
        exact = lines(x, count, KERNELS[mode])
        y = np.array([min(max(math.trunc(value), limits.min), limits.max) for value in exact.ravel()], dtype)
        family.add("Resize", [x, None, None, np.array([1, 3, count])], y.reshape(exact.shape), tolerance=0,
                   constants=[3], mode=mode)  # fmt: skip
    family.check(tmp_path)


def test_integers_as_onnx_runtime_has_them(tmp_path, monkeypatch):
    """Those of its types; a number on the edge between two may be either."""
    python = python_with("numpy, onnx.helper, onnxruntime")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(INTEGERS)
    run_python(python, tmp_path / "script.py")


INTEGERS = """
import numpy as np, onnx.helper as h, onnxruntime
import aipu

rng = np.random.default_rng(1)
for number, dtype in ((2, "uint8"), (3, "int8"), (6, "int32")):
    for antialias in (0, 1):
        x = rng.integers(0, 120, (1, 2, 9, 8)).astype(dtype)
        sizes = h.make_tensor("s", 7, [4], [1, 2, 5, 6])
        node = h.make_node("Resize", ["x", "", "", "s"], ["y"], mode="linear", antialias=antialias)
        graph = h.make_graph([node], "g", [h.make_tensor_value_info("x", number, x.shape)],
                             [h.make_tensor_value_info("y", number, None)], [sizes])
        made = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=8)
        session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        expected = session.run(None, {"x": x})[0]
        aipu.build(made, "m.aipu.bin")
        found = aipu.load("m.aipu.bin").run({"x": x})["y"]
        off = abs(found.astype(int) - expected.astype(int))
        assert found.dtype == expected.dtype and off.max() <= 1, (dtype, antialias, off)
        # ONNX Runtime rounds after each axis where it stretches filters.
        assert np.mean(off > 0) <= (0.3 if antialias else 0.05), (dtype, antialias, np.mean(off > 0))
"""
