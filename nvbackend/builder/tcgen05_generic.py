"""tcgen05 operations through generic addresses of shared memory, for code that holds no others."""

from __future__ import annotations

from nvbackend.builder.threads import Threads
from nvbackend.builder.values import Operand, Value, as_value
from nvbackend.intrinsics import tcgen05_memory
from nvbackend.intrinsics.types import u16, u64
from nvbackend.isel.families import tcgen05_memory_rules as memory_rules
from nvbackend.isel.variants import variant


class GenericTensorMemory(Threads):
    """Calls as of `TensorMemory`, whose shared address is a generic one as a number (u64)."""

    def tcgen05_alloc_generic(self, cell: Value, columns: int, *, cta_group: int = 1) -> None:
        """Allocate `columns` (32 to 512, a power of two) of tensor memory; its address (u32) is written to `cell`.

        A whole warp executes it. Raises tcgen05.columns, instruction.variant, target.feature. PTX ISA 9.7.16.7.1.
        """
        memory_rules.check_columns(columns)
        row = variant("tcgen05.alloc", tcgen05_memory.alloc_generic, cta_group)
        self.emit(row, {"address": as_value(self, cell, u64).ir, "columns": columns})

    def tcgen05_commit_generic(
        self, barrier: Value, *, cta_group: int = 1, multicast_mask: Operand | None = None
    ) -> None:
        """Let the mbarrier at `barrier` get one arrival when this thread's tcgen05 operations so far are done.

        With `multicast_mask` (u16, a bit for each CTA) in each of those CTAs of the cluster. Raises
        instruction.variant, target.feature. PTX ISA 9.7.16.12.1.
        """
        many = multicast_mask is not None
        row = variant("tcgen05.commit", tcgen05_memory.commit, cta_group, multicast=many, space=None)
        mask = {} if multicast_mask is None else {"multicast_mask": as_value(self, multicast_mask, u16).ir}
        self.emit(row, {"barrier": as_value(self, barrier, u64).ir, **mask})
