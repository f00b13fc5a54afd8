"""Products of wgmma and tcgen05 whose sums nothing reads before the next ones take their place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from nvbackend.diagnostics import Location
from nvbackend.dry_run import rules
from nvbackend.dry_run.findings import MISSED
from nvbackend.dry_run.order.record import Record
from nvbackend.dry_run.order.shadow import Records, Shadow
from nvbackend.dry_run.order.words import after_rounds, crew, in_rounds, instruction, line
from nvbackend.dry_run.protocols.state import State
from nvbackend.dry_run.seam import Step, Value
from nvbackend.dry_run.when import When
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.loops import loops_of
from nvbackend.isel.machine.facts import SCALE_D
from nvbackend.isel.machine.function import TMEM, Access, MachineFunction, MachineInstr, RegisterBlock

_COLUMNS = 512
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
        loop = loops_of(function).innermost(home)
        if loop is None or loop != loops_of(function).innermost(other):
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


def check_lost(state: State, shadow: Shadow, step: Step, parts: Sequence[slice]) -> None:
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


def _unread(records: Records, shadow: Shadow, parts: Sequence[slice]) -> Record | None:
    """The product whose result is in all of the cells, and which nothing has read."""
    numbers = {shadow.last_unread(part) for part in parts}
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
