"""Block schedules of kernels of the DSL, whose sizes are known when they run."""

import re

import aipu
import numpy as np
import pytest
from aipu import schedule
from aipu import script as S
from aipu.schedule import Schedule, ScheduleError
from block_kernels import TARGETS, call, floats


@S.prim_func
def add(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), c: S.ptr("fp32", "global"), n: S.i32):
    ab = S.match_buffer(a, shape=(n,))
    bb = S.match_buffer(b, shape=(n,))
    cb = S.match_buffer(c, shape=(n,))
    for i in range(n):
        with S.block("add"):
            vi = S.axis.spatial(n, i)
            cb[vi] = ab[vi] + bb[vi]


@S.prim_func
def halve(x: S.ptr("fp16", "global"), y: S.ptr("fp16", "global"), n: S.i32):
    xb = S.match_buffer(x, shape=(n,))
    yb = S.match_buffer(y, shape=(n,))
    for p in range(n):
        with S.block("halve_block"):
            q = S.axis.spatial(n, p)
            yb[q] = xb[q] * 0.5


@S.prim_func
def row_sums(x: S.ptr("i32", "global"), y: S.ptr("i32", "global")):
    xb = S.match_buffer(x, shape=(12, 20))
    yb = S.match_buffer(y, shape=(12,))
    for i, k in S.grid(12, 20):
        with S.block("sum"):
            vi, vk = S.axis.remap("SR", [i, k])
            if vk == 0:
                yb[vi] = 0
            yb[vi] = yb[vi] + xb[vi, vk]


def added(n=1000):
    a, b = floats(n), floats(n)[::-1].copy()
    return [a, b, np.zeros(n, "float32"), n], a + b


# --- functions of the DSL ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [1024, 1000, 7, 1, 0])
def test_vectorized_over_tecs(target, n):
    sch = Schedule(add)
    (i,) = sch.get_loops("add")
    tec, _, lanes = sch.split(i, factors=[4, None, 8])
    sch.bind_tec(tec)
    sch.vectorize(lanes)
    args, expected = added(n)
    call(sch, target, *args)
    assert (args[2] == expected).all()


def test_the_function_stays_as_it_is_and_runs_as_python():
    args, expected = added(40)
    sch = Schedule(add)
    sch.vectorize(sch.split(sch.get_loops("add")[0], factors=[None, 8])[1])
    add(*args)  # without a build
    assert (args[2] == expected).all()
    assert [p.name for p in add.param_infos] == ["a", "b", "c", "n"]
    args[2][:] = 0
    executor = call(sch, "X2_1204", *args)
    assert (args[2] == expected).all()
    args[2][:] = 0
    executor(a=args[0], b=args[1], c=args[2], n=40)  # parameters have the names of the function
    assert (args[2] == expected).all()


def test_the_example_of_the_specification():
    sch = Schedule(halve)
    (p,) = sch.get_loops("halve_block")
    outer, inner = sch.split(p, factors=[None, 16])
    sch.vectorize(inner)
    x, y = np.arange(100).astype("float16"), np.zeros(100, "float16")
    for target in TARGETS:
        y[:] = 0
        call(sch, target, x, y, 100)
        assert (y == x * np.float16(0.5)).all()


def test_reductions_of_the_dsl_start_from_their_first_store():
    x = np.random.default_rng(1).integers(-99, 99, (12, 20)).astype("int32")
    sch = Schedule(row_sums)
    i, k = sch.get_loops("sum")
    ko, ki = sch.split(k, factors=[None, 8])
    sch.reorder(ko, ki, i)
    sch.vectorize(i)
    assert "init" in sch.mod.script()
    for target in TARGETS:
        y = np.full(12, 5, "int32")
        call(sch, target, x, y)
        assert (y == x.sum(axis=1)).all()


def test_what_a_block_may_hold():
    @S.prim_func
    def clip(x: S.ptr("i32", "global"), y: S.ptr("i32", "global"), n: S.i32, top: S.i32):
        xb = S.match_buffer(x, shape=(n, 5))
        yb = S.match_buffer(y, shape=(n, 5))
        for i in range(n):
            for j in range(1, 4):
                with S.block("clip"):
                    value = xb[i, j]
                    if value > top:
                        yb[i, j] = top
                    else:
                        yb[i, j] = S.max(value // 2, -3)

    x = np.random.default_rng(2).integers(-20, 20, (30, 5)).astype("int32")
    sch = Schedule(clip)
    i, j = sch.get_loops("clip")
    sch.bind_tec(sch.split(i, factors=[4, None])[0])
    expected = np.zeros_like(x)
    expected[:, 1:4] = np.where(x > 4, 4, np.maximum(np.trunc(x / 2).astype("int32"), -3))[:, 1:4]
    for target in TARGETS:
        y = np.zeros_like(x)
        call(sch, target, x, y, 30, 4)
        np.testing.assert_array_equal(y, expected)


def test_what_cannot_be_scheduled_is_refused_by_its_line():
    @S.prim_func
    def straight(x: S.ptr("i32", "global"), n: S.i32):
        x[0] = n

    with pytest.raises(ScheduleError, match=r"_kernels.py:\d+: a function that is scheduled has loops"):
        Schedule(straight)

    @S.prim_func
    def empty(x: S.ptr("i32", "global")):
        for _ in range(3):
            pass

    with pytest.raises(ScheduleError, match="no S.block"):
        Schedule(empty)
    with pytest.raises(ValueError, match="function with blocks"):
        Schedule(3)
    with pytest.raises(aipu.DiagnosticError):

        @S.prim_func
        def wrong(x: S.ptr("i32", "global")):
            with S.block("b"):
                x[0] = 1

        Schedule(wrong)


def staged(n, piece=64):
    """Vector add with its pieces in lsram."""
    sch = Schedule(add)
    (i,) = sch.get_loops("add")
    tec, chunk, vector, lane = sch.split(i, factors=[4, None, piece // 8, 8])
    sch.bind_tec(tec)
    copies = [sch.cache_read("add", 0, "lsram"), sch.cache_read("add", 1, "lsram")]
    out = sch.cache_write("add", 0, "lsram")
    for copy in copies:
        sch.compute_at(copy, chunk)
    sch.reverse_compute_at(out, chunk)
    sch.vectorize(lane)
    return sch, [c.name for c in copies + [out]]


@pytest.mark.parametrize("n", [1024, 1000, 3])
def test_copies_become_dma(n):
    sch, copies = staged(n)
    assert copies == ["ab_lsram", "bb_lsram", "cb_lsram"]
    for target in TARGETS:
        args, expected = added(n)
        executor = call(sch, target, *args)
        assert (args[2] == expected).all()
    text = sch.mod["main"].native.text()
    assert re.search(r'ab_lsram = allocate\(\(64\), "float32", "lsram"\)', text)  # shrunk to what is used at a time
    assert len(re.findall("DmaDirect", executor.c_code)) == 3 or executor.c_code.count("Dma") >= 3


def test_read_at_and_write_at():
    by_hand, _ = staged(1000)
    sch = Schedule(add)
    tec, chunk, _, lane = sch.split(sch.get_loops("add")[0], factors=[4, None, 8, 8])
    sch.bind_tec(tec)
    assert sch.read_at(chunk, "add", 0, "lsram").name == "ab_lsram"
    sch.read_at(chunk, "add", 1, "lsram")
    assert sch.write_at(chunk, "add", 0, "lsram").name == "cb_lsram"
    sch.vectorize(lane)
    assert sch.mod["main"].native.text().count("lsram") == by_hand.mod["main"].native.text().count("lsram")
    args, expected = added(1000)
    call(sch, "X2_1204", *args)
    assert (args[2] == expected).all()


def test_more_lsram_than_there_is():
    sch, _ = staged(100000, piece=8192)
    with pytest.raises(RuntimeError, match="lsram"):
        aipu.tir.BuildManager().build(sch.mod)


@pytest.mark.parametrize("n", [1024, 1000, 5, 40000])
def test_ready_made(n):
    args, expected = added(n)
    sch = schedule.elementwise_binary(add, "X2_1204", "add")
    call(sch, "X2_1204", *args)
    assert (args[2] == expected).all()
