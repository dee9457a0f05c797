"""What ONNX Runtime computes, and how near another result is."""

import numpy as np
import onnxruntime
from onnx import helper
from values import F16, F32, F64, TEXT

TOLERANCES = {F16: 2e-2, F32: 3e-4, F64: 1e-6}  # of the greatest element


def session_options():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def reference(model, feed):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), session_options(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feed)


def info(name, array, shape=None):
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape if shape is None else shape)


def difference(found, expected, coarse=False):
    """Empty if they are the same but for rounding, with ``coarse`` that of 16 bits."""
    if isinstance(expected, (list, dict)):
        return difference_of_parts(found, expected)
    if expected is None or not hasattr(expected, "dtype"):
        return "" if found == expected else f"{found} for {expected}"
    if found is None or found.dtype != expected.dtype or found.shape != expected.shape:
        kind = "nothing" if found is None else f"{found.dtype}{list(found.shape)}"
        return f"{kind} for {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind != "f":
        wrong = np.asarray(found != expected)
    else:
        a, b = found.astype(np.float64), expected.astype(np.float64)
        greatest = max(1.0, float(np.max(np.abs(b[np.isfinite(b)]), initial=0)))
        with np.errstate(invalid="ignore"):
            near = np.abs(a - b) <= TOLERANCES[F16 if coarse else expected.dtype] * greatest
        wrong = ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))
    if not wrong.any():
        return ""
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size}; at {list(place)} {found[place]} for {expected[place]}"


def difference_of_parts(found, expected):
    """Of sequences and maps."""
    if type(found) is not type(expected) or len(found) != len(expected):
        return f"{type(found).__name__} for {type(expected).__name__} of {len(expected)}"
    for key in expected if isinstance(expected, dict) else range(len(expected)):
        if isinstance(expected, dict) and key not in found:
            return f"no key {key}"
        a, b = found[key], expected[key]
        if isinstance(b, float):
            a, b = np.float32(a), np.float32(b)
        text = difference(a, b)
        if text:
            return f"[{key}]: {text}"
    return ""


def is_comparable(value):
    """Whether every part is a tensor, a number or a text."""
    if isinstance(value, (list, dict)):
        parts = value.values() if isinstance(value, dict) else value
        return all(is_comparable(part) for part in parts)
    return value is None or isinstance(value, (str, int, float)) or value.dtype == TEXT or value.dtype.kind in "fiub"
