"""Prefetches, eviction priorities and cache policies."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.core.addresses import any_address
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.values.scaling import GLOBAL_SPACE
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy import cache_control
from nvbackend.intrinsics.row.types import f32, s32, u64
from nvbackend.isel.select import memory_rules
from nvbackend.isel.target.variants import variant


@user_facing
class Cache(Noun):
    """Prefetches, eviction priorities and cache policies (PTX ISA 9.7.9)."""

    __noun__ = "cache"

    def __init__(self, k: Core) -> None:
        self._k = k

    # -- caches (PTX ISA 9.7.9) -------------------------------------------------------------------------------------

    def policy(self, primary: str, secondary: str | None = None, *, fraction: Operand | None = None) -> Value:
        """createpolicy.fractional: a policy (u64) for cache hints: `primary` for a `fraction` of the accesses.

        Priorities are L2::evict_last, L2::evict_normal, L2::evict_first, L2::evict_unchanged; the rest of the accesses
        get `secondary`, L2::evict_unchanged or L2::evict_first.
        """
        row = variant(
            "createpolicy", cache_control.policy_fractional, primary, secondary, fraction=fraction is not None
        )
        given = {} if fraction is None else {"fraction": as_value(self._k, fraction, f32).ir}
        return self._k.wrap(self._k.emit(row, given)["policy"][0], u64)

    def prefetch(self, address: Address | Value, level: str = "L2", *, space: str | None = None) -> None:
        """prefetch: bring the line at `address` to "L1" or "L2", or "L2::evict_last", "L2::evict_normal" of global.

        A number is a generic address, or one of local memory with `space` "local". Raises instruction.variant.
        PTX ISA 9.7.9 (prefetch).
        """
        row = variant("prefetch", cache_control.prefetch, level, space or _space(address))
        self._k.emit(row, {"address": any_address(self._k, address)})

    def prefetch_uniform(self, address: Address | Value) -> None:
        """prefetchu.L1: bring the line at the generic `address` to the uniform cache. PTX ISA 9.7.9 (prefetch)."""
        self._k.emit(cache_control.prefetch_uniform(), {"address": any_address(self._k, address)})

    def apply_priority(self, address: Address | Value) -> None:
        """applypriority: the line of 128 bytes at `address` gets the normal eviction priority (cache.line).

        PTX ISA 9.7.9 (applypriority).
        """
        row = cache_control.apply_priority(_space(address))
        self._k.emit(row, {"address": self._line(row.ptx, address)})

    def discard(self, address: Address | Value) -> None:
        """discard.L2: the line of 128 bytes at `address` is undefined from here on and is not written back.

        Raises cache.line. PTX ISA 9.7.9 (discard).
        """
        row = cache_control.discard(_space(address))
        self._k.emit(row, {"address": self._line(row.ptx, address)})

    def _line(self, instruction: str, address: Address | Value) -> ir.Value:
        if isinstance(address, Address):
            memory_rules.check_line(instruction, address.align, address.how_to_align(cache_control.LINE_BYTES))
        return any_address(self._k, address)

    def policy_of_range(
        self,
        address: Address | Value,
        primary_bytes: Operand,
        total_bytes: Operand,
        primary: str,
        secondary: str | None = None,
    ) -> Value:
        """createpolicy.range: a policy (u64): `primary` for the first bytes at `address`, `secondary` for the rest.

        Of `total_bytes` in all; what lies beyond is not influenced. Priorities as of `k.cache.policy`. Raises
        cache.policy-range, instruction.variant. PTX ISA 9.7.9 (createpolicy).
        """
        row = variant("createpolicy", cache_control.policy_range, primary, secondary, _space(address))
        first, whole = as_value(self._k, primary_bytes, s32), as_value(self._k, total_bytes, s32)
        if isinstance(first.constant, int) and isinstance(whole.constant, int):
            memory_rules.check_policy_range(first.constant, whole.constant)
        given = {"address": any_address(self._k, address), "primary_bytes": first.ir, "total_bytes": whole.ir}
        return self._k.wrap(self._k.emit(row, given)["policy"][0], u64)

    def policy_of_property(self, access_property: Operand) -> Value:
        """createpolicy.cvt: the policy (u64) of an access property (u64) of the CUDA runtime. PTX ISA 9.7.9."""
        row = cache_control.policy_convert()
        return self._k.wrap(self._k.emit(row, {"access": as_value(self._k, access_property, u64).ir})["policy"][0], u64)


def _space(address: Address | Value) -> str | None:
    """The state space that an address says it is in: global, or none of a generic address."""
    return "global" if isinstance(address, Address) and address.space == GLOBAL_SPACE else None
