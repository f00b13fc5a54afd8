"""The axes of a row family: the check that a choice is one the family has rows for."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from nvbackend.diagnostics import DiagnosticError, Rule
from nvbackend.diagnostics.diagnostic import printed

Choice = TypeVar("Choice")


NO_ROW = Rule(
    id="row.axis",
    message="{problem}",
    fix="use what nvbackend catalogue lists",
    why="The instruction does not exist, or ptxas and the PTX ISA disagree about it.",
    reference="PTX ISA, the instruction's syntax",
)


class NoSuchRow(DiagnosticError, LookupError):
    """A row was asked for that no loop over the axes makes (row.axis).

    A call that takes a request from users checks the request's own rules first: they say more. `problem` says what was
    asked for.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__([NO_ROW.diagnose(problem=problem)])

    def __reduce__(self) -> tuple[type[NoSuchRow], tuple[str]]:
        return type(self), (self.problem,)


def chosen(axis: str, value: Choice, legal: Collection[Choice]) -> Choice:
    """`value` if it is one of `legal`, else NoSuchRow naming the axis and what it takes."""
    is_flag = isinstance(value, bool) and not any(value is one for one in legal)  # True equals 1
    if value not in legal or is_flag:
        raise NoSuchRow(f"{axis} is {printed(value)}, and there are rows only for {', '.join(map(repr, legal))}")
    return value


def spelled(*parts: str | None) -> str:
    """Qualifiers joined by dots; an axis that is left out gives None and no qualifier."""
    return ".".join(part for part in parts if part is not None)
