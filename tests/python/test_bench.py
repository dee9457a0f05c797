"""aipu.bench: exact in virtual time, statistics that hold what they say, and the program."""

import json
import subprocess
import sys

import aipu
import aipu.bench
import numpy as np
import pytest
from aipu.bench import _compare, _difference, _inputs, _turns
from onnx_text import node, write_model
from other_python import python_with, run_python


class Virtual:
    """A clock that stands still except while something runs or sleeps."""

    def __init__(self):
        self.now = 0.0
        self.log = []

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds

    def side(self, name, durations):
        """A run that takes one duration after the other, and then the last one for ever."""
        left = list(durations)

        def run():
            self.log.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run


def test_exact_in_virtual_time():
    """Medians, ratios and their intervals are those of the sides' durations; sleeping is not measured."""
    virtual = Virtual()
    runs = [virtual.side("a", [0.002]), virtual.side("b", [0.003])]
    times = _turns.take_turns(runs, seconds=0.1, fewest_turns=5, clock=virtual.clock, sleep=virtual.sleep)
    assert [len(one.turns) for one in times] == [5, 5]  # there is nothing to wait for
    np.testing.assert_allclose(times[0].all(), 0.002, rtol=1e-9)
    np.testing.assert_allclose(times[1].all(), 0.003, rtol=1e-9)
    np.testing.assert_allclose(_turns.ratio_of(times[1], times[0]), 1.5, rtol=1e-9)
    assert all(abs(len(turn) - 50) <= 1 for turn in times[0].turns)


def test_order_and_warm_up():
    """Who begins changes with every turn; runs before it is steady are not among the times."""
    virtual = Virtual()
    cold = [0.1 * 0.8**number for number in range(20)] + [0.001]
    runs = [virtual.side("a", cold), virtual.side("b", [0.002])]
    times = _turns.take_turns(
        runs, seconds=0.06, fewest_turns=4, most_turns=4, clock=virtual.clock, sleep=virtual.sleep
    )
    assert times[0].warmup_runs > 10 and times[0].all().max() == pytest.approx(0.001)
    order = "".join(name for at, name in enumerate(virtual.log) if at == 0 or virtual.log[at - 1] != name)
    assert order == "ab" + "ab" + "a" + "b" + "a"  # warm-up; ab, ba, ab, ba


def test_more_turns_where_it_is_noisy():
    virtual = Virtual()
    random = np.random.default_rng(5)
    noisy = virtual.side("a", list(0.01 * random.uniform(0.5, 1.5, 100_000)))
    steady = virtual.side("b", [0.01])
    options = {"seconds": 0.05, "fewest_turns": 5, "most_turns": 30, "clock": virtual.clock, "sleep": virtual.sleep}
    many = _turns.take_turns([noisy, steady], precision=0.001, **options)
    few = _turns.take_turns([noisy, steady], precision=0.5, **options)
    assert len(many[0].turns) == 30 and len(few[0].turns) == 5


def test_intervals_hold_what_they_say():
    """The interval has the true ratio in it in about 95 of 100 experiments, and excludes 1 when the truth is 1.03."""
    random = np.random.default_rng(3)

    def experiment(truth):
        return _turns.bootstrap(truth * random.lognormal(0, 0.02, 25), repeats=500, seed=int(random.integers(1 << 30)))

    same = [experiment(1.0) for _ in range(300)]
    covered = np.mean([spread.low <= 1 <= spread.high for spread in same])
    assert 0.90 <= covered <= 0.99, covered
    assert np.mean([experiment(1.03).low > 1 for _ in range(300)]) >= 0.95
    assert _turns.bootstrap([1, 2, 3]) == _turns.bootstrap([1, 2, 3])


def test_outliers():
    assert _turns.outliers(np.array([1.0, 1.1, 0.9, 1.0, 1.05, 30.0])) == 1
    assert _turns.outliers(np.ones(9)) == 0


def test_errors_of_outputs():
    ones = np.ones((2, 2), np.float32)
    error = _difference.relative_error
    assert error({"y": ones}, {"y": ones}) == 0
    assert error({"y": ones + 0.5}, {"y": 10 * ones - 8.5}) == 0
    assert error({"y": 3 * ones}, {"y": 4 * ones}) == pytest.approx(0.25)
    assert error({"y": ones}, {"z": ones}) == error({"y": ones}, {"y": ones[0]}) == np.inf
    special = np.array([np.nan, np.inf, 1.0])
    assert error({"y": special}, {"y": special}) == 0
    assert error({"y": special}, {"y": np.array([1.0, np.inf, 1.0])}) == np.inf
    assert error({"y": np.array([True])}, {"y": np.array([False])}) > 0


def test_inputs():
    spec = aipu.model.TensorSpec
    specs = [
        spec("x", "float32", ("N", 3)),
        spec("ids", "int64", (2,)),
        spec("ok", "bool", ()),
        spec("h", "float16", (4,)),
    ]
    with pytest.raises(ValueError, match="give --shape x=1x3, or"):
        aipu.bench.make_inputs(specs)
    feed = aipu.bench.make_inputs(specs, {"x": (5, 3)}, {"ids": (10, 20)})
    assert [(a.dtype.name, a.shape) for a in feed.values()] == [
        ("float32", (5, 3)),
        ("int64", (2,)),
        ("bool", ()),
        ("float16", (4,)),
    ]
    assert (feed["ids"] >= 10).all() and (feed["ids"] < 20).all() and (np.abs(feed["x"]) <= 1).all()
    again = aipu.bench.make_inputs(specs, {"x": (5, 3)}, {"ids": (10, 20)})
    np.testing.assert_array_equal(feed["x"], again["x"])
    given = np.zeros((7, 3), np.float32)
    assert aipu.bench.make_inputs(specs, given={"x": given})["x"] is given
    with pytest.raises(ValueError, match="no input 'q'"):
        aipu.bench.make_inputs(specs, {"q": (1,)})
    assert _inputs.make_inputs([]) == {}


@pytest.fixture
def model():
    write_model(
        "m.onnx",
        [node("MatMul", ["x", "w"], ["y"]), node("NonZero", ["x"], ["z"])],
        [("x", "float32", ("N", 64))],
        [("y", "float32", ("N", 64)), ("z", "int64", (2, "k"))],
        constants={"w": np.eye(64, dtype=np.float32) * 2},
    )
    return "m.onnx"


class Other:
    """A runtime that takes twice as long as ours, and is right or not."""

    version = "1.0"
    factor = 2.0

    def __init__(self, source, feed, threads):
        self._feed = feed

    def run(self):
        VIRTUAL.sleep(0.002)

    def outputs(self):
        x = self._feed["x"]
        return {"y": self.factor * x, "z": np.array(np.nonzero(x))}

    def close(self):
        pass


VIRTUAL = Virtual()


@pytest.fixture
def ours_in_virtual_time(monkeypatch):
    """A run of ours takes a millisecond."""
    make = _compare.AipuSide

    def side(*arguments):
        made = make(*arguments)
        run = made.run
        made.run = lambda: (run(), VIRTUAL.sleep(0.001))
        return made

    monkeypatch.setattr(_compare, "AipuSide", side)
    # A package that is installed under that name.
    monkeypatch.setitem(aipu.bench.SIDES, "json", Other)
    return {"clock": VIRTUAL.clock, "sleep": VIRTUAL.sleep, "seconds": 0.02, "shapes": {"x": (4, 64)}}


def test_compare(model, ours_in_virtual_time, monkeypatch):
    result = aipu.bench.compare(model, ["json"], **ours_in_virtual_time)
    (ratio,) = result.ratios
    assert ratio.ratio == pytest.approx(2) and ratio.verdict == "faster" and ratio.agrees and ratio.error == 0
    assert [side.name for side in result.sides] == ["aipu", "json"] and result.inputs == [("x", "float32", [4, 64])]
    assert [side.median_ms for side in result.sides] == pytest.approx([1, 2])
    assert result.sides[0].best_ms == pytest.approx(1) and result.sides[0].outliers == 0
    monkeypatch.setattr(Other, "factor", 2.1)
    result = aipu.bench.compare(model, ["json"], **ours_in_virtual_time)
    assert not result.agrees and result.ratios[0].error == pytest.approx(0.1 / 2.1, rel=1e-3)


def test_what_is_not_there(model, ours_in_virtual_time, monkeypatch):
    monkeypatch.setitem(aipu.bench.SIDES, "no_such_package", Other)

    def fails(source, feed, threads):
        raise RuntimeError("no kernel\nfor this")

    monkeypatch.setitem(aipu.bench.SIDES, "csv", fails)
    result = aipu.bench.compare(model, ["no_such_package", "csv"], **ours_in_virtual_time)
    assert result.missing == ["no_such_package"] and result.failures == {"csv": "RuntimeError: no kernel for this"}
    assert [side.name for side in result.sides] == ["aipu"] and result.ratios == []
    with pytest.raises(ValueError, match="'tvm' cannot be compared with"):
        aipu.bench.compare(model, ["tvm"], **ours_in_virtual_time)
    binary = aipu.build(model)["output"]
    assert aipu.bench.compare(binary, **ours_in_virtual_time).sides[0].median_ms == pytest.approx(1)
    with pytest.raises(ValueError, match="give the ONNX model"):
        aipu.bench.compare(binary, ["json"], **ours_in_virtual_time)


def program(*arguments, python=sys.executable):
    command = [python, "-m", "aipu.bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_program(model):
    quick = ["--seconds", "0.01", "--turns", "3"]
    done = program(model, "--shape", "x=4x64", "--threads", "1,2", "--json", "out.json", *quick)
    assert done.returncode == 0 and done.stdout.count("single-stream") == 2, done.stderr
    with open("out.json") as file:
        told = json.load(file)
    assert [result["threads"] for result in told["results"]] == [1, 2] and told["machine"]["cpus"] >= 1
    np.savez("in.npz", x=np.ones((2, 64), np.float32))
    told = json.loads(program(model, "--against", "no_such", "--json", "-", *quick).stdout or "{}")
    assert told == {}
    done = program(model, "--against", "onnxruntime", "--inputs", "in.npz", "--json", "-", *quick)
    told = json.loads(done.stdout)
    assert told["results"][0]["inputs"] == [["x", "float32", [2, 64]]]
    open_shape = program(model, *quick)
    assert open_shape.returncode == 1 and "give --shape x=1x64" in open_shape.stderr
    assert program(model, "--shape", "x").returncode == 2
    assert program(model, "--against", "onnxruntime", "--scenario", "offline").returncode == 2
    assert program("none.onnx", "--shape", "x=1").returncode == 1


SCRIPT = """
import sys
import aipu.bench

for name in sys.argv[2:]:
    result = aipu.bench.compare(sys.argv[1], [name], shapes={"x": (4, 64)}, seconds=0.01, most_turns=7, threads=2)
    assert not result.failures and not result.missing, (result.failures, result.missing)
    assert result.agrees and result.ratios[0].low <= result.ratios[0].ratio <= result.ratios[0].high, result
    assert [side.name for side in result.sides] == ["aipu", name] and result.sides[1].version[0].isdigit()
    with open(sys.argv[1], "rb") as file:
        assert aipu.bench.compare(file.read(), [name], shapes={"x": (1, 64)}, seconds=0.01, most_turns=7).agrees
"""


@pytest.mark.parametrize("other", ["onnxruntime", "openvino"])
def test_against(model, tmp_path, other):
    python = python_with(f"numpy, {other}")
    (tmp_path / "script.py").write_text(SCRIPT)
    run_python(python, "script.py", model, other)
