"""Loops, scans and branches whose course and extents data decides, against ONNX Runtime."""

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model
from other_python import python_with, run_python

COMMON = """
import numpy as np, onnx.helper, onnx.parser, onnxruntime
from onnx import TensorProto
import aipu

rng = np.random.default_rng(5)
def floats(*shape):
    return rng.standard_normal(shape).astype("f")
def number(value):
    return np.array(value, np.int64)

def check(text, *feeds, rtol=1e-5):
    \"\"\"One conversion for all feeds, one session for all runs.\"\"\"
    check_model(onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 18]>\\n' + text), *feeds, rtol=rtol)

def check_model(model, *feeds, rtol=1e-5):
    names = [output.name for output in model.graph.output]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for target in ("host", "X2_1204", "X2_1204+host"):
        aipu.build(model, "m.aipu.bin", target=target)
        loaded = aipu.load("m.aipu.bin")
        for feed in feeds:
            found = loaded.run(feed)
            for name, expected in zip(names, session.run(names, feed)):
                assert found[name].shape == expected.shape and found[name].dtype == expected.dtype, (target, name)
                np.testing.assert_allclose(found[name], expected, rtol=rtol, atol=rtol, err_msg=f"{target} {name}")
"""

LSTM = """
I, H = 5, 8
weights = {name: floats(*shape) for name, shape in (("w", (I, 4 * H)), ("r", (H, 4 * H)), ("b", (4 * H,)))}
lstm = '''lstm (float[B,8] h0, float[B,8] c0, float[T,B,5] x, float[5,32] w, float[8,32] r, float[32] b)
    => (float[?,?] h, float[?,?] c, float[?,?,8] y) {
  h, c, y = Scan<num_scan_inputs = 1, body = step (float[B,8] h1, float[B,8] c1, float[B,5] xt)
      => (float[B,8] h2, float[B,8] c2, float[B,8] yt) {
    xw = MatMul(xt, w)
    hr = MatMul(h1, r)
    sum = Add(xw, hr)
    gates = Add(sum, b)
    i, o, f, g = Split<axis = 1, num_outputs = 4>(gates)
    si = Sigmoid(i)
    so = Sigmoid(o)
    sf = Sigmoid(f)
    tg = Tanh(g)
    kept = Mul(sf, c1)
    fresh = Mul(si, tg)
    c2 = Add(kept, fresh)
    tc = Tanh(c2)
    h2 = Mul(so, tc)
    yt = Identity(h2)
  }>(h0, c0, x)
}'''
check(lstm, *[{"h0": floats(n, H), "c0": floats(n, H), "x": floats(t, n, I), **weights}
              for t, n in ((6, 2), (1, 2), (31, 1), (6, 2))], rtol=1e-4)
"""

LOOPS = """
# ended by data, with a stacked result that grows
check('''doubling (int64 trips, float[2] x, float limit) => (float[2] last, float[?,2] all) {
  yes = Constant<value = bool {1}>()
  last, all = Loop(trips, yes, x) <body = body (int64 i, bool go, float[2] v)
      => (bool more, float[2] next, float[2] s) {
    next = Add(v, v)
    most = ReduceMax<keepdims = 0>(next)
    more = Less(most, limit)
    s = Identity(next)
  }>
}''', *[{"trips": number(trips), "x": np.array([1, 3], "f"), "limit": np.array(limit, "f")}
        for trips, limit in ((100, 1000), (3, 1000), (0, 1000), (100, 2))])

# a state that grows, nested
check('''growing (int64 trips, float[N] x) => (float[?] y) {
  yes = Constant<value = bool {1}>()
  one = Constant<value_floats = [1.0]>()
  y = Loop(trips, yes, x) <body = body (int64 i, bool go, float[?] v) => (bool on, float[?] w) {
    on = Identity(go)
    w = Loop(i, go, v) <body = inner (int64 j, bool go2, float[?] u) => (bool on2, float[?] u2) {
      on2 = Identity(go2)
      u2 = Concat<axis = 0>(u, one)
    }>
  }>
}''', *[{"trips": number(trips), "x": floats(n)} for trips, n in ((4, 2), (1, 1), (0, 2), (6, 1))])

# ten thousand trips
check('''steady (int64 trips, float[4] x, float[4] w) => (float[4] y) {
  yes = Constant<value = bool {1}>()
  y = Loop(trips, yes, x) <body = body (int64 i, bool go, float[4] v) => (bool on, float[4] next) {
    on = Identity(go)
    next = Add(v, w)
  }>
}''', {"trips": number(10000), "x": floats(4), "w": np.ones(4, "f")})
"""

DETECTOR = """
# the end of every torchvision detector: boxes that stay, if there are any worth it
text = '''detector (float[1,N,4] boxes, float[1,1,N] scores) => (float[?,4] kept, float[?] best) {
  least = Constant<value_float = 0.2>()
  overlap = Constant<value_float = 0.5>()
  most = Constant<value_ints = [30]>()
  zero = Constant<value_ints = [0]>()
  highest = ReduceMax<keepdims = 0>(scores)
  any = Greater(highest, least)
  index = If(any) <then_branch = some () => (int64[?] then_index) {
      chosen = NonMaxSuppression(boxes, scores, most, overlap, least)
      begin = Constant<value_ints = [2]>()
      end = Constant<value_ints = [3]>()
      axis = Constant<value_ints = [1]>()
      column = Slice(chosen, begin, end, axis)
      then_index = Squeeze(column, axis)
    }, else_branch = none () => (int64[?] else_index) {
      else_index = Constant<value = int64[0] {}>()
    }>
  flat = Squeeze(boxes, zero)
  axes = Constant<value_ints = [0, 1]>()
  line = Squeeze(scores, axes)
  kept = Gather(flat, index)
  best = Gather(line, index)
}'''
def some(count, height):
    corner = rng.uniform(0, 6, (1, count, 2)).astype("f")
    boxes = np.concatenate([corner, corner + rng.uniform(1, 3, (1, count, 2)).astype("f")], axis=2)
    return {"boxes": boxes, "scores": (height * rng.uniform(0.1, 1, (1, 1, count))).astype("f")}
check(text, some(20, 1), some(3, 1), some(20, 0.1), some(200, 1))
"""

# A number that stands for what cannot be computed (AffineGrid of depth 1): not what the If is.
NUMBERS = """
text = '''stepped (int64[1] depth) => (float[?] y) {
  zero = Constant<value = float {0}>()
  one = Constant<value = int64[1] {1}>()
  two = Constant<value = float {2}>()
  flag = Equal(depth, one)
  step = If(flag) <then_branch = yes () => (a) { a = Identity(zero) }, else_branch = no () => (b) {
    left = Sub(depth, one)
    count = Cast<to = 1>(left)
    b = Div(two, count)
  }>
  y = Add(step, two)
}'''
check(text, {"depth": np.array([4])})
try:
    aipu.load("m.aipu.bin").run({"depth": np.array([1])})
    raise AssertionError
except ValueError:
    pass
"""

# Slices whose extents the body tells, and then constants inside it.
SLICES = """
text = '''slices (float[N,3] x) => (float[N,?] y) {
  kept = Scan<num_scan_inputs = 1, body = step (float[3] row) => (float[?] some) {
    flags = Constant<value = bool[2] {0, 1}>()
    some = Compress<axis = 0>(row, flags)
  }>(x)
  same = Transpose<perm = [0, 1]>(kept)
  y = Concat<axis = -1>(x, same, kept)
}'''
check(text, *[{"x": floats(n, 3)} for n in (5, 1)])
check(text.replace("float[N,3] x", "float[5,3] x"), {"x": floats(5, 3)})
"""

# Scans of opset 8: of several examples, of which each may have a length; the last one from the end.
BATCHED = """
for lengths, directions in ((None, None), ((4, 2, 1), None), ((3, 4, 2), (1,))):
    F = TensorProto.FLOAT
    info = onnx.helper.make_tensor_value_info
    step = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["s", "x"], ["next"]), onnx.helper.make_node("Mul", ["next", "x"], ["y"])],
        "step", [info("s", F, [3]), info("x", F, [3])], [info("next", F, [3]), info("y", F, [3])])
    options = {} if directions is None else {"directions": directions}
    scan = onnx.helper.make_node("Scan", ["lengths" if lengths else "", "state", "rows"], ["last", "all"], body=step,
                                 num_scan_inputs=1, **options)
    inputs = [info("state", F, [3, 3]), info("rows", F, [3, 4, 3])]
    feed = {"state": floats(3, 3), "rows": floats(3, 4, 3)}
    if lengths:
        inputs.append(info("lengths", TensorProto.INT64, [3]))
        feed["lengths"] = np.array(lengths)
    graph = onnx.helper.make_graph([scan], "g", inputs, [info("last", F, [3, 3]), info("all", F, [3, 4, 3])])
    check_model(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 8)], ir_version=4), feed)
"""

# A carried value gets an axis with each iteration; how many there are has to be known.
CARRIED_RANKS = """
check('''ranks (float[3] x) => (y) {
  three = Constant<value = int64 {3}>()
  yes = Constant<value = bool {1}>()
  y = Loop(three, yes, x) <body = body (int64 i, bool go, v) => (bool more, next) {
    more = Identity(go)
    axis = Constant<value = int64[1] {0}>()
    next = Unsqueeze(v, axis)
  }>
}''', {"x": floats(3)})
"""

# A condition of one element, as the run turns out, and branches that may fail.
CONDITION = """
text = '''chosen (bool[F] flags, int64[1] at, float[3] x) => (float[?] y) {
  one = Constant<value = int64[1] {1}>()
  end = Add(at, one)
  flag = Slice(flags, at, end)
  y = If(flag) <then_branch = yes () => (float[?] a) { a = Gather(x, at) }, else_branch = no () => (float[?] b) {
    b = Neg(x)
  }>
}'''
flags = np.array([True, False])
check(text, *[{"flags": flags, "at": np.array([k]), "x": floats(3)} for k in (0, 1)])
"""

# Branches of different ranks, of which one hands on what there is (KNNImputer): taken, and the other one is an error.
RANKS = """
text = '''handed (float[2,3] x, float[4] z) => (float[2,3] y, float[4] w) {
  zero = Constant<value = float {0}>()
  total = ReduceSum<keepdims = 0>(x)
  flag = Greater(total, zero)
  y0, w = If(flag) <then_branch = yes () => (a, b) {
    at = Constant<value = int64[1,2] {0, 1}>()
    a = Gather<axis = 1>(x, at)
    b = Neg(z)
  }, else_branch = no () => (c, d) { c = Identity(x)
    d = Identity(z)
  }>
  y = Relu(y0)
}'''
x, z = np.array([[1, -2, 3], [-4, 5, -6]], "f"), floats(4)
check(text, {"x": x, "z": z})
for part in ("y", "w"):  # also where what differs is not asked for
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 18]>\\n' + text)
    kept = [output for output in model.graph.output if output.name == part]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    aipu.build(model, "m.aipu.bin")
    loaded = aipu.load("m.aipu.bin")
    loaded.run({"x": x, "z": z})
    try:
        loaded.run({"x": -x, "z": z})
    except ValueError as error:
        assert "1" in str(error), error
    else:
        raise AssertionError(part)
"""


def compare(tmp_path, monkeypatch, text):
    python = python_with("numpy, onnx, onnxruntime")
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(COMMON + text)
    run_python(python, script)


def test_an_lstm_by_scan(tmp_path, monkeypatch):
    compare(tmp_path, monkeypatch, LSTM)


def test_loops(tmp_path, monkeypatch):
    compare(tmp_path, monkeypatch, LOOPS)


def test_a_condition_of_told_extents(tmp_path, monkeypatch):
    compare(tmp_path, monkeypatch, CONDITION)


def test_branches_of_different_ranks(tmp_path, monkeypatch):
    compare(tmp_path, monkeypatch, RANKS)


def test_numbers_beside_a_branch(tmp_path, monkeypatch):
    compare(tmp_path, monkeypatch, NUMBERS)


def test_scans_of_a_batch(tmp_path, monkeypatch):
    compare(tmp_path, monkeypatch, BATCHED)


def test_loops_that_change_ranks(tmp_path, monkeypatch):
    compare(tmp_path, monkeypatch, CARRIED_RANKS)


def test_slices_of_told_extents(tmp_path, monkeypatch):
    compare(tmp_path, monkeypatch, SLICES)


def test_a_detector_s_branch(tmp_path, monkeypatch):
    compare(tmp_path, monkeypatch, DETECTOR)


def test_a_scan_that_has_lost_its_pass(tmp_path):
    """Slices along another axis than the first are not pieces of memory: refused, not read as if they were."""
    model = tmp_path / "m.onnx"
    attributes = {"update_rule": "linear", "q_num_heads": 1, "kv_num_heads": 1}
    operands = [(name, "float32", (3, 3, 4)) for name in ("q", "k", "v")]  # as many steps as samples
    steps = [node("LinearAttention", ["q", "k", "v"], ["y", "state"], **attributes)]
    write_model(model, steps, operands, [("y", "float32", (3, 3, 4))], opset=28)
    with pytest.raises(RuntimeError, match="scan_input_axes are not the first ones"):
        aipu.build(model, tmp_path / "m.aipu.bin", disabled_passes=["inline_control_flow"])
    x = np.eye(9, 4, dtype="f").reshape(3, 3, 4)
    found = aipu.load(aipu.build(model, tmp_path / "m.aipu.bin")["output"]).run({"q": x, "k": x, "v": x})["y"]
    state = np.einsum("bti,btj->btij", x, x).cumsum(1)
    np.testing.assert_allclose(found, np.einsum("bti,btij->btj", x, state) / 2, rtol=1e-5)
