"""Texts of inline asm: LLVM may give an output the register of any input, so inputs are read before."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nvbackend.intrinsics.catalogue import FAMILIES
from nvbackend.intrinsics.row.row import Asm, Row, operand, output
from nvbackend.intrinsics.row.row import RegisterClass as R

_NAME = re.compile(r"(?<!\{)\{(\w+)\}(?!\})|\{\{\{(\w+)\}\}\}")


def read_too_late(row: Row) -> list[str]:
    """Inputs that an instruction of the text reads after another one has written an output."""
    if not isinstance(row.lowering, Asm):
        return []
    outputs = {each.name for each in row.outputs if not each.tied}
    inputs = {each.name for each in row.inputs}
    written, late = False, []
    for instruction in row.lowering.template.split(";"):
        names = {first or second for first, second in _NAME.findall(instruction)}
        if written:
            late += sorted(names & inputs)
        written = written or bool(names & outputs)
    return late


@pytest.mark.parametrize("family", FAMILIES)
def test_inputs_are_read_before_an_output_is_written(family: str) -> None:
    assert {row.ptx: late for row in FAMILIES[family]() if (late := read_too_late(row))} == {}


def test_what_is_read_too_late() -> None:
    operands = (output("d", R.B32), operand("a", R.B32), operand("b", R.B32))
    row = Row(family="mine", opcode="mine", ptx="add.u32", operands=operands, lowering=Asm(""), section="", summary="")

    def late(template: str) -> list[str]:
        return read_too_late(replace(row, lowering=Asm(template)))

    assert late("{ptx} {d}, {a}, {b};") == []
    assert late("{{ .reg .u32 x; mov.u32 x, {a}; {ptx} {d}, x, {b}; }}") == []
    assert late("mov.b32 {{{d}}}, {a}; {ptx} {d}, {d}, {b};") == ["b"]
    assert late("mov.u32 {d}, 1; {ptx} {d}, {a}, {b};") == ["a", "b"]


def test_a_register_of_several_is_read_late_too() -> None:
    operands = (output("d", R.B32, 2), operand("a", R.B32, 2))
    text = Asm("mov.b32 {d[0]}, {a[0]}; mov.b32 {d[1]}, {a[1]};")
    row = Row(family="mine", opcode="mine", ptx="mov.b32", operands=operands, lowering=text, section="", summary="")
    assert row.reads_late
    assert row.asm == "mov.b32 $0, $2; mov.b32 $1, $3;"
