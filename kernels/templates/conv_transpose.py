"""Transposed convolution over channels-last activations, 1 to 3 spatial dimensions: out[o] = sum over taps k with (o +
pad - k * dilation) divisible by stride of x[(o + pad - k * dilation) / stride] * weights[k].

Each phase of the output (transposed_phases.py) runs on the tiles of conv.py.

Parameters as in conv.py, without taps in TILING. Weights are packed
[group][panel][residue_d][residue_h][residue_w][jd][jh][jw][ic][NR], j descending in k.
"""

from aipu import script as S
from conv import Panel, convolve_row
from conv_rows import Plane, Target
from sharing import own_rows, own_share, own_work
from spatial import Axis, Geometry, Groups, row_at
from transposed_phases import Phases, phase_taps, row_taps, taps_ahead, taps_of

NR = NV * VL


@S.prim_func
def conv_transpose(
    x: S.ptr(X, "global"),
    weights: S.ptr(ACC, "global"),
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    geometry: Geometry,
    groups: Groups,
    phases: Phases,
    merge: S.i32,
    block_rows: S.i32,
    ldc: S.i32,
):
    depth, height, width = geometry.depth, geometry.height, geometry.width
    panels = S.ceildiv(groups.result, NR)
    work = own_work(geometry.batch * depth.result * height.result, groups.count * panels, block_rows, 7)
    w_tap = groups.image * NR
    line = width.image * geometry.channels
    for block_first in range(work.row_first, work.row_last, work.block):
        for panel in range(work.panel_first, work.panel_last):
            group = panel // panels
            n = group * groups.result + (panel % panels) * NR
            columns = groups.result - (panel % panels) * NR
            w_panel = weights + panel * (depth.kernel * height.kernel * width.kernel * w_tap)
            first_row, last_row = own_rows(work, block_first, panel)
            for number in range(first_row, last_row):
                own = row_taps(row_at(number, geometry), geometry, phases)
                plane = Plane(
                    x + (own.image_line * line + group * groups.image),
                    own.planes_inside,
                    own.lines_inside,
                    phases.height.step * line,
                    phases.depth.step * height.image * line,
                )
                for first in range(S.min(width.stride, width.result)):
                    taps = phase_taps(first, width, phases.width)
                    ahead = taps_ahead(own, taps)
                    w_line = taps.count * w_tap
                    convolve_row(
                        plane,
                        Axis(
                            image=width.image,
                            result=S.ceildiv(width.result - first, width.stride),
                            kernel=taps.count,
                            stride=1,
                            pad=-taps.start,
                            dilation=phases.width.step,
                        ),
                        geometry.channels,
                        groups.image,
                        merge,
                        Panel(w_panel + ahead * w_tap, w_tap, w_line, own.lines * w_line),
                        extras,
                        Target(out, (number * width.result + first) * ldc, width.stride * ldc, n, columns),
                    )


@S.record
class Kernel:
    """Its extents."""

    depth: S.i32
    height: S.i32
    width: S.i32


@S.prim_func
def pack_phases(
    source: S.ptr(X, "global"), packed: S.ptr(ACC, "global"), groups: Groups, kernel: Kernel, phases: Phases
):
    """Weights [group * ic][oc][kd][kh][kw] known only at run time, as conv_transpose() wants them."""
    panels = S.ceildiv(groups.result, NR)
    taps = kernel.depth * kernel.height * kernel.width
    units = groups.count * panels
    first, last = own_share(units)
    for unit in range(first, last):
        n = (unit % panels) * NR
        rows = source + (unit // panels) * (groups.image * groups.result * taps)
        at = unit * (taps * groups.image * NR)
        for d in range(phases.depth.residues):
            for h in range(phases.height.residues):
                for w in range(phases.width.residues):
                    for jd in range(taps_of(d, kernel.depth, phases.depth.residues)):
                        kd = d + (taps_of(d, kernel.depth, phases.depth.residues) - 1 - jd) * phases.depth.residues
                        for jh in range(taps_of(h, kernel.height, phases.height.residues)):
                            kh = (
                                h
                                + (taps_of(h, kernel.height, phases.height.residues) - 1 - jh) * phases.height.residues
                            )
                            for jw in range(taps_of(w, kernel.width, phases.width.residues)):
                                kw = (
                                    w
                                    + (taps_of(w, kernel.width, phases.width.residues) - 1 - jw) * phases.width.residues
                                )
                                tap = (kd * kernel.height + kh) * kernel.width + kw
                                for ic in range(groups.image):
                                    for c in range(NR):
                                        packed[at + c] = S.cast(0, ACC)
                                        if n + c < groups.result:
                                            packed[at + c] = S.cast(
                                                rows[(ic * groups.result + n + c) * taps + tap], ACC
                                            )
                                    at = at + NR
