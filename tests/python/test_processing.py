"""Images before a model's inputs and choices behind its outputs, as nodes of the model; NumPy says what they give."""

import os
import subprocess

import aipu
import numpy as np
import pytest
from onnx_text import node, write_model

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
IMAGENET = "mean=0.485:0.456:0.406,std=0.229:0.224:0.225"
RANDOM = np.random.default_rng(5)
WEIGHTS = RANDOM.standard_normal((8, 3, 3, 3)).astype(np.float32)


def conv_model(path, pads=(1, 1, 1, 1), shape=("N", 3, 16, 16), dtype="float32"):
    """A convolution alone."""
    write_model(
        path,
        [node("Conv", ["x:0", "w"], ["y"], pads=list(pads))],
        [("x:0", dtype, shape)],
        [("y", dtype, ("N", 8, "h", "w"))],
        constants={"w": WEIGHTS},
    )


def built(model="m.onnx", **options):
    return aipu.load(aipu.build(model, "m.aipu.bin", **options)["output"])


def normalised(images, mean=MEAN, std=STD, scale=255.0):
    """NCHW of NHWC."""
    floats = (images.astype(np.float64) / scale - np.array(mean)) / np.array(std)
    return floats.transpose(0, 3, 1, 2)


def conv(x, pads=1):
    """A convolution by its definition, in float64."""
    x = np.pad(x, [(0, 0), (0, 0), (pads, pads), (pads, pads)])
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, WEIGHTS.astype(np.float64))


def images_of(count, height=16, width=16):
    return RANDOM.integers(0, 256, (count, height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("pads", [0, 1])
def test_images(pads):
    conv_model("m.onnx", [pads] * 4)
    model = built(preprocess=[f"x:0:uint8,nhwc,{IMAGENET}"])
    (spec,) = model.inputs
    assert (spec.name, spec.dtype, spec.shape) == ("x:0", "uint8", ("N", 16, 16, 3))
    images = images_of(2)
    found = model.run({"x:0": images})["y"]
    np.testing.assert_allclose(found, conv(normalised(images), pads), rtol=1e-4, atol=2e-4)


def test_words():
    conv_model("m.onnx")
    images = images_of(2)
    plain = built(preprocess=["x:0:float32,nchw"]).run({"x:0": images.transpose(0, 3, 1, 2).astype(np.float32)})["y"]
    np.testing.assert_allclose(plain, conv(images.transpose(0, 3, 1, 2).astype(np.float64)), rtol=1e-4, atol=2e-2)
    scaled = built(preprocess=["x:0:uint8,scale=127.5,mean=1"]).run({"x:0": images})["y"]
    np.testing.assert_allclose(scaled, conv(normalised(images, [1] * 3, [1] * 3, 127.5)), rtol=1e-4, atol=2e-4)
    wide = images.astype(np.uint16) * 257
    found = built(preprocess=["x:0:uint16,nhwc,scale=65535"]).run({"x:0": wide})["y"]
    np.testing.assert_allclose(found, conv(normalised(images, [0] * 3, [1] * 3)), rtol=1e-4, atol=2e-4)


def bilinear(images, height, width):
    """Of NHWC, with half-pixel centres."""

    def along(x, axis, size):
        extent = x.shape[axis]
        place = np.clip((np.arange(size) + 0.5) * extent / size - 0.5, 0, extent - 1)
        low = np.floor(place).astype(int)
        high = np.minimum(low + 1, extent - 1)
        shape = [1] * x.ndim
        shape[axis] = size
        weight = (place - low).reshape(shape)
        return np.take(x, low, axis) * (1 - weight) + np.take(x, high, axis) * weight

    return along(along(images.astype(np.float64), 1, height), 2, width)


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_resized_from_any_size(layout):
    conv_model("m.onnx")
    model = built(preprocess=[f"x:0:{layout},{IMAGENET},resize=16x16"])
    for height, width in ((16, 16), (37, 20), (9, 50)):
        images = images_of(2, height, width)
        given = images if layout == "nhwc" else np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        expected = conv(normalised(bilinear(images, 16, 16)))
        np.testing.assert_allclose(model.run({"x:0": given})["y"], expected, rtol=1e-4, atol=5e-4)


def test_a_model_that_takes_channels_last():
    write_model(
        "m.onnx", [node("Relu", ["x"], ["y"])], [("x", "float32", ("N", 4, 5, 3))], [("y", "float32", ("N", 4, 5, 3))]
    )
    images = images_of(2, 4, 5)
    found = built(preprocess=[f"x:nhwc,to=nhwc,{IMAGENET}"]).run({"x": images})["y"]
    expected = np.maximum(normalised(images), 0).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def graph_after_passes(*options):
    """The text of the graph."""
    tool = os.path.join(os.environ["AIPU_BUILD_DIR"], "bin", "aipugb")
    command = [tool, "m.onnx", "--stop-after", "passes", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_factors_are_in_the_weights():
    """Of what was put before the convolution, the conversion and the mean are left; no Mul, no Transpose."""
    conv_model("m.onnx")
    text = graph_after_passes("--preprocess", f"x:0:uint8,nhwc,{IMAGENET}")
    assert "= Conv(" in text and "= Cast(" in text and "= Sub(" in text
    assert "= Mul(" not in text
    assert text.count("= Transpose(") <= 1  # of the output, which the model gives as NCHW


def class_model():
    write_model(
        "m.onnx", [node("Identity", ["x"], ["y"])], [("x", "float32", ("N", 10))], [("y", "float32", ("N", 10))]
    )


def test_softmax_and_the_largest():
    class_model()
    x = RANDOM.standard_normal((4, 10)).astype(np.float32)
    softmax = np.exp(x - x.max(1, keepdims=True))
    softmax /= softmax.sum(1, keepdims=True)
    np.testing.assert_allclose(built(postprocess=["y:softmax"]).run({"x": x})["y"], softmax, rtol=1e-5)
    both = built(postprocess=["y:softmax,topk=3"]).run({"x": x})
    order = np.argsort(-x, axis=1)[:, :3]
    np.testing.assert_array_equal(both["y.indices"], order)
    np.testing.assert_allclose(both["y"], np.take_along_axis(softmax, order, 1), rtol=1e-5)
    columns = built(postprocess=["y:topk=2,axis=0"]).run({"x": x})
    np.testing.assert_array_equal(columns["y.indices"], np.argsort(-x, axis=0)[:2])


def suppressed(boxes, scores, iou, score, most):
    """NonMaxSuppression by its definition: [image, class, box]."""
    found = []
    for n, c in np.ndindex(scores.shape[:2]):
        kept = []
        for b in np.argsort(-scores[n, c], kind="stable"):
            if len(kept) == most or scores[n, c, b] <= score:
                break
            if all(overlap(boxes[n, b], boxes[n, other]) <= iou for other in kept):
                kept.append(b)
        found += [[n, c, b] for b in kept]
    return np.array(found, np.int64).reshape(-1, 3)


def overlap(a, b):
    sides = np.maximum(0, np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]))
    inner = sides.prod()
    return inner / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - inner)


def test_boxes():
    write_model(
        "m.onnx",
        [node("Identity", ["b"], ["boxes"]), node("Identity", ["s"], ["scores"])],
        [("b", "float32", ("N", 40, 4)), ("s", "float32", ("N", 2, 40))],
        [("boxes", "float32", ("N", 40, 4)), ("scores", "float32", ("N", 2, 40))],
    )
    corners = RANDOM.uniform(0, 8, (3, 40, 2))
    boxes = np.concatenate([corners, corners + RANDOM.uniform(1, 4, (3, 40, 2))], 2).astype(np.float32)
    scores = RANDOM.uniform(size=(3, 2, 40)).astype(np.float32)
    model = built(postprocess=["boxes:nms,scores=scores,iou=0.4,score=0.25,max=7"])
    assert [spec.name for spec in model.outputs] == ["boxes", "scores", "boxes.selected"]
    found = model.run({"b": boxes, "s": scores})["boxes.selected"]
    expected = suppressed(boxes, scores, 0.4, 0.25, 7)
    assert sorted(map(tuple, found)) == sorted(map(tuple, expected)) and 20 < len(expected) <= 42


def test_what_does_not_fit():
    conv_model("m.onnx")
    refused = {
        "x:0": "there is no word behind a name and a colon",
        "x:0:uint9": "there is no word behind a name and a colon",
        "x:0:uint8,mean=a": "'mean=a' is not understood",
        "x:0:uint8,std=0": "'std=0' is not understood",
        "x:0:uint8,resize=0": "'resize=0' is not understood",
        "x:0:uint8,resize=9x9x9": "'resize=9x9x9' is not understood",
        "no:uint8": "there is no input 'no'",
        "x:0:uint8,mean=1:2": "'x:0' has 3 channels; expected as many numbers",
        "x:0:uint8,resize=8x16": "resize gives 8 on axis 2",
        "x:0:uint8,to=nhwc": "expected 1 to 4 channels on axis 3; say to=nchw",
    }
    for option, message in refused.items():
        with pytest.raises((ValueError, RuntimeError), match=message):
            built(preprocess=[option])
    with pytest.raises((ValueError, RuntimeError), match="input 'x:0' is given twice"):
        built(preprocess=["x:0:uint8", "x:0:nchw"])
    with pytest.raises(TypeError, match="write preprocess="):
        built(preprocess="x:0:uint8")
    class_model()
    refused = {
        "y:topk=11": "topk|k|11",
        "y:axis=0": "nothing to do",
        "no:softmax": "there is no output 'no'",
        "y:nms": "nms needs scores=NAME",
        "y:softmax,nms,scores=y": "nms is of boxes",
        "y:softmax,scores=y": "scores is of nms",
        "y:nms,scores=y,iou=2": "'iou=2' is not understood",
        "y:nms,scores=y": "--postprocess y",
    }
    for option, message in refused.items():
        with pytest.raises((ValueError, RuntimeError), match=message):
            built(postprocess=[option])
    with pytest.raises((ValueError, RuntimeError), match="expected an image of rank 4"):
        built(preprocess=["x:uint8"])


def test_the_program():
    tool = os.path.join(os.environ["AIPU_BUILD_DIR"], "bin", "aipugb")
    class_model()

    def program(*options):
        command = [tool, "m.onnx", "-o", "p.aipu.bin", "-q", *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert program("--postprocess", "y:softmax,topk=2").returncode == 0
    assert [spec.name for spec in aipu.load("p.aipu.bin").outputs] == ["y", "y.indices"]
    bad = program("--postprocess", "y:sofmax")
    assert bad.returncode == 2 and "--postprocess y:sofmax" in bad.stderr and bad.stderr.count("\n") == 1
