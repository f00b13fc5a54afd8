"""The base of the builder: where code goes, what is recorded, and what is in scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from llvmlite import ir

from nvbackend.builder.lower import registers
from nvbackend.builder.lower.conversions import llvm_type
from nvbackend.builder.lower.live_builder import LiveBuilder
from nvbackend.builder.lower.lowering import (
    Operands,
    check_operands,
    declare,
    lower,
    reference,
    registers_of,
    shown,
    single_registers,
    values_of,
)
from nvbackend.builder.lower.pointers import base_of
from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.allow import Allowances
from nvbackend.builder.scopes.blocks import PendingBlocks, Region, Storage
from nvbackend.builder.scopes.in_functions import Functions, check_in_function
from nvbackend.builder.scopes.names import check_name
from nvbackend.builder.value_tracking.addresses.operands import OperandTracking, is_checked
from nvbackend.builder.value_tracking.addresses.peers import Peers
from nvbackend.builder.value_tracking.addresses.places import Places
from nvbackend.builder.value_tracking.addresses.thread_values import ThreadValues
from nvbackend.builder.value_tracking.execution import Execution
from nvbackend.builder.value_tracking.expressions.provenance import note_update
from nvbackend.builder.value_tracking.known_registers import KnownRegisters
from nvbackend.builder.value_tracking.uniformity import Choice, branches
from nvbackend.builder.value_tracking.warp_indices import SharedIndex, unshare_parted
from nvbackend.builder.values.accumulator import Accumulator
from nvbackend.builder.values.carried import Carried
from nvbackend.builder.values.math_policy import NOTHING_ALLOWED, MathPolicy
from nvbackend.builder.values.placed import TilePlaces
from nvbackend.builder.values.values import Value
from nvbackend.diagnostics import Diagnostic, Location, Uncopied, raise_all
from nvbackend.diagnostics.location import CallerChain, caller_line
from nvbackend.dry_run.anchors import Anchor, Anchors
from nvbackend.dry_run.successors import successors_of
from nvbackend.intrinsics.row.row import Effect, Row
from nvbackend.intrinsics.row.semantics import BARRIER, Scope
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.sync.barriers import elect
from nvbackend.isel.machine.facts import THREADS
from nvbackend.isel.machine.function import MachineBlock, MachineFunction, MachineInstr, MemoryTouch, Touch, emitted
from nvbackend.isel.machine.pseudo import ADDRESS, ARRAY, RETURN, STORE_GLOBAL, global_access
from nvbackend.isel.protocols.convergence.convergence import needed_of
from nvbackend.isel.select.rows import check_row
from nvbackend.isel.target.target import Target
from nvbackend.signature import LaunchBounds

_OTHER_AXES = ("tid.y", "tid.z")
NO_VALUES: Mapping[str, Sequence[ir.Value | int]] = MappingProxyType({})


class Core(Uncopied):
    """Blocks, regions, mutable storage and the machine record of one function."""

    cta_wide: dict[tuple[str, int], Callable[..., Diagnostic]]
    """What says that only some come to a call of all threads of the CTA, or of a group, by the user's line."""
    in_asm = False
    """Whether rows that have an intrinsic are lowered by inline asm too."""

    def __init__(
        self,
        name: str,
        target: Target,
        function: ir.Function,
        *,
        bounds: LaunchBounds,
        cached_storage: bool,
        debug: bool = True,
        math: MathPolicy = NOTHING_ALLOWED,
    ) -> None:
        self.name, self.target, self.function, self.bounds = name, target, function, bounds
        self.is_shaped = True
        """Whether the CTA certainly has the shape of these bounds, not of another with as many threads."""
        self.threads = bounds.threads
        self.cluster_size = bounds.cluster
        self.debug = debug
        """Whether prints, assertions and traps are part of the kernel."""
        self.machine = MachineFunction(name, target)
        self.machine.attributes.update(threads=bounds.threads, cluster=bounds.cluster)
        self.anchors = Anchors()
        self.callers = CallerChain()
        self.math = math
        self._available: set[Row] = set()
        """Rows that the target has."""
        self.llvm: ir.IRBuilder = LiveBuilder(self.check_live, function, self.callers)
        self.regions: list[Region] = [Region("kernel", None)]
        self.shared_counters: set[ir.Value] = set()
        """Slots of loop counters that have the same value in all threads of the CTA in each iteration."""
        self.execution = Execution(function, self.regions, self.shared_counters)
        self.register_blocks = 0
        self.places = Places()
        self.peers = Peers(self.callers)
        self.tracking = OperandTracking(self.execution, self.places, self.peers, in_cluster=self.in_cluster)
        self.accumulators: list[Accumulator] = []
        self.sums: list[Carried] = []
        self.places_of_atom: Callable[[int], TilePlaces | None] = lambda n: None  # noqa: ARG005
        """What knows the places of the elements of an accumulator of wgmma with N columns."""
        self.known = KnownRegisters(self.execution, is_kept=cached_storage)
        self.exit_kind: str | None = None
        self.asked = PendingBlocks()
        self._choices: dict[str, Choice] = {}
        self._shared_barriers: dict[ir.Value, Scope] = {}
        """Addresses of mbarriers that several threads use together, and the scope over which they are equal."""
        self.indices: list[SharedIndex] = []
        self.homes: dict[ir.Block, Region] = {}
        """The region of each block that this builder made."""
        self._torn: tuple[Region, str] | None = None
        self.allowances, self.cta_wide = Allowances(), {}
        self.finished = False
        self.inner: str | None = None
        """The kernel being built inside this one: everything emitted now belongs to it."""
        self.attached: Location | None = None
        """The line that attached the builder to the caller's function."""
        self.assumed: Location | None = None
        """The line of the first assumption."""
        self.functions = Functions()

    @property
    def in_cluster(self) -> bool:
        """Whether the function is launched in clusters of several CTAs."""
        return self.cluster_size > 1

    def start(self, block: ir.Block) -> None:
        """Continue at the end of `block`, which belongs to the innermost region."""
        self.llvm.position_at_end(block)
        self.homes[block] = self.regions[-1]
        self.execution.enter(self.machine.block(block.name))

    # -- emission -----------------------------------------------------------------------------------------------

    def emit(
        self,
        row: Row,
        operands: Operands,
        *,
        touches: Sequence[Touch] = (),
        memory: Sequence[MemoryTouch] = (),
        words: dict[str, int] | None = None,
        facts: dict[str, int] | None = None,
        extents: Mapping[str, int] | None = None,
        name: str = "",
    ) -> dict[str, list[ir.Value]]:
        """Emit one machine instruction: check it against the target, lower it, record it. Returns outputs by name.

        `extents` are the bytes that it accesses at the shared address in an operand, where the row does not say.
        Raises the diagnostics of the row's gate, with the actual target, before anything is emitted.
        """
        self.check_live()
        self._check_together(row, operands)
        immediates = {
            operand.name: number for operand in row.immediates if isinstance(number := operands.get(operand.name), int)
        }
        if immediates or row not in self._available:
            check_row(row, self.target, immediates)
            self._available.add(row)
        check_operands(self.function, row, operands)
        operands = single_registers(operands)
        self.check_scope(*values_of(operands))
        is_tracked = is_checked(row)
        reach = self.tracking.check(row, operands) if is_tracked else None
        with self.llvm.of_line(location := self.here()):
            lowered = self.tracking.in_registers(self.llvm, row, operands) if is_tracked else operands
            results = self.lower(row, lowered, name)
        operand_registers = dict(registers_of(row, operands, results))
        seen = self.tracking.tracked(row, operands, self.llvm.block, words or {}, extents or {})
        is_counted = THREADS in seen.facts or reach is not None
        if is_counted and isinstance(barrier := operands.get(BARRIER), ir.Instruction):
            self._shared_barriers[barrier] = Scope.GRID
        self.record(
            emitted(
                row.opcode,
                row,
                operands={name: shown(values) for name, values in operand_registers.items()},
                registers={name: len(values) for name, values in operand_registers.items()},
                immediates=immediates,
                words=seen.words,
                touches=tuple(touches),
                memory=(*memory, *seen.memory),
                facts={**seen.facts, **(facts or {})},
                sources=seen.sources,
                reach=reach,
                location=location,
                semantics=seen.semantics,
            ),
            operand_registers,
        )
        return results

    def lower(self, row: Row, operands: Operands, name: str = "") -> dict[str, list[ir.Value]]:
        """The IR of `row` at the present place, in the form that the function's compiler takes; outputs by name."""
        if self.in_asm and row.axes.get("register") in _OTHER_AXES:
            self.execution.other_axes = True
        return lower(self.llvm, row, operands, name, in_asm=self.in_asm)

    def _check_together(self, row: Row, operands: Operands) -> None:
        """Raises control.one-thread for a warp-wide instruction in a block of a single thread, function.instruction."""
        if self.functions.open:
            check_in_function(self.functions.open, row)
        alone = self.alone() if Effect.CONVERGENT in row.effects else None
        if alone is None:
            return
        named = {name: reference(operand) for name, operand in operands.items() if isinstance(operand, (ir.Value, int))}
        if needed_of(row, named) is not Scope.THREAD:
            advice = rules.CHOSEN if row == elect() else rules.OUTSIDE
            rules.ONE_THREAD.fail(instruction=row.ptx, block=alone.describe(), advice=advice)

    def alone(self) -> Region | None:
        """The outermost open block that a single thread of a warp runs."""
        return next((region for region in self.regions if region.alone), None)

    def pseudo(
        self,
        opcode: str,
        touches: Sequence[Touch] = (),
        memory: Sequence[MemoryTouch] = (),
        facts: Mapping[str, int] | None = None,
        place: Location | None = None,
    ) -> None:
        """Record for the analyses what no machine instruction expresses."""
        at = place or self.here()
        self.record(MachineInstr(opcode, None, touches=(*touches,), memory=(*memory,), facts=facts or {}, location=at))

    def record(self, instruction: MachineInstr, registers: Mapping[str, Sequence[ir.Value | int]] = NO_VALUES) -> None:
        """Append an instruction to the machine form of the current block, with the LLVM values of its operands."""
        block = self.llvm.block
        recorded = self.machine.blocks.get(block.name) or self.machine.block(block.name)
        recorded.instructions.append(instruction)
        self.allowances.note(instruction.location)
        after = block.instructions[-1] if block.instructions else None
        self.anchors.blocks.setdefault(block.name, []).append(Anchor(instruction, after, registers))

    def here(self, *, callers: bool = True) -> Location | None:
        """The place of what is emitted now: the user's line, with its callers where these are asked for."""
        return self.callers.location() if callers else caller_line()

    def plain_access(self, opcode: str, pointer: ir.Value, bytes: int) -> None:
        """Record a plain access of global memory, which no analysis but a user's own asks for.

        Without such an analysis its place has no callers: collecting them would take longer than all the rest.
        """
        block = self.machine.block(self.llvm.block.name)
        at = self.here(callers=bool(self.allowances.own))
        named, said = {ADDRESS: reference(pointer)}, global_access(opcode, bytes)
        if isinstance(array := base_of(pointer), ir.Argument):
            named[ARRAY] = array.name
        instr = MachineInstr(opcode, None, operands=named, location=at, semantics=said)
        block.plain.append((block.instructions[-1] if block.instructions else None, instr))
        if opcode == STORE_GLOBAL:
            self.tracking.maps.note_store(block, pointer)
        self.allowances.note(at)

    def intrinsic(self, name: str, element: ElementType | None, arguments: Sequence[ir.Value]) -> ir.Value:
        """Call an LLVM intrinsic that has no machine row (arithmetic, conversion)."""
        self.check_live()
        result = ir.VoidType() if element is None else llvm_type(element)
        function = declare(self.llvm.module, name, result, [argument.type for argument in arguments])
        return self.llvm.call(function, list(arguments))

    def wrap(self, value: ir.Value, element: ElementType) -> Value:
        """Wrap an llvmlite value as a Value of `element` that lives as long as the innermost region."""
        self.check_live()
        return Value(self, value, element, self.regions[-1])

    def check_live(self) -> None:
        """Raises control.unreachable after an exit, and what `_check_whole` raises."""
        self._check_whole()
        if self.exit_kind is not None:
            rules.UNREACHABLE.fail(exit=self.exit_kind)

    def _check_whole(self) -> None:
        if self.finished:
            advice = "emit everything before k.finish(), or inside the function that @kernel decorates"
            rules.FINISHED.fail(name=self.name, advice=advice)
        if self.inner is not None:
            rules.OUTER.fail(outer=self.name, inner=self.inner)
        if self._torn is not None:
            region, error = self._torn
            rules.TORN.fail(block=region.describe(), error=error)

    # -- regions and blocks -------------------------------------------------------------------------------------

    @contextmanager
    def region(self, kind: str) -> Iterator[Region]:
        """Open a region: what is emitted inside belongs to it."""
        region = Region(kind, self.here())
        region.among = self.regions[-1].among
        self.regions.append(region)
        try:
            yield region
        except BaseException as error:
            self._torn = self._torn or (region, type(error).__name__)
            raise
        finally:
            self.regions.remove(region)
            region.open = False
            self.regions[-1].written |= region.written

    def rehome(self, region: Region, around: Region) -> None:
        """Make blocks of `region`, which has ended and which every path runs through, blocks of the one `around`."""
        for block, home in self.homes.items():
            if home is region:
                self.homes[block] = around

    def check_blocks(self) -> None:
        """Raises for with-blocks that an exception tore, that are still open, or that were never entered."""
        if self._torn is not None:
            self.exit_kind = None
            self.check_live()
        if len(self.regions) > 1:
            rules.OPEN_BLOCK.fail(block=self.regions[-1].describe())
        raise_all([rules.NOT_ENTERED.diagnose(at=place, call=call) for call, place in self.asked.waiting.values()])

    def new_block(self, name: str) -> ir.Block:
        """A block that joins the function only when it is entered, so that a refused call leaves nothing."""
        return ir.Block(self.function, name)

    def enter(self, block: ir.Block, known: dict[Storage, list[ir.Value]] | None = None) -> None:
        """Continue in `block`; `known` are the storages whose registers are the same on every edge into it.

        It is placed after all blocks entered before, so that the IR follows the program's order. A block that is
        entered again, such as the end of an if with an else, moves there.
        """
        if block in self.function.blocks:
            self.function.blocks.remove(block)
        self.function.blocks.append(block)
        self.start(block)
        self.known.enter(known or {})
        self.exit_kind = None

    def branch(self, block: ir.Block) -> None:
        """End the current block with a jump, unless an exit ended it already."""
        self._check_whole()
        if self.exit_kind is not None:
            return
        self.known.store(self.llvm)
        self.llvm.branch(block)

    def branch_if(
        self,
        condition: Value,
        then: ir.Block,
        otherwise: ir.Block,
        rounds: tuple[ir.Value, ir.Value, ir.Value] | None = None,
    ) -> ir.Instruction:
        """End the current block with a branch; `rounds` are start, end and step of the counted loop that it heads."""
        self._check_whole()
        self.known.store(self.llvm)
        self._choices[self.llvm.block.name] = Choice(self.here(), rounds)
        return self.llvm.cbranch(condition.ir, then, otherwise)

    def link(self, *, everywhere: bool = False) -> dict[ir.Value, ir.Value]:
        """Copy the control flow to the machine form: the LLVM function's blocks in order, with their successors.

        Returns what replaces each shuffle of a warp index that a part of the warp reaches, as it may `everywhere`.
        """
        self.link_blocks()
        return self.link_threads(everywhere=everywhere)

    def link_blocks(self) -> None:
        """The first part of `link`: blocks and successors."""
        recorded = self.machine.blocks
        self.machine.blocks = {}
        for block in self.function.blocks:
            machine = self.machine.blocks[block.name] = recorded.get(block.name, MachineBlock(block.name))
            end = block.terminator
            machine.successors = [target.name for target in successors_of(end)]
            if isinstance(end, ir.ConditionalBranch):
                choice = self._choices.get(block.name)
                machine.sides = self.execution.sides(end.operands[0], (choice and choice.rounds) or ())
                machine.ranks = self.execution.ranks(end.operands[0])
            returns = machine.instructions and machine.instructions[-1].semantics.exits
            if end is not None and not machine.successors and not returns:
                machine.instructions.append(MachineInstr(RETURN))

    def link_threads(self, *, everywhere: bool = False) -> dict[ir.Value, ir.Value]:
        """The second part: over which threads branches are uniform. Without `indices` the IR stays as it is."""
        divisor = self.places.multiples.divisor
        parted = branches(self.function, self.execution.cta, self._choices, self._shared_barriers, divisor)
        for name, branch in parted.items():
            self.machine.blocks[name].branch = branch
        self.tracking.maps.mark_stores(self.machine)
        replaced = unshare_parted(self.machine, self.indices, everywhere=everywhere)
        self.machine.values = ThreadValues(self.function, self.execution, self._shared_barriers)
        return replaced

    # -- mutable storage ----------------------------------------------------------------------------------------

    def new_storage(self, types: Sequence[ir.Type], name: str) -> Storage:
        """Mutable registers: stack slots, which LLVM turns into registers and phis."""
        self.check_live()
        check_name(name)
        names = [name] if len(types) == 1 else [f"{name}.{index}" for index in range(len(types))]
        with self.llvm.goto_entry_block():
            slots = registers.slots(self.llvm, types, names)
        return Storage(name, tuple(slots), self.regions[-1])

    def check_scope(self, *values: ir.Value) -> None:
        """Raises value.scope for one of `values`, defined in a block that has ended."""
        for block in dict.fromkeys([value.parent for value in values if isinstance(value, ir.Instruction)]):
            home = self.homes.get(block)
            if home is not None and not home.open:
                home.fail_scope()

    def _check_storage(self, storage: Storage) -> None:
        self.check_live()
        if not storage.region.open:
            storage.region.fail_scope()
        if storage.slots[0].function is not self.function:
            rules.FOREIGN_VALUE.fail(owner=storage.slots[0].function.name, user=self.name)

    def read(self, storage: Storage) -> list[ir.Value]:
        """The registers' present values (value.scope after their region has ended)."""
        self._check_storage(storage)
        return self.known.read(self.llvm, storage)

    def write(self, storage: Storage, values: Sequence[ir.Value]) -> None:
        """Set the registers."""
        self._check_storage(storage)
        self.regions[-1].written.add(storage)
        if self.in_cluster:
            self.peers.set(storage.slots, values)
        note_update(self.machine.block(self.llvm.block.name), storage, values)
        self.known.write(self.llvm, storage, values)
