"""Tensor memory: who has it, what is copied there, what orders that. PTX ISA 9.7.16.7, 9.7.16.9, 9.7.16.11, 9.7.16.12.

Tensor memory is 128 lanes of 512 columns of 32 bits, for each CTA; an address (u32) has the lane in its upper and the
column in its lower half. Warp w of a warpgroup reaches lanes 32w to 32w + 31.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.copy import tcgen05_semantics as semantics
from nvbackend.intrinsics.copy.tcgen05_semantics import FENCES
from nvbackend.intrinsics.mma.families import TCGEN05 as FAMILY
from nvbackend.intrinsics.mma.tcgen05 import CTA_GROUPS, PTX
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Asm,
    Effect,
    Intrinsic,
    PtxVersion,
    RegisterClass,
    Row,
    RowOperand,
    chosen,
    operand,
    spelled,
)
from nvbackend.intrinsics.row.semantics import Semantics, TensorMemory

COLUMNS = 512
"""Columns of tensor memory a CTA has."""
ALLOCATIONS = (32, 64, 128, 256, COLUMNS)
"""Columns that one allocation can have."""
COPY_SHAPES: dict[str, tuple[str | None, ...]] = {
    "128x256b": (None,),
    "4x256b": (None,),
    "128x128b": (None,),
    "64x128b": ("warpx2::02_13", "warpx2::01_23"),
    "32x128b": ("warpx4",),
}
"""Shapes of tcgen05.cp (lanes x bits), with how a shape of fewer lanes is repeated over the four warps' lanes."""
COPY_FORMATS = (None, "b6x16_p32", "b4x16_p64")
"""Element formats that a copy unpacks to bytes: none, 6-bit with 32 and 4-bit with 64 bits of padding."""

ALLOCATION_SPACES = ("shared::cta", None)
"""Where the address of an allocation is written: shared memory, or a generic address of it."""
_BOTH = (False, True)


def row(
    opcode: str,
    ptx: str,
    lowering: Asm | Intrinsic,
    section: str,
    summary: str,
    *operands: RowOperand,
    effects: Effect,
    said: Semantics,
    requires: Feature = Feature.NONE,
    ptx_version: PtxVersion = PTX,
    **axes: object,
) -> Row:
    """A row `tcgen05.<opcode>` that `said` describes to the analyses; `axes` choose it."""
    return Row(
        family=FAMILY,
        opcode=f"tcgen05.{opcode}",
        ptx=ptx,
        operands=operands,
        lowering=lowering,
        requires=Feature.TMEM | requires,
        ptx_version=ptx_version,
        effects=effects,
        semantics=said,
        section=section,
        summary=summary,
        axes=axes,
    )


TMEM = operand("tmem", RegisterClass.TMEM, meaning="address in tensor memory")
_COLUMNS = operand("columns", RegisterClass.B32, meaning="a power of two from 32 to 512", rule="tcgen05.columns")
_ALLOCATION = "9.7.16.7.1 (tcgen05.alloc, dealloc, relinquish_alloc_permit)"
WARP_WIDE = Effect.CONVERGENT | Effect.ORDERS


@cache
def alloc(cta_group: int = 1, *, space: str | None = "shared::cta") -> Row:
    """tcgen05.alloc: `columns` columns of tensor memory; their address (u32) is written to shared memory.

    A warp executes it together, in each CTA of the group; blocks until there are as many. With cta_group 2 the same
    columns of both CTAs. `space` None takes a generic address of shared memory.
    """
    chosen("cta_group", cta_group, CTA_GROUPS)
    generic = chosen("space", space, ALLOCATION_SPACES) is None
    register = RegisterClass.GENERIC if generic else RegisterClass.SHARED
    return row(
        "alloc",
        spelled(f"tcgen05.alloc.cta_group::{cta_group}.sync.aligned", space, "b32"),
        Intrinsic(f"llvm.nvvm.tcgen05.alloc{'' if generic else '.shared'}.cg{cta_group}", ("address", "columns")),
        _ALLOCATION,
        "Allocates columns of tensor memory.",
        operand("address", register, meaning="where the tensor-memory address is written"),
        _COLUMNS,
        effects=WARP_WIDE | Effect.WRITES_MEMORY,
        said=semantics.managing(TensorMemory.ALLOCATE, cta_group),
        cta_group=cta_group,
        space=space,
    )


@cache
def dealloc(cta_group: int = 1) -> Row:
    """tcgen05.dealloc: gives back what one alloc gave; every column must be before the kernel ends."""
    chosen("cta_group", cta_group, CTA_GROUPS)
    return row(
        "dealloc",
        f"tcgen05.dealloc.cta_group::{cta_group}.sync.aligned.b32",
        Intrinsic(f"llvm.nvvm.tcgen05.dealloc.cg{cta_group}", ("tmem", "columns")),
        _ALLOCATION,
        "Gives columns of tensor memory back.",
        TMEM,
        _COLUMNS,
        effects=WARP_WIDE,
        said=semantics.managing(TensorMemory.FREE, cta_group),
        cta_group=cta_group,
    )


@cache
def relinquish_alloc_permit(cta_group: int = 1) -> Row:
    """tcgen05.relinquish_alloc_permit: this CTA allocates no more, so that others on its SM may."""
    chosen("cta_group", cta_group, CTA_GROUPS)
    return row(
        "relinquish_alloc_permit",
        f"tcgen05.relinquish_alloc_permit.cta_group::{cta_group}.sync.aligned",
        Intrinsic(f"llvm.nvvm.tcgen05.relinq.alloc.permit.cg{cta_group}"),
        _ALLOCATION,
        "Gives up the right to allocate tensor memory.",
        effects=WARP_WIDE,
        said=semantics.managing(TensorMemory.RELINQUISH, cta_group),
        cta_group=cta_group,
    )


@cache
def cp(shape: str, repeat: str | None = None, *, unpack: str | None = None, cta_group: int = 1) -> Row:
    """tcgen05.cp: shared memory (by descriptor) to tensor memory, asynchronously; one thread issues it.

    `repeat` says which lanes a shape of fewer than 128 lanes goes to as well; `unpack` takes 6- or 4-bit elements to
    bytes. Raises NoSuchRow outside of the lattice.
    """
    chosen("repeat", repeat, COPY_SHAPES[chosen("shape", shape, COPY_SHAPES)])
    chosen("unpack", unpack, COPY_FORMATS)
    chosen("cta_group", cta_group, CTA_GROUPS)
    ptx = spelled("tcgen05.cp", f"cta_group::{cta_group}", shape, repeat, f"b8x16.{unpack}" if unpack else None)
    place = shape if repeat is None else f"{shape}_{repeat.replace('::', '_')}"
    return row(
        "cp",
        ptx,
        Intrinsic(spelled("llvm.nvvm.tcgen05.cp", place, unpack, f"cg{cta_group}"), ("tmem", "source")),
        "9.7.16.9.2 (tcgen05.cp)",
        "Copies from shared to tensor memory.",
        TMEM,
        operand("source", RegisterClass.B64, meaning="shared-memory descriptor"),
        effects=Effect.READS_MEMORY,
        said=semantics.copying(shape, cta_group),
        shape=shape,
        repeat=repeat,
        unpack=unpack,
        cta_group=cta_group,
    )


@cache
def shift(cta_group: int = 1) -> Row:
    """tcgen05.shift: every row of 32 bytes moves down by one lane, asynchronously; one thread issues it."""
    chosen("cta_group", cta_group, CTA_GROUPS)
    return row(
        "shift",
        f"tcgen05.shift.cta_group::{cta_group}.down",
        Intrinsic(f"llvm.nvvm.tcgen05.shift.down.cg{cta_group}", ("tmem",)),
        "9.7.16.9.3 (tcgen05.shift)",
        "Shifts rows of tensor memory down.",
        TMEM,
        effects=Effect.NONE,
        said=semantics.shifting(cta_group),
        requires=Feature.ARCH_CONDITIONAL,
        cta_group=cta_group,
    )


COMMIT_SPACES = ("shared::cluster", None)
"""State spaces of commit's mbarrier; None is a generic address."""


@cache
def commit(cta_group: int = 1, *, multicast: bool = False, space: str | None = "shared::cluster") -> Row:
    """tcgen05.commit: an mbarrier gets one arrival when all this thread's mma, cp and shift so far are done.

    With `multicast`, the mbarrier at the same place of every CTA of `multicast_mask`. Generic addresses go through
    asm: LLVM prints them as shared::cluster ones.
    """
    chosen("cta_group", cta_group, CTA_GROUPS)
    chosen("space", space, COMMIT_SPACES)
    mask = (operand("multicast_mask", RegisterClass.B16, meaning="a bit for each CTA of the cluster"),)
    cluster = space is not None
    names = ("barrier", "multicast_mask") if multicast else ("barrier",)
    return row(
        "commit",
        spelled(
            f"tcgen05.commit.cta_group::{cta_group}.mbarrier::arrive::one",
            space,
            "multicast::cluster" if multicast else None,
            "b64",
        ),
        Intrinsic(f"llvm.nvvm.tcgen05.commit.{'mc.' if multicast else ''}shared.cg{cta_group}", names)
        if cluster
        else Asm("{ptx} [{barrier}]" + (", {multicast_mask};" if multicast else ";")),
        "9.7.16.12.1 (tcgen05.commit)",
        "Makes an mbarrier track the asynchronous tcgen05 operations so far.",
        operand("barrier", RegisterClass.SHARED if cluster else RegisterClass.GENERIC, rule="mbarrier.address"),
        *(mask if multicast else ()),
        effects=Effect.ORDERS | Effect.WRITES_MEMORY,
        said=semantics.committing(cta_group, multicast=multicast, peers=cluster),
        cta_group=cta_group,
        multicast=multicast,
        space=space,
    )


@cache
def fence(side: str) -> Row:
    """tcgen05.fence::before_thread_sync or ::after_thread_sync: order tcgen05 operations with a thread barrier."""
    chosen("side", side, FENCES)
    return row(
        "fence",
        f"tcgen05.fence::{side}_thread_sync",
        Intrinsic(f"llvm.nvvm.tcgen05.fence.{side}.thread.sync"),
        "9.7.16.11.1 (tcgen05.fence)",
        "Orders asynchronous tcgen05 operations with what synchronises threads.",
        effects=Effect.ORDERS,
        said=semantics.fencing(side),
        side=side,
    )


def rows() -> Iterator[Row]:
    """Every row of this module."""
    for group in CTA_GROUPS:
        yield from (alloc(group, space=space) for space in ALLOCATION_SPACES)
        yield from (dealloc(group), relinquish_alloc_permit(group), shift(group))
        for multicast, space in itertools.product(_BOTH, COMMIT_SPACES):
            yield commit(group, multicast=multicast, space=space)
        for shape, repeats in COPY_SHAPES.items():
            for repeat, unpack in itertools.product(repeats, COPY_FORMATS):
                yield cp(shape, repeat, unpack=unpack, cta_group=group)
    yield from (fence(side) for side in FENCES)
