"""Element by element."""

import numpy as np
from values import BOOL, F16, F32, F64, I64, NUMBERS, ONNX_TYPES, TEXT, TYPES, Constant, Node, Refused

from rules.common import scalar

FLOAT_UNARY = (
    "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Elu Erf Exp Gelu HardSigmoid HardSwish LeakyRelu Log Mish Reciprocal "
    "Selu Sigmoid Sin Sinh Softplus Softsign Sqrt Tan Tanh Celu Swish"
).split()


def unary(g):
    op, x = g.one_of(*FLOAT_UNARY), g.floats()
    if op in ("Log", "Reciprocal", "Sqrt") and not x.exact and np.any(np.abs(x.array) < 1e-3):
        raise Refused  # which is rounding only
    return Node(op, [x])


def unary_exact(g):
    op = g.one_of("Abs", "Neg", "Identity", "Relu")
    return Node(op, [g.any() if op == "Identity" else g.numbers()], keeps=True)


def unary_that_jumps(g):
    op = g.one_of("Floor", "Ceil", "Round", "Sign", "IsNaN", "IsInf", "Not", "BitwiseNot", "Shrink", "ThresholdedRelu")
    if op == "Not":
        return Node(op, [g.bools()])
    if op == "BitwiseNot":
        return Node(op, [g.integers()])
    x = g.numbers(exact=True) if op in ("Sign", "Shrink") else g.floats(exact=True)
    return Node(op, [x], jumps=True, keeps=True)


def binary(g):
    op = g.one_of("Add", "Sub", "Mul", "Add", "Mul", "Max", "Min")
    x = g.numbers()
    operands = [x, g.partner(x)]
    return Node(op, operands if g.chance(70) else operands[::-1], keeps=True)


def divide(g):
    x = g.numbers()
    return Node("Div", [x, g.partner(x, nonzero=True)])


def modulo(g):
    x = g.numbers(exact=True)
    if x.dtype.kind == "f":
        return Node("Mod", [x, g.partner(x, exact=True, nonzero=True)], jumps=True, keeps=True, fmod=1)
    return Node("Mod", [x, g.partner(x, nonzero=True)], fmod=g.below(2))


def power(g):
    x = g.pick(lambda v: v.dtype in (F32, F64, F16, I64, np.dtype("int32")))
    return Node("Pow", [x, Constant(np.array(g.one_of(2, 3, 0, 1), g.one_of(x.dtype, F32, I64)))])


def many(g):
    x = g.floats()
    return Node(g.one_of("Sum", "Mean", "Max", "Min"), [x] + [g.partner(x) for _ in range(g.between(0, 3))])


def prelu(g):
    x = g.floats(1)
    shape = [1 if g.chance(50) else extent for extent in x.shape][g.below(x.rank) :]
    return Node("PRelu", [x, Constant(g.array(x.dtype, shape))])


def bits(g):
    x = g.integers()
    if (x.dtype.kind == "u" or g.opset >= 26) and g.chance(50):
        by = Constant(g.numpy.integers(0, 8, x.shape).astype(x.dtype))
        return Node("BitShift", [x, by], direction=g.one_of("LEFT", "RIGHT"))
    return Node(g.one_of("BitwiseAnd", "BitwiseOr", "BitwiseXor"), [x, g.partner(x)])


def logic(g):
    x = g.bools()
    return Node(g.one_of("And", "Or", "Xor", "Equal"), [x, g.partner(x)])


def compare(g):
    x = g.numbers(exact=True)
    op = g.one_of("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")
    return Node(op, [x, g.partner(x, exact=True)], jumps=True)


def where(g):
    x = g.any()
    shape = [1 if g.chance(30) else extent for extent in x.shape]
    flags = [v for v in g.pool if v.dtype == BOOL and v.shape == x.shape]
    condition = g.one_of(*flags) if flags and g.chance(70) else Constant(g.array(BOOL, shape))
    return Node("Where", [condition, x, g.partner(x)], keeps=True)


def clip(g):
    x = g.numbers()
    low, high = scalar(g.between(-2, 1) if x.dtype.kind != "u" else 1, x.dtype), scalar(g.between(1, 4), x.dtype)
    return Node("Clip", [x, low if g.chance(80) else None, high if g.chance(80) else None], keeps=True)


def cast(g):
    x = g.pick(lambda v: v.dtype != TEXT)
    to = g.one_of(*TYPES)
    if x.dtype.kind == "f" and to.kind in "iu":  # what does not fit is anybody's
        if not np.all(x.array >= (0 if to.kind == "u" else -100)) or not np.all(x.array <= 100):
            raise Refused
    if x.dtype.kind == "f" and to == F16 and np.any(np.abs(x.array) > 1e3):
        raise Refused
    if g.chance(20):
        return Node("CastLike", [x, Constant(np.zeros(1, to))], jumps=to.kind != "f", keeps=True)
    return Node("Cast", [x], jumps=to.kind != "f", keeps=True, to=ONNX_TYPES[to])


def bit_cast(g):
    """Between types of one size; of floats the bits are exact only if the numbers are."""
    x = g.pick(lambda v: v.dtype in NUMBERS and v.exact)
    to = g.one_of(*(t for t in NUMBERS if t.itemsize == x.dtype.itemsize and t.kind != "f"))
    return Node("BitCast", [x], jumps=True, keeps=True, to=ONNX_TYPES[to])


def dropout(g):
    x = g.floats()
    operands = [x, scalar(0.25, F32), scalar(False, BOOL)][: g.between(1, 3)]
    return Node("Dropout", operands, g.between(1, 2), keeps=True, seed=g.one_of(None, 3))


def swiglu(g):
    x = g.floats()
    return Node("SwiGLU", [x, Constant(g.array(x.dtype, x.shape))], alpha=g.one_of(None, 1.702))


RULES = [
    *[unary] * 5, *[unary_exact] * 2, *[binary] * 7, *[unary_that_jumps] * 3, *[cast] * 4, *[compare] * 3, bit_cast,
    *[bits] * 2, clip, divide, dropout, *[logic] * 2, many, modulo, power, prelu, swiglu, *[where] * 2,
]  # fmt: skip
