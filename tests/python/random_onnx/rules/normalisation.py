"""Normalisations, softmax, and losses that are made of it."""

import numpy as np
from values import F32, F64, I32, I64, Constant, Node, Refused

from rules.windows import image


def normalise(g):
    op = g.one_of("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "LRN",
                  "LpNormalization", "MeanVarianceNormalization", "RMSNormalization")  # fmt: skip
    x = g.floats(1) if op in ("LayerNormalization", "LpNormalization", "RMSNormalization") else image(g)
    if 0 in x.shape:
        raise Refused
    channels = x.shape[1] if x.rank > 1 else 1

    def per(count):
        return Constant(g.array(x.dtype, (count,)))

    if op == "BatchNormalization":
        variance = Constant(np.abs(g.array(x.dtype, (channels,))) + np.asarray(0.5, x.dtype))
        operands = [x, per(channels), per(channels), per(channels), variance]
        if g.chance(20) and x.dtype == F32:
            return Node(op, operands, 3, training_mode=1, epsilon=1e-2, momentum=g.one_of(0.9, 0.5))
        return Node(op, operands, epsilon=g.one_of(1e-5, 1e-2))
    if op == "InstanceNormalization":
        return Node(op, [x, per(channels), per(channels)], epsilon=1e-2)
    if op == "LayerNormalization":
        axis = g.axis(x)
        shape = x.shape[axis:]
        bias = Constant(g.array(x.dtype, shape)) if g.chance(60) else None
        return Node(op, [x, Constant(g.array(x.dtype, shape)), bias], axis=axis, epsilon=1e-2)
    if op == "RMSNormalization":
        axis = g.axis(x)
        return Node(op, [x, Constant(g.array(x.dtype, x.shape[axis:]))], axis=axis, epsilon=1e-2)
    if op == "GroupNormalization":
        if x.dtype == F64:
            raise Refused  # ONNX Runtime computes in float32, which stash_type asks for at least
        groups = g.one_of(*(d for d in range(1, 7) if channels % d == 0))
        return Node(op, [x, per(channels), per(channels)], num_groups=groups, epsilon=1e-2)
    if op == "LRN":
        return Node(op, [x], size=g.one_of(1, 3, 5), alpha=0.1, beta=0.75, bias=1.0)
    if op == "LpNormalization":
        axis = g.axis(x)
        if not x.exact and np.min(np.abs(x.array).max(axis)) < 1e-3:
            raise Refused  # what is rounding only would become large
        return Node(op, [x], axis=axis, p=g.one_of(1, 2))
    axes = g.some(range(x.rank), 1)
    if np.min(np.std(x.array.astype(np.float64), axis=tuple(axes))) < 1e-2:
        raise Refused  # ONNX Runtime's variance is below 0 then
    return Node(op, [x], axes=axes)


def softmax(g):
    x = g.floats(1)
    return Node(g.one_of("Softmax", "LogSoftmax", "Softmax"), [x], axis=g.axis(x))


def hardmax(g):
    x = g.floats(1, exact=True)
    return Node("Hardmax", [x], jumps=True, keeps=True, axis=g.axis(x))


def loss(g):
    op = g.one_of("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
    x = g.floats(2, 4)
    if 0 in x.shape:
        raise Refused
    labels = Constant(g.numpy.integers(0, x.shape[1], (x.shape[0], *x.shape[2:])).astype(g.one_of(I32, I64)))
    weights = [Constant(np.abs(g.array(x.dtype, (x.shape[1],))) + np.asarray(0.5, x.dtype))] if g.chance(50) else []
    ignored = g.one_of(None, None, int(labels.array.flat[0])) if labels.array.size > 2 else None
    if ignored is not None and np.all(labels.array == ignored):
        raise Refused  # a mean of nothing
    outputs = g.between(1, 2) if op.startswith("Softmax") else 1
    reduction = g.one_of("none", "sum", "mean")
    return Node(op, [x, labels, *weights], outputs, reduction=reduction, ignore_index=ignored)


RULES = [*[normalise] * 3, *[softmax] * 2, hardmax, loss]
