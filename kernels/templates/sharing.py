"""How kernels share their work out among TECs.

Who computes an element does not change it, so results do not depend on the number of TECs.
"""

from aipu import script as S


def own_share(units):
    """[first, last) of this TEC: all have runs of one length, the last ones less, or nothing."""
    share = S.ceildiv(units, S.get_local_size())
    first = S.get_local_id() * share
    return first, S.min(first + share, units)


def balanced(count, parts, part):
    """[first, last) of `part`, if `count` things are cut into `parts` that differ by one at most."""
    first = part * (count // parts) + S.min(part, count % parts)
    last = first + count // parts
    if part < count % parts:
        last = last + 1
    return first, last


@S.record
class Work:
    """What a TEC does of results of rows x panels: rows [row_first, row_last) in blocks, of panels [panel_first,
    panel_last), as far as they are units [unit_first, unit_last): unit = panel * rows + row.
    """

    rows: S.i32
    row_first: S.i32
    row_last: S.i32
    block: S.i32
    unit_first: S.i32
    unit_last: S.i32
    panel_first: S.i32
    panel_last: S.i32


def own_work(rows, panels, block_rows, least_rows):
    """The work of this TEC.

    From least_rows rows per TEC on each takes some of them, which it has mostly written itself, for all panels, in
    blocks of block_rows. Of fewer rows each takes a part of the units, panel by panel (split within one).
    """
    tecs = S.get_local_size()
    row_first = S.i32(0)
    row_last = S.i32(rows)
    block = S.i32(S.max(rows, 1))
    unit_first = S.i32(0)
    unit_last = S.i32(panels * rows)
    if rows >= least_rows * tecs:
        row_first, row_last = balanced(rows, tecs, S.get_local_id())
        block = S.max(S.min(block_rows, rows), 1)
    else:
        unit_first, unit_last = own_share(unit_last)
    return Work(
        rows=rows,
        row_first=row_first,
        row_last=row_last,
        block=block,
        unit_first=unit_first,
        unit_last=unit_last,
        panel_first=unit_first // S.max(rows, 1),
        panel_last=S.ceildiv(unit_last, S.max(rows, 1)),
    )


def own_rows(work: Work, block_first, panel):
    """The rows [first, last) of a block that are this TEC's for a panel."""
    first = S.max(block_first, work.unit_first - panel * work.rows)
    last = S.min(S.min(block_first + work.block, work.row_last), work.unit_last - panel * work.rows)
    return first, last
