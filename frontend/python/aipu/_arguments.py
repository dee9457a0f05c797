"""What programs of the package share: kinds of arguments, and lines that say how far they are."""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import sys
import time
from typing import Any, Callable, Optional, Tuple

from . import _native


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


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """What :func:`aipu._calibration.runs` is told about its data, and what is told of it afterwards."""
    parser.add_argument("--limit", type=int, metavar="N", help="items to take (default: all)")
    parser.add_argument("--preprocess", type=function, metavar="MODULE:FUNCTION", help="turns a path into arrays")
    parser.add_argument(
        "--constant", type=constant, action="append", default=[], metavar="NAME=VALUE", help="an input that all share"
    )
    parser.add_argument("--json", metavar="FILE", help="everything, for programs (-: standard output)")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


class ProgressLines:
    """Lines about what is done: on a terminal one that is written over, elsewhere the first one of each kind (its first
    word), then one every ten seconds. ``stream`` None is silent; ``clock`` gives seconds.
    """

    def __init__(self, name: str, stream: Optional[Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._stream, self._clock = name, stream, clock
        self._is_terminal = bool(stream is not None and stream.isatty())
        self._kind, self._shown = "", 0.0

    def __call__(self, line: str) -> None:
        if self._stream is None:
            return
        text = f"{self._name}: {_native.printable(line)}"
        if self._is_terminal:
            self._stream.write(f"\r{text[:200]}\x1b[K")
            self._stream.flush()
            return
        kind, now = line.partition(" ")[0], self._clock()
        if kind != self._kind or now - self._shown >= 10:
            self._kind, self._shown = kind, now
            self._stream.write(text + "\n")

    def end(self) -> None:
        """Takes the line off a terminal."""
        if self._is_terminal and self._stream is not None:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
