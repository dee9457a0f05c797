"""Operands that many rules draw."""

import numpy as np
from values import I64, Constant


def ints(*values):
    return Constant(np.array(values, np.int64))


def listed(values, known=False):
    return Constant(np.array(values, np.int64), known)


def scalar(value, dtype=I64, known=False):
    return Constant(np.array(value, dtype), known)
