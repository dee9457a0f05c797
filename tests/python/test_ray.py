"""aipu.ray on a local cluster of two nodes; where a Python with Ray is at hand."""

import os
import pathlib
import subprocess
import sys

import pytest
from other_python import python_with, run_python

BIN = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", ".")) / "bin"

# A data set while an actor and then a node are killed: every row once, with the results of one machine.
DATA = """
import glob, os, signal, sys
os.environ.update(
    RAY_health_check_period_ms="500", RAY_health_check_failure_threshold="4", RAY_USAGE_STATS_ENABLED="0"
)
import numpy as np, pyarrow.parquet as pq, ray, ray.data
import aipu, aipu.ray
from ray.cluster_utils import Cluster

ROWS = 480
images = np.random.default_rng(1).random((ROWS, 3, 32, 32), dtype=np.float32)
wanted = aipu.InferenceSession("sample_cnn.onnx").run(None, {"image": images})[0]
folder = os.getcwd()


class Dying(aipu.ray.Predictor):
    '''Ends its process with SIGKILL in the third batch of all; tells when so many batches are done.'''

    def __call__(self, batch):
        for number in range(1000):
            try:
                os.close(os.open(f"{folder}/batch-{number}", os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                continue
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        result = super().__call__(batch)
        open(f"{folder}/node-{ray.get_runtime_context().get_node_id()}", "w").close()
        if number >= 12:  # as long as the other node is to be killed
            import time
            while not os.path.exists(f"{folder}/node-killed"):
                time.sleep(0.05)
        return result


def check(rows):
    assert sorted(row["key"] for row in rows) == list(range(ROWS)), len(rows)
    for row in rows:
        np.testing.assert_allclose(row["probabilities"], wanted[row["key"]], rtol=1e-5, atol=1e-7)


cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": 200 << 20})
try:
    second = cluster.add_node(num_cpus=2, object_store_memory=200 << 20)
    ray.init(address=cluster.address, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = [{"image": image, "key": key} for key, image in enumerate(images)]
    dataset = ray.data.from_items(rows, override_num_blocks=24)

    plain = aipu.ray.map_batches(dataset, "sample_cnn.onnx", batch_size=20)
    check(plain.take_all())

    import threading, time

    def kill_the_node():
        while not os.path.exists(f"{folder}/batch-12"):
            time.sleep(0.05)
        cluster.remove_node(second, allow_graceful=False)
        open(f"{folder}/node-killed", "w").close()

    killer = threading.Thread(target=kill_the_node)
    killer.start()
    options = {"batch_size": 20, "concurrency": 3, "pin": False, "scheduling_strategy": "SPREAD"}
    dying = aipu.ray.map_batches(dataset, "sample_cnn.onnx", predictor=Dying, **options)
    dying.write_parquet("out")
    killer.join()
    files = glob.glob("out/*.parquet")
    got = ray.data.read_parquet("out").take_all()
    check(got)
    assert len(glob.glob("node-*")) == 3 and len(glob.glob("batch-*")) > ROWS // 20
    print(len(files), "files,", len(glob.glob("batch-*")), "batches begun for", ROWS // 20)

    # A file that is renamed to the model's is used from the next batch on.
    binary = aipu.build("sample_cnn.onnx", "fleet.aipu.bin")["output"]
    reloads = []

    class Telling(aipu.ray.Predictor):
        def __call__(self, batch):
            if int(batch["key"][0]) == 40:
                os.replace(f"{folder}/new.aipu.bin", self.node_model.path)
            result = super().__call__(batch)
            result["reloads"] = np.full(len(batch["key"]), self.node_model.reloads)
            return result

    aipu.build("sample_cnn.onnx", "new.aipu.bin", fast_math=True)
    told = aipu.ray.map_batches(
        dataset, os.path.abspath(binary), batch_size=20, concurrency=1, distribute=False, predictor=Telling
    ).take_all()
    check(told)
    assert {row["reloads"] for row in told} == {0, 1}

    try:
        aipu.ray.map_batches(dataset.drop_columns(["image"]), "sample_cnn.onnx").take_all()
    except Exception as error:
        assert "no column image" in str(error), error
    else:
        raise AssertionError
    ragged = ray.data.from_items([{"x": np.full((i % 3 + 1,), i, np.float32)} for i in range(12)])
    found = aipu.ray.map_batches(ragged, "double.onnx", keep=["x"], concurrency=1).take_all()
    for row in found:
        np.testing.assert_array_equal(np.asarray(row["y"]), 2 * np.asarray(row["x"]))
finally:
    ray.shutdown()
    cluster.shutdown()
print("ok")
"""

# A service: requests that come together run together; what does not fit is the fault of one of them.
SERVE = """
import concurrent.futures, json, os, sys, urllib.error, urllib.request
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import numpy as np, ray
from ray import serve
import aipu, aipu.ray

images = np.random.default_rng(1).random((24, 3, 32, 32), dtype=np.float32)
wanted = aipu.InferenceSession("sample_cnn.onnx").run(None, {"image": images})[0]
ray.init(num_cpus=3, object_store_memory=200 << 20, log_to_driver=False, include_dashboard=False)
try:
    port = int(sys.argv[1])
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    application = aipu.ray.deployment("sample_cnn.onnx", max_batch_size=8, batch_wait_timeout_s=0.05)
    handle = serve.run(application)

    def ask(body):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/", data=json.dumps(body).encode() if body else None)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def tensor(array):
        data = array.ravel().tolist()
        return {"inputs": [{"name": "image", "shape": list(array.shape), "datatype": "FP32", "data": data}]}

    told = ask(None)
    assert told["inputs"] == [{"name": "image", "datatype": "FP32", "shape": ["N", 3, 32, 32]}], told
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda image: ask(tensor(image[None]))["outputs"][0], images))
    for answer, row in zip(answers, wanted):
        assert answer["name"] == "probabilities" and answer["shape"] == [1, 10]
        np.testing.assert_allclose(answer["data"], row, rtol=1e-5, atol=1e-7)
    futures = [handle.predict.remote({"image": image[None]}) for image in images]
    for future, row in zip(futures, wanted):
        np.testing.assert_allclose(future.result()["probabilities"][0], row, rtol=1e-5, atol=1e-7)
    for bad, text in (
        (tensor(images[0]), "expected rank 4"),
        ({"inputs": [{"name": "image"}]}, "'datatype'"),
        ({"inputs": [{"name": "image", "shape": [1], "datatype": "BF8", "data": [1]}]}, "datatype"),
        ({"rows": 1}, "list 'inputs'"),
    ):
        try:
            ask(bad)
        except urllib.error.HTTPError as error:
            assert error.code == 400 and text in json.load(error)["error"], text
        else:
            raise AssertionError(text)
finally:
    serve.shutdown()
    ray.shutdown()
print("ok")
"""


@pytest.fixture
def python(tmp_path):
    from onnx_text import node, write_model

    found = python_with("numpy, pyarrow, ray, ray.data, ray.serve")
    if not (BIN / "aipu-make-model").exists():
        pytest.skip("aipu-make-model is not built (AIPU_BUILD_DIR)")
    command = [BIN / "aipu-make-model", "sample_cnn", "-o", tmp_path / "sample_cnn.onnx"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    write_model(
        tmp_path / "double.onnx",
        [node("Add", ["x", "x"], ["y"])],
        [("x", "float32", ("N", "w"))],
        [("y", "float32", ("N", "w"))],
    )
    return found


def run_with_ray(python, *arguments):
    """What the script prints; skips where Ray itself did not start: on a busy machine its agents time out."""
    try:
        return run_python(python, *arguments, timeout=600)
    except AssertionError as error:
        if "timed out during startup" in str(error):
            pytest.skip("Ray did not start in the time that it has: the machine is busy")
        raise


def test_data(python, tmp_path):
    (tmp_path / "data.py").write_text(DATA)
    assert "ok" in run_with_ray(python, "data.py")


def test_serve(python, tmp_path):
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "serve.py").write_text(SERVE)
    assert "ok" in run_with_ray(python, "serve.py", port)


def test_without_ray():
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.modules['ray'] = None\nimport aipu.ray"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "pip install 'aipu[ray]'" in done.stderr
