"""LSTM, GRU and RNN: one direction of one layer over a whole sequence.

For every batch element (TECs share them out) and time step: two products with packed weights, gates_x = x[t] W + b_w and gates_h = h R + b_r, all gates side by side in
GATES * hidden columns rounded up to WIDTH, then the cell. State lives in `state` (h, then c for LSTM), gates in `gates`, both per batch element.

Parameters: KIND (LSTM GRU RNN), GATES, X, ACC, VL, WIDTH, ACTIVATIONS, ALPHAS, BETAS (one per gate function), CLIP (0 = none), LINEAR_BEFORE_RESET, HAS_* for optional operands,
REVERSE. Gate order is ONNX's: LSTM i o f c, GRU z r h.
"""
from aipu import script as S


def vector(value):
    return S.cast(value, f"{ACC}x{VL}")


def sigmoid(v):
    return vector(1) / (vector(1) + S.exp(vector(0) - v))


def activate(k, value):
    v = value
    if CLIP > 0:
        v = S.max(S.min(v, vector(CLIP)), vector(0.0 - CLIP))
    name = ACTIVATIONS[k]
    if name == "Sigmoid":
        return sigmoid(v)
    if name == "Tanh":
        return S.tanh(v)
    if name == "Relu":
        return S.max(v, vector(0))
    if name == "Affine":
        return vector(ALPHAS[k]) * v + vector(BETAS[k])
    if name == "LeakyRelu":
        return S.vsel(v * vector(ALPHAS[k]), v, v < vector(0))
    if name == "ThresholdedRelu":
        return S.vsel(v, vector(0), v >= vector(ALPHAS[k]))
    if name == "ScaledTanh":
        return vector(ALPHAS[k]) * S.tanh(vector(BETAS[k]) * v)
    if name == "HardSigmoid":
        return S.max(S.min(vector(ALPHAS[k]) * v + vector(BETAS[k]), vector(1)), vector(0))
    if name == "Elu":
        return S.vsel(vector(ALPHAS[k]) * (S.exp(v) - vector(1)), v, v < vector(0))
    if name == "Softsign":
        return v / (vector(1) + S.abs(v))
    return S.max(v, vector(0)) + S.log(vector(1) + S.exp(vector(0) - S.abs(v)))


def project(source, depth, weights, first_column, columns, bias, out):
    """out[c] = bias[c] + sum over k of source[k] * weights[k, c] for the columns given, a multiple of VL."""
    for c in range(first_column, first_column + columns, VL):
        acc = S.vload(bias + c, lanes=VL)
        for k in range(depth):
            acc = acc + S.vbcast(S.cast(source[k], ACC), lanes=VL) * S.vload(weights + (k * WIDTH + c), lanes=VL)
        S.vstore(acc, out + c)


def gate(gates, k, hidden, j):
    return S.vload(gates + (k * hidden + j), lanes=VL)


@S.prim_func
def recurrent(x: S.ptr(X, "global"), w: S.ptr(ACC, "global"), r: S.ptr(ACC, "global"), bias: S.ptr(ACC, "global"),
              lengths: length_types, initial_h: initial_h_types, initial_c: initial_c_types, peephole: peephole_types,
              y: y_types, y_h: y_h_types, y_c: y_c_types, state: S.ptr(ACC, "global"), gates: S.ptr(ACC, "global"),
              steps: S.i32, batches: S.i32, inputs: S.i32, hidden: S.i32, x_time: S.i32, x_batch: S.i32, y_time: S.i32, y_batch: S.i32, state_batch: S.i32):
    share = S.ceildiv(batches, S.get_local_size())
    first = S.get_local_id() * share
    last = S.min(first + share, batches)
    # Rows of state and gates are padded, so that whole vectors may be read and written.
    for b in range(first, last):
        h = state + b * 3 * WIDTH
        c = h + WIDTH
        reset = c + WIDTH
        gx = gates + b * 2 * WIDTH
        gh = gx + WIDTH
        for j in range(hidden):
            h[j] = S.cast(0, ACC)
            c[j] = S.cast(0, ACC)
            if HAS_H:
                h[j] = S.cast(initial_h[0][b * state_batch + j], ACC)
            if HAS_C:
                c[j] = S.cast(initial_c[0][b * state_batch + j], ACC)
        length = steps
        if HAS_LENGTHS:
            length = S.max(S.min(S.i32(lengths[0][b]), steps), 0)
        for s in range(steps):
            t = s
            if REVERSE:
                t = length - 1 - s
            if s < length:
                project(x + (t * x_time + b * x_batch), inputs, w, 0, WIDTH, bias, gx)
                project(h, hidden, r, 0, WIDTH, bias + WIDTH, gh)
                if KIND == "GRU" and not LINEAR_BEFORE_RESET:
                    for j in range(0, hidden, VL):
                        forget = activate(0, gate(gx, 1, hidden, j) + gate(gh, 1, hidden, j))
                        S.vstore(forget * S.vload(h + j, lanes=VL), reset + j, mask=S.tail_mask(S.min(hidden - j, VL), VL))
                    # Only the candidate's columns of h R change, but they need not start at a whole vector.
                    for j in range(hidden):
                        sum = bias[WIDTH + 2 * hidden + j]
                        for k in range(hidden):
                            sum = sum + reset[k] * r[k * WIDTH + 2 * hidden + j]
                        gh[2 * hidden + j] = sum
                for j in range(0, hidden, VL):
                    lane_mask = S.tail_mask(S.min(hidden - j, VL), VL)
                    if KIND == "LSTM":
                        old = S.vload(c + j, lanes=VL, mask=lane_mask)
                        i_sum = gate(gx, 0, hidden, j) + gate(gh, 0, hidden, j)
                        o_sum = gate(gx, 1, hidden, j) + gate(gh, 1, hidden, j)
                        f_sum = gate(gx, 2, hidden, j) + gate(gh, 2, hidden, j)
                        if HAS_P:
                            i_sum = i_sum + S.cast(S.vload(peephole[0] + j, lanes=VL, mask=lane_mask), ACC) * old
                            f_sum = f_sum + S.cast(S.vload(peephole[0] + (2 * hidden + j), lanes=VL, mask=lane_mask), ACC) * old
                        new = activate(0, f_sum) * old + activate(0, i_sum) * activate(1, gate(gx, 3, hidden, j) + gate(gh, 3, hidden, j))
                        if HAS_P:
                            o_sum = o_sum + S.cast(S.vload(peephole[0] + (hidden + j), lanes=VL, mask=lane_mask), ACC) * new
                        S.vstore(new, c + j, mask=lane_mask)
                        S.vstore(activate(0, o_sum) * activate(2, new), h + j, mask=lane_mask)
                    elif KIND == "GRU":
                        update = activate(0, gate(gx, 0, hidden, j) + gate(gh, 0, hidden, j))
                        if LINEAR_BEFORE_RESET:
                            forget = activate(0, gate(gx, 1, hidden, j) + gate(gh, 1, hidden, j))
                            candidate = activate(1, gate(gx, 2, hidden, j) + forget * gate(gh, 2, hidden, j))
                        else:
                            candidate = activate(1, gate(gx, 2, hidden, j) + gate(gh, 2, hidden, j))
                        S.vstore((vector(1) - update) * candidate + update * S.vload(h + j, lanes=VL, mask=lane_mask), h + j, mask=lane_mask)
                    else:
                        S.vstore(activate(0, gate(gx, 0, hidden, j) + gate(gh, 0, hidden, j)), h + j, mask=lane_mask)
            if HAS_Y:
                at = s
                if REVERSE and s < length:
                    at = t
                for j in range(hidden):
                    y[0][at * y_time + b * y_batch + j] = S.cast(h[j], X) if s < length else S.cast(0, X)
        for j in range(hidden):
            if HAS_Y_H:
                y_h[0][b * state_batch + j] = S.cast(h[j], X)
            if HAS_Y_C:
                y_c[0][b * state_batch + j] = S.cast(c[j], X)
