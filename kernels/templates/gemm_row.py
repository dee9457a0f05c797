"""Products of a single row, of which one reads several panels together. Parameters as in gemm.py."""

from aipu import script as S
from epilogue import finish_tile
from gemm import add_product, left_value, row_bases, step_lanes, steps_of

# Panels that a single row reads together: as many streams of memory, and, of four, sums enough that none waits for the
# one before.
SIDE_BY_SIDE = [4, 1]


@S.prim_func(is_inline=False)
def gemm_row(
    panels: S.meta_var,
    a: S.ptr(A, "global"),
    a_step: S.i64,
    a_zero: S.i32,
    b: S.ptr(PANEL, "global"),
    panel_size: S.i64,
    depth: S.i32,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    n: S.i32,
    columns: S.i32,
):
    acc = S.alloc_buffer((panels * NV,), f"{ACC}x{VL}")
    for i in S.unroll(panels * NV):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    bases = row_bases(a, S.i64(0), 1)
    for k in range(steps_of(depth)):
        left = left_value(bases, 0, S.i64(0), a_step, a_zero, k)
        for p in S.unroll(panels):
            for v in S.unroll(NV):
                line = b + (S.i64(p) * panel_size + (k * (NV * step_lanes()) + v * step_lanes()))
                if PREFETCH > 0:
                    S.prefetch(line + PREFETCH // panels * (NV * step_lanes()))
                acc[p * NV + v] = add_product(acc[p * NV + v], left, S.vload(line, lanes=step_lanes()))
    for p in S.unroll(panels):
        own = [acc[p * NV + v] for v in range(NV)]
        # Only the last one may have fewer columns than a panel.
        here = columns - p * (NV * VL) if p + 1 == panels else NV * VL
        finish_tile(1, own, extras, out, row_offset, 0, n + p * (NV * VL), here)


def row_alone(first, last, panels, a, b, out, extras, product, a_step, ldc, a_batch, b_batch, a_zero):
    """Units [first, last), each a panel of a product of one row."""
    panel_size = product.depth * (NV * VL)
    unit = first
    while unit < last:
        batch, panel = unit // panels, unit % panels
        outer, inner = batch // product.inner_batches, batch % product.inner_batches
        left = a + (outer * a_batch.outer + inner * a_batch.inner)
        right = b + (outer * b_batch.outer + inner * b_batch.inner + panel * panel_size)
        n = panel * (NV * VL)
        together = S.i32(0)
        for count in SIDE_BY_SIDE:
            if together == 0 and S.min(last - unit, panels - panel) >= count:
                together = S.i32(count)
                gemm_row(
                    count,
                    left,
                    a_step,
                    a_zero,
                    right,
                    panel_size,
                    product.depth,
                    extras,
                    out,
                    batch * ldc,
                    n,
                    product.columns - n,
                )
        unit = unit + together
