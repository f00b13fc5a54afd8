"""Addresses and operands as instructions take them."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address, own
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.scaling import GLOBAL_SPACE
from nvbackend.builder.values.values import Value, as_value
from nvbackend.intrinsics.row.types import u64

MBARRIER_BYTES = 8


def mbarrier_address(k: Core, barrier: Address) -> Value:
    """The shared address of an mbarrier. Raises mbarrier.address where it cannot be one."""
    if barrier.space == GLOBAL_SPACE or barrier.align % MBARRIER_BYTES:
        rules.MBARRIER_ADDRESS.fail(given=barrier, bytes=MBARRIER_BYTES)
    return own(k, barrier).bytes


def cache_hint(k: Core, cache_policy: Value | None) -> dict[str, ir.Value]:
    """The operand that a cache policy is; none where there is none."""
    return {} if cache_policy is None else {"cache_policy": as_value(k, cache_policy, u64).ir}


def any_address(k: Core, address: Address | Value) -> ir.Value:
    """The shared address that an Address is, or a generic one (u64)."""
    return address.bytes.ir if isinstance(address, Address) else as_value(k, address, u64).ir
