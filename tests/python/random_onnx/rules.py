"""The nodes that random graphs are made of. A rule takes the generator and draws a Node, or raises Refused."""

import numpy as np
from generator import BOOL, F16, F32, F64, I32, I64, U8, Constant, Node, Refused

FLOAT_UNARY = (
    "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Elu Erf Exp Gelu HardSigmoid HardSwish LeakyRelu Log Mish Reciprocal "
    "Selu Sigmoid Sin Sinh Softplus Softsign Sqrt Tan Tanh Celu"
).split()
REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum".split()
)
REDUCTIONS.append("ReduceSumSquare")
TYPES = [F32, F64, F16, I64, I32, U8, BOOL, *map(np.dtype, ("int8", "int16", "uint16", "uint32", "uint64"))]
ONNX_TYPES = dict(zip(TYPES, (1, 11, 10, 7, 6, 2, 9, 3, 5, 4, 12, 13)))


def ints(*values):
    return Constant(np.array(values, np.int64))


def listed(values, known=False):
    return Constant(np.array(values, np.int64), known)


def scalar(value, dtype):
    return Constant(np.array(value, dtype))


# ---- elementwise


def unary(g):
    return Node(g.one_of(*FLOAT_UNARY), [g.floats()])


def unary_exact(g):
    return Node(g.one_of("Abs", "Neg", "Identity", "Relu"), [g.numbers()], keeps=True)


def unary_that_jumps(g):
    op = g.one_of("Floor", "Ceil", "Round", "Sign", "IsNaN", "IsInf", "Not", "BitwiseNot", "Shrink", "ThresholdedRelu")
    if op == "Not":
        return Node(op, [g.bools()])
    if op == "BitwiseNot":
        return Node(op, [g.integers()])
    x = g.numbers(exact=True) if op == "Sign" else g.floats(exact=True)
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
    x = g.numbers()
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
    if x.dtype.kind == "u" and g.chance(50):
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
    x = g.any()
    to = g.one_of(*TYPES)
    if x.dtype.kind == "f" and to.kind in "iu":  # what does not fit is anybody's
        if not np.all(x.array >= (0 if to.kind == "u" else -100)) or not np.all(x.array <= 100):
            raise Refused
    if x.dtype.kind == "f" and to == F16 and np.any(np.abs(x.array) > 1e3):
        raise Refused
    if g.chance(20):
        return Node("CastLike", [x, Constant(np.zeros(1, to))], jumps=to.kind != "f", keeps=True)
    return Node("Cast", [x], jumps=to.kind != "f", keeps=True, to=ONNX_TYPES[to])


# ---- products


def matmul(g):
    x = g.floats(1)
    k = x.shape[-1]
    shape = (k,) if g.chance(10) else (k, g.between(1, 6))
    if x.rank > 2 and g.chance(30):
        shape = (*(extent if g.chance(70) else 1 for extent in x.shape[:-2]), *shape)
    found = [v for v in g.pool if v.dtype == x.dtype and v.rank >= 2 and v.shape[-2] == k]
    other = g.one_of(*found) if found and g.chance(40) else Constant(g.array(x.dtype, shape))
    return Node("MatMul", [x, other], keeps=True)


def gemm(g):
    a = g.floats(2, 2)
    ta, tb = g.below(2), g.below(2)
    m, k = a.shape[::-1] if ta else a.shape
    n = g.between(1, 6)
    b = Constant(g.array(a.dtype, (n, k) if tb else (k, n)))
    c = Constant(g.array(a.dtype, g.one_of((), (1,), (n,), (m, 1), (1, n), (m, n)))) if g.chance(70) else None
    alpha, beta = g.one_of(1.0, 0.5, -2.0), g.one_of(1.0, 1.0, 0.25)
    return Node("Gemm", [a, b, c], keeps=True, transA=ta, transB=tb, alpha=alpha, beta=beta)


def einsum(g):
    x = g.floats(2, 3)
    if x.rank == 2:
        equation = g.one_of("ij->ji", "ij->j", "ij->", "ij,jk->ik", "ij,ij->i", "ij,kj->ki", "ij,jk,kl->il", "ii->i")
    else:
        equation = g.one_of("bij->bji", "bij,bjk->bik", "bij,jk->bik", "...ij,...jk->...ik", "bij->b", "bij,bij->bi")
    extents = dict(zip(equation.split("->")[0].split(",")[0].replace("...", "b"), x.shape))
    operands = [x]
    for term in equation.split("->")[0].split(",")[1:]:
        shape = [extents.setdefault(letter, g.between(1, 4)) for letter in term.replace("...", "b")]
        operands.append(Constant(g.array(x.dtype, shape)))
    return Node("Einsum", operands, equation=equation)


def window(g, x, kernel, dilated_with_auto_pad=True):
    """strides, dilations, pads or auto_pad; of windows that are larger than the image everybody makes another thing."""
    spatial = x.rank - 2
    attributes = {"kernel_shape": list(kernel), "strides": [g.one_of(1, 1, 2, 3) for _ in range(spatial)]}
    if g.chance(50):
        attributes["dilations"] = [g.one_of(1, 1, 2) for _ in range(spatial)]
    choice = g.below(4)
    if choice == 0:
        attributes["pads"] = [g.below(kernel[k % spatial]) for k in range(2 * spatial)]
    elif choice == 1 and (dilated_with_auto_pad or "dilations" not in attributes):
        attributes["auto_pad"] = g.one_of("SAME_UPPER", "SAME_LOWER", "VALID")
    for k, extent in enumerate(x.shape[2:]):
        pads = attributes.get("pads", [0] * 2 * spatial)
        reach = (kernel[k] - 1) * attributes.get("dilations", [1] * spatial)[k] + 1
        if reach > extent + pads[k] + pads[k + spatial]:
            raise Refused
    return attributes


def image(g, dtype=None):
    """Of [N, C, spatial...]."""
    if g.chance(60):
        try:
            return g.floats(3, 5, dtype)
        except Refused:
            pass
    spatial = g.one_of(1, 2, 2, 2, 3)
    shape = (g.one_of(1, 2), g.one_of(1, 2, 3, 4, 6), *(g.between(2, 7) for _ in range(spatial)))
    return g.add_input(dtype or F32, shape)


def conv(g):
    x = image(g, F32)
    spatial = x.rank - 2
    kernel = [g.one_of(1, 2, 3) for _ in range(spatial)]
    group = g.one_of(*(d for d in range(1, 7) if x.shape[1] and x.shape[1] % d == 0)) if x.shape[1] else 1
    per_group = max(x.shape[1] // group, 1)
    bias = g.chance(60)
    attributes = window(g, x, kernel)
    outs = group * g.between(1, 3)
    if g.chance(25):
        if "dilations" in attributes and g.chance(50):
            del attributes["dilations"]
        if attributes.get("auto_pad", "").startswith("SAME"):
            del attributes["auto_pad"]
        w = Constant(g.array(F32, (x.shape[1], outs // group, *kernel)))
        attributes["output_padding"] = [g.below(stride) for stride in attributes["strides"]]
        return Node("ConvTranspose", [x, w, Constant(g.array(F32, (outs,))) if bias else None], keeps=True, group=group,
                    **attributes)  # fmt: skip
    w = Constant(g.array(F32, (outs, per_group, *kernel)))
    return Node(
        "Conv", [x, w, Constant(g.array(F32, (outs,))) if bias else None], keeps=True, group=group, **attributes
    )


def integer_product(g):
    x = g.pick(lambda v: v.dtype in (U8, np.dtype("int8")) and v.rank >= 2)
    if x.shape[-1] == 0:
        raise Refused  # ONNX Runtime gives what its memory held
    weight = Constant(g.array(g.one_of(U8, np.dtype("int8")), (x.shape[-1], g.between(1, 5))))
    zeros = [scalar(g.between(0, 3), x.dtype), scalar(g.between(0, 3), weight.array.dtype)] if g.chance(60) else []
    return Node("MatMulInteger", [x, weight, *zeros])


# ---- pooling, normalisation


def pool(g):
    x = image(g)
    spatial = x.rank - 2
    op = g.one_of("MaxPool", "AveragePool", "LpPool", "GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool")
    if op.startswith("Global"):
        return Node(op, [x])
    kernel = [g.one_of(1, 2, 3) for _ in range(spatial)]
    attributes = window(g, x, kernel, False)  # ONNX Runtime pads pools as if they had none
    if g.chance(30) and "auto_pad" not in attributes:
        attributes["ceil_mode"] = 1
    if op == "AveragePool" and g.chance(50):
        attributes["count_include_pad"] = 1
    if op == "LpPool":
        attributes["p"] = g.one_of(1, 2, 3)
    if op == "MaxPool":
        # of equal elements anybody's index
        return Node(op, [x], keeps=True, **attributes)
    return Node(op, [x], **attributes)


def normalise(g):
    op = g.one_of("BatchNormalization", "InstanceNormalization", "LayerNormalization", "GroupNormalization", "LRN",
                  "LpNormalization", "MeanVarianceNormalization")  # fmt: skip
    x = g.floats(1) if op in ("LayerNormalization", "LpNormalization") else image(g)
    if 0 in x.shape:
        raise Refused
    channels = x.shape[1] if x.rank > 1 else 1

    def per(count):
        return Constant(g.array(x.dtype, (count,)))

    if op == "BatchNormalization":
        variance = Constant(np.abs(g.array(x.dtype, (channels,))) + np.asarray(0.5, x.dtype))
        return Node(op, [x, per(channels), per(channels), per(channels), variance], epsilon=g.one_of(1e-5, 1e-2))
    if op == "InstanceNormalization":
        return Node(op, [x, per(channels), per(channels)], epsilon=1e-2)
    if op == "LayerNormalization":
        axis = g.axis(x)
        shape = x.shape[axis:]
        bias = Constant(g.array(x.dtype, shape)) if g.chance(60) else None
        return Node(op, [x, Constant(g.array(x.dtype, shape)), bias], axis=axis, epsilon=1e-2)
    if op == "GroupNormalization":
        groups = g.one_of(*(d for d in range(1, 7) if channels % d == 0))
        return Node(op, [x, per(channels), per(channels)], num_groups=groups, epsilon=1e-2)
    if op == "LRN":
        return Node(op, [x], size=g.one_of(1, 3, 5), alpha=0.1, beta=0.75, bias=1.0)
    if op == "LpNormalization":
        return Node(op, [x], axis=g.axis(x), p=g.one_of(1, 2))
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


# ---- reductions


def reduce(g):
    op = g.one_of(*REDUCTIONS)
    x = g.numbers()
    if op in ("ReduceProd", "ReduceLogSum") and x.dtype.kind != "f":
        raise Refused  # what overflows, and the logarithm of 0, are anybody's
    if x.array.size == 0 and op == "ReduceMean":
        raise Refused  # 0 / 0: ONNX Runtime gives 0
    axes = [listed(g.axes(x))] if g.chance(80) else []
    keeps = op in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1")
    return Node(op, [x, *axes], keeps=keeps, keepdims=g.below(2), noop_with_empty_axes=g.one_of(0, 0, 1))


def arg(g):
    x = g.numbers(1, exact=True)
    last = g.below(2)
    return Node(g.one_of("ArgMax", "ArgMin"), [x], jumps=True, axis=g.axis(x), keepdims=g.below(2),
                select_last_index=last)  # fmt: skip


def cumulative(g):
    x = g.numbers(1)
    axis = Constant(np.array(g.axis(x), g.one_of(I32, I64)))
    return Node("CumSum", [x, axis], keeps=True, exclusive=g.below(2), reverse=g.below(2))


def top_k(g):
    x = g.numbers(1, exact=True)
    axis = g.axis(x)
    k = ints(g.between(0, x.shape[axis]))
    return Node("TopK", [x, k], 2, jumps=True, keeps=True, axis=axis, largest=g.below(2), sorted=1)


# ---- shapes and moving data


def transpose(g):
    x = g.any()
    order = list(range(x.rank))
    g.random.shuffle(order)
    return Node("Transpose", [x], keeps=True, perm=order if order and g.chance(90) else None)


def reshape(g):
    x = g.any()
    extents, left = [], x.array.size
    while left > 1 and len(extents) < 4:
        divisors = [d for d in range(1, left + 1) if left % d == 0]
        extents.append(g.one_of(*divisors))
        left //= extents[-1]
    if x.array.size:
        extents.append(left)
        if g.chance(60):
            extents[g.below(len(extents))] = -1
    else:
        extents = list(x.shape)
    return Node("Reshape", [x, listed(extents)], keeps=True)


def flatten(g):
    x = g.any(1)
    return Node("Flatten", [x], keeps=True, axis=g.between(-x.rank, x.rank))


def squeeze(g):
    x = g.any()
    ones = [axis - g.one_of(0, x.rank) for axis, extent in enumerate(x.shape) if extent == 1]
    if not ones or g.chance(50):
        rank = x.rank + g.between(1, 2)
        axes = sorted(g.random.sample(range(rank), rank - x.rank))
        return Node("Unsqueeze", [x, listed([axis - g.one_of(0, rank) for axis in axes])], keeps=True)
    return Node("Squeeze", [x, listed(g.some(ones, 1))], keeps=True)


def concat(g):
    x = g.any(1)
    axis = g.axis(x)
    parts = [x]
    for _ in range(g.between(0, 3)):
        found = [v for v in g.pool if v.dtype == x.dtype and v.rank == x.rank
                 and all(a == b for k, (a, b) in enumerate(zip(v.shape, x.shape)) if k != axis % x.rank)]  # fmt: skip
        if g.chance(60):
            parts.append(g.one_of(*found))
        else:
            shape = list(x.shape)
            shape[axis] = g.between(0, 3)
            parts.append(Constant(g.array(x.dtype, shape)))
    g.random.shuffle(parts)
    return Node("Concat", parts, keeps=True, axis=axis)


def split(g):
    x = g.any(1)
    axis = g.axis(x)
    count = g.between(1, 3)
    if g.chance(40):
        return Node("Split", [x], count, keeps=True, axis=axis, num_outputs=count)
    cuts = sorted(g.between(0, x.shape[axis]) for _ in range(count - 1))
    sizes = np.diff([0, *cuts, x.shape[axis]])
    return Node("Split", [x, listed(sizes)], count, keeps=True, axis=axis)


def cut(g):
    x = g.any(1)
    axes = g.some(range(x.rank), 1)
    starts = [g.between(-extent - 1, extent + 1) for extent in (x.shape[axis] for axis in axes)]
    ends = [g.one_of(g.between(-extent - 1, extent + 1), 2**40, -(2**40)) for extent in (x.shape[a] for a in axes)]
    steps = [g.one_of(1, 1, 1, 2, 3, -1, -2) for _ in axes]
    named = [axis - g.one_of(0, x.rank) for axis in axes]
    if g.chance(30):
        return Node("Slice", [x, listed(starts), listed(ends), listed(named)], keeps=True)
    return Node("Slice", [x, listed(starts), listed(ends), listed(named), listed(steps)], keeps=True)


def pad(g):
    x = g.any(1)
    mode = g.one_of("constant", "constant", "edge", "reflect", "wrap")
    low = -1 if mode == "constant" else 0
    axes = g.some(range(x.rank), 1) if g.chance(40) else list(range(x.rank))
    most = [min(2, x.shape[axis] - 1) if mode != "constant" else 2 for axis in axes]
    if min(most) < 0 or (mode != "constant" and 0 in x.shape):
        raise Refused
    pads = [g.between(low, reach) for reach in most * 2]
    value = scalar(g.one_of(0, 1, 2), x.dtype) if mode == "constant" and g.chance(50) else None
    named = listed([axis - g.one_of(0, x.rank) for axis in axes]) if len(axes) < x.rank else None
    return Node("Pad", [x, listed(pads), value, named], keeps=True, mode=mode)


def tile(g):
    x = g.any(1)
    return Node("Tile", [x, listed([g.one_of(1, 1, 2, 3, 0 if g.chance(5) else 1) for _ in x.shape])], keeps=True)


def expand(g):
    x = g.any()
    shape = [g.between(1, 3) if extent == 1 else g.one_of(1, extent) for extent in x.shape]
    shape = [g.between(1, 2)] * g.below(2) + shape if g.chance(50) else shape[g.below(len(shape) + 1) :]
    return Node("Expand", [x, listed(shape)], keeps=True)


def indices(g, extent, shape):
    if extent == 0:
        raise Refused
    return g.numpy.integers(-extent, extent, shape).astype(g.one_of(I64, I64, I32))


def gather(g):
    x = g.any(1)
    axis = g.axis(x)
    if g.chance(50):
        return Node("Gather", [x, Constant(indices(g, x.shape[axis], g.shape(0, 2)))], keeps=True, axis=axis)
    shape = [g.between(0 if g.chance(10) else 1, extent) if extent else 0 for extent in x.shape]
    shape[axis] = g.between(1, 4)
    return Node("GatherElements", [x, Constant(indices(g, x.shape[axis], shape))], keeps=True, axis=axis)


def gather_nd(g):
    x = g.any(1)
    batch = g.below(min(x.rank, 2))
    depth = g.between(1, x.rank - batch)
    lead = x.shape[:batch] + g.shape(0 if batch else 1, 2)
    columns = [indices(g, x.shape[batch + k], lead).astype(np.int64) for k in range(depth)]
    return Node("GatherND", [x, Constant(np.stack(columns, -1))], keeps=True, batch_dims=batch)


def scatter(g):
    x = g.numbers(1)
    axis = g.axis(x)
    shape = [g.between(1, extent) if extent else 0 for extent in x.shape]
    if x.shape[axis] == 0:
        raise Refused
    reduction = g.one_of("none", "add", "mul", "max", "min")
    # positions that come twice are in any order, unless they are combined
    places = np.argsort(g.numpy.random(x.shape), axis)[tuple(slice(extent) for extent in shape)]
    return Node("ScatterElements", [x, Constant(places.astype(np.int64)), Constant(g.array(x.dtype, shape))],
                keeps=reduction in ("none", "add", "max", "min"), axis=axis, reduction=reduction)  # fmt: skip


def scatter_nd(g):
    x = g.numbers(1)
    depth = g.between(1, x.rank)
    reduction = g.one_of("none", "add", "mul", "max", "min")
    total = int(np.prod(x.shape[:depth]))
    if total == 0:
        raise Refused
    rows = g.random.sample(range(total), g.between(1, total))
    places = np.stack(np.unravel_index(rows, x.shape[:depth]), -1).astype(np.int64)
    updates = g.array(x.dtype, (len(rows), *x.shape[depth:]))
    return Node("ScatterND", [x, Constant(places), Constant(updates)], keeps=reduction in ("none", "add", "max", "min"),
                reduction=reduction)  # fmt: skip


def blocks(g):
    if g.chance(50):
        x = g.add_input(g.one_of(F32, F32, F16, I32), (g.between(1, 2), 4 * g.between(1, 2), g.between(1, 3), 2))
        return Node("DepthToSpace", [x], keeps=True, blocksize=2, mode=g.one_of("DCR", "CRD"))
    x = g.add_input(F32, (g.between(1, 2), g.between(1, 3), 2 * g.between(1, 3), 4))
    return Node("SpaceToDepth", [x], keeps=True, blocksize=2)


def triangle(g):
    x = g.any(2)
    k = scalar(g.between(-3, 3), I64)
    return Node("Trilu", [x, k] if g.chance(70) else [x], keeps=True, upper=g.below(2))


def reverse(g):
    x = g.any(2)
    batch = g.below(2)
    if 0 in x.shape:
        raise Refused
    lengths = [g.between(1, x.shape[1 - batch]) for _ in range(x.shape[batch])]
    return Node("ReverseSequence", [x, listed(lengths)], keeps=True, batch_axis=batch, time_axis=1 - batch)


def about_shape(g):
    x = g.any()
    op = g.one_of("Shape", "Size", "EyeLike", "Shape")
    if op == "Shape" and x.rank:
        return Node(op, [x], start=g.between(-x.rank, x.rank), end=g.one_of(None, g.between(-x.rank, x.rank)))
    if op == "EyeLike":
        return Node(op, [g.any(2, 2)], keeps=True, k=g.between(-2, 2), dtype=g.one_of(None, 1, 7, 6))
    return Node(op, [x])


def one_hot(g):
    depth = g.between(1, 5)
    x = g.integers()
    axis = g.between(-x.rank - 1, x.rank)
    values = g.array(g.one_of(F32, I64, I32), (2,))
    return Node("OneHot", [x, scalar(depth, I64), Constant(values)], keeps=True, axis=axis)


def found_places(g):
    op = g.one_of("NonZero", "Compress", "Unique")
    if op == "NonZero":
        return Node(op, [g.pick(lambda v: v.exact and v.rank >= 1)], jumps=True)
    x = g.any(1)
    if op == "Compress":
        axis = g.one_of(None, g.axis(x))
        count = x.array.size if axis is None else x.shape[axis]
        return Node(op, [x, Constant(g.array(BOOL, (g.between(0, count),)))], keeps=True, axis=axis)
    x = g.numbers(1, exact=True)
    return Node(op, [x], 4, jumps=True, keeps=True, axis=g.one_of(None, g.axis(x)), sorted=1)


def make(g):
    if g.chance(50):
        return Node("ConstantOfShape", [listed(g.shape(0, 3))], keeps=True)
    dtype = g.one_of(I64, I32, F32)
    start, step = g.between(-3, 3), g.one_of(1, 2, -1, -2)
    return Node("Range", [scalar(start, dtype), scalar(start + step * g.between(0, 6), dtype), scalar(step, dtype)])


def center(g):
    x = g.any(2)
    axes = g.some(range(x.rank), 1)
    return Node("CenterCropPad", [x, listed([g.between(1, 6) for _ in axes])], keeps=True, axes=axes)


# ---- images


def resize(g):
    x = image(g, F32)
    if 0 in x.shape:
        raise Refused
    mode = g.one_of("nearest", "linear", "cubic") if x.rank == 4 else g.one_of("nearest", "linear")
    attributes = {"mode": mode}
    attributes["coordinate_transformation_mode"] = g.one_of(
        "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"
    )
    if mode == "nearest":
        attributes["nearest_mode"] = g.one_of("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        attributes["cubic_coeff_a"] = g.one_of(-0.75, -0.5)
        attributes["exclude_outside"] = g.below(2)
    if mode != "nearest" and g.chance(30):
        attributes["antialias"] = 1
    # With align_corners ONNX's own tests take the product of scale and extent unrounded, ONNX Runtime does not.
    aligned = attributes["coordinate_transformation_mode"] == "align_corners"
    if mode == "nearest" and not aligned:
        scales = [1, 1, *(g.one_of(0.5, 1, 2) for _ in x.shape[2:])]  # exact ones: no place is a pixel but for rounding
        return Node("Resize", [x, None, Constant(np.array(scales, np.float32))], **attributes)
    if g.chance(50) and not aligned:
        scales = [1, 1, *(g.one_of(0.5, 1, 2, 1.5, 3) for _ in x.shape[2:])]
        return Node("Resize", [x, None, Constant(np.array(scales, np.float32))], **attributes)
    sizes = [*x.shape[:2], *(g.between(1, 2 * extent) for extent in x.shape[2:])]
    return Node("Resize", [x, None, None, listed(sizes)], **attributes)


def grid_sample(g):
    x = g.add_input(F32, (g.between(1, 2), g.between(1, 3), g.between(2, 5), g.between(2, 5)))
    grid = Constant((g.numpy.random((x.shape[0], g.between(1, 4), g.between(1, 4), 2)) * 2.6 - 1.3).astype(np.float32))
    return Node("GridSample", [x, grid], mode=g.one_of("linear", "cubic"), align_corners=g.below(2),
                padding_mode=g.one_of("zeros", "border", "reflection"))  # fmt: skip


def regions(g):
    x = g.add_input(F32, (2, g.between(1, 3), g.between(3, 6), g.between(3, 6)))
    count = g.between(1, 4)
    corners = g.numpy.random((count, 2)) * 3
    boxes = np.concatenate([corners, corners + g.numpy.random((count, 2)) * 4], 1).astype(np.float32)
    places = g.numpy.integers(0, 2, count).astype(np.int64)
    return Node("RoiAlign", [x, Constant(boxes), Constant(places)], mode="avg", output_height=g.between(1, 3),
                output_width=g.between(1, 3), sampling_ratio=g.between(0, 2), spatial_scale=g.one_of(1.0, 0.5),
                coordinate_transformation_mode=g.one_of("half_pixel", "output_half_pixel"))  # fmt: skip


def col2im(g):
    block, extent = (g.between(1, 3), g.between(1, 3)), (g.between(3, 5), g.between(3, 5))
    count = (extent[0] - block[0] + 1) * (extent[1] - block[1] + 1)
    x = g.add_input(F32, (g.between(1, 2), g.between(1, 2) * block[0] * block[1], count))
    return Node("Col2Im", [x, ints(*extent), ints(*block)], keeps=True)


def unpool(g):
    rows, columns = g.between(1, 3), g.between(1, 3)
    shape = (g.between(1, 2), g.between(1, 2), rows, columns)
    x = g.add_input(F32, shape)
    planes = [g.random.sample(range(4 * rows * columns), rows * columns) for _ in range(shape[0] * shape[1])]
    offsets = np.arange(shape[0] * shape[1])[:, None] * 4 * rows * columns
    places = (np.array(planes) + offsets).reshape(shape).astype(np.int64)
    return Node("MaxUnpool", [x, Constant(places)], keeps=True, kernel_shape=[2, 2], strides=[2, 2])


def determinant(g):
    n = g.between(1, 4)
    x = g.add_input(F32, (*g.shape(0, 2), n, n))
    return Node("Det", [x])


# ---- recurrent


def recurrent(g):
    op, gates = g.one_of(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    steps, batch, size, hidden = g.between(1, 4), g.between(1, 3), g.between(1, 4), g.between(1, 4)
    direction = g.one_of("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    x = g.add_input(F32, (steps, batch, size))

    def draw(*shape):
        return Constant(g.array(F32, shape, exact=False))

    operands = [x, draw(ways, gates * hidden, size), draw(ways, gates * hidden, hidden)]
    operands.append(draw(ways, 2 * gates * hidden) if g.chance(70) else None)
    lengths = np.array([g.between(1, steps) for _ in range(batch)], np.int32)
    operands.append(Constant(lengths) if g.chance(40) else None)
    operands.append(draw(ways, batch, hidden) if g.chance(50) else None)
    if op == "LSTM":
        operands.append(draw(ways, batch, hidden) if g.chance(50) else None)
        operands.append(draw(ways, 3 * hidden) if g.chance(30) else None)
    attributes = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attributes["linear_before_reset"] = g.below(2)
    if op != "LSTM" and g.chance(20):  # which ONNX Runtime does not clip in front of the last activation
        attributes["clip"] = 0.5
    return Node(op, operands, 3 if op == "LSTM" else 2, **attributes)


# ---- quantisation


def quantise(g):
    choice = g.below(3)
    kind = g.one_of(U8, np.dtype("int8"))
    if choice == 0:
        x = g.floats(1, dtype=F32, exact=True)
        axis = g.axis(x)
        shape = (x.shape[axis],) if g.chance(40) else ()
        scale = (2.0 ** g.numpy.integers(-3, 2, shape)).astype(np.float32)
        return Node("QuantizeLinear", [x, Constant(scale), Constant(g.array(kind, shape) % 5)], jumps=True, axis=axis)
    if choice == 1:
        x = g.pick(lambda v: v.dtype in (U8, np.dtype("int8"), I32) and v.rank >= 1)
        axis = g.axis(x)
        shape = (x.shape[axis],) if g.chance(40) else ()
        scale = (2.0 ** g.numpy.integers(-3, 2, shape)).astype(np.float32)
        zero = [Constant(g.array(x.dtype, shape) * (0 if x.dtype == I32 else 1))] if g.chance(70) else []
        return Node("DequantizeLinear", [x, Constant(scale), *zero], keeps=True, axis=axis)
    return Node("DynamicQuantizeLinear", [g.floats(1, dtype=F32, exact=True)], 3, jumps=True)


# ---- com.microsoft


def microsoft(g):
    op = g.one_of("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "FusedMatMul", "SkipLayerNormalization", "Inverse")
    domain = "com.microsoft"
    if op in ("Gelu", "FastGelu", "QuickGelu"):
        return Node(op, [g.floats(1, dtype=F32)], domain=domain)
    x = g.floats(2, dtype=F32)
    if op == "BiasGelu":
        return Node(op, [x, Constant(g.array(F32, x.shape[-1:]))], domain=domain)
    if op == "FusedMatMul":
        trans_a, trans_b = g.below(2), g.below(2)
        k, n = x.shape[-2 if trans_a else -1], g.between(1, 4)
        other = Constant(g.array(F32, (n, k) if trans_b else (k, n)))
        return Node(op, [x, other], domain=domain, transA=trans_a, transB=trans_b, alpha=0.5)
    if op == "SkipLayerNormalization":
        x = g.floats(3, 3, dtype=F32)
        operands = [Constant(g.array(F32, shape)) for shape in (x.shape, x.shape[-1:], x.shape[-1:])]
        return Node(op, [x, *operands], domain=domain, epsilon=1e-2)
    n = g.between(1, 4)
    return Node(op, [g.add_input(F32, (n, n))], domain=domain)


RULES = [
    *[unary] * 4, *[unary_exact] * 2, *[binary] * 6, *[unary_that_jumps] * 2, *[cast] * 3, *[compare] * 2,
    *[reduce] * 3, *[transpose] * 3, *[reshape] * 3, *[concat] * 2, *[cut] * 3, *[matmul] * 3, *[conv] * 3, *[pool] * 2,
    *[normalise] * 2, *[softmax] * 2, *[gather] * 2,
    about_shape, arg, bits, blocks, center, clip, col2im, cumulative, determinant, divide, einsum, expand, flatten,
    found_places, gather_nd, gemm, grid_sample, hardmax, integer_product, logic, make, many, microsoft, modulo, one_hot,
    pad, pad, power, prelu, quantise, quantise, recurrent, regions, resize, resize, reverse, scatter, scatter_nd, split,
    squeeze, squeeze, tile, top_k, triangle, unpool, where, where,
]  # fmt: skip
