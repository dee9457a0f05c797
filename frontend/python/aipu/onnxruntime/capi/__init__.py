"""Where scripts look for the exceptions: ``onnxruntime.capi.onnxruntime_pybind11_state``."""

from . import onnxruntime_pybind11_state

__all__ = ["onnxruntime_pybind11_state"]
