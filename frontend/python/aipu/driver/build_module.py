"""From a schedule to something that runs, step by step."""

from __future__ import annotations

from typing import Any, Sequence

from ..te._module import build_schedule as build
from ..te._module import lower


def schedule_to_module(sch: Any, args: Sequence[Any], name: str = "main", binds: Any = None) -> Any:
    """The loops of a schedule, for the parameters ``args``."""
    return lower(sch, args, name, binds)


__all__ = ["build", "lower", "schedule_to_module"]
