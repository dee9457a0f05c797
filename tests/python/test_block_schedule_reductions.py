"""Reductions of block schedules: where they start, results of their own for the iterations of a loop; notes."""

import numpy as np
import pytest
from aipu import script as S
from aipu import te, tir
from aipu.schedule import Schedule, ScheduleError
from block_kernels import TARGETS, chain, check, floats, names, names_of_blocks, product


def sums(rows, columns, reducer=te.sum, dtype="float32", where=None):
    a = te.placeholder((rows, columns), dtype, name="A")
    k = te.reduce_axis((0, columns), name="k")
    condition = None if where is None else lambda i: where(a[i, k])
    b = te.compute((rows,), lambda i: reducer(a[i, k], axis=k, where=condition and condition(i)), name="B")
    return te.create_prim_func([a, b])


def integers(*shape):
    return np.random.default_rng(3).integers(-50, 50, shape).astype("int32")


# --- decompose_reduction ----------------------------------------------------------------------------------------------


def test_where_a_product_starts():
    sch = tir.Schedule(product())
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    init = sch.decompose_reduction("C", k)
    assert init.name == "C_init" and names(sch.get_loops(init)) == ["i", "j_init"]
    sch.vectorize(sch.get_loops(init)[-1])
    sch.vectorize(j)
    a, b = floats(12, 16), floats(16, 20)
    check(sch, [a, b], a @ b)


def test_starts_outside_of_all_loops():
    sch = tir.Schedule(product())
    init = sch.decompose_reduction("C", sch.get_loops("C")[0])
    assert names_of_blocks(sch) == ["C_init", "C"] and names(sch.get_loops(init)) == ["i_init", "j_init"]
    a, b = floats(12, 16), floats(16, 20)
    check(sch, [a, b], a @ b)


def test_starts_that_are_refused():
    sch = tir.Schedule(product())
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)
    with pytest.raises(ScheduleError, match="'C' starts its reduction outside of loop 'j'"):
        sch.decompose_reduction("C", j)
    sch.decompose_reduction("C", k)
    with pytest.raises(ScheduleError, match="'C' is no reduction with an init"):
        sch.decompose_reduction("C", k)
    other = tir.Schedule(chain())
    with pytest.raises(ScheduleError, match="'B' is no reduction"):
        other.decompose_reduction("B", other.get_loops("B")[0])


# --- rfactor ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factors", [[None, 8], [4, None], [8, None], [16, None], [None, 3]])
@pytest.mark.parametrize("which", [0, 1])
def test_partial_sums(factors, which):
    sch = tir.Schedule(sums(6, 10, dtype="int32"))
    _, k = sch.get_loops("B")
    part = sch.split(k, factors=factors)[which]
    block = sch.rfactor(part, which)
    assert block.name == "B_rf" and names_of_blocks(sch) == ["B_rf", "B"]
    assert names(sch.get_loops("B")) == ["i", part.name] and len(sch.get_loops(block)) == 3
    a = integers(6, 10)
    check(sch, [a], a.sum(axis=1, dtype="int32"))


@pytest.mark.parametrize("reducer, of_numpy", [(te.max, np.max), (te.min, np.min)])
def test_partial_extremes_side_by_side(reducer, of_numpy):
    sch = tir.Schedule(sums(5, 50, reducer, "int32"))
    i, k = sch.get_loops("B")
    _, lane = sch.split(k, factors=[None, 16])
    block = sch.rfactor(lane, -1)
    rows, outer, lane = sch.get_loops(block)
    sch.vectorize(lane)
    sch.bind_tec(sch.split(rows, factors=[4, None])[0])
    a = integers(5, 50)
    check(sch, [a], of_numpy(a, axis=1))


def test_partial_sums_under_a_condition():
    sch = tir.Schedule(sums(6, 21, dtype="int32", where=lambda e: e > 3))
    sch.rfactor(sch.split(sch.get_loops("B")[1], factors=[None, 8])[1])
    a = integers(6, 21)
    check(sch, [a], np.where(a > 3, a, 0).sum(axis=1, dtype="int32"))


def test_partial_sums_of_a_kernel_that_computes_a_part():
    @S.prim_func
    def some_rows(x: S.ptr("i32", "global"), y: S.ptr("i32", "global")):
        xb = S.match_buffer(x, shape=(12, 20))
        yb = S.match_buffer(y, shape=(12,))
        for i, k in S.grid(3, 20):
            with S.block("sum"):
                vi = S.axis.spatial(12, i * 4)
                vk = S.axis.reduce(20, k)
                if vk == 0:
                    yb[vi] = 7
                yb[vi] = yb[vi] + xb[vi, vk]

    x = integers(12, 20)
    sch = Schedule(some_rows)
    sch.rfactor(sch.split(sch.get_loops("sum")[1], factors=[None, 8])[1])
    expected = np.full(12, 99, "int32")  # what nobody computes stays
    expected[::4] = 7 + x[::4].sum(axis=1)
    check(sch, [x], expected)


def test_two_reduction_axes():
    a = te.placeholder((4, 6, 10), "int32", name="A")
    k, r = te.reduce_axis((0, 6), name="k"), te.reduce_axis((0, 10), name="r")
    b = te.compute((4,), lambda i: te.sum(a[i, k, r], axis=[k, r]), name="B")
    values = integers(4, 6, 10)
    for which in (1, 2):
        sch = tir.Schedule(te.create_prim_func([a, b]))
        sch.rfactor(sch.get_loops("B")[which])
        check(sch, [values], values.sum(axis=(1, 2), dtype="int32"))
    sch = tir.Schedule(te.create_prim_func([a, b]))
    _, k_loop, r_loop = sch.get_loops("B")
    sch.rfactor(sch.split(sch.fuse(k_loop, r_loop), factors=[None, 16])[1])
    check(sch, [values], values.sum(axis=(1, 2), dtype="int32"))


def test_parts_that_are_refused():
    sch = tir.Schedule(sums(6, 10))
    i, k = sch.get_loops("B")
    with pytest.raises(ScheduleError, match="loop 'i' is no reduction loop of block 'B'"):
        sch.rfactor(i)
    with pytest.raises(ScheduleError, match="factor_axis 2, which is out of range"):
        sch.rfactor(k, 2)
    both = tir.Schedule(sums(6, 10))
    with pytest.raises(ScheduleError, match="counts data too"):
        both.rfactor(both.split(both.fuse(*both.get_loops("B")), factors=[None, 4])[1])
    other = tir.Schedule(chain())
    with pytest.raises(ScheduleError, match="no reduction of a value"):
        other.rfactor(other.get_loops("B")[0])
    assert names_of_blocks(sch) == ["B"]


def test_random_reductions_compute_the_same():
    rng = np.random.default_rng(11)
    for _ in range(12):
        rows, columns = int(rng.integers(1, 9)), int(rng.integers(1, 40))
        sch = tir.Schedule(sums(rows, columns, dtype="int32"))
        loops = sch.get_loops("B")
        if rng.random() < 0.5:
            sch.reorder(*loops[::-1])
        factors = [None, int(rng.integers(1, 12))]
        part = sch.split(loops[1], factors=factors[:: rng.choice([-1, 1])])[rng.integers(0, 2)]
        block = sch.rfactor(part, int(rng.integers(-2, 2)))
        if rng.random() < 0.5:
            sch.decompose_reduction("B", sch.get_loops("B")[-1])
        if rng.random() < 0.5:
            sch.bind(sch.get_loops("B")[0], "threadIdx.x")
        if rng.random() < 0.5 and len(sch.get_loops(block)) == 3:
            sch.decompose_reduction(block, sch.get_loops(block)[0])
        a = integers(rows, columns)
        check(sch, [a], a.sum(axis=1, dtype="int32"), ["host"])


# --- notes, loops that are run once, memory ---------------------------------------------------------------------------


def test_notes_are_shown():
    sch = tir.Schedule(chain())
    sch.annotate("B", "mine", 3)
    sch.annotate(sch.get_loops("B")[0], "pragma_auto_unroll_max_step", 16)
    assert "# mine: 3" in sch.mod.script() and "# pragma_auto_unroll_max_step: 16" in sch.copy().mod.script()
    sch.unannotate("B", "mine")
    assert "mine" not in sch.mod.script()
    with pytest.raises(ScheduleError, match="there is no annotation 'mine'"):
        sch.unannotate("B", "mine")
    with pytest.raises(ScheduleError, match="'software_pipeline_stage' is not supported"):
        sch.annotate("B", "software_pipeline_stage", 1)
    a = floats(12, 20)
    check(sch, [a], (a + 1) * 2)


def test_unit_loops_and_looking():
    sch = tir.Schedule(chain())
    unit = sch.add_unit_loop("B")
    assert unit.extent == 1 and names(sch.get_loops("B")) == ["i0", "i1", "u"]
    sch.bind(sch.add_unit_loop(sch.get_loops("C")[0]), "blockIdx.x")
    assert [b.name for b in sch.get_child_blocks(sch.get_block("root"))] == ["B", "C"]
    assert [b.name for b in sch.get_child_blocks(unit)] == ["B"] and sch.get_child_blocks("B") == []
    assert [b.name for b in sch.get_output_blocks("root")] == ["C"] and sch.get_loops(sch.get_block("root")) == []
    with pytest.raises(ScheduleError, match="blockize of a block schedule is not supported"):
        sch.blockize(unit)
    a = floats(12, 20)
    check(sch, [a], (a + 1) * 2)


def test_aligned_rows():
    sch = tir.Schedule(chain())
    sch.storage_align("B", 0, axis=-2, factor=32, offset=1)
    assert "33" in str(sch.mod["main"].kernel.text())  # the stride of a row of 20
    with pytest.raises(ScheduleError, match="'C' is a parameter"):
        sch.storage_align("C", 0, axis=0, factor=32, offset=1)
    with pytest.raises(ScheduleError, match="'B' has no dimension 2"):
        sch.storage_align("B", 0, axis=2, factor=32, offset=1)
    a = floats(12, 20)
    check(sch, [a], (a + 1) * 2)


@pytest.mark.parametrize("target", TARGETS)
def test_a_reduction_in_all_ways(target):
    sch = tir.Schedule(sums(16, 128))
    i, k = sch.get_loops("B")
    block = sch.rfactor(sch.split(k, factors=[None, 8])[1])
    sch.decompose_reduction(block, sch.get_loops(block)[1])
    sch.set_scope(block, 0, "global")
    a = floats(16, 128)
    check(sch, [a], a.sum(axis=1), [target])
