"""Intrinsics that are called inside of ``te.compute``."""

import aipu as tvm
import numpy as np
import pytest
from aipu import te, tir


def product_of_tiles(kind, m=8, n=8, depth=16):
    """``z[i, j] = sum_k x[i, k] * y[j, k]`` by registered functions or by loops."""
    k = te.reduce_axis((0, depth), "k")
    x, y = te.placeholder((m, depth), name="x"), te.placeholder((n, depth), name="y")
    z = te.compute((m, n), lambda i, j: te.sum(x[i, k] * y[j, k], axis=k), name="z")

    def loops(ins, outs, clear, add):
        ib = tir.ir_builder.create()
        a, b, c = (ib.buffer_ptr(t) for t in (*ins, *outs))
        with ib.for_range(0, m) as i, ib.for_range(0, n) as j:
            if clear:
                c[i, j] = 0.0
            if add:
                with ib.for_range(0, depth) as q:
                    c[i, j] = c[i, j] + a[i, q] * b[j, q]
        return ib.get()

    def parts(ins, outs):
        if kind == "loops":
            return loops(ins, outs, True, True), loops(ins, outs, True, False), loops(ins, outs, False, True)
        add = tir.call_packed("intrin_call.add", ins[0], ins[1], outs[0])
        return add, tir.call_packed("intrin_call.clear", outs[0]), add

    return te.decl_tensor_intrin(z.op, parts, default_buffer_params={"offset_factor": 1})


def clear(z):
    z[:] = np.zeros(z.shape, "float32")


def add(x, y, z):
    z[:] = z.numpy() + x.numpy() @ y.numpy().T


@pytest.mark.parametrize("target", ["interpreter", "host", "X2_1204"])
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("kind", ["packed", "loops"])
def test_product_of_tiles(target, cached, kind):
    tvm.register_func("intrin_call.clear", clear, override=True)
    tvm.register_func("intrin_call.add", add, override=True)
    a, b = te.placeholder((4, 3, 8, 16), name="A"), te.placeholder((2, 3, 8, 16), name="B")
    k, intrin = te.reduce_axis((0, 3), "k"), product_of_tiles(kind)

    def tile(i, j):
        return intrin(a[i, k, 0:8, 0:16], b[j, k, 0:8, 0:16], reduce_axis=k)

    c = te.compute((4, 2, 8, 8), tile, name="C")
    assert isinstance(c.op, te.TensorComputeOp) and c.op.schedulable_ndim == 2
    assert c.op.intrin == intrin and list(c.op.reduce_axis) == [k] and len(c.op.axis) == 4
    assert [int(r.extent) for r in c.op.input_regions[1]] == [1, 1, 8, 16]
    s = te.create_schedule(c.op)
    with pytest.raises(tvm.TVMError, match="lies inside of the intrinsic"):
        s[c].split(c.op.axis[2], 2)
    if cached:
        cc = s.cache_write(c, "")
        aa = s.cache_read(a, "", [cc])
        s[cc].compute_at(s[c], c.op.axis[0])
        s[aa].compute_at(s[cc], s[cc].op.axis[1])
        assert int(te.schedule.InferBound(s)[s[aa].op.axis[1]].extent) == 3
    else:
        s[c].split(c.op.axis[0], 3)
    x = np.random.default_rng(1).random((4, 3, 8, 16), "float32")
    y, z = x[:2] + 1, np.zeros((4, 2, 8, 8), "float32")
    tvm.build(s, [a, b, c], target)(x, y, z)
    np.testing.assert_allclose(z, np.einsum("ikmx,jknx->ijmn", x, y), rtol=1e-4)


def scaled():
    n, factor, offset = te.size_var("n"), te.size_var("factor"), te.size_var("offset")
    x = te.placeholder((n,), "int32", name="x")
    y = te.compute((n,), lambda i: x[i] * factor + offset, name="y")

    def body(ins, outs, scalars):
        assert [s.name for s in scalars] == ["factor", "offset"]
        return tir.call_packed("intrin_call.scaled", ins[0].data, outs[0], *scalars)

    return te.decl_tensor_intrin(y.op, body, scalar_params=[factor, offset], default_buffer_params={"offset_factor": 1})


def test_scalars_and_extents_that_follow():
    seen = []

    def multiply(x, y, factor, offset):
        seen.append((factor, offset))
        y[:] = np.full(y.shape, offset, "int32")

    tvm.register_func("intrin_call.scaled", multiply, override=True)
    intrin = scaled()
    a = te.placeholder((3, 4), "int32", name="A")
    c = te.compute((3, 4), lambda i, j: intrin(i * i, a[i, j], i + j), name="C")
    s = te.create_schedule(c.op)
    call = tvm.lower(s, [a, c])["main"].body.body.body
    assert isinstance(call, tir.Evaluate) and len(call.value.args) == 5
    z = np.zeros((3, 4), "int32")
    tvm.build(s, [a, c], "host")(z.copy(), z)
    np.testing.assert_array_equal(z, np.add.outer(np.arange(3), np.arange(4)))
    assert seen[5] == (1, 2)


def test_what_does_not_fit():
    intrin = product_of_tiles("loops")
    a, b = te.placeholder((4, 8, 16), name="A"), te.placeholder((4, 8, 16), "float16", name="B")
    with pytest.raises(tvm.TVMError, match="dimension 2 of A has extent 15, declared is 16"):
        te.compute((4, 8, 8), lambda i: intrin(a[i, 0:8, 0:15], a[i]), name="C")
    with pytest.raises(ValueError, match="has a step"):
        te.compute((4, 8, 8), lambda i: intrin(a[i, 0:8, 0:16:2], a[i]), name="C")
    with pytest.raises(ValueError, match="B is float16, declared is float32"):
        te.compute((4, 8, 8), lambda i: intrin(a[i], b[i]), name="C")
    with pytest.raises(ValueError, match="1 tensors, declared are 2"):
        te.compute((4, 8, 8), lambda i: intrin(a[i]), name="C")
    with pytest.raises(tvm.TVMError, match="its result has extent 8, that of C 9"):
        te.compute((4, 8, 9), lambda i: intrin(a[i], a[i]), name="C")
    c = te.compute((4, 8, 8), lambda i: intrin(a[i], a[i]), name="C")
    s = te.create_schedule(c.op)
    with pytest.raises(tvm.TVMError, match="calls an intrinsic already"):
        s[c].tensorize(c.op.axis[0], intrin)
    with pytest.raises(ValueError, match="a shape of 2 dimensions and a function of 1 indices"):
        te.compute((4, 8), lambda i: a[i, 0, 0])
