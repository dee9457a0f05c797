#!/usr/bin/env python3
"""Everything for 64-bit Arm that an x86-64 machine can show by qemu: the runtime is cross-built and passes its tests,
and kernels that aipugb has compiled for aarch64 run in it and in a device whose process is an aarch64 program.

aarch64_test.py SOURCE_FOLDER BUILD_FOLDER [runtime|numerics|models|onnx|trained|compiler ...]. Needs
crossbuild-essential-arm64 and qemu-user; exit code 77 without them. By default numerics and models, of the quickest;
AIPU_LARGE_TESTS=1 takes all parts, targets, templates, models and cases.
"""

import filecmp
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARIES = "/usr/aarch64-linux-gnu"
ALL = os.environ.get("AIPU_LARGE_TESTS") == "1"
TARGETS = ("aarch64-neon", "aarch64-dotprod", *(("aarch64-bf16",) if ALL else ()))
# Tests of the runtime alone, with kernels that the cross compiler makes on the spot.
RUNTIME = ["runtime_conformance", "runtime_executor", "runtime_loader"]
MORE_RUNTIME = [
    *(f"runtime_{name}" for name in ("api", "arena", "async", "engine_queues", "file", "hostile_files", "input_file")),
    *(f"runtime_{name}" for name in ("lists", "npy", "session_use", "string_pool", "strings", "threads")),
    "devices_conformance",
    "devices_session",
]
# Children of processes with threads: qemu-user ends them by an assertion of its own.
NOT_IN_QEMU = "*.AChild*"
# Every template's numbers beside oneDNN, the interpreter or formulas. The C of what has no products of bytes is one for
# the first two targets, which differ in -march there: by default each is seen once, in the numerics or in the models.
NUMERICS = ["kernels", "quantized"]
ONCE = {"kernels": TARGETS[:1]}
MODEL_TARGETS = TARGETS if ALL else TARGETS[1:]
MORE_NUMERICS = [
    "recurrent", "attention", "winograd", "normalization", "sampling", "operators", "concat", "precision", "nan",
]  # fmt: skip
# Name, shapes of the inputs.
MODELS = [
    ("resnet18", ["input=1x3x224x224"]),
    ("mobilenet_v2", ["input=1x3x224x224"]),
    ("bert2", ["input_ids=1x16", "attention_mask=1x16", "token_type_ids=1x16"]),
    ("lstm_acoustic", ["features=1x12x80"]),
]
# Each sum is rounded in another order; over a network that adds up to some units of the last place.
RELATIVE, ABSOLUTE = "1e-3", "1e-4"
ONNX_DATA = Path("/usr/share/libonnx-testdata/data")
# By default every so many of the ONNX backend tests that pass here.
ONNX_STRIDE = 1 if ALL else 25


def run(*arguments: object, **environment: str) -> str:
    command = [str(argument) for argument in arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def build(source: Path, preset: str, folder: Path, targets: list[str], *options: str) -> None:
    run("cmake", "--preset", preset, "-S", source, "-B", folder, *options)
    run("cmake", "--build", folder, "--target", *targets)


class Arm:
    """The cross-built runtime, and how to run it."""

    def __init__(self, source: Path, build_folder: Path) -> None:
        self.source = source
        self.build = build_folder
        self.folder = build_folder / "aarch64"
        build(source, "aarch64", self.folder, ["programs", "aipu-remote-device"])

    def program(self, name: str) -> list[object]:
        return ["qemu-aarch64", "-L", LIBRARIES, self.folder / "bin" / name]

    def device(self, scratch: Path) -> dict[str, str]:
        """The environment in which back end `remote` is an aarch64 process."""
        script = scratch / "device.sh"
        command = " ".join(str(word) for word in self.program("aipu-remote-device"))
        script.write_text(f'#!/bin/sh\nAIPU_BACKEND_PATH={self.folder}/lib exec {command} "$@"\n')
        script.chmod(0o755)
        return {"AIPU_REMOTE_DEVICE": str(script), "AIPU_BACKEND_PATH": f"{self.build}/test_backends:{self.build}/lib"}


def runtime(arm: Arm, scratch: Path) -> None:
    tests = [f"{name}_test" for name in RUNTIME + (MORE_RUNTIME if ALL else [])]
    build(arm.source, "aarch64", arm.folder, tests)
    device = arm.device(scratch)["AIPU_REMOTE_DEVICE"]
    for test in tests:
        run(
            *arm.program(test),
            "--gtest_brief=1",
            f"--gtest_filter=-{NOT_IN_QEMU}",
            CC="aarch64-linux-gnu-gcc",
            AIPU_REMOTE_DEVICE=device,
        )
        print(f"{test}: passed", flush=True)


def numerics(arm: Arm, scratch: Path) -> None:
    for name in NUMERICS + (MORE_NUMERICS if ALL else []):
        targets = TARGETS if ALL else ONCE.get(name, TARGETS)
        run(arm.build / "bin" / f"numerics_{name}_test", "--gtest_brief=1", AIPU_TEST_TARGETS=",".join(targets),
            **arm.device(scratch))  # fmt: skip
        print(f"numerics, {name} for {', '.join(targets)}: the same", flush=True)


def sample_model(arm: Arm, name: str, shapes: list[str], scratch: Path) -> tuple[Path, list[object]]:
    """A model of models/, and the arguments of a run of it that is compared with what it gives here."""
    model = scratch / f"{name}.onnx"
    run(arm.build / "bin/aipu-make-model", name, "-o", model)
    given = ["--random", *(word for shape in shapes for word in ("--shape", shape))]
    here = scratch / name
    run(arm.build / "bin/aipugb", model, "-o", scratch / "here.aipu.bin")
    run(arm.build / "bin/aipurun", scratch / "here.aipu.bin", *given, "--output-dir", here)
    expected = [word for file in sorted(here.iterdir()) for word in ("--expect", f"{file.stem}={file}")]
    assert expected, name
    return model, [*given, *expected, "--rtol", RELATIVE, "--atol", ABSOLUTE, "-q"]


def models(arm: Arm, scratch: Path) -> None:
    for name, shapes in MODELS if ALL else MODELS[:1]:
        model, arguments = sample_model(arm, name, shapes, scratch)
        for target in MODEL_TARGETS:
            run(arm.build / "bin/aipugb", model, "-o", scratch / "arm.aipu.bin", "--target", target)
            run(*arm.program("aipurun"), scratch / "arm.aipu.bin", *arguments)
            print(f"{name} for {target}: the same", flush=True)


def runner(arm: Arm) -> list[object]:
    """Options of aipu-onnx-test: converted here, run there."""
    return ["--target", TARGETS[0], "--runner", " ".join(str(word) for word in arm.program("aipurun"))]


def onnx(arm: Arm, scratch: Path) -> None:
    if not ONNX_DATA.is_dir():
        print(f"onnx: left out, {ONNX_DATA} is not there (libonnx-testdata)")
        return
    lines = (arm.source / "tests/onnx/expected.txt").read_text().splitlines()
    names = [line.split()[0] for line in lines if line and not line.startswith("#")]
    folders = {folder.name: folder for folder in ONNX_DATA.glob("*/*")}
    # What looks into strings needs libraries of others, which only the other build has.
    chosen = [
        folders[name] for name in names[::ONNX_STRIDE] if not re.search("string|strnorm|tfidf", name, re.IGNORECASE)
    ]
    said = run(arm.build / "bin/aipu-onnx-test", *runner(arm), "--failures", *chosen, TMPDIR=str(scratch))
    print(f"ONNX backend tests: {said.splitlines()[-1]}", flush=True)


def trained(arm: Arm, scratch: Path) -> None:
    if not ALL:
        return
    options = " ".join(f"'{word}'" for word in runner(arm))
    # The models by themselves, not those rows that choose a target or a back end.
    said = run(arm.build / "bin/onnx_models", "--gtest_filter=Trained/*:-*_x2:*_interp:*_baseline",
               AIPU_ONNX_TEST_OPTIONS=options, TMPDIR=str(scratch))  # fmt: skip
    print(f"trained models: {said.splitlines()[-1]}", flush=True)


def compiler(arm: Arm, scratch: Path) -> None:
    """aipugb itself as an aarch64 program, with Debian's libraries for that: two models, run there too."""
    sysroot, folder = arm.source / "build/aarch64-sysroot", arm.source / "build/aarch64-compiler"  # the preset's
    fetched = subprocess.run([arm.source / ".ci/cross/packages", sysroot], capture_output=True, text=True, check=False)
    if fetched.returncode != 0:
        print(f"compiler: left out, no packages for aarch64: {fetched.stderr.strip()[-500:]}")
        return
    build(arm.source, "aarch64-compiler", folder, ["aipugb"])
    program = ["qemu-aarch64", "-L", sysroot, folder / "bin/aipugb"]
    for name, shapes in (MODELS[0], MODELS[-1]):
        model, arguments = sample_model(arm, name, shapes, scratch)
        # What an aarch64 program takes for its own compiler is this machine's here. One job: a fork by one of several
        # busy threads may hang in qemu.
        run(*program, model, "-o", scratch / "there.aipu.bin", "--target", TARGETS[0], "--no-cache", "--jobs", "1",
            AIPU_CC="aarch64-linux-gnu-gcc")  # fmt: skip
        run(arm.build / "bin/aipugb", model, "-o", scratch / "here.aipu.bin", "--target", TARGETS[0], "--no-cache")
        if not filecmp.cmp(scratch / "there.aipu.bin", scratch / "here.aipu.bin", shallow=False):
            sys.exit(f"{name}: an aarch64 program converts it to another file than this machine's")
        run(*arm.program("aipurun"), scratch / "there.aipu.bin", *arguments)
        print(f"{name}, converted by an aarch64 program: the same file", flush=True)


def main() -> None:
    source, build_folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    for program in ("aarch64-linux-gnu-g++", "qemu-aarch64"):
        if shutil.which(program) is None:
            print(f"skipped: there is no {program}")
            sys.exit(77)
    arm = Arm(source, build_folder)
    parts = {part.__name__: part for part in (runtime, numerics, models, onnx, trained, compiler)}
    for name in sys.argv[3:] or (parts if ALL else ("numerics", "models")):
        with tempfile.TemporaryDirectory() as folder:
            parts[name](arm, Path(folder))


main()
