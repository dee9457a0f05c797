"""Padding whose values come from the input: reflect, edge, wrap. out[i...] = x[map(i - pad)...] axis by axis.

Parameters: T (an unsigned type of the element's size), RANK, MODE, dim_types (RANK int32 scalars). in_dims and out_dims
are the extents, pads the begin pads.
"""

from aipu import script as S
from sharing import own_share


def source_index(position, extent):
    """The input index that output position `position` (already shifted by the pad; may lie outside) stands for."""
    if MODE == "edge":
        return S.max(S.min(position, extent - 1), 0)
    if MODE == "wrap":
        return ((position % extent) + extent) % extent
    period = S.max(2 * (extent - 1), 1)
    folded = ((position % period) + period) % period
    return S.min(S.min(folded, period - folded), extent - 1)


@S.prim_func
def pad(x: S.ptr(T, "global"), out: S.ptr(T, "global"), in_dims: dim_types, out_dims: dim_types, pads: dim_types):
    rows = 1
    for d in S.unroll(RANK - 1):
        rows = rows * out_dims[d]
    first, last = own_share(rows)
    for row in range(first, last):
        rest = row
        offset = 0
        stride = in_dims[RANK - 1]
        for e in S.unroll(RANK - 1):
            offset = (
                offset
                + source_index(rest % out_dims[RANK - 2 - e] - pads[RANK - 2 - e], in_dims[RANK - 2 - e]) * stride
            )
            rest = rest // out_dims[RANK - 2 - e]
            stride = stride * in_dims[RANK - 2 - e]
        for j in range(out_dims[RANK - 1]):
            out[row * out_dims[RANK - 1] + j] = x[offset + source_index(j - pads[RANK - 1], in_dims[RANK - 1])]
