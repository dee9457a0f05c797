"""Whole models: convert, load, run."""

import json
import os
import pathlib
import subprocess
import sys

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model

BIN = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", ".")) / "bin"


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    maker = BIN / "aipu-make-model"
    if not maker.exists():
        pytest.skip("aipu-make-model is not built (AIPU_BUILD_DIR)")
    folder = tmp_path_factory.mktemp("model")
    subprocess.run([maker, "sample_cnn", "-o", folder / "sample.onnx"], check=True, stdout=subprocess.DEVNULL)
    report = aipu.build(folder / "sample.onnx", folder / "sample.aipu.bin")
    assert report["kernels"] > 0 and report["output"] == str(folder / "sample.aipu.bin")
    return folder


@pytest.fixture(scope="module")
def model(sample):
    return aipu.load(sample / "sample.aipu.bin")


@pytest.fixture(scope="module")
def image():
    return np.random.default_rng(1).random((2, 3, 32, 32), dtype=np.float32)


def test_description(model):
    assert [spec.name for spec in model.inputs] == ["image"]
    assert model.inputs[0].dtype == "float32" and model.inputs[0].shape[1:] == (3, 32, 32)
    assert isinstance(model.inputs[0].shape[0], str)  # a symbol
    assert model.outputs[0].name == "probabilities" and model.backend == "host"
    assert "image float32" in repr(model)


def test_run(model, image):
    result = model.run({"image": image})
    assert list(result) == ["probabilities"]
    np.testing.assert_allclose(result["probabilities"].sum(axis=1), 1, rtol=1e-5)
    one = model.run({"image": image[:1]})["probabilities"]
    np.testing.assert_allclose(one, result["probabilities"][:1], rtol=1e-5)


def test_results_belong_to_the_caller(model, image):
    first = model.run({"image": image})["probabilities"]
    kept = first.copy()
    model.run({"image": image * 0.5})
    np.testing.assert_array_equal(first, kept)


def test_outputs_given(model, image):
    wanted = model.run({"image": image})["probabilities"]
    out = np.zeros_like(wanted)
    result = model.run({"image": image}, {"probabilities": out})
    assert result["probabilities"] is out
    np.testing.assert_array_equal(out, wanted)
    with pytest.raises(ValueError, match="expected shape"):
        model.run({"image": image}, {"probabilities": np.zeros((1, 1), "float32")})
    with pytest.raises(ValueError, match="no output 'scores'"):
        model.run({"image": image}, ["scores"])


def test_inputs_that_do_not_fit(model, image):
    with pytest.raises(ValueError, match="no input 'picture'"):
        model.run({"picture": image})
    with pytest.raises(ValueError, match="expected float32, found float64"):
        model.run({"image": image.astype("float64")})
    with pytest.raises(ValueError, match="expected rank 4"):
        model.run({"image": image[0]})
    with pytest.raises(ValueError, match="axis 1: expected 3"):
        model.run({"image": image[:, :2].copy()})
    with pytest.raises(ValueError, match="no value for input 'image'"):
        model.session().run({})
    strided = np.asfortranarray(image)
    np.testing.assert_array_equal(
        model.run({"image": strided})["probabilities"], model.run({"image": image})["probabilities"]
    )


def test_profile(model, image, tmp_path):
    session = model.session(threads=1, profile=True)
    session.run({"image": image})
    rows = session.profile()
    assert rows and all(row.duration >= 0 for row in rows) and any("Conv" in row.origin for row in rows)
    session.write_profile(tmp_path / "trace.json")
    assert (tmp_path / "trace.json").stat().st_size > 100
    assert session.threads == 1 and session.arena_bytes > 0


@pytest.mark.parametrize("target", ["X2_1204"])
def test_npu_agrees_with_host(sample, model, image, target):
    path = sample / f"{target}.aipu.bin"
    aipu.build(sample / "sample.onnx", path, target=target, shapes={"image": (2, 3, 32, 32)})
    device = aipu.load(path)
    assert device.target == target and device.inputs[0].shape == (2, 3, 32, 32)
    result = device.run({"image": image})["probabilities"]
    np.testing.assert_allclose(result, model.run({"image": image})["probabilities"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["x2", "interp"])
def test_virtual_time(tmp_path, backend):
    """On the NPU a copy overlaps the kernel that it does not wait for, and what waits begins when that has ended."""
    write_model(
        tmp_path / "m.onnx",
        [node("Relu", ["a"], ["r"]), node("Concat", ["b", "r"], ["y"], axis=0)],
        [("a", "float32", (64, 64)), ("b", "float32", (64, 64))],
        [("y", "float32", (128, 64))],
    )
    aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin", target="X2_1204")
    model = aipu.load(tmp_path / "m.aipu.bin", backend=backend)
    session = model.session(profile=True, cycles=True)
    assert session.cycles is None
    inputs = {name: np.full((64, 64), value, np.float32) for name, value in [("a", -1), ("b", 2)]}
    np.testing.assert_array_equal(session.run(inputs)["y"], np.repeat([[2.0], [0.0]], 64, axis=0) * np.ones(64))
    rows = session.profile()
    kernel = next(row for row in rows if row.engine == "tec")
    copies = [row for row in rows if row.engine == "dma"]
    assert kernel.start_cycles == copies[0].start_cycles == 0 and copies[0].cycles > 0
    assert copies[1].start_cycles == max(kernel.cycles, copies[0].cycles)
    assert session.cycles == max(row.start_cycles + row.cycles for row in rows)
    session.write_profile(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    args = [event["args"] for event in events if event["ph"] == "X" and event["pid"] == 2]
    told = {(row.cycles, row.compute_cycles, row.dma_cycles) for row in rows if row.cycles}
    assert told <= {(a.get("cycles"), a.get("compute_cycles"), a.get("dma_cycles")) for a in args}
    assert kernel.cycles >= max(kernel.compute_cycles, kernel.dma_cycles) > 0
    assert all((row.compute_cycles, row.dma_cycles) == (0, row.cycles) for row in copies)
    assert len(starts) >= 2 and starts.keys() == ends.keys() and {e["pid"] for e in starts.values()} == {1, 2}
    assert all(starts[key]["ts"] <= ends[key]["ts"] for key in starts)
    assert aipu.load(tmp_path / "m.aipu.bin", backend=backend).session().cycles is None


@pytest.mark.parametrize("backend", ["interp", "x2"])
def test_cores_in_virtual_time(tmp_path, backend):
    """A launch is on the lines of all cores that share it, and takes about as much less."""
    write_model(
        tmp_path / "m.onnx", [node("Exp", ["x"], ["y"])], [("x", "float32", (1024, 64))], [("y", "float32", (1024, 64))]
    )
    cycles = {}
    for target in ("X2_1204", "X2_1204MP3"):
        aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin", target=target)
        session = aipu.load(tmp_path / "m.aipu.bin", backend=backend).session(profile=True, cycles=True)
        x = np.linspace(-1, 1, 1024 * 64, dtype=np.float32).reshape(1024, 64)
        np.testing.assert_allclose(session.run({"x": x})["y"], np.exp(x), rtol=1e-5)
        cycles[target] = session.cycles
        session.write_profile(tmp_path / "trace.json")
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        lines = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        of_core = {lines[e["tid"]]: (e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["pid"] == 2}
        cores = ["tec", "tec of core 1", "tec of core 2"] if target == "X2_1204MP3" else ["tec"]
        assert sorted(of_core) == cores and len(set(of_core.values())) == 1
    assert cycles["X2_1204MP3"] < 0.5 * cycles["X2_1204"]


def test_overlap(model, image):
    expected = model.run({"image": image})["probabilities"]
    session = model.session(threads=2, overlap=True)
    np.testing.assert_array_equal(session.run({"image": image})["probabilities"], expected)
    with pytest.raises(ValueError, match="cannot go together with"):
        model.session(cycles=True, overlap=True)


def test_no_virtual_time_on_a_cpu(model, image):
    session = model.session(profile=True, cycles=True)
    session.run({"image": image})
    assert session.cycles is None and session.profile()[0].cycles is None


def test_fast_math(tmp_path):
    """Longer sums (of Winograd's F(4x4)), nearly the same results, and the file says so."""
    maker = BIN / "aipu-make-model"
    if not maker.exists():
        pytest.skip("aipu-make-model is not built (AIPU_BUILD_DIR)")
    subprocess.run([maker, "squeezenet", "-o", tmp_path / "m.onnx"], check=True, stdout=subprocess.DEVNULL)
    strict, fast = tmp_path / "strict.aipu.bin", tmp_path / "fast.aipu.bin"
    aipu.build(tmp_path / "m.onnx", strict)
    aipu.build(tmp_path / "m.onnx", fast, fast_math=True)
    model = aipu.load(strict)
    image = np.random.default_rng(2).random((1, 3, 224, 224), dtype=np.float32)
    inputs = {model.inputs[0].name: image}
    for name, expected in model.run(inputs).items():
        actual = aipu.load(fast).run(inputs)[name]
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
        assert not np.array_equal(actual, expected)
    if (BIN / "aipudump").exists():
        summary = subprocess.run([BIN / "aipudump", fast], check=True, capture_output=True, text=True).stdout
        assert "with fast-math" in summary


def test_plugin_in_cpp(tmp_path):
    """In a process of its own: the plugin's operators are registered for good."""
    plugin = BIN.parent / "lib" / "libaipu_sample_plugin.so"
    maker = BIN / "aipu-make-model"
    if not (plugin.exists() and maker.exists()):
        pytest.skip("the sample plugin is not built")
    subprocess.run([maker, "soft_cap", "-o", tmp_path / "m.onnx"], check=True, stdout=subprocess.DEVNULL)
    code = (
        "import sys, numpy as np, aipu; folder, plugin = sys.argv[1:]\n"
        "report = aipu.build(folder + '/m.onnx', plugins=[plugin])\n"
        "model = aipu.load(report['output'])\n"
        "x = np.ones((2, 64), 'float32')\n"
        "print(sorted(a.shape for a in model.run({model.inputs[0].name: x}).values()))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path), str(plugin)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "(2, " in done.stdout, done.stderr


def test_target_in_a_library(tmp_path):
    """The sample target and device; in a process of its own, as the target is registered for good."""
    source = os.environ.get("AIPU_SOURCE_DIR")
    maker = BIN / "aipu-make-model"
    if source is None or not maker.exists():
        pytest.skip("needs the sources and aipu-make-model (AIPU_SOURCE_DIR, AIPU_BUILD_DIR)")
    subprocess.run([maker, "mlp", "-o", tmp_path / "m.onnx"], check=True, stdout=subprocess.DEVNULL)
    shared = ["-shared", "-fPIC", "-I", source]
    target, device = tmp_path / "target.so", tmp_path / "libaipu_backend_sample.so"
    subprocess.run(
        ["c++", "-std=c++20", *shared, f"{source}/codegen/targets/sample/sample_target.cpp", "-o", target], check=True
    )
    subprocess.run(
        ["cc", "-D_GNU_SOURCE", *shared, f"{source}/runtime/backends/sample/sample_device.c", "-o", device], check=True
    )
    code = (
        "import sys, numpy as np, aipu; folder, library = sys.argv[1:]\n"
        "x = np.random.default_rng(1).random((2, 784), dtype='float32')\n"
        "def outputs(**options):\n"
        "    path = aipu.build(folder + '/m.onnx', folder + '/m.bin', **options)['output']\n"
        "    model = aipu.load(path, copy=True)\n"
        "    return model.backend, model.run({model.inputs[0].name: x})\n"
        "own, got = outputs(target='sample_npu', target_plugins=[library])\n"
        "again, got = outputs(target='sample_npu', target_plugins=[library])\n"
        "host, expected = outputs(target='host-baseline')\n"
        "assert all(np.array_equal(got[name], expected[name]) for name in expected)\n"
        "print(own, again, host)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(target)],
        env={**os.environ, "AIPU_BACKEND_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "sample sample host\n", done.stderr
    with pytest.raises(OSError, match="target plugin 'none.so': no such file"):
        aipu.build(tmp_path / "m.onnx", target="sample_npu", target_plugins=["none.so"])
    with pytest.raises(TypeError, match="target_plugins: expected a list"):
        aipu.build(tmp_path / "m.onnx", target_plugins="none.so")


def test_errors_of_build_and_load(tmp_path):
    with pytest.raises(OSError, match="missing.onnx"):
        aipu.build(tmp_path / "missing.onnx")
    with pytest.raises(OSError, match="missing.aipu.bin"):
        aipu.load(tmp_path / "missing.aipu.bin")
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    with pytest.raises((RuntimeError, ValueError), match="broken.onnx"):
        aipu.build(tmp_path / "broken.onnx")
    (tmp_path / "broken.aipu.bin").write_bytes(b"not a model" * 100)
    with pytest.raises((RuntimeError, ValueError), match="broken.aipu.bin"):
        aipu.load(tmp_path / "broken.aipu.bin")


def test_a_served_file_is_replaced_by_rename(sample, image, tmp_path):
    """A mapped file keeps what it was, a copied one does not need it any more."""
    served, other = tmp_path / "served.aipu.bin", tmp_path / "other.aipu.bin"
    data = (sample / "sample.aipu.bin").read_bytes()
    served.write_bytes(data)
    mapped, copied = aipu.load(served), aipu.load(served, copy=True)
    expected = mapped.run({"image": image})["probabilities"]
    other.write_bytes(data)
    os.replace(other, served)
    np.testing.assert_array_equal(mapped.run({"image": image})["probabilities"], expected)
    again = aipu.load(served, copy=True)
    os.truncate(served, 0)
    for model in (copied, again):
        np.testing.assert_array_equal(model.run({"image": image})["probabilities"], expected)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_what_is_no_regular_file(tmp_path):
    """Refused at once: nobody ever writes into the FIFO."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for call in (aipu.load, aipu.build, lambda path: aipu.load(path, copy=True)):
        with pytest.raises(OSError, match="not a regular file, but a FIFO"):
            call(fifo)
        with pytest.raises(OSError, match="not a regular file, but a folder"):
            call(tmp_path)


def _field(number, value):
    """A field of a protocol buffer: an integer, or bytes (text and messages too)."""

    def varint(n):
        return bytes([n]) if n < 128 else bytes([n % 128 + 128]) + varint(n // 128)

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def _gather_model():
    """The bytes of y = Gather(x float32[4,2], i int64[3])."""

    def value(name, element, *extents):
        shape = b"".join(_field(1, _field(1, extent)) for extent in extents)
        return _field(1, name) + _field(2, _field(1, _field(1, element) + _field(2, shape)))

    node = _field(1, "x") + _field(1, "i") + _field(2, "y") + _field(3, "embed/Gather") + _field(4, "Gather")
    graph = _field(1, node) + _field(2, "g") + _field(11, value("x", 1, 4, 2)) + _field(11, value("i", 7, 3))
    return _field(1, 8) + _field(8, _field(2, 17)) + _field(7, graph + _field(12, value("y", 1, 3, 2)))


def test_data_without_a_result(tmp_path):
    """An error with the node and the value; the next run is right."""
    (tmp_path / "m.onnx").write_bytes(_gather_model())
    aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    model = aipu.load(tmp_path / "m.aipu.bin")
    for runner in (model, model.session()):
        for index in (4, -5, 2**32 + 1):
            with pytest.raises(ValueError) as error:
                runner.run({"x": x, "i": np.array([0, index, 1])})
            assert str(error.value) == f"'embed/Gather' (Gather): index {index} is outside of an axis of 4 elements"
            good = np.array([3, -4, 2])
            np.testing.assert_array_equal(runner.run({"x": x, "i": good})["y"], x[good])


def test_messages_cannot_speak_to_a_terminal(model, image, tmp_path):
    for act in (
        lambda: aipu.load(tmp_path / "no\x1b[2Jfile"),
        lambda: aipu.build(tmp_path / "no\x1b[2Jfile.onnx"),
        lambda: model.run({"\x1b[2J": 1}),
        lambda: model.run({"image": image}, ["\x1b[2J"]),
    ):
        with pytest.raises((OSError, ValueError)) as caught:
            act()
        assert "\x1b" not in str(caught.value)
        assert "\\x1b[2J" in str(caught.value)


def test_dump_as_json(sample, tmp_path):
    def dump(*options):
        command = [BIN / "aipudump", sample / "sample.aipu.bin", "--json", *options]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    found = json.loads(dump("-", "--symbol", "N=2"))
    tensors, kernels = found["tensors"], found["kernels"]
    image, probabilities = (tensors[found[key][0]] for key in ("inputs", "outputs"))
    assert (image["name"], image["dtype"], image["kind"]) == ("image", "float32", "input")
    assert image["shape"] == ["N", 3, 32, 32] and found["symbols"][0]["name"] == "N"
    assert probabilities["kind"] == "output" and found["arena_bytes"] > 0
    launched = {command["kernel"] for command in found["programs"][0] if command["engine"] == "tec"}
    assert launched == set(range(len(kernels)))
    for command in found["programs"][0]:
        assert all(0 <= tensor < len(tensors) for tensor in command["reads"] + command["writes"])
    assert {"constants", "tir"} <= {section["kind"] for section in found["sections"]}
    assert found["bytes"] == (sample / "sample.aipu.bin").stat().st_size
    assert dump(tmp_path / "new" / "dump.json") == ""
    assert json.loads((tmp_path / "new" / "dump.json").read_text())["arena_bytes"] is None


PRIVATE_KEY, PUBLIC_KEY, OTHER_PUBLIC_KEY = (  # of RFC 8032, 7.1
    f"-----BEGIN {kind} KEY-----\n{text}\n-----END {kind} KEY-----\n"
    for kind, text in (
        ("PRIVATE", "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g"),
        ("PUBLIC", "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="),
        ("PUBLIC", "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="),
    )
)


def test_signed_and_stripped(sample, tmp_path):
    if not (BIN.parent / "lib" / "libaipu_signature.so").exists():
        pytest.skip("built without libsodium")
    key, path = tmp_path / "key.pem", tmp_path / "signed.aipu.bin"
    key.write_text(PRIVATE_KEY)
    (tmp_path / "key.pub.pem").write_text(PUBLIC_KEY)
    aipu.build(sample / "sample.onnx", path, sign_key=key, strip=True)
    assert path.stat().st_size < (sample / "sample.aipu.bin").stat().st_size / 2
    for trusted in (PUBLIC_KEY, tmp_path / "key.pub.pem"):
        assert aipu.load(path, trusted_key=trusted).inputs[0].name == "image"
    with pytest.raises(RuntimeError, match="signed by another key"):
        aipu.load(path, trusted_key=OTHER_PUBLIC_KEY)
    with pytest.raises(RuntimeError, match="the file is not signed"):
        aipu.load(sample / "sample.aipu.bin", trusted_key=PUBLIC_KEY)
    with pytest.raises(ValueError, match="an empty text is no key"):
        aipu.load(path, trusted_key="")
    with pytest.raises(RuntimeError, match="leaves it out"):
        aipu.load(path, backend="interp")
    with pytest.raises(OSError, match="No such file"):
        aipu.build(sample / "sample.onnx", tmp_path / "x.bin", sign_key=tmp_path / "none.pem")
