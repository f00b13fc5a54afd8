"""Fragments: descriptors, registers, tensor memory; and threads that are known at run time only."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from nvbackend import DiagnosticError, Major, SwizzleMode, f16, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.maps.tcgen05 import accumulator_cell
from nvbackend.layout import Dynamic, Layout, _, gmma_atom, size, smem_desc, tile_to_shape
from nvbackend.signature import Parameter, Pointer, Scalar
from nvbackend.tiled import TiledMMA, make_tiled_mma
from nvbackend.tiled.fragment import make_fragment
from nvbackend.tiled.operand import MmaOperand
from nvbackend.tiled.tensor_memory import tmem_cell
from tests.support.host import run_on_host

HOPPER = "SM90_64x128x16_F32F16F16_SS<Major::{a}, Major::{b}>"
ONE_CTA = "SM100_MMA_F16BF16_SS<half_t, half_t, {d}, {m}, {n}, Major::K, Major::K>"
TWO_CTAS = "SM100_MMA_F16BF16_2x1SM_SS<half_t, half_t, {d}, {m}, {n}, Major::K, Major::K>"


@pytest.mark.parametrize("major", Major)
@pytest.mark.parametrize("swizzle", SwizzleMode)
def test_descriptors_are_those_of_the_layout(major: Major, swizzle: SwizzleMode) -> None:
    """The words by our strides are those of descriptors that are made of each instruction's own operand."""
    mma = make_tiled_mma(HOPPER.format(a=major.value, b=major.value))
    tile = tile_to_shape(gmma_atom(major, swizzle, f16), (128, 64, 2))
    one = mma.get_slice(9)
    for part, fragment in (
        (one.partition_A(tile), one.partition_fragment_A(tile)),
        (one.partition_B(tile), one.partition_fragment_B(tile)),
    ):
        made = smem_desc(major, part.layout, f16)
        found = fragment.descriptors()
        assert found.layout == made.layout
        assert (found(0, 0, 3, 1), found(0, 0, 0, 0)) == (made(0, 0, 3, 1), made(0, 0, 0, 0))
        assert fragment(_, 0, 2, 1).descriptors()(0) == made(0, 0, 2, 1)
        elsewhere = fragment.descriptors(made.base.advance(2048))
        assert elsewhere(0, 0, 1, 0) == made.base.advance(2048 + 16 * fragment(0, 0, 1, 0)).encode()


def test_the_second_warpgroup_begins_further_on() -> None:
    mma = make_tiled_mma(HOPPER.format(a="K", b="K"), (2, 1, 1))
    tile = tile_to_shape(gmma_atom(Major.K, SwizzleMode.B128, f16), (128, 64, 2))
    upper, lower = (mma.get_slice(thread).partition_fragment_A(tile).descriptors() for thread in (0, 128))
    assert lower(0, 0, 1, 1) - upper(0, 0, 1, 1) == 64 * 64 * 2 // 16


def accumulators(mma: TiledMMA, shape: tuple[int, int], cta: int = 0) -> Any:
    return mma.get_slice(cta).partition_fragment_C(Layout(shape))


@pytest.mark.parametrize(
    ("name", "m", "ctas", "shape"),
    [
        (ONE_CTA, 64, 1, (64, 16)),
        (ONE_CTA, 128, 1, (128, 32)),
        (TWO_CTAS, 128, 2, (64, 32)),
        (TWO_CTAS, 256, 2, (128, 32)),
    ],
)
def test_accumulators_are_where_tcgen05_has_them(name: str, m: int, ctas: int, shape: tuple[int, int]) -> None:
    """The cells of the PTX ISA's data path layouts, which are written down elsewhere."""
    rows, n = shape
    mma = make_tiled_mma(name.format(d="float", m=m, n=n))
    for cta in range(ctas):
        fragment = accumulators(mma, (m, n), cta)
        cells = fragment.cells()
        for place, cell in enumerate(cells):
            column, row = divmod(place, rows)
            expected = accumulator_cell(m, n, row + rows * cta, column, cta_group=ctas)
            assert (cta, cell[0], cell[1]) == expected
            assert cell[2] == 0


@pytest.mark.parametrize("m", [32, 64, 128])
def test_weight_stationary_accumulators_are_where_tcgen05_has_them(m: int) -> None:
    mma = make_tiled_mma(f"SM100_MMA_F16BF16_WS_SS<half_t, half_t, float, {m}, 64, Major::K, Major::K>")
    for place, cell in enumerate(accumulators(mma, (m, 64)).cells()):
        column, row = divmod(place, m)
        assert (0, *cell[:2]) == accumulator_cell(m, 64, row, column, weight_stationary=True)


def test_a_weight_stationary_a_of_few_rows_is_unknown() -> None:
    mma = make_tiled_mma("SM100_MMA_F16BF16_WS_TS<half_t, half_t, float, 64, 64, Major::K, Major::K>")
    with pytest.raises(DiagnosticError, match=r"tiled-mma\.fragment.*no second source"):
        mma.get_slice(0).partition_fragment_A(Layout((64, 16)))


def test_a_weight_stationary_a_of_all_rows_is_where_a_is_elsewhere() -> None:
    """A row in each lane, and two elements of 16 bits in a column."""
    mma = make_tiled_mma("SM100_MMA_F16BF16_WS_TS<half_t, half_t, float, 128, 64, Major::K, Major::K>")
    fragment = mma.get_slice(0).partition_fragment_A(Layout((128, 48)))
    for row, column in itertools.product(range(128), range(48)):
        index = fragment((row, column % 16), 0, column // 16)
        assert tmem_cell(index, 16) == (row, column // 2, column % 2 * 16)


def test_cute_prints_of_tensor_memory() -> None:
    """As in CUTLASS examples/cute/tutorial/blackwell: tmem_[32b](0x0000.0000) o ((_128,_256),_1,_1):..."""
    one = accumulators(make_tiled_mma(ONE_CTA.format(d="float", m=128, n=256)), (128, 256))
    assert str(one) == "tmem[32b] o ((_128,_256),_1,_1):((_65536,_1),_0,_0)"
    pair = accumulators(make_tiled_mma(TWO_CTAS.format(d="float", m=256, n=256)), (256, 256))
    assert str(pair) == str(one)


def test_several_accumulators_side_by_side() -> None:
    """Two of 64 rows share the lanes; others follow in columns. Halves have a column each."""
    mma = make_tiled_mma(ONE_CTA.format(d="float", m=64, n=32))
    assert str(accumulators(mma, (128, 64)).layout) == ("(((_16,_4),_32),_2,_2):(((_65536,_2097152),_1),_1048576,_32)")
    halves = make_tiled_mma(ONE_CTA.format(d="half_t", m=128, n=32))
    fragment = accumulators(halves, (128, 64))
    assert str(fragment.layout) == "((_128,_32),_1,_2):((_131072,_2),_0,_64)"
    assert fragment.cells()[128 * 5 + 3] == (3, 5, 0)
    assert len(set(fragment.cells())) == 128 * 64


def test_a_in_tensor_memory() -> None:
    """Two halves in a column; with A of 64 rows, C leaves the upper halves of the quarters alone, too."""
    mma = make_tiled_mma("SM100_MMA_F16BF16_TS<half_t, half_t, float, 64, 32, Major::K, Major::K>")
    one = mma.get_slice(0)
    a = one.partition_fragment_A(Layout((128, 32)))
    assert str(a.layout) == "(((_16,_4),_16),_2,_2):(((_131072,_4194304),_1),_16,_32)"
    assert a.cells()[64 + 17] == (32 + 1, 0, 16)
    c = one.partition_fragment_C(Layout((128, 64)))
    assert {lane % 32 // 16 for lane, _, _ in c.cells()} == {0}
    assert len(set(c.cells())) == 128 * 64


def test_a_of_two_ctas_is_written_twice() -> None:
    mma = make_tiled_mma("SM100_MMA_F16BF16_2x1SM_TS<half_t, half_t, float, 128, 32, Major::K, Major::K>")
    a = mma.get_slice(1).partition_fragment_A(Layout((128, 16)))
    assert str(a.layout) == "((_128,_16),_1,_1):((_131072,_1),_0,_0)"


TS, WS = "SM100_MMA_F16BF16_{}TS<{}, half_t, {}, {}, 32, Major::K, Major::K>", "SM100_MMA_F16BF16_WS_SS"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tiles", [(1, 1), (2, 1), (1, 3), (2, 2)], ids=str)
@pytest.mark.parametrize(
    ("name", "operand", "shape", "bits", "lanes"),
    [
        # rows and columns of one CTA's part of an instruction, bits that an element takes, lanes that are filled
        (TS.format("", "half_t", "float", 64), MmaOperand.A, (64, 16), 16, 64),
        (TS.format("", "half_t", "float", 128), MmaOperand.A, (128, 16), 16, 128),
        (TS.format("2x1SM_", "half_t", "float", 128), MmaOperand.A, (64, 16), 16, 128),  # each row twice
        (TS.format("2x1SM_", "half_t", "float", 256), MmaOperand.A, (128, 16), 16, 128),
        (TS.format("", "half_t", "half_t", 64), MmaOperand.C, (64, 32), 32, 64),
        (TS.format("", "half_t", "half_t", 128), MmaOperand.C, (128, 32), 32, 128),
        (TS.format("2x1SM_", "half_t", "float", 128), MmaOperand.C, (64, 32), 32, 128),
        (WS + "<half_t, half_t, float, 32, 64, Major::K, Major::K>", MmaOperand.C, (32, 64), 32, 128),
        (WS + "<half_t, half_t, float, 64, 64, Major::K, Major::K>", MmaOperand.C, (64, 64), 32, 128),
    ],
)
def test_nothing_shares_a_cell_and_no_column_is_left_free(
    name: str, operand: MmaOperand, shape: tuple[int, int], bits: int, lanes: int, tiles: tuple[int, int]
) -> None:
    fragment = make_fragment(make_tiled_mma(name).atom, operand, Layout((shape, *tiles)))
    cells = fragment.cells()
    count = size((shape, *tiles)) * (2 if shape[0] < lanes and operand is MmaOperand.A else 1)
    assert len(set(cells)) == len(cells) == count
    assert len({lane for lane, _, _ in cells}) == lanes
    assert {column for _, column, _ in cells} == set(range(count * bits // 32 // lanes))


def test_a_sparse_a_of_128_rows_in_two_ctas_is_like_64_rows_in_one() -> None:
    """Layout C of the PTX ISA: 4x1 and half of the data path, as layout F."""
    sparse = TWO_CTAS.replace("SS<", "SS_SPARSE<")
    mma = make_tiled_mma(sparse.format(d="float", m=128, n=64))
    for cta in range(2):
        cells = accumulators(mma, (128, 64), cta).cells()
        assert cells == accumulators(make_tiled_mma(ONE_CTA.format(d="float", m=64, n=64)), (64, 64)).cells()
        for place, (lane, column, _bit) in enumerate(cells):
            at, row = divmod(place, 64)
            assert (cta, lane, column) == accumulator_cell(128, 64, row + 64 * cta, at, cta_group=2, sparse=True)


def test_registers_follow_memory() -> None:
    """CuTe's make_fragment_like: an instruction's values first, then whatever is nearest in memory."""
    one = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN").get_slice(0)
    rows, columns = Layout((64, 32), (32, 1)), Layout((64, 32))
    assert str(one.partition_fragment_A(rows).layout) == "((_2,_2,_2),_4,_2):((_1,_2,_4),_16,_8)"
    assert str(one.partition_fragment_A(columns).layout) == "((_2,_2,_2),_4,_2):((_1,_2,_4),_8,_32)"
    assert str(one.partition_fragment_B(rows).layout) == "((_2,_2),_8,_2):((_1,_2),_8,_4)"
    assert one.partition_fragment_C(rows).layout == one.partition_fragment_C(columns).layout
    broadcast = one.partition_fragment_A(Layout((64, 32), (0, 1)))
    assert str(broadcast.layout) == "((_2,_2,_2),_4,_2):((_1,_0,_2),_4,_16)"


@pytest.mark.parametrize("shape", [(8, 4), (8,), (4, 4, 2), (16, 2, 4), ((2, 2), 4, 2), 8])
def test_a_fragment_is_made_of_a_partition(shape: Any) -> None:
    """16 x 16 elements of A in 32 threads are 8 of each; what one instruction does not take are two more modes."""
    atom = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN").atom
    assert size(make_fragment(atom, MmaOperand.A, Layout(((2, 2, 2), 4, 2))).layout) == 64
    with pytest.raises(DiagnosticError, match=r"tiled-mma\.fragment.*not the 8 elements"):
        make_fragment(atom, MmaOperand.A, Layout(shape))


@pytest.mark.parametrize("apart", [1, 4, 8, 64])
def test_operands_of_two_instructions_begin_at_different_16_bytes(apart: int) -> None:
    """A descriptor's address counts 16 bytes: 8 halves."""
    atom = make_tiled_mma(HOPPER.format(a="MN", b="MN")).atom
    part = Layout(((64, 16), 2, 2), ((1, 4096), apart, 65536))
    if apart % 8 == 0:
        assert make_fragment(atom, MmaOperand.A, part).layout == Layout((1, 2, 2), (0, apart // 8, 8192))
        return
    with pytest.raises(DiagnosticError, match=r"less than 16 bytes apart|not a whole number of them"):
        make_fragment(atom, MmaOperand.A, part)


@pytest.mark.parametrize("element", ["uint8_t", "tf32"])
def test_elements_of_another_width(element: str) -> None:
    name = "SM90_64x64x8_F32TF32TF32_SS_TN" if element == "tf32" else "SM90_64x64x32_S32U8U8_SS_TN"
    one = make_tiled_mma(name).get_slice(0)
    tile = tile_to_shape(gmma_atom(Major.K, SwizzleMode.B128, f16), (64, 64))
    with pytest.raises(DiagnosticError, match=r"tiled-mma\.fragment.*16 bits"):
        one.partition_fragment_A(tile)


@pytest.mark.parametrize("one", ["cells", "descriptors"])
def test_registers_have_no_address(one: str) -> None:
    fragment = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN").get_slice(0).partition_fragment_C(Layout((16, 8)))
    with pytest.raises(DiagnosticError, match=r"tiled-mma\.fragment.*registers"):
        getattr(fragment, one)()


THREADS = {
    "a warpgroup of two": ("SM90_64x32x16_F32F16F16_SS<Major::K, Major::K>", (2, 1, 1), None),
    "warps": (
        "SM80_16x8x16_F32F16F16F32_TN",
        Layout((2, 2, 2), (4, 1, 2)),
        (None, Layout((8, 2, 2), (1, 16, 8)), None),
    ),
    "pairs of quads": ("SM70_8x8x4_F32F16F16F32_NT", (3, 1, 1), None),
}


@pytest.mark.parametrize("name", THREADS)
def test_a_thread_that_is_known_at_run_time(name: str) -> None:
    """The offset of a builder's value, run on this machine's processor, is that of the integer."""
    mma = make_tiled_mma(*THREADS[name])
    m, n, _ = mma.tile_size_mnk
    tile = Layout((m, n))
    k = KernelBuilder("address", "sm_90a", threads=32, parameters=[
        Parameter("out", Pointer(i32)), Parameter("thread", Scalar(i32)),
    ])  # fmt: skip
    out, thread = k.arguments
    part = mma.get_slice(thread).partition_C(tile)
    assert part.layout == mma.get_slice(0).partition_C(tile).layout
    out[0] = part.offset
    out[1] = part(1, 0, 0)
    kernel = k.finish()
    for number in mma.thr_layout_vmnk.offsets()[::5]:
        found = np.zeros(2, np.int32)
        run_on_host(kernel, found, number)
        same = mma.get_slice(number).partition_C(tile)
        assert list(found) == [same.offset, same(1, 0, 0)]


RUN_TIME = KernelBuilder("strides", "sm_80", threads=128, parameters=[Parameter("n", Scalar(i32))]).arguments[0]


@pytest.mark.parametrize(
    ("strides", "first"),
    [
        ((RUN_TIME, 1), 2),
        ((1, RUN_TIME), 1),
        ((Dynamic(1), 64), 2),
        ((64, Dynamic(1)), 1),
        ((RUN_TIME, RUN_TIME), 1),
        ((64, 1), 2),
        ((1, 64), 1),
    ],
    ids=str,
)
def test_registers_follow_the_order_in_memory_as_far_as_it_is_known(strides: tuple[Any, Any], first: int) -> None:
    """CuTe's make_fragment_like: of two atoms along M and four along K, those with the known distance come first."""
    one = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1)).get_slice(0)
    found = one.make_fragment_A(one.partition_A(Layout((64, 64), strides))).layout
    m, k = (8, 16) if first == 1 else (32, 8)
    assert str(found) == f"((_2,_2,_2),_2,_4):((_1,_2,_4),_{m},_{k})"


@pytest.mark.parametrize(
    ("strides", "order"),
    [
        ((1, RUN_TIME, 8192), "_8,_48,_16"),
        ((8192, RUN_TIME, 1), "_24,_48,_8"),
        ((RUN_TIME, 1, 8192), "_96,_8,_32"),
        ((RUN_TIME, RUN_TIME, 7), "_24,_48,_8"),
        ((1, 64, RUN_TIME), "_8,_16,_64"),
    ],
    ids=str,
)
def test_what_only_the_run_shows_comes_after_all_that_is_known(strides: tuple[Any, ...], order: str) -> None:
    one = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1)).get_slice(0)
    found = one.make_fragment_A(one.partition_A(Layout((64, 64, 3), strides))).layout
    assert str(found) == f"((_2,_2,_2),_2,_4,_3):((_1,_2,_4),{order})"


def test_a_sparse_a_of_a_pair_is_in_the_lanes_of_its_rows() -> None:
    """Of 64 rows a CTA: A, D and the metadata have one alignment (PTX ISA 9.7.16.10.8.5)."""
    name = "SM100_MMA_F16BF16_2x1SM_TS_SPARSE<half_t, half_t, float, 128, 64, Major::K, Major::K>"
    one = make_tiled_mma(name).get_slice(0)
    cells = one.partition_fragment_A(Layout((128, 32))).cells()
    assert [lane for lane, _, _ in cells[:64]] == [row // 16 * 32 + row % 16 for row in range(64)]
    assert {lane for lane, _, _ in one.partition_fragment_C(Layout((128, 64))).cells()} == {each[0] for each in cells}


@pytest.mark.parametrize("thread", [-1, 4, 15, 20, 1000])
def test_threads_that_take_no_part(thread: int) -> None:
    with pytest.raises(DiagnosticError, match=r"tiled-mma\.thread"):
        make_tiled_mma("SM70_8x8x4_F32F16F16F32_NT").get_slice(thread)


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_the_fragment_of_one_stage_begins_at_its_descriptor(stage: int) -> None:
    """A stage of 128 x 64 f16 is 16 KiB, 1024 units of 16 bytes; the second 64 rows are 1 KiB, 64 units, further on."""
    one = make_tiled_mma("SM90_64x64x16_F16F16F16_SS<Major::MN, Major::MN>").get_slice(0)
    tile = tile_to_shape(gmma_atom(Major.MN, SwizzleMode.B128, f16), (128, 64, 3))
    part = one.partition_A(tile)(None, None, None, stage)
    fragment = one.make_fragment_A(part)
    assert fragment.offset == 1024 * stage
    assert fragment.offsets()[:2] == [1024 * stage, 1024 * stage + 64]


@pytest.mark.parametrize("thread", ["0", 1.5, None, -1, 256])
def test_a_thread_is_a_number_of_one_or_a_value(thread):
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", Layout((8, 1, 1)))
    for cut in (mma.get_slice, mma.get_atom):
        with pytest.raises(DiagnosticError) as caught:
            cut(thread)
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.rule_id == "tiled-mma.thread"
        assert str(thread) in diagnostic.message
