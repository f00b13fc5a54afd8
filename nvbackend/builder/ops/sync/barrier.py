"""The CTA's barriers: barrier.sync, barrier.arrive, barrier.red."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import converted
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.threads import Threads
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import s32
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.isel.operands.sync import check_barrier_crowd
from nvbackend.isel.target.target import variant


@user_facing
class Barrier(Noun):
    """The CTA's barriers: barrier.sync, barrier.arrive, barrier.red (PTX ISA 9.7.13.1)."""

    __noun__ = "barrier"
    __usual__ = "sync"

    def __init__(self, k: Core, threads: Threads) -> None:
        super().__init__(k)
        self._threads = threads

    def reduce(
        self,
        operation: str,
        predicate: Operand,
        identifier: int = 0,
        *,
        threads: int | None = None,
        aligned: bool = True,
    ) -> Value:
        """bar.red: wait as `sync` does, and combine the predicates of all threads that wait.

        Returns how many threads have `predicate` set (popc, a u32), or whether all (and) or any (or) have. Raises
        barrier.id, barrier.threads, barrier.waits, barrier.crowd, instruction.variant. PTX ISA 9.7.13.1.
        """
        row = variant("bar.red", sync.barrier_reduce, operation, counted=threads is not None, aligned=aligned)
        got = self._meet(row, identifier, threads, predicate=predicate)["result"]
        return self._k.wrap(got[0], row.operand("result").type)

    def sync(self, identifier: Operand = 0, threads: Operand | None = None, *, aligned: bool = True) -> None:
        """Wait at barrier `identifier` (0 to 15) for the whole CTA, or for `threads` of it (a multiple of 32).

        Without `aligned` (barrier.sync instead of bar.sync) the threads of a warp need not execute it together. Raises
        barrier.id, barrier.threads, barrier.waits, barrier.crowd. PTX ISA 9.7.13.1.
        """
        row = sync.barrier_sync(counted=threads is not None, aligned=aligned)
        self._meet(row, identifier, threads)

    def arrive(self, identifier: Operand, threads: Operand, *, aligned: bool = True) -> None:
        """bar.arrive: arrive at barrier `identifier` (0 to 15), which completes with `threads` threads, and go on.

        Raises barrier.id, barrier.threads, barrier.waits, barrier.crowd. PTX ISA 9.7.13.1.
        """
        self._meet(sync.barrier_arrive(aligned=aligned), identifier, threads)

    def _meet(
        self, row: Row, identifier: Operand, threads: Operand | None, **predicate: Operand
    ) -> dict[str, list[ir.Value]]:
        registers = converted(self._k, row, {"id": identifier, "threads": threads, **predicate})
        count = None if threads is None else as_value(self._k, threads, s32).constant
        if isinstance(count, int) and not self._k.execution.is_unreached():
            if count > self._k.threads:
                rules.BARRIER_WAITS.fail(threads=count, there=self._k.threads)
            check_barrier_crowd(count, self._threads.coming_to(as_value(self._k, identifier, s32)))
        return self._k.emit(row, registers)
