"""Caches and memory one instruction a call: priorities, policies, clearing, stores without waiting, and packing."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.memory import Address
from nvbackend.builder.scaling import GLOBAL_SPACE
from nvbackend.builder.threads import Threads
from nvbackend.builder.values import Operand, Value, as_value
from nvbackend.intrinsics import async_store, cache_control, matrix_move, tensormap
from nvbackend.intrinsics.row import RegisterClass
from nvbackend.intrinsics.types import f32, s32, u16, u32, u64
from nvbackend.isel.families import memory_rules
from nvbackend.isel.variants import variant

_BYTE, _HALF = ir.IntType(8), ir.IntType(16)


def _space(address: Address | Value) -> str | None:
    """The state space that an address says it is in: global, or none of a generic address."""
    return "global" if isinstance(address, Address) and address.space == GLOBAL_SPACE else None


class Caches(Threads):
    """Single instructions on caches and memory (PTX ISA 9.7.9).

    An address is one in global memory, or a generic one as a number (u64).
    """

    def _address(self, address: Address | Value) -> ir.Value:
        return address.bytes.ir if isinstance(address, Address) else as_value(self, address, u64).ir

    def prefetch_line(self, address: Address | Value, level: str = "L2", *, space: str | None = None) -> None:
        """prefetch: bring the line at `address` to "L1" or "L2", or "L2::evict_last", "L2::evict_normal" of global.

        A number is a generic address, or one of local memory with `space` "local". Raises instruction.variant.
        PTX ISA 9.7.9 (prefetch).
        """
        row = variant("prefetch", cache_control.prefetch, level, space or _space(address))
        self.emit(row, {"address": self._address(address)})

    def prefetch_uniform(self, address: Address | Value) -> None:
        """prefetchu.L1: bring the line at the generic `address` to the uniform cache. PTX ISA 9.7.9 (prefetch)."""
        self.emit(cache_control.prefetch_uniform(), {"address": self._address(address)})

    def apply_priority(self, address: Address | Value) -> None:
        """applypriority: the line of 128 bytes at `address` gets the normal eviction priority (cache.line).

        PTX ISA 9.7.9 (applypriority).
        """
        row = cache_control.apply_priority(_space(address))
        self.emit(row, {"address": self._line(row.ptx, address)})

    def discard(self, address: Address | Value) -> None:
        """discard.L2: the line of 128 bytes at `address` is undefined from here on and is not written back.

        Raises cache.line. PTX ISA 9.7.9 (discard).
        """
        row = cache_control.discard(_space(address))
        self.emit(row, {"address": self._line(row.ptx, address)})

    def _line(self, instruction: str, address: Address | Value) -> ir.Value:
        if isinstance(address, Address):
            memory_rules.check_line(instruction, address.align, address.how_to_align(cache_control.LINE_BYTES))
        return self._address(address)

    def cache_policy_of_range(
        self,
        address: Address | Value,
        primary_bytes: Operand,
        total_bytes: Operand,
        primary: str,
        secondary: str | None = None,
    ) -> Value:
        """createpolicy.range: a policy (u64): `primary` for the first bytes at `address`, `secondary` for the rest.

        Of `total_bytes` in all; what lies beyond is not influenced. Priorities as of `cache_policy`. Raises
        cache.policy-range, instruction.variant. PTX ISA 9.7.9 (createpolicy).
        """
        row = variant("createpolicy", cache_control.policy_range, primary, secondary, _space(address))
        first, whole = as_value(self, primary_bytes, s32), as_value(self, total_bytes, s32)
        if isinstance(first.constant, int) and isinstance(whole.constant, int):
            memory_rules.check_policy_range(first.constant, whole.constant)
        given = {"address": self._address(address), "primary_bytes": first.ir, "total_bytes": whole.ir}
        return self._wrap(self.emit(row, given)["policy"][0], u64)

    def cache_policy_of_property(self, access_property: Operand) -> Value:
        """createpolicy.cvt: the policy (u64) of an access property (u64) of the CUDA runtime. PTX ISA 9.7.9."""
        row = cache_control.policy_convert()
        return self._wrap(self.emit(row, {"access": as_value(self, access_property, u64).ir})["policy"][0], u64)

    def clear_shared(self, address: Address | Value, size: Operand) -> None:
        """st.bulk: write zeros to `size` bytes (a multiple of 8) of shared memory, 8-byte aligned.

        `address` may be a generic one (u64) of shared memory. Raises cache.cleared, target.feature.
        PTX ISA 9.7.9 (st.bulk).
        """
        count = as_value(self, size, u64)
        if isinstance(count.constant, int):
            known = address.align if isinstance(address, Address) else memory_rules.CLEARED_UNIT
            memory_rules.check_cleared(count.constant, known)
        row = cache_control.clear_bulk(shared=isinstance(address, Address))
        self.emit(row, {"address": self._address(address), "bytes": count.ir})

    def store_async_global(
        self, destination: Address, value: Value, scope: str = "gpu", *, element: str | None = None, mmio: bool = False
    ) -> None:
        """st.async: write `value` to global memory without waiting, with release semantics at `scope` (gpu, sys).

        `element` names another PTX type of the same width, such as "b32", or one of 8 bits, which is the lower half of
        a value of 16; `mmio` is for memory of devices, at sys.
        Raises instruction.variant, target.feature. PTX ISA 9.7.9 (st.async).
        """
        row = variant("st.async", async_store.store_global, element or str(value.type), scope, mmio=mmio)
        given = self._ir.zext(value.ir, _HALF) if value.ir.type == _BYTE else value.ir
        self.emit(row, {"destination": destination.bytes.ir, "value": given})

    def prefetch_tensor_map(self, address: Value, *, space: str | None = None) -> None:
        """prefetch.tensormap: bring a tensor map near, at a generic address (u64) or one of `space` "const".

        Raises instruction.variant, target.feature. PTX ISA 9.7.9 (prefetch).
        """
        row = variant("prefetch.tensormap", tensormap.prefetch, space)
        self.emit(row, {"tensor_map": as_value(self, address, u64).ir})

    # -- packing (PTX ISA 9.7.9) ------------------------------------------------------------------------------------

    def pack_pair(self, pair: str, high: Operand, low: Operand, *, relu: bool = False) -> Value:
        """cvt.rn: two f32 to a pair ("f16x2", "bf16x2": u32; "e4m3x2", "e5m2x2": u16), `low` in the lower half.

        `relu` makes negative values zero. Raises instruction.variant, target.feature. PTX ISA 9.7.9 (cvt).
        """
        row = variant("cvt", matrix_move.pack, pair, relu)
        operands = {"high": as_value(self, high, f32).ir, "low": as_value(self, low, f32).ir}
        kind = u16 if row.operand("packed").register is RegisterClass.B16 else u32
        return self._wrap(self.emit(row, operands)["packed"][0], kind)

    def permute_bytes(self, low: Operand, high: Operand, selector: Operand) -> Value:
        """prmt: four bytes (u32) out of `low` (bytes 0 to 3) and `high` (4 to 7), picked by the nibbles of `selector`.

        Bit 3 of a nibble replicates the byte's sign. PTX ISA 9.7.9 (prmt).
        """
        given = {"low": low, "high": high, "selector": selector}
        operands = {name: as_value(self, one, u32).ir for name, one in given.items()}
        return self._wrap(self.emit(matrix_move.prmt(), operands)["bytes"][0], u32)
