"""The seed's selector classes of operand B: its sentence, typed again."""

from __future__ import annotations

import pytest

from nvbackend import DiagnosticError
from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.row.types import BY_NAME
from nvbackend.tileiras import SeedOperandB, seed_operand_b

SENTENCE = {
    # "Bit-level operands take the smallest selector class; i4/i8/u8 take the byte-class path; f16/bf16/tf32/f8 take
    # the half/float class"
    "b1": SeedOperandB.BIT,
    "s4": SeedOperandB.BYTE,
    "u4": SeedOperandB.BYTE,
    "s8": SeedOperandB.BYTE,
    "u8": SeedOperandB.BYTE,
    "f16": SeedOperandB.HALF_FLOAT,
    "bf16": SeedOperandB.HALF_FLOAT,
    "tf32": SeedOperandB.HALF_FLOAT,
    "e4m3": SeedOperandB.HALF_FLOAT,
    "e5m2": SeedOperandB.HALF_FLOAT,
}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_type_has_the_class_of_the_sentence(name: str) -> None:
    if name in SENTENCE:
        assert seed_operand_b(BY_NAME[name]) is SENTENCE[name]
        assert seed_operand_b(BY_NAME[name], sparse=True) is SeedOperandB.EXTENDED
        return
    for sparse in (False, True):
        with pytest.raises(DiagnosticError) as caught:
            seed_operand_b(BY_NAME[name], sparse=sparse)
        assert [one.rule_id for one in caught.value.diagnostics] == ["wgmma.seed-operand-b"]


def test_every_type_that_wgmma_multiplies_has_a_class() -> None:
    found = {b for kind in wgmma.MULTIPLICANDS for _, b in kind.pairs}
    assert {b.name for b in found} == set(SENTENCE) - {"s4", "u4"}


def test_the_smallest_class_is_that_of_bits() -> None:
    assert list(SeedOperandB) == [
        SeedOperandB.BIT,
        SeedOperandB.BYTE,
        SeedOperandB.HALF_FLOAT,
        SeedOperandB.EXTENDED,
    ]
