"""``python -m aipu.bench page``: results as one page of HTML that needs nothing else."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .. import _files, _html
from .._arguments import run_program
from . import _charts
from ._benchmark import Benchmark, Layers, of_told
from ._statistics import Histogram
from ._tell import figure_text, number
from ._turns import bootstrap

_BARS = 60  # of a histogram at most


def _distribution(result: Benchmark) -> str:
    histogram = Histogram.of(result.histogram)
    if not histogram.counts:
        return ""
    first, last = min(histogram.counts), max(histogram.counts)
    width = 1 + (last - first) // _BARS
    sums: Dict[int, int] = {}
    for step, count in histogram.counts.items():
        sums[(step - first) // width] = sums.get((step - first) // width, 0) + count
    step_of = lambda place: 1e3 * 2.718281828459045 ** ((first + place * width) / 100)  # noqa: E731
    steps = [(step_of(place), step_of(place + 1), count) for place, count in sorted(sums.items())]
    marks = {name: result.latency_ms[name] for name in ("p50", "p90", "p99")}
    known = {name: value for name, value in marks.items() if value is not None}
    unfinished = f"; {histogram.unfinished:,} queries were never begun" if histogram.unfinished else ""
    caption = f"Latency from when a query was due{unfinished}"
    return _charts.figure(caption, _charts.bars(steps, known, "ms"), "distribution")


def _repetitions(result: Benchmark) -> str:
    factor, unit = (1e3, "ms") if result.unit == "s" else (1.0, result.unit)
    points = []
    for process, values in enumerate(result.processes, 1):
        for value in values:
            if value is not None:
                points.append(
                    (float(len(points) + 1), value * factor, f"process {process}: {value * factor:.5g} {unit}")
                )
    return (
        _charts.figure("Each repetition", _charts.scatter(points, "repetition", unit), "repetitions") if points else ""
    )


def _memory(result: Benchmark) -> str:
    points = [(at, size / 1e6, f"{size / 1e6:.1f} MB after {at:.2f} s") for at, size in result.memory["points"]]
    return _charts.figure("Memory of the process", _charts.lines({"": points}, "s", "MB"), "memory") if points else ""


def _search(result: Benchmark) -> str:
    steps = sorted(result.peak or [])
    points = [(rate, 1e3 * latency, f"{rate:.5g}/s: {1e3 * latency:.4g} ms") for rate, latency, _ in steps if latency]
    chart = _charts.lines({"": points}, "queries per second", f"ms at {result.percentile:g} %")
    return _charts.figure("The search for the peak rate", chart, "peak") if points else ""


def _nodes_of(row: Mapping[str, Any]) -> List[str]:
    return [name.strip() for name in str(row["nodes"]).replace("+", ",").split(",") if name.strip()]


def _rates(row: Mapping[str, Any]) -> Tuple[float, float]:
    """Operations and bytes per second."""
    seconds = row["median_us"] * 1e-6
    return (row["operations"] / seconds, row["bytes"] / seconds) if seconds > 0 else (0.0, 0.0)


def _is_in_cycles(layers: Layers) -> bool:
    """Whether rows are; results of older versions have the time of this machine beside cycles of the whole run."""
    return bool(layers.cycles) and all("cycles" in row for row in layers.rows)


def _roofline(layers: Optional[Layers]) -> str:
    if layers is None or layers.peak_operations <= 0 or _is_in_cycles(layers):
        return ""
    points = []
    for row in layers.rows:
        rate = _rates(row)[0]
        if row["operations"] > 0 and row["bytes"] > 0 and rate > 0:
            what = f"{row['kernel']} ({row['nodes']}): {rate / 1e9:.1f} GFLOP/s, {row['median_us']:.1f} us"
            points.append((row["operations"] / row["bytes"], rate, what))
    if not points:
        return ""
    chart = _charts.roofline(points, layers.peak_operations, layers.peak_bytes)
    return _charts.figure("Roofline: layers under the peaks measured in this run", chart, "roofline")


_TIME_HEADS = ("us", "time", "GFLOP/s", "of peak", "GB/s", "of memory")
_CYCLE_HEADS = ("cycles", "of the run", "op/cycle", "compute", "DMA", "of the larger", "bound")


def _in_time(row: Mapping[str, Any], layers: Layers, total: float) -> Tuple[Any, ...]:
    """The cells of _TIME_HEADS."""
    rates = _rates(row)
    shares = (rates[0] / layers.peak_operations, rates[1] / layers.peak_bytes)
    return (
        (row["median_us"], f"{row['median_us']:,.1f}"),
        (row["median_us"] / total, f"{100 * row['median_us'] / total:.1f} %"),
        (rates[0], f"{rates[0] / 1e9:,.1f}"),
        (shares[0], f"{100 * shares[0]:.0f} %"),
        (rates[1], f"{rates[1] / 1e9:,.1f}"),
        (shares[1], f"{100 * shares[1]:.0f} %"),
    )


def _in_cycles(row: Mapping[str, Any], layers: Layers, _: float) -> Tuple[Any, ...]:
    """The cells of _CYCLE_HEADS. What is not known of a part is -1."""
    cycles, parts = row["cycles"], (row["compute_cycles"], row["dma_cycles"])
    rate = row["operations"] / max(cycles, 1)
    ratio = cycles / max(parts) if max(parts) > 0 else 0.0
    share = cycles / max(layers.cycles["total"], 1)
    return (
        (cycles, f"{cycles:,}"),
        (share, f"{100 * share:.1f} %"),
        (rate, f"{rate:,.1f}"),
        *((part, f"{part:,}" if part >= 0 else "") for part in parts),
        (ratio, f"{ratio:.2f}" if ratio else ""),
        (None, _html.text(row["bound"])),
    )


def _layers(layers: Layers, prefix: str) -> str:
    """The table of layers, its roofline, and the nodes with links in both directions."""
    heads, cells = (_CYCLE_HEADS, _in_cycles) if _is_in_cycles(layers) else (_TIME_HEADS, _in_time)
    total = sum(row.get("median_us", 0) for row in layers.rows) or 1.0
    places: Dict[str, List[int]] = {}
    for place, row in enumerate(layers.rows, 1):
        for name in _nodes_of(row):
            places.setdefault(name, []).append(place)
    ids = {name: f"{prefix}node{place}" for place, name in enumerate(places)}
    rows = []
    for place, row in enumerate(layers.rows, 1):
        links = ", ".join(f'<a href="#{ids[name]}">{_html.text(name)}</a>' for name in _nodes_of(row))
        rows.append(
            (
                (float(place), str(place)),
                *cells(row, layers, total),
                (None, f"<code>{_html.text(row['kernel'])}</code>"),
                (None, links),
            )
        )
    heads = ("#", *heads, "kernel", "ONNX nodes")
    layer_ids = [f"{prefix}layer{place}" for place in range(1, len(rows) + 1)]
    table = _html.table(heads, rows, texts=0, sortable=True, ids=layer_ids)
    node_rows = []
    for name, where in places.items():
        links = ", ".join(f'<a href="#{prefix}layer{place}">{place}</a>' for place in where)
        node_rows.append((name, (None, links)))
    nodes = _html.table(("ONNX node", "layers"), node_rows, ids=[ids[name] for name in places])
    return (
        f'<div class="charts">{_roofline(layers)}{_cycles(layers)}</div><h3>Layers</h3>{table}'
        f"<details><summary>ONNX nodes, and the layers that compute them</summary>{nodes}</details>"
    )


def _cycles(layers: Layers) -> str:
    if not layers.cycles:
        return ""
    total = layers.cycles["total"]
    engines = {name: float(cycles) for name, cycles in layers.cycles.items()}
    caption = f"Cycles on the NPU: {total:,} in all, the engines work side by side"
    return _charts.figure(caption, _charts.columns(engines, "cycles"), "cycles")


def _result(result: Benchmark, prefix: str) -> str:
    tiles = {
        result.interval + " of " + ("latency" if result.unit == "s" else result.unit): figure_text(result)
        .partition("(")[2]
        .rstrip(")"),
        f"p{result.percentile:g} latency, ms": number(result.latency_ms.get(f"p{result.percentile:g}")),
        "samples per second": number(result.samples_per_second[0], 5),
        "queries": f"{result.queries:,}",
        "first run, ms": number(result.first_run_ms),
        "MB of activations": number(result.memory["arena_bytes"] / 1e6),
    }
    shapes = ", ".join(f"{name} {dtype}{shape}" for name, dtype, shape in result.inputs)
    notes = "".join(f'<div class="warn">{_html.text(note)}</div>' for note in result.notes)
    charts = _distribution(result) + _repetitions(result) + _memory(result) + _search(result)
    layers = _layers(result.layers, prefix) if result.layers is not None else ""
    words = f"{figure_text(result)}; {shapes} ({result.data})"
    head = f'<div class="texts">{_html.text(words)}</div>'
    return _html.section(result.title, f'{head}{_html.tiles(tiles)}{notes}<div class="charts">{charts}</div>{layers}')


def _by_batch(rows: List[Tuple[str, int, float, str]]) -> str:
    """Throughput over batch, a line per kind of session; where there is more than one point."""
    series: Dict[str, List[_charts.Point]] = {}
    for name, batch, rate, what in rows:
        series.setdefault(name, []).append((float(batch), rate, what))
    if len(rows) < 2:
        return ""
    batches = sorted({batch for _, batch, _, _ in rows})
    ordered = {name: sorted(points) for name, points in series.items()}
    chart = _charts.lines(
        ordered, "batch", "samples/s", log_x=len(batches) > 1, x_ticks=[(batch, str(batch)) for batch in batches]
    )
    return _charts.figure("Throughput over batch, threads and sessions", chart, "throughput")


def _sweep(sweep: Mapping[str, Any], title: str) -> str:
    points, rows = [], []
    for row in sweep["rows"]:
        shapes = " ".join(f"{name}={'x'.join(map(str, extents))}" for name, extents in row["shapes"])
        how = "fast math" if row["fast_math"] else ""
        words = [row["model"].rpartition("/")[2], row["target"], how, row.get("precision", ""), shapes]
        model = " ".join(filter(None, words))
        mark = row["failure"] or ("best" if row["is_best"] else "as good" if row["as_good"] else "")
        rate, latency = 0.0, 0.0
        if row["samples_per_second"]:
            rate = bootstrap(row["samples_per_second"]).value
            latency = bootstrap(row["latency_seconds"]).value
            name = f"{row['sessions']} x {row['threads']} threads"
            what = f"{model}: batch {row['batch']}, {name}: {rate:,.5g} samples/s"
            points.append((name, row["batch"], rate, what))
        cells: List[Any] = [model]
        cells += [(float(row[key]), str(row[key])) for key in ("batch", "threads", "sessions")]
        cells += [(rate, f"{rate:,.5g}"), (1e3 * latency, f"{1e3 * latency:,.4g}"), (None, _html.text(mark))]
        rows.append(cells)
    heads = ("model", "batch", "threads", "sessions", "samples/s", "latency ms", "")
    return _html.section(
        title, f'<div class="charts">{_by_batch(points)}</div>{_html.table(heads, rows, sortable=True)}'
    )


def picture(told: Mapping[str, Any]) -> str:
    """The figures of the first result as SVG. ValueError if there is none."""
    if not told["results"]:
        raise ValueError("there is no result of a scenario, of which a picture could be made")
    result = of_told(told["results"][0])
    figures = [_distribution(result), _repetitions(result), _memory(result), _roofline(result.layers)]
    return _charts.picture(figures, result.title)


def page(told: Mapping[str, Any]) -> str:
    """The page of a JSON file's content."""
    results = [of_told(result) for result in told["results"]]
    machine = told["machine"]
    under = f"{_html.text(machine['cpu'])}, {machine['cpus']} CPUs ({_html.text(machine['target'])}); "
    under += f"{_html.text(machine['system'])}; {_html.text(told.get('time', ''))} {_html.text(told.get('label', ''))}"
    under += f"<br><code>python3 -m aipu.bench {_html.text(shlex.join(told.get('arguments', [])))}</code>"
    rows = [
        (f"{one.sessions} x {one.threads} threads", one.batch, one.samples_per_second[0] or 0.0, one.title)
        for one in results
    ]
    parts = [f'<div class="charts">{_by_batch(rows)}</div>']
    for place, sweep in enumerate(told.get("sweeps", []), 1):
        parts.append(_sweep(sweep, f"Sweep {place}"))
    if told.get("agreement"):
        parts.append(f"<p>{_html.text(told['agreement'])}</p>")
    parts += [_result(result, f"r{place}") for place, result in enumerate(results)]
    return _html.document("aipu.bench", "".join(parts), under)


def _run(options: argparse.Namespace) -> int:
    with open(options.results, encoding="utf-8") as file:
        told = json.load(file)
    if not isinstance(told, dict) or told.get("tool") != "aipu.bench":
        raise ValueError(f"'{options.results}' is no result of aipu.bench")
    try:
        text = picture(told) if options.output.endswith(".svg") else page(told)
    except (KeyError, TypeError) as error:
        raise ValueError(f"'{options.results}' is no whole result of aipu.bench: {error!r}") from None
    _files.write_output(options.output, text)
    return 0


def main(arguments: Optional[List[str]] = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(
        prog="python -m aipu.bench page",
        description="Results as one page of HTML that needs nothing else. Measure with --layers for layers and "
        "roofline.",
        epilog="Exit codes: 0 all went well; 1 no results. "
        "Example: python -m aipu.bench page result.json -o result.html",
    )
    parser.add_argument("results", help="a JSON file of a measurement or a sweep")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the page (-: standard output); FILE.svg: its figures"
    )
    options = parser.parse_args(arguments)
    return run_program("aipu.bench page", lambda: _run(options))
