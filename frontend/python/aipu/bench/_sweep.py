"""``python -m aipu.bench sweep``: all combinations of batches, threads, sessions, ..., and which is best."""

from __future__ import annotations

import argparse
import dataclasses
import io
import itertools
import os
import random
import shlex
import sys
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .. import _files
from .._arguments import run_program, shape, tell_result
from .._progress import Progress
from . import _options, _page
from ._benchmark import Bench
from ._machine import describe, pin
from ._measure import warm_up
from ._scenario import Setting, play
from ._statistics import shift
from ._turns import bootstrap

_DROPPED = 0.7  # of the best: after three rounds, less than that will not be the best
_ALPHA = 0.05  # of "as good as the best"


class Configuration(NamedTuple):
    """What is varied."""

    model: str
    target: str
    fast_math: bool
    precision: str
    shapes: Tuple[Tuple[str, Tuple[int, ...]], ...]
    batch: int
    threads: int
    sessions: int

    def command(self, latency: Optional[float] = None) -> str:
        """The command line that measures it alone."""
        words = ["python3", "-m", "aipu.bench", self.model, "--scenario", "offline", "--batch", str(self.batch)]
        words += ["--threads", str(self.threads), "--sessions", str(self.sessions)]
        for name, extents in self.shapes:
            words += ["--shape", f"{name}={'x'.join(map(str, (self.batch, *extents[1:]) if extents else ()))}"]
        words += ["--target", self.target] if self.target else []
        words += ["--fast-math"] if self.fast_math else []
        words += ["--model-precision", self.precision] if self.precision else []
        words += ["--latency", f"{1e3 * latency:g}ms"] if latency is not None else []
        return shlex.join(words)

    @property
    def text(self) -> str:
        """In a few words."""
        more = "".join(f", {name}={'x'.join(map(str, extents))}" for name, extents in self.shapes)
        more += f", {self.target}" if self.target else ""
        more += ", fast math" if self.fast_math else ""
        more += f", {self.precision}" if self.precision else ""
        numbers = f"batch {self.batch}, {self.threads} threads, {self.sessions} sessions"
        return f"{os.path.basename(self.model)}{more}: {numbers}"


class Point(NamedTuple):
    """One measurement: samples per second, and the latency of a run at the percentile that counts, in seconds."""

    samples_per_second: float
    latency: float


@dataclasses.dataclass
class Row:
    """A configuration, what was measured in each round, and why it was not, if it was not."""

    configuration: Configuration
    points: List[Point] = dataclasses.field(default_factory=list)
    failure: str = ""
    dropped: bool = False

    @property
    def rates(self) -> List[float]:
        """Samples per second of each round."""
        return [point.samples_per_second for point in self.points]

    @property
    def latency(self) -> float:
        """The median over the rounds."""
        return float(np.median([point.latency for point in self.points]))

    @property
    def rate(self) -> float:
        """The median over the rounds."""
        return float(np.median(self.rates)) if self.points else 0.0


@dataclasses.dataclass
class Swept:
    """All rows, the best of those that keep the bound (None: no one does), and what is as good within noise."""

    rows: List[Row]
    best: Optional[Row]
    as_good: List[Row]


def sweep(
    configurations: Sequence[Configuration],
    measure: Callable[[Configuration], Point],
    *,
    rounds: int = 5,
    bound: Optional[float] = None,
    seed: int = 1,
    after_each: Callable[[int, int], None] = lambda done, failed: None,
) -> Swept:
    """Measures all configurations in ``rounds``, each time in another order, so that what changes on the machine hits
    all of them alike. After three rounds what is far from the best is left out. ``measure`` may raise ValueError,
    RuntimeError or OSError: that configuration fails, and is told.
    """
    rows = [Row(configuration) for configuration in configurations]
    order = random.Random(seed)
    done = 0
    for round_ in range(rounds):
        turn = [row for row in rows if not row.failure and not row.dropped]
        order.shuffle(turn)
        for row in turn:
            try:
                row.points.append(measure(row.configuration))
            except (OSError, RuntimeError, ValueError) as error:
                row.failure = " ".join(str(error).split())
            done += 1
            after_each(done, sum(bool(one.failure) for one in rows))
        if round_ == 2:
            leading = max((row.rate for row in _kept(rows, bound)), default=0.0)
            for row in rows:
                row.dropped = bool(row.points) and max(row.rates) < _DROPPED * leading
    kept = [row for row in _kept(rows, bound) if len(row.points) == rounds]
    best = max(kept, key=lambda row: row.rate, default=None)
    return Swept(rows, best, [row for row in kept if best is not None and row is not best and is_as_good(row, best)])


def _kept(rows: Sequence[Row], bound: Optional[float]) -> List[Row]:
    return [row for row in rows if row.points and not row.failure and (bound is None or row.latency <= bound)]


def is_as_good(one: Row, other: Row) -> bool:
    """Whether the rounds do not tell the two apart; with too few rounds for the test, whether their intervals meet."""
    try:
        return not shift(one.rates, other.rates, _ALPHA).is_different
    except ValueError:
        first, second = bootstrap(one.rates), bootstrap(other.rates)
        return first.low <= second.high and second.low <= first.high


def agreement(first: Swept, second: Swept) -> Tuple[bool, str]:
    """Whether two sweeps name the same configuration, or one that is as good within the noise of either."""
    if first.best is None or second.best is None:
        same = first.best is second.best
        return (
            same,
            "neither sweep has a configuration that keeps the bound" if same else "one sweep has none that keeps it",
        )
    ours, theirs = first.best.configuration, second.best.configuration
    if ours == theirs:
        return True, "the second sweep finds the same configuration"
    within = any(row.configuration == theirs for row in first.as_good) or any(
        row.configuration == ours for row in second.as_good
    )
    if within:
        return True, f"the second sweep finds {theirs.text}, which is as good within noise"
    return False, f"THE SECOND SWEEP DIFFERS: it finds {theirs.text}; the machine was noisy, or give more --rounds"


def _one(options: argparse.Namespace) -> Callable[[Configuration], Point]:
    """Opens the model anew each time: other addresses are part of the noise."""

    def measure(configuration: Configuration) -> Point:
        build: Dict[str, Any] = {}
        if configuration.target:
            build["target"] = configuration.target
        if configuration.fast_math:
            build["fast_math"] = True
        if configuration.precision:
            build["precision"] = configuration.precision
        setting = Setting("offline", options.seconds, percentile=options.percentile, seed=options.seed)
        with Bench(
            configuration.model,
            batch=configuration.batch,
            sessions=configuration.sessions,
            threads=configuration.threads,
            shapes=dict(configuration.shapes),
            ranges=dict(options.range),
            seed=options.seed,
            backend=options.backend,
            build=build,
        ) as bench:
            setting = dataclasses.replace(setting, batch=bench.batch)
            warm_up(bench.player, setting, min(0.1, options.seconds / 4))
            trial = play(bench.player, setting)
            return Point(trial.samples_per_second, trial.latency(setting.tail))

    return measure


def _variants(text: str) -> Tuple[str, List[Tuple[int, ...]]]:
    """NAME=1x3x224x224,1x3x192x192."""
    name, equals, shapes = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=1x3x224x224,..., found '{text}'")
    return name, [shape(f"{name}={one}")[1] for one in shapes.split(",")]


def _configurations(options: argparse.Namespace) -> List[Configuration]:
    shapes: Mapping[str, List[Tuple[int, ...]]] = dict(options.shape)
    kinds = [[(name, variant) for variant in variants] for name, variants in shapes.items()]
    fast = {"off": [False], "on": [True], "both": [False, True]}[options.fast_math]
    axes = (options.models, options.targets.split(","), fast, options.precisions.split(","), itertools.product(*kinds))
    axes_of_numbers = (options.batch, options.threads, options.sessions)
    return [Configuration(*values) for values in itertools.product(*axes, *axes_of_numbers)]


def _lines(swept: Swept, latency: Optional[float]) -> List[str]:
    lines = [f"{'samples/s':>12} {'95 % interval':>23} {'latency ms':>11}  configuration"]
    for row in sorted(swept.rows, key=lambda one: -one.rate):
        if row.failure:
            lines.append(f"{'-':>12} {'':23} {'':11}  {row.configuration.text}: {row.failure}")
            continue
        spread = bootstrap(row.rates)
        interval = f"{spread.low:,.5g}..{spread.high:,.5g}"
        mark = " (left out after three rounds)" if row.dropped else ""
        mark = " BEST" if row is swept.best else " as good" if row in swept.as_good else mark
        lines.append(f"{spread.value:12,.5g} {interval:>23} {1e3 * row.latency:11.4g}  {row.configuration.text}{mark}")
    if swept.best is None:
        lines.append("no configuration keeps the bound" if latency is not None else "nothing could be measured")
    else:
        lines.append("best: " + swept.best.configuration.command(latency))
        if swept.as_good:
            lines.append(f"{len(swept.as_good)} more are as good within noise")
    return lines


def _csv(swept: Swept) -> str:
    import csv

    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["model", "target", "fast_math", "precision", "shapes", "batch", "threads", "sessions",
                     "samples_per_second", "latency_seconds", "rounds", "failure"])  # fmt: skip
    for row in swept.rows:
        c = row.configuration
        shapes = " ".join(f"{name}={'x'.join(map(str, extents))}" for name, extents in c.shapes)
        writer.writerow([c.model, c.target, c.fast_math, c.precision, shapes, c.batch, c.threads, c.sessions, row.rate,
                         row.latency if row.points else "", len(row.points), row.failure])  # fmt: skip
    return buffer.getvalue()


def told(swept: Swept) -> Dict[str, Any]:
    """For JSON."""

    def row_of(row: Row) -> Dict[str, Any]:
        return {
            **row.configuration._asdict(),
            "samples_per_second": row.rates,
            "latency_seconds": [point.latency for point in row.points],
            "failure": row.failure,
            "is_best": row is swept.best,
            "as_good": row in swept.as_good,
        }

    return {"rows": [row_of(row) for row in swept.rows]}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aipu.bench sweep",
        description="Throughput of all combinations of what has several values, in rounds, and the best of them.",
        epilog="Exit codes: 0 all went well; 1 nothing is best, or a second sweep differs; 2 the command line. "
        "Example: python -m aipu.bench sweep model.onnx --batch 1..32 --threads 1,2 --sessions 1,2 --latency 50ms",
    )
    parser.add_argument("models", nargs="+", help="ONNX models, or aipu.bin files")
    numbers = _options.numbers
    parser.add_argument("--batch", type=numbers, default=[1], metavar="N,...|A..B", help="1..32 doubles from 1 to 32")
    parser.add_argument("--threads", type=numbers, default=[1], metavar="N,...", help="of a session")
    parser.add_argument("--sessions", type=numbers, default=[1], metavar="N,...")
    parser.add_argument("--shape", type=_variants, action="append", default=[], metavar="NAME=1x3x224x224,...")
    parser.add_argument("--targets", default="", metavar="NAME,...", help="of the conversion: host-avx2,host-avx512")
    parser.add_argument("--fast-math", choices=["off", "on", "both"], default="off", help="of the conversion")
    parser.add_argument("--precisions", default="", metavar="NAME,...", help="of the conversion: fp32,bf16,fp16")
    parser.add_argument("--range", type=_options.value_range, action="append", default=[], metavar="NAME=LOW:HIGH")
    parser.add_argument("--latency", type=_options.duration, metavar="10ms", help="that runs have to keep")
    parser.add_argument("--percentile", type=float, default=99.0, metavar="P", help="of --latency (default: 99)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of all configurations (default: 5)")
    parser.add_argument("--seconds", type=_options.duration, default=0.3, metavar="S", help="of a measurement")
    parser.add_argument("--again", action="store_true", help="sweep twice, and say whether that finds the same")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of inputs and of the order")
    parser.add_argument("--backend", metavar="NAME", help="back end that runs an aipu.bin")
    parser.add_argument("--pin", metavar="CORES", help="stay on these cores")
    parser.add_argument("--json", metavar="FILE", help="all that was measured (-: standard output)")
    parser.add_argument("--csv", metavar="FILE", help="a line per configuration")
    parser.add_argument("--html", metavar="FILE", help="a page with figures")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    return parser


def _sweeps(options: argparse.Namespace, configurations: Sequence[Configuration]) -> List[Swept]:
    """One sweep, or two to see whether they find the same."""
    found: List[Swept] = []
    times = 2 if options.again else 1
    each = options.rounds * len(configurations)
    stream = None if options.quiet else sys.stderr
    with Progress(stream, times * each, 0, unit="measurements") as progress:
        for number in range(times):

            def after_each(done: int, failed: int, before: int = number * each) -> None:
                progress.update(before + done, failed)

            found.append(
                sweep(
                    configurations,
                    _one(options),
                    rounds=options.rounds,
                    bound=options.latency,
                    seed=options.seed + number,
                    after_each=after_each,
                )
            )
        progress.update(times * each, 0, last=True)
    return found


def _run(options: argparse.Namespace, configurations: Sequence[Configuration], arguments: Sequence[str]) -> int:
    pin(options.pin)
    sweeps = _sweeps(options, configurations)
    same, text = agreement(sweeps[0], sweeps[1]) if options.again else (True, "")
    report = {
        "tool": "aipu.bench",
        "format": 1,
        "arguments": list(arguments),
        "machine": describe(),
        "results": [],
        "sweeps": [told(one) for one in sweeps],
        "agreement": text,
    }
    lines = [*_lines(sweeps[0], options.latency), *([text] if text else [])]
    tell_result(options.json, lines, lambda: report)
    if options.csv:
        _files.write_output(options.csv, _csv(sweeps[0]))
    if options.html:
        _files.write_output(options.html, _page.page(report))
    return 0 if same and sweeps[0].best is not None else 1


def main(arguments: Optional[List[str]] = None) -> int:
    """The program."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds is at least 1")
    configurations = _configurations(options)
    return run_program("aipu.bench sweep", lambda: _run(options, configurations, arguments))
