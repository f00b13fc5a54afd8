"""Operands of machine instructions have the registers of their rows; wmma's fragments those of shape and type."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.intrinsics.mma import wmma
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import b1, bf16, f16, f32, s8, s32
from nvbackend.isel.machine.function import MachineFunction, MachineInstr
from nvbackend.isel.target.target import Target
from nvbackend.isel.verify.verify import verify
from nvbackend.signature import Parameter, Pointer

DEEP = (16, 16, 16)
HALF = wmma.mma(DEEP, f16, f32, f32, ("row", "col"))
BITS = wmma.mma((8, 8, 128), b1, s32, s32, ("row", "col"), popc="xor")
LOAD = wmma.load("a", DEEP, s8, "row", "shared", strided=True)
STORE = wmma.store(DEEP, f32, "row", "shared", strided=True)


def found(row: Row, **registers: int) -> list[tuple[str, str]]:
    function = MachineFunction("kernel", Target.parse("sm_90a"))
    function.block("entry").instructions.append(MachineInstr(row.opcode, row, registers=registers))
    return [(one.rule_id, one.message) for one in verify(function) if one.severity.value == "error"]


@pytest.mark.parametrize(
    ("row", "kept", "broken", "text"),
    [
        (
            HALF,
            {"a": 8, "b": 8, "c": 8, "d": 8},
            {"a": 4},
            "a fragment A of m16n16k16 f16 is 8 registers a thread, not 4",
        ),
        (HALF, {}, {"d": 4}, "a fragment D of m16n16k16 f32 is 8 registers a thread, not 4"),
        (BITS, {"a": 1, "b": 1, "c": 2, "d": 2}, {"c": 1}, "a fragment C of m8n8k128 s32 is 2 registers"),
        (LOAD, {"fragment": 2, "stride": 1}, {"fragment": 4}, "a fragment A of m16n16k16 s8 is 2 registers"),
        (STORE, {"fragment": 8}, {"fragment": 9}, "a fragment D of m16n16k16 f32 is 8 registers"),
    ],
)
def test_a_fragment_of_another_arity_is_refused(row: Row, kept: dict, broken: dict, text: str) -> None:
    assert found(row, **kept) == []
    ((rule, message),) = found(row, **broken)
    assert rule == "wmma.arity"
    assert message.startswith(text)


def test_a_row_that_does_not_fit_its_own_shape_is_refused() -> None:
    operands = tuple(replace(one, count=4) if one.name == "a" else one for one in HALF.operands)
    assert [rule for rule, _ in found(replace(HALF, operands=operands))] == ["wmma.arity"]


@pytest.mark.parametrize(
    ("axes", "rule"),
    [
        ({"shape": (16, 8, 16)}, "wmma.shape"),
        ({"b": bf16}, "wmma.types"),
        ({"popc": "xor"}, "wmma.popc"),
        ({"a_layout": "diagonal"}, "wmma.layout"),
        ({"rounding": "rn"}, "wmma.rounding"),
    ],
)
def test_the_invariants_hold_on_the_machine_form(axes: dict, rule: str) -> None:
    assert found(HALF) == []
    assert rule in [one for one, _ in found(replace(HALF, axes={**HALF.axes, **axes}))]


def test_layouts_of_the_machine_form_are_those_of_the_type() -> None:
    wrong = replace(BITS, axes={**BITS.axes, "a_layout": "col"})
    assert "wmma.layout" in [rule for rule, _ in found(wrong)]
    assert "wmma.popc" in [rule for rule, _ in found(replace(BITS, axes={**BITS.axes, "popc": None}))]


def test_other_instructions_are_counted_too() -> None:
    assert found(STORE, stride=2)[0][0] == "machine.registers"


def test_the_builder_records_how_many_registers_it_gave() -> None:
    k = KernelBuilder("counts", "sm_80", threads=32, parameters=[Parameter("out", Pointer(f32))])
    tile = k.shared(f32, 256, align=32)
    k.wmma.store(tile, k.wmma.load("c", "m16n16k16", f32, tile), layout="row")
    recorded = {one.opcode: one.registers for one in k.machine.instructions()}
    assert recorded["wmma.load.c"]["fragment"] == 8
    assert recorded["wmma.store.d"]["fragment"] == 8
