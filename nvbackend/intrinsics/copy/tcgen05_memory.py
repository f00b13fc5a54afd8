"""Tensor memory: who has it, and what moves there and back. PTX ISA 9.7.16.7 to 9.7.16.9, 9.7.16.11, 9.7.16.12.

Tensor memory is 128 lanes of 512 columns of 32 bits, for each CTA; an address (u32) has the lane in its upper and the
column in its lower half. Warp w of a warpgroup reaches lanes 32w to 32w + 31. `tcgen05.ld` and `.st` go on after their
issue: registers hold, or may be changed, only after `tcgen05.wait`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.copy import tcgen05_semantics as semantics
from nvbackend.intrinsics.copy.tcgen05_semantics import FENCES, WAITS
from nvbackend.intrinsics.mma.tcgen05 import CTA_GROUPS, FAMILY, PTX
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Asm,
    Effect,
    Intrinsic,
    PtxVersion,
    RegisterClass,
    Role,
    Row,
    RowOperand,
    chosen,
    operand,
    output,
    spelled,
)
from nvbackend.intrinsics.row.semantics import Semantics, TensorMemory

COLUMNS = 512
"""Columns of tensor memory a CTA has."""
ALLOCATIONS = (32, 64, 128, 256, COLUMNS)
"""Columns that one allocation can have."""
SHAPES: dict[str, int] = {"16x64b": 1, "16x128b": 2, "16x256b": 4, "32x32b": 1, "16x32bx2": 1}
"""What one repetition of a load or store moves for a warp (lanes x bits), and a thread's 32-bit registers of it."""
SPLIT_SHAPE = "16x32bx2"
"""The shape of two halves, the second `half_split` columns after the first."""
MOST_REGISTERS = 128
"""Registers a thread that one load or store moves at most."""
REPETITIONS = (1, 2, 4, 8, 16, 32, 64, 128)
REDUCED_SHAPES = ("32x32b", SPLIT_SHAPE)
"""Shapes of tcgen05.ld.red, which needs two registers or more."""
REDUCTIONS = ("min", "max")
REDUCED_TYPES: dict[str, RegisterClass] = {"u32": RegisterClass.B32, "s32": RegisterClass.B32, "f32": RegisterClass.F32}
REDUCE_PTX: PtxVersion = (8, 8)
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


def _row(
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


_TMEM = operand("tmem", RegisterClass.TMEM, meaning="address in tensor memory")
_COLUMNS = operand("columns", RegisterClass.B32, meaning="a power of two from 32 to 512", rule="tcgen05.columns")
_ALLOCATION = "9.7.16.7.1 (tcgen05.alloc, dealloc, relinquish_alloc_permit)"
_WARP_WIDE = Effect.CONVERGENT | Effect.ORDERS


@cache
def alloc(cta_group: int = 1, *, space: str | None = "shared::cta") -> Row:
    """tcgen05.alloc: `columns` columns of tensor memory; their address (u32) is written to shared memory.

    A warp executes it together, in each CTA of the group; blocks until there are as many. With cta_group 2 the same
    columns of both CTAs. `space` None takes a generic address of shared memory.
    """
    chosen("cta_group", cta_group, CTA_GROUPS)
    generic = chosen("space", space, ALLOCATION_SPACES) is None
    register = RegisterClass.GENERIC if generic else RegisterClass.SHARED
    return _row(
        "alloc",
        spelled(f"tcgen05.alloc.cta_group::{cta_group}.sync.aligned", space, "b32"),
        Intrinsic(f"llvm.nvvm.tcgen05.alloc{'' if generic else '.shared'}.cg{cta_group}", ("address", "columns")),
        _ALLOCATION,
        "Allocates columns of tensor memory.",
        operand("address", register, meaning="where the tensor-memory address is written"),
        _COLUMNS,
        effects=_WARP_WIDE | Effect.WRITES_MEMORY,
        said=semantics.managing(TensorMemory.ALLOCATE, cta_group),
        cta_group=cta_group,
        space=space,
    )


@cache
def dealloc(cta_group: int = 1) -> Row:
    """tcgen05.dealloc: gives back what one alloc gave; every column must be before the kernel ends."""
    chosen("cta_group", cta_group, CTA_GROUPS)
    return _row(
        "dealloc",
        f"tcgen05.dealloc.cta_group::{cta_group}.sync.aligned.b32",
        Intrinsic(f"llvm.nvvm.tcgen05.dealloc.cg{cta_group}", ("tmem", "columns")),
        _ALLOCATION,
        "Gives columns of tensor memory back.",
        _TMEM,
        _COLUMNS,
        effects=_WARP_WIDE,
        said=semantics.managing(TensorMemory.FREE, cta_group),
        cta_group=cta_group,
    )


@cache
def relinquish_alloc_permit(cta_group: int = 1) -> Row:
    """tcgen05.relinquish_alloc_permit: this CTA allocates no more, so that others on its SM may."""
    chosen("cta_group", cta_group, CTA_GROUPS)
    return _row(
        "relinquish_alloc_permit",
        f"tcgen05.relinquish_alloc_permit.cta_group::{cta_group}.sync.aligned",
        Intrinsic(f"llvm.nvvm.tcgen05.relinq.alloc.permit.cg{cta_group}"),
        _ALLOCATION,
        "Gives up the right to allocate tensor memory.",
        effects=_WARP_WIDE,
        said=semantics.managing(TensorMemory.RELINQUISH, cta_group),
        cta_group=cta_group,
    )


def registers_of(shape: str, count: int) -> int:
    """32-bit registers a thread that `count` repetitions of a load or store shape are."""
    return SHAPES[shape] * count


def repetitions(shape: str) -> tuple[int, ...]:
    """The repetitions (`.xN`) that a load or store shape has."""
    return tuple(count for count in REPETITIONS if registers_of(shape, count) <= MOST_REGISTERS)


_HALF_SPLIT = RowOperand(
    "half_split",
    RegisterClass.B64,
    Role.IMMEDIATE,
    # ptxas adds any number to the address, also one that leaves tensor memory or borrows from the lane.
    values=range(COLUMNS),
    meaning="columns from the first half to the second",
)


def _moved(shape: str, count: int) -> int:
    chosen("shape", shape, SHAPES)
    return registers_of(shape, chosen("count", count, repetitions(shape)))


@cache
def ld(shape: str, count: int, *, pack: bool = False) -> Row:
    """tcgen05.ld: tensor memory to `count` repetitions of `shape` in registers, a warp together.

    With `pack`, two columns of 16-bit elements come in one register. The registers hold only after wait::ld.
    Raises NoSuchRow for a count that the shape lacks.
    """
    registers = _moved(shape, count)
    split = shape == SPLIT_SHAPE
    return _row(
        "ld",
        spelled("tcgen05.ld.sync.aligned", shape, f"x{count}", "pack::16b" if pack else None, "b32"),
        Intrinsic(
            f"llvm.nvvm.tcgen05.ld.{shape}.x{count}",
            ("tmem", *(("half_split",) if split else ()), ("i1", int(pack))),
            vectors=True,
        ),
        "9.7.16.8.3 (tcgen05.ld)",
        "Loads from tensor memory into registers.",
        output("values", RegisterClass.B32, registers),
        _TMEM,
        *((_HALF_SPLIT,) if split else ()),
        effects=Effect.CONVERGENT,
        said=semantics.loading(shape, count, packed=pack),
        shape=shape,
        count=count,
        pack=pack,
    )


@cache
def ld_red(
    shape: str, count: int, operation: str, type: str, *, absolute: bool = False, propagate_nan: bool = False
) -> Row:
    """tcgen05.ld.red: a load that also gives the minimum or maximum of this thread's elements as `reduced`.

    `absolute` compares magnitudes, `propagate_nan` gives NaN where there is one; both for f32 alone. LLVM 22.1 has no
    intrinsic for it. Raises NoSuchRow outside of the lattice.
    """
    registers = _moved(chosen("shape", shape, REDUCED_SHAPES), count)
    chosen("count", count, repetitions(shape)[1:])
    register = REDUCED_TYPES[chosen("type", type, REDUCED_TYPES)]
    modified = _BOTH if register is RegisterClass.F32 else (False,)
    split = shape == SPLIT_SHAPE
    return _row(
        "ld.red",
        spelled(
            "tcgen05.ld.red.sync.aligned",
            shape,
            f"x{count}",
            chosen("operation", operation, REDUCTIONS),
            "abs" if chosen("absolute", absolute, modified) else None,
            "NaN" if chosen("propagate_nan", propagate_nan, modified) else None,
            type,
        ),
        Asm("{ptx} {{{values}}}, {reduced}, [{tmem}]" + (", {half_split};" if split else ";")),
        "9.7.16.8.3 (tcgen05.ld.red)",
        "Loads from tensor memory into registers, and reduces what each thread gets.",
        output("values", register, registers),
        output("reduced", register),
        _TMEM,
        *((_HALF_SPLIT,) if split else ()),
        effects=Effect.CONVERGENT,
        said=semantics.loading(shape, count),
        requires=Feature.TMEM_REDUCE,
        ptx_version=REDUCE_PTX,
        shape=shape,
        count=count,
        operation=operation,
        type=type,
        absolute=absolute,
        propagate_nan=propagate_nan,
    )


@cache
def st(shape: str, count: int, *, unpack: bool = False) -> Row:
    """tcgen05.st: registers to tensor memory, a warp together; the inverse of ld. The write counts after wait::st."""
    registers = _moved(shape, count)
    split = (("half_split",), (_HALF_SPLIT,)) if shape == SPLIT_SHAPE else ((), ())
    return _row(
        "st",
        spelled("tcgen05.st.sync.aligned", shape, f"x{count}", "unpack::16b" if unpack else None, "b32"),
        Intrinsic(
            f"llvm.nvvm.tcgen05.st.{shape}.x{count}", ("tmem", *split[0], "values", ("i1", int(unpack))), vectors=True
        ),
        "9.7.16.8.4 (tcgen05.st)",
        "Stores registers to tensor memory.",
        _TMEM,
        *split[1],
        operand("values", RegisterClass.B32, registers),
        effects=Effect.CONVERGENT,
        said=semantics.storing(shape, count, packed=unpack),
        shape=shape,
        count=count,
        unpack=unpack,
    )


RegisterBlocks = tuple[tuple[RegisterClass, int], ...]
"""Register blocks of a thread: the class and the number of registers of each."""


@cache
def wait(of: str, registers: RegisterBlocks = ()) -> Row:
    """tcgen05.wait::ld or ::st: wait until this thread's loads, or stores, are done.

    The register blocks pass through as `block0`, `block1`, ..., so that LLVM cannot move a use of what was loaded
    above the wait.
    """
    ptx = f"tcgen05.wait::{chosen('of', of, WAITS)}.sync.aligned"
    blocks = (output(f"block{place}", *block, tied=True) for place, block in enumerate(registers))
    return _row(
        f"wait.{of}",
        ptx,
        Asm("{ptx};") if registers else Intrinsic(f"llvm.nvvm.tcgen05.wait.{of}"),
        "9.7.16.8.5 (tcgen05.wait)",
        "Waits for loads from, or stores to, tensor memory.",
        *blocks,
        effects=_WARP_WIDE,
        said=semantics.waiting(of),
        of=of,
        registers=registers,
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
    return _row(
        "cp",
        ptx,
        Intrinsic(spelled("llvm.nvvm.tcgen05.cp", place, unpack, f"cg{cta_group}"), ("tmem", "source")),
        "9.7.16.9.2 (tcgen05.cp)",
        "Copies from shared to tensor memory.",
        _TMEM,
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
    return _row(
        "shift",
        f"tcgen05.shift.cta_group::{cta_group}.down",
        Intrinsic(f"llvm.nvvm.tcgen05.shift.down.cg{cta_group}", ("tmem",)),
        "9.7.16.9.3 (tcgen05.shift)",
        "Shifts rows of tensor memory down.",
        _TMEM,
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
    return _row(
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
    return _row(
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
    """Every row of this module; waits without registers."""
    for group in CTA_GROUPS:
        yield from (alloc(group, space=space) for space in ALLOCATION_SPACES)
        yield from (dealloc(group), relinquish_alloc_permit(group), shift(group))
        for multicast, space in itertools.product(_BOTH, COMMIT_SPACES):
            yield commit(group, multicast=multicast, space=space)
        for shape, repeats in COPY_SHAPES.items():
            for repeat, unpack in itertools.product(repeats, COPY_FORMATS):
                yield cp(shape, repeat, unpack=unpack, cta_group=group)
    for shape in SHAPES:
        for count, packed in itertools.product(repetitions(shape), _BOTH):
            yield from (ld(shape, count, pack=packed), st(shape, count, unpack=packed))
    yield from (wait(of) for of in WAITS)
    yield from (fence(side) for side in FENCES)
    yield from _reductions()


def _reductions() -> Iterator[Row]:
    for shape, operation, (type, register) in itertools.product(REDUCED_SHAPES, REDUCTIONS, REDUCED_TYPES.items()):
        modified = _BOTH if register is RegisterClass.F32 else (False,)
        for count, absolute, nan in itertools.product(repetitions(shape)[1:], modified, modified):
            yield ld_red(shape, count, operation, type, absolute=absolute, propagate_nan=nan)
