"""A tcgen05.mma as asked for, and the way to its row and back."""

from __future__ import annotations

from typing import Any

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.brief import short_repr
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.mma.tcgen05 import KINDS, MmaKind
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor


@user_facing
@dataclass(frozen=True, slots=True)
class Tcgen05Request:
    """One `tcgen05.mma` as asked for, by its PTX qualifiers without dots: kind "f16", scale_vector "block32", ...

    `block_scale` belongs to the mx kinds and to no other. `collector` is "a::fill" for A's, or "b0::fill" with
    `weight_stationary` for B's. `scale_input_d`, `disable_output_lane` and `zero_column_mask` say whether the
    instruction has that operand. `descriptor` says the shape and types where they are known, for the calls that take
    them from the request. Nothing is checked here: `select_tcgen05` does.
    """

    kind: str
    cta_group: int = 1
    a_in_tmem: bool = False
    sparse: bool = False
    weight_stationary: bool = False
    block_scale: bool = False
    scale_vector: str | None = None
    collector: str | None = None
    ashift: bool = False
    scale_input_d: bool = False
    disable_output_lane: bool = False
    zero_column_mask: bool = False
    descriptor: InstructionDescriptor | None = None

    __repr__ = short_repr

    @property
    def of(self) -> MmaKind | None:
        """The facts of the kind; None for an unknown kind."""
        return KINDS.get(self.kind) if isinstance(self.kind, str) else None


def request_of(row: Row) -> Tcgen05Request:
    """The request that selects `row` (of tcgen05.mma or tcgen05.mma.ws)."""
    axes: dict[str, Any] = dict(row.axes)
    return Tcgen05Request(block_scale=KINDS[axes["kind"]].block_scale, **axes)
