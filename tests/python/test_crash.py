"""aipu.enable_crash_reports(): a kernel that leaves its arrays is named, in the process that it ends."""

import signal
import subprocess
import sys

import pytest

KERNEL = """
import numpy as np
import aipu
from aipu import script as S


@S.prim_func
def goes_astray(x: S.ptr("i32", "global"), far: S.i32):
    x[far] = 1


{enable}
ex = aipu.tir.BuildManager(target="host").build(goes_astray)
ex(np.zeros(8, "int32"), {far})
print("alive", flush=True)
"""


def run(folder, **values):
    script = folder / "crash.py"
    script.write_text(KERNEL.format(**values))
    return subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("before", ["", "import faulthandler; faulthandler.enable(); "], ids=["alone", "faulthandler"])
def test_the_kernel_is_named(tmp_path, before):
    done = run(tmp_path, enable=before + "aipu.enable_crash_reports()", far=(1 << 31) - 1)
    assert done.returncode == -signal.SIGSEGV and done.stdout == ""
    line = next(line for line in done.stderr.splitlines() if line.startswith("aipu: kernel"))
    assert "goes_astray" in line and "SIGSEGV" in line and "CPS_DSL=dbg" in line and 'backend="interp"' in line
    assert ("Fatal Python error" in done.stderr) == bool(before)


def test_only_on_request_and_only_then(tmp_path):
    done = run(tmp_path, enable="", far=(1 << 31) - 1)
    assert done.returncode == -signal.SIGSEGV and "kernel" not in done.stderr
    done = run(tmp_path, enable="aipu.enable_crash_reports()", far=3)
    assert done.returncode == 0 and done.stdout == "alive\n" and done.stderr == ""
