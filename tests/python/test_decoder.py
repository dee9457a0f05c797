"""A decoder with int4 weights and caches (models/decoder.cpp): one file for the prompt and each step behind it, against
NumPy and ONNX Runtime."""

import os
import pathlib
import subprocess

import aipu
import numpy as np
import pytest
from aipu._onnx_graph import OnnxModel
from other_python import python_with, run_python

LAYERS, KEY_HEADS, HEAD = 4, 2, 32


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoder")
    tool = pathlib.Path(os.environ["AIPU_BUILD_DIR"]) / "bin" / "aipu-make-model"
    subprocess.run([tool, "decoder_small", "-o", folder / "decoder.onnx"], check=True)
    aipu.build(folder / "decoder.onnx", folder / "decoder.aipu.bin", dump_ir=folder / "ir")
    return folder


def feed_of(tokens, past):
    """``past``: outputs of the run before, or None."""
    batch = tokens.shape[0]
    feed = {"input_ids": tokens}
    for layer in range(LAYERS):
        for kind in ("key", "value"):
            empty = np.zeros((batch, KEY_HEADS, 0, HEAD), np.float32)
            feed[f"past_key_values.{layer}.{kind}"] = empty if past is None else past[f"present.{layer}.{kind}"]
    length = feed["past_key_values.0.key"].shape[2] + tokens.shape[1]
    feed["attention_mask"] = np.ones((batch, length), np.int64)
    return feed


def weights(codes, scales):
    """float64 [rows, depth] of codes of 4 bits, any shape behind the rows."""
    rows = codes.reshape(len(codes), -1)
    values = np.stack([rows & 15, rows >> 4], -1).reshape(len(codes), scales.shape[1], -1) - 8.0
    return (values * scales[..., None]).reshape(len(codes), -1)


def heads_of(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attention(node, q, k, v, past_key, past_value, lengths, total, cosine, sine):
    del lengths, total  # no sentence is padded
    heads, key_heads = node.get("num_heads"), node.get("kv_num_heads")
    past = past_key.shape[2]

    def turned(x):
        c, s = (t[past : past + x.shape[2]] for t in (cosine, sine))
        first, second = np.split(x, 2, -1)
        return np.concatenate([first * c - second * s, first * s + second * c], -1)

    keys = np.concatenate([past_key, turned(heads_of(k, key_heads))], 2)
    values = np.concatenate([past_value, heads_of(v, key_heads)], 2)
    q = turned(heads_of(q, heads))
    many_keys, many_values = (np.repeat(x, heads // key_heads, 1) for x in (keys, values))
    scores = q @ many_keys.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    ahead = np.arange(keys.shape[2]) > past + np.arange(q.shape[2])[:, None]
    scores = np.exp(np.where(ahead, -np.inf, scores))
    mixed = scores / scores.sum(-1, keepdims=True) @ many_values
    return mixed.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1), keys, values


def run_in_numpy(path, feed):
    """All outputs, computed in float64, by the nodes of the file."""
    model = OnnxModel(path)
    values = dict(feed)

    def operand(name):
        constant = model.constant(name)
        return values.get(name) if constant is None else constant

    for node in model.nodes:
        operands = [operand(name) for name in node.inputs]
        if node.op == "GatherBlockQuantized":
            results = [weights(operands[0], operands[2])[operands[1]]]
        elif node.op == "MatMulNBits":
            results = [operands[0] @ weights(*operands[1:]).T]
        elif node.op == "SimplifiedLayerNormalization":
            mean = (operands[0] ** 2).mean(-1, keepdims=True)
            results = [operands[0] / np.sqrt(mean + node.get("epsilon")) * operands[1]]
        elif node.op == "GroupQueryAttention":
            results = attention(node, *operands)
        elif node.op == "Sigmoid":
            results = [1 / (1 + np.exp(-operands[0]))]
        elif node.op in ("Add", "Mul"):
            results = [(np.add if node.op == "Add" else np.multiply)(*operands)]
        else:  # of shapes and lengths, or names of outputs
            results = [operands[0]]
        values.update(zip(node.outputs, results))
    return {name: values[name] for name in model.output_names()}


def check(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].shape == array.shape
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-3 * np.abs(array).max(), err_msg=name)


@pytest.mark.parametrize("batch", [1, 2])
def test_prompt_and_steps(decoder, batch):
    model = aipu.load(decoder / "decoder.aipu.bin")
    random = np.random.default_rng(3)
    past = past_in_numpy = None
    for new in (11, 1, 1, 3):
        tokens = random.integers(0, 500, (batch, new))
        found = model.run(feed_of(tokens, past))
        past_in_numpy = run_in_numpy(decoder / "decoder.onnx", feed_of(tokens, past_in_numpy))
        check(found, past_in_numpy)
        past = found


def test_a_step_continues_the_prompt(decoder):
    """Token by token and all at once are the same."""
    model = aipu.load(decoder / "decoder.aipu.bin")
    tokens = np.random.default_rng(4).integers(0, 500, (1, 20))
    whole = model.run(feed_of(tokens, None))
    past, logits = None, []
    for k in range(20):
        past = model.run(feed_of(tokens[:, k : k + 1], past))
        logits.append(past["logits"])
    np.testing.assert_allclose(np.concatenate(logits, 1), whole["logits"], rtol=1e-3, atol=2e-4)


def test_all_products_take_codes(decoder):
    groups = (decoder / "ir" / "groups.txt").read_text()
    assert groups.count("aipu::BlockQuantizedMatMul") == LAYERS * 7 + 1


ORT = """
import sys
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1] + "/decoder.onnx", providers=["CPUExecutionProvider"])
found = session.run(None, dict(np.load(sys.argv[1] + "/feed.npz")))
np.savez(sys.argv[1] + "/found.npz", **dict(zip([o.name for o in session.get_outputs()], found)))
"""


def test_onnxruntime(decoder):
    python = python_with("numpy, onnxruntime")
    script = decoder / "ort.py"
    script.write_text(ORT)
    random = np.random.default_rng(5)
    model, past = aipu.load(decoder / "decoder.aipu.bin"), None
    for new in (9, 1):
        feed = feed_of(random.integers(0, 500, (1, new)), past)
        np.savez(decoder / "feed.npz", **feed)
        run_python(python, script, decoder)
        past = model.run(feed)
        check(past, dict(np.load(decoder / "found.npz")))
