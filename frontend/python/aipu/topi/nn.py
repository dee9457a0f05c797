"""Operators of neural networks, each a few lines of tensor expression."""

from __future__ import annotations

import builtins
from typing import Any, List, Sequence, Tuple

from .. import te
from ..te._expr import PrimExpr, _select, binary, const, expr
from ..te._expr import cast as _cast
from ..te._functions import all as all_of
from ..te._tensor import compute, reduce_axis
from ._core import BROADCAST, ELEMWISE, INJECTIVE, _axis, _map, _unary, max, reshape, sum
from ._spatial import (  # noqa: F401
    batch_to_space_nd,
    binarize_pack,
    binary_dense,
    depth_to_space,
    fifo_buffer,
    scale_shift_nchw,
    scale_shift_nhwc,
    space_to_batch_nd,
    space_to_depth,
    upsampling,
)


def matmul(
    a: Any, b: Any, bias: Any = None, out_dtype: Any = None, transpose_a: bool = False, transpose_b: bool = False
) -> Any:
    """The product of two matrices; operands become ``out_dtype`` before they are multiplied."""
    rows, depth = (a.shape[1], a.shape[0]) if transpose_a else (a.shape[0], a.shape[1])
    cols = b.shape[0] if transpose_b else b.shape[1]
    k = reduce_axis((0, depth), name="k")

    def element(i: Any, j: Any) -> Any:
        x = a[k, i] if transpose_a else a[i, k]
        y = b[j, k] if transpose_b else b[k, j]
        x, y = (_cast(out_dtype, v) if out_dtype else expr(v) for v in (x, y))
        return te.sum(x * y, axis=k)

    product = compute((rows, cols), element, name="T_matmul", tag="matmul")
    if bias is None:
        return product
    return compute(
        (rows, cols), lambda i, j: product[i, j] + _cast(product.dtype, bias[j]), name="T_add", tag=BROADCAST
    )


def dense(x: Any, weight: Any, bias: Any = None, out_dtype: Any = None) -> Any:
    """``x @ weight.T + bias``."""
    return matmul(x, weight, bias, out_dtype, transpose_b=True)


def batch_matmul(
    x: Any, y: Any, oshape: Any = None, out_dtype: Any = None, transpose_a: bool = False, transpose_b: bool = True
) -> Any:
    """Products of matrices by batch; a batch of 1 is broadcast."""
    one = [isinstance(t.shape[0], PrimExpr) and t.shape[0].node == "IntImm" and int(t.shape[0]) == 1 for t in (x, y)]
    batch = y.shape[0] if one[0] else x.shape[0]
    rows, depth = (x.shape[2], x.shape[1]) if transpose_a else (x.shape[1], x.shape[2])
    cols = y.shape[1] if transpose_b else y.shape[2]
    k = reduce_axis((0, depth), name="k")

    def element(b: Any, i: Any, j: Any) -> Any:
        p, q = (0 if one[0] else b), (0 if one[1] else b)
        u = x[p, k, i] if transpose_a else x[p, i, k]
        v = y[q, j, k] if transpose_b else y[q, k, j]
        u, v = (_cast(out_dtype, e) if out_dtype else expr(e) for e in (u, v))
        return te.sum(u * v, axis=k)

    return compute((batch, rows, cols), element, name="T_batch_matmul", tag="batch_matmul")


def relu(x: Any) -> Any:
    """Not below 0."""
    return _map(x, lambda v: binary("Max", v, const(0, v.dtype)), "relu")


def leaky_relu(x: Any, alpha: float) -> Any:
    """Negative numbers times ``alpha``."""
    return _map(x, lambda v: _select(v > 0, v, v * const(alpha, v.dtype)), "leaky_relu")


def pad(x: Any, pad_before: Sequence[Any], pad_after: Any = None, pad_value: Any = 0.0, name: str = "PadInput") -> Any:
    """More elements before and behind, of one value."""
    pad_after = pad_before if pad_after is None else pad_after
    if len(pad_before) != x.ndim or len(pad_after) != x.ndim:
        raise ValueError(f"pad: {len(pad_before)} and {len(pad_after)} amounts for {x.ndim} dimensions")
    shape = [e + p + q for e, p, q in zip(x.shape, pad_before, pad_after)]

    def element(*i: Any) -> Any:
        inside = []
        for index, extent, before, after in zip(i, x.shape, pad_before, pad_after):
            if not (isinstance(before, int) and before == 0):
                inside.append(index >= before)
            if not (isinstance(after, int) and after == 0):
                inside.append(index < extent + before)
        value = x(*[index - before for index, before in zip(i, pad_before)])
        return te.if_then_else(all_of(*inside), value, _cast(x.dtype, expr(pad_value))) if inside else value

    return compute(shape, element, name=name, tag="injective,pad")


def flatten(x: Any) -> Any:
    """All dimensions but the first as one."""
    count: Any = const(1)
    for e in x.shape[1:]:
        count = count * e
    return reshape(x, (x.shape[0], count))


def _convolution(
    data: Any,
    kernel: Any,
    strides: Sequence[Any],
    pads: Sequence[Any],
    dilations: Sequence[Any],
    groups: int,
    axes: Tuple[str, str],
    name: str,
    out_dtype: Any = None,
    depthwise: bool = False,
) -> Any:
    """``axes``: the dimensions of data and kernel by letters, N C O I and D H W for those of space. The output has the
    data's order. ``pads``: before, then after, for the dimensions of space.
    """
    data_axes, kernel_axes = axes
    space = [c for c in data_axes if c in "DHW"]
    count = len(space)
    before, after = [0] * data.ndim, [0] * data.ndim
    for k, c in enumerate(space):
        before[data_axes.index(c)], after[data_axes.index(c)] = pads[k], pads[count + k]
    extent = {c: data.shape[data_axes.index(c)] for c in data_axes}
    window = {c: kernel.shape[kernel_axes.index(c)] for c in space}
    padded = pad(data, before, after) if builtins.any(not _is_zero(p) for p in pads) else data
    inputs = kernel.shape[kernel_axes.index("I")]
    outputs = kernel.shape[kernel_axes.index("O")] * (inputs if depthwise else 1)
    result = {"N": extent["N"], "C": outputs}
    for k, c in enumerate(space):
        reach = (window[c] - 1) * dilations[k] + 1
        result[c] = te.floordiv(extent[c] + pads[k] + pads[count + k] - reach, strides[k]) + 1
    shape = [result[c] for c in data_axes]
    steps = {c: reduce_axis((0, window[c]), name="r" + c.lower()) for c in space}
    channel = reduce_axis((0, const(1) if depthwise else inputs), name="rc")

    def element(*i: Any) -> Any:
        at = dict(zip(data_axes, i))
        place = {c: at[c] * strides[k] + steps[c] * dilations[k] for k, c in enumerate(space)}
        weight = {**{c: steps[c].var for c in space}, "O": at["C"], "I": channel.var}
        source = channel.var
        if depthwise:
            multiplier = kernel.shape[kernel_axes.index("O")]
            weight["I"], weight["O"] = te.floordiv(at["C"], multiplier), te.floormod(at["C"], multiplier)
            source = weight["I"]
        elif groups > 1:
            source = te.floordiv(at["C"], te.floordiv(outputs, groups)) * inputs + channel
        u = padded(*[place[c] if c in place else (source if c == "C" else at[c]) for c in data_axes])
        v = kernel(*[weight[c] for c in kernel_axes])
        u, v = (_cast(out_dtype, e) if out_dtype else expr(e) for e in (u, v))
        return te.sum(u * v, axis=[*([] if depthwise else [channel]), *steps.values()])

    return compute(shape, element, name=name, tag=name)


def _is_zero(value: Any) -> bool:
    node = expr(value)
    return node.node == "IntImm" and int(node) == 0


def _numbers(value: Any, count: int) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value] * count


def _pads(padding: Any, windows: Sequence[Any], dilations: Sequence[Any], strides: Sequence[Any]) -> List[Any]:
    """Before, then after, of each dimension of space."""
    count = len(windows)
    if padding == "VALID":
        padding = 0
    if padding == "SAME":
        reach = [(w - 1) * d for w, d in zip(windows, dilations)]
        low = [te.floordiv(r, 2) for r in reach]
        return low + [r - p for r, p in zip(reach, low)]
    if isinstance(padding, str):
        raise ValueError(f"unknown padding {padding!r}")
    values = _numbers(padding, count)
    if len(values) not in (count, 2 * count):
        raise ValueError(f"padding: {len(values)} numbers for {count} dimensions")
    return values if len(values) == 2 * count else values + values


def _conv(
    data: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int, axes: Tuple[str, str], **more: Any
) -> Any:
    space = [c for c in axes[0] if c in "DHW"]
    strides, dilations = _numbers(stride, len(space)), _numbers(dilation, len(space))
    windows = [kernel.shape[axes[1].index(c)] for c in space]
    pads = _pads(padding, windows, dilations, strides)
    return _convolution(data, kernel, strides, pads, dilations, groups, axes, **more)


def _named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _of_images(name: str, axes: Tuple[str, str], doc: str, **more: Any) -> Any:
    """A convolution of images: the layouts of data and weights."""

    def convolve(
        Input: Any, Filter: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, out_dtype: Any = None, **_: Any
    ) -> Any:
        return _conv(Input, Filter, stride, padding, dilation, 1, axes, name=name, out_dtype=out_dtype, **more)

    return _named(convolve, name, doc)


def _of_sequences(name: str, axes: Tuple[str, str], doc: str) -> Any:
    """A convolution of sequences: the layouts of data and weights."""

    def convolve(
        data: Any, kernel: Any, strides: Any = 1, padding: Any = 0, dilation: Any = 1, out_dtype: Any = None
    ) -> Any:
        return _conv(data, kernel, strides, padding, dilation, 1, axes, name=name, out_dtype=out_dtype)

    return _named(convolve, name, doc)


conv2d_nchw = _of_images("conv2d_nchw", ("NCHW", "OIHW"), "Convolution of images in NCHW with weights in OIHW.")
conv2d_nhwc = _of_images("conv2d_nhwc", ("NHWC", "HWIO"), "Convolution of images in NHWC with weights in HWIO.")
conv2d_hwcn = _of_images("conv2d_hwcn", ("HWCN", "HWIO"), "Convolution of images in HWCN with weights in HWIO.")
depthwise_conv2d_nchw = _of_images(
    "depthwise_conv2d_nchw",
    ("NCHW", "IOHW"),
    "Convolution of each channel by itself; weights are [channel, multiplier, height, width].",
    depthwise=True,
)
depthwise_conv2d_nhwc = _of_images(
    "depthwise_conv2d_nhwc",
    ("NHWC", "HWIO"),
    "Convolution of each channel by itself; weights are [height, width, channel, multiplier].",
    depthwise=True,
)
conv1d_ncw = _of_sequences("conv1d_ncw", ("NCW", "OIW"), "Convolution of sequences in NCW with weights in OIW.")
conv1d_nwc = _of_sequences("conv1d_nwc", ("NWC", "WIO"), "Convolution of sequences in NWC with weights in WIO.")


def conv2d(
    data: Any,
    kernel: Any,
    strides: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: Any = None,
) -> Any:
    """Convolution of images in a layout."""
    made = {"NCHW": conv2d_nchw, "NHWC": conv2d_nhwc, "HWCN": conv2d_hwcn}
    if data_layout not in made:
        raise ValueError(f"conv2d: unknown layout {data_layout!r}")
    return made[data_layout](data, kernel, strides, padding, dilation, out_dtype)


def group_conv2d_nchw(
    Input: Any, Filter: Any, stride: Any, padding: Any, dilation: Any, groups: int, out_dtype: Any = None
) -> Any:
    """Convolution by groups of channels; images in NCHW, weights in OIHW with the channels of one group."""
    axes = ("NCHW", "OIHW")
    return _conv(Input, Filter, stride, padding, dilation, groups, axes, name="group_conv2d_nchw", out_dtype=out_dtype)


def conv3d_ncdhw(
    Input: Any, Filter: Any, stride: Any, padding: Any, dilation: Any = 1, groups: int = 1, out_dtype: Any = None
) -> Any:
    """Convolution of volumes in NCDHW with weights in OIDHW."""
    axes = ("NCDHW", "OIDHW")
    return _conv(Input, Filter, stride, padding, dilation, groups, axes, name="conv3d_ncdhw", out_dtype=out_dtype)


def conv2d_transpose_nchw(
    Input: Any, Filter: Any, strides: Any, padding: Any, out_dtype: Any = None, output_padding: Any = (0, 0)
) -> Any:
    """The gradient of a convolution: images in NCHW, weights are [in, out, height, width]."""
    stride, more = _numbers(strides, 2), _numbers(output_padding, 2)
    windows = list(Filter.shape[2:])
    given = _pads(padding, windows, [1, 1], stride)
    spread = dilate(Input, [1, 1, *stride], name="DilatedInput")
    before = [windows[k] - 1 - given[k] for k in range(2)]
    after = [windows[k] - 1 - given[2 + k] + more[k] for k in range(2)]
    padded = pad(spread, [0, 0, *before], [0, 0, *after])
    rc = reduce_axis((0, Input.shape[1]), name="dc")
    ry, rx = (reduce_axis((0, w), name=n) for w, n in zip(windows, ("dh", "dw")))
    shape = [Input.shape[0], Filter.shape[1]] + [padded.shape[2 + k] - windows[k] + 1 for k in range(2)]

    def element(b: Any, c: Any, h: Any, w: Any) -> Any:
        u = padded[b, rc, h + ry, w + rx]
        v = Filter[rc, c, windows[0] - 1 - ry, windows[1] - 1 - rx]
        u, v = (_cast(out_dtype, e) if out_dtype else expr(e) for e in (u, v))
        return te.sum(u * v, axis=[rc, ry, rx])

    return compute(shape, element, name="conv2d_transpose_nchw", tag="conv2d_transpose_nchw")


# --- pooling ----------------------------------------------------------------------------------------------------------


def _pool(
    data: Any,
    kernel: Sequence[Any],
    stride: Sequence[Any],
    dilation: Sequence[Any],
    pads: Sequence[Any],
    pool_type: str,
    ceil_mode: bool,
    space: Sequence[int],
    count_include_pad: bool,
) -> Any:
    if pool_type not in ("max", "avg"):
        raise ValueError(f"pool: max or avg, not {pool_type!r}")
    count = len(space)
    before, after = [0] * data.ndim, [0] * data.ndim
    shape = list(data.shape)
    low, high = list(pads[:count]), list(pads[count:])
    for k, d in enumerate(space):
        reach = (kernel[k] - 1) * dilation[k] + 1
        extra = stride[k] - 1 if ceil_mode else 0
        shape[d] = te.floordiv(data.shape[d] - reach + low[k] + high[k] + extra, stride[k]) + 1
        before[d], after[d] = low[k], high[k] + extra
    steps = {d: reduce_axis((0, kernel[k]), name=f"rv{k}") for k, d in enumerate(space)}

    def place(i: Sequence[Any]) -> List[Any]:
        own = list(i)
        for k, d in enumerate(space):
            own[d] = i[d] * stride[k] + steps[d] * dilation[k]
        return own

    axes = list(steps.values())
    padded = builtins.any(not _is_zero(p) for p in [*before, *after])
    start = te.min_value(data.dtype) if pool_type == "max" else const(0, data.dtype)
    source = pad(data, before, after, start) if padded else data
    if pool_type == "max":
        return compute(shape, lambda *i: te.max(source(*place(i)), axis=axes), name="pool_max", tag="pool_max")
    total = compute(shape, lambda *i: te.sum(source(*place(i)), axis=axes), name="pool_sum", tag="pool_sum")

    def mean(*i: Any) -> Any:
        number: Any = const(1)
        for k, d in enumerate(space):
            first = i[d] * stride[k] - low[k]
            # With padding counted, what lies beyond the padding itself (by ceil_mode) is none either.
            begin, end = (-low[k], data.shape[d] + high[k]) if count_include_pad else (0, data.shape[d])
            # The taps between begin and end.
            skipped = te.floordiv(binary("Max", begin - first, 0) + dilation[k] - 1, dilation[k])
            stop = te.floordiv(binary("Max", end - first, 0) + dilation[k] - 1, dilation[k])
            number = number * (binary("Min", stop, kernel[k]) - skipped)
        return te.div(total(*i), _cast(data.dtype, binary("Max", number, 1)))

    return compute(shape, mean, name="pool_avg", tag=ELEMWISE)


def _space(layout: str, letters: str) -> List[int]:
    if sorted(layout) != sorted("NC" + letters):
        raise ValueError(f"pool: unknown layout {layout!r}")
    return [layout.index(c) for c in letters]


def pool1d(
    data: Any,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Any:
    """Maxima or means of windows along one dimension. ``padding``: before and after."""
    window, step, spread = (_numbers(v, 1) for v in (kernel, stride, dilation))
    space = _space(layout, "W")
    return _pool(data, window, step, spread, _numbers(padding, 2), pool_type, ceil_mode, space, count_include_pad)


def pool2d(
    data: Any,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Any:
    """Maxima or means of windows. ``padding``: top, left, bottom, right."""
    window, step, spread = (_numbers(v, 2) for v in (kernel, stride, dilation))
    pads, space = _pads(padding, window, spread, step), _space(layout, "HW")
    return _pool(data, window, step, spread, pads, pool_type, ceil_mode, space, count_include_pad)


def pool3d(
    data: Any,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Any:
    """Maxima or means of windows of volumes. ``padding``: front, top, left, back, bottom, right."""
    window, step, spread = (_numbers(v, 3) for v in (kernel, stride, dilation))
    pads, space = _pads(padding, window, spread, step), _space(layout, "DHW")
    return _pool(data, window, step, spread, pads, pool_type, ceil_mode, space, count_include_pad)


def global_pool(data: Any, pool_type: str, layout: str = "NCHW") -> Any:
    """The maximum or mean of each channel."""
    return adaptive_pool(data, (1, 1), pool_type, layout)


def adaptive_pool(data: Any, output_size: Any, pool_type: str, layout: str = "NCHW") -> Any:
    """Maxima or means of windows that make an output of the given size."""
    if pool_type not in ("max", "avg"):
        raise ValueError(f"pool: max or avg, not {pool_type!r}")
    space, sizes = _space(layout, "HW"), _numbers(output_size, 2)
    shape = list(data.shape)
    for d, size in zip(space, sizes):
        shape[d] = expr(size)

    def window(i: Sequence[Any]) -> Tuple[List[Any], List[Any], Any]:
        own, axes, number = list(i), [], const(1)
        for k, (d, size) in enumerate(zip(space, sizes)):
            low = te.floordiv(i[d] * data.shape[d], size)
            extent = te.ceildiv((i[d] + 1) * data.shape[d], size) - low
            axes.append(reduce_axis((0, extent), name=f"rv{k}"))
            own[d], number = low + axes[-1], number * extent
        return own, axes, number

    def best(*i: Any) -> Any:
        own, axes, _ = window(i)
        return (te.max if pool_type == "max" else te.sum)(data(*own), axis=axes)

    made = compute(shape, best, name=f"adaptive_pool_{pool_type}", tag=f"adaptive_pool_{pool_type}")
    if pool_type == "max":
        return made
    return compute(
        shape, lambda *i: te.div(made(*i), _cast(data.dtype, window(i)[2])), name="adaptive_pool_avg", tag=ELEMWISE
    )


# --- activations, normalisation ---------------------------------------------------------------------------------------


def prelu(x: Any, slope: Any, axis: int = 1) -> Any:
    """Negative numbers times a slope per channel."""
    at = _axis(axis, x.ndim)
    if len(slope.shape) != 1:
        raise ValueError("prelu: one slope per channel")
    return compute(
        x.shape,
        lambda *i: _select(x(*i) > const(0, x.dtype), x(*i), x(*i) * slope(i[at])),
        name="T_prelu",
        tag=BROADCAST,
    )


def bias_add(data: Any, bias: Any, axis: int = 1) -> Any:
    """A number per channel added."""
    at = _axis(axis, data.ndim)
    return compute(data.shape, lambda *i: data(*i) + bias(i[at]), name="T_bias_add", tag=BROADCAST)


def _moments(x: Any, axes: Sequence[int]) -> Tuple[Any, Any, Any]:
    """The mean and the population variance over axes, kept with extent 1, and the number of elements."""
    number: Any = const(1)
    for d in axes:
        number = number * x.shape[d]
    count = _cast("float32", number)
    wide = compute(x.shape, lambda *i: _cast("float32", x(*i)), name="T_wide", tag=ELEMWISE)
    total = sum(wide, axes, keepdims=True)
    mean = compute(total.shape, lambda *i: total(*i) / count, name="T_mean", tag=ELEMWISE)

    def reduced(i: Sequence[Any]) -> List[Any]:
        return [0 if d in axes else v for d, v in enumerate(i)]

    def square(*i: Any) -> Any:
        difference = wide(*i) - mean(*reduced(i))
        return difference * difference

    squares = sum(compute(x.shape, square, name="T_square", tag=ELEMWISE), axes, keepdims=True)
    variance = compute(squares.shape, lambda *i: squares(*i) / count, name="T_variance", tag=ELEMWISE)
    return mean, variance, reduced


def _normalised(x: Any, axes: Sequence[int], epsilon: float, scale: Any, name: str) -> Any:
    mean, variance, reduced = _moments(x, axes)

    def element(*i: Any) -> Any:
        own = reduced(i)
        value = (_cast("float32", x(*i)) - mean(*own)) * te.rsqrt(variance(*own) + const(epsilon, "float32"))
        return _cast(x.dtype, scale(i, value))

    return compute(x.shape, element, name=name, tag=INJECTIVE)


def _affine(gamma: Any, beta: Any, place: Any) -> Any:
    def scale(i: Sequence[Any], value: Any) -> Any:
        if gamma is not None:
            value = value * _cast("float32", gamma(*place(i)))
        return value if beta is None else value + _cast("float32", beta(*place(i)))

    return scale


def layer_norm(data: Any, gamma: Any, beta: Any, axis: Any, epsilon: float = 1e-5) -> Any:
    """Mean 0 and variance 1 over axes, then times ``gamma`` plus ``beta``, which have the shape of these axes."""
    axes = sorted(_axis(a, data.ndim) for a in (axis if isinstance(axis, (list, tuple)) else [axis]))
    scale = _affine(gamma, beta, lambda i: [i[d] for d in axes])
    return _normalised(data, axes, epsilon, scale, "T_layer_norm")


def instance_norm(data: Any, gamma: Any, beta: Any, channel_axis: int, axis: Any, epsilon: float = 1e-5) -> Any:
    """Mean 0 and variance 1 of each channel of each sample."""
    axes = sorted(_axis(a, data.ndim) for a in axis)
    channel = _axis(channel_axis, data.ndim)
    return _normalised(data, axes, epsilon, _affine(gamma, beta, lambda i: [i[channel]]), "T_instance_norm")


def group_norm(
    data: Any, gamma: Any, beta: Any, num_groups: int, channel_axis: int, axes: Any, epsilon: float = 1e-5
) -> Any:
    """Mean 0 and variance 1 over groups of channels and ``axes``."""
    channel = _axis(channel_axis, data.ndim)
    per = te.floordiv(data.shape[channel], num_groups)
    shape = [*data.shape[:channel], expr(num_groups), per, *data.shape[channel + 1 :]]
    parts = reshape(data, shape)
    inner = [channel + 1] + [a + 1 if a > channel else a for a in (_axis(x, data.ndim) for x in axes) if a != channel]
    scale = _affine(gamma, beta, lambda i: [i[channel] * per + i[channel + 1]])
    return reshape(_normalised(parts, sorted(inner), epsilon, scale, "T_group_norm"), data.shape)


def rms_norm(data: Any, weight: Any, axis: Any, epsilon: float = 1e-5) -> Any:
    """Divided by the root of the mean square over axes, then times ``weight``."""
    axes = sorted(_axis(a, data.ndim) for a in (axis if isinstance(axis, (list, tuple)) else [axis]))
    number: Any = const(1)
    for d in axes:
        number = number * data.shape[d]

    def square(*i: Any) -> Any:
        return _cast("float32", data(*i)) * _cast("float32", data(*i))

    squares = sum(compute(data.shape, square, name="T_square", tag=ELEMWISE), axes, keepdims=True)

    def element(*i: Any) -> Any:
        own = [0 if d in axes else v for d, v in enumerate(i)]
        root = te.rsqrt(squares(*own) / _cast("float32", number) + const(epsilon, "float32"))
        scaled = _cast("float32", data(*i)) * root * _cast("float32", weight(*[i[d] for d in axes]))
        return _cast(data.dtype, scaled)

    return compute(data.shape, element, name="T_rms_norm", tag=INJECTIVE)


def batch_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    moving_mean: Any,
    moving_var: Any,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    **_: Any,
) -> List[Any]:
    """By given means and variances per channel; the result, and the two as they are."""
    at = _axis(axis, data.ndim)

    def element(*i: Any) -> Any:
        c = i[at]
        value = (data(*i) - moving_mean(c)) / te.sqrt(moving_var(c) + const(epsilon, data.dtype))
        value = value * gamma(c) if scale else value
        return value + beta(c) if center else value

    made = compute(data.shape, element, name="T_batch_norm", tag=BROADCAST)
    same = [compute(t.shape, _reader(t), name=t.name + "_same", tag=ELEMWISE) for t in (moving_mean, moving_var)]
    return [made, *same]


def _reader(tensor: Any) -> Any:
    return lambda *i: tensor(*i)


def lrn(data: Any, size: int, axis: int = 1, alpha: float = 0.0001, beta: float = 0.75, bias: float = 2) -> Any:
    """Divided by a power of the mean square of neighbours along an axis."""
    at = _axis(axis, data.ndim)
    reach = size // 2
    before = [reach if d == at else 0 for d in range(data.ndim)]
    padded = pad(data, before)
    k = reduce_axis((0, size), name="rxs")

    def square(*i: Any) -> Any:
        value = padded(*i[:at], i[at] + k, *i[at + 1 :])
        return te.sum(value * value, axis=k)

    total = compute(data.shape, square, name="sqr_sum")
    factor, offset = const(alpha / size, data.dtype), const(bias, data.dtype)
    return compute(
        data.shape,
        lambda *i: data(*i) / te.power(offset + total(*i) * factor, const(beta, data.dtype)),
        name="T_lrn",
        tag=BROADCAST,
    )


def dilate(data: Any, strides: Sequence[Any], dilation_value: float = 0.0, name: str = "DilatedInput") -> Any:
    """Elements apart by ``strides``, with a value between them."""
    if len(strides) != data.ndim:
        raise ValueError(f"dilate: {len(strides)} strides for {data.ndim} dimensions")
    shape = [(e - 1) * s + 1 for e, s in zip(data.shape, strides)]

    def element(*i: Any) -> Any:
        there = [te.floormod(v, s).equal(0) for v, s in zip(i, strides) if not (isinstance(s, int) and s == 1)]
        value = data(*[te.floordiv(v, s) for v, s in zip(i, strides)])
        return te.if_then_else(all_of(*there), value, const(dilation_value, data.dtype)) if there else value

    return compute(shape, element, name=name, tag="injective,dilate")


def mirror_pad(data: Any, pad_before: Sequence[Any], pad_after: Any = None, mode: str = "SYMMETRIC") -> Any:
    """More elements before and behind, as in a mirror: with (``SYMMETRIC``) or without (``REFLECT``) the edge."""
    pad_after = pad_before if pad_after is None else pad_after
    if len(pad_before) != data.ndim or len(pad_after) != data.ndim:
        raise ValueError(f"mirror_pad: {len(pad_before)} and {len(pad_after)} amounts for {data.ndim} dimensions")
    if mode not in ("SYMMETRIC", "REFLECT"):
        raise ValueError(f"mirror_pad: unknown mode {mode!r}")
    edge = 1 if mode == "SYMMETRIC" else 0
    shape = [e + p + q for e, p, q in zip(data.shape, pad_before, pad_after)]

    def element(*i: Any) -> Any:
        place = []
        for v, extent, before in zip(i, data.shape, pad_before):
            at = v - before
            low = _select(at < 0, -at - edge, at)
            place.append(_select(low >= extent, extent * 2 - 2 + edge - low, low))
        return data(*place)

    return compute(shape, element, name="MirrorPadInput", tag="injective,pad")


def fast_softmax(x: Any, axis: int = -1) -> Any:
    """:func:`softmax`."""
    return softmax(x, axis)


def softmax(x: Any, axis: int = -1) -> Any:
    """Exponentials over their sum, with the maximum subtracted."""
    at = _axis(axis, x.ndim)
    largest = max(x, at, keepdims=True)
    shifted = compute(
        x.shape, lambda *i: te.exp(x(*i) - largest(*i[:at], 0, *i[at + 1 :])), name="T_softmax_exp", tag=ELEMWISE
    )
    total = sum(shifted, at, keepdims=True)
    return compute(
        x.shape, lambda *i: shifted(*i) / total(*i[:at], 0, *i[at + 1 :]), name="T_softmax_norm", tag="softmax_output"
    )


def log_softmax(x: Any, axis: int = -1) -> Any:
    """The logarithm of the softmax."""
    at = _axis(axis, x.ndim)
    largest = max(x, at, keepdims=True)
    shifted = compute(x.shape, lambda *i: x(*i) - largest(*i[:at], 0, *i[at + 1 :]), name="T_shifted", tag=ELEMWISE)
    total = sum(_unary("exp")(shifted), at, keepdims=True)
    return compute(
        x.shape,
        lambda *i: shifted(*i) - te.log(total(*i[:at], 0, *i[at + 1 :])),
        name="T_log_softmax",
        tag="log_softmax_output",
    )
