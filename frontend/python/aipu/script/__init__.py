"""The names of the Compass DSL (``from aipu import script as S``): types, decorators and functions.

Kernels are parsed and compiled by ``aipu.tir.BuildManager``. The same functions run eagerly on NumPy data when a
decorated kernel is called as Python (PySim); every lane is computed by the definitions that the compiler and its
interpreter use.

Types such as ``S.fp32x20`` and ``S.boolx12`` exist for any number of lanes.
"""

from __future__ import annotations

import difflib
from typing import Any, List

from . import _arithmetic, _bits, _memory, _structure, _tvm
from ._arithmetic import *  # noqa: F403
from ._bits import *  # noqa: F403
from ._convert import cast, i, reinterpret, u, vxth, vxtl
from ._core import Scalar, Value, Vector
from ._function import Parameter, PyMacro, PyPrimFunc, macro, prim_func
from ._memory import *  # noqa: F403
from ._pointer import Buffer, Pointer
from ._pysim import Event
from ._record import Record, record
from ._structure import *  # noqa: F403
from ._tvm import *  # noqa: F403
from ._types import PointerType, TypeObject, find_type, predefined_names, ptr

__all__ = [
    *_arithmetic.__all__,
    *_bits.__all__,
    *_memory.__all__,
    *_structure.__all__,
    *_tvm.__all__,
    *predefined_names(),
    "cast",
    "i",
    "macro",
    "prim_func",
    "ptr",
    "record",
    "reinterpret",
    "u",
    "vxth",
    "vxtl",
]


def __getattr__(name: str) -> Any:
    found = find_type(name)
    if found is None:
        meant = difflib.get_close_matches(name, __all__, 1, 0.7)
        hint = f". Did you mean: '{meant[0]}'?" if meant else ""
        raise AttributeError(f"module 'tvm.compass.dsl.script' has no attribute '{name}'{hint}")
    globals()[name] = found
    return found


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
