"""What 8 bits cost on the trained development models: each calibrator, on inputs that it has not seen.

    PYTHONPATH=build/release/python python3 tests/bench/python/quantization.py MODELS [--models NAME,...] [--json FILE]

MODELS is the folder of the development models, each with ``model.onnx`` and ``test_data_set_*``. They come with one to
three inputs, so calibration and evaluation use seeded variations of them (gain, shift, noise): other ones for each. The
reference is the float32 model. ``top1``, of classifiers: the share of rows with the same class.
"""

import argparse
import json
import os
import sys
import time

import aipu
import numpy as np
from aipu import _calibration
from aipu.quantization._ranges import METHODS
from aipu.quantization._sensitivity import OutputError

MODELS = {  # whether it is a classifier
    "mnist_cntk": True,
    "super_resolution": False,
    "ultraface_rfb_320": False,
    "yolox_nano": False,
    "magika_v1": True,
    "speech_embedding": False,
    "basic_pitch": False,
}


def variations(feed, count, rng):
    """Inputs like these: shifted along the last axes, louder or softer, with noise; integers in floats stay such."""
    for _ in range(count):
        changed = {}
        for name, array in feed.items():
            if array.dtype.kind != "f" or array.ndim < 2:
                changed[name] = array
                continue
            axis = int(np.argmax(array.shape))
            moved = np.roll(array, int(rng.integers(-8, 9)), axis=axis)
            if np.array_equal(array, np.round(array)) and array.max() > 2:  # tokens, bytes
                changed[name] = moved
            else:
                spread = float(array.std())
                noise = rng.normal(size=array.shape) * spread * rng.uniform(0, 0.05)
                changed[name] = (moved * rng.uniform(0.8, 1.1) + noise).astype(array.dtype)
        yield changed


def errors(reference, model, feeds):
    """The errors of one model against another on inputs."""
    error = OutputError()
    names = [spec.name for spec in reference.outputs if spec.dtype == "float32"]
    for feed in feeds:
        error.add(reference.run(feed, names), model.run(feed, names))
    return error


def measure(folder, calibrators, count):
    """Rows of a model: a dictionary for each calibrator."""
    path = os.path.join(folder, "model.onnx")
    scratch = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"quantization_{os.getpid()}.aipu.bin")
    aipu.build(path, scratch)
    reference = aipu.load(scratch, copy=True)
    sets = [run.feed for run in _calibration.runs(folder, reference.inputs)]
    per_set = -(-count // len(sets))
    calibration = [v for k, feed in enumerate(sets) for v in variations(feed, per_set, np.random.default_rng(k))]
    unseen = [v for k, feed in enumerate(sets) for v in variations(feed, per_set, np.random.default_rng(1000 + k))]
    unseen += sets
    for method in calibrators:
        start = time.monotonic()
        report = aipu.quantize(path, calibration, calibration=method)
        seconds = time.monotonic() - start
        aipu.build(report.data, scratch)
        error = errors(reference, aipu.load(scratch, copy=True), unseen)
        os.unlink(scratch)
        yield {
            "calibrator": method,
            "layers": f"{sum(layer.is_quantized for layer in report.layers)}/{len(report.layers)}",
            "top1": 1 - error.value("top1") if MODELS.get(os.path.basename(folder)) else None,
            "relative": error.value("relative"),
            "cosine": 1 - error.value("cosine"),
            "max": error.value("max"),
            "seconds": seconds,
        }


def main():
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="of the development models")
    parser.add_argument("--models", default=",".join(MODELS), help="names, separated by commas")
    parser.add_argument("--calibrators", default=",".join(METHODS))
    parser.add_argument("--count", type=int, default=16, help="inputs to calibrate with, and as many to measure on")
    parser.add_argument("--json", help="write all numbers there")
    options = parser.parse_args()
    rows = []
    print(f"{'model':20} {'calibrator':11} {'layers':>7} {'top1':>7} {'cosine':>9} {'relative':>9} {'max':>9} {'s':>5}")
    for name in options.models.split(","):
        try:
            for row in measure(os.path.join(options.folder, name), options.calibrators.split(","), options.count):
                rows.append({"model": name, **row})
                top1 = "-" if row["top1"] is None else f"{row['top1']:.4f}"
                print(
                    f"{name:20} {row['calibrator']:11} {row['layers']:>7} {top1:>7} {row['cosine']:9.6f} "
                    f"{row['relative']:9.4f} {row['max']:9.3g} {row['seconds']:5.1f}",
                    flush=True,
                )
        except (OSError, RuntimeError, ValueError) as error:
            print(f"{name:20} {error}", file=sys.stderr, flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
