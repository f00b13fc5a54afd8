"""What users read is plain English: rules, what fills them in, and the sources that they name."""

from __future__ import annotations

import ast
import re

from tests.support.process import ROOT
from tests.support.rule_catalogue import declared_rules
from tests.support.source import PACKAGE, sources

FOREIGN = re.compile(
    r"\bcan not\b|(?<!there )(?<!There )\b(is|are) no\b|\bstands?\b|\b(is|are) told\b|\bwhoever\b|\bbehind\b"
    r"|\bfor ever\b|\bin front of\b|\bis not there\b|\bseed\b"
)
"""What a native engineer does not write, and the name that only this project's authors know of a document."""


def test_rules_are_plain_english() -> None:
    rules = [declared.rule for declared in declared_rules()]
    texts = [(rule.id, text) for rule in rules for text in (rule.message, rule.fix, rule.why, rule.reference)]
    assert [text for text in texts if FOREIGN.search(text[1])] == []


def test_what_fills_a_rule_in_is_plain_english() -> None:
    """Text in the code, less docstrings: what is not part of a rule becomes a part of some diagnostic."""
    found = []
    for source in sources(PACKAGE):
        documentation = {
            id(node.value)
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        found += [
            f"{source.module}:{node.lineno}: {node.value}"
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
            if " " in node.value and FOREIGN.search(node.value)
        ]
    assert found == []


def test_what_is_printed_is_plain_english() -> None:
    """The diagnostics of all examples, less the programs' own lines and names."""
    for file in sorted((ROOT / "tests/rules/goldens").glob("*.txt")):
        said = [
            line for line in file.read_text(encoding="utf-8").splitlines() if not re.match(r" *(at|called from) ", line)
        ]
        without_ids = [re.sub(r"^(error|warning)\[.*?\]", "", line) for line in said]
        assert [line for line in without_ids if FOREIGN.search(line)] == [], file.name
