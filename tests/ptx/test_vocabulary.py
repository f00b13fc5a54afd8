"""The words of PTX: ptxas knows each of them, and every opcode of the catalogue is made of them."""

from __future__ import annotations

import pytest

from nvbackend.lint import lint
from nvbackend.lint.lifted.matching import rows_by_spelling
from nvbackend.ptx.vocabulary import NEWEST, unknown_word, words
from tests.support.ptxas import refusals

TARGET, VERSION = "sm_100a", ".".join(map(str, NEWEST))
DECLARATIONS = ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<8>;"
UNKNOWN_INSTRUCTION, UNKNOWN_MODIFIER = "Not a name of any known instruction", "Unknown modifier"
HEADS = ("add", "cvt", "mul", "tex", "vadd")
"""What a word is tried after: ptxas knows some after certain instructions alone."""
WHOLE = {
    "mask": "pmevent.mask 1;",
    "p": "sust.p.1d.v4.b32.trap [%rd1, {%r1}], {%r1, %r2, %r3, %r4};",
    "to": "cvta.to.global.u64 %rd1, %rd2;",
}
"""Words that are parts of one instruction's name."""
SECOND = {
    "brx": "brx.idx",
    "clusterlaunchcontrol": "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128",
    "cp": "cp.async.ca.shared.global",
    "createpolicy": "createpolicy.fractional.L2::evict_last.b64",
    "mad24": "mad24.lo.u32",
    "madc": "madc.lo.u32",
    "mbarrier": "mbarrier.inval.shared.b64",
    "mul24": "mul24.hi.s32",
    "multimem": "multimem.red.global.add.u32",
    "setmaxnreg": "setmaxnreg.inc.sync.aligned.u32",
    "shf": "shf.r.clamp.b32",
    "suld": "suld.b.1d.b32.trap",
    "sured": "sured.b.add.1d.u32.trap",
    "sust": "sust.b.1d.b32.trap",
    "tcgen05": "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64",
    "tensormap": "tensormap.replace.tile.rank.global.b1024.b32",
    "wgmma": "wgmma.fence.sync.aligned",
    "wmma": "wmma.load.a.sync.aligned.m16n16k16.row.f16",
}
"""Instructions that ptxas knows with their second word alone."""
OPCODES, MODIFIERS = words()


def test_ptxas_knows_every_instruction() -> None:
    heads = sorted(OPCODES)
    said = refusals([f"{SECOND.get(head, head)} %r1, %r2;" for head in heads], DECLARATIONS, TARGET, VERSION)
    assert [head for head, text in zip(heads, said, strict=True) if UNKNOWN_INSTRUCTION in text] == []
    (refused,) = refusals(["addd.s32 %r1, %r2, %r3;"], DECLARATIONS, TARGET, VERSION)
    assert UNKNOWN_INSTRUCTION in refused


def test_ptxas_knows_every_modifier() -> None:
    left = sorted(MODIFIERS - _parts_of_rows())
    assert len(left) > 100
    for head in HEADS:
        said = refusals([f"{head}.{word}.s32 %r1, %r1, %r2;" for word in left], DECLARATIONS, TARGET, VERSION)
        left = [word for word, text in zip(left, said, strict=True) if f"{UNKNOWN_MODIFIER} '.{word}'" in text]
    assert left == sorted(WHOLE)
    assert not any("nknown" in text for text in refusals([*WHOLE.values()], DECLARATIONS, TARGET, VERSION))


def _parts_of_rows() -> set[str]:
    """The words of instructions that ptxas has taken whole (tests/intrinsics)."""
    return {part for spelling in rows_by_spelling() for part in spelling.split(".")[1:]}


def test_the_catalogue_is_made_of_these_words() -> None:
    spellings = [spelling for spelling in rows_by_spelling() if not spelling.startswith("%")]
    assert len(spellings) > 3000
    assert [spelling for spelling in spellings if unknown_word(tuple(spelling.split(".")))] == []


@pytest.mark.parametrize(
    ("opcode", "said", "complaint"),
    [
        ("mul.wiide.s32", "no type or modifier .wiide, as in mul.wiide.s32; is .wide meant?", UNKNOWN_MODIFIER),
        ("add.s33", "no type or modifier .s33, as in add.s33; is .s32 meant?", UNKNOWN_MODIFIER),
        ("addd.s32", "no instruction addd, as in addd.s32; is add meant?", UNKNOWN_INSTRUCTION),
        ("mul24.wide.s32", "no instruction mul24.wide, as in mul24.wide.s32", UNKNOWN_INSTRUCTION),
        ("qqqq.s32", "no instruction qqqq, as in qqqq.s32", UNKNOWN_INSTRUCTION),
    ],
)
def test_a_word_that_ptx_does_not_have_is_reported_at_its_first_line(opcode: str, said: str, complaint: str) -> None:
    instruction = f"{opcode} %r1, %r2, %r3;"
    text = f".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() {{ {DECLARATIONS}\n{instruction}\nret; }}"
    (found,) = lint(text, "kernel.ptx")
    assert (found.rule_id, found.message) == ("lint.opcode", f"PTX has {said}")
    assert found.location is not None
    assert found.location.line == 5
    assert complaint in refusals([instruction], DECLARATIONS, "sm_90a", "8.0")[0]
    (found,) = lint(text.replace("ret;", f"{instruction} ret;"), "kernel.ptx")
    assert "and 1 more of this function" in found.message


@pytest.mark.parametrize(
    "opcode", ["lop3.b32", "cctl.ivall", "_internal.call", "tld4.r.2d.v4.f32.f32", "vadd.s32.u32.s32"]
)
def test_instructions_that_nothing_else_knows_are_passed(opcode: str) -> None:
    head = f".target sm_90a\n.address_size 64\n.entry k() {{ {DECLARATIONS}"
    assert lint(f".version 8.0\n{head} {opcode} %r1, %r2, %r3; ret; }}") == []


def test_a_newer_version_may_have_more_words() -> None:
    head = f".target sm_90a\n.address_size 64\n.entry k() {{ {DECLARATIONS}"
    assert lint(f".version {NEWEST[0]}.{NEWEST[1] + 1}\n{head} add.s33 %r1, %r2, %r3; ret; }}") == []
    assert lint(f".version {VERSION}\n{head} add.s33 %r1, %r2, %r3; ret; }}") != []
