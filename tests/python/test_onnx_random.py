"""Random results: the documented generator, against NumPy's, and the distributions that are made of it."""

import aipu
import numpy as np
import pytest
from onnx_family import Family
from onnx_text import node, write_model

FLOAT16, DOUBLE, INT64, BOOL = 10, 11, 7, 9


def state(seed):
    return np.random.RandomState(seed)


@pytest.mark.parametrize("target", ["host", "X2_1204", "X2_1204+host"])
def test_the_numbers_are_those_of_numpy(tmp_path, target):
    family = Family(opset=22)
    like = np.zeros((3, 5), np.float32)
    uniform = state(7).random_sample((30, 47))  # more than the generator makes at a time
    family.add("RandomUniform", [], uniform, tolerance=0, dtype=DOUBLE, shape=[30, 47], seed=7.0)
    family.add("RandomUniform", [], (2 + uniform[:1] * 3).astype("f"), shape=[1, 47], seed=7.0, low=2.0, high=5.0)
    normal = state(2**31).standard_normal((3, 5))
    family.add("RandomNormal", [], normal, tolerance=1e-12, dtype=DOUBLE, shape=[3, 5], seed=float(2**31))
    large = state(2**32 - 256).standard_normal((3, 5)) * 2 - 1
    family.add("RandomNormalLike", [like], large.astype("f"), seed=-256.0, mean=-1.0, scale=2.0)
    family.add("RandomUniformLike", [like], state(0).random_sample((3, 5)).astype("f"), seed=0.0)
    p = np.linspace(0, 1, 40)
    family.add("Bernoulli", [p.astype("f")], (state(3).random_sample(40) < p.astype("f")).astype("f"), seed=3.0)
    family.add("Bernoulli", [p], state(3).random_sample(40) < p, dtype=BOOL, seed=3.0)
    family.check(tmp_path, target=target)


def dropped(x, ratio, seed):
    kept = state(seed).random_sample(x.shape) >= ratio
    return np.where(kept, x / np.float32(1 - ratio), 0).astype(x.dtype), kept


def test_dropout(tmp_path):
    family = Family(opset=22)
    x = np.random.default_rng(1).standard_normal((4, 9)).astype("f")
    half, quarter = np.array(0.5, "f"), np.array(0.25, "f")
    yes, no = np.array(True), np.array(False)
    everything = np.ones(x.shape, bool)
    family.add("Dropout", [x, half, yes], dropped(x, 0.5, 4), constants=[1, 2], seed=4)
    family.add("Dropout", [x, None, yes], dropped(x, 0.5, 4), constants=[2], seed=4)
    family.add("Dropout", [x, quarter, yes], dropped(x, 0.25, 5), seed=5)  # both known when it runs
    family.add("Dropout", [x, quarter, no], [x, everything], seed=5)
    family.add("Dropout", [x, np.array(0, "f"), yes], [x, everything], constants=[1, 2])
    family.add("Dropout", [x], [x, everything])
    family.check(tmp_path)


def drawn(folder, op, inputs, extents, element="float32", **attributes):
    path = folder / "m.onnx"
    values = [(name, str(array.dtype), array.shape) for name, array in inputs.items()]
    write_model(path, [node(op, list(inputs), ["y"], **attributes)], values, [("y", element, extents)], opset=22)
    return aipu.load(aipu.build(path, folder / "m.aipu.bin")["output"]).run(inputs)["y"]


def test_distributions(tmp_path):
    count = 40000
    y = drawn(tmp_path, "RandomNormal", {}, [count], mean=1.0, scale=3.0, shape=[count])
    assert abs(y.mean() - 1) < 5 * 3 / count**0.5 and abs(y.std() / 3 - 1) < 5 / (2 * count) ** 0.5
    y = drawn(tmp_path, "RandomUniform", {}, [count], low=-1.0, high=2.0, shape=[count])
    parts = np.histogram(y, 10, (-1, 2))[0]
    assert parts.sum() == count and ((parts - count / 10) ** 2 / (count / 10)).sum() < 33  # chi2, 9 degrees: p = 1e-4
    y = drawn(tmp_path, "RandomUniform", {}, [count], "float16", shape=[count], dtype=FLOAT16)
    assert y.dtype == np.float16 and y.min() >= 0 and y.max() < 1  # rounded, and still below 1
    p = np.full(count, 0.3, "f")
    assert abs(drawn(tmp_path, "Bernoulli", {"x": p}, [count]).mean() - 0.3) < 5 * (0.21 / count) ** 0.5
    y = drawn(tmp_path, "Dropout", {"x": p, "r": np.array(0.2, "f"), "t": np.array(True)}, [count])
    assert abs((y == 0).mean() - 0.2) < 5 * (0.16 / count) ** 0.5
    np.testing.assert_allclose(y[y != 0], 0.375, rtol=1e-6)


def test_multinomial(tmp_path):
    weights = np.array([[1, 2, 0, 5], [4, 1, 1, 0]], "f")
    with np.errstate(divide="ignore"):
        scores = np.log(weights) + 3
    count = 20000
    attributes = {"sample_size": count, "seed": 1.0}
    y = drawn(tmp_path, "Multinomial", {"x": scores}, [2, count], "int64", dtype=INT64, **attributes)
    assert y.shape == (2, count) and y.min() >= 0 and y.max() <= 3
    for row, expected in zip(y, weights / weights.sum(1, keepdims=True)):
        found = np.bincount(row, minlength=4) / count
        assert (np.abs(found - expected) <= 5 * (expected * (1 - expected) / count) ** 0.5).all()
    assert drawn(tmp_path, "Multinomial", {"x": scores}, [2, 1], "int32").dtype == np.int32


def test_nodes_without_a_seed(tmp_path):
    """Each has its own numbers, in every run the same."""
    nodes = [node("RandomUniform", [], [name], shape=[64]) for name in ("a", "b")]
    outputs = [(name, "float32", [64]) for name in ("a", "b")]
    write_model(tmp_path / "m.onnx", nodes, [], outputs, opset=22)
    model = aipu.load(aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"])
    first, second = model.run({}), model.run({})
    assert np.abs(first["a"] - first["b"]).max() > 0.5
    np.testing.assert_array_equal(first["a"], second["a"])


def test_what_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="the result is of type int64"):
        drawn(tmp_path, "RandomUniform", {}, [3], "int64", shape=[3], dtype=INT64)
    with pytest.raises(RuntimeError, match="sample_size is 0"):
        drawn(tmp_path, "Multinomial", {"x": np.zeros((1, 2), "f")}, [1, 0], "int32", sample_size=0)
