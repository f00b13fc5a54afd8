"""A tcgen05.mma as asked for, and the form of the rules on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nvbackend.diagnostics import Rule, user_facing
from nvbackend.intrinsics.mma.tcgen05 import KINDS, MmaKind
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor
from nvbackend.isel.target.target import Target


@user_facing
@dataclass(frozen=True, slots=True)
class Tcgen05Request:
    """One `tcgen05.mma` as asked for, by its PTX qualifiers without dots: kind "f16", scale_vector "block32", ...

    `block_scale` belongs to the mx kinds and to no other. `collector` is "a::fill" for A's, or "b0::fill" with
    `weight_stationary` for B's. `scale_input_d`, `disable_output_lane` and `zero_column_mask` say whether the
    instruction has that operand. `descriptor` says the shape and types where they are known, for the calls that take
    them from the request. Nothing is checked here: `violations` does.
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

    @property
    def of(self) -> MmaKind | None:
        """The facts of the kind, None for an unknown kind."""
        return KINDS.get(self.kind) if isinstance(self.kind, str) else None


def request_of(row: Row) -> Tcgen05Request:
    """The request that selects `row` (of tcgen05.mma or tcgen05.mma.ws)."""
    axes: dict[str, Any] = dict(row.axes)
    return Tcgen05Request(block_scale=KINDS[axes["kind"]].block_scale, **axes)


Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Gate:
    """A rule, whether a request on a target keeps it, and the values of its message and fix.

    `holds` is also true where the question has no answer because another gate is broken.
    """

    rule: Rule
    holds: Callable[[Tcgen05Request, Target], bool]
    values: Callable[[Tcgen05Request, Target], Values]
