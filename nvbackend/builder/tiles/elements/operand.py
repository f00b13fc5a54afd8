"""From the result of one product to A of the next: where each thread has what the next instruction wants of it."""

from __future__ import annotations

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.ops.matrix.wgmma import FRAGMENT_REGISTERS
from nvbackend.builder.tiles.elements.packing import packed
from nvbackend.builder.tiles.elements.rules import OPERAND
from nvbackend.builder.tiles.elements.tile_values import TileValues
from nvbackend.builder.values.accumulator import WgmmaFragment
from nvbackend.builder.values.values import Value
from nvbackend.intrinsics.row.types import ElementType, f16, u32
from nvbackend.tiled import MmaOperand, TiledMMA
from nvbackend.tiled.ownership import Ownership, ownership_of_mma


def registers_of_a(mma: TiledMMA, tile: TileValues, rows: int, element: ElementType) -> list[Value]:
    """The registers of A of `mma`, whose tile has `rows`, in the order (MMA, MMA_M, MMA_K): `tile` as `element`.

    No thread gives another anything: each must have the elements of A that it is to hold. Raises elements.operand,
    and tiled-mma.tile where the columns are not whole steps along K.
    """
    check_rows(mma, tile, rows)
    wanted = ownership_of_mma(mma, MmaOperand.A, tile.shape)
    instead = "go through shared memory: x.store(tile), a barrier, and mma.load_a(tile)"
    if element.bits == f16.bits:  # fragments of other types have other columns than accumulators, however laid out
        instead = f"lay both out over the threads in one way, along M alone, or {instead}"
    return registers_in_order(mma, tile, wanted, element, instead)


def check_rows(mma: TiledMMA, tile: TileValues, rows: int) -> None:
    """Raises elements.operand for a tile of another number of rows than A has."""
    if tile.shape[0] != rows:
        problem = f"it has {tile.shape[0]} rows, and A {rows}"
        OPERAND.fail(tile=tile, mma=mma, problem=problem, instead="let both products have tiles of as many rows")


def registers_in_order(
    mma: TiledMMA, tile: TileValues, wanted: Ownership, element: ElementType, instead: str
) -> list[Value]:
    """The registers of `tile` as `element`, in the order of `wanted`. Raises elements.operand."""
    order = tile.held.ownership.order_of(wanted)
    if order is None:
        problem = f"thread {_other_thread(tile, wanted.firsts)} has elements that another one multiplies"
        OPERAND.fail(tile=tile, mma=mma, problem=problem, instead=instead)
    return packed(tile.held.core, [tile[number] for number in order], element)


def fragments_of_a(
    k: FunctionBuilder, mma: TiledMMA, tile: TileValues, rows: int, element: ElementType
) -> list[WgmmaFragment]:
    """The fragments of A of wgmma, for each atom along M, of all steps along K one after another."""
    registers = registers_of_a(mma, tile, rows, element)
    words = [register if register.type is u32 else register.bitcast(u32) for register in registers]
    return [
        k.wgmma.fragment(words[at : at + FRAGMENT_REGISTERS], element, name=f"a.{at // FRAGMENT_REGISTERS}")
        for at in range(0, len(words), FRAGMENT_REGISTERS)
    ]


def _other_thread(tile: TileValues, firsts: tuple[tuple[int, int], ...]) -> int:
    """The first thread that begins elsewhere; 0 if all begin at the same place and go on otherwise."""
    pairs = zip(tile.held.ownership.firsts, firsts, strict=False)
    return next((thread for thread, (own, wanted) in enumerate(pairs) if own != wanted), 0)
