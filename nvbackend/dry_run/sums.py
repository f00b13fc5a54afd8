"""Products of wgmma and tcgen05 whose sums are lost before they are read, or take the place of what they are of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from nvbackend.diagnostics import Location
from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import MISSED, ORDER
from nvbackend.dry_run.order.footprints import number
from nvbackend.dry_run.order.granules import single_bytes
from nvbackend.dry_run.order.naming import after_rounds, crew, in_rounds, instruction, line
from nvbackend.dry_run.order.record import Record
from nvbackend.dry_run.order.shadow import Records, Shadow
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import Step, Value
from nvbackend.dry_run.when import When
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.loops import Loops, loops_of
from nvbackend.isel.machine.facts import SCALE_D
from nvbackend.isel.machine.function import (
    INSTRUCTION_DESCRIPTOR,
    TMEM,
    Access,
    MachineFunction,
    MachineInstr,
    RegisterBlock,
    instruction_descriptor,
)

_COLUMNS = 512
_D = "d"
MATRICES = (_D, "a")
"""The operands of a product that are matrices in tensor memory."""
FACTORS = ("scale_a", "scale_b")
_NAMES = {"a": "A", "scale_a": "the factors of A", "scale_b": "the factors of B"}
_Last = tuple[MachineInstr, When]


class Sums:
    """The accumulators of all warpgroups: the last product of each."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._blocks: dict[int, RegisterBlock | None] = {}
        self._last: dict[tuple[int, int, int], _Last] = {}
        self._homes: dict[int, str] = {}

    def multiply(self, step: Step) -> None:
        """A product that adds to its accumulator, or overwrites it."""
        instr = step.instr
        block = self._blocks[id(instr)] if id(instr) in self._blocks else self._block(instr)
        if block is None:
            return
        key, now = (step.cta, step.warps[0], block.id), (instr, step.rounds())
        last = self._last.get(key)
        self._last[key] = now
        if last is None or not _is_zero(step.value(SCALE_D)) or not self._is_lost(block, last, now):
            return
        first, before = last
        who = f"{instruction(first)} of {crew(first, step.warps[0])}{after_rounds(before)}"
        self._state.findings.add(
            *(MISSED, block.name, rules.SUM_LOST, instr, ((who, first.location),)),
            now=in_rounds(now[1]), second=f"{instruction(instr)} of {crew(instr, step.warps[0])}", first=who,
            name=block.name,
        )  # fmt: skip

    def _block(self, instr: MachineInstr) -> RegisterBlock | None:
        """The accumulator of a product."""
        blocks = [touch.block for touch in instr.touches if touch.access is Access.ACCUMULATE]
        block = self._blocks[id(instr)] = blocks[0] if len(blocks) == 1 else None
        return block

    @cached_property
    def _read(self) -> set[RegisterBlock]:
        """The registers that ordinary code reads somewhere."""
        function = self._state.launch.function
        instructions = function.instructions() if function is not None else ()
        touches = (touch for one in instructions for touch in one.touches)
        return {touch.block for touch in touches if touch.access is Access.READ}

    @cached_property
    def _loops(self) -> Loops:
        function = self._state.launch.function
        assert function is not None
        return loops_of(function)

    def _is_lost(self, block: RegisterBlock, last: _Last, now: _Last) -> bool:
        """Whether nothing uses the registers between the two: in one block, or in a loop from round to round.

        What the kernel reads nowhere is a part of one, or a measurement.
        """
        (first, before), (second, rounds) = last, now
        function = self._state.launch.function
        if before.names != rounds.names or before.numbers[:-1] != rounds.numbers[:-1]:
            return False
        if function is None or block not in self._read:
            return False
        home, other = (self._home(function, one) for one in (first, second))
        if before == rounds:  # of one line: what another one overwrites may be meant so
            is_one = home == other and _line(first) == _line(second)
            return is_one and _follows(function.blocks[home].instructions, block, first, second)
        loop = self._loops.innermost(home)
        if loop is None or loop != self._loops.innermost(other):
            return False
        return not any(_uses(function.blocks[name].instructions, block) for name in loop.blocks)

    def _home(self, function: MachineFunction, instr: MachineInstr) -> str:
        """The block of an instruction."""
        if not self._homes:
            self._homes = {id(one): name for name, block in function.blocks.items() for one in block.instructions}
        return self._homes[id(instr)]


def _line(instr: MachineInstr) -> tuple[Location, ...]:
    """The line of an instruction, and those by which it was reached."""
    return () if instr.location is None else (instr.location, *instr.location.callers)


def _is_zero(value: Value) -> bool:
    return type(value) is int and value == 0


def _follows(
    instructions: Sequence[MachineInstr], block: RegisterBlock, first: MachineInstr, second: MachineInstr
) -> bool:
    """Whether the second comes after the first, with nothing between them that uses the registers."""
    start, end = (next(at for at, one in enumerate(instructions) if one is each) for each in (first, second))
    return start < end and not _uses(instructions[start:end], block)


def _uses(instructions: Iterable[MachineInstr], block: RegisterBlock) -> bool:
    """Whether ordinary code reads or sets the registers."""
    touches = (touch for one in instructions for touch in one.touches)
    return any(touch.block == block and touch.access in (Access.READ, Access.WRITE) for touch in touches)


def check_lost(state: State, shadow: Shadow, step: Step, parts: Sequence[range]) -> None:
    """Whether a product starts a new sum in cells whose last one nothing has read."""
    first = _unread(state.memory.records, shadow, parts)
    commits = state.tensor_commits[step.cta, step.warps[0]]
    if first is None or not _is_lost(first, step, commits) or not _is_read(state.launch.function):
        return
    instr = first.parts[0].instr
    who = f"{instruction(instr)} of {crew(instr, first.warp)}{after_rounds(first.rounds)}"
    state.findings.add(
        *(MISSED, TMEM, rules.TENSOR_LOST, step.instr, ((who, instr.location),)),
        now=in_rounds(step.rounds()), second=f"{instruction(step.instr)} of {crew(step.instr, step.warps[0])}",
        first=who, column=parts[0].start % _COLUMNS, line=line(step.instr),
    )  # fmt: skip


def _is_read(function: MachineFunction | None) -> bool:
    """Whether the kernel loads from tensor memory at all: a part of one, or a measurement, may not."""
    if function is None:
        return False
    return any(instr.semantics.issues is Completion.LOAD_WAIT for instr in function.instructions())


def _unread(records: Records, shadow: Shadow, parts: Sequence[range]) -> Record | None:
    """The product whose result is in all of the cells, and which nothing has read."""
    numbers = {shadow.last_unread(single_bytes(part)) for part in parts}
    record = records.records[numbers.pop()] if len(numbers) == 1 else None
    return record if record is not None and record.parts[0].instr.semantics.multiplies else None


def _is_lost(first: Record, step: Step, commits: int) -> bool:
    """Whether nothing can have read it, or it is of an earlier step of the same sum.

    What others may have waited for, they may leave unread on purpose, as a guess that did not hold. `commits` are the
    events of the commits of its thread.
    """
    before, now = first.rounds, step.rounds()
    if before == now and _line(first.parts[0].instr) != _line(step.instr):
        return False  # what another line overwrites may be meant so
    is_of_sum = before.names == now.names and before.numbers[:-1] == now.numbers[:-1]
    return is_of_sum or not commits >> first.event


def check_apart(state: State, step: Step) -> None:
    """Add a finding for each operand of a product that lies in columns of its D."""
    row, packed = step.instr.row, step.instr.words.get(INSTRUCTION_DESCRIPTOR)
    if row is None or packed is None or not step.instr.semantics.multiplies:
        return
    from nvbackend.isel.machine.tensor_memory_uses import columns_beside

    asked = instruction_descriptor(packed, kind=str(row.axes["kind"]))
    beside = columns_beside(row, asked)
    first = _column(step, _D)
    if first is None or not beside:
        return
    for name, columns in beside.items():
        read = None if name == _D else _column(step, name)
        if read is not None and first < read + columns and read < first + beside[_D]:
            state.findings.add(
                *(ORDER, "tensor memory", rules.TENSOR_OVERLAP, step.instr, ()),
                now=in_rounds(step.rounds()), instruction=instruction(step.instr), warp=step.warps[0], first=first,
                last=first + beside[_D] - 1, operand=_NAMES[name], read=read, end=read + columns - 1,
            )  # fmt: skip


def _column(step: Step, name: str) -> int | None:
    from nvbackend.isel.machine.tensor_memory_uses import LANE_SHIFT

    address = number(step.value(name), step.lanes)
    return None if address is None else address & (1 << LANE_SHIFT) - 1
