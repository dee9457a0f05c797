"""Layers of ResNet-18 on an NPU: their transfers go beside their computation."""

import pathlib
import re
import sys

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench/npu"))
import cycles

# Of the multiply-adds of the peak, what a layer of 3 x 3 windows reaches at least, and what all of them do.
LEAST = {"resnet18_int8": 0.6, "resnet18_fp16": 0.6}
LEAST_OF_ALL = {"resnet18_int8": 0.65, "resnet18_fp16": 0.655}


@pytest.fixture(scope="module", params=cycles.OVERLAPPING)
def model(request, tmp_path_factory):
    if request.param == "resnet18_fp16":
        pytest.importorskip("onnx.numpy_helper")
    folder = tmp_path_factory.mktemp("layers")
    (layers,) = cycles.layers_of(request.param, folder, backends=("estimate",))
    return request.param, layers


def test_layers_take_the_larger_of_computation_and_transfers(model):
    _, layers = model
    assert len(layers) > 30
    both = cycles.overlapping(layers)
    assert len(both) > 20
    for layer in both:
        assert cycles.of_larger(layer) <= cycles.OVERLAPPED and layer["cycles"] >= layer["compute_cycles"], layer


def test_products_are_staged_and_busy(model):
    name, layers = model
    products = [layer for layer in layers if layer["operations"] > 1e6]
    assert len(products) == 21
    for layer in products:
        assert re.search("_staged_product__", layer["kernel"]) and layer["dma_cycles"] > 0, layer["kernel"]
    # 3 x 3 windows: all but the first layer, three of 1 x 1 and the last.
    windows = [layer for layer in products[1:] if layer["operations"] > 1e8]
    assert len(windows) == 16
    kind = cycles.MODELS[name][1]
    assert min(cycles.utilisation(layer, kind) for layer in windows) >= LEAST[name]
    whole = {key: sum(layer[key] for layer in windows) for key in ("operations", "cycles")}
    assert cycles.utilisation(whole, kind) >= LEAST_OF_ALL[name]


def test_depthwise_is_staged(tmp_path):
    (layers,) = cycles.layers_of("mobilenet_v2", tmp_path, backends=("estimate",))
    depthwise = [layer for layer in layers if "_depthwise" in layer["kernel"]]
    assert len(depthwise) == 17
    for layer in depthwise:
        assert "_depthwise_staged__" in layer["kernel"] and layer["dma_cycles"] > 0, layer["kernel"]
        assert cycles.of_larger(layer) <= cycles.OVERLAPPED, layer


def integers_of(random, *shape):
    return random.integers(-127, 128, shape).astype(np.int8)


def quantized(name, scale, zero, output):
    return [node("QuantizeLinear", [name, scale, zero], [f"{output}.q"]),
            node("DequantizeLinear", [f"{output}.q", scale, zero], [output])]  # fmt: skip


def test_depthwise_of_8_bits_is_staged(tmp_path):
    random = np.random.default_rng(14)
    constants = {"w": integers_of(random, 32, 1, 3, 3), "s": np.float32(0.05), "z": np.int8(0), "t": np.float32(0.02)}
    nodes = [
        *quantized("image", "s", "z", "x"),
        node("DequantizeLinear", ["w", "t", "z"], ["weights"]),
        node("Conv", ["x", "weights"], ["y"], group=32, pads=[1, 1, 1, 1]),
        *quantized("y", "s", "z", "out"),
    ]
    shape = [1, 32, 20, 20]
    write_model(tmp_path / "m.onnx", nodes, [("image", "float32", shape)], [("out", "float32", shape)], constants)
    by_shapes, counted = cycles.layers_of_file(tmp_path / "m.onnx", backends=("estimate", "interp"))
    (depthwise,) = [layer for layer in by_shapes if "_depthwise" in layer["kernel"]]
    assert "_depthwise_staged__" in depthwise["kernel"] and depthwise["dma_cycles"] > 0
    (run,) = [layer for layer in counted if "_depthwise" in layer["kernel"]]
    assert 0.9 < depthwise["cycles"] / run["cycles"] < 1.1


@pytest.mark.parametrize("op, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_are_staged(tmp_path, op, gates):
    random = np.random.default_rng(15)
    constants = {k: random.standard_normal((1, gates * 96, n)).astype(np.float32) for k, n in (("w", 48), ("r", 96))}
    nodes = [node(op, ["x", "w", "r"], ["y"], hidden_size=96)]
    path = tmp_path / "m.onnx"
    write_model(path, nodes, [("x", "float32", [5, 1, 48])], [("y", "float32", [5, 1, 1, 96])], constants)
    by_shapes, counted = cycles.layers_of_file(path, backends=("estimate", "interp"))
    (layer,) = [layer for layer in by_shapes if "_recurrent__" in layer["kernel"]]
    assert layer["dma_cycles"] > 0
    (run,) = [layer for layer in counted if "_recurrent__" in layer["kernel"]]
    assert 0.9 < layer["cycles"] / run["cycles"] < 1.1


def test_attention_is_staged(tmp_path):
    shape = [1, 2, 64, 64]
    nodes = [
        node("Transpose", ["k"], ["columns"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "columns"], ["scores"]),
        node("Softmax", ["scores"], ["weights"]),
        node("MatMul", ["weights", "v"], ["y"]),
    ]
    inputs = [(name, "float32", shape) for name in "qkv"]
    write_model(tmp_path / "m.onnx", nodes, inputs, [("y", "float32", shape)])
    (by_shapes,), (counted,) = cycles.layers_of_file(tmp_path / "m.onnx", backends=("estimate", "interp"))
    assert "_attention__" in by_shapes["kernel"] and by_shapes["dma_cycles"] > 0
    assert 0.9 < by_shapes["cycles"] / counted["cycles"] < 1.1
    assert cycles.of_larger(counted) <= cycles.OVERLAPPED


@pytest.mark.parametrize("dtype, zero", [(np.int8, 0), (np.uint8, 0), (np.int8, 5), (np.uint8, 128)])
def test_integers_that_saturate_are_those_of_the_host(tmp_path, dtype, zero):
    """Sums far beyond 8 bits, rounded and saturated by instructions of the NPU, once where they are sums again."""
    random = np.random.default_rng(16)
    constants = {
        **{name: integers_of(random, 16, 16, 3, 3) for name in ("w0", "w1")},
        **{f"s{k}": np.float32(scale) for k, scale in enumerate((0.03, 0.01, 0.02))},
        "one": np.float32(0.01), "wz": np.int8(0), "z": dtype(zero),
    }  # fmt: skip
    nodes = quantized("image", "s0", "z", "x")
    for k in range(2):
        nodes.append(node("DequantizeLinear", [f"w{k}", "one", "wz"], [f"weights{k}"]))
    nodes += [
        node("Conv", ["x", "weights0"], ["a"], pads=[1, 1, 1, 1]),
        *quantized("a", "s1", "z", "b"),
        node("Conv", ["b", "weights1"], ["c"], pads=[1, 1, 1, 1]),
        *quantized("c", "s2", "z", "d"),
        node("Add", ["d", "x"], ["sum"]),
        node("Relu", ["sum"], ["positive"]),
        node("QuantizeLinear", ["positive", "s1", "z"], ["out"]),
    ]
    shape = [1, 16, 9, 11]
    outputs = [("out", np.dtype(dtype).name, shape), ("b.q", np.dtype(dtype).name, shape)]
    write_model(tmp_path / "m.onnx", nodes, [("image", "float32", shape)], outputs, constants)
    image = random.standard_normal(shape).astype(np.float32)
    found = {}
    for target in ("host", "X2_1204"):
        aipu.build(tmp_path / "m.onnx", tmp_path / "m.bin", target=target)
        found[target] = aipu.load(tmp_path / "m.bin").run({"image": image})
    for name, array in found["host"].items():
        np.testing.assert_array_equal(found["X2_1204"][name], array, err_msg=name)
    limits = np.iinfo(dtype)
    assert np.mean((found["host"]["b.q"] == limits.min) | (found["host"]["b.q"] == limits.max)) > 0.3
