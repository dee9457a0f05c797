"""Calls of a built kernel: arguments, their checks, memory, caching."""

import logging
import os
import threading
import time
import weakref

import aipu
import numpy as np
import pytest
from aipu import script as S


@S.prim_func
def add_n(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), n: S.i32):
    for i in range(n):
        b[i] = a[i] + n


@S.prim_func
def fill(out: S.ptr("i32", "global"), value: S.i32, n: S.i32):
    for i in range(n):
        out[i] = value


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    def build(func, target="X2_1204"):
        return aipu.tir.BuildManager(target=target, output_dir=str(tmp_path_factory.mktemp(func.__name__))).build(func)

    return build


@pytest.mark.parametrize("target", ["X2_1204", "host", "X3P_1304"])
def test_targets(built, target):
    ex = built(add_n, target)
    a, b = np.arange(5, dtype="int32"), np.zeros(5, "int32")
    ex(a, b, 5)
    np.testing.assert_array_equal(b, a + 5)


@S.prim_func
def quarter(out: S.ptr("i32", "global"), n: S.i32, m: S.i32):
    more = n + 4
    out[0] = more // 4
    out[1] = (n - m) // 4


def test_parameters_that_are_divided_by_shifts_are_not_negative(built):
    """The text has `more >> 2`, which is no quotient of a negative number; of `n - m` it has one."""
    out = np.zeros(2, "int32")
    ex = built(quarter)
    assert "(more >> 2)" in ex.c_code and "((n - m) / 4)" in ex.c_code
    ex(out, 5, 12)
    np.testing.assert_array_equal(out, [2, -1])
    with pytest.raises(Exception, match="a parameter that the kernel divides by shifts is negative: -9"):
        ex(out, -9, 0)
    ex(out, 0, 9)
    np.testing.assert_array_equal(out, [1, -2])
    built(quarter, "host")(out, -9, 0)
    np.testing.assert_array_equal(out, [-1, -2])


def test_scalars_of_all_types(built):
    @S.prim_func
    def scalars(
        out: S.ptr("fp32", "global"),
        a: S.i8,
        b: S.u8,
        c: S.i16,
        d: S.u16,
        e: S.i32,
        f: S.u32,
        g: S.fp16,
        h: S.fp32,
        i: S.bool,
    ):
        out[0] = S.fp32(a)
        out[1] = S.fp32(b)
        out[2] = S.fp32(c)
        out[3] = S.fp32(d)
        out[4] = S.fp32(e)
        out[5] = S.fp32(f)
        out[6] = S.fp32(g)
        out[7] = h
        if i:
            out[8] = 1.0

    ex = built(scalars)
    out = np.zeros(9, "float32")
    ex(out, -7, 250, -3000, 60000, -70000, 4000000000, 1.5, 0.25, True)
    assert out.tolist() == [-7, 250, -3000, 60000, -70000, 4e9, 1.5, 0.25, 1]
    out[:] = 0
    ex(
        out,
        np.int8(-7),
        np.uint8(1),
        np.int16(2),
        np.uint16(3),
        np.int32(4),
        np.uint32(5),
        np.float16(6),
        np.float32(7),
        np.bool_(False),
    )
    assert out.tolist() == [-7, 1, 2, 3, 4, 5, 6, 7, 0]


def test_arguments_by_name(built):
    ex = built(add_n)
    a, b = np.arange(4, dtype="int32"), np.zeros(4, "int32")
    ex(a, n=4, b=b)
    np.testing.assert_array_equal(b, a + 4)
    with pytest.raises(AssertionError, match='unexpect keyword args: "m"'):
        ex(a, b, m=4)
    with pytest.raises(AssertionError, match='multiple values for args: "a"'):
        ex(a, b, a=a)
    with pytest.raises(AssertionError, match='expect 3 args, but got: "2"'):
        ex(a, b=b)


def test_each_scalar_value_is_seen(built):
    ex = built(add_n)
    a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    for n in (3, 8, 3, 5):
        b[:] = 0
        ex(a, b, n)
        np.testing.assert_array_equal(b[:n], a[:n] + n)
        assert not b[n:].any()


def test_many_kinds_of_calls(built):
    ex = built(fill)
    for n in range(1, 60):
        out = np.full(n, -1, "int32")
        ex(out, n, n)
        assert (out == n).all()
    out = np.full(3, -1, "int32")
    ex(out, 9, 3)
    assert out.tolist() == [9, 9, 9]


def test_unwritten_elements_keep_their_values(built):
    ex = built(fill)
    out = np.arange(10, dtype="int32")
    ex(out, -5, 4)
    assert out.tolist() == [-5] * 4 + [4, 5, 6, 7, 8, 9]


def test_output_without_input(built):
    ex = built(fill)
    out = np.zeros(4, "int32")
    ex(out, 3, 4)
    assert out.tolist() == [3] * 4


def test_argument_in_both_roles(built):
    @S.prim_func
    def shift_by(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), n: S.i32):
        if S.get_local_id() == 0:
            for i in range(n):
                b[i] = a[i] + n

    ex = built(shift_by)
    a = np.arange(6, dtype="int32")
    ex(a, a, 6)
    np.testing.assert_array_equal(a, np.arange(6) + 6)


def test_view_is_passed_by_base_and_offset(built):
    ex = built(add_n)
    whole = np.arange(32, dtype="int32").reshape(4, 8)
    column_block = whole[1:3, 2:6]
    assert not column_block.flags.c_contiguous
    out = np.zeros(4, "int32")
    ex(column_block, out, 4)
    np.testing.assert_array_equal(out, whole[1, 2:6] + 4)
    target = np.zeros((4, 8), "int32")
    ex(out, target[2:, 4:], 4)
    np.testing.assert_array_equal(target[2, 4:], out + 4)
    assert target.sum() == target[2, 4:].sum()


def test_transposed_views_are_memory_as_it_lies(built):
    ex = built(add_n)
    a = np.arange(6, dtype="int32").reshape(2, 3)
    out = np.zeros(6, "int32")
    ex(a.T, out, 6)
    np.testing.assert_array_equal(out, np.arange(6) + 6)
    ex(np.asfortranarray(a), out, 6)
    np.testing.assert_array_equal(out, np.array([0, 3, 1, 4, 2, 5]) + 6)


def test_null_pointers(built):
    @S.prim_func
    def maybe(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), out: S.ptr("i32", "global")):
        if a.is_nullptr:
            out[0] = b[0] + 100
        else:
            out[0] = a[0]

    ex = built(maybe)
    a, b, out = np.array([1], "int32"), np.array([2], "int32"), np.zeros(1, "int32")
    ex(a, b, out)
    assert out[0] == 1
    ex(None, b, out)
    assert out[0] == 102
    ex(0, b, out)
    assert out[0] == 102
    text = open(f"{maybe.output_dir}/gbuilder/compass_ir.txt").read()
    assert "\na=0" in text and "input_tensors=[input0]" in text


def test_constant_tensors_follow_their_contents(built):
    @S.prim_func
    def weigh(x: S.ptr("fp32", "global"), w: S.ptr("fp32", "global.1"), y: S.ptr("fp32", "global")):
        S.vstore(S.vload(x) * S.vload(w), y)

    bm = aipu.tir.BuildManager()
    ex = bm.build(weigh)
    assert [p.category for p in bm.prim_func_info.param_infos] == ["input_tensor", "const_tensor", "output_tensor"]
    x, w, y = np.arange(8, dtype="float32"), np.full(8, 2, "float32"), np.zeros(8, "float32")
    ex(x, w, y)
    np.testing.assert_array_equal(y, x * 2)
    w[:] = 3
    ex(x, w, y)
    np.testing.assert_array_equal(y, x * 3)
    text = open(f"{bm.output_dir}/gbuilder/compass_ir.txt").read()
    assert "w_type=float32\nw_shape=[8]\nw_offset=0\nw_size=32\n" in text
    assert np.array_equal(np.fromfile(f"{bm.output_dir}/gbuilder/compass_ir.bin", "float32"), w)


def test_printf_of_all_tecs(built, capfd):
    @S.prim_func
    def talk(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        S.printf("tec %d says %d\n", S.get_local_id(), a[0])
        b[0] = a[0]

    ex = built(talk)
    ex(np.array([5], "int32"), np.zeros(1, "int32"))
    assert sorted(capfd.readouterr().out.split("\n")[:-1]) == [f"tec {i} says 5" for i in range(4)]


# --- checks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_argument_count(built, count):
    args = [np.zeros(1, "int32")] * count
    with pytest.raises(AssertionError, match=f'The function "add_n" expect 3 args, but got: "{count}".'):
        built(add_n)(*args)
    with pytest.raises(AssertionError, match=f'The function "add_n" expect 3 args, but got: "{count}".'):
        add_n(*args)


def test_other_types_for_pointers(built):
    out = np.zeros(1, "int32")
    with pytest.raises(AssertionError, match='The 1-th arg expect a NumPy, but got: "list".'):
        built(add_n)([1], out, 1)
    with pytest.raises(AssertionError, match='The 2-th arg expect a NumPy, but got: "float".'):
        built(add_n)(out, 1.5, 1)


def test_dtype_warning(built, caplog):
    with caplog.at_level(logging.WARNING, logger="Compass"):
        built(add_n)(np.zeros(1, "int32"), np.zeros(1, "float32"), 1)
    texts = [r.getMessage() for r in caplog.records if r.name == "Compass"]
    assert texts == ['The 2-th arg of function "add_n" expect a int32 NumPy, but got: "float32".']


def test_dtype_warning_reaches_stderr(built, capfd):
    built(add_n)(np.zeros(1, "int32"), np.zeros(1, "float32"), 1)
    import re

    assert re.search(
        r'WARN.* The 2-th arg of function "add_n" expect a int32 NumPy, but got: "float32".', capfd.readouterr().err
    )


def test_read_only_output(built):
    out = np.zeros(4, "int32")
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        built(fill)(out, 1, 4)
    ex = built(add_n)
    result = np.zeros(4, "int32")
    ex(out, result, 4)  # read-only inputs are fine
    assert result.tolist() == [4] * 4


def test_no_output():
    @S.prim_func
    def silent(a: S.ptr("i32", "global")):
        x = a[0] + 1
        S.printf("%d", x)

    ex = aipu.tir.BuildManager().build(silent)
    with pytest.raises(AssertionError, match="Function must has at least one output."):
        ex(np.zeros(1, "int32"))


def test_not_a_number(built):
    with pytest.raises(AssertionError, match='The 3-th arg of function "add_n" expect a number, but got: "str".'):
        built(add_n)(np.zeros(1, "int32"), np.zeros(1, "int32"), "many")


def test_threads_share_an_executor(built):
    ex = built(add_n)
    failures = []

    def work(seed):
        a, b = np.arange(64, dtype="int32") + seed, np.zeros(64, "int32")
        for _ in range(50):
            ex(a, b, 64)
            if not np.array_equal(b, a + 64):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def tasks_settle_at(most: int) -> bool:
    """Whether no more than `most` threads are left soon: the system needs a moment to take an ended one off its
    list.
    """
    for _ in range(200):
        if len(os.listdir("/proc/self/task")) <= most:
            return True
        time.sleep(0.02)
    return False


def test_executors_go_away():
    ex = aipu.tir.BuildManager().build(fill)
    before = len(os.listdir("/proc/self/task"))
    for _ in range(3):
        again = aipu.tir.BuildManager().build(fill)
        again(np.zeros(4, "int32"), 1, 4)
        again.profile(np.zeros(4, "int32"), 1, 4)
    ex(np.zeros(4, "int32"), 1, 4)
    reference = weakref.ref(again)
    del again, ex
    assert reference() is None  # no cycle, so without the collector
    assert tasks_settle_at(before)


def test_benchmark(built):
    result = built(add_n).benchmark(np.zeros(4, "int32"), np.zeros(4, "int32"), 4, repeat=3, number=2)
    assert len(result.results) == 3 and 0 < result.min <= result.mean <= result.max


def test_rpc_session_sets_the_triple(built):
    ex = built(add_n)
    assert ex.rpc_sess is None and ex.mtriple is None
    ex.rpc_sess = object()
    assert ex.mtriple == "aarch64-linux-gnu"
