"""The small library of operators, against NumPy."""

import os

import aipu
import numpy as np
import pytest
from aipu import te, topi

RNG = np.random.RandomState(7)


def check(result, inputs, expected, rtol=1e-5, atol=1e-6):
    """``inputs``: pairs of a placeholder and its array."""
    s = te.create_schedule(result.op)
    out = np.full(expected.shape, 77).astype(result.dtype)
    target = os.environ.get("AIPU_TOPI_TARGET", "interpreter")
    aipu.build(s, [t for t, _ in inputs] + [result], target)(*[a for _, a in inputs], out)
    assert out.shape == expected.shape
    np.testing.assert_allclose(out, expected, rtol=rtol, atol=atol)


def given(*shape, dtype="float32", name="A", low=-3.0, high=3.0):
    array = RNG.uniform(low, high, shape).astype(dtype)
    return te.placeholder(shape, dtype, name=name), array


@pytest.mark.parametrize(
    "name", "exp sqrt rsqrt sin tanh floor ceil trunc abs log isnan isfinite sign negative".split()
)
def test_elementwise(name):
    A, a = given(3, 5, low=0.1 if name in ("sqrt", "rsqrt", "log") else -3.0)
    expected = 1 / np.sqrt(a) if name == "rsqrt" else getattr(np, name)(a)
    assert getattr(topi, name)(A).op.tag == "elemwise"
    check(getattr(topi, name)(A), [(A, a)], expected)


@pytest.mark.parametrize(
    "shapes", [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 4), (3, 1)), ((4,), ())]
)
@pytest.mark.parametrize("name", "add subtract multiply divide maximum minimum less greater_equal".split())
def test_broadcast(name, shapes):
    (A, a), (B, b) = given(*shapes[0]), given(*shapes[1], name="B", low=0.5)
    check(getattr(topi, name)(A, B), [(A, a), (B, b)], getattr(np, name)(a, b))
    check(getattr(topi, name)(A, 2.5), [(A, a)], getattr(np, name)(a, np.float32(2.5)))


def test_operators_of_tensors():
    (A, a), (B, b) = given(3, 4), given(4, name="B")
    check((A + B) * 2.0 - A, [(A, a), (B, b)], (a + b) * 2 - a)
    check(-A, [(A, a)], -a)
    check(A.astype("int32"), [(A, a)], a.astype("int32"))
    check(topi.cast(A, "int32"), [(A, a)], a.astype("int32"))


def test_integers():
    A, a = given(20, dtype="int32", low=-30, high=30)
    check(topi.floor_divide(A, 4), [(A, a)], a // 4)
    check(topi.floor_mod(A, 4), [(A, a)], a % 4)
    check(topi.divide(A, 4), [(A, a)], np.trunc(a / 4))
    check(topi.right_shift(A, 1), [(A, a)], a >> 1)
    check(topi.clip(A, -5, 5), [(A, a)], a.clip(-5, 5))


def test_shapes():
    A, a = given(2, 3, 4)
    check(topi.transpose(A), [(A, a)], a.T)
    check(topi.transpose(A, (1, 0, 2)), [(A, a)], a.transpose(1, 0, 2))
    check(topi.reshape(A, (4, 6)), [(A, a)], a.reshape(4, 6))
    check(topi.flip(A, 1), [(A, a)], np.flip(a, 1))
    check(topi.expand_dims(A, 1), [(A, a)], a[:, None])
    check(topi.expand_dims(A, -1, 2), [(A, a)], a[..., None, None])
    check(topi.tile(A, (2, 1, 3)), [(A, a)], np.tile(a, (2, 1, 3)))
    check(topi.repeat(A, 3, 1), [(A, a)], np.repeat(a, 3, 1))
    check(topi.nn.flatten(A), [(A, a)], a.reshape(2, 12))
    B, b = given(2, 5, 4, name="B")
    check(topi.concatenate([A, B, A], 1), [(A, a), (B, b)], np.concatenate([a, b, a], 1))
    check(topi.stack([A, A], 1), [(A, a)], np.stack([a, a], 1))
    C, c = given(1, 3, 1)
    check(topi.squeeze(C), [(C, c)], c.squeeze())
    check(topi.broadcast_to(C, (5, 3, 2)), [(C, c)], np.broadcast_to(c, (5, 3, 2)))
    with pytest.raises(aipu.TVMError):
        topi.squeeze(A, 1)


def test_taking_and_making():
    A, a = given(4, 5)
    P, i = te.placeholder((3,), "int32", name="P"), np.array([1, 7, -1], "int32")
    check(topi.take(A, P), [(A, a), (P, i)], np.take(a, i, mode="clip"))
    check(topi.take(A, P, axis=0, mode="wrap"), [(A, a), (P, i)], np.take(a, i, 0, mode="wrap"))
    check(topi.take(A, P, axis=1), [(A, a), (P, i)], np.take(a, i, 1, mode="clip"))
    check(topi.full((2, 3), "float32", 1.5), [], np.full((2, 3), 1.5))
    check(topi.arange(2, 11, 3, "int32"), [], np.arange(2, 11, 3))
    condition, values = te.placeholder((4, 5), "bool", name="condition"), RNG.rand(4, 5) > 0.5
    check(topi.where(condition, A, topi.negative(A)), [(condition, values), (A, a)], np.where(values, a, -a))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", "sum prod max min".split())
def test_reductions(name, axis, keepdims):
    A, a = given(2, 3, 4)
    check(getattr(topi, name)(A, axis, keepdims), [(A, a)], np.asarray(getattr(np, name)(a, axis, keepdims=keepdims)))


def test_reductions_of_bools_and_indices():
    A, a = te.placeholder((3, 6), "bool", name="A"), RNG.rand(3, 6) > 0.4
    check(topi.all(A, 1), [(A, a)], a.all(1))
    check(topi.any(A, 1), [(A, a)], a.any(1))
    B, b = given(4, 6, dtype="int32", low=0, high=3)
    check(topi.argmax(B, 1), [(B, b)], b.argmax(1))
    check(topi.argmin(B, 0, keepdims=True), [(B, b)], b.argmin(0)[None])
    check(topi.argmax(B), [(B, b)], np.asarray(b.argmax()))
    check(topi.argmax(B, 1, select_last_index=True), [(B, b)], 5 - b[:, ::-1].argmax(1))
    with pytest.raises(aipu.TVMError):
        topi.sum(B, 2)


def test_products():
    (A, a), (B, b) = given(4, 6), given(6, 5, name="B")
    W, w = given(5, 6, name="W")
    bias, v = given(5, name="bias")
    check(topi.matmul(A, B), [(A, a), (B, b)], a @ b, rtol=1e-4, atol=1e-5)
    check(topi.nn.dense(A, W, bias), [(A, a), (W, w), (bias, v)], a @ w.T + v, rtol=1e-4, atol=1e-5)
    (X, x), (Y, y) = given(3, 4, 6, name="X"), given(1, 5, 6, name="Y")
    expected = x @ y.transpose(0, 2, 1)
    check(topi.nn.batch_matmul(X, Y), [(X, x), (Y, y)], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "stride, padding, dilation", [(1, 0, 1), (2, 1, 1), ((1, 2), (1, 0, 2, 1), 1), (1, "SAME", 1), (1, 2, 2)]
)
def test_conv2d(stride, padding, dilation):
    X, x = given(2, 3, 8, 9, name="X")
    W, w = given(4, 3, 3, 3, name="W")
    sy, sx = stride if isinstance(stride, tuple) else (stride, stride)
    amounts = {0: (0, 0, 0, 0), 1: (1, 1, 1, 1), "SAME": (1, 1, 1, 1), 2: (2, 2, 2, 2)}.get(padding, padding)
    top, left, bottom, right = amounts
    p = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    size = 2 * dilation + 1
    rows, cols = (p.shape[2] - size) // sy + 1, (p.shape[3] - size) // sx + 1
    expected = np.zeros((2, 4, rows, cols), "float32")
    for i in range(rows):
        for j in range(cols):
            patch = p[:, :, i * sy : i * sy + size : dilation, j * sx : j * sx + size : dilation]
            expected[:, :, i, j] = np.tensordot(patch, w, ((1, 2, 3), (1, 2, 3)))
    result = topi.nn.conv2d_nchw(X, W, stride, padding, dilation)
    check(result, [(X, x), (W, w)], expected, rtol=1e-4, atol=1e-4)


def test_softmax_and_activations():
    A, a = given(3, 7)
    e = np.exp(a - a.max(1, keepdims=True))
    check(topi.nn.softmax(A), [(A, a)], e / e.sum(1, keepdims=True))
    check(topi.nn.softmax(A, 0), [(A, a)], np.exp(a) / np.exp(a).sum(0))
    check(topi.nn.log_softmax(A), [(A, a)], np.log(e / e.sum(1, keepdims=True)), rtol=1e-4, atol=1e-5)
    check(topi.nn.relu(A), [(A, a)], np.maximum(a, 0))
    check(topi.nn.leaky_relu(A, 0.1), [(A, a)], np.where(a > 0, a, a * np.float32(0.1)))
    check(topi.nn.pad(A, (1, 0), (0, 2), 5.0), [(A, a)], np.pad(a, ((1, 0), (0, 2)), constant_values=5))
    with pytest.raises(ValueError):
        topi.nn.pad(A, (1,))


def test_symbolic_extents():
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    y = topi.nn.softmax(topi.add(topi.transpose(A), 1.0))
    f = aipu.build(te.create_schedule(y.op), [A, y], "interpreter")
    for shape in [(1, 1), (3, 5)]:
        a, out = RNG.rand(*shape).astype("float32"), np.zeros(shape[::-1], "float32")
        f(a, out)
        e = np.exp(a.T)
        np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)
