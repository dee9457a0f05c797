"""Arrays that compiled functions take; NumPy arrays do as well."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

from ._errors import TVMError

_KINDS = {"cpu": 1, "llvm": 1, "host": 1, "c": 1, "stackvm": 1, "interpreter": 1, "cuda": 2}
_KINDS.update(dict.fromkeys(("ext_dev", "aipu", "compass", "X2_1204"), 12))
_NAMES = {1: "cpu", 2: "cuda", 12: "ext_dev"}


class Device:
    """Where arrays lie. All memory is the host's: the NPU's model reads it in place; on a GPU it has a copy there."""

    def __init__(self, device_type: int, device_id: int) -> None:
        self.device_type, self.device_id = device_type, device_id

    @property
    def exist(self) -> bool:
        """Whether functions can be run there."""
        if self.device_type == 2:
            from .te import _cuda

            return self.device_id == 0 and (_cuda.emulated() or _cuda.gpu() is not None)
        return self.device_id == 0

    def sync(self) -> None:
        """Waits for nothing: calls return when they are done."""

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Device) and (self.device_type, self.device_id) == (other.device_type, other.device_id)

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __repr__(self) -> str:
        return f"{_NAMES[self.device_type]}({self.device_id})"


def device(name: Any, index: int = 0) -> Device:
    """The device of a target's name (``"cuda:1"`` has the index in it) or of DLPack's number."""
    if isinstance(name, (int, np.integer)):
        if int(name) not in _NAMES:
            raise ValueError(f"unknown device type {name}")
        return Device(int(name), index)
    words = str(name).split()
    kind, _, number = (words[0] if words else "").partition(":")
    if kind not in _KINDS or (number and not number.isdigit()) or index < 0:
        raise ValueError(f"unknown device {name!r}")
    return Device(_KINDS[kind], int(number) if number else index)


def cpu(index: int = 0) -> Device:
    """This machine."""
    return Device(1, index)


def cuda(index: int = 0) -> Device:
    """A GPU."""
    return Device(2, index)


class NDArray:
    """An array of numbers. ``numpy()`` copies it."""

    def __init__(self, data: np.ndarray, where: Device) -> None:
        self._host, self.device = data, where
        self._copy: Any = None  # on a GPU, from the first call there on
        self._is_shared = False  # others read and write the host's memory too: each call on a GPU copies

    @property
    def _data(self) -> np.ndarray:
        """The values, to read and to write."""
        if self._copy is not None:
            self._copy.host_writes()
        return self._host

    def on_host(self, fetch: bool = True) -> np.ndarray:
        """The values, to read; without ``fetch`` what a GPU has computed since is not in it."""
        if self._copy is not None and fetch:
            self._copy.fetch()
        return self._host

    def on_gpu(self) -> Any:
        """The copy on a GPU; None where there is none."""
        if self._copy is None and not self._is_shared and self.device == cuda(0) and self._host.flags.c_contiguous:
            from .te import _cuda

            device = None if _cuda.emulated() or self._host.size == 0 else _cuda.gpu()
            self._copy = None if device is None else _cuda.Copy(device, self._host)
        return self._copy

    def _share(self) -> np.ndarray:
        """The host's memory for others, who keep it."""
        data, self._copy, self._is_shared = self._data, None, True
        return data

    @property
    def shape(self) -> Tuple[int, ...]:
        """The extents."""
        return self._host.shape

    @property
    def dtype(self) -> str:
        """The name of the elements' type."""
        return self._host.dtype.name

    def numpy(self) -> np.ndarray:
        """A copy as a NumPy array."""
        return self.on_host().copy()

    asnumpy = numpy

    def _create_view(self, shape: Any) -> "NDArray":
        """The first elements at another shape, in the same memory; ValueError if there are not as many."""
        extents = [int(e) for e in shape]
        count = int(np.prod(extents, dtype=np.int64))
        if count > self._host.size:
            raise ValueError(f"a view of {count} elements of an array of {self._host.size}")
        view = NDArray(self._share().reshape(-1)[:count].reshape(extents), self.device)
        view._is_shared = True
        return view

    def copyfrom(self, source: Any) -> "NDArray":
        """Takes over the values of an array of the same shape; ValueError for another one."""
        values = source.on_host() if isinstance(source, NDArray) else np.asarray(source)
        if values.dtype == object:
            raise TypeError(f"an array of numbers, not {type(source).__name__}")
        if values.shape != self.shape:
            raise ValueError(f"array of shape {values.shape} for one of shape {self.shape}")
        self._data[...] = values
        return self

    def copyto(self, target: Any) -> "NDArray":
        """Writes the values into another array, or into a new one on a device."""
        if isinstance(target, Device):
            return NDArray(self.numpy(), target)
        if not isinstance(target, NDArray):
            raise ValueError(f"an NDArray or a device, not {type(target).__name__}")
        data, to = self.on_host(), target._data
        if to.nbytes != data.nbytes:
            raise ValueError(f"{data.nbytes} bytes are copied to an array of {to.nbytes}")
        to[...] = np.ascontiguousarray(data).view(to.dtype).reshape(to.shape)
        return target

    def __setitem__(self, key: Any, value: Any) -> None:
        full = isinstance(key, slice) and key == slice(None)
        if not full and key is not Ellipsis:
            raise ValueError("only the whole array can be assigned: a[:] = x")
        if isinstance(value, (int, float, np.number)):
            self._data[...] = value
        else:
            self.copyfrom(value)

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        return _contiguous(self._share()).__dlpack__(*args, **kwargs)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self._host.__dlpack_device__()

    def to_dlpack(self) -> Any:
        """A capsule of the memory, without a copy."""
        return _contiguous(self._share()).__dlpack__()

    def __len__(self) -> int:
        return len(self._host)

    def __repr__(self) -> str:
        return f"<aipu.nd.NDArray shape={self.shape}, {self.device}>\n{self.on_host()!r}"


def array(values: Any, device: Any = None) -> NDArray:
    """A copy of a NumPy array, NDArray or nested list; the dtype is kept."""
    data = values.on_host() if isinstance(values, NDArray) else np.asarray(values)
    if data.dtype == object:
        raise TypeError(f"an array of numbers, not {type(values).__name__}")
    return NDArray(np.array(data, order="C", copy=True), device or cpu(0))


def empty(shape: Any, dtype: Any = "float32", device: Any = None) -> NDArray:
    """An array whose contents are not specified."""
    extents = [int(e) for e in (shape if isinstance(shape, (list, tuple)) else [shape])]
    return NDArray(np.zeros(extents, dtype), device or cpu(0))


def _contiguous(data: np.ndarray) -> np.ndarray:
    if not data.flags.c_contiguous:
        raise TVMError("DLPack: the memory of the array is not contiguous")
    return data


class _Capsule:
    """A capsule as an object that NumPy asks for it."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, *_: Any, **__: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (1, 0)


def from_dlpack(source: Any) -> NDArray:
    """The memory of an array of another package, or of a capsule, without a copy.

    AttributeError for an object without ``__dlpack__``, TVMError where the memory is not contiguous.
    """
    if type(source).__name__ == "PyCapsule":
        source = _Capsule(source)
    if not hasattr(source, "__dlpack__"):
        raise AttributeError(f"{type(source).__name__} has no __dlpack__")
    data = np.from_dlpack(source)
    if not data.flags.c_contiguous:
        raise TVMError("DLPack: the memory of the array is not contiguous")
    try:
        data.flags.writeable = True  # NumPy does not say so of memory that others have given
    except ValueError:
        data = _array_at(
            data.ctypes.data, data.dtype.name, data.shape, [s // data.itemsize for s in data.strides], data
        )
    return NDArray(data, cpu(0))


class _Memory:
    """Somebody's memory by NumPy's array interface; the owner lives as long as an array of it."""

    def __init__(self, interface: Any, owner: Any) -> None:
        self.__array_interface__, self.owner = interface, owner


def _array_at(address: int, dtype: str, shape: Any, strides: Any, owner: Any) -> np.ndarray:
    """The memory at an address; strides in elements."""
    kind = np.dtype("uint16" if dtype == "bfloat16" else dtype)
    interface = {
        "data": (address, False),
        "typestr": kind.str,
        "shape": tuple(shape),
        "strides": tuple(s * kind.itemsize for s in strides),
        "version": 3,
    }
    return np.asarray(_Memory(interface, owner))


__all__ = ["Device", "NDArray", "array", "cpu", "cuda", "device", "empty", "from_dlpack"]
