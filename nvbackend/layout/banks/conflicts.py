"""Bank conflicts of shared-memory accesses, computed from the addresses that a warp's threads give.

Shared memory lies in 32 banks, four bytes wide: word w is in bank w % 32. A wavefront reads one word of each bank, for
every thread that wants it. A warp's access of 8 bytes a thread is two accesses of half-warps, one of 16 bytes four of
quarter-warps, and ldmatrix one of eight rows for each matrix: two words that lie in one bank conflict where threads of
one phase want them. CUDA C++ Programming Guide, shared memory (compute capability 5.x and later).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nvbackend.diagnostics import Rule, missing_name, record, user_facing
from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy.load_store import ACCESS_BYTES
from nvbackend.intrinsics.copy.matrix_move import ROW_BYTES
from nvbackend.intrinsics.copy.matrix_move import ROWS as MATRIX_ROWS
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.layout.algebra.rules import ELEMENT_WIDTH
from nvbackend.layout.algebra.swizzle import BYTE_BITS, AnyLayout, ComposedLayout, SmemPtr

if TYPE_CHECKING:
    from nvbackend.layout.drawing.svg import GridCell

BANKS = 32
BANK_BYTES = 4
WAVEFRONT_BYTES = BANKS * BANK_BYTES
MATRIX_COUNTS = (1, 2, 4)

_GUIDE = "CUDA C++ Programming Guide, shared memory (compute capability 5.x and later)"

ACCESS = Rule(
    id="banks.access",
    message="an access of {given!r} {what}",
    fix="use one of {legal}",
    why="No instruction of one warp moves that much.",
    reference="PTX ISA 9.7.9.8 (ld), 9.7.14 (ldmatrix)",
)
LANES = Rule(
    id="banks.lanes",
    message="{given} addresses were given for {wanted} threads",
    fix="give an address, or None for a thread that does not take part, for each of {wanted} threads; a layout of "
    "({wanted}, values) may say every element that a thread reads",
    why="Conflicts are among the threads of one warp, and which of them go together depends on their place in it.",
    reference=_GUIDE,
)
ALIGNMENT = Rule(
    id="banks.alignment",
    message="thread {thread} accesses {size} bytes at {address:g}, which is not a multiple of {size}",
    fix="let every thread's first element lie at a multiple of {size} bytes",
    why="The hardware faults on it.",
    reference="PTX ISA 9.7.9.8 (ld)",
)
VECTOR = Rule(
    id="banks.vector",
    message="thread {thread} reads the elements {elements} of {bits} bits in one access of {size} bytes",
    fix="let a thread's elements be neighbours in rising order that fill {size} bytes, or count their accesses one by "
    "one",
    why="One instruction moves bytes that follow each other.",
    reference="PTX ISA 9.7.9.8 (ld)",
)


@dataclass(frozen=True, slots=True)
class Wavefront:
    """What one pass over the banks serves: of each bank in `words` that word, for those threads; its phase."""

    phase: int
    words: dict[int, tuple[int, tuple[int, ...]]]


@record
@dataclass(frozen=True, slots=True)
class BankAccess:
    """A warp's access to shared memory: byte addresses, None of threads that take no part, and bytes a thread.

    `text` is that of the layout which the addresses come from.
    """

    addresses: tuple[int | None, ...]
    bytes: int
    text: str = ""

    @property
    def phases(self) -> tuple[range, ...]:
        """The threads that are served together: all, half-warps for 8 bytes a thread, quarter-warps for 16."""
        together = min(WARP_SIZE, WAVEFRONT_BYTES // self.bytes)
        return tuple(range(first, first + together) for first in range(0, len(self.addresses), together))

    def schedule(self) -> list[Wavefront]:
        """The wavefronts: in each phase as many as the bank with the most words has words that are wanted."""
        return [wavefront for phase, threads in enumerate(self.phases) for wavefront in self._of(phase, threads)]

    def _of(self, phase: int, threads: range) -> Iterator[Wavefront]:
        wanted: dict[int, dict[int, list[int]]] = {}
        for thread in threads:
            for word in self.words(thread):
                wanted.setdefault(word % BANKS, {}).setdefault(word, []).append(thread)
        for turn in range(max(map(len, wanted.values()), default=0)):
            served = {bank: list(words.items())[turn] for bank, words in sorted(wanted.items()) if turn < len(words)}
            yield Wavefront(phase, {bank: (word, tuple(readers)) for bank, (word, readers) in served.items()})

    def words(self, thread: int) -> range:
        """The words, of four bytes each, that a thread reads from (call.name for one that does not take part)."""
        if not 0 <= thread < len(self.addresses):
            raise missing_name("the access", "thread", thread, [f"0 to {len(self.addresses) - 1}"])
        address = self.addresses[thread]
        if address is None:
            return range(0)
        return range(address // BANK_BYTES, (address + self.bytes - 1) // BANK_BYTES + 1)

    @property
    def wavefronts(self) -> int:
        """How many wavefronts the access takes.

        The counter l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld of Nsight Compute. Where threads that differ in
        one of the two lowest bits of their number read the same in every pair, chips may serve two phases at once:
        then it is an upper bound.
        """
        return len(self.schedule())

    @property
    def conflicts(self) -> int:
        """Wavefronts beyond one for each phase that has a thread taking part."""
        return sum(wavefront.phase == before for wavefront, before in self._neighbours())

    def _neighbours(self) -> Iterator[tuple[Wavefront, int]]:
        """Each wavefront with the phase of the one before it; -1 before the first."""
        before = -1
        for wavefront in self.schedule():
            yield wavefront, before
            before = wavefront.phase

    def svg(self) -> str:
        """A picture, as an SVG document: a row for each wavefront, banks to the right, the threads in the cells."""
        from nvbackend.layout.drawing.svg import GROUP, Axis, grid, numbered, palette

        schedule, colours = self.schedule(), palette()
        cells = [[_cell(wavefront.words.get(bank), colours) for bank in range(BANKS)] for wavefront in schedule]
        labels = tuple(
            f"{wavefront.phase}: {threads[0]}-{threads[-1]}"
            for wavefront in schedule
            for threads in [self.phases[wavefront.phase]]
        )
        legend = [(colours[first], f"T{first}-{first + GROUP - 1}") for first in range(0, WARP_SIZE, GROUP)]
        heading = (self.text,) if self.text else ()
        return grid(
            (
                *heading,
                f"{len(schedule)} wavefront{'' if len(schedule) == 1 else 's'}, {self.conflicts} for bank conflicts",
                f"{self.bytes} bytes a thread; a cell: the threads that get a word of the bank in that wavefront",
            ),
            cells,
            Axis(labels, "phase: threads"),
            numbered(BANKS, "bank"),
            legend,
        )

    def _repr_svg_(self) -> str:
        return self.svg()


def _cell(served: tuple[int, tuple[int, ...]] | None, colours: Sequence[str]) -> GridCell:
    from nvbackend.layout.drawing.svg import GridCell

    if served is None:
        return GridCell()
    word, threads = served
    hint = f"word {word} at byte {word * BANK_BYTES}: threads {', '.join(map(str, threads))}"
    more = (f"+{len(threads) - 1}",) if len(threads) > 1 else ()
    return GridCell((f"T{threads[0]}", *more), colours[threads[0]], hint)


@user_facing
def bank_conflicts(where: AnyLayout | Sequence[int | None], element_bits: int = 8, access_bytes: int = 4) -> BankAccess:
    """The wavefronts that a warp's load or store of `access_bytes` a thread takes.

    `where` is a layout from 32 threads to the element that each accesses first, or from (32 threads, values) to all
    of them, in elements of `element_bits`; or 32 byte addresses, None for a thread that takes no part. The memory
    begins at a multiple of 128 bytes. Raises banks.access, banks.lanes, banks.alignment, banks.vector,
    layout-algebra.element-width and layout-algebra.run-time.
    """
    if access_bytes not in ACCESS_BYTES:
        ACCESS.fail(given=access_bytes, what="bytes a thread", legal=", ".join(map(str, ACCESS_BYTES)))
    return BankAccess(_addresses(where, element_bits, access_bytes, WARP_SIZE), access_bytes, _text(where))


@user_facing
def ldmatrix_conflicts(where: AnyLayout | Sequence[int | None], element_bits: int = 8, count: int = 4) -> BankAccess:
    """The wavefronts that ldmatrix of `count` matrices takes: eight rows of 16 bytes are read together.

    `where` gives the first element, or all of them, of each of 8 * `count` rows, in the order of the lanes that give
    their addresses; otherwise as for `bank_conflicts`, and raises what that raises.
    """
    if count not in MATRIX_COUNTS:
        ACCESS.fail(given=count, what="matrices", legal=", ".join(map(str, MATRIX_COUNTS)))
    return BankAccess(_addresses(where, element_bits, ROW_BYTES, count * MATRIX_ROWS), ROW_BYTES, _text(where))


def byte_addresses(layout: AnyLayout, element_bits: int) -> list[float]:
    """The byte at which each element lies, in the order of the coordinates as one integer; of narrow ones, halves.

    Raises call.argument for elements without bits.
    """
    if element_bits < 1:
        ARGUMENT.fail(
            call="element_bits", problem=f"an element has {element_bits} bits", advice="give its width: element_bits=16"
        )
    if isinstance(layout, ComposedLayout) and isinstance(layout.offset, SmemPtr):
        known = layout.offset.bits
        if known is None:
            layout = replace(layout, offset=SmemPtr(element_bits))
        elif known != element_bits:
            ELEMENT_WIDTH.fail(layout=layout, known=f"{known} bits and not {element_bits}")
    return [int(index) * element_bits / BYTE_BITS for index in layout.offsets()]


def _text(where: AnyLayout | Sequence[int | None]) -> str:
    return "" if isinstance(where, Sequence) else str(where)


def _addresses(
    where: AnyLayout | Sequence[int | None], element_bits: int, size: int, threads: int
) -> tuple[int | None, ...]:
    """The byte address of each thread."""
    if isinstance(where, Sequence):
        addresses: list[float | None] = list(where)
    else:
        every = byte_addresses(where, element_bits)
        if len(every) % threads == 0 and len(every) > threads:
            _check_vectors(every, element_bits, size, threads)
            every = every[:threads]
        addresses = list(every)
    if len(addresses) != threads:
        LANES.fail(given=len(addresses), wanted=threads)
    return tuple(
        None if address is None else _aligned(thread, address, size) for thread, address in enumerate(addresses)
    )


def _aligned(thread: int, address: float, size: int) -> int:
    if address % size:
        ALIGNMENT.fail(thread=thread, address=address, size=size)
    return int(address)


def _check_vectors(every: Sequence[float], element_bits: int, size: int, threads: int) -> None:
    """Raises banks.vector where a thread's elements are not all the bytes of its access, in their order."""
    step = element_bits / BYTE_BITS
    for thread in range(threads):
        own = every[thread::threads]
        if len(own) * step != size or any(each != own[0] + place * step for place, each in enumerate(own)):
            elements = ", ".join(f"{each / step:g}" for each in own)
            VECTOR.fail(thread=thread, elements=elements, bits=element_bits, size=size)
