"""A ring of two stages: warp 0 fills, warp 1 reads; each test but the first makes one mistake."""

from __future__ import annotations

import pytest

from nvbackend.dry_run.objects.mbarriers import Mbarrier
from nvbackend.dry_run.order.events import Events, Warp
from nvbackend.dry_run.seam import BLOCKED
from nvbackend.dry_run.when import When
from nvbackend.isel.machine.function import MachineInstr
from tests.dry_run.protocols.drive import ARRIVE, EXPECT, WAIT, Drive


def _ring(rounds: int = 3, **wrong: bool) -> Drive:
    """What warp 0 and warp 1 do in so many rounds of the ring, and the mistakes."""
    ring = Drive()
    for stage in range(2):
        ring.init(0, stage)
    ring.sync(0, 1)
    for step in range(2 * rounds):
        stage, phase = step % 2, step // 2 & 1
        late = wrong.get("refills") and step == 3
        assert late or ring.wait(0, 16 + 8 * stage, phase ^ 1, line="producer", rounds=When(("step",), (step,)))
        ring.fill(0, stage, rounds=When(("step",), (step,)))
        if not (wrong.get("reads") and step == 3):
            parity = phase ^ 1 if wrong.get("parity") and step == 2 else phase
            assert ring.wait(1, 8 * stage, parity, line="consumer", rounds=When(("step",), (step,)))
        if wrong.get("releases"):
            ring.release(1, stage)
        ring.load(1, 1024 + 1024 * stage, rounds=When(("step",), (step,)))
        if not wrong.get("releases"):
            ring.release(1, stage)
    return ring


def test_a_right_ring() -> None:
    assert _ring().end() == []


def test_a_stage_is_read_without_a_wait() -> None:
    assert _ring(reads=True).end() == ["proxy.read-before-wait"]


def test_a_stage_is_filled_without_a_wait() -> None:
    assert _ring(refills=True).end() == ["proxy.refill"]


def test_a_stage_is_released_before_it_is_read() -> None:
    assert _ring(releases=True).end() == ["proxy.refill"]


def test_a_read_without_a_wait_is_the_cause_and_not_the_wait_after_it() -> None:
    ring = Drive()
    ring.init(0, 0)
    ring.sync(0, 1)
    for step, parity in ((0, 0), (1, 0)):  # the second time, the phase of parity 1 is to come
        ring.fill(0, 0, rounds=When(("step",), (step,)))
        if step == 0:
            assert ring.wait(1, 0, parity, line="consumer")
        ring.load(1, 1024)
        ring.release(1, 0)
        assert ring.wait(0, 16, step & 1)
    assert not ring.wait(1, 0, 0, line="consumer", rounds=When(("step",), (1,)))
    assert ring.end() == ["proxy.read-before-wait"]


def test_a_wait_for_a_phase_that_is_over_is_the_cause() -> None:
    ring = Drive()
    ring.init(0, 0)
    ring.sync(0, 1)
    assert ring.wait(1, 0, 1, line="consumer")
    ring.fill(0, 0)
    ring.load(1, 1024)
    (found,) = _found(ring)
    assert found.rule_id == "mbarrier.parity-counter"
    assert "warp 1 waits for parity 1 of full[0]: it returns at once, before any phase is over" in found.message
    assert found.notes[0][0] == "what relies on it: ldmatrix"


def test_a_wait_that_comes_a_phase_too_late_is_wrong_too() -> None:
    ring = Drive()
    ring.init(0, 0)
    ring.sync(0, 1)
    for phase in range(2):
        ring.fill(0, 0)
        if phase == 0:
            assert ring.wait(1, 0, 0, line="consumer")
            ring.load(1, 1024)
            ring.release(1, 0)
            assert ring.wait(0, 16, 0)
    assert not ring.wait(1, 0, 0, line="consumer")
    assert ring.end() == ["mbarrier.parity-counter"]


def test_one_cause_names_both_places_and_the_round() -> None:
    (found,) = _found(_ring(refills=True))
    assert found.message.startswith("in round 3 of step, cp.async.bulk of warp 0 fills shared address 0x800 while")
    assert "ldmatrix of warp 1 in round 1 of step" in found.message
    assert [note for note, place in found.notes if place is not None]


def _found(ring: Drive):
    ring.end()
    return ring.run.finish()


@pytest.mark.parametrize(("expect", "rule"), [(2048, "mbarrier.wrong-bytes"), (512, "mbarrier.wrong-bytes")])
def test_other_bytes_come_than_are_announced(expect: int, rule: str) -> None:
    ring = Drive()
    ring.init(0, 0)
    ring.sync(0, 1)
    ring.fill(0, 0, expect=expect)
    assert not ring.wait(1, 0, 0, line="consumer")
    ring.run.deadlock([ring.stuck(1, WAIT, line="consumer", barrier=0, parity=0)])
    (found,) = ring.run.finish()
    assert found.rule_id == rule
    assert f"{expect} bytes are announced" in found.message
    assert "bring 1024" in found.message


@pytest.mark.parametrize(("copier", "rule"), [(0, "mbarrier.wrong-bytes"), (1, "dry-run.unwaited-phase")])
def test_bytes_are_announced_in_a_round_without_a_copy(copier: int, rule: str) -> None:
    """Warp 0 comes again in round 2: it is stuck by what it announced, if it copied in other rounds itself."""
    ring = Drive()
    ring.init(0, 0)
    ring.sync(0, 1)
    for step in range(3):
        rounds = When(("step",), (step,))
        ring.do(0, EXPECT, barrier=0, bytes=1024, rounds=rounds, line="announced")
        if step == 0:
            ring.copy(copier, 0, rounds=rounds)
    first, *_ = _found(ring)
    assert first.rule_id == rule
    assert ("in those rounds alone in which" in (first.fix or "")) == (copier == 0)


def test_the_end_of_a_phase_is_an_event_that_its_waiters_know() -> None:
    """Two warps arrive without memory of each other; the one that waits knows the end, the other does not."""
    events = Events(1)
    warps = [Warp(0, index, events, lambda _warp: None) for index in range(3)]
    barrier = Mbarrier((0, 0), "full", 2, 0, MachineInstr("init"), pending=2)
    for warp in warps[:2]:
        barrier.tell(warp.tell(), 1 << events.new())
        barrier.pending -= 1
    before = events.count
    assert barrier.advance(warps[1])
    assert barrier.ends[0][0] == 1 << before
    assert not any(barrier.knows(warp, 0) for warp in warps)
    warps[2].learn(barrier.known[0])
    assert [barrier.knows(warp, 0) for warp in warps] == [False, False, True]
    assert [barrier.over(warp) for warp in warps] == [0, 0, 1]
    assert (barrier.phase, barrier.pending, barrier.came) == (1, 2, 0)


def test_too_few_arrivals_name_the_barrier_and_what_came() -> None:
    ring = Drive()
    ring.init(0, 0, empty=2)
    ring.sync(0, 1)
    ring.release(1, 0)
    assert not ring.wait(0, 16, 0, line="producer")
    ring.run.deadlock([ring.stuck(0, WAIT, line="producer", barrier=16, parity=0)])
    (found,) = ring.run.finish()
    assert found.rule_id == "mbarrier.arrivals"
    assert "empty[0] counts 2 arrivals a phase, and phase 0 gets only 1" in found.message


def test_nobody_arrives() -> None:
    ring = Drive()
    ring.init(0, 0)
    ring.sync(0, 1)
    assert not ring.wait(0, 16, 0, line="producer")
    assert not ring.wait(1, 0, 0, line="consumer")
    waiting = [ring.stuck(0, WAIT, line="producer", barrier=16, parity=0)]
    waiting.append(ring.stuck(1, WAIT, line="consumer", barrier=0, parity=0))
    ring.run.deadlock(waiting)
    (found,) = ring.run.finish()
    assert found.rule_id == "mbarrier.deadlock"
    assert "waits forever for parity 0 of empty[0]" in found.message
    assert "0 of 1 arrivals of phase 0 have come" in found.message


def test_an_arrival_that_may_be_one_phase_early() -> None:
    ring = Drive(warps=3)
    ring.init(0, 0, empty=2)
    ring.sync(0, 1, 2)
    for _ in range(2):
        ring.release(1, 0)  # waits for nothing between the two, so both may be in one phase
        ring.release(2, 0)
        assert ring.wait(0, 16, _, line="producer")
    assert ring.end() == ["mbarrier.arrivals"]


def test_more_arrivals_than_a_phase_counts() -> None:
    ring = Drive()
    ring.init(0, 0)
    ring.sync(0, 1)
    ring.do(1, ARRIVE, lanes=3, barrier=16)
    assert ring.end() == ["mbarrier.arrivals"]


def test_arrivals_of_one_thread_complete_phase_after_phase() -> None:
    ring = Drive()
    ring.init(0, 0)
    ring.sync(0, 1)
    for _ in range(5):
        ring.release(1, 0)
    assert ring.end() == []


def test_an_mbarrier_is_used_before_others_know_of_it() -> None:
    ring = Drive()
    ring.init(0, 0)
    ring.release(1, 0)
    assert ring.end() == ["mbarrier.not-ready"]


def test_an_index_beside_the_ring() -> None:
    ring = Drive()
    ring.init(0, 0)
    ring.sync(0, 1)
    ring.release(1, 3)
    assert ring.end() == ["mbarrier.uninitialised"]


def test_two_warps_initialise() -> None:
    ring = Drive()
    ring.init(0, 0)
    ring.init(1, 0)
    assert ring.end() == ["mbarrier.double-init"]


def _polling() -> Drive:
    ring = Drive()
    ring.init(0, 0)
    ring.sync(0, 1)
    return ring


def _poll(ring: Drive, **values: int):
    return ring.do(1, "mbarrier.test_wait.parity.shared.b64", lanes=0xFFFFFFFF, **values)


def test_a_poll_whose_result_is_ignored_orders_nothing() -> None:
    ring = _polling()
    ring.fill(0, 0)
    assert _poll(ring, barrier=0, parity=0) == {"done": 0}
    ring.load(1, 1024)
    assert ring.end() == ["proxy.read-before-wait"]


def test_a_poll_in_a_loop_waits() -> None:
    ring = _polling()
    tries = 0
    while _poll(ring, barrier=0, parity=0) is not BLOCKED:
        tries += 1
    assert tries > 16  # a loop that gives up before has not waited
    ring.fill(0, 0)
    assert _poll(ring, barrier=0, parity=0) == {"done": 1}
    ring.load(1, 1024)
    assert ring.end() == []


def test_a_stale_token_orders_nothing_new() -> None:
    ring = _polling()
    token = ring.do(0, "mbarrier.arrive.shared.b64", barrier=16)
    assert token == {"state": 0}
