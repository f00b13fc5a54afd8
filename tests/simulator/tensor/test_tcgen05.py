"""tcgen05 in the simulator: each kind of mma, copies and shifts against NumPy.

Cells of tensor memory are those of the builder's maps, addresses in shared memory those of the tests' own formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.maps import tcgen05 as cells
from tests.simulator.tensor.tcgen05_kernel import COLUMNS, LANES, run
from tests.simulator.tensor.test_mma import SMALL
from tests.support import smem_addresses

pytestmark = pytest.mark.sampled(4)

CODES = {
    "f16": {n: int(np.float16(n).view(np.uint16)) for n in range(-3, 4)},
    "bf16": {n: int(np.float32(n).view(np.uint32)) >> 16 for n in range(-3, 4)},
    "tf32": {n: int(np.float32(n).view(np.uint32)) for n in range(-3, 4)},
    "s8": {n: n & 255 for n in range(-3, 4)},
    "u8": {n: n + 3 for n in range(-3, 4)},
    **SMALL,
}
WIDTH = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4}
FORMAT = {
    **{("f16", name): code for code, name in enumerate(("f16", "bf16"))},
    ("tf32", "tf32"): 2,
    **{
        ("f8f6f4", name): code
        for name, code in zip(("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"), (0, 1, 3, 4, 5), strict=True)
    },
    ("i8", "u8"): 0,
    ("i8", "s8"): 1,
    ("mxf4", "e2m1"): 1,
    ("mxf4nvf4", "e2m1"): 1,
}
FORMAT |= {("mxf8f6f4", name): code for (kind, name), code in FORMAT.items() if kind == "f8f6f4"}
K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
A_COLUMN, SCALE_A, SCALE_B, METADATA = 300, 320, 330, 340
"""Columns of what else is in tensor memory."""


@dataclass(frozen=True)
class Case:
    kind: str
    a: str
    b: str
    d: str = "f32"
    m: int = 128
    n: int = 32
    ctas: int = 1
    ws: bool = False
    sparse: bool = False
    a_in_tensor: bool = False
    mn_major: bool = False
    adds: bool = True
    scale: str = ""

    @property
    def k(self):
        return K[self.kind] * (2 if self.sparse else 1)

    @property
    def width(self):
        return 8 if self.kind in ("f8f6f4", "mxf8f6f4") else WIDTH[self.a]


def numbers(shape, seed, name):
    found = np.random.default_rng(seed).integers(-3, 4, shape)
    return np.array([[CODES[name][n] for n in row] for row in found.tolist()], np.uint64), (
        found + 3 if name == "u8" else found
    ).astype(float)


def image(codes, case, name, mn_major):
    """Bytes of an operand without swizzle, LBO and SBO."""
    rows, k = codes.shape
    width = case.width
    packed = np.zeros(rows * k * width // 8, np.uint8)
    if mn_major:
        lbo, sbo = rows * width, 128
    else:
        lbo, sbo = rows * 16, 128
    mine = WIDTH[name]
    for row in range(rows):
        if width == 4 or (width == 8 and mine < 8):
            per = 128 // width  # elements of a chunk: packed from its start on, with padding behind them
            for chunk in range(k // per):
                bits = sum(int(c) << (mine * i) for i, c in enumerate(codes[row, chunk * per : (chunk + 1) * per]))
                at = smem_addresses.linear(True, "NONE", 8, (row, chunk * 16), lbo, sbo)
                packed[at : at + 16] = np.frombuffer(bits.to_bytes(16, "little"), np.uint8)
            continue
        for column in range(k):
            at = smem_addresses.linear(not mn_major, "NONE", width, (row, column), lbo, sbo)
            packed[at : at + width // 8] = np.frombuffer(
                int(codes[row, column]).to_bytes(width // 8, "little"), np.uint8
            )
    return packed, lbo, sbo


def descriptor(start, lbo, sbo):
    return start >> 4 | (lbo >> 4) << 16 | (sbo >> 4) << 32 | 1 << 46


def idesc(case, **extra):
    scaled = case.kind.startswith("mx")
    word = int(case.sparse) << 2 | FORMAT[case.kind, case.a] << 7 | FORMAT[case.kind, case.b] << 10 | case.n >> 3 << 17
    word |= case.m >> 7 << 27 if scaled else case.m >> 4 << 24
    if scaled:
        word |= int(case.scale == "ue8m0") << 23
    else:
        word |= {"f16": 0, "f32": 1, "s32": 2}[case.d] << 4
    word |= (1 << 15 | 1 << 16) if case.mn_major else 0
    for bit in extra.values():
        word |= bit
    return word


def sparse_a(case):
    """A as stored, in full, and the code of each chunk."""
    pair = 2 if case.width == 4 else 1
    units, kept = (2, 1) if case.width == 32 else (4, 2)
    chunks = case.k // (units * pair)
    random = np.random.default_rng(3)
    places = np.sort(np.argsort(random.random((case.m, chunks, units)), axis=2)[..., :kept], axis=2)
    codes, values = numbers((case.m, case.k // 2), 4, case.a)
    full = np.zeros((case.m, chunks, units, pair))
    np.put_along_axis(full, places[..., None], values.reshape(case.m, chunks, kept, pair), axis=2)
    first, second = (2 * places[..., 0], 2 * places[..., 0] + 1) if kept == 1 else (places[..., 0], places[..., 1])
    return codes, full.reshape(case.m, case.k), first | second << 2


def d_cell(case, row, column):
    return cells.accumulator_cell(
        case.m, case.n, row, column, cta_group=case.ctas, weight_stationary=case.ws, sparse=case.sparse
    )


def check(case, factors=0, qualifiers="", masks=None, extra=None, zero=None, first_lane=0, **bits):
    random = np.random.default_rng(1)
    own = case.m // case.ctas
    if case.sparse:
        a_codes, a, metadata = sparse_a(case)
    else:
        (a_codes, a), metadata = numbers((case.m, case.k), 2, case.a), None
    b_codes, b = numbers((case.n, case.k), 5, case.b)
    c = random.integers(-20, 20, (case.m, case.n)).astype(float)
    before = np.full((case.ctas, LANES, COLUMNS), 0x01010101, np.uint32)
    kind = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[case.d]
    words = c.astype(kind).view(f"uint{8 * np.dtype(kind).itemsize}")
    for row, column in np.ndindex(case.m, case.n):
        before[d_cell(case, row, column)] = words[row, column]
    scaled_a, scaled_b = a, b
    if factors:
        scaled_a, scaled_b = put_scales(case, before, factors, a, b)
    if metadata is not None:
        for row, chunk in np.ndindex(*metadata.shape):
            lane, column, bit = cells.metadata_cell(case.kind, row % own, chunk)
            at = (row // own, lane, METADATA + column)
            before[at] = before[at] & np.uint32(~(15 << bit) & 0xFFFFFFFF) | np.uint32(int(metadata[row, chunk]) << bit)
    shared, start, offsets = place_operands(case, before, a_codes, b_codes)
    (a_lbo, a_sbo), (b_lbo, b_sbo) = offsets
    operands = {
        "%rd20": descriptor(0, a_lbo, a_sbo),
        "%rd21": descriptor(start, b_lbo, b_sbo),
        "%r20": idesc(case, **bits),
        "%r21": first_lane << 16 | A_COLUMN,
        "%r22": SCALE_A,
        "%r23": SCALE_B,
        "%r24": METADATA,
        "%r25": first_lane << 16,
    }
    sp, ws = ".sp" * case.sparse, ".ws" * case.ws
    issue = f"tcgen05.mma{ws}{sp}.cta_group::{case.ctas}.kind::{case.kind}{qualifiers} [%r25], "
    issue += f"{'[%r21]' if case.a_in_tensor else '%rd20'}, %rd21, {'[%r24], ' * case.sparse}%r20, "
    issue += "[%r22], [%r23], " * bool(factors) + (f"{{{masks}}}, " if masks else "")
    issue += f"{'%p4' if case.adds else '%p3'}{extra or ''};"
    after = run(issue, np.stack(shared), before, operands)
    exact = scaled_a @ scaled_b.T + c * case.adds
    if zero is not None:
        exact = np.where(zero, c * case.adds, exact)
    expected = before.copy()
    values = exact.astype(kind).view(words.dtype)
    for row, column in np.ndindex(case.m, case.n):
        expected[d_cell(case, row, column)] = values[row, column]
    return after, expected, before


def place_operands(case, before, a_codes, b_codes):
    """Shared memory of each CTA, where B begins in it, and LBO and SBO of A and B; a copy of A in tensor memory."""
    own, each, shared = case.m // case.ctas, case.n // case.ctas, []
    for cta in range(case.ctas):
        part, *of_a = image(a_codes[cta * own : (cta + 1) * own], case, case.a, case.mn_major)
        second, *of_b = image(b_codes[cta * each : (cta + 1) * each], case, case.b, case.mn_major)
        start = -(-len(part) // 1024) * 1024
        shared.append(np.concatenate([part, np.zeros(start - len(part), np.uint8), second]))
        if case.a_in_tensor:
            shift = 2 if case.a == "e2m1" and case.width == 8 else 0
            per = 32 // case.width
            for row, column in np.ndindex(own, a_codes.shape[1] // per):
                lane = d_cell(case, row, 0)[1]
                four = a_codes[cta * own + row, column * per : column * per + per]
                word = sum((int(code) << shift) << (case.width * i) for i, code in enumerate(four))
                before[cta, lane, A_COLUMN + column] = word
    return shared, start, (of_a, of_b)


def put_scales(case, before, factors, a, b):
    random = np.random.default_rng(8)
    bias, mantissa = (127, 0) if case.scale == "ue8m0" else (7, 3)
    own = case.m // case.ctas
    powers_a, powers_b = random.integers(-2, 3, (case.m, factors)), random.integers(-2, 3, (case.n, factors))
    split = case.ctas == 2 and case.m == 128
    for powers, column, rows, name in ((powers_a, SCALE_A, own, "a"), (powers_b, SCALE_B, case.n, "b")):
        for cta in range(case.ctas):
            for row, factor in np.ndindex(rows, factors):
                if name == "a":
                    lane, word, byte = cells.scale_a_cell(row, factor)
                else:
                    lane, word, byte = cells.scale_b_cell(case.n, row, factor, split=split)
                power = powers[cta * own + row if name == "a" else row, factor]
                at = (cta, lane, column + word)
                before[at] = before[at] & np.uint32(~(255 << 8 * byte) & 0xFFFFFFFF) | np.uint32(
                    int(power + bias) << mantissa << 8 * byte
                )
    spread = case.k // factors
    return a * np.repeat(2.0**powers_a, spread, axis=1), b * np.repeat(2.0**powers_b, spread, axis=1)


NVFP4 = Case("mxf4nvf4", "e2m1", "e2m1", scale="ue4m3")
DENSE = [
    Case("f16", "f16", "f16"),
    Case("f16", "f16", "f16", "f16", adds=False),
    Case("f16", "bf16", "f16", m=64, n=24),
    Case("f16", "bf16", "bf16", a_in_tensor=True),
    Case("f16", "f16", "f16", m=64, n=16, a_in_tensor=True),
    Case("f16", "f16", "f16", mn_major=True, n=64),
    Case("f16", "f16", "f16", m=256, n=32, ctas=2),
    Case("f16", "f16", "f16", m=128, n=32, ctas=2),
    Case("f16", "f16", "f16", m=32, n=64, ws=True),
    Case("f16", "f16", "f16", m=64, n=64, ws=True),
    Case("tf32", "tf32", "tf32"),
    Case("tf32", "tf32", "tf32", a_in_tensor=True, m=64),
    *(Case("f8f6f4", a, b) for a, b in (("e4m3", "e5m2"), ("e5m2", "e2m3"), ("e3m2", "e2m1"), ("e2m1", "e4m3"))),
    Case("f8f6f4", "e2m1", "e3m2", a_in_tensor=True),
    Case("f8f6f4", "e4m3", "e4m3", "f16", mn_major=True),
    Case("i8", "s8", "u8", "s32"),
    Case("i8", "u8", "s8", "s32", m=256, n=64, ctas=2),
]
SPARSE = [
    Case("f16", "f16", "f16", sparse=True),
    Case("f16", "bf16", "bf16", sparse=True, m=256, ctas=2),
    Case("tf32", "tf32", "tf32", sparse=True),
    Case("f8f6f4", "e4m3", "e2m1", sparse=True),
    Case("i8", "s8", "s8", "s32", sparse=True, a_in_tensor=True),
]


@pytest.mark.parametrize("case", [*DENSE, *SPARSE], ids=str)
def test_mma(case):
    after, expected, _ = check(case)
    assert np.array_equal(after, expected)


@pytest.mark.parametrize(
    ("case", "factors", "qualifiers"),
    [
        (Case("mxf8f6f4", "e4m3", "e2m3", scale="ue8m0"), 1, ".block_scale.scale_vec::1X"),
        (Case("mxf8f6f4", "e2m1", "e5m2", scale="ue8m0", m=256, n=64, ctas=2), 1, ".block_scale.block32"),
        (Case("mxf8f6f4", "e4m3", "e4m3", scale="ue8m0", m=128, n=64, ctas=2), 1, ".block_scale"),
        (Case("mxf4", "e2m1", "e2m1", scale="ue8m0"), 2, ".block_scale.scale_vec::2X"),
        (Case("mxf4nvf4", "e2m1", "e2m1", scale="ue4m3", n=64), 4, ".block_scale.scale_vec::4X"),
        (Case("mxf4nvf4", "e2m1", "e2m1", scale="ue8m0"), 2, ".block_scale.block32"),
        (Case("mxf4", "e2m1", "e2m1", scale="ue8m0", sparse=True), 2, ".block_scale.scale_vec::2X"),
        (Case("mxf8f6f4", "e5m2", "e4m3", scale="ue8m0", sparse=True), 1, ".block_scale.scale_vec::1X"),
    ],
    ids=str,
)
def test_block_scale(case, factors, qualifiers):
    after, expected, _ = check(case, factors, qualifiers)
    assert np.array_equal(after, expected)


@pytest.mark.parametrize(
    ("name", "case", "factors", "qualifiers", "said"),
    [
        ("SCALE_A", NVFP4, 4, ".block_scale.scale_vec::4X", "column 31, where the factors of A are"),
        ("SCALE_B", NVFP4, 4, ".block_scale.scale_vec::4X", "column 31, where the factors of B are"),
        (
            "A_COLUMN",
            Case("f16", "bf16", "bf16", a_in_tensor=True),
            0,
            "",
            "column 31, where the rows of",
        ),
        (
            "METADATA",
            Case("f16", "f16", "f16", sparse=True),
            0,
            "",
            "column 31, where the indices of A",
        ),
    ],
)
def test_what_is_read_from_the_columns_of_d(name, case, factors, qualifiers, said, monkeypatch):
    monkeypatch.setitem(globals(), name, 31)
    with pytest.raises(DiagnosticError, match=said) as caught:
        check(case, factors, qualifiers)
    assert [one.rule_id for one in caught.value.diagnostics] == ["simulator.tensor-memory"]
    assert "columns that do not overlap" in caught.value.diagnostics[0].fix


@pytest.mark.parametrize("name", ["SCALE_A", "SCALE_B"])
def test_factors_lie_beside_the_columns_of_d(name, monkeypatch):
    monkeypatch.setitem(globals(), name, 32)
    after, expected, _ = check(NVFP4, 4, ".block_scale.scale_vec::4X")
    assert np.array_equal(after, expected)


def test_a_column_of_d_is_named_whatever_its_lane(monkeypatch):
    monkeypatch.setitem(globals(), "A_COLUMN", 10)
    with pytest.raises(DiagnosticError, match="column 10, where the rows of A"):
        check(Case("f16", "f16", "f16", m=64, n=16, a_in_tensor=True), first_lane=16)


def test_negated_operands():
    after, _, before = check(Case("f16", "f16", "f16", adds=False), negate=1 << 13)
    plain, _, _ = check(Case("f16", "f16", "f16", adds=False))
    changed = plain != before
    assert np.array_equal(after[changed].view(np.float32), -plain[changed].view(np.float32))


def test_lanes_that_are_left_alone():
    after, expected, before = check(Case("f16", "f16", "f16"), masks="5, 0, 0, 0x80000000")
    kept = [0, 2, 127]
    expected[0, kept] = before[0, kept]
    assert np.array_equal(after, expected)


def test_the_scale_of_d():
    after, _, before = check(Case("f16", "f16", "f16"), extra=", 2")
    full, _, _ = check(Case("f16", "f16", "f16"))
    at = np.index_exp[0, :, :32]
    expected = full[at].view(np.float32) - before[at].view(np.float32) * np.float32(0.75)
    assert np.array_equal(after[at].view(np.float32), expected)


def test_columns_that_count_as_zero():
    """The PTX ISA's second example: three columns of zeros after every four that are used."""
    zero = np.arange(64) % 7 >= 4
    mask = 1 << 39 | 2 << 40 | 3 << 48
    after, expected, _ = check(Case("f16", "f16", "f16", m=128, n=64, ws=True), extra=f", {mask}", zero=zero)
    assert np.array_equal(after, expected)


@pytest.mark.parametrize(
    ("form", "rows", "size", "lanes"),
    [
        ("128x256b", 128, 32, lambda row: [row]),
        ("128x128b", 128, 16, lambda row: [row]),
        ("32x128b.warpx4", 32, 16, lambda row: [row, row + 32, row + 64, row + 96]),
        ("64x128b.warpx2::02_13", 64, 16, lambda row: [row, row + 64]),
        ("64x128b.warpx2::01_23", 64, 16, lambda row: [row, row + 32] if row < 32 else [row + 32, row + 64]),
    ],
)
def test_copies_from_shared_memory(form, rows, size, lanes):
    data = np.random.default_rng(3).integers(0, 256, (rows, size), dtype=np.uint8)
    memory = np.zeros(rows * size, np.uint8)
    for row, byte in np.ndindex(rows, size):
        memory[row // 8 * 128 + row % 8 * 16 + byte // 16 * rows * 16 + byte % 16] = data[row, byte]
    before = np.full((1, LANES, COLUMNS), 7, np.uint32)
    operands = {"%rd20": descriptor(0, rows * 16, 128), "%r20": 40}
    after = run(f"tcgen05.cp.cta_group::1.{form} [%r20], %rd20;", memory[None], before, operands)
    for row in range(rows):
        for lane in lanes(row):
            before[0, lane, 40 : 40 + size // 4] = data[row].view(np.uint32)
    assert np.array_equal(after, before)


def test_shift():
    before = np.random.default_rng(3).integers(0, 1 << 32, (1, LANES, COLUMNS), dtype=np.uint32)
    after = run("tcgen05.shift.cta_group::1.down [%r20];", np.zeros((1, 16), np.uint8), before, {"%r20": 32 << 16 | 8})
    before[0, 33:64, 8:16] = before[0, 32:63, 8:16].copy()
    assert np.array_equal(after, before)
