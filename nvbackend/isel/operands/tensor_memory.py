"""Rules on tensor memory and its moves: what is visible at the call and neither LLVM nor ptxas tell."""

from __future__ import annotations

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.copy import tcgen05_memory

COLUMNS = Rule(
    id="tcgen05.columns",
    message="tensor memory is allocated in {legal} columns, not {given}",
    fix="use {nearest}, and what is left over for something else",
    why="ptxas refuses another constant; in a register it stops the kernel.",
    reference="PTX ISA 9.7.16.7.1 (tcgen05.alloc)",
)
READ_BEFORE_WAIT = Rule(
    id="tcgen05.read-before-wait",
    message="registers of a tcgen05.ld are read before the wait for it",
    fix="call k.tcgen05.wait_ld(...) with this load first; one wait can take several loads",
    why="The load is asynchronous: until wait::ld the registers hold what was there before, now and then.",
    reference="PTX ISA 9.7.16.8.5 (tcgen05.wait)",
)
OPERANDS = Rule(
    id="tcgen05.operands",
    message="{instruction} takes {wanted}, and was given {given}",
    fix="give exactly what the request asks for: {wanted}",
    why="An operand that the instruction has no place for is lost; one that it lacks is another address.",
    reference="PTX ISA 9.7.16.10.9 (operands of tcgen05.mma)",
)
LANES = Rule(
    id="tcgen05.lane-words",
    message="disable-output-lane of cta_group::{group} is {wanted} words, not {given}",
    fix="give {wanted} u32 values: one bit for each of the 128 lanes of each CTA",
    why="ptxas refuses another length.",
    reference="PTX ISA 9.7.16.10.9.1 (disable-output-lane)",
)
BOUNDS = Rule(
    id="tcgen05.bounds",
    message="{what} leave {name}, which has {columns} columns",
    fix="stay within the {columns} columns, or allocate more",
    why="What follows belongs to another allocation, of another CTA as well: its accumulators are overwritten.",
    reference="PTX ISA 9.7.16.1 (tensor memory), 9.7.16.7.1 (tcgen05.alloc)",
)


def check_columns(columns: int) -> None:
    """Raises tcgen05.columns unless so many columns can be allocated at once."""
    if columns not in tcgen05_memory.ALLOCATIONS or isinstance(columns, bool):
        legal = tcgen05_memory.ALLOCATIONS
        larger = [one for one in legal if one >= columns]
        COLUMNS.fail(legal=" or ".join(map(str, legal)), given=columns, nearest=min(larger or legal[-1:]))
