"""Records: as Python, compiled by both compilers, interpreted; and what is said of their misuse."""

from __future__ import annotations

import re
from typing import Callable

import aipu
import numpy as np
import pytest
from aipu import script as S
from executors import EVERYWHERE, Executor, compiled, pysim


@S.record
class Axis:
    """An axis of an image."""

    extent: S.i32
    stride: S.i32 = 1


@S.record
class Window:
    height: Axis
    width: Axis


@S.record
class Image:
    data: S.ptr("i32", "global")
    window: Window


@S.record
class Small:
    value: S.u8
    scale: S.fp32


@S.record
class Several:
    parts: [S.i32, Axis]
    last: S.i32


UNIT = Axis(extent=4)


@pytest.fixture(params=EVERYWHERE)
def run(request, tmp_path) -> Executor:
    """run(kernel)(*arguments)"""
    return lambda kernel: request.param(kernel, tmp_path)


def offset(window: Window, row, column):
    return row * window.height.stride + column * window.width.stride


def transposed(window):
    return Window(height=window.width, width=window.height)


@S.prim_func(is_inline=False)
def row_sum(image: Image, row: S.i32) -> S.i32:
    total = S.i32(0)
    for column in range(image.window.width.extent):
        total += image.data[offset(image.window, row, column)]
    return total


@S.prim_func
def sums(data: S.ptr("i32", "global"), window: Window, out: S.ptr("i32", "global"), sideways: S.i32):
    image = Image(data, window)
    if sideways != 0:
        image = Image(data, transposed(image.window))
    if S.get_local_id() == 0:
        for row in range(image.window.height.extent):
            out[row] = row_sum(image, row)


@pytest.mark.parametrize("sideways", [0, 1])
def test_records_pass_through_functions(run, sideways: int) -> None:
    data = np.arange(35, dtype=np.int32).reshape(5, 7) ** 2
    out = np.zeros(5 if sideways == 0 else 7, np.int32)
    run(sums)(data, Window(Axis(5, 7), Axis(extent=7)), out, sideways)
    np.testing.assert_array_equal(out, data.sum(axis=1 - sideways))


@S.prim_func
def values(x: S.ptr("i32", "global"), out: S.ptr("i32", "global"), n: S.i32):
    if S.get_local_id() == 0:
        i = S.i32(1)
        before = Axis(i, x[0])
        x0 = before.stride
        i = i + 10
        out[0] = before.extent * 100 + i
        a, b = Axis(1, 2), Axis(3, 4)
        a, b = b, Axis(a.stride, b.extent)
        out[1] = a.extent * 1000 + a.stride * 100 + b.extent * 10 + b.stride
        small = Small(200, 1)
        out[2] = S.i32(small.value + 100)
        out[3] = S.i32(small.scale / 4 * 8)
        for step in range(n):
            a = Axis(a.stride + step, a.extent)
        out[4] = a.extent * 100 + a.stride
        out[5] = UNIT.extent * UNIT.stride + x0
        copy = a
        a = Axis(0)
        out[6] = copy.extent * 100 + copy.stride + a.extent + a.stride
        several = Several([n, Axis(n, 9)], 3)
        out[7] = several.parts[0] + several.parts[1].stride * 10 + several.last * 100


def test_records_are_values(run) -> None:
    x, out = np.array([7], np.int32), np.zeros(8, np.int32)
    run(values)(x, out, 5)
    extent, stride = 3, 4
    for step in range(5):
        extent, stride = stride + step, extent
    last = extent * 100 + stride
    assert out.tolist() == [111, 3423, 44, 2, last, 11, last + 1, 395]


@S.prim_func
def clash(pair_extent: S.i32, pair: Axis, out: S.ptr("i32", "global")):
    if S.get_local_id() == 0:
        out[0] = pair_extent * 100 + pair.extent * 10 + pair.stride


def test_names_do_not_clash(run) -> None:
    out = np.zeros(1, np.int32)
    run(clash)(1, Axis(2, 3), out)
    assert out[0] == 123


def test_a_record_is_one_argument_of_an_executor(tmp_path) -> None:
    executor = compiled(clash, tmp_path)
    out = np.zeros(1, np.int32)
    executor(out=out, pair=Axis(5, 6), pair_extent=4)
    assert out[0] == 456
    assert len(executor.benchmark(1, Axis(2, 3), out, repeat=1, number=1).results) == 1
    info = aipu.analysis.extract_prim_func_info(aipu.tir.BuildManager(output_dir=str(tmp_path)).lower(clash))
    assert [p.name for p in info.param_infos] == ["pair_extent", "pair_extent_", "pair_stride", "out"]
    with pytest.raises(AssertionError, match='The 2-th arg expect a record "Axis", but got: "int".'):
        executor(1, 2, out)
    with pytest.raises(AssertionError, match='The 2-th arg expect a record "Axis", but got: "record Window".'):
        executor(1, Window(UNIT, UNIT), out)


def test_what_is_no_record() -> None:
    with pytest.raises(AssertionError, match=re.escape('The record "Bad" has no fields.')):
        S.record(type("Bad", (), {}))
    with pytest.raises(AssertionError, match='The type annotation of field "a" of record "Bad" is not supported.'):
        S.record(type("Bad", (), {"__annotations__": {"a": 3}}))
    with pytest.raises(AssertionError, match='The record "Derived" can\'t have a base class.'):

        @S.record
        class Derived(Axis):
            more: S.i32

    with pytest.raises(AssertionError, match=re.escape('The record "Active" can only have fields: "name: type".')):

        @S.record
        class Active:
            a: S.i32

            def method(self) -> None:
                pass


MISUSES = [
    (lambda: Axis(), 'The record "Axis" missing "1" fields: "extent".'),
    (lambda: Axis(1, 2, 3), 'The record "Axis" expect 2 fields, but got: "3".'),
    (lambda: Axis(1, extend=2), 'The record "Axis" got unexpect fields: "extend".'),
    (lambda: Axis(1, extent=2), 'The record "Axis" got multiple values for fields: "extent".'),
    (lambda: Window(1, UNIT), 'The field "height" of record "Window" expect a record "Axis", but got: "int".'),
    (lambda: Several([1], 2), 'The field "parts" of record "Several" expect a list of 2 values, but got: "1".'),
    (lambda: UNIT.extend, 'The record "Axis" has no field "extend". Did you mean: "extent"?'),
    (lambda: UNIT == UNIT, "Records can't be compared; compare their fields."),
    (lambda: setattr(UNIT, "extent", 3), "A field of a record can't be assigned to; make another record: Axis(...)."),
]


@pytest.mark.parametrize("misuse, phrase", MISUSES)
def test_misuse_outside_of_a_kernel(misuse: Callable[[], object], phrase: str) -> None:
    with pytest.raises((AssertionError, AttributeError), match=re.escape(phrase)):
        misuse()


@S.prim_func
def scalar_wanted(n: S.i32):
    pass


@S.prim_func
def passes_a_record(a: Axis):
    scalar_wanted(a)


@S.prim_func
def passes_a_scalar(out: S.ptr("i32", "global")):
    out[0] = row_sum(out[0], 1)


@S.prim_func
def makes_a_wrong_one(out: S.ptr("i32", "global")):
    out[0] = Axis(out, 1).extent


@pytest.mark.parametrize(
    "kernel, argument, phrase",
    [
        (passes_a_record, UNIT, 'A value of kind "record Axis" can\'t be used as a run-time value.'),
        (passes_a_scalar, np.zeros(1, np.int32), 'The 1-th arg expect a record "Image", but got: "'),
        (
            makes_a_wrong_one,
            np.zeros(1, np.int32),
            'The field "extent" of record "Axis" expect a variable, but got: pointer.',
        ),
    ],
)
def test_misuse_in_a_kernel(kernel, argument, phrase: str, tmp_path) -> None:
    with pytest.raises(aipu.DiagnosticError, match=re.escape(phrase)):
        compiled(kernel, tmp_path)
    with pytest.raises(AssertionError, match=re.escape(phrase)):
        pysim(kernel)(argument)
