"""Sequences and optionals, against ONNX Runtime: in models, through loops and branches, as inputs and outputs."""

from other_python import python_with, run_python

COMMON = """
import numpy as np, onnx.parser, onnxruntime
import aipu, aipu.backend

def parsed(text):
    return onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 18]>\\n' + text)

def same(found, expected, where):
    if isinstance(expected, (list, tuple)):
        assert isinstance(found, list) and len(found) == len(expected), (where, found)
        for a, b in zip(found, expected):
            same(a, b, where)
    elif expected is None:
        assert found is None, where
    else:
        assert found.dtype == expected.dtype, where
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6, err_msg=str(where))

def reference(model, feed):
    names = [output.name for output in model.graph.output]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, feed)))

def check(text, *feeds, **options):
    \"\"\"One conversion for all feeds: nothing of them is known when it converts.\"\"\"
    model = parsed(text)
    aipu.build(model, "m.aipu.bin", **options)
    loaded = aipu.load("m.aipu.bin")
    for feed in feeds:
        found = loaded.run(feed)
        for name, expected in reference(model, feed).items():
            same(found[name], expected, (model.graph.name, name))

def error_of(call):
    try:
        call()
    except (RuntimeError, ValueError, TypeError) as error:
        assert "\\n" not in str(error)
        return str(error)
    raise AssertionError("no error")

rng = np.random.default_rng(3)
def floats(*shape):
    return rng.standard_normal(shape).astype("f")
def number(value):
    return np.array(value, np.int64)
"""

INSIDE = """
a, b, c = floats(2, 3), floats(2, 3), floats(2, 3)
text = '''positions (float[2,3] a, float[2,3] b, float[2,3] c, int64 at, int64 to, int64 out)
    => (float[2,3] first, float[2,3] second, float[?,3] all, int64 n) {
  three = SequenceConstruct(a, b, c)
  four = SequenceInsert(three, a, to)
  less = SequenceErase(four, out)
  first = SequenceAt(less, at)
  minus = Constant<value_int = -1>()
  second = SequenceAt(less, minus)
  all = ConcatFromSequence<axis = 0>(less)
  n = SequenceLength(less)
}'''
feeds = [
    {"a": a, "b": b, "c": c, "at": number(at), "to": number(to), "out": number(out)}
    for at, to, out in [(0, 0, 0), (-3, -3, -4), (2, 3, 3), (-1, -1, 2), (1, 2, -2)]
]
check(text, *feeds)
model = parsed(text)
aipu.build(model, "m.aipu.bin")
loaded = aipu.load("m.aipu.bin")
for name, wrong in [("at", 3), ("at", -4), ("to", 4), ("to", -4), ("out", 4), ("out", -5)]:
    assert "index" in error_of(lambda: loaded.run({**feeds[0], name: number(wrong)})), (name, wrong)

# elements of different shapes: positions are constants, or the empty sequence grows by known tensors
check('''shapes (float[N] a, float[M] b) => (float[?] joined, float[M] last, float[?] rest, int64 n) {
  none = SequenceEmpty()
  one = SequenceInsert(none, a)
  zero = Constant<value_int = 0>()
  two = SequenceInsert(one, b, zero)
  joined = ConcatFromSequence<axis = -1>(two)
  last = SequenceAt(two, zero)
  less = SequenceErase(two)
  back = SequenceInsert(less, a)
  rest = ConcatFromSequence<axis = 0>(back)
  n = SequenceLength(back)
}''', {"a": floats(4), "b": floats(2)}, {"a": floats(1), "b": floats(3)})

# what is split
check('''pieces (float[2,N] x, float[4,3] y, int64[2] sizes)
    => (float[2,?] p, float[2,?] q, float[3,4] r, float[?,3] s) {
  two = SplitToSequence<axis = 1>(x, sizes)
  zero = Constant<value_int = 0>()
  one = Constant<value_int = 1>()
  p = SequenceAt(two, zero)
  q = SequenceAt(two, one)
  rows = SplitToSequence<axis = 0, keepdims = 0>(y)
  r = ConcatFromSequence<axis = 1, new_axis = 1>(rows)
  three = Constant<value_int = 3>()
  uneven = SplitToSequence<axis = 0>(y, three)
  s = SequenceAt(uneven, one)
}''', *[{"x": floats(2, 7), "y": floats(4, 3), "sizes": np.array(sizes)} for sizes in [(3, 4), (6, 1)]])

# a body per element, the second input a tensor for all, a sequence from outside as well
check('''mapped (float[2,3] a, float[2,3] b, float[3] bias) => (float[?,3] sums, int64[?] sizes) {
  xs = SequenceConstruct(a, b)
  outs, shapes = SequenceMap(xs, bias) <body = body (float[2,3] x, float[3] y) => (float[2,3] z, int64[2] shape) {
    zero = Constant<value_int = 0>()
    outer = SequenceAt(xs, zero)
    t = Add(x, y)
    z = Mul(t, outer)
    shape = Shape(z)
  }>
  sums = ConcatFromSequence<axis = 0>(outs)
  sizes = ConcatFromSequence<axis = 0>(shapes)
}''', {"a": a, "b": b, "bias": floats(3)})

# a branch that a run takes
check('''branches (bool yes, float[N] a, float[N] b) => (float[?] y) {
  s = If(yes) <then_branch = t () => (seq(float[N]) u) { u = SequenceConstruct(a, b) },
               else_branch = e () => (seq(float[N]) v) { d = Add(a, b) v = SequenceConstruct(d, a) }>
  y = ConcatFromSequence<axis = 0>(s)
}''', *[{"yes": np.array(yes), "a": floats(3), "b": floats(3)} for yes in (True, False)])
assert "known when compiling" in error_of(lambda: aipu.build(parsed('''g (bool yes, float[N] a) => (float[?] y) {
  s = If(yes) <then_branch = t () => (seq(float[N]) u) { u = SequenceConstruct(a, a) },
               else_branch = e () => (seq(float[N]) v) { v = SequenceConstruct(a) }>
  y = ConcatFromSequence<axis = 0>(s)
}'''), "m.aipu.bin"))
assert "must be a sequence" in error_of(lambda: aipu.build(parsed('''g (float[N] a) => (float[N] y) {
  i = Constant<value_int = 0>()
  y = SequenceAt(a, i)
}'''), "m.aipu.bin"))
assert "input 's' is a sequence of 1 tensor, a tensor is needed" in error_of(lambda: aipu.build(parsed('''
g (float[N] a) => (float[N] y) {
  s = SequenceConstruct(a)
  y = Relu(s)
}'''), "m.aipu.bin"))
"""

LOOPS = """
# what exporters write: an empty sequence grows by one tensor per trip and is joined afterwards
grows = '''grows (int64 trips, float[N,2] x)
    => (float[?,2] rows, float[N,?] columns, float[?,?,2] stack, int64 n, float[?,2] one) {
  yes = Constant<value = bool {1}>()
  none = SequenceEmpty()
  s = Loop(trips, yes, none) <body = body (int64 i, bool go, seq(float[N,2]) given) => (bool on, seq(float[N,2]) more) {
    on = Identity(go)
    f = Cast<to = 1>(i)
    y = Mul(x, f)
    more = SequenceInsert(given, y)
  }>
  rows = ConcatFromSequence<axis = 0>(s)
  columns = ConcatFromSequence<axis = -1>(s)
  stack = ConcatFromSequence<axis = 1, new_axis = 1>(s)
  n = SequenceLength(s)
  last = Constant<value_int = -1>()
  one = SequenceAt(s, last)
}'''
check(grows, *[{"trips": number(trips), "x": floats(3, 2)} for trips in (1, 2, 5)])

# two tensors per trip, behind two that are there before
check('''more (int64 trips, float[2] x) => (float[?] all, float[?,2] stack, int64 n) {
  yes = Constant<value = bool {1}>()
  first = SequenceConstruct(x, x)
  s, total = Loop(trips, yes, first, x) <body = body (int64 i, bool go, seq(float[2]) given, float[2] sum)
      => (bool on, seq(float[2]) more, float[2] next) {
    on = Identity(go)
    next = Add(sum, x)
    once = SequenceInsert(given, next)
    y = Neg(next)
    more = SequenceInsert(once, y)
  }>
  all = ConcatFromSequence<axis = 0>(s)
  stack = ConcatFromSequence<axis = 0, new_axis = 1>(s)
  n = SequenceLength(s)
}''', *[{"trips": number(trips), "x": floats(2)} for trips in (0, 1, 4)])

# rows that are repeated as often as data says, as PyTorch exports repeat_interleave(): cut into as many tensors as
# there are rows, and joined of tensors that differ in length
check('''repeats (float[N,3] x, int64[N] times, float[1,3] first)
    => (float[?,3] all, float[?,3] more, float[3] second) {
  extent = Shape(times)
  ones = ConstantOfShape<value = int64[1] {1}>(extent)
  rows = SplitToSequence<axis = 0>(x, ones)
  counts = SplitToSequence<axis = 0>(times, ones)
  yes = Constant<value = bool {1}>()
  none = SequenceEmpty()
  begun = SequenceConstruct(first, first)
  n = Squeeze(extent)
  s, t = Loop(n, yes, none, begun) <body = body (int64 i, bool go, seq(float[?,3]) given, seq(float[?,3]) other)
      => (bool on, seq(float[?,3]) made, seq(float[?,3]) longer) {
    on = Identity(go)
    row = SequenceAt(rows, i)
    count = SequenceAt(counts, i)
    three = Constant<value_ints = [3]>()
    shape = Concat<axis = 0>(count, three)
    again = Expand(row, shape)
    made = SequenceInsert(given, again)
    once = SequenceInsert(other, row)
    longer = SequenceInsert(once, again)
  }>
  all = ConcatFromSequence<axis = 0>(s)
  more = ConcatFromSequence<axis = 0>(t)
  squeezed = SplitToSequence<axis = 0, keepdims = 0>(x)
  one = Constant<value_int = 1>()
  second = SequenceAt(squeezed, one)
}''', *[{"x": floats(len(times), 3), "times": number(times), "first": floats(1, 3)}
       for times in ([2, 1, 3], [1, 4], [3, 0, 0, 1, 2])])
# joined along another axis: as many rows each time, though nobody knows how many
check('''wide (int64[M] times)
    => (float[?,?] all) {
  extent = Shape(times)
  n = Squeeze(extent)
  yes = Constant<value = bool {1}>()
  none = SequenceEmpty()
  counts = SplitToSequence<axis = 0>(times)
  s = Loop(n, yes, none) <body = body (int64 i, bool go, seq(float[?,2]) given) => (bool on, seq(float[?,2]) made) {
    on = Identity(go)
    count = SequenceAt(counts, i)
    two = Constant<value_ints = [2]>()
    shape = Concat<axis = 0>(count, two)
    row = Constant<value = float[1,2] {1.0, 2.0}>()
    again = Expand(row, shape)
    made = SequenceInsert(given, again)
  }>
  all = ConcatFromSequence<axis = 1>(s)
}''', {"times": number([2, 2])}, {"times": number([3])})

# a sequence of two states that every trip replaces, and one that it only reads
check('''states (int64 trips, float[N] a, float[N] b) => (float[?] all, float[?,N] seen) {
  yes = Constant<value = bool {1}>()
  pair = SequenceConstruct(a, b)
  s, seen = Loop(trips, yes, pair) <body = body (int64 i, bool go, seq(float[N]) given)
      => (bool on, seq(float[N]) next, float[N] row) {
    on = Identity(go)
    zero = Constant<value_int = 0>()
    one = Constant<value_int = 1>()
    p = SequenceAt(given, zero)
    q = SequenceAt(given, one)
    r = Add(p, q)
    next = SequenceConstruct(q, r)
    two = Constant<value_int = 2>()
    k = Mod(i, two)
    row = SequenceAt(pair, k)
  }>
  all = ConcatFromSequence<axis = 0>(s)
}''', *[{"trips": number(trips), "a": floats(3), "b": floats(3)} for trips in (1, 3, 6)])

# with a known number of trips anything goes: elements of growing shapes, a sequence as output
model = parsed('''steps (int64 trips, float[5] x) => (seq(float[?]) s) {
  yes = Constant<value = bool {1}>()
  none = SequenceEmpty()
  s = Loop(trips, yes, none) <body = body (int64 i, bool go, seq(float[?]) given) => (bool on, seq(float[?]) more) {
    on = Identity(go)
    axis = Constant<value_ints = [0]>()
    one = Constant<value_ints = [1]>()
    begin = Unsqueeze(i, axis)
    end = Add(begin, one)
    part = Slice(x, axis, end)
    front = Constant<value_int = 0>()
    more = SequenceInsert(given, part, front)
  }>
}''')
x = floats(5)
aipu.build(model, "m.aipu.bin", constants={"trips": number(3)})
found = aipu.load("m.aipu.bin").run({"x": x})
same(found["s"], reference(model, {"trips": number(3), "x": x})["s"], "s")
assert "operand 'trips' must be known when compiling" in error_of(lambda: aipu.build(model, "m.aipu.bin"))
# the backend converts for the values at hand
prepared = aipu.backend.prepare(model)
assert prepared.model is None
for trips in (2, 4, 2):
    same(prepared.run([number(trips), x])[0], reference(model, {"trips": number(trips), "x": x})["s"], trips)
# where that changes nothing, it converts once
assert aipu.backend.prepare(parsed(grows)).model is not None
"""

OUTSIDE = """
text = '''lists (seq(float[?,2]) xs, float[2] t) => (seq(float[?,2]) ys, seq(float[2]) both, int64 n) {
  axis = Constant<value_ints = [0]>()
  t2 = Unsqueeze(t, axis)
  ys = SequenceInsert(xs, t2)
  u = Neg(t)
  both = SequenceConstruct(t, u)
  n = SequenceLength(xs)
}'''
model = parsed(text)
xs, t = [floats(3, 2), floats(1, 2)], floats(2)
assert error_of(lambda: aipu.build(model, "m.aipu.bin")) == (
    "the model in memory: input 'xs' is a sequence; say how many elements it has: --sequence-length xs=N")
aipu.build(model, "m.aipu.bin", sequence_lengths={"xs": 2})
loaded = aipu.load("m.aipu.bin")
expected = reference(model, {"xs": xs, "t": t})
for found in (loaded.run({"xs": xs, "t": t}), loaded.run({"xs[0]": xs[0], "xs[1]": xs[1], "t": t}),
              loaded.session().run({"xs": xs, "t": t}), loaded.session().submit({"xs": xs, "t": t}).result()):
    assert list(found) == ["ys", "both", "n"]
    for name in expected:
        same(found[name], expected[name], name)
assert [spec.name for spec in loaded.inputs] == ["xs[0]", "xs[1]", "t"]
assert loaded.lists["ys"] == aipu.model.ListSpec("ys", "sequence", 3) and loaded.lists["xs"].length == 2
assert list(loaded.run({"xs": xs, "t": t}, ["both"])) == ["both"]
assert list(loaded.run({"xs": xs, "t": t}, ["ys[2]", "n"])) == ["ys[2]", "n"]
assert "converted for 2 elements, found 1" in error_of(lambda: loaded.run({"xs": xs[:1], "t": t}))
assert "a list of arrays is expected" in error_of(lambda: loaded.run({"xs": xs[0], "t": t}))
assert "no value for input 'xs'" in error_of(lambda: loaded.run({"t": t}))
assert "cannot have no value" in error_of(lambda: aipu.build(model, "m.aipu.bin", sequence_lengths={"xs": None}))
assert "'t'" in error_of(lambda: aipu.build(model, "m.aipu.bin", sequence_lengths={"xs": 1, "t": 1}))
# the same without a sequence whose length is said: the backend looks at what it is given
prepared = aipu.backend.prepare(model)
for k in (0, 1, 3):
    xs = [floats(2, 2) for _ in range(k)]
    for a, b in zip(prepared.run([xs, t]), reference(model, {"xs": xs, "t": t}).values()):
        same(a, b, k)

# optionals
text = '''optionals (optional(float[3]) o, optional(seq(float[2])) q)
    => (optional(float[3]) p, bool has, float[3] y, int64 n) {
  p = Identity(o)
  has = OptionalHasElement(o)
  y = If(has) <then_branch = t () => (float[3] u) { u = OptionalGetElement(o) },
               else_branch = e () => (float[3] v) { v = Constant<value_floats = [1.0, 2.0, 3.0]>() }>
  s = OptionalGetElement(q)
  n = SequenceLength(s)
}'''
model = parsed(text)
o, q = floats(3), [floats(2), floats(2)]
for length, value in ((1, o), (None, None)):
    aipu.build(model, "m.aipu.bin", sequence_lengths={"q": 2, "o": length})
    found = aipu.load("m.aipu.bin").run({"o": value, "q": q})
    same(found["p"], value, "p")
    same(found["has"], np.array(value is not None), "has")
    same(found["y"], o if value is not None else np.array([1, 2, 3], "f"), "y")
    same(found["n"], number(2), "n")
assert "an optional without a value" in error_of(lambda: aipu.load("m.aipu.bin").run({"o": o, "q": q}))
assert "has no element" in error_of(lambda: aipu.build(model, "m.aipu.bin", sequence_lengths={"q": None}))
"""

DESCRIPTION = """
model = parsed("said (float[N] x) => (float[N] y) { y = Relu(x) }")
model.doc_string = "what it does"
for key, value in (("author", "somebody"), ("version", "3")):
    model.metadata_props.add(key=key, value=value)
aipu.build(model, "m.aipu.bin")
for options in ({}, {"sandbox": True}):
    loaded = aipu.load("m.aipu.bin", **options)
    assert loaded.description == "what it does"
    assert loaded.metadata == {"author": "somebody", "version": "3"} and loaded.lists == {}
"""


def run(folder, script):
    python = python_with("numpy, onnx.parser, onnxruntime")
    (folder / "script.py").write_text(COMMON + script)
    run_python(python, folder / "script.py")


def test_inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(tmp_path, INSIDE)


def test_loops(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(tmp_path, LOOPS)


def test_inputs_and_outputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(tmp_path, OUTSIDE)


def test_what_a_model_says_about_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(tmp_path, DESCRIPTION)
