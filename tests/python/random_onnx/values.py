"""What rules are written with: types, values, and the nodes that they draw."""

import numpy as np

F32, F64, F16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL, TEXT = map(
    np.dtype, "float32 float64 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool object".split()
)
NUMBERS = [F32, F64, F16, I64, I32, I16, I8, U64, U32, U16, U8]
TYPES = [*NUMBERS, BOOL]
ONNX_TYPES = dict(zip([*TYPES, TEXT], (1, 11, 10, 7, 6, 5, 3, 13, 12, 4, 2, 9, 8)))


def is_dyadic(array):
    wide = array.astype(np.float64) * 1024
    return bool(np.all(np.abs(wide) <= 2**20) and np.all(wide == np.floor(wide)))


class Value:
    """A tensor of the graph. ``exact``: its floats were not rounded; ``coarse``: some were, to 16 bits or fewer."""

    def __init__(self, name, array, exact, coarse=False):
        self.name, self.array, self.exact, self.coarse = name, array, exact, coarse

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
    """What a rule draws. Operands are Values, Constants, outputs of nodes that were drawn with it, or None.

    ``jumps``: a rounded operand may change the result by more than rounding; ``keeps``: exact operands have exact
    results. ``captures``: Values that the node's sub-graphs take from outside; ``coarse``: they compute with 16 bits.
    """

    def __init__(self, op, operands, outputs=1, jumps=False, keeps=False, domain="", captures=(), coarse=False,
                 **attributes):  # fmt: skip
        self.op, self.operands, self.outputs, self.domain = op, operands, outputs, domain
        self.jumps, self.keeps, self.captures, self.coarse = jumps, keeps, captures, coarse
        self.attributes = attributes

    def __getitem__(self, place):
        return Output(self, place)


class Output:
    """An operand that is the result of another node of the same chain; of that, a rule returns the list of its nodes,
    and the outputs of the last one are what others see."""

    def __init__(self, node, place):
        self.node, self.place = node, place


class Refused(Exception):
    """The rule found no operands, or ONNX Runtime refuses the node."""
