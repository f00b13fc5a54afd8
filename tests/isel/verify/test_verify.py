"""The machine verifier: gates, immediates, packed words and control flow, and that a call is held to the same rules."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nvbackend.diagnostics import Diagnostic, DiagnosticError, Location
from nvbackend.intrinsics.mma import wgmma
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import f16, f32
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import register_budget
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.select.rows import check_row, in_words
from nvbackend.isel.target.target import Target, targets_with
from nvbackend.isel.verify.verify import verify

HERE = Location("kernel.py", 7, "kernel")
MMA = wgmma.mma_async(64, f32, f16, f16)
LEGAL_IMMEDIATES = {"scale_a": 1, "scale_b": -1, "trans_a": 0, "trans_b": 1}


def verified(
    *instructions: MachineInstr, target: str = "sm_90a", version: tuple[int, int] | None = None
) -> list[Diagnostic]:
    function = MachineFunction("kernel", Target.parse(target, version))
    function.block("entry").instructions += instructions
    return verify(function)


def instr(row: Row, **immediates: int) -> MachineInstr:
    return MachineInstr(row.opcode, row, immediates=immediates, location=HERE)


def mma(**words: int) -> MachineInstr:
    return MachineInstr(MMA.opcode, MMA, immediates=LEGAL_IMMEDIATES, words=words, location=HERE)


def ids(diagnostics: Iterable[Diagnostic]) -> list[str]:
    return [one.rule_id for one in diagnostics]


def test_legal_instructions_pass() -> None:
    increase, fence = register_budget.setmaxnreg("inc"), sync.fence_mbarrier_init()
    assert verified(instr(increase, registers=232), instr(fence), MachineInstr("ret")) == []


def test_a_missing_feature_is_named_with_the_targets_that_have_it() -> None:
    (found,) = verified(instr(sync.fence_mbarrier_init()), target="sm_80")
    assert found.rule_id == "target.feature"
    assert found.message == "fence.mbarrier_init.release.cluster needs SM_90, which sm_80 does not have"
    assert found.fix.startswith("compile for sm_90 or later, ")
    assert found.location == HERE


def test_an_old_ptx_version_is_refused() -> None:
    row = sync.griddepcontrol("wait")
    lacking = replace(row, ptx_version=(8, 7))
    (found,) = verified(instr(lacking), version=(8, 6))
    assert found.rule_id == "target.row-ptx-version"
    assert "needs PTX 8.7 or later; sm_90a is compiled with PTX 8.6" in found.message
    assert verified(instr(lacking), version=(8, 7)) == []


def test_an_immediate_outside_of_its_values_is_refused() -> None:
    (found,) = verified(instr(register_budget.setmaxnreg("inc"), registers=100))
    assert found.rule_id == "machine.immediate"
    assert "immediate registers is 100, and must be 24 to 256 by 8" in found.message
    assert found.fix in ("use 96", "use 104")


def test_a_wait_out_of_range_is_told_once_by_its_own_rule() -> None:
    found = verified(instr(wgmma.wait_group(), pending=8))
    assert ids(found) == ["wgmma.wait-range"]
    assert "wgmma.wait_group 8" in found[0].message
    assert "is 0 to 7" in found[0].message


def test_a_wgmma_for_another_chip_is_refused_by_its_own_rule() -> None:
    assert ids(verified(mma(), target="sm_100a"))[:1] == ["wgmma.target"]
    assert "target.feature" not in ids(verified(mma(), target="sm_100a"))


def test_an_illegal_wgmma_immediate_is_found() -> None:
    broken = MachineInstr(MMA.opcode, MMA, immediates={**LEGAL_IMMEDIATES, "trans_b": 2}, location=HERE)
    found = [one for one in verified(broken) if one.location == HERE]
    assert "wgmma.transpose" in ids(found)


@pytest.mark.parametrize("word", ["a_desc", "b_desc"])
def test_descriptor_words_are_decoded_again(word: str) -> None:
    legal = [one for one in verified(mma(**{word: 0x4000004000010000})) if one.rule_id.startswith("descriptor.")]
    assert legal == []
    (found,) = [one for one in verified(mma(**{word: 1 << 60})) if one.rule_id.startswith("descriptor.")]
    assert found.rule_id == "descriptor.reserved-bits"
    assert found.location == HERE


def test_words_of_other_instructions_are_left_alone() -> None:
    assert verified(MachineInstr("other", words={"a_desc": 1 << 60}, location=HERE)) == []


def test_the_protocol_is_checked_too() -> None:
    assert set(ids(verified(mma(), MachineInstr("ret")))) == {"wgmma.missing-fence", "wgmma.missing-commit"}


def test_a_successor_that_is_not_there_is_told_and_ends_the_check() -> None:
    function = MachineFunction("kernel", Target.parse("sm_90a"))
    function.block("entry").successors = ["nowhere"]
    function.block("entry").instructions = [mma(), MachineInstr("other", location=HERE)]
    (found,) = verify(function)
    assert found.rule_id == "machine.successor"
    assert found.message == "block entry of kernel continues in nowhere, which the function does not have"
    assert found.location == HERE


def test_one_line_that_emits_often_is_told_once() -> None:
    assert len(verified(*(instr(sync.fence_mbarrier_init()) for _ in range(5)), target="sm_80")) == 1


def test_a_call_is_held_to_the_same_gates() -> None:
    row = register_budget.setmaxnreg("inc")
    check_row(row, Target.parse("sm_90a"), {"registers": 40})
    with pytest.raises(DiagnosticError) as error:
        check_row(row, Target.parse("sm_80"), {"registers": 41})
    assert ids(error.value.diagnostics) == ["target.feature", "machine.immediate"]
    assert all(one.location and one.location.file == __file__ for one in error.value.diagnostics)


def test_a_call_of_a_wait_out_of_range_is_refused() -> None:
    with pytest.raises(DiagnosticError) as error:
        check_row(wgmma.wait_group(), Target.parse("sm_90a"), {"pending": 9})
    assert ids(error.value.diagnostics) == ["wgmma.wait-range"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((0, 1), "0 or 1"),
        ((7,), "7"),
        ((1, -1), "-1 or 1"),
        (range(24, 257, 8), "24 to 256 by 8"),
        (range(8), "0 to 7"),
    ],
)
def test_legal_values_in_words(values: Iterable[int], words: str) -> None:
    assert in_words(values) == words


@given(st.sets(st.integers(0, 40), min_size=1, max_size=8))
@example({3, 5})
@example({1, 2, 3})
@example({4, 8, 12, 16})
def test_legal_values_are_what_their_words_say(values: set[int]) -> None:
    """`a to b by s`, or each of them: read back, they are the same values."""
    text = in_words(values)
    run = re.fullmatch(r"(\d+) to (\d+)(?: by (\d+))?", text)
    if run is None:
        assert {int(one) for one in text.split(" or ")} == values
    else:
        first, last, step = int(run[1]), int(run[2]), int(run[3] or 1)
        assert set(range(first, last + 1, step)) == values
        assert run[3] != "1"
    distances = {after - before for before, after in itertools.pairwise(sorted(values))}
    assert (run is not None) is (len(values) > 2 and len(distances) == 1)


def test_targets_in_words() -> None:
    assert targets_with(Feature.WGMMA) == "sm_90a"
    assert targets_with(Feature.BLOCK_SCALED_MMA) == "one of sm_120a, sm_120f, sm_121a, sm_121f"
    assert targets_with(Feature.TMEM_INT8) == "one of sm_100a, sm_101a, sm_110a"
