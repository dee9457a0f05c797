"""Targets as objects: ``with Target("X2_1204"):``."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from . import _native

_KINDS = {
    **dict.fromkeys(("host", "llvm", "cpu", "c", "stackvm", "interpreter"), ["cpu"]),
    "cuda": ["cuda", "gpu"],
    "compass": ["compass"],
}
_CUDA_ATTRS = {"max_num_threads": 1024, "thread_warp_size": 32, "max_shared_memory_per_block": 49152}
_entered: List["Target"] = []


class TargetKind:
    """What a target is a kind of."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


class Target:
    """A target by ``"kind -key=value ..."``, a dictionary with ``kind``, or another target.

    Raises:
        ValueError: there is no such kind.
    """

    def __init__(self, target: Any, host: Any = None) -> None:
        if isinstance(target, Target):
            target = str(target)
        if isinstance(target, dict):
            rest = [f"-{k}={v}" for k, v in target.items() if k not in ("kind", "host")]
            host = host or target.get("host")
            target = " ".join([str(target["kind"]), *rest])
        words = str(target).split()
        name = words[0] if words else ""
        if name not in _KINDS and not name.startswith("host-"):
            _native.target(name)  # ValueError for what is no target
        self.kind = TargetKind(name)
        self.keys = _KINDS.get(name, ["cpu"] if name.startswith("host") else ["compass"])
        pairs = [word.lstrip("-").partition("=") for word in words[1:]]
        self.attrs: Dict[str, Any] = {k: int(v) if v.isdigit() else v for k, _, v in pairs}
        if name == "cuda":
            self.attrs = {**_CUDA_ATTRS, **self.attrs}
        self.host: Optional[Target] = None if host is None else Target(host)
        self._text = " ".join(words)

    @staticmethod
    def current(allow_none: bool = True) -> Optional["Target"]:
        """The innermost target that a ``with`` is inside of."""
        if not _entered and not allow_none:
            raise ValueError("there is no current target: use 'with Target(...)'")
        return _entered[-1] if _entered else None

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self.__dict__.get("attrs", {}):
            return self.attrs[name]
        raise AttributeError(f"target '{self.__dict__.get('_text', '')}' has no attribute '{name}'")

    def __enter__(self) -> "Target":
        _entered.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _entered.pop()

    def __eq__(self, other: Any) -> bool:
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


def current_target() -> Optional[Target]:
    """The current target, None if there is none."""
    return Target.current()
