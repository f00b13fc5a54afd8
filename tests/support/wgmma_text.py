"""wgmma.mma_async spelled from PTX ISA 9.7.15.5.2 and 9.7.15.6.3, not from the rows: as asked for, legal or not."""

from __future__ import annotations

from nvbackend.isel.select.wgmma.request import WgmmaRequest

DECLARATIONS = ".reg .pred p; .reg .b32 %r<140>; .reg .f32 %f<140>; .reg .b32 %a<4>; .reg .b32 %e; .reg .b64 %rd<2>;"
"""Registers for every instruction that `instruction` writes."""

_FLOATS = ("f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2")


def spelling(request: WgmmaRequest) -> str:
    """The instruction's name with all its qualifiers."""
    sparse = ".sp" if request.sparse else ""
    shape = f"m{request.m}n{request.n}k{request.k}"
    types = f"{request.d}.{request.a}.{request.b}"
    popc = f".{request.popc}.popc" if request.a.name == "b1" else ""
    satfinite = ".satfinite" if request.satfinite else ""
    return f"wgmma.mma_async{sparse}.sync.aligned.{shape}.{types}{popc}{satfinite}"


def instruction(request: WgmmaRequest) -> str:
    """The whole instruction. Flags that the types lack are written where the request sets them."""
    packed = request.d.name in ("f16", "bf16")
    letter = "f" if request.d.name == "f32" else "r"
    accumulator = ", ".join(f"%{letter}{index}" for index in range(request.n // (4 if packed else 2)))
    operands = [
        f"{{{accumulator}}}",
        "{%a0, %a1, %a2, %a3}" if request.a_in_registers else "%rd0",
        "%rd1",
        *(("%e", str(request.selector)) if request.sparse else ()),
        "p",
        *_flags(request),
    ]
    return f"{spelling(request)} {', '.join(operands)};"


def _flags(request: WgmmaRequest) -> list[str]:
    flags: list[str] = []
    transposes = request.a.name in ("f16", "bf16") or request.trans_a != 0 or request.trans_b != 0
    if request.a.name in _FLOATS or request.negate_a or request.negate_b or transposes:
        flags += ["-1" if request.negate_a else "1", "-1" if request.negate_b else "1"]
    if transposes:
        if not request.a_in_registers or request.trans_a != 0:
            flags.append(str(request.trans_a))
        flags.append(str(request.trans_b))
    return flags
