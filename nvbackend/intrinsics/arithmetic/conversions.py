"""cvt from and to narrow floats, with rounding and saturation by name: single numbers, pairs and fours in one register.

PTX ISA 9.7.9 (cvt). By asm, since LLVM has some of them, with vectors for pairs. `cvt.rn` of two f32 to f16x2, bf16x2,
e4m3x2 and e5m2x2 is in `copy/matrix_move.py`, which packs what tensor cores take. Operand names: `high`, `low` (and
`second`, `third` between them), f32 each; `source`, several numbers in one register; `random`, bits for rs.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Asm,
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

FAMILY = "conversions"
SINGLES: dict[str, RegisterClass] = {"f16": RegisterClass.B16, "bf16": RegisterClass.B16, "tf32": RegisterClass.B32}
HALVES = ("f16x2", "bf16x2")
BYTES = ("e4m3x2", "e5m2x2")
SMALL = ("e2m3x2", "e3m2x2", "e2m1x2")
SCALES = "ue8m0x2"
PAIRS: dict[str, RegisterClass] = {
    **dict.fromkeys(HALVES, RegisterClass.B32),
    **dict.fromkeys((*BYTES, *SMALL, SCALES), RegisterClass.B16),
}
"""The register of each pair; that of e2m1x2 uses its lower half."""
FOURS: dict[str, RegisterClass] = {
    **{f"{name[:-1]}4": RegisterClass.B32 for name in (*BYTES, *SMALL[:2])},
    "e2m1x4": RegisterClass.B16,
}
STOCHASTIC = "rs"
_OF_BYTE = "e2m1x2"
Gate = tuple[Feature, PtxVersion]


def _modified(rounding: str, saturate: bool, relu: bool, *types: str) -> str:
    return spelled("cvt", rounding, "satfinite" if saturate else None, "relu" if relu else None, *types)


@cache
def single(to: str, rounding: str, saturate: bool = False, relu: bool = False) -> Row:
    """One f32 to f16, bf16 or tf32; `saturate` stops at the largest finite number, `relu` at zero."""
    register = SINGLES[chosen("to", to, SINGLES)]
    legal = ("rna", "rn", "rz") if to == "tf32" else ("rn", "rz", "rm", "rp")
    chosen("rounding", rounding, legal)
    if rounding in ("rm", "rp") and (saturate or relu):
        raise NoSuchRow(f"rounding cannot be {rounding!r} with saturation or relu, only 'rn', 'rz'")
    if rounding == "rna" and relu:
        raise NoSuchRow("rounding cannot be 'rna' with relu, only 'rn', 'rz'")
    gate = _gate_of_tf32(rounding, saturate) if to == "tf32" else _gate_of_half(to, saturate, relu)
    return _row(
        "cvt.single",
        _modified(rounding, saturate, relu, to, "f32"),
        (output("result", register), operand("source", RegisterClass.F32)),
        "{source}",
        gate,
        {"to": to, "rounding": rounding, "saturate": saturate, "relu": relu},
    )


def _gate_of_half(to: str, saturate: bool, relu: bool) -> Gate:
    version = (8, 1) if saturate else (7, 0)
    if to == "f16" and not relu:
        return Feature.NONE, (8, 1) if saturate else (6, 0)
    return Feature.SM_80, version


def _gate_of_tf32(rounding: str, saturate: bool) -> Gate:
    if rounding == "rna":
        return Feature.SM_80, (8, 1) if saturate else (7, 0)
    return (Feature.SM_100, (8, 6)) if saturate else (Feature.SM_90, (7, 8))


@cache
def pack(to: str, rounding: str = "rn", saturate: bool = False, relu: bool = False) -> Row:
    """Two f32, or with rounding rs and random bits, to a pair: `high` to the upper half, `low` to the lower."""
    register = PAIRS[chosen("to", to, PAIRS)]
    legal = ("rz", "rp") if to == SCALES else ("rn", "rz", STOCHASTIC) if to in HALVES else ("rn",)
    chosen("rounding", rounding, legal)
    if to not in HALVES and to != SCALES:
        chosen("saturate", saturate, (True,))
    chosen("relu", relu, (False,) if to == SCALES else (False, True))
    if not (to in HALVES or to in BYTES):
        gate: Gate = Feature.NARROW_FLOATS, (8, 6)
    elif rounding == STOCHASTIC:
        gate = Feature.STOCHASTIC_ROUNDING, (8, 7)
    else:
        gate = (Feature.SM_89, (8, 1)) if to in BYTES else (Feature.SM_80, (8, 1) if saturate else (7, 0))
    random = (operand("random", RegisterClass.B32),) if rounding == STOCHASTIC else ()
    return _row(
        "cvt.pack",
        _modified(rounding, saturate, relu, to, "f32"),
        (output("result", register), operand("high", RegisterClass.F32), operand("low", RegisterClass.F32), *random),
        "{high}, {low}" + (", {random}" if random else ""),
        gate,
        {"to": to, "rounding": rounding, "saturate": saturate, "relu": relu},
    )


@cache
def pack_four(to: str, relu: bool = False) -> Row:
    """Four f32 to a register by rs, rounded up or down by the bits of `random`, and saturated."""
    register = FOURS[chosen("to", to, FOURS)]
    names = ("high", "third", "second", "low")
    return _row(
        "cvt.pack",
        _modified(STOCHASTIC, True, relu, to, "f32"),
        (
            output("result", register),
            *(operand(name, RegisterClass.F32) for name in names),
            operand("random", RegisterClass.B32),
        ),
        "{{" + ", ".join(f"{{{name}}}" for name in names) + "}}, {random}",
        (Feature.STOCHASTIC_ROUNDING, (8, 7)),
        {"to": to, "rounding": STOCHASTIC, "saturate": True, "relu": relu},
    )


SOURCES: dict[str, str] = {**dict.fromkeys(BYTES, "f16x2"), SCALES: "bf16x2"}
"""What else than f32 a pair is made of."""
TARGETS: dict[str, str] = {**dict.fromkeys((*BYTES, *SMALL), "f16x2"), SCALES: "bf16x2"}
"""What a pair becomes."""


@cache
def pair(to: str, source: str, rounding: str = "rn", saturate: bool = False, relu: bool = False) -> Row:
    """A pair to another pair, register to register."""
    chosen("source", source, PAIRS)
    narrows = SOURCES.get(to) == source
    if not narrows and TARGETS.get(source) != to:
        raise NoSuchRow(f"to cannot be {to!r} from {source}")
    chosen("rounding", rounding, ("rz", "rp") if to == SCALES else ("rn",))
    if narrows:
        chosen("saturate", saturate, (True,) if to in BYTES else (False, True))
    else:
        chosen("saturate", saturate, (False,))
    chosen("relu", relu, (False,) if SCALES in (to, source) else (False, True))
    of_bytes = to in BYTES or source in BYTES
    return _row(
        "cvt.pair",
        _modified(rounding, saturate, relu, to, source),
        (output("result", PAIRS[to]), operand("source", PAIRS[source])),
        "{source}",
        (Feature.SM_89, (8, 1)) if of_bytes else (Feature.NARROW_FLOATS, (8, 6)),
        {"to": to, "source": source, "rounding": rounding, "saturate": saturate, "relu": relu},
    )


def _row(
    opcode: str, ptx: str, operands: tuple[RowOperand, ...], sources: str, gate: Gate, axes: dict[str, object]
) -> Row:
    statement = f"{{ptx}} {{result}}, {sources};"
    if axes["to"] == _OF_BYTE:
        statement = f"{{{{ .reg .b8 byte; {{ptx}} byte, {sources}; cvt.u16.u8 {{result}}, byte; }}}}"
    elif axes.get("source") == _OF_BYTE:
        statement = "{{ .reg .b8 byte; cvt.u8.u16 byte, {source}; {ptx} {result}, byte; }}"
    return Row(
        family=FAMILY,
        opcode=opcode,
        ptx=ptx,
        operands=operands,
        lowering=Asm(statement),
        requires=gate[0],
        ptx_version=gate[1],
        section="9.7.9 (cvt)",
        summary="Converts floats, rounded and saturated as its name says.",
        axes=axes,
    )


_BOTH = (False, True)


def rows() -> Iterator[Row]:
    """Every row of this module."""
    for to in SINGLES:
        for rounding in ("rna", "rn", "rz", "rm", "rp"):
            for saturate in _BOTH:
                for relu in _BOTH:
                    yield from _existing(single, to, rounding, saturate, relu)
    for to in PAIRS:
        for rounding in ("rn", "rz", "rp", STOCHASTIC):
            for saturate in _BOTH:
                for relu in _BOTH:
                    if not _is_of_matrices(to, rounding, saturate):
                        yield from _existing(pack, to, rounding, saturate, relu)
                    for source in PAIRS:
                        yield from _existing(pair, to, source, rounding, saturate, relu)
    yield from (pack_four(to, relu) for to in FOURS for relu in _BOTH)


def _is_of_matrices(to: str, rounding: str, saturate: bool) -> bool:
    """Whether `copy/matrix_move.py` has the row."""
    return rounding == "rn" and (to in BYTES or (to in HALVES and not saturate))


def _existing(factory: object, *axes: object) -> Iterator[Row]:
    try:
        yield factory(*axes)  # type: ignore[operator]
    except NoSuchRow:
        return
