"""Session.submit: runs in the background, as futures."""

import asyncio
import concurrent.futures
import subprocess
import sys
import threading

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """y = x + x and z = table[i], of any length."""
    folder = tmp_path_factory.mktemp("submit")
    write_model(
        folder / "m.onnx",
        [node("Add", ["x", "x"], ["y"]), node("Gather", ["x", "i"], ["z"], axis=0)],
        [("x", "float32", ("n",)), ("i", "int64", ("k",))],
        [("y", "float32", ("n",)), ("z", "float32", ("k",))],
    )
    return aipu.build(folder / "m.onnx", folder / "m.aipu.bin")["output"]


@pytest.fixture(scope="module")
def model(path):
    return aipu.load(path)


def inputs_of(seed, index=0):
    x = np.arange(1 + seed * 37 % 200, dtype=np.float32) + seed
    return {"x": x, "i": np.array([index], np.int64)}


def check(result, seed):
    x = inputs_of(seed)["x"]
    np.testing.assert_array_equal(result["y"], 2 * x)
    np.testing.assert_array_equal(result["z"], x[:1])


def test_each_future_has_its_own_result(model):
    session = model.session()
    futures = [session.submit(inputs_of(seed)) for seed in range(40)]
    for seed, future in enumerate(futures):
        check(future.result(timeout=60), seed)
    assert not futures[0].cancel()
    # The session is free again, and can submit again.
    check(session.run(inputs_of(7)), 7)
    check(session.submit(inputs_of(8)).result(timeout=60), 8)


def test_order_of_callbacks_and_several_sessions(model):
    sessions = [model.session(threads=1) for _ in range(3)]
    ended = [[] for _ in sessions]
    futures = []
    for seed in range(30):
        for session, log in zip(sessions, ended):
            future = session.submit(inputs_of(seed))
            future.add_done_callback(lambda f, log=log, seed=seed: log.append(seed))
            futures.append((seed, future))
    for seed, future in futures:
        check(future.result(timeout=60), seed)
    for session in sessions:
        session.close()  # callbacks have been called when it returns
    assert ended == [list(range(30))] * 3


def test_given_outputs(model):
    session = model.session()
    inputs = inputs_of(3)
    y = np.empty_like(inputs["x"])
    result = session.submit(inputs, {"y": y}).result(timeout=60)
    assert result["y"] is y and list(result) == ["y"]
    np.testing.assert_array_equal(y, 2 * inputs["x"])
    with pytest.raises(ValueError, match="takes .* bytes, but the memory given for it has"):
        session.submit(inputs, {"y": np.empty(1, np.float32)}).result(timeout=60)
    with pytest.raises(ValueError, match="expected shape"):
        session.submit(inputs, {"y": np.empty(len(y) + 1, np.float32)}).result(timeout=60)
    with pytest.raises(ValueError, match="no output 'w'"):
        session.submit(inputs, ["w"])


def test_errors_belong_to_their_runs(model):
    session = model.session()
    futures = [session.submit(inputs_of(seed, index=9999 if seed % 3 == 1 else 0)) for seed in range(12)]
    for seed, future in enumerate(futures):
        if seed % 3 == 1:
            with pytest.raises(ValueError, match="9999"):
                future.result(timeout=60)
        else:
            check(future.result(timeout=60), seed)
    with pytest.raises(ValueError, match="input 'x'"):
        session.submit({"x": np.zeros(3, np.int32), "i": np.zeros(1, np.int64)})


def test_asyncio(model):
    session = model.session()

    async def all_of_them():
        return await asyncio.gather(*(asyncio.wrap_future(session.submit(inputs_of(seed))) for seed in range(10)))

    for seed, result in enumerate(asyncio.run(all_of_them())):
        check(result, seed)


def test_a_session_lives_until_its_runs_are_done(model):
    futures = [model.session(threads=1).submit(inputs_of(seed)) for seed in range(8)]
    for seed, future in enumerate(futures):
        check(future.result(timeout=60), seed)


def test_run_while_runs_are_in_flight_and_close(model):
    session = model.session()
    held, go = threading.Event(), threading.Event()

    def hold(_):  # nothing is played meanwhile, if it is the queue's thread that calls
        if threading.current_thread() is not threading.main_thread():
            held.set()
            go.wait(60)

    while not held.is_set():
        session.submit(inputs_of(0)).add_done_callback(hold)
    second = session.submit(inputs_of(1))
    with pytest.raises(RuntimeError, match="in flight"):
        session.run(inputs_of(2))
    go.set()
    check(second.result(timeout=60), 1)
    check(session.run(inputs_of(2)), 2)
    session.close()
    session.close()
    with pytest.raises(ValueError, match="the session is closed"):
        session.run(inputs_of(0))
    with pytest.raises(ValueError, match="the session is closed"):
        session.submit(inputs_of(0))


def test_the_end_of_the_program_waits(path):
    code = (
        "import sys, numpy as np, aipu\n"
        "session = aipu.load(sys.argv[1]).session()\n"
        "x = np.ones(1 << 20, np.float32)\n"
        "for k in range(20):\n"
        "    future = session.submit({'x': x, 'i': np.zeros(1, np.int64)})\n"
        "    future.add_done_callback(lambda f, k=k: print(k, f.result()['y'][0], flush=True))\n"
    )
    ended = subprocess.run([sys.executable, "-P", "-c", code, path], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0 and ended.stderr == ""
    assert ended.stdout.split("\n")[:-1] == [f"{k} 2.0" for k in range(20)]


def test_is_a_future(model):
    future = model.session().submit(inputs_of(5))
    assert concurrent.futures.wait([future], timeout=60).done == {future}
