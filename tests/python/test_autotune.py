"""The tuner: what it searches, what it keeps, and that it finds at least what the rules do."""

import io
import json
import os
import signal
import subprocess
import sys

import aipu
import numpy as np
import pytest
from aipu import te, topi


def scaled():
    x = te.placeholder((64, 100), "float32", name="x")
    return [x, te.compute((64, 100), lambda i, j: x[i, j] * 2.0 + 1.0, name="y")]


OWN = {"lanes": 16, "chunk": 1024, "sums": 28}  # what the rules choose for a CPU


class Costs:
    """A measurer with a known cost, which counts what it was asked."""

    def __init__(self, cost):
        self.cost, self.asked = cost, []

    def __call__(self, module, knobs):
        assert module.entry_func is not None
        self.asked.append(tuple(sorted(knobs.items())))
        return self.cost(knobs)


def tune(path, cost, **more):
    costs = cost if isinstance(cost, Costs) else Costs(cost)
    return aipu.autotune(scaled(), str(path), "interpreter", measure=costs, progress=None, **more), costs


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_finds_the_best_of_a_known_cost(tmp_path):
    path = tmp_path / "log"
    tuned, costs = tune(path, lambda k: abs(k["chunk"] - 256) + abs(k["lanes"] - 8) + 1)
    assert (tuned.knobs["lanes"], tuned.knobs["chunk"]) == (8, 256)
    assert tuned.cost == 1 and tuned.cost_of_rules == 1024 - 256 + 8 + 1
    assert costs.asked[0] == tuple(sorted(OWN.items()))  # the rules' own is a candidate, and the first
    # What changes nothing is not searched: there are no sums.
    assert len({dict(knobs)["sums"] for knobs in costs.asked}) == 2
    turns = costs.asked[-10:]
    assert turns[::2] == [turns[0]] * 5 and turns[1::2] == [costs.asked[0]] * 5 and turns[0] != turns[1]
    values, out = np.random.rand(64, 100).astype("float32"), np.zeros((64, 100), "float32")
    args = scaled()
    chosen = aipu.tuned_schedule(args, str(path), "interpreter")
    assert str(aipu.lower(chosen, args)) == str(aipu.lower(topi_with(args, tuned.knobs), args))
    assert str(aipu.lower(chosen, args)) != str(aipu.lower(topi.generic.schedule(args[1], "interpreter"), args))
    aipu.build(chosen, args, "interpreter")(values, out)
    np.testing.assert_allclose(out, values * 2 + 1, rtol=1e-6)


def topi_with(args, knobs):
    from aipu._tuner import schedule_with

    return schedule_with(args[1:], "interpreter", knobs)


def test_the_rules_win_where_nothing_is_better(tmp_path):
    tuned, costs = tune(tmp_path / "log", lambda k: 7)
    assert tuned.knobs == OWN and tuned.cost == tuned.cost_of_rules == 7
    assert len(costs.asked) == len(set(costs.asked)) > 10


def test_a_lucky_measurement_is_not_confirmed(tmp_path):
    asked = []

    def cost(knobs):  # good once only
        asked.append(knobs)
        return 1 if knobs["chunk"] == 64 and asked.count(knobs) == 1 else 9 if knobs["chunk"] == 64 else 5

    tuned, _ = tune(tmp_path / "log", cost)
    assert tuned.knobs == OWN and tuned.cost == 5
    assert lines(tmp_path / "log")[-1]["chosen"] == tuned.knobs


def test_what_is_refused_is_kept_as_refused(tmp_path):
    def cost(knobs):
        if knobs["lanes"] == 4:
            raise aipu.TVMError("too narrow")
        return knobs["lanes"]

    path = tmp_path / "log"
    tuned, _ = tune(path, cost)
    assert tuned.knobs["lanes"] == 8
    assert {r["error"] for r in lines(path) if r.get("knobs", {}).get("lanes") == 4} == {"too narrow"}
    again, costs = tune(path, cost)
    assert again.knobs == tuned.knobs and len(costs.asked) == 10  # the turns alone


def refuse(knobs):
    raise aipu.TVMError("no")


def test_the_rules_own_choice_has_to_build(tmp_path):
    with pytest.raises(aipu.TVMError, match="no"):
        tune(tmp_path / "log", refuse)


KILLED = """
import os, signal, sys
sys.path.insert(0, os.path.dirname({test!r}))
import test_autotune
def cost(knobs):
    if len(costs.asked) == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return knobs["chunk"]
costs = test_autotune.Costs(cost)
test_autotune.tune({path!r}, costs)
"""


def test_goes_on_after_it_was_killed(tmp_path):
    path = tmp_path / "log"
    script = KILLED.format(test=os.path.abspath(__file__), path=str(path))
    ended = subprocess.run([sys.executable, "-c", script], check=False)
    assert ended.returncode == -signal.SIGKILL and len(lines(path)) == 5
    with open(path, "ab") as file:
        file.write(b'{"key": "half of a rec')
    before = {tuple(sorted(r["knobs"].items())) for r in lines_but_last(path)}
    tuned, costs = tune(path, lambda k: k["chunk"])
    assert tuned.knobs["chunk"] == 32 and not before & set(costs.asked[:-10])
    fresh, _ = tune(tmp_path / "other", lambda k: k["chunk"])
    assert lines(path) == lines(tmp_path / "other") and fresh.knobs == tuned.knobs


def lines_but_last(path):
    return [json.loads(line) for line in path.read_text().splitlines()[:-1]]


@pytest.mark.parametrize(
    "broken",
    [
        "nonsense",
        "[]",
        '{"key": 1}',
        '{"key": "k", "knobs": {"lanes": "8"}, "cost": 1, "error": ""}',
        '{"key": "k", "knobs": {"lanes": 8}, "cost": NaN, "error": ""}',
        '{"key": "k", "knobs": {"lanes": 8}, "cost": null, "error": ""}',
    ],
)
def test_a_broken_record_is_an_error(tmp_path, broken):
    path = tmp_path / "log"
    good = '{"key": "k", "knobs": {"lanes": 8}, "cost": 1, "error": ""}'
    path.write_text(f"{good}\n{broken}\n{good}\n")
    with pytest.raises(ValueError, match="log:2: this is no record of aipu.autotune"):
        tune(path, lambda k: 1)
    assert path.read_text() == f"{good}\n{broken}\n{good}\n"


def test_one_run_writes_to_a_file(tmp_path):
    path = tmp_path / "log"

    def cost(knobs):
        with pytest.raises(BlockingIOError, match="another run writes"):
            tune(path, lambda k: 1)
        return 1

    tune(path, cost)


def test_another_definition_has_records_of_its_own(tmp_path):
    path = tmp_path / "log"
    tune(path, lambda k: k["chunk"])
    x = te.placeholder((64, 100), "float32", name="x")
    args = [x, te.compute((64, 100), lambda i, j: x[i, j] * 3.0, name="y")]
    rules = topi.generic.schedule(args[1], "interpreter")
    assert str(aipu.lower(aipu.tuned_schedule(args, str(path), "interpreter"), args)) == str(aipu.lower(rules, args))


def test_what_cannot_be_measured(tmp_path):
    n = te.var("n")
    x = te.placeholder((n,), "float32", name="x")
    y = te.compute((n,), lambda i: x[i] + 1.0, name="y")
    with pytest.raises(ValueError, match=r"args\[0\]: only what has constant extents"):
        aipu.autotune([x, y], str(tmp_path / "log"), "host", progress=None)
    i = te.placeholder((8,), "int32", name="i")
    with pytest.raises(ValueError, match="give inputs"):
        aipu.autotune([i, te.compute((8,), lambda k: i[k] + 1, name="o")], str(tmp_path / "log"), progress=None)
    with pytest.raises(aipu.TVMError, match="no CUDA device to measure on; give measure"):
        aipu.autotune(scaled(), str(tmp_path / "log"), "cuda", progress=None)
    assert not list(tmp_path.iterdir())


def test_cycles_of_a_target(tmp_path):
    args, stream = scaled(), io.StringIO()
    tuned = aipu.autotune(args, str(tmp_path / "log"), "X2_1204", progress=stream)
    values, out = np.random.rand(64, 100).astype("float32"), np.zeros((64, 100), "float32")
    function = aipu.build(tuned.schedule, args, "X2_1204").entry_func
    rules = aipu.build(topi.generic.schedule(args[1], "X2_1204"), args, "X2_1204").entry_func
    cycles = [f.executor.profile(*[v for v, _ in f.bind([values, out])]) for f in (function, rules)]
    assert cycles == [tuned.cost, tuned.cost_of_rules] and tuned.cost <= tuned.cost_of_rules
    function(values, out)
    np.testing.assert_allclose(out, values * 2 + 1, rtol=1e-6)
    assert "candidates" in stream.getvalue()
