"""aipu in float32, bfloat16 and 8-bit integers beside ONNX Runtime and OpenVINO: same inputs and threads, in turns.

Run through compare.sh --precisions fp32,bf16,int8. For int8 the model is quantised by `aipugb --quantize` on seeded
inputs, and the others run the QDQ file that this writes; models that are quantised already run as they are.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

import aipu_runtime
import compare
import numpy as np
import sides
import turns


@dataclass
class Row:
    """One model in one precision. Milliseconds per run by side; ratios above one: aipu is faster."""

    model: str
    batch: int
    threads: int
    precision: str
    ms: dict[str, float] = field(default_factory=dict)
    ratio: dict[str, float] = field(default_factory=dict)  # of the peers, and "fp32": our own float32
    quartiles: dict[str, tuple[float, float]] = field(default_factory=dict)
    error: dict[str, float] = field(default_factory=dict)  # beside ONNX Runtime in float32

    def better(self) -> float:
        """Beside the faster peer."""
        return min((value for side, value in self.ratio.items() if side != "fp32"), default=math.nan)


def is_quantised(name: str) -> bool:
    """Whether a model of models/ has 8-bit integers from the start, by its name."""
    return "int8" in name


def prepare(name: str, options: argparse.Namespace) -> tuple[Path, Path, dict[str, Path]]:
    """The ONNX model, the one of 8-bit integers, and a conversion per precision."""
    model = Path(name) if name.endswith(".onnx") else options.work / f"{name}.onnx"
    stem = model.parent.name if model.name == "model.onnx" else model.stem
    if not model.exists():
        compare.run_checked([str(options.build / "bin" / "aipu-make-model"), name, "-o", str(model)])
    aipugb = options.build / "bin" / "aipugb"
    wanted = ["int8"] if is_quantised(stem) else options.precisions
    binaries = {precision: options.work / f"{stem}.{precision}.aipu.bin" for precision in wanted}
    quantised = model if is_quantised(stem) else options.work / f"{stem}.quantised.onnx"
    for precision, binary in binaries.items():
        if precision != "int8":
            flags = ["--precision", "bf16"] if precision == "bf16" else []
            compare.convert(options, aipugb, model, binary, flags)
        elif quantised.exists():
            compare.convert(options, aipugb, quantised, binary, [])
        else:
            data = options.work / f"{stem}.npz"
            signature = sides.OnnxRuntimeSide(model, 1).signature()
            np.savez(data, **sides.make_inputs(signature, 2))
            flags = ["--quantize", str(data), "--quantized-model", str(quantised)]
            compare.convert(options, aipugb, model, binary, flags)
    return model, quantised, binaries


def measure(
    name: str, batch: int, threads: int, library: aipu_runtime.Library, options: argparse.Namespace
) -> list[Row]:
    """A row per precision; all sides take turns with each other."""
    model, quantised, binaries = prepare(name, options)
    stem = model.stem if model.name != "model.onnx" else model.parent.name
    if options.prepare:
        return []
    reference = sides.OnnxRuntimeSide(model, threads)
    inputs = sides.make_inputs(reference.signature(), batch)
    ours: dict[str, sides.Side] = {}
    peers: dict[tuple[str, str], sides.Side] = {}
    for precision, binary in binaries.items():
        ours[precision] = aipu_runtime.Session(library, binary, threads)
        if precision == "fp32":
            peers[precision, "onnxruntime"] = reference
            peers[precision, "openvino"] = sides.OpenVinoSide(model, threads, "f32")
        elif precision == "bf16":
            peers[precision, "openvino"] = sides.OpenVinoSide(model, threads, "bf16")
        else:
            peers[precision, "onnxruntime"] = sides.OnnxRuntimeSide(quantised, threads)
            peers[precision, "openvino"] = sides.OpenVinoSide(quantised, threads, "f32")
    runs: list[sides.Side] = [*ours.values(), *peers.values()]
    rows = {precision: Row(stem, batch, threads, precision) for precision in binaries}
    try:
        reference.bind(inputs)
        reference.run()
        expected = reference.outputs()
        for (precision, side), run in [((precision, "aipu"), run) for precision, run in ours.items()] + [
            *peers.items()
        ]:
            if run is not reference:
                run.bind(inputs)
                run.run()
            rows[precision].error[side] = turns.relative_error(run.outputs(), expected)
        taken = turns.take_turns(runs, options.rounds, options.seconds)
        for precision, own in ours.items():
            row = rows[precision]
            others = {side: run for (kind, side), run in peers.items() if kind == precision}
            if precision != "fp32" and "fp32" in ours:
                others["fp32"] = ours["fp32"]
            row.ms["aipu"] = taken.median_ms(own)
            for side, other in others.items():
                row.ms[side] = taken.median_ms(other)
                row.ratio[side], low, high = taken.ratio(other, own)
                row.quartiles[side] = (low, high)
    finally:
        for run in runs:
            run.close()
        gc.collect()
    return list(rows.values())


def cell(values: dict[str, float], key: str, form: str) -> str:
    """A number, or nothing where there is none."""
    return format(values[key], form) if key in values else ""


def print_rows(rows: list[Row]) -> None:
    """A table in Markdown per precision, batch and number of threads, with its geometric means."""
    for precision, batch, threads in dict.fromkeys((row.precision, row.batch, row.threads) for row in rows):
        part = [row for row in rows if (row.precision, row.batch, row.threads) == (precision, batch, threads)]
        print(f"\n{precision}, batch {batch}, {threads} thread(s)\n")
        print("| model | ms | ONNX Runtime | OpenVINO | better | own fp32 | error | of OpenVINO |")
        print("| -- | -: | -: | -: | -: | -: | -: | -: |")
        for row in part:
            print(
                f"| {row.model} | {row.ms['aipu']:.3g} | {cell(row.ratio, 'onnxruntime', '.2f')} | "
                f"{cell(row.ratio, 'openvino', '.2f')} | {row.better():.2f} | {cell(row.ratio, 'fp32', '.2f')} | "
                f"{cell(row.error, 'aipu', '.0e')} | {cell(row.error, 'openvino', '.0e')} |"
            )
        means = []
        for side in ("onnxruntime", "openvino"):
            of_side = [row.ratio[side] for row in part if side in row.ratio]
            means.append(f"{statistics.geometric_mean(of_side):.2f}" if of_side else "")
        means.append(f"{statistics.geometric_mean([row.better() for row in part]):.2f}")
        own = [row.ratio["fp32"] for row in part if "fp32" in row.ratio]
        means.append(f"{statistics.geometric_mean(own):.2f}" if own else "")
        print(f"| **geometric mean** |  | {' | '.join(means)} |  |  |")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="build folder with bin/, lib/ and python/")
    parser.add_argument("--work", type=Path, required=True, help="where models and conversions are kept between calls")
    parser.add_argument("--models", default=",".join(compare.MODELS), help="names of models/, or paths of .onnx files")
    parser.add_argument("--precisions", type=lambda text: text.split(","), default=["fp32", "bf16", "int8"])
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a turn")
    parser.add_argument("--aipugb-flags", default="", help="more flags for all conversions")
    parser.add_argument("--keep", action="store_true", help="use conversions made by an earlier call")
    parser.add_argument("--prepare", action="store_true", help="only convert")
    parser.add_argument("--json", type=Path, help="add what was measured to this file, and print all that it has")
    return parser.parse_args()


def main() -> int:
    """Returns 1 if a model fails to convert or to run."""
    options = parse_arguments()
    options.work.mkdir(parents=True, exist_ok=True)
    try:
        os.nice(-10)
    except PermissionError:
        pass
    library = aipu_runtime.Library(options.build / "lib" / "libaipu_runtime.so")
    rows: list[Row] = []
    if options.json and options.json.exists():
        rows = [Row(**row) for row in json.loads(options.json.read_text())]
    failed = False
    for name in options.models.split(","):
        for batch in map(int, options.batches.split(",")):
            for threads in map(int, options.threads.split(",")):
                try:
                    new = measure(name, batch, threads, library, options)
                except (RuntimeError, subprocess.SubprocessError) as error:
                    failed = True
                    print(f"{name} batch {batch}: {str(error).splitlines()[0]}", flush=True)
                    continue
                keys = {(row.model, row.batch, row.threads, row.precision) for row in new}
                rows = [row for row in rows if (row.model, row.batch, row.threads, row.precision) not in keys] + new
                for row in new:
                    ratios = " ".join(f"{side} {ratio:.2f}" for side, ratio in row.ratio.items())
                    print(
                        f"{row.model} b{batch} t{threads} {row.precision}: {row.ms['aipu']:.3f} ms, {ratios}",
                        flush=True,
                    )
                if options.json:
                    options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    if rows:
        print_rows(rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
