"""BuildManager: what it accepts, what it writes, how it fails."""

import glob
import linecache
import logging
import os
import re
import shutil

import aipu
import numpy as np
import pytest
from aipu import script as S


@S.prim_func
def add_one(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
    S.vstore(S.vload(a) + 1, b)


@S.prim_func
def wrong_types(a: S.ptr("i32", "global"), b: S.ptr("fp32", "global")):
    x = a[0]
    x = b[0]
    b[0] = x


def plain(a, b):
    b[0] = a[0]


def test_output_directory(tmp_path):
    bm = aipu.BuildManager()
    assert bm.output_dir is None
    ex = bm.build(add_one)
    assert re.fullmatch(r"compass_dsl_add_one_[0-9a-f]{32}", os.path.basename(bm.output_dir))
    assert os.path.dirname(bm.output_dir) == str(tmp_path)
    ex(np.zeros(8, "int32"), np.zeros(8, "int32"))
    found = sorted(
        os.path.relpath(p, bm.output_dir)
        for p in glob.glob(f"{bm.output_dir}/gbuilder/**", recursive=True)
        if os.path.isfile(p)
    )
    expected = [
        "aipu.bin",
        "aipubt_gb_add_one.py",
        "aipugb.log",
        "compass_ir.bin",
        "compass_ir.txt",
        "op_lib/add_one.cl",
        "op_lib/add_one.log",
        "op_lib/add_one.o",
        "op_lib/add_one.tir",
    ]
    assert found == [os.path.join("gbuilder", name) for name in sorted(expected)]
    assert open(f"{bm.output_dir}/gbuilder/op_lib/add_one.cl").read() == ex.c_code
    assert open(f"{bm.output_dir}/gbuilder/op_lib/add_one.o", "rb").read(4) == b"\x7fELF"
    assert add_one.output_dir == bm.output_dir and add_one.cps_info is bm.cps_info


def test_given_output_directory(tmp_path):
    folder = tmp_path / "here"
    bm = aipu.BuildManager(output_dir=str(folder))
    bm.build(add_one)
    assert (folder / "gbuilder/op_lib/add_one.cl").exists()


def test_compass_ir_of_a_call():
    @S.prim_func
    def call(
        x: S.ptr("i8", "global"),
        w: S.ptr("fp32", "global.1"),
        y: S.ptr("i8", "global"),
        n: S.i32,
        z: S.ptr("i8", "global"),
        s: S.fp32,
    ):
        y[0] = x[0] + z[0]
        if S.fp32(n) * s > w[0]:
            y[1] = x[1]

    bm = aipu.BuildManager()
    ex = bm.build(call)
    ex(np.zeros((4, 8), "int8"), np.ones(16, "float32"), np.zeros(32, "int8"), 1000, np.zeros(32, "int8"), 0.5)
    assert (
        open(f"{bm.output_dir}/gbuilder/compass_ir.txt").read()
        == """model_name=unknown
layer_number=3
data_format=NHWC
precision=float32
batch_size=1
input_tensors=[input0,input1]
output_tensors=[output0]
compat_quantized_model=false

layer_id=0
layer_name=0_input
layer_type=Input
layer_bottom=[]
layer_bottom_shape=[]
layer_bottom_type=[]
layer_top=[input0]
layer_top_shape=[4, 8]
layer_top_type=[int8]

layer_id=1
layer_name=1_input
layer_type=Input
layer_bottom=[]
layer_bottom_shape=[]
layer_bottom_type=[]
layer_top=[input1]
layer_top_shape=[32]
layer_top_type=[int8]

layer_id=2
layer_name=dsl_func
layer_type=DSL_call
layer_bottom=[input0,input1]
layer_bottom_shape=[[4, 8], [32]]
layer_bottom_type=[int8,int8]
layer_top=[output0]
layer_top_shape=[[32]]
layer_top_type=[int8]
w_type=float32
w_shape=[16]
w_offset=0
w_size=64
n=1000
s=0.5
"""
    )
    plugin = open(f"{bm.output_dir}/gbuilder/aipubt_gb_call.py").read()
    compile(plugin, "plugin", "exec")
    params = re.findall(r"params\.append\((.*)\)", plugin)
    assert params == [
        "sgnode.inputs[0]",
        'sgnode.constants["dsl_func/w"]',
        "sgnode.outputs[0]",
        'int(np.array(nodes[0].params["n"]).astype("int32"))',
        "sgnode.inputs[1]",
        'int(np.array(nodes[0].params["s"], "float32").view("uint32"))',
    ]


def test_names():
    bm = aipu.BuildManager()
    ex = bm.build(add_one, name="renamed")
    assert "__kernel void renamed(" in ex.c_code and bm.prim_func_info.name == "renamed"
    a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    ex(a, b)
    np.testing.assert_array_equal(b, a + 1)


def test_lower_and_build_of_a_module():
    bm = aipu.BuildManager()
    module = bm.lower(add_one)
    assert module.entry == "add_one" and "func add_one" in str(module)
    again = aipu.IRModule.from_text(module.script())
    a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    bm.build(again)(a, b)
    np.testing.assert_array_equal(b, a + 1)
    with pytest.raises(ValueError):
        aipu.IRModule.from_text("func nonsense {")


def test_gen_op_lib(tmp_path, capsys):
    bm = aipu.BuildManager()
    assert bm.gen_op_lib(add_one) == f"{bm.output_dir}/gbuilder/op_lib/add_one.o"
    path = str(tmp_path / "libs" / "mine.o")
    assert bm.gen_op_lib(add_one, output_path=path, verbose=True) == path
    assert open(path, "rb").read(4) == b"\x7fELF"
    assert path in capsys.readouterr().out


def test_parameter_analysis():
    @S.prim_func
    def store_to(p: S.ptr("i32", "global"), v: S.i32):
        p[0] = v

    @S.prim_func
    def skip(p: S.ptr("i32", "global")) -> S.ptr("i32", "global"):
        return p + 1

    @S.prim_func
    def func(
        read: S.ptr("i32", "global"),
        k: S.i32,
        direct: S.ptr("i32", "global"),
        by_callee: S.ptr("i32", "global"),
        by_result: S.ptr("i32", "global"),
        by_dma: S.ptr("i32", "global"),
        weights: S.ptr("i32", "global.1"),
        either: S.ptr("i32", "global"),
        also_read: S.ptr("i32", "global"),
        by_memset: S.ptr("i32", "global"),
        recast: S.ptr("i32", "global"),
    ):
        local = S.alloc((8,), "i32", scope="lsram")
        S.dma_copy(local, read, 8)
        direct[0] = weights[0] + also_read[0]
        store_to(by_callee, k)
        q = skip(by_result)
        q[0] = k
        S.dma_copy(by_dma, local, 8)
        p = read
        if k > 0:
            p = either
        x = p[0]
        S.dma_memset(by_memset, 0, 4)
        r = recast.as_ptr("u8")
        r[3] = S.u8(x)

    bm = aipu.BuildManager()
    bm.build(func)
    rows = {p.name: (p.category, p.tensor_idx) for p in bm.prim_func_info.param_infos}
    assert rows == {
        "read": ("input_tensor", 0),
        "k": ("attr", None),
        "direct": ("output_tensor", 0),
        "by_callee": ("output_tensor", 1),
        "by_result": ("output_tensor", 2),
        "by_dma": ("output_tensor", 3),
        "weights": ("const_tensor", 0),
        "either": ("input_tensor", 1),
        "also_read": ("input_tensor", 2),
        "by_memset": ("output_tensor", 4),
        "recast": ("output_tensor", 5),
    }
    info = bm.prim_func_info.param_infos[2]
    assert aipu.analysis.extract_prim_func_info(aipu.BuildManager().lower(func)) == bm.prim_func_info
    assert info.is_output_tensor and info.is_tensor and not info.is_attr and info.dtype == "int32"
    assert func.param_infos == list(bm.prim_func_info.param_infos)


def test_stores_through_aliases():
    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), c: S.ptr("i32", "global"), n: S.i32):
        p = a
        for k in range(n):
            p[k] = 1
            p = b
        S.printf("%d", c[0])

    bm = aipu.BuildManager()
    bm.build(func)
    assert [p.category for p in bm.prim_func_info.param_infos] == [
        "output_tensor",
        "output_tensor",
        "input_tensor",
        "attr",
    ]


def categories(kernel):
    """The categories of a kernel's parameters, without "_tensor"."""
    info = aipu.analysis.extract_prim_func_info(aipu.BuildManager().lower(kernel))
    return [p.category.replace("_tensor", "") for p in info.param_infos]


def test_a_parameter_that_is_reassigned_stays_an_input():
    @S.prim_func
    def moved(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b = a + 1
        b[0] = 1

    @S.prim_func
    def before(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = 1
        b = a + 1
        b[0] = 2

    @S.prim_func
    def sometimes(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), n: S.i32):
        if n > 0:
            b = a
        b[0] = 1

    @S.prim_func
    def in_both(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), n: S.i32):
        if n > 0:
            b = a
        else:
            b = a + 1
        b[0] = 1

    @S.prim_func
    def in_a_loop(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), c: S.ptr("i32", "global"), n: S.i32):
        for _ in range(n):
            b = a
            b[0] = 1
            b = c
            if n > 5:
                break
        x = b[0]
        S.printf("%d", x)

    @S.prim_func
    def sub(p: S.ptr("i32", "global"), q: S.ptr("i32", "global")):
        q = p
        q[0] = 1

    @S.prim_func
    def by_callee(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        sub(a, b)

    assert categories(moved) == ["output", "input"]
    assert categories(before) == ["output", "output"]
    assert categories(sometimes) == ["output", "output", "attr"]
    assert categories(in_both) == ["output", "input", "attr"]
    assert categories(in_a_loop) == ["output", "input", "input", "attr"]
    assert categories(by_callee) == ["output", "input"]
    a, b = np.zeros(4, "int32"), np.zeros(4, "int32")
    aipu.BuildManager().build(moved)(a, b)
    assert a.tolist() == [0, 1, 0, 0] and not b.any()
    moved(a * 0, b)
    assert not b.any()


def test_the_type_of_descriptors_is_checked_everywhere():
    @S.prim_func
    def start(desc: S.ptr("fp32", "global")):
        S.aiff(desc, desc, desc)

    @S.prim_func
    def entry(a: S.ptr("i32", "global"), d: S.ptr("u32", "global")):
        start(d)
        a[0] = 1

    phrase = 'The descriptor parameter "desc" of function "start" expect dtype "uint32/int32", but got: "float32".'
    with pytest.raises(AssertionError, match=re.escape(phrase)):
        aipu.BuildManager().build(entry)


def test_has_perf_record_tick():
    @S.prim_func
    def sub(a: S.ptr("i32", "global")):
        S.perf_tick_begin(1)
        a[0] = 1
        S.perf_tick_end(1)

    @S.prim_func
    def ticks(a: S.ptr("i32", "global")):
        sub(a)

    @S.prim_func
    def plain(a: S.ptr("i32", "global")):
        S.printf("perf_tick_begin")
        a[0] = 1

    has_tick = aipu.analysis.has_perf_record_tick
    assert has_tick(aipu.BuildManager().lower(ticks)) and has_tick(aipu.BuildManager().lower(sub))
    assert not has_tick(aipu.BuildManager().lower(plain))


def test_rounded_halves_are_converted_as_the_target_does():
    @S.prim_func
    def rounds(a: S.ptr("fp16", "global"), b: S.ptr("i32", "global")):
        S.vstore(S.cast(S.rint(S.vload(a)), "i32", part="high"), b)

    x2, x3 = (aipu.BuildManager(target=name).build(rounds).c_code for name in ("X2_1204", "X3P_1304"))
    assert "__vziph(__vcvtue_int8(" in x2 and "__vcvtuo_int8(" in x2 and "__vrint" not in x2
    assert "__vcvtuh_int8(" in x3 and "__vrint" not in x3


def test_constant_masks_are_mask_strings_in_the_text():
    @S.prim_func
    def masked(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        S.vstore(S.vload(a, mask="4T4F"), b, mask=[True, False, True])

    module = aipu.BuildManager().lower(masked)
    assert 'mask="4T4F"' in str(module) and 'mask="1T1F1T5F"' in str(module)
    assert str(aipu.tir.IRModule.from_text(str(module))) == str(module)


# --- targets and switches ---------------------------------------------------------------------------------------------


def test_targets(monkeypatch):
    assert aipu.BuildManager("compass -mcpu=X3P_1304").cps_info.name == "X3P_1304"
    assert aipu.BuildManager(target="X3S_1304MP2").cps_info.core_count == 2
    with pytest.raises(AssertionError, match='The Compass DSL does not support the target "X1_1204".'):
        aipu.BuildManager(target="X1_1204")
    with pytest.raises(ValueError, match="unknown target"):
        aipu.BuildManager(target="Z9")
    monkeypatch.setenv("CPS_TVM_GBUILDER_TARGET", "X3P_1304")
    assert aipu.BuildManager(target="X2_1204").target == "X3P_1304"
    assert aipu.CompassInfo.current().name == "X3P_1304"


def test_instructions_that_a_target_lacks(capfd):
    @S.prim_func
    def func(acc: S.ptr("fp32", "global"), x: S.ptr("fp16", "global"), y: S.ptr("fp16", "global")):
        S.vmma(acc, S.vload(x), S.vload(y))

    with pytest.raises(RuntimeError):
        aipu.BuildManager(target="X3P_1304").build(func)
    assert 'The "vmma" does not support the target' in capfd.readouterr().err


def test_switches(monkeypatch):
    monkeypatch.setenv("CPS_DSL", "dbg; prf;rs=17")
    aipu.BuildManager().build(add_one)
    monkeypatch.setenv("CPS_DSL", "wat")
    with pytest.raises(ValueError, match='Unknown switch "wat"'):
        aipu.BuildManager()
    monkeypatch.setenv("CPS_DSL", "r=board,X3P_1304")
    assert aipu.BuildManager().target == "X3P_1304"
    with pytest.raises(RuntimeError, match="board"):
        aipu.get_rpc_session()


def test_debug_switches_write_files(monkeypatch):
    monkeypatch.setenv("CPS_DSL", "dbg;asm;prf")
    bm = aipu.BuildManager()
    a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    bm.build(add_one)(a, b)
    np.testing.assert_array_equal(b, a + 1)
    folder = f"{bm.output_dir}/gbuilder"
    np.testing.assert_array_equal(np.fromfile(f"{folder}/input0.bin", "int32"), a)
    np.testing.assert_array_equal(np.fromfile(f"{folder}/npu_output.bin", "int32"), b)
    assert os.path.exists(f"{bm.output_dir}/runtime/profile_output.html")
    if shutil.which("objdump"):
        assert "add_one" in open(f"{folder}/op_lib/add_one.s").read()


def test_debug_mode_checks_accesses(monkeypatch):
    @S.prim_func
    def beyond(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        b[0] = a[1000000]

    monkeypatch.setenv("CPS_DSL", "dbg")
    ex = aipu.BuildManager().build(beyond)
    with pytest.raises(RuntimeError, match="beyond"):
        ex(np.zeros(4, "int32"), np.zeros(4, "int32"))


def test_cc_options_and_compiler_errors(monkeypatch, tmp_path):
    monkeypatch.setenv("AIPU_CACHE_DIR", str(tmp_path / "cache"))
    aipu.BuildManager(cc_options="-DSOMETHING=1").build(add_one)
    with pytest.raises(aipu.CompassCompileCError, match="Compass OpenCL Compilation Error:"):
        aipu.BuildManager(cc_options="--no-such-option").build(add_one)


def test_local_memory_is_bounded():
    size = 32 * 1024 + 64

    @S.prim_func
    def too_much(b: S.ptr("i8", "global")):
        local = S.alloc((size,), "i8", scope="lsram")
        S.dma_copy(b, local, 8)

    with pytest.raises(RuntimeError) as error:
        aipu.BuildManager().build(too_much)
    assert "32832" in str(error.value) and "32768" in str(error.value) and "lsram" in str(error.value)


def test_disabled_passes():
    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), n: S.i32):
        for k in range(n):
            b[k * n + 3] = a[k * n + 3] + a[k * n + 3]

    a, b = np.arange(20, dtype="int32"), np.zeros(20, "int32")
    aipu.BuildManager(disabled_pass=["tir.CommonSubexprElimTIR"]).build(func)(a, b, 4)
    assert b[3] == 6 and b[15] == 30


# --- errors -----------------------------------------------------------------------------------------------------------


def test_diagnostics_show_the_place(capfd):
    with pytest.raises(RuntimeError) as error:
        aipu.BuildManager().build(wrong_types)
    assert isinstance(error.value, aipu.TVMError) and isinstance(error.value, aipu.DiagnosticError)
    text = capfd.readouterr().err
    phrase = 'Type mismatch assignment: "int32" vs. "float32"'
    line = wrong_types.py_func.__code__.co_firstlineno + 3
    assert f"error: {phrase}" in text
    assert re.search(rf" --> .*test_build\.py:{line}:5\n    x = b\[0\]\n    \^", text)


def test_position_within_a_function(capfd):
    @S.prim_func
    def inner(a: S.ptr("i32", "global")):
        if a[0] > 0:
            a[0] = unknown_name  # noqa: F821

    with pytest.raises(RuntimeError):
        aipu.BuildManager().build(inner)
    text = capfd.readouterr().err
    assert "error: Undefined variable: unknown_name" in text
    line = inner.py_func.__code__.co_firstlineno + 3
    assert f"test_build.py:{line}:20\n            a[0] = unknown_name" in text


def test_several_errors_at_once(capfd):
    @S.prim_func
    def func(a: S.ptr("i32", "global")):
        a[0] = first_missing  # noqa: F821
        a[1] = second_missing  # noqa: F821

    with pytest.raises(RuntimeError):
        aipu.BuildManager().build(func)
    text = capfd.readouterr().err
    assert "Undefined variable: first_missing" in text and "Undefined variable: second_missing" in text


def test_python_errors_of_called_functions(capfd):
    def host(x):
        raise ValueError("this value is not for me")

    @S.prim_func
    def func(a: S.ptr("i32", "global")):
        a[0] = host(3)

    with pytest.raises(RuntimeError):
        aipu.BuildManager().build(func)
    assert "error: this value is not for me" in capfd.readouterr().err


def test_returned_stack_pointer():
    @S.prim_func
    def local() -> S.ptr("i32", "private"):
        p = S.alloc((4,), "i32")
        return p

    @S.prim_func
    def func(a: S.ptr("i32", "global")):
        q = local()
        a[0] = q[0]

    with pytest.raises(AssertionError, match='The function "local" return a stack pointer. Please check it carefully.'):
        aipu.BuildManager().build(func)


def test_objects_that_are_no_kernels():
    bm = aipu.BuildManager()
    for thing in (3, "text", None, [add_one]):
        with pytest.raises(ValueError, match="Expected input to be an IRModule or PrimFunc"):
            bm.build(thing)
    with pytest.raises((ValueError, AssertionError), match='must be decorated by "S.prim_func".'):
        bm.build(plain)


def test_pysim_needs_a_build():
    @S.prim_func
    def func(a: S.ptr("i32", "global")):
        a[0] = 1

    with pytest.raises(AssertionError, match="Please compile before execute by Python Simulation."):
        func(np.zeros(1, "int32"))


def test_functions_without_source():
    namespace = {"S": S}
    exec("\n".join(["@S.prim_func", 'def func(a: S.ptr("i32", "global")):', "    a[0] = 1"]), namespace)
    with pytest.raises(RuntimeError, match="source"):
        aipu.BuildManager().build(namespace["func"])


EXEC_TEXT = """
from aipu import script as S

def twice(x):
    return x * 2

add_three = lambda v: v + 3

@S.macro
def put(a, k, v):
    a[k] = v

@S.prim_func
def sub(a: S.ptr("i32", "global"), k: S.i32):
    a[k] = k

@S.prim_func
def func(a: S.ptr("i32", "global"), n: S.i32):
    a[0] = twice(n)
    sub(a, 1)
    put(a, 2, n + 1)
    a[3] = add_three(n)
"""


@pytest.mark.parametrize("filename", [None, "<cell 1>"])
def test_functions_from_exec(filename):
    namespace = {}
    text = EXEC_TEXT.replace("a[3] =", "a[3] = 0 +") if filename else EXEC_TEXT
    exec(text if filename is None else compile(text, filename, "exec"), namespace)
    out = np.zeros(4, "int32")
    aipu.BuildManager().build(namespace["func"])(out, 5)
    assert out.tolist() == [10, 1, 6, 8]


def test_functions_from_a_notebook_cell():
    # As IPython runs a cell: its text is in linecache.
    text, name = EXEC_TEXT, "/tmp/ipykernel_1/1234567.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), namespace)
    out = np.zeros(4, "int32")
    aipu.BuildManager().build(namespace["func"])(out, 7)
    assert out.tolist() == [14, 1, 8, 10]


def test_logger_level(monkeypatch):
    monkeypatch.setenv("CPS_TVM_LOG_LEVEL", "ERROR")
    aipu.BuildManager()
    assert logging.getLogger("Compass").level == logging.ERROR
    monkeypatch.delenv("CPS_TVM_LOG_LEVEL")
    aipu.BuildManager()
    assert logging.getLogger("Compass").level == logging.INFO
