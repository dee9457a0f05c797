"""The worked tasks of the interface's specification against NumPy: on the host, the X2 model and the CUDA emulation.

A schedule with block and thread axes runs on all three; ``parallel`` and ``vectorize`` are of the first two.
"""

import aipu as tvm
import numpy as np
import pytest
from aipu import te, tir

TARGETS = ["host", "X2_1204", "cuda"]
RNG = np.random.default_rng(20)


def random(*shape):
    return RNG.uniform(-1, 1, shape).astype("float32")


def call(target, function, *arrays):
    """Calls with copies on the target's device; returns what the arrays are then."""
    device = tvm.device(target, 0)
    moved = [tvm.nd.array(a, device) if isinstance(a, np.ndarray) else a for a in arrays]
    function(*moved)
    return [a.numpy() if isinstance(a, tvm.nd.NDArray) else a for a in moved]


def share(s, tensor, axis, target):
    """The iterations of a loop go to who works in parallel."""
    if target == "cuda":
        s[tensor].bind(axis, te.thread_axis("blockIdx.x"))
    else:
        s[tensor].parallel(axis)


def as_vectors(s, tensor, axis, target):
    """The iterations of a loop are lanes, or the threads of a block."""
    if target == "cuda":
        s[tensor].bind(axis, te.thread_axis("threadIdx.x"))
    else:
        s[tensor].vectorize(axis)


# --- 1. vector add ----------------------------------------------------------------------------------------------------


def vector_add(n):
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=64)
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    s[c].bind(inner, te.thread_axis("threadIdx.x"))
    return s, [a, b, c]


@pytest.mark.parametrize("target", TARGETS)
def test_vector_add(target):
    fadd = tvm.build(*vector_add(1024), target)
    x, y = random(1024), random(1024)
    np.testing.assert_array_equal(call(target, fadd, x, y, np.zeros_like(x))[2], x + y)
    assert fadd.entry_name == "default_function" and fadd["default_function"] is fadd.entry_func
    if target == "cuda":
        source = fadd.imported_modules[0].get_source()
        assert "blockIdx.x" in source and "threadIdx.x" in source


@pytest.mark.parametrize("target", TARGETS)
def test_vector_add_of_any_size(target):
    fadd = tvm.build(*vector_add(te.var("n")), target)
    for n in (1000, 1, 64, 0):
        x, y = random(n), random(n)
        np.testing.assert_array_equal(call(target, fadd, x, y, np.zeros_like(x))[2], x + y)
    x = random(8)
    with pytest.raises(tvm.TVMError, match="default_function.A.dtype is expected to be float32"):
        call(target, fadd, x.astype("float64"), x, x)
    with pytest.raises(tvm.TVMError, match="default_function: num_args should be 3"):
        call(target, fadd, x, x)
    with pytest.raises(tvm.TVMError, match=r"Argument default_function.B.shape\[0\] has an unsatisfied constraint"):
        call(target, fadd, x, random(9), x)
    with pytest.raises(tvm.TVMError, match="default_function.A.strides: expected to be compact array"):
        fadd(random(16)[::2], x, x)


# --- 2. tiled matmul --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("divides", [True, False])
@pytest.mark.parametrize("packed", [False, True])
def test_tiled_matmul(target, divides, packed):
    tile = 32
    n = (512 if divides else 500) if target == "host" else (128 if divides else 100)  # the others are emulated
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    columns = -(-n // tile)

    def element(j, p, q):
        return te.if_then_else(j * tile + q < n, b[p, te.min(j * tile + q, n - 1)], 0.0)

    panels = te.compute((columns, n, tile), element, name="packedB")

    def right(p, j):
        return panels[te.indexdiv(j, tile), p, te.indexmod(j, tile)] if packed else b[p, j]

    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * right(k, j), axis=k), name="C")
    s = te.create_schedule(c.op)
    cc = s.cache_write(c, "local")
    xo, yo, xi, yi = s[c].tile(c.op.axis[0], c.op.axis[1], tile, tile)
    s[cc].compute_at(s[c], yo)
    xc, yc = s[cc].op.axis
    ko, ki = s[cc].split(s[cc].op.reduce_axis[0], factor=4)
    s[cc].reorder(ko, xc, ki, yc)
    s[cc].unroll(ki)
    bounds = te.schedule.InferBound(s)
    assert [int(bounds[axis].extent) for axis in (xc, yc)] == [tile, tile]
    share(s, c, xo, target)
    if target != "cuda":
        s[cc].vectorize(yc)
        s[c].vectorize(yi)
    if packed:
        share(s, panels, panels.op.axis[0], target)
    text = str(tvm.lower(s, [a, b, c], simple_mode=True))
    assert 'C.local = allocate((32, 32), "float32", "local")' in text
    assert ("likely(" in text) != divides
    x, y = random(n, n), random(n, n)
    result = call(target, tvm.build(s, [a, b, c], target), x, y, np.zeros((n, n), "float32"))[2]
    np.testing.assert_allclose(result, x @ y, rtol=1e-4, atol=1e-4)


# --- 3. row reduction with rfactor ------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("init", [None, 10.0])
def test_factored_sum(target, init):
    n = 1027
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), "k")
    b = te.compute((), lambda: te.sum(a[k], axis=k, init=init), name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(k, nparts=4)
    bf = s.rfactor(b, outer)
    assert tuple(bf.shape) == (4,) and int(bf.op.reduce_axis[0].dom.extent) == 257
    condition = str(bf.op.body[0].condition)
    assert "257" in condition and "< 1027" in condition
    share(s, bf, s[bf].op.axis[0], target)
    x = random(n)
    result = call(target, tvm.build(s, [a, b], target), x, np.zeros((), "float32"))[1]
    np.testing.assert_allclose(result, x.sum() + (init or 0), rtol=1e-4, atol=1e-4)


def test_factored_axis_last():
    a = te.placeholder((6, 40), name="A")
    k = te.reduce_axis((0, 40), "k")
    b = te.compute((6, 1), lambda i, _: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    bf = s.rfactor(b, s[b].split(k, factor=8)[1], factor_axis=-1)
    assert [int(e) for e in bf.shape] == [6, 1, 8]
    x, y = random(6, 40), np.zeros((6, 1), "float32")
    tvm.build(s, [a, b], "host")(x, y)
    np.testing.assert_allclose(y, x.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("tuples", [False, True])
def test_reduction_over_threads(target, tuples):
    m, n = 10, 1027
    a = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), "k")

    def better(x, y):
        return tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])

    argmax = te.comm_reducer(better, lambda t0, t1: (tir.const(-1, t0), te.min_value(t1)), name="argmax")
    if tuples:
        outs = list(te.compute((m,), lambda i: argmax((k.var, a[i, k]), axis=k), name="B"))
    else:
        outs = [te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="B")]
    b = outs[0]
    s = te.create_schedule(b.op)
    bf = s.rfactor(b, s[b].split(k, factor=16)[1])
    bf = bf[0] if tuples else bf
    rows, row = s[b].split(s[b].op.axis[0], factor=16)
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(rows, te.thread_axis("blockIdx.x"))
    s[b].bind(row, te.thread_axis("threadIdx.y"))
    s[b].bind(s[b].op.reduce_axis[0], thread)
    s[bf].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(thread.var.equal(0))
    x = random(m, n)
    empty = [np.zeros(m, t.dtype) for t in outs]
    results = call(target, tvm.build(s, [a, *outs], target), x, *empty)[1:]
    if tuples:
        np.testing.assert_array_equal(results[0], x.argmax(1))
        np.testing.assert_array_equal(results[1], x.max(1))
    else:
        np.testing.assert_allclose(results[0], x.sum(1), rtol=1e-4, atol=1e-4)


# --- 4. convolution with compute_at -----------------------------------------------------------------------------------


def convolution(stride):
    a = te.placeholder((1, 16, 32, 32), name="A")
    w = te.placeholder((16, 16, 3, 3), name="W")

    def padded(n, c, y, x):
        inside = tir.all(y >= 1, y < 33, x >= 1, x < 33)
        return te.if_then_else(inside, a[n, c, y - 1, x - 1], 0.0)

    pad = te.compute((1, 16, 34, 34), padded, name="pad")
    rc, ry, rx = (te.reduce_axis((0, e), r) for e, r in ((16, "rc"), (3, "ry"), (3, "rx")))
    size = 32 // stride

    def element(n, f, y, x):
        return te.sum(pad[n, rc, y * stride + ry, x * stride + rx] * w[f, rc, ry, rx], axis=[rc, ry, rx])

    return a, w, pad, te.compute((1, 16, size, size), element, name="conv")


def convolved(x, w, stride):
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("ncyxrs,fcrs->nfyx", windows, w)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "place,stride,extents",
    [
        ("inline", 1, None),
        ("row", 1, [1, 16, 3, 34]),
        ("tile", 1, [1, 16, 3, 10]),
        ("tile", 2, [1, 16, 3, 17]),
        ("channel", 1, [1, 1, 3, 10]),
    ],
)
def test_convolution(target, place, stride, extents):
    a, w, pad, conv = convolution(stride)
    s = te.create_schedule(conv.op)
    n, f, y, x = s[conv].op.axis
    s[conv].reorder(n, y, f, x)
    if place == "inline":
        s[pad].compute_inline()
    elif place == "row":
        s[pad].compute_at(s[conv], y)
    else:
        rc, ry, rx = s[conv].op.reduce_axis
        xo, xi = s[conv].split(x, 8)
        s[conv].reorder(n, y, xo, rc, f, xi, ry, rx)
        s[pad].compute_at(s[conv], rc if place == "channel" else xo)
    if extents:
        bounds = te.schedule.InferBound(s)
        assert [int(bounds[axis].extent) for axis in pad.op.axis] == extents
    else:
        assert "allocate" not in str(tvm.lower(s, [a, w, conv]))
    share(s, conv, y, target)
    p, q = random(1, 16, 32, 32), random(16, 16, 3, 3)
    wanted = convolved(p, q, stride)
    result = call(target, tvm.build(s, [a, w, conv], target), p, q, np.zeros_like(wanted))[2]
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


# --- 5. softmax of several stages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [1000, 1001, "symbolic"])
def test_softmax(target, columns):
    symbolic = columns == "symbolic"
    n, c = (te.var("n"), te.var("c")) if symbolic else (64, columns)
    x = te.placeholder((n, c), name="x")
    k1, k2 = te.reduce_axis((0, c), "k1"), te.reduce_axis((0, c), "k2")
    m = te.compute((n,), lambda i: te.max(x[i, k1], axis=k1), name="m")
    e = te.compute((n, c), lambda i, j: te.exp(x[i, j] - m[i]), name="e")
    z = te.compute((n,), lambda i: te.sum(e[i, k2], axis=k2), name="z")
    y = te.compute((n, c), lambda i, j: e[i, j] / z[i], name="y")
    s = te.create_schedule(y.op)
    row = y.op.axis[0]
    for tensor in (m, e, z):
        s[tensor].compute_at(s[y], row)
    bounds = te.schedule.InferBound(s)
    assert [int(bounds[t.op.axis[0]].extent) for t in (m, z, e)] == [1, 1, 1]
    assert bounds[e.op.axis[1]].extent == c if symbolic else int(bounds[e.op.axis[1]].extent) == c
    if target == "cuda" and symbolic:
        s[e].compute_inline()  # memory of a block has a constant size
    elif not symbolic:
        s[e].set_scope("lsram" if target != "host" else "local")
    share(s, y, row, target)
    if target != "cuda":
        for tensor in (e, y):
            s[tensor].vectorize(s[tensor].split(s[tensor].op.axis[1], 8)[1])
    built = tvm.build(s, [x, y], target)
    for rows, width in [(64, 1000), (3, 17), (1, 1)] if symbolic else [(64, columns)]:
        p = random(rows, width) * 5 + 1000  # nothing overflows
        result = call(target, built, p, np.zeros_like(p))[1]
        raised = np.exp(p - p.max(1, keepdims=True))
        np.testing.assert_allclose(result, raised / raised.sum(1, keepdims=True), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(result.sum(1), 1, rtol=1e-5)


# --- 6. scan ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", [10, 1])
@pytest.mark.parametrize("cached", [False, True])
def test_recurrent_network(target, steps, cached):
    batch, hidden, threads = 4, 32, 8
    x = te.placeholder((steps, batch, hidden), name="x")
    w = te.placeholder((hidden, hidden), name="W")
    state = te.placeholder((steps, batch, hidden), name="h")
    init = te.compute((1, batch, hidden), lambda _, b, i: te.tanh(x[0, b, i]), name="init")
    k = te.reduce_axis((0, hidden), "k")
    product = te.compute(
        (steps, batch, hidden), lambda t, b, i: te.sum(w[i, k] * state[t - 1, b, k], axis=k), name="product"
    )
    update = te.compute((steps, batch, hidden), lambda t, b, i: te.tanh(product[t, b, i] + x[t, b, i]), name="update")
    out = te.scan(init, update, state, inputs=[x], name="out")
    s = te.create_schedule(out.op)
    if cached:
        block = te.thread_axis((0, hidden // threads), "blockIdx.x")
        thread = te.thread_axis((0, threads), "threadIdx.x")
        s[out].env_threads([block, thread])
        ww = s.cache_read(w, "local", [product])
        hh = s.cache_read(state, "local", [product])
        for tensor in (init, update):
            outer, inner = s[tensor].split(s[tensor].op.axis[2], threads)
            s[tensor].reorder(outer, inner, s[tensor].op.axis[1])
            s[tensor].bind(outer, block)
            s[tensor].bind(inner, thread)
            if tensor == update:
                s[product].compute_at(s[update], inner)
        s[ww].compute_at(s[update], inner)
        s[hh].compute_at(s[product], s[product].op.axis[1])
    p, q = random(steps, batch, hidden), random(hidden, hidden) * 0.2
    result = call(target, tvm.build(s, [x, w, out], target), p, q, np.zeros_like(p))[2]
    h = np.tanh(p[0])
    np.testing.assert_allclose(result[0], h, rtol=1e-5, atol=1e-5)
    for t in range(1, steps):
        h = np.tanh(h @ q.T + p[t])
        np.testing.assert_allclose(result[t], h, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_cumulative_sum(target):
    m, n = te.size_var("m"), te.size_var("n")
    x, state = te.placeholder((m, n), name="x"), te.placeholder((m, n), name="s")
    init = te.compute((1, n), lambda _, i: x[0, i], name="init")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    out = te.scan(init, update, state, name="out")
    s = te.create_schedule(out.op)
    for tensor in (init, update):
        outer, inner = s[tensor].split(s[tensor].op.axis[1], 32)
        s[tensor].bind(outer, te.thread_axis("blockIdx.x"))
        s[tensor].bind(inner, te.thread_axis("threadIdx.x"))
    built = tvm.build(s, [x, out], target)
    for shape in [(7, 100), (1, 5), (3, 1)]:
        p = random(*shape)
        np.testing.assert_allclose(call(target, built, p, np.zeros_like(p))[1], p.cumsum(0), rtol=1e-5, atol=1e-5)


# --- 7. tensorised inner product --------------------------------------------------------------------------------------


def inner_product(with_init=True, m=16, n=16):
    w, x = te.placeholder((m, n), name="w"), te.placeholder((n,), name="x")
    k = te.reduce_axis((0, n), "k")
    z = te.compute((m,), lambda i: te.sum(w[i, k] * x[k], axis=k), name="z")
    buffer = tir.decl_buffer(w.shape, w.dtype, name="W", offset_factor=1, strides=[te.var("ldw"), 1])

    def parts(ins, outs):
        body = tir.call_packed("tasks.gemv", *ins, outs[0], ins[0].strides[0])
        reset = tir.call_packed("tasks.fill_zero", outs[0])
        update = tir.call_packed("tasks.gemv_add", *ins, outs[0], ins[0].strides[0])
        return body, reset if with_init else None, update

    return te.decl_tensor_intrin(z.op, parts, name="inner_product", binds={w: buffer})


def product(k_factor=16, n=64, with_init=True):
    a, b = te.placeholder((64, 128), name="A"), te.placeholder((n, 128), name="B")
    k = te.reduce_axis((0, 128), "k")
    c = te.compute((64, n), lambda i, j: te.sum(b[j, k] * a[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    i, j = s[c].op.axis
    jo, ji = s[c].split(j, 16)
    ko, ki = s[c].split(k, k_factor)
    s[c].reorder(i, jo, ko, ji, ki)
    s[c].tensorize(ji, inner_product(with_init))
    return s, [a, b, c]


@pytest.mark.parametrize("target", ["host", "X2_1204"])
@pytest.mark.parametrize("with_init", [True, False])
def test_tensorised_product(target, with_init):
    calls = {"gemv": 0, "fill_zero": 0, "gemv_add": 0}

    def count(name, stride=None):
        calls[name] += 1
        assert stride in (None, 128)

    def gemv(w, x, z, stride):
        count("gemv", stride)
        z[:] = w.numpy() @ x.numpy()

    def fill_zero(z):
        count("fill_zero")
        z[:] = np.zeros(z.shape, "float32")

    def gemv_add(w, x, z, stride):
        count("gemv_add", stride)
        z[:] = z.numpy() + w.numpy() @ x.numpy()

    for function in (gemv, fill_zero, gemv_add):
        tvm.register_func(f"tasks.{function.__name__}", function, override=True)
    s, args = product(with_init=with_init)
    x, y = random(64, 128), random(64, 128)
    result = call(target, tvm.build(s, args, target), x, y, np.zeros((64, 64), "float32"))[2]
    np.testing.assert_allclose(result, x @ y.T, rtol=1e-4, atol=1e-4)
    assert calls["fill_zero" if with_init else "gemv"] == 64 * 4
    assert calls["gemv_add"] == 64 * (32 if with_init else 28)


def test_what_the_intrinsic_does_not_declare():
    with pytest.raises(tvm.TVMError, match="the reduction has extent 8, declared is 16"):
        tvm.lower(*product(k_factor=8))
    with pytest.raises(tvm.TVMError, match="guard inside of the intrinsic"):
        tvm.lower(*product(n=60))


# --- 8. mixed types and symbolic extents ------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seen", [False, True])
def test_mixed_types(target, seen):
    n, m, scalar = te.var("n"), te.var("m"), te.var("s", "float32")
    a, b = te.placeholder((n, 1), "int8", name="A"), te.placeholder((1, m), name="B")
    c = te.compute((n, m), lambda i, j: a[i, 0] * b[0, j] + scalar, name="C")
    d = te.compute((n, m), lambda i, j: c[i, j].astype("int32"), name="D")
    assert (c.dtype, d.dtype) == ("float32", "int32")
    s = te.create_schedule(d.op)
    for tensor in [c, d] if seen else [d]:
        outer, inner = s[tensor].split(s[tensor].fuse(*s[tensor].op.axis), 32)
        share(s, tensor, outer, target)
        as_vectors(s, tensor, inner, target)
    if not seen:
        s[c].compute_inline()
    built = tvm.build(s, [a, b, scalar, *([c] if seen else []), d], target)
    for rows, columns in [(1, 1), (3, 5), (17, 1000), (0, 4)]:
        x, y = RNG.integers(-100, 100, (rows, 1)).astype("int8"), random(1, columns)
        wanted = x.astype("float32") * y + np.float32(0.5)
        empty = [np.zeros(wanted.shape, "float32")] if seen else []
        results = call(target, built, x, y, 0.5, *empty, np.zeros(wanted.shape, "int32"))
        np.testing.assert_array_equal(results[-1], wanted.astype("int32"))
        if seen:
            np.testing.assert_allclose(results[3], wanted, rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_divisions_round_as_they_say(target):
    a = te.placeholder((4,), "int64", name="A")
    bodies = [lambda v: v // 2, lambda v: v % 2, lambda v: te.truncdiv(v, 2), lambda v: te.truncmod(v, 2)]
    outs = [te.compute((4,), _of(a, body), name=f"out{k}") for k, body in enumerate(bodies)]
    k = te.reduce_axis((0, 4), "k")
    zeros = te.compute((1,), lambda _: te.sum(tir.const(1), axis=k, where=a[k] == 0), name="zeros")
    assert (te.var("x", "uint8") + te.var("y", "int8")).dtype == "uint8"
    with pytest.raises(RuntimeError, match="floordiv"):
        a[0] / a[0]
    assert not (a[0] == 0)  # of Python: identity
    s = te.create_schedule([t.op for t in (*outs, zeros)])
    for tensor in (*outs, zeros):
        s[tensor].bind(s[tensor].op.axis[0], te.thread_axis("threadIdx.x"))
    x = np.array([-7, 7, 0, -8], "int64")
    empty = [np.zeros(4, "int64") for _ in outs] + [np.zeros(1, "int32")]
    results = call(target, tvm.build(s, [a, *outs, zeros], target), x, *empty)[1:]
    assert [list(r) for r in results[:4]] == [[-4, 3, 0, -4], [1, 1, 0, 0], [-3, 3, 0, -4], [-1, 1, 0, 0]]
    assert list(results[4]) == [1]


def _of(tensor, body):
    return lambda i: body(tensor[i])
