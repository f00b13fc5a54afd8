"""Registers of tcgen05.ld and .st, against the layouts of CuTe's copy traits written as shapes and strides of bits."""

from __future__ import annotations

import itertools

import pytest

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.copy import tcgen05_memory, tcgen05_registers
from nvbackend.intrinsics.copy.tcgen05_registers import SHAPES, registers_of, repetitions
from nvbackend.intrinsics.maps.rows import fragment_maps
from nvbackend.intrinsics.maps.tcgen05 import packed_tmem_position, tmem_position
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.row import NoSuchRow, Row

LAYOUTS = {
    # shape: bits of a row of one repetition, (extent, stride) of the thread's digits, of the register's digits; a
    # stride counts bits of one repetition's tile, row by row.
    "32x32b": (32, ((32, 32),), ()),
    "16x64b": (64, ((2, 512), (2, 32), (8, 64)), ()),
    "16x128b": (128, ((4, 32), (8, 128)), ((2, 1024),)),
    "16x256b": (256, ((4, 64), (8, 256)), ((2, 32), (2, 2048))),
}


def by_layout(shape: str, thread: int, register: int) -> tuple[int, int]:
    row_bits, thread_digits, register_digits = LAYOUTS[shape]
    offset = 0
    for extent, stride in thread_digits:
        thread, digit = divmod(thread, extent)
        offset += digit * stride
    for extent, stride in register_digits:
        register, digit = divmod(register, extent)
        offset += digit * stride
    lane, bit = divmod(offset, row_bits)
    return lane, (bit + register * row_bits) // 32


@pytest.mark.parametrize("shape", LAYOUTS)
def test_each_register_is_the_cell_of_the_layout(shape: str) -> None:
    for thread, register in itertools.product(range(32), range(32)):
        assert tmem_position(shape, thread, register) == by_layout(shape, thread, register)


@pytest.mark.parametrize("shape", SHAPES)
def test_registers_cover_the_tile_once(shape: str) -> None:
    lanes = 32 if shape == "32x32b" else 16
    for count in repetitions(shape):
        split = count if shape == "16x32bx2" else 0
        cells = [
            tmem_position(shape, thread, register, half_split=split)
            for thread, register in itertools.product(range(32), range(registers_of(shape, count)))
        ]
        width = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 2}[shape] * count
        assert sorted(cells) == list(itertools.product(range(lanes), range(width)))


def test_the_second_half_of_the_warp_is_split_off() -> None:
    assert tmem_position("16x32bx2", 3, 5, half_split=64) == (3, 5)
    assert tmem_position("16x32bx2", 19, 5, half_split=64) == (3, 69)


@pytest.mark.parametrize("shape", SHAPES)
def test_halves_lie_together_unless_a_split_is_given(shape: str) -> None:
    for thread, register, half in itertools.product(range(32), range(4), (0, 1)):
        lane, column = tmem_position(shape, thread, register)
        assert packed_tmem_position(shape, thread, register, half) == (lane, 2 * column + half)


@pytest.mark.parametrize("shape", SHAPES)
def test_packed_registers_cover_twice_the_columns_once(shape: str) -> None:
    count = 4
    registers = registers_of(shape, count)
    split = 2 * registers if shape == "16x32bx2" else 0
    cells = {
        packed_tmem_position(shape, thread, register, half, half_split=split)
        for thread, register, half in itertools.product(range(32), range(registers), (0, 1))
    }
    lanes = 32 if shape == "32x32b" else 16
    assert cells == set(itertools.product(range(lanes), range(64 * registers // lanes)))


@pytest.mark.parametrize(
    ("row", "elements", "cell"),
    [
        (tcgen05_registers.ld("16x128b", 2), 4, (8, 5)),
        (tcgen05_registers.st("16x128b", 2, unpack=True), 8, (8, 3)),
        (tcgen05_registers.ld_red("32x32b", 4, "min", "u32"), 4, (1, 3)),
    ],
)
def test_rows_have_their_fragments_in_the_map(row: Row, elements: int, cell: tuple[int, int]) -> None:
    """The last cell of thread 1 of a load; element 3 where a register is two."""
    (found,) = fragment_maps(row)
    assert (found.operand, found.threads, found.elements) == ("values", 32, elements)
    assert found.position(1, 3) == cell


def test_other_rows_have_none() -> None:
    assert fragment_maps(tcgen05_memory.alloc()) == []
    assert fragment_maps(tcgen05_memory.cp("128x256b")) == []
    assert fragment_maps(tcgen05.mma("f16")) == []


@pytest.mark.parametrize(("thread", "register"), [(32, 0), (-1, 0), (0, 128), (0, -1)])
def test_what_no_thread_has_is_refused(thread: int, register: int) -> None:
    with pytest.raises(DiagnosticError) as error:
        tmem_position("32x32b", thread, register)
    assert error.value.diagnostics[0].rule_id == "fragment.range"


def test_another_shape_has_no_fragments() -> None:
    with pytest.raises(NoSuchRow):
        tmem_position("8x8b", 0, 0)
