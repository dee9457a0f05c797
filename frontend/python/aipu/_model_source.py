"""Models as users have them: a path, bytes, an ``onnx.ModelProto``."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
from typing import Any, Iterator, Optional, Union

from . import _files, _onnx_text

ModelLike = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Any]  # Any: an onnx.ModelProto

_IDENTIFIER = b"AIPU"  # at byte 8 of an aipu.bin: file_identifier of runtime/abi/aipu.fbs, behind size and root


def model_bytes(model: ModelLike) -> Optional[bytes]:
    """The bytes of a model that is in memory, None of one that is a path; TypeError for anything else.

    ValueError for a ModelProto that protobuf does not write because it has 2 GiB or more: save it with external data.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if isinstance(model, (str, os.PathLike)):
        return None
    if hasattr(model, "SerializeToString") and hasattr(model, "graph"):
        try:
            return model.SerializeToString()
        except Exception as error:  # of protobuf, whichever implementation: more than 2 GiB, a field that is missing
            raise ValueError(
                f"the ModelProto cannot be written as bytes ({error}); save it with external data and give the path"
            ) from error
    raise TypeError(f"model: expected a path, bytes or an onnx.ModelProto, found {type(model).__name__}")


@contextlib.contextmanager
def model_path(model: ModelLike) -> Iterator[str]:
    """A path under which the compiler finds the model; errors about one in memory do not name that path."""
    data = model_bytes(model)
    if data is None:
        yield os.fspath(model)
        return
    with _files.file_of_bytes(data, "model.onnx") as path:
        try:
            yield path
        except (OSError, RuntimeError, ValueError) as error:
            if path not in str(error):
                raise
            raise type(error)(str(error).replace(path, "the model in memory")) from None


def is_binary(data: Union[bytes, memoryview]) -> bool:
    """Whether these are (the first 16) bytes of an aipu.bin."""
    return bytes(data[8:12]) == _IDENTIFIER


def is_binary_file(path: str) -> bool:
    """The same of a file; OSError if it cannot be read."""
    with open(path, "rb") as file:
        return is_binary(file.read(16))


def file_hash(path: str) -> bytes:
    """A hash of a file's content."""
    found = hashlib.blake2b(digest_size=32)
    with open(path, "rb") as file:
        while True:
            block = file.read(1 << 22)
            if not block:
                return found.digest()
            found.update(block)


class Source:
    """An ONNX model or an aipu.bin, from a path or from memory: its bytes, read once.

    OSError if there is no such file, TypeError for what is no model.
    """

    def __init__(self, model: ModelLike) -> None:
        self.model = model
        self.path = None if model_bytes(model) is not None else os.fspath(model)
        self.data: Union[bytes, memoryview]
        if self.path is None:
            self.data = model_bytes(model) or b""
        else:
            with open(self.path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                self.data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) if size else b""
        self.is_binary = is_binary(self.data)

    def text(self) -> Optional[_onnx_text.ModelText]:
        """What an ONNX model says about itself; None of an aipu.bin. ValueError if it is neither."""
        return None if self.is_binary else _onnx_text.read(self.data)

    def digest(self) -> bytes:
        """A hash of the model with the files that hold its weights."""
        found = hashlib.blake2b(self.data, digest_size=32)
        if not self.is_binary and self.path is not None:
            folder = os.path.dirname(os.path.abspath(self.path))
            for name in _onnx_text.external_files(self.data):
                with contextlib.suppress(OSError):  # the importer says what is missing
                    found.update(name.encode() + b"\0" + file_hash(os.path.join(folder, name)))
        return found.digest()
