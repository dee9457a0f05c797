"""Many nodes of one family, each with what it should give, in one model: one conversion for all of them; and the
functions that expectations share."""

import aipu
import numpy as np
from onnx_text import node, write_model


def floats(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Family:
    def __init__(self, opset=28, domain=""):
        self.opset, self.domain = opset, domain
        self.nodes, self.inputs, self.constants, self.expected = [], {}, {}, {}
        self.open = {}

    def add(self, op, operands, expected, constants=(), symbols=(), tolerance=1e-5, **attributes):
        """``operands``: arrays, None where one is left out; those at the places ``constants`` are initializers, those
        at ``symbols`` have extents that only a run knows (all, or along the axes that a dict says). ``expected``: an
        array, or a list of one per output with None for outputs that are not compared."""
        label = f"{op}_{len(self.nodes)}"
        names = []
        for place, array in enumerate(operands):
            names.append("" if array is None else f"{label}_in{place}")
            if array is not None:
                (self.constants if place in constants else self.inputs)[names[-1]] = np.asarray(array)
            if place in symbols:
                self.open[names[-1]] = symbols[place] if isinstance(symbols, dict) else range(np.ndim(array))
        results = expected if isinstance(expected, (list, tuple)) else [expected]
        outputs = ["" if array is None else f"{label}_out{i}" for i, array in enumerate(results)]
        for name, array in zip(outputs, results):
            if name:
                self.expected[name] = (np.asarray(array), tolerance)
        self.nodes.append(node(op, names, outputs, self.domain, **attributes))

    def declared(self, name, array):
        """The shape that the model says an input has."""
        axes = self.open.get(name, ())
        return [f"{name}_{k}" if k in axes else extent for k, extent in enumerate(array.shape)]

    def check(self, folder, backend=None, **options):
        """``options`` are those of aipu.build."""
        path = folder / "family.onnx"
        inputs = [(name, str(array.dtype), self.declared(name, array)) for name, array in self.inputs.items()]
        outputs = [(name, str(array.dtype), array.shape) for name, (array, _) in self.expected.items()]
        write_model(path, self.nodes, inputs, outputs, self.constants, self.opset)
        report = aipu.build(path, folder / "family.aipu.bin", **options)
        found = aipu.load(report["output"], backend=backend).run(self.inputs)
        for name, (array, tolerance) in self.expected.items():
            assert found[name].dtype == array.dtype, name
            if array.dtype == object:
                np.testing.assert_array_equal(found[name], array, err_msg=name)
                continue
            np.testing.assert_allclose(found[name], array, rtol=tolerance, atol=tolerance, err_msg=name)
