"""Operators of com.microsoft that few models have, against ONNX Runtime, and what is refused by name."""

import pytest
from other_python import python_with, run_python

COMMON = """
import sys
import numpy as np, onnxruntime
from onnx import helper
import aipu

BACKEND = sys.argv[1]
rng = np.random.default_rng(7)
DOMAIN = "com.microsoft"

def model(kind, operands, outputs, domain=DOMAIN, open_axes=(), **attributes):
    '''Operands by name, None where one is left out; outputs with their types.'''
    given = {name: array for name, array in operands.items() if array is not None}
    node = helper.make_node(kind, [name if name in given else "" for name in operands], list(outputs), "it",
                            domain=domain, **attributes)
    def typed(name, array):
        shape = [f"{name}_{axis}" if name in open_axes else extent for axis, extent in enumerate(array.shape)]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)
    inputs = [typed(*item) for item in given.items()]
    results = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items() if name]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(domain, 1)]
    return helper.make_model(helper.make_graph([node], "g", inputs, results), opset_imports=opsets, ir_version=8), given

def check(kind, operands, outputs, tolerance=1e-5, **options):
    made, feed = model(kind, operands, outputs, **options)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    theirs = dict(zip([one.name for one in session.get_outputs()], session.run(None, feed)))
    aipu.build(made, "m.aipu.bin")
    mine = aipu.load("m.aipu.bin", backend=BACKEND).run(feed)
    for name, wanted in theirs.items():
        assert mine[name].dtype == wanted.dtype and mine[name].shape == wanted.shape, name
        np.testing.assert_allclose(mine[name].astype(np.float64), wanted.astype(np.float64), rtol=tolerance,
                                   atol=tolerance, err_msg=name)

def error(*arguments, **options):
    try:
        aipu.build(model(*arguments, **options)[0], "m.aipu.bin")
    except (RuntimeError, ValueError) as error:
        return str(error)
    return "converted"
"""

# blocks of GGUF: number of the type, elements, bytes, where the halves of a block are
PACKED_ROWS = """
FORMS = [(0, 1, 4, ()), (1, 1, 2, ()), (30, 1, 2, ()), (2, 32, 18, (0,)), (6, 32, 22, (0,)), (8, 32, 34, (0,)),
         (13, 256, 176, (0, 2)), (14, 256, 210, (208,)), (20, 32, 18, (0,)), (23, 256, 136, (0,))]
for kind, elements, size, halves in FORMS:
    blocks, rows = 512 // elements, 5
    table = rng.integers(0, 256, (rows, blocks, size)).astype(np.uint8)
    if elements == 1:
        table[..., -1] = table[..., -1] & 0xBF  # no NaN, nothing huge
    for at in halves:
        table[..., at:at + 2] = rng.standard_normal((rows, blocks, 1)).astype(np.float16).view(np.uint8)
    table = table.reshape(rows, -1)
    places = np.array([[0, 4, 2], [-1, 5, 3]])
    attributes = {"packed_type": kind, "K": 512}
    check("GatherPacked", {"table": table, "places": places}, {"y": 1}, output_dtype=1, open_axes=["places"],
          **attributes)
    check("GatherPacked", {"table": table, "places": places.astype(np.int32)[0]}, {"y": 10}, output_dtype=10,
          tolerance=1e-3, **attributes)
said = error("GatherPacked", {"table": np.zeros((2, 66), np.uint8), "places": places}, {"y": 1}, packed_type=16, K=256)
assert "packed_type 16 is not supported" in said and "'it'" in said, said
"""

ATTENTION_LSTM = """
STEPS, BATCH, INPUTS, HIDDEN, PLACES, DEPTH, QUERY = 5, 3, 4, 6, 7, 5, 3

def weights(*shape):
    return (rng.standard_normal(shape) * 0.5).astype(np.float32)

def lstm(directions=1, attention=0, **more):
    width = attention or DEPTH
    operands = {"x": weights(STEPS, BATCH, INPUTS), "w": weights(directions, 4 * HIDDEN, INPUTS + width),
                "r": weights(directions, 4 * HIDDEN, HIDDEN), "b": weights(directions, 8 * HIDDEN), "lengths": None,
                "h": None, "c": None, "p": None, "qw": weights(directions, HIDDEN, QUERY),
                "mw": weights(directions, DEPTH, QUERY), "v": weights(directions, QUERY),
                "memory": weights(BATCH, PLACES, DEPTH), "places": None, "aw": None}
    if attention:
        operands["aw"] = weights(directions, DEPTH + HIDDEN, attention)
    operands |= {name: array for name, array in more.items() if name in operands}
    names = {name: value for name, value in more.items() if name not in operands}
    check("AttnLSTM", operands, {"y": 1, "y_h": 1, "y_c": 1}, hidden_size=HIDDEN, **names)

lengths = np.array([5, 2, 3], np.int32)
places = np.array([7, 1, 4], np.int32)
lstm(attention=6)
lstm(attention=6, lengths=lengths, places=places, direction="reverse")
lstm(2, attention=6, lengths=lengths, places=places, direction="bidirectional", h=weights(2, BATCH, HIDDEN),
     c=weights(2, BATCH, HIDDEN), p=weights(2, 3 * HIDDEN))
lstm(attention=0, places=places, b=None, open_axes=["x", "memory"])
"""

REFUSED = """
x = {"x": np.zeros((2, 3), np.float32)}
for domain, kind, texts in (
        ("com.microsoft.nchwc", "Conv", ("for one machine", "ORT_ENABLE_EXTENDED")),
        ("com.ms.internal.nhwc", "Conv", ("within a session", "ORT_ENABLE_EXTENDED")),
        ("com.microsoft.experimental", "Frobnicate", ("tries out",)),
        ("com.microsoft.mlfeaturizers", "StringTransformer", ("no longer",)),
        (DOMAIN, "PagedAttention", ("CPU provider does not have it",)),
        (DOMAIN, "QOrderedMatMul", ("CPU provider does not have it",)),
        (DOMAIN, "EPContext", ("compiled for one accelerator",))):
    said = error(kind, x, {"y": 1}, domain=domain)
    assert all(text in said for text in texts) and "'it'" in said and "plugin" not in said, said
    assert "\\n" not in said and f"{domain}::{kind}" in said, said

# a model that says itself what such an operator is
made, feed = model("GemmFloat8", {"x": np.array([1.5, -2], np.float32)}, {"y": 1})
function = helper.make_function(DOMAIN, "GemmFloat8", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])],
                                [helper.make_opsetid("", 18)])
made.functions.append(function)
aipu.build(made, "m.aipu.bin")
np.testing.assert_array_equal(aipu.load("m.aipu.bin", backend=BACKEND).run(feed)["y"], [-1.5, 2])
"""


@pytest.mark.parametrize(
    "script", [PACKED_ROWS, ATTENTION_LSTM, REFUSED], ids=["packed_rows", "attention_lstm", "refused"]
)
def test_beside_onnx_runtime(tmp_path, monkeypatch, interpreted, script):
    (tmp_path / "script.py").write_text(COMMON + script)
    monkeypatch.chdir(tmp_path)
    run_python(python_with("onnxruntime, onnx"), tmp_path / "script.py", interpreted)
