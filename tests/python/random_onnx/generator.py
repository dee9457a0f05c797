"""Random ONNX graphs.

A graph grows by a node (or a chain of a few) at a time, which ONNX Runtime computes at once: what it refuses is left
out, and what it finds is the operand of later nodes. So a rule only has to draw a node that is mostly right, and every
value has shape, type and numbers.

What jumps (Floor, comparisons, indices of the greatest) is asked of exact numbers only: of dyadic ones that came here
by sums, products and moves, which every implementation computes without rounding. All else is compared to rounding.
"""

import collections
import contextlib
import random

import numpy as np
import onnx
from coverage import full_name, kernels
from onnx import helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime_errors
from reference import info, is_comparable, reference
from values import BOOL, F16, F32, NUMBERS, TEXT, TYPES, Constant, Node, Output, Refused, Value, is_dyadic

MOST_ELEMENTS = 3000
GREATEST = 1e4  # of what is an operand of later nodes
WORDS = "a b ab ba abc Abc ABC the quick brown fox été Straße 1 2 -3 0.5".split() + ["", "a b", "x,y"]
# Most in the newest; ONNX Runtime expands some functions in older ones only.
OPSETS = (28, 28, 28, 24, 25, 21, 23, 18, 28, 26)
OPSETS_WITH_KERNELS = (24, 21)  # for operators of which the newest version only has more types
SEEDS_PER_OPSET = 100  # one after another: graphs of a merged model have one opset


def opset_of(seed):
    return OPSETS[seed // SEEDS_PER_OPSET % len(OPSETS)]


class Group:
    """A node, or a chain of them, of which others see the last one's outputs."""

    def __init__(self, protos, types):
        self.protos, self.types = protos, types

    @property
    def outputs(self):
        return [name for name in self.protos[-1].output if name]

    @property
    def inputs(self):
        """Of all its nodes and, captured, of their sub-graphs."""
        made = {name for proto in self.protos for name in proto.output}
        return [name for proto in self.protos for name in taken(proto) if name not in made]


def taken(proto):
    """What a node reads."""
    names = [name for name in proto.input if name]
    for attribute in proto.attribute:
        graph = attribute.g
        inside = {v.name for v in graph.input} | {t.name for t in graph.initializer}
        inside |= {name for node in graph.node for name in node.output}
        names += [name for node in graph.node for name in taken(node) if name not in inside]
        names += [v.name for v in graph.output if v.name not in inside]
    return names


class Chance:
    """What rules draw numbers with."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)

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

    def shape(self, least=0, most=4):
        extents = [self.one_of(1, 2, 3, 3, 4, 5) for _ in range(self.between(least, most))]
        if extents and self.chance(2):
            extents[self.below(len(extents))] = 0
        return tuple(extents)

    def array(self, dtype, shape, exact=None):
        dtype = np.dtype(dtype)
        if dtype == TEXT:
            words = np.empty(shape, object)
            words.ravel()[:] = self.random.choices(WORDS, k=words.size)
            return words
        if dtype == BOOL:
            return self.numpy.integers(0, 2, shape).astype(BOOL)
        if dtype.kind in "iu":
            return self.numpy.integers(0 if dtype.kind == "u" else -5, 9, shape).astype(dtype)
        if self.chance(50) if exact is None else exact:
            return (self.numpy.integers(-16, 17, shape) / self.one_of(1, 2, 8)).astype(dtype)
        return self.numpy.standard_normal(shape).astype(dtype)


class Generator(Chance):
    """Draws one graph; several may stand in one model, each with names of its own."""

    def __init__(self, seed, prefix=""):
        super().__init__(seed)
        self.seed, self.prefix, self.opset = seed, prefix, opset_of(seed)
        self.favourite = self.one_of(*[F32] * 16, *TYPES, TEXT)
        self.groups, self.inputs, self.symbols, self.constants = [], {}, {}, {}
        self.pool, self.outputs, self.refused = [], {}, collections.Counter()
        self.coarse = set()  # names of outputs that are no better than 16-bit floats
        self.count = 0
        self.outer = None  # the Generator around this one, of a body

    # ---- values

    def any_type(self):
        return self.favourite if self.chance(50) else self.one_of(*[F32] * 8, *TYPES, TEXT)

    def add_input(self, dtype=None, shape=None, open_axes=None):
        """``open_axes``: how many of the first extents may be symbols; the others are parameters of an operator."""
        if self.outer:
            raise Refused  # a body has the inputs that its node gives it
        dtype = dtype or self.any_type()
        shape = self.shape() if shape is None else shape
        name = f"{self.prefix}x{len(self.inputs)}"
        array = self.array(dtype, shape)
        value = Value(name, array, array.dtype.kind != "f" or is_dyadic(array))
        self.declare(name, array, open_axes=array.ndim if open_axes is None else open_axes)
        self.pool.append(value)
        return value

    def declare(self, name, array, open_axes=0):
        self.inputs[name] = array
        # 0 beside 1, of which only a run knows, is not broadcast here: no symbol is 0.
        self.symbols[name] = [
            f"{name}_{axis}" if axis < open_axes and extent and self.chance(12) else extent
            for axis, extent in enumerate(array.shape)
        ]

    def is_of_known_extents(self, value):
        """Whether that is sure; of what is computed, extents may hang on numbers that only a run knows."""
        return value.name in self.symbols and not any(isinstance(extent, str) for extent in self.symbols[value.name])

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
        return self.pick(lambda v: v.dtype in NUMBERS and least <= v.rank <= most and (v.exact or not exact))

    def any(self, least=0, most=9):
        return self.pick(lambda v: least <= v.rank <= most)

    def integers(self, least=0):
        return self.pick(lambda v: v.dtype.kind in "iu" and v.rank >= least)

    def bools(self):
        return self.pick(lambda v: v.dtype == BOOL)

    def texts(self, least=0):
        found = [value for value in self.pool if value.dtype == TEXT and value.rank >= least]
        return self.one_of(*found) if found else self.add_input(TEXT, self.shape(least))

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
        if self.outer:
            return self.outer.name()
        self.count += 1
        return f"{self.prefix}v{self.count}"

    def step(self, rule):
        """Whether the graph has grown."""
        try:
            drawn = rule(self)
        except Refused:
            return False
        chain = drawn if isinstance(drawn, list) else [drawn]
        operands = [operand for node in chain for operand in [*node.operands, *node.captures]]
        exact = all(operand.exact for operand in operands if isinstance(operand, Value)) and all(
            c.array.dtype.kind != "f" or is_dyadic(c.array) for c in operands if isinstance(c, Constant)
        )
        if any(node.jumps for node in chain) and not exact:
            return False
        feed, known = {}, {}
        protos = self.protos_of(chain, feed, known)
        try:
            model = self.alone(protos, feed, known)
            found = self.reference(model, feed)
        except Exception:  # errors of its own
            self.refused.update(proto.op_type for proto in protos)
            return False
        if not all(is_comparable(value) for value in found):
            return False
        if any(array.size > MOST_ELEMENTS for array in found if isinstance(array, np.ndarray)):
            return False
        group = Group(protos, types_of(model))
        self.groups.append(group)
        self.constants.update(known)
        existing = {operand.name for operand in operands if isinstance(operand, Value)}
        for name, array in feed.items():
            if name not in existing:
                self.declare(name, array)  # weights and lists have known extents
        keeps = exact and all(node.keeps for node in chain)
        coarse = any(part.coarse for part in [*chain, *operands] if isinstance(part, (Node, Value)))
        for name, value in zip(group.outputs, found):
            self.add_output(name, value, keeps, coarse)
        return True

    def add_output(self, name, value, keeps, coarse):
        self.outputs[name] = value
        exact = not isinstance(value, np.ndarray) or value.dtype.kind != "f" or (keeps and is_dyadic(value))
        coarse = not exact and (coarse or value.dtype == F16)
        if coarse:
            self.coarse.add(name)
        if not isinstance(value, np.ndarray):
            return
        tame = True
        if value.dtype.kind in "fiu":
            with np.errstate(all="ignore"):
                tame = value.size == 0 or bool(np.all(np.abs(value.astype(np.float64)) < GREATEST))
        if tame and value.ndim < 6:
            self.pool.append(Value(name, value, exact, coarse))

    def protos_of(self, chain, feed, known):
        """The chain's nodes in ONNX; of its operands, what they are fed and what they know."""
        names = {node: [self.name() for _ in range(node.outputs)] for node in chain}
        protos = []
        for node in chain:
            inputs = [self.operand_name(operand, names, feed, known) for operand in node.operands]
            for value in node.captures:
                feed[value.name] = value.array
            attributes = {key: value for key, value in node.attributes.items() if value is not None}
            outputs = names[node]
            protos.append(helper.make_node(node.op, inputs, outputs, name=outputs[0], domain=node.domain, **attributes))
        return protos

    def operand_name(self, operand, names, feed, known):
        if operand is None:
            return ""
        if isinstance(operand, Node):
            operand = operand[0]
        if isinstance(operand, Output):
            return names[operand.node][operand.place]
        if isinstance(operand, Value):
            feed[operand.name] = operand.array
            return operand.name
        name = self.name()
        as_input = not operand.known and not self.outer and self.chance(15)
        (feed if as_input else known)[name] = operand.array
        return name

    def reference(self, model, feed):
        """What ONNX Runtime computes, as an older opset if that is the one it has kernels for; ONNX's own reference
        where it has none."""
        try:
            return reference(model, feed)
        except onnxruntime_errors.NotImplemented:
            for opset in OPSETS_WITH_KERNELS:
                if opset < self.opset:
                    with contextlib.suppress(onnxruntime_errors.NotImplemented, onnxruntime_errors.InvalidGraph):
                        older = onnx.ModelProto.FromString(model.SerializeToString())
                        older.opset_import[0].version = opset
                        return reference(older, feed)
            if any(full_name(node.domain, node.op_type) in kernels() for node in model.graph.node):
                raise
            return [np.asarray(value) for value in ReferenceEvaluator(model).run(None, feed)]

    def alone(self, protos, feed, known):
        """A model of these nodes. ``feed``: what it takes; ``known``: its constants."""
        results = [helper.make_empty_tensor_value_info(name) for name in protos[-1].output if name]
        inputs = [info(name, array) for name, array in feed.items()]
        constants = [numpy_helper.from_array(array, name) for name, array in known.items()]
        return self.model_of(helper.make_graph(protos, "node", inputs, results, constants))

    def model_of(self, graph):
        opsets = {"": self.opset, "com.microsoft": 1, "ai.onnx.ml": 5}
        return helper.make_model(graph, opset_imports=[helper.make_opsetid(*entry) for entry in opsets.items()],
                                 ir_version=11)  # fmt: skip

    def draw(self, rules):
        for _ in range(self.between(1, 3)):
            self.add_input(self.favourite if not self.pool else None)
        wanted, tries = self.between(2, 10), 0
        while len(self.groups) < wanted and tries < 12 * wanted:
            tries += 1
            self.step(self.one_of(*rules))
            if self.chance(5):
                self.add_input()
        return self

    def body(self, values):
        """A generator of a sub-graph of this one's next node, which sees ``values`` and nothing else."""
        inner = Generator(self.below(2**40), self.prefix)
        inner.outer, inner.opset, inner.pool = self, self.opset, list(values)
        return inner


def types_of(model):
    """The ONNX types of the values of a model, where they follow."""
    try:
        graph = shape_inference.infer_shapes(model).graph
    except Exception:  # what it does not know
        graph = model.graph
    found = {tensor.name: helper.make_tensor_type_proto(tensor.data_type, None) for tensor in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        if value.type.WhichOneof("value"):
            found[value.name] = value.type
    return found


def output_info(name, value, group):
    if isinstance(value, np.ndarray):
        return info(name, value, [None] * value.ndim)
    if name in group.types:
        return helper.make_value_info(name, group.types[name])
    return helper.make_empty_tensor_value_info(name)


def model_of(parts, every=False):
    """One model of some graphs, what they take and what they should give. ``every``: all values are outputs."""
    nodes, inputs, constants, outputs, expected = [], [], [], [], {}
    feed = {}
    for part in parts:
        used = {name for group in part.groups for name in group.inputs}
        taken_inputs = {name: array for name, array in part.inputs.items() if name in used}
        inputs += [info(name, array, part.symbols[name]) for name, array in taken_inputs.items()]
        feed.update(taken_inputs)
        constants += [numpy_helper.from_array(array, name) for name, array in part.constants.items()]
        chance = random.Random(part.prefix)
        for group in part.groups:
            nodes += group.protos
            for name in group.outputs:
                if every or name not in used or chance.random() < 0.2:
                    outputs.append(output_info(name, part.outputs[name], group))
                    expected[name] = part.outputs[name]
    graph = helper.make_graph(nodes, "random", inputs, outputs, constants)
    return parts[0].model_of(graph), feed, expected
