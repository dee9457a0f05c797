"""The program ``aipudiff``, also ``python -m aipu.diff``."""

from __future__ import annotations

import argparse
import sys
from typing import List, Optional

from .. import __version__, _files
from .._arguments import add_data_arguments, print_lines, run_program, tell_result
from .._progress import ProgressLine
from . import _page
from ._compare import compare
from ._sides import Side


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="aipudiff",
        description="Compares two models layer by layer on data, and says which layers make the error.",
        epilog="A model is a path, or PATH@WORD,... with a target (X2_1204, host-avx2), precision (bf16), fast-math, "
        "interp (the interpreter) or onnxruntime (that package). Exit codes: 0 compared; 1 a model, a file or the "
        "machine is at fault, or the difference is larger than --min-snr allows; 2 the command line is. "
        "Example: aipudiff model.onnx model_int8.onnx --data images.npz --html diff.html",
    )
    parser.add_argument("first", metavar="A", help="the reference: an ONNX model or an aipu.bin")
    parser.add_argument(
        "second", metavar="B", help="what is compared with it; both may be the same file, run otherwise"
    )
    parser.add_argument("--data", required=True, help="a folder, .npz, .npy, table, list, or folder of test_data_set_*")
    parser.add_argument("--no-own", action="store_true", help="leave out where error is made; half the time")
    parser.add_argument("--all", action="store_true", help="show layers without a difference too")
    parser.add_argument("--min-snr", type=float, metavar="DB", help="fail if an output has less")
    parser.add_argument("--html", metavar="FILE", help="a page with plots that needs nothing else")
    parser.add_argument("--version", action="version", version=f"aipudiff {__version__}")
    add_data_arguments(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    with ProgressLine("aipudiff", None if options.quiet else sys.stderr) as tell:
        difference = compare(
            Side.parse(options.first),
            Side.parse(options.second),
            options.data,
            own=not options.no_own,
            limit=options.limit,
            constants=dict(options.constant),
            preprocess=options.preprocess,
            progress=tell,
        )
    if options.html:
        _files.write_output(options.html, _page.page(difference))
    tell_result(options.json, _page.table(difference, options.all), lambda: _page.to_json(difference))
    too_far = [x for x in difference.outputs() if options.min_snr is not None and x.inherited.snr < options.min_snr]
    print_lines(
        (
            f"aipudiff: output '{layer.name}' has {layer.inherited.snr:.1f} dB, --min-snr asks for {options.min_snr:g}"
            for layer in too_far
        ),
        sys.stderr,
    )
    return 1 if too_far else 0


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the program; its exit code."""
    options = _parser().parse_args(arguments)
    return run_program("aipudiff", lambda: _run(options))


if __name__ == "__main__":
    sys.exit(main())
