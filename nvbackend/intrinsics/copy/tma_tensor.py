"""TMA rows that move a box of a tensor: loads, stores, reductions and prefetches in every mode.

PTX ISA 9.7.9 (cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, cp.async.bulk.prefetch.tensor); the modes are those
of 5.5 (tensors). Operands as in `tma`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy.tma import (
    BARRIER,
    BULK_PTX,
    COMPLETES,
    DESTINATION,
    LOCAL_DESTINATION,
    PREFETCHES,
    SHARED_CTA_PTX,
    SHARED_SOURCE,
    TENSOR_MAP,
    Options,
    copy_row,
    counted,
    grouped,
    options,
)
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Asm, Intrinsic, RegisterClass, Row, RowOperand, chosen, operand, spelled
from nvbackend.intrinsics.row.semantics import reads, writes
from nvbackend.intrinsics.row.types import s32

RANKS = range(1, 6)
"""Dimensions a tensor map can have."""
IM2COL_RANKS = range(3, 6)
"""Dimensions of a tensor map that im2col reads: channels, one to three of space, and the batch."""
GATHERED_ROWS = 4
"""Rows that gather4 and scatter4 name one by one."""
WIDE_OFFSETS = 2
"""Offsets of the wide im2col modes: of the halo and along the width."""


@dataclass(frozen=True, slots=True)
class Mode:
    """How the box lies in the tensor: the ranks it exists for, its coordinates and offsets, what it needs.

    `llvm` is its part of the intrinsic's name; `requires` what it needs in shared::cluster, or where the destination
    is not shared memory; `requires_in_cta` what it needs in shared::cta.
    """

    name: str
    llvm: str
    ranks: Sequence[int] = RANKS
    fixed_coordinates: int | None = None
    fixed_offsets: int | None = None
    requires: Feature = Feature.NONE
    requires_in_cta: Feature = Feature.NONE

    def coordinates(self, rank: int) -> int:
        """How many coordinates an instruction of `rank` has."""
        return rank if self.fixed_coordinates is None else self.fixed_coordinates

    def offsets(self, rank: int) -> int:
        """How many im2col offsets it has: one for each dimension of space where no other number is fixed."""
        return rank - 2 if self.fixed_offsets is None else self.fixed_offsets

    @property
    def is_im2col(self) -> bool:
        """Whether it reads or writes patches instead of boxes."""
        return self.name.startswith("im2col")


_TILE = Mode("tile", "tile", fixed_offsets=0)
LOAD_MODES: dict[str, Mode] = {
    mode.name: mode
    for mode in (
        _TILE,
        Mode(
            "tile::gather4",
            "tile.gather4",
            (2,),
            fixed_coordinates=1 + GATHERED_ROWS,
            fixed_offsets=0,
            requires=Feature.TMA_GATHER,
            requires_in_cta=Feature.SM_100,
        ),
        Mode("im2col", "im2col", IM2COL_RANKS),
        Mode(
            "im2col::w",
            "im2col.w",
            IM2COL_RANKS,
            fixed_offsets=WIDE_OFFSETS,
            requires=Feature.WIDE_IM2COL,
            requires_in_cta=Feature.SM_100,
        ),
        Mode(
            "im2col::w::128",
            "im2col.w.128",
            IM2COL_RANKS,
            fixed_offsets=WIDE_OFFSETS,
            requires=Feature.WIDE_IM2COL,
            requires_in_cta=Feature.WIDE_IM2COL,
        ),
    )
}
"""Modes of a load, and of a prefetch."""
_IM2COL_STORE = Mode("im2col_no_offs", "im2col", IM2COL_RANKS, fixed_offsets=0)
STORE_MODES: dict[str, Mode] = {
    mode.name: mode
    for mode in (
        _TILE,
        Mode(
            "tile::scatter4",
            "tile.scatter4",
            (2,),
            fixed_coordinates=1 + GATHERED_ROWS,
            fixed_offsets=0,
            requires=Feature.TMA_GATHER,
        ),
        _IM2COL_STORE,
    )
}
"""Modes of a store."""
REDUCE_MODES: dict[str, Mode] = {mode.name: mode for mode in (_TILE, _IM2COL_STORE)}
"""Modes of a reduction."""
_ORDERED = ("u32", "s32", "u64", "s64", "f16", "bf16")
_WORDS = ("u32", "s32", "u64")
REDUCTIONS: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f32", "f32.ftz", "f16", "bf16", "f64", "tf32"),
    **dict.fromkeys(("min", "max"), _ORDERED),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("and", "or", "xor"), _WORDS),
}
"""What a reduction does to each element, and the element types of tensor maps that have it.

Each pair was tried on an H200, but for f32.ftz, which is PTX ISA 9.7.9's (cp.reduce.async.bulk.tensor); it differs from
the table there (docs/divergences.md).
"""
DESTINATIONS = ("cluster", "cta")
"""State space of a load's destination: shared::cluster, or shared::cta."""
CTA_GROUPS = (1, 2)
"""CTAs whose mbarriers a load may signal: with 2, the barrier may be in the peer CTA of the pair."""


def _in_mode(mode: Mode, rank: int) -> tuple[RowOperand, ...]:
    """The coordinates of a box, and then the offsets of the mode."""
    count = mode.coordinates(chosen("rank", rank, mode.ranks))
    coordinates = operand("coordinates", RegisterClass.B32, count, meaning="start of the box in elements", element=s32)
    offsets = mode.offsets(rank)
    if not offsets:
        return (coordinates,)
    return (coordinates, operand("offsets", RegisterClass.B16, offsets, meaning="offsets of the filter, in elements"))


def _names(operands: tuple[RowOperand, ...]) -> tuple[str, ...]:
    return tuple(operand.name for operand in operands)


@cache
def load_tensor(
    rank: int,
    mode: str = "tile",
    destination: str = "cluster",
    *,
    multicast: bool = False,
    cta_group: int | None = None,
    cache_hint: bool = False,
) -> Row:
    """cp.async.bulk.tensor, global to shared memory: the box or patch at `coordinates` to `destination`.

    Completes its bytes on `barrier`. With `multicast`, `destination` and `barrier` are offsets used in each CTA of
    `multicast_mask`. With `cta_group` 2 the barrier may be that of the other CTA of a pair. Raises NoSuchRow for axes
    that no instruction has: multicast and shared::cta exclude each other.
    """
    kind = LOAD_MODES[chosen("mode", mode, LOAD_MODES)]
    in_cta = chosen("destination", destination, DESTINATIONS) == "cta"
    chosen("multicast", multicast, (False,) if in_cta else (False, True))
    chosen("cta_group", cta_group, (None, *CTA_GROUPS))
    optional = options(cache_hint=cache_hint) if in_cta else options(multicast=multicast, cache_hint=cache_hint)
    group = None if cta_group is None else f"cta_group::{cta_group}"
    place = _in_mode(kind, rank)
    opcode = "cp.async.bulk.tensor"
    needs = (kind.requires_in_cta if in_cta else kind.requires) | (
        Feature.NONE if cta_group is None else Feature.TWO_CTA_TMA
    )
    return copy_row(
        opcode,
        spelled(opcode, f"{rank}d", f"shared::{destination}.global.{mode}", COMPLETES, optional.spelled(group)),
        (LOCAL_DESTINATION if in_cta else DESTINATION, TENSOR_MAP, place[0], BARRIER, *place[1:], *optional.operands),
        _load_lowering(kind, rank, in_cta, cta_group, _names(place), optional),
        "Copies a box of a tensor from global to shared memory.",
        counted(writes(DESTINATION.name), multicast=multicast, peers=not in_cta),
        requires=needs,
        ptx_version=BULK_PTX if not in_cta and needs is Feature.NONE else SHARED_CTA_PTX,
        rank=rank,
        direction="load",
        mode=mode,
        destination=destination,
        multicast=multicast,
        cta_group=cta_group,
        cache_hint=cache_hint,
    )


def _load_lowering(
    mode: Mode,
    rank: int,
    in_cta: bool,
    cta_group: int | None,
    place: tuple[str, ...],
    optional: Options,
) -> Asm | Intrinsic:
    """By intrinsic, but by asm where there is a CTA group and LLVM has no place for it, or prints it out of order."""
    names = tuple(operand.name for operand in optional.operands)
    if cta_group is not None and (in_cta or "cache_policy" in names):
        braced = "".join(f", {{{{{{{name}}}}}}}" for name in place[1:])
        tail = braced + "".join(f", {{{name}}}" for name in names)
        return Asm("{ptx} [{destination}], [{tensor_map}, {{{coordinates}}}], [{barrier}]" + tail + ";")
    space = "g2s.cta" if in_cta else "g2s"
    group = () if in_cta else (("i32", cta_group or 0),)
    return Intrinsic(
        f"llvm.nvvm.cp.async.bulk.tensor.{space}.{mode.llvm}.{rank}d",
        ("destination", "barrier", "tensor_map", *place, *optional.arguments, *group),
    )


@cache
def store_tensor(rank: int, mode: str = "tile", *, cache_hint: bool = False) -> Row:
    """cp.async.bulk.tensor, shared to global memory: the box at `source` to the tensor, in a bulk group."""
    kind = STORE_MODES[chosen("mode", mode, STORE_MODES)]
    optional, place = options(cache_hint=cache_hint), _in_mode(kind, rank)
    opcode = "cp.async.bulk.tensor"
    return copy_row(
        opcode,
        spelled(opcode, f"{rank}d", f"global.shared::cta.{mode}.bulk_group", optional.spelled()),
        (TENSOR_MAP, *place, SHARED_SOURCE, *optional.operands),
        Intrinsic(
            f"llvm.nvvm.cp.async.bulk.tensor.s2g.{kind.llvm}.{rank}d",
            ("source", "tensor_map", *_names(place), *optional.arguments),
        ),
        "Copies a box from shared memory to a tensor in global memory.",
        grouped(reads(SHARED_SOURCE.name)),
        requires=kind.requires,
        ptx_version=SHARED_CTA_PTX if kind.requires else BULK_PTX,
        rank=rank,
        direction="store",
        mode=mode,
        cache_hint=cache_hint,
    )


@cache
def reduce_tensor(rank: int, operation: str, mode: str = "tile", *, cache_hint: bool = False) -> Row:
    """cp.reduce.async.bulk.tensor: combine the box at `source` with the tensor's elements, each atomically.

    `operation` is one of REDUCTIONS, which says of what elements.
    """
    kind = REDUCE_MODES[chosen("mode", mode, REDUCE_MODES)]
    chosen("operation", operation, REDUCTIONS)
    optional, place = options(cache_hint=cache_hint), _in_mode(kind, rank)
    opcode = "cp.reduce.async.bulk.tensor"
    return copy_row(
        opcode,
        spelled(opcode, f"{rank}d", f"global.shared::cta.{operation}.{mode}.bulk_group", optional.spelled()),
        (TENSOR_MAP, *place, SHARED_SOURCE, *optional.operands),
        Intrinsic(
            f"llvm.nvvm.cp.async.bulk.tensor.reduce.{operation}.{kind.llvm}.{rank}d",
            ("source", "tensor_map", *_names(place), *optional.arguments),
        ),
        "Combines a box of shared memory with a tensor in global memory.",
        grouped(reads(SHARED_SOURCE.name)),
        rank=rank,
        direction="reduce",
        mode=mode,
        operation=operation,
        cache_hint=cache_hint,
    )


@cache
def prefetch_tensor(rank: int, mode: str = "tile", *, cache_hint: bool = False) -> Row:
    """cp.async.bulk.prefetch.tensor: bring a box or patch of the tensor to the L2 cache."""
    kind = LOAD_MODES[chosen("mode", mode, LOAD_MODES)]
    optional, place = options(cache_hint=cache_hint), _in_mode(kind, rank)
    opcode = "cp.async.bulk.prefetch.tensor"
    return copy_row(
        opcode,
        spelled(opcode, f"{rank}d", f"L2.global.{mode}", optional.spelled()),
        (TENSOR_MAP, *place, *optional.operands),
        Intrinsic(
            f"llvm.nvvm.cp.async.bulk.tensor.prefetch.{kind.llvm}.{rank}d",
            ("tensor_map", *_names(place), *optional.arguments),
        ),
        "Brings a box of a tensor to the L2 cache.",
        PREFETCHES,
        requires=kind.requires,
        ptx_version=SHARED_CTA_PTX if kind.requires else BULK_PTX,
        rank=rank,
        direction="prefetch",
        mode=mode,
        cache_hint=cache_hint,
    )


def rows() -> Iterator[Row]:
    """Every row that moves a box of a tensor."""
    for cache_hint in (False, True):
        for mode in LOAD_MODES.values():
            for rank in mode.ranks:
                yield prefetch_tensor(rank, mode.name, cache_hint=cache_hint)
                yield from _loads(rank, mode.name, cache_hint)
        for mode in STORE_MODES.values():
            yield from (store_tensor(rank, mode.name, cache_hint=cache_hint) for rank in mode.ranks)
        for mode in REDUCE_MODES.values():
            for rank in mode.ranks:
                yield from (
                    reduce_tensor(rank, operation, mode.name, cache_hint=cache_hint) for operation in REDUCTIONS
                )


def _loads(rank: int, mode: str, cache_hint: bool) -> Iterator[Row]:
    for cta_group in (None, *CTA_GROUPS):
        for multicast in (False, True):
            yield load_tensor(rank, mode, multicast=multicast, cta_group=cta_group, cache_hint=cache_hint)
        yield load_tensor(rank, mode, "cta", cta_group=cta_group, cache_hint=cache_hint)
