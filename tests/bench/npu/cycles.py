#!/usr/bin/env python3
"""Cycles on the NPU, as Markdown: of models, layer by layer or in all, and of an addition written in three ways.

    tests/bench/npu/cycles.py models [NAME...]     # one line per model: what a run takes
    tests/bench/npu/cycles.py layers NAME          # one line per layer of a model
    tests/bench/npu/cycles.py addition             # vector addition: in place, staged, staged with two buffers

AIPU_BUILD_DIR is the build whose programs convert and run (default: build/release). Runs are counted by the interpreter
back end, whose instrumented kernels tell the timing model what they do (codegen/timing/timing_model.h).
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", ROOT / "build/release"))
TARGET = "X2_1204"
# Multiply-adds of all TECs in a cycle: four vectors of 256 bits.
PEAK = {"float32": 4 * 8, "int8": 4 * 32}
CHAIN = 262144  # elements
# Of the project's models: the input's shape, and what the products are of.
MODELS = {
    "resnet18_int8": ("input=1x3x224x224", "int8"),
    "resnet18": ("input=1x3x224x224", "float32"),
    "mobilenet_v2": ("input=1x3x224x224", "float32"),
    "sample_cnn": ("image=1x3x32x32", "float32"),
}


def tool(name, *arguments):
    return subprocess.run(
        [str(BUILD / "bin" / name), *map(str, arguments)], check=True, capture_output=True, text=True
    ).stdout


def write_chain(path, elements=CHAIN):
    sys.path.insert(0, str(ROOT / "tests/python"))
    from onnx_text import node, write_model

    nodes = [node("Mul", ["a", "b"], ["t"]), node("Add", ["t", "a"], ["u"]), node("Relu", ["u"], ["y"])]
    shape = (elements,)
    write_model(str(path), nodes, [("a", "float32", shape), ("b", "float32", shape)], [("y", "float32", shape)])


def layers_of(name, folder):
    """The layers of a run of a model at its fixed shape."""
    onnx, binary, result = (pathlib.Path(folder) / f"{name}{end}" for end in (".onnx", ".bin", ".json"))
    shape = []
    if name == "chain":
        write_chain(onnx)
    else:
        tool("aipu-make-model", name, "-o", onnx)
        shape = ["--shape", MODELS[name][0]]
    tool("aipugb", onnx, "-o", binary, "--target", TARGET, *shape)
    tool("aipubench", binary, "--backend", "interp", "--layers", "--duration", "0.001", "--json", result)
    return json.loads(result.read_text())["layers"]


def utilisation(layer, kind):
    return layer["operations"] / 2 / PEAK[kind] / max(layer["cycles"], 1)


def models(names):
    print("| model | cycles | multiply-adds of the peak |\n| -- | -: | -: |")
    for name in names or [*MODELS, "chain"]:
        with tempfile.TemporaryDirectory() as folder:
            layers = layers_of(name, folder)
        whole = {"operations": sum(x["operations"] for x in layers), "cycles": sum(x["cycles"] for x in layers)}
        share = f"{100 * utilisation(whole, MODELS[name][1]):.1f} %" if name in MODELS else ""
        print(f"| {name} | {whole['cycles']:,} | {share} |", flush=True)


def layers(name):
    print("| kernel | cycles | multiply-adds of the peak | bytes per cycle | bound by |\n| -- | -: | -: | -: | -- |")
    with tempfile.TemporaryDirectory() as folder:
        for layer in layers_of(name, folder):
            share = (
                f"{100 * utilisation(layer, MODELS[name][1]):.1f} %" if layer["operations"] and name in MODELS else ""
            )
            rate = layer["bytes"] / max(layer["cycles"], 1)
            print(f"| {layer['kernel']} | {layer['cycles']:,} | {share} | {rate:.1f} | {layer['bound']} |")


def addition():
    sys.path.insert(0, str(BUILD / "python"))
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import additions
    import aipu
    import numpy as np

    print("| vector addition | cycles |\n| -- | -: |")
    a, b = np.arange(additions.COUNT, dtype="float32"), np.ones(additions.COUNT, "float32")
    for kernel in (additions.in_place, additions.staged, additions.double_buffered):
        y = np.zeros_like(a)
        executor = aipu.BuildManager(target=TARGET).build(kernel)
        executor(a, b, y, a.size)
        if not np.array_equal(y, a + b):
            raise SystemExit(f"{kernel.__name__} does not add")
        print(f"| {kernel.__doc__} | {round(executor.profile(a, b, y, a.size)):,} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("models").add_argument("names", nargs="*", choices=[*MODELS, "chain", []], metavar="NAME")
    commands.add_parser("layers").add_argument("name", choices=[*MODELS, "chain"], metavar="NAME")
    commands.add_parser("addition")
    options = parser.parse_args()
    if options.command == "models":
        models(options.names)
    elif options.command == "layers":
        layers(options.name)
    else:
        addition()


if __name__ == "__main__":
    main()
