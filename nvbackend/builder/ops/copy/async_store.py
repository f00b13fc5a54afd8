"""Stores and reductions that complete later: st.async, red.async."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.instructions import issue, mbarrier_address
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.ops.sync.cluster import Cluster, at_peer
from nvbackend.builder.values.values import GLOBAL_SPACE, Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy import async_store
from nvbackend.intrinsics.row.types import s32, u32
from nvbackend.isel.target.target import VARIANT, variant

_BYTE, _HALF = ir.IntType(8), ir.IntType(16)


@user_facing
class AsyncStore(Noun):
    """Stores and reductions that complete later: st.async, red.async (PTX ISA 9.7.9)."""

    __noun__ = "async_store"
    __usual__ = "store"

    def __init__(self, k: Core, cluster: Cluster) -> None:
        super().__init__(k)
        self._cluster = cluster

    def store(
        self,
        destination: Address,
        values: Value | Sequence[Value],
        barrier: Address | None = None,
        rank: Operand | None = None,
        *,
        element: str | None = None,
        scope: str | None = None,
        mmio: bool = False,
    ) -> None:
        """st.async: write `values` to `destination`, in a CTA of the cluster or in global memory, and do not wait.

        Shared: 1, 2 or 4 values of one type (at most 16 bytes) go to the CTA of rank `rank`, and their bytes complete
        on `barrier` of that CTA; both addresses are this CTA's own. Global: one value, released at `scope` (gpu, the
        default, or sys); `mmio` is for device memory, at sys. `element` names another PTX type of the same width, such
        as "b32", or in global memory one of 8 bits, the lower half of a value of 16. Raises mbarrier.address,
        instruction.variant, target.feature. PTX ISA 9.7.9 (st.async).
        """
        several = [as_value(self._k, value) for value in (values if isinstance(values, Sequence) else [values])]
        element = element or (str(several[0].type) if several else "nothing")
        if destination.space == GLOBAL_SPACE:
            _check_global(several, barrier, rank)
            row = variant("st.async", async_store.store_global, element, scope or "gpu", mmio=mmio)
            (value,) = several
            bits = self._k.llvm.zext(value.ir, _HALF) if value.ir.type == _BYTE else value.ir
            issue(self._k, row, destination=destination, value=bits)
            return
        if barrier is None or rank is None or scope is not None or mmio:
            reason = "a store to shared memory takes barrier= and rank=, and no scope= and mmio="
            VARIANT.fail(instruction="st.async", reason=reason)
        row = variant("st.async", async_store.store, element, len(several))
        issue(self._k, row, **self._peer(destination, barrier, rank), values=[value.ir for value in several])

    def reduce(self, destination: Address, operation: str, value: Value, barrier: Address, rank: Operand) -> None:
        """red.async: combine an integer with `destination` in the CTA of rank `rank`; completes on its `barrier`."""
        bitwise = async_store.REDUCED.get(operation) == ("b32",) and value.type in (s32, u32)
        row = variant("red.async", async_store.reduce, operation, "b32" if bitwise else str(value.type))
        issue(self._k, row, **self._peer(destination, barrier, rank), value=value.ir)

    def _peer(self, destination: Address, barrier: Address, rank: Operand) -> dict[str, ir.Value]:
        return at_peer(self._cluster, destination.bytes, mbarrier_address(self._k, barrier), rank)


def _check_global(values: Sequence[Value], barrier: Address | None, rank: Operand | None) -> None:
    """Raises instruction.variant for what only stores to shared memory have."""
    if len(values) != 1 or barrier is not None or rank is not None:
        reason = f"a store to global memory takes one value, not {len(values)}, and no barrier= and rank="
        VARIANT.fail(instruction="st.async", reason=reason)
