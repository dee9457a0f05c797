"""The exceptions of the package."""

from __future__ import annotations

import sys


class TVMError(RuntimeError):
    """Base of the errors of parsing and of the intermediate representation (under the name users of the language
    know).
    """


class DiagnosticError(TVMError):
    """A kernel does not obey the language. The diagnostics have been printed to stderr; ``diagnostics`` is their
    text.
    """

    def __init__(self, text: str) -> None:
        first, _, rest = text.partition("\n")
        super().__init__(f"Diagnostics were emitted, please check stderr: {first}")
        self.diagnostics = rest or f"error: {first}\n"

    def emit(self) -> "DiagnosticError":
        """Prints the diagnostics to stderr."""
        sys.stderr.write(self.diagnostics if self.diagnostics.endswith("\n") else self.diagnostics + "\n")
        sys.stderr.flush()
        return self


class CompassCodeGenCError(RuntimeError):
    """A kernel is fine but cannot be brought to the target: an operation that it lacks, memory that it does not
    have.
    """


class CompassCompileCError(RuntimeError):
    """The C compiler refused the generated C, or there is none."""

    def __init__(self, text: str) -> None:
        super().__init__(f"Compass OpenCL Compilation Error:\n{text}")


class DecorationError(ValueError, AssertionError):
    """A function that should be a kernel is not decorated."""
