"""Programs of real size give what NumPy says: as Python, compiled, and interpreted."""

from __future__ import annotations

import numpy as np
import programs
import pytest
from executors import ALL_EXECUTORS, Executor

RNG = np.random.default_rng(20261120)


@pytest.fixture(params=ALL_EXECUTORS)
def run(request, tmp_path) -> Executor:
    """run(kernel)(*arguments)"""
    return lambda kernel: request.param(kernel, tmp_path)


@pytest.mark.parametrize("n", [1, 7, 8, 33, 1000])
def test_vector_add(run, n: int) -> None:
    a, b = RNG.normal(size=(2, n)).astype(np.float32)
    out = np.zeros(n, np.float32)
    run(programs.vector_add)(a, b, out, n)
    np.testing.assert_array_equal(out, a + b)


@pytest.mark.parametrize("rows", [1, 8, 50])
def test_copy_window(run, rows: int) -> None:
    image = RNG.integers(-1000, 1000, (70, 61)).astype(np.int16)
    out = np.zeros((rows, programs.WINDOW), np.int16)
    run(programs.copy_window)(image, out, 61, rows, 5, 9)
    np.testing.assert_array_equal(out, image[5 : 5 + rows, 9 : 9 + programs.WINDOW] * 2)


@pytest.mark.parametrize("blocks", [1, 4, 11, 16])
def test_double_buffered(run, blocks: int) -> None:
    x = RNG.integers(-1000, 1000, blocks * programs.BLOCK).astype(np.int32)
    y = np.zeros_like(x)
    run(programs.double_buffered)(x, y, blocks)
    np.testing.assert_array_equal(y, x * x + 1)


@pytest.mark.parametrize("rows, n", [(1, 8), (5, 37), (9, 64)])
def test_softmax(run, rows: int, n: int) -> None:
    x = (RNG.normal(size=(rows, n)) * 3).astype(np.float16)
    y = np.zeros_like(x)
    run(programs.softmax)(x, y, rows, n)
    exponentials = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, exponentials / exponentials.sum(axis=1, keepdims=True), rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize("m, n, k", [(1, 1, 5), (6, 7, 64), (3, 5, 100)])
def test_quantised_matmul(run, m: int, n: int, k: int) -> None:
    a = RNG.integers(-128, 128, (m, k)).astype(np.int8)
    b = RNG.integers(-128, 128, (n, k)).astype(np.int8)
    out = np.zeros((m, n), np.int8)
    run(programs.quantised_matmul)(a, b, out, m, n, k, 3, 12)
    sums = a.astype(np.int32) @ b.T.astype(np.int32)
    np.testing.assert_array_equal(out, np.clip((sums * 3) >> 12, -128, 127))


def test_bitonic_sort(run) -> None:
    x = RNG.integers(-30000, 30000, (4, programs.LANES)).astype(np.int16)
    y = np.zeros_like(x)
    run(programs.bitonic_sort)(x, y, np.arange(programs.LANES, dtype=np.int16))
    np.testing.assert_array_equal(y, np.sort(x, axis=1))


@pytest.mark.parametrize("n", [5, 128, 300])
def test_table_lookup(run, n: int) -> None:
    x = RNG.integers(0, 80, n).astype(np.uint8)
    table = RNG.integers(0, 256, 64).astype(np.uint8)
    y = np.zeros_like(x)
    run(programs.table_lookup)(x, table, y, n)
    np.testing.assert_array_equal(y, np.where(x < 64, table[x % 64], 0))


@pytest.mark.parametrize("n", [1, 9, 257])
def test_shared_max(run, n: int) -> None:
    x = RNG.normal(size=n).astype(np.float32)
    y = np.zeros(1, np.float32)
    run(programs.shared_max)(x, y, n)
    assert y[0] == x.max()


@pytest.mark.parametrize("blocks", [1, 5, 20])
def test_celu(run, blocks: int) -> None:
    n = blocks * programs.WIDTH
    x = (RNG.normal(size=n) * 3).astype(np.float32)
    y = np.zeros_like(x)
    run(programs.celu)(x, y, n, 1.5)
    expected = np.maximum(x, 0) + 1.5 * np.expm1(np.minimum(x.astype(np.float64), 0) / 1.5)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_transpose(run) -> None:
    x = RNG.integers(0, 65536, (13, 29)).astype(np.uint16)
    y = np.zeros((29, 13), np.uint16)
    run(programs.transpose)(x, y, 13, 29)
    np.testing.assert_array_equal(y, x.T)


def test_upsample_row(run) -> None:
    x = RNG.integers(0, 256, (11, 4)).astype(np.uint8)
    y = np.zeros((2, 33, 4), np.uint8)
    run(programs.upsample_row)(x, y, 11, 4)
    np.testing.assert_array_equal(y, np.stack([np.repeat(x, 3, axis=0)] * 2))
