"""What compiled functions are made of and called with."""

from __future__ import annotations

from typing import Any

from . import nd as ndarray
from ._dtype import DataType
from ._registry import PackedFunc, convert
from .nd import Device, NDArray, cuda
from .target import Target
from .te import _module as module
from .te._expr import const
from .te._library import load_module
from .te._module import BenchmarkResult, Module


def enabled(target: Any) -> bool:
    """Whether functions can be built for a target and run here."""
    try:
        return Target(target).kind.name != "cuda" or cuda(0).exist
    except ValueError:
        return False


__all__ = [
    "BenchmarkResult",
    "DataType",
    "Device",
    "Module",
    "NDArray",
    "PackedFunc",
    "const",
    "convert",
    "enabled",
    "load_module",
    "module",
    "ndarray",
]
