"""Rings and tile copies, run by an interpreter of the emitted code: every element comes to its place, in its turn.

Every element of a matrix is another number, threads and copies come in a random order, and a wrong stage, phase, box,
mask or number of arrivals is a wrong element or a deadlock.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16
from nvbackend.layout import Layout, gmma_atom, tile_to_shape
from nvbackend.signature import Parameter, Pointer
from nvbackend.tiled import make_tma_copy
from tests.support.cluster_interpreter import Cluster, TensorMap
from tests.support.cta_interpreter import Recorded

pytestmark = pytest.mark.sampled(5)

STEPS = 5
ROWS, COLUMNS = 16, 16
TILE = SmemLayout(Major.K, SwizzleMode.B32, f16, ROWS, COLUMNS)


def numbers(rows: int, columns: int, first: int = 1) -> np.ndarray:
    """Another number in every element, as bits."""
    return (np.arange(rows * columns, dtype=np.uint16) + first).reshape(rows, columns)


def ring_kernel(stages: int, cluster: int, consumers: int, in_flight: int, by: str = "warpgroup") -> Recorded:
    """Each CTA has tiles of its own of A and, in a cluster, the same tiles of B; all are copied to `out`."""
    box = (ROWS // cluster, COLUMNS)
    parameters = [
        Parameter("a", nvb.TensorMap(f16, (ROWS, COLUMNS), 32)),
        Parameter("b", nvb.TensorMap(f16, box, 32)),
        Parameter("out", Pointer(f16)),
    ]
    k = Recorded("ring", "sm_90a", threads=128 * (consumers + 1), cluster=cluster, parameters=parameters)
    a, b, out = k.arguments
    ring = k.pipeline(stages, consumers, multicast=cluster > 1, released_by=by, a=TILE, b=TILE)
    k.mbarrier.ready()
    rank = k.cluster.rank()
    with k.producer(registers=40):
        with k.range(STEPS) as step, ring.fill() as stage:
            k.tma.load(stage.a, a, (rank * ROWS, step * COLUMNS), stage.full)
            k.tma.load(stage.b, b, (0, step * COLUMNS), stage.full, multicast=True)
        ring.finish()
    with k.consumers(registers=120) as consumer:
        thread = k.thread_id() % 128
        with k.range(STEPS) as step, ring.drain(in_flight=in_flight) as stage:
            for number, tile in enumerate((stage.a, stage.b)):
                whole = k.tensor(tile.address.cast(f16), tile.cute)
                place = ((rank * consumers + consumer) * STEPS + step) * 2 + number
                for half in range(2):
                    row, column = half * 8 + thread // 16, thread % 16
                    out[place * ROWS * COLUMNS + row * COLUMNS + column] = whole[row, column]
            if by == "warpgroup":
                k.barrier.sync(consumer + 1, 128)  # one thread gives the stage back for all, as after wgmma's wait
        if in_flight:
            ring.release()
    k.finish()
    return k


@pytest.mark.parametrize(
    ("stages", "cluster", "consumers", "in_flight"),
    [(2, 1, 1, 0), (3, 1, 1, 1), (2, 2, 1, 1), (3, 2, 1, 0), (2, 1, 2, 1), (1, 1, 1, 0)],
)
@pytest.mark.parametrize("by", ["warpgroup", "thread"])
def test_a_ring_hands_every_step_over_in_order(
    stages: int, cluster: int, consumers: int, in_flight: int, by: str
) -> None:
    k = ring_kernel(stages, cluster, consumers, in_flight, by)
    a, b = numbers(cluster * ROWS, STEPS * COLUMNS), numbers(ROWS, STEPS * COLUMNS, 20_000)
    for seed in range(2):
        out = np.zeros((cluster, consumers, STEPS, 2, ROWS, COLUMNS), np.uint16)
        maps = {"a": TensorMap(a, (ROWS, COLUMNS), 32), "b": TensorMap(b, (ROWS // cluster, COLUMNS), 32)}
        Cluster(k, {**maps, "out": out}, seed).run()
        for rank in range(cluster):
            for step in range(STEPS):
                columns = slice(step * COLUMNS, (step + 1) * COLUMNS)
                for consumer in range(consumers):
                    found = out[rank, consumer, step]
                    assert np.array_equal(found[0], a[rank * ROWS : (rank + 1) * ROWS, columns]), (rank, step)
                    assert np.array_equal(found[1], b[:, columns]), (rank, step)


class Waits(Cluster):
    """A cluster that takes down how long each mbarrier was waited for: which phase was the last to be asked for."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.last: dict[int, int] = {}

    def _mbarrier(self, cta: Any, row: Any, given: dict[str, Any]) -> dict[str, Any] | None:
        answer = super()._mbarrier(cta, row, given)
        if "try_wait" in row.opcode and answer is not None:
            self.last[given["barrier"]] = given["parity"]
        return answer


@pytest.mark.parametrize("stages", [2, 3])
def test_at_the_end_every_stage_has_come_back(stages: int) -> None:
    """Of steps s, s + stages, ...: the phase of `empty` that the last of them ends, and so does that of `full`."""
    k = ring_kernel(stages, 1, 1, 0)
    a, b = numbers(ROWS, STEPS * COLUMNS), numbers(ROWS, STEPS * COLUMNS)
    maps = {name: TensorMap(each, (ROWS, COLUMNS), 32) for name, each in (("a", a), ("b", b))}
    waits = Waits(k, {**maps, "out": np.zeros(STEPS * 2 * ROWS * COLUMNS, np.uint16)})
    waits.run()
    rounds = [len(range(stage, STEPS, stages)) for stage in range(stages)]
    expected = [(count - 1) % 2 for count in rounds]
    found = [waits.last[barrier] for barrier in sorted(waits.last)]
    assert found == expected * 2


COPIES = {
    "one box": ((16, 16), Major.K, SwizzleMode.B32, (16, 16), 1),
    "boxes of half the rows": ((32, 16), Major.K, SwizzleMode.B32, (16, 16), 1),
    "panels beside each other": ((16, 64), Major.K, SwizzleMode.B64, (16, 32), 1),
    "panels of several boxes": ((32, 64), Major.K, SwizzleMode.B64, (8, 32), 1),
    "MN-major": ((32, 16), Major.MN, SwizzleMode.B64, (16, 32), 1),
    "MN-major panels of several boxes": ((64, 16), Major.MN, SwizzleMode.B64, (8, 32), 1),
    "multicast to two": ((32, 16), Major.K, SwizzleMode.B32, (16, 16), 2),
    "multicast of panels to two": ((32, 64), Major.K, SwizzleMode.B64, (8, 32), 2),
    "multicast to three": ((48, 16), Major.K, SwizzleMode.B32, (8, 16), 3),
}


@pytest.mark.parametrize("case", COPIES)
def test_a_tile_comes_from_where_it_was_asked_for(case: str) -> None:
    """Its elements are at the bytes where `SmemLayout.offset`, which is measured on a GPU, has them."""
    (rows, columns), major, swizzle, box, cluster = COPIES[case]
    tile = SmemLayout(major, swizzle, f16, rows, columns)
    parameters = [Parameter("matrix", nvb.TensorMap(f16, box, swizzle.span))]
    k = Recorded("copy", "sm_90a", threads=32, cluster=cluster, parameters=parameters)
    shared = k.shared_tile(tile)
    full = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    at = (24, 40)
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.bytes)
        k.tma.load(shared, k.arguments[0], at, full, multicast=cluster > 1)
    k.mbarrier.wait(full, 0)
    k.cluster.sync()
    k.finish()
    matrix = numbers(100, 120)
    array = matrix if major is Major.K else np.ascontiguousarray(matrix.T)
    found = Cluster(k, {"matrix": TensorMap(array, box, swizzle.span)}).run()
    for rank in range(cluster):
        memory = found.memory(rank)
        for row in range(rows):
            for column in range(columns):
                place = tile.offset(row, column)
                element = memory[place : place + 2].view(np.uint16)[0]
                assert element == matrix[at[0] + row, at[1] + column], (rank, row, column)


@pytest.mark.parametrize("case", [name for name, one in COPIES.items() if one[4] == 1])
def test_a_tile_goes_to_where_it_was_asked_to(case: str) -> None:
    """Loaded from one place and stored to another: nothing else of the target is written."""
    (rows, columns), major, swizzle, box, _ = COPIES[case]
    tile = SmemLayout(major, swizzle, f16, rows, columns)
    kind = nvb.TensorMap(f16, box, swizzle.span)
    k = Recorded("copy", "sm_90a", threads=32, parameters=[Parameter("source", kind), Parameter("target", kind)])
    shared = k.shared_tile(tile)
    full = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=tile.bytes)
        k.tma.load(shared, k.arguments[0], (8, 16), full)
        k.mbarrier.wait(full, 0)
        k.tma.store(k.arguments[1], (24, 32), shared)
        k.tma.commit_group()
        k.tma.wait_group()
    k.finish()
    source = numbers(100, 120)
    expected = np.zeros_like(source)
    expected[24 : 24 + rows, 32 : 32 + columns] = source[8 : 8 + rows, 16 : 16 + columns]
    arrays = [one if major is Major.K else np.ascontiguousarray(one.T) for one in (source, np.zeros_like(source))]
    Cluster(
        k, dict(zip(("source", "target"), (TensorMap(one, box, swizzle.span) for one in arrays), strict=True))
    ).run()
    assert np.array_equal(arrays[1] if major is Major.K else arrays[1].T, expected)


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_the_boxes_of_a_copy_are_shared_out(cluster: int) -> None:
    """`k.copy` of a tile by several CTAs: all have all of it, each element read through its layout."""
    layout = tile_to_shape(gmma_atom(Major.K, SwizzleMode.B64, f16), (32, 64))
    boxes = make_tma_copy(f16, Layout((128, 256), (256, 1)), layout, multicast=cluster)
    parameters = [Parameter("matrix", nvb.TensorMap(f16, boxes.map_box, boxes.swizzle))]
    k = Recorded("copy", "sm_90a", threads=32, cluster=cluster, parameters=parameters)
    shared = k.tensor(k.shared(f16, 32 * 64, align=1024), layout)
    full = k.mbarrier.array(1, 1)
    k.mbarrier.ready()
    with k.one_thread():
        k.mbarrier.arrive(full, expect_tx=boxes.bytes)
        k.copy(boxes, k.arguments[0], shared, at=(40, 72), barrier=full, multicast=cluster > 1)
    k.mbarrier.wait(full, 0)
    k.cluster.sync()
    k.finish()
    matrix = numbers(128, 256)
    found = Cluster(k, {"matrix": TensorMap(matrix, boxes.map_box, boxes.swizzle)}).run()
    tile = SmemLayout(Major.K, SwizzleMode.B64, f16, 32, 32)  # the panels of 64 bytes a row lie one behind the other
    for rank in range(cluster):
        memory = found.memory(rank)
        for row in range(32):
            for column in range(64):
                place = tile.offset(row, column % 32) + column // 32 * tile.bytes
                assert memory[place : place + 2].view(np.uint16)[0] == matrix[40 + row, 72 + column], (rank, row)


ROW_MAJOR = Layout((32, 8), (8, 1))
FETCHES = {
    "bulk": ("tma", lambda k, x, step, tile, full: k.bulk.load(tile.address, x + step * 256, 512, full)),
    "cp.async": (
        "cp.async",
        lambda k, x, step, tile, full: k.cp_async.copy(
            tile.at(k.thread_id() % 32, 0), x + (step * 256 + k.thread_id() % 32 * 8), 16
        ),
    ),
}


def rows_kernel(target: str, threads: int, cluster: int = 1) -> Recorded:
    """With x, from which rows are copied, and `out`, to which they go in the opposite order."""
    parameters = [Parameter("x", Pointer(f16, align=16)), Parameter("out", Pointer(f16))]
    return Recorded("ring", target, threads=threads, cluster=cluster, parameters=parameters)


def write_reversed(k: Any, out: Any, step: Any, tile: Any) -> None:
    row = k.thread_id() % 32
    for column in range(8):
        out[step * 256 + row * 8 + column] = tile[31 - row, column]


def is_reversed(k: Any, steps: int) -> bool:
    """Whether every step's rows come out in the opposite order."""
    source = numbers(steps * 32, 8)
    for seed in range(3):
        found = np.zeros_like(source)
        Cluster(k, {"x": source, "out": found}, seed).run()
        if not np.array_equal(found.reshape(steps, 32, 8), source.reshape(steps, 32, 8)[:, ::-1]):
            return False
    return True


@pytest.mark.parametrize("kind", FETCHES)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_ring_that_all_threads_read_hands_every_step_over(kind: str, stages: int) -> None:
    """In two runs of steps, of which the second goes on where the first has ended; between them runs of no steps."""
    copies, start = FETCHES[kind]
    k = rows_kernel("sm_80" if kind == "cp.async" else "sm_90a", 32)
    x, out = k.arguments
    ring = k.pipeline(stages, copies=copies, x=(f16, ROW_MAJOR))
    if kind != "cp.async":
        k.mbarrier.ready()
    for first, count in ((0, STEPS), (STEPS, 0), (STEPS, -3), (STEPS, STEPS)):

        def fetch(step: Any, stage: Any, first: int = first) -> None:
            start(k, x, step + first, stage.x, None if kind == "cp.async" else stage.full)

        with ring.steps(k.const(count, nvb.s32), fetch) as (step, stage):
            write_reversed(k, out, step + first, stage.x)
        k.barrier.sync()
    k.finish()
    assert is_reversed(k, 2 * STEPS)


@pytest.mark.parametrize("kind", FETCHES)
@pytest.mark.parametrize("stages", [1, 3])
def test_a_ring_with_roles_takes_every_kind_of_copy(kind: str, stages: int) -> None:
    copies, start = FETCHES[kind]
    k = rows_kernel("sm_90a", 256)
    x, out = k.arguments
    ring = k.pipeline(stages, 1, copies=copies, x=(f16, ROW_MAJOR))
    k.mbarrier.ready()
    with k.if_(k.warpgroup_id() == 0), k.one_thread() if kind == "bulk" else nullcontext():
        with k.range(STEPS) as step, ring.fill() as stage:
            start(k, x, step, stage.x, stage.full)
        ring.finish()
    with k.if_(k.warpgroup_id() == 1), k.range(STEPS) as step, ring.drain() as stage:
        write_reversed(k, out, step, stage.x)
        k.barrier.sync(1, 128)
    k.finish()
    assert is_reversed(k, STEPS)


@pytest.mark.parametrize("cluster", [1, 2])
def test_all_threads_read_boxes_that_are_shared_out(cluster: int) -> None:
    """Each CTA loads its part of every tile, for all CTAs."""
    box = ROWS // cluster, COLUMNS
    parameters = [Parameter("a", nvb.TensorMap(f16, box, 32)), Parameter("out", Pointer(f16))]
    k = Recorded("ring", "sm_90a", threads=32, cluster=cluster, parameters=parameters)
    a, out = k.arguments
    ring = k.pipeline(3, multicast=cluster > 1, a=TILE)
    k.mbarrier.ready()
    fetch = lambda step, stage: k.tma.load(stage.a, a, (step * ROWS, 0), stage.full, multicast=cluster > 1)  # noqa: E731
    with ring.steps(STEPS, fetch) as (step, stage):
        whole = k.tensor(stage.a.address.cast(f16), stage.a.cute)
        place = (k.cluster.rank() * STEPS + step) * (ROWS * COLUMNS)
        for first in range(0, ROWS * COLUMNS, 32):
            index = k.thread_id() + first
            out[place + index] = whole[index // COLUMNS, index % COLUMNS]
    k.cluster.sync()
    k.finish()
    source = numbers(STEPS * ROWS, COLUMNS)
    for seed in range(3):
        found = np.zeros((cluster, STEPS * ROWS, COLUMNS), np.uint16)
        Cluster(k, {"a": TensorMap(source, box, 32), "out": found}, seed).run()
        assert all(np.array_equal(one, source) for one in found)


@pytest.mark.parametrize("cluster", [2, 4])
def test_the_peer_of_each_cta_is_its_neighbour_in_the_pair(cluster: int) -> None:
    k = Recorded("peers", "sm_90a", threads=32, cluster=cluster, parameters=[Parameter("out", Pointer(nvb.i32))])
    with k.one_thread():
        k.arguments[0][k.cluster.rank()] = k.cluster.peer_rank()
    k.finish()
    found = np.full(cluster, -1, np.int32)
    Cluster(k, {"out": found}).run()
    assert found.tolist() == [1, 0, 3, 2][:cluster]


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_a_stage_that_is_fed_comes_free_in_every_cta_that_loads_it(cluster: int) -> None:
    """The commit of tcgen05 names a CTA by a bit, and the `empty` barrier waits for one arrival of each."""
    k = Recorded("feed", "sm_100a", threads=128, cluster=cluster)
    ring = k.pipeline(2, 1, multicast=cluster > 1, a=TILE)
    k.mbarrier.ready()
    with k.one_thread(), ring.feed():
        pass
    commits = [given for row, given, _ in k.rows.values() if row.opcode == "tcgen05.commit"]
    assert [one.get("multicast_mask") for one in commits] == [None if cluster == 1 else 2**cluster - 1]
    counts = [given["count"].constant for row, given, _ in k.rows.values() if row.opcode == "mbarrier.init"]
    assert counts == [1, 1, cluster, cluster]


@pytest.mark.parametrize("cluster", [1, 2])
def test_only_in_a_cluster_a_stage_goes_back_to_peers(cluster: int) -> None:
    text = str(ring_kernel(3, cluster, 1, 0).core.llvm.module)
    assert ("mapa" in text) is (cluster > 1)
    arrivals = [line for line in text.splitlines() if "mbarrier.arrive" in line and "expect_tx" not in line]
    assert arrivals
    assert any("shared::cluster" in line for line in arrivals) is (cluster > 1)
