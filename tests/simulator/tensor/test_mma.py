"""Every mma.sync of the table in the simulator, against NumPy: fragments are placed by the formulas of the tests."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.intrinsics.mma import mma as rows
from nvbackend.intrinsics.row.types import b1, f16, f32, f64
from nvbackend.isel.select.mma.request import request_of
from nvbackend.simulator import Simulator
from nvbackend.simulator.tensor import mma
from tests.gpu.test_mma_numbers import by_quad, matrix_of_d, product, random_matrix, registers, start
from tests.gpu.test_mma_sparse_numbers import metadata_registers, sparse_matrix
from tests.simulator.calls import bodies
from tests.support.mma_formulas import FOUR_MATRICES, A, B, d_formula, matrix_of

INSTRUCTIONS = {row.ptx: request_of(row).instruction for row in rows.rows()}
FOUR = (8, 8, 4)
PLAIN = [ptx for ptx, one in INSTRUCTIONS.items() if one.scale is None and not (one.shape == FOUR and one.a is f16)]
SCALED = [ptx for ptx, one in INSTRUCTIONS.items() if one.scale is not None]
SMALL = {  # codes of numbers that all formats of 4, 6 and 8 bits have: 0, 1, 2, 3 and their negatives
    "e2m1": {0: 0, 1: 2, 2: 4, 3: 5, -1: 10, -2: 12, -3: 13},
    "e2m3": {0: 0, 1: 8, 2: 16, 3: 20, -1: 40, -2: 48, -3: 52},
    "e3m2": {0: 0, 1: 12, 2: 16, 3: 18, -1: 44, -2: 48, -3: 50},
    "e4m3": {0: 0, 1: 0x38, 2: 0x40, 3: 0x44, -1: 0xB8, -2: 0xC0, -3: 0xC4},
    "e5m2": {0: 0, 1: 0x3C, 2: 0x40, 3: 0x42, -1: 0xBC, -2: 0xC0, -3: 0xC2},
}


def is_kind(one, *kinds):
    return one.kind in kinds


def width_of(element, one):
    """Bits of an element in a register: those of f8f6f4 have bytes."""
    return 8 if is_kind(one, "f8f6f4", "mxf8f6f4") and element.name in SMALL else element.bits


def numbers_of(element, shape, seed):
    if element.name in SMALL:
        return np.random.default_rng(seed).integers(-3, 4, shape)
    return random_matrix(element, *shape, seed)


def codes_of(numbers, element, one):
    from tests.gpu.test_mma_numbers import encoded

    if element.name not in SMALL:
        return encoded(numbers, element)
    table = np.array([SMALL[element.name][number] for number in range(-3, 4)], np.uint32)
    codes = table[numbers + 3]
    return codes << np.uint32(2) if element.name == "e2m1" and width_of(element, one) == 8 else codes


def fragment(numbers, element, one, count, formula):
    found = registers(codes_of(numbers, element, one), width_of(element, one), count, by_quad(formula))
    return found.T.view(np.uint64) if element is f64 else found.T


def run(ptx, a, b, c, *, stored=None, sm=120, **extras):
    """D of the simulator, as a matrix."""
    one = INSTRUCTIONS[ptx]
    m, n, k = one.shape
    found = mma.find(tuple(ptx.split(".")), sm)
    assert found is not None
    a_shape = (m, n, k // 2) if one.sparsity else one.shape
    left = fragment(a if stored is None else stored, one.a, one, *A[a_shape, width_of(one.a, one)])
    right = fragment(b, one.b, one, *B[one.shape, width_of(one.b, one)])
    addend = fragment(c, one.c, one, m // 4, d_formula)
    words = found.call(left, right, addend, **extras)
    assert words.shape == (found.d.registers, 32)
    words = np.ascontiguousarray(words.T)
    return matrix_of_d(words.view(np.float64) if one.d is f64 else words, one.d, m)


@pytest.mark.parametrize("ptx", PLAIN)
def test_plain(ptx):
    one = INSTRUCTIONS[ptx]
    m, n, k = one.shape
    b, c = numbers_of(one.b, (k, n), 5), start(one.c, 6, (m, n))
    if one.sparsity is None:
        a = numbers_of(one.a, (m, k), 4)
        assert np.array_equal(run(ptx, a, b, c), product(a, b, c, one))
        return
    width = width_of(one.a, one)
    for selector in rows.mma(one).operand("selector").values:
        stored, a, words = sparse(one, width, selector)
        found = run(ptx, a, b, c, stored=stored, metadata=words, selector=selector)
        assert np.array_equal(found, product(a, b, c, one))


def sparse(one, width, selector):
    """A as stored and in full, and its metadata; 6- and 4-bit elements in bytes are sparse as bytes are."""
    like = type("Element", (), {"bits": width})
    k = one.shape[2]
    positions, full, codes = sparse_matrix_of(like, one, k)
    return positions, full, metadata_registers(codes, width, k, selector)


def sparse_matrix_of(like, one, k):
    random = np.random.default_rng(11)
    units, kept, unit = {32: (2, 1, 1), 4: (4, 2, 2)}.get(like.bits, (4, 2, 1))
    chunks = k // (units * unit)
    places = np.sort(np.argsort(random.random((16, chunks, units)), axis=2)[..., :kept], axis=2)
    stored = numbers_of(one.a, (16, k // 2), 12)
    full = np.zeros((16, chunks, units, unit), stored.dtype)
    np.put_along_axis(full, places[..., None], stored.reshape(16, chunks, kept, unit), axis=2)
    first, second = (2 * places[..., 0], 2 * places[..., 0] + 1) if kept == 1 else (places[..., 0], places[..., 1])
    return stored, full.reshape(16, k), (first | second << 2).astype(np.uint32)


def test_metadata_out_of_order():
    ptx = "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
    one = INSTRUCTIONS[ptx]
    stored, a, codes = sparse_matrix(f16, 32, False, 3)
    b, c = random_matrix(f16, 32, 8, 5), start(f32, 6)
    found = run(ptx, a, b, c, stored=stored, metadata=metadata_registers(codes, 16, 32, 1), selector=1)
    assert np.array_equal(found, product(a, b, c, one))


@pytest.mark.parametrize("ptx", [ptx for ptx, one in INSTRUCTIONS.items() if one.shape == FOUR and one.a is f16])
def test_four_multiplications(ptx):
    one = INSTRUCTIONS[ptx]
    found = mma.find(tuple(ptx.split(".")), 70)
    a = np.stack([random_matrix(f16, 8, 4, seed) for seed in range(4)])
    b = np.stack([random_matrix(f16, 4, 8, seed) for seed in range(4, 8)])
    c = np.stack([start(one.c, seed, (8, 8)) for seed in range(8, 12)])

    def held(numbers, element, name):
        count, formula = FOUR_MATRICES[name]
        bits = codes_of(numbers, element, one)
        return registers(bits, element.bits, count, lambda lane, i: (matrix_of(lane), *formula(lane, i))).T

    words = found.call(
        held(a, f16, f"A {one.a_layout}"), held(b, f16, f"B {one.b_layout}"), held(c, one.c, f"D {one.c}")
    )
    exact = (a @ b + c).astype(np.float32 if one.d is f32 else np.float16)
    assert np.array_equal(words, held(exact, one.d, f"D {one.d}"))


@pytest.mark.parametrize("ptx", SCALED)
def test_block_scale(ptx):
    """Scale factors are powers of two, each of a row and block its own; they are in the threads and bytes named."""
    one = INSTRUCTIONS[ptx]
    random = np.random.default_rng(9)
    _, n, k = one.shape
    factors = 1 if one.kind == "mxf8f6f4" else 4 if ".scale_vec::4X" in ptx else 2
    powers_a, powers_b = random.integers(-2, 3, (16, factors)), random.integers(-2, 3, (factors, n))
    bias, mantissa = (127, 0) if ptx.endswith("ue8m0") else (7, 3)
    for byte, thread_a, thread_b in ((0, 0, 0), (4 - factors, 1, 3)):
        words_a, words_b = (np.full(32, 0xFFFFFFFF, np.uint32) for _ in range(2))
        for lane in range(32):
            group, thread = divmod(lane, 4)
            if thread // 2 == thread_a:
                words_a[lane] = packed(powers_a[group + 8 * (thread % 2)], byte, bias, mantissa)
            if thread == thread_b:
                words_b[lane] = packed(powers_b[:, group], byte, bias, mantissa)
        ids = [[np.full(32, value, np.uint16) for value in pair] for pair in ((byte, thread_a), (byte, thread_b))]
        b, c, extras = numbers_of(one.b, (k, n), 5), start(one.c, 6), {}
        if one.sparsity is None:
            a, stored = numbers_of(one.a, (16, k), 4), None
        else:
            stored, a, metadata = sparse(one, width_of(one.a, one), 0)
            extras = {"metadata": metadata, "selector": 0}
        extras["scales"] = ((words_a, *ids[0]), (words_b, *ids[1]))
        scaled_a = a * np.repeat(2.0**powers_a, k // factors, axis=1)
        scaled_b = b * np.repeat(2.0**powers_b, k // factors, axis=0)
        expected = (scaled_a @ scaled_b + c).astype(np.float32)
        assert np.array_equal(run(ptx, a, b, c, stored=stored, **extras), expected)


def packed(powers, byte, bias, mantissa):
    """A word with the factors from `byte` on; what does not count is all ones."""
    bytes_ = np.full(4, 0xFF, np.uint8)
    bytes_[byte : byte + len(powers)] = (powers + bias) << mantissa
    return bytes_.view(np.uint32)[0]


def test_several_warps_at_once():
    ptx = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
    found = mma.find(tuple(ptx.split(".")), 80)
    random = np.random.default_rng(1)
    a, b, c = (random.integers(0, 1 << 32, (count, 96), dtype=np.uint32) for count in (4, 2, 4))
    whole = found.call(a, b, c)
    for warp in range(3):
        part = slice(32 * warp, 32 * warp + 32)
        assert np.array_equal(whole[:, part], found.call(a[:, part], b[:, part], c[:, part]))


@pytest.mark.parametrize(
    "opcode",
    [
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.rn",
        "mma.sync.aligned.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32",
    ],
)
def test_unknown_pieces(opcode):
    assert mma.find(tuple(opcode.split(".")), 90) is None


def test_single_bits_are_counted():
    assert sum(one.a is b1 for one in INSTRUCTIONS.values()) >= 6


@pytest.mark.parametrize(("target", "last_bit"), [("sm_80", 0), ("sm_89", 0), ("sm_90a", 1), ("sm_100a", 1)])
def test_a_kernel_multiplies_as_its_chip_does(target, last_bit):
    """1 plus four products of 2^-25: chips before Hopper keep 24 bits below the largest exponent, later ones 25."""
    d = ", ".join(f"%f{at}" for at in range(4))
    stored = " ".join(f"st.global.f32 [%rd1+{4 * at}], %f{at};" for at in range(4))
    # A holds 2^-12, B 2^-13 in the first four of K.
    body = f"""and.b32 %r3, %r0, 3; setp.lt.u32 %p1, %r3, 2;
selp.b32 %r4, {0x0C000C00}, 0, %p1; selp.b32 %r5, {0x08000800}, 0, %p1; mov.b32 %r6, 0;
mov.f32 %f4, 0f3F800000;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{d}}}, {{%r4, %r4, %r6, %r6}}, {{%r5, %r6}}, {{%f4, %f4, %f4, %f4}};
mul.wide.u32 %rd1, %r0, 16; add.u64 %rd1, %rd1, %rd0; {stored}"""
    out = np.zeros(128, np.float32)
    Simulator().load(bodies.ptx(body, [out], target)).launch("k", block=(32,), args=[out])
    assert set(out.tolist()) == {1 + last_bit * 2.0**-23}
