"""The ring: stages of shared memory between a producer that fills them by TMA and consumers that multiply them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nvbackend.builder.core.control import holding
from nvbackend.builder.core.instructions import mbarrier_address
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.blocks import with_block
from nvbackend.builder.tiles import pipeline_rules
from nvbackend.builder.tiles.roles import Roles
from nvbackend.builder.tiles.stage_uses import multiply_in_flight
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy import tcgen05_memory
from nvbackend.intrinsics.row.guard import GUARD, guarded
from nvbackend.intrinsics.row.hierarchy import WARPGROUP_SIZE, Scope
from nvbackend.intrinsics.row.semantics import MbarrierUse, Semantics
from nvbackend.intrinsics.row.types import s32, u32
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.isel.machine import facts
from nvbackend.layout.descriptors.smem_layout import SmemLayout


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a ring: its tiles by name, and the mbarrier that its loads complete on."""

    tiles: dict[str, SharedTile]
    full: Address

    def __getattr__(self, name: str) -> SharedTile:
        if name not in self.tiles:
            raise AttributeError(f"a stage of this ring has the tiles {', '.join(self.tiles)}, and no {name}")
        return self.tiles[name]


@user_facing
class Ring:
    """`stages` buffers, each with a `full` mbarrier (its bytes have arrived) and an `empty` one (all have read it).

    The ring keeps the phases: every role walks the stages in order, and the parity that it waits for flips when the
    stage index wraps. `full` completes with one arrival and the expected bytes; `empty` with one arrival of each
    consumer warpgroup of each CTA that the loads are multicast to.
    """

    def __init__(
        self,
        k: FunctionBuilder,
        roles: Roles,
        stages: int,
        consumers: int,
        layouts: dict[str, SmemLayout],
        *,
        multicast: bool,
    ) -> None:
        if stages < 1:
            pipeline_rules.RING.fail(stages=stages, needed=1, because="There is no buffer to fill.")
        if not layouts or not layouts.keys().isdisjoint(Stage.__slots__):
            pipeline_rules.RING_TILES.fail(given=", ".join(layouts) or "none", taken=", ".join(Stage.__slots__))
        warpgroups = k.threads // WARPGROUP_SIZE
        if not 1 <= consumers <= warpgroups:
            pipeline_rules.RING_CONSUMERS.fail(given=consumers, there=warpgroups)
        self._k = k
        self._roles = roles
        self.stages = stages
        self.consumers = consumers
        self.peers = k.cluster_size if multicast else 1
        self.bytes = sum(layout.bytes for layout in layouts.values())
        self._tiles = {name: k.shared_tiles(layout, stages, name=name) for name, layout in layouts.items()}
        self._full = k.mbarrier.array(stages, arrivals=1, name="full")
        self._empty = k.mbarrier.array(stages, arrivals=consumers * self.peers, name="empty")
        self._index = k.var(0, s32, name="stage")
        self._phase = k.var(0, s32, name="phase")
        self._unreleased = k.var(0, s32, name="unreleased")
        self._drained_from = 0
        """How many instructions there were where the last drain began."""

    def __repr__(self) -> str:
        return f"<ring of {self.stages} stages of {', '.join(self._tiles)}, {self.bytes} bytes each>"

    @with_block
    def fill(self) -> Iterator[Stage]:
        """For one producer thread: wait until the next stage is empty, announce its bytes, yield it to load into."""
        k = self._k
        self._check_role("fill", "one producer thread", wrong=self._roles.consuming is not None)
        index = self._index.value
        k.mbarrier.wait(self._empty + index, self._phase ^ 1)
        full = self._full + index
        k.mbarrier.arrive(full, expect_tx=self.bytes)
        with holding(k.core, "fill"):
            yield self._stage(index)
        self._advance()

    @with_block
    def drain(self, in_flight: int = 0) -> Iterator[Stage]:
        """For every thread of a consumer warpgroup: wait until the next stage is full and yield it to read.

        After the block the stage is released. With `in_flight` = 1 the stage before it is, whose mma the wait in the
        block has drained; then `release` gives back the last one. Raises pipeline.in-flight where no wait has drained
        the mma of a stage that is filled again.
        """
        k = self._k
        if self._roles.consuming not in (None, self.consumers):
            pipeline_rules.RING_CONSUMERS.fail(given=self.consumers, there=self._roles.consuming)
        if in_flight not in range(len(_GIVEN_BACK)) or in_flight >= self.stages:
            because = "The stage that is held back would never come free, and the producer would wait forever."
            pipeline_rules.RING.fail(
                stages=f"{self.stages} (drained with {in_flight} in flight)", needed=2, because=because
            )
        self._check_role("drain", "all threads of a consumer warpgroup", wrong=k.core.alone() is not None)
        index = self._index.value
        self._drained_from = sum(1 for _ in k.machine.instructions())
        k.mbarrier.wait(self._full + index, self._phase)
        with holding(k.core, "drain"):
            yield self._stage(index)
        self._check_drained(*_GIVEN_BACK[int(in_flight)], rounds=1 + int(in_flight))
        if in_flight == 0:
            self._release(index, when=None)
        else:
            self._release(self._before(index), when=self._unreleased != 0)
            self._unreleased.set(1)
        self._advance()

    @with_block
    def feed(self) -> Iterator[Stage]:
        """For one thread that issues tcgen05.mma: wait until the next stage is full and yield it to multiply.

        After the block the stage becomes empty once the mma of the block have read it: a tcgen05.commit arrives at the
        `empty` barrier, of every CTA that the loads are multicast to. The ring has consumers=1.
        """
        k = self._k
        self._check_role("feed", "one thread that issues tcgen05.mma", wrong=self._roles.consuming is not None)
        index = self._index.value
        k.mbarrier.wait(self._full + index, self._phase)
        with holding(k.core, "feed"):
            yield self._stage(index)
        shared = self.peers > 1
        mask = {"multicast_mask": (1 << self.peers) - 1} if shared else {}
        barrier = mbarrier_address(k.core, self._empty + index).ir
        k.emit(tcgen05_memory.commit(multicast=shared), {"barrier": barrier, **mask})
        self._advance()

    def _check_role(self, call: str, who: str, *, wrong: bool) -> None:
        """Raises pipeline.role in the wrong role, pipeline.not-ready where no barrier followed the set-up."""
        if wrong:
            pipeline_rules.RING_ROLE.fail(call=call, who=who, block=self._k.core.regions[-1].describe())
        for instruction in reversed(list(self._k.machine.instructions())):
            if _synchronises(instruction.semantics):
                return
            if instruction.semantics.mbarrier is MbarrierUse.INIT:
                pipeline_rules.RING_NOT_READY.fail(call=call)

    def _check_drained(self, call: str, stage: str, advice: str, rounds: int = 1) -> None:
        """Raises pipeline.in-flight where a loop gives back a stage whose mma are certainly not waited for.

        The stage is given back at the end of the last of `rounds` rounds, of which the first multiplies it.
        """
        k = self._k.core
        if k.attached or not any(region.kind in _LOOPS for region in k.regions):
            return
        places = [k.places.of_address(tiles.first.bytes.ir) for tiles in self._tiles.values()]
        instructions = list(k.machine.instructions())[self._drained_from :]
        tiles = {place.object for place in places if place is not None}
        reader = multiply_in_flight(instructions, instructions * (rounds - 1), tiles)
        if reader is not None:
            line = f" of line {reader.location.line}" if reader.location else ""
            pipeline_rules.RING_IN_FLIGHT.fail(call=call, stage=stage, reader=reader.opcode, line=line, advice=advice)

    def release(self) -> None:
        """Give back the stage that drain(in_flight=1) still holds. Its mma must be drained (pipeline.in-flight)."""
        self._check_drained("ring.release()", "the last stage", "put k.wgmma.wait_group(0) before this line")
        self._release(self._before(self._index.value), when=self._unreleased != 0)
        self._unreleased.set(0)

    def finish(self) -> None:
        """For the producer thread, at its end: wait until every stage has come back.

        After that no arrival at this CTA's barriers is outstanding, so the CTA may end.
        """
        with self._k.range(self.stages):
            self._k.mbarrier.wait(self._empty + self._index.value, self._phase ^ 1)
            self._advance()

    def _release(self, index: Value, when: Value | None) -> None:
        """One thread for each CTA of the multicast arrives at that CTA's `empty` barrier."""
        k = self._k
        thread = k.thread_id() % WARPGROUP_SIZE
        chosen = thread < self.peers if when is None else (thread < self.peers) & when
        known = {} if self._roles.consuming is None else {facts.ARRIVALS: self._roles.consuming * self.peers}
        barrier = mbarrier_address(k.core, self._empty + index)
        if k.cluster_size > 1:
            barrier = k.cluster.map_to_peer(barrier, thread)
        row = guarded(mbarrier.arrive("cluster" if k.cluster_size > 1 else "cta"))
        k.emit(row, {"barrier": barrier.ir, GUARD: chosen.ir}, facts=known)

    def _before(self, index: Value) -> Value:
        return self._k.select(index == 0, self.stages - 1, index - 1)

    def _stage(self, index: Value) -> Stage:
        return Stage({name: tiles.at(index) for name, tiles in self._tiles.items()}, self._full + index)

    def _advance(self) -> None:
        following = self._index + 1
        wrapped = following == self.stages
        self._phase.set(self._k.select(wrapped, self._phase ^ 1, self._phase.value))
        self._index.set(self._k.select(wrapped, 0, following))


_GIVEN_BACK = (
    ("ring.drain()", "its stage", "use ring.drain(in_flight=1), or leave no group in flight"),
    ("ring.drain(in_flight=1)", "the stage before", "let the wait in the block leave at most one group in flight"),
)
"""By how many groups stay in flight: the call, what it gives back, and what to do where that is still read."""
_LOOPS = ("range", "loop")
"""The kinds of blocks that run more than once."""


def _synchronises(said: Semantics) -> bool:
    """Whether threads wait there for each other: then mbarriers that one thread has initialised are visible to all."""
    return said.waits_at(Scope.CTA) or said.waits_at(Scope.CLUSTER)


def grouped_tile(k: FunctionBuilder, tile: Operand, rows: Operand, columns: Operand, group: int) -> tuple[Value, Value]:
    """Row and column of tile number `tile` of a grid, walked `group` rows at a time. Raises pipeline.group."""
    if type(group) is not int or group < 1:
        pipeline_rules.GROUP.fail(given=repr(group))
    index, height, width = (as_value(k.core, one, s32).to(u32) for one in (tile, rows, columns))
    in_group = width * group
    first = _quotient(k, index, in_group) * group
    height = k.math.min(height - first, group)
    inside = _rest(k, index, in_group)
    return (first + _rest(k, inside, height)).to(s32), _quotient(k, inside, height).to(s32)


# A grid with a tile has rows and columns: these need no result for a divisor of 0, which would cost instructions.


def _quotient(k: FunctionBuilder, a: Value, b: Value) -> Value:
    return k.core.wrap(k.core.llvm.udiv(a.ir, b.ir), u32)


def _rest(k: FunctionBuilder, a: Value, b: Value) -> Value:
    return k.core.wrap(k.core.llvm.urem(a.ir, b.ir), u32)
