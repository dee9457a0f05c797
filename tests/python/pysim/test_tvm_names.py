"""Names that users of TVM know: as Python, compiled by gcc and by clang, interpreted."""

from __future__ import annotations

import math

import aipu
import numpy as np
import pytest
from aipu import script as S
from executors import EVERYWHERE, Executor, pysim


@pytest.fixture(params=EVERYWHERE)
def run(request, tmp_path) -> Executor:
    """run(kernel)(*arguments)"""
    return lambda kernel: request.param(kernel, tmp_path)


def test_loops(run) -> None:
    @S.prim_func
    def loops(out: S.ptr("i32", "global"), n: S.i32):
        S.func_attr({"global_symbol": "loops", "tir.noalias": True})
        for i in S.serial(n):
            out[i] = i
        for i in S.parallel(2, n):
            out[10 + i] = i
        for i in S.unroll(4):
            out[20 + i] = i * i
        for i in S.unroll(n):
            out[30 + i] = i + 1
        for t in S.thread_binding(0, 4, thread="threadIdx.x"):
            out[40 + t] = t + 7
        out[44] = 0
        for i in range(2):
            out[10 + i] = 0

    out = np.zeros(45, np.int32)
    run(loops)(out, 10)
    assert out[:10].tolist() == list(range(10)) and out[12:20].tolist() == list(range(2, 10))
    assert out[20:24].tolist() == [0, 1, 4, 9] and out[30:40].tolist() == list(range(1, 11))
    assert out[40:44].tolist() == [7, 8, 9, 10]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_quotients(run, dtype: str) -> None:
    @S.prim_func
    def quotients(x: S.ptr(dtype, "global"), y: S.ptr(dtype, "global"), out: S.ptr(dtype, "global"), n: S.i32):
        for i in range(n):
            out[4 * i] = S.floordiv(x[i], y[i])
            out[4 * i + 1] = S.floormod(x[i], y[i])
            out[4 * i + 2] = S.truncdiv(x[i], y[i])
            out[4 * i + 3] = S.truncmod(x[i], y[i])

    signed = np.iinfo(dtype).min < 0
    values = [7, -7, 8, -8, 1, 0, 100, -100] if signed else [7, 8, 1, 0, 100, 200]
    divisors = [3, -3, 1, 5, -8] if signed else [3, 1, 5, 8]
    x, y = (v.astype(dtype).reshape(-1) for v in np.meshgrid(values, divisors))
    out = np.zeros(4 * x.size, dtype)
    run(quotients)(x, y, out, x.size)
    for row, a, b in zip(out.reshape(-1, 4).tolist(), x.tolist(), y.tolist()):
        assert row == [a // b, a % b, int(a / b), int(math.fmod(a, b))], (a, b)


def test_quotients_of_vectors_and_constants(run) -> None:
    @S.prim_func
    def quotients(x: S.ptr("i32x8", "global"), out: S.ptr("i32x8", "global"), known: S.ptr("i32", "global")):
        out[0] = S.floordiv(x[0], 3)
        out[1] = S.floormod(x[0], -3)
        out[2] = S.truncdiv(x[0], 3)
        out[3] = S.truncmod(x[0], -3)
        known[0] = S.floordiv(-7, 2)
        known[1] = S.floormod(-7, 2)
        known[2] = S.truncdiv(-7, 2)
        known[3] = S.truncmod(-7, 2)

    x = np.array([7, -7, 0, 9, -9, 1, -1, 100], np.int32)
    out, known = np.zeros(32, np.int32), np.zeros(4, np.int32)
    run(quotients)(x, out, known)
    expected = [[v // 3 for v in x], [v % -3 for v in x], [int(v / 3) for v in x], [math.fmod(v, -3) for v in x]]
    np.testing.assert_array_equal(out.reshape(4, 8), expected)
    assert known.tolist() == [-4, 1, -3, -1]


def test_choices_and_numbers(run) -> None:
    @S.prim_func
    def chooses(x: S.ptr("i32", "global"), out: S.ptr("i32", "global"), n: S.i32, wide: S.ptr("fp32", "global")):
        out[0] = S.if_then_else(n > 3, n, -1)
        out[1] = S.Select(S.likely(n > 3), -2, n * 2)
        v = S.vload(x)
        S.vstore(S.Select(v > 3, v, 0), out + 8)
        out[2] = S.min_value("int32")
        out[3] = S.max_value("int32")
        out[4] = S.max_value("u8")
        out[5] = S.min_value("i8")
        out[6] = S.let(n + 1) * 2
        S.evaluate(0)
        S.Assert(True, "never")
        out[7] = S.if_then_else(True, 5, n)
        wide[0] = S.max_value("fp32")
        wide[1] = S.min_value("float32")
        wide[2] = S.infinity("fp32")
        wide[3] = S.max_value("fp16")

    x, out, wide = np.arange(8, dtype=np.int32), np.zeros(16, np.int32), np.zeros(4, np.float32)
    run(chooses)(x, out, 5, wide)
    assert out[:8].tolist() == [5, -2, -(2**31), 2**31 - 1, 255, -128, 12, 5]
    np.testing.assert_array_equal(out[8:], np.where(x > 3, x, 0))
    greatest = np.finfo(np.float32).max
    assert wide.tolist() == [greatest, -greatest, np.inf, 65504.0]


FUNCTIONS = {
    "log2": np.log2,
    "log10": np.log10,
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "trunc": np.trunc,
    "round": np.rint,
    "tan": np.tan,
    "atan": np.arctan,
}


@pytest.mark.parametrize("dtype, lanes", [("fp32", 8), ("fp16", 16), ("fp32", 0), ("fp16", 0), ("fp32", 11)])
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions(run, name: str, dtype: str, lanes: int) -> None:
    function = getattr(S, name)

    @S.prim_func
    def computes(x: S.ptr(dtype, "global"), out: S.ptr(dtype, "global")):
        if lanes == 0:
            for i in range(16):
                out[i] = function(x[i])
        else:
            S.vstore(function(S.vload(x, lanes=lanes)), out)
            for i in range(lanes, 16):
                out[i] = function(x[i])

    element = np.dtype(S.ptr(dtype).dtype)
    x = np.array([0.1, 0.25, 0.5, 1, 2, 4, 8, 1000, 0.3, 1.5, 2.5, 3.7, 10, 100, 5, 7], element)
    out = np.zeros(16, element)
    run(computes)(x, out)
    wanted = FUNCTIONS[name](x.astype(np.float64))
    np.testing.assert_allclose(out.astype(np.float64), wanted, rtol=2 * np.finfo(element).eps, atol=1e-6)
    if name == "log2":
        assert out[1:7].tolist() == [-2, -1, 0, 1, 2, 3]


def test_assertions(capfd) -> None:
    @S.prim_func
    def fails(out: S.ptr("i32", "global")):
        S.Assert(1 > 2, "one is less")
        out[0] = 1

    @S.prim_func
    def unknown(out: S.ptr("i32", "global"), n: S.i32):
        S.Assert(n > 2, "n is small")
        out[0] = 1

    with pytest.raises(RuntimeError):
        aipu.tir.BuildManager().lower(fails)
    assert "Assertion failed: one is less" in capfd.readouterr().err
    with pytest.raises(AssertionError, match="one is less"):
        pysim(fails)(np.zeros(1, np.int32))
    with pytest.raises(RuntimeError):
        aipu.tir.BuildManager().lower(unknown)
    assert "The condition of S.Assert must be known when the kernel is compiled." in capfd.readouterr().err
