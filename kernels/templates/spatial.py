"""Windows that pass over channels-last images: what convolutions, pooling and their like have in common.

The plugins fill these records in kernels/parts/spatial.cpp.
"""

from aipu import script as S


@S.record
class Axis:
    """A spatial axis: extents of the image and of the result, and the window along it."""

    image: S.i32
    result: S.i32
    kernel: S.i32
    stride: S.i32
    pad: S.i32  # in front of the image
    dilation: S.i32


@S.record
class Geometry:
    """Images [batch, depth, height, width, channels]; axes that an operator has not got have extent 1."""

    batch: S.i32
    channels: S.i32
    depth: Axis
    height: Axis
    width: Axis


@S.record
class Groups:
    """Of channels: how many, and the channels of each in the image and in the result."""

    count: S.i32
    image: S.i32
    result: S.i32


@S.record
class Row:
    """A row of result pixels."""

    image: S.i32  # its number in the batch
    depth: S.i32
    height: S.i32


@S.record
class Taps:
    """The taps of a window along one axis that are inside the image: `count` of them from `first` on; tap 0 would be at
    `start`.
    """

    start: S.i32
    first: S.i32
    count: S.i32


def intervals(distance, step):
    """ceil(distance / step) for distance >= 0; nearly every dilation is 1, and a division takes as long as a dozen
    products.
    """
    count = distance
    if step != 1:
        count = S.ceildiv(distance, step)
    return count


def row_at(number, geometry: Geometry):
    """The row of result pixels of a number, counted through the batch."""
    height = geometry.height.result
    depth = geometry.depth.result
    return Row(number // (height * depth), (number // height) % depth, number % height)


def taps_inside(start, kernel, step, extent):
    """Of `kernel` taps `step` apart from `start` on, those inside an image of that extent."""
    first = intervals(S.max(-start, 0), step)
    count = S.max(S.min(kernel, intervals(S.max(extent - start, 0), step)) - first, 0)
    return Taps(start, first, count)


def taps_of_axis(position, axis: Axis):
    """The taps of the result at a position."""
    return taps_inside(position * axis.stride - axis.pad, axis.kernel, axis.dilation, axis.image)


@S.record
class Met:
    """What a row of results meets of an image: the taps of the window that are there, and the first line, counted
    through planes and images.
    """

    first: S.i32
    planes: Taps
    lines: Taps


def lines_met(number, geometry: Geometry):
    """Those met by the row of a number."""
    row = row_at(number, geometry)
    lines = taps_of_axis(row.height, geometry.height)
    planes = taps_of_axis(row.depth, geometry.depth)
    top = lines.start + lines.first * geometry.height.dilation
    front = row.image * geometry.depth.image + planes.start + planes.first * geometry.depth.dilation
    return Met(front * geometry.height.image + top, planes, lines)
