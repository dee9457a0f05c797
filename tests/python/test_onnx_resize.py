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
