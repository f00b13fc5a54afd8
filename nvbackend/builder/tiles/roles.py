"""The roles of a kernel's warpgroups: one thread that produces, and the warpgroups that consume."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.blocks import LOOPS, Region, with_block
from nvbackend.builder.tiles import ring_rules
from nvbackend.builder.values.values import Operand, Value
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE, MbarrierUse, Scope, Semantics
from nvbackend.intrinsics.sync.register_budget import REGISTER_COUNTS, launch_share

REGISTER_STEP = REGISTER_COUNTS.step


class Roles:
    """The producer and consumers blocks, and what is known of them inside."""

    def __init__(self, k: FunctionBuilder) -> None:
        self._k = k
        self._consumer: Value | None = None
        self.consuming: int | None = None
        """How many consumer warpgroups the open consumers block has."""
        self._block: Region | None = None
        self._producer_registers: int | None = None
        """What the last producer block left its warpgroup."""

    @with_block
    def producer(self, registers: int) -> Iterator[None]:
        """The block of one thread of warpgroup 0: see `k.producer`."""
        if self._k.threads % WARPGROUP_SIZE or self._k.threads < 2 * WARPGROUP_SIZE:
            ring_rules.ROLES.fail(threads=self._k.threads, warpgroup=WARPGROUP_SIZE, least=2 * WARPGROUP_SIZE)
        self._producer_registers = registers
        with self._k.if_(self._k.warpgroup_id() == 0):
            self._k.setmaxnreg.dec(registers)
            with self._k.one_thread():
                yield

    @with_block
    def consumers(self, registers: int) -> Iterator[Value]:
        """The block of all other warpgroups: see `k.consumers`."""
        consumers = self._k.threads // WARPGROUP_SIZE - 1
        with self._k.else_():
            self._check_registers(registers, consumers)
            self._k.setmaxnreg.inc(registers)
            self.consuming, self._block = consumers, self._k.core.regions[-1]
            try:
                self._consumer = self._k.warpgroup_id() - 1
                yield self._consumer
            finally:
                self.consuming = self._consumer = self._block = None

    def warpgroups(self, warpgroup: Operand) -> int | None:
        """How many warpgroups run a consumers block, where `warpgroup` is the number that the block yields."""
        return self.consuming if warpgroup is self._consumer else None

    def all_consume(self) -> bool:
        """Whether every consumer comes to this line of a consumers block, as often as it makes rounds of loops."""
        regions = self._k.core.regions
        inside = regions[regions.index(self._block) + 1 :] if self._block in regions else None
        return inside is not None and all(region.kind in LOOPS for region in inside)

    def several_here(self) -> int | None:
        """How many threads of the CTA are here; None for one thread, and where that is not known."""
        here = self._k.core.execution.here()
        return here.count if here is not None and here.count != 1 else None

    def check_ready(self, call: str, made: str, use: str) -> None:
        """Raises pipeline.not-ready where no barrier followed the set-up of the mbarriers."""
        for instruction in reversed(list(self._k.machine.instructions())):
            if _synchronises(instruction.semantics):
                return
            if instruction.semantics.mbarrier is MbarrierUse.INIT:
                ring_rules.RING_NOT_READY.fail(call=call, made=made, use=use)

    def _check_registers(self, registers: int, consumers: int) -> None:
        """The pool is what the CTA has at launch: an equal share of the register file for each thread.

        What another block than `producer` leaves of it is for the verifier to see (setmaxnreg.pool).
        """
        producer = self._producer_registers
        if producer is None:
            return
        share = launch_share(self._k.threads)
        wanted = (producer + consumers * registers) * WARPGROUP_SIZE
        if wanted > share * self._k.threads:
            left = share * (consumers + 1) - producer
            ring_rules.ROLE_REGISTERS.fail(
                producer=producer,
                consumers=consumers,
                registers=registers,
                wanted=wanted,
                pool=share * self._k.threads,
                most=left // consumers // REGISTER_STEP * REGISTER_STEP,
            )


def _synchronises(said: Semantics) -> bool:
    """Whether threads wait there for each other: then mbarriers that one thread has initialised are visible to all."""
    return said.waits_at(Scope.CTA) or said.waits_at(Scope.CLUSTER)
