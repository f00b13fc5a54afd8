"""Over which threads the result of an instruction is the same: as that of its operands, or as who takes part."""

from __future__ import annotations

from typing import Any

import pytest

from nvbackend import u16, u32, u64
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.arithmetic import integers
from nvbackend.intrinsics.row.row import RegisterClass, Role, Row
from nvbackend.intrinsics.row.semantics import Scope
from nvbackend.intrinsics.sync import barriers, special_registers
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


AXES = ("x", "y", "z")
SCOPES: dict[str, tuple[Scope, Scope]] = {
    "laneid": (Scope.THREAD, Scope.THREAD),
    "tid.x": (Scope.THREAD, Scope.THREAD),
    **{f"tid.{axis}": (Scope.GRID, Scope.GRID) for axis in AXES[1:]},
    **{f"lanemask_{which}": (Scope.THREAD, Scope.THREAD) for which in ("eq", "le", "lt", "ge", "gt")},
    **{f"{name}.{axis}": (Scope.CTA, Scope.CTA) for name in ("ctaid", "cluster_ctaid") for axis in AXES},
    "cluster_ctarank": (Scope.CTA, Scope.CTA),
    **{f"clusterid.{axis}": (Scope.CLUSTER, Scope.CLUSTER) for axis in AXES},
    **{
        f"{name}.{axis}": (Scope.GRID, Scope.GRID)
        for name in ("ntid", "nctaid", "nclusterid", "cluster_nctaid")
        for axis in AXES
    },
    "cluster_nctarank": (Scope.GRID, Scope.GRID),
    "smid": (Scope.THREAD, Scope.CTA),
    **dict.fromkeys(("warpid", "clock", "clock64", "clock_hi", "globaltimer"), (Scope.THREAD, Scope.WARP)),
    **{f"pm{number}": (Scope.THREAD, Scope.WARP) for number in range(8)},
    **dict.fromkeys(("nsmid", "nwarpid", "gridid", "envreg0", "total_smem_size"), (Scope.THREAD, Scope.GRID)),
}
"""Over which threads special registers are the same (PTX ISA 10), and over which nothing shows that they differ."""


@pytest.mark.parametrize("register", SCOPES)
def test_special_registers_in_a_row_of_threads(register: str) -> None:
    """In clusters of a size that is not known; of threads in one row, so that there is one place along the others."""
    k = builder()
    (value,) = k.core.emit(special_registers.special_register(register), {}).values()
    known = k.core.execution.known(value[0])
    assert (known.certain, known.apparent) == SCOPES[register]


def test_what_a_row_computes_is_found_by_its_asm() -> None:
    """Most functions have no such row: the table of them all is made where an opcode is among theirs."""
    computing = integers.computing()
    assert {asm: integers.function_of(asm) for asm in computing} == computing
    assert integers.function_of("mov.u32 {result}, {a};") is None
