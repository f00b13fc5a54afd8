"""tcgen05: tensor memory, its copies and the product."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from llvmlite import ir

from nvbackend.builder.core.control import Control
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import converted, issue
from nvbackend.builder.core.memory import Address, Memory, own
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.threads import Threads
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.lower.lowering import Operands, values_of
from nvbackend.builder.ops.matrix.operand_descriptor import OperandDescriptor
from nvbackend.builder.ops.matrix.tcgen05_operands import a_extent, b_extent, operand_extents, smem_layout, tile_faults
from nvbackend.builder.ops.matrix.tensor_memory import TensorLoad, TmemColumns, TmemPlaces
from nvbackend.builder.ops.sync.barrier import Barrier
from nvbackend.builder.ops.sync.cluster import Cluster
from nvbackend.builder.scopes.blocks import with_block
from nvbackend.builder.scopes.names import name_or
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import raise_all, user_facing
from nvbackend.intrinsics.copy import tcgen05_memory, tcgen05_registers
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, u32, u64
from nvbackend.intrinsics.words.smem_descriptor import ADDRESS_MASK, ADDRESS_SHIFT
from nvbackend.intrinsics.words.tcgen05_control import control_words
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor, Tcgen05SmemDescriptor
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import Access, MemoryTouch, MemoryUse, RegisterBlock, Touch
from nvbackend.isel.machine.tensor_memory_uses import Uses, tmem_uses
from nvbackend.isel.operands import memory
from nvbackend.isel.select.tcgen05.request import Tcgen05Request
from nvbackend.isel.select.tcgen05.select import select_tcgen05
from nvbackend.isel.select.tcgen05.shapes import descriptor_of, shape_faults
from nvbackend.isel.target.target import VARIANT, variant


@user_facing
class Tcgen05(Noun):
    """tcgen05: tensor memory, its copies and the product (PTX ISA 9.7.16)."""

    __noun__ = "tcgen05"
    __usual__ = "mma"

    def __init__(
        self,
        k: Core,
        control: Control,
        memory: Memory,
        threads: Threads,
        barrier: Barrier,
        cluster: Cluster,
    ) -> None:
        super().__init__(k)
        self._control = control
        self._memory = memory
        self._threads = threads
        self._barrier = barrier
        self._cluster = cluster

    @with_block
    def tmem(
        self, columns: int, *, warp: int = 0, cta_group: int = 1, relinquish: bool = True, name: str | None = None
    ) -> Iterator[TmemColumns]:
        """Allocate `columns` (32 to 512, a power of two) of tensor memory for the block; yields them to every thread.

        Warp number `warp` allocates them, and frees them after the block, which all threads of the CTA (with cta_group
        2, of the cluster) enter and leave together. `relinquish` promises that no other allocation follows, so that
        other CTAs of the SM can allocate. Raises tcgen05.columns, instruction.variant, target.feature.
        PTX ISA 9.7.16.7.1.
        """
        name = name_or(name, "tmem", "tmem")
        cell = self._memory.shared(u32, 1, name=f"{name}_address")
        with self._control.if_(self._threads.warp_id() == warp):
            self._tmem_allocate(cell, columns, cta_group, name)
            if relinquish:
                self.relinquish_alloc_permit(cta_group=cta_group)
        self._tmem_sync(cta_group)
        tmem = TmemColumns(self._k, cell[0], columns)
        yield tmem
        self._tmem_sync(cta_group)
        with self._control.if_(self._threads.warp_id() == warp):
            self.dealloc(tmem, columns, cta_group=cta_group)

    def _tmem_sync(self, cta_group: int) -> None:
        """A barrier that orders the tcgen05 operations of all threads."""
        self.fence_before_thread_sync()
        if cta_group == 1:
            self._barrier.sync()
        else:
            self._cluster.sync()
        self.fence_after_thread_sync()

    def alloc(self, cell: Address | Value, columns: int, *, cta_group: int = 1) -> None:
        """Allocate `columns` (32 to 512, a power of two) of tensor memory; its address (u32) is written to `cell`.

        `cell` is an Address in shared memory, or a generic address (u64) of it. A whole warp executes it, and must free
        the columns later. Read `cell` after a barrier. Raises tcgen05.columns, instruction.variant,
        target.feature. PTX ISA 9.7.16.7.1.
        """
        if isinstance(cell, Address):
            self._tmem_allocate(cell, columns, cta_group, "tmem")
            return
        memory.check_columns(columns)
        row = variant("tcgen05.alloc", tcgen05_memory.alloc, cta_group, space=None)
        issue(self._k, row, address=cell, columns=columns)

    def _tmem_allocate(self, cell: Address, columns: int, cta_group: int, name: str) -> None:
        memory.check_columns(columns)
        row = variant("tcgen05.alloc", tcgen05_memory.alloc, cta_group)
        address = as_value(self._k, cell.bytes, u32).ir
        made = self._columns.allocate(address, columns, name)
        touch = MemoryTouch(made, MemoryUse.DECLARE, "address", bytes=columns)
        self._k.emit(row, {"address": address, "columns": columns}, memory=[touch])

    def dealloc(self, tmem: Operand, columns: int, *, cta_group: int = 1) -> None:
        """Free the `columns` at `tmem`, all that one alloc gave; every kernel must do this. A whole warp executes it.

        Raises tcgen05.columns, instruction.variant, target.feature. PTX ISA 9.7.16.7.1.
        """
        memory.check_columns(columns)
        self._issue(variant("tcgen05.dealloc", tcgen05_memory.dealloc, cta_group), tmem=tmem, columns=columns)

    def relinquish_alloc_permit(self, *, cta_group: int = 1) -> None:
        """Promise not to allocate again, so that other CTAs of the SM can.

        A whole warp executes it. PTX ISA 9.7.16.7.1.
        """
        issue(self._k, variant("tcgen05.relinquish_alloc_permit", tcgen05_memory.relinquish_alloc_permit, cta_group))

    def ld(
        self,
        tmem: Operand,
        shape: str,
        count: int,
        *,
        red: str | None = None,
        type: ElementType | None = None,
        absolute: bool = False,
        propagate_nan: bool = False,
        pack: bool = False,
        half_split: int = 0,
    ) -> TensorLoad:
        """Load `count` repetitions of `shape` ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2") from `tmem`.

        A warp loads from its own quarter of the lanes, to u32 registers that are readable after `k.tcgen05.wait_ld`.
        With `pack` two 16-bit columns a register; `half_split` columns lie between the halves of 16x32bx2. With `red`
        "min" or "max" what each thread gets is also reduced, as `type` u32, s32 or f32 (`reduced`): shapes 32x32b and
        16x32bx2 with two registers or more, on sm_103 and sm_110 (a, f); `absolute` and `propagate_nan` are of f32.
        Raises instruction.variant, target.feature. PTX ISA 9.7.16.8.3.
        """
        if red is None:
            if type is not None or absolute or propagate_nan:
                reason = "type, absolute and propagate_nan are of a load that reduces; say how with red="
                VARIANT.fail(instruction="tcgen05.ld", reason=reason)
            row = variant("tcgen05.ld", tcgen05_registers.ld, shape, count, pack=pack)
        else:
            if pack or type is None:
                reason = (
                    "a load that reduces does not pack" if pack else "say what the values are: type=u32, s32 or f32"
                )
                VARIANT.fail(instruction="tcgen05.ld.red", reason=reason)
            nan = {"absolute": absolute, "propagate_nan": propagate_nan}
            row = variant("tcgen05.ld.red", tcgen05_registers.ld_red, shape, count, red, str(type), **nan)
        self._k.register_blocks += 1
        block = RegisterBlock(self._k.register_blocks, "load")
        touches = [Touch(block, Access.WRITE)]
        results = self._issue(row, split=half_split, touches=touches, tmem=tmem, **_split(row, half_split))
        outputs = ("values",) if red is None else ("values", "reduced")
        return TensorLoad(self._k, BY_NAME[str(type or u32)], [results[name] for name in outputs], block)

    def wait_ld(self, *loads: TensorLoad) -> None:
        """Wait for this thread's loads from tensor memory; after it the registers of `loads` can be read.

        They pass through the wait, so that the compiler moves no use of them above it. PTX ISA 9.7.16.8.5.
        """
        register = {True: RegisterClass.F32, False: RegisterClass.B32}
        blocks = [(register[load._element.is_float], block) for load in loads for block in load._blocks]
        row = tcgen05_registers.wait("ld", tuple((held, len(block)) for held, block in blocks))
        registers = {f"block{index}": block for index, (_, block) in enumerate(blocks)}
        results = self._k.emit(row, registers, touches=[Touch(load.block, Access.DRAIN) for load in loads])
        waited = (results[name] for name in registers)
        for load in loads:
            load._blocks = [next(waited) for _ in load._blocks]
            load._waited = True

    def st(
        self, tmem: Operand, shape: str, values: Sequence[Operand], *, unpack: bool = False, half_split: int = 0
    ) -> None:
        """Store this thread's registers (u32) to `tmem`, as many as `ld` loads for the shape.

        With `unpack`, each register fills two columns of 16 bits. It is complete after `wait_st`. Raises
        instruction.variant, target.feature. PTX ISA 9.7.16.8.4.
        """
        registers = [as_value(self._k, value, u32).ir for value in values]
        count = len(registers) // tcgen05_registers.SHAPES.get(shape, 1)
        row = variant("tcgen05.st", tcgen05_registers.st, shape, count, unpack=unpack)
        wanted = row.operand("values").count
        if wanted != len(registers):
            reason = f"x{count} of {shape} is {wanted} registers a thread, and {len(registers)} were given"
            VARIANT.fail(instruction="tcgen05.st", reason=reason)
        self._issue(row, split=half_split, tmem=tmem, values=registers, **_split(row, half_split))

    def wait_st(self) -> None:
        """Wait for this thread's stores to tensor memory. PTX ISA 9.7.16.8.5."""
        issue(self._k, tcgen05_registers.wait("st"))

    def cp(
        self,
        tmem: Operand,
        source: Operand,
        shape: str,
        repeat: str | None = None,
        *,
        unpack: str | None = None,
        cta_group: int = 1,
    ) -> None:
        """Copy shared memory (descriptor `source`, u64) to `tmem`, asynchronously; one thread issues it.

        `shape` is 128x256b, 4x256b, 128x128b, 64x128b (`repeat` warpx2::02_13 or warpx2::01_23) or 32x128b (warpx4);
        `unpack` b6x16_p32 or b4x16_p64 spreads 6- or 4-bit elements to bytes. Raises instruction.variant,
        target.feature. PTX ISA 9.7.16.9.2.
        """
        row = variant("tcgen05.cp", tcgen05_memory.cp, shape, repeat, unpack=unpack, cta_group=cta_group)
        self._issue(row, tmem=tmem, source=source)

    def shift(self, tmem: Operand, *, cta_group: int = 1) -> None:
        """Shift the rows of tensor memory at `tmem` down by one lane, asynchronously. PTX ISA 9.7.16.9.3."""
        self._issue(variant("tcgen05.shift", tcgen05_memory.shift, cta_group), tmem=tmem)

    def commit(self, barrier: Address | Value, *, cta_group: int = 1, multicast_mask: Operand | None = None) -> None:
        """Arrive once at `barrier` when all tcgen05 operations that this thread has issued are complete.

        It is an Address in shared memory, or a generic address (u64) of it. With `multicast_mask` (u16, a bit for each
        CTA), the barrier at the same place in each of those CTAs of the cluster. Raises mbarrier.address,
        instruction.variant, target.feature. PTX ISA 9.7.16.12.1.
        """
        many = multicast_mask is not None
        if isinstance(barrier, Address):
            row = variant("tcgen05.commit", tcgen05_memory.commit, cta_group, multicast=many)
        else:
            row = variant("tcgen05.commit", tcgen05_memory.commit, cta_group, multicast=many, space=None)
        issue(self._k, row, multicast_mask=multicast_mask, barrier=barrier)

    def fence_before_thread_sync(self) -> None:
        """Order earlier tcgen05 operations before the barrier of threads that follows. PTX ISA 9.7.16.11.1."""
        issue(self._k, tcgen05_memory.fence("before"))

    def fence_after_thread_sync(self) -> None:
        """Order later tcgen05 operations after the barrier of threads before this call. PTX ISA 9.7.16.11.1."""
        issue(self._k, tcgen05_memory.fence("after"))

    def smem_descriptor(self, start: Address, layout: Tcgen05SmemDescriptor) -> Value:
        """The descriptor word (u64) of `layout` at the shared address `start`, a multiple of 16 bytes.

        `layout.start_address` is not used. PTX ISA 9.7.16.4.1.
        """
        start._check_own("a descriptor")
        address = as_value(self._k, start.bytes, u32)
        descriptor = ((address & ADDRESS_MASK) >> ADDRESS_SHIFT).to(u64) | layout.template_word
        if (place := self._k.places.of_address(address.ir)) is not None:
            self._k.places.descriptors[descriptor.ir] = place
        return descriptor

    def mma(
        self,
        request: Tcgen05Request,
        d: Operand,
        a: Operand | SharedTile,
        b: Operand | SharedTile,
        descriptor: InstructionDescriptor | None = None,
        *,
        a_at: tuple[int, int] = (0, 0),
        b_at: tuple[int, int] = (0, 0),
        accumulate: Operand = True,
        metadata: Operand | None = None,
        scale_a: Operand | None = None,
        scale_b: Operand | None = None,
        output_lanes: Sequence[Operand] | None = None,
        scale_input_d: int | None = None,
        zero_column_mask: Operand | None = None,
    ) -> None:
        """D = A * B, or D + A * B where `accumulate`, asynchronously; one thread of the CTA (pair) issues it.

        `d`, `metadata`, `scale_a`, `scale_b` are tensor-memory addresses (u32), `b` a shared-memory descriptor (u64) or
        a tile (`b_at`: the element where the operand starts), `a` either as the request says. `output_lanes`: 4 words
        a CTA, a set bit keeps that lane of D; `scale_input_d` n (0 to 15): D is taken times 2 to the minus n;
        `zero_column_mask` a u64. Shape and types are the descriptor's, by default the request's own. Raises every
        broken rule of the request, tcgen05.m, tcgen05.n, tcgen05.k96, tcgen05.descriptor, block-scale.atom,
        tcgen05.operand-tile, tcgen05.operands, tcgen05.lane-words, layout.*. PTX ISA 9.7.16.10.9.
        """
        row = select_tcgen05(request, self._k.target)
        descriptor = descriptor_of(request, descriptor)
        raise_all([*shape_faults(request, descriptor, self._k.target), *tile_faults(a, b, descriptor)])
        word = descriptor.encode()
        optional: dict[str, Operand | Sequence[Operand] | None] = {
            "metadata": metadata,
            "scale_a": scale_a,
            "scale_b": scale_b,
            "lanes": output_lanes,
            "scale_d": scale_input_d,
            "zero_mask": zero_column_mask,
        }
        values: dict[str, Operand | Sequence[Operand]] = {
            "d": d,
            "a" if request.a_in_tmem else "a_desc": self._multiplicand(a, a_at, a_extent(request, descriptor)),
            "b_desc": self._multiplicand(b, b_at, b_extent(request, descriptor)),
            "idesc": word,
            "enable_d": accumulate,
            **{name: value for name, value in optional.items() if value is not None},
        }
        _check_operands(row, values, optional)
        operands = converted(self._k, row, {operand.name: values[operand.name] for operand in row.operands})
        words = {**control_words(row), "idesc": word}
        memory = self._touches(row, values, operands, tmem_uses(row, descriptor=descriptor))
        extents = operand_extents(request, descriptor, (a, a_at), (b, b_at))
        self._k.emit(
            row, operands, memory=memory, words=words, extents=extents, facts=self._started(row, operands, memory)
        )

    def _multiplicand(self, tile: Operand | SharedTile, at: tuple[int, int], size: tuple[int, int]) -> Operand:
        """What is given, or the descriptor of the `size` (rows, columns) elements of a tile from `at` on."""
        if isinstance(tile, OperandDescriptor):
            return tile._value()
        if not isinstance(tile, SharedTile):
            return tile
        tile._check_view(at[0], size[0])
        offset = tile.layout.origin(*at, rows=size[0], columns=size[1])
        return self.smem_descriptor(own(self._k, tile.address).byte_offset(offset), smem_layout(tile.layout))

    def _issue(
        self, row: Row, /, *, split: int = 0, touches: Sequence[Touch] = (), **operands: Operand | Sequence[Operand]
    ) -> dict[str, list[ir.Value]]:
        """Emit `row`, with the columns that it touches where the allocation is known."""
        registers = converted(self._k, row, operands)
        memory = self._touches(row, operands, registers, tmem_uses(row, half_split=split))
        return self._k.emit(row, registers, touches=touches, memory=memory, facts=self._started(row, registers, memory))

    def _started(self, row: Row, registers: Operands, memory: Sequence[MemoryTouch]) -> dict[str, int]:
        """Whether all threads that are here start the same operation."""
        if row.semantics.issues is not Completion.COMMIT:
            return {}
        placed = {touch.operand for touch in memory if not touch.symbol}
        others = {name: register for name, register in registers.items() if name not in placed}
        return {facts.SAME: int(self._k.execution.is_same(*values_of(others)))}

    def _touches(self, row: Row, values: Mapping[str, object], operands: Operands, uses: Uses) -> list[MemoryTouch]:
        """What is accessed of allocations that are known. Raises tcgen05.bounds for more than a block of columns."""
        for name, (_, columns) in uses.items():
            block = values.get(name)
            if isinstance(block, TmemColumns):
                block._check_wide(columns, row.opcode)
        return [*self._columns.touches(operands, uses)]

    @functools.cached_property
    def _columns(self) -> TmemPlaces:
        return TmemPlaces(self._k.places)


def _split(row: Row, half_split: int) -> dict[str, Any]:
    """The immediate of the shape of two halves; another shape has no place for it."""
    if row.has_operand("half_split"):
        return {"half_split": half_split}
    if half_split:
        reason = f"half_split is {half_split}, and only shape {tcgen05_registers.SPLIT_SHAPE} has two halves"
        VARIANT.fail(instruction=row.opcode, reason=reason)
    return {}


def _check_operands(row: Row, values: Mapping[str, object], optional: Iterable[str]) -> None:
    """Raises tcgen05.operands unless the optional operands are those of the row, and tcgen05.lane-words."""
    names = {operand.name for operand in row.operands}
    wanted, got = ([name for name in optional if name in held] for held in (names, values))
    if wanted != got:
        memory.OPERANDS.fail(
            instruction=row.ptx, wanted=", ".join(wanted) or "no more operands", given=", ".join(got) or "none"
        )
    lanes = values.get("lanes")
    if isinstance(lanes, Sequence) and len(lanes) != row.operand("lanes").count:
        memory.LANES.fail(group=row.axes["cta_group"], wanted=row.operand("lanes").count, given=len(lanes))
