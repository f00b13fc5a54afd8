"""`nvbackend explain`: what an instruction does, is to the analyses, and needs, and which thread or cell holds what.

A rule's id, or the first line of its diagnostic, has its texts in place of that.
"""

from __future__ import annotations

import argparse
import difflib
import enum
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nvbackend.cli import rules
from nvbackend.cli.own_rows import add_option, add_rules_option, explained_rule, own_rows, own_rules, rules_by_id
from nvbackend.cli.targets import every_target, in_short, verdict
from nvbackend.cli.text import columns, count, paragraph
from nvbackend.diagnostics import DiagnosticError, Rule
from nvbackend.intrinsics.catalogue import rows as every_row
from nvbackend.intrinsics.maps.rows import CellMap, FragmentMap, cell_maps, fragment_maps
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.mma.emulation import emulation
from nvbackend.intrinsics.row.row import Effect, Intrinsic, Role, Row, RowOperand
from nvbackend.intrinsics.row.semantics import (
    Completion,
    FenceSemantics,
    Matrix,
    MemoryOperand,
    OpaqueFragment,
    Scope,
    ThreadBarrier,
)
from nvbackend.isel.select.rows import in_words
from nvbackend.isel.select.tcgen05.request import request_of
from nvbackend.isel.select.tcgen05.shapes import legal_m
from nvbackend.isel.target.target import Target, dotted

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


_SHOWN = (0, 1, 8, 16, 32, 64, 128)
_A_LINE = 5


def told_cells(row: Row) -> Iterator[str]:
    """The places of some elements of each operand in tensor memory, for each M that the row's kind has."""
    if row.opcode not in (tcgen05.MMA, tcgen05.MMA_WS):
        return
    legal = legal_m(request_of(row))
    for cells in cell_maps(row):
        if cells.m in legal:
            yield "\n"
            yield from _told(cells)


def _told(cell_map: CellMap) -> Iterator[str]:
    yield paragraph(f"{cell_map.operand} with M = {cell_map.m}: {cell_map.tile}")
    rows, columns = cell_map.extents
    places = [(row, 0) for row in _shown(rows)] + [(0, column) for column in _shown(columns)[1:]]
    cells = [f"{_pair(place)} at {_pair(cell_map.position(*place))}" for place in places]
    for start in range(0, len(cells), _A_LINE):
        yield "  " + "  ".join(cells[start : start + _A_LINE]) + "\n"
    if cell_map.note:
        yield f"  {cell_map.note}\n"


def _shown(extent: int) -> list[int]:
    return sorted({index for index in _SHOWN if index < extent} | {extent - 1})


def _pair(numbers: tuple[int, ...]) -> str:
    return f"({','.join(map(str, numbers))})"


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


NEAREST = 5
"""Spellings suggested for an unknown one."""
_COMPARED = 60
_LIKE_A_RULE = 0.85
"""How much of a text must agree with a rule's id, to take it for one with a mistake."""
_OF_DIAGNOSTIC = re.compile(r"(?:error|warning)\[([^\]]*)\]")
_THREADS_SHOWN = (0, 1, 4)
_ELEMENTS_SHOWN = 8
_EFFECTS = {
    Effect.CONVERGENT: "All threads of the warp or warpgroup execute it together.",
    Effect.ORDERS: "Other accesses may not move across it.",
}


def add_to(commands: Commands) -> None:
    """The command's arguments."""
    parser = commands.add_parser("explain", help="explain one instruction or rule", description=__doc__)
    parser.add_argument("spelling", help="the PTX spelling with all qualifiers; operands may follow; or a rule's id")
    parser.add_argument("--target", metavar="T", help="also whether this target has it, such as sm_90a")
    add_option(parser)
    add_rules_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Iterator[str]:
    """The command's output. Raises cli.spelling, with the nearest ones, and target.unknown."""
    target = Target.parse(arguments.target) if arguments.target is not None else None
    try:
        rows = rows_spelled(arguments.spelling, own_rows(arguments.rows))
    except DiagnosticError:
        rule = _rule_called(arguments.spelling, rules_by_id(own_rules(arguments.rules)))
        if rule is None:
            raise
        yield from explained_rule(rule)
        return
    for place, row in enumerate(rows):
        if place:
            yield "\n"
        yield from _explained(row, target)


def _rule_called(text: str, every: Mapping[str, Rule]) -> Rule | None:
    """The rule of an id, or of a diagnostic's first line; None for what is not like one. Raises cli.spelling."""
    printed = _OF_DIAGNOSTIC.match(text.strip())
    name = printed[1] if printed else text.strip()
    by_lower = {each.id.lower(): each for each in every.values()}
    rule = every.get(name) or by_lower.get(name.lower())
    near = difflib.get_close_matches(name.lower(), by_lower, n=NEAREST, cutoff=0.0 if printed else _LIKE_A_RULE)
    if rule is None and near:
        rules.UNKNOWN_SPELLING.fail(
            given=name, kind="the id of a rule", nearest=", ".join(by_lower[each].id for each in near)
        )
    return rule


def rows_spelled(text: str, others: Iterable[Row] = ()) -> list[Row]:
    """The forms of the instruction in a line of PTX, first those of `others`. Raises cli.spelling with the nearest."""
    wanted = spelling_in(text)
    every = [*others, *every_row()]
    rows = [row for row in every if row.ptx == wanted]
    if not rows:
        near = nearest(wanted, sorted({row.ptx for row in every}))
        rules.UNKNOWN_SPELLING.fail(given=wanted, kind="the spelling of an instruction", nearest=", ".join(near))
    return rows


def spelling_in(text: str) -> str:
    """The instruction in a line of PTX: without its guard, its operands and the semicolon."""
    words = [word for word in text.replace(";", " ").split() if not word.startswith("@")]
    return words[0] if words else ""


def nearest(wanted: str, spellings: Sequence[str]) -> list[str]:
    """The spellings that are most like `wanted`: those with the most qualifiers in common, then by their letters."""
    asked = set(wanted.split("."))
    likely = sorted(spellings, key=lambda spelling: -len(asked & set(spelling.split("."))))[:_COMPARED]
    return difflib.get_close_matches(wanted, likely, n=NEAREST, cutoff=0.0)


def _explained(row: Row, target: Target | None) -> Iterator[str]:
    yield f"{row.ptx}\n"
    yield paragraph(f"{row.family}; PTX ISA {row.section}" if row.section else row.family, "  ")
    yield "\n"
    yield paragraph(" ".join((row.summary, *_does(row))))
    yield "\n"
    yield paragraph(_needs(row))
    if target is not None:
        yield "\n"
        yield paragraph(_on(row, target))
    if row.operands:
        yield "\nOperands\n"
        titles = ("  name", "role", "registers", "meaning")
        yield from columns([titles, *(_cells(operand) for operand in row.operands)])
    said = [(f"  {name.replace('_', ' ')}", words(value)) for name, value in row.semantics.said()]
    if said:
        yield "\nTo the analyses\n"
        yield from columns(said)
    for held in fragment_maps(row):
        yield "\n"
        yield from _held(held)
    yield from told_cells(row)


def _does(row: Row) -> Iterator[str]:
    yield from (text for effect, text in _EFFECTS.items() if effect in row.effects)
    if row.semantics.issues not in (None, Completion.NOTHING):
        yield "It continues after its issue: what it reads and writes is not free until a wait has returned."


def _needs(row: Row) -> str:
    features = " and ".join(str(feature.name) for feature in row.requires)
    every = every_target()
    legal = in_short([target for target in every if not verdict(row, target)], every)
    through = (
        f"It is emitted through LLVM's {row.lowering.name}."
        if isinstance(row.lowering, Intrinsic)
        else "It is emitted as inline asm: LLVM has no intrinsic that prints it for every chip that has it."
    )
    needed = f"PTX {dotted(row.ptx_version)} or later" + (f" and {features}" if features else "")
    return f"It needs {needed}: legal on {legal}. {through}"


def _on(row: Row, target: Target) -> str:
    faults = verdict(row, target)
    if faults:
        return "Not legal: " + " ".join(f"{fault.message} ({fault.rule_id}). Instead: {fault.fix}." for fault in faults)
    made = emulation(row, target.number)
    if made is None:
        return f"Legal on {target}, and the chip has it."
    return f"Legal on {target}, but emulated: ptxas makes {made.expansion} of it. Instead: {made.instead}."


def _cells(operand: RowOperand) -> tuple[str, str, str, str]:
    if operand.role is Role.IMMEDIATE:
        registers = in_words(operand.values or ())
    else:
        registers = f"{operand.count} x {operand.register.name.lower()}"
    role = "read and written" if operand.tied else operand.role.value
    return f"  {operand.name}", role, registers, operand.meaning


def _held(held: FragmentMap) -> Iterator[str]:
    yield f"{held.operand}: {count(held.elements, 'element')} a thread, as {held.tile}\n"
    if held.counted:
        yield f"  {held.counted}\n"
    shown = min(held.elements, _ELEMENTS_SHOWN)
    more = " ..." if held.elements > shown else ""
    for thread in (*_THREADS_SHOWN, held.threads - 1):
        places = " ".join(
            f"({', '.join(map(str, held.position(thread, index)))})".replace(", ", ",") for index in range(shown)
        )
        yield f"  thread {str(thread).rjust(len(str(held.threads)))}  {places}{more}\n"
