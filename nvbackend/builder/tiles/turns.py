"""The turns of ping-pong consumers: one warpgroup at a time drains a ring, and hands its place on to the next."""

from __future__ import annotations

from typing import NoReturn

from nvbackend.builder.core.instructions import converted
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles import ring_rules
from nvbackend.builder.tiles.roles import Roles
from nvbackend.builder.tiles.stages import Walk
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE
from nvbackend.intrinsics.row.types import s32
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.isel.machine import facts

_ADVICE = "pass what `with k.consumers(...) as warpgroup` yields"


class Turns:
    """Whose turn it is: for each consumer an mbarrier, and the place in the ring where its turn begins.

    All threads of the consumer before arrive there, and turns go round, so every thread has read its place before that
    is written again. Consumer 0 begins without a wait, at the first stage. One that is alone needs none of this.
    """

    def __init__(self, k: FunctionBuilder, roles: Roles, consumers: int) -> None:
        self._k = k
        self._roles = roles
        self._consumers = consumers
        self.is_open = False
        if consumers > 1:
            self._barriers = k.mbarrier.array(consumers, WARPGROUP_SIZE, name="turn")
            self._places = k.shared(s32, consumers, name="place")
            self._taken = k.var(0, s32, name="taken")  # turns of this consumer

    def number(self, warpgroup: Operand) -> Value:
        """The number of a consumer. Raises pipeline.turn for one past the last, and for one that two certainly have."""
        number = as_value(self._k.core, warpgroup, s32)
        if isinstance(number.constant, int):
            self._check_inside(number.constant, f"ring.turn({number.constant})")
        owners: dict[int, int] = {}
        for thread, own in self._known(number).items():
            group = thread // WARPGROUP_SIZE
            self._check_inside(own, f"ring.turn({own}) of warpgroup {group}")
            if (first := owners.setdefault(own, group)) != group:
                problem = f"is the turn of two consumers, warpgroups {first} and {group}, at this line"
                fail_turn(f"ring.turn({own})", problem, _ADVICE)
        return number

    def _known(self, number: Value) -> dict[int, int]:
        """The number of each thread, where it is known and all consumers come here."""
        core = self._k.core
        among, numbers = core.regions[-1].among, core.execution.numbers(number.ir)
        if among is None or numbers is None or not self._roles.all_consume():
            return {}
        return {thread: own for thread, own in enumerate(numbers) if among >> thread & 1}

    def _check_inside(self, number: int, call: str) -> None:
        if not 0 <= number < self._consumers:
            fail_turn(call, f"is of no consumer: they are numbered 0 to {self._consumers - 1}", _ADVICE)

    def take(self, consumer: Value, walk: Walk) -> None:
        """Wait for the turn of this consumer, and go to where the one before has stopped."""
        walk.unreleased.set(0)  # the stage before is another consumer's
        if self._consumers == 1:
            return
        k, row = self._k, mbarrier.wait_parity()
        parity = (self._taken & 1) ^ k.select(consumer == 0, 1, 0)
        wait = converted(k.core, row, {"parity": parity, "barrier": self._barriers + consumer})
        k.emit(row, wait, facts={facts.TURN: 1})
        with k.if_((self._taken + consumer) != 0):
            place = self._places[consumer]
            walk.index.set(place >> 1)
            walk.phase.set(place & 1)
        self._taken += 1

    def hand_on(self, consumer: Value, walk: Walk) -> None:
        """Leave the place in the ring to the next consumer, whose turn it is now."""
        if self._consumers == 1:
            return
        k = self._k
        following = k.select(consumer == self._consumers - 1, 0, consumer + 1)
        with k.if_(k.thread_id("linear") % WARPGROUP_SIZE == 0):
            self._places[following] = walk.index << 1 | walk.phase
        k.mbarrier.arrive(self._barriers + following)


def fail_turn(call: str, problem: str, advice: str) -> NoReturn:
    """Raises pipeline.turn."""
    ring_rules.RING_TURN.fail(call=call, problem=problem, advice=advice)
