"""com.microsoft, as optimisers and quantisers write it."""

import numpy as np
from values import F32, I8, I32, I64, U8, Constant, Node, Refused

from rules.attention import drawn
from rules.quantised import even_zero_of, scale_of, zero_of

DOMAIN = "com.microsoft"


def ms(op, operands, outputs=1, **attributes):
    return Node(op, operands, outputs, domain=DOMAIN, **attributes)


def fused(g):
    op = g.one_of("Gelu", "FastGelu", "QuickGelu", "BiasGelu", "FusedMatMul", "SkipLayerNormalization", "Inverse",
                  "SkipSimplifiedLayerNormalization", "FusedGemm", "ExpandDims", "Trilu")  # fmt: skip
    if op in ("Gelu", "FastGelu", "QuickGelu"):
        return ms(op, [g.floats(1, dtype=F32)])
    if op == "ExpandDims":
        x = g.any()
        return ms(op, [x, Constant(np.array(g.between(-x.rank - 1, x.rank), I32), known=True)], keeps=True)
    if op == "Inverse":
        n = g.between(1, 4)
        return ms(op, [g.add_input(F32, (n, n))])
    x = g.floats(2, dtype=F32)
    if op == "Trilu":
        return ms(op, [x], keeps=True, upper=g.below(2))
    if op == "BiasGelu":
        return ms(op, [x, Constant(g.array(F32, x.shape[-1:]))])
    if op == "FusedMatMul":
        trans_a, trans_b = g.below(2), g.below(2)
        k, n = x.shape[-2 if trans_a else -1], g.between(1, 4)
        other = Constant(g.array(F32, (n, k) if trans_b else (k, n)))
        return ms(op, [x, other], transA=trans_a, transB=trans_b, alpha=0.5)
    if op == "FusedGemm":
        x = g.floats(2, 2, dtype=F32)
        n = g.between(1, 4)
        return ms(op, [x, Constant(g.array(F32, (x.shape[1], n))), Constant(g.array(F32, (n,)))],
                  activation=g.one_of("Relu", "Sigmoid", "Tanh"))  # fmt: skip
    x = g.floats(3, 3, dtype=F32)
    bias = [Constant(g.array(F32, x.shape[-1:]))] if op == "SkipLayerNormalization" else []
    operands = [Constant(g.array(F32, shape)) for shape in (x.shape, x.shape[-1:])]
    return ms(op, [x, *operands, *bias], epsilon=1e-2)


def quantised(g):
    """Operators on 8-bit integers with a scale and a zero each."""
    op = g.one_of("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearConcat", "QLinearWhere",
                  "QLinearGlobalAveragePool", "QLinearAveragePool", "MatMulIntegerToFloat")  # fmt: skip
    kind = g.one_of(U8, U8, I8)

    def scaled(array):
        return [array, scale_of(g), even_zero_of(g, kind)]

    result = [scale_of(g), even_zero_of(g, kind)]
    if op in ("QLinearGlobalAveragePool", "QLinearAveragePool"):
        x = g.add_input(kind, (g.between(1, 2), g.between(1, 4), g.between(2, 5), g.between(2, 5)))
        window = {"kernel_shape": [2, 2]} if op == "QLinearAveragePool" else {}
        return ms(op, [*scaled(x), *result], channels_last=0, **window)
    x = g.pick(lambda v: v.dtype in (U8, I8) and v.rank >= 1)
    kind = x.dtype
    result = [scale_of(g), even_zero_of(g, kind)]
    if op in ("QLinearAdd", "QLinearMul"):
        return ms(op, [*scaled(x), *scaled(g.partner(x)), *result])
    if op == "QLinearConcat":
        return ms(op, [*result, *scaled(x), *scaled(Constant(g.array(kind, x.shape)))], axis=g.axis(x))
    if op == "QLinearWhere":
        flags = Constant(g.array("bool", x.shape))
        operands = [flags, *scaled(x), *scaled(Constant(g.array(kind, x.shape))), *result]
        for operand in operands[2:]:
            operand.known = True  # ONNX Runtime crashes where scales and zeros are no constants
        return ms(op, operands)
    if op == "MatMulIntegerToFloat":
        if x.rank < 2 or 0 in x.shape:
            raise Refused
        weight = Constant(g.array(I8, (x.shape[-1], g.between(1, 5))))
        zeros = [zero_of(g, kind), zero_of(g, I8)]
        return ms(op, [x, weight, scale_of(g), scale_of(g), *zeros])
    return ms(op, [*scaled(x), *result])


def attention(g):
    op = g.one_of("Attention", "MultiHeadAttention", "GroupQueryAttention", "RotaryEmbedding")
    batch, heads, steps, size = g.between(1, 2), g.one_of(1, 2, 4), g.between(1, 4), 8
    hidden = heads * size
    x = g.add_input(F32, (batch, steps, hidden), 2)
    if op == "Attention":
        operands = [x, drawn(g, (hidden, 3 * hidden)), drawn(g, (3 * hidden,))]
        return ms(op, operands, num_heads=heads, unidirectional=g.below(2))
    if op == "MultiHeadAttention":
        keys = g.between(1, 4)
        operands = [x, drawn(g, (batch, keys, hidden)), drawn(g, (batch, keys, hidden))]
        return ms(op, operands, num_heads=heads)
    if op == "RotaryEmbedding":
        places = Constant(np.arange(steps, dtype=I64) + np.zeros((batch, 1), I64))
        return ms(op, [x, places, drawn(g, (8, size // 2)), drawn(g, (8, size // 2))], num_heads=heads,
                  interleaved=g.below(2))  # fmt: skip
    shared = g.one_of(*(h for h in (1, 2, 4) if heads % h == 0))
    key, value = (drawn(g, (batch, steps, shared * size)) for _ in range(2))
    lengths = Constant(np.full((batch,), steps - 1, I32))
    total = Constant(np.array(steps, I32), known=True)
    return ms("GroupQueryAttention", [x, key, value, None, None, lengths, total], 3, num_heads=heads,
              kv_num_heads=shared)  # fmt: skip


def few_bits(g):
    """A product with weights of 4 bits."""
    x = g.floats(2, dtype=F32)
    rows, columns, block = x.shape[-1], g.between(1, 4), 16
    if rows == 0:
        raise Refused
    blocks = -(-rows // block)
    packed = Constant(g.numpy.integers(0, 256, (columns, blocks, block // 2)).astype(U8), known=True)
    scales = Constant((2.0 ** g.numpy.integers(-3, 2, (columns * blocks,))).astype(F32), known=True)
    return ms("MatMulNBits", [x, packed, scales], K=rows, N=columns, bits=4, block_size=block)


RULES = [*[fused] * 2, *[quantised] * 2, attention, few_bits]
