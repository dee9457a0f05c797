"""The layers that are quantised: convolutions and products with constant weights."""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .._onnx_graph import Node, OnnxModel


@dataclasses.dataclass
class Product:
    """A Conv, Gemm or MatMul. ``weight`` has output channels along ``axis``; ``x`` has input channels along
    ``x_axis``.
    """

    name: str  # the value that it computes
    node: Node
    x: str
    weight: np.ndarray
    axis: int
    x_axis: int
    bias: Optional[np.ndarray]

    def macs(self, x_shape: Sequence[int]) -> int:
        """Multiplications and additions for an input of this shape."""
        if self.node.op == "Conv":
            return int(np.prod(self._windows(x_shape), dtype=np.int64)) * int(x_shape[0]) * self.weight.size
        depth = self.weight.shape[1 - self.axis]
        return int(np.prod(x_shape, dtype=np.int64)) // max(1, depth) * self.weight.size

    def _windows(self, x_shape: Sequence[int]) -> List[int]:
        rank = self.weight.ndim - 2
        kernel = self.weight.shape[2:]
        strides = self.node.get("strides", [1] * rank)
        dilations = self.node.get("dilations", [1] * rank)
        pads = self.node.get("pads", [0] * 2 * rank)
        same = str(self.node.get("auto_pad", "NOTSET")).startswith("SAME")
        counts = []
        for k in range(rank):
            extent, reach = x_shape[2 + k], dilations[k] * (kernel[k] - 1) + 1
            padded = extent + (0 if same else pads[k] + pads[rank + k])
            counts.append(-(-extent // strides[k]) if same else (padded - reach) // strides[k] + 1)
        return counts


def fold_constants(model: OnnxModel) -> int:
    """Makes constants of what only moves constants, as old exporters write weights; returns how many."""
    folded = 0
    for node in list(model.nodes):
        array = model.constant(node.input(0)) if node.is_op("Identity", "Reshape", "Transpose") else None
        if array is None:
            continue
        if node.op == "Transpose":
            array = np.transpose(array, node.get("perm"))
        elif node.op == "Reshape":
            shape = model.constant(node.input(1))
            if shape is None or 0 in shape:
                continue
            array = array.reshape([int(extent) for extent in shape])
        model.nodes.remove(node)
        model.set_constant(node.outputs[0], np.ascontiguousarray(array))
        folded += 1
    return folded


def fold_batch_normalization(model: OnnxModel) -> int:
    """Makes the scale and shift of a BatchNormalization behind a Conv part of its weights; returns how many.

    Weights get their ranges per channel after that, and no scaling is left between integers.
    """
    consumers, outputs, folded = model.consumers(), set(model.output_names()), 0
    producers = model.producers()
    for norm in [node for node in model.nodes if node.is_op("BatchNormalization")]:
        conv = producers.get(norm.inputs[0])
        if conv is None or not conv.is_op("Conv") or len(consumers.get(norm.inputs[0], [])) != 1:
            continue
        if norm.inputs[0] in outputs or norm.get("training_mode", 0) or any(norm.outputs[1:]):
            continue
        operands = [model.constant(name) for name in norm.inputs[1:5]]
        weight = model.constant(conv.input(1))
        bias = model.constant(conv.input(2)) if conv.input(2) else np.zeros(1, np.float32)
        if weight is None or bias is None or weight.dtype != np.float32 or any(o is None for o in operands):
            continue
        gamma, beta, mean, variance = (np.asarray(operand, np.float64) for operand in operands)
        factor = gamma / np.sqrt(variance + norm.get("epsilon", 1e-5))
        taken = model.names()
        column = (-1,) + (1,) * (weight.ndim - 1)
        names = [model.fresh(f"{norm.outputs[0]}_{what}", taken) for what in ("weight", "bias")]
        model.set_constant(names[0], (weight * factor.reshape(column)).astype(np.float32))
        model.set_constant(names[1], ((bias - mean) * factor + beta).astype(np.float32))
        conv.inputs = [conv.inputs[0], *names]
        conv.outputs = [norm.outputs[0]]
        model.nodes.remove(norm)
        folded += 1
    return folded


def find_products(model: OnnxModel) -> Tuple[List[Product], Dict[str, str]]:
    """The products in the order of the graph, and why others (by the name of their output) are none."""
    found: List[Product] = []
    refused: Dict[str, str] = {}
    readers: Dict[str, Callable[[OnnxModel, Node], "Product | str"]] = {"Conv": _conv, "MatMul": _matmul, "Gemm": _gemm}
    for node in model.nodes:
        if not node.is_op(*readers):
            continue
        one = readers[node.op](model, node)
        if isinstance(one, Product) and model.constant(one.x) is not None:
            one = "its input is constant"
        if isinstance(one, Product) and one.weight.dtype != np.float32:
            one = f"its weights are {one.weight.dtype}"
        if isinstance(one, Product) and not np.isfinite(one.weight).all():
            one = "its weights are not finite"
        if isinstance(one, Product):
            found.append(one)
        else:
            refused[node.outputs[0]] = one
    return found, refused


def _bias(model: OnnxModel, node: Node) -> "Tuple[Optional[np.ndarray], str]":
    if not node.input(2):
        return None, ""
    bias = model.constant(node.input(2))
    return bias, "" if bias is not None else "its bias is computed"


def _conv(model: OnnxModel, node: Node) -> "Product | str":
    weight = model.constant(node.input(1))
    bias, problem = _bias(model, node)
    if weight is None or problem:
        return problem or "its weights are computed"
    return Product(node.outputs[0], node, node.inputs[0], weight, 0, 1, bias)


def _matmul(model: OnnxModel, node: Node) -> "Product | str":
    weight = model.constant(node.input(1))
    if weight is None or weight.ndim != 2:
        return "its right operand is computed" if weight is None else "its weights are no matrix"
    return Product(node.outputs[0], node, node.inputs[0], weight, 1, -1, None)


def _gemm(model: OnnxModel, node: Node) -> "Product | str":
    weight = model.constant(node.input(1))
    bias, problem = _bias(model, node)
    if weight is None or problem:
        return problem or "its right operand is computed"
    if node.get("transA", 0) or node.get("alpha", 1.0) != 1.0 or (bias is not None and node.get("beta", 1.0) != 1.0):
        return "it has transA, alpha or beta"
    return Product(node.outputs[0], node, node.inputs[0], weight, 0 if node.get("transB", 0) else 1, -1, bias)
