"""Swizzled shared-memory addresses: which 16-byte chunks change places, by the address bits. PTX ISA 5.5.7."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Addresses = NDArray[np.int64]

ATOMICITIES: Final = ("16B", "32B", "32B+8B flip", "64B")
"""The pieces that stay whole in 128-byte swizzling, each at its number in tensormap.replace."""
SPANS: Final = (0, 32, 64, 128, 96)
"""The bytes of a swizzled row, each at its number in tensormap.replace."""

_BITS: dict[tuple[int, str], tuple[int, int]] = {
    # (span, atomicity): how far the row's bits are shifted down, and where they are XORed in
    (32, "16B"): (3, 0x10),
    (96, "16B"): (3, 0x10),
    (64, "16B"): (3, 0x30),
    (128, "16B"): (3, 0x70),
    (128, "32B"): (2, 0x60),
    (128, "32B+8B flip"): (2, 0x60),
    (128, "64B"): (1, 0x40),
}


def has_swizzle(span: int, atomicity: str) -> bool:
    """Whether the two go together."""
    return span == 0 or (span, atomicity) in _BITS


def swizzled(addresses: Addresses, span: int, atomicity: str = "16B") -> Addresses:
    """Where bytes at `addresses` of shared memory, laid out plainly, are with a swizzle of `span` bytes.

    The pattern belongs to the address: it starts at multiples of 128 bytes times its number of rows. Pairs of 8 bytes
    change places in every other line of 128 bytes with "32B+8B flip".
    """
    if span == 0:
        return addresses
    shift, bits = _BITS[span, atomicity]
    placed = addresses ^ ((addresses >> shift) & bits)
    if atomicity == "32B+8B flip":
        placed = placed ^ ((addresses >> 4) & 8)
    return placed
