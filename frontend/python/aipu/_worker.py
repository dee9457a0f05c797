"""A model in a worker process: one file and one mapping per machine, cores of its own, reloaded when it is replaced.

What aipu.ray has in each of its workers; nothing here needs Ray.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _batching, _files, model

_FOLDER = "aipu-models"
_UNUSED_SECONDS = 7 * 24 * 3600.0


def local_copy(data: bytes) -> str:
    """The bytes of an aipu.bin as a file that all processes of this machine share; made by the first that asks.

    Copies that nobody asked for within a week are removed: who has them mapped keeps them.
    """
    folder = _files.machine_folder(_FOLDER)
    path = os.path.join(folder, hashlib.blake2b(data, digest_size=20).hexdigest() + ".aipu.bin")
    if not os.path.exists(path):
        with _files.locked(path + ".lock"):
            if not os.path.exists(path):
                _files.write_durably(path, data)
    os.utime(path)
    for entry in os.scandir(folder):
        with contextlib.suppress(OSError):
            if entry.name.endswith(".aipu.bin") and time.time() - entry.stat().st_mtime > _UNUSED_SECONDS:
                os.unlink(entry.path)
    return path


class Cores:
    """Cores of this machine that no other process has taken, as long as this object lives (or the process does).

    A core is taken by the lock of a file, which the system gives back however a process ends. ``cores`` is empty where
    fewer are free than were asked for.
    """

    def __init__(self, count: int) -> None:
        folder = _files.machine_folder("aipu-cores")
        self.cores: List[int] = []
        self._held: List[Any] = []
        for core in sorted(os.sched_getaffinity(0)):
            if len(self.cores) == count:
                break
            path = os.path.join(folder, f"core-{core}")
            if not os.path.exists(path):
                _files.write_durably(path, b"", sync_name=False)
            file = open(path, "rb")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            self.cores.append(core)
            self._held.append(file)
        if len(self.cores) < count:
            self.release()

    def release(self) -> None:
        """Gives them back."""
        for file in self._held:
            file.close()
        self._held, self.cores = [], []


Feed = Mapping[str, np.ndarray]
Outcome = Union[Dict[str, np.ndarray], Exception]


def _rows_of(feed: Feed) -> int:
    return max((len(array) for array in feed.values() if array.ndim), default=1)


class NodeModel:
    """A model in a worker: the file ``path`` mapped, a session of ``threads`` threads on cores of its own.

    ``source``: the path of an aipu.bin that this machine sees, or its bytes, which become a file of the machine's
    (:func:`local_copy`). Before each run the path is looked at: a file that was renamed to it is loaded, and used from
    then on; one that cannot be loaded is a RuntimeWarning, and the model stays what it was. ``pin``: run on ``threads``
    cores that no other such worker of the machine has; where there are not so many left, wherever the system likes.
    """

    def __init__(self, source: Union[str, bytes], threads: int = 1, pin: bool = True) -> None:
        if threads < 1:
            raise ValueError(f"threads: expected at least 1, found {threads}")
        self.path = local_copy(source) if isinstance(source, bytes) else os.fspath(source)
        self.threads = threads
        self.reloads = 0
        self._cores: Optional[Cores] = None
        if pin and hasattr(os, "sched_setaffinity"):
            self._cores = Cores(threads)
        self._loaded_from = self._identity()
        self._load()

    @property
    def cores(self) -> Tuple[int, ...]:
        """The cores that it has for itself; () where it is not pinned."""
        return tuple(self._cores.cores) if self._cores is not None else ()

    def _identity(self) -> Tuple[int, ...]:
        info = os.stat(self.path)
        return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)

    def _stay_on_cores(self) -> None:
        """For the calling thread, which plays runs itself, and those that a session makes from here on."""
        if self.cores:
            os.sched_setaffinity(0, self.cores)

    def _load(self) -> None:
        self._stay_on_cores()
        loaded = model.load(self.path)
        self.model, self._session = loaded, loaded.session(threads=self.threads)

    def _reload_if_replaced(self) -> None:
        try:
            now = self._identity()
        except OSError:
            return  # between two names; the model that is mapped stays
        if now == self._loaded_from:
            return
        self._loaded_from = now
        try:
            self._load()
            self.reloads += 1
        except (OSError, RuntimeError) as error:
            warnings.warn(f"'{self.path}' was replaced, and stays as it was: {error}", RuntimeWarning, stacklevel=3)

    def run(self, feed: Feed) -> Dict[str, np.ndarray]:
        """Runs the model as :meth:`aipu.Session.run` does."""
        self._stay_on_cores()
        self._reload_if_replaced()
        return self._session.run(feed)

    def run_many(self, feeds: Sequence[Feed], most_rows: int = 0) -> List[Outcome]:
        """Runs the model on feeds of one or more rows each, together where their shapes allow, at most ``most_rows``
        (0: any number) at once; for each the outputs, or the error of the feed itself.
        """
        self._stay_on_cores()
        self._reload_if_replaced()
        outcomes: List[Optional[Outcome]] = [None] * len(feeds)
        is_batched = self._is_batched()
        buckets: Dict[Any, List[int]] = {}
        for index, feed in enumerate(feeds):
            rows = {len(array) if array.ndim else -1 for array in feed.values()} if is_batched else set()
            fits = len(rows) == 1 and -1 not in rows
            buckets.setdefault(_batching.bucket(feed, True) if fits else index, []).append(index)
        for indices in buckets.values():
            most = most_rows if len(indices) > 1 else 0
            for part in _batching.batches(indices, lambda index: _rows_of(feeds[index]), most):
                self._run_together(feeds, part, outcomes)
        return [outcome for outcome in outcomes if outcome is not None]

    def _is_batched(self) -> bool:
        """Whether all inputs and outputs have the same open first axis."""
        first = {spec.shape[0] if spec.shape else None for spec in (*self.model.inputs, *self.model.outputs)}
        return len(first) == 1 and isinstance(first.pop(), str)

    def _run_together(self, feeds: Sequence[Feed], indices: List[int], outcomes: List[Optional[Outcome]]) -> None:
        if len(indices) == 1:
            try:
                outcomes[indices[0]] = self._session.run(feeds[indices[0]])
            except (RuntimeError, TypeError, ValueError) as error:
                outcomes[indices[0]] = error
            return
        try:
            results = self._session.run(_batching.joined([feeds[index] for index in indices], True))
        except (RuntimeError, TypeError, ValueError):
            for index in indices:  # who of them it was
                self._run_together(feeds, [index], outcomes)
            return
        counts = [_rows_of(feeds[index]) for index in indices]
        for index, part in zip(indices, _batching.divided(results, counts)):
            outcomes[index] = part
