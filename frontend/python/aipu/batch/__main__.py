"""The program ``python -m aipu.batch``."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Dict, Iterator, List, Optional

from .._arguments import (
    add_build_arguments,
    add_item_arguments,
    add_result_arguments,
    build_options,
    function,
    run_program,
    tell_result,
)
from . import Report, run
from ._formats import FORMATS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aipu.batch",
        description="Runs a model over a data set. The same command goes on where an earlier one was ended.",
        epilog="Exit codes: 0 all went well, broken inputs are listed; 1 the model, a file or the machine is at fault; "
        "2 the command line is; 130 Ctrl-C. Example: python -m aipu.batch model.onnx inputs.npz -o results",
    )
    parser.add_argument("model", help="an ONNX model, or an aipu.bin")
    parser.add_argument(
        "inputs", help="a folder, .npz, .npy, .parquet, .arrow, .feather, a .txt of paths, or - for paths on stdin"
    )
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where results are written")
    parser.add_argument("--entry", metavar="NAME", help="of an aipu.bin with several models the one to run")
    parser.add_argument("--format", choices=list(FORMATS), default="npz", help="of results (default: npz)")
    parser.add_argument(
        "--batch", type=int, metavar="N", help="items of one run (default: 16, or what the model takes)"
    )
    parser.add_argument("--chunk", type=int, metavar="N", help="items that are written together (default: 8 batches)")
    parser.add_argument("--sessions", type=int, metavar="N", help="runs side by side (default: as many as CPUs)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of a run (default: 1)")
    add_item_arguments(parser)
    parser.add_argument(
        "--postprocess", type=function, metavar="MODULE:FUNCTION", help="turns a name and outputs into what is written"
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="that load and preprocess (default: 2)")
    parser.add_argument("--processes", action="store_true", help="workers are processes, not threads")
    parser.add_argument("--outputs", metavar="NAME,...", help="the outputs to write (default: all)")
    parser.add_argument("--max-broken", type=int, metavar="N", help="ends the run after so many broken inputs")
    parser.add_argument("--on-disk-full", choices=["wait", "stop"], default="wait", help="default: wait for room")
    parser.add_argument("--restart", action="store_true", help="forget what earlier runs have done")
    add_build_arguments(parser)
    add_result_arguments(parser)
    return parser


def _lines(report: Report) -> Iterator[str]:
    skipped = f", of which {report.resumed_at:,} by earlier runs" if report.resumed_at else ""
    yield (
        f"{report.items:,} items{skipped}: {report.rows:,} results, {report.broken:,} broken; "
        f"{report.seconds:.1f} s, {report.items_per_second:,.1f} items/s"
    )
    for one in report.first_broken:
        yield f"broken: {one.name}: {one.error}"
    if report.broken > len(report.first_broken):
        yield f"... and {report.broken - len(report.first_broken):,} more"
    if report.broken:
        yield f"all of them: {report.errors}"


def _told(report: Report) -> Dict[str, Any]:
    told = {name: value for name, value in vars(report).items() if name != "first_broken"}
    return {**told, "items_per_second": report.items_per_second}


def _run(options: argparse.Namespace) -> int:
    report = run(
        options.model,
        options.inputs,
        options.output,
        format=options.format,
        batch=options.batch,
        chunk=options.chunk,
        sessions=options.sessions,
        threads=options.threads,
        preprocess=options.preprocess,
        postprocess=options.postprocess,
        workers=options.workers,
        processes=options.processes,
        constants=dict(options.constant),
        outputs=options.outputs.split(",") if options.outputs else None,
        max_broken=options.max_broken,
        on_disk_full=options.on_disk_full,
        restart=options.restart,
        progress=None if options.quiet else sys.stderr,
        build=build_options(options),
        entry=options.entry,
    )
    tell_result(options.json, _lines(report), lambda: _told(report))
    return 0


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the program; its exit code."""
    options = _parser().parse_args(arguments)
    return run_program("aipu.batch", lambda: _run(options), interrupted="ended; the same command goes on")


if __name__ == "__main__":
    sys.exit(main())
