"""Mbarriers, and the copies that complete on them: TMA loads and stores of tensor tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator

from llvmlite import ir

from nvbackend.builder import rules
from nvbackend.builder.blocks import with_block
from nvbackend.builder.lowering import Operands
from nvbackend.builder.memory import Address
from nvbackend.builder.naming import name_or
from nvbackend.builder.parameters import TensorMapParameter
from nvbackend.builder.scaling import GLOBAL_SPACE
from nvbackend.builder.threads import Threads
from nvbackend.builder.tile import SharedTile, SharedTiles
from nvbackend.builder.values import Operand, Value, as_value
from nvbackend.diagnostics import raise_all
from nvbackend.intrinsics import mbarrier, sync, tensormap, tma
from nvbackend.intrinsics.guard import GUARD, guarded
from nvbackend.intrinsics.row import Row
from nvbackend.intrinsics.smem_layout import Major, SmemLayout
from nvbackend.intrinsics.types import ElementType, pred, s32, u8, u64
from nvbackend.isel import facts
from nvbackend.isel.families import family_rules
from nvbackend.isel.families.tma_place_rules import place_faults
from nvbackend.signature import TensorMap

MBARRIER_BYTES = 8


class Copies(Threads):
    """Mbarrier and TMA calls (PTX ISA 9.7.13.15 and 9.7.9.27.1)."""

    def mbarriers(self, count: int, arrivals: int, *, name: str | None = None) -> Address:
        """`count` mbarriers in shared memory, initialised by thread 0 to `arrivals` arrivals a phase.

        `barriers_ready` makes them visible; no thread may use them before.
        """
        name = name_or(name, "mbarriers", "mbarrier")
        barriers = self.shared(u64, count, align=MBARRIER_BYTES, name=name)
        self._init_all(barriers, count, arrivals)
        return barriers

    def _init_all(self, barriers: Address, count: int, arrivals: int) -> None:
        with self.if_(self.thread_id() == 0):
            for index in range(count):
                self.mbarrier_init(barriers + index, arrivals)

    def barriers_ready(self, *, aligned: bool = True) -> None:
        """Make every mbarrier initialised so far visible to the async proxy and to all threads of CTA or cluster.

        Before compute capability 9.0, which has neither, it is a barrier of the CTA. Without `aligned` the threads of a
        warp need not execute it together.
        """
        self._release_barriers()
        self.cluster_sync(relaxed=True, aligned=aligned)

    def _release_barriers(self) -> None:
        if self.target.has(sync.fence_mbarrier_init().requires):
            self.fence_mbarrier_init()

    @with_block
    def mbarrier_scope(
        self, count: int, arrivals: int, *, memory: Address | None = None, name: str | None = None
    ) -> Iterator[Address]:
        """`count` mbarriers of `arrivals` arrivals a phase for the block: ready inside, no barriers any more behind it.

        They lie at the start of `memory` (shared, at a multiple of 8 bytes), else in memory of their own. All threads
        of the CTA, and of its cluster, come to both ends. Behind the block, when no thread of the cluster uses them any
        more, they are invalidated and that is released to the cluster: the memory may hold something else.
        """
        name = name_or(name, "mbarrier_scope", "mbarrier")
        barriers = self.shared(u64, count, align=MBARRIER_BYTES, name=name) if memory is None else memory.cast(u64)
        self._init_all(barriers, count, arrivals)
        self.barriers_ready()
        yield barriers
        self.cluster_sync()
        with self.if_(self.thread_id() == 0):
            for index in range(count):
                self.emit(mbarrier.inval(), {"barrier": self._mbarrier(barriers + index).ir})
        self._release_barriers()
        self.barrier()

    def mbarrier_init(self, barrier: Address, arrivals: int) -> None:
        """Set an mbarrier up for `arrivals` arrivals a phase (1 to 2^20 - 1)."""
        family_rules.check_arrival_count(arrivals)
        self.emit(mbarrier.init(), {"barrier": self._mbarrier(barrier).ir, "count": arrivals})

    def _mbarrier(self, barrier: Address) -> Value:
        """The shared address of an mbarrier. Raises mbarrier.address where it can not be one."""
        if barrier.space == GLOBAL_SPACE or barrier.align % MBARRIER_BYTES:
            rules.MBARRIER_ADDRESS.fail(given=barrier, bytes=MBARRIER_BYTES)
        return self._own(barrier).bytes

    def mbarrier_arrive(self, barrier: Address) -> None:
        """Count one arrival on this CTA's mbarrier (release, CTA scope)."""
        self.emit(mbarrier.arrive(), {"barrier": self._mbarrier(barrier).ir})

    def mbarrier_arrive_expect_tx(self, barrier: Address, transaction_bytes: Operand) -> None:
        """Count one arrival and announce `transaction_bytes` bytes of copies, in this phase."""
        count = as_value(self, transaction_bytes, s32)
        if isinstance(count.constant, int):
            family_rules.check_transaction_count(count.constant)
        self.emit(mbarrier.arrive_expect_tx(), {"barrier": self._mbarrier(barrier).ir, "bytes": count.ir})

    def mbarrier_wait(self, barrier: Address, parity: Operand) -> None:
        """Wait until the phase of this `parity` (0 for the first) has completed."""
        phase = as_value(self, parity, s32)
        if isinstance(phase.constant, int):
            family_rules.check_parity(phase.constant)
        self.emit(mbarrier.wait_parity(), {"barrier": self._mbarrier(barrier).ir, "parity": phase.ir})

    def mbarrier_arrive_peer(self, barrier: Address, rank: Operand, *, when: Operand) -> None:
        """Count one arrival on the same mbarrier of the cluster's CTA `rank`, in the threads where `when` holds.

        Without a cluster it is this CTA's own. The plain form: no fence of GPU scope in the SASS.
        """
        self._arrive_peer(barrier, rank, when, {})

    def _arrive_peer(self, barrier: Address, rank: Operand, when: Operand, known: dict[str, int]) -> None:
        row, address = mbarrier.arrive(), self._mbarrier(barrier)
        if self.cluster > 1:
            row, address = mbarrier.arrive_remote(), self.map_to_peer(address, rank)
        self.emit(guarded(row), {"barrier": address.ir, GUARD: as_value(self, when, pred).ir}, facts=known)

    def shared_tiles(self, layout: SmemLayout, count: int = 1, *, name: str | None = None) -> SharedTiles:
        """`count` tiles of `layout` in dynamic shared memory, aligned to the swizzle period and for TMA."""
        align = max(layout.alignment, tma.TENSOR_ALIGNMENT)
        name = name_or(name, "shared_tiles", "tile")
        first = self._shared(u8, layout.bytes * count, align, name, layout.bytes)
        return SharedTiles(first, layout, count)

    def shared_tile(self, layout: SmemLayout, *, name: str | None = None) -> SharedTile:
        """One tile of `layout` in dynamic shared memory."""
        return self.shared_tiles(layout, name=name_or(name, "shared_tile", "tile")).at(0)

    def tma_load(
        self,
        tile: SharedTile,
        source: TensorMapParameter,
        at: tuple[Operand, Operand],
        barrier: Address,
        *,
        multicast: bool = False,
    ) -> None:
        """Copy the tile whose first element is (row, column) `at` of the matrix; its bytes complete on `barrier`.

        One thread executes it. With `multicast` every CTA of the cluster loads its share of each panel into all of
        them, and all must ask for the same tile. The coordinate along the map's innermost dimension is a multiple of
        16 bytes: a kernel that loads from elsewhere stops. Raises tma.start where that is certain, tma.tile-rank,
        tma.box, tma.swizzle, tma.element, tma.multicast, tma.multicast-target.
        """
        if multicast:
            family_rules.check_tma_multicast_target(self.target)
        instead = f"k.tma_load_box(address, {source.name}, coordinates, barrier)"
        share = self._boxes_a_panel(tile, source, "k.tma_load", instead)
        operands: dict[str, object] = {"barrier": self._mbarrier(barrier).ir, "tensor_map": source.address}
        first: Operand = 0
        if multicast and self.cluster > 1:
            if share % self.cluster:
                rules.TMA_MULTICAST.fail(boxes=share, box=source.type.box, cluster=self.cluster)
            share //= self.cluster
            first = self.cluster_rank() * share
            operands["multicast_mask"] = (1 << self.cluster) - 1
        row = tma.load_tile(source.type.rank, multicast="multicast_mask" in operands)
        for panel in range(tile.layout.panels):
            for box in range(share):
                place, coordinates = self._box(tile, source, at, panel, first + box)
                given = {**operands, "destination": place.bytes.ir, "coordinates": coordinates}
                self._copy(row, given, source, self._box_alignment(tile, source), "destination")

    def tma_store(self, target: TensorMapParameter, at: tuple[Operand, Operand], tile: SharedTile) -> None:
        """Copy `tile` to the matrix at (row, column) `at`, in this thread's open bulk group. One thread executes it.

        The coordinate along the map's innermost dimension is a multiple of 16 bytes, and none is negative: a kernel
        that stores elsewhere stops. Raises tma.start and tma.before where that is certain, tma.box, tma.swizzle,
        tma.element.
        """
        boxes = self._boxes_a_panel(
            tile, target, "k.tma_store", f"k.tma_store_box({target.name}, coordinates, address)"
        )
        for panel in range(tile.layout.panels):
            for box in range(boxes):
                place, coordinates = self._box(tile, target, at, panel, box)
                operands = {"tensor_map": target.address, "coordinates": coordinates, "source": place.bytes.ir}
                row = tma.store_tile(target.type.rank)
                self._copy(row, operands, target, self._box_alignment(tile, target), "source")

    def _box_alignment(self, tile: SharedTile, tensor_map: TensorMapParameter) -> int:
        """What the addresses of all boxes of a tile are multiples of."""
        layout, boxes = tile.layout, tile.layout.panel_box[0] // tensor_map.type.box[0]
        steps = [layout.panel_bytes] * (layout.panels > 1) + [tensor_map.type.box[0] * layout.pitch] * (boxes > 1)
        return math.gcd(tile.address.align, *steps)

    def _copy(self, row: Row, given: Operands, tensor_map: TensorMapParameter, align: int, place: str) -> None:
        """Emit a copy of one box, once nothing is wrong with where it lies, its box and who copies it."""
        kind = tensor_map.type
        known = {
            facts.ALIGNMENT: align,
            facts.BOX_ROW: kind.element.bytes_for(kind.box[-1]),
            facts.SWIZZLE: kind.swizzle,
            facts.SAME: int(self._execution.is_same(*_values(given))),
            **self._start_facts(kind.element, given),
            **_reduced_element(row, kind.element),
        }
        raise_all(place_faults(row, {**self._execution.facts(row, given), **known}))
        self.emit(row, given, facts=known, extents=_extent(kind, str(row.axes["mode"]), place))

    def _start_facts(self, element: ElementType, given: Operands) -> dict[str, int]:
        """What run-time values can not change of where the box starts."""
        coordinates = given["coordinates"]
        if not isinstance(coordinates, list):
            return {}
        steps = [self._places.step(one) for one in coordinates]
        before = [place for place, one in enumerate(steps) if not one.terms and one.constant < 0]
        known = {facts.BEFORE: before[0]} if before else {}
        start, unit = steps[0], element.bits // 8
        if element.bits % 8 or any(factor * unit % tma.BULK_ALIGNMENT for factor in start.terms.values()):
            return known
        return known | {facts.START: start.constant * unit % tma.BULK_ALIGNMENT}

    def tma_commit_stores(self) -> None:
        """Close this thread's bulk group (cp.async.bulk.commit_group)."""
        self.emit(tma.commit_group(), {})

    def tma_wait_stores(self, pending: int = 0, *, reading: bool = False) -> None:
        """Wait until at most `pending` of this thread's bulk groups are left; with `reading` only for their sources.

        Raises tma.pending for a number that the wait can not count.
        """
        self.emit(tma.wait_group(read=reading), {"pending": pending})

    def tma_prefetch_maps(self, *tensor_maps: TensorMapParameter) -> None:
        """Bring the tensor maps themselves near before their first use; one thread of the CTA does it."""
        with self.if_(self.thread_id() == 0):
            for tensor_map in tensor_maps:
                self.emit(tma.prefetch_tensormap(), {"tensor_map": tensor_map.address})

    def _boxes_a_panel(self, tile: SharedTile, tensor_map: TensorMapParameter, call: str, instead: str) -> int:
        """How many boxes of the map make one panel of the tile, once the two are known to fit `call`.

        Raises tma.tile-rank, tma.element, tma.swizzle and tma.box.
        """
        kind, layout = tensor_map.type, tile.layout
        if kind.rank != len(layout.tma_box):
            rules.TMA_RANK.fail(
                name=tensor_map.name,
                rank=kind.rank,
                box=kind.box,
                call=call,
                instead=instead,
                element=layout.element,
                wanted=layout.tma_box,
                swizzle=layout.swizzle.span,
            )
        along, across = layout.panel_box
        found = []
        if kind.element is not layout.element:
            found.append(rules.TMA_ELEMENT.diagnose(name=tensor_map.name, given=kind.element, wanted=layout.element))
        if kind.swizzle != layout.swizzle.span:
            found.append(
                rules.TMA_SWIZZLE.diagnose(name=tensor_map.name, given=kind.swizzle, wanted=layout.swizzle.span)
            )
        if kind.box[1] != across or along % kind.box[0]:
            described = f"{layout.rows}x{layout.columns} ({layout.panels} panel(s) of {along}x{across})"
            found.append(
                rules.TMA_BOX.diagnose(name=tensor_map.name, box=kind.box, tile=described, wanted=layout.tma_box)
            )
        raise_all(found)
        return along // kind.box[0]

    def _box(
        self, tile: SharedTile, tensor_map: TensorMapParameter, at: tuple[Operand, Operand], panel: int, box: Operand
    ) -> tuple[Address, list[ir.Value]]:
        """Where box number `box` of a panel lies in shared memory, and its coordinates, innermost first."""
        layout, (extent, across) = tile.layout, tensor_map.type.box
        if len(at) != len(tensor_map.type.box):
            rules.TMA_PLACE.fail(name=tensor_map.name, given=len(at), rank=len(tensor_map.type.box))
        row, column = at
        step = box * extent
        if layout.major is Major.K:
            inner, outer = column + panel * across, row + step
        else:
            inner, outer = row + panel * across, column + step
        offset = panel * layout.panel_bytes + step * layout.pitch
        return self._own(tile.address).byte_offset(offset), [as_value(self, one, s32).ir for one in (inner, outer)]


def _extent(kind: TensorMap, mode: str, place: str) -> dict[str, int]:
    """The bytes of a box in shared memory, at the operand `place`; nothing where the map does not say them."""
    if mode in _FOUR_ROWS:
        rows, columns = kind.box
        return {place: _FOUR_ROWS[mode] * kind.element.bytes_for(columns)} if rows == 1 else {}
    return {} if mode == _FIXED_PIXELS else {place: kind.bytes}


_FOUR_ROWS = {"tile::gather4": 4, "tile::scatter4": 4}
"""Modes that copy so many boxes of a row."""
_FIXED_PIXELS = "im2col::w::128"
"""It copies 128 pixels, whatever the map says."""


def _reduced_element(row: Row, element: ElementType) -> dict[str, int]:
    name = tensormap.ELEMENT_TYPE_OF.get(element.name)
    if name is None or row.axes["direction"] != "reduce":
        return {}
    return {facts.ELEMENT: tensormap.ELEMENT_TYPES.index(name)}


def _values(given: Operands) -> Iterator[ir.Value]:
    """The LLVM values among operands."""
    for one in given.values():
        yield from (each for each in (one if isinstance(one, list) else [one]) if isinstance(each, ir.Value))
