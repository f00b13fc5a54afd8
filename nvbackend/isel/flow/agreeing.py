"""Branches that agree: what an analysis of paths finds is certain only where conditions let some thread go that way.

Two branches on one condition are taken alike, so no thread goes through the first and around the second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product

from nvbackend.diagnostics import Diagnostic
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.isel.flow.finished import with_blocks
from nvbackend.isel.flow.paths import everyone
from nvbackend.isel.machine.agreement import Formula
from nvbackend.isel.machine.function import MachineBlock, MachineFunction

_FACTS = 6
"""The facts that are tried, those of the most branches: each doubles the ways."""


def certain(
    check: Callable[[MachineFunction], Iterable[Diagnostic]], function: MachineFunction, scope: Scope
) -> Iterator[Diagnostic]:
    """What `check` finds of `function`, without what it finds of none of the ways that conditions leave.

    One way alone may show a mistake at another line than all ways together. The mistake is reported there, unless its
    rule is broken elsewhere too.
    The conditions are those that all threads of the `scope` find alike: that of those whose steps `check` relates.
    """
    findings = list(check(function))
    formulas = _formulas(function) if findings else {}
    shared = [fact for fact, branches in _counted(formulas, scope).most_common(_FACTS) if branches > 1]
    if not shared:
        return iter(findings)
    left, stands = set(range(len(findings))), set[int]()
    elsewhere: dict[tuple[object, ...], Diagnostic] = {}
    for chosen in product((True, False), repeat=len(shared)):
        way = _way(function, formulas, dict(zip(shared, chosen, strict=True)))
        again = {_place(each): each for each in check(way)}
        stands |= {index for index in left if _place(findings[index]) in again}
        left -= stands
        elsewhere = again | elsewhere
        if not left:
            break
    told = {findings[index].rule_id for index in stands}
    lost = {findings[index].rule_id for index in left} - told
    return iter(
        [
            *(each for index, each in enumerate(findings) if index in stands),
            *(each for each in elsewhere.values() if each.rule_id in lost),
        ]
    )


def _formulas(function: MachineFunction) -> dict[str, Formula]:
    branches = ((name, block.branch) for name, block in function.blocks.items() if len(block.successors) > 1)
    return {name: branch.formula for name, branch in branches if branch is not None and branch.formula is not None}


def _counted(formulas: Mapping[str, Formula], scope: Scope) -> Counter[int]:
    """In how many branches each fact is."""
    each = ({fact.fact for fact in formula.facts() if fact.uniform >= scope} for formula in formulas.values())
    return Counter(fact for facts in each for fact in sorted(facts))


def _way(function: MachineFunction, formulas: Mapping[str, Formula], known: Mapping[int, bool]) -> MachineFunction:
    """`function` as threads run it that find these facts."""
    threads = everyone(function)
    taken = {name: _taken(function.blocks[name], formula, known, threads) for name, formula in formulas.items()}
    return with_blocks(function, taken)


def _taken(block: MachineBlock, formula: Formula, known: Mapping[int, bool], everyone: int) -> MachineBlock:
    holds, fails = formula.threads(known, everyone)
    if everyone in (holds, fails):
        return replace(block, successors=[block.successors[holds != everyone]])
    return replace(block, sides=(holds, fails)) if formula.is_by_index(known) else block


def _place(finding: Diagnostic) -> tuple[object, ...]:
    return finding.rule_id, finding.location
