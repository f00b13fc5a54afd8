"""Barriers by a generic address: in a cluster, the CTAs that are reached by it are known as by a shared address."""

from __future__ import annotations

import pytest
from llvmlite import ir

from nvbackend import u64
from nvbackend.builder.core.memory import Address
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.spellings import other_spellings
from nvbackend.intrinsics.sync import mbarrier
from nvbackend.isel.machine.function import Reach


def generic(k: KernelBuilder, address: Address) -> ir.Value:
    return k.core.llvm.addrspacecast(address.pointer(), ir.PointerType())


def reach_of(k: KernelBuilder) -> Reach:
    *_, last = k.machine.instructions()
    assert last.reach is not None
    return last.reach


@pytest.mark.parametrize("by_number", [False, True])
@pytest.mark.parametrize("mask", [None, 1, 2, 3])
def test_a_commit_reaches_the_ctas_of_its_mask_or_its_own(by_number: bool, mask: int | None) -> None:
    k = KernelBuilder("commits", "sm_100a", threads=128, cluster=2)
    barrier = k.shared(u64, 1)
    with k.if_(k.thread_id() == 0):
        number = k.value(k.core.llvm.ptrtoint(generic(k, barrier), ir.IntType(64)), u64)
        k.tcgen05.commit(number if by_number else barrier, multicast_mask=mask)
        found = reach_of(k)
    assert found.threads == (1, 1)
    assert found.targets == found.certain == ((1, 2) if mask is None else (mask, mask))


@pytest.mark.parametrize("row", [mbarrier.arrive("cta"), mbarrier.inval()], ids=lambda row: row.ptx)
def test_an_instruction_on_a_generic_address_reaches_its_own_cta(row: Row) -> None:
    other = next(one for one in other_spellings(row) if one.operand("barrier").register is RegisterClass.GENERIC)
    k = KernelBuilder("arrives", "sm_90a", threads=128, cluster=4)
    count = {"count": ir.Constant(ir.IntType(32), 1)} if other.has_operand("count") else {}
    k.core.emit(other, {"barrier": generic(k, k.shared(u64, 1)), **count})
    assert reach_of(k).targets == (1, 2, 4, 8)
