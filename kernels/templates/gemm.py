"""Matrix multiplication with fused epilogue: out[b, m, n] = epilogue(sum over k of (a[b, m, k] - a_zero) * panels[b, n // NR, k, n % NR]).

Parameters bound by kernels/plugins/matmul.cpp:
  A, ACC, OUT      element types of a, of the accumulators (and of the packed right operand), of out
  VL, NV           vector lanes and vectors per tile row; a panel is NR = NV * VL columns
  HEIGHTS          tile heights, descending, ending in 1; accumulators + NV + 1 must fit the register file
  A_ZERO           whether a zero point is subtracted from a
  extra_types      pointer types of the epilogue's operands; the rest of the epilogue's parameters as in epilogue.py
  USE_FMA, PREFETCH  fused multiply-add (floats); how many k ahead the panel is prefetched, 0 = not

The right operand is packed in panels [N / NR][K][NR], zero padded; the left one is read in place with row stride lda and depth stride a_step
(in elements; UNIT_DEPTH says that a_step is 1). Loop order (measured in
kernel-guidance.md): blocks of rows outer, panels inside, row tiles innermost, the whole of K in registers. TECs take contiguous ranges of units.
"""
from aipu import script as S
from epilogue import finish_tile


def tile(height, a, lda, step, a_zero, b, depth, extras, out, row_offset, ldc, n, columns):
    acc = S.alloc_buffer((height * NV,), f"{ACC}x{VL}")
    bv = S.alloc_buffer((NV,), f"{ACC}x{VL}")
    for i in S.unroll(height * NV):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    for k in range(depth):
        for v in S.unroll(NV):
            bv[v] = S.vload(b + (k * (NV * VL) + v * VL), lanes=VL)
        if PREFETCH > 0:
            for v in S.unroll(NV):
                S.prefetch(b + ((k + PREFETCH) * (NV * VL) + v * VL))
        for i in S.unroll(height):
            left = S.cast(a[i * lda + (k if UNIT_DEPTH else k * step)], ACC)
            if A_ZERO:
                left = left - a_zero
            for v in S.unroll(NV):
                if USE_FMA:
                    acc[i * NV + v] = S.fma(acc[i * NV + v], S.vbcast(left, lanes=VL), bv[v])
                else:
                    acc[i * NV + v] = acc[i * NV + v] + S.vbcast(left, lanes=VL) * bv[v]
    finish_tile(height, acc, extras, out, row_offset, ldc, n, columns)


@S.prim_func
def gemm(a: S.ptr(A, "global"), b: S.ptr(ACC, "global"), out: S.ptr(OUT, "global"), extras: extra_types,
         batches: S.i32, rows: S.i32, columns: S.i32, depth: S.i32, lda: S.i32, a_step: S.i32, ldc: S.i32,
         a_batch_outer: S.i32, a_batch_inner: S.i32, b_batch_outer: S.i32, b_batch_inner: S.i32, inner_batches: S.i32,
         row_block: S.i32, a_zero: S.i32):
    panels = S.ceildiv(columns, NV * VL)
    row_blocks = S.ceildiv(rows, row_block)
    units = batches * row_blocks * panels
    share = S.ceildiv(units, S.get_local_size())
    first = S.get_local_id() * share
    last = S.min(first + share, units)
    for unit in range(first, last):
        panel = unit % panels
        rest = unit // panels
        batch = rest // row_blocks
        begin = (rest % row_blocks) * row_block
        end = S.min(begin + row_block, rows)
        n = panel * (NV * VL)
        left = a + ((batch // inner_batches) * a_batch_outer + (batch % inner_batches) * a_batch_inner)
        right = b + ((batch // inner_batches) * b_batch_outer + (batch % inner_batches) * b_batch_inner + panel * (depth * (NV * VL)))
        m = begin
        for h in S.unroll(len(HEIGHTS)):
            while m + HEIGHTS[h] <= end:
                tile(HEIGHTS[h], left + m * lda, lda, a_step, S.cast(a_zero, ACC), right, depth, extras, out, (batch * rows + m) * ldc, ldc, n, columns - n)
                m = m + HEIGHTS[h]


@S.prim_func
def pack_panels(b: S.ptr(B, "global"), packed: S.ptr(ACC, "global"), batches: S.i32, depth: S.i32, columns: S.i32,
                batch_stride: S.i32, row_stride: S.i32, column_stride: S.i32, b_zero: S.i32):
    """packed[batch][n // NR][k][n % NR] = b[batch, k, n] - b_zero, zero padded; for right operands known only at run time."""
    panels = S.ceildiv(columns, NV * VL)
    units = batches * panels
    share = S.ceildiv(units, S.get_local_size())
    first = S.get_local_id() * share
    last = S.min(first + share, units)
    for unit in range(first, last):
        batch = unit // panels
        n = (unit % panels) * (NV * VL)
        source = b + (batch * batch_stride + n * column_stride)
        target = packed + unit * (depth * (NV * VL))
        for k in range(depth):
            for v in S.unroll(NV):
                lane_mask = S.tail_mask(S.max(S.min(columns - n - v * VL, VL), 0), VL)
                if UNIT_COLUMNS:
                    raw = S.vload(source + (k * row_stride + v * VL), mask=lane_mask, lanes=VL)
                else:
                    raw = S.vload(source + (k * row_stride + v * VL * column_stride), mask=lane_mask, lanes=VL, stride=column_stride)
                if B_ZERO:
                    # Padding lanes may hold anything: their columns are never stored.
                    S.vstore(S.cast(raw, ACC) - S.cast(b_zero, ACC), target + (k * (NV * VL) + v * VL))
                else:
                    S.vstore(S.cast(raw, ACC), target + (k * (NV * VL) + v * VL))
