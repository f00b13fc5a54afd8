"""Cluster rows: barrier of a cluster's CTAs, and addresses in another CTA's shared memory.

PTX ISA 9.7.13 (barrier.cluster), 9.7.9 (mapa, getctarank). A CTA's rank in its cluster is a special register.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Asm, Effect, Intrinsic, RegisterClass, Row, chosen, operand, output, spelled
from nvbackend.intrinsics.row.semantics import Scope, Semantics, ThreadBarrier
from nvbackend.intrinsics.row.types import s32

PORTABLE_SIZES = range(1, 9)
"""Clusters that every chip with clusters can launch, in CTAs."""
SIZES = range(1, 17)
"""Clusters that some chips launch once the kernel allows a non-portable size, in CTAs."""

_ARRIVE_SEMANTICS = (None, "relaxed", "release")
_WAIT_SEMANTICS = (None, "acquire")


@cache
def barrier_arrive(semantics: str | None = None, *, aligned: bool = True) -> Row:
    """barrier.cluster.arrive: release, which can be spelled; `semantics` "relaxed" orders no memory access.

    `aligned`: all threads of the warp execute it together. Raises NoSuchRow for other semantics.
    """
    chosen("semantics", semantics, _ARRIVE_SEMANTICS)
    qualifiers = spelled(*filter(None, (semantics, "aligned" if aligned else None))) or None
    return Row(
        family="cluster",
        opcode="barrier.cluster.arrive",
        ptx=spelled("barrier.cluster.arrive", qualifiers),
        operands=(),
        lowering=Asm("{ptx};")
        if semantics == "release"
        else Intrinsic(spelled("llvm.nvvm.barrier.cluster.arrive", qualifiers)),
        requires=Feature.SM_90,
        ptx_version=(8, 0) if semantics else (7, 8),
        effects=(Effect.CONVERGENT if aligned else Effect.NONE) | Effect.ORDERS,
        semantics=Semantics(
            barrier=ThreadBarrier(Scope.CLUSTER, waits=False, relaxed=semantics == "relaxed"), releases=Scope.CLUSTER
        ),
        section="9.7.13 (barrier.cluster)",
        summary="Marks this thread's arrival at the cluster barrier without waiting.",
        axes={"semantics": semantics, "aligned": aligned},
    )


@cache
def barrier_wait(semantics: str | None = None, *, aligned: bool = True) -> Row:
    """barrier.cluster.wait: wait for every thread of the cluster; acquires what they released, which can be spelled."""
    chosen("semantics", semantics, _WAIT_SEMANTICS)
    qualifiers = spelled(*filter(None, (semantics, "aligned" if aligned else None))) or None
    ptx = spelled("barrier.cluster.wait", qualifiers)
    return Row(
        family="cluster",
        opcode="barrier.cluster.wait",
        ptx=ptx,
        operands=(),
        lowering=Asm("{ptx};") if semantics else Intrinsic(f"llvm.nvvm.{ptx}"),
        requires=Feature.SM_90,
        ptx_version=(8, 0) if semantics else (7, 8),
        effects=(Effect.CONVERGENT if aligned else Effect.NONE) | Effect.ORDERS,
        semantics=Semantics(barrier=ThreadBarrier(Scope.CLUSTER, arrives=False), acquires=Scope.CLUSTER),
        section="9.7.13 (barrier.cluster)",
        summary="Waits until all threads of the cluster have arrived.",
        axes={"semantics": semantics, "aligned": aligned},
    )


_POINTERS: dict[tuple[str | None, int], tuple[RegisterClass, RegisterClass]] = {
    ("shared::cluster", 32): (RegisterClass.SHARED, RegisterClass.SHARED_CLUSTER),
    ("shared::cluster", 64): (RegisterClass.B64, RegisterClass.B64),
    (None, 32): (RegisterClass.B32, RegisterClass.B32),
    (None, 64): (RegisterClass.GENERIC, RegisterClass.GENERIC),
}
"""State space (None: generic) and bits of an address: its register in this CTA, and anywhere in the cluster."""
ADDRESSES = tuple(_POINTERS)


@cache
def mapa(space: str | None = "shared::cluster", bits: int = 32) -> Row:
    """mapa: the address that `address` of this CTA's shared memory has in the CTA of rank `rank`.

    `space` None: both are generic addresses, of 64 `bits` as a rule. By asm: LLVM holds shared pointers in 64 bits and
    prints the `.u64` form only.
    """
    own, mapped = _POINTERS[chosen("space and bits", (space, bits), ADDRESSES)]
    return Row(
        family="cluster",
        opcode="mapa",
        ptx=spelled("mapa", space, f"u{bits}"),
        operands=(
            output("mapped", mapped, meaning="the same place in the CTA of that rank"),
            operand("address", own, meaning="an address in this CTA's shared memory"),
            operand("rank", RegisterClass.B32, meaning="rank of a CTA in the cluster", element=s32),
        ),
        lowering=Asm("{ptx} {mapped}, {address}, {rank};"),
        requires=Feature.SM_90,
        ptx_version=(7, 8),
        section="9.7.9 (mapa)",
        summary="Maps a shared-memory address to the same place in another CTA of the cluster.",
        axes={"space": space, "bits": bits},
    )


@cache
def getctarank(space: str | None = "shared::cluster", bits: int = 32) -> Row:
    """getctarank: the rank of the CTA whose shared memory `address` lies in; `space` and `bits` as of `mapa`."""
    _, address = _POINTERS[chosen("space and bits", (space, bits), ADDRESSES)]
    return Row(
        family="cluster",
        opcode="getctarank",
        ptx=spelled("getctarank", space, f"u{bits}"),
        operands=(output("rank", RegisterClass.B32), operand("address", address)),
        lowering=Asm("{ptx} {rank}, {address};"),
        requires=Feature.SM_90,
        ptx_version=(7, 8),
        section="9.7.9 (getctarank)",
        summary="Gives the rank of the CTA that an address of shared memory belongs to.",
        axes={"space": space, "bits": bits},
    )


def rows() -> Iterator[Row]:
    """Every cluster row."""
    for aligned in (True, False):
        yield from (barrier_arrive(semantics, aligned=aligned) for semantics in _ARRIVE_SEMANTICS)
        yield from (barrier_wait(semantics, aligned=aligned) for semantics in _WAIT_SEMANTICS)
    for space, bits in ADDRESSES:
        yield from (mapa(space, bits), getctarank(space, bits))
