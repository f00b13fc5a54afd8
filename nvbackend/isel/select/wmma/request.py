"""wmma instructions as asked for, the product and the moves of its fragments, and the way to their rows and back."""

from __future__ import annotations

from typing import Any

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.fragments.wmma import Shape
from nvbackend.intrinsics.mma import families, wmma
from nvbackend.intrinsics.mma.wmma import WmmaTypes
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType


@user_facing
@dataclass(frozen=True, slots=True)
class WmmaRequest:
    """One `wmma.mma` as asked for: D = A * B + C, `shape` being (M, N, K) in elements.

    Layouts ("row", "col") are those that A and B were loaded from; `rounding` is that of f64 ("rn", "rz", "rm", "rp"),
    `popc` the bit operation of b1 ("xor", "and"). Nothing is checked here: `select_wmma` does.
    """

    shape: Shape
    a: ElementType
    b: ElementType
    c: ElementType
    d: ElementType
    a_layout: str = "row"
    b_layout: str = "col"
    satfinite: bool = False
    rounding: str | None = None
    popc: str | None = None

    @property
    def kind(self) -> WmmaTypes | None:
        """The kind of the multiplicands; None if wmma does not multiply them."""
        return wmma.kind_of(self.a) if self.a is self.b else None


@user_facing
@dataclass(frozen=True, slots=True)
class WmmaMoveRequest:
    """One `wmma.load` or `wmma.store` ("load", "store") as asked for: `fragment` "a", "b", "c" or "d" of `shape`.

    `space` is the state space of the address ("global", "shared", None for a generic address); `strided` whether a
    stride is given. Nothing is checked here: `select_wmma_move` does.
    """

    operation: str
    fragment: str
    shape: Shape
    element: ElementType
    layout: str = "row"
    space: str | None = None
    strided: bool = True

    @property
    def kind(self) -> WmmaTypes | None:
        """The first kind that has the fragment; None if no kind has it."""
        return wmma.kind_of_fragment(self.fragment, self.shape, self.element)


def request_of(row: Row) -> WmmaRequest | WmmaMoveRequest:
    """The request that selects `row` of this family."""
    axes: dict[str, Any] = dict(row.axes)
    return WmmaRequest(**axes) if row.opcode == families.WMMA_MMA else WmmaMoveRequest(**axes)
