"""How diagnostics name instructions, memory, and the rounds of loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nvbackend.dry_run.order.record import Part, Record
from nvbackend.dry_run.when import When
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE, Scope
from nvbackend.isel.machine.function import MachineInstr, MemoryObject, MemoryTouch

_UNNAMED = "shared"
"""What the builder calls an array that has no name."""
_PEER = " of a peer"
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")


def instruction(instr: MachineInstr) -> str:
    """The opcode, without qualifiers that say nothing here."""
    return instr.opcode if instr.row is None else instr.row.opcode


def line(instr: MachineInstr) -> str:
    """The line of an instruction, for a place in a sentence."""
    return instruction(instr) if instr.location is None else f"line {instr.location.line}"


def crew(instr: MachineInstr, warp: int) -> str:
    """Who executes an instruction: a warp, or the warpgroup that begins with it."""
    together = instr.semantics.together is Scope.WARPGROUP
    return f"warpgroup {warp * WARP_SIZE // WARPGROUP_SIZE}" if together else f"warp {warp}"


def warps(numbers: Iterable[int]) -> str:
    """Warps by their numbers: "warp 3", "warps 4 to 7 and 9"."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [part for run in runs for part in _run(run)]
    return ("warp " if len(parts) == 1 and len(runs[0]) == 1 else "warps ") + listed(parts)


def _run(run: list[int]) -> list[str]:
    return [f"{run[0]} to {run[-1]}"] if len(run) > 2 else [str(number) for number in run]


def listed(parts: Sequence[str]) -> str:
    """Nouns in a row: "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def counted(count: int, noun: str) -> str:
    """A number of things: "1 arrival", "2 arrivals"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def in_rounds(rounds: When) -> str:
    """The rounds as the beginning of a sentence: "in round 3 of step, "."""
    return f"in {rounds.spoken()}, " if rounds else ""


def after_rounds(rounds: When) -> str:
    """The rounds after a noun."""
    return f" in {rounds.spoken()}" if rounds else ""


def access(record: Record, part: Part) -> str:
    """Who accesses: the instruction, its warp and CTA, its rounds."""
    return (
        f"{instruction(part.instr)} of {crew(part.instr, record.warp)} in CTA {record.cta}{after_rounds(record.rounds)}"
    )


def touch_of(instr: MachineInstr, operand: str) -> MemoryTouch | None:
    """The allocation that an operand of an instruction points to, where that is known."""
    if len(instr.memory) == 1:
        return instr.memory[0]
    for touch in instr.memory:
        if touch.operand == operand:
            return touch
    places = {(one.object, one.offset, one.symbol, one.bytes) for one in instr.memory}
    return instr.memory[0] if len(places) == 1 else None


def called(memory: MemoryObject) -> str:
    """The name of an allocation, without whose it is as the accessing CTA sees it."""
    return memory.called if memory.name == _UNNAMED else memory.name.removesuffix(_PEER)


class Names:
    """What the program calls the memory at an address: learnt from accesses with a constant place."""

    def __init__(self) -> None:
        self._bases: dict[int, int] = {}
        self._objects: dict[int, MemoryObject] = {}

    def learn(self, touch: MemoryTouch | None, offset: int) -> None:
        """An access of an allocation begins at this offset of shared memory."""
        if touch is None:
            return
        known = self._bases.get(touch.object.id)
        base = offset - touch.offset if not touch.symbol else offset
        if known is None or base < known:
            self._bases[touch.object.id] = base
            self._objects[touch.object.id] = touch.object

    def _at(self, offset: int) -> MemoryObject | None:
        """The allocation at an offset, of those that are known."""
        return next(
            (memory for memory in self._objects.values() if 0 <= offset - self._bases[memory.id] < memory.bytes), None
        )

    def name(self, touch: MemoryTouch | None, offset: int) -> str:
        """The allocation and its part."""
        memory = self._at(offset) if touch is None else touch.object
        if memory is None:
            return f"shared address {offset:#x}"
        name, base = self._called(memory), self._bases.get(memory.id)
        if base is None or memory.element_bytes <= 0 or memory.bytes <= memory.element_bytes:
            return name
        index = (offset - base) // memory.element_bytes
        if not 0 <= index < memory.bytes // memory.element_bytes:
            return name
        return name if memory.element_bytes < 8 else f"{name}[{index}]"

    def _called(self, memory: MemoryObject) -> str:
        """The name of an allocation, and which it is of several with this name, by their first accesses."""
        alike: list[MemoryObject] = []
        for one in self._objects.values():
            if one.name == memory.name and not any(self._is_same(one, other) for other in alike):
                alike.append(one)
        which = next((at for at, one in enumerate(alike) if self._is_same(one, memory)), 0)
        return called(memory) if not which else f"the {_ordinal(which)} {called(memory)}"

    def _is_same(self, one: MemoryObject, other: MemoryObject) -> bool:
        if one.start is not None and other.start is not None:
            return one.start == other.start
        first, second = self._bases.get(one.id, 0), self._bases.get(other.id, 0)
        return first < second + other.bytes and second < first + one.bytes


def _ordinal(at: int) -> str:
    return _ORDINALS[at] if at < len(_ORDINALS) else f"{at + 1}th"
