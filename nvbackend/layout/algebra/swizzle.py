"""CuTe's swizzle: an exclusive-or of some bits of an index into others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nvbackend.diagnostics import user_facing
from nvbackend.layout.algebra.rules import RECAST, SWIZZLE

INDEX_BITS = 64


@user_facing
@dataclass(frozen=True, slots=True)
class Swizzle:
    """`Swizzle<B,M,S>`: `bits` bits, found `shift` above bit `base`, change the `bits` bits from `base` on.

    With S < 0 the upper ones are changed by the lower. Applied twice it changes nothing. Prints as `Sw<B,M,S>`.
    Raises layout-algebra.swizzle. CUTLASS include/cute/swizzle.hpp.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        problem = None
        if self.bits < 0 or self.base < 0:
            problem = "a negative number of bits"
        elif abs(self.shift) < self.bits:
            problem = f"a shift of {self.shift} lets its {self.bits} bits overlap"
        elif self.base + self.bits + abs(self.shift) > INDEX_BITS:
            problem = f"it reaches past the {INDEX_BITS} bits of an index"
        if problem is not None:
            SWIZZLE.fail(bits=self.bits, base=self.base, shift=self.shift, problem=problem)

    @property
    def source_mask(self) -> int:
        """The bits that say what is changed (CuTe's yyy_msk)."""
        return ((1 << self.bits) - 1) << self.base + max(0, self.shift)

    @property
    def target_mask(self) -> int:
        """The bits that are changed (CuTe's zzz_msk)."""
        return ((1 << self.bits) - 1) << self.base + max(0, -self.shift)

    @property
    def period(self) -> int:
        """After how many indices the pattern repeats."""
        return 1 << self.base + self.bits + abs(self.shift)

    def __call__(self, index: Any) -> Any:
        """The swizzled index, an integer or a builder value; for the latter the arithmetic is emitted."""
        if self.bits == 0:
            return index
        found = index & self.source_mask
        return index ^ (found >> self.shift if self.shift >= 0 else found << -self.shift)

    def upcast(self, factor: int) -> Swizzle:
        """The same swizzle for elements `factor` times as wide, a power of two. Raises layout-algebra.recast."""
        steps = _steps(self, factor, "wide")
        if steps > self.base and self.bits:
            problem = f"it exchanges runs of {1 << self.base} elements only"
            RECAST.fail(what=self, factor=factor, scale="wide", problem=problem)
        return Swizzle(self.bits, max(0, self.base - steps), self.shift)

    def downcast(self, factor: int) -> Swizzle:
        """The same swizzle for elements of a `factor`-th of the width, a power of two. Raises layout-algebra.recast."""
        return Swizzle(self.bits, self.base + _steps(self, factor, "narrow"), self.shift)

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"


def _steps(swizzle: Swizzle, factor: int, scale: str) -> int:
    if factor < 1 or factor & (factor - 1):
        RECAST.fail(what=swizzle, factor=factor, scale=scale, problem="a swizzle works on bits, and no bit is it")
    return factor.bit_length() - 1


def swizzle_of_masks(source: int, target: int) -> Swizzle | None:
    """The swizzle that changes the bits of `target` by those of `source`; None where they are not two equal runs."""
    if source <= 0 or target <= 0 or source & target:
        return None
    low_source, low_target = (mask & -mask for mask in (source, target))
    runs = {(mask // low).bit_length() for mask, low in ((source, low_source), (target, low_target))}
    filled = all((mask // low) & (mask // low + 1) == 0 for mask, low in ((source, low_source), (target, low_target)))
    if len(runs) != 1 or not filled:
        return None
    shift = low_source.bit_length() - low_target.bit_length()
    return Swizzle(runs.pop(), min(low_source, low_target).bit_length() - 1, shift)
