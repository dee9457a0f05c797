"""Loops, blocks, synchronisation and output (intrinsics.md 1, 11 and 12)."""

from __future__ import annotations

import contextlib
import itertools
import sys
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence

from .. import _native
from .._dtype import DataType
from ._core import Value, Vector, convert
from ._pointer import as_pointer
from ._pysim import TEC_COUNT, Event, current

_INT32 = DataType("int32")


def grid(*extents: Any) -> Iterable[Any]:
    """Nested loops over ``range(extent)``; one loop variable per extent."""
    ranges = [range(extent) for extent in extents]
    return ranges[0] if len(ranges) == 1 else itertools.product(*ranges)


def vectorized(start: Any, stop: Any = None) -> range:
    """A loop whose body is compiled to vector code; ``range`` in PySim."""
    return range(start) if stop is None else range(start, stop)


def tec_range(start: Any, stop: Any = None) -> range:
    """A loop split over the TECs: TEC ``t`` executes the value ``t`` if it is in the range."""
    whole = vectorized(start, stop)
    number = current().id
    return range(number, number + 1) if number in whole else range(0)


@contextlib.contextmanager
def block(name: str) -> Iterator[None]:
    """A region that schedules can name."""
    if not isinstance(name, str):
        raise AssertionError("The name of a block must be a string.")
    yield


class axis:
    """The axes of a block; PySim takes the values as they are."""

    @staticmethod
    def spatial(dom: Any, v: Any) -> Any:
        """An axis along which iterations are independent."""
        return v

    @staticmethod
    def reduce(dom: Any, v: Any) -> Any:
        """An axis along which iterations accumulate."""
        return v

    S = spatial
    R = reduce

    @staticmethod
    def remap(kinds: str, vs: Sequence[Any]) -> Any:
        """Several axes at once: ``"SR"`` and their values. One axis gives its value, more a list."""
        return vs[0] if len(vs) == 1 else list(vs)


def meta_var(v: Any) -> Any:
    """A compile-time value under a name."""
    return v


def tag(node: Any, attr: str) -> Any:
    """Marks a widening cast whose lanes may come in any order (``"no_zip"``)."""
    if attr != "no_zip":
        raise AssertionError('The arg "attr" expect one of ("no_zip",).')
    if not isinstance(node, Vector):
        raise AssertionError('In attr "no_zip", the arg "node" expect one of (\'vcast\',).')
    return node


# --- TECs, events ---


def get_local_id() -> Any:
    """The number of this TEC."""
    return convert(current().id, _INT32)


def get_local_size() -> Any:
    """The number of TECs."""
    return convert(TEC_COUNT, _INT32)


def barrier() -> None:
    """Waits for the events of this TEC that are not freed, then for all TECs."""
    current().barrier()


def alloc_events(count: int) -> Any:
    """One event, or a tuple of ``count`` events; a TEC has four."""
    if isinstance(count, (bool, Value)) or not isinstance(count, int) or count < 1:
        raise AssertionError('The arg "count" expect an positive integer scalar constant.')
    return current().alloc_events(count)


def _checked(events: Sequence[Any]) -> Sequence[Event]:
    if not events:
        raise AssertionError("Redundant useless call.")
    for event in events:
        if not isinstance(event, Event):
            raise AssertionError("Every argument expect an event.")
    return events


def wait_events(*events: Event) -> None:
    """Blocks until every operation bound to the events is done."""
    for event in _checked(events):
        event.wait()


def free_events(*events: Event) -> None:
    """Waits for the events and gives them back."""
    for event in _checked(events):
        if event.released:
            raise AssertionError("The released event can not be used anymore.")
        current().free_event(event)


def stage(
    body: Callable[..., Any],
    units: Any,
    reads: Optional[Sequence[Any]] = None,
    shared: Optional[Sequence[Any]] = None,
    writes: Optional[Sequence[Any]] = None,
    values: Optional[Sequence[Any]] = None,
    local_bytes: Optional[int] = None,
) -> None:
    """``body(count, *reads, *shared, *writes, *values)`` for all ``units``, which the TECs share.

    On an NPU tiles of the operands go through local memory. ``reads``: pointers, or tuples of one, its elements of a
    unit (1), and the distance of units (the same). ``writes``: without a distance; all of a unit is written.
    ``shared``: what all units read. PySim calls the body once, with the pointers at the first unit of the TEC.
    """
    tec, whole = int(current().id), int(units)
    share, rest = divmod(whole, TEC_COUNT)
    first = tec * share + min(tec, rest)
    count = share + (1 if tec < rest else 0)
    if count == 0:
        return
    moved = []
    for operand in reads or ():
        pointer, width, pitch = _staged(operand, 3)
        moved.append(pointer + first * pitch)
    moved += [_staged(operand, 2)[0] for operand in shared or ()]
    for operand in writes or ():
        pointer, width = _staged(operand, 2)
        moved.append(pointer + first * width)
    body(convert(count, _INT32), *moved, *(values or ()))


def _staged(operand: Any, size: int) -> List[Any]:
    parts = list(operand) if isinstance(operand, (list, tuple)) else [operand]
    parts += [1] * (2 - len(parts))
    return parts + [parts[1]] * (size - len(parts))


def perf_tick_begin(cid: Any) -> None:
    """Starts a profiling counter: nothing in PySim."""


def perf_tick_end(cid: Any) -> None:
    """Stops a profiling counter: nothing in PySim."""


# --- output, fixed-function hardware, assembly ---


def printf(fmt: str, *args: Any) -> int:
    """Prints like C's printf with the specifiers of the language (``%d %u %x %f %v8hlf ...``).

    ValueError for others.
    """
    if not isinstance(fmt, str):
        raise AssertionError("The 1st arg expect a string.")
    sys.stdout.write(_native.print_text(fmt, args))
    return 0


def aiff(ctrl_desc: Any, param_desc: Any, act_desc: Any) -> None:
    """Runs the fixed-function unit, which PySim has no model of."""
    for descriptor, name in ((ctrl_desc, "ctrl_desc"), (param_desc, "param_desc"), (act_desc, "act_desc")):
        _descriptor(descriptor, name)
    raise NotImplementedError("PySim does not support S.aiff.")


def async_aiff(ctrl_desc: Any, param_desc: Any, act_desc: Any, event: Event) -> None:
    """``aiff`` that returns at once."""
    for descriptor, name in ((ctrl_desc, "ctrl_desc"), (param_desc, "param_desc"), (act_desc, "act_desc")):
        _descriptor(descriptor, name)
    raise NotImplementedError("PySim does not support S.async_aiff.")


def _descriptor(value: Any, name: str) -> None:
    try:
        as_pointer(value, name)
    except AssertionError:
        raise AssertionError(f'The arg "{name}" expect a pointer.') from None


def asm(
    template: str,
    outputs: Optional[dict] = None,
    inputs: Optional[dict] = None,
    clobbers: Any = None,
    qualifiers: Optional[str] = None,
) -> None:
    """Inline assembly of the vendor's assembler, which PySim can't run."""
    raise NotImplementedError("PySim does not support inline assembly.")


__all__ = [
    name for name in dir() if not name.startswith("_") and getattr(globals()[name], "__module__", "") == __name__
]
