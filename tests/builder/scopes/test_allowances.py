"""Which diagnostics allowances keep, suppress and name, against a search of every pair of the two."""

from __future__ import annotations

import random

from nvbackend.builder.scopes.allow import Allowances
from nvbackend.diagnostics import Diagnostic, Location, Rule, Severity

TURNS = 60
RULES = [
    Rule(id=f"own.{name}", message="it is so", fix="change it", why="It is.", reference="none", severity=severity)
    for name, severity in (("first", Severity.ERROR), ("second", Severity.WARNING), ("third", Severity.ERROR))
]
IDS = [rule.id for rule in RULES]


def line(rng: random.Random, callers: int = 0) -> Location:
    above = tuple(line(rng) for _ in range(rng.randint(0, callers)))
    return Location(rng.choice(("one.py", "two.py")), rng.randint(1, 3), "kernel", above)


def lines_of(diagnostic: Diagnostic) -> set[tuple[str, int]]:
    at = diagnostic.location
    return set() if at is None else {(each.file, each.line) for each in (at, *at.callers)}


def test_what_is_allowed_is_kept_from_the_author_and_nothing_else() -> None:
    rng = random.Random(7)
    for _ in range(TURNS):
        allowances = Allowances(own=IDS)
        allowances.of_kernel({rule: f"of {rule}" for rule in rng.sample(IDS, rng.randint(0, 1))})
        wanted = {rule: rng.choice((*Severity, "error", "warning")) for rule in rng.sample(IDS, rng.randint(0, 2))}
        allowances.of_severity(wanted)
        model = [(each.rule, each.reason, None) for each in allowances.every]
        for number in range(rng.randint(0, 3)):
            begun = allowances.begin([rng.choice(IDS)], f"block {number}")
            noted = [line(rng) for _ in range(rng.randint(0, 3))]
            for place in (*noted, None):
                allowances.note(place)
            allowances.end(begun)
            allowances.note(Location("one.py", 99, "kernel"))
            here = begun[0].at
            assert here is not None
            places = {(each.file, each.line) for each in (*noted, here)}
            assert begun[0].places == places
            model.append((begun[0].rule, f"block {number}", places))
        said = [
            rng.choice(RULES).diagnose(at=line(rng, callers=1) if rng.random() < 0.9 else None)
            for _ in range(rng.randint(0, 8))
        ]
        covering = [
            [
                place
                for place, (rule, _, places) in enumerate(model)
                if rule == diagnostic.rule_id and (places is None or places & lines_of(diagnostic))
            ]
            for diagnostic in said
        ]
        kept = allowances.kept(said)
        expected = [diagnostic for diagnostic, by in zip(said, covering, strict=True) if not by]
        assert [(each.rule_id, each.location) for each in kept] == [(each.rule_id, each.location) for each in expected]
        for each in kept:
            own = next(rule.severity for rule in RULES if rule.id == each.rule_id)
            assert each.severity is Severity(wanted.get(each.rule_id, own))
        reasons: dict[object, str] = {}
        for diagnostic, by in zip(said, covering, strict=True):
            if by:
                reasons.setdefault((diagnostic.rule_id, diagnostic.location), model[by[0]][1])
        found = [((each.diagnostic.rule_id, each.diagnostic.location), each.reason) for each in allowances.suppressed]
        assert found == list(reasons.items())
        used = {by[0] for by in covering if by}
        unused = [each.message for each in allowances.unused()]
        assert unused == [
            f"rule {rule} is allowed {'in the whole kernel' if places is None else 'in this block'}, "
            "and nothing breaks it there"
            for place, (rule, _, places) in enumerate(model)
            if place not in used
        ]
