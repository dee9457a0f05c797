"""PySim: the TECs, their barrier, events and shared memory."""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from ._core import FILLER

TEC_COUNT = 4
EVENT_COUNT = 4
_SINGLE_THREAD_TEXT = "PySim can't be run in single thread for this DSL program."


class Event:
    """An event of a TEC: asynchronous operations bound to it run in order, at the latest when it is waited for."""

    __slots__ = ("_pending", "released")

    def __init__(self) -> None:
        self._pending: List[Callable[[], None]] = []
        self.released = False

    def enqueue(self, operation: Callable[[], None]) -> None:
        """Binds an operation to the event."""
        if self.released:
            raise AssertionError('The arg "event" is a released event, can not be used anymore.')
        self._pending.append(operation)

    def wait(self) -> None:
        """Performs what is pending."""
        if self.released:
            raise AssertionError("The released event can not be used anymore.")
        pending, self._pending = self._pending, []
        for operation in pending:
            operation()


class _Aborted(BaseException):
    """Ends a TEC that waits for one that failed."""


_NEW, _READY, _WAITING, _DONE = range(4)


class Run:
    """The TECs of one call: whose turn it is, and what they share.

    One TEC runs at a time, until it waits at a barrier or ends; then the next one does. The calling thread runs TECs as
    long as none of them waits; one that has to go on beside a waiting one gets a thread. A TEC that has ended counts as
    arrived at every barrier.
    """

    def __init__(self, single_thread: bool, random_pause: bool = False) -> None:
        self.single_thread = single_thread
        self.random_pause = random_pause
        self.handed: Any = None
        self._changed = threading.Condition()
        self._states = [_NEW] * TEC_COUNT
        self._turn: Optional[int] = None
        self._failure: Optional[BaseException] = None
        self._threads: List[threading.Thread] = []
        self._work: Callable[[], None] = lambda: None
        self._regions: List[Tuple[int, np.ndarray]] = []
        self._bases: Dict[Tuple[int, int], int] = {}
        self._next = 0x10000000

    # --- turns ---

    def execute(self, work: Callable[[], None]) -> None:
        """Runs ``work`` once per TEC; raises what the first failing TEC raised."""
        self._work = work
        while self._failure is None and _NEW in self._states:
            number = self._take_new()
            self._run_tec(number)
            if self._threads:
                with self._changed:
                    self._pass_turn()
                    while self._failure is None and any(state in (_READY, _WAITING) for state in self._states):
                        self._changed.wait()
        for thread in self._threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def _take_new(self) -> int:
        with self._changed:
            number = self._pick(_NEW)
            assert number is not None
            self._states[number] = _READY
            self._turn = number
            return number

    def _pick(self, state: int) -> Optional[int]:
        numbers = [number for number in range(TEC_COUNT) if self._states[number] == state]
        if not numbers:
            return None
        return random.choice(numbers) if self.random_pause else numbers[0]

    def _run_tec(self, number: int) -> None:
        outer = getattr(_local, "tec", None)
        tec = _local.tec = Tec(number, self)
        try:
            self._work()
            tec.wait_for_events()
        except _Aborted:
            pass
        except BaseException as failure:  # raised in the caller's thread
            with self._changed:
                if self._failure is None:
                    self._failure = failure
        finally:
            _local.tec = outer
            with self._changed:
                self._states[number] = _DONE
                self._changed.notify_all()

    def _in_thread(self, number: int) -> None:
        self._run_tec(number)
        with self._changed:
            self._pass_turn()

    def _pass_turn(self) -> None:
        """Gives the turn to a TEC that can run; the caller holds the lock."""
        if self._failure is None:
            if _NEW not in self._states and _READY not in self._states:
                self._states = [_READY if state == _WAITING else state for state in self._states]
            number = self._pick(_READY)
            if number is None:
                number = self._pick(_NEW)
                if number is not None:
                    self._states[number] = _READY
                    thread = threading.Thread(target=self._in_thread, args=(number,), daemon=True, name=f"TEC {number}")
                    self._threads.append(thread)
                    thread.start()
            self._turn = number
        self._changed.notify_all()

    def wait(self, number: int) -> None:
        """The barrier: TEC ``number`` goes on when all that run have arrived."""
        with self._changed:
            self._states[number] = _WAITING
            self._pass_turn()
            while self._failure is None and not (self._turn == number and self._states[number] == _READY):
                self._changed.wait()
            if self._failure is not None:
                raise _Aborted

    # --- addresses ---

    def integer_of(self, memory: Optional[np.ndarray], offset: int) -> int:
        """A 32-bit address for a pointer."""
        if memory is None:
            return offset
        key = (memory.__array_interface__["data"][0], memory.size)
        base = self._bases.get(key)
        if base is None:
            base = self._bases[key] = self._next
            self._regions.append((base, memory))
            self._next += (memory.size + 511) // 256 * 256
        return (base + offset) & 0xFFFFFFFF

    def pointer_at(self, address: int) -> Tuple[Optional[np.ndarray], int]:
        """(memory, offset) of an address made by ``integer_of``; (None, address) for others."""
        for base, memory in self._regions:
            if base <= address <= base + memory.size:
                return memory, address - base
        return None, address


class Tec:
    """One engine while it runs."""

    __slots__ = ("id", "run", "events")

    def __init__(self, number: int, run: Run) -> None:
        self.id = number
        self.run = run
        self.events: List[Event] = []

    def wait_for_events(self) -> None:
        """Waits for all events that are allocated and not freed."""
        for event in self.events:
            event.wait()

    def barrier(self) -> None:
        """Waits for the own events, then for the other TECs."""
        if self.run.single_thread:
            raise AssertionError(_SINGLE_THREAD_TEXT)
        if self.run.random_pause:
            time.sleep(random.random() * 0.01)
        self.wait_for_events()
        self.run.wait(self.id)

    def shared(self, make: Callable[[], Any]) -> Any:
        """One object for all TECs, made by TEC 0; acts as a barrier."""
        if self.run.single_thread:
            raise AssertionError(_SINGLE_THREAD_TEXT)
        if self.run.random_pause:
            time.sleep(random.random() * 0.01)
        self.run.wait(self.id)
        if self.id == 0:
            self.run.handed = make()
        self.run.wait(self.id)
        return self.run.handed

    def alloc_events(self, count: int) -> Any:
        """One event, or a tuple of them."""
        remaining = EVENT_COUNT - len(self.events)
        if count > remaining:
            raise AssertionError(f"Only remain {remaining} events, but allocate {count}.")
        made = tuple(Event() for _ in range(count))
        self.events.extend(made)
        return made[0] if count == 1 else made

    def free_event(self, event: Event) -> None:
        """Waits for an event and gives it back."""
        event.wait()
        event.released = True
        self.events.remove(event)


_local = threading.local()


def running() -> Optional[Tec]:
    """The TEC of this thread, or None outside of a kernel."""
    return getattr(_local, "tec", None)


def current() -> Tec:
    """The TEC of this thread; outside of a kernel one that stands alone."""
    tec = getattr(_local, "tec", None)
    if tec is None:
        tec = getattr(_local, "alone", None)
        if tec is None:
            tec = _local.alone = Tec(0, Run(single_thread=True))
    return tec


def fresh_memory(size: int) -> np.ndarray:
    """Bytes with the arbitrary contents that undefined data has in this process."""
    memory = np.empty(size, np.uint8)
    memory.fill(FILLER[0])
    return memory


def _switches() -> "list[str]":
    return [switch.strip().lower() for switch in os.environ.get("CPS_DSL", "").split(";")]


def simulate(function: Callable[..., Any], arguments: Callable[[], Tuple[Any, ...]]) -> None:
    """Runs ``function`` on all TECs, each with arguments of its own, and raises what a failing TEC raised.

    The environment variable ``CPS_TVM_PYSIM_SINGLE_THREAD=TRUE`` runs the TECs one after the other in the calling
    thread; the switch ``rp`` of ``CPS_DSL`` takes them in random order and pauses before barriers.
    """
    single_thread = os.environ.get("CPS_TVM_PYSIM_SINGLE_THREAD", "").upper() == "TRUE"
    switches = _switches()
    run = Run(single_thread, "rp" in switches or "random_pause" in switches)
    run.execute(lambda: function(*arguments()))
