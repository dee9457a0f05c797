"""The models of a file that :func:`aipu.build` makes, and what is asked for each of them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _model_source, _native
from ._model_source import ModelLike

PathLike = Union[str, "os.PathLike[str]"]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A model of a file with several, for :func:`aipu.build`: what :func:`aipu.load` asks for as ``entry``.

    ``name``: by default that of the model's file without its extension. The others are as :func:`aipu.build` has them,
    for this model alone; those of the call are for all models, and come first.
    """

    model: ModelLike
    name: Optional[str] = None
    shapes: Optional[Mapping[str, Sequence[int]]] = None
    expose: Sequence[str] = ()
    sequence_lengths: Optional[Mapping[str, Optional[int]]] = None
    constants: Optional[Mapping[str, Any]] = None
    preprocess: Sequence[str] = ()
    postprocess: Sequence[str] = ()
    weights: Optional[PathLike] = None
    cache_length: Optional[int] = None

    def check(self) -> None:
        """TypeError for options of another form."""
        if isinstance(self.expose, str):
            raise TypeError(f"expose: expected a list of names; write expose=[{self.expose!r}]")
        for name, texts in (("preprocess", self.preprocess), ("postprocess", self.postprocess)):
            if isinstance(texts, str):
                raise TypeError(f"{name}: expected a list; write {name}=[{texts!r}]")
        for name, extents in (self.shapes or {}).items():
            if isinstance(extents, (str, bytes)) or not hasattr(extents, "__iter__"):
                raise TypeError(
                    f"shapes['{name}']: expected a list of extents such as [1, 3, 224, 224], found {extents!r}"
                )

    def within(self, call: "Entry") -> "Entry":
        """The same with what the call asks for all models."""
        return dataclasses.replace(
            self,
            shapes={**(call.shapes or {}), **(self.shapes or {})},
            expose=[*call.expose, *self.expose],
            sequence_lengths={**(call.sequence_lengths or {}), **(self.sequence_lengths or {})},
            constants={**(call.constants or {}), **(self.constants or {})},
            preprocess=[*call.preprocess, *self.preprocess],
            postprocess=[*call.postprocess, *self.postprocess],
            cache_length=call.cache_length if self.cache_length is None else self.cache_length,
        )

    def fill(self, options: _native.EntryOptions, path: str) -> None:
        """Tells the compiler, for which the model is the file ``path``."""
        options.model = path
        options.entry = self.name or ""
        options.weights = os.fspath(self.weights) if self.weights is not None else ""
        options.shapes = [
            f"{name}={'x'.join(str(int(extent)) for extent in extents)}"
            for name, extents in (self.shapes or {}).items()
        ]
        options.exposed = list(self.expose)
        options.preprocess = list(self.preprocess)
        options.postprocess = list(self.postprocess)
        options.cache_length = int(self.cache_length or 0)
        options.sequence_lengths = [
            f"{name}={'none' if length is None else int(length)}"
            for name, length in (self.sequence_lengths or {}).items()
        ]
        for name, value in (self.constants or {}).items():
            array = np.asarray(value)
            array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
            options.add_constant(name, array.dtype.name, list(array.shape), array.tobytes())


def entries_of(models: Any, call: Entry) -> Tuple[List[Entry], bool]:
    """What ``models`` of :func:`aipu.build` are, with what the call asks for all of them; and whether it is a list."""
    call.check()
    if not isinstance(models, (list, tuple)):
        return [(models if isinstance(models, Entry) else Entry(models, weights=call.weights)).within(call)], False
    if not models:
        raise ValueError("model: an empty list")
    if call.weights is not None:
        raise ValueError("weights: of several models each has its own, Entry(model, weights=...)")
    entries = [(model if isinstance(model, Entry) else Entry(model)).within(call) for model in models]
    for entry in entries:
        entry.check()
        if entry.name is None and _model_source.model_bytes(entry.model) is not None:
            raise ValueError("a model in memory has no path to take a name from: give Entry(model, name)")
    return entries, True


@contextlib.contextmanager
def told(entries: Sequence[Entry], options: _native.BuildOptions) -> Iterator[None]:
    """Tells the compiler of them, for as long as the models in memory have files."""
    with contextlib.ExitStack() as paths:
        entries[0].fill(options, paths.enter_context(_model_source.model_path(entries[0].model)))
        more = []
        for entry in entries[1:]:
            more.append(_native.EntryOptions())
            entry.fill(more[-1], paths.enter_context(_model_source.model_path(entry.model)))
        options.more_entries = more
        yield
