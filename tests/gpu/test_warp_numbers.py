"""Warp-wide instructions on a GPU, against NumPy: shuffles, votes, matches, reductions, matrices."""

from __future__ import annotations

import numpy as np
import pytest

from nvbackend.intrinsics.row.types import s32, u32
from tests.support.devices import ON_DEVICES
from tests.support.numbers_kernel import words

pytestmark = ON_DEVICES

LANE = np.arange(32)
MATRIX_WORDS = 32
"""Words of an 8x8 matrix of 16-bit elements."""


def random_words(count=32, seed=1, most=1 << 32):
    return np.random.default_rng(seed).integers(0, most, count, np.uint64).astype(np.uint32)


@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize(("mode", "argument"), [("idx", 3), ("up", 3), ("down", 5), ("bfly", 5)])
def test_a_shuffle_reads_the_lane_that_its_mode_says(mode, argument, width):
    def body(k, source, out):
        lane = k.thread_id()
        out[lane] = k.warp.shuffle(source[lane], mode, argument, width=width)

    values = random_words()
    first = LANE // width * width
    wanted = {"idx": first + argument, "up": LANE - argument, "down": LANE + argument, "bfly": LANE ^ argument}[mode]
    inside = (wanted >= first) & (wanted < first + width)
    assert np.array_equal(words(body, values, 32), values[np.where(inside, wanted, LANE)])


@pytest.mark.parametrize("bits", [0, 0xFFFFFFFF, 0x80000001, 0x1234ABCD])
def test_votes_and_ballots(bits):
    def body(k, source, out):
        lane = k.thread_id()
        holds = source[lane] == 1
        for place, mode in enumerate(("all", "any", "uni")):
            out[place * 32 + lane] = k.select(k.warp.vote(mode, holds), 1, 0).to(u32)
        out[3 * 32 + lane] = k.warp.vote("ballot", holds)

    given = (bits >> LANE & 1).astype(np.uint32)
    everyone, anyone, uniform, ballot = words(body, given, 128).reshape(4, 32)
    assert set(everyone) == {int(given.all())}
    assert set(anyone) == {int(given.any())}
    assert set(uniform) == {int(given.all() or not given.any())}
    assert set(ballot) == {bits}


def test_matches_find_equal_values():
    def body(k, source, out):
        lane = k.thread_id()
        out[lane] = k.warp.match("any", source[lane])
        out[32 + lane] = k.warp.match("all", source[lane])
        out[64 + lane] = k.warp.match("all", source[lane] * 0)

    values = random_words(most=5)
    found, none, every = words(body, values, 96).reshape(3, 32)
    assert np.array_equal(found, [sum(1 << int(other) for other in LANE[values == value]) for value in values])
    assert set(none) == {0}
    assert set(every) == {0xFFFFFFFF}


@pytest.mark.parametrize("element", [s32, u32], ids=str)
def test_reductions_over_the_warp(element):
    operations = ("add", "min", "max", "and", "or", "xor")

    def body(k, source, out):
        lane = k.thread_id()
        for place, operation in enumerate(operations):
            value = k.warp.reduce(operation, source[lane].bitcast(element))
            out[place * 32 + lane] = value.bitcast(u32)

    values = random_words(seed=3).view(np.int32 if element is s32 else np.uint32)
    found = words(body, values, 6 * 32).view(values.dtype).reshape(6, 32)
    functions = (np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    for row, function in zip(found, functions, strict=True):
        assert set(row) == {function.reduce(values, dtype=values.dtype)}


def matrices(count=4):
    return np.random.default_rng(5).integers(0, 1 << 16, (count, 8, 8)).astype(np.uint16)


def held(stored):
    """Word of lane t, one row a matrix: columns 2(t%4) and 2(t%4)+1 of row t/4."""
    return np.stack([np.ascontiguousarray(one).view(np.uint32).reshape(32) for one in stored])


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_are_loaded_transposed_and_stored(transposed):
    def body(k, source, out):
        lane = k.thread_id()
        shared = k.shared(u32, 4 * MATRIX_WORDS, align=128)
        copied = k.shared(u32, 4 * MATRIX_WORDS, align=128)
        for turn in range(4):
            shared[turn * 32 + lane] = source[turn * 32 + lane]
        k.barrier.sync()
        fragment = k.mma.ldmatrix(shared.byte_offset(lane * 16), 4, transposed=transposed)
        k.mma.stmatrix(copied.byte_offset(lane * 16), fragment, transposed=transposed)
        k.barrier.sync()
        for turn, one in enumerate(fragment):
            out[turn * 32 + lane] = one
            out[128 + turn * 32 + lane] = copied[turn * 32 + lane]
        out[256 + lane] = k.mma.movmatrix(fragment[0])

    stored = matrices()
    found = words(body, stored, 9 * 32)
    seen = stored.transpose(0, 2, 1) if transposed else stored
    assert np.array_equal(found[:128].reshape(4, 32), held(seen))
    assert np.array_equal(found[128:256].reshape(4, 32), held(stored))
    assert np.array_equal(found[256:], held(seen.transpose(0, 2, 1))[0])
