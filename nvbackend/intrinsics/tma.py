"""TMA rows: bulk copies between global and shared memory by the async proxy. PTX ISA 9.7.9 (cp.async.bulk...).

Operand names: `destination` and `source` addresses, `tensor_map` the generic address of a CUtensorMap (64-byte
aligned, a grid-constant parameter), `coordinates` the element where the box starts, innermost dimension first,
`barrier` the mbarrier that the bytes complete on, `multicast_mask` one bit for each CTA of the cluster that gets a
copy, `cache_policy` from createpolicy, `bytes` a multiple of 16.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from nvbackend.intrinsics.axes import chosen, spelled
from nvbackend.intrinsics.features import Feature
from nvbackend.intrinsics.row import Asm, Effect, Intrinsic, Operand, PtxVersion, RegisterClass, Row, immediate, operand

RANKS = range(1, 6)
"""Dimensions a tensor map can have."""
BULK_ALIGNMENT = 16
"""Addresses and sizes of bulk copies are multiples of this many bytes."""

_BULK_PTX: PtxVersion = (8, 0)
_COPIES = Effect.ASYNC | Effect.READS_MEMORY | Effect.WRITES_MEMORY
_TENSOR_MAP = operand("tensor_map", RegisterClass.GENERIC, meaning="address of the CUtensorMap")
_BARRIER = operand("barrier", RegisterClass.SHARED, meaning="mbarrier that the bytes complete on")
_REMOTE_BARRIER = operand("barrier", RegisterClass.SHARED_CLUSTER, meaning="mbarrier in the CTA of the destination")
_SHARED_SOURCE = operand("source", RegisterClass.SHARED, meaning="shared memory of this CTA")
_GLOBAL_SOURCE = operand("source", RegisterClass.GLOBAL, meaning="global memory")
_GLOBAL_DESTINATION = operand("destination", RegisterClass.GLOBAL, meaning="global memory")
_DESTINATION = operand("destination", RegisterClass.SHARED_CLUSTER, meaning="shared memory; this offset in each CTA")
_BYTES = operand("bytes", RegisterClass.B32, meaning="multiple of 16")

_OPTIONAL = {
    "multicast": (
        operand("multicast_mask", RegisterClass.B16, meaning="bit r: the CTA of rank r gets a copy"),
        "multicast::cluster",
    ),
    "cache_hint": (
        operand("cache_policy", RegisterClass.B64, meaning="L2 eviction policy, from createpolicy"),
        "L2::cache_hint",
    ),
}
"""Options of a copy: the operand each adds and the qualifier that says so."""


def _coordinates(rank: int) -> Operand:
    count = chosen("rank", rank, RANKS)
    return operand("coordinates", RegisterClass.B32, count, meaning="start of the box in elements, innermost first")


@dataclass(frozen=True, slots=True)
class _Options:
    """The optional operands, the qualifiers they bring, and LLVM's arguments for them.

    LLVM takes every optional operand always (zero where it is not used), then a flag for each.
    """

    operands: tuple[Operand, ...]
    qualifiers: str | None
    arguments: tuple[str | tuple[str, int], ...]


def _options(**used: bool) -> _Options:
    """The options of an instruction that has `used` (multicast, cache_hint), each with whether it is used here."""
    given = {name: _OPTIONAL[name] for name in used}
    taken = [given[name] for name in used if used[name]]
    values = tuple(operand.name if used[name] else (operand.register.llvm, 0) for name, (operand, _) in given.items())
    return _Options(
        operands=tuple(operand for operand, _ in taken),
        qualifiers=spelled(*(qualifier for _, qualifier in taken)) or None,
        arguments=(*values, *(("i1", int(flag)) for flag in used.values())),
    )


def _tma(
    opcode: str, ptx: str, operands: tuple[Operand, ...], lowering: Asm | Intrinsic, summary: str, **axes: object
) -> Row:
    return Row(
        family="tma",
        opcode=opcode,
        ptx=ptx,
        operands=operands,
        lowering=lowering,
        requires=Feature.SM_90 | (Feature.CLUSTER_MULTICAST if axes.get("multicast") else Feature.NONE),
        ptx_version=_BULK_PTX,
        effects=_COPIES,
        section=f"9.7.9 ({opcode})",
        summary=summary,
        axes=axes,
    )


@cache
def load_tile(rank: int, multicast: bool = False, cache_hint: bool = False) -> Row:
    """cp.async.bulk.tensor, global to shared memory, tile mode: one box of the tensor to `destination`.

    Completes the box's bytes on `barrier`. With `multicast`, `destination` and `barrier` are offsets used in each CTA
    of `multicast_mask`. Raises NoSuchRow for a rank outside RANKS.
    """
    options = _options(multicast=multicast, cache_hint=cache_hint)
    opcode = "cp.async.bulk.tensor"
    return _tma(
        opcode,
        spelled(opcode, f"{rank}d", "shared::cluster.global.tile.mbarrier::complete_tx::bytes", options.qualifiers),
        (_DESTINATION, _TENSOR_MAP, _coordinates(rank), _BARRIER, *options.operands),
        Intrinsic(
            f"llvm.nvvm.cp.async.bulk.tensor.g2s.tile.{rank}d",
            ("destination", "barrier", "tensor_map", "coordinates", *options.arguments, ("i32", 0)),
        ),
        "Copies a box of a tensor from global to shared memory.",
        rank=rank,
        direction="load",
        multicast=multicast,
        cache_hint=cache_hint,
    )


@cache
def store_tile(rank: int, cache_hint: bool = False) -> Row:
    """cp.async.bulk.tensor, shared to global memory, tile mode: the box at `source` to the tensor, in a bulk group."""
    options = _options(cache_hint=cache_hint)
    opcode = "cp.async.bulk.tensor"
    return _tma(
        opcode,
        spelled(opcode, f"{rank}d", "global.shared::cta.tile.bulk_group", options.qualifiers),
        (_TENSOR_MAP, _coordinates(rank), _SHARED_SOURCE, *options.operands),
        Intrinsic(
            f"llvm.nvvm.cp.async.bulk.tensor.s2g.tile.{rank}d",
            ("source", "tensor_map", "coordinates", *options.arguments),
        ),
        "Copies a box from shared memory to a tensor in global memory.",
        rank=rank,
        direction="store",
        cache_hint=cache_hint,
    )


@cache
def prefetch_tile(rank: int, cache_hint: bool = False) -> Row:
    """cp.async.bulk.prefetch.tensor: bring a box of the tensor to the L2 cache."""
    options = _options(cache_hint=cache_hint)
    opcode = "cp.async.bulk.prefetch.tensor"
    return _tma(
        opcode,
        spelled(opcode, f"{rank}d", "L2.global.tile", options.qualifiers),
        (_TENSOR_MAP, _coordinates(rank), *options.operands),
        Intrinsic(
            f"llvm.nvvm.cp.async.bulk.tensor.prefetch.tile.{rank}d", ("tensor_map", "coordinates", *options.arguments)
        ),
        "Brings a box of a tensor to the L2 cache.",
        rank=rank,
        direction="prefetch",
        cache_hint=cache_hint,
    )


@cache
def load_bulk(multicast: bool = False, cache_hint: bool = False) -> Row:
    """cp.async.bulk, global to shared memory: `bytes` in a row, completed on `barrier`."""
    options = _options(multicast=multicast, cache_hint=cache_hint)
    return _tma(
        "cp.async.bulk",
        spelled("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", options.qualifiers),
        (_DESTINATION, _GLOBAL_SOURCE, _BYTES, _BARRIER, *options.operands),
        Intrinsic(
            "llvm.nvvm.cp.async.bulk.global.to.shared.cluster",
            ("destination", "barrier", "source", "bytes", *options.arguments),
        ),
        "Copies bytes from global to shared memory.",
        direction="load",
        multicast=multicast,
        cache_hint=cache_hint,
    )


@cache
def store_bulk(cache_hint: bool = False) -> Row:
    """cp.async.bulk, shared to global memory: `bytes` in a row, in a bulk group."""
    options = _options(cache_hint=cache_hint)
    return _tma(
        "cp.async.bulk",
        spelled("cp.async.bulk.global.shared::cta.bulk_group", options.qualifiers),
        (_GLOBAL_DESTINATION, _SHARED_SOURCE, _BYTES, *options.operands),
        Intrinsic(
            "llvm.nvvm.cp.async.bulk.shared.cta.to.global", ("destination", "source", "bytes", *options.arguments)
        ),
        "Copies bytes from shared to global memory.",
        direction="store",
        cache_hint=cache_hint,
    )


@cache
def copy_bulk() -> Row:
    """cp.async.bulk from this CTA's shared memory to another CTA's, completed on a `barrier` beside the destination.

    By asm: LLVM's intrinsic takes the barrier for one of this CTA.
    """
    return _tma(
        "cp.async.bulk",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
        (_DESTINATION, _SHARED_SOURCE, _BYTES, _REMOTE_BARRIER),
        Asm("{ptx} [{destination}], [{source}], {bytes}, [{barrier}];"),
        "Copies bytes between the shared memories of a cluster.",
        direction="copy",
    )


@cache
def prefetch_bulk(cache_hint: bool = False) -> Row:
    """cp.async.bulk.prefetch: bring `bytes` in a row to the L2 cache."""
    options = _options(cache_hint=cache_hint)
    return _tma(
        "cp.async.bulk.prefetch",
        spelled("cp.async.bulk.prefetch.L2.global", options.qualifiers),
        (_GLOBAL_SOURCE, _BYTES, *options.operands),
        Intrinsic("llvm.nvvm.cp.async.bulk.prefetch.L2", ("source", "bytes", *options.arguments)),
        "Brings bytes to the L2 cache.",
        direction="prefetch",
        cache_hint=cache_hint,
    )


def _group(opcode: str, ptx: str, lowering: Intrinsic, operands: tuple[Operand, ...], summary: str) -> Row:
    return Row(
        family="tma",
        opcode=opcode,
        ptx=ptx,
        operands=operands,
        lowering=lowering,
        requires=Feature.SM_90,
        ptx_version=_BULK_PTX,
        effects=Effect.ORDERS,
        section=f"9.7.9 ({opcode})",
        summary=summary,
    )


@cache
def commit_group() -> Row:
    """cp.async.bulk.commit_group: this thread's stores since the last one become a bulk group."""
    opcode = "cp.async.bulk.commit_group"
    return _group(opcode, opcode, Intrinsic("llvm.nvvm.cp.async.bulk.commit.group"), (), "Closes a bulk group.")


@cache
def wait_group(read: bool = False) -> Row:
    """cp.async.bulk.wait_group: wait until at most `pending` of this thread's bulk groups are not complete.

    `read`: only until their sources have been read, so that the shared memory can be written again.
    """
    opcode = "cp.async.bulk.wait_group"
    qualifier = "read" if read else None
    return _group(
        opcode,
        spelled(opcode, qualifier),
        Intrinsic(spelled("llvm.nvvm.cp.async.bulk.wait.group", qualifier), ("pending",)),
        (immediate("pending", meaning="groups that may stay in flight"),),
        "Waits for bulk groups.",
    )


@cache
def prefetch_tensormap() -> Row:
    """prefetch.tensormap: bring the tensor map itself near before the first copy uses it."""
    return Row(
        family="tma",
        opcode="prefetch.tensormap",
        ptx="prefetch.tensormap",
        operands=(_TENSOR_MAP,),
        lowering=Intrinsic("llvm.nvvm.prefetch.tensormap.p0", ("tensor_map",)),
        requires=Feature.SM_90,
        ptx_version=_BULK_PTX,
        effects=Effect.READS_MEMORY,
        section="9.7.9 (prefetch)",
        summary="Prefetches a tensor map.",
    )


def rows() -> Iterator[Row]:
    """Every TMA row."""
    for cache_hint in (False, True):
        for multicast in (False, True):
            yield from (load_tile(rank, multicast, cache_hint) for rank in RANKS)
            yield load_bulk(multicast, cache_hint)
        for rank in RANKS:
            yield from (store_tile(rank, cache_hint), prefetch_tile(rank, cache_hint))
        yield from (store_bulk(cache_hint), prefetch_bulk(cache_hint))
    yield from (copy_bulk(), commit_group(), wait_group(), wait_group(read=True), prefetch_tensormap())
