"""Registers of A that machine code writes too early: small codes by hand, real ones of old and new ptxas, and the life
ranges that nvdisasm works out itself as the witness of what each instruction writes."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from nvbackend.codegen.register_hazards import Hazard, UnreadableSass, hazards, written
from nvbackend.codegen.sass import disassemble
from nvbackend.codegen.toolchain import find_disassembler, find_ptxas
from nvbackend.isel.target.target import Target
from tests.corpus import attention
from tests.support.protocol_kernels import register_operand
from tests.support.ptxas import old_ptxas

pytestmark = pytest.mark.sampled(3)

ARRIVE = "WARPGROUP.ARRIVE"
MMA = "HGMMA.64x64x16.F32 R24, R4, gdesc[UR4], R24"
GROUP = "HGMMA.64x64x16.F32 R24, R4, gdesc[UR4], R24, gsb0"
OTHER = "HGMMA.64x64x16.F32 R24, R8, gdesc[UR4], R24, gsb0"
SHARED = "HGMMA.64x64x16.F32 R24, gdesc[UR4], R24, gsb0"
WAIT, WAIT_1 = "WARPGROUP.DEPBAR.LE gsb0, 0x0", "WARPGROUP.DEPBAR.LE gsb0, 0x1"
LOAD = "LDG.E.128 R4, desc[UR4][R2.64]"
"""Into all of A's registers."""


def code(*lines: str) -> str:
    """SASS of these instructions and labels."""
    texts = [".text.kernel:"]
    for place, line in enumerate((*lines, "EXIT", "BRA `(.L_end)")):
        texts.append(line if line.endswith(":") else f"        /*{16 * place:04x}*/                   {line} ;")
    return "\n".join((*texts, ".L_end:"))


def registers(*lines: str) -> list[int]:
    return [found.register for found in hazards(code(*lines))]


@pytest.mark.parametrize(
    "lines",
    [
        (LOAD, ARRIVE, GROUP, WAIT, LOAD),
        (GROUP, SHARED, WAIT_1, LOAD),
        (GROUP, OTHER, WAIT_1, LOAD, "LDG.E.128 R12, desc[UR4][R2.64]"),
        (MMA, "IADD3 R3, R4, R5, R6", "STG.E.128 desc[UR4][R2.64], R4", "ISETP.NE.AND P0, PT, R4, RZ, PT"),
        (MMA, "LDG.E.64 R2, desc[UR4][R2.64]", "MOV R8, R4", "R2UR UR4, R4", "ST.E.128 desc[UR4][R2.64], R4"),
        (MMA, "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R2+URZ], R4", "SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [R2+URZ], RZ"),
        (MMA, "WARPSYNC.COLLECTIVE R4, `(.L_end)", "BAR.SYNC.DEFER_BLOCKING R4, 0x80", "SYNCS.EXCH.64 URZ, [UR6], UR4"),
        ("@P0 BRA `(.L_2)", GROUP, WAIT, ".L_2:", LOAD),
        (".L_1:", LOAD, ARRIVE, GROUP, WAIT, "@P0 BRA `(.L_1)"),
        ("HGMMA.64x64x16.F32 R24, R4, gdesc[UR4], !UPT, gsb0", WAIT, LOAD),
        ("HGMMA.64x64x16.F16 R24, R40, gdesc[UR4], R24", "HGMMA.64x64x16.F16 R24, R44, gdesc[UR4], R24, gsb0", WAIT),
    ],
)
def test_code_that_is_right(lines: tuple[str, ...]) -> None:
    assert registers(*lines) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((GROUP, LOAD, WAIT), [4, 5, 6, 7]),
        ((MMA, "MOV R7, R20"), [7]),
        ((MMA, "LDG.E.64 R2, desc[UR4][R2.64]", "LDS.64 R6, [R2]"), [6, 7]),
        ((MMA, "IMAD.WIDE R6, R2, R3, R20"), [6, 7]),
        ((MMA, "@!P3 MOV R4, R20"), [4]),
        ((MMA, "SYNCS.ARRIVE.TRANS64.A1T0 R6, [UR6], RZ"), [6, 7]),
        ((MMA, "LEPC R6"), [6, 7]),
        ((MMA, "NEWOP.X P0, R2, R20"), [4, 5]),
        ((MMA, "SHFL.BFLY PT, R5, R20, 0x1, 0x1f"), [5]),
        ((MMA, "LDSM.16.M88.4 R0, [R20]", "LDSM.16.MT88.4 R4, [R20]"), [4, 5, 6, 7]),
        ((SHARED, GROUP, WAIT_1, "MOV R4, R20"), [4]),
        ((GROUP, SHARED, "MOV R4, R20", WAIT_1), [4]),
        ((GROUP, OTHER, WAIT_1, "MOV R8, R20"), [8]),
        ((GROUP, "@P0 BRA `(.L_2)", WAIT, ".L_2:", "MOV R5, R20"), [5]),
        ((".L_1:", "MOV R6, R20", ARRIVE, GROUP, WAIT_1, "@P0 BRA `(.L_1)"), [6]),
        (
            ("HGMMA.64x64x16.F32 R24, R52, gdesc[UR4], R24", "HGMMA.64x64x16.F32 R24, R56, gdesc[UR4], R24"),
            [52, 53, 54, 55],
        ),
        (("CALL.REL.NOINC `(.L_f)", "MOV R4, R20", "EXIT", ".L_f:", GROUP, "RET.REL.NODEC R2 `(.L_f)"), [4]),
        (("BRA.DIV UR4, `(.L_9)", GROUP, ".L_9:", "MOV R4, R20"), [4]),
        ((MMA, "IGMMA.64x8x32.S8.S8 R4, gdesc[UR4], R4, gsb0"), [4, 5, 6, 7]),
        (("QGMMA.SP.64x64x64.F32.E4M3.E5M2 R24, R4, gdesc[UR4], R24, gsb0", "MOV R4, R20"), [4]),
    ],
)
def test_code_that_writes_too_early(lines: tuple[str, ...], expected: list[int]) -> None:
    assert sorted(registers(*lines)) == expected


def test_a_hazard_names_both() -> None:
    assert hazards(code(GROUP, "MOV R6, R20", WAIT)) == (Hazard(6, GROUP, "MOV R6, R20"),)


@pytest.mark.parametrize(
    "lines",
    [("BRX R2 -0x10",), ("WARPGROUP.COMMIT gsb0",), (".L_1:", GROUP, "@P0 BRA `(.L_1)", WAIT)],
)
def test_code_that_cannot_be_followed(lines: tuple[str, ...]) -> None:
    with pytest.raises(UnreadableSass):
        hazards(code(*lines))


@pytest.mark.parametrize("kernel", [register_operand, attention.the_next_scores_while_the_last_weights_multiply])
def test_a_ptxas_of_cuda_12_is_taken_where_its_code_is_right(kernel: object) -> None:
    tools = old_ptxas()
    if not tools:
        pytest.skip("no package with the ptxas of CUDA 12 is installed")
    target = Target.parse("sm_90a", (8, 8))
    for tool in tools:
        compiled = kernel.compile(target=target, tool=tool)  # type: ignore[attr-defined]
        sass = disassemble(compiled.cubin.data)
        in_registers = re.findall(r"[A-Z]GMMA\S* R\d+, (R\d+),", sass)
        assert in_registers
        assert hazards(sass) == ()
        # The same code with one more write after each such instruction is wrong.
        broken = re.sub(
            r"(/\*(\w+)\*/\s+[A-Z]GMMA\S* R\d+, (R\d+),[^;]*;)", r"\1\n        /*\2*/    MOV \3, RZ ;", sass
        )
        assert {found.register for found in hazards(broken)} >= {int(one[1:]) for one in in_registers}


_COLUMNS = re.compile(r"//\s\|\s+#(?P<columns>( \d+)+)")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+([^;]*?)\s*;")


def life_ranges(sass: str) -> list[tuple[str, set[int]]]:
    """Each instruction with the registers that nvdisasm says it writes: '^', or 'x' where it reads them as well."""
    columns: list[tuple[int, int]] = []
    found = []
    for line in sass.splitlines():
        if not columns and (header := _COLUMNS.search(line)):
            start = header.start("columns")
            columns = [(int(one[0]), start + one.end() - 1) for one in re.finditer(r"\d+", header["columns"])]
        elif columns and (match := _INSTRUCTION.match(line)):
            found.append((match[1], {number for number, place in columns if line[place : place + 1] in ("^", "x")}))
    return found


@pytest.mark.parametrize(
    "name", ["hopper_gemm", "ada_gemm", "ampere_gemm", "turing_gemm", "consumer_blackwell_gemm", "attention"]
)
def test_what_is_written_is_what_nvdisasm_says(name: str, tmp_path: Path) -> None:
    tool = find_disassembler()
    if not tool.path.name.startswith("nvdisasm"):
        pytest.skip(f"no nvdisasm: {tool.path.name}, the disassembler here, prints no life ranges")
    if name == "attention":
        kernel = attention.the_next_scores_while_the_last_weights_multiply
    else:
        kernel = importlib.import_module(f"samples.{name}").gemm
    (tmp_path / "kernel.cubin").write_bytes(kernel.compile(tool=find_ptxas()).cubin.data)
    said = life_ranges(tool.run(["-c", "-plr", "kernel.cubin"], tmp_path).stdout)
    assert len(said) > 100
    assert sum(bool(registers) for _, registers in said) > 50
    for text, registers in said:
        ours = set(written(text))
        assert registers <= ours, text
        # Where the width is not certain it is taken larger, and never by more than a quad.
        assert len(ours) <= max(4, len(registers)), text
