"""``S.record``: types with named fields; and values as what an annotation declares."""

from __future__ import annotations

import difflib
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, NoReturn, Tuple

import numpy as np

from .._dtype import DataType
from ._core import Scalar, Vector, convert, wrap
from ._pointer import Pointer, _Memory, constant_buffer
from ._pysim import running
from ._types import PointerType, TypeObject


class Field(NamedTuple):
    """A field of a record."""

    name: str
    annotation: Any  # a TypeObject, a PointerType, a record, or a list of these


class Record:
    """What records are: made by calling their type with the fields, in order or by name; never changed.

    In a kernel the fields are converted to their types, as arguments are. Outside they are kept as they are given:
    numbers, arrays for pointers, records; a call of a kernel converts them.
    """

    __slots__ = ()
    __record_fields__: Tuple[Field, ...] = ()
    __record_defaults__: Dict[str, Any] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for field, value in zip(self.__record_fields__, _field_values(type(self), args, kwargs)):
            what = _field_text(type(self), field)
            value = as_declared(what, field.annotation, value) if running() is not None else _kept(what, field, value)
            object.__setattr__(self, field.name, value)

    def __getattr__(self, name: str) -> NoReturn:
        names = [field.name for field in self.__record_fields__]
        meant = difflib.get_close_matches(name, names, 1, 0.7)
        hint = f' Did you mean: "{meant[0]}"?' if meant else ""
        raise AttributeError(f'The record "{type(self).__name__}" has no field "{name}".{hint}')

    def __setattr__(self, name: str, value: Any) -> None:
        getattr(self, name)
        raise AssertionError(
            f"A field of a record can't be assigned to; make another record: {type(self).__name__}(...)."
        )

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __eq__(self, other: Any) -> Any:
        if other is None:
            return False
        raise AssertionError("Records can't be compared; compare their fields.")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise AssertionError("The condition required to be a scalar expression.")

    def __repr__(self) -> str:
        fields = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.__record_fields__)
        return f"{type(self).__name__}({fields})"


def is_record_type(annotation: Any) -> bool:
    """Whether it is a class that ``S.record`` has made."""
    return isinstance(annotation, type) and issubclass(annotation, Record)


def _field_text(record_type: type, field: Field) -> str:
    return f'field "{field.name}" of record "{record_type.__name__}"'


def _field_values(record_type: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> List[Any]:
    name = record_type.__name__
    names = [field.name for field in record_type.__record_fields__]
    assert len(args) <= len(names), f'The record "{name}" expect {len(names)} fields, but got: "{len(args)}".'
    given = dict(zip(names, args))
    unknown = [k for k in kwargs if k not in names]
    assert not unknown, f'The record "{name}" got unexpect fields: "{", ".join(unknown)}".'
    doubled = [k for k in kwargs if k in given]
    assert not doubled, f'The record "{name}" got multiple values for fields: "{", ".join(doubled)}".'
    given = {**record_type.__record_defaults__, **given, **kwargs}
    missing = [k for k in names if k not in given]
    assert not missing, f'The record "{name}" missing "{len(missing)}" fields: "{", ".join(missing)}".'
    return [given[k] for k in names]


def _kept(what: str, field: Field, value: Any) -> Any:
    """A field of a record that is made outside of a kernel."""
    check_record(what, field.annotation, value)
    return tuple(value) if isinstance(field.annotation, tuple) else value


def check_record(what: str, annotation: Any, value: Any) -> None:
    """AssertionError unless a value is the record, or a list of as many values, that an annotation wants."""
    if is_record_type(annotation):
        got = f"record {type(value).__name__}" if isinstance(value, Record) else type(value).__name__
        assert isinstance(value, annotation), f'The {what} expect a record "{annotation.__name__}", but got: "{got}".'
    elif isinstance(annotation, tuple):
        size = str(len(value)) if isinstance(value, (list, tuple)) else type(value).__name__
        assert size == str(len(annotation)), f'The {what} expect a list of {len(annotation)} values, but got: "{size}".'


def leaves(value: Any) -> Iterator[Any]:
    """The values that a record stands for in a call of a compiled kernel, in order; of other values themselves."""
    if isinstance(value, Record):
        for field in value.__record_fields__:
            part = getattr(value, field.name)
            for item in part if isinstance(part, tuple) else (part,):
                yield from leaves(item)
    else:
        yield value


def converted(value: Any, dtype: DataType) -> Any:
    """A scalar as ``dtype``, with storage of its own."""
    if dtype.is_bool:
        return bool(value)
    if isinstance(value, Scalar) and value.dtype == dtype:
        return Scalar(value._code, value._data.copy())
    return convert(value, dtype)


def as_declared(what: str, annotation: Any, value: Any) -> Any:
    """A value in a kernel as what an annotation declares, converted as an argument is.

    ``what`` names it in messages: "1-th arg".
    """
    check_record(what, annotation, value)
    if is_record_type(annotation):
        return annotation(*(getattr(value, field.name) for field in annotation.__record_fields__))
    if isinstance(annotation, tuple):
        return tuple(as_declared(what, a, v) for a, v in zip(annotation, value))
    if isinstance(value, np.ndarray):
        value = constant_buffer(value)
    if isinstance(annotation, PointerType):
        assert isinstance(value, _Memory), f"The {what} expect a pointer."
        assert value.scope == annotation.scope, (
            f'The scope of {what} expect "{annotation.scope}", but got: "{value.scope}".'
        )
        return Pointer(value._memory, value._offset, annotation.dtype, value.scope)
    assert not isinstance(value, _Memory), f"The {what} expect a variable, but got: pointer."
    if annotation is None:
        return value
    assert not isinstance(value, Record), (
        f'A value of kind "record {type(value).__name__}" can\'t be used as a run-time value.'
    )
    if annotation.dtype.is_vector:
        assert isinstance(value, Vector), f"The {what} expect a vector."
        return wrap((value._code, value._data.copy()))  # by value: its lanes may be written
    assert not isinstance(value, Vector), f"The {what} expect a scalar."
    return converted(value, annotation.dtype)


def _is_field_type(annotation: Any) -> bool:
    if isinstance(annotation, tuple):
        return all(_is_field_type(a) for a in annotation)
    return is_record_type(annotation) or isinstance(annotation, (TypeObject, PointerType))


def _field_annotations(cls: type) -> Dict[str, Any]:
    """Annotations by field; those that are text are evaluated where the class is decorated."""
    found = dict(cls.__dict__.get("__annotations__", {}))
    if any(isinstance(annotation, str) for annotation in found.values()):
        frame = sys._getframe(2)
        names = {**frame.f_globals, **frame.f_locals}
        found = {k: eval(v, names) if isinstance(v, str) else v for k, v in found.items()}
    return {k: tuple(v) if isinstance(v, list) else v for k, v in found.items()}


def _is_of_the_class_statement(name: str) -> bool:
    return name in ("__qualname__", "__annotate__", "__annotate_func__", "__firstlineno__", "__static_attributes__")


def record(cls: type) -> Any:
    """Decorates a class whose body is fields, ``name: type``: a record.

    Types of fields are scalars, pointers, other records and lists of these; in sub-functions also vectors and masks. A
    parameter of a kernel that is a record stands for one parameter per field. AssertionError for anything else.
    """
    name = cls.__name__
    assert cls.__bases__ == (object,), f'The record "{name}" can\'t have a base class.'
    annotations = _field_annotations(cls)
    defaults = {k: v for k, v in cls.__dict__.items() if k in annotations}
    plain = type("_Plain", (), {"__annotations__": {}, "__doc__": None}).__dict__  # what Python itself adds
    others = [k for k in cls.__dict__ if k not in annotations and not (k in plain or _is_of_the_class_statement(k))]
    assert not others, f'The record "{name}" can only have fields: "name: type".'
    assert annotations, f'The record "{name}" has no fields.'
    for field, annotation in annotations.items():
        assert _is_field_type(annotation), (
            f'The type annotation of field "{field}" of record "{name}" is not supported.'
        )
    body = {
        "__slots__": tuple(annotations),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__record_fields__": tuple(Field(k, a) for k, a in annotations.items()),
        "__record_defaults__": defaults,
    }
    return type(name, (Record,), body)
