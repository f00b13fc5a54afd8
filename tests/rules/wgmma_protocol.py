"""Fence, multiply, commit, wait: what goes wrong silently elsewhere."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32
from nvbackend.isel.protocols.wgmma.protocol import check_wgmma_protocol
from tests.rules.example import kernel, program
from tests.rules.setup import wgmma_parts
from tests.support.machine import Program


@kernel("wgmma.missing-fence")
def no_fence(k):
    mma, acc, tile = wgmma_parts(k)
    k.wgmma.fence()  # keeps
    mma.accumulate(acc, tile, tile)
    k.wgmma.commit_group()
    k.wgmma.wait_group(0, drains=[acc])


@kernel("wgmma.missing-commit")
def no_commit(k):
    mma, acc, tile = wgmma_parts(k)
    k.wgmma.fence()
    mma.accumulate(acc, tile, tile)
    k.wgmma.commit_group()  # keeps
    k.wgmma.wait_group(0, drains=[acc])


@kernel("wgmma.missing-wait")
def no_wait(k):
    mma, acc, tile = wgmma_parts(k)
    k.wgmma.fence()
    mma.accumulate(acc, tile, tile)
    k.wgmma.commit_group()
    k.wgmma.wait_group(0)  # keeps
    k.return_()


@kernel("wgmma.read-in-flight")
def read_too_early(k, out: nvb.Pointer[f32]):
    mma, acc, tile = wgmma_parts(k)
    with k.wgmma.group(in_flight=1):
        mma.accumulate(acc, tile, tile)
    k.wgmma.wait_group(0)  # keeps
    out[0] = acc[0]
    k.wgmma.wait_group(0)


@kernel("wgmma.write-in-flight")
def fill_too_early(k):
    mma, acc, tile = wgmma_parts(k)
    with k.wgmma.group(in_flight=1):
        mma.accumulate(acc, tile, tile)
    k.wgmma.wait_group(0)  # keeps
    acc.fill(0.0)
    k.wgmma.wait_group(0)


@kernel("wgmma.wait-leaves-group")
def wait_for_the_group_before(k):
    mma, acc, tile = wgmma_parts(k)
    k.wgmma.fence()
    mma.accumulate(acc, tile, tile)
    k.wgmma.commit_group()
    k.wgmma.wait_group(1, drains=[acc])  # breaks
    k.wgmma.wait_group(0, drains=[acc])


@kernel("wgmma.wait-range")
def wait_for_eight_groups(k):
    k.wgmma.wait_group(8)  # breaks
    k.wgmma.wait_group(7)  # keeps


@program("wgmma.shape-change", located=False)
def another_shape_into_the_same_registers():
    """Calls cannot do it, since an accumulator has one shape; what was built elsewhere, and is only verified, can."""
    text = """
        entry
          fence
          mma acc n=64
          fence # keeps
          mma acc n=128
          commit
          wait 0 acc
          ret
    """
    return check_wgmma_protocol(Program(text).function)


@kernel("wgmma.needless-fence")
def fence_inside_a_group(k):
    mma, acc, tile = wgmma_parts(k)
    k.wgmma.fence()
    mma.accumulate(acc, tile, tile)
    k.wgmma.fence()  # breaks
    mma.accumulate(acc, tile, tile)
    k.wgmma.commit_group()
    k.wgmma.wait_group(0)


@kernel("wgmma.unwritten")
def stored_before_anything_was_multiplied(k, out: nvb.Pointer[f32]):
    mma, acc, tile = wgmma_parts(k)
    out[k.thread_id()] = acc[0]  # breaks
    with k.wgmma.group():
        mma.accumulate(acc, tile, tile)
    out[k.thread_id()] = acc[0]  # keeps
