"""How far arrays are apart, summed up over runs without keeping them."""

from __future__ import annotations

import dataclasses
import math
from typing import List, Optional, Tuple

import numpy as np

WORST = 3  # inputs that are remembered


@dataclasses.dataclass
class Error:
    """The difference ``b - a`` over all runs so far; ``a`` is the reference.

    ``worst``: the runs with the largest ratio of noise to signal, (root of that ratio, name), the largest first.
    Elements that are the same infinity, or NaN on both sides, are equal; where one side alone is not finite, the error
    is infinite.
    """

    count: int = 0
    signal: float = 0.0  # sum of a squared
    other: float = 0.0  # of b squared
    noise: float = 0.0  # of (b - a) squared
    product: float = 0.0  # of a times b
    absolute: float = 0.0  # of |b - a|
    largest: float = 0.0
    worst: List[Tuple[float, str]] = dataclasses.field(default_factory=list)

    def add(self, a: np.ndarray, b: np.ndarray, run: str) -> None:
        """One run's values, of the same shape."""
        x, y = np.asarray(a, np.float64).ravel(), np.asarray(b, np.float64).ravel()
        finite = np.isfinite(x) & np.isfinite(y)
        is_broken = False
        if not finite.all():
            unequal = ~finite & ~((x == y) | (np.isnan(x) & np.isnan(y)))
            is_broken = bool(unequal.any())
            x, y = x[finite], y[finite]
        difference = y - x
        signal, noise = float(x @ x), float(difference @ difference)
        if is_broken:
            noise = math.inf
        self.count += x.size
        self.signal += signal
        self.noise += noise
        self.other += float(y @ y)
        self.product += float(x @ y)
        absolute = np.abs(difference)
        self.absolute += math.inf if is_broken else float(absolute.sum())
        self.largest = max(self.largest, math.inf if is_broken else float(absolute.max(initial=0)))
        if noise > 0:
            self.worst = sorted([*self.worst, (_ratio(noise, signal), run)], key=lambda one: -one[0])[:WORST]

    @property
    def relative(self) -> float:
        """Root of noise by signal: 0 where nothing differs, infinite where the reference is 0 and the other is not."""
        return _ratio(self.noise, self.signal)

    @property
    def snr(self) -> float:
        """Signal to noise in dB; infinite where nothing differs."""
        relative = self.relative
        if relative == 0:
            return math.inf
        return -math.inf if math.isinf(relative) else -20 * math.log10(relative)

    @property
    def cosine(self) -> float:
        """Of the angle between the two, over all runs; 1 where both are 0."""
        if self.signal == 0 or self.other == 0:
            return 1.0 if self.signal == self.other else 0.0
        return min(1.0, max(-1.0, self.product / math.sqrt(self.signal * self.other)))

    @property
    def mean(self) -> float:
        """Of the absolute error."""
        return self.absolute / self.count if self.count else 0.0


def _ratio(noise: float, signal: float) -> float:
    if noise == 0:
        return 0.0
    return math.sqrt(noise / signal) if signal > 0 else math.inf


def decibels(value: Optional[float]) -> str:
    """A ratio for people."""
    if value is None:
        return "-"
    if math.isinf(value):
        return "exact" if value > 0 else "no signal"
    return f"{value:.1f}"
