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
from conv_rows import Plane, Target, for_each_row, for_each_tile, plane_of
from epilogue import finish_tile, prefetch_tile
from spatial import Geometry, Groups


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
    patch: Plane,
    weights: Panel,
    place: Place,
    extras: extra_types,
    target: Target,
):
    """patch: what the tile's window meets, from its first column on."""
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
    for kd in range(patch.depths):
        for kh in range(patch.lines):
            line = patch.data + (S.i64(kd) * patch.depth_stride + S.i64(kh) * patch.line_stride)
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


def tiles_of_row(plane, width, weights, shift, extras, target):
    """What computes a tile of a row of output pixels, for a panel whose pixels' vectors are `shift` lanes in front."""

    def compute(column, height):
        position = column * GROUPED.stride - width.pad
        place = Place(position, width.image, shift)
        own = Target(target.out, target.offset + column * target.ldc, target.ldc, target.n, target.columns)
        data = plane.data + S.i64(position) * GROUPED.channels
        patch = Plane(data, plane.depths, plane.lines, plane.line_stride, plane.depth_stride)
        for h in S.unroll(len(GROUPED.heights)):
            if height == GROUPED.heights[h]:
                convolve_tile(GROUPED.heights[h], patch, weights, place, extras, own)

    return compute


@S.macro
def convolve_tile(height, patch, weights, place, extras, target):
    inside = place.position >= 0 and place.position + (extent_of_patch(height) - 1) < place.extent
    if GROUPED.whole or GROUPED.before + GROUPED.behind == 0:
        grouped_tile(height, 0, patch, weights, place, extras, target)
    elif inside:
        grouped_tile(height, 0, patch, weights, place, extras, target)
    else:
        grouped_tile(height, 1, patch, weights, place, extras, target)


def rows_of_panels(x, weights, out, extras, geometry, groups, panels, ldc):
    """What convolves rows by a panel, one of the `panels` of a group."""
    height, width = geometry.height, geometry.width
    w_line = GROUPED.kernel * GROUPED.group * (NV * VL)
    w_plane = height.kernel * w_line

    def of_panel(panel):
        group = panel // panels
        in_group = (panel % panels) * (NV * VL)
        n = group * groups.result + in_group
        shift = S.i32(0)
        first_channel = group * groups.image
        if GROUPED.spread:
            shift = S.max(n + VL - GROUPED.channels, 0)
            first_channel = n - shift
        w_panel = weights + panel * (geometry.depth.kernel * w_plane)

        def convolve(number, met):
            plane = plane_of(x + first_channel, GROUPED.channels, geometry, met)
            own = Panel(w_panel + (met.planes.first * height.kernel + met.lines.first) * w_line, w_line, w_plane)
            target = Target(out, number * width.result * ldc, ldc, n, groups.result - in_group)
            for_each_tile(0, width.result, GROUPED.heights, tiles_of_row(plane, width, own, shift, extras, target))

        return convolve

    return of_panel


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
    panels = S.ceildiv(groups.result, NV * VL)
    of_panel = rows_of_panels(x, weights, out, extras, geometry, groups, panels, ldc)
    for_each_row(geometry, groups.count * panels, block_rows, of_panel)
