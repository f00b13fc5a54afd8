"""A thing is called what it is: `one`, `found` and `given` say nothing about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.source import PACKAGE, Source, sources

SAY_NOTHING = frozenset({"one", "found", "given"})
"""Names of no variable, parameter, field or function. The values that a rule's texts show may be `given`."""
NOT_YET = ("nvbackend.simulator", "nvbackend.dry_run")
"""Rooms in which things are still called so."""
RIGHT = {
    "nvbackend.builder.lower.expressions": {"one"},  # the constant 1, beside `zero`
    "nvbackend.builder.ops.math.power": {"one"},  # likewise
    "nvbackend.ptx.lexer": {"found"},  # what a reader found, where it expected something else
}
FIELDS = ("id", "attr", "arg", "name", "rest")
"""Of syntax nodes, those that hold an identifier."""


def _empty_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The names in `tree` that say nothing, where they are made, with their lines; a keyword is made elsewhere."""
    for node in ast.walk(tree):
        if type(node) is not ast.keyword and not isinstance(getattr(node, "ctx", None), ast.Load):
            for field in FIELDS:
                if (name := getattr(node, field, None)) in SAY_NOTHING:
                    yield name, getattr(node, "lineno", 0)


def _looked_at() -> list[Source]:
    return [source for source in sources(PACKAGE) if not source.module.startswith(NOT_YET)]


def test_names_say_what_a_thing_is() -> None:
    files = _looked_at()
    assert len(files) > 300
    assert [
        f"{source.path.name}:{line}: {name}"
        for source in files
        for name, line in _empty_names(source.tree)
        if name not in RIGHT.get(source.module, ())
    ] == []


def test_the_exceptions_are_needed() -> None:
    used = {
        source.module: {name for name, _ in _empty_names(source.tree)}
        for source in _looked_at()
        if source.module in RIGHT
    }
    assert used == RIGHT


def test_every_kind_of_name_is_seen() -> None:
    texts = (
        "one = 1",
        "one: int = 1",
        "def f(one): ...",
        "def f(*, one): ...",
        "def one(): ...",
        "class C:\n    one: int",
        "self.one = 1",
        "[0 for one in ()]",
        "lambda one: 0",
        "if one := 1: ...",
        "try: ...\nexcept E as one: ...",
        "match x:\n    case {'a': one}: ...",
        "match x:\n    case {**one}: ...",
        "match x:\n    case [*one]: ...",
        "with x as one: ...",
    )
    assert [text for text in texts if not list(_empty_names(ast.parse(text)))] == []
    assert list(_empty_names(ast.parse("f(one=1, given=one).found"))) == []
