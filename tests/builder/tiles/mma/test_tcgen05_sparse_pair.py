"""A sparse A of 128 rows in a pair of CTAs: layout C of the PTX ISA, run in the simulator, against NumPy."""

from typing import Annotated

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import f16, f32, u32
from nvbackend.intrinsics.maps.tcgen05 import accumulator_cell, metadata_cell
from nvbackend.layout import Layout

M, N, K, STEP = 128, 64, 64, 32
ROWS, STORED = M // 2, K // 2
A = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(ROWS, STORED), swizzle=64)]
B = Annotated[nvb.TensorMap, nvb.TensorMap(f16, box=(N // 2, K))]


def kernel_of(in_tensor_memory: bool) -> nvb.KernelDefinition:
    @nvb.kernel("sm_100a", threads=128, cluster=2)
    def kernel(k, a: A, b: B, kept: nvb.Pointer[u32], out: nvb.Pointer[f32]):
        request = nvb.tcgen05.mma(
            f"m{M}n{N}k{STEP}", f16, f16, f32, cta_group=2, sparse=True, a_in_tmem=in_tensor_memory
        )
        mma = k.tiled_mma(request)
        layouts = mma.smem_a(STORED, swizzle=nvb.SwizzleMode.B64), mma.smem_b(K)
        tiles = [k.shared_tile(layout) for layout in layouts]
        full, done = k.mbarrier.array(1, arrivals=1), k.mbarrier.array(1, arrivals=1)
        k.mbarrier.ready()
        rank, thread = k.cluster.rank(), k.thread_id()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=sum(layout.bytes for layout in layouts))
            k.tma.load(tiles[0], a, (rank * ROWS, 0), full)
            k.tma.load(tiles[1], b, (rank * (N // 2), 0), full)
        k.mbarrier.wait(full, 0)
        with k.tcgen05.tmem(128, cta_group=2) as tmem:
            metadata = tmem.columns(N, 2)
            words = [kept[(rank * 128 + thread) * 2 + step] for step in range(2)]
            k.tcgen05.st(metadata.lanes(k.warp_id() * 32), "32x32b", words)
            k.tcgen05.wait_st()
            first = mma.partition_fragment_A(tiles[0]) if not in_tensor_memory else stored(k, mma, tmem, tiles[0])
            k.tcgen05.fence_before_thread_sync()
            k.cluster.sync()
            second = mma.partition_fragment_B(tiles[1])
            with k.one_thread(0), k.if_(rank == 0):
                k.tcgen05.fence_after_thread_sync()
                for issue in mma.issues(first, second):
                    address = metadata.address + issue.k
                    mma.issue(issue, tmem, first, second, accumulate=issue.k > 0, metadata=address)
                k.tcgen05.commit(done, cta_group=2, multicast_mask=0b11)
            k.mbarrier.wait(done, 0)
            k.tcgen05.fence_after_thread_sync()
            mma.load(tmem).store(k.tensor(out + rank * (ROWS * N), Layout((ROWS, N), (N, 1))))
            k.cluster.sync()

    return kernel


def stored(k, mma, tmem, tile):
    """A from shared memory to tensor memory: 16 lanes of each warp have a row of 32 f16 each, in 16 columns."""
    fragment = mma.make_fragment_A(tmem.columns(96, 16), K)
    lane, warp = k.lane_id(), k.warp_id()
    row = warp * 16 + lane % 16
    start = lane // 16 * 16
    address = [tile.address.cast(f16) + row * STORED + (start + at ^ row // 2 % 4 * 8) for at in range(0, 16, 8)]
    words = [word for each in address for word in each.cast(u32).load(4)]
    k.tcgen05.st(tmem.columns(96, 16).lanes(warp * 32), "16x32bx2", words, half_split=8)
    k.tcgen05.wait_st()
    return fragment


def words_of(chosen: np.ndarray) -> np.ndarray:
    """The metadata of both CTAs by the lanes and columns: `chosen` are the two of each four that a row has."""
    words = np.zeros((2, 128, K // STEP), np.uint32)
    for row in range(M):
        for chunk in range(K // 4):
            step, inside = divmod(chunk, STEP // 4)
            lane, column, bit = metadata_cell("f16", row % ROWS, inside, rows=ROWS)
            assert column == 0
            low, high = (int(each) for each in chosen[row, chunk])
            words[row // ROWS, lane, step] |= np.uint32((low | high << 2) << bit)
    return words


@pytest.mark.parametrize("in_tensor_memory", [False, True])
def test_a_sparse_a_of_128_rows_in_two_ctas(in_tensor_memory: bool) -> None:
    random = np.random.default_rng(9)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((M, STORED), (N, K)))
    pairs = np.array([(low, high) for high in range(4) for low in range(high)])
    chosen = pairs[random.integers(0, len(pairs), (M, K // 4))]
    dense = np.zeros((M, K // 4, 4), np.float32)
    np.put_along_axis(dense, chosen, a.reshape(M, K // 4, 2).astype(np.float32), 2)
    out = np.zeros((M, N), np.float32)
    compiled = kernel_of(in_tensor_memory).compile()
    assert compiled.cubin is not None and "tcgen05.mma.sp.cta_group::2.kind::f16" in compiled.ptx
    nvb.runtime.load(compiled, device="simulator").launch(2, a, b, words_of(chosen), out)
    assert np.array_equal(out, dense.reshape(M, K) @ b.astype(np.float32).T)


def test_its_rows_fill_the_lower_half_of_each_quarter() -> None:
    """By the table of the PTX ISA: 4x1, half of the data path, as layout F of 64 rows has it in one CTA."""
    for row in range(M):
        cta, lane, column = accumulator_cell(M, N, row, 5, cta_group=2, sparse=True)
        assert (cta, lane, column) == (row // 64, row % 64 // 16 * 32 + row % 16, 5)
        assert (lane, column) == accumulator_cell(64, N, row % 64, 5)[1:]
