"""Spectra, and windows for them."""

import numpy as np
from values import F32, F64, I32, I64, ONNX_TYPES, Constant, Node, Refused

from rules.common import scalar


def fourier(g):
    dtype = g.one_of(F32, F32, F64)
    complex_ = g.chance(40)
    x = g.add_input(dtype, (*g.shape(1, 3), 2 if complex_ else 1), 0)  # a length has its table
    if 0 in x.shape:
        raise Refused
    axis = g.between(0, x.rank - 2)
    length = [scalar(g.between(1, 6), I64, known=True)] if g.chance(40) else [None]
    inverse = g.below(2) if complex_ else 0
    onesided = 0 if complex_ or inverse else g.below(2)
    return Node("DFT", [x, *length, scalar(axis, I64, known=True)], inverse=inverse, onesided=onesided)


def short_time(g):
    dtype = g.one_of(F32, F32, F64)
    frame = g.one_of(4, 6, 8)
    x = g.add_input(dtype, (g.between(1, 2), frame + g.between(0, 9), 1), 1)
    if g.chance(60):
        operands = [
            Constant(np.abs(g.array(dtype, (frame,)))),
            scalar(frame, I64, known=True) if g.chance(50) else None,
        ]
    else:
        operands = [None, scalar(frame, I64, known=True)]
    return Node("STFT", [x, scalar(g.between(1, 4), I64), *operands], onesided=g.below(2))


def weights(g):
    size = scalar(g.between(1, 9), g.one_of(I32, I64))
    return Node(g.one_of("HannWindow", "HammingWindow", "BlackmanWindow"), [size], periodic=g.below(2),
                output_datatype=g.one_of(None, ONNX_TYPES[F32], ONNX_TYPES[F64]))  # fmt: skip


def mel(g):
    bins, length, rate = g.between(2, 6), g.one_of(16, 32), g.one_of(8000, 16000)
    low, high = g.one_of(0.0, 100.0), rate / g.one_of(2, 3)
    operands = [scalar(bins, I64), scalar(length, I64), scalar(rate, I64), scalar(low, F32), scalar(high, F32)]
    return Node("MelWeightMatrix", operands, output_datatype=g.one_of(None, ONNX_TYPES[F32], ONNX_TYPES[F64]))


RULES = [fourier, short_time, weights, mel]
