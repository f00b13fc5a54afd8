"""Names that CuTe has for MMA atoms and nvbackend does not, with the reason and what to write instead."""

from __future__ import annotations

import re
from dataclasses import replace

from nvbackend.diagnostics.classes.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """Names that match `pattern`, without namespaces: why they have no atom, and what to use instead."""

    pattern: re.Pattern[str]
    problem: str
    instead: str


_COMPLEX = "it multiplies complex numbers, with several instructions"
_REAL = "multiply real and imaginary parts with an atom of their type"
_WGMMA = r"(?:SM90_|SM90::GMMA::SPARSE::GMMA_)\d+x\d+x\d+_"
_NARROW = r"(?:F16|F32|S32)(?:(?P<type>E4M3|E5M2|S8|U8|U1|TF32)(?:E4M3|E5M2|S8|U8|U1|TF32))"
"""D, A and B of the types that wgmma does not read MN-major."""
_BITS = {"E4M3": 8, "E5M2": 8, "S8": 8, "U8": 8, "U1": 1, "TF32": 32}
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
        "use the name without _SCALED, and give scale_input_d= to k.tcgen05.mma",
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
    Reason(
        re.compile(rf"{_WGMMA}{_NARROW}_(?:SS|RS)(?:<.*\bMajor::MN\b.*>|_(?:NT|NN|TT)(?:_SATURATE)?)"),
        "wgmma reads operands MN-major only where they have 16 bits, and these have {bits}",
        "use the name that ends in _TN, and bring both operands into shared memory K-major",
    ),
    Reason(
        re.compile(rf"{_WGMMA}{_NARROW}_(?:SS|RS)<Major::K, Major::K>"),
        "operands of {bits} bits are always K-major, so that their names have no majorness to choose",
        "write _TN instead of <Major::K, Major::K>",
    ),
    Reason(
        re.compile(rf"{_WGMMA}(?:F16F16F16|F32F16F16|F32BF16BF16)_(?:SS|RS)"),
        "it does not say how A and B are stored, which CuTe has as template parameters without a default",
        "append <Major::K, Major::K>, or Major::MN for what is contiguous along M or N",
    ),
)
"""Every kind of such names, the first that matches counts."""


def foreign(text: str) -> Reason | None:
    """Why a name of CuTe's, without namespaces, has no atom; None for names that CuTe does not have."""
    for reason in FOREIGN:
        if (match := reason.pattern.fullmatch(text)) is not None:
            named = match.groupdict().get("type")
            return reason if named is None else replace(reason, problem=reason.problem.format(bits=_BITS[named]))
    return None
