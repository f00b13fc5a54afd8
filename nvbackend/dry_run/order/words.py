"""How diagnostics name instructions, memory, and the rounds of loops."""

from __future__ import annotations

from nvbackend.dry_run.order.record import Part, Record
from nvbackend.isel.machine.function import MachineInstr, MemoryTouch

_SHORT = (
    ("wgmma.mma", "wgmma"),
    ("tcgen05.mma", "tcgen05.mma"),
    ("cp.async.bulk", "bulk copy"),
    ("cp.reduce.async.bulk", "bulk reduction"),
    ("mbarrier.", ""),
)


def instruction(instr: MachineInstr) -> str:
    """The opcode, without qualifiers that say nothing here."""
    return instr.opcode if instr.row is None else instr.row.opcode


def in_rounds(rounds: str) -> str:
    """The rounds as the beginning of a sentence."""
    return f"{rounds}, " if rounds else ""


def after_rounds(rounds: str) -> str:
    """The rounds after a noun."""
    return f" {rounds}" if rounds else ""


def access(record: Record, part: Part) -> str:
    """Who accesses: the instruction, its warp and CTA, its rounds."""
    return f"{instruction(part.instr)} of warp {record.warp} in CTA {record.cta}{after_rounds(record.rounds)}"


def touch_of(instr: MachineInstr, operand: str) -> MemoryTouch | None:
    """The allocation that an operand of an instruction points to, where that is known."""
    for touch in instr.memory:
        if touch.operand == operand:
            return touch
    return instr.memory[0] if len(instr.memory) == 1 else None


class Names:
    """What the program calls the memory at an address: learnt from accesses with a constant place."""

    def __init__(self) -> None:
        self._bases: dict[int, int] = {}
        self._touches: dict[int, MemoryTouch] = {}

    def learn(self, touch: MemoryTouch | None, offset: int) -> None:
        """An access of an allocation begins at this offset of shared memory."""
        if touch is None:
            return
        known = self._bases.get(touch.object.id)
        base = offset - touch.offset if not touch.symbol else offset
        if known is None or base < known:
            self._bases[touch.object.id] = base

    def name(self, touch: MemoryTouch | None, offset: int) -> str:
        """The allocation and its part."""
        if touch is None:
            return f"shared address {offset:#x}"
        memory = touch.object
        base = self._bases.get(memory.id)
        if base is None or memory.element_bytes <= 0 or memory.bytes <= memory.element_bytes:
            return memory.name
        index = (offset - base) // memory.element_bytes
        if not 0 <= index < memory.bytes // memory.element_bytes:
            return memory.name
        if memory.element_bytes <= 8 and memory.element_bytes != 8:
            return memory.name
        return f"{memory.name}[{index}]"
