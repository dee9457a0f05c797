"""Sessions play what a scheduler decides: in threads and real time, or in virtual time, where nothing runs."""

from __future__ import annotations

import array
import heapq
import threading
import time
from typing import Callable, List, Protocol, Sequence

import numpy as np

from ._scheduler import Batch, Scheduler, Wait

_SPIN_SECONDS = 100e-6  # before a query is due: the system wakes threads late


class Record:
    """What was answered, in one growing row of numbers per thing; times in seconds since the start."""

    def __init__(self) -> None:
        self.begins, self.ends = array.array("d"), array.array("d")  # of batches
        self.samples = array.array("q")
        self.due, self.answered = array.array("d"), array.array("d")  # of queries

    def add(self, batch: Batch, begin: float, end: float) -> None:
        """A batch ran from ``begin`` to ``end``, which is when all of its queries are answered."""
        self.begins.append(begin)
        self.ends.append(end)
        self.samples.append(batch.samples)
        for due in batch.due:
            self.due.append(due)
            self.answered.append(end)

    def join(self, other: "Record") -> None:
        """What another session has answered."""
        for name in ("begins", "ends", "samples", "due", "answered"):
            getattr(self, name).extend(getattr(other, name))

    @property
    def latencies(self) -> np.ndarray:
        """Of each query, from when it was due: waiting is part of it, whoever is at fault."""
        return np.frombuffer(self.answered) - np.frombuffer(self.due) if self.due else np.zeros(0)


class Player(Protocol):
    """Has sessions that play."""

    sessions: int

    def play(self, scheduler: Scheduler) -> Record:
        """Plays until the scheduler says that it is over."""


class VirtualPlayer:
    """Sessions that do nothing for as long as ``seconds`` says of each batch; exact, and as fast as the test can be."""

    def __init__(self, sessions: int, seconds: Callable[[Batch], float]) -> None:
        self.sessions, self._seconds = sessions, seconds

    def play(self, scheduler: Scheduler) -> Record:
        """See :class:`Player`."""
        record = Record()
        free = [(0.0, session) for session in range(self.sessions)]
        while free:
            now, session = heapq.heappop(free)
            taken = scheduler.take(now)
            if isinstance(taken, Wait):
                heapq.heappush(free, (taken.until, session))
            elif taken is not None:
                end = now + self._seconds(taken)
                record.add(taken, now, end)
                heapq.heappush(free, (end, session))
        return record


def _sleep_until(due: float, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
    left = due - clock()
    if left > _SPIN_SECONDS:
        sleep(left - _SPIN_SECONDS)
    while clock() < due:
        sleep(0)  # others may have the interpreter, and the core


class RealPlayer:
    """A thread per session; ``runs[i](batch)`` runs a batch in session i and returns when it is done.

    Whoever is free holds the lock until it has something to run: the others, if they are free too, could only wait for
    the same. One session plays in the calling thread.
    """

    def __init__(
        self,
        runs: Sequence[Callable[[Batch], None]],
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.sessions, self._runs, self._clock, self._sleep = len(runs), runs, clock, sleep

    def play(self, scheduler: Scheduler) -> Record:
        """See :class:`Player`. The first error of a run ends it and is raised."""
        start = self._clock()
        lock = threading.Lock()
        records = [Record() for _ in self._runs]
        errors: List[BaseException] = []

        def session(run: Callable[[Batch], None], record: Record) -> None:
            try:
                while not errors:
                    with lock:
                        taken = scheduler.take(self._clock() - start)
                        while isinstance(taken, Wait) and not errors:
                            _sleep_until(start + taken.until, self._clock, self._sleep)
                            # Adding the start rounds: the clock says that it is time, and so it is.
                            taken = scheduler.take(max(self._clock() - start, taken.until))
                    if not isinstance(taken, Batch):
                        return
                    begin = self._clock() - start
                    run(taken)
                    record.add(taken, begin, self._clock() - start)
            except BaseException as error:
                errors.append(error)

        threads = [
            threading.Thread(target=session, args=pair, daemon=True) for pair in list(zip(self._runs, records))[1:]
        ]
        for thread in threads:
            thread.start()
        session(self._runs[0], records[0])
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        for record in records[1:]:
            records[0].join(record)
        return records[0]
