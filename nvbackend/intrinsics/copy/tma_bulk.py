"""TMA rows without a tensor map: bytes in a row, reductions of them, and bulk groups.

PTX ISA 9.7.9 (cp.async.bulk, cp.reduce.async.bulk, cp.async.bulk.prefetch, commit_group, wait_group). Operands as in
`tma`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.copy.tma import (
    BARRIER,
    BULK_PTX,
    BYTES,
    COMPLETES,
    DESTINATION,
    GLOBAL_DESTINATION,
    GLOBAL_SOURCE,
    LOCAL_DESTINATION,
    PREFETCHES,
    REMOTE_BARRIER,
    SHARED_CTA_PTX,
    SHARED_SOURCE,
    copy_row,
    counted,
    grouped,
    options,
)
from nvbackend.intrinsics.copy.tma_tensor import DESTINATIONS
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Asm,
    Effect,
    Intrinsic,
    RegisterClass,
    Row,
    RowOperand,
    chosen,
    immediate,
    operand,
    spelled,
)
from nvbackend.intrinsics.row.semantics import Completion, Semantics, reads, writes

PENDING_GROUPS = range(64)
"""How many groups a wait can leave in flight: ptxas encodes a larger number as the highest, and a huge one as 0."""

_MOVED = (writes("destination", BYTES.name), reads("source", BYTES.name))
_BYTE_MASK = operand("byte_mask", RegisterClass.B16, meaning="bit i: byte i of every 16 is written")
_INTEGERS = ("u32", "s32", "u64", "s64")
_BITS = ("b32", "b64")

REDUCTION_TYPES: dict[str, dict[str, tuple[str, ...]]] = {
    "global": {
        "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
        "min": (*_INTEGERS, "f16", "bf16"),
        "max": (*_INTEGERS, "f16", "bf16"),
        "inc": ("u32",),
        "dec": ("u32",),
        **dict.fromkeys(("and", "or", "xor"), _BITS),
    },
    "cluster": {
        "add": ("u32", "s32", "u64"),
        "min": ("u32", "s32"),
        "max": ("u32", "s32"),
        "inc": ("u32",),
        "dec": ("u32",),
        **dict.fromkeys(("and", "or", "xor"), ("b32",)),
    },
}
"""Where a bulk reduction goes (global memory, or shared memory of the cluster), what it does, and to which types."""
_KEEPS_SUBNORMALS = ("f16", "bf16")
"""Types whose addition spells `.noftz`: it keeps subnormal numbers."""


@cache
def load_bulk(multicast: bool = False, cache_hint: bool = False, destination: str = "cluster") -> Row:
    """cp.async.bulk, global to shared memory: `bytes` in a row, completed on `barrier`.

    `destination` "cta" is the form without a cluster, which has no multicast.
    """
    in_cta = chosen("destination", destination, DESTINATIONS) == "cta"
    chosen("multicast", multicast, (False,) if in_cta else (False, True))
    optional = options(cache_hint=cache_hint) if in_cta else options(multicast=multicast, cache_hint=cache_hint)
    return copy_row(
        "cp.async.bulk",
        spelled(f"cp.async.bulk.shared::{destination}.global.{COMPLETES}", optional.spelled()),
        (LOCAL_DESTINATION if in_cta else DESTINATION, GLOBAL_SOURCE, BYTES, BARRIER, *optional.operands),
        Intrinsic(
            f"llvm.nvvm.cp.async.bulk.global.to.shared.{destination}",
            ("destination", "barrier", "source", "bytes", *optional.arguments),
        ),
        "Copies bytes from global to shared memory.",
        counted(*_MOVED, multicast=multicast, peers=not in_cta),
        ptx_version=SHARED_CTA_PTX if in_cta else BULK_PTX,
        direction="load",
        destination=destination,
        multicast=multicast,
        cache_hint=cache_hint,
    )


@cache
def store_bulk(cache_hint: bool = False, byte_mask: bool = False) -> Row:
    """cp.async.bulk, shared to global memory: `bytes` in a row, in a bulk group.

    With `byte_mask`, bit i of that operand says whether byte i of every 16 is written.
    """
    optional = options(cache_hint=cache_hint)
    masked = ((_BYTE_MASK,), "cp_mask", (_BYTE_MASK.name,), ".bytemask") if byte_mask else ((), None, (), "")
    operands, qualifier, argument, suffix = masked
    return copy_row(
        "cp.async.bulk",
        spelled("cp.async.bulk.global.shared::cta.bulk_group", optional.spelled(), qualifier),
        (GLOBAL_DESTINATION, SHARED_SOURCE, BYTES, *optional.operands, *operands),
        Intrinsic(
            f"llvm.nvvm.cp.async.bulk.shared.cta.to.global{suffix}",
            ("destination", "source", "bytes", *optional.arguments, *argument),
        ),
        "Copies bytes from shared to global memory.",
        grouped(*_MOVED),
        requires=Feature.SM_100 if byte_mask else Feature.NONE,
        ptx_version=SHARED_CTA_PTX if byte_mask else BULK_PTX,
        direction="store",
        cache_hint=cache_hint,
        byte_mask=byte_mask,
    )


@cache
def copy_bulk() -> Row:
    """cp.async.bulk from this CTA's shared memory to another CTA's, completed on a `barrier` of that CTA.

    By asm: LLVM's intrinsic takes the barrier for one of this CTA.
    """
    return copy_row(
        "cp.async.bulk",
        f"cp.async.bulk.shared::cluster.shared::cta.{COMPLETES}",
        (DESTINATION, SHARED_SOURCE, BYTES, REMOTE_BARRIER),
        Asm("{ptx} [{destination}], [{source}], {bytes}, [{barrier}];"),
        "Copies bytes between the shared memories of a cluster.",
        counted(*_MOVED, in_cluster=True),
        direction="copy",
    )


@cache
def reduce_bulk(space: str, operation: str, element: str, cache_hint: bool = False) -> Row:
    """cp.reduce.async.bulk: combine `bytes` at `source` with what is at `destination`, each element atomically.

    `space` "global" is in a bulk group; "cluster" completes on a `barrier` of the same CTA, and takes no cache
    hint. `element` is a type of REDUCTION_TYPES. By asm: LLVM has no intrinsic for it.
    """
    operations = REDUCTION_TYPES[chosen("space", space, REDUCTION_TYPES)]
    chosen("element", element, operations[chosen("operation", operation, operations)])
    to_global = space == "global"
    chosen("cache_hint", cache_hint, (False, True) if to_global else (False,))
    optional = options(cache_hint=cache_hint)
    rounding = "noftz" if operation == "add" and element in _KEEPS_SUBNORMALS else None
    where = spelled("global.shared::cta.bulk_group", optional.spelled()) if to_global else _TO_CLUSTER
    policy = ", {cache_policy};" if cache_hint else ";"
    operands: tuple[RowOperand, ...] = (GLOBAL_DESTINATION if to_global else DESTINATION, SHARED_SOURCE, BYTES)
    return copy_row(
        "cp.reduce.async.bulk",
        spelled("cp.reduce.async.bulk", where, operation, rounding, element),
        (*operands, *(() if to_global else (REMOTE_BARRIER,)), *optional.operands),
        Asm("{ptx} [{destination}], [{source}], {bytes}" + (policy if to_global else ", [{barrier}];")),
        "Combines bytes of shared memory with those of global memory or of another CTA.",
        grouped(*_MOVED) if to_global else counted(*_MOVED, in_cluster=True),
        direction="reduce",
        space=space,
        operation=operation,
        element=element,
        cache_hint=cache_hint,
    )


_TO_CLUSTER = f"shared::cluster.shared::cta.{COMPLETES}"


@cache
def prefetch_bulk(cache_hint: bool = False) -> Row:
    """cp.async.bulk.prefetch: bring `bytes` in a row to the L2 cache."""
    optional = options(cache_hint=cache_hint)
    return copy_row(
        "cp.async.bulk.prefetch",
        spelled("cp.async.bulk.prefetch.L2.global", optional.spelled()),
        (GLOBAL_SOURCE, BYTES, *optional.operands),
        Intrinsic("llvm.nvvm.cp.async.bulk.prefetch.L2", ("source", "bytes", *optional.arguments)),
        "Brings bytes to the L2 cache.",
        PREFETCHES,
        direction="prefetch",
        cache_hint=cache_hint,
    )


@cache
def commit_group() -> Row:
    """cp.async.bulk.commit_group: this thread's stores since the last one become a bulk group."""
    opcode = "cp.async.bulk.commit_group"
    lowering = Intrinsic("llvm.nvvm.cp.async.bulk.commit.group")
    semantics = Semantics(commits=Completion.BULK_GROUP)
    return copy_row(opcode, opcode, (), lowering, "Closes a bulk group.", semantics, effects=Effect.ORDERS)


@cache
def wait_group(read: bool = False) -> Row:
    """cp.async.bulk.wait_group: wait until at most `pending` of this thread's bulk groups are not complete.

    `read`: only until their sources have been read, so that the shared memory can be written again.
    """
    opcode = "cp.async.bulk.wait_group"
    qualifier = "read" if read else None
    return copy_row(
        opcode,
        spelled(opcode, qualifier),
        (immediate("pending", PENDING_GROUPS, meaning="groups that may stay in flight"),),
        Intrinsic(spelled("llvm.nvvm.cp.async.bulk.wait.group", qualifier), ("pending",)),
        "Waits for bulk groups.",
        Semantics(awaits=Completion.BULK_GROUP),
        effects=Effect.ORDERS,
    )


def rows() -> Iterator[Row]:
    """Every row of bulk copies without a tensor map, and of bulk groups."""
    for cache_hint in (False, True):
        yield from (load_bulk(multicast, cache_hint) for multicast in (False, True))
        yield load_bulk(cache_hint=cache_hint, destination="cta")
        yield from (store_bulk(cache_hint, byte_mask) for byte_mask in (False, True))
        yield prefetch_bulk(cache_hint)
    for space, operations in REDUCTION_TYPES.items():
        for operation, elements in operations.items():
            for element in elements:
                for cache_hint in (False, True) if space == "global" else (False,):
                    yield reduce_bulk(space, operation, element, cache_hint)
    yield from (copy_bulk(), commit_group(), wait_group(), wait_group(read=True))
