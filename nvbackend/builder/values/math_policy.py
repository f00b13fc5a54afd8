"""What a kernel allows all its floating-point arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from nvbackend.diagnostics import record
from nvbackend.intrinsics.row.types import ElementType, f32


@record
@dataclass(frozen=True)
class MathPolicy:
    """What a kernel allows its floating-point arithmetic; by default nothing.

    `contract`: an operator `*` and a `+` or `-` of its result may become one fused multiply-add, which rounds once.
    `ftz`: all of f32 flushes subnormal operands and results to zero. `approx`: the functions of `k.math` take the
    machine's approximation where there is one, and `/` of f32 is div.approx: at most 2 ulp off, and 0 for divisors
    above 2**126. What a call says for itself goes before the policy; k.math.add, mul and the like are never contracted.
    """

    contract: bool = False
    ftz: bool = False
    approx: bool = False

    def flags(self, operation: str, element: ElementType) -> tuple[str, ...]:
        """LLVM's flags of an operator of `element`."""
        if operation == "/":
            return ("afn",) if self.approx and element is f32 else ()
        return ("contract",) if self.contract and operation in ("+", "-", "*") else ()


NOTHING_ALLOWED = MathPolicy()
