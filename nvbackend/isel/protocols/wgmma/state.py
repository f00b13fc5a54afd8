"""What may be in flight, and what no fence has ordered yet: the abstract state of the WGMMA protocol.

Every part of the state is a set of facts of which each holds on some path to the place, and every step changes a fact
without looking at the others. So the fixed point finds exactly the mistakes that some path through the blocks makes.

The model (PTX ISA 9.7.15.7): a commit closes the group of the mma issued since the last one, and `wait_group n`
returns when at most the n newest committed groups are pending. The age of an mma is the number of commits since it
was issued: 0 while its group is open, 1 in the newest group. So `wait_group n` leaves the ages up to n in flight.

After a mistake the state continues as if it had been fixed, so that one mistake is found once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.mma.wgmma import PENDING_GROUPS
from nvbackend.intrinsics.row.semantics import Completion, FenceOf, Semantics
from nvbackend.isel.flow.dataflow import Site, union
from nvbackend.isel.machine.function import Access, MachineInstr, RegisterBlock
from nvbackend.isel.protocols.wgmma import rules
from nvbackend.isel.select.wgmma.rules import WAIT_RANGE

PENDING = "pending"
_GROUPS = Completion.MMA_GROUP

_OLDEST = PENDING_GROUPS.stop
"""No wait leaves an mma of this age in flight, so older ones need not be distinguished."""

Shape = tuple[int, int]
"""M and N of an accumulator."""
Shaped = tuple[RegisterBlock, Shape]
_NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Busy:
    """The registers that an mma keeps busy until a wait has drained its group."""

    accumulators: tuple[RegisterBlock, ...]
    fragments: tuple[RegisterBlock, ...]

    def __contains__(self, block: RegisterBlock) -> bool:
        return block in self.accumulators or block in self.fragments


NOWHERE = -1
"""In the place of a position, before all of them: there is no such instruction."""


@dataclass(frozen=True, slots=True, order=True)
class Trail:
    """The history of an mma in flight, as positions: issue, commit, the last wait that left it; its age there."""

    mma: int
    commit: int = NOWHERE
    wait: int = NOWHERE
    age: int = 0

    def positions(self) -> Iterable[int]:
        """Every place that it names, NOWHERE for one that there is not."""
        return (self.mma, self.commit, self.wait)


@dataclass(frozen=True, slots=True)
class Ordered:
    """What a fence that may be the last one had to order: what happened between it and the fence before it.

    `chained` are the accumulations of the group that was open there, until something happens that ends the chain.
    """

    accessed: frozenset[RegisterBlock]
    shapes: frozenset[Shaped]
    chained: frozenset[Shaped]

    def __or__(self, other: Ordered) -> Ordered:
        return Ordered(self.accessed | other.accessed, self.shapes | other.shapes, self.chained | other.chained)


class WgmmaState(NamedTuple):
    """What may be true before an instruction.

    `flight`: mma that may run, by age and registers. `accessed`: the ordinary accesses since the last fence, and
    `shapes` the accumulations, each with their places. `unfenced`: no fence may have come yet. `chain`: the
    accumulations of the open group with nothing but fences since; `chain_may_be_empty` where none may exist.
    `fences`: the fences that may be the last, of those in a chain on some path: no others can be needless.
    """

    flight: Mapping[tuple[int, Busy], frozenset[Trail]] = _NOTHING
    accessed: Mapping[RegisterBlock, frozenset[int]] = _NOTHING
    shapes: Mapping[Shaped, frozenset[int]] = _NOTHING
    unfenced: bool = True
    chain: frozenset[Shaped] = frozenset()
    chain_may_be_empty: bool = True
    fences: Mapping[int, Ordered] = _NOTHING


@dataclass(frozen=True, slots=True)
class WgmmaFinding:
    """A broken rule at an instruction, with what was found: registers, the youngest mma in flight, places."""

    rule: Rule
    site: Site
    blocks: tuple[RegisterBlock, ...] = ()
    age: int = 0
    trails: frozenset[Trail] = frozenset()
    accesses: frozenset[int] = frozenset()
    shape: Shape | None = None
    earlier: Shape | None = None

    def causes(self) -> frozenset[int]:
        """The places that made the mistake possible."""
        return self.accesses.union(*(trail.positions() for trail in self.trails))


@dataclass(frozen=True, slots=True)
class FenceUse:
    """What an instruction shows about a fence before it: that it was `needed`, or that it was in a chain of mma."""

    fence: int
    needed: bool
    mma: int = NOWHERE
    block: RegisterBlock | None = None


Event = WgmmaFinding | FenceUse
Step = tuple[WgmmaState, list[Event]]


def join(left: WgmmaState, right: WgmmaState) -> WgmmaState:
    """What may be true where two ways meet."""
    fences = left.fences
    if right.fences and right.fences != fences:
        fences = dict(left.fences)
        for fence, ordered in right.fences.items():
            fences[fence] = fences[fence] | ordered if fence in fences else ordered
    return WgmmaState(
        flight=union(left.flight, right.flight),
        accessed=union(left.accessed, right.accessed),
        shapes=union(left.shapes, right.shapes),
        unfenced=left.unfenced or right.unfenced,
        chain=left.chain | right.chain,
        chain_may_be_empty=left.chain_may_be_empty or right.chain_may_be_empty,
        fences=fences,
    )


def concerns(site: Site) -> bool:
    """Whether the instruction may change the state, or break a rule."""
    return bool(site.instr.touches) or _handler(site.instr.semantics) is not None


def is_fence(instr: MachineInstr) -> bool:
    """Whether it orders registers before the mma that follow."""
    fence = instr.semantics.fence
    return fence is not None and fence.of is FenceOf.REGISTERS


def concerns_groups(said: Semantics) -> bool:
    """Whether an instruction of the protocol is so, other than the end of the kernel."""
    return not said.exits and _handler(said) is not None


def step(state: WgmmaState, site: Site) -> Step:
    """The state after an instruction, and what it breaks."""
    events: list[Event] = []
    handler = _handler(site.instr.semantics)
    for touch in site.instr.touches:
        if touch.access is Access.READ or touch.access is Access.WRITE:
            state = _access(state, site, touch.block, touch.access, events)
    return (handler(state, site, events) if handler else state), events


def blocks_with(instr: MachineInstr, access: Access) -> tuple[RegisterBlock, ...]:
    """The register blocks that the instruction touches in this way, each once, in order."""
    blocks = [touch.block for touch in instr.touches if touch.access is access]
    return tuple(dict.fromkeys(blocks)) if len(blocks) > 1 else tuple(blocks)


def pending_groups(instr: MachineInstr) -> int:
    """The number of groups a wait may leave, brought into its range."""
    return min(max(instr.immediates[PENDING], PENDING_GROUPS[0]), PENDING_GROUPS[-1])


def _access(state: WgmmaState, site: Site, block: RegisterBlock, access: Access, events: list[Event]) -> WgmmaState:
    """Ordinary code reads or writes registers: they must not be in flight, and a fence is due before the next mma."""
    rule = rules.READ_IN_FLIGHT if access is Access.READ else rules.WRITE_IN_FLIGHT
    state = _hand_over(state, site, block, rule, events)
    state = state._replace(
        accessed={**state.accessed, block: frozenset((site.position,))},
        shapes={shaped: places for shaped, places in state.shapes.items() if shaped[0] != block},
    )
    return _end_chain(state)


def _hand_over(state: WgmmaState, site: Site, block: RegisterBlock, rule: Rule, events: list[Event]) -> WgmmaState:
    """Report a block that is in flight, and take it out of flight."""
    held = {key: trails for key, trails in state.flight.items() if block in key[1]}
    if not held:
        return state
    events.append(_in_flight(rule, site, (block,), held))
    return state._replace(flight={key: trails for key, trails in state.flight.items() if key not in held})


def _in_flight(
    rule: Rule,
    site: Site,
    blocks: tuple[RegisterBlock, ...],
    groups: Mapping[tuple[int, Busy], frozenset[Trail]],
) -> WgmmaFinding:
    age = min(age for age, _ in groups)
    youngest = frozenset().union(*(trails for key, trails in groups.items() if key[0] == age))
    return WgmmaFinding(rule, site, blocks, age, youngest)


def _end_chain(state: WgmmaState) -> WgmmaState:
    """Something other than an mma or a fence is here: a fence on one side of it orders more than a chain."""
    fences = {
        fence: replace(ordered, chained=frozenset()) if ordered.chained else ordered
        for fence, ordered in state.fences.items()
    }
    return state._replace(chain=frozenset(), chain_may_be_empty=True, fences=fences)


def _fence(state: WgmmaState, site: Site, events: list[Event]) -> WgmmaState:
    if state.chain_may_be_empty:
        events.append(FenceUse(site.position, needed=True))
    fences: Mapping[int, Ordered] = {}
    if state.chain:
        fences = {site.position: Ordered(frozenset(state.accessed), frozenset(state.shapes), state.chain)}
    return state._replace(accessed={}, shapes={}, unfenced=False, fences=fences)


def _mma_async(state: WgmmaState, site: Site, events: list[Event]) -> WgmmaState:
    busy = Busy(blocks_with(site.instr, Access.ACCUMULATE), blocks_with(site.instr, Access.MULTIPLY))
    shaped = frozenset((touch.block, touch.shape[:2]) for touch in site.instr.touches if touch.shape is not None)
    if state.accessed or state.unfenced:
        events += _missing_fence(state, site, busy)
    if state.shapes:
        events += _shape_changes(state, site, shaped)
    if state.fences:
        events += _fence_uses(state, site, busy, shaped)
    here = frozenset((site.position,))
    shapes = {known: places for known, places in state.shapes.items() if known[0] not in busy.accumulators}
    for accumulation in shaped:
        shapes[accumulation] = here
    return WgmmaState(
        flight={**state.flight, (0, busy): frozenset((Trail(site.position),))},
        accessed={block: places for block, places in state.accessed.items() if block not in busy}
        if state.accessed
        else _NOTHING,
        shapes=shapes,
        unfenced=False,
        chain=state.chain | shaped,
        chain_may_be_empty=state.chain_may_be_empty and not shaped,
        fences=state.fences,
    )


def _missing_fence(state: WgmmaState, site: Site, busy: Busy) -> Iterable[WgmmaFinding]:
    accessed = {block: places for block, places in state.accessed.items() if block in busy}
    if accessed or state.unfenced:
        blocks = tuple(accessed) or busy.accumulators
        yield WgmmaFinding(rules.MISSING_FENCE, site, blocks, accesses=frozenset().union(*accessed.values()))


def _shape_changes(state: WgmmaState, site: Site, shaped: frozenset[Shaped]) -> Iterable[WgmmaFinding]:
    for (block, earlier), places in state.shapes.items():
        for other, shape in shaped:
            if other == block and shape != earlier:
                yield WgmmaFinding(rules.SHAPE_CHANGE, site, (block,), accesses=places, shape=shape, earlier=earlier)


def _fence_uses(state: WgmmaState, site: Site, busy: Busy, shaped: frozenset[Shaped]) -> Iterable[FenceUse]:
    for fence, ordered in state.fences.items():
        if any(block in busy for block in ordered.accessed) or any(
            block == other and shape != before for other, shape in shaped for block, before in ordered.shapes
        ):
            yield FenceUse(fence, needed=True)
        for block, _ in sorted(shaped & ordered.chained, key=lambda pair: pair[0].id):
            yield FenceUse(fence, needed=False, mma=site.position, block=block)


def _commit_group(state: WgmmaState, site: Site, events: list[Event]) -> WgmmaState:  # noqa: ARG001
    aged: dict[tuple[int, Busy], frozenset[Trail]] = {}
    for (age, busy), trails in state.flight.items():
        key = (min(age + 1, _OLDEST), busy)
        closed = trails if age else frozenset(replace(trail, commit=site.position) for trail in trails)
        aged[key] = aged.get(key, frozenset()) | closed
    return _end_chain(state._replace(flight=aged))


def _wait_group(state: WgmmaState, site: Site, events: list[Event]) -> WgmmaState:
    pending = pending_groups(site.instr)
    if site.instr.immediates[PENDING] not in PENDING_GROUPS:
        events.append(WgmmaFinding(WAIT_RANGE, site))
    drains = blocks_with(site.instr, Access.DRAIN)
    left: dict[tuple[int, Busy], frozenset[Trail]] = {}
    wanted: dict[tuple[int, Busy], frozenset[Trail]] = {}
    for key, trails in state.flight.items():
        age, busy = key
        if age > pending:
            continue
        if any(block in busy for block in drains) or (age == 0 and pending == 0 and not drains):
            wanted[key] = trails
        elif age == 0:
            left[key] = trails
        else:
            left[key] = frozenset(replace(trail, wait=site.position, age=age) for trail in trails)
    events += _not_drained(site, drains, wanted)
    return _end_chain(state._replace(flight=left))


def _not_drained(
    site: Site, drains: tuple[RegisterBlock, ...], wanted: Mapping[tuple[int, Busy], frozenset[Trail]]
) -> Iterable[WgmmaFinding]:
    """What a wait was to hand back and does not: mma that were never committed, and groups that it leaves."""
    for rule, committed in ((rules.MISSING_COMMIT, False), (rules.WAIT_LEAVES_GROUP, True)):
        ages = [age for age, _ in wanted if (age > 0) is committed]
        youngest = {key: trails for key, trails in wanted.items() if key[0] == min(ages, default=None)}
        if youngest:
            held = tuple(block for block in drains if any(block in busy for _, busy in youngest))
            yield _in_flight(rule, site, held or _accumulators(youngest), youngest)


def _accumulators(groups: Iterable[tuple[int, Busy]]) -> tuple[RegisterBlock, ...]:
    return tuple(dict.fromkeys(block for _, busy in groups for block in busy.accumulators))


def _exit(state: WgmmaState, site: Site, events: list[Event]) -> WgmmaState:
    for rule, committed in ((rules.MISSING_COMMIT, False), (rules.MISSING_WAIT, True)):
        pending = {key: trails for key, trails in state.flight.items() if (key[0] > 0) is committed}
        if pending:
            events.append(_in_flight(rule, site, _accumulators(pending), pending))
    return state


_Handler = Callable[[WgmmaState, Site, list[Event]], WgmmaState]


def _handler(said: Semantics) -> _Handler | None:
    """What follows an instruction of the protocol; None for any other one."""
    if said.issues is _GROUPS:
        return _mma_async
    if said.commits is _GROUPS:
        return _commit_group
    if said.awaits is _GROUPS:
        return _wait_group
    if said.fence is not None and said.fence.of is FenceOf.REGISTERS:
        return _fence
    return _exit if said.exits else None
