"""PySim's rules: arguments, memory, output, and the phrases of what it refuses; test_tec_rules.py has those of TECs."""

from __future__ import annotations

import logging
import re

import aipu
import numpy as np
import pytest
from aipu import script as S
from executors import ints, simulate

# --- calls ---


@S.prim_func
def copy(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
    b[0] = a[0]


def test_a_kernel_must_be_built_first() -> None:
    @S.prim_func
    def fresh(a: S.ptr("i32", "global")):
        a[0] = 1

    with pytest.raises(AssertionError, match="Please compile before execute by Python Simulation."):
        fresh(ints(0))


def test_argument_count() -> None:
    with pytest.raises(AssertionError, match=re.escape('The function "copy" expect 2 args, but got: "1".')):
        simulate(copy, ints(1))


def test_contiguity() -> None:
    phrase = (
        'The 1-th arg of function "copy" expect a C-style contiguous NumPy, '
        'please achieve it through "numpy.ascontiguousarray".'
    )
    with pytest.raises(AssertionError, match=re.escape(phrase)):
        simulate(copy, np.zeros((4, 4), np.int32)[:, 1], ints(0))


def test_other_dtypes_are_warned_of(caplog) -> None:
    with caplog.at_level(logging.WARNING, logger="Compass"):
        simulate(copy, ints(1), np.zeros(1, np.float32))
    assert 'The 2-th arg of function "copy" expect a int32 NumPy, but got: "float32".' in caplog.text


def test_what_is_no_array() -> None:
    with pytest.raises(AssertionError, match=re.escape('The 1-th arg expect a NumPy, but got: "list".')):
        simulate(copy, [1], ints(0))


def test_null_pointers() -> None:
    @S.prim_func
    def is_null(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), out: S.ptr("i32", "global")):
        out[0] = S.i32(1) if a.is_nullptr else S.i32(0)
        out[1] = S.i32(1) if b.is_nullptr else S.i32(0)
        if S.get_local_id() == 0 and not b.is_nullptr:
            out[2] = b[0]

    out = ints(9, 9, 9)
    simulate(is_null, None, ints(5), out)
    assert out.tolist() == [1, 0, 5]
    simulate(is_null, 0, ints(6), out)
    assert out.tolist() == [1, 0, 6]
    with pytest.raises(AssertionError, match="The null pointer is accessed"):
        simulate(copy, None, ints(0))


def test_vectors_are_no_arguments_of_an_entry() -> None:
    @S.prim_func
    def takes_vector(v: S.i32x8, out: S.ptr("i32", "global")):
        out[0] = v[0]

    with pytest.raises(AssertionError, match="A vector variable can't be a argument of the entry function."):
        simulate(takes_vector, 1, ints(0))


def test_scalars_are_converted_and_wrap() -> None:
    @S.prim_func
    def scalars(a: S.i8, b: S.u8, h: S.fp16, flag: S.bool, out: S.ptr("fp32", "global")):
        out[0] = a + 100
        out[1] = b + 1
        out[2] = h + 1
        out[3] = 1.0 if flag else 2.0
        out[4] = a + 200

    out = np.zeros(5, np.float32)
    simulate(scalars, 100, np.uint8(255), 0.1, True, out)
    assert out.tolist() == [-56.0, 0.0, float(np.float16(np.float16(0.1) + 1)), 1.0, 300.0]


def test_defaults_and_keywords_of_an_entry() -> None:
    @S.prim_func
    def with_default(out: S.ptr("i32", "global"), n: S.i8 = 127):
        out[0] = n + 1

    out = ints(0)
    simulate(with_default, out)
    assert out[0] == -128
    with_default(n=3, out=out)
    assert out[0] == 4


def test_macros_are_refused() -> None:
    @S.macro
    def put(dst, v):
        dst[0] = v

    @S.prim_func
    def uses_macro(a: S.ptr("i32", "global")):
        put(a, 1)

    with pytest.raises(AssertionError, match="PySim does not support macro."):
        simulate(uses_macro, ints(0))


def test_assembly_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="PySim does not support inline assembly."):
        S.asm("nop")


# --- sub-functions ---


@S.prim_func
def scaled(v: S.i32x8, factor: S.i8, p: S.ptr("i32", "global"), bias: S.i32 = 1) -> S.i32x8:
    v[0] = 1000
    return v * factor + p[0] + bias


def test_sub_functions_convert_arguments_and_take_vectors_by_value() -> None:
    @S.prim_func
    def calls(a: S.ptr("i32", "global"), out: S.ptr("i32", "global")):
        v = S.vload(a)
        S.vstore(scaled(v, 257, a + 1), out)
        S.vstore(scaled(v, factor=2, p=a, bias=3), out + 8)
        S.vstore(v, out + 16)

    a, out = np.arange(8, dtype=np.int32), np.zeros(24, np.int32)
    simulate(calls, a, out)
    values = a.copy()
    values[0] = 1000
    assert out[:8].tolist() == (values + 2).tolist()
    assert out[8:16].tolist() == (values * 2 + 3).tolist()
    assert out[16:].tolist() == a.tolist()


@pytest.mark.parametrize(
    "call, phrase",
    [
        (lambda a, v: scaled(a[0], 1, a), "The 1-th arg expect a vector."),
        (lambda a, v: scaled(v, v, a), "The 2-th arg expect a scalar."),
        (lambda a, v: scaled(v, 1, v), "The 3-th arg expect a pointer."),
        (lambda a, v: scaled(v, a, a), "The 2-th arg expect a variable, but got: pointer."),
        (
            lambda a, v: scaled(v, 1, S.alloc(8, "i32", "lsram")),
            'The scope of 3-th arg expect "global", but got: "lsram".',
        ),
    ],
)
def test_arguments_of_sub_functions(call, phrase: str) -> None:
    @S.prim_func
    def calls(a: S.ptr("i32", "global")):
        call(a, S.vload(a))

    with pytest.raises(AssertionError, match=re.escape(phrase)):
        simulate(calls, np.zeros(8, np.int32))


# --- memory ---


def _bounds(body):
    @S.prim_func
    def accesses(a: S.ptr("i32", "global")):
        body(a)

    return accesses


@pytest.mark.parametrize(
    "body, kind, phrase",
    [
        (lambda a: a[8], IndexError, "Out of bounds"),
        (lambda a: (a + 4)[4], IndexError, "Out of bounds"),
        (lambda a: a[-1], AssertionError, "The index must >= 0 when access data through pointer."),
        (lambda a: a[3:3], AssertionError, "The stop of the slice must > the start of the slice >= 0."),
        (lambda a: a[-1:3], AssertionError, "The stop of the slice must > the start of the slice >= 0."),
        (lambda a: a[0:4:0], AssertionError, "The step of the slice must > 0 when access data through pointer."),
        (lambda a: a[0:], AssertionError, "For accessing data through pointer, the stop of the slice must be given."),
        (lambda a: a[4:12], AssertionError, "Out of bounds."),
        (lambda a: a[0, 1], AssertionError, "Pointer only can be used to access 1D data."),
        (lambda a: S.vload(a + 1), AssertionError, "Out of bounds."),
        (lambda a: S.vstore(S.i32x8(0), a - 1), AssertionError, "Out of bounds."),
        (lambda a: S.vload(a, stride=0), AssertionError, 'The arg "stride" expect >= 1'),
        (lambda a: S.vload(a, lanes=1), AssertionError, 'The arg "lanes" expect > 1, but got: "1".'),
        (lambda a: S.vload(a, lanes=S.i32(4)), AssertionError, 'The arg "lanes" expect an integer scalar constant.'),
        (lambda a: a.as_ptr("void")[0], AssertionError, "Can't access data through void pointer."),
        (lambda a: a.as_ptr("void") + 1, AssertionError, "The void pointer can't be moved."),
        (lambda a: S.match_buffer(a, (3, 3)), AssertionError, 'Need more "4" bytes data to match the buffer'),
        (
            lambda a: S.vload_gather(a, S.i32x8(0) == 0),
            AssertionError,
            'The arg "indices" expect a 16-bit integer vector',
        ),
        (lambda a: S.alloc_buffer((4,), "i32", "global"), AssertionError, 'The arg "scope" expect one of'),
        (lambda a: S.tail_mask(9, 8), AssertionError, 'The arg "n" expect in range [0, lanes]'),
        (lambda a: S.tail_mask(a[0] - 1, 8), AssertionError, 'The arg "n" expect in range [0, lanes]'),
        (lambda a: S.vshfl(S.vload(a), 8), AssertionError, 'The arg "shift" expect in range [0, 8), but got: "8".'),
        (
            lambda a: S.vreplic(S.vload(a), S.i32(9)),
            AssertionError,
            'The arg "index" expect in range [0, 8), but got: "9".',
        ),
        (lambda a: S.ceildiv(S.i32(3), a[0]), ZeroDivisionError, "The 2nd arg can't be zero."),
        (lambda a: S.ceildiv(3, 0), ZeroDivisionError, "The 2nd arg can't be zero."),
        (lambda a: S.const_mask("T"), AssertionError, "The length of the 1st arg expect > 1"),
        (
            lambda a: S.vadd(S.vload(a), 1, mask=[1, 0], r=0),
            AssertionError,
            'All elements of arg "mask" expect "True" or "False".',
        ),
        (
            lambda a: S.vadd(S.vload(a), 1, mask=5, r=0),
            AssertionError,
            'The arg "mask" expect a tuple or list, but got: "int".',
        ),
        (lambda a: S.vadd(S.vload(a), 1, mask="9T", r=0), AssertionError, 'The length of arg "mask" expect <= "8"'),
        (
            lambda a: S.vadd(S.vload(a), 1, mask=S.tail_mask(3, 16), r=0),
            AssertionError,
            'The length of arg "mask" expect "8", but got: "16".',
        ),
        (lambda a: S.vadd(S.i8x32(0), 300), ValueError, 'Can\'t broadcast "300" to any of "(int8x32, uint8x32)".'),
        (lambda a: S.vadd(S.i8x32(0), S.u8x32(0)), AssertionError, "The sign of operands is different"),
        (
            lambda a: S.vadd(S.i8x32(0), S.i32x8(0)),
            ValueError,
            'Argument type mismatch: 0-th: "int8x32" vs. 1-th: "int32x8".',
        ),
        (lambda a: S.vadd(a, 1), AssertionError, 'Unexpect "int32*" pointer as argument.'),
        (lambda a: S.vmul(S.i8x32(0), 2), AssertionError, "The 8bit equal-width multiply is meaningless."),
        (lambda a: S.i8x32(0) * 2, AssertionError, "The 8bit equal-width multiply is meaningless."),
        (lambda a: S.cast(S.fp16x16(0), "i8"), ValueError, 'Unsupported cast directly from "float16x16" to "int8x16"'),
        (lambda a: S.cast(a[0], "i8", saturate=True), AssertionError, 'Currently can\'t set "saturate" when'),
        (lambda a: S.cast(a[0], "i8", "middle"), AssertionError, 'The arg "part" expect one of'),
        (lambda a: S.i32x8([1, 2, 3, 4]), AssertionError, 'The length of the 1st arg expect "8", but got: "4".'),
        (lambda a: S.fp32("big"), AssertionError, 'The 1st arg expect one of ("inf", "-inf", "nan")'),
        (
            lambda a: S.bf16(1) + 1,
            AssertionError,
            "There isn't any compute instruction for bfloat16 scalar, please convert it to",
        ),
        (
            lambda a: S.exp(S.bf16(1)),
            AssertionError,
            "There isn't any compute instruction for bfloat16 scalar, please convert it to",
        ),
        (lambda a: S.exp(S.i32x8(1)), AssertionError, "Only support floating input."),
        (lambda a: S.vsplit(S.i32x8(1)), AssertionError, "Redundant useless call."),
        (
            lambda a: S.vmull(S.i8x64(1), 1),
            AssertionError,
            'This API expect hardware native vector types, but got: "int8x64".',
        ),
        (
            lambda a: S.i32x8(1) > S.u32x8(1),
            AssertionError,
            'Unsafe unsigned and signed comparison, "int32x8" vs. "uint32x8"',
        ),
        (lambda a: S.vload(a) and S.vload(a), TypeError, "The condition required to be a scalar expression."),
        (lambda a: S.wait_events(), AssertionError, "Redundant useless call."),
        (lambda a: S.alloc_events(0), AssertionError, 'The arg "count" expect an positive integer scalar constant.'),
        (lambda a: (S.alloc_events(3), S.alloc_events(2)), AssertionError, "Only remain 1 events, but allocate 2."),
        (
            lambda a: S.async_dma_copy(S.alloc(8, "i32", "lsram"), a, 8),
            AssertionError,
            'The arg "event" must be provided.',
        ),
        (lambda a: S.dma_copy(S.alloc(8, "i8", "lsram"), a, 8), AssertionError, 'The data type mismatch: "dst": '),
        (lambda a: S.dma_memset(a.as_ptr("i8"), 300, 4), AssertionError, 'value "300" out of range "int8"'),
        (lambda a: S.printf("%q", 1), ValueError, 'Unsupported specifier "%q".'),
        (lambda a: S.printf("%d %d", 1), ValueError, 'The specifier count "2" not equal to the argument count "1".'),
        (lambda a: S.printf("%d", 1.5), ValueError, 'Specifier "%d" only accept integer scalar value.'),
    ],
)
def test_refusals(body, kind, phrase: str) -> None:
    with pytest.raises(kind, match=re.escape(phrase)):
        simulate(_bounds(body), np.zeros(8, np.int32))


def test_pointers() -> None:
    @S.prim_func
    def uses_pointers(a: S.ptr("i16", "global"), out: S.ptr("i32", "global")):
        p = a + 4
        wide = a.as_ptr("i16x4")
        if S.get_local_id() == 0:
            out[0] = p[1]
            out[1] = (wide + 1)[0][3]
            out[2] = S.i32(1) if p > a else S.i32(0)
            out[3] = S.i32(1) if p - 4 == a else S.i32(0)
            out[4:8] = wide[1]
            out[8:12] = a[0:8:2]
            address = S.reinterpret(p, "uint32") + S.u32(2)
            again = S.reinterpret(address, "global i16 *")
            out[12] = again[0]
            b = S.match_buffer(a, (2, 2, 4))
            out[13] = b[1, 0, 3]
            q = b.addr_of((1, 1))
            out[14] = q[0]
            x = S.i16(7)
            out[15] = x.addr.as_ptr("u8")[0]

    a = np.arange(100, 116).astype(np.int16)
    out = np.zeros(16, np.int32)
    simulate(uses_pointers, a, out)
    assert out.tolist() == [105, 107, 1, 1, 104, 105, 106, 107, 100, 102, 104, 106, 105, 111, 112, 7]


def test_slices_of_vector_pointers_and_buffers() -> None:
    @S.prim_func
    def slices(a: S.ptr("i32x4", "global"), out: S.ptr("i32", "global")):
        buffer = S.alloc_buffer((2, 8), "i32", scope="lsram")
        if S.get_local_id() == 0:
            buffer[0, 0:8] = a[0:2]
            buffer[1, 0:8:2] = 9
            buffer[1, 1:8:2] = buffer[0, 4:8]
            S.vstore(S.vload(buffer.addr_of((1, 0))), out)
            out[8:16] = buffer[0, 0:8]

    a = np.arange(8, dtype=np.int32)
    out = np.zeros(16, np.int32)
    simulate(slices, a, out)
    assert out.tolist() == [9, 4, 9, 5, 9, 6, 9, 7, *range(8)]


def test_gather_scatter_strides_and_masks() -> None:
    @S.prim_func
    def moves(a: S.ptr("i16", "global"), idx: S.ptr("i16", "global"), out: S.ptr("i16", "global")):
        if S.get_local_id() == 0:
            indices = S.vload(idx)
            gathered = S.vload_gather(a, indices, mask="8T8F")
            S.vstore(gathered, out)
            S.vstore_scatter(gathered, out + 16, indices, mask="8T8F")
            S.vstore(S.vload(a, lanes=8, stride=2), out + 32, stride=2, mask="4T4F")
            S.vstore(S.vload(a + 12, mask="4T"), out + 48)  # what is masked off is not touched

    a = np.arange(16).astype(np.int16)
    idx = np.array([3, 3, 0, 15, 2, 1, 7, 8] + [99] * 8, np.int16)
    out = np.full(64, -1, np.int16)
    simulate(moves, a, idx, out)
    assert out[:16].tolist() == [3, 3, 0, 15, 2, 1, 7, 8] + [0] * 8
    scattered = [-1] * 16
    for k in idx[:8]:
        scattered[k] = k
    assert out[16:32].tolist() == scattered
    assert out[32:48].tolist() == [0, -1, 2, -1, 4, -1, 6] + [-1] * 9
    assert out[48:].tolist() == [12, 13, 14, 15] + [0] * 12


def test_constants_from_numpy() -> None:
    table = np.array([5, 6, 7, 8, 1, 2, 3, 4], np.int32)

    @S.prim_func
    def constants(out: S.ptr("i32", "global")):
        held = S.alloc_const((2, 4), "int32", table)
        out[0] = held[1, 2]
        S.vstore(S.vload(table), out + 1)
        out[9] = table[S.get_local_size() - 1] + 1

    out = np.zeros(10, np.int32)
    simulate(constants, out)
    assert out.tolist() == [3, *table.tolist(), 9]


def test_bfloat16_without_ml_dtypes() -> None:
    @S.prim_func
    def halves(a: S.ptr("bf16", "global"), out: S.ptr("fp32", "global")):
        v = S.vload(a)
        low = S.cast(v, "fp32", "low")
        S.vstore(low, out)
        out[8] = S.fp32(a[3]) + 1
        S.vstore(S.cast(v + v, "fp32", "high"), out + 9)

    values = np.arange(16, dtype=np.float32) / 4
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    out = np.zeros(17, np.float32)
    simulate(halves, bits, out)
    assert out.tolist() == [*values[:8], values[3] + 1, *(2 * values[8:])]


def test_undefined_lanes_are_not_zero_by_luck() -> None:
    @S.prim_func
    def undefined(out: S.ptr("i32", "global")):
        S.vstore(S.vrpadd(S.i32x8(1)), out)
        S.vstore(S.vdiv(S.i32x8(8), 2, mask="4T4F"), out + 8)

    first, second = np.zeros(16, np.int32), np.zeros(16, np.int32)
    simulate(undefined, first)
    simulate(undefined, second)
    assert first[0] == 8 and first[8:12].tolist() == [4] * 4
    assert first[1:8].any() and first[12:].any()
    assert (first == second).all()  # but the same for the whole process


# --- output ---


def test_printf(capsys) -> None:
    @S.prim_func
    def prints(a: S.ptr("i32", "global"), n: S.i32):
        if S.get_local_id() == 2:
            S.printf(
                "%d|%u|%x|%X|%o|%f|%c|%s|%%|%p\n", n, S.i32(-1), n, S.i32(255), 8, S.fp32(1.9999999), 65, "text", a
            )
            S.printf("%v8hlx\n", S.i32x8([1, 2, 3, 4, 5, 6, 7, 255]))

    simulate(prints, ints(0), -5)
    expected = "-5|4294967295|0xfffffffb|0xFF|010|1.999999|A|text|%|%p\n0x1,0x2,0x3,0x4,0x5,0x6,0x7,0xff\n"
    assert capsys.readouterr().out == expected


# --- values ---


def test_scalars_behave_like_the_language() -> None:
    x = S.i8(100)
    assert (x + 27) == 127 and (x + 28) == -128
    assert (x + 200).dtype == "int32"
    assert (x + S.u8(1)).dtype == "uint8"
    assert (S.fp16(1) * 2).dtype == "float16" and (S.fp16(1) * 2.0).dtype == "float32"
    assert (S.i8(1) * S.fp16(1.5)).dtype == "float16"
    assert S.i32(-7) // 2 == -3 and S.i32(-7) % 2 == -1 and S.i32(-7) / 2 == -3
    assert (S.i32(-1) >> 1) == -1 and (S.u32(4294967295) >> 1) == 2147483647
    assert list(range(S.i32(3))) == [0, 1, 2] and {0: "a", 1: "b"}[S.i32(1)] == "b"
    assert (S.i32(3) > 2) is True
    assert S.fp32(2) ** 3 == 8
    assert S.cast(300.7, "int8") == 44 and S.cast(-1.5, "u8") == 255 and S.cast(S.fp32("nan"), "i32") == 0
    assert S.max(3, 4) == 4 and S.min(S.i32(3), 2) == 2
    assert S.ceildiv(-3, 2) == -1 and S.ceildiv(S.i32(9), 8) == 2


def test_vectors_behave_like_the_language() -> None:
    v = S.i16x16(list(range(16)))
    assert v.dtype == "int16x16" and len(v) == 16
    assert v[3] == 3
    v[3] = 70000
    assert v[3] == 70000 - 65536
    assert (v + S.i32(1)).dtype == "int32x16"
    mask = v > 7
    assert mask.dtype == "boolx16" and mask[0] is False and mask[15] is True
    assert S.vall(mask | ~mask) and not S.vany(mask & ~mask)
    assert (S.fp16x16(1) + 1.5).dtype == "float32x16"
    assert (-S.i32x8(5))[0] == -5
    with pytest.raises(IndexError):
        v[16]


def test_type_objects() -> None:
    assert S.fp32x20.dtype == "float32x20" and S.float32x20 is S.fp32x20
    assert S.boolx12.dtype == "boolx12" and S.size_i32.is_size and S.size_i32.dtype == "int32"
    assert S.bf16x16.dtype == aipu.DataType("bfloat16x16")
    for name in ("fp8x32", "floats8", "i64", "i32x0", "i32x08", "bf16x8", "size_u32", "size_fp32", "nothing"):
        with pytest.raises(
            AttributeError, match=re.escape(f"module 'tvm.compass.dsl.script' has no attribute '{name}'")
        ):
            getattr(S, name)
    for name, meant in (("vaddd", "vadd"), ("get_locla_id", "get_local_id"), ("flaot32x8", "float32x8")):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'. Did you mean: '{meant}'\\?"):
            getattr(S, name)
    with pytest.raises(AssertionError, match="The function only can be used in type annotation."):
        S.boolx8(1)


@pytest.mark.parametrize(
    "make, phrase",
    [
        (lambda: S.ptr("float64"), 'The scalar form of arg "dtype" expect one of .*, but got: "float64".'),
        (lambda: S.ptr("int4", "global"), 'The scalar form of arg "dtype" expect one of .*, but got: "int4".'),
        (lambda: S.ptr("int4x8", "global"), 'The scalar form of arg "dtype" expect one of .*, but got: "int4".'),
        (lambda: S.ptr("bool"), 'The scalar form of arg "dtype" expect one of .*, but got: "bool".'),
        (lambda: S.ptr(None), 'Please use "void" to explicitly represent the void pointer.'),
        (lambda: S.ptr(""), 'Please use "void" to explicitly represent the void pointer.'),
        (lambda: S.ptr("i32", "ddr"), 'The arg "scope" expect one of'),
        (lambda: S.prim_func(is_inline="yes")(lambda: None), 'Invalid value of parameter "is_inline".'),
    ],
)
def test_annotations(make, phrase: str) -> None:
    with pytest.raises(AssertionError, match=phrase):
        make()


def test_unsupported_annotation() -> None:
    with pytest.raises(AssertionError, match='The type annotation of parameter "x" of function "f" is not supported.'):

        @S.prim_func
        def f(x: int):
            pass


def test_decorated_functions_keep_their_names() -> None:
    @S.prim_func(is_inline=True)
    def named(x: S.ptr("fp16x64", "global"), n: S.size_i32 = 3) -> S.i32:
        """What it does."""
        return n

    assert named.__name__ == "named" and named.__doc__ == "What it does." and named.is_inline is True
    assert [p.name for p in named.params] == ["x", "n"] and named.params[0].annotation.scope == "global"
    assert named.return_annotation.dtype == "int32"


def test_structure_helpers() -> None:
    assert list(S.grid(2, 2)) == [(0, 0), (0, 1), (1, 0), (1, 1)] and list(S.grid(3)) == [0, 1, 2]
    assert list(S.vectorized(2, 4)) == [2, 3] and S.meta_var(5) == 5
    with S.block("b"):
        assert S.axis.spatial(4, 1) == 1 and S.axis.S(4, 1) == 1 and S.axis.R(4, 2) == 2
        assert S.axis.remap("S", [3]) == 3 and S.axis.remap("SR", [3, 4]) == [3, 4]
    assert S.tag(S.cast(S.i16x16(1), "i32"), "no_zip")[0] == 1
    with pytest.raises(AssertionError, match='The arg "attr" expect one of'):
        S.tag(S.i32x8(1), "zip")
