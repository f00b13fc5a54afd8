"""wgmma: accumulators, fences, groups and the product, with checks of its operands against the request.

Unchecked, each mistake compiles and launches, and the tensor core misreads the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from llvmlite import ir

from nvbackend.builder.core.control import Control
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import own
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.ops.matrix.in_flight import FragmentsInFlight
from nvbackend.builder.ops.matrix.operand_descriptor import OperandDescriptor
from nvbackend.builder.ops.matrix.packed_registers import packed_register
from nvbackend.builder.ops.matrix.turns import turns
from nvbackend.builder.scopes.blocks import with_block
from nvbackend.builder.scopes.names import name_or
from nvbackend.builder.values.accumulator import Accumulator, WgmmaFragment
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import Diagnostic, Rule, raise_all, user_facing
from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.mma.wgmma import N_STEP, N_VALUES
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import ElementType, f16, f32, pred, s32, u32, u64
from nvbackend.intrinsics.words.smem_descriptor import Major, element_faults
from nvbackend.isel.machine.facts import SCALE_D
from nvbackend.isel.machine.function import Access, RegisterBlock, Touch
from nvbackend.isel.machine.pseudo import WRITE_REGISTERS
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from nvbackend.isel.select.wgmma.select import select_wgmma
from nvbackend.layout.descriptors.smem_layout import SmemLayout

ACCUMULATOR_TYPES = (f16, f32, s32)
FRAGMENT_REGISTERS = 4

ACCUMULATOR = Rule(
    id="wgmma.accumulator",
    message="accumulator {name} holds {given}; {needs}",
    fix="make it with {wanted}",
    why="The shape and the types decide how many registers the instruction writes, and in which order.",
    reference="PTX ISA 9.7.15.5.1.1 (wgmma register fragments)",
)
OPERAND_ELEMENT = Rule(
    id="wgmma.operand-element",
    message="{operand} of the instruction is {wanted}; this tile or fragment holds {given}",
    fix="make the tile or fragment of {wanted}, or ask for an instruction that multiplies {given}",
    why="The bits would be read as numbers of another type: wrong results, no fault.",
    reference="PTX ISA 9.7.15.3 (wgmma matrix types)",
)
OPERAND_MAJOR = Rule(
    id="wgmma.operand-major",
    message="the tile of {operand} is {major}; the request has trans_{operand} = {trans}",
    fix="ask with dataclasses.replace(request, trans_{operand}={wanted}), or lay the tile out the other way",
    why="The tensor core would read the tile transposed: wrong results, no fault.",
    reference="PTX ISA 9.7.15.5.2 (imm-trans-a, imm-trans-b)",
)
RESIDENCY = Rule(
    id="wgmma.residency",
    message="A is given {given}; the request says a_in_registers={asked}",
    fix="ask with a_in_registers={wanted}, or give A {other}",
    why="The two are different instructions.",
    reference="PTX ISA 9.7.15.5.2 (wgmma.mma_async: a, a-desc)",
)
FRAGMENT = Rule(
    id="wgmma.fragment",
    message="a fragment of A has {wanted} registers a thread, not {given}",
    fix="pack the thread's elements into {wanted} values of u32, as the figures of PTX ISA 9.7.15.5.1 show",
    why="The instruction reads that many.",
    reference="PTX ISA 9.7.15.5.1 (register fragments)",
)
THREADS = Rule(
    id="wgmma.threads",
    message="wgmma is executed by whole warpgroups of {warpgroup} threads; the kernel has {threads}",
    fix="use threads={wanted}, or branch on the thread's index to keep out the warps after the last whole warpgroup",
    why="The missing threads hold a part of the accumulator, and the instruction is undefined without them.",
    reference="PTX ISA 9.7.15 (wgmma: warpgroup)",
)


def check_accumulator(name: str, n: int, element: ElementType) -> None:
    """Raises wgmma.accumulator unless some wgmma writes an m64`n` accumulator of `element`."""
    if type(n) is not int or n not in N_VALUES or element not in ACCUMULATOR_TYPES:
        n_values = f"N is a multiple of {N_STEP} from {N_VALUES[0]} to {N_VALUES[-1]}"
        types = ", ".join(map(str, ACCUMULATOR_TYPES))
        ACCUMULATOR.fail(
            name=name,
            given=f"m64n{n} {element}",
            needs=f"{n_values}, the element one of {types}",
            wanted="k.wgmma.accumulator(n, element) within these",
        )


def check_threads(threads: int, among: int | None) -> None:
    """Raises wgmma.threads unless the threads that may come, a bit of `among` each, are whole warpgroups."""
    whole = threads // WARPGROUP_SIZE * WARPGROUP_SIZE
    if threads != whole and (among is None or among >> whole):
        wanted = -(-threads // WARPGROUP_SIZE) * WARPGROUP_SIZE
        THREADS.fail(warpgroup=WARPGROUP_SIZE, threads=threads, wanted=wanted)


def check_fragment(registers: int) -> None:
    """Raises wgmma.fragment unless these are the registers of a thread's part of A."""
    if registers != FRAGMENT_REGISTERS:
        FRAGMENT.fail(wanted=FRAGMENT_REGISTERS, given=registers)


def check_operands(request: WgmmaRequest, accumulator: Accumulator, a: object, b: object) -> None:
    """Raises, all together, what `request` does not multiply or write (wgmma.accumulator, wgmma.operand-...)."""
    raise_all([*_accumulator(request, accumulator), *_operand("a", request, a), *_operand("b", request, b)])


def check_operand(name: str, request: WgmmaRequest, operand: object) -> None:
    """Raises, all together, what of `operand` is not operand `name`, "a" or "b", of `request` (wgmma.operand-...)."""
    raise_all(_operand(name, request, operand))


def _accumulator(request: WgmmaRequest, accumulator: Accumulator) -> Iterator[Diagnostic]:
    if (accumulator.n, accumulator.element) != (request.n, request.d):
        yield ACCUMULATOR.diagnose(
            name=accumulator.name,
            given=f"m64n{accumulator.n} {accumulator.element}",
            needs=f"the instruction writes m64n{request.n} {request.d}",
            wanted=f"k.wgmma.accumulator({request.n}, nvb.{request.d})",
        )


def _operand(name: str, request: WgmmaRequest, operand: object) -> Iterator[Diagnostic]:
    in_registers = isinstance(operand, WgmmaFragment)
    if name == "a" and in_registers != request.a_in_registers:
        places = ("in shared memory", "in registers")
        yield RESIDENCY.diagnose(
            given=places[in_registers],
            other=places[not in_registers],
            asked=request.a_in_registers,
            wanted=in_registers,
        )
    element, trans = (request.a, request.trans_a) if name == "a" else (request.b, request.trans_b)
    tile = operand.layout if isinstance(operand, SharedTile) else operand
    if isinstance(tile, SmemLayout) and (faults := [*element_faults(tile.major, tile.element)]):
        yield from faults
        return
    if isinstance(tile, (WgmmaFragment, SmemLayout, OperandDescriptor)) and tile.element is not element:
        yield OPERAND_ELEMENT.diagnose(operand=name.upper(), wanted=element, given=tile.element)
    if isinstance(tile, (SmemLayout, OperandDescriptor)) and (tile.major is Major.MN) != bool(trans):
        yield OPERAND_MAJOR.diagnose(operand=name, major=tile.major, trans=trans, wanted=int(not trans))


@user_facing
class Wgmma(Noun):
    """wgmma: accumulators, fences, groups and the product (PTX ISA 9.7.15)."""

    __noun__ = "wgmma"
    __usual__ = "mma_async"

    def __init__(self, k: Core, control: Control) -> None:
        self._k = k
        self._control = control
        self._in_flight = FragmentsInFlight(k)

    def turns(self, count: Operand) -> Iterator[Value]:
        """`for step in k.wgmma.turns(count)`: a loop in which two sets of registers take turns, for A from registers.

        The body is emitted twice, for the steps of even and of odd number: what a step loads or converts for its
        fragments goes to other registers than those that the mma of the step before may still read. So with
        `k.wgmma.group(in_flight=1)` the tensor core multiplies one step while the next is made. No thread leaves the
        loop early (pipeline.left).
        """
        return turns(self._k, self._control, count)

    def accumulator(self, n: int, element: ElementType = f32, *, name: str | None = None) -> Accumulator:
        """The accumulator of an m64`n` instruction. It starts cleared: the first mma overwrites it.

        Raises wgmma.accumulator where no instruction has this N or element.
        """
        name = name_or(name, "accumulator", "acc")
        check_accumulator(name, n, element)
        registers = n // (4 if element is f16 else 2)
        register = ir.FloatType() if element is f32 else ir.IntType(32)
        block = self._register_block(name)
        storage = self._k.new_storage([register] * registers, name)
        scale = self._k.new_storage([ir.IntType(32)], f"{name}.scale_d")
        accumulator = Accumulator(self._k, block, storage, scale, n, element, self._k.places_of_atom(n))
        accumulator.clear()
        self._k.accumulators.append(accumulator)
        return accumulator

    def fragment(self, registers: Sequence[Operand], element: ElementType, *, name: str | None = None) -> WgmmaFragment:
        """A of an instruction in registers: four u32 or pairs for each thread, packed as PTX ISA 9.7.15.5.1 shows."""
        values = [packed_register(self._k, element, register) for register in registers]
        check_fragment(len(values))
        block = self._register_block(name_or(name, "fragment", "a"))
        self._k.pseudo(WRITE_REGISTERS, [Touch(block, Access.WRITE)])
        return WgmmaFragment(self._k, block, values, element)

    def _register_block(self, name: str) -> RegisterBlock:
        self._k.register_blocks += 1
        return RegisterBlock(self._k.register_blocks, name)

    def smem_descriptor(self, tile: SharedTile, *, row: int = 0, column: int = 0) -> Value:
        """The descriptor (u64) of the part of `tile` that starts at (row, column), both multiples of a core matrix.

        Raises layout.element and layout.major for a tile that only tcgen05 reads.
        """
        return self._tile_operand(tile, (row, column), (1, 1))._value()

    def fence(self) -> None:
        """Order the registers written so far before the mma that follow (wgmma.fence.sync.aligned)."""
        self._pass_through(wgmma.fence, {}, [])

    def commit_group(self) -> None:
        """Close the group of all mma issued since the last commit (wgmma.commit_group.sync.aligned)."""
        self._k.emit(wgmma.commit_group(), {})
        self._in_flight.commit()

    def wait_group(self, pending: int = 0, drains: Sequence[Accumulator] = ()) -> None:
        """Wait until at most the `pending` newest groups are in flight.

        It is the number of groups that may stay, not of those to wait for. Every live accumulator passes through the
        wait, so no read can move above it. Name in `drains` those that must be complete after it; the verifier reports
        one that is not (wgmma.wait-leaves-group).
        """
        touches = [Touch(drain.block, Access.DRAIN) for drain in drains]
        fragments = self._in_flight.registers()
        kept = {"fragments": fragments} if fragments else {}
        row_of = partial(wgmma.wait_group, fragments=len(fragments))
        self._pass_through(row_of, {"pending": pending, **kept}, touches)
        self._in_flight.wait(pending)

    def _pass_through(
        self, row_of: Callable[[wgmma.RegisterBlocks], Row], operands: dict[str, object], touches: list[Touch]
    ) -> None:
        """Emit a fence or wait with every live accumulator tied through it, so that LLVM moves no access across."""
        live = [accumulator for accumulator in self._k.accumulators if accumulator.storage.region.open]
        row = row_of(tuple((accumulator.register_class, accumulator.registers) for accumulator in live))
        blocks = dict(zip((operand.name for operand in row.outputs), live, strict=True))
        registers = {name: self._k.read(accumulator.storage) for name, accumulator in blocks.items()}
        results = self._k.emit(row, {**operands, **registers}, touches=touches)
        for name, block in blocks.items():
            self._k.write(block.storage, results[name])

    def mma_async(
        self,
        accumulator: Accumulator,
        a: SharedTile | OperandDescriptor | WgmmaFragment | Value,
        b: SharedTile | OperandDescriptor | Value,
        request: WgmmaRequest,
        *,
        a_at: tuple[int, int] = (0, 0),
        b_at: tuple[int, int] = (0, 0),
        metadata: Operand | None = None,
        accumulate: Operand | None = None,
    ) -> None:
        """D = A * B (+ D): one `wgmma.mma_async`, asynchronous until a wait drains its group.

        `a` and `b` are tiles of shared memory (`a_at`, `b_at`: the element where the operand starts), descriptors (u64,
        of which those of a `TileFragment` know their tile) or, for A, a fragment. `accumulate` is scale-D, a predicate:
        whether to add to what D holds; left out, a fresh or cleared accumulator is overwritten and every other one
        added to. Raises every broken rule of the request and of what it is given (wgmma.*, layout.*), at this line.
        """
        row = select_wgmma(request, self._k.target)
        check_threads(self._k.threads, self._k.regions[-1].among)
        check_operands(request, accumulator, a, b)
        stored_k = request.k // 2 if request.sparse else request.k
        operands: dict[str, object] = {}
        described: dict[str, OperandDescriptor] = {}
        touches = [Touch(accumulator.block, Access.ACCUMULATE, (request.m, request.n, request.k))]
        if isinstance(a, WgmmaFragment):
            operands["a"] = [register.ir for register in a._registers]
            touches.append(Touch(a.block, Access.MULTIPLY))
        else:
            operands["a_desc"] = self._operand_descriptor("a_desc", a, a_at, (request.m, stored_k), described)
        operands["b_desc"] = self._operand_descriptor("b_desc", b, b_at, (request.n, request.k), described)
        if metadata is not None:
            operands["metadata"] = as_value(self._k, metadata, u32).ir
        operands["scale_d"], facts = self._scale_d(accumulator, accumulate)
        operands["d"] = self._k.read(accumulator.storage)
        immediates = {
            "selector": request.selector,
            "scale_a": -1 if request.negate_a else 1,
            "scale_b": -1 if request.negate_b else 1,
            "trans_a": request.trans_a,
            "trans_b": request.trans_b,
        }
        operands.update({immediate.name: immediates[immediate.name] for immediate in row.immediates})
        words = {name: descriptor.word for name, descriptor in described.items()}
        extents = {name: descriptor.reach for name, descriptor in described.items()}
        results = self._k.emit(row, operands, touches=touches, words=words, facts=facts, extents=extents)
        self._k.write(accumulator.storage, results["d"])
        self._k.write(accumulator.scale, results["scale_out"])
        accumulator._note_mma(begins=accumulate is not None and not facts.get(SCALE_D))
        if isinstance(a, WgmmaFragment):
            self._in_flight.multiply([register.ir for register in a._registers])

    @with_block
    def group(self, in_flight: int = 0) -> Iterator[None]:
        """The protocol around a block of mma: a fence before it, then a commit, and a wait that leaves `in_flight`."""
        self.fence()
        yield
        self.commit_group()
        self.wait_group(in_flight)

    def _scale_d(self, accumulator: Accumulator, accumulate: Operand | None) -> tuple[ir.Value, dict[str, int]]:
        """Scale-D of an mma, and its value as a fact if the caller gave a constant."""
        if accumulate is None:
            return self._k.read(accumulator.scale)[0], {}
        predicate = as_value(self._k, accumulate, pred)
        known = {} if predicate.constant is None else {SCALE_D: int(bool(predicate.constant))}
        scale = predicate.to(s32).ir
        if predicate.constant != 0 and not accumulator._is_written():
            scale = self._k.llvm.and_(scale, self._k.read(accumulator.scale)[0])
        return scale, known

    def _operand_descriptor(
        self,
        name: str,
        tile: SharedTile | OperandDescriptor | Value,
        at: tuple[int, int],
        extent: tuple[int, int],
        described: dict[str, OperandDescriptor],
    ) -> ir.Value:
        """The descriptor of an operand of `extent` (rows, columns); what is known of it goes to `described`."""
        if isinstance(tile, SharedTile):
            tile = self._tile_operand(tile, at, extent)
        if isinstance(tile, OperandDescriptor):
            described[name] = tile
        return as_value(self._k, tile, u64).ir

    def _tile_operand(self, tile: SharedTile, at: tuple[int, int], extent: tuple[int, int]) -> OperandDescriptor:
        """The operand of `extent` (rows, columns) elements from element `at` of a tile on."""
        tile._check_view(at[0], extent[0])
        layout = tile.layout
        raise_all(element_faults(layout.major, layout.element))
        offset = layout.origin(*at, rows=extent[0], columns=extent[1])
        return OperandDescriptor(
            own(self._k, tile.address).byte_offset(offset),
            layout.descriptor().template_word,
            layout.element,
            layout.major,
            span=layout.reach(*at, *extent),
            row=layout.pitch,
            inside=offset,
        )
