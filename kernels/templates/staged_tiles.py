"""Register tiles of staged_product.py, whose parameters these are: the products of some pixels by some columns whose
operands are in local memory, and what becomes of their sums.

The lanes of a sum are the depth. A vector of results is made of TILES tiles of COLUMNS columns, whose lanes are added:
of a tile at once, of all tiles when the last one is there.

The pixels of a tile follow each other in their row. Where a row ends within a tile, `split` of them are in that row and
the others begin the next one; 0: there is no such end. What is border of the image is 0 and left out: of the columns of
pixels, counted from the tile's first one, all but left <= column < end; of the next row's LEFT <= column < END.
"""

from aipu import script as S
from epilogue import finish_tile
from lane_sums import sums_of_even_lanes, sums_of_lanes, sums_of_neighbours

BYTES = 4 if X == "float32" else 2 if X == "float16" else 1
# Elements of a vector of x or of weights.
DEPTH = 4 * VL // BYTES
STEP = TAPS * COLUMNS * DEPTH
# Register tiles of a vector of columns.
TILES = VL // COLUMNS
# Of the constants of a panel's columns, which are in local memory.
own_start_types = [S.ptr(SUM, "lsram") for _ in start_types]
own_scale_types = [S.ptr("float32", "lsram") for _ in scale_types]
# Columns of pixels of the next row count from here.
NEXT_ROW = 4096


def borders_of(run):
    """Where a run's row begins and ends, and, in a segment that is not at the end of its row, everywhere else."""
    own = run[4:6]
    return [own] if IS_ROW or own == [0, NEXT_ROW] else [own, [0, NEXT_ROW]]


def shapes():
    """Of register tiles: their pixels, of which `split` end a row, where the image begins and ends, and whether there
    is one of them wherever they are.
    """
    if len(RUNS) == 0:
        return [[height, 0, 0, NEXT_ROW, False] for height in HEIGHTS]
    found = []
    for run in RUNS:
        for border in borders_of(run):
            same = [s for s in found if s[:4] == run[:2] + border]
            if len(same) == 0:
                found.append(run[:2] + border + [run[2] == 1])
            elif run[2] > 1:
                same[0][4] = False
    return found


SHAPES = shapes()
# Of the loop over the depth in a kernel's text.
MOST_COPIES = 16
TILES_IN_TEXT = TILES * len(SHAPES) <= MOST_COPIES


def number_of_shape(run, border):
    """In SHAPES."""
    return [i for i in range(len(SHAPES)) if SHAPES[i][:4] == run[:2] + border][0]


@S.record
class Place:
    """Of results in local memory: rows of pixels `pitch` elements apart, of whole vectors of columns. The epilogue's
    operands lie like them.
    """

    pitch: S.i32
    vectors: S.i32  # of columns


@S.record
class Way:
    """Through the operands of a block: from one column of pixels to the next, from one pixel to the next, from the
    first pixel of a tile to the start of the next row, and from tile to tile of columns; of its depth `steps` whole
    vectors and `rest` elements. With LINES_APART a line ends where `turn` (line_turn() in staged_product.py) says, and
    the next one is `next_line` elements further.
    """

    pitch: S.i32
    pixel_pitch: S.i32
    next_row: S.i32
    steps: S.i32
    rest: S.i32
    weights_of_tile: S.i32
    turn: S.i32
    next_line: S.i32


def column_under(pixel, tap, split):
    """The column of pixels that a pixel of a tile has under a tap."""
    if split == 0 or pixel < split:
        return pixel * STRIDE + tap * DILATION
    return NEXT_ROW + (pixel - split) * STRIDE + tap * DILATION


def columns_under(height, tap, split):
    return [column_under(i, tap, split) for i in range(height)]


def is_inner(column, left, end):
    """Whether a column of pixels is no border."""
    if column < NEXT_ROW:
        return column >= left and column < end
    return column - NEXT_ROW >= LEFT and column - NEXT_ROW < END


def positions(height, split, left, end):
    """The columns of pixels that a tile reads, in order."""
    if DILATION > (height - 1) * STRIDE:
        # Taps share none, however far apart they are.
        by_tap = [column_under(i, tap, split) for tap in range(TAPS) for i in range(height)]
        there = [q for q in by_tap if is_inner(q, left, end)]
        return [q for q in there if q < NEXT_ROW] + [q for q in there if q >= NEXT_ROW]
    last = (height - 1) * STRIDE + (TAPS - 1) * DILATION
    read = [column_under(i, tap, split) for i in range(height) for tap in range(TAPS)]
    inner = [q for q in read if is_inner(q, left, end)]
    return [q for first in [0, NEXT_ROW] for q in range(first, first + last + 1) if any([q == r for r in inner])]


def rows_from(first, columns, way: Way):
    """Where the columns of pixels are that a tile reads: one after the other, an addition each."""
    rows = []
    for k in S.unroll(len(columns)):
        gap = S.meta_var(columns[k] - columns[k - 1] if k > 0 else columns[k])
        if k > 0 and gap > 0 and gap < NEXT_ROW // 2:
            rows.append(rows[k - 1] + (way.pitch if gap == 1 else way.pitch * gap))
        elif columns[k] < NEXT_ROW:
            rows.append(first + way.pitch * columns[k] if columns[k] > 0 else first)
        else:
            rows.append(first + (way.next_row + (columns[k] - NEXT_ROW) * way.pitch))
    return rows


def tap_order():
    """Taps whose pixels are in step with each other come one after the other."""
    return [tap for phase in range(STRIDE) for tap in range(TAPS) if tap * DILATION % STRIDE == phase]


def place_among(column, columns):
    """Or -1."""
    found = [i for i in range(len(columns)) if columns[i] == column]
    return found[0] if len(found) > 0 else -1


def multiply_step(height, split, columns, acc, rows, at, weights, lane_mask):
    """acc[i, c] += the products of a vector of every pixel i with one of column c; `columns` of pixels are read. In
    registers are the weights of the step, or the pixels under one tap, which move on by a tap at a time; of the others
    one vector.
    """
    weights_of_step = S.meta_var(TAPS * COLUMNS)
    if height < weights_of_step:
        order = S.meta_var(tap_order())
        left = []
        for turn in S.unroll(TAPS):
            tap = S.meta_var(order[turn])
            under = S.meta_var(columns_under(height, tap, split))
            before = S.meta_var(columns_under(height, order[turn - 1], split) if turn > 0 else [])
            kept = S.meta_var([place_among(column, before) for column in under])
            there = S.meta_var([place_among(column, columns) for column in under])
            left = [
                left[kept[i]]
                if kept[i] >= 0
                else S.vload(rows[there[i]] + at, mask=lane_mask, lanes=DEPTH)
                if there[i] >= 0
                else 0
                for i in range(height)
            ]
            if any([place >= 0 for place in there]):
                for c in S.unroll(COLUMNS):
                    right = S.vload(weights + (tap * COLUMNS + c) * DEPTH, lanes=DEPTH)
                    for i in S.unroll(height):
                        if there[i] >= 0:
                            add_product(acc, i, c, left[i], right)
    else:
        right = [S.vload(weights + k * DEPTH, lanes=DEPTH) for k in range(weights_of_step)]
        for q in S.unroll(len(columns)):
            left = S.vload(rows[q] + at, mask=lane_mask, lanes=DEPTH)
            for k in S.unroll(weights_of_step):
                pixel = S.meta_var(place_among(columns[q], columns_under(height, k // COLUMNS, split)))
                if pixel >= 0:
                    add_product(acc, pixel, k % COLUMNS, left, right[k])


def add_product(acc, pixel, column, left, right):
    i = S.meta_var(pixel * COLUMNS + column)
    acc[i] = S.fma(acc[i], left, right) if X == "float32" else S.vqdpa(acc[i], left, right)


def multiply(height, split, columns, acc, rows, w, way: Way):
    """The products of a block."""
    weights = w
    at = S.i32(0)
    for step in range(way.steps):
        if LINES_APART:
            at = step * DEPTH + (step * way.turn >> 16) * way.next_line
        multiply_step(height, split, columns, acc, rows, at, weights, None)
        weights = weights + STEP
        if not LINES_APART:
            at = at + DEPTH
    if MASKED:
        if way.rest > 0:
            multiply_step(height, split, columns, acc, rows, at, weights, S.tail_mask(way.rest, DEPTH))


def folded(vectors, count, is_raw):
    """Towards one vector whose lane is a column's sum; the order of columns in packed weights is that of the pairs.
    `is_raw`: of sums as they were added up.
    """
    if SUM == "int32":
        return sums_of_neighbours(vectors, count)
    return sums_of_even_lanes(vectors, count) if is_raw and X == "float16" else sums_of_lanes(vectors, count)


def finish_sums(height, totals, start, scale, column, row, place: Place, extras, out):
    """Stores `height` pixels from `row` on by VL columns from `column` on."""
    results = totals
    if len(start) > 0:
        initial = S.vload(start[0] + column, lanes=VL)
        results = [total + initial for total in results]
    if len(scale) > 0:
        factor = S.vload(scale[0] + column, lanes=VL)
        results = [S.cast(total, "float32") * factor for total in results]
    # Columns that do not exist have their place like the others.
    finish_tile(height, results, extras, out, row * place.pitch, place.pitch, column, VL)


def sums_of_tile(height):
    return S.alloc_buffer((height * COLUMNS,), f"{SUM}x{VL}")


def multiply_tile(height, split, columns, acc, zero, rows, w, way: Way):
    """Vector i: the sums of pixel i by COLUMNS columns, folded."""
    for i in S.unroll(height * COLUMNS):
        acc[i] = zero
    multiply(height, split, columns, acc, rows, w, way)
    return [folded([acc[i * COLUMNS + c] for c in range(COLUMNS)], COLUMNS, True) for i in range(height)]


def first_tiles():
    """All tiles of columns of a vector but the last one."""
    return S.unroll(TILES - 1) if TILES_IN_TEXT else range(TILES - 1)


def is_held(height):
    """Whether the tiles before the last one of a vector wait for it in registers."""
    tile = height * COLUMNS + min(TAPS * COLUMNS, height) + 1
    return TILES_IN_TEXT and tile + (TILES - 1) * height <= REGISTERS


def whole_vector(height, split, columns, acc, zero, rows, w, sums, way: Way):
    """The sums of `height` pixels by VL columns. The tiles before the last one wait for it."""
    held = S.meta_var(is_held(height))
    waiting = [] if held else [sums + k * VL for k in range((TILES - 1) * height)]
    partials = []
    for tile in first_tiles():
        partial = multiply_tile(height, split, columns, acc, zero, rows, w + tile * way.weights_of_tile, way)
        if held:
            partials.append(partial)
        else:
            for i in S.unroll(height):
                if TILES_IN_TEXT:
                    S.vstore(partial[i], waiting[tile * height + i])
                else:
                    S.vstore(partial[i], waiting[i] + tile * height * VL)
    last = multiply_tile(height, split, columns, acc, zero, rows, w + (TILES - 1) * way.weights_of_tile, way)
    return [
        folded(
            [partials[tile][i] if held else S.vload(waiting[tile * height + i], lanes=VL) for tile in range(TILES - 1)]
            + [last[i]],
            TILES,
            COLUMNS == 1,
        )
        for i in range(height)
    ]


@S.prim_func(is_inline=False)
def whole_tiles(
    shape: S.meta_var,
    count: S.i32,
    x: S.ptr(X, "lsram"),
    w: S.ptr(W, "lsram"),
    sums: S.ptr(SUM, "lsram"),
    way: Way,
    start: own_start_types,
    scale: own_scale_types,
    place: Place,
    extras: own_extra_types,
    out: S.ptr(OUT, "lsram"),
):
    """`count` tiles of one of SHAPES by `place.vectors` vectors of columns, from products to results."""
    height, split = S.meta_var(SHAPES[shape][0]), S.meta_var(SHAPES[shape][1])
    acc = sums_of_tile(height)
    zero = S.cast(0, f"{SUM}x{VL}")
    columns = S.meta_var(positions(height, split, SHAPES[shape][2], SHAPES[shape][3]))
    first = x
    # One tile takes no loop.
    is_one = S.meta_var(SHAPES[shape][4])
    further = height * way.pixel_pitch
    for tile in S.unroll(1) if is_one else range(count):
        own = w
        for v in range(place.vectors):
            # Here they are worked out beside vector instructions.
            rows = rows_from(first, columns, way)
            totals = whole_vector(height, split, columns, acc, zero, rows, own, sums, way)
            finish_sums(height, totals, start, scale, v * VL, tile * height, place, extras, out)
            own = own + TILES * way.weights_of_tile
        if not is_one:
            first = first + further


@S.prim_func(is_inline=False)
def add_tiles(
    shape: S.meta_var,
    count: S.i32,
    tiles: S.i32,
    x: S.ptr(X, "lsram"),
    w: S.ptr(W, "lsram"),
    sums: S.ptr(SUM, "lsram"),
    tile_pitch: S.i32,
    way: Way,
    block: S.i32,
):
    """Adds the products of a block, if it is not the first one, to the sums of `count` tiles of one of SHAPES by
    `tiles` times COLUMNS columns, whose sums are tile_pitch apart.
    """
    height, split = S.meta_var(SHAPES[shape][0]), S.meta_var(SHAPES[shape][1])
    acc = sums_of_tile(height)
    zero = S.cast(0, f"{SUM}x{VL}")
    columns = S.meta_var(positions(height, split, SHAPES[shape][2], SHAPES[shape][3]))
    first = x
    row_sums = sums
    is_one = S.meta_var(SHAPES[shape][4])
    further = height * way.pixel_pitch
    for row in S.unroll(1) if is_one else range(count):
        rows_of_tile = rows_from(first, columns, way) if SUM == "int32" else []
        target = row_sums
        own = w
        for tile in range(tiles):
            # Those of floats are worked out here, beside the instructions that add lanes.
            rows = rows_of_tile if SUM == "int32" else rows_from(first, columns, way)
            totals = multiply_tile(height, split, columns, acc, zero, rows, own, way)
            if block > 0:
                for i in S.unroll(height):
                    S.vstore(totals[i] + S.vload(target + i * VL, lanes=VL), target + i * VL)
            else:
                for i in S.unroll(height):
                    S.vstore(totals[i], target + i * VL)
            target = target + tile_pitch
            own = own + way.weights_of_tile
        if not is_one:
            first = first + further
            row_sums = row_sums + height * VL


@S.prim_func(is_inline=False)
def store_tiles(
    height: S.meta_var,
    count: S.i32,
    vectors: S.i32,
    sums: S.ptr(SUM, "lsram"),
    tile_pitch: S.i32,
    start: own_start_types,
    scale: own_scale_types,
    place: Place,
    extras: own_extra_types,
    out: S.ptr(OUT, "lsram"),
):
    """The results of `count` times `height` pixels by `vectors` vectors of columns."""
    row_sums = sums
    for row in range(count):
        vector_sums = row_sums
        for v in range(vectors):
            tiles = [vector_sums]
            for tile in S.unroll(1, TILES):
                tiles.append(tiles[tile - 1] + tile_pitch)
            totals = [
                folded([S.vload(p + i * VL, lanes=VL) for p in tiles], TILES, COLUMNS == 1) for i in range(height)
            ]
            finish_sums(height, totals, start, scale, v * VL, row * height, place, extras, out)
            vector_sums = tiles[TILES - 1] + tile_pitch
        row_sums = row_sums + height * VL
