"""Tensor expressions: scans, statements, intrinsics, groups, storage, functions by name."""

import aipu
import numpy as np
import pytest
from aipu import te, tir

TARGETS = ["interpreter", "host", "X2_1204"]


def run(schedule, args, arrays, target="interpreter", **more):
    aipu.build(schedule, args, target, **more)(*arrays)


# --- scan -------------------------------------------------------------------------------------------------------------


def cumulative_sum(m, n):
    X = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    return X, init, update, state, te.scan(init, update, state, inputs=[X], name="scan")


@pytest.mark.parametrize("target", TARGETS)
def test_cumulative_sum_of_any_size(target):
    X, init, update, _, scan = cumulative_sum(te.size_var("m"), te.size_var("n"))
    s = te.create_schedule(scan.op)
    block, thread = te.thread_axis((0, 4), "blockIdx.x"), te.thread_axis((0, 8), "threadIdx.x")
    for stage in (s[init], s[update]):
        outer, inner = stage.split(stage.op.axis[1], factor=8)
        stage.vectorize(inner)
    s[scan].env_threads([block, thread])
    f = aipu.build(s, [X, scan], target)
    for shape in ((10, 5), (1, 9), (4, 40)):
        x = np.random.RandomState(1).rand(*shape).astype("float32")
        out = np.zeros(shape, "float32")
        f(x, out)
        np.testing.assert_allclose(out, np.cumsum(x, 0), rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", [1, 6])
@pytest.mark.parametrize("scheduled", [False, True])
def test_recurrent_network(target, steps, scheduled):
    batch, hidden = 2, 16
    X = te.placeholder((steps, batch, hidden), name="X")
    W = te.placeholder((hidden, hidden), name="W")
    state = te.placeholder((steps, batch, hidden), name="state")
    init = te.compute((1, batch, hidden), lambda _, b, i: te.tanh(X[0, b, i]), name="init")
    k = te.reduce_axis((0, hidden), "k")
    product = te.compute(
        (steps, batch, hidden), lambda t, b, i: te.sum(state[t - 1, b, k] * W[i, k], axis=k), name="product"
    )
    update = te.compute((steps, batch, hidden), lambda t, b, i: te.tanh(product[t, b, i] + X[t, b, i]), name="update")
    scan = te.scan(init, update, state, inputs=[X], name="h")
    s = te.create_schedule(scan.op)
    if scheduled:
        weights = s.cache_read(W, "shared" if target != "X2_1204" else "global", product)
        s[weights].compute_root()
        before = s.cache_read(state, "local", product)
        s[before].compute_at(s[update], s[update].op.axis[1])
        s[product].compute_at(s[update], s[update].op.axis[2])
        s[update].parallel(s[update].op.axis[1])
    rng = np.random.RandomState(3)
    x, w = rng.rand(steps, batch, hidden).astype("float32"), rng.rand(hidden, hidden).astype("float32") - 0.5
    out, expected = np.zeros_like(x), np.zeros_like(x)
    expected[0] = np.tanh(x[0])
    for t in range(1, steps):
        expected[t] = np.tanh(expected[t - 1] @ w.T + x[t])
    run(s, [X, W, scan], [x, w, out], target)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


def test_scan_of_several_states_and_its_use():
    m, n = 6, 4
    X = te.placeholder((m, n), name="X")
    a, b = te.placeholder((m, n), name="a"), te.placeholder((m, 1), name="b")
    ia = te.compute((1, n), lambda t, i: X[0, i], name="ia")
    ib = te.compute((1, 1), lambda t, i: 0.0, name="ib")
    ua = te.compute((m, n), lambda t, i: a[t - 1, i] + X[t, i] + b[t - 1, 0], name="ua")
    ub = te.compute((m, 1), lambda t, i: b[t - 1, i] + 1.0, name="ub")
    ra, rb = te.scan([ia, ib], [ua, ub], [a, b])
    after = te.compute((m, n), lambda t, i: ra[t, i] * rb[t, 0], name="after")
    s = te.create_schedule(after.op)
    x, out = np.random.rand(m, n).astype("float32"), np.zeros((m, n), "float32")
    run(s, [X, after], [x, out])
    va, vb = np.zeros((m, n), "float32"), np.zeros((m, 1), "float32")
    va[0] = x[0]
    for t in range(1, m):
        va[t], vb[t] = va[t - 1] + x[t] + vb[t - 1], vb[t - 1] + 1
    np.testing.assert_allclose(out, va * vb, rtol=1e-5)
    assert [op.name for op in te.schedule.scan_body(s, ra)] == ["ua", "ub"]


def test_errors_of_scans():
    X, init, update, state, _ = cumulative_sum(5, 4)
    with pytest.raises(ValueError, match="as many"):
        te.scan([init], [update, update], [state])
    other = te.placeholder((5, 3), name="other")
    with pytest.raises(aipu.TVMError, match="extents of dimension 1"):
        te.scan(init, update, other)
    wide = te.placeholder((5, 4), "float64", name="wide")
    with pytest.raises(aipu.TVMError, match="types"):
        te.scan(init, update, wide)
    scan = te.scan(init, update, state, inputs=[X])
    s = te.create_schedule(scan.op)
    with pytest.raises(aipu.TVMError, match="update of a scan"):
        s[update].compute_root()
    with pytest.raises(aipu.TVMError, match="can't be moved"):
        s[scan].reorder(scan.op.scan_axis)
    with pytest.raises(aipu.TVMError, match="no scan"):
        s[init].env_threads([te.thread_axis((0, 1), "threadIdx.x")])
    with pytest.raises(aipu.TVMError, match="memory of its own"):
        aipu.lower(s, [X, init, scan])


# --- statements -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_statement_written_by_hand(target):
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")

    def body(ins, outs):
        ib = tir.ir_builder.create()
        source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        last = ib.allocate("float32", 1, name="last", scope="local")
        last[0] = 0.0
        with ib.for_range(0, n, name="i") as i:
            last[0] = last[0] + source[i]
            with ib.if_scope(i % 2 == 0):
                result[i] = last[0]
            with ib.else_scope():
                result[i] = -last[0]
        return ib.get()

    C = te.extern((n,), [B], body, name="C", dtype="float32")
    D = te.compute((n,), lambda i: C[i] * 2.0, name="D")
    s = te.create_schedule(D.op)
    s[B].compute_inline()  # computed all the same: the statement reads all of it
    a, out = np.random.rand(37).astype("float32"), np.zeros(37, "float32")
    run(s, [A, D], [a, out], target)
    expected = np.cumsum(a + 1, dtype="float32") * np.where(np.arange(37) % 2 == 0, 2, -2)
    np.testing.assert_allclose(out, expected, rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_registered_function_sees_arrays(target):
    seen = []

    @aipu.register_func("test_te.twice", override=True)
    def twice(x, y, k, text):
        seen.append((x.shape, k, text))
        y[:] = x.numpy() * 2 + k

    A = te.placeholder((3, 4), name="A")
    B = te.compute((3, 4), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.extern((3, 4), [B], lambda ins, outs: tir.call_packed("test_te.twice", ins[0], outs[0], 7, "t"), name="C")
    D = te.compute((3, 4), lambda i, j: C[i, j] - 1.0, name="D")
    s = te.create_schedule(D.op)
    a, out = np.random.rand(3, 4).astype("float32"), np.zeros((3, 4), "float32")
    f = aipu.build(s, [A, D], target)
    f(a, out)
    np.testing.assert_allclose(out, (a + 1) * 2 + 6, rtol=1e-6)
    assert seen == [((3, 4), 7, "t")]
    aipu.remove_global_func("test_te.twice")
    with pytest.raises(aipu.TVMError, match="no registered function 'test_te.twice'"):
        f(a, out)


def test_exception_of_a_callback_reaches_the_caller():
    aipu.register_func("test_te.fails", lambda *_: {}["missing"], override=True)
    A = te.placeholder((3,), name="A")
    C = te.extern((3,), [A], lambda ins, outs: tir.call_packed("test_te.fails", ins[0], outs[0]), name="C")
    f = aipu.build(te.create_schedule(C.op), [A, C], "interpreter")
    with pytest.raises(KeyError, match="missing"):
        f(np.zeros(3, "float32"), np.zeros(3, "float32"))
    with pytest.raises(KeyError, match="missing"):  # through C++
        aipu._native.registry.call_in_cpp("test_te.fails", 1)
    aipu.remove_global_func("test_te.fails")


def test_errors_of_statements():
    A = te.placeholder((3,), name="A")
    with pytest.raises(ValueError, match="inputs are tensors"):
        te.extern((3,), [1], lambda ins, outs: None)
    with pytest.raises(ValueError, match="a statement or an expression"):
        te.extern((3,), [A], lambda ins, outs: None)
    with pytest.raises(ValueError, match="dtype of the outputs"):
        te.extern((3,), [], lambda ins, outs: None)
    with pytest.raises(RuntimeError, match="2 out_buffers"):
        te.extern((3,), [A], lambda ins, outs: None, out_buffers=[tir.decl_buffer((3,))] * 2)
    with pytest.raises(ValueError, match="float32 is stored"):
        ib = tir.ir_builder.create()
        ib.buffer_ptr(tir.decl_buffer((3,), "int32"))[0] = A[0]


# --- functions by name ------------------------------------------------------------------------------------------------


def test_registry():
    @aipu.register_func
    def test_te_add(x, y):
        return x + y

    assert aipu.get_global_func("test_te_add")(2, 3) == 5
    assert aipu._native.registry.call_in_cpp("test_te_add", 2, 3.5) == 5.5
    assert "test_te_add" in aipu.list_global_func_names()
    with pytest.raises(aipu.TVMError, match="already"):
        aipu.register_func("test_te_add", lambda: 1)
    aipu.register_func("test_te_add", lambda *a: (1, 2), override=True)
    with pytest.raises(ValueError, match="tuple"):
        aipu.get_global_func("test_te_add")()
    aipu.remove_global_func("test_te_add")
    with pytest.raises(ValueError, match="test_te_add"):
        aipu.get_global_func("test_te_add")
    assert aipu.get_global_func("test_te_add", allow_missing=True) is None
    assert aipu.convert([1, lambda x: x])[1](4) == 4


def test_values_pass_through_cpp_unchanged():
    got = []
    aipu.register_func("test_te.echo", lambda *args: got.extend(args) or args[-1], override=True)
    array = aipu.nd.array(np.arange(6, dtype="float32").reshape(2, 3))
    thing = object()
    for value in (None, True, -5, 2.5, "text", thing, [1, "a"]):
        assert aipu._native.registry.call_in_cpp("test_te.echo", value) == value
    view = aipu._native.registry.call_in_cpp("test_te.echo", array)
    view[1, 2] = 50
    assert array.numpy()[1, 2] == 50  # the same memory
    assert got[-1].shape == (2, 3)
    aipu.remove_global_func("test_te.echo")


# --- intrinsics -------------------------------------------------------------------------------------------------------


def inner_product(rows, depth, with_init=True, compact=False):
    w, x = te.placeholder((rows, depth), name="w"), te.placeholder((depth,), name="x")
    k = te.reduce_axis((0, depth), name="k")
    z = te.compute((rows,), lambda i: te.sum(w[i, k] * x[k], axis=k), name="z")
    W = tir.decl_buffer(w.shape, name="W", offset_factor=1, strides=None if compact else [te.var("stride"), 1])

    def loops(ins, outs, add):
        ib = tir.ir_builder.create()
        out = ib.buffer_ptr(outs[0])
        with ib.for_range(0, rows, name="i") as i:
            if not add:
                out[i] = 0.0
            with ib.for_range(0, depth, name="d") as d:
                out[i] = out[i] + ins[0][i, d] * ins[1][d]
        return ib.get()

    def fill(outs):
        ib = tir.ir_builder.create()
        with ib.for_range(0, rows, name="i") as i:
            ib.buffer_ptr(outs[0])[i] = 0.0
        return ib.get()

    def statements(ins, outs):
        return loops(ins, outs, False), fill(outs) if with_init else None, loops(ins, outs, True)

    return te.decl_tensor_intrin(z.op, statements, name="gemv", binds={w: W})


def tensorized_matmul(intrin, n=20, rows=8, depth=4, factor=None):
    A, B = te.placeholder((n, 3 * depth), name="A"), te.placeholder((2 * rows, 3 * depth), name="B")
    k = te.reduce_axis((0, 3 * depth), name="k")
    C = te.compute((n, 2 * rows), lambda i, j: te.sum(B[j, k] * A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    jo, ji = s[C].split(C.op.axis[1], factor=rows)
    ko, ki = s[C].split(k, factor=factor or depth)
    s[C].reorder(C.op.axis[0], jo, ko, ji, ki)
    s[C].tensorize(ji, intrin)
    return A, B, C, s


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("with_init", [True, False])
def test_tensorized_matmul(target, with_init):
    A, B, C, s = tensorized_matmul(inner_product(8, 4, with_init))
    a, b = np.random.rand(20, 12).astype("float32"), np.random.rand(16, 12).astype("float32")
    c = np.zeros((20, 16), "float32")
    run(s, [A, B, C], [a, b, c], target)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_tensorized_by_registered_functions(target):
    calls = []

    @aipu.register_func("test_te.gemv_add", override=True)
    def gemv_add(w, x, z, stride):
        calls.append("update")
        assert stride == 12
        z[:] = z.numpy() + w.numpy() @ x.numpy()

    @aipu.register_func("test_te.fill_zero", override=True)
    def fill_zero(z):
        calls.append("init")
        z[:] = 0.0

    w, x = te.placeholder((8, 4), name="w"), te.placeholder((4,), name="x")
    k = te.reduce_axis((0, 4), name="k")
    z = te.compute((8,), lambda i: te.sum(w[i, k] * x[k], axis=k), name="z")
    W = tir.decl_buffer(w.shape, name="W", strides=[te.var("s"), 1])

    def statements(ins, outs):
        update = tir.call_packed("test_te.gemv_add", ins[0], ins[1], outs[0], ins[0].strides[0])
        return update, tir.call_packed("test_te.fill_zero", outs[0]), update

    intrin = te.decl_tensor_intrin(z.op, statements, name="gemv", binds={w: W})
    A, B, C, s = tensorized_matmul(intrin, n=2)
    a, b = np.random.rand(2, 12).astype("float32"), np.random.rand(16, 12).astype("float32")
    c = np.zeros((2, 16), "float32")
    run(s, [A, B, C], [a, b, c], target)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-5)
    assert calls.count("init") == 2 * 2 and calls.count("update") == 2 * 2 * 3
    for name in ("test_te.gemv_add", "test_te.fill_zero"):
        aipu.remove_global_func(name)


def test_what_an_intrinsic_does_not_declare_is_refused():
    def refused(match, **more):
        A, B, C, s = tensorized_matmul(more.pop("intrin", None) or inner_product(8, 4), **more)
        with pytest.raises(aipu.TVMError, match=match):
            aipu.lower(s, [A, B, C])

    refused("dimension 0 of the reduction has extent 2, declared is 4", factor=2)
    refused("a guard inside", factor=5)
    refused("stride 12, the buffer 'W' needs 4", intrin=inner_product(8, 4, compact=True))
    A = te.placeholder((8, 4), name="A")
    C = te.compute((8, 4), lambda i, j: A[i, j] * 2.0, name="C")
    D = te.compute((8, 4), lambda i, j: A[i, j] * 3.0, name="D")
    B = te.placeholder((4,), name="B")
    row = te.compute((4,), lambda j: B[j] * 2.0, name="row")
    intrin = te.decl_tensor_intrin(row.op, lambda ins, outs: outs[0].vstore(0, ins[0][0]), name="row")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[1], intrin)
    aipu.lower(s, [A, C])
    s = te.create_schedule(D.op)
    s[D].tensorize(D.op.axis[1], intrin)
    with pytest.raises(aipu.TVMError, match="they differ"):
        aipu.lower(s, [A, D])
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[1], intrin)
    s[C].set_store_predicate(te.var("p").equal(0))
    with pytest.raises(aipu.TVMError, match="a store predicate"):
        aipu.lower(s, [A, C])
    with pytest.raises(ValueError, match="over placeholders"):
        te.decl_tensor_intrin(te.compute((4,), lambda i: C[0, i]).op, lambda ins, outs: None)
    with pytest.raises(TypeError):
        te.decl_tensor_intrin(C, lambda ins, outs: None)


# --- groups, storage --------------------------------------------------------------------------------------------------


def test_group_is_moved_together():
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((6, 8), lambda i, j: B[i, j] * 2.0, name="C")
    D = te.compute((6, 8), lambda i, j: C[i, j] - A[i, j], name="D")
    s = te.create_schedule(D.op)
    group = s.create_group(outputs=C, inputs=A, include_inputs=False)
    assert s[B].group == group and s[C].group == group and s[D].group is None
    group.compute_at(s[D], D.op.axis[0])
    text = aipu.lower(s, [A, D]).script()
    assert text.count("allocate((1, 8)") == 2
    a, d = np.random.rand(6, 8).astype("float32"), np.zeros((6, 8), "float32")
    run(s, [A, D], [a, d])
    np.testing.assert_allclose(d, (a + 1) * 2 - a, rtol=1e-6)
    inner = s.create_group(outputs=B, inputs=A)
    assert inner.group == group
    with pytest.raises(aipu.TVMError, match="a part of another group"):
        s.create_group(outputs=D, inputs=B)


@pytest.mark.parametrize("target", TARGETS)
def test_aligned_rows_keep_the_values(target):
    A = te.placeholder((5, 7), name="A")
    B = te.compute((5, 7), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((7, 5), lambda i, j: B[j, i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].storage_align(B.op.axis[0], 8, 3)
    assert s[B].iter_var_attrs[B.op.axis[0]].dim_align_offset == 3
    f = aipu.build(s, [A, C], target)
    assert "* 11" in f.get_source("tir")  # the stride: 11 % 8 == 3
    a, c = np.random.rand(5, 7).astype("float32"), np.zeros((7, 5), "float32")
    f(a, c)
    np.testing.assert_allclose(c, (a.T + 1) * 2, rtol=1e-6)
    with pytest.raises(aipu.TVMError, match="no data axis"):
        s[C].storage_align(B.op.axis[0], 8, 3)


def test_hints_keep_the_values():
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((6, 8), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].double_buffer()
    with pytest.raises(aipu.TVMError, match="double_buffer: 'B' is not computed inside a loop"):
        aipu.lower(s, [A, C])
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].rolling_buffer()
    s[C].prefetch(A, C.op.axis[0], 1)
    a, c = np.random.rand(6, 8).astype("float32"), np.zeros((6, 8), "float32")
    run(s, [A, C], [a, c])
    np.testing.assert_allclose(c, (a + 1) * 2, rtol=1e-6)
    with pytest.raises(aipu.TVMError, match="is an output"):
        s[C].double_buffer()


# --- buffers as arguments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_strided_and_broadcast_arguments(target):
    n, m = te.size_var("n"), te.size_var("m")
    A, B = te.placeholder((n, m), name="A"), te.placeholder((n, m), name="B")
    C = te.compute((n, m), lambda i, j: A[i, j] * 10.0 + B[i, j], name="C")
    Ab = tir.decl_buffer(A.shape, A.dtype, name="Ab", strides=[te.var("s0"), te.var("s1")])
    Bb = tir.decl_buffer(B.shape, B.dtype, name="Bb", buffer_type="auto_broadcast")
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].split(C.op.axis[1], factor=8)[1])
    f = aipu.build(s, [Ab, Bb, C], target, binds={A: Ab, B: Bb})
    a, b = np.random.rand(12, 10).astype("float32"), np.random.rand(1, 5).astype("float32")
    c = np.zeros((4, 5), "float32")
    f(a[::3, ::2], b, c)
    np.testing.assert_allclose(c, a[::3, ::2] * 10 + b, rtol=1e-6)
    f(np.asfortranarray(a[:4, :5]), np.ascontiguousarray(a[:4, 5:]), c)
    np.testing.assert_allclose(c, a[:4, :5] * 10 + a[:4, 5:], rtol=1e-6)
    with pytest.raises(aipu.TVMError, match="strides: expected to be compact"):
        f(a[:4, :5], b, np.zeros((8, 5), "float32")[::2])
    with pytest.raises(ValueError, match="stands for no tensor"):
        aipu.lower(s, [Ab, B, C])


def test_arrays_share_memory_with_others():
    source = np.arange(6, dtype="float32").reshape(2, 3)
    array = aipu.nd.from_dlpack(source)
    array[:] = 5
    assert source[1, 2] == 5
    assert np.from_dlpack(array)[0, 0] == 5
    assert aipu.nd.from_dlpack(array.to_dlpack()).shape == (2, 3)
    with pytest.raises(AttributeError):
        aipu.nd.from_dlpack([1, 2])
    with pytest.raises(aipu.TVMError, match="not contiguous"):
        aipu.nd.from_dlpack(source[:, ::2])
    view = array._create_view((3, 2))
    assert view.shape == (3, 2)
    with pytest.raises(ValueError):
        array._create_view((4, 2))


# --- looking at schedules ---------------------------------------------------------------------------------------------


def test_normalized_schedule_is_a_copy():
    A = te.placeholder((12, 8), name="A")
    B = te.compute((12, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((12, 8), lambda i, j: B[i, j] * 2.0, name="C")
    D = te.compute((12, 8), lambda i, j: C[i, j] - 1.0, name="D")
    s = te.create_schedule(D.op)
    s[B].compute_inline()
    s[C].compute_at(s[D], D.op.axis[0])
    outer, inner = s[D].split(D.op.axis[0], factor=4)
    copy = s.normalize()
    assert copy[D] is not s[D] and list(copy[D].op.axis) == list(D.op.axis)
    assert copy[C].attach_ivar == inner and copy[C].attach_stage == copy[D]
    assert (s[B].attach_type, copy[B].attach_type) == (2, 3)
    bounds = te.schedule.InferBound(copy)
    assert int(bounds[C.op.axis[0]].extent) == 1 and int(bounds[outer].extent) == 3
    copy[D].parallel(outer)
    assert outer not in s[D].iter_var_attrs
    a, d = np.random.rand(12, 8).astype("float32"), np.zeros((12, 8), "float32")
    run(copy, [A, D], [a, d])
    np.testing.assert_allclose(d, (a + 1) * 2 - 1, rtol=1e-6)
    kinds = []
    tir.stmt_functor.post_order_visit(te.schedule.ScheduleOps(copy, bounds), lambda node: kinds.append(node.node))
    assert kinds.count("For") == 4 and kinds.count("Realize") == 2 and "Store" in kinds


def test_graph_of_operations():
    X, init, update, _, scan = cumulative_sum(5, 4)
    graph = te.schedule.CreateReadGraph([scan.op])
    assert graph[init.op] == [X]
    order = te.schedule.PostDFSOrder([scan.op], graph)
    assert order[-1] == scan.op and order.index(X.op) < order.index(init.op)
    assert te.schedule.ScanGetBody(scan.op) == [update.op, scan.op]


@pytest.mark.parametrize("target", ["host", "X2_1204"])
def test_build_manager_takes_schedules(target):
    A, B = te.placeholder((40,), name="A"), te.placeholder((40,), name="B")
    C = te.compute((40,), lambda i: A[i] + B[i], name="C")
    a, b = np.random.rand(40).astype("float32"), np.random.rand(40).astype("float32")
    manager = tir.BuildManager(target=target)
    for inp, args in ((te.create_schedule(C.op), [A, B, C]), (te.create_prim_func([A, B, C]), None)):
        c = np.zeros(40, "float32")
        manager.build(inp, args=args)(a, b, c)
        np.testing.assert_array_equal(c, a + b)
    with pytest.raises(ValueError, match="needs args"):
        manager.build(te.create_schedule(C.op))
    n = te.size_var("n")
    V = te.placeholder((n,), name="V")
    W = te.compute((n,), lambda i: V[i] + 1.0, name="W")
    with pytest.raises(aipu.TVMError, match="takes n beside its parameters"):
        manager.build(te.create_schedule(W.op), args=[V, W])


def test_arithmetic():
    analyzer = aipu.arith.Analyzer()
    i, n = te.var("i"), te.size_var("n")
    analyzer.bind(i, te.Range(0, 8))
    assert analyzer.simplify((i * 4 + 3) // 4).same_as(i)
    assert analyzer.can_prove(i < 8) and not analyzer.can_prove(i < n)
    assert analyzer.can_prove_equal((n + i) - n, i)


def test_runtime_names():
    from aipu import runtime

    assert runtime.enabled("host") and runtime.enabled("X2_1204")
    assert runtime.enabled("cuda") == aipu.cuda(0).exist and not runtime.enabled("nothing")
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    module = aipu.build(te.create_schedule(B.op), [A, B], "host")
    assert isinstance(module, runtime.Module)
    result = module.time_evaluator(module.entry_name, aipu.cpu(0), number=2, repeat=3)(
        aipu.nd.array(np.zeros(4, "float32")), aipu.nd.array(np.zeros(4, "float32"))
    )
    assert isinstance(result, runtime.BenchmarkResult) and len(result.results) == 3


@pytest.mark.parametrize("target", ["host", "X2_1204"])
def test_functions_are_kept_in_a_file(target, tmp_path, monkeypatch):
    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    factor = te.var("factor", "float32")
    C = te.compute((n,), lambda i: B[i] * factor, name="C")
    Ab = tir.decl_buffer(A.shape, A.dtype, name="Ab", strides=[te.var("s0"), te.var("s1")])
    made = aipu.build(te.create_schedule(C.op), [Ab, factor, C], target, name="row_sums", binds={A: Ab})
    path = tmp_path / "functions.so"
    made.export_library(path)
    # Loading needs neither a compiler nor what it has left in the cache.
    monkeypatch.setenv("AIPU_CC", "/bin/false")
    monkeypatch.setenv("AIPU_CACHE_DIR", str(tmp_path / "cache"))
    loaded = aipu.runtime.load_module(path)
    a, c = np.random.rand(6, 14).astype("float32"), np.zeros(3, "float32")
    for function in (loaded, loaded["row_sums"]):
        function(a[::2, ::2], 2.0, c)
        np.testing.assert_allclose(c, a[::2, ::2].sum(1) * 2, rtol=1e-5)
    with pytest.raises(aipu.TVMError, match="row_sums: num_args should be 3"):
        loaded(a, c)
    assert loaded.get_source() == made.get_source()
    (tmp_path / "other.so").write_text("{}")
    with pytest.raises(aipu.TVMError, match="no functions that export_library has written"):
        aipu.runtime.load_module(tmp_path / "other.so")
    interpreted = aipu.build(te.create_schedule(C.op), [A, factor, C], "interpreter")
    with pytest.raises(aipu.TVMError, match="interpreted"):
        interpreted.export_library(path)
