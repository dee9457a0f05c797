"""depthwise.py for targets with local memory, of images of one plane.

Parameters beside those of depthwise.py, with MEMORY = "lsram":
  STAGING                  staging.py
  IMAGE, WEIGHTS, RESULTS  elements of a buffer of each

A unit is a segment of a row of results, of a block of channels. What its windows meet of the image, some columns of
some lines, is an image of its own in local memory, where the weights of its channels are too.
"""

from aipu import script as S
from depthwise import Lines, Width, Window, beginning, depthwise_row
from segments import Part, part_of
from sharing import balanced
from spatial import Geometry
from staging import (
    begin_tile,
    close_stage,
    comes,
    copy,
    drain,
    fetch,
    is_there,
    open_stage,
    staged,
    steps,
    tile_at,
    tile_of,
)


def fetch_image(stage, number, image, part: Part, c, own, geometry: Geometry):
    channels = geometry.channels
    line_pitch = geometry.height.dilation * geometry.width.image * channels
    if part.lines.count * part.columns > 0:
        if own == channels:
            fetch(stage, number, image, part.image_at, part.columns * channels, part.lines.count, line_pitch)
        else:
            for line in range(part.lines.count):
                copy(
                    stage,
                    number,
                    False,
                    tile_of(image, number, 0) + line * part.columns * own,
                    image[0] + (part.image_at + c + line * line_pitch),
                    own,
                    channels,
                    part.columns,
                    own,
                )


def compute_part(part: Part, c, own, image, weights, start, zero, out, extras, geometry: Geometry):
    width, channels = geometry.width, geometry.channels
    padded = S.ceildiv(own, VL) * VL
    line = part.columns * own
    met = Lines(1, part.lines.count, S.i64(line), S.i64(0))
    across = Width(part.columns, part.count, part.column + width.pad - part.begin * width.stride)
    row_offset = (part.number * width.result + part.begin) * channels
    first = weights + part.lines.first * (KW * padded)
    for k in range(0, own, VL):
        window = Window(first + k, padded, KW * padded, 0)
        begin = beginning(start, zero, weights + k, c + k, part.lines, part.planes, geometry, padded)
        if TAIL and c + k + VL > channels:
            depthwise_row(1, image + k, met, channels, own, window, across, begin, extras, out + k, row_offset, c + k)
        else:
            depthwise_row(0, image + k, met, channels, own, window, across, begin, extras, out + k, row_offset, c + k)


@S.prim_func
def depthwise_staged(
    x: S.ptr(X, "global"),
    weights: S.ptr(SUM, "global"),
    start: start_types,
    zero: zero_types,
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    geometry: Geometry,
    padded_channels: S.i32,
    segment: S.i32,
    block: S.i32,
):
    channels, width = geometry.channels, geometry.width
    pieces = geometry.batch * geometry.depth.result * geometry.height.result * S.ceildiv(width.result, segment)
    units = pieces * S.ceildiv(channels, block)
    first, last = balanced(units, S.get_local_size(), S.get_local_id())
    stage = open_stage()
    image, taps, results = staged(x, IMAGE), staged(weights, WEIGHTS), staged(out, RESULTS)
    for step in steps(first, last):
        if comes(step, last):
            part = part_of(step % pieces, geometry, segment)
            c = step // pieces * block
            own = S.min(block, channels - c)
            fetch_image(stage, step - first, image, part, c, own, geometry)
            padded = S.ceildiv(own, VL) * VL
            copy(
                stage,
                step - first,
                False,
                tile_of(taps, step - first, 0),
                weights + c,
                padded,
                padded_channels,
                geometry.height.kernel * KW,
                padded,
            )
        if is_there(step, first):
            number = tile_at(step) - first
            part = part_of(tile_at(step) % pieces, geometry, segment)
            c = tile_at(step) // pieces * block
            own = S.min(block, channels - c)
            begin_tile(stage, number)
            compute_part(
                part,
                c,
                own,
                tile_of(image, number, 0),
                tile_of(taps, number, 0),
                start,
                zero,
                tile_of(results, number, 0),
                extras,
                geometry,
            )
            at = (part.number * width.result + part.begin) * channels + c
            if own == channels:
                drain(stage, number, results, at, part.count * channels, 1, 0)
            else:
                drain(stage, number, results, at, own, part.count, channels)
    close_stage(stage, S.max(last - first, 0))
