"""onnx.ModelProto objects, and aipu.backend by ONNX's own test runner; where a Python with onnx is at hand."""

import os
import pathlib
import subprocess
import sys

import pytest
from other_python import python_with, run_python

SOURCE = pathlib.Path(os.environ.get("AIPU_SOURCE_DIR", pathlib.Path(__file__).parents[2]))

RUNNER = """
import json, pathlib, random, sys, unittest, warnings
warnings.simplefilter("ignore")
import onnx.backend.test
import aipu.backend

seed, count = int(sys.argv[1]), int(sys.argv[2])
contradictions = set(sys.argv[3:])
cases = onnx.backend.test.BackendTest(aipu.backend, "aipu_backend_test").test_cases
nodes = sorted(
    (name, case) for kind, case in cases.items() if kind == "OnnxBackendNodeModelTest"
    for name in dir(case) if name.startswith("test_") and name.endswith("_cpu")
)
nodes = [(name, case) for name, case in nodes if name[: -len("_cpu")] not in contradictions]
suite = unittest.TestSuite(case(name) for name, case in random.Random(seed).sample(nodes, min(count, len(nodes))))
result = unittest.TextTestRunner(verbosity=0, stream=open("runner.txt", "w")).run(suite)
print(json.dumps({
    "of": len(nodes), "run": result.testsRun,
    "wrong": [[str(case), text] for case, text in result.failures],
    "refused": [[str(case).split()[0], text.strip().splitlines()[-1]] for case, text in result.errors],
    "skipped": len(result.skipped),
}))
"""


def test_sample_of_the_backend_tests(tmp_path):
    """No wrong result; what does not convert is refused in one line. AIPU_LARGE_TESTS runs all."""
    import json

    python = python_with("numpy, onnx.helper")
    contradictions = [
        line.split()[0]
        for line in (SOURCE / "tests/onnx/contradictions.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    contradictions.append("test_dft_inverse")  # as _opset19; libonnx-testdata's case of the name has exact numbers
    (tmp_path / "runner.py").write_text(RUNNER)
    seed = os.environ.get("AIPU_TEST_SEED", "5")
    count = 1_000_000 if os.environ.get("AIPU_LARGE_TESTS") else 60
    told = json.loads(run_python(python, "runner.py", seed, count, *contradictions, timeout=3000))
    assert told["run"] == min(count, told["of"]) and told["of"] > 1000
    assert told["wrong"] == []
    kinds = {line.split(":")[0] for _, line in told["refused"]}
    assert kinds <= {"RuntimeError", "ValueError"}, told["refused"]
    passed = told["run"] - len(told["refused"]) - told["skipped"]
    assert passed >= 0.6 * told["run"], told["refused"]


SCRIPT = """
import numpy as np, onnx, onnx.helper as h
import aipu, aipu.backend, aipu.onnxruntime as ort

F = onnx.TensorProto.FLOAT
graph = h.make_graph([h.make_node("Relu", ["x"], ["y"])], "g", [h.make_tensor_value_info("x", F, ["n", 2])],
                     [h.make_tensor_value_info("y", F, ["n", 2])])
model = h.make_model(graph, producer_name="me", opset_imports=[h.make_opsetid("", 17)])
model.metadata_props.add(key="author", value="somebody")
model.doc_string, model.model_version = "what it does", 3
x = np.array([[-1, 2]], "f")

aipu.build(model, "m.aipu.bin")
np.testing.assert_array_equal(aipu.load("m.aipu.bin").run({"x": x})["y"], [[0, 2]])
session = ort.InferenceSession(model)
np.testing.assert_array_equal(session.run(None, {"x": x})[0], [[0, 2]])
meta = session.get_modelmeta()
assert (meta.producer_name, meta.version, meta.description) == ("me", 3, "what it does"), meta
assert meta.custom_metadata_map == {"author": "somebody"}

for device in ("CPU", "X2_1204"):
    prepared = aipu.backend.prepare(model, device)
    outputs = prepared.run([x])
    np.testing.assert_array_equal(outputs[0], [[0, 2]])
    np.testing.assert_array_equal(outputs.y, prepared.run({"x": x}).y)
np.testing.assert_array_equal(aipu.backend.run_model(model, x)[0], [[0, 2]])
total, = aipu.backend.run_node(h.make_node("Add", ["a", "b"], ["c"]), [x, x])
np.testing.assert_array_equal(total, 2 * x)
square, = aipu.backend.run_node(h.make_node("Mul", ["a", "a"], ["c"]), [x, x])
np.testing.assert_array_equal(square, x * x)
size, = aipu.backend.run_node(h.make_node("Shape", ["a"], ["s"]), [x], outputs_info=[(np.int64, (2,))])
assert size.tolist() == [1, 2]
assert aipu.backend.supports_device("CPU") and not aipu.backend.supports_device("CUDA")
assert aipu.backend.is_compatible(model)
unknown = h.make_model(h.make_graph([h.make_node("NoSuchOp", ["x"], ["y"], domain="example", name="here")], "g",
                       graph.input, graph.output), opset_imports=[h.make_opsetid("", 17), h.make_opsetid("example", 1)])
assert not aipu.backend.is_compatible(unknown)
for call in (lambda: aipu.backend.prepare(unknown), lambda: ort.InferenceSession(unknown)):
    try:
        call()
    except RuntimeError as error:
        assert "here" in str(error) and "/proc/" not in str(error), error
    else:
        raise AssertionError
try:
    prepared.run([x, x])
except ValueError as error:
    assert "1 inputs, found 2" in str(error)
else:
    raise AssertionError
"""


def test_model_protos(tmp_path):
    python = python_with("numpy, onnx.helper")
    (tmp_path / "script.py").write_text(SCRIPT)
    run_python(python, "script.py")


def test_without_onnx():
    """The module says what it needs; the package does not need it."""
    script = "import sys; sys.modules['onnx'] = None\nimport aipu\nimport aipu.backend"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "ImportError: aipu.backend needs the package onnx" in done.stderr


def test_models_in_memory_need_a_name_for_the_result():
    import aipu

    with pytest.raises(TypeError, match="output"):
        aipu.build(b"abc")
    with pytest.raises(TypeError, match="found float"):
        aipu.build(1.5, "m.aipu.bin")
