"""The protocol of mbarriers over a finished kernel: life, arrivals, bytes and phases, in words.

Not judged are a barrier of unknown address, instructions under conditions that cannot be evaluated,
and what the owner of an attached IRBuilder may have emitted besides ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.isel.flow.dataflow import Site, solve
from nvbackend.isel.flow.loops import Loops, loops_of
from nvbackend.isel.flow.paths import cluster_size
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.machine.naming import MOST_NOTES
from nvbackend.isel.protocols.mbarrier import rules
from nvbackend.isel.protocols.mbarrier.counts import Counts
from nvbackend.isel.protocols.mbarrier.deadlock import Deadlocks, Stuck
from nvbackend.isel.protocols.mbarrier.finding import CountFinding
from nvbackend.isel.protocols.mbarrier.life import LifeAnalysis, LifeFinding, some_thread
from nvbackend.isel.protocols.mbarrier.misdirected import redirected
from nvbackend.isel.protocols.mbarrier.parity import Firsts, Parities, ParityFinding
from nvbackend.isel.protocols.mbarrier.peer_arrivals import PeerArrivals
from nvbackend.isel.protocols.mbarrier.reach import Reaches
from nvbackend.isel.protocols.mbarrier.transactions import Transactions
from nvbackend.isel.protocols.mbarrier.uses import Uses, find_uses

Notes = tuple[tuple[str, Location | None], ...]
Finding = LifeFinding | CountFinding | ParityFinding | Stuck


def check_mbarrier_protocol(function: MachineFunction) -> list[Diagnostic]:
    """Every mistake with an mbarrier that `function` certainly makes, in the order of the text, one a cause."""
    uses = find_uses(function)
    if not uses.all:
        return []
    sites: dict[int, Site] = {use.site.position: use.site for use in uses.all}
    loops = loops_of(function)
    findings: list[Finding] = list(_life(some_thread(function, loops), uses, cluster_size(function)))
    if loops.regular:
        counts, firsts = Counts(uses, loops, function.values), Firsts(function, uses, loops)
        findings += redirected(_sums(function, uses, loops, counts, firsts))
        findings += Parities(function, uses, loops, counts, firsts).findings()
        findings += Deadlocks(function, uses, loops, counts, firsts).findings()
    findings.sort(key=lambda finding: _site(finding).position)
    return [_told(finding, sites) for finding in _once(findings)]


def _life(function: MachineFunction, uses: Uses, cluster: int) -> Iterable[LifeFinding]:
    analysis = LifeAnalysis(function, uses, cluster)
    for site, state in solve(function, analysis, analysis.matters).visit():
        yield from analysis.findings(state, site)


def _sums(
    function: MachineFunction, uses: Uses, loops: Loops, counts: Counts, firsts: Firsts
) -> Iterable[CountFinding]:
    """The arrivals and bytes of each barrier that only instructions of this form touch."""
    reaches = Reaches(function, loops)
    transactions = Transactions(uses, loops, reaches, function.values)
    peers = PeerArrivals(uses, reaches, counts, firsts)
    for cell in uses.cells:
        if cell.object not in uses.escaped:
            own = [*counts.findings(cell), *transactions.findings(cell)]
            yield from own or peers.findings(cell)


def _once(findings: Iterable[Finding]) -> Iterable[Finding]:
    """The first of what has one cause: a rule, and the cells of one allocation."""
    seen = set()
    for finding in findings:
        cell = finding.cell if isinstance(finding, LifeFinding) else finding.use.cell
        rule = rules.DEADLOCK if isinstance(finding, Stuck) else finding.rule
        cause = (rule.id, cell.object, getattr(finding, "missing", ""))
        if cause not in seen:
            seen.add(cause)
            yield finding


def _site(finding: Finding) -> Site:
    return finding.site if isinstance(finding, LifeFinding) else finding.use.site


def _told(finding: Finding, sites: dict[int, Site]) -> Diagnostic:
    if isinstance(finding, LifeFinding):
        return _life_told(finding, sites)
    if isinstance(finding, CountFinding):
        return finding.rule.diagnose(
            at=finding.use.site.instr.location,
            notes=_notes(_COUNTED[finding.rule.id], (use.site for use in finding.others)),
            barrier=finding.use.cell,
            instruction=finding.use.site.instr.opcode,
            **dict(finding.values),
        )
    return _stuck_told(finding) if isinstance(finding, Stuck) else _parity_told(finding)


def _stuck_told(finding: Stuck) -> Diagnostic:
    waits = _notes("waits in turn", (use.site for use in finding.others))
    reason = "every arrival on it comes after this wait"
    if finding.have:
        reason = f"only {finding.have} of its {finding.count} arrivals can come before"
    elif waits:
        reason += ", or after others that wait for it in turn"
    return rules.DEADLOCK.diagnose(
        at=finding.use.site.instr.location,
        notes=_notes("arrives here", (use.site for use in finding.arrivals)) + waits,
        barrier=finding.use.cell,
        reason=reason,
        fix=_TO_EMPTY if finding.empties and not finding.have else _TO_FILL,
    )


_TO_EMPTY = (
    "where a barrier says that memory may be filled, wait first for the phase before the first, which counts as "
    "complete: parity 1, a variable that begins at 1, or phase ^ 1 of one that begins at 0"
)
_TO_FILL = "let the arrivals come first: before the wait, or in threads that do not wait for these"


_COUNTED = {
    rules.ARRIVALS.id: "arrives here",
    rules.NO_ARRIVAL.id: "initialised here",
    rules.UNEXPECTED_BYTES.id: "",
    rules.MISSING_BYTES.id: "",
    rules.WRONG_BYTES.id: "bytes come from here",
    rules.WRONG_BARRIER.id: "bytes are announced here",
    rules.UNEXPECTED_IN_PEER.id: "bytes are announced here",
    rules.MISSING_IN_PEER.id: "bytes come from here",
    rules.WRONG_IN_PEER.id: "bytes come from here",
    rules.NO_ARRIVAL_IN_PEER.id: "arrives here",
    rules.ARRIVALS_IN_PEER.id: "arrives here",
}
_NEVER = {
    "never": "which no mbarrier.init of the kernel has made a barrier",
    "later": "which is initialised further down only",
}


def _life_told(finding: LifeFinding, sites: dict[int, Site]) -> Diagnostic:
    happened = "invalidated here" if finding.rule is rules.AFTER_INVAL else "initialised here"
    return finding.rule.diagnose(
        at=finding.site.instr.location,
        notes=_notes(happened, (sites[position] for position in sorted(finding.causes))),
        barrier=finding.cell,
        instruction=finding.site.instr.opcode,
        reason=_NEVER.get(finding.missing, ""),
        missing=finding.missing,
        whom="the cluster" if finding.missing.endswith("cluster") else "the CTA",
    )


def _parity_told(finding: ParityFinding) -> Diagnostic:
    constant = finding.use.fact(facts.PARITY)
    index = " and ".join(_plain(finding.index))
    parity = " and ".join(_plain(finding.parity)) or "a value from before the loop"
    return finding.rule.diagnose(
        at=finding.use.site.instr.location,
        barrier=finding.use.cell,
        parity=parity if constant is None else constant,
        index=index,
        does=finding.does,
        when=f"where {index} begins again at 0" if index else "in each round",
    )


def _plain(names: Iterable[str]) -> Iterable[str]:
    """Names of variables as the user has them, without the numbers by which LLVM distinguishes equal ones."""
    return dict.fromkeys(re.sub(r"\.\d+$", "", name) for name in names)


def _notes(text: str, sites: Iterable[Site]) -> Notes:
    places = {site.instr.location: None for site in sites if site.instr.location is not None}
    return tuple((text, place) for place in list(places)[:MOST_NOTES])
