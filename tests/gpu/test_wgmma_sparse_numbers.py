"""Sparse wgmma on a GPU, against NumPy: which four bits of whose metadata register speak of which elements of A."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.intrinsics.row.types import bf16, e4m3, e5m2, f16, f32, s8, s32, tf32, u8
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.isel.select.wgmma.request import WgmmaRequest
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from tests.gpu.test_wgmma_numbers import fragments, product, random_matrix, run
from tests.support.devices import ON_DEVICES

pytestmark = ON_DEVICES

THREADS = 128


def sparse_matrix(element, columns, seed):
    """A of 64 x `columns` with half the elements of each group kept: stored, as numbers, and the groups' metadata."""
    width, kept = (2, 1) if element is tf32 else (4, 2)
    random = np.random.default_rng(seed)
    groups = columns // width
    places = np.sort(np.argsort(random.random((64, groups, width)), axis=2)[..., :kept], axis=2)
    stored, numbers = random_matrix(element, 64, columns * kept // width, seed + 1)
    full = np.zeros((64, groups, width))
    np.put_along_axis(full, places, numbers.reshape(64, groups, kept), axis=2)
    # A 32-bit element counts as two 16-bit ones, so place p of two keeps 2p and 2p + 1 of four.
    first, second = (2 * places[..., 0], 2 * places[..., 0] + 1) if kept == 1 else (places[..., 0], places[..., 1])
    return stored, full.reshape(64, columns), (first | second << 2).astype(np.uint32)


def metadata_registers(chunks, bits, selector):
    """One register a thread for each step, from the 4-bit chunks of each row: PTX ISA 9.7.15.6.2, figures."""
    per_step = {8: 16, 16: 8, 32: 8}[bits]
    steps = chunks.shape[1] // per_step
    registers = np.zeros((steps, THREADS), np.uint32)
    for step in range(steps):
        for row in range(64):
            for place in range(per_step):
                chunk = chunks[row, step * per_step + place]
                quad = row // 16 * 32 + row % 8 * 4
                half = row % 16 // 8
                if bits == 8:
                    registers[step, quad + place // 8 * 2 + half] |= chunk << (4 * (place % 8))
                else:
                    registers[step, quad + 2 * selector + place // 4] |= chunk << (16 * half + 4 * (place % 4))
    return registers


@pytest.mark.parametrize("in_registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize(
    ("element", "selector"),
    [*((one, which) for one in (f16, bf16, tf32) for which in (0, 1)), (e4m3, 0), (e5m2, 0), (s8, 0), (u8, 0)],
    ids=str,
)
@pytest.mark.parametrize("n", [8, 64, 256])
def test_sparse_a(element, selector, n, in_registers):
    k = 512 // element.bits
    request = WgmmaRequest(
        n=n,
        k=k,
        d=f32 if element.is_float else s32,
        a=element,
        b=element,
        sparse=True,
        selector=selector,
        a_in_registers=in_registers,
    )
    columns = 2 * k
    a_stored, a_full, chunks = sparse_matrix(element, columns, n)
    b_stored, b = random_matrix(element, n, columns, n + 7)
    b_layout = SmemLayout(Major.K, SwizzleMode.B128, element, n, columns)
    a_layout = None if in_registers else SmemLayout(Major.K, SwizzleMode.B64, element, 64, columns // 2)
    a_bytes = fragments(a_stored.view(np.uint8), 32) if in_registers else a_layout.arrange(a_stored)
    metadata = metadata_registers(chunks, element.bits, selector)
    found = run(request, a_layout, b_layout, a_bytes, b_layout.arrange(b_stored), metadata)
    assert np.array_equal(found, product(a_full, b, request.d))
