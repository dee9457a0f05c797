"""Operators of your own, declared beside their kernels.

A file with ``@op.register(...)`` above a DSL kernel is all that ``aipugb model.onnx --plugin FILE.py`` needs to convert
models with that operator; the compiler reads the declaration itself, without Python. Imported as Python, as here, the
same file gives its kernels as ordinary DSL functions, to be run in PySim or built by ``aipu.tir.BuildManager``.
``kernels/ADDING_AN_OP.md`` is the guide.

Example::

    from aipu import op
    from aipu import script as S

    T = op.dtype("float32", "float16")

    @op.register("example::Twice", inputs={"x": op.tensor(T, "...n")}, outputs={"y": op.tensor(T, "...n")})
    @S.prim_func
    def twice(x: S.ptr(T, "global"), y: S.ptr(T, "global"), n: S.i32):
        for i in range(n):
            y[i] = x[i] + x[i]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._dtype import DataType, resolve_dtype_alias

__all__ = ["Operator", "Tensor", "dtype", "lanes", "operators", "register", "tensor"]

_NATIVE_BITS = 256
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")


@dataclass(frozen=True)
class Tensor:
    """An operand of an operator: its element type and its extents.

    Attributes:
        dtype: the element type; of a type variable its first choice.
        dims: names (``"cols"``), any number of extents (``"...rows"``) or integers; empty: any shape.
    """

    dtype: DataType
    dims: Tuple[Union[str, int], ...] = ()


@dataclass(frozen=True)
class Operator:
    """What a file declares about one operator (see :func:`register` for the fields)."""

    name: str
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    extents: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    shape: Optional[Callable[..., Any]] = None
    check: Optional[Callable[..., Optional[str]]] = None
    workspace: Mapping[str, Tensor] = field(default_factory=dict)
    kernels: Tuple[Any, ...] = ()
    grain: int = 0
    apart: Tuple[str, ...] = ()


_operators: Dict[str, Operator] = {}


def dtype(*choices: str) -> DataType:
    """A type variable: an element type that each node chooses.

    Args:
        *choices: the element types that the operator has kernels for, ``"float32"``, ``"float16"``, ...

    Returns:
        The first choice, as which the kernels of the file run in Python.

    Raises:
        ValueError: there is no choice.
    """
    if not choices:
        raise ValueError("op.dtype expects at least one element type")
    return [resolve_dtype_alias(choice) for choice in choices][0]


def lanes(of: str) -> int:
    """How many elements of a type a vector register of the target has; in Python that of the language's 256-bit
    vectors.
    """
    return _NATIVE_BITS // resolve_dtype_alias(of).bits


def tensor(element_type: str, *dims: Union[str, int]) -> Tensor:
    """An operand: a type variable or element type, and its extents.

    Args:
        element_type: from :func:`dtype`, or the name of a type.
        *dims: ``"cols"`` names one extent, ``"...rows"`` any number of them (the name then is their product), an
        integer fixes one. A
            name means the same extent wherever it is used. None: any shape.

    Raises:
        ValueError: an extent is neither a name nor an integer, or two of them stand for any number.
    """
    for dim in dims:
        name = dim[3:] if isinstance(dim, str) and dim.startswith("...") else dim
        if not (isinstance(name, str) and _NAME.match(name)) and not (isinstance(dim, int) and dim >= 0):
            raise ValueError(f'an extent is a name, any number of them ("...rows") or an integer, but got: {dim!r}')
    if sum(isinstance(dim, str) and dim.startswith("...") for dim in dims) > 1:
        raise ValueError("only one of a tensor's extents can stand for any number of them")
    return Tensor(resolve_dtype_alias(element_type), tuple(dims))


def register(
    name: str,
    *,
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Tensor],
    attributes: Optional[Mapping[str, Any]] = None,
    extents: Optional[Mapping[str, Callable[..., Any]]] = None,
    shape: Optional[Callable[..., Any]] = None,
    check: Optional[Callable[..., Optional[str]]] = None,
    workspace: Optional[Mapping[str, Tensor]] = None,
    kernels: Optional[Sequence[Any]] = None,
    grain: int = 0,
    apart: Sequence[str] = (),
) -> Callable[[Any], Any]:
    """Declares an operator; above its kernel as a decorator, or with ``kernels`` as a statement.

    Args:
        name: ``"domain::Name"``, the operator's domain and type in ONNX.
        inputs: the operands in ONNX's order, by name.
        outputs: the results, whose extents are those of inputs, of ``extents``, integers, or what ``shape`` returns.
        attributes: by name the default, or a type (``int``, ``float``, ``str``, ``[int]``, ...) for those a node must
            have.
        extents: further extents as functions of those before them; parameters are bound by name to extents,
            attributes, and, for inputs, to the list of their extents.
        shape: a function like those of ``extents`` that returns the extents of the output, or a list of them for each.
        check: a function like those of ``extents`` that returns what is wrong with a node, or None.
        workspace: scratch memory of a node, which all its kernels see.
        kernels: DSL functions that run in this order. Their parameters are bound by name: tensors to pointers, extents
            and number attributes to scalars.
        grain: elements of the outputs per TEC below which fewer TECs are used; 0: always all.
        apart: names of extents of inputs and outputs along which positions are computed apart from each other, by the
            same rule: a batch may then be computed sample by sample, and operators whose tensors are all ``"...n"``
            take any layout.

    Returns:
        A decorator that returns the kernel as it is.

    Raises:
        ValueError: the name is not of the form ``domain::Name``, or no output is named.
    """
    if not re.match(r"[^:]+::[A-Za-z_][A-Za-z_0-9]*\Z", name):
        raise ValueError(f'"{name}" is not of the form "domain::Name"')
    if not outputs:
        raise ValueError("an operator has at least one output")

    def add(functions: Sequence[Any]) -> None:
        _operators[name] = Operator(
            name,
            dict(inputs),
            dict(outputs),
            dict(attributes or {}),
            dict(extents or {}),
            shape,
            check,
            dict(workspace or {}),
            tuple(functions),
            grain,
            tuple(apart),
        )

    if kernels is not None:
        add(kernels)

    def decorate(kernel: Any) -> Any:
        add([kernel])
        return kernel

    return decorate


def operators() -> List[Operator]:
    """The operators that have been declared in this process, in the order of their declarations."""
    return list(_operators.values())
