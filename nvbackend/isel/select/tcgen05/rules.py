"""The rules of what tcgen05.mma may be: their texts. The gates that ask them are in `select`."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_TILEIRAS = "tileiras documents: tcgen05 emission, verifier rules"
_ISA = "PTX ISA 9.7.16.10.9.1 (tcgen05.mma)"
_UNENCODED = "ptxas refuses the instruction; LLVM ends the process where it cannot select it."
TARGET = Rule(
    id="tcgen05.target",
    message="{target} has no tcgen05",
    fix="compile for {instead}; before sm_100 use wgmma (sm_90a) or mma.sync",
    why=_UNENCODED,
    reference=f"{_ISA}, Target ISA Notes",
)
KIND = Rule(
    id="tcgen05.kind",
    message="tcgen05.mma has no kind::{kind}",
    fix="use one of {legal}",
    why=_UNENCODED,
    reference=_ISA,
)
CTA_GROUP = Rule(
    id="tcgen05.cta-group",
    message="tcgen05.mma has no cta_group::{cta_group}",
    fix="use {legal}: one CTA, or the two of a pair",
    why=_UNENCODED,
    reference=f"{_ISA}; one document has a code for four CTAs, which no ptxas takes",
)
PTX_VERSION = Rule(
    id="tcgen05.ptx-version",
    message="kind::{kind}{vector} needs PTX {needed} or later; {target} is compiled with PTX {given}",
    fix="leave the PTX version of the target out, or give {needed} or later",
    why=_UNENCODED,
    reference=f"{_ISA}, PTX ISA Notes; ptxas 13.5",
)
INT8 = Rule(
    id="tcgen05.int8-target",
    message="INT8 type is supported only on arch-conditional variants.",
    fix="compile for {instead}; {target} has no kind::i8 (nor has sm_103a, whose name says otherwise)",
    why=_UNENCODED,
    reference=f"{_TILEIRAS}; ptxas 13.5",
)
SPARSE_FP4 = Rule(
    id="tcgen05.sparse-fp4-target",
    message="MXF4 and MXF4NVF4 types with Sparsity are supported only on arch-conditional variants.",
    fix="use a dense A, or compile for {instead} instead of {target}",
    why=_UNENCODED,
    reference=f"{_TILEIRAS}; ptxas 13.5",
)
SCALE_VECTOR_TARGET = Rule(
    id="tcgen05.scale-vector-target",
    message="Explicit scale vector size is supported only on arch-conditional variants.",
    fix="use block16 or block32 (PTX 8.8), which {target} has too, or compile for {instead}",
    why=_UNENCODED,
    reference=f"{_TILEIRAS}; ptxas 13.5",
)
SCALE_INPUT_TARGET = Rule(
    id="tcgen05.scale-input-target",
    message="Scale input accumulator is not supported on this architecture.",
    fix="scale the accumulator where it is read, or compile for {instead} instead of {target}",
    why=_UNENCODED,
    reference=f"{_TILEIRAS}; ptxas 13.5",
)
SCALE_INPUT_KIND = Rule(
    id="tcgen05.scale-input-kind",
    message="Scale input accumulator can only be used with f16 and tf32 types",
    fix="leave scale_input_d out for kind::{kind}",
    why="ptxas refuses it, or takes it for kind::i8, where the PTX ISA gives it no meaning.",
    reference=f"{_TILEIRAS}; {_ISA}",
)
BLOCK_SCALE_KIND = Rule(
    id="tcgen05.block-scale-kind",
    message="Block scale is not supported for f16, tf32, f8f6f4, and i8 types",
    fix="leave block_scale out for kind::{kind}, or use one of {legal}",
    why=_UNENCODED,
    reference=_TILEIRAS,
)
BLOCK_SCALE_NEEDED = Rule(
    id="tcgen05.block-scale-needed",
    message="kind::{kind} has no form without block scale",
    fix="set block_scale and give the scale factors of A and B, or use one of {dense}",
    why=_UNENCODED,
    reference=_ISA,
)
SCALE_VECTOR = Rule(
    id="tcgen05.scale-vector",
    message="scale vector size is not legal for this input family",
    fix="kind::{kind} takes {legal}, not {scale_vector}",
    why=_UNENCODED,
    reference=f"{_TILEIRAS}; PTX ISA 9.7.16.10.7 (block scaling)",
)
SCALE_VECTOR_NEEDED = Rule(
    id="tcgen05.scale-vector-needed",
    message="kind::{kind} has no default for the elements that share a scale factor",
    fix="use {legal}",
    why="ptxas refuses the instruction without it.",
    reference="PTX ISA 9.7.16.10.7 (block scaling); ptxas 13.5",
)
ASHIFT_BLOCK_SCALE = Rule(
    id="tcgen05.ashift-block-scale",
    message="ashift is not supported with tcgen05.mma.block_scale variants",
    fix="leave ashift out for kind::{kind}, or use one of {dense}",
    why=_UNENCODED,
    reference=_TILEIRAS,
)
ASHIFT_COLLECTOR = Rule(
    id="tcgen05.ashift-collector",
    message="Cannot use collector::a::use or colletor::a::fill with ashift",
    fix="use {legal}, not {collector}",
    why="The collector holds A as it is before the shift.",
    reference=_TILEIRAS,
)
ASHIFT_SHARED = Rule(
    id="tcgen05.ashift-shared",
    message="ashift moves the rows of an A in tensor memory; this one is in shared memory",
    fix="copy A to tensor memory (tcgen05.cp), or start its descriptor at another row",
    why=_UNENCODED,
    reference=f"{_ISA}; ptxas 13.5",
)
WS_CTA_GROUP = Rule(
    id="tcgen05.ws-cta-group",
    message="cta_group::2 is not supported with weight stationary",
    fix="use cta_group 1",
    why=_UNENCODED,
    reference=_TILEIRAS,
)
WS_KIND = Rule(
    id="tcgen05.ws-kind",
    message="Cannot use weight stationary with mxf8f6f4 and fp4 types",
    fix="use one of {dense}, not {kind}, or leave weight_stationary out",
    why=_UNENCODED,
    reference=_TILEIRAS,
)
WS_OPERANDS = Rule(
    id="tcgen05.ws-operands",
    message="a weight-stationary tcgen05.mma has no {given}",
    fix="leave {given} out, or leave weight_stationary out",
    why="ptxas refuses it, or takes the number for a zero-column mask.",
    reference="PTX ISA 9.7.16.10.9.3 (tcgen05.mma.ws)",
)
ZERO_COLUMN_MASK = Rule(
    id="tcgen05.zero-column-mask",
    message="only a weight-stationary tcgen05.mma has a zero-column mask",
    fix="set weight_stationary, or leave zero_column_mask out",
    why=_UNENCODED,
    reference="PTX ISA 9.7.16.10.9.3 (tcgen05.mma.ws)",
)
OUTPUT_LANES = Rule(
    id="tcgen05.output-lanes",
    message="kind::{kind} cannot leave lanes of D unchanged (disable-output-lane)",
    fix="leave disable_output_lane out, or use one of {dense}",
    why=_UNENCODED,
    reference=f"{_ISA}; ptxas 13.5",
)
COLLECTOR = Rule(
    id="tcgen05.collector",
    message="{form} has no collector::{collector}",
    fix="use {legal}",
    why=_UNENCODED,
    reference=f"{_ISA}, .collector_usage",
)
