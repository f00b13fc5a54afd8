"""What a tried fix is: an example whose second program adds what the fix of the first one says, and a launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nvbackend as nvb
from tests.dry_run.registry import Launch
from tests.rules.example import Example, Side


@dataclass(frozen=True)
class Tried:
    """`example` is wrong and mended, `launch` shows the mended one. `held` are calls of the fix that both have."""

    example: Example
    launch: Launch
    held: frozenset[str]

    @property
    def rule(self) -> str:
        return self.example.rule

    def build(self, **options: Any) -> nvb.FinishedKernel:
        """The mended kernel."""
        return self.example.build(Side.KEEPS, **options)


def tried(
    rule: str, *arguments: Any, target: str = "sm_90a", held: tuple[str, ...] = (), **bounds: int
) -> Callable[[Callable[..., Any]], Tried]:
    """Decorator of a kernel with lines that end in `# breaks` and `# keeps`; `arguments` are those of its launch."""

    def register(function: Callable[..., Any]) -> Tried:
        example = Example(rule, function, target, bounds)
        return Tried(example, Launch(bounds.get("cluster", 1), arguments), frozenset(held))

    return register
