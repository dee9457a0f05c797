"""The phases of a transposed convolution's results.

Output pixels a stride apart meet the same taps: k = residue + j * residues, where residues = stride / gcd(stride,
dilation), and for them x is read at distances of step = dilation / gcd(stride, dilation). So each phase of the output
is a dense convolution of stride 1 with a part of the kernel, its taps in descending order, whose results are `stride`
pixels apart. A phase may have no taps (kernels shorter than the stride, dilations that share a factor with it): its
pixels are the epilogue of 0.
"""

from aipu import script as S
from spatial import Axis


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
