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
from ._expr import (
    FUNCTIONS,
    Range,
    SizeVar,
    Var,
    ceildiv,
    const,
    div,
    floordiv,
    floormod,
    if_then_else,
    indexdiv,
    indexmod,
    max_value,
    min_value,
    size_var,
    truncdiv,
    truncmod,
    var,
)
from ._schedule import Schedule, Stage, create_schedule
from ._tensor import (
    ComputeOp,
    Operation,
    PlaceholderOp,
    Tensor,
    TensorSlice,
    comm_reducer,
    compute,
    max,
    min,
    placeholder,
    reduce_axis,
    sum,
    tag_scope,
    thread_axis,
)

globals().update(FUNCTIONS)
schedule.InferBound = schedule.infer_bound


def _missing(name: str):
    from .._errors import TVMError

    def function(*_, **__):
        raise TVMError(f"te.{name} is not supported yet")

    function.__doc__ = "Not supported yet: TVMError."
    return function


for _name in "scan extern decl_tensor_intrin gradient create_prim_func extern_primfunc".split():
    globals()[_name] = _missing(_name)

__all__ = [
    "ComputeOp",
    "Operation",
    "PlaceholderOp",
    "Range",
    "Schedule",
    "SizeVar",
    "Stage",
    "Tensor",
    "TensorSlice",
    "Var",
    "ceildiv",
    "comm_reducer",
    "compute",
    "const",
    "create_schedule",
    "div",
    "floordiv",
    "floormod",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "max",
    "max_value",
    "min",
    "min_value",
    "placeholder",
    "reduce_axis",
    "schedule",
    "size_var",
    "sum",
    "tag_scope",
    "thread_axis",
    "truncdiv",
    "truncmod",
    "var",
    *FUNCTIONS,
]
