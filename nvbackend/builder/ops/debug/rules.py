"""What is wrong with a print or an assertion."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

FORMAT = Rule(
    id="debug.format",
    message="{call}({text!r}, ...): {problem}",
    fix="{advice}",
    why=("The driver formats the text after the launch, and prints what happens to be in memory for a missing value."),
    reference="CUDA C++ Programming Guide, Formatted Output; Python, Format Specification Mini-Language",
)
VALUE = Rule(
    id="debug.value",
    message="{call} takes {given}, which is not one value",
    fix="{advice}",
    why="A thread prints the values of its own registers, each by its type.",
    reference="CUDA C++ Programming Guide, Formatted Output",
)
