"""Which instructions there are: those that ptxas takes, for one chip of Blackwell or another, and no others."""

from __future__ import annotations

import re

import pytest

from nvbackend.simulator.scalar import find
from tests.simulator.scalar.spellings import REGISTERS, candidates, statement
from tests.support.ptxas import refusals

TARGETS = ("sm_100a", "sm_120a")
"""Between them they have every scalar instruction of today."""
VERSION = "9.2"
SAMPLE = 151
"""One of so many is asked about in the ordinary run."""
UNDOCUMENTED = re.compile(
    # ptxas has them, PTX ISA not; of f16 it makes the last, and rounds x2 to nearest (docs/divergences.md)
    r"(addc|subc|madc\.\w+)(\.cc)?\.[us]16|(addc|subc)\.sat\.s32|rcp\.r\w\.ftz\.f64"
    r"|fma\.r[zmp](\.relu)?\.bf16(x2)?"
)


def differences(spellings):
    """The instructions that either ptxas knows or the simulator."""
    asked = [one for one in spellings if not UNDOCUMENTED.fullmatch(one[0])]
    texts = [statement(one) for one in asked]
    said = [refusals(texts, REGISTERS, target, VERSION) for target in TARGETS]
    known = [find(tuple(opcode.split("."))) is not None for opcode, _, _ in asked]
    taken = [not all(each) for each in zip(*said, strict=True)]
    assert any(known) and not all(known)
    return [
        (text, "ptxas takes it" if refusal == "" else refusal)
        for text, knows, takes, refusal in zip(texts, known, taken, said[0], strict=True)
        if knows != takes
    ]


def test_a_sample_is_known_where_ptxas_takes_it():
    assert differences(candidates()[::SAMPLE]) == []


@pytest.mark.exhaustive(seconds=100)
def test_every_spelling_is_known_where_ptxas_takes_it():
    """15,000 spellings, of which 2,200 are legal."""
    assert differences(candidates()) == []


def test_operands_are_those_of_ptxas():
    """Instructions that are known have as many operands as ptxas has taken."""
    for opcode, destinations, sources in candidates():
        pure = find(tuple(opcode.split(".")))
        if pure is None:
            continue
        operands = [one for one in pure.operands if one != "cc"]
        assert len(operands) - pure.optional <= len(sources) <= len(operands), opcode
        assert len(destinations) <= len(pure.results), opcode
