"""A GEMM whose A is loaded as bytes and converted, one step while the tensor core multiplies the step before."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import f16, f32, i32, s8, u16

ROWS, COLUMNS, DEPTH = 64, 64, 64
"""Of a step."""
WORDS = ROWS * DEPTH // 2 // 128
"""Pairs of weights that a thread has of a step."""
B = nvb.TensorMap(f16, box=(COLUMNS, DEPTH))


@nvb.kernel("sm_90a", threads=256, min_ctas=1)
def weights_of_bytes(k, weights: nvb.Pointer[u16], b: B, out: nvb.Pointer[f32], steps: i32(minimum=1), *, mistake=None):
    """C = A B^T, A of pairs of s8 in the order of the registers."""
    mma = k.tiled_mma(nvb.wgmma.mma_async(f"m64n{COLUMNS}k16", f16, f16, f32, a_in_registers=True))
    ring = k.pipeline(3, consumers=1, b=mma.smem_b(DEPTH))
    k.mbarrier.ready()
    with k.producer(registers=40), k.range(steps) as step, ring.fill() as stage:
        k.tma.load(stage.b, b, (0, step * DEPTH), stage.full)
    with k.consumers(registers=232):
        acc, thread = mma.accumulator(), k.thread_id() % 128

        def multiply(step):
            pairs = [weights[(step * WORDS + word) * 128 + thread] for word in range(WORDS)]
            parts = [[(pair >> shift).to(s8).to(f32) for shift in (0, 8)] for pair in pairs]
            words = [k.convert.pack("f16x2", *part) for part in parts]
            fragments = [k.wgmma.fragment(words[first : first + 4], f16) for first in range(0, WORDS, 4)]
            with ring.drain(in_flight=1) as stage, k.wgmma.group(in_flight=1):
                mma.accumulate(acc, mma.make_fragment_A(fragments), stage.b)

        if mistake == "one set":
            with k.range(steps) as step:
                multiply(step)
        else:
            for step in k.wgmma.turns(steps):
                multiply(step)
                if mistake == "continue":
                    k.continue_if(step == 2)
                if mistake == "break":
                    break
        k.wgmma.wait_group(0, drains=[acc])
        k.store_accumulator(acc, out, COLUMNS)


def arranged(matrix):
    """(steps, words, threads) of pairs: PTX ISA 9.7.15.5.1.1.1, the figure of A of .f16, written down a second time."""
    steps = matrix.shape[1] // DEPTH
    made = np.zeros((steps, WORDS, 128, 2), np.int8)
    for word in range(WORDS):
        block, register = divmod(word, 4)
        for thread in range(128):
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (register % 2)
            column = 16 * block + 2 * (thread % 4) + 8 * (register // 2)
            for step in range(steps):
                made[step, word, thread] = matrix[row, step * DEPTH + column : step * DEPTH + column + 2]
    return made.view(np.uint16).ravel()
