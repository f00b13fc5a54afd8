"""Everything that is certainly wrong with a PTX text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nvbackend.diagnostics import Diagnostic, DiagnosticError, Location, Rule, Severity, told_once, user_facing
from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.finished import finished
from nvbackend.isel.select.rows import faults
from nvbackend.isel.target.target import Target
from nvbackend.lint import in_flight, rules
from nvbackend.lint.between import Between
from nvbackend.lint.in_flight import InFlightMistake
from nvbackend.lint.lifted.ends import with_ends_apart
from nvbackend.lint.lifted.lift import Lifted, lift
from nvbackend.lint.lifted.matching import rows_of
from nvbackend.lint.memory import SharedMemory
from nvbackend.lint.missing import Absent
from nvbackend.lint.numbers.addresses import Addresses
from nvbackend.lint.numbers.touched import said
from nvbackend.lint.one_thread import storing_threads
from nvbackend.lint.one_way import Way, mistakes_of_one_way, possible
from nvbackend.lint.said import at_line, head_of, issuer_of, place_of, round_by_round, with_source
from nvbackend.lint.written_words import WrittenWords
from nvbackend.ptx import Module, parse, resolve
from nvbackend.ptx.vocabulary import NEWEST, unknown_word

_COMMITS: Mapping[Completion | None, str] = {
    Completion.MMA_GROUP: "wgmma.commit_group.sync.aligned",
    Completion.BULK_GROUP: "cp.async.bulk.commit_group",
}
_WAITS: Mapping[Completion | None, str] = {
    Completion.MMA_GROUP: "wgmma.wait_group.sync.aligned",
    Completion.BULK_GROUP: "cp.async.bulk.wait_group.read",
    Completion.LOAD_WAIT: "tcgen05.wait::ld.sync.aligned",
}
_NEVER = frozenset((rules.NEVER_COMMITTED.id, rules.NEVER_WAITED.id))
"""What has consequences in many rounds of many loops, which are not reported beside it."""
_NAMED = 4
"""Registers that a message names."""


@user_facing
def lint(text: str, source: str = "<ptx>") -> list[Diagnostic]:
    """What is certainly wrong with a PTX text of any compiler, in the order of the text; nothing for a right one.

    An instruction, type or modifier that PTX does not have is reported, and nothing else of its function. Each other
    one is looked up by its spelling and checked against the `.target` and `.version` of the text. Along the control
    flow: registers of wgmma and tcgen05.ld that are used before a wait, tensor memory that an mma reads before
    tcgen05.wait::st, wgmma without its fence or its commit, shared memory that is filled again while wgmma or a bulk
    store reads it, ordinary writes that the async proxy reads without fence.proxy.async, groups that the kernel
    leaves. In the first rounds of each loop, by the addresses that each thread computes: shared memory that is read
    while cp.async fills it, mbarriers that nothing initialises, and phases that nothing completes. `source` is the
    file that diagnostics name; where the text has `.loc`, a note names the line of the program that it was compiled
    from.
    Whatever is not known is not reported. Raises ptx.syntax, ptx.directive, ptx.undeclared and ptx.redeclared for what
    is not PTX.
    """
    module = parse(text, source)
    names = resolve(module)
    target, is_known = _target(module)
    diagnostics: list[Diagnostic] = []
    for function in module.functions:
        lifted = with_ends_apart(lift(module, function, names, target))
        lifted.function = finished(lifted.function)
        misspelt = list(_misspelt(lifted)) if module.version <= NEWEST else []
        diagnostics += misspelt
        if not misspelt:
            diagnostics += [*_gates(lifted), *_protocols(lifted)] if is_known else _protocols(lifted)
    return told_once(sorted(diagnostics, key=lambda diagnostic: diagnostic.location.line if diagnostic.location else 0))


def _target(module: Module) -> tuple[Target, bool]:
    """The target of the text, and whether it is one whose instructions are known."""
    name = module.target[0] if module.target else ""
    for version in (module.version, None):
        try:
            return Target.parse(name, version), True
        except DiagnosticError:
            continue
    return Target.parse("sm_100a"), False


def _misspelt(lifted: Lifted) -> Iterator[Diagnostic]:
    """The opcodes with a word that PTX does not have, each at its first place."""
    places: dict[str, list[int]] = {}
    for place, line in enumerate(lifted.lines):
        places.setdefault(line.instruction.opcode, []).append(place)
    for opcode, (first, *others) in places.items():
        unknown = unknown_word(lifted.lines[first].instruction.parts)
        if unknown is not None:
            yield at_line(
                lifted,
                first,
                rules.OPCODE,
                (),
                kind="instruction" if unknown.is_instruction else "type or modifier",
                word=unknown.word,
                opcode=opcode,
                places=f" and {len(others)} more of this function" if others else "",
                question=f"; is {unknown.nearest} meant?" if unknown.nearest else "",
            )


def _gates(lifted: Lifted) -> Iterator[Diagnostic]:
    """What the target does not have. Of several rows with one spelling, one that it has is enough."""
    for line in lifted.lines:
        verdicts = [
            [
                diagnostic
                for diagnostic in faults(row, lifted.function.target, {}, line.location)
                if diagnostic.severity is Severity.ERROR
            ]
            for row in rows_of(line.instruction.opcode)
        ]
        if verdicts and all(verdicts):
            yield from (with_source(diagnostic, line.source) for diagnostic in verdicts[0])


def _protocols(lifted: Lifted) -> Iterator[Diagnostic]:
    addresses = Addresses(lifted)
    shared = SharedMemory(lifted, addresses)
    missing = list(_missing(lifted, addresses))
    unordered = list(_unordered(lifted, addresses)) if not any(each.rule_id in _NEVER for each in missing) else []
    missing += unordered
    flying = list(_in_flight(lifted, shared, Absent(lifted, addresses))) or list(_left_alone(lifted, shared))
    yield from (*missing, *flying)
    told = {diagnostic.rule_id for diagnostic in missing}
    if not told & _NEVER:
        hidden = told | ({rules.WRITTEN_IN_FLIGHT.id, rules.RELEASED.id} if flying else set())
        yield from (each for each in round_by_round(lifted, addresses) if each.rule_id not in hidden)
    stores = any(said(line).issues is Completion.BULK_GROUP for line in lifted.lines)
    for site, writer in [*shared.unfenced()] or (WrittenWords(lifted).find() if stores else ()):
        line = lifted.lines[writer]
        yield at_line(
            lifted,
            site.position,
            rules.PROXY_FENCE,
            (("the memory is written here", line.location),),
            reader=site.instr.opcode,
            writer=place_of(line.location),
        )


def _in_flight(lifted: Lifted, shared: SharedMemory, absent: Absent) -> Iterator[Diagnostic]:
    """What is used while an operation has it.

    A tcgen05.wait::ld after the use is as good as one before it: ptxas makes a NOP of it, and has each use of a
    register wait for its load. Triton 3.9 prints such uses.
    """
    told: set[tuple[str, object]] = set()
    flying = in_flight.find(lifted, shared.releases, shared.cyclic)
    everywhere = ((each, None) for each in possible(lifted, flying.mistakes))
    for mistake, way in everywhere if flying.mistakes else mistakes_of_one_way(lifted, flying.doubtful):
        if said(lifted.lines[mistake.issuer]).issues is Completion.LOAD_WAIT and absent.waits_later(
            mistake.site.position
        ):
            continue
        cause = _cause(lifted, mistake)
        if cause not in told:
            told.add(cause)
            yield _diagnostic(lifted, mistake, way)


def _left_alone(lifted: Lifted, shared: SharedMemory) -> Iterator[Diagnostic]:
    """What a thread that alone issues bulk stores does wrong with them: the first mistake."""
    for alone in storing_threads(lifted):
        for mistake in in_flight.find(alone, shared.releases, shared.cyclic).mistakes:
            if said(lifted.lines[mistake.issuer]).issues is Completion.BULK_GROUP:
                yield _diagnostic(alone, mistake)
                return


_MISSING: Mapping[str, tuple[Rule, str]] = {
    "uncommitted": (rules.NEVER_COMMITTED, "commit"),
    "unwaited": (rules.NEVER_WAITED, "wait"),
    "uninitialised": (rules.MBARRIER_INIT, "place"),
    "read": (rules.COPY_IN_FLIGHT, ""),
}
"""The rule of what is missing, and what its texts call that which is wanted."""


def _missing(lifted: Lifted, addresses: Addresses) -> Iterator[Diagnostic]:
    for each in Absent(lifted, addresses).find():
        rule, name = _MISSING[each.kind]
        head = head_of(lifted.lines[each.position].instruction.opcode)
        values = {name: each.wanted} if name else {}
        notes: tuple[tuple[str, Location | None], ...] = ()
        if each.issuer >= 0:
            issuer = lifted.lines[each.issuer]
            reason, fix = (
                f"no {each.wanted} comes before it on any path",
                f"put {each.wanted} and a barrier before this line",
            )
            values = {"issuer": issuer_of(issuer), "round": "", "reason": reason, "fix": fix}
            notes = (("the copy is issued here", issuer.location),)
        yield at_line(lifted, each.position, rule, notes, instruction=head, **values)


def _unordered(lifted: Lifted, addresses: Addresses) -> Iterator[Diagnostic]:
    """What is used before the wait that nothing on its ways has."""
    for each in Between(lifted, addresses).find():
        issuer = lifted.lines[each.issuer]
        head = head_of(lifted.lines[each.position].instruction.opcode)
        rule, values = rules.TMEM_UNWRITTEN, dict[str, object]()
        if each.completion is Completion.BULK_GROUP:
            rule = rules.WRITTEN_IN_FLIGHT
            values = {"round": "", "use": "reading", "wait": _WAITS[each.completion], "pending": 0}
        notes = (("the operation is issued here", issuer.location),)
        yield at_line(lifted, each.position, rule, notes, instruction=head, issuer=issuer_of(issuer), **values)


def _cause(lifted: Lifted, mistake: InFlightMistake) -> tuple[str, object]:
    """What one wait, commit or fence puts right: it is reported at the first place in the text."""
    block = lifted.block_of(mistake.issuer)
    row = lifted.lines[mistake.issuer].row
    return block, (mistake.kind == "unfenced", None if row is None else row.semantics.issues)


def _diagnostic(lifted: Lifted, mistake: InFlightMistake, way: Way | None = None) -> Diagnostic:
    issuer = lifted.lines[mistake.issuer]
    completion = issuer.row.semantics.issues if issuer.row is not None else None
    who = issuer_of(issuer)
    wait, commit = _WAITS.get(completion, ""), _COMMITS.get(completion, "")
    notes: tuple[tuple[str, Location | None], ...] = (("the operation is issued here", issuer.location),)
    if way is not None:
        condition = "is taken" if way.is_taken else "is not taken"
        notes = (*notes, (f"it is so wherever this branch {condition}", lifted.lines[way.position].location))
    here = mistake.site
    line = lifted.lines[here.position]
    registers = _registers(mistake)
    is_open = mistake.age == 0 and bool(commit)
    if mistake.kind in ("read", "written"):
        reason, fix = f"no {wait} is between the two", f"put {wait} before this line"
        if commit:
            fix = f"put {wait} {max(mistake.age - 1, 0)} before this line"
            reason = f"no {wait} that completes its group is between the two"
        if is_open:
            reason = f"no {commit} has closed its group, so no wait covers it"
            fix = f"put {commit} after {who}, and {wait} 0 before this line"
        many = len(mistake.registers) > 1
        return at_line(
            lifted,
            here.position,
            rules.IN_FLIGHT,
            notes,
            registers=registers,
            verb="are" if many else "is",
            accessed=mistake.kind,
            issuer=who,
            them="them" if many else "it",
            reason=reason,
            fix=fix,
        )
    if mistake.kind == "unfenced":
        reason = f"ordinary code computes {registers}" if mistake.registers else "the first wgmma needs one in any case"
        return at_line(
            lifted, here.position, rules.WGMMA_FENCE, (), instruction=head_of(line.instruction.opcode), reason=reason
        )
    if mistake.kind == "uncommitted" or (mistake.kind == "left" and is_open):
        where = "the end of the kernel" if mistake.kind == "left" else f"this {head_of(line.instruction.opcode)}"
        return at_line(lifted, here.position, rules.UNCOMMITTED, notes, where=where, commit=commit, issuer=who)
    if mistake.kind == "left":
        reason = f"no {wait} that completes it comes after it"
        return at_line(lifted, here.position, rules.UNWAITED, notes, issuer=who, reason=reason, wait=wait)
    release = f"this {head_of(line.instruction.opcode)}"
    reason = "no wgmma.wait_group is between the two, in any round of the loop"
    fix = f"put {wait} before it, with the number of groups that may read other stages"
    return at_line(lifted, here.position, rules.RELEASED, notes, release=release, issuer=who, reason=reason, fix=fix)


def _registers(mistake: InFlightMistake) -> str:
    names = [name for _, _, name in mistake.registers]
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
