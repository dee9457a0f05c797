"""aipu beside ONNX Runtime on the models of models/: same inputs and threads, runs in turn (A B A B), outputs checked.

Run through compare.sh, which makes the virtual environment. See README.md for what the columns mean.
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
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import aipu_runtime
import numpy as np
import sides
import turns

MODELS = [
    "mlp",
    "alexnet",
    "vgg19",
    "inception_v1",
    "densenet121",
    "squeezenet",
    "resnet18",
    "resnet50",
    "resnet18_int8",
    "shufflenet",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "efficientnet_b0",
    "yolo_v5n",
    "vit_tiny16",
    "bert2",
    "bert12",
    "gpt2_6l",
    "lstm_acoustic",
]


@dataclass
class Fast:
    """The same model converted with --fast-math, in turns with the others; fields as in :class:`Row`."""

    aipu_ms: float = 0.0
    ratio: float = 0.0
    ratio_low: float = 0.0
    ratio_high: float = 0.0
    error: float = 0.0


@dataclass
class Row:
    """One model at one batch size and thread count. Times are milliseconds per run; above one, aipu is faster."""

    model: str
    batch: int
    threads: int
    aipu_ms: float = 0.0
    ort_ms: float = 0.0
    aipu_best_ms: float = 0.0
    ort_best_ms: float = 0.0
    ratio: float = 0.0
    ratio_low: float = 0.0
    ratio_high: float = 0.0
    best_ratio: float = 0.0
    error: float = 0.0
    fast: Fast | None = None
    failure: str = ""


@dataclass
class Costs:
    """What a model costs besides running: conversion in seconds, loading in milliseconds, peak memory in MB."""

    model: str
    convert_cold_s: float = math.nan
    convert_warm_s: float = math.nan
    aipu: dict[str, float] = field(default_factory=dict)
    ort: dict[str, float] = field(default_factory=dict)


def compare(
    row: Row,
    binary: Path,
    fast_binary: Path | None,
    model: Path,
    library: aipu_runtime.Library,
    options: argparse.Namespace,
) -> None:
    """Fills in the row; `fast_binary` is the conversion with --fast-math where that makes a difference."""
    ort = sides.OnnxRuntimeSide(model, row.threads)
    inputs = sides.make_inputs(ort.signature(), row.batch)
    aipu = aipu_runtime.Session(library, binary, row.threads)
    fast = aipu_runtime.Session(library, fast_binary, row.threads) if fast_binary is not None else None
    competitors: list[sides.Side] = [aipu, ort] if fast is None else [aipu, ort, fast]
    try:
        for side in competitors:
            side.bind(inputs)
            side.run()
        row.error = turns.relative_error(aipu.outputs(), ort.outputs())
        limit = options.int8_tolerance if "int8" in row.model else options.tolerance
        if not row.error <= limit:
            row.failure = f"outputs differ: {row.error:.2g}"
        if fast is not None:
            row.fast = Fast(error=turns.relative_error(fast.outputs(), ort.outputs()))
            if not row.fast.error <= max(limit, options.fast_tolerance):
                row.failure += f" outputs differ with --fast-math: {row.fast.error:.2g}"
        taken = turns.take_turns(competitors, options.rounds, options.seconds)
        row.aipu_ms, row.aipu_best_ms = taken.median_ms(aipu), taken.best_ms(aipu)
        row.ort_ms, row.ort_best_ms = taken.median_ms(ort), taken.best_ms(ort)
        row.ratio, row.ratio_low, row.ratio_high = taken.ratio(ort, aipu)
        row.best_ratio = row.ort_best_ms / row.aipu_best_ms
        if fast is not None and row.fast is not None:
            row.fast.aipu_ms = taken.median_ms(fast)
            row.fast.ratio, row.fast.ratio_low, row.fast.ratio_high = taken.ratio(ort, fast)
    finally:
        for side in competitors:
            side.close()
        gc.collect()


def run_checked(command: list[str]) -> float:
    """Seconds that the command took; RuntimeError with its last line if it fails."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"{command[0]} failed with {done.returncode}")
    return time.perf_counter() - start


def generated_code(tool: Path, binary: Path) -> str:
    """The C code of a conversion's kernels."""
    done = subprocess.run([str(tool), str(binary), "--c"], capture_output=True, text=True, timeout=300, check=True)
    return done.stdout


def convert(options: argparse.Namespace, aipugb: Path, model: Path, binary: Path, flags: list[str]) -> None:
    """Runs aipugb, unless an earlier call's conversion is to be used."""
    if options.keep and binary.exists():
        return
    seconds = run_checked([str(aipugb), str(model), "-o", str(binary), "-q", *options.aipugb_flags.split(), *flags])
    print(f"{binary.name}: converted in {seconds:.2f} s", flush=True)


def measure_costs(costs: Costs, binary: Path, model: Path, options: argparse.Namespace) -> None:
    """Conversion with and without the kernel cache, then loading and memory in processes of their own."""
    tool = str(options.build / "bin" / "aipugb")
    with tempfile.TemporaryDirectory() as folder:
        target = str(Path(folder) / "model.aipu.bin")
        costs.convert_cold_s = run_checked([tool, str(model), "-o", target, "-q", "--no-cache"])
        run_checked([tool, str(model), "-o", target, "-q"])
        costs.convert_warm_s = run_checked([tool, str(model), "-o", target, "-q"])
        signature = sides.OnnxRuntimeSide(model, 1).signature()
        inputs = str(Path(folder) / "inputs.npz")
        np.savez(inputs, **sides.make_inputs(signature, 1))
        library = str(options.build / "lib" / "libaipu_runtime.so")
        script = str(Path(__file__).with_name("process_costs.py"))
        for kind, path, result in (("aipu", binary, costs.aipu), ("ort", model, costs.ort)):
            runs = []
            for _ in range(3):
                done = subprocess.run(
                    [sys.executable, script, kind, library, str(path), inputs, "2"],
                    capture_output=True,
                    text=True,
                    timeout=600,
                    check=True,
                )
                runs.append(json.loads(done.stdout))
            for key in runs[0]:
                result[key] = statistics.median(run[key] for run in runs)


def print_rows(rows: list[Row]) -> None:
    """The table of ratios and, per batch and thread count, their geometric mean."""
    print(
        f"{'model':20} {'batch':>5} {'thr':>3} {'aipu ms':>9} {'ORT ms':>9} {'ratio':>6} "
        f"{'quartiles':>13} {'best/best':>9} {'error':>8}"
    )
    for row in rows:
        if row.ratio == 0:
            print(f"{row.model:20} {row.batch:5} {row.threads:3} {row.failure}")
            continue
        spread = f"{row.ratio_low:.2f}..{row.ratio_high:.2f}"
        print(
            f"{row.model:20} {row.batch:5} {row.threads:3} {row.aipu_ms:9.3f} {row.ort_ms:9.3f} {row.ratio:6.2f} "
            f"{spread:>13} {row.best_ratio:9.2f} "
            f"{row.error:8.1e} {row.failure}"
        )
    for batch, threads in sorted({(row.batch, row.threads) for row in rows}):
        ratios = [row.ratio for row in rows if (row.batch, row.threads) == (batch, threads) and row.ratio > 0]
        floats = [
            row.ratio
            for row in rows
            if (row.batch, row.threads) == (batch, threads) and row.ratio > 0 and "int8" not in row.model
        ]
        if len(ratios) > 1:
            print(
                f"geometric mean, batch {batch}, {threads} thread(s): "
                f"fp32 {statistics.geometric_mean(floats):.2f} over {len(floats)} models, "
                f"below 1: {sum(ratio < 1 for ratio in ratios)} of {len(ratios)}"
            )


def print_fast_rows(rows: list[Row]) -> None:
    """The models that --fast-math changes, and the geometric means with their ratios in place of the strict ones."""
    print(
        f"{'with --fast-math':20} {'batch':>5} {'thr':>3} {'fast ms':>9} {'aipu ms':>9} {'ORT ms':>9} {'ratio':>6} "
        f"{'quartiles':>13} {'strict':>6} {'error':>8} {'strict':>8}"
    )
    for row in rows:
        if row.fast is None or row.fast.ratio == 0:
            continue
        spread = f"{row.fast.ratio_low:.2f}..{row.fast.ratio_high:.2f}"
        print(
            f"{row.model:20} {row.batch:5} {row.threads:3} "
            f"{row.fast.aipu_ms:9.3f} {row.aipu_ms:9.3f} {row.ort_ms:9.3f} "
            f"{row.fast.ratio:6.2f} {spread:>13} {row.ratio:6.2f} {row.fast.error:8.1e} {row.error:8.1e}"
        )
    for batch, threads in sorted({(row.batch, row.threads) for row in rows}):
        ratios = [
            row.fast.ratio if row.fast is not None else row.ratio
            for row in rows
            if (row.batch, row.threads) == (batch, threads) and row.ratio > 0 and "int8" not in row.model
        ]
        if len(ratios) > 1:
            print(
                f"geometric mean with --fast-math, batch {batch}, {threads} thread(s): "
                f"fp32 {statistics.geometric_mean(ratios):.2f} over {len(ratios)} models"
            )


def print_costs(all_costs: list[Costs]) -> None:
    """The table of conversion, loading and memory, if they were measured."""
    if not any(costs.aipu for costs in all_costs):
        return
    print(
        f"{'model':20} {'convert s':>9} {'cached s':>8} | {'load ms':>8} {'ORT':>8} | "
        f"{'first run':>9} {'ORT':>8} | {'peak MB':>8} {'ORT':>8}"
    )
    for costs in all_costs:
        if not costs.aipu:
            continue
        a, o = costs.aipu, costs.ort
        print(
            f"{costs.model:20} {costs.convert_cold_s:9.2f} {costs.convert_warm_s:8.2f} | "
            f"{a['load_ms']:8.2f} {o['load_ms']:8.1f} | "
            f"{a['first_run_ms']:9.2f} {o['first_run_ms']:8.1f} | {a['peak_mb']:8.1f} {o['peak_mb']:8.1f}"
        )


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="build folder with bin/ and lib/")
    parser.add_argument("--work", type=Path, required=True, help="where models and conversions are kept between calls")
    parser.add_argument(
        "--models", default=",".join(MODELS), help="names of models/, or paths of .onnx files, comma separated"
    )
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side")
    parser.add_argument("--seconds", type=float, default=0.4, help="length of a turn")
    parser.add_argument(
        "--tolerance", type=float, default=2e-4, help="largest error allowed, over the largest magnitude of an output"
    )
    parser.add_argument("--int8-tolerance", type=float, default=0.05, help="the same for quantised models")
    parser.add_argument("--fast-math", action="store_true", help="also the models that aipugb --fast-math changes")
    parser.add_argument("--fast-tolerance", type=float, default=1e-3, help="as --tolerance, for --fast-math")
    parser.add_argument("--aipugb-flags", default="", help="more flags for all conversions")
    parser.add_argument("--costs", action="store_true", help="also conversion time, load time and memory")
    parser.add_argument("--keep", action="store_true", help="use conversions made by an earlier call")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    return parser.parse_args()


def main() -> int:
    """Returns 1 if a model fails to convert, to run or to agree."""
    options = parse_arguments()
    options.work.mkdir(parents=True, exist_ok=True)
    try:
        os.nice(-10)
    except PermissionError:
        pass
    import onnxruntime

    print(f"onnxruntime {onnxruntime.__version__}, {os.cpu_count()} CPUs", flush=True)
    library = aipu_runtime.Library(options.build / "lib" / "libaipu_runtime.so")
    rows: list[Row] = []
    all_costs: list[Costs] = []
    for name in options.models.split(","):
        model = Path(name) if name.endswith(".onnx") else options.work / f"{name}.onnx"
        stem = model.parent.name if model.name == "model.onnx" else model.stem
        binary = options.work / f"{stem}.aipu.bin"
        try:
            if not model.exists():
                run_checked([str(options.build / "bin" / "aipu-make-model"), name, "-o", str(model)])
            aipugb = options.build / "bin" / "aipugb"
            convert(options, aipugb, model, binary, [])
            fast_binary = None
            if options.fast_math:
                fast_binary = options.work / f"{stem}.fast.aipu.bin"
                convert(options, aipugb, model, fast_binary, ["--fast-math"])
                dump = options.build / "bin" / "aipudump"
                if generated_code(dump, binary) == generated_code(dump, fast_binary):
                    fast_binary = None
            if options.costs:
                all_costs.append(Costs(stem))
                measure_costs(all_costs[-1], binary, model, options)
        except (RuntimeError, subprocess.SubprocessError) as error:
            rows.append(Row(stem, 0, 0, failure=str(error)))
            print(f"{stem}: {error}", flush=True)
            continue
        for batch in map(int, options.batches.split(",")):
            for threads in map(int, options.threads.split(",")):
                row = Row(stem, batch, threads)
                rows.append(row)
                try:
                    compare(row, binary, fast_binary, model, library, options)
                except RuntimeError as error:
                    row.failure = str(error)
                fast_ratio = f" (fast math {row.fast.ratio:.2f})" if row.fast is not None else ""
                print(f"{stem} batch {batch} threads {threads}: {row.ratio:.2f}{fast_ratio} {row.failure}", flush=True)
    print()
    print_rows(rows)
    if options.fast_math:
        print()
        print_fast_rows(rows)
    print()
    print_costs(all_costs)
    if options.json:
        options.json.write_text(
            json.dumps(
                {"rows": [asdict(row) for row in rows], "costs": [asdict(costs) for costs in all_costs]}, indent=1
            )
        )
    return 1 if any(row.failure for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
