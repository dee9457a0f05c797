"""Helpers of the library's users."""

from __future__ import annotations

from typing import Any, Callable, Set, Tuple

from ..te._expr import expr
from ..te._tensor import Tensor


class TAGS:
    """The tags of the library's operations."""

    ELEMWISE, BROADCAST, INJECTIVE = "elemwise", "broadcast", "injective"
    COMM_REDUCE, COMM_REDUCE_IDX = "comm_reduce", "comm_reduce_idx"

    @staticmethod
    def is_broadcast(tag: str) -> bool:
        """Whether each element depends on elements at the same place."""
        return tag in (TAGS.ELEMWISE, TAGS.BROADCAST)

    @staticmethod
    def is_injective(tag: str) -> bool:
        """Whether each element depends on one place of each input."""
        return TAGS.is_broadcast(tag) or tag.split(",")[0] == TAGS.INJECTIVE


def get_const_int(value: Any) -> int:
    """A constant expression as an integer; ValueError for others."""
    node = expr(value)
    if node.node != "IntImm":
        raise ValueError(f"{node} is no constant integer")
    return int(node)


def get_const_float(value: Any) -> float:
    """A constant expression as a number; ValueError for others."""
    node = expr(value)
    if node.node not in ("FloatImm", "IntImm"):
        raise ValueError(f"{node} is no constant number")
    return float(node.value)


def get_const_tuple(in_tuple: Any) -> Tuple[Any, ...]:
    """Extents with the constant ones as integers."""
    nodes = [expr(v) for v in in_tuple]
    return tuple(int(n) if n.node == "IntImm" else n for n in nodes)


def traverse_inline(s: Any, final_op: Any, callback: Callable[[Any], None]) -> None:
    """Inlines what is broadcast above an operation, and calls ``callback`` for each operation, consumers last."""
    seen: Set[Any] = set()

    def visit(op: Any) -> None:
        if op in seen:
            return
        seen.add(op)
        if TAGS.is_broadcast(op.tag):
            if op not in s.outputs:
                s[op].compute_inline()
            for tensor in op.input_tensors:
                if isinstance(tensor, Tensor) and tensor.op.input_tensors:
                    visit(tensor.op)
        callback(op)

    visit(final_op)
