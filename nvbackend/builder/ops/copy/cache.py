"""Prefetches, eviction priorities and cache policies."""

from __future__ import annotations

from nvbackend.builder.core.instructions import issue, result
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.values.values import GLOBAL_SPACE, Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy import cache_control
from nvbackend.intrinsics.row.types import f32
from nvbackend.isel.operands.memory import check_policy_fraction
from nvbackend.isel.target.target import variant


@user_facing
class CacheControl(Noun):
    """Prefetches, eviction priorities and cache policies (PTX ISA 9.7.9)."""

    __noun__ = "cache"
    __usual__ = "prefetch"

    def policy(self, primary: str, secondary: str | None = None, *, fraction: Operand | None = None) -> Value:
        """createpolicy.fractional: a cache policy (u64): `primary` for a `fraction` of the accesses.

        Priorities are L2::evict_last, L2::evict_normal, L2::evict_first, L2::evict_unchanged; the rest of the accesses
        get `secondary`, L2::evict_unchanged or L2::evict_first. Raises cache.policy-fraction, instruction.variant.
        """
        row = variant(
            "createpolicy", cache_control.policy_fractional, primary, secondary, fraction=fraction is not None
        )
        if fraction is not None:
            fraction = as_value(self._k, fraction, f32)
            if fraction.constant is not None and not self._k.execution.is_unreached():
                check_policy_fraction(fraction.constant)
        return result(self._k, row, fraction=fraction)

    def prefetch(self, address: Address | Value, level: str = "L2", *, space: str | None = None) -> None:
        """prefetch: bring the line at `address` to "L1" or "L2", by `level`.

        "L2::evict_last" and "L2::evict_normal" are levels for global memory. A number is a generic address, or one of
        local memory with `space` "local". Raises instruction.variant. PTX ISA 9.7.9 (prefetch).
        """
        row = variant("prefetch", cache_control.prefetch, level, space or _space(address))
        issue(self._k, row, address=address)

    def prefetch_uniform(self, address: Address | Value) -> None:
        """prefetchu.L1: bring the line at the generic `address` to the uniform cache. PTX ISA 9.7.9 (prefetch)."""
        issue(self._k, cache_control.prefetch_uniform(), address=address)

    def apply_priority(self, address: Address | Value) -> None:
        """applypriority: give the line of 128 bytes at `address` the normal eviction priority (cache.line).

        PTX ISA 9.7.9 (applypriority).
        """
        issue(self._k, cache_control.apply_priority(_space(address)), address=address)

    def discard(self, address: Address | Value) -> None:
        """discard.L2: drop the line of 128 bytes at `address`; its content is undefined and is not written back.

        Raises cache.line. PTX ISA 9.7.9 (discard).
        """
        issue(self._k, cache_control.discard(_space(address)), address=address)

    def policy_of_range(
        self,
        address: Address | Value,
        primary_bytes: Operand,
        total_bytes: Operand,
        primary: str,
        secondary: str | None = None,
    ) -> Value:
        """createpolicy.range: a policy (u64): `primary` for the first bytes at `address`, `secondary` for the rest.

        It covers `total_bytes`; accesses beyond them are not affected. The priorities are those of `k.cache.policy`.
        Raises cache.policy-range, instruction.variant. PTX ISA 9.7.9 (createpolicy).
        """
        row = variant("createpolicy", cache_control.policy_range, primary, secondary, _space(address))
        return result(self._k, row, address=address, primary_bytes=primary_bytes, total_bytes=total_bytes)

    def policy_of_property(self, access_property: Operand) -> Value:
        """createpolicy.cvt: the policy (u64) of an access property (u64) of the CUDA runtime. PTX ISA 9.7.9."""
        return result(self._k, cache_control.policy_convert(), access=access_property)


def _space(address: Address | Value) -> str | None:
    """The state space of an address: global, or none for a generic address."""
    return "global" if isinstance(address, Address) and address.space == GLOBAL_SPACE else None
