"""Which queries run together, and when: decisions alone. Time is a number that the caller gives, in seconds since the
start, so the same code decides in a test's virtual time and in a measurement.

Sessions ask :meth:`take` whenever they are free; nobody pushes, so that no thread stands between a query and a session.
"""

from __future__ import annotations

import array
import bisect
import math
from typing import NamedTuple, Protocol, Sequence, Union

import numpy as np

MOST_ARRIVALS = 10_000_000


class Batch(NamedTuple):
    """Queries that run together: the number of the first, when each of them was due, and the samples of them all."""

    first: int
    due: Sequence[float]
    samples: int


class Wait(NamedTuple):
    """There is nothing to run before ``until``."""

    until: float


Taken = Union[Batch, Wait, None]  # None: it is over for who asks


class Scheduler(Protocol):
    """Who decides."""

    def take(self, now: float) -> Taken:
        """What a session that is free at ``now`` does. Times of calls never go back."""

    def unfinished(self) -> int:
        """Queries that were due and have not been begun, when it is over."""


class OneAfterTheOther:
    """Each session begins a query of ``samples`` samples when its last one is answered (a closed loop).

    It is over at ``seconds``, but not before ``fewest`` queries; and after ``most``.
    """

    def __init__(self, seconds: float, samples: int = 1, fewest: int = 1, most: float = math.inf) -> None:
        self._seconds, self._samples, self._fewest, self._most = seconds, samples, fewest, most
        self._count = 0

    def take(self, now: float) -> Taken:
        """See :class:`Scheduler`."""
        if self._count >= self._most or (now >= self._seconds and self._count >= self._fewest):
            return None
        self._count += 1
        return Batch(self._count - 1, (now,), self._samples)

    def unfinished(self) -> int:
        """See :class:`Scheduler`."""
        return 0


class Arrivals:
    """Queries of a sample each are due at ``times`` (ascending), whether or not anybody is free (an open loop).

    A batch has at most ``most`` of them. It begins when it is full, when its first query has waited for ``delay``
    seconds, or when no more will come. At ``end`` it is over, whatever is left: an overloaded server would never catch
    up.
    """

    def __init__(self, times: "array.array[float]", end: float, most: int = 1, delay: float = 0.0) -> None:
        self._times, self._end, self._most, self._delay = times, end, most, delay
        self._next = 0

    def take(self, now: float) -> Taken:
        """See :class:`Scheduler`."""
        times, first = self._times, self._next
        if now >= self._end or first == len(times):
            return None
        last = min(first + self._most, len(times))  # of the batch if it were full
        arrived = bisect.bisect_right(times, now, first, last)
        if arrived == first:
            return Wait(min(times[first], self._end))
        leaves = times[first] + self._delay
        if arrived < last and now < leaves:
            return Wait(min(times[arrived], leaves, self._end))
        self._next = arrived
        return Batch(first, times[first:arrived], arrived - first)

    def unfinished(self) -> int:
        """See :class:`Scheduler`."""
        return len(self._times) - self._next


def poisson(rate: float, seconds: float, seed: int) -> "array.array[float]":
    """Arrivals of a Poisson process of ``rate`` per second within ``seconds``: gaps are independent and exponential.

    ValueError for more than ten million of them, and where not one is to be expected.
    """
    if not rate > 0 or rate * seconds < 1:
        raise ValueError(f"a rate of {rate:g} per second gives no query within {seconds:g} s")
    if rate * seconds > MOST_ARRIVALS:
        raise ValueError(f"{rate:g} queries per second for {seconds:g} s are more than {MOST_ARRIVALS:,}")
    random = np.random.default_rng(seed)
    times = np.zeros(0)
    while len(times) == 0 or times[-1] < seconds:
        left = max(16, int(1.1 * rate * (seconds - (times[-1] if len(times) else 0))))
        gaps = random.exponential(1 / rate, left)
        times = np.concatenate([times, (times[-1] if len(times) else 0) + np.cumsum(gaps)])
    return array.array("d", times[times < seconds].tobytes())
