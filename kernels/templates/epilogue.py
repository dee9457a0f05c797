"""Shared by the templates that accumulate in registers and hand the result to their fused neighbours before it is
stored.

Parameters bound by kernels/parts/fusion.cpp:
  VL, NV                      vector lanes, vectors per tile row
  OUT, out_conversion         element type of the output; mask: the value is a bool vector, stored as uint8
  extra_modes[e]              how operand e of the epilogue is indexed: full (like the output), column (by output
                              column), scalar; number: it is an argument by itself; table: the expression looks up
                              what it wants
  extra_conversions[e]        as `conversions` in elementwise.py
  epilogue_compute(v, x)      the fused expression; v is the accumulator, x[e] operand e
  PACKS                       whether it leaves bytes as int32, to be saturated when they are stored
  EPILOGUE_LOOP               whether it is long (exp, erf and the like): tiles then go through memory in a loop, for a
                              tenth of the text
"""

from aipu import script as S


def extra_value(e, p, row_offset, n, lane_mask):
    if extra_modes[e] == "table":
        return p
    if extra_modes[e] == "number":
        return S.vbcast(p, lanes=VL)
    if extra_modes[e] == "scalar":
        raw = S.vbcast(p[0], lanes=VL)
    elif extra_modes[e] == "column":
        raw = S.vload(p + n, mask=lane_mask, lanes=VL)
    else:
        raw = S.vload(p + (row_offset + n), mask=lane_mask, lanes=VL)
    if extra_conversions[e] == "mask":
        return raw != 0
    if extra_conversions[e] == "float32":
        return S.cast(raw, "float32")
    return raw


def shared_values(extras, n, lane_mask):
    """The operands that are the same for all rows, loaded once per vector of columns; 0 in place of the others."""
    return [extra_value(e, extras[e], 0, n, lane_mask) if extra_modes[e] != "full" else 0 for e in range(N_EXTRA)]


def prefetch_tile(height, extras, row_offset, ldc, n):
    """Asks for the operands that only finish_tile() will read; the products in between hide where they come from."""
    if PREFETCH > 0:
        for e in S.unroll(N_EXTRA):
            if extra_modes[e] == "full":
                for i in S.unroll(height):
                    for v in S.unroll(NV):
                        S.prefetch(extras[e] + (row_offset + i * ldc + n + v * VL))


def value_of(accumulator, shared, extras, row_offset, n, lane_mask):
    return epilogue_compute(
        accumulator,
        [
            extra_value(e, extras[e], row_offset, n, lane_mask) if extra_modes[e] == "full" else shared[e]
            for e in range(N_EXTRA)
        ],
    )


def finish_shared(accumulator, shared, extras, out, row_offset, n, lane_mask, at=None):
    """Stores a vector of column n of a row of the output, or `at` another place of what `out` points to."""
    value = value_of(accumulator, shared, extras, row_offset, n, lane_mask)
    if out_conversion == "mask":
        value = S.vsel(S.cast(1, f"uint8x{VL}"), S.cast(0, f"uint8x{VL}"), value)
    stored = S.cast(value, OUT, saturate=True) if PACKS else S.cast(value, OUT)
    S.vstore(stored, out + ((row_offset + n) if at is None else at), mask=lane_mask)


def finish(accumulator, extras, out, row_offset, n, lane_mask):
    """out[row_offset + n ...] = epilogue(accumulator) for the lanes of one vector."""
    finish_shared(accumulator, shared_values(extras, n, lane_mask), extras, out, row_offset, n, lane_mask)


def finish_packed(height, acc, extras, out, row_offset, ldc, n):
    """A whole tile of bytes: four vectors become one."""
    shared = [shared_values(extras, n + v * VL, None) for v in range(NV)]
    whole = height * NV // 4 * 4
    rows = 4 // NV  # of a vector of bytes
    for first in S.unroll(0, whole, 4):
        values = [
            value_of(acc[k], shared[k % NV], extras, row_offset + k // NV * ldc, n + k % NV * VL, None)
            for k in range(first, first + 4)
        ]
        packed = S.cast((values[0], values[1], values[2], values[3]), OUT, saturate=True)
        for row in S.unroll(rows):
            part = S.vpart(packed, index=row, lanes=NV * VL)
            S.vstore(part, out + (row_offset + (first // NV + row) * ldc + n))
    for k in S.unroll(whole, height * NV):
        finish_shared(acc[k], shared[k % NV], extras, out, row_offset + k // NV * ldc, n + k % NV * VL, None)


def finish_tile(height, acc, extras, out, row_offset, ldc, n, columns, last=0):
    """Stores a tile of height x NV vectors at columns n ... of the output rows (all groups of a convolution side by
    side), of which `columns` exist: with `last`, which is the number of their vectors, fewer than the tile has.
    """
    if last == 0 and columns >= NV * VL and PACKS and not EPILOGUE_LOOP:
        finish_packed(height, acc, extras, out, row_offset, ldc, n)
    elif last == 0 and columns >= NV * VL and not EPILOGUE_LOOP:
        for v in S.unroll(NV):
            shared = shared_values(extras, n + v * VL, None)
            for i in S.unroll(height):
                finish_shared(acc[i * NV + v], shared, extras, out, row_offset + i * ldc, n + v * VL, None)
    else:
        # The last panel takes the way through memory: masked code for every row would be most of the kernel's text.
        rows = S.alloc_buffer((height * NV * VL,), ACC)
        for i in S.unroll(height * NV):
            S.vstore(acc[i], rows.addr_of(i * VL))
        for v in S.unroll(last if last > 0 else NV):
            if EPILOGUE_LOOP and columns >= (v + 1) * VL:
                shared = shared_values(extras, n + v * VL, None)
                for row in range(height):
                    finish_shared(
                        S.vload(rows.addr_of((row * NV + v) * VL), lanes=VL),
                        shared,
                        extras,
                        out,
                        row_offset + row * ldc,
                        n + v * VL,
                        None,
                    )
            elif columns > v * VL:
                lane_mask = S.tail_mask(S.min(columns - v * VL, VL), VL)
                shared = shared_values(extras, n + v * VL, lane_mask)
                for row in range(height):
                    finish_shared(
                        S.vload(rows.addr_of((row * NV + v) * VL), lanes=VL),
                        shared,
                        extras,
                        out,
                        row_offset + row * ldc,
                        n + v * VL,
                        lane_mask,
                    )
