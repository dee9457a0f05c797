"""MLPerf's LoadGen drives a model: a system under test for the package ``mlcommons-loadgen``::

    result = aipu.loadgen.run("model.onnx", "images.npz", "server", "logs", rate=100, latency=0.05)
    print(result.is_valid, result.summary["99.00 percentile latency (ns)"])

The same as a program::

    python -m aipu.loadgen model.onnx images.npz --scenario server --rate 100 --latency 50ms -o logs

LoadGen makes the queries, takes the times and says whether they are valid; this module runs the model.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import os
import queue
import sys
import threading
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import _converted
from ._arguments import print_lines, run_program
from .batch._sources import Rows
from .bench import _options
from .bench._data import Data, Image, data_of, load_all
from .bench._runner import counts_rows
from .model import Model, Session

SUMMARY, ACCURACY = "mlperf_log_summary.txt", "mlperf_log_accuracy.json"


def _loadgen() -> Any:
    try:
        import mlperf_loadgen
    except ImportError as error:
        raise ImportError("LoadGen is the package mlcommons-loadgen: pip install 'aipu[loadgen]'") from error
    return mlperf_loadgen


class _Scenario(NamedTuple):
    name: str  # LoadGen's
    prefix: str  # of its settings
    is_asynchronous: bool  # whether queries come while others run


_SCENARIOS = {
    "single-stream": _Scenario("SingleStream", "single_stream", False),
    "multi-stream": _Scenario("MultiStream", "multi_stream", False),
    "offline": _Scenario("Offline", "offline", True),
    "server": _Scenario("Server", "server", True),
}


class SystemUnderTest:
    """Runs the samples that LoadGen asks for, up to ``batch`` together, in ``sessions`` sessions of ``threads``.

    ``feeds``: the inputs of each sample, with all axes. With ``keeps_outputs`` (accuracy) the outputs are given to
    LoadGen, each as an .npy, one after the other. An error of a run is kept in ``error``: LoadGen gets answers without
    data, so that it ends.
    """

    def __init__(
        self,
        model: Model,
        feeds: Sequence[Mapping[str, np.ndarray]],
        batch: int = 1,
        sessions: int = 1,
        threads: int = 1,
        in_background: bool = False,
        keeps_outputs: bool = False,
    ) -> None:
        if batch > 1 and not counts_rows(model):
            raise ValueError(f"batch {batch}: the model has no axis of samples that all inputs and outputs share")
        if batch < 1 or sessions < 1:
            raise ValueError(f"batch ({batch}) and sessions ({sessions}) are at least 1")
        self._feeds, self._batch, self._keeps = feeds, batch, keeps_outputs
        self._loadgen = _loadgen()
        self._sessions = [model.session(threads=threads) for _ in range(sessions)]
        self._waiting: "queue.Queue[Optional[Tuple[int, int]]]" = queue.Queue()
        self._workers: List[threading.Thread] = []
        self.error: Optional[Exception] = None
        for session in self._sessions if in_background or sessions > 1 else []:
            self._workers.append(threading.Thread(target=self._work, args=(session,), daemon=True))
            self._workers[-1].start()

    def issue(self, samples: Sequence[Any]) -> None:
        """LoadGen's call: samples have an ``id`` and an ``index``."""
        pairs = [(sample.id, sample.index) for sample in samples]
        if self._workers:
            for pair in pairs:
                self._waiting.put(pair)
            return
        for first in range(0, len(pairs), self._batch):
            self._answer(self._sessions[0], pairs[first : first + self._batch])

    def flush(self) -> None:
        """LoadGen's call when no query comes any more: nothing is held back here."""

    def close(self) -> None:
        """Ends the sessions; all queries have to be answered."""
        for _ in self._workers:
            self._waiting.put(None)
        for worker in self._workers:
            worker.join()
        for session in self._sessions:
            session.close()

    def _work(self, session: Session) -> None:
        while True:
            pair = self._waiting.get()
            if pair is None:
                return
            pairs = [pair]
            while len(pairs) < self._batch:
                try:
                    more = self._waiting.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    self._waiting.put(None)
                    break
                pairs.append(more)
            self._answer(session, pairs)

    def _answer(self, session: Session, pairs: Sequence[Tuple[int, int]]) -> None:
        data: List[np.ndarray] = [np.zeros(0, np.uint8)] * len(pairs)
        if self.error is None:
            try:
                data = self._run(session, [index for _, index in pairs])
            except Exception as error:
                self.error = error
        response = self._loadgen.QuerySampleResponse
        self._loadgen.QuerySamplesComplete(
            [response(id_, array.ctypes.data, array.nbytes) for (id_, _), array in zip(pairs, data)]
        )

    def _run(self, session: Session, indices: Sequence[int]) -> List[np.ndarray]:
        """The bytes of the answers; they live until LoadGen has them."""
        feeds = [self._feeds[index] for index in indices]
        feed = feeds[0]
        if len(feeds) > 1:
            feed = {name: np.concatenate([one[name] for one in feeds]) for name in feeds[0]}
        outputs = session.run(feed)
        if not self._keeps:
            first = next(iter(outputs.values()))
            return [first if len(feeds) == 1 else first[place] for place in range(len(feeds))]
        answers = []
        for place in range(len(feeds)):
            buffer = io.BytesIO()
            for array in outputs.values():
                row = array if len(feeds) == 1 else array[place : place + 1]
                np.lib.format.write_array(buffer, np.asarray(row, order="C"), allow_pickle=False)
            answers.append(np.frombuffer(buffer.getvalue(), np.uint8))
        return answers


@dataclasses.dataclass
class Result:
    """What LoadGen says: its logs are in ``folder``; ``summary`` has the lines of its summary by name."""

    folder: str
    scenario: str
    is_valid: bool
    summary: Dict[str, str]


def read_summary(folder: str) -> Dict[str, str]:
    """LoadGen's summary by name; OSError."""
    found: Dict[str, str] = {}
    with open(os.path.join(folder, SUMMARY), encoding="utf-8") as file:
        for line in file:
            name, colon, value = line.partition(":")
            if colon:
                found.setdefault(name.strip(), value.strip())
    return found


def read_accuracy(folder: str, model: Model) -> Dict[int, Dict[str, np.ndarray]]:
    """The outputs in LoadGen's accuracy log by the sample's place in the data set; OSError, ValueError."""
    with open(os.path.join(folder, ACCURACY), encoding="utf-8") as file:
        rows = json.load(file)
    found: Dict[int, Dict[str, np.ndarray]] = {}
    for row in rows:
        buffer = io.BytesIO(bytes.fromhex(row["data"]))
        outputs = {spec.name: np.lib.format.read_array(buffer, allow_pickle=False) for spec in model.outputs}
        found[int(row["qsl_idx"])] = outputs
    return found


def _settings(scenario: _Scenario, accuracy: bool, options: Mapping[str, Any]) -> Any:
    loadgen = _loadgen()
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, scenario.name)
    settings.mode = loadgen.TestMode.AccuracyOnly if accuracy else loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = max(1, int(1e3 * options["seconds"]))
    settings.min_query_count = options["queries"]
    seed = options["seed"]
    settings.qsl_rng_seed, settings.sample_index_rng_seed, settings.schedule_rng_seed = seed, seed + 1, seed + 2
    for name, value in options["more"].items():
        if not hasattr(settings, name):
            raise ValueError(f"LoadGen has no setting '{name}'")
        setattr(settings, name, value)
    return settings


def _scenario_settings(scenario: str, rate: float, latency: Optional[float], alone: float) -> Dict[str, Any]:
    """What LoadGen wants to know of each; ``alone``: seconds of a run, measured."""
    if scenario == "server":
        if rate <= 0 or latency is None:
            raise ValueError("the server scenario needs --rate and --latency")
        return {"server_target_qps": rate, "server_target_latency_ns": int(1e9 * latency)}
    if rate and scenario != "offline":
        raise ValueError("--rate is of the scenarios server and offline")
    if latency is not None:
        raise ValueError("--latency is of the server scenario")
    if scenario == "offline":
        return {"offline_expected_qps": rate}
    return {f"{_SCENARIOS[scenario].prefix}_expected_latency_ns": max(1, int(1e9 * alone))}


def _feeds(model: Model, inputs: Any, image: Optional[Image], raw: bool, most: int) -> List[Dict[str, np.ndarray]]:
    if isinstance(inputs, Mapping):
        data = Data(Rows({name: np.asarray(array) for name, array in inputs.items()}), None, [])
    else:
        data = data_of(os.fspath(inputs), model.inputs, (), None, image, raw)
    samples = load_all(data, model.inputs, most)
    feeds = [s.arrays if s.rows else {name: array[None] for name, array in s.arrays.items()} for s in samples]
    return feeds


def _measured(model: Model, feeds: Sequence[Mapping[str, np.ndarray]], batch: int, threads: int) -> float:
    """Seconds of a run of ``batch`` samples: the median of some."""
    import time

    session = model.session(threads=threads)
    try:
        some = [feeds[place % len(feeds)] for place in range(batch)]
        feed = {name: np.concatenate([one[name] for one in some]) for name in some[0]} if batch > 1 else some[0]
        times = []
        end = time.perf_counter() + 0.3
        while len(times) < 5 or (time.perf_counter() < end and len(times) < 1000):
            begin = time.perf_counter()
            session.run(feed)
            times.append(time.perf_counter() - begin)
        return float(np.median(times[len(times) // 3 :]))
    finally:
        session.close()


def run(
    model: Any,
    inputs: Any,
    scenario: str,
    folder: "str | os.PathLike[str]",
    *,
    accuracy: bool = False,
    rate: float = 0.0,
    latency: Optional[float] = None,
    seconds: float = 10.0,
    queries: int = 100,
    batch: int = 1,
    sessions: int = 1,
    threads: int = 1,
    most_samples: int = 1024,
    seed: int = 1,
    image: Optional[Image] = None,
    raw: bool = False,
    build: Optional[Mapping[str, Any]] = None,
    settings: Optional[Mapping[str, Any]] = None,
) -> Result:
    """Runs LoadGen in a scenario (``"single-stream"``, ``"multi-stream"``, ``"offline"``, ``"server"``); its logs go to
    ``folder``, which is made.

    ``inputs``: a data set as ``python -m aipu.bench --data`` takes it, or arrays by input with a row per sample; its
    first ``most_samples`` samples are held in memory. ``accuracy``: each sample once, the outputs go to LoadGen's
    accuracy log (:func:`read_accuracy`). ``rate``: queries per second of the server scenario, for which ``latency`` (in
    seconds) has to be kept; offline, how many samples per second to expect (measured if 0). ``seconds``, ``queries``:
    the least that makes a run valid; MLPerf's own rules ask for 600 s. ``settings``: more of LoadGen's by name.

    ImportError without LoadGen, ValueError for what does not fit; errors of runs are raised when LoadGen has ended.
    """
    if scenario not in _SCENARIOS:
        raise ValueError(f"'{scenario}' is no scenario (there are: {', '.join(_SCENARIOS)})")
    loadgen = _loadgen()
    kind = _SCENARIOS[scenario]
    loaded: Model = _converted.load_model(model, build)
    feeds = _feeds(loaded, inputs, image, raw, most_samples)
    alone = _measured(loaded, feeds, batch if scenario == "offline" else 1, threads)
    if scenario == "offline" and not rate:
        # LoadGen makes 1.1 times as many samples as that takes; if there are too few, the run is too short to be valid.
        rate = 1.2 * batch * sessions / alone
    more = {**_scenario_settings(scenario, rate, latency, alone), **(settings or {})}
    options = {"seconds": seconds, "queries": queries if scenario != "offline" else 1, "seed": seed, "more": more}
    test = _settings(kind, accuracy, options)
    path = os.fspath(folder)
    os.makedirs(path, exist_ok=True)
    log = loadgen.LogSettings()
    log.log_output.outdir = path
    log.log_output.copy_summary_to_stdout = False
    log.enable_trace = False
    under_test = SystemUnderTest(loaded, feeds, batch, sessions, threads, kind.is_asynchronous, accuracy)
    sut = loadgen.ConstructSUT(under_test.issue, under_test.flush)
    qsl = loadgen.ConstructQSL(len(feeds), len(feeds), lambda samples: None, lambda samples: None)
    try:
        loadgen.StartTestWithLogSettings(sut, qsl, test, log)
    finally:
        loadgen.DestroyQSL(qsl)
        loadgen.DestroySUT(sut)
        under_test.close()
    if under_test.error is not None:
        raise under_test.error
    summary = read_summary(path) if not accuracy else {}
    is_valid = accuracy or summary.get("Result is", "") == "VALID"
    return Result(path, scenario, is_valid, summary)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aipu.loadgen",
        description="MLPerf's LoadGen drives a model over a data set.",
        epilog="Exit codes: 0 LoadGen says that the result is valid; 1 it does not, or a model, a file or the machine "
        "is at fault; 2 the command line. "
        "Example: python -m aipu.loadgen model.onnx images.npz --scenario server --rate 100 --latency 50ms -o logs",
    )
    parser.add_argument("model", help="an ONNX model, or an aipu.bin")
    parser.add_argument("data", help="a data set: folder, .npz, list, table, ONNX's test data")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where LoadGen writes its logs")
    parser.add_argument("--scenario", choices=list(_SCENARIOS), default="single-stream")
    parser.add_argument("--accuracy", action="store_true", help="each sample once; outputs go to the accuracy log")
    parser.add_argument("--rate", type=float, default=0.0, metavar="R", help="queries per second of a server")
    parser.add_argument("--latency", type=_options.duration, metavar="50ms", help="that a server has to keep")
    parser.add_argument("--seconds", type=_options.duration, default=10.0, metavar="S", help="at least (default: 10)")
    parser.add_argument("--queries", type=int, default=100, metavar="N", help="at least (default: 100)")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="samples of a run at most")
    parser.add_argument("--sessions", type=int, default=1, metavar="N", help="runs side by side")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of a session")
    parser.add_argument("--samples", type=int, default=1024, metavar="N", help="that are held in memory")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of LoadGen's random numbers")
    parser.add_argument("--image", type=_options.image, metavar="PRESET", help="as of python -m aipu.bench")
    parser.add_argument("--raw", action="store_true", help="data are files with the elements alone")
    return parser


def _run_program(options: argparse.Namespace) -> int:
    result = run(
        options.model,
        options.data,
        options.scenario,
        options.output,
        accuracy=options.accuracy,
        rate=options.rate,
        latency=options.latency,
        seconds=options.seconds,
        queries=options.queries,
        batch=options.batch,
        sessions=options.sessions,
        threads=options.threads,
        most_samples=options.samples,
        seed=options.seed,
        image=options.image,
        raw=options.raw,
    )
    if options.accuracy:
        print_lines([f"outputs are in {os.path.join(result.folder, ACCURACY)}"])
        return 0
    print_lines([f"{options.scenario}: {'VALID' if result.is_valid else 'INVALID'}; logs are in '{result.folder}'"])
    print_lines(
        f"  {name}: {value}"
        for name, value in result.summary.items()
        if "latency" in name or "samples per second" in name.lower()
    )
    return 0 if result.is_valid else 1


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the program; its exit code."""
    options = _parser().parse_args(arguments)
    return run_program("aipu.loadgen", lambda: _run_program(options))


if __name__ == "__main__":
    sys.exit(main())
