"""OrtValue and IOBinding: values on the CPU, and which of them a run reads and writes."""

from __future__ import annotations

import copy
import ctypes
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .. import _native
from .._stored_type import numpy_dtype
from ._errors import InvalidArgument

# Numbers of ONNX's TensorProto.DataType, of the types that NumPy has.
_NUMBERS = {name: number for name, _, number, held in _native.element_types() if held == name}
_NUMBERS.update(string=8, complex64=14, complex128=15)
# With those whose arrays hold codes.
_ALL_NUMBERS = {name: number for name, _, number, _ in _native.element_types()} | _NUMBERS
# What onnxruntime calls a type in "tensor(...)", where that is another name.
_NAMES_THERE = {"float32": "float", "float64": "double"}


def type_name(dtype: str) -> str:
    """``"float32"`` as ``"tensor(float)"``."""
    return f"tensor({_NAMES_THERE.get(dtype, dtype)})"


def list_type_name(kind: str, dtypes: Sequence[str]) -> str:
    """``"maps"`` of int64 and float32 as ``"seq(map(int64,tensor(float)))"``; the elements of what is empty are
    undefined."""
    if kind in ("map", "maps"):
        text = f"map({dtypes[0]},{type_name(dtypes[1])})"
        return text if kind == "map" else f"seq({text})"
    element = type_name(dtypes[0] if dtypes else "undefined")
    return {"sequence": f"seq({element})", "optional": f"optional({element})"}.get(kind, f"optional(seq({element}))")


def _dtype_name(array: np.ndarray) -> str:
    return "string" if array.dtype.kind in "OUS" else array.dtype.name


def _name_of(element_type: int) -> str:
    name = next((name for name, number in _ALL_NUMBERS.items() if number == element_type), None)
    if name is None:
        raise InvalidArgument(f"element type {element_type} is not supported")
    return name


def dtype_of(element_type: Any) -> np.dtype:
    """A NumPy dtype of what calls take as element type: a dtype, a type, or a number of TensorProto.DataType."""
    if not isinstance(element_type, int):
        return np.dtype(element_type)
    name = _name_of(element_type)
    try:
        return numpy_dtype(name)
    except TypeError:
        raise InvalidArgument(f"arrays of {name} need the package ml_dtypes") from None


def _on_cpu(device_type: str, device_id: int = 0) -> None:
    if device_type not in ("cpu", "default"):
        raise InvalidArgument(f"device '{device_type}': aipu reads and writes the CPU's memory only")
    if device_id != 0:
        raise InvalidArgument(f"device_id {device_id}: there is one CPU, 0")


class OrtDevice:
    """A device; the CPU is the only one."""

    def __init__(self, device_type: str = "cpu", device_id: int = 0) -> None:
        _on_cpu(device_type, device_id)

    @staticmethod
    def make(device_name: str, device_id: int, vendor_id: int = -1) -> "OrtDevice":
        """The device of that name; InvalidArgument unless it is ``"cpu"``."""
        return OrtDevice(device_name, device_id)

    def device_id(self) -> int:
        """0."""
        return 0

    def device_type(self) -> str:
        """``"cpu"``."""
        return "cpu"


class OrtValue:
    """A value on the CPU: a NumPy array, or what runs give for sequences and maps, with onnxruntime's names for what it
    has. What only a tensor has is a RuntimeError for others.
    """

    def __init__(self, value: Any, type_text: str = "", element: str = "") -> None:
        self._value = value
        self._type = type_text
        self._element = element  # what the codes of a tensor stand for, where its array does not say

    @property
    def _array(self) -> np.ndarray:
        if not isinstance(self._value, np.ndarray):
            raise RuntimeError(f"only a tensor has that, the value is a {self._type or type(self._value).__name__}")
        return self._value

    @classmethod
    def ortvalue_from_numpy(cls, numpy_obj: np.ndarray, device_type: str = "cpu", device_id: int = 0) -> "OrtValue":
        """Of an array, which is not copied if it is C-contiguous."""
        _on_cpu(device_type, device_id)
        return cls(np.asarray(numpy_obj, order="C"))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> "OrtValue":
        """Of fresh memory, which holds zeros; ``element_type`` is a dtype or a number of TensorProto.DataType."""
        _on_cpu(device_type, device_id)
        element = _name_of(element_type) if isinstance(element_type, int) else ""
        return cls(np.zeros(tuple(shape), dtype_of(element_type)), element=element)

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, onnx_element_type: int) -> "OrtValue":
        """Of the same memory as elements of another type of the same size, such as uint16 as float16 (10), or as
        bfloat16 (16) where the package ml_dtypes is; ``onnx_element_type`` is a number of TensorProto.DataType.
        InvalidArgument for one of another size.
        """
        name = _name_of(onnx_element_type)
        if name == "string":
            raise InvalidArgument("strings have no memory to read as another type")
        array, dtype = np.asarray(data, order="C"), dtype_of(onnx_element_type)
        if array.dtype.itemsize != dtype.itemsize:
            raise InvalidArgument(f"{name} has {dtype.itemsize} bytes, {array.dtype} {array.dtype.itemsize}")
        return cls(array.view(dtype), element=name)

    @classmethod
    def from_dlpack(cls, data: Any, is_bool_tensor: bool = False) -> "OrtValue":
        """Of whatever has ``__dlpack__`` on the CPU, without a copy; ``is_bool_tensor`` reads bytes as bool."""
        array = np.from_dlpack(data)
        return cls(array.view(np.bool_) if is_bool_tensor and array.dtype.itemsize == 1 else array)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self._array.__dlpack_device__()

    def numpy(self) -> np.ndarray:
        """The array itself; onnxruntime gives a copy."""
        return self._array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        array = self._array if dtype is None else self._array.astype(dtype, copy=False)
        return array.copy() if copy else array

    def shape(self) -> List[int]:
        """Its extents."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """Such as ``"tensor(float)"``."""
        return type_name(self._element or _dtype_name(self._value)) if self.is_tensor() else self._type

    def element_type(self) -> int:
        """Its number in TensorProto.DataType."""
        return _ALL_NUMBERS[self._element or _dtype_name(self._array)]

    def data_ptr(self) -> int:
        """The address of its first element."""
        return self._array.ctypes.data

    def tensor_size_in_bytes(self) -> int:
        """Bytes of its elements."""
        return self._array.nbytes

    def device_name(self) -> str:
        """``"cpu"``."""
        return "cpu"

    def has_value(self) -> bool:
        """False for an optional without a value."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether it is one array."""
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        """Whether it is a list of arrays."""
        return isinstance(self._value, list) and all(isinstance(element, np.ndarray) for element in self._value)

    def is_sparse_tensor(self) -> bool:
        """False."""
        return False

    def update_inplace(self, data: "np.ndarray | OrtValue") -> None:
        """Copies an array of the same shape and dtype into it, or the value that another has; InvalidArgument for
        another.
        """
        np_arr = data._array if isinstance(data, OrtValue) else data
        if np_arr.shape != self._array.shape or np_arr.dtype != self._array.dtype:
            raise InvalidArgument(
                f"expected {self._array.dtype}{list(self._array.shape)}, found {np_arr.dtype}{list(np_arr.shape)}"
            )
        np.copyto(self._array, np_arr)


def _array_at(pointer: int, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = (ctypes.c_byte * size).from_address(pointer)
    return np.frombuffer(memory, dtype).reshape(tuple(shape))


class IOBinding:
    """Which arrays the runs of a session read and write. Made by ``session.io_binding()``."""

    def __init__(self, session: Any) -> None:
        self._inputs_known = {value.name for value in session.get_inputs()}
        self._output_types = {value.name: value.type for value in session.get_outputs()}
        self._inputs: Dict[str, np.ndarray] = {}
        self._outputs: Dict[str, Optional[np.ndarray]] = {}
        self._results: Dict[str, np.ndarray] = {}

    def _input(self, name: str, array: np.ndarray) -> None:
        if name not in self._inputs_known:
            raise InvalidArgument(f"the model has no input '{name}'")
        self._inputs[name] = array

    def _output(self, name: str, array: Optional[np.ndarray]) -> None:
        if name not in self._output_types:
            raise InvalidArgument(f"the model has no output '{name}'")
        self._outputs[name] = array

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Runs read this array, in place if it is C-contiguous."""
        self._input(name, arr_on_cpu)

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Runs read the memory at an address, which must hold that many elements and outlive the binding."""
        _on_cpu(device_type, device_id)
        self._input(name, _array_at(buffer_ptr, shape, dtype_of(element_type)))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Runs read this value in place."""
        self._input(name, ortvalue._value)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Optional[Sequence[int]] = None,
        buffer_ptr: Optional[int] = None,
    ) -> None:
        """Runs give this output: in memory of its own, or with ``buffer_ptr`` at that address."""
        _on_cpu(device_type, device_id)
        if buffer_ptr is None:
            self._output(name, None)
            return
        if element_type is None or shape is None:
            raise InvalidArgument(f"output '{name}': an address needs element_type and shape")
        self._output(name, _array_at(buffer_ptr, shape, dtype_of(element_type)))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Runs write into this value."""
        self._output(name, ortvalue.numpy())

    def synchronize_inputs(self) -> None:
        """Nothing to wait for: all memory is the CPU's."""

    def synchronize_outputs(self) -> None:
        """As :meth:`synchronize_inputs`."""

    def get_outputs(self) -> List[OrtValue]:
        """What the last run gave, in the order in which outputs were bound."""
        return [OrtValue(value, self._output_types[name]) for name, value in self._results.items()]

    get_outputs_as_ortvaluevector = get_outputs

    def copy_outputs_to_cpu(self) -> List[np.ndarray]:
        """Copies of what the last run gave, in the order in which outputs were bound."""
        return [copy.deepcopy(value) for value in self._results.values()]

    def clear_binding_inputs(self) -> None:
        """Forgets all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forgets all outputs."""
        self._outputs.clear()
        self._results = {}

    def _arguments(self) -> Tuple[Dict[str, np.ndarray], Dict[str, Optional[np.ndarray]]]:
        return self._inputs, self._outputs
