"""The instructions that stop a kernel without a cluster, in kernels of one CTA a cluster."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import u32
from tests.support.clusters_of_one import LANES, SENDS, send
from tests.support.devices import ON_DEVICES
from tests.support.numbers_kernel import words

pytestmark = ON_DEVICES


@pytest.mark.parametrize("opcode", SENDS)
def test_a_cta_writes_to_itself(opcode: str) -> None:
    found = words(lambda k, _, out: send(k, opcode, out), np.zeros(1, np.uint32), LANES)
    assert np.array_equal(found, 3 * np.arange(LANES))


def test_a_cluster_of_one_is_explicit() -> None:
    def body(k: nvb.KernelBuilder, _: nvb.Address, out: nvb.Address) -> None:
        send(k, "st.async", out)
        out[LANES + k.thread_id()] = k.select(k.special_register("is_explicit_cluster"), 1, 0).to(u32)

    assert set(words(body, np.zeros(1, np.uint32), 2 * LANES)[LANES:]) == {1}


def test_without_such_an_instruction_it_is_not() -> None:
    def body(k: nvb.KernelBuilder, _: nvb.Address, out: nvb.Address) -> None:
        out[k.thread_id()] = k.select(k.special_register("is_explicit_cluster"), 1, 2).to(u32)

    assert set(words(body, np.zeros(1, np.uint32), LANES)) == {2}
