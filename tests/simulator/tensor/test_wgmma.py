"""Every wgmma of the table in the simulator, against NumPy: registers are placed by the formulas of the tests."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nvbackend.intrinsics.mma import wgmma as rows
from nvbackend.intrinsics.row.types import b1, f16
from nvbackend.isel.select.wgmma.request import request_of
from nvbackend.simulator.tensor import descriptors, wgmma
from tests.gpu.test_wgmma_numbers import accumulator, fragments, random_matrix
from tests.gpu.test_wgmma_sparse_numbers import metadata_registers, sparse_matrix

WANTED = {8, 48}
ROWS = [row for row in rows.rows() if row.opcode == "wgmma.mma_async" and row.axes["shape"][1] in WANTED]


def find(opcode):
    return wgmma.find(tuple(opcode.split(".")))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.ptx}-{'rs' if row.axes['a_in_registers'] else 'ss'}")
def test_every_type(row):
    request = request_of(row)
    found = find(row.ptx)
    assert found.d.registers == row.operand("d").count
    k, n = request.k, request.n
    b_stored, b = random_matrix(request.b, n, k, n)
    metadata, selector = None, 0
    if request.sparse:
        selector = 1 if request.a.bits >= 16 else 0
        a_stored, a, chunks = sparse_matrix(request.a, k, 5)
        metadata = metadata_registers(chunks, request.a.bits, selector)[0]
    else:
        a_stored, a = random_matrix(request.a, 64, k, 5)
    codes = [descriptors.codes_of(one.view(np.uint8), request.a.bits) for one in (a_stored, b_stored)]
    if request.a_in_registers:
        words = fragments(a_stored.view(np.uint8), 32)[0].T
        codes[0] = found.a.matrix(np.ascontiguousarray(words))[0]
    codes = [one[None] for one in codes]
    before = np.random.default_rng(7).integers(-50, 50, (64, n))
    kind = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[request.d.name]
    start = found.d.fill(before.astype(kind).view(f"uint{8 * np.dtype(kind).itemsize}")[None])
    for given, scale in ((start, 1), (None, 0)):
        words = found.call(*codes, given, metadata=metadata, selector=selector)
        exact = (a @ b.T + scale * before).astype(kind)
        assert np.array_equal(accumulator(np.ascontiguousarray(words.T), n, request.d), exact)


@pytest.mark.parametrize("signs", list(itertools.product([False, True], repeat=2)))
def test_signs(signs):
    found = find("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16")
    (a_stored, a), (b_stored, b) = random_matrix(f16, 64, 16, 1), random_matrix(f16, 8, 16, 2)
    words = found.call(a_stored.view(np.uint16)[None], b_stored.view(np.uint16)[None], None, signs=signs)
    exact = (-1) ** sum(signs) * (a @ b.T)
    assert np.array_equal(accumulator(np.ascontiguousarray(words.T), 8, f16), exact.astype(np.float16))


def test_these_are_all_types():
    assert {str(request_of(row).a) for row in ROWS} >= {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", str(b1)}


@pytest.mark.parametrize(
    "opcode", ["wgmma.mma_async.sync.aligned.m64n8k16.f32.f16", "wgmma.mma_async.m64n8k16.f8.f16.f16"]
)
def test_unknown_pieces(opcode):
    assert find(opcode) is None
