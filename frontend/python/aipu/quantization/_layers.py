"""The numbers of quantised layers: scales of their inputs, integer weights, biases that make up for rounding."""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Mapping, Optional, Sequence

import numpy as np

from ._products import Product
from ._ranges import Linear, Statistics, along, weight_integers

_OUTLIERS = 10.0  # a channel so many times the median one makes "auto" scale the channels


@dataclasses.dataclass
class QuantizedLayer:
    """A product in integers. ``smooth``: what its input is divided by, per channel, before it is quantised.

    ``correction``: what rounding the weights adds to the mean of each output channel; it is taken off the bias.
    """

    product: Product
    x: Linear
    integers: np.ndarray
    scales: np.ndarray
    per_channel: bool
    smooth: Optional[np.ndarray]
    correction: Optional[np.ndarray]

    @property
    def weight_axis(self) -> Optional[int]:
        """Of the scales; None for one for all."""
        return self.product.axis if self.per_channel else None

    def rounded_weight(self) -> np.ndarray:
        """What the integers stand for."""
        return self.integers.astype(np.float32) * along(self.scales, self.weight_axis, self.integers.ndim)

    def bias(self) -> Optional[np.ndarray]:
        """The corrected bias in float32; None where there is nothing to add."""
        if self.correction is None:
            return self.product.bias
        old = np.float32(0) if self.product.bias is None else self.product.bias
        return (old - self.correction).astype(np.float32)


def smoothing(
    groups: Mapping[str, List[Product]], statistics: Mapping[str, Statistics], strength: "Optional[float | str]"
) -> Dict[str, np.ndarray]:
    """Factors per input channel that move outliers of activations into weights, which have a scale per channel.

    ``max|x|**s / max|w|**(1 - s)`` of each channel (G. Xiao and others, SmoothQuant, 2022), for inputs of matrix
    products. ``strength``: s, None for none, or ``"auto"``: 0.5 where a channel is ten times the median one.
    """
    found: Dict[str, np.ndarray] = {}
    for x, products in groups.items():
        if strength is None or any(product.node.op == "Conv" for product in products):
            continue
        magnitude = statistics[x].channel_absolute.astype(np.float64)
        if strength == "auto" and not magnitude.max(initial=0) > _OUTLIERS * np.median(magnitude):
            continue
        power = 0.5 if strength == "auto" else float(strength)
        weight = np.max([np.abs(p.weight).max(axis=p.axis) for p in products], axis=0).astype(np.float64)
        factor = np.where((magnitude > 0) & (weight > 0), 1.0, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(factor > 0, magnitude**power / weight ** (1 - power), 1.0)
        found[x] = np.clip(factor, 1e-5, 1e5).astype(np.float32)
    return found


def quantized_layer(
    product: Product, statistics: Statistics, x: Linear, smooth: Optional[np.ndarray], per_channel: bool, correct: bool
) -> QuantizedLayer:
    """The integers of a layer whose input is quantised by ``x``."""
    weight = product.weight
    if smooth is not None:
        weight = weight * along(smooth, 1 - product.axis, 2)
    channels = weight.shape[product.axis]
    bias = np.zeros(channels) if product.bias is None else np.broadcast_to(np.abs(product.bias), (channels,))
    # 2**30 rather than 31: the correction comes on top.
    least = bias / (float(x.scale) * 2**30) if product.bias is None or product.bias.ndim == 1 else np.zeros(channels)
    integers, scales = weight_integers(weight, product.axis if per_channel else None, least)
    layer = QuantizedLayer(product, x, integers, scales, per_channel, smooth, None)
    if correct:
        layer.correction = _correction(layer, weight, statistics)
    return layer


def _correction(layer: QuantizedLayer, weight: np.ndarray, statistics: Statistics) -> np.ndarray:
    """The mean of what the rounding of the weights adds to each output channel, by the means of the input channels
    (M. Nagel and others, Data-free quantization, 2019, section 4.2). What windows lack at the border is left out.
    """
    product = layer.product
    error = (layer.rounded_weight() - weight).astype(np.float64)
    mean = statistics.channel_mean
    if layer.smooth is not None:
        mean = mean / layer.smooth
    if product.node.op != "Conv":
        return (along(mean, 1 - product.axis, 2) * error).sum(axis=1 - product.axis).astype(np.float32)
    per_input = error.reshape(*error.shape[:2], -1).sum(axis=2)  # output channel, input channel of its group
    groups = product.node.get("group", 1)
    means = mean.reshape(groups, -1)
    outputs = per_input.reshape(groups, -1, per_input.shape[1])
    return np.einsum("goi,gi->go", outputs, means).reshape(-1).astype(np.float32)


def groups_by_input(products: Sequence[Product]) -> Dict[str, List[Product]]:
    """The products that read each value."""
    found: Dict[str, List[Product]] = {}
    for product in products:
        found.setdefault(product.x, []).append(product)
    return found
