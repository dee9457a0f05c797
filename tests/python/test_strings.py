"""Tensors of strings: into a model, through operators that move, compare and look into them, and out again."""

import os
import shutil
import subprocess
from pathlib import Path

import aipu
import numpy as np
import pytest
from onnx_family import Family
from onnx_text import element_type, node, write_model

BUILD = Path(os.environ["AIPU_BUILD_DIR"])

WORDS = ["", "a", "zebra", "Straße", "日本", "a b\tc", "x" * 300, "\N{GREEK SMALL LETTER ALPHA}"]


def texts(values, *shape):
    array = np.array(values, object)
    return array.reshape(shape) if shape else array


@pytest.fixture
def random():
    return np.random.default_rng(5)


def some(random, *shape):
    return texts(random.choice(np.array(WORDS, object), shape))


def convert(folder, nodes, inputs, outputs, constants=None, **options):
    write_model(folder / "m.onnx", nodes, inputs, outputs, constants, opset=21)
    return aipu.load(aipu.build(folder / "m.onnx", folder / "m.aipu.bin", **options)["output"])


def moves(random):
    family = Family(opset=21)
    x, y = some(random, 3, 4), some(random, 3, 4)
    take = np.array([2, 0, 2], np.int64)
    family.add("Gather", [x, take], x[take])
    family.add("Concat", [x, y], np.concatenate([x, y], 1), axis=1)
    family.add("Reshape", [x, np.array([2, -1], np.int64)], x.reshape(2, 6), constants=[1])
    family.add("Transpose", [x], x.T, perm=[1, 0])
    condition = random.random((3, 4)) < 0.5
    family.add("Where", [condition, x, y], np.where(condition, x, y))
    family.add("Where", [condition, x, texts("other")], np.where(condition, x, "other"), constants=[2])
    family.add("Equal", [x, y], x == y)
    family.add("Equal", [x, texts("zebra")], x == "zebra", constants=[1])
    family.add("Slice", [x, *np.array([[1], [3], [1]], np.int64)], x[:, 1:3], constants=[1, 2, 3])
    family.add("Expand", [x[:, :1], np.array([3, 5], np.int64)], np.broadcast_to(x[:, :1], (3, 5)), constants=[1])
    family.add("Tile", [x, np.array([1, 2], np.int64)], np.tile(x, (1, 2)), constants=[1])
    family.add("Unsqueeze", [x, np.array([0], np.int64)], x[None], constants=[1])
    family.add("Identity", [x], x)
    padded = np.pad(x, ((0, 0), (1, 1)), constant_values="")
    family.add("Pad", [x, np.array([0, 1, 0, 1], np.int64)], padded, constants=[1])
    scattered = x.copy()
    scattered[[0, 2]] = y[:2]
    family.add("ScatterND", [x, np.array([[0], [2]], np.int64), y[:2]], scattered, constants=[1])
    family.add("Compress", [x, np.array([True, False, True])], x[[0, 2]], axis=0)
    return family


@pytest.mark.parametrize(
    "backend, target", [(None, "host"), ("interp", "host"), (None, "X2_1204"), (None, "X2_1204+host")]
)
def test_moves_and_comparisons(tmp_path, random, backend, target):
    moves(random).check(tmp_path, backend, target=target)


def test_arrays_of_all_kinds(tmp_path):
    model = convert(tmp_path, [node("Identity", ["x"], ["y"])], [("x", "object", ("N",))], [("y", "object", ("N",))])
    assert model.inputs[0].dtype == "string"
    found = model.run({"x": texts(WORDS)})["y"]
    assert found.dtype == object and list(found) == WORDS
    assert list(model.run({"x": np.array(["ab", "c"])})["y"]) == ["ab", "c"]
    assert list(model.run({"x": np.array([b"ab", b"c"])})["y"]) == ["ab", "c"]
    assert list(model.run({"x": ["ab", "c"]})["y"]) == ["ab", "c"]
    assert list(model.run({"x": texts(["a\0b", b"\xff"])})["y"]) == ["a\0b", "\udcff"]
    assert model.run({"x": texts([])})["y"].shape == (0,)
    if hasattr(getattr(np, "dtypes", None), "StringDType"):
        assert list(model.run({"x": np.array(["ab", "c"], np.dtypes.StringDType())})["y"]) == ["ab", "c"]
    with pytest.raises(ValueError, match="expected strings, found an array of dtype float64"):
        model.run({"x": np.zeros(2)})
    with pytest.raises(ValueError, match="expected strings, found an element int"):
        model.run({"x": texts(["a", 1])})
    with pytest.raises(ValueError, match="strings are returned"):
        model.run({"x": texts(["a"])}, {"y": texts(["a"])})


def test_sessions_keep_no_strings(tmp_path):
    nodes = [node("StringConcat", ["x", "x"], ["y"])]
    model = convert(tmp_path, nodes, [("x", "object", ("N",))], [("y", "object", ("N",))])
    session = model.session(threads=1)
    for turn in range(20):
        x = texts([f"{turn}-{k}" for k in range(50)])
        assert list(session.run({"x": x})["y"]) == [2 * text for text in x]
    runs = [session.submit({"x": texts([f"{k}", "b"])}) for k in range(5)]
    assert [list(run.result()["y"]) for run in runs] == [[2 * str(k), "bb"] for k in range(5)]
    session.close()


def test_limits_count_strings(tmp_path):
    nodes = [node("StringConcat", ["x", "x"], ["y"])]
    write_model(tmp_path / "m.onnx", nodes, [("x", "object", ("N",))], [("y", "object", ("N",))], opset=21)
    path = aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"]
    model = aipu.load(path, limits=aipu.Limits(run_memory=1 << 20))
    assert list(model.run({"x": texts(["a"])})["y"]) == ["aa"]
    with pytest.raises((ValueError, RuntimeError, MemoryError), match="limit is 1048576"):
        model.run({"x": texts(["a" * (1 << 20)])})
    assert list(model.run({"x": texts(["b"])})["y"]) == ["bb"]


NUMBERS = {
    "float32": (["0.5", "-1e-07", "1000000", "1e+10", "0.1", "NaN", "INF", "-INF", "16777217"], None),
    "float64": (["0.1", "123456789.125", "1e+300", "-0", "5e-324"], None),
    "int64": (["0", "-9223372036854775808", "9223372036854775807"], None),
    "uint64": (["18446744073709551615", "7"], None),
    "int8": (["-128", "127"], None),
    "bool": (["1", "0"], None),
}


@pytest.mark.parametrize("dtype", NUMBERS)
def test_casts(tmp_path, dtype):
    family = Family(opset=21)
    given = NUMBERS[dtype][0]
    numbers = (
        np.array([t == "1" for t in given]) if dtype == "bool" else np.array([np.dtype(dtype).type(t) for t in given])
    )
    family.add("Cast", [texts(given)], numbers, tolerance=0, to=element_type(dtype))
    written = ["16777216" if t == "16777217" else t for t in given]
    family.add("Cast", [numbers], texts(written), to=element_type("object"))
    family.add("CastLike", [numbers, texts(["x"])], texts(written), constants=[1])
    family.check(tmp_path)


def test_outputs_that_are_constant(tmp_path):
    nodes = [node("Equal", ["x", "words"], ["same"]), node("Identity", ["words"], ["y"])]
    outputs = [("same", "bool", (2,)), ("y", "object", (2,))]
    words = texts(["a", "b"])
    write_model(tmp_path / "m.onnx", nodes, [("x", "object", (2,))], outputs, {"words": words}, opset=21)
    found = aipu.load(aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"]).run({"x": texts(["a", "c"])})
    assert found["same"].tolist() == [True, False] and found["y"].tolist() == ["a", "b"]


def test_casts_of_halves(tmp_path):
    family = Family(opset=21)
    halves = np.array([0.1, 1 / 3, 65504, -0.0, 6e-8], np.float16)
    family.add("Cast", [halves], texts(["0.1", "0.3333", "65500", "-0", "6e-08"]), to=element_type("object"))
    family.add("Cast", [texts([" +0.1 ", "1e9"])], np.array([0.1, np.inf], np.float16), to=element_type("float16"))
    family.check(tmp_path)


@pytest.mark.parametrize("text", ["", "a", "1.5", "300", "1 2", "0x10"])
def test_what_is_no_number_is_an_error(tmp_path, text):
    nodes = [node("Cast", ["x"], ["y"], to=element_type("int8"))]
    model = convert(tmp_path, nodes, [("x", "object", (2,))], [("y", "int8", (2,))])
    with pytest.raises(ValueError, match=f"'y_node' \\(Cast\\): '{text}' is no int8"):
        model.run({"x": texts(["1", text])})
    assert list(model.run({"x": texts(["1", "-2"])})["y"]) == [1, -2]


def test_concatenation(tmp_path, random):
    family = Family(opset=21)
    x, y = some(random, 3, 4), some(random, 4)
    family.add("StringConcat", [x, x[::-1]], x + x[::-1])
    family.add("StringConcat", [x, y], x + y)
    family.add("StringConcat", [x[:, :1], y], x[:, :1] + y)
    family.add("StringConcat", [x, texts("!")], x + "!", constants=[1])
    family.add("StringConcat", [texts(["a"]), texts(["b"])], texts(["ab"]), constants=[0, 1])
    family.check(tmp_path)


def split(values, delimiter, most):
    rows = [text.split(delimiter or None, -1 if most is None else most) for text in values.ravel()]
    width = max((len(row) for row in rows), default=0)
    table = texts([part for row in rows for part in row + [""] * (width - len(row))], *values.shape, width)
    return [table, np.array([len(row) for row in rows], np.int64).reshape(values.shape)]


def test_splitting(tmp_path):
    family = Family(opset=21)
    x = texts(["  a b  c ", "", "a,b,,c", ",", "日本\u3000語 x", " "], 2, 3)
    for delimiter in [None, "", ",", "b", ", ", "日"]:
        for most in [None, 0, 1, 2]:
            if delimiter is None and most is None:
                family.add("StringSplit", [x], split(x, None, None))
            else:
                attributes = {"delimiter": delimiter} if delimiter is not None else {}
                attributes.update({"maxsplit": most} if most is not None else {})
                family.add("StringSplit", [x], split(x, delimiter, most), **attributes)
    family.check(tmp_path)


def test_splitting_of_no_strings(tmp_path):
    nodes = [node("StringSplit", ["x"], ["y", "n"])]
    outputs = [("y", "object", ("N", "M")), ("n", "int64", ("N",))]
    model = convert(tmp_path, nodes, [("x", "object", ("N",))], outputs)
    found = model.run({"x": texts([])})
    assert found["y"].shape == (0, 0) and found["n"].shape == (0,)
    assert model.run({"x": texts(["a b", "c"])})["y"].tolist() == [["a", "b"], ["c", ""]]


def test_normalizing(tmp_path):
    family = Family(opset=21)
    x = texts(["Monday", "tuesday", "Straße", "MONDAY", "ΑΣ"])
    family.add("StringNormalizer", [x], x)
    family.add("StringNormalizer", [x], texts([t.lower() for t in x]), case_change_action="LOWER")
    family.add("StringNormalizer", [x], texts([t.upper() for t in x]), case_change_action="UPPER")
    family.add("StringNormalizer", [x], x[[1, 2, 4]], stopwords=["monday"])
    family.add("StringNormalizer", [x], x[[1, 2, 3, 4]], stopwords=["Monday"], is_case_sensitive=1)
    upper = texts([t.upper() for t in x[[2, 4]]], 1, 2)
    kept = {"stopwords": ["MONDAY", "Tuesday"], "case_change_action": "UPPER"}
    family.add("StringNormalizer", [x[None]], upper, **kept)
    family.add("StringNormalizer", [x[:1]], texts([""]), stopwords=["monday"])
    family.add("StringNormalizer", [x[None, :1]], texts([""], 1, 1), stopwords=["monday"])
    turkish = texts(["I", "i"])
    family.add("StringNormalizer", [turkish], texts(["ı", "i"]), case_change_action="LOWER", locale="tr_TR")
    family.check(tmp_path)


def test_regular_expressions(tmp_path):
    family = Family(opset=21)
    x = texts(["www.google.com", "account@gmail.com", "", "日本"], 2, 2)
    family.add("RegexFullMatch", [x], np.array([[True, False], [False, False]]), pattern=r"www\.[\w.-]+\.\bcom\b")
    family.add("RegexFullMatch", [x], np.array([[False, True], [False, False]]), pattern=r".*@.*")
    family.add("RegexFullMatch", [x], np.array([[False, False], [False, True]]), pattern=r"\p{Han}{2}")
    family.check(tmp_path)


def test_tokens(tmp_path):
    family = Family(opset=17, domain="com.microsoft")
    x = texts(["the quick  fox", "日本 x", ""], 3)
    fixed = {"pad_value": "#", "mark": 0, "mincharnum": 1}
    words = texts(["the", "quick", "fox", "日本", "x", "#", "#", "#", "#"], 3, 3)
    family.add("Tokenizer", [x], words, tokenexp=r"[\w\p{Han}]+", **fixed)
    family.add("Tokenizer", [x], words, separators=[" "], **fixed)
    long = texts(["the", "quick", "fox", "日本", "#", "#", "#", "#", "#"], 3, 3)
    family.add("Tokenizer", [x], long, tokenexp=r"[\w\p{Han}]+", **{**fixed, "mincharnum": 2})
    marked = texts(["\x02", "日", "本", " ", "x", "\x03", "\x02", "\x03", "", "", "", ""], 1, 2, 6)
    family.add("Tokenizer", [x[None, 1:]], marked, separators=[""], pad_value="", mark=1, mincharnum=1)
    y = texts(["a,b;;c"], 1)
    family.add("Tokenizer", [y], texts(["a", "b", "c"], 1, 3), separators=[",", ";"], **fixed)
    family.add("Tokenizer", [y], texts(["a,b", "c"], 1, 2), separators=[";+"], **fixed)
    longest = texts(["ab"], 1)
    family.add("Tokenizer", [longest], texts(["ab"], 1, 1), tokenexp="a|ab", **fixed)
    family.check(tmp_path)


def test_hashes(tmp_path):
    family = Family(opset=17, domain="com.microsoft")
    known = {"aaaa": 0x5A97808A, "aaa": 0x283E0130, "aa": 0x5D211726, "a": 0x7FA09EA6, "": 0xEBB6C228,
             "abc": 0xC84A62DD, "Hello, world!": 0x24884CBA}  # fmt: skip
    seed = 0x9747B28C - 2**32
    hashes = np.array(list(known.values()), np.uint32)
    family.add("MurmurHash3", [texts(list(known), len(known))], hashes, seed=seed)
    family.add("MurmurHash3", [texts(list(known), len(known))], hashes.view(np.int32), seed=seed, positive=0)
    zero = [texts(["", "hello"], 2)]
    family.add("MurmurHash3", zero, np.array([0, 0x248BFA47], np.uint32))
    family.check(tmp_path)


def test_hashes_of_numbers_are_those_of_their_bytes(tmp_path):
    nodes, operands, pairs = [], {"short": np.array(["aX9-"], object), "long": np.array(["aX9-bY8."], object)}, []
    for like, dtypes in {"short": ["int32", "uint32", "float32"], "long": ["int64", "uint64", "float64"]}.items():
        nodes.append(node("MurmurHash3", [like], [f"hash_{like}"], "com.microsoft", seed=5))
        for dtype in dtypes:
            operands[dtype] = np.frombuffer(operands[like][0].encode(), dtype)
            nodes.append(node("MurmurHash3", [dtype], [f"hash_{dtype}"], "com.microsoft", seed=5))
            pairs.append((f"hash_{dtype}", f"hash_{like}"))
    inputs = [(name, str(array.dtype), array.shape) for name, array in operands.items()]
    outputs = [(f"hash_{name}", "uint32", (1,)) for name in operands]
    found = convert(tmp_path, nodes, inputs, outputs).run(operands)
    assert found["hash_short"] != found["hash_long"]
    for numbers, string in pairs:
        assert found[numbers] == found[string], numbers


def test_patterns_that_are_none(tmp_path):
    nodes = [node("RegexFullMatch", ["x"], ["y"], pattern="(")]
    with pytest.raises((RuntimeError, ValueError), match=r"RE2 does not take the pattern '\('"):
        convert(tmp_path, nodes, [("x", "object", (2,))], [("y", "bool", (2,))])


def test_labels(tmp_path):
    family = Family(opset=21, domain="ai.onnx.ml")
    x = texts(["b", "a", "?", "", "b"])
    keys = {"keys_strings": ["a", "b", ""]}
    family.add("LabelEncoder", [x], np.array([5, 4, -1, 6, 5]), values_int64s=[4, 5, 6], **keys)
    family.add(
        "LabelEncoder",
        [x],
        texts(["B", "A", "none", "e", "B"]),
        values_strings=["A", "B", "e"],
        default_string="none",
        **keys,
    )
    numbers = np.array([3, 1, 2], np.int64)
    family.add("LabelEncoder", [numbers], texts(["c", "_Unused", "b"]), keys_int64s=[2, 3], values_strings=["b", "c"])
    reals = np.array([0.5, 1], np.float32)
    family.add("LabelEncoder", [reals], texts(["half", "_Unused"]), keys_floats=[0.5], values_strings=["half"])
    cats = {"cats_strings": ["a", "b"], "cats_int64s": [7, 9]}
    family.add("CategoryMapper", [x], np.array([9, 7, -1, -1, 9]), **cats)
    family.add("CategoryMapper", [numbers + 6], texts(["b", "a", "?"]), default_string="?", **cats)
    one = np.array([[0, 1], [1, 0], [0, 0], [0, 0], [0, 1]], np.float32)
    family.add("OneHotEncoder", [x], one, cats_strings=["a", "b"], zeros=1)
    family.add("ArrayFeatureExtractor", [x[None], np.array([[1, 3]], np.int64)], texts([["a", ""]]))
    family.check(tmp_path)


def test_class_labels(tmp_path):
    family = Family(opset=21, domain="ai.onnx.ml")
    x = np.array([[1.0, -2.0], [-1.0, 3.0]], np.float32)
    two = {"coefficients": [-1.0, 0.0, 1.0, 0.0], "intercepts": [0.0, 0.0], "classlabels_strings": ["no", "yes"]}
    family.add("LinearClassifier", [x], [texts(["yes", "no"]), None], **two)
    three = {"coefficients": [1.0, 0.0, 0.0, 1.0, 0.0, 0.0], "intercepts": [0.0, 0.0, 0.5]}
    family.add("LinearClassifier", [x], [texts(["p", "q"]), None], classlabels_strings=["p", "q", "r"], **three)
    trees = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
        "class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [0, 2], "class_weights": [1.0, 1.0],
        "classlabels_strings": ["low", "middle", "high"],
    }  # fmt: skip
    family.add("TreeEnsembleClassifier", [x], [texts(["high", "low"]), None], **trees)
    family.check(tmp_path)


def test_counts_of_grams(tmp_path):
    family = Family(opset=21)
    x = texts(["the", "cat", "the", "cat", "?"])
    grams = {
        "mode": "TF",
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 0,
        "ngram_counts": [0, 2],
        "ngram_indexes": [0, 1, 2],
        "pool_strings": ["the", "cat", "the", "cat"],
    }
    family.add("TfIdfVectorizer", [x], np.array([2, 2, 2], np.float32), **grams)
    family.check(tmp_path)


def test_strings_through_control_flow(tmp_path):
    """Branches and states of loops hold strings as any other elements; tests of the importer have the sub-graphs."""
    nodes = [node("Equal", ["x", "key"], ["same"]), node("Where", ["same", "x", "other"], ["y"])]
    model = convert(
        tmp_path,
        nodes,
        [("x", "object", ("N",)), ("key", "object", (1,))],
        [("y", "object", ("N",))],
        {"other": texts(["-"])},
    )
    assert list(model.run({"x": texts(["a", "b", "a"]), "key": texts(["a"])})["y"]) == ["a", "-", "a"]


def test_what_has_no_order_is_refused(tmp_path):
    nodes = [node("Less", ["x", "x"], ["y"])]
    with pytest.raises((RuntimeError, ValueError), match="may not be string"):
        convert(tmp_path, nodes, [("x", "object", (2,))], [("y", "bool", (2,))])


@pytest.mark.parametrize("op", ["Identity", "StringConcat", "Cast"])
def test_sandboxes_refuse_strings(tmp_path, op):
    if op == "Cast":  # strings within the model only
        nodes = [
            node("Cast", ["x"], ["t"], to=element_type("object")),
            node("Cast", ["t"], ["y"], to=element_type("float32")),
        ]
    else:
        nodes = [node(op, ["x"] if op == "Identity" else ["x", "x"], ["y"])]
    dtype = "float32" if op == "Cast" else "object"
    write_model(tmp_path / "m.onnx", nodes, [("x", dtype, (2,))], [("y", dtype, (2,))], opset=21)
    path = aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"]
    with pytest.raises((RuntimeError, ValueError), match="has strings, which a sandbox does not pass on"):
        aipu.load(path, sandbox=True)


def test_strings_of_constants_alone_run_in_a_sandbox(tmp_path):
    nodes = [node("Gather", ["words", "i"], ["word"]), node("Equal", ["word", "key"], ["y"])]
    constants = {"words": texts(["a", "b"]), "key": texts(["b"])}
    write_model(tmp_path / "m.onnx", nodes, [("i", "int64", (3,))], [("y", "bool", (3,))], constants, opset=21)
    path = aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"]
    i = np.array([1, 0, 1], np.int64)
    assert aipu.load(path, sandbox=True).run({"i": i})["y"].tolist() == [True, False, True]


def aipurun(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True)


@pytest.fixture
def shouting(tmp_path):
    """A model that writes its input in capitals, with " world" behind."""
    nodes = [
        node("StringConcat", ["x", "world"], ["c"]),
        node("StringNormalizer", ["c"], ["y"], case_change_action="UPPER"),
    ]
    text = [("x", "object", ("N",))], [("y", "object", ("N",))]
    write_model(tmp_path / "m.onnx", nodes, *text, {"world": texts([" world"])}, opset=21)
    return aipu.build(tmp_path / "m.onnx", tmp_path / "m.aipu.bin")["output"]


@pytest.mark.parametrize("kind", ["U", "S"])
def test_files_of_strings(tmp_path, shouting, kind):
    np.save(tmp_path / "x.npy", np.array(["hello", "", "a longer one"], kind))
    np.save(tmp_path / "y.npy", np.array(["HELLO WORLD", " WORLD", "A LONGER ONE WORLD"]))
    np.save(tmp_path / "other.npy", np.array(["HELLO WORLD", " WORLD", "A LONGER ONE"]))
    common = [BUILD / "bin/aipurun", shouting, "--input", f"x={tmp_path}/x.npy", "--output-dir", tmp_path / "out"]
    assert aipurun(*common, "--expect", f"y={tmp_path}/y.npy").returncode == 0
    assert np.load(tmp_path / "out/y.npy").tolist() == ["HELLO WORLD", " WORLD", "A LONGER ONE WORLD"]
    wrong = aipurun(*common, "--expect", f"y={tmp_path}/other.npy")
    assert (
        wrong.returncode == 1 and "expected 'A LONGER ONE', found 'A LONGER ONE WORLD'" in wrong.stdout + wrong.stderr
    )
    random = aipurun(BUILD / "bin/aipurun", shouting, "--random")
    assert random.returncode == 1 and "there are no random strings" in random.stderr


def test_without_the_library_of_strings(tmp_path, shouting):
    """It is looked for beside the runtime, which is in the program here."""
    (tmp_path / "lib").mkdir()
    shutil.copy(BUILD / "bin/aipurun", tmp_path / "lib/aipurun")
    shutil.copy(BUILD / "lib/libaipu_backend_host.so", tmp_path / "lib")
    np.save(tmp_path / "x.npy", np.array(["hello"]))
    command = [tmp_path / "lib/aipurun", shouting, "--input", f"x={tmp_path}/x.npy"]
    refused = aipurun(*command)
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    assert "operations on strings need libaipu_text.so, which was not installed" in refused.stderr
    shutil.copy(BUILD / "lib/libaipu_text.so", tmp_path / "lib")
    assert "HELLO WORLD" in aipurun(*command).stdout


def test_dumps_of_strings(shouting):
    dump = subprocess.run([BUILD / "bin/aipudump", shouting, "--commands"], capture_output=True, text=True, check=True)
    assert 'text ChangeCase(t4:c, "UPPER", "en_US")' in dump.stdout
