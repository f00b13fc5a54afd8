"""What the instructions of a text do, by their opcodes: memory, exchange between lanes, and what is not judged."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nvbackend.builder.ops.inline.rules import INSTRUCTION
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.row import Effect
from nvbackend.intrinsics.sync.special_registers import NAMES, special_register
from nvbackend.ptx.syntax import Address, Instruction, Label, Name, Operand, Pair, Statement, Vector, flattened

CONVERGENT, VOLATILE, READS, WRITES = "convergent", "volatile", "reads", "writes"
FLAGS = {
    READS: Effect.READS_MEMORY,
    WRITES: Effect.WRITES_MEMORY,
    CONVERGENT: Effect.CONVERGENT,
    VOLATILE: Effect.READS_MEMORY,
}
"""What a row with such an effect has."""
_READING = frozenset({"ld", "ldu", "atom", "red", "ldmatrix", "tex", "tld4", "suld", "multimem"})
_WRITING = frozenset({"st", "atom", "red", "stmatrix", "sust", "discard", "multimem"})
_OF_WARPS = frozenset({"activemask", "elect", "match", "redux", "shfl", "vote"})
_ELSEWHERE = {
    **dict.fromkeys(("bar", "barrier"), "k.barrier"),
    **dict.fromkeys(("fence", "membar"), "k.fence"),
    **dict.fromkeys(("wgmma", "tcgen05", "wmma", "mbarrier", "tensormap", "setmaxnreg"), "the noun of that name, k.{}"),
    **dict.fromkeys(("cp", "griddepcontrol", "clusterlaunchcontrol"), "k.cp_async, k.bulk, k.tma or its own call"),
    **dict.fromkeys(("bra", "brx", "ret", "exit", "call"), "k.if_, k.range, k.loop and k.return_"),
    **dict.fromkeys(("trap", "brkpt"), "k.trap or k.breakpoint"),
}
"""Instructions of protocols and of control flow, and the calls that have them."""
_SPACES = "shared", "global", "local", "const", "param"
_SIZE = re.compile(r"[a-z]+?(8|16|32|64|128)(x2)?$")
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_CLOCKS = frozenset(f"%{name}" for name in NAMES if special_register(name).effects)


@dataclass(frozen=True, slots=True)
class TextEffect:
    """One thing that an instruction does: to memory `offset` bytes after the register `base`, of `size` bytes."""

    instruction: Instruction
    kind: str
    base: str = ""
    space: str = ""
    size: int | None = None
    offset: int = 0

    @property
    def atomic(self) -> bool:
        """Whether no other access comes between its reads and its writes."""
        return self.instruction.parts[0] in ("atom", "red")


def instructions(statements: tuple[Statement, ...]) -> Iterator[Instruction]:
    """Those of a text. Raises ptx.instruction for a label, which a second copy of the text would have too."""
    for statement in flattened(statements):
        if isinstance(statement, Label):
            _refuse(f"the label {statement.name}", "it is control flow", "use k.if_, k.range and k.loop")
        elif isinstance(statement, Instruction):
            yield statement


def is_of_protocol(instruction: Instruction) -> bool:
    """Whether it is a step of a protocol, or control flow: neither is judged by its opcode alone."""
    opcode, *parts = instruction.parts
    return opcode in _ELSEWHERE or "async" in parts


def effects_of(instruction: Instruction) -> Iterator[TextEffect]:
    """What an instruction does beside its results. Raises ptx.instruction for one that is not judged here."""
    opcode = instruction.parts[0]
    if is_of_protocol(instruction):
        call = _ELSEWHERE.get(opcode, "k.async_store").format(opcode)
        advice = f"use {call}; or k.instruction with a Row of your own, whose semantics say what it is"
        _refuse(instruction.opcode, "it is part of a protocol, or ends the statement's thread", advice)
    for effect in effects_of_lanes_and_memory(instruction):
        if effect.space.startswith("shared") and effect.offset:
            advice = "pass the address itself: p + 4 elements, or p.byte_offset(16)"
            _refuse(instruction.opcode, f"it adds {effect.offset} bytes to an address of shared memory", advice)
        yield effect


def effects_of_lanes_and_memory(instruction: Instruction) -> Iterator[TextEffect]:
    """What an instruction of no protocol does: exchange between lanes, clocks, memory."""
    opcode, *parts = instruction.parts
    if opcode in _OF_WARPS or "sync" in parts or "aligned" in parts:
        yield TextEffect(instruction, CONVERGENT)
    if any(isinstance(each, Name) and each.text in _CLOCKS for each in instruction.operands):
        yield TextEffect(instruction, VOLATILE)
    if opcode in _READING:
        yield _memory(instruction, READS)
    if opcode in _WRITING:
        yield _memory(instruction, WRITES)


def written(instruction: Instruction, place: int) -> frozenset[str]:
    """The registers that an instruction writes by the operand at a place: none where that is memory."""
    return frozenset(_registers(instruction.operands[place])) if len(instruction.operands) > place else frozenset()


def _registers(operand: Operand) -> Iterator[str]:
    if isinstance(operand, Name):
        yield operand.text
    elif isinstance(operand, Vector):
        for each in operand.elements:
            yield from _registers(each)
    elif isinstance(operand, Pair):
        yield from (*_registers(operand.first), *_registers(operand.second))


def _memory(instruction: Instruction, kind: str) -> TextEffect:
    space = next((part for part in instruction.parts if part.startswith(_SPACES)), "")
    address = next((each for each in instruction.operands if isinstance(each, Address)), None)
    base = address.base.text if address is not None and isinstance(address.base, Name) else ""
    offset = address.offset if address is not None else 0
    return TextEffect(instruction, kind, base, space, _size(instruction), offset)


def _size(instruction: Instruction) -> int | None:
    if instruction.parts[0] not in ("ld", "st", "atom", "red", "ldu"):
        return None
    match = _SIZE.match(instruction.parts[-1])
    count = next((_VECTORS[part] for part in instruction.parts if part in _VECTORS), 1)
    wide = next((len(each.elements) for each in instruction.operands if isinstance(each, Vector)), count)
    if match is None:
        return None
    halves = 2 if match[2] else 1
    return int(match[1]) // 8 * halves * max(count, wide)


def _refuse(instruction: str, reason: str, advice: str) -> None:
    INSTRUCTION.fail(instruction=instruction, reason=reason, advice=advice)
