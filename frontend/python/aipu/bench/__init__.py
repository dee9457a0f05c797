"""How fast a model is, alone and beside other runtimes in alternating turns::

    result = aipu.bench.compare("model.onnx", ["onnxruntime"], shapes={"input": (1, 3, 224, 224)}, threads=2)
    print(result.ratios[0].ratio, result.ratios[0].low, result.ratios[0].high)

The same as a program: ``python -m aipu.bench model.onnx --against onnxruntime,openvino --shape input=1x3x224x224``.
"""

from ._compare import Comparison, Ratio, SideResult, compare
from ._inputs import make_inputs
from ._sides import SIDES, Side
from ._turns import Spread, bootstrap, take_turns

__all__ = [
    "SIDES",
    "Comparison",
    "Ratio",
    "Side",
    "SideResult",
    "Spread",
    "bootstrap",
    "compare",
    "make_inputs",
    "take_turns",
]
