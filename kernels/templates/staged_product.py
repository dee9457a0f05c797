"""Convolutions (1 to 3 spatial dimensions, channels last) and matrix products on targets with local memory: both
operands stream through it in chunks, two buffers each, and sums wait there for the next chunk.

out[n, od, oh, ow, g * OCg + oc] = epilogue(scale[oc] * (start[oc] + sum over kd, kh, kw, ic of x[n, od*sd + kd*dd, ...,
g * ICg + ic] * w[...])); padding is part of x. A matrix product is a 1x1 convolution over one row of pixels.

A unit of a TEC is a segment of a row of results times a panel of NV * VL channels. A chunk of it is what one row of the
kernel needs of a block of channels: the pixels under the segment, and that part of the weights. Sums of an element are
formed in the order kd, kh, block of channels, kw, channel. Who computes an element does not change it.

Parameters bound by kernels/parts/staged_product.cpp:
  X, W, SUM    element types of x, of the weights, of the sums: 8 bits and int32 (four products per lane and
               instruction, S.vqdpa), or float32
  MERGED       a chunk is a whole row of the kernel, whose taps and channels follow each other in x; `taps` is 1
  VL, NV, HEIGHTS  register tile: HEIGHTS[0] * (NV + 1) + 1 vectors; heights descend to 1
  POOL         bytes of local memory for two chunks of each operand and the sums; STAGING: staging.py
  start_types, scale_types  a pointer type or none: without start sums begin at 0, without scale they are stored as they
               are
The rest is the epilogue's (epilogue.py).

Weights are packed [group][panel][kd][kh][tap][step][NV * VL columns][DEPTH], zero padded; a step is DEPTH channels.
"""

from aipu import script as S
from epilogue import finish_tile
from sharing import balanced
from spatial import Geometry, Groups, row_at
from staging import begin_tile, close_stage, comes, fetch, is_there, open_stage, staged_in, steps, tile_at, tile_of

DEPTH = 1 if X == "float32" else 4
BYTES = 4 // DEPTH
STEP = NV * VL * DEPTH
COLUMNS = NV * VL


@S.record
class Chunks:
    """taps runs of `steps` steps are a row of the kernel; a chunk has up to `block` steps of each of them."""

    taps: S.i32
    steps: S.i32
    block: S.i32
    count: S.i32  # per unit
    x_capacity: S.i32  # elements of a chunk's buffers
    w_capacity: S.i32


@S.record
class Place:
    """A unit's chunk: the unit's row of results, segment, group and panel; the chunk's kernel row and block."""

    number: S.i32
    begin: S.i32
    pixels: S.i32
    group: S.i32
    panel: S.i32
    kernel_row: S.i32
    first_step: S.i32
    steps: S.i32


def place_of(unit, chunk, geometry: Geometry, groups: Groups, chunks: Chunks, segment):
    width = geometry.width
    segments = S.ceildiv(width.result, segment)
    pieces = geometry.batch * geometry.depth.result * geometry.height.result * segments
    panels = S.ceildiv(groups.result, COLUMNS)
    piece = unit % pieces
    blocks = S.ceildiv(chunks.steps, chunks.block)
    begin = piece % segments * segment
    first_step = chunk % blocks * chunks.block
    return Place(
        number=piece // segments,
        begin=begin,
        pixels=S.min(segment, width.result - begin),
        group=unit // pieces // panels,
        panel=unit // pieces % panels,
        kernel_row=chunk // blocks,
        first_step=first_step,
        steps=S.min(chunks.block, chunks.steps - first_step),
    )


def fetch_chunk(stage, tile, xs, ws, place: Place, geometry: Geometry, groups: Groups, chunks: Chunks):
    depth, height, width = geometry.depth, geometry.height, geometry.width
    row = row_at(place.number, geometry)
    plane = row.depth * depth.stride + place.kernel_row // height.kernel * depth.dilation
    line = row.height * height.stride + place.kernel_row % height.kernel * height.dilation
    pixel = ((row.image * depth.image + plane) * height.image + line) * width.image + place.begin * width.stride
    span = (place.pixels - 1) * width.stride + (width.kernel - 1) * width.dilation + 1
    first = place.first_step * DEPTH
    offset = pixel * geometry.channels + place.group * groups.image + first
    panels = S.ceildiv(groups.result, COLUMNS)
    lines = depth.kernel * height.kernel
    run = ((place.group * panels + place.panel) * lines + place.kernel_row) * chunks.taps * chunks.steps
    if MERGED:
        fetch(stage, tile, xs, offset, span * geometry.channels, 1, 0)
        fetch(stage, tile, ws, run * STEP, chunks.steps * STEP, 1, 0)
    else:
        fetch(stage, tile, xs, offset, place.steps * DEPTH, span, geometry.channels)
        fetch(stage, tile, ws, (run + place.first_step) * STEP, place.steps * STEP, chunks.taps, chunks.steps * STEP)


def multiply_add(acc, left, right):
    if DEPTH == 4:
        return S.vqdpa(acc, left, right)
    return S.fma(acc, left, right)


@S.prim_func(is_inline=False)
def multiply_tile(
    height: S.meta_var,
    x: S.ptr(X, "lsram"),
    w: S.ptr(W, "lsram"),
    sums: S.ptr(SUM, "lsram"),
    pixel_pitch: S.i32,
    tap_pitch: S.i32,
    taps: S.i32,
    count: S.i32,
):
    """sums[i] += the products of `height` pixels with the chunk's weights; pitches in elements of x."""
    acc = S.alloc_buffer((height * NV,), f"{SUM}x{VL}")
    left = S.alloc_buffer((height,), f"{X}x{DEPTH * VL}")
    for i in S.unroll(height * NV):
        acc[i] = S.vload(sums + i * VL, lanes=VL)
    weights = w
    for tap in range(taps):
        rows = [x + (tap * tap_pitch + i * pixel_pitch) for i in range(height)]
        for t in range(count):
            for i in S.unroll(height):
                if DEPTH == 4:
                    word = (rows[i] + t * DEPTH).as_ptr("i32")
                    left[i] = S.reinterpret(S.vbcast(word[0], lanes=VL), f"{X}x{DEPTH * VL}")
                else:
                    value = rows[i]
                    left[i] = S.vbcast(value[t], lanes=VL)
            for v in S.unroll(NV):
                right = S.vload(weights + v * (VL * DEPTH), lanes=DEPTH * VL)
                for i in S.unroll(height):
                    acc[i * NV + v] = multiply_add(acc[i * NV + v], left[i], right)
            weights = weights + STEP
    for i in S.unroll(height * NV):
        S.vstore(acc[i], sums + i * VL)


@S.prim_func(is_inline=False)
def store_tile(
    height: S.meta_var,
    sums: S.ptr(SUM, "lsram"),
    scale: scale_types,
    column: S.i32,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    ldc: S.i32,
    n: S.i32,
    columns: S.i32,
):
    acc = S.alloc_buffer((height * NV,), f"{ACC}x{VL}")
    for v in S.unroll(NV):
        if len(scale) > 0:
            factor = S.vload(scale[0] + (column + v * VL), lanes=VL)
        for i in S.unroll(height):
            total = S.vload(sums + (i * NV + v) * VL, lanes=VL)
            acc[i * NV + v] = S.cast(total, "float32") * factor if len(scale) > 0 else total
    finish_tile(height, acc, extras, out, row_offset, ldc, n, columns)


@S.prim_func
def staged_product(
    x: S.ptr(X, "global"),
    weights: S.ptr(W, "global"),
    start: start_types,
    scale: scale_types,
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    geometry: Geometry,
    groups: Groups,
    chunks: Chunks,
    segment: S.i32,
):
    width = geometry.width
    panels = S.ceildiv(groups.result, COLUMNS)
    rows = geometry.batch * geometry.depth.result * geometry.height.result
    units = rows * S.ceildiv(width.result, segment) * groups.count * panels
    first, last = balanced(units, S.get_local_size(), S.get_local_id())
    ldc = groups.count * groups.result
    stage = open_stage()
    pool = S.alloc((POOL // BYTES,), X, scope="lsram")
    xs = staged_in(x, pool, chunks.x_capacity)
    w_pool = (pool + 2 * chunks.x_capacity).as_ptr(W)
    ws = staged_in(weights, w_pool, chunks.w_capacity)
    sums = (w_pool + 2 * chunks.w_capacity).as_ptr(SUM)
    total = (last - first) * chunks.count
    for step in steps(0, total):
        if comes(step, total):
            place = place_of(first + step // chunks.count, step % chunks.count, geometry, groups, chunks, segment)
            fetch_chunk(stage, step, xs, ws, place, geometry, groups, chunks)
        if is_there(step, 0):
            number = tile_at(step)
            chunk = number % chunks.count
            place = place_of(first + number // chunks.count, chunk, geometry, groups, chunks, segment)
            begin_tile(stage, number, drains=False)
            column = (place.group * panels + place.panel) * COLUMNS
            if chunk == 0:
                for v in S.unroll(NV):
                    initial = S.cast(0, f"{SUM}x{VL}")
                    if len(start) > 0:
                        initial = S.vload(start[0] + (column + v * VL), lanes=VL)
                    for i in range(place.pixels):
                        S.vstore(initial, sums + (i * COLUMNS + v * VL))
            pitch = geometry.channels if MERGED else place.steps * DEPTH
            x_tile = tile_of(xs, number, 0)
            w_tile = tile_of(ws, number, 0)
            # Tiles of equal height, or of two that differ by one.
            tiles = S.ceildiv(place.pixels, HEIGHTS[0])
            low = place.pixels // tiles
            higher = place.pixels - low * tiles
            pixel_pitch = width.stride * pitch
            tap_pitch = width.dilation * pitch
            tile_sums = sums
            row_offset = (place.number * width.result + place.begin) * ldc
            n = place.group * groups.result + place.panel * COLUMNS
            for h in S.unroll(len(HEIGHTS)):
                count = S.i32(0)
                if low == HEIGHTS[h]:
                    count = tiles - higher
                elif low + 1 == HEIGHTS[h]:
                    count = S.i32(higher)
                for _ in range(count):
                    multiply_tile(
                        HEIGHTS[h], x_tile, w_tile, tile_sums, pixel_pitch, tap_pitch, chunks.taps, place.steps
                    )
                    if chunk == chunks.count - 1:
                        store_tile(
                            HEIGHTS[h],
                            tile_sums,
                            scale,
                            column,
                            extras,
                            out,
                            row_offset,
                            ldc,
                            n,
                            groups.result - place.panel * COLUMNS,
                        )
                        row_offset = row_offset + HEIGHTS[h] * ldc
                    x_tile = x_tile + HEIGHTS[h] * pixel_pitch
                    tile_sums = tile_sums + HEIGHTS[h] * COLUMNS
    # No results of its own go through the stage.
    close_stage(stage, 0)
