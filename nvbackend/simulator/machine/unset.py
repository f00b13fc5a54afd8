"""Registers that a program may read before it has set them, as an accumulator that nothing cleared.

Two analyses along the control flow of each function, once for a program. Backwards: what an instruction reads, and some
path to it from the entry does not set. Forwards: the instructions at which such a register, or what is computed of it,
is still not set on some path. A run follows registers there alone, and in most programs nowhere.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import field

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.names import names_in
from nvbackend.ptx.syntax import Instruction, Integer, Name, Operand, Pair, Vector
from nvbackend.simulator.events import Site
from nvbackend.simulator.machine.in_flight import slots_of
from nvbackend.simulator.machine.symbols import Symbols
from nvbackend.simulator.machine.uses import Use, is_product, scale_d


@dataclass(frozen=True, slots=True)
class Lines:
    """The instructions of a block with their sites, and the numbers of the blocks after it."""

    lines: Sequence[tuple[Instruction, Site]]
    successors: Sequence[int]


@dataclass(frozen=True, slots=True)
class Unset:
    """The slots of registers that are read before they are set on some path, with their names."""

    names: Mapping[int, str] = field(default_factory=dict)
    places: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Where they are followed: of the block that starts at a place the numbers of its instructions."""


def unset(symbols: Symbols, blocks: Sequence[Lines], given: Container[int] = ()) -> dict[int, str]:
    """The slots that are read before they are set on some path from the first block, with their names.

    Not those of `given`, the registers that a caller sets. A register that is set under a predicate is taken to be set
    where it matters.
    """
    names: dict[int, str] = {}
    reads, sets = zip(*(_of_block(symbols, block.lines, names) for block in blocks), strict=True)
    before = list(reads)
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(blocks))):
            after = 0
            for successor in blocks[number].successors:
                after |= before[successor]
            found = reads[number] | after & ~sets[number]
            if found != before[number]:
                before[number], changed = found, True
    return {slot: name for slot, name in names.items() if before[0] >> slot & 1 and slot not in given}


def followed(blocks: Sequence[Lines], uses: Mapping[Site, Use], slots: Mapping[int, str]) -> frozenset[Site]:
    """The instructions that read or set one of `slots`, or what is computed of it, on a path that has not set it."""
    before = [_bits(slots), *(0 for _ in blocks[1:])]
    waiting, found = [0], set()
    while waiting:
        number = waiting.pop()
        state = before[number]
        for _, site in blocks[number].lines:
            use = uses[site]
            if state & _bits(use.read() | use.results):
                found.add(site)
            state = _after(state, use)
        for successor in blocks[number].successors:
            if state & ~before[successor]:
                before[successor] |= state
                waiting.append(successor)
    return frozenset(found)


def _after(state: int, use: Use) -> int:
    """What may not be set after an instruction."""
    results = _bits(use.results)
    if state & _bits(use.read() - use.needed):
        return state | results
    return state & ~(results | _bits(use.overwritten())) if use.guard is None else state


def _bits(slots: Sequence[int] | frozenset[int] | Mapping[int, str]) -> int:
    bits = 0
    for slot in slots:
        bits |= 1 << slot
    return bits


def _of_block(symbols: Symbols, lines: Sequence[tuple[Instruction, Site]], names: dict[int, str]) -> tuple[int, int]:
    """What a block reads before it sets it, and what it surely sets, a bit for each slot."""
    reads = sets = 0
    for line, _ in lines:
        target, sources = _split(line)
        for operand in sources:
            for slot, name in _registers(symbols, operand):
                names.setdefault(slot, name)
                reads |= 1 << slot & ~sets
        for slot in slots_of(symbols, target):
            sets |= 1 << slot
    return reads, sets


def _registers(symbols: Symbols, operand: Operand) -> Iterator[tuple[int, str]]:
    """The registers that an operand names; not parameters of calls, which are memory to a store."""
    for name in names_in(operand):
        for one in symbols.elements(name):
            declared, register = symbols.declared(one), symbols.register(one)
            if declared is not None and declared.space == "reg" and register is not None:
                yield register[0], name.text


def _split(line: Instruction) -> tuple[Sequence[Operand], list[Operand]]:
    """The operand that an instruction sets, if any, and those that it reads.

    By a predicate, which a run knows, a wgmma may add to its accumulator.
    """
    operands = line.operands
    has_target = bool(operands) and isinstance(operands[0], Name | Vector | Pair)
    target, sources = (operands[:1], list(operands[1:])) if has_target else ((), list(operands))
    if line.parts[0] == "call":
        return operands[:1], []  # what a function takes and gives is not followed
    if is_product(line) and not (isinstance(one := scale_d(line), Integer) and not one.value):
        sources += target
    if line.guard is not None:
        sources.append(line.guard.register)
    return target, sources
