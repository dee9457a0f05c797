"""Maps: outputs of ZipMap, inputs of DictVectorizer and CastMap."""

import aipu
import numpy as np
import pytest
from onnx_text import MapType, node, write_model

ML = "ai.onnx.ml"


def convert(folder, nodes, inputs, outputs):
    write_model(folder / "m.onnx", nodes, inputs, outputs, opset=21)
    return aipu.load(aipu.build(folder / "m.onnx", folder / "m.aipu.bin")["output"])


def zip_map(folder, key, shape=("N", 3), **labels):
    nodes = [node("ZipMap", ["x"], ["y"], ML, **labels)]
    return convert(folder, nodes, [("x", "float32", shape)], [("y", MapType(key, "float32", many=True), ())])


@pytest.mark.parametrize(
    "key, labels", [("object", {"classlabels_strings": ["c", "a", "b"]}), ("int64", {"classlabels_int64s": [7, -1, 3]})]
)
def test_scores_by_label(tmp_path, key, labels):
    model = zip_map(tmp_path, key, **labels)
    names = next(iter(labels.values()))
    x = np.array([[0.5, 0.25, 0.25], [0, 1, -2]], np.float32)
    assert model.run({"x": x})["y"] == [dict(zip(names, row)) for row in x.tolist()]
    assert model.run({"x": x}, ["y"])["y"][1][names[2]] == -2.0
    assert model.run({"x": x[:0]})["y"] == []
    assert [type(k) for k in model.run({"x": x})["y"][0]] == [type(names[0])] * 3


def test_one_row_of_scores(tmp_path):
    model = zip_map(tmp_path, "int64", (2,), classlabels_int64s=[0, 1])
    assert model.run({"x": np.array([0.5, 2], np.float32)})["y"] == [{0: 0.5, 1: 2.0}]


@pytest.mark.parametrize(
    "labels, message",
    [
        ({"classlabels_int64s": [0, 1]}, "has 2 labels for 3 scores"),
        ({}, "needs classlabels_strings or classlabels_int64s"),
        ({"classlabels_int64s": [0, 1, 2], "classlabels_strings": ["a", "b", "c"]}, "not both"),
    ],
)
def test_labels_that_do_not_fit(tmp_path, labels, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        zip_map(tmp_path, "int64", **labels)


def test_a_declared_type_that_is_another(tmp_path):
    nodes = [node("ZipMap", ["x"], ["y"], ML, classlabels_int64s=[0, 1])]
    with pytest.raises((RuntimeError, ValueError), match="a sequence of maps"):
        convert(tmp_path, nodes, [("x", "float32", (1, 2))], [("y", "float32", (1, 2))])


def test_maps_are_no_sequences_of_tensors(tmp_path):
    zipped = node("ZipMap", ["x"], ["m"], ML, classlabels_int64s=[0, 1])
    nodes = [zipped, node("SequenceLength", ["m"], ["y"])]
    with pytest.raises((RuntimeError, ValueError), match="'m' is a sequence of maps, a tensor is needed"):
        convert(tmp_path, nodes, [("x", "float32", (5, 2))], [("y", "int64", ())])


@pytest.mark.parametrize("value", ["float32", "int64", "float64"])
def test_vectors_of_maps(tmp_path, value):
    nodes = [node("DictVectorizer", ["x"], ["y"], ML, string_vocabulary=["c", "a", "", "b"])]
    model = convert(tmp_path, nodes, [("x", MapType("object", value), ())], [("y", value, (1, 4))])
    found = model.run({"x": {"b": 3, "unknown": 9, "c": 2, "other": 8}})["y"]
    assert found.dtype == value and found.tolist() == [[2, 0, 0, 3]]
    assert model.run({"x": {"": 1}})["y"].tolist() == [[0, 0, 1, 0]]
    assert model.run({"x": {}})["y"].tolist() == [[0, 0, 0, 0]]
    with pytest.raises(TypeError, match="input 'x': a dict is expected, found list"):
        model.run({"x": [1, 2]})


def test_vectors_of_maps_of_strings(tmp_path):
    nodes = [node("DictVectorizer", ["x"], ["y"], ML, int64_vocabulary=[5, -1])]
    model = convert(tmp_path, nodes, [("x", MapType("int64", "object"), ())], [("y", "object", (1, 2))])
    assert model.run({"x": {-1: "low", 6: "none"}})["y"].tolist() == [["", "low"]]


@pytest.mark.parametrize(
    "vocabulary, message",
    [
        ({"int64_vocabulary": [1, 2]}, "has keys of type int64, the map has string"),
        ({"string_vocabulary": ["a", "a"]}, "a key twice"),
    ],
)
def test_vocabularies_that_do_not_fit(tmp_path, vocabulary, message):
    nodes = [node("DictVectorizer", ["x"], ["y"], ML, **vocabulary)]
    with pytest.raises((RuntimeError, ValueError), match=message):
        convert(tmp_path, nodes, [("x", MapType("object", "float32"), ())], [("y", "float32", (1, 2))])


def cast_map(folder, value, to, **attributes):
    nodes = [node("CastMap", ["x"], ["y"], ML, **attributes)]
    return convert(folder, nodes, [("x", MapType("int64", value), ())], [("y", to, (1, "n"))])


def test_tensors_of_maps(tmp_path):
    model = cast_map(tmp_path, "float32", "float32")
    x = {5: 1.5, -1: 2.25, 2**40: -1e-7, 0: 4}
    found = model.run({"x": x})["y"]
    assert found.dtype == "float32" and found.tolist() == [[2.25, 4, 1.5, np.float32(-1e-7)]]
    assert model.run({"x": {3: 1}})["y"].tolist() == [[1]]
    assert model.run({"x": {}})["y"].shape == (1, 0)


def test_tensors_of_maps_of_other_types(tmp_path):
    model = cast_map(tmp_path, "float32", "int64", cast_to="TO_INT64", map_form="DENSE")
    assert model.run({"x": {2: -2.75, 1: 7}})["y"].tolist() == [[7, -2]]
    model = cast_map(tmp_path, "object", "float32", cast_to="TO_FLOAT")
    assert model.run({"x": {2: "1.5", 1: "-7e2"}})["y"].tolist() == [[-700, 1.5]]
    with pytest.raises(ValueError, match="abc"):
        model.run({"x": {1: "abc"}})


def test_maps_whose_keys_are_places(tmp_path):
    model = cast_map(tmp_path, "float32", "float32", map_form="SPARSE", max_map=4)
    assert model.run({"x": {3: 1.5, 0: 2}})["y"].tolist() == [[2, 0, 0, 1.5]]
    for outside in (4, -1):
        with pytest.raises(ValueError, match=f"{outside}"):
            model.run({"x": {outside: 1}})
    model = cast_map(tmp_path, "object", "object", cast_to="TO_STRING", map_form="SPARSE", max_map=2)
    assert model.run({"x": {1: "b"}})["y"].tolist() == [["", "b"]]


@pytest.mark.parametrize(
    "attributes, message",
    [
        ({"cast_to": "TO_INT32"}, "cast_to 'TO_INT32' is none of"),
        ({"map_form": "dense"}, "map_form 'dense' is neither"),
        ({"map_form": "SPARSE", "max_map": 0}, "max_map is 0"),
    ],
)
def test_casts_of_maps_that_there_are_not(tmp_path, attributes, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        cast_map(tmp_path, "float32", "float32", **attributes)


def test_a_classifier_with_names_as_sklearn_exports_it(tmp_path):
    """Labels, and maps of probabilities."""
    attributes = {
        "coefficients": [1.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        "intercepts": [0.0, 0.0, 0.5],
        "classlabels_strings": ["p", "q", "r"],
        "post_transform": "SOFTMAX",
    }
    nodes = [
        node("LinearClassifier", ["x"], ["output_label", "scores"], ML, **attributes),
        node("Normalizer", ["scores"], ["probabilities"], ML, norm="L1"),
        node("ZipMap", ["probabilities"], ["output_probability"], ML, classlabels_strings=["p", "q", "r"]),
    ]
    outputs = [("output_label", "object", ("N",)), ("output_probability", MapType("object", "float32", many=True), ())]
    model = convert(tmp_path, nodes, [("x", "float32", ("N", 2))], outputs)
    x = np.array([[3, 0], [0, 2], [-1, -1]], np.float32)
    found = model.run({"x": x})
    assert list(found) == ["output_label", "output_probability"] and found["output_label"].tolist() == ["p", "q", "r"]
    scores = np.exp(np.concatenate([x, np.full((3, 1), 0.5, np.float32)], 1))
    expected = scores / scores.sum(1, keepdims=True)
    for row, maps in zip(expected, found["output_probability"]):
        assert list(maps) == ["p", "q", "r"]
        np.testing.assert_allclose(list(maps.values()), row, rtol=1e-5)
