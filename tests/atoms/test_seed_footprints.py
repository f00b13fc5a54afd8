"""The seed's tables of what a thread has, typed again, and where they disagree with the hardware or with themselves."""

from __future__ import annotations

import pytest

from nvbackend.atoms.seed_footprints import FOOTPRINTS
from nvbackend.layout import size

TABLE = """
SM75_16x8x8_F32F16F16F32_TN A 4 (2,2,2):(8,1,16)
SM75_16x8x8_F32F16F16F32_TN B 2 (2,2):(1,16)
SM75_16x8x8_F32F16F16F32_TN C 4 (2,2,2):(4,1,8)
SM80_16x8x16_F32F16F16F32_TN A 8 (2,2,2,2):(1,16,8,128)
SM80_16x8x16_F32F16F16F32_TN B 4 (2,2,2):(1,8,16)
SM80_16x8x16_F32F16F16F32_TN C 4 (2,2,2):(4,1,8)
SM80_SPARSE_16x8x32_S32S8S8S32_TN A 8 (2,2,2):(1,32,128)
SM80_SPARSE_16x8x32_S32S8S8S32_TN B 8 (2,2,2):(1,16,32)
SM80_SPARSE_16x8x32_S32S8S8S32_TN C 4 (2,2,2):(4,1,8)
SM80_SPARSE_16x8x32_S32S8S8S32_TN E 1 (1):(1)
SM89_16x8x32_F32E4M3E5M2F32_TN A 16 (2,2,2,2):(1,32,16,256)
SM89_16x8x32_F32E4M3E5M2F32_TN B 8 (2,2,2):(1,16,32)
SM89_16x8x32_F32E4M3E5M2F32_TN C 4 (2,2,2):(4,1,8)
"""


@pytest.mark.parametrize("line", TABLE.split("\n")[1:-1])
def test_the_tables(line: str) -> None:
    name, operand, elements, footprint = line.split()
    (found,) = (one for one in FOOTPRINTS if (one.hardware_name, one.operand) == (name, operand))
    assert (found.elements, found.footprint, str(found.layout)) == (int(elements), footprint, footprint)
    assert found.hardware_elements == int(elements)


def test_counts_without_a_footprint() -> None:
    """wgmma: 64 * N / 128. Of sm_120, elements of 4 bits take a byte each where K is 32: 16 and 8, not 8 and 4."""
    found = {(one.hardware_name, one.operand): one for one in FOOTPRINTS if one.footprint is None}
    wgmma = {n: found[f"SM90_64x{n}x16_F32F16F16_SS<Major::K, Major::K>", "C"] for n in (8, 128, 256)}
    assert {n: (one.elements, one.hardware_elements) for n, one in wgmma.items()} == {
        8: (4, 4),
        128: (64, 64),
        256: (128, 128),
    }
    others = [one for one in found.values() if one.elements != one.hardware_elements]
    assert [(one.operand, one.elements, one.hardware_elements) for one in others] == [("A", 8, 16), ("B", 4, 8)]
    assert all("e2m1" in one.hardware_name for one in others)
    assert [one.elements for (name, _), one in found.items() if "e4m3" in name] == [16, 8, 4]


def test_footprints_with_more_elements_than_there_are() -> None:
    """Of accumulators all, of f16 A and B too: twice the count that stands in the same line."""
    twice = [one for one in FOOTPRINTS if one.layout is not None and size(one.layout) != one.elements]
    assert {(one.operand, one.hardware_name.split("_")[0]) for one in twice} == {
        *(("C", tier) for tier in ("SM75", "SM80", "SM89")),
        *((operand, tier) for operand in "AB" for tier in ("SM75", "SM80")),
    }
    assert all(one.layout is not None and size(one.layout) == 2 * one.elements for one in twice)
