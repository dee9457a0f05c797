"""The calls of the package ``onnxruntime``, so that trying aipu is changing one import::

    import aipu.onnxruntime as ort  # was: import onnxruntime as ort

    session = ort.InferenceSession("model.onnx")
    scores = session.run(None, {"input": image})[0]

A model is converted when its session is made, and the conversion is kept (:class:`InferenceSession`). What aipu lacks
is an error that says so; the package ``onnxruntime`` need not be installed.
"""

import warnings as _warnings
from typing import Any as _Any
from typing import List as _List
from typing import Optional as _Optional

from .. import __version__
from ._errors import (
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoSuchFile,
    NotImplemented,
    RuntimeException,
)
from ._options import ExecutionMode, ExecutionOrder, GraphOptimizationLevel, RunOptions, SessionOptions
from ._session import (
    PROVIDERS,
    InferenceSession,
    ModelMetadata,
    NodeArg,
    OrtAllocatorType,
    OrtMemType,
    SessionIOBinding,
)
from ._values import IOBinding, OrtDevice, OrtValue

from . import capi  # isort: skip


def get_available_providers() -> _List[str]:
    """What a session can run on: aipu, under its own name and that of ONNX Runtime's CPU provider."""
    return list(PROVIDERS)


def get_all_providers() -> _List[str]:
    """The same as :func:`get_available_providers`."""
    return list(PROVIDERS)


def get_device() -> str:
    """``"CPU"``: where inputs are read and outputs written."""
    return "CPU"


def get_version_string() -> str:
    """The version of aipu."""
    return __version__


def get_build_info() -> str:
    """Who this is."""
    return f"aipu {__version__}, with the calls of onnxruntime"


def set_default_logger_severity(severity: int) -> None:
    """Taken and without effect: aipu does not log, what it has to say is an error or a warning of Python's."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """As :func:`set_default_logger_severity`."""


def disable_telemetry_events() -> None:
    """Nothing to disable: aipu sends nothing."""


def enable_telemetry_events() -> None:
    """Refused: aipu sends nothing. NotImplementedError."""
    raise NotImplementedError("aipu.onnxruntime: there is no telemetry")


def set_seed(seed: int) -> None:
    """Without effect, which a UserWarning says: the seed of random operators is an attribute of their nodes."""
    _warnings.warn("set_seed is without effect: random operators have an attribute 'seed'", stacklevel=2)


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: _Optional[str] = None) -> None:
    """Nothing to load: aipu needs no libraries of a GPU's."""


def print_debug_info() -> None:
    """Prints what :func:`get_build_info` says."""
    print(get_build_info())


def __getattr__(name: str) -> _Any:
    raise AttributeError(
        f"aipu.onnxruntime has no '{name}': what it has of onnxruntime is in frontend/python/README.md"
    )


# Python's own NotImplemented stays what it is for who writes `import *`.
__all__ = [name for name in globals() if not name.startswith("_") and name not in ("NotImplemented", "PROVIDERS")]
