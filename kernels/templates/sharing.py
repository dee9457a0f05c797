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
    return [first, last]


def rows_or_panels(rows, panels, block_rows, least_rows):
    """[row_first, row_last, block, unit_first, unit_last] of this TEC, for results of rows x panels.

    From least_rows rows per TEC on each takes some of them, which it has mostly written itself, for all panels, in
    blocks of block_rows. Of fewer rows each takes a part of the units, panel by panel (split within one):
    unit = panel * rows + row.
    """
    tecs = S.get_local_size()
    tid = S.get_local_id()
    row_first = S.i32(0)
    row_last = S.i32(rows)
    block = S.i32(S.max(rows, 1))
    unit_first = S.i32(0)
    unit_last = S.i32(panels * rows)
    if rows >= least_rows * tecs:
        share = balanced(rows, tecs, tid)
        row_first = share[0]
        row_last = share[1]
        block = S.max(S.min(block_rows, rows), 1)
    else:
        unit_first, unit_last = own_share(unit_last)
    return [row_first, row_last, block, unit_first, unit_last]


def panels_of(unit_first, unit_last, rows):
    """The panels [first, last) that units belong to."""
    return [unit_first // S.max(rows, 1), S.ceildiv(unit_last, S.max(rows, 1))]
