"""Addresses and operands as instructions take them."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address, own
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.scaling import GLOBAL_SPACE
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.intrinsics.copy.cache_control import LINE_BYTES
from nvbackend.intrinsics.row.types import u64
from nvbackend.isel.operands import memory as memory_operands
from nvbackend.isel.protocols.cluster.rules import RANK

MBARRIER_BYTES = 8


def mbarrier_address(k: Core, barrier: Address) -> Value:
    """The shared address of an mbarrier. Raises mbarrier.address where it cannot be one."""
    check_barrier(barrier)
    return own(k, barrier).bytes


def check_barrier(address: Address, instruction: str = "") -> None:  # noqa: ARG001
    """Raises mbarrier.address where no mbarrier can be."""
    if address.space == GLOBAL_SPACE or address.align % MBARRIER_BYTES:
        rules.MBARRIER_ADDRESS.fail(given=address, bytes=MBARRIER_BYTES)


def check_line(address: Address, instruction: str) -> None:
    """Raises cache.line unless the address is known to be one of a whole line."""
    memory_operands.check_line(instruction, address.align, address.how_to_align(LINE_BYTES))


def cache_hint(k: Core, cache_policy: Value | None) -> dict[str, ir.Value]:
    """The operand that a cache policy is; none where there is none."""
    return {} if cache_policy is None else {"cache_policy": as_value(k, cache_policy, u64).ir}


def any_address(k: Core, address: Address | Value) -> ir.Value:
    """The shared address that an Address is, or a generic one (u64)."""
    return address.bytes.ir if isinstance(address, Address) else as_value(k, address, u64).ir


def known_rank(k: Core, rank: Operand) -> int | None:
    """The rank, where it is a constant. Raises cluster.rank where the cluster has no such CTA."""
    number = rank if isinstance(rank, int) else getattr(rank, "constant", None)
    if isinstance(number, int) and not 0 <= number < k.cluster_size:
        legal = "0" if k.cluster_size == 1 else f"0 to {k.cluster_size - 1}"
        if k.cluster_size == 1 and number > 0:
            legal += f", or declare the cluster where the kernel is made: cluster={number + 1}"
        RANK.fail(rank=number, cluster=k.cluster_size, legal=legal)
    return number if isinstance(number, int) else None
