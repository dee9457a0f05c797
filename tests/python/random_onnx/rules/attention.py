"""Attention and what stands around it."""

import numpy as np
from values import BOOL, F16, F32, F64, I64, Constant, Node


def drawn(g, shape, dtype=F32):
    return Constant(g.array(dtype, shape, exact=False))


def attention(g):
    dtype = g.one_of(F32, F32, F32, F16, F64)
    batch, heads, steps, size = g.between(1, 2), g.one_of(1, 2, 4), g.between(1, 4), g.one_of(2, 4)
    shared = g.one_of(*(h for h in (1, 2, 4) if heads % h == 0))
    keys, values = g.between(1, 5), g.one_of(2, 3, 4)
    flat = g.chance(40)
    if flat:
        q, k = (batch, steps, heads * size), (batch, keys, shared * size)
        v = (batch, keys, shared * values)
    else:
        q, k, v = (batch, heads, steps, size), (batch, shared, keys, size), (batch, shared, keys, values)
    past = g.between(1, 3) if g.chance(30) else 0
    mask = None
    if g.chance(40):
        shape = g.one_of((steps, past + keys), (1, 1, steps, past + keys), (batch, heads, steps, past + keys))
        mask = drawn(g, shape, dtype)
        if g.chance(40):
            allowed = g.array(BOOL, shape)
            allowed[..., 0] = True  # a row of which nothing is left is anybody's
            mask = Constant(allowed)
    operands = [g.add_input(dtype, q, 1), drawn(g, k, dtype), drawn(g, v, dtype), mask]
    if past:
        operands += [drawn(g, (batch, shared, past, size), dtype), drawn(g, (batch, shared, past, values), dtype)]
    attributes = {"q_num_heads": heads, "kv_num_heads": shared} if flat else {}
    # With a past, ONNX Runtime lets a single query see all keys; ONNX those up to its position.
    causal = g.one_of(0, 0, 1) if steps > 1 or not past else 0
    return Node("Attention", operands, 3 if past else 1, is_causal=causal, softcap=g.one_of(None, None, 2.0),
                scale=g.one_of(None, 0.5), **attributes)  # fmt: skip


def rotary(g):
    dtype = g.one_of(F32, F32, F16)
    batch, heads, steps, size = g.between(1, 2), g.between(1, 3), g.between(1, 4), g.one_of(2, 4, 8)
    turned = g.one_of(0, size // 2) if size > 2 else 0
    columns = (turned or size) // 2
    flat = g.chance(40)
    x = g.add_input(dtype, (batch, steps, heads * size) if flat else (batch, heads, steps, size), 1)
    if g.chance(50):
        rows, places = g.between(steps, 8), []
        places = [Constant(g.numpy.integers(0, rows, (batch, steps)).astype(I64))]
        tables = [(rows, columns)] * 2
    else:
        tables, places = [(batch, steps, columns)] * 2, []
    return Node("RotaryEmbedding", [x, *(drawn(g, shape, dtype) for shape in tables), *places],
                interleaved=g.below(2), rotary_embedding_dim=turned or None,
                num_heads=heads if flat else None)  # fmt: skip


def linear_attention(g):
    batch, steps, size, values = g.between(1, 2), g.between(1, 4), g.one_of(2, 4), g.one_of(2, 3)
    heads = g.between(1, 2)
    rule = g.one_of("linear", "gated", "delta", "gated_delta")
    operands = [g.add_input(F32, (batch, steps, heads * size), 2), drawn(g, (batch, steps, heads * size)),
                drawn(g, (batch, steps, heads * values))]  # fmt: skip
    operands.append(drawn(g, (batch, heads, size, values)) if g.chance(50) else None)
    decay = Constant(-np.abs(g.array(F32, (batch, steps, heads), exact=False)))
    operands.append(decay if "gated" in rule else None)
    beta = Constant(g.numpy.random((batch, steps, heads)).astype(F32))
    operands.append(beta if "delta" in rule else None)
    return Node("LinearAttention", operands, 2, update_rule=rule, q_num_heads=heads, kv_num_heads=heads)


def causal_convolution(g):
    batch, channels, steps, kernel = g.between(1, 2), g.between(1, 4), g.between(1, 5), g.between(1, 3)
    bias = drawn(g, (channels,)) if g.chance(50) else None
    state = drawn(g, (batch, channels, kernel - 1)) if g.chance(50) and kernel > 1 else None
    operands = [g.add_input(F32, (batch, channels, steps), 1), drawn(g, (channels, 1, kernel)), bias, state]
    return Node("CausalConvWithState", operands, 2, activation=g.one_of(None, "silu", "none"))


RULES = [*[attention] * 2, rotary, linear_attention, causal_convolution]
