"""The forms of a compiled kernel as lines of text, each with the line of the user's Python that it comes from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from nvbackend.codegen.looking.built import BuiltKernel
from nvbackend.codegen.looking.ir_places import DBG, NODE, Place, nodes_of, place_in
from nvbackend.codegen.ptxas import assemble
from nvbackend.codegen.sass import disassemble
from nvbackend.codegen.stages.inlined import PtxPlaces
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.machine.function import print_header, print_instr

_DIRECTIVE = re.compile(r"\s*\.(file|loc)\s")
_FUNCTION_ENDS = re.compile(r"\s*// -- End function|^\}")
_ASM_BEGINS, _ASM_ENDS = "\t// begin inline asm", "\t// end inline asm"
"""Between them LLVM prints a text as it is: braces and instructions of it begin their lines."""
_NAMES_BEGIN = re.compile(r"\s*\.section\s+\.debug_str")
_BEFORE_OPCODE = re.compile(r"(?:\s*[{}]|\s*[\w$%]+\s*:(?!:))*\s*")
"""Braces and labels before a statement."""
_SASS_PLACE = re.compile(r'\s*//## File "(.*?)", line (\d+)(?: inlined at "(.*?)", line (\d+))?')
_SASS_ADDRESS = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+")


@dataclass(frozen=True, slots=True)
class ListedLine:
    """A line of a form, and its place in the user's Python where it has one."""

    text: str
    place: Place | None = None
    callers: tuple[Place, ...] = ()
    """The lines by which the place was reached, innermost first."""


def machine_lines(kernel: BuiltKernel) -> Iterator[ListedLine]:
    """The machine form."""
    machine = kernel.machine
    for line in print_header(machine.name, machine.target, machine.attributes):
        yield ListedLine(line)
    for block in machine.blocks.values():
        yield ListedLine(block.name + (f" -> {', '.join(block.successors)}" if block.successors else ""))
        for instr in block.instructions:
            at = instr.location
            callers = () if at is None else tuple((each.file, each.line) for each in at.callers)
            yield ListedLine(f"  {print_instr(instr)}", None if at is None else (at.file, at.line), callers)


def ptx_lines(kernel: BuiltKernel) -> Iterator[ListedLine]:
    """The PTX without its directives of places."""
    lines = kernel.ptx.splitlines()
    places = PtxPlaces(lines)
    here: tuple[Place, ...] = ()
    in_asm = False
    for line in lines:
        in_asm = line == _ASM_BEGINS or (in_asm and line != _ASM_ENDS)
        if in_asm:
            yield ListedLine(line, here[0], here[1:]) if here else ListedLine(line)
            continue
        if _NAMES_BEGIN.match(line):
            return
        here = () if _FUNCTION_ENDS.match(line) else places.after(line, here)
        if not _DIRECTIVE.match(line):
            has_place = here and line.startswith("\t")
            yield ListedLine(line, here[0], here[1:]) if has_place else ListedLine(line)


def ir_lines(text: str) -> Iterator[ListedLine]:
    """LLVM IR without its metadata of places."""
    lines = text.splitlines()
    nodes = nodes_of(lines)
    for line in lines:
        node = NODE.match(line)
        if node is None or not node[2].startswith("DI"):
            yield ListedLine(DBG.sub("", line), place_in(line, nodes))


def sass_lines(kernel: BuiltKernel) -> Iterator[ListedLine]:
    """The SASS without addresses, which is assembled first if it is not there yet. Raises as `CompiledKernel.sass`."""
    cubin = kernel.cubin or assemble(kernel.ptx, kernel.target)
    here: list[Place] = []
    is_chain = False
    for line in disassemble(cubin.data, lines=True).splitlines():
        at = _SASS_PLACE.match(line)
        if at is not None:
            here = [*here, (at[1], int(at[2]))] if is_chain else [(at[1], int(at[2]))]
            is_chain = at[3] is not None
        elif _SASS_ADDRESS.match(line):
            yield ListedLine(f"\t{_SASS_ADDRESS.sub('', line)}", here[0] if here else None, tuple(here[1:]))
        else:
            here = [] if line.startswith("//---") else here
            yield ListedLine(line)


FORMS: dict[str, Callable[[BuiltKernel], Iterator[ListedLine]]] = {
    "machine": machine_lines,
    "ir": lambda kernel: ir_lines(kernel.ir),
    "ir-opt": lambda kernel: ir_lines(kernel.optimized_ir),
    "ptx": ptx_lines,
    "sass": sass_lines,
}
"""The forms by their names, in the order in which they are made."""


def instructions_in(line: ListedLine, form: str) -> int:
    """How many instructions of the machine form, of PTX or of SASS a line with a place holds."""
    text = line.text.partition("//")[0].strip()
    if line.place is None or not text:
        return 0
    if form == "ptx":
        *statements, _ = text.split(";")
        return sum(not _BEFORE_OPCODE.sub("", each).startswith(".") for each in statements)
    return not text.startswith((".", "$", "{", "}", "("))


def counts_by_line(kernel: BuiltKernel, forms: tuple[str, ...]) -> dict[Place, dict[str, int]]:
    """How many instructions of each of the forms come from each line of the user's Python, in its order."""
    counts: dict[Place, dict[str, int]] = {}
    for form in forms:
        for line in FORMS[form](kernel):
            count = instructions_in(line, form)
            if line.place is not None and count:
                counts.setdefault(line.place, dict.fromkeys(forms, 0))[form] += count
    return dict(sorted(counts.items()))
