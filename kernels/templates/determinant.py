"""Determinants and inverses of square matrices by elimination with partial pivoting. One matrix is one TEC's work."""

from aipu import script as S
from sharing import own_share


@S.prim_func
def determinant(
    x: S.ptr(X, "global"), out: S.ptr(X, "global"), copies: S.ptr(ACC, "global"), matrices: S.i32, n: S.i32
):
    """copies: workspace for the matrices, which elimination overwrites."""
    first, last = own_share(matrices)
    for m in range(first, last):
        a = copies + m * n * n
        for i in range(n * n):
            a[i] = S.cast(x[m * n * n + i], ACC)
        product = S.cast(1, ACC)
        for k in range(n):
            pivot = k
            for i in range(k + 1, n):
                if S.abs(a[i * n + k]) > S.abs(a[pivot * n + k]):
                    pivot = i
            if pivot != k:
                for j in range(k, n):
                    held = a[k * n + j]
                    a[k * n + j] = a[pivot * n + j]
                    a[pivot * n + j] = held
                product = S.cast(0, ACC) - product
            product = product * a[k * n + k]
            if a[k * n + k] != S.cast(0, ACC):
                for i in range(k + 1, n):
                    factor = a[i * n + k] / a[k * n + k]
                    for j in range(k + 1, n):
                        a[i * n + j] = a[i * n + j] - factor * a[k * n + j]
        out[m] = S.cast(product, X)


@S.prim_func
def inverse(x: S.ptr(X, "global"), out: S.ptr(X, "global"), copies: S.ptr(ACC, "global"), matrices: S.i32, n: S.i32):
    """copies: workspace for each matrix with the identity to the right of it, rows of 2 n."""
    first, last = own_share(matrices)
    for m in range(first, last):
        a = copies + m * n * n * 2
        for i in range(n):
            for j in range(n):
                a[i * 2 * n + j] = S.cast(x[(m * n + i) * n + j], ACC)
                a[i * 2 * n + n + j] = S.cast(1, ACC) if i == j else S.cast(0, ACC)
        for k in range(n):
            pivot = k
            for i in range(k + 1, n):
                if S.abs(a[i * 2 * n + k]) > S.abs(a[pivot * 2 * n + k]):
                    pivot = i
            if pivot != k:
                for j in range(k, 2 * n):
                    held = a[k * 2 * n + j]
                    a[k * 2 * n + j] = a[pivot * 2 * n + j]
                    a[pivot * 2 * n + j] = held
            scale = S.cast(1, ACC) / a[k * 2 * n + k]
            for j in range(k, 2 * n):
                a[k * 2 * n + j] = a[k * 2 * n + j] * scale
            for i in range(n):
                factor = a[i * 2 * n + k]
                if i != k:
                    for j in range(k, 2 * n):
                        a[i * 2 * n + j] = a[i * 2 * n + j] - factor * a[k * 2 * n + j]
        for i in range(n):
            for j in range(n):
                out[(m * n + i) * n + j] = S.cast(a[i * 2 * n + n + j], X)
