"""Addresses of every kind reach the operand's address space, whichever way the row lowers."""

from __future__ import annotations

import re

import pytest
from llvmlite import ir

from nvbackend.builder.lower.lowering import lower
from nvbackend.intrinsics.copy import tensormap, tma_tensor
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.isel.target.target import Target
from tests.support.ptxas import assemble
from tests.support.rows import compile_batch

GENERIC, GLOBAL, SHARED = 0, 1, 3
I32 = ir.IntType(32)


def _ptx(row: Row, addresses: dict[str, ir.Type], constants: dict[str, int], times: int = 1) -> str:
    """The PTX of a kernel that gets `addresses` as parameters and passes them to `row`, `times` times."""
    module = ir.Module(name="addresses")
    module.triple = "nvptx64-nvidia-cuda"
    kernel = ir.Function(module, ir.FunctionType(ir.VoidType(), list(addresses.values())), "kernel")
    kernel.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(kernel.append_basic_block())
    for _ in range(times):
        lower(builder, row, {**dict(zip(addresses, kernel.args, strict=True)), **constants})
    builder.ret_void()
    (compiled,) = compile_batch([(str(module), Target.parse("sm_90"))])
    assert compiled.error == ""
    return compiled.ptx


@pytest.mark.parametrize(
    ("row", "name", "instruction"),
    [
        (mbarrier.arrive("cluster"), "barrier", r"mbarrier\.arrive\.shared::cluster\.b64 _, \[%r\d+\]"),
        (mbarrier.inval(), "barrier", r"mbarrier\.inval\.shared\.b64 \s*\[%rd\d+\]"),
    ],
)
def test_a_shared_pointer_needs_no_conversion(row: Row, name: str, instruction: str) -> None:
    ptx = _ptx(row, {name: ir.PointerType(addrspace=SHARED)}, {})
    assert re.search(instruction, ptx)
    assert "cvta" not in ptx


def test_a_shared_pointer_is_a_cluster_address_without_a_detour() -> None:
    """LLVM's own addrspacecast would go through a generic address: two cvta."""
    pointers: dict[str, ir.Type] = {
        "destination": ir.PointerType(addrspace=SHARED),
        "barrier": ir.PointerType(addrspace=SHARED),
        "tensor_map": ir.PointerType(),
    }
    ptx = _ptx(tma_tensor.load_tensor(1), pointers, {"coordinates": 0})
    assert "cp.async.bulk.tensor.1d.shared::cluster" in ptx
    assert "cvta.shared" not in ptx
    assert "cvta.to.shared" not in ptx


@pytest.mark.parametrize("row", [mbarrier.inval(), mbarrier.arrive()], ids=["intrinsic", "asm"])
def test_a_generic_pointer_is_converted_to_shared(row: Row) -> None:
    assert "cvta.to.shared.u64" in _ptx(row, {"barrier": ir.PointerType(addrspace=GENERIC)}, {})


@pytest.mark.parametrize("row", [mbarrier.inval(), mbarrier.arrive()], ids=["intrinsic", "asm"])
def test_a_number_is_taken_as_the_address_it_is(row: Row) -> None:
    ptx = _ptx(row, {"barrier": I32}, {})
    assert "cvta" not in ptx


def test_a_generic_tensor_map_stays_generic() -> None:
    ptx = _ptx(tensormap.prefetch(), {"tensor_map": ir.PointerType(addrspace=GLOBAL)}, {})
    assert "cvta.global.u64" in ptx


def test_the_labels_of_two_waits_do_not_meet() -> None:
    ptx = _ptx(mbarrier.wait_parity(), {"barrier": I32}, {"parity": 0}, times=2)
    assert ptx.count(mbarrier.wait_parity().ptx) == 2
    fine, said = assemble(ptx, "sm_90")
    assert fine, said
