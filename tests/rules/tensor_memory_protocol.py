"""Tensor memory along the control flow: allocations, commits, waits and fences."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import InstructionDescriptor, Tcgen05Request, f16, f32, u32
from tests.rules.example import kernel
from tests.rules.setup import issuing, tensor_memory

HALF = InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
REQUEST = Tcgen05Request("f16")


@kernel("tcgen05.missing-dealloc", "sm_100a")
def columns_never_given_back(k):
    cell = k.shared(u32, 1)
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 64)
        k.tcgen05.dealloc(cell[0], 64)  # keeps
    k.return_()


@kernel("tcgen05.double-dealloc", "sm_100a")
def columns_given_back_twice(k):
    cell = k.shared(u32, 1)
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 64)
        k.tcgen05.dealloc(cell[0], 64)
        k.tcgen05.dealloc(cell[0], 64)  # breaks


@kernel("tcgen05.dealloc-columns", "sm_100a")
def half_the_columns_given_back(k):
    cell = k.shared(u32, 1)
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 64)
        k.tcgen05.dealloc(cell[0], 32)  # breaks
        k.tcgen05.dealloc(cell[0], 64)  # keeps


@kernel("tcgen05.total-columns", "sm_100a")
def more_columns_than_there_are(k):
    first, second = k.shared(u32, 1), k.shared(u32, 1)
    columns = 512  # breaks
    columns = 256  # keeps
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(first, 256)
        k.tcgen05.alloc(second, columns)
        k.tcgen05.dealloc(first[0], 256)
        k.tcgen05.dealloc(second[0], columns)


@kernel("tcgen05.alloc-after-relinquish", "sm_100a")
def allocation_after_the_promise(k):
    cell = k.shared(u32, 1)
    with k.if_(k.warp_id() == 0):
        k.tcgen05.relinquish_alloc_permit()  # breaks
        k.tcgen05.alloc(cell, 64)
        k.tcgen05.relinquish_alloc_permit()  # keeps
        k.tcgen05.dealloc(cell[0], 64)


@kernel("tcgen05.not-allocated", "sm_100a", threads=32)
def columns_read_behind_their_end(k, out: nvb.Pointer[u32]):
    cell = k.shared(u32, 1)
    k.tcgen05.alloc(cell, 64)
    tmem = cell[0]
    k.tcgen05.dealloc(tmem, 64)  # breaks
    load = k.tcgen05.ld(tmem, "32x32b", 1)
    k.tcgen05.wait_ld(load)
    out[k.thread_id()] = load.values[0]
    k.tcgen05.dealloc(tmem, 64)  # keeps


@kernel("tcgen05.bounds", "sm_100a")
def load_behind_the_columns(k, out: nvb.Pointer[u32]):
    with tensor_memory(k, 64) as tmem:
        load = k.tcgen05.ld(tmem, "32x32b", 128)  # breaks
        load = k.tcgen05.ld(tmem, "32x32b", 64)  # keeps
        k.tcgen05.wait_ld(load)


@kernel("tcgen05.missing-wait-st", "sm_100a")
def load_of_what_is_still_stored(k):
    with tensor_memory(k, 64) as tmem:
        k.tcgen05.st(tmem, "32x32b", [0])
        k.tcgen05.wait_st()  # keeps
        k.tcgen05.wait_ld(k.tcgen05.ld(tmem, "32x32b", 1))
        k.tcgen05.wait_st()


@kernel("tcgen05.missing-commit", "sm_100a")
def multiply_that_nobody_waits_for(k):
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with tensor_memory(k, 64) as tmem:
        with k.one_thread():
            k.tcgen05.commit(done)  # breaks
            k.tcgen05.mma(REQUEST, tmem, 0, 0, HALF, accumulate=False)
            k.tcgen05.commit(done)  # keeps
        k.mbarrier.wait(done, 0)


@kernel("tcgen05.missing-wait", "sm_100a")
def load_of_what_is_still_multiplied(k):
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with tensor_memory(k, 64) as tmem:
        with k.one_thread():
            k.tcgen05.mma(REQUEST, tmem, 0, 0, HALF, accumulate=False)
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)  # keeps
        k.tcgen05.fence_after_thread_sync()
        k.tcgen05.wait_ld(k.tcgen05.ld(tmem, "32x32b", 64))
        k.mbarrier.wait(done, 0)  # breaks


@kernel("tcgen05.write-in-flight", "sm_100a", threads=32)
def next_a_stored_while_it_is_multiplied(k):
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    request = Tcgen05Request("f16", a_in_tmem=True)
    with tensor_memory(k, 128) as tmem:
        a = tmem + 64
        with k.one_thread():
            k.tcgen05.mma(request, tmem, a, 0, HALF, accumulate=False)
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)  # keeps
        k.tcgen05.st(a, "32x32b", [0] * 8)
        k.tcgen05.wait_st()
        k.mbarrier.wait(done, 0)  # breaks


@kernel("tcgen05.missing-fence-after", "sm_100a")
def load_that_may_move_above_the_wait(k):
    done = k.mbarrier.array(1, arrivals=1, name="done")
    k.mbarrier.ready()
    with tensor_memory(k, 64) as tmem:
        with k.one_thread():
            k.tcgen05.mma(REQUEST, tmem, 0, 0, HALF, accumulate=False)
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)
        k.tcgen05.fence_after_thread_sync()  # keeps
        k.tcgen05.wait_ld(k.tcgen05.ld(tmem, "32x32b", 64))


@kernel("tcgen05.missing-fence-before", "sm_100a")
def columns_given_back_while_they_are_read(k):
    cell = k.shared(u32, 1)
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 64)
    k.tcgen05.fence_before_thread_sync()
    k.barrier.sync()
    k.tcgen05.fence_after_thread_sync()
    k.tcgen05.wait_ld(k.tcgen05.ld(cell[0], "32x32b", 64))
    k.tcgen05.fence_before_thread_sync()  # keeps
    k.barrier.sync()
    with k.if_(k.warp_id() == 0):
        k.tcgen05.dealloc(cell[0], 64)


@kernel("tcgen05.missing-barrier", "sm_100a")
def columns_given_back_before_others_have_read(k):
    cell = k.shared(u32, 1)
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, 64)
    k.tcgen05.fence_before_thread_sync()
    k.barrier.sync()
    k.tcgen05.fence_after_thread_sync()
    k.tcgen05.wait_ld(k.tcgen05.ld(cell[0], "32x32b", 64))
    k.tcgen05.fence_before_thread_sync()
    k.barrier.sync()  # keeps
    with k.if_(k.warp_id() == 0):
        k.tcgen05.dealloc(cell[0], 64)


@kernel("tcgen05.undefined-accumulator", "sm_100a")
def first_product_added_to_nothing(k):
    with tensor_memory(k, 64) as tmem, issuing(k):
        k.tcgen05.mma(REQUEST, tmem, 0, 0, HALF, accumulate=True)  # breaks
        k.tcgen05.mma(REQUEST, tmem, 0, 0, HALF, accumulate=False)  # keeps
