"""From what ptxas says of PTX to the user's lines: ptxas names a function and often a line of PTX, which has a `.loc`.

A `.loc` says a file and a line; the instructions of the machine form that were made there know who called it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.diagnostics.ascii_paths import ascii_path
from nvbackend.intrinsics.mma import wgmma
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.machine.words import MOST_NOTES

LINE = "line"
"""The value of a diagnostic of ptxas that is the line of PTX, 0 where ptxas names none."""
_SUBJECTS = {"ptxas.wgmma": wgmma.MMA_ASYNC, "ptxas.setmaxnreg": "setmaxnreg"}
"""The subject of rules that begin so, for lines of PTX that are not nvbackend's."""
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"(.*?)"')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")


def at_user_lines(diagnostics: Iterable[Diagnostic], ptx: str, machine: MachineFunction) -> tuple[Diagnostic, ...]:
    """The diagnostics with the user's lines as their places, where these are found."""
    lines = ptx.splitlines()
    return tuple(_placed(diagnostic, lines, machine) for diagnostic in diagnostics)


def _placed(diagnostic: Diagnostic, lines: list[str], machine: MachineFunction) -> Diagnostic:
    number = diagnostic.values.get(LINE, 0)
    places: list[Location] = []
    if isinstance(number, int) and 0 < number <= len(lines):
        places = list(dict.fromkeys(_of_line(lines, number, machine)))
    if not places:
        subject = next((name for rule, name in _SUBJECTS.items() if diagnostic.rule_id.startswith(rule)), None)
        places = list(dict.fromkeys(_of_opcode(subject, machine))) if subject else []
    if not places:
        return diagnostic
    others = tuple(("or here: ptxas does not say which", place) for place in places[1 : 1 + MOST_NOTES])
    return replace(diagnostic, location=places[0], notes=(*diagnostic.notes, *others))


def _of_line(lines: list[str], number: int, machine: MachineFunction) -> Iterator[Location]:
    """The places of the instructions that were made at the user's line of a line of PTX."""
    place = next((match for line in reversed(lines[:number]) if (match := _LOC.match(line))), None)
    if place is None:
        return
    files = {match[1]: match[2] for line in lines if (match := _FILE.match(line))}
    for instr in machine.instructions():
        at = instr.location
        if at is not None and at.line == int(place[2]) and ascii_path(at.file) == files.get(place[1]):
            yield at


def _of_opcode(opcode: str, machine: MachineFunction) -> Iterator[Location]:
    for instr in machine.instructions():
        if instr.opcode.startswith(opcode) and instr.location is not None:
            yield instr.location
