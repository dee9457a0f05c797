"""Loads a model in a process of its own, runs it once, and prints load time, first run and peak memory as JSON.

usage: process_costs.py aipu|ort LIBRARY MODEL INPUTS.npz THREADS
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import sides


def status_kib(field: str) -> int:
    """A line of /proc/self/status in KiB."""
    return int(re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text()).group(1))


def main() -> None:
    """Prints {load_ms, first_run_ms, peak_mb}; peak above what the interpreter had before the model was loaded."""
    kind, library, model, inputs_file, threads = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])
    with np.load(inputs_file) as archive:
        inputs = {name: archive[name] for name in archive.files}
    if kind == "aipu":
        import aipu_runtime

        loaded = aipu_runtime.Library(Path(library))
    else:
        import onnxruntime  # noqa: F401  (its own memory is not the model's)
    before = status_kib("VmRSS")
    start = time.perf_counter()
    side: sides.Side = (
        aipu_runtime.Session(loaded, Path(model), threads)
        if kind == "aipu"
        else sides.OnnxRuntimeSide(Path(model), threads)
    )
    ready = time.perf_counter()
    side.bind(inputs)
    side.run()
    first = time.perf_counter()
    for _ in range(3):
        side.run()
    peak = status_kib("VmHWM") - before
    print(json.dumps({"load_ms": (ready - start) * 1e3, "first_run_ms": (first - ready) * 1e3, "peak_mb": peak / 1024}))


if __name__ == "__main__":
    main()
