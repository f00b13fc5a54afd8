"""Loads from tensor memory that overlap: each is known apart from the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import nvbackend as nvb
from nvbackend import u32
from nvbackend.builder.ops.matrix.tensor_memory import TensorLoad
from tests.rules.setup import tensor_memory

STEPS = ("load 0", "wait 0", "read 0", "load 1", "wait 1", "read 1")
ORDERS = [
    order
    for order in permutations(STEPS)
    if all(order.index(f"load {n}") < order.index(f"wait {n}") < order.index(f"read {n}") for n in (0, 1))
]


def kernel_of(order: Sequence[str]) -> nvb.KernelDefinition:
    @nvb.kernel("sm_100a", threads=128)
    def loads(k: nvb.KernelBuilder, out: nvb.Pointer[u32]) -> None:  # type: ignore[valid-type]
        with tensor_memory(k, 64) as tmem:
            made: dict[str, TensorLoad] = {}
            k.tcgen05.st(tmem, "32x32b", [3] * 64)
            k.tcgen05.wait_st()
            for step in order:
                what, number = step.split()
                if what == "load":
                    made[number] = k.tcgen05.ld(tmem + 32 * int(number), "32x32b", 2)
                elif what == "wait":
                    k.tcgen05.wait_ld(made[number])
                else:
                    out[k.thread_id() * 2 + int(number)] = made[number].values[1]

    return loads


def test_a_load_that_follows_leaves_what_was_waited_for() -> None:
    """PTX ISA 9.7.16.8.5: the wait is for all loads of the thread before it, and for none after it."""
    assert len(ORDERS) == 20
    for order in ORDERS:
        assert kernel_of(order).build().diagnostics == (), order
