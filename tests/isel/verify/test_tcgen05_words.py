"""Control and collector word of tcgen05.mma: packed from the row, decoded again, and what they say checked."""

from __future__ import annotations

import random
from typing import Any

import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import DiagnosticError, Location
from nvbackend.intrinsics.mma import tcgen05
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.row.types import e2m1, f16, f32, u32, u64, ue4m3, ue8m0
from nvbackend.intrinsics.words.tcgen05_control import COLLECTOR, CONTROL, control_words
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor
from nvbackend.isel.machine.function import MachineFunction, MachineInstr, print_instr
from nvbackend.isel.target.target import Target
from nvbackend.isel.verify.verify import verify

SEED = 5
KINDS = ("f16", "tf32", "i8", "f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4")
"""In the seed's order."""


def found(row: Row, words: dict[str, int], target: str = "sm_100a") -> dict[str, str]:
    function = MachineFunction("kernel", Target.parse(target), attributes={"cluster": 2})
    entry, first, _ = (function.block(name) for name in ("entry", "first", "end"))
    entry.successors, entry.ranks = ["first", "end"], (0b01, 0b10)  # one CTA of the pair alone issues
    first.successors = ["end"]
    place = Location("kernel.py", 7, "kernel")
    first.instructions.append(MachineInstr(row.opcode, row, words=words, location=place))
    faults = list(verify(function))
    assert {one.location for one in faults} <= {place}
    return {one.rule_id: one.message for one in faults}


def with_words(row: Row, *, control: int = 0, collector: int = 0) -> dict[str, int]:
    """The row's words with these bits turned over."""
    words = control_words(row)
    return {CONTROL: words[CONTROL] ^ control, COLLECTOR: words[COLLECTOR] ^ collector}


def rows(count: int) -> list[Row]:
    return random.Random(SEED).sample([*tcgen05.rows()], count)


FACTORS = {
    ("mxf8f6f4", None): 0,
    ("mxf8f6f4", "scale_vec::1X"): 0,
    ("mxf8f6f4", "block32"): 0,
    ("mxf4", None): 1,
    ("mxf4", "scale_vec::2X"): 1,
    ("mxf4", "block32"): 1,
    ("mxf4nvf4", "scale_vec::2X"): 1,
    ("mxf4nvf4", "scale_vec::4X"): 2,
    ("mxf4nvf4", "block16"): 2,
    ("mxf4nvf4", "block32"): 1,
}


@pytest.mark.parametrize("row", rows(60), ids=lambda row: row.ptx)
def test_the_words_are_the_bits_of_the_seeds_table(row: Row) -> None:
    kind, axes = str(row.axes["kind"]), row.axes
    control = int(str(axes["cta_group"]))
    control |= FACTORS.get((kind, axes.get("scale_vector")), 0) << 2
    control |= bool(axes.get("scale_input_d")) << 4
    control |= kind.startswith("mx") << 5
    control |= KINDS.index(kind) << 6
    collector = {"a::fill": 0b001, "a::use": 0b011, "a::lastuse": 0b011}.get(str(axes["collector"]), 0)
    if axes.get("ashift"):
        collector = 0b100
    assert control_words(row) == {CONTROL: control, COLLECTOR: collector}
    assert control_words(row, scratch=0xFFFF_FFFF) == control_words(row)
    target = "sm_100a"
    assert found(row, control_words(row), target) == {}


def test_every_single_bit_that_is_wrong_is_found() -> None:
    for row in rows(12):
        for bit in range(32):
            for changed in (with_words(row, control=1 << bit), with_words(row, collector=1 << bit)):
                rules = set(found(row, changed))
                assert rules & {"tcgen05.control-word", "descriptor.reserved-bits", "descriptor.range"}, (row.ptx, bit)
                if bit >= 9:
                    assert rules == {"descriptor.reserved-bits"}


def test_both_meanings_of_bit_two_at_once_are_refused() -> None:
    row = tcgen05.mma("f16", a_in_tmem=True, ashift=True)
    messages = found(row, {**control_words(row), COLLECTOR: 0b101})
    assert messages["tcgen05.ashift-collector"] == "Cannot use collector::a::use or colletor::a::fill with ashift"
    assert "descriptor.range" in found(row, {**control_words(row), COLLECTOR: 0b111})


def test_an_mma_without_its_words_is_refused() -> None:
    row = tcgen05.mma("f16")
    assert list(found(row, {})) == ["tcgen05.no-control-word"]
    assert list(found(row, {CONTROL: control_words(row)[CONTROL]})) == ["tcgen05.no-control-word"]


SIA, BLOCK_SCALE, KIND = 1 << 4, 1 << 5, 6
F16, MXF4 = tcgen05.mma("f16"), tcgen05.mma("mxf4")
SAID = [
    ("INT8 type is supported only on arch-conditional variants.", tcgen05.mma("i8"), 0, 0, "sm_100f"),
    (
        "MXF4 and MXF4NVF4 types with Sparsity are supported only on arch-conditional variants.",
        tcgen05.mma("mxf4", sparse=True),
        0,
        0,
        "sm_103f",
    ),
    (
        "Explicit scale vector size is supported only on arch-conditional variants.",
        tcgen05.mma("mxf8f6f4", scale_vector="scale_vec::1X"),
        0,
        0,
        "sm_100f",
    ),
    (
        "Scale input accumulator is not supported on this architecture.",
        tcgen05.mma("f16", scale_input_d=True),
        0,
        0,
        "sm_110a",
    ),
    (
        "Scale input accumulator can only be used with f16 and tf32 types",
        tcgen05.mma("f8f6f4"),
        SIA,
        0,
        "sm_100a",
    ),
    ("Block scale is not supported for f16, tf32, f8f6f4, and i8 types", F16, BLOCK_SCALE, 0, "sm_100a"),
    ("ashift is not supported with tcgen05.mma.block_scale variants", MXF4, 0, 0b100, "sm_100a"),
    ("cta_group::2 is not supported with weight stationary", tcgen05.mma_ws("f16"), 0b11, 0, "sm_100a"),
    ("Cannot use weight stationary with mxf8f6f4 and fp4 types", tcgen05.mma_ws("f16"), 5 << KIND, 0, "sm_100a"),
    (
        "Cannot use collector::a::use or colletor::a::fill with ashift",
        tcgen05.mma("f16", a_in_tmem=True, ashift=True),
        0,
        0b001,
        "sm_100a",
    ),
    ("scale vector size is not legal for this input family", tcgen05.mma("mxf8f6f4"), 0b1000, 0, "sm_100a"),
    # Ours, of what the words alone can say.
    ("tcgen05.mma has no cta_group::4", F16, 0b10, 0, "sm_100a"),
    ("sm_90a has no tcgen05", F16, 0, 0, "sm_90a"),
]


@pytest.mark.parametrize(("text", "row", "control", "collector", "target"), SAID, ids=[case[0][:40] for case in SAID])
def test_the_texts_come_from_the_decoded_words_and_the_exact_target(
    text: str, row: Row, control: int, collector: int, target: str
) -> None:
    assert text in found(row, with_words(row, control=control, collector=collector), target).values()
    home = "sm_100a"
    assert found(row, control_words(row), home) == {}


@pytest.mark.parametrize(("text", "row", "control", "collector", "target"), SAID, ids=[case[0][:40] for case in SAID])
def test_a_builder_that_emits_row_and_words_is_told_the_same(
    text: str, row: Row, control: int, collector: int, target: str
) -> None:
    with pytest.raises(DiagnosticError) as error:
        emitted(row, with_words(row, control=control, collector=collector), target)
    assert text in [one.message for one in error.value.diagnostics]


def emitted(row: Row, words: dict[str, int], target: str) -> None:
    k = KernelBuilder("k", target, threads=128)
    with k.one_thread():
        k.emit(row, zeros(k, row), words=words)
    k.finish()


def zeros(k: KernelBuilder, row: Row) -> dict[str, Any]:
    """Operands for a row: nothing but zeros."""
    values = {RegisterClass.PRED: k.const(0, u32) == 1, RegisterClass.B64: k.const(0, u64)}
    inputs = {one.name: [values.get(one.register, k.const(0, u32)).ir] * one.count for one in row.inputs}
    return {**inputs, **{one.name: 0 for one in row.immediates}}


def test_a_word_that_disagrees_names_field_and_both_values() -> None:
    message = found(F16, with_words(F16, control=0b11))["tcgen05.control-word"]
    assert message.endswith("its control word 0x2 says cta_group = 2, and the instruction has 1")


def test_the_instruction_descriptor_is_decoded_and_compared_with_the_row() -> None:
    dense = InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32)
    wide = InstructionDescriptor(kind="f16", m=256, n=64, a=f16, b=f16, d=f32)
    words = control_words(F16)
    assert found(F16, {**words, "idesc": dense.encode()}) == {}
    assert list(found(F16, {**words, "idesc": wide.encode()})) == ["tcgen05.m"]
    sparse = tcgen05.mma("f16", sparse=True)
    assert list(found(sparse, {**control_words(sparse), "idesc": dense.encode()})) == ["tcgen05.descriptor"]
    assert list(found(F16, {**words, "idesc": dense.encode() | 1 << 23})) == ["descriptor.reserved-bits"]


def test_the_words_are_printed_with_their_fields() -> None:
    line = print_instr(MachineInstr(MXF4.opcode, MXF4, words=control_words(MXF4)))
    assert "control: cta_group 1, mma_kind 5, scale_vec_size 1, scale_input_acc False, block_scale True" in line
    assert "collector: valid False, collector_a FILL, ashift False" in line


@pytest.mark.parametrize(("target", "rules"), [("sm_100a", {"tcgen05.k96"}), ("sm_103a", set())])
def test_a_k_of_96_is_refused_on_the_chips_without(target: str, rules: set[str]) -> None:
    row = tcgen05.mma("mxf4")
    word = InstructionDescriptor(kind="mxf4", m=128, n=64, a=e2m1, b=e2m1, d=f32, scale=ue8m0, k96=True).encode()
    assert set(found(row, {**control_words(row), "idesc": word}, target)) == rules


@pytest.mark.parametrize(("vector", "rules"), [("block16", []), ("block32", ["block-scale.atom"])])
def test_the_type_of_the_scale_factors_is_read_back_from_its_bit(vector: str, rules: list[str]) -> None:
    row = tcgen05.mma("mxf4nvf4", scale_vector=vector)
    word = InstructionDescriptor(kind="mxf4nvf4", m=128, n=64, a=e2m1, b=e2m1, d=f32, scale=ue4m3).encode()
    assert list(found(row, {**control_words(row), "idesc": word})) == rules


@pytest.mark.parametrize(("word", "said"), [(0b001, "a::fill"), (0b011, "a::use")])
def test_the_fix_names_the_collector_that_the_word_says(word: int, said: str) -> None:
    row = tcgen05.mma("f16", a_in_tmem=True, ashift=True)
    function = MachineFunction("kernel", Target.parse("sm_100a"))
    words = {**control_words(row), COLLECTOR: word}
    function.block("entry").instructions.append(MachineInstr(row.opcode, row, words=words))
    (fix,) = (one.fix for one in verify(function) if one.rule_id == "tcgen05.ashift-collector")
    assert fix is not None
    assert fix.endswith(f", not {said}")
