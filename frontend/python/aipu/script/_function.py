"""``S.prim_func`` and ``S.macro``: kernels, sub-functions and macros, and calling them as Python."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from .._capture import names_visible, remember_exec_source
from .._dtype import DataType
from ._core import Value
from ._pointer import Pointer
from ._pysim import running, simulate
from ._record import as_declared, check_record, converted, is_record_type
from ._types import PointerType, TypeObject

_logger = logging.getLogger("Compass")


class Parameter(NamedTuple):
    """A parameter of a decorated function."""

    name: str
    annotation: Any  # a TypeObject, a PointerType, a record type, or None if it has none
    has_default: bool


def _annotations(function: Callable[..., Any]) -> Dict[str, Any]:
    """Annotations by parameter name.

    Those that are text (``from __future__ import annotations``) are evaluated where the function is decorated: a name
    that only an annotation mentions is not in its closure.
    """
    found = dict(getattr(function, "__annotations__", {}))
    if any(isinstance(annotation, str) for annotation in found.values()):
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename == __file__:
            frame = frame.f_back
        names = {**function.__globals__, **frame.f_locals}
        found = {k: eval(v, names) if isinstance(v, str) else v for k, v in found.items()}
    return found


def _check_annotation(annotation: Any, what: str, function: str) -> None:
    if annotation is None or isinstance(annotation, (TypeObject, PointerType)):
        return
    if is_record_type(annotation) and what != "return value":
        return
    raise AssertionError(f'The type annotation of {what} of function "{function}" is not supported.')


class PyPrimFunc:
    """A decorated kernel or sub-function.

    Called from ordinary Python it runs as PySim (after ``BuildManager.build``); called inside a kernel it is a sub-
    function. ``py_func`` is the wrapped function; ``param_infos``, ``cps_info`` and ``output_dir`` are filled in by the
    build.
    """

    def __init__(self, py_func: Callable[..., Any], is_entry: bool = False, is_inline: Optional[bool] = None) -> None:
        assert is_inline in (None, True, False), 'Invalid value of parameter "is_inline".'
        functools.update_wrapper(self, py_func)
        remember_exec_source(py_func)
        self.py_func = py_func
        self.is_entry = is_entry
        self.is_inline = is_inline
        self.names: Dict[str, Any] = {}  # that its code sees beside those of its module: attributes of an operator
        self.param_infos: Optional[List[Any]] = None
        self.cps_info: Any = None
        self.output_dir: Optional[str] = None
        annotations = _annotations(py_func)
        self.params: List[Parameter] = []
        for name, parameter in inspect.signature(py_func).parameters.items():
            annotation = annotations.get(name)
            _check_annotation(annotation, f'parameter "{name}"', py_func.__name__)
            self.params.append(Parameter(name, annotation, parameter.default is not inspect.Parameter.empty))
        self.return_annotation = annotations.get("return")
        _check_annotation(self.return_annotation, "return value", py_func.__name__)

    def __repr__(self) -> str:
        return f"<prim_func {self.py_func.__qualname__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A sub-function call inside a kernel; from outside the simulation of the whole kernel on four TECs."""
        if running() is not None:
            return self._call_as_sub_function(args, kwargs)
        assert self.param_infos is not None, "Please compile before execute by Python Simulation."
        self._simulate(args, kwargs)
        return None

    # --- the entry ---

    def _simulate(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        if kwargs:
            bound = self._signature.bind_partial(*args, **kwargs)
            bound.apply_defaults()
            args = tuple(bound.arguments.values())
        required = sum(not parameter.has_default for parameter in self.params)
        assert required <= len(args) <= len(self.params), (
            f'The function "{self.__name__}" expect {len(self.params)} args, but got: "{len(args)}".'
        )
        args += tuple(self._signature.parameters[p.name].default for p in self.params[len(args) :])
        makers = [
            self._entry_argument(f"{i + 1}-th arg", p.annotation, a) for i, (p, a) in enumerate(zip(self.params, args))
        ]
        with names_visible(self, self.names):
            simulate(self.py_func, lambda: tuple(make() for make in makers))

    def _entry_argument(self, what: str, annotation: Any, value: Any) -> Callable[[], Any]:
        """Makes a TEC's own copy of an argument; ``what`` names it in messages."""
        if is_record_type(annotation):
            check_record(what, annotation, value)
            fields = [
                self._entry_argument(
                    f'field "{field.name}" of the {what}', field.annotation, getattr(value, field.name)
                )
                for field in annotation.__record_fields__
            ]
            return lambda: annotation(*(make() for make in fields))
        if isinstance(annotation, tuple):
            parts = [self._entry_argument(what, a, v) for a, v in zip(annotation, value)]
            return lambda: tuple(make() for make in parts)
        if isinstance(annotation, PointerType):
            memory = self._entry_memory(what, annotation.dtype, value)
            return lambda: Pointer(memory, 0, annotation.dtype, annotation.scope)
        assert annotation is not None and annotation.dtype.is_scalar, (
            "A vector variable can't be a argument of the entry function."
        )
        number = value.item() if isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0 else value
        assert isinstance(number, (bool, int, float, Value)), (
            f'The {what} of function "{self.__name__}" expect a number, but got: "{type(value).__name__}".'
        )
        return lambda: converted(number, annotation.dtype)

    def _entry_memory(self, what: str, dtype: DataType, value: Any) -> Optional[np.ndarray]:
        if value is None or (isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value == 0):
            return None
        assert isinstance(value, np.ndarray), f'The {what} expect a NumPy, but got: "{type(value).__name__}".'
        if not dtype.is_void and str(value.dtype) != dtype.element_of:
            _logger.warning(
                'The %s of function "%s" expect a %s NumPy, but got: "%s".',
                what,
                self.__name__,
                dtype.element_of,
                value.dtype,
            )
        assert value.flags.c_contiguous, (
            f'The {what} of function "{self.__name__}" expect a C-style contiguous NumPy, '
            'please achieve it through "numpy.ascontiguousarray".'
        )
        return value.reshape(-1).view(np.uint8)

    # --- sub-functions ---

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.py_func)

    def _call_as_sub_function(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        if kwargs or len(args) != len(self.params):
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args = tuple(bound.arguments.values())
        declared = [as_declared(f"{i + 1}-th arg", p.annotation, a) for i, (p, a) in enumerate(zip(self.params, args))]
        result = self.py_func(*declared)
        annotation = self.return_annotation
        if annotation is None or result is None:
            return result
        if isinstance(annotation, PointerType):
            return Pointer(result._memory, result._offset, annotation.dtype, result.scope)
        return result if annotation.dtype.is_vector else converted(result, annotation.dtype)


def prim_func(
    func: Optional[Callable[..., Any]] = None, /, *, is_entry: bool = False, is_inline: Optional[bool] = None
) -> Any:
    """Decorates a kernel or sub-function: ``@S.prim_func`` or ``@S.prim_func(is_inline=True)``.

    ``is_entry`` is for readers only. ``is_inline`` asks the C compiler to inline the function (True), or not to
    (False).
    """
    if func is None:
        return lambda decorated: PyPrimFunc(decorated, is_entry, is_inline)
    return PyPrimFunc(func, is_entry, is_inline)


class PyMacro:
    """A decorated macro: inlined where a kernel calls it. ``py_func`` is the wrapped function.

    Free names resolve where it is defined, or with ``hygienic=False`` where it is used.
    """

    def __init__(self, py_func: Callable[..., Any], hygienic: bool = True) -> None:
        functools.update_wrapper(self, py_func)
        remember_exec_source(py_func)
        self.py_func = py_func
        self.hygienic = hygienic

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Macros exist when compiling only."""
        raise AssertionError("PySim does not support macro.")


def macro(func: Optional[Callable[..., Any]] = None, /, *, hygienic: bool = True) -> Any:
    """Decorates a macro: ``@S.macro`` or ``@S.macro(hygienic=False)``."""
    if func is None:
        return lambda decorated: PyMacro(decorated, hygienic)
    return PyMacro(func, hygienic)
