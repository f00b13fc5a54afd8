"""The bytes that matrix instructions read by descriptors, held to the simulator's reading of the words' bits."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from nvbackend.dry_run.facts import facts_of
from nvbackend.dry_run.order.footprints import Access, Footprints
from nvbackend.dry_run.seam import Step
from nvbackend.dry_run.when import When
from nvbackend.intrinsics.copy import tcgen05_memory
from nvbackend.intrinsics.mma import tcgen05, wgmma
from nvbackend.intrinsics.row.row import Row
from nvbackend.isel.machine.function import INSTRUCTION_DESCRIPTOR, MachineInstr
from nvbackend.simulator.tensor import descriptors

BITS = {"f16": 16, "tf32": 32, "i8": 8, "f8f6f4": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}
TYPES = {
    "f16": 1 << 4,
    "tf32": 1 << 4 | 2 << 7 | 2 << 10,
    "i8": 2 << 4 | 1 << 7 | 1 << 10,
    "f8f6f4": 1 << 4,
    "mxf8f6f4": 1 << 23,
    "mxf4": 1 << 7 | 1 << 10 | 1 << 23,
    "mxf4nvf4": 1 << 7 | 1 << 10,
}
"""D of f32 or s32, A and B of the kind, its factors, in the instruction descriptor. PTX ISA 9.7.16.4.2."""
SCALED = {"mxf8f6f4": ".block_scale.scale_vec::1X", "mxf4": ".block_scale", "mxf4nvf4": ".block_scale.scale_vec::4X"}
NO_TRANSPOSE = ("i8", "mxf4", "mxf4nvf4")
SWIZZLES = {"tcgen05": (0, 1, 2, 4, 6), "wgmma": (0, 2, 4, 6)}
"""The codes in bits 61 to 63; wgmma has them from bit 62 on."""
ALL_LANES = 0xFFFF_FFFF


@cache
def _row(ptx: str) -> Row:
    family = tcgen05 if ptx.startswith("tcgen05") else wgmma
    return next(row for row in family.rows() if row.ptx == ptx and row.has_operand("a_desc"))


def _accesses(instr: MachineInstr, **values: Any) -> list[Access]:
    step = Step(instr, 0, (0,), ALL_LANES, lambda name, _nth=0: values[name], When, facts_of(instr))
    return [*Footprints(1).of(step)]


def _word(rng: random.Random, family: str) -> int:
    start, leading, stride = (rng.randrange(1 << 10) for _ in range(3))
    version = 1 << 46 if family == "tcgen05" else 0
    return start | leading << 16 | stride << 32 | version | rng.choice(SWIZZLES[family]) << 61


def _chunks(matrix: descriptors.SharedMatrix, rows: int, k_major: bool, bits: int) -> np.ndarray:
    return matrix.chunks(rows, 32, k_major=k_major, bits=bits)


def _places(accesses: list[Access], operand: str) -> list[list[int]]:
    return [np.atleast_1d(one.part.addresses).tolist() for one in accesses if one.part.operand == operand]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("kind", BITS)
def test_tcgen05_reads_the_chunks_of_its_share(kind: str, group: int) -> None:
    rng = random.Random(f"{kind} {group}")
    for transpose_a, transpose_b in [(0, 0), (0, 1), (1, 0), (1, 1)] * 2:
        if kind in NO_TRANSPOSE and transpose_a + transpose_b:
            continue
        m, n = 128 * group, rng.choice((64, 128, 256))
        rows = m // 128 << 27 if kind in SCALED else m // 16 << 24
        packed = TYPES[kind] | transpose_a << 15 | transpose_b << 16 | n // 8 << 17 | rows
        instr = MachineInstr("mma", _row(f"tcgen05.mma.cta_group::{group}.kind::{kind}{SCALED.get(kind, '')}"),
                             words={INSTRUCTION_DESCRIPTOR: packed})  # fmt: skip
        words = {"a_desc": _word(rng, "tcgen05"), "b_desc": _word(rng, "tcgen05")}
        found = _accesses(instr, **words)
        for operand, extent, transposed in (("a_desc", m, transpose_a), ("b_desc", n, transpose_b)):
            matrix = descriptors.of_tcgen05(words[operand])
            assert matrix is not None
            expected = _chunks(matrix, extent // group, not transposed, BITS[kind])
            assert _places(found, operand) == [sorted(set(expected.ravel().tolist()))]
        assert all(one.part.size == 16 and not one.writes and one.rank == -1 for one in found)


@pytest.mark.parametrize(
    ("ptx", "has_words", "absolute"),
    [
        ("tcgen05.mma.sp.cta_group::1.kind::f16", True, False),
        ("tcgen05.mma.ws.cta_group::1.kind::f16", True, False),
        ("tcgen05.mma.cta_group::1.kind::f16", False, False),
        ("tcgen05.mma.cta_group::1.kind::f16", True, True),
        ("wgmma.mma_async.sp.sync.aligned.m64n64k32.f32.f16.f16", True, False),
    ],
)
def test_of_other_matrices_the_first_chunk_is_known(ptx: str, has_words: bool, absolute: bool) -> None:
    rng = random.Random(ptx)
    packed = TYPES["f16"] | 64 // 8 << 17 | 128 // 16 << 24
    instr = MachineInstr("mma", _row(ptx), words={INSTRUCTION_DESCRIPTOR: packed} if has_words else {})
    words = {name: _word(rng, ptx.partition(".")[0]) | absolute << 52 for name in ("a_desc", "b_desc")}
    found = _accesses(instr, **words)
    for operand, word in words.items():
        assert _places(found, operand) == [[(word & 0x3FFF) * 16]]


def test_of_a_k_of_96_the_first_chunk_is_known() -> None:
    packed = TYPES["mxf4nvf4"] | 64 // 8 << 17 | 1 << 27 | 1 << 31
    row = _row("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X")
    instr = MachineInstr("mma", row, words={INSTRUCTION_DESCRIPTOR: packed})
    words = dict.fromkeys(("a_desc", "b_desc"), _word(random.Random(96), "tcgen05"))
    assert _places(_accesses(instr, **words), "a_desc") == [[(words["a_desc"] & 0x3FFF) * 16]]


@pytest.mark.parametrize("row", [row for row in tcgen05_memory.rows() if row.opcode == "tcgen05.cp"], ids=str)
def test_a_copy_to_tensor_memory_reads_the_rows_of_its_shape(row: Row) -> None:
    rng = random.Random(row.ptx)
    word = _word(rng, "tcgen05")
    lanes, bits = (int(one) for one in str(row.axes["shape"]).removesuffix("b").split("x"))
    matrix = descriptors.of_tcgen05(word)
    assert matrix is not None
    expected = matrix.chunks(lanes, bits // 8, k_major=True, bits=8)
    found = _accesses(MachineInstr("cp", row), source=word, tmem=0)
    assert _places(found, "source") == [sorted(set(expected.ravel().tolist()))]
    assert all(one.part.size == 16 and not one.writes for one in found)


@pytest.mark.parametrize(
    ("types", "k", "bits"), [("f32.f16.f16", 16, 16), ("f32.tf32.tf32", 8, 32), ("s32.s8.s8", 32, 8)]
)
def test_wgmma_reads_the_rows_of_each_warp(types: str, k: int, bits: int) -> None:
    rng = random.Random(types)
    row = _row(f"wgmma.mma_async.sync.aligned.m64n128k{k}.{types}")
    for transpose_a, transpose_b in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        if bits != 16 and transpose_a + transpose_b:
            continue
        instr = MachineInstr("wgmma", row, immediates={"trans_a": transpose_a, "trans_b": transpose_b})
        words = {"a_desc": _word(rng, "wgmma"), "b_desc": _word(rng, "wgmma")}
        found = _accesses(instr, **words)
        a, b = (descriptors.of_wgmma(word) for word in words.values())
        rows_of_a = _chunks(a, 64, not transpose_a, bits)
        parts = [rows_of_a] if transpose_a else np.split(rows_of_a, 4)
        assert _places(found, "a_desc") == [sorted(set(part.ravel().tolist())) for part in parts]
        assert [one.warp for one in found if one.part.operand == "a_desc"] == ([None] if transpose_a else [0, 1, 2, 3])
        expected = _chunks(b, 128, not transpose_b, bits)
        assert _places(found, "b_desc") == [sorted(set(expected.ravel().tolist()))]
