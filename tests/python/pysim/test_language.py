"""Rules of the language, each in a kernel of its own: as Python, compiled by gcc and by clang, interpreted."""

from __future__ import annotations

import operator
import re

import aipu
import numpy as np
import numpy_truth as truth
import pytest
from aipu import script as S
from executors import EVERYWHERE, Executor, pysim


@pytest.fixture(params=EVERYWHERE)
def run(request, tmp_path) -> Executor:
    """run(kernel)(*arguments)"""
    return lambda kernel: request.param(kernel, tmp_path)


# --- shifts of scalars ---


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_narrow_scalars_shift_as_32_bit_numbers(run, dtype: str) -> None:
    @S.prim_func
    def shifts(x: S.ptr(dtype, "global"), n: S.ptr(dtype, "global"), left: S.ptr(dtype, "global"),
               right: S.ptr(dtype, "global"), named: S.ptr(dtype, "global"), size: S.i32):  # fmt: skip
        for i in range(size):
            left[i] = x[i] << n[i]
            right[i] = x[i] >> n[i]
            y = x[i] << n[i]
            y <<= 1
            named[i] = y

    info = np.iinfo(dtype)
    values = [3, info.max, info.min, 1]
    x, n = (v.astype(dtype).reshape(-1) for v in np.meshgrid(values, np.arange(40)))
    left, right, named = (np.zeros_like(x) for _ in range(3))
    run(shifts)(x, n, left, right, named, x.size)
    wide, counts = x.astype(np.int64), n.astype(np.int64) % 32
    np.testing.assert_array_equal(left, (wide << counts).astype(dtype))
    np.testing.assert_array_equal(right, (wide >> counts).astype(dtype))
    np.testing.assert_array_equal(named, (wide << counts << 1).astype(dtype))


# --- masks ---


@pytest.mark.parametrize("lanes, dtype", [(8, "i32"), (16, "i16"), (32, "i8"), (24, "i8"), (48, "i16"), (5, "i32")])
def test_masks_and_a_scalar_bool(run, lanes: int, dtype: str) -> None:
    vector = getattr(S, f"{dtype}x{lanes}")

    @S.prim_func
    def combine(x: S.ptr(dtype, "global"), out: S.ptr(dtype, "global"), n: S.i32):
        on = n > 3
        mask = S.vload(x, lanes=lanes) > 0
        for k in range(1):
            S.vstore(S.vsel(vector(1), vector(0), mask & on), out)
            S.vstore(S.vsel(vector(1), vector(0), on | mask), out + lanes)
            S.vstore(S.vsel(vector(1), vector(0), mask ^ on), out + 2 * lanes)
            S.vstore(S.vsel(vector(1), vector(0), S.vand(mask, on)), out + 3 * lanes)
            S.vstore(S.vsel(vector(1), vector(0), S.vor(on, mask)), out + 4 * lanes)
            S.vstore(S.vsel(vector(1), vector(0), S.vxor(mask, on)), out + 5 * lanes)

    x = np.where(np.arange(lanes) % 3 == 0, 1, -1).astype(S.ptr(dtype).dtype)
    kernel = run(combine)
    for n in (3, 4):
        out = np.full(6 * lanes, 7, x.dtype)
        kernel(x, out, n)
        wanted = [op(x > 0, n > 3) for op in (operator.and_, operator.or_, operator.xor)]
        np.testing.assert_array_equal(out.reshape(6, lanes), [*wanted, *wanted])


BITS = np.array([True, False, True, True, False, False, True, True, False, True, True, False])
ROWS = np.array([[True] * 8, [False, True] * 4])


def test_masks_from_parts_of_an_array(run) -> None:
    bits, rows = BITS, ROWS

    @S.prim_func
    def masked(x: S.ptr("i32", "global"), out: S.ptr("i32", "global")):
        v = S.vload(x)
        zero = S.i32x8(0)
        S.vstore(S.vsel(v, zero, mask=bits[:8]), out)
        S.vstore(S.vsel(v, zero, bits[4:]), out + 8)
        S.vstore(S.vsel(v, zero, bits[1:12:2]), out + 16)
        S.vstore(S.vsel(v, zero, bits[-3:]), out + 24)
        S.vstore(S.vsel(v, zero, bits[7::-1]), out + 32)
        S.vstore(S.vsel(v, zero, rows[1, :6]), out + 40)
        S.vstore(S.vsel(v, zero, rows[:, 1]), out + 48)
        S.vstore(S.vsel(v, zero, bits[:0]), out + 56)
        S.vstore(S.vsel(v, zero, []), out + 64)
        S.vstore(v, out + 72, mask=())
        S.vstore(S.vadd(v, 1, mask=bits[:8], r=7), out + 80)
        S.vstore(v, out + 88, mask=S.const_mask(bits[:8]))

    x, out = np.arange(1, 9, dtype=np.int32), np.full(96, -1, np.int32)
    run(masked)(x, out)
    parts = [bits[:8], bits[4:], bits[1:12:2], bits[-3:], bits[7::-1], rows[1, :6], rows[:, 1], bits[:0], []]
    for k, part in enumerate(parts):
        mask = np.zeros(8, bool)
        mask[: len(part)] = part
        np.testing.assert_array_equal(out[8 * k : 8 * k + 8], np.where(mask, x, 0), err_msg=str(k))
    assert (out[72:80] == -1).all()
    np.testing.assert_array_equal(out[80:88], np.where(bits[:8], x + 1, 7))
    np.testing.assert_array_equal(out[88:96], np.where(bits[:8], x, -1))


def test_parts_of_an_array_of_numbers(run) -> None:
    table = np.arange(40, dtype=np.int32).reshape(4, 10)

    @S.prim_func
    def parts(out: S.ptr("i32", "global")):
        S.vstore(S.i32x8(table[1, :8]), out)
        row = table[2:, 3]
        out[8] = row[1]
        held = S.alloc_const((5,), "int32", table[3, ::2])
        S.vstore(S.vload(held, lanes=5), out + 9)

    out = np.zeros(14, np.int32)
    run(parts)(out)
    assert out.tolist() == [*table[1, :8], table[3, 3], *table[3, ::2]]


# --- compile-time values ---


def test_meta_var_unpacks(run) -> None:
    @S.prim_func
    def unpacks(x: S.ptr("i32", "global"), out: S.ptr("i32", "global")):
        count, bits = S.meta_var((3, "4T4F"))
        (lanes, dtype), scale = S.meta_var(((5, "i32"), [2, 3]))
        S.vstore(S.vload(x, mask=bits), out)
        S.vstore(S.vload(x, lanes=lanes), out + 8)
        for k in range(count):
            out[13 + k] = S.cast(x[k], dtype) * scale[1]
        if count == 3:
            out[16] = count + 1
        p, q = S.meta_var((S.i32(7), count))
        out[17] = p + q

    x, out = np.arange(1, 9, dtype=np.int32), np.zeros(18, np.int32)
    run(unpacks)(x, out)
    assert out.tolist() == [1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4, 5, 3, 6, 9, 4, 10]


# --- bfloat16 ---


def test_bfloat16_vectors_and_scalars(run) -> None:
    @S.prim_func
    def mixed(x: S.ptr("bf16", "global"), out: S.ptr("bf16", "global"), wide: S.ptr("fp32", "global"),
              flags: S.ptr("i16", "global")):  # fmt: skip
        s = x[1]
        v = S.vload(x)
        S.vstore(v + s, out)
        S.vstore(s - v, out + 16)
        S.vstore(S.vadd(v, s), out + 32)
        S.vstore(S.vmul(s, v, mask="8T8F", r=s), out + 48)
        S.vstore(S.vsel(v, s, mask="8T8F"), out + 64)
        w = v * s
        w += s
        S.vstore(w, out + 80)
        S.vstore(S.max(v, s), out + 96)
        S.vstore(S.clip(v, 0, s), out + 112)
        S.vstore(S.vload(x, lanes=5) * s, out + 128)
        S.vstore(S.fp32x8(1) + s, wide)
        S.vstore(S.vsel(S.i16x16(1), S.i16x16(0), v < s), flags)
        S.vstore(S.vsel(S.i16x16(1), S.i16x16(0), S.vcge(s, v)), flags + 16)

    x = truth.rounded(np.arange(16) / 4 - 1, "bfloat16")
    x[1] = 1.5
    out, wide, flags = np.zeros(133, np.uint16), np.zeros(8, np.float32), np.zeros(32, np.int16)
    run(mixed)(truth.bfloat16_bits(x), out, wide, flags)
    s, low = x[1], np.arange(16) < 8
    expected = [x + s, s - x, x + s, np.where(low, s * x, s), np.where(low, x, s), x * s + s, np.maximum(x, s)]
    expected += [np.minimum(np.maximum(x, 0), s), x[:5] * s]
    np.testing.assert_array_equal(truth.bfloat16_values(out), np.concatenate(expected))  # all of them are exact
    np.testing.assert_array_equal(wide, np.full(8, 2.5, np.float32))
    np.testing.assert_array_equal(flags, np.concatenate([x < s, x <= s]).astype(np.int16))


@pytest.mark.parametrize(
    "use", [lambda s, t: s + t, lambda s, t: S.max(s, t), lambda s, t: S.exp(s), lambda s, t: -s, lambda s, t: s * 2]
)
def test_bfloat16_scalars_do_not_compute(use, capfd) -> None:
    @S.prim_func
    def refused(x: S.ptr("bf16", "global")):
        x[0] = use(x[0], x[1])

    phrase = "There isn't any compute instruction for bfloat16 scalar, please convert it to float32 first."
    with pytest.raises(RuntimeError):
        aipu.tir.BuildManager().lower(refused)
    assert phrase in capfd.readouterr().err
    with pytest.raises(AssertionError, match=re.escape(phrase)):
        pysim(refused)(np.zeros(2, np.uint16))


# --- memory ---


@pytest.mark.parametrize("dtype, lanes", [("i8", 32), ("u16", 16), ("i32", 8), ("fp32", 8), ("fp16", 40), ("i32", 3)])
@pytest.mark.parametrize("scope", ["global", "lsram"])
def test_memset_counts_scalars(run, dtype: str, lanes: int, scope: str) -> None:
    vector, on_chip = f"{dtype}x{lanes}", scope == "lsram"

    @S.prim_func
    def fill(out: S.ptr(dtype, "global"), n: S.i32):
        if S.get_local_id() == 0:
            stage = S.alloc(100, dtype, scope="lsram")
            S.dma_memset(stage, 1, 100)
            if on_chip:
                S.dma_memset(stage.as_ptr(vector) + 1, 7, n)
            S.dma_copy(out, stage, 100)
            if not on_chip:
                S.dma_memset(out.as_ptr(vector) + 1, 7, n)

    for n in (0, 5, 37):
        out = np.zeros(100, S.ptr(dtype).dtype)
        run(fill)(out, n)
        expected = np.ones_like(out)
        expected[lanes : lanes + n] = 7
        np.testing.assert_array_equal(out, expected)


# --- conversions ---


def test_large_numbers_reinterpreted(run) -> None:
    big = 0xC0490FDB

    @S.prim_func
    def words(out: S.ptr("u32", "global"), floats: S.ptr("fp32", "global"), ints: S.ptr("i32", "global")):
        out[0] = S.reinterpret(0xFFFFFFFF, "u32")
        out[1] = S.reinterpret(0x80000000, "uint32")
        floats[0] = S.reinterpret(big, "fp32")
        floats[1] = S.reinterpret(0x3F800000, "fp32")
        ints[0] = S.reinterpret(0x80000000, "i32")
        ints[1] = S.reinterpret(4294967295, "int32")
        ints[2] = S.reinterpret(-1, "int32")

    out, floats, ints = np.zeros(2, np.uint32), np.zeros(2, np.float32), np.zeros(3, np.int32)
    run(words)(out, floats, ints)
    assert out.tolist() == [0xFFFFFFFF, 0x80000000]
    assert floats.tolist() == [np.uint32(big).view(np.float32), 1.0]
    assert ints.tolist() == [-(2**31), -1, -1]


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "i32", "u32", "fp16", "fp32"])
@pytest.mark.parametrize("length", [1, 3, 8, 16, 40])
def test_a_list_cast_to_a_scalar_type(run, dtype: str, length: int) -> None:
    numbers, array = list(range(length)), np.arange(length)
    scalar_type = getattr(S, dtype)

    @S.prim_func
    def lists(x: S.ptr(dtype, "global"), out: S.ptr(dtype, "global")):
        if length == 1:
            out[0] = S.cast(numbers, dtype)
            out[1] = S.cast([x[0]], dtype)
            out[2] = scalar_type(array)
        else:
            S.vstore(S.cast(numbers, dtype), out)
            S.vstore(S.cast([x[k] for k in range(length)], dtype), out + length)
            S.vstore(scalar_type(array), out + 2 * length)

    x = np.arange(5, 5 + length).astype(S.ptr(dtype).dtype)
    out = np.zeros(3 * length, x.dtype)
    run(lists)(x, out)
    assert out.tolist() == [*numbers, *x, *numbers]


# --- loops ---


def test_vectorized_with_a_run_time_extent(run) -> None:
    @S.prim_func
    def tail(x: S.ptr("i32", "global"), out: S.ptr("i32", "global"), n: S.i32):
        for i in range(20):
            out[i] = -1
        for i in S.vectorized(n % 8):
            out[i] = x[i] + i
        for i in S.vectorized(8, n):
            out[i] = x[i] * 2

    x = np.arange(20, dtype=np.int32)
    kernel = run(tail)
    for n in (0, 3, 8, 13):
        out = np.zeros(20, np.int32)
        kernel(x, out, n)
        expected = np.full(20, -1)
        expected[: n % 8] = 2 * x[: n % 8]
        expected[8:n] = 2 * x[8:n]
        np.testing.assert_array_equal(out, expected)


# --- lsram and shared memory ---


@pytest.mark.parametrize("scope, elements", [("lsram", 5000), ("shared", 40000)])
def test_functions_in_branches_share_memory(run, scope: str, elements: int) -> None:
    """Each of them takes more than half of what there is."""

    @S.prim_func
    def add(x: S.ptr("i32", "global"), out: S.ptr("i32", "global"), n: S.i32):
        buffer = S.alloc_buffer((elements,), "i32", scope=scope)
        for i in range(n):
            buffer[elements - 1 - i] = x[i] + 1
        for i in range(n):
            out[i] = buffer[elements - 1 - i]

    @S.prim_func
    def double(x: S.ptr("i32", "global"), out: S.ptr("i32", "global"), n: S.i32):
        buffer = S.alloc(elements, "i32", scope=scope)
        for i in range(n):
            buffer[i] = x[i] * 2
        for i in range(n):
            out[i] = buffer[i]

    @S.prim_func
    def either(x: S.ptr("i32", "global"), out: S.ptr("i32", "global"), n: S.i32, mode: S.i32):
        if mode == 0:
            add(x, out, n)
        else:
            double(x, out, n)

    x = np.arange(100, dtype=np.int32)
    kernel = run(either)
    for mode, expected in ((0, x + 1), (1, x * 2)):
        out = np.zeros_like(x)
        kernel(x, out, x.size, mode)
        np.testing.assert_array_equal(out, expected)


def test_buffers_one_after_the_other_share_memory(run) -> None:
    @S.prim_func
    def stages(x: S.ptr("i32", "global"), out: S.ptr("i32", "global"), n: S.i32):
        keep = S.alloc_buffer((64,), "i32", scope="lsram")
        first = S.alloc_buffer((5000,), "i32", scope="lsram")
        S.dma_copy(first, x, n)
        for i in range(8):
            keep[i] = first[i] + 100
        second = S.alloc_buffer((5000,), "i32", scope="lsram")
        for i in range(n):
            second[i] = x[i] * 3
        S.dma_copy(out, second, n)
        for i in range(8):
            out[n + i] = keep[i]

    x, out = np.arange(200, dtype=np.int32), np.zeros(208, np.int32)
    run(stages)(x, out, 200)
    np.testing.assert_array_equal(out, np.concatenate([x * 3, x[:8] + 100]))


# --- phrases ---


@pytest.mark.parametrize(
    "use, phrase",
    [
        (lambda p, v: S.vdpa(v, v, v), "Argument type mismatch"),
        (lambda p, v: S.vqdpa(v, S.fp32x8(1), S.fp32x8(1)), "Argument type mismatch"),
        (lambda p, v: S.vqdpa(S.fp32x8(1), S.i8x32(1), S.i8x32(1)), "Argument type mismatch"),
        (lambda p, v: S.vfmae(S.fp32x8(1), S.i16x16(1), S.i16x16(1)), "Argument type mismatch"),
        (lambda p, v: S.vfmao(S.fp32x8(1), S.fp32x8(1), S.fp32x8(1)), "Argument type mismatch"),
        (lambda p, v: S.vmml(p.as_ptr("fp32"), v, v), "Argument type mismatch"),
        (lambda p, v: S.vdot(S.i8x32(1), S.fp16x16(1)), "Argument type mismatch"),
        (lambda p, v: S.vqdot(S.fp16x16(1), S.i16x16(1)), "Argument type mismatch"),
        (lambda p, v: p.as_ptr("int4"), 'The scalar form of arg "dtype" expect one of (int8, '),
        (lambda p, v: p.as_ptr("int4x8"), 'float32, bfloat16, void), but got: "int4".'),
        (lambda p, v: p.as_ptr("bool"), 'float32, bfloat16, void), but got: "bool".'),
        (lambda p, v: p.as_ptr("float64"), 'float32, bfloat16, void), but got: "float64".'),
        (lambda p, v: p.as_ptr(""), 'Please use "void" to explicitly represent the void pointer.'),
    ],
)
def test_phrases(use, phrase: str, capfd) -> None:
    @S.prim_func
    def wrong(p: S.ptr("i32", "global")):
        v = S.vload(p)
        use(p, v)

    with pytest.raises(RuntimeError):
        aipu.tir.BuildManager().lower(wrong)
    assert phrase in capfd.readouterr().err
    with pytest.raises((AssertionError, ValueError), match=re.escape(phrase)):
        pysim(wrong)(np.zeros(32, np.int32))


@pytest.mark.parametrize("error", [AssertionError, IndexError])
@pytest.mark.parametrize(
    "use",
    [
        lambda p: (p + 30)[2],
        lambda p: (p - 1)[0],
        lambda p: (p + 30)[0:4],
        lambda p: S.vload(p + 30),
        lambda p: S.vstore(S.i32x8(1), p + 30),
        lambda p: S.dma_memset(p + 30, 0, 3),
        lambda p: (p.as_ptr("i32x8") + 4)[0],
    ],
)
def test_a_moved_pointer_out_of_bounds(use, error) -> None:
    @S.prim_func
    def outside(p: S.ptr("i32", "global")):
        use(p)

    with pytest.raises(error, match="Out of bounds"):
        pysim(outside)(np.zeros(32, np.int32))


# --- what the text writes as one instruction computes what the source says ---


def narrowed_shift(source: str, narrow: str):
    info = np.iinfo(source)
    lanes = 256 // info.bits
    x = np.linspace(info.min, info.max, lanes).astype(source)
    n = (np.arange(lanes) % info.bits).astype(source)

    @S.prim_func
    def kernel(x: S.ptr(source, "global"), n: S.ptr(source, "global"), out: S.ptr(narrow, "global")):
        S.vstore(S.cast(S.vsr(S.vload(x), S.vload(n)), narrow), out)

    return kernel, [x, n], (x >> n).astype(narrow)


def widening_product(left: str, right: str, wide: str):
    """Masked, with a value for the other lanes; the right factor a scalar in the upper half."""
    a = np.linspace(np.iinfo(left).min, np.iinfo(left).max, 32).astype(left)
    b = np.linspace(np.iinfo(right).max, np.iinfo(right).min, 32).astype(right)
    mask = np.arange(32) % 3 != 0

    @S.prim_func
    def kernel(a: S.ptr(left, "global"), b: S.ptr(right, "global"), out: S.ptr(wide, "global")):
        x, y = S.vload(a, lanes=32), S.vload(b, lanes=32)
        other = S.cast(7, f"{wide}x32")
        S.vstore(S.vmul(S.cast(x, wide), S.cast(y, wide), mask=mask, r=other), out)
        S.vstore(S.cast(x, wide) * S.cast(3, wide), out + 32)

    products = np.where(mask, a.astype(wide) * b.astype(wide), 7)
    return kernel, [a, b], np.concatenate([products, a.astype(wide) * 3]).astype(wide)


def rounded_cast(to: str):
    lanes = 256 // np.iinfo(to).bits
    x = (np.arange(lanes) - lanes // 2 + 0.5).astype(np.float32)
    x = np.abs(x) if to.startswith("u") else x

    @S.prim_func
    def kernel(x: S.ptr("fp32", "global"), out: S.ptr(to, "global")):
        S.vstore(S.cast(S.rint(S.vload(x, lanes=lanes)), to), out)

    return kernel, [x], np.rint(x).astype(to)


def inverted_masks(how):
    a, b = np.arange(8, dtype=np.int32), np.arange(8, dtype=np.int32)[::-1].copy()

    @S.prim_func
    def kernel(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), out: S.ptr("i32", "global")):
        p, q = S.vload(a) > 2, S.vload(b) > 3
        S.vstore(S.vsel(S.i32x8(1), S.i32x8(0), how(p, q)), out)

    p, q = a > 2, b > 3
    expected = {inverted_and: ~(p & q), inverted_or: ~(p | q)}[how]
    return kernel, [a, b], expected.astype(np.int32)


def inverted_and(p, q):
    return ~(p & q)


def inverted_or(p, q):
    return ~(p | q)


def constants_in_names():
    x = np.arange(-100, 300, 50, dtype=np.int32)

    @S.prim_func
    def kernel(x: S.ptr("i32", "global"), out: S.ptr("i32", "global")):
        factor = S.cast(2, "int32")
        divisor = 127
        v = S.vload(x)
        S.vstore(v * factor, out)
        for i in range(8):
            out[8 + i] = S.abs(x[i]) % divisor

    return kernel, [x], np.concatenate([x * 2, np.abs(x) % 127])


def undefined_lanes_of_a_new_name():
    a, b = np.arange(8, 16, dtype=np.int32), np.arange(1, 9, dtype=np.int32)
    mask = np.arange(8) % 2 == 0

    @S.prim_func
    def kernel(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), out: S.ptr("i32", "global")):
        quotient = S.vdiv(S.vload(a), S.vload(b), mask=mask)
        S.vstore(S.vsel(quotient, -1, mask), out)

    return kernel, [a, b], np.where(mask, a // b, -1)


# --- parameters and names ---


def a_reassigned_parameter():
    a = np.arange(5, dtype=np.int32)

    @S.prim_func
    def kernel(a: S.ptr("i32", "global"), out: S.ptr("i32", "global")):
        for i in range(5):
            out[i] = a[i]
        a = a + 1
        out[5] = a[0]

    return kernel, [a], np.append(a, a[1])


def a_function_run_by_exec():
    text = """
def twice(v):
    return v + v


@S.prim_func
def kernel(x: S.ptr("i32", "global"), out: S.ptr("i32", "global")):
    S.vstore(twice(S.vload(x)), out)
"""
    names = {"S": S}
    exec(text, names)
    x = np.arange(8, dtype=np.int32)
    return names["kernel"], [x], 2 * x


RULES = {
    **{f"vnsr-{s}-{t}": (narrowed_shift, s, t) for s, t in (
        ("int32", "int16"), ("uint32", "uint16"), ("int16", "int8"), ("uint16", "uint8"), ("int32", "int8"))},
    **{f"widening-{a}-{b}": (widening_product, a, b, w) for a, b, w in (
        ("int8", "int8", "int16"), ("uint8", "uint8", "uint16"), ("int8", "uint8", "int32"),
        ("int16", "int16", "int32"))},
    **{f"rint-{t}": (rounded_cast, t) for t in ("int8", "uint8", "int16", "uint16", "int32")},
    "vnand": (inverted_masks, inverted_and),
    "vnor": (inverted_masks, inverted_or),
    "constants-in-names": (constants_in_names,),
    "undefined-lanes": (undefined_lanes_of_a_new_name,),
    "reassigned-parameter": (a_reassigned_parameter,),
    "exec": (a_function_run_by_exec,),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_rules(run, rule: str) -> None:
    make, *arguments = RULES[rule]
    kernel, inputs, expected = make(*arguments)
    out = np.zeros_like(expected)
    run(kernel)(*inputs, out)
    np.testing.assert_array_equal(out, expected)
