"""JSON Schema, as much of it as the schemas of the command line use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
}
_KNOWN = {
    *("type", "items", "properties", "required", "additionalProperties", "enum", "anyOf", "pattern"),
    *("description", "title", "$schema"),
}


def faults(value: Any, schema: Mapping[str, Any], place: str = "$") -> Iterator[str]:
    """What of a value is not as the schema says."""
    assert set(schema) <= _KNOWN, set(schema) - _KNOWN
    types = schema.get("type", list(_TYPES))
    allowed = [each for name in ([types] if isinstance(types, str) else types) for each in _TYPES[name]]
    if type(value) not in allowed:
        yield f"{place} is {value!r}, not of {types}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place} is {value!r}"
    if "anyOf" in schema and all(list(faults(value, each, place)) for each in schema["anyOf"]):
        yield f"{place} is none of what it may be"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{place} is {value!r}"
    if isinstance(value, list) and "items" in schema:
        for index, each in enumerate(value):
            yield from faults(each, schema["items"], f"{place}[{index}]")
    if isinstance(value, dict) and "properties" in schema:
        yield from (f"{place} lacks {name}" for name in schema.get("required", ()) if name not in value)
        for name, each in value.items():
            if name in schema["properties"]:
                yield from faults(each, schema["properties"][name], f"{place}.{name}")
            elif schema.get("additionalProperties") is False:
                yield f"{place} has {name}"
