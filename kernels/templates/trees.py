"""Ensembles of decision trees, sorted keys, n-grams, probabilities of pairs; graph/ops/trees.cpp describes the tables.

Nothing branches on what a row holds. Where NaN has ways of its own (MISSING) each row is there twice (TWICE), as it
is and with the least number in place of NaN, and the flag of a node is a part of its feature's number: it says which
one is read. Rows of more features than a walk looks at are not copied, there the flag is tested. Many walks go on at
a time, so that the loads of one overlap with those of the others: of up to ROWS rows through one tree, WALKS at a
time, or, where there are fewer than WALKS rows, of one row through trees, TREES at a time. All go `row_levels` or
`levels` down before anyone looks which of ROWS rows, or of a CHUNK of trees, have not reached a leaf; these go on
together. Sums are taken in the order of the trees either way, block by block, so that a row's result does not depend
on the others. ALONE: there is one tree. ALL_REACHED: no way is longer than
`row_levels`. STRIDE: how far apart rows are that are read, 0 where a run says so.
"""

from aipu import script as S
from sharing import own_share


def step(nodes, at, row, k):
    """One level down through the row that row[k] points to; gives the word of the node that was left."""
    node = S.i64(at[k])
    word = nodes[2 * node + 1]
    value = S.cast(row[k][S.i32(word & (((2 if TWICE else 1) << FEATURE_BITS) - 1))], REAL)
    passes = value <= S.reinterpret(nodes[2 * node], REAL)
    if MISSING and not TWICE:
        passes = passes or (value != value and ((word >> FEATURE_BITS) & 1) != 0)
    at[k] = S.u32(word >> (FEATURE_BITS + 2)) - (S.u32(1) if passes else S.u32(0))
    return word


def is_branch(words):
    """Of a word; of the common bits of several: of one of them."""
    return (words & S.cast(2 << FEATURE_BITS, WORD)) == S.cast(0, WORD)


def walk(nodes, at, row, walks):
    """Takes the walks from the nodes at[k] to the leaves."""
    words = S.cast(0, WORD)
    while is_branch(words):
        words = S.cast(-1, WORD)
        for k in S.unroll(walks):
            words = words & step(nodes, at, row, k)


def write_twice(row, twice):
    """The features of a row, and from 1 << FEATURE_BITS on the same with the least number in place of NaN."""
    for f in range(FEATURES):
        value = S.cast(row[f], REAL)
        twice[f] = value
        twice[(1 << FEATURE_BITS) + f] = S.cast("-inf", REAL) if value != value else value


def nothing():
    """What is there before the first tree; of a least or greatest weight it is NaN."""
    return S.cast(0, REAL) if AGGREGATE == "sum" else S.cast(0, REAL) / S.cast(0, REAL)


def combined(old, new):
    if AGGREGATE == "sum":
        return old + new
    better = new < old if AGGREGATE == "min" else new > old
    return new if better or old != old else old


def value_at(nodes, leaf):
    """Where in the words the value of a leaf is."""
    return 2 * (S.i64(leaf) + S.i64(nodes[2 * S.i64(leaf)] & S.cast(3, WORD)))


def add_leaf(nodes, leaf, leaf_targets, leaf_weights, sums):
    """The weights of a leaf to the results of one row, which begin at `sums`."""
    value = value_at(nodes, leaf)
    first = S.i32(nodes[value])
    if LEAVES == "single":
        sums[first] = combined(sums[first], S.reinterpret(nodes[value + 1], REAL))
    elif LEAVES == "dense":
        weights = leaf_weights + first
        for t in S.unroll(TARGETS) if TARGETS <= 8 else range(TARGETS):
            sums[t] = combined(nothing() if ALONE else sums[t], weights[t])
    else:
        for e in range(first, first + S.i32(nodes[value + 1])):
            target = S.i32(leaf_targets[e])
            sums[target] = combined(sums[target], leaf_weights[e])


def value_of(nodes, leaf):
    return S.reinterpret(nodes[value_at(nodes, leaf)], REAL)


def finish(out, row):
    """Targets that no leaf spoke of are 0."""
    if AGGREGATE != "sum":
        for t in range(TARGETS):
            v = out[row * TARGETS + t]
            out[row * TARGETS + t] = S.cast(0, REAL) if v != v else v


@S.prim_func
def walk_rows(
    x: S.ptr(X, "global"),
    nodes: S.ptr(WORD, "global"),
    roots: S.ptr(WORD, "global"),
    leaf_targets: S.ptr(WORD, "global"),
    leaf_weights: S.ptr(REAL, "global"),
    out: S.ptr(REAL, "global"),
    work: S.ptr(REAL, "global"),
    row_first: S.i32,
    skipped: S.i32,
    here: S.i32,
    columns: S.i32,
    levels: S.i32,
    tree_first: S.i32,
    tree_last: S.i32,
):
    """The trees of a block for the `here` rows from row_first on, from WALKS to ROWS, of which the first `skipped` have
    their results. WALKS of them are walked at a time, the last ones again where WALKS does not divide them.
    """
    at = S.alloc_buffer((WALKS,), "u32")
    which = S.alloc_buffer((WALKS,), "i32")
    reached = S.alloc_buffer((ROWS,), "u32")
    waiting = S.alloc_buffer((ROWS + WALKS,), "i32")  # the rows that have not reached a leaf
    sums = S.alloc_buffer((ROWS,), REAL)
    own = x + row_first * columns
    if TWICE:
        for r in range(here):
            write_twice(own + r * columns, work + r * (2 << FEATURE_BITS))
    rows = work if TWICE else own
    stride = STRIDE if STRIDE > 0 else S.i32(0) + columns
    if TARGETS == 1:
        for r in range(here):
            sums[r] = nothing()
    for tree in range(tree_first, tree_last):
        root = S.u32(roots[tree])
        left = S.i32(0)
        for group in range(0, here, WALKS):
            first = S.min(group, here - WALKS)
            for k in S.unroll(WALKS):
                at[k] = root
            row = [rows + (first + k) * stride for k in range(WALKS)]
            if STRIDE > 0:
                group_rows = rows + first * STRIDE
                row = [group_rows + k * STRIDE for k in range(WALKS)]
            for level in range(levels):
                for k in S.unroll(WALKS):
                    step(nodes, at, row, k)
            for k in S.unroll(WALKS):
                reached[first + k] = at[k]
                if not ALL_REACHED:
                    waiting[left] = first + k
                    left = left + (S.i32(1) if is_branch(nodes[2 * S.i64(at[k]) + 1]) else S.i32(0))
        if not ALL_REACHED:
            for group in range(0, left, WALKS):
                for k in S.unroll(WALKS):
                    which[k] = waiting[S.min(group + k, left - 1)]
                    at[k] = reached[which[k]]
                row = [rows + which[k] * stride for k in range(WALKS)]
                walk(nodes, at, row, WALKS)
                for k in S.unroll(WALKS):
                    reached[which[k]] = at[k]
        for r in range(skipped, here):
            if TARGETS == 1:
                sums[r] = combined(sums[r], value_of(nodes, reached[r]))
            else:
                add_leaf(nodes, reached[r], leaf_targets, leaf_weights, out + (row_first + r) * TARGETS)
    if TARGETS == 1:
        for r in range(skipped, here):
            p = out + row_first + r
            p[0] = sums[r] if tree_first == 0 else combined(p[0], sums[r])


@S.prim_func
def walk_trees(
    x: S.ptr(X, "global"),
    nodes: S.ptr(WORD, "global"),
    roots: S.ptr(WORD, "global"),
    leaf_targets: S.ptr(WORD, "global"),
    leaf_weights: S.ptr(REAL, "global"),
    out: S.ptr(REAL, "global"),
    work: S.ptr(REAL, "global"),
    own_row: S.i32,
    columns: S.i32,
    levels: S.i32,
    tree_first: S.i32,
    tree_last: S.i32,
):
    """The trees of a block for one row, TREES of them at a time."""
    at = S.alloc_buffer((TREES,), "u32")
    reached = S.alloc_buffer((CHUNK,), "u32")  # by the trees of a chunk
    waiting = S.alloc_buffer((CHUNK,), "i32")  # those that have not reached a leaf
    total = nothing()
    own = x + own_row * columns
    if TWICE:
        write_twice(own, work)
    row = [work if TWICE else own for k in range(TREES)]
    for chunk in range(tree_first, tree_last, CHUNK):
        count = S.min(CHUNK, tree_last - chunk)
        left = S.i32(0)
        for tree in range(0, count, TREES):
            for k in S.unroll(TREES):
                at[k] = S.u32(roots[S.min(chunk + tree + k, tree_last - 1)])
            for level in range(levels):
                for k in S.unroll(TREES):
                    step(nodes, at, row, k)
            for k in S.unroll(TREES):
                reached[tree + k] = at[k]
                waiting[left] = tree + k
                left = left + (S.i32(1) if is_branch(nodes[2 * S.i64(at[k]) + 1]) else S.i32(0))
        for first in range(0, left, TREES):
            for k in S.unroll(TREES):
                at[k] = reached[waiting[S.min(first + k, left - 1)]]
            walk(nodes, at, row, TREES)
            for k in S.unroll(TREES):
                reached[waiting[S.min(first + k, left - 1)]] = at[k]
        for tree in range(count):
            if TARGETS == 1:
                total = combined(total, value_of(nodes, reached[tree]))
            else:
                add_leaf(nodes, reached[tree], leaf_targets, leaf_weights, out + own_row * TARGETS)
    if TARGETS == 1:
        p = out + own_row
        p[0] = total if tree_first == 0 else combined(p[0], total)


@S.prim_func
def tree_ensemble(
    x: S.ptr(X, "global"),
    nodes: S.ptr(WORD, "global"),
    roots: S.ptr(WORD, "global"),
    blocks: S.ptr(WORD, "global"),
    leaf_targets: S.ptr(WORD, "global"),
    leaf_weights: S.ptr(REAL, "global"),
    out: S.ptr(REAL, "global"),
    work: S.ptr(REAL, "global"),
    rows: S.i32,
    columns: S.i32,
    block_count: S.i32,
    levels: S.i32,
    row_levels: S.i32,
):
    """work: ROWS rows, each there twice, per TEC; nothing unless TWICE."""
    own = work + S.get_local_id() * ROWS * (2 << FEATURE_BITS) if TWICE else work
    step = WALKS if rows >= WALKS else 1
    first, last = own_share(S.ceildiv(rows, step))
    if TARGETS > 1 and not (ALONE and LEAVES == "dense"):
        for i in range(first * step * TARGETS, S.min(last * step, rows) * TARGETS):
            out[i] = nothing()
    for block in range(block_count):
        tree_first = S.i32(blocks[2 * block])
        tree_last = S.i32(blocks[2 * block + 2])
        own_nodes = nodes + 2 * S.i64(blocks[2 * block + 1])
        if rows >= WALKS:
            row_last = S.min(last * WALKS, rows)
            for row in range(first * WALKS, row_last, ROWS):
                from_row = S.min(row, rows - WALKS)
                walk_rows(
                    x,
                    own_nodes,
                    roots,
                    leaf_targets,
                    leaf_weights,
                    out,
                    own,
                    from_row,
                    row - from_row,
                    S.min(S.max(row_last - from_row, WALKS), ROWS),
                    columns,
                    row_levels,
                    tree_first,
                    tree_last,
                )
        else:
            for row in range(first, last):
                walk_trees(
                    x,
                    own_nodes,
                    roots,
                    leaf_targets,
                    leaf_weights,
                    out,
                    own,
                    row,
                    columns,
                    levels,
                    tree_first,
                    tree_last,
                )
    for r in range(first * step, S.min(last * step, rows)):
        finish(out, r)


@S.prim_func
def find_key(x: S.ptr(X, "global"), keys: S.ptr(X, "global"), out: S.ptr("i64", "global"), count: S.i32, size: S.i32):
    first, last = own_share(count)
    for i in range(first, last):
        value = x[i]
        low = S.i32(0)  # of the keys before it all are less, of those from `high` on none
        high = S.i32(0) + size
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < value:
                low = middle + 1
            else:
                high = middle
        found = S.i32(0) + size
        if low < size:
            if keys[low] == value:
                found = low
        if FLOATING:
            if value != value and NAN_AT >= 0:
                found = S.i32(NAN_AT)
        if REQUIRED:
            if found == size:
                S.report_fault(UNKNOWN, i, size)
        out[i] = S.i64(found)


def order_of(gram, row, start, distance):
    """-1, 0 or 1: the gram is less than the LENGTH elements of the row, equals them, or is greater."""
    order = S.i32(0)
    for k in S.unroll(LENGTH):
        if order == 0:
            element = S.i64(row[start + k * distance])
            if gram[k] < element:
                order = S.i32(-1)
            elif gram[k] > element:
                order = S.i32(1)
    return order


@S.prim_func
def count_grams(
    x: S.ptr(X, "global"),
    grams: S.ptr("i64", "global"),
    columns: S.ptr("i64", "global"),
    out: S.ptr("fp32", "global"),
    rows: S.i32,
    items: S.i32,
    count: S.i32,
    size: S.i32,
    skips: S.i32,
):
    first, last = own_share(rows)
    for r in range(first, last):
        row = x + r * items
        for c in range(size):
            out[r * size + c] = 0.0
        for distance in range(1, skips + 2):
            for start in range(items - (LENGTH - 1) * distance):
                low = S.i32(0)  # of the grams before it all are less, of those from `high` on none
                high = S.i32(0) + count
                while low < high:
                    middle = (low + high) // 2
                    if order_of(grams + middle * LENGTH, row, start, distance) < 0:
                        low = middle + 1
                    else:
                        high = middle
                if low < count:
                    if order_of(grams + low * LENGTH, row, start, distance) == 0:
                        p = out + r * size + S.i32(columns[low])
                        p[0] = p[0] + S.fp32(1)


@S.prim_func
def couple_pairs(
    p: S.ptr("fp32", "global"), out: S.ptr("fp32", "global"), work: S.ptr("fp32", "global"), rows: S.i32, classes: S.i32
):
    """work: classes * (classes + 2) numbers per TEC: the matrix Q, the probabilities, Q times them."""
    first, last = own_share(rows)
    pairs = classes * (classes - 1) // 2
    q = work + S.get_local_id() * classes * (classes + 2)
    y = q + classes * classes
    qy = y + classes
    least = S.fp32(1e-7)
    for r in range(first, last):
        for t in range(classes):
            q[t * classes + t] = 0.0
            y[t] = S.fp32(1) / S.cast(classes, "fp32")
        pair = S.i32(0)
        for i in range(classes):
            for j in range(i + 1, classes):
                a = S.min(S.max(p[r * pairs + pair], least), S.fp32(1) - least)
                b = S.fp32(1) - a
                q[i * classes + j] = S.fp32(0) - a * b
                q[j * classes + i] = S.fp32(0) - a * b
                q[i * classes + i] = q[i * classes + i] + b * b
                q[j * classes + j] = q[j * classes + j] + a * a
                pair = pair + 1
        steps = S.i32(0)
        while steps < S.max(classes, 100):
            total = S.fp32(0)
            for t in range(classes):
                s = S.fp32(0)
                for j in range(classes):
                    s = s + q[t * classes + j] * y[j]
                qy[t] = s
                total = total + y[t] * s
            worst = S.fp32(0)
            for t in range(classes):
                worst = S.max(worst, S.abs(qy[t] - total))
            steps = steps + 1
            if worst < S.fp32(0.005) / S.cast(classes, "fp32"):
                steps = S.max(classes, 100)
            else:
                for t in range(classes):
                    diff = (total - qy[t]) / q[t * classes + t]
                    y[t] = y[t] + diff
                    scale = S.fp32(1) + diff
                    total = (total + diff * (diff * q[t * classes + t] + S.fp32(2) * qy[t])) / scale / scale
                    for j in range(classes):
                        qy[j] = (qy[j] + diff * q[t * classes + j]) / scale
                        y[j] = y[j] / scale
        for t in range(classes):
            out[r * classes + t] = y[t]
