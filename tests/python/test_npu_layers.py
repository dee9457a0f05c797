"""Layers of ResNet-18 on an NPU: their transfers go beside their computation."""

import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench/npu"))
import cycles

# Of the multiply-adds of the peak, what a layer of 3 x 3 windows reaches at least, and what all of them do.
LEAST = {"resnet18_int8": 0.53, "resnet18_fp16": 0.53}
LEAST_OF_ALL = {"resnet18_int8": 0.58, "resnet18_fp16": 0.58}


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
