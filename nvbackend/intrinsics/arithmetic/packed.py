"""Rows of arithmetic on pairs: two f16 or bf16 in a word, two f32 in 64 bits.

PTX ISA 9.7.4 (f16x2, bf16x2), 9.7.3 (f32x2). By asm, with the pair as an integer register: the first element is the
lower half.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Asm, PtxVersion, RegisterClass, Row, chosen, operand, output, spelled
from nvbackend.intrinsics.row.types import BY_NAME

PAIRS = {"f16x2": RegisterClass.B32, "bf16x2": RegisterClass.B32, "f32x2": RegisterClass.B64}
ROUNDINGS = ("rn", "rz", "rm", "rp")
ARITHMETIC = {"add": 2, "sub": 2, "mul": 2, "fma": 3}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
GateOf = tuple[Feature, PtxVersion]
_ALWAYS: GateOf = (Feature.NONE, (6, 0))
_ABS: GateOf = (Feature.NONE, (6, 5))
_HALF: GateOf = (Feature.SM_80, (7, 0))
_BF16_SUM: GateOf = (Feature.SM_90, (7, 8))
_FUNCTION: GateOf = (Feature.SM_75, (7, 0))
_F32: GateOf = (Feature.SM_100, (8, 6))


def _row(ptx: str, pair: str, names: str, gate: GateOf, summary: str, axes: dict[str, object]) -> Row:
    register, opcode, held = PAIRS[pair], ptx.partition(".")[0], BY_NAME[pair]
    inputs = ", ".join(f"{{{name}}}" for name in names)
    return Row(
        family="packed",
        opcode=f"{opcode}.pair",
        ptx=ptx,
        operands=(
            output("result", register, element=held),
            *(operand(name, register, element=held) for name in names),
        ),
        lowering=Asm(f"{{ptx}} {{result}}, {inputs};"),
        requires=gate[0],
        ptx_version=gate[1],
        section=f"{'9.7.3' if pair == 'f32x2' else '9.7.4'} ({opcode})",
        summary=summary,
        axes={**axes, "pair": pair},
    )


def clamps(operation: str, pair: str) -> tuple[tuple[bool, bool, bool], ...]:
    """The combinations of ftz, saturate and relu that an operation of a pair has."""
    if pair == "bf16x2":
        return ((False, False, False), (False, False, True)) if operation == "fma" else ((False, False, False),)
    if pair == "f32x2":
        return ((False, False, False), (True, False, False))
    plain = tuple((ftz, saturate, False) for ftz in (False, True) for saturate in (False, True))
    return (*plain, *((ftz, False, True) for ftz in (False, True))) if operation == "fma" else plain


@cache
def arithmetic(
    operation: str, pair: str, rounding: str = "rn", ftz: bool = False, saturate: bool = False, relu: bool = False
) -> Row:
    """add, sub, mul or fma of both elements, each rounded once: to nearest but for f32x2. Raises NoSuchRow."""
    count = ARITHMETIC[chosen("operation", operation, ARITHMETIC)]
    chosen("pair", pair, PAIRS)
    chosen(f"rounding of {pair}", rounding, ROUNDINGS if pair == "f32x2" else ("rn",))
    chosen(f"(ftz, saturate, relu) of {operation} of {pair}", (ftz, saturate, relu), clamps(operation, pair))
    parts = ("ftz" if ftz else None, "sat" if saturate else None, "relu" if relu else None)
    gate = _F32 if pair == "f32x2" else _ALWAYS
    if pair == "bf16x2":
        gate = _HALF if operation == "fma" else _BF16_SUM
    elif relu:
        gate = _HALF
    return _row(
        spelled(operation, rounding, *parts, pair),
        pair,
        "abc"[:count],
        gate,
        "Computes both elements of a pair.",
        {"operation": operation, "rounding": rounding, "ftz": ftz, "saturate": saturate, "relu": relu},
    )


@cache
def extreme(operation: str, pair: str, ftz: bool = False, nan: bool = False) -> Row:
    """min or max of the elements of f16x2 (which may have `ftz`) or bf16x2; `nan` gives NaN where either is."""
    chosen("operation", operation, ("min", "max"))
    chosen("pair", pair, ("f16x2", "bf16x2"))
    chosen(f"ftz of {pair}", ftz, (False, True) if pair == "f16x2" else (False,))
    chosen("nan", nan, (False, True))
    ptx = spelled(operation, "ftz" if ftz else None, "NaN" if nan else None, pair)
    axes: dict[str, object] = {"operation": operation, "ftz": ftz, "nan": nan}
    return _row(ptx, pair, "ab", _HALF, "Takes the lesser or the greater elements of two pairs.", axes)


@cache
def sign(operation: str, pair: str) -> Row:
    """abs or neg of both elements of f16x2 or bf16x2."""
    chosen("operation", operation, ("abs", "neg"))
    gate = _HALF
    if chosen("pair", pair, ("f16x2", "bf16x2")) == "f16x2":
        gate = _ABS if operation == "abs" else _ALWAYS
    return _row(f"{operation}.{pair}", pair, "a", gate, "Changes the signs of a pair.", {"operation": operation})


@cache
def function(name: str, pair: str) -> Row:
    """ex2.approx (of bf16x2 with ftz) or tanh.approx of both elements of f16x2 or bf16x2."""
    chosen("function", name, ("ex2", "tanh"))
    gate = _FUNCTION if chosen("pair", pair, ("f16x2", "bf16x2")) == "f16x2" else _BF16_SUM
    ptx = spelled(name, "approx", "ftz" if (name, pair) == ("ex2", "bf16x2") else None, pair)
    return _row(ptx, pair, "a", gate, "Approximates a function of a pair.", {"function": name})


@cache
def compare(relation: str, pair: str) -> Row:
    """set of f16x2 or bf16x2: each element 1.0 where the relation holds, else 0.0; relations with u hold for NaN."""
    chosen("relation", relation, COMPARISONS)
    gate = _ALWAYS if chosen("pair", pair, ("f16x2", "bf16x2")) == "f16x2" else _BF16_SUM
    axes: dict[str, object] = {"relation": relation}
    return _row(f"set.{relation}.{pair}.{pair}", pair, "ab", gate, "Compares the elements of two pairs.", axes)


def rows() -> Iterator[Row]:
    """Every row of this module."""
    for operation in ARITHMETIC:
        for pair in PAIRS:
            for rounding in ROUNDINGS if pair == "f32x2" else ("rn",):
                yield from (arithmetic(operation, pair, rounding, *flags) for flags in clamps(operation, pair))
    for operation in ("min", "max"):
        for nan in (False, True):
            yield from (extreme(operation, "f16x2", ftz, nan) for ftz in (False, True))
            yield extreme(operation, "bf16x2", False, nan)
    for pair in ("f16x2", "bf16x2"):
        yield from (sign(operation, pair) for operation in ("abs", "neg"))
        yield from (function(name, pair) for name in ("ex2", "tanh"))
        yield from (compare(relation, pair) for relation in COMPARISONS)
