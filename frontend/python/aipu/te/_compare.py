"""Comparing expressions, statements and functions up to the names of their variables."""

from __future__ import annotations

from typing import Any, Dict, List

from .. import _native
from ._expr import EqualOp, PrimExpr, Range, Stmt

_te = _native.te
_NAMES = ("name", "dropped")  # of variables; what is said by the region already


class _Comparison:
    """Pairs the variables and the operations of two sides as they are met."""

    def __init__(self, map_free_vars: bool) -> None:
        self._pairs: Dict[Any, Any] = {}
        self._taken: Dict[Any, Any] = {}
        self._map_free_vars = map_free_vars

    def pair(self, a: Any, b: Any) -> bool:
        """Whether two variables or operations stand for each other; defines it where neither is known."""
        if a in self._pairs or b in self._taken:
            return self._pairs.get(a) == b
        self._pairs[a], self._taken[b] = b, a
        return True

    def equal(self, a: Any, b: Any) -> bool:
        """Whether two things are the same."""
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            return len(a) == len(b) and all(self.equal(x, y) for x, y in zip(a, b))
        if type(a) is not type(b):
            return False
        if isinstance(a, PrimExpr):
            return self._expressions(a, b)
        if isinstance(a, Stmt):
            return self._statements(a, b)
        if isinstance(a, _te.Tensor):
            return a.value_index == b.value_index and self._operations(a.op, b.op)
        if isinstance(a, (Range, _te.NativeRange)):
            return self.equal(a.min, b.min) and self.equal(a.extent, b.extent)
        if isinstance(a, _te.IterVar):
            return a.iter_type == b.iter_type and a.thread_tag == b.thread_tag and self._bound(a.var, b.var)
        if isinstance(a, _te.CommReducer):
            for x, y in zip(a.lhs + a.rhs, b.lhs + b.rhs):
                self._bound(x, y)
            return len(a.lhs) == len(b.lhs) and self.equal(a.result + a.identity_element, b.result + b.identity_element)
        return bool(a == b)

    def _bound(self, a: PrimExpr, b: PrimExpr) -> bool:
        return a.dtype == b.dtype and self.pair(a.key(), b.key())

    def _operations(self, a: Any, b: Any) -> bool:
        shapes = [[op.output(i).native_shape for i in range(op.num_outputs)] for op in (a, b)]
        return a.kind == b.kind and self.pair(a.output(0).identity[0], b.output(0).identity[0]) and self.equal(*shapes)

    def _expressions(self, a: PrimExpr, b: PrimExpr) -> bool:
        if a.node != b.node or a.dtype != b.dtype:
            return False
        if a.node in ("Var", "SizeVar"):
            if a.key() in self._pairs or self._map_free_vars:
                return self.pair(a.key(), b.key())
            return a.same_as(b) and b.key() not in self._taken
        return self._fields(a, b)

    def _statements(self, a: Stmt, b: Stmt) -> bool:
        if a.node != b.node:
            return False
        for name in ("loop_var", "var"):
            if name in a.fields() and not self._bound(a.fields()[name], b.fields()[name]):
                return False
        return self._fields(a, b)

    def _fields(self, a: Any, b: Any) -> bool:
        left, right = a.fields(), b.fields()
        if a.node == "Reduce":  # what its source says stands behind its axes
            order: List[str] = ["axis", *[k for k in left if k != "axis"]]
        else:
            order = [k for k in left if k not in _NAMES]
        return all(self.equal(left[k], right[k]) for k in order)


def structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> bool:
    """Whether two expressions, statements, functions or modules are the same but for names.

    Variables that neither side defines are themselves, unless ``map_free_vars``; a function defines its parameters.
    """
    if hasattr(a, "functions") and hasattr(b, "functions"):
        return set(a.functions) == set(b.functions) and all(
            structural_equal(a[name], b[name], map_free_vars) for name in a.functions
        )
    a, b = (x.asobject() if isinstance(x, EqualOp) else x for x in (a, b))
    comparison = _Comparison(map_free_vars)
    if hasattr(a, "native") and hasattr(b, "native") and hasattr(a, "params"):
        left, right = a.native.params, b.native.params
        free = _Comparison(True)  # parameters and the sizes in their shapes
        if not free.equal(left, right):
            return False
        return free.equal(a.body, b.body)
    return comparison.equal(a, b)


def assert_structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> None:
    """ValueError with both texts where two things are not the same."""
    if not structural_equal(a, b, map_free_vars):
        raise ValueError(f"not structurally equal:\n{a}\nand\n{b}")
