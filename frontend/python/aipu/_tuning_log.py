"""What a tuner has measured: a file of JSON lines, one per candidate, that a killed run leaves readable."""

from __future__ import annotations

import contextlib
import json
import math
import os
from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple

from ._files import append_synced, locked

_Knobs = Tuple[Tuple[str, int], ...]


class Measured(NamedTuple):
    """``cost`` is None where a candidate was refused, ``error`` then says why."""

    cost: Optional[float]
    error: str = ""


def _is_cost(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _is_knobs(value: Any) -> bool:
    return isinstance(value, dict) and all(type(v) is int for v in value.values())


class TuningLog:
    """The records of a file. ``measured`` and ``chosen`` are by the key of a definition.

    A last line without its end is what a killed run was writing: it counts as not there, and the next record takes its
    place. Any other line that is no record is a ValueError with its number.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.measured: Dict[Tuple[str, _Knobs], Measured] = {}
        self.chosen: Dict[str, Dict[str, int]] = {}
        self._whole = 0  # bytes up to the end of the last whole line
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    self._take(number, line)
                    self._whole += len(line)

    @contextlib.contextmanager
    def writing(self) -> Iterator["TuningLog"]:
        """Holds the file's lock, and yields the records as they are then; BlockingIOError if another run has it."""
        try:
            with locked(self.path + ".lock", wait=False):
                log = TuningLog(self.path)
                if os.path.exists(self.path):
                    os.truncate(self.path, log._whole)
                yield log
        except BlockingIOError:
            raise BlockingIOError(f"{self.path}: another run writes to it") from None

    def add(self, key: str, knobs: Dict[str, int], measured: Measured) -> None:
        """Writes what was measured; it is on the disk afterwards."""
        self._append({"key": key, "knobs": knobs, **measured._asdict()})
        self.measured[key, tuple(sorted(knobs.items()))] = measured

    def choose(self, key: str, knobs: Dict[str, int], cost: float, cost_of_rules: float) -> None:
        """Writes which candidate is to be used."""
        self._append({"key": key, "chosen": knobs, "cost": cost, "cost_of_rules": cost_of_rules})
        self.chosen[key] = knobs

    def find(self, key: str, knobs: Dict[str, int]) -> Optional[Measured]:
        """What was measured of a candidate; None if it was not."""
        return self.measured.get((key, tuple(sorted(knobs.items()))))

    def _append(self, record: Dict[str, Any]) -> None:
        append_synced(self.path, json.dumps(record).encode() + b"\n")

    def _take(self, number: int, line: bytes) -> None:
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if isinstance(record, dict) and isinstance(record.get("key"), str):
            knobs, chosen, cost, error = (record.get(k) for k in ("knobs", "chosen", "cost", "error"))
            if _is_knobs(chosen) and _is_cost(cost):
                self.chosen[record["key"]] = chosen
                return
            if _is_knobs(knobs) and isinstance(error, str) and (_is_cost(cost) or (cost is None and error)):
                self.measured[record["key"], tuple(sorted(knobs.items()))] = Measured(cost, error)
                return
        raise ValueError(f"{self.path}:{number}: this is no record of aipu.autotune")
