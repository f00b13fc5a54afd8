"""cp.async rows: copies of 4, 8 or 16 bytes from global to shared memory, each thread its own.

PTX ISA 9.7.9 (cp.async, commit_group, wait_group, wait_all). Operand names: `destination`, `source`, `bytes` that are
read (the rest is filled with zeros), `ignore` true where zeros are written instead, `cache_policy` from createpolicy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from nvbackend.intrinsics.copy.tma_bulk import PENDING_GROUPS
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
    immediate,
    operand,
    spelled,
)
from nvbackend.intrinsics.row.semantics import Completion, Semantics, reads, writes
from nvbackend.intrinsics.row.types import s32

SIZES: dict[str, tuple[int, ...]] = {"ca": (4, 8, 16), "cg": (16,)}
"""Cache operator (ca: all levels, cg: L2 only) and the bytes that one copy can have."""
PREFETCHES = (None, 64, 128, 256)
"""Bytes that the copy brings to L2 beside its own; None leaves it to the hardware."""
FILLS: dict[str | None, RowOperand | None] = {
    None: None,
    "bytes": operand(
        "bytes",
        RegisterClass.B32,
        meaning="bytes to read; the rest of the size is filled with zeros",
        element=s32,
        rule="async-copy.read-bytes",
    ),
    "ignore": operand("ignore", RegisterClass.PRED, meaning="true: read nothing and write zeros"),
}
"""How zeros are asked for, and the operand that says how many."""

_SECTION = "9.7.9 (cp.async)"
_FIRST_PTX: PtxVersion = (7, 0)
_HINT_PTX: PtxVersion = (7, 4)
_IGNORE_PTX: PtxVersion = (7, 5)
_DESTINATION = operand("destination", RegisterClass.SHARED, meaning="shared memory, aligned to the size")
_SOURCE = operand("source", RegisterClass.GLOBAL, meaning="global memory, aligned to the size")
_GROUPS = Completion.COPY_GROUP
_POLICY = operand(
    "cache_policy", RegisterClass.B64, meaning="L2 eviction policy, from createpolicy", rule="cache.policy"
)


@cache
def copy(
    cache_operator: str, size: int, fill: str | None = None, *, prefetch: int | None = None, cache_hint: bool = False
) -> Row:
    """cp.async: copy `size` bytes to shared memory. It is complete when a wait for its group says so.

    `fill` is one of FILLS. Raises NoSuchRow for a size that the cache operator lacks, and for other axes.
    """
    chosen("size", size, SIZES[chosen("cache operator", cache_operator, SIZES)])
    chosen("prefetch", prefetch, PREFETCHES)
    filling = FILLS[chosen("fill", fill, FILLS)]
    if filling is not None and fill == "bytes":
        filling = replace(filling, legal=range(size + 1))
    hinted = cache_hint or prefetch is not None
    optional = (*([filling] if filling else []), *([_POLICY] if cache_hint else []))
    name = f"llvm.nvvm.cp.async.{cache_operator}.shared.global.{size}"
    in_llvm = not hinted and fill != "ignore"
    tail = "".join(f", {{{each.name}}}" for each in optional)
    level = None if prefetch is None else f"L2::{prefetch}B"
    return Row(
        family="cp_async",
        opcode="cp.async",
        ptx=spelled(f"cp.async.{cache_operator}.shared.global", "L2::cache_hint" if cache_hint else None, level),
        operands=(replace(_DESTINATION, align=size), replace(_SOURCE, align=size), *optional),
        lowering=Intrinsic(
            f"{name}.s" if fill else name, tuple(each.name for each in (_DESTINATION, _SOURCE, *optional))
        )
        if in_llvm
        else Asm("{ptx} [{destination}], [{source}], " + f"{size}{tail};"),
        requires=Feature.SM_80,
        ptx_version=_IGNORE_PTX if fill == "ignore" else _HINT_PTX if hinted else _FIRST_PTX,
        effects=Effect.READS_MEMORY | Effect.WRITES_MEMORY,
        semantics=Semantics(issues=_GROUPS, memory=(writes(_DESTINATION.name, size), reads(_SOURCE.name, size))),
        section=_SECTION,
        summary=f"Copies {size} bytes from global to shared memory without waiting.",
        axes={
            "cache_operator": cache_operator,
            "size": size,
            "fill": fill,
            "prefetch": prefetch,
            "cache_hint": cache_hint,
        },
    )


def _group(action: str, operands: tuple[RowOperand, ...], semantics: Semantics, summary: str) -> Row:
    return Row(
        family="cp_async",
        opcode=f"cp.async.{action}",
        ptx=f"cp.async.{action}",
        operands=operands,
        lowering=Intrinsic(f"llvm.nvvm.cp.async.{action.replace('_', '.')}", tuple(each.name for each in operands)),
        requires=Feature.SM_80,
        ptx_version=_FIRST_PTX,
        effects=Effect.ORDERS,
        semantics=semantics,
        section=_SECTION,
        summary=summary,
    )


@cache
def commit_group() -> Row:
    """cp.async.commit_group: this thread's copies since the last one become a group."""
    return _group("commit_group", (), Semantics(commits=_GROUPS), "Closes a group of asynchronous copies.")


@cache
def wait_group() -> Row:
    """cp.async.wait_group: wait until at most `pending` of this thread's newest groups are not complete."""
    pending = immediate("pending", PENDING_GROUPS, meaning="groups that may stay in flight")
    return _group("wait_group", (pending,), Semantics(awaits=_GROUPS), "Waits for groups of asynchronous copies.")


@cache
def wait_all() -> Row:
    """cp.async.wait_all: wait until every copy of this thread is complete."""
    return _group("wait_all", (), Semantics(commits=_GROUPS, awaits=_GROUPS), "Waits for all asynchronous copies.")


def rows() -> Iterator[Row]:
    """Every cp.async row."""
    for cache_operator, sizes in SIZES.items():
        for size in sizes:
            for fill in FILLS:
                for prefetch in PREFETCHES:
                    for cache_hint in (False, True):
                        yield copy(cache_operator, size, fill, prefetch=prefetch, cache_hint=cache_hint)
    yield from (commit_group(), wait_group(), wait_all())
