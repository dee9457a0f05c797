"""Products with weights of 4 and 8 bits that have scales for blocks (MatMulNBits, DequantizeLinear by blocks), which
stay as they are in the file; against NumPy."""

import os

import aipu
import numpy as np
import pytest
from onnx_text import Raw, node, write_model

F32 = np.float32


class Weights:
    """Random codes [rows, depth], scales and zero points of their blocks."""

    def __init__(self, rows, depth, block, bits, zero="none", scale=F32, seed=0, accuracy_level=0):
        random = np.random.default_rng(seed)
        self.rows, self.depth, self.block, self.bits = rows, depth, block, bits
        self.blocks = -(-depth // block)
        self.codes = random.integers(0, 1 << bits, (rows, self.blocks * block)).astype(np.uint8)
        self.scales = (random.random((rows, self.blocks)) * 0.1 + 0.01).astype(scale)
        self.zeros = random.integers(0, 1 << bits, (rows, self.blocks)).astype(np.uint8)
        self.zero = zero
        self.accuracy_level = accuracy_level

    def packed(self, x):
        if self.bits == 8:
            return x
        x = np.pad(x, [(0, 0), (0, x.shape[1] % 2)])
        return x[:, ::2] | x[:, 1::2] << 4

    def operands(self):
        zeros = {"none": None, "packed": self.packed(self.zeros), "float": self.zeros.astype(self.scales.dtype)}
        codes = self.packed(self.codes).reshape(self.rows, self.blocks, -1)
        return codes, self.scales, zeros[self.zero]

    def dense(self):
        """[depth, rows], float64."""
        zeros = self.zeros if self.zero != "none" else np.full_like(self.zeros, 1 << (self.bits - 1))
        per_block = self.codes.reshape(self.rows, self.blocks, self.block) - zeros[..., None].astype(np.float64)
        return (per_block * self.scales[..., None]).reshape(self.rows, -1)[:, : self.depth].T

    def sizes(self):
        sizes = {"K": self.depth, "N": self.rows, "bits": self.bits, "block_size": self.block}
        return sizes | ({"accuracy_level": self.accuracy_level} if self.accuracy_level else {})


def build(folder, weights, shape, dtype="float32", bias=None, behind=(), **options):
    """A model of one product; returns the path of its aipu.bin."""
    codes, scales, zeros = weights.operands()
    operands = [("x", None), ("codes", codes), ("scales", scales), ("zeros", zeros), ("", None), ("bias", bias)]
    names = [name if name == "x" or array is not None else "" for name, array in operands]
    while not names[-1]:
        names.pop()
    constants = {name: array for name, array in operands if array is not None}
    nodes = [node("MatMulNBits", names, ["y"], "com.microsoft", **weights.sizes())]
    nodes += [node(op, ["y" if k == 0 else f"y{k}"], [f"y{k + 1}"]) for k, op in enumerate(behind)]
    result = f"y{len(behind)}" if behind else "y"
    path = folder / "product.onnx"
    write_model(
        path, nodes, [("x", dtype, [*shape, weights.depth])], [(result, dtype, [*shape, weights.rows])], constants
    )
    return aipu.build(path, folder / "product.aipu.bin", **options)["output"]


def check(output, weights, rows, dtype=F32, bias=0.0, threads=2, backend=None, tolerance=3e-6):
    x = np.random.default_rng(rows).standard_normal((*rows, weights.depth)).astype(dtype)
    dense = weights.dense()
    found = next(iter(aipu.load(output, backend=backend).session(threads=threads).run({"x": x}).values()))
    # Of the sum of the magnitudes, which is what roundings are relative to.
    scale = np.abs(x.astype(np.float64)) @ np.abs(dense) + 1
    error = np.abs(found - (x.astype(np.float64) @ dense + bias)) / scale
    assert found.dtype == dtype and error.max() < tolerance, (rows, error.max())
    return found


@pytest.mark.parametrize("zero", ["none", "packed", "float"])
@pytest.mark.parametrize("bits", [4, 8])
def test_any_number_of_rows(tmp_path, bits, zero):
    """Few rows are multiplied by codes, many by weights made of them; the number is open."""
    weights = Weights(rows=131, depth=200, block=32, bits=bits, zero=zero)
    output = build(tmp_path, weights, ["M"])
    for rows in (1, 2, 3, 4, 5, 7, 8, 9, 15, 31, 70):
        check(output, weights, (rows,))


@pytest.mark.parametrize("rows", [1, 3, 8, 9, 64])
def test_known_rows(tmp_path, rows):
    weights = Weights(rows=67, depth=96, block=16, bits=4, zero="packed")
    check(build(tmp_path, weights, [rows]), weights, (rows,))


@pytest.mark.parametrize("target, backend", [("host", None), ("X2_1204", "x2")])
def test_no_rows(tmp_path, target, backend):
    """As many as are known, none: no tile is so low."""
    weights = Weights(rows=19, depth=64, block=32, bits=4)
    x = np.zeros((0, 64), F32)
    model = aipu.load(
        build(tmp_path, weights, [0], target=target, disabled_passes=["simplify_algebra", "fold_constants"]),
        backend=backend,
    )
    assert model.run({"x": x})["y"].shape == (0, 19)


@pytest.mark.parametrize("block", [16, 64, 128, 48])
def test_blocks(tmp_path, block):
    """The depth ends within a block, and may be less than one."""
    for depth in (40, 257):
        weights = Weights(rows=33, depth=depth, block=block, bits=4)
        output = build(tmp_path, weights, ["B", "M"])
        for rows in ((1, 1), (2, 3), (3, 17)):
            check(output, weights, rows)


@pytest.mark.parametrize(
    "bits, block, zero", [(8, 128, "none"), (8, 256, "packed"), (8, 512, "none"), (4, 4096, "packed")]
)
def test_sums_of_large_blocks(tmp_path, bits, block, zero):
    """The greatest sums that there are, of blocks that are cut into parts; the depth is four chunks and more."""
    weights = Weights(rows=67, depth=4 * block + 16, block=block, bits=bits, zero=zero)
    weights.codes[::2], weights.codes[1::4] = (1 << bits) - 1, 0
    output = build(tmp_path, weights, ["M"])
    for rows in (1, 2, 3, 4, 8):
        x = np.full((rows, weights.depth), 1.9999, F32) * np.where(np.arange(rows) % 2, F32(-1), F32(1))[:, None]
        expected = x.astype(np.float64) @ weights.dense()
        found = next(iter(aipu.load(output).session(threads=2).run({"x": x}).values()))
        scale = np.abs(x.astype(np.float64)) @ np.abs(weights.dense())
        assert (np.abs(found - expected) / scale).max() < 1e-6


@pytest.mark.parametrize("target", ["host", "host-avx2", "host-baseline", "X2_1204"])
def test_targets(tmp_path, target):
    """With AVX2 interpreted, as not all CPUs have it; on NPUs the weights are float32."""
    weights = Weights(rows=70, depth=72, block=32, bits=4, zero="packed")
    output = build(tmp_path, weights, ["M"], target=target, bias=np.arange(70, dtype=F32))
    for rows in (1, 2, 5, 8, 13):
        backend = "interp" if target == "host-avx2" else None
        check(output, weights, (rows,), bias=np.arange(70), backend=backend)


def test_interpreted_to_the_bit(tmp_path):
    weights = Weights(rows=37, depth=80, block=32, bits=4, zero="packed")
    output = build(tmp_path, weights, ["M"])
    for rows in (1, 3, 11):
        compiled = check(output, weights, (rows,))
        np.testing.assert_array_equal(check(output, weights, (rows,), backend="interp"), compiled)
        np.testing.assert_array_equal(check(output, weights, (rows,), threads=1), compiled)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zero", ["none", "packed"])
@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_accuracy_levels(tmp_path, level, zero, bits):
    """What x may be rounded to, relative to the greatest number of its block; more rows are multiplied as they are."""
    step = {1: 2.0**-23, 2: 2.0**-15, 3: 2.0**-15, 4: 0.5 / 127}[level]
    weights = Weights(rows=75, depth=168, block=32, bits=bits, zero=zero, accuracy_level=level)
    output = build(tmp_path, weights, ["M"])
    dense = np.abs(np.pad(weights.dense(), [(0, 24), (0, 0)]).reshape(6, 32, 75))
    for rows in (1, 2, 3, 4, 7, 8, 9):
        x = np.random.default_rng(rows).standard_normal((rows, 168)).astype(F32)
        x[:, 64:96] = 0
        x[0, 100] = 1e20
        found = next(iter(aipu.load(output).session(threads=2).run({"x": x}).values()))
        wide = np.pad(x.astype(np.float64), [(0, 0), (0, 24)]).reshape(rows, 6, 32)
        highest = np.abs(wide).max(-1)
        bound = np.einsum("rb,bkn->rn", highest * (step if rows < 9 else 0), dense)
        bound += 3e-6 * np.einsum("rbk,bkn->rn", np.abs(wide), dense) + 1e-30
        error = np.abs(found - x.astype(np.float64) @ weights.dense())
        assert (error <= bound).all(), (rows, (error / bound).max())
        interpreted = next(iter(aipu.load(output, backend="interp").run({"x": x}).values()))
        np.testing.assert_array_equal(found, interpreted)


def test_an_unknown_accuracy_level_is_refused(tmp_path):
    with pytest.raises((ValueError, RuntimeError), match="accuracy_level is 5"):
        build(tmp_path, Weights(rows=8, depth=32, block=32, bits=4, accuracy_level=5), ["M"])


@pytest.mark.parametrize("bits", [4, 8])
def test_half_precision(tmp_path, bits):
    weights = Weights(rows=40, depth=128, block=32, bits=bits, zero="packed", scale=np.float16)
    output = build(tmp_path, weights, ["M"], dtype="float16")
    for rows in (1, 6, 20):
        check(output, weights, (rows,), dtype=np.float16, tolerance=1e-3)


def test_bias_and_what_follows_are_stored_with_it(tmp_path):
    weights = Weights(rows=50, depth=64, block=32, bits=4)
    bias = np.random.default_rng(3).standard_normal(50).astype(F32)
    output = build(tmp_path, weights, ["M"], bias=bias)
    for rows in (1, 12):
        check(output, weights, (rows,), bias=bias)
    output = build(tmp_path, weights, ["M"], bias=bias, behind=["Relu"], dump_ir=tmp_path / "ir")
    groups = (tmp_path / "ir" / "groups.txt").read_text()
    assert groups.count("block_quantized") == 1 and "Relu" in groups
    x = np.random.default_rng(5).standard_normal((3, 64)).astype(F32)
    found = next(iter(aipu.load(output).run({"x": x}).values()))
    np.testing.assert_allclose(found, np.maximum(x @ weights.dense() + bias, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
def test_file_has_the_codes(tmp_path, bits):
    """The weights take as many bytes in the aipu.bin as in the model."""
    weights = Weights(rows=2048, depth=2048, block=32, bits=bits, zero="packed", scale=np.float16)
    path = build(tmp_path, weights, ["M"], dtype="float16")
    codes, scales, _ = weights.operands()
    least = codes.nbytes + scales.nbytes + weights.zeros.nbytes
    assert least <= os.path.getsize(path) < least + 700_000  # code


def dequantized(folder, dtype, axis, form, block=16, zero=True, bias=False):
    """A product behind a DequantizeLinear with blocks; how many nodes take the codes, once results are compared."""
    random = np.random.default_rng(8)
    depth, columns = 72, 37
    bits, signed = int(dtype[-1]), dtype.startswith("int")
    least = -(1 << (bits - 1)) if signed else 0
    shape = (depth, columns) if axis == 0 else (columns, depth)
    per_block = tuple(-(-extent // block) if k == axis else extent for k, extent in enumerate(shape))
    codes, zeros = (random.integers(least, least + (1 << bits), s) for s in (shape, per_block))
    scales = random.uniform(0.01, 0.1, per_block).astype(F32)

    def stored(values):
        if bits == 8:
            return values.astype(dtype)
        flat = values.ravel() & 15
        flat = np.pad(flat, (0, flat.size % 2)).astype(np.uint8)
        return Raw(dtype, values.shape, (flat[::2] | flat[1::2] << 4).tobytes())

    spread = np.arange(shape[axis]) // block
    real = (codes - (zeros.take(spread, axis) if zero else 0)) * scales.take(spread, axis).astype(np.float64)
    x = random.standard_normal((3, real.shape[1] if form in ("Gemm", "Transpose") else real.shape[0])).astype(F32)
    offset = random.standard_normal(columns).astype(F32)
    operands = ["w", "s", "z"][: 3 if zero else 2]
    nodes = [node("DequantizeLinear", operands, ["real"], axis=axis, block_size=block)]
    if form == "Gemm":
        nodes.append(node("Gemm", ["x", "real", "b"][: 3 if bias else 2], ["y"], transB=1))
    elif form == "Transpose":
        nodes += [node("Transpose", ["real"], ["turned"], perm=[1, 0]), node("MatMul", ["x", "turned"], ["y"])]
    else:
        nodes.append(node("MatMul", ["x", "real"], ["y"]))
    expected = x @ (real.T if form in ("Gemm", "Transpose") else real) + (offset if bias else 0)
    constants = {"w": stored(codes), "s": scales, "z": stored(zeros), "b": offset}
    outputs = [("y", "float32", expected.shape)]
    if form == "twice":  # and as numbers
        nodes.append(node("Identity", ["real"], ["numbers"]))
        outputs.append(("numbers", "float32", real.shape))
    path = folder / "dequantized.onnx"
    write_model(path, nodes, [("x", "float32", x.shape)], outputs, constants, opset=21)
    output = aipu.build(path, folder / "dequantized.aipu.bin", dump_ir=folder / "ir")["output"]
    found = aipu.load(output).run({"x": x})
    if form == "twice":
        np.testing.assert_allclose(found["numbers"], real, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found["y"], expected, rtol=2e-5, atol=2e-5)
    return (folder / "ir" / "groups.txt").read_text().count("aipu::BlockQuantizedMatMul")


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "uint8"])
def test_products_of_dequantized_blocks(tmp_path, dtype):
    assert dequantized(tmp_path, dtype, 0, "MatMul")
    assert dequantized(tmp_path, dtype, 0, "MatMul", zero=False)
    assert dequantized(tmp_path, dtype, 1, "Gemm", block=32, bias=True)
    assert dequantized(tmp_path, dtype, 1, "Transpose", block=128)
    assert dequantized(tmp_path, dtype, 0, "twice")


@pytest.mark.parametrize("dtype", ["int4", "uint8"])
def test_other_blocks_become_numbers(tmp_path, dtype):
    """Along the columns of a product, and of sizes that vectors do not fit."""
    assert not dequantized(tmp_path, dtype, 1, "MatMul")
    assert not dequantized(tmp_path, dtype, 0, "MatMul", block=5)


@pytest.mark.parametrize("target", ["host", "host-baseline"])
@pytest.mark.parametrize("bits", [4, 8])
def test_infinite_and_huge_rows(tmp_path, bits, target):
    """As by weights: products of codes before their zero point is taken off would be NaN."""
    weights = Weights(rows=37, depth=80, block=32, bits=bits, zero="packed")
    weights.codes[:, :3] = weights.zeros[:, :1] + np.where(weights.zeros[:, :1] > 7, -3, 3)  # no weight of 0 there
    weights.codes[4, 1] = weights.zeros[4, 0]
    weights.scales *= F32(0.3 * 2 ** (4 - bits))  # with weights below 0.5 nothing finite overflows
    output = build(tmp_path, weights, ["M"], target=target)
    for rows in (1, 3, 5, 12):
        x = np.random.default_rng(rows).standard_normal((rows, 80)).astype(F32)
        x[0, 1] = -np.inf
        if rows > 1:
            x[1, 40] = 3e38
            x[1, 41] = -1e38
        if rows > 2:
            x[2, 2] = np.nan
        with np.errstate(invalid="ignore"):
            expected = (x.astype(np.float64)[..., None] * weights.dense()).sum(1)
        expected[np.abs(expected) > 3.4e38] *= np.inf
        found = next(iter(aipu.load(output).run({"x": x}).values()))
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        assert np.isnan(expected[0]).sum() == 1 and np.isinf(expected[0]).sum() == 36
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(found[np.isinf(expected)], expected[np.isinf(expected)])
        np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-4, atol=1e-4)


# Bits of exponent and mantissa, bias, and what is no number: "infinity" the highest exponent, "nan" only the highest
# code, "zero" that of -0.
FORMATS = {
    "float4e2m1": (2, 1, 1, ""),
    "float6e2m3": (2, 3, 1, ""),
    "float6e3m2": (3, 2, 3, ""),
    "float8e4m3fn": (4, 3, 7, "nan"),
    "float8e4m3fnuz": (4, 3, 8, "zero"),
    "float8e5m2": (5, 2, 15, "infinity"),
    "float8e5m2fnuz": (5, 2, 16, "zero"),
}


def small_floats(dtype):
    """The numbers of all codes of a float type, NaN for those that are none (infinities too), and its bits."""
    exponents, mantissas, bias, special = FORMATS[dtype]
    numbers = []
    for code in range(1 << (exponents + mantissas)):
        exponent, mantissa = code >> mantissas, code & ((1 << mantissas) - 1)
        fraction = mantissa / (1 << mantissas) + (exponent > 0)
        numbers.append(fraction * 2.0 ** (max(exponent, 1) - bias))
    if special == "infinity":
        numbers[-(1 << mantissas) :] = [np.nan] * (1 << mantissas)
    if special == "nan":
        numbers[-1] = np.nan
    negative = [-number for number in numbers]
    if special == "zero":
        negative[0] = np.nan
    return np.array(numbers + negative), exponents + mantissas + 1


class SmallFloatWeights:
    """Random ones [depth, columns] (axis 0) or [columns, depth], with a scale for each block of the depth."""

    def __init__(self, dtype, axis=0, depth=96, columns=40, block=32, codes=None):
        random = np.random.default_rng(9)
        numbers, bits = small_floats(dtype)
        shape = (depth, columns) if axis == 0 else (columns, depth)
        usable = np.flatnonzero(~np.isnan(numbers)) if codes is None else codes
        chosen = random.choice(usable, shape).astype(np.uint8)
        chosen.flat[: usable.size] = usable
        self.axis, self.block = axis, block
        self.scales = random.uniform(0.01, 0.1, tuple(-(-e // block) if k == axis else e for k, e in enumerate(shape)))
        self.scales = self.scales.astype(F32)
        spread = np.repeat(self.scales.astype(np.float64), block, axis)[: shape[0], : shape[1]]
        self.numbers = numbers[chosen] * spread
        stream = np.unpackbits(chosen.reshape(-1, 1), axis=1, bitorder="little")[:, :bits]
        self.stored = Raw(dtype, shape, np.packbits(stream.ravel(), bitorder="little").tobytes())

    def dense(self):
        return self.numbers if self.axis == 0 else self.numbers.T

    def build(self, folder, also_numbers=False, **options):
        """Of a product and, if asked for, the numbers; the path of the aipu.bin and whether the product reads codes."""
        depth, columns = self.dense().shape
        nodes = [
            node("DequantizeLinear", ["w", "s"], ["real"], axis=self.axis, block_size=self.block),
            node("Gemm", ["x", "real"], ["y"], transB=self.axis),
        ]
        outputs = [("y", "float32", ["M", columns])]
        if also_numbers:
            nodes.append(node("Identity", ["real"], ["numbers"]))
            outputs.append(("numbers", "float32", self.numbers.shape))
        constants = {"w": self.stored, "s": self.scales}
        path = folder / "floats.onnx"
        write_model(path, nodes, [("x", "float32", ["M", depth])], outputs, constants, opset=23)
        output = aipu.build(path, folder / "floats.aipu.bin", dump_ir=folder / "ir", **options)["output"]
        return output, "aipu::BlockQuantizedMatMul" in (folder / "ir" / "groups.txt").read_text()

    def check(self, output, rows, backend=None, tolerance=3e-6):
        x = np.random.default_rng(rows).standard_normal((rows, self.dense().shape[0])).astype(F32)
        found = aipu.load(output, backend=backend).run({"x": x})
        bound = tolerance * (np.abs(x.astype(np.float64)) @ np.abs(self.dense()))
        assert (np.abs(found["y"] - x.astype(np.float64) @ self.dense()) <= bound).all()
        return found


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("axis", [0, 1])
def test_weights_of_small_floats(tmp_path, dtype, axis):
    """They stay as they are; of float8e5m2fnuz those that float8e5m2 has too."""
    codes = np.array([0, 2, 4, 6, *range(8, 128), 130, *range(136, 256)]) if dtype == "float8e5m2fnuz" else None
    weights = SmallFloatWeights(dtype, axis, codes=codes)
    output, stays = weights.build(tmp_path, also_numbers=True)
    assert stays
    for rows in (1, 2, 3, 4, 8, 20):
        found = weights.check(output, rows)
        np.testing.assert_array_equal(found["numbers"], weights.numbers.astype(F32))


@pytest.mark.parametrize("dtype", ["float4e2m1", "float8e4m3fn", "float8e5m2"])
@pytest.mark.parametrize("target", ["host", "host-avx512", "host-avx2", "host-baseline", "X2_1204"])
def test_targets_of_small_floats(tmp_path, dtype, target):
    """Interpreted and compiled alike. Without instructions that make numbers of them they are float32, or bytes."""
    weights = SmallFloatWeights(dtype, columns=70, depth=72, block=48)
    output, stays = weights.build(tmp_path, target=target)
    assert stays == (target != "X2_1204" and (target != "host-baseline" or dtype == "float4e2m1"))
    # Bytes of up to 12 around 128 lose what float32 sums of products by 128 do.
    tolerance = 3e-5 if target == "host-baseline" else 3e-6
    for rows in (1, 3, 8, 13):
        interpreted = weights.check(output, rows, backend="interp", tolerance=tolerance)["y"]
        np.testing.assert_array_equal(weights.check(output, rows, tolerance=tolerance)["y"], interpreted)


@pytest.mark.parametrize("dtype", ["float8e4m3fn", "float8e5m2", "float8e5m2fnuz"])
def test_small_floats_that_become_float32(tmp_path, dtype):
    """NaN and infinity, and numbers that are no upper halves of a float16."""
    code = {"float8e4m3fn": 0x7F, "float8e5m2": 0x7C, "float8e5m2fnuz": 1}[dtype]
    weights = SmallFloatWeights(dtype, codes=np.array([code, 0x38, 0xB8]))
    output, stays = weights.build(tmp_path)
    assert not stays
    if dtype == "float8e5m2fnuz":
        weights.check(output, 2)
    else:
        assert not np.isfinite(aipu.load(output).run({"x": np.ones((1, 96), F32)})["y"]).any()


@pytest.mark.parametrize("dtype", ["float4e2m1", "float8e4m3fn"])
@pytest.mark.parametrize("target", ["host", "host-avx512"])
def test_huge_rows_by_small_floats(tmp_path, dtype, target):
    weights = SmallFloatWeights(dtype)
    weights.scales *= F32(1e-4)
    weights.numbers *= np.float64(F32(1e-4))
    output, _ = weights.build(tmp_path, target=target)
    for rows in (2, 12):
        x = np.random.default_rng(rows).standard_normal((rows, 96)).astype(F32)
        x[0, 1], x[1, 40], x[1, 41] = -np.inf, 3e38, -1e38
        with np.errstate(invalid="ignore"):
            expected = (x.astype(np.float64)[..., None] * weights.dense()).sum(1)
        found = aipu.load(output).run({"x": x})["y"]
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(found[np.isinf(expected)], expected[np.isinf(expected)])
        np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["host", "host-avx2", "host-baseline", "X2_1204"])
@pytest.mark.parametrize("kind", [0, 1])
def test_tables_of_bitsandbytes(tmp_path, kind, target):
    """MatMulBnb4's weights stay as they are where float32 comes from a table in registers, if rows end with blocks."""
    random = np.random.default_rng(kind)
    fp4 = [0, 5.208333333e-03, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25]
    nf4 = [-1, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.091050036, 0, 0.0795803, 0.1609302,
           0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1]  # fmt: skip
    table = np.array(nf4 if kind else fp4 + [-x for x in fp4])
    for depth, stays in ((192, "host-baseline" != target != "X2_1204"), (160, False)):
        codes = random.integers(0, 16, 70 * depth).astype(np.uint8)
        codes[:16] = np.arange(16)
        factors = random.uniform(0.1, 1, 70 * depth // 64).astype(F32)
        dense = (table[codes] * np.repeat(factors.astype(np.float64), 64)).reshape(70, depth).T
        path = tmp_path / f"{depth}.onnx"
        nodes = [node("MatMulBnb4", ["x", "w", "s"], ["y"], "com.microsoft", N=70, K=depth, block_size=64,
                      quant_type=kind)]  # fmt: skip
        constants = {"w": codes[::2] << 4 | codes[1::2], "s": factors}
        write_model(path, nodes, [("x", "float32", ["M", depth])], [("y", "float32", ["M", 70])], constants)
        output = aipu.build(path, tmp_path / f"{depth}.aipu.bin", target=target, dump_ir=tmp_path / str(depth))[
            "output"
        ]
        assert ("aipu::BlockQuantizedMatMul" in (tmp_path / str(depth) / "groups.txt").read_text()) == stays
        for rows in (1, 3, 8, 12):
            x = np.random.default_rng(rows).standard_normal((rows, depth)).astype(F32)
            found = aipu.load(output).run({"x": x})["y"]
            bound = 3e-6 * (np.abs(x.astype(np.float64)) @ np.abs(dense))
            assert (np.abs(found - x.astype(np.float64) @ dense) <= bound).all()
            np.testing.assert_array_equal(aipu.load(output, backend="interp").run({"x": x})["y"], found)
