#!/usr/bin/env python3
"""Cycles on the NPU, as Markdown: of models, layer by layer or in all, and of users' kernels in three forms.

    tests/bench/npu/cycles.py models [NAME...]     # one line per model: what a run takes
    tests/bench/npu/cycles.py layers NAME          # one line per layer of a model
    tests/bench/npu/cycles.py page [NAME...]       # models layer by layer on several targets: MODELS.md
    tests/bench/npu/cycles.py estimate NAME...     # what shapes alone tell beside the count, kernel by kernel
    tests/bench/npu/cycles.py check [NAME...]      # fails where a layer waits, or shapes tell another sum than a run
    tests/bench/npu/cycles.py kernels              # those of user_kernels.py: in place, staged by hand, S.stage

AIPU_BUILD_DIR is the build whose programs convert and run (default: build/release). Runs are counted by the interpreter
back end, whose instrumented kernels tell the timing model what they do (codegen/timing/timing_model.h); the page is
made by the back end `estimate`, which follows them without running.
"""

import argparse
import functools
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
# Multiply-adds of a TEC in a cycle: those of a vector instruction, whose sums have 32 bits. Where a target has no dot
# products of a type, float32 is what is multiplied.
PRODUCTS = {"float16": "float16", "int8": "bytes"}
BITS = {"float32": 32, "float16": 16, "int8": 8}
# Layers that take more than this of the larger of their computation and their transfers are not overlapped.
OVERLAPPED = 1.1
OVERLAPPING = ("resnet18_int8", "resnet18_fp16")
# How far the sum that shapes tell may be from the count.
EXACT = 0.1
CHAIN = 262144  # elements
# Of the project's models: the input's shape, and what the products are of.
MODELS = {
    "resnet18_int8": ("input=1x3x224x224", "int8"),
    "resnet18_fp16": ("input=1x3x224x224", "float16"),
    "resnet18": ("input=1x3x224x224", "float32"),
    "mobilenet_v2": ("input=1x3x224x224", "float32"),
    "sample_cnn": ("image=1x3x32x32", "float32"),
    "bert2": ("input_ids=1x128,attention_mask=1x128,token_type_ids=1x128", "float32"),
    "yolo_v5n": ("images=1x3x640x640", "float32"),
    "lstm_acoustic": ("features=1x100x80", "float32"),
}
PAGE = ("resnet18_int8", "resnet18_fp16", "resnet18", "mobilenet_v2", "bert2", "yolo_v5n", "lstm_acoustic")


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


def write_half(path):
    """ResNet-18 with all weights and activations in float16."""
    import onnx
    from onnx import numpy_helper

    tool("aipu-make-model", "resnet18", "-o", path)
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float16"), tensor.name))
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    onnx.save(model, path)


def layers_of(name, folder, target=TARGET, backends=("interp",)):
    """The layers of a run of a model at its fixed shape, by each of the back ends."""
    onnx = pathlib.Path(folder) / f"{name}.onnx"
    shape = []
    if name == "chain":
        write_chain(onnx)
    else:
        if name == "resnet18_fp16":
            write_half(onnx)
        else:
            tool("aipu-make-model", name, "-o", onnx)
        shape = [part for text in MODELS[name][0].split(",") for part in ("--shape", text)]
    return layers_of_file(onnx, target, backends, shape)


def layers_of_file(onnx, target=TARGET, backends=("interp",), options=()):
    """The same of an ONNX file, converted with options of aipugb."""
    binary, result = onnx.with_suffix(".bin"), onnx.with_suffix(".json")
    tool("aipugb", onnx, "-o", binary, "--target", target, *options)
    found = []
    for backend in backends:
        tool("aipubench", binary, "--backend", backend, "--layers", "--duration", "0.001", "--json", result)
        found.append(json.loads(result.read_text())["layers"])
    return found


@functools.cache
def facts_of(target):
    """The paragraph of a target, as people read it."""
    text = tool("aipugb", "--targets")
    return re.search(rf"^{re.escape(target)}:.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL).group()


def tecs_of(target):
    """TECs in all."""
    row = facts_of(target)
    cores = re.search(r"in each of (\d+) cores", row)
    return int(re.search(r"(\d+) tec for launches", row).group(1)) * (int(cores.group(1)) if cores else 1)


def peak(kind, target):
    """Multiply-adds in a cycle, of all TECs."""
    row = facts_of(target)
    lanes = int(re.search(r"registers of (\d+) bits", row).group(1)) // 32
    products = re.search(r"dot products of ([a-z0-9 ]+)", row)
    dots = products is not None and kind in PRODUCTS and PRODUCTS[kind] in products.group(1).split(" and of ")
    return tecs_of(target) * lanes * (32 // BITS[kind] if dots else 1)


def utilisation(layer, kind, target=TARGET):
    return layer["operations"] / 2 / peak(kind, target) / max(layer["cycles"], 1)


def models(names):
    print("| model | cycles | multiply-adds of the peak |\n| -- | -: | -: |")
    for name in names or [*MODELS, "chain"]:
        with tempfile.TemporaryDirectory() as folder:
            (layers,) = layers_of(name, folder)
        whole = {"operations": sum(x["operations"] for x in layers), "cycles": sum(x["cycles"] for x in layers)}
        share = f"{100 * utilisation(whole, MODELS[name][1]):.1f} %" if name in MODELS else ""
        print(f"| {name} | {whole['cycles']:,} | {share} |", flush=True)


def layers(name):
    print("| kernel | cycles | compute | DMA | of the larger | multiply-adds of the peak | bound by |")
    print("| -- | -: | -: | -: | -: | -: | -- |")
    with tempfile.TemporaryDirectory() as folder:
        for layer in layers_of(name, folder)[0]:
            share = (
                f"{100 * utilisation(layer, MODELS[name][1]):.1f} %" if layer["operations"] and name in MODELS else ""
            )
            print(
                f"| {layer['kernel']} | {layer['cycles']:,} | {layer['compute_cycles']:,} | {layer['dma_cycles']:,} | "
                f"{of_larger(layer):.2f} | {share} | {layer['bound']} |"
            )


def what_of(layer):
    """A layer without the number of its kernel: targets number theirs differently."""
    template = re.sub(r"^k\d+_", "", layer["kernel"]).split("__")[0]
    node = re.match(r"'([^']*)'", layer["nodes"])
    return f"{template} {node.group(1).lstrip('/')}" if node else template


def of_larger(layer):
    """Of the larger of its parts, what a layer takes."""
    return layer["cycles"] / max(layer["compute_cycles"], layer["dma_cycles"], 1)


def overlapping(layers):
    """Those that transfer something beside their computation."""
    return [layer for layer in layers if layer["dma_cycles"] > 0]


HEAD = """# Models on NPUs, layer by layer

By `tests/bench/npu/cycles.py page > tests/bench/npu/MODELS.md`: batch 1, cycles by the timing model from shapes; what
the instructions of a layer and its DMA transfers would take alone, the share of the peak (of a native multiply-add per
TEC and cycle), and what bounds it: `compute` or `dma`, the larger of the two, or `waits`, where it takes more than 1.1
of that. Commands of one layer that share its name are one line, share and bound those of the longest.
"""


def page(names):
    """Of each model a line per layer, and per target its cycles, multiply-adds of the peak and what bounds it.

    Nothing is run: shapes tell the cycles.
    """
    if not names:
        print(HEAD)
    for name in names or PAGE:
        kind = MODELS[name][1]
        rows = {}
        totals = {}
        for target in TARGETS:
            with tempfile.TemporaryDirectory() as folder:
                (layers,) = layers_of(name, folder, target, ["estimate"])
            totals[target] = {key: sum(layer[key] for layer in layers) for key in ("operations", "cycles")}
            for layer in layers:
                share = f"{100 * utilisation(layer, kind, target):.0f} %" if layer["operations"] else ""
                cells = rows.setdefault(what_of(layer), {}).setdefault(target, [])
                cells.append((layer["cycles"], layer["compute_cycles"], layer["dma_cycles"], share, layer["bound"]))
        print(f"## {name}\n\nInputs {MODELS[name][0].replace(',', ', ')}.\n")
        print("| layer | " + " | ".join(f"{t} | compute | DMA | peak | bound" for t in TARGETS) + " |")
        print("| -- |" + " -: | -: | -: | -: | -- |" * len(TARGETS))
        for what, cells in rows.items():
            print(f"| {what} | " + " | ".join(cell_of(cells.get(target, [])) for target in TARGETS) + " |")
        sums = [f"{totals[t]['cycles']:,} | | | {100 * utilisation(totals[t], kind, t):.0f} % | " for t in TARGETS]
        print(f"| all | {' | '.join(sums)} |\n", flush=True)


def cell_of(commands):
    """Those of one layer: the cycles of all, the share and the bound of the longest."""
    if not commands:
        return " | | | | "
    *_, share, bound = max(commands)
    sums = [sum(command[i] for command in commands) for i in range(3)]
    return f"{' | '.join(f'{cycles:,}' for cycles in sums)} | {share} | {bound}"


def counted_and_told(name):
    with tempfile.TemporaryDirectory() as folder:
        return layers_of(name, folder, backends=("interp", "estimate"))


def distance(counted, told):
    """Of the sum that shapes tell from that of the count."""
    whole, by_shapes = (sum(layer["cycles"] for layer in layers) for layers in (counted, told))
    return by_shapes / whole - 1


def estimate(names):
    for name in names:
        counted, told = counted_and_told(name)
        print(f"| kernel of {name} | counted | by shapes | off |\n| -- | -: | -: | -: |")
        for a, b in zip(counted, told):
            print(f"| {a['kernel']} | {a['cycles']:,} | {b['cycles']:,} | {100 * distance([a], [b]):.1f} % |")
        whole = [sum(layer["cycles"] for layer in layers) for layers in (counted, told)]
        print(f"| all | {whole[0]:,} | {whole[1]:,} | {100 * distance(counted, told):.1f} % |\n", flush=True)


def check(names):
    """Whether every layer of OVERLAPPING overlaps its transfers with its computation, and shapes tell what a run
    counts.
    """
    problems = []
    for name in names or [*OVERLAPPING, "bert2"]:
        counted, told = counted_and_told(name)
        both = overlapping(counted)
        waiting = [layer for layer in both if of_larger(layer) > OVERLAPPED and name in OVERLAPPING]
        worst = max(both, key=of_larger)
        off = distance(counted, told)
        print(f"{name}: {len(counted)} commands, at most {of_larger(worst):.2f} of the larger of computation and DMA")
        print(f"{name}: shapes tell {100 * off:+.2f} % of the count", flush=True)
        problems += [f"{name}: {layer['kernel']} takes {of_larger(layer):.2f}" for layer in waiting]
        if abs(off) > EXACT:
            problems.append(f"{name}: shapes tell {100 * off:+.1f} %")
    if problems:
        raise SystemExit("\n".join(problems))


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
    for command in ("models", "page", "check"):
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
        {"models": models, "page": page, "estimate": estimate, "check": check}[options.command](options.names)


if __name__ == "__main__":
    main()
