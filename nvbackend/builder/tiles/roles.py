"""The roles of a kernel's warpgroups: one thread that produces, and the warpgroups that consume."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.blocks import with_block
from nvbackend.builder.tiles import pipeline_rules
from nvbackend.builder.values.values import Operand, Value
from nvbackend.intrinsics.row.hierarchy import WARPGROUP_SIZE
from nvbackend.intrinsics.sync.register_budget import REGISTER_COUNTS, launch_share

REGISTER_STEP = REGISTER_COUNTS.step


class Roles(FunctionBuilder):
    """The producer and consumers blocks, and what is known of them inside."""

    _consumer: Value | None = None
    _consuming: int | None = None
    """Consumer warpgroups of the consumers block that is open."""
    _producer_registers = 0

    @with_block
    def producer(self, registers: int) -> Iterator[None]:
        """Run the block in one thread of warpgroup 0, whose threads keep `registers` registers each.

        Raises pipeline.roles where the kernel has no second whole warpgroup to consume.
        """
        if self.threads % WARPGROUP_SIZE or self.threads < 2 * WARPGROUP_SIZE:
            pipeline_rules.ROLES.fail(threads=self.threads, warpgroup=WARPGROUP_SIZE, least=2 * WARPGROUP_SIZE)
        self._producer_registers = registers
        with self.if_(self.warpgroup_id() == 0):
            self.setmaxnreg.dec(registers)
            with self.one_thread():
                yield

    @with_block
    def consumers(self, registers: int) -> Iterator[Value]:
        """Run the block in all other warpgroups, with `registers` registers a thread; yields their number from 0.

        It follows the producer block directly, so that the two roles are the sides of one branch. Raises
        pipeline.registers where the roles together want more registers than the CTA is launched with.
        """
        consumers = self.threads // WARPGROUP_SIZE - 1
        with self.else_():
            self._check_registers(registers, consumers)
            self.setmaxnreg.inc(registers)
            self._consuming = consumers
            try:
                self._consumer = self.warpgroup_id() - 1
                yield self._consumer
            finally:
                self._consuming = self._consumer = None

    def consumer_warpgroups(self, warpgroup: Operand) -> int | None:
        """How many warpgroups run a consumers block, where `warpgroup` is the number that the block yields."""
        return self._consuming if warpgroup is self._consumer else None

    def _check_registers(self, registers: int, consumers: int) -> None:
        """The pool is what the CTA gets at its launch, an even share of the register file for each thread."""
        share = launch_share(self.threads)
        wanted = (self._producer_registers + consumers * registers) * WARPGROUP_SIZE
        if wanted > share * self.threads:
            left = share * (consumers + 1) - self._producer_registers
            pipeline_rules.ROLE_REGISTERS.fail(
                producer=self._producer_registers,
                consumers=consumers,
                registers=registers,
                wanted=wanted,
                pool=share * self.threads,
                most=left // consumers // REGISTER_STEP * REGISTER_STEP,
            )
