"""Block schedules of tensor expressions: each primitive by its result and by what it makes of the loops."""

import os
import random
import re

import aipu
import numpy as np
import pytest
from aipu import schedule, te
from aipu.schedule import Schedule, ScheduleError
from block_kernels import TARGETS, addition, call, chain, check, elementwise, floats, names, names_of_blocks, product

# --- loops ------------------------------------------------------------------------------------------------------------


def test_split_names_extents_and_guards():
    sch = Schedule(elementwise((100,)))
    (i,) = sch.get_loops("B")
    outer, middle, inner = sch.split(i, factors=[3, None, 4])
    assert [int(loop.extent) for loop in (outer, middle, inner)] == [3, 9, 4]
    text = sch.mod.script()
    assert "where(" in text and "100" in text
    with pytest.raises(ScheduleError, match="no longer in the function"):
        sch.vectorize(i)
    check(sch, [floats(100)], floats(100) * 2)

    exact = Schedule(elementwise((96,)))
    exact.split(exact.get_loops("B")[0], factors=[None, 8])
    assert "where" not in exact.mod.script() and "if" not in exact.mod["main"].native.text()

    bare = Schedule(elementwise((te.var("n"),)))
    bare.split(bare.get_loops("B")[0], factors=[None, 8], disable_predication=True)
    assert "where" not in bare.mod.script()


def test_split_refuses():
    sch = Schedule(elementwise((100,)))
    (i,) = sch.get_loops("B")
    for factors, why in [([None, None], "more than one"), ([4, 5], "do not cover"), ([0, None], "at least 1")]:
        with pytest.raises(ScheduleError, match=why):
            sch.split(i, factors=factors)
    sch.vectorize(i)
    with pytest.raises(ScheduleError, match="annotated"):
        sch.split(i, factors=[None, 4])


def test_fuse_and_reorder():
    sch = Schedule(elementwise())
    i, j = sch.get_loops("B")
    fused = sch.fuse(i, j)
    assert int(fused.extent) == 240 and len(sch.get_loops("B")) == 1
    outer, inner = sch.split(fused, factors=[None, 7])
    sch.reorder(inner, outer)
    assert names(sch.get_loops("B")) == [inner.name, outer.name]
    check(sch, [floats(12, 20)], floats(12, 20) * 2)

    sch = Schedule(chain())
    with pytest.raises(ScheduleError, match="not the only child"):
        sch.fuse(sch.get_loops("B")[0], sch.get_loops("C")[1])
    with pytest.raises(ScheduleError, match="one nest"):
        sch.reorder(sch.get_loops("B")[0], sch.get_loops("C")[0])
    with pytest.raises(ScheduleError, match="twice"):
        sch.reorder(*[sch.get_loops("B")[0]] * 2)


def test_reductions_in_any_order():
    a, b = floats(12, 16), floats(16, 20)
    for permutation in ["ijk", "kij", "ikj", "jki"]:
        sch = Schedule(product())
        loops = dict(zip("ijk", sch.get_loops("C")))
        sch.reorder(*[loops[letter] for letter in permutation])
        sch.vectorize(loops["j"])
        check(sch, [a, b], a @ b, ["X2_1204"])
    fused = Schedule(product())
    fused.fuse(*fused.get_loops("C"))  # data and reduction in one loop
    check(fused, [a, b], a @ b)


def test_reduction_loops_are_not_shared():
    sch = Schedule(product())
    k = sch.get_loops("C")[2]
    for primitive in (sch.vectorize, sch.parallel, sch.bind_tec, lambda loop: sch.bind(loop, "threadIdx.x")):
        with pytest.raises(ScheduleError, match="reduction loop of block 'C'|16 iterations"):
            primitive(k)


def test_kinds_of_loops_in_the_text():
    sch = Schedule(elementwise((4, 8)))
    i, j = sch.get_loops("B")
    sch.parallel(i)
    sch.unroll(j)
    text = sch.mod["main"].native.text()
    assert "in parallel(4)" in text and "in unrolled(8)" in text
    sch.bind(i, "blockIdx.x")
    assert "thread blockIdx.x" in sch.mod.script()
    with pytest.raises(ScheduleError, match="unknown thread tag"):
        sch.bind(i, "threadIdx.w")
    with pytest.raises(ScheduleError, match="there are 4 TECs"):
        sch.bind_tec(j)


def test_names():
    sch = Schedule(chain())
    assert sch.get_block("B").name == "B"
    with pytest.raises(ScheduleError, match="no block is named 'X', there are B, C"):
        sch.get_block("X")
    assert [b.name for b in sch.get_producers("C")] == ["B"] and [b.name for b in sch.get_consumers("B")] == ["C"]
    assert aipu.tir.Schedule is Schedule


# --- copies and places ------------------------------------------------------------------------------------------------


def test_rows_of_a_matrix_are_copied_at_once():
    sch = Schedule(elementwise((64, 100)))
    i, j = sch.get_loops("B")
    io, ii = sch.split(i, factors=[None, 8])
    jo, ji = sch.split(j, factors=[None, 32])
    sch.reorder(io, jo, ii, ji)
    sch.read_at(jo, "B", 0, "lsram")
    sch.write_at(jo, "B", 0, "lsram")
    check(sch, [floats(64, 100)], floats(64, 100) * 2)
    kernel = sch.mod["main"].kernel.text()
    assert kernel.count("dma_copy") == 2 and "100" in kernel


def test_compute_at_and_back():
    expected = (floats(12, 20) + 1) * 2
    sch = Schedule(chain())
    sch.compute_at("B", sch.get_loops("C")[0])
    assert re.search(r"B = allocate\(\(1, 20\)", sch.mod["main"].native.text())
    check(sch, [floats(12, 20)], expected)
    sch = Schedule(chain())
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    assert re.search(r"B = allocate\(\(1, 20\)", sch.mod["main"].native.text())
    check(sch, [floats(12, 20)], expected)


def test_regions_of_neighbours():
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((60,), lambda i: b[i] + b[i + 4], name="C")
    sch = Schedule(te.create_prim_func([a, c]))
    outer, _ = sch.split(sch.get_loops("C")[0], factors=[None, 8])
    sch.compute_at("B", outer)
    assert re.search(r"B = allocate\(\(12\)", sch.mod["main"].native.text())  # the tile and its halo
    x = floats(64)
    check(sch, [x], (x[:60] + x[4:] + 2).astype("float32"))


def test_inlining():
    expected = (floats(12, 20) + 1) * 2
    sch = Schedule(chain())
    sch.compute_inline("B")
    assert "allocate" not in sch.mod["main"].native.text()
    check(sch, [floats(12, 20)], expected)
    sch = Schedule(chain())
    sch.reverse_compute_inline("C")
    assert names_of_blocks(sch) == ["B"]
    check(sch, [floats(12, 20)], expected)


def test_places_that_are_refused():
    sch = Schedule(chain())
    before = sch.mod.script()
    refusals = [
        (lambda: sch.compute_at("C", sch.get_loops("B")[0]), "output"),
        (lambda: sch.compute_at("B", sch.get_loops("B")[0]), "inside loop"),
        (lambda: sch.reverse_compute_at("B", sch.get_loops("C")[0]), "no producer"),
        (lambda: sch.compute_inline("C"), "output"),
        (lambda: sch.cache_read("C", 3, "lsram"), "there is no buffer 3"),
        (lambda: sch.set_scope("C", 0, "lsram"), "parameter"),
        (lambda: sch.write_at(sch.get_loops("B")[0], "C", 0, "lsram"), "not inside loop"),
    ]
    for primitive, why in refusals:
        with pytest.raises(ScheduleError, match=why):
            primitive()
    assert sch.mod.script() == before
    sums = Schedule(product())
    with pytest.raises(ScheduleError, match="behind its reduction loop 'k'"):
        sums.write_at(sums.get_loops("C")[2], "C", 0, "local")
    assert names_of_blocks(sums) == ["C"]


def test_a_cached_product():
    a, b = floats(12, 16), floats(16, 20)
    sch = Schedule(product())
    i, j, k = sch.get_loops("C")
    io, ii = sch.split(i, factors=[None, 4])
    ko, ki = sch.split(k, factors=[None, 8])
    sch.reorder(io, ko, ki, ii, j)
    sch.bind_tec(io)
    sch.read_at(ko, "C", 0, "lsram")
    sch.read_at(ko, "C", 1, "lsram")
    sch.write_at(io, "C", 0, "lsram")
    sch.vectorize(j)
    text = sch.mod["main"].native.text()
    assert "A_lsram = allocate((4, 8)" in text and "B_lsram = allocate((8, 20)" in text
    assert "C_lsram = allocate((4, 20)" in text
    check(sch, [a, b], a @ b)


def test_a_copy_for_one_reader():
    a = te.placeholder((32,), name="A")
    b = te.compute((32,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((32,), lambda i: a[i] * 3.0, name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    sch.cache_read("C", 0, "local", consumer_blocks=["C"])
    assert [t.name for t in sch.get_block("B").reads] == ["A"]
    assert [t.name for t in sch.get_block("C").reads] == ["A_local"]
    x, y, z = floats(32), np.zeros(32, "float32"), np.zeros(32, "float32")
    call(sch, "X2_1204", x, y, z)
    np.testing.assert_allclose(z, x * 3, rtol=1e-6)


# --- modules and templates --------------------------------------------------------------------------------------------


def test_a_module_is_scheduled_further():
    first = Schedule(elementwise((64,)))
    first.split(first.get_loops("B")[0], factors=[None, 8])
    second = Schedule(first.mod)
    second.vectorize(second.get_loops("B")[1])
    assert "vectorized" in second.mod.script() and "vectorized" not in first.mod.script()
    check(second, [floats(64)], floats(64) * 2)
    x, y = floats(64), np.zeros(64, "float32")
    aipu.build(second.mod, target="host")(x, y)
    np.testing.assert_array_equal(y, x * 2)
    lowered = aipu.tir.BuildManager().lower(second.mod)
    assert "vload" in str(lowered)


@pytest.mark.parametrize("n", [1024, 1000, 5, 40000])
def test_ready_made(n):
    x, y = floats(n), floats(n)[::-1].copy()
    check(schedule.elementwise_binary(addition(n), "X2_1204", "C"), [x, y], x + y, ["X2_1204"])
    check(schedule.elementwise_unary(elementwise((n,)), "X2_1204", "B"), [x], x * 2, ["X2_1204"])
    with pytest.raises(AssertionError, match="The schedule only support a input and a output with same dtype."):
        schedule.elementwise_unary(addition(n), "X2_1204", "C")


def test_cycles_of_a_scheduled_addition():
    x, out = floats(1024), np.zeros(1024, "float32")
    naive = call(Schedule(addition(1024)), "X2_1204", x, x, out).profile(x, x, out)
    ready = call(schedule.elementwise_binary(addition(1024), "X2_1204", "C"), "X2_1204", x, x, out)
    ready = ready.profile(x, x, out)
    print(f"vector add of 1,024 floats on X2_1204: {naive} cycles as written, {ready} scheduled")
    assert ready * 8 < naive


# --- random schedules -------------------------------------------------------------------------------------------------


def kernels(rng):
    def vector(n):
        a = te.placeholder((n,), name="A")
        return te.create_prim_func([a, te.compute((n,), lambda i: a[i] * 2.0 + 1.0, name="B")])

    def sums(m, n):
        a = te.placeholder((m, n), name="A")
        k = te.reduce_axis((0, n), name="k")
        return te.create_prim_func([a, te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="B")])

    def window(n):
        a = te.placeholder((n + 2,), name="A")
        b = te.compute((n + 2,), lambda i: a[i] + 1.0, name="B")
        return te.create_prim_func([a, te.compute((n,), lambda i: b[i] + b[i + 1] * b[i + 2], name="C")])

    m, n, k = (rng.randint(1, 21) for _ in range(3))
    return rng.choice(
        [
            lambda: (vector(n), [(n,)], lambda a: a * 2 + 1),
            lambda: (elementwise((m, n)), [(m, n)], lambda a: a * 2),
            lambda: (sums(m, n), [(m, n)], lambda a: a.sum(axis=1)),
            lambda: (chain((m, n)), [(m, n)], lambda a: (a + 1) * 2),
            lambda: (product(m, n, k), [(m, k), (k, n)], lambda a, b: a @ b),
            lambda: (window(n), [(n + 2,)], lambda a: a[:-2] + 1 + (a[1:-1] + 1) * (a[2:] + 1)),
        ]
    )()


def a_primitive(rng, sch):
    """One at random; whether it is legal is the schedule's matter."""
    block = rng.choice(names_of_blocks(sch))
    other = rng.choice(names_of_blocks(sch))
    loops = sch.get_loops(block)
    scope = rng.choice(["local", "lsram", "global"])
    choice = rng.randrange(14)
    if choice in (3, 4, 5, 6):
        target = rng.choice(sch.get_loops(other) or [None])
        if target is None:
            return
        if choice == 3:
            sch.compute_at(block, target)
        elif choice == 4:
            sch.reverse_compute_at(block, target)
        elif choice == 5:
            sch.read_at(target, block, 0, scope)
        else:
            sch.write_at(target, block, 0, scope)
    elif choice == 7:
        sch.cache_read(block, rng.randrange(2), scope)
    elif choice == 8:
        sch.cache_write(block, 0, scope)
    elif choice == 9:
        rng.choice([sch.compute_inline, sch.reverse_compute_inline])(block)
    elif not loops:
        return
    elif choice in (0, 1):
        factors = [None, rng.randint(1, 9), rng.randint(1, 5)][: rng.randint(2, 3)]
        rng.shuffle(factors)
        sch.split(rng.choice(loops), factors=factors)
    elif choice == 2:
        sch.reorder(*rng.sample(loops, rng.randint(1, len(loops))))
    elif choice == 10:
        start = rng.randrange(len(loops))
        sch.fuse(*loops[start : start + 2])
    elif choice == 11:
        sch.vectorize(loops[-1])
    elif choice == 12:
        rng.choice([sch.unroll, sch.parallel])(rng.choice(loops))
    else:
        sch.bind(loops[0], rng.choice(["threadIdx.x", "blockIdx.x"]))


def test_random_schedules_compute_the_same():
    seed = int(os.environ.get("AIPU_FUZZ_SEED", "1"))
    count = int(os.environ.get("AIPU_FUZZ_COUNT", "40"))
    for k in range(count):
        rng = random.Random(seed * 100003 + k)
        function, shapes, reference = kernels(rng)
        sch = Schedule(function)
        done = 0
        for _ in range(rng.randint(1, 12)):
            try:
                a_primitive(rng, sch)
                done += 1
            except ScheduleError:
                pass
        inputs = [np.random.default_rng(k).integers(-4, 5, shape).astype("float32") for shape in shapes]
        expected = reference(*inputs).astype("float32")
        text = f"seed {seed}, case {k}, {done} primitives:\n{sch.mod.script()}"
        for target in ["interpreter"] + (TARGETS if k % 8 == 0 else []):
            out = np.full(expected.shape, 77, "float32")
            try:
                aipu.build(sch.mod, target=target)(*inputs, out)
            except RuntimeError as error:
                raise AssertionError(f"{target}: {error}\n{text}") from error
            np.testing.assert_allclose(out, expected, err_msg=f"{target}: {text}")
