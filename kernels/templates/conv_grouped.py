"""Convolution in groups of few channels over channels-last activations, 1 to 3 spatial dimensions (fewer are the inner
ones; the others have extent 1).

out[n, od, oh, ow, g * OCg + oc] = epilogue(sum over kd, kh, ic, kw of x[n, od*sd - pd + kd*dd, ..., g * ICg + ic] *
weights[...])

Parameters bound by kernels/parts/grouped.cpp: X, ACC (float32 both), VL, NV, those of the epilogue (epilogue.py), and
  GROUPED          what is known of the groups, the rows and the window (GroupedTiles in kernels/parts/grouped.cpp):
    channels       of the image, and of these a group's, `group`
    spread         whether groups are parts of a vector, as many in the result as in the image: then a panel is a vector
                   of all channels, else one of a group's
    tail           with `spread`, whether the channels end within a vector
    heights        of the tiles of a row of output pixels, descending
    kernel, stride, dilation  along the width
    before, behind how many columns at the ends of the patch of a tile may be outside of the image; with `whole` the
                   tile is a row, and they are

Weights are packed [panel][kd][kh][kw][ic][NV * VL], of all groups one after the other, zero padded to whole panels.

A tile is `height` pixels of one row by one panel. For each channel of a group the values of the tile's patch are made
once per row of the kernel, and used by all taps that meet them: as vectors of one value, or, with `spread`, as vectors
in which each group's lanes hold its own channel, for which one instruction permutes the pixel while it loads it. So
whole vectors are multiplied, whatever the size of groups.
"""

from aipu import script as S
from epilogue import finish_tile, prefetch_tile
from sharing import own_rows, own_work
from spatial import Geometry, Groups, row_at, taps_of_axis


@S.record
class Lines:
    """The lines of an image that a row of results meets: `lines` of `depths` planes."""

    depths: S.i32
    lines: S.i32
    line_stride: S.i64
    depth_stride: S.i64


@S.record
class Panel:
    """Weights from the first line of the kernel that the image has, and where the next line and plane are."""

    data: S.ptr(ACC, "global")
    line: S.i32
    depth: S.i32


@S.record
class Place:
    """Where the patch of a tile begins in the image's width, the extent of that, and by how many lanes a pixel's vector
    is in front of the panel, which ends with the channels.
    """

    position: S.i32
    extent: S.i32
    shift: S.i32


@S.record
class Target:
    """Where a row of results goes: pixels `ldc` elements apart, of which the columns from `n` on are a panel's."""

    out: S.ptr(OUT, "global")
    offset: S.i32
    ldc: S.i32
    n: S.i32
    columns: S.i32


def taps_under(column, height):
    """[pixel, tap]: the products that a column of a tile's patch is in."""
    return [
        [i, k]
        for k in range(GROUPED.kernel)
        for i in range(height)
        if i * GROUPED.stride + k * GROUPED.dilation == column
    ]


def extent_of_patch(height):
    return (height - 1) * GROUPED.stride + (GROUPED.kernel - 1) * GROUPED.dilation + 1


def is_at_end(column, height):
    return column < GROUPED.before or column >= extent_of_patch(height) - GROUPED.behind


def feed(column, height, acc, weights, value):
    for pixel, tap in taps_under(column, height):
        for v in S.unroll(NV):
            acc[pixel * NV + v] = S.fma(acc[pixel * NV + v], value, weights[tap * NV + v])


def multiply_channel(height, checked, acc, x, weights, lanes, place):
    """The products of one channel of each group by a row of the kernel. x: the first column, of that channel too where
    vectors have one value; else `lanes` says what each lane takes.
    """
    wv = S.alloc_buffer((GROUPED.kernel * NV,), f"{ACC}x{VL}")
    for k in S.unroll(GROUPED.kernel):
        for v in S.unroll(NV):
            wv[k * NV + v] = S.vload(weights + (k * GROUPED.group * NV + v) * VL, lanes=VL)
    for column in S.unroll(extent_of_patch(height)):
        if len(taps_under(column, height)) > 0:
            if is_at_end(column, height) and checked:
                if place.position + column >= 0 and place.position + column < place.extent:
                    feed(column, height, acc, wv, image_value(x, column, lanes))
            elif not (is_at_end(column, height) and GROUPED.whole):
                feed(column, height, acc, wv, image_value(x, column, lanes))


def image_value(x, column, lanes):
    at = x + column * GROUPED.channels
    if GROUPED.spread:
        return S.vload_gather(at, lanes, entries=VL)
    return S.vbcast(at[0], lanes=VL)


@S.prim_func(is_inline=False)
def grouped_tile(
    height: S.meta_var,
    checked: S.meta_var,
    x: S.ptr(X, "global"),
    met: Lines,
    weights: Panel,
    place: Place,
    extras: extra_types,
    target: Target,
):
    """x: the first column of the patch's first line."""
    acc = S.alloc_buffer((height * NV,), f"{ACC}x{VL}")
    for i in S.unroll(height * NV):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    if GROUPED.spread:
        # One row per channel of a group.
        table = S.alloc_const(
            (GROUPED.group * VL,),
            "int32",
            [lane // GROUPED.group * GROUPED.group + ic for ic in range(GROUPED.group) for lane in range(VL)],
        )
    prefetch_tile(height, extras, target.offset, target.ldc, target.n)
    for kd in range(met.depths):
        for kh in range(met.lines):
            line = x + (S.i64(kd) * met.depth_stride + S.i64(kh) * met.line_stride)
            w = weights.data + (kd * weights.depth + kh * weights.line)
            for ic in range(GROUPED.group):
                w_channel = w + ic * (NV * VL)
                if GROUPED.spread:
                    lanes = S.vload(table + ic * VL, lanes=VL)
                    if GROUPED.tail:
                        lanes = (lanes + S.vbcast(place.shift, lanes=VL)) & S.cast(VL - 1, f"int32x{VL}")
                    multiply_channel(height, checked, acc, line, w_channel, lanes, place)
                else:
                    multiply_channel(height, checked, acc, line + ic, w_channel, 0, place)
    finish_tile(height, acc, extras, target.out, target.offset, target.ldc, target.n, target.columns)


@S.prim_func
def conv_grouped(
    x: S.ptr(X, "global"),
    weights: S.ptr(ACC, "global"),
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    geometry: Geometry,
    groups: Groups,
    block_rows: S.i32,
    ldc: S.i32,
):
    """With `spread` the groups' channels are all of the image's."""
    depth, height, width = geometry.depth, geometry.height, geometry.width
    panels = S.ceildiv(groups.result, NV * VL)
    work = own_work(geometry.batch * depth.result * height.result, groups.count * panels, block_rows, 7)
    w_line = GROUPED.kernel * GROUPED.group * (NV * VL)
    line = width.image * GROUPED.channels
    for block_first in range(work.row_first, work.row_last, work.block):
        # One panel's weights stay in the nearest cache for all rows of a block.
        for panel in range(work.panel_first, work.panel_last):
            group = panel // panels
            in_group = (panel % panels) * (NV * VL)
            n = group * groups.result + in_group
            columns = groups.result - in_group
            shift = S.i32(0)
            first_channel = group * groups.image
            if GROUPED.spread:
                shift = S.max(n + VL - GROUPED.channels, 0)
                first_channel = n - shift
            w_panel = weights + panel * (depth.kernel * height.kernel * w_line)
            first, last = own_rows(work, block_first, panel)
            for number in range(first, last):
                row = row_at(number, geometry)
                lines = taps_of_axis(row.height, height)
                planes = taps_of_axis(row.depth, depth)
                top = lines.start + lines.first * height.dilation
                front = row.image * depth.image + planes.start + planes.first * depth.dilation
                x_row = x + ((front * height.image + top) * line + first_channel)
                met = Lines(
                    planes.count,
                    lines.count,
                    S.i64(height.dilation * line),
                    S.i64(depth.dilation * height.image * line),
                )
                window = Panel(
                    w_panel + (planes.first * height.kernel + lines.first) * w_line, w_line, height.kernel * w_line
                )
                offset = number * width.result * ldc
                tiles = S.max(S.ceildiv(width.result, GROUPED.heights[0]), 1)
                column = 0
                for tile in range(tiles):
                    end = column + width.result // tiles
                    if tile < width.result % tiles:
                        end = end + 1
                    while column < end:
                        pixels = GROUPED.heights[len(GROUPED.heights) - 1]
                        for h in S.unroll(len(GROUPED.heights) - 1):
                            if column + GROUPED.heights[len(GROUPED.heights) - 2 - h] <= end:
                                pixels = S.i32(GROUPED.heights[len(GROUPED.heights) - 2 - h])
                        position = column * GROUPED.stride - width.pad
                        place = Place(position, width.image, shift)
                        target = Target(out, offset + column * ldc, ldc, n, columns)
                        x_tile = x_row + S.i64(position) * GROUPED.channels
                        for h in S.unroll(len(GROUPED.heights)):
                            if pixels == GROUPED.heights[h]:
                                convolve_tile(GROUPED.heights[h], x_tile, met, window, place, extras, target)
                        column = column + pixels


@S.macro
def convolve_tile(height, x, met, weights, place, extras, target):
    inside = place.position >= 0 and place.position + (extent_of_patch(height) - 1) < place.extent
    if GROUPED.whole or GROUPED.before + GROUPED.behind == 0:
        grouped_tile(height, 0, x, met, weights, place, extras, target)
    elif inside:
        grouped_tile(height, 0, x, met, weights, place, extras, target)
    else:
        grouped_tile(height, 1, x, met, weights, place, extras, target)
