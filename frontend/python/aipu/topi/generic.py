"""Schedules by rule: what a definition without a schedule of its own gets.

A rule looks at the stages and the kind of the target (``cpu``, ``compass``, ``gpu``), and decides with primitives that
a user could write. Elementwise producers are inlined, the outermost loops become the work of the threads (or TECs), the
innermost loop becomes vectors with a mask for its tail.
"""

from __future__ import annotations

from typing import Any, List, Optional

from .. import te
from ..te._expr import expr
from ..te._schedule import create_schedule
from ..te._tensor import operations

_LANES = {"cpu": 16, "compass": 8, "gpu": 4}
_THREADS = 64


def kind_of_target(target: Any) -> str:
    """``cpu``, ``compass`` or ``gpu``."""
    name = str(target or "host").split()[0]
    if name == "cuda":
        return "gpu"
    cpu = name.startswith(("host", "llvm", "cpu", "stackvm", "interpreter")) or name == "c"
    return "cpu" if cpu else "compass"


def _is_injective(op: Any) -> bool:
    """A compute without reductions, of one output: it can be inlined."""
    return op.is_compute and not op.reduce_axis and op.num_outputs == 1


def _consumers(schedule: Any, op: Any) -> List[Any]:
    stages = schedule.stages
    return [s.op for s in stages if any(t.op is op or schedule[t.op].op is op for t in s.op.input_tensors)]


def _inline_producers(schedule: Any) -> None:
    """Inlines what is cheap to compute again: where one consumer has it, or it reads what it is at its own place."""
    for stage in schedule.stages:
        op = stage.op
        if stage.is_output or not _is_injective(op):
            continue
        readers = _consumers(schedule, op)
        whole = any(r.kind == "extern" or r.kind == "scan" for r in readers)
        reduced = any(r.is_compute and r.reduce_axis for r in readers)
        cheap = op.tag.split(",")[0] in ("elemwise", "broadcast", "injective") and not _is_costly(op)
        if not whole and (cheap or (len(readers) == 1 and not reduced and not _is_costly(op))):
            stage.compute_inline()


def _is_costly(op: Any) -> bool:
    return any(_calls_function(e) for e in op.body)


def _calls_function(e: Any) -> bool:
    if e.node == "Call" and e.function not in ("if_then_else", "likely"):
        return True
    fields = e.fields()
    children = [v for v in fields.values() if hasattr(v, "node")]
    for value in fields.values():
        if isinstance(value, list):
            children += [v for v in value if hasattr(v, "node")]
    return any(_calls_function(c) for c in children)


def _extent(axis: Any) -> Optional[int]:
    node = expr(axis.dom.extent)
    return int(node) if node.node == "IntImm" else None


def _spread(stage: Any, axes: List[Any], kind: str) -> None:
    """Deals a nest of data loops out to the threads, and makes vectors of the innermost one."""
    if not axes:
        return
    lanes = _LANES[kind]
    fused = axes[0]
    for axis in axes[1:]:
        fused = stage.fuse(fused, axis)
    if kind == "gpu":
        block, thread = stage.split(fused, factor=_THREADS)
        stage.bind(block, te.thread_axis("blockIdx.x"))
        stage.bind(thread, te.thread_axis("threadIdx.x"))
        return
    if kind == "compass":  # several registers at once hide the latency of loads
        outer, inner = stage.split(fused, factor=8 * lanes)
        stage.parallel(outer)
        stage.vectorize(inner)
        return
    outer, inner = stage.split(fused, factor=64 * lanes)
    stage.parallel(outer)
    rest, vector = stage.split(inner, factor=lanes)
    stage.vectorize(vector)


def _schedule_reduction(stage: Any, kind: str) -> None:
    """Outer data loops in parallel; of several data loops the last one is innermost, as vectors."""
    data, reduced = list(stage.op.axis), list(stage.op.reduce_axis)
    if not data:
        return
    if kind == "gpu":
        _spread(stage, data, kind)
        return
    if len(data) == 1:
        stage.parallel(data[0])
        return
    last = data[-1]
    extent = _extent(last)
    if extent is None or extent >= 4:
        outer, inner = stage.split(last, factor=_LANES[kind])
        stage.reorder(*data[:-1], outer, *reduced, inner)
        stage.vectorize(inner)
    first = data[0]
    for axis in data[1:-1]:
        first = stage.fuse(first, axis)
    stage.parallel(first)


def schedule(outs: Any, target: Any = None) -> Any:
    """The schedule of tensors by the rules of a target (None: the host)."""
    kind = kind_of_target(target)
    made = create_schedule(list(operations(outs)))
    _inline_producers(made)
    for stage in made.stages:
        op = stage.op
        if not op.is_compute or stage.attach_type == 2:
            continue
        if op.reduce_axis:
            _schedule_reduction(stage, kind)
        elif op.axis:
            _spread(stage, list(op.axis), kind)
    return made


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
