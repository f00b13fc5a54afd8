"""The CTA's barriers: barrier.sync, barrier.arrive, barrier.red."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.threads import Threads
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.types import pred, s32, u32
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.isel.select import family_rules
from nvbackend.isel.target.variants import variant


@user_facing
class Barrier(Noun):
    """The CTA's barriers: barrier.sync, barrier.arrive, barrier.red (PTX ISA 9.7.13.1)."""

    __noun__ = "barrier"

    def __init__(self, k: Core, threads: Threads) -> None:
        self._k = k
        self._threads = threads

    # -- barriers and fences (PTX ISA 9.7.13) -----------------------------------------------------------------------

    def reduce(
        self,
        operation: str,
        predicate: Operand,
        identifier: int = 0,
        *,
        threads: int | None = None,
        aligned: bool = True,
    ) -> Value:
        """bar.red: wait for the CTA, or for `threads` of it, as `sync` does, and combine their predicates.

        The number of threads where `predicate` holds (popc, a u32), or whether it holds in all (and) or any (or).
        Raises barrier.id, barrier.threads, barrier.waits, barrier.crowd, instruction.variant. PTX ISA 9.7.13.1.
        """
        row = variant("bar.red", sync.barrier_reduce, operation, counted=threads is not None, aligned=aligned)
        given = {**self._barrier_operands(identifier, threads), "predicate": as_value(self._k, predicate, pred).ir}
        return self._k.wrap(self._k.emit(row, given)["result"][0], u32 if operation == "popc" else pred)

    def sync(self, identifier: Operand = 0, threads: Operand | None = None, *, aligned: bool = True) -> None:
        """Wait at barrier `identifier` (0 to 15) for the whole CTA, or for `threads` of it (a multiple of 32).

        Without `aligned` (barrier.sync instead of bar.sync) the threads of a warp need not execute it together. Raises
        barrier.id, barrier.threads, barrier.waits, barrier.crowd. PTX ISA 9.7.13.1.
        """
        row = sync.barrier_sync(counted=threads is not None, aligned=aligned)
        self._k.emit(row, self._barrier_operands(identifier, threads))

    def arrive(self, identifier: Operand, threads: Operand, *, aligned: bool = True) -> None:
        """bar.arrive: arrive at barrier `identifier` (0 to 15) that `threads` threads in all are for, and go on.

        Raises barrier.id, barrier.threads, barrier.waits, barrier.crowd. PTX ISA 9.7.13.1.
        """
        self._k.emit(sync.barrier_arrive(aligned=aligned), self._barrier_operands(identifier, threads))

    def _barrier_operands(self, identifier: Operand, threads: Operand | None) -> dict[str, ir.Value]:
        number = as_value(self._k, identifier, s32)
        if isinstance(number.constant, int):
            family_rules.check_barrier_id(number.constant)
        if threads is None:
            return {"id": number.ir}
        count = as_value(self._k, threads, s32)
        if isinstance(count.constant, int):
            family_rules.check_barrier_threads(count.constant)
            if count.constant > self._k.threads:
                rules.BARRIER_WAITS.fail(threads=count.constant, there=self._k.threads)
            family_rules.check_barrier_crowd(count.constant, self._threads.coming_to(number))
        return {"id": number.ir, "threads": count.ir}
