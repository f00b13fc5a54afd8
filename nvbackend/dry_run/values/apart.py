"""What is known of a value whose other part is unknown and the same in all lanes."""

from __future__ import annotations

from typing import Any

from nvbackend.dry_run.values.unknown import Unknown, combine

_DEEP = 16
"""How deep expressions are followed."""
_ALL_BITS = (1 << 64) - 1
Sum = tuple["Unknown | None", Any]
"""A number that all lanes have in common, None for 0, and one that is known in each of them: the value is their sum."""


def parts_of(value: Any, deep: int = _DEEP) -> Sum | None:
    """The parts of a value, which count as not wrapping around; None where it is no such sum."""
    if isinstance(value, Unknown):
        if not value.varies:
            return (value, 0) if value.key else None
        return _of_expression(value.key, deep) if value.key and deep else None
    return None, value


def _of_expression(key: tuple[Any, ...], deep: int) -> Sum | None:
    operation, first, *others = key
    if operation == "mul" and type(first) is int:
        first, others = others[0], [first]
    found = parts_of(first, deep - 1)
    if found is None or operation in ("sext", "zext"):
        return found
    if len(others) != 1:
        return None
    (other,) = others
    if operation == "add":
        more = parts_of(other, deep - 1)
        return None if more is None else _sum(found, more)
    if operation == "and" and type(other) is int and not other & (other + 1):
        return found[0], found[1] & other  # a number of fewer bits
    if operation in ("mul", "shl") and type(other) is int:
        by = other if operation == "mul" else 1 << other
        return None if found[0] is None else combine("mul", found[0], by), _times(found[1], by)
    return None


def _sum(one: Sum, other: Sum) -> Sum:
    commons = [each for each, _ in (one, other) if each is not None]
    known = (one[1] + other[1]) & _ALL_BITS
    return commons[0] if len(commons) == 1 else combine("add", *commons) if commons else None, known


def _times(known: Any, by: int) -> Any:
    return known * by & _ALL_BITS
