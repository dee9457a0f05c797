"""Packages that tests compare with, and that need not be there: an interpreter that has them."""

import functools
import os
import pathlib
import subprocess
import sys

import pytest


@functools.lru_cache(maxsize=None)
def _has(python, modules):
    done = subprocess.run([python, "-c", f"import {modules}"], capture_output=True, check=False)
    return done.returncode == 0


def python_with(modules):
    """An interpreter that has ``modules`` ("numpy, onnxruntime") and can load the package; skips where there is none.

    Looked at: $AIPU_PYTHON_WITH_PACKAGES, the interpreter of this test, and the environments of tests/python/install.sh
    and tests/bench/compare.
    """
    build = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", "."))
    candidates = [
        os.environ.get("AIPU_PYTHON_WITH_PACKAGES", ""),
        sys.executable,
        str(build.parent / "packages" / "bin" / "python"),
        str(build.parent / "compare" / "venv" / "bin" / "python"),
    ]
    for python in candidates:
        if python and os.path.exists(python) and _has(python, f"aipu, {modules}"):
            return python
    return pytest.skip(
        f"no Python with {modules} (tests/python/install.sh makes one, AIPU_PYTHON_WITH_PACKAGES names it)"
    )


def run_python(python, script, *arguments, timeout=300):
    """What the script prints; AssertionError with its messages if it fails."""
    done = subprocess.run(
        [python, str(script), *map(str, arguments)], capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
