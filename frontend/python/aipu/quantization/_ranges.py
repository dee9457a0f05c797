"""What is known of a value over the data, in memory that does not grow with it, and the range that 8 bits are spread
over: four ways to choose it.

- ``minmax``: all of it.
- ``percentile``: without the rarest values on each side.
- ``entropy``: the range in which the distribution of the integers tells the least apart from that of the values
  (Kullback and Leibler's divergence; S. Migacz, 8-bit inference with TensorRT, GTC 2017); of values with fewer than
  ten elements to a bin, mse.
- ``mse``: the range with the smallest mean square of the error, rounding and clipping together.
"""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

import numpy as np

METHODS = ("minmax", "percentile", "entropy", "mse")
BINS = 2048
_LEVELS = 256
_ENTROPY_LEAST = 10  # values per bin: with fewer, empty bins look like a distribution, and mse is taken instead
Range = Tuple[float, float]


@dataclasses.dataclass
class Statistics:
    """Of a value: first its extrema, then, in a second pass over the data, its histogram between them.

    Per channel (along ``axis``): the largest and smallest value and the mean. ``scale``, if it is set before the second
    pass: the histogram is of the value divided by it, channel by channel.
    """

    axis: int
    count: int = 0
    low: float = np.inf
    high: float = -np.inf
    channel_low: Optional[np.ndarray] = None
    channel_high: Optional[np.ndarray] = None
    channel_sum: Optional[np.ndarray] = None
    shape: Tuple[int, ...] = ()  # of the first run
    scale: Optional[np.ndarray] = None
    histogram: Optional[np.ndarray] = None

    def add_extrema(self, value: np.ndarray) -> None:
        """The first pass. ValueError for NaN and infinities, which have no range."""
        self.shape = self.shape or value.shape
        if value.size == 0:
            return
        if not np.isfinite(value).all():
            raise ValueError("it has NaN or infinities on this data")
        axis = self.axis % value.ndim
        others = tuple(k for k in range(value.ndim) if k != axis)
        low, high = value.min(axis=others), value.max(axis=others)
        total = value.sum(axis=others, dtype=np.float64)
        if self.channel_low is None or self.channel_high is None or self.channel_sum is None:
            self.channel_low, self.channel_high, self.channel_sum = low, high, total
        elif self.channel_low.shape == low.shape:
            self.channel_low = np.minimum(self.channel_low, low)
            self.channel_high = np.maximum(self.channel_high, high)
            self.channel_sum = self.channel_sum + total
        self.count += value.size // max(1, value.shape[axis])
        self.low, self.high = min(self.low, float(low.min())), max(self.high, float(high.max()))

    @property
    def channel_mean(self) -> np.ndarray:
        """Per channel, over everything else."""
        assert self.channel_sum is not None
        return self.channel_sum / max(1, self.count)

    @property
    def channel_absolute(self) -> np.ndarray:
        """The largest magnitude per channel."""
        assert self.channel_low is not None and self.channel_high is not None
        return np.maximum(np.abs(self.channel_low), np.abs(self.channel_high))

    def scaled_extrema(self) -> Range:
        """Smallest and largest value, divided by ``scale`` where there is one."""
        if self.scale is None or self.channel_low is None or self.channel_high is None:
            return self.low, self.high
        return float((self.channel_low / self.scale).min()), float((self.channel_high / self.scale).max())

    def add_histogram(self, value: np.ndarray) -> None:
        """The second pass."""
        low, high = self.scaled_extrema()
        if self.scale is not None:
            shape = [1] * value.ndim
            shape[self.axis] = -1
            value = value / self.scale.reshape(shape)
        counts = np.histogram(value, BINS, (low, high if high > low else low + 1))[0]
        self.histogram = counts if self.histogram is None else self.histogram + counts


def choose(statistics: Statistics, method: str, percentile: float) -> Range:
    """The range of a value; ValueError for another method. Whatever it is, 0 is in it."""
    low, high = statistics.scaled_extrema()
    if method != "minmax" and high > low:
        assert statistics.histogram is not None
        edges = np.linspace(low, high, BINS + 1)
        if method == "percentile":
            low, high = _percentile(statistics.histogram, edges, percentile)
        elif method == "entropy" and statistics.histogram.sum() >= _ENTROPY_LEAST * BINS:
            low, high = _entropy(statistics.histogram, edges)
        elif method in ("entropy", "mse"):
            low, high = _mse(statistics.histogram, edges)
        else:
            raise ValueError(f"calibration: expected one of {', '.join(METHODS)}, found '{method}'")
    return min(low, 0.0), max(high, 0.0)


def _percentile(histogram: np.ndarray, edges: np.ndarray, percentile: float) -> Range:
    share = np.concatenate([[0], np.cumsum(histogram)]) / histogram.sum()
    outside = (1 - percentile / 100) / 2 if edges[0] < 0 < edges[-1] else 1 - percentile / 100
    low, high = np.interp([outside, 1 - outside], share, edges)
    return (edges[0] if edges[0] >= 0 else float(low)), (edges[-1] if edges[-1] <= 0 else float(high))


def _entropy(histogram: np.ndarray, edges: np.ndarray) -> Range:
    """Tries ranges that shrink towards 0 on both sides alike; 256 bins are the least, where each is a level."""
    centre = int(np.clip(np.searchsorted(edges, 0.0), 0, BINS))
    # Zeros are exact in any range; those of a Relu would make a peak that the narrowest one tells best from the rest.
    zero = int(np.clip(np.searchsorted(edges, 0.0, side="right") - 1, 0, BINS - 1))
    histogram = histogram.copy()
    beside = [k for k in (zero - 1, zero + 1) if 0 <= k < BINS]
    histogram[zero] = histogram[beside].mean()
    best, found = np.inf, (edges[0], edges[-1])
    for kept in np.linspace(_LEVELS / BINS, 1, 113):
        first = int(round(centre * (1 - kept)))
        last = int(round(centre + (BINS - centre) * kept))
        if last - first < _LEVELS:
            continue
        divergence = _divergence(histogram, first, last)
        if divergence < best:
            best, found = divergence, (edges[first], edges[last])
    return float(found[0]), float(found[1])


def _divergence(histogram: np.ndarray, first: int, last: int) -> float:
    inside = histogram[first:last].astype(np.float64)
    reference = inside.copy()
    reference[0] += histogram[:first].sum()
    reference[-1] += histogram[last:].sum()
    level = np.arange(last - first) * _LEVELS // (last - first)
    is_used = inside > 0
    totals = np.bincount(level, inside, _LEVELS)
    used = np.bincount(level, is_used, _LEVELS)
    expanded = np.where(is_used, (totals / np.maximum(used, 1))[level], 0.0)
    p, q = reference / reference.sum(), expanded / max(expanded.sum(), 1.0)
    # Where the integers have nothing and the values do: a small share instead of an infinite divergence.
    q = np.where(q > 0, q, 1e-9)
    at = p > 0
    return float((p[at] * np.log(p[at] / q[at])).sum())


def _mse(histogram: np.ndarray, edges: np.ndarray) -> Range:
    centres = (edges[:-1] + edges[1:]) / 2
    weights = histogram.astype(np.float64)

    def error(low: float, high: float) -> float:
        low, high = min(low, 0.0), max(high, 0.0)
        step = (high - low) / (_LEVELS - 1)
        if step <= 0:
            return np.inf
        rounded = np.round((np.clip(centres, low, high) - low) / step) * step + low
        return float((weights * (centres - rounded) ** 2).sum())

    low, high = float(edges[0]), float(edges[-1])
    shares = np.linspace(0.05, 1, 96)
    both = min(shares, key=lambda share: error(low * share, high * share))
    left, right = both, both
    for _ in range(2):
        right = min(shares, key=lambda share: error(low * left, high * share)) if high > 0 else right
        left = min(shares, key=lambda share: error(low * share, high * right)) if low < 0 else left
    return low * left, high * right


@dataclasses.dataclass(frozen=True)
class Linear:
    """``value = (integer - zero_point) * scale``."""

    scale: np.float32
    zero_point: int
    dtype: str  # uint8, int8

    @classmethod
    def of(cls, limits: Range, dtype: str) -> "Linear":
        """The integers of a type spread over a range that has 0 in it, which is exact."""
        low, high = limits
        lowest = 0 if dtype == "uint8" else -128
        scale = np.float32((high - low) / 255)
        if not scale > np.finfo(np.float32).tiny:
            return cls(np.float32(1), lowest if low >= 0 else lowest + 255, dtype)
        zero = int(np.clip(np.round(lowest - low / float(scale)), lowest, lowest + 255))
        return cls(scale, zero, dtype)

    def rounded(self, value: np.ndarray) -> np.ndarray:
        """What of a value comes back from the integers."""
        lowest = 0 if self.dtype == "uint8" else -128
        integers = np.clip(np.round(value / self.scale) + self.zero_point, lowest, lowest + 255)
        return ((integers - self.zero_point) * self.scale).astype(np.float32)


def weight_integers(weight: np.ndarray, axis: Optional[int], least: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """int8 weights and their scales, symmetric about 0: per channel along ``axis``, or one for all (None).

    ``least``: scales are no smaller, so that a bias in units of the product fits in 32 bits.
    """
    others = tuple(k for k in range(weight.ndim) if k != axis)
    largest = np.abs(weight).max(axis=others if axis is not None else None, initial=0)
    scales = np.maximum(largest / 127, least if axis is not None else least.max(initial=0)).astype(np.float32)
    scales = np.where(scales > np.finfo(np.float32).tiny, scales, np.float32(1)).astype(np.float32)
    integers = np.round(weight / along(scales, axis, weight.ndim))
    return np.clip(integers, -127, 127).astype(np.int8), scales


def along(values: np.ndarray, axis: Optional[int], rank: int) -> np.ndarray:
    """Values per channel in a shape that broadcasts along ``axis``; a single one as it is."""
    return values if axis is None or values.ndim == 0 else values.reshape([-1 if k == axis else 1 for k in range(rank)])
