"""One instruction of a PTX text: its form by the operands that are there, and where its values come from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from nvbackend.cli import rules
from nvbackend.cli.explaining.variants import explained
from nvbackend.cli.text import columns, paragraph
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.row import Asm, RegisterClass, Role, Row
from nvbackend.isel.target.target import Target
from nvbackend.lint.lift import Lifted, Line, Register, lift
from nvbackend.lint.matching import rows_of
from nvbackend.ptx import parse, resolve
from nvbackend.ptx.names import names_in
from nvbackend.ptx.printer import print_instruction, print_operand
from nvbackend.ptx.syntax import Address, Integer, Module, Operand, Variable, Vector

_SPEC = re.compile(r"(?P<file>.+\.ptx):(?P<line>\d+)")
_PIECE = re.compile(r"\{\{.*?\}\}|[^,]+")
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Match:
    """An instruction of the text, and the function that it is in."""

    line: Line
    lifted: Lifted


def line_named(text: str) -> tuple[str, int] | None:
    """The file and the line of FILE.ptx:LINE; None for another text."""
    match = _SPEC.fullmatch(text.strip())
    return None if match is None else (match["file"], int(match["line"]))


def explained_line(file: str, number: int, target: Target | None, others: Iterable[Row] = ()) -> Iterator[str]:
    """The instruction at the line of the file. Raises cli.line, and what reading PTX raises."""
    own, matches = matches_at(file, number, target)
    every = list(others)
    for place, each in enumerate(matches):
        yield "\n" if place else ""
        yield from _told(each, own, file, every)


def matches_at(file: str, number: int, target: Target | None) -> tuple[Target | None, list[Match]]:
    """The target of the text, where it is known or given, and the instructions at the line. Raises cli.line."""
    module = _module(file)
    own = _target(module) if target is None else target
    names = resolve(module)
    matches = [
        Match(line, lifted)
        for function in module.functions
        for lifted in (lift(module, function, names, own or Target.parse("sm_100a")),)
        for line in lifted.lines
        if line.location.line == number
    ]
    if not matches:
        _no_instruction(file, number, module)
    return own, matches


def fitting(match: Match, others: Sequence[Row]) -> tuple[list[Row], list[str] | None]:
    """The rows whose operands are those of the instruction, else all of its spelling; and the names of its operands."""
    opcode = match.line.instruction.opcode
    every = [row for row in others if row.ptx == opcode] + list(rows_of(opcode))
    named = [(row, names) for row in every for names in (_named(row, match),) if names is not None]
    is_same = bool(named) and all(names == named[0][1] for _, names in named)
    return [row for row, _ in named] or every, named[0][1] if is_same else None


def _module(file: str) -> Module:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        rules.LINE.fail(problem=f"{file} cannot be read: {error.strerror}", fix="name a file of PTX and a line of it")
    except UnicodeDecodeError:
        rules.LINE.fail(problem=f"{file} is not text", fix="name a file of PTX and a line of it")
    return parse(text, file)


def _target(module: Module) -> Target | None:
    """The target of the text; None for one that is not known."""
    for version in (module.version, None):
        try:
            return Target.parse(module.target[0] if module.target else "", version)
        except DiagnosticError:
            continue
    return None


def _no_instruction(file: str, number: int, module: Module) -> NoReturn:
    """Raises cli.line, with the nearest line that has one."""
    names = resolve(module)
    target = Target.parse("sm_100a")
    lines = {line.location.line for each in module.functions for line in lift(module, each, names, target).lines}
    if not lines:
        rules.LINE.fail(problem=f"{file} has no instructions", fix="name a file that has a function")
    nearest = min(lines, key=lambda line: (abs(line - number), line))
    rules.LINE.fail(problem=f"line {number} of {file} has no instruction", fix=f"use {file}:{nearest}")


def _told(match: Match, target: Target | None, file: str, others: Sequence[Row]) -> Iterator[str]:
    instruction = match.line.instruction
    text = _short(print_instruction(instruction), 100)
    yield f"{file}:{match.line.location.line}: {text} (in {match.lifted.function.name})\n"
    if match.line.source is not None:
        yield f"  compiled from {match.line.source.file}:{match.line.source.line}\n"
    if instruction.guard is not None:
        yield paragraph(f"Only threads whose {_guard(match)} execute it.", "  ")
    rows, names = fitting(match, others)
    yield "\nOperands here\n"
    yield from columns([("  name", "operand", "value"), *cells(match, names)])
    yield "\n"
    if rows:
        yield from explained(rows, target)
    else:
        yield paragraph(f"{instruction.opcode} has no row in the catalogue: it is not one that nvbackend selects.")


def _guard(match: Match) -> str:
    guard = match.line.instruction.guard
    assert guard is not None
    return f"{guard.register.text} is {'false' if guard.negated else 'true'}"


def _named(row: Row, match: Match) -> list[str] | None:
    """The names of the row's operands in the order of the text; None where the text has others."""
    operands, pieces = list(match.line.instruction.operands), _pieces(row)
    sizes = {value for value in row.axes.values() if type(value) is int}
    names: list[str] = []
    for place, operand in enumerate(operands):
        # Bytes of a copy are an operand of the text, and of LLVM's intrinsic a part of its name.
        more = len(operands) - place > len(pieces)
        if more and isinstance(operand, Integer) and operand.value in sizes:
            names.append("")
            continue
        name = _name_of(row, pieces.pop(0), operand, match) if pieces else None
        if name is None:
            return None
        names.append(name)
    return None if pieces else names


def _pieces(row: Row) -> list[str]:
    """The operands as the text has them: from the template, or outputs, inputs and numbers in the row's order."""
    if isinstance(row.lowering, Asm):
        statement = next(each for each in row.lowering.template.split(";") if "{ptx}" in each)
        text = statement.partition("{ptx}")[2]
        return [piece.strip() for piece in _PIECE.findall(text) if piece.strip()]
    order = {Role.OUTPUT: 0}
    ordered = sorted(row.operands, key=lambda operand: order.get(operand.role, 1))
    return [f"{{{operand.name}}}" for operand in ordered]


def _name_of(row: Row, piece: str, operand: Operand, match: Match) -> str | None:
    """The row's name of an operand of the text, of its shape; None for another shape."""
    fields = _FIELD.findall(piece.replace("{{", "").replace("}}", "}") if piece.startswith("{{") else piece)
    if not fields:  # a number of the instruction's own, such as the bytes of a copy, or a predicate of the template
        is_same = not isinstance(operand, Integer) or not piece.isdigit() or piece == str(operand.value)
        return "" if is_same else None
    declared = [row.operand(name) for name in fields if row.has_operand(name)]
    if len(declared) != len(fields):
        return None
    is_address = piece.startswith("[")
    if isinstance(row.lowering, Asm) and is_address is not isinstance(operand, Address):
        return None
    first = declared[0]
    if first.role is Role.IMMEDIATE:
        is_legal = isinstance(operand, Integer) and (first.values is None or operand.value in first.values)
        return fields[0] if is_legal else None
    registers = len(operand.elements) if isinstance(operand, Vector) else 1
    is_other = not is_address and registers != sum(each.count for each in declared)
    if is_other or (first.register is RegisterClass.PRED) is not _is_predicate(operand, match):
        return None
    return ", ".join(fields)


def _is_predicate(operand: Operand, match: Match) -> bool:
    """Whether it is a register of type .pred, or its negation."""
    declared = (match.lifted.names.of.get(name.position) for name in names_in(operand))
    return any(isinstance(each, Variable) and each.type == "pred" for each in declared)


def cells(match: Match, names: Sequence[str] | None) -> Iterator[tuple[str, str, str]]:
    """Each operand as a line of a table: its name or number, its text, and what is known of its value."""
    for place, operand in enumerate(match.line.instruction.operands):
        name = names[place] if names is not None else ""
        yield f"  {name or place}", _short(print_operand(operand)), _value(match, operand)


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[: most - 10]} ... {text[-6:]}"


def _value(match: Match, operand: Operand) -> str:
    """What is known of an operand: a number, or the line that its register was last set at."""
    if isinstance(operand, Integer):
        return hex(operand.value) if operand.value > 9 else ""
    if isinstance(operand, Vector):
        return f"{len(operand.elements)} registers"
    registers = match.lifted.registers(operand)
    return _set_at(match, registers[0]) if registers else ""


def _set_at(match: Match, register: Register) -> str:
    """The lines that set a register of the instruction."""
    setters = [line for line in match.lifted.lines if register in line.writes and line is not match.line]
    if not setters:
        return "set nowhere in this function"
    if len(setters) > 1:
        return f"set at lines {', '.join(str(line.location.line) for line in setters)}"
    only = setters[0]
    return f"line {only.location.line}: {_short(print_instruction(only.instruction), 60)}"
