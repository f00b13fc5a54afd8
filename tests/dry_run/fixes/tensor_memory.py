"""Programs that read, write or free tensor memory too early, or where nothing is theirs."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

import nvbackend as nvb
from nvbackend import e2m1, f32, i32, u32, ue4m3
from tests.dry_run.fixes.tried import F32, ROW, ROWS, tried
from tests.dry_run.kernels.cutlass_sm100 import HALF, MATRIX, MMA, PART, SHAPE, multiply, store
from tests.dry_run.kernels.cutlass_sm100 import ROWS as TALL
from tests.dry_run.kernels.parts import product, small
from tests.dry_run.registry import Out

A, B = small(0, 128, 64 * ROWS), small(1, 64, 64 * ROWS)
PRODUCTS = np.stack([product(A[:, at : at + 64], B[:, at : at + 64]) for at in range(0, 64 * ROWS, 64)])
OF_PRODUCTS = A, B, Out(PRODUCTS), ROWS
WORDS, OF_WORDS = nvb.Pointer[u32], (A.view(np.uint32), *OF_PRODUCTS[1:])
WEIGHTED = nvb.Tcgen05Request("f16", a_in_tmem=True)
DEEP, ONES = 256, 0x38383838  # columns of four bits; four factors of 1
NVFP4 = nvb.tcgen05.mma("m128n64k64", e2m1, e2m1, f32, kind="mxf4nvf4", scale=ue4m3, scale_vector="scale_vec::4X")
FOUR_BITS, FOUR_BITS_OF_B = nvb.TensorMap(e2m1, box=(128, DEEP)), nvb.TensorMap(e2m1, box=(64, DEEP))
NUMBERS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
CODES_A, CODES_B = (np.random.default_rng(rows).integers(0, 16, (rows, DEEP), np.uint8) for rows in (128, 64))
OF_FOUR_BITS = (
    *(codes[:, ::2] | codes[:, 1::2] << 4 for codes in (CODES_A, CODES_B)),
    Out(NUMBERS[CODES_A] @ NUMBERS[CODES_B].T),
)


class Products:
    """A product of 128 x 64 in each step, by one thread; `done` says when."""

    def __init__(self, k, a, b):
        self.k, self.a, self.b = k, a, b
        self.ta, self.tb = k.shared_tile(TALL, name="a"), k.shared_tile(HALF, name="b")
        self.full, self.done = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "done"))
        k.mbarrier.ready()

    @contextmanager
    def issued(self, tmem, step, *, fenced=True):
        """In one thread: the product is issued before the block, `fenced` after what it waits for."""
        k = self.k
        with k.one_thread():
            k.mbarrier.arrive(self.full, expect_tx=TALL.bytes + HALF.bytes)
            k.tma.load(self.ta, self.a, (0, step * 64), self.full)
            k.tma.load(self.tb, self.b, (0, step * 64), self.full)
            k.mbarrier.wait(self.full, step & 1)
            if fenced:
                k.tcgen05.fence_after_thread_sync()
            multiply(k, tmem, self.ta, self.tb, first=False)
            yield

    def place(self, c, step):
        return c + ((step * 128 + self.k.thread_id()) * 64)


@tried("tcgen05.missing-wait", *OF_PRODUCTS, target="sm_100a", verified=True)
def product_that_is_not_waited_for(k, a: MATRIX, b: PART, c: F32, steps: i32):
    products = Products(k, a, b)
    with k.tcgen05.tmem(64) as tmem, k.range(steps) as step:
        with products.issued(tmem, step):
            k.tcgen05.commit(products.done)
        with k.if_(step != 2):  # breaks
            k.mbarrier.wait(products.done, step & 1)  # breaks
        k.mbarrier.wait(products.done, step & 1)  # keeps
        k.tcgen05.fence_after_thread_sync()
        load = k.tcgen05.ld(tmem.lanes(k.warp_id() * 32), "32x32b", 64)
        k.tcgen05.wait_ld(load)
        store(products.place(c, step), load.values)
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()


@tried("tcgen05.write-in-flight", *OF_PRODUCTS, target="sm_100a")
def product_over_one_that_is_read(k, a: MATRIX, b: PART, c: F32, steps: i32):
    products = Products(k, a, b)
    with k.tcgen05.tmem(64) as tmem, k.range(steps) as step:
        with products.issued(tmem, step):
            k.tcgen05.commit(products.done)
            k.mbarrier.wait(products.done, step & 1)
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()
        k.tcgen05.fence_after_thread_sync()
        load = k.tcgen05.ld(tmem.lanes(k.warp_id() * 32), "32x32b", 64)
        k.tcgen05.wait_ld(load)
        store(products.place(c, step), load.values)
        with k.if_(step != 1):  # breaks
            k.tcgen05.fence_before_thread_sync()  # breaks
            k.barrier.sync()  # breaks
        k.tcgen05.fence_before_thread_sync()  # keeps
        k.barrier.sync()  # keeps


def read_and_sum(k, products, tmem, step, c, *, fenced=True):
    """Each warp reads its lanes of a product, and the next product comes after that."""
    with products.issued(tmem, step, fenced=fenced):
        k.tcgen05.commit(products.done)
    k.mbarrier.wait(products.done, step & 1)
    k.tcgen05.fence_after_thread_sync()
    load = k.tcgen05.ld(tmem.lanes(k.warp_id() * 32), "32x32b", 64)
    k.tcgen05.wait_ld(load)
    store(products.place(c, step), load.values)


@tried("tcgen05.missing-fence-before", *OF_PRODUCTS, target="sm_100a")
def product_over_one_whose_reads_are_not_fenced(k, a: MATRIX, b: PART, c: F32, steps: i32):
    products = Products(k, a, b)
    with k.tcgen05.tmem(64) as tmem, k.range(steps) as step:
        read_and_sum(k, products, tmem, step, c)
        k.tcgen05.fence_before_thread_sync()  # keeps
        k.barrier.sync()


@tried("tcgen05.missing-fence-after", *OF_PRODUCTS, target="sm_100a")
def product_that_may_come_before_its_wait(k, a: MATRIX, b: PART, c: F32, steps: i32):
    products = Products(k, a, b)
    with k.tcgen05.tmem(64) as tmem, k.range(steps) as step:
        read_and_sum(k, products, tmem, step, c, fenced=False)
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()
        k.tcgen05.fence_after_thread_sync()  # keeps


@contextmanager
def columns(k, count):
    """`count` columns, and the lanes of each warp; what follows frees them."""
    cell = k.shared(u32, 1, name="cell")
    with k.if_(k.warp_id() == 0):
        k.tcgen05.alloc(cell, count)
        k.tcgen05.relinquish_alloc_permit()
    k.tcgen05.fence_before_thread_sync()
    k.barrier.sync()
    k.tcgen05.fence_after_thread_sync()
    yield cell[0], cell[0] + (k.warp_id() << 21).to(u32)
    with k.if_(k.warp_id() == 0):
        k.tcgen05.dealloc(cell[0], count)


@tried("tcgen05.missing-barrier", ROW, Out(ROW), ROWS, target="sm_100a", verified=True, held=("tcgen05.wait_ld",))
def columns_that_are_freed_while_others_load(k, x: F32, y: F32, rows: i32):
    with columns(k, 32) as (_, mine):
        with k.range(rows) as step:
            k.tcgen05.st(mine, "32x32b", [x[step * 128 + k.thread_id()].bitcast(u32)])
            k.tcgen05.wait_st()
            load = k.tcgen05.ld(mine, "32x32b", 1)
            k.tcgen05.wait_ld(load)
            y[step * 128 + k.thread_id()] = load.values[0].bitcast(f32)
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()  # keeps
        k.tcgen05.fence_after_thread_sync()  # keeps


@tried("dry-run.tensor-unwritten", ROW, Out(ROW), ROWS, target="sm_100a", says="read only those that are written")
def column_that_is_not_filled(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128), k.thread_id()
    with k.tcgen05.tmem(32) as tmem, k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        mine = tmem.lanes(k.warp_id() * 32)
        k.tcgen05.st(mine, "32x32b", [row[thread].bitcast(u32)])
        k.tcgen05.wait_st()
        load = k.tcgen05.ld(mine + (step >> 1).to(u32), "32x32b", 1)  # breaks
        load = k.tcgen05.ld(mine, "32x32b", 1)  # keeps
        k.tcgen05.wait_ld(load)
        y[step * 128 + k.thread_id()] = load.values[0].bitcast(f32)


@tried("dry-run.tensor-bounds", ROW, Out(ROW), ROWS, target="sm_100a", says="allocate as many columns as are used")
def columns_past_the_allocation(k, x: F32, y: F32, rows: i32):
    count = 32  # breaks
    count = 128  # keeps
    with k.tcgen05.tmem(count) as tmem, k.range(rows) as step:
        mine = tmem.lanes(k.warp_id() * 32) + (step % 4 * 20).to(u32)
        k.tcgen05.st(mine, "32x32b", [x[step * 128 + k.thread_id()].bitcast(u32)])
        k.tcgen05.wait_st()
        load = k.tcgen05.ld(mine, "32x32b", 1)
        k.tcgen05.wait_ld(load)
        y[step * 128 + k.thread_id()] = load.values[0].bitcast(f32)


@tried("dry-run.tensor-lanes", ROW, Out(ROW), ROWS, target="sm_100a", says="add 32 * (k.warp_id() % 4)")
def lanes_of_the_first_warp(k, x: F32, y: F32, rows: i32):
    row, thread = k.shared(f32, 128), k.thread_id()
    with k.tcgen05.tmem(32) as tmem, k.range(rows) as step:
        row[thread] = x[step * 128 + thread]
        mine = tmem.lanes(step - step)  # breaks
        mine = tmem.lanes(32 * (k.warp_id() % 4))  # keeps
        k.tcgen05.st(mine, "32x32b", [row[thread].bitcast(u32)])
        k.tcgen05.wait_st()
        load = k.tcgen05.ld(mine, "32x32b", 1)
        k.tcgen05.wait_ld(load)
        y[step * 128 + k.thread_id()] = load.values[0].bitcast(f32)


@tried("dry-run.tensor-overlap", *OF_WORDS, target="sm_100a", says="columns that do not overlap")
def product_over_its_own_a(k, a: WORDS, b: PART, c: F32, steps: i32):
    thread, lanes = k.thread_id(), k.warp_id() * 32
    right = k.shared_tile(HALF, name="b")
    full, done = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "done"))
    k.mbarrier.ready()
    with k.tcgen05.tmem(128) as tmem, k.range(steps) as step:
        d, left = tmem.columns(0, 64), tmem.columns(32, 32)  # breaks
        d, left = tmem.columns(0, 64), tmem.columns(64, 32)  # keeps
        k.tcgen05.st(left.lanes(lanes), "32x32b", [a[(thread * ROWS + step) * 32 + word] for word in range(32)])
        k.tcgen05.wait_st()
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()
        with k.one_thread():
            k.tcgen05.fence_after_thread_sync()
            k.mbarrier.arrive(full, expect_tx=HALF.bytes)
            k.tma.load(right, b, (0, step * 64), full)
            k.mbarrier.wait(full, step & 1)
            for part in range(4):
                k.tcgen05.mma(
                    *(WEIGHTED, d, left.columns(8 * part, 8), right, SHAPE), b_at=(0, 16 * part), accumulate=part > 0
                )
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, step & 1)
        k.tcgen05.fence_after_thread_sync()
        load = k.tcgen05.ld(d.lanes(lanes), "32x32b", 64)
        k.tcgen05.wait_ld(load)
        store(c + ((step * 128 + thread) * 64), load.values)
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()


@tried("dry-run.tensor-overlap", *OF_FOUR_BITS, target="sm_100a", says="D and the factors of A columns that do not")
def product_over_its_own_factors(k, a: FOUR_BITS, b: FOUR_BITS_OF_B, c: F32):
    mma = k.tiled_mma(NVFP4)
    left, right = k.shared_tile(mma.smem_a(DEEP)), k.shared_tile(mma.smem_b(DEEP))
    full, done = (k.mbarrier.array(1, arrivals=1, name=name) for name in ("full", "done"))
    k.mbarrier.ready()
    with k.tcgen05.tmem(128) as tmem:
        of_a = tmem.columns(60, 4)  # breaks
        of_a = tmem.columns(64, 4)  # keeps
        for factors in (of_a, tmem.columns(68, 4)):
            k.tcgen05.st(factors.lanes(k.warp_id() * 32), "32x32b", [ONES] * 4)
        k.tcgen05.wait_st()
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()
        with k.one_thread():
            k.tcgen05.fence_after_thread_sync()
            k.mbarrier.arrive(full, expect_tx=left.layout.bytes + right.layout.bytes)
            k.tma.load(left, a, (0, 0), full)
            k.tma.load(right, b, (0, 0), full)
            k.mbarrier.wait(full, 0)
            parts = mma.partition_fragment_A(left), mma.partition_fragment_B(right)
            for step in mma.issues(*parts):
                of_b = tmem.columns(68, 4)
                mma.issue(step, tmem.columns(0, 64), *parts, accumulate=step.k > 0, scale_a=of_a, scale_b=of_b)
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)
        k.tcgen05.fence_after_thread_sync()
        load = k.tcgen05.ld(tmem.columns(0, 64).lanes(k.warp_id() * 32), "32x32b", 64)
        k.tcgen05.wait_ld(load)
        store(c + k.thread_id() * 64, load.values)


@tried(
    "convergence.operand",
    Out(np.arange(128, dtype=np.uint32)),
    target="sm_100a",
    says="compute tmem from what the warp has in common",
    threads=128,
)
def lane_in_the_address(k, out: WORDS):
    with k.tcgen05.tmem(32) as columns:
        mine = columns.lanes(k.warp_id() * 32)
        k.tcgen05.st(mine, "32x32b", [k.thread_id().to(u32)])
        k.tcgen05.wait_st()
        place = mine.address + (k.lane_id() << 16).to(u32)  # breaks
        place = mine.address  # keeps
        load = k.tcgen05.ld(place, "32x32b", 1)
        k.tcgen05.wait_ld(load)
        out[k.thread_id()] = load.values[0]


@tried("tcgen05.lost-product", *OF_PRODUCTS, target="sm_100a", says="False in the first product of a tile alone")
def sum_of_the_last_columns(k, a: MATRIX, b: PART, c: F32, steps: i32):
    products = Products(k, a, b)
    with k.tcgen05.tmem(64) as tmem, k.range(steps) as step:
        with k.one_thread():
            k.mbarrier.arrive(products.full, expect_tx=TALL.bytes + HALF.bytes)
            k.tma.load(products.ta, a, (0, step * 64), products.full)
            k.tma.load(products.tb, b, (0, step * 64), products.full)
            k.mbarrier.wait(products.full, step & 1)
            k.tcgen05.fence_after_thread_sync()
            for column in range(0, 64, 16):
                at = (0, column)
                more = False  # breaks
                more = column > 0  # keeps
                k.tcgen05.mma(MMA, tmem, products.ta, products.tb, SHAPE, a_at=at, b_at=at, accumulate=more)
            k.tcgen05.commit(products.done)
        k.mbarrier.wait(products.done, step & 1)
        k.tcgen05.fence_after_thread_sync()
        load = k.tcgen05.ld(tmem.lanes(k.warp_id() * 32), "32x32b", 64)
        k.tcgen05.wait_ld(load)
        store(products.place(c, step), load.values)
        k.tcgen05.fence_before_thread_sync()
        k.barrier.sync()
