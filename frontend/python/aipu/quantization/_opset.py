"""Brings ONNX's own operators to opset 13, the first in which DequantizeLinear has an axis (scales per channel)."""

from __future__ import annotations

from typing import Callable, Dict, List, Optional

import numpy as np

from .. import _native
from .._onnx_graph import Node, OnnxModel

WANTED = 13


class _Upgrade:
    """The rules for operators that have changed; each gives the nodes in place of one, None where it cannot."""

    def __init__(self, model: OnnxModel) -> None:
        self._model, self._taken = model, model.names()
        self._version = model.opset
        self._rules: Dict[str, Callable[[Node], Optional[List[Node]]]] = {
            "BatchNormalization": self._normalization,
            "Clip": self._clip,
            "Dropout": self._dropout,
            "Hardmax": self._softmax,
            "LogSoftmax": self._softmax,
            "Pad": self._pad,
            "ReduceSum": self._axes,
            "Resize": self._resize,
            "Scatter": self._scatter,
            "Slice": self._slice,
            "Softmax": self._softmax,
            "Split": self._axes,
            "Squeeze": self._axes,
            "Unsqueeze": self._axes,
            "Upsample": self._resize,
        }

    def nodes_for(self, node: Node) -> List[Node]:
        if node.domain not in ("", "ai.onnx"):
            return [node]
        node.attributes.pop("consumed_inputs", None)  # a hint of opsets before 6
        since = _native.form_since(node.op, WANTED)
        if node.captured() == set() and since and _native.form_since(node.op, self._version) == since:
            return [node]
        replaced = self._rules[node.op](node) if node.op in self._rules else None
        if replaced is None:
            raise ValueError(
                f"node '{node.name}' ({node.op}) of opset {self._version}: there is no rule to bring it to opset "
                f"{WANTED}, which scales per channel need; convert the model by onnx.version_converter"
            )
        return replaced

    def _constant(self, name: str, array: np.ndarray) -> str:
        unique = self._model.fresh(name, self._taken)
        self._model.set_constant(unique, array)
        return unique

    def _axes(self, node: Node) -> Optional[List[Node]]:
        """An attribute that became the second operand."""
        attribute = "split" if node.op == "Split" else "axes"
        values = node.get(attribute)
        if values is not None:
            node.attributes.pop(attribute)
            node.inputs = [node.inputs[0], self._constant(f"{node.name}_{attribute}", np.array(values, np.int64))]
        return [node]

    def _softmax(self, node: Node) -> Optional[List[Node]]:
        if node.get("axis", 1) == -1:
            return [node]
        shape, flat, result = (
            self._model.fresh(f"{node.outputs[0]}_{w}", self._taken) for w in ("shape", "2d", "rows")
        )
        return [
            Node("Shape", [node.inputs[0]], [shape]),
            Node("Flatten", [node.inputs[0]], [flat], axis=int(node.get("axis", 1))),
            Node(node.op, [flat], [result], name=node.name, axis=1),
            Node("Reshape", [result, shape], [node.outputs[0]]),
        ]

    def _dropout(self, node: Node) -> Optional[List[Node]]:
        if len(node.outputs) > 1 and node.outputs[1] and node.outputs[1] in self._model.consumers():
            return None
        if self._version < 7 and node.get("is_test", 1) == 0:  # it trains
            return None
        return [Node("Identity", node.inputs[:1], node.outputs[:1], name=node.name)]

    def _scatter(self, node: Node) -> Optional[List[Node]]:
        node.op = "ScatterElements"
        return [node]

    def _clip(self, node: Node) -> Optional[List[Node]]:
        if self._version < 6:
            return None
        limits = [(n, node.get(n)) for n in ("min", "max")]
        inputs = ["" if v is None else self._constant(f"{node.name}_{n}", np.float32(v)) for n, v in limits]
        return [Node("Clip", [node.inputs[0], *inputs], node.outputs, name=node.name)]

    def _pad(self, node: Node) -> Optional[List[Node]]:
        if self._version < 2:
            return None
        pads = self._constant(f"{node.name}_pads", np.array(node.get("pads"), np.int64))
        value = self._constant(f"{node.name}_value", np.float32(node.get("value", 0.0)))
        return [
            Node("Pad", [node.inputs[0], pads, value], node.outputs, name=node.name, mode=node.get("mode", "constant"))
        ]

    def _slice(self, node: Node) -> Optional[List[Node]]:
        starts, ends = node.get("starts"), node.get("ends")
        axes = node.get("axes", list(range(len(starts))))
        names = [
            self._constant(f"{node.name}_{what}", np.array(values, np.int64))
            for what, values in (("starts", starts), ("ends", ends), ("axes", axes))
        ]
        return [Node("Slice", [node.inputs[0], *names], node.outputs, name=node.name)]

    def _resize(self, node: Node) -> Optional[List[Node]]:
        """Upsample, and Resize-10: the pixels of the corner coincide, the nearest one is that below."""
        scales = node.input(1)
        if node.op == "Upsample" and self._version < 9:
            if node.get("scales") is None:
                return None
            scales = self._constant(f"{node.name}_scales", np.array(node.get("scales"), np.float32))
        mode = node.get("mode", "nearest")
        attributes = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return [Node("Resize", [node.inputs[0], "", scales], node.outputs, name=node.name, **attributes)]

    def _normalization(self, node: Node) -> Optional[List[Node]]:
        if self._version < 7 or node.get("spatial", 1) != 1:
            return None
        node.attributes.pop("spatial", None)
        return [node]


def upgrade(model: OnnxModel) -> None:
    """Rewrites a model to opset 13 if it is of an earlier one. ValueError naming the node that has no rule."""
    if model.opset >= WANTED:
        return
    rules = _Upgrade(model)
    model.nodes = [new for node in model.nodes for new in rules.nodes_for(node)]
    model.opsets[""] = WANTED
    model.ir_version = max(model.ir_version, 7)
