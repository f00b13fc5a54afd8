"""A GEMM of tiled copies at the edges of its matrices, thread by thread by the arithmetic that was emitted."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from tests.support.ir_addresses import condition_of, evaluate, instructions, pointer_of
from tests.support.tiled_gemm import gemm


@pytest.mark.parametrize(("m", "n", "depth"), [(1, 8, 8), (100, 72, 88), (64, 128, 64)])
def test_a_gemm_of_tiles_keeps_to_its_matrices(m, n, depth):
    """Every thread of every CTA: C is written once, each element, and nothing else; of A and B nothing else is read."""
    k = KernelBuilder("gemm", "sm_90a", threads=128, parameters=gemm.parameters())
    gemm.__wrapped__(k, *k.arguments)
    begins = {"a": 1 << 30, "b": 2 << 30, "c": 3 << 30}
    known = {**begins, "m": m, "n8": n // 8, "depth8": depth // 8}
    stores = [one for one in instructions(k.function, "store") if "addrspace(1)" in str(pointer_of(one).type)]
    copies = [one for block in k.function.blocks for one in block.instructions if "cp.async.cg" in str(one)]
    assert (len(stores), len(copies)) == (4, 8)
    written, read = Counter(), {name: set() for name in "ab"}
    for row, column, thread in itertools.product(range(-(-m // 64)), range(-(-n // 64)), range(128)):
        here = {**known, "tid.x": thread, "ctaid.x": row, "ctaid.y": column}
        for one in stores:
            condition = condition_of(one)
            if condition is None or evaluate(condition, here):
                first = (evaluate(pointer_of(one), here) - begins["c"]) // 2
                written.update(range(first, first + 8))
        for step, one in itertools.product(range(-(-depth // 64)), copies):
            _, address, ignored = (evaluate(each, {**here, "i": step}) for each in one.args)
            name = max("ab", key=lambda name: (begins[name] <= address, begins[name]))
            first = (address - begins[name]) // 2
            read[name].update(range(first, first + 8) if not ignored else ())
    assert written == dict.fromkeys(range(m * n), 1)
    assert read == {"a": set(range(m * depth)), "b": set(range(n * depth))}
