"""WMMA rows: a warp loads fragments of matrices, multiplies them, and stores the result. PTX ISA 9.7.14.4.

The lattice is what the PTX ISA documents and ptxas 13.5 takes; NOT_OFFERED says what of ptxas's is left out. Operand
names: `fragment`, `address` and `stride` of loads and stores; `d`, `a`, `b`, `c` of the multiplication. Every spelling
has `.aligned`, which PTX has from 6.3 on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cache

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.fragments.wmma import (
    ACCUMULATORS,
    FRAGMENTS,
    LAYOUTS,
    MULTIPLICANDS,
    Shape,
    contiguous,
    extent,
    register_class,
    register_count,
    spelled_shape,
)
from nvbackend.intrinsics.mma.families import WMMA as FAMILY
from nvbackend.intrinsics.mma.families import WMMA_MMA as MMA
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Effect,
    Intrinsic,
    NoSuchRow,
    PtxVersion,
    RegisterClass,
    Row,
    RowOperand,
    chosen,
    operand,
    output,
    spelled,
)
from nvbackend.intrinsics.row.semantics import Matrix, OpaqueFragment, Semantics, reads, writes
from nvbackend.intrinsics.row.types import ElementType, b1, bf16, f16, f32, f64, s4, s8, s32, tf32, u4, u8

_ALIGNED_PTX: PtxVersion = (6, 3)
_AMPERE_PTX: PtxVersion = (7, 0)
_AND_POPC_PTX: PtxVersion = (7, 1)

SPACES: dict[str | None, RegisterClass] = {
    None: RegisterClass.GENERIC,
    "global": RegisterClass.GLOBAL,
    "shared": RegisterClass.SHARED,
}
"""State spaces of loads and stores, None for a generic address, and the class of the address."""
STORED = "d"
"""The fragment that is stored; the others are loaded."""
_OPAQUE = "an opaque fragment: only wmma knows which element is where"
LayoutPair = tuple[str, str]
Needs = tuple[Feature, PtxVersion]
"""What a target must have: features, and a PTX version at least."""


@dataclass(frozen=True)
class WmmaTypes:
    """Types that A and B have, both the same one, with what the instruction offers for them.

    C and D are each of any of `accumulators`. `popc` has the gate of each bit operation of b1.
    """

    types: tuple[ElementType, ...]
    shapes: tuple[Shape, ...]
    accumulators: tuple[ElementType, ...]
    gate: Needs
    layouts: tuple[LayoutPair, ...] = tuple(itertools.product(LAYOUTS, LAYOUTS))
    saturates: bool = False
    roundings: tuple[str | None, ...] = (None,)
    popc: Mapping[str | None, Needs] = field(default_factory=dict)

    @property
    def operations(self) -> tuple[str | None, ...]:
        """The bit operations before the population count; (None,) without such a count."""
        return tuple(self.popc) or (None,)

    def types_of(self, fragment: str) -> tuple[ElementType, ...]:
        """The element types of `fragment`."""
        return self.types if fragment in MULTIPLICANDS else self.accumulators

    def layouts_of(self, fragment: str) -> tuple[str, ...]:
        """The layouts in which `fragment` can lie in memory."""
        if fragment in ACCUMULATORS:
            return LAYOUTS
        place = MULTIPLICANDS.index(fragment)
        return tuple(layout for layout in LAYOUTS if any(pair[place] == layout for pair in self.layouts))


_SIXTEEN_DEEP: tuple[Shape, ...] = ((16, 16, 16), (8, 32, 16), (32, 8, 16))
_SUB_BYTE_LAYOUTS: tuple[LayoutPair, ...] = (("row", "col"),)
_TURING: Needs = (Feature.SM_75, _ALIGNED_PTX)
_AMPERE: Needs = (Feature.SM_80, _AMPERE_PTX)

KINDS: tuple[WmmaTypes, ...] = (
    WmmaTypes((f16,), _SIXTEEN_DEEP, (f16, f32), (Feature.NONE, _ALIGNED_PTX)),
    WmmaTypes((bf16,), _SIXTEEN_DEEP, (f32,), _AMPERE),
    WmmaTypes((tf32,), ((16, 16, 8),), (f32,), _AMPERE),
    WmmaTypes((f64,), ((8, 8, 4),), (f64,), _AMPERE, roundings=(None, "rn", "rz", "rm", "rp")),
    WmmaTypes((s8, u8), _SIXTEEN_DEEP, (s32,), (Feature.SM_72, _ALIGNED_PTX), saturates=True),
    WmmaTypes((s4, u4), ((8, 8, 32),), (s32,), _TURING, _SUB_BYTE_LAYOUTS, saturates=True),
    WmmaTypes(
        (b1,),
        ((8, 8, 128),),
        (s32,),
        _TURING,
        _SUB_BYTE_LAYOUTS,
        popc={"xor": _TURING, "and": (Feature.SM_80, _AND_POPC_PTX)},
    ),
)
"""The types of the multiplicands, the older ones first."""

SHAPES: tuple[Shape, ...] = tuple(dict.fromkeys(shape for kind in KINDS for shape in kind.shapes))

NOT_OFFERED: dict[str, str] = {
    "wmma.mma f64 m16n16k16 and m16n16k8": "not in the PTX ISA; ptxas takes them and emits no multiplication",
    "wmma.load.c and wmma.store.d f32 m8n8k32 and m8n8k128": "not in the PTX ISA; no wmma.mma has such a matrix",
    "wmma.load and wmma.store .shared::cta": "the same instruction as .shared, which is what LLVM prints",
    "wmma.mma f16 .satfinite": "removed in PTX 6.5; LLVM selects it, and ptxas takes it from files of PTX 6.3 and 6.4",
}
"""What ptxas takes and has no row, and why."""


def kind_of(element: ElementType) -> WmmaTypes | None:
    """The kind that multiplies `element`, None where wmma does not."""
    return next((kind for kind in KINDS if element in kind.types), None)


def kind_of_fragment(fragment: str, shape: Shape, element: ElementType) -> WmmaTypes | None:
    """The first kind that has such a fragment, or None."""
    if fragment not in FRAGMENTS:
        return None
    return next((kind for kind in KINDS if shape in kind.shapes and element in kind.types_of(fragment)), None)


def gate_of_mma(kind: WmmaTypes, popc: str | None) -> Needs:
    """What a target must have to multiply."""
    return kind.popc.get(popc, kind.gate)


@cache
def load(fragment: str, shape: Shape, element: ElementType, layout: str, space: str | None, *, strided: bool) -> Row:
    """wmma.load: `fragment` ("a", "b" or "c") of a matrix in memory. Raises NoSuchRow outside of the lattice.

    `strided` has the operand `stride`, the elements from one row (or column) to the next; else they follow at once.
    """
    chosen("fragment", fragment, tuple(legal for legal in FRAGMENTS if legal != STORED))
    return _move("load", "9.7.14.4.3", fragment, shape, element, layout, space, strided)


@cache
def store(shape: Shape, element: ElementType, layout: str, space: str | None, *, strided: bool) -> Row:
    """wmma.store: fragment D into a matrix in memory, with the axes of a load. Raises NoSuchRow likewise."""
    return _move("store", "9.7.14.4.4", STORED, shape, element, layout, space, strided)


def _move(
    operation: str,
    section: str,
    fragment: str,
    shape: Shape,
    element: ElementType,
    layout: str,
    space: str | None,
    strided: bool,
) -> Row:
    chosen("shape", shape, SHAPES)
    kind = kind_of_fragment(fragment, shape, element)
    if kind is None:
        raise NoSuchRow(f"wmma has no fragment {fragment} of {spelled_shape(shape)} {element}")
    chosen("layout", layout, kind.layouts_of(fragment))
    register = SPACES[chosen("space", space, SPACES)]
    opcode = f"wmma.{operation}.{fragment}"
    count = register_count(fragment, shape, element)
    address = operand("address", register, meaning="the matrix's first element, aligned to the fragment's bytes")
    values = (output if operation == "load" else operand)("fragment", register_class(element), count, meaning=_OPAQUE)
    operands: tuple[RowOperand, ...] = (values, address) if operation == "load" else (address, values)
    if strided:
        between = "elements from one row (column) to the next"
        operands += (operand("stride", RegisterClass.B32, meaning=between, element=s32),)
    features, ptx_version = kind.gate
    laid_out = layout if fragment in MULTIPLICANDS else None
    accesses = reads if operation == "load" else writes
    return Row(
        family=FAMILY,
        opcode=opcode,
        ptx=spelled(opcode, "sync.aligned", layout, spelled_shape(shape), space, element.ptx),
        operands=operands,
        lowering=Intrinsic(
            spelled(
                f"llvm.nvvm.wmma.{spelled_shape(shape)}.{operation}.{fragment}.{layout}",
                "stride" if strided else None,
                f"{element.ptx}.p{register.addrspace}",
            ),
            tuple(operand.name for operand in operands if operand is not values or operation == "store"),
        ),
        requires=features,
        ptx_version=ptx_version,
        effects=Effect.CONVERGENT | (Effect.READS_MEMORY if operation == "load" else Effect.WRITES_MEMORY),
        semantics=Semantics(
            memory=(accesses(address.name, _matrix(fragment, shape, element, layout)),),
            fragments=(OpaqueFragment(values.name, fragment, shape, element, laid_out),),
        ),
        section=section,
        summary=f"A warp {operation}s its fragment {fragment.upper()} of a matrix.",
        axes={
            "operation": operation,
            "fragment": fragment,
            "shape": shape,
            "element": element,
            "layout": layout,
            "space": space,
            "strided": strided,
        },
    )


def _matrix(fragment: str, shape: Shape, element: ElementType, layout: str) -> Matrix:
    rows, columns = extent(fragment, shape)
    line = contiguous(fragment, shape, layout)
    return Matrix(rows * columns // line, line, element.bits)


def _fragments(shape: Shape, elements: Mapping[str, ElementType], layouts: LayoutPair) -> tuple[OpaqueFragment, ...]:
    layout = dict(zip(MULTIPLICANDS, layouts, strict=True))
    return tuple(OpaqueFragment(name, name, shape, element, layout.get(name)) for name, element in elements.items())


@cache
def mma(
    shape: Shape,
    a: ElementType,
    c: ElementType,
    d: ElementType,
    layouts: LayoutPair,
    *,
    satfinite: bool = False,
    rounding: str | None = None,
    popc: str | None = None,
) -> Row:
    """wmma.mma: D = A * B + C. A and B are of type `a`, in the `layouts` that they were loaded from.

    Raises NoSuchRow outside of the lattice.
    """
    kind = _chosen_kind(shape, a, c, d, layouts, satfinite, rounding, popc)
    elements = {"d": d, "a": a, "b": a, "c": c}
    operands = tuple(
        (output if name == "d" else operand)(
            name, register_class(element), register_count(name, shape, element), meaning=_OPAQUE
        )
        for name, element in elements.items()
    )
    operation = f"{popc}.popc" if popc else None
    types = spelled(d.ptx, c.ptx) if a is f16 else spelled(d.ptx, a.ptx, a.ptx, c.ptx)
    features, ptx_version = gate_of_mma(kind, popc)
    named = spelled(d.ptx, c.ptx) if a is f16 else a.ptx
    tail = "satfinite" if satfinite else None
    return Row(
        family=FAMILY,
        opcode=MMA,
        ptx=spelled(MMA, operation, "sync.aligned", *layouts, spelled_shape(shape), rounding, types, tail),
        operands=operands,
        lowering=Intrinsic(
            spelled("llvm.nvvm.wmma", spelled_shape(shape), "mma", operation, *layouts, rounding, named, tail),
            ("a", "b", "c"),
        ),
        requires=features,
        ptx_version=ptx_version,
        effects=Effect.CONVERGENT,
        semantics=Semantics(fragments=_fragments(shape, elements, layouts), multiplies=True),
        section="9.7.14.4.5",
        summary="A warp multiplies its fragments A and B, and adds C.",
        axes={
            "shape": shape,
            **elements,
            "a_layout": layouts[0],
            "b_layout": layouts[1],
            "satfinite": satfinite,
            "rounding": rounding,
            "popc": popc,
        },
    )


def _chosen_kind(
    shape: Shape,
    a: ElementType,
    c: ElementType,
    d: ElementType,
    layouts: LayoutPair,
    satfinite: bool,
    rounding: str | None,
    popc: str | None,
) -> WmmaTypes:
    types = tuple(element for kind in KINDS for element in kind.types)
    kind = next(kind for kind in KINDS if chosen("a", a, types) in kind.types)
    chosen("shape", shape, kind.shapes)
    chosen("c", c, kind.accumulators)
    chosen("d", d, kind.accumulators)
    chosen("layouts", layouts, kind.layouts)
    chosen("satfinite", satfinite, (False, True) if kind.saturates else (False,))
    chosen("rounding", rounding, kind.roundings)
    chosen("popc", popc, kind.operations)
    return kind


def rows() -> Iterator[Row]:
    """Every row: loads, stores, then the multiplications, in the order of KINDS."""
    for fragment in FRAGMENTS:
        yield from _moves(fragment)
    for kind in KINDS:
        yield from _multiplications(kind)


def _moves(fragment: str) -> Iterator[Row]:
    # Accumulators of one shape and type serve several kinds, and are one row.
    kinds = {
        (shape, element): kind_of_fragment(fragment, shape, element)
        for kind in KINDS
        for shape in kind.shapes
        for element in kind.types_of(fragment)
    }
    for (shape, element), kind in kinds.items():
        layouts = kind.layouts_of(fragment) if kind else ()
        for layout, space, strided in itertools.product(layouts, SPACES, (True, False)):
            if fragment == STORED:
                yield store(shape, element, layout, space, strided=strided)
            else:
                yield load(fragment, shape, element, layout, space, strided=strided)


def _multiplications(kind: WmmaTypes) -> Iterator[Row]:
    axes = itertools.product(
        kind.types,
        kind.shapes,
        kind.accumulators,
        kind.accumulators,
        kind.layouts,
        (False, True) if kind.saturates else (False,),
        kind.roundings,
        kind.operations,
    )
    for a, shape, c, d, layouts, satfinite, rounding, popc in axes:
        yield mma(shape, a, c, d, layouts, satfinite=satfinite, rounding=rounding, popc=popc)
