"""What is said of one row: its effects, gates, operands, semantics, and which thread or cell holds what."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from nvbackend.cli.targets import every_target, in_short, verdict
from nvbackend.cli.text import count, paragraph
from nvbackend.intrinsics.maps.rows import CellMap, FragmentMap, cell_maps
from nvbackend.intrinsics.mma import families
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
from nvbackend.isel.select.rows import in_words, is_legal
from nvbackend.isel.select.tcgen05.request import request_of
from nvbackend.isel.select.tcgen05.shapes import legal_m
from nvbackend.isel.target.target import Target, dotted

_SHOWN = (0, 1, 8, 16, 32, 64, 128)
_A_LINE = 5
_THREADS_SHOWN = (0, 1, 4)
_ELEMENTS_SHOWN = 8
_EFFECTS = {
    Effect.CONVERGENT: "All threads of the warp or warpgroup execute it together.",
    Effect.ORDERS: "Other accesses may not move across it.",
}


def told_cells(row: Row) -> Iterator[str]:
    """The places of some elements of each operand in tensor memory, for each M that the row's kind has."""
    if row.opcode not in (families.TCGEN05_MMA, families.TCGEN05_MMA_WS):
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


def does(row: Row) -> Iterator[str]:
    """What its effects are to a program, in sentences."""
    yield from (text for effect, text in _EFFECTS.items() if effect in row.effects)
    if row.semantics.issues not in (None, Completion.NOTHING):
        yield "It continues after its issue: what it reads and writes is not free until a wait has returned."


def needs(row: Row) -> str:
    """Its gate, and the targets that pass it."""
    features = " and ".join(str(feature.name) for feature in row.requires)
    every = every_target()
    legal = in_short([target for target in every if is_legal(row, target)], every)
    needed = f"PTX {dotted(row.ptx_version)} or later" + (f" and {features}" if features else "")
    return f"It needs {needed}: legal on {legal}."


def through(row: Row) -> str:
    """How it is emitted."""
    if isinstance(row.lowering, Intrinsic):
        return f"It is emitted through LLVM's {row.lowering.name}."
    return "It is emitted as inline asm: LLVM has no intrinsic that prints it for every chip that has it."


def on_target(row: Row, target: Target) -> str:
    """Whether a target has it."""
    faults = verdict(row, target)
    if faults:
        return "Not legal: " + " ".join(f"{fault.message} ({fault.rule_id}). Instead: {fault.fix}." for fault in faults)
    made = emulation(row, target.number)
    if made is None:
        return f"Legal on {target}, and the chip has it."
    return f"Legal on {target}, but emulated: ptxas makes {made.expansion} of it. Instead: {made.instead}."


def operand_cells(operand: RowOperand) -> tuple[str, str, str, str]:
    """An operand as a line of a table."""
    if operand.role is Role.IMMEDIATE:
        registers = in_words(operand.numbers)
    else:
        registers = f"{operand.count} x {operand.register.name.lower()}"
    role = "read and written" if operand.tied else operand.role.value
    return f"  {operand.name}", role, registers, operand.meaning


def told_fragment(held: FragmentMap) -> Iterator[str]:
    """Which elements some threads hold."""
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
