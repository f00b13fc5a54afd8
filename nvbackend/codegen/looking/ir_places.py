"""The places that LLVM IR as text names: nodes of its metadata, and the lines that they lead to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

Place = tuple[str, int]
"""A file and a line of it."""
Nodes = Mapping[str, tuple[str, str]]
"""The kind and the operands of each node, by its number."""

NODE = re.compile(r"^!(\d+) = (?:distinct )?!(\w+)\((.*)\)$")
DBG = re.compile(r",? !dbg !(\d+)")
_OPERAND = re.compile(r'(line|scope|file|filename): (?:"(.*?)"|!?(\w+))')


def nodes_of(lines: Iterable[str]) -> Nodes:
    """The nodes of a text."""
    return {match[1]: (match[2], match[3]) for line in lines if (match := NODE.match(line))}


def place_in(line: str, nodes: Nodes) -> Place | None:
    """The place of an instruction's line; None where it has none."""
    used = DBG.search(line)
    return None if used is None else _place_of(used[1], nodes)


def _place_of(node: str, nodes: Nodes) -> Place | None:
    """The place of a DILocation, whose scope leads to its file."""
    kind, operands = nodes.get(node, ("", ""))
    if kind != "DILocation":
        return None
    values = _operands(operands)
    scope = values.get("scope", "")
    while scope and "file" not in (of_scope := _operands(nodes.get(scope, ("", ""))[1])):
        scope = of_scope.get("scope", "")
    file = _operands(nodes.get(of_scope.get("file", ""), ("", ""))[1]).get("filename", "") if scope else ""
    line = int(values.get("line", 0))
    return (file, line) if file and line else None


def _operands(text: str) -> dict[str, str]:
    return {name: quoted or plain for name, quoted, plain in _OPERAND.findall(text)}
