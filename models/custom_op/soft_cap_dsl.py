"""SoftCap, y = cap * tanh(x / cap), in Compass DSL: a value of vectors, which its neighbours take along."""

from aipu import op
from aipu import script as S

T = op.dtype("float32", "float16")


@op.elementwise("example::SoftCap", inputs={"x": op.tensor(T)}, outputs={"y": op.tensor(T)}, attributes={"cap": 30.0})
def soft_cap(x, cap):
    return S.tanh(x / cap) * cap
