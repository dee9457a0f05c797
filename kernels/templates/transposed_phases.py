"""The phases of a transposed convolution's results.

Output pixels a stride apart meet the same taps: k = residue + j * residues, where residues = stride / gcd(stride,
dilation), and for them x is read at distances of step = dilation / gcd(stride, dilation). So each phase of the output
is a dense convolution of stride 1 with a part of the kernel, its taps in descending order, whose results are `stride`
pixels apart. A phase may have no taps (kernels shorter than the stride, dilations that share a factor with it): its
pixels are the epilogue of 0.
"""

from aipu import script as S
from spatial import Axis, taps_inside


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


@S.record
class Phase:
    """Of the output, along one axis."""

    residues: S.i32
    step: S.i32


@S.record
class Phases:
    depth: Phase
    height: Phase
    width: Phase


@S.record
class PhaseTaps:
    """The part of the kernel that a pixel's phase has along one axis: `count` taps, with `before` of other residues
    before them; start: where the first (the last in the kernel) is in the image.
    """

    start: S.i32
    count: S.i32
    before: S.i32


def phase_taps(position, axis: Axis, phase: Phase):
    """The taps of a pixel."""
    reach = position + axis.pad
    residue = residue_of(reach, axis.stride, axis.dilation, phase.residues)
    count = taps_of(residue, axis.kernel, phase.residues)
    return PhaseTaps(
        start=(reach - residue * axis.dilation) // axis.stride - (count - 1) * phase.step,
        count=count,
        before=taps_before(residue, axis.kernel, phase.residues),
    )


@S.record
class RowTaps:
    """The part of the kernel that a row's phase has: of `count` lines of taps, with `before` taps of other residues
    before them, `lines` to a plane, those of `planes_inside` by `lines_inside` are inside the image, behind `skipped`
    that are not; `image_line`: where the first of them is, as a line of all images.
    """

    count: S.i32
    before: S.i32
    lines: S.i32
    planes_inside: S.i32
    lines_inside: S.i32
    skipped: S.i32
    image_line: S.i32


def row_taps(row, geometry, phases):
    """The taps of a row (row_at())."""
    depth, height = geometry.depth, geometry.height
    planes = phase_taps(row.depth, depth, phases.depth)
    lines = phase_taps(row.height, height, phases.height)
    in_depth = taps_inside(planes.start, planes.count, phases.depth.step, depth.image)
    in_height = taps_inside(lines.start, lines.count, phases.height.step, height.image)
    front = row.image * depth.image + planes.start + in_depth.first * phases.depth.step
    top = lines.start + in_height.first * phases.height.step
    return RowTaps(
        count=planes.count * lines.count,
        before=planes.before * (height.kernel * geometry.width.kernel)
        + planes.count * lines.before * geometry.width.kernel,
        lines=lines.count,
        planes_inside=in_depth.count,
        lines_inside=in_height.count,
        skipped=in_depth.first * lines.count + in_height.first,
        image_line=front * height.image + top,
    )


def taps_ahead(own: RowTaps, taps: PhaseTaps):
    """Of the packed weights, those before the first tap inside the image of a phase of the row."""
    return own.before + own.count * taps.before + own.skipped * taps.count
