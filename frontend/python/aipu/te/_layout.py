"""``Stage.transform_layout``: a mapping of indices, taken apart into digits, and its inverse.

An index is made of digits: ``i`` of extent 32 in ``[i // 8, j, i % 8]`` of one that counts by 8 and one that counts by
1. A mapping that uses each digit of each index once, and whose results count in digits themselves, can be inverted.
"""

from __future__ import annotations

import inspect
from typing import Any, List, NamedTuple, Sequence, Tuple

from .. import _native
from ._expr import IterVar, PrimExpr, TVMError, const, expr, var
from ._functions import floordiv, floormod

_te = _native.te


class AxisSeparator:
    """A mark between groups of axes."""

    def __repr__(self) -> str:
        return "AXIS_SEPARATOR"


AXIS_SEPARATOR = AxisSeparator()


class _Term(NamedTuple):
    """``coefficient * ((source // unit) % size)``; the last digit of an index has no rest to leave."""

    coefficient: int
    source: int
    unit: int
    size: Any  # int, or an expression


class Layout(NamedTuple):
    """What the compiled half needs, and where separators stand."""

    source: List[PrimExpr]
    target: List[PrimExpr]
    axis: List[Any]
    inverse: List[PrimExpr]
    separators: List[int]


def _int(value: Any) -> Any:
    return int(value) if isinstance(value, PrimExpr) and value.node == "IntImm" else value


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return bool(_te.NativeAnalyzer().can_prove(expr(a).equal(b)))


class _Digits:
    def __init__(self, what: str, variables: Sequence[PrimExpr], extents: Sequence[Any]) -> None:
        self._what = what
        self._number = {v.key(): k for k, v in enumerate(variables)}
        self._extents = [_int(e) for e in extents]

    def refuse(self, e: Any, why: str) -> TVMError:
        """An error that names the part of the mapping."""
        return TVMError(f"transform_layout of {self._what}: {e} {why}")

    def of(self, e: PrimExpr) -> List[_Term]:
        """The digits whose sum an expression is."""
        if e.node in ("Var", "SizeVar") and e.key() in self._number:
            number = self._number[e.key()]
            size = self._extents[number]
            return [] if size == 1 else [_Term(1, number, 1, size)]
        if e.node == "IntImm" and int(e) == 0:
            return []
        if e.node == "Cast":
            return self.of(e.value)
        if e.node == "Add":
            return self.of(e.a) + self.of(e.b)
        if e.node in ("Mul", "FloorDiv", "FloorMod"):
            a, b = (e.b, e.a) if e.node == "Mul" and e.a.node == "IntImm" else (e.a, e.b)
            if b.node == "IntImm" and int(b) > 0:
                terms, number = self.of(a), int(b)
                if e.node == "Mul":
                    return [t._replace(coefficient=t.coefficient * number) for t in terms]
                return self._divided(e, terms, number, rest=e.node == "FloorMod")
        raise self.refuse(e, "is no sum of parts of the indices")

    def _divided(self, e: PrimExpr, terms: List[_Term], number: int, rest: bool) -> List[_Term]:
        low: List[_Term] = []
        high: List[_Term] = []
        for t in terms:
            if t.coefficient % number == 0:
                high.append(t._replace(coefficient=t.coefficient // number))
            elif isinstance(t.size, int) and t.coefficient * t.size <= number:
                low.append(t)
            else:
                low_size = number // t.coefficient
                if number % t.coefficient or not _same(floormod(expr(t.size), low_size), 0):
                    raise self.refuse(e, f"does not divide {t.size} without a rest")
                size = _int(_te.NativeAnalyzer().simplify(floordiv(expr(t.size), low_size)))
                low.append(t._replace(size=low_size))
                high.append(_Term(1, t.source, t.unit * low_size, size))
        reached = 0
        for t in low:
            reached += t.coefficient * (int(t.size) - 1)
        if reached >= number:
            raise self.refuse(e, "is divided across digits")
        return low if rest else high

    def counted(self, e: PrimExpr) -> Tuple[List[_Term], Any]:
        """The digits of a result, the smallest first, and its extent."""
        terms = sorted(self.of(e), key=lambda t: t.coefficient)
        extent: Any = 1
        for t in terms:
            if not isinstance(extent, int) or t.coefficient != extent:
                raise self.refuse(e, "leaves places without an element")
            extent = extent * t.size
        return terms, extent

    def check_all_used(self, results: Sequence[List[_Term]]) -> None:
        """Each digit of each index is in one result."""
        for number, extent in enumerate(self._extents):
            used = sorted([t for terms in results for t in terms if t.source == number], key=lambda t: t.unit)
            unit: Any = 1
            for t in used:
                if not isinstance(unit, int) or t.unit != unit:
                    raise self.refuse(f"index {number}", "is not recovered by the results")
                unit = unit * t.size
            if not _same(unit, extent):
                raise self.refuse(f"index {number}", "is not recovered by the results")


def layout(what: str, shape: Sequence[Any], mapping: Any) -> Layout:
    """Of ``mapping(i, j, ...)``, or ``mapping(*indices)``, the inverse and the new axes.

    TVMError for what has none, or would leave places without an element.
    """
    spec = inspect.getfullargspec(mapping)
    names = list(spec.args) + [f"i{k}" for k in range(len(spec.args), len(shape))] * bool(spec.varargs)
    if len(names) != len(shape):
        raise TVMError(f"transform_layout of {what}: a mapping of {len(names)} indices for {len(shape)} dimensions")
    source = [var(name, e.dtype) for name, e in zip(names, shape)]
    given = mapping(*source)
    target: List[PrimExpr] = []
    separators: List[int] = []
    for one in given if isinstance(given, (list, tuple)) else [given]:
        if isinstance(one, AxisSeparator):
            separators.append(len(target))
        else:
            target.append(expr(one))
    digits = _Digits(what, source, shape)
    axes, results = [], []
    parts: List[List[Tuple[int, PrimExpr]]] = [[] for _ in source]
    for k, value in enumerate(target):
        terms, extent = digits.counted(value)
        results.append(terms)
        own = var(f"axis{k}", value.dtype)
        extent = const(extent, own.dtype) if isinstance(extent, int) else extent
        axes.append(IterVar(own, _te.NativeRange(const(0, own.dtype), extent), IterVar.DataPar))
        for t in terms:
            digit = own if t.coefficient == 1 else floordiv(own, t.coefficient)
            if t is not terms[-1]:
                digit = floormod(digit, t.size)
            parts[t.source].append((t.unit, digit))
    digits.check_all_used(results)
    inverse = []
    for variable, digits_of in zip(source, parts):
        value = const(0, variable.dtype)
        for unit, digit in sorted(digits_of, key=lambda pair: -pair[0]):
            value = value + (digit if unit == 1 else digit * unit)
        inverse.append(value.astype(variable.dtype))
    return Layout(source, target, axes, inverse, separators)
