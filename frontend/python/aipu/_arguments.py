"""What programs of the package share: kinds of arguments, and what errors and Ctrl-C end them with."""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import re
import sys
from typing import Any, Callable, Dict, Iterable, Optional, TextIO, Tuple

from . import _files, _native


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


def shape(text: str) -> Tuple[str, Tuple[int, ...]]:
    """NAME=1x3x224x224."""
    name, equals, extents = text.rpartition("=")
    try:
        if not equals:
            raise ValueError
        return name, tuple(int(extent) for extent in extents.split("x")) if extents else ()
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected NAME=1x3x224x224, found '{text}'") from None


def constant(text: str) -> Tuple[str, Any]:
    """NAME=NUMBER or NAME=[NUMBERS]; true and false as aipugb writes them are numbers too."""
    name, equals, value = text.partition("=")
    value = re.sub(r"\b(true|false)\b", lambda word: word[0].capitalize(), value)
    try:
        return name, ast.literal_eval(value) if equals else None
    except (ValueError, SyntaxError):
        raise argparse.ArgumentTypeError(f"expected NAME=NUMBER or NAME=[NUMBERS], found '{text}'") from None


def add_item_arguments(parser: argparse.ArgumentParser) -> None:
    """How the items of a data set become inputs."""
    parser.add_argument(
        "--preprocess", type=function, metavar="MODULE:FUNCTION", help="turns a path, or a table's row, into arrays"
    )
    parser.add_argument(
        "--constant",
        type=constant,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of an input that all items share",
    )


def add_build_arguments(parser: argparse._ActionsContainer) -> None:
    """How a model that is given as ONNX is converted: :func:`build_options`."""
    parser.add_argument("--target", metavar="NAME", help="of the conversion of an ONNX model (default: host)")
    parser.add_argument("--fast-math", action="store_true", help="of the conversion")
    parser.add_argument(
        "--model-precision", metavar="NAME", help="of the conversion: aipugb's --precision, such as bf16"
    )


def build_options(options: argparse.Namespace) -> Dict[str, Any]:
    """Those of :func:`aipu.build` that the command line has."""
    given = {"target": options.target, "fast_math": options.fast_math, "precision": options.model_precision}
    return {name: value for name, value in given.items() if value}


def add_result_arguments(parser: argparse.ArgumentParser) -> None:
    """Where what was found goes (:func:`tell_result`), and whether progress is shown."""
    parser.add_argument("--json", metavar="FILE", help="everything, for programs (-: standard output)")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """What :func:`aipu._calibration.runs` is told about its data, and what is told of it afterwards."""
    parser.add_argument("--limit", type=int, metavar="N", help="items to take (default: all)")
    add_item_arguments(parser)
    add_result_arguments(parser)


def print_lines(lines: Iterable[str], stream: Optional[TextIO] = None) -> None:
    """Prints lines at once, to the standard output. What they quote from models and files cannot speak to the
    terminal.
    """
    for line in lines:
        print(_native.printable(line), file=stream)
    (stream or sys.stdout).flush()


def tell_result(path: Optional[str], lines: Iterable[str], told: Callable[[], Any]) -> None:
    """Prints ``lines``, and writes ``told()`` as JSON to ``path``, if one is given. Where that is the standard output,
    nothing else is printed. OSError.
    """
    if path != "-":
        print_lines(lines)
    if path:
        _files.write_report(path, told())


def run_program(name: str, body: Callable[[], int], *, interrupted: str = "interrupted", failed_code: int = 1) -> int:
    """The exit code of a program: of its ``body``; ``failed_code`` and one line on the standard error where a model, a
    file or the machine is at fault; 130, as shells have it, after Ctrl-C.
    """
    try:
        return body()
    except KeyboardInterrupt:
        code, text = 130, interrupted
    except MemoryError as error:
        code, text = failed_code, str(error) or "there is not enough memory"
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        code, text = failed_code, str(error) or type(error).__name__
    print(f"{name}: {_native.printable_message(text)}", file=sys.stderr)
    return code
