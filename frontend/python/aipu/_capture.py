"""What the compiler asks about Python objects that a kernel refers to: their source, annotations, operators."""

from __future__ import annotations
import __future__

import ast
import builtins
import contextlib
import functools
import inspect
import linecache
import operator
import os
import sys
import textwrap
import threading
import types
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

import numpy as np


def _part(array: np.ndarray, *indices: Tuple[Optional[int], ...]) -> np.ndarray:
    """A part of an array: per dimension an index, or start, stop and step."""
    return array[tuple(index[0] if len(index) == 1 else slice(*index) for index in indices)]


_OPERATORS: Dict[str, Callable[..., Any]] = {
    "[]": operator.getitem,
    "[:]": _part,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "@": operator.matmul,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "is": operator.is_,
    "in": lambda item, container: item in container,
}


def operate(operation: str, *operands: Any) -> Any:
    """An operator, or a built-in function by name, on Python values."""
    function = _OPERATORS.get(operation)
    return (function or getattr(builtins, operation))(*operands)


def make_array(dtype: str, shape: List[int], data: bytes) -> np.ndarray:
    """An array of its own from bytes."""
    return np.frombuffer(data, dtype=dtype).reshape(shape).copy()


def annotations_of(function: Any) -> Dict[str, Any]:
    """Annotations by parameter ("return" for the result) as objects; those that are only known as text are left out."""
    params = getattr(function, "params", None)
    if params is not None:
        found = {p.name: p.annotation for p in params if p.annotation is not None}
        if function.return_annotation is not None:
            found["return"] = function.return_annotation
        return found
    plain = getattr(function, "py_func", function)
    return {k: v for k, v in getattr(plain, "__annotations__", {}).items() if not isinstance(v, str)}


def defaults_of(function: Any) -> Dict[str, Any]:
    """Default values by parameter."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    positional = function.__defaults__ or ()
    found = dict(zip(names[len(names) - len(positional) :], positional))
    found.update(function.__kwdefaults__ or {})
    return found


_names: Optional[Dict[int, str]] = None


def script_names() -> Dict[int, str]:
    """The functions of ``aipu.script`` by identity, so that they are recognised under any name."""
    global _names
    if _names is None:
        from . import script

        types_ = (script.TypeObject, script.PointerType)
        _names = {}
        for name in script.__all__:
            value = getattr(script, name)
            if not isinstance(value, types_):
                _names.setdefault(id(value), name)
    return _names


def script_object(path: str) -> Any:
    """``"S"``, ``"S.axis"`` or ``"S.vadd"`` as the object that it is in Python."""
    from . import script

    found: Any = script
    for name in path.split(".")[1:]:
        found = getattr(found, name)
    return found


# Functions of the module ``operator`` with a source that the compiler can read.
_OPERATOR_SOURCES: Dict[Any, Callable[..., Any]] = {
    operator.add: lambda a, b: a + b,
    operator.sub: lambda a, b: a - b,
    operator.mul: lambda a, b: a * b,
    operator.truediv: lambda a, b: a / b,
    operator.floordiv: lambda a, b: a // b,
    operator.mod: lambda a, b: a % b,
    operator.pow: lambda a, b: a**b,
    operator.lshift: lambda a, b: a << b,
    operator.rshift: lambda a, b: a >> b,
    operator.and_: lambda a, b: a & b,
    operator.or_: lambda a, b: a | b,
    operator.xor: lambda a, b: a ^ b,
    operator.eq: lambda a, b: a == b,
    operator.ne: lambda a, b: a != b,
    operator.lt: lambda a, b: a < b,
    operator.le: lambda a, b: a <= b,
    operator.gt: lambda a, b: a > b,
    operator.ge: lambda a, b: a >= b,
    operator.neg: lambda a: -a,
    operator.inv: lambda a: ~a,
    operator.not_: lambda a: not a,
    operator.getitem: lambda a, b: a[b],
}


def operator_function(function: Any) -> Optional[Callable[..., Any]]:
    """A function with source for one of the module ``operator``; None for others."""
    try:
        return _OPERATOR_SOURCES.get(function)
    except TypeError:
        return None


# Texts that were run with exec() while a function was decorated in them: Python keeps no source of those.
_exec_texts: Dict[str, List[str]] = {}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those of the functions in it."""
    pending = [code]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(c for c in current.co_consts if isinstance(c, types.CodeType))


def _is_text_of(text: str, code: types.CodeType) -> bool:
    """Whether compiling the text makes this code."""
    if code.co_name not in text and code.co_name != "<lambda>":
        return False
    try:
        module = compile(text, code.co_filename, "exec", code.co_flags & _FUTURES, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return any(inner == code for inner in _codes(module))


_FUTURES = functools.reduce(operator.or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names))


def remember_exec_source(function: Any) -> None:
    """Called where a function is decorated: if its text is being run by exec(), keeps the text.

    It is looked for among the strings that the caller of exec() knows by name or holds as constants.
    """
    code = function.__code__
    if os.path.exists(code.co_filename) or code.co_filename in linecache.cache:
        return
    if _remembered_text(code) is not None:
        return
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != code.co_filename:
        frame = frame.f_back
    while frame is not None:
        if frame.f_code.co_filename != code.co_filename:
            known = [*frame.f_locals.values(), *frame.f_code.co_consts, *frame.f_globals.values()]
            for text in known:
                for form in (text, textwrap.dedent(text)) if isinstance(text, str) else ():
                    if _is_text_of(form, code):
                        _exec_texts.setdefault(code.co_filename, []).append(form)
                        return
        frame = frame.f_back


def _remembered_text(code: types.CodeType) -> Optional[str]:
    texts = _exec_texts.get(code.co_filename, ())
    return next((text for text in texts if _is_text_of(text, code)), None)


def _remembered_source(code: types.CodeType) -> Optional[Tuple[List[str], int]]:
    """(lines, first line), as ``inspect.getsourcelines`` gives them, of a function that exec() has made."""
    text = _remembered_text(code)
    if text is None:
        return None
    first = code.co_firstlineno
    return inspect.getblock(text.splitlines(keepends=True)[first - 1 :]), first


def source_of(function: Any) -> Tuple[str, str, int, str]:
    """(file, text, first line, name) of a function's source, decorators included; columns are those of the file.

    The text of an indented function is put below an ``if True:`` line. OSError when Python does not know the source.
    """
    code = function.__code__
    remembered = _remembered_source(code)
    lines, first = remembered if remembered is not None else inspect.getsourcelines(function)
    if code.co_name == "<lambda>":
        text, line = _lambda_source(function, lines, first)
        return code.co_filename, text, line, "<lambda>"
    text = "".join(lines)
    if text[:1] in " \t":
        text, first = "if True:\n" + text, first - 1
    return code.co_filename, text, first, code.co_name


def _lambda_source(function: Any, lines: List[str], first: int) -> Tuple[str, int]:
    """(text, line) of exactly this lambda: of those in its statement the one whose body is where the code says."""
    code = function.__code__
    filename = code.co_filename
    remembered = _remembered_text(code)
    if remembered is not None:
        whole = remembered.splitlines(keepends=True)
    else:
        whole = linecache.getlines(filename, function.__globals__) or lines
    offset = 0 if len(whole) > len(lines) else first - 1
    tree = _parsed(filename, "".join(whole))
    found: List[ast.Lambda] = [
        n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno + offset == code.co_firstlineno
    ]
    positions = [p for p in getattr(code, "co_positions", lambda: ())() if p[2] is not None and p[3] != 0]
    if len(found) > 1 and positions:
        starts = {(p[0], p[2]) for p in positions if p[0] is not None}

        def covers(node: ast.Lambda) -> bool:
            low = (node.body.lineno, node.body.col_offset)
            high = (node.body.end_lineno, node.body.end_col_offset)
            return all(low <= (line - offset, column) < high for line, column in starts)

        found = [n for n in found if covers(n)] or found
        found.sort(key=lambda n: len(list(ast.walk(n))))
    if not found:
        raise OSError(f"could not find the lambda at {filename}:{code.co_firstlineno}")
    text = ast.get_source_segment("".join(whole), found[0])
    if text is None or "\n" in text:
        text = ast.unparse(found[0])  # in one line, as it must be without the brackets around it
    return text, found[0].lineno + offset


_trees: Dict[Tuple[str, int], ast.AST] = {}


def _parsed(filename: str, text: str) -> ast.AST:
    key = (filename, hash(text))
    if key not in _trees:
        _trees[key] = ast.parse(text)
    return _trees[key]


def _referenced(function: Any) -> List[Any]:
    """The objects that the code of a function refers to by name."""
    found: List[Any] = []
    names: Set[str] = set()
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        codes.extend(c for c in code.co_consts if isinstance(c, types.CodeType))
    for name in names:
        if name in function.__globals__:
            found.append(function.__globals__[name])
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            pass
    return found


_names_lock = threading.RLock()


@contextlib.contextmanager
def names_visible(function: Any, names: Dict[str, Any]) -> Iterator[None]:
    """While this is entered, a function, and the functions of its module that it refers to, see ``names`` where the
    module has none of their own.
    """
    added: List[Tuple[Dict[str, Any], str]] = []
    with _names_lock:
        try:
            pending, seen = [getattr(function, "py_func", function)], set()
            while pending and names:
                current = pending.pop()
                if id(current) in seen:
                    continue
                seen.add(id(current))
                for name in {n for code in _codes(current.__code__) for n in code.co_names} & set(names):
                    if name not in current.__globals__ and not hasattr(builtins, name):
                        current.__globals__[name] = names[name]
                        added.append((current.__globals__, name))
                for value in _referenced(current):
                    plain = getattr(value, "py_func", value)
                    if isinstance(plain, types.FunctionType) and plain.__module__ == current.__module__:
                        pending.append(plain)
            yield
        finally:
            for namespace, name in added:
                namespace.pop(name, None)


def is_host_function(function: Any) -> bool:
    """Whether a plain function needs nothing of the language, however deep: it can be called when all its arguments
    are known.
    """
    from . import script

    decorated = (script.PyPrimFunc, script.PyMacro, script.TypeObject, script.PointerType)
    seen: Set[int] = set()
    pending = [function]
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        for value in _referenced(current):
            if value is script or isinstance(value, decorated) or id(value) in script_names():
                return False
            if isinstance(value, script.Record) or (isinstance(value, type) and issubclass(value, script.Record)):
                return False
            if isinstance(value, (list, tuple)):
                if any(isinstance(v, decorated) or id(v) in script_names() for v in value):
                    return False
            if isinstance(value, types.FunctionType) and value.__module__ == current.__module__:
                pending.append(value)
    return True
