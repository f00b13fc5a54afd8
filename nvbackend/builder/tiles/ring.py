"""The ring: stages of shared memory that copies fill while earlier stages are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from numbers import Integral
from typing import Any, Generic, NoReturn, TypeAlias

from nvbackend.builder.core.control import holding
from nvbackend.builder.core.instructions import mbarrier_address
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.variables import Variable
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.blocks import LOOPS, with_block
from nvbackend.builder.tiles import ring_rules
from nvbackend.builder.tiles.roles import Roles
from nvbackend.builder.tiles.stage_uses import multiply_in_flight
from nvbackend.builder.tiles.stages import Stage, Tile, TileLayout, Walk, announced, lay_out
from nvbackend.builder.tiles.turns import Turns, fail_turn
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.values import Operand, Value
from nvbackend.diagnostics import printed, user_facing
from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.intrinsics.copy.tma import BULK_ALIGNMENT
from nvbackend.intrinsics.row.row import GUARD, guarded
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import s32
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.isel.machine import facts
from nvbackend.isel.target.target import VARIANT

COPIES = ("tma", "cp.async")
RELEASED_BY = {"warpgroup": 1, "thread": WARPGROUP_SIZE}
"""Who gives a stage back, by how many threads of a consumer warpgroup arrive at its `empty` barrier."""


Fetch: TypeAlias = "Callable[[Value, Stage[Any]], None]"
"""Starts the copies of a step, given its number and its stage."""


def _is_integer(number: object) -> bool:
    return isinstance(number, Integral)


@user_facing
class Ring(KnownAttributes, Generic[Tile]):
    """`stages` of shared memory, each with a tile of every name, made by `k.pipeline`.

    With `consumers` one role fills the stages and another drains them. A stage has a `full` mbarrier (its copies have
    arrived) and an `empty` one (all have read it). Every role walks the stages in order, and the parity that it waits
    for flips when the stage index wraps. `empty` completes with one arrival of each consumer warpgroup of each CTA that
    the copies are multicast to; where threads release the stages, with one of each of their threads. With `pingpong`
    consumers take turns, and one drains a stage for all: see `turn`. Without `consumers` all threads fill and read the
    stages together: see `steps`.
    """

    def __init__(
        self,
        k: FunctionBuilder,
        roles: Roles,
        stages: int,
        consumers: int | None,
        tiles: Mapping[str, TileLayout],
        *,
        copies: str,
        multicast: bool,
        pingpong: bool,
        released_by: str,
    ) -> None:
        if not _is_integer(stages):
            advice = "give a Python integer, k.pipeline(3, ...): shared memory is laid out when the kernel is built"
            ARGUMENT.fail(call="k.pipeline", problem=f"stages must be int, not {printed(stages)}", advice=advice)
        if copies not in COPIES:
            reason = f"copies={copies!r} is not one of {', '.join(COPIES)}"
            VARIANT.fail(instruction="a ring of k.pipeline", reason=reason)
        _check_released_by(released_by, consumers)
        if stages < (least := 2 if consumers is None else 1):
            because = "no stage could be filled while another is read" if stages else "there is no buffer to fill"
            advice = f"give it {least} at least: k.pipeline({least}, ...)"
            ring_rules.RING.fail(stages=stages, problem=f", not {least} or more", advice=advice, because=because)
        if not tiles or not tiles.keys().isdisjoint(Stage.__slots__):
            named = f"tiles named {', '.join(tiles)}" if tiles else "no tile"
            ring_rules.RING_TILES.fail(given=named, taken=" or ".join(Stage.__slots__))
        warpgroups = k.threads // WARPGROUP_SIZE
        if consumers is not None and not 1 <= consumers <= warpgroups:
            _fail_consumers(consumers, warpgroups)
        if pingpong and consumers is None:
            advice = "say how many there are: k.pipeline(stages, 2, pingpong=True, ...)"
            fail_turn("k.pipeline(pingpong=True)", "has no consumers that take turns", advice)
        self._k = k
        self._roles = roles
        self._by_threads = copies == "cp.async"
        self.stages = stages
        self.consumers = consumers
        self._by_each = released_by == "thread"
        self.peers = k.cluster_size if multicast else 1
        self._arrivals = (1 if pingpong else consumers or 0) * self.peers * RELEASED_BY[released_by]
        """How many give a stage back: one of each warpgroup that reads it, in each CTA, or each of their threads."""
        unit = 1 if self._by_threads else BULK_ALIGNMENT
        self._tiles = {name: lay_out(k, name, tile, stages, unit) for name, tile in tiles.items()}
        self.bytes = sum(tile.bytes for tile in self._tiles.values())
        self._full: Address | None = None
        self._walk: Walk | None = None
        self._done: Variable | None = None
        """How many steps there were before, by which the phase of `full` is known."""
        if consumers is not None:
            self._full = full = k.mbarrier.array(stages, WARPGROUP_SIZE if self._by_threads else 1, name="full")
            self._walk = Walk(k, stages, full, self._arrivals)
        elif not self._by_threads:
            self._full = k.mbarrier.array(stages, 1, name="full")
            self._done = k.var(0, s32, name="done")
        self._turns = Turns(k, roles, consumers) if pingpong and consumers is not None else None
        self._drained_from = 0
        """How many instructions there were where the last drain began."""

    def __repr__(self) -> str:
        return f"<ring of {self.stages} stages of {', '.join(self._tiles)}, {self.bytes} bytes each>"

    # -- all threads fill and read ----------------------------------------------------------------------------------

    @with_block
    def steps(self, count: Operand, fetch: Fetch) -> Iterator[tuple[Value, Stage[Tile]]]:
        """Run the block for each of `count` steps with its number and its stage. All threads of the CTA execute it.

        `fetch(step, stage)` starts the copies of a step, `stages` - 1 steps ahead, and only for steps that exist: with
        cp.async those of each thread, else all of them, in one thread. After the block nothing is pending, but the
        stages must not be written again before a `k.barrier.sync()`.
        """
        k, ahead = self._k, self.stages - 1
        if self._walk is not None:
            consumers = f"{self.consumers} consumer warpgroup(s)"
            ring_rules.RING_CONSUMERS.fail(given=consumers, there="all threads", advice="")
        self._check_ready("steps")
        for first in range(ahead):
            self._fetch(k.const(first, s32), count, fetch)
        with k.range(count) as step:
            if self._full is None:
                k.cp_async.wait_group(ahead - 1)
            else:
                k.mbarrier.wait(self._full + self._place(step), self._since_start(step) // self.stages & 1)
            (k.cluster if self.peers > 1 else k.barrier).sync()  # all are done with the stage that is filled next
            self._fetch(step + ahead, count, fetch)
            yield step, self._stage(self._place(step))
        if self._done is not None:
            self._done += k.math.max(count, k.const(0, s32))

    def _since_start(self, step: Value) -> Value:
        return step if self._done is None else self._done + step

    def _place(self, step: Value) -> Value:
        return self._since_start(step) % self.stages

    def _fetch(self, step: Value, count: Operand, fetch: Fetch) -> None:
        """Start the copies of a step; those of threads as one group, an empty one past the end: waits count groups."""
        k = self._k
        with k.if_(step < count):
            stage = self._stage(self._place(step))
            if self._by_threads:
                fetch(step, stage)
            else:
                with k.one_thread():
                    k.mbarrier.arrive(stage.full, expect_tx=self.bytes)
                    fetch(step, stage)
        if self._by_threads:
            k.cp_async.commit_group()

    # -- one role fills, another drains -----------------------------------------------------------------------------

    @with_block
    def fill(self, bytes: Mapping[str, Operand] | None = None) -> Iterator[Stage[Tile]]:
        """Wait until the next stage is empty and yield it to copy into: for one thread, or a warpgroup with cp.async.

        Its bytes are announced before the block: those of whole tiles, or `bytes` of each that it names, a multiple of
        16. With cp.async, the threads' copies arrive at `full` after it. Raises pipeline.bytes.
        """
        k = self._k
        who = "all threads of a producer warpgroup" if self._by_threads else "one producer thread"
        alone = self._by_threads and k.core.alone() is not None
        walk = self._role("fill", who, wrong=alone or self._roles.consuming is not None)
        if self._by_threads and bytes:
            VARIANT.fail(instruction="bytes of ring.fill", reason="copies of cp.async announce none: leave it out")
        expected = announced(k, self._tiles, bytes or {})
        index = walk.index.value
        k.mbarrier.wait(walk.empty + index, walk.phase ^ 1)
        full = walk.full + index
        if not self._by_threads:
            k.mbarrier.arrive(full, expect_tx=expected)
        with holding(k.core, "ring.fill"):
            yield self._stage(index)
        if self._by_threads:
            k.cp_async.mbarrier_arrive(full, no_increment=True)
        walk.advance()

    @with_block
    def drain(self, in_flight: int = 0) -> Iterator[Stage[Tile]]:
        """For every thread of a consumer warpgroup: wait until the next stage is full and yield it to read.

        After the block one thread of the warpgroup releases the stage. After wgmma and its wait this is safe; a block
        that reads the stage by loads must end with a barrier of the warpgroup, `k.barrier.sync(1, 128)`, because other
        warps may still be reading. With `released_by="thread"` of `k.pipeline`, each thread releases it for itself, and
        no barrier is needed. With `in_flight` = 1 the stage before it is released, whose mma the
        wait in the block has drained; then `release` gives back the last one. Raises pipeline.in-flight where no wait
        has drained the mma of a stage that is filled again.
        """
        k = self._k
        if self._roles.consuming not in (None, self.consumers):
            _fail_consumers(self.consumers, self._roles.consuming)
        if in_flight not in range(len(_GIVEN_BACK)) or in_flight >= self.stages:
            because = "the stage that is held back would never come free, and the producer would wait forever"
            most = min(len(_GIVEN_BACK), self.stages) - 1
            problem = f" is drained with in_flight={printed(in_flight)}: at most {most} may stay in flight"
            more = ", or make the ring of 2 stages or more" if self.stages == 1 else ""
            advice = f"use in_flight={' or '.join(map(str, range(most + 1)))}{more}"
            ring_rules.RING.fail(stages=self.stages, problem=problem, advice=advice, because=because)
        walk = self._role("drain", "all threads of a consumer warpgroup", wrong=k.core.alone() is not None)
        index = walk.index.value
        if self._turns is not None and not self._turns.is_open:
            advice = "put all steps of a tile in `with ring.turn(warpgroup):`"
            fail_turn("ring.drain()", "is outside of a turn, and the consumers of this ring take turns", advice)
        self._drained_from = sum(1 for _ in k.machine.instructions())
        k.mbarrier.wait(walk.full + index, walk.phase)
        with holding(k.core, "ring.drain"):
            yield self._stage(index)
        self._check_drained(*_GIVEN_BACK[int(in_flight)], rounds=1 + int(in_flight))
        if in_flight == 0:
            self._release(walk, index, when=None)
        else:
            self._release(walk, walk.before(index), when=walk.unreleased != 0, kept=facts.STAGE_BEFORE)
            walk.unreleased.set(1)
        walk.advance()

    @with_block
    def turn(self, warpgroup: Operand) -> Iterator[None]:
        """For every thread of a consumer `warpgroup` of a ring with pingpong=True: its turn to drain stages.

        It waits until the previous consumer has had its turn, and continues in the ring where that one stopped. After
        the block it is the turn of the next consumer. So the block has the steps of one tile, any number of them. The
        code after the block (the wait for the last mma, `release` and the epilogue) overlaps the steps of the next
        consumer; `release` must come before this consumer's next turn. The consumers take turns one after another,
        beginning with 0, so they take tiles in the order in which they are loaded. If a consumer has no tile but a
        later one still has one, the former must take an empty turn: `with ring.turn(warpgroup): pass`. Raises
        pipeline.turn.
        """
        turns = self._turns
        if turns is None:
            advice = "make the ring with k.pipeline(..., pingpong=True), or leave the turn out"
            fail_turn("ring.turn()", "is of a ring each of whose stages all consumers drain", advice)
        if turns.is_open:
            fail_turn("ring.turn()", "is inside of a turn of the same ring", "end the one before the next begins")
        alone = self._k.core.alone() is not None
        walk = self._role("turn", "all threads of a consumer warpgroup", wrong=alone)
        consumer = turns.number(warpgroup)
        turns.take(consumer, walk)
        turns.is_open = True
        try:
            with holding(self._k.core, "ring.turn"):
                yield
        finally:
            turns.is_open = False
        turns.hand_on(consumer, walk)

    @with_block
    def feed(self) -> Iterator[Stage[Tile]]:
        """For one thread that issues tcgen05.mma: wait until the next stage is full and yield it to multiply.

        After the block the stage becomes empty once the mma of the block have read it: a tcgen05.commit arrives at the
        `empty` barrier, of every CTA that the copies are multicast to. The ring has consumers=1.
        """
        from nvbackend.intrinsics.copy import tcgen05_memory

        k = self._k
        if self._turns is not None:
            advice = "make the ring with consumers=1, without pingpong=True"
            fail_turn("ring.feed()", "is for one thread, and the consumers of this ring are warpgroups", advice)
        if self._by_each:
            problem = 'the ring has released_by="thread", and a commit releases a stage once'
            ARGUMENT.fail(call="ring.feed", problem=problem, advice="make the ring without released_by")
        many = self._roles.several_here() is not None
        all_consume = self._roles.consuming is not None and k.core.alone() is None
        walk = self._role("feed", "one thread that issues tcgen05.mma", wrong=many or all_consume)
        index = walk.index.value
        k.mbarrier.wait(walk.full + index, walk.phase)
        with holding(k.core, "ring.feed"):
            yield self._stage(index)
        shared = self.peers > 1
        mask = {"multicast_mask": (1 << self.peers) - 1} if shared else {}
        barrier = mbarrier_address(k.core, walk.empty + index).ir
        k.emit(tcgen05_memory.commit(multicast=shared), {"barrier": barrier, **mask})
        walk.advance()

    def release(self) -> None:
        """Give back the stage that drain(in_flight=1) still holds. Its mma must be drained (pipeline.in-flight)."""
        walk = self._role("release")
        self._check_drained("ring.release()", "the last stage", "put k.wgmma.wait_group(0) before this line")
        self._release(walk, walk.before(walk.index.value), when=walk.unreleased != 0, kept=facts.LAST_STAGE)
        walk.unreleased.set(0)

    def finish(self) -> None:
        """For the producer, at its end: wait until every stage has come back.

        After that no arrival at this CTA's barriers is outstanding, so the CTA may end.
        """
        walk = self._role("finish")
        with self._k.range(self.stages):
            self._k.mbarrier.wait(walk.empty + walk.index.value, walk.phase ^ 1)
            walk.advance()

    def _release(self, walk: Walk, index: Value, when: Value | None, kept: int | None = None) -> None:
        """One thread, or each, arrives at the `empty` barrier of each CTA of the multicast; `kept` says which stage."""
        known = {} if self._roles.consuming is None else {facts.ARRIVALS: self._arrivals}
        known |= {} if kept is None else {facts.RELEASES: kept}
        if self._by_each:
            for peer in range(self.peers):
                self._arrive(walk.empty + index, peer, when, known)
            return
        thread = self._k.thread_id("linear") % WARPGROUP_SIZE
        chosen = thread < self.peers if when is None else (thread < self.peers) & when
        self._arrive(walk.empty + index, thread, chosen, known | {facts.FOR_ALL: 1})

    def _arrive(self, empty: Address, peer: Operand, when: Value | None, known: dict[str, int]) -> None:
        """Arrive at the `empty` barrier of CTA `peer`, or without a multicast at the CTA's own."""
        k = self._k
        barrier, space = mbarrier_address(k.core, empty), "cta"
        if self.peers > 1:
            barrier, space = k.cluster.map_to_peer(barrier, peer), "cluster"
        row, operands = mbarrier.arrive(space), {"barrier": barrier.ir}
        if when is not None:
            row, operands = guarded(row), operands | {GUARD: when.ir}
        k.emit(row, operands, facts=known)

    # -- stages, and what is checked of them ------------------------------------------------------------------------

    def _stage(self, index: Value) -> Stage[Tile]:
        full = None if self._full is None else self._full + index
        return Stage({name: tile.at(index) for name, tile in self._tiles.items()}, full)

    def _role(self, call: str, who: str = "", *, wrong: bool = False) -> Walk:
        """Raises pipeline.consumers without roles, pipeline.role in the wrong one, and what `_check_ready` raises."""
        if self._walk is None:
            _fail_consumers(None, max(1, self._k.threads // WARPGROUP_SIZE - 1))
        if wrong:
            block, several = self._k.core.regions[-1].describe(), self._roles.several_here()
            ring_rules.RING_ROLE.fail(
                call=call, who=who, block=f"{block}, which {several} threads run" if several else block
            )
        self._check_ready(call)
        return self._walk

    def _check_ready(self, call: str) -> None:
        """Raises pipeline.not-ready where no barrier followed the set-up of the mbarriers."""
        if self._full is not None:
            self._roles.check_ready(f"ring.{call}", "k.pipeline", "a ring is used")

    def _check_drained(self, call: str, stage: str, advice: str, rounds: int = 1) -> None:
        """Raises pipeline.in-flight where a loop gives back a stage whose mma are certainly not waited for.

        The stage is given back at the end of the last of `rounds` rounds, of which the first multiplies it.
        """
        k = self._k.core
        if k.attached or not any(region.kind in LOOPS for region in k.regions):
            return
        places = [k.places.of_address(tile.first.bytes.ir) for tile in self._tiles.values()]
        instructions = list(k.machine.instructions())[self._drained_from :]
        tiles = {place.object for place in places if place is not None}
        reader = multiply_in_flight(instructions, instructions * (rounds - 1), tiles)
        if reader is not None:
            line = f" of line {reader.location.line}" if reader.location else ""
            ring_rules.RING_IN_FLIGHT.fail(call=call, stage=stage, reader=reader.opcode, line=line, advice=advice)


def _check_released_by(by: str, consumers: int | None) -> None:
    if by not in RELEASED_BY:
        reason = f"released_by={by!r} is not one of {', '.join(RELEASED_BY)}"
        VARIANT.fail(instruction="a ring of k.pipeline", reason=reason)
    if consumers is None and RELEASED_BY[by] > 1:
        problem = f"released_by={by!r} is given without consumers: all threads fill and read this ring"
        ARGUMENT.fail(call="k.pipeline", problem=problem, advice="leave it out, or say how many consumers there are")


def _fail_consumers(consumers: object, there: int) -> NoReturn:
    named = "no consumer warpgroup" if consumers is None else f"{consumers} consumer warpgroup(s)"
    ring_rules.RING_CONSUMERS.fail(given=named, there=f"{there} can", advice=f", {there}")


_GIVEN_BACK = (
    ("ring.drain()", "its stage", "use ring.drain(in_flight=1), or leave no group in flight"),
    ("ring.drain(in_flight=1)", "the stage before", "let the wait in the block leave at most one group in flight"),
)
"""By how many groups stay in flight: the call, what it gives back, and what to do where that is still read."""
