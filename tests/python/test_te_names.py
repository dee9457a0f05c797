"""What programs written for tensor expressions look at: names, attributes, the structure of lowered loops."""

import aipu
import numpy as np
import pytest
from aipu import te, tir


def added(n=32):
    a = te.placeholder((n,), name="A")
    return a, te.compute((n,), lambda i: a[i] + 1.0, name="B")


def nodes(stmt, cls):
    found = []
    tir.stmt_functor.post_order_visit(stmt, lambda x: found.append(x) if isinstance(x, cls) else None)
    return found


def test_bit_operations_are_calls():
    x = te.var("x")
    for node, name in [(x << 3, "shift_left"), (x >> 1, "shift_right"), (x & 7, "bitwise_and"), (x | 1, "bitwise_or")]:
        assert isinstance(node, tir.Call) and node.op.name == f"tir.{name}"
        assert node.args[0].same_as(x)
    assert tir.shift_left(x, 3).op == (x << 3).op and tir.add(x, 1).dtype == "int32"
    assert tir.bitwise_not(x).op.name == "tir.bitwise_xor"
    with pytest.raises(RuntimeError):
        tir.bitwise_not(tir.const(1.0))


def test_structural_equality_looks_through_names():
    x, y = te.var("x"), te.var("y")
    assert aipu.ir.structural_equal(x + 1, x + 1)
    assert not aipu.ir.structural_equal(x + 1, x + 2)
    assert not aipu.ir.structural_equal(x + 1, y + 1)
    assert aipu.ir.structural_equal(x + 1, y + 1, map_free_vars=True)
    assert not aipu.ir.structural_equal(x + x, x + y, map_free_vars=True)
    assert not aipu.ir.structural_equal(x + y, x + x, map_free_vars=True)
    aipu.ir.assert_structural_equal(tir.stmt_functor.substitute(x + 1, {x: y}), y + 1)
    with pytest.raises(ValueError, match="not structurally equal"):
        aipu.ir.assert_structural_equal(x + 1, x + 2)


def test_structural_equality_of_functions():
    def lowered(extent, factor, constant=1.0, swapped=False):
        n = extent or te.var("n")
        a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
        k = te.reduce_axis((0, 4))
        c = te.compute((n,), lambda i: te.sum(a[i] * b[i] + k * constant, axis=k))
        s = te.create_schedule(c.op)
        s[c].split(c.op.axis[0], factor)
        return aipu.lower(s, [b, a, c] if swapped else [a, b, c])

    for extent in (64, None):
        aipu.ir.assert_structural_equal(lowered(extent, 8), lowered(extent, 8))
        for other in (lowered(extent, 4), lowered(extent, 8, 2.0), lowered(extent, 8, swapped=True), lowered(32, 8)):
            assert not aipu.ir.structural_equal(lowered(extent, 8), other)
            assert not aipu.ir.structural_equal(lowered(extent, 8)["main"], other["main"])


def test_pass_context_knows_its_keys():
    with aipu.transform.PassContext(opt_level=3, disabled_pass=["x"], config={"tir.noalias": True}) as context:
        assert aipu.transform.PassContext.current() is context
        a, b = added()
        aipu.lower(te.create_schedule(b.op), [a, b])
    with pytest.raises(AttributeError, match="tir.LoopPartition"):
        aipu.transform.PassContext(config={"no.such": 1})
    with pytest.raises(aipu.TVMError, match="add_lower_pass"):
        aipu.transform.PassContext(config={"tir.add_lower_pass": [(0, print)]})


def test_inlining_what_nobody_scheduled():
    a, b = added()
    c = te.compute((32,), lambda i: b[31 - i] * 2.0, name="C")
    d = te.compute((32,), lambda i: c[i] + b[i], name="D")
    s = te.create_schedule(d.op)
    te.schedule.AutoInlineElemWise(s)
    assert s[b].attach_type == 2 and s[c].attach_type == 1 and s[d].attach_type == 1
    te.schedule.AutoInlineInjective(s)
    assert s[c].attach_type == 2 and s[d].attach_type == 1
    x, out = np.random.rand(32).astype("float32"), np.zeros(32, "float32")
    aipu.build(s, [a, d])(x, out)
    np.testing.assert_allclose(out, (x[::-1] + 1) * 2 + x + 1, rtol=1e-6)
    total = a + te.placeholder((32,))
    last = te.compute((32,), lambda i: total[i])
    s = te.create_schedule(last.op)
    te.schedule.AutoInlineBroadcast(s)
    assert s[total].attach_type == 2


def test_the_loops_around_a_stage():
    a = te.placeholder((8, 4), name="A")
    b = te.compute((8, 4), lambda i, j: a[i, j], name="B")
    c = te.compute((8, 4), lambda i, j: b[i, j], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[1])
    path = te.schedule.CreateAttachPath(s)
    assert path[b.op] == [c.op.axis[1], c.op.axis[0]] and path[c.op] == []


def test_shared_memory_is_bounded_over_the_threads_of_a_block():
    m = te.var("m")
    a = te.placeholder((m,), name="A")
    b = te.compute((m,), lambda i: a[i], name="B")
    c = te.compute((m,), lambda i: b[i] + 2.0, name="C")
    for scope, extent in (("shared", 32), ("local", 1)):
        s = te.create_schedule(c.op)
        s[b].set_scope(scope)
        block, thread = s[c].split(c.op.axis[0], 32)
        s[c].bind(block, te.thread_axis("blockIdx.x"))
        s[c].bind(thread, te.thread_axis("threadIdx.x"))
        s[b].compute_at(s[c], thread)
        assert te.schedule.InferBound(s)[b.op.axis[0]].extent.value == extent


def test_threads_are_attributes_and_memory_is_an_allocation():
    a, b = added(64)
    c = te.compute((64,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 16)
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    s[c].bind(inner, te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], inner)
    body = aipu.lower(s, [a, c])["main"].body
    extents = [x.value.value for x in nodes(body, tir.AttrStmt) if x.attr_key == "thread_extent"]
    assert extents == [16, 4]
    memory = nodes(body, tir.Allocate)
    assert [(x.dtype, [int(e) for e in x.extents], x.buffer_var.name) for x in memory] == [("float32", [1], "B")]
    s = te.create_schedule(c.op)
    body = aipu.lower(s, [a, b, c])["main"].body
    assert not nodes(body, tir.AttrStmt) and nodes(body, tir.For)[0].annotations == {}
    assert {x.buffer.name for x in nodes(body, tir.BufferLoad)} == {"A", "B"}


def test_functions_of_modules():
    a, b = added()
    s = te.create_schedule(b.op)
    module = aipu.lower(s, [a, b], name="first")
    function = module["first"]
    assert isinstance(function, tir.PrimFunc) and function.attrs["global_symbol"] == "first"
    assert [function.buffer_map[p].name for p in function.params] == ["A", "B"]
    assert module.get_global_vars()[0].name_hint == "first"
    module.update(aipu.IRModule.from_expr(function.with_attr("global_symbol", "second")))
    assert "second" in module and function.attrs["global_symbol"] == "first"
    x, out = np.random.rand(32).astype("float32"), np.zeros(32, "float32")
    for built in (aipu.build(module), aipu.build([module]), aipu.build({"host": module})):
        built["second"](x, out)
        np.testing.assert_array_equal(out, x + 1)
        out[:] = 0
    with pytest.raises(aipu.TVMError, match="2 targets"):
        aipu.build({"host": module, "X2_1204": module})
    again = aipu.driver.build_module.schedule_to_module(s, [a, b])
    assert nodes(again["main"].body, tir.For)


def test_small_names():
    assert aipu.target.Target("cuda").max_num_threads == 1024
    assert aipu.target.Target("cuda -max_num_threads=256").max_num_threads == 256
    with pytest.raises(AttributeError):
        aipu.target.Target("host").max_num_threads  # noqa: B018
    assert aipu.error.InternalError is aipu.TVMError
    analyzer, x = aipu.arith.Analyzer(), te.var("x")
    analyzer.bind(x, aipu.ir.Range(0, 8))
    assert analyzer.const_int_bound(x * 2).max_value == 14
    assert isinstance(te.placeholder((1,)), te.tensor.Tensor)
    assert te.all(x > 0, x < 3).dtype == "bool"


def test_bits_and_bools_of_tensors():
    a, b = te.placeholder((4,), "bool", name="a"), te.placeholder((4,), "bool", name="b")
    i = te.placeholder((4,), "int32", name="i")
    either, turned = aipu.topi.logical_xor(a, b), aipu.topi.bitwise_not(i)
    s = te.create_schedule([either.op, turned.op])
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    n = np.array([0, -1, 5, 2**31 - 1], "int32")
    out, bits = np.zeros(4, bool), np.zeros(4, "int32")
    aipu.build(s, [a, b, i, either, turned])(x, y, n, out, bits)
    np.testing.assert_array_equal(out, x ^ y)
    np.testing.assert_array_equal(bits, ~n)


def test_a_limit_of_unrolling_is_a_hint():
    a, b = added(16)
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[0], 4)
    s[b].pragma(outer, "auto_unroll_max_step", 16)
    s[b].pragma(outer, "unroll_explicit", 1)
    x, out = np.random.rand(16).astype("float32"), np.zeros(16, "float32")
    aipu.build(s, [a, b])(x, out)
    np.testing.assert_array_equal(out, x + 1)
