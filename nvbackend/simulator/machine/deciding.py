"""Which registers decide what threads do: where they go, what they access, and what they exchange.

Flow does not matter: a register decides if some instruction of the program uses it so, or makes one of it that does.
"""

from __future__ import annotations

from collections.abc import Iterable

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Address, Instruction, Name, Operand, Pair, Vector
from nvbackend.simulator.events import Site
from nvbackend.simulator.machine.in_flight import slots_of
from nvbackend.simulator.machine.symbols import CARRY_FLAG, Symbols

COMPUTES = ("mov", "cvta", "isspacep", "mapa", "getctarank", "shfl", "vote", "match", "redux", "elect", "activemask")
"""Beside what only computes: what makes registers of registers, and no more."""
_WRITES = ("st", "red")
_OTHER_STORES = ("param", "async", "bulk")
"""Stores to what is a register here, and those that are done later."""
_CARRIES = ("addc", "subc", "madc")


@dataclass(frozen=True, slots=True)
class Decisive:
    """The slots of the registers that decide, and the instructions that read memory into them."""

    slots: frozenset[int] = frozenset()
    reads: frozenset[Site] = frozenset()


@dataclass(frozen=True, slots=True)
class Deciding:
    """What decides about control flow and addresses alone, and about what is stored too."""

    going: Decisive = Decisive()
    storing: Decisive = Decisive()


@dataclass(frozen=True, slots=True)
class _Use:
    """The slots of one instruction: those that it always needs, what it stores, and its results with their sources."""

    site: Site
    always: frozenset[int]
    stored: frozenset[int]
    results: frozenset[int]
    sources: frozenset[int]
    is_read: bool


def deciding(symbols: Symbols, lines: Iterable[tuple[Instruction, Site]], computes: Iterable[bool]) -> Deciding:
    """What decides in a program of these instructions; `computes` says of each whether it only computes."""
    uses = [_use(symbols, line, site, pure) for (line, site), pure in zip(lines, computes, strict=True)]
    return Deciding(_closed(uses, with_stored=False), _closed(uses, with_stored=True))


def _closed(uses: list[_Use], *, with_stored: bool) -> Decisive:
    found: set[int] = set()
    for use in uses:
        found |= use.always | (use.stored if with_stored else frozenset())
    size = -1
    while len(found) > size:
        size = len(found)
        for use in uses:
            if not found.isdisjoint(use.results):
                found |= use.sources
    reads = frozenset(use.site for use in uses if use.is_read and not found.isdisjoint(use.results))
    return Decisive(frozenset(found), reads)


def _use(symbols: Symbols, line: Instruction, site: Site, computes: bool) -> _Use:
    opcode, operands = line.parts[0], line.operands
    guard = _slots(symbols, [line.guard.register] if line.guard is not None else [])
    first = operands[:1] if operands and isinstance(operands[0], Name | Vector | Pair) else ()
    results, rest = _slots(symbols, first), _slots(symbols, operands[len(first) :])
    if computes or opcode in COMPUTES:
        carry = frozenset([symbols.register(CARRY_FLAG)[0]]) if _has_carry(line) else frozenset()  # type: ignore[index]
        return _Use(site, guard, frozenset(), results | carry, rest | carry, False)
    places = _slots(symbols, [one for one in operands if isinstance(one, Address)])
    if opcode == "ld":
        return _Use(site, guard | places, frozenset(), results, frozenset(), True)
    if opcode == "atom":
        return _Use(site, guard | places, rest - places, results, frozenset(), True)
    if opcode in _WRITES and line.parts[1] not in _OTHER_STORES:
        return _Use(site, guard | places, rest - places, frozenset(), frozenset(), False)
    every = guard | results | rest
    return _Use(site, every, frozenset(), every, frozenset(), True)


def _has_carry(line: Instruction) -> bool:
    return line.parts[0] in _CARRIES or "cc" in line.parts


def _slots(symbols: Symbols, operands: Iterable[Operand]) -> frozenset[int]:
    return frozenset(slots_of(symbols, operands))
