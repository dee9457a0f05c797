"""The timing model: what it counts, and the report."""

import html.parser
import os

import aipu
import numpy as np
import pytest
from aipu import script as S


def cycles_of(func, *args):
    return aipu.BuildManager().build(func).profile(*args)


@S.prim_func
def scalar_add(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), n: S.i32):
    for k in range(n):
        b[k] = a[k] + 1


@S.prim_func
def vector_add(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), n: S.i32):
    for k in range(0, n, 8):
        S.vstore(S.vload(a + k) + 1, b + k)


@S.prim_func
def shared_out(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), n: S.i32):
    for k in range(S.get_local_id() * 8, n, S.get_local_size() * 8):
        S.vstore(S.vload(a + k) + 1, b + k)


@S.prim_func
def exponentials(a: S.ptr("fp32", "global"), b: S.ptr("fp32", "global"), n: S.i32):
    for k in range(0, n, 8):
        S.vstore(S.exp(S.vload(a + k)), b + k)


@S.prim_func
def triangle(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), n: S.i32):
    for k in range(n):
        if k % 2 == 0:
            for m in range(k):
                b[m] = a[m] + k


@pytest.fixture
def data():
    return np.arange(1024, dtype="int32"), np.zeros(1024, "int32")


def test_more_work_takes_longer(data):
    few, many = (cycles_of(vector_add, *data, n) for n in (64, 1024))
    assert 10 * few < 16 * many and 4 * few < many < 16 * few


def test_vectors_and_tecs_pay(data):
    scalar, vector, shared = (cycles_of(f, *data, 1024) for f in (scalar_add, vector_add, shared_out))
    assert 4 * vector < scalar
    assert 2 * shared < vector


def test_mathematics_costs(data):
    x, y = np.zeros(1024, "float32"), np.zeros(1024, "float32")
    assert cycles_of(exponentials, x, y, 1024) > 1.5 * cycles_of(vector_add, *data, 1024)


def test_loops_and_branches_are_counted_as_they_run(data):
    small, large = (cycles_of(triangle, *data, n) for n in (32, 64))
    assert 3 < (large - 200) / (small - 200) < 5  # n squared


def test_asynchronous_copies_overlap():
    def kernel(overlap):
        @S.prim_func
        def synchronous(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
            local = S.alloc((1024,), "i32", scope="lsram")
            S.dma_copy(local, a, 1024)
            for k in range(0, 1024, 8):
                S.vstore(S.exp(S.cast(S.vload(b + k), "fp32")), (b + k).as_ptr("fp32"))
            b[0] = local[0]

        @S.prim_func
        def asynchronous(a: S.ptr("i32", "global"), b: S.ptr("i32", "global")):
            local = S.alloc((1024,), "i32", scope="lsram")
            event = S.alloc_events(1)
            S.async_dma_copy(local, a, 1024, event=event)
            for k in range(0, 1024, 8):
                S.vstore(S.exp(S.cast(S.vload(b + k), "fp32")), (b + k).as_ptr("fp32"))
            S.wait_events(event)
            S.free_events(event)
            b[0] = local[0]

        return asynchronous if overlap else synchronous

    a, b = np.zeros(1024, "int32"), np.zeros(1024, "int32")
    assert cycles_of(kernel(True), a, b) + 200 < cycles_of(kernel(False), a, b)


def test_arguments_stay_as_they_are(data):
    a, b = data
    cycles_of(vector_add, a, b, 1024)
    assert not b.any()


def test_sub_functions_count():
    @S.prim_func
    def many(a: S.ptr("i32", "global"), n: S.i32) -> S.i32:
        total = 0
        for k in range(n):
            total = total + a[k]
        return total

    @S.prim_func
    def func(a: S.ptr("i32", "global"), b: S.ptr("i32", "global"), n: S.i32):
        b[0] = many(a, n)

    a, b = np.ones(1000, "int32"), np.zeros(1, "int32")
    assert cycles_of(func, a, b, 1000) > 5 * cycles_of(func, a, b, 100)
    ex = aipu.BuildManager().build(func)
    ex(a, b, 1000)
    assert b[0] == 1000


class _Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.text, self.open = "", []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_report(data):
    bm = aipu.BuildManager()
    ex = bm.build(vector_add)
    cycles = ex.profile(*data, 1024)
    path = os.path.join(bm.output_dir, "runtime", "profile_output.html")
    page = _Page()
    page.feed(open(path, encoding="utf-8").read())
    assert not page.open
    assert f"{cycles:,}".replace(",", "\u202f") in page.text
    assert "S.vstore(S.vload(a + k) + 1, b + k)" in page.text  # the source, line by line
    assert "TEC 3" in page.text and "__kernel void vector_add" in page.text
    assert os.path.getsize(os.path.join(bm.output_dir, "runtime", "profile_data.bin")) % 8 == 0


def test_argument_count(data):
    with pytest.raises(AssertionError, match='The function "vector_add" expect 3 args, but got: "2".'):
        cycles_of(vector_add, *data)
