"""The control and the collector word of each tcgen05.mma, as the seed on tcgen05 emission packs them.

No instruction has them: they travel with the machine instruction, so that what the selector meant is checked once more
from its bits. What they cannot express (`a::lastuse` with `a::use`, the buffers of a weight-stationary B) is left out.
"""

from __future__ import annotations

from typing import Any

from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.words.tcgen05_control import SEED_KINDS, SeedCollector, Tcgen05Collector, Tcgen05Ctrl
from nvbackend.intrinsics.words.tcgen05_descriptor import FORMS

CONTROL = "control"
"""The name of the primary word among the words of a machine instruction."""
COLLECTOR = "collector"
_BLOCKS = {"block16": 16, "block32": 32}
_DEFAULT_BLOCK = 32
_USES = {"a::fill": SeedCollector.FILL, "a::use": SeedCollector.USE, "a::lastuse": SeedCollector.USE}


def scale_factors(kind: str, scale_vector: str | None) -> int:
    """How many scale factors a row of A has for one dense instruction: 1, 2 or 4; 1 for a kind without block scale.

    PTX ISA 9.7.16.10.7 (block scaling): `block16` and `block32` name the elements of a factor, `scale_vec::NX` the
    factors.
    """
    if not tcgen05.KINDS[kind].block_scale:
        return 1
    if tcgen05.is_explicit(scale_vector):
        return int(str(scale_vector).partition("::")[2].rstrip("X"))
    return FORMS[kind].k // _BLOCKS.get(str(scale_vector), _DEFAULT_BLOCK)


def control_of(row: Row) -> Tcgen05Ctrl:
    """What the control word of a `tcgen05.mma` row says."""
    axes: dict[str, Any] = dict(row.axes)
    kind = axes["kind"]
    return Tcgen05Ctrl(
        cta_group=axes["cta_group"],
        mma_kind=SEED_KINDS.index(kind),
        scale_vec_size=scale_factors(kind, axes.get("scale_vector")).bit_length() - 1,
        scale_input_acc=axes.get("scale_input_d", False),
        block_scale=tcgen05.KINDS[kind].block_scale,
    )


def collector_of(row: Row) -> Tcgen05Collector:
    """What the collector word of a `tcgen05.mma` row says; for an A that is not kept, no explicit collector."""
    if row.axes.get("ashift"):
        return Tcgen05Collector(ashift=True)
    mode = _USES.get(str(row.axes["collector"]))
    return Tcgen05Collector() if mode is None else Tcgen05Collector(valid=True, collector_a=mode)


def control_words(row: Row, *, scratch: int = 0) -> dict[str, int]:
    """Both words of a `tcgen05.mma` row, by name. Whatever bits the words held before (`scratch`) are masked."""
    return {
        CONTROL: control_of(row).encode(into=scratch),
        COLLECTOR: collector_of(row).encode(into=scratch),
    }
