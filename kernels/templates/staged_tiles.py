"""Register tiles of staged_product.py, whose parameters these are: the products of some pixels by some columns whose
operands are in local memory, and what becomes of their sums.

The lanes of a sum are the depth. A vector of results is made of TILES tiles of COLUMNS columns, whose lanes are added:
of a tile at once, of all tiles when the last one is there.
"""

from aipu import script as S
from epilogue import finish_tile
from lane_sums import sums_of_lanes, sums_of_neighbours

BYTES = 4 if X == "float32" else 2 if X == "float16" else 1
# Elements of a vector of x or of weights.
DEPTH = 4 * VL // BYTES
STEP = TAPS * COLUMNS * DEPTH
# Register tiles of a vector of columns.
TILES = VL // COLUMNS
# Of the constants of a panel's columns, which are in local memory.
own_start_types = [S.ptr(SUM, "lsram") for _ in start_types]
own_scale_types = [S.ptr("float32", "lsram") for _ in scale_types]
# Of the loop over the depth in a kernel's text.
MOST_COPIES = 16


@S.record
class Results:
    """What results are: of column `n` of the output, whose rows are ldc apart, from row_offset on; `columns` of them
    exist. Their start and scale are at `column`, their rows `pitch` apart, in local memory both.
    """

    column: S.i32
    row_offset: S.i32
    ldc: S.i32
    n: S.i32
    columns: S.i32
    pitch: S.i32


@S.record
class Way:
    """Through the operands of a block: from one column of pixels to the next, from one pixel to the next, and from tile
    to tile of columns; of its depth `steps` whole vectors and `rest` elements.
    """

    pitch: S.i32
    pixel_pitch: S.i32
    steps: S.i32
    rest: S.i32
    weights_of_tile: S.i32


def of_vector(place: Results, vector, row):
    """Of a vector of the panel, `row` rows of pixels on."""
    return Results(
        column=place.column + vector * VL,
        row_offset=place.row_offset + row * place.ldc,
        ldc=place.ldc,
        n=place.n + vector * VL,
        columns=place.columns - vector * VL,
        pitch=place.pitch,
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


def tap_order():
    """Taps whose pixels are in step with each other come one after the other."""
    return [tap for phase in range(STRIDE) for tap in range(TAPS) if tap * DILATION % STRIDE == phase]


def kept_pixels(height, order, turn):
    """How many of a tile's pixels have the same columns of pixels under this turn's tap as others had under the last
    one.
    """
    if turn == 0:
        return 0
    distance = (order[turn] - order[turn - 1]) * DILATION
    return max(height - distance // STRIDE, 0) if distance > 0 and distance % STRIDE == 0 else 0


def multiply_step(height, acc, rows, at, weights, lane_mask):
    """acc[i, c] += the products of a vector of every pixel i with one of column c. In registers are the weights of the
    step, or the pixels under one tap, which move on by a tap at a time; of the others one vector.
    """
    columns = S.meta_var(positions(height))
    weights_of_step = S.meta_var(TAPS * COLUMNS)
    if height < weights_of_step:
        order = S.meta_var(tap_order())
        left = []
        for turn in S.unroll(TAPS):
            tap = S.meta_var(order[turn])
            kept = S.meta_var(kept_pixels(height, order, turn))
            under = S.meta_var([columns.index(i * STRIDE + tap * DILATION) for i in range(height)])
            left = [
                left[height - kept + i] if i < kept else S.vload(rows[under[i]] + at, mask=lane_mask, lanes=DEPTH)
                for i in range(height)
            ]
            for c in S.unroll(COLUMNS):
                right = S.vload(weights + (tap * COLUMNS + c) * DEPTH, lanes=DEPTH)
                for i in S.unroll(height):
                    add_product(acc, i, c, left[i], right)
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


def finish_sums(height, totals, start, scale, place: Results, extras, out):
    """Stores `height` pixels by VL columns."""
    results = totals
    if len(start) > 0:
        initial = S.vload(start[0] + place.column, lanes=VL)
        results = [total + initial for total in results]
    if len(scale) > 0:
        factor = S.vload(scale[0] + place.column, lanes=VL)
        results = [S.cast(total, "float32") * factor for total in results]
    finish_tile(height, results, extras, out, place.row_offset, place.ldc, place.n, place.columns, place.pitch)


def sums_of_tile(height):
    return S.alloc_buffer((height * COLUMNS,), f"{SUM}x{VL}")


def multiply_tile(height, acc, zero, rows, w, steps, rest):
    """Vector i: the sums of pixel i by COLUMNS columns, folded."""
    for i in S.unroll(height * COLUMNS):
        acc[i] = zero
    multiply(height, acc, rows, w, steps, rest)
    return [folded([acc[i * COLUMNS + c] for c in range(COLUMNS)], COLUMNS) for i in range(height)]


def first_tiles():
    """All tiles of columns of a vector but the last one."""
    return S.unroll(TILES - 1) if TILES * len(HEIGHTS) <= MOST_COPIES else range(TILES - 1)


def whole_vector(height, acc, zero, rows, w, sums, steps, rest, weights_of_tile):
    """The sums of `height` pixels by VL columns. The tiles before the last one wait for it in memory."""
    for tile in first_tiles():
        partial = multiply_tile(height, acc, zero, rows, w + tile * weights_of_tile, steps, rest)
        for i in S.unroll(height):
            S.vstore(partial[i], sums + (tile * height + i) * VL)
    last = multiply_tile(height, acc, zero, rows, w + (TILES - 1) * weights_of_tile, steps, rest)
    return [
        folded([S.vload(sums + (tile * height + i) * VL, lanes=VL) for tile in range(TILES - 1)] + [last[i]], TILES)
        for i in range(height)
    ]


@S.prim_func(is_inline=False)
def whole_tiles(
    height: S.meta_var,
    count: S.i32,
    vectors: S.i32,
    x: S.ptr(X, "lsram"),
    w: S.ptr(W, "lsram"),
    sums: S.ptr(SUM, "lsram"),
    way: Way,
    start: own_start_types,
    scale: own_scale_types,
    place: Results,
    extras: extra_types,
    out: S.ptr(OUT, "lsram"),
):
    """`count` times `height` pixels by `vectors` vectors of columns, from products to results."""
    acc = sums_of_tile(height)
    zero = S.cast(0, f"{SUM}x{VL}")
    distances = [q * way.pitch for q in positions(height)]
    first = x
    for tile in range(count):
        rows = [first + distance for distance in distances]
        for v in range(vectors):
            own = w + v * (TILES * way.weights_of_tile)
            totals = whole_vector(height, acc, zero, rows, own, sums, way.steps, way.rest, way.weights_of_tile)
            target = out + (tile * height * place.pitch + v * VL)
            finish_sums(height, totals, start, scale, of_vector(place, v, tile * height), extras, target)
        first = first + height * way.pixel_pitch


@S.prim_func(is_inline=False)
def add_tiles(
    height: S.meta_var,
    count: S.i32,
    tiles: S.i32,
    x: S.ptr(X, "lsram"),
    w: S.ptr(W, "lsram"),
    sums: S.ptr(SUM, "lsram"),
    tile_pitch: S.i32,
    way: Way,
    is_first: S.i32,
):
    """Adds the products of a block to the sums of `count` times `height` pixels by `tiles` times COLUMNS columns, whose
    sums are tile_pitch apart.
    """
    acc = sums_of_tile(height)
    zero = S.cast(0, f"{SUM}x{VL}")
    distances = [q * way.pitch for q in positions(height)]
    first = x
    for row in range(count):
        rows = [first + distance for distance in distances]
        for tile in range(tiles):
            target = sums + (tile * tile_pitch + row * (height * VL))
            totals = multiply_tile(height, acc, zero, rows, w + tile * way.weights_of_tile, way.steps, way.rest)
            if is_first == 0:
                for i in S.unroll(height):
                    S.vstore(totals[i] + S.vload(target + i * VL, lanes=VL), target + i * VL)
            else:
                for i in S.unroll(height):
                    S.vstore(totals[i], target + i * VL)
        first = first + height * way.pixel_pitch


@S.prim_func(is_inline=False)
def store_tiles(
    height: S.meta_var,
    count: S.i32,
    vectors: S.i32,
    sums: S.ptr(SUM, "lsram"),
    tile_pitch: S.i32,
    start: own_start_types,
    scale: own_scale_types,
    place: Results,
    extras: extra_types,
    out: S.ptr(OUT, "lsram"),
):
    """The results of `count` times `height` pixels by `vectors` vectors of columns."""
    for row in range(count):
        for v in range(vectors):
            tiles = [sums + ((v * TILES + tile) * tile_pitch + row * (height * VL)) for tile in range(TILES)]
            totals = [folded([S.vload(p + i * VL, lanes=VL) for p in tiles], TILES) for i in range(height)]
            target = out + (row * height * place.pitch + v * VL)
            finish_sums(height, totals, start, scale, of_vector(place, v, row * height), extras, target)
