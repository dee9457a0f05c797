"""Post-training quantisation: an ONNX model in float32, and data, to one with 8-bit integers in the QDQ form.

``python -m aipu.quantization MODEL DATA -o MODEL_INT8`` is the program; :func:`aipu.quantize` the function.
"""

from ._quantize import LayerReport, Report, quantize

__all__ = ["LayerReport", "Report", "quantize"]
