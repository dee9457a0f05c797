"""NVIDIA's driver and run-time compiler, loaded when they are first needed; nothing is linked against them."""

from __future__ import annotations

import ctypes
import functools
import glob
import importlib.util
import os
import weakref
from typing import Any, List, Optional, Sequence

import numpy as np

from .._errors import TVMError

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


def emulated() -> bool:
    """Whether ``AIPU_CUDA=emulate`` asks for kernels to be run on this machine."""
    return os.environ.get("AIPU_CUDA") == "emulate"


def _library(names: Sequence[str]) -> Any:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    return None


def _headers() -> List[str]:
    """Where the toolkit's headers are: beside the library that was loaded."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        libraries = {line.split()[-1] for line in maps if "libnvrtc" in line}
    places = [os.path.join(os.path.dirname(os.path.dirname(path)), "include") for path in sorted(libraries)]
    return [place for place in places if os.path.exists(os.path.join(place, "cuda_fp16.h"))]


class Compiler:
    """NVRTC."""

    def __init__(self, library: Any) -> None:
        self._library = library

    @property
    def oldest(self) -> int:
        """The lowest compute capability that it knows."""
        count = ctypes.c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        known = (ctypes.c_int * count.value)()
        self._check(self._library.nvrtcGetSupportedArchs(known))
        return min(known)

    def ptx(self, source: str, capability: int) -> bytes:
        """The text for the driver; TVMError with the compiler's log."""
        program = ctypes.c_void_p()
        nothing = ctypes.c_void_p()
        text = source.encode()
        self._check(self._library.nvrtcCreateProgram(ctypes.byref(program), text, b"kernels.cu", 0, nothing, nothing))
        try:
            options = [f"--gpu-architecture=compute_{capability}".encode(), b"--std=c++17", b"--fmad=false"]
            options += [f"--include-path={folder}".encode() for folder in _headers()]
            given = (ctypes.c_char_p * len(options))(*options)
            if self._library.nvrtcCompileProgram(program, len(options), given):
                raise TVMError(f"NVRTC: {self._text(program, 'ProgramLog').decode(errors='replace')}")
            return self._text(program, "PTX")
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, program: Any, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        text = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, text))
        return text.value

    @staticmethod
    def _check(error: int) -> None:
        if error:
            raise TVMError(f"NVRTC: error {error}")


class Gpu:
    """The first device, by the driver."""

    def __init__(self, library: Any) -> None:
        self._library = library
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._do("cuDeviceGet", ctypes.byref(device), 0)
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._device, self._context = device, context

    @property
    def capability(self) -> int:
        """80 for 8.0."""
        parts = []
        for attribute in (_MAJOR, _MINOR):
            value = ctypes.c_int()
            self._do("cuDeviceGetAttribute", ctypes.byref(value), attribute, self._device)
            parts.append(value.value)
        return 10 * parts[0] + parts[1]

    def load(self, ptx: bytes) -> Any:
        """A module of kernels."""
        self.enter()
        module = ctypes.c_void_p()
        self._do("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx))
        return module

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module."""
        function = ctypes.c_void_p()
        self._do("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def enter(self) -> None:
        """Makes the device the one of this thread."""
        self._do("cuCtxSetCurrent", self._context)

    def allocate(self, size: int) -> Any:
        """Memory of the device."""
        address = ctypes.c_uint64()
        self._do("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        return address

    def upload(self, array: np.ndarray, address: Any) -> None:
        """The bytes of an array to the device."""
        self._do("cuMemcpyHtoD_v2", address, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))

    def download(self, address: Any, array: np.ndarray) -> None:
        """The bytes of an array from the device."""
        self._do("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), address, ctypes.c_size_t(array.nbytes))

    def free(self, address: Any) -> None:
        """Gives memory back."""
        self.enter()  # whoever collects garbage
        self._do("cuMemFree_v2", address)

    def launch(self, function: Any, grid: Sequence[int], block: Sequence[int], arguments: List[Any]) -> None:
        """Starts a kernel; arguments are objects of ctypes."""
        places = (ctypes.c_void_p * max(len(arguments), 1))(*[ctypes.addressof(a) for a in arguments])
        nothing = ctypes.c_void_p()
        self._do("cuLaunchKernel", function, *grid, *block, 0, nothing, places, nothing)

    def event(self) -> Any:
        """A mark behind all that was started."""
        event = ctypes.c_void_p()
        self._do("cuEventCreate", ctypes.byref(event), 0)
        self._do("cuEventRecord", event, ctypes.c_void_p())
        return event

    def milliseconds(self, start: Any, end: Any) -> float:
        """The device's time between two marks, which are then gone."""
        took = ctypes.c_float()
        self._do("cuEventSynchronize", end)
        self._do("cuEventElapsedTime", ctypes.byref(took), start, end)
        for event in (start, end):
            self._do("cuEventDestroy_v2", event)
        return took.value

    def wait(self) -> None:
        """Until all that was started is done."""
        self._do("cuCtxSynchronize")

    def _do(self, name: str, *args: Any) -> None:
        error = getattr(self._library, name)(*args)
        if error:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(error, ctypes.byref(text))
            raise TVMError(f"{name}: {(text.value or b'error').decode()} ({error})")


class Memory:
    """Memory of the device, given back with the object."""

    def __init__(self, device: Gpu, size: int) -> None:
        device.enter()
        self.address, self.size = device.allocate(size), size
        self._end = weakref.finalize(self, device.free, self.address)
        self._end.atexit = False  # the driver may be gone then


class Copy(Memory):
    """Memory of the device for the bytes of an array, and which of the two has the values."""

    def __init__(self, device: Gpu, array: np.ndarray) -> None:
        super().__init__(device, array.nbytes)
        self._gpu, self._array = device, array
        self._is_current, self._is_ahead = False, False

    def fill(self) -> None:
        """Gives the device the values that the host has."""
        if not self._is_current:
            self._gpu.upload(self._array, self.address)
            self._is_current = True

    def kernels_wrote(self) -> None:
        """The device has values that the host has not."""
        self._is_current = self._is_ahead = True

    def fetch(self) -> None:
        """Gives the host the values that the device has."""
        if self._is_ahead:
            self._gpu.enter()
            self._gpu.download(self.address, self._array)
            self._is_ahead = False

    def host_writes(self) -> None:
        """The host is about to have values that the device has not."""
        self.fetch()
        self._is_current = False


@functools.lru_cache(None)
def gpu() -> Optional[Gpu]:
    """The first device; None where there is none, or no driver."""
    library = _library(["libcuda.so.1", "libcuda.so"])
    count = ctypes.c_int()
    if library is None or library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return None
    return Gpu(library)


_NVRTC = ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2")


def _in_packages(names: Sequence[str]) -> List[str]:
    """Libraries in NVIDIA's packages for Python."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or []) if spec is not None else []
    return [path for root in roots for name in names for path in sorted(glob.glob(f"{root}/*/lib/{name}"))]


@functools.lru_cache(None)
def compiler() -> Optional[Compiler]:
    """NVRTC; None where the toolkit is not."""
    library = _library([*_NVRTC, *_in_packages(_NVRTC)])
    return None if library is None else Compiler(library)


def compiled(source: str) -> Optional[bytes]:
    """PTX of CUDA C, for the device at hand or any; None where the toolkit is not."""
    found, device = compiler(), gpu()
    if found is None:
        return None
    return found.ptx(source, device.capability if device is not None else found.oldest)


_SCALARS = {
    "bool": ctypes.c_bool,
    **{f"{s}int{b}": getattr(ctypes, f"c_{s}int{b}") for s in ("", "u") for b in (8, 16, 32, 64)},
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


def scalar(value: Any, dtype: str) -> Any:
    """A number as a kernel's argument."""
    if dtype == "float16":
        return ctypes.c_uint16(int(np.float16(value).view("uint16")))
    if dtype not in _SCALARS:
        raise TVMError(f"an argument of type {dtype} is not supported on cuda")
    return _SCALARS[dtype](value)


def required() -> Gpu:
    """The first device; TVMError that says what else there is."""
    found = gpu()
    if found is None:
        raise TVMError("there is no CUDA device; AIPU_CUDA=emulate runs the kernels on this machine")
    return found
