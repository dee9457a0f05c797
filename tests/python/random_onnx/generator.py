"""Random ONNX graphs, run here and by ONNX Runtime: ``random_onnx.py FIRST COUNT [--together N] [--without-passes]``.

A graph grows by a node at a time, which ONNX Runtime computes at once: a node that it refuses is left out, and what it
finds is the operand of later ones. So a rule only has to draw a node that is mostly right, and every value has shape,
type and numbers.

What jumps (Floor, comparisons, indices of the greatest) is asked of exact numbers only: of dyadic ones that came here
by sums, products and moves, which every implementation computes without rounding. All else is compared to rounding.

Prints a line of JSON: how many graphs and nodes, what differed, what did not convert.
"""

import collections
import random

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

F32, F64, F16, I64, I32, U8, BOOL = (
    np.dtype(name) for name in ("float32", "float64", "float16", "int64", "int32", "uint8", "bool")
)
MOST_ELEMENTS = 3000
GREATEST = 1e4  # of what is an operand of later nodes
TOLERANCES = {F16: 2e-2, F32: 3e-4, F64: 1e-6}  # of the greatest element


class Value:
    """A tensor of the graph. ``exact``: its floats were not rounded."""

    def __init__(self, name, array, exact):
        self.name, self.array, self.exact = name, array, exact

    @property
    def dtype(self):
        return self.array.dtype

    @property
    def shape(self):
        return self.array.shape

    @property
    def rank(self):
        return self.array.ndim


class Constant:
    """An operand that is drawn with its node. ``known``: it has to be an initializer."""

    def __init__(self, array, known=False):
        self.array, self.known = np.asarray(array), known


class Node:
    """What a rule draws. ``jumps``: a rounded operand may change the result by more than rounding; ``keeps``: exact
    operands have exact results."""

    def __init__(self, op, operands, outputs=1, jumps=False, keeps=False, domain="", **attributes):
        self.op, self.operands, self.outputs, self.domain = op, operands, outputs, domain
        self.jumps, self.keeps, self.attributes = jumps, keeps, attributes


class Refused(Exception):
    """The rule found no operands, or ONNX Runtime refuses the node."""


def session_options():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def reference(model, feed):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), session_options(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feed)


def info(name, array, shape=None):
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape if shape is None else shape)


def is_dyadic(array):
    wide = array.astype(np.float64) * 1024
    return bool(np.all(np.abs(wide) <= 2**20) and np.all(wide == np.floor(wide)))


class Generator:
    """Draws one graph; several may stand in one model, each with names of its own."""

    def __init__(self, seed, prefix=""):
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.prefix = prefix
        self.opset = 21
        self.nodes, self.inputs, self.symbols, self.constants = [], {}, {}, {}
        self.pool, self.outputs, self.refused = [], {}, collections.Counter()
        self.count = 0

    # ---- chance

    def chance(self, percent):
        return self.random.random() * 100 < percent

    def below(self, count):
        return self.random.randrange(count)

    def between(self, low, high):
        return self.random.randint(low, high)

    def one_of(self, *choices):
        return self.random.choice(choices)

    def some(self, choices, least=0):
        return sorted(self.random.sample(list(choices), self.between(least, len(choices))))

    # ---- values

    def shape(self, least=0, most=4):
        extents = [self.one_of(1, 2, 3, 3, 4, 5) for _ in range(self.between(least, most))]
        if extents and self.chance(2):
            extents[self.below(len(extents))] = 0
        return tuple(extents)

    def array(self, dtype, shape, exact=None):
        dtype = np.dtype(dtype)
        if dtype == BOOL:
            return self.numpy.integers(0, 2, shape).astype(BOOL)
        if dtype.kind in "iu":
            return self.numpy.integers(0 if dtype.kind == "u" else -5, 9, shape).astype(dtype)
        if self.chance(50) if exact is None else exact:
            return (self.numpy.integers(-16, 17, shape) / self.one_of(1, 2, 8)).astype(dtype)
        return self.numpy.standard_normal(shape).astype(dtype)

    def add_input(self, dtype=None, shape=None):
        dtype = dtype or self.one_of(F32, F32, F32, F32, F32, F32, I64, I32, BOOL, F16, F64, U8, np.dtype("int8"))
        shape = self.shape() if shape is None else shape
        name = f"{self.prefix}x{len(self.inputs)}"
        array = self.array(dtype, shape)
        value = Value(name, array, array.dtype.kind != "f" or is_dyadic(array))
        self.declare(name, array)
        self.pool.append(value)
        return value

    def declare(self, name, array, symbols=12):
        self.inputs[name] = array
        self.symbols[name] = [
            f"{name}_{axis}" if self.chance(symbols) else extent for axis, extent in enumerate(array.shape)
        ]

    def pick(self, fits):
        found = [value for value in self.pool if fits(value)]
        if not found:
            raise Refused
        return self.one_of(*(found[-4:] if self.chance(60) else found))

    def floats(self, least=0, most=9, dtype=None, exact=False):
        return self.pick(
            lambda v: (
                v.dtype.kind == "f"
                and least <= v.rank <= most
                and (dtype is None or v.dtype == dtype)
                and (v.exact or not exact)
            )
        )

    def numbers(self, least=0, most=9, exact=False):
        return self.pick(lambda v: v.dtype != BOOL and least <= v.rank <= most and (v.exact or not exact))

    def any(self, least=0, most=9):
        return self.pick(lambda v: least <= v.rank <= most)

    def integers(self, least=0):
        return self.pick(lambda v: v.dtype.kind in "iu" and v.rank >= least)

    def bools(self):
        return self.pick(lambda v: v.dtype == BOOL)

    def partner(self, value, exact=False, nonzero=False):
        """An operand of the same type that broadcasts with the value."""

        def fits(other):
            if other.dtype != value.dtype or (exact and not other.exact) or (nonzero and not np.all(other.array)):
                return False
            try:
                return len(np.broadcast_shapes(value.shape, other.shape)) < 6
            except ValueError:
                return False

        if self.chance(60):
            found = [other for other in self.pool if fits(other)]
            if found:
                return self.one_of(*found)
        shape = [1 if self.chance(30) else extent for extent in value.shape][self.below(value.rank + 1) :]
        array = self.array(value.dtype, shape, exact or None)
        if nonzero:
            array = np.where(array == 0, np.ones_like(array), array)
        return Constant(array)

    def axis(self, value, extra=0):
        rank = value.rank + extra
        if rank == 0:
            raise Refused
        return self.between(-rank, rank - 1)

    def axes(self, value, least=0):
        if value.rank < least:
            raise Refused
        return [axis - self.one_of(0, value.rank) for axis in self.some(range(value.rank), least)]

    # ---- nodes

    def name(self):
        self.count += 1
        return f"{self.prefix}v{self.count}"

    def step(self, rule):
        try:
            node = rule(self)
        except Refused:
            return False
        values = [operand for operand in node.operands if isinstance(operand, Value)]
        exact = all(value.exact for value in values)
        exact = exact and all(
            c.array.dtype.kind != "f" or is_dyadic(c.array) for c in node.operands if isinstance(c, Constant)
        )
        if node.jumps and not exact:
            return False
        names, feed, known = [], {}, {}
        for operand in node.operands:
            if operand is None:
                names.append("")
            elif isinstance(operand, Value):
                names.append(operand.name)
                feed[operand.name] = operand.array
            else:
                names.append(self.name())
                as_input = not operand.known and self.chance(15)
                (feed if as_input else known)[names[-1]] = operand.array
        outputs = [self.name() for _ in range(node.outputs)]
        proto = helper.make_node(
            node.op, names, outputs, name=outputs[0], domain=node.domain, **{
                key: value for key, value in node.attributes.items() if value is not None
            }
        )  # fmt: skip
        try:
            found = reference(self.alone(proto, feed, known), feed)
        except Exception:  # errors of its own
            self.refused[node.op] += 1
            return False
        if any(np.asarray(array).dtype == object or array.size > MOST_ELEMENTS for array in found):
            return False
        self.nodes.append(proto)
        self.constants.update(known)
        for name, array in feed.items():
            if not any(value.name == name for value in values):
                self.declare(name, array, 0)  # weights and lists have known extents
        for name, array in zip(outputs, found):
            whole = array.dtype.kind != "f" or (node.keeps and exact and is_dyadic(array))
            if array.dtype.kind in "fiu":
                with np.errstate(all="ignore"):
                    tame = array.size == 0 or bool(np.all(np.abs(array.astype(np.float64)) < GREATEST))
            else:
                tame = True
            self.outputs[name] = array
            if tame and array.ndim < 6:
                self.pool.append(Value(name, array, whole))
        return True

    def alone(self, proto, feed, known):
        results = [helper.make_empty_tensor_value_info(name) for name in proto.output]
        graph = helper.make_graph(
            [proto],
            "node",
            [info(name, array) for name, array in feed.items()],
            results,
            [numpy_helper.from_array(array, name) for name, array in known.items()],
        )
        return self.model_of(graph)

    def model_of(self, graph):
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def draw(self, rules):
        for _ in range(self.between(1, 3)):
            self.add_input(F32 if not self.pool else None)
        wanted, tries = self.between(2, 10), 0
        while len(self.nodes) < wanted and tries < 12 * wanted:
            tries += 1
            self.step(self.one_of(*rules))
            if self.chance(5):
                self.add_input()
        return self


def model_of(parts, every=False):
    """One model of some graphs, what they take and what they should give. ``every``: all values are outputs."""
    nodes, inputs, constants, outputs, expected = [], [], [], [], {}
    feed = {}
    for part in parts:
        used = {name for node in part.nodes for name in node.input}
        nodes += part.nodes
        taken = {name: array for name, array in part.inputs.items() if name in used}
        inputs += [info(name, array, part.symbols[name]) for name, array in taken.items()]
        feed.update(taken)
        constants += [numpy_helper.from_array(array, name) for name, array in part.constants.items()]
        for name, array in part.outputs.items():
            if every or name not in used or part.random.random() < 0.2:
                outputs.append(info(name, array, [None] * array.ndim))
                expected[name] = array
    graph = helper.make_graph(nodes, "random", inputs, outputs, constants)
    return parts[0].model_of(graph), feed, expected


def difference(found, expected):
    """Empty if they are the same but for rounding."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{list(found.shape)} for {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind != "f":
        wrong = found != expected
    else:
        a, b = found.astype(np.float64), expected.astype(np.float64)
        greatest = max(1.0, float(np.max(np.abs(b[np.isfinite(b)]), initial=0)))
        with np.errstate(invalid="ignore"):
            near = np.abs(a - b) <= TOLERANCES[expected.dtype] * greatest
        wrong = ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))
    if not wrong.any():
        return ""
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size}; at {list(place)} {found[place]} for {expected[place]}"
