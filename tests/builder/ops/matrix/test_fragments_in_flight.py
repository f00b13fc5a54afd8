"""A of an mma in flight keeps its registers: in the PTX, in the machine form, by ptxas and by the simulator."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32, u32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.signature import Parameter

QUERY, KEYS, VALUES = (SmemLayout(Major.K, SwizzleMode.B32, f16, rows, 16) for rows in (64, 16, 8))
SCORES = nvb.wgmma.mma_async("m64n16k16", f16, f16, f32)
SUMS = nvb.wgmma.mma_async("m64n8k16", f16, f16, f32, a_in_registers=True)
SOURCE = nvb.Pointer[f16]
STEPS = 4


@nvb.kernel("sm_90a", threads=128)
def the_next_weights_while_the_last_multiply(
    k, q: SOURCE, keys: SOURCE, values: SOURCE, out: nvb.Pointer[f32], steps: i32
):
    """The next weights are packed between the wait for their scores and the wait for what the last ones multiply."""
    tiles = []
    for layout, source, name in ((QUERY, q, "q"), (KEYS, keys, "keys"), (VALUES, values, "values")):
        tile = k.shared_tile(layout, name=name)
        for first in range(0, layout.bytes // 2, 128):
            tile.address.cast(f16)[first + k.thread_id()] = source[first + k.thread_id()]
        tiles.append(tile)
    k.fence.proxy_async()
    k.barrier.sync()
    scores, sums = k.wgmma.accumulator(16, name="scores"), k.wgmma.accumulator(8, name="sums")
    sums.fill(0.0)
    words = [k.var(k.const(0x3C003C00, u32), name="p") for _ in range(4)]
    with k.range(steps):
        weights = k.wgmma.fragment([word.value for word in words], f16)
        scores.clear()
        k.wgmma.fence()
        k.wgmma.mma_async(scores, tiles[0], tiles[1], SCORES)
        k.wgmma.commit_group()
        k.wgmma.mma_async(sums, weights, tiles[2], SUMS)
        k.wgmma.commit_group()
        k.wgmma.wait_group(1, drains=[scores])
        found = scores.values()
        following = [
            k.convert.pack("f16x2", low * 0.5, high * 0.5).bitcast(u32)
            for low, high in zip(found[::2], found[1::2], strict=True)
        ]
        k.wgmma.wait_group(0, drains=[sums])
        for word, value in zip(words, following, strict=True):
            word.set(value)
    k.store_accumulator(sums, out, 8)


def test_nothing_writes_the_registers_before_the_wait():
    ptx = the_next_weights_while_the_last_multiply.compile(assemble=False).ptx
    mma = re.search(r"m64n8k16\S* \{[^}]*\}, \{([^}]*)\}", ptx)
    registers = mma[1].split(", ")
    assert len(registers) == 4
    between = ptx[mma.end() : ptx.index("wgmma.wait_group.sync.aligned 0;")]
    assert "cvt.rn.f16x2.f32" in between
    assert not any(re.search(rf"{re.escape(one)}\b", between) for one in registers)


def test_ptxas_keeps_the_mma_asynchronous():
    """Not C7513, which ptxas says where it serialises them."""
    assert the_next_weights_while_the_last_multiply.compile().cubin.diagnostics == ()


def test_the_simulator_finds_nothing_and_numbers_are_right():
    rng = np.random.default_rng(7)
    q, keys, values = (rng.integers(-2, 3, (rows, 16)).astype(np.float16) for rows in (64, 16, 8))
    given = [one.arrange(matrix).view(np.float16) for one, matrix in ((QUERY, q), (KEYS, keys), (VALUES, values))]
    weights = [np.ones((64, 16)), *[q @ keys.T * np.float16(0.5)] * (STEPS - 1)]
    wanted = sum(one.astype(np.float32) @ values.T.astype(np.float32) for one in weights)
    for seed in range(6):
        out = np.zeros((64, 8), np.float32)
        compiled = the_next_weights_while_the_last_multiply.compile(assemble=False)
        loaded = nvb.runtime.load(compiled, device="simulator", seed=seed, checks=True)
        loaded.launch(1, *given, out, STEPS)
        assert np.array_equal(out, wanted)


class Scene:
    """A kernel that multiplies fragments of A, and how many registers of them each wait reads."""

    def __init__(self):
        self.k = KernelBuilder("scene", "sm_90a", threads=128, parameters=[Parameter("n", nvb.Scalar(i32))])
        self.n = self.k.arguments[0]
        self.acc = self.k.wgmma.accumulator(8)
        self.tile = self.k.shared_tile(VALUES)

    def fragment(self):
        return self.k.wgmma.fragment([(self.n + index).bitcast(u32) for index in (1, 2, 3, 4)], f16)

    def multiply(self, fragment=None):
        fragment = fragment or self.fragment()
        self.k.wgmma.fence()
        self.k.wgmma.mma_async(self.acc, fragment, self.tile, SUMS)
        self.k.wgmma.commit_group()
        return fragment

    def wait(self, pending=0):
        self.k.wgmma.wait_group(pending)

    def read_by_waits(self):
        blocks = self.k.core.machine.blocks.values()
        waits = (one for block in blocks for one in block.instructions if one.opcode == "wgmma.wait_group")
        return [one.registers.get("fragments", 0) for one in waits]


def one_group_after_the_other(s):
    s.multiply()
    s.wait(0)
    s.multiply()
    s.wait(0)
    s.wait(0)


def two_groups_in_flight(s):
    s.multiply()
    s.multiply()
    s.wait(1)
    s.wait(0)
    s.wait(0)


def two_mma_of_a_fragment(s):
    fragment = s.multiply()
    s.multiply(fragment)
    s.wait(0)


def a_wait_of_some_threads(s):
    s.multiply()
    with s.k.if_(s.n > 3):
        s.wait(0)
    s.wait(0)


def a_commit_that_may_be_skipped(s):
    s.multiply()
    with s.k.if_(s.n > 3):
        s.k.wgmma.commit_group()
    s.wait(1)
    s.wait(0)


def a_fragment_of_a_block_that_ended(s):
    with s.k.range(s.n):
        s.multiply()
        s.wait(1)
    s.wait(0)


def a_fragment_of_before_a_loop(s):
    fragment = s.fragment()
    with s.k.range(s.n):
        s.multiply(fragment)
        s.wait(1)
    s.wait(0)


def constants(s):
    s.multiply(s.k.wgmma.fragment([s.k.const(0, u32)] * 4, f16))
    s.wait(0)


@pytest.mark.parametrize(
    ("body", "registers"),
    [
        (one_group_after_the_other, [4, 4, 0]),
        (two_groups_in_flight, [8, 4, 0]),
        (two_mma_of_a_fragment, [4]),
        (a_wait_of_some_threads, [4, 4]),
        (a_commit_that_may_be_skipped, [4, 4]),
        (a_fragment_of_a_block_that_ended, [4, 0]),
        (a_fragment_of_before_a_loop, [4, 4]),
        (constants, [0]),
    ],
)
def test_a_wait_reads_what_may_be_in_flight(body, registers):
    scene = Scene()
    body(scene)
    assert scene.read_by_waits() == registers
