"""The two constraints on a tile's extents: as the CUTLASS WGMMA notes work them out, and beside plain counting."""

from __future__ import annotations

import itertools
import re

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, ElementType, Major, SwizzleMode, bf16, e4m3, f16, f32, s8, tf32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.layout import check_tile, desc_layout, gmma_atom
from nvbackend.layout.descriptors.tile_atoms import tile_faults

BYTES = {SwizzleMode.NONE: 16, SwizzleMode.B32: 32, SwizzleMode.B64: 64, SwizzleMode.B128: 128}


def broken(
    major: Major, swizzle: SwizzleMode, element: ElementType, tile: tuple[int, int], instruction: tuple[int, int]
) -> list[str]:
    return [found.rule_id for found in tile_faults(major, swizzle, element, tile, instruction)]


def test_bm_32_with_sw32_passes_one_and_fails_the_other() -> None:
    assert broken(Major.MN, SwizzleMode.B32, f16, (32, 64), (64, 16)) == ["tile.mma-atom"]
    assert broken(Major.MN, SwizzleMode.B32, f16, (32, 64), (32, 16)) == []
    with pytest.raises(DiagnosticError, match=r"32 rows are not a whole number of the 64 .*though .*atom's 16"):
        check_tile(Major.MN, SwizzleMode.B32, f16, (32, 64), (64, 16))


@pytest.mark.parametrize("extent", [10**18 + 1, 10**400 + 1])
def test_extents_beyond_the_numbers_of_a_float_are_refused(extent: int) -> None:
    """The nearest whole number of atoms is that of integers: floats round it, or have none so large."""
    found = list(tile_faults(Major.MN, SwizzleMode.B32, f16, (extent, 64), (64, 16)))
    nearest = str(-(-extent // 64) * 64)
    shown = nearest if len(nearest) < 40 else f"{nearest[:8]}... ({len(nearest)} digits)"
    assert [one.rule_id for one in found] == ["tile.mma-atom", "tile.swizzle-atom"]
    assert all(f"use {shown} rows" in one.fix for one in found)
    with pytest.raises(DiagnosticError, match=re.escape(shown)):
        nvb.SmemLayout(Major.K, SwizzleMode.B128, f16, 8, extent)


def test_fp8_with_sw128_mn_major_needs_128_rows_and_is_k_major_only() -> None:
    """The notes' example of the swizzle's constraint; wgmma reads no fp8 MN-major at all, which is said besides."""
    assert broken(Major.MN, SwizzleMode.B128, e4m3, (64, 64), (64, 32)) == ["layout.major", "tile.swizzle-atom"]
    assert broken(Major.MN, SwizzleMode.B128, e4m3, (128, 64), (64, 32)) == ["layout.major"]
    found = list(tile_faults(Major.MN, SwizzleMode.B128, e4m3, (64, 64), (64, 32)))[1]
    assert "64 rows are not a whole number of the 128 of the swizzle atom (_128,_8):(_1,_128)" in found.message
    assert "though a multiple of the 64 that one instruction reads" in found.message
    assert "use 128 rows" in found.fix
    assert found.fix.endswith("; or no or 64 B or 32 B swizzle")


@pytest.mark.parametrize("swizzle", SwizzleMode)
def test_the_notes_three_cases_take_128_by_64(swizzle: SwizzleMode) -> None:
    """Cases A to C: NT, f16, m64n64k16, bM = bN = 128, bK = 64."""
    assert broken(Major.MN, swizzle, f16, (128, 64), (64, 16)) == []


def test_both_are_told_together() -> None:
    found = broken(Major.K, SwizzleMode.B128, f16, (60, 40), (64, 16))
    assert found == ["tile.mma-atom", "tile.swizzle-atom", "tile.mma-atom", "tile.swizzle-atom"]


@pytest.mark.parametrize("element", [f16, bf16, s8, e4m3, tf32], ids=str)
@pytest.mark.parametrize("swizzle", SwizzleMode)
@pytest.mark.parametrize("major", Major, ids=str)
def test_each_constraint_is_what_counting_says(major: Major, swizzle: SwizzleMode, element: ElementType) -> None:
    """Tiles filled by instructions, and by atoms: 8 lines of as many bytes as the swizzle's name says."""
    k, wide = 256 // element.bits, BYTES[swizzle] * 8 // element.bits
    atom = (8, wide) if major is Major.K else (wide, 8)
    for rows, columns in itertools.product((0, 8, 16, 32, 48, 64, 96, 128, 192), (0, 8, 16, 32, 48, 64, 128)):
        expected = ["layout.major"] if major is Major.MN and element.bits != 16 else []
        for given, instruction, own in ((rows, 64, atom[0]), (columns, k, atom[1])):
            expected += ["tile.mma-atom"] if given not in range(instruction, 4096, instruction) else []
            expected += ["tile.swizzle-atom"] if given not in range(own, 4096, own) else []
        assert broken(major, swizzle, element, (rows, columns), (64, k)) == expected


def test_the_builder_checks_both_where_it_makes_and_takes_tiles() -> None:
    k = KernelBuilder("tiles", "sm_90a", threads=128, parameters=[])
    mma = k.tiled_mma(nvb.wgmma.mma_async("m64n24k16", f16, f16, f32))
    for make, rules in (
        (lambda: mma.smem_b(64, Major.MN, SwizzleMode.B128), ["tile.swizzle-atom"]),
        (lambda: mma.smem_a(40, Major.K, SwizzleMode.NONE), ["tile.mma-atom"]),
        (lambda: mma.smem_a(32, Major.K, SwizzleMode.B128), ["tile.swizzle-atom"]),
    ):
        with pytest.raises(DiagnosticError) as caught:
            make()
        assert [found.rule_id for found in caught.value.diagnostics] == rules
        assert caught.value.diagnostics[0].location.file == __file__
    a = k.shared_tile(nvb.SmemLayout(Major.MN, SwizzleMode.B32, f16, 32, 64))
    b = k.shared_tile(nvb.SmemLayout(Major.K, SwizzleMode.B32, f16, 40, 64))
    with k.wgmma.group(), pytest.raises(DiagnosticError) as caught:
        mma.accumulate(mma.accumulator(), a, b)
    assert [found.rule_id for found in caught.value.diagnostics] == ["tile.mma-atom", "tile.mma-atom"]


@pytest.mark.parametrize("major", ["K", "MN", None])
def test_a_major_is_not_its_name(major: object) -> None:
    """Any other object would pass for one of the two."""
    swizzled = nvb.SmemDescriptor(0, 16, 1024, 0, SwizzleMode.B128)
    for call in (
        lambda: gmma_atom(major, SwizzleMode.B128, f16),
        lambda: check_tile(major, SwizzleMode.B128, f16, (64, 64), (64, 16)),
        lambda: desc_layout(major, swizzled, f16, (64, 16)),
    ):
        with pytest.raises(DiagnosticError, match="major must be Major, not") as caught:
            call()
        assert [found.rule_id for found in caught.value.diagnostics] == ["call.argument"]
