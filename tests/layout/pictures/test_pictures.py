"""Pictures of threads, banks and memory: what stands in their cells, read by an XML parser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nvbackend import DiagnosticError, Major, SwizzleMode, f16
from nvbackend.intrinsics.catalogue import FAMILIES
from nvbackend.intrinsics.maps.rows import FragmentMap, fragment_maps
from nvbackend.intrinsics.row.row import Row
from nvbackend.layout import Layout, gmma_atom, parse, pictures
from nvbackend.layout.banks.conflicts import bank_conflicts
from nvbackend.layout.drawing.svg import palette
from nvbackend.layout.pictures.pictures import fragment_picture

SVG = "{http://www.w3.org/2000/svg}"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def cells(picture: str) -> list[list[str]]:
    """The texts of the cells, line by line; empty cells are left out."""
    found: dict[float, list[tuple[float, str]]] = {}
    for each in ElementTree.fromstring(picture).iter(f"{SVG}text"):
        if each.get("class") == "cell":
            spans = list(each) or [each]
            words = " ".join(span.text or "" for span in spans)
            found.setdefault(float(spans[0].get("y", "")), []).append((float(spans[0].get("x", "")), words))
    return [[words for _, words in sorted(found[y])] for y in sorted(found)]


def labels(picture: str, kind: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text") if each.get("class") == kind]


def boxes(picture: str) -> list[tuple[float, float, str]]:
    """Places and colours of the cells, in reading order."""
    found = [each for each in ElementTree.fromstring(picture).iter(f"{SVG}rect") if each.get("x") is not None]
    return [(float(each.get("y", "")), float(each.get("x", "")), each.get("fill", "")) for each in found]


def row(family: str, spelling: str) -> Row:
    return next(each for each in FAMILIES[family]() if each.ptx == spelling)


def fragment(operand: str) -> FragmentMap:
    return next(held for held in fragment_maps(row("mma", MMA)) if held.operand == operand)


def test_an_accumulator_as_the_ptx_isa_has_it() -> None:
    """PTX ISA 9.7.14 (mma.m16n8k16): c0, c1 in row lane / 4, c2, c3 eight below; columns 2 (lane % 4) and the next."""
    picture = fragment_picture(fragment("d"), MMA).svg
    wanted = [
        [f"T{4 * (row % 8) + column // 2} V{2 * (row // 8) + column % 2}" for column in range(8)] for row in range(16)
    ]
    assert cells(picture) == wanted
    assert labels(picture, "title") == [MMA]
    assert labels(picture, "heading") == ["d: (row, column) of D, 16 x 8"]
    assert labels(picture, "row") == [str(row) for row in range(16)]


def test_a_thread_value_layout_draws_the_same() -> None:
    """CuTe's SM80_16x8 C layout, (T32,V4) -> (M16,N8)."""
    layout = parse("((_4,_8),(_2,_2)):((_32,_1),(_16,_8))")
    picture = pictures.thread_values(layout, (16, 8)).svg
    same = fragment_picture(fragment("d"), MMA).svg
    assert (cells(picture), boxes(picture)) == (cells(same), boxes(same))
    assert labels(picture, "title") == [str(layout)]


def test_dynamic_layouts_have_plain_numbers() -> None:
    picture = pictures.thread_values(parse("((4,8),(2,2)):((32,1),(16,8))"), (16, 8)).svg
    assert cells(picture)[0][:2] == ["T0 V0", "T0 V1"]


def test_elements_that_several_threads_hold() -> None:
    picture = pictures.thread_values(Layout((4, 2), (0, 1)), (2, 2)).svg
    assert cells(picture) == [["T0 V0 T1 V0 +2"], ["T0 V1 T1 V1 +2"]]
    assert len(boxes(picture)) == 4
    assert "T0 V0, T1 V0, T2 V0, T3 V0" in picture


def test_threads_of_a_warp_have_colours_of_their_own() -> None:
    assert len(set(palette())) == 32
    picture = pictures.thread_values(Layout((32, 1), (1, 0)), (32, 1)).svg
    assert [fill for *_, fill in boxes(picture)] == list(palette())


@pytest.mark.parametrize("family", ["mma", "tcgen05_memory", "matrix_move"])
def test_a_fragment_of_each_kind_can_be_drawn(family: str) -> None:
    drawn = set()
    for each in FAMILIES[family]():
        for held in fragment_maps(each):
            if held.elements > 16 or (kind := (each.opcode, held.operand, held.elements)) in drawn:
                continue
            drawn.add(kind)
            shown = cells(fragment_picture(held).svg)
            held_by_each = ((thread, index) for thread in range(held.threads) for index in range(held.elements))
            assert sum(map(len, shown)) == len({held.position(*one) for one in held_by_each})
    assert drawn


def test_banks_of_a_swizzled_tile() -> None:
    """128-byte swizzle: the 16 bytes number c of row r are in the banks from 4 (c xor r) on."""
    picture = pictures.banks(gmma_atom(Major.K, SwizzleMode.B128, f16), 16).svg
    wanted = [[str((4 * (column // 8 ^ row) + column % 8 // 2) % 32) for column in range(64)] for row in range(8)]
    assert cells(picture) == wanted
    colours = palette()
    assert [fill for *_, fill in boxes(picture)] == [colours[int(bank)] for line in wanted for bank in line]


def legend(picture: str) -> list[tuple[str, str]]:
    """Colours and texts of the legend."""
    groups = [each for each in ElementTree.fromstring(picture).iter(f"{SVG}g") if each.get("class") == "legend"]
    return [(each[0].get("fill", ""), each[1].text or "") for each in groups]


@pytest.mark.parametrize("draw", [pictures.banks, pictures.memory])
def test_the_legend_names_four_banks_with_a_colour_of_one_of_them(draw: Callable[..., pictures.Picture]) -> None:
    entries = legend(draw(Layout((32, 1)), 32).svg)
    assert [words for _, words in entries] == [f"banks {first}-{first + 3}" for first in range(0, 32, 4)]
    for group, (fill, _) in enumerate(entries):
        assert fill in palette()[4 * group : 4 * group + 4]


def test_memory_under_a_swizzle() -> None:
    """Byte 128 r + 16 u holds row r, columns from 8 (u xor r) on; its colour is that of the bank of that column."""
    picture = pictures.memory(gmma_atom(Major.K, SwizzleMode.B128, f16), 16).svg
    columns = [[8 * (bank // 4 ^ line) + bank % 4 * 2 for bank in range(32)] for line in range(8)]
    assert cells(picture) == [[f"{line},{column}" for column in columns[line]] for line in range(8)]
    assert [fill for *_, fill in boxes(picture)] == [palette()[column // 2] for line in columns for column in line]
    assert labels(picture, "row") == [str(128 * line) for line in range(8)]


def test_memory_that_nothing_lies_in_is_empty() -> None:
    picture = pictures.memory(Layout((4, 2), (1, 48)), 32).svg
    assert cells(picture) == [["0,0", "1,0", "2,0", "3,0"], ["0,1", "1,1", "2,1", "3,1"]]
    assert len(boxes(picture)) == 64


def test_an_access_has_a_line_for_each_wavefront() -> None:
    access = bank_conflicts(Layout(32, 8), 32, 4)
    assert cells(access.svg()) == [[f"T{turn * 4 + bank}" for bank in range(4)] for turn in range(8)]
    assert labels(access.svg(), "title") == ["_32:_8"]
    assert labels(access.svg(), "heading")[0] == "8 wavefronts, 7 for bank conflicts"
    assert labels(access.svg(), "row") == ["0: 0-31"] * 8


def test_threads_that_share_a_word_stand_together() -> None:
    rows = cells(bank_conflicts([4 * (thread // 4) for thread in range(32)]).svg())
    assert rows == [[f"T{thread} +3" for thread in range(0, 32, 4)]]


def test_pictures_are_shown_and_saved(tmp_path: Path) -> None:
    picture = pictures.banks(Layout((4, 4)), 32)
    picture.save(tmp_path / "tile.svg")
    assert (tmp_path / "tile.svg").read_text(encoding="utf-8") == picture._repr_svg_() == picture.svg
    access = bank_conflicts(Layout(32), 32)
    assert access._repr_svg_() == access.svg()


@pytest.mark.parametrize(
    ("layout", "words"),
    [(Layout(32), "it has 1 modes"), (Layout((32, 4)), "its index 64 is not in the tile of 64 elements")],
)
def test_a_layout_that_is_none_of_threads_and_values(layout: Layout, words: str) -> None:
    with pytest.raises(DiagnosticError) as error:
        pictures.thread_values(layout, (8, 8))
    (found,) = error.value.diagnostics
    assert found.rule_id == "picture.tile"
    assert words in found.message


def test_the_legend_names_the_groups_that_come_first() -> None:
    """Warps 0 to 2 have an element a thread; an element that 8 threads have is the first group's."""
    warps = [text for _, text in legend(pictures.thread_values(Layout((96, 1)), (32, 3), group=32).svg)]
    fours = [text for _, text in legend(pictures.thread_values(Layout((8, 1), (0, 1)), (1, 1), group=4).svg)]
    assert warps == ["W0", "W1", "W2", "W group of 32 threads, T thread of it, V its value"]
    assert fours == ["G0", "G group of 4 threads, T thread of it, V its value"]
