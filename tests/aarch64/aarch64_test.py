#!/usr/bin/env python3
"""Everything for 64-bit Arm that an x86-64 machine can show: the runtime is cross-built, and kernels that aipugb has
compiled for aarch64 run under qemu, by the cross-built runtime and as a device whose process is an aarch64 program.

aarch64_test.py SOURCE_FOLDER BUILD_FOLDER [numerics|models]. Needs crossbuild-essential-arm64 and qemu-user; exit code
77 without them. AIPU_LARGE_TESTS=1 takes all templates and models, not only the quickest.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARIES = "/usr/aarch64-linux-gnu"
TARGETS = ("aarch64-neon", "aarch64-dotprod")
ALL = os.environ.get("AIPU_LARGE_TESTS") == "1"
# Every template's numbers beside oneDNN, the interpreter or formulas.
NUMERICS = ["kernels", "quantized"]
MORE_NUMERICS = ["recurrent", "attention", "winograd", "normalization", "sampling", "operators", "concat"]
# Name, shapes of the inputs.
MODELS = [
    ("resnet18", ["input=1x3x224x224"]),
    ("mobilenet_v2", ["input=1x3x224x224"]),
    ("bert2", ["input_ids=1x16", "attention_mask=1x16", "token_type_ids=1x16"]),
    ("lstm_acoustic", ["features=1x12x80"]),
]
# Each sum is rounded in another order; over a network that adds up to some units of the last place.
RELATIVE, ABSOLUTE = "1e-3", "1e-4"


def run(*arguments: object, **environment: str) -> None:
    command = [str(argument) for argument in arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


class Arm:
    """The cross-built runtime, and how to run it."""

    def __init__(self, source: Path, build: Path) -> None:
        self.build = build
        self.folder = build / "aarch64"
        toolchain = source / ".ci/cross/aarch64-linux-gnu.cmake"
        run("cmake", "-S", source, "-B", self.folder, "-G", "Ninja", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}",
            "-DCMAKE_BUILD_TYPE=Release", "-DAIPU_BUILD_COMPILER=OFF")  # fmt: skip
        run("cmake", "--build", self.folder)

    def program(self, name: str) -> list[object]:
        return ["qemu-aarch64", "-L", LIBRARIES, self.folder / "bin" / name]

    def device(self, scratch: Path) -> dict[str, str]:
        """The environment in which back end `remote` is an aarch64 process."""
        script = scratch / "device.sh"
        command = " ".join(str(word) for word in self.program("aipu-remote-device"))
        script.write_text(f'#!/bin/sh\nAIPU_BACKEND_PATH={self.folder}/lib exec {command} "$@"\n')
        script.chmod(0o755)
        return {"AIPU_REMOTE_DEVICE": str(script), "AIPU_BACKEND_PATH": f"{self.build}/test_backends:{self.build}/lib"}


def numerics(arm: Arm, scratch: Path) -> None:
    for name in NUMERICS + (MORE_NUMERICS if ALL else []):
        run(arm.build / "bin" / f"numerics_{name}_test", "--gtest_brief=1", AIPU_TEST_TARGETS=",".join(TARGETS),
            **arm.device(scratch))  # fmt: skip
        print(f"numerics, {name}: the same", flush=True)


def models(arm: Arm, scratch: Path) -> None:
    programs = arm.build / "bin"
    for name, shapes in MODELS if ALL else MODELS[:1]:
        run(programs / "aipu-make-model", name, "-o", scratch / "model.onnx")
        given = ["--random", *(word for shape in shapes for word in ("--shape", shape))]
        here = scratch / name
        run(programs / "aipugb", scratch / "model.onnx", "-o", scratch / "here.aipu.bin")
        run(programs / "aipurun", scratch / "here.aipu.bin", *given, "--output-dir", here)
        expected = [word for file in sorted(here.iterdir()) for word in ("--expect", f"{file.stem}={file}")]
        assert expected, name
        for target in TARGETS:
            run(programs / "aipugb", scratch / "model.onnx", "-o", scratch / "arm.aipu.bin", "--target", target)
            run(*arm.program("aipurun"), scratch / "arm.aipu.bin", *given, *expected, "--rtol", RELATIVE,
                "--atol", ABSOLUTE, "-q")  # fmt: skip
            print(f"{name} for {target}: the same", flush=True)


def main() -> None:
    source, build = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    for program in ("aarch64-linux-gnu-g++", "qemu-aarch64"):
        if shutil.which(program) is None:
            print(f"skipped: there is no {program}")
            sys.exit(77)
    arm = Arm(source, build)
    parts = {"numerics": numerics, "models": models}
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[3:] or parts:
            parts[name](arm, Path(folder))


main()
