"""What a kernel's author allows: rules of the protocols that are not reported, in a kernel or in a block of it.

Or that are reported as warnings, or as errors.

Rules on what the target cannot do are never allowed: no author can change that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from nvbackend.diagnostics import Diagnostic, Location, Rule, Severity, caller_location, misspelt
from nvbackend.diagnostics.announce import Suppressed
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.declared import PACKAGE, declared

_PROTOCOLS = ("nvbackend.isel.protocols", "nvbackend.dry_run")
"""The packages whose rules may be allowed: they follow what a kernel does, and an author may know more."""

UNKNOWN = Rule(
    id="allow.unknown",
    message="{given!r} is not the id of a rule",
    fix="{advice}",
    why="Nothing would be allowed.",
    reference="docs/rules.md; docs/guide.md, Allowing a rule",
)
LEGALITY = Rule(
    id="allow.legality",
    message="rule {rule} cannot be {done}: it says what the target, LLVM or the call itself cannot do",
    fix="remove it from {call}, and change what it reports",
    why="The kernel would not build, or be another one than the program says.",
    reference="docs/guide.md, Allowing a rule",
)
FORM = Rule(
    id="allow.form",
    message="{call} takes ids of rules and {what}: {problem}",
    fix="{advice}",
    why=("An allowance is printed with its reason, and a single string would be read as a list of letters."),
    reference="docs/guide.md, Allowing a rule",
)
UNUSED = Rule(
    id="allow.unused",
    message="rule {rule} is allowed{where}, and nothing breaks it there",
    fix="remove the allowance, so that it hides no later mistake",
    why="An allowance that outlives its reason hides the next mistake of that kind.",
    reference="docs/guide.md, Allowing a rule",
    severity=Severity.WARNING,
)
_COPY = "copy the id from the brackets of the message, error[id]"
_NO_REASON = "the author says nothing of it"


@dataclass(slots=True)
class Allowance:
    """One rule that is allowed, in the whole kernel or, with `places`, where a block's instructions are."""

    rule: str
    reason: str
    at: Location | None
    places: set[tuple[str, int]] | None = None
    used: bool = False

    def covers(self, diagnostic: Diagnostic) -> bool:
        """Whether it allows what a diagnostic reports."""
        if diagnostic.rule_id != self.rule:
            return False
        if self.places is None:
            return True
        at = diagnostic.location
        lines = () if at is None else (at, *at.callers)
        return any((line.file, line.line) in self.places for line in lines)


@dataclass(slots=True)
class Allowances:
    """All that a kernel allows, and what was suppressed by it; `own` are the ids of rules that its author has added."""

    every: list[Allowance] = field(default_factory=list)
    open: list[Allowance] = field(default_factory=list)
    suppressed: list[Suppressed] = field(default_factory=list)
    severities: dict[str, Severity] = field(default_factory=dict)
    own: Collection[str] = ()

    def of_kernel(self, allow: Mapping[str, str] | Sequence[str]) -> None:
        """Allow rules in the whole kernel, by their ids, with reasons where it is a mapping.

        Raises allow.form, allow.unknown, allow.legality.
        """
        if isinstance(allow, str):
            problem, advice = f"{allow!r} is one text", f"write allow=({allow!r},), or a mapping of the id to a reason"
            FORM.fail(call="allow=", what="reasons", problem=problem, advice=advice)
        for rule in allow:
            if not isinstance(rule, str):
                problem = f"{rule!r} is not a text"
                FORM.fail(call="allow=", what="reasons", problem=problem, advice=_COPY)
            reason = allow[rule] if isinstance(allow, Mapping) else _NO_REASON
            _check_reason("allow=", rule, reason)
            if not reason.strip():
                advice = "say in words why the rule may be broken, or give the ids alone: allow=(id,)"
                FORM.fail(call="allow=", what="reasons", problem=f"the reason of {rule!r} is empty", advice=advice)
            self.every.append(Allowance(checked(rule, self.own), reason, caller_location()))

    def of_severity(self, severity: Mapping[str, str | Severity]) -> None:
        """Report rules as warnings or as errors, by their ids. Raises allow.form, allow.unknown, allow.legality."""
        for rule, wanted in severity.items():
            chosen = _SEVERITIES.get(wanted) if isinstance(wanted, (str, Severity)) else None
            if not isinstance(rule, str) or chosen is None:
                problem = f"{rule!r} is not a text" if chosen is not None else f"{rule!r} is to be {wanted!r}"
                advice = _COPY if chosen is not None else 'use "warning" or "error"'
                FORM.fail(call="severity=", what="severities", problem=problem, advice=advice)
            self.severities[checked(rule, self.own, "of another severity", "severity")] = chosen

    def begin(self, rules: Sequence[str], reason: str) -> list[Allowance]:
        """Allow rules in a block that begins here."""
        for rule in rules:
            _check_reason("k.allow", rule, reason)
        begun = [Allowance(checked(rule, self.own), reason or _NO_REASON, caller_location(), set()) for rule in rules]
        for each in begun:
            self._note(each, each.at)
        self.every += begun
        self.open += begun
        return begun

    def end(self, begun: Sequence[Allowance]) -> None:
        """The block ends."""
        self.open = [each for each in self.open if not any(each is other for other in begun)]

    def note(self, at: Location | None) -> None:
        """An instruction of the open blocks is at this line."""
        for each in self.open:
            self._note(each, at)

    @staticmethod
    def _note(allowance: Allowance, at: Location | None) -> None:
        if at is not None and allowance.places is not None:
            allowance.places.add((at.file, at.line))

    def kept(self, diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
        """The diagnostics that are not allowed, each of the severity that the kernel gives its rule."""
        kept = []
        for diagnostic in diagnostics:
            by = next((each for each in self.every if each.covers(diagnostic)), None)
            if by is None:
                severity = self.severities.get(diagnostic.rule_id, diagnostic.severity)
                rule = (
                    diagnostic.rule if severity is diagnostic.severity else replace(diagnostic.rule, severity=severity)
                )
                kept.append(replace(diagnostic, rule=rule))
                continue
            by.used = True
            if not any(_is_same(diagnostic, each.diagnostic) for each in self.suppressed):
                self.suppressed.append(Suppressed(diagnostic, by.reason))
        return kept

    def unused(self) -> Iterator[Diagnostic]:
        """A warning for each allowance that allowed nothing."""
        for each in self.every:
            if not each.used:
                where = " in the whole kernel" if each.places is None else " in this block"
                yield UNUSED.diagnose(at=each.at, rule=each.rule, where=where)


def _is_same(diagnostic: Diagnostic, other: Diagnostic) -> bool:
    """Whether the verifier and the dry run both report a mistake."""
    return (diagnostic.rule_id, diagnostic.location) == (other.rule_id, other.location)


def _check_reason(call: str, rule: str, reason: object) -> None:
    if not isinstance(reason, str):
        problem = f"the reason of {rule!r} is {reason!r}, which is not a text"
        FORM.fail(call=call, what="reasons", problem=problem, advice="say in words why the rule may be broken")


_SEVERITIES: dict[str | Severity, Severity] = {
    **{each.value: each for each in Severity},
    **{each: each for each in Severity},
}


def checked(rule: str, own: Collection[str], done: str = "allowed", call: str = "allow") -> str:
    """`rule`, if it is the id of a rule, or one of the kernel's `own`, that can be `done`.

    Raises allow.unknown, allow.legality.
    """
    if not isinstance(rule, str):
        raise TypeError("rules are named by their ids")  # the boundary knows which argument of the call it is
    if rule in own or rule in declared(*_PROTOCOLS):
        return rule
    if rule in declared(PACKAGE):
        LEGALITY.fail(rule=rule, done=done, call=call)
    near = misspelt(rule, sorted([*own, *declared(*_PROTOCOLS)]))
    advice = f"did you mean {near[0]!r}? Otherwise {_COPY}" if near else _COPY
    UNKNOWN.fail(given=rule, advice=advice)
