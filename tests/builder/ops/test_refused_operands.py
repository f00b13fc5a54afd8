"""Operands that no call takes together, and counts that it does not have: what is wrong, and what is taken beside it.

What is said is in the golden beside this file, word for word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import nvbackend as nvb
from nvbackend import KernelBuilder, Parameter, Pointer, TensorMap, f16, f32, pred, s32, u32
from nvbackend.signature import Im2col


class Scene:
    """A kernel in a cluster, with a barrier, memory of both kinds and maps."""

    def __init__(self, cluster: int, threads: int, name: str = "refused") -> None:
        parameters = [
            Parameter("x", Pointer(f32, align=16)),
            Parameter("plain", TensorMap(f16, (16, 16))),
            Parameter("pixels", TensorMap(f16, (64, 16), im2col=Im2col(4, (0, 0), (0, 0)))),
        ]
        self.k: Any = KernelBuilder(name, "sm_100a", threads=threads, cluster=cluster, parameters=parameters)
        self.x, self.plain, self.pixels = self.k.arguments
        self.box, self.other = (self.k.shared(f32, 1024, align=128, name=name) for name in ("box", "other"))
        self.full = self.k.mbarrier.array(1, 1)
        self.k.mbarrier.ready()
        self.lane = self.k.thread_id()


Call = Callable[[Scene], object]


class Pair(NamedTuple):
    """A call that is refused, by which rule, and one beside it that is taken."""

    rule: str
    refused: Call
    taken: Call
    cluster: int = 2
    threads: int = 64


def sent(call: str, *more: object, **how: Any) -> Call:
    """A bulk copy from shared memory, to a peer where `how` says which."""

    def emit(scene: Scene) -> None:
        to = scene.other if "rank" in how else scene.x
        places = {"barrier": scene.full, "cache_policy": scene.k.cache.policy("L2::evict_first")}
        given = {name: places.get(name, value) for name, value in how.items()}
        with scene.k.one_thread():
            getattr(scene.k.bulk, call)(to, scene.box, 64, *more, **given)

    return emit


def arrived(**how: Any) -> Call:
    return lambda scene: scene.k.mbarrier.arrive(
        scene.full, **{name: value(scene) if callable(value) else value for name, value in how.items()}
    )


def boxed(name: str, coordinates: int, offsets: int) -> Call:
    def emit(scene: Scene) -> None:
        mode = {"mode": "im2col", "offsets": [0] * offsets} if name == "pixels" else {"offsets": [0] * offsets}
        with scene.k.one_thread():
            scene.k.tma.load_box(scene.box, getattr(scene, name), [0] * coordinates, scene.full, **mode)

    return emit


def grouped(condition: Callable[[Scene], Any], **how: Any) -> Call:
    def emit(scene: Scene) -> None:
        with scene.k.if_(condition(scene)):
            scene.k.cta.reduce("add", scene.lane, **how)

    return emit


def warp(scene: Scene) -> Any:
    return scene.k.warp_id()


FIRST = {"threads": 64, "barrier": 1}
PEER = {"rank": 1, "barrier": True}
PAIRS = {
    "a peer's rank without its barrier": Pair("instruction.variant", sent("store", rank=1), sent("store", **PEER)),
    "a barrier without its CTA": Pair("instruction.variant", sent("store", barrier=True), sent("store")),
    "bytes of a mask to a peer": Pair(
        "instruction.variant", sent("store", byte_mask=5, **PEER), sent("store", byte_mask=5)
    ),
    "a policy to a peer": Pair("instruction.variant", sent("store", cache_policy=True, **PEER), sent("store")),
    "a sum at a rank without its barrier": Pair(
        "instruction.variant", sent("reduce", "add", u32, rank=1), sent("reduce", "add", u32, **PEER)
    ),
    "a sum at a peer by a policy": Pair(
        "instruction.variant",
        sent("reduce", "add", u32, cache_policy=True, **PEER),
        sent("reduce", "add", u32, cache_policy=True),
    ),
    "the state of a peer's barrier": Pair("instruction.variant", arrived(rank=1, state=True), arrived(rank=1)),
    "the state of some threads": Pair(
        "instruction.variant",
        arrived(when=lambda scene: scene.lane < 3, state=True),
        arrived(when=lambda scene: scene.lane < 3),
    ),
    "no completion of one": Pair("instruction.variant", arrived(no_complete=True), arrived(no_complete=True, count=1)),
    "no completion of bytes": Pair(
        "instruction.variant", arrived(no_complete=True, count=1, expect_tx=16), arrived(expect_tx=16)
    ),
    "no completion at a peer": Pair(
        "instruction.variant", arrived(no_complete=True, count=1, rank=1), arrived(count=1, rank=1)
    ),
    "a test that sleeps": Pair(
        "instruction.variant",
        lambda scene: scene.k.mbarrier.test(scene.full, sleep=100),
        lambda scene: scene.k.mbarrier.test(scene.full, sleep=100, blocking=True),
    ),
    "a coordinate too few": Pair("tma.box-operands", boxed("plain", 1, 0), boxed("plain", 2, 0)),
    "a coordinate too many": Pair("tma.box-operands", boxed("plain", 3, 0), boxed("plain", 2, 0)),
    "offsets of a tile": Pair("tma.box-operands", boxed("plain", 2, 2), boxed("plain", 2, 0)),
    "pixels without offsets": Pair("tma.box-operands", boxed("pixels", 4, 0), boxed("pixels", 4, 2)),
    "an offset too many": Pair("tma.box-operands", boxed("pixels", 4, 3), boxed("pixels", 4, 2)),
    "a scope that there is not": Pair(
        "cluster.scope",
        lambda scene: scene.k.cluster.sync(scope="gpu"),
        lambda scene: scene.k.cluster.sync(scope="cta"),
    ),
    "a pair of three": Pair(
        "cluster.no-peer",
        lambda scene: scene.k.cluster.peer_rank() if scene.k.cluster_size == 3 else None,
        lambda scene: scene.k.cluster.rank() ^ 1,
        cluster=3,
    ),
    "bits of floats": Pair(
        "value.operation",
        lambda scene: scene.k.cluster.reduce("xor", (scene.lane, scene.x[0])),
        lambda scene: scene.k.cluster.reduce("xor", (scene.lane, scene.x[0].bitcast(u32))),
    ),
    "a function that gives one value of two": Pair(
        "value.type",
        lambda scene: scene.k.warp.reduce(lambda a, b: a[0] + b[1], (scene.lane, scene.lane)),
        lambda scene: scene.k.warp.reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]), (scene.lane, scene.lane)),
    ),
    "a scan by a function without its first value": Pair(
        "reduce.initial",
        lambda scene: scene.k.warp.scan(lambda a, b: a + b, scene.lane, exclusive=True),
        lambda scene: scene.k.warp.scan(lambda a, b: a + b, scene.lane, exclusive=True, initial=0),
    ),
    "a group of unknown threads": Pair(
        "cta.group",
        grouped(lambda scene: scene.x[warp(scene)] > 0.0, **FIRST),
        grouped(lambda scene: warp(scene) < 2, **FIRST),
        threads=192,
    ),
    "a group at an unknown barrier": Pair(
        "cta.group",
        lambda scene: scene.k.cta.reduce("add", scene.lane, threads=64, barrier=scene.x[0].to(s32)),
        lambda scene: scene.k.cta.reduce("add", scene.lane, threads=64, barrier=1 + warp(scene) // 2),
        threads=192,
    ),
    "a group of single lanes": Pair(
        "cta.group",
        grouped(lambda scene: scene.k.elect(), **FIRST),
        grouped(lambda scene: warp(scene) < 2, **FIRST),
        threads=192,
    ),
    "a group and another warp": Pair(
        "cta.group",
        grouped(lambda scene: warp(scene) < 3, **FIRST),
        grouped(lambda scene: warp(scene) < 2, **FIRST),
        threads=192,
    ),
    "a group with a hole": Pair(
        "cta.group",
        grouped(lambda scene: (warp(scene) == 1) | (warp(scene) == 3), **FIRST),
        grouped(lambda scene: (warp(scene) == 2) | (warp(scene) == 3), **FIRST),
        threads=192,
    ),
    "groups that do not begin whole groups apart": Pair(
        "cta.group",
        lambda scene: _two_groups(scene, 3),
        lambda scene: _two_groups(scene, 2),
        threads=192,
    ),
    "a group without a barrier": Pair(
        "cta.group",
        grouped(lambda scene: warp(scene) < 2, threads=64),
        grouped(lambda scene: warp(scene) < 2, **FIRST),
        threads=192,
    ),
    "a group of no number of threads": Pair(
        "cta.group",
        grouped(lambda scene: warp(scene) < 2, barrier=1),
        grouped(lambda scene: warp(scene) < 2, **FIRST),
        threads=192,
    ),
    "more threads than there are": Pair(
        "barrier.waits",
        grouped(lambda scene: warp(scene) < 6, threads=224, barrier=1),
        grouped(lambda scene: warp(scene) < 6, threads=192, barrier=1),
        threads=192,
    ),
    "a number by another function": Pair(
        "value.kernel",
        lambda scene: scene.k.value(Scene(1, 32, "other").lane.ir, s32),
        lambda scene: scene.k.value(scene.lane.ir, s32),
    ),
    "a value of LLVM by another type": Pair(
        "value.llvm-type",
        lambda scene: scene.k.value((scene.lane < 3).ir, s32),
        lambda scene: scene.k.value((scene.lane < 3).ir, pred),
    ),
    "a division of floats": Pair(
        "value.operation", lambda scene: scene.x[0] // scene.x[1], lambda scene: scene.x[0] / scene.x[1]
    ),
    "a predicate of a float": Pair(
        "value.operation", lambda scene: scene.x[0].to(pred), lambda scene: scene.x[0] != 0.0
    ),
}


def _two_groups(scene: Scene, second: int) -> None:
    """Warps 0 and 1 at one barrier, and two from `second` on at another."""
    of_first, of_second = warp(scene) < 2, (warp(scene) >= second) & (warp(scene) < second + 2)
    with scene.k.if_(of_first | of_second):
        scene.k.cta.reduce("add", scene.lane, threads=64, barrier=scene.k.select(of_first, 1, 2))


@pytest.mark.parametrize("name", PAIRS)
def test_operands_that_a_call_does_not_take(name: str) -> None:
    pair = PAIRS[name]
    with pytest.raises(nvb.DiagnosticError) as caught:
        pair.refused(Scene(pair.cluster, pair.threads))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == pair.rule
    assert diagnostic.location is not None
    assert diagnostic.location.file == __file__
    pair.taken(Scene(pair.cluster, pair.threads))
