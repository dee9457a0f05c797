"""Sums over the lanes of several vectors at a time."""

from aipu import script as S


def sums_of_lanes(vectors, count):
    """One vector: lane i is the sum of the lanes of vector i, of `count`, a power of two."""
    if count == 1:
        return vectors[0]
    half = count // 2
    zipped = []
    for i in S.unroll(half):
        zipped.append(S.vzip(vectors[i], vectors[i + half], "low") + S.vzip(vectors[i], vectors[i + half], "high"))
    return sums_of_lanes(zipped, half)


def sums_of_even_lanes(vectors, count):
    """The same of vectors whose odd lanes are 0: those are where the first turn puts the other half of the list."""
    if count == 1:
        return vectors[0]
    half = count // 2
    return sums_of_lanes([S.vzip(vectors[i], vectors[i + half], "even") for i in range(half)], half)


def sums_of_neighbours(vectors, count):
    """The same of integers by one instruction per pair of vectors, saturated."""
    if count == 1:
        return vectors[0]
    return sums_of_neighbours([S.vaddh(vectors[2 * i], vectors[2 * i + 1]) for i in range(count // 2)], count // 2)
