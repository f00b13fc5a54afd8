"""Barriers of threads, groups, proxies, clusters and the register pool, by hand."""

from __future__ import annotations

import pytest

from nvbackend.dry_run.seam import ALL_LANES, BLOCKED
from tests.dry_run.protocols.drive import COMMIT, FENCE, STORE, SYNC, WAIT_STORES, Drive

SETMAXNREG = "setmaxnreg.{}.sync.aligned.u32"


def _named(run: Drive, warp: int, count: int, *, ptx: str = SYNC, id: int = 1, line: object = 0):
    return run.do(warp, ptx, lanes=ALL_LANES, line=line, id=id, threads=count)


def test_threads_that_meet_are_in_order() -> None:
    run = Drive()
    run.store(0, 1024)
    run.sync(0, 1)
    run.load(1, 1024)
    assert run.end() == []


@pytest.mark.parametrize(("first", "second", "rule"), [
    ("store", "load", "shared.missing-barrier"),
    ("load", "store", "shared.overwritten-early"),
    ("store", "store", "dry-run.two-writers"),
])  # fmt: skip
def test_accesses_without_a_barrier(first: str, second: str, rule: str) -> None:
    run = Drive()
    run.store(0, 1024, line="filled")
    run.sync(0, 1)
    getattr(run, first)(0, 1024, line="first")
    run.do(0, "bar.warp.sync", lanes=ALL_LANES, mask=ALL_LANES)
    getattr(run, second)(1, 1024, line="second")
    assert run.end() == [rule]


def test_a_read_of_what_nobody_wrote() -> None:
    run = Drive()
    run.store(0, 2048)
    run.load(0, 1024)
    assert run.end() == ["dry-run.unwritten"]


def test_parts_that_fill_nothing_are_not_judged() -> None:
    run = Drive()
    run.load(0, 1024)
    assert run.end() == []


def test_other_bytes_of_one_granule_are_no_race() -> None:
    run = Drive()
    for warp in range(2):
        run.do(warp, "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32", address=1024 + 4 * warp, columns=32)
    for base in (0, 32):
        run.do(0, "tcgen05.dealloc.cta_group::1.sync.aligned.b32", tmem=base, columns=32)
    assert run.end() == []


def test_two_counts_in_one_phase() -> None:
    run = Drive()
    assert _named(run, 0, 64) is BLOCKED
    _named(run, 1, 32, line=1)
    assert run.end() == ["dry-run.barrier-counts"]


def test_one_number_for_two_pairs() -> None:
    run = Drive(warps=4)
    for pair in ((0, 1), (2, 3)):
        for warp in pair:
            _named(run, warp, 64, line=pair)
    assert run.end() == ["barrier.crowd"]


def test_a_turn_given_and_taken_again_and_again() -> None:
    run = Drive()
    for _ in range(3):
        _named(run, 0, 64, ptx="bar.arrive", id=1, line="give")
        assert _named(run, 1, 64, id=1, line="take") is not BLOCKED
        _named(run, 1, 64, ptx="bar.arrive", id=2, line="give back")
        assert _named(run, 0, 64, id=2, line="take back") is not BLOCKED
    assert run.end() == []


def test_a_turn_given_twice_without_an_answer() -> None:
    run = Drive()
    for _ in range(2):
        _named(run, 0, 64, ptx="bar.arrive", line="give")
        assert _named(run, 1, 64, line="take") is not BLOCKED
    assert run.end() == ["barrier.crowd"]


def test_a_barrier_that_too_few_come_to() -> None:
    run = Drive()
    assert _named(run, 0, 64) is BLOCKED
    run.run.ended(0, 1)
    run.run.deadlock([run.stuck(0, SYNC, id=1, threads=64)])
    (found,) = run.run.finish()
    assert found.rule_id == "dry-run.barrier-hangs"
    assert "barrier 1 waits for 64 threads, and only 32 come" in found.message


def _stored(run: Drive, *, fence_lanes: int = ALL_LANES, before: bool = True) -> Drive:
    run.store(0, 1024)
    if before:
        run.do(0, FENCE, lanes=fence_lanes)
    run.do(0, STORE, source=1024, bytes=16)
    run.do(0, COMMIT)
    return run


def test_a_store_after_a_fence_is_waited_for() -> None:
    run = _stored(Drive())
    run.do(0, WAIT_STORES, pending=0)
    run.store(0, 1024, line="again")
    assert run.end() == []


@pytest.mark.parametrize("wrong", [{"before": False}, {"fence_lanes": ALL_LANES ^ 1}])
def test_a_store_without_a_fence_of_its_thread(wrong: dict[str, int]) -> None:
    run = _stored(Drive(), **wrong)
    run.do(0, WAIT_STORES, pending=0)
    assert run.end() == ["proxy.missing-fence"]


def test_a_store_that_another_lane_waits_for() -> None:
    run = _stored(Drive())
    run.do(0, WAIT_STORES, lanes=2, pending=0)
    run.store(0, 1024, line="again")
    assert run.end()[0] == "proxy.write-in-flight"


def test_a_wait_that_leaves_the_store_in_flight() -> None:
    run = _stored(Drive())
    run.do(0, WAIT_STORES, pending=1)
    assert run.end() == ["proxy.store-not-waited"]


def test_a_store_that_nobody_commits() -> None:
    run = Drive()
    run.do(0, FENCE, lanes=ALL_LANES)
    run.do(0, STORE, source=1024, bytes=16)
    assert run.end() == ["proxy.store-not-committed"]


def _cluster(**wrong: bool) -> Drive:
    run = Drive(warps=1, ctas=2, cluster=2)
    meet = ("barrier.cluster.arrive.aligned", "barrier.cluster.wait.aligned")
    for line in ("start", "end"):
        if not wrong.get(line):
            for ptx in meet:
                for cta in range(2):
                    run.do(0, ptx, cta=cta, lanes=ALL_LANES, line=line)
        if line == "start":
            run.do(0, "st.shared::cluster", lanes=1, line="peer", address=(1 << 24) + 1024,
                   about={"memory": run.touch("address", 4)})  # fmt: skip
    return run


def test_a_peer_is_accessed_while_it_is_there() -> None:
    assert _cluster().end() == []


def test_a_peer_that_may_not_have_started() -> None:
    assert _cluster(start=True).end() == ["cluster.access-before-start"]


def test_a_peer_that_may_have_ended() -> None:
    assert _cluster(end=True).end() == ["cluster.exit-before-access"]


def test_registers_that_nobody_gives_back() -> None:
    run = Drive(warps=8, registers=168)
    group = tuple(range(4, 8))
    inc = {"warps": group, "lanes": ALL_LANES, "line": "inc", "about": {"immediates": {"registers": 232}}}
    run.run._state.pools[0] = 0
    assert run.do(4, SETMAXNREG.format("inc"), **inc) is BLOCKED
    run.run.deadlock([run.stuck(4, SETMAXNREG.format("inc"), line="inc")])
    assert [found.rule_id for found in run.run.finish()] == ["setmaxnreg.pool"]


def test_registers_that_others_gave_back() -> None:
    run = Drive(warps=8, registers=168)
    run.run._state.pools[0] = 0
    for first, action, count in ((0, "dec", 40), (4, "inc", 232)):
        about = {"immediates": {"registers": count}}
        warps = tuple(range(first, first + 4))
        ptx = SETMAXNREG.format(action)
        assert run.do(first, ptx, warps=warps, lanes=ALL_LANES, line=action, about=about) is not BLOCKED
    assert run.end() == []
