"""Layers of integers into the model: QuantizeLinear and DequantizeLinear around products (QDQ), and the model in which
each layer can be switched between float32 and integers while it runs.
"""

from __future__ import annotations

from typing import Dict, List, Sequence, Set, Tuple

import numpy as np

from .. import _native
from .._onnx_graph import Node, OnnxModel
from ._layers import QuantizedLayer
from ._ranges import Linear


def _linear_constants(model: OnnxModel, taken: Set[str], name: str, linear: Linear) -> List[str]:
    scale, zero = model.fresh(f"{name}_scale", taken), model.fresh(f"{name}_zero_point", taken)
    model.set_constant(scale, linear.scale)
    model.set_constant(zero, np.array(linear.zero_point, linear.dtype))
    return [scale, zero]


def _round_trip(model: OnnxModel, taken: Set[str], x: str, name: str, linear: Linear) -> Tuple[List[Node], str]:
    """QuantizeLinear and DequantizeLinear of a value."""
    constants = _linear_constants(model, taken, name, linear)
    integers, back = (model.fresh(f"{name}_{op}_Output", taken) for op in ("QuantizeLinear", "DequantizeLinear"))
    nodes = [
        Node("QuantizeLinear", [x, *constants], [integers], name=f"{name}_QuantizeLinear"),
        Node("DequantizeLinear", [integers, *constants], [back], name=f"{name}_DequantizeLinear"),
    ]
    return nodes, back


def _smoothed(model: OnnxModel, taken: Set[str], x: str, layer: QuantizedLayer) -> Tuple[List[Node], str]:
    if layer.smooth is None:
        return [], x
    factor, result = model.fresh(f"{x}_smoothing", taken), model.fresh(f"{x}_smoothed", taken)
    model.set_constant(factor, (1 / layer.smooth).astype(np.float32))
    return [Node("Mul", [x, factor], [result], name=f"{x}_smooth")], result


def write_qdq(model: OnnxModel, layers: Sequence[QuantizedLayer]) -> None:
    """Changes the model, which computes the values of the layers' names: these layers have integers afterwards."""
    taken, consumers = model.names(), model.consumers()
    nodes_of = model.producers()
    inputs: Dict[str, str] = {}  # of products: what they read now
    new: List[Node] = []
    for layer in layers:
        x = layer.product.x
        if x not in inputs:
            before, value = _smoothed(model, taken, x, layer)
            nodes, inputs[x] = _round_trip(model, taken, value, value, layer.x)
            new += [*before, *nodes]
            if layer.smooth is None:
                # Who may read the value from the integers too; others, and outputs, read float32.
                for node, index in consumers.get(x, []):
                    if index >= 0 and node.domain in ("", "ai.onnx") and _native.takes_rounded(node.op, index):
                        node.inputs[index] = inputs[x]
    for layer in layers:
        node = nodes_of[layer.product.name]
        node.inputs[0] = inputs[layer.product.x]
        nodes, node.inputs[1] = _weight(model, taken, node.inputs[1], layer)
        new += [*nodes, *_set_bias(model, taken, node, layer)]
    # ONNX Runtime refuses names that two nodes have, as those of a weight that two layers share would.
    names = {node.name for node in model.nodes}
    for node in new:
        node.name = model.fresh(node.name, names)
    model.nodes += new
    model.sort_nodes()
    model.remove_unused_constants()


def _weight(model: OnnxModel, taken: Set[str], name: str, layer: QuantizedLayer) -> Tuple[List[Node], str]:
    what = ("quantized", "scale", "zero_point", "DequantizeLinear_Output")
    integers, scale, zero, back = (model.fresh(f"{name}_{w}", taken) for w in what)
    model.set_constant(integers, layer.integers)
    model.set_constant(scale, layer.scales)
    model.set_constant(zero, np.zeros(layer.scales.shape, np.int8))
    node = Node("DequantizeLinear", [integers, scale, zero], [back], name=f"{name}_DequantizeLinear")
    if layer.weight_axis is not None:
        node.set("axis", layer.weight_axis)
    return [node], back


def _set_bias(model: OnnxModel, taken: Set[str], node: Node, layer: QuantizedLayer) -> List[Node]:
    """The bias as int32 in units of the product. Of a MatMul, which has none, the correction is a sum behind it."""
    bias = layer.bias()
    if bias is None:
        return []
    if node.op == "MatMul":
        inner, name = model.fresh(f"{node.outputs[0]}_product", taken), model.fresh(f"{node.outputs[0]}_bias", taken)
        model.set_constant(name, bias)
        output, node.outputs = node.outputs[0], [inner]
        return [Node("Add", [inner, name], [output], name=f"{output}_correction")]
    inputs = node.inputs[:2]
    channels = layer.integers.shape[layer.product.axis]
    if bias.shape != (channels,):  # a Gemm adds whatever broadcasts
        name = model.fresh(f"{node.outputs[0]}_bias", taken)
        model.set_constant(name, bias)
        node.inputs = [*inputs, name]
        return []
    scales = (layer.x.scale * layer.scales).astype(np.float32)
    what = ("bias_quantized", "bias_scale", "bias_zero_point", "bias")
    integers, scale, zero, back = (model.fresh(f"{node.outputs[0]}_{w}", taken) for w in what)
    limit = 2**31 - 1
    rounded = np.clip(np.round(bias.astype(np.float64) / scales), -limit, limit)
    model.set_constant(integers, rounded.astype(np.int32))
    model.set_constant(scale, scales)
    model.set_constant(zero, np.zeros(scales.shape, np.int32))
    node.inputs = [*inputs, back]
    dequantize = Node("DequantizeLinear", [integers, scale, zero], [back], name=f"{back}_DequantizeLinear")
    if scales.ndim:
        dequantize.set("axis", 0)
    return [dequantize]


def write_switched(model: OnnxModel, layers: Sequence[QuantizedLayer]) -> str:
    """Changes the model: each layer is computed both ways, and a new input, a flag per layer, says which one counts.

    The integers are simulated, with the rounding that they have. Returns the name of the input.
    """
    taken = model.names()
    flags = model.fresh("quantized_layers", taken)
    model.add_input(flags, "bool", [len(layers)])
    nodes_of = model.producers()
    new: List[Node] = []
    for number, layer in enumerate(layers):
        node = nodes_of[layer.product.name]
        output = node.outputs[0]
        before, value = _smoothed(model, taken, layer.product.x, layer)
        trip, x = _round_trip(model, taken, value, f"{output}_x", layer.x)
        names = {w: model.fresh(f"{output}_{w}", taken) for w in ("w", "b", "sum", "float", "integer", "n", "flag")}
        model.set_constant(names["w"], layer.rounded_weight())
        model.set_constant(names["n"], np.array(number, np.int64))
        twin = Node(node.op, [x, names["w"]], [names["integer"]])
        twin.attributes = dict(node.attributes)
        after: List[Node] = []
        bias = layer.bias()
        if bias is not None:
            model.set_constant(names["b"], bias)
            if node.op == "MatMul":
                twin.outputs = [names["sum"]]
                after = [Node("Add", [names["sum"], names["b"]], [names["integer"]])]
            else:
                twin.inputs.append(names["b"])
        node.outputs = [names["float"]]
        new += [*before, *trip, twin, *after, Node("Gather", [flags, names["n"]], [names["flag"]])]
        new.append(Node("Where", [names["flag"], names["integer"], names["float"]], [output]))
    model.nodes += new
    model.sort_nodes()
    return flags
