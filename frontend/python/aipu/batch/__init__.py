"""A data set through a model: batched, on several sessions, resumable, with nothing lost and nothing twice::

    report = aipu.batch.run("model.onnx", "images/", "results/", preprocess=decode)
    for row in aipu.batch.results("results/"):
        print(row.name, row.outputs["output"])

The same as a program: ``python -m aipu.batch model.onnx images/ -o results/ --preprocess my_module:decode``.
"""

from ._formats import Row
from ._run import Broken, DiskFull, Report, TooManyBroken, results, run

__all__ = ["Broken", "DiskFull", "Report", "Row", "TooManyBroken", "results", "run"]
