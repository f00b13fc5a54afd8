"""The operands of recorded instructions, and where their outputs go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nvbackend.dry_run.machine.fiber import Fiber
from nvbackend.dry_run.order.naming import touch_of
from nvbackend.dry_run.program.code import Recorded
from nvbackend.dry_run.seam import Named, Value
from nvbackend.dry_run.values.lanes import among, numbers_of
from nvbackend.dry_run.values.unknown import UNKNOWN, Unknown, combine
from nvbackend.intrinsics.row.semantics import BARRIER, MemoryOperand

OF_PHASES = ("bytes", "parity", BARRIER)
"""The operands that say how many bytes are announced or copied, and which phase of which mbarrier is meant."""


def operand_of(fiber: Fiber, recorded: Recorded, name: str, index: int = 0) -> Any:
    """An operand of one fiber, as its lanes see it."""
    if name in recorded.inputs:
        return among(fiber.registers[recorded.inputs[name][index]], fiber.mask)
    return recorded.instr.immediates.get(name, UNKNOWN)


def bytes_written(fiber: Fiber, recorded: Recorded, operand: MemoryOperand) -> int | None:
    """How many bytes a lane writes at the operand; None where that is not known."""
    size = operand.extent
    if isinstance(size, str):
        size = operand_of(fiber, recorded, size)
    elif size is None:
        touch = touch_of(recorded.instr, operand.name)
        size = None if touch is None else touch.bytes
    return size if isinstance(size, int) else None


def common(
    group: tuple[Fiber, ...], recorded: Recorded, lanes: int, name: str, index: int = 0, of: int | None = None
) -> Value:
    """An operand that all fibers of a group have in common, or that one `of` them has."""
    slots = recorded.inputs.get(name)
    if slots is None:
        return recorded.instr.immediates.get(name, UNKNOWN)
    slot = slots[index]
    if of is not None:
        group = (group[of],)
    first: Value = among(group[0].registers[slot], lanes)
    for other in group[1:]:
        value = among(other.registers[slot], lanes)
        if value is not first and not _same(first, value):
            return UNKNOWN
    return first


def _same(one: Any, other: Any) -> bool:
    if type(one) is int and type(other) is int:
        return one == other
    if isinstance(one, Unknown) or isinstance(other, Unknown):
        return False
    return [*numbers_of(one)] == [*numbers_of(other)]


def give(fiber: Fiber, recorded: Recorded, outputs: Mapping[str, Any]) -> None:
    """Put the outputs of an instruction into their registers; those that are not there are unknown.

    What an atomic gives differs each time, but for a load of what the kernel leaves alone.
    """
    if recorded.word is not None:
        _load(fiber, recorded, recorded.word)
        return
    row, is_atomic = recorded.instr.row, recorded.instr.semantics.atomic
    for name, slots in recorded.outputs.items():
        known = outputs.get(name, UNKNOWN)
        for slot in slots:
            if row is not None and (is_atomic or type(known) is Named):
                bits = row.operand(name).register.element.bits
                known = fiber.numbers.named(bits, known) if type(known) is Named else fiber.fresh(bits)
            fiber.registers[slot] = known
            known = UNKNOWN


def _load(fiber: Fiber, recorded: Recorded, word: int) -> None:
    """The numbers at an address in global memory, as plain loads have them."""
    row, address = recorded.instr.row, fiber.registers[word]
    bits = int(str(row.axes["type"])[1:]) if row is not None else 0
    for slots in recorded.outputs.values():
        for index, slot in enumerate(slots):
            at = address + index * bits // 8
            fiber.registers[slot] = UNKNOWN if isinstance(at, int) else combine(f"load i{bits}", at)
