"""The `repr` of what is larger than a line: enough to know it by, cut to what fits a screen."""

from __future__ import annotations

import enum
from dataclasses import MISSING, Field, fields
from typing import Any

MOST, MOST_OF_A_FIELD = 300, 80
"""Characters."""


def cut(text: str, most: int = MOST) -> str:
    """The text, or its beginning where it is longer than `most`."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def short_repr(record: Any) -> str:
    """A dataclass as the call that makes it, by the fields that differ from their defaults."""
    shown = ((field, getattr(record, field.name)) for field in fields(record) if field.repr)
    parts = [f"{field.name}={_field(value)}" for field, value in shown if not _is_default(value, field)]
    return cut(f"{type(record).__name__}({', '.join(parts)})")


def _is_default(value: object, field: Field[Any]) -> bool:
    """Asks only things of one type: `==` of a builder's values is an instruction."""
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return value is default or (type(value) is type(default) and value == default)


def _field(value: object) -> str:
    return cut(str(value) if isinstance(value, enum.Enum) else repr(value), MOST_OF_A_FIELD)
