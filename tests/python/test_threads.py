"""One model, many threads and processes."""

import multiprocessing
import os
import pathlib
import subprocess
import threading
import time

import aipu
import numpy as np
import pytest
from aipu import script as S

BIN = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", ".")) / "bin"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    maker = BIN / "aipu-make-model"
    if not maker.exists():
        pytest.skip("aipu-make-model is not built (AIPU_BUILD_DIR)")
    folder = tmp_path_factory.mktemp("model")
    subprocess.run([maker, "sample_cnn", "-o", folder / "sample.onnx"], check=True, stdout=subprocess.DEVNULL)
    loaded = aipu.load(aipu.build(folder / "sample.onnx")["output"])
    loaded.source = folder / "sample.onnx"
    return loaded


@pytest.fixture(scope="module")
def cases(model):
    """Images of several batches and what they give."""
    rng = np.random.default_rng(7)
    images = [rng.random((1 + i % 4, 3, 32, 32), dtype=np.float32) for i in range(8)]
    return [(image, model.run({"image": image})["probabilities"]) for image in images]


def in_threads(count, body):
    """Runs body(i) in threads that begin together; returns what they raised."""
    errors, gate = [], threading.Barrier(count)

    def work(i):
        gate.wait()
        try:
            body(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_model_run_from_many_threads(model, cases):
    """Batches differ, so that a session shared by two threads would move its memory under one of them."""

    def work(i):
        image, expected = cases[i]
        for _ in range(40):
            np.testing.assert_allclose(model.run({"image": image})["probabilities"], expected, rtol=1e-5)

    assert in_threads(len(cases), work) == []


def test_calls_at_the_same_time_have_sessions_of_their_own(model):
    pool = model._sessions
    taken = []
    try:
        while pool._calls() < pool._cpus:
            taken.append(pool.take())
        assert len({id(session) for session, _ in taken}) == pool._cpus
        assert taken[0][0].threads == pool._cpus and taken[-1][0].threads == 1
    finally:
        for session, threads in taken:
            pool.give_back(session, threads)
    again = pool.take()
    pool.give_back(*again)
    assert again[0] is taken[0][0]  # kept for the next call


def test_calls_beyond_the_cpus_wait_for_one_that_ends(model):
    pool = model._sessions
    taken = [pool.take() for _ in range(pool._cpus)]
    late = []
    threads = [threading.Thread(target=lambda: late.append(pool.take())) for _ in range(pool._cpus)]
    for thread in threads:
        thread.start()
    try:
        while pool._waiting < pool._cpus:
            time.sleep(0.001)
        assert late == []
    finally:
        for session, share in taken:
            pool.give_back(session, share)
        for thread in threads:
            thread.join(60)
        assert len(late) == pool._cpus
        for session, share in late:
            pool.give_back(session, share)
    assert pool._calls() == 0 and pool._waiting == 0


def test_a_failed_run_gives_its_session_back(model, cases):
    for _ in range(3 * model._sessions._cpus):
        with pytest.raises(ValueError):
            model.run({"image": np.zeros((1, 4, 32, 32), "float32")})
    assert model._sessions._calls() == 0
    np.testing.assert_array_equal(model.run({"image": cases[0][0]})["probabilities"], cases[0][1])


def test_a_session_refuses_a_second_thread(model, cases):
    """The second call comes from inside the first one's, so it is certain to meet it."""
    session = model.session()
    image, expected = cases[0]

    refused = []

    def intrude():
        for call in (lambda: session.run({"image": image}), lambda: session.run({"image": image}, ["probabilities"])):
            try:
                call()
            except RuntimeError as error:
                refused.append(str(error))

    native = session._native

    class Meddler:
        def __getattr__(self, name):
            if name in ("run", "run_plain"):
                other = threading.Thread(target=intrude)
                other.start()
                other.join()
            return getattr(native, name)

    session._native = Meddler()
    np.testing.assert_array_equal(session.run({"image": image})["probabilities"], expected)
    session._native = native
    assert len(refused) == 2 and all("in use by another thread" in text for text in refused)
    np.testing.assert_array_equal(session.run({"image": image})["probabilities"], expected)


def test_one_session_from_many_threads_is_right_or_refused(model, cases):
    session = model.session()
    refusals = []

    def work(i):
        image, expected = cases[i]
        for _ in range(40):
            try:
                result = session.run({"image": image})["probabilities"]
            except RuntimeError as error:
                assert "in use by another thread" in str(error)
                refusals.append(i)
            else:
                np.testing.assert_allclose(result, expected, rtol=1e-5)

    assert in_threads(len(cases), work) == []


def ended(child):
    """The exit code of a child; None if it hangs."""
    child.join(60)
    code = child.exitcode
    child.kill()
    return code


def run_in_child(queue, runner, image):
    queue.put(runner({"image": image})["probabilities"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork() here")
@pytest.mark.parametrize("target", ["host", "X2_1204"])
def test_fork_after_a_run(model, cases, tmp_path, target):
    """multiprocessing with fork: children run the model and the session that their parent ran."""
    context = multiprocessing.get_context("fork")
    image, expected = cases[1]
    if target != "host":
        model = aipu.load(aipu.build(model.source, tmp_path / "npu.aipu.bin", target=target)["output"])
    session = model.session()
    for runner in (model.run, session.run):
        np.testing.assert_allclose(runner({"image": image})["probabilities"], expected, rtol=1e-4, atol=1e-6)
        queue = context.SimpleQueue()
        children = [context.Process(target=run_in_child, args=(queue, runner, image)) for _ in range(3)]
        for child in children:
            child.start()
        for child in children:
            assert ended(child) == 0
        for _ in children:
            np.testing.assert_allclose(queue.get(), expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(runner({"image": image})["probabilities"], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork() here")
def test_fork_while_other_threads_run(model, cases):
    """The sessions that they have at the time are not given back in the child, which has its own."""
    image, expected = cases[0]
    pool = model._sessions
    taken = []
    while pool._calls() < pool._cpus:
        taken.append(pool.take())
    try:
        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        child = context.Process(target=run_in_child, args=(queue, model.run, image))
        child.start()
        assert ended(child) == 0
        np.testing.assert_allclose(queue.get(), expected, rtol=1e-5)
    finally:
        for session, threads in taken:
            pool.give_back(session, threads)


@S.prim_func
def announce_and_work(x: S.ptr("i32", "global"), rounds: S.i32):
    x[0] = 1
    S.barrier()
    for i in range(rounds):
        x[1 + S.get_local_id()] = x[1 + S.get_local_id()] * 3 + i


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork() here")
def test_fork_while_another_thread_runs_a_kernel():
    """Its call is lost to the child, which calls the kernel anew instead of waiting for it."""
    ex = aipu.tir.BuildManager(target="X2_1204").build(announce_and_work)
    expected = np.zeros(8, "int32")
    ex(expected, 10)
    busy = np.zeros(8, "int32")
    worker = threading.Thread(target=ex, args=(busy, 300_000_000))
    worker.start()
    while busy[0] == 0:
        pass

    def call():
        result = np.zeros(8, "int32")
        ex(result, 10)
        np.testing.assert_array_equal(result, expected)

    child = multiprocessing.get_context("fork").Process(target=call)
    child.start()
    assert ended(child) == 0
    worker.join()
