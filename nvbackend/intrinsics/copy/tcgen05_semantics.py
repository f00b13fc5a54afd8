"""What the rows on tensor memory are to the analyses: allocations, moves, commits, waits and fences of tcgen05."""

from __future__ import annotations

from nvbackend.intrinsics.row.semantics import (
    Completion,
    FenceOf,
    FenceSemantics,
    MbarrierUse,
    Proxy,
    Scope,
    Semantics,
    TensorMemory,
    reads,
    writes,
)

COLUMN_BITS = 32
"""Bits of a column in one lane."""
_ADDRESS_BYTES = 4
"""What an allocation writes to shared memory."""
_PLACE = "tmem"
_WAITED = {"ld": Completion.LOAD_WAIT, "st": Completion.STORE_WAIT}
WAITS = tuple(_WAITED)
_FENCES = {"before": FenceOf.BEFORE_SYNC, "after": FenceOf.AFTER_SYNC}
FENCES = tuple(_FENCES)


def managing(what: TensorMemory, cta_group: int) -> Semantics:
    """An allocation, or the end of one or of all."""
    written = (writes("address", _ADDRESS_BYTES),) if what is TensorMemory.ALLOCATE else ()
    return Semantics(memory=written, tensor_memory=what, cta_group=cta_group)


def _columns(shape: str, count: int, packed: bool) -> int:
    """The columns of so many repetitions of a shape, lanes x bits; of each half, where it has two.

    Packed or unpacked, each half of a register has a column of its own. PTX ISA 9.7.16.2.3.
    """
    bits = int(shape.partition("x")[2].partition("b")[0])
    return bits // COLUMN_BITS * count * (2 if packed else 1)


def loading(shape: str, count: int, *, packed: bool = False) -> Semantics:
    """A load to registers."""
    return Semantics(issues=Completion.LOAD_WAIT, memory=(reads(_PLACE, _columns(shape, count, packed)),))


def storing(shape: str, count: int, *, packed: bool = False) -> Semantics:
    """A store of registers."""
    return Semantics(issues=Completion.STORE_WAIT, memory=(writes(_PLACE, _columns(shape, count, packed)),))


def waiting(of: str) -> Semantics:
    """A wait for loads or stores."""
    return Semantics(awaits=_WAITED[of])


def copying(shape: str, cta_group: int) -> Semantics:
    """A copy of a shape, lanes times bits: so many of shared memory, padding of narrow elements included."""
    lanes, _, bits = shape.rstrip("b").partition("x")
    return Semantics(
        issues=Completion.COMMIT,
        memory=(reads("source", int(lanes) * int(bits) // 8), writes(_PLACE)),
        proxy=Proxy.ASYNC,
        cta_group=cta_group,
    )


def shifting(cta_group: int) -> Semantics:
    """Rows that move within tensor memory."""
    memory = (writes(_PLACE), reads(_PLACE))
    return Semantics(issues=Completion.COMMIT, memory=memory, proxy=Proxy.ASYNC, cta_group=cta_group)


def committing(cta_group: int, *, multicast: bool, peers: bool) -> Semantics:
    """An arrival when what was issued so far is done."""
    return Semantics(
        MbarrierUse.ARRIVE,
        tracks=Completion.COMMIT,
        releases=Scope.CLUSTER,
        cta_group=cta_group,
        multicast=multicast,
        peers=peers,
    )


def fencing(side: str) -> Semantics:
    """A fence on one side of what synchronises threads."""
    return Semantics(fence=FenceSemantics(_FENCES[side]))
