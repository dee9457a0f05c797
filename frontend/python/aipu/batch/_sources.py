"""Where inputs come from: folders, lists, arrays, tables, iterables; one item after the other, from any place on.

A source says how many items there are if it knows, what it is (so that a run is not resumed with other inputs), and
gives items whose values are loaded later, by the threads or processes that preprocess.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import zipfile
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

_MARKED_BYTES = 1 << 20


def _mark(path: str) -> str:
    """Tells a data file from another without reading all of it: its size, its beginning, and its end, which in archives
    and Parquet files has the check sums or statistics of what is in them.
    """
    found = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        found.update(b"%d\0" % size + file.read(_MARKED_BYTES))
        file.seek(max(0, size - _MARKED_BYTES))
        found.update(file.read(_MARKED_BYTES))
    return found.hexdigest()


class Item(NamedTuple):
    """An input: its place, what it is called, and what loads it (an error of which makes it a broken input)."""

    index: int
    name: str
    load: Callable[[], Any]


class Source:
    """``count`` is None where it is not known before the end."""

    count: Optional[int] = None
    is_table = False  # values are rows of a table: numbers take the dtypes of the model's inputs

    def identity(self) -> Dict[str, Any]:
        """What is written down of it, and compared when a run is resumed."""
        raise NotImplementedError

    def items(self, start: int) -> Iterator[Item]:
        """The items from a place on."""
        raise NotImplementedError


def load_file(path: str, raw: bool) -> Any:
    """The array of an .npy, the arrays of an .npz by name; any other file, and with ``raw`` each, as its path."""
    if raw:
        return path
    if path.endswith(".npy"):
        return np.load(path)
    if path.endswith(".npz"):
        with np.load(path) as archive:
            return {name: archive[name] for name in archive.files}
    raise ValueError("neither .npy nor .npz: preprocess has to turn the path into arrays")


def _given(value: Any) -> Any:
    return value


class Files(Source):
    """Files by path; ``raw`` where preprocess takes the paths."""

    def __init__(self, names: List[str], folder: str, raw: bool, where: str) -> None:
        self.count = len(names)
        self._names, self._folder, self._raw, self._where = names, folder, raw, where

    def identity(self) -> Dict[str, Any]:
        found = hashlib.blake2b(digest_size=16)
        for name in self._names:
            found.update(name.encode("utf-8", "surrogateescape") + b"\0")
        return {"kind": self._where, "items": self.count, "names": found.hexdigest()}

    def items(self, start: int) -> Iterator[Item]:
        for index in range(start, len(self._names)):
            path = os.path.join(self._folder, self._names[index])
            yield Item(index, self._names[index], functools.partial(load_file, path, self._raw))


def _folder_files(folder: str) -> List[str]:
    found: List[str] = []
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = os.path.relpath(base, folder)
        found += [os.path.normpath(os.path.join(inside, name)) for name in files if not name.startswith(".")]
    return sorted(found)


class Archive(Source):
    """An .npz (or .npy) whose arrays have a row per item along axis 0; read as a stream, row by row."""

    def __init__(self, path: str, inputs: Sequence[str]) -> None:
        self._path = path
        if path.endswith(".npy"):
            if len(inputs) != 1:
                raise ValueError(f"{path}: one array, but the model takes {', '.join(inputs)}: give an .npz")
            self._members = {inputs[0]: ""}
        else:
            with zipfile.ZipFile(path) as archive:
                self._members = {name[: -len(".npy")]: name for name in archive.namelist() if name.endswith(".npy")}
        counts = {}
        for name in self._members:
            with self._open(name) as (_, shape, _):
                if not shape:
                    raise ValueError(f"{path}: '{name}' has no axis of items")
                counts[name] = shape[0]
        if not counts or len(set(counts.values())) != 1:
            raise ValueError(f"{path}: expected arrays with as many rows each, found {counts or 'none'}")
        self.count = next(iter(counts.values()))

    def _open(self, name: str) -> "_Member":
        return _Member(self._path, self._members[name])

    def identity(self) -> Dict[str, Any]:
        return {"kind": "array", "items": self.count, "content": _mark(self._path)}

    def items(self, start: int) -> Iterator[Item]:
        members = {name: self._open(name) for name in self._members}
        try:
            readers = {name: member.__enter__() for name, member in members.items()}
            for file, shape, dtype in readers.values():
                file.seek(start * int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize, os.SEEK_CUR)
            for index in range(start, self.count or 0):
                row = {name: self._row(name, index, *reader) for name, reader in readers.items()}
                yield Item(index, str(index), functools.partial(_given, row))
        finally:
            for member in members.values():
                member.__exit__()

    def _row(self, name: str, index: int, file: Any, shape: Tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        size = int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize
        data = file.read(size)
        if len(data) != size:
            raise OSError(f"{self._path}: '{name}' ends within row {index} of {shape[0]}")
        return np.frombuffer(data, dtype).reshape(shape[1:])


class _Member:
    """An .npy file, or one within an archive, opened behind its header."""

    def __init__(self, path: str, member: str) -> None:
        self._archive = zipfile.ZipFile(path) if member else None
        self._file: Any = self._archive.open(member) if self._archive else open(path, "rb")
        self._where = f"{path}: {member}" if member else path

    def __enter__(self) -> Tuple[Any, Tuple[int, ...], np.dtype]:
        version = np.lib.format.read_magic(self._file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(self._file)
        if dtype.hasobject or (fortran and len(shape) > 1):
            self.__exit__()
            raise ValueError(f"{self._where}: an array of numbers in C order is expected")
        return self._file, shape, dtype

    def __exit__(self, *_: Any) -> None:
        self._file.close()
        if self._archive is not None:
            self._archive.close()


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("Parquet and Arrow tables need the package pyarrow: pip install 'aipu[table]'") from error
    return pyarrow


class Table(Source):
    """Rows of Parquet or Arrow files, or of a ``pyarrow.Table``: columns by the names of the model's inputs."""

    is_table = True

    def __init__(self, files: Sequence[str], table: Any, inputs: Sequence[str], raw: bool) -> None:
        _pyarrow()
        self._files, self._table = list(files), table
        self._rows = [self._count(path) for path in self._files] if table is None else [table.num_rows]
        self.count = sum(self._rows)
        columns = self._columns()
        missing = [name for name in inputs if name not in columns]
        if missing and not raw:
            raise ValueError(f"the table has no column {', '.join(missing)} (there are: {', '.join(columns)})")
        self._wanted = None if raw else [c for c in columns if c in inputs or c.rpartition(".")[0] in inputs]

    @staticmethod
    def _is_parquet(path: str) -> bool:
        return path.endswith((".parquet", ".pq"))

    def _ipc(self, path: str) -> Any:
        pyarrow = _pyarrow()
        return pyarrow.ipc.open_file(pyarrow.memory_map(path, "r"))

    def _count(self, path: str) -> int:
        if self._is_parquet(path):
            import pyarrow.parquet

            return pyarrow.parquet.ParquetFile(path).metadata.num_rows
        reader = self._ipc(path)
        return sum(reader.get_batch(number).num_rows for number in range(reader.num_record_batches))

    def _columns(self) -> List[str]:
        if self._table is not None:
            return list(self._table.column_names)
        if not self._files:
            return []
        if self._is_parquet(self._files[0]):
            import pyarrow.parquet

            return list(pyarrow.parquet.ParquetFile(self._files[0]).schema_arrow.names)
        return list(self._ipc(self._files[0]).schema.names)

    def identity(self) -> Dict[str, Any]:
        return {"kind": "table", "items": self.count, "content": [_mark(path) for path in self._files]}

    def _batches(self, path: Optional[str], start: int) -> Iterator[Tuple[int, Any]]:
        """The first row, within the file, of each batch that has rows from ``start`` on, and the batch."""
        first = 0
        if path is None:
            batches: Iterator[Any] = iter(self._table.to_batches(max_chunksize=1024))
        elif self._is_parquet(path):
            import pyarrow.parquet

            file = pyarrow.parquet.ParquetFile(path, memory_map=True)
            group, groups = 0, file.metadata.num_row_groups
            while group < groups and first + file.metadata.row_group(group).num_rows <= start:
                first += file.metadata.row_group(group).num_rows
                group += 1
            batches = file.iter_batches(256, row_groups=list(range(group, groups)), columns=self._wanted)
        else:
            reader = self._ipc(path)
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
        for batch in batches:
            if first + batch.num_rows > start:
                yield first, batch
            first += batch.num_rows

    def items(self, start: int) -> Iterator[Item]:
        base = 0
        for number, rows in enumerate(self._rows):
            path = self._files[number] if self._table is None else None
            if base + rows > start:
                for first, batch in self._batches(path, max(0, start - base)):
                    for row in range(batch.num_rows):
                        index = base + first + row
                        if index >= start:
                            yield Item(index, str(index), functools.partial(self._row, batch, row, self._wanted))
            base += rows

    @staticmethod
    def _row(batch: Any, row: int, wanted: Optional[Sequence[str]]) -> Dict[str, Any]:
        names = batch.schema.names if wanted is None else [name for name in wanted if name in batch.schema.names]
        value_of = _value_of if wanted is not None else _value_or_null
        values = {name: value_of(batch.column(name)[row], name) for name in names}
        for name in list(values):
            shape = values.get(f"{name}.shape")
            if shape is not None and isinstance(values[name], np.ndarray):
                values[name] = values[name].reshape([int(extent) for extent in shape])
                del values[f"{name}.shape"]
        return values


def _value_of(scalar: Any, name: str) -> Any:
    """A value of a table: lists of numbers as arrays, the rest as Python has it. ValueError where it is null."""
    if not scalar.is_valid:
        raise ValueError(f"column '{name}' is null")
    values = getattr(scalar, "values", None)
    if values is not None and hasattr(values, "to_numpy"):
        if values.null_count:
            raise ValueError(f"column '{name}' has null in a list")
        array = values.to_numpy(zero_copy_only=False)
        if array.dtype != object:
            return array
    value = scalar.as_py()
    return np.array(value) if isinstance(value, list) else value


def _value_or_null(scalar: Any, name: str) -> Any:
    """The same for a function that can see to nulls itself: None, and lists that have some as lists."""
    try:
        return _value_of(scalar, name)
    except ValueError:
        return scalar.as_py()


class Values(Source):
    """Any iterable of arrays, mappings of arrays, paths, or what preprocess takes."""

    def __init__(self, values: Iterable[Any], raw: bool) -> None:
        self._values, self._raw = values, raw
        self.count = len(values) if hasattr(values, "__len__") else None

    def identity(self) -> Dict[str, Any]:
        return {"kind": "values", "items": self.count}

    def items(self, start: int) -> Iterator[Item]:
        if isinstance(self._values, Sequence):
            values = (self._values[index] for index in range(start, len(self._values)))
        else:
            values = iter(self._values)
            for _ in range(start):
                next(values, None)
        for index, value in enumerate(values, start):
            path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""
            if path:
                yield Item(index, path, functools.partial(load_file, path, self._raw))
            else:
                yield Item(index, str(index), functools.partial(_given, value))


class Rows(Source):
    """Arrays with a row per item along axis 0."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        counts = {name: len(array) if array.ndim else -1 for name, array in arrays.items()}
        if len(set(counts.values())) != 1 or -1 in counts.values():
            raise ValueError(f"expected arrays with as many rows each, found {counts or 'none'}")
        self._arrays, self.count = arrays, next(iter(counts.values()))

    def identity(self) -> Dict[str, Any]:
        return {"kind": "values", "items": self.count}

    def items(self, start: int) -> Iterator[Item]:
        for index in range(start, self.count or 0):
            row = {name: array[index] for name, array in self._arrays.items()}
            yield Item(index, str(index), functools.partial(_given, row))


_TABLES = (".parquet", ".pq", ".arrow", ".feather")


def source_of(inputs: Any, names: Sequence[str], raw: bool) -> Source:
    """The source that ``inputs`` means: see :func:`aipu.batch.run`. FileNotFoundError, ValueError."""
    if isinstance(inputs, Source):
        return inputs
    if not isinstance(inputs, (str, os.PathLike)):
        if isinstance(inputs, Mapping):
            return Rows({name: np.asarray(array) for name, array in inputs.items()})
        if type(inputs).__module__.partition(".")[0] == "pyarrow":
            return Table([], inputs, names, raw)
        return Values(inputs, raw)
    path = os.fspath(inputs)
    if path == "-":
        return Files([line.rstrip("\n") for line in sys.stdin if line.strip()], "", raw, "list")
    if os.path.isdir(path):
        files = _folder_files(path)
        if files and all(file.endswith(_TABLES) for file in files):
            return Table([os.path.join(path, file) for file in files], None, names, raw)
        return Files(files, path, raw, "folder")
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no '{path}'")
    if path.endswith((".npz", ".npy")):
        return Archive(path, names)
    if path.endswith(_TABLES):
        return Table([path], None, names, raw)
    if path.endswith(".txt"):
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return Files([line.rstrip("\n") for line in file if line.strip()], "", raw, "list")
    raise ValueError(f"'{path}': expected a folder, .npz, .npy, .parquet, .arrow, .feather or a .txt of paths")
