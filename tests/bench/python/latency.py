"""How long building a small kernel and calling it takes.

    PYTHONPATH=build/release/python python3 tests/bench/python/latency.py [--json FILE]

Cold: with an empty compiler cache, so the C compiler runs. Warm: the cache has the kernel, the process is new to it.
Calls are with 1 KiB arrays.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Dict

_BUILD = """
import os, sys, time
import numpy as np
import aipu
from aipu import script as S

@S.prim_func
def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), n: S.i32):
    for k in range(n):
        S.vstore(S.vload(a + k * 8) + 1, b + k * 8)

a, b = np.arange(256, dtype="int32"), np.zeros(256, "int32")
start = time.perf_counter()
executor = aipu.tir.BuildManager(target=sys.argv[1], output_dir=sys.argv[2]).build(func)
executor(a, b, 32)
print(time.perf_counter() - start)
"""


def build_seconds(target: str, repeat: int) -> Dict[str, float]:
    """From a decorated function to the first result, in new processes."""
    seconds: Dict[str, list] = {"cold": [], "warm": []}
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "build.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(_BUILD)
        for i in range(repeat):
            environment = {**os.environ, "AIPU_CACHE_DIR": os.path.join(folder, f"cache{i}")}
            for kind in ("cold", "warm"):
                command = [sys.executable, script, target, os.path.join(folder, f"{kind}{i}")]
                seconds[kind].append(
                    float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
                )
    return {kind: statistics.median(values) for kind, values in seconds.items()}


def call_seconds(target: str, repeat: int) -> Dict[str, float]:
    """Per call of an executor, and per run without the way through Python, with 1 KiB arrays."""
    import aipu
    import numpy as np
    from aipu import script as S

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
        for k in range(32):
            S.vstore(S.vload(a + k * 8) + 1, b + k * 8)

    a, b = np.arange(256, dtype="int32"), np.zeros(256, "int32")
    with tempfile.TemporaryDirectory() as folder:
        executor = aipu.tir.BuildManager(target=target, output_dir=folder).build(func)
        executor(a, b)
        assert (b == a + 1).all()
        calls, count = [], 1000
        for _ in range(repeat):
            start = time.perf_counter()
            for _ in range(count):
                executor(a, b)
            calls.append((time.perf_counter() - start) / count)
        return {"call": min(calls), "run": executor.benchmark(a, b, repeat=repeat, number=count).min}


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the seconds to this file")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    results = {}
    for target in ("X2_1204", "host"):
        results[target] = {**build_seconds(target, options.repeat), **call_seconds(target, options.repeat)}
        row = results[target]
        print(
            f"{target:8} build and first call: cold {row['cold'] * 1e3:7.1f} ms, warm {row['warm'] * 1e3:6.1f} ms"
            f"   call {row['call'] * 1e6:6.1f} us, of that the run {row['run'] * 1e6:6.1f} us"
        )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()
