"""How results are written: each part (the items of a chunk) as a file or a few, the same bytes for the same results."""

from __future__ import annotations

import io
import json
import os
import urllib.parse
import zipfile
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Tuple

import numpy as np


class Row(NamedTuple):
    """The outputs of an item."""

    index: int
    name: str
    outputs: Dict[str, np.ndarray]


Files = List[Tuple[str, bytes]]  # names and contents


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
    return buffer.getvalue()


def _columns(rows: List[Row]) -> Dict[str, List[np.ndarray]]:
    columns: Dict[str, List[np.ndarray]] = {}
    for row in rows:
        if list(row.outputs) != list(rows[0].outputs):
            raise ValueError(f"outputs {list(row.outputs)} of '{row.name}', {list(rows[0].outputs)} of others")
        for name, value in row.outputs.items():
            columns.setdefault(name, []).append(np.asarray(value))
    return columns


def _arrays(rows: List[Row]) -> Dict[str, np.ndarray]:
    """An array with a row per item of outputs that have one shape. Of several shapes of one rank: ``NAME/values``,
    which has all elements one after the other, and ``NAME/shapes``; of several ranks or dtypes: ``NAME/ROW`` each.
    """
    arrays: Dict[str, np.ndarray] = {}
    for name, values in _columns(rows).items():
        if len({(value.shape, value.dtype) for value in values}) == 1:
            arrays[name] = np.stack(values)
        elif len({(value.ndim, value.dtype) for value in values}) == 1:
            arrays[f"{name}/values"] = np.concatenate([value.reshape(-1) for value in values])
            arrays[f"{name}/shapes"] = np.array([value.shape for value in values])
        else:
            arrays.update((f"{name}/{number}", value) for number, value in enumerate(values))
    return arrays


def _split(arrays: Dict[str, np.ndarray], names: List[str], indices: List[int]) -> Iterator[Row]:
    """The rows again."""
    ends = {key: np.cumsum(array.prod(axis=1)) for key, array in arrays.items() if key.endswith("/shapes")}
    for number, (name, index) in enumerate(zip(names, indices)):
        outputs = {}
        for key, array in arrays.items():
            base, _, part = key.rpartition("/")
            if part == "values" and f"{base}/shapes" in ends:
                shape, end = arrays[f"{base}/shapes"][number], ends[f"{base}/shapes"][number]
                outputs[base] = array[end - shape.prod() : end].reshape(shape)
            elif key in ends:
                continue
            elif base and part.isdigit():
                if int(part) == number:
                    outputs[base] = array
            else:
                outputs[key] = array[number]
        yield Row(index, name, outputs)


def _write_npz(stem: str, rows: List[Row]) -> Files:
    buffer = io.BytesIO()
    members = {"item.name": np.array([row.name for row in rows]), "item.index": np.array([row.index for row in rows])}
    members.update(_arrays(rows))
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in members.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), _npy(array))  # of 1980, as all times are the same
    return [(f"{stem}.npz", buffer.getvalue())]


def _read_npz(folder: str, stem: str) -> Iterator[Row]:
    with np.load(os.path.join(folder, f"{stem}.npz")) as archive:
        arrays = {name: archive[name] for name in archive.files}
    names, indices = arrays.pop("item.name").tolist(), arrays.pop("item.index").tolist()
    yield from _split(arrays, names, indices)


def _write_npy(stem: str, rows: List[Row]) -> Files:
    arrays = _arrays(rows)
    told = {"names": [r.name for r in rows], "indices": [r.index for r in rows], "arrays": list(arrays)}
    files = [(f"{stem}.{urllib.parse.quote(name, safe='')}.npy", _npy(array)) for name, array in arrays.items()]
    return [*files, (f"{stem}.json", (json.dumps(told) + "\n").encode())]


def _read_npy(folder: str, stem: str) -> Iterator[Row]:
    with open(os.path.join(folder, f"{stem}.json"), encoding="utf-8") as file:
        told = json.load(file)
    paths = {name: os.path.join(folder, f"{stem}.{urllib.parse.quote(name, safe='')}.npy") for name in told["arrays"]}
    yield from _split({name: np.load(path) for name, path in paths.items()}, told["names"], told["indices"])


def _plain(value: Any) -> Any:
    """A list as JSON has it: what is no number there is a text."""
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value


def _write_jsonl(stem: str, rows: List[Row]) -> Files:
    lines = []
    for row in rows:
        outputs = {}
        for name, value in row.outputs.items():
            array = np.asarray(value)
            is_finite = array.dtype.kind != "f" or bool(np.isfinite(array).all())
            outputs[name] = array.tolist() if is_finite else _plain(array.tolist())
        lines.append(json.dumps({"index": row.index, "name": row.name, "outputs": outputs}, allow_nan=False) + "\n")
    return [(f"{stem}.jsonl", "".join(lines).encode())]


def _read_jsonl(folder: str, stem: str) -> Iterator[Row]:
    with open(os.path.join(folder, f"{stem}.jsonl"), encoding="utf-8") as file:
        for line in file:
            told = json.loads(line)
            outputs = {name: np.array(value) for name, value in told["outputs"].items()}
            yield Row(told["index"], told["name"], outputs)


def _write_parquet(stem: str, rows: List[Row]) -> Files:
    import pyarrow
    import pyarrow.parquet

    columns: Dict[str, Any] = {
        "item.index": pyarrow.array([row.index for row in rows], pyarrow.int64()),
        "item.name": pyarrow.array([row.name for row in rows], pyarrow.string()),
    }
    for name, values in _columns(rows).items():
        if all(value.ndim == 0 for value in values):
            columns[name] = pyarrow.array(np.stack(values))
            continue
        offsets = np.cumsum([0, *(value.size for value in values)])
        flat = pyarrow.array(np.concatenate([value.reshape(-1) for value in values]))
        columns[name] = pyarrow.LargeListArray.from_arrays(pyarrow.array(offsets, pyarrow.int64()), flat)
        columns[f"{name}.shape"] = pyarrow.array(
            [list(value.shape) for value in values], pyarrow.list_(pyarrow.int32())
        )
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    return [(f"{stem}.parquet", buffer.getvalue())]


def _read_parquet(folder: str, stem: str) -> Iterator[Row]:
    from ._sources import Table

    for item in Table([os.path.join(folder, f"{stem}.parquet")], None, [], True).items(0):
        values = item.load()
        index, name = int(values.pop("item.index")), values.pop("item.name")
        yield Row(index, name, {key: np.asarray(value) for key, value in values.items()})


class Format(NamedTuple):
    """A format: what makes a part's files, and what reads them."""

    write: Callable[[str, List[Row]], Files]
    read: Callable[[str, str], Iterator[Row]]


FORMATS = {
    "npz": Format(_write_npz, _read_npz),
    "npy": Format(_write_npy, _read_npy),
    "jsonl": Format(_write_jsonl, _read_jsonl),
    "parquet": Format(_write_parquet, _read_parquet),
}
