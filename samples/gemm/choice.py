"""Which kernel multiplies a shape: a model of waves, steps and bytes, without running anything.

A launch takes as long as the memory needs for its bytes, or as the busiest multiprocessor for its tiles, and a little
more to begin and to end. The rates are those of an H200, measured over candidates of forty shapes of up to 16384 rows
of A, and of forty with few of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import nvbackend as nvb
from nvbackend import bf16, e4m3, e5m2, f16, f32, s8, s16, s32, tf32, u8, u16, u32
from samples.gemm.checks import among, positive
from samples.gemm.thin import STORED, TILE_K, Thin
from samples.gemm.wide import LINE, WARPGROUP_ROWS, Wide, box_of_c, rows_of

Choice = Wide | Thin
OPERANDS = (f16, bf16, tf32, e4m3, e5m2, s8, u8)
"""What wgmma multiplies, but for single bits."""
FLOATS, INTEGERS = (f16, bf16, tf32, f32, e4m3, e5m2), (s8, u8, s16, u16, s32, u32)
"""What sums of floats are rounded to; those of integers go to both, and stop at the ends of an integer type."""

SHARED, WIDE_SHARED, BUFFER = 220_000, 213_000, 65_536
"""Bytes of a multiprocessor's shared memory for rings and sums, those of wide tiles, and of the epilogue at most."""
PARTS = (1, 2, 3, 4, 6, 8)
"""In how many parts the epilogue may store a tile."""
LEAST_STAGES, MOST_STAGES, MOST_THIN_STAGES = 3, 7, 20
SMALL = 16
"""Columns of thin tiles of which three CTAs may share a multiprocessor."""
COLUMNS = (48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 256)
"""Widths of wide tiles: so many that there is one for which the tiles of a shape fill the multiprocessors."""
SWIZZLED = 256
"""Bits of the least row that a swizzle has: rows of a tile of C are whole ones."""
USUAL = ((1, 64), (1, 128), (1, 256), (2, 128), (2, 192), (2, 256))
"""Consumers and columns of the tiles that are candidates for every shape."""
NEAR, OTHERS = 1.1, 8
"""Of other tiles so many at most, those that the model has no further than this from the best."""
ENDS, TOGETHER = 2.0, 0.6
"""Microseconds of a launch before its first and after its last step, and what clusters take longer to start."""
MEMORY, L2, WIDE_L2 = 4.0e6, 13.2e6, 17.1e6
"""Bytes a microsecond from memory, and from the L2 cache to all multiprocessors, of thin and of wide tiles."""
LATENCY = 1.3
"""Microseconds until a stage comes from memory: a ring of as many stages brings one each time this goes by once."""
NEXT_WAVE = 2.0
"""Microseconds until a CTA of thin tiles begins where another one ended."""
PART = 0.07
"""Microseconds that a cluster takes to add its sums, for each part and the root of a tile's columns."""
STEP, MULTIPLY, NARROW = 0.0175, 1.55e-3, 80
"""Microseconds of a step: always, and for each column of a tile and 64 rows; fewer columns take as long as so many."""
PORT, THIN_PORT, SHARED_COLUMNS, UNALIGNED = 97.8e3, 135e3, 0.78, 1.32
"""Bytes a microsecond that come to a multiprocessor from L2, of wide and of thin tiles; what a column counts that two
CTAs of a cluster share, and what bytes count where rows of the operands do not begin at whole lines."""
ALONE = 1.01
"""What steps of CTAs take more that do not share their tiles of B, where there are several waves of them."""
READ_BY_ALL = 8e-4
"""What a launch of thin tiles takes more for each of their columns, rows of A that every CTA reads."""
TURNS, IN_TURNS = 1.04, 256
"""What a step of ping-pong consumers takes more, and the columns of their tiles."""
STORE, STORED_ROW, LINES = 0.265, 1e-6, 9.8e-4
"""Microseconds between the last step of a tile and the first one of the next: always, for the square of its columns,
and for each column and line of C beyond one, where a row of 128 bytes is stored as several."""
NORM, THIN_NORM = 2.85, 5.0
"""The memory and the busiest multiprocessor take as long as this norm of both, of thin tiles with the L2 cache: they
wait for each other."""
GROUPS = (16, 8, 32)
"""Rows of wide tiles that go together. The model does not tell them apart, and takes the first."""
FEW = 32
"""Up to so many rows of A thin tiles are faster throughout."""


def wide_ones(
    operand: nvb.ElementType = f16, result: nvb.ElementType = f16, *, batched: bool = False
) -> Iterator[Wide]:
    """Tiles of 64 to 128 rows, as many stages as there is room for, with and without a cluster; of 16 bits in turns."""
    alike = [(consumers, columns, False) for consumers in (1, 2) for columns in COLUMNS]
    turns = [(2, IN_TURNS, True)] if operand.bits == 16 else []
    for (consumers, columns, pingpong), cluster in itertools.product((*alike, *turns), (1, 2)):
        tile = 64 * consumers * columns * result.bits // 8
        least = -(-tile // BUFFER) * (2 if pingpong else 1)  # as small a buffer as leaves room for a stage more
        equal = (parts for parts in PARTS if parts >= least and columns % (parts * box_of_c(columns, result)) == 0)
        parts = next(equal, None)
        if parts is None or columns * result.bits % SWIZZLED:
            continue
        stage = (rows_of(consumers, pingpong) + columns) * LINE // 8
        stages = min(MOST_STAGES, (WIDE_SHARED - tile // parts) // stage)
        if stages >= LEAST_STAGES:
            yield Wide(columns, consumers, cluster, stages, parts, operand, result, batched, pingpong=pingpong)


def thin_ones(m: int, operand: nvb.ElementType = f16) -> Iterator[Thin]:
    """Tiles that have all `m` rows of A, by how many CTAs share the depth."""
    columns = next((columns for columns in (8, 16, 32, 64, 128) if m <= columns), None)
    if columns is None:
        return
    together = 3 if columns <= SMALL else 2
    for consumers, split, ctas in itertools.product((1, 2), (1, 2, 4, 8), (1, 2, 3)):
        stage, sums = 2 * TILE_K * (columns + 64 * consumers), 4 * columns * (64 * consumers + STORED)
        stages = min(MOST_THIN_STAGES, (SHARED // ctas - sums) // stage)
        if stages >= LEAST_STAGES and consumers * ctas <= together:
            yield Thin(columns, consumers, split, stages, ctas, operand)


def microseconds(choice: Choice, m: int, n: int, depth: int, multiprocessors: int, batches: int = 1) -> float:
    """What the model says that a launch takes."""
    if isinstance(choice, Wide):
        return _wide_microseconds(choice, m, n, depth, multiprocessors, batches)
    return _thin_microseconds(choice, m, n, depth, multiprocessors)


def _wide_microseconds(choice: Wide, m: int, n: int, depth: int, multiprocessors: int, batches: int) -> float:
    tiles, steps, alone = batches * math.prod(choice.tiles(m, n)), depth / choice.depth, choice.cluster == 1
    waves = -(-tiles // (multiprocessors // choice.cluster * choice.cluster))
    memory = batches * ((m + n) * depth * choice.operand.bits + m * n * choice.result.bits) / 8 / MEMORY
    stores = 1 if choice.pingpong else waves  # in turns all but the last one are beside steps
    more = UNALIGNED if depth * choice.operand.bits % LINE else 1
    busiest = waves * steps * _step(choice, more) * (ALONE if alone and waves > 1 else 1) + stores * _store(choice)
    l2 = tiles * steps * LINE // 8 * (choice.rows + choice.columns // choice.cluster) * more / WIDE_L2
    return ENDS + (0 if alone else TOGETHER) + max(l2, (memory**NORM + busiest**NORM) ** (1 / NORM))


def _step(choice: Wide, more: float) -> float:
    """Microseconds of a step, which the tensor cores multiply and a multiprocessor gets: so many times its bytes."""
    multiplied = STEP + MULTIPLY * max(NARROW, choice.columns) * choice.rows / WARPGROUP_ROWS
    columns = choice.columns * (1 if choice.cluster == 1 else SHARED_COLUMNS)
    return max(multiplied * (TURNS if choice.pingpong else 1), LINE // 8 * (choice.rows + columns) * more / PORT)


def _store(choice: Wide) -> float:
    more = LINE / (box_of_c(choice.columns, choice.result) * choice.result.bits) - 1
    return STORE + STORED_ROW * choice.columns**2 + LINES * choice.columns * more


def _thin_microseconds(choice: Thin, m: int, n: int, depth: int, multiprocessors: int) -> float:
    steps, (grid, _) = -(-depth // TILE_K), choice.launch_of(m, n, depth, multiprocessors)
    waves = -(-grid // (multiprocessors * choice.ctas))
    memory = 2 * (m * depth + n * depth + m * n) / MEMORY
    loaded, together = 2 * TILE_K * (choice.rows + choice.columns), min(choice.ctas, -(-grid // multiprocessors))
    busiest = waves * -(-steps // choice.split) * max(LATENCY / choice.stages, together * loaded / THIN_PORT)
    l2 = grid // choice.split * steps * loaded / L2
    sums = PART * choice.split * math.sqrt(choice.columns * choice.consumers) if choice.split > 1 else 0
    longest = sum(time**THIN_NORM for time in (memory, busiest, l2)) ** (1 / THIN_NORM)
    return ENDS + longest * (1 + READ_BY_ALL * choice.columns) + sums + NEXT_WAVE * (waves - 1)


def is_usual(one: Choice) -> bool:
    """Whether it is a candidate for every shape."""
    return isinstance(one, Thin) or (one.consumers, one.columns) in USUAL


def orders(one: Choice, m: int) -> Iterator[Choice]:
    """The same tile in each order that is another one where there are so many rows of tiles."""
    if isinstance(one, Thin):
        yield one
        return
    bands = one.tiles(m, 1)[0] // one.cluster
    together = {min(max(1, group // one.cluster), bands): group for group in reversed(GROUPS)}
    yield from (replace(one, group=group) for group in GROUPS if group in together.values())


def _check(operand: nvb.ElementType, result: nvb.ElementType | None, **numbers: int) -> None:
    if operand not in OPERANDS:
        raise ValueError(f"these kernels multiply {', '.join(map(str, OPERANDS))}, not {operand}")
    if result is not None:
        among((*FLOATS, *INTEGERS) if operand.is_integer else FLOATS, result=result)
    positive(**numbers)


def candidates(
    m: int,
    n: int,
    depth: int,
    operand: nvb.ElementType = f16,
    result: nvb.ElementType | None = None,
    *,
    batches: int | None = None,
    multiprocessors: int = 132,
) -> dict[Choice, float]:
    """All choices for a shape, each with the microseconds that the model says, least first; of equal ones the first.

    Without a `result`, it has the operands' type. Raises ValueError for sizes below 1 and types that no kernel has.
    """
    number = 1 if batches is None else batches
    _check(operand, result, m=m, n=n, depth=depth, batches=number, multiprocessors=multiprocessors)
    result = operand if result is None else result
    is_thin = operand is result and operand in (f16, bf16) and batches is None
    thin = list(thin_ones(m, operand)) if is_thin else []
    wide = wide_ones(operand, result, batched=batches is not None) if m > FEW or not thin else ()
    every: list[Choice] = [*(one.for_depth(depth) for one in wide if one.cluster <= multiprocessors), *thin]
    said = {one: microseconds(one, m, n, depth, multiprocessors, batches or 1) for one in every}
    near, ranked = NEAR * min(said.values()), sorted(said, key=said.__getitem__)
    others = [one for one in ranked if not is_usual(one) and said[one] <= near][:OTHERS]
    kept = [one for one in ranked if is_usual(one) or one in others]
    return {order: said[one] for one in kept for order in orders(one, m)}


def choose(
    m: int,
    n: int,
    depth: int,
    operand: nvb.ElementType = f16,
    result: nvb.ElementType | None = None,
    *,
    batches: int | None = None,
    multiprocessors: int = 132,
) -> Choice:
    """The candidate that takes least time, as the model has it; of equal ones the first."""
    return next(iter(candidates(m, n, depth, operand, result, batches=batches, multiprocessors=multiprocessors)))
