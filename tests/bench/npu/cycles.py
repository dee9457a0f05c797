#!/usr/bin/env python3
"""Cycles on the NPU, as Markdown: of models, layer by layer or in all, and of users' kernels in three forms.

    tests/bench/npu/cycles.py models [NAME...]     # one line per model: what a run takes
    tests/bench/npu/cycles.py layers NAME          # one line per layer of a model
    tests/bench/npu/cycles.py page [NAME...]       # models layer by layer on several targets: MODELS.md
    tests/bench/npu/cycles.py estimate NAME...     # what shapes alone tell beside the count, kernel by kernel
    tests/bench/npu/cycles.py kernels              # those of user_kernels.py: in place, staged by hand, S.stage

AIPU_BUILD_DIR is the build whose programs convert and run (default: build/release). Runs are counted by the interpreter
back end, whose instrumented kernels tell the timing model what they do (codegen/timing/timing_model.h); the page is
made by the back end `estimate`, which follows them without running.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", ROOT / "build/release"))
TARGET = "X2_1204"
TARGETS = ("X2_1204", "X2_1204MP3", "X3P_1304MP2")
# Multiply-adds of a TEC in a cycle: a vector of 256 bits.
PEAK = {"float32": 8, "int8": 32}
CHAIN = 262144  # elements
# Of the project's models: the input's shape, and what the products are of.
MODELS = {
    "resnet18_int8": ("input=1x3x224x224", "int8"),
    "resnet18": ("input=1x3x224x224", "float32"),
    "mobilenet_v2": ("input=1x3x224x224", "float32"),
    "sample_cnn": ("image=1x3x32x32", "float32"),
    "bert2": ("input_ids=1x128,attention_mask=1x128,token_type_ids=1x128", "float32"),
    "yolo_v5n": ("images=1x3x640x640", "float32"),
    "lstm_acoustic": ("features=1x100x80", "float32"),
}
PAGE = ("resnet18_int8", "resnet18", "mobilenet_v2", "bert2", "yolo_v5n", "lstm_acoustic")


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


def layers_of(name, folder, target=TARGET, backends=("interp",)):
    """The layers of a run of a model at its fixed shape, by each of the back ends."""
    onnx, binary, result = (pathlib.Path(folder) / f"{name}{end}" for end in (".onnx", ".bin", ".json"))
    shape = []
    if name == "chain":
        write_chain(onnx)
    else:
        tool("aipu-make-model", name, "-o", onnx)
        shape = [part for text in MODELS[name][0].split(",") for part in ("--shape", text)]
    tool("aipugb", onnx, "-o", binary, "--target", target, *shape)
    found = []
    for backend in backends:
        tool("aipubench", binary, "--backend", backend, "--layers", "--duration", "0.001", "--json", result)
        found.append(json.loads(result.read_text())["layers"])
    return found


def facts_of(target):
    """TECs in all, and bytes per cycle that they move together."""
    text = tool("aipugb", "--targets")
    row = re.search(rf"^{re.escape(target)}:.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL).group()
    cores = re.search(r"in each of (\d+) cores", row)
    tecs = int(re.search(r"(\d+) tec for launches", row).group(1)) * (int(cores.group(1)) if cores else 1)
    return tecs, float(re.search(r"at (\d+) bytes per cycle", row).group(1))


def utilisation(layer, kind, tecs=4):
    return layer["operations"] / 2 / (PEAK[kind] * tecs) / max(layer["cycles"], 1)


def models(names):
    print("| model | cycles | multiply-adds of the peak |\n| -- | -: | -: |")
    for name in names or [*MODELS, "chain"]:
        with tempfile.TemporaryDirectory() as folder:
            (layers,) = layers_of(name, folder)
        whole = {"operations": sum(x["operations"] for x in layers), "cycles": sum(x["cycles"] for x in layers)}
        share = f"{100 * utilisation(whole, MODELS[name][1]):.1f} %" if name in MODELS else ""
        print(f"| {name} | {whole['cycles']:,} | {share} |", flush=True)


def layers(name):
    print("| kernel | cycles | multiply-adds of the peak | bytes per cycle | bound by |\n| -- | -: | -: | -: | -- |")
    with tempfile.TemporaryDirectory() as folder:
        for layer in layers_of(name, folder)[0]:
            share = (
                f"{100 * utilisation(layer, MODELS[name][1]):.1f} %" if layer["operations"] and name in MODELS else ""
            )
            rate = layer["bytes"] / max(layer["cycles"], 1)
            print(f"| {layer['kernel']} | {layer['cycles']:,} | {share} | {rate:.1f} | {layer['bound']} |")


def what_of(layer):
    """A layer without the number of its kernel: targets number theirs differently."""
    template = re.sub(r"^k\d+_", "", layer["kernel"]).split("__")[0]
    node = re.match(r"'([^']*)'", layer["nodes"])
    return f"{template} {node.group(1).lstrip('/')}" if node else template


def bound_of(layer, rate):
    """What a layer cannot be faster than without being another one: memory, or the TECs' code."""
    return "memory" if layer["bytes"] >= 0.9 * rate * layer["cycles"] else layer["engine"]


HEAD = """# Models on NPUs, layer by layer

By `tests/bench/npu/cycles.py page > tests/bench/npu/MODELS.md`: batch 1, cycles by the timing model from shapes, share
of the peak (of a native multiply-add per TEC and cycle), and what bounds a layer: `tec`, the code of the TECs with the
transfers that it waits for, or `memory`, where the bytes of its tensors take 90 % of the cycles. Commands of one layer
that share its name are one line.
"""


def page(names):
    """Of each model a line per layer, and per target its cycles, multiply-adds of the peak and what bounds it.

    Nothing is run: shapes tell the cycles.
    """
    facts = {target: facts_of(target) for target in TARGETS}
    if not names:
        print(HEAD)
    for name in names or PAGE:
        kind = MODELS[name][1]
        rows = {}
        totals = {}
        for target, (tecs, rate) in facts.items():
            with tempfile.TemporaryDirectory() as folder:
                (layers,) = layers_of(name, folder, target, ["estimate"])
            totals[target] = {key: sum(layer[key] for layer in layers) for key in ("operations", "cycles")}
            for layer in layers:
                share = f"{100 * utilisation(layer, kind, tecs):.0f} %" if layer["operations"] else ""
                cells = rows.setdefault(what_of(layer), {}).setdefault(target, [])
                cells.append((layer["cycles"], share, bound_of(layer, rate)))
        print(f"## {name}\n\nInputs {MODELS[name][0].replace(',', ', ')}.\n")
        print("| layer | " + " | ".join(f"{t} | peak | bound" for t in TARGETS) + " |")
        print("| -- |" + " -: | -: | -- |" * len(TARGETS))
        for what, cells in rows.items():
            print(f"| {what} | " + " | ".join(cell_of(cells.get(target, [])) for target in TARGETS) + " |")
        sums = [
            f"{totals[t]['cycles']:,} | {100 * utilisation(totals[t], kind, facts[t][0]):.0f} % | " for t in TARGETS
        ]
        print(f"| all | {' | '.join(sums)} |\n", flush=True)


def cell_of(commands):
    """Those of one layer: the cycles of all, the share and the bound of the longest."""
    if not commands:
        return " | | "
    _, share, bound = max(commands)
    return f"{sum(cycles for cycles, *_ in commands):,} | {share} | {bound}"


def estimate(names):
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            counted, told = layers_of(name, folder, backends=("interp", "estimate"))
        print(f"| kernel of {name} | counted | by shapes | off |\n| -- | -: | -: | -: |")
        for a, b in zip(counted, told):
            print(
                f"| {a['kernel']} | {a['cycles']:,} | {b['cycles']:,} | {100 * (b['cycles'] / a['cycles'] - 1):.1f} % |"
            )
        whole = [sum(layer["cycles"] for layer in layers) for layers in (counted, told)]
        print(f"| all | {whole[0]:,} | {whole[1]:,} | {100 * (whole[1] / whole[0] - 1):.1f} % |\n", flush=True)


def user_kernel_cases():
    """(what is computed, the kernels' common name, arguments without the result, the result that is expected)"""
    import numpy as np

    random = np.random.default_rng(1)
    for size in (1 << 16, 1 << 10):
        a, b = random.random((2, size), "float32")
        yield f"{size:,} additions", "add", [a, b], [size], a + b
    x = random.standard_normal((512, 256), "float32")
    e = np.exp(x - x.max(axis=1, keepdims=True))
    yield "softmax of 512 rows of 256", "softmax", [x], list(x.shape), e / e.sum(axis=1, keepdims=True)
    a, b = random.standard_normal((512, 64), "float32"), random.standard_normal((64, 64), "float32")
    yield "512 x 64 times 64 x 64", "product", [a, b], [512, 64, 64], a @ b


def kernels():
    sys.path.insert(0, str(BUILD / "python"))
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import aipu
    import numpy as np
    import user_kernels

    print("| kernel | in place | staged by hand | S.stage | of by hand |\n| -- | -: | -: | -: | -: |")
    for text, name, operands, numbers, expected in user_kernel_cases():
        cycles = []
        for form in ("in_place", "by_hand", "staged"):
            result = np.zeros_like(expected)
            executor = aipu.BuildManager(target=TARGET).build(getattr(user_kernels, f"{name}_{form}"))
            executor(*operands, result, *numbers)
            if not np.allclose(result, expected, rtol=1e-4, atol=1e-4):
                raise SystemExit(f"{name}_{form} does not compute what it is to")
            cycles.append(round(executor.profile(*operands, result, *numbers)))
        print(f"| {text} | {' | '.join(f'{c:,}' for c in cycles)} | {cycles[2] / cycles[1]:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("models", "page"):
        commands.add_parser(command).add_argument("names", nargs="*", choices=[*MODELS, "chain", []], metavar="NAME")
    commands.add_parser("estimate").add_argument("names", nargs="+", choices=[*MODELS, "chain"], metavar="NAME")
    commands.add_parser("layers").add_argument("name", choices=[*MODELS, "chain"], metavar="NAME")
    commands.add_parser("kernels")
    options = parser.parse_args()
    if options.command == "layers":
        layers(options.name)
    elif options.command == "kernels":
        kernels()
    else:
        {"models": models, "page": page, "estimate": estimate}[options.command](options.names)


if __name__ == "__main__":
    main()
