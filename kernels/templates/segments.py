"""Segments of rows of results, and what their windows meet of an image: an image of its own in local memory."""

from aipu import script as S
from spatial import Geometry, Taps, row_at, taps_of_axis


@S.record
class Part:
    """`count` results from `begin` on, and what they meet: lines, and columns from `column` on."""

    number: S.i32  # of the row of results
    begin: S.i32
    count: S.i32
    column: S.i32
    columns: S.i32
    image_at: S.i32
    planes: Taps
    lines: Taps


def part_of(unit, geometry: Geometry, segment):
    depth, height, width = geometry.depth, geometry.height, geometry.width
    segments = S.ceildiv(width.result, segment)
    number = unit // segments
    row = row_at(number, geometry)
    begin = (unit - number * segments) * segment
    count = S.min(segment, width.result - begin)
    left = begin * width.stride - width.pad
    reach = (width.kernel - 1) * width.dilation + 1
    column = S.max(left, 0)
    planes = taps_of_axis(row.depth, depth)
    lines = taps_of_axis(row.height, height)
    line = (row.image * depth.image + planes.start) * height.image + lines.start
    line = line + lines.first * height.dilation
    return Part(
        number=number,
        begin=begin,
        count=count,
        column=column,
        columns=S.max(S.min(left + (count - 1) * width.stride + reach, width.image) - column, 0),
        image_at=(line * width.image + column) * geometry.channels,
        planes=planes,
        lines=lines,
    )
