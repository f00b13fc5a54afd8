"""Element types of a tensor map, and how their values lie in global and in shared memory. PTX ISA 5.5.1."""

from __future__ import annotations

from nvbackend.diagnostics.classes.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Element:
    """An element type: `count` elements take `global_bytes` in global memory.

    A load writes as many bytes to shared memory, `pitch` bytes apart; only packed types have gaps. `store_bytes` are
    what a store reads there (for 6-bit types one byte an element, of which two bits are dropped). `oob_nan` is the
    bit pattern of the out-of-bounds NaN, None for integers, which are filled with zeros only. `rounded` names the
    format to which a load rounds each value.
    """

    name: str
    global_bytes: int
    count: int = 1
    pitch: int = 0
    oob_nan: int | None = None
    rounded: str = ""

    @property
    def shared_pitch(self) -> int:
        """Bytes from one value (of a packed type: sixteen) to the next in shared memory."""
        return self.pitch or self.global_bytes

    @property
    def bits(self) -> int:
        """The bits of one element in global memory."""
        return 8 * self.global_bytes // self.count


_HALF_NAN = 0x7FF7
"""What fills places outside, in each 16 bits: seen on an H200 with f32 and tf32, and the same that fma.oob knows."""


def _outside(size: int) -> int:
    return int.from_bytes(_HALF_NAN.to_bytes(2, "little") * (size // 2), "little")


CODES: tuple[Element, ...] = (
    Element("u8", 1),
    Element("u16", 2),
    Element("u32", 4),
    Element("s32", 4),
    Element("u64", 8),
    Element("s64", 8),
    Element("f16", 2, oob_nan=_outside(2)),
    Element("f32", 4, oob_nan=_outside(4)),
    Element("f32.ftz", 4, oob_nan=_outside(4)),
    Element("f64", 8, oob_nan=_outside(8)),
    Element("bf16", 2, oob_nan=_outside(2)),
    Element("tf32", 4, oob_nan=_outside(4), rounded="tf32"),
    Element("tf32.ftz", 4, oob_nan=_outside(4), rounded="tf32"),
    Element("b4x16", 8, count=16),
    Element("b4x16_p64", 8, count=16, pitch=16),
    Element("b6x16_p32", 12, count=16, pitch=16),
)
"""Each at the number that tensormap.replace gives it (PTX ISA 9.7.9, tensormap.replace: elemtype)."""

BY_NAME: dict[str, Element] = {element.name: element for element in CODES}
