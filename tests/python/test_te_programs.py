"""Tensor expressions as programs for TVM's `te` write them: identities of axes, threads' memory, functions of bits."""

import aipu as tvm
import numpy as np
import pytest
from aipu import te, tir

TARGETS = ["host", "X2_1204", "cuda"]


def random(*shape):
    return np.random.default_rng(7).uniform(-4, 4, shape).astype("float32")


def threads(s, tensor):
    """One thread per element."""
    s[tensor].bind(s[tensor].op.axis[0], te.thread_axis("threadIdx.x"))


# --- schedules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["interpreter", "host", "X2_1204"])
@pytest.mark.parametrize("split", [None, 7])
def test_data_fused_with_reduction(target, split):
    a = te.placeholder((6, 5), "int32", name="a")
    k = te.reduce_axis((0, 5), "k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k, init=100), name="b")
    s = te.create_schedule(b.op)
    fused = s[b].fuse(b.op.axis[0], k)
    assert fused.iter_type == fused.CommReduce
    outer = fused
    if split:
        outer, inner = s[b].split(fused, split)
        s[b].unroll(inner)
    with pytest.raises(tvm.TVMError, match="is a reduction axis"):
        s[b].parallel(outer)
    x, y = np.arange(30, dtype="int32").reshape(6, 5), np.zeros(6, "int32")
    tvm.build(s, [a, b], target)(x, y)
    np.testing.assert_array_equal(y, x.sum(1) + 100)
    with pytest.raises(tvm.TVMError, match="fused with a data axis"):
        s.rfactor(b, outer)
    with pytest.raises(tvm.TVMError, match="fused of a data and a reduction axis"):
        s.cache_write(b, "local")


def test_axes_stay_what_they_are():
    n = te.size_var("n")
    k1, k2 = te.reduce_axis((0, n), "k1"), te.reduce_axis((0, n), "k2")
    a = te.placeholder((n, n, n), name="a")
    b = te.compute((n,), lambda i: te.sum(a[i, k1, k2], axis=[k1, k2]), name="b")
    s = te.create_schedule(b.op)
    s[b].split(k2, factor=2)  # is not touched by what k1 becomes
    outer, inner = s[b].split(k1, factor=4)
    factored = s.rfactor(b, inner)
    assert int(factored.shape[0]) == 4 and factored.shape[1] == n
    assert factored.op.body[0].axis[0] == k2
    assert factored.op.body[0].axis[1].var == outer.var
    s = te.create_schedule(b.op)
    cached = s.cache_write(b, "local")
    outer, inner = s[b].split(b.op.axis[0], 8)  # of the tensor as it was made
    s[cached].compute_at(s[b], outer)
    bounds = te.schedule.InferBound(s)
    assert int(bounds[cached.op.axis[0]].extent) == 8 and bounds[cached.op.axis[0]].min.a.same_as(outer.var)
    x, y = random(9, 9, 9), np.zeros(9, "float32")
    tvm.build(s, [a, b], "host")(x, y)
    np.testing.assert_allclose(y, x.sum((1, 2)), rtol=1e-3)


def test_domains_and_combiners_over_data_axes():
    a = te.placeholder((10,), "int32", name="a")

    def element(i):
        k = te.reduce_axis((0, i))
        most = te.comm_reducer(lambda x, y: te.max(x + y, i), lambda t: tir.Select(i > 1, tir.const(0, t), i), "most")
        return most(a[k], axis=k)

    b = te.compute((10,), element, name="b")
    expected = []
    for i in range(10):
        value = 0 if i > 1 else i
        for x in range(i):
            value = max(value + x, i)
        expected.append(value)
    for cached in (False, True):
        s = te.create_schedule(b.op)
        if cached:
            s.cache_write(b, "local")
        y = np.zeros(10, "int32")
        tvm.build(s, [a, b], "interpreter")(np.arange(10, dtype="int32"), y)
        np.testing.assert_array_equal(y, expected)


def test_who_sees_memory_decides_regions():
    m = te.var("m")
    a = te.placeholder((m,), name="a")
    b = te.compute((m,), lambda i: a[i], name="b")
    c = te.compute((m,), lambda i: b[i] + 2, name="c")
    d = te.compute((m,), lambda i: c[i] + 3, name="d")
    s = te.create_schedule(d.op)
    s[c].set_scope("shared")
    s[b].set_scope("local")
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    outer, inner = s[d].split(d.op.axis[0], factor=32)
    s[d].bind(outer, block)
    s[d].bind(inner, thread)
    s[c].compute_at(s[d], inner)
    s[c].bind(s[c].split(c.op.axis[0], nparts=1)[1], thread)
    s[b].compute_at(s[d], inner)
    bounds = te.schedule.InferBound(s)
    assert [int(bounds[t.op.axis[0]].extent) for t in (b, c)] == [1, 32]
    assert bounds[d.op.axis[0]].extent == m


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scope", ["warp", "shared", "lsram"])
def test_memory_of_a_block(target, scope):
    a = te.placeholder((128,), name="a")
    b = te.compute((128,), lambda i: a[i] + 3, name="b")
    s = te.create_schedule(b.op)
    copied = s.cache_read(a, scope, [b])
    outer, inner = s[b].split(b.op.axis[0], 64)
    part, lane = s[b].split(inner, 32)
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(lane, thread)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[copied].compute_at(s[b], outer)
    s[copied].bind(s[copied].split(s[copied].op.axis[0], 32)[1], thread)
    x, y = random(128), np.zeros(128, "float32")
    device = tvm.device(target, 0)
    out = tvm.nd.array(y, device)
    tvm.build(s, [a, b], target)(tvm.nd.array(x, device), out)
    np.testing.assert_array_equal(out.numpy(), x + 3)


@pytest.mark.parametrize("target", TARGETS)
def test_predicate_on_a_thread_of_the_producer(target):
    m, n = 10, 1025
    a = te.placeholder((m, n), name="a")
    k = te.reduce_axis((0, n))
    b = te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="b")
    c = te.compute((m,), lambda i: b[i] + 2, name="c")
    s = te.create_schedule(c.op)
    rows, row = s[c].split(c.op.axis[0], factor=16)
    factored = s.rfactor(b, s[b].split(k, factor=16)[1])
    s[b].compute_at(s[c], row)
    s[c].bind(rows, te.thread_axis("blockIdx.x"))
    s[c].bind(row, te.thread_axis("threadIdx.y"))
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], thread)
    s[factored].compute_at(s[b], s[b].op.reduce_axis[0])
    for tensor in (b, c):
        s[tensor].set_store_predicate(thread.var.equal(0))
    device = tvm.device(target, 0)
    x, y = random(m, n), tvm.nd.array(np.zeros(m, "float32"), device)
    tvm.build(s, [a, c], target)(tvm.nd.array(x, device), y)
    np.testing.assert_allclose(y.numpy(), x.sum(1) + 2, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scope", ["shared", "local"])
def test_threads_fill_rows_of_sums(target, scope):
    """In memory of the block each thread its part, in memory of its own each thread all."""
    a = te.placeholder((4, 6, 5), name="a")
    k = te.reduce_axis((0, 5), "k")
    b = te.compute((4, 6), lambda i, j: te.sum(a[i, j, k], axis=k), name="b")
    c = te.compute((4, 6), lambda i, j: b[i, j] + b[i, 5 - j], name="c")
    s = te.create_schedule(c.op)
    s[b].set_scope(scope)
    thread = te.thread_axis("threadIdx.y")
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x" if scope == "shared" else "threadIdx.x"))
    s[c].bind(c.op.axis[1], thread)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].bind(b.op.axis[1], thread)
    device = tvm.device(target, 0)
    x, y = random(4, 6, 5), tvm.nd.array(np.zeros((4, 6), "float32"), device)
    tvm.build(s, [a, c], target)(tvm.nd.array(x, device), y)
    np.testing.assert_allclose(y.numpy(), x.sum(2) + x.sum(2)[:, ::-1], rtol=1e-5, atol=1e-5)


def test_attributes_of_axes():
    a = te.placeholder((32,), name="a")
    b = te.compute((32,), lambda i: a[i] + 1, name="b")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], 8)
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] + 1, name="y")
    intrin = te.decl_tensor_intrin(y.op, lambda ins, outs: tir.call_packed("f", ins[0], outs[0]))
    s[b].pragma(outer, "auto_unroll_max_step", 8)
    s[b].tensorize(inner, intrin)
    assert s[b].iter_var_attrs[outer].pragma_keys[0].value == "auto_unroll_max_step"
    assert int(s[b].iter_var_attrs[outer].pragma_values[0]) == 8
    assert s[b].iter_var_attrs[inner].tensor_intrin == intrin
    call = tvm.lower(s, [a, b])["main"].body.body.body
    assert isinstance(call, tir.Evaluate) and call.value.args[0].value == "f" and len(call.value.args) == 3


def test_fixed_points_of_scans():
    def analysed(read):
        state, x = te.placeholder((5, 4, 4), name="state"), te.placeholder((5, 4, 4), name="x")
        init = te.compute((1, 4, 4), lambda _, i, j: x[0, i, j], name="init")
        update = te.compute((5, 4, 4), lambda t, i, j: x[t, j, i] + read(state, t, i, j), name="update")
        op = te.scan(init, update, state).op
        found = te.schedule.ScanFixPointAnalysis(op)
        path = te.schedule.CreateAttachPath(te.create_schedule(op))
        assert list(path[update.op]) == [op.scan_axis]
        return [int(found[axis]) for axis in op.spatial_axis_]

    assert analysed(lambda s, t, i, j: s[t - 1, i, j]) == [1, 1]
    assert analysed(lambda s, t, i, j: s[t - 1, (i + 1) % 4, j]) == [0, 1]
    assert analysed(lambda s, t, i, j: s[t - 1, j, i]) == [0, 0]


# --- functions --------------------------------------------------------------------------------------------------------

PAIRS = {"atan2": np.arctan2, "copysign": np.copysign, "nextafter": np.nextafter, "hypot": np.hypot}


@pytest.mark.parametrize("target", ["interpreter", *TARGETS])
@pytest.mark.parametrize("name", sorted(PAIRS))
def test_functions_of_two_floats(target, name):
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.5], "float32")
    p, q = (v.ravel() for v in np.meshgrid(special, special))
    p, q = np.concatenate([p, random(64)]), np.concatenate([q, random(64)[::-1]])
    a, b = te.placeholder((128,), name="a"), te.placeholder((128,), name="b")
    c = te.compute((128,), lambda i: getattr(te, name)(a[i], b[i]), name="c")
    s = te.create_schedule(c.op)
    threads(s, c)
    device = tvm.device("cpu" if target == "interpreter" else target, 0)
    out = tvm.nd.array(np.zeros(128, "float32"), device)
    tvm.build(s, [a, b, c], target)(tvm.nd.array(p, device), tvm.nd.array(q, device), out)
    wanted = PAIRS[name](p, q)
    kept = np.isfinite(p + q) if name == "hypot" else np.isfinite(p + q) | (name != "nextafter")
    np.testing.assert_allclose(out.numpy()[kept], wanted[kept], rtol=1e-6, atol=1e-45)
    signs = ~np.isnan(wanted) & kept
    np.testing.assert_array_equal(np.signbit(out.numpy()[signs]), np.signbit(wanted[signs]))


# The quotient may have more bits than the type: the rest is exact all the same. Of random bits, so of all magnitudes.
@pytest.mark.parametrize("target", ["interpreter", *TARGETS])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_remainders_of_floats(target, dtype):
    count, rng, info = 1000, np.random.default_rng(8), np.finfo(dtype)
    p, q = (rng.bytes(count * info.bits // 8) for _ in range(2))
    p, q = (np.frombuffer(data, dtype).copy() for data in (p, q))
    special = np.array([0, -0.0, 1, -3, np.inf, -np.inf, np.nan, info.tiny, info.smallest_subnormal, -info.max], dtype)
    p[:100], q[:100] = (v.ravel() for v in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        q[500:] = p[500:] / rng.integers(1, 1 << 20, 500)  # quotients of a few bits
    a, b = te.placeholder((count,), dtype, name="a"), te.placeholder((count,), dtype, name="b")
    c = te.compute((count,), lambda i: te.fmod(a[i], b[i]), name="c")
    s = te.create_schedule(c.op)
    threads(s, c)
    device = tvm.device("cpu" if target == "interpreter" else target, 0)
    out = tvm.nd.array(np.zeros(count, dtype), device)
    tvm.build(s, [a, b, c], target)(tvm.nd.array(p, device), tvm.nd.array(q, device), out)
    with np.errstate(invalid="ignore"):
        wanted = np.fmod(p, q)
    np.testing.assert_array_equal(out.numpy(), wanted)
    signs = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(out.numpy()[signs]), np.signbit(wanted[signs]))


@pytest.mark.parametrize("target", ["interpreter", *TARGETS])
def test_powers_of_two(target):
    x = np.concatenate([random(50), np.array([1e-44, 3e38, np.inf, -0.0, 1, 1, 1], "float32")])
    e = np.concatenate([np.arange(-25, 25), [160, -270, 3, 5, 127, -149, 300]]).astype("int32")
    a, b = te.placeholder((57,), name="a"), te.placeholder((57,), "int32", name="b")
    c = te.compute((57,), lambda i: te.ldexp(a[i], b[i]), name="c")
    s = te.create_schedule(c.op)
    threads(s, c)
    device = tvm.device("cpu" if target == "interpreter" else target, 0)
    out = tvm.nd.array(np.zeros(57, "float32"), device)
    tvm.build(s, [a, b, c], target)(tvm.nd.array(x, device), tvm.nd.array(e, device), out)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(out.numpy(), np.ldexp(x, e))


@pytest.mark.parametrize("target", ["interpreter", *TARGETS])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_bits_of_integers(target, dtype):
    bits = np.iinfo(dtype).bits
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = np.random.default_rng(3).integers(low, high, 32, dtype=dtype, endpoint=True)
    x[:3] = [low, high, 1]
    a = te.placeholder((32,), dtype, name="a")
    count = te.compute((32,), lambda i: tir.popcount(a[i]), name="count")
    zeros = te.compute((32,), lambda i: tir.clz(a[i]), name="zeros")
    assert (count.dtype, zeros.dtype) == (dtype, "int32")
    s = te.create_schedule([count.op, zeros.op])
    threads(s, count)
    threads(s, zeros)
    device = tvm.device("cpu" if target == "interpreter" else target, 0)
    outs = [tvm.nd.array(np.zeros(32, t), device) for t in (dtype, "int32")]
    tvm.build(s, [a, count, zeros], target)(tvm.nd.array(x, device), *outs)
    raw = [int(v) % 2**bits for v in x]
    np.testing.assert_array_equal(outs[0].numpy(), [bin(v).count("1") for v in raw])
    np.testing.assert_array_equal(outs[1].numpy(), [bits - v.bit_length() for v in raw])


@pytest.mark.parametrize("target", ["interpreter", *TARGETS])
def test_bits_of_floats(target):
    a = te.placeholder((16,), name="a")
    c = te.compute((16,), lambda i: tir.reinterpret("int32", a[i]), name="c")
    s = te.create_schedule(c.op)
    threads(s, c)
    device = tvm.device("cpu" if target == "interpreter" else target, 0)
    x, out = random(16), tvm.nd.array(np.zeros(16, "int32"), device)
    tvm.build(s, [a, c], target)(tvm.nd.array(x, device), out)
    np.testing.assert_array_equal(out.numpy(), x.view("int32"))
    with pytest.raises(tvm.TVMError, match="not numbers of the same size"):
        tir.reinterpret("int64", a[0])


def test_what_functions_refuse():
    x, i = te.var("x", "float32"), te.var("i")
    with pytest.raises(tvm.TVMError, match="'popcount' needs integers"):
        tir.popcount(x)
    with pytest.raises(tvm.TVMError, match="'ldexp' needs a float and an integer"):
        tir.ldexp(i, i)
    data = tir.decl_buffer((4,), name="data")
    with pytest.raises(tvm.TVMError, match="values are of calls that take numbers alone"):
        te.compute((4,), lambda i: tir.call_packed("f", data))
    with pytest.raises(ValueError, match="at least one value"):
        tir.trace([], "f")
    with pytest.raises(tvm.TVMError, match="no operation 'tir.nothing'"):
        tir.call_intrin("float32", "tir.nothing", x)


# --- C functions ------------------------------------------------------------------------------------------------------

TWICE = """
int twice(const float* a, float* b, int n, float factor) {
  for (int i = 0; i < n; ++i) b[i] = a[i] * factor;
  return 0;
}
"""


@pytest.mark.parametrize("text", [TWICE, 'extern "C" ' + TWICE.strip()])
@pytest.mark.parametrize("target", ["interpreter", "host", "X2_1204"])
def test_imported_c(target, text):
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i] * 2, name="b")

    def call(ins, outs):
        ib = tir.ir_builder.create()
        ib.emit(tir.call_extern("int32", "twice", ins[0].access_ptr("r"), outs[0].access_ptr("w"), 4, tir.const(2.0)))
        return ib.get()

    intrin = te.decl_tensor_intrin(b.op, call, default_buffer_params={"offset_factor": 1})
    x = te.placeholder((16,), name="x")
    y = te.compute((16,), lambda i: x[i] * 2, name="y")
    s = te.create_schedule(y.op)
    outer, inner = s[y].split(y.op.axis[0], 4)
    s[y].tensorize(inner, intrin)
    given, out = random(16), np.zeros(16, "float32")
    with pytest.raises(tvm.TVMError, match="no C function 'twice'"):
        tvm.build(s, [x, y], target)(given, out)
    s[y].pragma(outer, "import_c", text)
    tvm.build(s, [x, y], target)(given, out)
    np.testing.assert_array_equal(out, given * 2)


def test_c_functions_of_numbers():
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: tir.call_pure_extern("float32", "sinf", a[i]), name="b")
    c = te.compute((8,), lambda i: tir.call_intrin("float32", "tir.exp", b[i]), name="c")
    x, y = random(8), np.zeros(8, "float32")
    tvm.build(te.create_schedule(c.op), [a, c], "host")(x, y)
    np.testing.assert_allclose(y, np.exp(np.sin(x)), rtol=1e-5)
    with pytest.raises(tvm.TVMError, match="'mine' of numbers"):
        tir.call_extern("float32", "mine", a[0])


def test_steps_of_building():
    from aipu.driver import build_module

    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] + 1, name="b")
    s = te.create_schedule(b.op)
    module = build_module.schedule_to_module(s, [a, b])
    x, y = random(8), np.zeros(8, "float32")
    build_module.build(module, target="host")(x, y)
    np.testing.assert_array_equal(y, x + 1)


# --- groups -----------------------------------------------------------------------------------------------------------


def test_steps_of_a_scan_are_a_group():
    m, n = te.size_var("m"), te.size_var("n")
    x, state = te.placeholder((m, n), name="x"), te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: x[0, i], name="init")
    first = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i], name="first")
    second = te.compute((m, n), lambda t, i: first[t, i] + 1, name="second")
    update = te.compute((m, n), lambda t, i: second[t, i] + 1, name="update")
    out = te.scan(init, update, state, inputs=x)
    s = te.create_schedule(out.op)
    assert s[first].group is not None and s[first].group == s[second].group
    s[first].compute_at(s[second], second.op.axis[1])
    inner = s.create_group(outputs=second, inputs=[state, x])
    assert inner.group == s[update].group and s[first].group == inner and inner.num_child_stages == 2
    inner.compute_at(s[update], update.op.axis[1])
    assert inner.attach_stage == s[update]
    with pytest.raises(tvm.TVMError, match="'second' is in a group, and 'init' is outside of it"):
        s[second].compute_at(s[init], init.op.axis[0])
    a, b = random(5, 7), np.zeros((5, 7), "float32")
    tvm.build(s, [x, out], "host")(a, b)
    np.testing.assert_allclose(b, a.cumsum(0) + 2 * np.arange(5)[:, None], rtol=1e-4, atol=1e-5)
