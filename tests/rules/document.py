"""docs/rules.md, from the declared rules and the examples."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator

from nvbackend import Rule, Severity
from tests.rules import setup
from tests.rules.example import Example
from tests.rules.registry import examples, family_of
from tests.support.process import ROOT
from tests.support.rule_catalogue import declared_rules

GOLDENS = ROOT / "tests" / "rules" / "goldens"
TITLE = """\
# Rules

<!-- Made by `python -m tests.rules`; edit the rules, or the examples in tests/rules. -->

Every error of nvbackend comes from one of these {count} rules. Each rule has its message (values to fill in are in
braces), the reason why it matters on the hardware, and the smallest program that breaks it. Lines that begin with `-`
break the rule, lines that begin with `+` are the fix, and all other lines belong to both programs. `tests/rules` runs
each program of this page. If a fix depends on what is wrong, the page shows the fix for this program ("Fix here").
"""
SETUP = """\
## What the programs begin with

The names of `nvbackend` itself, and

```python
{source}
```
"""


def document() -> str:
    """The text of docs/rules.md."""
    shown = {one.rule: one for one in examples()}
    # Dry runs and the simulator declare ids again, for what the verifier refuses before: the page has its texts.
    last_first = reversed(declared_rules())
    declared = {one.rule.id: one.rule for one in sorted(last_first, key=lambda one: not one.module.startswith(_RUNS))}
    rules = [declared[id] for id in sorted(shown)]
    families = sorted({family_of(id) for id in shown})
    parts = [TITLE.format(count=len(rules)), *_contents(families, rules), SETUP.format(source=_helpers())]
    for family in families:
        parts += [f"## {family}", "", *_imports(one for one in shown.values() if family_of(one.rule) == family)]
        for rule in rules:
            if family_of(rule.id) == family:
                parts += _section(rule, shown[rule.id])
    return "\n".join(parts).rstrip() + "\n"


def _contents(families: Iterable[str], rules: list[Rule]) -> Iterator[str]:
    yield "| family | rules |"
    yield "| --- | --- |"
    for family in families:
        links = (f"[{_name(rule)}](#{_anchor(rule.id)})" for rule in rules if family_of(rule.id) == family)
        yield f"| [{family}](#{family}) | {', '.join(links)} |"
    yield ""


def _name(rule: Rule) -> str:
    return rule.id.partition(".")[2]


def _anchor(heading: str) -> str:
    """What GitHub makes of a heading: no dots."""
    return heading.replace(".", "")


def _helpers() -> str:
    """The setup module's own text, from behind its imports."""
    text = inspect.getsource(setup)
    first = next(node for node in ast.parse(text).body if isinstance(node, ast.Assign | ast.FunctionDef))
    return "\n".join(text.splitlines()[first.lineno - 1 :])


def _imports(shown: Iterable[Example]) -> Iterator[str]:
    """What the examples of a family import from below the package's own names."""
    found: dict[str, None] = {}
    for file in dict.fromkeys(one.file for one in shown):
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("nvbackend.", "tests.support")):
                found[ast.get_source_segment(text, node) or ""] = None
    if found:
        yield from ("```python", *found, "```", "")


def _section(rule: Rule, shown: Example) -> Iterator[str]:
    yield from (f"### {rule.id}", "")
    if _says_something(rule.message):
        warning = " (a warning)" if rule.severity is Severity.WARNING else ""
        yield from (f"> {_one_line(rule.message)}{warning}", "")
    if _says_something(rule.why):
        yield from (rule.why, "")
    if shown.caption:
        yield from (shown.caption, "")
    yield from ("```diff", shown.text(), "```", "")
    yield from (f"{_fix(rule)}Source: {rule.reference}.", "")


_RUNS = ("nvbackend.dry_run", "nvbackend.simulator")
CHOSEN = ("{advice}", "{instead}", "{fix}")
"""Where a fix holds what is chosen by what was written."""
_GLUED = re.compile(r"\w\{[a-z]+\}|\{[a-z]+\}\w")
"""A part of a sentence that a fix has or has not: it touches a word."""


def _fix(rule: Rule) -> str:
    """The fix with its values to fill in; of one that is chosen when the rule is broken, that of the program shown."""
    if _says_something(rule.fix) and not any(value in rule.fix for value in CHOSEN) and not _GLUED.search(rule.fix):
        return f"Fix: {_one_line(rule.fix)}. "
    printed = (GOLDENS / f"{family_of(rule.id)}.txt").read_text(encoding="utf-8")
    found = re.search(
        rf"^(?:error|warning)\[{re.escape(rule.id)}\].*?^  fix: (.*?)$", printed, re.MULTILINE | re.DOTALL
    )
    return f"Fix here: {_one_line(found[1]).rstrip('.')}. " if found else ""


def _says_something(text: str) -> bool:
    """Whether a text says anything before its values are filled in."""
    return bool(re.sub(r"\{[^}]*\}", "", text).strip())


def _one_line(text: str) -> str:
    """A text without line breaks; angle brackets would be taken for HTML, brackets before a parenthesis for a link."""
    return " ".join(text.split()).replace("<", "\\<").replace("](", "]\\(")


def main() -> int:
    """Print the document."""
    sys.stdout.write(document())
    return 0
