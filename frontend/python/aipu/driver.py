"""``driver.build_module``: the steps of :func:`aipu.build` one by one."""

from __future__ import annotations

from typing import Any, Sequence

from .te._module import build_schedule, lower


class build_module:  # a module for its users
    """``driver.build_module``."""

    build = staticmethod(build_schedule)
    lower = staticmethod(lower)

    @staticmethod
    def schedule_to_module(sch: Any, args: Sequence[Any], name: str = "main", binds: Any = None) -> Any:
        """The loops of a schedule, for the parameters ``args``."""
        return lower(sch, args, name, binds)
