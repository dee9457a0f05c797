"""``python -m aipu.bench history FOLDER``: each measurement over the results in a folder, by time."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .. import _files, _html
from .._arguments import print_lines, run_program
from . import _charts
from ._benchmark import Benchmark
from ._judge import judge, read
from ._statistics import sparkline
from ._tell import figure_text


class Entry(NamedTuple):
    """A measurement of one time. ``verdict`` against the one before; "" where there were too few process runs."""

    when: str
    label: str
    result: Benchmark
    verdict: str


def history(folder: str) -> "Tuple[List[List[Entry]], List[str]]":
    """The measurements in the .json files of a folder, those of the same thing together, by time; and what is none.

    OSError if there is no such folder, ValueError if nothing in it is a result.
    """
    found: Dict[Tuple[Any, ...], List[Entry]] = {}
    problems: List[str] = []
    heads = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            try:
                heads.append((name, *read(os.path.join(folder, name))))
            except ValueError as error:
                problems.append(str(error))
    heads.sort(key=lambda one: one[1].get("time", ""))
    for name, told, results in heads:
        for result in results:
            entries = found.setdefault(result.identity(), [])
            verdict = ""
            if entries:
                try:
                    verdict = judge(entries[-1].result, result).verdict
                except ValueError:
                    pass  # too few process runs
            entries.append(Entry(told.get("time", ""), told.get("label") or name, result, verdict))
    if not found:
        raise ValueError(f"'{folder}' has no results of aipu.bench")
    return list(found.values()), problems


def page(groups: List[List[Entry]]) -> str:
    """A figure of each measurement."""
    parts = []
    for entries in groups:
        factor, unit = (1e3, "ms") if entries[0].result.unit == "s" else (1.0, entries[0].result.unit)
        points = [
            (place, entry.result.figure[0] * factor, f"{entry.label} ({entry.when}): {figure_text(entry.result)}")
            for place, entry in enumerate(entries)
            if entry.result.figure[0] is not None
        ]
        chart = _charts.lines(
            {"": points}, "result", unit, x_ticks=[(place, entry.label) for place, entry in enumerate(entries)]
        )
        rows = [(entry.when, entry.label, figure_text(entry.result), entry.verdict) for entry in entries]
        table = _html.table(("time", "label", "figure", "beside the one before"), rows, texts=4)
        parts.append(_html.section(entries[0].result.title, chart + table))
    return _html.document("History of measurements", "".join(parts))


def _run(options: argparse.Namespace) -> int:
    groups, problems = history(options.folder)
    for entries in groups:
        figures = sparkline([entry.result.figure[0] or 0.0 for entry in entries])
        print_lines([f"{entries[0].result.title}  {figures}"])
        print_lines(
            f"  {entry.when}  {entry.label:24} {figure_text(entry.result)}  {entry.verdict}".rstrip()
            for entry in entries
        )
    print_lines((f"left out: {problem}" for problem in problems), sys.stderr)
    if options.html:
        _files.write_output(options.html, page(groups))
    return 0


def main(arguments: Optional[List[str]] = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(
        prog="python -m aipu.bench history",
        description="How results (--json, named by --label) in a folder went over time.",
        epilog="Exit codes: 0 all went well; 1 no results. Example: python -m aipu.bench history results --html h.html",
    )
    parser.add_argument("folder")
    parser.add_argument("--html", metavar="FILE", help="the same with figures")
    options = parser.parse_args(arguments)
    return run_program("aipu.bench history", lambda: _run(options))
