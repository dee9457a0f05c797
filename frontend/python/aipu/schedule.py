"""Schedules of whatever consists of blocks: DSL functions with ``S.block`` regions, ``te.create_prim_func`` results.

::

    sch = aipu.schedule.Schedule(add)
    (i,) = sch.get_loops("add_block")
    tec, chunk, lanes = sch.split(i, factors=[4, None, 8])
    sch.bind_tec(tec)
    sch.vectorize(lanes)
    executor = aipu.tir.BuildManager().build(sch.mod)

A primitive that is refused raises :class:`ScheduleError` and changes nothing.
"""

from __future__ import annotations

import functools
from typing import Any, List, Optional, Sequence

from . import _native, tir
from ._dtype import DataType
from ._errors import DiagnosticError, TVMError
from ._info import CompassInfo
from .script import PyPrimFunc
from .te._expr import expr
from .te._module import LoweredModule, PrimFunc

_blocks = _native.schedule

BlockRV = _blocks.BlockRV
LoopRV = _blocks.LoopRV
_PARALLEL, _VECTORIZED, _UNROLLED = 1, 2, 3  # kinds of loops
# Annotations that ask for something. What users write down for themselves is kept and shown.
_ASKING = ("tir.", "software_pipeline", "double_buffer", "pragma_tensor_core", "warp_execution", "meta_schedule")
_NOT_SUPPORTED = """blockize cache_index can_decompose_padding decompose_padding enter_postproc get_sref
    pad_einsum reindex reindex_cache_read reindex_cache_write reinitialize_rolling_buffer rolling_buffer
    sample_categorical sample_compute_location sample_perfect_tile set_axis_separator tensorize trace
    transform_block_layout transform_layout unsafe_set_dtype""".split()


class ScheduleError(TVMError):
    """A primitive that cannot be done; the message names block or loop and says why."""


_blocks.set_error_class(ScheduleError)


class _Root:
    """What is around all blocks of a function."""

    name = "root"

    def __repr__(self) -> str:
        return "block root"


class BlockPrimFunc(PrimFunc):
    """A function of loops around blocks. ``body`` is what its loops are when it is built, ``script()`` has the
    blocks.
    """

    def __init__(self, blocks: Any, params: Optional[Sequence[Any]] = None, flat: bool = False) -> None:
        native = blocks.lower()
        self.attrs = {"global_symbol": native.name}
        self._take(native, blocks.params if params is None else params)
        self.blocks = blocks
        self.flat = flat  # arrays are pointers, whose shapes are not looked at

    def script(self) -> str:
        """The text."""
        return self.blocks.text()

    __str__ = __repr__ = script


def _of_kernel(function: PyPrimFunc) -> Any:
    from ._capture import names_visible

    info = CompassInfo.get()
    with names_visible(function, function.names):
        blocks, diagnostics, refused = _blocks.parse_blocks(function, info.name)
        if diagnostics:
            raise DiagnosticError(diagnostics).emit()
        if blocks is None:
            raise ScheduleError(refused)
        module, _ = _native.parse_kernel(function, "", info.name)
    function.param_infos = list(tir.prim_func_info(tir.IRModule(module)).param_infos)  # so that it runs as Python
    function.cps_info = info
    return blocks


def _function(source: Any) -> BlockPrimFunc:
    """The function of what a schedule is made of."""
    if isinstance(source, PyPrimFunc):
        return BlockPrimFunc(_of_kernel(source).named("main"), flat=True)
    if isinstance(source, LoweredModule):
        functions = source.functions
        if len(functions) != 1 and "main" not in functions:
            raise ValueError(f"Schedule: a module with one function or a main, not {', '.join(functions)}")
        source = functions["main"] if "main" in functions else next(iter(functions.values()))
    if isinstance(source, BlockPrimFunc):
        return source
    if isinstance(source, PrimFunc) and source.definition is not None:
        return BlockPrimFunc(_blocks.block_function(source.definition, "main"), source.params)
    kind = type(source).__name__
    raise ValueError(f"Schedule: a function with blocks (S.block or te.create_prim_func) or its module, not {kind}")


class Schedule:
    """Transforms a function step by step; :attr:`mod` is what has become of it. Blocks are given by name or object."""

    def __init__(self, mod: Any) -> None:
        self._source = _function(mod)
        self._native = _blocks.BlockSchedule(self._source.blocks)

    @property
    def mod(self) -> LoweredModule:
        """A module whose function is ``main``."""
        return LoweredModule({"main": BlockPrimFunc(self._native.function, self._source.params, self._source.flat)})

    def copy(self) -> "Schedule":
        """A schedule of its own of what has become of the function."""
        return Schedule(self.mod)

    def show(self) -> None:
        """Prints the function."""
        print(self.mod.script())

    # --- looking ------------------------------------------------------------------------------------------------------

    def get_block(self, name: str, func_name: str = "main") -> Any:
        """The block of that name; ``"root"``, if no block has this name, is the whole function."""
        if name == "root" and all(block.name != name for block in self._native.get_child_blocks(None)):
            return _Root()
        return self._native.get_block(name)

    def get_loops(self, block: Any) -> List[Any]:
        """The loops around a block, outermost first."""
        return [] if isinstance(block, _Root) else self._native.get_loops(self._block(block))

    def get_child_blocks(self, block_or_loop: Any) -> List[Any]:
        """The blocks inside of a loop, or of the block ``"root"``, in order."""
        if isinstance(block_or_loop, LoopRV):
            return self._native.get_child_blocks(block_or_loop)
        inside_root = isinstance(self._block(block_or_loop), _Root)
        return self._native.get_child_blocks(None) if inside_root else []

    def get_output_blocks(self, scope_block: Any = "root") -> List[Any]:
        """The blocks that write parameters of the function."""
        return self._native.get_output_blocks()

    def get_producers(self, block: Any) -> List[Any]:
        """The blocks that compute what the block reads."""
        return self._native.get_producers(self._block(block))

    def get_consumers(self, block: Any) -> List[Any]:
        """The blocks that read what the block computes."""
        return self._native.get_consumers(self._block(block))

    def get(self, rv: Any) -> Any:
        """The loop or block itself."""
        return rv

    def work_on(self, func_name: str) -> None:
        """A schedule has one function, ``main``."""
        if func_name != "main":
            raise ScheduleError(f"work_on: there is no function {func_name!r}, there is main")

    def __getattr__(self, name: str) -> Any:
        if name in _NOT_SUPPORTED:
            raise ScheduleError(f"{name} of a block schedule is not supported")
        raise AttributeError(f"Schedule has no attribute {name!r}")

    # --- loops --------------------------------------------------------------------------------------------------------

    def split(
        self, loop: Any, factors: Sequence[Any], preserve_unit_iters: bool = True, disable_predication: bool = False
    ) -> List[Any]:
        """A nest in place of a loop, outermost factor first; a factor None is what is left, rounded up.

        Iterations beyond the loop's extent are guarded, unless ``disable_predication`` says that there are none.
        """
        extents = [None if factor is None else expr(factor) for factor in factors]
        return self._native.split(loop, extents, not disable_predication)

    def fuse(self, *loops: Any, preserve_unit_iters: bool = True) -> Any:
        """One loop in place of loops that stand directly in each other, outermost first."""
        return self._native.fuse(list(loops))

    def reorder(self, *loops: Any) -> None:
        """The loops of one nest take their places in this order."""
        self._native.reorder(list(loops))

    def vectorize(self, loop: Any) -> None:
        """The iterations of a loop of constant extent as lanes."""
        self._native.annotate(loop, _VECTORIZED)

    def unroll(self, loop: Any) -> None:
        """The body of a loop of constant extent as often as it is run."""
        self._native.annotate(loop, _UNROLLED)

    def parallel(self, loop: Any) -> None:
        """The iterations are dealt to the TECs."""
        self._native.annotate(loop, _PARALLEL)

    def bind(self, loop: Any, thread_axis: Any) -> None:
        """The iterations are threads of an axis: ``"threadIdx.x"``, ``"blockIdx.x"``, ``"tec"``, ..."""
        self._native.bind(loop, str(getattr(thread_axis, "thread_tag", thread_axis)))

    def bind_tec(self, loop: Any) -> None:
        """One TEC per iteration."""
        tecs = CompassInfo.get().tec_count
        extent = loop.extent
        if extent.node == "IntImm" and extent.value > tecs:
            raise ScheduleError(f"bind_tec: loop '{loop.name}' has {extent.value} iterations, there are {tecs} TECs")
        self._native.bind(loop, "threadIdx.x")

    def add_unit_loop(self, block_or_loop: Any) -> Any:
        """A loop that is run once, around a block or a loop."""
        return self._native.add_unit_loop(self._block(block_or_loop))

    def annotate(self, block_or_loop: Any, ann_key: str, ann_val: Any) -> None:
        """A note on a block or a loop, which the text shows. Of those that ask for something there are hints about
        unrolling, ``pragma_auto_unroll_max_step`` and ``pragma_unroll_explicit``, which the compiler of C decides
        about; others are refused.
        """
        if str(ann_key).startswith(_ASKING):
            raise ScheduleError(f"annotate: '{ann_key}' is not supported")
        self._native.note(self._block(block_or_loop), str(ann_key), expr(ann_val))

    def unannotate(self, block_or_loop: Any, ann_key: str) -> None:
        """Takes a note away."""
        self._native.remove_note(self._block(block_or_loop), str(ann_key))

    # --- reductions ---------------------------------------------------------------------------------------------------

    def decompose_reduction(self, block: Any, loop: Any) -> Any:
        """What a reduction starts from becomes a block of its own, in front of a loop; the new block."""
        return self._native.decompose_reduction(self._block(block), loop)

    def rfactor(self, loop: Any, factor_axis: int = 0) -> Any:
        """The iterations of a reduction loop get results of their own, which the block reduces over then: a buffer
        with a dimension more, at ``factor_axis``. The new block, which computes them in the loops that there were.
        """
        return self._native.rfactor(loop, int(factor_axis))

    # --- copies -------------------------------------------------------------------------------------------------------

    def cache_read(
        self, block: Any, read_buffer_index: int, storage_scope: str, consumer_blocks: Optional[Sequence[Any]] = None
    ) -> Any:
        """A copy of the n-th buffer that the block reads, in another memory; the new block. All that read the buffer
        (or ``consumer_blocks``) read the copy from then on.
        """
        readers = [self._block(b) for b in consumer_blocks or []]
        return self._native.cache_read(self._block(block), read_buffer_index, storage_scope, readers)

    def cache_write(self, block: Any, write_buffer_index: int, storage_scope: str) -> Any:
        """The n-th buffer that the block writes is written in another memory and copied then; the new block."""
        return self._native.cache_write(self._block(block), write_buffer_index, storage_scope)

    def read_at(self, loop: Any, block: Any, read_buffer_index: int, storage_scope: str) -> Any:
        """:meth:`cache_read`, computed at the loop for what is read inside it."""
        return self._native.read_at(loop, self._block(block), read_buffer_index, storage_scope)

    def write_at(self, loop: Any, block: Any, write_buffer_index: int, storage_scope: str) -> Any:
        """:meth:`cache_write`, the copy at the loop for what is written inside it."""
        return self._native.write_at(loop, self._block(block), write_buffer_index, storage_scope)

    def set_scope(self, block: Any, buffer_index: int, storage_scope: str) -> None:
        """The memory of the n-th buffer that the block writes, which is no parameter."""
        self._native.set_scope(self._block(block), buffer_index, storage_scope)

    def storage_align(self, block: Any, buffer_index: int, axis: int, factor: int, offset: int) -> None:
        """The stride of a dimension of the n-th buffer that the block writes leaves the rest ``offset`` when it is
        divided by ``factor``; of no parameter.
        """
        self._native.storage_align(self._block(block), buffer_index, int(axis), int(factor), int(offset))

    # --- places -------------------------------------------------------------------------------------------------------

    def compute_at(self, block: Any, loop: Any, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """Moves a producer into a loop around all its consumers, for the region that they need there."""
        self._native.compute_at(self._block(block), loop)

    def reverse_compute_at(self, block: Any, loop: Any, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """Moves a consumer into a loop of its producers, for the region that they compute there."""
        self._native.reverse_compute_at(self._block(block), loop)

    def compute_inline(self, block: Any) -> None:
        """Consumers compute the value of an elementwise block themselves."""
        self._native.compute_inline(self._block(block))

    def reverse_compute_inline(self, block: Any) -> None:
        """The producer of an elementwise block computes its value too."""
        self._native.reverse_compute_inline(self._block(block))

    def _block(self, block: Any) -> Any:
        return self.get_block(block) if isinstance(block, str) else block


def _elementwise(func: Any, target: Any, block: Any, inputs: int) -> Schedule:
    sch = Schedule(func)
    target_block = sch._block(block)
    read, written = target_block.reads, target_block.writes
    message = f"The schedule only support {'a input' if inputs == 1 else 'two inputs'} and a output with same dtype."
    assert len(read) == inputs and len(written) == 1 and len({t.dtype for t in read + written}) == 1, message
    info = CompassInfo.get(target)
    itemsize = max(DataType(written[0].dtype).bits // 8, 1)
    lanes = info.vector_width // 8 // itemsize
    # Two buffers fill lsram; where there are three, each holds half as many elements.
    vectors = info.lsram_size() // (2 * inputs) // itemsize // lanes
    loop = sch.fuse(*sch.get_loops(target_block))
    if loop.extent.node == "IntImm":  # no more than a TEC has to do
        vectors = min(vectors, max(-(-loop.extent.value // (info.tec_count * lanes)), 1))
    tec, chunk, vector, lane = sch.split(loop, factors=[info.tec_count, None, vectors, lanes])
    sch.bind_tec(tec)
    for index in range(inputs):
        sch.read_at(chunk, target_block, index, "lsram")
    sch.write_at(chunk, target_block, 0, "lsram")
    sch.vectorize(lane)
    return sch


elementwise_unary = functools.partial(_elementwise, inputs=1)
elementwise_binary = functools.partial(_elementwise, inputs=2)
