"""aipu.onnxruntime: the calls of onnxruntime, and the conversions that it keeps."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import threading

import aipu
import aipu.onnxruntime as ort
import numpy as np
import pytest
from onnx_text import MapType, SequenceType, node, write_model
from other_python import python_with, run_python

BIN = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", ".")) / "bin"
MODELS = ["sample_cnn", "mlp", "transformer_block"]
ALL_MODELS = [
    *MODELS,
    "squeezenet",
    "shufflenet",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "resnet18",
    "resnet18_int8",
    "lstm_acoustic",
    "bert2",
    "vit_tiny16",
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of converted models of its own, above the shared one of compiled kernels."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(aipu._converted, "default_cache_folder", lambda: str(folder))
    return folder


@pytest.fixture
def path(tmp_path):
    """y = x + x and z = x[i]; the symbol n is that of both inputs' lengths."""
    write_model(
        tmp_path / "m.onnx",
        [node("Add", ["x", "x"], ["y"]), node("Gather", ["x", "i"], ["z"], axis=0)],
        [("x", "float32", ("n", 3)), ("i", "int64", ("n",))],
        [("y", "float32", ("n", 3)), ("z", "float32", ("n", 3))],
    )
    return tmp_path / "m.onnx"


def feed_of(rows):
    return {"x": np.arange(3 * rows, dtype=np.float32).reshape(rows, 3), "i": np.arange(rows)[::-1].copy()}


# What a user's script does; only the name of the package differs.
SCRIPT = """
import sys
if sys.argv[1] == "aipu":
    import aipu.onnxruntime as ort
else:
    import onnxruntime as ort
import json
import numpy as np

def shape_of(value, at):
    known = {"N": 2, "seq": 5, "frames": 4}
    return [extent if isinstance(extent, int) else known.get(extent, 2) for extent in value.shape]

def value_of(value, at, rng):
    shape = shape_of(value, at)
    if value.type == "tensor(float)":
        return rng.standard_normal(shape, dtype=np.float32)
    assert value.type == "tensor(int64)", value.type
    return rng.integers(0, 2, shape)

options = ort.SessionOptions()
options.intra_op_num_threads = 2
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
results, told = {}, {}
for path in sys.argv[3:]:
    session = ort.InferenceSession(path, sess_options=options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(7)
    feed = {value.name: value_of(value, at, rng) for at, value in enumerate(session.get_inputs())}
    names = [value.name for value in session.get_outputs()]
    outputs = session.run(None, feed)
    binding = session.io_binding()
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    for name in names:
        binding.bind_output(name)
    session.run_with_iobinding(binding)
    for name, array, bound in zip(names, outputs, binding.copy_outputs_to_cpu()):
        np.testing.assert_allclose(array, bound, rtol=1e-5, atol=1e-6)
        results[path + " " + name] = array
    value = ort.OrtValue.ortvalue_from_numpy(outputs[0])
    told[path] = [
        [[v.name, v.type, v.shape] for v in session.get_inputs()],
        [[v.name, v.type] for v in session.get_outputs()],
        session.get_modelmeta().producer_name,
        session.get_modelmeta().graph_name,
        session.get_providers(),
        [value.data_type(), value.element_type(), value.shape(), value.device_name()],
    ]
    for bad in ({}, {name: array[..., None] for name, array in feed.items()}):
        try:
            session.run(None, bad)
        except (ValueError, ort.capi.onnxruntime_pybind11_state.InvalidArgument) as error:
            told[path].append(type(error).__name__)
np.savez(sys.argv[2], **results)
print(json.dumps(told))
"""


def test_the_same_script_by_both(tmp_path):
    python = python_with("numpy, onnxruntime")
    if not (BIN / "aipu-make-model").exists():
        pytest.skip("aipu-make-model is not built (AIPU_BUILD_DIR)")
    models = ALL_MODELS if os.environ.get("AIPU_LARGE_TESTS") else MODELS
    for name in models:
        command = [BIN / "aipu-make-model", name, "-o", tmp_path / f"{name}.onnx"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (tmp_path / "script.py").write_text(SCRIPT)
    paths = [f"{name}.onnx" for name in models]
    ours, theirs = (
        json.loads(run_python(python, "script.py", package, f"{package}.npz", *paths, timeout=1800))
        for package in ("aipu", "onnxruntime")
    )
    assert ours == theirs
    with np.load("aipu.npz") as mine, np.load("onnxruntime.npz") as others:
        assert sorted(mine) == sorted(others) and len(mine.files) >= len(models)
        for name in mine:
            scale = np.abs(others[name]).max()
            limit = 0.05 if "int8" in name else 2e-4
            np.testing.assert_allclose(mine[name], others[name], rtol=0, atol=limit * scale, err_msg=name)


def test_description(path):
    session = aipu.InferenceSession(path)
    assert session.get_inputs() == [
        ort.NodeArg("x", "tensor(float)", ["n", 3]),
        ort.NodeArg("i", "tensor(int64)", ["n"]),
    ]
    assert [value.name for value in session.get_outputs()] == ["y", "z"]
    assert session.get_providers() == ["CPUExecutionProvider"] and session.get_overridable_initializers() == []
    assert session.get_modelmeta().graph_name == "g" and session.get_modelmeta().custom_metadata_map == {}
    assert ort.get_device() == "CPU" and "CPUExecutionProvider" in ort.get_available_providers()


def test_names_of_extents_are_those_of_the_model(tmp_path):
    """Also where the compiler names them otherwise; an extent without a name has none."""
    write_model(
        tmp_path / "m.onnx",
        [node("Relu", ["x"], ["y"])],
        [("x", "float32", ("a.b/0", "", 2))],
        [("y", "float32", ("a.b/0", "", 2))],
    )
    options = ort.SessionOptions()
    assert ort.InferenceSession(tmp_path / "m.onnx").get_inputs()[0].shape == ["a.b/0", None, 2]
    assert ort.InferenceSession(tmp_path / "m.onnx").get_outputs()[0].shape == ["a.b/0", None, 2]
    options.add_free_dimension_override_by_name("a.b/0", 3)
    assert ort.InferenceSession(tmp_path / "m.onnx", options).get_inputs()[0].shape == [3, None, 2]


def test_run(path):
    session = ort.InferenceSession(str(path))
    feed = feed_of(4)
    y, z = session.run(None, feed)
    np.testing.assert_array_equal(y, 2 * feed["x"])
    np.testing.assert_array_equal(z, feed["x"][::-1])
    (only,) = session.run(["z"], feed)
    np.testing.assert_array_equal(only, z)
    lists = session.run(["z"], {"x": [[1, 2, 3]], "i": [0]})[0]
    np.testing.assert_array_equal(lists, [[1, 2, 3]])
    values = session.run_with_ort_values(["y"], {name: ort.OrtValue.ortvalue_from_numpy(feed[name]) for name in feed})
    assert values[0].data_type() == "tensor(float)" and values[0].shape() == [4, 3]
    np.testing.assert_array_equal(values[0].numpy(), y)


def test_from_threads(path):
    session = ort.InferenceSession(path)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for rows, found in enumerate(pool.map(lambda rows: session.run(None, feed_of(rows + 1)), range(50))):
            np.testing.assert_array_equal(found[0], 2 * feed_of(rows + 1)["x"])


def test_run_async(path):
    session = ort.InferenceSession(path)
    found, done = {}, threading.Semaphore(0)

    def callback(outputs, rows, error):
        found[rows] = (outputs, error)
        done.release()

    for rows in range(1, 9):
        session.run_async(["y"], feed_of(rows), callback, rows)
    session.run_async(["y"], {"x": feed_of(2)["x"]}, callback, "bad")
    for _ in range(9):
        assert done.acquire(timeout=60)
    for rows in range(1, 9):
        np.testing.assert_array_equal(found[rows][0][0], 2 * feed_of(rows)["x"])
    assert found["bad"][0] == [] and "Required inputs (['i'])" in found["bad"][1]


def test_values_of_other_element_types_in_the_same_memory():
    codes = np.array([0x3C00, 0x4000], np.uint16)  # 1 and 2
    value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(codes, 10)
    assert (value.data_type(), value.element_type(), value.shape()) == ("tensor(float16)", 10, [2])
    assert value.data_ptr() == codes.ctypes.data and value.numpy().tolist() == [1, 2]
    fp8 = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(3, np.uint8), 17)
    assert (fp8.data_type(), fp8.element_type()) == ("tensor(float8e4m3fn)", 17)
    assert ort.OrtValue.ortvalue_from_shape_and_type([3], 17).element_type() == 17
    with pytest.raises(ort.InvalidArgument, match="float16 has 2 bytes, float32 4"):
        ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(2, np.float32), 10)
    with pytest.raises(ort.InvalidArgument, match="element type 99"):
        ort.OrtValue.ortvalue_from_numpy_with_onnx_type(codes, 99)


def test_values_from_and_to_dlpack():
    array = np.arange(3, dtype=np.float32)
    value = ort.OrtValue.from_dlpack(array)
    assert value.data_ptr() == array.ctypes.data
    np.testing.assert_array_equal(np.from_dlpack(ort.OrtValue.ortvalue_from_numpy(array)), array)
    other = ort.OrtValue.ortvalue_from_shape_and_type([3], np.float32)
    other.update_inplace(value)
    np.testing.assert_array_equal(other.numpy(), array)
    assert ort.OrtValue.from_dlpack(np.ones(2, np.uint8), is_bool_tensor=True).data_type() == "tensor(bool)"


def test_io_binding(path):
    session = ort.InferenceSession(path)
    feed = feed_of(2)
    binding = session.io_binding()
    binding.bind_cpu_input("x", feed["x"])
    binding.bind_input("i", "cpu", 0, np.int64, [2], feed["i"].ctypes.data)
    into = np.zeros((2, 3), np.float32)
    binding.bind_output("z", "cpu", 0, np.float32, into.shape, into.ctypes.data)
    given = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], 1)
    binding.bind_ortvalue_output("y", given)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(into, feed["x"][::-1])
    np.testing.assert_array_equal(given.numpy(), 2 * feed["x"])
    feed["x"][:] = 1  # read in place
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[1], np.full((2, 3), 2))
    assert binding.get_outputs()[0].numpy().ctypes.data == into.ctypes.data
    with pytest.raises(ort.InvalidArgument, match="no input 'q'"):
        binding.bind_cpu_input("q", feed["x"])
    with pytest.raises(ort.InvalidArgument, match="CPU's memory only"):
        binding.bind_output("y", "cuda")
    binding.clear_binding_inputs()
    with pytest.raises(ValueError, match="Required inputs"):
        session.run_with_iobinding(binding)


def test_sequences_and_maps(tmp_path):
    """A classifier as sklearn's exporter writes it, and a sequence: as onnxruntime describes and gives them."""
    maps = MapType("object", "float32", many=True)
    write_model(
        tmp_path / "c.onnx",
        [node("ZipMap", ["x"], ["p"], "ai.onnx.ml", classlabels_strings=["a", "b"]), node("Relu", ["x"], ["y"])],
        [("x", "float32", ("N", 2))],
        [("p", maps, ()), ("y", "float32", ("N", 2))],
        opset=21,
    )
    session = ort.InferenceSession(tmp_path / "c.onnx")
    kinds = [(value.name, value.type, value.shape) for value in session.get_outputs()]
    assert kinds == [("p", "seq(map(string,tensor(float)))", []), ("y", "tensor(float)", ["N", 2])]
    feed = {"x": np.array([[0.5, -2]], np.float32)}
    scores, y = session.run(None, feed)
    assert scores == [{"a": 0.5, "b": -2.0}] and y.tolist() == [[0.5, 0]]
    assert session.run(["p"], feed) == [scores]
    value = session.run_with_ort_values(["p"], {"x": ort.OrtValue.ortvalue_from_numpy(feed["x"])})[0]
    assert value.data_type() == kinds[0][1] and not value.is_tensor() and not value.is_tensor_sequence()
    with pytest.raises(RuntimeError, match="only a tensor has that"):
        value.numpy()
    binding = session.io_binding()
    binding.bind_cpu_input("x", feed["x"])
    binding.bind_output("p")
    session.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu() == [scores]

    write_model(
        tmp_path / "s.onnx",
        [node("SequenceInsert", ["xs", "x"], ["ys"])],
        [("xs", SequenceType("float32", ("N",)), ()), ("x", "float32", ("N",))],
        [("ys", SequenceType("float32", ("N",)), ())],
    )
    provider = ("AipuExecutionProvider", {"sequence_lengths": {"xs": 1}})
    session = ort.InferenceSession(tmp_path / "s.onnx", providers=[provider])
    assert [(value.name, value.type, value.shape) for value in session.get_inputs()] == [
        ("xs", "seq(tensor(float))", []),
        ("x", "tensor(float)", ["N"]),
    ]
    one, two = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    (found,) = session.run(None, {"xs": [one], "x": two})
    assert [array.tolist() for array in found] == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match=r"Required inputs \(\['xs'\]\)"):
        session.run(None, {"x": two})


def test_strings(tmp_path):
    write_model(tmp_path / "m.onnx", [node("Identity", ["x"], ["y"])], [("x", "object", (2,))], [("y", "object", (2,))])
    session = ort.InferenceSession(tmp_path / "m.onnx")
    assert session.get_inputs()[0].type == "tensor(string)"
    value = session.run_with_ort_values(None, {"x": ort.OrtValue.ortvalue_from_numpy(np.array(["a", "bc"]))})[0]
    assert value.data_type() == "tensor(string)" and value.element_type() == 8
    assert value.numpy().tolist() == ["a", "bc"]


def test_what_is_without_effect_says_so(path):
    with pytest.warns(UserWarning, match="set_seed is without effect"):
        ort.set_seed(1)
    ort.preload_dlls()
    options = ort.SessionOptions()
    assert not options.has_providers()
    options.add_provider("AipuExecutionProvider", {"target": "X2_1204"})
    with pytest.warns(UserWarning, match="no argument 'speed'"):
        session = ort.InferenceSession(path, options, speed=1)
    assert options.has_providers() and session._model.target == "X2_1204"


def test_errors(path, tmp_path):
    session = ort.InferenceSession(path)
    with pytest.raises(ValueError, match=r"Required inputs \(\['i'\]\) are missing"):
        session.run(None, {"x": np.zeros((1, 3), "float32")})
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument, match="expected float32, found float64"):
        session.run(None, {"x": np.zeros((1, 3)), "i": np.zeros(1, "int64")})
    with pytest.raises(ort.InvalidArgument, match="Invalid output name:q"):
        session.run(["q"], feed_of(1))
    with pytest.raises(ort.InvalidArgument, match="Gather"):
        session.run(None, {"x": np.zeros((1, 3), "float32"), "i": np.array([5])})
    with pytest.raises(ort.NoSuchFile):
        ort.InferenceSession(tmp_path / "none.onnx")
    for data in (b"abc", b"", b"\x08\x08"):
        with pytest.raises(ort.InvalidProtobuf):
            ort.InferenceSession(data)
    with pytest.raises(TypeError, match="found int"):
        ort.InferenceSession(5)
    write_model(
        tmp_path / "n.onnx", [node("NoSuchOp", ["x"], ["y"])], [("x", "float32", (2,))], [("y", "float32", (2,))]
    )
    with pytest.raises(ort.NotImplemented, match="y_node"):
        ort.InferenceSession(tmp_path / "n.onnx")


def test_what_is_not_there_says_so(path):
    options = ort.SessionOptions()
    with pytest.raises(NotImplementedError, match="plugins"):
        options.register_custom_ops_library("ops.so")
    with pytest.raises(NotImplementedError, match="dump_ir"):
        options.optimized_model_filepath = "o.onnx"
    with pytest.raises(AttributeError, match="no 'intra_op_num_thread'"):
        options.intra_op_num_thread = 1
    with pytest.raises(AttributeError, match="no 'SparseTensor'"):
        _ = ort.SparseTensor
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        session = ort.InferenceSession(path, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.raises(ort.InvalidArgument, match="no option 'speed'"):
        ort.InferenceSession(path, providers=[("AipuExecutionProvider", {"speed": 1})])
    run_options = ort.RunOptions()
    run_options.terminate = True
    with pytest.raises(ort.Fail, match="terminate"):
        session.run(None, feed_of(1), run_options)


def test_options(path, tmp_path):
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("n", 4)
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    assert options.get_session_config_entry("session.set_denormal_as_zero") == "1"
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    provider = ("AipuExecutionProvider", {"target": "X2_1204", "backend": "interp"})
    session = ort.InferenceSession(path, options, providers=[provider, "CPUExecutionProvider"])
    assert [value.shape for value in session.get_inputs()] == [[4, 3], [4]]
    assert session._model.target == "X2_1204" and session._model.backend == "interp"
    assert session.get_provider_options()["AipuExecutionProvider"]["target"] == "X2_1204"
    np.testing.assert_array_equal(session.run(["y"], feed_of(4))[0], 2 * feed_of(4)["x"])
    events = json.loads(pathlib.Path(session.end_profiling()).read_text())["traceEvents"]
    assert any(event["ph"] == "X" for event in events)


def test_models_in_memory_and_converted_ones(path, tmp_path):
    data = path.read_bytes()
    wanted = ort.InferenceSession(path).run(None, feed_of(3))
    binary = aipu.build(data, tmp_path / "own.aipu.bin")["output"]
    for model in (data, memoryview(data), binary, pathlib.Path(binary).read_bytes()):
        for mine, other in zip(ort.InferenceSession(model).run(None, feed_of(3)), wanted):
            np.testing.assert_array_equal(mine, other)
    with pytest.raises(ValueError, match="takes no target"):
        ort.InferenceSession(binary, providers=[("AipuExecutionProvider", {"target": "host"})])


def entries(cache):
    return sorted(entry.name for entry in cache.iterdir())


def test_conversions_are_kept_by_content(path, tmp_path, cache, monkeypatch):
    built = []
    build = aipu.model.build
    monkeypatch.setattr(aipu.model, "build", lambda *a, **k: built.append(1) or build(*a, **k))
    ort.InferenceSession(path)
    ort.InferenceSession(path.read_bytes())
    os.rename(path, tmp_path / "other.onnx")
    ort.InferenceSession(tmp_path / "other.onnx")
    assert len(built) == 1 and len(entries(cache)) == 1
    fast = [("AipuExecutionProvider", {"fast_math": True})]
    ort.InferenceSession(tmp_path / "other.onnx", providers=fast)
    assert len(built) == 2 and len(entries(cache)) == 2
    # What is damaged is made again.
    for name in entries(cache):
        (cache / name).write_bytes(b"damaged")
    np.testing.assert_array_equal(
        ort.InferenceSession(tmp_path / "other.onnx").run(["y"], feed_of(2))[0], 2 * feed_of(2)["x"]
    )
    assert len(built) == 3


def test_external_data_counts(tmp_path, cache):
    """A model whose weights lie beside it is converted again when they change."""
    from onnx_text import _field

    def entry(key, value):
        return _field(13, _field(1, key) + _field(2, value))

    tensor = _field(1, 2) + _field(2, 1) + _field(8, "w") + entry("location", "w.bin") + _field(14, 1)
    write_model(
        tmp_path / "m.onnx", [node("Add", ["x", "w"], ["y"])], [("x", "float32", (2,))], [("y", "float32", (2,))]
    )
    with open(tmp_path / "m.onnx", "ab") as file:
        file.write(_field(7, _field(5, tensor)))  # fields of a message that comes twice are merged
    x = np.ones(2, np.float32)
    for value in (1, 2, 2):
        np.full(2, value, np.float32).tofile(tmp_path / "w.bin")
        np.testing.assert_array_equal(ort.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x})[0], x + value)
    assert len(entries(cache)) == 2


def test_a_folder_that_others_may_write_is_not_used(path, cache):
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others may write"):
        session = ort.InferenceSession(path)
    np.testing.assert_array_equal(session.run(["y"], feed_of(2))[0], 2 * feed_of(2)["x"])
    assert entries(cache) == []


def test_processes_convert_once(path, tmp_path):
    """Processes that begin together get the same conversion, of which one is made."""
    script = tmp_path / "one.py"
    script.write_text(
        "import sys, os, numpy as np, aipu\n"
        "build = aipu.model.build\n"
        "aipu.model.build = lambda *a, **k: print('built') or build(*a, **k)\n"
        "provider = ('AipuExecutionProvider', {'cache_dir': sys.argv[2]})\n"
        "print(aipu.InferenceSession(sys.argv[1], providers=[provider]).run(['y'], "
        "{'x': np.ones((1, 3), 'f'), 'i': np.zeros(1, 'q')})[0].tolist())\n"
    )
    command = [sys.executable, str(script), str(path), str(tmp_path / "shared")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert all(process.returncode == 0 for process in processes)
    assert sum("built" in output for output in outputs) == 1
    assert all("[[2.0, 2.0, 2.0]]" in output for output in outputs)
    assert [name.endswith(".aipu.bin") for name in os.listdir(tmp_path / "shared")] == [True]
