"""How fast a model is, alone and beside other runtimes in alternating turns::

    result = aipu.bench.compare("model.onnx", ["onnxruntime"], shapes={"input": (1, 3, 224, 224)}, threads=2)
    print(result.ratios[0].ratio, result.ratios[0].low, result.ratios[0].high)

    result = aipu.bench.benchmark("model.onnx", "offline", batch=8, sessions=2, shapes={"input": (8, 3, 224, 224)})
    print(result.figure, result.unit)  # the figure of the scenario with its 95 % interval

The same as a program: ``python -m aipu.bench model.onnx --scenario offline --batch 8 --sessions 2``, or with
``--against onnxruntime,openvino``.
"""

from ._accuracy import Accuracy, accuracy
from ._benchmark import Benchmark, benchmark
from ._compare import Comparison, Ratio, SideResult, compare
from ._inputs import make_inputs
from ._scenario import SCENARIOS, Setting
from ._sides import SIDES, Side
from ._turns import Spread, bootstrap, take_turns

__all__ = [
    "SCENARIOS",
    "SIDES",
    "Accuracy",
    "Benchmark",
    "Comparison",
    "Ratio",
    "Setting",
    "Side",
    "SideResult",
    "Spread",
    "accuracy",
    "benchmark",
    "bootstrap",
    "compare",
    "make_inputs",
    "take_turns",
]
