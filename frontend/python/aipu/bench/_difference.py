"""How far the outputs of two sides are apart. Needs NumPy alone, as :mod:`._turns` does, for tests/bench/compare."""

from __future__ import annotations

from typing import Mapping

import numpy as np


def relative_error(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> float:
    """The largest difference over the largest magnitude of an output; infinite for other outputs, shapes or NaNs."""
    worst = 0.0
    if sorted(ours) != sorted(theirs):
        return float("inf")
    for name, a in ours.items():
        b = theirs[name]
        if a.shape != b.shape:
            return float("inf")
        if a.size == 0:
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        if not (np.isfinite(x[~same]).all() and np.isfinite(y[~same]).all()):
            return float("inf")
        finite = np.abs(y[np.isfinite(y)])
        scale = float(finite.max()) if finite.size else 0.0
        if not same.all():
            worst = max(worst, float(np.abs(x - y)[~same].max()) / max(scale, 1e-30))
    return worst
