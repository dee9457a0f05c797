"""Convolution (1 to 3 spatial dimensions, channels last) and matrix products of 8-bit integers by tiles: blocks of 32
pixels by 32 columns, whose sums S.tile_dot computes exactly in int32.

out[pixel, oc] = epilogue(scale[oc] * (start[oc] + sum over taps and channels of x * w))

A matrix product is a 1x1 convolution over one row of pixels. The rows of a block are the windows of its pixels, all
taps and channels behind one another, padded to whole steps of 64 bytes. Where a window is a pixel of whole steps they
are read where they are; else they are copied first, and what is outside of the image is `zero`. The pixels of all lines
and images are cut into blocks without regard to where lines end.

Parameters bound by kernels/plugins/quantized_tiles.cpp:
  X            element type of x: 8 bits, signed or not
  DIRECT       windows are read where they are
  VL, NV       vectors of a row of a block: 32 columns
  scale_types  one pointer type if the sums are scaled to float32 (ACC = float32), none if they are stored (ACC =
               int32)
The rest is the epilogue's (epilogue.py).

Weights are packed [panel][step][2][16][16 columns][4 bytes of depth], zero padded. `scratch` has `scratch_size` bytes
for each TEC: the sums of a block, and copies of `blocks` blocks.
"""

from aipu import script as S
from epilogue import finish_tile
from sharing import own_rows, own_work
from spatial import Geometry

ROWS = 32
COLUMNS = NV * VL
STEP = 64
SUMS_BYTES = 4 * ROWS * COLUMNS
# Of what leaves the sums for the epilogue at a time.
HEIGHTS = [8, 1]


def copy_bytes(source, target, count, rest):
    """Writes whole vectors: up to one too much, behind which is what is copied next. `rest` is the mask of what is left
    over: for 64 lanes one takes a hundred instructions to make.
    """
    whole = count // STEP * STEP
    for i in range(0, whole, STEP):
        S.vstore(S.vload(source + i, lanes=STEP), target + i)
    if whole < count:
        S.vstore(S.vload(source + whole, lanes=STEP, mask=rest), target + whole)


def fill_bytes(target, count, zero):
    for i in range(0, count, STEP):
        S.vstore(S.vbcast(S.cast(zero, X), lanes=STEP), target + i)


@S.prim_func(is_inline=False)
def copy_windows(
    x: S.ptr(X, "global"),
    geometry: Geometry,
    zero: S.i32,
    first: S.i32,
    count: S.i32,
    target: S.ptr(X, "global"),
    pitch: S.i32,
):
    """The windows of `count` pixels from number `first` on, `pitch` bytes apart."""
    depth, height, width = geometry.depth, geometry.height, geometry.width
    channels = geometry.channels
    run = width.kernel * channels
    rest_of_run = S.tail_mask(run % STEP, STEP)
    rest_of_tap = S.tail_mask(channels % STEP, STEP)
    column = first % width.result
    line = (first // width.result) % height.result
    plane = (first // (width.result * height.result)) % depth.result
    image = first // (width.result * height.result * depth.result)
    for i in range(count):
        at = target + i * pitch
        left = column * width.stride - width.pad
        is_inside = left >= 0 and left + (width.kernel - 1) * width.dilation < width.image
        for kd in range(depth.kernel):
            d = plane * depth.stride - depth.pad + kd * depth.dilation
            for kh in range(height.kernel):
                h = line * height.stride - height.pad + kh * height.dilation
                if d >= 0 and d < depth.image and h >= 0 and h < height.image:
                    start = ((image * depth.image + d) * height.image + h) * width.image + left
                    if is_inside and width.dilation == 1:
                        copy_bytes(x + start * channels, at, run, rest_of_run)
                    else:
                        for kw in range(width.kernel):
                            w = left + kw * width.dilation
                            tap = at + kw * channels
                            if w >= 0 and w < width.image:
                                copy_bytes(x + (start + kw * width.dilation) * channels, tap, channels, rest_of_tap)
                            else:
                                fill_bytes(tap, channels, zero)
                else:
                    fill_bytes(at, run, zero)
                at = at + run
        column = column + 1
        if column == width.result:
            column = 0
            line = line + 1
            if line == height.result:
                line = 0
                plane = plane + 1
                if plane == depth.result:
                    plane = 0
                    image = image + 1


def finish_rows(height, sums, start, scale, place, extras, out, row_offset, ldc, columns):
    """`height` rows of a block, whose columns from `place` on have `columns` left."""
    acc = S.alloc_buffer((height * NV,), f"{ACC}x{VL}")
    for v in S.unroll(NV):
        bias = S.vload(start + (place + v * VL), lanes=VL)
        totals = [S.vload(sums + (i * COLUMNS + v * VL), lanes=VL) + bias for i in range(height)]
        if len(scale) == 0:
            for i in S.unroll(height):
                acc[i * NV + v] = totals[i]
        else:
            factor = S.vload(scale[0] + (place + v * VL), lanes=VL)
            for i in S.unroll(height):
                acc[i * NV + v] = S.cast(totals[i], "float32") * factor
    finish_tile(height, acc, extras, out, row_offset, ldc, place, columns)


@S.prim_func
def quantized_tiles(
    x: S.ptr(X, "global"),
    weights: S.ptr("i8", "global"),
    start: S.ptr("i32", "global"),
    scale: scale_types,
    out: S.ptr(OUT, "global"),
    scratch: S.ptr("i8", "global"),
    extras: extra_types,
    geometry: Geometry,
    zero: S.i32,
    out_channels: S.i32,
    steps: S.i32,
    blocks: S.i32,
    scratch_size: S.i32,
    ldc: S.i32,
):
    """Pixels of the result are `ldc` elements apart."""
    pixels = geometry.batch * geometry.depth.result * geometry.height.result * geometry.width.result
    panels = S.ceildiv(out_channels, COLUMNS)
    rows = S.ceildiv(pixels, ROWS)
    # A TEC that has whole rows of blocks copies their windows alone. Where there are no copies, few rows are shared by
    # panels, so that the weights are read once.
    work = own_work(rows, panels, blocks, 8 if DIRECT else 2)
    own = scratch + S.i64(S.get_local_id()) * scratch_size
    sums = own.as_ptr("i32")
    copies = (own + SUMS_BYTES).as_ptr(X)
    pitch = steps * STEP
    block = S.min(work.block, blocks)
    for begin in range(work.row_first, work.row_last, block):
        end = S.min(begin + block, work.row_last)
        # What is read where it is ends with a whole block.
        first_copied = S.max(begin, pixels // ROWS) if DIRECT else begin
        if first_copied < end and work.panel_first < work.panel_last:
            pixel = first_copied * ROWS
            copy_windows(x, geometry, zero, pixel, S.min(end * ROWS, pixels) - pixel, copies, pitch)
        for panel in range(work.panel_first, work.panel_last):
            first, last = own_rows(work, begin, panel)
            packed = weights + S.i64(panel) * (S.i64(steps) * (STEP * COLUMNS))
            place = panel * COLUMNS
            for number in range(first, S.min(last, end)):
                row = number * ROWS
                left = S.min(pixels - row, ROWS)
                a = copies + (number - first_copied) * (ROWS * pitch)
                if DIRECT and left == ROWS:
                    a = x + row * pitch
                if left > ROWS // 2:
                    S.tile_dot(sums, a, pitch, packed, steps)
                else:
                    S.tile_dot(sums, a, pitch, packed, steps, rows=16)
                i = S.i32(0)
                for h in S.unroll(len(HEIGHTS)):
                    while i + HEIGHTS[h] <= left:
                        finish_rows(
                            HEIGHTS[h],
                            sums + i * COLUMNS,
                            start,
                            scale,
                            place,
                            extras,
                            out,
                            (row + i) * ldc,
                            ldc,
                            out_channels - place,
                        )
                        i = i + HEIGHTS[h]
