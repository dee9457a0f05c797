"""Folders of ONNX's test data: ``test_data_set_0/input_0.pb``, a TensorProto in each file."""

from __future__ import annotations

import os
import re
from typing import Iterator, List, Sequence, Tuple

import numpy as np

from ._arrays import TensorSpec
from ._onnx_graph import tensor_array


def test_sets(folder: str) -> List[str]:
    """The folders with ``input_0.pb``: the folder itself, or those in it, number 2 before number 10."""
    inside = [os.path.join(folder, name) for name in os.listdir(folder)]
    inside.sort(key=lambda path: ([int(part) for part in re.findall(r"\d+$", path)], path))
    return [path for path in (folder, *inside) if os.path.exists(os.path.join(path, "input_0.pb"))]


def tensor_of(path: str) -> Tuple[str, np.ndarray]:
    """Name and array of a file; ValueError."""
    with open(path, "rb") as file:
        try:
            return tensor_array(file.read(), stored=True)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def tensors(folder: str, kind: str, specs: Sequence[TensorSpec]) -> Iterator[Tuple[TensorSpec, str, np.ndarray]]:
    """``input_0.pb`` (or ``output_0.pb``), ... that are there, each with the input in its place and its own name."""
    for place, spec in enumerate(specs):
        path = os.path.join(folder, f"{kind}_{place}.pb")
        if os.path.exists(path):
            yield (spec, *tensor_of(path))
