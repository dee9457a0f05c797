"""Functions of expressions: those of the table in ``kernels/te``, divisions, conditions, limits of types."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List

from .. import _native
from .._errors import TVMError
from . import _expr
from ._expr import _AS_CALLS, PrimExpr, _invert, _pair, _View, binary, cast, dtype_text, expr

_te = _native.te


def _function(name: str) -> Any:
    def call(*args: Any) -> PrimExpr:
        if len(args) == 2:
            return _te.call(name, list(_pair(*args)))
        return _te.call(name, [expr(a) for a in args])

    call.__name__ = name
    call.__doc__ = f"``{name}`` of expressions, element by element."
    return call


FUNCTIONS = {name: _function(name) for name in _te.function_names()}
FUNCTIONS["pow"] = FUNCTIONS["power"]


def _integers(node: str) -> Any:
    def call(a: Any, b: Any) -> PrimExpr:
        a, b = _pair(a, b)
        for x in (a, b):
            if x.dtype.startswith(("float", "bfloat")):
                raise TVMError(f"this division needs integers, not {x.dtype}")
        return _te.binary(node, a, b)

    return call


truncdiv, truncmod = _integers("Div"), _integers("Mod")
floordiv, floormod = _integers("FloorDiv"), _integers("FloorMod")
indexdiv, indexmod = floordiv, floormod


def ceildiv(a: Any, b: Any) -> PrimExpr:
    """The quotient, rounded up."""
    a, b = _pair(a, b)
    return floordiv(a + (b - 1), b)


def div(a: Any, b: Any) -> PrimExpr:
    """The division of C: of integers toward zero."""
    return _te.binary("Div", *_pair(a, b))


def _as_function(node: str, name: str) -> Any:
    def call(a: Any, b: Any) -> PrimExpr:
        return binary(node, a, b)

    call.__name__ = name
    call.__doc__ = f"The operation ``{node}`` of two expressions."
    return call


_ARITHMETIC = {"Add": "add", "Sub": "subtract", "Mul": "multiply", **_AS_CALLS}
_OPERATORS = {name: _as_function(node, name) for node, name in _ARITHMETIC.items()}
_OPERATORS["bitwise_not"] = _invert


def all(*conditions: Any) -> PrimExpr:
    """Whether all of the conditions hold."""
    return _conjunction("And", conditions)


def any(*conditions: Any) -> PrimExpr:
    """Whether one of the conditions holds."""
    return _conjunction("Or", conditions)


def _conjunction(node: str, conditions: Iterable[Any]) -> PrimExpr:
    nodes = [expr(c) for c in conditions]
    if not nodes:
        raise ValueError("at least one condition is needed")
    result = nodes[0]
    for node_ in nodes[1:]:
        result = _te.binary(node, result, node_)
    return result


def if_then_else(condition: Any, a: Any, b: Any) -> PrimExpr:
    """``a`` or ``b``; only the chosen side is evaluated."""
    return _te.if_then_else(expr(condition), *_pair(a, b))


def likely(condition: Any) -> PrimExpr:
    """A hint that a condition holds mostly."""
    return _te.likely(expr(condition))


def min_value(dtype: Any) -> PrimExpr:
    """The least finite number of a type."""
    return _te.min_value(dtype_text(dtype))


def max_value(dtype: Any) -> PrimExpr:
    """The largest finite number of a type."""
    return _te.max_value(dtype_text(dtype))


def infinity(dtype: Any) -> PrimExpr:
    """Infinity of a floating type."""
    return _te.float_imm(float("inf"), dtype_text(dtype))


def reinterpret(dtype: Any, value: Any) -> PrimExpr:
    """The bits of a value as another type of the same size."""
    return _te.reinterpret(dtype_text(dtype), expr(value))


def call_intrin(dtype: Any, func_name: Any, *args: Any) -> PrimExpr:
    """A function by the name of its operation: ``"tir.exp"``."""
    name = getattr(func_name, "name", func_name)
    short = name[len("tir.") :] if name.startswith("tir.") else name
    made = {**FUNCTIONS, **_OPERATORS, "if_then_else": if_then_else, "likely": likely}.get(short)
    if short == "reinterpret":
        return reinterpret(dtype, *args)
    if made is None:
        raise TVMError(f"call_intrin: there is no operation {name!r}")
    return cast(dtype, made(*args))


def variables(value: Any) -> List[PrimExpr]:
    """The variables of an expression, in order of first use."""
    return _te.variables(expr(value))


def tir_names() -> Dict[str, Any]:
    """What `aipu.tir` has of expressions: the nodes, the functions."""
    nodes = {name: value for name, value in vars(_expr).items() if isinstance(value, _View)}
    values = {name: getattr(_expr, name) for name in ("PrimExpr", "IterVar", "Stmt", "ForKind", "const")}
    functions = """all any likely if_then_else infinity min_value max_value
        truncdiv truncmod floordiv floormod indexdiv indexmod ceildiv div reinterpret call_intrin""".split()
    return {**nodes, **values, **{name: globals()[name] for name in functions}, **_OPERATORS, **FUNCTIONS}
