"""Rows that tell the caches what to keep: prefetch, priorities, discard, and the policies of cache hints.

PTX ISA 9.7.9 (prefetch, prefetchu, applypriority, discard, createpolicy). A policy is 64 bits, opaque; it is the
`cache_policy` operand of copies.
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
    RowOperand,
    chosen,
    operand,
    output,
    spelled,
)
from nvbackend.intrinsics.row.semantics import Semantics, writes
from nvbackend.intrinsics.row.types import s32

PREFETCHED: dict[str | None, tuple[str, ...]] = {
    None: ("L1", "L2"),
    "global": ("L1", "L2", "L2::evict_last", "L2::evict_normal"),
    "local": ("L1", "L2"),
}
"""State space of what is prefetched (None: a generic address) and the cache levels it can go to."""
SPACES: dict[str | None, RegisterClass] = {None: RegisterClass.GENERIC, "global": RegisterClass.GLOBAL}
LINE_BYTES = 128
"""What applypriority and discard work on, aligned to as much."""
PRIMARY = ("L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged")
"""Priority of the accesses that a policy is made for."""
SECONDARY: tuple[str | None, ...] = (None, "L2::evict_unchanged", "L2::evict_first")
"""Priority of the rest; None is evict_unchanged."""

_LINE, _RANGE = "cache.line", "cache.policy-range"
_POLICY_PTX: PtxVersion = (7, 4)
_POLICY = output("policy", RegisterClass.B64, meaning="L2 eviction policy, opaque")


def _row(
    opcode: str, ptx: str, operands: tuple[RowOperand, ...], lowering: Asm | Intrinsic, late: bool, **axes: object
) -> Row:
    return Row(
        family="cache_control",
        opcode=opcode,
        ptx=ptx,
        operands=operands,
        lowering=lowering,
        requires=Feature.SM_80 if late else Feature.NONE,
        ptx_version=_POLICY_PTX if late else (6, 0),
        effects=Effect.READS_MEMORY | Effect.WRITES_MEMORY if opcode != "createpolicy" else Effect.NONE,
        section=f"9.7.9 ({opcode})",
        summary=_SUMMARIES[opcode],
        axes=axes,
    )


_SUMMARIES = {
    "prefetch": "Brings a line to a cache.",
    "prefetchu": "Brings a line to the uniform cache.",
    "applypriority": "Gives a line of L2 the normal eviction priority.",
    "discard": "Lets L2 forget a line without writing it back.",
    "createpolicy": "Makes an L2 eviction policy for cache hints.",
}


@cache
def prefetch(level: str, space: str | None = None) -> Row:
    """prefetch: bring the line at `address` to `level`, with a priority where the level names one.

    By asm, like prefetchu: LLVM selects its intrinsics from compute capability 9.0 on only.
    """
    chosen("level", level, PREFETCHED[chosen("space", space, PREFETCHED)])
    register = SPACES.get(space, RegisterClass.B64)
    return _row(
        "prefetch",
        spelled("prefetch", space, level),
        (operand("address", register),),
        Asm("{ptx} [{address}];"),
        "evict" in level,
        level=level,
        space=space,
    )


@cache
def prefetch_uniform() -> Row:
    """prefetchu.L1: bring the line at the generic `address` to the uniform cache."""
    address = operand("address", RegisterClass.GENERIC)
    return _row("prefetchu", "prefetchu.L1", (address,), Asm("{ptx} [{address}];"), False)


@cache
def apply_priority(space: str | None = None) -> Row:
    """applypriority: the line at `address`, 128-byte aligned, gets the normal eviction priority."""
    register = SPACES[chosen("space", space, SPACES)]
    return _row(
        "applypriority",
        spelled("applypriority", space, "L2::evict_normal"),
        (operand("address", register, rule=_LINE),),
        Intrinsic(spelled("llvm.nvvm.applypriority", space, "L2.evict.normal"), ("address", ("i64", LINE_BYTES))),
        True,
        space=space,
    )


@cache
def discard(space: str | None = None) -> Row:
    """discard.L2: the line at `address`, 128-byte aligned, is undefined from here on and need not be written back."""
    register = SPACES[chosen("space", space, SPACES)]
    return _row(
        "discard",
        spelled("discard", space, "L2"),
        (operand("address", register, rule=_LINE),),
        Intrinsic(spelled("llvm.nvvm.discard", space, "L2"), ("address", ("i64", LINE_BYTES))),
        True,
        space=space,
    )


@cache
def policy_fractional(primary: str, secondary: str | None = None, *, fraction: bool = False) -> Row:
    """createpolicy.fractional: `primary` for a `fraction` (0 < f <= 1) of the accesses, `secondary` for the rest.

    Without `fraction` all accesses get the primary priority. By asm: LLVM has no intrinsic for any createpolicy.
    """
    chosen("primary", primary, PRIMARY)
    chosen("secondary", secondary, SECONDARY)
    operands = (operand("fraction", RegisterClass.F32, meaning="of the accesses, more than 0 and at most 1"),)
    return _row(
        "createpolicy",
        spelled("createpolicy.fractional", primary, secondary, "b64"),
        (_POLICY, *(operands if fraction else ())),
        Asm("{ptx} {policy}" + (", {fraction};" if fraction else ";")),
        True,
        primary=primary,
        secondary=secondary,
        fraction=fraction,
    )


@cache
def policy_range(primary: str, secondary: str | None = None, space: str | None = None) -> Row:
    """createpolicy.range: `primary` for the first `primary_bytes` at `address`, `secondary` up to `total_bytes`."""
    chosen("primary", primary, PRIMARY)
    chosen("secondary", secondary, SECONDARY)
    register = SPACES[chosen("space", space, SPACES)]
    return _row(
        "createpolicy",
        spelled("createpolicy.range", space, primary, secondary, "b64"),
        (
            _POLICY,
            operand("address", register),
            operand("primary_bytes", RegisterClass.B32, element=s32, rule=_RANGE),
            operand("total_bytes", RegisterClass.B32, meaning="at least primary_bytes", element=s32, rule=_RANGE),
        ),
        Asm("{ptx} {policy}, [{address}], {primary_bytes}, {total_bytes};"),
        True,
        primary=primary,
        secondary=secondary,
        space=space,
    )


@cache
def policy_convert() -> Row:
    """createpolicy.cvt: the policy of a CUDA access property."""
    access = operand("access", RegisterClass.B64, meaning="an access property of the CUDA runtime")
    return _row("createpolicy", "createpolicy.cvt.L2.b64", (_POLICY, access), Asm("{ptx} {policy}, {access};"), True)


@cache
def clear_bulk(*, shared: bool = True) -> Row:
    """st.bulk: write zeros to `bytes` bytes (a multiple of 8) of shared memory, at an 8-byte aligned `address`.

    `shared` False takes a generic address, which must be one of shared memory all the same.
    """
    register = RegisterClass.SHARED if shared else RegisterClass.GENERIC
    space = "shared::cta" if shared else None
    return Row(
        family="cache_control",
        opcode="st.bulk",
        ptx=spelled("st.bulk", space),
        operands=(
            operand("address", register),
            operand("bytes", RegisterClass.B64, meaning="a multiple of 8", rule="cache.cleared"),
        ),
        lowering=Intrinsic(
            spelled("llvm.nvvm.st.bulk", "shared.cta" if shared else None), ("address", "bytes", ("i64", 0))
        ),
        requires=Feature.SM_100,
        ptx_version=(8, 6),
        effects=Effect.WRITES_MEMORY,
        semantics=Semantics(memory=(writes("address", "bytes"),)),
        section="9.7.9 (st.bulk)",
        summary="Clears shared memory.",
        axes={"shared": shared},
    )


def rows() -> Iterator[Row]:
    """Every row on caches, and st.bulk."""
    for space, levels in PREFETCHED.items():
        yield from (prefetch(level, space) for level in levels)
    yield prefetch_uniform()
    for space in SPACES:
        yield from (apply_priority(space), discard(space))
    for primary in PRIMARY:
        for secondary in SECONDARY:
            yield from (policy_fractional(primary, secondary, fraction=fraction) for fraction in (False, True))
            yield from (policy_range(primary, secondary, space) for space in SPACES)
    yield policy_convert()
    yield from (clear_bulk(shared=shared) for shared in (True, False))
