"""LSTM, GRU and RNN: one direction of one layer over a whole sequence.

Hidden units are shared out to TECs in blocks of VL: a TEC computes all gates of its blocks, so that of the state only h
travels between TECs, once per step, over a barrier. First come the products of its gates with all inputs at once
(`inputs_of`: a matrix product, in `projected`), then step by step the products with h, which start from these. The rows
of a product are batch elements (in the first phase: of all steps), up to MAX_ROWS in a register tile; its columns are
GATES vectors of one block. Every other step walks the blocks backwards: what the caches kept of the weights comes
first.

Weights are packed per gate in panels of VL columns, [gate][block][depth][VL], zero padded, as is the bias, [W or
R][gate][block][VL]. `state` is [h, h of the next step, c, reset * h][batch][blocks * VL], `projected` is [block][row of
x][gate][VL].

Where the target has local memory (staging.py) weights come through it in pieces of the depth, double-buffered, in the
order in which blocks are computed, and so do the rows of x; rows of h are copied to it before they are read. Weights of
h of which a TEC's own all have room there come once and stay.

Parameters: STAGING, PIECE (the depth of pieces that have room), WIDTH (blocks * VL), KIND (LSTM GRU RNN), GATES, X,
ACC, VL, MAX_ROWS, PREFETCH (how many k ahead weights are fetched), W, R (types of the weights), W_PAIRS, R_PAIRS (they
are bfloat16, [depth / 2][VL][2]; not with STAGING), ACTIVATIONS, ALPHAS, BETAS (one per gate function), CLIP (0 =
none), LINEAR_BEFORE_RESET, INTEGERS (of LSTM: X, W and R are integers in floats, whose sums are multiplied by the
scales of both sides before the bias comes to them; the reset plane holds the integers that h is rounded to), HAS_* for
optional operands, REVERSE. Gate order is ONNX's: LSTM i o f c, GRU z r h. x_time, x_batch: strides in rows of x.
"""

from aipu import script as S
from sharing import own_share
from staging import close_stage, copy, event_of, open_stage


def vector(value):
    return S.cast(value, f"{ACC}x{VL}")


def sigmoid(v):
    return vector(1) / (vector(1) + S.exp(vector(0) - v))


def activate(k, value):
    v = value
    if CLIP > 0:
        v = S.maximum(vector(0.0 - CLIP), S.minimum(vector(CLIP), v))
    name = ACTIVATIONS[k]
    if name == "Sigmoid":
        return sigmoid(v)
    if name == "Tanh":
        return S.tanh(v)
    if name == "Relu":
        return S.maximum(vector(0), v)
    if name == "Affine":
        return vector(ALPHAS[k]) * v + vector(BETAS[k])
    if name == "LeakyRelu":
        return S.vsel(v * vector(ALPHAS[k]), v, v < vector(0))
    if name == "ThresholdedRelu":
        return S.vsel(v, vector(0), v >= vector(ALPHAS[k]))
    if name == "ScaledTanh":
        return vector(ALPHAS[k]) * S.tanh(vector(BETAS[k]) * v)
    if name == "HardSigmoid":
        return S.maximum(vector(0), S.minimum(vector(1), vector(ALPHAS[k]) * v + vector(BETAS[k])))
    if name == "Elu":
        return S.vsel(vector(ALPHAS[k]) * (S.exp(v) - vector(1)), v, v < vector(0))
    if name == "Softsign":
        return v / (vector(1) + S.abs(v))
    return S.max(v, vector(0)) + S.log(vector(1) + S.exp(vector(0) - S.abs(v)))


def accumulate(rows, gates, acc, a, lda, weights, gate_stride, depth, pairs):
    """acc[row * len(gates) + i] += a[row] times the block's columns of gate gates[i]."""
    count = len(gates)
    columns = S.alloc_buffer((count,), f"{ACC}x{VL}")
    words = S.alloc_buffer((count,), f"int32x{VL}")
    together = 2 if pairs else 1
    for step in range(depth // together):
        k = step * together
        for i in S.unroll(count):
            at = weights + (gates[i] * gate_stride + k * VL)
            if pairs:
                words[i] = S.vload(at.as_ptr("i32"), lanes=VL)
            else:
                columns[i] = S.vload(at, lanes=VL)
        if PREFETCH > 0:
            for i in S.unroll(count):
                S.prefetch(weights + (gates[i] * gate_stride + (k + PREFETCH * together) * VL))
        for part in S.unroll(together):
            if pairs:
                for i in S.unroll(count):
                    # The lower half of a word is the even k's.
                    columns[i] = S.reinterpret(words[i] << 16 if part == 0 else words[i] & -65536, f"{ACC}x{VL}")
            for row in S.unroll(rows):
                left = S.vbcast(S.cast(a[row * lda + (k + part)], ACC), lanes=VL)
                for i in S.unroll(count):
                    acc[row * count + i] = S.fma(acc[row * count + i], left, columns[i])


# Of the depth, whose addresses are worked out together.
STEPS = 8


def accumulate_steps(rows, count, acc, a, lda, weights, gate_stride, depth):
    """accumulate() of all gates of weights in local memory."""
    panels = [weights + i * gate_stride for i in range(count)]
    whole = depth // STEPS * STEPS
    for k in range(0, whole, STEPS):
        near = [panel + k * VL for panel in panels]
        values = [a + (row * lda + k) for row in range(rows)]
        for u in S.unroll(STEPS):
            columns = [S.vload(near[i] + u * VL, lanes=VL) for i in range(count)]
            for row in S.unroll(rows):
                left = S.vbcast(S.cast(values[row][u], ACC), lanes=VL)
                for i in S.unroll(count):
                    acc[row * count + i] = S.fma(acc[row * count + i], left, columns[i])
    if whole < depth:
        rest = [a + whole + row * lda for row in range(rows)]
        for k in range(depth - whole):
            for i in S.unroll(count):
                column = S.vload(panels[i] + (whole + k) * VL, lanes=VL)
                for row in S.unroll(rows):
                    acc[row * count + i] = S.fma(
                        acc[row * count + i], S.vbcast(S.cast(rest[row][k], ACC), lanes=VL), column
                    )


@S.record
class Pieces:
    """How a product's operands come through local memory: tiles of `rows` rows, each in `pieces` of `depth`, which are
    numbered in the order of computation. `tiles` of a block follow each other; blocks from `first` to before `last`,
    backwards or not.
    """

    depth: S.i32
    piece: S.i32
    pieces: S.i32
    tiles: S.i32
    first: S.i32
    last: S.i32
    backwards: S.i32
    stay: S.i32


def pieces_of(depth, tiles, first, last, backwards, stay):
    count = S.max(S.ceildiv(depth, PIECE), 1)
    if stay == 1:
        count = S.i32(1)
    return Pieces(depth, S.ceildiv(depth, count), count, tiles, first, last, backwards, stay)


def fetch_piece(events, number, way, gates, pool, weights, gate_stride):
    """Starts bringing weights in, if there is such a piece and it is not there to stay."""
    if way.stay == 0 and number < (way.last - way.first) * way.tiles * way.pieces:
        block = way.first + number // (way.tiles * way.pieces)
        if way.backwards == 1:
            block = way.last - 1 - number // (way.tiles * way.pieces)
        at = number % way.pieces * way.piece
        width = S.min(way.piece, way.depth - at) * VL
        source = weights + (gates[0] * gate_stride + (block * way.depth + at) * VL)
        target = pool + number % 2 * (GATES * PIECE * VL)
        copy(events, number, False, target, source, width, gate_stride, len(gates), width)


def fetch_rows(events, number, way, rows, local_rows, x):
    """The same of rows of x."""
    at = number % way.pieces * way.piece
    width = S.min(way.piece, way.depth - at)
    target = local_rows + number % 2 * (MAX_ROWS * PIECE)
    copy(events, number, False, target, x + at, width, way.depth, rows, width)


def accumulate_piece(rows, gates, acc, a, lda, events, number, way, block, pool):
    at = number % way.pieces * way.piece
    depth = S.min(way.piece, way.depth - at)
    place = number % 2 * (GATES * PIECE * VL)
    if way.stay == 1:
        place = ((block - way.first) * GATES + gates[0]) * way.depth * VL
    else:
        S.wait_events(event_of(events, number, False))
    accumulate_steps(rows, len(gates), acc, a, lda, pool + place, depth * VL, depth)


def bias_of(g, biases, bias_stride):
    """What may be added to gate g before the products with h."""
    start = S.vload(biases + g * bias_stride, lanes=VL)
    if not (KIND == "GRU" and g == 2 and LINEAR_BEFORE_RESET):
        start = start + S.vload(biases + (GATES + g) * bias_stride, lanes=VL)
    return start


def input_rows(rows, x, inputs, weights, gate_stride, biases, bias_stride, further, j, projected, stage):
    """The products of `rows` rows of x with a block's columns, with the biases that may be added before the products
    with h. `stage`: what staged_rows() is told of pieces.
    """
    acc = S.alloc_buffer((rows * GATES,), f"{ACC}x{VL}")
    for g in S.unroll(GATES):
        start = vector(0) if INTEGERS else bias_of(g, biases, bias_stride)
        for row in S.unroll(rows):
            acc[row * GATES + g] = start
    gates = [g for g in range(GATES)]
    if STAGING == 0:
        accumulate(rows, gates, acc, x, inputs, weights, gate_stride, inputs, W_PAIRS)
    else:
        events, way, number, block, pool, local_rows = stage
        fetch_rows(events, number, way, rows, local_rows, x)
        for k in range(way.pieces):
            fetch_piece(events, number + k + 1, way, gates, pool, weights, gate_stride)
            if k + 1 < way.pieces:
                fetch_rows(events, number + k + 1, way, rows, local_rows, x)
            depth = S.min(way.piece, inputs - k * way.piece)
            a = local_rows + (number + k) % 2 * (MAX_ROWS * PIECE)
            accumulate_piece(rows, gates, acc, a, depth, events, number + k, way, block, pool)
    if INTEGERS:
        for g in S.unroll(GATES):
            scale = vector(further.x_scale[0][0]) * S.vload(further.w_scale[0] + (g * bias_stride + j), lanes=VL)
            for row in S.unroll(rows):
                acc[row * GATES + g] = acc[row * GATES + g] * scale
    for i in S.unroll(rows * GATES):
        S.vstore(acc[i], projected + i * VL)


def lstm_cell(gates, c, peephole, j, hidden, lane_mask):
    """New c (stored) and h of one block of one batch element."""
    old = S.vload(c, lanes=VL)
    i_sum = gates[0]
    o_sum = gates[1]
    f_sum = gates[2]
    if HAS_P:
        i_sum = i_sum + S.cast(S.vload(peephole[0] + j, lanes=VL, mask=lane_mask), ACC) * old
        f_sum = f_sum + S.cast(S.vload(peephole[0] + (2 * hidden + j), lanes=VL, mask=lane_mask), ACC) * old
    new = activate(0, f_sum) * old + activate(0, i_sum) * activate(1, gates[3])
    if HAS_P:
        o_sum = o_sum + S.cast(S.vload(peephole[0] + (hidden + j), lanes=VL, mask=lane_mask), ACC) * new
    S.vstore(new, c)
    return activate(0, o_sum) * activate(2, new)


def first_row_of(s, b, lengths, steps, x_strides):
    """Row of x that batch element b sees in step s; any row once its sequence has ended."""
    length = steps
    if HAS_LENGTHS:
        length = S.max(S.min(S.i32(lengths[0][b]), steps), 0)
    t = s
    if REVERSE:
        t = S.max(length - 1 - s, 0)
    return t * x_strides.time + b * x_strides.batch


def finish_row(s, b, h_new, h_old, h_next, lengths, y, j, steps, y_strides, lane_mask):
    """Stores h of the next step and y; a sequence that has ended keeps its state and gives zeros."""
    length = steps
    if HAS_LENGTHS:
        length = S.max(S.min(S.i32(lengths[0][b]), steps), 0)
    at = s
    if REVERSE and s < length:
        at = length - 1 - s
    if HAS_LENGTHS:
        if s < length:
            S.vstore(h_new, h_next)
        else:
            S.vstore(h_old, h_next)
    else:
        S.vstore(h_new, h_next)
    if HAS_Y:
        if HAS_LENGTHS:
            if s < length:
                S.vstore(S.cast(h_new, X), y[0] + (at * y_strides.time + b * y_strides.batch + j), mask=lane_mask)
            else:
                S.vstore(S.cast(vector(0), X), y[0] + (at * y_strides.time + b * y_strides.batch + j), mask=lane_mask)
        else:
            S.vstore(S.cast(h_new, X), y[0] + (at * y_strides.time + b * y_strides.batch + j), mask=lane_mask)


def gates_of(phase):
    """Whose products a phase of a step computes."""
    if KIND == "GRU" and not LINEAR_BEFORE_RESET:
        return [2] if phase == 1 else [0, 1]
    return [g for g in range(GATES)]


def step_rows(
    rows,
    phase,
    s,
    b,
    block,
    lengths,
    further,
    y,
    weights,
    biases,
    state,
    projected,
    sizes,
    x_strides,
    y_strides,
    row_count,
    blocks,
    state_scale,
    stage,
):
    """One step of `rows` batch elements from b on, one block. GRU's reset gate before the product takes two phases: z
    and r, then the candidate.
    """
    steps, hidden = sizes.steps, sizes.hidden
    width = blocks * VL
    plane = sizes.batches * width
    h = state + ((s % 2) * plane + b * width)
    h_next = state + ((1 - s % 2) * plane + b * width)
    c = state + (2 * plane + b * width)
    reset = state + (3 * plane + b * width)
    gate_stride = blocks * hidden * VL
    block_weights = weights + block * (hidden * VL)
    j = block * VL
    lane_mask = S.tail_mask(S.min(hidden - j, VL), VL)
    rows_of_x = [
        projected + (block * row_count + first_row_of(s, b + row, lengths, steps, x_strides)) * (GATES * VL)
        for row in range(rows)
    ]
    separate = KIND == "GRU" and not LINEAR_BEFORE_RESET
    gates = gates_of(phase)
    count = len(gates)
    acc = S.alloc_buffer((rows * count,), f"{ACC}x{VL}")
    for row in S.unroll(rows):
        for i in S.unroll(count):
            if INTEGERS:
                acc[row * count + i] = vector(0)
            elif KIND == "GRU" and LINEAR_BEFORE_RESET and gates[i] == 2:
                acc[row * count + i] = S.vload(biases + ((GATES + 2) * width + j), lanes=VL)
            else:
                acc[row * count + i] = S.vload(rows_of_x[row] + gates[i] * VL, lanes=VL)
    factor = reset if INTEGERS or (separate and phase == 1) else h
    if STAGING == 0:
        accumulate(rows, gates, acc, factor, width, block_weights, gate_stride, hidden, R_PAIRS)
    else:
        events, way, number, pool, local_rows = stage
        if number == 0 or way.tiles > 1:
            S.dma_copy(local_rows, factor, rows * width)
        for k in range(way.pieces):
            fetch_piece(events, number + k + 1, way, gates, pool, weights, gate_stride)
            accumulate_piece(rows, gates, acc, local_rows + k * way.piece, width, events, number + k, way, block, pool)
    if INTEGERS:
        for g in S.unroll(GATES):
            scale = vector(state_scale) * S.vload(further.r_scale[0] + (g * width + j), lanes=VL)
            bias = bias_of(g, biases + j, width)
            for row in S.unroll(rows):
                of_x = S.vload(rows_of_x[row] + g * VL, lanes=VL)
                acc[row * count + g] = of_x + acc[row * count + g] * scale + bias
    for row in S.unroll(rows):
        old = S.vload(h + (row * width + j), lanes=VL)
        if separate and phase == 0:
            # Both gates wait in `projected` for the candidate.
            S.vstore(activate(0, acc[row * count]), rows_of_x[row])
            S.vstore(activate(0, acc[row * count + 1]) * old, reset + (row * width + j))
        else:
            if KIND == "LSTM":
                if HAS_LENGTHS:
                    kept = S.vload(c + (row * width + j), lanes=VL)
                h_new = lstm_cell(
                    [acc[row * count + g] for g in range(GATES)],
                    c + (row * width + j),
                    further.peephole,
                    j,
                    hidden,
                    lane_mask,
                )
                if HAS_LENGTHS:
                    if s >= S.max(S.min(S.i32(lengths[0][b + row]), steps), 0):
                        S.vstore(kept, c + (row * width + j))
            elif KIND == "GRU":
                if separate:
                    update = S.vload(rows_of_x[row], lanes=VL)
                    candidate = activate(1, acc[row * count])
                else:
                    update = activate(0, acc[row * count])
                    forget = activate(0, acc[row * count + 1])
                    candidate = activate(1, S.vload(rows_of_x[row] + 2 * VL, lanes=VL) + forget * acc[row * count + 2])
                h_new = (vector(1) - update) * candidate + update * old
            else:
                h_new = activate(0, acc[row * count])
            finish_row(s, b + row, h_new, old, h_next + (row * width + j), lengths, y, j, steps, y_strides, lane_mask)


def runs_at(s, b, lengths):
    """Whether sequence b has step s; all have what is before the first one."""
    if HAS_LENGTHS:
        return s < S.max(S.i32(lengths[0][b]), 0)
    return True


def round_state(s, h, rounded, first, last, lengths, batches, blocks, hidden):
    """A TEC's blocks of h as uint8 over the range of all of h and 0, less the zero point; the scale is returned.
    Sequences that ended before the last step count no more."""
    low = vector(0)
    high = vector(0)
    for b in range(batches):
        if runs_at(s - 1, b, lengths):
            for k in range(blocks):
                lane_mask = S.tail_mask(S.min(hidden - k * VL, VL), VL)
                values = S.vload(h + (b * blocks + k) * VL, lanes=VL, mask=lane_mask)
                low = S.minimum(low, values)
                high = S.maximum(high, values)
    scale = (S.vrpmax(high)[0] - S.vrpmin(low)[0]) / S.cast(255, ACC)
    if scale == S.cast(0, ACC):
        scale = S.cast(1, ACC)
    zero = vector(S.max(S.cast(0, ACC), S.min(S.cast(255, ACC), S.rint(S.cast(0, ACC) - S.vrpmin(low)[0] / scale))))
    for b in range(batches):
        for at in range(b * blocks + first, b * blocks + last):
            code = S.rint(S.vload(h + at * VL, lanes=VL) / vector(scale)) + zero
            code = S.maximum(vector(0), S.minimum(vector(255), code))
            S.vstore(code - zero, rounded + at * VL)
    return scale


def equal_share(rows):
    """Tiles of equal height rather than full ones and a rest."""
    return S.ceildiv(rows, S.ceildiv(rows, MAX_ROWS))


@S.record
class Sizes:
    steps: S.i32
    batches: S.i32
    inputs: S.i32
    hidden: S.i32


@S.record
class StepStrides:
    """From one step to the next, and from one batch element."""

    time: S.i32
    batch: S.i32


@S.record
class Initial:
    """State, where it is given: lists of one or none."""

    h: initial_h_types
    c: initial_c_types


@S.record
class Further:
    """Peepholes, and the scales of integers: of x, and of each row of W and R. Lists of one or none."""

    peephole: peephole_types
    x_scale: scale_types
    w_scale: scale_types
    r_scale: scale_types


@S.record
class Results:
    """Where they are wanted: lists of one or none."""

    y: y_types
    h: y_h_types
    c: y_c_types


@S.prim_func
def recurrent(
    x: S.ptr(X, "global"),
    w: S.ptr(W, "global"),
    r: S.ptr(R, "global"),
    bias: S.ptr(ACC, "global"),
    lengths: length_types,
    initial: Initial,
    further: Further,
    results: Results,
    state: S.ptr(ACC, "global"),
    projected: S.ptr(ACC, "global"),
    sizes: Sizes,
    x_strides: StepStrides,
    y_strides: StepStrides,
    state_batch: S.i32,
):
    if HAS_LENGTHS:
        if S.get_local_id() == 0:
            for b in range(sizes.batches):
                length = S.i64(lengths[0][b])
                if length < 0 or length > S.i64(sizes.steps):
                    S.report_fault(TOO_LONG, length, sizes.steps)
    blocks = S.ceildiv(sizes.hidden, VL)
    width = blocks * VL
    plane = sizes.batches * width
    row_count = sizes.steps * sizes.batches
    first, last = own_share(blocks)
    events = open_stage()
    if STAGING > 0:
        pool = S.alloc((2 * GATES * PIECE * VL,), ACC, scope="lsram")
        rows_of_x = S.alloc((2 * MAX_ROWS * PIECE,), X, scope="lsram")
        rows_of_h = S.alloc((MAX_ROWS * WIDTH,), ACC, scope="lsram")
        all_gates = [g for g in range(GATES)]
        input_stride = blocks * sizes.inputs * VL
        tiles = S.ceildiv(row_count, equal_share(S.max(row_count, 1)))
        inputs_way = pieces_of(sizes.inputs, tiles, first, last, 0, 0)
        if row_count > 0:
            fetch_piece(events, 0, inputs_way, all_gates, pool, w, input_stride)
        number = 0
    for block in range(first, last):
        j = block * VL
        lane_mask = S.tail_mask(S.min(sizes.hidden - j, VL), VL)
        for b in range(sizes.batches):
            at = b * width + j
            if HAS_H:
                S.vstore(
                    S.cast(S.vload(initial.h[0] + (b * state_batch + j), lanes=VL, mask=lane_mask), ACC), state + at
                )
            else:
                S.vstore(vector(0), state + at)
            if HAS_C:
                S.vstore(
                    S.cast(S.vload(initial.c[0] + (b * state_batch + j), lanes=VL, mask=lane_mask), ACC),
                    state + (2 * plane + at),
                )
            else:
                S.vstore(vector(0), state + (2 * plane + at))
        if row_count > 0:
            height = equal_share(row_count)
            m = 0
            while m < row_count:
                rows = S.min(height, row_count - m)
                for n in S.unroll(1, MAX_ROWS + 1):
                    if rows == n:
                        input_rows(
                            n,
                            x + m * sizes.inputs,
                            sizes.inputs,
                            w if STAGING > 0 else w + block * (sizes.inputs * VL),
                            blocks * sizes.inputs * VL,
                            bias + j,
                            width,
                            further,
                            j,
                            projected + (block * row_count + m) * (GATES * VL),
                            [events, inputs_way, number, block, pool, rows_of_x] if STAGING > 0 else None,
                        )
                m = m + rows
                if STAGING > 0:
                    number = number + inputs_way.pieces
    S.barrier()
    if sizes.batches > 0:
        height = equal_share(sizes.batches)
        if STAGING > 0:
            stay = S.i32((last - first) * sizes.hidden <= 2 * PIECE)
            if stay == 1:
                for block in range(first, last):
                    S.dma_copy(
                        pool + (block - first) * (GATES * sizes.hidden * VL),
                        r + block * (sizes.hidden * VL),
                        sizes.hidden * VL,
                        blocks * sizes.hidden * VL,
                        GATES,
                        sizes.hidden * VL,
                    )
        for s in range(sizes.steps):
            state_scale = None
            if INTEGERS:
                state_scale = round_state(
                    s,
                    state + s % 2 * plane,
                    state + 3 * plane,
                    first,
                    last,
                    lengths,
                    sizes.batches,
                    blocks,
                    sizes.hidden,
                )
                S.barrier()
            for phase in S.unroll(2 if KIND == "GRU" and not LINEAR_BEFORE_RESET else 1):
                if STAGING > 0:
                    way = pieces_of(sizes.hidden, S.ceildiv(sizes.batches, height), first, last, s % 2, stay)
                    fetch_piece(events, 0, way, gates_of(phase), pool, r, blocks * sizes.hidden * VL)
                    number = 0
                for q in range(first, last):
                    block = q
                    if s % 2 == 1:
                        block = first + last - 1 - q
                    b = 0
                    while b < sizes.batches:
                        rows = S.min(height, sizes.batches - b)
                        for n in S.unroll(1, MAX_ROWS + 1):
                            if rows == n:
                                step_rows(
                                    n,
                                    phase,
                                    s,
                                    b,
                                    block,
                                    lengths,
                                    further,
                                    results.y,
                                    r,
                                    bias,
                                    state,
                                    projected,
                                    sizes,
                                    x_strides,
                                    y_strides,
                                    row_count,
                                    blocks,
                                    state_scale,
                                    [events, way, number, pool, rows_of_h] if STAGING > 0 else None,
                                )
                        b = b + rows
                        if STAGING > 0:
                            number = number + way.pieces
                S.barrier()
    for block in range(first, last):
        j = block * VL
        lane_mask = S.tail_mask(S.min(sizes.hidden - j, VL), VL)
        for b in range(sizes.batches):
            at = b * width + j
            if HAS_Y_H:
                S.vstore(
                    S.cast(S.vload(state + ((sizes.steps % 2) * plane + at), lanes=VL), X),
                    results.h[0] + (b * state_batch + j),
                    mask=lane_mask,
                )
            if HAS_Y_C:
                S.vstore(
                    S.cast(S.vload(state + (2 * plane + at), lanes=VL), X),
                    results.c[0] + (b * state_batch + j),
                    mask=lane_mask,
                )
    close_stage(events, 0)
