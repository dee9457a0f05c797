"""Operators whose result is an order, or whose places are data; Einstein's sums."""

import aipu
import numpy as np
import pytest
from aipu import te, topi
from test_topi_library import RNG, check, given

TARGETS = ["interpreter", "host", "X2_1204"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("ascending", [0, 1])
def test_order(target, axis, ascending):
    a = te.placeholder((4, 9, 5), name="A")
    x = RNG.randint(-3, 4, (4, 9, 5)).astype("float32")  # with equal ones
    sign = 1 if ascending else -1
    order = np.argsort(sign * x, axis=axis, kind="stable")
    check(topi.sort(a, axis, ascending), [(a, x)], np.take_along_axis(x, order, axis), target=target)
    check(topi.argsort(a, axis=axis, is_ascend=ascending, dtype="int32"), [(a, x)], order, target=target)


def test_what_is_no_number_is_last():
    a = te.placeholder((7,), name="A")
    x = np.array([np.nan, 1, -np.inf, np.nan, np.inf, -0.0, 2], "float32")
    check(topi.sort(a), [(a, x)], np.sort(x))
    check(topi.argsort(a, is_ascend=0, dtype="int32"), [(a, x)], np.array([4, 6, 1, 5, 2, 0, 3]))


@pytest.mark.parametrize("k", [1, 3, 0])
def test_largest_and_smallest(k):
    a, x = given(6, 8)
    order = np.argsort(-x, axis=1, kind="stable")[:, : k or 8]
    values, indices = topi.topk(a, k, axis=1)
    assert indices.dtype == "int64"
    check(values, [(a, x)], np.take_along_axis(x, order, 1))
    check(indices, [(a, x)], order)
    check(topi.topk(a, k, 1, "indices", True, "int32"), [(a, x)], np.argsort(x, 1, kind="stable")[:, : k or 8])
    with pytest.raises(ValueError, match="both, values or indices"):
        topi.topk(a, ret_type="all")


def test_sorted_rows_of_any_number():
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    b = topi.sort(a)
    built = aipu.build(topi.generic.schedule(b, "host"), [a, b], "host")
    for size in (0, 1, 13):
        x = RNG.rand(size, size).astype("float32")
        y = np.zeros_like(x)
        built(x, y)
        np.testing.assert_array_equal(y, np.sort(x, 1))


SUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("ii->i", (4, 4)),
    ("ii", (4, 4)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("i,j,k->kij", (2,), (3,), (4,)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("i...->...", (3, 4)),
    ("ij, j -> i", (3, 4), (4,)),
]


@pytest.mark.parametrize("sum_of", SUMS, ids=lambda s: s[0])
def test_sums_of_products(sum_of):
    text, *shapes = sum_of
    inputs = [given(*shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    expected = np.einsum(text, *[x for _, x in inputs])
    check(topi.einsum(text, *[a for a, _ in inputs]), inputs, expected, rtol=1e-3, atol=1e-4)


def test_sums_that_are_refused():
    a = te.placeholder((3, 4), name="A")
    for text, message in [("ij,jk", "2 terms"), ("ijk", "3|dimensions"), ("ij->k", "result"), ("ij->ii", "result")]:
        with pytest.raises(ValueError, match=message):
            topi.einsum(text, a)
    with pytest.raises(ValueError, match="'i' is 3 and 4"):
        topi.einsum("ii", a)


def test_sparse_to_dense():
    values, v = given(4, name="v")
    i1, x1 = te.placeholder((4,), "int32", name="i1"), np.array([1, 4, 0, 4], "int32")
    wanted = np.full(6, -1, "float32")
    for index, value in zip(x1, v):
        wanted[index] = value
    check(topi.sparse_to_dense(i1, (6,), values, -1), [(i1, x1), (values, v)], wanted)
    i2, x2 = te.placeholder((4, 2), "int32", name="i2"), np.array([[0, 1], [2, 2], [1, 0], [9, 9]], "int32")
    wanted = np.zeros((3, 3), "float32")
    for index, value in zip(x2[:3], v):
        wanted[tuple(index)] = value
    check(topi.sparse_to_dense(i2, (3, 3), values), [(i2, x2), (values, v)], wanted)


def test_indices_of_several_dimensions():
    a, x = given(5, 6, 3)
    i, p = te.placeholder((4, 1), "int32", name="i"), np.array([[0], [4], [-1], [2]], "int32")
    j, q = te.placeholder((2,), "int32", name="j"), np.array([5, -6], "int32")
    check(topi.adv_index(a, [i, j]), [(a, x), (i, p), (j, q)], x[p, q])
    check(topi.adv_index(a, [i]), [(a, x), (i, p)], x[p])


@pytest.mark.parametrize("part", [((1, 0), (4, 6), (1, 2)), ((-1, 1), (0, -1), (-2, 1)), ((0, 5), (9, -9), (2, -1))])
def test_assignment_of_slices(part):
    a, x = given(5, 6)
    begin, end, strides = part
    place = tuple(slice(*ends) for ends in zip(begin, end, strides))
    v, y = given(*x[place].shape, name="v")
    wanted = x.copy()
    wanted[place] = y
    check(topi.strided_set(a, v, begin, end, strides), [(a, x), (v, y)], wanted)
    ends = [te.placeholder((2,), "int32", name=n) for n in ("b", "e", "s")]
    arrays = [np.array(values, "int32") for values in part]
    check(topi.strided_set(a, v, *ends), [(a, x), (v, y), *zip(ends, arrays)], wanted)


def test_pixels_and_bits():
    a, x = given(2, 12, 3, 5)
    wanted = x.reshape(2, 3, 2, 2, 3, 5).transpose(0, 1, 4, 2, 5, 3).reshape(2, 3, 6, 10)
    check(topi.pixel_shuffle(a, 2), [(a, x)], wanted)
    check(topi.reinterpret(a, "int32"), [(a, x)], x.view("int32"))
