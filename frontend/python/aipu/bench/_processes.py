"""The same measurement by several processes: addresses, caches and what the system did differ from one to the next, so
that processes, not runs, are what a comparison may count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Callable, List, Sequence

import aipu

from ._benchmark import Benchmark, join_processes, of_told


def _environment() -> "dict[str, str]":
    """In which a process finds this package."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(aipu.__file__)))
    path = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path}


def run_processes(
    count: int, arguments: Sequence[str], after_each: Callable[[int], None] = lambda done: None
) -> List[Benchmark]:
    """Runs ``python -m aipu.bench`` ``count`` times, one after the other; what each measurement of theirs is together.

    RuntimeError with the error of one that fails.
    """
    found: List[List[Benchmark]] = []
    for number in range(count):
        # Of an option that is given twice the last counts.
        command = [sys.executable, "-m", "aipu.bench", *arguments, "--processes", "1", "--json", "-", "--html", ""]
        done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
        try:
            told: Any = json.loads(done.stdout)
        except ValueError:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise RuntimeError(f"process {number + 1} of {count}: {lines[-1]}") from None
        found.append([of_told(result) for result in told["results"]])
        after_each(number + 1)
    return [join_processes(together) for together in zip(*found)]
