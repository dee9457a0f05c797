"""What a model takes and gives, tensors and lists of them, and the checks of what a run is given."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from ._arrays import TensorSpec, input_array, output_array, shown
from ._stored_type import numpy_dtype


class ListSpec(NamedTuple):
    """An input or output of a model that is a sequence, an optional or a map: ``kind`` is ``"sequence"``,
    ``"optional"``, ``"optional sequence"``, ``"maps"`` (a sequence of them) or ``"map"``. Runs take and give a list of
    ``length`` arrays for a sequence, an array for an optional tensor, None for an optional without a value (``length``
    is None then), a dict for a map (``length`` is 2, its keys and its values) and a list of dicts for ``"maps"``.
    """

    name: str
    kind: str
    length: Optional[int]


class _TensorList:
    """A sequence, an optional or a map among the inputs or outputs, and the names of the tensors that it is made of:
    of maps the keys and the values."""

    KINDS = ("sequence", "optional", "optional sequence", "maps", "map")

    def __init__(self, kind: int, absent: bool, tensors: Sequence[TensorSpec]) -> None:
        self.kind = self.KINDS[kind]
        self.absent = absent
        self.tensors = tuple(tensors)
        self.names = [spec.name for spec in tensors]
        self._dtypes = [numpy_dtype(spec.dtype) for spec in tensors]

    def has_to_be_given(self) -> bool:
        return bool(self.names)

    def elements(self, name: str, value: Any) -> Dict[str, Any]:
        """The elements of what is given for it, by name."""
        if self.kind == "map":
            if not isinstance(value, Mapping):
                raise TypeError(f"input '{shown(name)}': a dict is expected, found {type(value).__name__}")
            parts = zip((list(value), list(value.values())), self._dtypes)
            return dict(zip(self.names, [np.array(part, dtype) for part, dtype in parts]))
        if self.absent:
            if value is not None:
                raise ValueError(f"input '{shown(name)}': the model was converted for an optional without a value")
            return {}
        if value is None:
            raise ValueError(f"input '{shown(name)}': the model was converted for an optional that has a value")
        values = [value] if self.kind == "optional" else value
        if isinstance(values, np.ndarray) or not hasattr(values, "__len__"):
            raise TypeError(f"input '{shown(name)}': a list of arrays is expected, found {type(values).__name__}")
        if len(values) != len(self.names):
            raise ValueError(
                f"input '{shown(name)}': the model was converted for {len(self.names)} elements, found {len(values)}"
            )
        return dict(zip(self.names, values))

    def value(self, results: Mapping[str, Any]) -> Any:
        """What a run gives for it."""
        if self.absent:
            return None
        values = [results[name] for name in self.names]
        if self.kind == "maps":
            keys = values[0].tolist()
            return [dict(zip(keys, row)) for row in values[1].tolist()]
        if self.kind == "map":
            return dict(zip(values[0].tolist(), values[1].tolist()))
        return values[0] if self.kind == "optional" else values


class Signature:
    """What a model takes and gives, and the checks of what a run is given."""

    def __init__(self, native: Any) -> None:
        self.inputs: Tuple[TensorSpec, ...] = tuple(TensorSpec(*spec) for spec in native.inputs)
        self.outputs: Tuple[TensorSpec, ...] = tuple(TensorSpec(*spec) for spec in native.outputs)
        self.tensors = (*self.inputs, *self.outputs)
        self.input_index = {spec.name: i for i, spec in enumerate(self.inputs)}
        self.output_index = {spec.name: i for i, spec in enumerate(self.outputs)}
        self.input_lists: Dict[str, _TensorList] = {}
        self.output_lists: Dict[str, _TensorList] = {}
        for name, is_input, kind, absent, first, count in native.lists:
            tensors = (self.inputs if is_input else self.outputs)[first : first + count]
            found = _TensorList(kind, absent, tensors)
            (self.input_lists if is_input else self.output_lists)[name] = found
        self._output_ports = tuple(self.ports(of_inputs=False).items())

    def ports(self, of_inputs: bool) -> Dict[str, Union[TensorSpec, _TensorList]]:
        """Inputs or outputs as the ONNX model has them: a list stands where its first tensor does, one without tensors
        at the end."""
        specs, lists = (self.inputs, self.input_lists) if of_inputs else (self.outputs, self.output_lists)
        owner = {element: name for name, found in lists.items() for element in found.names}
        found: Dict[str, Union[TensorSpec, _TensorList]] = {}
        for spec in specs:
            name = owner.get(spec.name, spec.name)
            found.setdefault(name, lists.get(name, spec))
        for name, without_tensors in lists.items():
            found.setdefault(name, without_tensors)
        return found

    def _flat(self, inputs: Mapping[str, Any]) -> Dict[str, Any]:
        """The arrays by the names of the model's tensors, those of lists too."""
        flat = {name: value for name, value in inputs.items() if name not in self.input_lists}
        for name, found in self.input_lists.items():
            if name in inputs:
                flat.update(found.elements(name, inputs[name]))
            elif found.has_to_be_given() and not all(element in inputs for element in found.names):
                raise ValueError(f"no value for input '{shown(name)}': every run takes all inputs")
        return flat

    def wanted_tensors(
        self, outputs: Union[Sequence[str], Mapping[str, np.ndarray], None]
    ) -> Union[Sequence[str], Mapping[str, np.ndarray], None]:
        """The tensors of outputs that may be lists."""
        if not self.output_lists or outputs is None or isinstance(outputs, (str, bytes)):
            return outputs
        if isinstance(outputs, Mapping):
            for name in outputs:
                if name in self.output_lists:
                    raise TypeError(f"output '{shown(name)}' is a list: it cannot be written into an array")
            return outputs
        tensors: List[str] = []
        for name in outputs:
            tensors += self.output_lists[name].names if name in self.output_lists else [name]
        return tensors

    def named(
        self, results: Dict[str, Any], outputs: Union[Sequence[str], Mapping[str, np.ndarray], None]
    ) -> Dict[str, Any]:
        """The results of a run with the elements of lists together."""
        if not self.output_lists:
            return results
        if outputs is not None:
            return {
                name: self.output_lists[name].value(results) if name in self.output_lists else results[name]
                for name in outputs
            }
        return {
            name: port.value(results) if isinstance(port, _TensorList) else results[name]
            for name, port in self._output_ports
        }

    def input_values(self, inputs: Mapping[str, Any]) -> List[np.ndarray]:
        """An array per input of the model."""
        if not isinstance(inputs, Mapping):
            raise TypeError(f"inputs: a mapping from names to arrays is expected, found {type(inputs).__name__}")
        if self.input_lists:
            inputs = self._flat(inputs)
        for name in inputs:
            if name not in self.input_index:
                raise ValueError(f"the model has no input '{shown(name)}' (there are: {shown(self.input_index)})")
        missing = [name for name in self.input_index if inputs.get(name) is None]
        if missing:
            raise ValueError(f"no value for input {', '.join(map(repr, missing))}: every run takes all inputs")
        return [input_array(spec, inputs[spec.name]) for spec in self.inputs]

    def wanted_outputs(
        self, outputs: Union[Sequence[str], Mapping[str, np.ndarray], None]
    ) -> Dict[str, Optional[np.ndarray]]:
        """The array given for each output that is wanted, or None."""
        if isinstance(outputs, (str, bytes)):
            raise TypeError(f"outputs: a list of names is expected, found {outputs!r}")
        outputs = self.wanted_tensors(outputs)
        names = self.output_index if outputs is None else outputs
        for name in names:
            if name not in self.output_index:
                raise ValueError(f"the model has no output '{shown(name)}' (there are: {shown(self.output_index)})")
        if isinstance(outputs, Mapping):
            return {name: output_array(self.outputs[self.output_index[name]], array) for name, array in outputs.items()}
        return dict.fromkeys(names)
