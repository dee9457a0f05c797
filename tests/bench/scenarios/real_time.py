#!/usr/bin/env python3
"""The scenarios of aipu.bench in real time on the paced back end, whose runs take what the model says: how far each
figure is from what it has to be. real_time.py BUILD_FOLDER [--run-ms 250]; exit code 1 if one is off by more than 2 %.
Threads that run stay awake; one that waits for a server's next query is woken up by the system, which virtual machines
do late. A run is as long as it is by default so that this is not what is measured.

A server's percentiles are those of the queue of the same arrivals, which is computed here by itself.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

PARSER = argparse.ArgumentParser(description=__doc__)
PARSER.add_argument("build", type=Path)
PARSER.add_argument("--run-ms", type=int, default=250, help="what a run takes (default: 250)")
OPTIONS = PARSER.parse_args()
BUILD = OPTIONS.build.resolve()
os.environ["AIPU_BACKEND_PATH"] = str(BUILD / "test_backends")
os.environ["AIPU_PACED_NS"] = "1000"
sys.path[:0] = [str(BUILD / "python"), str(Path(__file__).resolve().parents[2] / "python")]

import aipu  # noqa: E402
import numpy as np  # noqa: E402
from aipu.bench import Setting, _scheduler, _statistics, benchmark  # noqa: E402
from onnx_text import node, write_model  # noqa: E402

MOST = 0.02


def queue(rate: float, seconds: float, run: float, repetitions: int) -> "list[float]":
    """Latencies of all repetitions of a server with one session whose runs take ``run`` seconds."""
    found = []
    for repetition in range(repetitions):
        free = 0.0
        for due in _scheduler.poisson(rate, seconds, 1 + repetition):
            free = max(due, free) + run
            found.append(free - due)
    return found


def main() -> int:
    """A line per figure."""
    failures = 0

    def check(what: str, found: float, expected: float) -> None:
        nonlocal failures
        off = found / expected - 1
        failures += abs(off) > MOST
        verdict = "  OFF" if abs(off) > MOST else ""
        print(f"{what:40} {found:12.6g} expected {expected:12.6g}  {100 * off:+.2f} %{verdict}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        weights = {"w": np.ones((50, 10 * OPTIONS.run_ms), np.float32)}  # two operations, of a microsecond, for each
        write_model(
            "m.onnx",
            [node("MatMul", ["x", "w"], ["y"])],
            [("x", "float32", ("N", 50))],
            [("y", "float32", ("N", 10 * OPTIONS.run_ms))],
            constants=weights,
        )
        aipu.build("m.onnx", "m.aipu.bin")
        session = aipu.load("m.aipu.bin").session(threads=1, profile=True)
        session.run({"x": np.zeros((1, 50), np.float32)})
        run = 1e-6 * sum(row["operations"] for row in session.layers())
        print(f"a run has to take {1e3 * run:g} ms")
        options = {"backend": "paced", "batch": 1, "fewest": 5, "most": 5}
        for scenario in ("single-stream", "offline"):
            result = benchmark("m.aipu.bin", scenario, setting=Setting(seconds=40 * run), **options)
            for p in ("p50", "p90", "p99"):
                check(f"{scenario} {p}, ms", result.latency_ms[p], 1e3 * run)
            check(f"{scenario}, samples/s", result.samples_per_second[0], 1 / run)
        result = benchmark("m.aipu.bin", "multi-stream", setting=Setting(seconds=40 * run), **{**options, "batch": 8})
        check("multi-stream p99 of 8, ms", result.latency_ms["p99"], 8e3 * run)
        result = benchmark("m.aipu.bin", "offline", setting=Setting(seconds=40 * run), sessions=4, **options)
        check("offline, 4 sessions, samples/s", result.samples_per_second[0], 4 / run)
        for load in (0.3, 0.7):
            setting = Setting(seconds=200 * run, rate=load / run)
            result = benchmark("m.aipu.bin", "server", setting=setting, **options)
            expected = np.array(queue(setting.rate, setting.seconds, run, 5))
            for p in (50, 90, 99):
                check(
                    f"server at {load:g}, p{p}, ms",
                    result.latency_ms[f"p{p}"],
                    1e3 * _statistics.percentile(expected, p),
                )
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
