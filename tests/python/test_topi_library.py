"""Operators that test_topi.py does not have: against NumPy, with and without the schedule of the rules."""

import os

import aipu
import numpy as np
import pytest
from aipu import te, topi

RNG = np.random.RandomState(11)
TARGETS = ["host", "X2_1204"]


def check(result, inputs, expected, rtol=1e-4, atol=1e-5, target=None, rules=False):
    """``inputs``: pairs of a placeholder and its array."""
    target = target or os.environ.get("AIPU_TOPI_TARGET", "interpreter")
    s = topi.generic.schedule([result], target) if rules else te.create_schedule(result.op)
    out = np.full(expected.shape, 77).astype(result.dtype)
    aipu.build(s, [t for t, _ in inputs] + [result], target)(*[a for _, a in inputs], out)
    np.testing.assert_allclose(out, expected, rtol=rtol, atol=atol)


def given(*shape, dtype="float32", name="A", low=-3.0, high=3.0):
    array = RNG.uniform(low, high, shape).astype(dtype)
    return te.placeholder(shape, dtype, name=name), array


# --- moving elements --------------------------------------------------------------------------------------------------


def test_slices_and_parts():
    A, a = given(5, 6, 7)
    check(topi.strided_slice(A, [1, 0, -3], [4, 6, 7], [1, 2, 1]), [(A, a)], a[1:4, 0:6:2, -3:7])
    check(topi.strided_slice(A, [4, 5], [0, -7], [-2, -1]), [(A, a)], a[4:0:-2, 5::-1])
    check(topi.strided_slice(A, [1], [3], axes=[2]), [(A, a)], a[:, :, 1:3])
    check(topi.strided_slice(A, [1, 2, 0], [2, -1, 3], slice_mode="size"), [(A, a)], a[1:3, 2:, :3])
    for part, expected in zip(topi.split(A, 3, 1), np.split(a, 3, 1)):
        check(part, [(A, a)], expected)
    for part, expected in zip(topi.split(A, (2, 3), 2), np.split(a, (2, 3), 2)):
        check(part, [(A, a)], expected)
    with pytest.raises(aipu.TVMError, match="4 equal parts"):
        topi.split(A, 4, 0)


def test_gathers():
    A, a = given(4, 5)
    J, i = given(3, 5, dtype="int32", name="J", low=0, high=4)
    check(topi.gather(A, 0, J), [(A, a), (J, i)], np.take_along_axis(a, i, 0))
    N, n = given(2, 3, dtype="int32", name="N", low=0, high=4)
    check(topi.gather_nd(A, N), [(A, a), (N, n)], a[n[0], n[1]])
    check(topi.one_hot(N, 2.0, -1.0, 4, -1, "float32"), [(N, n)], np.where(np.eye(4)[n] > 0, 2.0, -1.0))
    check(topi.one_hot(N, 1, 0, 4, 0, "int32"), [(N, n)], np.moveaxis(np.eye(4, dtype="int32")[n], -1, 0))
    check(topi.unravel_index(N, (2, 2)), [(N, n)], np.stack(np.unravel_index(n, (2, 2))))


def test_masks_and_matrices():
    A, a = given(4, 3, 2)
    L, lengths = te.placeholder((3,), "int32", name="L"), np.array([1, 4, 2], "int32")
    mask = np.arange(4)[:, None] < lengths[None]
    check(topi.sequence_mask(A, L, -9.0, axis=0), [(A, a), (L, lengths)], np.where(mask[..., None], a, -9))
    expected = a.copy()
    for k, n in enumerate(lengths):
        expected[:n, k] = a[:n, k][::-1]
    check(topi.reverse_sequence(A, L, 0, 1), [(A, a), (L, lengths)], expected)
    M, m = given(2, 4, 5, name="M")
    check(topi.trilu(M, 1, True), [(M, m)], np.triu(m, 1))
    check(topi.trilu(M, 0, False), [(M, m)], np.tril(m, 0))
    D, d = given(2, 4, name="D")
    expected = m.copy()
    expected[:, np.arange(4), np.arange(4)] = d
    check(topi.matrix_set_diag(M, D), [(M, m), (D, d)], expected)


def test_layouts():
    A, a = given(2, 6, 3, 4)
    packed = a.reshape(2, 3, 2, 3, 4).transpose(0, 1, 3, 4, 2)
    check(topi.layout_transform(A, "NCHW", "NCHW2c"), [(A, a)], packed)
    check(topi.layout_transform(A, "NCHW", "NHWC"), [(A, a)], a.transpose(0, 2, 3, 1))
    P, p = te.placeholder(packed.shape, name="P"), np.ascontiguousarray(packed)
    check(topi.layout_transform(P, "NCHW2c", "NCHW"), [(P, p)], a)
    padded = np.zeros((2, 2, 3, 4, 4), "float32")
    padded[:] = np.pad(a, ((0, 0), (0, 2), (0, 0), (0, 0))).reshape(2, 2, 4, 3, 4).transpose(0, 1, 3, 4, 2)
    check(topi.layout_transform(A, "NCHW", "NCHW4c"), [(A, a)], padded)
    with pytest.raises(aipu.TVMError, match="no layout"):
        topi.layout_transform(A, "NC2HW", "NCHW")


def test_whole_tensors():
    A, a = given(3, 4)
    check(topi.shape(A), [(A, a)], np.array([3, 4], "int32"))
    check(topi.ndarray_size(A), [(A, a)], np.array(12, "int32"))
    check(topi.elemwise_sum([A, A, A]), [(A, a)], a * 3)
    check(topi.cumsum(A, 1), [(A, a)], a.cumsum(1))
    check(topi.cumsum(A), [(A, a)], a.cumsum())
    check(topi.cumprod(A, 0, exclusive=True), [(A, a)], np.vstack([np.ones(4), a.cumprod(0)[:-1]]))
    check(topi.collapse_sum(A, (1, 4)), [(A, a)], a.sum(0, keepdims=True))
    check(topi.collapse_sum(A, (4,)), [(A, a)], a.sum(0))
    B, b = given(4, 3, 2, name="B")
    check(topi.tensordot(A, B, 1), [(A, a), (B, b)], np.tensordot(a, b, 1))
    check(topi.tensordot(A, B, ((0, 1), (1, 0))), [(A, a), (B, b)], np.tensordot(a, b, ((0, 1), (1, 0))))
    E, e = given(3, 1, 4, name="E")
    check(topi.expand_like(A, te.placeholder((3, 5, 4)), 1), [(A, a)], np.broadcast_to(a[:, None], (3, 5, 4)))
    check(topi.where(topi.greater(E, 0.0), E, 1.5), [(E, e)], np.where(e > 0, e, 1.5))
    X, x = given(3, name="X")
    Y, y = given(4, name="Y")
    for made, expected in zip(topi.meshgrid([X, Y], "xy"), np.meshgrid(x, y, indexing="xy")):
        check(made, [(X, x)] if made.op.input_tensors[0] == X else [(Y, y)], expected)
    flags = topi.greater(A, 0.0)
    check(topi.sum(flags, 1), [(A, a)], (a > 0).any(1))


# --- convolutions, pooling --------------------------------------------------------------------------------------------


def convolve(x, w, stride, pads, dilation, groups=1):
    """NCHW by OIHW; ``pads``: top, left, bottom, right."""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    height = (x.shape[2] - (w.shape[2] - 1) * dilation - 1) // stride + 1
    width = (x.shape[3] - (w.shape[3] - 1) * dilation - 1) // stride + 1
    out = np.zeros((x.shape[0], w.shape[0], height, width), "float32")
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for o in range(w.shape[0]):
        channels = slice(o // per_out * per_in, (o // per_out + 1) * per_in)
        for r in range(w.shape[2]):
            for c in range(w.shape[3]):
                rows = slice(r * dilation, r * dilation + (height - 1) * stride + 1, stride)
                cols = slice(c * dilation, c * dilation + (width - 1) * stride + 1, stride)
                out[:, o] += (x[:, channels, rows, cols] * w[o, :, r, c][None, :, None, None]).sum(1)
    return out


@pytest.mark.parametrize("stride, padding, dilation", [(1, 0, 1), (2, 1, 1), (1, "SAME", 2), (2, (1, 0, 2, 1), 1)])
def test_convolutions(stride, padding, dilation):
    X, x = given(2, 4, 7, 6, name="X")
    W, w = given(3, 4, 3, 3, name="W")
    same = (dilation, dilation, dilation, dilation)
    pads = same if padding == "SAME" else (padding,) * 4 if isinstance(padding, int) else padding
    expected = convolve(x, w, stride, pads, dilation)
    inputs = [(X, x), (W, w)]
    check(topi.nn.conv2d_nchw(X, W, stride, padding, dilation), inputs, expected)
    check(topi.nn.conv2d(X, W, stride, padding, dilation), inputs, expected, rules=True)
    X1, W1 = te.placeholder((2, 7, 6, 4), name="X1"), te.placeholder((3, 3, 4, 3), name="W1")
    last = [(X1, np.ascontiguousarray(x.transpose(0, 2, 3, 1))), (W1, np.ascontiguousarray(w.transpose(2, 3, 1, 0)))]
    check(topi.nn.conv2d_nhwc(X1, W1, stride, padding, dilation), last, expected.transpose(0, 2, 3, 1))
    G, g = given(6, 2, 3, 3, name="G")
    grouped = convolve(x, g, stride, pads, dilation, groups=2)
    check(topi.nn.group_conv2d_nchw(X, G, stride, padding, dilation, 2), [(X, x), (G, g)], grouped)
    D, d = given(4, 2, 3, 3, name="D")
    single = convolve(x, d.reshape(8, 1, 3, 3), stride, pads, dilation, groups=4)
    check(topi.nn.depthwise_conv2d_nchw(X, D, stride, padding, dilation), [(X, x), (D, d)], single)


def test_convolutions_of_other_ranks():
    X, x = given(2, 3, 8, name="X")
    W, w = given(4, 3, 3, name="W")
    expected = convolve(x[:, :, None], w[:, :, None], 2, (0, 1, 0, 1), 1)[:, :, 0]
    check(topi.nn.conv1d_ncw(X, W, 2, 1), [(X, x), (W, w)], expected)
    V, v = given(1, 2, 3, 4, 5, name="V")
    K, k = given(2, 2, 2, 3, 3, name="K")
    expected = sum(
        np.stack([convolve(v[:, :, d + r], k[:, :, r], 1, (0,) * 4, 1) for d in range(2)], 2) for r in range(2)
    )
    check(topi.nn.conv3d_ncdhw(V, K, 1, 0), [(V, v), (K, k)], expected)
    A, a = given(1, 2, 3, 3, name="A")
    T, t = given(2, 3, 3, 3, name="T")
    spread = np.zeros((1, 2, 5, 5), "float32")
    spread[:, :, ::2, ::2] = a
    expected = convolve(spread, t[:, :, ::-1, ::-1].transpose(1, 0, 2, 3), 1, (1,) * 4, 1)
    check(topi.nn.conv2d_transpose_nchw(A, T, 2, 1), [(A, a), (T, t)], expected)


def pool(x, kernel, stride, pads, kind, counted, ceil_mode=False):
    extra = [(k - 1 if ceil_mode else 0) for k in (stride, stride)]
    fill = -np.inf if kind == "max" else 0.0
    wide = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=fill)
    inside = np.zeros(wide.shape[2:], "float32")
    inside[pads[0] : pads[0] + x.shape[2], pads[1] : pads[1] + x.shape[3]] = 1
    if counted:
        inside[:] = 1
    size = [(wide.shape[2 + d] - kernel + extra[d]) // stride + 1 for d in range(2)]
    out = np.zeros((*x.shape[:2], *size), "float32")
    for i in range(size[0]):
        for j in range(size[1]):
            part = (slice(i * stride, i * stride + kernel), slice(j * stride, j * stride + kernel))
            window = wide[:, :, part[0], part[1]]
            if kind == "max":
                out[:, :, i, j] = window.max((2, 3))
            else:
                out[:, :, i, j] = window.sum((2, 3)) / max(inside[part].sum(), 1)
    return out


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("ceil_mode", [True, False])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 2, 1)])
def test_pooling(kind, counted, ceil_mode, pads):
    X, x = given(1, 3, 8, 7, name="X")
    made = topi.nn.pool2d(X, (3, 3), (2, 2), (1, 1), pads, kind, ceil_mode, "NCHW", counted)
    check(made, [(X, x)], pool(x, 3, 2, pads, kind, counted, ceil_mode))


def test_pooling_of_whole_images():
    X, x = given(2, 3, 8, 6, name="X")
    check(topi.nn.global_pool(X, "avg"), [(X, x)], x.mean((2, 3), keepdims=True))
    check(topi.nn.global_pool(X, "max"), [(X, x)], x.max((2, 3), keepdims=True))
    expected = np.zeros((2, 3, 3, 4), "float32")
    for i in range(3):
        for j in range(4):
            rows, cols = slice(i * 8 // 3, -(-(i + 1) * 8 // 3)), slice(j * 6 // 4, -(-(j + 1) * 6 // 4))
            expected[:, :, i, j] = x[:, :, rows, cols].mean((2, 3))
    check(topi.nn.adaptive_pool(X, (3, 4), "avg"), [(X, x)], expected)
    Y, y = given(2, 3, 9, name="Y")
    check(topi.nn.pool1d(Y, 3, 3, 1, (0, 0), "max"), [(Y, y)], y.reshape(2, 3, 3, 3).max(3))


# --- normalisation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["interpreter", *TARGETS])
@pytest.mark.parametrize("rules", [False, True])
def test_normalisation(target, rules):
    def same(result, inputs, expected):
        check(result, inputs, expected, target=target, rules=rules, rtol=1e-3, atol=1e-4)

    A, a = given(3, 4, 6)
    (G, g), (B, b) = given(6, name="G"), given(6, name="B")
    mean, var = a.mean(-1, keepdims=True), a.var(-1, keepdims=True)
    inputs = [(A, a), (G, g), (B, b)]
    same(topi.nn.layer_norm(A, G, B, [2]), inputs, (a - mean) / np.sqrt(var + 1e-5) * g + b)
    root = np.sqrt((a * a).mean(-1, keepdims=True) + 1e-5)
    same(topi.nn.rms_norm(A, G, [2]), inputs[:2], a / root * g)
    same(topi.nn.softmax(A), inputs[:1], np.exp(a) / np.exp(a).sum(-1, keepdims=True))
    same(topi.nn.log_softmax(A, 1), inputs[:1], a - np.log(np.exp(a).sum(1, keepdims=True)))


def test_normalisation_of_channels():
    A, a = given(2, 4, 3, 5)
    (G, g), (B, b) = given(4, name="G"), given(4, name="B")
    (M, m), (V, v) = given(4, name="M"), given(4, name="V", low=0.5)
    inputs = [(A, a), (G, g), (B, b)]

    def affine(x):
        return x * g[:, None, None] + b[:, None, None]

    def normal(x, axes):
        return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)

    check(topi.nn.instance_norm(A, G, B, 1, [2, 3]), inputs, affine(normal(a, (2, 3))), rtol=1e-3, atol=1e-4)
    grouped = normal(a.reshape(2, 2, 2, 3, 5), (2, 3, 4)).reshape(a.shape)
    check(topi.nn.group_norm(A, G, B, 2, 1, [2, 3]), inputs, affine(grouped), rtol=1e-3, atol=1e-4)
    made = topi.nn.batch_norm(A, G, B, M, V)
    expected = affine((a - m[:, None, None]) / np.sqrt(v[:, None, None] + 1e-5))
    check(made[0], [*inputs, (M, m), (V, v)], expected, rtol=1e-3, atol=1e-4)
    squares = np.pad(a * a, ((0, 0), (1, 1), (0, 0), (0, 0)))
    total = squares[:, :4] + squares[:, 1:5] + squares[:, 2:6]
    check(topi.nn.lrn(A, 3, alpha=0.1), [(A, a)], a / (2 + total * 0.1 / 3) ** 0.75)
    S, slope = given(4, name="S")
    check(topi.nn.prelu(A, S), [(A, a), (S, slope)], np.where(a > 0, a, a * slope[:, None, None]))
    check(topi.nn.bias_add(A, G), inputs[:2], a + g[:, None, None])


def test_padding():
    A, a = given(3, 4)
    check(topi.nn.mirror_pad(A, (2, 1), (1, 3), "REFLECT"), [(A, a)], np.pad(a, ((2, 1), (1, 3)), "reflect"))
    check(topi.nn.mirror_pad(A, (2, 1), (1, 3)), [(A, a)], np.pad(a, ((2, 1), (1, 3)), "symmetric"))
    spread = np.full((5, 10), 0.5, "float32")
    spread[::2, ::3] = a
    check(topi.nn.dilate(A, (2, 3), 0.5), [(A, a)], spread)
    with pytest.raises(ValueError, match="dilate"):
        topi.nn.dilate(A, (2,))


# --- rules ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_rules_schedule_what_has_none(target):
    (A, a), (B, b) = given(33, 40), given(40, name="B")
    chain = topi.nn.relu(topi.multiply(topi.add(A, B), 2.0))
    check(chain, [(A, a), (B, b)], np.maximum((a + b) * 2, 0), target=target, rules=True)
    check(topi.sum(A, 1), [(A, a)], a.sum(1), target=target, rules=True, rtol=1e-3, atol=1e-4)
    check(topi.max(A, 0), [(A, a)], a.max(0), target=target, rules=True)
    check(topi.argmax(A, 1), [(A, a)], a.argmax(1), target=target, rules=True)
    W, w = given(40, 24, name="W")
    check(topi.matmul(A, W), [(A, a), (W, w)], a @ w, target=target, rules=True, rtol=1e-3, atol=1e-4)
    text = aipu.lower(topi.generic.schedule([chain], target), [A, B, chain]).script()
    assert "parallel" in text and "vectorized" in text and "allocate" not in text


def test_rules_by_the_current_target():
    A, _ = given(64)
    made = topi.nn.relu(A)
    with aipu.target.Target("X2_1204") as target:
        assert target.keys == ["compass"] and aipu.target.Target.current() == target
        s = topi.generic.schedule_injective(made)
        assert int(s[made].relations[0].factor) == 64
    with aipu.target.Target("llvm -mcpu=host-avx2"):
        s = topi.generic.schedule_injective([made])
        assert int(s[made].relations[1].factor) == 16
    assert aipu.target.Target.current() is None
    with pytest.raises(ValueError):
        aipu.target.Target("no_such_target")
    assert topi.utils.get_const_tuple(A.shape) == (64,)
