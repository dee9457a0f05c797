"""The program ``python -m aipu.bench``: measures, and with a first word of :data:`COMMANDS` does something else."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import numpy as np

from .. import __version__, _files
from .._arguments import add_build_arguments, build_options, print_lines, run_program, tell_result
from .._progress import Progress
from . import _history, _judge, _options, _page, _sweep
from ._accuracy import accuracy
from ._benchmark import Benchmark, benchmark, check
from ._compare import Comparison, compare
from ._machine import describe, pin
from ._processes import run_processes
from ._sides import SIDES
from ._tell import lines

COMMANDS: Dict[str, Callable[[List[str]], int]] = {
    "compare": _judge.main,
    "history": _history.main,
    "sweep": _sweep.main,
    "page": _page.main,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aipu.bench",
        description="How fast a model is: in a scenario, or beside others in alternating turns of one process. "
        "With a first word compare (results), history (of a folder of results), sweep (over batches, threads, "
        "sessions, ...) or page (HTML of results) something else; each has its --help.",
        epilog="Exit codes: 0 all went well; 1 a model, the machine, outputs that differ, or a latency bound that is "
        "not kept; 2 the command line. "
        "Example: python -m aipu.bench model.onnx --scenario offline --shape image=8x3x224x224 --sessions 2",
    )
    parser.add_argument("models", nargs="+", help="ONNX models; without --against also aipu.bin files")
    _options.add_scenario(parser)
    _options.add_inputs(parser)
    group = parser.add_argument_group("beside others")
    group.add_argument("--against", default="", metavar="NAME,...", help=f"of: {', '.join(SIDES)}")
    group.add_argument("--inputs", metavar="FILE.npz", help="inputs by name, instead of random ones")
    group = parser.add_argument_group("accuracy")
    group.add_argument("--accuracy", metavar="FOLDER", help="write the outputs of --data instead of measuring")
    group.add_argument("--expect", metavar="FOLDER", help="results of another run, to compare with")
    group.add_argument(
        "--tolerance", type=float, default=2e-4, metavar="E", help="largest error of an output (default: 2e-4)"
    )
    group = parser.add_argument_group("how")
    group.add_argument(
        "--threads", type=_options.numbers, default=[1], metavar="N,...", help="of a session; each is measured"
    )
    group.add_argument("--seconds", type=_options.duration, metavar="S", help="of a repetition (1) or turn (0.3)")
    group.add_argument("--turns", type=int, default=40, metavar="N", help="repetitions or turns, at most (default: 40)")
    group.add_argument("--precision", type=float, default=0.02, metavar="P", help="of the figure (default: 0.02)")
    group.add_argument("--processes", type=int, default=1, metavar="N", help="measure in so many, one after the other")
    group.add_argument("--pin", metavar="CORES", help="stay on these cores, such as 0,2-3")
    group.add_argument("--numa", type=int, metavar="NODE", help="stay on the cores and memory of a NUMA node")
    add_build_arguments(group)
    group.add_argument("--backend", metavar="NAME", help="back end that runs an aipu.bin")
    group.add_argument("--entry", metavar="NAME", help="of an aipu.bin with several models the one to measure")
    group.add_argument("--label", default="", help="kept in the results: of history, such as a commit")
    group.add_argument("--json", metavar="FILE", help="all that was measured (-: standard output)")
    group.add_argument("--html", metavar="FILE", help="the same as a page that needs nothing else")
    group.add_argument("--layers", action="store_true", help="where the time goes too (in the JSON; --html implies it)")
    return parser


def _lines(result: Comparison) -> Iterator[str]:
    shapes = ", ".join(f"{name} {dtype}{shape}" for name, dtype, shape in result.inputs)
    yield f"{result.model}: {shapes}; {result.threads} thread(s)"
    yield (
        f"  {'':14}{'median ms':>11}  {'95 % interval':>19} {'best':>9} {'p90':>9} {'p99':>9} {'runs':>7} {'turns':>5}"
    )
    for side in result.sides:
        yield (
            f"  {side.name:14}{side.median_ms:11.4f}  {side.low_ms:9.4f}..{side.high_ms:8.4f} {side.best_ms:9.4f} "
            f"{side.p90_ms:9.4f} {side.p99_ms:9.4f} {side.runs:7} {side.turns:5}"
        )
    for one in result.ratios:
        agreement = f"outputs agree within {one.error:.1e}" if one.agrees else f"OUTPUTS DIFFER by {one.error:.1e}"
        yield (
            f"  aipu is {one.ratio:.3f} times as fast as {one.against} ({one.low:.3f}..{one.high:.3f}: {one.verdict}); "
            f"{agreement}"
        )
    for name in result.missing:
        yield f"  {name} is not installed (pip install {name}): left out"
    for name, why in result.failures.items():
        yield f"  {name} does not run the model: {why}"
    for note in result.notes:
        yield f"  note: {note}"


def _beside_others(options: argparse.Namespace) -> "tuple[List[Any], int]":
    """Results, and the exit code."""
    against = [name for name in options.against.split(",") if name]
    given: Dict[str, Any] = {}
    if options.inputs:
        with np.load(options.inputs) as archive:
            given = {name: archive[name] for name in archive.files}
    results: List[Comparison] = []
    for model in options.models:
        for threads in options.threads:
            result = compare(
                model,
                against,
                shapes=dict(options.shape),
                inputs=given,
                ranges=dict(options.range),
                threads=threads,
                tolerance=options.tolerance,
                seconds=options.seconds or 0.3,
                fewest_turns=min(7, options.turns),
                most_turns=options.turns,
                precision=options.precision,
                build=build_options(options),
            )
            results.append(result)
            if options.json != "-":
                print_lines(_lines(result))
    if not all(result.agrees and not result.failures for result in results):
        return results, 1
    if against and any(len(result.missing) == len(against) for result in results):
        print("aipu.bench: nothing that was asked for is installed", file=sys.stderr)
        return results, 1
    return results, 0


def _in_a_scenario(options: argparse.Namespace, arguments: Sequence[str]) -> List[Benchmark]:
    setting = _options.setting_of(options, options.seconds or 1.0)
    check(setting, options.find_peak)
    batch = options.batch
    if batch is None and options.scenario == "multi-stream":
        batch = 8
    if options.processes > 1:
        more = ["--layers"] if options.html else []
        with Progress(sys.stderr, options.processes, 0, unit="processes") as shown:
            results = run_processes(options.processes, [*arguments, *more], lambda done: shown.update(done, 0))
            shown.update(options.processes, 0, last=True)
        if options.json != "-":
            for result in results:
                print_lines(lines(result))
        return results
    results = []
    for model in options.models:
        for threads in options.threads:
            result = benchmark(
                model,
                options.scenario,
                setting=setting,
                find=options.find_peak,
                precision=options.precision,
                fewest=min(5, options.turns),
                most=options.turns,
                batch=batch,
                sessions=options.sessions,
                threads=threads,
                layers=options.layers or bool(options.html),
                build=build_options(options),
                **_options.bench_options(options),
            )
            results.append(result)
            if options.json != "-":
                print_lines(lines(result))
    return results


def _outputs(options: argparse.Namespace) -> int:
    """Accuracy mode."""
    told = accuracy(
        options.models[0],
        options.data,
        options.accuracy,
        expect=options.expect,
        tolerance=options.tolerance,
        image=options.image,
        raw=options.raw,
        batch=options.batch,
        sessions=options.sessions,
        threads=options.threads[0],
        build=build_options(options),
    )
    text = [f"{told.rows:,} results in '{told.folder}', {told.broken:,} inputs broken"]
    if told.compared:
        text.append(f"{told.compared:,} compared: largest error {told.error:.2e} ({told.worst})")
    if told.differing:
        text.append(f"OUTPUTS DIFFER of {len(told.differing):,}: {', '.join(told.differing[:10])}")
    tell_result(options.json, text, lambda: {"tool": "aipu.bench", "accuracy": dataclasses.asdict(told)})
    return 0 if told.agrees else 1


def report(results: Sequence[Any], settings: Dict[str, Any], arguments: Sequence[str], label: str) -> Dict[str, Any]:
    """What the JSON file has: all that is needed to measure again, and what was measured."""
    return {
        "tool": "aipu.bench",
        "format": 1,
        "version": __version__,
        "label": label,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "arguments": list(arguments),
        "machine": describe(),
        "settings": settings,
        "results": [dataclasses.asdict(result) for result in results],
    }


def _usage_error(options: argparse.Namespace) -> str:
    """Options that would change nothing."""
    if options.against and (
        options.processes != 1 or options.html or options.data or options.scenario != "single-stream"
    ):
        return "--against measures in turns: --scenario, --processes, --data and --html do not fit"
    if options.inputs and not options.against:
        return "--inputs is of --against; --data FILE.npz is a data set"
    if (options.image or options.raw) and not options.data:
        return "--image and --raw say what --data is"
    if options.accuracy and not options.data:
        return "--accuracy writes the outputs of a data set: give --data"
    if options.accuracy and (len(options.models) > 1 or len(options.threads) > 1):
        return "--accuracy takes one model and one number of threads"
    if options.expect and not options.accuracy:
        return "--expect is of --accuracy"
    if options.processes < 1 or options.turns < 1:
        return "--processes and --turns are at least 1"
    return ""


def _run(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    pin(options.pin, options.numa)
    if options.accuracy:
        return _outputs(options)
    names = ("seconds", "turns", "precision", "fast_math", "model_precision", "target", "tolerance")
    settings = {name: getattr(options, name) for name in names}
    results: List[Any]
    if options.against:
        results, code = _beside_others(options)
    else:
        results = _in_a_scenario(options, arguments)
        code = int(any(result.keeps_bound is False and result.peak is None for result in results))
    told = report(results, settings, arguments, options.label)
    if options.json:
        _files.write_report(options.json, told)
    if options.html:
        _files.write_output(options.html, _page.page(told))
    return code


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the program; its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments and arguments[0] in COMMANDS:
        return COMMANDS[arguments[0]](arguments[1:])
    parser = _parser()
    options = parser.parse_args(arguments)
    problem = _usage_error(options)
    if problem:
        parser.error(problem)
    return run_program("aipu.bench", lambda: _run(options, arguments))


if __name__ == "__main__":
    sys.exit(main())
