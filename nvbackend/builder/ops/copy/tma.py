"""Copies of tensor boxes between global and shared memory, checked against their tensor map and instruction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from nvbackend.builder.core.control import Control
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import Given, converted, issue, mbarrier_address
from nvbackend.builder.core.memory import Address, own
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.parameters import TensorMapParameter
from nvbackend.builder.core.threads import LINEAR, Threads
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.lower.lowering import Operands, values_of
from nvbackend.builder.ops.copy.box_operands import box_extent, check_counts, reduced_element
from nvbackend.builder.ops.copy.map_modes import check_mode
from nvbackend.builder.ops.sync.cluster import Cluster
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import raise_all, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy import tensormap, tma, tma_bulk, tma_tensor
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType, s32
from nvbackend.intrinsics.words.smem_descriptor import Major
from nvbackend.isel.machine import facts
from nvbackend.isel.operands.tma_places import place_faults
from nvbackend.isel.select.tma.request import TmaRequest
from nvbackend.isel.select.tma.select import check_multicast_target, select_tma
from nvbackend.layout.algebra.swizzle import BYTE_BITS


@dataclass(frozen=True, slots=True)
class TileBoxes:
    """A tile and the boxes that fill it.

    A box has the tile's contiguous dimension innermost, the other one along `outer`, and the extent 1 along all else: a
    matrix of a batch, or the rows of one head.
    """

    tile: SharedTile
    map: TensorMapParameter
    outer: int
    """The map's dimension, outermost first, of the tile's strided dimension."""

    @property
    def extent(self) -> int:
        """The box's extent along the tile's strided dimension, in elements."""
        return self.map.type.box[self.outer]

    @property
    def a_panel(self) -> int:
        """How many boxes make a panel of the tile."""
        return self.tile.panel_box[0] // self.extent

    @property
    def alignment(self) -> int:
        """The alignment of the addresses of all boxes, in bytes."""
        layout = self.tile.layout
        steps = [layout.panel_bytes] * (self.tile.panels > 1) + [self.extent * layout.pitch] * (self.a_panel > 1)
        return math.gcd(self.tile.address.align, *steps)

    def place(self, k: Core, at: Sequence[Operand], panel: int, box: Operand) -> tuple[Address, list[Value]]:
        """Where box number `box` of a panel lies in shared memory, and its coordinates, innermost first.

        `at` has the coordinates of the dimensions of extent 1, outermost first, then the tile's row and column.
        """
        layout, step = self.tile.layout, box * self.extent
        coordinates = self._coordinates(at, panel, step)
        address = own(k, self.tile.address).byte_offset(panel * layout.panel_bytes + step * layout.pitch)
        return address, [as_value(k, coordinate, s32) for coordinate in coordinates]

    def _stored(self, inner: Operand) -> Operand:
        """A coordinate along a row, as the map counts it: in bytes where several elements share one."""
        bits = self.map.type.element.bits
        return inner if bits >= BYTE_BITS else inner // (BYTE_BITS // bits)

    def coordinates(self, k: Core, at: Sequence[Operand], panel: int, box: Operand) -> list[Value]:
        """The coordinates alone that `place` gives."""
        return [as_value(k, coordinate, s32) for coordinate in self._coordinates(at, panel, box * self.extent)]

    def _coordinates(self, at: Sequence[Operand], panel: int, step: Operand) -> list[Operand]:
        layout, rank = self.tile.layout, self.map.type.rank
        if len(at) != rank:
            rules.TMA_PLACE.fail(name=self.map.name, given=len(at), rank=rank)
        *others, row, column = at
        inner, outer = (column, row) if layout.major is Major.K else (row, column)
        inner, outer = self._stored(inner + panel * layout.panel_box[1]), outer + step
        return [inner, *reversed([*others[: self.outer], outer, *others[self.outer :]])]


def tile_boxes(tile: SharedTile, tensor_map: TensorMapParameter, call: str, instead: str) -> TileBoxes:
    """The boxes of the map that make the tile, once the two are known to fit `call`.

    Raises tma.map-mode, tma.tile-rank, tma.element, tma.swizzle, tma.box, and layout.step for a part of a panel.
    """
    if tensor_map.type.im2col is not None:
        check_mode(tensor_map, tma_tensor.load_tensor(tensor_map.type.rank))
    kind, layout = tensor_map.type, tile.layout
    wide = [dimension for dimension, extent in enumerate(kind.box[:-1]) if extent != 1]
    if kind.rank < len(layout.tma_box) or len(wide) > 1:
        rules.TMA_RANK.fail(
            name=tensor_map.name,
            box=kind.box,
            call=call,
            instead=instead,
            element=layout.element,
            wanted=layout.tma_box,
            swizzle=layout.swizzle.span,
            rank=kind.rank,
        )
    boxes = TileBoxes(tile, tensor_map, *(wide or [kind.rank - 2]))
    panels, (along, across) = tile.panels, tile.panel_box
    if layout.padded:
        rules.TMA_PADDED.fail(name=tensor_map.name, element=layout.element)
    faults = []
    if kind.element is not layout.element:
        faults.append(rules.TMA_ELEMENT.diagnose(name=tensor_map.name, given=kind.element, wanted=layout.element))
    if kind.swizzle != layout.swizzle.span:
        faults.append(rules.TMA_SWIZZLE.diagnose(name=tensor_map.name, given=kind.swizzle, wanted=layout.swizzle.span))
    if kind.box[-1] != across or along % boxes.extent:
        rows = layout.rows if tile.view is None else tile.view
        described = f"{rows}x{layout.columns} ({panels} panel(s) of {along}x{across})"
        wanted = _like(kind.box, boxes.outer, (math.gcd(along, layout.tma_box[0]), across))
        faults.append(rules.TMA_BOX.diagnose(name=tensor_map.name, box=kind.box, tile=described, wanted=wanted))
    raise_all(faults)
    return boxes


def _like(box: Sequence[int], outer: int, wanted: tuple[int, int]) -> tuple[int, ...]:
    """A box of the same rank with the wanted extents."""
    return (*box[:outer], wanted[0], *box[outer + 1 : -1], wanted[1])


@user_facing
class Tma(Noun):
    """Copies of tensor boxes between global and shared memory (PTX ISA 9.7.9.27)."""

    __noun__ = "tma"
    __usual__ = "load"

    def __init__(self, k: Core, control: Control, threads: Threads, cluster: Cluster) -> None:
        super().__init__(k)
        self._control = control
        self._threads = threads
        self._cluster = cluster

    def load(
        self,
        tile: SharedTile,
        source: TensorMapParameter,
        at: Sequence[Operand],
        barrier: Address,
        *,
        multicast: bool = False,
        cache_policy: Operand | None = None,
    ) -> None:
        """Copy the operand's tile at (row, column) `at`, (m, k) or (n, k); its bytes complete on `barrier`.

        Row and column are the tile's own, however the matrix is stored: for an MN-major tile (of `trans_b=True`, say),
        which is K x N in memory, `at` is (n, k) too, not (k, n).

        A map of more dimensions has a box with the extent 1 along all others, as (1, 128, 64) of a batch or (128, 1,
        64) of heads; their coordinates, outermost first, come before row and column.

        One thread executes it. With `multicast`, every CTA of the cluster loads its share of each panel into all of
        them; all must load the same tile. `cache_policy`, of `k.cache.policy`, says what the L2 cache keeps. The
        coordinate along the map's innermost dimension must be a multiple of 16 bytes, or the kernel stops with an
        error. Raises tma.start if it certainly is not, tma.map-mode, tma.tile-rank, tma.place, tma.box, tma.swizzle,
        tma.element, tma.multicast, tma.multicast-target.
        """
        if multicast:
            check_multicast_target(self._k.target)
        instead = f"k.tma.load_box(address, {source.name}, coordinates, barrier)"
        boxes = tile_boxes(tile, source, "k.tma.load", instead)
        completes = mbarrier_address(self._k, barrier).ir
        first, share, mask = self._share(boxes, multicast=multicast)
        row = tma_tensor.load_tensor(source.type.rank, multicast=mask is not None, cache_hint=cache_policy is not None)
        for panel in range(boxes.tile.panels):
            for box in range(share):
                place, coordinates = boxes.place(self._k, at, panel, first + box)
                operands: dict[str, Any] = {"coordinates": coordinates, "multicast_mask": mask}
                operands |= {"cache_policy": cache_policy, "destination": place, "barrier": completes}
                self._copy(row, source, "destination", boxes.alignment, **operands)

    def _share(self, boxes: TileBoxes, *, multicast: bool) -> tuple[Operand, int, int | None]:
        """Of each panel's boxes the first that this CTA loads, how many, and the mask of the CTAs that get them."""
        share, ctas = boxes.a_panel, self._k.cluster_size
        if not multicast or ctas == 1:
            return 0, share, None
        if share % ctas:
            rules.TMA_MULTICAST.fail(boxes=share, box=boxes.map.type.box, cluster=ctas)
        share //= ctas
        return self._cluster.rank() * share, share, (1 << ctas) - 1

    def prefetch(
        self,
        tile: SharedTile,
        source: TensorMapParameter,
        at: Sequence[Operand],
        *,
        multicast: bool = False,
        cache_policy: Operand | None = None,
    ) -> None:
        """Bring the boxes that `load` copies to `tile` at (row, column) `at` to the L2 cache, and nothing to the tile.

        What `load` says of `at`, of the map, of `cache_policy` and of `multicast`, with which each CTA brings its
        share, holds here too. One thread executes it. Raises what `load` raises.
        """
        if multicast:
            check_multicast_target(self._k.target)
        instead = f"k.tma.prefetch_box({source.name}, coordinates)"
        boxes = tile_boxes(tile, source, "k.tma.prefetch", instead)
        first, share, _ = self._share(boxes, multicast=multicast)
        for panel in range(boxes.tile.panels):
            for box in range(share):
                coordinates = boxes.coordinates(self._k, at, panel, first + box)
                self.prefetch_box(source, coordinates, cache_policy=cache_policy)

    def store(
        self,
        target: TensorMapParameter,
        at: Sequence[Operand],
        tile: SharedTile,
        *,
        cache_policy: Operand | None = None,
    ) -> None:
        """Copy `tile` to the matrix at (row, column) `at`, in this thread's open bulk group. One thread executes it.

        Of a map of more dimensions, `at` and the box are as for `load`, and so is `cache_policy`.
        The coordinate along the map's innermost dimension must be a multiple of 16 bytes, and none may be negative, or
        the kernel stops with an error. Raises tma.start and tma.before if that is certain, tma.box, tma.swizzle,
        tma.element.
        """
        instead = f"k.tma.store_box({target.name}, coordinates, address)"
        boxes = tile_boxes(tile, target, "k.tma.store", instead)
        row = tma_tensor.store_tensor(target.type.rank, cache_hint=cache_policy is not None)
        for panel in range(boxes.tile.panels):
            for box in range(boxes.a_panel):
                place, coordinates = boxes.place(self._k, at, panel, box)
                operands: dict[str, Any] = {"coordinates": coordinates, "cache_policy": cache_policy, "source": place}
                self._copy(row, target, "source", boxes.alignment, **operands)

    def _copy(
        self, row: Row, tensor_map: TensorMapParameter, place: str, align: int, /, **operands: Given | Sequence[Given]
    ) -> None:
        """Emit a copy of one box, after checking its place, its box and its threads."""
        registers = {"tensor_map": tensor_map.address, **converted(self._k, row, operands)}
        kind, varying = tensor_map.type, [each for each in values_of(registers) if isinstance(each, ir.Instruction)]
        known = {
            facts.ALIGNMENT: align,
            facts.BOX_ROW: kind.element.bytes_for(kind.box[-1]),
            facts.SWIZZLE: kind.swizzle,
            facts.SAME: int(self._k.execution.is_same(*varying)),
            **self._start_facts(kind.element, registers),
            **reduced_element(row, kind.element),
        }
        raise_all(place_faults(row, {**self._k.tracking.facts(row, registers), **known}))
        self._k.emit(row, registers, facts=known, extents=box_extent(kind, str(row.axes["mode"]), place))

    def _start_facts(self, element: ElementType, operands: Operands) -> dict[str, int]:
        """What is known of the box's start for all run-time values."""
        coordinates = operands["coordinates"]
        if not isinstance(coordinates, list):
            return {}
        steps = [self._k.places.step(coordinate) for coordinate in coordinates]
        before = [place for place, step in enumerate(steps) if not step.terms and step.constant < 0]
        known = {facts.BEFORE: before[0]} if before else {}
        start, unit = steps[0], max(1, element.bits // BYTE_BITS)
        if any(factor * unit % tma.BULK_ALIGNMENT for factor in start.terms.values()):
            return known | {facts.UNIT: unit}
        return known | {facts.START: start.constant * unit % tma.BULK_ALIGNMENT}

    def commit_group(self) -> None:
        """Close this thread's bulk group (cp.async.bulk.commit_group)."""
        issue(self._k, tma_bulk.commit_group())

    def wait_group(self, pending: int = 0, *, reading: bool = False) -> None:
        """Wait until at most `pending` of this thread's bulk groups are in flight.

        With `reading`, a group counts as complete once it has read its source. Raises tma.pending for a number that the
        wait cannot count.
        """
        issue(self._k, tma_bulk.wait_group(read=reading), pending=pending)

    def prefetch_maps(self, *tensor_maps: TensorMapParameter) -> None:
        """Prefetch the tensor maps before their first use, in one thread of the CTA."""
        with self._control.if_(self._threads.thread_id(LINEAR) == 0):
            for tensor_map in tensor_maps:
                issue(self._k, tensormap.prefetch(), tensor_map=tensor_map.address)

    def load_box(
        self,
        destination: Address,
        source: TensorMapParameter,
        coordinates: Sequence[Operand],
        barrier: Address,
        *,
        mode: str = "tile",
        offsets: Sequence[Operand] = (),
        space: str = "cluster",
        multicast_mask: Operand | None = None,
        cta_group: int | None = None,
        cache_policy: Operand | None = None,
    ) -> None:
        """cp.async.bulk.tensor: the box at `coordinates` (elements, innermost first) of the map to `destination`.

        Where several elements share a byte, the innermost coordinate counts bytes. Its bytes complete on `barrier`.
        `mode` is tile, tile::gather4 (of a map whose box is (1, columns): the coordinates are a column and four rows),
        im2col (with an offset for each dimension of space), im2col::w or im2col::w::128 (two offsets). The innermost
        coordinate is a multiple of 16 bytes (tma.start); what lies outside of the tensor is filled. `space` is
        "cluster" or "cta"; `multicast_mask` has a bit for each CTA that gets a copy; `cta_group` 2 lets the barrier be
        the peer's. Raises every broken rule of `tma.*`.
        """
        request = TmaRequest(
            source.type.rank,
            mode=mode,
            destination=space,
            multicast=multicast_mask is not None,
            cta_group=cta_group,
            cache_hint=cache_policy is not None,
        )
        row, operands = self._place(request, source, coordinates, offsets, cache_policy)
        operands["multicast_mask"] = multicast_mask
        self._copy(row, source, "destination", destination.align, **operands, destination=destination, barrier=barrier)

    def store_box(
        self,
        target: TensorMapParameter,
        coordinates: Sequence[Operand],
        source: Address,
        *,
        mode: str = "tile",
        cache_policy: Operand | None = None,
    ) -> None:
        """cp.async.bulk.tensor to global memory: the box at `source` to `coordinates`, in this thread's bulk group.

        `mode` is tile, tile::scatter4 (a column and four rows) or im2col_no_offs. The innermost coordinate is a
        multiple of 16 bytes (tma.start), and none is negative (tma.before); what lies past the end of the tensor is
        left out. Raises rules of `tma.*`.
        """
        request = TmaRequest(target.type.rank, "store", mode, cache_hint=cache_policy is not None)
        row, operands = self._place(request, target, coordinates, (), cache_policy)
        self._copy(row, target, "source", source.align, **operands, source=source)

    def reduce_box(
        self,
        target: TensorMapParameter,
        coordinates: Sequence[Operand],
        source: Address,
        operation: str,
        *,
        mode: str = "tile",
        cache_policy: Operand | None = None,
    ) -> None:
        """cp.reduce.async.bulk.tensor: combine the box at `source` with the tensor, element by element, atomically.

        `operation` is add, min, max, inc, dec, and, or, xor; the type is the map's, and one that the operation is for
        (tma.reduced-type). In this thread's bulk group. The innermost coordinate is a multiple of 16 bytes (tma.start),
        and none is negative (tma.before). Raises rules of `tma.*`.
        """
        request = TmaRequest(target.type.rank, "reduce", mode, operation=operation, cache_hint=cache_policy is not None)
        row, operands = self._place(request, target, coordinates, (), cache_policy)
        self._copy(row, target, "source", source.align, **operands, source=source)

    def prefetch_box(
        self,
        source: TensorMapParameter,
        coordinates: Sequence[Operand],
        *,
        mode: str = "tile",
        offsets: Sequence[Operand] = (),
        cache_policy: Operand | None = None,
    ) -> None:
        """cp.async.bulk.prefetch.tensor: bring the box at `coordinates` to the L2 cache.

        Modes and coordinates are those of `load_box`: innermost first, not (row, column) as `prefetch` has them. The
        innermost coordinate must be a multiple of 16 bytes, or the kernel stops with an error. Raises rules of `tma.*`.
        """
        request = TmaRequest(source.type.rank, "prefetch", mode, cache_hint=cache_policy is not None)
        row, operands = self._place(request, source, coordinates, offsets, cache_policy)
        registers = {"tensor_map": source.address, **converted(self._k, row, operands)}
        known = self._start_facts(source.type.element, registers)
        raise_all(place_faults(row, known))
        self._k.emit(row, registers, facts=known)

    def _place(
        self,
        request: TmaRequest,
        tensor_map: TensorMapParameter,
        coordinates: Sequence[Operand],
        offsets: Sequence[Operand],
        cache_policy: Operand | None,
    ) -> tuple[Row, dict[str, Any]]:
        """The row of the request, and the operands that say which box it is."""
        row = select_tma(request, self._k.target)
        check_mode(tensor_map, row)
        check_counts(row, coordinates=coordinates, offsets=offsets)
        return row, {"coordinates": coordinates, "offsets": offsets or None, "cache_policy": cache_policy}
