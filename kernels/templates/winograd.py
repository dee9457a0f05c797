"""3x3 convolution of stride 1 by Winograd's F(2x2, 3x3) over channels-last activations: 16 multiplications for four output pixels instead of 36.

    out = At ((G g Gt) * (Bt d B)) A        Bt = 1  0 -1  0     G = 1    0    0      At = 1 1  1  0
    per 4x4 patch d and 3x3 kernel g             0  1  1  0         0.5  0.5  0.5        0 1 -1 -1
                                                 0 -1  1  0         0.5 -0.5  0.5
                                                 0  1  0 -1         0    0    1
Parameters bound by kernels/plugins/winograd.cpp: X, ACC, VL, NV, HEIGHTS, USE_FMA, PREFETCH as in gemm.py (X and ACC are the same type), the epilogue's as in
epilogue.py, TAIL and IN_TAIL: whether the output and the input channels may end within a vector.
Weights are transformed at compile time and packed [panel][16][ic][NR].

A tile is a 2x2 patch of output pixels. Each TEC takes a range of tiles (or, of few tiles, of panels) in blocks of at most block_tiles: it transforms the
block's input into its scratch memory [16][tiles][ic], and for each panel of output channels computes the 16 products there and transforms them back, with the
epilogue. A block stays in the second-level cache. Rows are padded by a vector so that the planes do not fall into the same sets of the caches.
"""
from aipu import script as S
from epilogue import finish_shared, shared_values
from gemm import multiply_add, row_bases, row_value


@S.prim_func(is_inline=False)
def product_tile(height: S.meta_var, a: S.ptr(ACC, "global"), lda: S.i64, b: S.ptr(ACC, "global"), depth: S.i32, out: S.ptr(ACC, "global")):
    acc = S.alloc_buffer((height * NV,), f"{ACC}x{VL}")
    bv = S.alloc_buffer((NV,), f"{ACC}x{VL}")
    for i in S.unroll(height * NV):
        acc[i] = S.cast(0, f"{ACC}x{VL}")
    bases = row_bases(a, lda, height)
    for k in range(depth):
        for v in S.unroll(NV):
            bv[v] = S.vload(b + (k * (NV * VL) + v * VL), lanes=VL)
        if PREFETCH > 0:
            for v in S.unroll(NV):
                S.prefetch(b + ((k + PREFETCH) * (NV * VL) + v * VL))
        for i in S.unroll(height):
            left = row_value(bases, i, lda, S.i64(k))
            for v in S.unroll(NV):
                acc[i * NV + v] = multiply_add(acc[i * NV + v], left, bv[v])
    for i in S.unroll(height * NV):
        S.vstore(acc[i], out + i * VL)


def transform_patch(d, v, plane):
    """v[xi * plane ...] = element xi of Bt d B."""
    for s in S.unroll(4):
        d0 = d[s] - d[8 + s]
        d1 = d[4 + s] + d[8 + s]
        d2 = d[8 + s] - d[4 + s]
        d3 = d[4 + s] - d[12 + s]
        d[s] = d0
        d[4 + s] = d1
        d[8 + s] = d2
        d[12 + s] = d3
    for r in S.unroll(4):
        S.vstore(d[4 * r] - d[4 * r + 2], v + (4 * r) * plane)
        S.vstore(d[4 * r + 1] + d[4 * r + 2], v + (4 * r + 1) * plane)
        S.vstore(d[4 * r + 2] - d[4 * r + 1], v + (4 * r + 2) * plane)
        S.vstore(d[4 * r + 1] - d[4 * r + 3], v + (4 * r + 3) * plane)


@S.prim_func(is_inline=False)
def transform_input(x: S.ptr(X, "global"), line: S.i64, channels: S.i32, y: S.i32, column: S.i32, in_h: S.i32, in_w: S.i32, v: S.ptr(ACC, "global"), plane: S.i64):
    """The patch at (y, column) of the image x; pixels outside are zero."""
    origin = x + (S.i64(y) * line + S.i64(column) * channels)
    whole = channels // VL * VL if IN_TAIL else channels
    d = S.alloc_buffer((16,), f"{ACC}x{VL}")
    if y >= 0 and column >= 0 and y + 4 <= in_h and column + 4 <= in_w:
        for c in range(0, whole, VL):
            for r in S.unroll(4):
                for s in S.unroll(4):
                    d[4 * r + s] = S.vload(origin + (S.i64(r) * line + S.i64(s) * channels + c), lanes=VL)
            transform_patch(d, v + c, plane)
    else:
        for c in range(0, whole, VL):
            for r in S.unroll(4):
                for s in S.unroll(4):
                    d[4 * r + s] = S.cast(0, f"{ACC}x{VL}")
                    if y + r >= 0 and y + r < in_h and column + s >= 0 and column + s < in_w:
                        d[4 * r + s] = S.vload(origin + (S.i64(r) * line + S.i64(s) * channels + c), lanes=VL)
            transform_patch(d, v + c, plane)


@S.prim_func(is_inline=False)
def transform_tail(x: S.ptr(X, "global"), line: S.i64, channels: S.i32, y: S.i32, column: S.i32, in_h: S.i32, in_w: S.i32, v: S.ptr(ACC, "global"), plane: S.i64):
    """transform_input() for the channels after the last whole vector; up to a vector of zeros is written behind them."""
    c = channels // VL * VL
    origin = x + (S.i64(y) * line + S.i64(column) * channels + c)
    d = S.alloc_buffer((16,), f"{ACC}x{VL}")
    for r in S.unroll(4):
        for s in S.unroll(4):
            d[4 * r + s] = S.cast(0, f"{ACC}x{VL}")
            if y + r >= 0 and y + r < in_h and column + s >= 0 and column + s < in_w:
                d[4 * r + s] = S.vload(origin + (S.i64(r) * line + S.i64(s) * channels), mask=S.tail_mask(channels - c, VL), lanes=VL)
    transform_patch(d, v + c, plane)


def transform_vector(m, plane, lane_mask, extras, out, row_offset, line, ldc, rows, columns, n):
    d = S.alloc_buffer((16,), f"{ACC}x{VL}")
    for s in S.unroll(4):
        m0 = S.vload(m + S.i64(s) * plane, lanes=VL)
        m1 = S.vload(m + S.i64(4 + s) * plane, lanes=VL)
        m2 = S.vload(m + S.i64(8 + s) * plane, lanes=VL)
        m3 = S.vload(m + S.i64(12 + s) * plane, lanes=VL)
        d[s] = m0 + m1 + m2
        d[4 + s] = m1 - m2 - m3
    shared = shared_values(extras, n, lane_mask)
    for r in S.unroll(2):
        if r < rows:
            finish_shared(d[4 * r] + d[4 * r + 1] + d[4 * r + 2], shared, extras, out, row_offset + r * line, n, lane_mask)
            if columns > 1:
                finish_shared(d[4 * r + 1] - d[4 * r + 2] - d[4 * r + 3], shared, extras, out, row_offset + r * line + ldc, n, lane_mask)


@S.prim_func(is_inline=False)
def transform_output(m: S.ptr(ACC, "global"), plane: S.i64, extras: extra_types, out: S.ptr(OUT, "global"), row_offset: S.i32, line: S.i32, ldc: S.i32,
                     rows: S.i32, columns: S.i32, n: S.i32, channels: S.i32):
    """One tile of one panel, of which `rows` x `columns` pixels and `channels` channels from n on exist."""
    for v in range(NV):
        if TAIL and channels - v * VL < VL:
            if channels > v * VL:
                transform_vector(m + v * VL, plane, S.tail_mask(S.min(channels - v * VL, VL), VL), extras, out, row_offset, line, ldc, rows, columns, n + v * VL)
        elif channels > v * VL:
            transform_vector(m + v * VL, plane, None, extras, out, row_offset, line, ldc, rows, columns, n + v * VL)


@S.prim_func
def winograd(x: S.ptr(X, "global"), weights: S.ptr(ACC, "global"), out: S.ptr(OUT, "global"), scratch: S.ptr(ACC, "global"), extras: extra_types,
             batch: S.i32, in_h: S.i32, in_w: S.i32, channels: S.i32, out_h: S.i32, out_w: S.i32, out_channels: S.i32, pad_h: S.i32, pad_w: S.i32,
             block_tiles: S.i32, scratch_size: S.i32, ldc: S.i32):
    tiles_h = S.ceildiv(out_h, 2)
    tiles_w = S.ceildiv(out_w, 2)
    tiles = batch * tiles_h * tiles_w
    panels = S.ceildiv(out_channels, NV * VL)
    tecs = S.get_local_size()
    tid = S.get_local_id()
    tile_first = 0
    tile_last = tiles
    panel_first = 0
    panel_last = panels
    if tiles < 64 * tecs and panels >= 2 * tecs:
        # Few tiles: the weights are what is to be shared out; the transformed input is small.
        panel_first = tid * (panels // tecs) + S.min(tid, panels % tecs)
        panel_last = panel_first + panels // tecs
        if tid < panels % tecs:
            panel_last = panel_last + 1
    else:
        tile_first = tid * (tiles // tecs) + S.min(tid, tiles % tecs)
        tile_last = tile_first + tiles // tecs
        if tid < tiles % tecs:
            tile_last = tile_last + 1
    # Blocks of equal size.
    blocks = S.max(S.ceildiv(tile_last - tile_first, block_tiles), 1)
    size = S.max(S.ceildiv(tile_last - tile_first, blocks), 1)
    lda = S.ceildiv(channels, VL) * VL + VL
    v_plane = S.i64(size * lda + VL)
    m_plane = S.i64(size * (NV * VL) + VL)
    v = scratch + tid * scratch_size
    m = v + 16 * v_plane
    line = S.i64(in_w * channels)
    for begin in range(tile_first, tile_last, size):
        count = S.min(size, tile_last - begin)
        for t in range(count):
            tile = begin + t
            image = tile // (tiles_h * tiles_w)
            transform_input(x + image * in_h * in_w * channels, line, channels, (tile // tiles_w) % tiles_h * 2 - pad_h, tile % tiles_w * 2 - pad_w, in_h, in_w, v + t * lda, v_plane)
            if IN_TAIL:
                transform_tail(x + image * in_h * in_w * channels, line, channels, (tile // tiles_w) % tiles_h * 2 - pad_h, tile % tiles_w * 2 - pad_w, in_h, in_w, v + t * lda, v_plane)
        cuts = S.ceildiv(count, HEIGHTS[0])
        for panel in range(panel_first, panel_last):
            n = panel * (NV * VL)
            for xi in range(16):
                b = weights + (panel * 16 + xi) * channels * (NV * VL)
                a = v + S.i64(xi) * v_plane
                product = m + S.i64(xi) * m_plane
                row = 0
                for cut in range(cuts):
                    end = row + count // cuts
                    if cut < count % cuts:
                        end = end + 1
                    for h in S.unroll(len(HEIGHTS)):
                        while row + HEIGHTS[h] <= end:
                            product_tile(HEIGHTS[h], a + row * lda, lda, b, channels, product + row * (NV * VL))
                            row = row + HEIGHTS[h]
            for t in range(count):
                tile = begin + t
                image = tile // (tiles_h * tiles_w)
                oh = (tile // tiles_w) % tiles_h * 2
                ow = tile % tiles_w * 2
                transform_output(m + t * (NV * VL), m_plane, extras, out, ((image * out_h + oh) * out_w + ow) * ldc, out_w * ldc, ldc,
                                 S.min(out_h - oh, 2), S.min(out_w - ow, 2), n, out_channels - n)
