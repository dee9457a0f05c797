"""Direct convolution over channels-last images whose rows of output pixels are short: a tile is two whole rows, so that
weights are read half as often as in conv.py, which takes one. One or two spatial dimensions; what each tap of a kernel
row has inside the image is known at compile time.

Parameters as in conv.py without HEIGHTS, SKIP, SINGLE and ROW_TAPS, and
  WIDTH   output pixels of a row; 2 * WIDTH accumulator rows fit the register file
  RUNS    the taps of a kernel row as runs, flat: first tap, number of taps, and the pixels [first, last) that they have
          inside the image; taps that have none are in no run

Weights are packed as for conv.py, [group][panel][kh][kw][ic][NR]. With `merge` the taps of a run and their channels are
one loop.
"""

from aipu import script as S
from conv import intervals
from epilogue import finish_tile, prefetch_tile
from gemm import multiply_add, row_bases, row_value
from sharing import panels_of, rows_or_panels


def multiply_rows(low, high, upper, lower, acc, x, x_at, second, pixel_stride, w, w_at, count):
    """acc[row * WIDTH + i] += x[...] * w[...] for low <= i < high, in the upper row of pixels, the lower one, or both;
    the lower one is `second` elements on.
    """
    wv = S.alloc_buffer((NV,), f"{ACC}x{VL}")
    bases = [row_bases(x + (x_at + low * pixel_stride + row * second), pixel_stride, high - low) for row in range(2)]
    for t in range(count):
        for v in S.unroll(NV):
            wv[v] = S.vload(w + (w_at + t * (NV * VL) + v * VL), lanes=VL)
        if PREFETCH > 0:
            for v in S.unroll(NV):
                S.prefetch(w + (w_at + (t + PREFETCH) * (NV * VL) + v * VL))
        for row in S.unroll(0 if upper else 1, 2 if lower else 1):
            for i in S.unroll(low, high):
                left = S.cast(row_value(bases[row], i - low, pixel_stride, S.i64(t)), ACC)
                for v in S.unroll(NV):
                    acc[(row * WIDTH + i) * NV + v] = multiply_add(acc[(row * WIDTH + i) * NV + v], left, wv[v])


def multiply_line(upper, lower, acc, x, x_at, second, pixel_stride, tap_stride, w, w_at, w_tap, merge):
    """One row of the kernel."""
    for run in S.unroll(len(RUNS) // 4):
        repeat = S.i32(RUNS[4 * run + 1])
        count = w_tap // (NV * VL)
        if merge != 0:
            count = count * repeat
            repeat = S.i32(1)
        for tap in range(repeat):
            multiply_rows(
                RUNS[4 * run + 2],
                RUNS[4 * run + 3],
                upper,
                lower,
                acc,
                x,
                x_at + S.i64(RUNS[4 * run] + tap) * tap_stride,
                second,
                pixel_stride,
                w,
                w_at + (RUNS[4 * run] + tap) * w_tap,
                count,
            )


@S.prim_func(is_inline=False)
def rows_tile(
    rows: S.meta_var,
    x: S.ptr(X, "global"),
    x_at: S.i64,
    second: S.i64,
    pixel_stride: S.i64,
    tap_stride: S.i64,
    line_stride: S.i64,
    w: S.ptr(ACC, "global"),
    w_tap: S.i32,
    w_line: S.i32,
    upper_first: S.i32,
    upper_last: S.i32,
    lower_first: S.i32,
    lower_last: S.i32,
    merge: S.i32,
    extras: extra_types,
    out: S.ptr(OUT, "global"),
    row_offset: S.i32,
    ldc: S.i32,
    n: S.i32,
    columns: S.i32,
):
    """`rows` (1 or 2) rows of output pixels. x_at: the upper row's first tap, wherever that is; the kernel rows [first,
    last) of each are inside the image.
    """
    acc = S.alloc_buffer((rows * WIDTH * NV,), f"{ACC}x{VL}")
    for i in S.unroll(rows * WIDTH * NV):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    prefetch_tile(rows * WIDTH, extras, row_offset, ldc, n)
    if rows == 1:
        for kh in range(upper_first, upper_last):
            multiply_line(
                True,
                False,
                acc,
                x,
                x_at + S.i64(kh) * line_stride,
                second,
                pixel_stride,
                tap_stride,
                w,
                kh * w_line,
                w_tap,
                merge,
            )
    else:
        for kh in range(S.min(upper_first, lower_first), S.max(upper_last, lower_last)):
            in_upper = kh >= upper_first and kh < upper_last
            in_lower = kh >= lower_first and kh < lower_last
            line = x_at + S.i64(kh) * line_stride
            if in_upper and in_lower:
                multiply_line(True, True, acc, x, line, second, pixel_stride, tap_stride, w, kh * w_line, w_tap, merge)
            elif in_upper:
                multiply_line(True, False, acc, x, line, second, pixel_stride, tap_stride, w, kh * w_line, w_tap, merge)
            elif in_lower:
                multiply_line(False, True, acc, x, line, second, pixel_stride, tap_stride, w, kh * w_line, w_tap, merge)
    finish_tile(rows * WIDTH, acc, extras, out, row_offset, ldc, n, columns)


@S.prim_func
def conv_short_rows(
    x: S.ptr(X, "global"),
    weights: S.ptr(ACC, "global"),
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    batch: S.i32,
    in_h: S.i32,
    in_w: S.i32,
    channels: S.i32,
    out_h: S.i32,
    groups: S.i32,
    group_in: S.i32,
    group_out: S.i32,
    kernel_h: S.i32,
    kernel_w: S.i32,
    stride_h: S.i32,
    stride_w: S.i32,
    pad_h: S.i32,
    pad_w: S.i32,
    dilation_h: S.i32,
    dilation_w: S.i32,
    merge: S.i32,
    block_pairs: S.i32,
    ldc: S.i32,
):
    panels = S.ceildiv(group_out, NV * VL)
    all_panels = groups * panels
    image_pairs = S.ceildiv(out_h, 2)
    pairs = batch * image_pairs
    pair_first, pair_last, block, unit_first, unit_last = rows_or_panels(pairs, all_panels, block_pairs, 4)
    panel_first, panel_last = panels_of(unit_first, unit_last, pairs)
    w_tap = group_in * (NV * VL)
    line_stride = S.i64(dilation_h * in_w * channels)
    for block_first in range(pair_first, pair_last, block):
        for panel in range(panel_first, panel_last):
            group = panel // panels
            n = group * group_out + (panel % panels) * (NV * VL)
            columns = group_out - (panel % panels) * (NV * VL)
            w_panel = weights + panel * (kernel_h * kernel_w * w_tap)
            for pair in range(
                S.max(block_first, unit_first - panel * pairs),
                S.min(S.min(block_first + block, pair_last), unit_last - panel * pairs),
            ):
                oh = pair % image_pairs * 2
                image = pair // image_pairs
                top = oh * stride_h - pad_h
                upper_first = S.min(intervals(S.max(-top, 0), dilation_h), kernel_h)
                upper_last = S.max(S.min(kernel_h, intervals(S.max(in_h - top, 0), dilation_h)), upper_first)
                lower_top = top + stride_h
                lower_first = S.min(intervals(S.max(-lower_top, 0), dilation_h), kernel_h)
                lower_last = S.max(S.min(kernel_h, intervals(S.max(in_h - lower_top, 0), dilation_h)), lower_first)
                x_image = x + (image * in_h * in_w * channels + group * group_in)
                x_at = S.i64(top * in_w * channels) - S.i64(pad_w * channels)
                row_offset = (image * out_h + oh) * WIDTH * ldc
                if oh + 1 < out_h:
                    rows_tile(
                        2,
                        x_image,
                        x_at,
                        S.i64(stride_h * in_w * channels),
                        S.i64(stride_w * channels),
                        S.i64(dilation_w * channels),
                        line_stride,
                        w_panel,
                        w_tap,
                        kernel_w * w_tap,
                        upper_first,
                        upper_last,
                        lower_first,
                        lower_last,
                        merge,
                        extras,
                        out,
                        row_offset,
                        ldc,
                        n,
                        columns,
                    )
                else:
                    rows_tile(
                        1,
                        x_image,
                        x_at,
                        S.i64(stride_h * in_w * channels),
                        S.i64(stride_w * channels),
                        S.i64(dilation_w * channels),
                        line_stride,
                        w_panel,
                        w_tap,
                        kernel_w * w_tap,
                        upper_first,
                        upper_last,
                        upper_first,
                        upper_last,
                        merge,
                        extras,
                        out,
                        row_offset,
                        ldc,
                        n,
                        columns,
                    )
