"""Where the tiles of Winograd's algorithm are, MxM patches of output pixels, and how they are worked on in blocks. With
dilation an output pixel meets every so many lines and columns only: the sub-lattices of an image are images of their
own.
"""

from aipu import script as S
from sharing import balanced
from spatial import intervals


@S.record
class Side:
    """An axis; with dilation its sub-lattices, `dilation` of them, are axes of their own."""

    image: S.i32
    result: S.i32
    pad: S.i32
    dilation: S.i32


@S.record
class Start:
    """Along an axis the first output pixel of a tile, and where its first tap is: at `index` of the pixels of the image
    from `offset` on that are a dilation apart.
    """

    result: S.i32
    offset: S.i32
    index: S.i32


@S.record
class Place:
    """Of a tile."""

    image: S.i32
    height: Start
    width: Start


def start_at(number, lattice, side):
    """Of tile `number` of a sub-lattice."""
    result = number * M
    index = result - side.pad
    offset = S.i32(0)
    if side.dilation != 1:
        result = result * side.dilation + lattice
        position = result - side.pad
        index = position // side.dilation
        if index * side.dilation > position:
            index = index - 1
        offset = position - index * side.dilation
    return Start(result, offset, index)


def place_of(tile, tiles_h, tiles_w, height, width):
    """Tiles are counted by image, sub-lattice, row and column."""
    image = tile // (tiles_h * tiles_w)
    row = (tile // tiles_w) % tiles_h
    column = tile % tiles_w
    lattices = height.dilation * width.dilation
    lattice = S.i32(0)
    if lattices != 1:
        lattice = image % lattices
        image = image // lattices
    return Place(
        image, start_at(row, lattice // width.dilation, height), start_at(column, lattice % width.dilation, width)
    )


def pixels_before(place, height, width):
    """The pixel of the whole input that a tile's image starts with."""
    return (place.image * height.image + place.height.offset) * width.image + place.width.offset


def length_from(first, extent, side):
    """How many pixels of an extent there are from the first on, a dilation apart."""
    return intervals(S.max(extent - first, 0), side.dilation)


@S.record
class Blocking:
    """At most `tiles` tiles and `panels` panels are worked on at once. The weights of the next panel are panel_chunks
    pieces of [ic][NR] further on, those of the next point point_chunks.
    """

    tiles: S.i32
    panels: S.i32
    panel_chunks: S.i32
    point_chunks: S.i32


def tiles_along(side):
    """Of one sub-lattice."""
    return S.ceildiv(intervals(side.result, side.dilation), M)


@S.record
class TileWork:
    """What a TEC does: tiles [tile_first, tile_last) of panels [panel_first, panel_last), `block` tiles at a time."""

    tile_first: S.i32
    tile_last: S.i32
    panel_first: S.i32
    panel_last: S.i32
    block: S.i32


def own_tiles(tiles, out_channels, block):
    """The work of this TEC in blocks of equal size, of at most `block` tiles."""
    panels = S.ceildiv(out_channels, NV * VL)
    tecs = S.get_local_size()
    tile_first = S.i32(0)
    tile_last = S.i32(tiles)
    panel_first = S.i32(0)
    panel_last = S.i32(panels)
    if tiles * (M * M) < 256 * tecs and panels >= 2 * tecs:
        # Few tiles: the weights are what is to be shared out; the transformed input is small.
        panel_first, panel_last = balanced(panels, tecs, S.get_local_id())
    else:
        tile_first, tile_last = balanced(tiles, tecs, S.get_local_id())
    blocks = S.max(S.ceildiv(tile_last - tile_first, block), 1)
    size = S.max(S.ceildiv(tile_last - tile_first, blocks), 1)
    return TileWork(tile_first, tile_last, panel_first, panel_last, size)


@S.record
class Patch:
    """Where it begins in an image of height x width pixels; lines are `line` elements apart, pixels `pitch`."""

    y: S.i32
    column: S.i32
    height: S.i32
    width: S.i32
    line: S.i64
    pitch: S.i64


def has_pixel(patch, r, s):
    y, column = patch.y + r, patch.column + s
    return y >= 0 and y < patch.height and column >= 0 and column < patch.width


def origin_of(x, patch):
    return x + (S.i64(patch.y) * patch.line + S.i64(patch.column) * patch.pitch)


@S.record
class Tile:
    """Where its rows x columns pixels go: from row_offset on, lines `line` elements apart and pixels `pitch`."""

    row_offset: S.i32
    line: S.i32
    pitch: S.i32
    rows: S.i32
    columns: S.i32


def patch_of(place, height, width, channels):
    """Of the image that pixels_before() says, whose pixels have so many channels."""
    y, column = place.height, place.width
    return Patch(
        y.index,
        column.index,
        length_from(y.offset, height.image, height),
        length_from(column.offset, width.image, width),
        S.i64(height.dilation * width.image * channels),
        S.i64(width.dilation * channels),
    )


def tile_of(place, height, width, ldc):
    """Pixels of the whole result are `ldc` apart. Some sub-lattices may be a tile shorter than others: it has no pixels
    there."""
    oh, ow = place.height.result, place.width.result
    return Tile(
        ((place.image * height.result + oh) * width.result + ow) * ldc,
        height.dilation * width.result * ldc,
        width.dilation * ldc,
        S.min(length_from(oh, height.result, height), M),
        S.min(length_from(ow, width.result, width), M),
    )


def copy_patch(pixels, patch, count, copy, distance, lanes, outside):
    """A patch of 6x6 pixels, `count` channels of each from `pixels` on, to pixels `distance` apart at `copy`, by
    vectors of `lanes`; `outside` is a vector of what is not in the image."""
    for r in range(6):
        for s in range(6):
            pixel = pixels + (S.i64(r) * patch.line + S.i64(s) * patch.pitch)
            target = copy + (6 * r + s) * distance
            if has_pixel(patch, r, s):
                for i in range(0, count, lanes):
                    if IN_TAIL and count - i < lanes:
                        S.vstore(S.vload(pixel + i, mask=S.tail_mask(count - i, lanes), lanes=lanes), target + i)
                    else:
                        S.vstore(S.vload(pixel + i, lanes=lanes), target + i)
            else:
                for i in range(0, count, lanes):
                    S.vstore(outside, target + i)
