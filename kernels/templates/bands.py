"""Two or three kernels, each of which is the only one to read what the one before it computes, by bands of lines of
their images, so that what lies between them is never more than a band.

Parameters:
  a_types, b_types, c_types  types of the kernels' parameters, in their order; c_types is empty where there are two
  PLACES           per kernel the places of its parameters that a band changes, as the names below say; -1: it has none
  LIKE_RESULT      per kernel the places of operands with the extents of its result
  VL               lanes of vectors in which lines are moved

first(), second() and third() stand for the kernels, which take their places when all is compiled
(codegen/tir/link.h). A TEC computes lines of the last result that follow each other, a band at a time, and of what the
first kernel computes the lines that they need. Those that the next band needs too move to the front of the band's
memory. Every element is computed as the kernel by itself does it, so results do not depend on bands.
"""

from aipu import script as S

# Of PLACES. A kernel has either pixels (which are independent of each other) or an image and a window.
IMAGE = 0
RESULT = 1
PIXELS = 2
BATCH = 3
IMAGE_LINES = 4
RESULT_LINES = 5
PAD = 6


@S.record
class Lines:
    """Of a kernel: lines of an image that it reads and of its result, elements of a line of each and pixels of a line
    of the result, and how its window passes over them. `reach`: lines under a window.
    """

    image: S.i64
    result: S.i64
    image_line: S.i64
    result_line: S.i64
    pixels: S.i64
    stride: S.i64
    pad: S.i64
    reach: S.i64


@S.prim_func(is_inline=False)
def first(args: a_types):
    return


@S.prim_func(is_inline=False)
def second(args: b_types):
    return


@S.prim_func(is_inline=False)
def third(args: c_types):
    return


def lines_under(lines: Lines, begin, end):
    """[first, last) of the image under the windows of the lines [begin, end) of the result."""
    top = S.max(begin * lines.stride - lines.pad, 0)
    return top, S.max(S.min((end - 1) * lines.stride - lines.pad + lines.reach, lines.image), top)


def of_band(kernel, args, lines: Lines, number, begin, end, image, result):
    """The arguments for the lines [begin, end) of result `number` of a batch; image: where the lines under them are."""
    places = PLACES[kernel]
    changed = {places[IMAGE]: image, places[RESULT]: result}
    for place in LIKE_RESULT[kernel]:
        changed[place] = args[place] + (number * lines.result + begin) * lines.result_line
    if places[PIXELS] >= 0:
        changed[places[PIXELS]] = (end - begin) * lines.pixels
    else:
        top, bottom = lines_under(lines, begin, end)
        changed[places[BATCH]] = S.i64(1)
        changed[places[IMAGE_LINES]] = bottom - top
        changed[places[RESULT_LINES]] = end - begin
        changed[places[PAD]] = S.max(lines.pad - begin * lines.stride, 0)
    return [changed[k] if k in changed else args[k] for k in range(len(args))]


@S.prim_func
def bands(
    a: a_types,
    b: b_types,
    c: c_types,
    of_a: Lines,
    of_b: Lines,
    of_c: Lines,
    images: S.i64,
    band: S.i64,
    a_elements: S.i64,
    b_elements: S.i64,
):
    """a_elements, b_elements: of the memory that a TEC has for the results of the first two."""
    tecs = S.i64(S.get_local_size())
    tec = S.i64(S.get_local_id())
    between = a[PLACES[0][RESULT]] + tec * a_elements
    height = of_b.result
    total = images * height
    own_first = tec * (total // tecs) + S.min(tec, total % tecs)
    own_last = own_first + total // tecs
    if tec < total % tecs:
        own_last = own_last + 1
    # The lines of the first kernel's result that are in its memory.
    kept_first = S.i64(0)
    kept_last = S.i64(0)
    number = own_first
    while number < own_last:
        image = number // height
        begin = number % height
        end = S.min(S.min(begin + band, height), begin + own_last - number)
        low, high = lines_under(of_b, begin, end)
        fresh = low
        if begin > 0 and number > own_first:
            fresh = S.max(kept_last, low)
            if low > kept_first:
                moved = between + (low - kept_first) * of_a.result_line
                for i in range(0, (kept_last - low) * of_a.result_line, VL):
                    left = S.min((kept_last - low) * of_a.result_line - i, VL)
                    mask = S.tail_mask(S.i32(left), VL)
                    S.vstore(S.vload(moved + i, mask=mask, lanes=VL), between + i, mask=mask)
        if fresh < high:
            top, _ = lines_under(of_a, fresh, high)
            source = a[PLACES[0][IMAGE]] + (image * of_a.image + top) * of_a.image_line
            target = between + (fresh - low) * of_a.result_line
            first(of_band(0, a, of_a, image, fresh, high, source, target))
        kept_first = low
        kept_last = high
        if len(c) == 0:
            result = b[PLACES[1][RESULT]] + (image * of_b.result + begin) * of_b.result_line
            second(of_band(1, b, of_b, image, begin, end, between, result))
        else:
            inner = b[PLACES[1][RESULT]] + tec * b_elements
            second(of_band(1, b, of_b, image, begin, end, between, inner))
            result = c[PLACES[2][RESULT]] + (image * of_c.result + begin) * of_c.result_line
            third(of_band(2, c, of_c, image, begin, end, inner, result))
        number = number + (end - begin)
