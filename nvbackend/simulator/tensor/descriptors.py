"""Descriptors of matrices in shared memory, read bit by bit: where the 16 bytes of each chunk of an operand are.

PTX ISA 9.7.15.5.1.2.2 (wgmma), 9.7.16.4.1 (tcgen05); the canonical layouts as measured on an H200. A matrix is `rows`
(of M or N) x K. The swizzle exchanges bits of the shared address itself, so that a start address may be anywhere in
the pattern.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nvbackend.diagnostics.classes.dataclass import dataclass

Array = NDArray[Any]

CHUNK = 16
"""Bytes that stay together."""
_EIGHT = 8
_FIELD = 0x3FFF
_WGMMA = {0: (0, False), 1: (128, False), 2: (64, False), 3: (32, False)}
_TCGEN05 = {0: (0, False), 1: (128, True), 2: (128, False), 4: (64, False), 6: (32, False)}


@dataclass(frozen=True, slots=True)
class SharedMatrix:
    """What a descriptor says: addresses and offsets in bytes, `swizzle` 0, 32, 64 or 128 bytes.

    `wide_atom`: the swizzle of 128 bytes moves 32 bytes together. `absolute`: the leading offset is an address.
    """

    start: int
    leading: int
    stride: int
    swizzle: int
    base: int = 0
    wide_atom: bool = False
    absolute: bool = False

    def chunks(self, rows: int, row_bytes: int, *, k_major: bool, bits: int) -> Array:
        """The addresses of all chunks of 16 bytes.

        K-major: (rows, row_bytes / 16), along K; else (rows * bits / 128, K), along M or N, where row_bytes is that of
        K elements.
        """
        if k_major:
            linear = self._k_major(np.arange(rows)[:, None], np.arange(row_bytes // CHUNK))
        else:
            linear = self._mn_major(np.arange(rows * bits // 128)[:, None], np.arange(row_bytes * 8 // bits))
        return self._swizzled(self.start + linear).astype(np.uint64)

    def matrix(self, data: Array, *, k_major: bool, bits: int) -> Array:
        """The codes (rows, K) of the chunks' bytes, (.., 16) of uint8; of less than 8 bits in each byte from below."""
        codes = codes_of(data, bits)
        if k_major:
            return codes.reshape(len(codes), -1)
        return codes.transpose(0, 2, 1).reshape(-1, codes.shape[1])

    @property
    def _wide(self) -> int:
        """Chunks of a row of the swizzle's pattern."""
        return max(1, self.swizzle // CHUNK)

    def _k_major(self, row: Array, chunk: Array) -> Array:
        along = chunk % self._wide * CHUNK + chunk // self._wide * self.leading
        found: Array = along + row % _EIGHT * CHUNK * self._wide + row // _EIGHT * self.stride
        return found

    def _mn_major(self, chunk: Array, k: Array) -> Array:
        deep = 4 if self.wide_atom else _EIGHT
        across, along = (self.leading, self.stride) if self.swizzle else (self.stride, self.leading)
        place = chunk % self._wide * CHUNK + chunk // self._wide * across
        found: Array = place + k % deep * CHUNK * self._wide + k // deep * along
        return found

    def _swizzled(self, address: Array) -> Array:
        """The pattern repeats from a multiple of its size on, or `base` * 128 bytes after one."""
        period, place = (3, 5) if self.wide_atom else (self._wide - 1, 4)
        found: Array = address ^ ((((address >> 7) - self.base) & period) << place)
        return found


def codes_of(data: Array, bits: int) -> Array:
    """Elements of `bits` bits in bytes, along the last axis, from the lowest bit on."""
    if bits >= 8:
        return np.ascontiguousarray(data).view(np.dtype(f"uint{bits}"))
    parts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (data[..., None] >> parts) & np.uint8((1 << bits) - 1)
    return codes.reshape(*data.shape[:-1], -1)


def in_bytes(data: Array, bits: int) -> Array:
    """Pieces of 16 bytes with 16 elements of 8 bits; of 6 or 4 bits packed, with padding after them, they get the low
    bits of a byte each."""
    if bits == 8:
        return data
    flat = np.unpackbits(data[..., : 2 * bits], axis=-1, bitorder="little")
    codes = flat.reshape(*data.shape[:-1], CHUNK, bits)
    return np.packbits(codes, axis=-1, bitorder="little")[..., 0]


def _offsets(word: int) -> tuple[int, int, int, int]:
    """Start, leading and stride offset in bytes, and the base offset."""
    start, leading, stride = ((word >> at & _FIELD) * CHUNK for at in (0, 16, 32))
    return start, leading, stride, word >> 49 & 7


def of_wgmma(word: int) -> SharedMatrix:
    """The descriptor of a wgmma operand. The swizzle is in bits 62 and 63."""
    start, leading, stride, base = _offsets(word)
    swizzle, wide_atom = _WGMMA[word >> 62 & 3]
    return SharedMatrix(start, leading, stride, swizzle, base, wide_atom)


def of_tcgen05(word: int) -> SharedMatrix | None:
    """The descriptor of a tcgen05 operand, None for a swizzle that does not exist. The swizzle is in bits 61 to 63."""
    start, leading, stride, base = _offsets(word)
    found = _TCGEN05.get(word >> 61 & 7)
    if found is None:
        return None
    return SharedMatrix(start, leading, stride, *found[:1], base, found[1], bool(word >> 52 & 1))
