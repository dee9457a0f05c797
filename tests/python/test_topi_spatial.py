"""Operators that enlarge images or move blocks of them, FIFO buffers, bits, scattering: against NumPy."""

import aipu
import numpy as np
import pytest
from aipu import te, topi
from test_topi_library import check, given


def blocks(x, n):
    """NCHW to [N, n, n, C, H / n, W / n]."""
    b, c, h, w = x.shape
    return x.reshape(b, c, h // n, n, w // n, n).transpose(0, 3, 5, 1, 2, 4)


def test_images_enlarged_by_pixels():
    A, a = given(1, 3, 5, 6)
    check(topi.nn.upsampling(A, 2, 3), [(A, a)], a.repeat(2, 2).repeat(3, 3))
    B, b = given(1, 4, 6, 2)
    rows, columns = [0, 0, 1, 2, 2, 3], [0, 0, 1, 2, 2, 3, 4, 4, 5]
    check(topi.nn.upsampling(B, 1.5, 1.5, layout="NHWC"), [(B, b)], b[:, rows][:, :, columns])
    with pytest.raises(aipu.TVMError, match="bicubic"):
        topi.nn.upsampling(A, 2, 2, method="bicubic")


@pytest.mark.parametrize("align", [False, True])
def test_images_enlarged_linearly(align):
    A, a = given(2, 2, 4, 5)
    size = (8, 15)
    places = []
    for n, m in zip(a.shape[2:], size):
        i = np.arange(m)
        place = i * (n - 1) / (m - 1) if align else (i + 0.5) * n / m - 0.5
        places.append(np.clip(place, 0, n - 1))
    rows = np.stack([[[np.interp(places[0], np.arange(4), c[:, w]) for w in range(5)] for c in n] for n in a])
    expected = np.stack([[[np.interp(places[1], np.arange(5), c[:, h]) for h in range(8)] for c in n] for n in rows])
    result = topi.nn.upsampling(A, 2, 3, method="bilinear", align_corners=align)
    check(result, [(A, a)], expected.astype("float32"), rtol=1e-4, atol=1e-4)


def test_blocks_of_pixels_as_channels():
    A, a = given(2, 3, 4, 6)
    deep = blocks(a, 2).reshape(2, 12, 2, 3)
    check(topi.nn.space_to_depth(A, 2), [(A, a)], deep)
    B, b = given(2, 12, 2, 3)
    dcr = b.reshape(2, 2, 2, 3, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(2, 3, 4, 6)
    cdr = b.reshape(2, 3, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 3, 4, 6)
    check(topi.nn.depth_to_space(B, 2), [(B, b)], dcr)
    check(topi.nn.depth_to_space(B, 2, mode="CDR"), [(B, b)], cdr)
    D = te.placeholder(deep.shape, name="D")
    check(topi.nn.depth_to_space(D, 2), [(D, deep)], a)  # the inverse
    H, h = given(2, 4, 6, 3)
    last = blocks(h.transpose(0, 3, 1, 2), 2).reshape(2, 12, 2, 3).transpose(0, 2, 3, 1)
    check(topi.nn.space_to_depth(H, 2, "NHWC"), [(H, h)], last)


def test_blocks_as_a_batch():
    A, a = given(2, 3, 6, 2)
    padded = np.pad(a, ((0, 0), (1, 2), (0, 0), (0, 0)), constant_values=5)
    expected = padded.reshape(2, 3, 2, 2, 3, 2).transpose(2, 4, 0, 1, 3, 5).reshape(12, 3, 2, 2)
    check(topi.nn.space_to_batch_nd(A, [2, 3], [1, 0], [2, 0], 5.0), [(A, a)], expected)
    B = te.placeholder(expected.shape, name="B")
    check(topi.nn.batch_to_space_nd(B, [2, 3], [1, 0], [2, 0]), [(B, expected)], a)
    with pytest.raises(ValueError, match="no multiple of 4"):
        topi.nn.space_to_batch_nd(A, [4], [0], [0])


def test_channels_scaled_and_buffers():
    A, a = given(2, 3, 4, 5)
    S, s = given(3, name="S")
    T, t = given(3, name="T")
    check(topi.nn.scale_shift_nchw(A, S, T), [(A, a), (S, s), (T, t)], a * s[:, None, None] + t[:, None, None])
    B, b = given(2, 3, 7, 5, name="B")
    check(topi.nn.fifo_buffer(A, B, 2), [(A, a), (B, b)], np.concatenate([b[:, :, 4:], a], axis=2))


def test_products_of_signs():
    A, a = given(4, 64)
    W, w = given(5, 64, name="W")
    packed = [topi.nn.binarize_pack(X, 1) for X in (A, W)]
    bits = np.packbits(a >= 0, axis=1).view(">u4").astype("uint32")
    check(packed[0], [(A, a)], bits, rtol=0, atol=0)
    signs = [np.where(x >= 0, 1.0, -1.0) for x in (a, w)]
    check(topi.nn.binary_dense(*packed), [(A, a), (W, w)], signs[0] @ signs[1].T)


@pytest.mark.parametrize("right", [False, True])
def test_places_in_sorted_sequences(right):
    sequence = np.sort(np.random.default_rng(1).integers(0, 9, 20)).astype("float32")
    S = te.placeholder((20,), name="S")
    V, v = given(4, 3, low=-2, high=11, dtype="int32", name="V")
    values = v.astype("float32")
    F = te.placeholder((4, 3), name="F")
    expected = np.searchsorted(sequence, values, "right" if right else "left").astype("int32")
    check(topi.searchsorted(S, F, right, "int32"), [(S, sequence), (F, values)], expected)
    rows = np.sort(np.random.default_rng(2).random((4, 6)).astype("float32"), axis=1)
    R = te.placeholder((4, 6), name="R")
    picked = np.stack([np.searchsorted(r, x) for r, x in zip(rows, values / 10)])
    T = te.placeholder((4, 3), name="T")
    if not right:
        check(topi.searchsorted(R, T, dtype="int32"), [(R, rows), (T, (values / 10))], picked.astype("int32"))


def test_scattered_elements():
    A, a = given(5, 4)
    U, u = given(3, 2, 4, name="U")
    index = np.array([[[0, 2], [4, 2], [1, 0]]], "int32")
    K = te.placeholder(index.shape, "int32", name="K")
    changed, added = a.copy(), a.copy()
    for k in np.ndindex(3, 2):
        changed[index[0][k]] = u[k]  # the last of several
        added[index[0][k]] += u[k]
    check(topi.scatter_nd(A, K, U, "update"), [(A, a), (K, index), (U, u)], changed)
    check(topi.scatter_nd(A, K, U, "add"), [(A, a), (K, index), (U, u)], added)
    V, v = given(3, name="V")
    points = np.array([[0, 4, 0], [1, 3, 1]], "int32")
    P = te.placeholder(points.shape, "int32", name="P")
    one = a.copy()
    one[points[0], points[1]] = v
    check(topi.scatter_nd(A, P, V), [(A, a), (P, points), (V, v)], one)
    with pytest.raises(aipu.TVMError, match="update or add"):
        topi.scatter_nd(A, K, U, "mul")


@pytest.mark.parametrize("target", ["host", "X2_1204"])
def test_by_the_rules(target):
    A, a = given(2, 8, 4, 6)
    check(topi.nn.space_to_depth(A, 2), [(A, a)], blocks(a, 2).reshape(2, 32, 2, 3), target=target, rules=True)
    check(topi.nn.upsampling(A, 2, 2), [(A, a)], a.repeat(2, 2).repeat(2, 3), target=target, rules=True)
