"""What is known about a Compass target."""

from __future__ import annotations

import contextlib
import contextvars
import os
from typing import Any, Dict, Iterator, Optional, Tuple

from . import _native

_KIB = 1024
_DEFAULT_TARGET = "X2_1204"
# Known so that it can be described; the DSL cannot be used on it.
_X1_ROW = {"name": "X1_1204", "backend": "x2", "version": "X1", "core_count": 1, "tec_count": 4, "vector_width": 256}
_current: "contextvars.ContextVar[Optional[CompassInfo]]" = contextvars.ContextVar("aipu_target", default=None)


def _target_name(target: Any) -> str:
    """The name in ``"X2_1204"``, ``"compass -mcpu=X2_1204"``, or of a target object (``.mcpu``, ``.name``)."""
    text = (
        target
        if isinstance(target, str)
        else getattr(target, "mcpu", None) or getattr(target, "name", None) or str(target)
    )
    _, option, rest = str(text).partition("-mcpu=")
    return rest.split()[0] if option and rest.split() else str(text).strip()


def resolve_target(target: Any = None) -> str:
    """The target to build for: the environment's ``CPS_TVM_GBUILDER_TARGET`` wins over the argument."""
    return _target_name(os.environ.get("CPS_TVM_GBUILDER_TARGET") or target or _DEFAULT_TARGET)


class CompassInfo:
    """Cores, TECs, vector width (bits) and memories (bytes) of a target. Made by :meth:`get` and :meth:`current`.

    ``"host"`` targets have an entry too: the CPU's worker threads are its TECs.
    """

    _cache: Dict[str, "CompassInfo"] = {}

    def __init__(self, name: str) -> None:
        row = _X1_ROW if name == "X1_1204" else _native.target(name)
        self.name: str = row["name"]
        self.version: str = row["version"] or row["name"].partition("_")[0].partition("-")[0]
        self.core_count: int = row["core_count"]
        self.tec_count: int = row["tec_count"] or 4
        self.vector_width: int = 256  # of the language's native vectors, on every target
        self.is_host: bool = row["backend"] == "host"
        self._lsram: Tuple[int, ...]
        self._gsram: Tuple[int, ...]
        if self.version == "X1":
            self._lsram, self._gsram = (32 * _KIB, 28 * _KIB), (512 * _KIB, 512 * _KIB)
        else:
            self._lsram, self._gsram = (row["lsram_bytes"],), (row["shared_bytes"],)

    @classmethod
    def get(cls, target: Any = None) -> "CompassInfo":
        """The info of a target, by name or ``"compass -mcpu=NAME"``; ValueError for unknown ones."""
        name = _target_name(target or _DEFAULT_TARGET)
        if name not in cls._cache:
            cls._cache[name] = cls(name)
        return cls._cache[name]

    @classmethod
    def current(cls) -> "CompassInfo":
        """The info of the target being built for; outside of a build that of the environment's or the default
        target.
        """
        return _current.get() or cls.get(resolve_target())

    def lsram_size(self, piece: int = 0) -> int:
        """Bytes of a piece of the local memory of one TEC; IndexError for a piece that does not exist."""
        return self._piece(self._lsram, piece, "lsram")

    def gsram_size(self, piece: int = 0) -> int:
        """Bytes of a piece of the memory that the TECs of a core share; IndexError for a piece that does not exist."""
        return self._piece(self._gsram, piece, "gsram")

    def _piece(self, pieces: Tuple[int, ...], piece: int, what: str) -> int:
        if not 0 <= piece < len(pieces):
            raise IndexError(
                f'The target "{self.name}" has {len(pieces)} piece(s) of {what}, there is no piece "{piece}".'
            )
        return pieces[piece]

    def __repr__(self) -> str:
        return f"CompassInfo({self.name!r})"


@contextlib.contextmanager
def building_for(info: CompassInfo) -> Iterator[None]:
    """Makes ``info`` the current one inside a ``with``."""
    token = _current.set(info)
    try:
        yield
    finally:
        _current.reset(token)
