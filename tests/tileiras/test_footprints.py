"""The seed's tables of what a thread has, typed again, and where they disagree with the hardware or with themselves."""

from __future__ import annotations

import pytest

from nvbackend import DiagnosticError, Major, SwizzleMode, f16
from nvbackend.layout import make_gmma_desc, parse, size
from nvbackend.tileiras.footprints import FOOTPRINTS

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


MEMORY = """
SM90_64x8x16_F32F16F16_SS<Major::K, Major::K>;A;1024;(64,16):(16,1)
SM90_64x8x16_F32F16F16_SS<Major::K, Major::K>;B;128;(16,8):(8,1)
SM90_64x8x16_F32F16F16_SS<Major::K, Major::K>;C;4;
SM90_64x128x16_F32F16F16_SS<Major::K, Major::K>;A;1024;(64,16):(16,1)
SM90_64x128x16_F32F16F16_SS<Major::K, Major::K>;B;2048;(16,128):(128,1)
SM90_64x128x16_F32F16F16_SS<Major::K, Major::K>;C;64;
SM90_64x256x16_F32F16F16_SS<Major::K, Major::K>;C;128;
SM100_MMA_F16BF16_SS<half_t, half_t, float, 64, 256, Major::K, Major::K>;A;1024;(64,16):(16,1)
SM100_MMA_F16BF16_SS<half_t, half_t, float, 64, 256, Major::K, Major::K>;B;4096;(16,256):(256,1)
SM100_MMA_F16BF16_SS<half_t, half_t, float, 64, 256, Major::K, Major::K>;D;16384;
SM100_MMA_MXF4_SS<float_e2m1_t, float_e2m1_t, float, float_ue8m0_t, 128, 64, 32, Major::K, Major::K>;A;8192;
SM100_MMA_MXF4_SS<float_e2m1_t, float_e2m1_t, float, float_ue8m0_t, 128, 64, 32, Major::K, Major::K>;B;4096;
SM100_MMA_MXF4_SS<float_e2m1_t, float_e2m1_t, float, float_ue8m0_t, 128, 64, 32, Major::K, Major::K>;D;8192;
SM100_MMA_MXF4_SS<float_e2m1_t, float_e2m1_t, float, float_ue8m0_t, 128, 64, 32, Major::K, Major::K>;SFA;256;
SM100_MMA_MXF4_SS<float_e2m1_t, float_e2m1_t, float, float_ue8m0_t, 128, 64, 32, Major::K, Major::K>;SFB;128;
"""


@pytest.mark.parametrize("line", MEMORY.split("\n")[1:-1])
def test_the_tables_of_operands_in_shared_and_tensor_memory(line: str) -> None:
    """Their counts are those of the hardware."""
    name, operand, elements, footprint = line.split(";")
    (found,) = (one for one in FOOTPRINTS if (one.hardware_name, one.operand) == (name, operand))
    assert (found.elements, found.footprint or "") == (int(elements), footprint)
    assert found.hardware_elements == int(elements)


def test_the_counts_that_are_not_the_hardwares() -> None:
    """m8n8k4 has 4 of A and 4 of B a thread; elements of 4 bits take a byte each where K is 32: 16 and 8."""
    others = [one for one in FOOTPRINTS if one.elements != one.hardware_elements]
    assert [(one.hardware_name.split("_")[0], one.operand, one.elements, one.hardware_elements) for one in others] == [
        ("SM70", "A+B", 4, 8),
        ("SM120", "A", 8, 16),
        ("SM120", "B", 4, 8),
    ]
    assert "e2m1" in others[1].hardware_name
    assert [one.elements for one in FOOTPRINTS if "e4m3" in one.hardware_name] == [16, 8, 4, 1, 1]


def test_the_layouts_that_descriptors_encode() -> None:
    """No descriptor has these layouts with a swizzle of 128 bytes: its rows of f16 are 64 elements wide."""
    lines = {(one.operand, one.footprint) for one in FOOTPRINTS if "SM90_64x128" in one.hardware_name}
    assert lines == {("A", "(64,16):(16,1)"), ("B", "(16,128):(128,1)"), ("C", None)}
    for major, text, legal in (
        (Major.K, "Sw<3,4,3> o smem_ptr o (_64,_16):(_16,_1)", False),
        (Major.K, "Sw<3,4,3> o smem_ptr o (_64,_16):(_64,_1)", True),
        (Major.K, "Sw<1,4,3> o smem_ptr o (_64,_16):(_16,_1)", True),
        (Major.MN, "Sw<3,4,3> o smem_ptr o (_128,_16):(_1,_128)", False),
        (Major.MN, "Sw<3,4,3> o smem_ptr o (_64,_16):(_1,_64)", True),
    ):
        if legal:
            assert make_gmma_desc(major, parse(text), f16).swizzle is not SwizzleMode.NONE
            continue
        with pytest.raises(DiagnosticError) as caught:
            make_gmma_desc(major, parse(text), f16)
        assert all(one.rule_id.startswith(("descriptor.", "layout")) for one in caught.value.diagnostics)


def test_footprints_with_more_elements_than_there_are() -> None:
    """Of accumulators all, of f16 A and B too: twice the count that stands in the same line."""
    twice = [one for one in FOOTPRINTS if one.layout is not None and size(one.layout) != one.elements]
    assert all("_16x8x" in one.hardware_name for one in twice)
    assert {(one.operand, one.hardware_name.split("_")[0]) for one in twice} == {
        *(("C", tier) for tier in ("SM75", "SM80", "SM89")),
        *((operand, tier) for operand in "AB" for tier in ("SM75", "SM80")),
    }
    assert all(one.layout is not None and size(one.layout) == 2 * one.elements for one in twice)
