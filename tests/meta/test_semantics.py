"""Analyses ask a row what it is to them, never what it is called: a new instruction of a known kind needs no edit."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nvbackend.intrinsics.catalogue import rows
from tests.support.source import PACKAGE, Source, sources

ASKING = ("isel.protocols", "isel.flow", "isel.machine", "isel.verify", "builder")
"""The rooms that may not look at the names of instructions."""
OF_FAMILIES = {
    "builder.attached.matched": "the text of another compiler has nothing but a spelling",
    "builder.scopes.in_functions": "what ptxas takes in a called function depends on the family",
    "isel.machine.function": "a pseudo-instruction has nothing but a name",
    "isel.machine.register_room": "what ptxas makes of an mma depends on the axes of its family",
}
"""Modules that may ask for a name, with why."""
NAMES = ("opcode", "family", "ptx")
TEXT_METHODS = ("startswith", "endswith", "partition", "rpartition", "split", "removeprefix", "removesuffix")
FOR_PEOPLE = ("rules", "text")
"""Modules of messages, which name instructions."""


def asking() -> list[Source]:
    prefixes = tuple(f"nvbackend.{room}." for room in ASKING)
    return [source for source in sources(PACKAGE) if source.module.startswith(prefixes)]


def test_no_analysis_compares_the_name_of_an_instruction() -> None:
    found = [f"{source.module}:{line}" for source in asking() for line in _judged(source.tree)]
    allowed = tuple(f"nvbackend.{module}:" for module in OF_FAMILIES)
    assert [one for one in found if not one.startswith(allowed)] == []
    assert {one.rpartition(":")[0] for one in found} == {one.rstrip(":") for one in allowed}


def _judged(tree: ast.AST) -> Iterator[int]:
    """The lines where a name decides: compared, looked up, taken apart, or asked how it begins."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        match node:
            case ast.Compare():
                parts = [node.left, *node.comparators]
            case ast.Subscript():
                parts = [node.slice]
            case ast.Match():
                parts = [node.subject]
            case ast.Call(func=ast.Attribute(attr="get" | "match" | "fullmatch" | "search")):
                parts = node.args
            case ast.Call(func=ast.Attribute(attr=method)) if method in TEXT_METHODS:
                parts = [node.func.value]  # type: ignore[attr-defined]
        named = [one for part in parts for one in ast.walk(part)]
        if any(isinstance(one, ast.Attribute) and one.attr in NAMES and not _is_of_type(one) for one in named):
            yield node.lineno


def _is_of_type(attribute: ast.Attribute) -> bool:
    """Whether it is the PTX name of an element type, and not of a row."""
    return attribute.attr == "ptx" and "row" not in ast.dump(attribute.value)


def test_no_analysis_has_the_name_of_an_instruction() -> None:
    opcodes = {text for row in rows() for text in (row.opcode, row.ptx) if "." in text}
    beginnings = {text[: at + 1] for text in opcodes for at, letter in enumerate(text) if letter == "."}
    found = [
        f"{source.module}:{node.lineno}: {node.value!r}"
        for source in asking()
        if not source.module.startswith("nvbackend.builder") and source.module.rpartition(".")[2] not in FOR_PEOPLE
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and node.value in opcodes | beginnings
    ]
    assert found == []
