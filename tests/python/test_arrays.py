"""Every property that an array can have: it is read and written as NumPy means it, or refused."""

import os
import pathlib
import subprocess

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
    return aipu.load(aipu.build(folder / "sample.onnx")["output"])


@pytest.fixture(scope="module")
def image():
    return np.random.default_rng(3).random((2, 3, 32, 32), dtype=np.float32)


@pytest.fixture(scope="module")
def expected(model, image):
    return model.run({"image": image})["probabilities"]


class ByDLPack:
    """A tensor of another library: no array, and nothing but the protocol."""

    def __init__(self, array, device=(1, 0)):
        self._array, self._device = array, device

    def __dlpack__(self, *args, **kwargs):
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return self._device


class Renamed(np.ndarray):
    """A subclass."""


def unaligned(array):
    raw = np.empty(array.nbytes + 1, "u1")
    result = raw[1:].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def read_only(array):
    result = array.copy()
    result.flags.writeable = False
    return result


def in_a_record(array):
    record = np.zeros(array.shape, [("tag", "u1"), ("value", array.dtype)])
    record["value"] = array
    return record["value"]


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.astype(">f4"),
        lambda a: np.asfortranarray(a.astype(">f4")),
        lambda a: np.asfortranarray(a),
        lambda a: a[:, ::-1, ::-1, ::-1].copy()[:, ::-1, ::-1, ::-1],
        lambda a: np.repeat(a, 2, axis=3)[..., ::2],
        lambda a: a.transpose(3, 2, 1, 0).copy().transpose(3, 2, 1, 0),
        unaligned,
        read_only,
        in_a_record,
        lambda a: a.view(Renamed),
        lambda a: np.ma.MaskedArray(a),
        ByDLPack,
        lambda a: ByDLPack(np.asfortranarray(a)),
    ],
    ids=(
        "big-endian big-endian-strided fortran negative-strides gaps transposed unaligned read-only record subclass "
        "nothing-masked dlpack dlpack-strided"
    ).split(),
)
def test_inputs_are_read_as_numpy_means_them(model, image, expected, change):
    np.testing.assert_array_equal(model.run({"image": change(image)})["probabilities"], expected)


def test_broadcast_input(model, image):
    wide = np.broadcast_to(image[:1], image.shape)
    np.testing.assert_array_equal(
        model.run({"image": wide})["probabilities"], model.run({"image": wide.copy()})["probabilities"]
    )


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda a: a.astype(object), "input 'image': expected float32, found an array of dtype object"),
        (lambda a: np.zeros(a.shape, [("x", "f4")]), "input 'image': expected float32, found an array of dtype"),
        (lambda a: np.zeros(a.shape, "datetime64[s]"), "found an array of dtype datetime64"),
        (lambda a: np.zeros(a.shape, "timedelta64[s]"), "found an array of dtype timedelta64"),
        (lambda a: np.zeros(a.shape, "S4"), "found an array of dtype"),
        (lambda a: np.zeros(a.shape, "complex64"), "found an array of dtype complex64"),
        (lambda a: np.zeros(a.shape, "longdouble"), "input 'image': expected float32, found"),
        (lambda a: a.astype(">f8"), "expected float32, found float64"),
        (lambda a: a.view("u4"), "expected float32, found uint32"),
        (lambda a: np.ma.MaskedArray(a, a > 0.5), "input 'image': some elements are masked"),
        (lambda a: ByDLPack(a, (2, 0)), "input 'image': the tensor is on a device"),
        (lambda a: ByDLPack(read_only(a)), "input 'image': NumPy cannot take the tensor"),
        (lambda a: None, "no value for input 'image'"),
        (lambda a: object(), "found an array of dtype object"),
        (lambda a: a[0, 0, 0, 0], "expected rank 4"),
    ],
)
def test_inputs_that_are_refused(model, image, change, message):
    with pytest.raises(ValueError, match=message):
        model.run({"image": change(image)})


def test_missing_inputs_are_errors_in_every_run(model, image, expected):
    session = model.session()
    for run in (model.run, session.run):
        for _ in range(2):
            np.testing.assert_array_equal(run({"image": image})["probabilities"], expected)
            with pytest.raises(ValueError, match="no value for input 'image'"):
                run({})
            with pytest.raises(ValueError, match="no input 'Image'"):
                run({"Image": image})
            with pytest.raises(ValueError, match="no input 'more'"):
                run({"image": image, "more": image})
        with pytest.raises(TypeError, match="a mapping from names to arrays"):
            run(image)


def test_a_run_does_not_keep_the_arrays(model, image):
    session = model.session()
    mine = image.copy()
    session.run({"image": mine})
    mine.resize((1, 3, 32, 32), refcheck=False)  # NumPy refuses while somebody holds the buffer
    assert mine.shape[0] == 1


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda e: e.astype(">f4"), "not in this machine's byte order"),
        (lambda e: np.asfortranarray(e), "C-contiguous"),
        (lambda e: np.repeat(e, 2, axis=1)[:, ::2], "C-contiguous"),
        (lambda e: e[::-1], "C-contiguous"),
        (unaligned, "aligned"),
        (read_only, "output 'probabilities': the array is read-only"),
        (lambda e: np.ma.MaskedArray(e), "masked array"),
        (lambda e: e.astype(object), "output 'probabilities': expected float32, found an array of dtype object"),
        (lambda e: np.zeros(e.shape, "datetime64[s]"), "found an array of dtype datetime64"),
        (lambda e: np.zeros(e.shape, [("x", "f4")]), "found an array of dtype"),
        (lambda e: e.astype("f8"), "expected float32, found float64"),
        (lambda e: e[0], "expected shape"),
    ],
)
def test_outputs_that_are_refused(model, image, expected, make, message):
    out = make(expected.copy())
    with pytest.raises(ValueError, match=message):
        model.run({"image": image}, {"probabilities": out})
    np.testing.assert_array_equal(model.run({"image": image})["probabilities"], expected)


def test_outputs_that_are_no_arrays(model, image):
    with pytest.raises(TypeError, match="output 'probabilities': a NumPy array is expected, found list"):
        model.run({"image": image}, {"probabilities": [0.0]})
    with pytest.raises(TypeError, match="a list of names"):
        model.run({"image": image}, "probabilities")


def test_output_of_a_subclass(model, image, expected):
    out = np.zeros_like(expected).view(Renamed)
    assert model.run({"image": image}, {"probabilities": out})["probabilities"] is out
    np.testing.assert_array_equal(np.asarray(out), expected)


def test_an_output_that_lies_in_an_input(model, image, expected):
    memory = image.copy()
    out = memory.reshape(-1)[: expected.size].reshape(expected.shape)
    with pytest.raises(ValueError, match="output 'probabilities' overlaps that of input 'image'"):
        model.run({"image": memory}, {"probabilities": out})
    np.testing.assert_array_equal(memory, image)


@pytest.fixture(scope="module")
def onnx_model(tmp_path_factory):
    """Builds a model of one operator, written as a protobuf by hand: no onnx package here."""

    def field(number, payload):
        if isinstance(payload, int):
            return varint(number << 3) + varint(payload)
        payload = payload.encode() if isinstance(payload, str) else payload
        return varint(number << 3 | 2) + varint(len(payload)) + payload

    def varint(value):
        result = b""
        while value > 127:
            result += bytes([value & 127 | 128])
            value >>= 7
        return result + bytes([value])

    def port(name, element, shape):
        dims = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in shape)
        return field(1, name) + field(2, field(1, field(1, element) + field(2, dims)))

    def make(op, inputs, outputs):
        """inputs, outputs: (name, ONNX number of the element type, shape)."""
        node = b"".join(field(1, i[0]) for i in inputs) + b"".join(field(2, o[0]) for o in outputs) + field(4, op)
        graph = field(1, node) + field(2, "g")
        graph += b"".join(field(11, port(*i)) for i in inputs) + b"".join(field(12, port(*o)) for o in outputs)
        path = tmp_path_factory.mktemp("onnx") / "m.onnx"
        path.write_bytes(field(1, 8) + field(8, field(2, 17)) + field(7, graph))
        return aipu.load(aipu.build(path)["output"])

    return make


FLOAT, BOOL = 1, 9


def test_scalars_and_empty_arrays(onnx_model):
    scalar = onnx_model("Neg", [("x", FLOAT, [])], [("y", FLOAT, [])])
    for value in (np.float32(2.5), np.array(2.5, "float32"), np.array(2.5, ">f4"), unaligned(np.array(2.5, "f4"))):
        result = scalar.run({"x": value})["y"]
        assert result.shape == () and result == -2.5
    out = np.zeros((), "float32")
    scalar.run({"x": np.float32(1)}, {"y": out})
    assert out == -1
    with pytest.raises(ValueError, match="expected rank 0"):
        scalar.run({"x": np.array([2.5], "float32")})

    vector = onnx_model("Neg", [("x", FLOAT, ["N"])], [("y", FLOAT, ["N"])])
    for value in (np.zeros(0, "float32"), np.zeros(0, ">f4"), np.zeros(4, "float32")[4:], np.zeros(9, "f4")[:0:2]):
        assert vector.run({"x": value})["y"].shape == (0,)
    out = np.zeros(0, "float32")
    assert vector.run({"x": np.zeros(0, "float32")}, {"y": out})["y"] is out
    steps = np.lib.stride_tricks.as_strided(np.arange(3, dtype="float32"), (1,), (4096,))  # one element: any stride
    assert vector.run({"x": steps})["y"].tolist() == [0]


def test_bools_are_true_by_any_byte(onnx_model):
    model = onnx_model("Not", [("x", BOOL, ["N"])], [("y", BOOL, ["N"])])
    odd = np.array([0, 1, 2, 255], "u1").view(bool)
    np.testing.assert_array_equal(model.run({"x": odd})["y"].view("u1"), [1, 0, 0, 0])
    np.testing.assert_array_equal(model.run({"x": odd[::-1]})["y"].view("u1"), [0, 0, 0, 1])


def test_two_outputs_in_one_place(onnx_model):
    model = onnx_model("TopK", [("x", FLOAT, [4]), ("k", 7, [1])], [("values", FLOAT, ["K"]), ("indices", 7, ["K"])])
    inputs = {"x": np.array([1, 3, 2, 0], "float32"), "k": np.array([2], "int64")}
    memory = np.zeros(4, "int64")
    values, indices = memory.view("float32")[:2], memory[:2]
    with pytest.raises(ValueError, match="overlaps that of output"):
        model.run(inputs, {"values": values, "indices": indices})
    with pytest.raises(ValueError, match="no value for input 'k'"):
        model.run({"x": inputs["x"]})
    assert model.run(inputs)["indices"].tolist() == [1, 2]


@S.prim_func
def double(x: S.ptr("fp32", "global"), y: S.ptr("fp32", "global")):
    S.vstore(S.vload(x) * 2, y)


def test_kernels_refuse_what_they_cannot_read():
    """A kernel gets addresses: what is not plain memory in this machine's byte order is refused."""
    ex = aipu.tir.BuildManager(target="X2_1204").build(double)
    x, y = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    ex(x, y)
    np.testing.assert_array_equal(y, x * 2)
    for swapped in ((x.astype(">f4"), y), (x, y.astype(">f4"))):
        with pytest.raises(AssertionError, match="which no kernel can use"):
            ex(*swapped)
    for masked in ((np.ma.MaskedArray(x, x > 3), y), (x, np.ma.MaskedArray(y))):
        with pytest.raises(AssertionError, match="masked array"):
            ex(*masked)
    ex(x.view(Renamed), y)
