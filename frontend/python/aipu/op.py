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

import contextlib
import re
import sys
import types
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ._capture import remember_exec_source
from ._dtype import DataType, resolve_dtype_alias

__all__ = [
    "Lanes",
    "Operator",
    "Tensor",
    "TypeVariable",
    "dtype",
    "elementwise",
    "lanes",
    "operators",
    "optional",
    "register",
    "tensor",
    "using",
    "variadic",
]

_NATIVE_BITS = 256
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")


class TypeVariable(DataType):
    """What :func:`dtype` returns: the first choice, which knows the others.

    Attributes:
        choices: the element types that a node may have.
    """

    choices: Tuple[DataType, ...]

    def __new__(cls, choices: Sequence[DataType]) -> "TypeVariable":
        self = str.__new__(cls, str(choices[0]))
        self.__dict__.update(choices[0].__dict__)
        self.choices = tuple(choices)
        return self


class Lanes(int):
    """What :func:`lanes` returns: a number of elements, which knows of what.

    Attributes:
        of: the element type, or type variable.
    """

    of: DataType


@dataclass(frozen=True)
class Tensor:
    """An operand of an operator: its element type and its extents.

    Attributes:
        dtype: the element type; of a type variable its first choice.
        dims: names (``"cols"``), any number of extents (``"...rows"``) or integers; empty: any shape.
        optional: a node may leave the input out.
        variadic: any number of tensors; the last of the inputs or outputs.
    """

    dtype: DataType
    dims: Tuple[Union[str, int], ...] = ()
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True)
class Operator:
    """What a file declares about one operator (see :func:`register` and :func:`elementwise` for the fields)."""

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
    value: Optional[Callable[..., Any]] = None
    compute: Optional[Callable[..., Any]] = None
    # The names that can be seen where it is declared.
    names: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


_operators: Dict[str, Operator] = {}


def dtype(*choices: str) -> TypeVariable:
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
    return TypeVariable([resolve_dtype_alias(choice) for choice in choices])


def lanes(of: str) -> Lanes:
    """How many elements of a type a vector register of the target has; in Python that of the language's 256-bit
    vectors.
    """
    count = Lanes(_NATIVE_BITS // resolve_dtype_alias(of).bits)
    count.of = of if isinstance(of, TypeVariable) else resolve_dtype_alias(of)
    return count


def tensor(element_type: str, *dims: Union[str, int]) -> Tensor:
    """An operand: a type variable or element type, and its extents.

    Args:
        element_type: from :func:`dtype`, or the name of a type.
        *dims: ``"cols"`` names one extent, ``"...rows"`` any number of them (the name then is their product), an
            integer fixes one. A name means the same extent wherever it is used. None: any shape.

    Raises:
        ValueError: an extent is neither a name nor an integer, or two of them stand for any number.
    """
    for dim in dims:
        name = dim[3:] if isinstance(dim, str) and dim.startswith("...") else dim
        if not (isinstance(name, str) and _NAME.match(name)) and not (isinstance(dim, int) and dim >= 0):
            raise ValueError(f'an extent is a name, any number of them ("...rows") or an integer, but got: {dim!r}')
    if sum(isinstance(dim, str) and dim.startswith("...") for dim in dims) > 1:
        raise ValueError("only one of a tensor's extents can stand for any number of them")
    of = element_type if isinstance(element_type, TypeVariable) else resolve_dtype_alias(element_type)
    return Tensor(of, tuple(dims))


def optional(element_type: str, *dims: Union[str, int]) -> Tensor:
    """An input that a node may leave out; what kernels and functions then see is None. Arguments as :func:`tensor`."""
    plain = tensor(element_type, *dims)
    return Tensor(plain.dtype, plain.dims, optional=True)


def variadic(element_type: str, *dims: Union[str, int]) -> Tensor:
    """Any number of tensors, none included: the last of the inputs or of the outputs; kernels and functions see a
    list. Arguments as :func:`tensor`; a name means the same extent in each of them.
    """
    plain = tensor(element_type, *dims)
    return Tensor(plain.dtype, plain.dims, variadic=True)


def _check(name: str, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
    if not re.match(r"[^:]+::[A-Za-z_][A-Za-z_0-9]*\Z", name):
        raise ValueError(f'"{name}" is not of the form "domain::Name"')
    if not outputs:
        raise ValueError("an operator has at least one output")
    for which, tensors in (("inputs", inputs), ("outputs", outputs)):
        for key in list(tensors)[:-1]:
            if tensors[key].variadic:
                raise ValueError(f'{name}: "{key}" is variadic, so it must be the last of the {which}')
    for key, output in outputs.items():
        if output.optional:
            raise ValueError(f'{name}: "{key}": only inputs can be optional (a node may leave out any output)')


def _check_compute(name: str, outputs: Mapping[str, Tensor], **others: Any) -> None:
    for key, value in others.items():
        if value:
            raise ValueError(f"{name}: compute makes {key} superfluous")
    for key, output in outputs.items():
        if output.dims or output.variadic:
            raise ValueError(f'{name}: the extents of "{key}" follow from compute')


def _caller_names() -> Dict[str, Any]:
    """The names where an operator is declared that are no globals: kernels may be defined in a function."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)


def _default_values(attributes: Mapping[str, Any]) -> Dict[str, Any]:
    """The attributes that have a value without a node."""

    def is_type(value: Any) -> bool:
        return isinstance(value, type) or (isinstance(value, list) and any(isinstance(v, type) for v in value))

    return {name: value for name, value in attributes.items() if not is_type(value)}


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
    compute: Optional[Callable[..., Any]] = None,
) -> Callable[[Any], Any]:
    """Declares an operator; above its kernel as a decorator, or with ``kernels`` or ``compute`` as a statement.

    Args:
        name: ``"domain::Name"``, the operator's domain and type in ONNX.
        inputs: the operands in ONNX's order, by name.
        outputs: the results, whose extents are those of inputs, of ``extents``, integers, or what ``shape`` returns.
        attributes: by name the default, or a type (``int``, ``float``, ``str``, ``[int]``, ...) for those a node must
            have.
        extents: further extents as functions of those before them; parameters are bound by name to extents,
            attributes, for inputs to the list of their extents (None where it is left out, a list of lists where it
            is variadic), and for variadic outputs to their number. One that returns a list is a list in kernels too.
        shape: a function like those of ``extents`` that returns the extents of the output, or a list of them for each.
        check: a function like those of ``extents`` that returns what is wrong with a node, or None.
        workspace: scratch memory of a node, which all its kernels see.
        kernels: DSL functions that run in this order. Their parameters are bound by name: tensors to pointers, extents
            and number attributes to scalars; what is variadic to lists, what a node leaves out to None.
        grain: elements of the outputs per TEC below which fewer TECs are used; 0: always all.
        apart: names of extents of inputs and outputs along which positions are computed apart from each other, by the
            same rule: a batch may then be computed sample by sample, and operators whose tensors are all ``"...n"``
            take any layout.
        compute: instead of kernels: a function of the inputs as tensors of :mod:`aipu.te`, extents and attributes by
            name, that returns what ``te.compute`` returns, for several outputs a list. The extents of the outputs and
            the kernel follow from it. It may use what ``kernels/ADDING_AN_OP.md`` lists of ``te`` and ``tir``.

    Returns:
        A decorator that returns the kernel as it is; with ``kernels`` or ``compute`` the operator is declared already.

    Raises:
        ValueError: the name is not of the form ``domain::Name``, no output is named, a tensor cannot be optional or
            variadic where it is, or ``compute`` stands beside what it makes superfluous.
    """
    _check(name, inputs, outputs)
    if compute is not None:
        _check_compute(name, outputs, kernels=kernels, workspace=workspace, shape=shape, extents=extents, apart=apart)
        remember_exec_source(compute)

    def add(functions: Sequence[Any]) -> None:
        operator = Operator(
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
            compute=compute,
            names=_caller_names(),
        )
        _operators[name] = operator
        for function in functions:
            function.operator = operator
            function.names = {**getattr(function, "names", {}), **_default_values(operator.attributes)}

    if kernels is not None or compute is not None:
        add(kernels or ())

    def decorate(kernel: Any) -> Any:
        add([kernel])
        return kernel

    return decorate


def elementwise(
    name: str,
    *,
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Tensor],
    attributes: Optional[Mapping[str, Any]] = None,
    check: Optional[Callable[..., Optional[str]]] = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares an operator whose output elements depend on the elements of the inputs at the same place, by the
    function below it. It needs no kernel, has any shape and layout, and is fused with its neighbours.

    The function's parameters are inputs and attributes by name. It gets a vector for each input (float32 for 16-bit
    floats, a mask for bools; None where it is left out, a list where it is variadic) and attributes as compile-time
    values, and returns the vector of the output.

    Args:
        name: ``"domain::Name"``, the operator's domain and type in ONNX.
        inputs: the operands in ONNX's order, by name, without extents: they are broadcast as NumPy does it.
        outputs: the one result, without extents.
        attributes: as in :func:`register`.
        check: a function of attributes that returns what is wrong with a node, or None.

    Returns:
        A decorator that returns the function as it is.

    Raises:
        ValueError: as :func:`register`; there are several outputs, or extents.
    """
    _check(name, inputs, outputs)
    if len(outputs) != 1 or any(t.variadic for t in outputs.values()):
        raise ValueError(f"{name}: an operator of op.elementwise has one output; op.register takes any number")
    for key, declared in (*inputs.items(), *outputs.items()):
        if declared.dims:
            raise ValueError(f'{name}: "{key}" has extents, but the tensors of op.elementwise have any shape')

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not isinstance(function, types.FunctionType):
            raise ValueError(f"{name}: op.elementwise stands above a plain function, found {function!r}")
        remember_exec_source(function)
        operator = Operator(
            name,
            dict(inputs),
            dict(outputs),
            dict(attributes or {}),
            check=check,
            value=function,
            names=_caller_names(),
        )
        _operators[name] = operator
        function.operator = operator  # type: ignore[attr-defined]
        return function

    return decorate


@contextlib.contextmanager
def using(kernel: Any, **values: Any) -> Iterator[None]:
    """Other values of attributes for a kernel that is built or run from Python: ``with op.using(kernel, taps=3):``."""
    before = kernel.names
    kernel.names = {**before, **values}
    try:
        yield
    finally:
        kernel.names = before


def operators() -> List[Operator]:
    """The operators that have been declared in this process, in the order of their declarations."""
    return list(_operators.values())
