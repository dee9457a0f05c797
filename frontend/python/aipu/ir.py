"""What tensor expressions and modules have in common: ranges, comparing up to names of variables."""

from __future__ import annotations

from .te._compare import assert_structural_equal, structural_equal
from .te._expr import Op, PrimExpr, Range
from .te._json import load_json, save_json
from .tir import IRModule

__all__ = [
    "IRModule",
    "Op",
    "PrimExpr",
    "Range",
    "assert_structural_equal",
    "load_json",
    "save_json",
    "structural_equal",
]
