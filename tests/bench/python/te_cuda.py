#!/usr/bin/env python3
"""What kernels take on a GPU that the rules schedule: time, rate, and the error beside NumPy.

    tests/bench/python/te_cuda.py

Needs the package numpy, and PYTHONPATH=build/release/python.
"""

import aipu
import numpy as np
from aipu import te, topi

RNG = np.random.default_rng(1)


def given(*shape):
    return te.placeholder(shape, name="x"), RNG.uniform(-1, 1, shape).astype("float32")


def report(name, out, inputs, rows, flops=0):
    """``rows``: what the first ones have to be. Without ``flops`` the rate is of bytes, each read or written once."""
    function = aipu.build(topi.generic.schedule([out], "cuda"), [*(t for t, _ in inputs), out], "cuda")
    result = np.full([int(e) for e in out.shape], 77, "float32")
    arrays = [aipu.nd.array(a, aipu.cuda(0)) for a in (*(values for _, values in inputs), result)]
    function(*arrays)
    error = np.abs(arrays[-1].numpy()[: len(rows)] - rows).max() / np.abs(rows).max()
    took = function.time_evaluator(function.entry_name, aipu.cuda(0), number=3, repeat=5, min_repeat_ms=20)(*arrays)
    moved = sum(a.nbytes for _, a in inputs) + result.nbytes
    rate = f"{flops / took.median / 1e12:.1f} TFLOP/s" if flops else f"{moved / took.median / 1e12:.2f} TB/s"
    print(f"{name:34} {took.median * 1e3:8.4f} ms  {rate:13}  error {error:.0e}", flush=True)


def products(sizes=(1000, 1024, 2048, 4096)):
    for n in sizes:
        x, w = given(n, n), given(n, n)
        few = x[1][:16].astype("float64")
        report(f"matmul {n}", topi.nn.matmul(x[0], w[0]), [x, w], few @ w[1], 2 * n**3)
        report(f"dense {n}", topi.nn.dense(x[0], w[0]), [x, w], few @ w[1].T, 2 * n**3)


def convolution(batch=8, channels=64, size=56):
    x, w = given(batch, channels, size, size), given(channels, channels, 3, 3)
    padded = np.pad(x[1][:1].astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    exact = np.zeros((1, channels, size, size))
    for dy, dx in np.ndindex(3, 3):
        exact += np.einsum("nchw,oc->nohw", padded[:, :, dy : dy + size, dx : dx + size], w[1][:, :, dy, dx])
    out = topi.nn.relu(topi.nn.conv2d_nchw(x[0], w[0], 1, 1, 1))
    report("conv2d 3x3 and relu", out, [x, w], np.maximum(exact, 0), 2 * 9 * channels**2 * batch * size**2)


def memory(n=1 << 26, square=8192):
    x, y = given(n), given(n)
    double = te.compute((n,), lambda i: x[0][i] * 2.0 + y[0][i], name="double")
    report("x * 2 + y", double, [x, y], x[1][:64] * 2 + y[1][:64])
    x = given(square, square)
    report("sum of rows", topi.sum(x[0], axis=1), [x], x[1][:16].sum(1, dtype="float64"))
    report("sum of columns", topi.sum(x[0], axis=0), [x], x[1][:, :16].sum(0, dtype="float64"))
    for rows, length in ((square, square), (square, 1024), (512, square)):
        x, gamma, beta = given(rows, length), given(length), given(length)
        few = x[1][:16].astype("float64")
        e = np.exp(few)
        report(f"softmax {rows} x {length}", topi.nn.softmax(x[0]), [x], e / e.sum(1, keepdims=True))
        normal = (few - few.mean(1, keepdims=True)) / np.sqrt(few.var(1, keepdims=True) + 1e-5)
        out = topi.nn.layer_norm(x[0], gamma[0], beta[0], [1])
        report(f"layer_norm {rows} x {length}", out, [x, gamma, beta], normal * gamma[1] + beta[1])


if __name__ == "__main__":
    products()
    convolution()
    memory()
