"""cvt from and to narrow floats as PTX, axes crossed, from the PTX ISA's syntax; each with how its row is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from nvbackend.intrinsics.arithmetic import conversions
from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.row.row import NoSuchRow, Row
from tests.support.async_text import Variant

ROUNDINGS = ("rn", "rz", "rm", "rp", "rna", "rs")
HALVES = ("f16x2", "bf16x2")
BYTES = ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2", "e2m1x2")
FOURS = ("e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4", "e2m1x4")
_REGISTERS = {
    **dict.fromkeys(("f16", "bf16", *BYTES, "e2m1x4"), "%rs"),
    **dict.fromkeys(("tf32", *HALVES, *FOURS[:4]), "%r"),
    "e2m1x2": "%b",
    "f32": "%f",
}


def _text(to: str, source: str, count: int, modifiers: tuple[str, bool, bool]) -> str:
    rounding, saturate, relu = modifiers
    name = ".".join(("cvt", rounding, *(["satfinite"] * saturate), *(["relu"] * relu), to, source))
    given = ", ".join(f"{_REGISTERS[source]}{place + 1}" for place in range(count))
    random = ", %r8" if rounding == "rs" else ""
    return f"{name} {_REGISTERS[to]}9, {f'{{{given}}}' if count == 4 else given}{random};"


def _packed(to: str, rounding: str, saturate: bool, relu: bool) -> Row:
    wanted = to in ("e4m3x2", "e5m2x2")
    if rounding == "rn" and saturate == wanted and (wanted or to in HALVES):
        return matrix_move.pack(to, relu)
    return conversions.pack(to, rounding, saturate, relu)


def _four(to: str, rounding: str, saturate: bool, relu: bool) -> Row:
    if rounding != "rs" or not saturate:
        raise NoSuchRow(f"{to} is rounded by rs and saturated")
    return conversions.pack_four(to, relu)


def forms() -> Iterator[Variant]:
    """Every type, rounding, saturation and relu, of one number, two and four, and of pairs."""
    for modifiers in product(ROUNDINGS, (False, True), (False, True)):
        for to in ("f16", "bf16", "tf32"):
            yield Variant(_text(to, "f32", 1, modifiers), lambda t=to, m=modifiers: conversions.single(t, *m))
        for to in (*HALVES, *BYTES):
            yield Variant(_text(to, "f32", 2, modifiers), lambda t=to, m=modifiers: _packed(t, *m))
        for to in FOURS:
            yield Variant(_text(to, "f32", 4, modifiers), lambda t=to, m=modifiers: _four(t, *m))
        for wide, narrow in product(HALVES, BYTES):
            for to, source in ((wide, narrow), (narrow, wide)):
                yield Variant(
                    _text(to, source, 1, modifiers), lambda t=to, s=source, m=modifiers: conversions.pair(t, s, *m)
                )
