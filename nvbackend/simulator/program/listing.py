"""A function's body as a list of instructions: scopes opened, labels resolved, variables collected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from nvbackend.diagnostics import Location
from nvbackend.diagnostics.classes.brief import cut
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.names import Names, names_in
from nvbackend.ptx.printer import print_instruction
from nvbackend.ptx.sources import Sources
from nvbackend.ptx.syntax import (
    Function,
    Instruction,
    Integer,
    Label,
    Loc,
    Module,
    Position,
    Variable,
    flattened,
)
from nvbackend.simulator.events import Site


@dataclass(slots=True)
class Listing:
    """Instructions in the order of the text, with the places that labels name and what the body declares."""

    function: Function
    lines: list[tuple[Instruction, Site]] = field(default_factory=list)
    labels: dict[Position, int] = field(default_factory=dict)
    """The index of the instruction after each label, by the place of the label."""
    variables: list[Variable] = field(default_factory=list)


def constant_registers(listings: Iterable[Listing], names: Names) -> dict[tuple[Position, str], int]:
    """The registers that are set once, by an unguarded move of a number, with the number."""
    found: dict[tuple[Position, str], int] = {}
    written: set[tuple[Position, str]] = set()
    for each in listings:
        for instruction, _ in each.lines:
            for name in names_in(instruction.operands[0]) if instruction.operands else ():
                declared = names.of.get(name.position)
                if not isinstance(declared, Variable):
                    continue
                key = (declared.position, name.text)
                source = instruction.operands[-1]
                if key in written:
                    found.pop(key, None)
                elif instruction.parts[0] == "mov" and instruction.guard is None and isinstance(source, Integer):
                    found[key] = source.value
                written.add(key)
    return found


def listing(module: Module, function: Function) -> Listing:
    """The listing of a function that has a body."""
    found = Listing(function)
    origin: Location | None = None
    sources = Sources(module.files)
    for statement in flattened(() if function.body is None else function.body.statements):
        if isinstance(statement, Instruction):
            text = cut(print_instruction(statement))
            site = Site(module.source, statement.position.line, text, function.name, origin)
            found.lines.append((statement, site))
        elif isinstance(statement, Label):
            found.labels[statement.position] = len(found.lines)
        elif isinstance(statement, Variable):
            found.variables.append(statement)
        elif isinstance(statement, Loc):
            # Line 0 is code that the compiler made of several lines: the line of the PTX says more.
            place = sources.at(statement, function.name)
            origin = place if module.files.get(statement.file) and place.line else None
    return found
