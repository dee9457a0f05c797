"""The program ``python -m aipu.bench``."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from .. import __version__, _files
from ._compare import Comparison, compare
from ._machine import describe
from ._sides import SIDES


def _shape(text: str) -> Tuple[str, Tuple[int, ...]]:
    name, equals, extents = text.rpartition("=")
    try:
        if not equals:
            raise ValueError
        return name, tuple(int(extent) for extent in extents.split("x")) if extents else ()
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected NAME=1x3x224x224, found '{text}'") from None


def _range(text: str) -> Tuple[str, Tuple[float, float]]:
    name, _, limits = text.rpartition("=")
    low, colon, high = limits.partition(":")
    try:
        if not name or not colon:
            raise ValueError
        return name, (float(low), float(high))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected NAME=LOW:HIGH, found '{text}'") from None


def _numbers(text: str) -> List[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers such as 1,2, found '{text}'") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aipu.bench",
        description="How fast a model is, alone and beside other runtimes in alternating turns of one process.",
        epilog="Exit codes: 0 all went well; 1 a model, the machine, or outputs that differ; 2 the command line. "
        "Example: python -m aipu.bench model.onnx --against onnxruntime --shape image=1x3x224x224 --threads 1,2",
    )
    parser.add_argument("models", nargs="+", help="ONNX models; without --against also aipu.bin files")
    parser.add_argument("--against", default="", metavar="NAME,...", help=f"of: {', '.join(SIDES)}")
    parser.add_argument("--shape", type=_shape, action="append", default=[], metavar="NAME=1x3x224x224")
    parser.add_argument("--inputs", metavar="FILE.npz", help="inputs by name, instead of random ones")
    parser.add_argument(
        "--range", type=_range, action="append", default=[], metavar="NAME=LOW:HIGH", help="of random inputs"
    )
    parser.add_argument("--threads", type=_numbers, default=[1], metavar="N,...", help="each is measured (default: 1)")
    parser.add_argument(
        "--tolerance", type=float, default=2e-4, metavar="E", help="largest error of an output (default: 2e-4)"
    )
    parser.add_argument("--seconds", type=float, default=0.3, metavar="S", help="length of a turn (default: 0.3)")
    parser.add_argument("--turns", type=int, default=40, metavar="N", help="at most so many (default: 40)")
    parser.add_argument("--precision", type=float, default=0.02, metavar="P", help="of the ratio (default: 0.02)")
    parser.add_argument("--fast-math", action="store_true", help="convert with it")
    parser.add_argument("--json", metavar="FILE", help="all that was measured (-: standard output)")
    return parser


def _tell(result: Comparison) -> None:
    shapes = ", ".join(f"{name} {dtype}{shape}" for name, dtype, shape in result.inputs)
    print(f"{result.model}: {shapes}; {result.threads} thread(s)")
    print(
        f"  {'':14}{'median ms':>11}  {'95 % interval':>19} {'best':>9} {'p90':>9} {'p99':>9} {'runs':>7} {'turns':>5}"
    )
    for side in result.sides:
        print(
            f"  {side.name:14}{side.median_ms:11.4f}  {side.low_ms:9.4f}..{side.high_ms:8.4f} {side.best_ms:9.4f} "
            f"{side.p90_ms:9.4f} {side.p99_ms:9.4f} {side.runs:7} {side.turns:5}"
        )
    for one in result.ratios:
        agreement = f"outputs agree within {one.error:.1e}" if one.agrees else f"OUTPUTS DIFFER by {one.error:.1e}"
        print(
            f"  aipu is {one.ratio:.3f} times as fast as {one.against} ({one.low:.3f}..{one.high:.3f}: {one.verdict}); "
            f"{agreement}"
        )
    for name in result.missing:
        print(f"  {name} is not installed (pip install {name}): left out")
    for name, why in result.failures.items():
        print(f"  {name} does not run the model: {why}")
    for note in result.notes:
        print(f"  note: {note}")


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the program; its exit code."""
    options = _parser().parse_args(arguments)
    against = [name for name in options.against.split(",") if name]
    results: List[Comparison] = []
    try:
        given: Dict[str, Any] = {}
        if options.inputs:
            with np.load(options.inputs) as archive:
                given = {name: archive[name] for name in archive.files}
        for model in options.models:
            for threads in options.threads:
                result = compare(
                    model,
                    against,
                    shapes=dict(options.shape),
                    inputs=given,
                    ranges=dict(options.range),
                    threads=threads,
                    tolerance=options.tolerance,
                    seconds=options.seconds,
                    fewest_turns=min(7, options.turns),
                    most_turns=options.turns,
                    precision=options.precision,
                    build={"fast_math": True} if options.fast_math else None,
                )
                results.append(result)
                if options.json != "-":
                    _tell(result)
                    sys.stdout.flush()
    except (OSError, RuntimeError, ValueError) as error:
        print(f"aipu.bench: {error}", file=sys.stderr)
        return 1
    if options.json:
        settings = {"seconds": options.seconds, "turns": options.turns, "precision": options.precision}
        told = {
            "tool": "aipu.bench",
            "version": __version__,
            "machine": describe(),
            "settings": {**settings, "fast_math": options.fast_math, "tolerance": options.tolerance},
            "results": [dataclasses.asdict(result) for result in results],
        }
        _files.write_report(options.json, told)
    if not all(result.agrees and not result.failures for result in results):
        return 1
    if against and any(len(result.missing) == len(against) for result in results):
        print("aipu.bench: nothing that was asked for is installed", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
