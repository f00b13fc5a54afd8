"""Addresses and operands as instructions take them."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.ops.memory import Address
from nvbackend.builder.ops.threads import Threads
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.scaling import GLOBAL_SPACE
from nvbackend.builder.values.values import Value, as_value
from nvbackend.intrinsics.row.types import u64

MBARRIER_BYTES = 8


def mbarrier_address(k: Threads, barrier: Address) -> Value:
    """The shared address of an mbarrier. Raises mbarrier.address where it can not be one."""
    if barrier.space == GLOBAL_SPACE or barrier.align % MBARRIER_BYTES:
        rules.MBARRIER_ADDRESS.fail(given=barrier, bytes=MBARRIER_BYTES)
    return k._own(barrier).bytes


def cache_hint(k: Threads, cache_policy: Value | None) -> dict[str, ir.Value]:
    return {} if cache_policy is None else {"cache_policy": as_value(k, cache_policy, u64).ir}


def any_address(k: Threads, address: Address | Value) -> ir.Value:
    return address.bytes.ir if isinstance(address, Address) else as_value(k, address, u64).ir
