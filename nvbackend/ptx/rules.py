"""What can be wrong with a PTX text."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

SYNTAX = Rule(
    id="ptx.syntax",
    message="column {column}: {found} where {expected} is expected{text}",
    fix="write {expected}, or pass the text that a compiler printed whole{printed}",
    why="ptxas refuses the text, and reports nothing after its first syntax error.",
    reference="PTX ISA 4 (Syntax)",
)
UNKNOWN_DIRECTIVE = Rule(
    id="ptx.directive",
    message="column {column}: .{name} is not a directive that nvbackend reads here: {text}",
    fix="remove .{name}, or write one of {known}",
    why="A directive that is passed over can change what the code after it means.",
    reference="PTX ISA 11 (Directives)",
)
UNDECLARED = Rule(
    id="ptx.undeclared",
    message="{name} is not declared here: {text}",
    fix="declare {name} in this block or one around it, before its use",
    why="ptxas refuses the text.",
    reference="PTX ISA 4.4 (Identifiers)",
)
REDECLARED = Rule(
    id="ptx.redeclared",
    message="{name} is declared twice in one block; the other declaration is on line {line}",
    fix="rename one of them",
    why="ptxas refuses the text.",
    reference="PTX ISA 4.4 (Identifiers)",
)
FORM = Rule(
    id="ptx.form",
    message="{what}: {text}",
    fix="write it as {form}",
    why="ptxas refuses the text.",
    reference="PTX ISA 9.7.12 (Control Flow Instructions)",
)
OF_TEXT = (SYNTAX, UNKNOWN_DIRECTIVE, UNDECLARED, REDECLARED, FORM)
"""What is wrong with a text by itself, at a line of it."""
