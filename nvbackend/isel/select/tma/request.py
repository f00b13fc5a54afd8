"""A TMA tensor copy as asked for, and the way to its row and back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy import tma_tensor
from nvbackend.intrinsics.copy.tma_tensor import Mode
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Row

DIRECTIONS: dict[str, dict[str, Mode]] = {
    "load": tma_tensor.LOAD_MODES,
    "prefetch": tma_tensor.LOAD_MODES,
    "store": tma_tensor.STORE_MODES,
    "reduce": tma_tensor.REDUCE_MODES,
}
"""Where a box goes (to shared memory, to L2, to global memory, combined with it), and the modes of it."""


@user_facing
@dataclass(frozen=True, slots=True)
class TmaRequest:
    """One tensor copy as asked for, of a tensor of `rank` dimensions.

    `direction` is one of DIRECTIONS and `mode` one of its modes, in PTX's words; `operation` what a reduction does.
    Loads alone have a `destination` ("cluster" or "cta"), `multicast` and a `cta_group` (1 or 2). Nothing is checked
    here: `select_tma` does.
    """

    rank: int
    direction: str = "load"
    mode: str = "tile"
    destination: str = "cluster"
    operation: str | None = None
    multicast: bool = False
    cta_group: int | None = None
    cache_hint: bool = False

    @property
    def found_mode(self) -> Mode | None:
        """The mode; None if the direction does not have it."""
        modes = DIRECTIONS.get(self.direction) if isinstance(self.direction, str) else None
        return modes.get(self.mode) if modes is not None and isinstance(self.mode, str) else None

    @property
    def mode_needs(self) -> Feature:
        """What the mode needs besides compute capability 9.0."""
        mode = self.found_mode
        if mode is None:
            return Feature.NONE
        return mode.requires_in_cta if (self.direction, self.destination) == ("load", "cta") else mode.requires


def request_of(row: Row) -> TmaRequest | None:
    """The request that a row answers, however it is spelled; None for a row of TMA that copies no box of a tensor."""
    if "rank" not in row.axes:
        return None
    axes: dict[str, Any] = {field.name: row.axes[field.name] for field in fields(TmaRequest) if field.name in row.axes}
    return TmaRequest(**axes)
