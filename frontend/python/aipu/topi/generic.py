"""Schedules by rule: what a definition without a schedule of its own gets.

A rule (``kernels/te/rules.cpp``) looks at the stages and the kind of the target (``cpu``, ``compass``, ``gpu``), and
decides with primitives that a user could write. Elementwise producers are inlined, the outermost loops become the work
of the threads (or TECs), the innermost loop becomes vectors with a mask for its tail.
"""

from __future__ import annotations

from typing import Any

from .. import _native
from ..te._tensor import operations


def kind_of_target(target: Any) -> str:
    """``cpu``, ``compass`` or ``gpu``."""
    name = str(target or "host").split()[0]
    if name == "cuda":
        return "gpu"
    cpu = name.startswith(("host", "llvm", "cpu", "stackvm", "interpreter")) or name == "c"
    return "cpu" if cpu else "compass"


def schedule(outs: Any, target: Any = None) -> Any:
    """The schedule of tensors by the rules of a target (None: the host)."""
    return _native.te.schedule_by_rules(list(operations(outs)), kind_of_target(target), {})


def _rule(name: str) -> Any:
    def rule(outs: Any, *_: Any) -> Any:
        from ..target import current_target

        return schedule(outs if isinstance(outs, (list, tuple)) else [outs], current_target())

    rule.__name__, rule.__doc__ = name, "The schedule of tensors by the rules of the current target."
    return rule


_NAMES = """schedule_injective schedule_reduce schedule_softmax schedule_dense schedule_conv2d_nchw schedule_conv2d_nhwc
    schedule_pool schedule_adaptive_pool schedule_batch_matmul schedule_lrn schedule_depthwise_conv2d_nchw
    schedule_depthwise_conv2d_nhwc schedule_group_conv2d_nchw schedule_conv1d_ncw schedule_conv2d_transpose_nchw
    schedule_conv3d_ncdhw schedule_elemwise schedule_broadcast schedule_extern default_schedule""".split()
globals().update({name: _rule(name) for name in _NAMES})

__all__ = ["kind_of_target", "schedule", *_NAMES]
