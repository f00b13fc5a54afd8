"""The counted loops of a kernel, and what is assumed of its parameters, as operations on registers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from llvmlite import ir

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.anchors import Anchor
from nvbackend.dry_run.program.code import Program
from nvbackend.dry_run.program.layout import constant
from nvbackend.dry_run.program.needed import is_assumption
from nvbackend.dry_run.program.operations import operation_of
from nvbackend.dry_run.values.arithmetic import Operation, copy
from nvbackend.dry_run.values.unknown import UNKNOWN
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.isel.flow.paths import coming
from nvbackend.isel.machine.function import MachineFunction

_PREDICATES = {"slt": False, "ult": False, "sle": True, "ule": True, "ne": False}
"""By the comparison under which a loop continues: whether the bound itself has a round."""
_OPPOSITE = {"sge": "slt", "uge": "ult", "sgt": "sle", "ugt": "ule", "eq": "ne"}
"""Of the comparisons under which a loop ends."""
_LEAST, _MOST = ("gt", "ge", "ne"), ("lt", "le", "ne")
"""The comparisons that say how small their left side is, and their right one."""
_OF_THREAD = ("tid", "laneid", "warpid")


@dataclass(frozen=True, slots=True)
class Counted:
    """A loop that goes on while its counter compares with `bound`: registers of its start, bound and step."""

    header: str
    start: int
    bound: int
    step: int
    bits: int
    has_sign: bool
    inclusive: bool
    fixed: bool
    """Whether the step is a number of the build."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """A part of what is assumed, in the register `slot`: of the parameters `names`, with constant `numbers`.

    Where it compares two values, `sides` are their registers, and `bits` is how wide they are; `is_least` is whether it
    says how small a single parameter may be.
    """

    slot: int
    names: frozenset[str]
    numbers: frozenset[int]
    sides: tuple[int, int] | None = None
    bits: int = 1
    is_least: bool = False


class LoopCode:
    """What decides the rounds of the counted loops of `function`, and what is assumed, as operations on registers.

    `loops` are the blocks of each loop by its header; `threads` gives the first and the last thread of each warp that
    comes to a block. Every thread comes to the blocks `everywhere`.
    """

    def __init__(
        self,
        function: ir.Function,
        loops: Mapping[str, Collection[str]],
        stores: Mapping[ir.Value, Sequence[ir.Instruction]],
        computed: Mapping[ir.Value, Anchor],
        places: Callable[[Any], int | None],
        threads: Callable[[str], Sequence[tuple[int, int]]],
        everywhere: Sequence[str],
    ) -> None:
        self._computed = computed
        self._places = places
        self._stores = stores
        self._slots: dict[ir.Value, int] = {}
        self._differ: set[int] = set()
        """The registers that follow from parameters."""
        self._own: set[int] = set()
        """Those that follow from which thread it is."""
        self._given: dict[int, Sequence[int]] = {}
        """From which registers those that follow from parameters are computed."""
        self.registers: list[Any] = [None]
        self.special: dict[int, str] = {}
        """The registers that hold special registers, and which."""
        self.parameters: dict[str, int] = {}
        self.fixed: list[Operation] = []
        """What is computed of numbers and special registers alone, which comes first."""
        self.operations: list[Operation] = []
        self.used: dict[str, set[str]] = {}
        """By header, the parameters on which the loop's rounds depend."""
        blocks = {block.name: block for block in function.blocks}
        self.loops: list[Counted] = []
        for header, inside in loops.items():
            self._named: set[str] = set()
            counted = self._counted(header, blocks[header], inside)
            if counted is not None:
                self.loops.append(counted)
                if self._named:
                    self.used[header] = self._named
        self.of_thread = {one.header: found for one in self.loops if (found := self._taken_of_thread(one))}
        """All that loops take of the thread, by their headers: registers that no parameter decides."""
        self.threads = {header: threads(header) for header in self.of_thread}
        self.assumptions = [self._assumption(one) for one in _assumed(blocks[name] for name in everywhere)]

    # -- what a loop is -----------------------------------------------------------------------------------------------

    def _counted(self, header: str, block: ir.Block, inside: Collection[str]) -> Counted | None:
        end = block.terminator
        if end is None or not isinstance(end, ir.ConditionalBranch):
            return None
        test = end.operands[0]
        predicate = str(getattr(test, "op", "")) if getattr(test, "opname", "") == "icmp" else ""
        if end.operands[1].name not in inside:
            predicate = _OPPOSITE.get(predicate, "")
        if predicate not in _PREDICATES:
            return None
        counter, bound = test.operands
        if getattr(counter, "opname", "") != "load" or not isinstance(counter.operands[0], ir.AllocaInstr):
            return None
        stores = self._stores.get(counter.operands[0], [])
        steps = [one for one in stores if _adds(one.operands[0], counter.operands[0])]
        starts = [one for one in stores if one not in steps]
        if len(steps) != 1 or len(starts) != 1:
            return None
        step = steps[0].operands[0].operands[1]
        parts = (starts[0].operands[0], bound, step)
        for one in parts:
            self._decided_by(one, set())
        start, limit, by = (self._slot(one) for one in parts)
        has_sign, inclusive = predicate[0] == "s", _PREDICATES[predicate]
        fixed = not isinstance(step, ir.Instruction)
        return Counted(header, start, limit, by, int(bound.type.width), has_sign, inclusive, fixed)

    def _taken_of_thread(self, loop: Counted) -> list[int]:
        found, waiting = set[int](), [loop.start, loop.bound, loop.step]
        while waiting:
            slot = waiting.pop()
            if slot in self._own and slot not in found:
                found.add(slot)
                waiting += self._given.get(slot, ())
        return sorted(found - self._differ)

    def _assumption(self, value: Any) -> Assumption:
        names, numbers, slot = self._names(value), _numbers(value), self._slot(value)
        if getattr(value, "opname", "") != "icmp":
            return Assumption(slot, names, numbers)
        left, right = value.operands
        is_least = len(names) == 1 and str(value.op).lstrip("su") in (_LEAST if self._names(left) else _MOST)
        return Assumption(slot, names, numbers, (self._slot(left), self._slot(right)), int(left.type.width), is_least)

    def _names(self, value: Any) -> frozenset[str]:
        """The parameters that `value` is computed from."""
        self._named = set()
        self._decided_by(value, set())
        return frozenset(self._named)

    def _slot(self, value: Any) -> int:
        """The register of a value, which is computed from the parameters where that is possible."""
        found = self._slots.get(value) if isinstance(value, ir.Value) else None
        if found is not None:
            return found
        self.registers.append(UNKNOWN)
        slot = len(self.registers) - 1
        if isinstance(value, ir.Value):
            self._slots[value] = slot
        self._fill(value, slot)
        return slot

    def _decided_by(self, value: Any, seen: set[Any]) -> None:
        """Note the parameters that `value` is computed from."""
        if isinstance(value, ir.Argument):
            self._named.add(str(value.name))
        if not isinstance(value, ir.Instruction) or value in seen:
            return
        seen.add(value)
        anchor = self._computed.get(value)
        given: list[Any] = list(value.operands)
        if anchor is not None:
            given = [*anchor.registers.get("value", ())] if anchor.registers.get("value") != [value] else []
        elif value.opname == "atomicrmw":
            given = []
        elif value.opname == "load":
            given = [one.operands[0] for one in self._stores.get(value.operands[0], [])[:1]]
        for one in given:
            self._decided_by(one, seen)

    def _fill(self, value: Any, slot: int) -> None:
        if isinstance(value, ir.Argument):
            self.parameters[str(value.name)] = slot
            self._differ.add(slot)
        elif not isinstance(value, ir.Instruction):
            number = value if isinstance(value, int) else self._places(value)
            self.registers[slot] = UNKNOWN if number is None else number
        elif value in self._computed:
            self._of_row(self._computed[value], slot)
        elif value.opname == "load":
            stores = self._stores.get(value.operands[0], ())
            if stores:
                self._copy(slot, stores[0].operands[0])
        elif value.opname not in ("phi", "atomicrmw"):
            given: list[int] = []

            def register(one: Any) -> int:
                given.append(slot if one is value else self._slot(one))
                return given[-1]

            self._add(slot, operation_of(value, register), given)

    def _of_row(self, anchor: Anchor, slot: int) -> None:
        row = anchor.instr.row
        if row is not None and row.family == "special_registers":
            self.special[slot] = str(row.axes["register"])
            if self.special[slot].startswith(_OF_THREAD):
                self._own.add(slot)
        elif row is not None and row.opcode.startswith("shfl"):
            self._copy(slot, anchor.registers["value"][0])

    def _copy(self, slot: int, value: Any) -> None:
        source = self._slot(value)
        self._add(slot, copy(slot, source), (source,))

    def _add(self, slot: int, operation: Operation, given: Sequence[int]) -> None:
        """Compute a register from those that are given."""
        if not self._own.isdisjoint(given):
            self._own.add(slot)
        if self._differ.isdisjoint(given):
            self.fixed.append(operation)
        else:
            self._differ.add(slot)
            self._given[slot] = given
            self.operations.append(operation)


def _assumed(blocks: Iterable[ir.Block]) -> list[ir.Value]:
    """What is assumed in some blocks; of several conditions together each."""
    waiting = [one.args[0] for block in blocks for one in block.instructions if is_assumption(one)][::-1]
    found: list[ir.Value] = []
    while waiting:
        one = waiting.pop()
        if getattr(one, "opname", "") == "and":
            waiting += one.operands[::-1]
        else:
            found.append(one)
    return found


def _numbers(value: Any) -> frozenset[int]:
    """The constants from which a value is computed."""
    if isinstance(value, ir.Instruction):
        return frozenset().union(*map(_numbers, value.operands))
    number = getattr(value, "constant", None)
    return frozenset([number] if isinstance(number, int) else [])


def _adds(value: Any, variable: ir.Value) -> bool:
    return (
        getattr(value, "opname", "") == "add"
        and getattr(value.operands[0], "opname", "") == "load"
        and value.operands[0].operands[0] is variable
    )


def loop_code(function: ir.Function, machine: MachineFunction, program: Program) -> LoopCode:
    """What decides the rounds of the loops of `function`."""
    names = [block.name for block in program.blocks]
    loops = {names[loop.header]: {names[number] for number in loop.blocks} for loop in program.loops}
    return LoopCode(
        function,
        loops,
        program.uses.stores,
        program.computed,
        lambda one: constant(one, program.places),
        lambda header: _ends_of_warps(coming(machine)[header]),
        [names[number] for number in _everywhere(program)],
    )


def _everywhere(program: Program) -> list[int]:
    """The blocks to which every thread comes, once: the first one, where its branches meet, and so on."""
    found, at = list[int](), 0 if program.blocks else None
    while at is not None and at not in found:
        found.append(at)
        at = program.blocks[at].meeting
    return [number for number in found if not program.around[number]]


def _ends_of_warps(threads: int) -> list[tuple[int, int]]:
    """The first and the last of `threads`, a bit each, in each warp."""
    found = []
    for warp in range(-(-threads.bit_length() // WARP_SIZE)):
        lanes = threads >> warp * WARP_SIZE & (1 << WARP_SIZE) - 1
        if lanes:
            first, last = (lanes & -lanes).bit_length() - 1, lanes.bit_length() - 1
            found.append((warp * WARP_SIZE + first, warp * WARP_SIZE + last))
    return found
