"""SessionOptions, RunOptions and their enumerations."""

from __future__ import annotations

import enum
from typing import Any, Dict, Mapping


class GraphOptimizationLevel(enum.IntEnum):
    """Taken for the script's sake: aipu always optimises, and keeps results within rounding."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Taken for the script's sake: independent parts of a model run side by side where the target's engines do."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """Taken for the script's sake."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


def _unsupported(what: str, instead: str) -> NotImplementedError:
    return NotImplementedError(f"aipu.onnxruntime: {what} is not supported; {instead}")


class _Attributes:
    """Attributes that are there, each with the type of its default; another name is an error, as in onnxruntime."""

    _defaults: Dict[str, Any] = {}

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_entries", {})

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            raise AttributeError(f"{type(self).__name__} has no '{name}'")
        kind = type(self._defaults[name])
        try:
            object.__setattr__(self, name, kind(value))
        except (TypeError, ValueError):
            raise TypeError(f"{type(self).__name__}.{name}: expected {kind.__name__}, found {value!r}") from None


class SessionOptions(_Attributes):
    """How a session is made.

    These count: ``intra_op_num_threads`` (threads of a run, 0: as many as there are CPUs), ``enable_profiling`` and
    ``profile_file_prefix`` (Chrome's trace format), and :meth:`add_free_dimension_override_by_name`. These are taken
    and change nothing that a result shows: the optimisation level, execution mode and order, ``inter_op_num_threads``,
    memory and log options, config entries. Runs are deterministic whatever ``use_deterministic_compute`` says.
    """

    _defaults = {
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0,
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_extents", {})
        object.__setattr__(self, "_providers", [])

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "optimized_model_filepath" and value:
            raise _unsupported("optimized_model_filepath", "aipu.build(..., dump_ir=FOLDER) shows the graph per pass")
        if name == "intra_op_num_threads" and not 0 <= int(value) <= 1024:
            raise ValueError(f"intra_op_num_threads: expected a number from 0 to 1024, found {value}")
        super().__setattr__(name, value)

    def add_provider(self, name: str, options: Mapping[str, Any]) -> None:
        """A provider for sessions that are given none, as in the list ``providers``."""
        self._providers.append((name, dict(options)))  # type: ignore[attr-defined]

    def has_providers(self) -> bool:
        """Whether :meth:`add_provider` was called."""
        return bool(self._providers)  # type: ignore[attr-defined]

    def add_free_dimension_override_by_name(self, name: str, extent: int) -> None:
        """Fixes the extent of a symbol in all inputs that have it. ValueError for an extent below 0."""
        if int(extent) < 0:
            raise ValueError(f"'{name}': expected an extent of at least 0, found {extent}")
        self._extents[name] = int(extent)  # type: ignore[attr-defined]

    def add_free_dimension_override_by_denotation(self, denotation: str, extent: int) -> None:
        """Refused: NotImplementedError."""
        raise _unsupported("an override by denotation", "use add_free_dimension_override_by_name")

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Kept, and given back by :meth:`get_session_config_entry`; without effect."""
        self._entries[str(key)] = str(value)  # type: ignore[attr-defined]

    def get_session_config_entry(self, key: str) -> str:
        """What :meth:`add_session_config_entry` was given; RuntimeError if nothing was."""
        if key not in self._entries:  # type: ignore[attr-defined]
            raise RuntimeError(f"SessionOptions does not have configuration with key: {key}")
        return self._entries[key]  # type: ignore[attr-defined]

    def register_custom_ops_library(self, path: str) -> None:
        """Refused: NotImplementedError. Operators of one's own are ``plugins`` of aipu."""
        raise _unsupported(
            "a library of custom operators",
            "give plugins in the options of the provider, providers=[('AipuExecutionProvider', {'plugins': [...]})]",
        )

    def add_initializer(self, name: str, value: Any) -> None:
        """Refused: NotImplementedError."""
        raise _unsupported("add_initializer", "put the value into the model")

    def add_external_initializers(self, names: Any, values: Any) -> None:
        """Refused: NotImplementedError."""
        raise _unsupported("add_external_initializers", "put the values into the model")


class RunOptions(_Attributes):
    """How a run is made: taken for the script's sake. ``terminate`` is refused when the run begins."""

    _defaults = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Kept, and given back by :meth:`get_run_config_entry`; without effect."""
        self._entries[str(key)] = str(value)  # type: ignore[attr-defined]

    def get_run_config_entry(self, key: str) -> str:
        """What :meth:`add_run_config_entry` was given; RuntimeError if nothing was."""
        if key not in self._entries:  # type: ignore[attr-defined]
            raise RuntimeError(f"RunOptions does not have configuration with key: {key}")
        return self._entries[key]  # type: ignore[attr-defined]
