"""A line that says how far a run is."""

from __future__ import annotations

import collections
import time
from typing import Any, Callable, Deque, Optional, Tuple


def _clock_text(seconds: float) -> str:
    whole = int(seconds + 0.5)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


class Progress:
    """Writes to a stream: on a terminal a bar that is drawn again, elsewhere a line every ten seconds.

    The rate is that of the last ten seconds. ``stream`` None is silent; ``clock`` gives seconds.
    """

    def __init__(
        self,
        stream: Optional[Any],
        total: Optional[int],
        done: int,
        clock: Callable[[], float] = time.monotonic,
        unit: str = "items",
    ) -> None:
        self._stream, self._total, self._clock, self._unit = stream, total, clock, unit
        self._is_terminal = bool(stream is not None and stream.isatty())
        self._shown = clock()
        self._recent: Deque[Tuple[float, int]] = collections.deque([(self._shown, done)])

    def text(self, done: int, broken: int) -> str:
        """The line for now."""
        now, (then, before) = self._clock(), self._recent[0]
        rate = (done - before) / (now - then) if now > then else 0.0
        parts = [
            f"{done:,} {self._unit}" if self._total is None else f"{done:,}/{self._total:,} {self._unit}",
            f"{rate:,.1f} {self._unit}/s",
        ]
        if self._total is not None and rate > 0:
            parts.append(f"{_clock_text((self._total - done) / rate)} left")
        if broken:
            parts.append(f"{broken:,} broken")
        bar = ""
        if self._total:
            full = 24 * done // self._total
            bar = f"[{'#' * full}{'-' * (24 - full)}] "
        return bar + "  ".join(parts)

    def update(self, done: int, broken: int, last: bool = False) -> None:
        """So many items are done, broken ones among them."""
        now = self._clock()
        if self._stream is not None and (last or now - self._shown >= (0.2 if self._is_terminal else 10)):
            text = self.text(done, broken)
            self._stream.write(f"\r{text}\x1b[K" + ("\n" if last else "") if self._is_terminal else text + "\n")
            self._stream.flush()
            self._shown = now
        self._recent.append((now, done))
        while len(self._recent) > 2 and now - self._recent[1][0] > 10:
            self._recent.popleft()

    def say(self, message: str) -> None:
        """A message of its own line."""
        if self._stream is not None:
            self._stream.write(f"\r{message}\x1b[K\n" if self._is_terminal else message + "\n")
            self._stream.flush()
