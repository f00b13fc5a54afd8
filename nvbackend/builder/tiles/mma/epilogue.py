"""From accumulators to global memory by TMA, staged through swizzled shared memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NoReturn

from nvbackend.atoms import atom_of
from nvbackend.builder.core.instructions import issue
from nvbackend.builder.core.parameters import TensorMapParameter
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.ops.copy.tma import tile_boxes
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.rules import TMA_PLACE, UNSUPPORTED_OPERATION
from nvbackend.builder.tiles.elements.packing import packed
from nvbackend.builder.tiles.tensor import Tensor, Walker, make_tensor
from nvbackend.builder.values.accumulator import Accumulator, elements_of
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import Diagnostic, Location, Rule, Severity, printed, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.mma.wgmma import N_VALUES
from nvbackend.intrinsics.mma.wgmma import M as ROWS
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import ElementType, f16, f32, s32
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.layout import Layout, make_layout
from nvbackend.layout.algebra.swizzle import BYTE_BITS
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from nvbackend.tiled import TiledCopy, TiledMMA, make_tiled_copy_C, make_tiled_mma, stmatrix_copy
from nvbackend.tiled.ownership import ownership_of_atom

if TYPE_CHECKING:
    from nvbackend.builder.tiles.elements.tile_values import TileValues

HALF_BITS = 16
MATRICES = {16: 4, 8: 2}
"""How many matrices of 8 x 8 f16 a warp's stmatrix stores, by the columns of its 16 rows."""
FIRST_NAMED_BARRIER = 1

TILE_OF_ANOTHER_SHAPE = Rule(
    id="epilogue.accumulator",
    message="the epilogue stores {rows} x {wanted} of {threads} threads{shares}; {name} is {given}",
    fix="make the epilogue with {arguments}; take the elements of several accumulators together",
    why="The rest of the buffer would be stored as it was, or the buffer next to it overwritten.",
    reference="PTX ISA 9.7.15.5.1 (register fragments)",
)


EPILOGUE_THREADS = Rule(
    id="epilogue.threads",
    message="an epilogue cannot have {groups} group(s) of {threads} threads in a kernel of {there}",
    fix="give whole warps of {warp} threads, no more in all than the kernel has",
    why="The threads of a group wait for each other: with one that does not exist they wait forever.",
    reference="PTX ISA 9.7.13.1 (barrier: thread count)",
)


EPILOGUE_PARTS = Rule(
    id="epilogue.parts",
    message="an epilogue of {rows} x {columns} of {threads} threads cannot be stored in {parts} parts",
    fix="use parts=1, or for 64 rows of 128 threads a number that leaves parts of a multiple of 8 columns",
    why="A part must consist of consecutive elements of each thread.",
    reference="PTX ISA 9.7.15.5.1 (register fragments)",
)


EPILOGUE_COLUMNS = Rule(
    id="epilogue.columns",
    message="{columns} columns of {element} are not whole rows of {span} bytes, the swizzle of tensor map '{name}'",
    fix="{fix}",
    why=(
        "The buffer has the map's swizzle, in rows of that many bytes: TMA would also store what is past "
        "the end of a partial row."
    ),
    reference="PTX ISA 5.5.7 (swizzling modes)",
)


NOT_STORED = Rule(
    id="epilogue.not-stored",
    message="the epilogue's buffer for a tile of {target} is reserved here, and nothing is stored to it",
    fix="call store(acc) of what reserve returns, when the multiplies of its tile are done; or take the call out",
    why="Reserving only waits for the buffer: the tile of the tensor stays as it was.",
    reference="docs/guide.md, The Hopper GEMM",
    severity=Severity.WARNING,
)


@cache
def _atom(columns: int) -> TiledMMA:
    """The wgmma whose accumulator has as many columns."""
    return make_tiled_mma(atom_of(wgmma.mma_async(columns, f32, f16, f16)))


def _swizzle(target: TensorMapParameter, columns: int) -> SwizzleMode:
    """The swizzle of the map; for a map without one the widest for these columns, which the map is then refused for.

    Raises epilogue.columns where the columns are not whole rows of the map's swizzle.
    """
    element, span = target.type.element, target.type.swizzle
    swizzles = sorted((mode for mode in SwizzleMode if mode.span), key=lambda mode: -mode.span)
    widths = {mode: mode.span * BYTE_BITS // element.bits for mode in swizzles}
    fitting = [mode for mode in swizzles if not columns % widths[mode]]
    if not span:
        return fitting[0] if fitting else swizzles[0]
    swizzle = next(mode for mode in swizzles if mode.span == span)
    if swizzle not in fitting and isinstance(columns, int):  # SmemLayout refuses other types
        fix = f"use a multiple of {widths[swizzles[-1]]} columns"
        if fitting:
            fix = f"declare TensorMap(..., swizzle={fitting[0].span}), with a box of {widths[fitting[0]]} columns"
        EPILOGUE_COLUMNS.fail(columns=columns, element=element, span=span, name=target.name, fix=fix)
    return swizzle


def _transposed(layout: Layout) -> Layout:
    """The same with rows for columns."""
    return make_layout(*reversed(layout.modes))


@cache
def _copy(columns: int, element: ElementType, *, transposed: bool) -> TiledCopy:
    """What stores an accumulator of as many columns, converted to elements of 16 bits, by stmatrix."""
    return make_tiled_copy_C(stmatrix_copy(element, _matrices(columns), transposed=transposed), _atom(columns))


def _matrices(columns: int) -> int:
    """How many matrices a stmatrix stores of a tile of as many columns."""
    return MATRICES[math.gcd(columns, max(MATRICES))]


@user_facing
@dataclass(frozen=True, slots=True)
class Converted:
    """A warpgroup's tile as registers of the tensor's type, by the parts of the epilogue: see `Reservation.convert`."""

    reserved: Reservation
    parts: tuple[tuple[Value, ...], ...]

    def store(self) -> None:
        """Store the tile. All 128 threads of the warpgroup execute it."""
        self.reserved.epilogue._is_stored(self.reserved)
        self.reserved.epilogue._store_parts(self.parts.__getitem__, self.reserved)


@user_facing
@dataclass(frozen=True, slots=True)
class Reservation:
    """A warpgroup's buffer, reserved for the tile that goes to (..., row, column) of the tensor."""

    epilogue: TmaEpilogue
    at: tuple[Value, ...]
    warpgroup: Value

    def store(self, accumulator: Accumulator | TileValues) -> None:
        """Store an accumulator, which must be drained, or its elements, such as with a bias, converted to the tensor's.

        All 128 threads of the warpgroup execute it. Raises epilogue.accumulator for a tile of another shape.
        """
        self.epilogue._is_stored(self)
        self.epilogue._store(accumulator, self)

    def convert(self, accumulator: Accumulator | TileValues) -> Converted:
        """Convert a wgmma's accumulator, or its elements, to the tensor's type, to be stored later.

        The accumulator, which must be drained, is then free: mma of the next tile may run while `store` of what this
        returns writes the tile. Raises epilogue.accumulator for a tile of another shape.
        """
        return Converted(self, self.epilogue._convert(accumulator))


@user_facing
class TmaEpilogue(KnownAttributes):
    """Stores accumulators as tiles of a tensor of any type, through one buffer of shared memory per group of threads.

    A group is a warpgroup, or the `threads` that hold a tile of `rows`. 16-bit elements of a wgmma go to the buffer by
    stmatrix, others by stores as wide as the layout allows. A store stays in flight: the next store waits for the
    buffer, and so does `finish` before the kernel ends. What lies past the end of the tensor is not written. In `parts`
    the buffer has so many times fewer columns, and each part but the first waits for the one before it. The buffer has
    the swizzle of the map. `transposed`, columns of an accumulator are rows of the tensor.
    """

    def __init__(
        self,
        k: FunctionBuilder,
        target: TensorMapParameter,
        n: int,
        warpgroups: int,
        rows: int,
        threads: int,
        parts: int = 1,
        *,
        transposed: bool = False,
    ) -> None:
        element = target.type.element
        if element.bits % BYTE_BITS:
            advice = "store from registers, packed to bytes"
            UNSUPPORTED_OPERATION.fail(operation="the TMA epilogue", element=element, advice=advice)
        if threads % WARP_SIZE or not 1 <= threads * warpgroups <= k.threads:
            EPILOGUE_THREADS.fail(groups=warpgroups, threads=threads, there=k.threads, warp=WARP_SIZE)
        self._k = k
        self._target = target
        self._unstored: list[tuple[Reservation, Location | None]] = []
        """What was reserved and is not stored yet, and where."""
        self._threads = threads
        by_wgmma = (rows, threads) == (ROWS, WARPGROUP_SIZE) and n in N_VALUES
        if parts < 1 or n // 8 % parts or (parts != 1 and not by_wgmma):
            EPILOGUE_PARTS.fail(rows=rows, columns=n, threads=threads, parts=printed(parts))
        self._columns, self._parts, self._part, self._transposed = n, parts, n // parts, transposed
        extents = (self._part, rows) if transposed else (rows, self._part)
        self._layout = SmemLayout(Major.K, _swizzle(target, extents[1]), element, *extents)
        self._ownership = ownership_of_atom(n) if by_wgmma else None
        self._buffers = k.shared_tiles(self._layout, warpgroups, name="epilogue")
        tile_boxes(self._buffers.at(0), target, "k.tma_epilogue", f"k.tma.store_box({target.name}, ...)")

    def __repr__(self) -> str:
        return f"<epilogue of tiles {self._layout.rows} x {self._columns} to {self._target.name}>"

    def reserve(self, at: Sequence[Operand], warpgroup: Operand) -> Reservation:
        """Wait until the buffer of `warpgroup` is free for the tile whose first element goes to `at`, (row, column).

        Of a map of more dimensions the other coordinates come first, as for `k.tma.store`. All threads of the group
        execute it. Call it while the last mma of the tile still run: it also computes the tile's place, which would
        otherwise delay the mma of the next tile. Raises tma.place.
        """
        k, rank = self._k, self._target.type.rank
        if len(at) != rank:
            TMA_PLACE.fail(name=self._target.name, given=len(at), rank=rank)
        place = tuple(k.uniform(as_value(k.core, coordinate, s32)) for coordinate in at)
        warpgroup = as_value(k.core, warpgroup, s32)
        self._wait_for_buffer(warpgroup)
        reserved = Reservation(self, place, warpgroup)
        self._unstored.append((reserved, k.core.here()))
        return reserved

    def _is_stored(self, reserved: Reservation) -> None:
        self._unstored = [(other, place) for other, place in self._unstored if other is not reserved]

    def _wait_for_buffer(self, warpgroup: Value) -> None:
        k = self._k
        with k.if_(self._is_leader()):
            k.tma.wait_group(reading=True)
        k.barrier.sync(warpgroup + FIRST_NAMED_BARRIER, self._threads)

    def _store(self, accumulator: Accumulator | TileValues, reserved: Reservation) -> None:
        values = self._elements(accumulator)
        if values is None:
            assert not isinstance(accumulator, Accumulator)
            buffer = self._buffers.at(reserved.warpgroup)
            accumulator.store(self._tile(buffer))
            self._send(reserved.at, reserved.warpgroup, buffer)
            return
        self._store_parts(lambda part: self._registers(values, part), reserved)

    def _convert(self, accumulator: Accumulator | TileValues) -> tuple[tuple[Value, ...], ...]:
        values = self._elements(accumulator)
        if values is None:
            assert not isinstance(accumulator, Accumulator)
            self._refuse(repr(accumulator), accumulator.shape, len(accumulator.held.ownership.firsts))
        return tuple(tuple(self._registers(values, part)) for part in range(self._parts))

    def _registers(self, values: Sequence[Value], part: int) -> Sequence[Value]:
        """The thread's elements of a part, in the order of C, packed in the tensor's type."""
        share = len(values) // self._parts
        return packed(self._k.core, values[share * part : share * (part + 1)], self._layout.element)

    def _store_parts(self, registers: Callable[[int], Sequence[Value]], reserved: Reservation) -> None:
        """Store part after part through the buffer."""
        buffer = self._buffers.at(reserved.warpgroup)
        at, divided = [*reserved.at], -2 if self._transposed else -1
        for part in range(self._parts):
            if part:
                self._wait_for_buffer(reserved.warpgroup)
                at[divided] = reserved.at[divided] + self._part * part
            self._to_shared(registers(part), buffer)
            self._send(tuple(at), reserved.warpgroup, buffer)

    def _send(self, at: tuple[Value, ...], warpgroup: Value, buffer: SharedTile) -> None:
        """Store the buffer, which all threads of the group have filled."""
        k = self._k
        k.fence.proxy_async()
        k.barrier.sync(warpgroup + FIRST_NAMED_BARRIER, self._threads)
        with k.if_(self._is_leader()):
            k.tma.store(self._target, at, buffer)
            k.tma.commit_group()

    def _is_leader(self) -> Value:
        """One thread of the group, the same at each call: bulk groups belong to the thread that made them."""
        k = self._k
        return (k.warp_id() % (self._threads // WARP_SIZE) == 0) & k.elect()

    def finish(self) -> None:
        """Wait until every store of this thread has read its buffer. Each thread that stored executes it."""
        self._k.tma.wait_group(reading=True)

    def _elements(self, accumulator: Accumulator | TileValues) -> Sequence[Value] | None:
        """The thread's elements in the order of one wgmma; None for those of another tile.

        Raises epilogue.accumulator.
        """
        if isinstance(accumulator, Accumulator):
            if self._ownership is not None and accumulator.n == self._columns:
                return elements_of(accumulator)
            self._refuse(accumulator.name, (ROWS, accumulator.n), WARPGROUP_SIZE)
        ownership = accumulator.held.ownership
        if self._ownership is not None and ownership.values == self._ownership.values:
            return list(accumulator)
        shape, threads = accumulator.shape, len(ownership.firsts)
        if shape != (self._layout.rows, self._columns) or threads != self._threads or self._parts > 1:
            self._refuse(repr(accumulator), shape, threads)
        return None

    def _refuse(self, name: str, shape: tuple[int, int], threads: int) -> NoReturn:
        TILE_OF_ANOTHER_SHAPE.fail(
            rows=self._layout.rows,
            wanted=self._columns,
            threads=self._threads,
            shares=f" in {self._parts} parts" if self._parts > 1 else "",
            name=name,
            given=f"{shape[0]} x {shape[1]} of {threads} threads",
            arguments=f"n={shape[1]}, rows={shape[0]}, threads={threads}",
        )

    def _to_shared(self, registers: Sequence[Value], buffer: SharedTile) -> None:
        """Store the thread's packed elements to where the swizzled tile has them."""
        k, element = self._k, self._layout.element
        thread, tile = k.thread_id("linear") % WARPGROUP_SIZE, self._tile(buffer)
        if element.bits == HALF_BITS:
            self._by_matrices(registers, tile, _copy(self._part, element, transposed=self._transposed), thread)
            return
        from nvbackend.builder.tiles.fragment_copies import store_fitting
        from nvbackend.builder.tiles.register_tensor import make_registers

        mine = _atom(self._part).get_slice(thread)
        made = make_registers(k.core, element, Layout(mine.partition_C(tile.layout).shape), "stored")
        made.set_registers(registers)
        store_fitting(k, made, tile, mine.partition_C, None)

    def _tile(self, buffer: SharedTile) -> Tensor:
        """The buffer by the rows and columns of the accumulator."""
        layout = buffer.cute.with_layout(_transposed) if self._transposed else buffer.cute
        return make_tensor(self._k, buffer.address.cast(self._layout.element), layout)

    def _by_matrices(self, pairs: Sequence[Value], tile: Tensor, copy: TiledCopy, thread: Value) -> None:
        """Store pairs of elements, a register for each matrix, at the rows that the copy gives the thread."""
        walker, count = Walker(tile.partition(copy.get_slice(thread).partition_D)), _matrices(self._part)
        row = matrix_move.stmatrix(count, self._transposed)
        for group in range(len(pairs) // count):
            place = walker.address(((0, group), 0, 0)).bytes
            registers = pairs[count * group : count * (group + 1)]
            issue(self._k.core, row, address=place.ir, fragment=registers)


def not_stored(epilogue: TmaEpilogue) -> Iterator[Diagnostic]:
    """epilogue.not-stored for each call of `reserve` of which nothing was stored."""
    for _, place in epilogue._unstored:
        yield NOT_STORED.diagnose(at=place, target=epilogue._target.name)
