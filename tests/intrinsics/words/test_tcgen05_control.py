"""The seed's control and collector words of tcgen05, against the seed's table as arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvbackend import InstructionDescriptor, SmemDescriptor, Tcgen05SmemDescriptor
from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.mma.tcgen05 import KINDS
from nvbackend.intrinsics.words.tcgen05_control import SEED_KINDS, SeedCollector, Tcgen05Collector, Tcgen05Ctrl
from nvbackend.tileiras import TileirasDescriptor

controls = st.builds(Tcgen05Ctrl, st.integers(1, 3), st.integers(0, 6), st.integers(0, 2), st.booleans(), st.booleans())


def rules(error: pytest.ExceptionInfo[DiagnosticError]) -> list[str]:
    return [diagnostic.rule_id for diagnostic in error.value.diagnostics]


@given(controls)
def test_the_control_word_is_the_seeds_table(control: Tcgen05Ctrl) -> None:
    word = control.cta_group + control.scale_vec_size * 4 + control.scale_input_acc * 16
    word += control.block_scale * 32 + control.mma_kind * 64
    assert control.encode() == word
    assert Tcgen05Ctrl.decode(word) == control


def test_an_example_by_hand() -> None:
    """Block-scaled mxf4 of two CTAs with a 2X scale vector: kind 5, block 1, size 1, group 2."""
    assert Tcgen05Ctrl(2, SEED_KINDS.index("mxf4"), 1, block_scale=True).encode() == 0b101_1_0_01_10


def test_the_kinds_are_all_there_are() -> None:
    assert sorted(SEED_KINDS) == sorted(KINDS)
    assert Tcgen05Ctrl(1, 2).kind == "i8"


@given(controls, st.integers(9, 31))
def test_reserved_bits_are_refused(control: Tcgen05Ctrl, bit: int) -> None:
    with pytest.raises(DiagnosticError) as error:
        Tcgen05Ctrl.decode(control.encode() | 1 << bit)
    assert rules(error) == ["descriptor.reserved-bits"]


@pytest.mark.parametrize("word", [0, 1 | 3 << 2, 1 | 7 << 6])
def test_reserved_codes_are_refused(word: int) -> None:
    with pytest.raises(DiagnosticError) as error:
        Tcgen05Ctrl.decode(word)
    assert rules(error) == ["descriptor.range"]


COLLECTORS = {
    0b000: Tcgen05Collector(),
    0b001: Tcgen05Collector(True, SeedCollector.FILL),
    0b011: Tcgen05Collector(True, SeedCollector.USE),
    0b101: Tcgen05Collector(True, SeedCollector.FILL_USE),
    0b010: Tcgen05Collector(False, SeedCollector.USE),
    0b100: Tcgen05Collector(ashift=True),
}


@pytest.mark.parametrize("word", range(16))
def test_collector_words_go_round_and_others_are_refused(word: int) -> None:
    if word in COLLECTORS:
        assert Tcgen05Collector.decode(word) == COLLECTORS[word]
        assert COLLECTORS[word].encode() == word
    else:
        with pytest.raises(DiagnosticError) as error:
            Tcgen05Collector.decode(word)
        assert rules(error) == ["descriptor.reserved-bits" if word & 8 else "descriptor.range"]


@pytest.mark.parametrize(
    ("valid", "mode", "ashift"),
    [
        (True, SeedCollector.FILL, True),
        (False, SeedCollector.USE, True),
        (True, SeedCollector.FILL_USE, True),
        (False, SeedCollector.FILL_USE, False),
    ],
)
def test_one_bit_is_not_two_things(valid: bool, mode: SeedCollector, ashift: bool) -> None:
    with pytest.raises(DiagnosticError) as error:
        Tcgen05Collector(valid, mode, ashift)
    assert rules(error) == ["tcgen05.seed-collector"]


CONTROL = "tileiras documents: tcgen05 / WGMMA / mbarrier / Cluster Emission, Control-Word Bit Layout"
SOURCES = [
    (lambda: Tcgen05Ctrl(0, 9), CONTROL),
    (lambda: Tcgen05Ctrl.decode(1 | 1 << 20), CONTROL),
    (lambda: Tcgen05Ctrl.decode(1 << 40), CONTROL),
    (lambda: Tcgen05Collector.decode(8), CONTROL),
    (
        lambda: TileirasDescriptor(1 << 20, 0, 0),
        "tileiras documents: WGMMA Emission Protocol, SMEM Descriptor Bit Layout",
    ),
    (
        lambda: TileirasDescriptor.decode(1 << 50),
        "tileiras documents: WGMMA Emission Protocol, SMEM Descriptor Bit Layout",
    ),
    (lambda: SmemDescriptor(8, 16, 16), "PTX ISA 9.7.15.5.1.2.2 (matrix descriptor format)"),
    (lambda: Tcgen05SmemDescriptor.decode(1 << 64), "PTX ISA 9.7.16.4.1 (shared memory descriptor)"),
    (lambda: InstructionDescriptor.decode(1 << 32, kind="f16"), "PTX ISA 9.7.16.4.2 (instruction descriptor)"),
]


@pytest.mark.parametrize(("call", "source"), SOURCES, ids=range(len(SOURCES)))
def test_a_word_names_the_document_that_defines_it(call: Callable[[], object], source: str) -> None:
    with pytest.raises(DiagnosticError) as error:
        call()
    assert {diagnostic.rule.reference for diagnostic in error.value.diagnostics} == {source}
    assert f"see: {source}" in str(error.value)
