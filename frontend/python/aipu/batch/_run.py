"""The run: chunks of inputs go through preprocessing and sessions side by side, and are committed in their order.

What a chunk gives depends on its inputs alone, not on what ran beside it, and its files have names of their own; the
manifest, which says how many chunks are committed, is replaced after they are on the disk. So a run that is killed at
any moment goes on with the chunk that the manifest names and writes the bytes that it would have written.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import errno
import functools
import itertools
import json
import multiprocessing
import os
import sys
import threading
import time
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .. import _batching, _converted, _files, _model_source, _native
from .._arrays import TensorSpec
from .._progress import Progress
from ..model import Model, Session
from ._formats import FORMATS, Files, Row
from ._samples import Sample, prepare
from ._sources import Item, Source, source_of

MANIFEST, ERRORS, LOCK = "manifest.json", "errors.jsonl", ".lock"
_VERSION = 1
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)
_MACHINE_IS_SHORT_OF = (errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # which is not the input's fault


class DiskFull(OSError):
    """There is no room for results. What is committed is whole; the same call goes on when there is room again."""


class TooManyBroken(RuntimeError):
    """More inputs are broken than ``max_broken`` allows."""


class Broken(NamedTuple):
    """An input without a result, and why."""

    index: int
    name: str
    error: str


@dataclasses.dataclass
class Report:
    """What a run did. ``items`` of the whole data set are done, ``rows`` of them have results, ``broken`` have none.

    ``resumed_at``: items that earlier runs had done; ``seconds`` of this one. ``first_broken``: at most 20 of them, all
    are in ``errors`` (a file of JSON lines, "" where there are none).
    """

    items: int = 0
    rows: int = 0
    broken: int = 0
    resumed_at: int = 0
    seconds: float = 0.0
    errors: str = ""
    first_broken: List[Broken] = dataclasses.field(default_factory=list)

    @property
    def items_per_second(self) -> float:
        """Of this run."""
        return (self.items - self.resumed_at) / self.seconds if self.seconds > 0 else 0.0


class _Settings(NamedTuple):
    """What the results depend on."""

    batch: int
    fixed: bool  # whether the model takes this batch only: others are filled up
    specs: Tuple[TensorSpec, ...]  # of inputs that are not constants
    constants: Dict[str, np.ndarray]
    outputs: Tuple[str, ...]
    postprocess: Optional[Callable[[str, Dict[str, np.ndarray]], Mapping[str, Any]]]
    format: str


class _NotBatched(ValueError):
    """The model does not give a row per row that it was given."""


def _error_text(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class _ChunkDone(NamedTuple):
    items: int
    rows: int
    broken: List[Broken]
    files: Files


class _Player:
    """Runs chunks, each thread with a session of its own over the one model."""

    def __init__(self, model: Model, threads: int, settings: _Settings) -> None:
        self._model, self._threads, self._settings = model, threads, settings
        self._own = threading.local()

    def _session(self) -> Session:
        if not hasattr(self._own, "session"):
            self._own.session = self._model.session(threads=self._threads)
        return self._own.session

    def play(self, number: int, items: List[Item], futures: "List[concurrent.futures.Future[Sample]]") -> _ChunkDone:
        """Results and broken inputs of a chunk, as the files that hold them."""
        samples: List[Sample] = []
        broken: List[Broken] = []
        for item, future in zip(items, futures):
            try:
                samples.append(future.result())
            except (concurrent.futures.CancelledError, concurrent.futures.BrokenExecutor, MemoryError):
                raise
            except Exception as error:
                if getattr(error, "errno", None) in _MACHINE_IS_SHORT_OF:
                    raise
                broken.append(Broken(item.index, item.name, _error_text(error)))
        futures.clear()
        buckets: Dict[Any, List[Sample]] = {}
        for sample in samples:
            buckets.setdefault(sample.bucket(), []).append(sample)
        rows: List[Row] = []
        for bucket in buckets.values():
            for batch in _batching.batches(bucket, lambda sample: sample.count, self._settings.batch):
                self._run(batch, rows, broken)
        rows = [row for row in map(functools.partial(self._finish, broken), rows) if row is not None]
        rows.sort(key=lambda row: row.index)
        broken.sort()
        stem = f"part-{number:06}"
        files = FORMATS[self._settings.format].write(stem, rows) if rows else []
        if broken:
            lines = (json.dumps(one._asdict()) + "\n" for one in broken)
            files.append((f"{stem}.{ERRORS}", "".join(lines).encode()))
        return _ChunkDone(len(items), len(rows), broken, files)

    def _finish(self, broken: List[Broken], row: Row) -> Optional[Row]:
        if self._settings.postprocess is None:
            return row
        try:
            outputs = self._settings.postprocess(row.name, row.outputs)
            return Row(row.index, row.name, {name: np.asarray(value) for name, value in outputs.items()})
        except Exception as error:
            broken.append(Broken(row.index, row.name, _error_text(error)))
            return None

    def _run(self, batch: List[Sample], rows: List[Row], broken: List[Broken]) -> None:
        try:
            rows += self._outputs(batch)
        except _NotBatched:
            raise
        except (ValueError, RuntimeError) as error:
            if len(batch) == 1:
                broken.append(Broken(batch[0].index, batch[0].name, _error_text(error)))
                return
            for sample in batch:  # who of them it was
                self._run([sample], rows, broken)

    def _outputs(self, batch: List[Sample]) -> List[Row]:
        settings = self._settings
        alone = len(batch) == 1 and (batch[0].rows < 0 or batch[0].rows == settings.batch or not settings.fixed)
        if alone and batch[0].rows:
            results = self._session().run({**batch[0].arrays, **settings.constants}, settings.outputs)
            return [Row(batch[0].index, batch[0].name, results)]
        counts = [sample.count for sample in batch]
        full = settings.batch if settings.fixed else sum(counts)
        feed = _batching.joined([sample.arrays for sample in batch], batch[0].rows > 0, full)
        results = self._session().run({**feed, **settings.constants}, settings.outputs)
        for name, array in results.items():
            if array.ndim == 0 or array.shape[0] != full:
                raise _NotBatched(
                    f"output '{name}' has the shape {list(array.shape)} for a batch of {full}: the model does not give "
                    "a row per input; give inputs of full rank, and batch=1"
                )
        found = []
        for sample, part in zip(batch, _batching.divided(results, counts)):
            own = {name: (array if sample.rows else array[0]).copy() for name, array in part.items()}
            found.append(Row(sample.index, sample.name, own))
        return found


def _settings(
    model: Model,
    batch: Optional[int],
    constants: Mapping[str, Any],
    outputs: Optional[Sequence[str]],
    postprocess: Any,
    format_name: str,
) -> _Settings:
    if format_name not in FORMATS:
        raise ValueError(f"format: expected one of {', '.join(FORMATS)}, found '{format_name}'")
    for name in constants:
        if name not in model._signature.input_index:
            raise ValueError(f"the model has no input '{name}' (there are: {', '.join(s.name for s in model.inputs)})")
    specs = tuple(spec for spec in model.inputs if spec.name not in constants)
    if not specs:
        raise ValueError("all inputs are constants: there is nothing to run over")
    by_name = {spec.name: spec for spec in model.inputs}
    values = {name: np.asarray(value, by_name[name].dtype) for name, value in constants.items()}
    names = tuple(outputs) if outputs is not None else tuple(spec.name for spec in model.outputs)
    model._signature.wanted_outputs(list(names))
    first = {spec.shape[0] if spec.shape else None for spec in specs}
    gives = {spec.shape[0] if spec.shape else "" for spec in model.outputs if spec.name in names}
    symbol = first.pop() if len(first) == 1 else None
    fixed = isinstance(symbol, int)
    if batch is None:
        batch = int(symbol) if isinstance(symbol, int) else 16 if symbol and gives <= {symbol, None} else 1
    if batch < 1:
        raise ValueError(f"batch: expected at least 1, found {batch}")
    if isinstance(symbol, int) and batch != symbol:
        raise ValueError(f"batch: the model takes {symbol} at once, found {batch}; convert it with an open first axis")
    return _Settings(batch, fixed, specs, values, names, postprocess, format_name)


class _Folder:
    """The output folder with its manifest."""

    def __init__(self, path: str, told: Dict[str, Any], on_disk_full: str, retry_seconds: float) -> None:
        self.path = path
        self._told = told
        self._on_disk_full, self._retry_seconds = on_disk_full, retry_seconds
        self.sleep: Callable[[float], None] = time.sleep
        self.chunks = self.items = self.rows = self.broken = 0
        self.is_complete = False

    def open(self, restart: bool) -> None:
        """Goes on where the manifest says; ValueError if it is of another run, or if there are other files."""
        _files.remove_leftovers(self.path)
        own = [n for n in os.listdir(self.path) if n in (MANIFEST, ERRORS) or n.startswith("part-")]
        if restart:
            # The manifest goes first: without it nothing of the old run counts.
            for name in sorted(own, key=lambda n: n != MANIFEST):
                os.unlink(os.path.join(self.path, name))
            own = []
        try:
            with open(os.path.join(self.path, MANIFEST), encoding="utf-8") as file:
                found = json.load(file)
        except FileNotFoundError:
            if any(name.endswith(tuple(FORMATS)) for name in own) and not self._is_first_chunk(own):
                raise ValueError(
                    f"'{self.path}' has parts and no {MANIFEST}; choose another folder, or restart"
                ) from None
            return
        for name, value in self._told.items():
            if found.get(name) != value:
                raise ValueError(
                    f"'{self.path}' is of a run with another {name} ({found.get(name)}, now {value}); choose another "
                    "folder, or restart"
                )
        self.chunks, self.items, self.rows, self.broken = (found[n] for n in ("chunks", "items", "rows", "broken"))
        self.is_complete = found["complete"]

    @staticmethod
    def _is_first_chunk(own: Iterable[str]) -> bool:
        """Killed before the first manifest."""
        return all(name.startswith("part-000000.") for name in own)

    def write(self, name: str, data: bytes, progress: Progress, sync_name: bool = True) -> None:
        """Writes a file; where the disk is full, waits for room or raises DiskFull."""
        path = os.path.join(self.path, name)
        while True:
            try:
                _files.write_durably(path, data, sync_name)
                return
            except OSError as error:
                if error.errno not in _DISK_IS_FULL:
                    raise
                text = f"the disk is full: '{path}' ({len(data):,} bytes) is not written"
                if self._on_disk_full == "stop":
                    raise DiskFull(
                        error.errno, f"{text}; free some space and give the same command again, which goes on"
                    ) from None
                progress.say(
                    f"{text}; free some space: tried again every {self._retry_seconds:g} s (Ctrl-C stops, the same "
                    "command goes on later)"
                )
                self.sleep(self._retry_seconds)

    def commit(self, done: _ChunkDone, progress: Progress) -> None:
        """A chunk counts from here on."""
        for name, data in done.files:
            self.write(name, data, progress, sync_name=False)
        _files.sync_folder(self.path)
        self.chunks += 1
        self.items += done.items
        self.rows += done.rows
        self.broken += len(done.broken)
        self._write_manifest(progress)

    def _write_manifest(self, progress: Progress) -> None:
        counts = {name: getattr(self, name) for name in ("chunks", "items", "rows", "broken")}
        told = {**self._told, **counts, "complete": self.is_complete}
        self.write(MANIFEST, (json.dumps(told, indent=1) + "\n").encode(), progress)

    def complete(self, progress: Progress) -> None:
        """All is done: broken inputs are listed in one file."""
        parts = sorted(name for name in os.listdir(self.path) if name.endswith(f".{ERRORS}"))
        if not self.is_complete:
            if self.broken:
                self.write(ERRORS, b"".join(self._read(name) for name in parts), progress)
            self.is_complete = True
            self._write_manifest(progress)
        for name in parts:
            os.unlink(os.path.join(self.path, name))

    def _read(self, name: str) -> bytes:
        with open(os.path.join(self.path, name), "rb") as file:
            return file.read()

    def first_broken(self) -> List[Broken]:
        """At most 20 of them."""
        if not self.broken:
            return []
        with open(os.path.join(self.path, ERRORS), encoding="utf-8") as file:
            return [Broken(**json.loads(line)) for line in itertools.islice(file, 20)]


def run(
    model: Any,
    inputs: Any,
    output: "str | os.PathLike[str]",
    *,
    format: str = "npz",
    batch: Optional[int] = None,
    chunk: Optional[int] = None,
    sessions: Optional[int] = None,
    threads: int = 1,
    preprocess: Optional[Callable[[Any], Any]] = None,
    postprocess: Optional[Callable[[str, Dict[str, np.ndarray]], Mapping[str, Any]]] = None,
    workers: int = 2,
    processes: bool = False,
    constants: Optional[Mapping[str, Any]] = None,
    outputs: Optional[Sequence[str]] = None,
    max_broken: Optional[int] = None,
    on_disk_full: str = "stop",
    retry_seconds: float = 10.0,
    restart: bool = False,
    progress: Any = None,
    build: Optional[Mapping[str, Any]] = None,
    entry: Optional[str] = None,
) -> Report:
    """Runs a model over a data set; what was done is not done again when the same call is made later.

    ``model``: path or bytes of an aipu.bin or an ONNX model, a ModelProto, or an :class:`aipu.Model`. An ONNX model is
    converted (``build``: options of :func:`aipu.build`) and the conversion kept, as by :class:`aipu.InferenceSession`.
    ``entry``: of an aipu.bin with several models the one to run.

    ``inputs``: a folder (all its files, by name), a ``.txt`` with a path per line (``"-"``: standard input), an
    ``.npz`` with an array per input or an ``.npy``, a row per item; Parquet or Arrow files, a folder of them, or a
    ``pyarrow.Table``, with a column per input; a mapping of arrays, a row per item; or any iterable of arrays, mappings
    and paths. An item has the shape of the model's inputs without the first axis; or that shape with it, and then is so
    many rows of a batch, or where the model has no batch a run of its own. ``constants``: inputs that are the same
    for all items.

    ``preprocess(value)`` makes an array, or a mapping of arrays by input's name, of a path, of a table's row as a
    mapping, or of what the iterable gave; in ``workers`` threads, or with ``processes`` in processes, for which it must
    be importable. ``postprocess(name, outputs)`` makes a mapping of what is written.

    Items of one shape are run in batches of ``batch`` (default 16 where the model has a first axis that is open) by
    ``sessions`` sessions (default: as many as CPUs for ``threads`` threads each) over one mapped model. ``chunk`` items
    (default eight batches) are written and committed together; at most two chunks more than sessions are in memory.

    ``output`` gets, for each chunk, ``part-NNNNNN`` in a ``format``: ``"npz"``, ``"npy"``, ``"jsonl"`` or ``"parquet"``
    (:func:`results` reads them), and ``manifest.json``. The bytes are the same whether the run was killed in between,
    and how often. An input that cannot be loaded or run is broken: it is left out, counted, and listed in
    ``errors.jsonl``; more than ``max_broken`` of them end the run with :class:`TooManyBroken`. ``on_disk_full``:
    ``"stop"`` raises :class:`DiskFull`, ``"wait"`` tries again every ``retry_seconds`` seconds; both go on where they
    were. ``restart`` forgets what is done. ``progress``: a stream to show it on, True for the standard error.

    ValueError for options that do not fit the model or the folder, BlockingIOError if another process writes to it.
    """
    if on_disk_full not in ("stop", "wait"):
        raise ValueError(f"on_disk_full: expected 'stop' or 'wait', found '{on_disk_full}'")
    began = time.monotonic()
    loaded, identity = _load(model, build, entry)
    settings = _settings(loaded, batch, constants or {}, outputs, postprocess, format)
    source = source_of(inputs, [spec.name for spec in settings.specs], preprocess is not None)
    if sessions is None:
        sessions = max(1, _native.available_cpus() // max(1, threads))
    if sessions < 1 or workers < 1 or threads < 0:
        raise ValueError(
            f"sessions ({sessions}) and workers ({workers}) are at least 1, threads ({threads}) at least 0"
        )
    chunk = chunk if chunk is not None else 8 * settings.batch
    if chunk < 1:
        raise ValueError(f"chunk: expected at least 1, found {chunk}")
    told = {
        "version": _VERSION,
        "model": identity,
        "inputs": source.identity(),
        "format": format,
        "batch": settings.batch,
        "chunk": chunk,
        "outputs": list(settings.outputs),
        "constants": {name: np.asarray(value).tolist() for name, value in settings.constants.items()},
        "preprocess": _name_of(preprocess),
        "postprocess": _name_of(postprocess),
    }
    path = os.fspath(output)
    os.makedirs(path, exist_ok=True)
    with _written_alone(path):
        folder = _Folder(path, json.loads(json.dumps(told)), on_disk_full, retry_seconds)
        folder.open(restart)
        report = Report(resumed_at=folder.items)
        stream = sys.stderr if progress is True else progress or None
        with Progress(stream, source.count, folder.items) as shown:
            if not folder.is_complete:
                pool = _pool(workers, processes)
                player = _Player(loaded, threads, settings)
                prepared = functools.partial(
                    prepare,
                    preprocess=preprocess,
                    specs=settings.specs,
                    is_table=source.is_table and preprocess is None,
                )
                _play_all(source, folder, player, pool, prepared, sessions, chunk, max_broken, shown)
            folder.complete(shown)
            shown.update(folder.items, folder.broken, last=True)
    report.items, report.rows, report.broken = folder.items, folder.rows, folder.broken
    report.first_broken = folder.first_broken()
    report.errors = os.path.join(path, ERRORS) if report.broken else ""
    report.seconds = time.monotonic() - began
    return report


@contextlib.contextmanager
def _written_alone(path: str) -> Iterator[None]:
    """While no other process may write to the folder; BlockingIOError if one does."""
    lock = contextlib.ExitStack()
    try:
        lock.enter_context(_files.locked(os.path.join(path, LOCK), wait=False))
    except BlockingIOError:
        raise BlockingIOError(f"another process is writing to '{path}'") from None
    with lock:
        yield


def _name_of(function: Any) -> Optional[str]:
    if function is None:
        return None
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '')}.{name}"


def _load(model: Any, build: Optional[Mapping[str, Any]], entry: Optional[str]) -> Tuple[Model, str]:
    """The model, and what tells it from others."""
    if isinstance(model, Model):
        model = model if entry is None else model.open(entry)
        return model, repr(model)
    source = _model_source.Source(model)
    loaded, path = _converted.load_converted(source, build, load={"entry": entry} if entry else None)
    identity = (_model_source.file_hash(path) if path else source.digest()).hex()
    return loaded, f"{identity} {entry}" if entry else identity


def _pool(workers: int, processes: bool) -> concurrent.futures.Executor:
    if processes:
        return concurrent.futures.ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    return concurrent.futures.ThreadPoolExecutor(workers, "aipu_preprocess")


def _play_all(
    source: Source,
    folder: _Folder,
    player: _Player,
    pool: concurrent.futures.Executor,
    prepared: Callable[[Item], Sample],
    sessions: int,
    chunk: int,
    max_broken: Optional[int],
    progress: Progress,
) -> None:
    """Plays all chunks from the folder's on; raises what ends the run."""
    sessions_pool = concurrent.futures.ThreadPoolExecutor(sessions, "aipu_batch")
    in_flight: "Deque[concurrent.futures.Future[_ChunkDone]]" = collections.deque()

    def commit() -> None:
        folder.commit(in_flight.popleft().result(), progress)
        progress.update(folder.items, folder.broken)
        if max_broken is not None and folder.broken > max_broken:
            raise TooManyBroken(f"{folder.broken} of {folder.items} inputs are broken, more than {max_broken}")

    try:
        items = source.items(folder.items)
        for number in itertools.count(folder.chunks):
            part = list(itertools.islice(items, chunk))
            if not part:
                break
            futures = [pool.submit(prepared, item) for item in part]
            in_flight.append(sessions_pool.submit(player.play, number, part, futures))
            # One is committed while each session has one, and one waits.
            while len(in_flight) > sessions + 1:
                commit()
        while in_flight:
            commit()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        sessions_pool.shutdown(wait=True, cancel_futures=True)


def results(output: "str | os.PathLike[str]") -> Iterator[Row]:
    """The results in a folder, in the order of the inputs: rows with ``index``, ``name`` and ``outputs`` (by name).

    Reads what is committed, also while a run is going on or after it was killed. Part after part is read, one at a time
    is in memory. FileNotFoundError if it is no such folder, ValueError if parts are missing. JSON lines have lost
    dtypes: numbers come back as float64 and int64.
    """
    path = os.fspath(output)
    with open(os.path.join(path, MANIFEST), encoding="utf-8") as file:
        told = json.load(file)
    found = 0
    for number in range(told["chunks"]):
        try:
            for row in FORMATS[told["format"]].read(path, f"part-{number:06}"):
                found += 1
                yield row
        except FileNotFoundError:
            continue  # of a chunk in which all are broken; counted below
    if found != told["rows"]:
        raise ValueError(f"'{path}': {found} of {told['rows']} results are there")
