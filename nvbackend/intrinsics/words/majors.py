"""Along which dimension an operand in shared memory is contiguous, and which elements can be read so."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.intrinsics.row.types import ElementType

CORE_ROWS = 8
"""Rows of a core matrix, each of 16 bytes; also the rows of a swizzle pattern."""
_WIDTHS = (1, 8, 16, 32)
_TRANSPOSABLE_BITS = 16

ELEMENT = Rule(
    id="layout.element",
    message="a shared-memory tile of {element}: wgmma reads no elements of {bits} bits from shared memory",
    fix="use a type of {known} bits",
    why="No instruction reads such elements by descriptor, so the tile would be read as another type.",
    reference="PTX ISA 9.7.15.5.1.2 (shared memory matrix layout); measured on an H200",
)
MAJOR = Rule(
    id="layout.major",
    message="an MN-major tile of {element}, which has {bits} bits: only {needed}-bit operands can be read MN-major",
    fix="store the operand K-major (Major.K), or use f16 or bf16",
    why="wgmma has transpose immediates for f16 and bf16 alone; other types are always taken as K-major.",
    reference="PTX ISA 9.7.15.5.2 (wgmma.mma_async: imm-trans-a, imm-trans-b)",
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
        yield ELEMENT.diagnose(element=element, bits=element.bits, known=", ".join(map(str, _WIDTHS)))
    elif major is Major.MN and element.bits != _TRANSPOSABLE_BITS:
        yield MAJOR.diagnose(element=element, bits=element.bits, needed=_TRANSPOSABLE_BITS)
