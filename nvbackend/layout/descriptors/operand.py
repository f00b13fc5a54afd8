"""One instruction's operand, seen as the tensor core reads it: a canonical form and its two offsets.

Each step of the derivation refuses what the hardware has no word for, with the reason.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TypeAlias, TypeVar

from nvbackend.diagnostics import Diagnostic, DiagnosticError, raise_all, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.smem_descriptor import (
    CORE_ROWS,
    UNIT,
    Major,
    SmemDescriptor,
    SwizzleMode,
    element_faults,
)
from nvbackend.intrinsics.words.tcgen05_descriptor import Tcgen05SmemDescriptor, Tcgen05Swizzle
from nvbackend.layout.algebra.inttuple import text
from nvbackend.layout.algebra.layout import Layout, must_be_known, rank, size
from nvbackend.layout.algebra.simplify import coalesce, flat_modes, upcast
from nvbackend.layout.algebra.swizzle import BYTE_BITS, AnyLayout, ComposedLayout, SmemPtr, Swizzle
from nvbackend.layout.algebra.tiling import logical_divide
from nvbackend.layout.descriptors.rules import CONTIGUOUS, CORE_MATRIX, ELEMENT, EXTENT, STRIDE, SWIZZLE_MODE
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
    """One admissible layout, with the offsets left open; all there are, made by nvbackend, are in `FORMS`.

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

    def _oriented(self, along: _Any, across: _Any) -> tuple[_Any, _Any]:
        """What belongs to (contiguous, strided) dimension as what belongs to (M or N, K), or the other way round."""
        return (across, along) if self.major is Major.K else (along, across)

    def layout(self, extents: tuple[int, int], bits: int, offsets: dict[Stride, int]) -> Layout:
        """The layout of (M or N, K), in elements of `bits` bits, without the swizzle. `offsets` are in bytes.

        Extents are whole chunks and lines; with 128 bits an element is a chunk.
        """
        chunk = CHUNK_BITS // bits
        rows, columns = extents
        along, across = self._oriented(rows, columns)
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


def _of_mode(major: Major, mode: SwizzleMode) -> CanonicalForm:
    function = swizzle_function(mode)
    return CanonicalForm(
        major, mode, Tcgen05Swizzle[mode.name], function, mode.bytes // UNIT, *_OFFSETS[major, function.bits > 0]
    )


FORMS = (
    *(_of_mode(major, mode) for major in Major for mode in sorted(SwizzleMode, key=lambda mode: mode.bytes)),
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


Descriptor: TypeAlias = SmemDescriptor | Tcgen05SmemDescriptor

_K_BITS = {SmemDescriptor: (256, 512), Tcgen05SmemDescriptor: (256, 384, 512)}
"""Bits of K that one instruction reads: dense, B of a sparse one, and K = 96 of tcgen05's 4-bit types."""
_UMMA_WIDTHS = (4, 8, 16, 32)
_UMMA_TRANSPOSABLE = 8
"""Elements of fewer bits are K-major in tcgen05 (PTX ISA 9.7.16.4.2)."""


@dataclass(frozen=True, slots=True)
class DescriptorOperand:
    """An operand that the hardware reads: `form` with `offsets` in bytes, those that it uses.

    `offset` is the byte where element (0, 0) lies, before the swizzle. `by_address`: the swizzle is one of addresses.
    `row_bytes` is what it reads of a row of the swizzle pattern.
    """

    form: CanonicalForm
    element: ElementType
    layout: AnyLayout
    offset: int
    by_address: bool
    offsets: dict[Stride, int]
    row_bytes: int

    def in_chunks(self, mode: Layout) -> Layout:
        """A mode that leads from operand to operand, in chunks of 16 bytes. Raises descriptor.contiguous."""
        raise_all(FormReader(self.form, self.element, self.layout).unaligned(mode, "operands"))
        return upcast(mode, CHUNK_BITS // self.element.bits)


def operand_of(major: Major, layout: AnyLayout, element: ElementType, kind: type[Descriptor]) -> DescriptorOperand:
    """The operand that `layout` is, for descriptors of `kind`. Raises as `make_gmma_desc` says."""
    if not isinstance(major, Major) or not isinstance(layout, AnyLayout) or not isinstance(element, ElementType):
        raise TypeError("the boundary says which")
    raise_all(operand_faults(major, layout, element, kind))
    function, offset, inner, by_address = _parts(layout, element)
    form = _form(major, layout, function, kind)
    reader = FormReader(form, element, layout)
    must_be_known(inner, "the descriptor")
    raise_all(reader.extent_faults(inner, kind))
    raise_all(reader.contiguity_faults(inner, offset))
    chunks = upcast(coalesce(inner, (1, 1)), CHUNK_BITS // element.bits)
    offsets, row = reader.read(chunks)
    return DescriptorOperand(form, element, layout, offset * element.bits // BYTE_BITS, by_address, offsets, row)


def operand_faults(
    major: Major, layout: AnyLayout, element: ElementType, kind: type[Descriptor]
) -> Iterator[Diagnostic]:
    """Why no descriptor of `kind` is one of `major` operands of `element`, or not of this layout."""
    if kind is SmemDescriptor:
        yield from element_faults(major, element)
    elif element.bits not in _UMMA_WIDTHS:
        problem = f"elements of {element.bits} bits have no layout in 16-byte chunks of their own"
        advice = f"use a type of {', '.join(map(str, _UMMA_WIDTHS))} bits, or the bytes that they are padded to"
        yield ELEMENT.diagnose(element=element, layout=layout, problem=problem, advice=advice)
    elif major is Major.MN and element.bits < _UMMA_TRANSPOSABLE:
        problem = f"elements of {element.bits} bits are read K-major only"
        yield ELEMENT.diagnose(element=element, layout=layout, problem=problem, advice="store the operand K-major")
    bits = layout.offset.bits if isinstance(layout, ComposedLayout) and isinstance(layout.offset, SmemPtr) else None
    if bits not in (None, element.bits):
        problem = f"its strides count elements of {bits} bits"
        advice = f"recast it: recast_layout(layout, {bits}, {element.bits})"
        yield ELEMENT.diagnose(element=element, layout=layout, problem=problem, advice=advice)


_Parts: TypeAlias = tuple[Swizzle | None, int, Layout, bool]


def _parts(layout: AnyLayout, element: ElementType) -> _Parts:
    """The swizzle of bytes (None where it tears them apart), first element, layout within, whether by address."""
    if isinstance(layout, Layout):
        return Swizzle(0, 0, 0), 0, layout, False
    if isinstance(layout.offset, SmemPtr):
        return layout.swizzle, 0, layout.layout_b, True
    wide = element.bits >= BYTE_BITS
    try:
        recast = layout.swizzle.downcast if wide else layout.swizzle.upcast
        function = recast(element.bits // BYTE_BITS if wide else BYTE_BITS // element.bits)
    except DiagnosticError:
        return None, layout.offset, layout.layout_b, False
    return function, layout.offset, layout.layout_b, False


def _form(major: Major, layout: AnyLayout, function: Swizzle | None, kind: type[Descriptor]) -> CanonicalForm:
    """The form with this swizzle; a swizzle of 0 bits counts as no swizzle. Raises descriptor.swizzle-mode."""
    known = [form for form in FORMS if form.major is major and (form.gmma or kind is Tcgen05SmemDescriptor)]
    for form in known:
        if function is not None and (form.swizzle == function or form.swizzle.bits == function.bits == 0):
            return form
    SWIZZLE_MODE.fail(
        layout=layout,
        swizzle=function or "parts of bytes",
        known=", ".join(str(form.swizzle) for form in known),
        major=major,
    )


@dataclass(frozen=True, slots=True)
class FormReader:
    """A check of a layout against a form, and the words for its result."""

    form: CanonicalForm
    element: ElementType
    layout: AnyLayout | str

    @property
    def _name(self) -> str:
        return f"{self.layout} as {self.form.major} operand of {self.element}"

    @property
    def _chunk(self) -> int:
        return CHUNK_BITS // self.element.bits

    def extent_faults(self, inner: Layout, kind: type[Descriptor]) -> Iterator[Diagnostic]:
        """Whether it is a matrix of whole core matrices, with the K of one instruction."""
        if rank(inner) != 2:
            problem = f"it has {rank(inner)} modes"
            advice = "give the mode of one operand, (M or N, K); smem_desc takes (MMA, rest ...)"
            yield EXTENT.diagnose(operand=self._name, problem=problem, advice=advice)
            return
        rows, columns = size(inner, 0), size(inner, 1)
        legal = [bits // self.element.bits for bits in _K_BITS[kind]]
        if columns not in legal:
            problem = f"it has {columns} columns, and one instruction reads {' or '.join(map(str, legal))} of K"
            advice = f"divide the tile, tiled_divide(layout, (rows, {legal[0]})), and pass that to smem_desc"
            yield EXTENT.diagnose(operand=self._name, problem=problem, advice=advice)
        along, _ = self.form._oriented(rows, columns)
        row = self.form.width * self._chunk
        step = self.form.lines if self.form.major is Major.K else row if rows > row else self._chunk
        if rows % step:
            problem = f"{rows} rows are not a whole number of {step}"
            advice = f"use {-(-rows // step) * step} rows"
            yield EXTENT.diagnose(operand=self._name, problem=problem, advice=advice)
        if self.form.along is None and along > row:
            problem = f"{along} columns leave the {row} in a row of the swizzle pattern, and no offset leads further"
            yield EXTENT.diagnose(operand=self._name, problem=problem, advice="take a wider swizzle, or none")

    def contiguity_faults(self, inner: Layout, offset: int) -> Iterator[Diagnostic]:
        """Whether chunks of 16 bytes are neighbours along the contiguous dimension, at multiples of 16 bytes."""
        along, across = self.form._oriented(*inner.modes)
        first, *others = flat_modes(coalesce(along))
        if first[1] != 1 or first[0] % self._chunk:
            lies = f"the first {first[0]}" if first[1] == 1 else "none"
            problem = f"of {self._chunk} neighbours along {self._axis(along=True)}, {lies} lie side by side"
            yield self._not_contiguous(problem, across)
            return
        yield from self._unaligned([*others, *flat_modes(coalesce(across))], "elements")
        if offset % self._chunk:
            yield self._not_contiguous(f"it begins at element {offset}, inside 16 bytes", None)

    def unaligned(self, mode: Layout, what: str) -> Iterator[Diagnostic]:
        """Whether all strides of a mode are whole chunks."""
        yield from self._unaligned(flat_modes(mode), what)

    def _unaligned(self, flat: list[tuple[int, int]], what: str) -> Iterator[Diagnostic]:
        wrong = [stride for extent, stride in flat if extent > 1 and stride % self._chunk]
        if wrong:
            yield self._not_contiguous(f"{what} lie {', '.join(map(str, wrong))} elements apart", None)

    def _not_contiguous(self, problem: str, across: Layout | None) -> Diagnostic:
        """`across` is the other mode, which may turn out to be the contiguous mode."""
        turned = across is not None and flat_modes(coalesce(across))[0][1] == 1
        other = (
            f"; neighbours along {self._axis(along=False)} are: it may be meant the other way round" if turned else ""
        )
        axis = self._axis(along=True)
        return CONTIGUOUS.diagnose(operand=self._name, problem=problem, chunk=self._chunk, axis=axis, other=other)

    def _axis(self, *, along: bool) -> str:
        return "K" if along == (self.form.major is Major.K) else "M or N"

    def read(self, chunks: Layout) -> tuple[dict[Stride, int], int]:
        """The offsets of the chunks in bytes, and the bytes in a row. Raises all that differs from the form."""
        along, across = self.form._oriented(*chunks.modes)
        width = min(self.form.width, size(along))
        strides, faults = {}, []
        steps = (
            (along, width, 1, self.form.along, "the chunks of a row lie"),
            (across, self.form.lines, self.form.width, self.form.across, "the rows of a core matrix lie"),
        )
        for mode, extent, pitch, stride, what in steps:
            inner, outer = _divided(mode, extent)
            if inner is None or outer is None:
                problem = what.removesuffix(" lie") if inner is None else "core matrices"
                faults.append(STRIDE.diagnose(operand=self._name, what=problem, found=text(mode.stride)))
                continue
            if extent > 1 and inner[1] != pitch:
                faults.append(self._wrong_pitch(what, inner[1] * UNIT, pitch * UNIT))
            if stride is not None and outer[0] > 1:
                strides[stride] = int(outer[1]) * UNIT
        raise_all(faults)
        return strides, width * UNIT

    def _wrong_pitch(self, what: str, panel_pitch: int, pitch: int) -> Diagnostic:
        fitting = [form.name for form in FORMS if form.major is self.form.major and form.width * UNIT == panel_pitch]
        other = f", or make it one with {fitting[0]} swizzle" if fitting and "rows" in what else ""
        return CORE_MATRIX.diagnose(
            operand=self._name,
            what=what,
            given=panel_pitch,
            swizzle=self.form.name,
            wanted=pitch,
            form=self.form.in_elements,
            other=other,
        )


def _divided(mode: Layout, extent: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """(extent, stride) of a mode's first `extent` elements, and of the rest; None where there is not one stride."""
    try:
        parts = logical_divide(coalesce(mode), extent).modes
    except DiagnosticError:
        return None, None
    flat = [flat_modes(coalesce(part)) for part in parts]
    inner, outer = (part[0] if len(part) == 1 else None for part in flat)
    return inner, outer
