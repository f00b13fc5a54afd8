"""The word that tells wgmma where an operand tile lies in shared memory and how (PTX ISA 9.7.15.5.1.2.2).

The layout is the PTX ISA's, and was measured on an H200. The word that the seed documents print under the same name is
another one: see `tileiras.descriptor`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import replace

from nvbackend.diagnostics import Diagnostic, Rule, raise_all, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.bitfield import Field, PackedWord

CORE_ROWS = 8
"""Rows of a core matrix, each of 16 bytes; also the rows of a swizzle pattern."""
_WIDTHS = (1, 8, 16, 32)
_TRANSPOSABLE = (16,)
_TILE_WIDTHS = (1, 4, 8, 16, 32)
_TILE_TRANSPOSABLE = (8, 16)
"""The bits of elements that wgmma reads side by side, and MN-major; and those that it or tcgen05 reads so."""
PADDED_BITS = (4, 6)
"""Those that tcgen05 reads with padding after each 16."""

ELEMENT = Rule(
    id="layout.element",
    message="a shared-memory tile of {element}: {problem}",
    fix="{advice}",
    why="No instruction reads such elements by descriptor, so the tile would be read as another type.",
    reference="PTX ISA 9.7.15.5.1.2 (shared memory matrix layout), 9.7.16.10.4 (packing formats); "
    "for wgmma measured on an H200",
)
MAJOR = Rule(
    id="layout.major",
    message="an MN-major tile of {element}, which has {bits} bits: {reader} only elements of {needed} MN-major",
    fix="store the operand K-major (Major.K), or use f16 or bf16",
    why="wgmma has transpose immediates for f16 and bf16 alone, tcgen05 transposes 8 bits too; others are K-major.",
    reference="PTX ISA 9.7.15.5.2 (wgmma.mma_async: imm-trans-a, imm-trans-b), 9.7.16.4.2 (instruction descriptor)",
)


class Major(enum.Enum):
    """The dimension whose neighbours are neighbours in memory: K, or the other one (M of A, N of B)."""

    K = "K"
    MN = "MN"

    def __str__(self) -> str:
        return f"{self.value}-major"


def element_faults(major: Major, element: ElementType) -> Iterator[Diagnostic]:
    """Why wgmma reads no `major` operand of `element` from shared memory, if it does not."""
    if element.bits not in _WIDTHS:
        yield _unreadable(element, "wgmma reads no elements", _listed(_WIDTHS))
    elif major is Major.MN and element.bits not in _TRANSPOSABLE:
        yield MAJOR.diagnose(element=element, bits=element.bits, reader="wgmma reads", needed=_listed(_TRANSPOSABLE))


def tile_element_faults(major: Major, element: ElementType, *, padded: bool) -> Iterator[Diagnostic]:
    """Why neither wgmma nor tcgen05 reads a `major` tile of `element` from shared memory, if neither does."""
    if padded and element.bits not in PADDED_BITS:
        problem = f"elements of {element.bits} bits have no padding"
        yield ELEMENT.diagnose(element=element, problem=problem, advice="leave padded=True out")
    elif not padded and element.bits not in _TILE_WIDTHS:
        known = _listed(_TILE_WIDTHS)
        if element.bits in PADDED_BITS:
            known += ", or padded=True, which tcgen05's kinds f8f6f4 and mxf8f6f4 read"
        yield _unreadable(element, "no instruction reads elements", known)
    elif major is Major.MN and element.bits not in _TILE_TRANSPOSABLE:
        needed, reader = _listed(_TILE_TRANSPOSABLE), "wgmma or tcgen05 reads"
        yield MAJOR.diagnose(element=element, bits=element.bits, reader=reader, needed=needed)


def _listed(widths: tuple[int, ...]) -> str:
    *others, last = map(str, widths)
    return f"{', '.join(others)} or {last} bits" if others else f"{last} bits"


def _unreadable(element: ElementType, what: str, known: str) -> Diagnostic:
    problem = f"{what} of {element.bits} bits from shared memory"
    return ELEMENT.diagnose(element=element, problem=problem, advice=f"use a type of {known}")


ADDRESS_SHIFT = 4
"""Addresses and offsets are held in units of 16 bytes."""
UNIT = 1 << ADDRESS_SHIFT

_REFERENCE = "PTX ISA 9.7.15.5.1.2.2 (matrix descriptor format); measured on an H200"

WORD = PackedWord(
    "wgmma shared-memory descriptor",
    64,
    (
        Field("start_address", 0, 14, "byte address of the tile's first element", UNIT),
        Field("leading_byte_offset", 16, 14, "LBO in bytes", UNIT),
        Field("stride_byte_offset", 32, 14, "SBO in bytes", UNIT),
        Field("base_offset", 49, 3, "bits 7-9 of the address where the swizzle pattern starts"),
        Field("swizzle", 62, 2, "0 none, 1 128 B, 2 64 B, 3 32 B"),
    ),
)
_ADDRESS = WORD.field("start_address")

ADDRESS_MASK = _ADDRESS.highest | UNIT - 1
"""The bits of a shared address that the word can hold, before the shift."""

ADVANCE_UNIT = Rule(
    id="descriptor.advance-unit",
    message="an advance of {given} bytes is not a multiple of {unit} bytes",
    fix="pass the stride in bytes, neither in elements nor shifted already; {below} and {above} are the nearest",
    why="The address field counts 16-byte chunks; a stride in another unit reads from another place, with no fault.",
    reference=_REFERENCE,
)
ADVANCE_CARRY = Rule(
    id="descriptor.advance-carry",
    message="an advance of {given} bytes from shared address {start} ends at {end}, outside the address field's "
    "0 to {highest}",
    fix="make a new descriptor for that address; {least} to {most} bytes are possible from here",
    why="The sum would carry into reserved bits, and from there into the strides: the operand is fetched wrongly.",
    reference=_REFERENCE,
)


@user_facing
class SwizzleMode(enum.Enum):
    """How the 16-byte chunks of eight rows are permuted (PTX ISA 9.7.15.5.1.2, 5.5.7).

    `code` is the descriptor's; `bytes` the width of a row of the pattern, 16 (one row of a core matrix) for none.
    """

    NONE = (0, 16)
    B128 = (1, 128)
    B64 = (2, 64)
    B32 = (3, 32)

    def __init__(self, code: int, width: int) -> None:
        self.code = code
        self.bytes = width

    @classmethod
    def from_code(cls, code: int) -> SwizzleMode:
        """The mode whose descriptor field is `code`, 0 to 3 (KeyError for another)."""
        return {mode.code: mode for mode in cls}[code]

    @property
    def mask(self) -> int:
        """The address bits that are changed: the chunk's place in its row."""
        return self.bytes - UNIT

    @property
    def period(self) -> int:
        """The bytes after which the pattern repeats, to which a tile must be aligned; 16 for none."""
        return 8 * self.bytes if self.mask else UNIT

    @property
    def span(self) -> int:
        """The mode as TMA names it: 0, 32, 64 or 128 bytes."""
        return self.bytes if self.mask else 0

    def apply(self, address: int) -> int:
        """Where the byte of a linear `address` (or of an offset from a multiple of the period) really lies.

        Applied twice it gives `address` again.
        """
        return address ^ (address >> 3 & self.mask)

    def __str__(self) -> str:
        return f"{self.span} B" if self.mask else "no"


@user_facing
@dataclass(frozen=True, slots=True)
class SmemDescriptor:
    """A wgmma shared-memory descriptor. Addresses and offsets are in bytes and multiples of 16.

    `start_address` is a shared address (0 to 0x3fff0); what LBO and SBO stride over depends on the layout: see
    `smem_layout`. `base_offset` is 0 when the tile starts at a multiple of the swizzle's period. Raises, for all
    fields together, descriptor.range and descriptor.alignment.
    """

    start_address: int
    leading_byte_offset: int
    stride_byte_offset: int
    base_offset: int = 0
    swizzle: SwizzleMode = SwizzleMode.NONE

    def __post_init__(self) -> None:
        raise_all(WORD.check(self._values()))

    def _values(self) -> dict[str, int]:
        return {
            "start_address": self.start_address,
            "leading_byte_offset": self.leading_byte_offset,
            "stride_byte_offset": self.stride_byte_offset,
            "base_offset": self.base_offset,
            "swizzle": self.swizzle.code,
        }

    def encode(self) -> int:
        """The 64-bit word."""
        return WORD.encode(self._values())

    @classmethod
    def decode(cls, word: int) -> SmemDescriptor:
        """The descriptor of a word. Raises descriptor.reserved-bits, and descriptor.range for more than 64 bits."""
        values = WORD.decode(word)
        swizzle = SwizzleMode.from_code(values.pop("swizzle"))
        return cls(**values, swizzle=swizzle)

    @property
    def template_word(self) -> int:
        """The word without the address.

        With the address known at run time the whole word is
        `template_word | (address & ADDRESS_MASK) >> ADDRESS_SHIFT`.
        """
        return self.encode() & ~_ADDRESS.mask

    def advance(self, bytes: int) -> SmemDescriptor:
        """The descriptor `bytes` further on, or back where negative; nothing but the address changes.

        Raises descriptor.advance-unit and descriptor.advance-carry.
        """
        return replace(self, start_address=advanced(self.start_address, bytes))


def advanced(start: int, bytes: int) -> int:
    """The shared address `bytes` further on than `start`, which a descriptor's address field must hold.

    Raises descriptor.advance-unit and descriptor.advance-carry.
    """
    advance_units(bytes)
    end = start + bytes
    if not 0 <= end <= _ADDRESS.highest:
        ADVANCE_CARRY.fail(
            given=bytes,
            start=start,
            end=end,
            highest=_ADDRESS.highest,
            least=-start,
            most=_ADDRESS.highest - start,
        )
    return end


def advance_units(bytes: int) -> int:
    """What to add to a word to advance it by `bytes`, when the address is only known at run time.

    Raises descriptor.advance-unit where `bytes` is not a multiple of 16.
    """
    if rest := bytes % UNIT:
        ADVANCE_UNIT.fail(given=bytes, unit=UNIT, below=bytes - rest, above=bytes - rest + UNIT)
    return bytes >> ADDRESS_SHIFT


def advance(word: int, bytes: int) -> int:
    """The word of a descriptor `bytes` further on, or back where negative.

    Raises descriptor.advance-unit, descriptor.advance-carry and, for a malformed word, descriptor.reserved-bits or
    descriptor.range.
    """
    return SmemDescriptor.decode(word).advance(bytes).encode()
