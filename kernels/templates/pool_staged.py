"""pool.py for targets with local memory: windows without dilation over images of one plane, without indices. Fused
neighbours have no operands as large as the results.

Parameters beside those of pool.py:
  STAGING            staging.py
  IMAGE, RESULTS     elements of a buffer of each

A unit is a segment of a row of results, of all channels. What its windows meet of the image, some columns of some
lines, is an image of its own in local memory.
"""

from aipu import script as S
from pool import Ends, met_by, pool_row
from segments import Part, part_of
from sharing import balanced
from spatial import Axis, Geometry
from staging import begin_tile, close_stage, comes, drain, fetch, is_there, open_stage, staged, steps, tile_at, tile_of


def pool_part(part: Part, image, out, extras, geometry: Geometry, ends: Ends, count_padding):
    width, channels = geometry.width, geometry.channels
    # The columns in local memory as an image: what is cut off at its sides is no padding that counts less.
    own = Axis(
        image=part.columns,
        result=part.count,
        kernel=width.kernel,
        stride=width.stride,
        pad=part.column + width.pad - part.begin * width.stride,
        dilation=1,
    )
    local = Geometry(batch=1, channels=channels, depth=geometry.depth, height=geometry.height, width=own)
    behind = Ends(ends.depth, ends.height, width.image + ends.width - part.column - part.columns)
    met = met_by(part.planes, part.lines, geometry, ends)
    line = image - part.lines.first * part.columns * channels
    full = channels // VL * VL
    for c in range(0, full, VL):
        pool_row(None, line, met, out, [], extras, 0, 0, c, local, behind, count_padding, 0)
    if full < channels:
        mask = S.tail_mask(channels - full, VL)
        pool_row(mask, line, met, out, [], extras, 0, 0, full, local, behind, count_padding, 0)


@S.prim_func
def pool_staged(
    x: S.ptr(X, "global"),
    out: S.ptr(OUT, "global"),
    extras: extra_types,
    geometry: Geometry,
    pad_end: Ends,
    count_padding: S.i32,
    segment: S.i32,
):
    channels, width = geometry.channels, geometry.width
    rows = geometry.batch * geometry.depth.result * geometry.height.result
    first, last = balanced(rows * S.ceildiv(width.result, segment), S.get_local_size(), S.get_local_id())
    stage = open_stage()
    image, results = staged(x, IMAGE), staged(out, RESULTS)
    for step in steps(first, last):
        if comes(step, last):
            part = part_of(step, geometry, segment)
            if part.lines.count * part.columns > 0:
                pitch = width.image * channels
                fetch(stage, step - first, image, part.image_at, part.columns * channels, part.lines.count, pitch)
        if is_there(step, first):
            number = tile_at(step) - first
            part = part_of(tile_at(step), geometry, segment)
            begin_tile(stage, number)
            source, target = tile_of(image, number, 0), tile_of(results, number, 0)
            pool_part(part, source, target, extras, geometry, pad_end, count_padding)
            result_at = (part.number * width.result + part.begin) * channels
            drain(stage, number, results, result_at, part.count * channels, 1, 0)
    close_stage(stage, S.max(last - first, 0))
