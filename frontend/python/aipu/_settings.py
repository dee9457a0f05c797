"""Switches in the environment: ``CPS_DSL`` and the logger ``Compass``."""

from __future__ import annotations

import logging
import os
import random
from typing import NamedTuple, Optional

LOGGER = logging.getLogger("Compass")
_LEVELS = {
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
}


class _LevelFormatter(logging.Formatter):
    """``[COMPASS] WARN ... message``: the level in the words of the tool chain."""

    _NAMES = {"WARNING": "WARN"}

    def format(self, record: logging.LogRecord) -> str:
        level = self._NAMES.get(record.levelname, record.levelname)
        return f"{self.formatTime(record, '%Y-%m-%d %H:%M:%S')} [{record.name}] {level}: {record.getMessage()}"


def setup_logger() -> None:
    """Gives the logger a level (``CPS_TVM_LOG_LEVEL``) and, once, a handler (stderr, or the file
    ``CPS_TVM_LOG_FILE``).
    """
    level = os.environ.get("CPS_TVM_LOG_LEVEL", "INFO").strip()
    LOGGER.setLevel(int(level) if level.isdigit() else _LEVELS.get(level.upper(), logging.INFO))
    if not LOGGER.handlers:
        path = os.environ.get("CPS_TVM_LOG_FILE")
        handler: logging.Handler = logging.FileHandler(path) if path else _StderrHandler()
        handler.setFormatter(_LevelFormatter())
        LOGGER.addHandler(handler)


class _StderrHandler(logging.StreamHandler):
    """Writes to what ``sys.stderr`` is when the record comes, not when the handler was made."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self):  # type: ignore[no-untyped-def, override]
        import sys

        return sys.stderr

    @stream.setter
    def stream(self, value: object) -> None:
        pass


class Switches(NamedTuple):
    """What ``CPS_DSL`` asks for."""

    debug: bool = False
    emulator: bool = False
    profile: bool = False
    random_pause: bool = False
    assembly: bool = False
    rpc: bool = False
    rpc_key: Optional[str] = None
    random_seed: Optional[int] = None


_FLAGS = {
    "d": "debug", "dbg": "debug", "debug": "debug",
    "e": "emulator", "emu": "emulator",
    "p": "profile", "prf": "profile", "profile": "profile",
    "rp": "random_pause", "random_pause": "random_pause",
    "a": "assembly", "asm": "assembly",
    "r": "rpc", "rpc": "rpc",
}  # fmt: skip


def switches() -> Switches:
    """The switches of ``CPS_DSL``; ValueError for one that does not exist."""
    values = {}
    for item in os.environ.get("CPS_DSL", "").split(";"):
        name, has_value, value = (part.strip() for part in item.partition("="))
        if not name:
            continue
        if name in ("rs", "random_seed") and has_value:
            values["random_seed"] = int(value)
        elif name in _FLAGS and (not has_value or _FLAGS[name] == "rpc"):
            values[_FLAGS[name]] = True
            if has_value:
                values["rpc_key"] = value
        else:
            raise ValueError(f'Unknown switch "{item.strip()}" in the environment variable CPS_DSL.')
    return Switches(**values)


_seed: Optional[int] = None


def random_seed() -> int:
    """The seed of random test data: that of ``CPS_DSL=rs=<seed>``, else one chosen once per process and logged."""
    global _seed
    forced = switches().random_seed
    if forced is not None:
        return forced
    if _seed is None:
        _seed = random.SystemRandom().randrange(1 << 32)
        LOGGER.info("The random seed is %d, set CPS_DSL=rs=%d to use it again.", _seed, _seed)
    return _seed
