"""An mma.sync instruction as asked for, how people write one, and the way to its row and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.mma import mma as table
from nvbackend.intrinsics.mma.form import MmaInstruction, Narrowing, narrow
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.isel.select.shapes import shape_extents


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
        return narrow(table.FORMS, self.instruction)


@user_facing
def mma(
    shape: str,
    a: ElementType,
    b: ElementType,
    d: ElementType,
    *,
    c: ElementType | None = None,
    a_layout: str = "row",
    b_layout: str = "col",
    sparsity: str | None = None,
    kind: str | None = None,
    scale: ElementType | None = None,
    scale_vec: int | None = None,
    satfinite: bool = False,
    operation: str | None = None,
    selector: int = 0,
    scale_a_at: tuple[int, int] = (0, 0),
    scale_b_at: tuple[int, int] = (0, 0),
) -> MmaRequest:
    """An mma by the name of its shape, "m16n8k16", and its element types (mma.shape for another text).

    C has D's type unless `c` says otherwise. `sparsity` is "sp" or "sp::ordered_metadata"; `kind` "f8f6f4", "mxf8f6f4",
    "mxf4" or "mxf4nvf4", of which the mx kinds have factors of type `scale`, `scale_vec` of them a row; `scale_a_at`
    and `scale_b_at` are (byte-id, thread-id). Selection tells whether it exists on a target. PTX ISA
    9.7.14.5.14, 9.7.14.6.3.
    """
    instruction = MmaInstruction(
        shape=shape_extents(shape),
        d=d,
        a=a,
        b=b,
        c=d if c is None else c,
        a_layout=a_layout,
        b_layout=b_layout,
        sparsity=sparsity,
        kind=kind,
        scale=scale,
        scale_vec=scale_vec,
        satfinite=satfinite,
        operation=operation,
    )
    return MmaRequest(instruction, selector, *scale_a_at, *scale_b_at)


def request_of(row: Row, immediates: Mapping[str, int] | None = None) -> MmaRequest:
    """The request that selects `row` of the family mma, with the instruction's `immediates` where they are known."""
    return MmaRequest(table.instruction_of(row), **(immediates or {}))


def row_of(request: MmaRequest) -> Row:
    """The row of a request that breaks no rule."""
    return table.mma(request.instruction)
