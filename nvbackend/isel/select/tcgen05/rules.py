"""What a tcgen05.mma may be: every rule and its gate, for selector and verifier alike.

The legal values are in the tables of `intrinsics.mma.tcgen05`. Messages that one document gives word for word are the
tileiras's (tcgen05 machine validation), with its spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import PtxVersion
from nvbackend.isel.select.tcgen05.request import Tcgen05Request
from nvbackend.isel.target.target import Gate, Target, Values, dotted, targets_with

_TILEIRAS = "tileiras documents: tcgen05 emission, verifier rules"
_ISA = "PTX ISA 9.7.16.10.9.1 (tcgen05.mma)"
_UNENCODED = "ptxas refuses the instruction; LLVM ends the process where it cannot select it."


def _words(values: Iterable[object]) -> str:
    return " or ".join(str(value) for value in values if value is not None)


def _gate(
    rule: Rule,
    broken: Callable[[Tcgen05Request, Target], bool],
    more: Callable[[Tcgen05Request], Values] = lambda _: {},
) -> Gate[Tcgen05Request]:
    """A gate whose texts take what the request says, the kinds without scale factors, and `more`."""

    def breach(request: Tcgen05Request, target: Target) -> Values | None:
        if not broken(request, target):
            return None
        return {
            "kind": request.kind,
            "target": target,
            "given": dotted(target.ptx_version),
            "cta_group": request.cta_group,
            "scale_vector": request.scale_vector,
            "collector": request.collector,
            "dense": ", ".join(tcgen05.DENSE_KINDS),
            **more(request),
        }

    return Gate(rule, breach)


def _of(features: Feature) -> Callable[[Tcgen05Request], Values]:
    return lambda _: {"instead": targets_with(features)}


def _is_scaled(request: Tcgen05Request) -> bool:
    """Whether the kind is one whose A and B have scale factors."""
    return request.of is not None and request.of.block_scale


TARGET = _gate(
    Rule(
        id="tcgen05.target",
        message="{target} has no tcgen05",
        fix="compile for {instead}; before sm_100 use wgmma (sm_90a) or mma.sync",
        why=_UNENCODED,
        reference=f"{_ISA}, Target ISA Notes",
    ),
    lambda _, target: not target.has_tmem,
    _of(Feature.TMEM),
)
KIND = _gate(
    Rule(
        id="tcgen05.kind",
        message="tcgen05.mma has no kind::{kind}",
        fix="use one of {legal}",
        why=_UNENCODED,
        reference=_ISA,
    ),
    lambda request, _: request.of is None,
    lambda _: {"legal": ", ".join(tcgen05.KINDS)},
)
CTA_GROUP = _gate(
    Rule(
        id="tcgen05.cta-group",
        message="tcgen05.mma has no cta_group::{cta_group}",
        fix="use {legal}: one CTA, or the two of a pair",
        why=_UNENCODED,
        reference=f"{_ISA}; one document has a code for four CTAs, which no ptxas takes",
    ),
    lambda request, _: request.cta_group not in tcgen05.CTA_GROUPS or isinstance(request.cta_group, bool),
    lambda _: {"legal": _words(tcgen05.CTA_GROUPS)},
)


def _needed_ptx(request: Tcgen05Request) -> PtxVersion:
    return request.of.first_ptx(request.scale_vector) if request.of else tcgen05.PTX


PTX_VERSION = _gate(
    Rule(
        id="tcgen05.ptx-version",
        message="kind::{kind}{vector} needs PTX {needed} or later; {target} is compiled with PTX {given}",
        fix="leave the PTX version of the target out, or give {needed} or later",
        why=_UNENCODED,
        reference=f"{_ISA}, PTX ISA Notes; ptxas 13.5",
    ),
    lambda request, target: target.has_tmem and target.ptx_version < _needed_ptx(request),
    lambda request: {
        "vector": f" with {request.scale_vector}" if request.scale_vector else "",
        "needed": dotted(_needed_ptx(request)),
    },
)
INT8 = _gate(
    Rule(
        id="tcgen05.int8-target",
        message="INT8 type is supported only on arch-conditional variants.",
        fix="compile for {instead}; {target} has no kind::i8 (nor has sm_103a, whose name says otherwise)",
        why=_UNENCODED,
        reference=f"{_TILEIRAS}; ptxas 13.5",
    ),
    lambda request, target: target.has_tmem and request.of is not None and not target.has(request.of.requires),
    _of(Feature.TMEM_INT8),
)
SPARSE_FP4 = _gate(
    Rule(
        id="tcgen05.sparse-fp4-target",
        message="MXF4 and MXF4NVF4 types with Sparsity are supported only on arch-conditional variants.",
        fix="use a dense A, or compile for {instead} instead of {target}",
        why=_UNENCODED,
        reference=f"{_TILEIRAS}; ptxas 13.5",
    ),
    lambda request, target: (
        target.has_tmem and request.sparse and request.of is not None and not target.has(request.of.sparse_requires)
    ),
    _of(Feature.TMEM | Feature.ARCH_CONDITIONAL),
)
SCALE_VECTOR_TARGET = _gate(
    Rule(
        id="tcgen05.scale-vector-target",
        message="Explicit scale vector size is supported only on arch-conditional variants.",
        fix="use block16 or block32 (PTX 8.8), which {target} has too, or compile for {instead}",
        why=_UNENCODED,
        reference=f"{_TILEIRAS}; ptxas 13.5",
    ),
    lambda request, target: (
        target.has_tmem and tcgen05.is_explicit(request.scale_vector) and not target.has_arch_conditional
    ),
    _of(Feature.TMEM | Feature.ARCH_CONDITIONAL),
)
SCALE_INPUT_TARGET = _gate(
    Rule(
        id="tcgen05.scale-input-target",
        message="Scale input accumulator is not supported on this architecture.",
        fix="scale the accumulator where it is read, or compile for {instead} instead of {target}",
        why=_UNENCODED,
        reference=f"{_TILEIRAS}; ptxas 13.5",
    ),
    lambda request, target: target.has_tmem and request.scale_input_d and not target.has_scale_input_accumulator,
    _of(Feature.SCALE_INPUT_ACCUMULATOR),
)
SCALE_INPUT_KIND = _gate(
    Rule(
        id="tcgen05.scale-input-kind",
        message="Scale input accumulator can only be used with f16 and tf32 types",
        fix="leave scale_input_d out for kind::{kind}",
        why="ptxas refuses it, or takes it for kind::i8, where the PTX ISA gives it no meaning.",
        reference=f"{_TILEIRAS}; {_ISA}",
    ),
    lambda request, _: request.scale_input_d and request.of is not None and not request.of.scales_input_d,
)
BLOCK_SCALE_KIND = _gate(
    Rule(
        id="tcgen05.block-scale-kind",
        message="Block scale is not supported for f16, tf32, f8f6f4, and i8 types",
        fix="leave block_scale out for kind::{kind}, or use one of {legal}",
        why=_UNENCODED,
        reference=_TILEIRAS,
    ),
    lambda request, _: request.block_scale and request.of is not None and not _is_scaled(request),
    lambda _: {"legal": ", ".join(tcgen05.BLOCK_SCALED_KINDS)},
)
BLOCK_SCALE_NEEDED = _gate(
    Rule(
        id="tcgen05.block-scale-needed",
        message="kind::{kind} has no form without block scale",
        fix="set block_scale and give the scale factors of A and B, or use one of {dense}",
        why=_UNENCODED,
        reference=_ISA,
    ),
    lambda request, _: not request.block_scale and _is_scaled(request),
)
SCALE_VECTOR = _gate(
    Rule(
        id="tcgen05.scale-vector",
        message="scale vector size is not legal for this input family",
        fix="kind::{kind} takes {legal}, not {scale_vector}",
        why=_UNENCODED,
        reference=f"{_TILEIRAS}; PTX ISA 9.7.16.10.7 (block scaling)",
    ),
    lambda request, _: (
        request.of is not None
        and request.scale_vector is not None
        and request.scale_vector not in request.of.scale_vectors
    ),
    lambda request: {"legal": _words(request.of.scale_vectors if request.of else ()) or "none"},
)
SCALE_VECTOR_NEEDED = _gate(
    Rule(
        id="tcgen05.scale-vector-needed",
        message="kind::{kind} has no default for the elements that share a scale factor",
        fix="use {legal}",
        why="ptxas refuses the instruction without it.",
        reference="PTX ISA 9.7.16.10.7 (block scaling); ptxas 13.5",
    ),
    lambda request, _: (
        request.of is not None
        and request.of.block_scale
        and request.scale_vector is None
        and None not in request.of.scale_vectors
    ),
    lambda request: {"legal": _words(request.of.scale_vectors if request.of else ())},
)
ASHIFT_BLOCK_SCALE = _gate(
    Rule(
        id="tcgen05.ashift-block-scale",
        message="ashift is not supported with tcgen05.mma.block_scale variants",
        fix="leave ashift out for kind::{kind}, or use one of {dense}",
        why=_UNENCODED,
        reference=_TILEIRAS,
    ),
    lambda request, _: request.ashift and (request.block_scale or _is_scaled(request)),
)
ASHIFT_COLLECTOR = _gate(
    Rule(
        id="tcgen05.ashift-collector",
        message="Cannot use collector::a::use or colletor::a::fill with ashift",
        fix="use {legal}, not {collector}",
        why="The collector holds A as it is before the shift.",
        reference=_TILEIRAS,
    ),
    lambda request, _: request.ashift and request.collector in _unshifted(),
    lambda _: {"legal": _words(tcgen05.ASHIFT_COLLECTORS)},
)
ASHIFT_SHARED = _gate(
    Rule(
        id="tcgen05.ashift-shared",
        message="ashift moves the rows of an A in tensor memory; this one is in shared memory",
        fix="copy A to tensor memory (tcgen05.cp), or start its descriptor at another row",
        why=_UNENCODED,
        reference=f"{_ISA}; ptxas 13.5",
    ),
    lambda request, _: request.ashift and not request.a_in_tmem,
)
WS_CTA_GROUP = _gate(
    Rule(
        id="tcgen05.ws-cta-group",
        message="cta_group::2 is not supported with weight stationary",
        fix="use cta_group 1",
        why=_UNENCODED,
        reference=_TILEIRAS,
    ),
    lambda request, _: request.weight_stationary and request.cta_group == tcgen05.CTA_GROUPS[-1],
)
WS_KIND = _gate(
    Rule(
        id="tcgen05.ws-kind",
        message="Cannot use weight stationary with mxf8f6f4 and fp4 types",
        fix="use one of {dense}, not {kind}, or leave weight_stationary out",
        why=_UNENCODED,
        reference=_TILEIRAS,
    ),
    lambda request, _: request.weight_stationary and _is_scaled(request),
)
WS_OPERANDS = _gate(
    Rule(
        id="tcgen05.ws-operands",
        message="a weight-stationary tcgen05.mma has no {given}",
        fix="leave {given} out, or leave weight_stationary out",
        why="ptxas refuses it, or takes the number for a zero-column mask.",
        reference="PTX ISA 9.7.16.10.9.3 (tcgen05.mma.ws)",
    ),
    lambda request, _: request.weight_stationary and bool(_not_stationary(request)),
    lambda request: {"given": " and no ".join(_not_stationary(request))},
)
ZERO_COLUMN_MASK = _gate(
    Rule(
        id="tcgen05.zero-column-mask",
        message="only a weight-stationary tcgen05.mma has a zero-column mask",
        fix="set weight_stationary, or leave zero_column_mask out",
        why=_UNENCODED,
        reference="PTX ISA 9.7.16.10.9.3 (tcgen05.mma.ws)",
    ),
    lambda request, _: request.zero_column_mask and not request.weight_stationary,
)
OUTPUT_LANES = _gate(
    Rule(
        id="tcgen05.output-lanes",
        message="kind::{kind} cannot leave lanes of D unchanged (disable-output-lane)",
        fix="leave disable_output_lane out, or use one of {dense}",
        why=_UNENCODED,
        reference=f"{_ISA}; ptxas 13.5",
    ),
    lambda request, _: request.disable_output_lane and _is_scaled(request),
)
COLLECTOR = _gate(
    Rule(
        id="tcgen05.collector",
        message="{form} has no collector::{collector}",
        fix="use {legal}",
        why=_UNENCODED,
        reference=f"{_ISA}, .collector_usage",
    ),
    lambda request, _: request.collector not in _collectors(request),
    lambda request: {
        "form": "tcgen05.mma.ws" if request.weight_stationary else "tcgen05.mma",
        "legal": _words(_collectors(request)),
    },
)


def _unshifted() -> list[str | None]:
    return [collector for collector in tcgen05.COLLECTORS if collector not in tcgen05.ASHIFT_COLLECTORS]


def _collectors(request: Tcgen05Request) -> tuple[str | None, ...]:
    return tcgen05.WS_COLLECTORS if request.weight_stationary else tcgen05.COLLECTORS


def _not_stationary(request: Tcgen05Request) -> list[str]:
    return [name for name in ("ashift", "scale_input_d", "disable_output_lane") if getattr(request, name)]


GATES = (
    *(TARGET, KIND, CTA_GROUP, PTX_VERSION),
    *(INT8, SPARSE_FP4, SCALE_VECTOR_TARGET, SCALE_INPUT_TARGET, SCALE_INPUT_KIND),
    *(BLOCK_SCALE_KIND, BLOCK_SCALE_NEEDED, SCALE_VECTOR, SCALE_VECTOR_NEEDED),
    *(ASHIFT_BLOCK_SCALE, ASHIFT_COLLECTOR, ASHIFT_SHARED),
    *(WS_CTA_GROUP, WS_KIND, WS_OPERANDS, ZERO_COLUMN_MASK, OUTPUT_LANES, COLLECTOR),
)
"""Every gate. A request that breaks none has a row that ptxas takes for the target."""
