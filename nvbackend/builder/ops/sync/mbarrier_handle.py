"""An mbarrier as an object: its address, its kind, its phase, and what completes a phase."""

from __future__ import annotations

import enum
from typing import Protocol

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.variables import Variable, make_variable
from nvbackend.builder.values.attributes import KnownAttributes
from nvbackend.builder.values.values import Operand
from nvbackend.diagnostics import Rule, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.operands.sync import check_transaction_count

KIND = Rule(
    id="mbarrier.kind",
    message="mbarrier {tag} is of kind {kind}: {problem}",
    fix="{instead}",
    why="A phase that expects other bytes than come completes too early, or never: then every waiter hangs.",
    reference="PTX ISA 9.7.13.15.5 (tx-count of an mbarrier)",
)


class MbarrierKind(enum.Enum):
    """What completes a phase: arrivals alone, or the bytes of TMA copies as well."""

    ORDINARY = "ordinary"
    TMA = "tma"


class MbarrierCalls(Protocol):
    """What a handle needs of `k.mbarrier`."""

    def array(self, count: int, arrivals: int, *, name: str | None = None) -> Address:
        """Mbarriers that thread 0 initialises."""
        ...

    def arrive(self, barrier: Address, *, expect_tx: Operand | None = None) -> None:
        """Announce bytes, then count one arrival."""
        ...

    def wait(self, barrier: Address, parity: Operand) -> None:
        """Wait for the phase of this parity."""
        ...


@user_facing
@dataclass(frozen=True, slots=True)
class MbarrierHandle(KnownAttributes):
    """One mbarrier. Made by `k.mbarrier.handle`.

    `smem_base` is its shared address, for every call that takes an mbarrier. `phase` is a variable: the parity of the
    phase that this thread waits for next. `arrive_count` arrivals complete a phase, and of kind TMA the `expected_txn`
    bytes that `arrive_expect` announces; `tag` is its name.
    """

    calls: MbarrierCalls
    smem_base: Address
    kind: MbarrierKind
    phase: Variable
    expected_txn: int | None
    arrive_count: int
    tag: str

    def arrive(self) -> None:
        """Count one arrival, without bytes."""
        self.calls.arrive(self.smem_base)

    def arrive_expect(self) -> None:
        """Count one arrival and announce the bytes of the phase's copies. Raises mbarrier.kind for an ordinary one."""
        if self.expected_txn is None:
            self._refuse("no bytes are expected at it", "make it with kind=MbarrierKind.TMA, or call arrive()")
        self.calls.arrive(self.smem_base, expect_tx=self.expected_txn or 0)

    def wait(self) -> None:
        """Wait until the phase has completed, then flip `phase` to the parity of the next one."""
        self.calls.wait(self.smem_base, self.phase)
        self.phase.set(self.phase ^ 1)

    def _refuse(self, problem: str, instead: str) -> None:
        KIND.fail(tag=self.tag, kind=self.kind.value, problem=problem, instead=instead)

    def __repr__(self) -> str:
        return f"<mbarrier {self.tag}: {self.kind.value}, {self.arrive_count} arrivals>"


def made_handle(
    k: Core, calls: MbarrierCalls, arrive_count: int, kind: MbarrierKind, expected_txn: int | None, tag: str
) -> MbarrierHandle:
    """A handle of a new mbarrier, initialised by thread 0. Raises mbarrier.kind."""
    if not isinstance(kind, MbarrierKind):
        raise TypeError("the boundary says which")  # anything else passes as either kind
    if kind is MbarrierKind.TMA and expected_txn is None:
        KIND.fail(
            tag=tag,
            kind=kind.value,
            problem="it does not say how many bytes complete a phase",
            instead="give expected_txn=, the bytes of all copies of one phase",
        )
    if kind is MbarrierKind.ORDINARY and expected_txn is not None:
        KIND.fail(
            tag=tag,
            kind=kind.value,
            problem=f"no copy brings the {expected_txn} bytes",
            instead="make it with kind=MbarrierKind.TMA, or leave expected_txn out",
        )
    if expected_txn is not None:
        check_transaction_count(expected_txn)
    barrier = calls.array(1, arrive_count, name=tag)
    return MbarrierHandle(
        calls, barrier, kind, make_variable(k, 0, name=f"{tag}.phase"), expected_txn, arrive_count, tag
    )
