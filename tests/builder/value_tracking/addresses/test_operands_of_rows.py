"""Which operands are looked at, and what is recorded of the threads, for every row: told by how the PTX is spelled."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from llvmlite import ir

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.value_tracking.addresses.operands import OperandTracking, is_checked
from nvbackend.intrinsics.catalogue import rows
from nvbackend.intrinsics.copy import tma_tensor
from nvbackend.intrinsics.row.row import Asm, RegisterClass, Role, Row, RowOperand
from nvbackend.intrinsics.row.types import i32, u32
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.signature import Parameter, Scalar

THREADS = 96
COUNTED = re.compile(
    r"(cp\.async\.)?mbarrier\.(?!pending)|barrier\.cluster|cp\.(reduce\.)?async\.bulk\b(?!\.prefetch)|tcgen05\.(mma|shift|commit|cp)\b|.*mbarrier::"
)
"""What uses mbarriers, is a barrier of the cluster, or is completed by an mbarrier or a group of bulk copies."""
SHARED = {RegisterClass.SHARED, RegisterClass.SHARED_CLUSTER}
NUMBERS = {RegisterClass.B16, RegisterClass.B32, RegisterClass.B64}
PARTS = {
    "barrier": RowOperand("barrier", RegisterClass.GENERIC),
    "shared": RowOperand("source", RegisterClass.SHARED),
    "cluster": RowOperand("destination", RegisterClass.SHARED_CLUSTER),
    "rule": RowOperand("count", RegisterClass.B32, rule="mbarrier.count"),
    "legal": RowOperand("lanes", RegisterClass.B32, legal=range(3)),
}
"""Operands each of which is a reason to look."""
OTHERS = (RowOperand("value", RegisterClass.B32), RowOperand("pointer", RegisterClass.GENERIC))


def tracking() -> OperandTracking:
    return KernelBuilder("f", "sm_100a", threads=THREADS).core.tracking


def test_the_threads_are_counted_where_mbarriers_bulk_copies_or_clusters_ask_for_them() -> None:
    known = tracking()
    for row in rows():
        counted = {"threads": THREADS, "warps": THREADS // 32} if COUNTED.match(row.ptx) else {}
        assert known.facts(row, {}) == counted, row.ptx


@pytest.mark.parametrize(
    ("those", "known"),
    [
        (lambda k: k.thread_id() == 37, {"threads": 1, "warps": 1, "thread": 37}),
        (lambda k: k.thread_id() < 2, {"threads": 2, "warps": 1}),
        (lambda k: k.thread_id() % 32 == 3, {"threads": 3, "warps": 3}),
        (lambda k: (k.thread_id() < 64) & k.elect(), {"threads": 2, "warps": 2}),
        (lambda k: (k.thread_id() < 32) & k.elect(), {"threads": 1, "warps": 1}),
        (lambda k: k.thread_id() < k.arguments[0].to(i32), {}),
    ],
    ids=["one", "two", "one of each warp", "some of two warps", "any of a warp", "unknown"],
)
def test_the_threads_of_a_block_are_counted(those: Callable[[Any], Any], known: dict[str, int]) -> None:
    k = KernelBuilder("f", "sm_100a", threads=THREADS, parameters=[Parameter("n", Scalar(u32))])
    with k.if_(those(k)):
        assert k.core.tracking.facts(mbarrier.init(), {}) == known


def test_constants_are_recorded_with_them_and_of_matrices_of_a_warp() -> None:
    known = tracking()
    number = ir.Constant(ir.IntType(32), 7)
    for row in rows():
        given = [operand.name for operand in row.operands if operand.role is not Role.OUTPUT]
        found = known.facts(row, dict.fromkeys(given, number))
        named = {"count", "bytes", "parity", "multicast_mask", "stride"}.intersection(given)
        told = COUNTED.match(row.ptx) or row.ptx.startswith("wmma.")
        assert {name for name in found if name not in ("threads", "warps")} == (named if told else set()), row.ptx
        assert all(found[name] == 7 for name in named if told)


def test_addresses_of_shared_memory_barriers_and_numbers_with_a_rule_are_looked_at() -> None:
    for row in rows():
        expected = any(
            operand.register in SHARED or operand.name == "barrier" or (operand.rule and operand.register in NUMBERS)
            for operand in row.operands
        )
        assert is_checked(row) is expected, row.ptx


@pytest.mark.parametrize("count", range(3))
def test_one_operand_is_enough(count: int) -> None:
    for names in itertools.combinations(PARTS, count):
        for place in range(len(OTHERS) + 1):
            operands = (*OTHERS[:place], *(PARTS[name] for name in names), *OTHERS[place:])
            assert is_checked(Row("own", "own", "own", operands, Asm("own;"))) is bool(names)


@pytest.mark.parametrize(("space", "is_told"), [(0, False), (1, True)])
def test_a_map_in_memory_is_told_and_a_parameter_is_not(space: int, is_told: bool) -> None:
    known, row = tracking(), tma_tensor.load_tensor(1)
    kind = ir.IntType(8).as_pointer(space)
    function = ir.Function(ir.Module(), ir.FunctionType(kind, [kind]), "f")
    assert bool(known._map(row, {"tensor_map": function.args[0]})) is is_told


def test_the_map_is_that_at_the_address_of_a_map() -> None:
    """What publishes one has it at its destination; what releases all of them has none."""
    known = tracking()
    known.maps.facts = lambda address: {address.name: 1}  # type: ignore[method-assign]
    kind = ir.IntType(64)
    for row in rows():
        function = ir.Function(ir.Module(), ir.FunctionType(kind, [kind] * len(row.operands)), "f")
        operands = {}
        for operand, argument in zip(row.operands, function.args, strict=True):
            argument.name, operands[operand.name] = operand.name, argument
        is_map = ("tensormap" in row.ptx or ".tensor." in row.ptx) and "prefetch" not in row.ptx
        has = "tensor_map" if row.has_operand("tensor_map") else "destination" if row.has_operand("destination") else ""
        assert known._map(row, operands) == ({has: 1} if is_map and has else {}), row.ptx
        assert known._map(row, {}) == {}
