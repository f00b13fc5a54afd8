"""Copies that complete on another mbarrier than the one on which their bytes are announced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nvbackend.isel.machine.naming import with_line
from nvbackend.isel.protocols.mbarrier import rules
from nvbackend.isel.protocols.mbarrier.finding import CountFinding
from nvbackend.isel.protocols.mbarrier.transactions import bytes_of
from nvbackend.isel.protocols.mbarrier.uses import Use


def redirected(findings: Iterable[CountFinding]) -> list[CountFinding]:
    """The findings, with one for both barriers where what one gets too much is what another one lacks."""
    left = list(findings)
    told = []
    for over in list(left):
        for short in list(left):
            astray = _between(over, short) if over in left and short in left else None
            if astray is not None:
                told.append(astray)
                left = [finding for finding in left if finding is not over and finding is not short]
    return [*left, *told]


def _between(over: CountFinding, short: CountFinding) -> CountFinding | None:
    """Where some copies of the one barrier bring just what the other one lacks, and go by turns with its own."""
    announced, brought = _bytes(short)
    if announced <= brought:
        return None
    copies = [use for use in _copies(over) if bytes_of(use) == announced - brought]
    swapped = _copies(short) if not copies else []
    if not copies and _bytes(over) == (brought, announced):
        copies = _copies(over)
    elif _more(over) != announced - brought:
        return None
    if not copies:
        return None
    copy = copies[-1]
    fix = f"let {with_line(copy.site.instr)} complete on {short.use.cell}"
    if swapped:
        fix += f", and {with_line(swapped[-1].site.instr)} on {over.use.cell}"
    expected, had = _bytes(over)
    values = (
        *(("copy", with_line(copy.site.instr)), ("gets", had), ("announces", expected)),
        *(("other", str(short.use.cell)), ("bytes", announced), ("has", brought), ("fix", fix)),
    )
    return CountFinding(rules.WRONG_BARRIER, Use(copy.site, over.use.cell, copy.exact, copy.role), (short.use,), values)


def _bytes(finding: CountFinding) -> tuple[int, int]:
    """What is announced and what is brought."""
    values = dict(finding.values)
    if finding.rule is rules.WRONG_BYTES:
        return _number(values["expected"]), _number(values["brought"])
    if finding.rule is rules.MISSING_BYTES:
        return _number(values["bytes"]), 0
    if finding.rule is rules.UNEXPECTED_BYTES:
        return 0, bytes_of(finding.use) or 0
    return 0, 0


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _more(finding: CountFinding) -> int:
    """How many bytes come that are not announced."""
    announced, brought = _bytes(finding)
    return brought - announced


def _copies(finding: CountFinding) -> list[Use]:
    if finding.rule is rules.UNEXPECTED_BYTES:
        return [finding.use]
    return list(_in_order(finding.others)) if finding.rule is rules.WRONG_BYTES else []


def _in_order(uses: Iterable[Use]) -> Iterator[Use]:
    return iter(sorted(uses, key=lambda use: use.site.position))
