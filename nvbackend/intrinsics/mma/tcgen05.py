"""tcgen05.mma: the fifth-generation tensor core's D = A * B (+ D) over tensor memory. PTX ISA 9.7.16.10.

The lattice is what ptxas 13.5 accepts and the PTX ISA documents. One thread issues an instruction; it continues
asynchronously until a commit's mbarrier completes. Operand names: `d` the accumulator in tensor memory; `a` (tensor
memory) or `a_desc` (shared-memory descriptor); `b_desc`; `metadata` of a sparse A; `idesc` the instruction descriptor;
`scale_a`, `scale_b` the scale factors in tensor memory; `lanes` one bit for each lane of D that is not written;
`enable_d` (0: overwrite D, otherwise add to it); `scale_d` the immediate n of D * 2^-n; `zero_mask` the descriptor of
the columns of B that are taken for zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.mma.families import TCGEN05 as FAMILY
from nvbackend.intrinsics.mma.families import TCGEN05_MMA as MMA
from nvbackend.intrinsics.mma.families import TCGEN05_MMA_WS as MMA_WS
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Asm,
    Effect,
    Intrinsic,
    PtxVersion,
    RegisterClass,
    Role,
    Row,
    RowOperand,
    chosen,
    operand,
    spelled,
)
from nvbackend.intrinsics.row.semantics import Completion, Proxy, Semantics, reads, writes

CTA_GROUPS = (1, 2)
"""CTAs whose tensor cores work together on one instruction."""
SCALE_INPUT_D = tuple(range(16))
"""Legal scale-input-d: D is multiplied with 2 to the minus this."""
LANE_WORDS = {group: 4 * group for group in CTA_GROUPS}
"""32-bit words of a disable-output-lane mask: one bit for each of 128 lanes a CTA."""

USAGES = ("discard", "lastuse", "fill", "use")
"""What becomes of an operand in the collector, the tensor core's operand buffer; the place is LLVM's code."""
COLLECTORS: tuple[str | None, ...] = (None, *(f"a::{usage}" for usage in USAGES))
"""Collector of A; None is a::discard."""
ASHIFT_COLLECTORS: tuple[str | None, ...] = (None, "a::discard", "a::lastuse")
"""Those that go with ashift."""
WS_BUFFERS = ("b0", "b1", "b2", "b3")
WS_COLLECTORS: tuple[str | None, ...] = (None, *(f"{buffer}::{usage}" for buffer in WS_BUFFERS for usage in USAGES))
"""Collector of B of a weight-stationary instruction; None is b0::discard."""

PTX: PtxVersion = (8, 6)
"""The PTX version that brought tcgen05."""
BLOCK_PTX: PtxVersion = (8, 8)
"""The PTX version that brought `.block16` and `.block32`."""
EXPLICIT = "scale_vec::"
"""What the qualifiers begin with that say how many factors a row has."""


@dataclass(frozen=True, slots=True)
class MmaKind:
    """A `.kind`: the multiplicands that it takes together, and what goes with it.

    `scale_vectors` are the ways to say how many elements share a scale factor (None: not said), empty without block
    scale; `code` is LLVM's number of the dense kinds.
    """

    name: str
    code: int | None = None
    scale_vectors: tuple[str | None, ...] = ()
    scales_input_d: bool = False
    requires: Feature = Feature.NONE
    sparse_requires: Feature = Feature.NONE
    ptx_version: PtxVersion = PTX

    @property
    def block_scale(self) -> bool:
        """Whether A and B have scale factors."""
        return bool(self.scale_vectors)

    def needs(self, sparse: bool, scale_vector: str | None) -> Feature:
        """The features of a chip that has it so."""
        features = Feature.TMEM | self.requires
        if sparse:
            features |= self.sparse_requires
        return features | Feature.ARCH_CONDITIONAL if is_explicit(scale_vector) else features

    def first_ptx(self, scale_vector: str | None) -> PtxVersion:
        """The first PTX version that has it so."""
        blocked = scale_vector is not None and not is_explicit(scale_vector)
        return max(self.ptx_version, BLOCK_PTX) if blocked else self.ptx_version


_FP4 = Feature.ARCH_CONDITIONAL
KINDS: dict[str, MmaKind] = {
    kind.name: kind
    for kind in (
        MmaKind("f16", 0, scales_input_d=True),
        MmaKind("tf32", 1, scales_input_d=True),
        MmaKind("f8f6f4", 2),
        MmaKind("i8", 3, requires=Feature.TMEM_INT8),
        MmaKind("mxf8f6f4", None, (None, "scale_vec::1X", "block32")),
        MmaKind("mxf4", None, (None, "scale_vec::2X", "block32"), sparse_requires=_FP4),
        MmaKind(
            "mxf4nvf4",
            None,
            ("scale_vec::2X", "scale_vec::4X", "block16", "block32"),
            sparse_requires=_FP4,
            ptx_version=(8, 7),
        ),
    )
}
"""Every kind by name."""
DENSE_KINDS = tuple(name for name, kind in KINDS.items() if not kind.block_scale)
"""Kinds without block scale."""
BLOCK_SCALED_KINDS = tuple(name for name, kind in KINDS.items() if kind.block_scale)
"""Kinds with block scale."""


def is_explicit(scale_vector: str | None) -> bool:
    """Whether it is one of `scale_vec::NX`, which only targets with the suffix `a` take."""
    return isinstance(scale_vector, str) and scale_vector.startswith(EXPLICIT)


@cache
def mma(
    kind: str,
    *,
    cta_group: int = 1,
    a_in_tmem: bool = False,
    sparse: bool = False,
    scale_vector: str | None = None,
    collector: str | None = None,
    ashift: bool = False,
    scale_input_d: bool = False,
    disable_output_lane: bool = False,
) -> Row:
    """tcgen05.mma and tcgen05.mma.sp, with `.block_scale` for the mx kinds. PTX ISA 9.7.16.10.9.1.

    Shape, element types and layouts are in the instruction descriptor. Raises NoSuchRow outside of the lattice.
    """
    axes: dict[str, object] = {
        "kind": kind,
        "cta_group": cta_group,
        "a_in_tmem": a_in_tmem,
        "sparse": sparse,
        "weight_stationary": False,
        "scale_vector": scale_vector,
        "collector": collector,
        "ashift": ashift,
        "scale_input_d": scale_input_d,
        "disable_output_lane": disable_output_lane,
    }
    of = KINDS[chosen("kind", kind, KINDS)]
    for axis, legal in _legal(of, a_in_tmem, ashift).items():
        chosen(axis, axes[axis], legal)
    qualifiers = ("block_scale" if of.block_scale else None, scale_vector, "ashift" if ashift else None)
    operands = (
        *_multiplicands(a_in_tmem, sparse),
        *(_scale_factors() if of.block_scale else ()),
        *((_lanes(cta_group),) if disable_output_lane else ()),
        _ENABLE_D,
        *((_SCALE_D,) if scale_input_d else ()),
    )
    return Row(
        family=FAMILY,
        opcode=MMA,
        ptx=spelled(_opening(MMA, sparse, cta_group, kind), *qualifiers, _collected(collector)),
        operands=operands,
        lowering=_mma_lowering(of, operands, cta_group, scale_vector, collector, ashift, disable_output_lane),
        requires=of.needs(sparse, scale_vector) | (_SCALES_D if scale_input_d else Feature.NONE),
        ptx_version=of.first_ptx(scale_vector),
        effects=Effect.READS_MEMORY,
        semantics=_multiplying(operands, cta_group),
        section="9.7.16.10.9.1 (tcgen05.mma)",
        summary="Multiplies A with B into tensor memory.",
        axes=axes,
    )


_READ = ("a", "a_desc", "b_desc", "metadata", "scale_a", "scale_b")
"""Operands that say where an mma reads."""


def _multiplying(operands: tuple[RowOperand, ...], cta_group: int) -> Semantics:
    return Semantics(
        issues=Completion.COMMIT,
        memory=(writes("d"), *(reads(operand.name) for operand in operands if operand.name in _READ)),
        proxy=Proxy.ASYNC,
        multiplies=True,
        cta_group=cta_group,
    )


_SCALES_D = Feature.SCALE_INPUT_ACCUMULATOR
_BOTH = (False, True)


def _legal(kind: MmaKind, a_in_tmem: bool, ashift: bool) -> dict[str, tuple[object, ...]]:
    """What the axes of a tcgen05.mma of this kind can be."""
    return {
        "cta_group": CTA_GROUPS,
        "scale_vector": kind.scale_vectors or (None,),
        "ashift": _BOTH if a_in_tmem and not kind.block_scale else (False,),
        "collector": ASHIFT_COLLECTORS if ashift else COLLECTORS,
        "scale_input_d": _BOTH if kind.scales_input_d else (False,),
        "disable_output_lane": (False,) if kind.block_scale else _BOTH,
    }


def _opening(opcode: str, sparse: bool, cta_group: int, kind: str) -> str:
    return spelled(opcode, "sp" if sparse else None, f"cta_group::{cta_group}", f"kind::{kind}")


@cache
def mma_ws(
    kind: str,
    *,
    a_in_tmem: bool = False,
    sparse: bool = False,
    collector: str | None = None,
    zero_column_mask: bool = False,
) -> Row:
    """tcgen05.mma.ws and .ws.sp: weight-stationary, B stays in a buffer of the collector. PTX ISA 9.7.16.10.9.3.

    Of one CTA alone. Raises NoSuchRow outside of the lattice.
    """
    of = KINDS[chosen("kind", kind, DENSE_KINDS)]
    chosen("collector", collector, WS_COLLECTORS)
    operands = (
        *_multiplicands(a_in_tmem, sparse),
        _ENABLE_D,
        *((_ZERO_MASK,) if zero_column_mask else ()),
    )
    group = CTA_GROUPS[0]
    return Row(
        family=FAMILY,
        opcode=MMA_WS,
        ptx=spelled(_opening(MMA_WS, sparse, group, kind), _collected(collector)),
        operands=operands,
        lowering=_ws_lowering(of, operands, collector),
        requires=of.needs(sparse, None),
        ptx_version=of.ptx_version,
        effects=Effect.READS_MEMORY,
        semantics=_multiplying(operands, group),
        section="9.7.16.10.9.3 (tcgen05.mma.ws)",
        summary="Multiplies A with B into tensor memory; B stays in the tensor core for the next.",
        axes={
            "kind": kind,
            "cta_group": group,
            "a_in_tmem": a_in_tmem,
            "sparse": sparse,
            "weight_stationary": True,
            "collector": collector,
            "zero_column_mask": zero_column_mask,
        },
    )


_ENABLE_D = operand("enable_d", RegisterClass.PRED, meaning="false: D = A * B, true: D = A * B + D")
_ZERO_MASK = operand("zero_mask", RegisterClass.B64, meaning="zero-column mask descriptor of B")
_SCALE_D = RowOperand(
    "scale_d", RegisterClass.B64, Role.IMMEDIATE, values=SCALE_INPUT_D, meaning="n: D is taken times 2 to the minus n"
)


def _lanes(cta_group: int) -> RowOperand:
    return operand("lanes", RegisterClass.B32, LANE_WORDS[cta_group], meaning="a set bit keeps that lane of D")


def _collected(collector: str | None) -> str | None:
    return None if collector is None else f"collector::{collector}"


def _multiplicands(a_in_tmem: bool, sparse: bool) -> Iterator[RowOperand]:
    yield operand("d", RegisterClass.TMEM, meaning="accumulator in tensor memory")
    if a_in_tmem:
        yield operand("a", RegisterClass.TMEM, meaning="A in tensor memory")
    else:
        yield operand("a_desc", RegisterClass.B64, meaning="shared-memory descriptor of A")
    yield operand("b_desc", RegisterClass.B64, meaning="shared-memory descriptor of B")
    if sparse:
        yield operand("metadata", RegisterClass.TMEM, meaning="places of A's elements, in tensor memory")
    yield operand("idesc", RegisterClass.B32, meaning="instruction descriptor")


def _scale_factors() -> tuple[RowOperand, ...]:
    return tuple(
        operand(name, RegisterClass.TMEM, meaning=f"scale factors of {of}, in tensor memory")
        for name, of in (("scale_a", "A"), ("scale_b", "B"))
    )


_BRACKETED = "[{{{name}}}]"
_BRACED = "{{{{{{{name}}}}}}}"
_PLAIN = "{{{name}}}"


def _asm(operands: tuple[RowOperand, ...]) -> Asm:
    """PTX has the operands in the order of the row: tensor memory in brackets, a vector of registers in braces."""
    forms = (
        _BRACKETED if operand.register is RegisterClass.TMEM else _BRACED if operand.count > 1 else _PLAIN
        for operand in operands
    )
    texts = (form.format(name=operand.name) for form, operand in zip(forms, operands, strict=True))
    return Asm(f"{{ptx}} {', '.join(texts)};")


_LLVM_ORDER = ("d", "a", "a_desc", "b_desc", "idesc", "enable_d", "metadata", "scale_a", "scale_b", "zero_mask")
_LLVM_LAST = ("scale_d", "lanes")


def _arguments(operands: tuple[RowOperand, ...], codes: tuple[int, ...]) -> tuple[str | tuple[str, int], ...]:
    names = {operand.name for operand in operands}
    return (*(name for name in (*_LLVM_ORDER, *_LLVM_LAST) if name in names), *(("i32", code) for code in codes))


def _source(operands: tuple[RowOperand, ...]) -> str:
    """How LLVM names the place of A, after `sp` where A is sparse."""
    names = {operand.name for operand in operands}
    return spelled("sp" if "metadata" in names else None, "tensor" if "a" in names else "shared")


def _mma_lowering(
    kind: MmaKind,
    operands: tuple[RowOperand, ...],
    cta_group: int,
    scale_vector: str | None,
    collector: str | None,
    ashift: bool,
    disable_output_lane: bool,
) -> Asm | Intrinsic:
    """LLVM's intrinsics always spell a collector, never `scale_vec::NX`, and put ashift after the collector."""
    if collector is None or ashift or is_explicit(scale_vector):
        return _asm(operands)
    usage = USAGES.index(collector.partition("::")[2])
    name = f"llvm.nvvm.{MMA}.{_source(operands)}"
    if kind.code is None:
        name = spelled(name, kind.name, "block_scale", scale_vector)
        return Intrinsic(name, _arguments(operands, (cta_group, usage)))
    scaled = "scale_d" if _SCALE_D in operands else None
    if disable_output_lane:
        name = spelled(name, scaled, f"disable_output_lane.cg{cta_group}")
        return Intrinsic(name, _arguments(operands, (kind.code, usage)), vectors=True)
    return Intrinsic(spelled(name, scaled), _arguments(operands, (kind.code, cta_group, usage)))


def _ws_lowering(kind: MmaKind, operands: tuple[RowOperand, ...], collector: str | None) -> Asm | Intrinsic:
    if collector is None or kind.code is None:
        return _asm(operands)
    buffer, _, usage = collector.partition("::")
    mask = "zero_col_mask" if _ZERO_MASK in operands else None
    name = spelled(f"llvm.nvvm.{MMA_WS}.{_source(operands)}", mask)
    return Intrinsic(name, _arguments(operands, (kind.code, WS_BUFFERS.index(buffer), USAGES.index(usage))))


def rows() -> Iterator[Row]:
    """Every mma row, dense and block-scaled, then the weight-stationary ones."""
    for kind in KINDS.values():
        for cta_group, a_in_tmem, sparse in itertools.product(CTA_GROUPS, _BOTH, _BOTH):
            for scale_vector in kind.scale_vectors or (None,):
                yield from _modified(kind, cta_group, a_in_tmem, sparse, scale_vector)
    for name, a_in_tmem, sparse, mask in itertools.product(DENSE_KINDS, _BOTH, _BOTH, _BOTH):
        for collector in WS_COLLECTORS:
            yield mma_ws(name, a_in_tmem=a_in_tmem, sparse=sparse, collector=collector, zero_column_mask=mask)


def _modified(kind: MmaKind, cta_group: int, a_in_tmem: bool, sparse: bool, scale_vector: str | None) -> Iterator[Row]:
    for ashift in _BOTH if a_in_tmem and not kind.block_scale else (False,):
        for scaled, masked, collector in itertools.product(
            _BOTH if kind.scales_input_d else (False,),
            (False,) if kind.block_scale else _BOTH,
            ASHIFT_COLLECTORS if ashift else COLLECTORS,
        ):
            yield mma(
                kind.name,
                cta_group=cta_group,
                a_in_tmem=a_in_tmem,
                sparse=sparse,
                scale_vector=scale_vector,
                collector=collector,
                ashift=ashift,
                scale_input_d=scaled,
                disable_output_lane=masked,
            )
