"""Scale factors and metadata in tensor memory: CuTe's strides, typed from its headers, and the cells one by one."""

from __future__ import annotations

import itertools

import pytest

from nvbackend.atoms import MmaAtom, atom
from nvbackend.intrinsics.maps.tcgen05 import metadata_cell, scale_a_cell, scale_b_cell
from nvbackend.layout import Layout, size

pytestmark = pytest.mark.sampled(3)

LANE = 65536 * 32
"""Bits from one lane of tensor memory to the next, in CuTe's addresses."""
MX8 = "SM100_MMA_MXF8F6F4{pair}_SS<float_e4m3_t, float_e4m3_t, float, float_ue8m0_t, {m}, {n}, Major::K, Major::K>"
NV4 = "SM100_MMA_MXF4{pair}_SS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, {m}, {n}, 16, Major::K, Major::K>"
SPARSE = {
    "tf32": "SM100_MMA_TF32{pair}_SS_SPARSE<tfloat32_t, tfloat32_t, float, {m}, 64, Major::K, Major::K>",
    "f16": "SM100_MMA_F16BF16{pair}_SS_SPARSE<half_t, half_t, float, {m}, 64, Major::K, Major::K>",
    "i8": "SM100_MMA_S8{pair}_SS_SPARSE<int8_t, int8_t, int32_t, {m}, 64, Major::K, Major::K>",
    "f8f6f4": "SM100_MMA_F8F6F4{pair}_SS_SPARSE<float_e4m3_t, float_e5m2_t, float, {m}, 64, Major::K, Major::K>",
    "mxf4nvf4": "SM100_MMA_MXF4NVF4{pair}_SS_SPARSE<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, {m}, 64, 32, "
    "Major::K, Major::K>",
}


def found(layout: Layout | None) -> Layout:
    assert layout is not None
    return layout


def cell(index: int, bits: int) -> tuple[int, int, int]:
    """Lane, 32-bit column, unit of `bits` in it."""
    lane, rest = divmod(index * bits, LANE)
    return lane, rest // 32, rest % 32 // bits


def test_cutes_strides() -> None:
    """tmem_sf_frg: 128 rows, 4 factors; in addresses of lane + 128 * byte (1, 512), (0, 128), copies 32 lanes apart."""
    one = atom(NV4.format(pair="", m=128, n=128))
    expected = "((_32,_4),(_16,_4),_4):((_262144,_4),(_0,_1),_8388608)"
    assert str(one.tmem_sfa) == str(one.tmem_sfb) == expected
    pair = atom(MX8.format(pair="_2x1SM", m=128, n=128))
    assert str(pair.tmem_sfb) == "((_32,_2,_2),(_32,_1),_2):((_262144,_4,_16777216),(_0,_1),_8388608)"
    assert str(atom(SPARSE["i8"].format(pair="", m=128)).tmem_e) == "(_128,(_4,_16)):(_2097152,(_0,_4))"


@pytest.mark.parametrize(
    ("name", "pair", "m", "n"),
    [(MX8, "", 128, 64), (NV4, "", 128, 256), (MX8, "_2x1SM", 256, 64), (MX8, "_2x1SM", 128, 128), (NV4, "", 128, 48)],
)
def test_factors_are_in_the_cells_of_the_hardware(name: str, pair: str, m: int, n: int) -> None:
    one = atom(name.format(pair=pair, m=m, n=n))
    assert one.block_scale is not None
    block, own = one.block_scale.vec_size, m // one.threads
    split = (pair, m) == ("_2x1SM", 128)
    for row, factor in itertools.product(range(own), range(one.shape[2] // block)):
        for copy in range(4):
            lane, column, byte = scale_a_cell(row, factor)
            places = {cell(found(one.tmem_sfa)(row, block * factor + place, copy), 8) for place in range(block)}
            assert places == {(lane + 32 * copy, column, byte)}
    for row, factor in itertools.product(range(n), range(one.shape[2] // block)):
        for copy in range(2 if split else 4):
            lane, column, byte = scale_b_cell(n, row, factor, split=split)
            place = cell(found(one.tmem_sfb)(row, block * factor + block - 1, copy), 8)
            assert place == (lane + 32 * copy, column, byte)
    lanes = {cell(index, 8)[0] for index in found(one.tmem_sfb).offsets()}
    assert lanes == set(range(128))


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize(("pair", "m"), [("", 128), ("_2x1SM", 256)])
def test_metadata_is_in_the_cells_of_the_hardware(kind: str, pair: str, m: int) -> None:
    one = atom(SPARSE[kind].format(pair=pair, m=m))
    layout, elements = found(one.tmem_e), {"tf32": 2, "mxf4nvf4": 8}.get(kind, 4)
    assert size(layout) == 128 * one.shape[2]
    for row, k in itertools.product(range(0, 128, 5), range(one.shape[2])):
        assert cell(layout(row, k), 1) == metadata_cell(kind, row, k // elements)


def test_whose_rows_they_are() -> None:
    """Of A each CTA has those of its rows, of B all."""
    pair = atom(MX8.format(pair="_2x1SM", m=256, n=64))
    assert str(pair.layout_sfa) == str(pair.layout_a) == "(_2,(_128,_32)):(_128,(_1,_256))"
    assert str(pair.layout_sfb) == "(_2,(_64,_32)):(_0,(_1,_64))"
    sparse = atom(SPARSE["f16"].format(pair="_2x1SM", m=256))
    assert str(sparse.layout_e) == "(_2,(_128,_32)):(_128,(_1,_256))"


@pytest.mark.parametrize(
    "one",
    [
        atom("SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 64, Major::K, Major::K>"),
        atom("SM80_SPARSE_16x8x32_F32F16F16F32_TN"),
        atom("SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, 16>"),
    ],
    ids=str,
)
def test_atoms_without_them(one: MmaAtom) -> None:
    assert (one.tmem_e, one.tmem_sfa, one.tmem_sfb) == (None, None, None)


def test_what_no_second_source_says() -> None:
    assert atom(SPARSE["f16"].format(pair="", m=64)).tmem_e is None
    ultra = "SM103_MXF4_ULTRA_SS_VS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, 128, 64, 16, Major::K, Major::K>"
    assert atom(ultra).tmem_sfa is None
