"""What an instruction is to the analyses, in words."""

from __future__ import annotations

import enum

from nvbackend.intrinsics.row.semantics import (
    Completion,
    FenceSemantics,
    Matrix,
    MemoryOperand,
    OpaqueFragment,
    Scope,
    ThreadBarrier,
)


def words(value: object) -> str:
    """A value of a field of `Semantics`."""
    text = "yes" if value is True else str(value)
    match value:
        case tuple():
            text = ", ".join(map(words, value))
        case MemoryOperand():
            text = f"{'writes' if value.writes else 'reads'} {value.name}" + _extent(value)
        case OpaqueFragment():
            text = f"{value.which.upper()} in {value.name}"
        case ThreadBarrier():
            does = " and ".join(text for text, is_so in (("arrives", value.arrives), ("waits", value.waits)) if is_so)
            text = f"{does}{', relaxed,' if value.relaxed else ''} for the {words(value.scope)}"
        case FenceSemantics():
            text = value.of.value + ("" if value.shared else ", not in shared memory")
        case Completion():
            text = value.value
        case enum.Enum():
            name = str(value.name).lower().replace("_", " ").replace("|", ", ")
            text = "CTA" if value is Scope.CTA else name
    return text


def _extent(access: MemoryOperand) -> str:
    extent = access.extent
    if extent is None:
        return ""
    if isinstance(extent, Matrix):
        return f" ({extent.lines} lines of {extent.line} elements)"
    each = " in each lane" if access.lanes is not None else ""
    return f" (as many as {extent} says)" if isinstance(extent, str) else f" ({extent}{each})"
