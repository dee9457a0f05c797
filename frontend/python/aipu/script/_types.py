"""Type objects (``S.i32``, ``S.fp16x16``, ``S.size_i32``), pointer annotations, and the names under which they are
found.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Optional

from .._dtype import DataType
from ._convert import cast
from ._pointer import pointee_type

_SCOPES = ("global", "global.1", "global.2", "global.3", "lsram", "shared", "private", "constant")


class TypeObject:
    """A scalar, vector or mask type: an annotation of parameters and results and, but for bools, a conversion when
    called.

    ``dtype`` is the type; ``is_size`` says that values are known to be non-negative (``S.size_i32``).
    """

    __slots__ = ("dtype", "is_size")

    def __init__(self, dtype: DataType, is_size: bool = False) -> None:
        self.dtype = dtype
        self.is_size = is_size

    def __call__(self, v: Any) -> Any:
        """``S.cast(v, dtype)``: a number, expression, vector, ``"inf"``, ``"-inf"``, ``"nan"``, or a vector's lanes."""
        if self.dtype.is_bool:
            raise AssertionError("The function only can be used in type annotation.")
        return cast(v, self.dtype)

    def __repr__(self) -> str:
        return f"S.{'size_' if self.is_size else ''}{self.dtype}"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, TypeObject) and (self.dtype, self.is_size) == (other.dtype, other.is_size)

    def __hash__(self) -> int:
        return hash((self.dtype, self.is_size))


class PointerType:
    """The annotation ``S.ptr(dtype, scope)``."""

    __slots__ = ("dtype", "scope")

    def __init__(self, dtype: DataType, scope: str) -> None:
        self.dtype = dtype
        self.scope = scope

    def __repr__(self) -> str:
        return f'S.ptr("{self.dtype}", "{self.scope}")'

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, PointerType) and (self.dtype, self.scope) == (other.dtype, other.scope)

    def __hash__(self) -> int:
        return hash((self.dtype, self.scope))


def ptr(dtype: Any, scope: str = "private") -> PointerType:
    """The annotation of a pointer parameter or result.

    ``dtype`` is one of the storage types or ``"void"``, with any number of lanes; ``scope`` one of ``global``,
    ``global.1`` (constant tensors), ``global.2``, ``global.3``, ``lsram``, ``shared``, ``private``, ``constant``.
    AssertionError for others.
    """
    resolved = pointee_type(dtype)
    assert scope in _SCOPES, f'The arg "scope" expect one of ({", ".join(_SCOPES)}), but got: "{scope}".'
    return PointerType(resolved, scope)


_ELEMENTS = {
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32)},
    **{f"fp{bits}": f"float{bits}" for bits in (16, 32)},
}
_BASES = {**_ELEMENTS, **{name: name for name in _ELEMENTS.values()}, "bool": "bool"}
_NAME = re.compile(r"(size_)?(" + "|".join(sorted(_BASES, key=len, reverse=True)) + r")(?:x([1-9][0-9]*))?")
_cache: Dict[str, TypeObject] = {}


def _predefine() -> None:
    for name in ("bf16", "bfloat16"):
        _cache[name] = TypeObject(DataType("bfloat16"))
        _cache[f"{name}x16"] = TypeObject(DataType("bfloat16x16"))


_predefine()


def find_type(name: str) -> Optional[TypeObject]:
    """The type object of a name such as ``fp32x20`` or ``size_i32``, made on first use; None for anything else."""
    found = _cache.get(name)
    if found is not None:
        return found
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    base, lanes = _BASES[match[2]], int(match[3] or 1)
    if match[1] and not base.startswith("int"):
        return None
    if base == "bool" and match[3] is None and match[1]:
        return None
    dtype = DataType(base if lanes == 1 else f"{base}x{lanes}")
    made = _cache.setdefault(str(dtype) if not match[1] else f"size_{dtype}", TypeObject(dtype, bool(match[1])))
    return _cache.setdefault(name, made)


def predefined_names() -> "list[str]":
    """The names that exist without being asked for: scalars, native vectors and the usual multiple widths, in both
    spellings.
    """
    names = ["bool", "boolx8", "boolx16", "boolx32", "bf16", "bfloat16", "bf16x16", "bfloat16x16"]
    for alias, name in _ELEMENTS.items():
        bits = int(re.sub(r"\D", "", name))
        widths = ["", f"x{256 // bits}"]
        widths += {16: ["x32"], 32: ["x16", "x32"] if "float" not in name else ["x16"]}.get(bits, [])
        for spelling in (alias, name):
            names += [spelling + width for width in widths]
            if name.startswith("int"):
                names.append("size_" + spelling)
    return names
