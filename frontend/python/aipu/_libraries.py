"""Shared libraries that the process takes in: C++ plugins, targets."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Sequence

from . import _native


def show_symbols() -> None:
    """To C++ plugins, which resolve the compiler's symbols in the extension module."""
    ctypes.CDLL(_native.__file__, mode=ctypes.RTLD_GLOBAL)


def load_targets(libraries: Sequence[Any]) -> None:
    """Makes the targets of shared libraries known to the process."""
    if libraries:
        show_symbols()
    for library in libraries:
        _native.load_targets(os.fspath(library))
