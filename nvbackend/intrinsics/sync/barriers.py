"""Synchronisation rows: CTA and warp barriers, fences, elect, dependent launch. PTX ISA 9.7.13, 9.7.19 (nanosleep).

Operand names: `id` the named barrier (0 to 15), `threads` how many threads take part (a multiple of 32), `mask` the
lanes of the warp, `nanoseconds`.
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
from nvbackend.intrinsics.row.semantics import (
    SCOPES,
    WARP_SIZE,
    FenceOf,
    FenceSemantics,
    GridUse,
    Scope,
    Semantics,
    ThreadBarrier,
)
from nvbackend.intrinsics.row.types import s32

BARRIER_IDS = range(16)
"""The named barriers of a CTA."""
MAX_CTA_THREADS = 1024

FENCE_SEMANTICS = ("acq_rel", "sc", "acquire", "release")
_ONE_WAY = ("acquire", "release")
FENCE_SCOPES = ("cta", "cluster", "gpu", "sys")
MEMBAR_LEVELS = ("cta", "gl", "sys")
PROXY_SPACES: dict[str | None, str | None] = {
    None: None,
    "global": "global",
    "shared::cta": "shared_cta",
    "shared::cluster": "shared_cluster",
}
"""State space of fence.proxy.async (None: all of them) and what LLVM calls it."""

_ONE_WAY_PTX: PtxVersion = (8, 6)
_ID = operand(
    "id", RegisterClass.B32, meaning="named barrier, 0 to 15", legal=BARRIER_IDS, element=s32, rule="barrier.id"
)
_THREADS = operand(
    "threads",
    RegisterClass.B32,
    meaning="participating threads, a multiple of 32",
    legal=range(WARP_SIZE, MAX_CTA_THREADS + 1, WARP_SIZE),
    element=s32,
    rule="barrier.threads",
)
_MASK = operand("mask", RegisterClass.B32, meaning="one bit a lane")


@cache
def barrier_sync(*, counted: bool = False, aligned: bool = True) -> Row:
    """bar.sync: wait at barrier `id` until all threads of the CTA, or `threads` of them (`counted`), have arrived.

    `aligned`: all threads of each warp execute it together; otherwise the spelling is `barrier.sync`.
    """
    return _barrier("sync", "all" if not counted else "count", aligned)


@cache
def barrier_arrive(*, aligned: bool = True) -> Row:
    """bar.arrive: arrive at barrier `id` for `threads` threads in all, and go on."""
    return _barrier("arrive", "count", aligned)


_MEETS = Semantics(barrier=ThreadBarrier(Scope.CTA), acquires=Scope.CTA, releases=Scope.CTA)
_ARRIVES = Semantics(barrier=ThreadBarrier(Scope.CTA, waits=False), releases=Scope.CTA)


def _barrier(action: str, participants: str, aligned: bool) -> Row:
    opcode = f"bar.{action}" if aligned else f"barrier.{action}"
    operands = (_ID, _THREADS) if participants == "count" else (_ID,)
    return Row(
        family="sync",
        opcode=opcode,
        ptx=opcode,
        operands=operands,
        lowering=Intrinsic(
            spelled("llvm.nvvm.barrier.cta", action, "aligned" if aligned else None, participants),
            tuple(operand.name for operand in operands),
        ),
        effects=(Effect.CONVERGENT if aligned else Effect.NONE) | Effect.ORDERS,
        semantics=_MEETS if action == "sync" else _ARRIVES,
        section="9.7.13.1",
        summary="Waits at a barrier of the CTA." if action == "sync" else "Arrives at a barrier of the CTA.",
        axes={"counted": participants == "count", "aligned": aligned},
    )


BARRIER_REDUCTIONS: dict[str, RegisterClass] = {
    "popc": RegisterClass.B32,
    "and": RegisterClass.PRED,
    "or": RegisterClass.PRED,
}
"""What a reducing barrier computes of the threads' predicates, and the register of its result."""


@cache
def barrier_reduce(operation: str, *, counted: bool = False, aligned: bool = True) -> Row:
    """bar.red: wait as bar.sync does, and give each thread the count, the and, or the or of all `predicate`s."""
    register = BARRIER_REDUCTIONS[chosen("operation", operation, BARRIER_REDUCTIONS)]
    opcode = "bar.red" if aligned else "barrier.red"
    operands = (_ID, *([_THREADS] if counted else []), operand("predicate", RegisterClass.PRED))
    participants = "count" if counted else "all"
    return Row(
        family="sync",
        opcode=opcode,
        ptx=f"{opcode}.{operation}.{'u32' if register is RegisterClass.B32 else 'pred'}",
        operands=(output("result", register), *operands),
        lowering=Intrinsic(
            spelled("llvm.nvvm.barrier.cta.red", operation, "aligned" if aligned else None, participants),
            tuple(operand.name for operand in operands),
        ),
        effects=(Effect.CONVERGENT if aligned else Effect.NONE) | Effect.ORDERS,
        semantics=_MEETS,
        section="9.7.13.1",
        summary="Waits at a barrier of the CTA and reduces a predicate.",
        axes={"operation": operation, "counted": counted, "aligned": aligned},
    )


@cache
def warp_sync() -> Row:
    """bar.warp.sync: wait for the lanes of `mask`, and make their memory accesses visible to each other."""
    return Row(
        family="sync",
        opcode="bar.warp.sync",
        ptx="bar.warp.sync",
        operands=(_MASK,),
        lowering=Intrinsic("llvm.nvvm.bar.warp.sync", ("mask",)),
        effects=Effect.CONVERGENT | Effect.ORDERS,
        semantics=Semantics(barrier=ThreadBarrier(Scope.WARP), acquires=Scope.WARP, releases=Scope.WARP),
        section="9.7.13.2",
        summary="Waits for the named lanes of the warp.",
    )


def ordering(of: FenceOf, semantics: str, scope: str) -> Semantics:
    """What a fence with these `semantics` is, as PTX spells them and their `scope`."""
    reached, one_way = SCOPES[scope], semantics in _ONE_WAY
    return Semantics(
        fence=FenceSemantics(of),
        acquires=Scope.THREAD if one_way and semantics != "acquire" else reached,
        releases=Scope.THREAD if one_way and semantics != "release" else reached,
    )


def _fence(
    ptx: str,
    lowering: Asm | Intrinsic,
    requires: Feature,
    ptx_version: PtxVersion,
    said: Semantics,
    **axes: object,
) -> Row:
    return Row(
        family="sync",
        opcode=ptx.partition(".")[0],
        ptx=ptx,
        operands=(),
        lowering=lowering,
        requires=requires,
        ptx_version=ptx_version,
        effects=Effect.ORDERS,
        semantics=said,
        section="9.7.13 (membar, fence)",
        summary="Orders this thread's memory accesses.",
        axes=axes,
    )


@cache
def fence(semantics: str, scope: str) -> Row:
    """fence.{acq_rel,sc,acquire,release}.{cta,cluster,gpu,sys}. LLVM may weaken or drop those of its own `fence`."""
    one_way = chosen("semantics", semantics, FENCE_SEMANTICS) in _ONE_WAY
    cluster = chosen("scope", scope, FENCE_SCOPES) == "cluster"
    return _fence(
        f"fence.{semantics}.{scope}",
        Asm("{ptx};"),
        Feature.SM_90 if cluster or one_way else Feature.NONE,
        _ONE_WAY_PTX if one_way else (7, 8) if cluster else (6, 0),
        ordering(FenceOf.MEMORY, semantics, scope),
        semantics=semantics,
        scope=scope,
    )


SYNC_RESTRICT: dict[str, tuple[str, str]] = {
    "acquire": ("shared::cluster", "space.cluster"),
    "release": ("shared::cta", "space.cta"),
}
"""Semantics of a fence on shared memory alone, the state space each has, and what LLVM calls that."""


@cache
def fence_shared(semantics: str, *, proxy: bool = False) -> Row:
    """fence.{acquire,release}.sync_restrict: order accesses to shared memory of the cluster, at cluster scope.

    With `proxy` those of the generic proxy with those of the async proxy.
    """
    space, llvm = SYNC_RESTRICT[chosen("semantics", semantics, SYNC_RESTRICT)]
    prefix, name = ("fence.proxy.async::generic", "fence.proxy.async_generic") if proxy else ("fence", "fence")
    return _fence(
        f"{prefix}.{semantics}.sync_restrict::{space}.cluster",
        Intrinsic(f"llvm.nvvm.{name}.{semantics}.sync_restrict.{llvm}.scope.cluster"),
        Feature.SM_90,
        _ONE_WAY_PTX,
        ordering(FenceOf.ASYNC_PROXY if proxy else FenceOf.MEMORY, semantics, "cluster"),
        semantics=semantics,
        space=space,
        proxy=proxy,
    )


@cache
def fence_proxy_alias() -> Row:
    """fence.proxy.alias: order accesses to the same memory through different virtual addresses."""
    said = ordering(FenceOf.OTHER_PROXY, "acq_rel", "sys")
    return _fence("fence.proxy.alias", Intrinsic("llvm.nvvm.fence.proxy.alias"), Feature.NONE, (7, 5), said)


@cache
def membar(level: str) -> Row:
    """membar.{cta,gl,sys}: the older spelling of a sequentially consistent fence."""
    chosen("level", level, MEMBAR_LEVELS)
    said = ordering(FenceOf.MEMORY, "sc", level)
    return _fence(f"membar.{level}", Intrinsic(f"llvm.nvvm.membar.{level}"), Feature.NONE, (6, 0), said, level=level)


@cache
def fence_mbarrier_init() -> Row:
    """fence.mbarrier_init: make this thread's mbarrier.init visible to the cluster and to the async proxy."""
    ptx = "fence.mbarrier_init.release.cluster"
    return _fence(
        ptx, Intrinsic(f"llvm.nvvm.{ptx}"), Feature.SM_90, (8, 0), Semantics(fence=FenceSemantics(FenceOf.INIT))
    )


@cache
def fence_proxy_async(space: str | None = None) -> Row:
    """fence.proxy.async: order ordinary accesses to `space` (None: every space) with those of TMA and wgmma."""
    chosen("space", space, PROXY_SPACES)
    return _fence(
        spelled("fence.proxy.async", space),
        Intrinsic(spelled("llvm.nvvm.fence.proxy.async", PROXY_SPACES[space])),
        Feature.SM_90,
        (8, 0),
        Semantics(fence=FenceSemantics(FenceOf.ASYNC_PROXY, shared=space != "global")),
        space=space,
    )


@cache
def elect() -> Row:
    """elect.sync: one lane of `mask` gets `elected` true; `leader` is its number, in every lane."""
    return Row(
        family="sync",
        opcode="elect.sync",
        ptx="elect.sync",
        operands=(output("leader", RegisterClass.B32), output("elected", RegisterClass.PRED), _MASK),
        lowering=Intrinsic("llvm.nvvm.elect.sync", ("mask",)),
        requires=Feature.SM_90,
        ptx_version=(8, 0),
        effects=Effect.CONVERGENT,
        section="9.7.13 (elect.sync)",
        summary="Elects one lane of the warp.",
    )


GRID_ACTIONS: dict[str, str] = {"wait": "wait", "launch_dependents": "launch.dependents"}
"""Action of griddepcontrol and what LLVM calls it."""


@cache
def griddepcontrol(action: str) -> Row:
    """griddepcontrol: "wait" for the grids before this one, or let the ones after it start ("launch_dependents")."""
    chosen("action", action, GRID_ACTIONS)
    return Row(
        family="sync",
        opcode="griddepcontrol",
        ptx=f"griddepcontrol.{action}",
        operands=(),
        lowering=Intrinsic(f"llvm.nvvm.griddepcontrol.{GRID_ACTIONS[action]}"),
        requires=Feature.SM_90,
        ptx_version=(7, 8),
        effects=Effect.ORDERS,
        semantics=Semantics(acquires=Scope.GRID, grids=GridUse.WAIT)
        if action == "wait"
        else Semantics(releases=Scope.GRID, grids=GridUse.LAUNCH),
        section="9.7.13 (griddepcontrol)",
        summary="Controls the overlap of dependent grids.",
        axes={"action": action},
    )


@cache
def nanosleep() -> Row:
    """nanosleep: suspend the thread for between 0 and twice `nanoseconds` (at most 1 ms)."""
    return Row(
        family="sync",
        opcode="nanosleep",
        ptx="nanosleep.u32",
        operands=(operand("nanoseconds", RegisterClass.B32, element=s32, rule="nanosleep.range"),),
        lowering=Intrinsic("llvm.nvvm.nanosleep", ("nanoseconds",)),
        ptx_version=(6, 3),
        effects=Effect.ORDERS,
        section="9.7.19 (nanosleep)",
        summary="Suspends the thread for a while.",
    )


def rows() -> Iterator[Row]:
    """Every synchronisation row."""
    for aligned in (True, False):
        yield from (barrier_sync(counted=counted, aligned=aligned) for counted in (False, True))
        yield barrier_arrive(aligned=aligned)
        for operation in BARRIER_REDUCTIONS:
            yield from (barrier_reduce(operation, counted=counted, aligned=aligned) for counted in (False, True))
    yield warp_sync()
    yield from (fence(semantics, scope) for semantics in FENCE_SEMANTICS for scope in FENCE_SCOPES)
    yield from (membar(level) for level in MEMBAR_LEVELS)
    for semantics in SYNC_RESTRICT:
        yield from (fence_shared(semantics, proxy=proxy) for proxy in (False, True))
    yield from (fence_proxy_alias(), fence_mbarrier_init())
    yield from (fence_proxy_async(space) for space in PROXY_SPACES)
    yield from (griddepcontrol(action) for action in GRID_ACTIONS)
    yield from (elect(), nanosleep())
