"""Operators of the domain ai.onnx.ml, against NumPy, and against ONNX Runtime where it is installed."""

import math

import aipu
import numpy as np
import pytest
from onnx_family import Family, sigmoid, softmax
from onnx_text import node, write_model

F32 = np.float32
TRANSFORMS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"]
COMPARISONS = {
    "BRANCH_LEQ": lambda x, t: x <= t,
    "BRANCH_LT": lambda x, t: x < t,
    "BRANCH_GTE": lambda x, t: x >= t,
    "BRANCH_GT": lambda x, t: x > t,
    "BRANCH_EQ": lambda x, t: x == t,
    "BRANCH_NEQ": lambda x, t: x != t,
}


@pytest.fixture
def random():
    return np.random.default_rng(17)


@pytest.fixture
def family():
    return Family(opset=17, domain="ai.onnx.ml")


class Forest:
    """Random trees: a branch is (feature, mode, threshold, missing, true, false), a leaf a dict of weights."""

    thresholds = (-1, -0.0, 0.5, 1, 2)

    def __init__(self, random, trees, depth, features, targets, modes, missing=False, most=None):
        self.most = most or targets  # weights of a leaf
        self.random, self.features, self.modes, self.missing = random, features, modes, missing
        self.targets, self.every = targets, targets
        self.trees = [self.make(depth, depth, t) for t in range(trees)]

    def make(self, depth, whole, tree):
        if depth == 0 or (depth < whole and self.random.random() < 0.25):
            few = self.random.integers(1, self.most + 1)
            chosen = self.random.permutation(self.targets)[:few]
            return {int(k): float(F32(self.random.standard_normal())) for k in chosen}
        threshold = float(F32(self.random.choice(self.thresholds)))
        mode = self.modes[self.random.integers(len(self.modes))]
        missing = bool(self.missing and self.random.random() < 0.5)
        children = [self.make(depth - 1, whole, tree) for _ in range(2)]
        return (int(self.random.integers(self.features)), mode, threshold, missing, *children)

    def leaf(self, tree, row):
        while not isinstance(tree, dict):
            feature, mode, threshold, missing, yes, no = tree
            x = row[feature]
            tree = yes if COMPARISONS[mode](x, threshold) or (missing and math.isnan(x)) else no
        return tree

    def weights(self, x):
        """For each row and target the weights that the trees give, in order."""
        found = [[[] for _ in range(self.targets)] for _ in x]
        for row, lists in zip(x, found):
            for tree in self.trees:
                for target, weight in self.leaf(tree, row).items():
                    lists[target].append(weight)
        return found

    def attributes(self, prefix):
        names = ["treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids"]
        names.append("missing_value_tracks_true")
        nodes = {f"nodes_{name}": [] for name in names}
        leaves = {f"{prefix}_{name}": [] for name in ["treeids", "nodeids", "ids", "weights"]}

        def add(number, tree, free):
            """Adds the tree as node ``free``; returns the next free number."""
            at = len(nodes["nodes_treeids"])
            is_leaf = isinstance(tree, dict)
            values = (0, "LEAF", 0.0, False) if is_leaf else tree[:4]
            row = [number, free, values[0], values[1], values[2], 0, 0, int(values[3])]
            for name, value in zip(names, row):
                nodes[f"nodes_{name}"].append(value)
            if is_leaf:
                for target, weight in tree.items():
                    for name, value in zip(["treeids", "nodeids", "ids", "weights"], [number, free, target, weight]):
                        leaves[f"{prefix}_{name}"].append(value)
                return free + 1
            nodes["nodes_truenodeids"][at] = free + 1
            second = add(number, tree[4], free + 1)
            nodes["nodes_falsenodeids"][at] = second
            return add(number, tree[5], second)

        for number, tree in enumerate(self.trees):
            add(number, tree, 0)
        return nodes | leaves


def rows(random, count, features, missing=False):
    x = random.choice([-1, -0.0, 0.25, 0.5, 1, 2, 3], (count, features)).astype(F32)
    if missing:
        x[random.random(x.shape) < 0.2] = np.nan
    return x


@pytest.mark.parametrize("mode", [*COMPARISONS, "mixed"])
def test_comparisons(tmp_path, random, family, mode):
    """Every comparison, with NaN that goes either way; fewer rows than are walked at a time, and more."""
    modes = list(COMPARISONS) if mode == "mixed" else [mode]
    for count in (1, 7, 8, 21):
        forest = Forest(random, 5, 4, 3, 1, modes, missing=count != 8)
        x = rows(random, count, 3, missing=True)
        sums = np.array([[sum(w) for w in lists] for lists in forest.weights(x)], F32)
        family.add("TreeEnsembleRegressor", [x], sums, n_targets=1, **forest.attributes("target"))
    family.check(tmp_path)


def test_sets_of_categories(tmp_path, random, family):
    """As LightGBM's are written: equalities one behind the other, which share a branch where they hold."""
    x = random.integers(0, 6, (21, 2)).astype(F32)
    # node 4: is feature 1 above 2?; the others lead to it for categories 1, 3 and 4 of feature 0
    nodes = {"featureids": [0, 0, 0, 0, 1, 0, 0], "modes": ["BRANCH_EQ"] * 3 + ["LEAF", "BRANCH_GT", "LEAF", "LEAF"]}
    nodes |= {"values": [1.0, 3.0, 4.0, 0.0, 2.0, 0.0, 0.0], "truenodeids": [4, 4, 4, 0, 5, 0, 0]}
    nodes |= {"falsenodeids": [1, 2, 3, 0, 6, 0, 0], "treeids": [0] * 7, "nodeids": list(range(7))}
    nodes = {f"nodes_{name}": values for name, values in nodes.items()}
    leaves = {"target_treeids": [0] * 3, "target_nodeids": [3, 5, 6], "target_ids": [0] * 3}
    leaves["target_weights"] = [1.0, 10.0, 100.0]
    found = np.where(np.isin(x[:, 0], [1, 3, 4]), np.where(x[:, 1] > 2, 10, 100), 1)[:, None].astype(F32)
    family.add("TreeEnsembleRegressor", [x], found, n_targets=1, **nodes, **leaves)
    family.check(tmp_path)


class ExtremeForest(Forest):
    thresholds = (-np.inf, np.inf, np.nan, 1)


@pytest.mark.parametrize("features", [3, 500])  # of rows that are copied, and of rows that are wider than trees look
@pytest.mark.parametrize("mode", [*COMPARISONS, "mixed"])
def test_missing_values_and_extreme_thresholds(tmp_path, random, family, mode, features):
    modes = list(COMPARISONS) if mode == "mixed" else [mode]
    for count in (1, 19):
        forest = ExtremeForest(random, 5, 4, features, 2 if count > 1 else 1, modes, missing=True)
        x = random.choice([-np.inf, -1, 1, 2, np.inf, np.nan], (count, features)).astype(F32)
        sums = np.array([[sum(w) for w in lists] for lists in forest.weights(x)], F32)
        family.add("TreeEnsembleRegressor", [x], sums, n_targets=sums.shape[1], **forest.attributes("target"))
    for target in ("host", "X2_1204") if mode == "mixed" else ("host",):
        family.check(tmp_path, target=target)


@pytest.mark.parametrize("function", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_aggregates(tmp_path, random, family, function):
    kinds = {"SUM": sum, "AVERAGE": lambda w: sum(w) / 6, "MIN": min, "MAX": max}
    for count in (3, 19):
        for targets in (1, 3):
            forest = Forest(random, 6, 3, 4, targets, ["BRANCH_LEQ"])
            x = rows(random, count, 4)
            y = np.array([[kinds[function](w) if w else 0 for w in lists] for lists in forest.weights(x)], F32)
            base = [0.5, -1.0, 2.0][:targets]
            attributes = forest.attributes("target") | {"aggregate_function": function, "base_values": base}
            family.add("TreeEnsembleRegressor", [x], y + np.array(base, F32), n_targets=targets, **attributes)
    family.check(tmp_path)


@pytest.mark.parametrize("function, expected", [("SUM", [1, 5]), ("MIN", [-2, 5]), ("MAX", [3, 5])])
def test_leaves_that_name_their_target_twice_or_not_at_all(tmp_path, family, function, expected):
    """Two trees: x <= 0 gives 3 and -2, else nothing; x <= 0 nothing, else 5."""
    tree = {
        "nodes_treeids": [0, 0, 0, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 0, 1, 2],
        "nodes_featureids": [0] * 6,
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"] * 2,
        "nodes_values": [0.0] * 6,
        "nodes_truenodeids": [1, 0, 0] * 2,
        "nodes_falsenodeids": [2, 0, 0] * 2,
        "target_treeids": [0, 0, 1],
        "target_nodeids": [1, 1, 2],
        "target_ids": [0, 0, 0],
        "target_weights": [3.0, -2.0, 5.0],
    }
    x = np.array([[-1], [1]], F32)
    y = np.array(expected, F32)[:, None]
    family.add("TreeEnsembleRegressor", [x], y, n_targets=1, aggregate_function=function, **tree)
    family.check(tmp_path)


@pytest.mark.parametrize(("targets", "most"), [(1, 1), (3, 1), (3, 3)])  # of a leaf
def test_number_of_rows_does_not_change_a_row(tmp_path, random, targets, most):
    """Trees that fill several blocks of the cache; rows one by one, and all at once."""
    forest = Forest(random, 300, 8, 6, targets, ["BRANCH_LEQ"], most=most)
    x = random.standard_normal((37, 6)).astype(F32)
    attributes = forest.attributes("target")
    regressor = node("TreeEnsembleRegressor", ["x"], ["y"], "ai.onnx.ml", n_targets=targets, **attributes)
    path = tmp_path / "many.onnx"
    write_model(path, [regressor], [("x", "float32", ["N", 6])], [("y", "float32", ["N", targets])])
    model = aipu.load(aipu.build(path, tmp_path / "many.aipu.bin")["output"])
    together = model.run({"x": x})["y"]
    alone = np.concatenate([model.run({"x": row[None]})["y"] for row in x])
    np.testing.assert_array_equal(together, alone)
    sums = np.array([[sum(w) for w in lists] for lists in forest.weights(x)])
    np.testing.assert_allclose(together, sums, rtol=1e-4, atol=1e-4)


def test_classifier_of_three(tmp_path, random, family):
    forest = Forest(random, 9, 4, 5, 3, ["BRANCH_LEQ", "BRANCH_GT"])
    x = rows(random, 11, 5)
    base = np.array([0.25, -0.5, 0.125], F32)
    scores = np.array([[sum(w) for w in lists] for lists in forest.weights(x)], F32) + base
    labels = np.array([10, 30, 20])
    attributes = forest.attributes("class") | {"classlabels_int64s": labels.tolist(), "base_values": base.tolist()}
    for transform, expected in (("NONE", scores), ("LOGISTIC", sigmoid(scores)), ("SOFTMAX", softmax(scores))):
        results = [labels[scores.argmax(-1)], expected]
        family.add("TreeEnsembleClassifier", [x], results, post_transform=transform, **attributes)
    family.check(tmp_path)


def test_classifier_of_two(tmp_path, random, family):
    """Leaves that speak of one class of two: the score of the second one, whose sign or half decides."""
    x = rows(random, 13, 3)
    for positive in (False, True):
        forest = Forest(random, 4, 3, 3, 1, ["BRANCH_LT"])
        attributes = forest.attributes("class") | {"classlabels_int64s": [3, 5]}
        if positive:
            attributes["class_weights"] = [abs(w) / 4 for w in attributes["class_weights"]]
        s = np.array([[sum(w) for w in lists] for lists in forest.weights(x)], F32)
        if positive:
            absolute = [[[abs(w) / 4 for w in ws] for ws in lists] for lists in forest.weights(x)]
            s = np.array([[sum(w) for w in lists] for lists in absolute], F32)
        labels = np.where(s[:, 0] > (0.5 if positive else 0), 5, 3)
        plain = np.concatenate([1 - s if positive else -s, s], 1)
        family.add("TreeEnsembleClassifier", [x], [labels, plain], **attributes)
        both = sigmoid(np.concatenate([-s, s], 1))
        family.add("TreeEnsembleClassifier", [x], [labels, both], post_transform="LOGISTIC", **attributes)
    family.check(tmp_path)


def test_linear(tmp_path, random, family):
    x = random.standard_normal((5, 4)).astype(F32)
    w, b = random.standard_normal((3, 4)).astype(F32), random.standard_normal(3).astype(F32)
    scores = x @ w.T + b
    parameters = {"coefficients": w.ravel().tolist(), "intercepts": b.tolist()}
    family.add("LinearRegressor", [x], softmax(scores), targets=3, post_transform="SOFTMAX", **parameters)
    results = [np.array([4, 2, 9])[scores.argmax(-1)], sigmoid(scores)]
    family.add("LinearClassifier", [x], results, classlabels_ints=[4, 2, 9], post_transform="LOGISTIC", **parameters)
    one = {"coefficients": w[0].tolist(), "intercepts": [float(b[0])], "classlabels_ints": [4, 2]}
    s = scores[:, :1]
    results = [np.where(s[:, 0] > 0, 2, 4), np.concatenate([1 - s, s], 1)]
    family.add("LinearClassifier", [x], results, **one)
    family.check(tmp_path)


@pytest.mark.parametrize("classes", [2, 3, 8, 20])
def test_labels_of_many_rows(tmp_path, random, family, classes):
    """More rows than a vector has lanes, of few classes and of many; the first of equal scores decides."""
    x = random.integers(-2, 3, (37, classes)).astype(F32)
    identity = {"coefficients": np.eye(classes).ravel().tolist(), "intercepts": [0.0] * classes}
    best = x.argmax(-1)
    for labels in (np.arange(classes), np.arange(classes)[::-1] * 7 - 3):
        family.add("LinearClassifier", [x], [labels[best], x], classlabels_ints=labels.tolist(), **identity)
    names = [f"class {i % 7} {i}" for i in range(classes)]
    expected = [np.array([names[i] for i in best], object), softmax(x)]
    strings = {"classlabels_strings": names, "post_transform": "SOFTMAX"}
    family.add("LinearClassifier", [x], expected, **strings, **identity)
    family.check(tmp_path)


@pytest.mark.parametrize("columns", [1, 3, 8, 9])
def test_norms_of_many_rows(tmp_path, random, family, columns):
    x = random.standard_normal((37, columns)).astype(F32)
    x[[5, 36]] = 0
    for norm, size in (("MAX", x.max(-1)), ("L1", abs(x).sum(-1)), ("L2", np.sqrt((x**2).sum(-1)))):
        family.add("Normalizer", [x], x / np.where(size == 0, 1, size)[:, None], norm=norm)
    family.check(tmp_path)


def test_short_rows_do_not_depend_on_the_others(tmp_path, random):
    nodes = [node("Softmax", ["x"], ["s"], axis=1), node("LogSoftmax", ["x"], ["log"], axis=1)]
    nodes.append(node("Normalizer", ["x"], ["n"], "ai.onnx.ml", norm="L1"))
    write_model(
        "m.onnx", nodes, [("x", "float32", ["N", 3])], [(name, "float32", ["N", 3]) for name in ("s", "log", "n")]
    )
    model = aipu.load(aipu.build("m.onnx")["output"])
    x = random.standard_normal((48, 3)).astype(F32)
    together = model.run({"x": x})
    for first, last in ((0, 1), (1, 4), (4, 15), (15, 48)):
        for name, part in model.run({"x": x[first:last]}).items():
            np.testing.assert_array_equal(part, together[name][first:last])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_places_of_extrema_in_short_rows(tmp_path, random, op, dtype):
    """With and without a look-up behind it; the first NaN is it; places that others use too are there."""
    x = random.integers(-2, 3, (37, 3)).astype(dtype)
    if x.dtype.kind == "f":
        x[[4, 20, 36], [0, 1, 2]] = math.nan
        x[30] = math.nan
    table = np.array([5, -1, 2**40])
    outputs, nodes = [], []
    for last in (0, 1):
        nodes.append(node(op, ["x"], [f"at{last}"], axis=1, keepdims=0, select_last_index=last))
        nodes.append(node("Gather", ["table", f"at{last}"], [f"label{last}"]))
        outputs.append((f"label{last}", "int64", ["N"]))
    nodes.append(node("Identity", ["at1"], ["places"]))
    outputs.append(("places", "int64", ["N"]))
    write_model("m.onnx", nodes, [("x", dtype, ["N", 3])], outputs, {"table": table})
    found = aipu.load(aipu.build("m.onnx")["output"]).run({"x": x})
    key = x.astype(float) * (1 if op == "ArgMax" else -1)
    key[np.isnan(key)] = math.inf
    first, final = key.argmax(-1), 2 - key[:, ::-1].argmax(-1)
    np.testing.assert_array_equal(found["label0"], table[first])
    np.testing.assert_array_equal(found["label1"], table[final])
    np.testing.assert_array_equal(found["places"], final)


def test_svm_regressor(tmp_path, random, family):
    x = random.standard_normal((5, 3)).astype(F32)
    v, a = random.standard_normal((6, 3)).astype(F32), random.standard_normal(6).astype(F32)
    gamma, c0, degree = 0.25, 0.5, 3.0
    kernels = {
        "LINEAR": x @ v.T,
        "POLY": (gamma * x @ v.T + c0) ** degree,
        "RBF": np.exp(-gamma * ((x[:, None] - v) ** 2).sum(-1)),
        "SIGMOID": np.tanh(gamma * x @ v.T + c0),
    }
    for kind, k in kernels.items():
        parameters = {"kernel_type": kind, "kernel_params": [gamma, c0, degree], "rho": [0.125], "n_supports": 6}
        parameters |= {"support_vectors": v.ravel().tolist(), "coefficients": a.tolist()}
        y = (k @ a + 0.125)[:, None]
        family.add("SVMRegressor", [x], y, **parameters)
        family.add("SVMRegressor", [x], np.where(y > 0, F32(1), F32(-1)), one_class=1, **parameters)
    family.check(tmp_path)


@pytest.mark.parametrize("rows", [1, 4, 11])
def test_svm_radial_kernels_of_many_vectors(tmp_path, random, family, rows):
    """More vectors than a panel, rows and vectors that are left over; a row that is a vector is 1 to the last digit."""
    x, v = random.standard_normal((rows, 7)).astype(F32) + 100, random.standard_normal((523, 7)).astype(F32) + 100
    x[0] = v[522]
    k = np.exp(-0.25 * ((x[:, None].astype(np.float64) - v) ** 2).sum(-1))
    parameters = {"kernel_type": "RBF", "kernel_params": [0.25, 0.0, 0.0], "rho": [0.0], "n_supports": 523}
    parameters["support_vectors"] = v.ravel().tolist()
    for a in (random.standard_normal(523).astype(F32), np.eye(523, dtype=F32)[522]):
        y = (k @ a).astype(F32)[:, None]
        family.add("SVMRegressor", [x], y, tolerance=2e-6, coefficients=a.tolist(), **parameters)
    family.check(tmp_path)


def test_svm_classifier(tmp_path, random, family):
    """Votes of all pairs; probabilities of two classes are those of their only pair."""
    x = random.standard_normal((9, 3)).astype(F32)
    v = random.standard_normal((6, 3)).astype(F32)
    a = random.standard_normal((2, 6)).astype(F32)
    k, rho = x @ v.T, [0.25, -0.5, 0.125]
    pairs = [
        k[:, 0:2] @ a[0, 0:2] + k[:, 2:4] @ a[0, 2:4] + rho[0],
        k[:, 0:2] @ a[1, 0:2] + k[:, 4:6] @ a[0, 4:6] + rho[1],
        k[:, 2:4] @ a[1, 2:4] + k[:, 4:6] @ a[1, 4:6] + rho[2],
    ]
    votes = np.zeros((9, 3))
    for (i, j), d in zip(((0, 1), (0, 2), (1, 2)), pairs):
        votes[np.arange(9), np.where(d > 0, i, j)] += 1
    parameters = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
    three = {"coefficients": a.ravel().tolist(), "support_vectors": v.ravel().tolist(), "rho": rho}
    three |= {"vectors_per_class": [2, 2, 2], "classlabels_ints": [7, 8, 9]}
    results = [np.array([7, 8, 9])[votes.argmax(-1)], np.stack(pairs, 1)]
    family.add("SVMClassifier", [x], results, **parameters, **three)
    two = {"coefficients": a[0, :4].tolist(), "support_vectors": v[:4].ravel().tolist(), "rho": rho[:1]}
    two |= {"vectors_per_class": [2, 2], "classlabels_ints": [7, 8], "prob_a": [-1.5], "prob_b": [0.25]}
    p = sigmoid(-(pairs[0] * F32(-1.5) + F32(0.25)))
    results = [np.where(pairs[0] > 0, 7, 8), np.stack([p, 1 - p], 1)]
    # The iteration that finds them ends where it is within a hundredth or so.
    family.add("SVMClassifier", [x], results, tolerance=2e-2, **parameters, **two)
    family.check(tmp_path)


def test_svm_sums_that_nearly_cancel(tmp_path, random, family):
    """The kernels are whole numbers, so that only the sums over the vectors round."""
    x, v = random.integers(1, 9, (4, 3)).astype(F32), random.integers(1, 9, (600, 3)).astype(F32)
    a = random.uniform(20, 50, 600).astype(F32) * np.repeat([1, -1], 300).astype(F32)
    y = (x.astype(np.float64) @ v.T @ a).astype(F32)[:, None]
    parameters = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "rho": [0.0]}
    parameters |= {"support_vectors": v.ravel().tolist(), "coefficients": a.tolist()}
    family.add("SVMRegressor", [x], y, n_supports=600, tolerance=1e-7, **parameters)
    two = {"vectors_per_class": [300, 300], "classlabels_ints": [7, 8]}
    results = [np.where(y[:, 0] > 0, 7, 8), np.concatenate([-y, y], 1)]
    family.add("SVMClassifier", [x], results, tolerance=1e-7, **parameters, **two)
    family.check(tmp_path)


def test_features(tmp_path, random, family):
    x = random.standard_normal((4, 3)).astype(F32)
    x[1] = 0
    ints = random.integers(-3, 4, (4, 3))
    family.add("Scaler", [x], (x - F32(0.5)) * np.array([1, 2, 3], F32), offset=[0.5], scale=[1.0, 2.0, 3.0])
    family.add("Scaler", [ints], (ints - 0.5).astype(F32), offset=[0.5, 0.5, 0.5])
    for norm, size in (("MAX", x.max(-1)), ("L1", abs(x).sum(-1)), ("L2", np.sqrt((x**2).sum(-1)))):
        size = np.where(size == 0, 1, size)[:, None]
        family.add("Normalizer", [x], x / size, norm=norm)
    family.add("Binarizer", [x], (x > 0.25).astype(F32), threshold=0.25)
    family.add("Binarizer", [ints], (ints > 0.5).astype(np.int64), threshold=0.5)
    holes = np.where(abs(x) > 1, np.nan, x).astype(F32)
    filled = np.where(np.isnan(holes), np.array([1, 2, 3], F32), holes)
    imputed = {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": math.nan}
    family.add("Imputer", [holes], filled, **imputed)
    zeros = {"imputed_value_int64s": [9], "replaced_value_int64": 0}
    family.add("Imputer", [ints], np.where(ints == 0, 9, ints), **zeros)
    family.add("ArrayFeatureExtractor", [x, np.array([2, 0])], x[:, [2, 0]], constants=[1])
    wide = np.concatenate([x[:, :2], ints.astype(F32), np.zeros((4, 1), F32)], 1)
    family.add("FeatureVectorizer", [x, ints], wide, inputdimensions=[2, 4])
    family.add("FeatureVectorizer", [x, ints], wide, inputdimensions=[2, 4], symbols=[0, 1])
    family.add("FeatureVectorizer", [x], x, inputdimensions=[x.shape[1]], symbols=[0])
    family.check(tmp_path)


def test_keys(tmp_path, family):
    x = np.array([[3, 7], [-2, 5]])
    keys = {"keys_int64s": [5, 3, -2, 3]}
    encoded = np.array([[20, -1], [30, 10]])
    family.add("LabelEncoder", [x], encoded, **keys, values_int64s=[10, 20, 30, 40])
    reals = np.array([[2.5, 9.5], [3.5, 1.5]], F32)
    family.add("LabelEncoder", [x], reals, **keys, values_floats=[1.5, 2.5, 3.5, 4.5], default_float=9.5)
    found = np.array([[0, 1], [-1, -1]])
    family.add("LabelEncoder", [reals], found, keys_floats=[2.5, 9.5], values_int64s=[0, 1])
    units = np.zeros((2, 2, 3), F32)
    units[0, 0, 2] = units[1, 1, 0] = 1
    family.add("OneHotEncoder", [x], units, cats_int64s=[5, 4, 3])
    family.check(tmp_path)


def test_n_grams(tmp_path, family):
    """Pairs that follow each other or leave one element out; weights of the columns."""
    family.domain = ""
    x = np.array([[1, 2, 1, 2, 3], [3, 1, 1, 9, 1]])
    grams = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1}
    grams |= {"ngram_counts": [0, 2], "ngram_indexes": [3, 0, 2, 1], "pool_int64s": [3, 1, 1, 2, 1, 1]}
    found = np.array([[2, 1, 2, 1], [3, 2, 0, 1]], F32)
    family.add("TfIdfVectorizer", [x], found, mode="TF", **grams)
    family.add("TfIdfVectorizer", [x[0].astype(np.int32)], found[0], mode="TF", **grams)
    weights = np.array([2, 4, 3, 1], F32)
    listed = {"weights": [1.0, 2.0, 3.0, 4.0]}
    family.add("TfIdfVectorizer", [x], found * weights, mode="TFIDF", **grams, **listed)
    family.add("TfIdfVectorizer", [x], (found > 0) * weights, mode="IDF", **grams, **listed)
    pairs = found * np.array([0, 1, 1, 0], F32)
    family.add("TfIdfVectorizer", [x], pairs, mode="TF", **(grams | {"min_gram_length": 2}))
    family.check(tmp_path)


def test_unknown_category(tmp_path):
    encoder = node("OneHotEncoder", ["x"], ["y"], "ai.onnx.ml", cats_int64s=[5, 3], zeros=0)
    path = tmp_path / "encoder.onnx"
    write_model(path, [encoder], [("x", "int64", [2])], [("y", "float32", [2, 2])])
    model = aipu.load(aipu.build(path, tmp_path / "encoder.aipu.bin")["output"])
    np.testing.assert_array_equal(model.run({"x": np.array([3, 5])})["y"], [[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="element 1 is none of the 2 categories"):
        model.run({"x": np.array([3, 4])})


BAD_TREES = [
    ({"nodes_truenodeids": [7, 0, 0]}, "has two roots in tree 0"),
    ({"nodes_truenodeids": [0, 0, 0]}, "has a branch that no tree reaches"),
    (
        {"nodes_modes": ["BRANCH_LEQ"] * 2 + ["LEAF"], "nodes_truenodeids": [1, 1, 0], "nodes_falsenodeids": [2, 2, 0]},
        "has a branch that leads back to itself",
    ),
    (
        {"nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "nodes_nodeids": [0, 1, 1]},
        "node 1 of tree 0 twice",
    ),
    ({"nodes_modes": ["BRANCH", "LEAF", "LEAF"]}, "has a node of mode 'BRANCH'"),
    ({"nodes_values": [0.5]}, "has attributes nodes_\\* of different lengths"),
    ({"nodes_featureids": [3, 0, 0]}, "looks at 4 features, the input is float32\\[2,3\\]"),
    ({"target_ids": [0, 4]}, "has a weight for target 4 of 1"),
]


@pytest.mark.parametrize(("change", "message"), BAD_TREES)
def test_trees_that_are_none(tmp_path, change, message):
    stump = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0]}
    stump |= {"nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0]}
    stump |= {"nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "n_targets": 1}
    stump |= {"target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0]}
    path = tmp_path / "bad.onnx"
    bad = node("TreeEnsembleRegressor", ["x"], ["y"], "ai.onnx.ml", **(stump | change))
    write_model(path, [bad], [("x", "float32", [2, 3])], [("y", "float32", [2, 1])])
    with pytest.raises((ValueError, RuntimeError), match=message):
        aipu.build(path, tmp_path / "bad.aipu.bin")


@pytest.mark.parametrize("seed", range(3))
def test_against_onnx_runtime(tmp_path, seed):
    """Random ensembles with any comparison, transformation and kind of base values."""
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    random = np.random.default_rng(seed)
    for case in range(4):
        classes = int(random.integers(2, 5))
        forest = Forest(random, 7, 4, 4, 1 if classes == 2 else classes, list(COMPARISONS), missing=True)
        attributes = forest.attributes("class") | {"classlabels_int64s": list(range(classes))}
        # Every class is spoken of by every row: one tree has all of them in its leaves.
        x = rows(random, int(random.choice([1, 8, 30])), 4, missing=True)
        transform = TRANSFORMS[random.integers(4)]
        if random.random() < 0.5 and classes > 2:
            attributes["base_values"] = random.standard_normal(classes).tolist()
        label = node("TreeEnsembleClassifier", ["x"], ["y", "z"], "ai.onnx.ml", post_transform=transform, **attributes)
        path = tmp_path / f"{case}.onnx"
        outputs = [("y", "int64", [len(x)]), ("z", "float32", [len(x), classes])]
        write_model(path, [label], [("x", "float32", x.shape)], outputs)
        found = aipu.load(aipu.build(path, tmp_path / f"{case}.aipu.bin")["output"]).run({"x": x})
        expected = runtime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
        np.testing.assert_allclose(found["z"], expected[1], rtol=1e-5, atol=1e-5)
