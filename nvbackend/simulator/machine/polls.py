"""Loops that read a word until it is one certain number: who looks after the next change never leaves them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nvbackend.ptx.syntax import Instruction, Name
from nvbackend.simulator.events import Site
from nvbackend.simulator.machine.in_flight import slots_of
from nvbackend.simulator.machine.symbols import Symbols
from nvbackend.simulator.machine.wave import Poll

Line = tuple[Instruction, Site]


def polls_of(symbols: Symbols, lines: Sequence[Line], end: Instruction, *, again: bool) -> Iterator[tuple[Site, Poll]]:
    """The acquiring loads of a block that is a loop of its own until they are equal to something.

    `end` is its guarded branch, and `again` whether the loop goes on where the branch is taken.
    """
    guard = end.guard
    compared = next((line for line, _ in reversed(lines) if guard and _writes(symbols, line, guard.register)), None)
    if guard is None or compared is None or compared.parts[0] != "setp" or compared.guard is not None:
        return
    stays = again is not guard.negated
    if compared.parts[1:2] != (("ne",) if stays else ("eq",)) or len(compared.parts) != len(("setp", "ne", "u32")):
        return
    sources = {*slots_of(symbols, compared.operands[1:])}
    (predicate,) = slots_of(symbols, [guard.register])
    for line, site in lines:
        if line.parts[0] == "ld" and "acquire" in line.parts and sources & {*slots_of(symbols, line.operands[:1])}:
            yield site, Poll(predicate, stays)


def _writes(symbols: Symbols, line: Instruction, register: Name) -> bool:
    wanted = {*slots_of(symbols, [register])}
    return bool(wanted & {*slots_of(symbols, line.operands[:1])})
