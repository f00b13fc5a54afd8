"""Each wgmma instruction that there is, on a GPU, against NumPy: every N, type, saturation and place of A."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.words.smem_descriptor import Major, SwizzleMode
from nvbackend.isel.select.wgmma.request import request_of
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from tests.gpu.test_wgmma_numbers import fragments, product, random_matrix, run
from tests.gpu.test_wgmma_sparse_numbers import metadata_registers, sparse_matrix
from tests.support.devices import ON_DEVICES

pytestmark = [*ON_DEVICES, pytest.mark.exhaustive]

STEPS = 2


def kind(request):
    """What the instructions of one test have in common."""
    places = ("registers" if request.a_in_registers else "shared", "sparse" if request.sparse else "dense")
    return "-".join((str(request.a), str(request.b), str(request.d), *places, "satfinite" * request.satfinite))


REQUESTS = sorted(
    (request_of(row, {}) for row in wgmma.rows() if row.opcode == "wgmma.mma_async"),
    key=lambda request: (kind(request), request.n),
)
KINDS = {name: list(requests) for name, requests in itertools.groupby(REQUESTS, kind)}


def found_and_expected(request):
    """D on the GPU and in NumPy, over two steps of K, from random operands."""
    columns = STEPS * request.k
    b_stored, b = random_matrix(request.b, request.n, columns, request.n)
    b_layout = SmemLayout(Major.K, SwizzleMode.B64, request.b, request.n, columns)
    if request.sparse:
        a_stored, a, chunks = sparse_matrix(request.a, columns, request.n + 1)
        metadata = metadata_registers(chunks, request.a.bits, request.selector)
    else:
        (a_stored, a), metadata = random_matrix(request.a, 64, columns, request.n + 1), None
    a_layout, a_bytes = None, fragments(a_stored.view(np.uint8), 32)
    if not request.a_in_registers:
        a_layout = SmemLayout(Major.K, SwizzleMode.B32, request.a, 64, columns // (2 if request.sparse else 1))
        a_bytes = a_layout.arrange(a_stored)
    found = run(request, a_layout, b_layout, a_bytes, b_layout.arrange(b_stored), metadata)
    return found, product(a, b, request.d)


@pytest.mark.parametrize("name", KINDS)
def test_every_n(name):
    wrong = [one.n for one in KINDS[name] if not np.array_equal(*found_and_expected(one))]
    assert wrong == []


def test_these_are_all_rows():
    assert len(REQUESTS) == sum(row.opcode == "wgmma.mma_async" for row in wgmma.rows()) > 2000
