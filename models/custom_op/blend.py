"""A weighted sum with a limit, as a user's operator that is part of its neighbours' kernels: no kernel of its own.

y = min(max(x * scale + the sum of others, -limit), limit)

    aipugb model.onnx --plugin blend.py -o model.aipu.bin
"""

from aipu import op
from aipu import script as S

T = op.dtype("float32", "float16")  # a type variable: the element type of all operands of a node


def check(limit):
    return f"limit is {limit}, it must be positive" if limit <= 0 else None


@op.elementwise(
    "example::Blend",
    inputs={"x": op.tensor(T), "scale": op.optional(T), "others": op.variadic(T)},
    outputs={"y": op.tensor(T)},
    attributes={"limit": 6.0},
    check=check,
)
def blend(x, scale, others, limit):
    total = x if scale is None else x * scale
    for other in others:
        total = total + other
    return S.clip(total, -limit, limit)
