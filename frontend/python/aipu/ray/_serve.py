"""Ray Serve: a model behind HTTP, with batches of what comes in together."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any, Dict, List, Mapping, Optional, Union

import numpy as np
import ray

from .._worker import NodeModel
from ._data import binary_of

# Names of types in the Open Inference Protocol.
_DATATYPES = {
    "BOOL": "bool",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FP16": "float16",
    "FP32": "float32",
    "FP64": "float64",
}
_NAMES = {dtype: name for name, dtype in _DATATYPES.items()}


def feed_of(request: Any) -> Dict[str, np.ndarray]:
    """Arrays of the ``inputs`` of a request; ValueError with what is wrong with it."""
    if not isinstance(request, Mapping) or not isinstance(request.get("inputs"), list):
        raise ValueError("expected an object with a list 'inputs'")
    feed: Dict[str, np.ndarray] = {}
    for tensor in request["inputs"]:
        try:
            name, shape, datatype, data = (tensor[key] for key in ("name", "shape", "datatype", "data"))
        except (KeyError, TypeError):
            raise ValueError("an input is an object with 'name', 'shape', 'datatype' and 'data'") from None
        if datatype not in _DATATYPES:
            raise ValueError(f"input '{name}': datatype {datatype!r}; there are {', '.join(_DATATYPES)}")
        try:
            feed[str(name)] = np.array(data, dtype=_DATATYPES[datatype]).reshape([int(extent) for extent in shape])
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"input '{name}': {error}") from None
    return feed


def answer_of(outputs: Mapping[str, np.ndarray]) -> Dict[str, Any]:
    """The ``outputs`` of an answer."""
    return {
        "outputs": [
            {
                "name": name,
                "shape": list(array.shape),
                "datatype": _NAMES[array.dtype.name],
                "data": array.ravel().tolist(),
            }
            for name, array in outputs.items()
        ]
    }


class ModelServer:
    """What a replica is. Over HTTP it speaks the JSON form of the Open Inference Protocol (v2), whatever the path:

    POST ``{"inputs": [{"name": ..., "shape": [...], "datatype": "FP32", "data": [...]}]}`` gives
    ``{"outputs": [...]}`` of the same form; status 400 with ``{"error": ...}`` for what does not fit the model. GET
    describes the model. From Python, ``handle.predict.remote(feed)`` takes and gives arrays by name.

    Requests that come within ``batch_wait_timeout_s`` run together where the model has an open first axis. Limits,
    health, autoscaling and metrics are Ray Serve's; ``aipu_batch_requests`` is how many requests ran together.
    """

    def __init__(
        self,
        model: Union[str, "ray.ObjectRef"],
        max_batch_size: int,
        batch_wait_timeout_s: float,
        threads: int,
        pin: bool,
    ) -> None:
        from ray.util import metrics

        source = ray.get(model) if isinstance(model, ray.ObjectRef) else model
        self._model = NodeModel(source, threads, pin)
        # Runs are one after the other in a thread of their own: requests come in meanwhile.
        self._runner = concurrent.futures.ThreadPoolExecutor(1, "aipu_serve")
        self.predict_batch.set_max_batch_size(max_batch_size)
        self.predict_batch.set_batch_wait_timeout_s(batch_wait_timeout_s)
        self._sizes = metrics.Histogram(
            "aipu_batch_requests", "Requests that ran together.", boundaries=[1, 2, 4, 8, 16, 32, 64, 128]
        )

    async def predict_batch(self, feeds: List[Dict[str, np.ndarray]]) -> List[Any]:
        """Outputs, or the error, of each feed. Made a batching method by :func:`deployment`."""
        self._sizes.observe(len(feeds))
        loop = asyncio.get_running_loop()
        return list(await loop.run_in_executor(self._runner, self._model.run_many, feeds))

    async def predict(self, feed: Mapping[str, Any]) -> Dict[str, np.ndarray]:
        """The outputs by name; ValueError for what does not fit the model."""
        known = self._model.model._signature
        values = dict(zip(known.input_index, known.input_values(feed)))
        outcome = await self.predict_batch(values)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def __call__(self, request: Any) -> Any:
        """A request over HTTP."""
        from starlette.responses import JSONResponse

        if request.method == "GET":
            return JSONResponse(self.describe())
        try:
            return JSONResponse(answer_of(await self.predict(feed_of(await request.json()))))
        except (ValueError, TypeError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)

    def describe(self) -> Dict[str, Any]:
        """The model's name, target, inputs and outputs, and the cores that the replica has."""

        def tensors(specs: Any) -> List[Dict[str, Any]]:
            return [
                {
                    "name": s.name,
                    "datatype": _NAMES.get(s.dtype, s.dtype),
                    "shape": [e if e is not None else -1 for e in s.shape],
                }
                for s in specs
            ]

        model = self._model.model
        return {
            "name": model.name,
            "platform": f"aipu {model.target}",
            "inputs": tensors(model.inputs),
            "outputs": tensors(model.outputs),
            "cores": list(self._model.cores),
            "reloads": self._model.reloads,
        }

    def check_health(self) -> None:
        """Asked by Ray Serve: the model is loaded."""
        if not self._model.model.inputs:
            raise RuntimeError("the model has no inputs")


def deployment(
    model: Any,
    *,
    max_batch_size: int = 16,
    batch_wait_timeout_s: float = 0.005,
    threads: int = 1,
    pin: bool = True,
    distribute: bool = True,
    build: Optional[Dict[str, Any]] = None,
    **options: Any,
) -> Any:
    """An application for ``ray.serve.run``: replicas of :class:`ModelServer`.

    ``model``, ``distribute`` and ``build`` as of :func:`map_batches`; Ray has to be initialised. ``options`` go to
    ``serve.deployment``: ``num_replicas``, ``autoscaling_config``, ``max_ongoing_requests``, ... A replica takes
    ``threads`` CPUs unless ``ray_actor_options`` says something else.
    """
    from ray import serve

    source: Any = ray.put(binary_of(model, build)) if distribute else model
    options.setdefault("ray_actor_options", {"num_cpus": threads})
    options.setdefault("max_ongoing_requests", 4 * max_batch_size)
    body = dict(vars(ModelServer))
    body["predict_batch"] = serve.batch(ModelServer.predict_batch)
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    replica = type("ModelServer", (), body)
    application = serve.deployment(**options)(replica)
    return application.bind(source, max_batch_size, batch_wait_timeout_s, threads, pin)
