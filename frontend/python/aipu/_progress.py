"""What programs show of how far they are: one line that is written over on a terminal, few lines elsewhere."""

from __future__ import annotations

import collections
import time
from typing import Any, Callable, Deque, Optional, Tuple

from . import _native

_SECONDS_BETWEEN_LINES = 10.0  # elsewhere than on a terminal
_WIDEST = 200  # of a line that is written over


class ProgressLine:
    """Lines about what is done: on a terminal one that is written over, elsewhere the first one of each kind, then one
    every ten seconds. ``name`` goes before them; ``stream`` None is silent; ``clock`` gives seconds.

    As a context, it is taken off a terminal however the context ends.
    """

    def __init__(self, name: str, stream: Optional[Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._head, self._stream, self._clock = f"{name}: " if name else "", stream, clock
        self._is_terminal = bool(stream is not None and stream.isatty())
        self._kind: Optional[str] = None
        self._shown = clock()
        self._is_open = False  # whether a line is on the terminal that is to be written over

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *error: Any) -> None:
        self.end()

    def __call__(self, text: str) -> None:
        """Shows a text, whose kind is its first word."""
        self.show(_native.printable(text), text.partition(" ")[0])

    def show(self, text: str, kind: str = "", seconds_between: float = 0.0) -> None:
        """Shows a text of a kind; on a terminal no sooner than ``seconds_between`` after the one before."""
        now = self._clock()
        between = seconds_between if self._is_terminal else _SECONDS_BETWEEN_LINES
        if self._stream is None or (kind == self._kind and now - self._shown < between):
            return
        self._kind, self._shown = kind, now
        self._write(text, stays=False)

    def say(self, text: str) -> None:
        """A text that stays."""
        if self._stream is not None:
            self._write(text, stays=True)

    def end(self) -> None:
        """Takes the line off a terminal."""
        if self._is_open and self._stream is not None:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._is_open = False

    def _write(self, text: str, stays: bool) -> None:
        assert self._stream is not None
        line = self._head + text
        if self._is_terminal:
            self._stream.write(f"\r{line}\x1b[K\n" if stays else f"\r{line[:_WIDEST]}\x1b[K")
        else:
            self._stream.write(line + "\n")
        self._stream.flush()
        self._is_open = self._is_terminal and not stays


def _clock_text(seconds: float) -> str:
    whole = int(seconds + 0.5)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


class Progress(ProgressLine):
    """How many of ``total`` (None: nobody knows) are done, as a :class:`ProgressLine` with a bar, the rate of the last
    ten seconds, and the time that is left. ``done`` of them were before.
    """

    def __init__(
        self,
        stream: Optional[Any],
        total: Optional[int],
        done: int,
        clock: Callable[[], float] = time.monotonic,
        unit: str = "items",
    ) -> None:
        super().__init__("", stream, clock)
        self._total, self._unit = total, unit
        self._kind = ""  # the first line is not before there is a rate
        self._recent: Deque[Tuple[float, int]] = collections.deque([(clock(), done)])

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
        if last:
            self.say(self.text(done, broken))
        else:
            self.show(self.text(done, broken), seconds_between=0.2)
        now = self._clock()
        self._recent.append((now, done))
        while len(self._recent) > 2 and now - self._recent[1][0] > 10:
            self._recent.popleft()
