"""Functions by name, which C++ and Python share: what ``tir.call_packed`` calls."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

from . import _native
from ._errors import TVMError

__all__ = ["PackedFunc", "convert", "get_global_func", "list_global_func_names", "register_func", "remove_global_func"]

_registry = _native.registry


class PackedFunc:
    """A function of the registry. It takes and returns numbers, texts, arrays, objects; no tuples."""

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        self._function, self.name = function, name

    def __call__(self, *args: Any) -> Any:
        result = self._function(*args)
        if isinstance(result, tuple):
            raise ValueError(f"{self.name or 'a function'} returns a tuple, which has no meaning here; return a list")
        return result

    def __repr__(self) -> str:
        return f"PackedFunc({self.name or self._function!r})"


def register_func(func_name: Any = None, f: Optional[Callable[..., Any]] = None, override: bool = False) -> Any:
    """Registers a function, as ``@register_func``, ``@register_func("name")`` or ``register_func("name", f)``.

    TVMError if the name is taken and ``override`` is False.
    """
    if func_name is None:  # @register_func(override=True)
        return lambda function: register_func(function.__name__, function, override)
    if callable(func_name):
        f, func_name = func_name, func_name.__name__
    if not isinstance(func_name, str):
        raise ValueError(f"register_func: a name, not {type(func_name).__name__}")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        packed = function if isinstance(function, PackedFunc) else PackedFunc(function, func_name)
        try:
            _registry.add(func_name, packed, bool(override))
        except ValueError as error:
            raise TVMError(str(error)) from None
        return function

    return register if f is None else register(f)


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """The function that is registered under a name, by Python or by C++; ValueError (or None) if there is none."""
    function = _registry.find(name)
    if function is None and not allow_missing:
        raise ValueError(f"there is no registered function {name!r}")
    return function if function is None or isinstance(function, PackedFunc) else PackedFunc(function, name)


def list_global_func_names() -> List[str]:
    """The names of all functions."""
    return _registry.names()


def remove_global_func(name: str) -> None:
    """Forgets a function; ValueError if there is none."""
    if not _registry.remove(name):
        raise ValueError(f"there is no registered function {name!r}")


def convert(value: Any) -> Any:
    """Values as the interface of compiled functions knows them: functions as :class:`PackedFunc`, numbers as constants.

    Lists and dictionaries are converted inside; None and other objects stay what they are.
    """
    from .te._expr import const

    if isinstance(value, (bool, int, float)):
        return const(value)
    if isinstance(value, (list, tuple)):
        return [convert(v) for v in value]
    if isinstance(value, dict):
        return {k: convert(v) for k, v in value.items()}
    if callable(value) and not isinstance(value, (type, PackedFunc)) and not hasattr(value, "dtype"):
        return PackedFunc(value, getattr(value, "__name__", ""))
    return value
