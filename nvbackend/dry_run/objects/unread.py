"""What of the copies that are in shared memory at the end of a run nothing has read.

The memory knows who wrote each byte last, and who has read it since. A copy is judged if all of its bytes are still
there; a copy of which a part was overwritten is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from nvbackend.dry_run.objects.fills import Fill
from nvbackend.dry_run.order.granules import Pages, numbers_of
from nvbackend.dry_run.order.memory import Memory
from nvbackend.dry_run.order.record import Part, Record
from nvbackend.dry_run.order.shared_matrix import CHUNK
from nvbackend.isel.machine.function import MachineInstr

_LINE = 7
"""The logarithm of the bytes of a line, by whose number swizzles move chunks."""
_MATRIX_LOADS = ("ldmatrix",)


def unread_of(memory: Memory, ctas: int) -> Iterator[tuple[MachineInstr, Fill]]:
    """The copies that are there as a whole, with what of them nothing has read."""
    for cta in range(ctas):
        for number, written, unread in memory.unread(cta):
            record = memory.records.records[number]
            if record is None or not record.engine or record.barrier is None or len(record.parts) != 1:
                continue
            part, size = record.parts[0], 1 << memory.shift(cta)
            if not isinstance(part.addresses, int) or _count(written) * size != part.size or part.size % CHUNK:
                continue
            name = memory.where(part, part.first).partition("[")[0]
            chunks = frozenset(_chunks(part, unread, size)) if unread else frozenset[int]()
            barriers = frozenset((_array(record),))
            yield part.instr, Fill(name, part.size, chunks, _product(memory, cta, written), barriers)


def _array(record: Record) -> object:
    """The mbarriers that a copy completes on, without an index."""
    return record.barrier.name.partition("[")[0]


def _count(pages: Pages) -> int:
    return sum(bits.bit_count() for bits in pages.values())


def _chunks(part: Part, unread: Pages, size: int) -> Iterator[int]:
    """The offsets of chunks of which nothing is read, as the tensor map counts them."""
    there = set(numbers_of(unread))
    each = CHUNK // size
    lines = ((part.swizzle or CHUNK) // CHUNK) - 1
    for offset in range(0, part.size, CHUNK):
        first = (part.first + offset) // size
        if all(first + at in there for at in range(each)):
            address = part.first + offset
            yield (address ^ ((address >> _LINE) & lines) * CHUNK) - part.first


def _product(memory: Memory, cta: int, written: Pages) -> MachineInstr | None:
    """A product, or a load of its fragments, that has read some of what a copy brought."""
    records = memory.records.records
    for reader in sorted(memory.readers(cta, written)):
        record = records[reader]
        for part in record.parts if record is not None else ():
            row = part.instr.row
            if part.instr.semantics.multiplies or (row is not None and row.opcode in _MATRIX_LOADS):
                return part.instr
    return None
