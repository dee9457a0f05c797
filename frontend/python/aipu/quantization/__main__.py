"""The program ``python -m aipu.quantization``."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Dict, List, Optional, Tuple, Union

from .. import _libraries
from .. import model as _model
from .._arguments import add_data_arguments, run_program, shape, tell_result
from .._progress import ProgressLine
from ._quantize import Report, quantize
from ._ranges import METHODS
from ._sensitivity import METRICS


def _bound(text: str) -> Tuple[str, float]:
    metric, _, value = text.partition("=")
    try:
        if metric in METRICS:
            return metric, float(value)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"expected METRIC=BOUND with one of {', '.join(METRICS)}, found '{text}'")


def _length(text: str) -> Tuple[str, Optional[int]]:
    name, equals, length = text.rpartition("=")
    if not equals or not (length == "none" or length.isdigit()):
        raise argparse.ArgumentTypeError(f"expected NAME=N or NAME=none, found '{text}'")
    return name, None if length == "none" else int(length)


def _strength(text: str) -> Optional[Union[float, str]]:
    return {"auto": "auto", "off": None}[text] if text in ("auto", "off") else float(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aipu.quantization",
        description="Quantises a float32 ONNX model after training, by data: 8-bit integers in a standard QDQ model.",
        epilog="Exit codes: 0 written; 1 the model, a file or the data is at fault; 2 the command line is. "
        "Example: python -m aipu.quantization model.onnx images.npz -o model_int8.onnx --max-error top1=0.005",
    )
    parser.add_argument("model", help="an ONNX model in float32")
    parser.add_argument("data", nargs="?", help="a folder, .npz, .npy, table, list, or folder of test_data_set_*")
    parser.add_argument("-o", "--output", metavar="FILE", help="the ONNX model to write")
    parser.add_argument("--bin", metavar="FILE", help="the aipu.bin to make of it")
    parser.add_argument("--target", metavar="NAME", help="of the aipu.bin (default: host)")
    parser.add_argument(
        "--precision",
        choices=["int8", "mixed"],
        default="int8",
        help="mixed: of the layers that --max-error keeps from 8 bits, bfloat16 (NPUs: float16) for those that it "
        "allows; which is in a file beside the output, NAME.precision.txt, for aipugb --precision-file",
    )
    parser.add_argument("--calibration", choices=METHODS, default="minmax", help="of the ranges of activations")
    parser.add_argument("--percentile", type=float, default=99.99, metavar="P", help="default: 99.99")
    parser.add_argument("--activations", choices=["uint8", "int8"], default="uint8")
    parser.add_argument("--per-tensor", action="store_true", help="one scale for all channels of a weight")
    parser.add_argument("--no-bias-correction", action="store_true")
    parser.add_argument(
        "--smooth", type=_strength, default="auto", metavar="S", help="SmoothQuant: 0 to 1, auto (default) or off"
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="NAME",
        help="a layer's output that stays in float32; * is any",
    )
    parser.add_argument(
        "--max-error",
        type=_bound,
        metavar="METRIC=BOUND",
        help=f"the cheapest layers stay in float32 so that it holds on the data ({', '.join(METRICS)})",
    )
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="items of a run (default: 1)")
    add_data_arguments(parser)
    group = parser.add_argument_group("what aipugb is told to convert the model")
    group.add_argument("--shape", type=shape, action="append", default=[], metavar="NAME=SHAPE", help="of an input")
    group.add_argument("--sequence-length", type=_length, action="append", default=[], metavar="NAME=N")
    group.add_argument("--plugin", action="append", default=[], metavar="FILE", help="operators of your own")
    group.add_argument("--target-plugin", action="append", default=[], metavar="FILE", help="targets of your own")
    group.add_argument("--jobs", type=int, default=0, metavar="N", help="C compilers at a time")
    return parser


def report_json(report: Report) -> dict:
    """For programs."""
    return {
        "output": report.output,
        "runs": report.runs,
        "quantized_share": report.quantized_share,
        "error": report.error,
        "warning": report.warning,
        "precision_rules": report.precision_rules,
        "layers": [
            {
                **vars(layer),
                "is_quantized": layer.is_quantized,
                "is_bfloat16": layer.is_bfloat16,
                "precision": layer.precision,
            }
            for layer in report.layers
        ],
    }


_HALVES = {"bf16": "bfloat16", "fp16": "float16"}


def lines(report: Report) -> List[str]:
    """For people: layers that have no integers with the reason, and what it comes to."""
    total = sum(layer.macs for layer in report.layers) or 1
    told = []
    for layer in report.layers:
        if not layer.is_quantized:
            measured = "" if layer.sensitivity is None else f", alone {layer.sensitivity:.2g}"
            share = f"{100 * layer.macs / total:.1f} % of multiplications{measured}"
            held = _HALVES.get(layer.half, "float32")
            told.append(f"{held}: {layer.name} ({layer.op}, {share}): {layer.why}")
    if report.warning:
        told.append(f"warning: {report.warning}")
    count = sum(layer.is_quantized for layer in report.layers)
    halves = [layer.half for layer in report.layers if layer.half]
    told.append(
        f"{count} of {len(report.layers)} layers in 8 bits, {100 * report.quantized_share:.1f} % of multiplications; "
        + (f"{len(halves)} in {_HALVES[halves[0]]}; " if halves else "")
        + f"against float32 on {report.runs} runs: "
        + ", ".join(f"{metric} {value:.3g}" for metric, value in report.error.items())
    )
    return told


def _run(options: argparse.Namespace) -> int:
    _libraries.load_targets(options.target_plugin)
    conversion: Dict[str, Any] = {
        "shapes": dict(options.shape),
        "sequence_lengths": dict(options.sequence_length),
        "plugins": options.plugin,
        "jobs": options.jobs,
    }
    with ProgressLine("aipu.quantization", None if options.quiet else sys.stderr) as tell:
        report = quantize(
            options.model,
            options.data,
            options.output,
            precision=options.precision,
            target=options.target,
            activations=options.activations,
            calibration=options.calibration,
            percentile=options.percentile,
            per_channel=not options.per_tensor,
            bias_correction=not options.no_bias_correction,
            smooth=options.smooth,
            exclude=options.exclude,
            max_error=options.max_error,
            limit=options.limit,
            batch=options.batch,
            constants=dict(options.constant),
            preprocess=options.preprocess,
            build=conversion,
            progress=tell,
        )
    if options.bin:
        with _model.rules_file(report.precision_rules) as rules:
            _model.build(report.data, options.bin, target=options.target, precision_file=rules, **conversion)
    tell_result(options.json, lines(report), lambda: report_json(report))
    return 0


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the program; its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not options.output and not options.bin:
        parser.error("nothing to do: give -o MODEL.onnx or --bin FILE")
    return run_program("aipu.quantization", lambda: _run(options))


if __name__ == "__main__":
    sys.exit(main())
