"""A model in a worker process: shared by a machine, on cores of its own, reloaded when it is replaced."""

import os
import subprocess
import sys

import aipu
import numpy as np
import pytest
from aipu import _worker
from onnx_text import node, write_model


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """A machine's folders of its own."""

    def folder(name):
        path = tmp_path / "machine" / name
        assert aipu._files.folder_problem(str(path)) == ""
        return str(path)

    monkeypatch.setattr(aipu._files, "machine_folder", folder)
    return tmp_path / "machine"


def build(path, factor):
    """y = factor * x over [N, w], and z = table[i]."""
    write_model(
        "m.onnx",
        [node("Mul", ["x", "f"], ["y"]), node("Gather", ["table", "i"], ["z"], axis=0)],
        [("x", "float32", ("N", "w")), ("i", "int64", ("N",))],
        [("y", "float32", ("N", "w")), ("z", "float32", ("N",))],
        constants={"f": np.float32(factor), "table": np.arange(4, dtype=np.float32)},
    )
    return aipu.build("m.onnx", path)["output"]


def feed_of(rows, width=2, index=1):
    return {"x": np.arange(rows * width, dtype=np.float32).reshape(rows, width), "i": np.full(rows, index)}


def test_replaced_by_rename(tmp_path):
    """The batch after a rename runs by the new file; what is no model, and a moment without a file, change nothing."""
    model = _worker.NodeModel(build("m.aipu.bin", 2), pin=False)
    np.testing.assert_array_equal(model.run(feed_of(3))["y"], 2 * feed_of(3)["x"])
    os.replace(build("new.aipu.bin", 5), "m.aipu.bin")
    np.testing.assert_array_equal(model.run(feed_of(3))["y"], 5 * feed_of(3)["x"])
    (outputs,) = model.run_many([feed_of(1)])
    np.testing.assert_array_equal(outputs["y"], 5 * feed_of(1)["x"])
    assert model.reloads == 1
    (tmp_path / "bad").write_bytes(b"no model")
    os.replace("bad", "m.aipu.bin")
    with pytest.warns(RuntimeWarning, match="stays as it was"):
        np.testing.assert_array_equal(model.run(feed_of(1))["y"], 5 * feed_of(1)["x"])
    os.unlink("m.aipu.bin")
    np.testing.assert_array_equal(model.run(feed_of(1))["y"], 5 * feed_of(1)["x"])
    build("m.aipu.bin", 7)
    np.testing.assert_array_equal(model.run(feed_of(1))["y"], 7 * feed_of(1)["x"])
    assert model.reloads == 2


def test_one_file_per_machine(machine):
    with open(build("m.aipu.bin", 2), "rb") as file:
        data = file.read()
    models = [_worker.NodeModel(data, pin=False) for _ in range(3)]
    assert len({model.path for model in models}) == 1 and models[0].path.startswith(str(machine))
    assert len(os.listdir(machine / "aipu-models")) == 1
    with open(build("m.aipu.bin", 3), "rb") as file:
        other = _worker.local_copy(file.read())
    os.utime(models[0].path, (0, 0))  # long unused
    assert _worker.local_copy(data) == models[0].path  # used again: it stays
    os.utime(models[0].path, (0, 0))
    with open(other, "rb") as file:
        _worker.local_copy(file.read())
    assert os.listdir(machine / "aipu-models") == [os.path.basename(other)]
    np.testing.assert_array_equal(models[0].run(feed_of(1))["y"], 2 * feed_of(1)["x"])  # mapped


def test_feeds_run_together(monkeypatch):
    """Feeds of one shape are one run; the one without a result is the only one with an error."""
    model = _worker.NodeModel(build("m.aipu.bin", 2), pin=False)
    sizes = []
    run = aipu.Session.run
    monkeypatch.setattr(aipu.Session, "run", lambda self, feed: sizes.append(feed["x"].shape) or run(self, feed))
    feeds = [feed_of(1), feed_of(2, 3), feed_of(2), feed_of(1, 3), feed_of(1)]
    outcomes = model.run_many(feeds)
    assert sorted(sizes) == [(3, 3), (4, 2)]
    for feed, outcome in zip(feeds, outcomes):
        np.testing.assert_array_equal(outcome["y"], 2 * feed["x"])
    sizes.clear()
    model.run_many(feeds, most_rows=2)
    assert max(shape[0] for shape in sizes) == 2
    outcomes = model.run_many([feed_of(1), feed_of(1, index=9), {"x": feed_of(1)["x"]}, feed_of(1)])
    assert [type(outcome) for outcome in outcomes] == [dict, ValueError, ValueError, dict]
    assert "Gather" in str(outcomes[1]) and "no value for input 'i'" in str(outcomes[2])


def test_models_without_a_batch():
    write_model(
        "s.onnx", [node("ReduceSum", ["x"], ["y"], keepdims=0)], [("x", "float32", ("N",))], [("y", "float32", ())]
    )
    model = _worker.NodeModel(aipu.build("s.onnx")["output"], pin=False)
    outcomes = model.run_many([{"x": np.full(n, 2, np.float32)} for n in (1, 3, 3)])
    assert [float(outcome["y"]) for outcome in outcomes] == [2, 6, 6]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no sched_setaffinity here")
def test_cores(machine):
    """Each has its own, until it or its process is gone."""
    all_cores = sorted(os.sched_getaffinity(0))
    first = _worker.Cores(1)
    assert first.cores == all_cores[:1]
    held = _worker.Cores(len(all_cores) - 1)
    assert held.cores == all_cores[1:]
    assert _worker.Cores(1).cores == []
    first.release()
    script = (
        "import sys, os, aipu._worker as w\naipu = w._files\n"
        f"w._files.machine_folder = lambda name: {str(machine)!r} + '/' + name\n"
        "print(w.Cores(1).cores, flush=True)\nc = w.Cores(1)\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(all_cores[:1]) and done.returncode == -9, done.stderr
    assert _worker.Cores(1).cores == all_cores[:1]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no sched_setaffinity here")
def test_runs_on_its_cores():
    before = os.sched_getaffinity(0)
    try:
        model = _worker.NodeModel(build("m.aipu.bin", 2), threads=1)
        assert model.cores == (min(before),)
        os.sched_setaffinity(0, before)
        model.run(feed_of(1))
        assert os.sched_getaffinity(0) == {min(before)}
    finally:
        os.sched_setaffinity(0, before)
    with pytest.raises(ValueError, match="threads"):
        _worker.NodeModel("m.aipu.bin", threads=0)
