"""Direct convolution over channels-last images whose rows of output pixels are short: a tile is two whole rows, so that
weights are read half as often as in conv.py, which takes one. One or two spatial dimensions; what each tap of a kernel
row has inside the image is known at compile time.

Parameters as in conv.py without TILING, and
  WIDTH   output pixels of a row; 2 * WIDTH accumulator rows fit the register file
  RUNS    the taps of a kernel row as runs, flat: first tap, number of taps, and the pixels [first, last) that they have
          inside the image; taps that have none are in no run

Weights are packed as for conv.py, [group][panel][kh][kw][ic][NR]. With `merge` the taps of a run and their channels are
one loop.
"""

from aipu import script as S
from conv import Panel, Strides, left_value
from conv_rows import Target
from epilogue import finish_tile, prefetch_tile
from gemm import add_product, right_buffer, row_bases, step_lanes, steps_of
from sharing import own_rows, own_work
from spatial import Axis, Groups, Taps, taps_of_axis


def multiply_rows(low, high, upper, lower, acc, x, x_at, second, pixel_stride, w, w_at, count):
    """acc[row * WIDTH + i] += x[...] * w[...] for low <= i < high, in the upper row of pixels, the lower one, or both;
    the lower one is `second` elements on.
    """
    wv = right_buffer()
    bases = [row_bases(x + (x_at + low * pixel_stride + row * second), pixel_stride, high - low) for row in range(2)]
    for t in range(steps_of(count)):
        for v in S.unroll(NV):
            wv[v] = S.vload(w + (w_at + t * (NV * step_lanes()) + v * step_lanes()), lanes=step_lanes())
        if PREFETCH > 0:
            for v in S.unroll(NV):
                S.prefetch(w + (w_at + (t + PREFETCH) * (NV * step_lanes()) + v * step_lanes()))
        for row in S.unroll(0 if upper else 1, 2 if lower else 1):
            for i in S.unroll(low, high):
                left = left_value(bases[row], i - low, pixel_stride, t)
                for v in S.unroll(NV):
                    acc[(row * WIDTH + i) * NV + v] = add_product(acc[(row * WIDTH + i) * NV + v], left, wv[v])


def multiply_line(upper, lower, acc, x, x_at, second, strides, weights, kh, merge):
    """One row of the kernel."""
    for run in S.unroll(len(RUNS) // 4):
        repeat = S.i32(RUNS[4 * run + 1])
        count = weights.tap // (NV * VL)
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
                x_at + S.i64(kh) * strides.line + S.i64(RUNS[4 * run] + tap) * strides.tap,
                second,
                strides.pixel,
                weights.data,
                kh * weights.line + (RUNS[4 * run] + tap) * weights.tap,
                count,
            )


@S.prim_func(is_inline=False)
def rows_tile(
    rows: S.meta_var,
    x: S.ptr(X, "global"),
    x_at: S.i64,
    second: S.i64,
    strides: Strides,
    weights: Panel,
    upper: Taps,
    lower: Taps,
    merge: S.i32,
    extras: extra_types,
    target: Target,
):
    """`rows` (1 or 2) rows of output pixels. x_at: the upper row's first tap, wherever that is; upper, lower: the rows
    of the kernel that each has inside the image.
    """
    acc = S.alloc_buffer((rows * WIDTH * NV,), f"{ACC}x{VL}")
    for i in S.unroll(rows * WIDTH * NV):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    prefetch_tile(rows * WIDTH, extras, target.offset, target.ldc, target.n)
    upper_last = upper.first + upper.count
    lower_last = lower.first + lower.count
    if rows == 1:
        for kh in range(upper.first, upper_last):
            multiply_line(True, False, acc, x, x_at, second, strides, weights, kh, merge)
    else:
        for kh in range(S.min(upper.first, lower.first), S.max(upper_last, lower_last)):
            in_upper = kh >= upper.first and kh < upper_last
            in_lower = kh >= lower.first and kh < lower_last
            if in_upper and in_lower:
                multiply_line(True, True, acc, x, x_at, second, strides, weights, kh, merge)
            elif in_upper:
                multiply_line(True, False, acc, x, x_at, second, strides, weights, kh, merge)
            elif in_lower:
                multiply_line(False, True, acc, x, x_at, second, strides, weights, kh, merge)
    finish_tile(rows * WIDTH, acc, extras, target.out, target.offset, target.ldc, target.n, target.columns)


@S.prim_func
def conv_short_rows(
    x: S.ptr(X, "global"),
    weights: S.ptr(PANEL, "global"),
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    batch: S.i32,
    channels: S.i32,
    height: Axis,
    width: Axis,
    groups: Groups,
    merge: S.i32,
    block_pairs: S.i32,
    ldc: S.i32,
):
    panels = S.ceildiv(groups.result, NV * VL)
    image_pairs = S.ceildiv(height.result, 2)
    work = own_work(batch * image_pairs, groups.count * panels, block_pairs, 4)
    w_tap = groups.image * (NV * VL)
    line = width.image * channels
    second = S.i64(height.stride * line)
    strides = Strides(width.stride * channels, width.dilation * channels, height.dilation * line, 0)
    for block_first in range(work.row_first, work.row_last, work.block):
        for panel in range(work.panel_first, work.panel_last):
            group = panel // panels
            n = group * groups.result + (panel % panels) * (NV * VL)
            columns = groups.result - (panel % panels) * (NV * VL)
            w_panel = Panel(weights + panel * (height.kernel * width.kernel * w_tap), w_tap, width.kernel * w_tap, 0)
            first, last = own_rows(work, block_first, panel)
            for pair in range(first, last):
                oh = pair % image_pairs * 2
                image = pair // image_pairs
                upper = taps_of_axis(oh, height)
                lower = taps_of_axis(oh + 1, height)
                x_image = x + (image * height.image * line + group * groups.image)
                x_at = S.i64(upper.start * line) - S.i64(width.pad * channels)
                target = Target(out, (image * height.result + oh) * WIDTH * ldc, ldc, n, columns)
                if oh + 1 < height.result:
                    rows_tile(2, x_image, x_at, second, strides, w_panel, upper, lower, merge, extras, target)
                else:
                    rows_tile(1, x_image, x_at, second, strides, w_panel, upper, upper, merge, extras, target)
