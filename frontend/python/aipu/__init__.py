"""aipu: kernels in the Compass DSL, and whole models, compiled and run from Python.

Kernels::

    from aipu import script as S
    ex = aipu.tir.BuildManager(target="X2_1204").build(kernel)  # a function decorated with @S.prim_func
    ex(a, out)  # on the model of the target
    kernel(a, out)  # the same function as Python

Models::

    aipu.build("model.onnx", "model.aipu.bin")
    outputs = aipu.load("model.aipu.bin").run({"input": image})
"""

from . import _native, _registry
from ._dtype import (
    DataType,
    double_elem_width,
    get_binary_op_result_type,
    get_range,
    half_elem_width,
    hw_native_vdtype,
    resolve_dtype_alias,
)
from ._errors import CompassCodeGenCError, CompassCompileCError, DiagnosticError, TVMError
from ._info import CompassInfo
from ._settings import setup_logger as _setup_logger

__version__ = "0.1.0"

_setup_logger()

from . import analysis, arith, model, nd, onnxruntime, op, script, target, te, testing, tir, topi, utils  # noqa: E402
from ._registry import PackedFunc, convert, get_global_func  # noqa: E402
from ._rpc import get_rpc_session  # noqa: E402
from .model import Entry, Limits, Model, Session, enable_crash_reports, load  # noqa: E402
from .nd import cpu, cuda, device  # noqa: E402
from .onnxruntime import InferenceSession  # noqa: E402
from .quantization import quantize  # noqa: E402
from .te._module import build, lower  # noqa: E402
from .tir import BuildManager, Executor, IRModule  # noqa: E402

from . import driver, error, ir, runtime, schedule, transform  # noqa: E402  isort: skip
from ._tuner import Tuned, autotune, tuned_schedule  # noqa: E402  isort: skip

list_global_func_names = _registry.list_global_func_names
register_func, remove_global_func = _registry.register_func, _registry.remove_global_func

__all__ = [
    "BuildManager",
    "CompassCodeGenCError",
    "CompassCompileCError",
    "CompassInfo",
    "DataType",
    "DiagnosticError",
    "Executor",
    "IRModule",
    "InferenceSession",
    "Entry",
    "Limits",
    "Model",
    "PackedFunc",
    "Session",
    "TVMError",
    "Tuned",
    "analysis",
    "arith",
    "autotune",
    "build",
    "convert",
    "cpu",
    "cuda",
    "device",
    "double_elem_width",
    "driver",
    "enable_crash_reports",
    "error",
    "get_binary_op_result_type",
    "get_global_func",
    "get_range",
    "get_rpc_session",
    "half_elem_width",
    "ir",
    "hw_native_vdtype",
    "list_global_func_names",
    "load",
    "lower",
    "model",
    "nd",
    "onnxruntime",
    "op",
    "quantize",
    "register_func",
    "remove_global_func",
    "resolve_dtype_alias",
    "runtime",
    "schedule",
    "script",
    "target",
    "te",
    "testing",
    "tir",
    "topi",
    "transform",
    "tuned_schedule",
    "utils",
]
