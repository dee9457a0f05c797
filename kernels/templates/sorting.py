"""Results that an order of the data decides: NonMaxSuppression and Unique, each with the op that counts its result.

Every step depends on the one before, so one TEC does the work of a batch and class of boxes, or of a Unique. Boxes are
suppressed once: what counts them hands on which are kept.
"""

from aipu import script as S
from sharing import own_share


def corner(boxes, k, axis, end):
    """The lower or upper bound of a box along an axis.

    Boxes are two opposite corners, (y, x) each, or with CENTER (x, y, width, height).
    """
    if CENTER:
        middle = S.cast(boxes[k * 4 + (1 - axis)], ACC)
        half = S.cast(boxes[k * 4 + (3 - axis)], ACC) / S.cast(2, ACC)
        return middle + half if end == 1 else middle - half
    a = S.cast(boxes[k * 4 + axis], ACC)
    b = S.cast(boxes[k * 4 + 2 + axis], ACC)
    return S.max(a, b) if end == 1 else S.min(a, b)


def area(boxes, k):
    return (corner(boxes, k, 0, 1) - corner(boxes, k, 0, 0)) * (corner(boxes, k, 1, 1) - corner(boxes, k, 1, 0))


def overlap(boxes, a, b, axis):
    end = S.min(corner(boxes, a, axis, 1), corner(boxes, b, axis, 1))
    return S.max(end - S.max(corner(boxes, a, axis, 0), corner(boxes, b, axis, 0)), S.cast(0, ACC))


def suppresses(boxes, a, b, threshold):
    """Whether the boxes' intersection is more than `threshold` of their union."""
    zero = S.cast(0, ACC)
    area_a = area(boxes, a)
    area_b = area(boxes, b)
    common = overlap(boxes, a, b, 0) * overlap(boxes, a, b, 1)
    return area_a > zero and area_b > zero and common > zero and common / (area_a + area_b - common) > threshold


# Where elements are float32 (VECTORS): of the boxes that are kept, in the order in which they were, the lower and upper
# bound along either axis and the area, each `room` elements behind the one before, so that a candidate is compared with
# VL of them at a time. The numbers are those of suppresses().


def keep_box(corners, room, at, boxes, k):
    for axis in S.unroll(2):
        for end in S.unroll(2):
            corners[(2 * axis + end) * room + at] = corner(boxes, k, axis, end)
    corners[4 * room + at] = area(boxes, k)


def is_suppressed(corners, room, chosen, boxes, k, threshold):
    """Whether one of the first `chosen` boxes that are kept suppresses box k."""
    zero = S.vbcast(S.cast(0, ACC), lanes=VL)
    own_area = S.vbcast(area(boxes, k), lanes=VL)
    own = [S.vbcast(corner(boxes, k, axis, end), lanes=VL) for axis in range(2) for end in range(2)]
    found = S.vbcast(S.cast(0, "i32"), lanes=VL) != 0
    first = S.i32(0)
    while first < chosen and not S.vany(found):
        inside = S.tail_mask(S.min(chosen - first, VL), VL)
        extents = []
        for axis in S.unroll(2):
            low = S.vload(corners + (2 * axis * room + first), mask=inside, lanes=VL)
            high = S.vload(corners + ((2 * axis + 1) * room + first), mask=inside, lanes=VL)
            extents.append(S.max(S.min(own[2 * axis + 1], high) - S.max(own[2 * axis], low), zero))
        other_area = S.vload(corners + (4 * room + first), mask=inside, lanes=VL)
        common = extents[0] * extents[1]
        shared = (own_area > zero) & (other_area > zero) & (common > zero)
        found = inside & shared & (common / (own_area + other_area - common) > S.vbcast(threshold, lanes=VL))
        first = first + VL
    return S.vany(found)


def before(scores, a, b):
    """The order of candidates: the higher score first, of equal ones the lower index."""
    left = S.cast(scores[a], ACC)
    right = S.cast(scores[b], ACC)
    return left > right or (left == right and a < b)


def sift_down(heap, scores, start, size):
    """Restores the heap (the first candidate on top) below position `start`."""
    at = S.i32(0) + start
    moving = 2 * at + 1 < size
    while moving:
        child = S.i32(0) + (2 * at + 1)
        if child + 1 < size and before(scores, heap[child + 1], heap[child]):
            child = child + 1
        moving = before(scores, heap[child], heap[at])
        if moving:
            held = heap[at]
            heap[at] = heap[child]
            heap[child] = held
            at = child
            moving = 2 * at + 1 < size


@S.prim_func
def non_max_suppression(
    all_boxes: S.ptr(X, "global"),
    all_scores: S.ptr(X, "global"),
    limits: limit_types,
    iou: iou_types,
    least: least_types,
    all_kept: S.ptr("i32", "global"),
    heaps: S.ptr("i32", "global"),
    all_corners: S.ptr(ACC, "global"),
    batches: S.i32,
    classes: S.i32,
    boxes_count: S.i32,
    room: S.i32,
):
    """all_kept[batch][class]: how many boxes are kept, then these, the highest score first, in `room` elements.

    heaps and all_corners are workspace of one element and of five per box and TEC.
    """
    heap = heaps + S.i64(S.get_local_id()) * boxes_count
    corners = all_corners + S.i64(S.get_local_id()) * (5 * boxes_count)
    limit = S.i32(0)
    if HAS_LIMIT:
        limit = S.i32(S.max(S.min(S.i64(limits[0][0]), S.i64(boxes_count)), S.i64(0)))
    threshold = S.cast(0, ACC)
    if HAS_IOU:
        threshold = S.cast(iou[0][0], ACC)
    first_pair, last_pair = own_share(batches * classes)
    for pair in range(first_pair, last_pair):
        boxes = all_boxes + S.i64(pair // classes) * (boxes_count * 4)
        scores = all_scores + S.i64(pair) * boxes_count
        kept = all_kept + S.i64(pair) * room
        size = S.i32(0)
        if limit > 0:
            passed = S.i32(0)
            if VECTORS and HAS_LEAST:
                # Few are worth a look: VL at a time.
                bound = S.vbcast(S.cast(least[0][0], ACC), lanes=VL)
                for first in range(0, boxes_count // VL * VL, VL):
                    if S.vany(S.vload(scores + first, lanes=VL) > bound):
                        for k in range(first, first + VL):
                            if scores[k] > S.cast(least[0][0], ACC):
                                heap[size] = k
                                size = size + 1
                passed = boxes_count // VL * VL
            for k in range(passed, boxes_count):
                taken = True
                if HAS_LEAST:
                    taken = S.cast(scores[k], ACC) > S.cast(least[0][0], ACC)
                if taken:
                    heap[size] = k
                    size = size + 1
        for k in range(size // 2):
            sift_down(heap, scores, size // 2 - 1 - k, size)
        chosen = S.i32(0)
        while size > 0 and chosen < limit:
            best = heap[0]
            size = size - 1
            heap[0] = heap[size]
            sift_down(heap, scores, 0, size)
            free = True
            if VECTORS:
                free = not is_suppressed(corners, boxes_count, chosen, boxes, best, threshold)
            else:
                k = S.i32(0)
                while free and k < chosen:
                    if suppresses(boxes, best, kept[k + 1], threshold):
                        free = False
                    k = k + 1
            if free:
                if VECTORS:
                    keep_box(corners, boxes_count, chosen, boxes, best)
                chosen = chosen + 1
                kept[chosen] = best
        kept[0] = chosen


@S.prim_func
def count_kept(kept: S.ptr("i32", "global"), out: S.ptr("i64", "global"), pairs: S.i32, room: S.i32):
    """out[0] = how many boxes are kept in all."""
    if S.get_local_id() == 0:
        total = S.i64(0)
        for pair in range(pairs):
            total = total + S.i64(kept[S.i64(pair) * room])
        out[0] = total


@S.prim_func
def list_kept(
    all_kept: S.ptr("i32", "global"),
    out: S.ptr("i64", "global"),
    pairs: S.i32,
    classes: S.i32,
    room: S.i32,
    rows: S.i32,
):
    """out[n] = (batch, class, box) of the n-th box that is kept, of `rows`."""
    if S.get_local_id() == 0:
        row = S.i32(0)
        for pair in range(pairs):
            kept = all_kept + S.i64(pair) * room
            for k in range(S.min(kept[0], S.min(room - 1, rows - row))):
                at = S.i64(row) * 3
                out[at] = S.i64(pair // classes)
                out[at + 1] = S.i64(pair % classes)
                out[at + 2] = S.i64(kept[k + 1])
                row = row + 1


def compare(x, a, b, outer, extent, inner):
    """-1, 0 or 1: slices a and b of the axis in lexicographic order; NaN is behind everything."""
    result = S.i32(0)
    n = S.i32(0)
    while result == 0 and n < outer * inner:
        base = n // inner * extent * inner + n % inner
        left = S.cast(x[base + a * inner], ACC)
        right = S.cast(x[base + b * inner], ACC)
        if left < right or (right != right and left == left):
            result = S.i32(-1)
        elif left > right or (left != left and right == right):
            result = S.i32(1)
        n = n + 1
    return result


def sort_slices(x, order, spare, outer, extent, inner):
    """The slices' indices in order (equal ones by index), in `order`: runs of doubling width are merged."""
    for k in range(extent):
        order[k] = k
    width = S.i32(1)
    while width < extent:
        start = S.i32(0)
        while start < extent:
            middle = S.min(start + width, extent)
            end = S.min(start + 2 * width, extent)
            a = S.i32(0) + start
            b = S.i32(0) + middle
            for k in range(start, end):
                left = a < middle
                if left and b < end:
                    left = compare(x, order[a], order[b], outer, extent, inner) <= 0
                if left:
                    spare[k] = order[a]
                    a = a + 1
                else:
                    spare[k] = order[b]
                    b = b + 1
            start = start + 2 * width
        for k in range(extent):
            order[k] = spare[k]
        width = width * 2


def starts_group(x, order, k, outer, extent, inner):
    """Whether the k-th slice in order differs from the one before it."""
    fresh = k == 0
    if k > 0:
        fresh = compare(x, order[k - 1], order[k], outer, extent, inner) != 0
    return fresh


@S.prim_func
def count_unique(
    x: S.ptr(X, "global"),
    out: S.ptr("i64", "global"),
    order: S.ptr("i32", "global"),
    spare: S.ptr("i32", "global"),
    outer: S.i32,
    extent: S.i32,
    inner: S.i32,
):
    if S.get_local_id() == 0:
        sort_slices(x, order, spare, outer, extent, inner)
        groups = S.i32(0)
        for k in range(extent):
            if starts_group(x, order, k, outer, extent, inner):
                groups = groups + 1
        out[0] = S.i64(groups)


@S.prim_func
def unique(
    x: S.ptr(X, "global"),
    y: S.ptr(X, "global"),
    indices: S.ptr("i64", "global"),
    inverse: S.ptr("i64", "global"),
    counts: S.ptr("i64", "global"),
    order: S.ptr("i32", "global"),
    spare: S.ptr("i32", "global"),
    group: S.ptr("i32", "global"),
    first: S.ptr("i32", "global"),
    outer: S.i32,
    extent: S.i32,
    inner: S.i32,
    groups: S.i32,
):
    """Distinct slices along the axis, SORTED or in the order of their first occurrence; where each first occurs, which
    one each slice is, and how often each occurs.

    Workspace of one element per slice: order, the sorted indices; spare, the group's place in the output; group, of
    each slice; first, the first slice of each group.
    """
    if S.get_local_id() == 0:
        sort_slices(x, order, spare, outer, extent, inner)
        found = S.i32(-1)
        for k in range(extent):
            if starts_group(x, order, k, outer, extent, inner):
                found = found + 1
                first[found] = order[k]
            group[order[k]] = found
        place = S.i32(0)
        for k in range(extent):
            if first[group[k]] == k:
                spare[group[k]] = group[k] if SORTED else place
                place = place + 1
        for g in range(S.min(found + 1, groups)):
            counts[g] = S.i64(0)
        for k in range(extent):
            at = spare[group[k]]
            inverse[k] = S.i64(at)
            if at < groups:
                counts[at] = counts[at] + S.i64(1)
                if first[group[k]] == k:
                    indices[at] = S.i64(k)
                    for n in range(outer * inner):
                        base = n // inner
                        y[(base * groups + at) * inner + n % inner] = x[(base * extent + k) * inner + n % inner]
