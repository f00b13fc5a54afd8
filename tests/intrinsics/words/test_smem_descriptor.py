"""Descriptor words: the hardware's layout transcribed a second time, the seed's worked example, and the algebra."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.words.bitfield import Field, PackedWord
from nvbackend.intrinsics.words.smem_descriptor import (
    ADDRESS_MASK,
    ADDRESS_SHIFT,
    WORD,
    SmemDescriptor,
    SwizzleMode,
    advance,
    advance_units,
)
from nvbackend.tileiras.descriptor import TileirasDescriptor

SWIZZLE_CODES = {SwizzleMode.NONE: 0, SwizzleMode.B128: 1, SwizzleMode.B64: 2, SwizzleMode.B32: 3}
SWIZZLE_WIDTHS = {SwizzleMode.NONE: 16, SwizzleMode.B128: 128, SwizzleMode.B64: 64, SwizzleMode.B32: 32}
SWIZZLE_MASKS = {SwizzleMode.NONE: 0, SwizzleMode.B128: 0x70, SwizzleMode.B64: 0x30, SwizzleMode.B32: 0x10}
FIELD_BITS = sum(
    1 << bit for low, high in ((0, 13), (16, 29), (32, 45), (49, 51), (62, 63)) for bit in range(low, high + 1)
)
SEED_BITS = sum(1 << bit for low, high in ((0, 48), (52, 53)) for bit in range(low, high + 1))

chunks = st.integers(0, 0x3FFF)
swizzles = st.sampled_from(SwizzleMode)
descriptors = st.builds(
    SmemDescriptor,
    chunks.map(lambda chunk: chunk * 16),
    chunks.map(lambda chunk: chunk * 16),
    chunks.map(lambda chunk: chunk * 16),
    st.integers(0, 7),
    swizzles,
)


def broken(error: pytest.ExceptionInfo[DiagnosticError]) -> list[str]:
    return [diagnostic.rule_id for diagnostic in error.value.diagnostics]


@given(descriptors)
def test_word_has_each_field_where_the_ptx_isa_puts_it(descriptor: SmemDescriptor) -> None:
    word = (descriptor.start_address & 0x3FFFF) >> 4
    word += (descriptor.leading_byte_offset >> 4) * 2**16
    word += (descriptor.stride_byte_offset >> 4) * 2**32
    word += descriptor.base_offset * 2**49
    word += SWIZZLE_CODES[descriptor.swizzle] * 2**62
    assert descriptor.encode() == word
    assert SmemDescriptor.decode(word) == descriptor


@given(st.integers(0, 2**64 - 1))
def test_decode_takes_exactly_the_words_without_reserved_bits(word: int) -> None:
    assert SmemDescriptor.decode(word & FIELD_BITS).encode() == word & FIELD_BITS
    if word & ~FIELD_BITS:
        with pytest.raises(DiagnosticError) as error:
            SmemDescriptor.decode(word)
        assert broken(error) == ["descriptor.reserved-bits"]


@pytest.mark.parametrize("bit", [bit for bit in range(64) if not FIELD_BITS >> bit & 1])
def test_each_reserved_bit_is_named_and_masked(bit: int) -> None:
    with pytest.raises(DiagnosticError, match=rf"reserved bits set: {bit}\n"):
        SmemDescriptor.decode(1 << bit)
    assert WORD.encode({}, into=2**64 - 1) & 1 << bit == 0


def test_runs_of_reserved_bits_are_named_as_ranges() -> None:
    with pytest.raises(DiagnosticError, match=r"reserved bits set: 14-15, 46, 52-61\n"):
        SmemDescriptor.decode(0b11 << 14 | 1 << 46 | 0x3FF << 52)


@pytest.mark.parametrize("word", [-1, 1 << 64])
def test_decode_refuses_what_is_no_64_bit_word(word: int) -> None:
    with pytest.raises(DiagnosticError) as error:
        SmemDescriptor.decode(word)
    assert broken(error) == ["descriptor.range"]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("value", "rule"),
    [
        *((value, None) for value in (0, 16, 0x3FFF0)),
        *((value, "descriptor.range") for value in (-16, -1, 0x3FFF1, 0x40000)),
        *((value, "descriptor.alignment") for value in (1, 8, 24, 0x3FFEF)),
    ],
)
def test_every_byte_field_is_checked(place: int, value: int, rule: str | None) -> None:
    start, leading, stride = (value if position == place else 16 for position in range(3))
    if rule is None:
        assert SmemDescriptor(start, leading, stride).encode() >> 16 * place & 0xFFFF == value // 16
        return
    with pytest.raises(DiagnosticError, match=str(value)) as error:
        SmemDescriptor(start, leading, stride)
    assert broken(error) == [rule]


@pytest.mark.parametrize("base_offset", [-1, 8])
def test_base_offset_has_three_bits(base_offset: int) -> None:
    assert SmemDescriptor(0, 0, 0, 7).encode() == 7 << 49
    with pytest.raises(DiagnosticError, match="0 to 7"):
        SmemDescriptor(0, 0, 0, base_offset)


def test_all_wrong_fields_are_told_together_at_the_line_that_gave_them() -> None:
    with pytest.raises(DiagnosticError) as error:
        SmemDescriptor(-16, 8, 1 << 18, 9)
    assert broken(error) == ["descriptor.range", "descriptor.alignment", "descriptor.range", "descriptor.range"]
    locations = {diagnostic.location.file for diagnostic in error.value.diagnostics if diagnostic.location}
    assert locations == {__file__}


@given(descriptors, st.integers(0, 0x3FFF))
def test_template_takes_the_address_at_run_time(descriptor: SmemDescriptor, chunk: int) -> None:
    address = chunk * 16 + 0x7000_0000_0000
    filled = descriptor.template_word | (address & ADDRESS_MASK) >> ADDRESS_SHIFT
    expected = SmemDescriptor.decode(filled)
    assert expected.start_address == chunk * 16
    assert (expected.encode() ^ descriptor.encode()) >> 14 == 0


@given(descriptors, st.integers(-(2**19), 2**19))
def test_advance_is_one_addition_or_refused(descriptor: SmemDescriptor, stride: int) -> None:
    word, end = descriptor.encode(), descriptor.start_address + stride
    wrong = "advance-unit" if stride % 16 else "" if 0 <= end < 2**18 else "advance-carry"
    if wrong:
        with pytest.raises(DiagnosticError) as error:
            advance(word, stride)
        assert broken(error) == [f"descriptor.{wrong}"]
    else:
        assert advance(word, stride) == word + stride // 16 == descriptor.advance(stride).encode()
        assert SmemDescriptor.decode(advance(word, stride)).start_address == end


@given(descriptors, st.data())
def test_advances_within_the_field_always_succeed_and_undo(descriptor: SmemDescriptor, data: st.DataObject) -> None:
    stride = 16 * data.draw(chunks) - descriptor.start_address
    moved = advance(descriptor.encode(), stride)
    assert moved - descriptor.encode() == advance_units(stride) == stride // 16
    assert advance(moved, -stride) == descriptor.encode()


def test_advance_names_the_edges_of_the_field() -> None:
    with pytest.raises(DiagnosticError, match=r"from shared address 262128 ends at 262144, outside.*0 to 262128"):
        SmemDescriptor(0x3FFF0, 16, 16).advance(16)
    with pytest.raises(DiagnosticError, match="0 to 262128 bytes are possible"):
        SmemDescriptor(0, 16, 16).advance(-16)


def test_advance_refuses_a_word_with_reserved_bits() -> None:
    with pytest.raises(DiagnosticError) as error:
        advance(1 << 15, 16)
    assert broken(error) == ["descriptor.reserved-bits"]


@pytest.mark.parametrize("stride", [-17, -8, 1, 24])
def test_advance_units_refuses_elements_and_shifted_strides(stride: int) -> None:
    with pytest.raises(DiagnosticError, match=f"{stride // 16 * 16} and {stride // 16 * 16 + 16} are the nearest"):
        advance_units(stride)


@given(swizzles, st.integers(0, 2**18 - 1))
def test_swizzle_is_the_documented_xor_and_an_involution(swizzle: SwizzleMode, address: int) -> None:
    swizzled = address ^ ((address >> 3) & SWIZZLE_MASKS[swizzle])
    assert swizzle.apply(address) == swizzled
    assert swizzle.apply(swizzled) == address


@pytest.mark.parametrize("swizzle", SwizzleMode)
def test_swizzle_repeats_after_its_period_and_not_sooner(swizzle: SwizzleMode) -> None:
    width = SWIZZLE_WIDTHS[swizzle]
    pattern = [swizzle.apply(address) - address for address in range(0, 4096, 16)]
    shorter = [step for step in range(1, 128) if pattern[step:] == pattern[:-step]]
    assert shorter[0] * 16 == swizzle.period
    assert swizzle.period == {16: 16, 32: 256, 64: 512, 128: 1024}[width]
    assert (swizzle.bytes, swizzle.span) == (width, 0 if width == 16 else width)
    assert SwizzleMode.from_code(SWIZZLE_CODES[swizzle]) is swizzle


# The seed's word.

WORKED_EXAMPLE = 0x0010_0000_0200_1000


def test_worked_example_of_the_seed_goes_round() -> None:
    fields = TileirasDescriptor(start_addr=0x1000, lbo=2048, sbo=0, base_offset=0, swizzle_mode=SwizzleMode.B128)
    assert fields.encode() == WORKED_EXAMPLE
    assert TileirasDescriptor.decode(WORKED_EXAMPLE) == fields


@given(st.integers(0, 2**64 - 1))
def test_seed_word_refuses_its_reserved_and_padding_bits(word: int) -> None:
    fields = TileirasDescriptor.decode(word & SEED_BITS)
    composed = fields.start_addr | fields.lbo << 14 | fields.sbo << 30 | fields.base_offset << 46
    assert composed | SWIZZLE_CODES[fields.swizzle_mode] << 52 == fields.encode() == word & SEED_BITS
    if word & ~SEED_BITS:
        with pytest.raises(DiagnosticError) as error:
            TileirasDescriptor.decode(word)
        assert broken(error) == ["descriptor.reserved-bits"]


@pytest.mark.parametrize(
    ("field", "limit"), [("start_addr", 1 << 14), ("lbo", 1 << 16), ("sbo", 1 << 16), ("base_offset", 8)]
)
def test_seed_word_refuses_what_its_constructor_would_cut(field: str, limit: int) -> None:
    values: dict[str, Any] = {"start_addr": 0, "lbo": 0, "sbo": 0}
    widest = TileirasDescriptor(**{**values, field: limit - 1})
    assert getattr(TileirasDescriptor.decode(widest.encode()), field) == limit - 1
    for value in (-1, limit):
        with pytest.raises(DiagnosticError, match=f"{field} = {value} ") as error:
            TileirasDescriptor(**{**values, field: value})
        assert broken(error) == ["descriptor.range"]


def test_worked_example_as_the_hardware_needs_it() -> None:
    hardware = TileirasDescriptor.decode(WORKED_EXAMPLE).to_hardware()
    assert hardware == SmemDescriptor(0x10000, 2048, 0, 0, SwizzleMode.B128)
    assert hardware.encode() == 0x4000_0000_0080_1000
    with pytest.raises(DiagnosticError, match="reserved bits set: 52"):
        SmemDescriptor.decode(WORKED_EXAMPLE)


@given(descriptors)
def test_conversion_goes_round_where_the_seed_word_is_wide_enough(descriptor: SmemDescriptor) -> None:
    strides = (descriptor.leading_byte_offset, descriptor.stride_byte_offset)
    if max(strides) > 65535:
        with pytest.raises(DiagnosticError) as error:
            TileirasDescriptor.from_hardware(descriptor)
        assert broken(error) == ["descriptor.range"] * sum(stride > 65535 for stride in strides)
        return
    seed = TileirasDescriptor.from_hardware(descriptor)
    assert (seed.start_addr * 16, seed.lbo, seed.sbo) == (descriptor.start_address, *strides)
    assert TileirasDescriptor.decode(seed.encode()).to_hardware() == descriptor


def test_conversion_refuses_a_stride_that_the_hardware_word_can_not_hold() -> None:
    with pytest.raises(DiagnosticError) as error:
        TileirasDescriptor(0, 2049, 8).to_hardware()
    assert broken(error) == ["descriptor.alignment"] * 2


# The schema itself, on a word that is nobody's.

TOY = PackedWord(
    "toy word",
    32,
    (
        Field("version", 4, 2, "always 1", values=(1,)),
        Field("n", 17, 6, "columns", unit=8),
        Field("mode", 29, 3, "swizzle", values=(0, 1, 2, 4, 6)),
    ),
)


def test_toy_word_encodes_in_the_users_units() -> None:
    word = TOY.encode({"n": 256, "version": 1, "mode": 6})
    assert word == 1 << 4 | 256 // 8 << 17 | 6 << 29
    assert TOY.decode(word) == {"version": 1, "n": 256, "mode": 6}
    assert TOY.reserved_mask == 0xFFFF_FFFF ^ (0b11 << 4 | 0x3F << 17 | 0b111 << 29)


def test_into_keeps_the_other_fields_and_clears_reserved_bits() -> None:
    word = TOY.encode({"n": 64}, into=1 << 4 | 1 << 30 | 0xF00F)
    assert TOY.decode(word) == {"version": 1, "n": 64, "mode": 2}


def test_a_value_that_is_not_in_the_list_is_refused_both_ways() -> None:
    with pytest.raises(DiagnosticError, match=r"toy word: mode = 3 .* is not 0 or 1 or 2 or 4 or 6"):
        TOY.encode({"version": 1, "mode": 3})
    with pytest.raises(DiagnosticError, match=r"version = 0 \(always 1\) is not 1"):
        TOY.decode(0)


def test_table_lists_bits_fields_and_values() -> None:
    assert TOY.table().splitlines()[2:] == [
        "| 4-5 | version | always 1 | 1 |",
        "| 17-22 | n | columns | 0 to 504 by 8 |",
        "| 29-31 | mode | swizzle | 0 or 1 or 2 or 4 or 6 |",
    ]


@pytest.mark.parametrize(
    "fields", [(Field("late", 31, 2, ""),), (Field("over", 21, 2, ""), *TOY.fields)], ids=["leaves", "overlaps"]
)
def test_a_schema_whose_fields_collide_can_not_be_declared(fields: tuple[Field, ...]) -> None:
    with pytest.raises(ValueError, match="overlaps another or leaves the word"):
        PackedWord("broken", 32, fields)
