"""Constants that single `emit` calls bring to the machine form: refused by the rules of the builder's own calls."""

from __future__ import annotations

from typing import Any

import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import DiagnosticError, Location
from nvbackend.intrinsics.copy import cache_control, cp_async, tcgen05_memory, tma_bulk
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.row.types import s32, u8, u64
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import mbarrier, mbarrier_phases
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.target.target import Target
from nvbackend.isel.verify.verify import verify
from nvbackend.signature import Parameter, Pointer

COUNTED = sync.barrier_sync(counted=True)
EXPECT = mbarrier.arrive(expect_tx=True)
CASES: list[tuple[Row, dict[str, int], str | None]] = [
    (mbarrier.init(), {"count": 0}, "mbarrier.count"),
    (mbarrier.init(), {"count": 1}, None),
    (mbarrier.init(), {"count": (1 << 20) - 1}, None),
    (mbarrier.init(), {"count": 1 << 20}, "mbarrier.count"),
    (EXPECT, {"bytes": -16}, "mbarrier.expect-tx"),
    (EXPECT, {"bytes": (1 << 20) - 1}, None),
    (EXPECT, {"bytes": 1 << 20}, "mbarrier.expect-tx"),
    (mbarrier.wait_parity(), {"parity": 1}, None),
    (mbarrier.wait_parity(), {"parity": 2}, "mbarrier.parity"),
    (mbarrier.test_wait_parity(), {"parity": -1}, "mbarrier.parity"),
    (mbarrier_phases.arrive_no_complete(), {"count": 0}, "mbarrier.count"),
    (sync.barrier_sync(), {"id": 15}, None),
    (sync.barrier_sync(), {"id": 16}, "barrier.id"),
    (COUNTED, {"id": 1, "threads": 64}, None),
    (COUNTED, {"id": 1, "threads": 33}, "barrier.threads"),
    (COUNTED, {"id": 1, "threads": 2048}, "barrier.threads"),
    (sync.nanosleep(), {"nanoseconds": 1_000_000}, None),
    (sync.nanosleep(), {"nanoseconds": 1_000_001}, "nanosleep.range"),
]
HERE = Location("kernel.py", 7, "kernel")
OF_CONSTANTS = {rule for _, _, rule in CASES if rule}


def told(found: Any) -> list[str]:
    return [one.rule_id for one in found if one.rule_id in OF_CONSTANTS]


@pytest.mark.parametrize(("row", "values", "rule"), CASES, ids=[f"{row.opcode}-{given}" for row, given, _ in CASES])
def test_a_constant_is_held_to_its_rule(row: Row, values: dict[str, int], rule: str | None) -> None:
    k = KernelBuilder("k", "sm_90a", threads=128)
    barrier = k.shared(u64, 1, align=8).bytes.ir
    given = {"barrier": barrier} if any(one.name == "barrier" for one in row.operands) else {}
    k.emit(row, {**given, **{name: k.const(value, s32).ir for name, value in values.items()}})
    found: Any = ()
    try:
        k.finish()
    except DiagnosticError as error:
        found = error.diagnostics
    assert told(found) == ([rule] if rule else [])


def test_a_value_that_is_known_at_run_time_only_is_not_judged() -> None:
    assert told(verify(function({"id": "%16", "threads": "%warps"}))) == []


@pytest.mark.parametrize(
    ("size", "rules"), [("32", []), ("24", ["tma.bulk-size"]), ("-16", ["tma.bulk-size"]), ("%3", [])]
)
def test_the_size_of_a_bulk_copy(size: str, rules: list[str]) -> None:
    row = tma_bulk.prefetch_bulk()
    made = MachineFunction("k", Target.parse("sm_90a"))
    made.block("entry").instructions = [MachineInstr(row.opcode, row, {"source": "%p", "bytes": size}, location=HERE)]
    found = verify(made)
    assert [(one.rule_id, one.location) for one in found] == [(rule, HERE) for rule in rules]


def test_one_sound_instruction_does_not_stand_for_another_number() -> None:
    found = verify(function({"id": "1", "threads": "64"}, {"id": "99", "threads": "64"}, {"id": "1", "threads": "5"}))
    assert told(found) == ["barrier.id", "barrier.threads"]


COPY = cp_async.copy("ca", 8, "bytes")
HINTED = cp_async.copy("cg", 16, cache_hint=True)
COPIES: list[tuple[Row, dict[str, int], str | None]] = [
    (COPY, {"bytes": 0}, None),
    (COPY, {"bytes": 8}, None),
    (COPY, {"bytes": 9}, "async-copy.read-bytes"),
    (COPY, {"bytes": 16}, "async-copy.read-bytes"),
    (COPY, {"bytes": (1 << 32) - 1}, "async-copy.read-bytes"),
    (HINTED, {"cache_policy": 0}, "cache.policy"),
    (HINTED, {"cache_policy": 1}, "cache.policy"),
    (HINTED, {"cache_policy": 0x1000000000000000}, None),
    (HINTED, {"cache_policy": 0x14F0000000000000}, None),
]


@pytest.mark.parametrize(("row", "values", "rule"), COPIES, ids=[f"{row.opcode}-{given}" for row, given, _ in COPIES])
def test_every_way_of_emitting_a_copy_is_held_to_what_ptxas_takes(
    row: Row, values: dict[str, int], rule: str | None
) -> None:
    """By `k.instruction` at the call, and by the verifier for `k.emit`; what is built is assembled."""
    parameters = [Parameter("x", Pointer(u8, 16))]
    k = KernelBuilder("k", "sm_90a", threads=32, parameters=parameters)
    tile = k.shared(u8, 512)
    if rule is None:
        k.instruction(row, destination=tile, source=k.arguments[0], **values)
        k.cp_async.wait_group()
        assert k.compile().cubin
        return
    with pytest.raises(DiagnosticError) as caught:
        k.instruction(row, destination=tile, source=k.arguments[0], **values)
    assert [one.rule_id for one in caught.value.diagnostics] == [rule]
    k.emit(row, {"destination": tile.bytes.ir, "source": k.arguments[0].bytes.ir, **values})
    k.cp_async.wait_group()
    with pytest.raises(DiagnosticError) as caught:
        k.finish()
    assert [one.rule_id for one in caught.value.diagnostics] == [rule]


@pytest.mark.parametrize(
    ("row", "values", "rule"),
    [
        (cache_control.clear_bulk(), {"bytes": 12}, "cache.cleared"),
        (
            cache_control.policy_range("L2::evict_last", None, "global"),
            {"primary_bytes": 2, "total_bytes": 1},
            "cache.policy-range",
        ),
        (tcgen05_memory.dealloc(), {"tmem": 0, "columns": 48}, "tcgen05.columns"),
    ],
)
def test_siblings_on_blackwell(row: Row, values: dict[str, int], rule: str) -> None:
    k = KernelBuilder("k", "sm_100a", threads=32, parameters=[Parameter("x", Pointer(u8, 16))])
    places = {RegisterClass.SHARED: k.shared(u8, 512), RegisterClass.GLOBAL: k.arguments[0]}
    address = {"address": places[row.operand("address").register]} if row.has_operand("address") else {}
    with pytest.raises(DiagnosticError) as caught:
        k.instruction(row, **address, **values)
    assert [one.rule_id for one in caught.value.diagnostics] == [rule]
    k.emit(row, {**{name: one.bytes.ir for name, one in address.items()}, **values})
    with pytest.raises(DiagnosticError) as caught:
        k.finish()
    assert rule in [one.rule_id for one in caught.value.diagnostics]


def function(*operands: dict[str, str]) -> MachineFunction:
    made = MachineFunction("k", Target.parse("sm_90a"))
    made.block("entry").instructions = [MachineInstr(COUNTED.opcode, COUNTED, given) for given in operands]
    return made
