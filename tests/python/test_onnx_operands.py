"""Operands in every form that the specification allows: broadcast, known only at run time, coupled."""

import aipu
import numpy as np
import pytest
from onnx_family import Family, floats, sigmoid
from onnx_text import node, write_model


@pytest.fixture
def random():
    return np.random.default_rng(3)


def test_gemm_adds_a_column(tmp_path, random):
    family = Family(opset=17)
    a, b = floats(random, 5, 3), floats(random, 3, 4)
    for c in (floats(random, 5, 1), floats(random, 1, 1), floats(random, 4), floats(random, 5, 4), floats(random, 1)):
        family.add("Gemm", [a, b, c], 2 * a @ b + 0.5 * c, alpha=2.0, beta=0.5)
    whole = [random.integers(-9, 9, shape).astype(np.int32) for shape in ((5, 3), (3, 4), (5, 1))]
    family.add("Gemm", whole, whole[0] @ whole[1] + 3 * whole[2], beta=3.0)
    family.check(tmp_path)


def test_gemm_adds_what_a_run_says(tmp_path, random):
    """Extents of C that may turn out to be 1."""
    family = Family(opset=17)
    a, b = floats(random, 5, 3), floats(random, 3, 4)
    for c in (floats(random, 5, 1), floats(random, 1, 4), floats(random, 4), floats(random, 5, 4), floats(random, 1)):
        family.add("Gemm", [a, b, c], a @ b + c, symbols=[2])
        family.add("Gemm", [a.T, b.T, c], a @ b - c, symbols=[2], transA=1, transB=1, beta=-1.0)
        family.add("Gemm", [a, b, c], a @ b + c, symbols=[0])
    family.check(tmp_path)


def test_gemm_refuses_a_column_that_widens(tmp_path, random):
    family = Family(opset=17)
    a, b, c = floats(random, 1, 3), floats(random, 3, 4), floats(random, 5, 1)
    family.add("Gemm", [a, b, c], a @ b + c)
    with pytest.raises(RuntimeError, match="does not broadcast"):
        family.check(tmp_path)


@pytest.mark.parametrize("axis", [0, 2, -2])
def test_cumulative_along_an_axis_of_the_run(tmp_path, random, axis):
    family = Family(opset=26)
    x = floats(random, 2, 3, 4) * 0.5 + 1
    family.add("CumSum", [x, np.array(axis, np.int32)], np.cumsum(x, axis))
    family.add("CumSum", [x, np.array([axis], np.int64)], np.flip(np.cumsum(np.flip(x, axis), axis), axis), reverse=1)
    family.add("CumProd", [x, np.array(axis, np.int64)], np.cumprod(x, axis))
    family.check(tmp_path)


@pytest.mark.parametrize("peepholes", [False, True])
def test_lstm_couples_its_gates(tmp_path, random, peepholes):
    family = Family(opset=17)
    steps, batch, inputs, hidden = 4, 2, 3, 5
    x = floats(random, steps, batch, inputs)
    w, r, b = (
        floats(random, 1, 4 * hidden, inputs),
        floats(random, 1, 4 * hidden, hidden),
        floats(random, 1, 8 * hidden),
    )
    p = floats(random, 1, 3 * hidden) if peepholes else np.zeros((1, 3 * hidden), np.float32)
    pi, po, _ = np.split(p[0], 3)
    h, c, outputs = np.zeros((batch, hidden)), np.zeros((batch, hidden)), []
    for step in x:
        i, o, _, g = np.split(step @ w[0].T + h @ r[0].T + b[0, : 4 * hidden] + b[0, 4 * hidden :], 4, -1)
        gate = sigmoid(i + pi * c)
        c = (1 - gate) * c + gate * np.tanh(g)
        h = sigmoid(o + po * c) * np.tanh(c)
        outputs.append(h)
    y = np.array(outputs, np.float32)[:, None]
    operands = [x, w, r, b, None, None, None, p if peepholes else None]
    expected = [y, y[-1], c[None].astype(np.float32)]
    family.add("LSTM", operands, expected, constants=[1, 2, 3, 7], hidden_size=hidden, input_forget=1)
    family.check(tmp_path)


@pytest.mark.parametrize("axis", [1, -1])
def test_scales_of_blocks(tmp_path, random, axis):
    family = Family(opset=21)
    blocks, size = (2, 3) if axis == 1 else (3, 2)
    shape = (4, 2, 5) if axis == -1 else (4, 5, 2)
    codes = random.integers(-128, 127, shape).astype(np.int8)
    of_blocks = [blocks if k == axis % 3 else extent for k, extent in enumerate(shape)]
    scales = abs(floats(random, *of_blocks)) + 0.1
    zeros = random.integers(-9, 9, of_blocks).astype(np.int8)
    spread = [np.repeat(x, size, axis).take(range(5), axis) for x in (scales, zeros.astype(np.float32))]
    attributes = {"axis": axis, "block_size": size}
    family.add("DequantizeLinear", [codes, scales, zeros], (codes - spread[1]) * spread[0], **attributes)
    family.add("DequantizeLinear", [codes, scales], codes * spread[0], **attributes)
    x = floats(random, *shape) * 50
    rounded = np.rint(x / spread[0])
    family.add(
        "QuantizeLinear", [x, scales, zeros], np.clip(rounded + spread[1], -128, 127).astype(np.int8), **attributes
    )
    family.add("QuantizeLinear", [x, scales], np.clip(rounded, 0, 255).astype(np.uint8), **attributes)
    family.check(tmp_path)


def test_resize_by_scales_that_are_computed(tmp_path, random):
    """scales = [1, 1] and [8, 6] / the extents of x, as floats: the output is [8, 6] whatever comes in."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Slice", ["shape", "two", "four"], ["extents"]),
        node("Cast", ["extents"], ["real"], to=1),
        node("Cast", ["target"], ["wanted"], to=1),
        node("Div", ["wanted", "real"], ["ratio"]),
        node("Concat", ["ones", "ratio"], ["scales"], axis=0),
        node("Resize", ["x", "", "scales"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric",
             nearest_mode="floor"),
    ]  # fmt: skip
    constants = {
        "two": np.array([2], np.int64),
        "four": np.array([4], np.int64),
        "target": np.array([8, 6], np.int64),
        "ones": np.ones(2, np.float32),
    }
    for shape in ((1, 2, "H", "W"), (1, 2, 4, 3)):
        path = tmp_path / "resize.onnx"
        write_model(path, nodes, [("x", "float32", shape)], [("y", "float32", (1, 2, 8, 6))], constants)
        model = aipu.load(aipu.build(path, tmp_path / "resize.aipu.bin")["output"])
        for height, width in ((4, 3), (2, 6)) if "H" in shape else ((4, 3),):
            x = floats(random, 1, 2, height, width)
            y = x.repeat(8 // height, 2).repeat(6 // width, 3)
            np.testing.assert_array_equal(model.run({"x": x})["y"], y)


def test_recurrent_inputs_of_symbolic_extents(tmp_path, random):
    """The extent of the elements too, which the weights say."""
    family = Family(opset=17)
    x, w, r = floats(random, 3, 2, 4), floats(random, 1, 5, 4), floats(random, 1, 5, 5)
    h, outputs = np.zeros((2, 5), np.float32), []
    for step in x:
        h = np.tanh(step @ w[0].T + h @ r[0].T)
        outputs.append(h)
    family.add("RNN", [x, w, r], [np.array(outputs)[:, None], h[None]], constants=[1, 2], symbols=[0], hidden_size=5)
    family.check(tmp_path)


def test_scales_behind_recurrent_nodes(tmp_path, random):
    """Whose attribute `layout` is a number."""
    x, w, r = floats(random, 3, 2, 4), floats(random, 1, 15, 4), floats(random, 1, 15, 5)
    scale = floats(random, 5)
    nodes = [node("GRU", ["x", "w", "r"], ["y", "h"], hidden_size=5), node("Mul", ["h", "scale"], ["scaled"])]
    inputs, outputs = [("x", "float32", (3, 2, 4))], [("h", "float32", (1, 2, 5)), ("scaled", "float32", (1, 2, 5))]
    write_model(tmp_path / "m.onnx", nodes, inputs, outputs, {"w": w, "r": r, "scale": scale})
    found = aipu.load(aipu.build(tmp_path / "m.onnx")["output"]).run({"x": x})
    np.testing.assert_allclose(found["scaled"], found["h"] * scale, rtol=1e-5)


@pytest.mark.parametrize("backend", [None, "interp"])
def test_parts_of_no_elements(tmp_path, random, backend):
    """A part that has none may begin behind the end, along an axis that has some."""
    family = Family(opset=18)
    x = floats(random, 2, 3, 4)

    def ints(*values):
        return np.array(values, np.int64)

    for symbols in ([], [0]):
        far = 2**40
        operands = [x, ints(7, 2, -1), ints(far, far, -far), ints(1, 0, 2), ints(1, 1, -1)]
        family.add("Slice", operands, x[2:, 7:, ::-1], symbols=symbols, constants=[1, 2, 3, 4])
        cropped = np.zeros((1, 0, 3), np.float32)
        family.add("Pad", [x, ints(-1, -3, -1, 0, 0, 0)], cropped, symbols=symbols, constants=[1])
        nothing_left = np.zeros((2, 4, 4), np.float32)  # of the second axis
        for constants in ([], [1]):
            pads = ints(0, 5, 0, 0, -4, 0)
            family.add("Pad", [x, pads], nothing_left, symbols=symbols, constants=constants)
            pads = ints(0, -4, 0, 0, 5, 0)
            family.add("Pad", [x, pads], nothing_left, symbols=symbols, constants=constants)
        none = x[:0]
        parts = [none, none[..., :1], none]
        family.add("Concat", parts, np.zeros((0, 3, 9), np.float32), symbols=symbols, axis=-1)
        family.add("Concat", [none, none], np.zeros((0, 3, 4), np.float32), symbols=symbols, axis=0)
        family.add("Concat", [none, none], np.zeros((0, 6, 4), np.float32), symbols=symbols, axis=1)
    family.check(tmp_path, backend)


@pytest.mark.parametrize("backend", [None, "interp"])
def test_nothing_beside_one(tmp_path, backend):
    """Max beside an operand whose one element came to light after the shapes had been inferred."""
    nodes = [
        node("Compress", ["x", "condition"], ["one"], axis=0),
        node("Slice", ["wide", "starts", "ends", "axes", "steps"], ["part"]),
        node("Max", ["one", "part"], ["y"]),
    ]
    constants = {
        "condition": np.array([True, False, False]),
        "starts": np.array([4], np.int64),
        "ends": np.array([2**40], np.int64),
        "axes": np.array([-1], np.int64),
        "steps": np.array([3], np.int64),
    }
    inputs, outputs = [("x", "float32", (5,)), ("wide", "float32", (3, "S"))], [("y", "float32", (3, "T"))]
    write_model(tmp_path / "m.onnx", nodes, inputs, outputs, constants)
    model = aipu.load(aipu.build(tmp_path / "m.onnx")["output"], backend=backend)
    x = np.arange(5, dtype=np.float32)
    wide = -np.ones((3, 8), np.float32)
    np.testing.assert_array_equal(model.run({"x": x, "wide": wide})["y"], np.zeros((3, 2), np.float32))
    assert model.run({"x": x, "wide": wide[:, :3]})["y"].shape == (3, 0)


def test_batches_that_are_broadcast_by_turns(tmp_path, random):
    family = Family(opset=17)
    for left, right in [
        ((2, 1, 3), (1, 4, 3)),
        ((2, 1, 3), (2, 4, 1)),
        ((2, 1, 3, 1), (1, 2, 1, 4)),
        ((3,), (2, 3, 1, 3)),
    ]:
        a, b = floats(random, *left, 2, 5), floats(random, *right, 5, 3)
        family.add("MatMul", [a, b], a @ b)
    a, b = floats(random, 2, 1, 3, 2, 5), floats(random, 1, 4, 3, 5, 3)
    family.add("MatMul", [a, b], a @ b, symbols=[0])
    family.check(tmp_path)


def test_numbers_that_formulas_stumble_over(tmp_path, random):
    family = Family(opset=18)
    zeros = np.zeros((2, 3), np.float32)
    quantised = [np.zeros((2, 3), np.uint8), np.float32(1), np.uint8(0)]
    family.add("DynamicQuantizeLinear", [zeros], quantised)
    # Whose mean of squares may round to less than the square of the mean: the root of what is left is no number.
    rows = 1e-3 * np.array([[1, 1.0001, 0.9999]] * 40, np.float32) + 3 * floats(random, 40, 1)
    centred = rows - rows.mean(1, keepdims=True, dtype=np.float32)
    deviation = np.sqrt((centred**2).mean(1, keepdims=True)) + np.float32(1e-9)
    family.add("MeanVarianceNormalization", [rows], centred / deviation, axes=[1], tolerance=3)
    whole = np.array([[1, 2, 3], [0, 0, 0], [-3, 5, 30]], np.int64)
    for dtype in (np.int32, np.int64):
        family.add("ReduceLogSumExp", [whole.astype(dtype), np.array([1])], np.array([[3], [1], [30]], dtype))
    family.add("ReduceSum", [zeros, np.array([], np.int64)], np.zeros((1, 1), np.float32))
    family.add("ReduceSum", [zeros + 1, np.array([], np.int64)], zeros + 1, noop_with_empty_axes=1)
    family.check(tmp_path)


@pytest.mark.parametrize("reduction, combine", [("add", np.add), ("min", np.minimum), ("mul", np.multiply)])
def test_combined_halves(tmp_path, random, reduction, combine):
    family = Family(opset=18)
    x, updates = floats(random, 5).astype(np.float16), floats(random, 3).astype(np.float16)
    places = np.array([4, 0, 2])
    y = x.copy()
    y[places] = combine(x[places], updates)
    family.add("ScatterElements", [x, places, updates], y, reduction=reduction, tolerance=1e-3)
    family.add("ScatterND", [x, places[:, None], updates], y, reduction=reduction, tolerance=1e-3)
    family.check(tmp_path)


@pytest.mark.parametrize("symbols", [[], [0]])
def test_blocks_of_a_size_that_a_run_says(tmp_path, random, symbols):
    family = Family(opset=18)
    block, image = (2, 3), (4, 5)
    x = floats(random, 2, 3 * 2 * 3, 3 * 3)
    expected = np.zeros((2, 3, *image), np.float32)
    patches = x.reshape(2, 3, *block, 3, 3)
    for row in range(3):
        for column in range(3):
            expected[:, :, row : row + 2, column : column + 3] += patches[..., row, column]
    family.add("Col2Im", [x, np.array(image), np.array(block)], expected, symbols=symbols)
    family.check(tmp_path)


def test_blocks_of_no_size(tmp_path, random):
    family = Family(opset=18)
    x = floats(random, 1, 6, 9)
    family.add("Col2Im", [x, np.array([4, 5]), np.array([-2, -3])], np.zeros((1, 1, 4, 5), np.float32))
    with pytest.raises(ValueError, match="Col2Im"):
        family.check(tmp_path)


@pytest.mark.parametrize("axis", [0, 1, -2, -3])
def test_transforms_along_an_axis_of_the_run(tmp_path, random, axis):
    family = Family(opset=20)
    x = floats(random, 3, 4, 5, 2)
    complex_x = x[..., 0] + 1j * x[..., 1]
    at = axis if axis >= 0 else axis + 4

    def parts(y):
        return np.stack([y.real, y.imag], -1).astype(np.float32)

    place = np.array(axis, np.int64)
    family.add("DFT", [x, None, place], parts(np.fft.fft(complex_x, axis=at)), tolerance=1e-4)
    family.add("DFT", [x, None, place], parts(np.fft.ifft(complex_x, axis=at)), tolerance=1e-4, inverse=1)
    family.check(tmp_path)


def test_group_normalization_of_channels_that_a_run_tells(tmp_path, random):
    x, scale, bias = floats(random, 2, 6, 5), floats(random, 3), floats(random, 3)
    parts = x.reshape(2, 3, 10)
    mean, variance = parts.mean(2, keepdims=True), parts.var(2, keepdims=True)
    parts = ((parts - mean) / np.sqrt(variance + 1e-2)).reshape(2, 3, 2, 5)
    expected = (parts * scale[:, None, None] + bias[:, None, None]).reshape(x.shape)
    family = Family(opset=18)
    family.add("GroupNormalization", [x, scale, bias], expected, symbols=[0], num_groups=3, epsilon=1e-2)
    family.check(tmp_path)


def test_linear_attention_of_queries_whose_batch_a_run_tells(tmp_path, random):
    q, k, v = (floats(random, 2, 3, 4) for _ in range(3))
    state = np.einsum("bti,btj->btij", k, v).cumsum(1)
    model = tmp_path / "m.onnx"
    steps = [node("LinearAttention", ["q", "k", "v"], ["y"], update_rule="linear", q_num_heads=1, kv_num_heads=1)]
    operands = [("q", "float32", ("N", 3, 4)), *((name, "float32", (2, 3, 4)) for name in "kv")]
    write_model(model, steps, operands, [("y", "float32", (2, 3, 4))], opset=28)
    found = aipu.load(aipu.build(model, tmp_path / "m.aipu.bin")["output"]).run({"q": q, "k": k, "v": v})["y"]
    np.testing.assert_allclose(found, np.einsum("bti,btij->btj", q, state) / 2, rtol=1e-4, atol=1e-5)


def test_reducing_nothing_keeps_integers(tmp_path, random):
    x = random.integers(-5, 9, (3, 1, 4)).astype(np.int32)
    family = Family(opset=18)
    family.add("ReduceLogSumExp", [x], x, noop_with_empty_axes=1)
    family.check(tmp_path)


def test_slices_of_constants_that_begin_behind_the_end(tmp_path, random):
    x = floats(random, 1, 8, 2)
    family = Family()
    places = [np.array(row, np.int64) for row in ((1, 7), (1, 9), (0, 1))]
    family.add("Slice", [x, *places], x[1:1, 7:9], constants=[0, 1, 2, 3])
    family.check(tmp_path)


@pytest.mark.parametrize("mode, expected", [("floor", [1, 3, 5]), ("ceil", [1, 3, 5])])
def test_positions_that_are_pixels(tmp_path, mode, expected):
    """Of 7 pixels at half the scale, half_pixel_symmetric asks for 1, 3 and 5, exactly."""
    family = Family(opset=19)
    x = np.arange(7, dtype=np.float32).reshape(1, 1, 7)
    attributes = {"coordinate_transformation_mode": "half_pixel_symmetric", "mode": "nearest", "nearest_mode": mode}
    scales = np.array([1, 1, 0.5], np.float32)
    family.add("Resize", [x, None, scales], x[..., expected], constants=[2], **attributes)
    family.check(tmp_path)


@pytest.mark.parametrize("axis", [0, 1, -2])
@pytest.mark.parametrize("length", [3, 8])
def test_transforms_of_a_length_along_an_axis_of_the_run(tmp_path, random, axis, length):
    family = Family(opset=20)
    x = floats(random, 3, 4, 5, 2)
    complex_x = x[..., 0] + 1j * x[..., 1]
    at = axis if axis >= 0 else axis + 4

    def parts(y):
        return np.stack([y.real, y.imag], -1).astype(np.float32)

    fixed = {"tolerance": 1e-4, "constants": [1]}
    count, place = np.array(length, np.int64), np.array(axis, np.int64)
    family.add("DFT", [x, count, place], parts(np.fft.fft(complex_x, length, at)), **fixed)
    family.add("DFT", [x, count, place], parts(np.fft.ifft(complex_x, length, at)), inverse=1, **fixed)
    one_sided = np.fft.rfft(x[..., 0], length, at)
    family.add("DFT", [x[..., :1], None, place], parts(np.fft.rfft(x[..., 0], axis=at)), onesided=1, tolerance=1e-4)
    family.add("DFT", [x[..., :1], count, place], parts(one_sided), onesided=1, **fixed)
    back = np.fft.irfft(complex_x, length, at)[..., None].astype(np.float32)
    family.add("DFT", [x, count, place], back, inverse=1, onesided=1, **fixed)
    family.check(tmp_path)


def test_unpooling_to_a_shape(tmp_path, random):
    """Positions count elements of the shape that follows from the attributes, as in ONNX's tests; what output_shape has
    beyond it is zeros. ONNX Runtime counts elements of output_shape."""
    x = floats(random, 2, 1, 2, 2)
    flat = np.zeros(32, np.float32)
    places = np.array([5, 7, 13, 15, 16, 18, 24, 31]).reshape(x.shape)
    flat[places.ravel()] = x.ravel()
    y = np.zeros((2, 1, 5, 6), np.float32)
    y[:, :, :4, :4] = flat.reshape(2, 1, 4, 4)
    for constants in ([], [2]):
        family = Family(opset=22)
        size = {"kernel_shape": [2, 2], "strides": [2, 2]}
        family.add("MaxUnpool", [x, places, np.array(y.shape)], y, constants=constants, **size)
        family.check(tmp_path)


@pytest.mark.parametrize("wide, narrow", [(0, 1), (1, 0), (0, 0), (1, 3), (3, 1), (3, 3)])
def test_extents_of_the_run_that_are_0_or_1(tmp_path, random, wide, narrow):
    """0 beside 1 gives 0."""
    family = Family(opset=22)
    a, b = floats(random, wide, 4), floats(random, narrow, 1)
    flag = a > 0
    both = {"symbols": [0, 1]}
    for op, function in [("Add", np.add), ("Mul", np.multiply), ("Max", np.maximum), ("Less", np.less)]:
        family.add(op, [a, b], function(a, b), **both)
        family.add(op, [b, a], function(b, a), **both)
    family.add("Sum", [a, b, a], a + b + a, symbols=[0, 1, 2])
    family.add("Where", [flag, b, a], np.where(flag, b, a), symbols=[0, 1, 2])
    family.add("And", [flag, b > 0], flag & (b > 0), **both)
    whole = np.arange(narrow, dtype=np.int64)[:, None]
    family.add("BitwiseXor", [whole, np.arange(wide)[:, None]], whole ^ np.arange(wide)[:, None], **both)
    matrices, other = floats(random, wide, 2, 3), floats(random, narrow, 3, 2)
    family.add("MatMul", [matrices, other], matrices @ other, symbols=[0, 1], tolerance=1e-4)
    shape = np.array([narrow, 4], np.int64)
    family.add("Expand", [a, shape], np.broadcast_to(a, np.broadcast_shapes(a.shape, (narrow, 4))), symbols=[0])
    family.check(tmp_path)


def test_chains_of_extents_of_the_run(tmp_path):
    """Extents that meet again and again; the shapes stay short."""
    x = [("x", "float32", ("N",)), ("y", "float32", ("M",))]
    nodes = [node("Add", ["x", "y"], ["s0"])]
    for k in range(40):
        nodes.append(node("Add" if k % 2 else "Mul", [f"s{k}", "xy"[k % 2]], [f"s{k + 1}"]))
        nodes.append(node("Neg", [f"s{k + 1}"], [f"n{k}"]))
    write_model(tmp_path / "m.onnx", nodes, x, [("s40", "float32", ("K",))], opset=22)
    model = aipu.load(aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"])
    for n, m, k in [(0, 1, 0), (1, 0, 0), (1, 1, 1), (2, 1, 2), (1, 3, 3), (2, 2, 2)]:
        y = model.run({"x": np.ones(n, np.float32), "y": np.ones(m, np.float32)})["s40"]
        assert y.shape == (k,)
    with pytest.raises(ValueError, match="cannot be broadcast"):
        model.run({"x": np.ones(2, np.float32), "y": np.ones(0, np.float32)})


def parts(y, like):
    return np.stack([y.real, y.imag], -1).astype(like.dtype)


@pytest.mark.parametrize("element", [np.float32, np.float64])
def test_transforms_of_lengths_of_the_run(tmp_path, random, element):
    """As operands, and as extents of the axis; which axis it is a run may say too."""
    family = Family(opset=20)
    x = random.standard_normal((3, 12, 2)).astype(element)
    complex_x = x[..., 0] + 1j * x[..., 1]
    fixed = {"tolerance": 2e-5 if element == np.float32 else 1e-12, "symbols": {0: [0, 1]}}
    for length in (1, 2, 7, 8, 12, 17, None):
        count = length and np.array(length, np.int64)
        family.add("DFT", [x, count], parts(np.fft.fft(complex_x, length, 1), x), **fixed)
        family.add("DFT", [x, count], parts(np.fft.ifft(complex_x, length, 1), x), inverse=1, **fixed)
        if length != 1:  # which NumPy's inverse has none of
            back = np.fft.irfft(complex_x, length, 1)[..., None].astype(element)
            family.add("DFT", [x, count], back, inverse=1, onesided=1, **fixed)
        real = np.ascontiguousarray(x[..., :1])
        family.add("DFT", [real, count], parts(np.fft.rfft(x[..., 0], length, 1), x), onesided=1, **fixed)
        place = np.array(0, np.int64)
        family.add("DFT", [x, count, place], parts(np.fft.fft(complex_x, length, 0), x), **fixed)
    family.check(tmp_path)


def test_inverse_along_an_axis_of_the_run(tmp_path, random):
    """Along the axis of extent 1, which it is not, there would be no numbers."""
    family = Family(opset=20)
    x = floats(random, 1, 6, 4, 2)
    y = np.fft.irfft(x[..., 0] + 1j * x[..., 1], axis=1)[..., None].astype(np.float32)
    family.add("DFT", [x, None, np.array(1, np.int64)], y, inverse=1, onesided=1)
    family.check(tmp_path)


@pytest.mark.parametrize("length", [0, -3])
def test_transforms_have_a_length(tmp_path, random, length):
    family = Family(opset=20)
    x = floats(random, 1, 5, 1)
    family.add("DFT", [x, np.array(length, np.int64)], np.zeros((1, 1, 2), np.float32), onesided=1)
    with pytest.raises(ValueError, match="DFT"):
        family.check(tmp_path)


def frames_of(signal, step, window):
    starts = range(0, signal.shape[1] - len(window) + 1, step)
    return np.stack([signal[:, at : at + len(window)] * window for at in starts], 1)


@pytest.mark.parametrize("known", [(), (2,)])
def test_short_transforms_of_lengths_of_the_run(tmp_path, random, known):
    """With windows that are constants, operands, or not there."""
    family = Family(opset=17)
    x = floats(random, 2, 30)
    for length, step in ((8, 3), (5, 5), (16, 1)):
        count, by = np.array(length, np.int64), np.array(step, np.int64)
        window = np.hanning(length).astype(np.float32)
        for factors in (window, None):
            frames = frames_of(x, step, np.ones(length) if factors is None else factors)
            for operand in (x, x[..., None]):
                one_sided = parts(np.fft.rfft(frames), x)
                constants = known if factors is not None else ()
                family.add("STFT", [operand, by, factors, count], one_sided, constants=constants, symbols={0: [0, 1]})
                whole = parts(np.fft.fft(frames), x)
                family.add("STFT", [operand, by, factors, count], whole, constants=constants, onesided=0)
        family.add("STFT", [x, by, window], parts(np.fft.rfft(frames_of(x, step, window)), x), symbols=[0, 2])
    family.check(tmp_path)


def test_windows_have_the_length_of_frames(tmp_path, random):
    family = Family(opset=17)
    x, window = floats(random, 2, 30), np.ones(8, np.float32)
    y = parts(np.fft.rfft(frames_of(x, 3, window)), x)
    family.add("STFT", [x, np.array(3, np.int64), window, np.array(7, np.int64)], y, constants=[2])
    with pytest.raises(ValueError, match="STFT.*not 8|STFT.*8"):
        family.check(tmp_path)


def test_windows_of_one_line_on_an_npu(tmp_path, random, interpreted):
    family = Family(opset=13)
    x, w = (
        random.integers(-9, 9, (2, 3, 3, 4)).astype(np.float32),
        random.integers(0, 9, (2, 3, 1, 2)).astype(np.float32),
    )
    for left, right in ((0, 1), (1, 0), (1, 1), (0, 0)):
        padded = np.pad(x, [(0, 0), (0, 0), (0, 0), (left, right)])
        count = padded.shape[3] - 1
        y = sum(np.einsum("bchw,oc->bohw", padded[..., k : k + count], w[:, :, 0, k]) for k in (0, 1))
        family.add("Conv", [x, w], y.astype(np.float32), constants=[1], kernel_shape=[1, 2], pads=[0, left, 0, right])
    family.check(tmp_path, backend=interpreted, target="X2_1204")


def test_every_second_element(tmp_path, random):
    """Of rows that end where vectors do, within one and behind one; and rows shorter than a register."""
    family = Family(opset=18)
    for dtype in (np.float16, np.float32, np.float64, np.int8, np.int16, np.int64):
        for length in (7, 127, 128, 130):
            x = (random.standard_normal((3, length)) * 100).astype(dtype)
            for first in (0, 1):
                operands = [x, np.array([first]), np.array([1 << 40]), np.array([1]), np.array([2])]
                family.add("Slice", operands, x[:, first::2], constants=[1, 2, 3, 4], tolerance=0)
        pixels = (random.standard_normal((6, 10, 3)) * 100).astype(dtype)
        operands = [pixels, np.array([1]), np.array([1 << 40]), np.array([1]), np.array([2])]
        family.add("Slice", operands, pixels[:, 1::2], constants=[1, 2, 3, 4], tolerance=0)
    family.check(tmp_path)


def test_more_operands_than_a_kernel_has(tmp_path, random, interpreted):
    """IsolationForest and AdaBoost add up as many as they have trees."""
    family = Family(opset=18)
    operands = list(floats(random, 50, 3, 4))
    operands[7] = operands[7][:1]
    everything = np.stack(np.broadcast_arrays(*operands))
    for op, reduced in [("Sum", np.sum), ("Mean", np.mean), ("Max", np.max), ("Min", np.min)]:
        family.add(op, operands, reduced(everything, 0), constants=range(2, 50))
    family.check(tmp_path, backend=interpreted)


def test_statistics_per_activation(tmp_path, random):
    family = Family(opset=7)
    x, scale, bias, mean = floats(random, 2, 3, 4, 5), *(floats(random, 3, 4, 5) for _ in range(3))
    variance = np.abs(floats(random, 3, 4, 5)) + 0.1
    y = (x - mean) / np.sqrt(variance + 1e-3) * scale + bias
    family.add("BatchNormalization", [x, scale, bias, mean, variance], y, spatial=0, epsilon=1e-3)
    now, spread = x.mean(0), x.var(0)
    y = (x - now) / np.sqrt(spread + 1e-3) * scale + bias
    kept = [y, mean * 0.8 + now * 0.2, variance * 0.8 + spread * 0.2, now, spread]
    family.add("BatchNormalization", [x, scale, bias, mean, variance], [a.astype(np.float32) for a in kept], spatial=0,
               epsilon=1e-3, momentum=0.8)  # fmt: skip
    family.check(tmp_path)


def test_statistics_of_the_batch(tmp_path, random):
    """Before opset 14 the outputs say that a normalisation trains."""
    family = Family(opset=9)
    x, (scale, bias, mean) = floats(random, 4, 3, 5), floats(random, 3, 3)
    variance = np.abs(floats(random, 3)) + 0.1
    now, spread = x.mean((0, 2)), x.var((0, 2))
    y = (x - now[:, None]) / np.sqrt(spread + 1e-5)[:, None] * scale[:, None] + bias[:, None]
    kept = [y, mean * 0.8 + now * 0.2, variance * 0.8 + spread * 0.2, now, spread]
    operands = [x, scale, bias, mean, variance]
    family.add("BatchNormalization", operands, [a.astype(np.float32) for a in kept], momentum=0.8)
    family.check(tmp_path)


def test_slices_of_narrow_rows(tmp_path, random):
    """Copies of rows of a few elements, whose kernels differ by width and by the size of an element."""
    family = Family(opset=17)
    widths = {np.float32: (1, 2, 3, 4, 5, 9, 19), np.float16: (3, 8, 11, 33), np.uint8: (3, 17, 21), np.float64: (2, 7)}
    for dtype, several in widths.items():
        x = random.integers(0, 200, (2, 9, 11, 35)).astype(dtype)
        for width in several:
            # All but the last of every second row, every third column from the second on.
            first = width % 2
            expected = x[:, 0:8:2, 1::3, first : first + width]
            index = [np.array(of, np.int64) for of in ([0, 1, first], [8, 11, first + width], [1, 2, 3], [2, 3, 1])]
            family.add("Slice", [x, *index], expected, constants=[1, 2, 3, 4], symbols=[0] if width == 3 else [])
    family.check(tmp_path)


def test_quantization_by_a_known_scale_is_that_of_a_division(tmp_path, random):
    """Numbers next to ties, where a product with the reciprocal rounds to the other neighbour now and then."""
    family = Family(opset=21)
    for dtype, zero in ((np.int8, 3), (np.uint8, 128), (np.uint8, 7), (np.int16, -5), (np.uint16, 0)):
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        for scale in np.float32(random.uniform(0.5, 2, 4) * 10.0 ** random.uniform(-6, 4, 4)):
            ties = (random.integers(least - zero, most - zero, 997) + 0.5) * np.float64(scale)
            x = np.float32(ties)
            several = [x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))]
            special = np.float32([0, -0.0, 1e-42, 3e38, -3e38, np.inf, -np.inf])
            x = np.concatenate([*several, special])
            with np.errstate(over="ignore"):
                y = np.clip(np.rint(x / scale) + zero, least, most).astype(dtype)
            family.add("QuantizeLinear", [x, scale, dtype(zero)], y, constants=(1, 2), tolerance=0)
    family.check(tmp_path)
