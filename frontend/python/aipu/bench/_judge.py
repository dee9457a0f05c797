"""``python -m aipu.bench compare A.json B.json``: slower or not, by a test over process runs."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple

from .._arguments import print_lines, run_program, tell_result
from ._benchmark import Benchmark, of_told, process_medians
from ._statistics import Shift, shift
from ._tell import figure_text


def read(path: str) -> Tuple[Dict[str, Any], List[Benchmark]]:
    """A file of results; OSError, ValueError."""
    with open(path, encoding="utf-8") as file:
        try:
            told = json.load(file)
        except ValueError:
            raise ValueError(f"'{path}' is no JSON") from None
    if not isinstance(told, dict) or told.get("tool") != "aipu.bench":
        raise ValueError(f"'{path}' is no result of aipu.bench")
    try:
        return told, [of_told(result) for result in told.get("results", [])]
    except (TypeError, ValueError) as error:
        raise ValueError(f"'{path}': {error}") from None


@dataclasses.dataclass
class Verdict:
    """``times``: how many times as long the second side takes (of throughput: the first gives), with its interval at
    ``confidence``; ``verdict``: ``"slower"``, ``"faster"`` or ``"no difference"``.
    """

    title: str
    before: str
    after: str
    times: float
    low: float
    high: float
    confidence: float
    verdict: str


def judge(before: Benchmark, after: Benchmark, alpha: float = 0.01) -> Verdict:
    """Whether the second is slower than the first. ValueError where they are not of the same thing, or of too few
    process runs.
    """
    if before.identity() != after.identity():
        raise ValueError(f"'{before.title}' and '{after.title}' are not the same measurement")
    first, second = process_medians(before), process_medians(after)
    if not all(map(math.isfinite, first)) or not all(map(math.isfinite, second)):
        # One that could not keep up has no time: who keeps up is faster.
        sides = [all(map(math.isfinite, side)) for side in (first, second)]
        verdict = {(True, False): "slower", (False, True): "faster"}.get((sides[0], sides[1]), "no difference")
        found = Shift(*(math.inf if verdict == "slower" else 0.0 if verdict == "faster" else 1.0 for _ in range(3)))
    else:
        found = shift(second, first, alpha) if before.higher_is_better else shift(first, second, alpha)
        verdict = "slower" if found.low > 1 else "faster" if found.high < 1 else "no difference"
    texts = (figure_text(before), figure_text(after))
    return Verdict(before.title, *texts, found.ratio, found.low, found.high, 1 - alpha, verdict)


def pairs(before: List[Benchmark], after: List[Benchmark]) -> List[Tuple[Benchmark, Benchmark]]:
    """The measurements that both have; ValueError if there are none."""
    others = {result.identity(): result for result in after}
    found = [(result, others[result.identity()]) for result in before if result.identity() in others]
    if not found:
        titles = "; ".join(result.title for result in (*before[:1], *after[:1]))
        raise ValueError(f"they have no measurement in common ({titles})")
    return found


def _lines(one: Verdict, path: str) -> Iterator[str]:
    yield one.title
    yield f"  before {one.before}"
    yield f"  after  {one.after}"
    words = {"slower": "SLOWER", "faster": "faster"}.get(one.verdict, one.verdict)
    yield (
        f"  '{path}' takes {one.times:.4g} times as long ({one.low:.4g}..{one.high:.4g}, {100 * one.confidence:.4g} %)"
        f": {words}"
    )
    if one.verdict == "no difference" and one.high > 1.03:
        yield f"  note: it may be slower by {100 * (one.high - 1):.1f} % all the same; more --processes tell"


def _cpu(told: Dict[str, Any]) -> Any:
    machine = told.get("machine")
    return machine.get("cpu") if isinstance(machine, dict) else None


def _run(options: argparse.Namespace) -> int:
    told: List[Dict[str, Any]] = []
    lines: List[str] = []
    slower = False
    head, before = read(options.before)
    for path in options.after:
        other, after = read(path)
        both = pairs(before, after)
        if _cpu(head) != _cpu(other):
            print_lines([f"note: other machines: {_cpu(head)}, {_cpu(other)}"], sys.stderr)
        alpha = (1 - options.confidence / 100) / len(both)
        for first, second in both:
            one = judge(first, second, alpha)
            slower |= one.verdict == "slower"
            told.append({"file": path, **dataclasses.asdict(one)})
            lines += _lines(one, os.path.basename(path))
    tell_result(options.json, lines, lambda: {"tool": "aipu.bench", "verdicts": told})
    return int(slower)


def main(arguments: Optional[List[str]] = None) -> int:
    """The program; 0: nothing is slower, 1: something is, 2: the files cannot be compared."""
    parser = argparse.ArgumentParser(
        prog="python -m aipu.bench compare",
        description="Whether results are slower than the first of them, by an exact rank-sum test over the process "
        "runs of each (measure with --processes 10 or more). With several measurements in a file, all "
        "of them together are wrongly said to differ as seldom as one.",
        epilog="Exit codes: 0 nothing is slower; 1 something is; 2 the files cannot be compared. "
        "Example: python -m aipu.bench compare before.json after.json",
    )
    parser.add_argument("before", help="results (--json) to compare with")
    parser.add_argument("after", nargs="+", help="results")
    parser.add_argument("--confidence", type=float, default=99.0, metavar="P", help="percent (default: 99)")
    parser.add_argument("--json", metavar="FILE", help="the verdicts (-: standard output)")
    options = parser.parse_args(arguments)
    if not 50 <= options.confidence < 100:
        parser.error("--confidence is a number of percent from 50 to below 100")
    return run_program("aipu.bench compare", lambda: _run(options), failed_code=2)
