"""Random numbers: those of another implementation are others, so what is compared is shape, type, and that they are
numbers."""

from values import F16, F32, F64, I32, I64, ONNX_TYPES, Constant, Node, Refused


def numbers(g):
    op = g.one_of("RandomNormal", "RandomUniform")
    dtype = g.one_of(None, F32, F64, F16)
    node = Node(op, [], shape=list(g.shape(1)), dtype=dtype and ONNX_TYPES[dtype], seed=g.one_of(None, 3.0))
    return [node, Node("IsNaN", [node])]


def numbers_like(g):
    x = g.floats()
    node = Node(g.one_of("RandomNormalLike", "RandomUniformLike"), [x], seed=1.0)
    return [node, Node("IsNaN", [node])]


def draws(g):
    if g.chance(50):
        x = Constant(g.numpy.random(g.shape()).astype(g.one_of(F32, F64)))
        node = Node("Bernoulli", [x], dtype=g.one_of(None, ONNX_TYPES[F32], ONNX_TYPES[I64]))
    else:
        x = g.floats(2, 2, dtype=F32)
        if 0 in x.shape:
            raise Refused
        node = Node("Multinomial", [x], sample_size=g.between(1, 5), dtype=ONNX_TYPES[g.one_of(I32, I64)])
    return [node, Node("Shape", [node])]


RULES = [numbers, numbers_like, draws]
