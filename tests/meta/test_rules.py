"""Rules as declared, and the calls that break them."""

from __future__ import annotations

import functools
import re
from collections import Counter

from tests.support.process import ROOT
from tests.support.rule_catalogue import Declared, breakings, declared_rules, fields
from tests.support.source import sources

RULES = declared_rules()
RUN = ("nvbackend.simulator", "nvbackend.dry_run")
"""Where kernels are run, each once."""

ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)+")
"""A family and what must hold there, such as wgmma.n-step."""


def test_ids_are_unique() -> None:
    """What runs a kernel sees what others refuse before: the same mistake has the same id there."""
    running = [[one for one in RULES if one.module.startswith(part)] for part in RUN]
    assert [len({one.rule.id for one in part}) for part in running] == [len(part) for part in running]
    counted = Counter(one.rule.id for one in RULES if not one.module.startswith(RUN))
    assert {id for id, count in counted.items() if count > 1} == set()
    assert counted["target.unknown"] == 1


def test_a_rule_says_what_how_and_why() -> None:
    texts = {
        declared.rule.id: (declared.rule.message, declared.rule.fix, declared.rule.why, declared.rule.reference)
        for declared in RULES
    }
    assert [id for id in texts if not ID.fullmatch(id)] == []
    assert [id for id, parts in texts.items() if any(not text or text != text.strip() for text in parts)] == []


def test_texts_are_formats_over_named_values() -> None:
    names = {one.rule.id: fields(one.rule.message) | fields(one.rule.fix) for one in RULES}
    assert [(id, name) for id, found in names.items() for name in found if not name.isidentifier()] == []


def test_every_call_gives_the_values_that_the_texts_need() -> None:
    calls = list(breakings())
    assert calls
    missing = [
        f"{call.module}:{call.line} {call.rule.id} needs {sorted(lacking)}"
        for call in calls
        if call.values is not None and (lacking := (fields(call.rule.message) | fields(call.rule.fix)) - call.values)
    ]
    assert missing == []


def test_some_test_names_the_rule() -> None:
    """Every rule is broken by a test that says which: by id, by constant, or by what is after a family's dot."""
    assert [declared.rule.id for declared in RULES if not _is_named(declared)] == []


def _is_named(declared: Declared) -> bool:
    id = declared.rule.id
    family, _, part = id.partition(".")
    whole = rf"(?<![\w.-]){re.escape(id)}(?![\w-])"
    constant = rf"\b{declared.name}\b" if "_" in declared.name else whole
    parts = (rf"[\"']{re.escape(family)}\.[\"'{{]", rf"[\"']{re.escape(part)}[\"']")
    return any(
        (id in text and re.search(whole, text))
        or (declared.name in text and re.search(constant, text))
        or (part in text and all(re.search(each, text) for each in parts))
        for text in _tests()
    )


@functools.cache
def _tests() -> tuple[str, ...]:
    """The tests' texts, less the backslashes of regular expressions and less this folder, which breaks no rule."""
    found = (source for source in sources("tests") if not source.module.startswith("tests.meta"))
    return tuple(source.text.replace("\\", "") for source in found)


def test_a_document_that_a_rule_refers_to_is_here_and_has_the_section() -> None:
    """A reader of a diagnostic can open what it says to see: files of the repository, by their heading."""
    named = [
        (declared.rule.id, *found.groups())
        for declared in RULES
        for found in re.finditer(r"([\w/]+\.md), ([^;]+)", declared.rule.reference)
    ]
    assert named
    for rule, file, heading in named:
        headings = re.findall(r"^## (?:\d+\. )?(.+)$", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
        assert heading in headings, rule
    assert [declared.rule.id for declared in RULES if re.search("DESIGN|HARDWARE", declared.rule.reference)] == []
