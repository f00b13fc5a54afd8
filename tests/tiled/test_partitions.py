"""Partitions against formulas counted out, element by element, and whole products against NumPy."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from nvbackend import DiagnosticError
from nvbackend.atoms import Residency
from nvbackend.intrinsics.row.types import f16
from nvbackend.layout import Dynamic, Layout, size
from nvbackend.tiled import MmaOperand, TiledMMA, make_tiled_copy_A, make_tiled_mma, reduction, universal_copy
from nvbackend.tiled.fragment import Partition
from nvbackend.tiled.operand import Beside
from tests.tiled.simulation import atom_places, element, participants, product

ATOMS = (
    "SM70_8x8x4_F32F16F16F32_NT",
    "SM70_8x8x4_F16F16F16F16_TN",
    "SM75_16x8x8_F32F16F16F32_TN",
    "SM75_8x8x16_S32S8S8S32_TN",
    "SM80_16x8x16_F32F16F16F32_TN",
    "SM80_16x8x4_F32TF32TF32F32_TN",
    "SM80_8x8x4_F64F64F64F64_TN",
    "SM80_SPARSE_16x8x32_F32F16F16F32_TN",
    "SM89_16x8x32_F32E4M3E4M3F32_TN",
    "SM90_64x8x16_F32F16F16_SS<Major::MN, Major::K>",
    "SM90_64x16x8_F32TF32TF32_RS_TN",
    "SM90::GMMA::SPARSE::GMMA_64x8x32_F32F16F16_SS<Major::K, Major::K>",
    "SM100_MMA_F16BF16_SS<half_t, half_t, float, 64, 8, Major::K, Major::K>",
    "SM100_MMA_F16BF16_2x1SM_SS<half_t, half_t, float, 128, 32, Major::K, Major::K>",
    "SM120_16x8x32_TN<float_e4m3_t, float_e2m1_t, float>",
)
QUICK = settings(max_examples=12, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
"""Without shrinking: the representation of an MMA says what fails."""


@pytest.mark.parametrize(
    ("shape", "nearest"),
    [((64,), "32 x 16"), ((33, 64), "64 x 64"), ((32, 15), "32 x 16"), ((65, 17), "96 x 32")],
)
def test_a_tile_that_is_not_filled(shape: tuple[int, ...], nearest: str) -> None:
    """Of 16 x 8 by two and two warps: the next multiples of 32 and 16."""
    one = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1)).get_slice(0)
    with pytest.raises(DiagnosticError) as caught:
        one.partition_C(Layout(shape))
    (found,) = caught.value.diagnostics
    assert found.rule_id == "tiled-mma.tile"
    assert found.fix.startswith(f"use a tile of {nearest}, or")
    assert "which takes 32 x 16 at a time" in found.message


@pytest.mark.parametrize(
    ("atoms", "shape", "fix"),
    [
        ((2, 1, 1), (64, 64), "use a tile of 128 x 64 for all warpgroups, with acc.elements(warpgroup) in each, or"),
        ((1, 1, 1), (32, 64), "use a tile of 64 x 64, or"),
    ],
)
def test_a_tile_of_one_of_several_warpgroups(atoms: tuple[int, int, int], shape: tuple[int, int], fix: str) -> None:
    mma = make_tiled_mma("SM90_64x64x16_F32F16F16_SS<Major::K, Major::K>", atoms)
    with pytest.raises(DiagnosticError) as caught:
        mma.get_slice(0).partition_C(Layout(shape))
    assert caught.value.diagnostics[0].fix.startswith(fix)
    with pytest.raises(DiagnosticError) as caught:
        mma.get_slice(0).partition_A(Layout((shape[0], 24)))
    assert "elements(warpgroup)" not in caught.value.diagnostics[0].fix


DENSE = [name for name in ATOMS if "SPARSE" not in name]


@st.composite
def atom_layouts(draw: st.DrawFn) -> Layout:
    """Up to three atoms along each dimension, numbered in any order of the dimensions."""
    shape = draw(st.sampled_from([(1, 1, 1), (2, 1, 1), (1, 2, 1), (2, 2, 1), (3, 1, 1), (1, 1, 2), (2, 1, 2)]))
    strides, step = [0, 0, 0], 1
    for place in draw(st.permutations(range(3))):
        if shape[place] > 1:
            strides[place], step = step, step * shape[place]
    return Layout(shape, tuple(strides))


@st.composite
def tiled_mmas(draw: st.DrawFn, names: Any = ATOMS) -> TiledMMA:
    atom = make_tiled_mma(draw(st.sampled_from(names))).atom
    atoms = draw(atom_layouts())
    entries = []
    for place in range(3):
        step = atom.shape[place] * atoms.shape[place]
        orders = (
            None,
            step,
            2 * step,
            Layout((step // 2, 2), (2, 1)),  # every other one first
            Layout((4, 2, step // 4), (1, step, 4)),  # four of the first half, then four of the second
        )
        whole_only = (place == 2 and atom.sparsity is not None) or atoms.shape[place] == 3
        entries.append(draw(st.sampled_from(orders[: 3 if whole_only else 5])))
    return make_tiled_mma(atom, atoms, entries)


def tile_of(mma: TiledMMA, operand: MmaOperand, more: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of a tile that is cut several times."""
    sizes = mma.tile_size_mnk
    rows, columns = ({MmaOperand.A: (0, 2), MmaOperand.B: (1, 2), MmaOperand.C: (0, 1)})[operand]
    halved = mma.atom.sparsity is not None and operand is MmaOperand.A
    return sizes[rows] * more[0], sizes[columns] * more[1] // (2 if halved else 1)


@QUICK
@given(tiled_mmas(), st.sampled_from(MmaOperand), st.tuples(st.integers(1, 2), st.integers(1, 3)))
def test_every_value_is_where_the_formulas_say(mma: TiledMMA, operand: MmaOperand, more: tuple[int, int]) -> None:
    rows, columns = tile_of(mma, operand, more)
    places = atom_places(mma.atom, operand)
    own = {MmaOperand.A: (0, 2), MmaOperand.B: (1, 2), MmaOperand.C: (0, 1)}[operand]
    everybody = participants(mma)
    assert sorted(thread for thread, _ in everybody) == sorted(mma.thr_layout_vmnk.offsets())
    assert len(everybody) == mma.size
    for thread, (v, *atoms) in everybody[:: max(1, len(everybody) // 24)]:
        part = getattr(mma.get_slice(thread), f"partition_{operand.value}")(Layout((rows, columns)))
        rests = [range(size(extent)) for extent in part.plain.shape[1:]]
        assert part.plain.shape == getattr(mma, f"partition_shape_{operand.value}")((rows, columns))
        for rest in itertools.product(*rests):
            found = [(index % rows, index // rows) for index in part(None, *rest).offsets()]
            beside = [atoms[place] for place in own]
            assert found == [element(mma, operand, local, beside, rest, (rows, columns)) for local in places[v]]


@QUICK
@given(tiled_mmas(), st.tuples(st.integers(1, 2), st.integers(1, 2)))
def test_all_threads_together_have_every_element(mma: TiledMMA, more: tuple[int, int]) -> None:
    """C once for each part of K; A and B as often as there are atoms along the other dimension, or whole in memory."""
    along_m, along_n, along_k = (int(extent) for extent in mma.atom_layout_mnk.shape)
    threads = [thread for thread, _ in participants(mma)]
    whole = mma.atom.threads if mma.atom.tier == 90 and mma.atom.threads == 128 else 1
    for operand, residency, times in (
        (MmaOperand.A, mma.atom.a_residency, along_n),
        (MmaOperand.B, mma.atom.b_residency, along_m),
        (MmaOperand.C, mma.atom.d_residency, along_k),
    ):
        rows, columns = tile_of(mma, operand, more)
        counted: Counter[int] = Counter()
        everywhere = whole > 1 and residency is Residency.SHARED_DESCRIPTOR
        for thread in threads[:: whole // 4] if everywhere else threads:  # one thread of each warp stands for it
            counted.update(
                getattr(mma.get_slice(thread), f"partition_{operand.value}")(Layout((rows, columns))).offsets()
            )
        each = times * (4 if everywhere else 1)
        assert counted == dict.fromkeys(range(rows * columns), each)


@QUICK
@given(tiled_mmas())
def test_layouts_of_threads_and_values_are_the_partitions(mma: TiledMMA) -> None:
    if mma.atom.threads == 8 and mma.atom_layout_mnk.shape == (3, 1, 1):
        with pytest.raises(DiagnosticError, match=r"tiled-mma\.atom-layout"):  # three pairs of quads of a warp's four
            mma.get_layoutA_TV()
        return
    for operand in MmaOperand:
        rows, columns = tile_of(mma, operand, (1, 1))
        layout = getattr(mma, f"get_layout{operand.value}_TV")()
        for thread, _ in participants(mma)[:: max(1, mma.size // 16)]:
            part = getattr(mma.get_slice(thread), f"partition_{operand.value}")(Layout((rows, columns)))
            assert [layout(thread, value) for value in range(len(part.offsets()))] == part.offsets()


@QUICK
@given(tiled_mmas(DENSE), st.randoms(use_true_random=False))
def test_instructions_and_reduction_give_the_product(mma: TiledMMA, random: Any) -> None:
    m, n, k = mma.tile_size_mnk
    rng = np.random.default_rng(random.randrange(1 << 32))
    a, b = (rng.integers(-8, 8, shape).astype(float) for shape in ((m, 2 * k), (n, 2 * k)))
    sums = product(mma, a, b)
    plan = reduction(mma)
    assert plan.parts == mma.atom_layout_mnk.shape[2]
    for pairs in plan.rounds():
        for source, target in pairs:
            sums[target] = sums[target] + sums[source]
    c = np.full(m * n, np.nan)
    for owner in plan.owners:
        one = mma.get_slice(owner)
        part = one.partition_C(Layout((m, n)))
        c[part.offsets()] = sums[owner][one.make_fragment_C(part).offsets()]
    assert np.array_equal(c.reshape((m, n), order="F"), a @ b.T)
    assert sorted({*plan.owners, *(each for owner in plan.owners for each in plan.addends(owner))}) == sorted(sums)


def test_a_large_tile() -> None:
    mma = make_tiled_mma("SM90_64x256x16_F32F16F16_SS<Major::K, Major::K>", (2, 1, 1))
    part = mma.get_slice(200).partition_C(Layout((256, 256)))
    assert str(part.plain) == "((_2,_2,_32),_2,_1):((_256,_8,_2048),_128,_0)"
    assert part.offset == 64 + 16 * 2 + 8 // 4 + 0 * 256


@pytest.mark.parametrize("name", ["SM90_64x8x16_F32F16F16_SS<Major::K, Major::K>", "SM80_16x8x16_F32F16F16F32_TN"])
def test_strides_that_only_a_value_knows(name: str) -> None:
    """A stage, a batch and whatever follows stays as it is."""
    one = make_tiled_mma(name).get_slice(3)
    part = one.partition_C(Layout((64, 8, 5, 2), (8, 1, 512, 4096)))
    assert part.plain.shape[-2:] == (5, 2)
    assert part.plain.stride[-2:] == (512, 4096)


@pytest.mark.parametrize("threads", [Layout(8, 3), Layout((4, 8), (8, 64)), Layout((2, 4), (12, 6))], ids=str)
@pytest.mark.parametrize("elements", [1, 2, 4, 8])
def test_an_offset_in_larger_units_is_the_whole_number_of_them(threads: Layout, elements: int) -> None:
    """Nothing is in no units, however the threads lie; all other threads need a layout of whole ones."""
    whole = all(threads(thread) % elements == 0 for thread in range(size(threads)))
    for thread in range(size(threads)):
        part = Partition(Layout(4, 64), threads(thread), (threads, thread))
        assert part == Partition(Layout(4, 64), threads(thread)), "where it comes from is no part of it"
        if whole or threads(thread) == 0:
            assert part.offset_in(elements, 16) == threads(thread) // elements
        elif threads(thread) % elements:
            with pytest.raises(DiagnosticError, match=r"layout-algebra\.recast"):
                part.offset_in(elements, 16)
    assert Partition(Layout(4, 64), 1).offset_in(1, 16) == 1


@pytest.mark.parametrize(
    "mma",
    [
        make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN"),
        make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1)),
        make_tiled_mma(
            "SM80_16x8x16_F32F16F16F32_TN", Layout((2, 2, 1), (2, 1, 4)), (None, Layout((2, 8), (8, 1)), 32)
        ),
        make_tiled_mma("SM90_64x64x16_F16F16F16_SS<Major::K, Major::K>", (2, 1, 1)),
    ],
)
def test_its_representation_makes_the_same(mma: TiledMMA) -> None:
    assert eval(repr(mma)) == mma


@pytest.mark.parametrize("beside", list(Beside))
def test_what_an_instruction_does_not_take(beside: Beside) -> None:
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN")
    with pytest.raises(DiagnosticError, match=rf"tiled-mma\.operand.*'{beside.value} of SM80_16x8x16"):
        mma.get_slice(0).partition_beside(beside, Layout((16, 16)))


@pytest.mark.parametrize(
    ("permutation", "shown"),
    [
        (None, ""),
        ((32,), " permuted by (_32,_,_)"),
        ((32, 16), " permuted by (_32,_16,_)"),
    ],
)
def test_a_permutation_is_shown_where_there_is_one(permutation: Any, shown: str) -> None:
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 1, 1), permutation)
    assert str(mma) == f"SM80_16x8x16_F32F16F16F32_TN x (_2,_1,_1):(_1,_0,_0){shown}"
    assert str(make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (1, 1, 1))) == "SM80_16x8x16_F32F16F16F32_TN"


@pytest.mark.parametrize("warps", [1, 2], ids=["known first", "known last"])
def test_layouts_that_are_equal_and_print_differently_are_cut_apart(warps: int) -> None:
    """What is known at run time only is equal to the number that it is near, and prints as what it is."""
    known, unknown = Layout((64, 48), (48, 1)), Layout((64, 48), (Dynamic(48), 1))
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (warps, 1, 1))  # one of its own for each order
    copy = make_tiled_copy_A(universal_copy(f16, 16), mma)
    for cut in (mma.get_slice(0).partition_A, copy.get_slice(0).partition_S):
        order = (known, unknown) if warps == 1 else (unknown, known)
        texts = {layout is known: str(cut(layout).plain) for layout in (*order, *order)}
        assert texts[True].replace("_", "") == texts[False].replace("_", "")
        assert texts[True].count("_") > texts[False].count("_")
