"""Compiles a finished function: its slice to closures, its control flow to numbered blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir

from nvbackend.diagnostics import Location
from nvbackend.dry_run.anchors import Anchor
from nvbackend.dry_run.program.code import CodeBlock, LoopOf, Part, Program, Recorded
from nvbackend.dry_run.program.flow import meetings
from nvbackend.dry_run.program.layout import lay_out
from nvbackend.dry_run.program.left_alone import left_alone
from nvbackend.dry_run.program.needed import inputs as inputs_of
from nvbackend.dry_run.program.needed import is_of_protocols, needed, pointers, results
from nvbackend.dry_run.program.operations import is_pure, operation_of
from nvbackend.dry_run.program.registers import Registers
from nvbackend.dry_run.program.uses import Uses
from nvbackend.dry_run.successors import successors_of
from nvbackend.dry_run.values.arithmetic import Operation
from nvbackend.dry_run.values.floats import format_of
from nvbackend.dry_run.when import Counter
from nvbackend.intrinsics.row.row import GUARD, Effect
from nvbackend.intrinsics.row.semantics import Scope, TensorMemory
from nvbackend.isel.flow.loops import Loop, Loops, loops_of
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.machine.pseudo import ADDRESS

_SUMS = ("add", "sub", "fadd", "fsub")
_BITS = ("and", "or", "xor", "shl", "lshr", "ashr")
_QUOTIENTS = ("udiv", "sdiv", "urem", "srem")
_ADDRESSES = (
    *("getelementptr", "inttoptr", "bitcast", "zext", "sext", "trunc", "add", "sub", "mul"),
    *_BITS,
    *_QUOTIENTS,
)
_LOOKED_AT = ("call", "store")
"""Instructions that are looked at although nothing needs a value of theirs."""
_PROTOCOLS = ("barrier", "async", "wgmma", "tcgen05", "fence", "setmaxnreg", "exit")


def compile_program(
    function: ir.Function,
    machine: MachineFunction,
    anchors: Mapping[str, Sequence[Anchor]],
    dynamic_bytes: int,
    own: Callable[[MachineInstr], Any],
    made: Mapping[str, tuple[Location | None, str]],
) -> Program:
    """The program. `made` are the lines and the names of the loops, by their headers.

    `own` says what executes a recorded instruction that is one of threads, and not of a protocol.
    """
    return _Compiler(function, machine, anchors, dynamic_bytes, own, made).program()


class _Compiler:
    def __init__(
        self,
        function: ir.Function,
        machine: MachineFunction,
        anchors: Mapping[str, Sequence[Anchor]],
        dynamic_bytes: int,
        own: Callable[[MachineInstr], Any],
        made: Mapping[str, tuple[Location | None, str]],
    ) -> None:
        self._function = function
        self._made = made
        self._machine = machine
        self._own = own
        kept = {name: {id(one) for one in block.instructions} for name, block in machine.blocks.items()}
        self._anchors = {
            name: [one for one in several if id(one.instr) in kept.get(name, ()) and self._is_executed(one.instr)]
            for name, several in anchors.items()
        }
        self._covered = _covered(anchors)
        self._computed = {value: one for several in self._anchors.values() for one in several for value in results(one)}
        self._uses = Uses(function)
        self._needed = needed(function, self._anchors, self._computed, self._uses.stores)
        self._places, self._shared = lay_out(function.module, dynamic_bytes)
        self._number = {block.name: index for index, block in enumerate(function.blocks)}
        self._known_loops = loops_of(machine)
        self._left_alone = left_alone(function, anchors, self._known_loops)
        self._loops, self._around = self._find_loops()
        self._registers = Registers(self._number, self._places, self._loops, self._around)
        self._special: dict[int, Any] = {}
        self._slot_of_special: dict[str, int] = {}
        self._opaque = False

    def _is_executed(self, instr: MachineInstr) -> bool:
        return is_of_protocols(instr) or self._own(instr) is not None or _meets(instr)

    def program(self) -> Program:
        variables = [
            one
            for block in self._function.blocks
            for one in block.instructions
            if isinstance(one, ir.AllocaInstr) and one in self._needed
        ]
        registers = self._registers
        for one in variables:
            registers.new(one)
        scalars = {one.name: registers.new(one) for one in self._function.args}
        blocks = [self._block(block) for block in self._function.blocks]
        for block, meeting in zip(blocks, meetings(self._machine, [one.name for one in blocks]), strict=True):
            block.meeting = None if meeting is None else self._number[meeting]
            block.parts = [one for one in block.parts if one.operations or one.recorded is not None]
            block.length += sum(len(one.operations) for one in block.parts)
        return Program(
            blocks,
            registers.initial,
            len(variables),
            scalars,
            self._loops,
            self._around,
            self._shared,
            self._special,
            registers.addresses,
            self._places,
            self._computed,
            self._uses,
            registers.slots,
            {one.name: name for one in self._function.args if (name := format_of(one.type)) is not None},
            self._opaque,
        )

    # -- blocks -------------------------------------------------------------------------------------------------------

    def _block(self, block: ir.Block) -> CodeBlock:
        code, registers = CodeBlock(block.name), self._registers
        at = _by_place(block, self._anchors.get(block.name, ()))
        registers.begin(self._number[block.name])

        def record(anchor: Anchor) -> None:
            if self._is_special(anchor):
                return
            if not is_of_protocols(anchor.instr) and self._needed.isdisjoint(results(anchor)):
                last = code.parts[-1].recorded if code.parts else None
                if not _meets(anchor.instr) or (last is not None and last.meets):
                    return
                recorded = Recorded(anchor.instr, {}, {}, None, False, _only_meet, meets=True)
            else:
                recorded = self._recorded(anchor)
            code.parts.append(Part(list(registers.operations), recorded))
            registers.operations.clear()

        for anchor in at.get(-1, ()):
            record(anchor)
        for index, one in enumerate(block.instructions):
            if one in self._needed or one.opname in _LOOKED_AT:
                operation = self._operation(one, code)
                if operation is not None:
                    registers.operations.append(operation)
            for anchor in at.get(index, ()):
                record(anchor)
        self._end(block, code)
        code.parts.append(Part(registers.end(), None))
        return code

    def _is_special(self, anchor: Anchor) -> bool:
        """Whether it reads a special register, which a warp has from its start on."""
        row, values = anchor.instr.row, results(anchor)
        if row is None or row.family != "special_registers" or any(one in self._registers.slots for one in values):
            return False
        name = str(row.axes["register"])
        slot = self._slot_of_special.get(name)
        if slot is None:
            slot = self._slot_of_special[name] = self._registers.own()
            self._special[slot] = self._own(anchor.instr)
        for one in values:
            self._registers.slots[one] = slot
        return True

    def _operation(self, one: ir.Instruction, code: CodeBlock) -> Operation | None:
        if one.opname == "call" and id(one) not in self._covered and _is_protocol(one):
            self._opaque = True
        if one.opname == "store":
            if isinstance(one.operands[1], ir.AllocaInstr):
                if one.operands[1] not in self._needed:
                    return None
                code.sets = True
            elif one not in self._needed:
                return None
        elif one not in self._needed or one in self._computed or isinstance(one, ir.AllocaInstr):
            return None
        if one.opname == "phi":
            for value, before in one.incomings:
                pair = (self._registers.of(one), self._registers.of(value))
                code.phis = {**code.phis}
                code.phis.setdefault(self._number[before.name], []).append(pair)
            return None
        if is_pure(one):
            self._registers.defer(one)
            return None
        return operation_of(one, self._registers.of)

    def _end(self, block: ir.Block, code: CodeBlock) -> None:
        end = block.terminator
        code.targets = tuple(self._number[one.name] for one in successors_of(end))
        if len(code.targets) > 1:
            code.condition = self._registers.of(end.operands[0])
        if isinstance(end, ir.SwitchInstr):
            code.cases = {int(value.constant): self._number[to.name] for value, to in end.cases}
        elif isinstance(end, ir.IndirectBranch):
            self._opaque = True  # where it goes is no number that is computed here

    def _recorded(self, anchor: Anchor) -> Recorded:
        instr = anchor.instr
        outputs = {one.name for one in instr.row.outputs} if instr.row is not None else ()
        inputs = {
            name: tuple(self._registers.of(one) for one in several) for name, several in inputs_of(anchor).items()
        }
        given = {
            name: tuple(self._registers.of(one) for one in several)
            for name, several in anchor.registers.items()
            if name in outputs and any(one in self._needed for one in several)
        }
        for pointer in pointers(anchor):
            inputs[ADDRESS] = (self._registers.of(pointer),)
        swaps = _swaps(anchor)
        decides = instr.semantics.atomic and (bool(given) if instr.row is not None else anchor.after in self._needed)
        guard = inputs.pop(GUARD, (None,))[0]
        of_warpgroup = instr.semantics.together is Scope.WARPGROUP
        own, meets, writes = self._own(instr), _meets(instr), _writes(instr)
        changes = _changes(anchor.after) if instr.row is None else False
        word = self._registers.of(anchor.registers[ADDRESS][0]) if given and id(instr) in self._left_alone else None
        return Recorded(instr, inputs, given, guard, of_warpgroup, own, swaps, decides, changes, meets, writes, word)

    # -- loops --------------------------------------------------------------------------------------------------------

    def _find_loops(self) -> tuple[list[LoopOf], list[tuple[int, ...]]]:
        known = self._known_loops
        found = {}
        for name in self._number:
            if known.is_reachable(name) and (loop := known.innermost(name)) is not None:
                found[loop.header] = loop
        ordered = sorted(found.values(), key=lambda one: -len(one.blocks))
        loops = [self._loop(one, ordered, known) for one in ordered]
        around = [
            tuple(index for index, one in enumerate(loops) if number in one.blocks)
            for number in range(len(self._number))
        ]
        return loops, around

    def _loop(self, loop: Loop, loops: Sequence[Loop], known: Loops) -> LoopOf:
        place, given = self._made.get(loop.header, (None, ""))
        alike = [one for one in loops if self._made.get(one.header, (None, ""))[0] == place]
        outer = sum(one is not loop and loop.header in one.blocks for one in alike)
        inner = sum(one is not loop and one.header in loop.blocks for one in alike)
        counter = Counter(self._variable(loop.header), place, outer, outer + 1 + inner, given)
        before = known.dominator(loop.header) if known.regular else loop.header
        blocks = frozenset(self._number[name] for name in loop.blocks)
        return LoopOf(
            self._number[loop.header], blocks, counter, None if before in loop.blocks else self._number[before]
        )

    def _variable(self, header: str) -> str:
        block = next(one for one in self._function.blocks if one.name == header)
        for one in block.instructions:
            if one.opname == "load" and isinstance(one.operands[0], ir.AllocaInstr):
                return str(one.operands[0].name).split(".")[0]
        return ""


def _changes(after: ir.Instruction | None) -> bool:
    """Whether it stores a sum, or a difference, of what is loaded from the place that it stores to."""
    if after is None or after.opname != "store" or getattr(after.operands[0], "opname", "") not in _SUMS:
        return False
    parts = after.operands[0].operands
    return (
        any(isinstance(one, ir.LoadInstr) and _is_same(one.operands[0], after.operands[1]) for one in parts)
        and parts[0] is not parts[1]
    )


def _is_same(one: Any, other: Any, deep: int = 8) -> bool:
    """Whether two values are the same: one, or the same sum of the same."""
    if one is other:
        return True
    if not isinstance(one, ir.Instruction) or not isinstance(other, ir.Instruction) or not deep:
        return isinstance(one, ir.Constant) and isinstance(other, ir.Constant) and str(one) == str(other)
    alike = one.opname == other.opname and one.opname in _ADDRESSES and len(one.operands) == len(other.operands)
    return alike and all(_is_same(*pair, deep - 1) for pair in zip(one.operands, other.operands, strict=True))


def _by_place(block: ir.Block, anchors: Sequence[Anchor]) -> dict[int, list[Anchor]]:
    """The recorded instructions of a block by the index of the LLVM instruction that they come after."""
    index: dict[ir.Value, int] = {one: place for place, one in enumerate(block.instructions)} if anchors else {}
    found: dict[int, list[Anchor]] = {}
    latest = -1
    for anchor in anchors:
        if anchor.after is not None:
            latest = max(latest, index.get(anchor.after, latest))
        found.setdefault(latest, []).append(anchor)
    return found


def _covered(anchors: Mapping[str, Sequence[Anchor]]) -> set[int]:
    """The calls of recorded instructions."""
    found: set[int] = set()
    for several in anchors.values():
        for anchor in several:
            one = anchor.after
            while isinstance(one, ir.Instruction) and one.opname != "call":
                one = next((each for each in one.operands if isinstance(each, ir.Instruction)), None)
            if one is not None:
                found.add(id(one))
    return found


def _meets(instr: MachineInstr) -> bool:
    """Whether the lanes of a warp reconverge for it."""
    row = instr.row
    return row is not None and bool(row.effects & Effect.CONVERGENT) and row.semantics.together >= Scope.WARP


def _swaps(anchor: Anchor) -> bool:
    """Whether it is an atomic that leaves nothing of what was there."""
    if anchor.instr.row is None:
        return getattr(anchor.after, "operation", "") == "xchg"
    if not anchor.instr.semantics.atomic:
        return False
    from nvbackend.intrinsics.sync.atomics import EXCHANGE

    return anchor.instr.row.axes.get("operation") == EXCHANGE


def _writes(instr: MachineInstr) -> bool:
    """Whether the instruction itself, or what it issues, may change numbers in shared memory."""
    if instr.semantics.tensor_memory is TensorMemory.ALLOCATE:
        return True
    return instr.row is not None and any(one.writes for one in instr.semantics.memory)


def _only_meet(*_: object) -> Mapping[str, Any]:
    return {}


def _is_protocol(call: ir.CallInstr) -> bool:
    """Whether an unrecorded call may be part of a protocol."""
    callee = call.callee
    if isinstance(callee, ir.InlineAsm):
        return bool(callee.side_effect)
    return any(word in callee.name for word in _PROTOCOLS)
