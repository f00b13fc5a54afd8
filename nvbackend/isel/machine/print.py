"""The machine form as text: what was selected, block by block, with packed words decoded next to their bits.

    kernel NAME
      target sm_90a
      ptx 9.0
      ATTRIBUTE VALUE
    BLOCK -> SUCCESSOR, ...
      SPELLING operand=%register, immediate=1 [word 0x4000004000010000]  ; word: field value, ...; read acc.1

A line is an instruction: its PTX spelling (the opcode where it is a pseudo-instruction), operands in the order of its
row, immediates, packed words. The comment decodes each word and lists what happens to which register block, and to
which allocation: `write tile.2[1024 + %i*4096, 16 bytes]`. Both are printed with their number, since names may repeat.
LLVM's quotes around the names of values are left out.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator, Mapping

from nvbackend.diagnostics import DiagnosticError
from nvbackend.isel.machine.packed_words import Decoded, decoder
from nvbackend.isel.machine.parts import MachineBlock, MachineInstr, MemoryTouch, Touch
from nvbackend.isel.machine.tensor_memory_uses import SPACE as TMEM
from nvbackend.isel.target.target import Target, dotted


def print_header(name: str, target: Target, attributes: Mapping[str, object]) -> Iterator[str]:
    """The lines above the blocks."""
    yield f"kernel {name}"
    yield f"  target {target}"
    yield f"  ptx {dotted(target.ptx_version)}"
    yield from (f"  {attribute} {value}" for attribute, value in sorted(attributes.items()))


def print_blocks(blocks: Iterable[MachineBlock]) -> Iterator[str]:
    """The lines of the blocks in order. Places in the user's program are left out."""
    for block in blocks:
        yield block.name + (f" -> {', '.join(block.successors)}" if block.successors else "")
        yield from (f"  {print_instr(instr)}" for instr in block.instructions)


def print_instr(instr: MachineInstr) -> str:
    """One instruction as a line."""
    spelling = instr.opcode if instr.row is None else instr.row.ptx
    operands = ", ".join(_operands(instr))
    words = ", ".join(f"{name} {word:#018x}" for name, word in instr.words.items())
    comment = "; ".join(_comments(instr))
    return spelling + f" {operands}" * bool(operands) + f" [{words}]" * bool(words) + f"  ; {comment}" * bool(comment)


def _operands(instr: MachineInstr) -> Iterator[str]:
    order = [] if instr.row is None else [operand.name for operand in instr.row.operands]
    values = {**instr.operands, **{name: str(value) for name, value in instr.immediates.items()}}
    for name in [*order, *(name for name in values if name not in order)]:
        if name in values:
            yield f"{name}=" + values[name].replace('"', "")


def _comments(instr: MachineInstr) -> Iterator[str]:
    for name, word in instr.words.items():
        decode = decoder(instr, name)
        if decode is not None:
            try:
                yield f"{name}: {_fields(decode(word))}"
            except DiagnosticError as error:
                yield f"{name}: {', '.join(found.rule_id for found in error.diagnostics)}"
    yield from (_touch(touch) for touch in instr.touches)
    yield from (_memory(touch) for touch in instr.memory)


def _fields(decoded: Decoded) -> str:
    parts = []
    for field in dataclasses.fields(decoded):
        value = getattr(decoded, field.name)
        parts.append(f"{field.name} {value.name if isinstance(value, enum.Enum) else value}")
    return ", ".join(parts)


def _touch(touch: Touch) -> str:
    shape = "" if touch.shape is None else " m{}n{}k{}".format(*touch.shape)
    return f"{touch.access.value} {touch.block.name}.{touch.block.id}{shape}"


def _memory(touch: MemoryTouch) -> str:
    offset = "" if touch.offset == 0 and touch.symbol else str(touch.offset)
    place = " + ".join(filter(None, (offset, touch.symbol)))
    unit = "columns" if touch.object.space == TMEM else "bytes"
    extent = "" if touch.bytes is None else f", {touch.bytes} {unit}"
    return f"{touch.use.value} {touch.object.name}.{touch.object.id}[{place}{extent}]"
