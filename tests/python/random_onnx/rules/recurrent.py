"""LSTM, GRU and RNN."""

import numpy as np
from values import F32, F64, Constant, Node


def recurrent(g):
    op, gates = g.one_of(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    steps, batch, size, hidden = g.between(1, 4), g.between(1, 3), g.between(1, 4), g.between(1, 4)
    direction = g.one_of("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    x = g.add_input(g.one_of(F32, F32, F32, F64), (steps, batch, size))

    def draw(*shape):
        return Constant(g.array(x.dtype, shape, exact=False))

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


RULES = [*[recurrent] * 2]
