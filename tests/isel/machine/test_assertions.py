"""The text of an assertion that failed: each kind of value is read from its word, and printed as Python prints it."""

from __future__ import annotations

import struct

import pytest

from nvbackend import bf16, f16, f32, f64, s32, s64, tf32, u8, u32, u64
from nvbackend.isel.machine.assertions import ADDRESS, Assertion


def word(number: float) -> int:
    """The record holds every float as a double."""
    return int.from_bytes(struct.pack("<d", number), "little")


SHOWN = [
    (ADDRESS, 0x1F00, "0x1f00"),
    (u8, 255, "255"),
    (u32, (1 << 32) - 1, "4294967295"),
    (u64, (1 << 64) - 1, "18446744073709551615"),
    (s32, (1 << 64) - 5, "-5"),
    (s64, 1 << 63, "-9223372036854775808"),
    (s64, (1 << 63) - 1, "9223372036854775807"),
    (f16, word(0.333251953125), "0.333252"),
    (bf16, word(1.0), "1"),
    (f32, word(0.100000001490116), "0.100000001"),
    (tf32, word(0.100000001490116), "0.100000001"),
    (f64, word(0.1), "0.1"),
    (f64, word(1 / 3), "0.3333333333333333"),
]


@pytest.mark.parametrize(("kind", "recorded", "text"), SHOWN)
def test_a_value_is_shown_by_its_kind(kind: object, recorded: int, text: str) -> None:
    assert Assertion("assert", "it is {}", (kind,), None).shown([recorded]) == f"it is {text}"


def test_a_format_of_the_program_goes_before_the_kinds_own() -> None:
    kinds = (ADDRESS, f32, f64, u32)
    text = Assertion("assert", "{:d} {:.2f} {:.1f} {:x}", kinds, None).shown([16, word(0.125), word(2.0), 255])
    assert text == "16 0.12 2.0 ff"


def test_what_was_known_takes_no_word() -> None:
    assert Assertion("assert", "{} of {} and {}", (u32, "many", s32), None).shown([3, 4]) == "3 of many and 4"
