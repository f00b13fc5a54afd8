"""How many bytes the text of a row accesses from the address in an operand, where its semantics do not say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nvbackend.builder.ops.inline.effects import READS, WRITES, TextEffect
from nvbackend.intrinsics.row.row import Row

Span = tuple[int, int]


def reaches(row: Row, effects: Iterable[tuple[str, TextEffect]]) -> Mapping[str, int]:
    """By operand, the bytes from its address to the end of what every execution accesses, without a gap.

    `effects` are those of the text, each with the operand that holds its address.
    """
    spans: dict[str, list[Span]] = {}
    for name, effect in effects:
        if effect.kind in (READS, WRITES) and effect.size is not None and effect.instruction.guard is None:
            spans.setdefault(name, []).append((effect.offset, effect.offset + effect.size))
    open_ended = [use.name for use in row.semantics.memory if use.extent is None]
    return {name: end for name in open_ended if (end := _end(spans.get(name, [])))}


def _end(spans: Iterable[Span]) -> int:
    """How far the spans go from 0 on without a gap."""
    end = 0
    for first, last in sorted(spans):
        if first <= end:
            end = max(end, last)
    return end
