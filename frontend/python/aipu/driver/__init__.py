"""The steps of :func:`aipu.build` one by one."""

from . import build_module
from .build_module import build, lower, schedule_to_module

__all__ = ["build", "build_module", "lower", "schedule_to_module"]
