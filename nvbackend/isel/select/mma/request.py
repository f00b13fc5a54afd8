"""An mma.sync instruction as asked for, how people write one, and the way to its row and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.mma.form import MmaInstruction, Narrowing, narrow
from nvbackend.intrinsics.row.row import Row


@user_facing
@dataclass(frozen=True)
class MmaRequest:
    """One mma with its immediates: the sparsity selector, and which bytes of which threads are scale factors.

    Nothing is checked here: `select_mma` does.
    """

    instruction: MmaInstruction
    selector: int = 0
    byte_id_a: int = 0
    thread_id_a: int = 0
    byte_id_b: int = 0
    thread_id_b: int = 0

    @cached_property
    def narrowed(self) -> Narrowing:
        """How the legal forms narrow to the instruction's."""
        from nvbackend.intrinsics.mma import mma

        return narrow(mma.FORMS, self.instruction)


def request_of(row: Row, immediates: Mapping[str, int] | None = None) -> MmaRequest:
    """The request that selects `row` of the family mma, with the instruction's `immediates` where they are known."""
    from nvbackend.intrinsics.mma import mma

    return MmaRequest(mma.instruction_of(row), **(immediates or {}))
