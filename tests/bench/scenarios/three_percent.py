#!/usr/bin/env python3
"""Whether `aipu.bench compare` tells 3 % from nothing on this machine: three_percent.py BUILD_FOLDER [--pairs 10]
[--kernels]. Exit code 1 if it is wrong more often than it says of itself.

A chain of 33 equal products is measured twice, which has to be "no difference", and beside a chain of 34, which takes
3 % more. Each result is sixteen processes, one result after the other, as a user measures before and after a change.
The products take what the paced back end is told, a millisecond for all; --kernels computes them, and also tells how
steady the machine is from one minute to the next.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PARSER = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
PARSER.add_argument("build", type=Path)
PARSER.add_argument("--pairs", type=int, default=10)
PARSER.add_argument("--kernels", action="store_true", help="real ones")
OPTIONS = PARSER.parse_args()
BUILD, PAIRS = OPTIONS.build.resolve(), OPTIONS.pairs
sys.path[:0] = [str(BUILD / "python"), str(Path(__file__).resolve().parents[2] / "python")]

import numpy as np  # noqa: E402
from onnx_text import node, write_model  # noqa: E402

PROCESSES = 16
WIDTH = 256 if OPTIONS.kernels else 16  # the paced ones take a nanosecond for each operation
WRONG = 0.05  # of what is the same; of what is not, a tenth may be missed


def chain(path: str, products: int) -> None:
    """A model of so many products, one after the other, of the same matrix."""
    weights = {"w": (np.eye(WIDTH) + np.full((WIDTH, WIDTH), 1e-3)).astype(np.float32)}
    names = ["x", *(f"h{i}" for i in range(1, products)), "y"]
    nodes = [node("MatMul", [a, "w"], [b]) for a, b in zip(names, names[1:])]
    shape = ("N", WIDTH)
    write_model(path, nodes, [("x", "float32", shape)], [("y", "float32", shape)], constants=weights)


def bench(folder: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """aipu.bench in a process of its own, in the folder."""
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "AIPU_PACED_NS": "1"}
    environment["AIPU_BACKEND_PATH"] = str(BUILD / "test_backends")
    command = [sys.executable, "-m", "aipu.bench", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def main() -> int:
    """A line per comparison."""
    wrong = {"same": 0, "slower": 0}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        # By one name, or there would be nothing to compare.
        for version, products in (("same", 33), ("slower", 34)):
            os.mkdir(version)
            chain(f"{version}/chain.onnx", products)
        for pair in range(PAIRS):
            for name, model in (("before", "same"), ("same", "same"), ("slower", "slower")):
                options = f"--batch 64 --threads 1 --seconds 0.05 --processes {PROCESSES} --label {name}".split()
                if not OPTIONS.kernels:
                    options += ["--backend", "paced"]
                measured = bench(model, "chain.onnx", *options, "--json", f"../{name}.json")
                if measured.returncode != 0:
                    print(measured.stdout, measured.stderr, file=sys.stderr)
                    return 2
            for name, expected in (("same", "no difference"), ("slower", "slower")):
                found = bench(".", "compare", "before.json", f"{name}.json")
                if found.returncode not in (0, 1):
                    print(found.stdout, found.stderr, file=sys.stderr)
                    return 2
                line = next(line for line in found.stdout.splitlines() if "times as long" in line)
                is_wrong = not line.lower().endswith(f": {expected}")
                wrong[name] += is_wrong
                print(f"pair {pair}, {name}: {line.strip()}{'  WRONG' if is_wrong else ''}")
                sys.stdout.flush()
    print(
        json.dumps({"pairs": PAIRS, "called different, though the same": wrong["same"], "missed 3 %": wrong["slower"]})
    )
    return int(wrong["same"] > max(1, WRONG * PAIRS) or wrong["slower"] > max(1, 0.1 * PAIRS))


if __name__ == "__main__":
    sys.exit(main())
