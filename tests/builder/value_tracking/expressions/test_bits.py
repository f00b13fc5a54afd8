"""What is said of the bits of a value, against the numbers that Python's arithmetic gives."""

from __future__ import annotations

import operator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from llvmlite import ir

from nvbackend import Parameter, Scalar, i32, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.value_tracking.expressions.bits import ONE, Bits
from nvbackend.builder.value_tracking.expressions.provenance import variables
from nvbackend.intrinsics.sync import special_registers
from nvbackend.layout import ComposedLayout, Layout, Swizzle

WORD = 1 << 32
NUMBERS = st.integers(0, WORD - 1)
CONSTANTS = {
    "shift": st.integers(0, 31),
    "divisor": st.one_of(st.sampled_from([1, 2, 8, 64]), st.integers(1, 100)),
    "any": st.one_of(NUMBERS, st.sampled_from([0, 1, 2, 7, 16, 0x380, 1024, 0xFFFF0000])),
}
OPERATIONS = {
    **dict.fromkeys((operator.add, operator.sub, operator.and_, operator.or_, operator.xor, operator.mul), "any"),
    **dict.fromkeys((operator.lshift, operator.rshift), "shift"),
    **dict.fromkeys((operator.mod, operator.floordiv), "divisor"),
}
STEPS = st.lists(
    st.one_of(
        *(st.tuples(st.just(one), st.integers(0, 9), CONSTANTS[right]) for one, right in OPERATIONS.items()),
        *(st.tuples(st.just(one), st.integers(0, 9), st.integers(0, 9).map(str)) for one in list(OPERATIONS)[:6]),
    ),
    min_size=1,
    max_size=12,
)


def new() -> KernelBuilder:
    return KernelBuilder("kernel", "sm_90a", threads=32, parameters=[Parameter(one, Scalar(u32)) for one in "xy"])


@given(NUMBERS, NUMBERS, STEPS)
def test_every_form_gives_the_bit_of_the_number(x, y, steps):
    k = new()
    values, numbers = list(k.arguments), [x, y]
    for operation, first, right in steps:
        left = first % len(values)
        other = int(right) % len(values) if isinstance(right, str) else None
        values.append(operation(values[left], right if other is None else values[other]))
        numbers.append(operation(numbers[left], right if other is None else numbers[other]) % WORD)
    is_number = dict(zip((value.ir for value in values), numbers, strict=True))
    bits = Bits()
    for value, number in zip(values, numbers, strict=True):
        for place in range(32):
            form = bits.at(value.ir, place)
            if form is not None:
                ones = [one if form <= ONE else is_number[one] >> bit & 1 for one, bit in form - ONE]
                assert (sum(ones) + len(form & ONE)) % 2 == number >> place & 1


CONVERSIONS = st.tuples(st.sampled_from(["zext", "sext", "trunc"]), st.integers(0, 9), st.sampled_from([8, 16, 32, 64]))
BY_NUMBER = st.tuples(
    st.sampled_from(["shl", "lshr", "ashr", "mul", "urem", "udiv", "and_", "or_", "xor", "add", "sub"]),
    st.integers(0, 9),
    st.one_of(st.integers(0, 70), st.sampled_from([1, 2, 8, 16, 64, 0x380, 0xFFF0])),
)
OF_TWO = st.tuples(
    st.sampled_from(["and_", "or_", "xor", "add", "sub", "mul"]), st.integers(0, 9), st.integers(0, 9).map(str)
)
REFERENCE = {
    "shl": operator.lshift,
    "lshr": operator.rshift,
    "ashr": operator.rshift,
    "mul": operator.mul,
    "urem": operator.mod,
    "udiv": operator.floordiv,
    "and_": operator.and_,
    "or_": operator.or_,
    "xor": operator.xor,
    "add": operator.add,
    "sub": operator.sub,
}


def signed(number, width):
    return number - (1 << width) if number >> width - 1 else number


@settings(max_examples=150, deadline=None)
@example(0x80000001, 0, [("zext", 0, 64), ("sext", 0, 64), ("trunc", 0, 8), ("sext", 4, 32)])
@given(NUMBERS, NUMBERS, st.lists(st.one_of(CONVERSIONS, BY_NUMBER, OF_TWO), min_size=1, max_size=10))
def test_every_form_of_integers_of_any_width(x, y, steps):
    """The instructions themselves, of 8 to 64 bits, with a sign and without."""
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(32)] * 2), "f")
    builder = ir.IRBuilder(function.append_basic_block())
    values = list(zip(function.args, (x, y), strict=True))
    for name, first, right in steps:
        value, number = values[first % len(values)]
        width = value.type.width
        if name in ("zext", "sext", "trunc"):
            if right == width or (right < width) is not (name == "trunc"):
                continue
            result = (signed(number, width) if name == "sext" else number) % (1 << right)
            values.append((getattr(builder, name)(value, ir.IntType(right)), result))
            continue
        other, amount = values[int(right) % len(values)] if isinstance(right, str) else (None, right)
        if other is None:
            legal = range(width) if "sh" in name else range(1, 1 << width) if "u" in name[:1] else range(1 << width)
            if amount not in legal:
                continue
            other = value.type(amount)
        elif other.type != value.type:
            continue
        result = REFERENCE[name](signed(number, width) if name == "ashr" else number, amount) % (1 << width)
        values.append((getattr(builder, name)(value, other), result))
    is_number, bits = dict(values), Bits()
    for value, number in values:
        for place in range(value.type.width + 1):
            form = bits.at(value, place)
            if form is not None:
                ones = [is_number[one] >> bit & 1 for one, bit in form - ONE]
                assert (sum(ones) + len(form & ONE)) % 2 == number >> place & 1
        mask, constant = bits.known(value)
        assert number & mask == constant
        assert bits.swizzle(value) in (None, 32, 64, 128)


def test_what_is_known_of_a_sum():
    k = new()
    x, y = k.arguments
    bits = Bits()
    assert bits.known(((x & 0x3FFFF) >> 4).ir) == (WORD - (1 << 14), 0)
    word = ((x & 0x3FFFF) >> 4).to(u64) | 0x4000004000010000
    above = (1 << 64) - (1 << 14)
    assert bits.known(word.ir) == (above, 0x4000004000010000)
    assert bits.known((word + 2).ir) == (above - (1 << 14), 0x4000004000010000)  # a carry may get to 14
    assert bits.known((word + y.to(u64)).ir)[0] & WORD - 1 == 0
    assert bits.known((x * 48).ir) == (15, 0)


@pytest.mark.parametrize(("swizzled", "pitch", "span"), [(3, 128, 128), (2, 64, 64), (1, 32, 32)])
@pytest.mark.parametrize("start", [0, 1024, 5 * 1024])
def test_the_swizzle_of_an_address(swizzled, pitch, span, start):
    k = new()
    x, stage = k.arguments
    layout = ComposedLayout(Swizzle(swizzled, 4, 3), 0, Layout((4096, pitch), (pitch, 1)))
    row, chunk = x // (pitch // 16), x % (pitch // 16)
    bits = Bits()
    address = stage % 3 * 8192 + start
    assert bits.swizzle((address + layout(row, chunk * 16)).ir) == span
    assert bits.swizzle((address + layout(row + 64, 0)).ir) == span
    assert bits.swizzle((address + row * pitch + chunk * 16).ir) is None
    assert bits.swizzle((address + layout(stage, chunk * 16)).ir) == span
    assert bits.swizzle((x + layout(row, chunk * 16)).ir) is None
    assert bits.swizzle((address + layout(row, chunk * 16) | (x & stage & 15)).ir) is None
    elements = ComposedLayout(Swizzle(swizzled, 3, 3), 0, Layout((4096, pitch // 2), (pitch // 2, 1)))
    assert bits.swizzle((address + elements(row, chunk * 8) * 2).ir) == span


@pytest.mark.parametrize("shift", [1, 2, 3, 4, 5])
def test_each_choice_of_bits_that_are_exchanged(shift):
    """The first one, two or three bits from 16 bytes on, by those three above: any other choice is no swizzle."""
    k, bits = new(), Bits()
    x = k.arguments[0]
    spans = {0x10: 32, 0x30: 64, 0x70: 128}
    for mask in range(1024) if shift == 3 else spans:
        expected = spans.get(mask) if shift == 3 else None
        assert bits.swizzle((x ^ (x >> shift & mask)).ir) == expected, hex(mask)


def test_exclusive_ors_that_are_no_swizzle_of_a_map():
    k = new()
    x, y = k.arguments
    bits = Bits()
    for wrong in (Swizzle(3, 4, 4), Swizzle(2, 5, 3), Swizzle(3, 3, 3)):
        layout = ComposedLayout(wrong, 0, Layout((4096, 128), (128, 1)))
        assert bits.swizzle(layout(x // 8, x % 8 * 16).ir) is None
    assert bits.swizzle((y * 128 + (x % 8 ^ 3) * 16).ir) is None
    assert bits.swizzle(((x ^ y) * 128 + ((x ^ y) % 8 ^ 3) * 16).ir) is None


@pytest.mark.parametrize("bit", range(3))
def test_a_chunk_that_is_no_exclusive_or_has_no_known_swizzle(bit):
    """A bit that either of two numbers sets: in the chunk, beside a row that is known; and in the row."""
    k = new()
    x, y = k.arguments
    bits = Bits()
    chunk, row = (x >> 3 ^ x) % 8, x % 1024 // 8
    either = (y | y >> 7) & 1 << bit
    assert bits.swizzle((row * 128 | chunk * 16).ir) == 128
    assert bits.swizzle((row * 128 | (chunk ^ either) * 16).ir) is None
    assert bits.swizzle(((row ^ either) * 128 | chunk * 16).ir) is None


@pytest.mark.parametrize("row", range(8))
def test_a_row_that_is_a_number_has_no_known_swizzle(row):
    """An exclusive-or with it is one with a constant, as any choice of another chunk is."""
    k, bits = new(), Bits()
    x = k.arguments[0]
    assert bits.swizzle((x % 8 * 16 | row << 7).ir) is None
    assert bits.swizzle((((x % 8) ^ row) * 16 | row << 7).ir) is None


@pytest.mark.parametrize(("operations", "is_known"), [(48, True), (49, False)])
def test_how_many_operations_a_bit_is_traced_through(operations, is_known):
    k = new()
    value = k.arguments[0] << 1
    for number in range(1, operations):
        value = value ^ 2 * number
    mask, bits = Bits().known(value.ir)
    assert (mask & 1, bits & 1) == (int(is_known), 0)


def test_a_count_of_bits_is_64_at_most():
    """popc and clz count up to 32 or 64: seven bits, of which a shift or a product makes more."""
    k = new()
    x, _ = k.arguments
    bits = Bits()
    above = WORD - 128
    for count in (k.integer.popc(x), k.integer.clz(x), k.integer.popc(x.to(u64))):
        assert bits.known(count.ir) == (above, 0)
        assert bits.known((count << 4).ir) == (WORD - 2048 | 15, 0)


FIXED = (
    *(f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid") for axis in "xyz"),
    *(f"cluster_{name}.{axis}" for name in ("ctaid", "nctaid") for axis in "xyz"),
    *(
        "cluster_ctarank",
        "cluster_nctarank",
        "laneid",
        *(f"lanemask_{which}" for which in ("eq", "le", "lt", "ge", "gt")),
    ),
)
"""The special registers that are the same in a thread from its first instruction to its last (PTX ISA 10)."""


@pytest.mark.parametrize("name", [name for name in special_registers.NAMES if name != "is_explicit_cluster"])
def test_a_register_that_is_read_again_has_its_bits_where_it_is_fixed(name):
    """Of a clock, and of what a thread that moves to another SM reads there, nothing is known the second time."""
    k = new()
    first, second = (k.special_register(name) for _ in range(2))
    whole, bits = (1 << first.ir.type.width) - 1, Bits()
    assert bits.known((first ^ second).ir) == (whole if name in FIXED else 0, 0)
    assert bits.known((first ^ first).ir) == (whole, 0)
    assert variables((first - second).ir) == (frozenset() if name in FIXED else None)


def test_what_a_call_returns_is_a_number_of_its_own():
    """The sum and the exchange of the same numbers give others the next time, of other threads."""
    k = new()
    x, y = k.arguments
    lane = y.to(i32)
    calls = (lambda: k.warp.shuffle(x, "idx", lane), lambda: k.warp.reduce("add", x), k.warp.active_lanes)
    for call in calls:
        assert Bits().known((call() ^ call()).ir) == (0, 0)
    assert Bits().known((k.thread_id() ^ k.warp.shuffle(x, "idx", lane).to(i32)).ir) == (0, 0)


@pytest.mark.parametrize("number", range(32))
def test_what_moves_bits_names_the_bits_that_it_moves(number):
    """A shift by each constant, and a product, a quotient and a remainder by each power of two."""
    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [ir.IntType(32)]), "f")
    llvm, (x,) = ir.IRBuilder(function.append_basic_block()), function.args
    by, power = ir.Constant(x.type, number), ir.Constant(x.type, 1 << number)
    up = [frozenset()] * number + [frozenset({(x, place)}) for place in range(32 - number)]
    down = [frozenset({(x, place)}) for place in range(number, 32)]
    moved = [
        *((llvm.shl(x, by), up), (llvm.mul(x, power), up), (llvm.mul(power, x), up)),
        *((llvm.lshr(x, by), down + [frozenset()] * number), (llvm.udiv(x, power), down + [frozenset()] * number)),
        (llvm.ashr(x, by), down + [frozenset({(x, 31)})] * number),
        (llvm.urem(x, power), [frozenset({(x, place)}) for place in range(number)] + [frozenset()] * (32 - number)),
    ]
    for value, forms in moved:
        assert [Bits().at(value, place) for place in range(32)] == forms, value.opname
        assert Bits().at(value, 32) == Bits().at(value, -1) == frozenset()
