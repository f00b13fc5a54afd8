"""The JSON Schemas of what `nvbackend catalogue --json` prints. A key is never taken away or given another meaning."""

from __future__ import annotations

from typing import Any

from nvbackend.diagnostics import Severity
from nvbackend.intrinsics.row.row import RegisterClass, Role
from nvbackend.isel.target.target import target_names

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: dict[str, Any] = {"type": "string"}
_TEXT_OR_NULL: dict[str, Any] = {"type": ["string", "null"]}
_VERSION: dict[str, Any] = {"type": "string", "pattern": r"^\d+\.\d+$"}


def _object(description: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any], description: str = "") -> dict[str, Any]:
    return {"type": "array", "items": items} | ({"description": description} if description else {})


_OPERAND = _object(
    "An operand, in the row's order",
    name=_TEXT,
    role={"enum": [role.value for role in Role]},
    register={"enum": [register.name for register in RegisterClass]},
    count={"type": "integer", "description": "registers"},
    tied={"type": "boolean", "description": "read and written in place"},
    values={
        "type": ["array", "null"],
        "items": {"type": "integer"},
        "description": "the legal immediates; null for registers, and where any is legal",
    },
    meaning=_TEXT,
)
_ROW = _object(
    "A row of the catalogue on a target",
    ptx={"type": "string", "description": "the spelling with all qualifiers"},
    family=_TEXT,
    opcode={"type": "string", "description": "the name in the machine form"},
    lowering={"enum": ["intrinsic", "asm"]},
    intrinsic={"type": ["string", "null"], "description": "LLVM's; null for inline asm"},
    constraints={"type": "string", "description": "of inline asm"},
    operands=_list(_OPERAND),
    ptx_version=_VERSION,
    requires=_list(_TEXT, "features that a chip needs"),
    section={"type": "string", "description": "of the PTX ISA"},
    summary=_TEXT,
    target={"enum": list(target_names())},
    legal={"type": "boolean"},
    rule={"type": ["string", "null"], "description": "the rule that the row breaks on the target"},
    message=_TEXT_OR_NULL,
    fix=_TEXT_OR_NULL,
    emulated={
        "anyOf": [{"type": "null"}, _object("What ptxas makes of it, and what to use", expansion=_TEXT, instead=_TEXT)]
    },
)
ROWS_SCHEMA: dict[str, Any] = {"$schema": _DIALECT, "title": "nvbackend catalogue --json", **_list(_ROW)}
"""Of rows: an object for each row and target."""
RULES_SCHEMA: dict[str, Any] = {
    "$schema": _DIALECT,
    "title": "nvbackend catalogue --all-rules --json",
    **_list(
        _object(
            "A rule",
            rule=_TEXT,
            severity={"enum": [each.value for each in Severity]},
            message=_TEXT,
            why=_TEXT,
            fix=_TEXT,
            see=_TEXT,
            example={"type": ["string", "null"], "description": "its place in the docs; null for a rule of your own"},
        )
    ),
}
"""Of rules."""
