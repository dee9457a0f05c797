"""Target cuda: the text of kernels, and what they compute on a GPU or emulated (AIPU_CUDA=emulate)."""

import os
import subprocess
import sys
import textwrap

import aipu
import aipu as tvm
import numpy as np
import pytest
from aipu import te, topi
from aipu.te import _cuda

pytestmark = pytest.mark.usefixtures("cuda")


def build(schedule, args):
    """The functions; their text is one for NVIDIA's compiler where that is, emulated ones' too."""
    made = tvm.build(schedule, args, "cuda")
    _cuda.compiled(made.imported_modules[0].get_source())
    return made


def random(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


def vector_add(n):
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute(a.shape, lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    bx, tx = s[c].split(c.op.axis[0], factor=64)
    s[c].bind(bx, te.thread_axis("blockIdx.x"))
    s[c].bind(tx, te.thread_axis("threadIdx.x"))
    return s, [a, b, c]


def test_the_listing():
    s, args = vector_add(te.var("n"))
    fadd = tvm.build(s, args, "cuda", target_host="llvm")
    dev = tvm.device("cuda", 0)
    assert dev.exist
    n = 1024
    a = tvm.nd.array(np.random.uniform(size=n).astype("float32"), dev)
    b = tvm.nd.array(np.random.uniform(size=n).astype("float32"), dev)
    c = tvm.nd.array(np.zeros(n, dtype="float32"), dev)
    fadd(a, b, c)
    np.testing.assert_array_equal(c.numpy(), a.numpy() + b.numpy())
    (device,) = fadd.imported_modules
    text = device.get_source()
    assert device.type_key == "cuda"
    assert 'extern "C" __global__ void' in text and "blockIdx.x" in text and "threadIdx.x" in text
    assert text.startswith("// emulated") == _cuda.emulated()
    for size in (0, 1, 40, 1000):
        a, b, c = random(size), random(size), np.zeros(size, "float32")
        fadd(a, b, c)
        np.testing.assert_array_equal(c, a + b)


def test_without_a_device_running_says_what_there_is(monkeypatch):
    monkeypatch.delenv("AIPU_CUDA", raising=False)
    if aipu.cuda(0).exist:
        pytest.skip("there is a device")
    s, args = vector_add(128)
    fadd = tvm.build(s, args, "cuda")
    text = fadd.imported_modules[0].get_source()
    assert "__global__" in text and "emulated" not in text
    with pytest.raises(tvm.TVMError, match="AIPU_CUDA=emulate"):
        fadd(random(128), random(128), random(128))


@pytest.mark.parametrize("n", [64, 50])
def test_tiles_in_shared_memory(n):
    tile = 16
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    shared_a, shared_b = s.cache_read(a, "shared", [c]), s.cache_read(b, "shared", [c])
    local = s.cache_write(c, "local")
    threads = {name: te.thread_axis(name) for name in ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y")}
    by, bx, ty, tx = s[c].tile(*s[c].op.axis, tile, tile)
    for axis, name in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"), (tx, "threadIdx.x")):
        s[c].bind(axis, threads[name])
    s[local].compute_at(s[c], tx)
    ko, _ = s[local].split(s[local].op.reduce_axis[0], factor=tile)
    for stage in (shared_a, shared_b):
        s[stage].compute_at(s[local], ko)
        y, x = s[stage].op.axis
        s[stage].bind(y, threads["threadIdx.y"])
        s[stage].bind(x, threads["threadIdx.x"])
    made = build(s, [a, b, c])
    text = made.imported_modules[0].get_source()
    assert text.count("__shared__ float") == 2 and "__syncthreads()" in text
    x, y, z = random(n, n), random(n, n), np.zeros((n, n), "float32")
    made(x, y, z)
    np.testing.assert_allclose(z, x @ y, rtol=1e-4, atol=1e-4)


def test_reduction_over_threads_and_a_stage_of_the_block():
    m, n = 20, 100
    a = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    total = te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="total")
    s = te.create_schedule(total.op)
    _, inner = s[total].split(total.op.reduce_axis[0], factor=16)
    part = s.rfactor(total, inner)
    rows, lanes = te.thread_axis("threadIdx.y"), te.thread_axis("threadIdx.x")
    block, row = s[total].split(s[total].op.axis[0], factor=8)
    s[total].bind(block, te.thread_axis("blockIdx.x"))
    s[total].bind(row, rows)
    s[total].bind(s[total].op.reduce_axis[0], lanes)
    s[part].compute_at(s[total], s[total].op.reduce_axis[0])
    s[total].set_store_predicate(lanes.var.equal(0))
    made = build(s, [a, total])
    x, y = random(m, n), np.zeros(m, "float32")
    made(x, y)
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-4, atol=1e-4)


def test_memory_of_a_block_filled_within_a_reduction():
    a = te.placeholder((12,), "int32", name="A")
    b = te.compute((12,), lambda i: a[i] * 2, name="B")
    k = te.reduce_axis((0, 3), name="k")
    c = te.compute((12,), lambda i: te.sum(b[i] + k, axis=k), name="C")
    s = te.create_schedule(c.op)
    s[b].set_scope("shared")
    rows, _ = s[c].split(c.op.axis[0], factor=4)
    s[c].bind(rows, te.thread_axis("threadIdx.y"))
    s[b].compute_at(s[c], s[c].op.reduce_axis[0])
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.y"))  # more of them than rows
    x, y = np.arange(12, dtype="int32"), np.zeros(12, "int32")
    build(s, [a, c])(x, y)
    np.testing.assert_array_equal(y, x * 6 + 3)


def test_memory_of_each_block_that_all_fill():
    a = te.placeholder((4, 3), "int32", name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] * 2, name="B")
    c = te.compute(a.shape, lambda i, j: b[i, j] + 1, name="C")
    s = te.create_schedule(c.op)
    s[b].set_scope("shared")
    s[c].bind(c.op.axis[0], te.thread_axis("threadIdx.x"))
    s[c].bind(c.op.axis[1], te.thread_axis("blockIdx.x"))
    s[b].compute_at(s[c], c.op.axis[0])
    x, y = np.arange(12, dtype="int32").reshape(4, 3), np.zeros((4, 3), "int32")
    build(s, [a, c])(x, y)
    np.testing.assert_array_equal(y, x * 2 + 1)


def test_several_kernels_and_steps_of_a_scan():
    m, n = 9, 70
    x = te.placeholder((m, n), name="x")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: x[0, i], name="init")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    scan = te.scan(init, update, state, inputs=[x])
    out = te.compute((m, n), lambda i, j: scan[i, j] * 2, name="out")
    s = te.create_schedule(out.op)
    for stage in (init, update, out):
        block, thread = s[stage].split(stage.op.axis[1], factor=32)
        s[stage].bind(block, te.thread_axis("blockIdx.x"))
        s[stage].bind(thread, te.thread_axis("threadIdx.x"))
    made = build(s, [x, out])
    a, b = random(m, n), np.zeros((m, n), "float32")
    made(a, b)
    np.testing.assert_allclose(b, a.cumsum(0) * 2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("unscheduled", [False, True])
def test_rules_for_gpus(unscheduled):
    x = te.placeholder((te.var("n"), 33), name="x")
    y = topi.nn.softmax(x)
    s = te.create_schedule(y.op) if unscheduled else topi.generic.schedule([y], "cuda")
    made = build(s, [x, y])
    a, b = random(7, 33), np.zeros((7, 33), "float32")
    made(a, b)
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(b, e / e.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("to", ["int8", "uint8", "int32", "uint32", "int64"])
def test_floats_become_integers(dtype, to):
    values = [0.0, 1.5, -1.5, 2.5, 300.0, -300.0, np.inf, -np.inf, np.nan]
    x = te.placeholder((len(values),), dtype, name="x")
    y = te.compute(x.shape, lambda i: x[i].astype(to), name="y")
    z = te.compute(x.shape, lambda i: te.round(x[i]), name="z")
    w = te.compute(x.shape, lambda i: te.max(x[i], x[0]), name="w")
    made = build(topi.generic.schedule([y, z, w], "cuda"), [x, y, z, w])
    a, b = np.array(values, dtype), np.zeros(len(values), to)
    c, d = np.zeros_like(a), np.zeros_like(a)
    made(a, b, c, d)
    bounds = np.iinfo("int64" if to == "int64" else "int32")
    whole = [
        0 if np.isnan(v) else bounds.max if v == np.inf else bounds.min if v == -np.inf else int(v) for v in values
    ]
    np.testing.assert_array_equal(b, np.array(whole, "int64").astype(to))
    np.testing.assert_array_equal(c, np.rint(a))
    np.testing.assert_array_equal(d, np.fmax(a, 0))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16", "float64"])
def test_element_types(dtype):
    x, y = te.placeholder((50,), dtype, name="x"), te.placeholder((50,), dtype, name="y")
    z = te.compute((50,), lambda i: te.max(x[i], y[i]) + x[i], name="z")
    made = build(topi.generic.schedule([z], "cuda"), [x, y, z])
    a, b = (np.arange(50) % 11).astype(dtype), (np.arange(50) % 7).astype(dtype)
    c = np.zeros(50, dtype)
    made(a, b, c)
    np.testing.assert_array_equal(c, np.maximum(a, b) + a)


def test_each_operation_on_halves_rounds():
    x, y = te.placeholder((4096,), "float16", name="x"), te.placeholder((4096,), "float16", name="y")
    z = te.compute(x.shape, lambda i: x[i] * y[i] + x[i], name="z")
    w = te.compute(x.shape, lambda i: te.sigmoid(x[i]), name="w")
    s = topi.generic.schedule([z, w], "cuda")
    made = build(s, [x, y, z, w])
    source = made.imported_modules[0].get_source()
    assert "__hmul_rn" in source and source.index("__CUDA_NO_HALF_OPERATORS__") < source.index("cuda_fp16.h")
    rng = np.random.default_rng(2)
    a, b = (rng.uniform(-16, 16, 4096).astype("float16") for _ in "ab")
    c, d = np.zeros_like(a), np.zeros_like(a)
    made(a, b, c, d)
    np.testing.assert_array_equal(c, a * b + a)
    exact = 1 / (1 + np.exp(-a.astype("float64")))
    assert np.all(np.abs(d - exact) <= np.spacing(d) * 0.51)


def test_what_is_not_there_is_said():
    s, args = vector_add(64)
    made = tvm.build(s, args, "cuda")
    with pytest.raises(tvm.TVMError, match="functions for cuda"):
        made.export_library("functions.so")
    with pytest.raises(tvm.TVMError, match="num_args should be 3"):
        made(random(64))
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].set_scope("texture")
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].bind(c.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(tvm.TVMError, match="scope 'texture' is no memory of cuda"):
        build(s, [a, c])


def test_a_block_has_so_many_threads():
    n = te.var("n")
    a = te.placeholder((4, n, 40), name="A")
    b = te.compute(a.shape, lambda i, j, k: a[i, j, k] + 1, name="B")
    s = te.create_schedule(b.op)
    for axis, name in zip(b.op.axis, ("blockIdx.x", "threadIdx.y", "threadIdx.x")):
        s[b].bind(axis, te.thread_axis(name))
    made = build(s, [a, b])
    x, y = random(4, 25, 40), np.zeros((4, 25, 40), "float32")
    made(x, y)
    np.testing.assert_array_equal(y, x + 1)
    with pytest.raises(tvm.TVMError, match=r"a block of 1040 threads \(threadIdx.x 40, threadIdx.y 26\)"):
        made(random(4, 26, 40), np.zeros((4, 26, 40), "float32"))


def test_a_block_has_so_much_shared_memory():
    a = te.placeholder((8, 20000), name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] + 1, name="B")
    c = te.compute(a.shape, lambda i, j: b[i, 19999 - j] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    with pytest.raises(tvm.TVMError, match="80000 bytes"):
        tvm.build(s, [a, c], "cuda")


# What the driver and NVRTC are asked for. The driver's kernel is the addition that the test builds.
_FAKE = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef uint64_t address;
static const char* program;
int nvrtcCreateProgram(void** p, const char* text, const char* n, int c, void* h, void* i) {
  program = strdup(text);
  return *p = (void*)program, strstr(text, "__global__") ? 0 : 1;
}
int nvrtcCompileProgram(void* p, int n, const char** o) { return strstr(o[0], "compute_86") ? 0 : 6; }
int nvrtcGetProgramLogSize(void* p, size_t* n) { return *n = 5, 0; }
int nvrtcGetProgramLog(void* p, char* t) { return strcpy(t, "oops"), 0; }
int nvrtcGetPTXSize(void* p, size_t* n) { return *n = 4, 0; }
int nvrtcGetPTX(void* p, char* t) { return strcpy(t, "ptx"), 0; }
int nvrtcDestroyProgram(void** p) { return 0; }
static int live, to_device, to_host;
int cuInit(unsigned f) { return 0; }
int cuDeviceGetCount(int* n) { return *n = 1, 0; }
int cuDeviceGet(int* d, int i) { return *d = i, 0; }
int cuDevicePrimaryCtxRetain(void** c, int d) { return *c = (void*)8, 0; }
int cuCtxSetCurrent(void* c) { return c == (void*)8 ? 0 : 201; }
int cuDeviceGetAttribute(int* v, int a, int d) { return *v = a == 75 ? 8 : 6, 0; }
int cuModuleLoadData(void** m, const char* t) { return *m = (void*)16, strcmp(t, "ptx"); }
int cuModuleGetFunction(void** f, void* m, const char* n) {
  return *f = (void*)24, m == (void*)16 && strstr(program, n) ? 0 : 500;
}
int cuMemAlloc_v2(address* a, size_t n) { return ++live, *a = (address)malloc(n), 0; }
int cuMemFree_v2(address a) { return --live, free((void*)a), 0; }
int cuMemcpyHtoD_v2(address a, const void* h, size_t n) { return ++to_device, memcpy((void*)a, h, n), 0; }
int cuMemcpyDtoH_v2(void* h, address a, size_t n) { return ++to_host, memcpy(h, (void*)a, n), 0; }
int cuCtxSynchronize(void) { return 0; }
static int launches;
int cuEventCreate(void** e, unsigned f) { return ++live, *e = malloc(sizeof(int)), 0; }
int cuEventRecord(void* e, void* stream) { return *(int*)e = launches, 0; }
int cuEventSynchronize(void* e) { return 0; }
int cuEventElapsedTime(float* ms, void* a, void* b) { return *ms = *(int*)b - *(int*)a, 0; }  // one per launch
int cuEventDestroy_v2(void* e) { return --live, free(e), 0; }
int cuGetErrorString(int e, const char** t) { return *t = "failed", 0; }
int fake_live(void) { return live; }
int fake_to_device(void) { return to_device; }
int fake_to_host(void) { return to_host; }
int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned s,
                   void* stream, void** args, void* extra) {
  float *a = *(float**)args[0], *b = *(float**)args[1], *c = *(float**)args[2];
  const int n = *(int*)args[3];
  if (gy != 1 || gz != 1 || by != 1 || bz != 1 || bx != 64 || gx != (unsigned)(n + 63) / 64 || s != 0) return 1;
  for (int i = 0; i < n; ++i) c[i] = a[i] + b[i];
  ++launches;
  return 0;
}
"""


def run_on_fake_device(tmp_path, text):
    source = tmp_path / "fake.c"
    source.write_text(_FAKE)
    for name in ("libcuda.so.1", "libnvrtc.so"):
        subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", str(tmp_path / name), str(source)], check=True)
    # One library under both names: the driver looks into the compiler's program.
    os.unlink(tmp_path / "libnvrtc.so")
    os.symlink("libcuda.so.1", tmp_path / "libnvrtc.so")
    program = textwrap.dedent("""
        import ctypes, numpy as np, aipu as tvm
        from test_te_cuda import vector_add
        from aipu import te
        s, args = vector_add(te.var("n"))
        fadd = tvm.build(s, args, "cuda")
        fake = ctypes.CDLL("libcuda.so.1")
    """) + textwrap.dedent(text)
    environment = {k: v for k, v in os.environ.items() if k != "AIPU_CUDA"}
    for name, folder in (("LD_LIBRARY_PATH", str(tmp_path)), ("PYTHONPATH", os.path.dirname(__file__))):
        environment[name] = os.pathsep.join(filter(None, [folder, environment.get(name)]))
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_a_device_is_driven(tmp_path):
    run_on_fake_device(
        tmp_path,
        """
        assert tvm.cuda(0).exist and not tvm.cuda(1).exist
        for n in (1000, 64):
            a, b, c = np.arange(n, dtype="float32"), np.ones(n, "float32"), np.zeros(n, "float32")
            a.flags.writeable = False
            fadd(a, b, c)
            assert (c == a + 1).all()
        assert (fake.fake_live(), fake.fake_to_device(), fake.fake_to_host()) == (0, 6, 2)
        """,
    )


def test_arrays_of_a_device_stay_there(tmp_path):
    run_on_fake_device(
        tmp_path,
        """
        def copies():  # since the last call
            before = copies.before
            copies.before = (fake.fake_to_device(), fake.fake_to_host())
            return tuple(now - then for now, then in zip(copies.before, before))
        copies.before = (0, 0)
        n = 640
        first = np.arange(n, dtype="float32")
        a, b, c = (tvm.nd.array(v, tvm.cuda(0)) for v in (first, np.ones(n, "float32"), np.zeros(n, "float32")))
        fadd(a, b, c)
        assert copies() == (3, 0)
        fadd(c, b, a)
        assert copies() == (0, 0)
        assert (a.numpy() == first + 2).all() and (a.numpy() == first + 2).all() and copies() == (0, 1)
        b[:] = 5.0
        fadd(c, b, a)
        assert (a.numpy() == first + 6).all() and copies() == (1, 1)
        out = np.zeros(n, "float32")
        fadd(a, b, out)
        assert (out == first + 11).all() and copies() == (1, 1)
        # What others see is the host's memory: calls copy it.
        view = c._create_view((n // 2, 2))
        assert (view.numpy().reshape(-1) == first + 1).all()
        fadd(a, b, c)
        assert (view.numpy().reshape(-1) == first + 11).all()
        assert (tvm.nd.array(c).numpy() == c.copyto(tvm.cpu(0)).numpy()).all()
        same = np.from_dlpack(a)
        fadd(c, b, a)
        assert (same == first + 16).all() and copies()[1] > 0
        # One launch takes a millisecond.
        measure = fadd.time_evaluator(fadd.entry_name, tvm.cuda(0), number=4, repeat=3, min_repeat_ms=30)
        assert measure(a, b, c).results == (1e-3,) * 3 and (c.numpy() == first + 11).all()
        del a, b, c, view, same
        assert fake.fake_live() == 0
        """,
    )


def test_a_compiler_of_a_package(tmp_path, monkeypatch):
    library = tmp_path / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    assert str(library) in _cuda._in_packages(_cuda._NVRTC)


def test_whole_models_are_refused(tmp_path):
    programs = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(tvm.__file__)))), "bin")
    model = str(tmp_path / "model.onnx")
    subprocess.run([os.path.join(programs, "aipu-make-model"), "mlp", "-o", model], check=True)
    with pytest.raises(Exception, match="it has no thread axes: target cuda runs schedules of aipu.te"):
        aipu.build(model, str(tmp_path / "model.aipu.bin"), target="cuda")
