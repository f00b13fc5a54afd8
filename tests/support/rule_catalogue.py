"""Every rule that the package declares, and every place that breaks one."""

from __future__ import annotations

import ast
import functools
import importlib
import string
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from nvbackend.diagnostics import Rule
from nvbackend.isel.target.target import Gate
from tests.support.source import PACKAGE, Source, sources

DECLARE = ("Rule", "Gate")
"""A module that names neither declares no rule, and parsing the others costs each worker seconds."""
MAKERS = ("diagnose", "fail")
RESERVED = {"at", "notes"}
"""Keywords of Rule.diagnose and Rule.fail that are not values."""


@dataclass(frozen=True, slots=True)
class Breaking:
    """A call that makes a diagnostic of `rule`, with the names of the values given; None for values given by `**`."""

    rule: Rule
    module: str
    line: int
    values: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Declared:
    """A rule, and the module and name that it is declared under."""

    rule: Rule
    module: str
    name: str


@functools.cache
def declared_rules() -> tuple[Declared, ...]:
    """Each rule object of the package once."""
    found: dict[int, Declared] = {}
    named = [
        (source.module, name, getattr(importlib.import_module(source.module), name, None))
        for source in sources(PACKAGE)
        if any(word in source.text for word in DECLARE)
        for name in _assigned(source.tree)
    ]
    for module, name, value in sorted(named, key=lambda one: not isinstance(one[2], Rule)):  # lists of rules come last
        for rule in _rules_in(value):
            found.setdefault(id(rule), Declared(rule, module, name))
    return tuple(found.values())


def rules_of(module: str) -> list[Rule]:
    """The rules that a module of the package declares, in its order."""
    return [declared.rule for declared in declared_rules() if declared.module == f"nvbackend.{module}"]


def _assigned(tree: ast.Module) -> list[str]:
    """The names that the module gives values itself, in their order; what it imports is declared elsewhere."""
    targets = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    annotated = (node.target for node in tree.body if isinstance(node, ast.AnnAssign))
    return [target.id for target in (*targets, *annotated) if isinstance(target, ast.Name)]


def _rules_in(value: Any) -> Iterator[Rule]:
    if isinstance(value, Rule):
        yield value
    elif isinstance(value, Gate):
        yield value.rule
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _rules_in(inner)
    elif isinstance(value, tuple | list | frozenset):
        for inner in value:
            yield from _rules_in(inner)


def breakings() -> Iterator[Breaking]:
    """Every call `RULE.fail(...)` or `RULE.diagnose(...)` whose rule is a name of a module."""
    for source in sources(PACKAGE):
        module = sys.modules.get(source.module) or importlib.import_module(source.module)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAKERS:
                rule = _looked_up(node.func.value, module)
                if isinstance(rule, Rule):
                    yield _breaking(rule, source, node)


def _breaking(rule: Rule, source: Source, call: ast.Call) -> Breaking:
    names = {keyword.arg for keyword in call.keywords}
    values = None if None in names else frozenset(name for name in names if name is not None) - RESERVED
    return Breaking(rule, source.module, call.lineno, values)


def _looked_up(node: ast.expr, module: ModuleType) -> object:
    if isinstance(node, ast.Name):
        return getattr(module, node.id, None)
    if isinstance(node, ast.Attribute):
        return getattr(_looked_up(node.value, module), node.attr, None)
    return None


def fields(text: str) -> frozenset[str]:
    """The values that a format string takes."""
    parsed = (field for _, field, _, _ in string.Formatter().parse(text) if field is not None)
    return frozenset(field.partition(".")[0].partition("[")[0] for field in parsed)
