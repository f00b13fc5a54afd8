"""Which kernel multiplies a shape: a model of waves, steps and bytes, without running anything.

A launch takes as long as the memory needs for its bytes, or as the busiest multiprocessor for its tiles, and a little
more to begin and to end. The rates are those of an H200, measured over all candidates of twelve shapes of large results
and of forty with few rows of A.
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
from samples.gemm.wide import LINE, Wide, rows_of

Choice = Wide | Thin
OPERANDS = (f16, bf16, tf32, e4m3, e5m2, s8, u8)
"""What wgmma multiplies, but for single bits."""
FLOATS, INTEGERS = (f16, bf16, tf32, f32, e4m3, e5m2), (s8, u8, s16, u16, s32, u32)
"""What sums of floats are rounded to; those of integers go to both, and stop at the ends of an integer type."""

SHARED, WIDE_SHARED, BUFFER = 220_000, 213_000, 65_536
"""Bytes of a multiprocessor's shared memory for rings and sums, those of wide tiles, and of the epilogue at most."""
LEAST_STAGES, MOST_STAGES, MOST_THIN_STAGES = 3, 7, 20
ENDS, TOGETHER = 2.0, 0.6
"""Microseconds of a launch before its first and after its last step, and what clusters take longer to start."""
MEMORY, L2 = 4.0e6, 14.5e6
"""Bytes a microsecond from memory, and from the L2 cache to all multiprocessors."""
LATENCY = 1.4
"""Microseconds until a stage comes from memory: a ring of as many stages brings one each time this goes by once."""
SHARE = 174e3
"""Bytes a microsecond that one multiprocessor gets."""
FEWEST = 66
"""Fewer multiprocessors do not ask for bytes as fast as the memory gives them."""
NEXT_WAVE = 1.7
"""Microseconds until a CTA begins where another one ended."""
SPLIT, PARTS = 0.15, 0.055
"""Microseconds that a cluster takes to add its sums, and more for each part and the root of a tile's columns."""
STEP = {(1, 64): 0.13, (1, 128): 0.186, (1, 256): 0.365, (2, 128): 0.36, (2, 192): 0.53, (2, 256): 0.69}
"""Microseconds of a step of 64 columns, by consumers and columns of a tile."""
PINGPONG = {256: 0.36}
"""Microseconds of a step of ping-pong consumers, by columns: one multiplies 64 rows while another stores."""
STORE = {64: 0.15, 128: 0.25, 192: 0.42, 256: 0.7}
"""Microseconds between the last step of a tile and the first one of the next, by columns."""
ALONE = 1.01
"""What CTAs lose that do not share their tiles of B."""
AGAIN = 0.1
"""How much of the time that the L2 cache needs is added where the memory needs more."""
GROUPS = (16, 8, 32)
"""Rows of wide tiles that go together. The model does not tell them apart, and takes the first."""
FEW = 64
"""Up to so many rows of A thin tiles are faster throughout."""


def wide_ones(
    operand: nvb.ElementType = f16, result: nvb.ElementType = f16, *, batched: bool = False
) -> Iterator[Wide]:
    """Tiles of 64 to 128 rows, as many stages as there is room for, with and without a cluster; of 16 bits in turns.

    The epilogue stores whole lines, so of 8-bit results the least tiles are left out.
    """
    alike = [(consumers, columns, False) for consumers, columns in STEP]
    turns = [(2, columns, True) for columns in PINGPONG if operand.bits == 16]
    for (consumers, columns, pingpong), cluster in itertools.product((*alike, *turns), (1, 2)):
        if columns * result.bits % LINE:
            continue
        tile = 64 * consumers * columns * result.bits // 8
        parts = -(-tile // BUFFER) * (2 if pingpong else 1)  # as small a buffer as leaves room for a stage more
        stage = (rows_of(consumers, pingpong) + columns) * LINE // 8
        stages = min(MOST_STAGES, (WIDE_SHARED - tile // parts) // stage)
        yield Wide(columns, consumers, cluster, stages, parts, operand, result, batched, pingpong=pingpong)


def thin_ones(m: int, operand: nvb.ElementType = f16) -> Iterator[Thin]:
    """Tiles that have all `m` rows of A, by how many CTAs share the depth."""
    columns = next((columns for columns in (8, 16, 32, 64, 128) if m <= columns), None)
    if columns is None:
        return
    for consumers, split, ctas in itertools.product((1, 2), (1, 2, 4, 8), (1, 2)):
        stage, sums = 2 * TILE_K * (columns + 64 * consumers), 4 * columns * (64 * consumers + STORED)
        stages = min(MOST_THIN_STAGES, (SHARED // ctas - sums) // stage)
        if stages >= LEAST_STAGES and consumers * ctas <= 2:
            yield Thin(columns, consumers, split, stages, ctas, operand)


def microseconds(choice: Choice, m: int, n: int, depth: int, multiprocessors: int, batches: int = 1) -> float:
    """What the model says that a launch takes. Raises ValueError for tiles of other columns than have been measured."""
    if isinstance(choice, Wide):
        steps, operands = depth / choice.depth, (m + n) * depth * choice.operand.bits
        memory = batches * (operands + m * n * choice.result.bits) / 8 / MEMORY
        tiles = batches * math.prod(choice.tiles(m, n))
        waves = -(-tiles // (multiprocessors // choice.cluster * choice.cluster))
        alone = choice.cluster == 1
        loaded = LINE // 8 * (choice.rows + choice.columns // choice.cluster)
        step = _step(choice) * (ALONE if alone else 1)
        if choice.tiles(m, n)[0] <= 2:  # no tile of B is in L2 already
            step = max(step, LATENCY / choice.stages)
        stores = 1 if choice.pingpong else waves  # all but the last one are beside steps
        busiest = waves * steps * step + stores * STORE[choice.columns]
        l2 = tiles * steps * loaded / L2
        return ENDS + (0 if alone else TOGETHER) + max(memory + AGAIN * l2, busiest, l2)
    return _thin_microseconds(choice, m, n, depth, multiprocessors)


def _step(choice: Wide) -> float:
    """Microseconds of a step. Raises ValueError for a tile that was not measured."""
    among(
        PINGPONG if choice.pingpong else [columns for consumers, columns in STEP if consumers == choice.consumers],
        columns=choice.columns,
    )
    return PINGPONG[choice.columns] if choice.pingpong else STEP[choice.consumers, choice.columns]


def _thin_microseconds(choice: Thin, m: int, n: int, depth: int, multiprocessors: int) -> float:
    steps, (grid, _) = -(-depth // TILE_K), choice.launch_of(m, n, depth, multiprocessors)
    loaded = 2 * TILE_K * (choice.rows + choice.columns)
    busy, together = min(multiprocessors, grid), min(choice.ctas, -(-grid // multiprocessors))
    memory = 2 * (m * depth + n * depth + m * n) / MEMORY * max(1, FEWEST / busy)
    l2 = grid // choice.split * steps * loaded / L2
    waves = -(-grid // (multiprocessors * choice.ctas))
    busiest = waves * -(-steps // choice.split) * max(LATENCY / choice.stages, together * loaded / SHARE)
    added = choice.split * math.sqrt(choice.columns * choice.consumers)
    sums = SPLIT + PARTS * added if choice.split > 1 else 0
    return ENDS + max(memory + AGAIN * l2, busiest) + sums + NEXT_WAVE * (waves - 1)


def orders(one: Wide, m: int) -> Iterator[Wide]:
    """The same tile in each order that is another one where there are so many rows of tiles."""
    bands = one.tiles(m, 1)[0] // one.cluster
    together = {min(max(1, group // one.cluster), bands): group for group in reversed(GROUPS)}
    return (replace(one, group=group) for group in GROUPS if group in together.values())


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
    fit = (one.for_depth(depth) for one in wide if one.cluster <= multiprocessors)
    every: list[Choice] = [*(order for one in fit for order in orders(one, m)), *thin]
    said = {one: microseconds(one, m, n, depth, multiprocessors, batches or 1) for one in every}
    return dict(sorted(said.items(), key=lambda item: item[1]))


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
