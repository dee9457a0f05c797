"""The exceptions under the names that users know."""

from ._errors import DiagnosticError, TVMError

InternalError = TVMError  # a failed check: of calls, of schedules

__all__ = ["DiagnosticError", "InternalError", "TVMError"]
