"""Tensor expressions: say what is computed, take over the schedule only where you want.

::

    n = te.var("n")
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    add = aipu.build(s, [A, B, C], "host")
    add(a, b, c)  # NumPy arrays
"""

from . import _schedule as schedule
from . import _tensor as tensor
from ._buffer import TensorIntrin, decl_tensor_intrin, extern
from ._expr import Range, SizeVar, Var, const, size_var, var
from ._functions import (
    FUNCTIONS,
    all,
    any,
    ceildiv,
    div,
    floordiv,
    floormod,
    if_then_else,
    indexdiv,
    indexmod,
    likely,
    max_value,
    min_value,
    truncdiv,
    truncmod,
)
from ._layout import AXIS_SEPARATOR
from ._schedule import Schedule, Stage, create_schedule
from ._tensor import (
    ComputeOp,
    ExternOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    Tensor,
    TensorComputeOp,
    TensorSlice,
    comm_reducer,
    compute,
    max,
    min,
    placeholder,
    reduce_axis,
    scan,
    sum,
    tag_scope,
    thread_axis,
)

globals().update(FUNCTIONS)
for _name, _function in {
    "AutoInlineBroadcast": schedule.auto_inline_broadcast,
    "AutoInlineElemWise": schedule.auto_inline_elemwise,
    "AutoInlineInjective": schedule.auto_inline_injective,
    "CreateAttachPath": schedule.attach_path,
    "CreateReadGraph": schedule.read_graph,
    "InferBound": schedule.infer_bound,
    "PostDFSOrder": schedule.post_dfs_order,
    "ScanFixPointAnalysis": schedule.scan_fix_point_analysis,
    "ScanGetBody": schedule.scan_get_body,
    "ScheduleOps": schedule.schedule_ops,
}.items():
    setattr(schedule, _name, _function)


def _missing(name: str):
    from .._errors import TVMError

    def function(*_, **__):
        raise TVMError(f"te.{name} is not supported yet")

    function.__doc__ = "Not supported yet: TVMError."
    return function


def create_prim_func(ops, index_dtype_override=None):
    """A function without a schedule: one nest of loops per tensor. ``ops`` are the parameters, inputs and outputs."""
    from ._module import create_prim_func as make

    return make(ops, index_dtype_override)


for _name in "gradient extern_primfunc".split():
    globals()[_name] = _missing(_name)

__all__ = [
    "AXIS_SEPARATOR",
    "ComputeOp",
    "ExternOp",
    "Operation",
    "PlaceholderOp",
    "Range",
    "ScanOp",
    "Schedule",
    "SizeVar",
    "Stage",
    "Tensor",
    "TensorComputeOp",
    "TensorIntrin",
    "TensorSlice",
    "Var",
    "all",
    "any",
    "ceildiv",
    "comm_reducer",
    "compute",
    "const",
    "create_prim_func",
    "create_schedule",
    "decl_tensor_intrin",
    "div",
    "extern",
    "floordiv",
    "floormod",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "likely",
    "max",
    "max_value",
    "min",
    "min_value",
    "placeholder",
    "reduce_axis",
    "scan",
    "schedule",
    "size_var",
    "sum",
    "tag_scope",
    "tensor",
    "thread_axis",
    "truncdiv",
    "truncmod",
    "var",
    *FUNCTIONS,
]
