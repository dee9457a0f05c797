"""Axes, steps, scales and boxes that only a run knows."""

import aipu
import numpy as np
import pytest
from onnx_family import Family
from onnx_text import node, write_model

BOTH = pytest.mark.parametrize("target", ["host", "X2_1204", "X2_1204+host"])


@pytest.fixture
def x():
    return np.random.default_rng(5).standard_normal((2, 3, 4)).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


REDUCTIONS = {
    "ReduceL1": lambda x, **how: np.abs(x).sum(**how),
    "ReduceL2": lambda x, **how: np.sqrt((x * x).sum(**how)),
    "ReduceLogSum": lambda x, **how: np.log(x.sum(**how)),
    "ReduceLogSumExp": lambda x, **how: np.log(np.exp(x).sum(**how)),
    "ReduceMax": np.max,
    "ReduceMean": np.mean,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceSumSquare": lambda x, **how: (x * x).sum(**how),
}


@BOTH
def test_reductions(tmp_path, x, target):
    family = Family(opset=18)
    for op, reduced in REDUCTIONS.items():
        data = np.abs(x) if op == "ReduceLogSum" else x
        for axes in ([1], [-1, 0]):
            for keep in (0, 1):
                expected = reduced(data, axis=tuple(axes), keepdims=bool(keep))
                family.add(op, [data, ints(*axes)], expected, keepdims=keep)
    family.check(tmp_path, target=target)


def test_reductions_of_other_types(tmp_path, x):
    family = Family(opset=18)
    whole = (x * 20).astype(np.int32)
    family.add("ReduceSum", [whole, ints(0, 2)], whole.sum((0, 2), dtype=np.int32), keepdims=0)
    family.add("ReduceMax", [whole, ints(1)], whole.max(1), keepdims=0)
    half = np.random.default_rng(1).uniform(0, 1, (64, 64)).astype(np.float16)
    exact = half.astype(np.float64).mean((0, 1)).astype(np.float16)
    family.add("ReduceMean", [half, ints(0, 1)], exact, keepdims=0, tolerance=1e-3)
    large = np.float32([[300, 301], [-np.inf, -np.inf]])
    family.add("ReduceLogSumExp", [large, ints(1)], np.float32([301.3132617, -np.inf]), keepdims=0)
    family.check(tmp_path)


def test_reductions_of_nothing(tmp_path):
    family = Family(opset=18)
    nothing = np.zeros((2, 0, 3), np.float32)
    for axes in ([1], [0, 1]):
        for op, value in (("ReduceLogSumExp", -np.inf), ("ReduceSum", 0), ("ReduceMax", -np.inf), ("ReduceProd", 1)):
            expected = np.full((1 if 0 in axes else 2, 1, 3), value, np.float32)
            family.add(op, [nothing, ints(*axes)], expected, symbols=[0])
    family.check(tmp_path)


def test_a_number_beside_kernels_that_share_their_work(tmp_path):
    """The first input's element and the count of cores are symbols of different kinds."""
    q, k = (np.random.default_rng(2).standard_normal((1, 1, 5, 8)).astype(np.float32) for _ in range(2))
    nodes = [node("HannWindow", ["n"], ["w"]), node("Attention", ["q", "k", "k"], ["y"])]
    inputs = [("n", "int64", ()), *((name, "float32", (1, 1, 5, 8)) for name in "qk")]
    write_model(tmp_path / "m.onnx", nodes, inputs, [("w", "float32", ["N"]), ("y", "float32", q.shape)], opset=23)
    found = aipu.load(aipu.build(tmp_path / "m.onnx")["output"]).run({"n": np.array(6), "q": q, "k": k})
    np.testing.assert_allclose(found["w"], np.hanning(7)[:6], atol=1e-6)
    weights = np.exp(q[0, 0] @ k[0, 0].T / np.sqrt(8))
    np.testing.assert_allclose(found["y"][0, 0], weights @ k[0, 0] / weights.sum(1, keepdims=True), rtol=1e-5)


def run_open(folder, op, inputs, outputs, opset=18, **attributes):
    """A model of one node whose inputs have symbolic extents of their own; a function that runs it."""
    types = [(name, str(a.dtype), [f"{name}{k}" for k in range(a.ndim)]) for name, a in inputs.items()]
    write_model(folder / "m.onnx", [node(op, list(inputs), ["y"], **attributes)], types, outputs, opset=opset)
    return aipu.load(aipu.build(folder / "m.onnx", folder / "m.aipu.bin")["output"])


def test_any_number_of_axes(tmp_path, x):
    inputs = {"x": x, "a": ints(1)}
    output = [("y", "float32", ["p", "q", "r"])]
    model = run_open(tmp_path, "ReduceSum", inputs, output)
    for axes in ([1], [0, 2], [0, 1, -1], []):
        expected = x.sum(tuple(axes) or None, keepdims=True)
        np.testing.assert_allclose(model.run({"x": x, "a": ints(*axes)})["y"], expected, rtol=1e-5)
    model = run_open(tmp_path, "ReduceSum", inputs, output, noop_with_empty_axes=1)
    np.testing.assert_array_equal(model.run({"x": x, "a": ints()})["y"], x)
    with pytest.raises(RuntimeError, match="axes"):
        run_open(tmp_path, "ReduceSum", inputs, [("y", "float32", ["p"])], keepdims=0)
    with pytest.raises(ValueError, match="index 3 is outside"):
        model.run({"x": x, "a": ints(3)})


@BOTH
def test_slices(tmp_path, x, target):
    family = Family(opset=18)
    family.add("Slice", [x, ints(1, -3), ints(100, -1), ints(1, -1)], x[:, 1:, -3:-1])
    family.add("Slice", [x, ints(-1, 3), ints(-100, 0), ints(1, 2), ints(-1, -2)], x[:, ::-1, 3:0:-2])
    family.add("Slice", [x, ints(-1, 3), ints(-100, 0), ints(1, 2), ints(-1, -2)], x[:, ::-1, 3:0:-2], constants=[3])
    family.add("Slice", [x, ints(0, 2), ints(2, 0), None, ints(2, -1)], x[0:2:2, 2:0:-1])
    family.add("Slice", [x, ints(1), ints(5), ints(0), ints(3)], x[1:5:3])
    family.add("Slice", [x, ints(3), ints(1), ints(2)], x[:, :, 3:1])
    family.check(tmp_path, target=target)


def test_slices_along_any_number_of_axes(tmp_path, x):
    inputs = {"x": x, "s": ints(1), "e": ints(2), "a": ints(1)}
    model = run_open(tmp_path, "Slice", inputs, [("y", "float32", ["p", "q", "r"])])
    for count in (0, 1, 2, 3):
        starts, ends, axes = ints(*[1] * count), ints(*[9] * count), ints(*range(count))
        expected = x[tuple([slice(1, 9)] * count)]
        np.testing.assert_array_equal(model.run({"x": x, "s": starts, "e": ends, "a": axes})["y"], expected)


def test_a_step_of_zero_is_an_error(tmp_path, x):
    inputs = {"x": x, "s": ints(1), "e": ints(2), "a": ints(1), "p": ints(1)}
    model = run_open(tmp_path, "Slice", inputs, [("y", "float32", ["u", "v", "w"])])
    np.testing.assert_array_equal(model.run(inputs)["y"], x[:, 1:2])
    with pytest.raises(ValueError, match="delta is 0"):
        model.run({**inputs, "p": ints(0)})


@BOTH
def test_axes_that_come_and_go(tmp_path, x, target):
    family = Family(opset=18)
    family.add("Squeeze", [x[None, :, None], ints(-3, 0)], x)
    family.add("Unsqueeze", [x, ints(-1, 0)], x[None, ..., None])
    value = np.array(3, np.float32)
    padded = np.pad(x, ((0, 0), (1, 0), (2, 1)), constant_values=3)
    family.add("Pad", [x, ints(1, 2, 0, 1), value, ints(1, -1)], padded)
    family.add("Pad", [x, ints(1, 0), None, ints(2)], np.pad(x, ((0, 0), (0, 0), (1, 0)), "edge"), mode="edge")
    family.check(tmp_path, target=target)


def test_squeeze_without_axes_of_symbolic_extents(tmp_path, x):
    write_model(
        tmp_path / "m.onnx",
        [node("Squeeze", ["x"], ["y"])],
        [("x", "float32", ["n", 1, "m", 1])],
        [("y", "float32", ["n", "m"])],
    )
    model = aipu.load(aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"])
    image = x[0][:, None, :, None]
    np.testing.assert_array_equal(model.run({"x": image})["y"], x[0])
    with pytest.raises(ValueError, match="axis 0 has the extent 1"):
        model.run({"x": image[:1]})


SCALES = np.float32([1, 1, 1.5, 0.7])
RESIZES = [
    {"mode": mode, "coordinate_transformation_mode": way, **more}
    for mode, ways, more in [
        ("nearest", ("half_pixel", "asymmetric", "align_corners"), {}),
        ("linear", ("half_pixel", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"), {}),
        ("linear", ("half_pixel",), {"antialias": 1}),
        ("cubic", ("half_pixel",), {"exclude_outside": 1}),
    ]
    for way in ways
]


def resized(folder, image, operands, constants, target="host", opset=19, op="Resize", **attributes):
    """The output with the operands at these places as constants, the others as inputs."""
    names = ["x"] + [f"o{k}" if value is not None else "" for k, value in enumerate(operands)]
    values = {f"o{k}": value for k, value in enumerate(operands) if value is not None}
    inputs = {name: value for k, (name, value) in enumerate(values.items()) if not constants}
    types = [("x", "float32", image.shape)] + [(n, str(v.dtype), v.shape) for n, v in inputs.items()]
    initial = values if constants else {}
    outputs = [("y", "float32", list("abcd"))]
    write_model(folder / "m.onnx", [node(op, names, ["y"], **attributes)], types, outputs, initial, opset)
    model = aipu.load(aipu.build(folder / "m.onnx", folder / "m.aipu.bin", target=target)["output"])
    return model.run({"x": image, **inputs})["y"]


def check_resize(folder, operands, target="host", **attributes):
    """What only a run knows gives what the same numbers as constants give."""
    image = np.random.default_rng(2).standard_normal((1, 2, 5, 6)).astype(np.float32)
    expected = resized(folder, image, operands, True, **attributes)
    assert expected.shape != image.shape
    np.testing.assert_allclose(
        resized(folder, image, operands, False, target, **attributes), expected, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("how", RESIZES, ids=lambda how: "_".join(map(str, how.values())))
def test_scales(tmp_path, how):
    check_resize(tmp_path, [None, SCALES], **how)


def test_scales_of_some_axes_on_x2(tmp_path):
    check_resize(tmp_path, [None, SCALES[2:]], "X2_1204", mode="linear", axes=[2, 3])


def test_boxes(tmp_path):
    crop = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    box = np.float32([0, 0, 0.2, 0.3, 1, 1, 0.8, 1.4])
    check_resize(tmp_path, [box, SCALES], **crop)
    check_resize(tmp_path, [box, None, ints(1, 2, 7, 3)], **crop)
    check_resize(tmp_path, [box[[2, 3, 6, 7]], SCALES[2:]], axes=[-2, -1], **crop)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_sizes_that_keep_the_ratio(tmp_path, policy):
    check_resize(tmp_path, [None, None, ints(9, 7)], mode="linear", axes=[2, 3], keep_aspect_ratio_policy=policy)


def test_old_forms(tmp_path):
    check_resize(tmp_path, [SCALES], mode="linear", opset=9, op="Upsample")
    check_resize(tmp_path, [SCALES], mode="nearest", opset=10)
