"""A model measured in a scenario: what is in the JSON file, what compare, history, sweeps and pages read."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .. import _converted, _model_source, _native
from ..model import Model
from ._data import Image, data_of, load_all
from ._inputs import make_inputs
from ._machine import Memory, Quiet
from ._measure import Measured, joined, measure, warm_up
from ._play import RealPlayer
from ._runner import Samples, counts_rows, runners, samples_of
from ._scenario import SCENARIOS, Setting, find_peak
from ._scheduler import Batch
from ._statistics import Histogram
from ._turns import Spread, bootstrap

PERCENTILES = (50, 90, 99, 99.9)
_NO_ROWS = "--batch {}: the model has no axis of samples that all inputs and outputs share"


@dataclasses.dataclass
class Layers:
    """Where the time of a run goes: a row per command (engine, kernel, nodes, median_us, operations, bytes, ...);
    what the machine can do, measured in the same process (fp32 operations and bytes from memory, per second); the
    cycles of a run on the NPU, of each of its engines and in all ("total"), where there is a model of it: rows are in
    cycles then (cycles, compute_cycles, dma_cycles, bound), as the time of this machine says nothing.
    """

    rows: List[Dict[str, Any]]
    peak_operations: float
    peak_bytes: float
    cycles: Dict[str, int]


@dataclasses.dataclass
class Benchmark:
    """What was measured. ``figure`` is the scenario's one number in ``unit``, with its 95 % interval: over the
    repetitions, or with several process runs over the processes (of a peak rate: the rates that its search ended
    between). ``processes`` has the figures of each repetition of each process. Latencies in milliseconds, from when a
    query was due; None is one that was never answered.
    """

    model: str
    hash: str
    target: str
    backend: str
    scenario: str
    inputs: List[Tuple[str, str, List[int]]]
    data: str
    sessions: int
    threads: int
    batch: int
    delay_ms: float
    rate: float
    percentile: float
    bound_ms: Optional[float]
    seconds: float
    seed: int
    unit: str
    higher_is_better: bool
    figure: List[Optional[float]]
    samples_per_second: List[Optional[float]]
    latency_ms: Dict[str, Optional[float]]
    queries: int
    samples: int
    unfinished: int
    keeps_bound: Optional[bool]
    peak: Optional[List[List[Any]]]  # rate, latency in seconds, kept, of each step of --find-peak
    warm_up: Dict[str, Any]
    load_ms: float
    first_run_ms: float
    memory: Dict[str, Any]
    histogram: Dict[str, Any]
    processes: List[List[Optional[float]]]
    notes: List[str] = dataclasses.field(default_factory=list)
    layers: Optional[Layers] = None

    @property
    def interval(self) -> str:
        """What the figure's interval is."""
        return "95 % interval" if self.peak is None else "highest rate kept .. lowest rate not kept"

    def identity(self) -> Tuple[Any, ...]:
        """Measurements of the same thing have it in common."""
        name = os.path.basename(self.model)
        inputs = tuple((name, dtype, tuple(shape)) for name, dtype, shape in self.inputs)
        how = (self.sessions, self.threads, self.batch, self.delay_ms, self.rate, self.percentile, self.bound_ms)
        return (name, self.scenario, self.unit, self.data, inputs, self.target.partition("-")[0], *how)

    @property
    def title(self) -> str:
        """What was measured, in a line."""
        name = os.path.basename(self.model)
        how = f"{_count(self.sessions, 'session')} of {_count(self.threads, 'thread')}"
        return f"{name}: {self.scenario}, batch {self.batch}, {how}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _finite(values: Sequence[float]) -> List[Optional[float]]:
    """JSON has no infinity."""
    return [float(value) if math.isfinite(value) else None for value in values]


class Bench:
    """A model with its samples and sessions, made ready to be measured; times of getting there in milliseconds."""

    def __init__(
        self,
        model: Any,
        *,
        batch: Optional[int] = None,
        sessions: int = 1,
        threads: int = 1,
        shapes: Optional[Mapping[str, Sequence[int]]] = None,
        ranges: Optional[Mapping[str, Tuple[float, float]]] = None,
        data: Optional[str] = None,
        image: Optional[Image] = None,
        raw: bool = False,
        most_samples: int = 256,
        seed: int = 7,
        build: Optional[Mapping[str, Any]] = None,
        backend: Optional[str] = None,
        entry: Optional[str] = None,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if sessions < 1 or threads < 0 or (batch is not None and batch < 1):
            raise ValueError(
                f"sessions ({sessions}) and batch ({batch}) are at least 1, threads ({threads}) at least 0"
            )
        self.memory = Memory()
        begin = clock()
        source = _model_source.Source(model)
        load = {name: value for name, value in (("backend", backend), ("entry", entry)) if value}
        loaded: Model = _converted.load_converted(source, build, load=load)[0]
        self.load_ms = 1e3 * (clock() - begin)
        self.model, self.threads = loaded, threads or _native.available_cpus()
        self.path, self.hash = source.path or loaded.name, source.digest().hex()
        self.notes: List[str] = []
        if sessions * self.threads > _native.available_cpus():
            cpus = _native.available_cpus()
            self.notes.append(f"{sessions} x {self.threads} threads share {cpus} CPUs: sessions wait for each other")
        self.data = data or "random"
        if data is not None:
            items = load_all(data_of(data, loaded.inputs, (), shapes, image, raw), loaded.inputs, most_samples)
            own = [spec.shape[0] if spec.shape else 1 for spec in loaded.inputs][:1]
            fixed = own[0] if own and isinstance(own[0], int) and counts_rows(loaded) else 0
            self.batch = batch or fixed or 1
            if self.batch > 1 and not counts_rows(loaded):
                raise ValueError(_NO_ROWS.format(self.batch))
            self.samples = samples_of(items, self.batch)
        else:
            feed, self.batch = _random_feed(loaded, batch, shapes, ranges, seed)
            self.samples = Samples([feed], self.batch, is_random=True)
        if not counts_rows(loaded):
            self.notes.append("the model has no axis of samples: a run counts as one")
        self._runners = runners(loaded, self.samples, sessions, self.threads)
        self.player = RealPlayer(self._runners, clock, sleep)
        try:
            begin = clock()
            self._runners[0](Batch(0, (0.0,), self.batch))
        except BaseException:
            self.close()
            raise
        self.first_run_ms = 1e3 * (clock() - begin)

    @property
    def arena_bytes(self) -> int:
        """Memory for activations of all sessions."""
        return sum(one.session.arena_bytes for one in self._runners)

    def close(self) -> None:
        """Ends the sessions."""
        for one in self._runners:
            one.close()

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def measure(self, setting: Setting, **options: Any) -> Benchmark:
        """Measures in the setting (with this batch); options are those of :func:`_measure.measure`."""
        setting = dataclasses.replace(setting, batch=self.batch)
        quiet = Quiet()
        measured = measure(self.player, setting, after_each=lambda _: self.memory.look(), **options)
        return self._told(measured, [*self.notes, *measured.notes, *quiet.notes()])

    def find_peak(self, setting: Setting, precision: float = 0.02, **options: Any) -> Benchmark:
        """The highest rate that keeps the bound, and the measurement at that rate."""
        setting = dataclasses.replace(setting, batch=self.batch, scenario="server")
        warm = warm_up(self.player, setting)
        peak = find_peak(self.player, dataclasses.replace(setting, grace=3 * warm.run_seconds), precision)
        told = self.measure(dataclasses.replace(setting, rate=peak.rate), precision=precision, **options)
        # What is found is a rate; how sure that is, the search says: its neighbours did not keep the bound.
        above = min((step.rate for step in peak.steps if not step.kept and step.rate > peak.rate), default=peak.rate)
        told.unit, told.higher_is_better = "queries/s", True
        told.figure, told.processes = [peak.rate, peak.rate, above], [[peak.rate]]
        told.rate = 0.0
        told.peak = [[step.rate, *_finite([step.latency]), step.kept] for step in peak.steps]
        return told

    def layers(self, seconds: float = 0.5, clock: Callable[[], float] = time.perf_counter) -> Layers:
        """Where the time of a run goes, in a session that keeps a profile."""
        feed = self.samples.feed((0, self.batch))
        peaks = _native.machine_peak(self.threads)
        rows, cycles = self._cycles(feed)
        if cycles:
            return Layers(rows, *peaks, cycles)
        session = self.model.session(threads=self.threads, profile=True)
        try:
            end = clock() + seconds
            session.run(feed)
            while clock() < end:
                session.run(feed)
            rows = session.layers()
        finally:
            session.close()
        return Layers(rows, *peaks, {})

    def _cycles(self, feed: Mapping[str, np.ndarray]) -> Tuple[List[Dict[str, Any]], Dict[str, int]]:
        """Rows in cycles, and the cycles by engine and in all; nothing where nobody counts cycles."""
        session = self.model.session(threads=self.threads, profile=True, cycles=True)
        try:
            session.run(feed)
            if session.cycles is None:
                return [], {}
            found: Dict[str, int] = {}
            for row in session.profile():
                if row.cycles is not None:
                    found[row.engine] = found.get(row.engine, 0) + row.cycles
            return session.layers(), {**found, "total": session.cycles}
        finally:
            session.close()

    def _told(self, measured: Measured, notes: List[str]) -> Benchmark:
        setting, all_ = measured.setting, joined(measured.trials)
        scenario = SCENARIOS[setting.scenario]
        histogram = Histogram()
        histogram.add(all_.latencies, all_.unfinished)
        latencies = {f"p{p:g}": 1e3 * all_.latency(p) for p in PERCENTILES}
        latencies["mean"] = 1e3 * float(all_.latencies.mean()) if not all_.unfinished else math.inf
        latencies["min"] = 1e3 * float(all_.latencies.min()) if len(all_.latencies) else math.inf
        latencies["max"] = 1e3 * all_.latency(100)
        warm = measured.warm
        memory = {"points": self.memory.points, "peak_bytes": Memory.peak(), "arena_bytes": self.arena_bytes}
        return Benchmark(
            model=self.path,
            hash=self.hash,
            target=self.model.target,
            backend=self.model.backend,
            scenario=setting.scenario,
            inputs=self.samples.shapes,
            data=self.data,
            sessions=self.player.sessions,
            threads=self.threads,
            batch=setting.batch,
            delay_ms=1e3 * setting.delay,
            rate=setting.rate,
            percentile=setting.tail,
            bound_ms=1e3 * setting.bound if setting.bound is not None else None,
            seconds=setting.seconds,
            seed=setting.seed,
            unit=scenario.unit,
            higher_is_better=scenario.higher_is_better,
            figure=_finite(measured.figure),
            samples_per_second=_finite(measured.throughput),
            latency_ms=dict(zip(latencies, _finite(list(latencies.values())))),
            queries=len(all_.latencies) + all_.unfinished,
            samples=all_.samples,
            unfinished=all_.unfinished,
            keeps_bound=measured.keeps_bound,
            peak=None,
            warm_up={"runs": warm.runs, "seconds": warm.seconds, "is_steady": warm.is_steady},
            load_ms=self.load_ms,
            first_run_ms=self.first_run_ms,
            memory=memory,
            histogram=histogram.told(),
            processes=[_finite(measured.values)],
            notes=notes,
        )


def _random_feed(
    model: Model,
    batch: Optional[int],
    shapes: Optional[Mapping[str, Sequence[int]]],
    ranges: Optional[Mapping[str, Tuple[float, float]]],
    seed: int,
) -> Tuple[Dict[str, np.ndarray], int]:
    """Random inputs for a run, and how many samples it is of. ``batch`` is the first extent where that is open."""
    given = {name: list(shape) for name, shape in (shapes or {}).items()}
    if batch is not None and counts_rows(model):
        for spec in model.inputs:
            shape = given.setdefault(spec.name, list(spec.shape))
            if shape and shape[0] not in (1, batch) and isinstance(shape[0], int):
                raise ValueError(f"--batch {batch}: input '{spec.name}' has the shape {shape}")
            if isinstance(spec.shape[0], int) and spec.shape[0] != batch:
                raise ValueError(
                    f"--batch {batch}: the model takes {spec.shape[0]} at once; convert it with an open axis"
                )
            shape[0] = batch
    elif batch not in (None, 1):
        raise ValueError(_NO_ROWS.format(batch))
    feed = make_inputs(model.inputs, given, ranges, None, seed)
    rows = {array.shape[0] for array in feed.values()} if counts_rows(model) and feed else {1}
    if len(rows) != 1:
        raise ValueError(f"inputs of {' and '.join(map(str, sorted(rows)))} samples: give them one --batch")
    return feed, rows.pop()


def benchmark(
    model: Any,
    scenario: str = "single-stream",
    *,
    setting: Optional[Setting] = None,
    find: bool = False,
    precision: float = 0.02,
    fewest: int = 5,
    most: int = 30,
    layers: bool = False,
    **options: Any,
) -> Benchmark:
    """Measures a model in a scenario of MLPerf's: ``"single-stream"``, ``"multi-stream"``, ``"offline"``, ``"server"``.

    ``model``: path or bytes of an ONNX model or an aipu.bin, or a ModelProto. ``setting``: seconds of a repetition,
    rate, delay, latency bound, percentile and seed (:class:`Setting`). ``find``: the highest rate of the server
    scenario that keeps the bound. Repetitions: until the 95 % interval is as tight as ``precision``, at least
    ``fewest``, at most ``most``. ``layers``: also where the time goes. Other ``options`` are those of :class:`Bench`:
    batch, sessions, threads, shapes, ranges, data, image, ...

    ValueError for what does not fit, with what to type.
    """
    setting = dataclasses.replace(setting or Setting(), scenario=scenario)
    check(setting, find)
    with Bench(model, **options) as bench:
        run = bench.find_peak if find else bench.measure
        result = run(setting, precision=precision, fewest=fewest, most=most)
        if layers:
            result.layers = bench.layers()
        return result


def check(setting: Setting, find: bool = False) -> None:
    """ValueError for settings that say nothing or contradict each other."""
    if setting.scenario not in SCENARIOS:
        raise ValueError(f"'{setting.scenario}' is no scenario (there are: {', '.join(SCENARIOS)})")
    is_server = setting.scenario == "server"
    if find and setting.bound is None:
        raise ValueError("--find-peak needs the latency to keep: --latency 10ms")
    if is_server and not find and setting.rate <= 0:
        raise ValueError("the server scenario needs --rate QUERIES_PER_SECOND, or --find-peak with --latency")
    if is_server and find and setting.rate > 0:
        raise ValueError("--find-peak looks for the rate: --rate does not fit")
    if not is_server and (setting.rate or setting.delay or find):
        raise ValueError("--rate, --delay and --find-peak are of --scenario server")
    if not 0 <= setting.percentile <= 100 or not setting.seconds > 0 or setting.delay < 0:
        raise ValueError("a percentile is from 0 to 100, seconds are above 0, a delay is not negative")


def of_told(told: Mapping[str, Any]) -> Benchmark:
    """A result of a JSON file; ValueError if it is none."""
    names = {field.name for field in dataclasses.fields(Benchmark)}
    missing = [name for name in names if name not in told]
    if missing:
        raise ValueError(f"no result of a scenario: it has no {', '.join(sorted(missing)[:3])}")
    result = Benchmark(**{name: value for name, value in told.items() if name in names})
    if result.layers is not None:
        result.layers = Layers(**result.layers)  # type: ignore[arg-type]
    return result


def process_medians(result: Benchmark) -> List[float]:
    """The median figure of each process run; inf of one that was overloaded."""
    return [float(np.median([math.inf if value is None else value for value in values])) for values in result.processes]


def join_processes(results: Sequence[Benchmark]) -> Benchmark:
    """The same measurement made by several processes as one: the interval is over the processes' medians, percentiles
    are those of all histograms together.
    """
    first = dataclasses.replace(results[0])
    histogram = Histogram()
    for result in results:
        histogram.join(Histogram.of(result.histogram))
    first.processes = [values for result in results for values in result.processes]
    medians = process_medians(first)
    if all(map(math.isfinite, medians)):
        first.figure = list(bootstrap(medians))
    else:
        first.figure = _finite(Spread(float(np.median(medians)), float(np.median(medians)), math.inf))
    rates = [result.samples_per_second[0] or 0.0 for result in results]
    first.samples_per_second = list(bootstrap(rates))
    first.latency_ms = dict(first.latency_ms)
    for p in PERCENTILES:
        (first.latency_ms[f"p{p:g}"],) = _finite([1e3 * histogram.percentile(p)])
    for name, choose in (("min", min), ("max", max)):
        values = [math.inf if one is None else one for one in (result.latency_ms[name] for result in results)]
        (first.latency_ms[name],) = _finite([choose(values)])
    means = [result.latency_ms["mean"] for result in results]
    first.latency_ms["mean"] = None if None in means else float(np.mean(means))  # type: ignore[arg-type]
    first.histogram = histogram.told()
    for name in ("queries", "samples", "unfinished"):
        setattr(first, name, sum(getattr(result, name) for result in results))
    kept = [result.keeps_bound for result in results]
    first.keeps_bound = None if None in kept else all(kept)
    first.notes = _joined_notes([result.notes for result in results])
    return first


def _joined_notes(notes: Sequence[Sequence[str]]) -> List[str]:
    """Notes that differ in their numbers only are told once, and of how many processes they are."""
    kinds: Dict[str, List[str]] = {}
    for one in notes:
        for note in one:
            kinds.setdefault(re.sub(r"[\d.,]+", "#", note), []).append(note)
    return [
        same[0] if len(notes) == 1 else f"{same[0]} ({len(same)} of {len(notes)} processes)" for same in kinds.values()
    ]
