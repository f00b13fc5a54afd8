"""mbarrier rows: barriers in shared memory that count arrivals and bytes. PTX ISA 9.7.13.15.

An mbarrier is 8 bytes, 8-byte aligned. Operand names: `barrier` its address, `count` arrivals, `bytes` of the
transaction count, `parity` of the phase to wait for, `time_hint` in nanoseconds. The default semantics where none are
spelled are `.release` for an arrive and `.acquire` for a wait, at `.cta` scope.
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
from nvbackend.intrinsics.row.semantics import MbarrierUse, Scope, Semantics
from nvbackend.intrinsics.row.types import s32

ARRIVAL_COUNTS = range(1, 1 << 20)
"""What mbarrier.init takes as its count of expected arrivals."""
TRANSACTION_BYTES = range(1 << 20)
"""What one expect_tx may add to the transaction count."""

PARITIES = range(2)
ADDRESS_RULE = "mbarrier.address"
"""Of every operand that is an mbarrier."""

SPACES = ("cta", "cluster")
QUALIFIERS: tuple[tuple[str, str] | None, ...] = (
    None,
    *((semantics, scope) for semantics in ("release", "relaxed") for scope in ("cta", "cluster")),
)
"""Explicit semantics and scope of an arrive, or None for the plain spelling.

The plain spelling matters: `.release.cluster` costs a MEMBAR.ALL.GPU on the H200, the plain one does not.
"""

_SECTION = "9.7.13.15"
_SHARED_CTA_PTX: PtxVersion = (7, 8)
_EXPLICIT_PTX: PtxVersion = (8, 0)
_RELAXED_PTX: PtxVersion = (8, 6)
COUNT = operand("count", RegisterClass.B32, meaning="number of arrivals", element=s32, rule="mbarrier.count")
BYTES = operand(
    "bytes",
    RegisterClass.B32,
    meaning="bytes that will complete on the barrier in this phase",
    element=s32,
    rule="mbarrier.expect-tx",
)
PARITY = operand(
    "parity",
    RegisterClass.B32,
    meaning="parity (0 or 1) of the phase to wait for",
    element=s32,
    rule="mbarrier.parity",
)
TIME_HINT = operand(
    "time_hint", RegisterClass.B32, meaning="nanoseconds a thread may sleep before it answers", element=s32
)
STATE = output("state", RegisterClass.B64, meaning="phase state before the arrival, opaque")
DONE = output("done", RegisterClass.PRED, meaning="true when the phase has completed")
_ARRIVES = Effect.READS_MEMORY | Effect.WRITES_MEMORY | Effect.ORDERS


def barrier(space: str = "cta") -> RowOperand:
    """The operand that is an mbarrier of this CTA, or of any of the cluster."""
    register = RegisterClass.SHARED if space == "cta" else RegisterClass.SHARED_CLUSTER
    return operand("barrier", register, meaning="address of the mbarrier, 8-byte aligned", rule=ADDRESS_RULE)


@cache
def init() -> Row:
    """mbarrier.init: make `barrier` a barrier of `count` arrivals a phase (1 to 2^20 - 1)."""
    return Row(
        family="mbarrier",
        opcode="mbarrier.init",
        ptx="mbarrier.init.shared.b64",
        operands=(barrier(), COUNT),
        lowering=Intrinsic("llvm.nvvm.mbarrier.init.shared", ("barrier", "count")),
        requires=Feature.SM_80,
        ptx_version=(7, 0),
        effects=Effect.WRITES_MEMORY | Effect.ORDERS,
        semantics=Semantics(mbarrier=MbarrierUse.INIT),
        section=_SECTION,
        summary="Initialises an mbarrier in shared memory.",
    )


@cache
def inval() -> Row:
    """mbarrier.inval: end the life of `barrier`, so that its memory can be used again."""
    return Row(
        family="mbarrier",
        opcode="mbarrier.inval",
        ptx="mbarrier.inval.shared.b64",
        operands=(barrier(),),
        lowering=Intrinsic("llvm.nvvm.mbarrier.inval.shared", ("barrier",)),
        requires=Feature.SM_80,
        ptx_version=(7, 0),
        effects=Effect.WRITES_MEMORY,
        semantics=Semantics(mbarrier=MbarrierUse.INVAL),
        section=_SECTION,
        summary="Invalidates an mbarrier.",
    )


@cache
def arrival(*, drop: bool = False, expect_tx: bool = False) -> Semantics:
    """What an arrival is: any thread of the cluster may wait for it, whatever scope it spells."""
    use = MbarrierUse.ARRIVE
    use |= MbarrierUse.RECOUNT if drop else MbarrierUse(0)
    return Semantics(mbarrier=use | MbarrierUse.EXPECT if expect_tx else use, releases=Scope.CLUSTER)


WAITS = Semantics(mbarrier=MbarrierUse.WAIT, acquires=Scope.CLUSTER)
"""What an instruction is that returns when the phase has completed."""
POLLS = Semantics(mbarrier=MbarrierUse.POLL, acquires=Scope.CLUSTER)
"""What one is that says whether it has."""


@cache
def arrive_state() -> Row:
    """mbarrier.arrive that hands back the phase's `state`: one arrival."""
    return Row(
        family="mbarrier",
        opcode="mbarrier.arrive",
        ptx="mbarrier.arrive.shared.b64",
        operands=(STATE, barrier()),
        lowering=Intrinsic("llvm.nvvm.mbarrier.arrive.shared", ("barrier",)),
        requires=Feature.SM_80,
        ptx_version=(7, 0),
        effects=_ARRIVES,
        semantics=arrival(),
        section=_SECTION,
        summary="Arrives once on an mbarrier of this CTA and returns the phase state.",
    )


@cache
def arrive(
    space: str = "cta",
    qualifiers: tuple[str, str] | None = None,
    *,
    drop: bool = False,
    expect_tx: bool = False,
    counted: bool = False,
) -> Row:
    """An arrival without a result (sink `_`), by inline asm since LLVM prints no sink for shared::cta.

    `space` "cta" takes a SHARED address, "cluster" a SHARED_CLUSTER one (of `mapa`). `drop` leaves the barrier for all
    later phases. `expect_tx` adds `bytes` first; `counted` arrives `count` times instead of once. Raises NoSuchRow for
    other axes, and for expect_tx with a count.
    """
    chosen("space", space, SPACES)
    chosen("qualifiers", qualifiers, QUALIFIERS)
    chosen("counted", counted, (False,) if expect_tx else (False, True))
    opcode = spelled("mbarrier", "arrive_drop" if drop else "arrive", "expect_tx" if expect_tx else None)
    argument = BYTES if expect_tx else COUNT if counted else None
    of_cluster = space == "cluster" or expect_tx or counted or qualifiers not in (None, ("release", "cta"))
    version = _RELAXED_PTX if "relaxed" in (qualifiers or ()) else _EXPLICIT_PTX
    return Row(
        family="mbarrier",
        opcode=opcode,
        ptx=spelled(opcode, *(qualifiers or ()), f"shared::{space}", "b64"),
        operands=(barrier(space), *([argument] if argument else [])),
        lowering=Asm("{ptx} _, [{barrier}]" + (f", {{{argument.name}}};" if argument else ";")),
        requires=Feature.SM_90 if of_cluster else Feature.SM_80,
        ptx_version=version if qualifiers or space == "cluster" or expect_tx else _SHARED_CTA_PTX,
        effects=_ARRIVES,
        semantics=arrival(drop=drop, expect_tx=expect_tx),
        section=_SECTION,
        summary=f"Arrives on an mbarrier of {'this CTA' if space == 'cta' else 'any CTA of the cluster'}.",
        axes={
            "space": space,
            "semantics": qualifiers[0] if qualifiers else None,
            "scope": qualifiers[1] if qualifiers else None,
            "drop": drop,
            "expect_tx": expect_tx,
            "counted": counted,
        },
    )


@cache
def _poll(opcode: str, intrinsic: str, time_hint: bool, requires: Feature, ptx_version: PtxVersion) -> Row:
    extra = (TIME_HINT,) if time_hint else ()
    return Row(
        family="mbarrier",
        opcode=opcode,
        ptx=f"{opcode}.shared.b64",
        operands=(DONE, barrier(), PARITY, *extra),
        lowering=Intrinsic(intrinsic, ("barrier", "parity", *(hint.name for hint in extra))),
        requires=requires,
        ptx_version=ptx_version,
        effects=Effect.READS_MEMORY | Effect.ORDERS,
        semantics=POLLS,
        section=_SECTION,
        summary="Tells whether the phase of the given parity has completed; does not block forever.",
        axes={"time_hint": time_hint, "blocking": False},
    )


def try_wait_parity(time_hint: bool = False) -> Row:
    """mbarrier.try_wait.parity: sleep up to a limit (the system's, or `time_hint`), then say whether it is `done`."""
    intrinsic = spelled("llvm.nvvm.mbarrier.try.wait.parity", "tl" if time_hint else None, "scope.cta.space.cta")
    return _poll("mbarrier.try_wait.parity", intrinsic, time_hint, Feature.SM_90, (7, 8))


def test_wait_parity() -> Row:
    """mbarrier.test_wait.parity: say at once whether the phase is `done`."""
    intrinsic = "llvm.nvvm.mbarrier.test.wait.parity.scope.cta.space.cta"
    return _poll("mbarrier.test_wait.parity", intrinsic, False, Feature.SM_80, (7, 1))


@cache
def wait_parity() -> Row:
    """A loop over mbarrier.try_wait.parity that ends when the phase of `parity` has completed.

    One asm statement, so that LLVM does not see the back edge as a loop of the kernel; its labels are local to its
    braces, so a copy of it made by the optimiser assembles.
    """
    return Row(
        family="mbarrier",
        opcode="mbarrier.try_wait.parity",
        ptx="mbarrier.try_wait.parity.shared::cta.b64",
        operands=(barrier(), PARITY),
        lowering=Asm(
            "{{ .reg .pred ready; WAIT: {ptx} ready, [{barrier}], {parity}; @ready bra DONE; bra WAIT; DONE: }}"
        ),
        requires=Feature.SM_90,
        ptx_version=_SHARED_CTA_PTX,
        effects=Effect.READS_MEMORY | Effect.ORDERS,
        semantics=WAITS,
        section=_SECTION,
        summary="Waits until the phase of the given parity has completed.",
        axes={"time_hint": False, "blocking": True},
    )


def rows() -> Iterator[Row]:
    """Every mbarrier row."""
    yield from (init(), inval(), arrive_state(), test_wait_parity(), wait_parity())
    yield from (try_wait_parity(time_hint) for time_hint in (False, True))
    for space in SPACES:
        for qualifiers in QUALIFIERS:
            for drop in (False, True):
                for expects, counted in ((False, False), (False, True), (True, False)):
                    yield arrive(space, qualifiers, drop=drop, expect_tx=expects, counted=counted)
