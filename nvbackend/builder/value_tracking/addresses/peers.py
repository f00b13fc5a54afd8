"""Addresses in the shared memory of a cluster's other CTAs: their ranks, and the instructions that accept them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

from llvmlite import ir

from nvbackend.builder.lower.lowering import Operands, values_of
from nvbackend.builder.value_tracking.addresses.origins import is_unknown, origins, reaching, shifted_left
from nvbackend.builder.value_tracking.cluster_execution import ClusterExecution, Numbers
from nvbackend.diagnostics import Diagnostic, Location, Rule, caller_location
from nvbackend.intrinsics.row.row import RegisterClass, Role, Row
from nvbackend.intrinsics.row.semantics import BARRIER, Semantics
from nvbackend.isel.machine.facts import PEERS
from nvbackend.isel.machine.function import Reach
from nvbackend.isel.machine.pseudo import ADDRESS
from nvbackend.isel.protocols.cluster.rules import RANK

PEER_ADDRESS = Rule(
    id="cluster.peer-address",
    message="{instruction}, operand {operand}: the address is in the shared memory of another CTA",
    fix="{fix}",
    why="The instruction takes addresses of the CTA's own window: it faults, or accesses other memory.",
    reference="PTX ISA 5.1.7 (shared::cta and shared::cluster), 9.7.9 (mapa)",
)
WINDOW = Rule(
    id="cluster.window",
    message="k.shared_address(...) of a number that {origin}: nothing shows whether it is this CTA's or a peer's",
    fix='say which: window="cluster" reaches every CTA of the cluster, window="cta" this one alone',
    why="ld.shared of a peer's address accesses other memory or faults; the two are different instructions.",
    reference="PTX ISA 5.1.7 (shared::cta and shared::cluster), 9.7.9 (mapa)",
)
_OF_MEMORY = (
    "give an address of this CTA's own; what a peer has is loaded and stored: "
    "k.cluster.map_shared_rank(address, rank)[i]"
)
_OF_BARRIERS = (
    "give this CTA's own barrier: a peer's is the one that rank= names, k.mbarrier.arrive(barrier, rank=rank), and a "
    "CTA waits at its own only"
)
SHARED_ADDRESS = "k.shared_address"
_MOVES = ("add", "sub", "trunc", "zext", "sext", "inttoptr", "ptrtoint", "bitcast", "addrspacecast")


@dataclass(frozen=True, slots=True)
class _Taken:
    """A number that was used as an address of the CTA's own memory, with the operand and the place."""

    number: ir.Value
    instruction: str
    operand: str
    location: Location | None
    asks: bool
    """Whether the number must show whose memory it is in."""


class Peers:
    """The values of one function that are addresses in other CTAs' shared memory."""

    def __init__(self) -> None:
        self._mapped: dict[ir.Value, int | None] = {}
        """Each with the CTAs that it is in, as `facts.PEERS`."""
        self._ranks: dict[ir.Value, ir.Value] = {}
        """The rank to which each was mapped."""
        self._own: set[ir.Value] = set()
        """Those mapped to the CTA's own rank: they are in its own memory."""
        self._slots: set[ir.Value] = set()
        """The variables that may hold such an address."""
        self._read_by: dict[ir.Value, set[ir.Value]] = {}
        """For each variable, the variables that were set to something computed from it."""
        self._taken: list[_Taken] = []

    def map(self, value: ir.Value, peers: int | None, rank: ir.Value, *, is_own: bool) -> None:
        """Remember that `value` is such an address, in the CTAs of `peers` (`facts.PEERS`), where that is known."""
        self._mapped[value] = peers
        self._ranks[value] = rank
        if is_own:
            self._own.add(value)

    def is_own(self, value: ir.Value) -> bool:
        """Whether a mapped address, moved or not, is certainly in the CTA's own memory."""
        return self._mapped_from(value) in self._own

    def said(self, row: Row, operands: Operands) -> Semantics:
        """What `row` does with these operands: an access by the cluster's window may be one of the own memory."""
        place = operands.get(ADDRESS) if row.semantics.in_peer else None
        is_own = isinstance(place, ir.Value) and self.is_own(place)
        return replace(row.semantics, in_peer=False) if is_own else row.semantics

    def rank_of(self, value: ir.Value) -> ir.Value | None:
        """The rank of the CTA that a mapped address, moved or not, is in; None for any other address."""
        source = self._mapped_from(value)
        return None if source is None else self._ranks.get(source)

    def _mapped_from(self, value: ir.Value) -> ir.Value | None:
        """The single mapped address from which `value` was moved, or None."""
        sources, waiting, seen = [], [value] if self._ranks else [], {value}
        while waiting:
            source = waiting.pop()
            if source in self._mapped:
                sources.append(source)
            elif isinstance(source, ir.Instruction) and source.opname in _MOVES:
                fresh = [each for each in source.operands if each not in seen]
                seen.update(fresh)
                waiting += fresh
        return sources[0] if len(sources) == 1 else None

    def facts(self, address: ir.Value) -> dict[str, int]:
        """The CTA of an `address`, if it is known."""
        windows = {
            self._mapped[origin] for origin, shift in self._walk(address) if origin in self._mapped and not shift
        }
        known = windows.pop() if len(windows) == 1 else None
        return {} if known is None else {PEERS: known}

    def map_unknown(self, number: ir.Value) -> None:
        """As `map`, unless `number` shows that it is this CTA's."""
        if not self.has(number) and is_unknown(number, self._mapped):
            self._mapped[number] = None

    def check_number(self, number: ir.Value) -> None:
        """Raises cluster.window where nothing shows whose shared memory `number` is in, of a cluster's CTAs.

        What a variable is set to later in a loop is asked by `faults`.
        """
        origin = is_unknown(number, self._mapped)
        if origin:
            WINDOW.fail(origin=origin)
        self._taken.append(_Taken(number, SHARED_ADDRESS, "address", caller_location(), True))

    def set(self, slots: Iterable[ir.Value], values: Iterable[ir.Value]) -> None:
        """A variable in `slots` is set: what is computed from it, too, may be an address that `values` are."""
        for slot, value in zip(slots, values, strict=True):
            if not isinstance(value.type, ir.IntType):
                continue
            sources = {origin.operands[0] for origin, _ in self._walk(value) if _is_read(origin)}
            for source in sources:
                self._read_by.setdefault(source, set()).add(slot)
            if not sources.isdisjoint(self._slots) or self.has(value):
                self._mark(slot)

    def _mark(self, slot: ir.Value) -> None:
        waiting = [slot]
        while waiting:
            local = waiting.pop()
            if local not in self._slots:
                self._slots.add(local)
                waiting += self._read_by.get(local, ())

    def has(self, value: ir.Value) -> bool:
        """Whether `value` may be such an address, by its arithmetic and the stores on the paths so far."""
        return bool(self._mapped) and any(origin in self._mapped and not shift for origin, shift in self._walk(value))

    def _walk(self, value: ir.Value) -> Iterator[tuple[ir.Value, int]]:
        """The values from which an address may have been moved, and how far each is then shifted left."""
        seen = {(value, 0)}
        waiting = [(value, 0)]
        while waiting:
            origin, shift = waiting.pop()
            yield origin, shift
            if origin in self._mapped or not isinstance(origin, ir.Instruction):
                continue
            if _is_read(origin):
                sources = [(each, shift) for each in reaching(origin)] if origin.operands[0] in self._slots else []
            else:
                sources = [(each, shift + shifted_left(origin)) for each in origins(origin, shift)]
            fresh = [each for each in sources if each not in seen]
            seen.update(fresh)
            waiting += fresh

    def check(self, row: Row, operands: Operands, *, in_cluster: bool) -> None:
        """Raises cluster.peer-address if `row` needs an address of the CTA's own memory and has a peer's."""
        for operand in row.operands if in_cluster else ():
            if operand.register is not RegisterClass.SHARED or operand.role is not Role.INPUT:
                continue
            if operand.name == BARRIER and row.semantics.peers:
                continue  # it is where the data goes, perhaps in another CTA; only LLVM has it in the own window
            for value in values_of({operand.name: operands.get(operand.name)}):
                if self.has(value):
                    fail_peer(row.ptx, operand.name)
                if isinstance(value, ir.Instruction):
                    self._taken.append(_Taken(value, row.ptx, operand.name, caller_location(), False))

    def faults(self) -> Iterator[Diagnostic]:
        """The uses as the CTA's own address that may see a peer's in a later iteration."""
        told: set[ir.Value] = set()
        for use in self._taken if self._slots else ():
            slots = {each.operands[0] for each, _ in self._walk(use.number) if _is_read(each)}
            if told.isdisjoint(slots) and self.has(use.number):
                told |= slots
                fix = _fix(use.operand)
                yield PEER_ADDRESS.diagnose(at=use.location, instruction=use.instruction, operand=use.operand, fix=fix)
        for use in self._taken:
            if use.asks and not self.has(use.number) and (origin := is_unknown(use.number, self._mapped)):
                yield WINDOW.diagnose(at=use.location, origin=origin)


def fail_peer(instruction: str, operand: str) -> NoReturn:
    """Raises cluster.peer-address for an operand that is in another CTA's shared memory."""
    PEER_ADDRESS.fail(instruction=instruction, operand=operand, fix=_fix(operand))


def _fix(operand: str) -> str:
    return _OF_BARRIERS if operand == BARRIER else _OF_MEMORY


def _is_read(value: ir.Value) -> bool:
    """Whether it is a load of a variable."""
    return isinstance(value, ir.LoadInstr) and isinstance(value.operands[0], ir.AllocaInstr)


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
        """The CTAs whose mbarriers `row` reaches; None without one. Raises cluster.rank and tma.barrier-cta."""
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
        """Raises cluster.rank if a thread here certainly maps to a rank outside the cluster."""
        rank = self._peers.rank_of(address)
        numbers = None if rank is None else execution.numbers(rank)
        if numbers is None:
            return
        size = execution.cluster
        place = execution.first(operands, lambda *place: not 0 <= numbers.at(*place) < size)
        if place is not None:
            shown = f"{numbers.at(*place)}, in thread {place[1]} of the CTA of rank {place[0]},"
            RANK.fail(rank=shown, cluster=size, legal=f"0 to {size - 1}")

    def _check_same_cta(
        self, execution: ClusterExecution, row: Row, operands: Operands, destination: ir.Value, barrier: ir.Value
    ) -> None:
        """Raises tma.barrier-cta if destination and barrier are certainly in CTAs that one copy cannot combine."""
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
        """The rank of the CTA of a shared address; None if unknown."""
        if not self._peers.has(address):
            return execution.own
        rank = self._peers.rank_of(address)
        return None if rank is None else execution.numbers(rank)
