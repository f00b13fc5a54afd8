"""What a program of a protocol's test is: what it breaks, and where."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.rules.example import Side


@dataclass(frozen=True)
class Program:
    """A program that breaks `rule` at the lines that end in `# breaks`, or none; `bounds` are those of its kernel."""

    function: Callable[..., Any]
    rule: str | None
    bounds: Mapping[str, int]

    @property
    def name(self) -> str:
        """Its name, which says what is wrong, or what is right about it."""
        return self.function.__name__

    @property
    def marked(self) -> set[int]:
        """The lines that are wrong."""
        lines, first = inspect.getsourcelines(self.function)
        return {number for number, line in enumerate(lines, first) if line.rstrip().endswith(Side.BREAKS.value)}

    def __call__(self, *arguments: Any) -> Any:
        """Run it on a builder and its arguments, or on a scene."""
        return self.function(*arguments)


def breaks(rule: str, **bounds: int) -> Callable[[Callable[..., Any]], Program]:
    """Decorator of a wrong program, which draws this rule."""
    return lambda function: Program(function, rule, bounds)


def keeps(**bounds: int) -> Callable[[Callable[..., Any]], Program]:
    """Decorator of a right program, of which nothing is said."""
    return lambda function: Program(function, None, bounds)
