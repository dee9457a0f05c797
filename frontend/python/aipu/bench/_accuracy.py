"""Accuracy mode: the outputs of a data set are written, and compared with others."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Mapping, Optional

import numpy as np

from .. import _converted
from ..batch import results, run
from ._data import Image, data_of
from ._difference import relative_error


@dataclasses.dataclass
class Accuracy:
    """What came out: ``rows`` results in ``folder``; ``compared`` of them with others, the largest error of which (over
    the largest magnitude of an output) is that of ``worst``; ``differing``: names of those above the tolerance.
    """

    folder: str
    rows: int
    broken: int
    compared: int = 0
    error: float = 0.0
    worst: str = ""
    differing: List[str] = dataclasses.field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether all that was compared is within the tolerance, and nothing is broken."""
        return not self.differing and not self.broken


def accuracy(
    model: Any,
    data: str,
    folder: str,
    *,
    expect: Optional[str] = None,
    tolerance: float = 2e-4,
    image: Optional[Image] = None,
    raw: bool = False,
    batch: Optional[int] = None,
    sessions: int = 1,
    threads: int = 1,
    build: Optional[Mapping[str, Any]] = None,
) -> Accuracy:
    """Runs a data set through a model by :mod:`aipu.batch` (results go to ``folder``) and compares the outputs with
    those of ``expect``, a folder with results of another run, or of ONNX's test data where ``data`` is such.

    ValueError where ``expect`` has no result for a row, or another number of them.
    """
    loaded = _converted.load_model(model, build)
    found = data_of(data, loaded.inputs, loaded.outputs, None, image, raw)
    report = run(
        model,
        found.source,
        folder,
        preprocess=found.preprocess,
        batch=batch,
        sessions=sessions,
        threads=threads,
        build=build,
        restart=True,
    )
    told = Accuracy(folder, report.rows, report.broken)
    wanted: Dict[int, Mapping[str, np.ndarray]] = dict(enumerate(found.expected))
    if expect is not None:
        wanted = {row.index: row.outputs for row in results(expect)}
        if len(wanted) != report.rows:
            raise ValueError(f"'{expect}' has {len(wanted)} results, '{folder}' {report.rows}: not of the same data")
    for row in results(folder) if wanted else ():
        if row.index not in wanted:
            raise ValueError(f"'{expect or data}' has no outputs of {row.name}")
        error = relative_error(row.outputs, wanted[row.index])
        told.compared += 1
        if error > told.error or not told.worst:
            told.error, told.worst = error, row.name
        if not error <= tolerance:
            told.differing.append(row.name)
    return told
