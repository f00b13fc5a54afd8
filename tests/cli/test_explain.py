"""`nvbackend explain`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nvbackend.cli import main
from nvbackend.cli.catalogue import rows_of
from nvbackend.cli.explain import nearest, spelling_in
from nvbackend.intrinsics.catalogue import rows
from tests.support.process import ROOT

Printed = pytest.CaptureFixture[str]
MMA = "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16"


def explained(capsys: Printed, *arguments: str) -> str:
    assert main(["explain", *arguments]) == 0
    return capsys.readouterr().out


def words(text: str) -> str:
    return " ".join(text.split())


def test_what_it_does_needs_and_where_it_is_legal(capsys: Printed) -> None:
    said = words(explained(capsys, MMA, "--target", "sm_90a"))
    assert said.startswith(f"{MMA} wgmma; PTX ISA 9.7.15.5.2 2 variants a in registers operands of its own emitted as ")
    assert "1 - a_desc, trans_a inline asm 2 yes a inline asm Multiplies A with B into registers. " in said
    assert "It needs PTX 8.0 or later and SM_90 and WGMMA: legal on sm_90a. Legal on" in said
    assert "Legal on sm_90a, and the chip has it." in said
    assert " Operands name role registers in meaning d read and written 128 x f32 accumulator" in said
    assert "scale_a immediate -1 or 1 -1 negates A" in said


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        ("SM80_16x8x16_F32F16F16F32_TN", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
        (
            "cute::SM90_64x64x16_F16F16F16_SS<Major::MN, Major::MN>",
            "wgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16",
        ),
    ],
)
def test_an_atom_is_its_instruction(name: str, spelling: str, capsys: Printed) -> None:
    assert explained(capsys, name) == explained(capsys, spelling)


def test_a_name_of_no_atom_is_said_to_be_none(capsys: Printed) -> None:
    assert main(["explain", "SM80_16x8x17_F32F16F16F32_TN"]) == 2
    assert "error[atom.name]" in capsys.readouterr().err


def test_what_it_is_to_the_analyses(capsys: Printed) -> None:
    said = words(explained(capsys, MMA))
    assert (
        "To the analyses issues groups of wgmma memory 1 reads a_desc (2048), reads b_desc (8192) proxy async" in said
    )
    assert "memory 2 reads b_desc (8192)" in said
    said = words(explained(capsys, "mbarrier.arrive_drop.expect_tx.release.cluster.shared::cta.b64"))
    assert "mbarrier arrive, expect, recount releases cluster" in said
    assert "To the analyses" not in explained(capsys, "shfl.sync.idx.b32")


@pytest.mark.parametrize(
    ("spelling", "together", "continues", "orders"),
    [
        ("wgmma.fence.sync.aligned", True, False, True),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16", True, True, False),
        ("wmma.load.a.sync.aligned.row.m16n16k16.f16", True, False, False),
        ("cvt.rn.f16x2.f32", False, False, False),
        ("tcgen05.mma.cta_group::1.kind::f16", False, True, False),
        ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64", False, False, True),
        ("tcgen05.fence::before_thread_sync", False, False, True),
    ],
)
def test_what_one_must_know_of_its_effects(
    capsys: Printed, spelling: str, together: bool, continues: bool, orders: bool
) -> None:
    """PTX ISA: .aligned is executed by all threads of a warp; what is asynchronous; what orders accesses."""
    said = words(explained(capsys, spelling))
    assert ("All threads of the warp or warpgroup execute it together." in said) == together
    assert ("It continues after its issue" in said) == continues
    assert ("Other accesses may not move across it." in said) == orders


def test_what_to_use_where_it_is_not_legal(capsys: Printed) -> None:
    said = words(explained(capsys, MMA, "--target", "sm_100a"))
    assert "Not legal: sm_100a has no wgmma (wgmma.target). Instead: use tcgen05.mma over tensor memory." in said


@pytest.mark.parametrize(
    ("spelling", "native", "emulated"),
    [
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", ("sm_89", "sm_120a"), ("sm_90a", "sm_100a")),
        ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", ("sm_80", "sm_89"), ("sm_90a", "sm_100a")),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", ("sm_80", "sm_90a", "sm_100a"), ()),
    ],
)
def test_what_ptxas_makes_of_it_where_the_chip_lacks_it(
    spelling: str, native: tuple[str, ...], emulated: tuple[str, ...], capsys: Printed
) -> None:
    """Read off the SASS: fp8 is converted on 90 and 100, int4 is taken apart from 90 on."""
    for target in native:
        said = words(explained(capsys, spelling, "--target", target))
        assert f"Legal on {target}, and the chip has it." in said
        assert "emulated" not in said
    for target in emulated:
        said = words(explained(capsys, spelling, "--target", target))
        assert f"Legal on {target}, but emulated: ptxas makes " in said
        assert "Instead: " in said.split("but emulated")[1]
        assert "the chip has it" not in said


def test_who_holds_what_in_every_form_of_the_spelling(capsys: Printed) -> None:
    """PTX ISA 9.7.15.5.1: lane 4 r + q of warp w holds rows 16 w + r and 16 w + r + 8, columns 2 q and 2 q + 1."""
    registers = explained(capsys, MMA)
    assert "\nVariant 2: a: 8 elements a thread, as (row, column) of A, 64 x 16\n" in registers
    assert "\nd: 128 elements a thread, as (row, column) of D, 64 x 256\n" in registers
    assert re.findall(r"thread +4  (.*)", registers) == [
        "(1,0) (1,1) (9,0) (9,1) (1,8) (1,9) (9,8) (9,9) ...",
        "(1,0) (1,1) (9,0) (9,1) (1,8) (1,9) (9,8) (9,9)",
    ]
    assert "thread 127  (55,6) (55,7) (63,6) (63,7)" in registers


def test_an_intrinsic_is_named(capsys: Printed) -> None:
    said = words(explained(capsys, "wgmma.fence.sync.aligned"))
    assert "It is emitted through LLVM's llvm.nvvm.wgmma.fence.sync.aligned." in said
    assert "Operands" not in said


def test_lines_are_no_longer_than_a_terminal(capsys: Printed) -> None:
    assert [line for line in explained(capsys, MMA, "--target", "sm_75").splitlines() if len(line) > 100] == []


@pytest.mark.parametrize(
    "text",
    [
        "wgmma.fence.sync.aligned",
        "  wgmma.fence.sync.aligned ;",
        "wgmma.fence.sync.aligned;",
        "@%p1 wgmma.fence.sync.aligned;",
        "wgmma.fence.sync.aligned {%f0, %f1}, %rd1;",
    ],
)
def test_the_instruction_is_found_in_a_line_of_ptx(text: str) -> None:
    assert spelling_in(text) == "wgmma.fence.sync.aligned"


def test_the_nearest_have_the_qualifiers_in_common() -> None:
    known = ("mma.sync.m16n8k16.f32", "mma.sync.m16n8k8.f32", "ldmatrix.sync.x4.b16", "bar.sync")
    assert nearest("mma.sync.m16n8k17.f32", known)[:2] == ["mma.sync.m16n8k16.f32", "mma.sync.m16n8k8.f32"]


def test_what_lies_where_in_tensor_memory(capsys: Printed) -> None:
    said = explained(capsys, "tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale")
    first = words(said.split("\n\ntcgen05.mma.sp")[0])
    assert "d with M = 128: (row, column) of D, 128 x 64, in layout D" in first
    assert "scale_a with M = 128: (row, factor) of the 128 rows of A in a CTA" in first
    assert "(32,0) at (0,1,0) (64,0) at (0,2,0) (127,0) at (31,3,0) the same again 32, 64 and 96 lanes" in first
    assert "metadata with M = 128: (row, chunk) of the 128 rows of A in a CTA, a chunk of 4 elements" in first
    assert "(0,8) at (0,1,0) (0,15) at (0,1,28)" in first
    assert "(0,1) at (0,0,1)" in first, "the next column of D is the next of tensor memory"
    assert "(0,1) at (0,0,4)" in first, "a chunk of metadata has four bits"
    cells = re.findall(r"\(\d+,\d+\) at", first.split("scale_a with")[0])
    assert len(set(cells)) == len(cells) == 12, "no element of D twice"
    assert "M = 64" not in said
    assert [line for line in said.splitlines() if len(line) > 110] == []


def test_every_spelling_is_one_page(capsys: Printed) -> None:
    """cp.async has nine rows of one spelling: three sizes, each plain, with bytes to read, or with a predicate."""
    said = explained(capsys, "cp.async.ca.shared.global")
    assert said.count("cp.async.ca.shared.global\n") == 1
    assert "\n9 variants\n" in said
    assert re.findall(r"^  (\d)  (\d+) +(\S+) +(\S+)", said, re.MULTILINE) == [
        (str(number), str(size), fill, fill)
        for number, (size, fill) in enumerate(
            ((size, fill) for size in (4, 8, 16) for fill in ("-", "bytes", "ignore")), 1
        )
    ]
    assert re.search(r"\n  bytes +input +1 x b32 +2, 5, 8 +bytes to read", said)
    assert said.count("\nOperands\n") == 1


def test_an_opcode_without_its_qualifiers(capsys: Printed) -> None:
    """Reports print opcodes so: a picture needs one of the spellings."""
    for opcode in ("cp.async.bulk.tensor", "tcgen05.mma"):
        own = {row.ptx for row in rows() if row.ptx.startswith(f"{opcode}.")}
        assert main(["draw", opcode, "--operand", "a"]) == 2
        error = capsys.readouterr().err
        fix = re.search(rf"fix: use one of the {len(own)} that begin so, such as (\S+), (\S+); (.*)", error)
        assert fix is not None
        assert {fix[1], fix[2]} <= own
        families = re.fullmatch(r"nvbackend catalogue --family (\w+(?: \| \w+)*) lists them", fix[3])
        assert families is not None
        listed = [row.ptx for family in families[1].split(" | ") for row in rows_of(family)]
        assert own <= set(listed)


def test_all_spellings_of_an_opcode_are_one_page(capsys: Printed) -> None:
    """Extents and types from PTX ISA 9.7.15.5 (wgmma.mma_async); the numbers of variants add up to all rows."""
    said = explained(capsys, "wgmma.mma_async", "--target", "sm_90a")
    assert said.startswith("wgmma.mma_async.sync.aligned\n")
    dense, sparse = said.split("\nwgmma.mma_async.sp.sync.aligned\n")
    assert re.findall(r"^  ([mnk]) +(.+)$", dense, re.MULTILINE) == [
        ("m", "64"),
        ("n", "8 to 256 by 8"),
        ("k", "8, 16, 32, 256"),
    ]
    assert re.search(r"^  k +16, 32, 64$", sparse, re.MULTILINE)
    assert re.search(r"^  a +f16, bf16, tf32, e4m3, e5m2, s8, u8, b1$", dense, re.MULTILINE)
    assert re.search(r"^  satfinite +no, yes$", dense, re.MULTILINE)
    assert re.search(r"^  all +Legal on sm_90a, and the chip has it\.$", dense, re.MULTILINE)
    counted = [int(number) for number in re.findall(r"^(\d+) variants, \d+ spellings$", said, re.MULTILINE)]
    every = [row for row in rows() if row.ptx.startswith("wgmma.mma_async.")]
    assert sum(counted) == len(every)
    needs = [int(number) for number in re.findall(r"^  (\d+) +PTX \d", said, re.MULTILINE)]
    assert sum(needs) == len(every)
    (named,) = re.findall(r'nvbackend explain "(\S+)"', dense)
    assert "Operands" in explained(capsys, named)


def test_an_opcode_that_a_target_lacks(capsys: Printed) -> None:
    said = explained(capsys, "setmaxnreg", "--target", "sm_80")
    assert re.search(r"^  all +Not legal on sm_80\.$", said, re.MULTILINE)
    assert re.search(r"^  action +inc, dec$", said, re.MULTILINE)
    assert main(["explain", "setmaxnreg", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 2


FOREIGN = ROOT / "tests" / "lint" / "texts"


def of_line(file: Path, text: str, nth: int = 0) -> str:
    """FILE.ptx:LINE of the line that begins with the text."""
    lines = file.read_text(encoding="utf-8").split("\n")
    return f"{file}:{[number for number, line in enumerate(lines, 1) if line.strip().startswith(text)][nth]}"


def test_a_line_of_ptx_is_the_variant_that_is_there(capsys: Printed) -> None:
    said = explained(capsys, of_line(FOREIGN / "triton_attention.ptx", "cp.async.cg"))
    assert words(said).startswith(words(f"{FOREIGN / 'triton_attention.ptx'}:"))
    assert "variants" not in said
    assert "zeros" in said
    cells = dict(re.findall(r"^  (\S+) +(\[?%\w+\]?|\d+)", said.partition("Operands here")[2], re.MULTILINE))
    assert set(cells) >= {"destination", "source", "bytes"}


def test_a_line_of_ptx_has_its_operands(capsys: Printed) -> None:
    said = explained(capsys, of_line(FOREIGN / "nvrtc_gemm_tma.ptx", "wgmma.mma_async"))
    assert "\n  compiled from kernels.cu:22\n" in said
    here = said.partition("Operands here\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in here[1:4]] == ["d", "a_desc", "b_desc"]
    assert "32 registers" in here[1]
    assert re.search(r"%rd6 +line 142: or.b64 %rd6, %rd22, 4611686293305360384;$", here[2])
    assert "Legal on sm_90a, and the chip has it." in said
    assert "a_desc     input" in said
    assert "fragment of A" not in said


def test_a_line_without_an_instruction(capsys: Printed) -> None:
    file = FOREIGN / "nvrtc_gemm_tma.ptx"
    assert main(["explain", f"{file}:2"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error[cli.line]: line 2 of {file} has no instruction")
    nearest_line = re.search(r"use (\S+)", error)
    assert nearest_line is not None
    assert explained(capsys, nearest_line[1])
    assert main(["explain", "nothing.ptx:2"]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_what_has_no_row_is_said(capsys: Printed) -> None:
    said = explained(capsys, of_line(FOREIGN / "nvrtc_gemm_tma.ptx", "ld.param"))
    assert "has no row in the catalogue: it is not one that nvbackend selects." in said


OF_LLVM = """// Generated by LLVM NVPTX Back-End
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u32 n)
{
    .reg .b32 %r<4>;
    .loc 1 0 0
    ld.param.b32 %r1, [n];
    .loc 1 3 0
    mov.b32 %r2, %r3;
    // begin inline asm
    fns.b32 %r1, %r2, 0, 1;
    // end inline asm
    ret;
}
.file 1 "kernels.py"
"""


def test_ordinary_code_of_llvm(tmp_path: Path, capsys: Printed) -> None:
    file = tmp_path / "of_llvm.ptx"
    file.write_text(OF_LLVM, encoding="utf-8")
    said = explained(capsys, of_line(file, "ld.param"))
    assert "\n  compiled from kernels.py\n" in said
    assert re.search(r"%r1 +line 13: fns", said)
    assert words("ld.param.b32 has no row in the catalogue: it is ordinary code, which LLVM prints.") in words(said)
    said = explained(capsys, of_line(file, "mov"))
    assert "\n  compiled from kernels.py:3\n" in said
    assert re.search(r"%r2 +set here\n.*%r3 +set nowhere in this function\n", said)
    assert "fns.b32 has no row in the catalogue: it is a part of inline assembly." in explained(
        capsys, of_line(file, "fns")
    )
    (told,) = json.loads(explained(capsys, of_line(file, "ld.param"), "--json"))["instructions"]
    assert told["source"] == {"file": "kernels.py", "line": None}


def test_json_of_a_spelling_a_line_and_a_rule(capsys: Printed) -> None:
    rows = json.loads(explained(capsys, "cp.async.ca.shared.global", "--target", "sm_75", "--json"))["rows"]
    assert [row["axes"]["size"] for row in rows] == [str(size) for size in (4, 8, 16) for _ in range(3)]
    assert {row["legal"] for row in rows} == {False}
    assert rows[0]["analyses"]["issues"] == "groups of cp.async"
    place = of_line(FOREIGN / "nvrtc_gemm_tma.ptx", "wgmma.mma_async")
    (instruction,) = json.loads(explained(capsys, place, "--json"))["instructions"]
    assert instruction["source"] == {"file": "kernels.cu", "line": 22}
    assert [each["name"] for each in instruction["operands"][:3]] == ["d", "a_desc", "b_desc"]
    assert [row["axes"]["a_in_registers"] for row in instruction["rows"]] == ["False"]
    assert json.loads(explained(capsys, "lint.uncommitted", "--json"))["rule"]["rule"] == "lint.uncommitted"
