#!/usr/bin/env python3
"""Tensor expressions without a schedule beside our templates of the same operator, and beside TVM; as Markdown.

    tests/bench/python/te_rules.py                  # seconds on this CPU
    tests/bench/python/te_rules.py --cycles         # cycles of X2_1204 by its timing model, smaller shapes
    tests/bench/python/te_rules.py --tvm PYTHON     # and TVM of another Python: default schedules of create_prim_func
    tests/bench/python/te_rules.py [...] NAME...    # these operators alone

Needs the packages onnx and numpy, and PYTHONPATH=build/release/python. Sides run in turns in one process, figures
(the ratio, too) are medians; TVM's in a process of its own, one call after the other.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

# Of each operator: the node, the shapes of its inputs and output, and the same as an expression in the names that
# aipu and TVM share.
SHAPES = {
    "matmul": ([(512, 512), (512, 512)], [(64, 64), (64, 64)]),
    "conv2d": ([(1, 32, 56, 56), (32, 32, 3, 3)], [(1, 8, 16, 16), (8, 8, 3, 3)]),
    "softmax": ([(512, 1000)], [(16, 1000)]),
    "layer_norm": ([(512, 768), (768,), (768,)], [(16, 768), (768,), (768,)]),
    "reduce_rows": ([(1024, 1024)], [(64, 1024)]),
    "reduce_columns": ([(1024, 1024)], [(64, 1024)]),
    "chain": ([(1 << 20,), (1 << 20,)], [(16384,), (16384,)]),
}


def expression(name, shapes, te):
    """The tensors of an operator: inputs, then the output."""
    inputs = [te.placeholder(s, name=f"x{i}", dtype="float32") for i, s in enumerate(shapes)]
    x = inputs[0]
    rows, columns = (list(shapes[0]) + [1, 1])[:2]
    if name == "matmul":
        k = te.reduce_axis((0, columns), "k")
        out = te.compute((rows, shapes[1][1]), lambda i, j: te.sum(x[i, k] * inputs[1][k, j], axis=k), name="out")
    elif name == "conv2d":
        _, channels, height, width = shapes[0]
        padded = te.compute(
            (1, channels, height + 2, width + 2),
            lambda n, c, y, z: te.if_then_else(
                te.all(y >= 1, y < height + 1, z >= 1, z < width + 1), x[n, c, y - 1, z - 1], 0.0
            ),
            name="padded",
        )
        c, v, w = te.reduce_axis((0, channels), "c"), te.reduce_axis((0, 3), "v"), te.reduce_axis((0, 3), "w")
        out = te.compute(
            (1, shapes[1][0], height, width),
            lambda n, f, y, z: te.sum(padded[n, c, y + v, z + w] * inputs[1][f, c, v, w], axis=[c, v, w]),
            name="out",
        )
    elif name == "softmax":
        k, m = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "m")
        largest = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="largest")
        power = te.compute((rows, columns), lambda i, j: te.exp(x[i, j] - largest[i]), name="power")
        total = te.compute((rows,), lambda i: te.sum(power[i, m], axis=m), name="total")
        inverse = te.compute((rows,), lambda i: 1 / total[i], name="inverse")
        out = te.compute((rows, columns), lambda i, j: power[i, j] * inverse[i], name="out")
    elif name == "layer_norm":
        k, m = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "m")
        total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="total")
        mean = te.compute((rows,), lambda i: total[i] / float(columns), name="mean")
        squares = te.compute(
            (rows,), lambda i: te.sum((x[i, m] - mean[i]) * (x[i, m] - mean[i]), axis=m), name="squares"
        )
        scale = te.compute((rows,), lambda i: te.rsqrt(squares[i] / float(columns) + 1e-5), name="scale")
        out = te.compute(
            (rows, columns), lambda i, j: (x[i, j] - mean[i]) * scale[i] * inputs[1][j] + inputs[2][j], name="out"
        )
    elif name == "reduce_rows":
        k = te.reduce_axis((0, columns), "k")
        out = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="out")
    elif name == "reduce_columns":
        k = te.reduce_axis((0, rows), "k")
        out = te.compute((columns,), lambda j: te.sum(x[k, j], axis=k), name="out")
    else:
        product = te.compute(shapes[0], lambda i: x[i] * inputs[1][i], name="product")
        total = te.compute(shapes[0], lambda i: product[i] + x[i], name="total")
        out = te.compute(shapes[0], lambda i: te.max(total[i], te.const(0, "float32")), name="out")
    return [*inputs, out]


def model_of(name, shapes, output):
    """The same as an ONNX model."""
    from onnx import TensorProto, helper, numpy_helper

    names = [f"x{i}" for i in range(len(shapes))]
    constants = []
    if name == "matmul":
        nodes = [helper.make_node("MatMul", names, ["out"])]
    elif name == "conv2d":
        nodes = [helper.make_node("Conv", names, ["out"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])]
    elif name == "softmax":
        nodes = [helper.make_node("Softmax", names, ["out"], axis=-1)]
    elif name == "layer_norm":
        nodes = [helper.make_node("LayerNormalization", names, ["out"], axis=-1, epsilon=1e-5)]
    elif name.startswith("reduce"):
        constants = [numpy_helper.from_array(np.array([name == "reduce_rows"], "int64"), "axes")]
        nodes = [helper.make_node("ReduceSum", [*names, "axes"], ["out"], keepdims=0)]
    else:
        nodes = [
            helper.make_node("Mul", names, ["product"]),
            helper.make_node("Add", ["product", names[0]], ["total"]),
            helper.make_node("Relu", ["total"], ["out"]),
        ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes)]
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, output)
    graph = helper.make_graph(nodes, name, values, [out], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def seconds_of(call, least=0.02):
    """Of one call, from as many as take some time."""
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    count = max(1, min(1000, int(least / max(once, 1e-7))))
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def measure_tvm(names):
    """Run by another Python: a JSON line per operator with seconds of compilation and of a call."""
    import tvm
    from tvm import te

    target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})
    for name in names:
        shapes = SHAPES[name][0]
        tensors = expression(name, shapes, te)
        start = time.perf_counter()
        built = tvm.compile(tvm.IRModule({"main": te.create_prim_func(tensors)}), target=target)
        compiled = time.perf_counter() - start
        shape = [int(e) for e in tensors[-1].shape]
        generator = np.random.default_rng(1)
        arrays = [generator.uniform(-1, 1, s).astype("float32") for s in shapes] + [np.zeros(shape, "float32")]
        made = [tvm.runtime.tensor(a) if hasattr(tvm.runtime, "tensor") else tvm.nd.array(a) for a in arrays]
        runs = [seconds_of(lambda built=built, made=made: built(*made)) for _ in range(5)]
        print(json.dumps([name, compiled, statistics.median(runs)]), flush=True)


def beside_tvm(python, names):
    command = [python, __file__, "--as-tvm", *names]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return {name: (compiled, run) for name, compiled, run in map(json.loads, lines)}


class Case:
    """An operator by the rules, and by the template."""

    def __init__(self, name, target, small, folder):
        import aipu
        from aipu import te, topi

        self.name, self.aipu, self.target = name, aipu, target
        self.shapes = SHAPES[name][1 if small else 0]
        self.tensors = expression(name, self.shapes, te)
        start = time.perf_counter()
        self.function = aipu.build(topi.generic.schedule([self.tensors[-1]], target), self.tensors, target).entry_func
        self.compiled = time.perf_counter() - start
        self.shape = [int(e) for e in self.tensors[-1].shape]
        generator = np.random.default_rng(1)
        self.inputs = [generator.uniform(-1, 1, s).astype("float32") for s in self.shapes]
        self.out = np.zeros(self.shape, "float32")
        self.path = f"{folder}/{name}.bin"
        aipu.build(model_of(name, self.shapes, self.shape), self.path, target=target)
        self.feeds = {f"x{i}": x for i, x in enumerate(self.inputs)}

    def check(self):
        """Both say the same."""
        self.function(*self.inputs, self.out)
        (expected,) = self.aipu.load(self.path).run(self.feeds).values()
        np.testing.assert_allclose(self.out, expected, rtol=1e-3, atol=1e-3)

    def seconds(self, turns=15):
        session = self.aipu.load(self.path)
        values = [v for v, _ in self.function.bind([*self.inputs, self.out])]
        sides = [lambda: session.run(self.feeds), lambda: self.function.executor(*values)]
        runs = [[seconds_of(side) for side in sides] for _ in range(turns)]
        template, rules = (statistics.median(column) for column in zip(*runs))
        return template, rules, statistics.median(a / b for a, b in runs)

    def cycles(self):
        session = self.aipu.load(self.path, backend="interp").session(cycles=True)
        session.run(self.feeds)
        values = [v for v, _ in self.function.bind([*self.inputs, self.out])]
        rules = self.function.executor.profile(*values)
        return session.cycles, rules, session.cycles / rules


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", action="store_true")
    parser.add_argument("--tvm", default="")
    parser.add_argument("--as-tvm", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    names = options.names or list(SHAPES)
    if options.as_tvm:
        return measure_tvm(names)
    tvm = beside_tvm(options.tvm, names) if options.tvm else {}
    unit = "cycles" if options.cycles else "us"
    more = " TVM | TVM / te | compilation s | TVM's |" if tvm else ""
    print(f"| operator | template {unit} | te by rules | template / te |{more}")
    print("| -- | -: | -: | -: |" + " -: | -: | -: | -: |" * bool(tvm))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AIPU_CACHE_DIR"] = f"{folder}/cache"  # so that everything is compiled
        for name in names:
            case = Case(name, "X2_1204" if options.cycles else "host", options.cycles, folder)
            case.check()
            template, rules, ratio = case.cycles() if options.cycles else case.seconds()
            scale = 1 if options.cycles else 1e6
            template, rules = scale * template, scale * rules
            line = f"| {name} | {template:,.0f} | {rules:,.0f} | {ratio:.2f} |"
            if name in tvm:
                compiled, run = tvm[name]
                line += f" {run * 1e6:,.0f} | {run * 1e6 / rules:.2f} | {case.compiled:.2f} | {compiled:.2f} |"
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
