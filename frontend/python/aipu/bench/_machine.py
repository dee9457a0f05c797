"""What a measurement was made on, whether the machine was quiet, and on which cores."""

from __future__ import annotations

import os
import platform
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from .. import _model_source, _native


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _flags(cpuinfo: str) -> List[str]:
    """What vector units the CPU says that it has."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return sorted(
                word for word in value.split() if word.startswith(("avx", "fma", "amx", "sse4", "asimd", "sve"))
            )
    return []


def describe() -> Dict[str, Any]:
    """CPU, its number, kernel, governor, Python, NumPy, this build; what the system does not tell is ""."""
    cpuinfo = _text("/proc/cpuinfo")
    models = [line.partition(":")[2].strip() for line in cpuinfo.splitlines() if "model name" in line]
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return {
        "cpu": models[0] if models else platform.processor(),
        "cpus": _native.available_cpus(),
        "cores": sorted(cores),
        "flags": _flags(cpuinfo),
        "target": _native.target("host")["name"],
        "system": platform.platform(),
        "governor": _text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip(),
        "turbo": _text("/sys/devices/system/cpu/intel_pstate/no_turbo").strip(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "build": _model_source.file_hash(_native.__file__).hex()[:16],
    }


def cores_of(text: str) -> List[int]:
    """``"0,2-3"`` as the system writes lists of cores; ValueError."""
    found = set()
    try:
        for part in text.strip().split(","):
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    except ValueError:
        raise ValueError(f"expected cores such as 0,2-3, found '{text}'") from None
    return sorted(found)


def pin(cores: Optional[str] = None, node: Optional[int] = None) -> None:
    """This process, and threads that it makes from here on, stay on these cores, or on those of a NUMA node, whose
    memory they then get (the system gives a thread memory of its own node). ValueError where there are none such.
    """
    if node is not None:
        cores = _text(f"/sys/devices/system/node/node{node}/cpulist").strip()
        if not cores:
            raise ValueError(f"this machine has no NUMA node {node}")
    if cores is not None:
        wanted = cores_of(cores)
        try:
            os.sched_setaffinity(0, wanted)
        except OSError as error:
            raise ValueError(f"cores {cores}: {error.strerror}") from None


class _State(NamedTuple):
    ticks: List[int]  # of all CPUs: user nice system idle iowait irq softirq steal
    throttled: int
    khz: List[int]


class Quiet:
    """Watches whether others took the machine between its making and :meth:`notes`. ``root``: of /proc and /sys."""

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._before = self._state()

    def _read(self, path: str) -> str:
        return _text(os.path.join(self._root, path))

    def _state(self) -> _State:
        first = self._read("proc/stat").partition("\n")[0].split()
        throttled, khz = 0, []
        for cpu in range(os.cpu_count() or 1):
            folder = f"sys/devices/system/cpu/cpu{cpu}"
            throttled += int(self._read(f"{folder}/thermal_throttle/core_throttle_count") or 0)
            khz.append(int(self._read(f"{folder}/cpufreq/scaling_cur_freq") or 0))
        ticks = [int(word) for word in first[1:9]] if len(first) > 8 else []
        return _State(ticks, throttled, [value for value in khz if value])

    def notes(self) -> List[str]:
        """What may have disturbed the measurement, as lines."""
        found = []
        before, after = self._before, self._state()
        if before.ticks and after.ticks:
            total = sum(after.ticks) - sum(before.ticks)
            stolen = after.ticks[7] - before.ticks[7]
            if total > 0 and stolen > 0.01 * total:
                found.append(f"the host took {100 * stolen / total:.1f} % of the CPUs' time (steal)")
        if after.throttled > before.throttled:
            found.append(f"the CPU was throttled {after.throttled - before.throttled} times (too hot)")
        if before.khz and after.khz and not 0.95 < max(after.khz) / max(before.khz) < 1.05:
            found.append(f"the clock went from {max(before.khz) / 1e6:.2f} to {max(after.khz) / 1e6:.2f} GHz")
        words = self._read("proc/loadavg").split()
        waiting = float(words[0]) if words else 0.0
        if waiting > _native.available_cpus() + 0.5:
            found.append(f"the machine is busy: load average {waiting:.1f} on {_native.available_cpus()} CPUs")
        return found


class Memory:
    """Resident memory of this process over time: (seconds since it began to look, bytes) at each :meth:`look`."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._page = os.sysconf("SC_PAGE_SIZE")
        self.points: List[Sequence[float]] = []
        self.look()

    def look(self) -> None:
        """Now."""
        words = _text("/proc/self/statm").split()
        if words:
            self.points.append((round(time.monotonic() - self._start, 3), int(words[1]) * self._page))

    @staticmethod
    def peak() -> int:
        """The most that the process had, in bytes; 0 where the system does not say."""
        for line in _text("/proc/self/status").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
        return 0
