"""Questions about kernels as IR."""

from __future__ import annotations

from .tir import IRModule, PrimFuncInfo, prim_func_info


def extract_prim_func_info(module: IRModule) -> PrimFuncInfo:
    """What the parameters of the module's entry are to its caller: inputs, outputs, constants, descriptors, attributes.

    AssertionError for a descriptor parameter of a type that none has.
    """
    return prim_func_info(module)


__all__ = ["extract_prim_func_info"]
