"""setmaxnreg along the control flow: up from less, down from more, and within what the CTA has.

A thread's registers are known after its last setmaxnreg; before the first one they are those of the launch, for which
an upper bound is known. A rule is broken if every path to the instruction breaks it. A path ends where it breaks one:
in a loop, the result of a wrong setmaxnreg does not make the same one right in the next iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nvbackend.diagnostics import Diagnostic
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE, Budget, Scope
from nvbackend.intrinsics.sync.register_budget import REGISTER_COUNTS, THREAD_REGISTERS, launch_share
from nvbackend.isel.flow.dataflow import Site, solve
from nvbackend.isel.flow.loops import loops_of
from nvbackend.isel.flow.paths import coming, reachable
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.machine.register_room import LAUNCH_REGISTERS
from nvbackend.isel.protocols.convergence import rules
from nvbackend.isel.protocols.convergence.regions import divergence_of

_EVERY_THREAD = (1 << WARPGROUP_SIZE) - 1
_LAUNCH = 0
"""The registers that the launch gave."""
_OPPOSITE = {Budget.LOWER: Budget.RAISE, Budget.RAISE: Budget.LOWER}
Counts = frozenset[int]


class RegisterBudget:
    """The registers that a thread may have at a place, as an analysis for the solver.

    `share` is what it has at most when it is launched.
    """

    def __init__(self, share: int) -> None:
        self._share = share

    def entry(self) -> Counts:
        """What the launch gave."""
        return frozenset((_LAUNCH,))

    def join(self, left: Counts, right: Counts, /) -> Counts:
        """What a thread has that came either way."""
        return left | right

    def transfer(self, state: Counts, site: Site, /) -> Counts:
        """What it has after the instruction."""
        if not _is_budget(site.instr):
            return state
        return frozenset(_count(site.instr) for count in state if _is_allowed(site.instr, count, self._share))


def check_register_budget(function: MachineFunction) -> list[Diagnostic]:
    """What is wrong with the setmaxnreg of `function`: setmaxnreg.order, .largest, .warpgroup, .pool."""
    threads = function.attributes.get("threads")
    budgets = [instr for instr in function.instructions() if _is_budget(instr)]
    if not isinstance(threads, int) or not budgets:
        return []
    launched = function.attributes.get(LAUNCH_REGISTERS)
    share = launch_share(threads)
    if isinstance(launched, int):  # to ptxas, the most that a thread can be limited to is as many as setmaxnreg gives
        share = min(share, launched if launched < THREAD_REGISTERS[-1] else REGISTER_COUNTS[-1])
    divergence = divergence_of(function)
    solved = list(solve(function, RegisterBudget(share), lambda site: _is_budget(site.instr)).visit())
    faults = [each for site, state in solved for each in _order(site.instr, state, share)]
    whole = not function.attributes.get("attached")
    if not faults and whole:
        faults += _largest(budgets)
    for site, _ in solved:
        together = not divergence.is_parted(site.block, Scope.CTA)
        faults += _more_than_the_rest(site.instr, threads, all_together=together)
        if threads % WARPGROUP_SIZE and together:
            wanted = -(-threads // WARPGROUP_SIZE) * WARPGROUP_SIZE
            faults.append(
                rules.REGISTERS_WHOLE.diagnose(
                    at=site.instr.location,
                    instruction=site.instr.opcode,
                    warpgroup=WARPGROUP_SIZE,
                    threads=threads,
                    wanted=wanted,
                )
            )
    return faults or list(_more_than_all(function, [site for site, _ in solved], share, threads) if whole else ())


def _is_budget(instr: MachineInstr) -> bool:
    return instr.semantics.budget is not None


def _count(instr: MachineInstr) -> int:
    return instr.immediates["registers"]


def _action(instr: MachineInstr) -> Budget:
    assert instr.semantics.budget is not None
    return instr.semantics.budget


def _is_allowed(instr: MachineInstr, present: int, share: int) -> bool:
    """Whether a thread that has `present` may execute it: of the launch only the most is known."""
    if _action(instr) is Budget.LOWER:
        return _count(instr) <= (share if present == _LAUNCH else present)
    return present <= _count(instr)


def _order(instr: MachineInstr, present: Counts, share: int) -> Iterator[Diagnostic]:
    action, count = _action(instr), _count(instr)
    if present and not any(_is_allowed(instr, before, share) for before in present):
        limit = (
            max(share if before == _LAUNCH else before for before in present)
            if action is Budget.LOWER
            else min(present)
        )
        yield rules.REGISTERS_ORDER.diagnose(
            at=instr.location,
            action=action.value,
            count=count,
            present=f"{limit} at most" if _LAUNCH in present else limit,
            direction="down" if action is Budget.LOWER else "up",
            other=_OPPOSITE[action].value,
            relation="up to" if action is Budget.LOWER else "from",
        )


def _largest(budgets: Sequence[MachineInstr]) -> Iterator[Diagnostic]:
    """Each dec that leaves more than any inc asks for; ptxas looks at all of them, whatever way leads there."""
    asked = [instr for instr in budgets if _action(instr) is Budget.RAISE]
    if not asked:
        return
    largest = max(asked, key=_count)
    for instr in budgets:
        if _action(instr) is Budget.LOWER and _count(instr) > _count(largest):
            yield rules.REGISTERS_LARGEST.diagnose(
                at=instr.location,
                notes=(("the largest setmaxnreg.inc", largest.location),),
                count=_count(instr),
                largest=_count(largest),
            )


def _more_than_the_rest(instr: MachineInstr, threads: int, *, all_together: bool) -> Iterator[Diagnostic]:
    """What no pool can give: more than an even share to all, or what is left where the others have the least."""
    warpgroups = -(-threads // WARPGROUP_SIZE)
    least = REGISTER_COUNTS[0]
    share = launch_share(threads)
    most = share if all_together else share * warpgroups - least * (warpgroups - 1)
    if _action(instr) is Budget.RAISE and _count(instr) > most:
        yield _pool(instr, "every warpgroup" if all_together else "one warpgroup", warpgroups, most)


def _more_than_all(function: MachineFunction, sites: Sequence[Site], share: int, threads: int) -> Iterator[Diagnostic]:
    """What the pool cannot give when all warpgroups have come to the setmaxnreg that they certainly come to.

    A warpgroup then has what that one gives or a later one, and else the least that any gives it.
    """
    warpgroups = -(-threads // WARPGROUP_SIZE)
    groups = [_EVERY_THREAD << start for start in range(0, threads - WARPGROUP_SIZE + 1, WARPGROUP_SIZE)]
    come, loops = coming(function), loops_of(function)

    def least(count: int, group: int, among: Iterable[Site]) -> int:
        return min([count, *(_count(other.instr) for other in among if come[other.block] & group)])

    crews = [(site, crew) for site in sites if (crew := function.blocks[site.block].crew) and not crew.elected]
    for anchor in dict.fromkeys(crew.anchor for _, crew in crews):
        held, by = [least(share, group, sites) for group in groups], dict[int, Site]()
        for site, crew in crews:
            if not loops.dominates(crew.anchor, anchor):
                continue  # whether anybody comes there is not known
            after = _after(function, site, sites)
            for index, group in enumerate(groups):
                has = least(_count(site.instr), group, after)
                if not group & ~crew.bits and has > held[index]:
                    held[index], by[index] = has, site
        total = launch_share(threads) * warpgroups
        if sum(held) > total and by:
            last = max(by.values(), key=lambda order: (_count(order.instr), order.position))
            asking = [index for index, site in by.items() if site is last]
            left = total - sum(count for index, count in enumerate(held) if index not in asking)
            who = f"{len(asking)} warpgroups" if len(asking) > 1 else "one warpgroup"
            yield _pool(last.instr, who, warpgroups, left // len(asking) // REGISTER_COUNTS.step * REGISTER_COUNTS.step)
            return


def _after(function: MachineFunction, site: Site, sites: Iterable[Site]) -> list[Site]:
    """Those of the sites that a thread may come to after one of them."""
    later = reachable(function, function.blocks[site.block].successors)
    return [
        other
        for other in sites
        if other.block in later or (other.block == site.block and other.position > site.position)
    ]


def _pool(instr: MachineInstr, who: str, warpgroups: int, most: int) -> Diagnostic:
    return rules.REGISTERS_POOL.diagnose(
        at=instr.location, count=_count(instr), who=who, warpgroups=warpgroups, most=most
    )
