"""Memory in two halves: what is needed next is computed before what there is is used. Also hints that are shown."""

import aipu
import numpy as np
import pytest
from aipu import te, tir

TARGETS = ["interpreter", "host", "X2_1204"]


def nodes(stmt, kind):
    found = []
    tir.stmt_functor.post_order_visit(stmt, lambda n: found.append(n) if isinstance(n, kind) else None)
    return found


def row_by_row(n, columns=24, factor=8):
    """C = (A + 1) * 2, whose B is computed for each tile."""
    a = te.placeholder((n, columns), name="A")
    b = te.compute((n, columns), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, columns), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    jo, _ = s[c].split(j, factor)
    s[b].compute_at(s[c], jo)
    return a, b, c, s, i, jo


def test_what_it_looks_like():
    a, b, c, s, _, jo = row_by_row(4)
    s[b].double_buffer()
    s[b].set_scope("local")
    shown = te.schedule.ScheduleOps(s, None)
    assert [n.attr_key for n in nodes(shown, tir.AttrStmt)] == ["double_buffer_scope"]
    body = aipu.lower(s, [a, c])["main"].body
    (memory,) = nodes(body, tir.Allocate)
    assert [int(e) for e in memory.extents] == [2, 1, 8] and memory.scope == "local"
    first, loop = memory.body.seq  # the first tile, then the loop over tiles
    assert isinstance(loop, tir.For) and loop.loop_var.name == "j.outer" and "j.outer" not in str(first)
    assert isinstance(loop.body[0], tir.IfThenElse) and len(nodes(loop.body[0], tir.BufferStore)) == 1
    assert not nodes(body, tir.AttrStmt)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [1, 5, 0])
def test_tiles(target, n):
    size = te.size_var("n")
    a, b, c, s, i, jo = row_by_row(size, 21)
    s[b].double_buffer()
    s[c].parallel(i)
    x = np.random.default_rng(1).random((n, 21)).astype("float32")
    out = np.zeros_like(x)
    aipu.build(s, [a, c], target)(x, out)
    np.testing.assert_allclose(out, (x + 1) * 2, rtol=1e-6)


@pytest.mark.parametrize("target", [*TARGETS, "cuda"])
def test_two_panels_of_a_product(target, cuda):
    n, k = 32, 24
    a, b = te.placeholder((k, n), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, n), lambda i, j: te.sum(a[r, i] * b[r, j], axis=r), name="C")
    s = te.create_schedule(c.op)
    sum_of = s.cache_write(c, "local")
    panels = [s.cache_read(t, "shared", [sum_of]) for t in (a, b)]
    io, ii = s[c].split(c.op.axis[0], 8)
    jo, ji = s[c].split(c.op.axis[1], 16)
    s[c].reorder(io, jo, ii, ji)
    s[c].bind(io, te.thread_axis("blockIdx.y"))
    s[c].bind(jo, te.thread_axis("blockIdx.x"))
    s[c].bind(ii, te.thread_axis((0, 8), "threadIdx.y"))
    s[sum_of].compute_at(s[c], ii)
    ro, ri = s[sum_of].split(sum_of.op.reduce_axis[0], 8)
    s[sum_of].reorder(ro, ri, *sum_of.op.axis)
    for panel in panels:
        s[panel].compute_at(s[sum_of], ro)
        s[panel].double_buffer()
        s[panel].storage_align(panel.op.axis[0], 16, 1)
    rng = np.random.default_rng(2)
    x, y = rng.random((k, n)).astype("float32"), rng.random((k, n)).astype("float32")
    out = np.zeros((n, n), "float32")
    aipu.build(s, [a, b, c], target)(x, y, out)
    np.testing.assert_allclose(out, x.T @ y, rtol=1e-5)
    if target == "host":
        sizes = [[int(e) for e in m.extents] for m in nodes(aipu.lower(s, [a, b, c])["main"].body, tir.Allocate)]
        assert [2, 8, 1] in sizes or [2, 8, 8] in sizes


@pytest.mark.parametrize("target", TARGETS)
def test_sums_and_several_outputs(target):
    a = te.placeholder((10, 33), "int32", name="A")
    k = te.reduce_axis((0, 3), name="k")
    window = te.compute((10, 31), lambda i, j: te.sum(a[i, j + k], axis=k), name="W")
    low, high = te.compute((10, 31), lambda i, j: (window[i, j] - 1, window[i, j] + 1), name="both")
    c = te.compute((10, 31), lambda i, j: low[i, j] * high[i, j], name="C")
    s = te.create_schedule(c.op)
    _, j = c.op.axis
    jo, _ = s[c].split(j, 7)
    s[low.op].compute_at(s[c], jo)
    s[low.op].double_buffer()
    s[window].compute_at(s[low.op], s[low.op].op.axis[0])
    x = np.random.default_rng(3).integers(-9, 9, (10, 33)).astype("int32")
    out = np.zeros((10, 31), "int32")
    aipu.build(s, [a, c], target)(x, out)
    w = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
    np.testing.assert_array_equal(out, w * w - 1)


@pytest.mark.parametrize("target", TARGETS)
def test_one_in_the_other(target):
    a = te.placeholder((40,), name="A")
    b = te.compute((40,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((40,), lambda i: b[i] * 2.0, name="C")
    d = te.compute((40,), lambda i: c[i] - 3.0, name="D")
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(d.op.axis[0], 10)
    s[c].compute_at(s[d], outer)
    inner, _ = s[c].split(c.op.axis[0], 4)
    s[b].compute_at(s[c], inner)
    s[b].double_buffer()
    s[c].double_buffer()
    x = np.random.default_rng(4).random(40).astype("float32")
    out = np.zeros_like(x)
    aipu.build(s, [a, d], target)(x, out)
    np.testing.assert_allclose(out, (x + 1) * 2 - 3, rtol=1e-5)


def test_what_is_refused():
    a, b, c, s, i, jo = row_by_row(4)
    s[b].compute_root()
    s[b].double_buffer()
    with pytest.raises(aipu.TVMError, match="'B' is not computed inside a loop"):
        aipu.lower(s, [a, c])
    s[b].compute_at(s[c], jo)
    s[c].parallel(jo)
    with pytest.raises(aipu.TVMError, match="loop 'j.outer' around it is not run one iteration after the other"):
        aipu.lower(s, [a, c])
    with pytest.raises(aipu.TVMError, match="'B' lies in memory that is given"):
        aipu.lower(s, [a, b, c])
    a = te.placeholder((40,), name="A")
    b = te.compute((40,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((40,), lambda i: b[i] * 2.0, name="C")
    d = te.compute((40,), lambda i: c[i] - b[i], name="D")
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(d.op.axis[0], 10)
    s[b].compute_at(s[d], outer)
    s[c].compute_at(s[d], outer)
    s[c].double_buffer()
    with pytest.raises(aipu.TVMError, match="it reads 'B', which loop 'i.outer' computes too"):
        aipu.lower(s, [a, d])


def test_prefetches_are_shown():
    a, b, c, s, i, jo = row_by_row(4)
    s[c].prefetch(a, jo, 1)
    shown = nodes(te.schedule.ScheduleOps(s, None), tir.AttrStmt)
    assert [(n.attr_key, int(n.value)) for n in shown] == [("prefetch_scope", 1)]
    x = np.random.default_rng(5).random((4, 24)).astype("float32")
    out = np.zeros_like(x)
    aipu.build(s, [a, c], "interpreter")(x, out)
    np.testing.assert_allclose(out, (x + 1) * 2, rtol=1e-6)
