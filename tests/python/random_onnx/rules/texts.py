"""Tensors of texts."""

import numpy as np
from values import F32, F64, I32, I64, TEXT, Constant, Node, Refused


def joined(g):
    x = g.texts()
    return Node("StringConcat", [x, g.partner(x)], keeps=True)


def split_apart(g):
    x = g.texts()
    # By a delimiter, an empty text has one part in ONNX's reference (as in Python), none in ONNX Runtime.
    delimiter = g.one_of(" ", ",", "b", "") if np.all(x.array != "") else g.one_of(None, "")
    return Node("StringSplit", [x], 2, delimiter=delimiter, maxsplit=g.one_of(None, 1, 2))


def matched(g):
    return Node("RegexFullMatch", [g.texts()], pattern=g.one_of("a.*", "[a-z]+", ".*[0-9]", "(ab|abc)", ""))


def normalised(g):
    words = g.array(TEXT, g.one_of((3,), (5,), (1, 4)))
    stop = [str(word) for word in g.array(TEXT, (g.between(0, 2),)) if word]
    x = g.add_input(TEXT, words.shape)
    # In capitals ß is SS in ONNX's reference (as in Python), itself in ONNX Runtime.
    change = g.one_of("NONE", "LOWER", *(["UPPER"] if "Straße" not in x.array else []))
    return Node("StringNormalizer", [x], case_change_action=change,
                is_case_sensitive=g.below(2), stopwords=stop or None, locale="C.UTF-8")  # fmt: skip


def compared(g):
    x = g.texts()
    return Node("Equal", [x, g.partner(x)])


def looked_up(g):
    """By texts, or giving them."""
    x = g.texts()
    words = sorted(set(x.array.ravel().tolist()))[:4]
    if not words:
        raise Refused
    if g.chance(50):
        values = {"values_int64s": [g.between(-5, 5) for _ in words], "default_int64": -7}
    else:
        values = {"values_floats": [0.5 * g.between(-5, 5) for _ in words], "default_float": -1.0}
    return Node("LabelEncoder", [x], domain="ai.onnx.ml", keys_strings=words, **values)


def frequencies(g):
    shape = g.one_of((6,), (2, 5))
    texts = g.chance(40)
    if texts:
        x = g.add_input(TEXT, shape)
        pool = {"pool_strings": ["a", "b", "ab", "the", "a", "b", "quick", "a"]}
    else:
        x = Constant(g.numpy.integers(0, 4, shape).astype(g.one_of(I32, I64)))
        pool = {"pool_int64s": [0, 1, 2, 3, 0, 1, 2, 0]}
    mode = g.one_of("TF", "IDF", "TFIDF")
    weights = [0.5, 1.0, 2.0, 0.25, 1.5, 3.0] if mode != "TF" else None
    return Node("TfIdfVectorizer", [x], mode=mode, min_gram_length=1, max_gram_length=2,
                max_skip_count=g.below(3), ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 4, 5], weights=weights,
                **pool)  # fmt: skip


def written(g):
    """Numbers as texts, which only whole ones are alike everywhere, and texts that are numbers."""
    if g.chance(50):
        x = g.pick(lambda v: v.dtype.kind in "iub")
        return Node("Cast", [x], keeps=True, to=8)
    shape = g.shape(0, 2)
    numbers = np.array([str(n) for n in g.numpy.integers(-50, 50, int(np.prod(shape)))], object).reshape(shape)
    to = g.one_of((1, F32), (11, F64), (7, I64), (6, I32))[0]
    return Node("Cast", [Constant(numbers)], keeps=True, to=to)


RULES = [joined, split_apart, matched, normalised, compared, looked_up, frequencies, written]
