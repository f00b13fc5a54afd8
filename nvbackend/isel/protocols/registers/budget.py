"""setmaxnreg along the control flow: up from less, down from more, and within what the CTA has.

What a thread has is known after its last setmaxnreg; before the first one it is what the launch gave it, of which the
most is known. A rule is broken where every way to the instruction breaks it. No way goes on from where it breaks one:
in a loop, what a setmaxnreg would leave does not make the same one right in the next round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nvbackend.diagnostics import Diagnostic
from nvbackend.intrinsics.row.semantics import WARPGROUP_SIZE, Budget, Scope
from nvbackend.intrinsics.sync.register_budget import REGISTER_COUNTS, launch_share
from nvbackend.isel.flow.dataflow import Site, solve
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.machine.register_room import LAUNCH_REGISTERS
from nvbackend.isel.protocols.convergence import rules
from nvbackend.isel.protocols.convergence.regions import divergence_of

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
        return frozenset(_count(site.instr) for one in state if _is_allowed(site.instr, one, self._share))


def check_register_budget(function: MachineFunction) -> list[Diagnostic]:
    """What is wrong with the setmaxnreg of `function`: setmaxnreg.order, .largest, .warpgroup, .pool."""
    threads = function.attributes.get("threads")
    budgets = [instr for instr in function.instructions() if _is_budget(instr)]
    if not isinstance(threads, int) or not budgets:
        return []
    launched = function.attributes.get(LAUNCH_REGISTERS)
    share = min(launch_share(threads), launched) if isinstance(launched, int) else launch_share(threads)
    divergence = divergence_of(function)
    solved = list(solve(function, RegisterBudget(share), lambda site: _is_budget(site.instr)).visit())
    found = [each for site, state in solved for each in _order(site.instr, state, share)]
    if not found and not function.attributes.get("attached"):
        found += _largest(budgets)
    for site, _ in solved:
        together = not divergence.is_parted(site.block, Scope.CTA)
        found += _pool(site.instr, threads, all_together=together)
        if threads % WARPGROUP_SIZE and together:
            wanted = -(-threads // WARPGROUP_SIZE) * WARPGROUP_SIZE
            found.append(
                rules.REGISTERS_WHOLE.diagnose(
                    at=site.instr.location,
                    instruction=site.instr.opcode,
                    warpgroup=WARPGROUP_SIZE,
                    threads=threads,
                    wanted=wanted,
                )
            )
    return found


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
    if present and not any(_is_allowed(instr, one, share) for one in present):
        limit = max(share if one == _LAUNCH else one for one in present) if action is Budget.LOWER else min(present)
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


def _pool(instr: MachineInstr, threads: int, *, all_together: bool) -> Iterator[Diagnostic]:
    """What no pool can give: more than an even share to all, or what is left where the others have the least."""
    warpgroups = -(-threads // WARPGROUP_SIZE)
    least = REGISTER_COUNTS[0]
    share = launch_share(threads)
    most = share if all_together else share * warpgroups - least * (warpgroups - 1)
    if _action(instr) is Budget.RAISE and _count(instr) > most:
        yield rules.REGISTERS_POOL.diagnose(
            at=instr.location,
            count=_count(instr),
            who="every warpgroup" if all_together else "one warpgroup",
            warpgroups=warpgroups,
            most=most,
        )
