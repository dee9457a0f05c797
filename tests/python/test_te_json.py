"""Tensor expressions, schedules and functions as text, pickled, recorded; layouts; statements with else and while."""

import copy
import pickle

import aipu
import numpy as np
import pytest
from aipu import ir, te, tir, topi

TARGETS = ["interpreter", "host", "X2_1204"]


def run(schedule, args, arrays, target="interpreter"):
    aipu.build(schedule, args, target)(*arrays)
    return arrays[-1]


def product(n=24, k=16):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="r")
    return a, b, te.compute((n, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")


# --- text -------------------------------------------------------------------------------------------------------------


def test_expressions_keep_what_they_share():
    n, x = te.size_var("n"), te.var("x", "float32")
    e = tir.Select(n > 3, te.exp(x) * 0.1, tir.min_value("float32")) + x
    again = ir.load_json(ir.save_json(e))
    assert str(again) == str(e) and ir.structural_equal(again, e, map_free_vars=True)
    m = again.a.condition
    assert len({v.key() for v in tir_variables(again)}) == 2 and isinstance(tir_variables(m)[0], tir.SizeVar)
    assert not ir.structural_equal(again, e)  # whose variables are others


def tir_variables(e):
    found = []
    tir.stmt_functor.post_order_visit(e, lambda node: found.append(node) if isinstance(node, tir.Var) else None)
    return found


def test_numbers_are_exact():
    for value in (0.1, float("inf"), 1e-300):
        assert pickle.loads(pickle.dumps(tir.const(value, "float64"))).value == value
    assert ir.load_json(ir.save_json([tir.const(2**40, "int64"), "text", None])) == [2**40, "text", None]


def test_tensors():
    a, b, c = product()
    again = ir.load_json(ir.save_json(c))
    assert [t.name for t in again.op.input_tensors] == ["A", "B"] and again.op.reduce_axis[0].dom.extent == 16
    assert str(again.op.body[0]) == str(c.op.body[0])
    x, w = aipu.nd.array(np.ones((24, 16), "float32")), np.ones((16, 24), "float32")
    out = np.zeros((24, 24), "float32")
    assert (run(te.create_schedule(again.op), [*again.op.input_tensors, again], [x.numpy(), w, out]) == 16).all()


def test_scans_and_statements():
    m, n = te.var("m"), te.var("n")
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="S")
    init = te.compute((1, n), lambda _, i: x[0, i])
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i])
    total = te.scan(init, update, state, inputs=[x], name="total")
    twice = te.extern((m, n), [total], lambda ins, outs: written(ins[0], outs[0], m, n), name="twice")
    again, given = ir.load_json(ir.save_json([twice, x]))
    values = np.arange(12, dtype="float32").reshape(4, 3)
    out = np.zeros_like(values)
    run(te.create_schedule(again.op), [given, again], [values, out])
    np.testing.assert_array_equal(out, 2 * np.cumsum(values, axis=0))


def written(a, b, m, n):
    ib = tir.ir_builder.create()
    with ib.for_range(0, m, "i") as i, ib.for_range(0, n, "j") as j:
        ib.emit(b.vstore([i, j], a.vload([i, j]) * 2.0))
    return ib.get()


@pytest.mark.parametrize("through", [lambda s: ir.load_json(ir.save_json(s)), lambda s: pickle.loads(pickle.dumps(s))])
def test_schedules(through):
    a, b, c = product()
    s = te.create_schedule(c.op)
    panel = s.cache_read(b, "local", [c])
    local = s.cache_write(c, "local")
    xo, yo, xi, yi = s[c].tile(*s[c].op.axis, 8, 8)
    s[local].compute_at(s[c], yo)
    s[panel].compute_at(s[local], s[local].op.reduce_axis[0])
    s[c].vectorize(yi)
    s[c].parallel(xo)
    s[c].pragma(xi, "mine", 3)
    s[panel].storage_align(s[panel].op.axis[0], 16, 1)
    again = through(s)
    assert isinstance(again, te.Schedule) and [st.op.name for st in again.stages] == [st.op.name for st in s.stages]
    assert str(te.schedule.ScheduleOps(again, None)) == str(te.schedule.ScheduleOps(s, None))
    placeholders = [st.op.output(0) for st in again.stages if isinstance(st.op, te.PlaceholderOp)]
    rng = np.random.default_rng(1)
    x, w = rng.random((24, 16)).astype("float32"), rng.random((16, 24)).astype("float32")
    out = np.zeros((24, 24), "float32")
    run(again, [*placeholders, again.outputs[0].output(0)], [x, w, out])
    np.testing.assert_allclose(out, x @ w, rtol=1e-5)
    again[again.outputs[0]].fuse(*again[again.outputs[0]].leaf_iter_vars[2:])  # it is a schedule like any other


def test_groups_and_threads():
    a = te.placeholder((32,), name="A")
    b = te.compute((32,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((32,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    group = s.create_group(outputs=b, inputs=a)
    outer, inner = s[c].split(c.op.axis[0], 8)
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    group.compute_at(s[c], outer)
    again = pickle.loads(pickle.dumps(s))
    assert len(again.groups) == 1 and str(te.schedule.ScheduleOps(again, None)) == str(te.schedule.ScheduleOps(s, None))


def test_functions_and_modules():
    a, b, c = product()
    mod = aipu.lower(te.create_schedule(c.op), [a, b, c], name="mine")
    again = ir.load_json(ir.save_json(mod))
    assert again.script() == mod.script() and ir.structural_equal(again, mod)
    rng = np.random.default_rng(1)
    x, w = rng.random((24, 16)).astype("float32"), rng.random((16, 24)).astype("float32")
    out = np.zeros((24, 24), "float32")
    aipu.build(pickle.loads(pickle.dumps(mod["mine"])), target="interpreter")(x, w, out)
    np.testing.assert_allclose(out, x @ w, rtol=1e-5)
    assert copy.deepcopy(mod)["mine"].name == "mine"


def test_what_has_no_text():
    with pytest.raises(ValueError, match="not what save_json has written"):
        ir.load_json("{}")
    with pytest.raises(ValueError, match="load_json"):
        ir.load_json("nothing")
    with pytest.raises(aipu.TVMError, match="save_json: object is not supported"):
        ir.save_json(object())
    x = te.placeholder((16,), name="x")
    y = te.compute((16,), lambda i: x[i] * 2.0, name="y")
    twice = te.decl_tensor_intrin(y.op, lambda ins, outs: tir.call_packed("twice", ins[0], outs[0]))
    s = te.create_schedule(y.op)
    s[y].tensorize(y.op.axis[0], twice)
    with pytest.raises(aipu.TVMError, match="'y' is tensorized"):
        pickle.dumps(s)


# --- records ----------------------------------------------------------------------------------------------------------


def test_schedules_are_recorded():
    a, b, c = product()
    with aipu.transform.PassContext(config={"te.keep_schedule_record": True}):
        s = te.create_schedule(c.op)
        local = s.cache_write(c, "local")
        xo, yo, xi, yi = s[c].tile(*s[c].op.axis, 8, 8)
        s[local].compute_at(s[c], yo)
        s[c].vectorize(yi)
    names = ["vanilla", "cache_write", "split", "split", "reorder", "compute_at", "vectorize"]
    assert s.primitive_record == names and len(s.schedule_record) == len(names)
    loops = [len(copy.stages[-1].leaf_iter_vars) for copy in s.schedule_record]
    assert loops == [3, 2, 3, 4, 4, 4, 4]  # the first is that of the product itself
    s[c].unroll(xi)
    assert s.primitive_record[-1] == "unroll" and "unrolled" not in str(
        te.schedule.ScheduleOps(s.schedule_record[-2], None)
    )
    with pytest.raises(AttributeError, match="keep_schedule_record"):
        assert te.create_schedule(c.op).schedule_record


# --- layouts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_blocked_layouts(target):
    a = te.placeholder((16, 40), name="A")
    b = te.compute((16, 40), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((16, 40), lambda i, j: b[i, j] * te.if_then_else(j > 0, a[i, te.max(j - 1, 0)], 0.0), name="C")
    s = te.create_schedule(c.op)
    assert s[a].transform_layout(lambda i, j: [j // 8, i, j % 8]) is None
    axes = s[b].transform_layout(lambda i, j: [i * 40 + j])
    assert [int(x.dom.extent) for x in axes] == [640] and list(s[b].leaf_iter_vars) == axes
    jo, i, ji = s[c].transform_layout(lambda *index: [index[1] // 4, te.AXIS_SEPARATOR, index[0], index[1] % 4])
    s[c].vectorize(ji)
    x = np.random.default_rng(1).random((16, 40)).astype("float32")
    packed = np.ascontiguousarray(x.reshape(16, 5, 8).transpose(1, 0, 2))
    out = run(s, [a, c], [packed, np.zeros((10, 16, 4), "float32")], target)
    expected = (x + 1) * np.pad(x, ((0, 0), (1, 0)))[:, :-1]
    np.testing.assert_allclose(out, expected.reshape(16, 10, 4).transpose(1, 0, 2), rtol=1e-6)


def test_layouts_of_a_product():
    a, b, c = product()
    s = te.create_schedule(c.op)
    s[b].transform_layout(lambda k, j: [j // 8, k, j % 8])
    outer, inner, j = s[c].transform_layout(lambda i, j: [i // 4, i % 4, j])
    s[c].reorder(outer, j, s[c].op.reduce_axis[0], inner)
    rng = np.random.default_rng(1)
    x, w = rng.random((24, 16)).astype("float32"), rng.random((16, 24)).astype("float32")
    packed = np.ascontiguousarray(w.reshape(16, 3, 8).transpose(1, 0, 2))
    out = run(s, [a, b, c], [x, packed, np.zeros((6, 4, 24), "float32")], "host")
    np.testing.assert_allclose(out.reshape(24, 24), x @ w, rtol=1e-5)


def test_layouts_compose_and_may_be_symbolic():
    n = te.size_var("n")
    a = te.placeholder((n, 6), name="A")
    b = te.compute((n, 6), lambda i, j: a[i, j] * 2.0, name="B")
    s = te.create_schedule(b.op)
    s[a].transform_layout(lambda i, j: [j, i])
    s[a].transform_layout(lambda j, i: [j // 3, i, j % 3])
    x = np.arange(30, dtype="float32").reshape(5, 6)
    packed = np.ascontiguousarray(x.T.reshape(2, 3, 5).transpose(0, 2, 1))
    np.testing.assert_array_equal(run(s, [a, b], [packed, np.zeros((5, 6), "float32")]), x * 2)


@pytest.mark.parametrize(
    "mapping, why",
    [
        (lambda i, j: [i // 5, i % 5, j], "does not divide"),
        (lambda i, j: [i], "index 1 is not recovered"),
        (lambda i, j: [i, j, i], "index 0 is not recovered"),
        (lambda i, j: [i + j], "leaves places without an element"),
        (lambda i, j: [i * 2, j], "leaves places without an element"),
        (lambda i, j: [i * j], "is no sum of parts"),
        (lambda i: [i], "a mapping of 1 indices for 2 dimensions"),
    ],
)
def test_layouts_that_are_refused(mapping, why):
    a = te.placeholder((16, 40), name="A")
    b = te.compute((16, 40), lambda i, j: a[i, j] + 1.0, name="B")
    s = te.create_schedule(b.op)
    with pytest.raises(aipu.TVMError, match=why):
        s[b].transform_layout(mapping)
    s[b].split(b.op.axis[0], 4)
    with pytest.raises(aipu.TVMError, match="neither split nor fused"):
        s[b].transform_layout(lambda i, j: [j, i])


# --- statements -------------------------------------------------------------------------------------------------------


def extern(n, write, dtype="float32"):
    a = te.placeholder((n,), dtype, name="A")
    ib = tir.ir_builder.create()

    def make(ins, outs):
        write(ib, ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0]))
        return ib.get()

    return a, te.extern((n,), [a], make, name="B", dtype=dtype)


@pytest.mark.parametrize("target", [*TARGETS, "cuda"])
def test_else_cases(target, cuda):
    def write(ib, a, b):
        with ib.for_range(0, 20, "i") as i:
            b[i] = a[i]
            with ib.if_scope(b[i] > 0.0):  # the condition is not asked again
                b[i] = b[i] * -1.0
            with ib.else_scope():
                b[i] = b[i] + 100.0

    a, b = extern(20, write)
    x = np.random.default_rng(1).standard_normal(20).astype("float32")
    out = run(te.create_schedule(b.op), [a, b], [x, np.zeros(20, "float32")], target)
    np.testing.assert_array_equal(out, np.where(x > 0, -x, x + np.float32(100)))


def test_else_as_an_object():
    ib = tir.ir_builder.create()
    n = te.size_var("n")
    a = ib.allocate("float32", (4,), name="a")
    with ib.for_range(0, n, "i") as i:
        with ib.if_scope(i % 2 == 0):
            a[i] = a[i] + 1.0
        with ib.else_scope():
            a[0] = a[i] + 2.0
    branch = ib.get().body.body
    assert isinstance(branch, tir.IfThenElse) and isinstance(branch.else_case, tir.BufferStore)
    assert branch.else_case.indices[0] == 0 and "else:" in str(branch)
    made = tir.IfThenElse(branch.condition, branch.then_case, branch.else_case)
    assert ir.structural_equal(made, branch) and not ir.structural_equal(
        tir.IfThenElse(branch.condition, branch.then_case), branch
    )
    with pytest.raises(RuntimeError, match="else_scope follows an if_scope"):
        tir.ir_builder.create().else_scope()


@pytest.mark.parametrize("target", TARGETS)
def test_while_loops(target):
    def write(ib, a, b):
        with ib.for_range(0, 12, "i", kind="parallel") as i:
            b[i] = a[i]
            with ib.while_loop(b[i] < 100):
                b[i] = b[i] * 3

    a, b = extern(12, write, "int32")
    x = np.arange(1, 13, dtype="int32")
    out = run(te.create_schedule(b.op), [a, b], [x, np.zeros(12, "int32")], target)
    expected = x.copy()
    while (expected < 100).any():
        expected = np.where(expected < 100, expected * 3, expected)
    np.testing.assert_array_equal(out, expected)


def test_branches_around_calls_by_name():
    seen = []
    aipu.register_func("test.json.seen", lambda kind, i: seen.append((kind, i)), override=True)

    def write(ib, a, b):
        count = ib.allocate("int32", (1,), name="count", scope="local")
        count[0] = 0
        with ib.while_loop(tir.all(count[0] < 4, a[count[0]] < 9.0)):
            with ib.if_scope(a[count[0]] > 1.0):
                ib.emit(tir.call_packed("test.json.seen", "more", count[0]))
            with ib.else_scope():
                ib.emit(tir.call_packed("test.json.seen", "less", count[0]))
            count[0] = count[0] + 1
        b[0] = 1.0

    a, b = extern(4, write)
    run(te.create_schedule(b.op), [a, b], [np.array([0, 2, 1, 5], "float32"), np.zeros(4, "float32")], "host")
    assert seen == [("less", 0), ("more", 1), ("less", 2), ("more", 3)]


@pytest.mark.parametrize("target", TARGETS)
def test_vectors_of_buffers(target):
    def make(ins, outs):
        ib = tir.ir_builder.create()
        with ib.for_range(0, 8, "i") as i:
            value = ins[0].vload(i * 4, "float32x4") * tir.const(2, "float32x4") + tir.Cast(
                "float32x4", tir.Ramp(i * 4, 1, 4)
            )
            ib.emit(outs[0].vstore(i * 4, value))
        return ib.get()

    a = te.placeholder((32,), name="A")
    b = te.extern((32,), [a], make, name="B")
    x = np.random.default_rng(1).random(32).astype("float32")
    out = run(te.create_schedule(b.op), [a, b], [x, np.zeros(32, "float32")], target)
    np.testing.assert_array_equal(out, x * 2 + np.arange(32, dtype="float32"))


def test_vectors_as_objects():
    i = te.var("i")
    ramp = tir.Ramp(i, 2, 8)
    assert isinstance(ramp, tir.Ramp) and ramp.dtype == "int32x8" and (ramp.lanes, ramp.stride) == (8, 2)
    wide = tir.Broadcast(tir.const(1.5), 4)
    assert isinstance(wide, tir.Broadcast) and wide.lanes == 4 and wide.dtype == "float32x4"
    assert isinstance(i.astype("int32x4"), tir.Broadcast) and not isinstance(i.astype("int64"), tir.Broadcast)
    with pytest.raises(aipu.TVMError, match="Ramp"):
        tir.Ramp(tir.const(1.5), 1, 4)
    with pytest.raises(aipu.TVMError, match="elements of type int8x4"):
        tir.decl_buffer((8,)).vload(0, "int8x4")


def test_topi_results_have_a_text():
    x = te.placeholder((3, 4), name="x")
    y = topi.nn.softmax(x)
    assert ir.load_json(ir.save_json(y)).op.name == y.op.name
