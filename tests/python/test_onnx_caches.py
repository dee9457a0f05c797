"""Attention of com.microsoft with caches of other forms, blocks of keys and its scores as outputs, against NumPy."""

import math

import aipu
import numpy as np
import pytest
from onnx_family import Family, floats, softmax
from onnx_text import node, write_model

F32 = np.float32
HEADS, KEY_HEADS, SIZE = 4, 2, 8


@pytest.fixture
def random():
    return np.random.default_rng(13)


@pytest.fixture
def family():
    return Family(opset=17, domain="com.microsoft")


def split_heads(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def attend(q, k, v, allowed, bias=0.0):
    """Of [batch, heads, length, size]: the result, the scores without what is hidden, and the weights."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) / math.sqrt(q.shape[-1]) + bias
    weights = softmax(np.where(allowed, scores, -np.inf))
    y = (weights @ v).transpose(0, 2, 1, 3)
    return y.reshape(*y.shape[:2], -1).astype(F32), scores.astype(F32), weights.astype(F32)


def causal(queries, keys):
    return np.arange(keys) <= np.arange(queries)[:, None] + keys - queries


def unpacked(codes, bits):
    if bits == 8:
        return codes.astype(F32)
    return np.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:-1], -1).astype(F32) - 8


def packed(values, bits):
    if bits == 8:
        return values.astype(np.int8)
    codes = (values + 8).astype(np.uint8)
    return codes[..., ::2] | codes[..., 1::2] << 4


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
def test_quantized_cache(tmp_path, random, family, interpreted, bits, kind):
    limit = 1 << (bits - 1)
    for past, queries in [(0, 3), (4, 1), (3, 2)]:
        q, k, v = floats(random, 1, queries, HEADS * SIZE), *floats(random, 2, 1, queries, KEY_HEADS * SIZE)
        old = random.integers(-limit, limit, (2, 1, KEY_HEADS, past, SIZE))
        scales = random.uniform(0.5, 1, (2, 1) if kind == "PER_TENSOR" else (2, 1, KEY_HEADS, 1, SIZE)).astype(F32)
        scales *= F32(4 / limit)
        new = [np.clip(np.rint(split_heads(x, KEY_HEADS) / s), -limit, limit - 1) for x, s in zip((k, v), scales)]
        keys, values = (np.concatenate(pair, 2) for pair in zip(old, new))
        allowed = causal(queries, past + queries)
        y, scores, weights = attend(split_heads(q, HEADS), keys * scales[0], values * scales[1], allowed)
        operands = [q, k, v, *(packed(x, bits) for x in old), np.array([past + queries - 1], np.int32),
                    np.array(past + queries, np.int32), *[None] * 5, *scales]  # fmt: skip
        options = {"num_heads": HEADS, "kv_num_heads": KEY_HEADS, "k_quant_type": kind, "v_quant_type": kind}
        for given, between in [(1, np.where(allowed, scores, 0)), (2, weights)]:
            expected = [y, packed(keys, bits), packed(values, bits), between]
            family.add("GroupQueryAttention", operands, expected, constants=[6], qk_output=given,
                       kv_cache_bit_width=bits, **options)  # fmt: skip
    family.check(tmp_path, backend=interpreted)


def test_padded_chunks(tmp_path, random, interpreted):
    """Of each sentence only the first query_seqlens rows are there; the others give what nobody looks at."""
    rows, past, counts, ends = 4, 10, [3, 2], [6, 4]
    q, k, v = floats(random, 2, rows, HEADS * SIZE), *floats(random, 2, 2, rows, KEY_HEADS * SIZE)
    old = floats(random, 2, 2, KEY_HEADS, past, SIZE)
    feed = {"q": q, "k": k, "v": v, "old_k": old[0], "old_v": old[1], "ends": np.array(ends, np.int32) - 1,
            "counts": np.array(counts, np.int32)}  # fmt: skip
    names = ["q", "k", "v", "old_k", "old_v", "ends", "total", *[""] * 9, "counts"]
    nodes = [node("GroupQueryAttention", names, ["y", "new_k"], "com.microsoft", num_heads=HEADS,
                  kv_num_heads=KEY_HEADS)]  # fmt: skip
    inputs = [(name, str(array.dtype), array.shape) for name, array in feed.items()]
    outputs = [("y", "float32", q.shape), ("new_k", "float32", old[0].shape)]
    write_model(tmp_path / "m.onnx", nodes, inputs, outputs, {"total": np.array(past, np.int32)}, 17)
    found = aipu.load(aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"], backend=interpreted).run(feed)
    for b, (count, end) in enumerate(zip(counts, ends)):
        one = slice(b, b + 1)
        keys, values = (np.concatenate([cache[one, :, : end - count], split_heads(x[one, :count], KEY_HEADS)], 2)
                        for cache, x in zip(old, (k, v)))  # fmt: skip
        y, _, _ = attend(split_heads(q[one, :count], HEADS), keys, values, causal(count, end))
        np.testing.assert_allclose(found["y"][one, :count], y, atol=1e-5)
        np.testing.assert_array_equal(found["new_k"][one, :, :end], keys)


def test_scores_of_multi_head_attention(tmp_path, random, family, interpreted):
    q, k, v = floats(random, 3, 2, 3, HEADS * SIZE)
    mask, bias = np.array([[1, 1, 1], [1, 1, 0]], np.int32), floats(random, 1, 1, 3, 3)
    added = np.where(mask, F32(0), F32(-10000))[:, None, None] + bias
    for directed in (0, 1):
        allowed = causal(3, 3) if directed else True
        y, scores, _ = attend(*(split_heads(x, HEADS) for x in (q, k, v)), allowed, added)
        expected = [y, None, None, np.where(allowed, scores, np.finfo(F32).min)]
        family.add("MultiHeadAttention", [q, k, v, None, mask, bias], expected, num_heads=HEADS,
                   unidirectional=directed, tolerance=1e-4)  # fmt: skip
    family.check(tmp_path, backend=interpreted)


def turned(x, cosine, sine):
    first, second = np.split(x, 2, -1)
    return np.concatenate([first * cosine - second * sine, first * sine + second * cosine], -1)


def test_sparse_attention(tmp_path, random, family, interpreted):
    block, length = 16, 48
    # Of the second layout the last block of queries does not see the middle one.
    layouts = [[[1, 0, 0], [1, 1, 0], [0, 1, 1]], [[1, 0, 0], [1, 1, 0], [1, 0, 1]]]
    rows = np.array([np.cumsum([0, *np.sum(layout, 1)]) for layout in layouts], np.int32)
    columns = np.array([np.nonzero(layout)[1] for layout in layouts], np.int32)
    seen = np.tile(np.kron(layouts, np.ones((block, block))) > 0, (HEADS // 2, 1, 1))
    cosine, sine = np.cos(floats(random, length, SIZE // 2)), np.sin(floats(random, length, SIZE // 2))
    for past, queries, ends in [(0, 40, [40, 40]), (40, 1, [41, 37])]:
        q, k, v = floats(random, 2, queries, HEADS * SIZE), *floats(random, 2, 2, queries, KEY_HEADS * SIZE)
        old = floats(random, 2, 2, KEY_HEADS, length, SIZE)
        y, caches = [], old.copy()
        for b, end in enumerate(ends):
            at = slice(end - queries, end)

            one, turn = slice(b, b + 1), (cosine[at], sine[at])
            caches[0][b, :, at] = turned(split_heads(k[one], KEY_HEADS), *turn)[0]
            caches[1][b, :, at] = split_heads(v, KEY_HEADS)[b]
            allowed = seen[:, at, :end] & causal(queries, end)
            keys, values = (cache[one, :, :end] for cache in caches)
            y.append(attend(turned(split_heads(q[one], HEADS), *turn), keys, values, allowed)[0])
        operands = [q, k, v, *old, rows, columns, np.array([past + queries], np.int32), np.array(ends, np.int32),
                    cosine, sine]  # fmt: skip
        expected = [np.concatenate(y), *caches]
        options = {"num_heads": HEADS, "kv_num_heads": KEY_HEADS, "sparse_block_size": block, "do_rotary": 1}
        family.add("SparseAttention", operands, expected, constants=[5, 6], tolerance=1e-4, **options)
        packed_operands = [np.concatenate([q, k, v], -1), None, None, *operands[3:]]
        family.add("SparseAttention", packed_operands, expected, tolerance=1e-4, **options)
    family.check(tmp_path, backend=interpreted)


@pytest.mark.parametrize("past", ["P", 6])
def test_number_of_keys_that_only_a_run_knows(tmp_path, random, past):
    """As an input, the extent of growing caches, or how much of caches of a fixed length is filled."""
    names = ["q", "k", "v", "past_k", "past_v", "last", "total"]
    shapes = {name: [1, 1, (HEADS if name == "q" else KEY_HEADS) * SIZE] for name in names[:3]}
    shapes |= {name: [1, KEY_HEADS, past, SIZE] for name in names[3:5]} | {"last": [1], "total": [1]}
    inputs = [(name, "int32" if name in names[5:] else "float32", shapes[name]) for name in names]
    outputs = [("y", "float32", [1, 1, HEADS * SIZE])]
    outputs += [(name, "float32", [1, KEY_HEADS, "T", SIZE]) for name in ("all_k", "all_v")]
    call = node(
        "GroupQueryAttention",
        names,
        [name for name, *_ in outputs],
        "com.microsoft",
        num_heads=HEADS,
        kv_num_heads=KEY_HEADS,
    )
    write_model(str(tmp_path / "m.onnx"), [call], inputs, outputs)
    aipu.build(str(tmp_path / "m.onnx"), str(tmp_path / "m.bin"))
    model = aipu.load(str(tmp_path / "m.bin"))
    q, k, v = floats(random, 1, 1, HEADS * SIZE), *floats(random, 2, 1, 1, KEY_HEADS * SIZE)
    old_k, old_v = floats(random, 2, 1, KEY_HEADS, 6, SIZE)
    for keys in (4, 6) if past == 6 else (7,):
        feed = dict(zip(names, [q, k, v, old_k, old_v, np.array([keys - 1], np.int32), np.array([keys], np.int32)]))
        found = model.run(feed)
        for name, old, new in (("all_k", old_k, k), ("all_v", old_v, v)):
            expected = np.concatenate([old[:, :, : keys - 1], split_heads(new, KEY_HEADS), old[:, :, keys:]], 2)
            np.testing.assert_array_equal(found[name], expected)
        y, *_ = attend(split_heads(q, HEADS), found["all_k"][:, :, :keys], found["all_v"][:, :, :keys], True)
        np.testing.assert_allclose(found["y"], y, rtol=1e-5, atol=1e-6)
    if past == 6:
        feed["last"], feed["total"] = np.array([6], np.int32), np.array([7], np.int32)
        with pytest.raises(
            ValueError, match=r"'y_node' \(GroupQueryAttention\): index 6 is outside of an axis of 6 elements"
        ):
            model.run(feed)


def test_sparse_attention_without_a_layout(tmp_path, random, family):
    operands = [floats(random, 1, 2, HEADS * SIZE), *floats(random, 2, 1, 2, KEY_HEADS * SIZE)]
    operands += [*floats(random, 2, 1, KEY_HEADS, 16, SIZE), np.zeros((0, 2), np.int32), np.zeros((0, 1), np.int32)]
    operands += [np.array([2], np.int32), np.array([2], np.int32)]
    options = {"num_heads": HEADS, "kv_num_heads": KEY_HEADS, "sparse_block_size": 16}
    family.add("SparseAttention", operands, [operands[0], *operands[3:5]], **options)
    with pytest.raises(RuntimeError, match=r"takes block_row_indices \[layouts, blocks \+ 1\]"):
        family.check(tmp_path)
