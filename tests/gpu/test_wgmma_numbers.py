"""Every kind of wgmma on a GPU, against NumPy: layouts, types, sizes, A in registers, sparse A, negation.

Which element a thread's register holds is written down here a second time, from the PTX ISA's figures.
"""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.types import b1, bf16, e4m3, e5m2, f16, f32, s8, s32, tf32, u8
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from tests.support.devices import ON_DEVICES
from tests.support.wgmma_kernel import wgmma_kernel

pytestmark = ON_DEVICES

THREAD = np.arange(128)[:, None]


def accumulator(registers, n, element):
    """The M x N matrix from D's registers: PTX ISA 9.7.15.5.1.1, figure of D."""
    values = (
        registers.view(np.float16) if element is f16 else registers.view(np.float32 if element is f32 else np.int32)
    )
    values = values.reshape(128, n // 2)
    index = np.arange(n // 2)[None, :]
    row = THREAD // 32 * 16 + THREAD % 32 // 4 + 8 * (index // 2 % 2)
    column = index // 4 * 8 + THREAD % 4 * 2 + index % 2
    matrix = np.empty((64, n), values.dtype)
    matrix[row, column] = values
    return matrix


def fragments(stored, step_bytes):
    """A's registers from its bytes (64 x row bytes): four a thread and step, PTX ISA 9.7.15.5.1.1, figures of A.

    A row of a step is 32 bytes for every type: register 0 has bytes 4*(t%4).. of row t/4, 1 those of row t/4 + 8,
    2 and 3 the same 16 bytes further on.
    """
    steps = stored.shape[1] // step_bytes
    words = stored.reshape(64, steps, step_bytes // 4, 4).copy().view(np.uint32)[..., 0]
    register = np.arange(4)[None, :]
    row = THREAD // 32 * 16 + THREAD % 32 // 4 + 8 * (register % 2)
    word = THREAD % 4 + 4 * (register // 2)
    return np.stack([words[row, step, word] for step in range(steps)])


def random_matrix(element, rows, columns, seed):
    """Values that multiply and add exactly in f32, and the same as numbers: (stored bytes as an array, float64)."""
    random = np.random.default_rng(seed)
    if element is b1:
        packed = random.integers(0, 256, (rows, columns // 8), np.uint8)
        return packed, np.unpackbits(packed, axis=1, bitorder="little").astype(np.float64)
    if element in (s8, u8):
        low, high = (-128, 128) if element is s8 else (0, 256)
        stored = random.integers(low, high, (rows, columns)).astype(element.numpy_dtype())
        return stored, stored.astype(np.float64)
    values = random.integers(-4, 5, (rows, columns)) / 2
    return encoded(values, element), values


def encoded(values, element):
    import ml_dtypes

    if element is f16:
        return values.astype(np.float16)
    if element is tf32:
        return values.astype(np.float32)
    kind = {bf16: ml_dtypes.bfloat16, e4m3: ml_dtypes.float8_e4m3fn, e5m2: ml_dtypes.float8_e5m2}[element]
    return values.astype(kind).view(element.numpy_dtype())


def run(request, a_layout, b_layout, a_bytes, b_bytes, metadata=None, tool=None, **options):
    """D on the GPU, as a matrix; assembled by `tool`, None for the ptxas that is found."""
    from numba import cuda

    from nvbackend import runtime

    kernel = runtime.load(wgmma_kernel(request, a_layout, b_layout, **options).compile(tool=tool))
    registers = request.n // (4 if request.d is f16 else 2)
    out = cuda.to_device(np.full(128 * registers, 0x7FC00001, np.uint32))
    inputs = [np.ascontiguousarray(one).reshape(-1).view(np.uint32) for one in (a_bytes, b_bytes)]
    places = np.zeros(1, np.uint32) if metadata is None else metadata.reshape(-1)
    kernel.launch(1, *(cuda.to_device(one) for one in inputs), cuda.to_device(places), out)
    kernel.synchronize()
    return accumulator(out.copy_to_host(), request.n, request.d)


def product(a, b, d):
    """A @ B^T as the accumulator type holds it."""
    exact = a @ b.T
    return exact.astype(np.float16) if d is f16 else exact.astype(np.float32 if d is f32 else np.int32)


@pytest.mark.parametrize("element", [f16, bf16])
@pytest.mark.parametrize("swizzle", list(SwizzleMode))
@pytest.mark.parametrize("major_b", list(Major))
@pytest.mark.parametrize("major_a", list(Major))
def test_the_canonical_layouts_of_16_bit_types(major_a, major_b, swizzle, element):
    n, columns = 128, 64
    a, b = (random_matrix(element, rows, columns, rows) for rows in (64, n))
    layouts = [SmemLayout(major, swizzle, element, rows, columns) for major, rows in ((major_a, 64), (major_b, n))]
    request = WgmmaRequest(n=n, k=16, d=f32, a=element, b=element)
    images = [layout.arrange(stored) for layout, (stored, _) in zip(layouts, (a, b), strict=True)]
    assert np.array_equal(run(request, *layouts, *images), product(a[1], b[1], f32))


@pytest.mark.parametrize("swizzle", list(SwizzleMode))
@pytest.mark.parametrize("element", [tf32, e4m3, s8, b1])
def test_the_k_major_layouts_of_other_types(element, swizzle):
    n, k = 64, 256 // element.bits
    columns = 4 * k
    a, b = (random_matrix(element, rows, columns, rows + 1) for rows in (64, n))
    layouts = [SmemLayout(Major.K, swizzle, element, rows, columns) for rows in (64, n)]
    request = WgmmaRequest(n=n, k=k, d=f32 if element.is_float else s32, a=element, b=element)
    images = [layout.arrange(stored) for layout, (stored, _) in zip(layouts, (a, b), strict=True)]
    assert np.array_equal(run(request, *layouts, *images), product(a[1], b[1], request.d))


TYPES = [
    *((f16, f16, d) for d in (f16, f32)),
    (bf16, bf16, f32),
    (tf32, tf32, f32),
    *((a, b, d) for a in (e4m3, e5m2) for b in (e4m3, e5m2) for d in (f16, f32)),
    *((a, b, s32) for a in (s8, u8) for b in (s8, u8)),
    (b1, b1, s32),
]


@pytest.mark.parametrize("in_registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("n", [8, 64, 136, 144, 256])
@pytest.mark.parametrize(("a_type", "b_type", "d"), TYPES, ids=str)
def test_every_type_and_size(a_type, b_type, d, n, in_registers):
    k = 256 // a_type.bits
    request = WgmmaRequest(n=n, k=k, d=d, a=a_type, b=b_type, a_in_registers=in_registers)
    columns = 4 * k
    a, b = random_matrix(a_type, 64, columns, n), random_matrix(b_type, n, columns, n + 1)
    a_layout, b_layout = (
        SmemLayout(Major.K, SwizzleMode.B128, element, rows, columns) for element, rows in ((a_type, 64), (b_type, n))
    )
    if n == 136 and not a_type.is_float:
        with pytest.raises(DiagnosticError, match=r"wgmma\.n-integer"):
            wgmma_kernel(request, None if in_registers else a_layout, b_layout)
        return
    a_bytes = fragments(a[0].view(np.uint8), 32) if in_registers else a_layout.arrange(a[0])
    found = run(request, None if in_registers else a_layout, b_layout, a_bytes, b_layout.arrange(b[0]))
    assert np.array_equal(found, product(a[1], b[1], d))


@pytest.mark.parametrize("satfinite", [False, True])
@pytest.mark.parametrize("element", [s8, u8])
def test_saturation_is_what_the_modifier_changes(element, satfinite):
    """A sum that starts just below the largest s32: it stays there with the modifier, and wraps around without."""
    start = 2**31 - 1000
    request = WgmmaRequest(n=8, k=32, d=s32, a=element, b=element, satfinite=satfinite)
    layouts = [SmemLayout(Major.K, SwizzleMode.B32, element, rows, 32) for rows in (64, 8)]
    a, b = (random_matrix(element, rows, 32, rows) for rows in (64, 8))
    images = [layout.arrange(stored) for layout, (stored, _) in zip(layouts, (a, b), strict=True)]
    exact = start + (a[1] @ b[1].T).astype(np.int64)
    assert exact.max() >= 2**31
    limited = np.minimum(exact, 2**31 - 1) if satfinite else exact.astype(np.int32)
    assert np.array_equal(run(request, *layouts, *images, start=start), limited)


@pytest.mark.parametrize(("negate_a", "negate_b"), [(True, False), (False, True), (True, True)])
def test_negated_operands(negate_a, negate_b):
    request = WgmmaRequest(n=16, k=16, d=f32, a=f16, b=f16, negate_a=negate_a, negate_b=negate_b)
    layouts = [SmemLayout(Major.K, SwizzleMode.B128, f16, rows, 64) for rows in (64, 16)]
    a, b = (random_matrix(f16, rows, 64, rows) for rows in (64, 16))
    images = [layout.arrange(stored) for layout, (stored, _) in zip(layouts, (a, b), strict=True)]
    sign = (-1) ** (negate_a + negate_b)
    assert np.array_equal(run(request, *layouts, *images), sign * product(a[1], b[1], f32))
