"""Between tensor memory and registers: loads, stores, and the waits for them. PTX ISA 9.7.16.8.

`tcgen05.ld` and `.st` go on after their issue: registers hold, or may be changed, only after `tcgen05.wait`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.copy import tcgen05_semantics as semantics
from nvbackend.intrinsics.copy.tcgen05_memory import COLUMNS, TMEM, WARP_WIDE, row
from nvbackend.intrinsics.copy.tcgen05_semantics import WAITS
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
_BOTH = (False, True)


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
    chosen("pack", pack, _BOTH)
    split = shape == SPLIT_SHAPE
    return row(
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
        TMEM,
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
    return row(
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
        TMEM,
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
    chosen("unpack", unpack, _BOTH)
    split = (("half_split",), (_HALF_SPLIT,)) if shape == SPLIT_SHAPE else ((), ())
    return row(
        "st",
        spelled("tcgen05.st.sync.aligned", shape, f"x{count}", "unpack::16b" if unpack else None, "b32"),
        Intrinsic(
            f"llvm.nvvm.tcgen05.st.{shape}.x{count}", ("tmem", *split[0], "values", ("i1", int(unpack))), vectors=True
        ),
        "9.7.16.8.4 (tcgen05.st)",
        "Stores registers to tensor memory.",
        TMEM,
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
    return row(
        f"wait.{of}",
        ptx,
        Asm("{ptx};") if registers else Intrinsic(f"llvm.nvvm.tcgen05.wait.{of}"),
        "9.7.16.8.5 (tcgen05.wait)",
        "Waits for loads from, or stores to, tensor memory.",
        *blocks,
        effects=WARP_WIDE,
        said=semantics.waiting(of),
        of=of,
        registers=registers,
    )


def rows() -> Iterator[Row]:
    """Every row of this module; waits without registers."""
    for shape in SHAPES:
        for count, packed in itertools.product(repetitions(shape), _BOTH):
            yield from (ld(shape, count, pack=packed), st(shape, count, unpack=packed))
    yield from (wait(of) for of in WAITS)
    yield from _reductions()


def _reductions() -> Iterator[Row]:
    for shape, operation, (type, register) in itertools.product(REDUCED_SHAPES, REDUCTIONS, REDUCED_TYPES.items()):
        modified = _BOTH if register is RegisterClass.F32 else (False,)
        for count, absolute, nan in itertools.product(repetitions(shape)[1:], modified, modified):
            yield ld_red(shape, count, operation, type, absolute=absolute, propagate_nan=nan)
