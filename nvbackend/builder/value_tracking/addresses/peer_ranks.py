"""The ranks in addresses of other CTAs' shared memory: whether there are such CTAs, and whose mbarriers are reached."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.lower.lowering import Operands
from nvbackend.builder.value_tracking.addresses.peers import Peers
from nvbackend.builder.value_tracking.cluster_execution import ClusterExecution, Numbers
from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.row.semantics import BARRIER
from nvbackend.isel.machine.function import Reach
from nvbackend.isel.protocols.cluster.rules import RANK

BARRIER_CTA = Rule(
    id="tma.barrier-cta",
    message="{instruction}, issued by the CTA of rank {rank}, writes to the CTA of rank {destination} and completes on "
    "a barrier of the CTA of rank {barrier}",
    fix="{advice}",
    why="The bytes are counted in the CTA that they are written to: another CTA's barrier does not get them.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor, .cta_group)",
)
_DESTINATION = "destination"
_GROUP = "cta_group"
_IN_PAIR = "give the barrier of the CTA that the bytes go to, or of the other CTA of its pair"
_IN_CTA = "give the barrier of the CTA that the bytes go to"
_WITH_GROUP = f"{_IN_CTA}; or, on targets with tcgen05, cta_group=2, with which it may be the other CTA's of a pair"


class PeerRanks:
    """Checks and facts of instructions that may reach another CTA, in clusters of several."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def reach(self, execution: ClusterExecution, row: Row, operands: Operands) -> Reach | None:
        """Whose mbarriers `row` reaches; None where it has none. Raises cluster.rank and tma.barrier-cta."""
        for operand in row.operands:
            if operand.register is RegisterClass.SHARED_CLUSTER or (operand.name == BARRIER and row.semantics.peers):
                address = operands.get(operand.name)
                if isinstance(address, ir.Value):
                    self.check(execution, address, operands)
        barrier = operands.get(BARRIER)
        if not isinstance(barrier, ir.Value):
            return None
        destination = operands.get(_DESTINATION)
        if isinstance(destination, ir.Value) and row.operand(_DESTINATION).register is RegisterClass.SHARED_CLUSTER:
            self._check_same_cta(execution, row, operands, destination, barrier)
        return execution.reach(row, operands, self._owner(execution, barrier))

    def check(self, execution: ClusterExecution, address: ir.Value, operands: Operands) -> None:
        """Raises cluster.rank where a thread that comes here certainly takes the address of a CTA that is not there."""
        rank = self._peers.rank_of(address)
        numbers = None if rank is None else execution.numbers(rank)
        if numbers is None:
            return
        size = execution.cluster
        place = execution.first(operands, lambda *place: not 0 <= numbers.at(*place) < size)
        if place is not None:
            given = f"{numbers.at(*place)}, in thread {place[1]} of the CTA of rank {place[0]},"
            RANK.fail(rank=given, cluster=size, legal=f"0 to {size - 1}")

    def _check_same_cta(
        self, execution: ClusterExecution, row: Row, operands: Operands, destination: ir.Value, barrier: ir.Value
    ) -> None:
        """Raises tma.barrier-cta where destination and barrier certainly are in CTAs that the copy cannot combine."""
        if not self._peers.has(destination) and not self._peers.has(barrier):
            return
        target, owner = self._owner(execution, destination), self._owner(execution, barrier)
        if target is None or owner is None:
            return
        paired = row.axes.get(_GROUP) == 2
        place = execution.first(operands, lambda *place: target.at(*place) >> paired != owner.at(*place) >> paired)
        if place is not None:
            to, counted = target.at(*place), owner.at(*place)
            advice = _IN_PAIR if paired else _WITH_GROUP if _GROUP in row.axes and to >> 1 == counted >> 1 else _IN_CTA
            BARRIER_CTA.fail(instruction=row.ptx, rank=place[0], destination=to, barrier=counted, advice=advice)

    def _owner(self, execution: ClusterExecution, address: ir.Value) -> Numbers | None:
        """The rank of the CTA that the shared address is of; None where it is not known."""
        if not self._peers.has(address):
            return execution.own
        rank = self._peers.rank_of(address)
        return None if rank is None else execution.numbers(rank)
