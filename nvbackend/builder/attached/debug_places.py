"""The places of an owner's own language, from the debug metadata of its instructions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from nvbackend.diagnostics import Location
from nvbackend.diagnostics.location import StatedLocation

_DEBUG = "dbg"
KIND, LINES = "emissionKind", "DebugDirectivesOnly"
"""What a DICompileUnit says of what is printed of it, and the kind that is `.loc` alone."""
_WITH_VARIABLES = ("LineTablesOnly", "FullDebug")


def place_of(instruction: ir.Instruction) -> Location | None:
    """The line that an instruction comes from, by its DILocation; None where it has none that names a file."""
    return place_of_node(getattr(instruction, "metadata", {}).get(_DEBUG))


def place_of_node(node: object) -> Location | None:
    """The line that a DILocation says; None where it names no file, or is missing."""
    facts = _facts(node)
    line, file = facts.get("line"), _file(facts.get("scope"))
    if not isinstance(line, int) or line < 1 or not file:
        return None
    column = facts.get("column")
    return StatedLocation(file, line, _function(facts.get("scope")), column=column if isinstance(column, int) else 0)


def unprintable_kinds(module: ir.Module) -> list[str]:
    """The kinds of debug information of a module for which LLVM asks ptxas to debug, which it does not do optimised."""
    units = module.namedmetadata.get("llvm.dbg.cu")
    kinds = [getattr(_facts(unit).get(KIND), "value", "") for unit in (() if units is None else units.operands)]
    return [kind for kind in dict.fromkeys(kinds) if kind in _WITH_VARIABLES]


def _facts(node: object) -> dict[str, Any]:
    return dict(node.operands) if isinstance(node, ir.DIValue) else {}


def _file(scope: object) -> str:
    """The path of the file of a scope, or of one around it."""
    while facts := _facts(scope):
        named = _facts(facts.get("file"))
        if isinstance(named.get("filename"), str):
            return str(named["filename"])
        scope = facts.get("scope")
    return ""


def _function(scope: object) -> str:
    name = _facts(scope).get("name")
    return name if isinstance(name, str) else ""
