"""A model on many machines, by Ray: over data sets (Ray Data), and as a service (Ray Serve)::

    rows = ray.data.read_parquet("images/")
    aipu.ray.map_batches(rows, "model.onnx", batch_size=32, concurrency=4).write_parquet("results/")

    ray.serve.run(aipu.ray.deployment("model.onnx", max_batch_size=16))

Needs the package ray: ``pip install 'aipu[ray]'``.
"""

try:
    import ray as _ray
except ImportError as _error:
    raise ImportError("aipu.ray needs the package ray: pip install 'aipu[ray]'") from _error

from .._worker import NodeModel
from ._data import Predictor, map_batches
from ._serve import ModelServer, deployment

__all__ = ["ModelServer", "NodeModel", "Predictor", "deployment", "map_batches"]
