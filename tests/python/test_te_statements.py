"""What lowering makes, as objects; functions whose statements are written by hand; values of functions by name."""

import aipu as tvm
import numpy as np
import pytest
from aipu import te, tir, topi

TARGETS = ["interpreter", "host", "X2_1204"]


def nodes(stmt, kind):
    found = []
    tir.stmt_functor.post_order_visit(stmt, lambda node: found.append(node) if isinstance(node, kind) else None)
    return found


# --- what lowering makes ----------------------------------------------------------------------------------------------


def test_memory_of_each_output_is_a_statement():
    a = te.placeholder((20, 8), name="a")
    b, c = te.compute((20, 8), lambda i, j: (a[i, j] * 2, a[i, j] + 3), name="b")
    d = te.compute((20, 8), lambda i, j: b[i, j] + c[i, j], name="d")
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(d.op.axis[0], factor=10)
    s[b].compute_at(s[d], outer)
    stmt = te.schedule.ScheduleOps(s, te.schedule.InferBound(s))
    memory = [n.producer for n in nodes(stmt, tir.ProducerRealize) if n.producer.op == b.op]
    assert sorted(t.value_index for t in memory) == [0, 1]
    assert isinstance(stmt.body.body, tir.ProducerRealize) and isinstance(stmt.body.body.body, tir.ProducerRealize)
    assert stmt.body.body.producer.value_index == 0
    x, y = np.random.default_rng(1).random((20, 8)).astype("float32"), np.zeros((20, 8), "float32")
    for target in TARGETS:
        tvm.build(s, [a, d], target)(x, y)
        np.testing.assert_allclose(y, x * 3 + 3, rtol=1e-6)


def test_normalize_inlines():
    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] + 1, name="b")
    c = te.compute((16,), lambda i: b[i] * 2, name="c")
    d = te.compute((16,), lambda i: c[i] + b[i], name="d")
    s = te.create_schedule(d.op)
    s[c].compute_inline()
    normal = s.normalize()
    reads = lambda schedule: {r.producer.op.name for r in nodes(schedule[d].op.body[0], tir.ProducerLoad)}
    assert reads(s) == {"b", "c"} and reads(normal) == {"b"}
    assert list(normal[d].op.axis) == list(d.op.axis)  # axes are the same objects
    assert (s[c].attach_type, normal[c].attach_type) == (2, 3)
    x, y = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    tvm.build(normal, [a, d], "host")(x, y)
    np.testing.assert_array_equal(y, (x + 1) * 3)


def test_cycles_are_refused_at_lowering():
    a = te.placeholder((16, 16), name="a")
    b = te.compute((16, 16), lambda *i: a(*i) + 1, name="b")
    c = te.compute((16, 16), lambda *i: b(*i) + 1, name="c")
    d = te.compute((16, 16), lambda *i: c(*i) + 1, name="d")
    s = te.create_schedule(d.op)
    s[c].compute_at(s[c], c.op.axis[0])
    with pytest.raises(tvm.TVMError, match="'c' is attached at itself"):
        tvm.lower(s, [a, d])
    s = te.create_schedule(d.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].compute_at(s[b], b.op.axis[0])
    with pytest.raises(tvm.TVMError, match="compute_at: 'c'"):
        tvm.lower(s, [a, d])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("how", ["split", "fuse", "parallel"])
def test_an_argument_is_computed_in_parts(target, how):
    a = te.placeholder((10, 12), name="a")
    b = te.compute((10, 12), lambda i, j: a[i, j] * 2, name="b")
    c = te.compute((10, 12), lambda i, j: b[i][j] + 1, name="c")
    s = te.create_schedule([c.op])
    i, j = c.op.axis
    s[b].compute_at(s[c], i if how == "parallel" else j)
    if how == "split":
        s[c].split(j, 5)
    elif how == "fuse":
        s[c].fuse(i, j)
    else:
        s[c].parallel(i)
    text = str(tvm.lower(s, [a, b, c]))
    assert "allocate" not in text  # it lies in the caller's array
    x = np.random.default_rng(2).random((10, 12)).astype("float32")
    y, z = np.zeros_like(x), np.zeros_like(x)
    tvm.build(s, [a, b, c], target)(x, y, z)
    np.testing.assert_array_equal(y, x * 2)
    np.testing.assert_array_equal(z, x * 2 + 1)


@pytest.mark.parametrize(
    "read",
    [
        lambda b: te.compute(
            (10,), lambda i: b[i] + b[te.min(i + 1, 9)], name="c"
        ),  # what two iterations need overlaps
        lambda b: te.compute((5,), lambda i: b[i * 2], name="c"),  # half of it is not needed
        lambda b: te.compute((10,), lambda i: b[9 - i], name="c"),
    ],
)
def test_an_argument_that_is_needed_otherwise_is_not(read):
    a = te.placeholder((10,), name="a")
    b = te.compute((10,), lambda i: a[i] * 2, name="b")
    c = read(b)
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    with pytest.raises(tvm.TVMError, match="'b' is an argument, which has to be computed whole"):
        tvm.lower(s, [a, b, c])


@pytest.mark.parametrize("target", TARGETS)
def test_debug_skip_region(target):
    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] * 2, name="b")
    c = te.compute((16,), lambda i: a[i] * 3, name="c")
    s = te.create_schedule([b.op, c.op])
    outer, _ = s[b].split(b.op.axis[0], 4)
    s[b].pragma(outer, "debug_skip_region")
    x, y, z = np.ones(16, "float32"), np.full(16, 7, "float32"), np.zeros(16, "float32")
    tvm.build(s, [a, b, c], target)(x, y, z)
    assert (y == 7).all() and (z == 3).all()


def test_a_single_statement_is_no_sequence():
    builder = tir.ir_builder.create()
    memory = builder.allocate("float32", (10,), name="memory")
    with builder.for_range(0, 10, name="i") as i:
        memory[i] = memory[i] + 1
        with builder.for_range(0, 10, name="j") as j:
            memory[j] = memory[j] + 2
    stmt = builder.get()
    assert isinstance(stmt, tir.Allocate) and isinstance(stmt.body, tir.For)
    assert isinstance(stmt.body.body, tir.SeqStmt) and isinstance(stmt.body.body[1], tir.For)
    assert isinstance(tir.Evaluate(0), tir.Evaluate)


# --- functions of statements ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_a_function_of_a_statement(target):
    n = te.size_var("n")
    data = tir.decl_buffer((n,), "int64", name="data")
    builder = tir.ir_builder.create()
    pointer = builder.buffer_ptr(data)
    with builder.for_range(0, n - 1, "i") as i:
        with builder.if_scope(tir.EQ(i, 4)):
            pointer[i + 1] = pointer[i] + 1
        with builder.else_scope():
            pointer[i + 1] = pointer[i] + 2
    function = tir.PrimFunc([data], builder.get()).with_attr("global_symbol", "ramp")
    assert function.buffer_map[function.params[0]].same_as(data)
    module = tvm.build(tvm.IRModule.from_expr(function), target=target)
    x = tvm.nd.array(np.zeros(10, "int64"))
    module["ramp"](x)
    expected = np.arange(10) * 2
    expected[5:] -= 1
    np.testing.assert_array_equal(x.numpy(), expected)


def test_statements_by_their_classes():
    data = tir.decl_buffer((8,), "float32", name="data")
    i, twice = te.var("i"), te.var("twice", "float32")
    store = tir.BufferStore(data, twice, [i])
    body = tir.LetStmt(twice, tir.BufferLoad(data, [i]) * 2, store)
    stmt = tir.For(i, 0, 8, tir.ForKind.SERIAL, tir.IfThenElse(i < 5, body))
    assert isinstance(stmt, tir.For) and isinstance(stmt.body, tir.IfThenElse)
    assert tir.AttrStmt(i, "pragma_hint", 1, stmt).attr_key == "pragma_hint"
    assert len(tir.SeqStmt([stmt, stmt])) == 2
    with pytest.raises(TypeError, match="a statement, not int"):
        tir.IfThenElse(i < 5, body, 3)
    with pytest.raises(tvm.TVMError, match="a loop from 0"):
        tir.For(i, 1, 8, tir.ForKind.SERIAL, body)
    x = np.arange(8, dtype="float32")
    tvm.build(tvm.IRModule.from_expr(tir.PrimFunc([data], stmt)), target="host")(x)
    np.testing.assert_array_equal(x, [0, 2, 4, 6, 8, 5, 6, 7])


# --- values of functions by name --------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_trace(target):
    seen = []
    tvm.register_func("test.see", lambda *values: seen.append(values), override=True)
    tvm.register_func("test.replace", lambda value: 13, override=True)
    a = te.placeholder((2, 3), "float64", name="a")
    b = te.compute((2, 3), lambda i, j: tir.trace([i, j, a[i][j]], "test.see") + 1, name="b")
    c = te.compute((2, 3), lambda i, j: tir.trace([b[i, j]], "test.replace"), name="c")
    s = te.create_schedule(c.op)
    s[c].vectorize(c.op.axis[1])
    x = np.arange(6, dtype="float64").reshape(2, 3)
    y, z = np.zeros_like(x), np.zeros_like(x)
    tvm.build(s, [a, b, c], target)(x, y, z)
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(z, np.full((2, 3), 13))
    assert seen == [(i, j, x[i, j]) for i in range(2) for j in range(3)]


def test_trace_prints(capsys):
    a = te.placeholder((2,), "int32", name="a")
    b = te.compute((2,), lambda i: tir.trace([i, a[i]]), name="b")
    x, y = np.array([5, 6], "int32"), np.zeros(2, "int32")
    tvm.build(te.create_schedule(b.op), [a, b], "host")(x, y)
    np.testing.assert_array_equal(x, y)
    assert capsys.readouterr().out == "0 5\n1 6\n"


@pytest.mark.parametrize("target", TARGETS)
def test_value_of_a_function_by_name(target):
    tvm.register_func("test.square", lambda value: value * value, override=True)
    a = te.placeholder((3, 4), "int32", name="a")
    k = te.reduce_axis((0, 4), "k")
    b = te.compute((3,), lambda i: te.sum(tir.call_packed("test.square", a[i, k]), axis=k), name="b")
    x, y = np.arange(12, dtype="int32").reshape(3, 4), np.zeros(3, "int32")
    s = te.create_schedule(b.op)
    tvm.build(s, [a, b], target)(x, y)
    np.testing.assert_array_equal(y, (x * x).sum(1))
    tvm.remove_global_func("test.square")
    with pytest.raises(tvm.TVMError, match="no registered function 'test.square'"):
        tvm.build(s, [a, b], target)(x, y)
    with pytest.raises(tvm.TVMError, match="not supported on cuda"):
        tvm.build(s, [a, b], "cuda")


# --- smaller ----------------------------------------------------------------------------------------------------------


def test_rounding_folds_constants():
    for name, expected in {"floor": 2, "ceil": 3, "trunc": 2, "round": 2, "nearbyint": 2}.items():
        value = getattr(te, name)(tir.const(2.5, "float32"))
        assert isinstance(value, tir.FloatImm) and value.value == expected
    assert te.round(tir.const(-3.5)).value == -4 and te.round(tir.const(7.0)).value == 7
    assert (te.ceil(tir.const(3, "int32") + 0.55)).astype("int").value == 4


def test_bounds_are_checked_when_asked_for():
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i + 1], name="b")  # reads behind the end
    s = te.create_schedule(b.op)
    with tvm.transform.PassContext(config={"tir.instrument_bound_checkers": True}):
        checked = tvm.build(s, [a, b], "llvm")
    with pytest.raises(RuntimeError):
        checked(np.zeros(8, "float32"), np.zeros(8, "float32"))


def test_numbers_of_rank_zero_are_copied():
    a = tvm.nd.array(np.array(3.5, "float32"))
    b = tvm.nd.array(np.array(0, "float32"))
    tvm.register_func("test.copy", lambda x, y: x.copyto(y), override=True)
    p = te.placeholder((), name="p")
    q = te.extern((), [p], lambda ins, outs: tir.call_packed("test.copy", ins[0], outs[0]), name="q")
    tvm.build(te.create_schedule(q.op), [p, q], "host")(a, b)
    assert b.numpy() == 3.5


def test_arguments_of_an_address():
    m, n = te.size_var("m"), te.size_var("n")
    buffer = tir.decl_buffer((m, n), "float32", strides=[n + 1, 1])
    kind, _, offset, extent, mask = buffer.access_ptr("rw", offset=100).args
    assert kind.dtype == "float32" and offset.value == 100 and mask.value == 3
    tvm.ir.assert_structural_equal(extent, buffer.strides[0] * m - 100)
    assert buffer.access_ptr("w").args[4].value == 2


def test_registering_by_the_functions_name():
    @tvm.register_func(override=True)
    def test_registering_name():
        return 5

    assert tvm.get_global_func("test_registering_name")() == 5
    tvm.remove_global_func("test_registering_name")


def test_topi_divides_floats_and_tiles():
    x = np.array([7.5, -7.5, 3.0], "float32")
    a, b = te.placeholder((3,), name="a"), te.placeholder((3,), name="b")
    for function, expected in ((topi.floor_divide, np.floor_divide), (topi.floor_mod, np.mod), (topi.mod, np.fmod)):
        c = function(a, b)
        y = np.zeros(3, "float32")
        tvm.build(te.create_schedule(c.op), [a, b, c], "host")(x, np.full(3, 2, "float32"), y)
        np.testing.assert_array_equal(y, expected(x, 2))
    for repetitions in ((2, 2), (2,), (1, 2, 3)):
        d = te.placeholder((2, 3), name="d")
        e = topi.tile(d, repetitions)
        z = np.arange(6, dtype="float32").reshape(2, 3)
        y = np.zeros(np.tile(z, repetitions).shape, "float32")
        tvm.build(te.create_schedule(e.op), [d, e], "host")(z, y)
        np.testing.assert_array_equal(y, np.tile(z, repetitions))
