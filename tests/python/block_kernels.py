"""What the tests of block schedules share: functions to schedule, and how they are run."""

import re

import aipu
import numpy as np
from aipu import te

TARGETS = ["host", "X2_1204"]


def call(sch, target, *args):
    """Builds and runs; the executor."""
    executor = aipu.tir.BuildManager(target=target).build(sch.mod)
    executor(*args)
    return executor


def floats(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype("float32")


def names(loops):
    return [loop.name for loop in loops]


def names_of_blocks(sch):
    return re.findall(r'block\("(\w+)"\)', sch.mod.script())


def elementwise(shape=(12, 20), name="B"):
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a(*i) * 2.0, name=name)
    return te.create_prim_func([a, b])


def addition(n):
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    return te.create_prim_func([a, b, te.compute((n,), lambda i: a[i] + b[i], name="C")])


def chain(shape=(12, 20)):
    """Two blocks, B = A + 1 and C = B * 2."""
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a(*i) + 1.0, name="B")
    c = te.compute(shape, lambda *i: b(*i) * 2.0, name="C")
    return te.create_prim_func([a, c])


def product(m=12, n=20, k=16):
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c])


def check(sch, inputs, expected, targets=TARGETS):
    for target in targets:
        out = np.full_like(expected, 99)
        executor = call(sch, target, *inputs, out)
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    return executor
