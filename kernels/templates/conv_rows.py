"""How convolutions go over rows of output pixels, panel by panel, and a row over tiles. Parameters as in conv.py or
conv_grouped.py.
"""

from aipu import script as S
from sharing import own_rows, own_work
from spatial import lines_met


@S.record
class Plane:
    """The lines of an image that a row of results meets: from `data` on, `lines` of `depths` planes."""

    data: S.ptr(X, "global")
    depths: S.i32
    lines: S.i32
    line_stride: S.i64
    depth_stride: S.i64


@S.record
class Target:
    """Where a row of results goes: pixels `ldc` elements apart, of which the columns from `n` on are a panel's."""

    out: S.ptr(OUT, "global")
    offset: S.i32
    ldc: S.i32
    n: S.i32
    columns: S.i32


def for_each_row(geometry, panels, block_rows, of_panel):
    """of_panel(panel) makes what is called for each row of this TEC, with its number and the lines_met() by it."""
    work = own_work(geometry.batch * geometry.depth.result * geometry.height.result, panels, block_rows, 7)
    for block_first in range(work.row_first, work.row_last, work.block):
        # One panel's weights stay in the nearest cache for all rows of a block, the block's activations in the next one
        # for all panels.
        for panel in range(work.panel_first, work.panel_last):
            convolve = of_panel(panel)
            first, last = own_rows(work, block_first, panel)
            for number in range(first, last):
                convolve(number, lines_met(number, geometry))


def plane_of(data, channels, geometry, met):
    """`data`: the image's first element, of the channels that are looked at."""
    line = geometry.width.image * channels
    return Plane(
        data + met.first * line,
        met.planes.count,
        met.lines.count,
        geometry.height.dilation * line,
        geometry.depth.dilation * geometry.height.image * line,
    )


def for_each_tile(column, pixels, heights, compute):
    """compute(first pixel, height), for tiles of (almost) equal heights that `pixels` from `column` on are cut into.
    Heights end in 1 unless all that occur are there.
    """
    tiles = S.max(S.ceildiv(pixels, heights[0]), 1)
    at = S.i32(column)
    for tile in range(tiles):
        end = at + pixels // tiles
        if tile < pixels % tiles:
            end = end + 1
        while at < end:
            height = heights[0] if len(heights) == 1 else S.i32(heights[len(heights) - 1])
            for h in S.unroll(len(heights) - 1):
                if at + heights[len(heights) - 2 - h] <= end:
                    height = S.i32(heights[len(heights) - 2 - h])
            compute(at, height)
            at = at + height
