"""Warp rows: registers exchanged, compared and reduced between the lanes of a warp.

PTX ISA 9.7.9 (shfl.sync), 9.7.13 (vote.sync, match.sync, activemask, redux.sync). `members` has one bit for each lane
that takes part, and every lane of it executes the same instruction.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Asm,
    Effect,
    Intrinsic,
    PtxVersion,
    RegisterClass,
    Row,
    chosen,
    operand,
    output,
    spelled,
)
from nvbackend.intrinsics.row.semantics import WARP_SIZE, Scope, Semantics
from nvbackend.intrinsics.row.types import s32

SHUFFLE_MODES = ("idx", "up", "down", "bfly")
ALL_LANES = (1 << WARP_SIZE) - 1
WHOLE_WARP = WARP_SIZE - 1
"""The `clamp` operand that makes the whole warp one segment (0 for mode up)."""

VOTES = ("all", "any", "uni", "ballot")
MATCHES = ("any", "all")
MATCH_REGISTERS: dict[int, RegisterClass] = {32: RegisterClass.B32, 64: RegisterClass.B64}
"""Bits of the values that match compares."""
REDUCTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("min", "max"), ("u32", "s32", "f32")),
    "add": ("u32", "s32"),
    **dict.fromkeys(("and", "or", "xor"), ("b32",)),
}
"""Operation of redux.sync and the types it has."""

_MEMBERS = operand("members", RegisterClass.B32, meaning="one bit a lane that takes part")
_IN_RANGE = output("in_range", RegisterClass.PRED, meaning="whether the lane read is one of the segment")
_VERSION: PtxVersion = (6, 0)


@cache
def shuffle(mode: str, in_range: bool = False) -> Row:
    """shfl.sync: lane's `value` of another lane; `lane` is its number (idx), a distance (up, down) or a mask (bfly).

    With `in_range` a predicate tells whether that lane is one of the segment; else the lane keeps its own value.
    """
    chosen("mode", mode, SHUFFLE_MODES)
    return Row(
        family="warp",
        opcode=f"shfl.sync.{mode}",
        ptx=f"shfl.sync.{mode}.b32",
        operands=(
            output("result", RegisterClass.B32),
            *([_IN_RANGE] if in_range else []),
            _MEMBERS,
            operand("value", RegisterClass.B32),
            operand("lane", RegisterClass.B32, element=s32),
            operand("clamp", RegisterClass.B32, meaning="segment mask and clamp"),
        ),
        lowering=Intrinsic(
            f"llvm.nvvm.shfl.sync.{mode}.i32{'p' if in_range else ''}", ("members", "value", "lane", "clamp")
        ),
        effects=Effect.CONVERGENT,
        section="9.7.9 (shfl.sync)",
        summary="Reads a register of another lane of the warp.",
        axes={"mode": mode, "in_range": in_range},
    )


@cache
def vote(mode: str) -> Row:
    """vote.sync: whether `predicate` holds in all or any of the lanes, or is uniform; ballot gives a bit a lane."""
    ballot = chosen("mode", mode, VOTES) == "ballot"
    return Row(
        family="warp",
        opcode=f"vote.sync.{mode}",
        ptx=f"vote.sync.{mode}.{'b32' if ballot else 'pred'}",
        operands=(
            output("result", RegisterClass.B32 if ballot else RegisterClass.PRED),
            _MEMBERS,
            operand("predicate", RegisterClass.PRED),
        ),
        lowering=Intrinsic(f"llvm.nvvm.vote.{mode}.sync", ("members", "predicate")),
        ptx_version=_VERSION,
        effects=Effect.CONVERGENT,
        section="9.7.13 (vote.sync)",
        summary="Votes over a predicate of the lanes.",
        axes={"mode": mode},
    )


@cache
def match(mode: str, bits: int = 32, all_equal: bool = False) -> Row:
    """match.sync: the lanes whose `value` is this lane's (any), or all lanes if all values are equal, else 0 (all).

    `all_equal` adds a predicate to mode all. Mode all without it is asm: LLVM's intrinsic always has the predicate.
    """
    chosen("mode", mode, MATCHES)
    register = MATCH_REGISTERS[chosen("bits", bits, MATCH_REGISTERS)]
    chosen("all_equal", all_equal, (False, True) if mode == "all" else (False,))
    equal = output("equal", RegisterClass.PRED, meaning="whether all values are equal")
    suffix = "p" if all_equal else ""
    return Row(
        family="warp",
        opcode=f"match.{mode}.sync",
        ptx=f"match.{mode}.sync.b{bits}",
        operands=(
            output("lanes", RegisterClass.B32),
            *([equal] if all_equal else []),
            _MEMBERS,
            operand("value", register),
        ),
        lowering=Asm("{ptx} {lanes}, {value}, {members};")
        if mode == "all" and not all_equal
        else Intrinsic(f"llvm.nvvm.match.{mode}.sync.i{bits}{suffix}", ("members", "value")),
        effects=Effect.CONVERGENT,
        section="9.7.13 (match.sync)",
        summary="Finds the lanes that hold the same value.",
        axes={"mode": mode, "bits": bits, "all_equal": all_equal},
    )


@cache
def activemask() -> Row:
    """activemask: one bit for each lane that happens to execute it together; no promise for what follows."""
    return Row(
        family="warp",
        opcode="activemask",
        ptx="activemask.b32",
        operands=(output("lanes", RegisterClass.B32),),
        lowering=Intrinsic("llvm.nvvm.activemask"),
        ptx_version=(6, 2),
        effects=Effect.CONVERGENT | Effect.READS_MEMORY,
        semantics=Semantics(together=Scope.THREAD),
        section="9.7.13 (activemask)",
        summary="Gives the lanes that are active here.",
    )


@cache
def reduce(operation: str, element: str, *, absolute: bool = False, nan: bool = False) -> Row:
    """redux.sync: combine `value` over the lanes of `members`, in every one of them.

    f32 has min and max only, of the values or of their magnitudes (`absolute`), where a NaN is skipped unless `nan`.
    """
    operations = REDUCTIONS[chosen("operation", operation, REDUCTIONS)]
    is_float = chosen("element", element, operations) == "f32"
    chosen("absolute", absolute, (False, True) if is_float else (False,))
    chosen("nan", nan, (False, True) if is_float else (False,))
    register = RegisterClass.F32 if is_float else RegisterClass.B32
    qualifiers = ("abs" if absolute else None, "NaN" if nan else None)
    prefix = "f" if is_float else "u" if element == "u32" and operation != "add" else ""
    in_llvm = (operation, element) != ("add", "u32")
    return Row(
        family="warp",
        opcode="redux.sync",
        ptx=spelled("redux.sync", operation, *qualifiers, element),
        operands=(output("result", register), operand("value", register), _MEMBERS),
        lowering=Intrinsic(spelled("llvm.nvvm.redux.sync", prefix + operation, *qualifiers), ("value", "members"))
        if in_llvm
        else Asm("{ptx} {result}, {value}, {members};"),
        requires=Feature.REDUX_F32 if is_float else Feature.SM_80,
        ptx_version=(8, 6) if is_float else (7, 0),
        effects=Effect.CONVERGENT,
        section="9.7.13 (redux.sync)",
        summary="Combines a register over the lanes of the warp.",
        axes={"operation": operation, "element": element, "absolute": absolute, "nan": nan},
    )


def rows() -> Iterator[Row]:
    """Every row of exchange, vote, match and reduction."""
    for mode in SHUFFLE_MODES:
        yield from (shuffle(mode, in_range) for in_range in (False, True))
    yield from (vote(mode) for mode in VOTES)
    for bits in MATCH_REGISTERS:
        yield from (match("any", bits), match("all", bits), match("all", bits, all_equal=True))
    yield activemask()
    for operation, elements in REDUCTIONS.items():
        for element in elements:
            for absolute in (False, True) if element == "f32" else (False,):
                for nan in (False, True) if element == "f32" else (False,):
                    yield reduce(operation, element, absolute=absolute, nan=nan)
