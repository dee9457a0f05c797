"""Loads, stores, slices and DMA of every element type, as Python and compiled."""

from __future__ import annotations

import functools

import memory_kernels
import numpy as np
import numpy_truth as truth
import pytest
from executors import EXECUTORS, Executor

DTYPES = (*truth.INTS, "float16", "float32")


@functools.lru_cache(maxsize=None)
def _kernels(dtype: str):
    return memory_kernels.make(dtype)


@pytest.fixture(params=EXECUTORS)
def run(request, tmp_path) -> Executor:
    """run(kernel)(*arguments)"""
    return lambda kernel: request.param(kernel, tmp_path)


def _data(dtype: str, size: int) -> np.ndarray:
    return (np.arange(size) * 7 % 121 + 1).astype(dtype)


def _native(dtype: str) -> int:
    return 32 // np.dtype(dtype).itemsize


@pytest.mark.parametrize("dtype", DTYPES)
def test_loads(run, dtype: str) -> None:
    kernels, n, stride, lanes = _kernels(dtype), 3, 4, _native(dtype)
    x, out = _data(dtype, 400), np.zeros(1000, dtype)
    run(kernels.loads)(x, out, n, stride)
    letters, bits = truth.mask_lanes(kernels.letters, lanes), truth.mask_lanes(kernels.bits, lanes)
    wide = 2 * lanes + 3
    expected = np.zeros_like(out)
    expected[:lanes] = x[n : n + lanes]
    expected[100 : 100 + lanes] = np.where(letters, x[n : n + lanes], 0)
    expected[200 : 200 + lanes] = np.where(bits, x[n : n + lanes], 0)
    expected[300 : 300 + n] = x[n : 2 * n]
    expected[400 : 400 + wide] = x[1 : 1 + wide]
    expected[500 : 500 + wide] = x[1 : 1 + 2 * wide : 2]
    expected[600 : 600 + lanes] = x[: lanes * stride : stride]
    expected[700 : 700 + lanes] = np.where(letters, x[: lanes * stride : stride], 0)
    expected[800:805] = x[n : n + 5]
    expected[900:907] = x[n : n + 20 : 3]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_stores(run, dtype: str) -> None:
    kernels, n, stride, lanes = _kernels(dtype), 3, 4, _native(dtype)
    x, out = _data(dtype, 100), np.full(1100, 99, dtype)
    run(kernels.stores)(x, out, n, stride)
    letters, bits = truth.mask_lanes(kernels.letters, lanes), truth.mask_lanes(kernels.bits, lanes)
    wide = 2 * lanes + 3
    expected = np.full_like(out, 99)
    expected[n : n + lanes] = x[:lanes]
    expected[100 : 100 + lanes][letters] = x[:lanes][letters]
    expected[200 : 200 + lanes][bits] = x[:lanes][bits]
    expected[300 : 300 + n] = x[:n]
    expected[400 : 400 + wide] = x[:wide]
    expected[500 : 500 + 2 * wide : 2] = x[:wide]
    expected[700 : 700 + lanes * stride : stride] = x[:lanes]
    expected[850 : 850 + lanes * stride : stride][letters] = x[:lanes][letters]
    expected[1000 + n : 1005 + n] = x[:5]
    expected[1020:1040:3] = x[:7]
    expected[1040] = x[n]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_and_scatter(run, dtype: str) -> None:
    kernels, lanes = _kernels(dtype), _native(dtype)
    x, out = _data(dtype, 200), np.full(400, 99, dtype)
    indices = (np.arange(lanes) * 37 % 150).astype(np.int16)
    places = (np.arange(lanes) * 11 % (lanes + 20)).astype(np.uint16)
    places[1] = places[0]  # the last one stays
    run(kernels.indexed)(x, indices, places, out)
    letters, bits = truth.mask_lanes(kernels.letters, lanes), truth.mask_lanes(kernels.bits, lanes)
    expected = np.full_like(out, 99)
    expected[:lanes] = x[indices]
    expected[100 : 100 + lanes] = np.where(letters, x[indices], 0)
    for k in range(lanes):
        expected[200 + places[k]] = x[k]
        if bits[k]:
            expected[300 + places[k]] = x[k]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vector_pointers(run, dtype: str) -> None:
    kernels, n, lanes = _kernels(dtype), 2, _native(dtype)
    x, out = _data(dtype, 4 * lanes), np.full(10 * lanes, 99, dtype)
    run(kernels.vectors)(x, out, n)
    expected = np.full_like(out, 99)
    expected[:lanes] = x[n * lanes : (n + 1) * lanes]
    expected[(n + 1) * lanes : (n + 2) * lanes] = x[lanes : 2 * lanes]
    expected[6 * lanes + 5 : 6 * lanes + 10] = x[5 * n : 5 * n + 5]
    expected[8 * lanes : 10 * lanes] = x[lanes : 3 * lanes]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_buffers_and_dma(run, dtype: str) -> None:
    x, out = _data(dtype, 96), np.zeros(140, dtype)
    run(_kernels(dtype).buffers)(x, out, 4)
    expected = np.zeros_like(out)
    for tid in range(4):
        row = x[tid * 24 : tid * 24 + 24]
        part = expected[tid * 24 : tid * 24 + 24]
        part[:8] = row[:24:3][::-1]
        part[8] = x[24 + tid]
        part[9] = row[23]
        part[10:15] = row[1:6]
        part[16:24] = row[16:24]
    for t in range(3):
        expected[96 + 5 * t : 100 + 5 * t] = x[8 * t : 8 * t + 4]
    expected[120:127] = 3
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_matrix_multiply(run, dtype: str) -> None:
    from aipu import script as S

    alias = {"float16": "fp16x16", "bfloat16": "bf16x16"}[dtype]

    @S.prim_func
    def multiply(x: S.ptr(alias, "global"), y: S.ptr(alias, "global"), out: S.ptr("fp32", "global")):
        if S.get_local_id() == 0:
            S.vmml(out, x[0], y[0])
            S.vmma(out, x[1], y[1])

    rng = np.random.default_rng(5)
    x, y = (truth.Lanes(truth.rounded(rng.normal(size=32), dtype), dtype) for _ in range(2))
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    out = np.zeros(16, np.float32)
    run(multiply)(*(v.to_bytes().view(dtype) for v in (x, y)), out)
    a, b = x.values.reshape(2, 4, 4), y.values.reshape(2, 4, 4)
    np.testing.assert_allclose(out.reshape(4, 4), sum(p @ q.T for p, q in zip(a, b)), rtol=1e-3, atol=1e-5)


def test_printed_text_is_the_same(run, capfd) -> None:
    from aipu import script as S

    @S.prim_func
    def prints(x: S.ptr("i32", "global"), out: S.ptr("i32", "global"), n: S.i32, f: S.fp32):
        if S.get_local_id() == 2:
            S.printf("%d|%u|%x|%X|%o|%f|%c|%s|%%\n", n, n, n, S.u8(255), S.i32(8), f, S.i32(65), "text")
            S.printf("%v8hlx %v8hlf\n", x.as_ptr("i32x8")[0], S.fp32x8(-1.75))
            out[0] = 1

    x = np.array([1, 2, 3, -1, 5, 6, 7, 255], np.int32)
    run(prints)(x, np.zeros(1, np.int32), -5, -2.6666667)
    expected = "-5|4294967291|0xfffffffb|0xFF|010|-2.666666|A|text|%\n"
    expected += "0x1,0x2,0x3,0xffffffff,0x5,0x6,0x7,0xff " + ",".join(["-1.750000"] * 8) + "\n"
    assert capfd.readouterr().out == expected


def test_addresses_as_integers(run) -> None:
    from aipu import script as S

    @S.prim_func
    def sub(p: S.ptr("i32", "global"), out: S.ptr("i32", "global"), step: S.u32):
        address = S.reinterpret(p, "uint32")
        for k in range(4):
            q = S.reinterpret(address + step * S.cast(k, "u32"), "i32 *")
            out[k] = q[0]

    @S.prim_func
    def addresses(x: S.ptr("i32", "global"), out: S.ptr("i32", "global")):
        stage = S.alloc(8, "i32", scope="lsram")
        S.dma_copy(stage, x, 8)
        u = S.reinterpret(stage, "uint32")
        if S.get_local_id() == 0:
            sub(x + 8, out, 8)
            sub(x + 7, out + 4, S.u32(-4))
            v = S.reinterpret(u + 12, "lsram i32 *")
            out[8] = v[0]
            out[9] = S.cast(S.reinterpret(x + 3, "uint32") - S.reinterpret(x, "uint32"), "i32")
            null = S.reinterpret(S.u32(0), "i32 *")
            if null.is_nullptr:
                out[10] = 1

    x, out = _data("int32", 32), np.zeros(11, np.int32)
    run(addresses)(x, out)
    assert out.tolist() == [*x[[8, 10, 12, 14]], *x[[7, 6, 5, 4]], x[3], 12, 1]
