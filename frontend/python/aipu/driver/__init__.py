"""The steps of :func:`aipu.build` one by one."""

from . import build_module

__all__ = ["build_module"]
