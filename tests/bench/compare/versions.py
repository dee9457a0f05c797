"""Two builds of aipu side by side on the models of models/: same inputs and threads, runs in turn, outputs compared.

Run through compare.sh --before BUILD. Each side converts with its own aipugb and runs in its own libaipu_runtime.so.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import aipu_runtime
import compare
import numpy as np
import sides
import turns


@dataclass
class Row:
    """One model at one batch size and thread count. Times are milliseconds per run; above one, ``after`` is faster."""

    model: str
    batch: int
    threads: int
    before_ms: float = 0.0
    after_ms: float = 0.0
    ratio: float = 0.0
    ratio_low: float = 0.0
    ratio_high: float = 0.0
    best_ratio: float = 0.0
    outputs: str = ""


def difference(before: list[np.ndarray], after: list[np.ndarray]) -> str:
    """ "equal" if every output has the same bytes, else the relative error."""
    if all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in zip(before, after, strict=True)):
        return "equal"
    return f"{turns.relative_error(after, before):.1e}"


def measure(
    row: Row,
    before: aipu_runtime.Session,
    after: aipu_runtime.Session,
    inputs: dict[str, np.ndarray],
    options: argparse.Namespace,
) -> None:
    """Fills in the row: blocks of runs of either side in alternating order."""
    for side in (before, after):
        side.bind(inputs)
        side.run()
    row.outputs = difference(before.outputs(), after.outputs())
    taken = turns.take_turns([before, after], options.rounds, options.seconds)
    row.before_ms, row.after_ms = taken.median_ms(before), taken.median_ms(after)
    row.ratio, row.ratio_low, row.ratio_high = taken.ratio(before, after)
    row.best_ratio = taken.best_ms(before) / taken.best_ms(after)


def print_rows(rows: list[Row]) -> None:
    """The table, its geometric mean and what is below 0.98."""
    print(
        f"{'model':20} {'batch':>5} {'thr':>3} {'before ms':>9} {'after ms':>9} {'ratio':>6} {'quartiles':>13} "
        f"{'best/best':>9} {'outputs':>8}"
    )
    for row in rows:
        spread = f"{row.ratio_low:.3f}..{row.ratio_high:.3f}"
        print(
            f"{row.model:20} {row.batch:5} {row.threads:3} {row.before_ms:9.3f} {row.after_ms:9.3f} {row.ratio:6.3f} "
            f"{spread:>13} {row.best_ratio:9.3f} {row.outputs:>8}"
        )
    mean = statistics.geometric_mean([row.ratio for row in rows])
    slower = [f"{row.model} b{row.batch} t{row.threads}" for row in rows if row.ratio < 0.98]
    print(f"geometric mean {mean:.3f}; below 0.98: {', '.join(slower) if slower else 'none'}")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="build folder of the version to compare with")
    parser.add_argument("--build", type=Path, required=True, help="build folder with bin/ and lib/")
    parser.add_argument("--work", type=Path, required=True, help="where models and conversions are kept between calls")
    parser.add_argument("--models", default=",".join(compare.MODELS), help="names of models/, or paths of .onnx files")
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a turn")
    parser.add_argument("--aipugb-flags", default="", help="more flags for all conversions")
    parser.add_argument("--keep", action="store_true", help="use conversions made by an earlier call")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    return parser.parse_args()


def main() -> int:
    """Returns 1 if a model fails to convert or to run."""
    options = parse_arguments()
    try:
        os.nice(-10)
    except PermissionError:
        pass
    builds = {"before": options.before, "after": options.build}
    libraries = {key: aipu_runtime.Library(build / "lib" / "libaipu_runtime.so") for key, build in builds.items()}
    for key in builds:
        (options.work / key).mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    failed = False
    for name in options.models.split(","):
        model = Path(name) if name.endswith(".onnx") else options.work / f"{name}.onnx"
        stem = model.parent.name if model.name == "model.onnx" else model.stem
        binaries = {key: options.work / key / f"{stem}.aipu.bin" for key in builds}
        try:
            if not model.exists():
                compare.run_checked([str(options.build / "bin" / "aipu-make-model"), name, "-o", str(model)])
            for key, build in builds.items():
                compare.convert(options, build / "bin" / "aipugb", model, binaries[key], [])
            signature = sides.OnnxRuntimeSide(model, 1).signature()
            for batch in map(int, options.batches.split(",")):
                for threads in map(int, options.threads.split(",")):
                    row = Row(stem, batch, threads)
                    sessions = [aipu_runtime.Session(libraries[key], binaries[key], threads) for key in builds]
                    try:
                        measure(row, *sessions, sides.make_inputs(signature, batch), options)
                    finally:
                        for session in sessions:
                            session.close()
                    rows.append(row)
                    print(f"{stem} batch {batch} threads {threads}: {row.ratio:.3f}, outputs {row.outputs}", flush=True)
        except RuntimeError as error:
            failed = True
            print(f"{stem}: {error}", flush=True)
    if rows:
        print()
        print_rows(rows)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
