"""The examples that the package was asked for, as they were written down."""

import aipu
import numpy as np
from aipu import script as S


def test_example():
    dtype, n = "int32", 8

    @S.prim_func
    def func(a: S.ptr(dtype, "global"), b: S.ptr(dtype, "global")):
        va = S.vload(a)
        vb = S.vadd(va, 1)
        S.vstore(vb, b)

    bm = aipu.tir.BuildManager(target="X2_1204")
    ex = bm.build(func)
    assert "__kernel void func(__global int* a, __global int* b) {" in ex.c_code
    a = np.arange(n, dtype=dtype)
    out = np.zeros((n,), dtype=dtype)
    ex(a, out)
    np.testing.assert_array_equal(out, a + 1)
    out[:] = 0
    func(a, out)
    np.testing.assert_array_equal(out, a + 1)


def _without_skeleton(c_code):
    lines = [line for line in c_code.splitlines() if line.strip() and not line.startswith("#include")]
    return "\n".join(line for line in lines if "barrier(CLK_LOCAL_MEM_FENCE)" not in line)


@S.prim_func
def subfunc(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
    b[0] = a[0] + 1


@S.prim_func
def calls_subfunc(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
    subfunc(a, b)


def test_sub_function_runs():
    ex = aipu.tir.BuildManager().build(calls_subfunc, name="func")
    text = _without_skeleton(ex.c_code)
    assert "__kernel void func(__global int* a, __global int* b);" in text
    assert "  b[0] = (a[0] + 1);" in text
    a, b = np.array([41], "int32"), np.array([0], "int32")
    ex(a, b)
    assert b[0] == 42


def test_macro_sees_its_definition_and_the_parameter_shadows():
    n = 8

    @S.macro
    def add_func(inp, out, idx):
        out[idx] = inp[idx] + n

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), n: S.i32):
        if n > 0:
            add_func(a, b, 0)
        else:
            add_func(a, b, 1)

    ex = aipu.tir.BuildManager().build(func)
    text = _without_skeleton(ex.c_code)
    expected = """__kernel void func(__global int* a, __global int* b, int n) {
  if (0 < n) {
    b[0] = (a[0] + 8);
  } else {
    b[1] = (a[1] + 8);
  }
}"""
    assert expected in text
    a, b = np.array([1, 2], "int32"), np.zeros(2, "int32")
    ex(a, b, 5)
    assert b.tolist() == [9, 0]
    ex(a, b, -5)
    assert b.tolist() == [9, 10]


@S.prim_func
def biased_relu(x: S.ptr("fp32", "global"), bias: S.fp32, y: S.ptr("fp32", "global"), n: S.i32):
    tid, tec_num = S.get_local_id(), S.get_local_size()
    stage = S.alloc_buffer((512,), "fp32", scope="lsram")
    share = S.ceildiv(n, tec_num)
    begin = S.min(tid * share, n)
    count = S.min(share, n - begin)
    done = 0
    while done < count:
        step = S.min(512, count - done)
        S.dma_copy(stage.addr_of(0), x + (begin + done), step)
        for k in range(S.ceildiv(step, 8)):
            lane_mask = S.tail_mask(S.min(8, step - k * 8), 8)
            v = S.vload(stage.addr_of(k * 8), mask=lane_mask) + bias
            S.vstore(S.max(v, 0), y + (begin + done + k * 8), mask=lane_mask)
        done += step


def test_complete_example_of_the_language():
    ex = aipu.BuildManager(target="X2_1204").build(biased_relu)
    data = np.linspace(-1, 1, 1000, dtype="float32")
    sim, dev = np.empty_like(data), np.empty_like(data)
    biased_relu(data, 0.25, sim, data.size)
    ex(data, 0.25, dev, data.size)
    expected = np.maximum(data + np.float32(0.25), 0)
    np.testing.assert_array_equal(dev, expected)
    np.testing.assert_array_equal(sim, expected)
