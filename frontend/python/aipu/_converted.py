"""Conversions that are kept, by the hash of what they are made from."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import warnings
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import _files, _libraries, _native
from . import model as _model
from ._model_source import ModelLike, Source, file_hash
from ._operator_text import plugin_sources
from .model import Model


def default_cache_folder() -> str:
    """Where converted models are kept: ``models`` in the folder of compiled kernels (``AIPU_CACHE_DIR``)."""
    base = os.environ.get("AIPU_CACHE_DIR", "")
    if not base:
        cache = os.environ.get("XDG_CACHE_HOME", "") or os.path.expanduser("~/.cache")
        base = os.path.join(cache, "aipu")
    return os.path.join(base, "models")


_own_hash: List[bytes] = []
_own_hash_lock = threading.Lock()


def _compiler_hash() -> bytes:
    """What converts: this build of the package, and the compiler of its kernels."""
    with _own_hash_lock:
        if not _own_hash:
            _own_hash.append(file_hash(_native.__file__))
        return _own_hash[0]


def _key(source: Source, options: Mapping[str, Any]) -> str:
    files, operators = plugin_sources(options.get("plugins", ()))
    target_plugins = options.get("target_plugins", ())
    _libraries.load_targets(target_plugins)
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
) -> Tuple[Model, str]:
    """The model, converted unless it was before, and the path of its aipu.bin ("" where it is kept nowhere).

    ``options``: of :func:`aipu.build`; ``load``: of :func:`aipu.load`. Of processes and threads that want the same
    conversion at once, one does it and the others wait. A file of the cache that is damaged is made again.
    """
    options, load = dict(options or {}), dict(load or {})
    if source.is_binary:
        if options:
            raise ValueError(f"an aipu.bin is converted already: it takes no {', '.join(sorted(options))}")
        if source.path is not None:
            return _model.load(source.path, **load), source.path
        with _files.file_of_bytes(bytes(source.data), "model.aipu.bin") as path:
            return _model.load(path, **load), ""
    folder = cache_folder if cache_folder is not None else default_cache_folder()
    problem = _files.folder_problem(folder)
    if problem:
        warnings.warn(f"the converted model is not kept: {problem}", RuntimeWarning, stacklevel=4)
        with _files.private_folder() as scratch:
            path = os.path.join(scratch, "model.aipu.bin")
            _model.build(source.model, path, **options)
            return _model.load(path, **load), ""
    path = os.path.join(folder, _key(source, options) + ".aipu.bin")
    for attempt in range(2):
        if not os.path.exists(path):
            with _files.locked(path + ".lock"):
                if not os.path.exists(path):
                    _model.build(source.model, path, **options)
        try:
            return _model.load(path, **load), path
        except (OSError, RuntimeError):
            if attempt:
                raise
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    raise AssertionError("unreachable")


def load_model(model: ModelLike, options: Optional[Mapping[str, Any]] = None) -> Model:
    """A model to run, of anything that is one: :class:`aipu.Model`, path or bytes of an aipu.bin or of ONNX."""
    return model if isinstance(model, Model) else load_converted(Source(model), options)[0]
