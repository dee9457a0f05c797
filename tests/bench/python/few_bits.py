"""Bytes of weights per second of products of few rows with weights of 4 or 8 bits, beside what memory gives.

    PYTHONPATH=build/release/python:tests/python python3 tests/bench/python/few_bits.py [--rows 1,4] [--threads 1,2]

A chain of MatMulNBits (K = N = 4096, blocks of 32, float32 scales), or of what --weights says, whose weights do not fit
the caches is run in turns with a loop of C that reads as many bytes, by as many threads; after them, where it is
installed and has the operator, ONNX Runtime, whose threads wait in loops and would take CPUs from the others. A line
for each number of rows and threads: medians in GB/s, of codes and scales, and their share of what the loop reads. With
--float32 also the same chain with float32 weights, in milliseconds beside ours: for many rows.
"""

import argparse
import ctypes
import functools
import os
import statistics
import subprocess
import tempfile
import threading
import time

import aipu
import numpy as np
from onnx_text import Raw, node, write_model

READER = r"""
#include <stddef.h>
typedef long long v8 __attribute__((vector_size(64), aligned(8)));
long long read_all(const char *p, size_t bytes) {
  v8 a = {0}, b = {0}, c = {0}, d = {0};
  const v8 *at = (const v8 *)p, *end = (const v8 *)(p + bytes / 256 * 256);
  for (; at < end; at += 4) {
    __builtin_prefetch((const char *)at + 4096);
    __builtin_prefetch((const char *)at + 4160);
    __builtin_prefetch((const char *)at + 4224);
    __builtin_prefetch((const char *)at + 4288);
    a += at[0]; b += at[1]; c += at[2]; d += at[3];
  }
  a += b + c + d;
  return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
}
"""


def compiled_reader(folder):
    source, library = os.path.join(folder, "reader.c"), os.path.join(folder, "reader.so")
    with open(source, "w") as file:
        file.write(READER)
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O2", "-march=native", "-shared", "-fPIC", source, "-o", library], check=True)
    function = ctypes.CDLL(library).read_all
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_longlong
    return function


def read_by_threads(reader, buffer, threads):
    share = buffer.nbytes // threads // 256 * 256
    workers = [threading.Thread(target=reader, args=(buffer.ctypes.data + k * share, share)) for k in range(1, threads)]
    for worker in workers:
        worker.start()
    reader(buffer.ctypes.data, share)
    for worker in workers:
        worker.join()


# --weights: bits; the kind of MatMulBnb4.
FLOATS = {"float4e2m1": 4, "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8}
BNB4 = {"fp4": 0, "nf4": 1}


class Layer:
    """Constants, the bytes of them that are codes and scales, and the nodes of a layer."""

    def __init__(self, arguments, random):
        size, block = arguments.size, arguments.block
        bits = FLOATS.get(arguments.weights, 4 if arguments.weights in BNB4 else arguments.bits)
        codes = random.integers(0, 256, size * size * bits // 8, np.uint8)
        if arguments.weights.startswith("float8"):
            codes &= 0xBB  # neither NaN nor infinity
        self.scales = (random.random((size, size // block), np.float32) * 0.006).astype(np.float32)
        self.codes, self.bits, self.arguments = codes, bits, arguments
        self.bytes = codes.nbytes + self.scales.nbytes

    def add(self, k, value, result, nodes, constants):
        size, block = self.arguments.size, self.arguments.block
        kind, codes, scales = self.arguments.weights, f"codes{k}", f"scales{k}"
        sizes = {"K": size, "N": size, "block_size": block}
        if kind in FLOATS:
            constants |= {codes: Raw(kind, (size, size), self.codes.tobytes()), scales: self.scales}
            nodes.append(node("DequantizeLinear", [codes, scales], [f"w{k}"], axis=1, block_size=block))
            nodes.append(node("Gemm", [value, f"w{k}"], [result], transB=1))
        elif kind in BNB4:
            constants |= {codes: self.codes, scales: self.scales.reshape(-1)}
            sizes["quant_type"] = BNB4[kind]
            nodes.append(node("MatMulBnb4", [value, codes, scales], [result], "com.microsoft", **sizes))
        else:
            constants |= {codes: self.codes.reshape(size, size // block, -1), scales: self.scales}
            sizes |= {"bits": self.bits, "accuracy_level": self.arguments.accuracy_level}
            nodes.append(node("MatMulNBits", [value, codes, scales], [result], "com.microsoft", **sizes))


def write_chain(path, arguments, rows):
    """Returns the bytes of the codes and scales."""
    random = np.random.default_rng(1)
    nodes, constants, value, total = [], {}, "x", 0
    for k in range(arguments.layers):
        layer = Layer(arguments, random)
        layer.add(k, value, f"y{k}", nodes, constants)
        total += layer.bytes
        value = f"y{k}"
    shape = [rows, arguments.size]
    write_model(path, nodes, [("x", "float32", shape)], [(value, "float32", shape)], constants, opset=23)
    return total


def write_dense_chain(path, arguments, rows):
    """The same with float32 weights, of two layers that all others share: many rows do not wait for memory."""
    random = np.random.default_rng(1)
    size, value, nodes = arguments.size, "x", []
    constants = {f"w{k}": random.standard_normal((size, size), np.float32) * np.float32(0.01) for k in range(2)}
    for k in range(arguments.layers):
        nodes.append(node("MatMul", [value, f"w{k % 2}"], [f"y{k}"]))
        value = f"y{k}"
    shape = [rows, size]
    write_model(path, nodes, [("x", "float32", shape)], [(value, "float32", shape)], constants)


def ort_session(path, threads):
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) or "not supported" in str(error) or "INVALID_GRAPH" in str(error):
            return None
        raise


def seconds(turns, count, choose):
    """Of each function: what ``choose`` takes of its times. They are run in turns; the first two do not count."""
    times = {name: [] for name in turns}
    for turn in range(count + 2):
        for name, function in turns.items():
            start = time.perf_counter()
            function()
            if turn > 1:
                times[name].append(time.perf_counter() - start)
    return {name: choose(taken) for name, taken in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default="1,2,4,8")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--layers", type=int, default=40)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--weights", default="int", choices=["int", *FLOATS, *BNB4])
    parser.add_argument("--float32", action="store_true", help="beside the same products of float32 weights")
    parser.add_argument("--accuracy-level", type=int, default=0, help="of MatMulNBits; 4: x may have 8 bits")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--best", action="store_true", help="the best turn instead of the median, on a busy machine")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        reader = compiled_reader(folder)
        for rows in map(int, arguments.rows.split(",")):
            path = os.path.join(folder, "chain.onnx")
            total = write_chain(path, arguments, rows)
            output = os.path.join(folder, "chain.aipu.bin")
            aipu.build(path, output)
            dense = os.path.join(folder, "dense.aipu.bin")
            if arguments.float32:
                write_dense_chain(path + ".dense", arguments, rows)
                aipu.build(path + ".dense", dense)
            buffer = np.ones(total // 8, np.int64)
            x = np.random.default_rng(2).standard_normal((rows, arguments.size)).astype(np.float32)
            for threads in map(int, arguments.threads.split(",")):
                # Into memory, which has large pages, as the buffer of the loop has.
                model = aipu.load(output, copy=True).session(threads=threads)
                turns = {
                    "memory": functools.partial(read_by_threads, reader, buffer, threads),
                    "aipu": functools.partial(model.run, {"x": x}),
                }
                if arguments.float32:
                    floats = aipu.load(dense, copy=True).session(threads=threads)
                    turns["float32"] = functools.partial(floats.run, {"x": x})
                choose = min if arguments.best else statistics.median
                taken = seconds(turns, arguments.turns, choose)
                other = ort_session(path, threads)
                if other is not None:
                    turn = {"onnxruntime": functools.partial(other.run, None, {"x": x})}
                    taken |= seconds(turn, arguments.turns, choose)
                    mine, theirs = next(iter(model.run({"x": x}).values())), other.run(None, {"x": x})[0]
                    tolerance = 1e-3 if arguments.accuracy_level < 4 else 0.3
                    np.testing.assert_allclose(mine, theirs, atol=tolerance * np.abs(theirs).max())
                    del other, turn
                speeds = {name: total / spent / 1e9 for name, spent in taken.items() if name != "float32"}
                shares = [f"{name} {speed:.1f} ({speed / speeds['memory']:.0%})" for name, speed in speeds.items()]
                if arguments.float32:
                    ratio = taken["float32"] / taken["aipu"]
                    shares += [f"ms {taken['aipu'] * 1e3:.2f}, float32's {taken['float32'] * 1e3:.2f} ({ratio:.2f})"]
                print(f"rows {rows}, threads {threads}: GB/s {', '.join(shares)}", flush=True)


if __name__ == "__main__":
    main()
