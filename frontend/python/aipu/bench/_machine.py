"""What a measurement was made on, and whether the machine was quiet."""

from __future__ import annotations

import os
import platform
from typing import Any, Dict, List, Optional

import numpy as np

from .. import _native


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def describe() -> Dict[str, Any]:
    """CPU, its number, kernel, governor, Python and NumPy; what the system does not tell is ""."""
    models = [line.partition(":")[2].strip() for line in _text("/proc/cpuinfo").splitlines() if "model name" in line]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cpus": _native.available_cpus(),
        "target": _native.target("host")["name"],
        "system": platform.platform(),
        "governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


class Quiet:
    """Watches whether others took the machine between its making and :meth:`notes`."""

    def __init__(self) -> None:
        self._before = self._ticks()

    @staticmethod
    def _ticks() -> Optional[List[int]]:
        first = _text("/proc/stat").partition("\n")[0].split()
        return [int(word) for word in first[1:9]] if len(first) > 8 else None

    def notes(self) -> List[str]:
        """What may have disturbed the measurement, as lines."""
        found = []
        after = self._ticks()
        if self._before is not None and after is not None:
            total = sum(after) - sum(self._before)
            stolen = after[7] - self._before[7]
            if total > 0 and stolen > 0.01 * total:
                found.append(f"the host took {100 * stolen / total:.1f} % of the CPUs' time (steal)")
        waiting = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        if waiting > _native.available_cpus() + 0.5:
            found.append(f"the machine is busy: load average {waiting:.1f} on {_native.available_cpus()} CPUs")
        return found
