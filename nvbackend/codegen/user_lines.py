"""From what ptxas says of PTX to the user's lines: which instruction of the machine form a line of PTX came from.

ptxas names a function and often a line of PTX. That line is an instruction of the machine form by its spelling, and by
its number among those of this spelling where LLVM has left as many as there were; else any of them may be meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.isel.machine.function import MachineFunction

LINE = "line"
"""The value of a diagnostic of ptxas that is the line of PTX, 0 where ptxas names none."""
_MOST_NOTES = 3
_SUBJECTS = {"ptxas.wgmma": "wgmma.mma_async", "ptxas.setmaxnreg": "setmaxnreg"}
"""The subject of rules that begin so, for lines of PTX that are not nvbackend's."""
_SPELLING = re.compile(r"[a-z][\w.:]*")


def at_user_lines(diagnostics: Iterable[Diagnostic], ptx: str, machine: MachineFunction) -> tuple[Diagnostic, ...]:
    """The diagnostics with the user's lines as their places, where these are found."""
    lines = ptx.splitlines()
    return tuple(_placed(one, lines, machine) for one in diagnostics)


def _placed(diagnostic: Diagnostic, lines: list[str], machine: MachineFunction) -> Diagnostic:
    number = diagnostic.values.get(LINE, 0)
    found: list[Location] = []
    if isinstance(number, int) and 0 < number <= len(lines):
        found = list(dict.fromkeys(_of_line(lines, number, machine)))
    if not found:
        subject = next((name for rule, name in _SUBJECTS.items() if diagnostic.rule_id.startswith(rule)), None)
        found = list(dict.fromkeys(_of_opcode(subject, machine))) if subject else []
    if not found:
        return diagnostic
    others = tuple(("or here: ptxas does not say which", place) for place in found[1 : 1 + _MOST_NOTES])
    return replace(diagnostic, location=found[0], notes=(*diagnostic.notes, *others))


def _of_line(lines: list[str], number: int, machine: MachineFunction) -> Iterator[Location]:
    """The places of the instructions that the line of PTX may have come from."""
    ours: dict[str, list[Location | None]] = {}
    for instr in machine.instructions():
        if instr.row is not None:
            ours.setdefault(instr.row.ptx, []).append(instr.location)
    spelling = next((one for one in _SPELLING.findall(lines[number - 1]) if one in ours), None)
    if spelling is None:
        return
    places = ours[spelling]
    printed = [at for at, line in enumerate(lines, start=1) if spelling in _SPELLING.findall(line)]
    if len(printed) == len(places):
        places = [places[printed.index(number)]]
    yield from (place for place in places if place is not None)


def _of_opcode(opcode: str, machine: MachineFunction) -> Iterator[Location]:
    for instr in machine.instructions():
        if instr.opcode.startswith(opcode) and instr.location is not None:
            yield instr.location
