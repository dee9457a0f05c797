"""aipu.loadgen: MLPerf's LoadGen says VALID in all scenarios, and its accuracy log has our outputs."""

import json

import aipu
import numpy as np
import pytest
from aipu import loadgen
from onnx_text import node, write_model
from other_python import python_with, run_python

SCRIPT = """
import json, sys
import numpy as np
import aipu, aipu.loadgen

aipu.build("m.onnx", "m.aipu.bin")
rows = np.load("rows.npz")["x"]
told = {}
for scenario, options in {
    "single-stream": {"queries": 200},
    "multi-stream": {"queries": 700},
    "offline": {"batch": 4, "sessions": 2},
    "server": {"rate": 400, "latency": 1.0, "batch": 4, "queries": 900},
}.items():
    result = aipu.loadgen.run("m.aipu.bin", "rows.npz", scenario, scenario, seconds=1, **options)
    told[scenario] = [result.is_valid, result.summary]
aipu.loadgen.run("m.aipu.bin", "rows.npz", "offline", "accuracy", accuracy=True, batch=3, sessions=2)
model = aipu.load("m.aipu.bin")
found = aipu.loadgen.read_accuracy("accuracy", model)
assert sorted(found) == list(range(len(rows))), sorted(found)
for index, outputs in found.items():
    np.testing.assert_array_equal(outputs["y"], model.run({"x": rows[index : index + 1]})["y"])
never = aipu.loadgen.run("m.aipu.bin", {"x": rows}, "server", "never", rate=100, latency=1e-6, seconds=0.2)
assert not never.is_valid, never.summary
try:
    aipu.loadgen.run("m.aipu.bin", {"x": rows[:, :5]}, "single-stream", "broken", seconds=0.1)
    raise AssertionError("shapes that do not fit were taken")
except ValueError:
    pass
print(json.dumps(told))
"""


@pytest.fixture
def model():
    generator = np.random.default_rng(3)
    weights = {f"w{number}": generator.normal(size=(512, 512)).astype(np.float32) / 32 for number in range(8)}
    nodes = [node("MatMul", [f"h{number}" if number else "x", f"w{number}"], [f"h{number + 1}"]) for number in range(8)]
    write_model("m.onnx", [*nodes, node("Tanh", ["h8"], ["y"])], [("x", "float32", ("N", 512))],
                [("y", "float32", ("N", 512))], constants=weights)  # fmt: skip
    np.savez("rows.npz", x=generator.normal(size=(20, 512)).astype(np.float32))


def test_loadgen(model, tmp_path):
    python = python_with("numpy, mlperf_loadgen")
    (tmp_path / "script.py").write_text(SCRIPT)
    told = json.loads(run_python(python, "script.py").splitlines()[-1])
    for scenario in ("single-stream", "multi-stream", "offline", "server"):
        is_valid, summary = told[scenario]
        assert is_valid, (scenario, summary)
    for scenario in ("single-stream", "multi-stream", "server"):
        assert float(told[scenario][1]["90.00 percentile latency (ns)"]) > 0


class FakeLoadGen:
    """What the system under test calls."""

    def __init__(self):
        self.answers = {}

    def QuerySampleResponse(self, id_, pointer, size):
        return id_, pointer, size

    def QuerySamplesComplete(self, responses):
        for id_, pointer, size in responses:
            assert id_ not in self.answers
            self.answers[id_] = bytes((np.ctypeslib.ctypes.c_char * size).from_address(pointer)) if size else b""


class Query:
    def __init__(self, id_, index):
        self.id, self.index = id_, index


@pytest.mark.parametrize("in_background,sessions,batch", [(False, 1, 1), (False, 1, 4), (True, 1, 4), (True, 2, 3)])
def test_each_query_is_answered_once(monkeypatch, in_background, sessions, batch):
    """Without LoadGen: any order of samples, in batches, gives each its own outputs; errors end in answers too."""
    fake = FakeLoadGen()
    monkeypatch.setattr(loadgen, "_loadgen", lambda: fake)
    write_model("m.onnx", [node("Add", ["x", "one"], ["y"])], [("x", "float32", ("N", 3))],
                [("y", "float32", ("N", 3))], constants={"one": np.ones(3, np.float32)})  # fmt: skip
    aipu.build("m.onnx", "m.aipu.bin")
    loaded = aipu.load("m.aipu.bin")
    feeds = [{"x": np.full((1, 3), number, np.float32)} for number in range(7)]
    sut = loadgen.SystemUnderTest(loaded, feeds, batch, sessions, 1, in_background)
    order = np.random.default_rng(1).integers(0, 7, 50).tolist()
    for first in range(0, 50, 10):
        sut.issue([Query(place, order[place]) for place in range(first, first + 10)])
    sut.flush()
    sut.close()
    assert sut.error is None and sorted(fake.answers) == list(range(50))
    for place, index in enumerate(order):
        np.testing.assert_array_equal(np.frombuffer(fake.answers[place], np.float32), index + 1.0)
    broken = loadgen.SystemUnderTest(loaded, [{"x": np.zeros((1, 5), np.float32)}], 1, 1, 1, in_background)
    broken.issue([Query(100, 0), Query(101, 0)])
    broken.close()
    assert isinstance(broken.error, ValueError) and fake.answers[100] == fake.answers[101] == b""
    with pytest.raises(ValueError, match="at least 1"):
        loadgen.SystemUnderTest(loaded, feeds, 0)


def test_what_does_not_fit(monkeypatch):
    monkeypatch.setattr(loadgen, "_loadgen", FakeLoadGen)
    with pytest.raises(ValueError, match="is no scenario"):
        loadgen.run("m.aipu.bin", {}, "interactive", "logs")
    for arguments in (("server", 0, 0.1), ("server", 5, None), ("single-stream", 5, None), ("offline", 5, 0.1)):
        with pytest.raises(ValueError, match="--rate|--latency"):
            loadgen._scenario_settings(*arguments, 0.01)
    assert loadgen._scenario_settings("multi-stream", 0, None, 0.001) == {"multi_stream_expected_latency_ns": 1_000_000}
