"""Kinds of arguments that programs of the package share."""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys
from typing import Any, Callable, Tuple


def function(text: str) -> Callable[..., Any]:
    """MODULE:FUNCTION; modules of the current folder are found too."""
    module, colon, name = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"expected MODULE:FUNCTION, found '{text}'")
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise argparse.ArgumentTypeError(f"'{text}': {error}") from None


def constant(text: str) -> Tuple[str, Any]:
    """NAME=NUMBER or NAME=[NUMBERS]."""
    name, equals, value = text.partition("=")
    try:
        return name, ast.literal_eval(value) if equals else None
    except (ValueError, SyntaxError):
        raise argparse.ArgumentTypeError(f"expected NAME=NUMBER or NAME=[NUMBERS], found '{text}'") from None
