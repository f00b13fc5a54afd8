"""Every GEMM that can be chosen: a few tiles of each, whose extents no tile divides, and more steps than its stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any, TypeVar

from samples import block_scaled_few_rows, block_scaled_gemm
from samples.block_scales import BLOCK
from samples.gemm import choice, fused
from samples.gemm.choice import Choice
from samples.gemm.forms import FORMS, Form, problem_for
from samples.gemm.skinny import Skinny
from samples.gemm.thin import TILE_K, Thin
from samples.gemm.unaligned import PAIR, TMA, WIDTHS, Unaligned
from samples.gemm.wide import Wide
from samples.problem import Problem
from samples.w4a16 import __main__ as w4a16
from samples.w4a16 import choice as weights
from samples.w4a16.weights import GROUP, UNIT
from tests.support.sampling import sample

Named = Iterator[tuple[str, Callable[[], Problem]]]
"""Problems, which are made where they are run, each with its name."""
Size = tuple[int, int, int]
Tile = TypeVar("Tile")
MOST_DEPTH = 2048
"""Columns of A and B in whole steps at most: over more of them products of fp8 are less exact than the forms say."""
MANY = 300
"""Rows that no skinny tile has all of."""
SHARES = 3
"""So many multiprocessors stream-K is launched for: its CTAs have parts of two tiles or four."""
OTHERS_COLUMNS = 16
"""Rows of the shorter side in skinny tiles of other types than f16."""


def depth_of(stages: int, step: int, split: int, rest: int) -> int:
    """Steps for a round of the ring of each CTA and one more, and a part of a step."""
    return min(step * split * (stages + 1), MOST_DEPTH) + rest


def some(name: str, every: Iterable[Tile], one_of: int) -> Iterator[Tile]:
    """One of so many tiles of each kind, always the same ones, with every value of each constant among them."""
    kinds: dict[type, list[Tile]] = {}
    for one in every:
        kinds.setdefault(type(one), []).append(one)
    for kind, tiles in kinds.items():
        kept = sample(f"{name} {kind.__name__}", [dict(enumerate(vars(one).values())) for one in tiles], one_of)
        yield from (one for place, one in enumerate(tiles) if place in kept)


def size_of(one: Choice) -> Size:
    """More than a tile along M and N, but for tiles that have all rows of one side."""
    row = TMA * 8 // one.operand.bits
    if isinstance(one, Thin):
        return one.columns - 3, one.rows + 8, depth_of(one.stages, TILE_K, one.split, row)
    if isinstance(one, Skinny):
        m, n = one.sides(one.rows + 3, one.columns - 1)
        return m, n, depth_of(one.stages, one.depth, one.split, one.width * 8 // one.operand.bits)
    if isinstance(one, Unaligned):
        m, n = one.sides(one.rows + 3, one.columns + 5)
        rest = one.width * 8 // one.operand.bits
        return m, n // one.together * one.together, depth_of(one.stages, one.depth, 1, rest)
    m, n = one.sides(one.rows + 8, one.columns + 8)
    return m, n, depth_of(one.stages, one.depth, 1 if isinstance(one, Wide) else one.split, row)


def for_depth(one: Any) -> Any:
    """The tile with the tail for its size."""
    return one.for_depth(size_of(one)[2]) if isinstance(one, Wide) else one


def loaded_by_tma(form: Form) -> Iterator[Choice]:
    """Wide, deep and thin tiles."""
    whole: list[Any] = [*choice.wide_ones(form.operand, form.result, batched=form.batches is not None)]
    whole += choice.deep_ones(form.operand, form.result) if form.batches is None else ()
    yield from choice.stored_so(whole, form.majors)
    if form == Form():
        for columns in choice.THIN_COLUMNS:
            yield from choice.thin_ones(columns, form.operand)


def copied(form: Form) -> Iterator[Unaligned]:
    """Tiles for rows that are multiples of each number of bytes, of an odd and of an even length in turn."""
    for number, rest in enumerate(rests(form)):
        yield from choice.unaligned_ones(1 + number % PAIR, rest, form.operand, form.result)


def skinny(form: Form) -> Iterator[Skinny]:
    """Tiles for few rows of A and of B in turn."""
    columns = choice.SKINNY_COLUMNS if form == Form() else (OTHERS_COLUMNS,)
    for (place, few), (number, rest) in product(enumerate(columns), enumerate(rests(form))):
        m, n = (MANY, few) if (place + number) % 2 else (few, MANY)
        yield from choice.skinny_ones(m, n, rest, form.operand, form.result)


def rests(form: Form) -> list[int]:
    """Elements of the least row that is a multiple of each number of bytes."""
    return [width * 8 // form.operand.bits for width in WIDTHS if width * 8 >= form.operand.bits]


def tiles(name: str, form: Form, one_of: int) -> Iterator[Choice]:
    """All tiles of f16, but for skinny ones, and of operands stored in other ways; one of so many of others."""
    of_f16 = 1 if form._replace(majors=choice.K_MAJOR) == Form() else one_of
    yield from some(name, loaded_by_tma(form), of_f16)
    if form.batches is None and form.majors == choice.K_MAJOR:
        yield from some(name, copied(form), of_f16)
        yield from some(name, skinny(form), one_of)


def gemms(one_of: int) -> Named:
    """The tiles of each form."""
    for name, form in FORMS.items():
        for one in map(for_depth, tiles(name, form, one_of)):
            size = size_of(one)
            kind = type(one).__name__.lower()
            yield f"gemm {name} {kind} {told(size)}: {one.label}", partial(problem_for, one, *size, form)


def epilogues(one_of: int) -> Named:
    """One of so many tiles that have room for an epilogue, with each of them."""
    for name, case in fused.EPILOGUES.items():
        wide = choice.wide_ones(case.form.operand, case.form.result)
        for kind, every in (("wide", wide), ("unaligned", copied(case.form))):
            fitting = [one for one in every if fused.has_room(one, None)]
            for one in map(for_depth, some(f"{name} {kind}", fitting, one_of)):
                size = size_of(one)
                make = partial(fused.problem_for, fused.Fused(one, case.epilogue), *size, case)
                yield f"fused {name} {kind} {told(size)}: {one.label}", make


def weights_of_4_bits() -> Named:
    """Every tile, with two along W's rows or more."""
    for columns in weights.COLUMNS:
        for one in weights.candidates(columns):
            split = one.split if isinstance(one, weights.Clusters) else 1
            size = columns - 1, 2 * UNIT, depth_of(one.stages, GROUP, split, 0)
            yield f"w4a16 {told(size)}: {one}", partial(w4a16.problem_for, one, *size, SHARES)


def block_scaled() -> Named:
    """Tiles of many rows, of which two CTAs have several, and of few."""
    row = TMA
    for consumers in block_scaled_gemm.STEP:
        large = block_scaled_gemm.Large(consumers)
        depth = depth_of(block_scaled_gemm.STAGES[consumers], BLOCK, 1, row)
        size = 64 * consumers + 10, block_scaled_gemm.TILE_N + 72, depth
        yield f"block_scaled large {told(size)}: {large.label}", partial(block_scaled_gemm.problem_for, large, *size)
    for columns in block_scaled_few_rows.WIDTHS:
        for few in block_scaled_few_rows.forms(columns):
            size = columns - 5, BLOCK + 72, depth_of(few.stages, BLOCK, few.split, row)
            yield f"block_scaled few {told(size)}: {few.label}", partial(block_scaled_gemm.problem_for, few, *size)


def told(size: Size) -> str:
    return "x".join(map(str, size))


def every_gemm(one_of: int) -> Named:
    """All of these."""
    yield from gemms(one_of)
    yield from epilogues(one_of)
    yield from weights_of_4_bits()
    yield from block_scaled()
