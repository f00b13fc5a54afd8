"""Stream-K: the steps of all tiles in equal shares, and the sums that CTAs leave for one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from nvbackend.builder.core.control import holding
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.blocks import LOOPS, Region, with_block
from nvbackend.builder.tiles.in_common.parted import parted
from nvbackend.builder.tiles.in_common.zeros import note_zeros
from nvbackend.builder.tiles.mma.accumulators import Accumulators
from nvbackend.builder.tiles.register_tensor import RegisterTensor
from nvbackend.builder.tiles.roles import Roles
from nvbackend.builder.tiles.split_k import rules
from nvbackend.builder.values.accumulator import Accumulator, halves, pack_halves
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.carried import DRAWN, over_tiles
from nvbackend.builder.values.values import GLOBAL_SPACE, Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import ElementType, f16, s32, s64, u32
from nvbackend.isel.machine.zeros import FLAGS

Sums: TypeAlias = "Accumulator | Accumulators | RegisterTensor"
_MOST_STEPS = 2**31 - 1
_FIRST_BARRIER = 1
"""The named barrier of warpgroup 0, as that of the TMA epilogue: these threads wait there for one another."""


class TilePiece(NamedTuple):
    """A part of a tile: the tile's number, the first of its steps, and the one after the last, s32 values."""

    tile: Value
    first: Value
    end: Value


@user_facing
class StreamK(KnownAttributes):
    """The share that a CTA has of the steps of all tiles, made by `k.stream_k`.

    Tile t has steps t * `steps` to (t + 1) * `steps` of all of them, and CTA b of B those from b / B to (b + 1) / B, so
    the shares differ by one step at most, and of more CTAs than steps the last have none. A share may begin and end
    within a tile. In a cluster all CTAs have the same share: a tile is then what the cluster multiplies together.
    """

    def __init__(self, k: FunctionBuilder, roles: Roles, tiles: Operand, steps: Operand) -> None:
        if k.core.bounds.cluster_shape[1:] != (1, 1):
            rules.STREAM_CLUSTER.fail(shape=k.core.bounds.cluster_shape)
        count, self.steps = (as_value(k.core, number, s32) for number in (tiles, steps))
        _check_counts(k.core, count, self.steps)
        self._k, self._roles = k, roles
        self._total = count * self.steps
        self._shares = k.math.max(k.math.min(k.cluster.count(), self._total), 1)
        """Shares that have a step: nobody waits for the sums of one that has none."""
        own = k.math.min(k.cluster.id(), self._shares), k.math.min(k.cluster.id() + 1, self._shares)
        self._first, self._end = map(self._first_of, own)
        self._region: Region | None = None
        """The loop over the pieces, inside of it."""
        self._is_taken = False
        """Whether the sums of the piece have been left to others, or added to."""

    def __repr__(self) -> str:
        return "<share of the steps of all tiles>"

    def _first_of(self, share: Value) -> Value:
        """The first step of a share: its quotient has 32 bits, the product before it 64."""
        return (share.to(s64) * self._total.to(s64) // self._shares.to(s64)).to(s32)

    @with_block
    def pieces(self) -> Iterator[TilePiece]:
        """Run the block for each tile of which this share has steps, with (tile, first, end): its steps of that tile.

        The last tile comes first. So a CTA leaves the sums that another one waits for before it waits itself, and it
        waits only for CTAs of smaller numbers, which have started before it: all shares end, even if not all CTAs run
        at once. Each role runs the blocks of all of its pieces: no `k.break_` leaves them (pipeline.left).
        """
        k, end = self._k, self._k.var(self._end, name="end")
        with k.loop():
            k.break_if(end <= self._first)
            tile = (end - 1) // self.steps
            first = k.math.max(self._first, tile * self.steps)
            over_tiles(k.core.regions, DRAWN)
            before, self._region, self._is_taken = self._region, k.core.regions[-1], False
            try:
                with holding(k.core, "share.pieces"):
                    yield TilePiece(tile, first - tile * self.steps, end - tile * self.steps)
            finally:
                self._region = before
            end.set(first)

    @with_block
    def others(self, piece: TilePiece) -> Iterator[Value]:
        """Run the block for each CTA that has steps of the tile before this piece, with its number in the grid.

        They go from the one just before this CTA down. In a cluster they are those of this CTA's rank.
        """
        k = self._k
        share = k.var(k.cluster.id(), name="share")
        with k.if_(piece.first > 0), k.loop():
            share -= 1
            size = k.cluster_size
            yield share.value if size == 1 else share * size + k.cluster.rank()
            k.break_if(self._first_of(share.value) <= piece.tile * self.steps)

    def partial_sums(self, memory: Address, flags: Address, warpgroup: Operand | None = None) -> PartialSums:
        """What the CTAs leave for each other in global memory: `whole` of it makes a tile of its pieces.

        `memory` has the elements of an accumulator for each warpgroup of the consumers of each CTA of the grid, of its
        element type; its contents do not matter. `flags` has a u32 (or s32) for each, which is 0 before the kernel, and
        after it. `warpgroup` is the number that `k.consumers` yields; without it all threads of the CTA hold the tile
        together. The threads of warpgroup w wait for one another at named barrier 1 + w, which is of no other threads.
        Raises shares.memory, shares.threads, shares.parted.
        """
        return PartialSums(self._k, self, self._roles.consuming, memory, flags, warpgroup)

    def _take(self, acc: Sums) -> None:
        """Note that the sums of this piece are left or added here. Raises shares.piece, shares.not-cleared."""
        if self._region is None or self._k.core.regions[-1] is not self._region:
            advice = "call it in the block of share.pieces() itself, in no other block inside of it"
            rules.PIECE.fail(problem="is not where every piece comes once", advice=advice)
        if self._is_taken:
            advice = "call it once, and store the tile in its block"
            rules.PIECE.fail(problem="is called twice for a piece", advice=advice)
        self._is_taken = True
        for each in _accumulators(acc):
            if each._carried.goes_on_in(self._region):
                rules.NOT_CLEARED.fail(accumulator=each._carried.name)


@user_facing
class PartialSums(KnownAttributes):
    """The sums that groups of threads have of pieces of tiles, made by `share.partial_sums`."""

    def __init__(
        self,
        k: FunctionBuilder,
        share: StreamK,
        consumers: int | None,
        memory: Address,
        flags: Address,
        warpgroup: Operand | None,
    ) -> None:
        _check_memory(k.core, memory, flags)
        self._made_in = list(k.core.regions)
        self._k, self._share, self._memory, self._flags = k, share, memory, flags
        self._groups = 1 if warpgroup is None else consumers or k.threads // WARPGROUP_SIZE
        self._warpgroup = None if warpgroup is None else as_value(k.core, warpgroup, s32)
        self._size = k.threads if warpgroup is None else WARPGROUP_SIZE
        _check_threads(k, self._size, warpgroup)
        note_zeros(k.core, flags, FLAGS, of_each_cta=self._groups)
        thread = k.thread_id("linear")
        self._thread = thread if warpgroup is None else thread % WARPGROUP_SIZE

    def __repr__(self) -> str:
        return f"<partial sums of {self._groups} group(s) of {self._size} threads in {self._memory!r}>"

    @with_block
    def whole(self, acc: Sums, piece: TilePiece) -> Iterator[None]:
        """Make a tile of its pieces: run the block in the CTA that has the tile's last step, when `acc` has all sums.

        A CTA with a piece that ends before leaves the sums of `acc` in memory instead, and raises its flag. The CTA
        with the last step waits for each of the others that have steps of the tile, from the last one to the first,
        adds what it has left, and lowers the flag. The accumulator is drained. All threads of the group execute it,
        once for each piece, in the block of `share.pieces()`. Raises shares.piece, shares.not-cleared, shares.memory.
        """
        k, share, element = self._k, self._share, _element(acc)
        self._check(element)
        self._check_round()
        share._take(acc)
        with k.if_(piece.end < share.steps):
            self._leave(_words(acc))
        with k.else_():
            with share.others(piece) as block:
                is_packed = element is f16 and not isinstance(acc, RegisterTensor)
                acc.set([_sum(*pair, is_packed=is_packed) for pair in self._taken(block, _words(acc))])
            yield

    def _place_of(self, block: Value, words: Sequence[Value]) -> tuple[Address, Address]:
        """Where a group of a CTA has so many words of each thread, and its flag."""
        slot = block if self._warpgroup is None else block * self._groups + self._warpgroup
        kind = words[0].type
        first = self._memory.cast(kind).steps(slot, len(words) * self._size * kind.bits // 8)
        return first + self._thread, self._flags + slot

    def _leave(self, words: Sequence[Value]) -> None:
        """Store this group's words, and raise its flag."""
        k = self._k
        place, flag = self._place_of(k.block_id(), words)
        for index, word in enumerate(words):
            place[index * self._size] = word
        self._meet()
        with k.if_(self._thread == 0):
            flag.store(1, order="release", scope="gpu")

    def _taken(self, block: Value, words: Sequence[Value]) -> list[tuple[Value, Value]]:
        """Wait for the words of another CTA, lower its flag, and give them, each with the own one."""
        k, (place, flag) = self._k, self._place_of(block, words)
        with k.if_(self._thread == 0), k.loop():
            k.break_if(k.atomic.cas(flag, 1, 0, order="acquire") == 1)
        self._meet()
        return [(word, place[index * self._size]) for index, word in enumerate(words)]

    def _meet(self) -> None:
        """Wait for the other threads of the group."""
        if self._warpgroup is None:
            self._k.barrier.sync()
        else:
            self._k.barrier.sync(self._warpgroup + _FIRST_BARRIER, WARPGROUP_SIZE)

    def _check_round(self) -> None:
        """Raises shares.piece in a loop whose rounds have the same memory and flags."""
        regions, own = self._k.core.regions, self._share._region
        around = regions[: regions.index(own)] if own in regions else []
        loop = next((each for each in around if each.kind in LOOPS and each not in self._made_in), None)
        if loop is not None:
            problem = f"is in {loop.describe()}, whose rounds have the same memory and flags"
            advice = "end the loop before, or make the share and its partial sums in it, with memory of each round"
            rules.PIECE.fail(problem=problem, advice=advice)

    def _check(self, element: ElementType) -> None:
        """Raises shares.memory for memory of another type."""
        if self._memory.element is not element:
            advice = f"pass memory of {element}: nvb.Pointer({element})"
            rules.MEMORY.fail(given=f"memory of {self._memory.element} for sums of {element}", advice=advice)


def _words(acc: Sums) -> list[Value]:
    """What a thread leaves of its sums: registers, of mma.sync elements."""
    if isinstance(acc, RegisterTensor):
        return list(acc.elements())
    if isinstance(acc, Accumulator):
        return acc.values()
    along_m, along_n, _ = acc.shape
    return [register for each in acc[: along_m * along_n] for register in each.values()]


def _accumulators(acc: Sums) -> Sequence[Accumulator | RegisterTensor]:
    """What the sums are in."""
    return acc[:] if isinstance(acc, Accumulators) else (acc,)


def _element(acc: Sums) -> ElementType:
    element: ElementType = acc[0].element if isinstance(acc, Accumulators) else acc.element
    return element


def _sum(left: Value, right: Value, *, is_packed: bool) -> Value:
    if not is_packed:
        return left + right
    return pack_halves(*(a + b for a, b in zip(halves(left), halves(right), strict=True)))


def _check_threads(k: FunctionBuilder, size: int, warpgroup: Operand | None) -> None:
    """Raises shares.threads where parts of groups come."""
    here = k.core.execution.here()
    if here is not None and here.count is not None and here.count % size:
        whole = "pass the number of the warpgroup: share.partial_sums(memory, flags, warpgroup)"
        advice = whole if warpgroup is None else "call it in whole warpgroups"
        rules.STREAM_THREADS.fail(count=here.count, size=size, advice=advice)


def _check_memory(k: Core, memory: Address, flags: Address) -> None:
    """Raises shares.memory."""
    for name, address in (("memory", memory), ("flags", flags)):
        if address.space != GLOBAL_SPACE:
            rules.MEMORY.fail(given=f"{name} in shared memory", advice=f"pass {name} in global memory, of all CTAs")
        if address.const:
            advice = f"take {name} as nvb.Pointer({address.element}), without const"
            rules.MEMORY.fail(given=f"{name} that are only read", advice=advice)
        if (whom := parted(k, address)) is not None:
            advice = f"pass {name} of the whole grid: each CTA finds its own place in it"
            verb = "are" if address is flags else "is"
            rules.PARTED.fail(what=f"the {name} of partial sums {verb}", whom=whom, advice=advice)
    if flags.element not in (u32, s32):
        rules.MEMORY.fail(given=f"flags of {flags.element}", advice="pass flags of u32 or i32, all of them 0")


def _check_counts(k: Core, tiles: Value, steps: Value) -> None:
    """Raises shares.count for constants, shares.parted."""
    for name, number in (("tiles", tiles), ("steps", steps)):
        if (whom := parted(k, number)) is not None:
            advice = "give the numbers of all tiles, and of the steps of each, computed of parameters"
            rules.PARTED.fail(what=f"the number of {name} is", whom=whom, advice=advice)
        if isinstance(number.constant, int) and number.constant < 1:
            rules.COUNT.fail(problem=f"{name} is {number.constant}", advice=f"give at least one of {name}")
    if isinstance(tiles.constant, int) and isinstance(steps.constant, int):
        total = tiles.constant * steps.constant
        if total > _MOST_STEPS:
            problem = f"{tiles.constant} tiles of {steps.constant} steps are {total} steps"
            rules.COUNT.fail(problem=problem, advice="use a larger tile, or more of K in a step: 2^31 - 1 at most")
