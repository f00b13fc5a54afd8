"""A row whose axes are legal and whose rest is another instruction's is refused on the machine form."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from nvbackend.intrinsics.copy import tma_tensor
from nvbackend.intrinsics.mma import mma, tcgen05, wgmma, wmma
from nvbackend.intrinsics.mma.form import MmaInstruction
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Asm, Effect, Intrinsic, Row, guarded
from nvbackend.intrinsics.row.types import b1, f16, f32, s8, s32
from nvbackend.intrinsics.words.tcgen05_control import control_words
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.target.target import Target
from nvbackend.isel.verify.instructions import row_faults
from nvbackend.isel.verify.verify import verify

SEED = 11
FAMILIES = (wgmma, mma, tcgen05, wmma, tma_tensor)
WGMMA = wgmma.mma_async(64, f32, f16, f16)
UMMA = tcgen05.mma("f16")
WMMA = wmma.mma((16, 16, 16), s8, s32, s32, ("row", "col"))
BITS = wmma.mma((8, 8, 128), b1, s32, s32, ("row", "col"), popc="xor")
STORE = tma_tensor.store_tensor(2, "tile")
SYNC = mma.mma(MmaInstruction((16, 8, 16), f32, f16, f16, f32))


def found(row: Row, target: str) -> dict[str, str]:
    function = MachineFunction("k", Target.parse(target))
    words = control_words(row) if row.family == "tcgen05" else {}
    function.block("entry").instructions.append(MachineInstr(row.opcode, row, words=words))
    return {one.rule_id: one.message for one in verify(function)}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: str(family.__name__).rpartition(".")[2])
def test_every_row_is_what_its_axes_say(family) -> None:  # type: ignore[no-untyped-def]
    rows = [*family.rows()]
    for row in random.Random(SEED).sample(rows, 150):
        assert [*row_faults(row)] == [], row.ptx


def spelled_without(row: Row, part: str) -> Row:
    assert part in row.ptx
    return replace(row, ptx=row.ptx.replace(part, ""))


OF, OF_UMMA = "of the instruction is wgmma.mma_async.sync.aligned.", "of the instruction is tcgen05.mma."
ALTERED: list[tuple[Callable[[], Row], str, str]] = [
    (
        lambda: spelled_without(WGMMA, ".f16"),
        "sm_90a",
        f"its spelling is wgmma.mma_async.sync.aligned.m64n64k16.f32, and that {OF}m64n64k16.f32.f16.f16",
    ),
    (lambda: replace(WMMA, lowering=BITS.lowering), "sm_90a", "its text is Intrinsic(name='llvm.nvvm.wmma.m8n8k128"),
    (
        lambda: replace(UMMA, ptx=UMMA.ptx.replace("group::1", "group::2")),
        "sm_100a",
        f"its spelling is tcgen05.mma.cta_group::2.kind::f16, and that {OF_UMMA}cta_group::1.kind::f16",
    ),
    (lambda: replace(SYNC, requires=Feature.NONE), "sm_90a", "its gate is (<Feature"),
    (lambda: replace(STORE, effects=Effect.NONE), "sm_90a", "its effects is"),
    (lambda: replace(STORE, summary="Does something else."), "sm_90a", "'summary': 'Does something else.'"),
]


@pytest.mark.parametrize(("alter", "target", "text"), ALTERED, ids=[text[:40] for _, _, text in ALTERED])
def test_an_altered_row_is_refused(alter: Callable[[], Row], target: str, text: str) -> None:
    row = alter()
    message = found(row, target)["machine.row"]
    assert message.startswith(f"{row.ptx} is not what its axes say: ")
    assert text in message


def test_another_number_of_registers_is_told_by_operand() -> None:
    short = replace(SYNC.operands[0], count=2)
    row = replace(SYNC, operands=(short, *SYNC.operands[1:]))
    assert "its operands is 2 x d (F32), 4 x a (" in found(row, "sm_90a")["machine.row"]


def test_the_rules_of_the_family_come_first() -> None:
    row = replace(WMMA, ptx="wmma.other", axes={**WMMA.axes, "popc": "xor"})
    assert list(found(row, "sm_90a")) == ["wmma.popc"]


def test_a_guarded_row_is_itself() -> None:
    asm = next(row for row in tma_tensor.rows() if isinstance(row.lowering, Asm) and not row.outputs)
    assert [*row_faults(guarded(asm))] == []
    assert [one.rule_id for one in row_faults(replace(guarded(asm), ptx="copy"))] == ["machine.row"]


def test_a_row_of_ones_own_family_is_left_alone() -> None:
    row = Row("mine", "mine.op", "mine.op", (), Intrinsic("llvm.nvvm.mine"), axes={"n": 3})
    assert [*row_faults(row)] == []
