"""Conversions of several numbers in one register, and of one with everything named: cvt."""

from __future__ import annotations

from nvbackend.builder.core.instructions import result
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.lower.conversions import llvm_type
from nvbackend.builder.values.values import Arithmetic, Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.arithmetic import conversions
from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, bf16, f16, f32, u8, u16, u32
from nvbackend.isel.target.target import VARIANT, variant

_HALVES: dict[str, ElementType] = {"f16x2": f16, "bf16x2": bf16}
_OF_BYTE = "e2m1x2"
_HALF = 16


@user_facing
class Convert(Noun):
    """Conversions of several numbers in one register, and of one with everything named (PTX ISA 9.7.9, cvt).

    A register holds the first number in its lowest bits, as memory does. `value.to(type)` converts single numbers.
    Pairs are f16x2 and bf16x2 (sm_80), which have types of these names and may come as a u32; e4m3x2 and e5m2x2
    (sm_89; a u16), and on chips from sm_100 on whose names have a suffix e2m3x2, e3m2x2, ue8m0x2 (a u16) and e2m1x2 (a
    u8).
    """

    __noun__ = "convert"
    __usual__ = "pack"

    def single(
        self, value: Operand, element: ElementType, *, rounding: str = "rn", saturate: bool = False, relu: bool = False
    ) -> Value:
        """cvt of one f32 to f16, bf16 or tf32; `saturate` stops at its largest finite number, `relu` at 0.

        `rounding` is rn or rz, of f16 and bf16 rm or rp as well, of tf32 rna. Raises instruction.variant,
        target.feature.
        """
        row = variant("cvt", conversions.single, str(element), rounding, saturate, relu)
        register = result(self._k, row, source=as_value(self._k, value, f32))
        held = llvm_type(element)
        number = register.ir if register.ir.type == held else self._k.llvm.bitcast(register.ir, held)
        return self._k.wrap(number, element)

    def pack(
        self,
        to: str,
        *values: Operand,
        rounding: str | None = None,
        saturate: bool = False,
        relu: bool = False,
        random: Operand | None = None,
    ) -> Value:
        """cvt of f32 to a register of several: two to a pair, four to e4m3x4, e5m2x4, e2m3x4, e3m2x4 or e2m1x4.

        `rounding` is rn, or rz of f16x2 and bf16x2; rz (the default) or rp of ue8m0x2. `saturate` stops at the largest
        finite number, as the narrower types always do; `relu` makes negative numbers 0. With `random`, 32 random bits
        (u32), f16x2, bf16x2 and fours are rounded up or down at random, by rs (sm_100a, sm_103a): fours only so. Raises
        instruction.variant, target.feature.
        """
        if to in conversions.FOURS:
            return self._pack_four(to, values, rounding, relu=relu, random=random)
        if len(values) != 2:
            VARIANT.fail(instruction="cvt", reason=f"{to} takes 2 values, not {len(values)}")
        low, high = (as_value(self._k, value, f32) for value in values)
        mode = rounding or ("rz" if to == conversions.SCALES else "rn" if random is None else conversions.STOCHASTIC)
        _check_random(mode, random)
        narrow = to in conversions.PAIRS and to not in _HALVES and to != conversions.SCALES
        row = _pack_row(to, mode, relu, saturate=saturate or narrow)
        bits = {} if random is None else {"random": as_value(self._k, random, u32)}
        name = "packed" if row.has_operand("packed") else "result"
        register = result(self._k, row, row.operand(name).type, high=high, low=low, **bits)
        return register.to(u8) if to == _OF_BYTE else _typed(register, to)

    def _pack_four(
        self, to: str, values: tuple[Operand, ...], rounding: str | None, *, relu: bool, random: Operand | None
    ) -> Value:
        if len(values) != 4:
            VARIANT.fail(instruction="cvt", reason=f"{to} takes 4 values, not {len(values)}")
        mode = rounding or conversions.STOCHASTIC
        _check_random(mode, random)
        if random is None:
            VARIANT.fail(instruction="cvt", reason=f"{to} is rounded by 'rs' alone, which takes random=")
        row = variant("cvt", conversions.pack_four, to, relu)
        names = ("low", "second", "third", "high")
        operands = {name: as_value(self._k, value, f32) for name, value in zip(names, values, strict=True)}
        return result(self._k, row, **operands, random=as_value(self._k, random, u32))

    def unpack(self, register: Operand, pair: str, *, relu: bool = False) -> list[Value]:
        """The two numbers in a register, the lower one first: f16, or bf16 of bf16x2 and ue8m0x2. All are exact."""
        if pair in _HALVES:
            both, kind = self._word(register, BY_NAME[pair]), _HALVES[pair]
            if relu:
                VARIANT.fail(instruction="cvt", reason=f"relu is of conversions, and {pair} holds {kind} already")
        else:
            kind = _HALVES.get(conversions.TARGETS.get(pair, ""), f16)
            both = self.pair(register, pair, f"{kind}x2", relu=relu).bitcast(u32)
        return [(both >> shift).to(u16).bitcast(kind) for shift in (0, _HALF)]

    def pair(
        self,
        register: Operand,
        source: str,
        to: str,
        *,
        rounding: str | None = None,
        saturate: bool = False,
        relu: bool = False,
    ) -> Value:
        """cvt from one pair to another, register to register.

        From e4m3x2, e5m2x2, e2m3x2, e3m2x2 and e2m1x2 to f16x2, from ue8m0x2 to bf16x2; from f16x2 to e4m3x2 and
        e5m2x2, and from bf16x2 to ue8m0x2 (`rounding` rz or rp, `saturate` to its largest number, as
        e4m3x2 and e5m2x2 always do). Raises instruction.variant, target.feature.
        """
        mode = rounding or ("rz" if to == conversions.SCALES else "rn")
        row = variant("cvt", conversions.pair, to, source, mode, saturate or to in conversions.BYTES, relu)
        held = u8 if source == _OF_BYTE else row.operand("source").type
        packed = self._word(register, BY_NAME[source]) if source in _HALVES else as_value(self._k, register, held)
        return _typed(result(self._k, row, source=packed.to(u16) if held is u8 else packed), to)

    def _word(self, register: Operand, pair: ElementType) -> Value:
        """The bits of f16x2 or bf16x2, which may come as they are. Raises value.type for the other one."""
        value = as_value(self._k, register) if isinstance(register, Arithmetic) else as_value(self._k, register, u32)
        return value if value.type is u32 else as_value(self._k, value, pair).bitcast(u32)


def _typed(register: Value, pair: str) -> Value:
    return register.bitcast(BY_NAME[pair]) if pair in _HALVES else register


def _pack_row(to: str, mode: str, relu: bool, *, saturate: bool) -> Row:
    if mode == "rn" and to in matrix_move.PACKED_TYPES and (to in conversions.BYTES or not saturate):
        return matrix_move.pack(to, relu)
    return variant("cvt", conversions.pack, to, mode, saturate, relu)


def _check_random(mode: str, random: Operand | None) -> None:
    if (mode == conversions.STOCHASTIC) != (random is not None):
        reason = "rounding 'rs' takes random= bits" if random is None else f"random= is of rounding 'rs', not {mode!r}"
        VARIANT.fail(instruction="cvt", reason=reason)
