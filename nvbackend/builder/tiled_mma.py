"""An instruction tiled over warpgroups and over K: which layouts its operands have, and the loop that issues it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from nvbackend.builder.accumulator import Accumulator
from nvbackend.builder.roles import Roles
from nvbackend.builder.rules import TILE_MISMATCH
from nvbackend.builder.tile import SharedTile
from nvbackend.builder.values import Operand
from nvbackend.diagnostics import Diagnostic, Rule, raise_all, user_facing
from nvbackend.intrinsics.smem_descriptor import Swizzle
from nvbackend.intrinsics.smem_layout import Major, SmemLayout
from nvbackend.isel.select import select_wgmma
from nvbackend.isel.wgmma_rules import WgmmaRequest
from nvbackend.layout.tile_atoms import check_tile, tile_faults

WARPGROUPS = Rule(
    id="mma.warpgroups",
    message="warpgroups = {given!r} is not how many there are along M and along N",
    fix="give a pair of positive integers, such as (2, 1)",
    why="There would be no tile, or one that no warpgroup works on.",
    reference="PTX ISA 9.7.15 (warpgroups)",
)
WARPGROUP = Rule(
    id="mma.warpgroup",
    message="warpgroup {given} of a tile of {along_m} x {along_n} warpgroups",
    fix="number them from 0 to {last}: k.consumers(...) yields the number of each",
    why="It would work on the tile of another warpgroup, and a part of the result would never be computed.",
    reference="PTX ISA 9.7.15 (warpgroups)",
)
WARPGROUPS_THERE = Rule(
    id="mma.warpgroups-there",
    message="a tile of {along_m} x {along_n} warpgroups is multiplied by {there} consumer warpgroup(s)",
    fix="make it with k.tiled_mma(..., warpgroups=({there}, 1)), or give the kernel {wanted} consumer warpgroups",
    why="The parts of the tile that belong to the missing warpgroups would never be computed.",
    reference="PTX ISA 9.7.15 (warpgroups)",
)


@user_facing
class TiledMma:
    """`instruction` over `warpgroups` = (along M, along N), each with an accumulator of its own.

    The tile is (64 * warpgroups[0]) x (N * warpgroups[1]); K is what the operand tiles have, in steps of the
    instruction's. Warpgroup w works on rows block w % warpgroups[0] and columns block w // warpgroups[0].
    """

    def __init__(self, k: Roles, instruction: WgmmaRequest, warpgroups: tuple[int, int]) -> None:
        select_wgmma(instruction, k.target)
        match warpgroups:
            case (int(along_m), int(along_n)) if along_m > 0 and along_n > 0:
                pass
            case _:
                WARPGROUPS.fail(given=warpgroups)
        self._k = k
        self.instruction = instruction
        self.warpgroups = warpgroups

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the whole tile."""
        return self.instruction.m * self.warpgroups[0], self.instruction.n * self.warpgroups[1]

    def smem_a(self, k: int, major: Major = Major.K, swizzle: Swizzle = Swizzle.B128) -> SmemLayout:
        """The layout of A's shared-memory tile with `k` columns.

        Raises, all together, tile.mma-atom, tile.swizzle-atom and layout.major; else what `SmemLayout` raises.
        """
        check_tile(major, swizzle, self.instruction.a, (self.shape[0], k), (self.instruction.m, self.instruction.k))
        return SmemLayout(major, swizzle, self.instruction.a, self.shape[0], k)

    def smem_b(self, k: int, major: Major = Major.K, swizzle: Swizzle = Swizzle.B128) -> SmemLayout:
        """The layout of B's shared-memory tile (N rows, as B transposed) with `k` columns. Raises as `smem_a` does."""
        check_tile(major, swizzle, self.instruction.b, (self.shape[1], k), (self.instruction.n, self.instruction.k))
        return SmemLayout(major, swizzle, self.instruction.b, self.shape[1], k)

    def accumulator(self, name: str = "acc") -> Accumulator:
        """One warpgroup's accumulator, cleared."""
        return self._k.accumulator(self.instruction.n, self.instruction.d, name=name)

    def accumulate(self, accumulator: Accumulator, a: SharedTile, b: SharedTile, warpgroup: Operand = 0) -> None:
        """Issue the mma of one pair of operand tiles, along K, for this warpgroup. Goes inside a `k.wgmma()` region.

        Raises mma.tile, tile.mma-atom, mma.warpgroup for a number that is none, and mma.warpgroups-there inside
        `k.consumers` where its number says that some part of the tile has no warpgroup.
        """
        self._check_warpgroup(warpgroup)
        if a.layout.columns != b.layout.columns or a.layout.columns % self.instruction.k:
            TILE_MISMATCH.fail(a=a.layout.columns, b=b.layout.columns, k=self.instruction.k)
        raise_all([*self._tile_faults(a.layout, self.instruction.m), *self._tile_faults(b.layout, self.instruction.n)])
        instruction = dataclasses.replace(
            self.instruction,
            trans_a=int(a.layout.major is Major.MN),
            trans_b=int(b.layout.major is Major.MN),
        )
        along_m, along_n = self.warpgroups
        own_a = a.rows_from(warpgroup % along_m if along_m > 1 else 0, instruction.m)
        own_b = b.rows_from(warpgroup // along_m if along_n > 1 else 0, instruction.n)
        for column in range(0, a.layout.columns, instruction.k):
            self._k.wgmma_mma_async(accumulator, own_a, own_b, instruction, a_at=(0, column), b_at=(0, column))

    def _tile_faults(self, tile: SmemLayout, rows: int) -> Iterator[Diagnostic]:
        shape = (tile.rows, tile.columns)
        yield from tile_faults(tile.major, tile.swizzle, tile.element, shape, (rows, self.instruction.k))

    def _check_warpgroup(self, warpgroup: Operand) -> None:
        along_m, along_n = self.warpgroups
        wanted = along_m * along_n
        number = warpgroup if isinstance(warpgroup, int) else getattr(warpgroup, "constant", None)
        if isinstance(number, int) and not 0 <= number < wanted:
            WARPGROUP.fail(given=number, along_m=along_m, along_n=along_n, last=wanted - 1)
        there = self._k.consumer_warpgroups(warpgroup)
        if there is not None and there < wanted:
            WARPGROUPS_THERE.fail(along_m=along_m, along_n=along_n, there=there, wanted=wanted)
