"""Signatures, resources and assertions as JSON has them, and back.

Reading compares each value with its kind, since a file may come from anywhere: ValueError names what is wrong.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from nvbackend.codegen.cubin import Resources
from nvbackend.diagnostics import DiagnosticError, Location
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, Scalar
from nvbackend.isel.machine.assertions import ADDRESS, MOST_VALUES, Assertion
from nvbackend.signature import Im2col, LaunchBounds, Parameter, ParameterType, Pointer, Signature, TensorMap

Data = Mapping[str, Any]
_Read = TypeVar("_Read")
_POINTER, _SCALAR, _MAP = "pointer", "scalar", "tensor map"
_MOST_ITEMS = 1 << 16


def describe_signature(signature: Signature) -> dict[str, Any]:
    """A signature as JSON has it."""
    return {
        "name": signature.name,
        "parameters": [
            {"name": parameter.name, **_describe_type(parameter.type)} for parameter in signature.parameters
        ],
        "bounds": asdict(signature.bounds),
    }


def read_signature(data: Data) -> Signature:
    """The signature of what `describe_signature` gave. Raises ValueError."""
    bounds = member(data, "bounds", dict)
    return Signature(
        text(data, "name"),
        tuple(_read_parameter(each) for each in entries(data, "parameters")),
        LaunchBounds(
            threads=number(bounds, "threads", 1),
            cluster=number(bounds, "cluster", 1),
            dynamic_shared_bytes=number(bounds, "dynamic_shared_bytes"),
            min_ctas=None if bounds.get("min_ctas") is None else number(bounds, "min_ctas", 1),
            shape=_three(bounds, "shape"),
            cluster_shape=_three(bounds, "cluster_shape"),
            overlaps=bounds.get("overlaps") is True,
        ),
    )


def describe_resources(resources: Iterable[Resources]) -> list[dict[str, Any]]:
    """The resources of a cubin's kernels as JSON has them."""
    return [asdict(each) for each in resources]


def read_resources(data: Data) -> tuple[Resources, ...]:
    """The resources of what `describe_resources` gave, under "resources". Raises ValueError."""
    counts = [field.name for field in fields(Resources) if field.name != "kernel"]
    return tuple(
        Resources(text(each, "kernel"), **{name: number(each, name) for name in counts})
        for each in entries(data, "resources")
    )


def describe_assertion(assertion: Assertion) -> dict[str, Any]:
    """An assertion as JSON has it; what was known when the kernel was built is part of the text."""
    at = assertion.location
    kinds = [kind for kind in assertion.kinds if _is_read(kind)]
    return {
        "what": assertion.what,
        "text": _filled(assertion),
        "kinds": [kind.name if isinstance(kind, ElementType) else ADDRESS.value for kind in kinds],
        "location": None if at is None else [at.file, at.line, at.function],
    }


def read_assertion(data: Data) -> Assertion:
    """The assertion of what `describe_assertion` gave. Raises ValueError."""
    kinds = tuple(_kind(each) for each in member(data, "kinds", list))
    if len(kinds) > MOST_VALUES:
        raise ValueError(f"an assertion has {len(kinds)} values")
    message = text(data, "text")
    for _, name, spec, conversion in string.Formatter().parse(message):
        legal = name is None or (name.isdecimal() and int(name) < len(kinds) and "{" not in str(spec))
        if not legal or conversion:
            raise ValueError(f"{message!r} is not the text of {len(kinds)} values")
    return Assertion(text(data, "what"), message, kinds, _location(data))


def text(data: Data, name: str) -> str:
    """The text called `name`. Raises ValueError."""
    return member(data, name, str)


def number(data: Data, name: str, least: int = 0) -> int:
    """The integer called `name`. Raises ValueError."""
    value = member(data, name, int)
    if isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}")
    return value


def numbers(data: Data, name: str) -> tuple[int, ...]:
    """The integers called `name`. Raises ValueError."""
    values = member(data, name, list)
    if not all(type(each) is int for each in values):
        raise ValueError(f"{name} is {values!r}")
    return tuple(values)


def entries(data: Data, name: str) -> list[Data]:
    """The objects in the list called `name`. Raises ValueError."""
    values = member(data, name, list)
    if len(values) > _MOST_ITEMS or not all(isinstance(each, dict) for each in values):
        raise ValueError(f"{name} is not a list of objects")
    return values


def member(data: Data, name: str, kind: type[_Read]) -> _Read:
    """What is called `name`, which is of this kind. Raises ValueError."""
    value = data.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"{name} is {value!r}"[:100])
    return value


def _describe_type(type_: ParameterType) -> dict[str, Any]:
    element = {"element": type_.element.name}
    if isinstance(type_, Pointer):
        return {"kind": _POINTER, **element, "align": type_.align, "const": type_.const, "restrict": type_.restrict}
    if isinstance(type_, Scalar):
        bounds = {name: getattr(type_, name) for name in ("minimum", "maximum", "multiple_of")}
        return {"kind": _SCALAR, **element, **bounds}
    walk = None if type_.im2col is None else asdict(type_.im2col)
    return {"kind": _MAP, **element, "box": list(type_.box), "swizzle": type_.swizzle, "im2col": walk}


def _read_parameter(data: Data) -> Parameter:
    readers: dict[str, Callable[[Data, ElementType], ParameterType]] = {
        _POINTER: _read_pointer,
        _SCALAR: _read_scalar,
        _MAP: _read_map,
    }
    read = readers.get(text(data, "kind"))
    element = BY_NAME.get(text(data, "element"))
    if read is None or element is None:
        raise ValueError(f"parameter {data.get('name')!r} is a {data['kind']} of {data['element']}"[:100])
    try:
        return Parameter(text(data, "name"), read(data, element))
    except DiagnosticError as error:
        raise ValueError(error.diagnostics[0].message) from None


def _read_pointer(data: Data, element: ElementType) -> Pointer:
    return Pointer(element, number(data, "align", 1), member(data, "const", bool), member(data, "restrict", bool))


def _read_scalar(data: Data, element: ElementType) -> Scalar:
    least, most = (None if data.get(name) is None else member(data, name, int) for name in ("minimum", "maximum"))
    return Scalar(element, least, most, number(data, "multiple_of", 1))


def _read_map(data: Data, element: ElementType) -> TensorMap:
    walk = None if data.get("im2col") is None else member(data, "im2col", dict)
    if walk is not None:
        wide = None if walk.get("wide") is None else text(walk, "wide")
        im2col = Im2col(number(walk, "rank"), numbers(walk, "lower"), numbers(walk, "upper"), wide)
    return TensorMap(element, numbers(data, "box"), number(data, "swizzle"), im2col if walk is not None else None)


def _three(data: Data, name: str) -> tuple[int, int, int]:
    values = numbers(data, name)
    if len(values) != 3 or min(values) < 1:
        raise ValueError(f"{name} is {values!r}")
    return values[0], values[1], values[2]


def _filled(assertion: Assertion) -> str:
    """The text of Python's form with the known values filled in, and places for the others by their numbers."""
    left = [index for index, kind in enumerate(assertion.kinds) if _is_read(kind)]
    parts = []
    for place, (literal, name, spec, _) in enumerate(string.Formatter().parse(assertion.text)):
        parts.append(_escaped(literal))
        if name is None:
            continue
        index, form = int(name) if name else place, f":{spec}" if spec else ""
        kind = assertion.kinds[index]
        parts.append(f"{{{left.index(index)}{form}}}" if _is_read(kind) else _escaped(f"{{{form}}}".format(kind)))
    return "".join(parts)


def _is_read(kind: object) -> bool:
    """Whether a value of this kind is read from the record, and not known before."""
    return isinstance(kind, ElementType) or kind is ADDRESS


def _escaped(text_: str) -> str:
    return text_.replace("{", "{{").replace("}", "}}")


def _kind(name: object) -> object:
    if name == ADDRESS.value:
        return ADDRESS
    element = BY_NAME.get(name) if isinstance(name, str) else None
    if element is None:
        raise ValueError(f"an assertion has a value of kind {name!r}")
    return element


def _location(data: Data) -> Location | None:
    if data.get("location") is None:
        return None
    place = member(data, "location", list)
    if [type(each) for each in place] != [str, int, str]:
        raise ValueError(f"location is {place!r}")
    return Location(*place)
