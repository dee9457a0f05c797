"""libaipu_text.so by its C interface (runtime/text/text_api.h), against Python and NumPy."""

import ctypes
import os
import pathlib
import random
import re

import numpy as np
import pytest


class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class Tensor(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_uint32), ("count", ctypes.c_size_t), ("data", ctypes.c_void_p)]


TextOf = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(Text))
NumberOf = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Pool(ctypes.Structure):
    _fields_ = [("self", ctypes.c_void_p), ("text", TextOf), ("number", NumberOf)]


_MESSAGE = (ctypes.c_char_p, ctypes.c_size_t)
_LIST = (ctypes.POINTER(Tensor), ctypes.c_size_t)
Open = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(Text), ctypes.c_size_t, ctypes.POINTER(ctypes.c_int64),
    ctypes.c_size_t, *_MESSAGE,
)  # fmt: skip
Run = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Pool), *_LIST, *_LIST, *_MESSAGE)


class Library(ctypes.Structure):
    _fields_ = [
        ("api_version", ctypes.c_uint32),
        ("open", Open),
        ("close", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("run", Run),
    ]


# As in runtime/aipu.h.
DTYPES = {"bool": 1, "int8": 2, "uint8": 3, "int16": 4, "uint16": 5, "int32": 6, "uint32": 7, "int64": 8, "uint64": 9,
          "float16": 10, "float32": 12, "float64": 13}  # fmt: skip


@pytest.fixture(scope="module")
def library():
    path = pathlib.Path(os.environ.get("AIPU_BUILD_DIR", "."), "lib", "libaipu_text.so")
    function = ctypes.CDLL(str(path)).aipu_text_v1
    function.restype = ctypes.POINTER(Library)
    return function().contents


class Strings:
    """A pool: numbers of strings, each once."""

    def __init__(self, most=None):
        self.texts, self.numbers, self.held, self.most = [], {}, [], most
        self.number(b"")
        self.pool = Pool(None, TextOf(self._text), NumberOf(self._number))

    def number(self, text):
        if text not in self.numbers:
            if len(self.texts) == self.most:
                return -1
            self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return self.numbers[text]

    def _number(self, _, data, size):
        return self.number(ctypes.string_at(data, size) if size else b"")

    def _text(self, _, number, out):
        if not 0 <= number < len(self.texts):
            return 0
        text = self.texts[number]
        self.held.append(ctypes.create_string_buffer(text, len(text) + 1))
        out[0] = Text(ctypes.addressof(self.held[-1]), len(text))
        return 1

    def of(self, texts):
        return np.array([self.number(text.encode()) for text in texts], np.int64)

    def shown(self, numbers):
        return [self.texts[number].decode() for number in numbers.ravel()]


def opened(library, name, texts, numbers):
    message = ctypes.create_string_buffer(500)
    held = [ctypes.create_string_buffer(text.encode()) for text in texts]
    given = (Text * len(held))(*[Text(ctypes.addressof(buffer), len(buffer) - 1) for buffer in held])
    count = (ctypes.c_int64 * len(numbers))(*numbers)
    operation = library.open(name.encode(), given, len(held), count, len(numbers), message, len(message))
    return operation, message.value.decode()


def run(library, strings, name, inputs, output, texts=(), numbers=()):
    """None, or what is wrong."""
    operation, message = opened(library, name, texts, numbers)
    assert operation, message
    buffer = ctypes.create_string_buffer(500)
    rows = [Tensor(DTYPES[a.dtype.name], a.size, a.ctypes.data) for a in [*inputs, output]]
    list_of = (Tensor * len(inputs))(*rows[:-1])
    result = (Tensor * 1)(rows[-1])
    failed = library.run(operation, ctypes.byref(strings.pool), list_of, len(inputs), result, 1, buffer, len(buffer))
    library.close(operation)
    return buffer.value.decode() if failed else None


WORDS = ["", "  ", "ΑΣ", "ſ", "ﬁ", "Straße", "İ", "\x1c", "日本\u3000語"]


@pytest.fixture
def words():
    chosen = random.Random(1)
    letters = "ab ,\t\u3000\u00a0éßİıΣ日x\u2028\x1c"
    return WORDS + ["".join(chosen.choices(letters, k=chosen.randrange(9))) for _ in range(300)]


def test_concatenation(library, words):
    strings = Strings()
    y = np.zeros(len(words), np.int64)
    assert run(library, strings, "StringConcat", [strings.of(words), strings.of(words[::-1])], y) is None
    assert strings.shown(y) == [a + b for a, b in zip(words, words[::-1])]


@pytest.mark.parametrize("delimiter", ["", ",", "a", ", ", "日"])
@pytest.mark.parametrize("most", [-1, 0, 1, 2, 5])
def test_pieces(library, words, delimiter, most):
    strings = Strings()
    x, counts = strings.of(words), np.zeros(len(words), np.int64)
    rows = [word.split(delimiter or None, most) for word in words]
    width = max(map(len, rows))
    table = np.zeros((len(words), width), np.int64)
    assert run(library, strings, "CountPieces", [x], counts, [delimiter], [most]) is None
    assert counts.tolist() == [len(row) for row in rows]
    assert run(library, strings, "SplitPieces", [x], table, [delimiter], [most]) is None
    assert strings.shown(table) == [piece for row in rows for piece in row + [""] * (width - len(row))]
    if width > 1:
        narrow = np.zeros((len(words), width - 1), np.int64)
        assert "more than" in run(library, strings, "SplitPieces", [x], narrow, [delimiter], [most])


def needs(library, name, texts):
    operation, message = opened(library, name, texts, ())
    if not operation and "was built without" in message:
        pytest.skip(message)
    if operation:
        library.close(operation)
    return message


@pytest.mark.parametrize("action", ["lower", "upper"])
def test_case(library, words, action):
    needs(library, "ChangeCase", ["LOWER", ""])
    strings = Strings()
    y = np.zeros(len(words), np.int64)
    assert run(library, strings, "ChangeCase", [strings.of(words)], y, [action.upper(), "en_US"]) is None
    assert strings.shown(y) == [getattr(word, action)() for word in words]
    turkish = np.zeros(1, np.int64)
    assert run(library, strings, "ChangeCase", [strings.of(["Iİi"])], turkish, ["LOWER", "tr_TR"]) is None
    assert strings.shown(turkish) == ["ıii"]


def test_regular_expressions(library, words):
    needs(library, "RegexFullMatch", ["a"])
    strings = Strings()
    y = np.zeros(len(words), bool)
    for pattern in [".*a.*", "[ab]*", "", "a|b ?"]:
        assert run(library, strings, "RegexFullMatch", [strings.of(words)], y, [pattern]) is None
        assert y.tolist() == [re.fullmatch(pattern, word) is not None for word in words], pattern
    assert "RE2 does not take the pattern '('" in needs(library, "RegexFullMatch", ["("])


@pytest.mark.parametrize("pattern", ["[ab]+", "[^ ]", "é|ß|日x?"])
@pytest.mark.parametrize("least", [1, 2])
def test_tokens(library, words, pattern, least):
    needs(library, "RegexFullMatch", ["a"])
    strings = Strings()
    x, counts = strings.of(words), np.zeros(len(words), np.int64)
    for between, pieces in enumerate([re.findall, re.split]):
        rows = [[piece for piece in pieces(pattern, word) if len(piece) >= least] for word in words]
        width = max(map(len, rows))
        table = np.zeros((len(words), width), np.int64)
        texts, numbers = [pattern, "#"], [least, between, 0]
        assert run(library, strings, "CountTokens", [x], counts, texts, numbers) is None
        assert counts.tolist() == [len(row) for row in rows]
        assert run(library, strings, "FindTokens", [x], table, texts, numbers) is None
        assert strings.shown(table) == [piece for row in rows for piece in row + ["#"] * (width - len(row))]


@pytest.mark.parametrize("pattern", [".", "[a-zA-Z0-9_]+", "[b-d]", "[-a]+", "[a-]+", "[^a]+", r"[\w]+", "[a]]+"])
@pytest.mark.parametrize("between", [0, 1])
def test_patterns_that_are_looked_for_without_an_engine(library, pattern, between):
    """The same in a group is left to the engine."""
    needs(library, "RegexFullMatch", ["a"])
    chosen = random.Random(3)
    pieces = [b"a", b"b-", b"_9Z", b"]", b"\n", b" ", "ß".encode(), "日".encode(), "\N{GRINNING FACE}".encode(),
              b"\xff", b"\xed\xa0\x80", b"\xe0\x80\x80", b"\xc0\x80", b"\xf4\x90\x80\x80",
              b"\xe6\x97", b"\x80"]  # fmt: skip
    few = [pieces[: chosen.choice([9, len(pieces)])] for _ in range(300)]
    words = [b"".join(chosen.choices(some, k=chosen.randrange(9))) for some in few]
    words += [piece + b"a" for piece in pieces] + [b"a" + piece for piece in pieces]
    found = []
    for text in (pattern, f"(?:{pattern})"):
        strings = Strings()
        x = np.array([strings.number(word) for word in words], np.int64)
        counts, table = np.zeros(len(words), np.int64), np.zeros((len(words), 20), np.int64)
        assert run(library, strings, "CountTokens", [x], counts, [text, "#"], [1, between, 0]) is None
        assert run(library, strings, "FindTokens", [x], table, [text, "#"], [1, between, 0]) is None
        found.append((counts.tolist(), [strings.texts[number] for number in table.ravel()]))
    assert found[0] == found[1] and max(found[0][0]) > 0


def numbers_of(dtype):
    chosen = np.random.default_rng(0)
    if dtype == "float16":
        return np.arange(65536, dtype=np.uint16).view(np.float16)
    if dtype == "bool":
        return np.array([True, False])
    if dtype.startswith("float"):
        least, most = np.log10(np.finfo(dtype).tiny), np.log10(np.finfo(dtype).max)
        values = chosen.standard_normal(5000) * 10.0 ** chosen.integers(int(least), int(most) - 1, 5000)
        return np.concatenate([values, [0, -0.0, np.inf, -np.inf, np.nan, 16777217]]).astype(dtype)
    limits = np.iinfo(dtype)
    return np.array([limits.min, limits.max, 0, 7], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_read_back(library, dtype):
    strings = Strings()
    x = numbers_of(dtype)
    y, back = np.zeros(x.size, np.int64), np.zeros_like(x)
    assert run(library, strings, "NumberToText", [x], y) is None
    assert run(library, strings, "TextToNumber", [y], back) is None
    np.testing.assert_array_equal(back, x)
    if x.dtype.kind == "f":
        known = ~np.isnan(x)
        np.testing.assert_array_equal(np.signbit(back[known]), np.signbit(x[known]))


@pytest.mark.parametrize(
    "dtype, value, text",
    [
        ("float32", 0.1, "0.1"),
        ("float32", 1e6, "1000000"),
        ("float32", 1e8, "1e+08"),
        ("float32", 0.0001, "0.0001"),
        ("float32", 0.00001, "1e-05"),
        ("float32", np.nan, "NaN"),
        ("float32", -np.inf, "-INF"),
        ("float64", 1e16, "10000000000000000"),
        ("float64", 1e17, "1e+17"),
        ("float16", 1 / 3, "0.3333"),
        ("bool", True, "1"),
    ],
)
def test_texts_of_numbers(library, dtype, value, text):
    strings, y = Strings(), np.zeros(1, np.int64)
    assert run(library, strings, "NumberToText", [np.array([value], dtype)], y) is None
    assert strings.shown(y) == [text]


@pytest.mark.parametrize(
    "dtype, text, value",
    [
        ("float32", "1e50", np.inf),
        ("float32", "-1e50", -np.inf),
        ("float32", "1e-60", 0),
        ("float32", " +2.5\n", 2.5),
        ("float32", "inf", np.inf),
        ("float64", ".5", 0.5),
        ("float32", "0x10", None),
        ("float32", "", None),
        ("float32", "1,5", None),
        ("float32", "+-1", None),
        ("int8", "127", 127),
        ("int8", "128", None),
        ("int8", "1.0", None),
        ("uint8", "-1", None),
        ("bool", "True", True),
        ("bool", "2", None),
    ],
)
def test_numbers_of_texts(library, dtype, text, value):
    strings, y = Strings(), np.zeros(1, dtype)
    wrong = run(library, strings, "TextToNumber", [strings.of([text])], y)
    if value is None:
        assert wrong == f"'{text}' is no {dtype}"
    else:
        assert wrong is None and y[0] == value


def test_what_does_not_fit_is_refused(library):
    strings, y = Strings(), np.zeros(2, np.int64)
    x = strings.of(["a", "b"])
    assert "which no string of the run has" in run(library, strings, "StringConcat", [x, x + 100], y)
    for inputs, output in [([x], y), ([x, x[:1]], y), ([x, x.astype(np.int32)], y), ([x, x], y[:1])]:
        assert "tensors that do not fit it" in run(library, strings, "StringConcat", inputs, output)
    full = Strings(most=3)
    full.of(["a", "b"])
    assert "no room" in run(library, full, "StringConcat", [x, x], y)
    assert "does not know this operation" in opened(library, "Guess", (), ())[1]
    assert "with other parameters" in opened(library, "StringConcat", ["x"], ())[1]
