"""What wgmma and tcgen05.mma do with their descriptors: products of f16 by NumPy, places by the PTX ISA's formulas.

Words are taken apart here by the bits of PTX ISA 9.7.15.5.1.2.2, 9.7.16.4.1 and 9.7.16.4.2, and never by the package.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nvbackend.intrinsics.row.row import Row
from tests.support import smem_addresses

ROWS = 64
WARPGROUP = 128
_WGMMA_SWIZZLES = {0: "NONE", 1: "B128", 2: "B64", 3: "B32"}
_TCGEN05_SWIZZLES = {0: "NONE", 2: "B128", 4: "B64", 6: "B32"}


def operand(memory: np.ndarray, word: int, rows: int, columns: int, *, k_major: bool, tcgen05: bool) -> np.ndarray:
    """The f16 matrix (rows, k) that a descriptor stands for."""
    start, lbo, sbo = ((word >> at & 0x3FFF) * 16 for at in (0, 16, 32))
    mode = _TCGEN05_SWIZZLES[word >> 61 & 7] if tcgen05 else _WGMMA_SWIZZLES[word >> 62 & 3]
    base = word >> 49 & 7
    found = np.zeros((rows, columns))
    for place in np.ndindex(rows, columns):
        address = smem_addresses.address(k_major, mode, 16, (place[0], place[1]), start, lbo, sbo, base)
        found[place] = memory[address : address + 2].view(np.float16)[0]
    return found


def cell(thread: int, index: int) -> tuple[int, int]:
    """Row and column of element `index` of a thread, of D and of A in registers. PTX ISA 9.7.15.5.1.1."""
    row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (index // 2 % 2)
    return row, 8 * (index // 4) + 2 * (thread % 4) + index % 2


def wgmma(row: Row, given: list[dict[str, Any]], memory: np.ndarray) -> list[dict[str, Any]]:
    """m64nNk16 of f16 with f32 accumulators: the answers of the 128 threads."""
    first, registers = given[0], len(given[0]["d"])
    n = registers * 2
    assert f"m64n{n}k16.f32.f16.f16" in row.ptx, row.ptx
    same = [(one.get("a_desc"), one["b_desc"], one["scale_d"]) for one in given]
    assert len(set(same)) == 1, "the threads of a warpgroup give other descriptors"
    if "a" in first:
        a = np.zeros((ROWS, 16))
        for thread, one in enumerate(given):
            halves = np.array(one["a"], np.uint32).view(np.float16)
            for index, value in enumerate(halves):
                a[cell(thread, index)] = value
    else:
        a = operand(memory, first["a_desc"], ROWS, 16, k_major=first["trans_a"] == 0, tcgen05=False)
    b = operand(memory, first["b_desc"], n, 16, k_major=first["trans_b"] == 0, tcgen05=False)
    product = first["scale_a"] * a @ (first["scale_b"] * b).T
    answers = []
    for thread, one in enumerate(given):
        own = np.array([product[cell(thread, index)] for index in range(registers)], np.float32)
        if first["scale_d"]:
            own = own + np.array(one["d"], np.uint32).view(np.float32)
        answers.append({"d": [int(bits) for bits in own.view(np.uint32)], "scale_out": [1]})
    return answers


def tcgen05(row: Row, given: dict[str, Any], memory: np.ndarray, tmem: np.ndarray) -> None:
    """kind::f16 of one CTA with f32 accumulators, which are in `tmem`: lanes by columns. PTX ISA 9.7.16.10.5."""
    assert row.ptx.startswith("tcgen05.mma.cta_group::1.kind::f16"), row.ptx
    idesc, columns = given["idesc"], given["d"]
    m, n = (idesc >> 24 & 31) * 16, (idesc >> 17 & 63) * 8
    lane, columns = columns >> 16, columns & 0xFFFF
    assert idesc >> 4 & 3 == 1
    signs = [-1 if idesc >> bit & 1 else 1 for bit in (13, 14)]
    words = given["a_desc"], given["b_desc"]
    a, b = (
        sign * operand(memory, word, rows, 16, k_major=not idesc >> bit & 1, tcgen05=True)
        for word, rows, bit, sign in zip(words, (m, n), (15, 16), signs, strict=True)
    )
    lanes = [lane + one for one in lanes_of(m)]
    held = tmem[lanes, columns : columns + n] if given["enable_d"] & 1 else 0
    tmem[lanes, columns : columns + n] = a @ b.T + held


def lanes_of(m: int) -> list[int]:
    """The lanes of the rows of D: each in its own, or 16 in the first half of each warp's."""
    assert m in (64, 128)
    return [row if m == 128 else row % 16 + 32 * (row // 16) for row in range(m)]
