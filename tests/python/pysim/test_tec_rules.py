"""PySim's rules of TECs: how they run and wait, events, the limits of DMA, and the phrases of what it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest
from aipu import script as S
from executors import ints, simulate


@S.prim_func
def copy(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
    b[0] = a[0]


# --- TECs ---


def test_four_tecs_with_local_and_shared_memory() -> None:
    @S.prim_func
    def exchange(out: S.ptr("i32", "global")):
        shared = S.alloc_buffer((4,), "i32", scope="shared")
        local = S.alloc_buffer((1,), "i32", scope="lsram")
        tid = S.get_local_id()
        for step in range(10):
            local[0] = tid * 10 + step
            shared[tid] = local[0]
            S.barrier()
            out[step * 4 + tid] = shared[(tid + 1) % 4]
            S.barrier()

    out = np.zeros(40, np.int32)
    simulate(exchange, out)
    assert out.reshape(10, 4).tolist() == [[(t + 1) % 4 * 10 + step for t in range(4)] for step in range(10)]


def test_tec_range() -> None:
    @S.prim_func
    def spread(out: S.ptr("i32", "global")):
        for t in S.tec_range(1, 3):
            out[t] = t + 1

    out = np.zeros(4, np.int32)
    simulate(spread, out)
    assert out.tolist() == [0, 2, 3, 0]


def test_a_tec_that_ends_does_not_hold_up_the_others() -> None:
    @S.prim_func
    def uneven(out: S.ptr("i32", "global")):
        tid = S.get_local_id()
        if tid != 1:
            out[tid] = 1
            S.barrier()
            out[tid] = out[tid] + out[(tid + 2) % 4]

    out = np.zeros(4, np.int32)
    simulate(uneven, out)
    assert out[1] == 0 and out[0] >= 2


def test_the_first_failure_is_raised_and_nobody_hangs() -> None:
    @S.prim_func
    def fails(out: S.ptr("i32", "global")):
        if S.get_local_id() == 2:
            raise ValueError("TEC 2 says no")
        S.barrier()
        out[0] = 1

    out = ints(0)
    with pytest.raises(ValueError, match="TEC 2 says no"):
        simulate(fails, out)
    assert out[0] == 0
    simulate(copy, ints(4), out)  # and PySim still works
    assert out[0] == 4


def test_single_thread(monkeypatch) -> None:
    monkeypatch.setenv("CPS_TVM_PYSIM_SINGLE_THREAD", "TRUE")
    out = ints(0)
    simulate(copy, ints(3), out)
    assert out[0] == 3

    @S.prim_func
    def waits(out: S.ptr("i32", "global")):
        S.barrier()

    with pytest.raises(AssertionError, match="PySim can't be run in single thread for this DSL program."):
        simulate(waits, out)


def test_random_pauses_keep_a_correct_program_correct(monkeypatch) -> None:
    monkeypatch.setenv("CPS_DSL", "rp")
    test_four_tecs_with_local_and_shared_memory()


# --- events ---


def test_a_missing_wait_shows() -> None:
    @S.prim_func
    def impatient(a: S.ptr("i32", "global"), out: S.ptr("i32", "global")):
        stage = S.alloc(8, "i32", scope="lsram")
        if S.get_local_id() == 0:
            event = S.alloc_events(1)
            S.dma_memset(stage, 0, 8)
            S.async_dma_copy(stage, a, 8, event=event)
            out[0] = stage[3]
            S.wait_events(event)
            out[1] = stage[3]
            S.async_dma_copy(out + 8, stage, 8, event=event)  # finished by the end of the kernel at the latest

    out = np.zeros(16, np.int32)
    simulate(impatient, np.arange(8, dtype=np.int32), out)
    assert out[0] == 0 and out[1] == 3
    assert out[8:].tolist() == list(range(8))


def test_barriers_wait_for_events() -> None:
    @S.prim_func
    def through_shared(a: S.ptr("i32", "global"), out: S.ptr("i32", "global")):
        shared = S.alloc_buffer((8,), "i32", scope="shared")
        event = S.alloc_events(1)
        if S.get_local_id() == 3:
            S.async_dma_copy(shared, a, 8, event=event)
        S.barrier()
        out[S.get_local_id()] = shared[S.get_local_id() + 4]

    out = np.zeros(4, np.int32)
    simulate(through_shared, np.arange(8, dtype=np.int32), out)
    assert out.tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize(
    "use, phrase",
    [
        (lambda e, a, s: S.wait_events(e), "The released event can not be used anymore."),
        (lambda e, a, s: S.free_events(e), "The released event can not be used anymore."),
        (
            lambda e, a, s: S.async_dma_copy(s, a, 8, event=e),
            'The arg "event" is a released event, can not be used anymore.',
        ),
    ],
)
def test_released_events(use, phrase: str) -> None:
    @S.prim_func
    def after_release(a: S.ptr("i32", "global")):
        stage = S.alloc(8, "i32", scope="lsram")
        event = S.alloc_events(1)
        S.free_events(event)
        use(event, a, stage)

    with pytest.raises(AssertionError, match=re.escape(phrase)):
        simulate(after_release, np.zeros(8, np.int32))


def test_events_come_back() -> None:
    @S.prim_func
    def many(a: S.ptr("i32", "global")):
        for _ in range(10):
            events = S.alloc_events(4)
            S.free_events(*events)

    simulate(many, ints(0))


# --- DMA limits ---


@pytest.mark.parametrize(
    "copy_it, phrase",
    [
        (lambda a, l, s: S.dma_copy(l, a, 33 * 256), "32768"),
        (lambda a, l, s: S.dma_copy(l, a, 10, src_stride=4, times=2), 'The arg "src_stride" expect >= "10"'),
        (lambda a, l, s: S.dma_copy(l, a, -1), 'The arg "width" expect >= 0'),
        (lambda a, l, s: S.dma_copy(l, s, 4), 'Does not support copy data from scope "shared" to "lsram".'),
        (
            lambda a, l, s: S.dma_upsample(a, a, 2, 2, 1, 1),
            "Only support upsample data between DDR(global) and SRAM(lsram, shared).",
        ),
        (lambda a, l, s: S.dma_transpose2d(a, a, 4, 4, dst_stride=3), 'The arg "row" expect <= its stride'),
        (lambda a, l, s: S.async_dma_copy(a, a, 0x4000, event=S.alloc_events(1)), "65535"),
    ],
)
def test_dma_limits(copy_it, phrase: str) -> None:
    @S.prim_func
    def copies(a: S.ptr("i32", "global")):
        lsram = S.alloc(8, "i32", scope="lsram")
        shared = S.alloc(8, "i32", scope="shared")
        copy_it(a, lsram, shared)

    with pytest.raises(AssertionError, match=re.escape(phrase)):
        simulate(copies, np.zeros(64, np.int32))


def test_a_copy_of_nothing() -> None:
    @S.prim_func
    def nothing(a: S.ptr("i32", "global")):
        S.dma_copy(S.alloc(8, "i32", scope="lsram"), a, 0)
        S.dma_memset(a, 1, 0)

    a = ints(5)
    simulate(nothing, a)
    assert a[0] == 5
