"""Where the bytes of a matrix lie that a descriptor says (PTX ISA 9.7.15.5.1, 9.7.16.4.1): in chunks of 16 bytes."""

from __future__ import annotations

from functools import lru_cache

from nvbackend.diagnostics import DiagnosticError
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.words.smem_descriptor import SmemDescriptor
from nvbackend.intrinsics.words.tcgen05_descriptor import Tcgen05SmemDescriptor, Tcgen05Swizzle

ROW_BYTES = 32
"""Bytes of K that one multiplication takes of each row of A and B, where neither is sparse."""
CHUNK = 16
"""Bytes that stay together."""
_WIDTHS = {
    Tcgen05Swizzle.NONE: CHUNK,
    Tcgen05Swizzle.B32: 32,
    Tcgen05Swizzle.B64: 64,
    Tcgen05Swizzle.B128: 128,
    Tcgen05Swizzle.B128_ATOM32: 128,
}
"""Bytes of a row of each pattern."""
_LATE = 16
"""The bit from which a swizzle says at which row its pattern begins."""


@dataclass(frozen=True, slots=True)
class SharedMatrix:
    """A matrix in shared memory; all in bytes. `width` is that of a row of the swizzle's pattern, 16 without one.

    `pairs`: chunks move in pairs.
    """

    start: int
    leading: int
    stride: int
    width: int
    base: int = 0
    pairs: bool = False

    @property
    def swizzle(self) -> int | None:
        """The bytes of the pattern, as tensor maps count them; None for one that they cannot have.

        A pattern that begins at another row than copies begin it at is another one: see `begins_at`.
        """
        return None if self.pairs else 0 if self.width == CHUNK else self.width | self._late << _LATE

    @property
    def _late(self) -> int:
        """How many rows after a multiple of its period the pattern begins."""
        return self.base & self.width // CHUNK - 1

    def rows_of_k(self, rows: int, row_bytes: int) -> list[list[int]]:
        """Addresses of the chunks of a K-major matrix, for each row."""
        along = [byte // self.width * self.leading + byte % self.width for byte in range(0, row_bytes, CHUNK)]
        firsts = [self.start + row // 8 * self.stride + row % 8 * self.width for row in range(rows)]
        return [[self._swizzled(first + step) for step in along] for first in firsts]

    def columns_of_k(self, row_bytes: int, columns: int) -> list[list[int]]:
        """Addresses of the chunks of an MN-major matrix with so many bytes along M or N: for each, columns of K."""
        step, far = (self.leading, self.stride) if self.width > CHUNK else (self.stride, self.leading)
        each = 4 if self.pairs else 8
        along = [column // each * far + column % each * self.width for column in range(columns)]
        firsts = [self.start + byte // self.width * step + byte % self.width for byte in range(0, row_bytes, CHUNK)]
        return [[self._swizzled(first + more) for more in along] for first in firsts]

    def _swizzled(self, address: int) -> int:
        line = address // 128 - self.base
        moved = (line & 3) * 2 * CHUNK if self.pairs else (line & (self.width // CHUNK - 1)) * CHUNK
        return address ^ moved


def begins_at(swizzle: int) -> tuple[int, int]:
    """The bytes of a pattern, and the row at which it begins."""
    return swizzle & (1 << _LATE) - 1, swizzle >> _LATE


@lru_cache(maxsize=1024)
def of_wgmma(word: int) -> SharedMatrix | None:
    """What the descriptor of a wgmma operand says, None for a word that says nothing."""
    try:
        said = SmemDescriptor.decode(word)
    except DiagnosticError:
        return None
    return SharedMatrix(
        said.start_address, said.leading_byte_offset, said.stride_byte_offset, said.swizzle.bytes, said.base_offset
    )


@lru_cache(maxsize=1024)
def of_tcgen05(word: int) -> SharedMatrix | None:
    """What the descriptor of a tcgen05 operand says, None for a word that says nothing or gives LBO as an address."""
    try:
        said = Tcgen05SmemDescriptor.decode(word)
    except (DiagnosticError, ValueError):
        return None
    if said.leading_is_address:
        return None
    return SharedMatrix(
        said.start_address,
        said.leading_byte_offset,
        said.stride_byte_offset,
        _WIDTHS[said.swizzle],
        said.base_offset,
        said.swizzle is Tcgen05Swizzle.B128_ATOM32,
    )
