"""Sequences and optionals: made, changed and read in one chain, or left as outputs."""

import numpy as np
from onnx import helper
from values import I32, I64, ONNX_TYPES, Constant, Node

from rules.common import listed, scalar


def made(g):
    """A sequence as a chain of nodes, what it holds, and the axis along which that may be joined."""
    if g.chance(30):
        x = g.any(1)
        axis = g.between(0, x.rank - 1)
        extent = x.shape[axis]
        sizes, count = None, extent
        if g.chance(60) or not g.is_of_known_extents(x):  # how many elements there are must be known
            cuts = sorted(g.between(0, extent) for _ in range(g.between(0, 2)))
            parts = np.diff([0, *cuts, extent])
            sizes, count = listed(parts, known=True), len(parts)
            if g.chance(40) and extent and g.is_of_known_extents(x):
                step = g.between(1, extent)
                sizes, count = scalar(step, I64, known=True), -(-extent // step)
        node = Node("SplitToSequence", [x, sizes], axis=axis, keepdims=g.one_of(1, 0) if sizes is None else 1)
        return [node], count, x, axis
    x = g.any()
    if g.chance(20):
        return [Node("SequenceEmpty", [], dtype=ONNX_TYPES[x.dtype])], 0, x, 0
    others = [v for v in g.pool if v.dtype == x.dtype and v.shape == x.shape]
    elements = [x] + [g.one_of(*others, Constant(g.array(x.dtype, x.shape))) for _ in range(g.between(0, 3))]
    return [Node("SequenceConstruct", elements, keeps=True)], len(elements), x, 0


def position(g, count):
    """Known: it may choose among tensors of different shapes."""
    return Constant(np.array(g.between(-count, count - 1), g.one_of(I64, I64, I32)), known=True)


def changed(g, chain, count, x):
    for _ in range(g.between(0, 3)):
        if count and g.chance(40):
            where = [position(g, count)] if g.chance(70) else []
            chain.append(Node("SequenceErase", [chain[-1], *where]))
            count -= 1
        elif chain[0].op != "SplitToSequence":
            where = [position(g, count)] if count and g.chance(60) else []
            chain.append(Node("SequenceInsert", [chain[-1], Constant(g.array(x.dtype, x.shape)), *where]))
            count += 1
    return count


def read(g):
    chain, count, x, axis = made(g)
    count = changed(g, chain, count, x)
    choice = g.below(5)
    if choice == 0 or count == 0:
        chain.append(Node("SequenceLength", [chain[-1]]))
    elif choice in (1, 2):
        chain.append(Node("SequenceAt", [chain[-1], position(g, count)]))
    elif choice == 3:
        new = g.below(2) if chain[0].op != "SplitToSequence" else 0
        where = axis if x.rank else 0
        chain.append(Node("ConcatFromSequence", [chain[-1]], axis=where, new_axis=new or (x.rank == 0)))
    else:
        chain.append(Node("Identity", [chain[-1]]))
    for node in chain:
        node.keeps = True
    return chain


def optional(g):
    x = g.any()
    kind = helper.make_tensor_type_proto(ONNX_TYPES[x.dtype], None)
    node = Node("Optional", [x] if g.chance(70) else [], keeps=True, type=None if g.chance(0) else kind)
    full = bool(node.operands)
    node.attributes["type"] = None if full else kind
    if full and g.chance(60):
        return [node, Node("OptionalGetElement", [node], keeps=True)]
    return [node, Node("OptionalHasElement", [node], keeps=True)]


def mapped(g):
    """SequenceMap, whose body is a short graph."""
    chain, count, x, _ = made(g)
    if chain[0].op != "SequenceConstruct":
        chain = [Node("SequenceConstruct", [x, Constant(g.array(x.dtype, x.shape))])]
    element = g.name()
    result = g.name()
    op = g.one_of("Identity", "Shape", "Neg") if x.dtype.kind in "fi" else "Identity"
    body = helper.make_graph([helper.make_node(op, [element], [result])], "body",
                             [helper.make_tensor_value_info(element, ONNX_TYPES[x.dtype], x.shape)],
                             [helper.make_empty_tensor_value_info(result)])  # fmt: skip
    body.output[0].CopyFrom(helper.make_tensor_value_info(
        result, ONNX_TYPES[I64] if op == "Shape" else ONNX_TYPES[x.dtype],
        [x.rank] if op == "Shape" else x.shape))  # fmt: skip
    each = Node("SequenceMap", [chain[-1]], body=body)
    return [*chain, each, Node("SequenceAt", [each, scalar(0, I64, known=True)])]


RULES = [*[read] * 4, optional, mapped]
