"""Outputs in the memory of an input: caches to which a step of a decoder adds rows."""

import aipu
import aipu.onnxruntime as ort
import numpy as np
import pytest
from onnx_text import node, write_model

F32 = np.float32
HEADS, KEY_HEADS, SIZE, LENGTH = 4, 2, 16, 40


def write_attention(path, window=-1, interleaved=0):
    """GroupQueryAttention with caches, as ONNX Runtime's tools write it."""
    angles = np.arange(LENGTH)[:, None] * 0.7 ** np.arange(SIZE // 2)
    constants = {"cos": np.cos(angles).astype(F32), "sin": np.sin(angles).astype(F32)}
    nodes = [
        node(
            "GroupQueryAttention",
            ["q", "k", "v", "past.key", "past.value", "last", "total", "cos", "sin"],
            ["y", "present.key", "present.value"],
            "com.microsoft",
            num_heads=HEADS,
            kv_num_heads=KEY_HEADS,
            do_rotary=1,
            local_window_size=window,
            rotary_interleaved=interleaved,
        )
    ]
    # The number of keys is an extent, as it is of an attention_mask.
    sums = [
        node("Shape", ["mask"], ["extents"]),
        node("Gather", ["extents", "one"], ["count"]),
        node("Cast", ["count"], ["total"], to=6),
    ]
    constants["one"] = np.array(1, np.int64)
    inputs = [
        ("q", "float32", ["N", "S", HEADS * SIZE]),
        ("k", "float32", ["N", "S", KEY_HEADS * SIZE]),
        ("v", "float32", ["N", "S", KEY_HEADS * SIZE]),
        ("past.key", "float32", ["N", KEY_HEADS, "P", SIZE]),
        ("past.value", "float32", ["N", KEY_HEADS, "P", SIZE]),
        ("last", "int32", ["N"]),
        ("mask", "int64", ["N", "T"]),
    ]
    outputs = [("y", "float32", ["N", "S", HEADS * SIZE])]
    outputs += [(f"present.{kind}", "float32", ["N", KEY_HEADS, "T", SIZE]) for kind in ("key", "value")]
    write_model(path, sums + nodes, inputs, outputs, constants)


def operands(random, batch, new, keys):
    feed = {"q": random.standard_normal((batch, new, HEADS * SIZE)).astype(F32)}
    feed |= {name: random.standard_normal((batch, new, KEY_HEADS * SIZE)).astype(F32) for name in "kv"}
    return feed | {"last": np.full(batch, keys - 1, np.int32), "mask": np.ones((batch, keys), np.int64)}


@pytest.fixture(scope="module")
def attention(tmp_path_factory):
    """One model twice: with caches that grow, and in place."""
    folder = tmp_path_factory.mktemp("attention")
    write_attention(folder / "attention.onnx")
    aipu.build(folder / "attention.onnx", folder / "grows.aipu.bin")
    aipu.build(folder / "attention.onnx", folder / "stays.aipu.bin", shapes={"past.key": [-1, -1, LENGTH, -1]})
    return folder


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("backend", [None, "interp"])
def test_steps_in_one_buffer(attention, batch, backend):
    """What is behind the last key is never looked at, and rows that are there are not written."""
    grows, stays = (aipu.load(attention / f"{name}.aipu.bin", backend=backend) for name in ("grows", "stays"))
    session, random = stays.session(threads=2), np.random.default_rng(1)
    caches = {kind: np.full((batch, KEY_HEADS, LENGTH, SIZE), np.nan, F32) for kind in ("key", "value")}
    past = {f"past.{kind}": np.zeros((batch, KEY_HEADS, 0, SIZE), F32) for kind in caches}
    keys = 0
    for new in (5, 1, 1, 17, 1):
        keys += new
        feed = operands(random, batch, new, keys)
        expected = grows.run(feed | past)
        before = {kind: cache.copy() for kind, cache in caches.items()}
        own = {f"past.{kind}": cache for kind, cache in caches.items()}
        outputs = {f"present.{kind}": cache for kind, cache in caches.items()} | {"y": np.empty_like(feed["q"])}
        found = session.run(feed | own, outputs=outputs)
        np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-5, atol=1e-6)
        for kind, cache in caches.items():
            np.testing.assert_array_equal(cache[:, :, :keys], expected[f"present.{kind}"])
            np.testing.assert_array_equal(cache[:, :, : keys - new], before[kind][:, :, : keys - new])
            assert np.isnan(cache[:, :, keys:]).all()
        past = {f"past.{kind}": expected[f"present.{kind}"] for kind in caches}


def test_memory_of_its_own_is_fine_too(attention):
    model, random = aipu.load(attention / "stays.aipu.bin"), np.random.default_rng(2)
    past = {
        f"past.{kind}": random.standard_normal((2, KEY_HEADS, LENGTH, SIZE)).astype(F32) for kind in ("key", "value")
    }
    feed = operands(random, 2, 3, 9)
    apart = model.run(feed | past)
    for kind in ("key", "value"):
        rest = apart[f"present.{kind}"].copy()
        rest[:, :, 6:9] = past[f"past.{kind}"][:, :, 6:9]
        np.testing.assert_array_equal(rest, past[f"past.{kind}"])
    outputs = {f"present.{kind}": past[f"past.{kind}"] for kind in ("key", "value")} | {"y": np.empty_like(feed["q"])}
    together = model.session().run(feed | past, outputs=outputs)
    for name, array in apart.items():
        np.testing.assert_array_equal(together[name], array)


def test_other_memory_is_refused(attention):
    """Memory that begins elsewhere, caches in the wrong order, models whose caches grow."""
    session, random = aipu.load(attention / "stays.aipu.bin").session(), np.random.default_rng(3)
    feed = operands(random, 1, 1, 4)
    memory = np.zeros(KEY_HEADS * LENGTH * SIZE + SIZE, F32)
    first, second = (memory[k : k + KEY_HEADS * LENGTH * SIZE].reshape(1, KEY_HEADS, LENGTH, SIZE) for k in (0, SIZE))
    other = np.zeros_like(first)
    with pytest.raises(ValueError, match="'present.key' overlaps that of input 'past.key'"):
        session.run(feed | {"past.key": first, "past.value": other}, outputs={"present.key": second})
    with pytest.raises(ValueError, match="'present.value' overlaps that of input 'past.key'"):
        session.run(feed | {"past.key": first, "past.value": other}, outputs={"present.value": first})
    grows = aipu.load(attention / "grows.aipu.bin").session()
    with pytest.raises(ValueError, match="'present.key' overlaps that of input 'past.key'"):
        grows.run(feed | {"past.key": first, "past.value": other}, outputs={"present.key": first})


def test_a_full_cache_is_an_error(attention):
    model, random = aipu.load(attention / "stays.aipu.bin"), np.random.default_rng(4)
    past = {f"past.{kind}": np.zeros((1, KEY_HEADS, LENGTH, SIZE), F32) for kind in ("key", "value")}
    model.run(operands(random, 1, 2, LENGTH) | past)
    with pytest.raises(ValueError, match="GroupQueryAttention"):
        model.run(operands(random, 1, 2, LENGTH + 1) | past)


def test_io_binding(attention):
    session = ort.InferenceSession(attention / "stays.aipu.bin")
    random, binding = np.random.default_rng(5), session.io_binding()
    feed = operands(random, 1, 4, 4)
    caches = {kind: np.zeros((1, KEY_HEADS, LENGTH, SIZE), F32) for kind in ("key", "value")}
    expected = aipu.load(attention / "stays.aipu.bin").run(feed | {f"past.{k}": c for k, c in caches.items()})
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    for kind, cache in caches.items():
        value = ort.OrtValue.ortvalue_from_numpy(cache)
        binding.bind_ortvalue_input(f"past.{kind}", value)
        binding.bind_ortvalue_output(f"present.{kind}", value)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[-1].numpy(), expected["y"])
    for kind, cache in caches.items():
        np.testing.assert_array_equal(cache, expected[f"present.{kind}"])


def write_scatter(path, also=()):
    """Rows of a buffer are replaced; `also`: nodes that read the buffer besides."""
    nodes = [node("ScatterND", ["past", "at", "new"], ["present"]), *also]
    inputs = [("past", "float32", ["L", 8]), ("at", "int64", ["S", 1]), ("new", "float32", ["S", 8])]
    outputs = [("present", "float32", ["L", 8])] + [("other", "float32", ["L", 8]) for _ in also]
    write_model(path, nodes, inputs, outputs, {})


def test_rows_of_a_buffer(tmp_path):
    write_scatter(tmp_path / "scatter.onnx")
    session = aipu.load(aipu.build(tmp_path / "scatter.onnx")["output"]).session()
    memory, new = np.arange(48, dtype=F32).reshape(6, 8), np.full((2, 8), -1, F32)
    expected = memory.copy()
    expected[[4, 1]] = -1
    session.run({"past": memory, "at": np.array([[4], [1]]), "new": new}, outputs={"present": memory})
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("also", ["Neg", "Identity"])
def test_what_is_read_otherwise_is_refused(tmp_path, also):
    """Another node reads the old rows, which may be gone by then."""
    write_scatter(tmp_path / "scatter.onnx", [node(also, ["past"], ["other"])])
    session = aipu.load(aipu.build(tmp_path / "scatter.onnx")["output"]).session()
    memory = np.zeros((6, 8), F32)
    feed = {"past": memory, "at": np.array([[4]]), "new": memory[:1] + 1}
    with pytest.raises(ValueError, match="'present' overlaps that of input 'past'"):
        session.run(feed, outputs={"present": memory})


def test_a_cache_that_grows_is_refused(tmp_path):
    write_model(
        tmp_path / "grows.onnx",
        [node("Concat", ["past", "new"], ["present"], axis=0)],
        [("past", "float32", ["P", 8]), ("new", "float32", ["S", 8])],
        [("present", "float32", ["T", 8])],
        {},
    )
    session = aipu.load(aipu.build(tmp_path / "grows.onnx")["output"]).session()
    memory = np.zeros((6, 8), F32)
    with pytest.raises(ValueError, match="'present' overlaps that of input 'past'"):
        session.run({"past": memory[:4], "new": memory[:1] + 1}, outputs={"present": memory[:5]})
