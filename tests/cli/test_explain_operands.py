"""The operands of a line of PTX by their names in the PTX ISA, and the one form that has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nvbackend.cli import main

TMA = "shared::cluster.global.mbarrier::complete_tx::bytes"
BLOCK_SCALED = "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0"
LINES = {
    "cp.async.ca.shared.global [%r1], [%rd1], 8;": ["destination", "source", "2"],
    "cp.async.ca.shared.global [%r1], [%rd1], 8, 4;": ["destination", "source", "2", "bytes"],
    "cp.async.ca.shared.global [%r1], [%rd1], 16, %r2;": ["destination", "source", "2", "bytes"],
    f"cp.async.bulk.tensor.2d.{TMA} [%r1], [%rd1, {{%r2, %r3}}], [%r4];": [
        *("destination", "tensor_map, coordinates", "barrier"),
    ],
    "cp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, {%r2, %r3}];": ["tensor_map, coordinates"],
    "mbarrier.arrive.release.cta.shared::cta.b64 %rd1, [%r1];": ["state", "barrier"],
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1], 2;": ["0", "barrier", "count"],
    "shfl.sync.idx.b32 %r1|%p1, %r2, %r3, 31, -1;": ["result, in_range", "value", "lane", "clamp", "members"],
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %p1, 1, -1, 0, 1;": [
        *("d", "a_desc", "b_desc", "scale_d", "scale_a", "scale_b", "trans_a", "trans_b"),
    ],
    "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;": ["d", "a_desc", "b_desc", "idesc", "enable_d"],
    "elect.sync %r1|%p1, -1;": ["leader, elected", "mask"],
    f"mma.sync.aligned.{BLOCK_SCALED} {{%f1, %f2, %f3, %f4}}, {{%r1, %r2, %r3, %r4}}, {{%r5, %r6}}, "
    "{%f1, %f2, %f3, %f4}, %r7, {0, 1}, %r8, {0, 1};": [
        *("d", "a", "b", "c", "scale_a", "byte_id_a, thread_id_a", "scale_b", "byte_id_b, thread_id_b"),
    ],
}
TEXT = """.version 8.8
.target sm_120a
.address_size 64
.visible .entry k()
{{
 .reg .b64 %rd<3>; .reg .b32 %r<9>; .reg .f32 %f<5>; .reg .pred %p<3>;
 {line}
 ret;
}}
"""


@pytest.mark.parametrize("line", LINES)
def test_operands_are_named(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "one.ptx"
    file.write_text(TEXT.format(line=line))
    assert main(["explain", f"{file}:7"]) == 0
    here = capsys.readouterr().out.partition("Operands here\n")[2]
    rows = here.partition("\n\n")[0].splitlines()[1:]
    assert [re.split(r"  +", row.strip())[0] for row in rows] == LINES[line]


@pytest.mark.parametrize(("line", "setter"), [("st.global.f32 [%rd1], %f2;", "7"), ("mov.f32 %f2, %f2;", "7")])
def test_an_accumulator_is_set_by_its_instruction(
    line: str, setter: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.ptx"
    wgmma = next(each for each in LINES if each.startswith("wgmma"))
    file.write_text(TEXT.format(line=f"{wgmma}\n {line}"))
    assert main(["explain", f"{file}:8"]) == 0
    here = capsys.readouterr().out.partition("Operands here\n")[2].partition("\n\n")[0].splitlines()
    assert re.search(rf"%f2 +line {setter}: wgmma.mma_async", here[-1])


SHAPES = ["%r1|%p1", "[%r1]", "{%r1, %r2, %r3}", "%p2", "%r7", "_", "977"]
KEPT = {
    ("mma.sync", "{%f1, %f2, %f3, %f4}"): [],
    ("elect.sync", "%r1|%p1"): ["%r1|%p1"],
    ("cp.async.bulk.tensor", "[%r4]"): ["[%r1]"],
    ("tcgen05.mma", "%p1"): ["%p2"],
    ("tcgen05.mma", "%r2"): ["%r7", "977"],
    ("wgmma.mma_async", "-1"): [],
}
"""An operand of a line, and which of SHAPES may be in its place."""


@pytest.mark.parametrize(("opcode", "operand"), KEPT)
def test_an_operand_of_another_shape_is_not_that_of_the_row(
    opcode: str, operand: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then no operand of the line has a name."""
    line, names = next((line, names) for line, names in LINES.items() if line.startswith(opcode) and operand in line)
    kept = []
    for shape in SHAPES:
        file = tmp_path / "other.ptx"
        file.write_text(TEXT.format(line=line.replace(operand, shape, 1)))
        assert main(["explain", f"{file}:7"]) == 0
        here = capsys.readouterr().out.partition("Operands here\n")[2].partition("\n\n")[0]
        shown = re.findall(r"^  (\S.*?)  ", here, re.MULTILINE)[1:]
        if names[-1] in shown:
            kept.append(shape)
    assert kept == KEPT[opcode, operand]


def test_a_copy_is_the_form_of_its_own_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for size in (4, 8, 16):
        file = tmp_path / f"{size}.ptx"
        file.write_text(TEXT.format(line=f"cp.async.ca.shared.global [%r1], [%rd1], {size};"))
        assert main(["explain", f"{file}:7"]) == 0
        said.append(capsys.readouterr().out)
    assert [re.findall(r"Copies (\d+) bytes", each) for each in said] == [["4"], ["8"], ["16"]]
    assert not any("variants" in each for each in said)


LONG = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{{
 .reg .b32 %r<3>;
 .reg .b32 {operand};
 mov.b32 {operand}, 7;
 mov.b32 %r1, {operand};
 ret;
}}
"""
"""A register that line 8 sets and line 9 reads."""


@pytest.mark.parametrize("more", [-1, 0, 1, 5])
@pytest.mark.parametrize(
    ("limit", "text", "around"),
    [
        (40, "{operand}", "  {shown}  "),
        (60, "mov.b32 {operand}, 7;", ": {shown}\n"),
        (100, "mov.b32 %r1, {operand};", ":9: {shown} (in k)"),
    ],
)
def test_long_texts_are_cut_to_what_they_may_be(
    limit: int, text: str, around: str, more: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operand, the line that set it, and the line itself: their beginnings and their last six letters are left."""
    operand = "%begin" + "x" * (limit + more - len(text.format(operand="%beginend"))) + "end"
    file = tmp_path / "long.ptx"
    file.write_text(LONG.format(operand=operand))
    assert main(["explain", f"{file}:9"]) == 0
    whole = text.format(operand=operand)
    assert len(whole) == limit + more
    shown = whole if more <= 0 else f"{whole[: limit - 11]} ... {whole[-6:]}"
    assert len(shown) == min(limit, limit + more)
    assert around.format(shown=shown) in capsys.readouterr().out
