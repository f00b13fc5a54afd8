"""From what ptxas says of PTX to the user's lines: ptxas names a function and often a line of PTX, which has a `.loc`.

A `.loc` says a file and a line; the instructions of the machine form that were made there, if any, know who called it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from nvbackend.codegen.stages.inlined import Place, PtxPlaces
from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.diagnostics.ascii_paths import ascii_path
from nvbackend.intrinsics.mma import wgmma
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.machine.naming import MOST_NOTES

LINE = "line"
"""The value of a diagnostic of ptxas that is the line of PTX, 0 where ptxas names none."""
_SUBJECTS = {"ptxas.wgmma": wgmma.MMA_ASYNC, "ptxas.setmaxnreg": "setmaxnreg"}
"""The subject of rules that begin so, for lines of PTX that are not nvbackend's."""


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
    """The places of the instructions that were made at the user's line of a line of PTX, by the same callers."""
    places = PtxPlaces(lines)
    here: tuple[Place, ...] = ()
    for line in lines[:number]:
        here = places.after(line, here)
    made = [at for instr in machine.instructions() if (at := instr.location) is not None and _chain(at)[:1] == here[:1]]
    exactly = [at for at in made if _chain(at)[: len(here)] == here]
    yield from exactly if len(here) > 1 and exactly else made
    if here and not made:  # assembly or arithmetic, which the machine form does not have
        yield Location(*here[0], "", tuple(Location(*each, "") for each in here[1:]))


def _chain(at: Location) -> tuple[Place, ...]:
    """A place and its callers, as PTX names them."""
    return tuple((ascii_path(each.file), each.line) for each in (at, *at.callers))


def _of_opcode(opcode: str, machine: MachineFunction) -> Iterator[Location]:
    for instr in machine.instructions():
        if instr.opcode.startswith(opcode) and instr.location is not None:
            yield instr.location
