"""Stores and reductions that complete later: st.async, red.async (PTX ISA 9.7.9)."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.core.addresses import mbarrier_address
from nvbackend.builder.core.core import BuilderCore
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.ops.sync.cluster import Cluster
from nvbackend.builder.values.values import Operand, Value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy import async_store
from nvbackend.intrinsics.row.types import s32, u32
from nvbackend.isel.target.variants import variant

_BYTE, _HALF = ir.IntType(8), ir.IntType(16)


@user_facing
class AsyncStore(Noun):
    """Stores and reductions that complete later: st.async, red.async (PTX ISA 9.7.9)."""

    called = "async_store"

    def __init__(self, k: BuilderCore, cluster: Cluster) -> None:
        self._k = k
        self._cluster = cluster

    # -- stores into a cluster (PTX ISA 9.7.9, 9.7.13) --------------------------------------------------------------

    def store(
        self,
        destination: Address,
        values: list[Value],
        barrier: Address,
        rank: Operand,
        *,
        element: str | None = None,
    ) -> None:
        """st.async: 1, 2 or 4 values of one type (at most 16 bytes) to `destination` in the CTA of rank `rank`.

        Their bytes complete on `barrier` of that CTA. Both addresses are this CTA's own. `element` names another PTX
        type of the same width, such as "b32". Raises mbarrier.address, instruction.variant, target.feature. PTX ISA
        9.7.9 (st.async).
        """
        element = element or (str(values[0].type) if values else "nothing")
        row = variant("st.async", async_store.store, element, len(values))
        self._k.emit(row, {**self._peer(destination, barrier, rank), "values": [value.ir for value in values]})

    def reduce(self, destination: Address, operation: str, value: Value, barrier: Address, rank: Operand) -> None:
        """red.async: combine `value` with `destination` in the CTA of rank `rank`; completes on its `barrier`."""
        bitwise = async_store.REDUCED.get(operation) == ("b32",) and value.type in (s32, u32)
        row = variant("red.async", async_store.reduce, operation, "b32" if bitwise else str(value.type))
        self._k.emit(row, {**self._peer(destination, barrier, rank), "value": value.ir})

    def _peer(self, destination: Address, barrier: Address, rank: Operand) -> dict[str, ir.Value]:
        return {
            "destination": self._cluster.map_to_peer(destination.bytes, rank).ir,
            "barrier": self._cluster.map_to_peer(mbarrier_address(self._k, barrier), rank).ir,
        }

    def store_global(
        self, destination: Address, value: Value, scope: str = "gpu", *, element: str | None = None, mmio: bool = False
    ) -> None:
        """st.async: write `value` to global memory without waiting, with release semantics at `scope` (gpu, sys).

        `element` names another PTX type of the same width, such as "b32", or one of 8 bits, which is the lower half of
        a value of 16; `mmio` is for memory of devices, at sys.
        Raises instruction.variant, target.feature. PTX ISA 9.7.9 (st.async).
        """
        row = variant("st.async", async_store.store_global, element or str(value.type), scope, mmio=mmio)
        given = self._k._ir.zext(value.ir, _HALF) if value.ir.type == _BYTE else value.ir
        self._k.emit(row, {"destination": destination.bytes.ir, "value": given})
