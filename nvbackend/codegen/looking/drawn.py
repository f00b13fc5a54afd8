"""What the page of a kernel draws and decodes: fragments of its instructions, its descriptors, and their swizzles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from nvbackend.codegen.looking.ir_places import Place
from nvbackend.diagnostics import DiagnosticError
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.maps.rows import FragmentMap, fragment_maps
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, decoder, fields_of
from nvbackend.layout import ComposedLayout, Layout, Swizzle
from nvbackend.layout.drawing.svg import Picture
from nvbackend.layout.pictures.pictures import fragment_picture

MOST_CELLS = 1024
"""Elements of a fragment that are drawn: those of a warpgroup's accumulator would be megabytes."""
_ROWS = 8
"""Of a core matrix, and of the pattern of each swizzle."""
_SHIFT = 3
_UNITS = {"B32": 1, "B64": 2, "B128": 3}
"""The bits of 16-byte units that a swizzle changes, by its name."""


class Drawing(Protocol):
    """A picture of another layer, such as the timeline of a launch."""

    @property
    def svg(self) -> str:
        """The SVG document."""


@dataclass(frozen=True, slots=True)
class Word:
    """A packed word of an instruction: what it is called there, its fields, and the first line that has it."""

    instruction: str
    name: str
    value: int
    fields: str
    place: Place | None


def words(machine: MachineFunction) -> list[Word]:
    """The packed words of a kernel, each once for each instruction."""
    known: dict[tuple[str, str, int], Word] = {}
    for instr in machine.instructions():
        spelling = instr.opcode if instr.row is None else instr.row.ptx
        for name, value in instr.words.items():
            if (spelling, name, value) not in known and (text := _decoded(instr, name, value)):
                place = (instr.location.file, instr.location.line) if instr.location else None
                known[spelling, name, value] = Word(spelling, name, value, text, place)
    return list(known.values())


def _decoded(instr: MachineInstr, name: str, value: int) -> str:
    decode = decoder(instr, name)
    if decode is None:
        return ""
    try:
        return fields_of(decode(value))
    except DiagnosticError as error:
        return ", ".join(fault.rule_id for fault in error.diagnostics)


def pictures(machine: MachineFunction) -> Iterator[tuple[str, Picture]]:
    """With titles: who holds what of each instruction with fragments, and each swizzle of a descriptor."""
    rows = dict.fromkeys(instr.row for instr in machine.instructions() if instr.row is not None)
    for row in rows:
        for held in fragment_maps(row):
            yield f"{held.operand} of {row.ptx}", _fragment(held)
    used = (name for word in words(machine) for name in _UNITS if f"swizzle {name}" in word.fields.split(", "))
    for name in dict.fromkeys(used):
        bits = _UNITS[name]
        units = ComposedLayout(Swizzle(bits, 0, _SHIFT), 0, Layout((_ROWS, 1 << bits), (1 << bits, 1)))
        yield f"swizzle {name}: where 16 bytes lie, by their row and their place in it", Picture(units.svg())


def _fragment(held: FragmentMap) -> Picture:
    most = max(MOST_CELLS // held.threads, 1)
    if held.elements <= most:
        return fragment_picture(held)
    tile = f"{held.tile}; the first {most} of {held.elements} elements of a thread"
    return fragment_picture(replace(held, elements=most, tile=tile))
