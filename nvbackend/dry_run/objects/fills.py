"""What copies bring to shared memory for products, and nothing reads: a product that leaves out a part of its depth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nvbackend.diagnostics import Diagnostic
from nvbackend.dry_run import rules
from nvbackend.dry_run.order.naming import instruction
from nvbackend.dry_run.order.shared_matrix import CHUNK, ROW_BYTES
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import MachineInstr

_DEEPER = (
    "let the products read all of {memory}: advance the operand with each step along K, by a_at= or b_at= or in its "
    "descriptor, and take as many steps as the tile is deep; or copy only what they read"
)
_WHOLE = "multiply {memory}, all that is copied there, or leave the copy out"


class Fill(NamedTuple):
    """What copies of one instruction brought, each time: `bytes` of which the `unread` chunks were read by nothing.

    `unread` are their offsets as the map counts them, `by` is a product that read others, None where there is none.
    """

    name: str
    bytes: int
    unread: frozenset[int]
    by: MachineInstr | None
    barriers: frozenset[object]

    @property
    def is_unread(self) -> bool:
        """Whether nothing has read any of it."""
        return len(self.unread) * CHUNK == self.bytes


class Fills:
    """The copies of all runs of a kernel, by their instructions."""

    def __init__(self) -> None:
        self._fills: dict[int, tuple[MachineInstr, Fill]] = {}

    def note(self, fills: Iterable[tuple[MachineInstr, Fill]]) -> None:
        """The copies of one more run."""
        for instr, one in fills:
            known = self._fills.get(id(instr), (instr, one))[1]
            both = Fill(
                one.name, one.bytes, known.unread & one.unread, known.by or one.by, known.barriers | one.barriers
            )
            self._fills[id(instr)] = instr, both

    def told(self) -> Iterator[Diagnostic]:
        """What is said of copies of which each run left the same part unread, beside what products read.

        Products of a single step along K are examples, or measure something.
        """
        deep = [one for instr, one in self._fills.values() if one.by is not None and _is_deep(instr, one)]
        products = {barrier: one.by for one in deep for barrier in one.barriers}
        for instr, one in self._fills.values():
            by = next((products[barrier] for barrier in one.barriers if barrier in products), None)
            is_part = one.by is not None and _is_of_each_row(instr, one)  # of a row of scales threads may read a part
            if one.unread and by is not None and (one.is_unread or is_part):
                yield _diagnostic(instr, one, one.by or by)


def _diagnostic(instr: MachineInstr, fill: Fill, by: MachineInstr) -> Diagnostic:
    row = _row(instr, fill)
    part, fix = f"bytes {_runs(sorted({offset % row for offset in fill.unread}))} of its rows of {row} bytes", _DEEPER
    if fill.is_unread:
        part, fix = f"the {fill.bytes} bytes that it brings", _WHOLE
    return rules.COPY_UNREAD.diagnose(
        at=instr.location,
        notes=((f"{instruction(by)} reads what comes with it here", by.location),),
        instruction=instruction(instr),
        memory=fill.name,
        part=part,
        fix=fix.format(memory=fill.name),
    )


def _runs(columns: list[int]) -> str:
    """Chunks by their first bytes: "32 to 127"."""
    starts = [one for one in columns if one - CHUNK not in columns]
    ends = [one + CHUNK - 1 for one in columns if one + CHUNK not in columns]
    return " and ".join(f"{first} to {last}" for first, last in zip(starts, ends, strict=True))


def _row(instr: MachineInstr, fill: Fill) -> int:
    """The bytes of a row of the box: all of a copy that has none."""
    return instr.facts.get(facts.BOX_ROW, fill.bytes)


def _is_deep(instr: MachineInstr, fill: Fill) -> bool:
    """Whether more of a row is read than one product reads."""
    rows = max(1, fill.bytes // _row(instr, fill))
    return fill.bytes - len(fill.unread) * CHUNK > rows * ROW_BYTES


def _is_of_each_row(instr: MachineInstr, fill: Fill) -> bool:
    """Whether every row has the same chunks that nothing reads: a part of the depth, and no rows that are left over."""
    row = _row(instr, fill)
    if facts.BOX_ROW not in instr.facts or row % CHUNK or fill.bytes % row:
        return False
    columns = {offset % row for offset in fill.unread}
    return len(fill.unread) == len(columns) * (fill.bytes // row)
