"""Definitions without a schedule: what the rules make of them and NumPy agree, at sizes that do not divide too."""

import aipu as tvm
import numpy as np
import pytest
from aipu import te, topi

TARGETS = ["interpreter", "host", "X2_1204"]


def run(tensors, arrays, target):
    """The last of the tensors, computed by the rules of a target."""
    out = tensors[-1]
    result = np.zeros([int(e) for e in out.shape], out.dtype)
    schedule = topi.generic.schedule([out], target)
    tvm.build(schedule, tensors, target)(*arrays, result)
    return result


def random(*shape):
    return np.random.default_rng(5).uniform(-1, 1, shape).astype("float32")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("sizes", [(64, 32, 64), (32, 48, 56), (13, 7, 40), (8, 5, 3), (1, 9, 16), (40, 33, 250)])
def test_matmul_in_tiles(target, sizes):
    rows, depth, columns = sizes
    a, b = te.placeholder((rows, depth), name="a"), te.placeholder((depth, columns), name="b")
    k = te.reduce_axis((0, depth), "k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    x, y = random(rows, depth), random(depth, columns)
    np.testing.assert_allclose(run([a, b, c], [x, y], target), x @ y, rtol=1e-4, atol=1e-5)
    d = te.compute((rows, columns), lambda i, j: te.max(c[i, j] + 1.0, te.const(0, "float32")), name="d")
    np.testing.assert_allclose(run([a, b, d], [x, y], target), np.maximum(x @ y + 1, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [1, 5, 64, 100])
def test_matmul_of_sizes_that_are_not_known(target, n):
    size = te.size_var("n")
    a, b = te.placeholder((size, 20), name="a"), te.placeholder((20, size), name="b")
    k = te.reduce_axis((0, 20), "k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    x, y, z = random(n, 20), random(20, n), np.zeros((n, n), "float32")
    tvm.build(topi.generic.schedule([c], target), [a, b, c], target)(x, y, z)
    np.testing.assert_allclose(z, x @ y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [(4, 8, 16), (3, 8, 14), (2, 4, 56), (1, 3, 7)])
def test_convolution(target, size):
    channels, filters, width = size
    x, w = random(1, channels, 6, width), random(filters, channels, 3, 3)
    data, weights = te.placeholder(x.shape, name="data"), te.placeholder(w.shape, name="weights")
    for stride, padding in ((1, 1), (1, 0), (2, 1)):
        out = topi.nn.conv2d_nchw(data, weights, stride, padding, 1)
        wide = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        rows, columns = (int(e) for e in out.shape[2:])
        expected = np.zeros((1, filters, rows, columns), "float32")
        for i in range(3):
            for j in range(3):
                part = wide[:, :, i : i + rows * stride : stride, j : j + columns * stride : stride]
                expected += np.einsum("nchw,oc->nohw", part, w[:, :, i, j])
        np.testing.assert_allclose(run([data, weights, out], [x, w], target), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(16, 64), (5, 1000), (3, 7), (9, 33), (1, 4)])
def test_rows(target, shape):
    x = random(*shape)
    data = te.placeholder(shape, name="data")
    e = np.exp(x - x.max(1, keepdims=True))
    softmax = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(run([data, topi.nn.softmax(data)], [x], target), softmax, rtol=1e-5, atol=1e-7)
    g, b = random(shape[1]), random(shape[1])
    gamma, beta = te.placeholder(g.shape, name="gamma"), te.placeholder(b.shape, name="beta")
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g + b
    out = topi.nn.layer_norm(data, gamma, beta, [1])
    np.testing.assert_allclose(run([data, gamma, beta, out], [x, g, b], target), normal, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(16, 64), (5, 1000), (3, 7), (2, 3, 40), (2000,)])
def test_sums(target, shape):
    x = random(*shape)
    data = te.placeholder(shape, name="data")
    for axis in (*range(len(shape)), None):
        expected = x.sum(axis, dtype="float64")
        np.testing.assert_allclose(run([data, topi.sum(data, axis)], [x], target), expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(run([data, topi.max(data, axis)], [x], target), x.max(axis))
    place = topi.argmax(data, axis=-1)
    np.testing.assert_array_equal(run([data, place], [x], target), x.argmax(-1))


@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_integers_wrap_and_conditions_hold(target):
    x = np.random.default_rng(3).integers(-(2**31), 2**31, (6, 96)).astype("int32")
    data = te.placeholder(x.shape, "int32", name="data")
    k = te.reduce_axis((0, 96), "k")
    out = te.compute((6,), lambda i: te.sum(data[i, k], axis=k, where=k % 3 == 0), name="out")
    np.testing.assert_array_equal(run([data, out], [x], target), x[:, ::3].sum(1, dtype="int32"))


@pytest.mark.parametrize("target", TARGETS)
def test_padding_is_a_copy_between_constants(target):
    x = random(4, 10)
    data = te.placeholder(x.shape, name="data")
    for before, after in (((1, 2), (0, 3)), ((0, 12), (2, 0))):
        out = topi.nn.pad(data, before, after, 1.5)
        expected = np.pad(x, list(zip(before, after)), constant_values=1.5)
        np.testing.assert_array_equal(run([data, out], [x], target), expected)
    # bounds from either side, and beyond the ends
    shifted = te.compute(
        (4, 10),
        lambda i, j: te.if_then_else(te.all(j + 3 < 10, j > i - 2, i > 0), data[i, j + 3], te.const(7, "float32")),
        name="shifted",
    )
    i, j = np.mgrid[:4, :10]
    moved = np.concatenate([x[:, 3:], np.zeros((4, 3), "float32")], 1)
    expected = np.where((j + 3 < 10) & (j > i - 2) & (i > 0), moved, np.float32(7))
    np.testing.assert_array_equal(run([data, shifted], [x], target), expected)


def test_what_the_rules_make():
    a, b = te.placeholder((64, 64), name="a"), te.placeholder((64, 64), name="b")
    k = te.reduce_axis((0, 64), "k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    text = str(tvm.lower(topi.generic.schedule([c], "X2_1204"), [a, b, c]))
    assert '"lsram"' in text and "unrolled" in text and "parallel" in text and "vectorized(8)" in text
    module = tvm.build(topi.generic.schedule([c], "X2_1204"), [a, b, c], "X2_1204")
    assert "Dma" in module.get_source()
    text = str(tvm.lower(topi.generic.schedule([topi.nn.softmax(a)], "host"), [a, b]))
    assert text.count("parallel") == 1  # all of a row inside of one loop


def test_rows_that_vectors_do_not_divide_are_long_vectors():
    for columns, lanes in ((1000, 200), (1024, 16), (1003, 16), (24, 16)):
        a = te.placeholder((4, columns), name="a")
        out = topi.nn.softmax(a)
        text = str(tvm.lower(topi.generic.schedule([out], "host"), [a, out], simple_mode=True))
        exponential = text.index("exp(")
        assert text[:exponential].rindex("vectorized(") == text[:exponential].rindex(f"vectorized({lanes})"), columns


def test_numbers_that_all_lanes_share_are_spread_before_loops():
    a = te.placeholder((4, 64), name="a")
    out = topi.nn.softmax(a)
    source = tvm.build(topi.generic.schedule([out], "X2_1204"), [a, out], "X2_1204").get_source()
    assert source.count("(float8)") - source.count("(float8)0x") - source.count("(float8)-0x") == 2
    for line in source.splitlines():
        assert "(float8)" not in line or "vexp" not in line, line


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_that_a_loop_makes_are_not_spread_before_it(target):
    a = te.placeholder((6, 16), name="a")
    k = te.reduce_axis((0, 16), "k")
    total = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="total")
    out = te.compute((6, 16), lambda i, j: a[i, j] - total[i], name="out")
    schedule = te.create_schedule(out.op)
    stage = schedule[out]
    rows, row = stage.split(out.op.axis[0], nparts=2)
    stage.vectorize(out.op.axis[1])
    schedule[total].compute_at(stage, row)
    schedule[total].set_scope("local")
    x, y = random(6, 16), np.zeros((6, 16), "float32")
    tvm.build(schedule, [a, out], target)(x, y)
    np.testing.assert_allclose(y, x - x.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)


def test_a_sum_takes_a_product_with_one_rounding():
    a, b = te.placeholder((1,), name="a"), te.placeholder((1,), name="b")
    k = te.reduce_axis((0, 1), "k")
    c = te.compute((1,), lambda i: te.sum(a[k] * b[k], axis=k, init=-1.0), name="c")
    x = np.array([1 + 2**-12], "float32")
    exact = np.float64(x[0]) * np.float64(x[0]) - 1
    for target in TARGETS:
        y = np.zeros(1, "float32")
        tvm.build(te.create_schedule(c.op), [a, b, c], target)(x, x, y)
        assert y[0] in (np.float32(exact), np.float32(x[0] * x[0]) - np.float32(1)), target
    y = np.zeros(1, "float32")
    tvm.build(te.create_schedule(c.op), [a, b, c], "interpreter")(x, x, y)
    assert y[0] == np.float32(exact)
