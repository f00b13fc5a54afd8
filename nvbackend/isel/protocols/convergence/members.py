"""Lanes that an instruction names as taking part in it, and that never come to it."""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.intrinsics.sync.warp import ALL_LANES
from nvbackend.isel.flow.paths import coming, thread_count
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.operands.memory import MEMBERS

MASKS = ("members", "mask")
"""Operands that say which lanes take part."""


def check_members(function: MachineFunction) -> list[Diagnostic]:
    """Every constant mask with a lane that a branch keeps away, in each warp that may come.

    Where it is known which threads come, the call raises this itself; here data decides whether any do. Masks of all
    lanes belong to convergence.warp.
    """
    masked = [
        (name, instr, mask)
        for name, block in function.blocks.items()
        for instr in block.instructions
        if (mask := _mask(instr)) is not None
    ]
    if not masked or not thread_count(function):
        return []
    come = coming(function)
    return [
        MEMBERS.diagnose(
            at=instr.location,
            instruction=instr.opcode if instr.row is None else instr.row.ptx,
            lane=lane,
            problem="never comes here, and is among",
            members=f"{mask:#x}",
        )
        for name, instr, mask in masked
        if (lane := _kept_away(come[name], mask)) is not None
    ]


def _mask(instr: MachineInstr) -> int | None:
    """The lanes that it names, where they are a number, and not all."""
    if instr.row is None:
        return None
    for name in MASKS:
        digits = instr.operands.get(name)
        if digits is not None and digits.isdigit() and int(digits) < ALL_LANES:
            return int(digits)
    return None


def _kept_away(come: int, mask: int) -> int | None:
    """The first lane of the mask that a warp lacks, where every warp that comes lacks one; else None."""
    missing = [mask & ~lanes for lanes in _warps(come) if lanes]
    if not missing or not all(missing):
        return None
    lane = missing[0]
    return (lane ^ lane - 1).bit_length() - 1


def _warps(threads: int) -> Iterator[int]:
    while threads:
        yield threads & ALL_LANES
        threads >>= WARP_SIZE
