"""Every kind of mma.sync that an H100 has, on a GPU, against NumPy: fragments are placed by the PTX ISA's formulas."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from nvbackend.intrinsics.mma import mma
from nvbackend.intrinsics.row.types import b1, bf16, e4m3, e5m2, f16, f32, f64, s32, tf32
from nvbackend.isel.select.mma.request import MmaRequest, request_of
from nvbackend.isel.target.target import Target
from tests.support.devices import ON_DEVICES
from tests.support.mma_formulas import FOUR_MATRICES, LANES, A, B, d_formula, matrix_of
from tests.support.mma_kernel import WARP, mma_kernel

pytestmark = ON_DEVICES

HOPPER = Target.parse("sm_90a")
FOUR = (8, 8, 4)


def random_matrix(element, rows, columns, seed):
    """Numbers that multiply and add exactly, as float64 or int64."""
    random = np.random.default_rng(seed)
    if element is b1:
        return random.integers(0, 2, (rows, columns))
    if element.is_integer:
        low = -(1 << element.bits - 1) if element.is_signed else 0
        return random.integers(low, low + (1 << element.bits), (rows, columns))
    return random.integers(-4, 5, (rows, columns)) / 2


def encoded(numbers, element):
    """The bits of each number, as uint32 (f64: as they are)."""
    import ml_dtypes

    if element is f64:
        return numbers.astype(np.float64)
    if element.is_integer or element is b1:
        return (numbers.astype(np.int64) & ((1 << element.bits) - 1)).astype(np.uint32)
    kinds = {f16: np.float16, tf32: np.float32, f32: np.float32, bf16: ml_dtypes.bfloat16}
    kinds |= {e4m3: ml_dtypes.float8_e4m3fn, e5m2: ml_dtypes.float8_e5m2}
    return numbers.astype(kinds[element]).view(f"uint{element.bits}").astype(np.uint32)


def registers(bits, width, count, place):
    """What the threads' registers hold: `place(lane, i)` is the index into `bits` of a thread's element i."""
    if width == 64:
        return np.array([[bits[place(lane, i)] for i in range(count)] for lane in LANES])
    per_register = 32 // width
    words = np.zeros((WARP, count // per_register), np.uint32)
    for lane, i in itertools.product(LANES, range(count)):
        words[lane, i // per_register] |= bits[place(lane, i)] << np.uint32(width * (i % per_register))
    return words


def by_quad(formula):
    """A formula over groupID and threadID_in_group as one over the lane."""
    return lambda lane, i: formula(lane >> 2, lane % 4, i)


def launch(request, a, b, c, metadata=None):
    """D's registers, as the words or f64 that they are."""
    from numba import cuda

    from nvbackend import runtime

    count = mma.mma(request.instruction).operand("d").count
    out = np.full(WARP * count, np.nan) if a.dtype == np.float64 else np.full(WARP * count, 0x7FC00001, np.uint32)
    target = cuda.to_device(out)
    places = np.zeros(WARP, np.uint32) if metadata is None else metadata
    kernel = runtime.load(mma_kernel(request).compile())
    inputs = [cuda.to_device(np.ascontiguousarray(one).reshape(-1)) for one in (a, b, c, places)]
    kernel.launch(1, *inputs, target)
    kernel.synchronize()
    return target.copy_to_host().reshape(WARP, count)


def decoded(words, element):
    """A thread's elements of C's or D's type, in order."""
    return words if element is f64 else words.view({f16: np.float16, f32: np.float32, s32: np.int32}[element])


def accumulator_registers(c, element, m):
    width = element.bits
    return registers(encoded(c, element), width, m // 4, by_quad(d_formula))


def matrix_of_d(words, element, m):
    values = decoded(words, element)
    found = np.empty((m, 8), values.dtype)
    for lane, i in itertools.product(LANES, range(m // 4)):
        found[d_formula(lane >> 2, lane % 4, i)] = values[lane, i]
    return found


def run(request, a, b, c, *, a_stored=None, metadata=None):
    """D on the GPU; `a_stored` is the packed matrix of a sparse A."""
    one = request.instruction
    m, n, k = one.shape
    a_shape = (m, n, k // 2) if one.sparsity else one.shape
    a_count, a_formula = A[a_shape, one.a.bits]
    b_count, b_formula = B[one.shape, one.b.bits]
    words = launch(
        request,
        registers(encoded(a if a_stored is None else a_stored, one.a), one.a.bits, a_count, by_quad(a_formula)),
        registers(encoded(b, one.b), one.b.bits, b_count, by_quad(b_formula)),
        accumulator_registers(c, one.c, m),
        metadata,
    )
    return matrix_of_d(words, one.d, m)


def product(a, b, c, instruction):
    """What the instruction computes, exactly, in the type of D."""
    is_xor = instruction.operation == "xor"
    exact = c + ((a[:, :, None] ^ b[None, :, :]).sum(axis=1) if is_xor else a @ b)
    if instruction.satfinite:
        exact = np.clip(exact, -(2**31), 2**31 - 1)
    kinds = {f16: np.float16, f32: np.float32, f64: np.float64}
    return exact.astype(kinds[instruction.d]) if instruction.d in kinds else exact.astype(np.int64).astype(np.int32)


def start(element, seed, shape=(16, 8)):
    """C: small enough to stay exact; integers of every size."""
    random = np.random.default_rng(seed)
    if element is s32:
        return random.integers(-(2**31), 2**31, shape)
    return random.integers(-16, 17, shape) / 2


INSTRUCTIONS = {row.ptx: request_of(row).instruction for row in mma.rows() if HOPPER.has(row.requires)}
DENSE = {ptx: one for ptx, one in INSTRUCTIONS.items() if not one.sparsity}


@pytest.mark.parametrize("ptx", [ptx for ptx, one in DENSE.items() if not (one.a is f16 and one.shape == FOUR)])
def test_dense(ptx):
    one = DENSE[ptx]
    m, n, k = one.shape
    a, b = random_matrix(one.a, m, k, k), random_matrix(one.b, k, n, k + 1)
    c = start(one.c, k + 2, (m, n))
    assert np.array_equal(run(MmaRequest(one), a, b, c), product(a, b, c, one))


@pytest.mark.parametrize("satfinite", [False, True])
def test_saturation_is_what_the_modifier_changes(satfinite):
    (one,) = [one for ptx, one in DENSE.items() if ptx == "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32"]
    one = replace(one, satfinite=satfinite)
    a, b = np.full((16, 32), 255), np.full((32, 8), 255)
    c = np.full((16, 8), 2**31 - 1000)
    found = run(MmaRequest(one), a, b, c)
    assert np.all(found == (2**31 - 1 if satfinite else 32 * 255 * 255 - 1000 - 2**31))


@pytest.mark.parametrize("ptx", [ptx for ptx, one in DENSE.items() if one.a is f16 and one.shape == FOUR])
def test_four_multiplications_at_once(ptx):
    one = DENSE[ptx]
    a = np.stack([random_matrix(f16, 8, 4, seed) for seed in range(4)])
    b = np.stack([random_matrix(f16, 4, 8, seed) for seed in range(4, 8)])
    c = np.stack([start(one.c, seed, (8, 8)) for seed in range(8, 12)])

    def fragment(numbers, element, name):
        count, formula = FOUR_MATRICES[name]
        place = lambda lane, i: (matrix_of(lane), *formula(lane, i))  # noqa: E731
        return registers(encoded(numbers, element), element.bits, count, place)

    words = launch(
        MmaRequest(one),
        fragment(a, f16, f"A {one.a_layout}"),
        fragment(b, f16, f"B {one.b_layout}"),
        fragment(c, one.c, f"D {one.c}"),
    )
    values = decoded(words, one.d)
    count, formula = FOUR_MATRICES[f"D {one.d}"]
    found = np.empty((4, 8, 8), values.dtype)
    for lane, i in itertools.product(LANES, range(count)):
        found[(matrix_of(lane), *formula(lane, i))] = values[lane, i]
    assert np.array_equal(found, (a @ b + c).astype(values.dtype))
