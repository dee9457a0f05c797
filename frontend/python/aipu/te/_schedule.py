"""Schedules: Python's side of the primitives."""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from .. import _native
from ..transform import PassContext
from ._buffer import Buffer, declared  # noqa: F401  te.schedule.Buffer
from ._expr import IterVar, Range, TVMError, expr
from ._functions import variables
from ._functor import post_order_visit
from ._layout import layout
from ._tensor import Operation, Tensor, operations

_te = _native.te
Schedule = _te.Schedule
Stage = _te.Stage


class Split(NamedTuple):
    """``parent = outer * extent(inner) + inner``."""

    parent: Any
    outer: Any
    inner: Any
    factor: Any
    nparts: Any


class Fuse(NamedTuple):
    """``fused = outer * extent(inner) + inner``."""

    outer: Any
    inner: Any
    fused: Any


class Singleton(NamedTuple):
    """An axis of extent 1."""

    iter: Any


_AT_ROOT, _ATTACHED, _SCAN_UPDATE = 1, 4, 5  # of attach_type


class IterVarAttr(NamedTuple):
    """What annotations have made of an axis."""

    iter_type: int
    bind_thread: Any
    pragma_keys: Tuple[str, ...]
    pragma_values: Tuple[Any, ...]
    dim_align_factor: int
    dim_align_offset: int
    prefetch_data: Tuple[Any, ...]
    prefetch_offset: Tuple[Any, ...]
    tensor_intrin: Any = None


class _Record(NamedTuple):
    copies: List[Any]
    names: List[str]


_used: Any = weakref.WeakSet()  # the schedules whose stages somebody has asked for
_records: Any = weakref.WeakKeyDictionary()  # of schedules that are recorded
_RECORD = "te.keep_schedule_record"


def create_schedule(ops: Any) -> Any:
    """The schedule of operations and all that they depend on: every stage at root, all loops serial."""
    made = Schedule(list(operations(ops)))
    if PassContext.current().config.get(_RECORD):
        _records[made] = _Record([made.native_copy()], ["vanilla"])
    return made


def _schedule_of(stage: Any) -> Any:
    for schedule in list(_used):
        if any(one is stage for one in [*schedule.stages, *schedule.groups]):
            return schedule
    raise TVMError(f"stage '{stage.op.name}' is not part of a schedule any more")


def _recorded(name: str, primitive: Callable[..., Any]) -> Callable[..., Any]:
    """The primitive, which writes down what has become of its schedule where that is recorded."""

    @functools.wraps(primitive)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = primitive(self, *args, **kwargs)
        if _records:
            record = _records.get(self if isinstance(self, Schedule) else _schedule_of(self))
            if record is not None:
                schedule = self if isinstance(self, Schedule) else _schedule_of(self)
                record.copies.append(schedule.native_copy())
                record.names.append(name)
        return result

    return run


def _record_of(self: Any) -> _Record:
    if self not in _records:
        raise AttributeError(f"this schedule is not recorded: make it inside PassContext(config={{'{_RECORD}': True}})")
    return _records[self]


def _find(self: Any, key: Any) -> Any:
    _used.add(self)
    if isinstance(key, Tensor):
        key = key.op
    if not isinstance(key, Operation):
        raise ValueError(f"a schedule is indexed by a tensor or an operation, not {type(key).__name__}")
    stage = self.find(key)
    if stage is None:
        raise ValueError(f"operation {key.name} is not part of this schedule")
    return stage


Schedule.__getitem__ = _find


def _axis(value: Any) -> Any:
    if not isinstance(value, IterVar):
        raise TypeError(f"an axis (IterVar), not {type(value).__name__}")
    return value


def _split(self: Any, parent: Any, factor: Any = None, nparts: Any = None) -> Tuple[Any, Any]:
    """``(outer, inner)``: the inner loop has extent ``factor``, or the outer one ``nparts``."""
    if (factor is None) == (nparts is None):
        raise ValueError("split: exactly one of factor and nparts")
    outer, inner = self.native_split(
        _axis(parent), None if factor is None else expr(factor), None if nparts is None else expr(nparts)
    )
    return outer, inner


def _fuse(self: Any, *axes: Any) -> Any:
    """One loop for consecutive loops, outer first; without axes a loop of extent 1."""
    return self.native_fuse([_axis(a) for a in axes])


def _transform_layout(self: Any, mapping: Any) -> Any:
    """Another place for each element of the stage's tensor: ``lambda i, j: [i // 8, j, i % 8]``. Who gives the tensor
    as an argument gives it in this shape. The loops of a compute become those over the new shape, which are returned.

    TVMError for mappings that cannot be inverted, or would leave places without an element.
    """
    made = layout(f"stage '{self.op.name}'", self.op.output(0).native_shape, mapping)
    is_compute = self.op.is_compute
    _schedule_of(self).native_transform_layout(self, made.source, made.target, made.axis, made.inverse)
    return made.axis if is_compute else None


def _reorder(self: Any, *axes: Any) -> None:
    """Puts the axes into this order, at the places that they have now."""
    self.native_reorder([_axis(a) for a in axes])


def _tile(self: Any, x: Any, y: Any, x_factor: Any, y_factor: Any) -> Tuple[Any, Any, Any, Any]:
    """Splits two loops and puts the parts into the order ``xo, yo, xi, yi``."""
    xo, xi = self.split(x, factor=x_factor)
    yo, yi = self.split(y, factor=y_factor)
    self.reorder(xo, yo, xi, yi)
    return xo, yo, xi, yi


def _pragma(self: Any, axis: Any, key: str, value: Any = None) -> None:
    """Annotates a loop."""
    if key == "unroll":
        return self.unroll(axis)
    if key == "vectorize":
        return self.vectorize(axis)
    refused = ("import_llvm", "dma_copy")
    if key in refused:
        raise TVMError(f"pragma: '{key}' is not supported yet")
    return self.native_pragma(_axis(axis), key, None if value is None else expr(value))


def _compute_at(self: Any, parent: Any, axis: Any) -> None:
    """Computes the stage inside a loop of ``parent``, for what is needed there."""
    self.native_compute_at(parent, _axis(axis))


def _relations(self: Any) -> List[Any]:
    classes = {"Split": Split, "Fuse": Fuse, "Singleton": Singleton}
    return [classes[f.pop("kind")](**f) for f in self.relation_fields()]


def _columns(pairs: Any) -> Tuple[Tuple[Any, ...], Tuple[Any, ...]]:
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def _texts(pragmas: Any) -> Tuple[Tuple[Any, ...], Tuple[Any, ...]]:
    """The keys of pragmas as constants, and their values."""
    return _columns([(expr(key), value) for key, value in pragmas])


def _attributes(self: Any) -> Dict[Any, IterVarAttr]:
    return {
        axis: IterVarAttr(kind, thread, *_texts(pragmas), factor, offset, *_columns(prefetch), declared(intrin))
        for axis, kind, thread, pragmas, factor, offset, prefetch, intrin in self.attribute_fields()
    }


def _cache_read(self: Any, tensor: Any, scope: str, readers: Any) -> Any:
    """A copy of a tensor, which the readers read from now on."""
    return self.native_cache_read(tensor, scope, list(operations(readers)))


def _cache_write(self: Any, tensor: Any, scope: str) -> Any:
    """Moves a computation to a new stage; the old one becomes a copy of it, with a schedule that starts anew."""
    if isinstance(tensor, (list, tuple)):
        return self.native_cache_write(list(tensor), scope)
    return self.native_cache_write([tensor], scope)[0]


def _rfactor(self: Any, tensor: Any, axis: Any, factor_axis: int = 0) -> Any:
    """Makes a reduction axis a data axis of a new stage, over which the old stage reduces."""
    made = self.native_rfactor(tensor, _axis(axis), int(factor_axis))
    return made[0] if len(made) == 1 else made


def _tensorize(self: Any, axis: Any, intrin: Any) -> None:
    """Replaces the loops from ``axis`` on by an intrinsic that declares the same computation."""
    if not hasattr(intrin, "native"):
        raise TypeError(f"tensorize: what te.decl_tensor_intrin returns, not {type(intrin).__name__}")
    self.native_tensorize(_axis(axis), intrin.native)


def _storage_align(self: Any, axis: Any, factor: int, offset: int) -> None:
    """The stride of a dimension of the stage's own memory leaves the rest ``offset`` when divided by ``factor``."""
    self.native_storage_align(_axis(axis), int(factor), int(offset))


def _prefetch(self: Any, tensor: Any, axis: Any, offset: Any) -> None:
    """A hint, which is kept but not used: the memory of our targets has nothing to be told in advance."""
    self.native_prefetch(tensor, _axis(axis), expr(offset))


def _env_threads(self: Any, threads: Any) -> None:
    """Thread axes around the init and all steps of a scan."""
    self.native_env_threads([_axis(t) for t in (threads if isinstance(threads, (list, tuple)) else [threads])])


def _create_group(self: Any, outputs: Any, inputs: Any, include_inputs: bool = False) -> Any:
    """A stage that moves all between ``inputs`` and ``outputs`` together."""
    return self.native_create_group(list(operations(outputs)), list(operations(inputs)), bool(include_inputs))


Operation.input_regions = property(
    lambda self: [[Range.from_min_extent(r.min, r.extent) for r in ranges] for ranges in self.parts()["native_regions"]]
)
Operation.intrin = property(lambda self: declared(self.parts()["native_intrin"]))
Stage.split = _split
Stage.fuse = _fuse
Stage.reorder = _reorder
Stage.tile = _tile
Stage.pragma = _pragma
Stage.compute_at = _compute_at
Stage.unroll = lambda self, axis: self.native_annotate(_axis(axis), IterVar.Unrolled)
Stage.vectorize = lambda self, axis: self.native_annotate(_axis(axis), IterVar.Vectorized)
Stage.parallel = lambda self, axis: self.native_annotate(_axis(axis), IterVar.Parallelized)
Stage.bind = lambda self, axis, thread: self.native_bind(_axis(axis), _axis(thread))
Stage.compute_inline = lambda self: self.native_compute_inline()
Stage.compute_root = lambda self: self.native_compute_root()
Stage.set_scope = lambda self, scope: self.native_set_scope(scope)
Stage.set_store_predicate = lambda self, predicate: self.native_set_store_predicate(expr(predicate))
Schedule.cache_read = _cache_read
Schedule.cache_write = _cache_write
Schedule.rfactor = _rfactor
Stage.relations = property(_relations)
Stage.iter_var_attrs = property(_attributes)
Stage.tensorize = _tensorize
Stage.storage_align = _storage_align
Stage.prefetch = _prefetch
Stage.env_threads = _env_threads
Stage.double_buffer = lambda self: self.native_double_buffer()
Stage.rolling_buffer = lambda self: self.native_rolling_buffer()
Schedule.create_group = _create_group
Schedule.stage_map = property(lambda self: {stage.op: stage for stage in self.stages})
Stage.transform_layout = _transform_layout
Schedule.schedule_record = property(lambda self: list(_record_of(self).copies))
Schedule.primitive_record = property(lambda self: list(_record_of(self).names))
for _class, _names in {
    Stage: """split fuse reorder pragma compute_at unroll vectorize parallel bind compute_inline compute_root set_scope
        set_store_predicate tensorize storage_align prefetch env_threads double_buffer rolling_buffer
        transform_layout""",
    Schedule: "cache_read cache_write rfactor create_group",
}.items():
    for _name in _names.split():
        setattr(_class, _name, _recorded(_name, getattr(_class, _name)))


def scan_body(schedule: Any, scan: Any) -> List[Any]:
    """The operations that a scan runs once per step, in the order of the schedule."""
    return [stage.op for stage in schedule.native_scan_body(schedule[scan])]


def infer_bound(schedule: Any) -> Dict[Any, Range]:
    """The range of every axis that is computed."""
    return {axis: Range.from_min_extent(r.min, r.extent) for axis, r in _te.infer_bounds(schedule)}


def schedule_ops(schedule: Any, bounds: Any = None) -> Any:
    """The loops of a schedule as a statement, with memory for what is computed. ``bounds`` follow from the schedule."""
    return _te.lower(schedule, [], "main", shared_by_threads=True, shown=True).body


def read_graph(ops: Any) -> Dict[Any, List[Any]]:
    """The tensors that each operation reads, of the operations and all that they depend on."""
    return {stage.op: stage.op.input_tensors for stage in create_schedule(ops).stages}


def post_dfs_order(ops: Any, graph: Any) -> List[Any]:
    """The operations of :func:`read_graph`, producers first."""
    return [stage.op for stage in create_schedule(ops).stages if stage.op in graph]


def scan_get_body(op: Any) -> List[Any]:
    """The operations that a scan runs once per step, producers first."""
    return [*scan_body(create_schedule(op), op), op]


def scan_fix_point_analysis(op: Any) -> Dict[Any, Any]:
    """For each axis of the states whether an element depends on elements of former steps at its own index alone: a
    constant 1, else 0.
    """
    parts: Dict[Any, Any] = {}  # (tensor, dimension): what it is the same index as
    wrong = set()

    def root(key: Any) -> Any:
        while parts.get(key, key) != key:
            key = parts[key]
        return key

    body = scan_body(create_schedule(op), op)
    inside = {member.output(v).identity for member in body for v in range(member.num_outputs)}
    inside |= {state.identity for state in op.state_placeholder}
    for member in body:
        axes = {axis.var.key(): d for d, axis in enumerate(member.axis)}

        def look(node: Any, member: Any = member, axes: Any = axes) -> None:
            if node.node != "ProducerLoad" or node.producer.identity not in inside:
                return
            for j, index in enumerate(node.indices):
                there = (node.producer.identity, j)
                used = [axes[v.key()] for v in variables(index) if v.key() in axes]
                if index.node == "Var" and used:
                    for v in range(member.num_outputs):
                        parts[root((member.output(v).identity, used[0]))] = root(there)
                else:
                    wrong.update([there, *((member.output(0).identity, d) for d in used)])

        for value in member.body:
            post_order_visit(value, look)
    result, k = {}, 0
    for state, update in zip(op.state_placeholder, op.update):
        broken = {root(key) for key in wrong}
        ends = [root((state.identity, d)) for d in range(1, state.ndim)]
        for d in range(1, state.ndim):
            mine = {root((state.identity, d)), root((update.identity, d))}
            others = {root((t.identity, e)) for t in (state, update) for e in range(1, state.ndim) if e != d}
            fixed = not mine & (broken | others) and ends.count(root((state.identity, d))) == 1
            result[op.spatial_axis_[k]] = expr(int(fixed))
            k += 1
    return result


def attach_path(schedule: Any) -> Dict[Any, List[Any]]:
    """The loops around each operation's own: those of the stages that it is attached in, from inside to outside."""
    return {stage.op: _around(stage) for stage in schedule.stages}


def _around(stage: Any) -> List[Any]:
    found: List[Any] = []
    while stage is not None:
        if stage.attach_type in (_ATTACHED, _SCAN_UPDATE):
            leaves = list(stage.attach_stage.leaf_iter_vars)
            found += leaves[: leaves.index(stage.attach_ivar) + 1][::-1]
            stage = stage.attach_stage
        else:
            stage = stage.group  # moves with it
    return found


def _unscheduled(stage: Any) -> bool:
    op = stage.op
    return op.is_compute and not stage.is_output and not stage.relations and stage.attach_type == _AT_ROOT


def _inline_where(schedule: Any, holds: Any) -> None:
    for stage in schedule.stages:
        if _unscheduled(stage) and stage.op.num_outputs == 1 and not stage.op.reduce_axis and holds(stage.op):
            stage.compute_inline()


def _reads_own_indices(op: Any) -> bool:
    own = [axis.var for axis in op.axis]
    reads: List[Any] = []
    post_order_visit(op.body[0], lambda node: reads.append(node) if node.node == "ProducerLoad" else None)
    return all(len(r.indices) == len(own) and all(i.same_as(v) for i, v in zip(r.indices, own)) for r in reads)


def auto_inline_elemwise(schedule: Any) -> None:
    """Inlines what is not scheduled, no output, and reads everything at its own indices."""
    _inline_where(schedule, _reads_own_indices)


def auto_inline_broadcast(schedule: Any) -> None:
    """Inlines what is not scheduled, no output, and tagged as a broadcast."""
    _inline_where(schedule, lambda op: op.tag == "broadcast")


def auto_inline_injective(schedule: Any) -> None:
    """Inlines what is not scheduled, no output, and no reduction."""
    _inline_where(schedule, lambda op: True)


def all_stages(schedule: Any) -> Optional[List[Any]]:
    """The stages, producers first."""
    return schedule.stages
