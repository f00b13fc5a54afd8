"""What the rows of TMA have in common: operands, options, and the row itself. PTX ISA 9.7.9 (cp.async.bulk...).

Operand names: `destination` and `source` addresses, `tensor_map` the generic address of a CUtensorMap (64-byte
aligned, a grid-constant parameter), `coordinates` the element where the box starts, innermost dimension first,
`offsets` of im2col, `barrier` the mbarrier that the bytes complete on, `multicast_mask` one bit for each CTA of the
cluster that gets a copy, `cache_policy` from createpolicy, `bytes` a multiple of 16.
"""

from __future__ import annotations

from dataclasses import replace

from nvbackend.diagnostics.classes.dataclass import dataclass
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
from nvbackend.intrinsics.row.semantics import Completion, MbarrierUse, MemoryOperand, Proxy, Semantics, TensorMapUse
from nvbackend.intrinsics.row.types import s32

FAMILY = "tma"
BULK_ALIGNMENT = 16
"""Addresses and sizes of bulk copies are multiples of this many bytes."""
TENSOR_ALIGNMENT = 128
"""Addresses in shared memory of boxes of a tensor are multiples of this many bytes."""
BULK_PTX: PtxVersion = (8, 0)
SHARED_CTA_PTX: PtxVersion = (8, 6)
"""Loads into shared::cta, and all that came with compute capability 10.0."""
COMPLETES = "mbarrier::complete_tx::bytes"

TENSOR_MAP = operand("tensor_map", RegisterClass.GENERIC, meaning="address of the CUtensorMap")
BARRIER = operand(
    "barrier", RegisterClass.SHARED, meaning="mbarrier that the bytes complete on", rule="mbarrier.address"
)
REMOTE_BARRIER = operand("barrier", RegisterClass.SHARED_CLUSTER, meaning="mbarrier in the CTA of the destination")
SHARED_SOURCE = operand("source", RegisterClass.SHARED, meaning="shared memory of this CTA")
GLOBAL_SOURCE = operand("source", RegisterClass.GLOBAL, meaning="global memory")
GLOBAL_DESTINATION = operand("destination", RegisterClass.GLOBAL, meaning="global memory")
DESTINATION = operand("destination", RegisterClass.SHARED_CLUSTER, meaning="shared memory; this offset in each CTA")
LOCAL_DESTINATION = operand("destination", RegisterClass.SHARED, meaning="shared memory of this CTA")
BYTES = operand("bytes", RegisterClass.B32, meaning="multiple of 16", element=s32, rule="tma.bulk-size")

_OPTIONAL = {
    "multicast": (
        operand("multicast_mask", RegisterClass.B16, meaning="bit r: the CTA of rank r gets a copy"),
        "multicast::cluster",
    ),
    "cache_hint": (
        operand(
            "cache_policy", RegisterClass.B64, meaning="L2 eviction policy, from createpolicy", rule="cache.policy"
        ),
        "L2::cache_hint",
    ),
}
"""Options of a copy: the operand each adds and the qualifier that says so."""


@dataclass(frozen=True, slots=True)
class Options:
    """The optional operands, the qualifiers they bring, and LLVM's arguments for them.

    LLVM takes every optional operand always (zero where it is not used), then a flag for each.
    """

    operands: tuple[RowOperand, ...]
    qualifiers: tuple[str, ...]
    arguments: tuple[str | tuple[str, int], ...]

    def spelled(self, between: str | None = None) -> str | None:
        """The qualifiers as text, None for none; `between` comes before the last qualifier (the cache hint)."""
        hints = [text for text in self.qualifiers if text == _OPTIONAL["cache_hint"][1]]
        others = [text for text in self.qualifiers if text not in hints]
        return spelled(*others, between, *hints) or None


def options(**used: bool) -> Options:
    """The options of an instruction that has `used` (multicast, cache_hint), each with whether it is used here.

    Raises NoSuchRow where that is not True or False.
    """
    for name, is_used in used.items():
        chosen(name, is_used, (False, True))
    optional = {name: _OPTIONAL[name] for name in used}
    taken = [optional[name] for name in used if used[name]]
    values = tuple(
        operand.name if used[name] else (operand.register.llvm, 0) for name, (operand, _) in optional.items()
    )
    return Options(
        operands=tuple(operand for operand, _ in taken),
        qualifiers=tuple(qualifier for _, qualifier in taken),
        arguments=(*values, *(("i1", int(flag)) for flag in used.values())),
    )


def counted(
    *memory: MemoryOperand, multicast: bool = False, peers: bool = False, in_cluster: bool = False
) -> Semantics:
    """What a copy is whose bytes complete on an mbarrier."""
    return Semantics(
        MbarrierUse.COMPLETE,
        issues=Completion.BYTES,
        memory=memory,
        proxy=Proxy.ASYNC,
        multicast=multicast,
        peers=peers,
        in_cluster=in_cluster,
    )


def grouped(*memory: MemoryOperand) -> Semantics:
    """What a copy is that is in a bulk group."""
    return Semantics(issues=Completion.BULK_GROUP, memory=memory, proxy=Proxy.ASYNC)


PREFETCHES = Semantics(issues=Completion.NOTHING, proxy=Proxy.ASYNC)
"""What a prefetch is, for which nothing waits."""


def copy_row(
    opcode: str,
    ptx: str,
    operands: tuple[RowOperand, ...],
    lowering: Asm | Intrinsic,
    summary: str,
    semantics: Semantics,
    *,
    requires: Feature = Feature.NONE,
    ptx_version: PtxVersion = BULK_PTX,
    effects: Effect = Effect.READS_MEMORY | Effect.WRITES_MEMORY,
    **axes: object,
) -> Row:
    """A row of TMA. `requires` is what it needs besides compute capability 9.0."""
    multicast = Feature.CLUSTER_MULTICAST if axes.get("multicast") else Feature.NONE
    waits = semantics.issues is not Completion.NOTHING
    return Row(
        family=FAMILY,
        opcode=opcode,
        ptx=ptx,
        operands=operands,
        lowering=lowering,
        requires=Feature.SM_90 | multicast | requires,
        ptx_version=ptx_version,
        effects=effects,
        semantics=replace(semantics, tensor_map=TensorMapUse.COPY) if TENSOR_MAP in operands and waits else semantics,
        section=f"9.7.9 ({opcode})",
        summary=summary,
        axes=axes,
    )
