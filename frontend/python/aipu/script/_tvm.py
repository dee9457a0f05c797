"""Names that users of TVM know from its script, with the meaning that they have there."""

from __future__ import annotations

from typing import Any, Dict, Optional

from .._dtype import get_range
from ._bits import vsel
from ._convert import cast
from ._core import Scalar, Value, Vector, call, convert, resolve_type
from ._structure import tec_range, vectorized

# --- loops ---


def serial(start: Any, stop: Any = None, annotations: Optional[Dict[str, Any]] = None) -> range:
    """``range(start, stop)``."""
    return vectorized(start, stop)


def parallel(start: Any, stop: Any = None, annotations: Optional[Dict[str, Any]] = None) -> range:
    """``range(start, stop)``: every TEC runs all of it."""
    return vectorized(start, stop)


def unroll(start: Any, stop: Any = None, step: Any = 1) -> range:
    """``range(start, stop, step)`` with a copy of the body for every turn, where the bounds are known."""
    return range(0, start, step) if stop is None else range(start, stop, step)


def thread_binding(
    start: Any, stop: Any = None, thread: Optional[str] = None, annotations: Optional[Dict[str, Any]] = None
) -> range:
    """``tec_range(start, stop)``: each TEC runs the turn with its number."""
    return tec_range(start, None if isinstance(stop, str) else stop)


# --- choices ---


def if_then_else(cond: Any, t: Any, f: Any, span: Any = None) -> Any:
    """``t if cond else f``."""
    return t if cond else f


def Select(condition: Any, true_value: Any, false_value: Any, span: Any = None) -> Any:
    """``true_value`` where the condition holds; of a mask lane by lane."""
    if isinstance(condition, Vector):
        return vsel(true_value, false_value, condition)
    return true_value if condition else false_value


# --- quotients ---


def _truncated(a: Any, b: Any) -> Any:
    if isinstance(a, Value) or isinstance(b, Value):
        return a // b
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def truncdiv(a: Any, b: Any, span: Any = None) -> Any:
    """The quotient of integers, cut toward zero."""
    return _truncated(a, b)


def truncmod(a: Any, b: Any, span: Any = None) -> Any:
    """The remainder of ``truncdiv``, with the sign of ``a``."""
    return a % b if isinstance(a, Value) or isinstance(b, Value) else a - _truncated(a, b) * b


def floordiv(a: Any, b: Any, span: Any = None) -> Any:
    """The quotient of integers, rounded down."""
    if not isinstance(a, Value) and not isinstance(b, Value):
        return a // b
    quotient = a // b
    corrects = _is_corrected(a % b, b)
    return Select(corrects, quotient - 1, quotient)


def floormod(a: Any, b: Any, span: Any = None) -> Any:
    """The remainder of ``floordiv``, with the sign of ``b``."""
    if not isinstance(a, Value) and not isinstance(b, Value):
        return a % b
    rest = a % b
    return Select(_is_corrected(rest, b), rest + b, rest)


def _is_corrected(rest: Any, divisor: Any) -> Any:
    if not rest.dtype.is_int:
        return False
    if isinstance(rest, Scalar):
        return rest != 0 and (rest < 0) != (divisor < 0)
    return (rest != 0) & ((rest < 0) ^ (divisor < 0))


# --- numbers ---


def min_value(dtype: Any, span: Any = None) -> Scalar:
    """The least number of a type."""
    element = resolve_type(dtype).element_of
    return convert(get_range(element)[0], element)


def max_value(dtype: Any, span: Any = None) -> Scalar:
    """The greatest number of a type."""
    element = resolve_type(dtype).element_of
    return convert(get_range(element)[1], element)


def infinity(dtype: Any, span: Any = None) -> Any:
    """Infinity."""
    return cast("inf", dtype)


def _unary(name: str, text: str) -> Any:
    def function(x: Any) -> Any:
        return call(name, (x,))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


log2 = _unary("log2", "The logarithm to base 2.")
log10 = _unary("log10", "The logarithm to base 10.")
sigmoid = _unary("sigmoid", "``1 / (1 + exp(-x))``.")
trunc = _unary("trunc", "The integer toward zero.")
round = _unary("round", "The nearest integer, ties to even.")
tan = _unary("tan", "The tangent of an angle in radians.")
asin = _unary("asin", "The angle of a sine.")
acos = _unary("acos", "The angle of a cosine.")
atan = _unary("atan", "The angle of a tangent.")
sinh = _unary("sinh", "The hyperbolic sine.")
cosh = _unary("cosh", "The hyperbolic cosine.")
asinh = _unary("asinh", "The inverse of ``sinh``.")
acosh = _unary("acosh", "The inverse of ``cosh``.")
atanh = _unary("atanh", "The inverse of ``tanh``.")


# --- statements ---


def func_attr(attrs: Dict[str, Any]) -> None:
    """Facts about the function; nothing here reads them."""


def evaluate(value: Any) -> None:
    """An expression as a statement."""


def likely(cond: Any, span: Any = None) -> Any:
    """``cond``, which is true more often than not."""
    return cond


def Assert(condition: Any, message: str = "Assertion failed.") -> None:
    """AssertionError if the condition does not hold. The compiler has to know it."""
    if not condition:
        raise AssertionError(message)


def let(value: Any) -> Any:
    """The value, under a name of its own."""
    return value


__all__ = [
    *("serial", "parallel", "unroll", "thread_binding", "if_then_else", "Select", "truncdiv", "truncmod", "floordiv"),
    *("floormod", "min_value", "max_value", "infinity", "log2", "log10", "sigmoid", "trunc", "round", "tan", "asin"),
    *("acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "func_attr", "evaluate", "likely", "Assert", "let"),
]
