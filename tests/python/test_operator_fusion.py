"""Operators of one's own on the whole road: optional and variadic operands, fusion with the neighbours, operators that
are Python objects. Results are compared with NumPy, fusion is counted in the program.
"""

import functools
import linecache
import os
import re
import subprocess

import aipu
import numpy as np
import pytest
from aipu import op
from aipu import script as S
from onnx_text import node, write_model

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(aipu.__file__)))), "bin")
BLEND = os.path.join(ROOT, "models", "custom_op", "blend.py")
JOIN = os.path.join(ROOT, "models", "custom_op", "join.py")
TARGETS = ["host", "X2_1204"]

both_targets = pytest.mark.parametrize("target", TARGETS)


def kernels(path):
    """The kernels that a program launches, without their numbers."""
    text = subprocess.run([f"{PROGRAMS}/aipudump", path, "--commands"], check=True, capture_output=True, text=True)
    return re.findall(r"\btec\[\d+\] k\d+_(\w+)\(", text.stdout)


def launches(path):
    """The kernels that compute, without those that move elements or put padding around an image."""
    return [name for name in kernels(path) if "transpose" not in name and "surround" not in name]


def convolved(x, weights):
    """3 x 3, padded by one, in double precision."""
    padded = np.pad(x.astype("f8"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    n, _, h, w = x.shape
    y = np.zeros((n, len(weights), h, w))
    for i in range(3):
        for j in range(3):
            y += np.einsum("ncij,oc->noij", padded[:, :, i : i + h, j : j + w], weights[:, :, i, j].astype("f8"))
    return y


def hard_swish(x):
    return x * np.clip(x / 6 + 0.5, 0, 1)


class BetweenConvolutions:
    """conv, an operator of one output, HardSwish, conv; the operator's other operands are given."""

    def __init__(self, tmp_path, op_type, operands, domain="example", **attributes):
        random = np.random.default_rng(11)
        self.first = random.standard_normal((16, 3, 3, 3)).astype("f4") * np.float32(0.3)
        self.second = random.standard_normal((8, 16, 3, 3)).astype("f4") * np.float32(0.1)
        self.x = random.standard_normal((2, 3, 20, 24)).astype("f4")
        self.arrays = {"x": self.x}
        constants, inputs = {"first": self.first, "second": self.second}, [("x", "float32", ("N", 3, "H", "W"))]
        for name, array in operands.items():
            if array is None:
                continue
            if array.ndim == 4 and array.shape[0] == 2:
                inputs.append((name, "float32", ("N", 16, "H", "W")))
                self.arrays[name] = array
            else:
                constants[name] = array
        names = ["" if array is None else name for name, array in operands.items()]
        nodes = [
            node("Conv", ["x", "first"], ["a"], pads=[1, 1, 1, 1]),
            node(op_type, ["a", *names], ["b"], domain, **attributes),
            node("HardSwish", ["b"], ["c"]),
            node("Conv", ["c", "second"], ["y"], pads=[1, 1, 1, 1]),
        ]
        self.model = tmp_path / "model.onnx"
        write_model(self.model, nodes, inputs, [("y", "float32", ("N", 8, "H", "W"))], constants)
        self.operands = operands

    def expected(self, value):
        middle = value(convolved(self.x, self.first), *self.operands.values())
        return convolved(hard_swish(middle), self.second)


def blended(x, scale, *others, limit=6.0):
    total = x if scale is None else x * scale
    for other in others:
        total = total + other
    return np.clip(total, -limit, limit)


def blend_operands(scale, others):
    random = np.random.default_rng(5)
    shapes = {"full": (2, 16, 20, 24), "channel": (16, 1, 1), "one": (), "column": (24,)}
    operands = {"scale": random.standard_normal((16, 1, 1)).astype("f4") if scale else None}
    for i, kind in enumerate(others):
        operands[f"other{i}"] = random.standard_normal(shapes[kind]).astype("f4")
    if not scale and not others:
        del operands["scale"]
    return operands


@both_targets
@pytest.mark.parametrize(
    "scale, others",
    [
        (True, ["full"]),
        (False, []),
        (True, []),
        (False, ["full", "channel"]),
        (True, ["full", "full", "one", "channel"]),
    ],
)
def test_blend_is_part_of_the_convolution_before_it(tmp_path, target, scale, others):
    graph = BetweenConvolutions(tmp_path, "Blend", blend_operands(scale, others), limit=1.5)
    path = str(tmp_path / "model.aipu.bin")
    command = [f"{PROGRAMS}/aipugb", str(graph.model), "-o", path, "--plugin", BLEND, "--target", target, "-q"]
    subprocess.run(command, check=True)
    for backend in (None, "interp"):
        result = aipu.load(path, backend=backend).run(graph.arrays)["y"]
        expected = graph.expected(lambda x, scale=None, *rest: blended(x, scale, *rest, limit=1.5))
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    launched = launches(path)
    assert len(launched) == 2, launched

    # The same with one of ours instead: the operator costs no kernel.
    ours = BetweenConvolutions(tmp_path, "Clip", {"low": np.float32(-1.5), "high": np.float32(1.5)}, domain="")
    aipu.build(ours.model, path, target=target)
    assert len(launches(path)) == 2


@both_targets
def test_a_column_that_no_epilogue_can_index_makes_a_kernel_of_its_own(tmp_path, target):
    graph = BetweenConvolutions(tmp_path, "Blend", blend_operands(True, ["column"]))
    report = aipu.build(graph.model, target=target, plugins=[BLEND])
    result = aipu.load(report["output"]).run(graph.arrays)["y"]
    np.testing.assert_allclose(result, graph.expected(blended), rtol=1e-4, atol=1e-4)


@both_targets
@pytest.mark.parametrize("gap", [True, False])
@pytest.mark.parametrize("lengths", [(5,), (3, 0, 70), (1, 2, 3, 4, 5, 6, 7)])
def test_join_takes_any_number_of_vectors(tmp_path, target, gap, lengths):
    xs = {f"x{i}": np.arange(n, dtype="i4") + 100 * i for i, n in enumerate(lengths)}
    inputs = [(name, "int32", (f"N{name}",)) for name in xs] + ([("gap", "int32", (1,))] if gap else [])
    write_model(
        tmp_path / "join.onnx",
        [node("Join", ["gap" if gap else "", *xs], ["y"], "example")],
        inputs,
        [("y", "int32", ("M",))],
    )
    report = aipu.build(tmp_path / "join.onnx", target=target, plugins=[JOIN])
    arrays = dict(xs, gap=np.array([-1], "i4")) if gap else xs
    parts = []
    for x in xs.values():
        parts += [x, np.array([-1] if gap else [], "i4")]
    np.testing.assert_array_equal(aipu.load(report["output"]).run(arrays)["y"], np.concatenate(parts[:-1]))


def test_join_refuses_no_vector(tmp_path):
    write_model(tmp_path / "join.onnx", [node("Join", [], ["y"], "example")], [], [("y", "int32", ("M",))])
    with pytest.raises(RuntimeError, match="vectors are expected"):
        aipu.build(tmp_path / "join.onnx", plugins=[JOIN])


SPLIT = """
from aipu import op
from aipu import script as S

T = op.dtype("float32")


def shapes(x, parts, rest):
    return [[1]] + [[x[0] // parts] for _ in range(rest)]


@op.register(
    "example::Parts",
    inputs={"x": op.tensor(T, "n")},
    outputs={"count": op.tensor("int32"), "rest": op.variadic(T)},
    attributes={"parts": int},
    shape=shapes,
)
@S.prim_func
def split(x: S.ptr(T, "global"), count: S.ptr("int32", "global"), rest: S.ptr(T, "global"), n: S.i32):
    size = n // parts
    for k in S.unroll(len(rest)):
        for i in range(S.get_local_id(), size, S.get_local_size()):
            rest[k][i] = x[k * size + i]
    if S.get_local_id() == 0:
        count[0] = len(rest)
"""


@both_targets
@pytest.mark.parametrize("parts", [1, 3, 20])
def test_any_number_of_outputs(tmp_path, target, parts):
    (tmp_path / "split.py").write_text(SPLIT)
    names = [f"y{i}" for i in range(parts)]
    write_model(
        tmp_path / "split.onnx",
        [node("Parts", ["x"], ["count", *names], "example", parts=parts)],
        [("x", "float32", ("N",))],
        [("count", "int32", (1,))] + [(name, "float32", (f"M{name}",)) for name in names],
    )
    report = aipu.build(tmp_path / "split.onnx", target=target, plugins=[tmp_path / "split.py"])
    x = np.arange(60, dtype="f4")
    results = aipu.load(report["output"]).run({"x": x})
    assert results["count"][0] == parts
    for i, name in enumerate(names):
        np.testing.assert_array_equal(results[name], x[i * (60 // parts) : (i + 1) * (60 // parts)])


@both_targets
def test_operators_that_are_python_objects(tmp_path, target):
    """Defined in a function, with names of the function, of the module and of another function's closure."""
    T = op.dtype("float32", "float16")
    steepness = 1.25
    bend = lambda v: v * steepness

    def positive(alpha):
        return None if alpha > 0 else "alpha must be positive"

    @op.elementwise(
        "example::Bent",
        inputs={"x": op.tensor(T), "slope": op.optional(T)},
        outputs={"y": op.tensor(T)},
        attributes={"alpha": 0.5, "mode": "soft"},
        check=positive,
    )
    def bent(x, slope, alpha):
        factor = alpha if slope is None else slope
        if mode == "hard":  # noqa: F821
            return S.max(bend(x), 0.0)
        return S.vsel(bend(x), x * factor, x > 0)

    def reference(x, slope=None, alpha=0.5, mode="soft"):
        if mode == "hard":
            return np.maximum(x * steepness, 0)
        return np.where(x > 0, x * steepness, x * (alpha if slope is None else slope))

    slope = np.linspace(-1, 1, 16, dtype="f4").reshape(16, 1, 1)
    for operands, attributes in [({}, {"alpha": 0.25}), ({"slope": slope}, {}), ({}, {"mode": "hard"})]:
        graph = BetweenConvolutions(tmp_path, "Bent", operands, **attributes)
        for plugin in (bent, bent.operator):
            report = aipu.build(graph.model, tmp_path / "out.bin", target=target, plugins=[plugin])
            assert report["warnings"] == []
            assert len(launches(report["output"])) == 2
            result = aipu.load(report["output"]).run(graph.arrays)["y"]
            expected = graph.expected(functools.partial(reference, **attributes))
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
    graph = BetweenConvolutions(tmp_path, "Bent", {}, alpha=-1.0)
    with pytest.raises(RuntimeError, match="alpha must be positive"):
        aipu.build(graph.model, tmp_path / "out.bin", plugins=[bent])


CELLS = [
    """
from aipu import op
from aipu import script as S

T = op.dtype("float32")
VL = op.lanes("float32")
OFFSET = 3
""",
    """
def shifted(v):
    return v + S.cast(OFFSET + extra, "float32")
""",
    """
@op.register("example::Shift", inputs={"x": op.tensor(T, "...n")}, outputs={"y": op.tensor(T, "...n")},
             attributes={"extra": 1})
@S.prim_func
def shift(x: S.ptr(T, "global"), y: S.ptr(T, "global"), n: S.i32):
    for i in range(S.get_local_id() * VL, n, S.get_local_size() * VL):
        mask = S.tail_mask(S.min(n - i, VL), VL)
        S.vstore(shifted(S.vload(x + i, lanes=VL, mask=mask)), y + i, mask=mask)
""",
]


def run_cells():
    """The names of the cells, run as a notebook does it: their texts are known to linecache."""
    names = {"__name__": "__main__"}
    for i, cell in enumerate(CELLS):
        linecache.cache[f"<cell {i}>"] = (len(cell), None, cell.splitlines(keepends=True), f"<cell {i}>")
        exec(compile(cell, f"<cell {i}>", "exec"), names)
    return names


def run_text():
    names = {}
    text = "".join(CELLS)
    exec(text, names)
    return names


@both_targets
@pytest.mark.parametrize("run", [run_cells, run_text])
def test_operators_of_a_notebook(tmp_path, target, run):
    names = run()
    write_model(
        tmp_path / "shift.onnx",
        [node("Shift", ["x"], ["y"], "example", extra=2)],
        [("x", "float32", ("N", 7))],
        [("y", "float32", ("N", 7))],
    )
    report = aipu.build(tmp_path / "shift.onnx", target=target, plugins=[names["shift"]])
    x = np.arange(35, dtype="f4").reshape(5, 7)
    np.testing.assert_array_equal(aipu.load(report["output"]).run({"x": x})["y"], x + 5)


def test_kernels_see_the_defaults_of_attributes(tmp_path):
    """In PySim and where a kernel is built alone; the module needs no such names."""
    names = run_cells()
    kernel = names["shift"]
    executor = aipu.tir.BuildManager(target="X2_1204").build(kernel)
    x = np.arange(21, dtype="f4")
    for run in (kernel, executor):
        y = np.empty_like(x)
        run(x, y, x.size)
        np.testing.assert_array_equal(y, x + 4)
    with op.using(kernel, extra=10):
        y = np.empty_like(x)
        aipu.tir.BuildManager(target="host").build(kernel)(x, y, x.size)
        np.testing.assert_array_equal(y, x + 13)
        kernel(x, y, x.size)
        np.testing.assert_array_equal(y, x + 13)
    assert "extra" not in names


def test_errors_of_python_operators_name_their_place(tmp_path):
    @op.elementwise("example::Broken", inputs={"x": op.tensor("float32")}, outputs={"y": op.tensor("float32")})
    def broken(x):
        return x + missing  # noqa: F821

    line = broken.__code__.co_firstlineno + 2
    graph = BetweenConvolutions(tmp_path, "Broken", {})
    with pytest.raises(ValueError, match=rf"{re.escape(os.path.basename(__file__))}:{line}") as error:
        aipu.build(graph.model, plugins=[broken])
    assert str(error.value).count("error: ") == 1
    with pytest.raises(TypeError, match="plugins: expected a file, a module or a function declared by aipu.op"):
        aipu.build(graph.model, plugins=[3])


@both_targets
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_chains_are_one_kernel(tmp_path, target, dtype):
    """Of ours and one's own, whatever the operands' shapes are, with ranks of which none has a convolution."""
    nodes = [
        node("Neg", ["x"], ["a"]),
        node("Blend", ["a", "", "row", "one"], ["b"], "example", limit=3.0),
        node("Blend", ["b", "column"], ["c"], "example"),
        node("Abs", ["c"], ["y"]),
    ]
    shapes = {"x": (3, 5, 7), "row": (7,), "one": (), "column": (5, 1)}
    random = np.random.default_rng(3)
    arrays = {name: random.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    inputs = [(name, dtype, shape) for name, shape in shapes.items()]
    write_model(tmp_path / "chain.onnx", nodes, inputs, [("y", dtype, (3, 5, 7))])
    report = aipu.build(tmp_path / "chain.onnx", target=target, plugins=[BLEND])
    assert len(kernels(report["output"])) == 1
    x, row, one, column = (arrays[name].astype("f8") for name in shapes)
    expected = np.abs(np.clip(np.clip(-x + row + one, -3, 3) * column, -6, 6))
    result = aipu.load(report["output"]).run(arrays)["y"]
    np.testing.assert_allclose(result, expected, rtol=1e-5 if dtype == "float32" else 4e-3, atol=1e-3)


@both_targets
def test_a_matrix_product_takes_it_along(tmp_path, target):
    random = np.random.default_rng(4)
    x, w, scale = (random.standard_normal(shape).astype("f4") for shape in ((9, 33), (33, 21), (21,)))
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Blend", ["a", "scale"], ["y"], "example")]
    write_model(
        tmp_path / "matmul.onnx",
        nodes,
        [("x", "float32", ("N", 33))],
        [("y", "float32", ("N", 21))],
        {"w": w, "scale": scale},
    )
    report = aipu.build(tmp_path / "matmul.onnx", target=target, plugins=[BLEND])
    assert len(kernels(report["output"])) == 1
    expected = np.clip(x.astype("f8") @ w * scale, -6, 6)
    np.testing.assert_allclose(aipu.load(report["output"]).run({"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


VOTE = """
from aipu import op
from aipu import script as S

T = op.dtype("float32", "int32")


@op.elementwise(
    "example::Vote",
    inputs={"on": op.optional("bool"), "xs": op.variadic(T)},
    outputs={"y": op.tensor("bool")},
    attributes={"least": int, "above": 0},
)
def vote(on, xs):
    count = S.cast(0, f"int32x{lanes}")
    for x in xs:
        count = count + S.vsel(S.cast(1, f"int32x{lanes}"), S.cast(0, f"int32x{lanes}"), x > above)
    result = count >= least
    return result if on is None else result & on


lanes = op.lanes("float32")
"""


@both_targets
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("count, on", [(1, False), (3, True), (20, False)])
def test_masks_and_many_operands(tmp_path, target, dtype, count, on):
    (tmp_path / "vote.py").write_text(VOTE)
    random = np.random.default_rng(count)
    arrays = {f"x{i}": random.integers(-3, 4, (6, 11)).astype(dtype) for i in range(count)}
    inputs = [(name, dtype, ("N", 11)) for name in arrays]
    names = ["on" if on else "", *arrays]
    expected = sum((x > 1).astype(int) for x in arrays.values()) >= max(count // 3, 1)
    if on:
        inputs.append(("on", "bool", ("N", 11)))
        arrays["on"] = random.integers(0, 2, (6, 11)).astype(bool)
        expected = expected & arrays["on"]
    vote = node("Vote", names, ["y"], "example", least=max(count // 3, 1), above=1)
    write_model(tmp_path / "vote.onnx", [vote], inputs, [("y", "bool", ("N", 11))])
    report = aipu.build(tmp_path / "vote.onnx", target=target, plugins=[tmp_path / "vote.py"])
    np.testing.assert_array_equal(aipu.load(report["output"]).run(arrays)["y"], expected)


def test_an_operator_without_a_node_is_a_warning(tmp_path):
    graph = BetweenConvolutions(tmp_path, "Blend", blend_operands(True, []))
    report = aipu.build(graph.model, plugins=[BLEND, JOIN])
    assert report["warnings"] == [f"plugin '{JOIN}' is not used: the model has no node that it claims"]
