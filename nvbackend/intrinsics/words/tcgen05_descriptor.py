"""The words that tell tcgen05.mma what it multiplies: the instruction descriptor, and the sm_100 shared-memory one.

PTX ISA 9.7.16.4.1 (shared-memory descriptor), 9.7.16.4.2 (instruction descriptor) and 9.7.16.2.1 (shapes); the public
header cute/arch/mma_sm100_desc.hpp has the same fields. Neither was run on hardware here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import replace

from nvbackend.diagnostics import Diagnostic, Rule, raise_all, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import (
    ElementType,
    bf16,
    e2m1,
    e2m3,
    e3m2,
    e4m3,
    e5m2,
    f16,
    f32,
    s8,
    s32,
    tf32,
    u8,
    ue4m3,
    ue8m0,
)
from nvbackend.intrinsics.words.bitfield import Field, PackedWord
from nvbackend.intrinsics.words.scale_triples import ACCUMULATOR
from nvbackend.intrinsics.words.smem_descriptor import UNIT, advanced

_REFERENCE = "PTX ISA 9.7.16.4.2 (instruction descriptor)"

SMEM_VERSION = 1
"""What marks a shared-memory descriptor as one of sm_100."""
SMEM_WORD = PackedWord(
    "tcgen05 shared-memory descriptor",
    64,
    (
        Field("start_address", 0, 14, "byte address of the tile's first element", UNIT),
        Field("leading_byte_offset", 16, 14, "LBO in bytes", UNIT),
        Field("stride_byte_offset", 32, 14, "SBO in bytes", UNIT),
        Field("version", 46, 2, "1 for tcgen05", values=(SMEM_VERSION,)),
        Field("base_offset", 49, 3, "bits 7-9 of the address where the swizzle pattern starts"),
        Field("leading_mode", 52, 1, "0 LBO is an offset, 1 an address"),
        Field("swizzle", 61, 3, "0 none, 1 128 B with 32 B atoms, 2 128 B, 4 64 B, 6 32 B", values=(0, 1, 2, 4, 6)),
    ),
    "PTX ISA 9.7.16.4.1 (shared memory descriptor)",
)
_ADDRESS = SMEM_WORD.field("start_address")


@user_facing
class Tcgen05Swizzle(enum.Enum):
    """How 16-byte chunks (32-byte ones for B128_ATOM32) of eight rows are permuted; the value is the word's code."""

    NONE = 0
    B128_ATOM32 = 1
    B128 = 2
    B64 = 4
    B32 = 6


@user_facing
@dataclass(frozen=True, slots=True)
class Tcgen05SmemDescriptor:
    """Where A or B of a tcgen05.mma, or the source of a tcgen05.cp, lies in shared memory. Offsets in bytes, by 16.

    `leading_is_address` makes LBO an address instead of an offset (for K = 96). Raises, for all fields together,
    descriptor.range and descriptor.alignment.
    """

    start_address: int
    leading_byte_offset: int
    stride_byte_offset: int
    base_offset: int = 0
    swizzle: Tcgen05Swizzle = Tcgen05Swizzle.NONE
    leading_is_address: bool = False

    def __post_init__(self) -> None:
        raise_all(SMEM_WORD.check(self._values()))

    def _values(self) -> dict[str, int]:
        return {
            "start_address": self.start_address,
            "leading_byte_offset": self.leading_byte_offset,
            "stride_byte_offset": self.stride_byte_offset,
            "version": SMEM_VERSION,
            "base_offset": self.base_offset,
            "leading_mode": int(self.leading_is_address),
            "swizzle": self.swizzle.value,
        }

    def encode(self) -> int:
        """The 64-bit word."""
        return SMEM_WORD.encode(self._values())

    @classmethod
    def decode(cls, word: int) -> Tcgen05SmemDescriptor:
        """The descriptor of a word. Raises descriptor.reserved-bits and descriptor.range (a Hopper word among them)."""
        values = SMEM_WORD.decode(word)
        del values["version"]
        mode, swizzle = values.pop("leading_mode"), Tcgen05Swizzle(values.pop("swizzle"))
        return cls(**values, swizzle=swizzle, leading_is_address=bool(mode))

    @property
    def template_word(self) -> int:
        """The word without the address, for `smem_descriptor.ADDRESS_MASK` and `ADDRESS_SHIFT` as in wgmma."""
        return self.encode() & ~_ADDRESS.mask

    def advance(self, bytes: int) -> Tcgen05SmemDescriptor:
        """The descriptor `bytes` further on, or back where negative; nothing but the address changes.

        Raises descriptor.advance-unit and descriptor.advance-carry.
        """
        return replace(self, start_address=advanced(self.start_address, bytes))


K96 = 96
"""The K that some instructions of 4-bit types have by a bit of the descriptor."""
_FLAGS = (
    Field("negate_a", 13, 1, "1 negates A"),
    Field("negate_b", 14, 1, "1 negates B"),
    Field("transpose_a", 15, 1, "0 K-major, 1 MN-major"),
    Field("transpose_b", 16, 1, "0 K-major, 1 MN-major"),
    Field("n", 17, 6, "columns of D", 8),
)
_SPARSE = Field("sparse", 2, 1, "1: A is sparse")
_A_FORMAT = Field("a_format", 7, 3, "type of A")
_MX_M = Field("m", 27, 2, "rows of D", 128)

_INSTRUCTION_DESCRIPTOR = "PTX ISA 9.7.16.4.2 (instruction descriptor)"

DENSE_WORD = PackedWord(
    "tcgen05 instruction descriptor",
    32,
    (
        Field("selector", 0, 2, "sparsity selector"),
        _SPARSE,
        Field("saturate", 3, 1, "1: D saturates"),
        Field("d_format", 4, 2, "type of D: 0 f16, 1 f32, 2 s32", values=(0, 1, 2)),
        _A_FORMAT,
        Field("b_format", 10, 3, "type of B"),
        *_FLAGS,
        Field("m", 24, 5, "rows of D", 16),
        Field("max_shift", 30, 2, "largest shift of a reused B: 0 none, 1 8, 2 16, 3 32"),
    ),
    _INSTRUCTION_DESCRIPTOR,
)
MXF8F6F4_WORD = PackedWord(
    "tcgen05 instruction descriptor of mxf8f6f4",
    32,
    (
        _SPARSE,
        Field("scale_b_id", 4, 2, "byte of B's scale-factor columns"),
        _A_FORMAT,
        Field("b_format", 10, 3, "type of B"),
        *_FLAGS,
        Field("scale_format", 23, 1, "type of the scale factors: 1 ue8m0", values=(1,)),
        _MX_M,
        Field("scale_a_id", 29, 2, "byte of A's scale-factor columns"),
    ),
    _INSTRUCTION_DESCRIPTOR,
)
MXF4_WORD = PackedWord(
    "tcgen05 instruction descriptor of mxf4 and mxf4nvf4",
    32,
    (
        _SPARSE,
        Field("scale_b_id", 4, 2, "byte of B's scale-factor columns", values=(0, 2)),
        _A_FORMAT,
        Field("b_format", 10, 2, "type of B"),
        *_FLAGS,
        Field("scale_format", 23, 1, "type of the scale factors: 0 ue4m3, 1 ue8m0"),
        _MX_M,
        Field("scale_a_id", 29, 2, "byte of A's scale-factor columns", values=(0, 2)),
        Field("k96", 31, 1, "1: a dense K of 96 instead of 64"),
    ),
    _INSTRUCTION_DESCRIPTOR,
)

_D_FORMATS = {f16: 0, f32: 1, s32: 2}
_SCALE_FORMATS = {ue4m3: 0, ue8m0: 1}
_F8F6F4 = {e4m3: 0, e5m2: 1, e2m3: 3, e3m2: 4, e2m1: 5}
MAX_SHIFTS = {0: 0, 8: 1, 16: 2, 32: 3}
"""Largest shifts of a reused B in columns, and their codes."""


@dataclass(frozen=True, slots=True)
class DescriptorForm:
    """What the instruction descriptor of a kind can say: codes of A's and B's types, types of D and scale factors."""

    word: PackedWord
    multiplicands: Mapping[ElementType, int]
    d: tuple[ElementType, ...]
    k: int
    scales: tuple[ElementType, ...] = ()


FORMS: dict[str, DescriptorForm] = {
    "f16": DescriptorForm(DENSE_WORD, {f16: 0, bf16: 1}, (f16, f32), 16),
    "tf32": DescriptorForm(DENSE_WORD, {tf32: 2}, (f32,), 8),
    "f8f6f4": DescriptorForm(DENSE_WORD, _F8F6F4, (f16, f32), 32),
    "i8": DescriptorForm(DENSE_WORD, {u8: 0, s8: 1}, (s32,), 32),
    "mxf8f6f4": DescriptorForm(MXF8F6F4_WORD, _F8F6F4, (f32,), 32, (ue8m0,)),
    "mxf4": DescriptorForm(MXF4_WORD, {e2m1: 1}, (f32,), 64, (ue8m0,)),
    "mxf4nvf4": DescriptorForm(MXF4_WORD, {e2m1: 1}, (f32,), 64, (ue8m0, ue4m3)),
}
"""Every kind's form; the keys are those of `tcgen05.KINDS`. K is that of a dense instruction, in elements."""

KIND = Rule(
    id="tcgen05.descriptor-kind",
    message="no instruction descriptor is defined for kind {given!r}",
    fix="use one of {legal}",
    why="The meaning of the bits depends on the kind.",
    reference=_REFERENCE,
)
TYPES = Rule(
    id="tcgen05.types",
    message="kind::{kind} has no {operand} of type {given}",
    fix="use {legal}",
    why="The code of the type means another one in this kind, or none: the bits are read as what they are not.",
    reference=f"{_REFERENCE}; 9.7.16.2.1 (table of kinds and shapes)",
)
MODIFIER = Rule(
    id="tcgen05.modifier",
    message="an instruction descriptor of kind::{kind} cannot say {modifier}: {reason}",
    fix="leave {modifier} out, or choose a kind or type that has it",
    why="The bit is reserved there: what the tensor core does with it is not defined.",
    reference=_REFERENCE,
)


def _form(kind: str) -> DescriptorForm:
    form = FORMS.get(kind) if isinstance(kind, str) else None
    if form is None:
        KIND.fail(given=kind, legal=", ".join(FORMS))
    return form


@user_facing
@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionDescriptor:
    """Shape, types and layouts of a tcgen05.mma: D (m x n) of type `d`, `a` and `b` the types of A and B.

    `kind` is the instruction's. `scale` is the type of the scale factors of an mx kind, which `scale_a_id` and
    `scale_b_id` place. `transpose_a` and `transpose_b`: the operand is MN-major. `max_shift` columns of a
    weight-stationary instruction: 0, 8, 16 or 32. Raises tcgen05.descriptor-kind, or, all together, tcgen05.types,
    block-scale.accumulator, tcgen05.modifier, descriptor.range, descriptor.alignment. The shape is checked
    by `isel.select.tcgen05.shapes`.
    """

    kind: str
    m: int
    n: int
    a: ElementType
    b: ElementType
    d: ElementType
    scale: ElementType | None = None
    sparse: bool = False
    selector: int = 0
    saturate: bool = False
    negate_a: bool = False
    negate_b: bool = False
    transpose_a: bool = False
    transpose_b: bool = False
    max_shift: int = 0
    scale_a_id: int = 0
    scale_b_id: int = 0
    k96: bool = False

    def __post_init__(self) -> None:
        faults = [*self._wrong_types(), *self._wrong_modifiers()]
        raise_all(faults or self.form.word.check(self._values()))

    @property
    def form(self) -> DescriptorForm:
        """What descriptors of this kind can say."""
        return _form(self.kind)

    @property
    def k(self) -> int:
        """The K of the instruction in elements; a sparse A holds half of the columns."""
        return K96 if self.k96 else self.form.k * (2 if self.sparse else 1)

    def _wrong_types(self) -> Iterator[Diagnostic]:
        scales = self.form.scales or (None,)
        asked: tuple[tuple[str, ElementType | None, tuple[ElementType | None, ...]], ...] = (
            ("A", self.a, tuple(self.form.multiplicands)),
            ("B", self.b, tuple(self.form.multiplicands)),
            ("D", self.d, (f32,) if bf16 in (self.a, self.b) else self.form.d),
            ("scale factors", self.scale, scales),
        )
        for operand, element, legal in asked:
            if element not in legal and operand == "D" and self.form.scales:
                yield ACCUMULATOR.diagnose(given=element)
            elif element not in legal:
                yield TYPES.diagnose(
                    kind=self.kind, operand=operand, given=element, legal=" or ".join(str(allowed) for allowed in legal)
                )

    def _wrong_modifiers(self) -> Iterator[Diagnostic]:
        integer, scaled = self.kind == "i8", bool(self.form.scales)
        asked = (
            ("saturate", self.saturate and not integer, "only integers saturate"),
            ("negate_a", self.negate_a and integer, "integers are not negated"),
            ("negate_b", self.negate_b and integer, "integers are not negated"),
            ("transpose_a", self.transpose_a and self.a.bits < 8, f"{self.a} is K-major only"),
            ("transpose_b", self.transpose_b and self.b.bits < 8, f"{self.b} is K-major only"),
            ("selector", self.selector and (scaled or not self.sparse), "it belongs to a sparse A without block scale"),
            ("max_shift", self.max_shift and scaled, "a weight-stationary form does not exist"),
            ("max_shift", self.max_shift not in MAX_SHIFTS, f"it is one of {', '.join(map(str, MAX_SHIFTS))}"),
            ("scale_a_id", self.scale_a_id and not scaled, "it has no scale factors"),
            ("scale_b_id", self.scale_b_id and not scaled, "it has no scale factors"),
            ("k96", self.k96 and (self.sparse or self.form.word is not MXF4_WORD), "only a dense mxf4 or mxf4nvf4"),
        )
        for modifier, broken, reason in asked:
            if broken:
                yield MODIFIER.diagnose(kind=self.kind, modifier=modifier, reason=reason)

    def _values(self) -> dict[str, int]:
        """The fields of the kind's word, in the order of the word."""
        values = {
            "selector": self.selector,
            "sparse": int(self.sparse),
            "saturate": int(self.saturate),
            "d_format": _D_FORMATS[self.d],
            "scale_b_id": self.scale_b_id,
            "a_format": self.form.multiplicands[self.a],
            "b_format": self.form.multiplicands[self.b],
            "negate_a": int(self.negate_a),
            "negate_b": int(self.negate_b),
            "transpose_a": int(self.transpose_a),
            "transpose_b": int(self.transpose_b),
            "n": self.n,
            "scale_format": _SCALE_FORMATS[self.scale] if self.scale else 0,
            "m": self.m,
            "scale_a_id": self.scale_a_id,
            "k96": int(self.k96),
            "max_shift": MAX_SHIFTS[self.max_shift],
        }
        return {field.name: values[field.name] for field in self.form.word.fields}

    def encode(self) -> int:
        """The 32-bit word."""
        return self.form.word.encode(self._values())

    @classmethod
    def decode(cls, word: int, kind: str) -> InstructionDescriptor:
        """The descriptor of a word of an instruction of this kind.

        Raises descriptor.reserved-bits, descriptor.range for more than 32 bits or a code without meaning, and
        tcgen05.descriptor-kind.
        """
        form = _form(kind)
        values = form.word.decode(word)
        shifts = {code: columns for columns, code in MAX_SHIFTS.items()}
        flags = ("sparse", "saturate", "negate_a", "negate_b", "transpose_a", "transpose_b", "k96")
        return cls(
            kind=kind,
            m=values["m"],
            n=values["n"],
            a=_type_of(form.word, "a_format", values, form.multiplicands),
            b=_type_of(form.word, "b_format", values, form.multiplicands),
            d=_type_of(form.word, "d_format", values, {element: _D_FORMATS[element] for element in form.d}),
            scale=_type_of(
                form.word, "scale_format", values, {element: _SCALE_FORMATS[element] for element in form.scales}
            )
            if form.scales
            else None,
            max_shift=shifts[values.get("max_shift", 0)],
            selector=values.get("selector", 0),
            scale_a_id=values.get("scale_a_id", 0),
            scale_b_id=values.get("scale_b_id", 0),
            **{name: bool(values.get(name, 0)) for name in flags},
        )


def _type_of(word: PackedWord, name: str, values: Mapping[str, int], codes: Mapping[ElementType, int]) -> ElementType:
    """The type whose code the field holds; the only one where the word has no such field."""
    by_code = {code: element for element, code in codes.items()}
    if name not in values:
        return next(iter(codes))
    field = replace(word.field(name), values=tuple(by_code))
    raise_all(field.check(word, values[name]))
    return by_code[values[name]]
