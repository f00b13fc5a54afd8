"""The printouts of the CUTLASS WGMMA notes, letter by letter."""

from __future__ import annotations

import pytest

from nvbackend import Major, SwizzleMode, f16
from nvbackend.layout import (
    ComposedLayout,
    Dynamic,
    Layout,
    SmemPtr,
    Swizzle,
    _,
    coalesce,
    composition,
    gmma_atom,
    make_layout,
    parse,
    recast_layout,
    replace,
    size,
    tile_to_shape,
    tiled_divide,
    zipped_divide,
)

MN_ATOM = ComposedLayout(Swizzle(3, 4, 3), SmemPtr(), Layout((64, 8), (1, 64)))
K_ATOM = ComposedLayout(Swizzle(3, 4, 3), SmemPtr(), Layout((8, 64), (64, 1)))
TILE = (128, 64, 3)
"""bM or bN, bK, stages."""
S_A = "Sw<3,4,3> o smem_ptr o ((_64,_2),(_8,_8),_3):((_1,_512),(_64,_1024),_8192)"
T_CSA = "((_64,(_8,_2)),_2,_4,_3):((_1,(_64,_1024)),_512,_2048,_8192)"
T_CRA = "(_1,_2,_4,_3):(_0,_64,_256,_1024)"
T_CGC = "((_2,_2,_8),_2,_2):((512,_8,4096),_64,32768)"
T_CRC = "((_2,_2,_8),_2,_2):((_1,_2,_4),_32,_64)"


def test_sa_and_sb_mn_major() -> None:
    assert str(tile_to_shape(MN_ATOM, TILE)) == S_A
    assert str(tile_to_shape(gmma_atom(Major.MN, SwizzleMode.B128, f16), TILE)) == S_A
    assert str(MN_ATOM.layout_b) == "(_64,_8):(_1,_64)"


def test_sa_and_sb_k_major() -> None:
    tiled = tile_to_shape(K_ATOM, TILE)
    assert str(tiled) == "Sw<3,4,3> o smem_ptr o (_128,_64,_3):(_64,_1,_8192)"
    assert str(tile_to_shape(gmma_atom(Major.K, SwizzleMode.B128, f16), TILE)) == str(tiled)


def test_the_step_before_coalescing() -> None:
    before = parse("((8, 16), (64, 1), 3) : ((64, 512), (1, 0), 8192)")
    assert isinstance(before, Layout)
    assert str(before) == "((8,16),(64,1),3):((64,512),(1,0),8192)"
    assert str(coalesce(before, (1, 1, 1))) == "(128,64,3):(64,1,8192)"


def test_tcsa_and_tcra() -> None:
    """One wgmma reads 64 x 16 of sA; descriptors count 16 bytes, one stands for an instruction's whole operand."""
    s_a = tile_to_shape(MN_ATOM, TILE).layout_b
    t_csa = tiled_divide(s_a, (64, 16))
    assert str(t_csa) == T_CSA
    t_cra = replace(recast_layout(t_csa, f16, 128), 0, Layout(1, 0))
    assert str(t_cra) == T_CRA
    assert [t_cra(0, *place) for place in ((1, 0, 0), (0, 1, 0), (0, 0, 1))] == [64, 256, 1024]


def test_tcgc_and_tcrc() -> None:
    """Thread 0 of the accumulator of m64n64, over a tile of 128 x 128 of a column-major C with 512 rows."""
    thread_value = parse("((_4,_8,_4),(_2,_2,_8)):((_128,_1,_16),(_64,_8,_512))")
    tile, rest = zipped_divide(Layout((128, 128), (1, Dynamic(512))), (64, 64)).modes
    owned = composition(tile, thread_value)
    assert isinstance(owned, Layout)
    t_cgc = make_layout(owned[1], *rest.modes)
    assert str(t_cgc) == T_CGC
    t_crc = make_layout(t_cgc.shape)
    assert str(t_crc) == T_CRC
    assert size(t_crc) == 128


def test_thread_0_owns_the_pattern_of_the_notes() -> None:
    thread_value = parse("((_4,_8,_4),(_2,_2,_8)):((_128,_1,_16),(_64,_8,_512))")
    assert isinstance(thread_value, Layout)
    owned = [divmod(thread_value(0, value), 64) for value in range(32)]
    shown = {(column, row) for row in (0, 8) for eight in range(0, 64, 8) for column in (eight, eight + 1)}
    assert set(owned) == shown


def test_a_stage_is_a_slice() -> None:
    s_a = tile_to_shape(gmma_atom(Major.MN, SwizzleMode.B128, f16), TILE)
    assert str(s_a(_, _, 0)) == "Sw<3,4,3> o smem_ptr o ((_64,_2),(_8,_8)):((_1,_512),(_64,_1024))"
    assert s_a(_, _, 2)(5, 17) == s_a(5, 17, 2)


@pytest.mark.parametrize("text", [S_A, T_CSA, T_CRA, T_CGC, T_CRC, "Sw<2,4,-3> o _0 o _8:_1", "_8:_-1"])
def test_text_is_read_back_letter_by_letter(text: str) -> None:
    assert str(parse(text)) == text


def test_spaces_are_read_over() -> None:
    assert str(parse("((_2, _2, _8), _2, _2) : ((512, _8, 4096), _64, 32768)")) == T_CGC


def test_the_width_of_elements_is_read_and_written() -> None:
    text = "Sw<3,4,3> o smem_ptr[16b](unset) o (_64,_8):(_1,_64)"
    found = parse(text)
    assert found == gmma_atom(Major.MN, SwizzleMode.B128, f16)
    assert isinstance(found, ComposedLayout)
    assert found.flagged() == text
    assert str(found) == text.replace("[16b](unset)", "")


@pytest.mark.parametrize("text", ["(64,8):(1,64)", "(_64,8):(_1,64)", "(_64,_8):(_1,_64)"])
def test_static_and_dynamic_differ_in_text_alone(text: str) -> None:
    found = parse(text)
    assert str(found) == text
    assert found == Layout((64, 8), (1, 64))
    assert hash(found) == hash(Layout((64, 8), (1, 64)))


def test_what_is_computed_with_a_dynamic_integer_is_dynamic() -> None:
    two = Dynamic(2)
    dynamic = [
        two + 3,
        3 + two,
        two - 3,
        3 - two,
        two * 3,
        3 * two,
        two // 3,
        3 // two,
        two % 3,
        3 % two,
        -two,
        abs(two),
    ]
    assert all(isinstance(number, Dynamic) for number in dynamic)
    assert [7] * two == [7, 7] and parse("(2,2):(0,2)").offsets() == [0, 0, 2, 2]
    assert dynamic == [5, 5, -1, 1, 6, 6, 0, 1, 2, 1, -2, 2]
    assert str(Layout((2, 2), (two * 0, two))) == "(_2,_2):(_0,2)"
    assert str(Layout((Dynamic(4), 8))) == "(4,_8):(_1,4)"
