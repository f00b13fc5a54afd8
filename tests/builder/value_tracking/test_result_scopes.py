"""Over which threads the result of an instruction is the same: as that of its operands, or as who takes part."""

from __future__ import annotations

from typing import Any

import pytest

from nvbackend import u16, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.arithmetic import integers
from nvbackend.intrinsics.row.row import RegisterClass, Role, Row
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.intrinsics.sync import barriers
from nvbackend.signature import Parameter, Pointer, Scalar

OPERANDS = {
    "a parameter": (lambda k, n, x: n, (Scope.GRID, Scope.GRID)),
    "of the CTA": (lambda k, n, x: n + k.block_id().to(u32), (Scope.CTA, Scope.CTA)),
    "of the warp": (lambda k, n, x: n + (k.thread_id() // 32).to(u32), (Scope.WARP, Scope.WARP)),
    "of the thread": (lambda k, n, x: n + k.thread_id().to(u32), (Scope.THREAD, Scope.THREAD)),
    "loaded": (lambda k, n, x: x[0], (Scope.THREAD, Scope.GRID)),
}
WIDTHS = {RegisterClass.B16: u16, RegisterClass.B32: u32, RegisterClass.B64: u64}
COMPUTING = {row.asm: row for row in integers.rows() if row.semantics.computes is not None}


def builder() -> KernelBuilder:
    parameters = [Parameter("n", Scalar(u32)), Parameter("x", Pointer(u32))]
    return KernelBuilder("scopes", "sm_90a", threads=128, parameters=parameters)


def test_every_computing_instruction_is_tried() -> None:
    assert {*COMPUTING} == {*integers.computing()}


def scopes_of(k: KernelBuilder, row: Row, operands: dict[str, Any]) -> tuple[Scope, Scope]:
    (value,) = k.core.emit(row, operands)["result"]
    known = k.core.execution.known(value)
    return known.certain, known.apparent


@pytest.mark.parametrize("name", OPERANDS)
def test_what_computes_is_as_its_operands(name: str) -> None:
    """Whichever of them is not a constant; the others are 1."""
    make, expected = OPERANDS[name]
    for row in COMPUTING.values():
        for varied in row.inputs:
            k = builder()
            value = make(k, *k.arguments).to(WIDTHS[varied.register]).ir
            operands = {one.name: value if one is varied else 1 for one in row.operands if one.role is not Role.OUTPUT}
            assert scopes_of(k, row, operands) == expected, (row.ptx, varied.name)


@pytest.mark.parametrize(("mask", "is_known"), [(-1, True), (0xFFFFFFFF, True), (0xFFFF, False), (1, False)])
def test_an_elected_thread(mask: int, is_known: bool) -> None:
    """Of all lanes the leader is known to be one of the warp's; of some of them, it is one for those at most."""
    k = builder()
    leader, elected = [
        k.core.execution.known(each[0]) for each in k.core.emit(barriers.elect(), {"mask": mask}).values()
    ]
    assert (leader.apparent, elected.apparent) == (Scope.WARP, Scope.THREAD)
    assert leader.is_whole is elected.is_whole is is_known
    assert leader.certain is (Scope.WARP if is_known else Scope.THREAD)
    assert elected.certain is Scope.THREAD
