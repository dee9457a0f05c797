"""What the rules make of reductions for a GPU, against NumPy."""

import aipu as tvm
import numpy as np
import pytest
from aipu import te, topi

pytestmark = pytest.mark.usefixtures("cuda")

RNG = np.random.default_rng(5)


def random(*shape):
    return RNG.uniform(-1, 1, shape).astype("float32")


def check(out, inputs, expected, in_source=(), not_in_source=()):
    """``inputs``: pairs of a tensor and its values."""
    made = tvm.build(topi.generic.schedule([out], "cuda"), [*(tensor for tensor, _ in inputs), out], "cuda")
    source = made.imported_modules[0].get_source()
    assert all(text in source for text in in_source) and not any(text in source for text in not_in_source), source
    result = np.full(expected.shape, 77, out.dtype)
    made(*(values for _, values in inputs), result)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def given(values, name="x"):
    return te.placeholder(values.shape, str(values.dtype), name=name), values


SQUARES = ("_shared[", "threadIdx.y", "__syncthreads")


@pytest.mark.parametrize("m, k, n", [(64, 32, 64), (80, 40, 96), (72, 36, 64), (64, 32, 90)])
def test_products_in_squares(m, k, n):
    x, w, b = given(random(m, k)), given(random(k, n), "w"), given(random(n), "b")
    exact = x[1].astype("float64") @ w[1]
    check(topi.nn.matmul(x[0], w[0]), [x, w], exact, SQUARES)
    turned = given(np.ascontiguousarray(w[1].T), "w")
    dense = topi.nn.relu(topi.nn.dense(x[0], turned[0], b[0]))
    check(dense, [x, turned, b], np.maximum(exact + b[1], 0), SQUARES, ["kernel1"])


def test_products_of_a_batch():
    x, w = given(random(3, 64, 32)), given(random(3, 64, 32), "w")
    exact = np.einsum("bik,bjk->bij", x[1].astype("float64"), w[1])
    check(topi.nn.batch_matmul(x[0], w[0]), [x, w], exact, [*SQUARES, "blockIdx.z"])


@pytest.mark.parametrize(
    "shape, axis",
    [
        ((64, 300), 1),  # a warp for each row
        ((5, 7, 4000), 2),  # a block for each row
        ((64, 1, 300), 2),
        ((64, 300), 0),  # columns
        ((5, 400, 70), 1),
        ((3000,), 0),  # one number
        ((70, 90), None),
    ],
)
def test_threads_share_sums(shape, axis):
    x = given(random(*shape))
    check(topi.sum(x[0], axis=axis), [x], np.asarray(x[1].astype("float64").sum(axis)), ["threadIdx", "_rf"])
    check(topi.max(x[0], axis=axis, keepdims=True), [x], x[1].max(axis, keepdims=True))


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_and_columns_of_any_size(axis):
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), "float32", name="x")
    for shape in ((40, 100), (1, 1), (33, 7)):
        values = random(*shape)
        check(topi.sum(x, axis=axis), [(x, values)], values.astype("float64").sum(axis))


def test_no_threads_to_share_short_sums():
    x = given(random(9, 5))
    check(topi.sum(x[0], axis=1), [x], x[1].sum(1), not_in_source=["__shared__"])
    check(topi.argmax(x[0], axis=1), [x], x[1].argmax(1))
    y = given(random(70, 300))
    check(topi.argmax(y[0], axis=1), [y], y[1].argmax(1))


@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_have_several_sums_per_thread(stride):
    x, w = given(random(2, 8, 134, 132)), given(random(32, 8, 3, 3), "w")
    padded = np.pad(x[1].astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    high, wide = (134 + stride - 1) // stride, (132 + stride - 1) // stride
    exact = np.zeros((2, 32, high, wide))
    for dy in range(3):
        for dx in range(3):
            part = padded[:, :, dy : dy + 134 : stride, dx : dx + 132 : stride]
            exact += np.einsum("nchw,oc->nohw", part, w[1][:, :, dy, dx])
    out = topi.nn.relu(topi.nn.conv2d_nchw(x[0], w[0], stride, 1, 1))
    sums = 8 if stride == 1 else 4
    check(out, [x, w], np.maximum(exact, 0), [f"conv2d_nchw{sums - 1} ="], [f"conv2d_nchw{sums} ="])


def test_softmax_and_layer_norm():
    x = given(random(40, 300))
    e = np.exp(x[1].astype("float64"))
    check(topi.nn.softmax(x[0]), [x], e / e.sum(1, keepdims=True), ["_rf"])
    gamma, beta = given(random(300), "gamma"), given(random(300), "beta")
    v = x[1].astype("float64")
    exact = (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + 1e-5) * gamma[1] + beta[1]
    check(topi.nn.layer_norm(x[0], gamma[0], beta[0], [1]), [x, gamma, beta], exact)
