"""aipu.batch: a data set through a model, with nothing lost, nothing twice and the same bytes however it was ended."""

import errno
import io
import json
import os
import pathlib
import random
import resource
import subprocess
import sys

import aipu
import aipu.batch
import numpy as np
import pytest
from aipu import _progress
from aipu.batch import _run
from onnx_text import node, write_model
from other_python import python_with, run_python

SEED = int(os.environ.get("AIPU_TEST_SEED", "11"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """y = x + x of any size; z = x[0, i], which has no result for an i outside."""
    folder = tmp_path_factory.mktemp("batch")
    write_model(
        folder / "m.onnx",
        [node("Add", ["x", "x"], ["y"]), node("Gather", ["table", "i"], ["z"], axis=0)],
        [("x", "float32", ("N", "h", "w")), ("i", "int64", ("N",))],
        [("y", "float32", ("N", "h", "w")), ("z", "float32", ("N",))],
        constants={"table": np.arange(10, dtype=np.float32) * 10},
    )
    return aipu.build(folder / "m.onnx", folder / "m.aipu.bin")["output"]


def item_of(index, shapes=((2, 3), (4, 1), (2, 5))):
    height, width = shapes[index % len(shapes)]
    return {"x": np.full((height, width), index, np.float32), "i": np.array(index % 10)}


def check(rows, indices, of=item_of):
    rows = list(rows)
    assert [row.index for row in rows] == list(indices)
    for row in rows:
        item = of(row.index)
        np.testing.assert_array_equal(row.outputs["y"], 2 * item["x"])
        assert row.outputs["z"].shape == () and row.outputs["z"] == item["i"] * 10


def files_of(folder):
    return {path.name: path.read_bytes() for path in sorted(pathlib.Path(folder).iterdir())}


@pytest.mark.parametrize("form", ["npz", "npy", "jsonl"])
def test_mixed_shapes(model, form):
    """Items of different shapes, in batches of their own, come out in the order in which they went in."""
    report = aipu.batch.run(model, map(item_of, range(100)), "out", format=form, batch=4, chunk=32, sessions=2)
    assert (report.items, report.rows, report.broken, report.errors) == (100, 100, 0, "")
    check(aipu.batch.results("out"), range(100))
    assert not [name for name in os.listdir("out") if name.startswith(".")]
    before = files_of("out")
    again = aipu.batch.run(model, map(item_of, range(100)), "out", format=form, batch=4, chunk=32, sessions=2)
    assert again.resumed_at == again.items == 100 and files_of("out") == before


def test_batches(model, monkeypatch):
    """As few runs as the shapes allow, none larger than asked for."""
    sizes = []
    run = aipu.Session.run
    monkeypatch.setattr(aipu.Session, "run", lambda s, feed, *a: sizes.append(feed["x"].shape) or run(s, feed, *a))
    aipu.batch.run(model, map(item_of, range(48)), "out", batch=8, chunk=48, sessions=1)
    assert sizes == [(8, 2, 3)] * 2 + [(8, 4, 1)] * 2 + [(8, 2, 5)] * 2


def test_sources(model, tmp_path):
    """The same items from a folder, a list, an archive, arrays and paths."""
    items = [item_of(index, shapes=((2, 3),)) for index in range(20)]
    arrays = {name: np.stack([item[name] for item in items]) for name in ("x", "i")}
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    paths = []
    for index, item in enumerate(items):
        path = tmp_path / "folder" / ("deep" if index >= 10 else ".") / f"{index:02}.npz"
        np.savez(path, **item)
        paths.append(path)
    (tmp_path / "list.txt").write_text("".join(f"{path}\n" for path in paths))
    np.savez("plain.npz", **arrays)
    np.savez_compressed("small.npz", **arrays)
    sources = ["folder", "list.txt", "plain.npz", "small.npz", arrays, items, paths, (item for item in items)]
    for number, source in enumerate(sources):
        report = aipu.batch.run(model, source, f"out{number}", chunk=7)
        assert report.rows == 20, source
        check(aipu.batch.results(f"out{number}"), range(20), lambda index: item_of(index, ((2, 3),)))
    assert [row.name for row in aipu.batch.results("out0")][9:11] == ["09.npz", "deep/10.npz"]
    with pytest.raises(ValueError, match="expected a folder"):
        (tmp_path / "x.csv").write_text("")
        aipu.batch.run(model, "x.csv", "out")
    with pytest.raises(FileNotFoundError, match="there is no 'none'"):
        aipu.batch.run(model, "none", "out")


def square(path):
    """A preprocessing that processes can import."""
    return {"x": np.full((1, 1), float(pathlib.Path(path).read_text()), np.float32), "i": np.array(3)}


@pytest.mark.parametrize("processes", [False, True])
def test_preprocess_and_postprocess(model, tmp_path, processes):
    (tmp_path / "in").mkdir()
    for index in range(12):
        (tmp_path / "in" / f"{index:02}.txt").write_text(str(index) if index != 5 else "five")
    report = aipu.batch.run(
        model,
        "in",
        "out",
        preprocess=square,
        processes=processes,
        postprocess=lambda name, outputs: {"twice": outputs["y"].sum(), "file": np.array(len(name))},
    )
    assert (report.rows, report.broken) == (11, 1)
    rows = list(aipu.batch.results("out"))
    assert [float(row.outputs["twice"]) for row in rows] == [2.0 * i for i in range(12) if i != 5]
    assert report.first_broken[0].name == "05.txt" and "could not convert" in report.first_broken[0].error


def test_broken_inputs(model):
    """Each is listed with its reason, and takes nobody with it who was in its batch."""

    def items():
        for index in range(60):
            item = item_of(index)
            if index == 7:
                item["x"] = item["x"].astype(np.float64)
            elif index == 8:
                del item["i"]
            elif index == 21:
                item["i"] = np.array(99)  # no result; found only when the batch runs
            elif index == 30:
                item["x"] = item["x"][0]
            yield item

    report = aipu.batch.run(model, items(), "out", batch=4, chunk=16, sessions=2)
    assert (report.items, report.rows, report.broken) == (60, 56, 4)
    check(aipu.batch.results("out"), [i for i in range(60) if i not in (7, 8, 21, 30)])
    told = [json.loads(line) for line in pathlib.Path(report.errors).read_text().splitlines()]
    assert [one["index"] for one in told] == [7, 8, 21, 30] == [one.index for one in report.first_broken]
    for one, text in zip(told, ["expected float32, found float64", "no value for input 'i'", "Gather", "shapes of"]):
        assert text in one["error"]
    assert not [name for name in os.listdir("out") if name.startswith("part-") and "errors" in name]
    with pytest.raises(aipu.batch.TooManyBroken, match="more than 1"):
        aipu.batch.run(model, items(), "few", batch=4, chunk=16, max_broken=1)
    all_bad = aipu.batch.run(model, ({"x": 1} for _ in range(5)), "bad", chunk=2)
    assert (all_bad.rows, all_bad.broken) == (0, 5) and list(aipu.batch.results("bad")) == []


def test_batches_of_the_model(tmp_path):
    """A fixed batch is filled up; items of full rank are rows, or a run of their own."""
    relu = [node("Relu", ["x"], ["y"])]
    write_model("four.onnx", relu, [("x", "float32", (4, 2))], [("y", "float32", (4, 2))])
    values = np.arange(-10, 10, dtype=np.float32).reshape(10, 2)
    aipu.batch.run(aipu.load(aipu.build("four.onnx")["output"]), values, "four")
    np.testing.assert_array_equal([row.outputs["y"] for row in aipu.batch.results("four")], np.maximum(values, 0))
    with pytest.raises(ValueError, match="takes 4 at once"):
        aipu.batch.run("four.aipu.bin", values, "other", batch=3)
    write_model("any.onnx", relu, [("x", "float32", ("N", 2))], [("y", "float32", ("N", 2))])
    parts = [values[:3], values[3:4], values[4:]]
    aipu.batch.run(aipu.build("any.onnx")["output"], parts, "any", batch=8)
    for row, part in zip(aipu.batch.results("any"), parts):
        np.testing.assert_array_equal(row.outputs["y"], np.maximum(part, 0))
    write_model(
        "sum.onnx",
        [node("Add", ["x", "c"], ["s"]), node("ReduceSum", ["s"], ["y"], keepdims=0)],
        [("x", "float32", ("N", 2)), ("c", "float32", ())],
        [("y", "float32", ())],
    )
    binary = aipu.build("sum.onnx")["output"]
    aipu.batch.run(binary, parts, "sum", constants={"c": 1})
    assert [float(row.outputs["y"]) for row in aipu.batch.results("sum")] == [float((p + 1).sum()) for p in parts]
    with pytest.raises(ValueError, match="does not give a row per input"):
        aipu.batch.run(binary, list(values), "rows", batch=2, constants={"c": 1})


# Runs a data set and kills itself with SIGKILL at the N-th of the operations that a crash could come between.
KILLED = """
import os, signal, sys
import numpy as np
import aipu, aipu.batch
model, output, form, moment = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
left = [moment]

def counted(function):
    def call(*arguments, **keywords):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **keywords)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return call

if moment:
    for name in ("fsync", "replace", "unlink"):
        setattr(os, name, counted(getattr(os, name)))

def items():
    for index in range(90):
        if index % 23 == 5:
            yield {"x": np.zeros(3, "float64"), "i": np.array(1)}
        else:
            shape = ((2, 3), (4, 1), (2, 5))[index % 3]
            yield {"x": np.full(shape, index / 7, np.float32), "i": np.array(index % 10)}

report = aipu.batch.run(model, items(), output, format=form, batch=4, chunk=8, sessions=2)
print(report.items, report.rows, report.broken, report.resumed_at)
"""


@pytest.mark.parametrize("form", ["npz", "npy"])
def test_killed_at_random_moments(model, tmp_path, form):
    """Runs that are killed with SIGKILL, again and again, and then end: the bytes of one that was not."""
    (tmp_path / "killed.py").write_text(KILLED)

    def play(output, moment):
        command = [sys.executable, "killed.py", model, output, form, str(moment)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    whole = play("whole", 0)
    assert whole.returncode == 0 and whole.stdout.split() == ["90", "86", "4", "0"], whole.stderr
    moments = random.Random(SEED)
    kills = 0
    while kills < 10:
        done = play("out", moments.randint(1, 24 if form == "npz" else 40))
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stderr
        kills += 1
        if os.path.exists("out/manifest.json"):
            told = json.loads(pathlib.Path("out/manifest.json").read_text())
            assert len(list(aipu.batch.results("out"))) == told["rows"]
    last = play("out", 0)
    assert last.returncode == 0 and last.stdout.split()[:3] == ["90", "86", "4"] and kills >= 5, (last.stderr, kills)
    assert files_of("out") == files_of("whole")


def test_what_does_not_belong_together(model):
    values = [item_of(index) for index in range(8)]
    aipu.batch.run(model, values, "out", batch=4)
    for arguments, what in (({"batch": 2}, "batch"), ({"format": "npy"}, "format"), ({"outputs": ["y"]}, "outputs")):
        with pytest.raises(ValueError, match=f"another {what}"):
            aipu.batch.run(model, values, "out", **{"batch": 4, **arguments})
    with pytest.raises(ValueError, match="another inputs"):
        aipu.batch.run(model, values[:7], "out", batch=4)
    aipu.batch.run(model, values[:7], "out", batch=2, restart=True)
    check(aipu.batch.results("out"), range(7))
    os.unlink("out/manifest.json")
    os.rename("out/part-000000.npz", "out/part-000003.npz")
    with pytest.raises(ValueError, match="no manifest.json"):
        aipu.batch.run(model, values, "out")


def test_one_process_at_a_time(model):
    os.mkdir("out")
    with aipu._files.locked("out/.lock"), pytest.raises(BlockingIOError, match="another process is writing to .out.$"):
        aipu.batch.run(model, [item_of(0)], "out")
    assert aipu.batch.run(model, [item_of(0)], "out").rows == 1


class Room(io.StringIO):
    """A stream that makes room when it is told that there is none."""

    def __init__(self, make_room):
        super().__init__()
        self._make_room = make_room

    def write(self, text):
        if "disk is full" in text:
            self._make_room()
        return super().write(text)


def test_disk_full_injected(model, monkeypatch):
    """Some writes fail for want of room: the run stops and goes on, or waits, and the bytes are the same."""
    values = [item_of(index) for index in range(40)]
    aipu.batch.run(model, values, "whole", batch=4, chunk=8)
    write = aipu._files.write_durably
    failing = random.Random(SEED)

    def sometimes(path, data, *sync):
        if failing.random() < 0.4:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data, *sync)

    monkeypatch.setattr(aipu._files, "write_durably", sometimes)
    stops = 0
    while True:
        try:
            aipu.batch.run(model, values, "stops", batch=4, chunk=8)
            break
        except aipu.batch.DiskFull as error:
            assert error.errno == errno.ENOSPC and "give the same command again" in str(error)
            stops += 1
    assert stops >= 2 and files_of("stops") == files_of("whole")
    shown = io.StringIO()
    aipu.batch.run(model, values, "waits", batch=4, chunk=8, on_disk_full="wait", retry_seconds=0, progress=shown)
    assert "the disk is full" in shown.getvalue() and files_of("waits") == files_of("whole")

    def broken_disk(path, data, *sync):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(aipu._files, "write_durably", broken_disk)
    with pytest.raises(OSError, match="Input/output"):
        aipu.batch.run(model, values, "broken", on_disk_full="wait")


def test_disk_full_indeed(model, tmp_path):
    (tmp_path / "disk").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path / "disk")]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("no right to mount a small tmpfs")
    try:
        values = [{"x": np.full((20, 20), index, np.float32), "i": np.array(1)} for index in range(60)]
        ballast = tmp_path / "disk" / "ballast"
        ballast.write_bytes(b"x" * 150_000)
        with pytest.raises(aipu.batch.DiskFull, match="the disk is full"):
            aipu.batch.run(model, values, "disk/out", batch=4, chunk=8)
        before = json.loads(pathlib.Path("disk/out/manifest.json").read_text())["items"]
        assert 0 < before < 60 and len(list(aipu.batch.results("disk/out"))) == before
        shown = Room(lambda: ballast.unlink(missing_ok=True))
        report = aipu.batch.run(
            model, values, "disk/out", batch=4, chunk=8, on_disk_full="wait", retry_seconds=0, progress=shown
        )
        assert report.resumed_at == before and report.rows == 60 and "the disk is full" in shown.getvalue()
        assert len(list(aipu.batch.results("disk/out"))) == 60
    finally:
        subprocess.run(["umount", str(tmp_path / "disk")], check=True)


def test_memory_is_flat(model):
    """The peak of a process that runs many items is that of one that runs few. AIPU_LARGE_TESTS: 100,000."""
    many = 100_000 if os.environ.get("AIPU_LARGE_TESTS") else 6_000
    script = (
        "import resource, sys, numpy as np, aipu.batch\n"
        "def items(count):\n"
        "    for index in range(count):\n"
        "        shape = (64, 32 + index % 7)\n"
        "        kind = np.float64 if index % 100 == 50 else np.float32\n"
        "        yield {'x': np.full(shape, index, kind), 'i': np.array(index % 10)}\n"
        "count = int(sys.argv[2])\n"
        "report = aipu.batch.run(sys.argv[1], items(count), sys.argv[3], chunk=64, sessions=2)\n"
        "assert (report.items, report.broken) == (count, count // 100), report\n"
        "assert sum(1 for row in aipu.batch.results(sys.argv[3])) == count - count // 100\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    pathlib.Path("many.py").write_text(script)
    peaks = [int(run_python(sys.executable, "many.py", model, n, f"out{n}", timeout=1500)) for n in (1_000, many)]
    assert peaks[1] < peaks[0] + 24 * 1024, peaks  # KiB; the outputs of the larger run take 100 MB or more


def test_weights_are_in_memory_once(tmp_path):
    """Sessions share the mapped file: the proportional size of eight is not eight times the weights."""
    if not os.path.exists("/proc/self/smaps"):
        pytest.skip("no /proc/self/smaps")
    weights = np.random.default_rng(1).standard_normal((1024, 4096)).astype(np.float32)
    write_model(
        "w.onnx",
        [node("MatMul", ["x", "w"], ["y"])],
        [("x", "float32", ("N", 1024))],
        [("y", "float32", ("N", 4096))],
        constants={"w": weights},
    )
    binary = aipu.build("w.onnx")["output"]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    values = np.random.default_rng(2).standard_normal((64, 1024)).astype(np.float32)
    aipu.batch.run(binary, values, "eight", batch=1, chunk=4, sessions=8)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 3 * weights.nbytes, grown
    aipu.batch.run(binary, values, "one", batch=1, chunk=4, sessions=1)
    for eight, one in zip(aipu.batch.results("eight"), aipu.batch.results("one")):
        np.testing.assert_array_equal(eight.outputs["y"], one.outputs["y"])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress():
    now = [0.0]
    shown = Terminal()
    progress = _progress.Progress(shown, 1000, 0, lambda: now[0])
    now[0] = 2.0
    progress.update(100, 3)
    assert (
        shown.getvalue() == "\r[##----------------------] 100/1,000 items  50.0 items/s  0:00:18 left  3 broken\x1b[K"
    )
    now[0] = 2.1
    progress.update(101, 3)
    assert shown.getvalue().count("\r") == 1  # not drawn so often
    now[0] = 4.0
    progress.update(1000, 3, last=True)
    assert shown.getvalue().endswith("1,000/1,000 items  250.0 items/s  0:00:00 left  3 broken\x1b[K\n")
    plain = io.StringIO()
    progress = _progress.Progress(plain, None, 50, lambda: now[0])
    now[0] += 9
    progress.update(60, 0)
    now[0] += 1
    progress.update(70, 0)
    assert plain.getvalue() == "70 items  2.0 items/s\n"


def test_errors_of_the_machine_are_no_broken_inputs(model):
    def out_of_files(value):
        raise OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(OSError, match="Too many open files"):
        aipu.batch.run(model, [item_of(0)], "out", preprocess=out_of_files)


def test_program(model, tmp_path):
    arrays = {"x": np.ones((30, 2, 3), np.float32), "i": np.arange(30) % 10}
    np.savez("in.npz", **arrays)
    (tmp_path / "own.py").write_text(
        "def double(row):\n    return {'x': 2 * row['x'], 'i': row['i']}\n\n\n"
        "def first(name, outputs):\n    return {'first': outputs['y'][0, 0]}\n"
    )

    def program(*arguments):
        command = [sys.executable, "-m", "aipu.batch", model, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    own = ["--preprocess", "own:double", "--postprocess", "own:first", "--outputs", "y"]
    done = program("in.npz", "-o", "out", "--format", "jsonl", "--batch", "4", *own)
    assert done.returncode == 0, done.stderr
    assert "30 items: 30 results, 0 broken" in done.stdout and "30/30 items" in done.stderr
    assert [float(row.outputs["first"]) for row in aipu.batch.results("out")] == [4.0] * 30
    again = program("in.npz", "-o", "out", "--format", "jsonl", "--batch", "4", *own, "-q", "--json", "-")
    assert json.loads(again.stdout)["resumed_at"] == 30 and again.stderr == ""
    other = program("in.npz", "-o", "out")
    assert other.returncode == 1 and "is of a run with another format" in other.stderr
    assert program("in.npz").returncode == 2 and program("in.npz", "-o", "o", "--preprocess", "no:f").returncode == 2
    arrays["i"][3] = 77
    np.savez("bad.npz", **arrays)
    bad = program("bad.npz", "-o", "bad")
    assert bad.returncode == 0 and "29 results, 1 broken" in bad.stdout and "broken: 3: ValueError" in bad.stdout


TABLES = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
import aipu.batch

model = sys.argv[1]
count = 500
x = [np.full((2, 3), index, np.float32).reshape(-1).tolist() for index in range(count)]
x[77] = None
table = pa.table({
    "x": pa.array(x, pa.list_(pa.float32())),
    "x.shape": pa.array([[2, 3]] * count, pa.list_(pa.int32())),
    "i": pa.array([index % 10 for index in range(count)], pa.int32()),
    "text": [f"row {index}" for index in range(count)],
})
pq.write_table(table, "in.parquet", row_group_size=90)
with pa.OSFile("in.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
    writer.write_table(table, max_chunksize=70)
import os
os.mkdir("both")
pq.write_table(table.slice(0, 200), "both/a.parquet")
pq.write_table(table.slice(200), "both/b.parquet")

def check(folder):
    rows = list(aipu.batch.results(folder))
    assert [row.index for row in rows] == [index for index in range(count) if index != 77]
    for row in rows:
        np.testing.assert_array_equal(row.outputs["y"], np.full((2, 3), 2 * row.index, np.float32))
        assert row.outputs["y"].dtype == np.float32 and row.outputs["z"] == row.index % 10 * 10

for number, source in enumerate(["in.parquet", "in.arrow", table, "both"]):
    out = f"out{number}"
    report = aipu.batch.run(model, source, out, format="parquet", batch=8, chunk=50)
    assert (report.rows, report.broken) == (499, 1) and "'x' is null" in report.first_broken[0].error, report
    check(out)
whole = pq.read_table([f"out0/{name}" for name in sorted(os.listdir("out0")) if name.endswith(".parquet")])
assert whole.num_rows == 499 and whole.column_names == ["item.index", "item.name", "y", "y.shape", "z"]

# From any row on, and rows for a function of one's own.
from aipu.batch._sources import Table
for start in (0, 1, 89, 90, 91, 269, 270, 499, 500):
    for path in ("in.parquet", "in.arrow"):
        assert [item.index for item in Table([path], None, ["x", "i"], False).items(start)] == list(range(start, 500))

def of_row(row):
    number = int(row["text"].split()[1])
    return {"x": np.full((2, 3), number, np.float32), "i": np.array(number % 10)}

report = aipu.batch.run(model, "in.parquet", "own", preprocess=of_row)
assert report.rows == 500
try:
    aipu.batch.run(model, table.drop_columns(["i"]), "missing")
except ValueError as error:
    assert "no column i" in str(error)
else:
    raise AssertionError
"""


def test_tables(model):
    python = python_with("numpy, pyarrow")
    pathlib.Path("tables.py").write_text(TABLES)
    run_python(python, "tables.py", model)


def test_tables_need_pyarrow(model):
    script = (
        "import sys; sys.modules['pyarrow'] = None\nimport aipu.batch\nopen('x.parquet', 'w')\n"
        "aipu.batch.run(sys.argv[1], 'x.parquet', 'out')"
    )
    done = subprocess.run([sys.executable, "-c", script, model], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "need the package pyarrow" in done.stderr


def test_order_does_not_depend_on_speed(model, monkeypatch):
    """The first chunk is the last to be ready: nothing is committed before it."""
    import threading

    later = threading.Event()
    play = _run._Player.play

    def slow_first(self, number, items, futures):
        if number == 0:
            assert later.wait(60)
        done = play(self, number, items, futures)
        if number == 1:
            later.set()
        return done

    monkeypatch.setattr(_run._Player, "play", slow_first)
    aipu.batch.run(model, map(item_of, range(40)), "out", batch=4, chunk=4, sessions=2)
    check(aipu.batch.results("out"), range(40))
