"""The builder calls of rows that order threads: mbarriers, barriers and fences. See `row_calls`."""

from __future__ import annotations

from typing import Any

from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import pred
from tests.support.row_bench import Bench


def qualifiers(row: Row) -> tuple[str, str] | None:
    return (row.axes["semantics"], row.axes["scope"]) if row.axes.get("semantics") else None  # type: ignore[return-value]


def arrive(u: Bench, row: Row) -> None:
    axes: dict[str, Any] = {"qualifiers": qualifiers(row)}
    names = {one.name for one in row.inputs}
    axes |= {"count": 2} if "count" in names else {}
    if row.opcode.endswith("noComplete"):
        u.k.mbarrier.arrive(u.barrier, count=2, drop=row.axes["drop"], qualifiers=axes["qualifiers"], no_complete=True)
        return
    axes |= {"expect_tx": 64} if "bytes" in names else {}
    axes["drop"] = bool(row.axes.get("drop"))
    if row.outputs:
        u.k.mbarrier.arrive(u.barrier, **axes, state=True)
    else:
        u.k.mbarrier.arrive(u.barrier, **axes, **({"rank": 1} if row.axes["space"] == "cluster" else {}))


def transaction(u: Bench, row: Row) -> None:
    operation, remote = row.opcode.rpartition(".")[2], row.axes["space"] == "cluster"
    call = u.k.mbarrier.expect_tx if operation == "expect_tx" else u.k.mbarrier.complete_tx
    call(u.barrier, 64, scope=row.axes["scope"], rank=1 if remote else None)


def wait(u: Bench, row: Row) -> None:
    if row.axes["blocking"]:
        u.k.mbarrier.wait(u.barrier, 0)
        return
    state = {"state": u.wide} if not row.opcode.endswith("parity") else {}
    sleep = {"sleep": 100} if row.axes["time_hint"] else {}
    u.k.mbarrier.test(u.barrier, **state, **sleep, blocking="try_wait" in row.opcode, qualifiers=qualifiers(row))


def bar(u: Bench, row: Row) -> None:
    counted = [128] if row.axes["counted"] else []
    call = u.k.barrier.arrive if row.opcode.endswith("arrive") else u.k.barrier.sync
    call(1, *counted, aligned=row.axes["aligned"])


def bar_reduce(u: Bench, row: Row) -> None:
    threads = {"threads": 128} if row.axes["counted"] else {}
    u.k.barrier.reduce(row.axes["operation"], u.values[pred], 1, **threads, aligned=row.axes["aligned"])


def fence(u: Bench, row: Row) -> None:
    axes: dict[str, Any] = dict(row.axes)
    if row.ptx.startswith("fence.mbarrier_init"):
        u.k.fence.mbarrier_init()
    elif row.ptx == "fence.proxy.alias":
        u.k.fence.proxy_alias()
    elif "proxy" in axes:
        u.k.fence.shared(axes["semantics"], proxy=axes["proxy"])
    elif row.ptx.startswith("fence.proxy.async"):
        u.k.fence.proxy_async(axes["space"])
    else:
        u.k.fence.thread(axes["semantics"], axes["scope"])
