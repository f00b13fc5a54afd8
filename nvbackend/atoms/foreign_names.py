"""What CuTe calls an MMA atom and is none here, with the reason and what to write instead."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """Names that match `pattern`, without namespaces: why there is no atom of them, and what there is."""

    pattern: re.Pattern[str]
    problem: str
    instead: str


_COMPLEX = "it multiplies complex numbers, with several instructions"
_REAL = "multiply real and imaginary parts with an atom of their type"
_AT_THE_CALL = "it is not in an atom's name, but given where the instruction is emitted"
FOREIGN: tuple[Reason, ...] = (
    Reason(re.compile(r"SM\d+_\w*C64\w*|SM90::MMA_\w*C64\w*"), _COMPLEX, _REAL),
    Reason(re.compile(r"SM100_MMA_TF32\w*_INTERLEAVED_CF32\w*(?:<.*>)?"), _COMPLEX, _REAL),
    Reason(
        re.compile(r"SM61_DP[24]A|SM100_(?:2x1x1|1x2x1)_F32F32F32F32|UniversalFMA(?:<.*>)?"),
        "it is arithmetic of one thread, not of the tensor core",
        "write it with a kernel's values",
    ),
    Reason(
        re.compile(r"SM100_MMA_\w+_SCALED<.*>"),
        f"D's power of two: {_AT_THE_CALL}",
        "use the name without _SCALED, and give scale_input_d= to k.tcgen05_mma",
    ),
    Reason(
        re.compile(r".*<.*\bScaleIn::Neg\b.*>"),
        f"the sign of an operand: {_AT_THE_CALL}",
        "use the name with ScaleIn::One, and negate_a=, negate_b= of wgmma or of tcgen05's InstructionDescriptor",
    ),
    Reason(
        re.compile(r".*<.*\bSparseSel::One\b.*>"),
        f"the sparsity selector: {_AT_THE_CALL}",
        "use the name with SparseSel::Zero, and give selector= with the instruction",
    ),
    Reason(
        re.compile(r"SM100_.*<.*\bSaturate::True\b.*>"),
        "saturation is a bit of the instruction descriptor, not of the name",
        "use the name with Saturate::False, and InstructionDescriptor(saturate=True)",
    ),
    Reason(
        re.compile(r"(?:SM90_|SM90::GMMA::SPARSE::GMMA_)\w+_RS<Major::MN, .*>"),
        "A in registers is K-major: a thread's registers have neighbours along K",
        "use the name with Major::K for A",
    ),
)
"""Every kind of such names, the first that matches counts."""


def foreign(text: str) -> Reason | None:
    """Why a name of CuTe's, without namespaces, has no atom; None for what CuTe does not call so either."""
    return next((reason for reason in FOREIGN if reason.pattern.fullmatch(text)), None)
