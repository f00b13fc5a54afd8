"""Ordinary and asynchronous accesses to shared memory: each mistake is found where it is made, and only there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvbackend import KernelBuilder, f16, f32, i32, u8, u32, u64
from nvbackend.builder.core.tile import SharedTile
from nvbackend.intrinsics.words.tcgen05_descriptor import Tcgen05SmemDescriptor
from nvbackend.isel.protocols.proxy.protocol import check_proxy_protocol
from nvbackend.signature import Parameter, Scalar, TensorMap
from tests.support.proxy_program import MMA, TILE, Program

Step = Callable[[Program], object]


def rules(program: Callable[[Program], object], *arguments: object) -> list[str]:
    made = Program(*arguments)
    program(made)
    return [one.rule_id for one in made.found()]


def fence(p: Program) -> None:
    p.k.fence.proxy_async()
    p.k.barrier.sync()


def nothing(p: Program) -> None:
    p.k.barrier.sync()


@pytest.mark.parametrize(("between", "expected"), [(fence, []), (nothing, ["proxy.missing-fence"])])
class TestMissingFence:
    """Written by ordinary code, then read through the async proxy."""

    def test_wgmma(self, between: Step, expected: list[str]) -> None:
        def program(p: Program) -> None:
            acc = p.accumulator()
            p.write()
            p.write(p.other)
            between(p)
            with p.k.wgmma.group():
                p.mma(acc, p.tile, p.other)

        assert rules(program) == expected

    def test_descriptors(self, between: Step, expected: list[str]) -> None:
        def program(p: Program) -> None:
            acc = p.accumulator()
            p.write()
            between(p)
            with p.k.wgmma.group():
                descriptor = p.k.wgmma.smem_descriptor(p.tile)
                p.k.wgmma.mma_async(acc, descriptor, descriptor, MMA)

        assert rules(program) == expected

    def test_stmatrix_and_a_tensor_store(self, between: Step, expected: list[str]) -> None:
        def program(p: Program) -> None:
            p.stmatrix()
            between(p)
            p.store(wait=True)

        assert rules(program) == expected

    def test_bulk_store_of_a_plain_buffer(self, between: Step, expected: list[str]) -> None:
        def program(p: Program) -> None:
            buffer = p.k.shared(u32, 128, align=16, name="buffer")
            buffer[p.k.thread_id()] = 1
            between(p)
            with p.k.one_thread():
                p.k.bulk.store(p.pointer, buffer, 512)
                p.k.tma.commit_group()
                p.k.tma.wait_group()

        assert rules(program) == expected

    def test_tcgen05(self, between: Step, expected: list[str]) -> None:
        def program(p: Program) -> None:
            p.write()
            between(p)
            cell = p.k.shared(u32, 1, name="cell")
            with p.k.if_(p.k.warp_id() == 0):
                p.k.tcgen05.alloc(cell, 32)
            p.k.barrier.sync()
            with p.k.one_thread():
                source = p.k.tcgen05.smem_descriptor(p.tile.address, Tcgen05SmemDescriptor(0, 128, 256))
                p.k.tcgen05.cp(cell[0], source, "128x256b")

        assert rules(program, "sm_100a") == expected

    def test_a_tile_of_a_ring(self, between: Step, expected: list[str]) -> None:
        def program(p: Program) -> None:
            acc = p.accumulator()
            with p.k.range(p.n) as i:
                stage = p.tiles.at(i % 4)
                p.write(stage)
                between(p)
                with p.k.wgmma.group():
                    p.mma(acc, stage, stage)

        assert rules(program, "sm_90a", 4) == expected

    def test_through_a_loop(self, between: Step, expected: list[str]) -> None:
        def program(p: Program) -> None:
            acc = p.accumulator()
            p.write()
            between(p)
            with p.k.range(p.n), p.k.wgmma.group():
                p.mma(acc)

        assert rules(program) == expected

    def test_one_side_of_a_branch(self, between: Step, expected: list[str]) -> None:
        def program(p: Program) -> None:
            acc = p.accumulator()
            with p.k.if_(p.n == 1):
                p.write()
                fence(p)
            with p.k.else_():
                p.write()
                between(p)
            with p.k.wgmma.group():
                p.mma(acc)

        assert rules(program) == expected


def test_the_fence_of_another_space_is_none() -> None:
    def program(p: Program) -> None:
        p.write()
        p.k.fence.proxy_async("global")
        p.k.barrier.sync()
        p.store(wait=True)

    assert rules(program) == ["proxy.missing-fence"]


def test_what_a_copy_fills_again_is_the_copys() -> None:
    def program(p: Program) -> None:
        with p.k.one_thread():
            p.tile.address.cast(u32).store(1)
            p.k.fence.proxy_async()
            p.k.tma.load(p.tile, p.map, (0, 0), p.full)
            p.k.mbarrier.wait(p.full, 0)
            p.k.tma.store(p.map, (0, 0), p.tile)
            p.k.tma.commit_group()
            p.k.tma.wait_group()

    assert rules(program) == []


def test_a_later_fence_does_not_help() -> None:
    def program(p: Program) -> None:
        p.write()
        p.k.barrier.sync()
        with p.k.wgmma.group():
            p.mma(p.accumulator())
        p.write(p.other)
        fence(p)
        p.store(p.other, wait=True)

    assert rules(program) == ["proxy.missing-fence"]


def test_other_tiles_are_other_places() -> None:
    """The next stage is written while this one is read; every stage is fenced before it is read."""

    def program(p: Program) -> None:
        acc = p.accumulator()
        p.write(p.tiles.at(0))
        fence(p)
        for stage in range(4):
            if stage < 3:
                p.write(p.tiles.at(stage + 1))
            with p.k.wgmma.group():
                p.mma(acc, p.tiles.at(stage), p.tiles.at(stage))
            fence(p)

    assert rules(program, "sm_90a", 4) == []


def test_parts_of_one_tile_may_be_filled_step_by_step() -> None:
    def program(p: Program) -> None:
        acc = p.accumulator()
        p.write()
        fence(p)
        for column in (0, 16, 32, 48):
            if column < 48:
                p.write()
            with p.k.wgmma.group():
                p.k.wgmma.mma_async(acc, p.tile, p.other, MMA, a_at=(0, column))
            fence(p)

    assert rules(program) == []


def test_places_of_a_pool_that_nobody_knows() -> None:
    def program(p: Program) -> None:
        pool = p.k.shared(u8, 65536, align=1024, name="pool")
        scratch = pool.byte_offset(32768 + p.k.thread_id() * 4, align=4).cast(f32)
        acc = p.accumulator()
        scratch.store(1.0)
        p.k.barrier.sync()
        tile = SharedTile(pool, TILE)
        with p.k.wgmma.group():
            p.mma(acc, tile, tile)

    assert rules(program) == []


# -- writes in flight ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pending", "expected"), [(0, []), (1, ["proxy.write-in-flight"])])
@pytest.mark.parametrize("how", ["tma", "ordinary"])
def test_a_tile_is_written_while_wgmma_reads_it(how: str, pending: int, expected: list[str]) -> None:
    def program(p: Program) -> None:
        acc = p.accumulator()
        with p.k.wgmma.group(in_flight=pending):
            p.mma(acc)
        if how == "tma":
            p.load()
            p.k.mbarrier.wait(p.full, 0)
        else:
            p.write()
        p.k.wgmma.wait_group(0)

    assert rules(program) == expected


def test_a_stage_that_is_refilled_in_a_loop() -> None:
    """One buffer and one group in flight: the wait leaves the mma that reads what the copy fills."""

    def program(p: Program, in_flight: int) -> None:
        acc = p.accumulator()
        with p.k.range(p.n):
            p.load()
            p.k.mbarrier.wait(p.full, 0)
            with p.k.wgmma.group(in_flight=in_flight):
                p.mma(acc)
        p.k.wgmma.wait_group(0)

    assert rules(lambda p: program(p, 1)) == ["proxy.write-in-flight"]
    assert rules(lambda p: program(p, 0)) == []


def test_another_stage_may_be_filled() -> None:
    def program(p: Program) -> None:
        acc = p.accumulator()
        for stage in range(4):
            if stage:
                p.k.mbarrier.wait(p.full, stage % 2)
            with p.k.wgmma.group(in_flight=1):
                p.mma(acc, p.tiles.at(stage), p.tiles.at(stage))
            p.load(p.tiles.at((stage + 1) % 4))
        p.k.wgmma.wait_group(0)

    assert rules(program, "sm_90a", 4) == []


def store_twice(p: Program, wait: bool) -> None:
    with p.k.range(p.n):
        if wait:
            with p.k.one_thread():
                p.k.tma.wait_group(reading=True)
            p.k.barrier.sync()
        p.write()
        fence(p)
        p.store()
    with p.k.one_thread():
        p.k.tma.wait_group(reading=True)


def test_a_tile_is_written_while_a_store_reads_it() -> None:
    assert rules(lambda p: store_twice(p, wait=False)) == ["proxy.write-in-flight"]
    assert rules(lambda p: store_twice(p, wait=True)) == []


# -- reads before the wait ----------------------------------------------------------------------------------------


def load_and_read(p: Program, wait: int | None, how: str) -> None:
    p.load()
    if wait is not None:
        p.k.mbarrier.wait((p.full, p.k.mbarrier.array(1, 1, name="empty"))[wait], 0)
    if how == "ld":
        p.tile.address.cast(u32).byte_offset(p.k.thread_id() * 4, align=4).load()[0]
    elif how == "ldmatrix":
        p.k.mma.ldmatrix(p.tile.address + p.k.lane_id() * 16, 1)
    else:
        with p.k.wgmma.group():
            p.mma(p.accumulator())


@pytest.mark.parametrize("how", ["ld", "ldmatrix", "wgmma"])
def test_what_a_copy_brings_is_read_behind_a_wait_on_its_barrier(how: str) -> None:
    assert rules(lambda p: load_and_read(p, None, how)) == ["proxy.read-before-wait"]
    assert rules(lambda p: load_and_read(p, 1, how)) == ["proxy.read-before-wait"]
    assert rules(lambda p: load_and_read(p, 0, how)) == []


def test_the_wait_on_another_barrier_is_none() -> None:
    def program(p: Program) -> None:
        empty = p.k.mbarrier.array(1, 1, name="empty")
        p.load()
        p.k.mbarrier.wait(empty, 0)
        p.k.mma.ldmatrix(p.tile.address + p.k.lane_id() * 16, 1)
        p.k.mbarrier.wait(p.full, 0)

    assert rules(program) == ["proxy.read-before-wait"]


def test_a_wait_for_the_next_copy_is_not_for_this_one() -> None:
    """No thread skips the load and waits: the one that loads executes every block of one thread."""

    def program(p: Program) -> None:
        with p.k.range(p.n):
            p.load()
            p.store(wait=True)
            p.load(p.other)
            p.k.mbarrier.wait(p.full, 0)
            p.store(p.other, wait=True)

    assert rules(program) == ["proxy.read-before-wait"]


@pytest.mark.parametrize("waited", ["full", "empty", None])
def test_a_copy_by_another_warp_is_waited_for(waited: str | None) -> None:
    def program(p: Program) -> None:
        barriers = {"full": p.full, "empty": p.k.mbarrier.array(1, 1, name="empty")}
        with p.k.if_(p.k.warp_id() == 0):
            p.load()
        with p.k.else_():
            if waited:
                p.k.mbarrier.wait(barriers[waited], 0)
            p.k.mma.ldmatrix(p.tile.address + p.k.lane_id() * 16, 1)

    assert rules(program) == ["proxy.read-before-wait"] * (waited != "full")


def copy_and_read(p: Program, *, commit: bool = True, pending: int | None = None, waits: bool = True) -> None:
    buffer = p.k.shared(f16, 2048, align=16, name="buffer")
    lane = p.k.thread_id() * 8
    p.k.cp_async.copy(buffer.byte_offset(lane * 2, align=16), p.pointer, 16)
    if commit:
        p.k.cp_async.commit_group()
    if waits:
        p.k.cp_async.wait_group(pending)
    p.k.barrier.sync()
    p.k.mma.ldmatrix(buffer + p.k.lane_id() * 16, 1)


def test_what_cp_async_brings_is_read_behind_its_wait() -> None:
    assert rules(lambda p: copy_and_read(p, waits=False)) == ["async-copy.read-before-wait"]
    assert rules(lambda p: copy_and_read(p, pending=1)) == ["async-copy.read-before-wait"]
    assert rules(lambda p: copy_and_read(p, commit=False, pending=0)) == ["async-copy.read-before-wait"]
    assert rules(lambda p: copy_and_read(p, pending=0)) == []
    assert rules(lambda p: copy_and_read(p, commit=False)) == []


def test_stages_of_cp_async() -> None:
    """Multistage: the wait leaves the newest group, and what is read is one of the groups before."""

    def program(p: Program, pending: int) -> None:
        stages = p.k.shared(f16, 3 * 1024, align=16, name="stages")
        place = lambda stage: stages.byte_offset(stage * 2048 + p.k.thread_id() * 16, align=16)  # noqa: E731
        for stage in (0, 1):
            p.k.cp_async.copy(place(stage), p.pointer, 16)
            p.k.cp_async.commit_group()
        with p.k.range(p.n) as i:
            p.k.cp_async.wait_group(pending)
            p.k.barrier.sync()
            p.k.mma.ldmatrix(place(i % 3), 1)
            p.k.cp_async.copy(place((i + 2) % 3), p.pointer, 16)
            p.k.cp_async.commit_group()

    assert rules(lambda p: program(p, 1)) == []


# -- stores at the end --------------------------------------------------------------------------------------------


def test_stores_are_committed_and_waited_for() -> None:
    assert rules(lambda p: p.store(commit=False)) == ["proxy.store-not-committed"]
    assert rules(lambda p: p.store()) == ["proxy.store-not-waited"]
    assert rules(lambda p: p.store(wait=True)) == []


@pytest.mark.parametrize("finish", [True, False])
def test_the_epilogue_is_finished(finish: bool) -> None:
    parameters = [Parameter("c", TensorMap(f16, (64, 64))), Parameter("n", Scalar(i32))]
    k = KernelBuilder("kernel", "sm_90a", threads=128, parameters=parameters)
    target, n = k.arguments
    output = k.tma_epilogue(target, 64, 1)
    acc = k.wgmma.accumulator(64)
    with k.range(n) as tile:
        acc.fill(0.0)
        output.reserve((tile * 64, 0), 0).store(acc)
    if finish:
        output.finish()
    k.return_()
    k.core.link()
    assert [one.rule_id for one in check_proxy_protocol(k.machine)] == ["proxy.store-not-waited"] * (not finish)


# -- what is said -------------------------------------------------------------------------------------------------


def test_a_diagnostic_names_places_and_memory() -> None:
    p = Program()
    p.write()
    with p.k.wgmma.group():
        p.mma(p.accumulator())
    (found,) = p.found()
    assert found.location is not None
    assert "k.wgmma.mma_async" in found.location.source or "self.k" in found.location.source
    assert "shared memory tile" in found.message
    assert "st.shared of line" in found.message
    assert [text for text, _ in found.notes] == ["tile is written here"]


def test_addresses_from_elsewhere_are_not_judged() -> None:
    p = Program()
    number = p.n.to(u32)
    p.k.shared_address(number, u64, 16).store(1)
    with p.k.one_thread():
        p.k.bulk.store(p.pointer, p.k.shared_address(number, u64, 16), 512)
        p.k.tma.commit_group()
    assert p.found() == []
