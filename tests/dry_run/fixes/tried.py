"""What a tried fix is: an example whose second program does what the fix of the first one says, and a launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

import nvbackend as nvb
from tests.dry_run.registry import Launch
from tests.rules.example import Example, Side

_VERIFIES = "nvbackend.isel.verify.verify.verify"
F32 = nvb.Pointer[nvb.f32]
ROWS = 4
ROW = np.arange(ROWS * 128, dtype=np.float32)
BACK = ROW.reshape(ROWS, 128)[:, ::-1].reshape(-1).copy()
"""Each row of 128 the other way round."""
PAIRS = ROW.reshape(2 * ROWS, 64)[:, ::-1].reshape(-1).copy()
"""Each half of a row the other way round."""
LINES = np.arange(ROWS * 32, dtype=np.float32).reshape(ROWS, 32)


@dataclass(frozen=True)
class Tried:
    """`example` is wrong and mended, `launch` shows the mended one.

    `held` are calls of the fix that both have. `says` is the part of the fix that is followed, where that is no call.
    Where it is `verified`, the verifier sees the mistake too, before the run is made.
    """

    example: Example
    launch: Launch
    held: frozenset[str]
    says: str
    verified: bool

    @property
    def rule(self) -> str:
        return self.example.rule

    @property
    def name(self) -> str:
        return str(self.example.function.__name__)

    def found(self) -> tuple[nvb.Diagnostic, ...]:
        """What the run says about the wrong kernel, whatever the verifier says."""
        with mock.patch(_VERIFIES, return_value=()):
            return self.example.diagnostics(Side.BREAKS)

    def build(self, **options: Any) -> nvb.FinishedKernel:
        """The mended kernel."""
        return self.example.build(Side.KEEPS, **options)


def tried(
    rule: str,
    *arguments: Any,
    target: str = "sm_90a",
    held: tuple[str, ...] = (),
    says: str = "",
    verified: bool = False,
    **bounds: int,
) -> Callable[[Callable[..., Any]], Tried]:
    """Decorator of a kernel with lines that end in `# breaks` and `# keeps`; `arguments` are those of its launch."""

    def register(function: Callable[..., Any]) -> Tried:
        example = Example(rule, function, target, bounds)
        return Tried(example, Launch(bounds.get("cluster", 1), arguments), frozenset(held), says, verified)

    return register
