"""libaipu_runtime.so through ctypes: as thin as a binding can be, so that what is timed is the runtime."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

_DTYPES = {
    "bool": 1,
    "int8": 2,
    "uint8": 3,
    "int16": 4,
    "uint16": 5,
    "int32": 6,
    "uint32": 7,
    "int64": 8,
    "uint64": 9,
    "float16": 10,
    "float32": 12,
    "float64": 13,
}
_NAMES = {number: name for name, number in _DTYPES.items()}


class _Info(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    ]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("data", ctypes.c_void_p),
        ("size_bytes", ctypes.c_size_t),
    ]


class Library:
    """The C API of one libaipu_runtime.so."""

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path))
        self.c.aipu_last_error.restype = ctypes.c_char_p
        self.c.aipu_model_input_count.restype = ctypes.c_uint32
        self.c.aipu_model_output_count.restype = ctypes.c_uint32

    def check(self, status: int) -> None:
        """Raises RuntimeError with the library's message unless `status` is AIPU_OK."""
        if status != 0:
            raise RuntimeError(self.c.aipu_last_error().decode())


class Session:
    """A loaded aipu.bin with a session of its own; inputs are NumPy arrays that must outlive the runs."""

    def __init__(self, library: Library, path: Path, threads: int) -> None:
        self._library = library
        self._model = ctypes.c_void_p()
        self._session = ctypes.c_void_p()
        self._bound: list[np.ndarray] = []
        library.check(library.c.aipu_model_load(str(path).encode(), None, ctypes.byref(self._model)))
        library.check(library.c.aipu_session_create(self._model, ctypes.c_int(threads), ctypes.byref(self._session)))
        self._run = library.c.aipu_session_run

    def close(self) -> None:
        """Frees the session and the model."""
        self._library.c.aipu_session_release(self._session)
        self._library.c.aipu_model_release(self._model)

    def input_names(self) -> list[str]:
        """The inputs' names, in the model's order."""
        info = _Info()
        names = []
        for index in range(self._library.c.aipu_model_input_count(self._model)):
            self._library.check(
                self._library.c.aipu_model_input(self._model, ctypes.c_uint32(index), ctypes.byref(info))
            )
            names.append(info.name.decode())
        return names

    def bind(self, inputs: dict[str, np.ndarray]) -> None:
        """Binds every input by name."""
        for index, name in enumerate(self.input_names()):
            array = np.ascontiguousarray(inputs[name])
            self._bound.append(array)
            shape = (ctypes.c_int64 * array.ndim)(*array.shape)
            self._library.check(
                self._library.c.aipu_session_bind_input(
                    self._session,
                    ctypes.c_uint32(index),
                    ctypes.c_int(_DTYPES[array.dtype.name]),
                    shape,
                    ctypes.c_uint32(array.ndim),
                    ctypes.c_void_p(array.ctypes.data),
                )
            )

    def run(self) -> None:
        """One inference on what is bound."""
        status = self._run(self._session)
        if status != 0:
            self._library.check(status)

    def outputs(self) -> list[np.ndarray]:
        """Copies of the outputs of the last run."""
        arrays = []
        tensor = _Tensor()
        for index in range(self._library.c.aipu_model_output_count(self._model)):
            self._library.check(
                self._library.c.aipu_session_output(self._session, ctypes.c_uint32(index), ctypes.byref(tensor))
            )
            dtype = np.dtype(_NAMES[tensor.dtype])
            shape = [tensor.shape[axis] for axis in range(tensor.rank)]
            data = ctypes.string_at(tensor.data, tensor.size_bytes)
            arrays.append(np.frombuffer(data, dtype=dtype).reshape(shape).copy())
        return arrays
