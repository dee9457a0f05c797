"""What a build of a function leaves behind makes the same aipu.bin again: Compass IR, plugin, object."""

import os
import pathlib
import re
import shutil
import subprocess

import aipu
import numpy as np
import pytest
from aipu import script as S

PROGRAMS = os.path.join(os.environ["AIPU_BUILD_DIR"], "bin")


@S.prim_func
def mixed(
    x: S.ptr("i8", "global"),
    w: S.ptr("fp32", "global.1"),
    y: S.ptr("i8", "global"),
    n: S.i32,
    more: S.ptr("i8", "global"),
    scale: S.fp32,
    half: S.fp16,
    brain: S.bf16,
    small: S.u8,
    flag: S.bool,
):
    for i in range(n):
        y[i] = S.cast(S.cast(x[i], "fp32") * scale + w[i % 16] + S.cast(half, "fp32") + S.cast(brain, "fp32"), "i8")
        y[i] = y[i] + more[i] + S.cast(small, "i8")
    if flag:
        y[0] = 77


def mixed_call(ex):
    ex(
        np.arange(32, dtype="int8").reshape(4, 8),
        np.linspace(0, 3, 16, dtype="float32"),
        np.zeros(32, "int8"),
        32,
        np.ones(32, "int8"),
        0.1,
        1.5,
        -2.25,
        200,
        True,
    )


@S.prim_func
def pair_sum(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), out: S.ptr("i32", "global"), n: S.i32):
    for i in range(n):
        out[i * 2] = a[i] + b[i]


def views(ex):
    whole = np.arange(64, dtype="int32")
    ex(whole[3::2], np.arange(8, dtype="int32"), np.zeros((4, 8), "int32")[1:, ::2], 8)


@S.prim_func
def fill(out: S.ptr("i32", "global"), unused: S.ptr("i32", "global")):
    out[0] = 5
    if unused.is_nullptr:
        out[1] = 6


CALLS = [(mixed, mixed_call), (pair_sum, views), (fill, lambda ex: ex(np.zeros(8, "int32"), None))]


def built(function, call, target="X2_1204", **options):
    manager = aipu.BuildManager(target=target, **options)
    call(manager.build(function))
    return pathlib.Path(manager.output_dir) / "gbuilder"


def convert(folder, *options):
    command = [f"{PROGRAMS}/aipugb", "compass_ir.txt", "-o", "again.aipu.bin", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("target", ["X2_1204", "host"])
@pytest.mark.parametrize("function, call", CALLS, ids=lambda value: getattr(value, "__name__", ""))
def test_the_same_file_again(function, call, target):
    folder = built(function, call, target)
    plugin = f"aipubt_gb_{function.__name__}.py"
    done = convert(folder, "--plugin", plugin)
    assert done.returncode == 0, done.stderr
    assert (folder / "again.aipu.bin").read_bytes() == (folder / "aipu.bin").read_bytes()
    # the first line of the log is the command that does it
    assert (folder / "aipugb.log").read_text().startswith(f"aipugb compass_ir.txt --plugin {plugin} -o aipu.bin")


def test_in_another_place_with_options_of_the_build(tmp_path):
    folder = built(mixed, mixed_call, disabled_pass=["tir.simplify"], cc_options="-O1")
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    shutil.rmtree(folder)
    report = aipu.build(moved / "compass_ir.txt", tmp_path / "out.bin", plugins=[moved / "aipubt_gb_mixed.py"])
    assert report["target"] == "X2_1204"
    assert (tmp_path / "out.bin").read_bytes() == (moved / "aipu.bin").read_bytes()


def test_the_plugin_decides():
    """Its lines are what is done: operands in another order, a number instead of an attribute."""
    folder = built(pair_sum, lambda ex: ex(*(np.full(8, v, "int32") for v in (1, 2, 0)), 3))
    path = folder / "aipubt_gb_pair_sum.py"
    path.write_text(path.read_text().replace('int(np.array(nodes[0].params["n"]).astype("int32"))', "2"))
    assert convert(folder, "--plugin", path.name).returncode == 0
    out = np.full(8, 9, "int32")  # what the kernel does not write stays, although the device has memory of its own
    inputs = {"input0": np.full(8, 1, "int32"), "input1": np.full(8, 2, "int32")}
    aipu.load(folder / "again.aipu.bin").run(inputs, outputs={"output0": out})
    assert out.tolist() == [3, 9, 3, 9, 9, 9, 9, 9]


REFUSED = [
    ("op_lib/", "op_library/", r"op_library/pair_sum\.tir.*"),
    ('return "pair_sum"', 'return "other"', r'generate_kernel\(\) says "other", .*op_lib/pair_sum.o holds "pair_sum"'),
    ('register_optype("DSL_pair_sum")', 'register_optype("DSL_x")', r"the plugin is for layers DSL_x, .*DSL_pair_sum"),
    ("sgnode.inputs[1]", "sgnode.inputs[2]", r"sgnode\.inputs\[2\]: the layer has 2"),
    ("sgnode.inputs[1]", "sgnode.outputs[0]", r'parameter "b" of the kernel is an input, not an output'),
    ('params["n"]', 'params["m"]', r'the layer has no attribute "m"'),
    ('astype("int32")', 'astype("int8")', r'"n" is given as int8, parameter "n" of the kernel is int32'),
    ("        params.append(sgnode.inputs[1])\n", "", r"appends 3 arguments, the kernel \"pair_sum\" has 4"),
    ("        return params", "        print(params)", r"no statement of a generated plugin"),
    ("params.append(sgnode.inputs[1])", "params.append(sgnode.name)", r"an argument is expected: sgnode\.inputs\[i\]"),
    ('[("dsl_func", op_type)], []', "[], []", r"get_graph_pattern\(\) is expected to return one node"),
]


@pytest.mark.parametrize("old, new, message", REFUSED, ids=[new.strip() for _, new, _ in REFUSED])
def test_what_does_not_fit_is_refused(old, new, message):
    folder = built(pair_sum, views)
    path = folder / "aipubt_gb_pair_sum.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    done = convert(folder, "--plugin", path.name)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert re.search(message, done.stderr), done.stderr
    assert not (folder / "again.aipu.bin").exists()


def test_options_that_would_change_nothing_are_refused():
    folder = built(pair_sum, views)
    plugin = ["--plugin", "aipubt_gb_pair_sum.py"]
    assert "was compiled for X2_1204" in convert(folder, *plugin, "--target", "host").stderr
    assert convert(folder, *plugin, "--target", "X2_1204").returncode == 0
    for option in (["--fast-math"], ["--dump-ir", "dump"], ["--shape", "input0=4"]):
        assert option[0] in convert(folder, *plugin, *option).stderr
    (folder / "op_lib/pair_sum.tir").write_text("target X2_1204\nnonsense\n\n")
    assert "'target NAME' or 'disabled PASS' is expected" in convert(folder, *plugin).stderr
