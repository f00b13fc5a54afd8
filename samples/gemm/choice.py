"""Which kernel multiplies a shape: of all tiles that can, the one that takes the least time by the model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import nvbackend as nvb
from nvbackend import Major, bf16, e4m3, e5m2, f16, f32, s8, s16, s32, tf32, u8, u16, u32
from samples.gemm.checks import MN_COLUMNS, MOST_ELEMENTS, among, positive, stored
from samples.gemm.deep import PAIR, QUAD_COLUMNS, Deep
from samples.gemm.model import RESIDENT, microseconds, resident
from samples.gemm.skinny import BANKS, CHUNK, LINES, ROWS, THREADS, WARPS, Skinny
from samples.gemm.thin import STORED, TILE_K, Thin
from samples.gemm.unaligned import TMA, WORD, Unaligned, width_of
from samples.gemm.wide import LINE, NARROW, REGISTERS, WARPGROUP_ROWS, Wide, box_of_c, rows_of

Choice = Wide | Thin | Deep | Unaligned | Skinny
Kind = TypeVar("Kind", bound=Choice)
OPERANDS = (f16, bf16, tf32, e4m3, e5m2, s8, u8)
"""What wgmma multiplies, but for single bits."""
FLOATS, INTEGERS = (f16, bf16, tf32, f32, e4m3, e5m2), (s8, u8, s16, u16, s32, u32)
"""What sums of floats are rounded to; those of integers go to both, and stop at the ends of an integer type."""

SHARED, WIDE_SHARED = 220_000, 213_000
"""Bytes of a multiprocessor's shared memory for rings and sums, and those of wide tiles."""
BUFFERS = {8: 65_536, 16: 65_536, 32: 32_768}
"""Bytes of the epilogue at most, by the bits of a result. Smaller parts of f32 were up to 3 % faster (H200)."""
PARTS = (1, 2, 3, 4, 6, 8)
"""In how many parts the epilogue may store a tile."""
LEAST_STAGES, MOST_STAGES, MOST_THIN_STAGES = {1: 3, 2: 3, 3: 4}, 7, 20
"""Stages of a ring at least, by the number of consumers, and at most."""
MOST_NARROW_STAGES, MOST_DEEP_STAGES = 12, 14
"""The same of narrow wide tiles and of deep ones: more took the same time."""
IN_TURNS = 256
"""Columns of the tiles of ping-pong consumers."""
THIN_COLUMNS = (8, 16, 24, 32, 48, 64, 96, 128)
"""Widths of thin tiles: as few as hold all rows of A."""
SMALL = 16
"""Columns of thin tiles of which three CTAs may share a multiprocessor."""
COLUMNS = (48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 256)
"""Widths of wide tiles: so many that there is one for which the tiles of a shape fill the multiprocessors."""
TRANSPOSED = 16
"""Bits of a result of which stmatrix stores C^T as C."""
SWIZZLED = 256
"""Bits of the least row that a swizzle has: rows of a tile of C are whole ones."""
UNALIGNED_COLUMNS, MOST_OF_FOUR, MOST_SWAPPED = (*NARROW, 64, 128, 192, 256), 192, 128
"""Widths of the tiles that threads copy or store; the most for which there are registers where these and the consumers
are four warpgroups, and of C^T."""
SKINNY_ROWS, SKINNY_COLUMNS, SKINNY_SPLITS = (64, 32, 128), (8, 16, 32, 64), (1, 2, 4, 8)
"""Rows of skinny tiles, their columns, as few as hold all rows of the shorter side, and CTAs that share the depth."""
SKINNY_SUMS, MOST_SKINNY_STAGES = 64, 6
"""Sums that a thread of a skinny tile has at most, and stages."""
USUAL = ((1, 64), (1, 128), (1, 256), (2, 128), (2, 192), (2, 256))
"""Consumers and columns of the tiles that are candidates for every shape."""
NEAR, OTHERS = 1.1, 8
"""Of other tiles so many at most, those that the model has no further than this from the best."""
GROUPS = (16, 8, 32)
"""Rows of wide tiles that go together. The model does not tell them apart, and takes the first."""
K_MAJOR = Major.K, Major.K
"""How A and B are stored for tiles of every width. Others have fewer widths, and share the depth in narrow tiles."""
FEW = NARROW[0]
"""Up to so many rows of A only narrow and thin tiles are candidates: TMA takes long for the other rows of others."""


def widths(consumers: int) -> tuple[int, ...]:
    """Those of wide and deep tiles. Tiles of 192 x 16 were never faster than smaller ones."""
    return (*(NARROW[1:] if consumers == max(REGISTERS) else NARROW), *COLUMNS)


def wide_ones(
    operand: nvb.ElementType = f16, result: nvb.ElementType = f16, *, batched: bool = False
) -> Iterator[Wide]:
    """Tiles of 64 to 192 rows, as many stages as there is room for, with and without a cluster; of 16 bits in turns.

    CTAs of a cluster would share the few rows of A in a tile of C^T: they would wait for each other and gain nothing.
    """
    orders = (False, True) if result.bits == TRANSPOSED else (False,)
    alike = [
        (consumers, columns, False, cluster, swapped)
        for swapped, consumers in itertools.product(orders, REGISTERS)
        for columns, cluster in itertools.product(widths(consumers), (1, 2))
        if cluster == 1 or (consumers < 3 and not swapped and columns not in NARROW)
    ]
    turns = [(2, IN_TURNS, True, cluster, False) for cluster in (1, 2) if operand.bits >= 16]
    for consumers, columns, pingpong, cluster, swapped in (*alike, *turns):
        tile = 64 * consumers * columns * result.bits // 8
        least = -(-tile // BUFFERS[result.bits]) * (
            2 if pingpong else 1
        )  # as small a buffer as leaves room for a stage more
        part = QUAD_COLUMNS if swapped else box_of_c(columns, result)
        equal = (parts for parts in PARTS if parts >= least and columns % (parts * part) == 0)
        parts = next(equal, None)
        if parts is None or columns * result.bits % SWIZZLED:
            continue
        stage = (rows_of(consumers, pingpong) + columns) * LINE // 8
        most = MOST_NARROW_STAGES if columns in NARROW else MOST_STAGES
        stages = min(most, (WIDE_SHARED - tile // parts) // stage)
        if stages >= LEAST_STAGES[consumers]:
            yield Wide(
                columns, consumers, cluster, stages, parts, operand, result, batched, pingpong=pingpong, swapped=swapped
            )


def thin_ones(m: int, operand: nvb.ElementType = f16) -> Iterator[Thin]:
    """Tiles that have all `m` rows of A, by how many CTAs share the depth."""
    columns = next((columns for columns in THIN_COLUMNS if m <= columns), None)
    if columns is None:
        return
    together = 3 if columns <= SMALL else 2
    for consumers, split, ctas in itertools.product((1, 2), (1, 2, 4, 8), (1, 2, 3)):
        stage, sums = 2 * TILE_K * (columns + 64 * consumers), 4 * columns * (64 * consumers + STORED)
        stages = min(MOST_THIN_STAGES, (SHARED // ctas - sums) // stage)
        if stages >= LEAST_STAGES[consumers] and consumers * ctas <= together:
            yield Thin(columns, consumers, split, stages, ctas, operand)


def deep_ones(operand: nvb.ElementType = f16, result: nvb.ElementType = f16) -> Iterator[Deep]:
    """Tiles of every width whose depth a cluster shares, with as many stages as there is room for."""
    for swapped, consumers, split in itertools.product((False, True), REGISTERS, sorted(RESIDENT)[1:]):
        for columns in widths(consumers):
            rows, own = WARPGROUP_ROWS * consumers, columns // split
            room = SHARED - 4 * rows * own * (split - 1)
            stages = min(MOST_DEEP_STAGES, room // ((rows + columns) * LINE // 8))
            if columns % (QUAD_COLUMNS * split) == 0 and stages >= LEAST_STAGES[consumers]:
                yield Deep(columns, consumers, split, stages, operand, result, swapped)


def stored_so(every: Iterable[Wide | Deep], majors: tuple[Major, Major]) -> Iterator[Wide | Deep]:
    """The same tiles for A and B that are stored so: all that are K-major, of others those of fewer widths."""
    for one in every:
        right, is_whole = majors[0 if one.swapped else 1], one.columns % MN_COLUMNS == 0
        shares, in_turns = isinstance(one, Deep), isinstance(one, Wide) and one.pingpong
        is_there = is_narrow(one) or (is_whole and not shares and not in_turns)
        if majors == K_MAJOR or (is_there and (right is Major.K or (is_whole and not shares))):
            yield replace(one, a_major=majors[0], b_major=majors[1])


def unaligned_ones(
    n: int, depth: int, operand: nvb.ElementType = f16, result: nvb.ElementType = f16
) -> Iterator[Unaligned]:
    """Tiles for rows of such extents. One warpgroup starts copies; two load, whose threads wait for what they load."""
    width, together = width_of(depth, operand), 1 if n % PAIR else PAIR
    producers = 1 if width >= WORD else 2
    for swapped, consumers, columns in itertools.product((False, True), (1, 2), UNALIGNED_COLUMNS):
        widest = MOST_SWAPPED if swapped else MOST_OF_FOUR if producers + consumers == 4 else max(COLUMNS)
        if columns <= widest:
            most = MOST_NARROW_STAGES if columns in NARROW else MOST_STAGES
            stages = min(most, SHARED // ((WARPGROUP_ROWS * consumers + columns) * LINE // 8))
            yield Unaligned(columns, producers, consumers, stages, width, together, operand, result, swapped=swapped)


def skinny_ones(
    m: int, n: int, depth: int, operand: nvb.ElementType = f16, result: nvb.ElementType = f16
) -> Iterator[Skinny]:
    """Tiles that have all rows of the shorter side, if these are few, by how many CTAs share the depth.

    So many warps share the depth of a step as leave room for three stages.
    """
    width, columns = width_of(depth, operand), next((each for each in SKINNY_COLUMNS if min(m, n) <= each), None)
    if columns is None:
        return
    lines = [line for line in LINES if line <= BANKS * width]
    for rows, line, ctas in itertools.product(SKINNY_ROWS, lines, (2, 3)):
        for along in (4, 2, 1):
            sums = rows * columns * along // THREADS
            if rows * along < WARPS * ROWS or sums > SKINNY_SUMS or line < CHUNK * along:
                continue
            one = Skinny(rows, columns, line, along, 1, 1, ctas, width, operand, result, swapped=m < n)
            stages = min(MOST_SKINNY_STAGES, (SHARED // ctas - one.sums) // one.stage)
            if stages >= LEAST_STAGES[1]:
                yield from (replace(one, split=split, stages=stages) for split in SKINNY_SPLITS)
                break


def for_tma(
    m: int, n: int, depth: int, operand: nvb.ElementType, result: nvb.ElementType, majors: tuple[Major, Major]
) -> bool:
    """Whether rows of A, B and C are multiples of 16 bytes."""
    extents = [other if major is Major.MN else depth for other, major in zip((m, n), majors, strict=True)]
    return min(width_of(n, result), *(width_of(extent, operand) for extent in extents)) == TMA


def _aligned(every: list[Kind], n: int, depth: int, result: nvb.ElementType) -> list[Kind]:
    """Those that load rows of `depth` elements and store rows of `n`."""
    least = {Deep: PAIR, Thin: STORED, Unaligned: 1}
    is_loaded = width_of(depth, every[0].operand) == TMA if every else True
    return [
        one
        for one in every
        if n % least.get(type(one), TMA * 8 // result.bits) == 0 and (is_loaded or isinstance(one, Unaligned))
    ]


def is_usual(one: Choice) -> bool:
    """Whether it is a candidate for every shape."""
    if isinstance(one, Wide):
        return not one.swapped and (one.consumers, one.columns) in USUAL
    return not isinstance(one, (Deep, Skinny))


def is_narrow(one: Wide | Deep | Unaligned) -> bool:
    """Whether it is a tile for few rows of A or B."""
    return one.columns in NARROW


def fits(one: Wide | Deep | Unaligned, m: int, n: int) -> bool:
    """Whether the tile's columns go along the shorter side, and a narrow tile has all that are there."""
    if is_narrow(one):
        return one.swapped == (m < n) and min(m, n) <= max(NARROW)
    return m < n or not one.swapped


def at_once(one: Deep, m: int, n: int, multiprocessors: int) -> bool:
    """Whether all clusters run at the same time. Others would exchange their sums while no tensor core is busy."""
    return one.ctas(m, n) <= resident(multiprocessors, one.split)


def is_possible(one: Thin | Deep | Skinny, m: int, n: int, multiprocessors: int) -> bool:
    """Whether a cluster has multiprocessors, and C has no more elements than there are places."""
    return resident(multiprocessors, one.split) > 0 and m * n <= MOST_ELEMENTS


def orders(one: Choice, m: int, n: int) -> Iterator[Choice]:
    """The same tile in each order that is another one where there are so many rows of tiles."""
    if not isinstance(one, Wide):
        yield one
        return
    bands = one.tiles(m, n)[0] // one.cluster
    together = {min(max(1, group // one.cluster), bands): group for group in reversed(GROUPS)}
    yield from (replace(one, group=group) for group in GROUPS if group in together.values())


def check(
    operand: nvb.ElementType, result: nvb.ElementType | None, majors: tuple[Major, Major], **numbers: int
) -> None:
    """Raises ValueError for types and ways of storing that no kernel has, and numbers that are not positive."""
    if operand not in OPERANDS:
        raise ValueError(f"these kernels multiply {', '.join(map(str, OPERANDS))}, not {operand!r}")
    if result is not None:
        among((*FLOATS, *INTEGERS) if operand.is_integer else FLOATS, result=result)
    positive(**numbers)
    stored(operand, majors)
    unit = TMA * 8 // operand.bits
    if majors[0] is Major.MN and numbers["m"] % unit:
        text = f"m is a multiple of {unit}, not {numbers['m']}"
        raise ValueError(f"A is K x M, in rows of a multiple of 16 bytes for TMA: {text}")


def check_copied(m: int, n: int, depth: int, batches: int | None, majors: tuple[Major, Major]) -> None:
    """Raises ValueError for rows that threads do not copy, which are not multiples of 16 bytes."""
    if batches is not None or majors != K_MAJOR:
        sizes = f"M = {m}, N = {n} and K = {depth}"
        raise ValueError(f"rows in a batch, or with MN-major operands, are multiples of {TMA} bytes, unlike in {sizes}")


def candidates(
    m: int,
    n: int,
    depth: int,
    operand: nvb.ElementType = f16,
    result: nvb.ElementType | None = None,
    *,
    batches: int | None = None,
    majors: tuple[Major, Major] = K_MAJOR,
    multiprocessors: int = 132,
) -> dict[Choice, float]:
    """All choices for a shape, each with the microseconds that the model says, least first; of equal ones the first.

    Without a `result`, it has the operands' type. `majors` say how A and B are stored: those of 16 bits also MN-major,
    as K x M and K x N. Raises ValueError for sizes below 1, for types and ways of storing that no kernel has, and for
    rows that are not multiples of 16 bytes in a batch, or with operands that are MN-major.
    """
    number = 1 if batches is None else batches
    check(operand, result, majors, m=m, n=n, depth=depth, batches=number, multiprocessors=multiprocessors)
    result = operand if result is None else result
    is_thin = operand is result and operand in (f16, bf16) and batches is None and majors == K_MAJOR
    thin = [one for one in thin_ones(m, operand) if is_thin and is_possible(one, m, n, multiprocessors)]
    wide = wide_ones(operand, result, batched=batches is not None)
    whole: list[Wide | Deep] = [one.for_depth(depth) for one in wide if one.cluster <= multiprocessors]
    if batches is None:
        deep = [one for one in deep_ones(operand, result) if is_possible(one, m, n, multiprocessors)]
        whole += [one for one in deep if is_narrow(one) or at_once(one, m, n, multiprocessors)]
    tiled: list[Wide | Deep | Unaligned] = [*stored_so(whole, majors)]
    skinny: list[Skinny] = []
    if not for_tma(m, n, depth, operand, result, majors):
        check_copied(m, n, depth, batches, majors)
        skinny += (one for one in skinny_ones(m, n, depth, operand, result) if is_possible(one, m, n, multiprocessors))
        if not skinny or skinny[0].width >= WORD:  # by loads of 2 bytes few rows took three to eleven times as long
            tiled += unaligned_ones(n, depth, operand, result)
        thin, tiled = _aligned(thin, n, depth, result), _aligned(tiled, n, depth, result)
    tiled = [one for one in tiled if fits(one, m, n)]
    narrow = [one for one in tiled if is_narrow(one)]
    every: list[Choice] = [*thin, *skinny, *(narrow if m <= FEW and (narrow or thin) else tiled)]
    said = {one: microseconds(one, m, n, depth, multiprocessors, batches or 1) for one in every}
    near, ranked = NEAR * min(said.values()), sorted(said, key=said.__getitem__)
    others = [one for one in ranked if not is_usual(one) and said[one] <= near][:OTHERS]
    kept = [one for one in ranked if is_usual(one) or one in others]
    return {order: said[one] for one in kept for order in orders(one, m, n)}


def choose(
    m: int,
    n: int,
    depth: int,
    operand: nvb.ElementType = f16,
    result: nvb.ElementType | None = None,
    *,
    batches: int | None = None,
    majors: tuple[Major, Major] = K_MAJOR,
    multiprocessors: int = 132,
) -> Choice:
    """The candidate that takes least time, as the model has it; of equal ones the first."""
    how: Any = {"batches": batches, "majors": majors, "multiprocessors": multiprocessors}
    return next(iter(candidates(m, n, depth, operand, result, **how)))
