"""Compiled functions as a file: machine code with the kernel IR, and what is needed to check and bind arguments.

Loading compiles nothing; another machine than the functions were built for refuses them.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Dict, List

from .. import _native
from .._errors import TVMError
from ._expr import PrimExpr
from ._module import Function, Module, Piece

_te = _native.te
_FORMAT = "aipu functions 2"


def _encode(e: PrimExpr) -> List[Any]:
    fields = e.fields()
    if e.node in ("Var", "SizeVar"):
        return [e.node, e.dtype, e.key(), fields["name"]]
    if e.node == "IntImm":
        return ["IntImm", e.dtype, int(fields["value"])]
    if e.node == "Cast":
        return ["Cast", e.dtype, _encode(fields["value"])]
    if set(fields) == {"a", "b"}:
        return [e.node, e.dtype, _encode(fields["a"]), _encode(fields["b"])]
    raise TVMError(f"export_library: a size of the form {e} is not supported")


class _Decoder:
    def __init__(self) -> None:
        self._variables: Dict[str, Any] = {}

    def __call__(self, data: List[Any]) -> Any:
        node, dtype, *rest = data
        if node in ("Var", "SizeVar"):
            key, name = rest
            if key not in self._variables:
                self._variables[key] = _te.variable(name, dtype, node == "SizeVar")
            return self._variables[key]
        if node == "IntImm":
            return _te.int_imm(rest[0], dtype)
        if node == "Cast":
            return _te.cast(dtype, self(rest[0]))
        return _te.binary(node, self(rest[0]), self(rest[1]))


class _Parameter:
    """An array that a loaded function takes."""

    def __init__(self, data: Dict[str, Any], decode: _Decoder) -> None:
        self.name, self.dtype, self.buffer_type = data["name"], data["dtype"], data["buffer_type"]
        self.shape, self.strides = ([decode(e) for e in data[k]] for k in ("shape", "strides"))
        self.ndim = len(self.shape)


class _Kernel:
    """The kernel of a loaded function."""

    def __init__(self, data: Dict[str, Any], decode: _Decoder) -> None:
        self._text = data["kernel"]
        self.sizes = [decode(e) for e in data["sizes"]]
        self.workspaces = [(name, dtype, decode(elements)) for name, dtype, elements in data["workspaces"]]

    def text(self) -> str:
        """The kernel IR."""
        return self._text


def _parameter(param: Any) -> Any:
    if isinstance(param, PrimExpr):
        return _encode(param)
    return {
        "name": param.name,
        "dtype": param.dtype,
        "buffer_type": getattr(param, "buffer_type", ""),
        "shape": [_encode(e) for e in param.shape],
        "strides": [_encode(e) for e in getattr(param, "strides", [])],
    }


def library_text(functions: Dict[str, Function], target: str) -> str:
    """The file's text; TVMError for functions that are interpreted or call others by name."""
    if target == "interpreter":
        raise TVMError("export_library: the functions are interpreted; build them for a target")
    if target == "cuda":
        raise TVMError("export_library: functions for cuda are not supported")
    made = {}
    for name, function in functions.items():
        if function.piece is None:
            raise TVMError(f"export_library: {name} calls registered functions, which a file cannot hold")
        kernel = function.piece.kernel
        made[name] = {
            "params": [_parameter(p) for p in function.params],
            "kernel": kernel.text(),
            "machine_code": base64.b64encode(function.piece.executor.machine_code).decode(),
            "sizes": [_encode(e) for e in kernel.sizes],
            "workspaces": [[name, dtype, _encode(elements)] for name, dtype, elements in kernel.workspaces],
        }
    # The name of the row, as "host" is another one on another machine.
    row = _native.target(target)["name"]
    return json.dumps({"format": _FORMAT, "target": row, "functions": made}, indent=1)


def load_module(path: Any) -> Module:
    """The functions that :meth:`Module.export_library` has written; TVMError for another file."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        data = json.loads(text)
        known = data["format"] == _FORMAT
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise TVMError(f"{path}: no functions that export_library has written")
    functions = {}
    for name, one in data["functions"].items():
        decode = _Decoder()
        params = [decode(p) if isinstance(p, list) else _Parameter(p, decode) for p in one["params"]]
        code = base64.b64decode(one["machine_code"])
        functions[name] = Function(name, params, Piece(_Kernel(one, decode), [], data["target"], code))
    return Module(functions, data["target"])
