"""Matrices."""

from values import F32, F64, Node


def determinant(g):
    n = g.between(1, 4)
    x = g.add_input(g.one_of(F32, F64), (*g.shape(0, 2), n, n))
    return Node("Det", [x])


RULES = [determinant]
