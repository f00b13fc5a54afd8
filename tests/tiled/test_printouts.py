"""The printouts of the CUTLASS WGMMA notes, letter by letter, from the calls that the notes make."""

from __future__ import annotations

import pytest

from nvbackend import Major, SwizzleMode, f16
from nvbackend.layout import ComposedLayout, Dynamic, Layout, _, cosize, gmma_atom, size, tile_to_shape
from nvbackend.tiled import TiledMMA, gemm, ldmatrix_copy, make_tiled_copy, make_tiled_mma

NT = "SM90_64x64x16_F16F16F16_SS<GMMA::Major::MN, GMMA::Major::MN>"
TN = "SM90_64x64x16_F16F16F16_SS<GMMA::Major::K, GMMA::Major::K>"
TILE = (128, 64, 3)
"""bM or bN, bK, stages."""
C = Layout((128, 128), (1, Dynamic(512)))


def smem(major: Major) -> ComposedLayout:
    return tile_to_shape(gmma_atom(major, SwizzleMode.B128, f16), TILE)


@pytest.fixture(name="nt")
def _nt() -> TiledMMA:
    return make_tiled_mma(NT)


def test_one_warpgroup(nt: TiledMMA) -> None:
    assert nt.size == 128
    assert nt.tile_size_mnk == (64, 64, 16)
    assert str(nt.thr_layout_vmnk) == "(_128,_1,_1,_1):(_1,_0,_0,_0)"


@pytest.mark.parametrize("thread", [0, 1, 77, 127])
def test_tcsa_and_tcra_mn_major(nt: TiledMMA, thread: int) -> None:
    """All threads see the same."""
    one = nt.get_slice(thread)
    for partition, fragment in (
        (one.partition_A, one.make_fragment_A),
        (one.partition_B, one.make_fragment_B),
    ):
        t_csa = partition(smem(Major.MN))
        assert str(t_csa.plain) == "((_64,(_8,_2)),_2,_4,_3):((_1,(_64,_1024)),_512,_2048,_8192)"
        assert str(t_csa) == f"Sw<3,4,3> o smem_ptr o {t_csa.plain}"
        assert t_csa.offset == 0
        t_cra = fragment(t_csa)
        assert str(t_cra.layout) == "(_1,_2,_4,_3):(_0,_64,_256,_1024)"
        assert t_cra.offset == 0


def test_tcsa_and_tcra_k_major() -> None:
    one = make_tiled_mma(TN).get_slice(5)
    t_csa = one.partition_A(smem(Major.K))
    assert str(t_csa.plain) == "((_64,_16),_2,_4,_3):((_64,_1),_4096,_16,_8192)"
    assert str(one.make_fragment_A(t_csa).layout) == "(_1,_2,_4,_3):(_0,_512,_2,_1024)"


def test_tcgc_and_tcrc(nt: TiledMMA) -> None:
    one = nt.get_slice(0)
    t_cgc = one.partition_C(C)
    assert str(t_cgc) == "((_2,_2,_8),_2,_2):((512,_8,4096),_64,32768)"
    t_crc = one.make_fragment_C(t_cgc)
    assert str(t_crc.layout) == "((_2,_2,_8),_2,_2):((_1,_2,_4),_32,_64)"
    assert (size(t_crc), cosize(t_crc.layout)) == (128, 128)


def test_the_picture_of_a_copy_is_that_of_what_it_writes() -> None:
    """ldmatrix reads a row a thread, and gives each thread two elements of every matrix."""
    copy = make_tiled_copy(ldmatrix_copy(f16, 1), Layout((8, 4), (4, 1)), Layout((1, 2)))
    written, read = copy.picture(), copy.picture(source=True)
    assert "destination of" in written.svg
    assert "source of" in read.svg
    assert copy.picture(source=False).svg == written.svg != read.svg
    assert "destination of" in copy.picture(group=32).svg


def test_what_thread_0_owns(nt: TiledMMA) -> None:
    """(0,0) (0,1) (0,8) (0,9) ... (0,57), (8,0) ... (8,57)."""
    owned = nt.get_slice(0).partition_C(Layout((64, 64)))
    places = [divmod(owned(value, 0, 0), 64)[::-1] for value in range(32)]
    assert places[:8] == [(0, 0), (0, 1), (8, 0), (8, 1), (0, 8), (0, 9), (8, 8), (8, 9)]
    assert set(places) == {(row, 8 * group + column) for row in (0, 8) for group in range(8) for column in (0, 1)}


def test_the_grid_of_warp_0(nt: TiledMMA) -> None:
    """T0 T0 T1 T1 T2 T2 T3 T3 in the first row, T28 ... T31 in the eighth, and again below."""
    owners: dict[tuple[int, int], int] = {}
    for thread in range(32):
        for index in nt.get_slice(thread).partition_C(Layout((64, 64))).offsets():
            owners[index % 64, index // 64] = thread
    grid = [[owners[row, column] for column in range(8)] for row in range(16)]
    assert grid[0] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert grid[1] == [4, 4, 5, 5, 6, 6, 7, 7]
    assert grid[7] == [28, 28, 29, 29, 30, 30, 31, 31]
    assert grid[8:] == grid[:8]
    assert {row for row, _ in owners} == set(range(16))
    assert [owners[3, 8 * group] for group in range(8)] == [12] * 8  # the pattern comes eight times


def test_sixteen_issues_a_stage(nt: TiledMMA) -> None:
    one = nt.get_slice(0)
    a, b = one.partition_fragment_A(smem(Major.MN)), one.partition_fragment_B(smem(Major.MN))
    issues = gemm(nt, a(_, _, _, 1), b(_, _, _, 1), one.partition_fragment_C(C))
    assert len(issues) == 2 * 2 * 4 == 16
    assert {(issue.m, issue.n, issue.k) for issue in issues} == {
        (m, n, k) for m in range(2) for n in range(2) for k in range(4)
    }
    for issue in issues:  # current_descriptor = base_descriptor + 64*m + 256*k + 1024*p
        assert issue.a.offsets() == [64 * issue.m + 256 * issue.k + 1024]
        assert issue.b.offsets() == [64 * issue.n + 256 * issue.k + 1024]
        assert issue.c.offsets() == list(range(32 * issue.m + 64 * issue.n, 32 * issue.m + 64 * issue.n + 32))


def test_two_warpgroups_below_each_other(nt: TiledMMA) -> None:
    """Threads 0-127 have the upper 64 rows, 128-255 the lower."""
    both = make_tiled_mma(nt.atom, (2, 1, 1))
    assert both.size == 256
    assert both.tile_size_mnk == (128, 64, 16)
    assert str(both.thr_layout_vmnk) == "(_128,_2,_1,_1):(_1,_128,_0,_0)"
    upper, lower = both.get_slice(17), both.get_slice(128 + 17)
    for one, row in ((upper, 0), (lower, 64)):
        t_csa = one.partition_A(smem(Major.MN))
        assert str(t_csa.plain) == "((_64,(_8,_2)),_1,_4,_3):((_1,(_64,_1024)),_0,_2048,_8192)"
        assert t_csa.offset == (512 if row else 0)
        t_cra = one.make_fragment_A(t_csa)
        assert (str(t_cra.layout), t_cra.offset) == ("(_1,_1,_4,_3):(_0,_0,_256,_1024)", row)
        assert one.partition_B(smem(Major.MN)).offset == 0
        t_cgc = one.partition_C(C)
        assert str(t_cgc) == f"((_2,_2,_8),_1,_2):((512,_8,4096),_0,32768) from {t_cgc.offset}"
        assert t_cgc.offset == row + 4 + 2 * 512  # thread 17: row 4, column 2


def test_a_in_registers() -> None:
    """RS: tCrA has values. Eight of them an instruction, in pairs along K as the accumulators are along N."""
    mma = make_tiled_mma("SM90_64x64x16_F16F16F16_RS<GMMA::Major::K, GMMA::Major::K>")
    one = mma.get_slice(0)
    t_csa = one.partition_A(smem(Major.K)(_, _, 0))
    assert str(t_csa.plain) == "((_2,_2,_2),_2,_4):((_1,_512,_8),_4096,_16)"
    t_cra = one.make_fragment_A(t_csa)
    assert str(t_cra.layout) == "((_2,_2,_2),_2,_4):((_1,_2,_4),_32,_8)"  # the steps along K are next in memory
    assert str(one.partition_fragment_B(smem(Major.K)).layout) == "(_1,_2,_4,_3):(_0,_512,_2,_1024)"
