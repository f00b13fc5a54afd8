"""The order of instructions, CuTe's loops written out a second time, and K in parts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from nvbackend import DiagnosticError
from nvbackend.layout import Layout, cosize
from nvbackend.tiled import Fragment, TiledMMA, gemm, make_tiled_mma, reduction, split_k
from nvbackend.tiled.schedule import traversal
from tests.tiled.simulation import participants

WARP = "SM80_16x8x16_F32F16F16F32_TN"


def fragments(mma: TiledMMA, m: int, n: int, k: int) -> tuple[Fragment, Fragment, Fragment]:
    """Of tiles whose elements lie far apart, so that descriptors can begin anywhere."""
    one = mma.get_slice(0)
    return (
        one.partition_fragment_A(Layout((m, k), (512, 512 * m))),
        one.partition_fragment_B(Layout((n, k), (512, 512 * n))),
        one.partition_fragment_C(Layout((m, n))),
    )


def order(name: str, rows: int, columns: int, k: int = 1) -> list[tuple[int, int, int]]:
    mma = make_tiled_mma(name)
    m, n, step = mma.atom.shape
    return [(one.m, one.n, one.k) for one in gemm(mma, *fragments(mma, m * rows, n * columns, step * k))]


def row_serpentine(m_count: int, n_count: int) -> list[tuple[int, int]]:
    return [(m, n_count - 1 - n if m & 1 else n) for m in range(m_count) for n in range(n_count)]


def column_serpentine(m_count: int, n_count: int) -> list[tuple[int, int]]:
    return [(m_count - 1 - m if n & 1 else m, n) for n in range(n_count) for m in range(m_count)]


def kinked_serpentine(m_count: int, n_count: int) -> list[tuple[int, int]]:
    found = []
    for m in range(0, m_count, 2):
        for n in range(n_count):
            there = n_count - 1 - n if m & 2 else n
            found.append((m, there))
            if m + 1 < m_count:
                found.append((m + 1, there))
    return found


@pytest.mark.parametrize(
    ("name", "loops"),
    [
        # cute::gemm, dispatch [4]: by the bytes that a thread gives of A and of B
        ("SM90_64x64x16_F16F16F16_SS<Major::K, Major::K>", row_serpentine),  # 8 and 8: descriptors
        ("SM70_8x8x4_F32F16F16F32_NT", row_serpentine),  # 8 and 8
        ("SM75_16x8x8_F32F16F16F32_TN", row_serpentine),  # 8 and 4
        ("SM75_8x8x16_S32S8S8S32_TN", kinked_serpentine),  # 4 and 4
        (WARP, column_serpentine),  # 16 and 8
        ("SM90_64x64x16_F16F16F16_RS<Major::K, Major::K>", column_serpentine),  # 16 and 8
        ("SM80_8x8x4_F64F64F64F64_TN", row_serpentine),  # 8 and 8
        ("SM100_MMA_F16BF16_TS<half_t, half_t, float, 128, 16, Major::K, Major::K>", column_serpentine),
    ],
)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 3), (3, 2), (5, 4)])
def test_the_loops_are_cutes(name: str, loops: Any, rows: int, columns: int) -> None:
    assert order(name, rows, columns, k=2) == [(m, n, k) for k in range(2) for m, n in loops(rows, columns)]


@pytest.mark.parametrize("sizes", [(8, 8), (4, 4), (8, 4), (4, 8), (16, 8), (8, 16), (8, 2), (2, 2), (16, 4), (4, 2)])
def test_an_operand_stays_from_one_instruction_to_the_next(sizes: tuple[int, int]) -> None:
    walk = list(traversal(5, 4, *sizes))
    assert walk == {(8, 8): row_serpentine, (8, 4): row_serpentine, (4, 4): kinked_serpentine}.get(
        sizes, column_serpentine
    )(5, 4)
    assert sorted(walk) == [(m, n) for m in range(5) for n in range(4)]
    if sizes != (4, 4):  # there in pairs of rows, of which the first follows the second of the pair before
        assert all(one[0] == other[0] or one[1] == other[1] for one, other in itertools.pairwise(walk))


def test_the_first_k_writes_what_all_others_add_to() -> None:
    mma = make_tiled_mma(WARP)
    issues = gemm(mma, *fragments(mma, 32, 16, 48), scale_d=0)
    assert [one.scale_d for one in issues] == [0] * 4 + [1] * 8
    assert {one.scale_d for one in gemm(mma, *fragments(mma, 32, 16, 48))} == {1}


def test_what_an_issue_is_given() -> None:
    mma = make_tiled_mma(WARP)
    a, b, c = fragments(mma, 64, 32, 32)
    for one in gemm(mma, a, b, c):
        assert one.a.offsets() == [a(value, one.m, one.k) for value in range(8)]
        assert one.b.offsets() == [b(value, one.n, one.k) for value in range(4)]
        assert one.c.offsets() == [c(value, one.m, one.n) for value in range(4)]


def wrong_fragments() -> dict[str, tuple[Any, str]]:
    mma = make_tiled_mma(WARP)
    a, b, c = fragments(mma, 64, 32, 32)
    shorter, *_, narrower = fragments(mma, 64, 16, 16)
    staged = mma.get_slice(0).partition_fragment_A(Layout((64, 32, 3)))
    return {
        "in another order": ((b, a, c), "B, A, C"),
        "with stages": ((staged, b, c), "has 4 modes"),
        "of another K": ((shorter, b, c), "A has 1 atoms along K, B 2"),
        "of another N": ((a, b, narrower), "B has 4 atoms along N, C 2"),
    }


@pytest.mark.parametrize("name", wrong_fragments())
def test_fragments_that_do_not_belong_together(name: str) -> None:
    given, message = wrong_fragments()[name]
    with pytest.raises(DiagnosticError, match=rf"tiled-mma\.gemm.*{message}"):
        gemm(make_tiled_mma(WARP), *given)


def test_partial_sums_of_atoms_along_k() -> None:
    """Four warps: two below each other, and two for the halves of K, whose sums go to the first of them."""
    mma = make_tiled_mma(WARP, Layout((2, 1, 2), (2, 0, 1)))
    plan = reduction(mma)
    assert plan.parts == 2
    assert plan.owners == (*range(32), *range(64, 96))
    assert plan.addends(5) == (37,)
    assert plan.addends(70) == (102,)
    assert plan.addends(37) == ()
    assert plan.rounds() == (tuple((owner + 32, owner) for owner in plan.owners),)
    alone = reduction(make_tiled_mma(WARP, (2, 2, 1)))
    assert (alone.parts, alone.rounds(), alone.addends(3)) == (1, (), ())


@pytest.mark.parametrize("parts", [2, 3, 4, 5])
def test_rounds_add_every_part_once(parts: int) -> None:
    mma = make_tiled_mma(WARP, (1, 2, parts))
    plan = reduction(mma)
    held = {thread: {k} for thread, (_, _, _, k) in participants(mma)}
    for pairs in plan.rounds():
        taken = [held[source] for source, _ in pairs]
        assert len({target for _, target in pairs}) == len({source for source, _ in pairs}) == len(pairs)
        for (_, target), others in zip(pairs, taken, strict=True):
            assert not held[target] & others
            held[target] |= others
    assert all(held[owner] == set(range(parts)) for owner in plan.owners)
    assert len(plan.rounds()) == (parts - 1).bit_length()


HELD = 12345
"""What the registers of accumulators hold before a product."""


@pytest.mark.parametrize("scale_d", [{}, {"scale_d": 1}, {"scale_d": 0}], ids=str)
@pytest.mark.parametrize("parts", [1, 2, 3, 6])
def test_accumulators_that_take_turns(parts: int, scale_d: dict[str, int]) -> None:
    """The sums of all accumulators are the product, and what the first of them held, unless it is to be overwritten."""
    mma = make_tiled_mma(WARP)
    a, b, *_ = fragments(mma, 32, 16, 96)
    c = mma.get_slice(0).partition_fragment_C(Layout((32, 16, parts)))
    found = split_k(mma, a, b, c, **scale_d)
    assert len(found.issues) == 2 * 2 * 6
    rng = np.random.default_rng(parts)
    left, right = rng.integers(-9, 9, (2, 6)), rng.integers(-9, 9, (2, 6))  # one number stands for an atom's operand
    registers = np.full(cosize(c.layout), HELD)
    last: dict[int, int] = {}
    for number, one in enumerate(found.issues):
        places = one.c.offsets()
        product = left[one.m, one.k] * right[one.n, one.k]
        registers[places] = product + (registers[places] if one.scale_d else 0)
        assert places[0] not in last or number - last[places[0]] == 4 * parts
        last[places[0]] = number
    for source, target in found.additions:
        registers[target.offsets()] += registers[source.offsets()]
    assert len(found.additions) == parts - 1
    whole = left @ right.T + HELD * scale_d.get("scale_d", 1)
    for m in range(2):
        for n in range(2):
            assert set(registers[c(None, m, n, 0).offsets()]) == {whole[m, n]}


@pytest.mark.parametrize("scale_d", [{}, {"scale_d": 1}, {"scale_d": 0}], ids=str)
def test_a_product_is_added_unless_it_is_said_otherwise(scale_d: dict[str, int]) -> None:
    mma = make_tiled_mma(WARP)
    issues = gemm(mma, *fragments(mma, 32, 16, 48), **scale_d)
    assert [one.scale_d for one in issues] == [scale_d.get("scale_d", 1)] * 4 + [1] * 8


def test_steps_that_can_not_be_dealt_out() -> None:
    mma = make_tiled_mma(WARP)
    a, b, *_ = fragments(mma, 32, 16, 96)
    with pytest.raises(DiagnosticError, match=r"tiled-mma\.gemm.*6 steps along K cannot be dealt out to 4"):
        split_k(mma, a, b, mma.get_slice(0).partition_fragment_C(Layout((32, 16, 4))))
