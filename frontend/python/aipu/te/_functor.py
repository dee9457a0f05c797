"""Walking the statements and expressions that lowering makes, and comparing them."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple

from .. import _native
from ._expr import PrimExpr, Stmt, expr

_te = _native.te


def _children(node: Any) -> List[Any]:
    found: List[Any] = []
    for value in node.fields().values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, (PrimExpr, Stmt)):
                found.append(item)
    return found


def post_order_visit(node: Any, visit: Callable[[Any], None]) -> None:
    """Calls ``visit`` for each statement and expression, children first."""
    for child in _children(node):
        post_order_visit(child, visit)
    visit(node)


def substitute(node: Any, values: Dict[Any, Any]) -> Any:
    """The expression with values for its variables."""
    pairs = [(expr(var), expr(value)) for var, value in values.items()]
    return _te.substitute(expr(node), pairs)


class stmt_functor:  # a module for its users
    """``tir.stmt_functor``."""

    post_order_visit = staticmethod(post_order_visit)
    substitute = staticmethod(substitute)


class ConstIntBound(NamedTuple):
    """Between what an index lies."""

    min_value: int
    max_value: int


class Analyzer:
    """What can be said of index arithmetic: the shortest form, proofs."""

    def __init__(self) -> None:
        self._native = _te.NativeAnalyzer()

    def bind(self, var: Any, value: Any) -> None:
        """A variable and its range."""
        one_value = not hasattr(value, "native")
        self._native.bind(expr(var), _te.NativeRange(expr(value), expr(1)) if one_value else value.native())

    def simplify(self, value: Any, *_: Any) -> Any:
        """The shortest form of an index or a condition."""
        return self._native.simplify(expr(value))

    def can_prove(self, condition: Any) -> bool:
        """Whether a condition holds for all values; False says that it is not known."""
        return self._native.can_prove(expr(condition))

    def const_int_bound(self, value: Any) -> ConstIntBound:
        """The least and the greatest value that an index can have, as far as it is known."""
        return ConstIntBound(*self._native.const_bound(expr(value)))

    def can_prove_equal(self, a: Any, b: Any) -> bool:
        """Whether two indices are the same for all values."""
        return self._native.can_prove(expr(a).equal(b))
