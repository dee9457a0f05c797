"""Sums of products."""

from values import I32, I64, U32, U64, Constant, Node

WHOLE = (I32, I64, U32, U64)  # what is multiplied beside floats


def matmul(g):
    x = g.pick(lambda v: v.rank and (v.dtype.kind == "f" or v.dtype in WHOLE))
    k = x.shape[-1]
    shape = (k,) if g.chance(10) else (k, g.between(1, 6))
    if x.rank > 2 and g.chance(30):
        shape = (*(extent if g.chance(70) else 1 for extent in x.shape[:-2]), *shape)
    found = [v for v in g.pool if v.dtype == x.dtype and v.rank >= 2 and v.shape[-2] == k]
    other = g.one_of(*found) if found and g.chance(40) else Constant(g.array(x.dtype, shape))
    return Node("MatMul", [x, other], keeps=True)


def gemm(g):
    a = g.floats(2, 2)
    ta, tb = g.below(2), g.below(2)
    m, k = a.shape[::-1] if ta else a.shape
    n = g.between(1, 6)
    b = Constant(g.array(a.dtype, (n, k) if tb else (k, n)))
    c = Constant(g.array(a.dtype, g.one_of((), (1,), (n,), (m, 1), (1, n), (m, n)))) if g.chance(70) else None
    alpha, beta = g.one_of(1.0, 0.5, -2.0), g.one_of(1.0, 1.0, 0.25)
    return Node("Gemm", [a, b, c], keeps=True, transA=ta, transB=tb, alpha=alpha, beta=beta)


def einsum(g):
    x = g.floats(2, 3)
    if x.rank == 2:
        equation = g.one_of("ij->ji", "ij->j", "ij->", "ij,jk->ik", "ij,ij->i", "ij,kj->ki", "ij,jk,kl->il", "ii->i")
    else:
        equation = g.one_of("bij->bji", "bij,bjk->bik", "bij,jk->bik", "...ij,...jk->...ik", "bij->b", "bij,bij->bi")
    extents = dict(zip(equation.split("->")[0].split(",")[0].replace("...", "b"), x.shape))
    operands = [x]
    for term in equation.split("->")[0].split(",")[1:]:
        shape = [extents.setdefault(letter, g.between(1, 4)) for letter in term.replace("...", "b")]
        operands.append(Constant(g.array(x.dtype, shape)))
    return Node("Einsum", operands, equation=equation)


RULES = [*[matmul] * 4, gemm, einsum]
