"""Ray Data: an actor for ``map_batches``."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, Sequence, Union

import numpy as np
import ray
import ray.data

from .. import _converted, _model_source
from .._worker import NodeModel


def binary_of(model: Any, build: Optional[Dict[str, Any]] = None) -> bytes:
    """The bytes of the aipu.bin of a model: a path or bytes of one or of ONNX, which is converted, or a ModelProto."""
    source = _model_source.Source(model)
    if source.is_binary:
        return bytes(source.data)
    _, path = _converted.load_converted(source, build)
    if not path:
        raise OSError("the converted model is kept nowhere (see the warning); convert it by aipu.build")
    with open(path, "rb") as file:
        return file.read()


class Predictor:
    """A callable class for ``Dataset.map_batches(..., batch_format="numpy")``: adds the outputs as columns.

    ``model``: the path of an aipu.bin that all nodes see, whose file may be replaced by renaming another to it; or an
    object reference (``ray.put``) to its bytes, of which each node makes one file that its actors share.
    ``columns``: the column of each input, by default that of its name; ``keep``: the columns that stay, by default all
    that are no inputs. Columns of arrays of different shapes are run by shape. An actor has ``threads`` threads on
    cores of its own (``pin``).

    A run that fails is an error of the batch, with the text of :meth:`aipu.Session.run`: ValueError for columns that
    are missing or do not fit.
    """

    def __init__(
        self,
        model: Union[str, "ray.ObjectRef"],
        columns: Optional[Dict[str, str]] = None,
        keep: Optional[Sequence[str]] = None,
        threads: int = 1,
        pin: bool = True,
    ) -> None:
        source = ray.get(model) if isinstance(model, ray.ObjectRef) else model
        self.node_model = NodeModel(source, threads, pin)
        self._columns = columns or {}
        self._keep = keep

    def __call__(self, batch: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """The batch with the outputs of its rows."""
        specs = self.node_model.model.inputs
        used = {spec.name: self._columns.get(spec.name, spec.name) for spec in specs}
        missing = [column for column in used.values() if column not in batch]
        if missing:
            raise ValueError(f"the batch has no column {', '.join(missing)} (there are: {', '.join(batch)})")
        result = {
            name: column
            for name, column in batch.items()
            if (name in self._keep if self._keep is not None else name not in used.values())
        }
        count = len(next(iter(batch.values())))
        if all(batch[column].dtype != object for column in used.values()):
            outputs = self.node_model.run({name: np.ascontiguousarray(batch[column]) for name, column in used.items()})
            for name, array in outputs.items():
                if array.ndim == 0 or len(array) != count:
                    raise ValueError(f"output '{name}' has the shape {list(array.shape)} for {count} rows")
                result[name] = array
            return result
        feeds = [{name: np.asarray(batch[column][row])[None] for name, column in used.items()} for row in range(count)]
        rows = self.node_model.run_many(feeds)
        for row in rows:
            if isinstance(row, Exception):
                raise row
        for spec in self.node_model.model.outputs:
            values = [row[spec.name][0] for row in rows]  # type: ignore[index]
            if len({value.shape for value in values}) == 1:
                result[spec.name] = np.stack(values)
            else:
                column = np.empty(count, object)
                column[:] = values
                result[spec.name] = column
        return result


def map_batches(
    dataset: "ray.data.Dataset",
    model: Any,
    *,
    batch_size: int = 32,
    threads: int = 1,
    concurrency: Any = None,
    columns: Optional[Dict[str, str]] = None,
    keep: Optional[Sequence[str]] = None,
    pin: bool = True,
    distribute: bool = True,
    build: Optional[Dict[str, Any]] = None,
    predictor: type = Predictor,
    **options: Any,
) -> "ray.data.Dataset":
    """The data set with the outputs of a model as further columns; nothing runs before the data set is used.

    ``model``: a path or bytes of an aipu.bin or an ONNX model (converted here, with ``build`` as of
    :func:`aipu.build`), or a ModelProto. With ``distribute`` the aipu.bin goes through Ray's object store, once to a
    node; without, ``model`` is the path of an aipu.bin that every node sees, and a file that is renamed to it is used
    from the next batch on. ``concurrency``: actors, or (fewest, most), by default as many as the cluster has CPUs for;
    each takes ``threads`` of them. Other ``options`` go to Ray's ``map_batches``.

    Actors and nodes that die are Ray's to replace: what they had not finished runs again, rows appear once. Errors are
    those of :class:`Predictor`.
    """
    if distribute:
        source: Any = ray.put(binary_of(model, build))
    else:
        source = os.fspath(model)
        if not _model_source.is_binary_file(source):
            raise ValueError(f"'{source}' is no aipu.bin: convert it, or let it be distributed")
    if concurrency is None:
        concurrency = max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
    fewest, most = concurrency if isinstance(concurrency, tuple) else (concurrency, concurrency)
    arguments = {"model": source, "columns": columns, "keep": keep, "threads": threads, "pin": pin}
    return dataset.map_batches(
        predictor,
        fn_constructor_kwargs=arguments,
        batch_size=batch_size,
        batch_format="numpy",
        num_cpus=threads,
        compute=ray.data.ActorPoolStrategy(min_size=fewest, max_size=most),
        **options,
    )
