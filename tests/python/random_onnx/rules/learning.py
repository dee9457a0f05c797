"""ai.onnx.ml: scalers, encoders, linear models, support vectors, trees."""

import numpy as np
from onnx import numpy_helper
from values import F32, F64, I32, I64, TEXT, Constant, Node, Refused

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


def ml(op, operands, outputs=1, **attributes):
    return Node(op, operands, outputs, domain=DOMAIN, **attributes)


def numbers(g, count):
    return [float(value) for value in g.array(F32, (count,), exact=False)]


def rows(g, exact=None):
    """Samples by features."""
    found = [v for v in g.pool if v.dtype == F32 and v.rank == 2 and 0 not in v.shape and (v.exact or not exact)]
    if found and g.chance(30):
        return g.one_of(*found)
    x = g.add_input(F32, (g.between(1, 5), g.between(1, 5)), 1)
    if exact and not x.exact:
        raise Refused
    return x


def classes(g, count):
    if g.chance(60):
        return {"classlabels_ints": g.random.sample(range(-5, 20), count)}
    return {"classlabels_strings": g.random.sample(["a", "b", "cat", "dog", "été"], count)}


def by_feature(g):
    """What treats each feature on its own."""
    op = g.one_of("Binarizer", "Scaler", "Normalizer", "Imputer")
    if op == "Binarizer":
        x = g.pick(lambda v: v.dtype in (F32, F64) and v.exact)
        return ml(op, [x], jumps=True, threshold=g.one_of(0.0, 0.5))
    if op == "Scaler":
        x = rows(g)
        count = g.one_of(1, x.shape[1])
        return ml(op, [x], offset=numbers(g, count), scale=numbers(g, count))
    if op == "Normalizer":
        return ml(op, [rows(g)], norm=g.one_of("MAX", "L1", "L2"))
    x = rows(g)
    return ml(op, [x], imputed_value_floats=numbers(g, g.one_of(1, x.shape[1])),
              replaced_value_float=float(g.one_of(x.array[0, 0], np.nan)))  # fmt: skip


def features(g):
    if g.chance(50):
        x = g.pick(lambda v: v.rank >= 1 and v.dtype != bool and v.shape[-1] and v.array.size)
        places = g.numpy.integers(0, x.shape[-1], (g.between(1, 4),)).astype(I64)
        return ml("ArrayFeatureExtractor", [x, Constant(places)], keeps=True)
    x = rows(g)
    if not g.is_of_known_extents(x):
        raise Refused  # how many columns there are must be known
    other = Constant(g.array(F32, (x.shape[0], g.between(1, 3))))
    return ml("FeatureVectorizer", [x, other], inputdimensions=[x.shape[1], other.array.shape[1]])


def encoded(g):
    op = g.one_of("LabelEncoder", "OneHotEncoder", "CategoryMapper")
    if op == "OneHotEncoder":
        x = g.pick(lambda v: v.dtype in (F32, F64, I64, I32, TEXT) and v.exact and v.rank >= 1)
        if x.dtype == TEXT:
            return ml(op, [x], cats_strings=["a", "b", "ab", "the"])
        return ml(op, [x], jumps=True, cats_int64s=[-1, 0, 1, 2, 5])
    if op == "CategoryMapper":
        x = g.pick(lambda v: v.dtype in (I64, TEXT))
        defaults = {"default_string": "none"} if x.dtype == I64 else {"default_int64": -4}
        return ml(op, [x], cats_int64s=[0, 1, 2, 3], cats_strings=["a", "b", "ab", "the"], **defaults)
    x = g.pick(lambda v: v.dtype in (F32, I64) and v.exact)
    keys = {"keys_floats": [0.0, 1.0, -1.0, 0.5]} if x.dtype == F32 else {"keys_int64s": [0, 1, 2, -3]}
    values = g.one_of(
        {"values_strings": ["x", "y", "z", "w"], "default_string": "?"},
        {"values_int64s": [5, 6, 7, 8], "default_int64": -9},
        {"values_floats": [0.5, 1.5, 2.5, 3.5], "default_float": 9.0},
    )
    return ml(op, [x], jumps=True, **keys, **values)


def linear(g):
    x = rows(g)
    count = g.between(1, 3)
    post = g.one_of(*TRANSFORMS)
    if post == "SOFTMAX_ZERO" and not np.all(np.any(x.array, 1)):
        raise Refused  # scores that are all 0 stay so here, and are 0 / 0 in ONNX Runtime
    if g.chance(50):
        return ml("LinearRegressor", [x], coefficients=numbers(g, count * x.shape[1]), targets=count,
                  intercepts=numbers(g, count) if g.chance(60) else None, post_transform=post)  # fmt: skip
    count = g.between(2, 4)
    node = ml("LinearClassifier", [x], 2, coefficients=numbers(g, count * x.shape[1]),
              intercepts=numbers(g, count), post_transform=post, **classes(g, count))  # fmt: skip
    return zipped(g, node, count)


def zipped(g, node, count):
    """Scores of classes as maps."""
    if g.chance(70):
        return node
    labels = {key.replace("_ints", "_int64s"): value for key, value in node.attributes.items() if "classlabels" in key}
    assert len(next(iter(labels.values()))) == count
    return [node, ml("ZipMap", [node[1]], **labels)]


def support_vectors(g):
    x = rows(g)
    size, kernel = x.shape[1], g.one_of("LINEAR", "POLY", "RBF", "SIGMOID")
    kernel_params = [g.one_of(0.25, 0.5), g.one_of(0.0, 1.0), float(g.between(1, 3))]
    if g.chance(50):
        count = g.between(1, 4)
        return ml("SVMRegressor", [x], kernel_type=kernel, kernel_params=kernel_params, n_supports=count,
                  support_vectors=numbers(g, count * size), coefficients=numbers(g, count),
                  rho=numbers(g, 1))  # fmt: skip
    count = g.between(2, 3)
    per_class = [g.between(1, 3) for _ in range(count)]
    total = sum(per_class)
    pairs = count * (count - 1) // 2
    proba = {"prob_a": numbers(g, pairs), "prob_b": numbers(g, pairs)} if g.chance(30) else {}
    return ml("SVMClassifier", [x], 2, kernel_type=kernel, kernel_params=kernel_params, rho=numbers(g, pairs),
              support_vectors=numbers(g, total * size), vectors_per_class=per_class,
              coefficients=numbers(g, total * (count - 1)), **proba, **classes(g, count))  # fmt: skip


class Trees:
    """Random trees in the form of TreeEnsemble: nodes and leaves in two lists, numbered as they come."""

    def __init__(self, g, features, targets):
        self.g, self.features, self.targets = g, features, targets
        self.nodes, self.leaves, self.roots = [], [], []

    def grow(self, depth):
        """The number of a node, or of a leaf, and whether it is one."""
        g = self.g
        if depth == 0 or (self.nodes and g.chance(25)):
            self.leaves.append((g.below(self.targets), g.one_of(0.5, -1.25, 2.0, 0.125)))
            return len(self.leaves) - 1, 1
        place = len(self.nodes)
        self.nodes.append(None)
        split = (g.below(self.features), g.below(6), g.one_of(-1.0, 0.0, 0.5, 1.0))
        self.nodes[place] = (*split, *self.grow(depth - 1), *self.grow(depth - 1))
        return place, 0


def trees(g):
    x = rows(g, exact=True)
    targets = g.between(1, 3)
    forest = Trees(g, x.shape[1], targets)
    for _ in range(g.between(1, 3)):
        forest.roots.append(len(forest.nodes))
        before = len(forest.nodes)
        forest.grow(g.between(1, 3))
        if len(forest.nodes) == before:
            raise Refused  # a tree that is a leaf
    feature, mode, split, true, true_leaf, false, false_leaf = map(list, zip(*forest.nodes))
    target, weight = map(list, zip(*forest.leaves))
    return ml("TreeEnsemble", [x], jumps=True, tree_roots=forest.roots, nodes_featureids=feature, n_targets=targets,
              nodes_modes=numpy_helper.from_array(np.array(mode, np.uint8)),
              nodes_splits=numpy_helper.from_array(np.array(split, F32)), nodes_truenodeids=true,
              nodes_trueleafs=true_leaf, nodes_falsenodeids=false, nodes_falseleafs=false_leaf, leaf_targetids=target,
              leaf_weights=numpy_helper.from_array(np.array(weight, F32)),
              # 1 is SOFTMAX and 2 LOGISTIC by ONNX, the other way round in ONNX Runtime.
              aggregate_function=g.between(0, 3), post_transform=g.one_of(0, 0, 3))  # fmt: skip


RULES = [by_feature, features, encoded, linear, support_vectors, trees]
