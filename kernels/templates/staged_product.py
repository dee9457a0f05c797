"""Convolutions (1 to 3 spatial dimensions, channels last) and matrix products on targets with local memory: both
operands stream through it, two buffers each.

out[n, od, oh, ow, g * OCg + oc] = epilogue(scale[oc] * (start[oc] + sum over kd, kh, kw, ic of x[n, od*sd + kd*dd, ...,
g * ICg + ic] * w[...])); padding is part of x. A matrix product is a 1x1 convolution over one row of pixels.

Lanes are the depth of the product: a vector of x times a vector of one column's weights, which takes no broadcasts;
the lanes of a sum are added at the end. DMA lays the pixels of a row out so that what one column of pixels has under
all lines of the window (kd, kh) lies side by side, and with it, from column to column, the whole window.

A unit of a TEC is a segment of a row of results times a panel of columns. It takes blocks of channels one after the
other; of a block the pixels come once and the weights in `parts` of the panel's columns. Who computes an
element does not change its sum.

Parameters bound by kernels/parts/staged_product.cpp:
  X, W, SUM    element types of x, of the weights, of the sums: 8 bits and int32 (four products per lane and
               instruction), float16 and float32 (four in every second lane; both S.vqdpa), or float32 (S.fma)
  VL, COLUMNS, HEIGHTS, TAPS  register tile: HEIGHTS[0] pixels by COLUMNS columns, and TAPS taps of a line, whose pixels
               are shared: the width of the window, or 1, where taps are part of the depth. Heights descend
  STRIDE, DILATION  of pixels and taps within a tile, in columns of pixels; with TAPS = 1 both are 1, as the pitch of
               pixels says the rest
  MASKED       the depth of a block may end within a vector, and what follows is not multiplied by 0
  WHOLE        a unit is one block: sums never leave the registers before they are complete
  POOL         bytes of local memory; STAGING: 2 (staging.py)
  start_types, scale_types  a pointer type or none: without start nothing is added to the sums, without scale they are
               stored as they are
The rest is the epilogue's (epilogue.py); its NV is 1.

Weights are packed [group][panel][block][vector][tile of columns][step][TAPS][COLUMNS][DEPTH], zero padded.
"""

from aipu import script as S
from epilogue import finish_tile
from lane_sums import sums_of_lanes, sums_of_neighbours
from sharing import balanced
from spatial import Geometry, Groups, row_at
from staging import begin_tile, close_stage, copy, fetch, open_stage, staged_in, tile_of

BYTES = 4 if X == "float32" else 2 if X == "float16" else 1
# Elements of a vector of x or of weights.
DEPTH = 4 * VL // BYTES
STEP = TAPS * COLUMNS * DEPTH
# Register tiles of a vector of columns.
TILES = VL // COLUMNS


@S.record
class Blocks:
    """Of the depth: `count` blocks of `channels` channels of x each, the last one of the rest."""

    count: S.i32
    channels: S.i32
    lines: S.i32  # of the window
    run: S.i32  # what a channel of a block is in the depth: the window, or with TAPS > 1 its lines
    vectors: S.i32  # of a panel
    parts: S.i32  # in which the weights of a block come
    x_capacity: S.i32  # elements of a buffer
    w_capacity: S.i32


@S.record
class Results:
    """Where a tile's results go: column `n` of the output, whose rows are ldc apart, from row_offset on; `columns` of
    them exist. Their start and scale are at `column`.
    """

    column: S.i32
    row_offset: S.i32
    ldc: S.i32
    n: S.i32
    columns: S.i32


def results_of(vector, panel, panel_columns, row_offset, ldc, n, columns):
    """Of a vector of a panel whose own results begin at column `n` of the output, and are `columns` at most."""
    return Results(
        column=panel * panel_columns + vector * VL,
        row_offset=row_offset,
        ldc=ldc,
        n=n + vector * VL,
        columns=columns - vector * VL,
    )


def pixel_of(position, tap, height):
    """The pixel of a tile that has the column of pixels at `position` under a tap, or -1."""
    distance = position - tap * DILATION
    return distance // STRIDE if distance % STRIDE == 0 and 0 <= distance // STRIDE < height else -1


def positions(height):
    """The columns of pixels that a tile reads."""
    return [
        q
        for q in range((height - 1) * STRIDE + (TAPS - 1) * DILATION + 1)
        if any([pixel_of(q, tap, height) >= 0 for tap in range(TAPS)])
    ]


def multiply_step(height, acc, rows, at, weights, lane_mask):
    """acc[i, c] += the products of a vector of every pixel i with one of column c. Of pixels and weights the fewer ones
    are held in registers."""
    columns = S.meta_var(positions(height))
    weights_of_step = S.meta_var(TAPS * COLUMNS)
    if len(columns) < weights_of_step:
        left = [S.vload(row + at, mask=lane_mask, lanes=DEPTH) for row in rows]
        for k in S.unroll(weights_of_step):
            right = S.vload(weights + k * DEPTH, lanes=DEPTH)
            for q in S.unroll(len(columns)):
                add_product(acc, pixel_of(columns[q], k // COLUMNS, height), k % COLUMNS, left[q], right)
    else:
        right = [S.vload(weights + k * DEPTH, lanes=DEPTH) for k in range(weights_of_step)]
        for q in S.unroll(len(columns)):
            left = S.vload(rows[q] + at, mask=lane_mask, lanes=DEPTH)
            for k in S.unroll(weights_of_step):
                add_product(acc, pixel_of(columns[q], k // COLUMNS, height), k % COLUMNS, left, right[k])


def add_product(acc, pixel, column, left, right):
    if pixel >= 0:
        i = S.meta_var(pixel * COLUMNS + column)
        acc[i] = S.fma(acc[i], left, right) if X == "float32" else S.vqdpa(acc[i], left, right)


def multiply(height, acc, rows, w, steps, rest):
    """The products of a block: `steps` whole vectors of its depth, and `rest` elements."""
    weights = w
    at = S.i32(0)
    for _ in range(steps):
        multiply_step(height, acc, rows, at, weights, None)
        weights = weights + STEP
        at = at + DEPTH
    if MASKED:
        if rest > 0:
            multiply_step(height, acc, rows, at, weights, S.tail_mask(rest, DEPTH))


def folded(vectors, count):
    """Towards one vector whose lane is a column's sum; the order of columns in packed weights is that of the pairs."""
    return sums_of_neighbours(vectors, count) if SUM == "int32" else sums_of_lanes(vectors, count)


def store_sums(height, sums, tile_pitch, start, scale, place: Results, extras, out):
    """Stores `height` pixels by VL columns, whose tiles of columns are tile_pitch apart."""
    tiles = [sums + tile * tile_pitch for tile in range(TILES)]
    results = [folded([S.vload(tile + i * VL, lanes=VL) for tile in tiles], TILES) for i in range(height)]
    if len(start) > 0:
        initial = S.vload(start[0] + place.column, lanes=VL)
        results = [total + initial for total in results]
    if len(scale) > 0:
        factor = S.vload(scale[0] + place.column, lanes=VL)
        results = [S.cast(total, "float32") * factor for total in results]
    finish_tile(height, results, extras, out, place.row_offset, place.ldc, place.n, place.columns)


def sums_of_tile(height):
    return S.alloc_buffer((height * COLUMNS,), f"{SUM}x{VL}")


def multiply_tile(height, acc, rows, w, sums, steps, rest, is_first):
    """sums[i] (+)= the sums of pixel i by COLUMNS columns, folded to one vector."""
    for i in S.unroll(height * COLUMNS):
        acc[i] = S.cast(0, f"{SUM}x{VL}")
    multiply(height, acc, rows, w, steps, rest)
    for i in S.unroll(height):
        acc[i * COLUMNS] = folded([acc[i * COLUMNS + c] for c in range(COLUMNS)], COLUMNS)
    if is_first == 0:
        for i in S.unroll(height):
            acc[i * COLUMNS] = acc[i * COLUMNS] + S.vload(sums + i * VL, lanes=VL)
    for i in S.unroll(height):
        S.vstore(acc[i * COLUMNS], sums + i * VL)


@S.prim_func(is_inline=False)
def add_tile(
    height: S.meta_var,
    x: S.ptr(X, "lsram"),
    w: S.ptr(W, "lsram"),
    sums: S.ptr(SUM, "lsram"),
    pitch: S.i32,
    steps: S.i32,
    rest: S.i32,
    is_first: S.i32,
):
    """Adds the products of a block to the sums of `height` pixels by COLUMNS columns."""
    rows = [x + q * pitch for q in positions(height)]
    multiply_tile(height, sums_of_tile(height), rows, w, sums, steps, rest, is_first)


@S.prim_func(is_inline=False)
def whole_tile(
    height: S.meta_var,
    x: S.ptr(X, "lsram"),
    w: S.ptr(W, "lsram"),
    sums: S.ptr(SUM, "lsram"),
    pitch: S.i32,
    steps: S.i32,
    rest: S.i32,
    weights_of_tile: S.i32,
    start: start_types,
    scale: scale_types,
    place: Results,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
):
    """`height` pixels by VL columns, from products to results."""
    rows = [x + q * pitch for q in positions(height)]
    acc = sums_of_tile(height)
    for tile in range(TILES):
        multiply_tile(height, acc, rows, w + tile * weights_of_tile, sums + tile * (height * VL), steps, rest, 1)
    store_sums(height, sums, height * VL, start, scale, place, extras, out)


@S.prim_func(is_inline=False)
def store_tile(
    height: S.meta_var,
    sums: S.ptr(SUM, "lsram"),
    tile_pitch: S.i32,
    start: start_types,
    scale: scale_types,
    place: Results,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
):
    """The results of `height` pixels by VL columns."""
    store_sums(height, sums, tile_pitch, start, scale, place, extras, out)


def fetch_pixels(stage, number, target, x, offset, span, channels, geometry: Geometry, blocks: Blocks):
    """Starts bringing `channels` channels of the columns of pixels under a segment in, all lines of the window."""
    depth, height = geometry.depth, geometry.height
    line_pitch = geometry.width.image * geometry.channels
    if blocks.lines == 1 and channels == geometry.channels:
        copy(stage, number, False, target, x + offset, span * channels, span * channels, 1, span * channels)
    else:
        for line in range(blocks.lines):
            plane = line // height.kernel * depth.dilation * geometry.height.image
            source = offset + (plane + line % height.kernel * height.dilation) * line_pitch
            copy(
                stage,
                number,
                False,
                target + line * channels,
                x + source,
                channels,
                geometry.channels,
                span,
                blocks.lines * channels,
            )


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
    blocks: Blocks,
    segment: S.i32,
):
    width = geometry.width
    panel_columns = blocks.vectors * VL
    panels = S.ceildiv(groups.result, panel_columns)
    segments = S.ceildiv(width.result, segment)
    pieces = geometry.batch * geometry.depth.result * geometry.height.result * segments
    unit, last = balanced(pieces * groups.count * panels, S.get_local_size(), S.get_local_id())
    ldc = groups.count * groups.result
    # Of a block but the last one, and of that.
    steps_of_block = S.ceildiv(blocks.channels * blocks.run, DEPTH)
    last_channels = groups.image - (blocks.count - 1) * blocks.channels
    last_steps = S.ceildiv(last_channels * blocks.run, DEPTH)
    tiles_of_panel = blocks.vectors * TILES
    tiles_of_part = tiles_of_panel // blocks.parts
    panel_weights = ((blocks.count - 1) * steps_of_block + last_steps) * tiles_of_panel * STEP

    stage = open_stage()
    pool = S.alloc((POOL // BYTES,), X, scope="lsram")
    w_pool = (pool + 2 * blocks.x_capacity).as_ptr(W)
    xs = staged_in(x, pool, blocks.x_capacity)
    ws = staged_in(weights, w_pool, blocks.w_capacity)
    sums = (w_pool + 2 * blocks.w_capacity).as_ptr(SUM)

    # Of the unit whose operands come.
    total = (last - unit) * blocks.count * blocks.parts
    image_at = S.i32(0)
    span = S.i32(0)
    pixels = S.i32(0)
    panel = S.i32(0)
    row_offset = S.i32(0)
    n = S.i32(0)
    columns = S.i32(0)
    vectors = S.i32(0)
    low = S.i32(0)
    lower = S.i32(0)
    higher = S.i32(0)
    block = S.i32(0)
    part = S.i32(0)
    x_number = S.i32(-1)
    for step in range(total + 1):
        # What came in the last step is computed in this one.
        own_panel, own_offset, own_n, own_columns = S.i32(panel), S.i32(row_offset), S.i32(n), S.i32(columns)
        own_vectors, own_low, own_lower, own_higher = S.i32(vectors), S.i32(low), S.i32(lower), S.i32(higher)
        own_x = S.i32(x_number)
        own_block = S.i32(block)
        own_part = S.i32(part)
        if step < total:
            if step > 0:
                part = part + 1
                if part == blocks.parts:
                    part = S.i32(0)
                    block = block + 1
                    if block == blocks.count:
                        block = S.i32(0)
                        unit = unit + 1
            if block == 0 and part == 0:
                piece = unit % pieces
                number = piece // segments
                begin = (piece - number * segments) * segment
                row = row_at(number, geometry)
                panel = unit // pieces
                group = panel // panels
                line = (row.image * geometry.depth.image + row.depth * geometry.depth.stride) * geometry.height.image
                pixel = (line + row.height * geometry.height.stride) * width.image + begin * width.stride
                image_at = pixel * geometry.channels + group * groups.image
                pixels = S.min(segment, width.result - begin)
                span = (pixels - 1) * width.stride + (width.kernel - 1) * width.dilation + 1
                row_offset = (number * width.result + begin) * ldc
                columns = groups.result - (panel - group * panels) * panel_columns
                n = (group + 1) * groups.result - columns
                vectors = S.min(blocks.vectors, S.ceildiv(columns, VL))
                # Tiles of equal height, or of two that differ by one.
                tiles = S.ceildiv(pixels, HEIGHTS[0])
                low = pixels // tiles
                higher = pixels - low * tiles
                lower = tiles - higher
            channels = S.i32(blocks.channels)
            steps = S.i32(steps_of_block)
            if block == blocks.count - 1:
                channels = last_channels
                steps = last_steps
            if part == 0:
                x_number = x_number + 1
                fetch_pixels(
                    stage,
                    step,
                    tile_of(xs, x_number, 0),
                    x,
                    image_at + block * blocks.channels,
                    span,
                    channels,
                    geometry,
                    blocks,
                )
            part_weights = steps * tiles_of_part * STEP
            at = panel * panel_weights + block * steps_of_block * tiles_of_panel * STEP + part * part_weights
            fetch(stage, step, ws, at, part_weights, 1, 0)
        if step > 0:
            begin_tile(stage, step - 1, drains=False)
            channels = S.i32(blocks.channels)
            steps = S.i32(steps_of_block)
            if own_block == blocks.count - 1:
                channels = last_channels
                steps = last_steps
            weights_of_tile = steps * STEP
            is_first = S.i32(0)
            if own_block == 0:
                is_first = S.i32(1)
            rest = S.i32(0)
            if MASKED:
                rest = channels * blocks.run - (steps - 1) * DEPTH
                if rest == DEPTH:
                    rest = S.i32(0)
                else:
                    steps = steps - 1
            column_pitch = blocks.lines * channels
            pitch = column_pitch if TAPS > 1 else column_pitch * width.stride
            pixel_pitch = column_pitch * width.stride
            w_tile = tile_of(ws, step - 1, 0)
            x_tile = tile_of(xs, own_x, 0)
            result = S.i32(own_offset)
            own_sums = sums
            for h in S.unroll(len(HEIGHTS)):
                count = S.i32(0)
                if own_low == HEIGHTS[h]:
                    count = S.i32(own_lower)
                elif own_low + 1 == HEIGHTS[h]:
                    count = S.i32(own_higher)
                for _ in range(count):
                    if WHOLE:
                        for v in range(own_vectors):
                            whole_tile(
                                HEIGHTS[h],
                                x_tile,
                                w_tile + v * (TILES * weights_of_tile),
                                sums,
                                pitch,
                                steps,
                                rest,
                                weights_of_tile,
                                start,
                                scale,
                                results_of(v, own_panel, panel_columns, result, ldc, own_n, own_columns),
                                extras,
                                out,
                            )
                    else:
                        tile_pitch = segment * VL
                        for tile in range(tiles_of_part):
                            add_tile(
                                HEIGHTS[h],
                                x_tile,
                                w_tile + tile * weights_of_tile,
                                own_sums + (own_part * tiles_of_part + tile) * tile_pitch,
                                pitch,
                                steps,
                                rest,
                                is_first,
                            )
                        if own_block == blocks.count - 1 and own_part == blocks.parts - 1:
                            for v in range(own_vectors):
                                store_tile(
                                    HEIGHTS[h],
                                    own_sums + v * (TILES * tile_pitch),
                                    tile_pitch,
                                    start,
                                    scale,
                                    results_of(v, own_panel, panel_columns, result, ldc, own_n, own_columns),
                                    extras,
                                    out,
                                )
                        own_sums = own_sums + HEIGHTS[h] * VL
                    result = result + HEIGHTS[h] * ldc
                    x_tile = x_tile + HEIGHTS[h] * pixel_pitch
    # No results of its own go through the stage.
    close_stage(stage, 0)
