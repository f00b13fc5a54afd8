"""Which bits of an operation's operands may come into its result, and where: against Python's numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from llvmlite import ir

from nvbackend.builder.value_tracking.addresses.origins import _raised, _width, origins, shifted_left

WORD = ir.IntType(32)
ALL = (1 << 32) - 1
LARGEST: dict[str, Callable[[int], int]] = {
    "and_": lambda number: number,
    "lshr": lambda number: ALL >> number,
    "udiv": lambda number: ALL // number,
    "urem": lambda number: number - 1,
}
"""The largest result for any first operand."""
NUMBERS = [1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31]


def new() -> tuple[ir.IRBuilder, ir.Value, ir.Value]:
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [WORD, WORD]), "f")
    return ir.IRBuilder(function.append_basic_block()), *function.args


@pytest.mark.parametrize("operation", LARGEST)
def test_a_result_has_as_many_bits_as_its_largest_number(operation: str) -> None:
    builder, x, y = new()
    make = getattr(builder, operation)
    for number in [*NUMBERS, *([100, 4095, 4096, 1 << 30] if operation != "lshr" else [])]:
        assert _width(make(x, WORD(number))) == LARGEST[operation](number).bit_length(), number
    assert _width(make(x, y)) == 32
    if operation == "and_":
        assert _width(make(WORD(12), x)) == 4
        assert _width(make(x, WORD(-4))) == 32
    else:
        assert _width(make(WORD(12), x)) == 32
        assert _width(make(WORD(12), WORD(3))) == LARGEST[operation](3).bit_length()


def test_other_results_have_the_bits_of_their_type() -> None:
    builder, x, y = new()
    for value in (builder.add(x, WORD(3)), builder.mul(x, y), builder.shl(x, WORD(2)), builder.or_(x, WORD(1))):
        assert _width(value) == 32
    assert _width(builder.trunc(x, ir.IntType(16))) == 16
    assert _width(builder.inttoptr(x, ir.PointerType(ir.IntType(8)))) == 25
    assert _width(builder.lshr(x, WORD(40))) == 0


def test_bits_that_an_operation_adds_to_its_operand() -> None:
    builder, x, y = new()
    largest = (1 << 24) - 1
    for number in (*range(1, 70), 255, 256, 257):
        added = (largest * number).bit_length() - 24
        assert _raised(builder.mul(x, WORD(number))) == _raised(builder.mul(WORD(number), x)) == added, number
    for number in range(32):
        assert _raised(builder.shl(x, WORD(number))) == number
        assert _raised(builder.lshr(x, WORD(number))) == 0
        assert _raised(builder.shl(WORD(5), WORD(number))) == number
    assert _raised(builder.shl(WORD(5), x)) == 16
    assert _raised(builder.add(x, WORD(9))) == 0
    assert _raised(builder.mul(x, y)) == _raised(builder.shl(x, y)) == 16


def test_of_two_constants_that_which_says_most() -> None:
    """A mask clears what either clears; an operand may be either factor; what only the linker knows says nothing."""
    builder, x, _ = new()
    for one, other in itertools.permutations((0, 7, 100, 4095, -8), 2):
        most = min(number.bit_length() for number in (one, other) if number >= 0)
        assert _width(builder.and_(WORD(one), WORD(other))) == most
    assert _width(builder.and_(WORD(-8), WORD(-16))) == 32
    assert _raised(builder.mul(WORD(3), WORD(100))) == _raised(builder.mul(WORD(100), WORD(3))) == 7
    own = ir.GlobalVariable(builder.module, WORD, "own", addrspace=3).ptrtoint(WORD)
    for name in ("and_", "lshr", "udiv", "urem"):
        assert _width(getattr(builder, name)(x, own)) == 32
    assert _raised(builder.mul(x, own)) == _raised(builder.shl(x, own)) == 16


def test_how_far_a_shift_moves_an_address() -> None:
    builder, x, y = new()
    for number in range(32):
        for make, moved in ((builder.shl, number), (builder.lshr, -number), (builder.ashr, -number)):
            shift = make(x, WORD(number))
            assert shifted_left(shift) == moved
            assert origins(shift, 0) == [x]
    for shift in (builder.shl(x, WORD(32)), builder.lshr(x, WORD(-1)), builder.shl(x, y)):
        assert shifted_left(shift) == 0
        assert origins(shift, 0) == []
    assert shifted_left(builder.add(x, WORD(3))) == 0


@pytest.mark.parametrize("shift", [-4, 0, 4])
def test_a_mask_keeps_an_address_where_it_keeps_the_bits_of_the_cta(shift: int) -> None:
    """Bits 24 and up say whose memory it is; a number shifted by `shift` has them elsewhere."""
    builder, x, y = new()
    for bit in range(32):
        mask = builder.and_(x, WORD((1 << bit) - (1 << bit >> 1)))
        keeps = bit > 0 and bit - 1 + shift >= 24
        assert origins(mask, shift) == (list(mask.operands) if keeps else []), bit
    negative = builder.and_(x, WORD(-16))
    assert origins(negative, shift) == list(negative.operands)
    assert origins(builder.and_(x, y), shift) == []


def test_a_mask_of_two_constants_keeps_what_both_keep() -> None:
    """An address that the linker knows is no mask, whatever it is masked with."""
    builder, x, _ = new()
    for left in (-16, -1, 0, 7, 1 << 25):
        for right in (-16, -1, 0, 7, 1 << 25):
            both = builder.and_(WORD(left), WORD(right))
            keeps = {0, 7}.isdisjoint((left, right))
            assert origins(both, 0) == (list(both.operands) if keeps else []), (left, right)
        own = ir.GlobalVariable(builder.module, WORD, f"own{left}", addrspace=3).ptrtoint(WORD)
        assert origins(builder.and_(own, WORD(left)), 0) == origins(builder.and_(WORD(left), own), 0) == []
        assert origins(builder.and_(own, x), 0) == []


def test_what_an_address_may_be_moved_from() -> None:
    builder, x, y = new()
    for value in (builder.add(x, y), builder.or_(x, y), builder.xor(x, y)):
        assert origins(value, 0) == [x, y]
    assert origins(builder.sub(x, y), 0) == [x]
    assert origins(builder.zext(x, ir.IntType(64)), 0) == [x]
    assert origins(builder.select(builder.icmp_unsigned("<", x, y), x, y), 0) == [x, y]
    assert origins(builder.mul(x, y), 0) == []
    pair = ir.Constant(ir.VectorType(WORD, 2), None)
    inserted = builder.insert_element(pair, x, WORD(1))
    assert origins(inserted, 0) == [pair, x]
    assert origins(builder.extract_element(inserted, WORD(0)), 0) == [inserted]
