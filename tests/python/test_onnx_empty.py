"""Tensors without elements: extents of 0 that are known, and such that only a run knows, wherever kernels divide by
extents or choose tiles."""

import itertools

import numpy as np
import pytest
from onnx_family import Family, floats

F32, I8, U8 = np.float32, np.int8, np.uint8
TARGETS = ["host", "X2_1204"]


@pytest.fixture
def random():
    return np.random.default_rng(3)


@pytest.fixture
def family():
    return Family(opset=21)


def both_ways(family, op, operands, expected, constants=(), **attributes):
    """With extents that are known, and with extents that only a run knows."""
    family.add(op, operands, expected, constants=constants, **attributes)
    open_axes = {
        i: [axis for axis, extent in enumerate(x.shape) if extent == 0]
        for i, x in enumerate(operands)
        if x is not None and i not in constants
    }
    family.add(op, operands, expected, constants=constants, symbols=open_axes, **attributes)


@pytest.mark.parametrize("target", TARGETS)
def test_moves(tmp_path, random, family, target):
    for shape in [(0, 5), (5, 0), (2, 0, 3), (3, 64, 0), (7, 0, 64, 33)]:
        x = np.zeros(shape, F32)
        for order in itertools.permutations(range(len(shape))):
            if order != tuple(range(len(shape))) and (len(shape) < 4 or order[0] == 3):
                both_ways(family, "Transpose", [x], x.transpose(order), perm=list(order))
        both_ways(family, "Add", [x, np.ones(shape[-1:], F32)], x, constants=[1])
        both_ways(family, "Softmax", [x], x, axis=0)
        both_ways(family, "LayerNormalization", [x, np.ones(shape[-1], F32)], x, constants=[1])
        zero = shape.index(0)
        sums = np.zeros([extent for extent in shape if extent], F32)
        both_ways(family, "ReduceSum", [x, np.array([zero])], sums, constants=[1], keepdims=0)
        both_ways(family, "ReduceMax", [x, np.array([zero])], sums - np.inf, constants=[1], keepdims=0)
    family.check(tmp_path, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_extremes_of_integers(tmp_path, random, family, target):
    """Of nothing the end of the type's own range; of numbers that are near the end these."""
    zero = np.array([0])
    for dtype in (np.int8, U8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
        least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
        nothing, of_nothing = np.zeros((0, 5), dtype), np.zeros(5, dtype)
        both_ways(family, "ReduceMax", [nothing, zero], of_nothing + least, constants=[1], keepdims=0)
        both_ways(family, "ReduceMin", [nothing, zero], of_nothing + greatest, constants=[1], keepdims=0)
        high = random.integers(greatest - 20, greatest, (4, 5), dtype, endpoint=True)
        low = random.integers(least, least + 20, (4, 5), dtype)
        family.add("ReduceMin", [high, zero], high.min(0), constants=[1], keepdims=0)
        family.add("ReduceMax", [low, zero], low.max(0), constants=[1], keepdims=0)
    family.check(tmp_path, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_products(tmp_path, random, family, target):
    for m, k, n in [(0, 8, 16), (4, 0, 16), (4, 8, 0), (0, 0, 0)]:
        a, b, c = floats(random, m, k), floats(random, k, n), floats(random, n)
        both_ways(family, "MatMul", [a, b], a @ b, constants=[1])
        both_ways(family, "MatMul", [a, b], a @ b)
        both_ways(family, "Gemm", [a.T, b.T, c], a @ b + c, constants=[1, 2], transA=1, transB=1)
        integers = [np.ones((m, k), U8), np.ones((k, n), I8)]
        both_ways(family, "MatMulInteger", integers, np.full((m, n), k, np.int32), constants=[1])
        scale, seven = F32(0.5), np.array(7, U8)  # ONNX Runtime gives 0 for sums over nothing, not the zero point
        quantized = [integers[0], scale, np.array(1, U8), integers[1], scale, np.array(1, I8), scale, seven]
        both_ways(family, "QLinearMatMul", quantized, np.full((m, n), 7, U8), constants=range(1, 8))
    family.check(tmp_path, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_windows(tmp_path, random, family, target):
    for batch, channels, results in [(0, 16, 16), (2, 0, 16), (2, 16, 0)]:
        x = floats(random, batch, channels, 8, 9)
        bias = floats(random, results)
        out = (batch, results, 4, 5)
        y = np.broadcast_to(bias[:, None, None], out)  # of no elements, or sums over no channels
        border = {"pads": [1] * 4, "strides": [2, 2]}
        both_ways(family, "Conv", [x, floats(random, results, channels, 3, 3), bias], y, constants=[1, 2], **border)
        if channels == results:
            w = floats(random, 16, 1, 3, 3)
            both_ways(family, "Conv", [x, w, bias], y, constants=[1, 2], group=16, **border)
            bytes_of = [x.astype(U8), w.astype(I8)]
            both_ways(family, "ConvInteger", bytes_of, y.astype(np.int32), constants=[1], group=16, **border)
        if batch * channels == 0:
            small = np.zeros((batch, channels, *out[2:]), F32)
            both_ways(family, "MaxPool", [x], small, kernel_shape=[3, 3], **border)
            both_ways(family, "AveragePool", [x], small, kernel_shape=[3, 3], **border)
    family.check(tmp_path, target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_recurrent(tmp_path, random, family, target):
    for steps, batch in [(0, 2), (3, 0)]:
        x = floats(random, steps, batch, 4)
        states = [np.zeros((steps, 1, batch, 8), F32), np.zeros((1, batch, 8), F32), np.zeros((1, batch, 8), F32)]
        weights = [floats(random, 1, 32, 4), floats(random, 1, 32, 8)]
        both_ways(family, "LSTM", [x, *weights], states, constants=[1, 2], hidden_size=8)
        weights = [floats(random, 1, 24, 4), floats(random, 1, 24, 8)]
        both_ways(family, "GRU", [x, *weights], states[:2], constants=[1, 2], hidden_size=8)
    family.check(tmp_path, target=target)
