"""aipu.bench in scenarios: results, their JSON, compare, history, sweeps and pages, and data sets of all kinds."""

import dataclasses
import json
import math
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree

import aipu.bench
import numpy as np
import pytest
from aipu import _test_data
from aipu.bench import _benchmark, _data, _history, _judge, _options, _page, _play, _scenario, _sweep
from aipu.bench._scenario import Setting
from onnx_text import element_type, node, write_model

X = {"x": (4, 64)}
QUICK = ["--seconds", "0.01", "--turns", "3"]


@pytest.fixture
def model():
    write_model(
        "m.onnx",
        [node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["y"])],
        [("x", "float32", ("N", 64))],
        [("y", "float32", ("N", 64))],
        constants={"w": np.eye(64, dtype=np.float32) * 2},
    )
    return "m.onnx"


def program(*arguments, **options):
    command = [sys.executable, "-m", "aipu.bench", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)


def measured(model, *arguments):
    """The result of a run of the program."""
    done = program(model, "--json", "-", *QUICK, *arguments)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    return result


@pytest.mark.parametrize("scenario", list(aipu.bench.SCENARIOS))
def test_scenarios(model, scenario):
    options = ["--scenario", scenario] + (["--rate", "300", "--seconds", "0.1"] if scenario == "server" else [])
    result = measured(model, *options, "--batch", "4", "--sessions", "2", "--threads", "1")
    assert result["inputs"] == [["x", "float32", [4, 64]]] and result["sessions"] == 2
    assert result["unfinished"] == 0 or scenario == "server"  # a busy machine may be late for the server's last query
    assert result["unit"] == ("samples/s" if scenario == "offline" else "s") and len(result["hash"]) == 64
    assert sum(result["histogram"]["counts"]) == result["queries"] > 0
    low, high = result["latency_ms"]["min"], result["latency_ms"]["max"]
    assert 0 < low <= result["latency_ms"]["p50"] <= result["latency_ms"]["p99"] <= high
    if scenario == "server":
        assert result["samples"] == result["queries"]
    else:
        assert result["samples"] == 4 * result["queries"]
    assert result["memory"]["points"][0][1] > 1e6 and result["warm_up"]["runs"] > 2


def test_batches_and_shapes(model):
    """A batch is rows of the first axis; shapes that are open or contradict it are refused with what to type."""
    assert measured(model, "--shape", "x=3x64")["batch"] == 3
    for arguments, words in (
        (["m.onnx"], "give --shape x=1x64, or"),
        (["m.onnx", "--shape", "x=3x64", "--batch", "2"], "input 'x' has the shape [3, 64]"),
        (["m.onnx", "--batch", "0"], "at least 1"),
        (["m.onnx", "--batch", "1", "--threads", "999"], "threads are asked for, a session has at most"),
        (["m.onnx", "--batch", "1", "--scenario", "server"], "needs --rate"),
        (["m.onnx", "--batch", "1", "--rate", "5"], "are of --scenario server"),
        (["m.onnx", "--batch", "1", "--scenario", "server", "--find-peak"], "--latency 10ms"),
        (["m.onnx", "--batch", "1", "--pin", "4000"], "cores 4000"),
        (["none.onnx"], "none.onnx"),
    ):
        done = program(*arguments, *QUICK)
        assert done.returncode == 1 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr
    for arguments in (["--processes", "0"], ["--expect", "x"], ["--raw"], ["--seconds", "-1s"], ["--accuracy", "x"]):
        assert program("m.onnx", *arguments).returncode == 2
    write_model("two.onnx", [node("Add", ["a", "b"], ["y"])], [("a", "float32", ("N",)), ("b", "float32", (1,))],
                [("y", "float32", ("N",))])  # fmt: skip
    done = program("two.onnx", "--batch", "2", *QUICK)
    assert done.returncode == 1 and "no axis of samples" in done.stderr
    assert measured("two.onnx", "--shape", "a=7")["batch"] == 1


def test_overload_is_told(model):
    """A million queries in a tenth of a second; the program ends, says so, and the bound is not kept."""
    server = [model, "--scenario", "server", "--rate", "1e7", "--seconds", "0.1", "--batch", "1"]
    done = program(*server, "--latency", "1ms", "--json", "out.json")
    assert done.returncode == 1 and "note: OVERLOADED: " in done.stdout and "p99 never" in done.stdout, done.stdout
    assert "1 ms at 99 % is NOT kept" in done.stdout
    with open("out.json") as file:
        (result,) = json.load(file)["results"]
    assert result["unfinished"] > 0 and result["latency_ms"]["p99"] is None and result["figure"] == [None] * 3
    assert _benchmark.of_told(result).latency_ms["p99"] is None


def test_find_peak(model):
    result = measured(
        model, "--scenario", "server", "--find-peak", "--latency", "50ms", "--seconds", "0.05", "--batch", "2"
    )
    assert result["unit"] == "queries/s" and result["higher_is_better"] and result["figure"][0] > 100
    assert any(kept for _, _, kept in result["peak"]) and not all(kept for _, _, kept in result["peak"])


def result_of(processes, model="m.onnx", unit="s", **changes):
    """A result with these figures of processes."""
    fields = {field.name: None for field in dataclasses.fields(_benchmark.Benchmark)}
    fields.update(
        model=model, scenario="single-stream", inputs=[("x", "float32", [1, 64])], data="random", target="host-avx2",
        unit=unit, higher_is_better=unit != "s", figure=[processes[0]] * 3, samples_per_second=[1, 1, 1], batch=1,
        sessions=1, threads=1, delay_ms=0.0, rate=0.0, percentile=90, processes=[[one] for one in processes], notes=[],
    )  # fmt: skip
    fields.update(changes)
    return _benchmark.Benchmark(**fields)


def write_result(name, *results, label="", time="2026-01-01T00:00:00Z"):
    told = {"tool": "aipu.bench", "machine": {"cpu": "c"}, "label": label, "time": time,
            "results": [dataclasses.asdict(result) for result in results]}  # fmt: skip
    pathlib.Path(name).write_text(json.dumps(told))


def test_compare():
    times = [0.100, 0.101, 0.102, 0.1015, 0.1005]
    slow = [1.05 * time for time in times]
    write_result("a.json", result_of(times))
    write_result("b.json", result_of(slow, target="host-avx512"))
    done = program("compare", "a.json", "b.json", "--json", "out.json")
    assert done.returncode == 1 and "1.05 times as long" in done.stdout and "SLOWER" in done.stdout, done.stderr
    with open("out.json") as file:
        (verdict,) = json.load(file)["verdicts"]
    assert verdict["verdict"] == "slower" and verdict["low"] > 1.02 and verdict["times"] == pytest.approx(1.05)
    done = program("compare", "b.json", "a.json")
    assert done.returncode == 0 and "faster" in done.stdout
    done = program("compare", "a.json", "a.json", "a.json")
    assert done.returncode == 0 and done.stdout.count("no difference") == 2
    # Of throughput, less is slower.
    write_result("c.json", result_of(times, unit="samples/s"))
    write_result("d.json", result_of(slow, unit="samples/s"))
    assert program("compare", "c.json", "d.json").returncode == 0
    assert program("compare", "d.json", "c.json").returncode == 1
    # Two measurements: each has half of what may go wrong, for which five processes are too few.
    write_result("e.json", result_of(times), result_of(times, model="n.onnx"))
    done = program("compare", "e.json", "e.json")
    assert done.returncode == 2 and "--processes 6 or more" in done.stderr
    pathlib.Path("no.json").write_text("{}")
    write_result("few.json", result_of(times[:3]))
    for other in ("no.json", "none.json", "few.json", "c.json"):
        done = program("compare", "a.json", other)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr


def test_compare_of_what_was_overloaded():
    times, never = [0.1, 0.101, 0.102, 0.103, 0.104], [None] * 5
    assert _judge.judge(result_of(times), result_of(never)).verdict == "slower"
    assert _judge.judge(result_of(never), result_of(times)).verdict == "faster"
    assert _judge.judge(result_of(never), result_of(never)).verdict == "no difference"


def recorded_noise():
    """Per process run of a real machine, the times of runs over the median of all: see the head of the file."""
    path = pathlib.Path(os.environ["AIPU_SOURCE_DIR"]) / "tests" / "python" / "recorded_noise.txt"
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [np.array(line.split(), float) for line in lines]


def test_compare_with_recorded_noise():
    """Of 100 comparisons of the same, at least 95 find no difference; 3 % are found. Processes in virtual time, whose
    runs take what processes on a machine took.
    """
    noise = recorded_noise()
    assert len(noise) >= 30 and all(len(one) >= 20 for one in noise)
    random_ = random.Random(17)

    def process(factor):
        one = noise[random_.randrange(len(noise))]
        start = random_.randrange(len(one))
        player = _play.VirtualPlayer(1, lambda batch: 0.01 * factor * one[(start + batch.first) % len(one)])
        trial = _scenario.play(player, Setting(seconds=0.5, percentile=50))
        return trial.latency(50)

    def verdict(factor):
        before, after = ([process(f) for _ in range(16)] for f in (1.0, factor))
        return _judge.judge(result_of(before), result_of(after)).verdict

    same = [verdict(1.0) for _ in range(100)]
    assert same.count("no difference") >= 95, same
    assert [verdict(1.03) for _ in range(100)].count("slower") >= 95
    assert [verdict(1 / 1.03) for _ in range(100)].count("faster") >= 95


def test_processes_are_joined(model):
    done = program(model, *QUICK, "--batch", "1", "--processes", "2", "--json", "out.json")
    assert done.returncode == 0 and "2 processes, 6 repetitions" in done.stdout, done.stderr
    with open("out.json") as file:
        (result,) = json.load(file)["results"]
    assert len(result["processes"]) == 2 and sum(result["histogram"]["counts"]) == result["queries"]
    done = program("no.onnx", "--processes", "2")
    assert done.returncode == 1 and "process 1 of 2: aipu.bench: " in done.stderr


def test_history():
    os.mkdir("results")
    for number, (label, factor) in enumerate([("first", 1.0), ("second", 1.0), ("third", 1.2)]):
        times = [factor * time for time in (0.100, 0.101, 0.102, 0.1015, 0.1005)]
        write_result(f"results/{9 - number}.json", result_of(times), label=label, time=f"2026-01-0{number + 1}")
    pathlib.Path("results/other.json").write_text("[]")
    done = program("history", "results", "--html", "h.html")
    assert done.returncode == 0 and "left out: 'results/other.json'" in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].endswith("▁▁█") and [line.split()[1] for line in lines[1:]] == ["first", "second", "third"]
    assert lines[2].endswith("no difference") and lines[3].endswith("slower")
    assert "third" in pathlib.Path("h.html").read_text()
    os.mkdir("empty")
    assert program("history", "empty").returncode == 1
    assert len(_history.history("results")[0][0]) == 3


CONFIGURATIONS = [
    _sweep.Configuration("m.onnx", "", False, "", (), batch, threads, sessions)
    for batch in (1, 2, 4, 8)
    for threads in (1, 2)
    for sessions in (1, 2)
]


def ideal(c):
    """A machine of two cores on which batches help and threads do half: samples per second and latency."""
    cores = min(2, c.sessions * c.threads)
    seconds = (0.002 + 0.001 * c.batch) / (1.5 if c.threads == 2 else 1) * c.sessions * c.threads / cores
    return c.sessions * c.batch / seconds, seconds


def test_sweep_finds_the_best():
    noise = np.random.default_rng(8)

    def measure(c):
        if c.threads == 2 and c.sessions == 2 and c.batch == 8:
            raise ValueError("out\nof memory")
        rate, seconds = ideal(c)
        factor = noise.lognormal(0, 0.01)
        return _sweep.Point(rate / factor, seconds * factor)

    steps = []
    swept = _sweep.sweep(CONFIGURATIONS, measure, after_each=lambda done, failed: steps.append((done, failed)))
    assert swept.best.configuration[-3:] == (8, 1, 2) and swept.as_good == []
    assert [row.failure for row in swept.rows if row.failure] == ["out of memory"]
    assert steps[-1][1] == 1 and [done for done, _ in steps] == list(range(1, len(steps) + 1))
    assert any(row.dropped for row in swept.rows) and swept.rows[0].dropped
    words = swept.best.configuration.command(0.05)
    assert words.startswith("python3 -m aipu.bench m.onnx --scenario offline --batch 8 --threads 1 --sessions 2")
    again = _sweep.sweep(CONFIGURATIONS, measure, seed=2)
    assert _sweep.agreement(swept, again) == (True, "the second sweep finds the same configuration")
    bound = _sweep.sweep(CONFIGURATIONS, measure, bound=0.0035)
    assert bound.best.configuration[-3:] == (2, 2, 1)
    assert _sweep.sweep(CONFIGURATIONS, measure, bound=1e-6).best is None


def test_sweeps_that_differ():
    """Equal configurations are as good as each other whichever comes first; ones that are not, are not."""
    noise = np.random.default_rng(9)

    def nearly(c):
        return _sweep.Point(1000 * noise.lognormal(0, 0.02), 0.001)

    def other(better):
        return lambda c: _sweep.Point(1000 if c.batch == better else 900, 0.001)

    sweeps = [_sweep.sweep(CONFIGURATIONS, nearly, seed=seed) for seed in range(2)]
    same, text = _sweep.agreement(*sweeps)
    assert same and ("as good within noise" in text or "the same" in text)
    assert all(len(one.as_good) > 8 for one in sweeps)
    same, text = _sweep.agreement(_sweep.sweep(CONFIGURATIONS, other(1)), _sweep.sweep(CONFIGURATIONS, other(8)))
    assert not same and "DIFFERS" in text


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_two_sweeps_of_the_program(noise, monkeypatch, capsys):
    """Batch 1..32 x threads 1..2 x sessions 1..2 on a machine whose times are known: the sweep names the best, or what
    is as good within noise, and the second one says that it finds the same.
    """
    random_ = np.random.default_rng(11)
    measured_ = []

    def of_the_machine(options):
        def measure(c):
            measured_.append(c)
            rate, seconds = ideal(c)
            factor = random_.lognormal(0, noise) if noise else 1.0
            return _sweep.Point(rate / factor, seconds * factor)

        return measure

    monkeypatch.setattr(_sweep, "_one", of_the_machine)
    arguments = ["mobilenet_v2.onnx", "--batch", "1..32", "--threads", "1,2", "--sessions", "1,2", "--again", "-q"]
    assert _sweep.main([*arguments, "--json", "sweep.json"]) == 0
    told = capsys.readouterr().out
    assert len(set(measured_)) == 6 * 2 * 2 and {c.batch for c in measured_} == {1, 2, 4, 8, 16, 32}
    with open("sweep.json") as file:
        sweeps = json.load(file)["sweeps"]
    best = max(ideal(c)[0] for c in measured_)
    for sweep in sweeps:
        (row,) = [row for row in sweep["rows"] if row["is_best"]]
        names = _sweep.Configuration._fields
        assert ideal(_sweep.Configuration(*(row[name] for name in names)))[0] >= (1 - 3 * noise) * best
    assert "best: python3 -m aipu.bench mobilenet_v2.onnx --scenario offline --batch 32 --threads" in told or noise
    assert "the second sweep finds the same configuration" in told or (noise and "as good within noise" in told)


def test_sweep_program(model):
    arguments = ["--batch", "1..2", "--threads", "1,999", "--rounds", "4", "--seconds", "0.01", "--again"]
    done = program("sweep", model, *arguments, "--csv", "s.csv", "--json", "s.json", "--html", "s.html")
    assert done.returncode in (0, 1) and "best: python3 -m aipu.bench m.onnx" in done.stdout, done.stderr
    assert "the second sweep finds" in done.stdout.lower() and "999 threads are asked for" in done.stdout
    command = re.search("best: (.*)", done.stdout)[1].split()
    again = subprocess.run([sys.executable, *command[1:], *QUICK], capture_output=True, text=True, check=False)
    assert again.returncode == 0 and "offline" in again.stdout, again.stderr
    assert len(pathlib.Path("s.csv").read_text().splitlines()) == 5
    with open("s.json") as file:
        assert [len(one["rows"]) for one in json.load(file)["sweeps"]] == [4, 4]
    assert 'class="throughput"' in pathlib.Path("s.html").read_text()
    assert program("sweep", model, "--batch", "q").returncode == 2


def test_sweep_over_precisions(model):
    """Each is measured as the conversion makes it; what it refuses is told, and the command repeats the best."""
    arguments = ["--precisions", "fp32,bf16,fp9", "--rounds", "4", "--seconds", "0.01", "-q"]
    done = program("sweep", model, *arguments, "--json", "p.json", "--html", "p.html")
    assert done.returncode == 0 and "fp9" in done.stdout, done.stderr
    with open("p.json") as file:
        rows = {row["precision"]: row for row in json.load(file)["sweeps"][0]["rows"]}
    assert len(rows["fp32"]["samples_per_second"]) >= 3 and len(rows["bf16"]["samples_per_second"]) >= 3
    assert "precision" in rows["fp9"]["failure"] and "bf16" in pathlib.Path("p.html").read_text()
    command = re.search("best: (.*)", done.stdout)[1].split()
    assert command[-2] == "--model-precision" and rows[command[-1]]["is_best"]
    again = subprocess.run([sys.executable, *command[1:], *QUICK], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr


def check_page(text, *kinds):
    """What a page has, and that it loads nothing."""
    for kind in kinds:
        assert f'<figure class="{kind}">' in text, kind
    assert not re.search(r"https?:|src=|@import|url\(|<link", text)
    assert text.count("<svg") == text.count("</svg>") >= len(kinds) and "prefers-color-scheme: dark" in text
    assert "@media print" in text and not re.search(r'(?:x|y|cx|cy|x1|y1|points|width|height)="[^"]*nan', text)
    targets = set(re.findall(r'id="([^"]*)"', text))
    links = re.findall(r'href="#([^"]*)"', text)
    assert len(targets) == len(re.findall(r'id="', text)) and set(links) <= targets
    return links


@pytest.fixture
def page(model):
    done = program(model, "--batch", "4", *QUICK, "--html", "page.html", "--json", "page.json", "--label", "<b>&")
    assert done.returncode == 0, done.stderr
    return pathlib.Path("page.html")


def test_page(page):
    text = page.read_text()
    links = check_page(text, "distribution", "repetitions", "memory", "roofline")
    assert any("node" in link for link in links) and any("layer" in link for link in links)
    assert "&lt;b&gt;&amp;" in text and "<b>&" not in text and "y_node" in text
    assert 'table class="sortable"' in text
    assert program("page", "page.json", "-o", "-").stdout == text
    pathlib.Path("bad.json").write_text("[]")
    assert program("page", "bad.json", "-o", "-").returncode == 1


def test_picture(page):
    """A file of SVG with the page's figures, that needs nothing else."""
    done = program("page", "page.json", "-o", "page.svg")
    assert done.returncode == 0, done.stderr
    text = pathlib.Path("page.svg").read_text()
    root = xml.etree.ElementTree.fromstring(text)
    kind = "{http://www.w3.org/2000/svg}"
    captions = [one.text for one in root.iter(f"{kind}text") if one.get("class") == "caption"]
    assert [caption.split()[0] for caption in captions] == ["Latency", "Each", "Memory", "Roofline:"]
    assert len(root.findall(f"{kind}g")) == 4 and len(list(root.iter(f"{kind}circle"))) >= 3
    assert not re.search(r"href|src=|@import|url\(|nan", text) and "prefers-color-scheme: dark" in text
    pathlib.Path("none.json").write_text('{"tool": "aipu.bench", "results": []}')
    assert program("page", "none.json", "-o", "none.svg").returncode == 1


def test_page_of_the_npu(model):
    aipu.build(model, "m.aipu.bin", target="X2_1204")
    result = measured("m.aipu.bin", "--batch", "2", "--layers")
    assert result["layers"]["cycles"]["total"] > 0 and "tec" in result["layers"]["cycles"]
    assert sum(row["operations"] for row in result["layers"]["rows"]) >= 2 * 2 * 64 * 64
    told = {"machine": {"cpu": "c", "cpus": 1, "target": "t", "system": "s"}, "results": [result]}
    text = _page.page(told)
    check_page(text, "cycles", "distribution")
    assert "of the larger" in text and "GFLOP/s" not in text
    rows = result["layers"]["rows"]
    assert all(
        "median_us" not in row and row["cycles"] >= max(row["compute_cycles"], row["dma_cycles"]) for row in rows
    )
    assert any(row["compute_cycles"] > 0 and row["bound"] in ("compute", "dma", "waits") for row in rows)


CHECK = """<script>
window.addEventListener("error", function (event) { document.title = "ERROR " + event.message; });
var table = document.querySelector("table.sortable"), head = table.tHead.rows[0].cells[1];
function column() { return Array.prototype.map.call(table.tBodies[0].rows, function (row) {
  return Number(row.cells[1].dataset.v); }); }
var seen = []; head.click(); seen.push(column()); head.click(); seen.push(column());
document.title = "SORTED " + JSON.stringify(seen) + " charts " + document.querySelectorAll("figure svg").length;
</script></body>"""


def test_page_in_a_browser(page):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no chromium (apt-get install chromium; run-tests.sh --full does)")
    pathlib.Path("checked.html").write_text(page.read_text().replace("</body>", CHECK))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom",
               f"--user-data-dir={os.getcwd()}/profile", f"file://{os.getcwd()}/checked.html"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r"<title>SORTED (\[.*\]) charts (\d+)</title>", done.stdout)
    assert found is not None, done.stdout[-2000:] + done.stderr[-2000:]
    down, up = json.loads(found[1])
    assert down == sorted(down, reverse=True) and up == sorted(up) and len(up) > 0 and int(found[2]) >= 4
    assert "CONSOLE" not in done.stderr, done.stderr


def test_layers_are_those_of_the_program(model):
    """Layers in the result: each command once, of the ONNX nodes, with operations and bytes."""
    layers = measured(model, "--batch", "4", "--layers")["layers"]
    assert layers["peak_operations"] > 1e8 and layers["peak_bytes"] > 1e8 and layers["cycles"] == {}
    product = [row for row in layers["rows"] if row["operations"] >= 2 * 4 * 64 * 64]
    assert len(product) == 1 and "y_node" in product[0]["nodes"] and product[0]["median_us"] > 0


def field(number, value):
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def tensor_bytes(name, dtype, shape, body):
    dims = b"".join(field(1, extent) for extent in shape)
    return dims + field(2, element_type(dtype)) + field(8, name.encode()) + body


def test_tensors_of_test_data(tmp_path):
    """Elements as bytes, as packed numbers, as floats one by one, and halves as their bits."""
    cases = [
        (np.array([[1.5, -2.0]], np.float32), field(9, struct.pack("<2f", 1.5, -2))),
        (np.array([[1.5, -2.0]], np.float32), field(4, struct.pack("<2f", 1.5, -2))),
        (np.array([3, 100], np.int64), field(7, b"\x03\x64")),
        (np.array([3, -1], np.int32), field(5, b"\x03" + b"\xff" * 9 + b"\x01")),
        (np.array([1.0], np.float16), field(5, b"\x80\x78")),
        (np.array([True, False]), field(5, 1) + field(5, 0)),
        (np.array([2.5], np.float64), field(10, struct.pack("<d", 2.5))),
    ]
    path = str(tmp_path / "t.pb")
    for array, body in cases:
        pathlib.Path(path).write_bytes(tensor_bytes("t", array.dtype.name, array.shape, body))
        name, found = _test_data.tensor_of(path)
        assert name == "t" and found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    for data in (b"", b"\xff" * 30, tensor_bytes("t", "float32", (3,), field(9, b"1234"))):
        pathlib.Path(path).write_bytes(data)
        with pytest.raises(ValueError, match="t.pb: "):
            _test_data.tensor_of(path)


def test_accuracy(model):
    """ONNX's test data: outputs are written, compared, and one that is wrong is found."""
    for number in range(3):
        x = np.full((1, 64), number - 1, np.float32)
        y = np.maximum(2 * x, 0) + (number == 2) * 0.1
        os.makedirs(f"data/test_data_set_{number}")
        for name, array in (("input", x), ("output", y)):
            body = b"\x4a" + struct.pack("<BB", 0x80, 2) + array.astype(np.float32).tobytes()
            data = tensor_bytes("x" if name == "input" else "y", "float32", (1, 64), body)
            pathlib.Path(f"data/test_data_set_{number}/{name}_0.pb").write_bytes(data)
    done = program(model, "--data", "data", "--accuracy", "out", "--batch", "2", "--sessions", "2")
    assert done.returncode == 1 and "OUTPUTS DIFFER of 1: 2" in done.stdout, done.stdout + done.stderr
    done = program(model, "--data", "data", "--accuracy", "out", "--tolerance", "0.1", "--json", "-")
    told = json.loads(done.stdout)["accuracy"]
    assert done.returncode == 0 and told["compared"] == 3 and told["error"] == pytest.approx(0.1 / 2.1, rel=1e-3)
    done = program(model, "--data", "data", "--accuracy", "two", "--expect", "out")
    assert done.returncode == 0 and "3 compared: largest error 0.00e+00" in done.stdout, done.stderr
    result = measured(model, "--data", "data", "--batch", "2")
    assert result["data"] == "data" and result["inputs"] == [["x", "float32", [2, 64]]]


def test_data_sets(model):
    rows = np.random.default_rng(1).normal(size=(6, 64)).astype(np.float32)
    np.savez("rows.npz", x=rows)
    os.mkdir("folder")
    for number, row in enumerate(rows):
        np.save(f"folder/{number}.npy", row)
    os.mkdir("raw")
    for number, row in enumerate(rows):
        row.tofile(f"raw/{number}.bin")
    for where, options in (("rows.npz", {}), ("folder", {}), ("raw", {"raw": True, "shapes": {"x": (1, 64)}})):
        spec = aipu.model.TensorSpec("x", "float32", ("N", 64))
        found = _data.load_all(_data.data_of(where, [spec], **options), [spec], 4)
        np.testing.assert_array_equal(np.concatenate([one.arrays["x"].reshape(1, 64) for one in found]), rows[:4])
    with pytest.raises(ValueError, match="give --shape x=1x64"):
        _data.data_of("raw", [spec], raw=True)
    with pytest.raises(ValueError, match="0.bin: 256 bytes, expected 512"):
        _data.load_all(_data.data_of("raw", [spec], raw=True, shapes={"x": (2, 64)}), [spec], 4)
    with pytest.raises(FileNotFoundError):
        _data.data_of("none", [spec])
    result = measured(model, "--data", "raw", "--raw", "--shape", "x=1x64", "--batch", "3", "--samples", "5")
    assert result["inputs"] == [["x", "float32", [3, 64]]]


def test_images(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="needs the package Pillow (tests/python/install.sh)")
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[:, 20:40] = (255, 128, 0)  # a stripe in the middle
    image.fromarray(pixels).save("i.png")
    made = _data.Image.parse("imagenet,size=16,crop=0.8").load("i.png", "float32")
    assert made.shape == (3, 16, 16) and made.dtype == np.float32
    np.testing.assert_allclose(made[0, 8, 8], (1 - 0.485) / 0.229, rtol=1e-5)
    np.testing.assert_allclose(made[2, 8, 8], (0 - 0.406) / 0.225, rtol=1e-5)
    assert _data.Image.parse("bytes,size=8,layout=nhwc").load("i.png", "uint8").shape == (8, 8, 3)
    assert _data.Image.parse("symmetric,size=9").load("i.png", "float16")[4, 4, 0] == 1
    spec = aipu.model.TensorSpec("image", "float32", ("N", 3, 16, 16))
    data = _data.data_of("i.png", [spec], image=_data.Image.parse("unit,size=16"))
    assert _data.load_all(data, [spec], 5)[0].arrays["image"].max() == 1


def test_words_of_the_command_line():
    assert _options.numbers("1..32") == [1, 2, 4, 8, 16, 32] and _options.numbers("3,1") == [3, 1]
    assert [_options.duration(text) for text in ("10ms", "500us", "2s", "2")] == [0.01, 0.0005, 2, 2]
    for parse, text in ((_options.duration, "5h"), (_options.duration, "-1"), (_options.numbers, "1..x")):
        with pytest.raises(Exception, match="expected"):
            parse(text)
    for text in ("photo", "imagenet,size", "imagenet,size=x", "imagenet,layout=chw", "imagenet,mean=1", "unit,size=0"):
        with pytest.raises(ValueError, match="expected|preset|is no"):
            _data.Image.parse(text)
    assert _data.Image.parse("imagenet,mean=0:0:0.5").mean == (0, 0, 0.5) and math.isclose(_data.Image().crop, 0.875)
