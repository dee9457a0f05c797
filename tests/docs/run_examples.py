#!/usr/bin/env python3
"""Compiles and runs the examples of public headers and of modules' docstrings, as they are shown.

Usage: run_examples.py SOURCE BUILD. An example is what is indented in the first comment or docstring.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Dict, Iterator, Tuple

# What stands around an example: before it, behind it. It finds a model in model.onnx and net.aipu.bin.
SURROUNDINGS: Dict[str, Tuple[str, str]] = {
    "runtime/aipu.h": (
        """
        #include <stdio.h>
        #include "runtime/aipu.h"
        static float pixels[3 * 224 * 224];
        static const int64_t shape[4] = {1, 3, 224, 224};
        int main(void) {
        """,
        """
          const int bad = y.dtype != AIPU_FLOAT32 || y.rank != 2 || y.shape[1] != 1000;
          aipu_session_release(session);
          aipu_model_release(model);
          return bad;
        }
        """,
    ),
    "runtime/aipu.hpp": (
        """
        #include "runtime/aipu.hpp"
        size_t used;
        void use(const float* first, size_t count) { used = first == nullptr ? 0 : count; }
        int main() {
          const std::vector<float> pixels(3 * 224 * 224);
        """,
        """
          return used != 1000;
        }
        """,
    ),
    "aipu/__init__.py": (
        """
        import aipu
        import numpy as np
        from aipu import script as S

        @S.prim_func
        def kernel(x: S.ptr("float32", "global"), y: S.ptr("float32", "global")):
            for i in range(8):
                y[i] = x[i] + x[i]

        a, out = np.arange(8, dtype="float32"), np.zeros(8, "float32")
        image = np.zeros((1, 3, 224, 224), "float32")
        """,
        """
        assert (out == 2 * a).all() and outputs["output"].shape == (1, 1000)
        """,
    ),
    "aipu/backend.py": (
        """
        import numpy as np
        import onnx
        image = np.zeros((1, 3, 224, 224), "float32")
        """,
        """
        assert outputs[0].shape == (1, 1000)
        """,
    ),
    "aipu/batch/__init__.py": (
        """
        import os
        import aipu.batch
        import numpy as np
        os.mkdir("images")
        for i in range(3):
            np.save(f"images/{i}.npy", np.full((3, 224, 224), i, "float32"))
        decode = np.load
        """,
        """
        assert report.rows == 3, report
        assert row.outputs["output"].size == 1000
        """,
    ),
    "aipu/bench/__init__.py": ("import aipu.bench", "assert result.figure[0] > 0"),
    "aipu/onnxruntime/__init__.py": (
        """
        import numpy as np
        image = np.zeros((1, 3, 224, 224), "float32")
        """,
        """
        assert scores.shape == (1, 1000)
        """,
    ),
    "aipu/op.py": ("", "assert twice is not None"),
    "aipu/schedule.py": (
        """
        import aipu
        import numpy as np
        from aipu import script as S

        @S.prim_func
        def add(a: S.ptr("float32", "global"), b: S.ptr("float32", "global"), c: S.ptr("float32", "global")):
            ab, bb, cb = S.match_buffer(a, (100,)), S.match_buffer(b, (100,)), S.match_buffer(c, (100,))
            for i in range(100):
                with S.block("add_block"):
                    v = S.axis.spatial(100, i)
                    cb[v] = ab[v] + bb[v]
        """,
        """
        a, b, c = np.arange(100, dtype="float32"), np.ones(100, "float32"), np.zeros(100, "float32")
        executor(a, b, c)
        assert (c == a + b).all()
        """,
    ),
    "aipu/te/__init__.py": (
        """
        import aipu
        import numpy as np
        from aipu import te
        a, b, c = np.ones(5, "float32"), np.arange(5, dtype="float32"), np.zeros(5, "float32")
        """,
        """
        assert (c == a + b).all()
        """,
    ),
}
# Packages that an example needs beside NumPy.
NEEDS = {"aipu/backend.py": "onnx", "aipu/bench/__init__.py": "onnxruntime"}
# A cluster, and the package mlcommons-loadgen: tests/python/test_ray.py and test_loadgen.py do the same where they are.
NOT_RUN = {"aipu/ray/__init__.py", "aipu/loadgen.py"}


def headers(source: Path) -> Iterator[Tuple[str, str]]:
    for name in ("runtime/aipu.h", "runtime/aipu.hpp"):
        lines = []
        for line in (source / name).read_text("utf-8").splitlines():
            if not re.match(r"(/\*| \*|//)", line):
                break
            lines += re.findall(r"^(?: \*|//) {3}(.*)", line)
        yield name, "\n".join(lines)


def docstrings(package: Path) -> Iterator[Tuple[str, str]]:
    for path in sorted(package.rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        example = "".join(re.findall(r"^ {4}.*\n|^\n", text[text.find("::\n") + 3 :] + "\n", re.MULTILINE))
        if "::\n" in text and example.strip():
            yield str(path.relative_to(package.parent)), textwrap.dedent(example)


def run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)


def run_header(name: str, text: str, source: Path, build: Path) -> None:
    compiler, suffix = (("gcc", "-std=c99"), ".c") if name.endswith(".h") else (("g++", "-std=c++17"), ".cpp")
    Path("example" + suffix).write_text(text, "utf-8")
    library = ("-L", build / "lib", "-laipu_runtime")
    run(*compiler, "-Wall", "-Werror", "-I", source, "example" + suffix, *library, "-o", "example")
    run("env", f"LD_LIBRARY_PATH={build / 'lib'}", "./example")


def run_module(name: str, text: str, packages: Path, build: Path) -> None:
    Path("example.py").write_text(text, "utf-8")
    python = packages if name in NEEDS else sys.executable
    run("env", f"PYTHONPATH={build / 'python'}", python, "example.py")


def main() -> int:
    source, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    packages = source / "build" / "packages" / "bin" / "python"  # tests/python/install.sh
    examples = [*headers(source), *docstrings(source / "frontend" / "python" / "aipu")]
    failed = count = 0
    with tempfile.TemporaryDirectory(prefix="aipu_examples_") as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        model, converted = Path(scratch) / "model.onnx", Path(scratch) / "net.aipu.bin"
        run(build / "bin" / "aipu-make-model", "squeezenet", "-o", model)
        run(build / "bin" / "aipugb", model, "-o", converted)
        for name, example in examples:
            if name in NOT_RUN:
                continue
            if name in NEEDS and not packages.exists():
                print(f"{name}: not run, {NEEDS[name]} is not installed")
                continue
            before, behind = (textwrap.dedent(part) for part in SURROUNDINGS[name])
            text = before + "\n" + example + "\n" + behind
            count += 1
            folder = Path(scratch) / str(count)
            folder.mkdir()
            os.chdir(folder)
            Path("model.onnx").symlink_to(model)
            Path("net.aipu.bin").symlink_to(converted)
            try:
                if name.endswith(".py"):
                    run_module(name, text, packages, build)
                else:
                    run_header(name, text, source, build)
            except subprocess.CalledProcessError as wrong:
                failed += 1
                print(f"{name}: exit code {wrong.returncode}\n{wrong.stdout}{wrong.stderr}", file=sys.stderr)
        os.chdir(source)
    print(f"{count} examples, {failed} failed")
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
