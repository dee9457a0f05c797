"""Transposed convolution over channels-last activations, 1 to 3 spatial dimensions: out[o] = sum over taps k with (o +
pad - k * dilation) divisible by stride of x[(o + pad - k * dilation) / stride] * weights[k].

Output pixels a stride apart meet the same taps: k = residue + j * residues, where residues = stride / gcd(stride,
dilation), and for them x is read at distances of step = dilation / gcd(stride, dilation). So each phase of the output
is a dense convolution of stride 1 with a part of the kernel, its taps in descending order, whose results are `stride`
pixels apart; it runs on the tiles of conv.py. A phase may have no taps (kernels shorter than the stride, dilations that
share a factor with it): its pixels are the epilogue of 0.

Parameters as in conv.py, with ROW_TAPS empty. Weights are packed
[group][panel][residue_d][residue_h][residue_w][jd][jh][jw][ic][NR], j descending in k.
"""

from aipu import script as S
from conv import convolve_row, intervals
from sharing import own_share, panels_of, rows_or_panels

NR = NV * VL


def residue_of(reach, stride, dilation, residues):
    """The first tap k for which stride divides reach - k * dilation; `residues` where there is none."""
    residue = S.i32((reach % stride + stride) % stride)
    if dilation != 1:
        residue = S.i32(0)
        while residue < residues and (reach - residue * dilation) % stride != 0:
            residue = residue + 1
    return residue


def taps_before(residue, kernel, residues):
    """How many taps the residues before this one have."""
    return residue * (kernel // residues) + S.min(residue, kernel % residues)


def taps_of(residue, kernel, residues):
    return taps_before(S.min(residue + 1, residues), kernel, residues) - taps_before(residue, kernel, residues)


@S.prim_func
def conv_transpose(
    x: S.ptr(X, "global"),
    weights: S.ptr(ACC, "global"),
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    batch: S.i32,
    in_d: S.i32,
    in_h: S.i32,
    in_w: S.i32,
    channels: S.i32,
    out_d: S.i32,
    out_h: S.i32,
    out_w: S.i32,
    groups: S.i32,
    group_in: S.i32,
    group_out: S.i32,
    kernel_d: S.i32,
    kernel_h: S.i32,
    kernel_w: S.i32,
    stride_d: S.i32,
    stride_h: S.i32,
    stride_w: S.i32,
    pad_d: S.i32,
    pad_h: S.i32,
    pad_w: S.i32,
    dilation_d: S.i32,
    dilation_h: S.i32,
    dilation_w: S.i32,
    residues_d: S.i32,
    residues_h: S.i32,
    residues_w: S.i32,
    step_d: S.i32,
    step_h: S.i32,
    step_w: S.i32,
    merge: S.i32,
    block_rows: S.i32,
    ldc: S.i32,
):
    panels = S.ceildiv(group_out, NR)
    all_panels = groups * panels
    out_rows = batch * out_d * out_h
    row_first, row_last, block, unit_first, unit_last = rows_or_panels(out_rows, all_panels, block_rows, 7)
    panel_first, panel_last = panels_of(unit_first, unit_last, out_rows)
    w_tap = group_in * NR
    for block_first in range(row_first, row_last, block):
        for panel in range(panel_first, panel_last):
            group = panel // panels
            n = group * group_out + (panel % panels) * NR
            columns = group_out - (panel % panels) * NR
            w_panel = weights + panel * (kernel_d * kernel_h * kernel_w * w_tap)
            for row in range(
                S.max(block_first, unit_first - panel * out_rows),
                S.min(S.min(block_first + block, row_last), unit_last - panel * out_rows),
            ):
                reach_h = row % out_h + pad_h
                reach_d = (row // out_h) % out_d + pad_d
                image = row // (out_h * out_d)
                residue_d = residue_of(reach_d, stride_d, dilation_d, residues_d)
                residue_h = residue_of(reach_h, stride_h, dilation_h, residues_h)
                taps_d = taps_of(residue_d, kernel_d, residues_d)
                taps_h = taps_of(residue_h, kernel_h, residues_h)
                # Where the phase's first (its last in the kernel) tap is in the image.
                front = (reach_d - residue_d * dilation_d) // stride_d - (taps_d - 1) * step_d
                top = (reach_h - residue_h * dilation_h) // stride_h - (taps_h - 1) * step_h
                kd = intervals(S.max(-front, 0), step_d)
                depths = S.max(S.min(taps_d, intervals(S.max(in_d - front, 0), step_d)) - kd, 0)
                kh = intervals(S.max(-top, 0), step_h)
                lines = S.max(S.min(taps_h, intervals(S.max(in_h - top, 0), step_h)) - kh, 0)
                x_line = x + (
                    ((image * in_d + front + kd * step_d) * in_h + top + kh * step_h) * in_w * channels
                    + group * group_in
                )
                taps_ahead = (
                    taps_before(residue_d, kernel_d, residues_d) * (kernel_h * kernel_w)
                    + taps_d * taps_before(residue_h, kernel_h, residues_h) * kernel_w
                )
                for first in range(S.min(stride_w, out_w)):
                    reach_w = first + pad_w
                    residue_w = residue_of(reach_w, stride_w, dilation_w, residues_w)
                    taps_w = taps_of(residue_w, kernel_w, residues_w)
                    start = (reach_w - residue_w * dilation_w) // stride_w - (taps_w - 1) * step_w
                    ahead = (
                        taps_ahead
                        + taps_d * taps_h * taps_before(residue_w, kernel_w, residues_w)
                        + (kd * taps_h + kh) * taps_w
                    )
                    convolve_row(
                        x_line,
                        in_w,
                        channels,
                        group_in,
                        S.ceildiv(out_w - first, stride_w),
                        taps_w,
                        1,
                        step_w,
                        -start,
                        merge,
                        step_h * in_w * channels,
                        step_d * in_h * in_w * channels,
                        w_panel + ahead * w_tap,
                        w_tap,
                        taps_w * w_tap,
                        taps_h * taps_w * w_tap,
                        depths,
                        lines,
                        extras,
                        out,
                        (row * out_w + first) * ldc,
                        stride_w * ldc,
                        n,
                        columns,
                    )


@S.prim_func
def pack_phases(
    source: S.ptr(X, "global"),
    packed: S.ptr(ACC, "global"),
    groups: S.i32,
    group_in: S.i32,
    group_out: S.i32,
    kernel_d: S.i32,
    kernel_h: S.i32,
    kernel_w: S.i32,
    residues_d: S.i32,
    residues_h: S.i32,
    residues_w: S.i32,
):
    """Weights [group * ic][oc][kd][kh][kw] known only at run time, as conv_transpose() wants them."""
    panels = S.ceildiv(group_out, NR)
    taps = kernel_d * kernel_h * kernel_w
    units = groups * panels
    first, last = own_share(units)
    for unit in range(first, last):
        n = (unit % panels) * NR
        rows = source + (unit // panels) * (group_in * group_out * taps)
        at = unit * (taps * group_in * NR)
        for d in range(residues_d):
            for h in range(residues_h):
                for w in range(residues_w):
                    for jd in range(taps_of(d, kernel_d, residues_d)):
                        kd = d + (taps_of(d, kernel_d, residues_d) - 1 - jd) * residues_d
                        for jh in range(taps_of(h, kernel_h, residues_h)):
                            kh = h + (taps_of(h, kernel_h, residues_h) - 1 - jh) * residues_h
                            for jw in range(taps_of(w, kernel_w, residues_w)):
                                kw = w + (taps_of(w, kernel_w, residues_w) - 1 - jw) * residues_w
                                tap = (kd * kernel_h + kh) * kernel_w + kw
                                for ic in range(group_in):
                                    for c in range(NR):
                                        packed[at + c] = S.cast(0, ACC)
                                        if n + c < group_out:
                                            packed[at + c] = S.cast(rows[(ic * group_out + n + c) * taps + tap], ACC)
                                    at = at + NR
