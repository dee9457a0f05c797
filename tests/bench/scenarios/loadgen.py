#!/usr/bin/env python3
"""Whether our figures agree with those of MLPerf's LoadGen on the paced back end, whose runs take what the model says.
loadgen.py BUILD_FOLDER [--seconds 5]; a line per figure, exit code 1 if one is off by more than 3 %. Needs the package
mlcommons-loadgen. Both measure in one process, one after the other.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

PARSER = argparse.ArgumentParser(description=__doc__)
PARSER.add_argument("build", type=Path)
PARSER.add_argument("--seconds", type=float, default=5.0, help="of each measurement (default: 5)")
OPTIONS = PARSER.parse_args()
BUILD = OPTIONS.build.resolve()
os.environ["AIPU_BACKEND_PATH"] = str(BUILD / "test_backends")
os.environ["AIPU_PACED_NS"] = "1000"
sys.path[:0] = [str(BUILD / "python"), str(Path(__file__).resolve().parents[2] / "python")]

import aipu  # noqa: E402
import aipu.loadgen  # noqa: E402
import numpy as np  # noqa: E402
from aipu.bench import Setting, benchmark  # noqa: E402
from onnx_text import node, write_model  # noqa: E402

MOST = 0.03
RUN = 0.05  # seconds of a sample: 50 x 500 multiply-adds, of a microsecond for each operation
QUERIES = {90: 150, 99: 700}  # more than LoadGen wants for so many percent


def write() -> None:
    """m.aipu.bin."""
    weights = {"w": np.ones((50, 500), np.float32)}
    write_model(
        "m.onnx",
        [node("MatMul", ["x", "w"], ["y"])],
        [("x", "float32", ("N", 50))],
        [("y", "float32", ("N", 500))],
        constants=weights,
    )
    aipu.build("m.onnx", "m.aipu.bin")


def theirs(scenario: str, model: aipu.Model, **options: float) -> "dict[str, str]":
    """LoadGen's summary."""
    rows = {"x": np.zeros((16, 50), np.float32)}
    told = aipu.loadgen.run(model, rows, scenario, f"log_{scenario}", seconds=OPTIONS.seconds, **options)
    if not told.is_valid:
        print(f"{scenario}: LoadGen says INVALID")
    return told.summary


def main() -> int:
    """A line per figure."""
    failures = 0

    def check(what: str, ours: float, loadgens: float) -> None:
        nonlocal failures
        off = ours / loadgens - 1
        failures += abs(off) > MOST
        mark = "  OFF" if abs(off) > MOST else ""
        print(f"{what:40} ours {ours:10.5g}  LoadGen's {loadgens:10.5g}  {100 * off:+.2f} %{mark}", flush=True)

    def ours(scenario: str, **options: object) -> object:
        setting = Setting(seconds=OPTIONS.seconds, rate=float(options.pop("rate", 0)), percentile=90)
        return benchmark("m.aipu.bin", scenario, setting=setting, backend="paced", fewest=3, most=3, **options)

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write()
        model = aipu.load("m.aipu.bin", backend="paced")
        told = theirs("single-stream", model, queries=QUERIES[90])
        result = ours("single-stream", batch=1)
        check("single-stream, p90, ms", result.latency_ms["p90"], percentile(told, 90))

        told = theirs("multi-stream", model, queries=QUERIES[99], batch=8)
        result = ours("multi-stream", batch=8)
        check("multi-stream of 8, p90, ms", result.latency_ms["p90"], percentile(told, 90))

        told = theirs("offline", model, queries=QUERIES[99])
        result = ours("offline", batch=1)
        check("offline, samples/s", result.samples_per_second[0], float(told["Samples per second"]))

        # Arrivals are random on both sides, so upper percentiles differ; at this load half find nobody before them.
        rate = 0.3 / RUN
        told = theirs("server", model, rate=rate, latency=2.0, queries=QUERIES[99])
        result = ours("server", rate=rate, batch=1)
        check("server at 0.3, p50, ms", result.latency_ms["p50"], percentile(told, 50))
    return int(failures > 0)


def percentile(summary: "dict[str, str]", percent: int) -> float:
    """Milliseconds."""
    return float(summary[f"{percent}.00 percentile latency (ns)"]) / 1e6


if __name__ == "__main__":
    sys.exit(main())
