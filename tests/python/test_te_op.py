"""Operators of ONNX models that are tensor expressions: op.register(..., compute=...)."""

import os
import subprocess

import aipu
import numpy as np
import pytest
from aipu import op, te, tir
from onnx_text import node, write_model

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(aipu.__file__)))), "bin")
TARGETS = ["host", "X2_1204"]
T = op.dtype("float32", "float16")
F = op.dtype("float32")


def run(plugin, inputs, outputs, attributes=None, target="host", op_type="Op", symbolic=None):
    """The results of a model of one node."""
    shapes = symbolic or {name: value.shape for name, value in inputs.items()}
    given = [(name, value.dtype.name, shapes[name]) for name, value in inputs.items()]
    one = node(op_type, list(inputs), [name for name, _, _ in outputs], domain="example", **(attributes or {}))
    write_model("model.onnx", [one], given, outputs)
    report = aipu.build("model.onnx", target=target, plugins=[plugin])
    return aipu.load(report["output"]).run(inputs)


def declared(name):
    return next(o for o in op.operators() if o.name == name)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("target", TARGETS)
def test_one_line_is_an_operator(target):
    op.register(
        "example::Op",
        inputs={"x": op.tensor(T)},
        outputs={"y": op.tensor(T)},
        attributes={"lambd": 0.5},
        compute=lambda x, lambd: te.compute(
            x.shape, lambda *i: tir.Select(te.abs(x(*i)) > te.const(lambd, T), x(*i), te.const(0, T))
        ),
    )
    for dtype in ("float32", "float16"):
        x = np.random.default_rng(1).standard_normal((3, 37)).astype(dtype)
        y = run(declared("example::Op"), {"x": x}, [("y", dtype, (3, 37))], {"lambd": 0.75}, target)["y"]
        np.testing.assert_array_equal(y, np.where(np.abs(x) > 0.75, x, 0).astype(dtype))


def row_norm(x, gain, eps, cols):
    k = te.reduce_axis((0, cols), name="k")
    squares = te.compute(x.shape[:-1], lambda *i: te.sum(x(*i, k) * x(*i, k), axis=k), name="squares")
    length = te.compute(squares.shape, lambda *i: te.sqrt(squares(*i) / cols + eps), name="length")
    scaled = te.compute(x.shape, lambda *i: x(*i) / length(*i[:-1]) * gain[i[-1]], name="scaled")
    return scaled, length


@pytest.mark.parametrize("target", TARGETS)
def test_reductions_several_outputs_and_symbolic_extents(target):
    op.register(
        "example::Op",
        inputs={"x": op.tensor(F, "...rows", "cols"), "gain": op.tensor(F, "cols")},
        outputs={"y": op.tensor(F), "length": op.tensor(F)},
        attributes={"eps": 1e-6},
        compute=row_norm,
    )
    random = np.random.default_rng(2)
    for shape in ((1, 2, 5), (4, 3, 70)):
        x = random.standard_normal(shape).astype("float32")
        gain = random.standard_normal(shape[-1:]).astype("float32")
        outputs = [("y", "float32", ("N", "M", "K")), ("length", "float32", ("N", "M"))]
        symbolic = {"x": ("N", "M", "K"), "gain": ("K",)}
        results = run(declared("example::Op"), {"x": x, "gain": gain}, outputs, target=target, symbolic=symbolic)
        length = np.sqrt((x.astype("float64") ** 2).mean(-1) + 1e-6)
        np.testing.assert_allclose(results["length"], length, rtol=1e-5)
        np.testing.assert_allclose(results["y"], x / length[..., None] * gain, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_the_shape_follows_from_the_expression(target):
    op.register(
        "example::Op",
        inputs={"x": op.tensor("int32", "n")},
        outputs={"y": op.tensor("int32")},
        attributes={"times": int},
        compute=lambda x, n, times: te.compute((n * times, 2), lambda i, j: x[i % n] * 2 + j),
    )
    x = np.array([5, 7, 9], "int32")
    result = run(
        declared("example::Op"), {"x": x}, [("y", "int32", ("m", 2))], {"times": 2}, target, symbolic={"x": ("n",)}
    )
    expected = np.tile(x, 2)[:, None] * 2 + np.arange(2)
    np.testing.assert_array_equal(result["y"], expected)


def test_operands_that_are_left_out_and_variadic_ones():
    def total(bias, xs):
        def element(i):
            value = xs[0][i]
            for x in xs[1:]:
                value = te.max(value, x[i])
            return value if bias is None else value + bias[0]

        return te.compute(xs[0].shape, element)

    op.register(
        "example::Op",
        inputs={"bias": op.optional(F, 1), "xs": op.variadic(F, "n")},
        outputs={"y": op.tensor(F)},
        compute=total,
    )
    a, b = np.float32([1, 5, 2]), np.float32([4, 0, 3])
    write_model(
        "model.onnx",
        [node("Op", ["", "a", "b"], ["y"], domain="example")],
        [("a", "float32", (3,)), ("b", "float32", (3,))],
        [("y", "float32", (3,))],
    )
    built = aipu.build("model.onnx", plugins=[declared("example::Op")])
    np.testing.assert_array_equal(aipu.load(built["output"]).run({"a": a, "b": b})["y"], np.maximum(a, b))


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (lambda x: te.compute(x.shape, lambda i, j: x[i, j]), "a shape of 1 dimensions and a function of 2 indices"),
        (lambda x: te.compute(x.shape, lambda i: x[i].astype("int32")), '"y" is float32, but .* computes int32'),
        (lambda x: x, 'output "y" is an input'),
        (lambda x: te.scan(x, x, x), r"can't use aipu.te.scan \(there are: "),
        (lambda x: te.compute(x.shape, lambda i: x[i] if x[i] > 0 else -x[i]), "has no truth value"),
        (lambda x: te.compute(x.shape, lambda i: x + 1), "'x' where an element is meant"),
        (lambda x: te.compute(x.shape, lambda i: i / 2), "'/' of two integers is ambiguous"),
        (lambda x: 3, "must return what te.compute returns"),
    ],
)
def test_errors_are_one_line_with_the_place(compute, message):
    op.register("example::Op", inputs={"x": op.tensor(F, "n")}, outputs={"y": op.tensor(F)}, compute=compute)
    with pytest.raises(Exception, match=message) as error:
        run(declared("example::Op"), {"x": np.zeros(3, "float32")}, [("y", "float32", (3,))])
    assert "test_te_op.py:" in str(error.value) and "\n" not in str(error.value)


def test_compute_is_all_there_is():
    x, y = {"x": op.tensor(F, "n")}, {"y": op.tensor(F)}
    with pytest.raises(ValueError, match="compute makes shape superfluous"):
        op.register("example::Op", inputs=x, outputs=y, compute=lambda x: x, shape=lambda x: x)
    with pytest.raises(ValueError, match='extents of "y" follow from compute'):
        op.register("example::Op", inputs=x, outputs={"y": op.tensor(F, "n")}, compute=lambda x: x)


@pytest.mark.parametrize("target", TARGETS)
def test_three_ways_to_the_same_operator(target):
    subprocess.run([os.path.join(PROGRAMS, "aipu-make-model"), "soft_cap", "-o", "model.onnx"], check=True)
    custom = os.path.join(ROOT, "models", "custom_op")
    library = os.path.join(os.path.dirname(PROGRAMS), "lib", "libaipu_sample_plugin.so")
    results = []
    for plugin in (os.path.join(custom, "soft_cap_te.py"), os.path.join(custom, "soft_cap_dsl.py"), library):
        command = [os.path.join(PROGRAMS, "aipugb"), "model.onnx", "-o", "model.aipu.bin", "--plugin", plugin]
        subprocess.run([*command, "--target", target], check=True)
        model = aipu.load("model.aipu.bin")
        x = np.random.default_rng(3).standard_normal((4, 64)).astype("float32") * 50
        (result,) = model.run({model.inputs[0].name: x}).values()
        results.append(result)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(results[0], results[2], rtol=1e-5, atol=1e-5)
