"""What a kernel can refer to: captured values of all kinds, functions, macros, defaults."""

import collections
import enum
import functools
import math
import operator

import aipu
import numpy as np
import pytest
from aipu import DataType, hw_native_vdtype
from aipu import script as S
from aipu import script as renamed
from aipu.script import vadd as imported_vadd

GLOBAL_OFFSET = 3
GLOBAL_TABLE = [10, 20, 30]
GLOBAL_PAIR = (2, 5)
GLOBAL_SETTINGS = {"scale": 4, "names": ["a", "b"]}


class Mode(enum.Enum):
    DOUBLE = 1
    TRIPLE = 2


class Config:
    factor = 6

    def __init__(self, bias):
        self.bias = bias

    def total(self):
        return self.factor + self.bias


def run(func, *args, name=None):
    aipu.tir.BuildManager().build(func, name=name)(*args)


def run1(func, value, dtype="int32"):
    """The result of a kernel on one element."""
    out = np.zeros(1, dtype)
    run(func, np.array([value], dtype), out)
    return out[0].item()


def test_numbers_tuples_and_lists():
    local, flag, pair = 7, True, (100, 200)

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        if flag:
            b[0] = a[0] + local + GLOBAL_OFFSET + GLOBAL_TABLE[1] + GLOBAL_PAIR[0] + pair[1]
        else:
            b[0] = not_there_at_all  # noqa: F821 (not visited)

    assert run1(func, 1) == 1 + 7 + 3 + 20 + 2 + 200


def test_values_are_those_of_the_build():
    step = 1

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = a[0] + step

    assert run1(func, 1) == 2
    step = 10
    assert run1(func, 1) == 11


def test_floats_and_data_types():
    scale, dtype = 0.5, DataType("float32")
    vdtype = hw_native_vdtype(dtype)

    @S.prim_func
    def func(a: S.ptr(dtype, "global"), b: S.ptr(vdtype, "global")):
        v = S.vload(a, lanes=vdtype.lanes)
        b[0] = v * scale if dtype.is_float else v

    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    run(func, a, b)
    np.testing.assert_array_equal(b, a * 0.5)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float16", "float32"])
def test_annotations_use_names_that_the_body_does_not(dtype):
    lanes = 256 // DataType(dtype).bits

    @S.prim_func
    def func(a: S.ptr(dtype, "global"), b: S.ptr(dtype, "global")):
        S.vstore(S.vload(a) + S.vload(a), b)

    a, b = np.arange(lanes).astype(dtype), np.zeros(lanes, dtype)
    run(func, a, b)
    np.testing.assert_array_equal(b, a + a)


def test_numpy_arrays_as_masks_and_constants():
    mask = np.array([True, False] * 4)
    table = np.arange(8, dtype="int32") * 11

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        constants = S.alloc_const((8,), "int32", table)
        S.vstore(S.vload(a) + S.vload(constants.addr_of(0)), b, mask=mask)

    a, b = np.arange(8, dtype="int32"), np.full(8, -1, "int32")
    run(func, a, b)
    np.testing.assert_array_equal(b, np.where(mask, a + table, -1))


def test_numpy_scalars_are_refused(capfd):
    value = np.int32(3)

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = a[0] + value

    with pytest.raises(RuntimeError):
        aipu.tir.BuildManager().build(func)
    assert "The scalar literal only can be represented by instance of Python built-in type" in capfd.readouterr().err


def test_the_script_module_under_other_names():
    add, sub = imported_vadd, getattr(S, "vsub")

    @renamed.prim_func
    def func(a: renamed.ptr("i32", "global"), b: renamed.ptr("i32", "global")):
        v = renamed.vload(a)
        renamed.vstore(sub(add(v, v), renamed.i32x8(1)), b)

    a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    run(func, a, b)
    np.testing.assert_array_equal(b, a + a - 1)


def test_type_objects_are_values():
    element, vector = S.fp32, S.fp32x8

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("fp32", "global")):
        b[0] = element(a[0])
        S.vstore(vector(2), b + 1)

    b = np.zeros(9, "float32")
    run(func, np.array([7], "int32"), b)
    assert b.tolist() == [7.0] + [2.0] * 8


def test_modules_and_objects():
    config = Config(bias=2)

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = (
            a[0]
            + config.bias
            + Config.factor
            + config.total()
            + GLOBAL_SETTINGS["scale"]
            + math.floor(2.5)
            + len(GLOBAL_SETTINGS)
        )

    assert run1(func, 0) == 2 + 6 + 8 + 4 + 2 + 2


@pytest.mark.parametrize("mode, factor", [(Mode.DOUBLE, 2), (Mode.TRIPLE, 3)])
def test_enums_choose_a_branch(mode, factor):
    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        if mode == Mode.DOUBLE:
            b[0] = a[0] * 2
        else:
            b[0] = a[0] * 3

    assert run1(func, 5) == 5 * factor


def test_plain_functions_of_expressions():
    def scaled(x, k=2):
        return x * k + GLOBAL_OFFSET

    square = lambda x: x * x

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = scaled(a[0]) + square(a[0]) + scaled(a[0], k=10)

    assert run1(func, 3) == (6 + 3) + 9 + (30 + 3)


OPERATIONS = [("add", lambda x, y: x + y, lambda x, y: x + y), ("mul", lambda x, y: x * y, lambda x, y: x * y)]


@pytest.mark.parametrize("name, dsl, truth", OPERATIONS)
def test_several_lambdas_in_one_line(name, dsl, truth):
    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = dsl(a[0], 7)

    assert run1(func, 5) == truth(5, 7), name


def test_plain_functions_of_known_values_are_python():
    @functools.lru_cache(maxsize=None)
    def cached(x):
        return x + 1

    def host(x):
        with np.errstate(all="ignore"):
            try:
                return int(np.prod([d for d in (x, x)])) + cached(x)
            finally:
                pass

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = a[0] + host(4)

    assert run1(func, 0) == 16 + 5


def test_plain_function_with_script_annotation_is_refused(capfd):
    def helper(b: S.i32):
        return b + 1

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = helper(a[0])

    with pytest.raises(RuntimeError):
        aipu.tir.BuildManager().build(func)
    text = (
        'The parameter "b" of pure Python function "helper" can\'t be annotated as any type in "S" space, '
        'forget to decorate it using "S.prim_func"?'
    )
    assert text in capfd.readouterr().err


def test_sub_functions_with_defaults_and_keywords():
    bonus = 100

    @S.prim_func
    def helper(x: S.i32, y: S.i32 = bonus, z: S.i32 = 1000) -> S.i32:
        return x + y + z

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = helper(a[0]) + helper(a[0], z=5) + helper(1, 2, 3)

    assert run1(func, 1) == (1 + 100 + 1000) + (1 + 100 + 5) + 6


def test_nested_closures():
    def make(k):
        @S.prim_func
        def inner(x: S.i32) -> S.i32:
            return x + k

        return inner

    first, second = make(1), make(10)

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = first(second(a[0]))

    assert run1(func, 0) == 11


def test_macros_hygienic_and_not():
    scale = 3

    @S.macro
    def put_scaled(dst, k, v):
        dst[k] = v * scale

    @S.macro(hygienic=False)
    def put_at_cursor(dst, v):
        dst[cursor] = v  # noqa: F821 (of the caller)

    @S.prim_func
    def fill(o: S.ptr("i32", "global"), n: S.i32):
        scale = 1000  # noqa: F841 (the macro does not see it)
        for cursor in range(n):
            put_at_cursor(o, cursor)
        put_scaled(o, 0, n)

    out = np.zeros(4, "int32")
    run(fill, out, 4)
    assert out.tolist() == [12, 1, 2, 3]


def test_function_handed_over_as_argument_of_a_factory():
    def elementwise(op):
        @S.prim_func
        def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
            b[0] = op(a[0], 2)

        return func

    assert run1(elementwise(lambda x, y: x - y), 9) == 7
    assert run1(elementwise(lambda x, y: x << y), 9) == 36


def test_entry_as_sub_function_is_refused(capfd):
    @S.prim_func
    def helper(b: S.ptr("i32", "global")):
        func(b, b)

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        helper(b)

    with pytest.raises(RuntimeError, match="current not support entry function as subroutines"):
        aipu.tir.BuildManager().build(func)


def test_decorator_options_computed_elsewhere():
    inline = True

    @S.prim_func(is_inline=inline)
    def helper(x: S.i32) -> S.i32:
        return x + 1

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = helper(a[0])

    ex = aipu.tir.BuildManager().build(func)
    assert "_CLC_INLINE" in ex.c_code
    plain = func.py_func
    assert "__kernel void func" in aipu.tir.BuildManager().build(S.prim_func(plain)).c_code


def test_meta_var_and_fstrings():
    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        lanes = S.meta_var(8)
        v = S.cast(S.vload(a, lanes=lanes), f"int32x{lanes}")
        S.vstore(v, b)

    a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    run(func, a, b)
    np.testing.assert_array_equal(a, b)


def test_data_types_are_strings():
    dtype = DataType("int8")
    vdtype = hw_native_vdtype(dtype)

    @S.prim_func
    def func(a: S.ptr("i32", "global")):
        if dtype.startswith("int") and dtype.endswith("8") and "int" in dtype and "float" not in dtype:
            a[0] = 1
        if dtype in ("int8", "uint8") and dtype[0] == "i" and len(dtype) == 4:
            a[1] = 1
        if vdtype == "int8x32" and vdtype == dtype + "x32" and f"{dtype}x32" == vdtype and str(dtype) == "int8":
            a[2] = 1
        if dtype.bits < 16 and not dtype.is_float and dtype != "int16":
            a[3] = 1

    out = np.zeros(4, "int32")
    run(func, out)
    assert out.tolist() == [1, 1, 1, 1]


def test_attributes_of_arrays():
    array = np.arange(4).reshape(2, 2)

    @S.prim_func
    def func(a: S.ptr("i32", "global")):
        a[0] = array.shape[0] + array.size + int(array.max()) + int(np.prod((2, 3))) + array.T.ndim

    out = np.zeros(1, "int32")
    run(func, out)
    assert out[0] == 2 + 4 + 3 + 6 + 2


@pytest.mark.parametrize("name", ["vadd", "vsub"])
def test_functions_of_the_language_by_name(name):
    table = {"vadd": S.vadd, "vsub": S.vsub}

    @S.prim_func
    def func(a: S.ptr("i32x8", "global"), b: S.ptr("i32x8", "global")):
        b[0] = table[name](a[0], 1)
        b[1] = getattr(S, name)(a[0], 2)

    a, b = np.arange(8, dtype="int32"), np.zeros((2, 8), "int32")
    run(func, a, b)
    sign = 1 if name == "vadd" else -1
    np.testing.assert_array_equal(b, np.stack([a + sign, a + 2 * sign]))


def test_operator_module():
    add, less = operator.add, operator.lt

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        if less(a[0], 100):
            b[0] = add(a[0], 1) + operator.mul(a[0], 2) + add(3, 4)

    assert run1(func, 5) == 6 + 10 + 7


def test_annotations_as_text():
    @S.prim_func
    def func(a: 'S.ptr("i32", "global")', b: 'S.ptr("i32", "global")'):
        b[0] = a[0] + 1

    assert run1(func, 5) == 6


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")

    @S.prim_func
    def func(a: S.ptr("bf16", "global"), b: S.ptr("bf16", "global"), k: S.fp32):
        b[0] = S.bf16(S.fp32(a[0]) * k)

    a, b = np.array([1.5], ml_dtypes.bfloat16), np.zeros(1, ml_dtypes.bfloat16)
    run(func, a, b, 2.0)
    assert float(b[0]) == 3


def test_a_list_that_holds_itself():
    knot = [7]
    knot.append(knot)

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = a[0] + knot[0]

    assert run1(func, 1) == 8


def test_partials_and_bound_methods():
    def combine(a, b, c):
        return a * 100 + b * 10 + c

    @S.prim_func
    def sub(x: S.i32, y: S.i32) -> S.i32:
        return x - y

    class Scale:
        factor = 3

        def __call__(self, v):
            return v * self.factor

        def times(self, v):
            return v * self.factor

    first, from_ten, times = functools.partial(combine, 5, c=2), functools.partial(sub, 10), Scale().times

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = first(a[0]) + from_ten(a[0]) * 1000 + times(a[0]) * 10000

    assert run1(func, 4) == 542 + 6000 + 120000


def test_dictionaries():
    options = {"mask": "4T4F", "r": 3}
    table = {"first": [1, 2], 5: "five"}

    @S.prim_func
    def func(a: S.ptr("i32x8", "global"), b: S.ptr("i32x8", "global")):
        b[0] = S.vadd(a[0], table["first"][1], **options)
        if 5 in table and table[5] == "five" and len(table) == 2:
            b[1] = a[0]

    a, b = np.arange(8, dtype="int32"), np.zeros((2, 8), "int32")
    run(func, a, b)
    np.testing.assert_array_equal(b[0], [2, 3, 4, 5, 3, 3, 3, 3])
    np.testing.assert_array_equal(b[1], a)


def test_named_tuples_and_large_integers():
    point, large = collections.namedtuple("Point", "x y")(3, 4), 2**70

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = a[0] + point.x * 10 + point[1] + (large >> 68)

    assert run1(func, 0) == 34 + 4


def test_lambda_over_several_lines():
    # fmt: off
    fn = (lambda a,
                 b: a
          * b)
    # fmt: on

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = fn(a[0], 3)

    assert run1(func, 5) == 15


def test_odd_indentation():
    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        """A docstring
        that is indented oddly.
        """
        # and a comment
        b[0] = a[0] + 1

    assert run1(func, 5) == 6


def test_kernels_in_classes():
    class Kernels:
        @S.prim_func
        def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
            b[0] = a[0] + 1

    assert run1(Kernels.func, 5) == 6
