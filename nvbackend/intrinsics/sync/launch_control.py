"""clusterlaunchcontrol rows: take over the work of a cluster that has not started. PTX ISA 9.7.13.

A request writes 16 bytes of answer to shared memory and completes on an mbarrier; the answer is read into registers
(`answer`, low half first) and decoded.
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
from nvbackend.intrinsics.row.semantics import Completion, MbarrierUse, Proxy, Semantics, writes

ANSWER_BYTES = 16
"""Size and alignment of an answer, and the bytes that complete on the mbarrier."""
AXES = ("x", "y", "z")

_PTX: PtxVersion = (8, 6)
_SECTION = "9.7.13 (clusterlaunchcontrol)"
_ANSWER = operand("answer", RegisterClass.B64, 2, meaning="the answer, low half first")
_QUERY = "clusterlaunchcontrol.query_cancel"


@cache
def try_cancel(*, multicast: bool = False) -> Row:
    """clusterlaunchcontrol.try_cancel: ask for the work of a cluster that has not started.

    The answer goes to `destination`, 16-byte aligned, and completes 16 bytes on `barrier`; with `multicast`, in every
    CTA of this cluster.
    """
    suffix = "multicast::cluster::all" if multicast else None
    opcode = "clusterlaunchcontrol.try_cancel"
    return Row(
        family="launch_control",
        opcode=opcode,
        ptx=spelled(opcode, "async.shared::cta.mbarrier::complete_tx::bytes", suffix, "b128"),
        operands=(
            operand(
                "destination",
                RegisterClass.SHARED,
                align=ANSWER_BYTES,
                meaning="where the answer goes, 16-byte aligned",
            ),
            operand(
                "barrier",
                RegisterClass.SHARED,
                meaning="mbarrier that the answer completes on",
                rule="mbarrier.address",
            ),
        ),
        lowering=Intrinsic(
            spelled(f"llvm.nvvm.{opcode}.async", "multicast" if multicast else None, "shared"),
            ("destination", "barrier"),
        ),
        requires=Feature.SM_100 | (Feature.FAMILY_CONDITIONAL if multicast else Feature.NONE),
        ptx_version=_PTX,
        effects=Effect.WRITES_MEMORY,
        semantics=Semantics(
            mbarrier=MbarrierUse.COMPLETE,
            issues=Completion.BYTES,
            memory=(writes("destination", ANSWER_BYTES),),
            proxy=Proxy.ASYNC,
            multicast=multicast,
        ),
        section=_SECTION,
        summary="Asks for the work of a cluster that has not started yet.",
        axes={"multicast": multicast},
    )


def _query(suffix: str, result: RowOperand) -> Row:
    """A query of the answer. By asm: LLVM's intrinsics take 128-bit integers, which no other operand is."""
    ptx = f"{_QUERY}.{suffix}.b128"
    results = "{" + result.name + "}"
    vector = "{{" + results + "}}" if result.count > 1 else results
    return Row(
        family="launch_control",
        opcode=_QUERY,
        ptx=ptx,
        operands=(result, _ANSWER),
        lowering=Asm(f"{{{{ .reg .b128 answer; mov.b128 answer, {{{{{{answer}}}}}}; {{ptx}} {vector}, answer; }}}}"),
        requires=Feature.SM_100,
        ptx_version=_PTX,
        section=_SECTION,
        summary="Reads the answer to a request for a cluster's work.",
        axes={"query": suffix},
    )


@cache
def is_canceled() -> Row:
    """query_cancel.is_canceled: whether the request got a cluster, whose work this one then does."""
    return _query("is_canceled.pred", output("canceled", RegisterClass.PRED))


@cache
def first_ctaid() -> Row:
    """query_cancel.get_first_ctaid.v4: ctaid of the canceled cluster's first CTA (x, y, z; the fourth is undefined)."""
    return _query("get_first_ctaid.v4.b32", output("ctaid", RegisterClass.B32, 4))


@cache
def first_ctaid_on(axis: str) -> Row:
    """query_cancel.get_first_ctaid::x, y or z: one coordinate of the canceled cluster's first CTA."""
    return _query(f"get_first_ctaid::{chosen('axis', axis, AXES)}.b32", output("ctaid", RegisterClass.B32))


def rows() -> Iterator[Row]:
    """Every row of cluster launch control."""
    yield from (try_cancel(multicast=multicast) for multicast in (False, True))
    yield from (is_canceled(), first_ctaid())
    yield from (first_ctaid_on(axis) for axis in AXES)
