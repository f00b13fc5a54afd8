"""The descriptor word of the seed documents, which is not the hardware's.

One compiler's reverse-engineered description (the seed on the WGMMA emission protocol, "SMEM Descriptor Bit Layout")
prints a word with LBO at bit 14, SBO at bit 30 and the swizzle at bit 52. Fed to wgmma on an H200 it gives wrong
numbers or an illegal address. It is kept so that words from such a document can be read, and converted to
`SmemDescriptor`; no instruction may ever be given one.
"""

from __future__ import annotations

from nvbackend.diagnostics import raise_all, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.words.bitfield import Field, PackedWord
from nvbackend.intrinsics.words.smem_descriptor import UNIT, SmemDescriptor, SwizzleMode

WORD = PackedWord(
    "tileiras's WGMMA descriptor",
    64,
    (
        Field("start_addr", 0, 14, "shared byte offset >> 4"),
        Field("lbo", 14, 16, "leading byte offset, unshifted"),
        Field("sbo", 30, 16, "stride byte offset, unshifted"),
        Field("base_offset", 46, 3, "base offset"),
        Field("swizzle_mode", 52, 2, "0 none, 1 128 B, 2 64 B, 3 32 B"),
    ),
    "tileiras documents: WGMMA Emission Protocol, SMEM Descriptor Bit Layout",
)


@user_facing
@dataclass(frozen=True, slots=True)
class TileirasDescriptor:
    """The seed's word by the seed's names and units.

    `start_addr` counts 16-byte chunks; `lbo` and `sbo` are byte counts as they are, so at most 65535. The document's
    constructor cuts values to their fields; this one raises descriptor.range, for all fields together. Bits 49-51
    (reserved) and 54-63 (padding) are written as zero and refused on decoding.
    """

    start_addr: int
    lbo: int
    sbo: int
    base_offset: int = 0
    swizzle_mode: SwizzleMode = SwizzleMode.NONE

    def __post_init__(self) -> None:
        raise_all(WORD.check(self._values()))

    def _values(self) -> dict[str, int]:
        return {
            "start_addr": self.start_addr,
            "lbo": self.lbo,
            "sbo": self.sbo,
            "base_offset": self.base_offset,
            "swizzle_mode": self.swizzle_mode.code,
        }

    def encode(self) -> int:
        """The seed's 64-bit word."""
        return WORD.encode(self._values())

    @classmethod
    def decode(cls, word: int) -> TileirasDescriptor:
        """The fields of a seed's word. Raises descriptor.reserved-bits, and descriptor.range for more than 64 bits."""
        values = WORD.decode(word)
        mode = SwizzleMode.from_code(values.pop("swizzle_mode"))
        return cls(**values, swizzle_mode=mode)

    def to_hardware(self) -> SmemDescriptor:
        """The descriptor the hardware understands, with the same address, strides and swizzle.

        Raises descriptor.alignment where a stride is not a multiple of 16 bytes, which the hardware's word cannot
        hold.
        """
        return SmemDescriptor(
            start_address=self.start_addr * UNIT,
            leading_byte_offset=self.lbo,
            stride_byte_offset=self.sbo,
            base_offset=self.base_offset,
            swizzle=self.swizzle_mode,
        )

    @classmethod
    def from_hardware(cls, descriptor: SmemDescriptor) -> TileirasDescriptor:
        """The seed's word for a hardware descriptor.

        Raises descriptor.range where a stride is more than 65535 bytes: the hardware's fields reach four times as far.
        """
        return cls(
            start_addr=descriptor.start_address // UNIT,
            lbo=descriptor.leading_byte_offset,
            sbo=descriptor.stride_byte_offset,
            base_offset=descriptor.base_offset,
            swizzle_mode=descriptor.swizzle,
        )
