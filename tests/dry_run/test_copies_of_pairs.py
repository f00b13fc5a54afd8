"""A tcgen05.cp of a pair reads the shared memory of both CTAs."""

from __future__ import annotations

import numpy as np

import nvbackend as nvb
from nvbackend import Pointer, u32
from tests.support.runtime import broken

WORDS = 128 * 8
WORD = Pointer(u32)


def copied_for_both(*, met: bool) -> nvb.KernelDefinition:
    """The first CTA copies what each has in shared memory to tensor memory; they have `met` before."""

    @nvb.kernel("sm_100a", threads=128, cluster=2)
    def copied(k, x: WORD, out: WORD):
        thread, rank = k.thread_id(), k.cluster.rank()
        source, done = k.shared(u32, WORDS, align=128, name="source"), k.mbarrier.array(1, arrivals=1, name="done")
        k.mbarrier.ready()
        with k.tcgen05.tmem(32, cta_group=2) as tmem:
            for part in range(8):
                source[part * 128 + thread] = x[rank * WORDS + part * 128 + thread]
            k.fence.proxy_async()
            if met:
                k.cluster.sync()
            k.barrier.sync()
            with k.one_thread(), k.if_(rank == 0):
                layout = nvb.Tcgen05SmemDescriptor(0, 2048, 128, swizzle=nvb.Tcgen05Swizzle.NONE)
                k.tcgen05.cp(tmem, k.tcgen05.smem_descriptor(source, layout), "128x256b", cta_group=2)
                k.tcgen05.commit(done, cta_group=2, multicast_mask=0b11)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()
            load = k.tcgen05.ld(tmem.lanes(32 * k.warp_id()), "32x32b", 8)
            k.tcgen05.wait_ld(load)
            for column, value in enumerate(load.values):
                out[(rank * 128 + thread) * 8 + column] = value

    return copied


def test_a_right_pair_is_right_in_the_simulator() -> None:
    compiled = copied_for_both(met=True).compile(assemble=False)
    x, out = np.arange(2 * WORDS, dtype=np.uint32), np.zeros((2, 128, 8), np.uint32)
    nvb.runtime.load(compiled, device="simulator").launch(2, x, out)
    assert np.array_equal(out, x.reshape(2, 2, 128, 4).transpose(0, 2, 1, 3).reshape(2, 128, 8))


def test_the_other_cta_has_not_written_yet() -> None:
    assert [one.rule_id for one in broken(copied_for_both(met=False).build)] == ["shared.missing-barrier"]
