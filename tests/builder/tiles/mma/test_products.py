"""Products of wgmma and tcgen05, run by an interpreter of the emitted code and compared with NumPy.

A and B are random and of different shapes, so that no operand stands for another one, and no step for another step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32
from nvbackend.builder.core.tile import SharedTile
from nvbackend.signature import Parameter, Pointer
from tests.support import products
from tests.support.cluster_interpreter import Cluster, TensorMap
from tests.support.cta_interpreter import Recorded

pytestmark = pytest.mark.sampled(3)

SWIZZLES = {16: SwizzleMode.B32, 32: SwizzleMode.B64, 64: SwizzleMode.B128}
"""The widest for rows of so many f16."""
WGMMA = nvb.wgmma.mma_async("m64n16k16", f16, f16, f32)


class Bench:
    """A kernel that has loaded tiles of A and B of random numbers, and what came out of it."""

    def __init__(self, target: str, threads: int, a: SmemLayout, b: SmemLayout, outputs: int) -> None:
        random = np.random.default_rng(a.rows + b.rows + a.columns)
        self.a, self.b = (random.integers(-4, 5, (one.rows, one.columns)).astype(np.float16) for one in (a, b))
        self.maps: dict[str, TensorMap] = {}
        parameters = [Parameter("out", Pointer(f32))]
        for name, layout, matrix in (("a", a, self.a), ("b", b, self.b)):
            kind = nvb.TensorMap(f16, layout.tma_box, layout.swizzle.span)
            parameters.append(Parameter(name, kind))
            array = matrix if layout.major is Major.K else np.ascontiguousarray(matrix.T)
            self.maps[name] = TensorMap(array.view(np.uint16), kind.box, kind.swizzle)
        self.k = Recorded("product", target, threads=threads, parameters=parameters)
        self.out = np.zeros((a.rows, outputs), np.float32)

    def tiles(self, a: SmemLayout, b: SmemLayout) -> tuple[SharedTile, SharedTile]:
        """B first, so that A is not where shared memory begins."""
        k = self.k
        tile_b, tile_a = k.shared_tile(b, name="b"), k.shared_tile(a, name="a")
        full = k.mbarrier.array(1, 1)
        k.mbarrier.ready()
        with k.one_thread():
            k.mbarrier.arrive(full, expect_tx=a.bytes + b.bytes)
            k.tma.load(tile_a, k.arguments[1], (0, 0), full)
            k.tma.load(tile_b, k.arguments[2], (0, 0), full)
        k.mbarrier.wait(full, 0)
        return tile_a, tile_b

    def run(self) -> Cluster:
        self.k.finish()
        return Cluster(self.k, {"out": self.out, **self.maps}).run()


def wgmma_of(
    request: nvb.WgmmaRequest,
    tile: tuple[int, int],
    columns: int,
    multiply: Callable[[Any, Any, SharedTile, SharedTile, Any], None],
    *,
    atoms: tuple[int, int, int] = (1, 1, 1),
    majors: tuple[Major, Major] = (Major.K, Major.K),
) -> tuple[np.ndarray, np.ndarray]:
    """What `multiply` stores, and A B^T."""
    threads = 128 * atoms[0] * atoms[1] * atoms[2]
    plan = Recorded("plan", "sm_90a", threads=threads).tiled_mma(request, atom_layout=atoms, tile=tile)
    swizzles = [SWIZZLES[columns] if major is Major.K else SwizzleMode.B128 for major in majors]
    a, b = plan.smem_a(columns, majors[0], swizzles[0]), plan.smem_b(columns, majors[1], swizzles[1])
    bench = Bench("sm_90a", threads, a, b, tile[1])
    mma = bench.k.tiled_mma(request, atom_layout=atoms, tile=tile)
    tiles = bench.tiles(a, b)
    multiply(bench.k, mma, *tiles, bench.k.arguments[0])
    bench.run()
    return bench.out, bench.a.astype(float) @ bench.b.astype(float).T


def plain(k: Any, mma: Any, a: SharedTile, b: SharedTile, out: Any) -> None:
    warpgroup = k.warpgroup_id() if mma.layouts.size > 128 else 0
    acc = mma.accumulators()
    with k.wgmma.group():
        mma.accumulate(acc, a, b, warpgroup)
    mma.store(acc, out, mma.shape[1], warpgroup)


@pytest.mark.parametrize(
    ("tile", "columns", "more"),
    [
        ((64, 16), 64, {}),
        ((128, 32), 32, {}),
        ((128, 32), 64, {"atoms": (2, 1, 1)}),
        ((64, 32), 32, {"atoms": (1, 2, 1)}),
        ((64, 64), 16, {"majors": (Major.MN, Major.K)}),
        ((64, 64), 32, {"majors": (Major.K, Major.MN)}),
    ],
)
def test_tiles_of_wgmma(tile: tuple[int, int], columns: int, more: dict[str, Any]) -> None:
    found, expected = wgmma_of(WGMMA, tile, columns, plain, **more)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(("sign", "flags"), [(-1, {"negate_a": True}), (-1, {"negate_b": True})])
def test_a_negated_operand_of_several(sign: int, flags: dict[str, bool]) -> None:
    found, expected = wgmma_of(nvb.wgmma.mma_async("m64n16k16", f16, f16, f32, **flags), (64, 16), 32, plain)
    assert np.array_equal(found, sign * expected)


@pytest.mark.parametrize("tile", [(64, 32), (128, 32)])
@pytest.mark.parametrize(("parts", "begun"), [(2, "fill"), (2, "set"), (1, "set"), (4, None)])
def test_the_parts_of_a_split_k_begin_cleared(parts: int, begun: str | None, tile: tuple[int, int]) -> None:
    """What they are filled with, or set to, counts once."""

    def split(k: Any, mma: Any, a: SharedTile, b: SharedTile, out: Any) -> None:
        acc = mma.accumulators(parts=parts)
        if begun == "fill":
            acc.fill(3.0)
        if begun == "set":
            acc.set([k.const(3.0, f32)] * (tile[0] * tile[1] // 128))
        with k.wgmma.group():
            mma.accumulate(acc, a, b)
        if parts > 1:
            acc.add_parts()
        mma.store(acc, out, mma.shape[1])

    found, expected = wgmma_of(WGMMA, tile, 64, split)
    assert np.array_equal(found, expected + (3 if begun else 0))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("atoms", [(1, 1, 2), (2, 1, 2), (1, 1, 4), (1, 3, 2), (2, 2, 2)])
def test_atoms_along_k_are_added(atoms: tuple[int, int, int], rows: int, columns: int) -> None:
    """Each warpgroup has so many accumulators along M and N."""

    def along_k(k: Any, mma: Any, a: SharedTile, b: SharedTile, out: Any) -> None:
        warpgroup = k.warpgroup_id()
        acc = mma.accumulators()
        begin = -(-k.memory.end // 16) * 16
        buffer = mma.reduction_buffer(acc)
        sizes.append(k.memory.end - begin)
        with k.wgmma.group():
            mma.accumulate(acc, a, b, warpgroup)
        mma.reduce(acc, buffer, warpgroup)
        mma.store(acc, out, mma.shape[1], warpgroup)

    tile = 64 * atoms[0] * rows, 16 * atoms[1] * columns
    sizes: list[int] = []
    found, expected = wgmma_of(WGMMA, tile, 64, along_k, atoms=atoms)
    assert np.array_equal(found, expected)
    # Half of the parts give their 8 registers of each of 128 threads and each 64 x 16 away at once.
    assert sizes == [atoms[2] // 2 * atoms[0] * atoms[1] * rows * columns * 8 * 128 * 4]


@pytest.mark.parametrize(("fill", "again"), [(3.0, 1), (None, 2)])
def test_what_an_accumulator_holds_is_added_to(fill: float | None, again: int) -> None:
    def more(k: Any, mma: Any, a: SharedTile, b: SharedTile, out: Any) -> None:
        acc = mma.accumulators()
        if fill is not None:
            acc.fill(fill)
        with k.wgmma.group():
            for _ in range(again):
                mma.accumulate(acc, a, b)
        mma.store(acc, out, mma.shape[1])

    found, expected = wgmma_of(WGMMA, (64, 16), 16, more)
    assert np.array_equal(found, again * expected + (fill or 0))


def test_the_caller_says_whether_the_first_product_is_added() -> None:
    def twice(k: Any, mma: Any, a: SharedTile, b: SharedTile, out: Any) -> None:
        acc = mma.accumulators()
        with k.wgmma.group():
            mma.accumulate(acc, a, b)
            mma.accumulate(acc, a, b, accumulate=False)
        mma.store(acc, out, mma.shape[1])

    found, expected = wgmma_of(WGMMA, (64, 32), 32, twice)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(("columns", "warpgroups"), [(64, 1), (64, 2), (128, 1)])
def test_the_epilogue_stores_every_element_where_it_belongs(columns: int, warpgroups: int) -> None:
    """Twice, so that the buffer is used again; each warpgroup to rows of its own, the second time to others."""
    kind = nvb.TensorMap(f16, (64, 64))
    k = Recorded("epilogue", "sm_90a", threads=128 * warpgroups, parameters=[Parameter("c", kind)])
    output = k.tma_epilogue(k.arguments[0], columns, warpgroups)
    warpgroup = k.warpgroup_id()
    acc = k.wgmma.accumulator(columns, f32)
    for turn in range(2):
        first = k.thread_id() * (columns // 2) + turn * 7
        acc.set([((first + index) % 2011).to(f32) for index in range(columns // 2)])
        output.reserve((64 * warpgroup + 128 * turn, 64 * turn), warpgroup).store(acc)
    output.finish()
    k.finish()
    found = np.zeros((256, 256), np.float16)
    done = Cluster(k, {"c": TensorMap(found.view(np.uint16), kind.box, kind.swizzle)}).run()
    assert sorted(sorted(threads) for threads in done.met.values()) == [
        list(range(128 * one, 128 * one + 128)) for one in range(warpgroups)
    ]  # no warpgroup waits at another one's barrier
    expected = np.zeros_like(found)
    for turn in range(2):
        for thread in range(128 * warpgroups):
            for index in range(columns // 2):
                row, column = products.cell(thread % 128, index)
                place = 64 * (thread // 128) + 128 * turn + row, 64 * turn + column
                expected[place] = (thread * (columns // 2) + turn * 7 + index) % 2011
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("m", "n", "tile", "majors", "flags"),
    [
        (128, 16, (128, 16), (Major.K, Major.K), {}),
        (128, 32, (256, 64), (Major.K, Major.K), {"negate_a": True}),
        (128, 64, (128, 64), (Major.MN, Major.K), {"negate_b": True}),
        (128, 64, (128, 64), (Major.K, Major.MN), {}),
        (64, 16, (128, 32), (Major.K, Major.K), {}),
    ],
)
def test_tiles_of_tcgen05(m: int, n: int, tile: tuple[int, int], majors: tuple[Major, Major], flags: Any) -> None:
    """Two pairs of tiles: the first overwrites what tensor memory held, the second adds.

    Accumulators of 128 rows are beside each other, M first; of 64 rows two along M are in both halves of the warps.
    """
    described = nvb.InstructionDescriptor(kind="f16", m=m, n=n, a=f16, b=f16, d=f32, **flags)
    request = nvb.Tcgen05Request("f16")
    plan = Recorded("plan", "sm_100a", threads=128).tiled_mma(request, descriptor=described, tile=tile)
    a, b = plan.smem_a(64, majors[0]), plan.smem_b(64, majors[1])
    bench = Bench("sm_100a", 128, a, b, 1)
    k = bench.k
    mma = k.tiled_mma(request, descriptor=described, tile=tile)
    tiles = bench.tiles(a, b)
    done = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.tcgen05.tmem(mma.columns) as columns:
        with k.one_thread():
            mma.accumulate(columns, *tiles, accumulate=False)
            mma.accumulate(columns, *tiles)
            k.tcgen05.commit(done)
        k.mbarrier.wait(done, 0)
    tmem = bench.run().ctas[0].tmem
    sign = -1 if flags else 1
    expected = 2 * sign * bench.a.astype(float) @ bench.b.astype(float).T
    along_m, along_n = tile[0] // m, tile[1] // n
    for number in range(along_m * along_n):
        row, column = number % along_m * m, number // along_m * n
        along, first = (0, number * n) if m == 128 else (number % along_m * 16, number // along_m * n)
        found = tmem[[along + lane for lane in products.lanes_of(m)], first : first + n]
        assert np.array_equal(found, expected[row : row + m, column : column + n]), number
