"""mbarrier rows on the state of a phase: arrivals that return it, waits for it at every scope, transactions.

PTX ISA 9.7.13.15, and cp.async.mbarrier.arrive. Operand names as in `mbarrier`; `state` is what an arrival returned.
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
from nvbackend.intrinsics.row.semantics import NOTHING, Completion, MbarrierUse, Scope, Semantics
from nvbackend.intrinsics.sync import mbarrier

WAIT_QUALIFIERS: tuple[tuple[str, str] | None, ...] = (
    None,
    *((semantics, scope) for semantics in ("acquire", "relaxed") for scope in mbarrier.SPACES),
)
"""Explicit semantics and scope of a wait, or None for the plain spelling, which acquires at CTA scope."""
TRANSACTIONS = ("expect_tx", "complete_tx")
KINDS = ("test_wait", "try_wait")
AWAITED = ("state", "parity")
"""What names the phase that a wait is for."""

_BARRIER = mbarrier.barrier()
_STATE_IN = operand("state", RegisterClass.B64, meaning="what an arrival of the phase returned")

_FIRST_PTX: PtxVersion = (7, 0)
_SM_90_PTX: PtxVersion = (7, 8)
_EXPLICIT_PTX: PtxVersion = (8, 0)
_RELAXED_PTX: PtxVersion = (8, 6)
_OF_CTA = ("release", "cta")
_MEMORY = Effect.READS_MEMORY | Effect.WRITES_MEMORY


def _row(
    opcode: str,
    ptx: str,
    operands: tuple[RowOperand, ...],
    lowering: Asm | Intrinsic,
    gate: tuple[Feature, PtxVersion],
    effects: Effect,
    said: Semantics,
    summary: str,
    **axes: object,
) -> Row:
    return Row(
        family="mbarrier",
        opcode=opcode,
        ptx=ptx,
        operands=operands,
        lowering=lowering,
        requires=gate[0],
        ptx_version=gate[1],
        effects=effects,
        semantics=said,
        section="9.7.13.15",
        summary=summary,
        axes=axes,
    )


def _explicit(qualifiers: tuple[str, str] | None, plain: PtxVersion) -> PtxVersion:
    if qualifiers is None:
        return plain
    return _RELAXED_PTX if qualifiers[0] == "relaxed" else _EXPLICIT_PTX


@cache
def arrive_state(
    qualifiers: tuple[str, str] | None = None, *, drop: bool = False, expect_tx: bool = False, counted: bool = False
) -> Row:
    """mbarrier.arrive on this CTA's barrier that returns the phase's `state`; axes as of `mbarrier.arrive`."""
    chosen("qualifiers", qualifiers, mbarrier.QUALIFIERS)
    chosen("counted", counted, (False,) if expect_tx else (False, True))
    action = "arrive_drop" if drop else "arrive"
    argument = mbarrier.BYTES if expect_tx else mbarrier.COUNT if counted else None
    opcode = spelled("mbarrier", action, "expect_tx" if expect_tx else None)
    simple = argument is None and qualifiers in (None, _OF_CTA)
    plain = (_EXPLICIT_PTX if expect_tx else _SM_90_PTX) if argument else _FIRST_PTX
    effects = _MEMORY if qualifiers and qualifiers[0] == "relaxed" else _MEMORY | Effect.ORDERS
    return _row(
        opcode,
        spelled(opcode, *(qualifiers or ()), "shared.b64"),
        (mbarrier.STATE, _BARRIER, *([argument] if argument else [])),
        _arrive_lowering(opcode, qualifiers, argument),
        (Feature.SM_80 if simple else Feature.SM_90, _explicit(qualifiers, plain)),
        effects,
        mbarrier.arrival(drop=drop, expect_tx=expect_tx),
        "Arrives on an mbarrier of this CTA and returns the phase state.",
        space="cta",
        semantics=qualifiers[0] if qualifiers else None,
        scope=qualifiers[1] if qualifiers else None,
        drop=drop,
        expect_tx=expect_tx,
        counted=counted,
        state=True,
    )


def _arrive_lowering(opcode: str, qualifiers: tuple[str, str] | None, argument: RowOperand | None) -> Asm | Intrinsic:
    """By intrinsic where LLVM prints this spelling for every PTX version that has it.

    LLVM always gives a count, leaves release and cta out, and wants PTX 8.0 for a plain counted arrival.
    """
    name = "llvm.nvvm." + opcode.replace("_", ".")
    if argument is None and qualifiers is None:
        return Intrinsic(f"{name}.shared", ("barrier",))
    if argument is None or qualifiers == _OF_CTA or (argument is mbarrier.COUNT and qualifiers is None):
        tail = f", {{{argument.name}}};" if argument else ";"
        return Asm("{ptx} {state}, [{barrier}]" + tail)
    semantics, scope = qualifiers or _OF_CTA
    relaxed = "relaxed" if semantics == "relaxed" else None
    return Intrinsic(spelled(name, relaxed, f"scope.{scope}.space.cta"), ("barrier", argument.name))


@cache
def arrive_no_complete(qualifiers: tuple[str, str] | None = None, *, drop: bool = False) -> Row:
    """mbarrier.arrive.noComplete: `count` arrivals that must not complete the phase; returns its `state`."""
    chosen("qualifiers", qualifiers, (None, _OF_CTA))
    action = "arrive_drop" if drop else "arrive"
    opcode = f"mbarrier.{action}.noComplete"
    name = f"llvm.nvvm.mbarrier.{action.replace('_', '.')}.noComplete.shared"
    return _row(
        opcode,
        spelled(opcode, *(qualifiers or ()), "shared.b64"),
        (mbarrier.STATE, _BARRIER, mbarrier.COUNT),
        Intrinsic(name, ("barrier", "count")) if qualifiers is None else Asm("{ptx} {state}, [{barrier}], {count};"),
        (Feature.SM_80, _explicit(qualifiers, _FIRST_PTX)),
        _MEMORY | Effect.ORDERS,
        mbarrier.arrival(drop=drop),
        "Arrives on an mbarrier without completing its phase.",
        drop=drop,
        semantics=qualifiers[0] if qualifiers else None,
        scope=qualifiers[1] if qualifiers else None,
    )


@cache
def pending_count() -> Row:
    """mbarrier.pending_count: the arrivals still missing in the phase of `state`."""
    opcode = "mbarrier.pending_count"
    return _row(
        opcode,
        f"{opcode}.b64",
        (output("count", RegisterClass.B32), _STATE_IN),
        Intrinsic("llvm.nvvm.mbarrier.pending.count", ("state",)),
        (Feature.SM_80, _FIRST_PTX),
        Effect.NONE,
        NOTHING,
        "Reads the pending arrivals out of a phase state.",
    )


_EXPECTS = Semantics(mbarrier=MbarrierUse.EXPECT, releases=Scope.CLUSTER)
_COMPLETES = Semantics(mbarrier=MbarrierUse.COMPLETE, releases=Scope.CLUSTER)


@cache
def transaction(operation: str, space: str = "cta", scope: str | None = None) -> Row:
    """mbarrier.expect_tx or complete_tx: add `bytes` to the transaction count, or take them off; relaxed.

    `space` "cluster" takes the barrier of another CTA. `scope` None is the plain spelling, of CTA scope.
    """
    chosen("operation", operation, TRANSACTIONS)
    chosen("space", space, mbarrier.SPACES)
    chosen("scope", scope, (None, *mbarrier.SPACES))
    opcode = f"mbarrier.{operation}"
    name = f"llvm.nvvm.mbarrier.{operation.replace('_', '.')}.scope.{scope}.space.{space}"
    return _row(
        opcode,
        spelled(opcode, f"relaxed.{scope}" if scope else None, _SPELLED_SPACE[space], "b64"),
        (_BARRIER if space == "cta" else mbarrier.barrier("cluster"), mbarrier.BYTES),
        Intrinsic(name, ("barrier", "bytes")) if scope else Asm("{ptx} [{barrier}], {bytes};"),
        (Feature.SM_90, _EXPLICIT_PTX),
        _MEMORY,
        _EXPECTS if operation == "expect_tx" else _COMPLETES,
        "Changes the transaction count of an mbarrier.",
        operation=operation,
        space=space,
        scope=scope,
    )


_SPELLED_SPACE = {"cta": "shared", "cluster": "shared::cluster"}


@cache
def wait(
    kind: str, awaited: str = "parity", qualifiers: tuple[str, str] | None = None, *, time_hint: bool = False
) -> Row:
    """mbarrier.test_wait (answers at once) or try_wait (may sleep): whether a phase is `done`.

    The phase is that of the `state` an arrival returned, or of a `parity`. `qualifiers` are its semantics and scope,
    one of WAIT_QUALIFIERS. try_wait takes a `time_hint` in nanoseconds. Raises NoSuchRow for axes that have no row.
    """
    chosen("kind", kind, KINDS)
    chosen("awaited", awaited, AWAITED)
    chosen("qualifiers", qualifiers, WAIT_QUALIFIERS)
    chosen("time_hint", time_hint, (False, True) if kind == "try_wait" else (False,))
    if awaited == "parity" and qualifiers is None:
        return mbarrier.try_wait_parity(time_hint) if kind == "try_wait" else mbarrier.test_wait_parity()
    opcode = spelled("mbarrier", kind, "parity" if awaited == "parity" else None)
    phase = mbarrier.PARITY if awaited == "parity" else _STATE_IN
    extra = (mbarrier.TIME_HINT,) if time_hint else ()
    relaxed = qualifiers is not None and qualifiers[0] == "relaxed"
    early = kind == "test_wait" and qualifiers in (None, ("acquire", "cta"))
    plain = _SM_90_PTX if kind == "try_wait" else _FIRST_PTX
    return _row(
        opcode,
        spelled(opcode, *(qualifiers or ()), "shared.b64"),
        (mbarrier.DONE, _BARRIER, phase, *extra),
        _wait_lowering(kind, phase.name, qualifiers, time_hint),
        (Feature.SM_80 if early else Feature.SM_90, _explicit(qualifiers, plain)),
        Effect.READS_MEMORY if relaxed else Effect.READS_MEMORY | Effect.ORDERS,
        mbarrier.POLLS,
        "Tells whether a phase has completed; does not block forever.",
        kind=kind,
        awaited=awaited,
        semantics=qualifiers[0] if qualifiers else None,
        scope=qualifiers[1] if qualifiers else None,
        time_hint=time_hint,
        blocking=False,
    )


def _wait_lowering(kind: str, phase: str, qualifiers: tuple[str, str] | None, time_hint: bool) -> Asm | Intrinsic:
    """By intrinsic where LLVM prints this spelling: it leaves acquire and cta out."""
    names = ("barrier", phase, *(("time_hint",) if time_hint else ()))
    if qualifiers == ("acquire", "cta"):
        return Asm("{ptx} {done}, [{barrier}], " + ", ".join(f"{{{name}}}" for name in names[1:]) + ";")
    base = f"llvm.nvvm.mbarrier.{kind.replace('_', '.')}"
    if kind == "test_wait" and qualifiers is None:
        return Intrinsic(f"{base}.shared", names)
    semantics, scope = qualifiers or ("acquire", "cta")
    parts = ("parity" if phase == "parity" else None, "tl" if time_hint else None)
    relaxed = "relaxed" if semantics == "relaxed" else None
    return Intrinsic(spelled(base, *parts, relaxed, f"scope.{scope}.space.cta"), names)


@cache
def copy_arrive(*, no_increment: bool = False) -> Row:
    """cp.async.mbarrier.arrive: arrive on `barrier` when all cp.async of this thread so far have completed.

    With `no_increment` the arrival is one of those that the barrier was initialised to expect.
    """
    suffix = "noinc" if no_increment else None
    opcode = "cp.async.mbarrier.arrive"
    return _row(
        opcode,
        spelled(opcode, suffix, "shared.b64"),
        (_BARRIER,),
        Intrinsic(spelled(f"llvm.nvvm.{opcode}", suffix, "shared"), ("barrier",)),
        (Feature.SM_80, _FIRST_PTX),
        _MEMORY,
        Semantics(
            mbarrier=MbarrierUse.ARRIVE if no_increment else MbarrierUse.ARRIVE | MbarrierUse.RECOUNT,
            tracks=Completion.COPY_GROUP,
            releases=Scope.CLUSTER,
        ),
        "Arrives on an mbarrier when this thread's asynchronous copies have completed.",
        no_increment=no_increment,
    )


def rows() -> Iterator[Row]:
    """Every row of this module; plain arrivals and parity waits are in `mbarrier`."""
    for qualifiers in mbarrier.QUALIFIERS:
        for drop in (False, True):
            for expects, counted in ((False, False), (False, True), (True, False)):
                if qualifiers or drop or expects or counted:
                    yield arrive_state(qualifiers, drop=drop, expect_tx=expects, counted=counted)
    for drop in (False, True):
        yield from (arrive_no_complete(qualifiers, drop=drop) for qualifiers in (None, _OF_CTA))
    yield pending_count()
    for operation in TRANSACTIONS:
        for space in mbarrier.SPACES:
            for scope in (None, *mbarrier.SPACES):
                yield transaction(operation, space, scope)
    for awaited in AWAITED:
        for qualified in WAIT_QUALIFIERS:
            if awaited == "state" or qualified:
                yield wait("test_wait", awaited, qualified)
                yield from (wait("try_wait", awaited, qualified, time_hint=time_hint) for time_hint in (False, True))
    yield from (copy_arrive(no_increment=no_increment) for no_increment in (False, True))
