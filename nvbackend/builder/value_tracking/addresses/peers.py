"""Addresses in the shared memory of a cluster's other CTAs: their ranks, and the instructions that accept them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NoReturn

from llvmlite import ir

from nvbackend.builder.value_tracking.addresses.origins import is_unknown, origins, reaching, shifted_left
from nvbackend.diagnostics import Diagnostic, Location, Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.location import CallerChain
from nvbackend.intrinsics.row.semantics import BARRIER
from nvbackend.isel.machine.facts import PEERS

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

    def __init__(self, callers: CallerChain) -> None:
        self._callers = callers
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
        windows = {self._mapped[origin] for origin in self._mapped_on_a_path(address)}
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
        self._taken.append(_Taken(number, SHARED_ADDRESS, "address", self._callers.location(), True))

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
        return any(True for _ in self._mapped_on_a_path(value))

    def _mapped_on_a_path(self, value: ir.Value) -> Iterator[ir.Value]:
        """The mapped addresses from which `value` may have been moved: none, without a walk, before one is mapped."""
        for origin, shift in self._walk(value) if self._mapped else ():
            if origin in self._mapped and not shift:
                yield origin

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
            # Constants are not mapped, and slow to compare.
            fresh = [each for each in sources if not isinstance(each[0], ir.Constant) and each not in seen]
            seen.update(fresh)
            waiting += fresh

    def check(self, value: ir.Value, instruction: str, operand: str) -> None:
        """Raises cluster.peer-address for a peer's address in an operand that takes one of the CTA's own memory."""
        if self.has(value):
            fail_peer(instruction, operand)
        if isinstance(value, ir.Instruction):
            self._taken.append(_Taken(value, instruction, operand, self._callers.location(), False))

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
