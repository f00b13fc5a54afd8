"""ldmatrix, stmatrix and movmatrix on a GPU: each lane gets and stores the elements that the fragment maps say."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.maps.rows import fragment_maps
from nvbackend.intrinsics.row.types import u32
from tests.support.devices import ON_DEVICES
from tests.support.numbers_kernel import words

pytestmark = ON_DEVICES

LANES = range(32)
WORDS_OF_A_ROW = 4
FORMS = [(count, transposed) for count in matrix_move.MATRIX_COUNTS for transposed in (False, True)]


def halves(count):
    """`count` matrices of 8 x 8 different 16-bit numbers, and the same as words."""
    matrices = np.random.default_rng(count).permutation(1 << 16)[: count * 64].astype(np.uint16)
    return matrices.reshape(count, 8, 8), matrices.view(np.uint32)


def held(row, operand, matrices):
    """The registers of each lane, by the map: (lane, register)."""
    (found,) = [one for one in fragment_maps(row) if one.operand == operand]
    values = [matrices[found.position(lane, index)] for lane in LANES for index in range(found.elements)]
    return np.array(values, np.uint16).view(np.uint32).reshape(32, found.elements // 2)


def row_address(k, shared):
    """What lane L gives: row L % 8 of matrix L / 8; lanes beyond the matrices repeat those of others."""
    return shared + (k.thread_id() % 32) * WORDS_OF_A_ROW


@pytest.mark.parametrize(("count", "transposed"), FORMS)
def test_a_load_gives_each_lane_its_elements(count, transposed):
    def body(k, source, out):
        lane = k.thread_id()
        shared = k.shared(u32, 4 * 32, align=128)
        for place in range(count):
            shared[lane + 32 * place] = source[lane + 32 * place]
        k.barrier.sync()
        for place, register in enumerate(
            k.mma.ldmatrix(row_address(k, shared).cast(u32), count, transposed=transposed)
        ):
            out[lane * count + place] = register

    matrices, given = halves(count)
    found = words(body, given, 32 * count).reshape(32, count)
    assert np.array_equal(found, held(matrix_move.ldmatrix(count, transposed), "fragment", matrices))


@pytest.mark.parametrize(("count", "transposed"), FORMS)
def test_a_store_puts_each_lanes_elements_where_they_belong(count, transposed):
    def body(k, source, out):
        lane = k.thread_id()
        shared = k.shared(u32, 4 * 32, align=128)
        registers = [source[lane * count + place] for place in range(count)]
        k.mma.stmatrix(row_address(k, shared), registers, transposed=transposed)
        k.barrier.sync()
        for place in range(count):
            out[lane + 32 * place] = shared[lane + 32 * place]

    matrices, wanted = halves(count)
    given = held(matrix_move.stmatrix(count, transposed), "fragment", matrices)
    assert np.array_equal(words(body, given, 32 * count), wanted)


def test_movmatrix_transposes():
    def body(k, source, out):
        lane = k.thread_id()
        out[lane] = k.mma.movmatrix(source[lane])

    matrices, _ = halves(1)
    row = matrix_move.movmatrix()
    found = words(body, held(row, "source", matrices[0]), 32).reshape(32, 1)
    assert np.array_equal(found, held(row, "fragment", matrices[0]))
