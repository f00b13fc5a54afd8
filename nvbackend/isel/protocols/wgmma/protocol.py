"""The WGMMA protocol along the control flow: finds accesses in flight, missing fences, commits and waits.

`find_mistakes` finds what some path through the blocks breaks, instruction by instruction; `check_wgmma_protocol` puts
together what has one cause, and into words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from nvbackend.diagnostics import Diagnostic
from nvbackend.isel.flow.dataflow import Site, sites_of, solve
from nvbackend.isel.flow.finished import kept, semantics_in
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.protocols.wgmma import rules
from nvbackend.isel.protocols.wgmma.state import (
    Event,
    FenceUse,
    WgmmaFinding,
    WgmmaState,
    concerns,
    concerns_groups,
    is_fence,
    join,
    step,
)

_PUT_RIGHT_ONCE = (
    rules.READ_IN_FLIGHT,
    rules.WRITE_IN_FLIGHT,
    rules.MISSING_FENCE,
    rules.MISSING_COMMIT,
    rules.WAIT_LEAVES_GROUP,
)
"""Rules whose fix before one instruction holds for those after it too."""


class WgmmaAnalysis:
    """The protocol as an analysis for the solver. `events` are those of the last turn at each position."""

    def __init__(self) -> None:
        self.events: dict[int, list[Event]] = {}

    def entry(self) -> WgmmaState:
        """Nothing in flight, and no fence yet."""
        return WgmmaState()

    def join(self, left: WgmmaState, right: WgmmaState, /) -> WgmmaState:
        """What may be true on either way."""
        return join(left, right)

    def transfer(self, state: WgmmaState, site: Site, /) -> WgmmaState:
        """What may be true after the instruction."""
        state, self.events[site.position] = step(state, site)
        return state


def check_wgmma_protocol(function: MachineFunction) -> list[Diagnostic]:
    """Every mistake of the WGMMA protocol that some path through `function` makes, in the order of the text.

    One diagnostic a cause: what one fence, commit or wait fixes in one block, and what is on one line of the
    user's program, is reported once and names all the registers.
    """
    findings = find_mistakes(function)
    if not findings:
        return []
    from nvbackend.isel.protocols.wgmma.text import Wording

    causes = _merged(findings, _by_block, _nothing_between)
    wording = Wording([site for sites in sites_of(function).values() for site in sites])
    return [wording.diagnostic(finding) for finding in _merged(causes, _by_line)]


@kept
def find_mistakes(function: MachineFunction) -> list[WgmmaFinding]:
    """Every instruction that breaks a rule on some path, with the rule, in the order of the text."""
    if not any(map(concerns_groups, semantics_in(function))):
        return []
    findings: list[WgmmaFinding] = []
    uses: list[FenceUse] = []
    fences: dict[int, Site] = {}
    analysis = WgmmaAnalysis()
    for site, _ in solve(function, analysis, concerns).visit():
        if is_fence(site.instr):
            fences[site.position] = site
        for event in analysis.events[site.position]:
            if isinstance(event, WgmmaFinding):
                findings.append(event)
            else:
                uses.append(event)
    findings += _needless_fences(uses, fences)
    return sorted(findings, key=lambda finding: finding.site.position)


def _needless_fences(uses: list[FenceUse], sites: dict[int, Site]) -> Iterable[WgmmaFinding]:
    """The fences that are in a chain of mma on some path and are needed on none."""
    needed = {use.fence for use in uses if use.needed}
    for use in {use.fence: use for use in reversed(uses) if use.fence not in needed}.values():
        if use.block is not None:
            yield WgmmaFinding(rules.NEEDLESS_FENCE, sites[use.fence], (use.block,), accesses=frozenset((use.mma,)))


def _merged(
    findings: Iterable[WgmmaFinding],
    key: Callable[[WgmmaFinding], object],
    one_cause: Callable[[WgmmaFinding, WgmmaFinding], bool] = lambda *_: True,
) -> list[WgmmaFinding]:
    """The findings, each put into the last one of its key (None: stays alone) where the two have `one_cause`."""
    kept: list[WgmmaFinding] = []
    last: dict[object, int] = {}
    for finding in findings:
        index = last.get(key(finding))
        if index is not None and one_cause(kept[index], finding):
            kept[index] = _combined(kept[index], finding)
            continue
        if key(finding) is not None:
            last[key(finding)] = len(kept)
        kept.append(finding)
    return kept


def _by_block(finding: WgmmaFinding) -> object:
    return (finding.rule.id, finding.site.block) if finding.rule in _PUT_RIGHT_ONCE else None


def _by_line(finding: WgmmaFinding) -> object:
    location = finding.site.instr.location
    return None if location is None else (finding.rule.id, location)


def _nothing_between(first: WgmmaFinding, second: WgmmaFinding) -> bool:
    """Whether the fix of `first`, before it, fixes `second` too: its causes do not lie between the two."""
    return not any(first.site.position < cause < second.site.position for cause in second.causes())


def _combined(first: WgmmaFinding, second: WgmmaFinding) -> WgmmaFinding:
    """Both, at the place of the first, with the group that is hardest to drain."""
    younger = min(first.age, second.age)
    trails = frozenset(trail for fact in (first, second) if fact.age == younger for trail in fact.trails)
    return replace(
        first,
        blocks=tuple(dict.fromkeys((*first.blocks, *second.blocks))),
        age=younger,
        trails=trails,
        accesses=first.accesses | second.accesses,
    )
