"""Questions about kernels as IR."""

from __future__ import annotations

from .tir import IRModule, PrimFuncInfo, prim_func_info


def extract_prim_func_info(module: IRModule) -> PrimFuncInfo:
    """What the parameters of the module's entry are to its caller: inputs, outputs, constants, descriptors, attributes.

    AssertionError for a descriptor parameter of a type that none has.
    """
    return prim_func_info(module)


def has_perf_record_tick(module: IRModule) -> bool:
    """Whether a function of the module records performance counters (``S.perf_tick_begin``, ``S.perf_tick_end``)."""
    return module._module.calls("perf_tick_begin") or module._module.calls("perf_tick_end")


__all__ = ["extract_prim_func_info", "has_perf_record_tick"]
