"""Attention of com.microsoft whose keys and values are written into buffers (those that past and present share, beams
of such, windows), against ONNX Runtime and, where it has no kernel, NumPy."""

import aipu
import numpy as np
from onnx_family import softmax
from onnx_text import node, write_model
from other_python import python_with, run_python

COMMON = """
import numpy as np, onnx, onnxruntime
from onnx import helper
import aipu

rng = np.random.default_rng(21)
def floats(*shape):
    return rng.standard_normal(shape).astype("f")
def ints(*elements):
    return np.array(elements, np.int32)

class Cases:
    '''Nodes with operands of their own, all in one model.'''
    def __init__(self):
        self.nodes, self.feed, self.outputs = [], {}, []

    def add(self, op, operands, outputs, **attributes):
        k = len(self.nodes)
        names = ["" if array is None else f"{op}_{k}_in{i}" for i, array in enumerate(operands)]
        self.feed |= {name: array for name, array in zip(names, operands) if name}
        results = [name and f"{op}_{k}_{name}" for name in outputs.split(",")]
        self.outputs += [name for name in results if name]
        self.nodes.append(helper.make_node(op, names, results, f"{op}_{k}", domain="com.microsoft", **attributes))

    def expected(self):
        '''What ONNX Runtime gives.'''
        def typed(name, array):
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        # ONNX Runtime takes scores for float16 where nobody says what they are.
        outputs = [helper.make_tensor_value_info(name, 1, None) if name.endswith("scores")
                   else onnx.ValueInfoProto(name=name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "g", [typed(*item) for item in self.feed.items()], outputs)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        self.model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        session = onnxruntime.InferenceSession(self.model.SerializeToString(), providers=["CPUExecutionProvider"])
        return dict(zip(self.outputs, session.run(self.outputs, self.feed)))

    def check(self, tolerance=2e-5):
        expected = self.expected()
        aipu.build(self.model, "m.aipu.bin")
        found = aipu.load("m.aipu.bin").run(self.feed)
        for name, array in expected.items():
            assert found[name].shape == array.shape and found[name].dtype == array.dtype, name
            np.testing.assert_allclose(found[name], array, rtol=tolerance, atol=tolerance, err_msg=name)
"""

SHARED = """
B, W, H, D, M, past = 6, 3, 2, 4, 8, 3
q, k, v, bias = *floats(3, B, 1, H * D), floats(3 * H * D)
keys, values = floats(2, B, H, M, D)
mask, added = rng.integers(0, 2, (B, past + 1)).astype("i"), floats(B, H, 1, past + 1)
beams = rng.integers(0, W, (B // W, W, M)).astype("i")
cases = Cases()
one_query = {"num_heads": H, "past_present_share_buffer": 1, "output_qk": 1}
for m in (None, mask):
    for b in (None, bias):
        for more in ([None, None], [ints(W), beams]):
            cases.add("DecoderMaskedMultiHeadAttention", [q, k, v, m, None, keys, values, ints(past), *more, b],
                      "y,keys,values,scores", **one_query, mask_filter_value=-100.0)
cases.add("DecoderMaskedMultiHeadAttention", [q, k, v, mask, added, keys, values, ints(past)],
          "y,keys,values,scores", **one_query, mask_filter_value=-100.0, scale=0.3)
cases.add("DecoderMaskedMultiHeadAttention", [q, k, v, None, None, keys, values, ints(0)], "y,keys,values",
          **one_query)
cases.add("DecoderMaskedMultiHeadAttention", [q, k, v, None, None, keys, values, ints(M - 1)], "y,keys,values",
          **one_query)
# of an encoder
cases.add("DecoderMaskedMultiHeadAttention", [q, keys, values], "y", num_heads=H)
cases.add("DecoderMaskedMultiHeadAttention",
          [q, keys, values, rng.integers(0, 2, (B, M)).astype("i"), None, None, None, None, ints(W), beams, bias],
          "y,,,scores", num_heads=H, output_qk=1, mask_filter_value=-100.0)
for queries in (1, 3):
    q, k, v = floats(3, B, queries, H * D)
    for directed in (0, 1):
        for more in ([], [beams]):
            if more and queries > 1:
                continue
            cases.add("MultiHeadAttention", [q, k, v, bias, None, None, keys, values, ints(past), *more],
                      "y,keys,values", num_heads=H, unidirectional=directed)
# lengths, then where sentences begin, which those of fixed length do not look at
q, k, v = floats(3, 2, 3, H * D)
cases.add("MultiHeadAttention", [q, k, v, None, ints(3, 2, 0, 3, 6, 0, 3, 6)], "y", num_heads=H)
cases.check()
"""

WINDOWS = """
H, KEY_HEADS, D = 4, 2, 32

def steps(capacity, window, lengths, rotary=False, bias=False, bits=0, **attributes):
    '''One conversion for all steps: the caches that each gives are those of the next.'''
    dtype = {0: np.float32, 8: np.int8, 4: np.uint8}[bits]
    caches = [np.zeros((len(lengths[0][1]), KEY_HEADS, capacity, D // 2 if bits == 4 else D), dtype)] * 2
    options = {"num_heads": H, "kv_num_heads": KEY_HEADS, "sliding_window_cache": 1, "local_window_size": window,
               "do_rotary": int(rotary), **attributes}
    if bits:
        kind = "PER_CHANNEL" if bits == 4 else "PER_TENSOR"
        options |= {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
    turns = [np.cos(floats(40, D // 2)), np.sin(floats(40, D // 2))] if rotary else [None, None]
    shape = [1, KEY_HEADS, 1, D] if bits == 4 else [1]
    scales = abs(floats(2, *shape)) * 4 / 2 ** max(bits - 1, 0) + np.float32(0.01)
    total = np.array(lengths[0][1]) * 0
    padded = any(count != rows for rows, counts in lengths for count in counts)
    model = None
    for rows, counts in lengths:
        total = total + counts
        batch = len(counts)
        q, k, v = floats(batch, rows, H * D), *floats(2, batch, rows, KEY_HEADS * D)
        operands = [q, k, v, *caches, (total - 1).astype("i"), np.array(total.max() + padded, np.int32), *turns, None,
                    floats(1, H, rows, total.max() + padded) if bias else None, None,
                    *(scales if bits else [None, None]), None, None, ints(*counts) if padded else None]
        while operands[-1] is None:
            operands.pop()
        cases = Cases()
        cases.add("GroupQueryAttention", operands, "y,keys,values", **options)
        expected = list(cases.expected().values())
        if model is None:
            for value in cases.model.graph.input:
                extents = value.type.tensor_type.shape.dim
                if value.name.endswith(("_in0", "_in1", "_in2")):
                    extents[1].dim_param = "rows"
                if value.name.endswith("_in10"):
                    extents[2].dim_param, extents[3].dim_param = "rows", "total"
            aipu.build(cases.model, "m.aipu.bin")
            model = aipu.load("m.aipu.bin", backend="interp")
        feed = cases.feed
        for name in feed:  # rows that nobody has written
            if name.endswith(("_in3", "_in4")) and not bits:
                feed[name] = feed[name].copy()
                for b, count in enumerate(kept(total - counts, capacity, window)):
                    feed[name][b, :, count:] = np.nan
        found = list(model.run(feed).values())
        for b, (count, there) in enumerate(zip(counts, kept(total, capacity, window))):
            np.testing.assert_allclose(found[0][b, :count], expected[0][b, :count], rtol=1e-4, atol=2e-5)
            for mine, other in zip(found[1:], expected[1:]):
                np.testing.assert_allclose(mine[b, :, :there].astype("f"), other[b, :, :there].astype("f"), atol=1e-6)
        caches = expected[1:]

def kept(total, capacity, window):
    group = capacity - window + 1
    return [t if t <= capacity else t - group * -(-(t - capacity) // group) for t in total]

def alike(*rows, batch=1):
    return [(n, [n] * batch) for n in rows]

steps(4, 4, alike(3, 1, 1, 1, 2, 5, 1))
steps(6, 4, alike(3, 1, 1, 1, 2, 9, 1), rotary=True, smooth_softmax=1)
steps(6, 4, alike(3, 1, 1, 1, 1, 1, 1, batch=2), bias=True)
steps(7, 3, [(3, [3, 1]), (3, [2, 3]), (3, [1, 0]), (3, [3, 3]), (1, [1, 1])], rotary=True, softcap=2.0)
for bits in (8, 4):
    steps(6, 4, alike(3, 1, 1, 1, 2, 1), bits=bits)
"""


def run_script(folder, monkeypatch, script):
    (folder / "script.py").write_text(COMMON + script)
    monkeypatch.chdir(folder)
    run_python(python_with("onnxruntime, onnx"), folder / "script.py")


def test_past_and_present_are_one_buffer(tmp_path, monkeypatch):
    run_script(tmp_path, monkeypatch, SHARED)


def test_windows(tmp_path, monkeypatch, interpreted):
    assert f'backend="{interpreted}"' in WINDOWS
    run_script(tmp_path, monkeypatch, WINDOWS)


def test_attention_of_one_buffer(tmp_path):
    """ONNX Runtime refuses these: it misses the length that it is given."""
    random = np.random.default_rng(3)
    batch, heads, size, longest, width = 2, 2, 4, 8, 6
    buffer = random.standard_normal((2, batch, heads, longest, size)).astype("f")
    weights, bias = random.standard_normal((width, 3 * heads * size)).astype("f"), np.ones(3 * heads * size, "f")
    attributes = {"num_heads": heads, "unidirectional": 1, "past_present_share_buffer": 1}
    call = node("Attention", ["x", "w", "b", "", "past", "", "length"], ["y", "present"], "com.microsoft", **attributes)
    inputs = [("x", "float32", [batch, "rows", width]), ("past", "float32", buffer.shape), ("length", "int32", [1])]
    outputs = [("y", "float32", [batch, "rows", heads * size]), ("present", "float32", buffer.shape)]
    write_model(tmp_path / "m.onnx", [call], inputs, outputs, {"w": weights, "b": bias})
    model = aipu.load(aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"])
    for past, rows in [(0, 3), (3, 1), (4, 2), (7, 1)]:
        x = random.standard_normal((batch, rows, width)).astype("f")
        found = model.run({"x": x, "past": buffer, "length": np.array([past], np.int32)})
        q, k, v = np.split((x @ weights + bias).reshape(batch, rows, -1, size).transpose(0, 2, 1, 3), 3, 1)
        expected = buffer.copy()
        expected[:, :, :, past : past + rows] = k, v
        np.testing.assert_allclose(found["present"], expected, rtol=1e-5, atol=1e-6)
        keys, values = expected[..., : past + rows, :]
        scores = q @ keys.swapaxes(2, 3) / size**0.5
        hidden = np.arange(past + rows) > np.arange(rows)[:, None] + past
        y = softmax(np.where(hidden, -np.inf, scores)) @ values
        np.testing.assert_allclose(found["y"], y.transpose(0, 2, 1, 3).reshape(batch, rows, -1), rtol=1e-4, atol=1e-5)
