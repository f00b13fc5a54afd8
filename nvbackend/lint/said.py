"""What diagnostics of PTX say: their places in the text and in its source, and those that are found round by round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nvbackend.diagnostics import Diagnostic, Location, Rule
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.lint import rules
from nvbackend.lint.lifted.lift import Lifted, Line
from nvbackend.lint.numbers.addresses import Addresses
from nvbackend.lint.numbers.by_thread import CtaValues
from nvbackend.lint.numbers.cta import place_in_shared
from nvbackend.lint.numbers.touched import said
from nvbackend.lint.rounds.phases import BarrierWaits, HangingWait
from nvbackend.lint.rounds.releases import Releases
from nvbackend.lint.rounds.stages import Late, Stages
from nvbackend.lint.rounds.written_out import WrittenOut, written_out

_NAMED = 3
"""Other waits that hang, of those that a message names."""
Notes = tuple[tuple[str, Location | None], ...]
_WAITS: Mapping[Completion | None, str] = {
    Completion.COPY_GROUP: "cp.async.wait_group",
    Completion.BULK_GROUP: "cp.async.bulk.wait_group.read",
    Completion.MMA_GROUP: "wgmma.wait_group.sync.aligned",
}


def round_by_round(lifted: Lifted, addresses: Addresses) -> Iterator[Diagnostic]:
    """What is wrong in some round of a loop: of each kind the first, in the order in which a thread comes to it."""
    out = written_out(lifted)
    if out is None:
        return
    values = CtaValues(out.lifted)
    told: set[Rule] = set()
    for late in Stages(out, values).find():
        rule = rules.COPY_IN_FLIGHT if late.kind == "read" else rules.WRITTEN_IN_FLIGHT
        if rule not in told:
            told.add(rule)
            yield _late(out, late, rule)
    for early in [*Releases(out, values).find()][:1]:
        yield _early(out, early)
    yield from _hanging(out, BarrierWaits(out, values, addresses).find())


def _hanging(out: WrittenOut, waits: Sequence[HangingWait]) -> Iterator[Diagnostic]:
    """The first wait that hangs; others may hang because it does."""
    for first in waits[:1]:
        instruction = head_of(out.lifted.lines[first.position].instruction.opcode)
        place = place_in_shared(out.lifted, first.address)
        if first.phase is None:
            yield at_line(out.lifted, first.position, rules.MBARRIER_INIT, (), instruction=instruction, place=place)
            continue
        others = dict.fromkeys(out.lifted.lines[each.position].location for each in waits)
        notes = [
            ("threads hang here, too", each) for each in others if each != out.lifted.lines[first.position].location
        ]
        yield at_line(
            out.lifted,
            first.position,
            rules.MBARRIER_STUCK,
            tuple(notes[:_NAMED]),
            instruction=instruction,
            place=place,
            phase=first.phase,
            round=_round_of(out, first.position),
        )


def _late(out: WrittenOut, late: Late, rule: Rule) -> Diagnostic:
    line, issuer = out.lifted.lines[late.position], out.lifted.lines[late.issuer]
    wait, pending = _WAITS[said(issuer).issues], max(late.age - 1, 0)
    ended = f" where the loop ends after round {late.ends}" if late.ends else ""
    values: dict[str, object] = {"round": ended or _round_of(out, late.position)}
    if rule is rules.WRITTEN_IN_FLIGHT:
        use = "writing" if late.kind == "overwritten" else "reading"
        values |= {"wait": wait, "pending": pending, "use": use}
    elif late.age == 0:
        commit = "cp.async.commit_group"
        values |= {"reason": f"no {commit} has closed its group, so no wait covers it"}
        values |= {"fix": f"put {commit} after the copies, and {wait} 0 and a barrier before this line"}
    else:
        values |= {"reason": f"no {wait} that completes its group is between the two"}
        values |= {"fix": f"put {wait} {pending} and a barrier before this line, or close each group that waits count"}
    head = head_of(line.instruction.opcode)
    notes = (("the operation is issued here", issuer.location),)
    return at_line(out.lifted, late.position, rule, notes, instruction=head, issuer=issuer_of(issuer), **values)


def _early(out: WrittenOut, early: Late) -> Diagnostic:
    """An arrival that comes before the wait for what reads the stage."""
    line, issuer = out.lifted.lines[early.position], out.lifted.lines[early.issuer]
    wait = _WAITS[Completion.MMA_GROUP]
    return at_line(
        out.lifted,
        early.position,
        rules.RELEASED,
        (("the operation is issued here", issuer.location),),
        release=f"this {head_of(line.instruction.opcode)}",
        issuer=issuer_of(issuer),
        reason=f"no {wait} that completes its group is between the two{_round_of(out, early.position)}",
        fix=f"put {wait} {max(early.age - 1, 0)} before it",
    )


def _round_of(out: WrittenOut, position: int) -> str:
    """In which round of its loop an instruction is."""
    number = out.rounds[position]
    return f" in round {number} of the loop" if number else ""


def at_line(lifted: Lifted, position: int, rule: Rule, notes: Notes, **values: object) -> Diagnostic:
    """A diagnostic at an instruction."""
    line = lifted.lines[position]
    return with_source(rule.diagnose(at=line.location, notes=notes, **values), line.source)


def with_source(diagnostic: Diagnostic, source: Location | None) -> Diagnostic:
    """With the line of the program that the PTX was compiled from, where that is known."""
    if source is None:
        return diagnostic
    return replace(diagnostic, notes=(*diagnostic.notes, ("compiled from this line", source)))


def head_of(opcode: str) -> str:
    """The spelling without the qualifiers of shape and type."""
    parts = opcode.split(".")
    return ".".join(parts[: 3 if parts[0] == "cp" else 2])


def place_of(location: Location) -> str:
    """What a sentence calls a line of the text."""
    return f"line {location.line}"


def issuer_of(line: Line) -> str:
    """What a sentence calls an instruction elsewhere."""
    return f"the {head_of(line.instruction.opcode)} of {place_of(line.location)}"
