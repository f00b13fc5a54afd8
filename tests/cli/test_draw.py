"""`nvbackend draw`."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from nvbackend import Major, SwizzleMode, f16
from nvbackend.atoms import atom
from nvbackend.cli import main
from nvbackend.layout import Layout, gmma_atom, parse, pictures
from nvbackend.layout.banks.conflicts import bank_conflicts
from nvbackend.tiled import make_tiled_mma

Printed = pytest.CaptureFixture[str]
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
HOPPER = "SM90_64x8x16_F32F16F16_SS<Major::K, Major::K>"
ATOM = "Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)"
COLUMN = "Sw<3,4,3> o smem_ptr[16b](unset) o (_32):(_64)"
SVG = "{http://www.w3.org/2000/svg}"


def drawn(capsys: Printed, *arguments: str) -> str:
    assert main(["draw", *arguments]) == 0
    return capsys.readouterr().out


def title(picture: str) -> str | None:
    return next(
        each.text for each in ElementTree.fromstring(picture).iter(f"{SVG}text") if each.get("class") == "title"
    )


def test_each_view_of_a_layout(capsys: Printed) -> None:
    tile = gmma_atom(Major.K, SwizzleMode.B128, f16)
    assert drawn(capsys, ATOM) == tile.svg()
    assert drawn(capsys, ATOM, "--banks", "16") == pictures.banks(tile, 16).svg
    assert drawn(capsys, ATOM, "--memory", "16") == pictures.memory(tile, 16).svg
    assert drawn(capsys, COLUMN, "--banks", "16", "--access", "16") == bank_conflicts(parse(COLUMN), 16, 16).svg()
    assert drawn(capsys, "(32,2):(1,32)", "--tile", "8x8") == pictures.thread_values(parse("(32,2):(1,32)"), (8, 8)).svg
    assert drawn(capsys, " 32:1") == Layout(32, 1).svg().replace("_32:_1", "32:1")


@pytest.mark.parametrize(("rows", "columns"), [(4, 8), (8, 4), (2, 16), (1, 32)])
def test_a_tile_that_is_not_square(rows: int, columns: int, capsys: Printed) -> None:
    """Thread t holds elements t, t + 8, t + 16 and t + 24, which count down the columns of the tile."""
    found = hints(drawn(capsys, "(8,4):(1,8)", "--tile", f"{rows}x{columns}"))
    elements = [row + rows * column for row in range(rows) for column in range(columns)]
    assert found == [f"T{element % 8} V{element // 8}" for element in elements]


def test_who_holds_an_operand(capsys: Printed) -> None:
    """PTX ISA 9.7.15.5.1: thread 127, lane 31 of warp 3, has the last four elements in rows 55 and 63."""
    picture = drawn(capsys, WGMMA)
    assert title(picture) == WGMMA
    boxes = [each for each in ElementTree.fromstring(picture).iter(f"{SVG}rect") if each.get("x") is not None]
    assert len(boxes) == 64 * 8
    hints = [each.findtext(f"{SVG}title") for each in boxes]
    assert hints[-2:] == ["T127 V2", "T127 V3"]
    assert hints[8 * 55 + 6] == "T127 V0"
    assert drawn(capsys, f"{WGMMA} {{}}, %rd1;", "--operand", "d") == picture
    assert drawn(capsys, WGMMA, "--operand", "a") != picture


def hints(picture: str) -> list[str | None]:
    boxes = [each for each in ElementTree.fromstring(picture).iter(f"{SVG}rect") if each.get("x") is not None]
    return [each.findtext(f"{SVG}title") for each in boxes]


def test_an_atom_by_its_name(capsys: Printed) -> None:
    """CuTe's name and the instruction's spelling: the same accumulators."""
    picture = drawn(capsys, HOPPER)
    assert title(picture) == f"C of {HOPPER}"
    assert hints(picture) == hints(drawn(capsys, WGMMA, "--operand", "d"))
    assert drawn(capsys, f"cute::{HOPPER}", "--operand", "d") == picture
    assert hints(drawn(capsys, "SM80_16x8x16_F32F16F16F32_TN", "--operand", "B"))[1] == "T0 V1"  # n 0, k 1
    sparse = "SM80_SPARSE_16x8x32_F32F16F16F32_TN"
    assert drawn(capsys, sparse, "--operand", "e") == atom(sparse).picture("E").svg
    assert make_tiled_mma(HOPPER)._repr_svg_() == drawn(capsys, HOPPER, "--by", "warp")


def test_several_atoms_by_warpgroup(capsys: Printed) -> None:
    picture = drawn(capsys, HOPPER, "--atoms", "2x1x1", "--by", "warpgroup")
    found = hints(picture)
    assert len(found) == 128 * 8
    assert found[0] == "G0 T0 V0"
    assert found[8 * 64 : 8 * 64 + 3] == ["G1 T0 V0", "G1 T0 V1", "G1 T1 V0"]
    assert hints(drawn(capsys, HOPPER, "--atoms", "2x1x1", "--by", "warp"))[8 * 80] == "W5 T0 V0"


def test_the_file_is_what_would_be_printed(capsys: Printed, tmp_path: Path) -> None:
    file = tmp_path / "tile.svg"
    assert drawn(capsys, ATOM, "-o", str(file)) == f"{file}\n"
    assert file.read_text(encoding="utf-8") == drawn(capsys, ATOM)


@pytest.mark.parametrize(
    ("arguments", "rule", "words"),
    [
        (["(8,8:1"], "layout-algebra.parse", "character 4"),
        (["Sw<3,4,3>"], "layout-algebra.parse", "'o' and an offset"),
        (["(8,8):(8,1)", "--operand", "d"], "cli.draw", "no operands"),
        (["(8,8):(8,1)", "--tile", "8x8", "--banks", "32"], "cli.draw", "--tile and --banks are different"),
        (["(8,8):(8,1)", "--access", "4"], "cli.draw", "--banks"),
        (["(8,8):(8,1)", "--banks", "0"], "cli.draw", "at least one bit"),
        (["(8,8):(8,1)", "--tile", "8"], "cli.draw", "--tile 8 is not a pair"),
        (["(8,8):(8,1)", "--tile", "4x4"], "picture.tile", "its index 16"),
        (["(8,8):(8,1)", "--banks", "x"], "cli.usage", "--banks"),
        (["(8,8):(8,1)", "--banks", "32", "--access", "4"], "banks.vector", "the elements 0, 4 of"),
        ([WGMMA, "--banks", "32"], "cli.draw", "--banks is for layouts"),
        ([WGMMA, "--operand", "b"], "cli.operand", "draw one of a, d"),
        (["wgmma.fence.sync.aligned"], "cli.operand", "do not hold a fragment of any operand"),
        (["wgmma.fence.sync"], "cli.spelling", "wgmma.fence.sync.aligned"),
        ([""], "cli.spelling", "use one of"),
        (["(8,8):(8,1)", "-o", "/"], "cli.output", "/"),
        (["(8,8):(8,1)", "--by", "warp"], "cli.draw", "--by is for MMA atoms"),
        ([WGMMA, "--atoms", "1x1x1"], "cli.draw", "--atoms is for MMA atoms"),
        ([HOPPER, "--tile", "8x8"], "cli.draw", "is an MMA atom"),
        ([HOPPER, "--atoms", "2x1"], "cli.draw", "--atoms 2x1 is not how many"),
        ([HOPPER, "--operand", "E"], "atom.operand", "has no E"),
        ([HOPPER, "--operand", "E", "--atoms", "1x1x1"], "tiled-mma.operand", "'E' is not an operand"),
        (["SM90_64x20x16"], "atom.name", "SM90_64x20x16"),
    ],
)
def test_what_can_not_be_drawn(arguments: list[str], rule: str, words: str, capsys: Printed) -> None:
    assert main(["draw", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error[{rule}]: ")
    assert words in printed.err
    assert "  at " not in printed.err
