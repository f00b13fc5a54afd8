"""Tiles of 4 and 6 bits with padding: 16 elements, then padding to 16 bytes, as a matrix of bytes is laid out."""

from __future__ import annotations

import itertools

import numpy
import pytest

from nvbackend import DiagnosticError, Major, SmemLayout, SwizzleMode, e2m1, e2m3, e3m2, f16, u8

ELEMENTS = (e2m1, e2m3, e3m2)


def codes_of(layout: SmemLayout) -> numpy.ndarray:
    return numpy.random.default_rng(5).integers(0, 1 << layout.element.bits, (layout.rows, layout.columns), numpy.uint8)


def stored(codes: numpy.ndarray, bits: int) -> numpy.ndarray:
    """As NumPy holds them: two of 4 bits in a byte, the first in the lower half; one of 6 bits in each."""
    return codes[:, ::2] | codes[:, 1::2] << 4 if bits == 4 else codes


@pytest.mark.parametrize("swizzle", SwizzleMode)
@pytest.mark.parametrize("element", ELEMENTS)
def test_a_chunk_has_sixteen_elements_and_padding(element, swizzle):
    layout = SmemLayout(Major.K, swizzle, element, 16, 256, padded=True)
    like = SmemLayout(Major.K, swizzle, u8, 16, 256)
    codes = codes_of(layout)
    image = layout.arrange(stored(codes, element.bits))
    assert (layout.bytes, layout.alignment, layout.descriptor().encode()) == (
        like.bytes,
        like.alignment,
        like.descriptor().encode(),
    )
    for row, chunk in itertools.product(range(16), range(0, 256, 16)):
        start = like.offset(row, chunk)
        number = sum(int(code) << element.bits * place for place, code in enumerate(codes[row, chunk : chunk + 16]))
        assert int.from_bytes(bytes(image[start : start + 16]), "little") == number
        for place in range(16):
            assert layout.offset(row, chunk + place) == start + place * element.bits // 8
    assert numpy.array_equal(layout.gather(image), stored(codes, element.bits))


@pytest.mark.parametrize("element", ELEMENTS)
def test_steps_are_those_of_bytes(element):
    layout = SmemLayout(Major.K, SwizzleMode.B128, element, 128, 256, padded=True)
    like = SmemLayout(Major.K, SwizzleMode.B128, u8, 128, 256)
    assert layout.k_steps(32) == like.k_steps(32)
    assert layout.reach(0, 32, 128, 32) == like.reach(0, 32, 128, 32)
    assert str(layout.layout) == str(like.layout)


def test_only_elements_of_four_and_six_bits_are_padded():
    with pytest.raises(DiagnosticError, match="have no padding") as error:
        SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64, padded=True)
    assert [one.rule_id for one in error.value.diagnostics] == ["layout.element"]
    with pytest.raises(DiagnosticError, match="padded=True"):
        SmemLayout(Major.K, SwizzleMode.B128, e2m3, 64, 128)
    with pytest.raises(DiagnosticError, match=r"layout\.major"):
        SmemLayout(Major.MN, SwizzleMode.B128, e2m1, 256, 128, padded=True)
