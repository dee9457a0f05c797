"""Helpers for code that generates kernels for several types."""

from ._dtype import double_elem_width, get_binary_op_result_type, half_elem_width, hw_native_vdtype, resolve_dtype_alias

__all__ = [
    "double_elem_width",
    "get_binary_op_result_type",
    "half_elem_width",
    "hw_native_vdtype",
    "resolve_dtype_alias",
]
