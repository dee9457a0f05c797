"""Resize that keeps the aspect ratio, against ONNX Runtime: extents are rounded, what is sampled by is not."""

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
