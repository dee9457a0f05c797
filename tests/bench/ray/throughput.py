#!/usr/bin/env python3
"""What Ray costs: a model through map_batches and Ray Serve beside the same model in one process.

throughput.py BUILD_FOLDER MODEL.onnx [--rows N] [--batch N] [--seconds S] [--soak MINUTES]

Prints, on this machine: rows per second in one process (one and two sessions of a thread), through map_batches with one
and two actors, and through Ray Serve by handle and by HTTP; what map_batches adds to each batch; how it scales to 16
actors whose runs wait on the delay device instead of computing. --soak: requests to Ray Serve for so long, and the
memory of the replicas; exit code 1 if the last third of the time has over 3 % more than the second.
"""

import argparse
import concurrent.futures
import json
import os
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: Path(text).resolve())
    parser.add_argument("model", type=lambda text: Path(text).resolve())
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--soak", type=float, default=0, metavar="MINUTES")
    return parser.parse_args()


OPTIONS = arguments()
os.environ["AIPU_BACKEND_PATH"] = str(OPTIONS.build / "test_backends")
os.environ["PYTHONPATH"] = str(OPTIONS.build / "python")  # of actors too
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
sys.path[:0] = [str(OPTIONS.build / "python"), str(Path(__file__).resolve().parents[2] / "python")]

import aipu  # noqa: E402
import aipu.ray  # noqa: E402
import numpy as np  # noqa: E402
import ray  # noqa: E402
import ray.data  # noqa: E402
from onnx_text import node, write_model  # noqa: E402
from ray import serve  # noqa: E402

DELAY_MS = 50


class Timed(aipu.ray.Predictor):
    """Tells when each batch began and ended, by the clock that all processes of a machine have."""

    def __call__(self, batch):
        begin = time.monotonic()
        result = super().__call__(batch)
        count = len(next(iter(result.values())))
        return {
            "actor": np.full(count, os.getpid()),
            "begin": np.full(count, begin),
            "end": np.full(count, time.monotonic()),
        }


class Delayed(Timed):
    """The same on the delay device."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        waits = aipu.load(self.node_model.path, backend="delay")
        self.node_model.model, self.node_model._session = waits, waits.session(threads=1)


def show(what, rate, beside=None):
    """A line with a rate, and what part it is of another one."""
    print(f"{what:48} {rate:9.1f} rows/s" + (f"  {rate / beside:.3f}" if beside else ""), flush=True)


def in_process(path, batch, sessions):
    """Rows per second, runs of whole batches back to back in each of the sessions."""
    model = aipu.load(path)
    made = [model.session(threads=1) for _ in range(sessions)]
    feed = random_feed(model, batch)
    for session in made:
        session.run(feed)
    end = time.monotonic() + OPTIONS.seconds

    def play(session):
        runs = 0
        while time.monotonic() < end:
            session.run(feed)
            runs += 1
        return runs

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(sessions) as pool:
        runs = sum(pool.map(play, made))
    return runs * batch / (time.monotonic() - begin)


def random_feed(model, batch):
    """A batch of seeded rows, whatever open axes the model has besides the first being 1."""
    random = np.random.default_rng(1)
    feed = {}
    for spec in model.inputs:
        shape = [
            batch if axis == 0 else extent if isinstance(extent, int) else 1 for axis, extent in enumerate(spec.shape)
        ]
        feed[spec.name] = random.random(shape, dtype=np.float32).astype(spec.dtype)
    return feed


def by_map_batches(path, rows, batch, actors, predictor=Timed):
    """Rows per second as long as all actors are at work, and seconds that a batch takes an actor besides running it."""
    feed = random_feed(aipu.load(path), 1)

    def fill(keys):
        count = len(keys["id"])
        return {name: np.repeat(array, count, axis=0) for name, array in feed.items()}

    data = (
        ray.data.range(rows, override_num_blocks=max(2 * actors, rows // (4 * batch))).map_batches(fill).materialize()
    )
    options = {"batch_size": batch, "concurrency": actors, "pin": False, "predictor": predictor, "distribute": False}
    times = aipu.ray.map_batches(data, path, **options).to_pandas()
    assert len(times) == rows, len(times)
    batches = times.drop_duplicates()
    by_actor = batches.groupby("actor")
    begin, end = by_actor["begin"].min().max(), by_actor["end"].max().min()
    inside = batches[(batches["begin"] >= begin) & (batches["end"] <= end)]
    if len(by_actor) < actors or len(inside) < 4 * actors:
        raise SystemExit(f"{len(inside)} batches in which all of {actors} actors were at work are too few: more --rows")
    span = end - begin
    return len(inside) * batch / span, span * actors / len(inside) - (inside["end"] - inside["begin"]).mean()


def clients(count, seconds, ask):
    """Answers per second that so many clients get, each of whom asks again as soon as it has its answer."""
    end = time.monotonic() + seconds

    def play(_):
        answers = 0
        while time.monotonic() < end:
            ask()
            answers += 1
        return answers

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        answers = sum(pool.map(play, range(count)))
    return answers / (time.monotonic() - begin)


def memory_of_replicas():
    """Resident bytes of the processes of the replicas, by process."""
    sizes = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"ServeReplica" in (entry / "cmdline").read_bytes():
                sizes[entry.name] = int((entry / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:  # it has ended
            continue
    return sizes


def soak(ask, minutes):
    """Whether the memory of the replicas stays."""
    samples, stop = [], threading.Event()

    def watch():
        while not stop.wait(2):
            samples.append(sum(memory_of_replicas().values()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    rate = clients(4 * OPTIONS.batch, 60 * minutes, ask)
    stop.set()
    watcher.join()
    third = len(samples) // 3
    second, last = (statistics.median(samples[part * third : (part + 1) * third]) for part in (1, 2))
    print(
        f"soak: {minutes:g} min, {rate:.1f} requests/s, replicas {second / 2**20:.1f} MiB, then {last / 2**20:.1f} MiB"
    )
    return last <= 1.03 * second


def write_waiting_model(path):
    """A model whose runs take 50 ms a batch of 16 on the delay device: a microsecond per operation."""
    columns = DELAY_MS * 1000 // (2 * 16 * 25)
    write_model(
        "waits.onnx",
        [node("MatMul", ["x", "w"], ["y"])],
        [("x", "float32", ("N", 25))],
        [("y", "float32", ("N", columns))],
        constants={"w": np.ones((25, columns), np.float32)},
    )
    aipu.build("waits.onnx", path)


def measure_data(path):
    """In one process, and through map_batches."""
    batch, rows = OPTIONS.batch, OPTIONS.rows
    here = {sessions: in_process(path, batch, sessions) for sessions in (1, 2)}
    for sessions, rate in here.items():
        show(f"in one process, {sessions} session{'s' * (sessions > 1)}", rate)
    for actors in (1, 2):
        rate, overhead = by_map_batches(path, rows, batch, actors)
        show(f"map_batches, {actors} actor{'s' * (actors > 1)}", rate, here[actors])
        print(f"{'':48} {1e3 * overhead:9.2f} ms besides the run, per batch of {batch}")
    waiting = str(Path("waits.aipu.bin").resolve())
    write_waiting_model(waiting)
    for actors in (1, 2, 4, 16):
        rate, _ = by_map_batches(waiting, 16 * 80 * actors, 16, actors, Delayed)
        show(f"map_batches, {actors} waiting {DELAY_MS} ms a batch", rate, actors * 16 / (1e-3 * DELAY_MS))
    return here


def measure_serve(path, here):
    """Through Ray Serve; whether the soak went well."""
    handle = serve.run(
        aipu.ray.deployment(path, max_batch_size=OPTIONS.batch, num_replicas=2, pin=False, distribute=False),
        route_prefix="/",
    )
    feed = random_feed(aipu.load(path), 1)
    body = json.dumps(
        {
            "inputs": [
                {"name": name, "shape": list(array.shape), "datatype": "FP32", "data": array.ravel().tolist()}
                for name, array in feed.items()
            ]
        }
    ).encode()

    def by_handle():
        handle.predict.remote(feed).result()

    def by_http():
        with urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:8000/", body), timeout=60) as answer:
            answer.read()

    clients(4 * OPTIONS.batch, 3, by_handle)
    show("Ray Serve, 2 replicas, by handle", clients(4 * OPTIONS.batch, OPTIONS.seconds, by_handle), here[2])
    rate = clients(2 * OPTIONS.batch, OPTIONS.seconds, by_http)
    show(f"Ray Serve, by HTTP and JSON ({len(body) / 1e6:.1f} MB each)", rate, here[2])
    return OPTIONS.soak == 0 or soak(by_handle, OPTIONS.soak)


def main() -> int:
    """All of it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        path = str(Path("model.aipu.bin").resolve())
        aipu.build(str(OPTIONS.model), path)
        # Logical CPUs: those who wait need none.
        ray.init(num_cpus=24, object_store_memory=2 << 30, log_to_driver=False, include_dashboard=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        try:
            here = measure_data(path)
            flat = measure_serve(path, here)
        finally:
            serve.shutdown()
            ray.shutdown()
            os.chdir("/")
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
