"""Convolutions (1 to 3 spatial dimensions, channels last) and matrix products on targets with local memory: both
operands and the results stream through it, two buffers each.

out[n, od, oh, ow, g * OCg + oc] = epilogue(scale[oc] * (start[oc] + sum over kd, kh, kw, ic of x[n, od*sd + kd*dd, ...,
g * ICg + ic] * w[...])); padding is part of x. A matrix product is a 1x1 convolution over one row of pixels.

Lanes are the depth of the product: a vector of x times a vector of one column's weights, which takes no broadcasts;
the lanes of a sum are added at the end. DMA lays the pixels of a row out so that what one column of pixels has under
all lines of the window (kd, kh) lies side by side, and with it, from column to column, the whole window; or, with
LINES_APART, line after line as they are in memory, which takes one transfer.

A unit of a TEC is a segment of some rows of results times a panel of columns. It takes blocks of channels one after the
other; of a block the pixels come once, all lines of the rows' windows, and the weights in `parts` of the panel's
columns. Who computes an element does not change its sum. What the epilogue reads comes as the results go, and lies in
local memory like them.

Parameters bound by kernels/parts/staged_product.cpp:
  X, W, SUM    element types of x, of the weights, of the sums: 8 bits and int32 (four products per lane and
               instruction), float16 and float32 (four in every second lane; both S.vqdpa), or float32 (S.fma)
  VL, COLUMNS, HEIGHTS, TAPS  register tile: HEIGHTS[0] pixels by COLUMNS columns, and TAPS taps of a line, whose pixels
               are shared: the width of the window, or 1, where taps are part of the depth. Heights descend
  ROWS         of a unit; if more than one, then there are RUNS, windows are planes and their lines not dilated
  RUNS, RUN_PIXELS  where all units are alike: their tiles of pixels as [height, split, how many, first pixel, left, end
               (staged_tiles.py), whether there may be border above, below], and the pixels of a segment. Otherwise
               none: segments are cut into HEIGHTS when running
  IS_ROW       a segment is a whole row; otherwise only the first one has a left side, and the last one a right side
  LEFT, END    columns of pixels of a row that are no border (staged_tiles.py)
  LINES_APART  units are alike, windows are planes, and channels of a block are whole vectors: the depth goes
               line by line
  SKIPS, TOP, BOTTOM  whether lines of the border are left out, and how many there are above and below
  STRIDE, DILATION  of pixels and taps within a tile, in columns of pixels; with TAPS = 1 both are 1, as the pitch of
               pixels says the rest
  MASKED       the depth of a block may end within a vector, and what follows is not multiplied by 0
  WHOLE        a unit is one block: sums never leave the registers before they are complete
  EVEN         all blocks have as many channels
  OUT_BUFFERS  of results and of the epilogue's operands; 1 where a unit takes several steps
  W_BUFFERS    of weights; 1 where those of a panel stay for its units: the next panel's come when its last one is done
  POOL         bytes of local memory; STAGING: 2 (staging.py)
  start_types, scale_types  a pointer type or none: without start nothing is added to the sums, without scale they are
               stored as they are
  own_extra_types, EXTRA_TYPES, EXTRA_BYTES  of the epilogue's operands: pointers to local memory, their elements
The rest is the epilogue's (epilogue.py); its NV is 1.

Weights are packed [group][panel][block][vector][tile of columns][step][TAPS][COLUMNS][DEPTH], zero padded.
"""

from aipu import script as S
from sharing import balanced
from spatial import Geometry, Groups
from staged_tiles import (
    BYTES,
    DEPTH,
    STEP,
    TILES,
    Place,
    Way,
    add_tiles,
    borders_of,
    number_of_shape,
    store_tiles,
    whole_tiles,
)
from staging import close_stage, open_stage

# Of an operand that is the same for all results, and of a column of another one, in local memory.
SCALAR_BYTES = 64
COLUMN_BYTES = 8


@S.record
class Blocks:
    """Of the depth: `count` blocks of `channels` channels of x each, the last one of the rest. Capacities are elements
    of buffers.
    """

    count: S.i32
    channels: S.i32
    lines: S.i32  # of the window
    unit_lines: S.i32  # of the windows of a unit's rows
    run: S.i32  # what a channel of a block is in the depth: the window, or with TAPS > 1 its lines
    vectors: S.i32  # of a panel
    parts: S.i32  # in which the weights of a block come
    x_capacity: S.i32
    w_capacity: S.i32
    sum_capacity: S.i32
    out_capacity: S.i32


def bring(event, target, source, width, source_stride, rows, target_stride):
    S.async_dma_copy(target, source, width, source_stride, rows, target_stride, event=event)


def fetch_pixels(event, target, x, offset, span, channels, geometry: Geometry, blocks: Blocks):
    """Starts bringing `channels` channels of the columns of pixels under a segment in, all lines of the windows."""
    depth, height = geometry.depth, geometry.height
    line_pitch = geometry.width.image * geometry.channels
    if LINES_APART:
        source = x + offset
        if channels == geometry.channels:
            bring(event, target, source, span * channels, line_pitch, blocks.unit_lines, span * channels)
        elif span == geometry.width.image:
            columns = span * blocks.unit_lines
            bring(event, target, source, channels, geometry.channels, columns, channels)
        else:
            for line in range(blocks.unit_lines):
                own, place = source + line * line_pitch, target + line * span * channels
                bring(event, place, own, channels, geometry.channels, span, channels)
    elif ROWS > 1:
        for line in range(blocks.unit_lines):
            own = x + (offset + line * line_pitch)
            pitch = blocks.unit_lines * channels
            bring(event, target + line * channels, own, channels, geometry.channels, span, pitch)
    elif blocks.lines == 1 and channels == geometry.channels:
        bring(event, target, x + offset, span * channels, span * channels, 1, span * channels)
    else:
        pitch = blocks.lines * channels
        for plane in range(depth.kernel):
            place = target + plane * height.kernel * channels
            source = x + (offset + plane * depth.dilation * height.image * line_pitch)
            for line in range(height.kernel):
                own = source + line * height.dilation * line_pitch
                bring(event, place + line * channels, own, channels, geometry.channels, span, pitch)


def is_full(e):
    return extra_modes[e] == "full"


def number_of(mode, e):
    """Of the operands in front of e, how many have that mode."""
    return len([k for k in range(e) if extra_modes[k] == mode])


def bytes_of_full(count):
    """Of an element of each of the first `count` operands that have one per result."""
    return sum([EXTRA_BYTES[e] for e in range(count) if is_full(e)])


def place_of_extra(e, memory, panel_columns, capacity):
    """Of operand e in `memory`, where those come first that are the same for all results, then those of a panel's
    columns, then OUT_BUFFERS buffers of `capacity` elements each.
    """
    of_columns = memory + number_of("scalar", N_EXTRA) * SCALAR_BYTES
    if extra_modes[e] == "scalar":
        return (memory + number_of("scalar", e) * SCALAR_BYTES).as_ptr(EXTRA_TYPES[e])
    if extra_modes[e] == "column":
        return (of_columns + number_of("column", e) * COLUMN_BYTES * panel_columns).as_ptr(EXTRA_TYPES[e])
    full = of_columns + number_of("column", N_EXTRA) * COLUMN_BYTES * panel_columns
    return (full + OUT_BUFFERS * bytes_of_full(e) * capacity).as_ptr(EXTRA_TYPES[e])


def move(event, leaves, local, pitch, memory, ldc, columns, pixels, row_pitch):
    """Starts bringing a unit's elements of an operand in, or its results out: `pixels` pixels of each row."""
    # Whole rows follow each other.
    copies = S.meta_var(1 if IS_ROW else ROWS)
    count = pixels * (ROWS // copies)
    for row in S.unroll(1) if copies == 1 else range(copies):
        near, far = local + row * pixels * pitch, memory + row * row_pitch
        if leaves:
            bring(event, far, near, columns, pitch, count, ldc)
        else:
            bring(event, near, far, columns, ldc, count, pitch)


def extras_at(operands, offset):
    """The epilogue's operands, `offset` results on."""
    return [operands[e] + offset if is_full(e) else operands[e] for e in range(N_EXTRA)]


def tiles_of_shape(
    k, shape, tiles, x, w, sums, tile_pitch, way: Way, block, start, scale, place: Place, operands, results
):
    if WHOLE:
        whole_tiles(shape, RUNS[k][2], x, w, sums, way, start, scale, place, operands, results)
    else:
        add_tiles(shape, RUNS[k][2], tiles, x, w, sums + RUNS[k][3] * VL, tile_pitch, way, block)


def tiles_of_run(
    k, is_edge, tiles, x, w, sums, tile_pitch, way: Way, block, start, scale, place: Place, operands, results
):
    """The register tiles of run k, of a part of the columns of a block."""
    shapes = S.meta_var([number_of_shape(RUNS[k], border) for border in borders_of(RUNS[k])])
    own, inner = S.meta_var(shapes[0]), S.meta_var(shapes[-1])
    if own == inner:
        tiles_of_shape(k, own, tiles, x, w, sums, tile_pitch, way, block, start, scale, place, operands, results)
    elif is_edge:
        tiles_of_shape(k, own, tiles, x, w, sums, tile_pitch, way, block, start, scale, place, operands, results)
    else:
        tiles_of_shape(k, inner, tiles, x, w, sums, tile_pitch, way, block, start, scale, place, operands, results)


def line_turn(steps):
    """Multiplied by a step's number it has that of its line above its lower 16 bits: 1 / steps, rounded up."""
    return 65536 // S.max(steps, 1) + 1


@S.record
class Walk:
    """Through a block, as Way: of its `channels` channels; its weights under a tile; lines of pixels are `of_line`
    long, rows of results `line_pitch` apart, and `line_steps` of the steps and `line_weights` of a line.
    """

    channels: S.i32
    weights: S.i32
    steps: S.i32
    rest: S.i32
    pitch: S.i32
    pixel_pitch: S.i32
    line_pitch: S.i32
    of_line: S.i32
    line_steps: S.i32
    line_weights: S.i32
    turn: S.i32


def walk_through(channels, span, geometry: Geometry, blocks: Blocks):
    depth = channels * blocks.run
    steps = S.ceildiv(depth, DEPTH)
    of_line = span * channels if LINES_APART else channels
    column_pitch = channels if LINES_APART else blocks.unit_lines * channels
    pixel_pitch = column_pitch * geometry.width.stride
    return Walk(
        channels,
        steps * STEP,
        depth // DEPTH if MASKED else steps,
        depth % DEPTH if MASKED else 0,
        column_pitch if TAPS > 1 else pixel_pitch,
        pixel_pitch,
        geometry.height.stride * of_line,
        of_line,
        channels // DEPTH if LINES_APART else 0,
        channels // DEPTH * STEP if LINES_APART else 0,
        line_turn(channels // DEPTH) if LINES_APART else 0,
    )


def row_keys():
    """Of the runs: twice the row that a tile begins in, and 1 if it goes on in the next one. Equal ones leave out the
    same lines.
    """
    return [RUNS[k][3] // RUN_PIXELS * 2 + (1 if RUNS[k][1] > 0 else 0) for k in range(len(RUNS))]


def places_of_runs(pixel_pitch, line_pitch):
    """Of their first columns of pixels in a unit's."""
    firsts = [RUNS[k][3] for k in range(len(RUNS))]
    return [row_keys()[k] // 2 * line_pitch + firsts[k] % RUN_PIXELS * pixel_pitch for k in range(len(RUNS))]


def has_border(key, side):
    """Whether a run of that key may have border above (6) or below (7)."""
    keys = row_keys()
    return SKIPS and any([keys[k] == key and RUNS[k][side] > 0 for k in range(len(RUNS))])


def stored_tiles(height):
    """How many tiles of that height a unit's results are finished in: as many of the highest ones as there are."""
    pixels = ROWS * RUN_PIXELS
    rest = pixels % HEIGHTS[0]
    return pixels // HEIGHTS[0] if height == HEIGHTS[0] else 1 if height == rest else 0


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
    # Of results, ROWS at a time.
    rows = geometry.batch * geometry.depth.result * S.ceildiv(geometry.height.result, ROWS)
    first, last = balanced(rows * segments * groups.count * panels, S.get_local_size(), S.get_local_id())
    ldc = groups.count * groups.result
    last_channels = groups.image - (blocks.count - 1) * blocks.channels
    tiles_of_panel = blocks.vectors * TILES
    tiles_of_part = tiles_of_panel // blocks.parts
    tile_pitch = ROWS * segment * VL

    stage = open_stage()
    pool = S.alloc((POOL // BYTES,), X, scope="lsram")
    w_pool = (pool + 2 * blocks.x_capacity).as_ptr(W)
    sums = (w_pool + W_BUFFERS * blocks.w_capacity).as_ptr(SUM)
    outs = (sums + blocks.sum_capacity).as_ptr(OUT)
    behind_outs = outs + OUT_BUFFERS * blocks.out_capacity
    done = S.i32(0)  # units whose results are on their way
    # What is added and multiplied per column of a panel.
    places_of_results = [RUNS[k][3] * panel_columns for k in range(len(RUNS))]
    own_start = [behind_outs.as_ptr(SUM) for _ in start]
    own_scale = [behind_outs.as_ptr("float32") + len(start) * panel_columns for _ in scale]
    constants_of = S.i32(-1)
    of_extras = behind_outs.as_ptr("uint8") + 8 * panel_columns
    own_extras = [
        extras[e] if extra_modes[e] == "number" else place_of_extra(e, of_extras, panel_columns, blocks.out_capacity)
        for e in range(N_EXTRA)
    ]
    for e in S.unroll(N_EXTRA):
        if extra_modes[e] == "scalar":
            own_extras[e][0] = extras[e][0]

    last_block, last_part = blocks.count - 1, blocks.parts - 1
    total = (last - first) * blocks.count * blocks.parts
    # The unit whose operands come: its panel, its row of results, also as one of an image, and its segment. It moves on
    # without a division, from the one before the first.
    unit_panel, number, unit_segment = S.i32(0), S.i32(0), S.i32(0)
    row_image, row_depth, row_height = S.i32(0), S.i32(0), S.i32(0)
    image_line = width.image * geometry.channels
    plane_pitch = geometry.height.image * image_line
    image_pitch, next_plane = geometry.depth.image * plane_pitch, geometry.depth.stride * plane_pitch
    next_rows = ROWS * geometry.height.stride * image_line
    row_at = S.i32(0)  # in x
    if first < last:
        unit_panel = first // (rows * segments)
        number = (first - unit_panel * rows * segments) // segments
        unit_segment = first - (unit_panel * rows + number) * segments - 1
        heights = geometry.height.result // ROWS
        row_height = number % heights * ROWS
        row_depth = number // heights % geometry.depth.result
        row_image = number // (heights * geometry.depth.result)
        row_at = row_image * image_pitch + row_depth * next_plane + row_height // ROWS * next_rows
    image_at = S.i32(0)
    span = S.i32(0)
    pixels = S.i32(0)
    panel = S.i32(-1)
    row_offset = S.i32(0)
    n = S.i32(0)
    columns = S.i32(0)
    vectors = S.i32(0)
    low = S.i32(0)
    lower = S.i32(0)
    higher = S.i32(0)
    block = S.i32(last_block)
    part = S.i32(last_part)
    # Of two buffers the one that was filled last, and the one after it, as places in memory; and so with events.
    x_at, w_at, extra_at, result_at = S.i32(blocks.x_capacity), S.i32(0), S.i32(0), S.i32(0)
    if W_BUFFERS > 1:
        w_at = S.i32(blocks.w_capacity)
    if OUT_BUFFERS > 1:
        extra_at = S.i32(blocks.out_capacity)
    coming, leaving = S.i32(stage[1]), S.i32(stage[2])
    next_weights = S.i32(0)
    cut = S.i32(-1)
    row_pitch = width.result * ldc
    results_of_rows, results_of_segment = ROWS * row_pitch, segment * ldc
    pixels_of_segment = segment * width.stride * geometry.channels
    group = S.i32(0)
    group_at = S.i32(0)
    alike = S.meta_var(len(RUNS) > 0)
    if alike:
        pixels = S.i32(segment)
        span = (segment - 1) * width.stride + (width.kernel - 1) * width.dilation + 1
    # Of a block but the last one, and of that.
    walk = walk_through(blocks.channels, span, geometry, blocks)
    last_walk = walk_through(last_channels, span, geometry, blocks)
    panel_weights = ((blocks.count - 1) * walk.weights + last_walk.weights) * tiles_of_panel
    part_weights, last_part_weights = walk.weights * tiles_of_part, last_walk.weights * tiles_of_part
    part_sums = tiles_of_part * tile_pitch
    places = places_of_runs(walk.pixel_pitch, walk.line_pitch) if EVEN else []
    # Of the runs by their keys: how many lines of the border none of a tile's pixels takes above, and those they take.
    skipped_lines = S.alloc_buffer((2 * ROWS,), "int32")
    taken_lines = S.alloc_buffer((2 * ROWS,), "int32")
    # Of the lines under a unit's last row those below the image, less what its first row is further down than row 0.
    below_first = BOTTOM - (geometry.height.result - ROWS) * geometry.height.stride
    for step in range(total + 1):
        # What came in the last step is computed in this one.
        own_panel, own_offset, own_n, own_columns = S.i32(panel), S.i32(row_offset), S.i32(n), S.i32(columns)
        own_vectors, own_low, own_lower, own_higher = S.i32(vectors), S.i32(low), S.i32(lower), S.i32(higher)
        own_x, own_w, own_event = S.i32(x_at), S.i32(w_at), S.i32(coming)
        own_block = S.i32(block)
        own_part = S.i32(part)
        own_segment = S.i32(unit_segment)
        own_skipped = [S.i32(skipped_lines[key]) if has_border(key, 6) else 0 for key in range(2 * ROWS)]
        own_taken = [
            S.i32(taken_lines[key]) if has_border(key, 6) or has_border(key, 7) else 0 for key in range(2 * ROWS)
        ]
        is_late = S.i32(0)
        if step < total:
            coming = (stage[0] + stage[1]) - coming
            is_new = False
            if not WHOLE:
                part = part + 1
            if WHOLE or part == blocks.parts:
                part = S.i32(0)
                if not WHOLE:
                    block = block + 1
                if WHOLE or block == blocks.count:
                    block = S.i32(0)
                    unit_segment = unit_segment + 1
                    if unit_segment == segments:
                        unit_segment = S.i32(0)
                        number = number + 1
                        row_at = row_at + next_rows
                        row_height = row_height + ROWS
                        if row_height == geometry.height.result:
                            row_height = S.i32(0)
                            row_depth = row_depth + 1
                            if row_depth == geometry.depth.result:
                                row_depth = S.i32(0)
                                row_image = row_image + 1
                            if number == rows:
                                number = S.i32(0)
                                row_image = S.i32(0)
                                unit_panel = unit_panel + 1
                            row_at = row_image * image_pitch + row_depth * next_plane
                    is_new = panel != unit_panel
                    if is_new:
                        panel = S.i32(unit_panel)
                        if groups.count > 1:
                            group = panel // panels
                            group_at = group * groups.image
                        columns = groups.result - (panel - group * panels) * panel_columns
                        n = (group + 1) * groups.result - columns
                        vectors = S.min(blocks.vectors, S.ceildiv(columns, VL))
                    if not WHOLE:
                        next_weights = panel * panel_weights
                    image_at = row_at + unit_segment * pixels_of_segment + group_at
                    if SKIPS:
                        above = TOP - row_height * geometry.height.stride
                        below = row_height * geometry.height.stride + below_first
                        for key in S.unroll(2 * ROWS):
                            lines = blocks.lines
                            if has_border(key, 6):
                                skipped_lines[key] = S.max(above - (key + 1) // 2 * geometry.height.stride, 0)
                                lines = lines - skipped_lines[key]
                            if has_border(key, 7):
                                lines = lines - S.max(below - (ROWS - 1 - key // 2) * geometry.height.stride, 0)
                            if has_border(key, 6) or has_border(key, 7):
                                taken_lines[key] = S.max(lines, 0)
                    row_offset = number * results_of_rows + unit_segment * results_of_segment
                    if not alike:
                        pixels = S.min(segment, width.result - unit_segment * segment)
                        span = (pixels - 1) * width.stride + (width.kernel - 1) * width.dilation + 1
                        # Tiles of equal height, or of two that differ by one.
                        if pixels != cut:
                            cut = S.i32(pixels)
                            tiles = S.ceildiv(pixels, HEIGHTS[0])
                            low = pixels // tiles
                            higher = pixels - low * tiles
                            lower = tiles - higher
                x_at = blocks.x_capacity - x_at
                channels = S.i32(blocks.channels)
                if not EVEN:
                    if block == last_block:
                        channels = S.i32(last_channels)
                first_channel = 0 if WHOLE else block * blocks.channels
                fetch_pixels(coming, pool + x_at, x, image_at + first_channel, span, channels, geometry, blocks)
            if WHOLE:
                # Those of a whole panel stay for all its units.
                if is_new:
                    if W_BUFFERS == 1 and step > 0:
                        is_late = S.i32(1)
                    else:
                        if W_BUFFERS > 1:
                            w_at = blocks.w_capacity - w_at
                        own = weights + panel * panel_weights
                        bring(coming, w_pool + w_at, own, panel_weights, panel_weights, 1, 0)
            else:
                count = S.i32(part_weights)
                if not EVEN:
                    if block == last_block:
                        count = S.i32(last_part_weights)
                w_at = blocks.w_capacity - w_at
                bring(coming, w_pool + w_at, weights + next_weights, count, count, 1, 0)
                next_weights = next_weights + count
            if len([e for e in range(N_EXTRA) if is_full(e)]) > 0:
                if WHOLE or (block == last_block and part == last_part):
                    if OUT_BUFFERS > 1:
                        extra_at = blocks.out_capacity - extra_at
                    for e in S.unroll(N_EXTRA):
                        if is_full(e):
                            move(
                                coming,
                                False,
                                own_extras[e] + extra_at,
                                panel_columns,
                                extras[e] + (row_offset + n),
                                ldc,
                                S.min(panel_columns, columns),
                                S.i32(pixels),
                                row_pitch,
                            )
        if step > 0:
            S.wait_events(own_event)
            is_last = WHOLE or (own_block == last_block and own_part == last_part)
            results = outs + result_at
            if is_last:
                if done >= OUT_BUFFERS:
                    S.wait_events(leaving)
                if constants_of != own_panel:
                    constants_of = S.i32(own_panel)
                    for v in range(own_vectors):
                        for k in S.unroll(len(start)):
                            initial = S.vload(start[k] + (own_panel * panel_columns + v * VL), lanes=VL)
                            S.vstore(initial, own_start[k] + v * VL)
                        for k in S.unroll(len(scale)):
                            factor = S.vload(scale[k] + (own_panel * panel_columns + v * VL), lanes=VL)
                            S.vstore(factor, own_scale[k] + v * VL)
                        for e in S.unroll(N_EXTRA):
                            if extra_modes[e] == "column":
                                lane_mask = S.tail_mask(S.min(own_columns - v * VL, VL), VL)
                                value = S.vload(extras[e] + (own_n + v * VL), mask=lane_mask, lanes=VL)
                                S.vstore(value, own_extras[e] + v * VL)
            steps, rest, weights_of_tile = S.i32(walk.steps), S.i32(walk.rest), S.i32(walk.weights)
            pitch, pixel_pitch, line_pitch = S.i32(walk.pitch), S.i32(walk.pixel_pitch), S.i32(walk.line_pitch)
            channels, of_line = S.i32(walk.channels), S.i32(walk.of_line)
            line_steps, line_weights, turn = S.i32(walk.line_steps), S.i32(walk.line_weights), S.i32(walk.turn)
            if not EVEN:
                if own_block == last_block:
                    steps, rest, weights_of_tile = (
                        S.i32(last_walk.steps),
                        S.i32(last_walk.rest),
                        S.i32(last_walk.weights),
                    )
                    pitch, pixel_pitch = S.i32(last_walk.pitch), S.i32(last_walk.pixel_pitch)
                    line_pitch, of_line = S.i32(last_walk.line_pitch), S.i32(last_walk.of_line)
                    channels = S.i32(last_walk.channels)
                    line_steps, line_weights = S.i32(last_walk.line_steps), S.i32(last_walk.line_weights)
                    turn = S.i32(last_walk.turn)
            next_line = of_line - channels
            w_tile = w_pool + own_w
            x_tile = pool + own_x
            own_sums = sums if WHOLE else sums + own_part * part_sums
            place = Place(panel_columns, own_vectors)
            own_full = [own_extras[e] + result_at if is_full(e) else own_extras[e] for e in range(N_EXTRA)]
            pixel = S.i32(0)
            if len(RUNS) > 0:
                own_places = places if EVEN else places_of_runs(pixel_pitch, line_pitch)
                # Of the runs by their keys.
                steps_of = [
                    own_taken[key] * line_steps if has_border(key, 6) or has_border(key, 7) else steps
                    for key in range(2 * ROWS)
                ]
                weights_of = [
                    w_tile + own_skipped[key] * line_weights if has_border(key, 6) else w_tile
                    for key in range(2 * ROWS)
                ]
                pixels_of = [
                    x_tile + own_skipped[key] * of_line if has_border(key, 6) else x_tile for key in range(2 * ROWS)
                ]
                for k in S.unroll(len(RUNS)):
                    key, column = S.meta_var(row_keys()[k]), S.meta_var(RUNS[k][3] % RUN_PIXELS)
                    next_row = line_pitch - column * pixel_pitch if RUNS[k][1] > 0 else 0
                    tiles_of_run(
                        k,
                        own_segment == (0 if RUNS[k][4] > 0 else segments - 1),
                        tiles_of_part,
                        pixels_of[key] + own_places[k],
                        weights_of[key],
                        own_sums,
                        tile_pitch,
                        Way(pitch, pixel_pitch, next_row, steps_of[key], rest, weights_of_tile, turn, next_line),
                        own_block,
                        own_start,
                        own_scale,
                        place,
                        extras_at(own_full, places_of_results[k]),
                        results + places_of_results[k],
                    )
                if not WHOLE and is_last:
                    for height in S.unroll(HEIGHTS[0], 0, -1):
                        tiles = S.meta_var(stored_tiles(height))
                        at = S.meta_var(ROWS * RUN_PIXELS - tiles * height if height < HEIGHTS[0] else 0)
                        if tiles > 0:
                            store_tiles(
                                height,
                                tiles,
                                own_vectors,
                                sums + at * VL,
                                tile_pitch,
                                own_start,
                                own_scale,
                                place,
                                extras_at(own_full, at * panel_columns),
                                results + at * panel_columns,
                            )
                pixel = S.i32(RUN_PIXELS)
            else:
                way = Way(pitch, pixel_pitch, 0, steps, rest, weights_of_tile, turn, next_line)
                for h in S.unroll(len(HEIGHTS)):
                    count = S.i32(0)
                    if own_low == HEIGHTS[h]:
                        count = S.i32(own_lower)
                    elif own_low + 1 == HEIGHTS[h]:
                        count = S.i32(own_higher)
                    if count > 0:
                        target = results + pixel * panel_columns
                        own_operands = extras_at(own_full, pixel * panel_columns)
                        pixels_there = x_tile + pixel * pixel_pitch
                        if WHOLE:
                            whole_tiles(
                                h,
                                count,
                                pixels_there,
                                w_tile,
                                own_sums,
                                way,
                                own_start,
                                own_scale,
                                place,
                                own_operands,
                                target,
                            )
                        else:
                            add_tiles(
                                h,
                                count,
                                tiles_of_part,
                                pixels_there,
                                w_tile,
                                own_sums + pixel * VL,
                                tile_pitch,
                                way,
                                own_block,
                            )
                            if is_last:
                                store_tiles(
                                    HEIGHTS[h],
                                    count,
                                    own_vectors,
                                    sums + pixel * VL,
                                    tile_pitch,
                                    own_start,
                                    own_scale,
                                    place,
                                    own_operands,
                                    target,
                                )
                        pixel = pixel + count * HEIGHTS[h]
            if is_last:
                stored = S.min(panel_columns, own_columns)
                target = out + (own_offset + own_n)
                move(leaving, True, results, panel_columns, target, ldc, stored, pixel, row_pitch)
                done = done + 1
                if OUT_BUFFERS > 1:
                    leaving = (stage[2] + stage[3]) - leaving
                    result_at = blocks.out_capacity - result_at
        if W_BUFFERS == 1:
            if is_late > 0:
                own = weights + panel * panel_weights
                bring(coming, w_pool, own, panel_weights, panel_weights, 1, 0)
    if OUT_BUFFERS > 1:
        close_stage(stage, done)
    else:
        if done > 0:
            S.wait_events(leaving)
        S.free_events(stage[0], stage[1], stage[2], stage[3])
