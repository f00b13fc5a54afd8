"""Where wgmma finds an element of an operand, from the fields of its descriptor: the formulas measured on an H200.

Written down apart from the library, whose tables say the same in another way.
"""

from __future__ import annotations

from nvbackend.layout import Layout

CORE_MATRICES = {"NONE": 1, "B32": 2, "B64": 4, "B128": 8}
"""Core matrices in a row of the swizzle pattern."""
MASKS = {"NONE": 0, "B32": 0x10, "B64": 0x30, "B128": 0x70}


def swizzled(mode: str, address: int) -> int:
    """The address of a byte that would lie at `address` without swizzle."""
    return address ^ (address >> 3 & MASKS[mode])


def linear(k_major: bool, mode: str, bits: int, place: tuple[int, int], lbo: int, sbo: int) -> int:
    """Bytes from the operand's start to element (r, k), before the swizzle; LBO and SBO in bytes."""
    row, column = place
    per_chunk, wide = 128 // bits, CORE_MATRICES[mode]
    if k_major:
        chunk, inside = divmod(column, per_chunk)
        along = chunk * lbo if mode == "NONE" else chunk * 16
        return row % 8 * 16 * wide + row // 8 * sbo + along + inside * bits // 8
    chunk, inside = divmod(row, per_chunk)
    if mode == "NONE":
        return chunk * sbo + inside * bits // 8 + column % 8 * 16 + column // 8 * lbo
    return chunk % wide * 16 + chunk // wide * lbo + inside * bits // 8 + column % 8 * 16 * wide + column // 8 * sbo


def address(
    k_major: bool, mode: str, bits: int, place: tuple[int, int], start: int, lbo: int, sbo: int, base: int = 0
) -> int:
    """The shared address of element (r, k). The pattern starts `base` * 128 bytes behind a multiple of its period."""
    shift = base * 128
    return swizzled(mode, start - shift + linear(k_major, mode, bits, place, lbo, sbo)) + shift


def operand_layout(k_major: bool, mode: str, bits: int, shape: tuple[int, int], lbo: int, sbo: int) -> Layout:
    """The terms of `linear` as a layout of elements, any LBO and SBO in bytes."""
    chunk, wide, (rows, columns) = 128 // bits, CORE_MATRICES[mode], shape
    pitch, lbo, sbo = wide * chunk, lbo * 8 // bits, sbo * 8 // bits
    if k_major:
        along = lbo if mode == "NONE" else chunk
        return Layout(((8, rows // 8), (chunk, columns // chunk)), ((pitch, sbo), (1, along)))
    inner = min(wide, rows // chunk)
    steps = (sbo, lbo) if mode == "NONE" else (lbo, sbo)
    return Layout(
        ((chunk, inner, rows // chunk // inner), (8, columns // 8)), ((1, chunk, steps[0]), (pitch, steps[1]))
    )
