"""Thread-value layouts: CuTe's own, transcribed from its headers, and the formulas of the PTX ISA."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from nvbackend.atoms import MmaAtom, Residency, atom, known_atoms
from nvbackend.intrinsics.maps.rows import fragment_maps
from nvbackend.layout import Layout
from tests.support import mma_formulas

pytestmark = pytest.mark.sampled(3)

C_16X8 = "((_4,_8),(_2,_2)):((_32,_1),(_16,_8))"
C_8X8 = "((_4,_8),_2):((_16,_1),_8)"
PUBLISHED = {
    # CUTLASS include/cute/atom/mma_traits_sm70.hpp, sm75, sm80, sm89, sm90, sm90_gmma, sm120: ALayout, BLayout, CLayout
    "SM70_8x8x4_F16F16F16F16_TN": ("(_8,_4):(_1,_8)", "(_8,_4):(_1,_8)", "(_8,_8):(_1,_8)"),
    "SM70_8x8x4_F32F16F16F32_NT": (
        "((_4,_2),_4):((_8,_4),_1)",
        "((_4,_2),_4):((_8,_4),_1)",
        "((_2,_2,_2),(_2,_2,_2)):((_1,_16,_4),(_8,_2,_32))",
    ),
    "SM75_16x8x8_F32F16F16F32_TN": (C_16X8, "((_4,_8),_2):((_16,_1),_8)", C_16X8),
    "SM75_8x8x16_S32S8S8S32_TN": ("((_4,_8),_4):((_32,_1),_8)", "((_4,_8),_4):((_32,_1),_8)", C_8X8),
    "SM80_16x8x16_F32F16F16F32_TN": (
        "((_4,_8),(_2,_2,_2)):((_32,_1),(_16,_8,_128))",
        "((_4,_8),(_2,_2)):((_16,_1),(_8,_64))",
        C_16X8,
    ),
    "SM80_16x8x4_F32TF32TF32F32_TN": ("((_4,_8),_2):((_16,_1),_8)", "((_4,_8),_1):((_8,_1),_0)", C_16X8),
    "SM80_16x8x8_F32TF32TF32F32_TN": (
        "((_4,_8),(_2,_2)):((_16,_1),(_8,_64))",
        "((_4,_8),_2):((_8,_1),_32)",
        C_16X8,
    ),
    "SM80_8x8x4_F64F64F64F64_TN": ("((_4,_8),_1):((_8,_1),_0)", "((_4,_8),_1):((_8,_1),_0)", C_8X8),
    "SM80_16x8x32_S32S8S8S32_TN": (
        "((_4,_8),(_4,_2,_2)):((_64,_1),(_16,_8,_256))",
        "((_4,_8),(_4,_2)):((_32,_1),(_8,_128))",
        C_16X8,
    ),
    "SM80_16x8x64_S32S4S4S32_TN": (
        "((_4,_8),(_8,_2,_2)):((_128,_1),(_16,_8,_512))",
        "((_4,_8),(_8,_2)):((_64,_1),(_8,_256))",
        C_16X8,
    ),
    "SM80_16x8x256_S32U1U1S32_TN_XORPOPC": (
        "((_4,_8),(_32,_2,_2)):((_512,_1),(_16,_8,_2048))",
        "((_4,_8),(_32,_2)):((_256,_1),(_8,_1024))",
        C_16X8,
    ),
    "SM80_8x8x128_S32U1U1S32_TN_XORPOPC": ("((_4,_8),_32):((_256,_1),_8)", "((_4,_8),_32):((_256,_1),_8)", C_8X8),
    "SM89_16x8x32_F32E4M3E4M3F32_TN": (
        "((_4,_8),(_4,_2,_2)):((_64,_1),(_16,_8,_256))",
        "((_4,_8),(_4,_2)):((_32,_1),(_8,_128))",
        C_16X8,
    ),
    "SM90_16x8x16_F64F64F64F64_TN": (
        "((_4,_8),(_2,_4)):((_16,_1),(_8,_64))",
        "((_4,_8),_4):((_8,_1),_32)",
        C_16X8,
    ),
    "SM90_64x64x16_F16F16F16_SS<Major::MN, Major::MN>": (
        "(_128,(_64,_16)):(_0,(_1,_64))",
        "(_128,(_64,_16)):(_0,(_1,_64))",
        "((_4,_8,_4),(_2,_2,_8)):((_128,_1,_16),(_64,_8,_512))",
    ),
    "SM90_64x8x16_F32F16F16_RS<Major::K, Major::K>": (
        "((_4,_8,_4),(_2,_2,_2)):((_128,_1,_16),(_64,_8,_512))",
        "(_128,(_8,_16)):(_0,(_1,_8))",
        "((_4,_8,_4),(_2,_2,_1)):((_128,_1,_16),(_64,_8,_512))",
    ),
    "SM90_64x32x32_S32S8S8_RS_TN": (
        "((_4,_8,_4),(_4,_2,_2)):((_256,_1,_16),(_64,_8,_1024))",
        "(_128,(_32,_32)):(_0,(_1,_32))",
        "((_4,_8,_4),(_2,_2,_4)):((_128,_1,_16),(_64,_8,_512))",
    ),
    "SM90_64x16x8_F32TF32TF32_RS_TN": (
        "((_4,_8,_4),(_2,_2)):((_64,_1,_16),(_8,_256))",
        "(_128,(_16,_8)):(_0,(_1,_16))",
        "((_4,_8,_4),(_2,_2,_2)):((_128,_1,_16),(_64,_8,_512))",
    ),
    "SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 64, UMMA::Major::K, UMMA::Major::MN>": (
        "(_1,(_128,_16)):(_0,(_1,_128))",
        "(_1,(_64,_16)):(_0,(_1,_64))",
        "(_1,(_128,_64)):(_0,(_1,_128))",
    ),
    "SM100_MMA_F16BF16_2x1SM_SS<half_t, half_t, float, 256, 128, UMMA::Major::K, UMMA::Major::K>": (
        "(_2,(_128,_16)):(_128,(_1,_256))",
        "(_2,(_64,_16)):(_64,(_1,_128))",
        "(_2,(_128,_128)):(_128,(_1,_256))",
    ),
    "SM120_16x8x32_TN<float_e4m3_t, float_e2m1_t, float>": (
        "((_4,_8),(_4,_2,_2)):((_64,_1),(_16,_8,_256))",
        "((_4,_8),(_4,_2)):((_32,_1),(_8,_128))",
        C_16X8,
    ),
    "SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue8m0_t, 32>": (
        "((_4,_8),(_8,_2,_2)):((_128,_1),(_16,_8,_512))",
        "((_4,_8),(_8,_2)):((_64,_1),(_8,_256))",
        C_16X8,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_layouts_are_cutes(name: str) -> None:
    found = atom(name)
    assert tuple(map(str, (found.layout_a, found.layout_b, found.layout_c))) == PUBLISHED[name]


def test_the_threads_of_one_pair_of_matrices() -> None:
    found = atom("SM70_8x8x4_F16F16F16F16_TN")
    assert str(found.thr_id) == "(_4,_2):(_1,_16)"
    assert (found.threads, found.thr_id.offsets()) == (8, [0, 1, 2, 3, 16, 17, 18, 19])
    assert str(atom("SM90_64x8x16_F32F16F16_RS<Major::K, Major::K>").thr_id) == "_128:_1"


def held(layout: Layout, threads: int, rows: int) -> list[list[tuple[int, int]]]:
    """(row, column) of every value of every thread."""
    places = [(index % rows, index // rows) for index in layout.offsets()]  # the thread runs fastest
    return [places[thread::threads] for thread in range(threads)]


def form(one: MmaAtom) -> tuple[object, ...]:
    """What the fragments of an atom can depend on."""
    widths = one.bits, one.c.bits, one.d.bits
    return one.shape, widths, one.sparsity is None, one.a_residency, one.threads, one.a_major, one.b_major


FORMS = {form(one): one for one in reversed(known_atoms())}
"""One atom for each form of fragments."""
ATOMS = list(FORMS.values())
OF_A_WARP = [one for one in ATOMS if one.threads == 32]
OF_A_WARPGROUP = [one for one in ATOMS if one.threads == 128]
OF_A_QUAD_PAIR = [one for one in ATOMS if one.threads == 8]


def test_there_are_atoms_of_all_sizes() -> None:
    assert [len(each) > 5 for each in (OF_A_WARP, OF_A_WARPGROUP, OF_A_QUAD_PAIR)] == [True] * 3
    assert sum(map(len, (OF_A_WARP, OF_A_WARPGROUP, OF_A_QUAD_PAIR))) == len(ATOMS)


def test_every_atom_has_the_fragments_of_its_form() -> None:
    """So that what is tested of a form is tested of each of the atoms, more than 3000."""
    for one in known_atoms():
        like = FORMS[form(one)]
        for name in ("layout_a", "layout_b", "layout_c", "layout_d", "thr_id"):
            assert getattr(one, name) == getattr(like, name), (one, name)


@pytest.mark.parametrize("one", OF_A_WARP, ids=str)
def test_fragments_of_a_warp_are_those_of_the_isa(one: MmaAtom) -> None:
    m, n, _ = one.shape
    a_count, a_formula = mma_formulas.A[(m, n, one.stored_k), one.bits]
    b_count, b_formula = mma_formulas.B[one.shape, one.bits]
    groups = [divmod(lane, 4) for lane in mma_formulas.LANES]
    assert held(one.layout_a, 32, m) == [[a_formula(g, t, i) for i in range(a_count)] for g, t in groups]
    transposed = [[(column, row) for row, column in each] for each in held(one.layout_b, 32, n)]
    assert transposed == [[b_formula(g, t, i) for i in range(b_count)] for g, t in groups]
    for layout in (one.layout_c, one.layout_d):
        assert held(layout, 32, m) == [[mma_formulas.d_formula(g, t, i) for i in range(m * n // 32)] for g, t in groups]


@pytest.mark.parametrize("one", OF_A_QUAD_PAIR, ids=str)
def test_fragments_of_a_quad_pair_are_those_of_the_isa(one: MmaAtom) -> None:
    letters = {"K": ("row", "col"), "MN": ("col", "row")}
    lanes = one.thr_id.offsets()
    for kind, layout, swapped in (
        (f"A {letters[one.a_major.value][0]}", one.layout_a, False),
        (f"B {letters[one.b_major.value][1]}", one.layout_b, True),
        (f"D {one.c}", one.layout_c, False),
        (f"D {one.d}", one.layout_d, False),
    ):
        count, formula = mma_formulas.FOUR_MATRICES[kind]
        found = [[place[::-1] if swapped else place for place in each] for each in held(layout, 8, 8)]
        assert found == [[formula(lane, i) for i in range(count)] for lane in lanes]


WARPGROUP_A: dict[int, tuple[int, Callable[[int, int], tuple[int, int]]]] = {
    # bits: elements a thread, row and column from lane and i; PTX ISA 9.7.15.5.1.1, figure by figure
    16: (8, lambda lane, i: (lane // 4 + (8 if i in (2, 3, 6, 7) else 0), lane % 4 * 2 + i % 2 + (8 if i > 3 else 0))),
    8: (16, lambda lane, i: (lane // 4 + 8 * (i // 4 % 2), lane % 4 * 4 + i % 4 + (16 if i > 7 else 0))),
    32: (4, lambda lane, i: (lane // 4 + (8 if i in (1, 3) else 0), lane % 4 + (4 if i > 1 else 0))),
    1: (128, lambda lane, i: (lane // 4 + 8 * (i // 32 % 2), lane % 4 * 32 + i % 32 + (128 if i > 63 else 0))),
}


def indices(layout: Layout, rows: int) -> list[list[int]]:
    """The index of every value of every thread, by thread."""
    offsets = layout.offsets()
    threads = len(layout[0].offsets())
    assert max(offsets) < rows * len(layout[1].offsets()) * threads
    return [offsets[thread::threads] for thread in range(threads)]


@pytest.mark.parametrize("n", sorted({one.shape[1] for one in OF_A_WARPGROUP}))
def test_fragments_of_a_warpgroup_are_those_of_the_isa(n: int) -> None:
    """Accumulators of every N; A in registers; what is read by a descriptor is the same for all threads."""
    accumulators = [
        [
            16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2) + 64 * (8 * (i // 4) + 2 * (thread % 4) + i % 2)
            for i in range(n // 2)
        ]
        for thread in range(128)
    ]
    for one in (one for one in OF_A_WARPGROUP if one.shape[1] == n):
        assert indices(one.layout_c, 64) == indices(one.layout_d, 64) == accumulators
        assert (one.layout_b[0].offsets(), one.layout_b[1].offsets()) == (
            [0] * 128,
            list(range(n * one.shape[2])),
        )
        if one.a_residency is not Residency.REGISTERS:
            assert one.layout_a[0].offsets() == [0] * 128
            assert one.layout_a[1].offsets() == list(range(64 * one.stored_k))
            continue
        count, formula = WARPGROUP_A[one.bits]
        for thread, found in enumerate(held(one.layout_a, 128, 64)):
            wanted = [formula(thread % 32, i) for i in range(count)]
            assert found == [(16 * (thread // 32) + row, column) for row, column in wanted]


@pytest.mark.parametrize("one", [*OF_A_WARP[::5], *OF_A_WARPGROUP[::40]], ids=str)
def test_the_fragment_maps_of_the_row_say_the_same(one: MmaAtom) -> None:
    maps = {found.operand: found for found in fragment_maps(one.row)}
    expected = {"d": (one.layout_d, one.shape[0])}
    if one.a_residency is Residency.REGISTERS:
        expected["a"] = one.layout_a, one.shape[0]
    for operand, (layout, rows) in expected.items():
        found = maps[operand]
        places = itertools.product(range(found.threads), range(found.elements))
        flat = [place for of_thread in held(layout, found.threads, rows) for place in of_thread]
        assert flat == [found.position(thread, index) for thread, index in places]
