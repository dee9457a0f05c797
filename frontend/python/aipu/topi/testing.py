"""The rules of :mod:`aipu.topi.generic` by the name of a target."""

from __future__ import annotations

from typing import Any, Callable

from . import generic


def _for_target(target: Any) -> Callable[[Any], Any]:
    def schedule(outs: Any) -> Any:
        return generic.schedule(outs if isinstance(outs, (list, tuple)) else [outs], target)

    return schedule


def get_injective_schedule(target: Any) -> Callable[[Any], Any]:
    """What makes schedules of elementwise definitions."""
    return _for_target(target)


def get_reduce_schedule(target: Any) -> Callable[[Any], Any]:
    """What makes schedules of reductions."""
    return _for_target(target)


def get_broadcast_schedule(target: Any) -> Callable[[Any], Any]:
    """What makes schedules of broadcast definitions."""
    return _for_target(target)


def get_elemwise_schedule(target: Any) -> Callable[[Any], Any]:
    """What makes schedules of elementwise definitions."""
    return _for_target(target)


__all__ = ["get_broadcast_schedule", "get_elemwise_schedule", "get_injective_schedule", "get_reduce_schedule"]
