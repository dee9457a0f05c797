"""SoftCap, y = cap * tanh(x / cap), as a tensor expression: shape, kernel and schedule follow from it."""

from aipu import op, te

T = op.dtype("float32", "float16")

op.register(
    "example::SoftCap",
    inputs={"x": op.tensor(T)},
    outputs={"y": op.tensor(T)},
    attributes={"cap": 30.0},
    compute=lambda x, cap: te.compute(x.shape, lambda *i: (te.tanh(x(*i).astype("float32") / cap) * cap).astype(T)),
)
