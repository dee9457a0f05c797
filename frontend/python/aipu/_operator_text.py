"""Operators that are Python objects as the file that the compiler reads: their functions' sources and what these refer
to, wherever that is defined (a module, a function, a notebook cell, a text run by ``exec()``).
"""

from __future__ import annotations

import ast
import builtins
import math
import os
import re
import textwrap
import types
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

import numpy as np

from . import op, script
from ._capture import script_names, source_of

PathLike = Union[str, "os.PathLike[str]"]


class OperatorText(NamedTuple):
    """A text for the compiler. ``origins`` has, for each of its lines, the file and line that it comes from."""

    name: str
    text: str
    origins: Tuple[Tuple[str, int], ...]

    def located(self, message: str) -> str:
        """A message about this text with the places of the sources."""

        def place(match: "re.Match[str]") -> str:
            file, line = self.origins[min(int(match[1]), len(self.origins)) - 1]
            return f"{file}:{line}"

        return re.sub(re.escape(self.name) + r":(\d+)", place, message)


def plugin_sources(plugins: Sequence[Any]) -> Tuple[List[str], List[OperatorText]]:
    """The files among ``plugins``, and texts of the operators: an :class:`aipu.op.Operator`, a decorated function, or
    a module (of its file).
    """
    files: List[str] = []
    texts: List[OperatorText] = []
    for plugin in plugins:
        if isinstance(plugin, types.ModuleType) and getattr(plugin, "__file__", None):
            files.append(os.fspath(plugin.__file__))
            continue
        operator = plugin if isinstance(plugin, op.Operator) else getattr(plugin, "operator", None)
        if isinstance(operator, op.Operator):
            texts.append(_Writer(operator).text())
        elif isinstance(plugin, (str, os.PathLike)):
            files.append(os.fspath(plugin))
        else:
            raise TypeError(f"plugins: expected a file, a module or a function declared by aipu.op, found {plugin!r}")
    return files, texts


class _Writer:
    """Writes one operator's text: declarations of what its functions refer to, each once, then the functions."""

    def __init__(self, operator: op.Operator) -> None:
        self._operator = operator
        self._lines: List[str] = []
        self._origins: List[Tuple[str, int]] = []
        self._written: Dict[str, Any] = {}
        self._type_names: Dict[int, str] = {}

    def text(self) -> OperatorText:
        operator = self._operator
        main = operator.value or operator.compute or operator.kernels[0].py_func
        self._here = (main.__code__.co_filename, main.__code__.co_firstlineno)
        self._add("from aipu import op as aipu_op")
        known = (*operator.extents.values(), operator.shape, operator.check, operator.compute)
        functions = [f for f in known if f is not None]
        names = [self._function(function) for function in functions]
        named = dict(zip(map(id, functions), names))
        if operator.value is not None:
            self._function(operator.value, above=lambda: f"@aipu_op.elementwise({self._arguments(named)})")
        else:
            kernels = ", ".join([self._function(kernel) for kernel in operator.kernels])
            # After the kernels: the types that they name have those names here.
            given = f", kernels=[{kernels}]" if operator.compute is None else ""
            self._add(f"aipu_op.register({self._arguments(named)}{given})")
        return OperatorText(f"<{operator.name}>", "\n".join(self._lines) + "\n", tuple(self._origins))

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._origins.append(self._here)

    # --- the declaration ---

    def _arguments(self, functions: Mapping[int, str]) -> str:
        operator = self._operator
        parts = [repr(operator.name)]
        for field in ("inputs", "outputs", "workspace"):
            tensors: Mapping[str, op.Tensor] = getattr(operator, field)
            if tensors or field != "workspace":
                items = ", ".join(f"{name!r}: {self._tensor(tensor)}" for name, tensor in tensors.items())
                parts.append(f"{field}={{{items}}}")
        if operator.attributes:
            items = ", ".join(f"{name!r}: {self._attribute(value)}" for name, value in operator.attributes.items())
            parts.append(f"attributes={{{items}}}")
        if operator.extents:
            items = ", ".join(f"{name!r}: {functions[id(function)]}" for name, function in operator.extents.items())
            parts.append(f"extents={{{items}}}")
        for field in ("shape", "check", "compute"):
            if getattr(operator, field) is not None:
                parts.append(f"{field}={functions[id(getattr(operator, field))]}")
        if operator.grain:
            parts.append(f"grain={operator.grain}")
        if operator.apart:
            parts.append(f"apart={list(operator.apart)!r}")
        return ", ".join(parts)

    def _tensor(self, tensor: op.Tensor) -> str:
        form = "optional" if tensor.optional else "variadic" if tensor.variadic else "tensor"
        dims = "".join(f", {dim!r}" for dim in tensor.dims)
        return f"aipu_op.{form}({self._type(tensor.dtype)}{dims})"

    def _type(self, dtype: Any) -> str:
        """A type variable's name, or an element type."""
        if not isinstance(dtype, op.TypeVariable):
            return repr(str(dtype))
        if id(dtype) not in self._type_names:
            self._declare_type(f"aipu_type_{len(self._type_names)}", dtype)
        return self._type_names[id(dtype)]

    def _declare_type(self, name: str, dtype: op.TypeVariable) -> None:
        self._type_names[id(dtype)] = name
        self._add(f"{name} = aipu_op.dtype({', '.join(repr(str(choice)) for choice in dtype.choices)})")

    def _attribute(self, value: Any) -> str:
        if isinstance(value, type):
            return value.__name__
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], type):
            return f"[{value[0].__name__}]"
        return self._constant("an attribute", value)

    # --- functions and what they refer to ---

    def _function(self, function: Any, name: Optional[str] = None, above: Optional[Callable[[], str]] = None) -> str:
        """Writes a function, plain or decorated, after what it refers to, with a decorator; its name in the text."""
        plain = getattr(function, "py_func", function)
        is_lambda = plain.__name__ == "<lambda>"
        name = name or (f"aipu_function_{len(self._written)}" if is_lambda else plain.__name__)
        if self._written.get(name) is function:
            return name
        self._claim(name, function)
        try:
            file, text, first, _ = source_of(plain)
        except (OSError, TypeError):
            raise ValueError(f"{self._operator.name}: the source of the function {name!r} is not known") from None
        if text.startswith("if True:\n"):
            text, first = text.partition("\n")[2], first + 1
        text = textwrap.dedent(text)
        if is_lambda:
            self._references(plain, ast.parse(text.strip(), mode="eval"))
            self._add(f"{name} = {text.strip()}")
            return name
        lines, tree = self._without_declaration(plain, text)
        self._references(plain, tree)
        if tree.name != name:
            lines = [re.sub(rf"^def {tree.name}\b", f"def {name}", line) for line in lines]
        if above is not None:
            self._add(above())
        for i, line in enumerate(lines):
            if line or above is None:  # nothing stands between a decorator and its function
                self._lines.append(line)
                self._origins.append((file, first + i))
        return name

    def _claim(self, name: str, value: Any) -> None:
        known = self._written.setdefault(name, value)
        if known is not value:
            raise ValueError(f"{self._operator.name}: {name!r} is two things in the sources of its functions")

    def _without_declaration(self, function: Any, text: str) -> Tuple[List[str], ast.FunctionDef]:
        """The lines of a function without the decorators of aipu.op, and its tree without them."""
        tree = ast.parse(text).body[0]
        assert isinstance(tree, ast.FunctionDef)
        lines = text.splitlines()
        kept = []
        for decorator in tree.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if self._value_of(function, called) in (op.register, op.elementwise):
                for line in range(decorator.lineno - 1, decorator.end_lineno or decorator.lineno):
                    lines[line] = ""
            else:
                kept.append(decorator)
        tree.decorator_list = kept
        return lines, tree

    def _value_of(self, function: Any, expr: ast.expr) -> Any:
        """What a dotted name is where a function is defined; None for anything else."""
        if isinstance(expr, ast.Name):
            return self._lookup(function, expr.id)
        if isinstance(expr, ast.Attribute):
            return getattr(self._value_of(function, expr.value), expr.attr, None)
        return None

    def _lookup(self, function: Any, name: str) -> Any:
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        if name in cells:
            try:
                return cells[name].cell_contents
            except ValueError:
                return None
        if name in function.__globals__:
            return function.__globals__[name]
        return self._operator.names.get(name)

    def _references(self, function: Any, tree: ast.AST) -> None:
        """Writes what a function refers to: names that are not its own, in an order that is always the same."""
        own: Set[str] = set(self._operator.attributes)
        for node in ast.walk(tree):
            if isinstance(node, ast.arg):
                own.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Name) or node.id in own:
                continue
            value = self._lookup(function, node.id)
            if value is not None and self._written.get(node.id) is not value:
                self._write_value(node.id, value)

    def _write_value(self, name: str, value: Any) -> None:
        if isinstance(value, (types.FunctionType, script.PyPrimFunc, script.PyMacro)):
            known = script_names().get(id(value))
            if known is None:
                self._function(value, name)
                return
        if getattr(builtins, name, None) is value:
            return
        self._claim(name, value)
        if isinstance(value, op.TypeVariable):
            self._declare_type(name, value)
        elif isinstance(value, op.Lanes):
            self._add(f"{name} = aipu_op.lanes({self._type(value.of)})")
        elif isinstance(value, types.ModuleType):
            package, _, module = value.__name__.rpartition(".")
            self._add(f"from {package} import {module} as {name}" if package else f"import {module} as {name}")
        elif id(value) in script_names():
            self._add(f"from aipu.script import {script_names()[id(value)]} as {name}")
        else:
            self._add(f"{name} = {self._constant(name, value)}")

    def _constant(self, what: str, value: Any) -> str:
        if isinstance(value, (np.generic, np.ndarray)):
            value = value.tolist()
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        if isinstance(value, (bool, int, float)):
            return repr(value)
        if isinstance(value, str):
            return repr(str(value))
        if isinstance(value, (list, tuple)):
            items = ", ".join(self._constant(what, item) for item in value)
            if isinstance(value, list):
                return f"[{items}]"
            return f"({items},)" if items else "()"
        if isinstance(value, dict):
            items = ", ".join(f"{self._constant(what, k)}: {self._constant(what, v)}" for k, v in value.items())
            return f"{{{items}}}"
        dtype = getattr(value, "dtype", None)
        if isinstance(value, script.TypeObject) and dtype is not None:
            return repr(str(dtype))
        raise ValueError(
            f"{self._operator.name}: {what!r} is a {type(value).__name__}, which an operator's functions can't refer to"
        )
