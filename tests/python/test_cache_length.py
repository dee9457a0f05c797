"""Caches that grow by Concat, converted with ``cache_length``: buffers, in whose memory a step writes its rows."""

import aipu
import aipu.onnxruntime as ort
import numpy as np
import pytest
from onnx_text import node, write_model

F32 = np.float32
HEADS, SIZE, LENGTH = 3, 16, 40


def repeated(heads, result, written):
    """Each head of keys or values `REPEATS` times, one behind the other (repeat_kv)."""

    def own(name):
        return f"{name}.{result}"

    nodes = [
        node("Shape", [heads], [own("shape")]),
        node("Slice", [own("shape"), "from.0", "from.2"], [own("outer")]),
        node("Slice", [own("shape"), "from.2", "from.4"], [own("inner")]),
        node("Concat", [own("outer"), "repeats", own("inner")], [own("all")], axis=0),
        node("Unsqueeze", [heads, "from.2"], [own("single")]),
    ]
    extents = own("all")
    if written == "where":  # as PyTorch's older exporter has `expand`
        nodes += [
            node("Shape", [own("all")], [own("rank")]),
            node("Expand", ["one", own("rank")], [own("ones")]),
            node("Equal", [own("all"), "keeps"], [own("kept")]),
            node("Where", [own("kept"), own("ones"), own("all")], [own("given")]),
        ]
        extents = own("given")
    nodes.append(node("Expand", [own("single"), extents], [own("copies")]))
    if written == "where":
        nodes += [
            node("Slice", [own("shape"), "from.0", "from.1"], [own("batch")]),
            node("Concat", [own("batch"), "heads", own("inner")], [own("flat")], axis=0),
        ]
    return [*nodes, node("Reshape", [own("copies"), own("flat") if written == "where" else "flat"], [result])]


REPEATS = 4


def write_attention(path, past=("N", HEADS, "P", SIZE), also=(), inputs=(), repeats=None):
    """Causal attention with its keys and values so far as inputs, as exporters write a layer of a decoder; `repeats`:
    how it is written that `REPEATS` heads of queries share one of keys and values.
    """
    keys, values, query_heads = "present.key", "present.value", HEADS
    copies = []
    if repeats is not None:
        keys, values, query_heads = "keys.of.all", "values.of.all", REPEATS * HEADS
        copies = repeated("present.key", keys, repeats) + repeated("present.value", values, repeats)
    nodes = [
        node("Concat", ["past.key", "k"], ["present.key"], axis=2),
        node("Concat", ["past.value", "v"], ["present.value"], axis=2),
        # Positions of the new tokens: the length of the past and on.
        node("Shape", ["past.key"], ["extents"]),
        node("Gather", ["extents", "two"], ["before"]),
        node("Shape", ["q"], ["extents.q"]),
        node("Gather", ["extents.q", "two"], ["added"]),
        node("Add", ["before", "added"], ["total"]),
        node("Range", ["before", "total", "one"], ["places"]),
        node("Range", ["zero", "total", "one"], ["keys"]),
        node("Unsqueeze", ["places", "axis"], ["rows"]),
        node("GreaterOrEqual", ["rows", "keys"], ["allowed"]),
        *copies,
        node("Transpose", [keys], ["turned"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "turned"], ["products"]),
        node("Mul", ["products", "scale"], ["scaled"]),
        node("Where", ["allowed", "scaled", "never"], ["scores"]),
        node("Softmax", ["scores"], ["weights"], axis=-1),
        node("MatMul", ["weights", values], ["y"]),
        *also,
    ]
    constants = {name: np.array(value, np.int64) for name, value in (("zero", 0), ("one", 1), ("two", 2))}
    constants |= {"axis": np.array([1]), "scale": np.array(SIZE**-0.5, F32), "never": np.array(-1e30, F32)}
    if copies:
        constants |= {f"from.{k}": np.array([k]) for k in (0, 1, 2, 4)}
        constants |= {"repeats": np.array([REPEATS]), "keeps": np.array(-1), "heads": np.array([query_heads])}
        constants |= {"flat": np.array([0, query_heads, -1, SIZE])}
    new = [(name, "float32", ["N", query_heads if name == "q" else HEADS, "S", SIZE]) for name in "qkv"]
    kinds = ("key", "value")
    outputs = [("y", "float32", ["N", query_heads, "S", SIZE])]
    outputs += [(f"present.{kind}", "float32", ["N", HEADS, "T", SIZE]) for kind in kinds]
    outputs += [("other", "float32", []) for _ in also]
    write_model(
        path, nodes, new + [(f"past.{kind}", "float32", past) for kind in kinds] + [*inputs], outputs, constants
    )
    return path


def operands(random, batch, new, repeats=1):
    heads = {"q": HEADS * repeats, "k": HEADS, "v": HEADS}
    return {name: random.standard_normal((batch, count, new, SIZE)).astype(F32) for name, count in heads.items()}


def empty(batch, length):
    return {kind: np.full((batch, HEADS, length, SIZE), np.nan, F32) for kind in ("key", "value")}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attention")
    model = write_attention(folder / "attention.onnx")
    aipu.build(model, folder / "grows.aipu.bin")
    aipu.build(model, folder / "stays.aipu.bin", cache_length=LENGTH)
    return folder


def test_the_signature(models):
    model = aipu.load(models / "stays.aipu.bin")
    assert [value.name for value in model.inputs] == ["q", "k", "v", "past.key", "past.value", "past_length"]
    shapes = {value.name: list(value.shape) for value in [*model.inputs, *model.outputs]}
    assert shapes["past.key"][1:] == shapes["present.value"][1:] == [HEADS, LENGTH, SIZE]
    assert shapes["past_length"] == []


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("backend", [None, "interp"])
@pytest.mark.parametrize("in_place", [True, False])
def test_steps(models, batch, backend, in_place):
    check_steps(models, batch, backend, in_place)


def check_steps(models, batch, backend, in_place, repeats=1):
    """Rows behind the last one are never looked at, those that are there are not changed."""
    grows, stays = (aipu.load(models / f"{name}.aipu.bin", backend=backend) for name in ("grows", "stays"))
    session, random = stays.session(threads=2), np.random.default_rng(1)
    caches, length = empty(batch, LENGTH), 0
    past = {f"past.{kind}": cache[:, :, :0].copy() for kind, cache in caches.items()}
    for new in (5, 1, 1, 17, 1, 15):
        feed = operands(random, batch, new, repeats)
        expected = grows.run(feed | past)
        given = {f"past.{kind}": cache for kind, cache in caches.items()} | {"past_length": np.array(length)}
        outputs = {f"present.{kind}": cache for kind, cache in caches.items()} | {"y": np.empty_like(feed["q"])}
        found = session.run(feed | given, outputs=outputs if in_place else None)
        length += new
        np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-5, atol=1e-6)
        caches = {kind: found[f"present.{kind}"] for kind in caches}
        for kind, cache in caches.items():
            np.testing.assert_array_equal(cache[:, :, :length], expected[f"present.{kind}"])
            assert np.isnan(cache[:, :, length:]).all()
        past = {f"past.{kind}": expected[f"present.{kind}"] for kind in caches}
    assert length == LENGTH


@pytest.mark.parametrize("written", ["plain", "where"])
def test_heads_that_share_keys(tmp_path, written):
    """Where keys and values are repeated for all heads of queries, which reads the filled rows of the buffers only."""
    model = write_attention(tmp_path / "repeated.onnx", repeats=written)
    aipu.build(model, tmp_path / "grows.aipu.bin")
    aipu.build(model, tmp_path / "stays.aipu.bin", cache_length=LENGTH)
    for batch, backend in ((1, None), (3, None), (2, "interp")):
        check_steps(tmp_path, batch, backend, True, REPEATS)


@pytest.mark.parametrize("length", [LENGTH - 1, LENGTH, -1, -5, 1 << 40])
def test_other_lengths_are_errors(models, length):
    session, random = aipu.load(models / "stays.aipu.bin").session(), np.random.default_rng(2)
    caches = {f"past.{kind}": np.zeros((1, HEADS, LENGTH, SIZE), F32) for kind in ("key", "value")}
    with pytest.raises(ValueError, match="present.*cache"):
        session.run(operands(random, 1, 2) | caches | {"past_length": np.array(length)})
    assert not any(cache.any() for cache in caches.values())


def test_onnxruntime_binding(models):
    options = [("AipuExecutionProvider", {"cache_length": LENGTH, "cache_dir": models / "cache"})]
    session = ort.InferenceSession(models / "attention.onnx", providers=options)
    random, binding = np.random.default_rng(5), session.io_binding()
    feed = operands(random, 1, 4)
    past = {f"past.{kind}": np.zeros((1, HEADS, 0, SIZE), F32) for kind in ("key", "value")}
    expected = aipu.load(models / "grows.aipu.bin").run(feed | past)
    caches = empty(1, LENGTH)
    for name, array in (feed | {"past_length": np.array(0)}).items():
        binding.bind_cpu_input(name, array)
    for kind, cache in caches.items():
        value = ort.OrtValue.ortvalue_from_numpy(cache)
        binding.bind_ortvalue_input(f"past.{kind}", value)
        binding.bind_ortvalue_output(f"present.{kind}", value)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    np.testing.assert_allclose(binding.get_outputs()[-1].numpy(), expected["y"], rtol=1e-5, atol=1e-6)
    for kind, cache in caches.items():
        np.testing.assert_array_equal(cache[:, :, :4], expected[f"present.{kind}"])


def refused(path, message, length=LENGTH):
    with pytest.raises((ValueError, RuntimeError), match=message):
        aipu.build(path, cache_length=length)


def test_what_is_refused(tmp_path):
    write_attention(tmp_path / "fixed.onnx", past=("N", HEADS, 8, SIZE))
    refused(tmp_path / "fixed.onnx", "no input of an open extent")
    write_attention(tmp_path / "read.onnx", also=[node("ReduceSum", ["past.key"], ["other"], keepdims=0)])
    refused(tmp_path / "read.onnx", "extent 2 of input 'past.key' is the length 'P' of the caches")
    write_attention(
        tmp_path / "mask.onnx",
        also=[node("ReduceSum", ["mask"], ["other"], keepdims=0)],
        inputs=[("mask", "float32", ["N", "P"])],
    )
    refused(tmp_path / "mask.onnx", "extent 1 of input 'mask' is the length 'P' of the caches")
    refused(write_attention(tmp_path / "fits.onnx"), "expected a number of rows", length=-1)
