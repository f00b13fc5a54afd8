"""The shared-memory layouts that a matrix descriptor can describe: one form for each majorness and swizzle.

An operand is made of chunks of 16 bytes, T elements each. Its contiguous dimension is cut into rows of the swizzle
pattern, `width` chunks (1 without swizzle); its strided dimension into runs of `lines` such rows (core matrices). LBO
and SBO give the distance to the next row along one and to the next run along the other; `FORMS` says which is
which.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeVar

from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.words.smem_descriptor import CORE_ROWS, UNIT, Major, SwizzleMode
from nvbackend.intrinsics.words.tcgen05_descriptor import Tcgen05Swizzle
from nvbackend.layout.algebra.layout import Layout
from nvbackend.layout.algebra.simplify import coalesce
from nvbackend.layout.algebra.swizzle import BYTE_BITS, Swizzle
from nvbackend.layout.descriptors.tile_atoms import swizzle_function

_Any = TypeVar("_Any")

CHUNK_BITS = UNIT * BYTE_BITS
"""CuTe's uint128_t: what addresses and offsets of a descriptor count."""


class Stride(enum.Enum):
    """A descriptor's two offsets."""

    LBO = "LBO"
    SBO = "SBO"


@user_facing
@dataclass(frozen=True, slots=True)
class CanonicalForm:
    """One admissible layout, with the offsets left open.

    `gmma` and `umma` are the swizzle modes of wgmma's and tcgen05's words, None where wgmma has no such mode;
    `swizzle` is what the mode does to byte addresses. `along` is the offset from one row of `width` chunks to the next
    in the contiguous dimension, None where an operand has to stay within one; `across` is the step from `lines` rows to
    the next in the strided dimension.
    """

    major: Major
    gmma: SwizzleMode | None
    umma: Tcgen05Swizzle
    swizzle: Swizzle
    width: int
    along: Stride | None
    across: Stride
    lines: int = CORE_ROWS

    @property
    def period(self) -> int:
        """Bytes after which the swizzle pattern repeats; one chunk without swizzle."""
        return 1 << self.swizzle.source_mask.bit_length() if self.swizzle.bits else UNIT

    @property
    def name(self) -> str:
        """The swizzle mode in words."""
        return str(self.gmma) if self.gmma is not None else "128 B (of 32 B)"

    def oriented(self, along: _Any, across: _Any) -> tuple[_Any, _Any]:
        """What belongs to (contiguous, strided) dimension as what belongs to (M or N, K), or the other way round."""
        return (across, along) if self.major is Major.K else (along, across)

    def layout(self, extents: tuple[int, int], bits: int, offsets: dict[Stride, int]) -> Layout:
        """The layout of (M or N, K), in elements of `bits` bits, before the swizzle. `offsets` are in bytes.

        Extents are whole chunks and lines; with 128 bits an element is a chunk.
        """
        chunk = CHUNK_BITS // bits
        along, across = self.oriented(*extents)
        inner = min(self.width, along // chunk)
        steps = {None: 0} | {stride: offset * BYTE_BITS // bits for stride, offset in offsets.items()}
        contiguous = Layout((chunk, inner, along // chunk // inner), (1, chunk, steps[self.along]))
        strided = Layout((self.lines, across // self.lines), (self.width * chunk, steps[self.across]))
        modes = (strided, contiguous) if self.major is Major.K else (contiguous, strided)
        return coalesce(Layout(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes)), (1, 1))

    @property
    def in_elements(self) -> str:
        """The form as CUTLASS writes it, T elements a chunk: `Sw<3,4,3> o smem_ptr o ((T,8,m),(8,k)):(...)`."""
        pitch = "T" if self.width == 1 else f"{self.width}T"
        extent, other = ("k", "m") if self.major is Major.K else ("m", "k")
        if self.along is None:
            contiguous = (f"(T,{extent})", "(1,T)")
        elif self.width == 1:
            contiguous = (f"(T,{extent})", f"(1,{self.along.value})")
        else:
            contiguous = (f"(T,{self.width},{extent})", f"(1,T,{self.along.value})")
        strided = (f"({self.lines},{other})", f"({pitch},{self.across.value})")
        modes = (strided, contiguous) if self.major is Major.K else (contiguous, strided)
        shape, stride = (f"({modes[0][place]},{modes[1][place]})" for place in range(2))
        return f"{self.swizzle} o smem_ptr o {shape}:{stride}"


_OFFSETS: dict[tuple[Major, bool], tuple[Stride | None, Stride]] = {
    (Major.K, False): (Stride.LBO, Stride.SBO),
    (Major.K, True): (None, Stride.SBO),
    (Major.MN, False): (Stride.SBO, Stride.LBO),
    (Major.MN, True): (Stride.LBO, Stride.SBO),
}
"""By majorness and whether there is a swizzle: what leads along the contiguous, and across the strided dimension."""


def _form(major: Major, mode: SwizzleMode) -> CanonicalForm:
    function = swizzle_function(mode)
    return CanonicalForm(
        major, mode, Tcgen05Swizzle[mode.name], function, mode.bytes // UNIT, *_OFFSETS[major, function.bits > 0]
    )


FORMS = (
    *(_form(major, mode) for major in Major for mode in sorted(SwizzleMode, key=lambda mode: mode.bytes)),
    CanonicalForm(
        Major.MN, None, Tcgen05Swizzle.B128_ATOM32, Swizzle(2, 5, 2), 8, *_OFFSETS[Major.MN, True], CORE_ROWS // 2
    ),
)
"""The eight forms that wgmma and tcgen05 read, measured on an H200 for wgmma, and a ninth that only tcgen05 has.

PTX ISA 9.7.15.5.1.2 (wgmma), 9.7.16.3.3 (tcgen05); CUTLASS include/cute/atom/mma_traits_sm90_gmma.hpp and
mma_traits_sm100.hpp (tcgen05 was not run).
"""


def table() -> str:
    """`FORMS` as a table in Markdown."""
    lines = [
        "| major | swizzle | layout of (M or N, K), in elements | pitch of rows | LBO leads | SBO leads |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for form in FORMS:
        strided = "K" if form.major is Major.MN else "M or N"
        leads = {form.across: f"{form.lines} further along {strided}"}
        if form.along is not None:
            elements = "T" if form.width == 1 else f"{form.width}T"
            leads[form.along] = f"{elements} further along {'K' if form.major is Major.K else 'M or N'}"
        cells = [
            form.major.value,
            form.name,
            f"`{form.in_elements}`",
            f"{form.width * UNIT} B",
            *(leads.get(stride, "not used (1)") for stride in Stride),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
