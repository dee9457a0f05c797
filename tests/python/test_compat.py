"""Programs written for the reference tool chain, unchanged."""

import os
import subprocess
import sys

FOLDER = os.path.join(os.environ["AIPU_SOURCE_DIR"], "frontend", "python", "compat")

LISTING = """
import numpy as np
from tvm import aipu
from tvm.aipu import script as S
import tvm.aipu.tir

dtype, n = "int32", 8


@S.prim_func
def func(a: S.ptr(dtype, "global"), b: S.ptr(dtype, "global")):
    va = S.vload(a)
    vb = S.vadd(va, 1)
    S.vstore(vb, b)


bm = aipu.tir.BuildManager(target="X2_1204")
ex = bm.build(func)
print(ex.c_code)
a = np.array(range(n), dtype=dtype)
aipu_out = np.zeros((n,), dtype=dtype)
ex(a, aipu_out)
assert (aipu_out == a + 1).all()
pysim_out = np.zeros((n,), dtype=dtype)
func(a, pysim_out)
assert (pysim_out == a + 1).all()

import aipu as own

assert own is aipu and tvm.aipu.tir is own.tir
"""


def run(program, *paths):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([*paths, os.environ["PYTHONPATH"]]))
    command = [sys.executable, "program.py"]
    with open("program.py", "w") as file:
        file.write(program)
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_listing():
    done = run(LISTING, FOLDER)
    assert done.returncode == 0, done.stderr
    assert "__kernel void func(__global int* a, __global int* b) {" in done.stdout


def test_only_for_who_asks():
    done = run("import importlib.util\nprint(getattr(importlib.util.find_spec('tvm'), 'origin', None))\n")
    assert done.returncode == 0 and FOLDER not in done.stdout, done.stdout + done.stderr
