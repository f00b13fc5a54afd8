"""mma.sync spelled from PTX ISA 9.7.14.5.14 and 9.7.14.6.3, not from the rows: as it is asked for, legal or not."""

from __future__ import annotations

from collections.abc import Callable

from nvbackend.intrinsics.mma.form import MmaInstruction
from nvbackend.isel.select.mma.request import MmaRequest
from nvbackend.isel.target.target import Target

DECLARATIONS = ".reg .b32 %r<64>; .reg .f32 %f<64>; .reg .f64 %d<64>;"
"""Registers for every instruction that `instruction` writes."""

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s32": 32, "b1": 1, "s4": 4, "u4": 4}
_PACKED_KINDS = ("mxf4", "mxf4nvf4")


def spelling(one: MmaInstruction) -> str:
    """The instruction's name with all its qualifiers."""
    m, n, k = one.shape
    parts = [f"mma.{one.sparsity}" if one.sparsity else "mma", "sync", "aligned", f"m{m}n{n}k{k}"]
    parts += [one.a_layout, one.b_layout]
    if one.kind:
        parts.append(f"kind::{one.kind}")
    if one.scale:
        parts.append("block_scale")
    if one.scale_vec:
        parts.append(f"scale_vec::{one.scale_vec}X")
    if one.satfinite:
        parts.append("satfinite")
    parts += [str(one.d), str(one.a), str(one.b), str(one.c)]
    if one.operation:
        parts += [one.operation, "popc"]
    if one.scale:
        parts.append(str(one.scale))
    return ".".join(parts)


def instruction(request: MmaRequest) -> str:
    """The whole instruction, with as many registers as the shape needs for elements of the types."""
    one = request.instruction
    a, b, d, c = _counts(one)
    operands = [_vector(str(one.d), d, 0), _vector(str(one.a), a, 16), _vector(str(one.b), b, 32)]
    operands.append(_vector(str(one.c), c, 48))
    if one.sparsity:
        operands += ["%r62", str(request.selector)]
    if one.scale:
        operands += ["%r60", f"{{{request.byte_id_a}, {request.thread_id_a}}}"]
        operands += ["%r61", f"{{{request.byte_id_b}, {request.thread_id_b}}}"]
    return f"{spelling(one)} {', '.join(operands)};"


def _counts(one: MmaInstruction) -> tuple[int, int, int, int]:
    m, n, k = one.shape
    a_bits, b_bits, d_bits, c_bits = (_width(one, str(element)) for element in (one.a, one.b, one.d, one.c))
    # m8n8k4 multiplies four pairs of matrices, except in f64.
    matrices = 4 if one.shape == (8, 8, 4) and a_bits < 64 else 1
    a = matrices * m * k * a_bits // (32 * max(32, a_bits)) // (2 if one.sparsity else 1)
    b = matrices * k * n * b_bits // (32 * max(32, b_bits))
    d, c = (matrices * m * n * bits // (32 * max(32, bits)) for bits in (d_bits, c_bits))
    return tuple(min(max(count, 1), 12) for count in (a, b, d, c))  # type: ignore[return-value]


def _width(one: MmaInstruction, element: str) -> int:
    if element == "e2m1" and one.kind in _PACKED_KINDS:
        return 4
    return _BITS.get(element, 8)


def _vector(element: str, count: int, first: int) -> str:
    letter = {"f32": "f", "f64": "d"}.get(element, "r")
    return f"{{{', '.join(f'%{letter}{first + index}' for index in range(count))}}}"


def _is_fp8(one: MmaInstruction) -> bool:
    return all(str(element) in ("e4m3", "e5m2") for element in (one.a, one.b))


UNDOCUMENTED: dict[str, Callable[[MmaRequest, Target], bool]] = {
    "m8n8k4 of bf16 and tf32: not in the PTX ISA, and no MMA in the SASS": lambda request, _: (
        request.instruction.shape == (8, 8, 4) and str(request.instruction.a) in ("bf16", "tf32")
    ),
    "a kind on fp8 without scale factors, other than f8f6f4 of m16n8k32 and m16n8k64: not looked at": (
        lambda request, target: (
            _is_fp8(request.instruction)
            and request.instruction.kind is not None
            and request.instruction.scale is None
            and (target.has_tmem or request.instruction.shape[2] == 16 or request.instruction.kind != "f8f6f4")
        )
    ),
    "a bit operation on dense integers of 4 bits: not looked at": lambda request, _: (
        request.instruction.operation is not None
        and request.instruction.sparsity is None
        and all(str(element) in ("s4", "u4") for element in (request.instruction.a, request.instruction.b))
    ),
    "sparse fp8 with f16 accumulators and no kind: the PTX ISA has f32, and it is refused but for 12.x": (
        lambda request, _: (
            _is_fp8(request.instruction)
            and request.instruction.sparsity is not None
            and request.instruction.kind is None
            and str(request.instruction.d) == "f16"
        )
    ),
    "selectors 2 and 3 of sparse f16 m16n8k32: the PTX ISA has 0 and 1, as for bf16": lambda request, _: (
        request.selector in (2, 3) and request.instruction.shape == (16, 8, 32) and str(request.instruction.a) == "f16"
    ),
}
"""What ptxas takes and the catalogue leaves out, by the reason."""


def is_undocumented(request: MmaRequest, target: Target) -> bool:
    """Whether the request is one that ptxas takes although nothing documents it."""
    return any(stands(request, target) for stands in UNDOCUMENTED.values())
