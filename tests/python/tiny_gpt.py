"""A decoder of a few lines, as GreedySearch, Sampling and BeamSearch of com.microsoft take it, and models around it.
Needs the package onnx."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

HEADS, SIZE, POSITIONS = 2, 4, 64


class Nodes:
    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, kind, inputs, outputs=None, **attributes):
        results = outputs or [f"v{len(self.nodes)}"]
        inputs = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        self.nodes.append(helper.make_node(kind, inputs, results, **attributes))
        return results[0] if len(results) == 1 else results


def decoder(seed, tokens=20, layers=1, scale=0.3, name="decoder"):
    """Embeddings, `layers` of attention over the past, a product to the vocabulary."""
    rng = np.random.default_rng(seed)
    width = HEADS * SIZE

    def weights(*shape):
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    n = Nodes()
    op = n.op
    words = op("Gather", [weights(tokens, width) * 2, "input_ids"])
    x = op("Add", [words, op("Gather", [weights(POSITIONS, width), "position_ids"])])
    hidden = op("Sub", [np.float32(1), op("Cast", ["attention_mask"], to=TensorProto.FLOAT)])
    bias = op("Unsqueeze", [op("Mul", [hidden, np.float32(-10000)]), np.array([1, 2])])
    total = op("Squeeze", [op("Shape", ["attention_mask"], start=1, end=2)])
    rows = op("Squeeze", [op("Shape", ["input_ids"], start=1, end=2)])
    keys = op("Range", [np.array(0), total, np.array(1)])
    queries = op("Range", [op("Sub", [total, rows]), total, np.array(1)])
    seen = op("LessOrEqual", [keys, op("Unsqueeze", [queries, np.array([1])])])
    bias = op("Add", [bias, op("Where", [seen, np.float32(0), np.float32(-1e9)])])
    for layer in range(layers):
        packed = op("MatMul", [x, weights(width, 3 * width)])
        parts = op("Split", [packed], [f"{kind}_{layer}" for kind in "qkv"], axis=2, num_outputs=3)
        q, *new = [op("Transpose", [op("Reshape", [part, np.array([0, 0, HEADS, SIZE])])], perm=[0, 2, 1, 3])
                   for part in parts]  # fmt: skip
        k, v = [op("Concat", [op("Gather", [f"past_{layer}", np.array(kind)], axis=0), new[kind]], axis=2)
                for kind in (0, 1)]  # fmt: skip
        both = [op("Unsqueeze", [x, np.array([0])]) for x in (k, v)]
        op("Concat", both, [f"present_{layer}"], axis=0)
        scores = op("MatMul", [q, op("Transpose", [k], perm=[0, 1, 3, 2])])
        scores = op("Add", [op("Mul", [scores, np.float32(SIZE**-0.5)]), bias])
        y = op("Transpose", [op("MatMul", [op("Softmax", [scores], axis=-1), v])], perm=[0, 2, 1, 3])
        y = op("MatMul", [op("Reshape", [y, np.array([0, 0, width])]), weights(width, width)])
        x = op("Add", [x, y])
    op("MatMul", [x, weights(width, tokens) * 2], ["logits"])

    def typed(name, kind, *shape):
        return helper.make_tensor_value_info(name, kind, shape)

    inputs = [typed(f"{name}_ids", TensorProto.INT32, "b", "s") for name in ("input", "position")]
    inputs.append(typed("attention_mask", TensorProto.INT32, "b", "t"))
    outputs = [typed("logits", TensorProto.FLOAT, "b", "s", tokens)]
    for layer in range(layers):
        inputs.append(typed(f"past_{layer}", TensorProto.FLOAT, 2, "b", HEADS, "p", SIZE))
        outputs.append(typed(f"present_{layer}", TensorProto.FLOAT, 2, "b", HEADS, "t", SIZE))
    return helper.make_graph(n.nodes, name, inputs, outputs, n.constants)


def model(kind, operands, outputs, constants=(), symbols=None, **attributes):
    """One node. ``operands``: arrays by name, None where one is left out; those called as in ``constants`` are
    initializers, shapes may be given by name in ``symbols``."""
    given = {name: array for name, array in operands.items() if array is not None}
    node = helper.make_node(kind, [name if name in given else "" for name in operands], outputs, "search",
                            domain="com.microsoft", **attributes)  # fmt: skip

    def typed(name, array):
        shape = (symbols or {}).get(name, array.shape)
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)

    inputs = [typed(*item) for item in given.items() if item[0] not in constants]
    results = [helper.make_tensor_value_info(name, 6 if name == "sequences" else 1, None) for name in outputs if name]
    fixed = [numpy_helper.from_array(array, name) for name, array in given.items() if name in constants]
    graph = helper.make_graph([node], "g", inputs, results, fixed)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
