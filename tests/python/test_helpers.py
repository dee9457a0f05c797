"""DataType and its relatives, CompassInfo, test data and comparison."""

import pickle

import aipu
import numpy as np
import pytest
from aipu import CompassInfo, DataType, get_range, resolve_dtype_alias
from aipu.testing import assert_allclose, clear_traceback, rand
from aipu.utils import double_elem_width, get_binary_op_result_type, half_elem_width, hw_native_vdtype

ALL = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32", "bool"]


def test_data_type_is_a_string():
    t = DataType("int8x32")
    assert isinstance(t, str) and t == "int8x32" and f"{t}" == "int8x32" and {t: 1}["int8x32"] == 1
    assert pickle.loads(pickle.dumps(t)) == t and pickle.loads(pickle.dumps(t)).lanes == 32
    assert DataType(np.float32) == "float32" and DataType(np.dtype("uint8")) == "uint8" and DataType(bool) == "bool"
    for wrong in ("int", "fp8x32", "int8x0", "int8x", "8int", "int8 x4"):
        with pytest.raises(ValueError):
            DataType(wrong)


def test_data_type_sizes():
    t = DataType("float16x24")
    assert (t.lanes, t.bits, t.bytes, t.total_bits, t.total_bytes) == (24, 16, 2, 384, 48)
    mask = DataType("boolx16")
    assert (mask.lanes, mask.bits, mask.bytes, mask.total_bits, mask.total_bytes) == (16, 1, 1, 16, 16)
    assert DataType("int32").itemsize == 4


def test_data_type_kinds():
    expected = {
        "int8": {"is_int", "is_integer", "is_scalar", "is_integer_scalar"},
        "uint16x16": {"is_uint", "is_integer", "is_uint16", "is_vector", "is_integer_vector"},
        "bool": {"is_uint", "is_integer", "is_bool", "is_scalar", "is_integer_scalar"},
        "boolx8": {"is_uint", "is_integer", "is_bool", "is_vector", "is_integer_vector", "is_bool_vector"},
        "float16x16": {
            "is_float",
            "is_floating",
            "is_floating16",
            "is_float16",
            "is_vector",
            "is_float_vector",
            "is_floating16_vector",
        },
        "bfloat16": {
            "is_bfloat",
            "is_floating",
            "is_floating16",
            "is_bfloat16",
            "is_scalar",
            "is_floating_scalar",
            "is_bfloat16_scalar",
        },
        "void": {"is_void", "is_scalar"},
    }
    names = {name for row in expected.values() for name in row}
    for dtype, kinds in expected.items():
        assert {name for name in names if getattr(DataType(dtype), name)} == kinds, dtype
    codes = {t: DataType(t).type_code for t in ("int8", "uint8", "bool", "float32", "void", "bfloat16")}
    assert codes == {"int8": 0, "uint8": 1, "bool": 1, "float32": 2, "void": 3, "bfloat16": 4}


def test_derived_types():
    t = DataType("int8x32")
    assert (
        t.element_of == "int8"
        and t.with_lanes(8) == "int8x8"
        and t.with_bits(16) == "int16x32"
        and t.with_uint() == "uint8x32"
    )
    assert DataType("uint16").with_int() == "int16" and DataType("int32x8").with_type_code(2) == "float32x8"
    assert t.with_lanes(1).is_scalar


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_get_range_of_integers(dtype):
    info = np.iinfo(dtype)
    assert get_range(dtype) == (info.min, info.max)


def test_get_range_of_others():
    assert get_range("bool") == (0, 1)
    assert get_range("fp16") == (-65504.0, 65504.0)
    assert get_range(DataType("float32x8")) == (-3.4028234663852886e38, 3.4028234663852886e38)
    assert get_range("bfloat16") == (-3.38953e38, 3.38953e38)


def test_aliases():
    pairs = {
        "i8": "int8",
        "u16x16": "uint16x16",
        "fp32x8": "float32x8",
        "bf16": "bfloat16",
        "int32": "int32",
        "float16x64": "float16x64",
    }
    for alias, name in pairs.items():
        assert resolve_dtype_alias(alias) == name and isinstance(resolve_dtype_alias(alias), DataType)
    with pytest.raises(ValueError):
        resolve_dtype_alias("fp8")


def test_native_vectors():
    assert hw_native_vdtype("i8") == "int8x32" and hw_native_vdtype(DataType("float32x3")) == "float32x8"
    assert aipu.hw_native_vdtype("bfloat16") == "bfloat16x16" and hw_native_vdtype(np.float16) == "float16x16"
    with pytest.raises(Exception, match="Does not support boolean data type."):
        hw_native_vdtype("bool")


def test_element_widths():
    assert (
        double_elem_width("int8x32") == "int16x16"
        and double_elem_width("u8") == "uint16"
        and double_elem_width("int8x8") == "int16x8"
    )
    assert double_elem_width("int32x8") == "int32x8" and double_elem_width("int32x8", allow_64bit=True) == "int64x4"
    assert half_elem_width("int16x16") == "int8x32" and half_elem_width("float32x8", double_lanes=False) == "float16x8"


@pytest.mark.parametrize(
    "left, right, result",
    [
        ("int8", 100, "int8"),
        ("int8", 200, "int32"),
        (-1, "uint8", "int32"),
        ("int8", "uint8", "uint8"),
        ("uint8", "int16", "int16"),
        ("uint32", "int16", "uint32"),
        ("float16", 2, "float16"),
        ("float16", 2.0, "float32"),
        ("int8", "float16", "float16"),
        ("bfloat16", "int32", "bfloat16"),
        ("bfloat16", "float16", "float16"),
        ("float32x8", "float16x16", "float32"),
        (3, 4, "int32"),
        (3, 4.5, "float32"),
        ("i8x32", "int32", "int32"),
    ],
)
def test_binary_op_result_type(left, right, result):
    assert get_binary_op_result_type(left, right) == result
    assert get_binary_op_result_type(right, left) == result


def test_compass_info():
    info = CompassInfo.get("X2_1204")
    assert (info.name, info.version, info.core_count, info.tec_count, info.vector_width) == ("X2_1204", "X2", 1, 4, 256)
    assert info.lsram_size() == 32768 and info.gsram_size() == 262144
    assert (
        CompassInfo.get("compass -mcpu=X3P_1304MP4").core_count == 4
        and CompassInfo.get("X3S_1304").gsram_size(0) == 131072
    )
    old = CompassInfo.get("X1_1204")
    assert old.version == "X1" and old.lsram_size(1) == 28 * 1024 and old.gsram_size(1) == 512 * 1024
    assert CompassInfo.current().name == "X2_1204"
    with pytest.raises(IndexError):
        info.lsram_size(1)
    with pytest.raises(ValueError):
        CompassInfo.get("Y1")


@pytest.mark.parametrize("dtype", ALL)
def test_rand_covers_the_range(dtype):
    values = rand((40, 50), dtype)
    assert values.shape == (40, 50) and values.dtype == np.dtype(dtype)
    low, high = get_range(dtype)
    assert values.min() == low and values.max() == high
    if dtype != "bool":
        assert (values == 0).any() and np.isfinite(values.astype("float64")).all()


def test_rand_options():
    values = rand(1000, "int32", low=-3, high=5)
    assert set(values) == set(range(-3, 5))
    floats = rand(1000, "float32", low=2, high=3)
    assert floats.min() == 2 and floats.max() <= 3
    assert np.ndim(rand(1, "int8")) == 0 and isinstance(rand(1, "fp32", return_python_type=True), float)
    assert isinstance(rand((2, 2), "int8", return_python_type=True)[0][0], int)
    assert rand((3,), "float16", enable_corner_values=False).dtype == np.float16


def test_rand_is_reproducible(monkeypatch):
    def draw():
        return rand(10, "int32").tolist()

    monkeypatch.setenv("CPS_DSL", "rs=5")
    first = draw()
    monkeypatch.setenv("CPS_DSL", "rs=6")
    assert draw() != first
    monkeypatch.setenv("CPS_DSL", "rs=5")
    assert draw() == first


def test_assert_allclose():
    assert_allclose(np.array([1, 2]), np.array([1, 2]))
    with pytest.raises(AssertionError):
        assert_allclose(np.array([1, 2]), np.array([1, 3]))
    assert_allclose(np.array([10, 2]), np.array([11, 2]), atol=1)
    with pytest.raises(AssertionError, match="Argument type mismatch"):
        assert_allclose(np.zeros(1, "int8"), np.zeros(1, "int16"))
    with pytest.raises(AssertionError):
        assert_allclose(np.zeros(2), np.zeros(3))
    with pytest.raises(AssertionError):
        assert_allclose(np.array([200], "uint8"), np.array([1], "uint8"))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_assert_allclose_counts_last_places(dtype):
    base = np.array([1000.0, -3.5, 1e4], dtype)
    two = np.nextafter(np.nextafter(base, np.inf, dtype=dtype), np.inf, dtype=dtype)
    three = np.nextafter(two, np.inf, dtype=dtype)
    assert_allclose(two, base)
    with pytest.raises(AssertionError):
        assert_allclose(three, base)
    with pytest.raises(AssertionError):
        assert_allclose(two, base, rtol=0, atol=0)
    assert_allclose(np.array([np.nan, np.inf], dtype), np.array([np.nan, np.inf], dtype))
    with pytest.raises(AssertionError):
        assert_allclose(np.array([np.inf], dtype), np.array([-np.inf], dtype))
    with pytest.raises(AssertionError):
        assert_allclose(np.array([np.inf], dtype), np.array([np.finfo(dtype).max], dtype))


def test_clear_traceback():
    @clear_traceback
    def fails():
        raise KeyError("k")

    with pytest.raises(KeyError) as error:
        fails()
    frames = [entry.name for entry in error.traceback]
    assert frames[-1] == "fails" and frames.count("call") == 1
    assert fails.__name__ == "fails"


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = rand(100, "bf16")
    assert values.dtype == ml_dtypes.bfloat16
    assert_allclose(values, values.copy())
    with pytest.raises(AssertionError):
        assert_allclose(values, -values)
