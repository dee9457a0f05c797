"""C functions that a compiled function calls by name: texts of ``pragma(axis, "import_c", text)``, or the process."""

from __future__ import annotations

import ctypes
import os
import subprocess
from typing import Any, List, Sequence, Tuple

from .. import _native
from .._errors import CompassCompileCError, TVMError
from ._functor import post_order_visit

_TYPES = {"float32": ctypes.c_float, "float64": ctypes.c_double, "int64": ctypes.c_int64, "uint64": ctypes.c_uint64}


class CFunctions:
    """The functions of some C texts, which are compiled when the first of them is asked for."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = list(texts)
        self._folder: Any = None
        self._libraries: List[Any] = []

    def call(self, name: str, args: Sequence[Tuple[Any, str]]) -> None:
        """Calls a function with values and their types; addresses have the type ``handle``."""
        if not self._libraries:
            self._libraries = [self._compiled(i, text) for i, text in enumerate(self._texts)] + [ctypes.CDLL(None)]
        for library in self._libraries:
            function = getattr(library, name, None)
            if function is not None:
                function.restype = None
                function(*[v if t == "handle" else _TYPES.get(t, ctypes.c_int)(v) for v, t in args])
                return
        raise TVMError(f"call_extern: there is no C function '{name}'; give its text by pragma(axis, 'import_c', text)")

    def _compiled(self, number: int, text: str) -> Any:
        if self._folder is None:
            self._folder = _native.te.TemporaryFolder("aipu_te_c")
        language = "c++" if 'extern "C"' in text else "c"
        source = os.path.join(self._folder.path, f"imported{number}." + language.replace("+", "p"))
        _native.write_file(source, text.encode())
        made = source + ".so"
        command = [os.environ.get("AIPU_CC", "cc"), "-x", language, "-O2", "-shared", "-fPIC", source]
        result = subprocess.run([*command, "-x", "none", "-lm", "-o", made], capture_output=True, text=True)
        if result.returncode != 0:
            raise CompassCompileCError(f"import_c: {result.stderr.strip()}")
        return ctypes.CDLL(made)


def imported_texts(statement: Any) -> List[str]:
    """The C texts of the pragmas in a statement."""
    texts: List[str] = []

    def look(node: Any) -> None:
        if node.node == "AttrStmt" and node.attr_key == "pragma_import_c":
            texts.append(node.value.value)

    post_order_visit(statement, look)
    return texts
