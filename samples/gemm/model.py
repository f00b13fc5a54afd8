"""How long a launch takes, computed from waves, steps and bytes without running anything: see `microseconds`.

A launch takes as long as the memory needs for its bytes, or as the busiest multiprocessor needs for its tiles, and a
little more at its start and end. The rates are those of an H200, fitted to measurements of the candidates of five
hundred shapes, most of them with fewer than 1024 rows of A.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from nvbackend import tf32
from samples.gemm.deep import Deep
from samples.gemm.skinny import Skinny
from samples.gemm.thin import TILE_K, Thin
from samples.gemm.unaligned import PAIR, TMA, WORD, Unaligned
from samples.gemm.wide import LINE, NARROW, WARPGROUP_ROWS, Wide, box_of_c

ENDS = 1.376
"""Microseconds of a launch before its first and after its last step."""
MEMORY, NEIGHBORS = 4.65e6, 46.3e3
"""Bytes a microsecond from memory to all multiprocessors, and to each of two neighbors that load by a CTA each."""
PORT, NO_NEIGHBOR = 104.2e3, 1.555
"""Bytes a microsecond from the L2 cache to a multiprocessor, and what it gets more whose neighbor loads nothing."""
NORM = 2.52
"""The memory and the busiest multiprocessor take as long as this norm of both: each waits for the other."""
LATENCY = 1.174
"""Microseconds until a stage comes from memory: a ring of as many stages brings one each time this goes by once."""
RESIDENT = {1: 1.0, 2: 1.0, 3: 0.89, 4: 0.91, 8: 0.85}
"""Which part of the multiprocessors clusters of so many CTAs fill: a cluster is within a group of them (a GPC)."""
NEXT_WAVE = 0.886
"""Microseconds until a CTA begins where another one ended."""

# Of wide and deep tiles.


class Rates(NamedTuple):
    """Of operands of a type."""

    step: Mapping[int, float]
    """Microseconds of a step, by the number of consumers."""
    multiply: float
    """And for each column of a tile and 64 rows."""
    load: float
    """And for each row of either operand: loading them takes power, and so costs clock."""
    alone: float
    """How much longer it takes for CTAs that share no tiles, where the operands have more than FAR bytes."""
    turns: float
    """And for ping-pong consumers."""
    store: float
    """Microseconds between the last step of a wide tile and the first one of the next, for the square of its columns:
    all CTAs store at once, and those of f32 17 MB."""


RATES = Rates({1: 0.0133, 2: 0.0176, 3: 0.0407}, 1.531e-3, 1.365e-4, 1.004, 1.04, 1.8e-6)
RATES_TF32 = Rates({1: 0.0285, 2: 0.057, 3: 0.099}, 1.15e-3, 2.5e-4, 1.0, 0.94, 5.2e-5)
"""A step has half as many products as with other types, for as many bytes. Fitted to twenty tiles of five shapes."""
FAR = 200e6
UNALIGNED, OUTSIDE = 1.35, 1.395
"""What bytes count where rows of the operands do not begin at lines, and how much more a row outside counts."""
AGAIN = 0.303
"""How much of an operand comes from memory again where CTAs that do not share its tiles read them at the same time."""
IN_NARROW = 1.0625
"""How much longer a launch of narrow wide tiles takes."""
STORE, LINES, FEW_STAGES = 0.14, 8.6e-5, 0.3
"""And always, for each column and line of C beyond one, where a row of 128 bytes is stored as several, and with a ring
of three stages, which hold less of the next tile."""
EXCHANGE, EXCHANGED = 0.532, 1.09e-2
"""Microseconds in which the CTAs of a deep tile send their sums and store them: always, and for each column and 64 rows
that one sends."""

# Of tiles that threads copy and store, by fifteen measurements; that of single bytes is a guess.
COPIED = {16: 0.0, 8: 3.0e-3, 4: 3.75e-3, 2: 6.5e-3, 1: 11e-3}
"""Microseconds in which threads copy 128 bytes of a row of an operand, by how many bytes the rows are multiples of."""
AWAITED = 1.25
"""Microseconds of a step at least where a thread waits for what it loads, before it stores it."""
BY_THREADS, SINGLES = 0.01, 2
"""Microseconds between the last step of a tile and the first one of the next, for each column, and how many times as
long that is where neighbors in a row of C are not stored in pairs."""

NARROW_COPIED = 0.8
"""How much of it narrow tiles take, whose consumers leave the copying warps their turns."""

# Of skinny tiles, fitted to 43 measurements of eleven shapes: the mean error is 6 %.
EDGES, OF_WORDS = 61, 39.7e3
"""Bytes more that a row of a step counts where rows do not begin at words of 16 bytes, for the parts of sectors at its
ends, and bytes a microsecond that a multiprocessor copies then. Rows that are not there cost nothing."""
RING, CHAIN = 1.557, 0.371
"""Microseconds until a stage comes while all CTAs load, and those of a step at least."""
CROWDED = 0.716
"""How much longer the only wave takes where a multiprocessor could have twice as many CTAs: some do, and others have
none."""
ADDED = 0.751, 1.34e-4
"""Microseconds in which CTAs and warps add their sums: always, and for each sum that a CTA has."""

# Of thin tiles.
FIRST = 0.968
"""Microseconds that its CTAs begin later than those of other kernels."""
READ_BY_ALL = 1.05e-3
"""How much longer a launch takes for each row of A in a tile, as every CTA reads the same ones."""
PART = 0.0384
"""Microseconds that a cluster takes to add its sums, for each part and the root of a tile's columns."""


def rates_of(choice: Wide | Deep | Unaligned) -> Rates:
    """Those of its operands."""
    return RATES_TF32 if choice.operand is tf32 else RATES


def resident(multiprocessors: int, cluster: int) -> int:
    """How many CTAs, of clusters of so many, have a multiprocessor each at the same time."""
    return int(multiprocessors * RESIDENT.get(cluster, min(RESIDENT.values()))) // cluster * cluster


def microseconds(
    choice: Wide | Thin | Deep | Unaligned | Skinny, m: int, n: int, depth: int, multiprocessors: int, batches: int = 1
) -> float:
    """What the model says that a launch takes."""
    if isinstance(choice, Wide):
        return _wide_microseconds(choice, m, n, depth, multiprocessors, batches)
    if isinstance(choice, Deep):
        return _deep_microseconds(choice, m, n, depth, multiprocessors)
    if isinstance(choice, Unaligned):
        return _unaligned_microseconds(choice, m, n, depth, multiprocessors)
    if isinstance(choice, Skinny):
        return _skinny_microseconds(choice, m, n, depth, multiprocessors)
    return _thin_microseconds(choice, m, n, depth, multiprocessors)


def _are_apart(ctas: int, multiprocessors: int, cluster: int = 1) -> bool:
    """Whether each CTA has a pair of multiprocessors to itself: a cluster of four has both of each of its pairs."""
    return 2 * ctas <= multiprocessors and cluster < 4


def _from_memory(bits: float, ctas: int, multiprocessors: int, *, is_free: bool) -> float:
    """Microseconds for all bytes. `is_free`, CTAs get as much as the memory has: one for a pair, or several for each.

    What a pair gets is limited where both of them load, by one CTA each.
    """
    rate = MEMORY if is_free else min(MEMORY, NEIGHBORS * min(ctas, multiprocessors))
    return bits / 8 / rate


def _port(*, is_apart: bool) -> float:
    return PORT * (NO_NEIGHBOR if is_apart else 1)


def _longest(*times: float) -> float:
    return sum(time**NORM for time in times) ** (1 / NORM)


def _bits(choice: Wide | Deep | Unaligned | Skinny, m: int, n: int, depth: int, together: int = 1) -> float:
    """Bits from and to memory, where so many CTAs share a tile of the right operand."""
    (height, width), (down, across) = choice.sides(m, n), choice.tiles(m, n)
    read = height * (1 + AGAIN * (across > 1)) + width * (1 + AGAIN * (down > together))
    return read * depth * choice.operand.bits + m * n * choice.result.bits


def _wide_microseconds(choice: Wide, m: int, n: int, depth: int, multiprocessors: int, batches: int) -> float:
    tiles, steps, alone = batches * math.prod(choice.tiles(m, n)), depth / choice.depth, choice.cluster == 1
    waves = -(-tiles // (multiprocessors // choice.cluster * choice.cluster))
    is_apart = _are_apart(tiles, multiprocessors)
    bits = batches * _bits(choice, m, n, depth, choice.cluster)
    memory = _from_memory(bits, tiles, multiprocessors, is_free=is_apart)
    stores = 1 if choice.pingpong else waves  # in turns all but the last one are beside steps
    far, rates = alone and batches * (m + n) * depth * choice.operand.bits / 8 > FAR, rates_of(choice)
    multiplied = _multiplied(choice) * (rates.turns if choice.pingpong else rates.alone if far else 1)
    step = max(multiplied, _loaded(choice, m, n, depth) / _port(is_apart=is_apart), LATENCY / choice.stages)
    busiest = waves * steps * step + stores * _store(choice)
    return (ENDS + _longest(memory, busiest)) * (IN_NARROW if choice.columns in NARROW else 1)


def _deep_microseconds(choice: Deep, m: int, n: int, depth: int, multiprocessors: int) -> float:
    ctas, steps = choice.ctas(m, n), -(-depth // (choice.depth * choice.split))
    waves = -(-ctas // resident(multiprocessors, choice.split))
    is_apart = _are_apart(ctas, multiprocessors, choice.split)
    memory = _from_memory(_bits(choice, m, n, depth), ctas, multiprocessors, is_free=is_apart)
    loaded = _loaded(choice, m, n, depth) / _port(is_apart=is_apart)
    busiest = waves * steps * max(_multiplied(choice), loaded, LATENCY / choice.stages)
    sent = EXCHANGED * choice.columns * choice.consumers * (choice.split - 1) / choice.split
    return ENDS + NEXT_WAVE * (waves - 1) + EXCHANGE + sent + _longest(memory, busiest)


def _unaligned_microseconds(choice: Unaligned, m: int, n: int, depth: int, multiprocessors: int) -> float:
    tiles, steps = math.prod(choice.tiles(m, n)), -(-depth // choice.depth)
    waves = -(-tiles // multiprocessors)
    is_apart = _are_apart(tiles, multiprocessors)
    memory = _from_memory(_bits(choice, m, n, depth), tiles, multiprocessors, is_free=is_apart)
    rows = choice.rows + choice.columns
    far = UNALIGNED if depth * choice.operand.bits % LINE else 1
    copied = COPIED[choice.width] * rows * (NARROW_COPIED if choice.columns in NARROW else 1)
    loaded = max(copied, LINE // 8 * far * rows / _port(is_apart=is_apart))
    step = max(_multiplied(choice), loaded, AWAITED if choice.width < WORD else LATENCY / choice.stages)
    in_pairs = choice.together == PAIR and not choice.swapped
    stored = BY_THREADS * choice.columns * (1 if in_pairs else SINGLES)
    return ENDS + _longest(memory, waves * (steps * step + stored))


def _multiplied(choice: Wide | Deep | Unaligned) -> float:
    """Microseconds in which the tensor cores multiply a step."""
    rates = rates_of(choice)
    multiplied = rates.multiply * choice.columns * choice.rows / WARPGROUP_ROWS
    return rates.step[choice.consumers] + multiplied + rates.load * (choice.rows + choice.columns)


def _loaded(choice: Wide | Deep, m: int, n: int, depth: int) -> float:
    """Bytes of a step. Tiles end with the matrix, so only one that is larger has rows outside."""
    height, width = choice.sides(m, n)
    outside = OUTSIDE * (max(0, choice.rows - height) + max(0, choice.columns - width))
    return (
        LINE // 8 * (choice.rows + choice.columns + outside) * (UNALIGNED if depth * choice.operand.bits % LINE else 1)
    )


def _store(choice: Wide) -> float:
    line = box_of_c(WARPGROUP_ROWS if choice.swapped else choice.columns, choice.result)
    more = LINE / (line * choice.result.bits) - 1
    burst = rates_of(choice).store * choice.columns**2
    return STORE + burst + LINES * choice.columns * more + FEW_STAGES * (choice.stages < 4)


def _thin_microseconds(choice: Thin, m: int, n: int, depth: int, multiprocessors: int) -> float:
    steps, (ctas, _) = -(-depth // TILE_K), choice.launch_of(m, n, depth, multiprocessors)
    at_once = resident(multiprocessors, choice.split)
    waves, together = -(-ctas // (at_once * choice.ctas)), min(choice.ctas, -(-ctas // at_once))
    bits = 8 * choice.operand.bytes_for(1) * (m * depth + n * depth + m * n)
    is_apart = _are_apart(ctas, multiprocessors, choice.split)
    memory = _from_memory(bits, ctas, multiprocessors, is_free=is_apart or choice.ctas > 1)
    loaded = 2 * TILE_K * (choice.rows + choice.columns + OUTSIDE * max(0, choice.columns - m))
    busiest = (
        waves * -(-steps // choice.split) * max(LATENCY / choice.stages, together * loaded / _port(is_apart=is_apart))
    )
    sums = PART * choice.split * math.sqrt(choice.columns * choice.consumers) if choice.split > 1 else 0
    longest = _longest(memory, busiest) * (1 + READ_BY_ALL * choice.columns)
    return ENDS + FIRST + longest + sums + NEXT_WAVE * (waves - 1)


def _skinny_microseconds(choice: Skinny, m: int, n: int, depth: int, multiprocessors: int) -> float:
    ctas, steps = math.prod(choice.tiles(m, n)) * choice.split, -(-depth // (choice.depth * choice.split))
    at_once = resident(multiprocessors, choice.split) * choice.ctas // choice.split * choice.split
    row = _row_of_step(choice, depth) * sum(map(min, (choice.rows, choice.columns), choice.sides(m, n)))

    def wave(ctas: int, *, is_only: bool) -> float:
        together = min(choice.ctas, -(-ctas // multiprocessors))
        crowded = 1 + CROWDED * (choice.ctas / together - 1) if is_only else 1
        return steps * max(RING / (choice.stages - 1), CHAIN, together * crowded * row)

    full = (ctas - 1) // at_once
    busiest = full * wave(at_once, is_only=False) + wave(ctas - full * at_once, is_only=not full)
    memory = _from_memory(_bits(choice, m, n, depth), ctas, multiprocessors, is_free=True)
    added = ADDED[0] + ADDED[1] * choice.rows * choice.columns * choice.along
    return ENDS + _longest(memory, busiest) + added + NEXT_WAVE * full


def _row_of_step(choice: Skinny, depth: int) -> float:
    """Microseconds in which a multiprocessor copies what a step multiplies of a row."""
    bits = choice.line * WORD
    if choice.width < TMA:
        return (bits + EDGES) / OF_WORDS
    return bits * (UNALIGNED if depth * choice.operand.bits % LINE else 1) / _port(is_apart=False)
