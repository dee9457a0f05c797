"""aipu: kernels in the Compass DSL, and whole models, compiled and run from Python."""

from . import _native
from ._dtype import (
    DataType,
    double_elem_width,
    get_binary_op_result_type,
    get_range,
    half_elem_width,
    hw_native_vdtype,
    resolve_dtype_alias,
)
from ._info import CompassInfo
