"""Models as users have them - a path, bytes, an ``onnx.ModelProto`` - and conversions kept by the hash of what they are
made from."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import mmap
import os
import threading
import warnings
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _files, _native, _onnx_text
from ._operator_text import plugin_sources

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


def default_cache_folder() -> str:
    """Where converted models are kept: ``models`` in the folder of compiled kernels (``AIPU_CACHE_DIR``)."""
    base = os.environ.get("AIPU_CACHE_DIR", "")
    if not base:
        cache = os.environ.get("XDG_CACHE_HOME", "") or os.path.expanduser("~/.cache")
        base = os.path.join(cache, "aipu")
    return os.path.join(base, "models")


def file_hash(path: str) -> bytes:
    """A hash of a file's content."""
    found = hashlib.blake2b(digest_size=32)
    with open(path, "rb") as file:
        while True:
            block = file.read(1 << 22)
            if not block:
                return found.digest()
            found.update(block)


_own_hash: List[bytes] = []
_own_hash_lock = threading.Lock()


def _compiler_hash() -> bytes:
    """What converts: this build of the package, and the compiler of its kernels."""
    with _own_hash_lock:
        if not _own_hash:
            _own_hash.append(file_hash(_native.__file__))
        return _own_hash[0]


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


def show_symbols() -> None:
    """To C++ plugins, which resolve the compiler's symbols in the extension module."""
    ctypes.CDLL(_native.__file__, mode=ctypes.RTLD_GLOBAL)


def load_targets(libraries: Sequence[Any]) -> None:
    """Makes the targets of shared libraries known to the process."""
    if libraries:
        show_symbols()
    for library in libraries:
        _native.load_targets(os.fspath(library))


def _key(source: Source, options: Mapping[str, Any]) -> str:
    files, operators = plugin_sources(options.get("plugins", ()))
    target_plugins = options.get("target_plugins", ())
    load_targets(target_plugins)
    plain = {name: value for name, value in options.items() if name not in ("plugins", "target_plugins")}
    target = str(options.get("target") or "host")
    told: Dict[str, Any] = {
        "model": source.digest().hex(),
        "options": plain,
        "target": _native.target(target)["name"],
        "compiler": os.environ.get("AIPU_CC", ""),
        "plugins": [file_hash(file).hex() for file in files] + [[text.name, text.text] for text in operators],
        "target_plugins": [file_hash(os.fspath(file)).hex() for file in target_plugins],
        "package": _compiler_hash().hex(),
    }
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=20).hexdigest()


def load_converted(
    source: Source,
    options: Optional[Mapping[str, Any]] = None,
    cache_folder: Optional[str] = None,
    load: Optional[Mapping[str, Any]] = None,
) -> Tuple[Any, str]:
    """The model, converted unless it was before, and the path of its aipu.bin ("" where it is kept nowhere).

    ``options``: of :func:`aipu.build`; ``load``: of :func:`aipu.load`. Of processes and threads that want the same
    conversion at once, one does it and the others wait. A file of the cache that is damaged is made again.
    """
    from . import model

    options, load = dict(options or {}), dict(load or {})
    if source.is_binary:
        if options:
            raise ValueError(f"an aipu.bin is converted already: it takes no {', '.join(sorted(options))}")
        if source.path is not None:
            return model.load(source.path, **load), source.path
        with _files.file_of_bytes(bytes(source.data), "model.aipu.bin") as path:
            return model.load(path, **load), ""
    folder = cache_folder if cache_folder is not None else default_cache_folder()
    problem = _files.folder_problem(folder)
    if problem:
        warnings.warn(f"the converted model is not kept: {problem}", RuntimeWarning, stacklevel=4)
        with _files.private_folder() as scratch:
            path = os.path.join(scratch, "model.aipu.bin")
            model.build(source.model, path, **options)
            return model.load(path, **load), ""
    path = os.path.join(folder, _key(source, options) + ".aipu.bin")
    for attempt in range(2):
        if not os.path.exists(path):
            with _files.locked(path + ".lock"):
                if not os.path.exists(path):
                    model.build(source.model, path, **options)
        try:
            return model.load(path, **load), path
        except (OSError, RuntimeError):
            if attempt:
                raise
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    raise AssertionError("unreachable")


def load_model(model: ModelLike, options: Optional[Mapping[str, Any]] = None, load: Sequence[Any] = ()) -> Any:
    """A model to run, of anything that is one: :class:`aipu.Model`, path or bytes of an aipu.bin or of ONNX."""
    from .model import Model

    if isinstance(model, Model):
        return model
    return load_converted(Source(model), options, load=dict(load))[0]
