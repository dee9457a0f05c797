"""``with transform.PassContext(config={...}):``, for programs that are written for it.

What the known keys choose is how fast a function is or how its loops look, never what it computes: they are accepted,
and our lowering decides by itself. With ``tir.instrument_bound_checkers`` what is built for this CPU is interpreted,
which checks every access. Those that ask for something that there would have to be are refused.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from ._errors import TVMError

_HINTS = (
    "tir.InjectDoubleBuffer",
    "tir.LoopPartition",
    "tir.UnrollLoop",
    "tir.debug_keep_trivial_loop",
    "tir.disable_vectorize",
    "tir.instrument_bound_checkers",
    "tir.noalias",
)
_REFUSED = ("tir.add_lower_pass",)
_TAKEN = (*_HINTS, "te.keep_schedule_record")
_entered: List["PassContext"] = []


class PassContext:
    """Settings of what is lowered inside the ``with``.

    Raises:
        AttributeError: a key of ``config`` that there is not.
        TVMError: a key that is not supported.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Optional[Sequence[str]] = None,
        disabled_pass: Optional[Sequence[str]] = None,
        instruments: Optional[Sequence[Any]] = None,
        config: Optional[Dict[str, Any]] = None,
    ) -> None:
        self.opt_level, self.config = int(opt_level), dict(config or {})
        self.required_pass, self.disabled_pass = list(required_pass or []), list(disabled_pass or [])
        if instruments:
            raise TVMError("PassContext: instruments are not supported")
        for key, value in self.config.items():
            if key not in _TAKEN + _REFUSED:
                known = ", ".join(sorted(_TAKEN + _REFUSED))
                raise AttributeError(f"invalid config option '{key}'; known are {known}")
            if key in _REFUSED and value:
                raise TVMError(f"PassContext: '{key}' is not supported")

    @staticmethod
    def current() -> "PassContext":
        """The innermost one that a ``with`` is inside of."""
        return _entered[-1] if _entered else PassContext()

    def __enter__(self) -> "PassContext":
        _entered.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _entered.pop()
