#!/usr/bin/env python3
"""Whole models, our own networks and users' operators, on devices with memory of their own: a process, where they give
the bytes that the host gives, and the model of X2_1204, where they give those of the same kernels in the host's memory.
models_on_devices_test.py SOURCE_FOLDER BUILD_FOLDER"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

# Name, options of the conversion, shapes of inputs.
CUSTOM = "models/custom_op"
MODELS = [
    ("resnet18", [], ["input=2x3x224x224"]),
    ("bert2", [], ["input_ids=2x16", "attention_mask=2x16", "token_type_ids=2x16"]),
    ("yolo_v5n", [], []),
    ("unit_rows", ["--plugin", f"{CUSTOM}/unit_rows.py"], ["input=3x5x64"]),
    ("hard_shrink", ["--plugin", f"{CUSTOM}/hard_shrink.py"], []),
    ("blend", ["--plugin", f"{CUSTOM}/blend.py"], []),
    ("soft_cap", ["--plugin", "libaipu_sample_plugin.so"], []),
]


def run(*arguments: object, **environment: str) -> None:
    command = [str(argument) for argument in arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def main() -> None:
    source, build = Path(sys.argv[1]), Path(sys.argv[2])
    programs = build / "bin"
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for name, options, shapes in MODELS:
            places = {".py": source, ".so": build / "lib"}
            options = [places[Path(o).suffix] / o if Path(o).suffix in places else o for o in options]
            given = [argument for shape in shapes for argument in ("--shape", shape)]
            run(programs / "aipu-make-model", name, "-o", scratch / f"{name}.onnx")
            for target, device in (("host", "remote"), ("X2_1204", "x2")):
                folder = scratch / name / target
                model = scratch / f"{name}.{target}.aipu.bin"
                run(programs / "aipugb", scratch / f"{name}.onnx", "-o", model, "--target", target, *options)
                for backend in ("host", device):
                    run(
                        programs / "aipurun", model, "--random", *given, "--backend", backend, "-q",
                        "--output-dir", folder / backend, AIPU_BACKEND_PATH=str(build / "test_backends"),
                    )  # fmt: skip
                here = sorted((folder / "host").iterdir())
                assert here, name
                for file in here:
                    there = folder / device / file.name
                    assert file.read_bytes() == there.read_bytes(), f"{name}: {file.name} differs on {device}"
                print(f"{name}: {len(here)} outputs are the same on {device}", flush=True)


main()
