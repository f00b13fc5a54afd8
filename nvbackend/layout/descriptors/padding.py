"""Elements of 4 or 6 bits as tcgen05's kinds f8f6f4 and mxf8f6f4 read them: 16 side by side, then padding to 16 bytes.

PTX ISA 9.7.16.10.4 (packing formats), 5.5.1 (b4x16_p64, b6x16_p32 of tensor maps).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvbackend.intrinsics.words.smem_descriptor import UNIT
from nvbackend.layout.algebra.swizzle import BYTE_BITS

if TYPE_CHECKING:
    import numpy

    Bytes = numpy.ndarray[Any, numpy.dtype[numpy.uint8]]


def padded(stored: Bytes, bits: int) -> Bytes:
    """Chunks of 16 bytes of NumPy's bytes of elements, two of 4 bits in one and each of 6 bits in its own."""
    import numpy

    elements = numpy.unpackbits(stored, axis=-1, bitorder="little")
    if bits != held_bits(bits):
        elements = elements.reshape(*stored.shape, BYTE_BITS)[..., :bits]
    groups = elements.reshape(-1, UNIT * bits)
    chunks = numpy.zeros((len(groups), UNIT * BYTE_BITS), numpy.uint8)
    chunks[:, : UNIT * bits] = groups
    return numpy.packbits(chunks, axis=-1, bitorder="little")


def unpadded(chunks: Bytes, bits: int) -> Bytes:
    """NumPy's bytes of the elements that chunks hold: the inverse of `padded`, in one dimension."""
    import numpy

    groups = numpy.unpackbits(chunks, axis=-1, bitorder="little")[:, : UNIT * bits].reshape(-1, bits)
    room = numpy.zeros((len(groups), held_bits(bits)), numpy.uint8)
    room[:, :bits] = groups
    return numpy.packbits(room.reshape(-1), bitorder="little")


def held_bits(bits: int) -> int:
    """The bits that NumPy's storage has for an element of so many."""
    return bits if BYTE_BITS % bits == 0 else max(bits, BYTE_BITS)
