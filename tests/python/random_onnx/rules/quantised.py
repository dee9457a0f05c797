"""Integers that stand for numbers."""

import numpy as np
from values import F16, F32, I8, I16, I32, U8, U16, Constant, Node, Refused

from rules.common import scalar
from rules.windows import window

# Scales are powers of two and numbers dyadic, so that what is rounded is not decided by rounding.


def scale_of(g, shape=(), dtype=F32):
    return Constant((2.0 ** g.numpy.integers(-3, 2, shape)).astype(dtype))


def zero_of(g, dtype, shape=()):
    return Constant(g.array(dtype, shape) % np.asarray(5, dtype))


def even_zero_of(g, dtype):
    """For operators that say nothing of ties, which ONNX Runtime rounds with the zero point added."""
    return Constant(np.array(g.one_of(0, 2, 4), dtype))


def per_axis(g, x, axis):
    """The shape of scales: of all, of an axis, of blocks along it."""
    return (x.shape[axis],) if g.chance(40) else ()


def quantise(g):
    x = g.floats(1, dtype=g.one_of(F32, F32, F32, F16), exact=True)
    axis = g.axis(x)
    kind = g.one_of(U8, I8, U8, I8, U16, I16)
    block = g.one_of(1, 2, x.shape[axis]) if g.chance(20) else 0
    if block:
        if x.shape[axis] % block or 0 in x.shape:
            raise Refused
        shape = list(x.shape)
        shape[axis] //= block
    else:
        shape = per_axis(g, x, axis)
    operands = [x, scale_of(g, shape, x.dtype), zero_of(g, kind, shape)]
    return Node("QuantizeLinear", operands, jumps=True, axis=axis, block_size=block or None)


def dequantise(g):
    x = g.pick(lambda v: v.dtype in (U8, I8, I32, U16, I16) and v.rank >= 1)
    axis = g.axis(x)
    shape = per_axis(g, x, axis)
    zero = [Constant(np.zeros(shape, I32) if x.dtype == I32 else g.array(x.dtype, shape))] if g.chance(70) else []
    return Node("DequantizeLinear", [x, scale_of(g, shape), *zero], keeps=True, axis=axis)


def dynamic(g):
    return Node("DynamicQuantizeLinear", [g.floats(1, dtype=F32, exact=True)], 3, jumps=True)


def integer_product(g):
    x = g.pick(lambda v: v.dtype in (U8, I8) and v.rank >= 2)
    if x.shape[-1] == 0:
        raise Refused  # ONNX Runtime gives what its memory held
    weight = Constant(g.array(g.one_of(U8, I8), (x.shape[-1], g.between(1, 5))))
    zeros = [scalar(g.between(0, 3), x.dtype), scalar(g.between(0, 3), weight.array.dtype)] if g.chance(60) else []
    return Node("MatMulInteger", [x, weight, *zeros])


def quantised_product(g):
    x = g.pick(lambda v: v.dtype in (U8, I8) and v.rank >= 2)
    if 0 in x.shape:
        raise Refused
    weight = Constant(g.array(g.one_of(U8, I8) if x.dtype == U8 else I8, (x.shape[-1], g.between(1, 5))))
    operands = [x, scale_of(g), zero_of(g, x.dtype), weight, scale_of(g), zero_of(g, weight.array.dtype)]
    return Node("QLinearMatMul", [*operands, scale_of(g), zero_of(g, x.dtype)])


def quantised_convolution(g):
    x = g.add_input(g.one_of(U8, U8, I8), (g.between(1, 2), g.between(1, 4), g.between(2, 6), g.between(2, 6)))
    kernel, outs = [g.between(1, 3), g.between(1, 2)], g.between(1, 4)
    weight = Constant(g.array(g.one_of(U8, I8) if x.dtype == U8 else I8, (outs, x.shape[1], *kernel)))
    scales = scale_of(g, (outs,) if weight.array.dtype == I8 and g.chance(50) else ())
    zero = Constant(np.zeros(scales.array.shape, weight.array.dtype))
    operands = [x, scale_of(g), zero_of(g, x.dtype), weight, scales, zero, scale_of(g), zero_of(g, x.dtype)]
    bias = [Constant(g.array(I32, (outs,)))] if g.chance(50) else []
    return Node("QLinearConv", [*operands, *bias], **window(g, x, kernel))


RULES = [*[quantise] * 2, *[dequantise] * 2, dynamic, integer_product, quantised_product, quantised_convolution]
