"""If, Loop and Scan, whose bodies are random graphs."""

import numpy as np
from onnx import helper, numpy_helper
from reference import info
from values import BOOL, F32, I64, Constant, Node, Refused, Value

from rules.common import scalar


def grown(g, values, most=3):
    """A generator of a body that has drawn some nodes over the values."""
    inner = g.body(values)
    from rules import RULES

    rules = [rule for rule in RULES if rule not in FLOW]
    tries = 0
    wanted = g.between(1, most)
    while len(inner.groups) < wanted and tries < 30:
        tries += 1
        inner.step(inner.one_of(*rules))
    if not inner.groups:
        raise Refused
    return inner


def results(inner):
    return [value for value in inner.pool if value.name in inner.outputs]


def closed(inner, name, inputs, outputs):
    """The sub-graph, and what it takes from outside. ``inputs``, ``outputs``: Values."""
    nodes = [proto for group in inner.groups for proto in group.protos]
    constants = [numpy_helper.from_array(array, key) for key, array in inner.constants.items()]
    graph = helper.make_graph(nodes, name, [info(value.name, value.array) for value in inputs],
                              [info(value.name, value.array, [None] * value.rank) for value in outputs],
                              constants)  # fmt: skip
    read = {key for group in inner.groups for key in group.inputs}
    given = {value.name for value in inputs}
    captured = [v for v in inner.pool if v.name in read and v.name not in given and v.name not in inner.outputs]
    return graph, captured


def branch(g):
    flags = [v for v in g.pool if v.dtype == BOOL and v.array.size == 1 and v.rank <= 1]
    condition = g.one_of(*flags) if flags and g.chance(60) else Constant(g.array(BOOL, ()))
    inner = [grown(g, g.pool), grown(g, g.pool)]
    outputs = []
    for value in results(inner[0]):
        fitting = [v for v in results(inner[1]) if v.dtype == value.dtype and v.rank == value.rank]
        same = [v for v in fitting if v.shape == value.shape]
        if same or (fitting and g.chance(50)):
            outputs.append((value, g.one_of(*(same or fitting))))
    if not outputs:
        raise Refused
    outputs = outputs[: g.between(1, 2)]
    if len({b.name for _, b in outputs}) < len(outputs):
        raise Refused
    graphs = [closed(part, name, [], [pair[k] for pair in outputs])
              for k, (part, name) in enumerate(zip(inner, ("then", "else")))]  # fmt: skip
    captures = {v.name: v for _, captured in graphs for v in captured}
    return Node("If", [condition], len(outputs), captures=list(captures.values()), then_branch=graphs[0][0],
                coarse=any(part.coarse for part in inner),
                else_branch=graphs[1][0])  # fmt: skip


def carried_on(g, inner, states):
    """For each state a value of its shape that the body has computed."""
    following = []
    for state in states:
        fitting = [
            v for v in results(inner) if v.dtype == state.dtype and v.shape == state.shape and v not in following
        ]
        if not fitting:
            raise Refused
        following.append(g.one_of(*fitting))
    return following


def stacked(inner, following, most):
    left = [v for v in results(inner) if v not in following and v.rank < 4]
    return left[:most]


def rounded(g, value):
    """The value as a body sees it, where it is another one each time."""
    return Value(g.name(), value.array, False)


def loop(g):
    """Loop-carried floats of one shape: what integers become after the first iteration nobody has looked at."""
    start = [g.floats(0, 3) for _ in range(g.between(1, 2))]
    trip = g.between(0, 4)
    count, going = Value(g.name(), np.array(0, I64), True), Value(g.name(), np.array(True), True)
    states = [rounded(g, value) for value in start]
    outer = [v for v in g.pool if g.chance(40)]
    inner = grown(g, [*states, *states, count, *outer], 4)
    following = carried_on(g, inner, states)
    scans = stacked(inner, following, g.below(3)) if trip else []  # of no slices nobody knows the extents
    on = Value(g.name(), np.array(True), True)
    graph, captured = closed(inner, "body", [count, going, *states], [on, *following, *scans])
    if trip and g.chance(40):  # ends before the trip count
        limit = g.name()
        graph.initializer.append(numpy_helper.from_array(np.array(g.below(3), I64), limit))
        graph.node.append(helper.make_node("Less", [count.name, limit], [on.name]))
    else:
        graph.node.append(helper.make_node("Identity", [going.name], [on.name]))
    operands = [scalar(trip, I64), scalar(True, BOOL) if g.chance(70) else None, *start]
    return Node("Loop", operands, len(start) + len(scans), captures=captured, coarse=bool(inner.coarse), body=graph)


def scan(g):
    elements = [v for v in g.pool if v.dtype == F32 and v.rank >= 1 and v.shape[0]]
    if not elements:
        raise Refused
    first = g.one_of(*elements)
    rows = [first] + [v for v in elements if v is not first and v.shape[0] == first.shape[0]][: g.below(2)]
    start = [g.floats(0, 3) for _ in range(g.below(2))]
    states = [rounded(g, value) for value in start]
    slices = [Value(g.name(), value.array[0], False) for value in rows]
    inner = grown(g, [*states, *slices, *slices], 4)
    following = carried_on(g, inner, states)
    scans = stacked(inner, following, g.between(1, 3))
    if not scans:
        raise Refused
    graph, captured = closed(inner, "body", [*states, *slices], [*following, *scans])
    directions = [g.below(2) for _ in rows] if g.chance(30) else None
    back = [g.below(2) for _ in scans] if g.chance(30) else None
    return Node("Scan", [*start, *rows], len(following) + len(scans), captures=captured, body=graph,
                coarse=bool(inner.coarse), num_scan_inputs=len(rows), scan_input_directions=directions,
                scan_output_directions=back)  # fmt: skip


FLOW = (branch, loop, scan)
RULES = [*[branch] * 3, *[loop] * 3, *[scan] * 2]
