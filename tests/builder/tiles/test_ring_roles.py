"""Rings and roles used by the wrong number of threads: each of these would hang on the GPU, or overwrite a stage."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import gather
from tests.support.said import said

LAYOUT = SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64)


def builder(threads=384):
    return KernelBuilder("roles", "sm_90a", threads=threads, min_ctas=1)


def ring(k, consumers=2, ready=True, stages=2, **layouts):
    made = k.pipeline(stages, consumers, **(layouts or {"a": LAYOUT}))
    if ready:
        k.mbarrier.ready()
    return made


def roles(k, produce, consume, registers=(40, 232)):
    with k.producer(registers[0]):
        produce()
    with k.consumers(registers[1]):
        consume()


def enter(block):
    with block:
        pass


def nothing():
    pass


def drained_by_the_producer(k):
    made = ring(k)
    roles(k, lambda: enter(made.drain()), nothing)


def filled_by_the_consumers(k):
    made = ring(k)
    roles(k, nothing, lambda: enter(made.fill()))


def for_one_consumer_of_two(k):
    made = ring(k, consumers=1)
    roles(k, lambda: enter(made.fill()), lambda: enter(made.drain()))


def one_stage(k):
    return ring(k, stages=1)


def filled_by_one_thread(k):
    made = k.pipeline(2, 1, copies="cp.async", a=LAYOUT)
    k.mbarrier.ready()
    with k.one_thread():
        enter(made.fill())


def drained_by_one_thread(k):
    made = ring(k, consumers=1)
    with k.one_thread():
        enter(made.drain())


def not_ready(k):
    made = ring(k, ready=False)
    roles(k, lambda: enter(made.fill()), nothing)


def a_second_ring_not_ready(k):
    ring(k)
    made = ring(k, ready=False, b=LAYOUT)
    roles(k, nothing, lambda: enter(made.drain()))


def fed_by_a_warp(k):
    made = ring(k, consumers=1)
    with k.if_(k.warp_id() == 5):
        enter(made.feed())


def fed_by_two_threads(k):
    made = ring(k, consumers=1)
    with k.if_(k.thread_id() < 2):
        enter(made.feed())


MISUSES = {
    "fed by a warp": (fed_by_a_warp, "pipeline.role", ", which 32 threads run"),
    "fed by two threads": (fed_by_two_threads, "pipeline.role", ", which 2 threads run"),
    "drained by the producer": (drained_by_the_producer, "pipeline.role", "ring.drain()"),
    "filled by the consumers": (filled_by_the_consumers, "pipeline.role", "ring.fill()"),
    "one consumer of two": (for_one_consumer_of_two, "pipeline.consumers", "k.pipeline(stages, 2"),
    "more consumers than warpgroups": (
        lambda k: ring(k, consumers=4),
        "pipeline.consumers",
        "waits for 4 consumer warpgroups, and 3 can drain it",
    ),
    "no consumers": (
        lambda k: ring(k, consumers=0),
        "pipeline.consumers",
        "waits for 0 consumer warpgroups, and 3 can drain it",
    ),
    "no tiles": (lambda k: k.pipeline(2, 2), "pipeline.tiles", "a ring has no tile"),
    "a name that is taken": (lambda k: ring(k, full=LAYOUT), "pipeline.tiles", "full"),
    "not ready": (not_ready, "pipeline.not-ready", "k.mbarrier.ready()"),
    "a second one not ready": (a_second_ring_not_ready, "pipeline.not-ready", "k.mbarrier.ready()"),
    "more registers than there are": (
        lambda k: roles(k, nothing, nothing, (40, 240)),
        "pipeline.registers",
        "232 at most",
    ),
    "filled by all threads": (
        lambda k: enter(k.pipeline(2, a=LAYOUT).fill()),
        "pipeline.consumers",
        "waits for no consumer warpgroup, and 2 can drain it",
    ),
    "filled by all threads of a warp": (
        lambda _: enter(builder(32).pipeline(2, a=LAYOUT).fill()),
        "pipeline.consumers",
        "waits for no consumer warpgroup, and 1 can drain it",
    ),
    "given back by all threads": (
        lambda k: k.pipeline(2, copies="cp.async", a=LAYOUT).release(),
        "pipeline.consumers",
        "k.pipeline(stages, 2, ...)",
    ),
    "finished by the consumers of a ring without": (
        lambda k: roles(k, nothing, k.pipeline(2, a=LAYOUT).finish),
        "pipeline.consumers",
        "k.pipeline(stages, 2, ...)",
    ),
    "steps of a ring of roles": (
        lambda k: enter(ring(k).steps(3, lambda step, stage: None)),
        "pipeline.consumers",
        "waits for 2 consumer warpgroups, and all threads drain it",
    ),
    "another way to copy": (
        lambda k: k.pipeline(2, 1, copies="bulk", a=LAYOUT),
        "instruction.variant",
        "'bulk' is not one of tma, cp.async",
    ),
    "one stage for all threads": (lambda k: k.pipeline(1, a=LAYOUT), "pipeline.stages", "k.pipeline(2, ...)"),
    "no stage": (lambda k: k.pipeline(0, 1, a=LAYOUT), "pipeline.stages", "k.pipeline(1, ...)"),
    "in flight of one stage": (
        lambda k: roles(k, nothing, lambda: enter(one_stage(k).drain(in_flight=1))),
        "pipeline.stages",
        "use in_flight=0, or make the ring of 2 stages or more",
    ),
    "two in flight of three": (
        lambda k: roles(k, nothing, lambda: enter(ring(k, stages=3).drain(in_flight=2))),
        "pipeline.stages",
        "use in_flight=0 or 1",
    ),
    "filled by one thread of many": (
        filled_by_one_thread,
        "pipeline.role",
        "ring.fill() is for all threads of a producer warpgroup",
    ),
    "drained by one thread": (drained_by_one_thread, "pipeline.role", "all threads of a consumer warpgroup"),
    "in flight below nothing": (
        lambda k: roles(k, nothing, lambda: enter(ring(k).drain(in_flight=-1))),
        "pipeline.stages",
        "in_flight=-1",
    ),
}


@pytest.mark.parametrize(("broken", "rule", "says"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_a_diagnostic_at_the_line(broken, rule, says):
    with pytest.raises(nvb.DiagnosticError) as caught:
        broken(builder())
    (found,) = caught.value.diagnostics
    assert found.rule_id == rule
    assert says in said(found)
    assert found.location is not None and found.location.file == __file__


@pytest.mark.parametrize("threads", [32, 128, 320])
def test_roles_need_whole_warpgroups(threads):
    with pytest.raises(nvb.DiagnosticError, match="at least 256") as caught:
        roles(builder(threads), nothing, nothing)
    assert caught.value.diagnostics[0].rule_id == "pipeline.roles"


@pytest.mark.parametrize(
    ("threads", "registers", "fits"),
    [
        (384, (40, 232), True),
        (384, (24, 240), True),
        (384, (32, 240), False),
        (256, (24, 256), True),
        (512, (24, 160), True),
        (512, (40, 168), False),
    ],
)
def test_the_registers_of_the_roles_come_from_the_launch(threads, registers, fits):
    """65536 registers, dealt out evenly in steps of 8: 168 a thread of 384, 256 of 256, 128 of 512."""
    share = {384: 168, 256: 256, 512: 128}[threads]
    assert fits == (registers[0] + (threads // 128 - 1) * registers[1] <= share * threads // 128)
    k = builder(threads)
    if fits:
        roles(k, nothing, nothing, registers)
        return
    with pytest.raises(nvb.DiagnosticError) as caught:
        roles(k, nothing, nothing, registers)
    assert caught.value.diagnostics[0].rule_id == "pipeline.registers"
    roles(builder(threads), nothing, nothing, (registers[0], caught.value.diagnostics[0].values["most"]))


@pytest.mark.parametrize("left", [None, 24, 40])
@pytest.mark.parametrize("registers", [168, 176, 232, 240, 248, 256])
def test_consumers_beside_another_block_have_what_that_leaves(left, registers):
    """Of the 3 times 168 registers of 384 threads; what is said names no producer, as there is none."""

    k = builder()
    with k.if_(k.warpgroup_id() == 0):
        if left is not None:
            k.setmaxnreg.dec(left)
    with k.consumers(registers):
        pass
    fits = (168 if left is None else left) + 2 * registers <= 3 * 168
    assert [one.rule_id for one in gather(k.finish)] == ([] if fits else ["setmaxnreg.pool"])


def test_a_stage_says_which_tiles_it_has():
    k = builder()
    made = ring(k, left=LAYOUT, right=LAYOUT)
    with k.producer(40), made.fill() as stage, pytest.raises(AttributeError) as missing:
        _ = stage.middle
    assert isinstance(missing.value, nvb.DiagnosticError)
    (diagnostic,) = missing.value.diagnostics
    assert diagnostic.rule_id == "value.attribute"
    assert diagnostic.message == "a stage of this ring has no middle"
    assert diagnostic.fix == "use one of its tiles: left, right"
    assert diagnostic.location is not None
    assert diagnostic.location.file == __file__
    assert not hasattr(stage, "middle")
    with pytest.raises(AttributeError) as hidden:
        _ = stage._middle
    assert type(hidden.value) is AttributeError  # what copy and pickle ask for is no mistake of a user


@pytest.mark.parametrize(("produced", "consumed"), [(40, 232), (24, 240)])
def test_roles_take_and_give_their_registers_and_know_their_numbers(produced, consumed):
    """One thread of warpgroup 0 produces; the others consume, numbered from 0."""

    @nvb.kernel("sm_90a", threads=384, min_ctas=1)
    def numbers(k, out: nvb.Pointer[nvb.i32]):
        with k.producer(registers=produced):
            out[k.thread_id()] = 10
        with k.consumers(registers=consumed) as number:
            out[k.thread_id()] = number

    compiled = numbers.compile(assemble=False)
    found = re.findall(r"setmaxnreg\.(dec|inc)\.sync\.aligned\.u32\s+(\d+);", compiled.ptx)
    assert sorted(found) == [("dec", str(produced)), ("inc", str(consumed))]
    out = np.full(384, -1, np.int32)
    nvb.runtime.load(compiled, device="simulator").launch(1, out)
    assert sorted(out[:128]) == [-1] * 127 + [10]
    assert out[128:].tolist() == [0] * 128 + [1] * 128


def commits(k):
    k.mbarrier.ready()
    made = k.pipeline(2, 1, released_by="thread", a=LAYOUT)
    with k.one_thread():
        enter(made.feed())


WHO_RELEASES = {
    "no such thing": (
        lambda k: k.pipeline(2, 1, released_by="warp", a=LAYOUT),
        "instruction.variant",
        "warpgroup, thread",
    ),
    "nobody": (lambda k: k.pipeline(2, released_by="thread", a=LAYOUT), "call.argument", "without consumers"),
    "a commit": (commits, "call.argument", "a commit releases a stage once"),
}


@pytest.mark.parametrize("name", WHO_RELEASES)
def test_who_releases_a_stage_is_one_who_drains_it(name):
    make, rule, text = WHO_RELEASES[name]
    k = KernelBuilder("roles", "sm_100a", threads=128)
    with pytest.raises(nvb.DiagnosticError, match=re.escape(text)) as refused:
        make(k)
    assert refused.value.diagnostics[0].rule_id == rule
