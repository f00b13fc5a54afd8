"""What a kernel allows all its floating-point arithmetic."""

from __future__ import annotations

from nvbackend.diagnostics import record
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType, f32


@record
@dataclass(frozen=True)
class MathPolicy:
    """What a kernel allows its floating-point arithmetic; by default nothing.

    A policy is a preference: it reaches what it names here and leaves the rest as it is. What a call says for itself
    goes before it.

    `contract`: an operator `*` and a `+` or `-` of its result, of any float, may become one fused multiply-add, which
    rounds once. k.math.add, sub and mul, k.packed and the accurate functions are never contracted.

    `ftz`: all of f32 flushes subnormal operands and results to zero: operators, comparisons, every function of `k.math`
    whose operands are f32, the steps in f32 of f16 and bf16, and `k.packed` of f32x2. Other types keep them.

    `approx`: `k.math`'s divide and sqrt (not of f64), exp, log, log10, pow, sin, cos, tanh, sigmoid, silu and gelu
    (without form="erf") take the machine's approximation, and `/` of f32 is div.approx: at most 2 ulp off, and 0 for
    divisors above 2**126. exp2, log2, rsqrt and reciprocal are approximations without it, and erf has none.
    """

    contract: bool = False
    ftz: bool = False
    approx: bool = False

    def _flags(self, operation: str, element: ElementType) -> tuple[str, ...]:
        """LLVM's flags of an operator of `element`."""
        if operation == "/":
            return ("afn",) if self.approx and element is f32 else ()
        return ("contract",) if self.contract and operation in ("+", "-", "*") else ()


NOTHING_ALLOWED = MathPolicy()
